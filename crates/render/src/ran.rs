//! The output of one command on many hosts; identical output is grouped.

use crate::documents::{One, RunDocument, RunEntry, RunFormat, to_json};
use crate::names::fold_names;
use crate::plan::lost_host;
use crate::text::{Line, Text, Tone};
use converge_engine::{HostRan, RanCommand, TargetError};
use converge_resource::counted;
use serde_json::Value;

/// Where an answer stands: exit codes upwards, then what took too long.
fn rank(ran: &RanCommand) -> (bool, i32) {
    (ran.status.is_none(), ran.status.unwrap_or_default())
}

fn verdict(ran: &RanCommand) -> (Tone, String) {
    match ran.status {
        Some(0) => (Tone::Good, "exit 0".to_owned()),
        Some(code) => (Tone::Bad, format!("exit {code}")),
        None => (Tone::Bad, "took too long and was ended".to_owned()),
    }
}

/// All answers: by exit code, those of most hosts first; hosts that could not be asked; a line that counts.
pub fn ran(all: &[HostRan]) -> Text {
    let mut groups: Vec<(&RanCommand, Vec<&str>)> = Vec::new();
    let mut lost: Vec<(&TargetError, Vec<&str>)> = Vec::new();
    for host in all {
        match &host.result {
            Ok(ran) => match groups.iter_mut().find(|(r, _)| *r == ran) {
                Some((_, hosts)) => hosts.push(&host.host),
                None => groups.push((ran, vec![&host.host])),
            },
            Err(why) => match lost.iter_mut().find(|(l, _)| *l == why) {
                Some((_, hosts)) => hosts.push(&host.host),
                None => lost.push((why, vec![&host.host])),
            },
        }
    }
    groups.sort_by_key(|(ran, hosts)| (rank(ran), std::cmp::Reverse(hosts.len())));
    let mut text = Text::new();
    for (ran, hosts) in &groups {
        let (tone, word) = verdict(ran);
        let mut line = Line::at(0).say(Tone::Strong, fold_names(hosts)).faint(" · ").fold(2);
        if hosts.len() > 1 {
            line = line.faint(format!("{} · ", counted(hosts.len(), "host")));
        }
        text.push(line.say(tone, word));
        for row in ran.stdout.lines() {
            text.push(Line::at(2).plain(row));
        }
        for row in ran.stderr.lines() {
            text.push(Line::at(2).say(Tone::Warn, "! ").plain(row));
        }
        if ran.cut {
            text.push(Line::at(2).faint("… cut: more than 1 MiB"));
        }
    }
    for (why, hosts) in lost {
        text.append(lost_host(&fold_names(&hosts), why));
    }
    text.gap();
    text.push(ran_total(all));
    text
}

/// The number of hosts by result.
pub fn ran_total(all: &[HostRan]) -> Line {
    let mut ends: Vec<((bool, i32), Tone, String, usize)> = Vec::new();
    for ran in all.iter().filter_map(|h| h.result.as_ref().ok()) {
        match ends.iter_mut().find(|e| e.0 == rank(ran)) {
            Some(end) => end.3 += 1,
            None => {
                let (tone, word) = verdict(ran);
                ends.push((rank(ran), tone, word, 1));
            }
        }
    }
    ends.sort_by_key(|e| e.0);
    let mut parts: Vec<(Tone, String)> =
        ends.into_iter().map(|(_, tone, word, n)| (tone, format!("{n} {word}"))).collect();
    for (unreachable, word) in [(true, "unreachable"), (false, "refused")] {
        let is = |h: &&HostRan| h.result.as_ref().is_err_and(|l| l.is_unreachable() == unreachable);
        let n = all.iter().filter(is).count();
        if n > 0 {
            parts.push((Tone::Bad, format!("{n} {word}")));
        }
    }
    let mut line = Line::at(0).say(Tone::Strong, format!("{}: ", counted(all.len(), "host"))).fold(2);
    for (i, (tone, part)) in parts.into_iter().enumerate() {
        line = line.plain(if i > 0 { ", " } else { "" }).say(tone, part);
    }
    line
}

/// The same as a document.
pub fn ran_json(command: &str, all: &[HostRan], exit_code: u8) -> Value {
    let hosts = all.iter().map(RunEntry::from).collect();
    to_json(&RunDocument { format: RunFormat, version: One, command: command.to_owned(), exit_code, hosts })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::text::Look;
    use std::time::Duration;

    fn host(name: String, status: Option<i32>, stdout: &str, stderr: &str) -> HostRan {
        let ran = RanCommand { status, stdout: stdout.into(), stderr: stderr.into(), cut: false };
        HostRan { host: name, result: Ok(ran), took: Duration::ZERO }
    }

    pub(crate) fn two_hundred() -> Vec<HostRan> {
        let mut all: Vec<HostRan> = (1..=200)
            .map(|n| match n {
                7 => host(format!("gpu{n:03}"), Some(3), "inactive\n", "Unit is dead\n"),
                90..=95 => host(format!("gpu{n:03}"), Some(0), "active\nold\n", ""),
                120 => host(format!("gpu{n:03}"), None, "act", ""),
                _ => host(format!("gpu{n:03}"), Some(0), "active\n", ""),
            })
            .collect();
        for at in [150, 151, 152] {
            let lost = TargetError::Unreachable("no route within 10 s".into());
            all[at].result = Err(lost);
        }
        all
    }

    #[test]
    fn two_hundred_hosts_in_few_lines() {
        let drawn = ran(&two_hundred()).draw(&Look::PLAIN);
        assert!(drawn.lines().count() < 20, "{drawn}");
        insta::assert_snapshot!(drawn);
    }

    #[test]
    fn a_document_keeps_the_streams_apart() {
        let document = ran_json("systemctl is-active x", &two_hundred(), 1);
        assert_eq!(document["hosts"].as_array().unwrap().len(), 200);
        assert_eq!(document["hosts"][6]["stdout"], "inactive\n");
        assert_eq!(document["hosts"][6]["stderr"], "Unit is dead\n");
        assert_eq!(document["hosts"][119]["exit"], Value::Null);
        assert_eq!(document["hosts"][151]["lost"]["unreachable"], true);
    }
}
