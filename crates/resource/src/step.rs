//! Steps of a host, as data.

use crate::Digest;
use serde::{Deserialize, Serialize};

/// One piece of work on a host: shell text that uses the objects' functions ([`crate::Object::SHELL`]).
/// It ends with status 0 exactly if it has done its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// POSIX shell text; every operand built with [`quote`].
    pub script: String,
    /// The content that the script reads from its standard input.
    pub stdin: Option<Digest>,
    /// Seconds after which the step counts as failed.
    pub timeout: u64,
    /// A description for progress: `apt-get install curl`.
    pub title: String,
}

impl Step {
    /// A quick step (deadline of 120 s) without input.
    pub fn new(title: impl Into<String>, script: impl Into<String>) -> Self {
        Self { script: script.into(), stdin: None, timeout: 120, title: title.into() }
    }

    /// The same step, reading this content.
    #[must_use]
    pub fn reading(mut self, digest: Digest) -> Self {
        self.stdin = Some(digest);
        self
    }

    /// The same step with another deadline in seconds.
    #[must_use]
    pub fn within(mut self, seconds: u64) -> Self {
        self.timeout = seconds;
        self
    }
}

/// Quotes one word for a POSIX shell.
pub fn quote(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./:@%+,=-".contains(&b))
        && !word.starts_with('=');
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Shell text that has a program (`timeout 60`, `runuser -u USER --`) run a script without input. The script goes through a
/// pipe: the lists of processes, which all users of a host can read, do not show it.
pub fn unlisted(program: &str, script: &str) -> String {
    let read = "cv_script=$(cat); exec </dev/null; eval \"$cv_script\"";
    format!("printf %s {} | {program} sh -c {}", quote(script), quote(read))
}

#[cfg(test)]
mod tests {
    use super::{quote, unlisted};

    #[test]
    fn a_script_is_run_without_standing_on_a_command_line() {
        let script = "ps -ww -o args= -p $$; cat; printf '%s\\n' \"it's $0 $#\"; exit 3";
        let text = unlisted("env", script);
        let output = std::process::Command::new("sh").args(["-c", &text]).output().unwrap();
        let reply = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(reply.starts_with("sh -c cv_script=") && reply.ends_with("it's sh 0\n"), "{reply}");
        assert!(!reply.contains("exit 3"), "{reply}");
    }

    #[test]
    fn words_are_quoted_only_when_they_must_be() {
        assert_eq!(quote("/etc/hosts"), "/etc/hosts");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quote("~root"), "'~root'");
    }
}
