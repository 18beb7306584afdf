//! The documents of `--output json`. Each names its format and version; fields may be added within one version.
//!
//! They are built by hand, so that nothing of a sensitive item gets in by being added to a type elsewhere.

use crate::change::{ContentChange, Sign, attributes, content, title};
use crate::diff::unified;
use crate::documents::{DoctorDocument, Lost, to_json};
use crate::earlier_runs::earlier_runs_json;
use crate::report::Counts;
use crate::text::steers;
use crate::timings::Slow;
use converge_engine::{
    ApplyReport, FleetPlan, HostAnswer, HostDoctor, HostResult, HostSnapshots, HostVerify, ItemResult,
    Purpose, TargetError,
};
use converge_model::VarReport;
use converge_planner::{HostPlan, Item, Outcome, PlannedChange, Summary};
use converge_resource::{Content, Digest, ObjectId, Reversibility, decode_field};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The version of every document.
pub(crate) const VERSION: u32 = 1;

/// A plan.
pub fn plan_json(fleet: &FleetPlan) -> Value {
    let purpose = match &fleet.purpose {
        Purpose::Converge => json!({"kind": "converge"}),
        Purpose::Rollback(runs) => {
            let runs: Vec<Value> = runs.iter().map(|(h, r)| json!({"host": h, "run": r})).collect();
            json!({"kind": "rollback", "before": runs})
        }
        Purpose::RollbackOf { roles, before } => {
            let runs: Vec<Value> = before.iter().map(|(h, r)| json!({"host": h, "run": r})).collect();
            json!({"kind": "rollback", "roles": roles, "before": runs})
        }
    };
    let hosts: Vec<Value> = fleet
        .hosts
        .iter()
        .map(|entry| match &entry.result {
            HostResult::Planned(plan) => host(plan),
            HostResult::Lost(l) => json!({"host": entry.host, "result": "lost", "lost": lost(l)}),
        })
        .collect();
    json!({
        // A plan that is kept has the name `converge-plan`; this one cannot be applied.
        "format": "converge-plan-report",
        "version": VERSION,
        "id": fleet.id,
        "created": fleet.created,
        "purpose": purpose,
        "exit_code": fleet.exit_code(),
        "hosts": hosts,
        "warnings": fleet.warnings,
        "order": fleet.order,
    })
}

pub(crate) fn lost(lost: &TargetError) -> Value {
    to_json(&Lost::from(lost))
}

fn summary(s: Summary) -> Value {
    json!({
        "unchanged": s.unchanged,
        "changed": s.changed,
        "deferred": s.deferred,
        "not_applicable": s.skipped,
        "failed": s.failed,
        "refused": s.refused,
    })
}

fn host(plan: &HostPlan) -> Value {
    let items: Vec<Value> = plan.items.iter().map(|i| item(i, &plan.contents)).collect();
    json!({
        "host": plan.host,
        "result": "planned",
        "summary": summary(plan.summary()),
        "disruption": plan.disruption(),
        "items": items,
        "records": earlier_runs_json(plan),
    })
}

fn item(item: &Item, contents: &BTreeMap<Digest, Content>) -> Value {
    let mut out = head(item);
    let mut set = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    match &item.outcome {
        Outcome::Unchanged => set("result", "unchanged".into()),
        // Users of the document know one word for both: `kind` tells them apart.
        Outcome::Adopt(_) | Outcome::Forget(_) => set("result", "adopt".into()),
        Outcome::Changed(changes) => {
            set("result", "change".into());
            set("changes", changes.iter().map(|c| change(c, item.sensitive, contents)).collect());
        }
        Outcome::Deferred { wait, objects } => {
            set("result", "deferred".into());
            set("waits_for", json!({"item": wait.item, "reason": wait.reason}));
            set("may_change", objects.iter().map(|o| object(o, item.sensitive)).collect());
        }
        Outcome::Skipped(why) => {
            set("result", "not_applicable".into());
            set("reason", why.as_str().into());
        }
        Outcome::Refused(why) => {
            set("result", "refused".into());
            set("reason", why.as_str().into());
        }
        Outcome::Failed(p) => {
            set("result", "failed".into());
            set("problem", json!({"message": p.message, "help": p.help, "parameter": p.pointer, "at": p.at}));
        }
    }
    set("notes", json!(item.notes));
    Value::Object(out)
}

fn head(item: &Item) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in [
        ("id", json!(item.id)),
        ("address", json!(item.address)),
        ("name", json!(item.name)),
        ("role", json!(item.role)),
        ("kind", json!(item.kind)),
        ("origin", json!(item.location)),
        ("sensitive", json!(item.sensitive)),
        ("disruption", json!(item.disruption)),
        ("guard", json!(item.guard)),
    ] {
        out.insert(key.to_owned(), value);
    }
    if let Some(id) = &item.item_id {
        out.insert("item_id".to_owned(), id.as_str().into());
    }
    out
}

/// A command's key holds its text, word by word encoded, which may hold a secret.
pub(crate) fn object(object: &ObjectId, sensitive: bool) -> Value {
    let is_text = converge_objects::traits_of(object).key_is_text;
    let key = if is_text { readable(&object.key) } else { object.key.clone() };
    json!({"kind": object.kind, "key": if sensitive && is_text { None } else { Some(key) }})
}

/// The words of a key as people write them, without those that are empty.
fn readable(key: &str) -> String {
    let words = key.split(' ').map(|word| decode_field(word).unwrap_or_else(|| word.to_owned()));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn change(planned: &PlannedChange, sensitive: bool, contents: &BTreeMap<Digest, Content>) -> Value {
    let change = &planned.change;
    let attributes: Vec<Value> = attributes(change, sensitive)
        .into_iter()
        .map(|a| json!({"name": a.name, "before": a.before, "after": a.after}))
        .collect();
    let side =
        |s: Option<(Option<u64>, Digest)>| s.map(|(size, d)| json!({"size": size, "sha256": d.as_str()}));
    let content = content(change, sensitive, contents).map(|c| match c {
        ContentChange::Sensitive => json!({"sensitive": true}),
        ContentChange::Text { old, new } => {
            json!({"diff": unified(&old.unwrap_or_default(), &new.unwrap_or_default())})
        }
        ContentChange::Opaque { old, new } => json!({"before": side(old), "after": side(new)}),
    });
    let irreversible = match &planned.reversibility {
        Reversibility::Reversible => None,
        Reversibility::Irreversible(why) => Some(why),
    };
    json!({
        "object": object(&change.object, sensitive),
        "action": Sign::of(change).word(),
        "title": title(change, sensitive),
        "attributes": attributes,
        "content": content,
        "reversible": irreversible.is_none(),
        "irreversible_because": irreversible,
        "opaque": planned.opaque,
    })
}

/// A document as text. What would do something to a terminal is written as JSON's own escapes.
pub fn json_text(document: &Value) -> String {
    let mut out = String::new();
    for c in format!("{document:#}\n").chars() {
        if steers(c) {
            let _infallible = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The results of an apply; of a rollback also the `checks` after it.
pub fn apply_json(report: &ApplyReport, checks: &[HostVerify], slowest: &[Slow]) -> Value {
    let hosts: Vec<Value> = report
        .hosts
        .iter()
        .map(|host| {
            let c = Counts::of(host.items.iter().map(|(_, r)| r));
            json!({
                "host": host.host,
                "summary": {
                    "changed": c.changed,
                    "unchanged": c.unchanged,
                    "not_applicable": c.not_applicable,
                    "failed": c.failed,
                    "refused": c.refused,
                    "skipped": c.skipped,
                    "not_begun": c.stopped,
                    "put_back": c.put_back,
                    "unknown": c.unknown,
                },
                "items": host.items.iter().map(|(i, r)| applied(i, r, host.times.get(&i.address))).collect::<Vec<_>>(),
                "lost": host.lost.as_ref().map(lost),
                "differences": host.differences,
                "seconds": host.took.as_secs_f64(),
            })
        })
        .collect();
    json!({
        "format": "converge-apply",
        "version": VERSION,
        "run": report.run,
        "exit_code": report.exit_code(),
        "seconds": report.took.as_secs_f64(),
        "critical_path": report.critical_path.iter().map(|s| json!({
            "host": s.host, "address": s.address, "seconds": s.took.as_secs_f64(),
        })).collect::<Vec<_>>(),
        "slowest": slowest.iter().map(Slow::json).collect::<Vec<_>>(),
        "hosts": hosts,
        "checks": checked(checks),
    })
}

fn applied(item: &Item, result: &ItemResult, took: Option<&Duration>) -> Value {
    let mut out = head(item);
    out.insert("seconds".to_owned(), json!(took.map(Duration::as_secs_f64)));
    out.insert("notes".to_owned(), json!(item.notes));
    let mut set = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    match result {
        ItemResult::Changed => set("result", "changed".into()),
        ItemResult::Unchanged => set("result", "unchanged".into()),
        ItemResult::NotApplicable { why } => {
            set("result", "not_applicable".into());
            set("reason", why.as_str().into());
        }
        ItemResult::Failed { message, output } => {
            set("result", "failed".into());
            set("message", message.as_str().into());
            if !item.sensitive {
                set("output", output.as_str().into());
            }
        }
        ItemResult::Refused { message } => {
            set("result", "refused".into());
            set("message", message.as_str().into());
        }
        ItemResult::Skipped { because } => {
            set("result", "skipped".into());
            set("because", because.as_str().into());
        }
        ItemResult::Stopped => set("result", "not_begun".into()),
        ItemResult::PutBack { message, output } => {
            set("result", "put_back".into());
            set("message", message.as_str().into());
            if !item.sensitive {
                set("output", output.as_str().into());
            }
        }
        ItemResult::Unknown { message } => {
            set("result", "unknown".into());
            set("message", message.as_str().into());
        }
    }
    Value::Object(out)
}

/// The facts of all hosts.
pub fn facts_json(all: &[HostAnswer]) -> Value {
    let hosts: Vec<Value> = all
        .iter()
        .map(|h| match &h.result {
            Ok(facts) => json!({"host": h.host, "facts": facts, "lost": null}),
            Err(l) => json!({"host": h.host, "facts": null, "lost": lost(l)}),
        })
        .collect();
    json!({"format": "converge-facts", "version": VERSION, "hosts": hosts})
}

/// One fact of all hosts.
pub fn fact_json(name: &str, values: &[(String, Value)], all: &[HostAnswer]) -> Value {
    let hosts: Vec<Value> = all
        .iter()
        .map(|h| {
            let value = values.iter().find(|(host, _)| *host == h.host).map(|(_, value)| value);
            json!({"host": h.host, "value": value, "lost": h.result.as_ref().err().map(lost)})
        })
        .collect();
    json!({"format": "converge-fact", "version": VERSION, "name": name, "hosts": hosts})
}

/// The findings of `converge doctor`, as a document.
pub fn doctor_json(all: &[HostDoctor]) -> Value {
    to_json(&DoctorDocument::from(all))
}

/// The runs that can be rolled back.
pub fn snapshots_json(all: &[HostSnapshots]) -> Value {
    let hosts: Vec<Value> = all
        .iter()
        .map(|host| {
            let runs: Vec<Value> = host
                .runs
                .iter()
                .map(|s| {
                    json!({
                        "run": s.run,
                        "time": s.time,
                        "operator": s.operator,
                        "project": s.project,
                        "playbook": s.playbook,
                        "inventory": s.inventory,
                        "roles": s.roles,
                        "purpose": s.purpose,
                        "changes": s.changes,
                        "forgotten": s.forgotten,
                        "finished": s.finished,
                        "rolled_back_by": s.rolled_back_by,
                    })
                })
                .collect();
            json!({"host": host.host, "runs": runs, "lost": host.lost.as_ref().map(lost), "remarks": host.remarks})
        })
        .collect();
    json!({"format": "converge-snapshots", "version": VERSION, "hosts": hosts})
}

/// The results of live checks.
pub fn verify_json(all: &[HostVerify]) -> Value {
    json!({"format": "converge-verify", "version": VERSION, "hosts": checked(all)})
}

fn checked(all: &[HostVerify]) -> Vec<Value> {
    all.iter()
        .map(|host| {
            let checks: Vec<Value> = host
                .checks
                .iter()
                .map(|(address, why)| json!({"address": address, "holds": why.is_none(), "message": why.as_ref().map(ToString::to_string)}))
                .collect();
            json!({"host": host.host, "checks": checks, "lost": host.lost.as_ref().map(lost)})
        })
        .collect()
}

/// The sources of the values of a host's variables.
pub fn vars_json(host: &str, reports: &[VarReport]) -> Value {
    let vars: Vec<Value> = reports
        .iter()
        .map(|report| {
            let candidates: Vec<Value> = report
                .candidates
                .iter()
                .map(|c| {
                    json!({
                        "layer": c.layer.to_string(),
                        "within": c.within,
                        "at": c.key.to_string(),
                        "sensitive": c.sensitive,
                        "value": if c.sensitive { Value::Null } else { c.node.to_json() },
                    })
                })
                .collect();
            let winners: Vec<Value> = report
                .winners
                .iter()
                .map(|w| {
                    let secret = report.candidates.get(w.candidate).is_none_or(|c| c.sensitive);
                    let value = w.value.as_ref().filter(|_| !secret).map(converge_syntax::Node::to_json);
                    json!({"role": w.role, "candidate": w.candidate, "value": value, "why_not": w.why})
                })
                .collect();
            json!({"name": report.name, "candidates": candidates, "winners": winners})
        })
        .collect();
    json!({"format": "converge-vars", "version": VERSION, "host": host, "vars": vars})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_read_back_the_same() {
        let odd = json!({"a\u{9b}": "x\u{202e}y\u{2066}\u{200f}\u{1b}[2J ü"});
        let text = json_text(&odd);
        assert!(text.contains("x\\u202ey\\u2066\\u200f\\u001b[2J ü"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), odd);
    }
    use crate::samples::{fleet, lost, rich};

    #[test]
    fn a_plan_as_a_document() {
        let mut fleet = fleet(vec![rich("web1")]);
        fleet.hosts.push(lost("db1", true));
        insta::assert_snapshot!(serde_json::to_string_pretty(&plan_json(&fleet)).unwrap());
    }

    #[test]
    fn nothing_of_a_secret_is_in_a_document() {
        let mut plan = rich("web1");
        for item in &mut plan.items {
            item.sensitive = true;
        }
        let text = plan_json(&fleet(vec![plan])).to_string();
        for secret in ["hunter2", "daemon-reload", "converged", "LimitNOFILE", "/old.png"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let digest = Digest::of(b"hunter2\n");
        assert!(!text.contains(digest.as_str()));
    }

    #[test]
    fn output_of_a_sensitive_item_is_left_out() {
        let mut item = rich("web1").items.remove(0);
        item.sensitive = true;
        let result = ItemResult::Failed { message: "status 1".into(), output: "hunter2".into() };
        let text = applied(&item, &result, None).to_string();
        assert!(text.contains("status 1") && !text.contains("hunter2"));
    }
}
