//! A command behind a guard. Its key holds all of it: `GUARD ARG RUN UNDO USER`, each word encoded.

use converge_resource::{BadState, State, decode_field, encode_field};

/// The state of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandState {
    /// The guard says that it is to run (`pending`).
    Pending,
    /// The guard says that it has run (`done`).
    Done,
    /// Guard `on_change`: what it last ran for (`ran DIGEST`, `ran -` when it never ran).
    Ran {
        /// The digest of the named resources when it last ran.
        digest: Option<String>,
    },
}

/// When a command has to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Until this path exists.
    Creates(String),
    /// Until this script ends with status 0.
    Unless(String),
    /// When the named resources have changed since; a label that tells commands apart (the item's address).
    OnChange(String),
}

/// A command's key, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When it has to run.
    pub guard: Guard,
    /// The shell text to run.
    pub run: String,
    /// The shell text that undoes it.
    pub undo: Option<String>,
    /// The user to run all of it as; `None` is the session's own privilege.
    pub user: Option<String>,
}

impl Command {
    /// The key of the object.
    pub fn key(&self) -> String {
        let (guard, arg) = match &self.guard {
            Guard::Creates(path) => ("creates", path),
            Guard::Unless(script) => ("unless", script),
            Guard::OnChange(label) => ("on_change", label),
        };
        let optional = |text: &Option<String>| encode_field(text.as_deref().unwrap_or(""));
        [
            guard.to_owned(),
            encode_field(arg),
            encode_field(&self.run),
            optional(&self.undo),
            optional(&self.user),
        ]
        .join(" ")
    }

    /// Takes a key apart; `None` when it is no key of a command.
    pub fn parse(key: &str) -> Option<Self> {
        let words = key.split(' ').map(decode_field).collect::<Option<Vec<_>>>()?;
        let [guard, arg, run, undo, user] = <[String; 5]>::try_from(words).ok()?;
        let guard = match guard.as_str() {
            "creates" => Guard::Creates(arg),
            "unless" => Guard::Unless(arg),
            "on_change" => Guard::OnChange(arg),
            _ => return None,
        };
        let optional = |text: String| Some(text).filter(|t| !t.is_empty());
        Some(Self { guard, run, undo: optional(undo), user: optional(user) })
    }
}

impl From<CommandState> for State {
    fn from(state: CommandState) -> Self {
        match state {
            CommandState::Pending => Self::from_words(["pending"]),
            CommandState::Done => Self::from_words(["done"]),
            CommandState::Ran { digest } => Self::from_words(["ran", digest.as_deref().unwrap_or("-")]),
        }
    }
}

impl TryFrom<State> for CommandState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["pending"] => Ok(Self::Pending),
            ["done"] => Ok(Self::Done),
            ["ran", digest] => Ok(Self::Ran { digest: (*digest != "-").then(|| (*digest).to_owned()) }),
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}
