//! Object identities and states, and the one-line text that host and controller share.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of an object on a machine, by kind and key: `path:/etc/hosts`, `package:curl`, `unit:ssh.service`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// The [`crate::Object::KIND`] of the object.
    pub kind: String,
    /// Its name among its kind. Never holds a NUL, a newline or another control character.
    pub key: String,
}

impl ObjectId {
    /// The identity of the object `key` of kind `kind`.
    pub fn new(kind: &str, key: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), key: key.into() }
    }

    /// Whether this one stands for the other too: a key with a slash at its end stands for all that lies below.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self == other
            || (self.kind == other.kind && self.key.ends_with('/') && other.key.starts_with(&self.key))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A command's key is its whole text, encoded, and may hold a secret; a condition's is all that it asks: people know them by
        // their items.
        if matches!(self.kind.as_str(), "command" | "condition") {
            return write!(f, "the {}", self.kind);
        }
        write!(f, "{}:{}", self.kind, self.key)
    }
}

/// The whole state of one object as one canonical line: words separated by single spaces, each word
/// encoded by [`encode_field`]. The host's shell functions print the very same line, so it is fingerprint,
/// saved state and plan entry at once. Two states are the same exactly when their lines are equal.
/// Content is named by digest. The line `absent` means that the object does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct State(String);

impl State {
    /// The state of an object that does not exist.
    pub fn absent() -> Self {
        Self("absent".to_owned())
    }

    /// Joins plain words, encoding each.
    pub fn from_words<I: IntoIterator<Item = S>, S: AsRef<str>>(words: I) -> Self {
        Self(words.into_iter().map(|w| encode_field(w.as_ref())).collect::<Vec<_>>().join(" "))
    }

    /// Takes a line as the host printed it.
    pub fn from_line(line: &str) -> Self {
        Self(line.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// The canonical line.
    pub fn line(&self) -> &str {
        &self.0
    }

    /// The decoded words of the line.
    ///
    /// # Errors
    /// A word that no encoder produces.
    pub fn words(&self) -> Result<Vec<String>, BadState> {
        self.0.split(' ').map(|w| decode_field(w).ok_or_else(|| BadState(self.0.clone()))).collect()
    }

    /// True for the line `absent`.
    pub fn is_absent(&self) -> bool {
        self.0 == "absent"
    }

    /// The reason why the host could not read the state, where it printed that instead of one.
    pub fn unread(&self) -> Option<String> {
        self.0.strip_prefix("! ").and_then(decode_field)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A line that is not a state of its object.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a state of this object")]
pub struct BadState(pub String);

/// An observation: a state that was read from a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The state.
    pub state: State,
    /// A time in seconds since 1970 that is no part of the state: the mtime of a path, the start of a unit.
    pub moment: Option<i64>,
    /// The real key of the object, if it was asked for under another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real: Option<String>,
    /// The number of its names (hard links of a file), where these are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<u64>,
}

impl Observation {
    /// A state of an object under its own name.
    pub fn new(state: State, moment: Option<i64>) -> Self {
        Self { state, moment, real: None, names: None }
    }
}

const PLAIN: &[u8] = b"._/:@%+,=~^#-";

/// Encodes one word: plain when it holds only ASCII letters, digits and `._/:@%+,=~^#-`; a lone backslash when empty;
/// else every byte as `\0ooo` (octal), which POSIX `printf %b` decodes.
pub fn encode_field(text: &str) -> String {
    if text.is_empty() {
        return "\\".to_owned();
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || PLAIN.contains(&b)) {
        return text.to_owned();
    }
    text.bytes().map(|b| format!("\\0{b:03o}")).collect()
}

/// Undoes [`encode_field`]; `None` for a word that it never produces. Bytes that are no UTF-8 are replaced.
pub fn decode_field(word: &str) -> Option<String> {
    if word == "\\" {
        return Some(String::new());
    }
    if !word.starts_with('\\') {
        let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || PLAIN.contains(&b));
        return (plain && !word.is_empty()).then(|| word.to_owned());
    }
    let bytes = word
        .split("\\0")
        .skip(1)
        .map(|oct| if oct.len() == 3 { u8::from_str_radix(oct, 8).ok() } else { None })
        .collect::<Option<Vec<u8>>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_plain_unless_they_must_not_be() {
        assert_eq!(encode_field("/etc/hosts"), "/etc/hosts");
        assert_eq!(encode_field(""), "\\");
        assert_eq!(encode_field("a b"), "\\0141\\0040\\0142");
        assert_eq!(decode_field("a\\0040"), None);
        assert_eq!(decode_field("\\09"), None);
    }

    #[test]
    fn a_state_that_the_host_could_not_read_has_a_reason() {
        let unread = State::from_line(&format!("! {}", encode_field("it is down")));
        assert_eq!(unread.unread().as_deref(), Some("it is down"));
        assert_eq!(State::from_line("! no-answer").unread().as_deref(), Some("no-answer"));
        assert_eq!(State::absent().unread(), None);
    }

    proptest! {
        #[test]
        fn every_word_comes_back(text in "\\PC*") {
            prop_assert_eq!(decode_field(&encode_field(&text)), Some(text));
        }

        #[test]
        fn states_come_back(words in proptest::collection::vec("\\PC*", 1..6)) {
            let state = State::from_words(&words);
            prop_assert!(!state.line().contains('\n'));
            prop_assert_eq!(state.words().unwrap(), words);
        }
    }
}
