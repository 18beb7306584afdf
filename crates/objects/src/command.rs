//! A command behind a guard. Its key holds all of it: `GUARD ARG RUN UNDO USER`, each word encoded, `SECONDS` where the run
//! has a deadline, and `SECONDS CHDIR STDIN [NAME=VALUE…]` where it says anything of its surroundings.

use converge_resource::{
    ActionPart, DriftScript, DynActionPart, DynNodePart, DynRelations, ErasedObject, Facets, NodePart,
    Object, ObjectId, Relations, Reversibility, Traits, decode_field, encode_field, quote, state_of_words,
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
pub enum CommandGuard {
    /// Until this path exists.
    Creates(String),
    /// Until this script ends with status 0.
    Unless(String),
    /// When the named resources have changed since; a label that tells commands apart (the item's address).
    OnChange(String),
}

/// The surroundings of a script: where it runs, and what it finds there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The directory that it runs in; `None` is `/`.
    pub chdir: Option<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Its standard input; `None` is empty.
    pub stdin: Option<String>,
}

impl Surroundings {
    /// Shell text that runs the script so, by the session's own privilege or as this user. Nothing of it stands on a command line.
    pub fn around(&self, script: &str, user: Option<&str>) -> String {
        let enter = |dir: &String| match user {
            None => format!("cv_enter {} || exit 126\n", quote(dir)),
            Some(_) => format!("{} || exit 126\n", enter_as_user(dir)),
        };
        let mut text = self.chdir.as_ref().map(enter).unwrap_or_default();
        for (name, value) in &self.env {
            text.push_str(&format!("export {name}={}\n", quote(value)));
        }
        match &self.stdin {
            Some(input) => {
                text.push_str(&format!("printf %s {} 2>/dev/null | eval {}", quote(input), quote(script)))
            }
            None => text.push_str(script),
        }
        text
    }
}

/// Shell text that goes to a directory by the rights of a user of whom root's rules of paths do not hold.
fn enter_as_user(dir: &str) -> String {
    let dir = quote(dir);
    format!(
        "cd -- {dir} 2>/dev/null || {{ printf '%s\\n' {dir}': the directory cannot be entered' >&2; false; }}"
    )
}

/// A command's key, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When it has to run.
    pub guard: CommandGuard,
    /// The shell text to run.
    pub run: String,
    /// The shell text that undoes it.
    pub undo: Option<String>,
    /// The user to run all of it as; `None` is the session's own privilege.
    pub user: Option<String>,
    /// Seconds after which the run has failed.
    pub timeout: Option<u64>,
    /// Directory and environment of all of it, and the standard input of `run`.
    pub surroundings: Surroundings,
}

impl Command {
    /// The key of the object.
    pub fn key(&self) -> String {
        let (guard, arg) = match &self.guard {
            CommandGuard::Creates(path) => ("creates", path),
            CommandGuard::Unless(script) => ("unless", script),
            CommandGuard::OnChange(label) => ("on_change", label),
        };
        let optional = |text: &Option<String>| encode_field(text.as_deref().unwrap_or(""));
        let mut words = vec![
            guard.to_owned(),
            encode_field(arg),
            encode_field(&self.run),
            optional(&self.undo),
            optional(&self.user),
        ];
        let Surroundings { chdir, env, stdin } = &self.surroundings;
        if self.surroundings == Surroundings::default() {
            words.extend(self.timeout.map(|seconds| seconds.to_string()));
        } else {
            let seconds = self.timeout.map(|seconds| seconds.to_string());
            words.extend([optional(&seconds), optional(chdir), optional(stdin)]);
            words.extend(env.iter().map(|(name, value)| encode_field(&format!("{name}={value}"))));
        }
        words.join(" ")
    }

    /// Parses a key; `None` if it is no key of a command.
    pub fn from_key(key: &str) -> Option<Self> {
        let mut words = key.split(' ').map(decode_field).collect::<Option<Vec<_>>>()?;
        let optional = |text: String| Some(text).filter(|t| !t.is_empty());
        let mut surroundings = Surroundings::default();
        let mut timeout = None;
        if words.len() > 5 {
            let mut more = words.split_off(5).into_iter();
            timeout = optional(more.next()?).map(|seconds| seconds.parse()).transpose().ok()?;
            surroundings.chdir = more.next().and_then(optional);
            surroundings.stdin = more.next().and_then(optional);
            let pair = |text: String| text.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
            surroundings.env = more.map(pair).collect::<Option<_>>()?;
        }
        let [guard, arg, run, undo, user] = <[String; 5]>::try_from(words).ok()?;
        let guard = match guard.as_str() {
            "creates" => CommandGuard::Creates(arg),
            "unless" => CommandGuard::Unless(arg),
            "on_change" => CommandGuard::OnChange(arg),
            _ => return None,
        };
        Some(Self { guard, run, undo: optional(undo), user: optional(user), timeout, surroundings })
    }
}

impl CommandState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Pending => vec!["pending".to_owned()],
            Self::Done => vec!["done".to_owned()],
            Self::Ran { digest } => vec!["ran".to_owned(), digest.clone().unwrap_or_else(|| "-".to_owned())],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["pending"] => Some(Self::Pending),
            ["done"] => Some(Self::Done),
            ["ran", digest] => Some(Self::Ran { digest: (*digest != "-").then(|| (*digest).to_owned()) }),
            _ => None,
        }
    }
}

state_of_words!(CommandState);

impl Object for Command {
    const KIND: &'static str = "command";
    const SHELL: &'static str = include_str!("command.sh");
    const SECONDS: u64 = 3600;
    const TRAITS: Traits = Traits { key_is_text: true, ..Traits::NONE };
    const RELATIONS: &'static dyn DynRelations = &ErasedObject::<Self>::new();
    const NODE: &'static dyn DynNodePart = &ErasedObject::<Self>::new();
    const ACTION: &'static dyn DynActionPart = &ErasedObject::<Self>::new();
    type State = CommandState;

    fn title(key: &str, _: &CommandState, to: &CommandState) -> String {
        title(key, to)
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

    fn facets(state: &CommandState) -> Facets {
        match state {
            CommandState::Pending => vec![("state", "to run".to_owned())],
            CommandState::Done => vec![("state", "has run".to_owned())],
            CommandState::Ran { digest: None } => vec![("ran for", "never".to_owned())],
            CommandState::Ran { digest: Some(digest) } => {
                vec![("ran for", digest.chars().take(12).collect())]
            }
        }
    }

    fn drifts(key: &str, state: &CommandState) -> Vec<DriftScript> {
        match (Self::from_key(key).map(|c| c.guard), state) {
            (Some(CommandGuard::Creates(path)), CommandState::Done) => {
                let script = format!("[ -f {0} ] || exit 3; rm -f -- {0}", quote(&path));
                vec![DriftScript::new("state", format!("{path} removed"), script)]
            }
            _ => Vec::new(),
        }
    }
}

impl Relations for Command {
    /// The user as whom its `undo` runs.
    fn accounts(key: &str, state: &CommandState) -> Vec<ObjectId> {
        let command = Self::from_key(key).filter(|c| *state == CommandState::Done && c.undo.is_some());
        command.and_then(|c| c.user).map(|name| ObjectId::new("user", name)).into_iter().collect()
    }
}

impl ActionPart for Command {
    fn guard(key: &str) -> Option<String> {
        // Its first two words.
        Self::from_key(key)?;
        Some(key.split(' ').take(2).collect::<Vec<_>>().join(" "))
    }

    fn creates(key: &str) -> Option<String> {
        match Self::from_key(key)?.guard {
            CommandGuard::Creates(path) => Some(path),
            CommandGuard::Unless(_) | CommandGuard::OnChange(_) => None,
        }
    }

    fn user(key: &str) -> Option<String> {
        Self::from_key(key)?.user
    }

    fn is_pending(state: &CommandState) -> bool {
        *state == CommandState::Pending
    }

    fn undoes(from: &CommandState, to: &CommandState) -> bool {
        matches!(
            (from, to),
            (CommandState::Done, CommandState::Pending)
                | (CommandState::Ran { digest: Some(_) }, CommandState::Ran { digest: None })
        )
    }
}

impl NodePart for Command {
    // Its `undo` would find no node, and one without `undo` leaves nothing behind.
    const GOES_WITH_NODE: bool = true;
}

/// The first line of the command, shortened.
fn title(key: &str, to: &CommandState) -> String {
    let Some(command) = Command::from_key(key) else { return "run a command".to_owned() };
    let back = matches!(to, CommandState::Pending | CommandState::Ran { digest: None });
    let script = if back { command.undo.unwrap_or_default() } else { command.run };
    let first = script.trim().lines().next().unwrap_or_default();
    let short: String = first.chars().take(60).collect();
    let more = if short.len() < script.trim().len() { " …" } else { "" };
    if back { format!("undo: {short}{more}") } else { format!("run: {short}{more}") }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
