//! A command behind a guard. Its key holds all of it: `GUARD ARG RUN UNDO USER`, each word encoded.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step,
    decode_field, encode_field, quote,
};
use std::collections::BTreeMap;

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
    pub fn from_key(key: &str) -> Option<Self> {
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

impl Object for Command {
    const KIND: &'static str = "command";
    const SHELL: &'static str = include_str!("command.sh");
    type State = CommandState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<CommandState>(keys, answer)
    }

    fn steps(changes: &[(&str, CommandState, CommandState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, _, to)| {
                let line = State::from(to.clone());
                let script = format!("cv_apply_command {} {}", quote(key), quote(line.line()));
                Step::new(title(key, to), script).within(3600)
            })
            .collect()
    }

    fn reversibility(key: &str, _: &CommandState, _: &CommandState) -> Reversibility {
        match Self::from_key(key) {
            Some(Self { undo: Some(_), .. }) => Reversibility::Reversible,
            _ => Reversibility::Irreversible("the command has no `undo`".to_owned()),
        }
    }

    fn opaque(_: &CommandState, _: &CommandState) -> bool {
        true
    }

    fn attributes(from: &CommandState, to: &CommandState) -> Vec<AttributeChange> {
        differing(&["state", "ran for"], &facets(from), &facets(to))
    }

    fn content(_: &CommandState) -> Option<Digest> {
        None
    }
}

/// The first line of what is run, shortened.
fn title(key: &str, to: &CommandState) -> String {
    let Some(command) = Command::from_key(key) else { return "run a command".to_owned() };
    let back = matches!(to, CommandState::Pending | CommandState::Ran { digest: None });
    let script = if back { command.undo.unwrap_or_default() } else { command.run };
    let first = script.trim().lines().next().unwrap_or_default();
    let short: String = first.chars().take(60).collect();
    let more = if short.len() < script.trim().len() { " …" } else { "" };
    if back { format!("undo: {short}{more}") } else { format!("run: {short}{more}") }
}

fn facets(state: &CommandState) -> BTreeMap<&'static str, String> {
    match state {
        CommandState::Pending => BTreeMap::from([("state", "to run".to_owned())]),
        CommandState::Done => BTreeMap::from([("state", "has run".to_owned())]),
        CommandState::Ran { digest: None } => BTreeMap::from([("ran for", "never".to_owned())]),
        CommandState::Ran { digest: Some(digest) } => {
            BTreeMap::from([("ran for", digest.chars().take(12).collect())])
        }
    }
}
