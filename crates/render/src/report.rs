//! The final report of an apply.

use crate::events::{skip_reason, span, verdict};
use crate::names::fold_names;
use crate::plan::{lost_why, machines};
use crate::text::{Line, Text, Tone};
use crate::timings::{Slow, push_slowest};
use converge_engine::{ApplyReport, HostApply, ItemResult, PathStep};
use converge_planner::{Item, ItemOrigin, Outcome};
use converge_resource::Reversibility;

/// Items of the critical path that are named.
const PATH_STEPS: usize = 5;

/// The number of items of a report by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub changed: usize,
    pub unchanged: usize,
    pub not_applicable: usize,
    pub failed: usize,
    pub put_back: usize,
    pub refused: usize,
    pub skipped: usize,
    pub stopped: usize,
    pub unknown: usize,
}

impl Counts {
    pub(crate) fn of<'a>(results: impl Iterator<Item = &'a ItemResult>) -> Self {
        let mut c = Self::default();
        for result in results {
            match result {
                ItemResult::Changed => c.changed += 1,
                ItemResult::Unchanged => c.unchanged += 1,
                ItemResult::NotApplicable { .. } => c.not_applicable += 1,
                ItemResult::Failed { .. } => c.failed += 1,
                ItemResult::PutBack { .. } => c.put_back += 1,
                ItemResult::Refused { .. } => c.refused += 1,
                ItemResult::Skipped { .. } => c.skipped += 1,
                ItemResult::Stopped => c.stopped += 1,
                ItemResult::Unknown { .. } => c.unknown += 1,
            }
        }
        c
    }

    fn say(self, mut line: Line, nothing: &str) -> Line {
        let parts = [
            (self.changed, "changed", Tone::Good),
            (self.unchanged, "unchanged", Tone::Plain),
            (self.failed, "failed", Tone::Bad),
            (self.put_back, "reverted", Tone::Bad),
            (self.refused, "refused", Tone::Bad),
            (self.unknown, "unknown", Tone::Bad),
            (
                self.skipped + self.not_applicable,
                "skipped",
                if self.skipped > 0 { Tone::Warn } else { Tone::Plain },
            ),
            (self.stopped, "not begun", Tone::Warn),
        ];
        let parts: Vec<(Tone, String)> = parts
            .iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, word, tone)| (*tone, format!("{n} {word}")))
            .collect();
        if parts.is_empty() {
            return line.plain(nothing);
        }
        for (i, (tone, part)) in parts.into_iter().enumerate() {
            line = line.plain(if i > 0 { ", " } else { "" }).say(tone, part);
        }
        line
    }
}

fn results(host: &HostApply) -> impl Iterator<Item = &ItemResult> {
    host.items.iter().map(|(_, r)| r)
}

/// The summary of an apply. `rollback` is the command that puts everything back, `slowest` what it took longest for.
pub fn applied(report: &ApplyReport, rollback: &str, slowest: &[Slow]) -> Text {
    let mut text = Text::new();
    let mut groups: Vec<(Text, Counts, Vec<&str>)> = Vec::new();
    for host in &report.hosts {
        let counts = Counts::of(results(host));
        let body = host_body(host);
        match groups.iter_mut().find(|(b, c, _)| *b == body && *c == counts) {
            Some((.., hosts)) => hosts.push(&host.host),
            None => groups.push((body, counts, vec![&host.host])),
        }
    }
    for (body, counts, hosts) in groups {
        let mut line = Line::at(0).say(Tone::Strong, fold_names(&hosts)).faint(" · ").fold(2);
        if hosts.len() > 1 {
            line = line.faint(format!("{} hosts, each: ", hosts.len()));
        }
        let nothing = if body.is_empty() { "nothing to change" } else { "nothing was done" };
        text.push(counts.say(line, nothing));
        text.append(body);
    }
    text.gap();
    let all = Counts::of(report.hosts.iter().flat_map(results));
    let line =
        Line::at(0).say(Tone::Strong, format!("{}: ", machines(report.hosts.len(), report.clusters.len())));
    let mut line = all.say(line, "nothing was done").fold(2);
    let lost = report.hosts.iter().filter(|h| h.lost.is_some()).count();
    if lost > 0 {
        line = line.plain(", ").say(Tone::Bad, format!("{lost} excluded"));
    }
    text.push(line.faint(format!(" · run {} · {}", report.run, span(report.took))));
    push_path(&mut text, &report.critical_path);
    push_slowest(&mut text, slowest);
    let items = || report.hosts.iter().flat_map(|host| &host.items);
    let is_left = |result: &ItemResult| {
        matches!(result, ItemResult::Stopped | ItemResult::Failed { .. } | ItemResult::Skipped { .. })
    };
    if items().any(|(item, result)| is_left(result) && !cannot_be_undone(item)) {
        text.push(Line::at(0).faint("The next run continues with the remaining changes.").fold(0));
    } else if items().any(|(item, _)| cannot_be_undone(item)) {
        text.push(Line::at(0).faint("What cannot be undone stays as it is.").fold(0));
    }
    if items().any(can_be_put_back) {
        text.push(Line::at(0).faint("To revert: ").plain(rollback).fold(2));
    }
    text
}

/// Whether this is an item of a rollback that no run can do.
fn cannot_be_undone(item: &Item) -> bool {
    item.origin == ItemOrigin::Rollback && matches!(item.outcome, Outcome::Failed(_))
}

/// Whether a rollback has something to revert here.
fn can_be_put_back((item, result): &(Item, ItemResult)) -> bool {
    match result {
        ItemResult::Changed => {
            let changes = item.changes();
            changes.is_empty() || changes.iter().any(|c| c.reversibility == Reversibility::Reversible)
        }
        ItemResult::Unknown { .. } => true,
        _ => false,
    }
}

/// The longest items of the critical path, in their order.
fn push_path(text: &mut Text, path: &[PathStep]) {
    if path.len() < 2 {
        return;
    }
    let mut longest: Vec<usize> = (0..path.len()).collect();
    longest.sort_by_key(|at| std::cmp::Reverse(path.get(*at).map(|s| s.took)));
    longest.truncate(PATH_STEPS);
    longest.sort_unstable();
    let steps: Vec<String> = longest
        .iter()
        .filter_map(|at| path.get(*at))
        .map(|s| format!("{} {} {}", s.host, s.address, span(s.took)))
        .collect();
    let left = path.len().saturating_sub(steps.len());
    let rest = if left > 0 { format!(" (and {left} shorter)") } else { String::new() };
    let line = Line::at(0).faint("Critical path: ").plain(steps.join(" → "));
    text.push(line.faint(rest).fold(2));
}

/// The failures of a host, the items skipped because of them, and the differences from the plan.
fn host_body(host: &HostApply) -> Text {
    let mut text = Text::new();
    let mut skipped: Vec<(&str, Vec<&str>)> = Vec::new();
    for (item, result) in &host.items {
        match result {
            ItemResult::Failed { message, .. }
            | ItemResult::PutBack { message, .. }
            | ItemResult::Refused { message }
            | ItemResult::Unknown { message } => {
                push_problem(&mut text, item, result, message);
            }
            ItemResult::Skipped { because } => match skipped.iter_mut().find(|(b, _)| b == because) {
                Some((_, items)) => items.push(&item.address),
                None => skipped.push((because, vec![&item.address])),
            },
            _ => {}
        }
    }
    for (because, items) in skipped {
        let line = Line::at(4).say(Tone::Warn, "- ").plain(format!(
            "{} skipped: {} · ",
            items.len(),
            skip_reason(because)
        ));
        text.push(line.faint(items.join(", ")).fold(6));
    }
    for difference in &host.differences {
        text.prose(4, Tone::Bad, "✗ verification failed: ", difference);
    }
    if let Some(lost) = &host.lost {
        text.push(Line::at(4).say(Tone::Bad, format!("✗ {}", lost.word())));
        text.append(lost_why(lost, 6));
    }
    text
}

/// The reason why an item ended as it did; empty when there is nothing to say.
pub(crate) fn outcome_text(item: &Item, result: &ItemResult) -> Text {
    let mut text = Text::new();
    match result {
        ItemResult::Failed { message, output } | ItemResult::PutBack { message, output } => {
            text.prose(0, Tone::Bad, "", message);
            // Output that repeats the message is not shown again.
            let output = output.trim_end();
            let output = output.strip_suffix(message.trim_end()).unwrap_or(output).trim_end();
            for line in output.lines().filter(|_| !item.sensitive) {
                text.push(Line::at(0).faint("| ").plain(line));
            }
            push_place(&mut text, item, 0);
        }
        ItemResult::Refused { message } | ItemResult::Unknown { message } => {
            text.prose(0, Tone::Bad, "", message);
        }
        ItemResult::Skipped { because } => {
            text.push(Line::at(0).say(Tone::Warn, format!("skipped: {}", skip_reason(because))));
        }
        ItemResult::NotApplicable { why } => {
            text.push(Line::at(0).faint(format!("skipped: {why}")));
        }
        ItemResult::Changed | ItemResult::Unchanged | ItemResult::Stopped => {}
    }
    text
}

/// The place of the error (in a role or a template), and its correction.
fn push_place(text: &mut Text, item: &Item, indent: usize) {
    let Outcome::Failed(problem) = &item.outcome else { return };
    if let Some(at) = &problem.at {
        text.push(Line::at(indent).faint(format!("at {at}")));
    }
    if let Some(help) = &problem.help {
        text.prose(indent, Tone::Plain, "help: ", help);
    }
}

fn push_problem(text: &mut Text, item: &Item, result: &ItemResult, message: &str) {
    let (sign, word, tone) = verdict(result);
    let line = Line::at(4).say(tone, format!("{sign} {word} ")).say(Tone::Strong, item.address.as_str());
    let location = if item.location.is_empty() { String::new() } else { format!(" · {}", item.location) };
    text.push(line.faint(location).fold(6));
    text.prose(6, Tone::Plain, "", message);
    push_place(text, item, 6);
}

#[cfg(test)]
pub(crate) use tests::report as sample;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::rich;
    use crate::text::Look;
    use converge_engine::TargetError;
    use std::time::Duration;

    #[test]
    fn what_was_wrong_at_plan_time_has_its_place() {
        let mut item = rich("x").items.remove(11);
        if let Outcome::Failed(problem) = &mut item.outcome {
            problem.at = Some("roles/app/templates/app.conf.j2:3:7".into());
        }
        let result = ItemResult::Failed { message: "`port` is undefined".into(), output: String::new() };
        let mut host = report().hosts.remove(0);
        host.items = vec![(item, result)];
        let text = host_body(&host).draw(&Look::PLAIN);
        assert!(text.contains("at roles/app/templates/app.conf.j2:3:7"), "{text}");
        assert!(text.contains("help: add a `group` before this item"), "{text}");
    }

    pub(crate) fn report() -> ApplyReport {
        let items = rich("x").items;
        let ended = |results: Vec<ItemResult>| items.iter().cloned().zip(results).collect::<Vec<_>>();
        let host = |name: &str, results: Vec<ItemResult>| HostApply {
            host: name.into(),
            items: ended(results),
            lost: None,
            differences: vec![],
            times: Default::default(),
            contents: Default::default(),
            took: Duration::from_secs(3),
        };
        let good = vec![ItemResult::Changed, ItemResult::Changed, ItemResult::Unchanged];
        let mut bad = host(
            "db1",
            vec![
                ItemResult::Changed,
                ItemResult::Failed {
                    message: "mkdir ended with status 1".into(),
                    output: "no space\n".into(),
                },
                ItemResult::Refused { message: "path:/etc/localtime changed since the plan".into() },
                ItemResult::Skipped { because: "`motd/state directory`".into() },
                ItemResult::Skipped { because: "`motd/state directory`".into() },
                ItemResult::Stopped,
            ],
        );
        bad.differences.push("nginx/limits: path:/etc/x differs from the plan".into());
        let mut gone = host("db2", vec![ItemResult::Unknown { message: "the link was lost".into() }]);
        gone.lost = Some(TargetError::Unreachable("the link was lost".into()));
        ApplyReport {
            run: "01935a2e".into(),
            clusters: vec![],
            critical_path: [("web1", "nginx/web server", 7), ("db1", "motd/state directory", 4)]
                .map(|(host, address, took)| PathStep {
                    host: host.into(),
                    address: address.into(),
                    took: Duration::from_secs(took),
                })
                .to_vec(),
            hosts: vec![
                host("web0", vec![]),
                host("web1", good.clone()),
                host("web2", good.clone()),
                host("web3", good),
                bad,
                gone,
            ],
            took: Duration::from_millis(12_300),
        }
    }

    #[test]
    fn a_run_with_all_sorts_of_ends() {
        let text = applied(&report(), "converge rollback inventories/prod.yaml", &[]);
        insta::assert_snapshot!(text.draw(&Look::PLAIN));
    }
}
