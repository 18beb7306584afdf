//! Answers of hosts, kept in a file: plans are made of them without any host.

use converge_planner::Knowledge;
use converge_resource::{Answer, Content, ObjectId, Observation, Probe, RunAnswer, State, from_hex, to_hex};
use serde::{Deserialize, Serialize};

/// The facts and answers of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRecording {
    /// Its facts, when they were asked for.
    pub facts: Option<serde_json::Value>,
    /// States of objects.
    pub objects: Vec<RecordedObject>,
    /// Contents of files.
    pub contents: Vec<RecordedContent>,
    /// Answers to read-only scripts.
    pub scripts: Vec<RecordedScript>,
}

/// The state of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedObject {
    /// Its kind.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// The line of its state; `None` when the host could not tell.
    pub state: Option<String>,
    /// As [`Observation::moment`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<i64>,
    /// As [`Observation::real`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real: Option<String>,
    /// The reason why the host could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The content of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedContent {
    /// The file.
    pub path: String,
    /// Its text, when it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes in hexadecimal, when it is none. With neither it was no file, or too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
}

/// The answer to one script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedScript {
    /// Its text.
    pub script: String,
    /// As whom it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its deadline in seconds: a part of the question.
    pub timeout: u64,
    /// Its result; `None` when it could not be run.
    pub answer: Option<RunAnswer>,
    /// The reason why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl HostRecording {
    /// Everything that is known and may be kept.
    pub fn of(facts: Option<serde_json::Value>, known: &Knowledge, keep: impl Fn(&Probe) -> bool) -> Self {
        let mut out = Self { facts, ..Self::default() };
        for (probe, answer) in known.answers().filter(|(probe, _)| keep(probe)) {
            let error = match answer {
                Answer::Failed(why) => Some(why.clone()),
                _ => None,
            };
            match probe {
                Probe::Object(object) => {
                    let observed = match answer {
                        Answer::Object(observed) => Some(observed),
                        _ => None,
                    };
                    out.objects.push(RecordedObject {
                        kind: object.kind.clone(),
                        key: object.key.clone(),
                        state: observed.map(|s| s.state.line().to_owned()),
                        moment: observed.and_then(|s| s.moment),
                        real: observed.and_then(|s| s.real.clone()),
                        error,
                    });
                }
                Probe::Content(path) => {
                    let content = match answer {
                        Answer::Content(content) => content.as_ref(),
                        _ => None,
                    };
                    let text = content.and_then(Content::text).map(str::to_owned);
                    let hex = content.filter(|_| text.is_none()).map(|c| to_hex(c.bytes()));
                    out.contents.push(RecordedContent { path: path.clone(), text, hex });
                }
                Probe::Run { script, user, timeout } => {
                    let answer = match answer {
                        Answer::Run(answer) => Some(answer.clone()),
                        _ => None,
                    };
                    let (script, user, timeout) = (script.clone(), user.clone(), *timeout);
                    out.scripts.push(RecordedScript { script, user, timeout, answer, error });
                }
                // Recordings are of hosts.
                Probe::Api(_) | Probe::Local(_) => {}
            }
        }
        out
    }
}

/// Puts recorded answers where a host's answers go.
pub(crate) fn learn(recording: &HostRecording, known: &mut Knowledge) {
    let failed = |why: &Option<String>| Answer::Failed(why.clone().unwrap_or_else(|| "no answer".to_owned()));
    for object in &recording.objects {
        let answer = match &object.state {
            Some(line) => Answer::Object(Observation::new(State::from_line(line), object.moment)),
            None => failed(&object.error),
        };
        known.learn(Probe::Object(ObjectId::new(&object.kind, object.key.clone())), answer);
    }
    for content in &recording.contents {
        let bytes = match (&content.text, &content.hex) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(hex)) => from_hex(hex),
            (None, None) => None,
        };
        known.learn(Probe::Content(content.path.clone()), Answer::Content(bytes.map(Content::new)));
    }
    for script in &recording.scripts {
        let answer = script.answer.clone().map_or_else(|| failed(&script.error), Answer::Run);
        let probe =
            Probe::Run { script: script.script.clone(), user: script.user.clone(), timeout: script.timeout };
        known.learn(probe, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_answered_again() {
        let mut known = Knowledge::default();
        let object = |key: &str| Probe::Object(ObjectId::new("path", key));
        let observed = Observation::new(State::from_line("dir 755 root root"), Some(7));
        known.learn(object("/a"), Answer::Object(observed));
        known.learn(object("/b"), Answer::Failed("no permission".into()));
        known.learn(Probe::Content("/c".into()), Answer::Content(Some(Content::new(b"text\n".as_slice()))));
        known.learn(Probe::Content("/d".into()), Answer::Content(Some(Content::new([0, 255, 7].as_slice()))));
        known.learn(Probe::Content("/e".into()), Answer::Content(None));
        let answer = RunAnswer { status: 3, stdout: "out".into(), stderr: String::new() };
        known.learn(Probe::run("exit 3"), Answer::Run(answer));
        known.learn(Probe::Content("/secret".into()), Answer::Content(Some(Content::new(b"x".as_slice()))));
        let keep = |probe: &Probe| *probe != Probe::Content("/secret".into());
        let recording = HostRecording::of(Some(serde_json::json!({"cpus": 2})), &known, keep);
        let text = serde_json::to_string(&recording).unwrap();
        let read: HostRecording = serde_json::from_str(&text).unwrap();
        assert_eq!(read, recording);
        let mut again = Knowledge::default();
        learn(&read, &mut again);
        for (probe, answer) in known.answers().filter(|(p, _)| keep(p)) {
            assert_eq!(again.answer(probe), Some(answer), "{probe:?}");
        }
        assert!(!again.knows(&Probe::Content("/secret".into())));
    }
}
