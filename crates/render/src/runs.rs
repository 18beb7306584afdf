//! The runs that can be rolled back, and the results of live checks.

use crate::names::fold_names;
use crate::plan::lost_host;
use crate::text::{Line, Text, Tone};
use converge_engine::{CheckFailure, HostSnapshots, HostVerify, Snapshot};
use converge_resource::counted;

/// The playbook of a run, behind the name of its project.
fn playbook(of: &Snapshot) -> String {
    of.project.as_ref().map_or_else(|| of.playbook.clone(), |name| format!("{name}:{}", of.playbook))
}

/// The snapshots, run by run, newest first, with the hosts of each.
pub fn snapshots(all: &[HostSnapshots]) -> Text {
    let mut text = Text::new();
    let runs = newest_first(all);
    for (snapshot, hosts) in &runs {
        text.gap();
        let line = Line::at(0).say(Tone::Strong, snapshot.run.as_str()).plain(format!("  {}", snapshot.time));
        text.push(line.faint(format!("  {} · {}", snapshot.purpose, snapshot.operator)).fold(2));
        let parts = [
            ("playbook ", playbook(snapshot)),
            ("inventory ", snapshot.inventory.clone()),
            ("roles ", snapshot.roles.join(", ")),
        ];
        let of: Vec<String> = parts
            .iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(of, what)| format!("{of}{what}"))
            .collect();
        if !of.is_empty() {
            text.push(Line::at(2).faint(of.join(" · ")).fold(4));
        }
        let mut same: Vec<(String, Vec<&str>)> = Vec::new();
        for (host, s) in hosts {
            let description = description(s);
            match same.iter_mut().find(|(t, _)| *t == description) {
                Some((_, names)) => names.push(host),
                None => same.push((description, vec![host])),
            }
        }
        for (description, names) in same {
            text.push(Line::at(2).plain(fold_names(&names)).faint(" · ").plain(description).fold(4));
        }
    }
    let none: Vec<&str> =
        all.iter().filter(|h| h.runs.is_empty() && h.lost.is_none()).map(|h| h.host.as_str()).collect();
    if !none.is_empty() {
        text.gap();
        text.push(Line::at(0).plain(fold_names(&none)).faint(format!(" · {NO_SNAPSHOT}")).fold(2));
    }
    for host in all {
        if let Some(lost) = &host.lost {
            text.gap();
            text.append(lost_host(&host.host, lost));
        }
        for remark in &host.remarks {
            text.gap();
            text.push(Line::at(0).say(Tone::Warn, format!("{}: ", host.host)).plain(remark.as_str()).fold(2));
        }
    }
    text
}

/// Runs with what each host says of them, newest first. Each host knows its own order; where no host has both of two, their times tell.
fn newest_first(all: &[HostSnapshots]) -> Vec<(&Snapshot, Vec<(&str, &Snapshot)>)> {
    let mut left: Vec<(&str, &[Snapshot])> =
        all.iter().map(|h| (h.host.as_str(), h.runs.as_slice())).collect();
    let mut runs = Vec::new();
    loop {
        left.retain(|(_, runs)| !runs.is_empty());
        let heads = left.iter().filter_map(|(_, runs)| runs.first());
        let free = |s: &&Snapshot| !left.iter().any(|(_, runs)| runs.iter().skip(1).any(|r| r.run == s.run));
        let latest = |a: &&Snapshot, b: &&Snapshot| (&a.time, &a.run).cmp(&(&b.time, &b.run));
        let Some(next) = heads.clone().filter(free).max_by(latest).or_else(|| heads.max_by(latest)) else {
            return runs;
        };
        let mut of = Vec::new();
        for (host, runs) in &mut left {
            if let Some((first, rest)) = runs.split_first().filter(|(first, _)| first.run == next.run) {
                of.push((*host, first));
                *runs = rest;
            }
        }
        runs.push((next, of));
    }
}

/// Said of a run whose record has no end of its own.
const DID_NOT_END: &str = "did not end by itself";

/// Said of a run that another one has rolled back.
const ROLLED_BACK: &str = "rolled back by";

/// Said of hosts without a run.
const NO_SNAPSHOT: &str = "no snapshot";

fn description(snapshot: &Snapshot) -> String {
    let mut description = match snapshot.forgotten {
        0 => counted(snapshot.changes, "change"),
        forgotten => format!("{} forgotten", counted(forgotten, "object")),
    };
    if !snapshot.finished {
        description.push_str(&format!(", {DID_NOT_END}"));
    }
    if let Some(by) = &snapshot.rolled_back_by {
        description.push_str(&format!(", {ROLLED_BACK} {by}"));
    }
    description
}

/// The live checks, host by host; hosts with the same results together.
pub fn verified(all: &[HostVerify], verbose: bool) -> Text {
    let mut text = Text::new();
    let mut groups: Vec<(&HostVerify, Vec<&str>)> = Vec::new();
    for host in all {
        match groups.iter_mut().find(|(h, _)| h.checks == host.checks && h.lost == host.lost) {
            Some((_, names)) => names.push(&host.host),
            None => groups.push((host, vec![&host.host])),
        }
    }
    for (host, names) in groups {
        let names = fold_names(&names);
        if let Some(lost) = &host.lost {
            text.append(lost_host(&names, lost));
            continue;
        }
        let bad = host.checks.iter().filter(|(_, why)| why.is_some()).count();
        let good = host.checks.len() - bad;
        let mut line = Line::at(0).say(Tone::Strong, names).faint(" · ").fold(2);
        line = match (good, bad) {
            (0, 0) => line.plain("no checks"),
            (good, 0) => line.say(
                Tone::Good,
                format!("{} {}", counted(good, "check"), if good == 1 { "holds" } else { "hold" }),
            ),
            (good, bad) => line.say(Tone::Bad, format!("{bad} of {} failed", counted(good + bad, "check"))),
        };
        text.push(line);
        // One cause is one message: checks that depend on a failed one are counted.
        let mut hidden: Vec<(&str, usize)> = Vec::new();
        for (address, why) in &host.checks {
            match why {
                Some(CheckFailure::Behind(first)) if !verbose => {
                    match hidden.iter_mut().find(|(f, _)| f == first) {
                        Some((_, number)) => *number += 1,
                        None => hidden.push((first, 1)),
                    }
                }
                Some(why) => {
                    text.push(Line::at(4).say(Tone::Bad, "✗ ").say(Tone::Strong, address.as_str()));
                    text.prose(6, Tone::Plain, "", &why.to_string());
                }
                None if verbose => text.push(Line::at(4).say(Tone::Good, "✓ ").plain(address.as_str())),
                None => {}
            }
        }
        for (first, number) in hidden {
            let why = format!("`{first}` comes first and does not hold");
            text.push(Line::at(4).say(Tone::Warn, format!("- {number} not checked: ")).plain(why).fold(6));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Look;
    use converge_engine::TargetError;

    fn snapshot(run: &str, time: &str) -> Snapshot {
        Snapshot {
            run: run.into(),
            time: time.into(),
            operator: "ada@desk".into(),
            project: None,
            playbook: "site.yaml".into(),
            inventory: "prod.yaml".into(),
            roles: vec!["base".into()],
            purpose: "converge".into(),
            changes: 12,
            finished: true,
            forgotten: 0,
            rolled_back_by: None,
        }
    }

    #[test]
    fn the_page_of_snapshots_names_what_is_shown_of_a_run() {
        let page = include_str!("../../../docs/snapshots.md");
        for words in [DID_NOT_END, ROLLED_BACK, NO_SNAPSHOT] {
            let row = |line: &str| {
                line.starts_with("| ") && line.split('|').nth(1).is_some_and(|shown| shown.contains(words))
            };
            assert!(page.lines().any(row), "docs/snapshots.md has no row of `{words}`");
        }
    }

    #[test]
    fn snapshots_are_listed_by_run() {
        let old = snapshot("r1", "2026-11-20T08:00:00Z");
        let mut back = snapshot("r2", "2026-11-21T08:00:00Z");
        back.rolled_back_by = Some("r3".into());
        let mut cut = back.clone();
        cut.finished = false;
        cut.changes = 1;
        let host = |name: &str, runs: Vec<Snapshot>| HostSnapshots {
            host: name.into(),
            runs,
            lost: None,
            remarks: vec![],
        };
        let mut all = vec![
            host("web1", vec![back.clone(), old.clone()]),
            host("web2", vec![back.clone(), old.clone()]),
            host("web3", vec![back, old]),
            host("db1", vec![cut]),
            host("db2", vec![]),
        ];
        all.push(HostSnapshots {
            host: "db3".into(),
            runs: vec![],
            lost: Some(TargetError::Unreachable("no answer".into())),
            remarks: vec!["the record of run r1 is damaged".into()],
        });
        insta::assert_snapshot!(snapshots(&all).draw(&Look::PLAIN));
    }

    #[test]
    fn failed_checks_say_why() {
        let host = |name: &str, checks: Vec<(String, Option<CheckFailure>)>| HostVerify {
            host: name.into(),
            checks,
            lost: None,
        };
        let good = vec![("nginx/answers".to_owned(), None)];
        let bad = vec![
            ("nginx/answers".to_owned(), None),
            ("nginx/port".to_owned(), Some(CheckFailure::Differs("nothing listens on 80".to_owned()))),
        ];
        let all = [host("a", good.clone()), host("b", good), host("c", bad), host("d", vec![])];
        insta::assert_snapshot!(verified(&all, false).draw(&Look::PLAIN));
        assert!(verified(&all, true).draw(&Look::PLAIN).contains("    ✓ nginx/answers\n"));
    }
}
