//! A plan for people.

use crate::change::{Sign, body, title};
use crate::earlier_runs::earlier_runs;
use crate::names::fold_names;
use crate::packages::transaction;
use crate::text::{Line, Look, Text, Tone};
use converge_engine::{FleetPlan, HostEntry, HostResult, Purpose, TargetError};
use converge_objects::traits_of;
use converge_planner::{Guard, HostPlan, Item, ItemGuard, ItemOrigin, Outcome, PlannedChange, Summary};
use converge_resource::{Content, Digest, Disruption, counted};
use std::collections::BTreeMap;

const ROLE: usize = 2;
const ITEM: usize = 4;
const BODY: usize = 8;
/// Batches that are named one by one.
const SHOWN_BATCHES: usize = 4;

/// The whole plan: hosts with the same plan together, a summary at the end.
pub fn plan(fleet: &FleetPlan, look: &Look) -> Text {
    let mut text = Text::new();
    push_purpose(&mut text, fleet);
    // Those of a project are reported with their places when it is loaded.
    for warning in fleet.warnings.iter().filter(|_| fleet.purpose != Purpose::Converge) {
        text.prose(0, Tone::Warn, "warning: ", warning);
    }
    let mut groups: Vec<(Text, Vec<&HostPlan>)> = Vec::new();
    for plan in fleet.planned() {
        let drawn = host_body(plan, look);
        match groups.iter_mut().find(|(t, p)| {
            *t == drawn
                && p.iter().all(|p| p.summary() == plan.summary() && p.disruption() == plan.disruption())
        }) {
            Some((_, hosts)) => hosts.push(plan),
            None => groups.push((drawn, vec![plan])),
        }
    }
    // Groups without details come first.
    groups.sort_by_key(|(drawn, _)| !drawn.is_empty());
    for (drawn, hosts) in groups {
        text.gap();
        let names: Vec<&str> = hosts.iter().map(|h| h.host.as_str()).collect();
        let summary = hosts.first().map(|h| h.summary()).unwrap_or_default();
        let disruption = hosts.iter().map(|h| h.disruption()).max().unwrap_or_default();
        text.push(host_header(&names, summary, disruption));
        text.append(drawn);
    }
    push_lost(&mut text, fleet);
    push_order(&mut text, fleet);
    text.gap();
    text.push(total(fleet));
    text
}

/// One resolved item of a host during an apply: as in the plan, below the host's name.
pub(crate) fn resolved(host: &str, item: &Item, contents: &BTreeMap<Digest, Content>, look: &Look) -> Text {
    let mut text = Text::new();
    let mut drawn = item_text(item, contents, look);
    if drawn.is_empty() {
        drawn.push(Line::at(ITEM).faint(format!("= {} · unchanged", item.address)));
    }
    text.push(Line::at(0).say(Tone::Strong, host).faint(" · resolved"));
    text.append(drawn);
    text
}

/// Which hosts go when, for plays with several batches.
fn push_order(text: &mut Text, fleet: &FleetPlan) {
    if !fleet.order.is_empty() {
        text.gap();
    }
    for order in &fleet.order {
        let what = if order.serial { "rolling update" } else { "rolling update of disruptive changes" };
        let names: Vec<String> = order
            .batches
            .iter()
            .map(|batch| fold_names(&batch.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        let line = Line::at(0).plain("Play ").say(Tone::Strong, order.play.as_str());
        let line = line.plain(
            format!(": {what}, {}: ", counted(order.batches.len(), "batch")).replace("batchs", "batches"),
        );
        let shown: Vec<&str> = names.iter().take(SHOWN_BATCHES).map(String::as_str).collect();
        let more = names.len().saturating_sub(shown.len());
        let rest = if more > 0 { format!(", then {more} more") } else { String::new() };
        text.push(line.plain(shown.join(", then ")).faint(rest).fold(2));
    }
}

fn push_purpose(text: &mut Text, fleet: &FleetPlan) {
    let of = match &fleet.purpose {
        Purpose::Converge => return,
        Purpose::Rollback(_) => String::new(),
        Purpose::RollbackOf { roles, .. } => format!(" of {}", roles.join(", ")),
    };
    // Of a host whose records could not be read, nobody knows whether it has one.
    let is_read = |host: &HostEntry| matches!(host.result, HostResult::Planned(_));
    if fleet.returns.is_empty() && fleet.hosts.iter().any(is_read) {
        let all = if fleet.hosts.iter().all(is_read) { "" } else { " that answered" };
        let none = format!(": no host{all} has a run to roll back");
        text.push(Line::at(0).say(Tone::Strong, "Rollback").plain(none));
    }
    for to in &fleet.returns {
        let hosts: Vec<&str> = to.hosts.iter().map(String::as_str).collect();
        let line = Line::at(0)
            .say(Tone::Strong, format!("Rollback{of}"))
            .plain(" to the state before run ")
            .say(Tone::Strong, to.run.as_str());
        text.push(line.faint(format!(" on {}", fold_names(&hosts))).fold(2));
        let parts = [
            ("", to.time.clone()),
            ("playbook ", to.playbook.clone()),
            ("inventory ", to.inventory.clone()),
            ("roles ", to.roles.join(", ")),
            ("", to.operator.clone()),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(of, what)| format!("{of}{what}"))
            .collect();
        text.push(Line::at(2).faint(shown.join(" · ")).fold(4));
    }
}

fn host_header(names: &[&str], summary: Summary, disruption: Disruption) -> Line {
    let mut line = Line::at(0).say(Tone::Strong, fold_names(names)).faint(" · ").fold(2);
    if names.len() > 1 {
        line = line.faint(format!("{} hosts, each: ", names.len()));
    }
    let line = push_counts(line, summary, &[]);
    if disruption.is_some() { line.faint(" · ").say(Tone::Warn, disruption.to_string()) } else { line }
}

pub(crate) fn push_counts(mut line: Line, s: Summary, lost: &[String]) -> Line {
    let pending = s.changed + s.deferred + s.failed + s.refused;
    let mut parts: Vec<(Tone, String)> = Vec::new();
    if s.changed > 0 {
        parts.push((Tone::Change, format!("{} to change", s.changed)));
    }
    if s.deferred > 0 {
        parts.push((Tone::Change, format!("{} deferred", s.deferred)));
    }
    let errors = s.failed.saturating_sub(s.blocked);
    if errors > 0 {
        parts.push((Tone::Bad, counted(errors, "error")));
    }
    if s.blocked > 0 {
        parts.push((Tone::Bad, format!("{} blocked", s.blocked)));
    }
    if s.refused > 0 {
        parts.push((Tone::Bad, format!("{} refused", s.refused)));
    }
    if pending == 0 && s.unchanged + s.skipped > 0 {
        parts.push((Tone::Good, "nothing to change".to_owned()));
    }
    if s.unchanged > 0 {
        parts.push((Tone::Plain, format!("{} unchanged", s.unchanged)));
    }
    if s.skipped > 0 {
        parts.push((Tone::Faint, format!("{} skipped", s.skipped)));
    }
    parts.extend(lost.iter().map(|l| (Tone::Bad, l.clone())));
    if parts.is_empty() {
        parts.push((Tone::Good, "nothing to do".to_owned()));
    }
    for (i, (tone, part)) in parts.into_iter().enumerate() {
        line = line.plain(if i > 0 { ", " } else { "" }).say(tone, part);
    }
    line
}

fn total(fleet: &FleetPlan) -> Line {
    let mut sum = Summary::default();
    for s in fleet.planned().map(HostPlan::summary) {
        sum.unchanged += s.unchanged;
        sum.changed += s.changed;
        sum.deferred += s.deferred;
        sum.skipped += s.skipped;
        sum.failed += s.failed;
        sum.blocked += s.blocked;
        sum.refused += s.refused;
    }
    let lost = |word: &str| {
        let is = |r: &HostResult| matches!(r, HostResult::Lost(l) if l.word() == word);
        fleet.hosts.iter().filter(|h| is(&h.result)).count()
    };
    let hosts = machines(fleet.hosts.len(), fleet.clusters.len());
    let line = Line::at(0).say(Tone::Strong, format!("{hosts}: ")).fold(2);
    let parts = ["unreachable", "login refused", "refused", "in maintenance"].map(|word| (lost(word), word));
    let parts: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", counted(*n, "host")))
        .collect();
    push_counts(line, sum, &parts)
}

/// `3 hosts`, `2 hosts, 1 cluster`
pub(crate) fn machines(all: usize, clusters: usize) -> String {
    let hosts = all.saturating_sub(clusters);
    match (hosts, clusters) {
        (_, 0) => counted(hosts, "host"),
        (0, _) => counted(clusters, "cluster"),
        _ => format!("{}, {}", counted(hosts, "host"), counted(clusters, "cluster")),
    }
}

fn push_lost(text: &mut Text, fleet: &FleetPlan) {
    let mut groups: Vec<(&TargetError, Vec<&str>)> = Vec::new();
    for host in &fleet.hosts {
        if let HostResult::Lost(lost) = &host.result {
            match groups.iter_mut().find(|(l, _)| *l == lost) {
                Some((_, hosts)) => hosts.push(&host.host),
                None => groups.push((lost, vec![&host.host])),
            }
        }
    }
    for (lost, hosts) in groups {
        text.gap();
        text.append(lost_host(&fold_names(&hosts), lost));
    }
}

/// A host that is out of the run, and why.
pub(crate) fn lost_host(names: &str, lost: &TargetError) -> Text {
    let mut text = Text::new();
    let tone = if *lost == TargetError::Maintenance { Tone::Warn } else { Tone::Bad };
    text.push(Line::at(0).say(Tone::Strong, names).faint(" · ").say(tone, lost.word()).fold(2));
    text.append(lost_why(lost, 2));
    text
}

/// The reason why a host is excluded from the run.
pub(crate) fn lost_why(lost: &TargetError, indent: usize) -> Text {
    let mut text = Text::new();
    text.prose(indent, Tone::Plain, "", &lost.to_string());
    text
}

/// All items of a host that are to be shown, by role. Empty when nothing is.
fn host_body(plan: &HostPlan, look: &Look) -> Text {
    let mut roles: Vec<(&str, Text)> = Vec::new();
    for item in &plan.items {
        let drawn = item_text(item, &plan.contents, look);
        if drawn.is_empty() {
            continue;
        }
        match roles.iter_mut().find(|(r, _)| *r == item.role) {
            Some((_, text)) => text.append(drawn),
            None => roles.push((&item.role, drawn)),
        }
    }
    let mut text = Text::new();
    for (role, drawn) in roles {
        text.push(Line::at(ROLE).say(Tone::Place, role));
        text.append(drawn);
    }
    text.append(earlier_runs(plan));
    text
}

/// The action of an item in a few words.
pub(crate) fn item_summary(item: &Item) -> String {
    let single = |c: &&PlannedChange| !traits_of(&c.change.object).one_transaction;
    match item.changes() {
        [one] if single(&one) => title(&one.change, item.sensitive),
        _ => item.kind.clone(),
    }
}

/// Its name as the user wrote it, with the key of `for_each`.
pub(crate) fn label(item: &Item) -> &str {
    item.address.strip_prefix(&item.role).and_then(|r| r.strip_prefix('/')).unwrap_or(&item.name)
}

pub(crate) fn item_text(item: &Item, contents: &BTreeMap<Digest, Content>, look: &Look) -> Text {
    let mut text = Text::new();
    let head =
        |sign: &str, tone: Tone| Line::at(ITEM).say(tone, format!("{sign} ")).say(Tone::Strong, label(item));
    match &item.outcome {
        Outcome::Unchanged if look.verbose => {
            text.push(head("=", Tone::Good).faint(format!(" · {} unchanged", item.kind)));
        }
        Outcome::Skipped(why) if look.verbose => {
            text.push(head("·", Tone::Faint).faint(format!(" · skipped: {why}")).fold(6));
        }
        Outcome::Unchanged | Outcome::Skipped(_) => return text,
        Outcome::Forget(_) => {
            text.push(head("·", Tone::Faint).faint(" · only taken out of the records").fold(6));
        }
        Outcome::Adopt(_) => {
            text.push(head("=", Tone::Good).faint(" · adopt: unchanged, only a record is written").fold(6));
        }
        Outcome::Changed(changes) => push_changed(&mut text, item, changes, contents, look),
        Outcome::Deferred { wait, objects } => {
            text.push(head("?", Tone::Change).faint(format!(" · {} deferred", item.kind)));
            let lead = if wait.item.is_empty() {
                "waits: ".to_owned()
            } else {
                format!("waits for {}: ", wait.item)
            };
            text.prose(BODY, Tone::Plain, &lead, &wait.reason);
            let names: Vec<String> = objects
                .iter()
                // A wait changes nothing.
                .filter(|o| !traits_of(o).key_is_text && !traits_of(o).passes)
                .map(|o| format!("{} {}", o.kind, o.key))
                .collect();
            if !names.is_empty() {
                text.push(Line::at(BODY).faint(format!("may change {}", names.join(", "))).fold(BODY + 2));
            }
            if item.disruption.is_some() {
                text.push(
                    Line::at(BODY)
                        .say(Tone::Warn, format!("may {}", item.disruption.possible()))
                        .fold(BODY + 2),
                );
            }
            push_guard(&mut text, item);
        }
        Outcome::Refused(why) => {
            text.push(head("✗", Tone::Bad).faint(format!(" · {}: ", item.kind)).say(Tone::Bad, "refused"));
            text.prose(BODY, Tone::Plain, "", why);
        }
        Outcome::Failed(problem) => {
            let verdict = match item.origin {
                _ if problem.blocked => "blocked",
                ItemOrigin::Declared => "error on this host",
                ItemOrigin::Rollback | ItemOrigin::Prune => "cannot be done",
            };
            text.push(head("✗", Tone::Bad).faint(format!(" · {}: ", item.kind)).say(Tone::Bad, verdict));
            text.prose(BODY, Tone::Plain, "", &problem.message);
            let at = problem.at.as_deref().unwrap_or(&item.location);
            let pointer = problem.pointer.trim_start_matches('/').replace('/', ".");
            let what = if pointer.is_empty() { String::new() } else { format!(" ({pointer})") };
            if !at.is_empty() {
                text.push(Line::at(BODY).faint(format!("at {at}{what}")));
            }
            if let Some(help) = &problem.help {
                text.prose(BODY, Tone::Plain, "help: ", help);
            }
        }
    }
    if look.verbose && !item.location.is_empty() && !matches!(item.outcome, Outcome::Failed(_)) {
        text.push(Line::at(BODY).faint(format!("at {}", item.location)));
    }
    for note in &item.notes {
        text.prose(BODY, Tone::Faint, "note: ", note);
    }
    text
}

/// Shows the guard of an item.
fn push_guard(text: &mut Text, item: &Item) {
    let Some(ItemGuard { guard, seconds }) = item.guard else { return };
    let by = match guard {
        Guard::Ssh | Guard::Network => "by a new connection",
        Guard::Runtime => "by a new connection, CRI and the node",
    };
    let line = format!("guarded: reverted automatically unless confirmed {by} within {seconds} s");
    text.push(Line::at(BODY).faint(line).fold(BODY + 2));
}

fn push_changed(
    text: &mut Text,
    item: &Item,
    changes: &[PlannedChange],
    contents: &BTreeMap<Digest, Content>,
    look: &Look,
) {
    let sign = Sign::of_all(changes.iter().map(|c| &c.change));
    let head = Line::at(ITEM).say(sign.tone(), format!("{} ", sign.mark())).say(Tone::Strong, label(item));
    let (packages, others): (Vec<&PlannedChange>, Vec<&PlannedChange>) =
        changes.iter().partition(|c| traits_of(&c.change.object).one_transaction);
    let alone = others.len() == 1 && packages.is_empty();
    match others.first() {
        Some(one) if alone => {
            text.push(head.faint(" · ").plain(title(&one.change, item.sensitive)).fold(BODY));
            text.append(body(one, item.sensitive, contents, BODY, look));
        }
        _ => {
            text.push(head.faint(format!(" · {}", item.kind)));
            text.append(transaction(&packages, BODY));
            for one in &others {
                let sign = Sign::of(&one.change);
                let line = Line::at(BODY).say(sign.tone(), format!("{} ", sign.mark()));
                text.push(line.plain(title(&one.change, item.sensitive)).fold(BODY + 2));
                text.append(body(one, item.sensitive, contents, BODY + 4, look));
            }
        }
    }
    if item.disruption.is_some() {
        text.push(Line::at(BODY).say(Tone::Warn, item.disruption.to_string()).fold(BODY + 2));
    }
    push_guard(text, item);
    if changes.iter().any(|c| c.opaque) {
        text.push(
            Line::at(BODY)
                .faint("runs package scripts or commands: later resources are re-checked")
                .fold(BODY + 2),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_no_hosts() {
        for (all, clusters, expected) in
            [(1, 0, "1 host"), (3, 1, "2 hosts, 1 cluster"), (1, 1, "1 cluster"), (0, 0, "0 hosts")]
        {
            assert_eq!(machines(all, clusters), expected);
        }
    }
    use crate::samples::{fleet, idle, lost, rich, small};

    fn plain(fleet: &FleetPlan) -> String {
        plan(fleet, &Look::PLAIN).draw(&Look::PLAIN)
    }

    #[test]
    fn one_of_everything() {
        insta::assert_snapshot!(plain(&fleet(vec![rich("web1")])));
    }

    #[test]
    fn one_of_everything_coloured_and_narrow() {
        let look = Look { color: true, width: Some(64), ..Look::PLAIN };
        insta::assert_snapshot!(plan(&fleet(vec![rich("web1")]), &look).draw(&look));
    }

    #[test]
    fn equal_hosts_are_folded() {
        let mut plans: Vec<HostPlan> = (1..=20).map(|n| small(&format!("gpu{n:02}"))).collect();
        plans.extend([idle("db1"), idle("db2")]);
        let mut fleet = fleet(plans);
        fleet.hosts.extend([lost("gpu21", true), lost("gpu22", true), lost("bad", false)]);
        fleet.warnings.push("the pattern `gup*` matches no host".into());
        insta::assert_snapshot!(plain(&fleet));
    }

    #[test]
    fn verbose_shows_what_stays() {
        let look = Look { verbose: true, ..Look::PLAIN };
        let drawn = plan(&fleet(vec![small("a")]), &look).draw(&look);
        assert!(
            drawn.contains("    = time zone · link unchanged\n        at roles/motd/role.yaml:13\n"),
            "{drawn}"
        );
        assert!(!plain(&fleet(vec![small("a")])).contains("time zone"));
    }

    #[test]
    fn a_rollback_says_to_where() {
        let mut fleet = fleet(vec![small("a"), small("b")]);
        fleet.purpose = Purpose::Rollback(vec![("a".into(), "run-1".into()), ("b".into(), "run-1".into())]);
        assert!(plain(&fleet).starts_with("Rollback: no host has a run to roll back\n"));
        fleet.hosts.push(lost("gone", true));
        assert!(plain(&fleet).starts_with("Rollback: no host that answered has a run to roll back\n"));
        let planned: Vec<HostEntry> = fleet.hosts.drain(..2).collect();
        assert!(!plain(&fleet).contains("has a run"), "one message for one cause");
        fleet.hosts = planned;
        fleet.returns.push(converge_engine::Return {
            run: "run-1".into(),
            time: "2026-11-21T08:00:00Z".into(),
            operator: "ada@desk".into(),
            playbook: "site.yaml".into(),
            inventory: "prod.yaml".into(),
            roles: vec!["base".into(), "web".into()],
            hosts: vec!["a".into(), "b".into()],
        });
        let drawn = plain(&fleet);
        let wanted = "Rollback to the state before run run-1 on a, b\n  2026-11-21T08:00:00Z · playbook site.yaml · \
            inventory prod.yaml · roles base, web · ada@desk\n\na, b · 2 hosts, each: ";
        assert!(drawn.starts_with(wanted), "{drawn}");
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let drawn = plain(&fleet(vec![rich("web1")]));
        assert!(drawn.contains("content is sensitive: changes"), "{drawn}");
        let digest = Digest::of(b"hunter2\n");
        assert!(!drawn.contains("hunter2") && !drawn.contains(digest.short()), "{drawn}");
    }
}
