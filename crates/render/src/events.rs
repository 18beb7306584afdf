//! The events of a run as lines.

use crate::change::bytes;
use crate::names::fold_names;
use crate::plan::resolved;
use crate::text::{Line, Look, Text, Tone, columns};
use converge_engine::{Event, ItemResult, StoredBackup};
use converge_resource::counted;
use std::time::Duration;

/// Lines of output that a failed item shows, unless verbose.
const TAIL: usize = 12;
/// Help for an RSA key file.
const RSA_HELP: &str = "Signing with an RSA key in this program can be timed (RUSTSEC-2023-0071). Add the key to the ssh-agent (`ssh-add`), \
    which signs by itself, or log in with an ed25519 key.";

/// `30ms`, `1.2s`, `74s`, `12m 4s`: without blanks a fold cannot part number and unit
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..=9 => format!("{:.1}s", time.as_secs_f64()),
        10..=119 => format!("{seconds}s"),
        _ => format!("{}m {}s", seconds / 60, seconds % 60),
    }
}

/// The lines of one event; host names are filled up to `column`. Empty for events that are only counted.
pub(crate) fn lines(event: &Event, column: usize, look: &Look) -> Text {
    let mut text = Text::new();
    let start = |host: &str| {
        let gap = column.saturating_sub(columns(host)) + 2;
        Line::at(0).say(Tone::Strong, host).plain(" ".repeat(gap))
    };
    match event {
        Event::HostKeyRecorded { host, key, file } => {
            text.push(
                start(host)
                    .say(Tone::Warn, "! new host key ")
                    .plain(format!("{key}, recorded in {file}"))
                    .fold(column + 4),
            );
        }
        Event::RsaKeyFile { host, file } => {
            text.push(start(host).say(Tone::Warn, "! RSA key file ").plain(file.as_str()).fold(column + 4));
            text.prose(column + 4, Tone::Plain, "", RSA_HELP);
        }
        Event::Lost { host, message } => {
            text.push(start(host).say(Tone::Bad, "✗ excluded"));
            text.prose(column + 4, Tone::Plain, "", message);
        }
        Event::Waiting { host, role, on } => {
            text.push(start(host).faint(format!("· before role {role}: waits for {on}")));
        }
        Event::Settling { host, on, seconds } => {
            for what in on {
                let line = start(host).faint(format!("· waits at most {seconds} s more for "));
                text.push(line.faint(what.as_str()).fold(column + 4));
            }
        }
        Event::Backup { host, what, stored } => {
            let line = match stored {
                Ok(StoredBackup { path, size, remark }) => {
                    let remark = if remark.is_empty() { String::new() } else { format!(", {remark}") };
                    start(host).plain(format!("{what}: {path} ({}{remark}, checked)", bytes(*size)))
                }
                Err(none) => start(host).say(Tone::Warn, format!("! no {what}: ")).plain(none.to_string()),
            };
            text.push(line.fold(column + 4));
        }
        Event::BatchStarted { play, number, of, hosts } => {
            let names = fold_names(&hosts.iter().map(String::as_str).collect::<Vec<_>>());
            let line = Line::at(0).faint(format!("── {play}: batch {number} of {of} · "));
            text.push(line.say(Tone::Strong, names).fold(3));
        }
        Event::Resolved { host, item, contents } => text.append(resolved(host, item, contents, look)),
        Event::ItemNote { host, address, text: note } => {
            let line = start(host).say(Tone::Warn, "! note").plain(format!("  {address}: {note}"));
            text.push(line.fold(column + 4));
        }
        Event::ItemFinished { host, address, result, took, .. } => {
            push_finished(&mut text, start(host), address, result, *took, column, look);
        }
        Event::Verified { host, differences } => {
            for difference in differences {
                text.push(
                    start(host)
                        .say(Tone::Bad, "✗ verification failed: ")
                        .plain(difference.as_str())
                        .fold(column + 4),
                );
            }
        }
        Event::Stopping => {
            text.push(
                Line::at(0)
                    .say(
                        Tone::Warn,
                        "stopping: running changes are completed, no new ones begin; Ctrl-C again stops immediately",
                    )
                    .fold(0),
            );
        }
        _ if look.verbose => text.append(steps(event, &start)),
        _ => {}
    }
    text
}

/// Lines for each small step, each behind the name of its host.
fn steps(event: &Event, start: &dyn Fn(&str) -> Line) -> Text {
    let mut text = Text::new();
    match event {
        Event::Connected { host, took } => {
            text.push(start(host).faint(format!("connected in {}", span(*took))));
        }
        Event::Observed { host, round, probes } => {
            text.push(start(host).faint(format!("round {round}: {} answered", counted(*probes, "question"))));
        }
        Event::ApplyStarted { host, items } => {
            text.push(start(host).faint(format!("begins: {}", counted(*items, "resource"))));
        }
        Event::ItemStarted { host, address, .. } => {
            text.push(start(host).faint(format!("begins: {address}")));
        }
        Event::ItemOutput { host, text: output, .. } => {
            for part in output.trim_end().split('\n') {
                text.push(start(host).faint(format!("| {}", part.trim_end_matches('\r'))));
            }
        }
        _ => {}
    }
    text
}

/// The reason of a skipped item: the item that it needs, or a sentence.
pub(crate) fn skip_reason(because: &str) -> String {
    if because.starts_with('`') { format!("depends on {because}") } else { because.to_owned() }
}

/// The sign, the word and the tone of a result.
pub(crate) fn verdict(result: &ItemResult) -> (&'static str, &'static str, Tone) {
    match result {
        ItemResult::Changed => ("✓", "changed", Tone::Good),
        ItemResult::Unchanged => ("=", "unchanged", Tone::Good),
        ItemResult::NotApplicable { .. } => ("-", "skipped", Tone::Plain),
        ItemResult::Failed { .. } => ("✗", "failed", Tone::Bad),
        ItemResult::Refused { .. } => ("✗", "refused", Tone::Bad),
        ItemResult::Skipped { .. } => ("-", "skipped", Tone::Warn),
        ItemResult::Stopped => ("-", "not begun", Tone::Warn),
        ItemResult::PutBack { .. } => ("✗", "reverted", Tone::Bad),
        ItemResult::Unknown { .. } => ("?", "unknown", Tone::Bad),
    }
}

fn push_finished(
    text: &mut Text,
    start: Line,
    address: &str,
    result: &ItemResult,
    took: Duration,
    column: usize,
    look: &Look,
) {
    let (sign, word, tone) = verdict(result);
    let mut line = start.say(tone, format!("{sign} {word}")).plain(format!("  {address}")).fold(column + 4);
    if let ItemResult::Skipped { because } = result {
        line = line.faint(format!("  {}", skip_reason(because)));
    } else if !took.is_zero() && *result != ItemResult::Stopped {
        line = line.faint(format!("  {}", span(took)));
    }
    text.push(line);
    match result {
        ItemResult::Failed { message, output } | ItemResult::PutBack { message, output } => {
            text.prose(column + 4, Tone::Plain, "", message);
            push_output(text, output, message, column + 4, look);
        }
        ItemResult::Refused { message } | ItemResult::Unknown { message } => {
            text.prose(column + 4, Tone::Plain, "", message);
        }
        _ => {}
    }
}

/// The end of what a failed item said.
fn push_output(text: &mut Text, output: &str, message: &str, indent: usize, look: &Look) {
    // Output that repeats the message is not shown again.
    let output = output.trim_end();
    let output = output.strip_suffix(message.trim_end()).unwrap_or(output).trim_end();
    if output.is_empty() {
        return;
    }
    let all: Vec<&str> = output.split('\n').collect();
    let hidden = if look.verbose { 0 } else { all.len().saturating_sub(TAIL) };
    if hidden > 0 {
        text.push(Line::at(indent).faint(format!("| … {} before (-v shows all)", counted(hidden, "line"))));
    }
    for line in all.iter().skip(hidden) {
        text.push(Line::at(indent).faint("| ").plain(line.trim_end_matches('\r')));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use converge_engine::NoBackup;

    fn finished(result: ItemResult) -> Event {
        Event::ItemFinished {
            host: "web1".into(),
            id: 1,
            address: "nginx/configuration".into(),
            result,
            took: Duration::from_millis(230),
        }
    }

    fn drawn(event: &Event, look: &Look) -> String {
        lines(event, 6, look).draw(look)
    }

    #[test]
    fn items_end_in_one_line_or_with_a_reason() {
        let output: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let results = [
            ItemResult::Changed,
            ItemResult::Unchanged,
            ItemResult::Failed { message: "ended with status 1".into(), output },
            ItemResult::Refused { message: "path:/etc/x changed".into() },
            ItemResult::Skipped { because: "`nginx/web server`".into() },
            ItemResult::Stopped,
            ItemResult::Unknown { message: "the link was lost".into() },
        ];
        let all: String = results.map(|r| drawn(&finished(r), &Look::PLAIN)).concat();
        insta::assert_snapshot!(all);
    }

    #[test]
    fn what_a_host_remarks_about_an_item_is_shown() {
        let (address, text) = ("nginx/configuration".into(), "kept the edited /etc/nginx.conf".into());
        let reply = drawn(&Event::ItemNote { host: "web1".into(), address, text }, &Look::PLAIN);
        assert_eq!(reply, "web1    ! note  nginx/configuration: kept the edited /etc/nginx.conf\n");
    }

    #[test]
    fn backups_are_reported_with_place_and_size() {
        let reply = |stored| {
            let event = Event::Backup { host: "cp1".into(), what: "snapshot of etcd".into(), stored };
            drawn(&event, &Look::PLAIN)
        };
        let stored = StoredBackup { path: "/s/1.db".into(), size: 12_897_485, remark: "1234 keys".into() };
        assert_eq!(reply(Ok(stored)), "cp1     snapshot of etcd: /s/1.db (12.3 MiB, 1234 keys, checked)\n");
        let none = reply(Err(NoBackup::NothingThere("kubeadm runs no etcd here".into())));
        assert_eq!(none, "cp1     ! no snapshot of etcd: kubeadm runs no etcd here\n");
    }

    #[test]
    fn an_rsa_key_file_is_warned_about_with_what_to_do() {
        let reply = drawn(&Event::RsaKeyFile { host: "cp1".into(), file: "/h/id_rsa".into() }, &Look::PLAIN);
        assert!(reply.starts_with("cp1     ! RSA key file /h/id_rsa\n"), "{reply}");
        assert!(reply.contains("ssh-agent") && reply.contains("ed25519"), "{reply}");
    }

    #[test]
    fn chatter_is_only_for_verbose() {
        let verbose = Look { verbose: true, ..Look::PLAIN };
        let events = [
            Event::Connected { host: "web1".into(), took: Duration::from_millis(120) },
            Event::Observed { host: "web1".into(), round: 1, probes: 34 },
            Event::ApplyStarted { host: "web1".into(), items: 2 },
            Event::ItemStarted { host: "web1".into(), id: 1, address: "a/b".into() },
            Event::ItemOutput { host: "web1".into(), id: 1, text: "one\ntwo\u{1b}[2J\n".into() },
        ];
        let quiet: String = events.iter().map(|e| drawn(e, &Look::PLAIN)).collect();
        assert_eq!(quiet, "");
        let loud: String = events.iter().map(|e| drawn(e, &verbose)).collect();
        insta::assert_snapshot!(loud);
    }

    #[test]
    fn a_resolved_item_shows_its_diff() {
        let plan = samples::rich("web1");
        let item = Box::new(plan.items[0].clone());
        let event = Event::Resolved { host: "web1".into(), item, contents: plan.contents };
        insta::assert_snapshot!(drawn(&event, &Look::PLAIN));
    }

    #[test]
    fn spans_of_time_are_short() {
        let shown = [50, 9_400, 61_000, 3_725_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(shown, ["50ms", "9.4s", "61s", "62m 5s"]);
    }
}
