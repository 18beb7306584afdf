//! Results of earlier runs on a host: orphaned objects, and an unfinished run.

use crate::text::{Line, Text, Tone};
use converge_planner::{CutOff, Fate, HostPlan, ItemOrigin, Orphan};
use converge_resource::{ObjectId, counted};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names that are listed before the rest is only counted.
const LISTED: usize = 8;

/// The results of earlier runs, shown below the items of a host. With `--prune` the items themselves show the orphaned
/// objects.
pub(crate) fn earlier_runs(plan: &HostPlan) -> Text {
    let mut text = Text::new();
    for remark in &plan.earlier_runs.remarks {
        text.push(Line::at(2).say(Tone::Warn, "records: ").plain(remark.as_str()).fold(4));
    }
    if let Some(run) = &plan.earlier_runs.cut_off {
        push_cut_off(&mut text, run);
    }
    let undeclared = &plan.earlier_runs.undeclared;
    if undeclared.is_empty() || plan.items.iter().any(|i| i.origin == ItemOrigin::Prune) {
        return text;
    }
    let whole = undeclared.iter().filter(|thing| thing.parts.is_none()).count();
    let objects: BTreeSet<&ObjectId> =
        undeclared.iter().filter(|thing| thing.parts.is_some()).map(|thing| &thing.object).collect();
    let owned = counted(plan.earlier_runs.owned, "resource");
    let parts = format!("parts of {} of {owned}", objects.len());
    let what = match (whole, objects.is_empty()) {
        (_, true) => format!("{whole} of {owned}"),
        (0, false) => parts,
        (_, false) => format!("{whole}, and {parts}"),
    };
    let line = Line::at(2).say(Tone::Warn, "orphaned").plain(format!(": {what}"));
    text.push(
        line.faint(" managed by converge; with --prune they are removed or restored to their original state")
            .fold(4),
    );
    for thing in undeclared {
        let (sign, tone, what) = match &thing.fate {
            Fate::Removed => ("-", Tone::Remove, String::new()),
            Fate::GivenBack if thing.parts.is_some() => (
                "~",
                Tone::Change,
                " · no role declares this any more: what was there before comes back, the rest goes"
                    .to_owned(),
            ),
            Fate::GivenBack => {
                ("~", Tone::Change, " · was there before: restored to its original state".to_owned())
            }
            Fate::OwnPartRemoved => (
                "~",
                Tone::Change,
                " · others own parts of it: what this project has set is removed".to_owned(),
            ),
            Fate::Forgotten(why) => ("·", Tone::Faint, format!(" · stays as it is: {why}")),
            Fate::LeftAlone(why) => ("✗", Tone::Bad, format!(" · is left alone: {why}")),
        };
        let line = Line::at(4).say(tone, format!("{sign} ")).say(Tone::Strong, name(thing));
        text.push(line.faint(format!(" · role {}, since {}{what}", thing.role, thing.since)).fold(8));
    }
    text
}

/// A command is known by its item.
fn name(thing: &Orphan) -> String {
    if let Some(parts) = &thing.parts {
        return parts.clone();
    }
    if converge_objects::traits_of(&thing.object).key_is_text {
        format!("{} of {}", thing.object.kind, thing.item)
    } else {
        thing.object.to_string()
    }
}

fn push_cut_off(text: &mut Text, run: &CutOff) {
    let line = Line::at(2).say(Tone::Warn, format!("run {} did not end", run.run));
    let still = if run.busy { "; it may still be at work" } else { "" };
    text.push(line.faint(format!(" · {} · {}{still}", run.operator, run.time)).fold(4));
    if !run.done.is_empty() {
        text.push(Line::at(4).plain("done: ").faint(names(&run.done)).fold(6));
    }
    if let Some((why, items)) = &run.put_back {
        let line = Line::at(4).say(Tone::Bad, "reverted by the host: ").plain(names(items));
        text.push(line.faint(format!(" · {why}")).fold(6));
    }
    for (item, what) in &run.unknown {
        text.push(
            Line::at(4).say(Tone::Warn, "unknown: ").plain(item.as_str()).faint(format!(" · {what}")).fold(6),
        );
    }
    if !run.not_begun.is_empty() {
        text.push(Line::at(4).plain("not begun: ").faint(names(&run.not_begun)).fold(6));
    }
}

fn names(all: &[String]) -> String {
    let some = all.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(LISTED) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// The same in the plan's document.
pub(crate) fn earlier_runs_json(plan: &HostPlan) -> Value {
    let undeclared: Vec<Value> = plan
        .earlier_runs
        .undeclared
        .iter()
        .map(|thing| {
            let (fate, why) = match &thing.fate {
                Fate::Removed => ("removed", None),
                Fate::GivenBack => ("given_back", None),
                Fate::OwnPartRemoved => ("own_part_removed", None),
                Fate::Forgotten(why) => ("forgotten", Some(why)),
                Fate::LeftAlone(why) => ("left_alone", Some(why)),
            };
            let key = if converge_objects::traits_of(&thing.object).key_is_text {
                None
            } else {
                Some(&thing.object.key)
            };
            json!({
                "object": {"kind": thing.object.kind, "key": key},
                "parts": thing.parts,
                "role": thing.role,
                "item": thing.item,
                "since": thing.since,
                "prune": fate,
                "because": why,
            })
        })
        .collect();
    let cut_off = plan.earlier_runs.cut_off.as_ref().map(|run| {
        let unknown: Vec<Value> = run.unknown.iter().map(|(i, w)| json!({"item": i, "now": w})).collect();
        json!({
            "run": run.run,
            "time": run.time,
            "operator": run.operator,
            "busy": run.busy,
            "put_back": run.put_back.as_ref().map(|(why, items)| json!({"because": why, "items": items})),
            "done": run.done,
            "unknown": unknown,
            "not_begun": run.not_begun,
        })
    });
    json!({"owned": plan.earlier_runs.owned, "no_longer_declared": undeclared, "unfinished_run": cut_off, "damaged": plan.earlier_runs.remarks})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::idle;
    use crate::text::Look;

    #[test]
    fn what_is_no_longer_declared_and_what_was_cut_off() {
        let thing = |kind: &str, key: &str, fate: Fate| Orphan {
            object: ObjectId::new(kind, key),
            role: "shop".into(),
            item: "shop/an item".into(),
            since: "2026-11-20T08:00:00Z".into(),
            parts: None,
            fate,
        };
        let mut plan = idle("web1");
        plan.earlier_runs.owned = 31;
        plan.earlier_runs.undeclared = vec![
            thing("path", "/etc/shop", Fate::Removed),
            thing("path", "/etc/issue", Fate::GivenBack),
            thing("k8s", "v1/ConfigMap/n/x", Fate::OwnPartRemoved),
            thing("command", "x", Fate::Forgotten("cannot be restored: the command has no `undo`".into())),
            thing("unit", "shop.service", Fate::LeftAlone("someone else has changed it since".into())),
        ];
        plan.earlier_runs.cut_off = Some(Box::new(CutOff {
            run: "01a1".into(),
            time: "2026-11-21T06:14:47Z".into(),
            operator: "ada@desk".into(),
            busy: false,
            put_back: None,
            done: vec!["shop/a".into()],
            unknown: vec![("shop/b".into(), "path:/b is as it was before".into())],
            not_begun: (1..12).map(|n| format!("shop/{n}")).collect(),
            arrived: Vec::new(),
        }));
        insta::assert_snapshot!(earlier_runs(&plan).draw(&Look::PLAIN));
        assert_eq!(earlier_runs_json(&plan)["no_longer_declared"][4]["prune"], "left_alone");
        assert_eq!(earlier_runs_json(&plan)["no_longer_declared"][3]["object"]["key"], Value::Null);
    }
}
