//! Questions to a host: many probes, one batch, one round trip.

use crate::connection::HostConnection;
use crate::facts::Groups;
use crate::records;
use converge_executor::{Answers, Questions, TargetError};
use converge_ledger::{OwnedRecords, parse_owned};
use converge_resource::{Answer, AnswerError, Content, Probe, RunAnswer, quote, unlisted};
use converge_ssh::{Batch, ShellError, ShellItem, ShellItemResult, ShellOutcome, Status, Stderr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Exit status of the content probe for "no regular file" and "too large".
const NO_CONTENT: i32 = 44;

/// The item number of the facts.
const FACTS: u32 = 0;

/// The item number of the records of managed objects: beyond all questions.
const OWNED: u32 = u32::MAX;

/// Bytes of a script's output that are kept.
const TEXT_LIMIT: usize = 1 << 20;

enum HostQuestion {
    Facts(Groups),
    Objects { kind: String, keys: Vec<String> },
    One(Probe),
}

/// Asks a host all of this at once.
pub(crate) async fn observe(link: &HostConnection, questions: Questions<'_>) -> Result<Answers, ShellError> {
    let (mut items, asked) = items_of(questions.probes, questions.facts);
    if questions.managed {
        items.push(probe_item(OWNED, records::owned_script(), 60));
    }
    let batch = Batch::of(items);
    let mut room = crate::budget::with(*link.room(), questions.probes);
    let answered = link.ask_within(&batch, &mut room).await;
    *link.room() = room;
    let (results, error) = answered?;
    if let Some(error) = error {
        return Err(error);
    }
    let mut reply = Answers { answers: broken_names(questions.probes), ..Answers::default() };
    for result in results {
        if result.id == OWNED {
            reply.managed = Some(owned(&result));
            continue;
        }
        match asked.get(&result.id) {
            Some(HostQuestion::Facts(groups)) => {
                reply.facts = Some(crate::facts::parse(&text(&result.output), groups));
            }
            Some(HostQuestion::Objects { kind, keys }) => reply.answers.extend(answers(kind, keys, &result)),
            Some(HostQuestion::One(probe)) => reply.answers.push((probe.clone(), answer(probe, &result))),
            None => {}
        }
    }
    Ok(reply)
}

/// The problem with records of runs that are larger than an answer may be. A part of them means something else than the whole.
pub(crate) const TOO_LARGE: &str = "its records of runs are larger than what is read of them: remove the oldest folders in \
     /var/lib/converge/runs on the host (what these runs changed stays as it is, is managed no more, and cannot be rolled back)";

/// The records of the host. None where they may not be read.
fn owned(result: &ShellItemResult) -> Result<OwnedRecords, TargetError> {
    let unread =
        |why: &str| TargetError::Refused(format!("the record of what is managed cannot be read: {why}"));
    match result.outcome {
        ShellOutcome::Finished { status: Status::Exited(0), .. } if result.cut => Err(unread(TOO_LARGE)),
        ShellOutcome::Finished { status: Status::Exited(0), .. } => {
            Ok(parse_owned(&String::from_utf8_lossy(&result.output)))
        }
        _ => Err(unread(&failure(result))),
    }
}

/// Merges probes of one sort into one item each.
fn items_of(
    probes: &BTreeSet<Probe>,
    facts: Option<&Groups>,
) -> (Vec<ShellItem>, BTreeMap<u32, HostQuestion>) {
    let mut items = Vec::new();
    let mut asked = BTreeMap::new();
    if let Some(groups) = facts {
        items.push(probe_item(FACTS, crate::facts::script(groups), 150));
        asked.insert(FACTS, HostQuestion::Facts(groups.clone()));
    }
    let mut objects: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut next = FACTS + 1;
    for probe in probes {
        match probe {
            Probe::Object(id) if id.key.contains('\n') => {}
            Probe::Object(id) => objects.entry(&id.kind).or_default().push(id.key.clone()),
            Probe::Content(path) => {
                items.push(probe_item(next, content_script(path), 60));
                asked.insert(next, HostQuestion::One(probe.clone()));
                next += 1;
            }
            Probe::Run { script, user, timeout } => {
                let script = match user {
                    Some(user) => unlisted(&format!("runuser -u {} --", quote(user)), script),
                    None => script.clone(),
                };
                items.push(probe_item(next, script, *timeout));
                asked.insert(next, HostQuestion::One(probe.clone()));
                next += 1;
            }
            // A host has no such API, and the engine asks this machine: the question stays without an answer, and its item says so.
            Probe::Api(_) | Probe::Local(_) => {}
        }
    }
    for (kind, keys) in objects {
        items.push(probe_item(next, see_script(kind, &keys), 60));
        asked.insert(next, HostQuestion::Objects { kind: kind.to_owned(), keys });
        next += 1;
    }
    (items, asked)
}

/// The answers for names with a line break, to which a link may lead. They are not asked: what the host reads in lines would hide what comes after them.
fn broken_names(probes: &BTreeSet<Probe>) -> Vec<(Probe, Answer)> {
    let is_broken = |probe: &&Probe| matches!(probe, Probe::Object(id) if id.key.contains('\n'));
    let why = "its name has a line break, and no such object is managed: choose a path without one";
    probes.iter().filter(is_broken).map(|probe| (probe.clone(), Answer::Failed(why.to_owned()))).collect()
}

/// The command that shows the state of all these objects of one kind.
fn see_script(kind: &str, keys: &[String]) -> String {
    let mut script = format!("cv_see_{kind}");
    for key in keys {
        script.push(' ');
        script.push_str(&quote(key));
    }
    script
}

fn probe_item(id: u32, script: String, seconds: u64) -> ShellItem {
    ShellItem {
        stderr: Stderr::Separate,
        timeout: Some(Duration::from_secs(seconds)),
        ..ShellItem::new(id, script)
    }
}

fn content_script(path: &str) -> String {
    format!("cv_content {} {}", quote(path), Probe::CONTENT_LIMIT)
}

fn failure(result: &ShellItemResult) -> String {
    let reply = text(&result.stderr);
    let reply = reply.trim();
    match result.outcome {
        ShellOutcome::Finished { status: Status::Exited(n), .. } if reply.is_empty() => {
            format!("ended with status {n}")
        }
        ShellOutcome::Finished { status: Status::Exited(_), .. } => reply.to_owned(),
        ShellOutcome::Finished { status: Status::TimedOut, .. } => "took too long and was ended".to_owned(),
        ShellOutcome::Skipped(_) | ShellOutcome::Lost | ShellOutcome::Unknown => {
            "was not answered".to_owned()
        }
    }
}

/// Parses the answer of `cv_see_KIND`.
fn parse_objects(
    kind: &str,
    keys: &[String],
    output: &[u8],
) -> BTreeMap<String, Result<converge_resource::Observation, AnswerError>> {
    let refs: Vec<&str> = keys.iter().map(String::as_str).collect();
    match converge_objects::object(kind) {
        Some(object) => object.parse(&refs, &String::from_utf8_lossy(output)),
        None => BTreeMap::new(),
    }
}

/// The answers for objects of one kind.
fn answers(kind: &str, keys: &[String], result: &ShellItemResult) -> Vec<(Probe, Answer)> {
    let mut parsed = match result.outcome {
        ShellOutcome::Finished { status: Status::Exited(_), .. } if !result.cut => {
            parse_objects(kind, keys, &result.output)
        }
        _ => BTreeMap::new(),
    };
    let one = |key: &String| {
        let answer = match parsed.remove(key) {
            Some(Ok(observed)) => Answer::Object(observed),
            Some(Err(error)) => Answer::Failed(error.to_string()),
            None => Answer::Failed(failure(result)),
        };
        (Probe::Object(converge_resource::ObjectId::new(kind, key.clone())), answer)
    };
    keys.iter().map(one).collect()
}

fn answer(probe: &Probe, result: &ShellItemResult) -> Answer {
    let ShellOutcome::Finished { status: Status::Exited(status), .. } = result.outcome else {
        return Answer::Failed(failure(result));
    };
    match probe {
        Probe::Content(_) if status == 0 && !result.cut => {
            Answer::Content(Some(Content::new(result.output.clone())))
        }
        Probe::Content(_) if status == NO_CONTENT || result.cut => Answer::Content(None),
        Probe::Content(_) | Probe::Object(_) | Probe::Api(_) | Probe::Local(_) => {
            Answer::Failed(failure(result))
        }
        Probe::Run { .. } => {
            Answer::Run(RunAnswer { status, stdout: text(&result.output), stderr: text(&result.stderr) })
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..TEXT_LIMIT).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::ObjectId;

    #[test]
    fn questions_of_one_sort_are_one_item() {
        let mut probes: BTreeSet<Probe> =
            ["/a", "/b c"].iter().map(|p| Probe::Object(ObjectId::new("path", *p))).collect();
        probes.insert(Probe::Object(ObjectId::new("unit", "ssh.service")));
        probes.insert(Probe::Content("/a".to_owned()));
        probes.insert(Probe::run("true"));
        let (items, asked) = items_of(&probes, Some(&Groups::new()));
        assert_eq!(items.len(), 5);
        assert_eq!(asked.len(), 5);
        assert!(items.iter().any(|i| i.script == "cv_see_path /a '/b c'"));
        assert!(items.iter().all(|i| i.stderr == Stderr::Separate));
        // A name with a line break hides no other.
        let broken = Probe::Object(ObjectId::new("path", "/b\nc"));
        probes.insert(broken.clone());
        assert!(items_of(&probes, None).0.iter().any(|i| i.script == "cv_see_path /a '/b c'"));
        assert!(matches!(&broken_names(&probes)[..], [(probe, Answer::Failed(_))] if *probe == broken));
    }
}
