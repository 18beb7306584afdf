//! A command behind a guard. Its key holds all of it: `GUARD ARG RUN UNDO USER`, each word encoded, and `SECONDS` where
//! the run has a deadline.

use converge_resource::{
    DriftScript, DynNodePart, DynRelations, Erased, Facets, NodePart, Object, ObjectId, Relations,
    Reversibility, decode_field, encode_field, quote, state_of_words,
};

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
    /// Seconds after which the run has failed.
    pub timeout: Option<u64>,
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
        let mut words = vec![
            guard.to_owned(),
            encode_field(arg),
            encode_field(&self.run),
            optional(&self.undo),
            optional(&self.user),
        ];
        words.extend(self.timeout.map(|seconds| seconds.to_string()));
        words.join(" ")
    }

    /// Parses a key; `None` if it is no key of a command.
    pub fn from_key(key: &str) -> Option<Self> {
        let mut words = key.split(' ').map(decode_field).collect::<Option<Vec<_>>>()?;
        let timeout = match words.len() {
            6 => Some(words.pop()?.parse().ok()?),
            _ => None,
        };
        let [guard, arg, run, undo, user] = <[String; 5]>::try_from(words).ok()?;
        let guard = match guard.as_str() {
            "creates" => Guard::Creates(arg),
            "unless" => Guard::Unless(arg),
            "on_change" => Guard::OnChange(arg),
            _ => return None,
        };
        let optional = |text: String| Some(text).filter(|t| !t.is_empty());
        Some(Self { guard, run, undo: optional(undo), user: optional(user), timeout })
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
    const RELATIONS: &'static dyn DynRelations = &Erased::<Self>::new();
    const NODE: &'static dyn DynNodePart = &Erased::<Self>::new();
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
            (Some(Guard::Creates(path)), CommandState::Done) => {
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
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::quote;
    use proptest::prelude::*;

    fn command(guard: Guard, run: &str, undo: Option<&str>) -> Command {
        Command { guard, run: run.to_owned(), undo: undo.map(str::to_owned), user: None, timeout: None }
    }

    proptest! {
        #[test]
        fn keys_come_back(arg in "\\PC+", run in "\\PC+", undo in "\\PC*", timeout: Option<u16>) {
            let undo = Some(undo).filter(|u| !u.is_empty());
            let whole = Command { guard: Guard::Unless(arg), run, undo, user: Some("bob".to_owned()), timeout: timeout.map(u64::from) };
            let back = Command::from_key(&whole.key());
            prop_assert_eq!(back.map(|c| c.key()), Some(whole.key()));
        }
    }

    #[test]
    fn a_command_runs_until_its_guard_holds_and_its_undo_takes_it_back() {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let mark = dir.path().join("it's done");
            let text = mark.to_str().unwrap();
            let quoted = quote(text);
            let (run, undo) = (format!("echo ran; : > {quoted}\n"), format!("rm {quoted}"));
            let guards = [Guard::Creates(text.to_owned()), Guard::Unless(format!("test -e {quoted}"))];
            for guard in guards {
                let key = command(guard, &run, Some(&undo)).key();
                let see = || CommandState::try_from(shell.see::<Command>(root.path(), &key).state).unwrap();
                assert_eq!(see(), CommandState::Pending, "{}", shell.name);
                let forward = Command::steps(&[(&key, CommandState::Pending, CommandState::Done)]);
                assert_eq!(shell.good(root.path(), &forward[0].script, &[], b""), "ran\n");
                assert_eq!(see(), CommandState::Done);
                assert_eq!(shell.good(root.path(), &forward[0].script, &[], b""), "", "it ran twice");
                shell.good(root.path(), "cv_restore_command \"$1\" pending", &[&key], b"");
                assert_eq!(see(), CommandState::Pending);
            }
            let useless = command(Guard::Creates(text.to_owned()), "true", None);
            let steps = Command::steps(&[(&useless.key(), CommandState::Pending, CommandState::Done)]);
            let output = shell.run(root.path(), &steps[0].script, &[], b"");
            assert!(!output.status.success());
            assert!(String::from_utf8_lossy(&output.stderr).contains("still says that it is pending"));
            let mut slow = command(Guard::Creates(text.to_owned()), "exec sleep 30", None);
            slow.timeout = Some(1);
            let steps = Command::steps(&[(&slow.key(), CommandState::Pending, CommandState::Done)]);
            let output = shell.run(root.path(), &steps[0].script, &[], b"");
            assert!(String::from_utf8_lossy(&output.stderr).contains("within 1 s"), "{}", shell.name);
            let failing = command(Guard::Creates(text.to_owned()), "echo no; exit 7", None);
            let steps = Command::steps(&[(&failing.key(), CommandState::Pending, CommandState::Done)]);
            let output = shell.run(root.path(), &steps[0].script, &[], b"");
            assert!(String::from_utf8_lossy(&output.stderr).contains("status 7"), "{}", shell.name);
        }
    }

    /// It hears no SIGTERM, nor does what it has started, which its end would leave behind.
    #[test]
    fn what_goes_on_past_its_time_is_killed_with_all_that_it_has_started() {
        let tools = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for shell in shells(tools.path()) {
                scope.spawn(move || {
                    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                    let deaf = |mark: &str| {
                        let mark = quote(dir.path().join(mark).to_str().unwrap());
                        format!("trap '' TERM; while :; do echo >>{mark}; sleep 0.1; done")
                    };
                    let alone = (deaf("alone"), "alone");
                    let behind = (format!("({}) & wait", deaf("behind")), "behind");
                    for (run, mark) in [alone, behind] {
                        let mut endless = command(Guard::Creates("/none".to_owned()), &run, None);
                        endless.timeout = Some(1);
                        let steps =
                            Command::steps(&[(&endless.key(), CommandState::Pending, CommandState::Done)]);
                        let begun = std::time::Instant::now();
                        let output = shell.run(root.path(), &steps[0].script, &[], b"");
                        let said = String::from_utf8_lossy(&output.stderr);
                        assert!(said.contains("did not end within 1 s"), "{}: {said}", shell.name);
                        assert!(begun.elapsed().as_secs() < 30, "{}: {mark}", shell.name);
                        let size = || std::fs::metadata(dir.path().join(mark)).unwrap().len();
                        let left = size();
                        std::thread::sleep(std::time::Duration::from_secs(1));
                        assert_eq!(size(), left, "{}: {mark} goes on", shell.name);
                    }
                    // A script that ends by itself may leave processes.
                    let daemon = format!(
                        "({}) >/dev/null 2>&1 & echo $! >{}",
                        deaf("daemon"),
                        quote(dir.path().join("pid").to_str().unwrap())
                    );
                    let mut leaves = command(Guard::OnChange("r/i".to_owned()), &daemon, None);
                    leaves.timeout = Some(60);
                    let ran = CommandState::Ran { digest: Some("a".to_owned()) };
                    let steps = Command::steps(&[(&leaves.key(), CommandState::Ran { digest: None }, ran)]);
                    shell.good(root.path(), &steps[0].script, &[], b"");
                    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
                    shell.good(root.path(), "kill -KILL \"$1\"", &[pid.trim()], b"");
                });
            }
        });
    }

    #[test]
    fn on_change_remembers_what_it_ran_for() {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            let root = tempfile::tempdir().unwrap();
            let key = command(Guard::OnChange("role/item".to_owned()), "echo ran", Some("echo back")).key();
            let never = CommandState::Ran { digest: None };
            let ran = |d: &str| CommandState::Ran { digest: Some(d.to_owned()) };
            let see = || CommandState::try_from(shell.see::<Command>(root.path(), &key).state).unwrap();
            let step = |from: &CommandState, to: &CommandState| {
                Command::steps(&[(&key, from.clone(), to.clone())]).remove(0).script
            };
            assert_eq!(see(), never);
            assert_eq!(shell.good(root.path(), &step(&never, &ran("a")), &[], b""), "ran\n");
            assert_eq!(see(), ran("a"));
            assert_eq!(shell.good(root.path(), &step(&ran("a"), &ran("b")), &[], b""), "ran\n");
            shell.good(root.path(), "cv_adopt_command \"$1\" 'ran c'", &[&key], b"");
            assert_eq!(see(), ran("c"));
            assert_eq!(shell.good(root.path(), &step(&ran("c"), &never), &[], b""), "back\n");
            assert_eq!(see(), never);
        }
    }

    #[test]
    fn without_an_undo_it_is_irreversible() {
        let guard = || Guard::Creates("/x".to_owned());
        let judge =
            |c: Command| Command::reversibility(&c.key(), &CommandState::Pending, &CommandState::Done);
        assert_eq!(judge(command(guard(), "x", Some("y"))), Reversibility::Reversible);
        assert!(matches!(judge(command(guard(), "x", None)), Reversibility::Irreversible(_)));
        let long = format!("first\n{}", "x".repeat(100));
        assert_eq!(title(&command(guard(), &long, None).key(), &CommandState::Done), "run: first …");
    }
}
