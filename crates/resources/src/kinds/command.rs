//! `command`

use crate::attrs::check_account;
use crate::look::{check_deadline, check_path, path, path_id};
use crate::restart::inputs;
use crate::surroundings::{DeclaredSurroundings, Env};
use converge_objects::{Command as Key, CommandGuard, CommandState, PathState};
use converge_resource::{
    Claim, FETCH_NOT_MADE, ObjectId, OtherHostQuestion, ParamError, Resource, Stop, View, WantedStates,
    unlisted,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A shell script that runs only until its guard holds.
///
/// Exactly one guard is needed: `creates`, `unless` or `on_change`. It runs with `/bin/sh` in `/`, without input, unless `chdir` and
/// `stdin` say otherwise. After it `creates` and `unless` are looked at again: a command that ends well and leaves its guard unfulfilled
/// has failed.
/// Without `undo` the plan marks it as irreversible. A plan does not run it; `unless` is run by every plan, so it must
/// only read. Behind an earlier change of the same run, `unless` is decided when its turn comes.
///
/// With `waits_for` it does not begin before another host is ready for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The script.
    run: String,
    /// Guard: run until this path exists. Later resources know that it may then be there.
    creates: Option<String>,
    /// Guard: run until this read-only script ends with status 0.
    unless: Option<String>,
    /// Guard: run when one of these earlier resources of this role is no longer what it last ran for; where it never
    /// ran, it runs.
    on_change: Option<Vec<String>>,
    /// The script that undoes it, for a rollback. It also runs where the script failed or was cut off, so it must end well where there is nothing to undo.
    undo: Option<String>,
    /// Run the scripts as this user.
    user: Option<String>,
    /// Run the scripts in this directory. If it is not there when the command is to run, that is an error. As root no link is followed
    /// below a directory that others may write to.
    chdir: Option<String>,
    /// Environment variables of the scripts. Their values stand on no command line. A secret among them makes the resource sensitive:
    /// nothing of it is shown. `on_change` sees a changed value as another command, which has not run.
    #[serde(default)]
    env: Env,
    /// The standard input of `run`, as text of 64 KiB at most, exactly as it is written. A secret in it is treated as one in `env`. `unless`
    /// and `undo` have no input.
    stdin: Option<String>,
    /// Seconds after which the run counts as failed, at most 3600.
    timeout: Option<u64>,
    /// Another host that must be ready first. `host` is its name in the inventory; `until` is a read-only script that ends there with
    /// status 0 when it is, and else says why not on standard error; `timeout` is the number of seconds within which that must come, 900
    /// without it. The host is asked again as long as the same run is at work there: when that work is over, or has failed, so is the
    /// wait. It may be outside `--limit`; then it is asked once.
    waits_for: Option<HostCondition>,
}

/// A condition on another host that must hold first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCondition {
    /// The inventory's name of the host.
    host: String,
    /// A read-only script that ends with status 0 when the host is ready.
    until: String,
    /// Seconds within which that must come.
    #[serde(default = "fifteen_minutes")]
    timeout: u64,
}

fn fifteen_minutes() -> u64 {
    900
}

impl HostCondition {
    fn fetch(&self) -> OtherHostQuestion {
        let until = unlisted("timeout 60", &self.until);
        OtherHostQuestion {
            host: self.host.clone(),
            // The last line on standard error is the reason.
            script: format!("echo 'it is not ready' >&2\n{until} >/dev/null || exit {FETCH_NOT_MADE}"),
            seconds: self.timeout,
            give_up: None,
            what: "leave to go on".to_owned(),
        }
    }
}

impl Command {
    /// The guard; `creates` and `unless` win over one another only in parameters that `validate` refuses.
    fn guard(&self) -> CommandGuard {
        match (&self.creates, &self.unless) {
            (Some(path), _) => CommandGuard::Creates(path_id(path).key),
            (None, Some(script)) => CommandGuard::Unless(script.clone()),
            (None, None) => CommandGuard::OnChange(self.on_change.clone().unwrap_or_default().join(", ")),
        }
    }

    fn declared(&self) -> DeclaredSurroundings<'_> {
        DeclaredSurroundings { chdir: self.chdir.as_ref(), env: &self.env, stdin: self.stdin.as_ref() }
    }

    fn id(&self) -> ObjectId {
        let key = Key {
            guard: self.guard(),
            run: self.run.clone(),
            undo: self.undo.clone(),
            user: self.user.clone(),
            timeout: self.timeout,
            surroundings: self.declared().surroundings(),
        };
        ObjectId::new("command", key.key())
    }

    fn state(&self, view: &dyn View) -> Result<CommandState, Stop> {
        crate::look::state(view, &self.id())
    }
}

impl Resource for Command {
    const KIND: &'static str = "command";
    const EXAMPLE: &'static str = "\
- name: a key of its own
  command:
    run: ssh-keygen -q -t ed25519 -N '' -f /etc/agent/key
    creates: /etc/agent/key
    undo: rm -f /etc/agent/key /etc/agent/key.pub
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        if let Some(path) = &self.creates {
            check_path("/creates", path, &mut errors);
        }
        if let Some(user) = &self.user {
            check_account("/user", user, &mut errors);
        }
        self.declared().validate(&mut errors);
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        let given: Vec<&str> = [
            self.creates.as_ref().map(|_| "/creates"),
            self.unless.as_ref().map(|_| "/unless"),
            self.on_change.as_ref().map(|_| "/on_change"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match given.as_slice() {
            [] => wrong(
                "",
                "nothing says when the command has been done",
                "add `creates: PATH`, `unless: SCRIPT` or `on_change: [NAMES]`",
            ),
            [_] => {}
            [_, second, ..] => wrong(
                second,
                "there is more than one guard",
                "keep one of `creates`, `unless` and `on_change`",
            ),
        }
        if self.on_change.as_ref().is_some_and(Vec::is_empty) {
            wrong("/on_change", "no resource is named", "name an earlier resource of this role");
        }
        for (pointer, text) in
            [("/run", Some(&self.run)), ("/unless", self.unless.as_ref()), ("/undo", self.undo.as_ref())]
        {
            if text.is_some_and(|t| t.trim().is_empty()) {
                wrong(pointer, "the script is empty", "write what is to run");
            }
            if text.is_some_and(|t| t.contains('\0')) {
                wrong(pointer, "the script has a NUL in it", "take it out");
            }
        }
        if let Some(other) = &self.waits_for {
            if other.host.is_empty() {
                wrong("/waits_for/host", "no host is named", "name a host of the inventory");
            }
            if other.until.trim().is_empty() || other.until.contains('\0') {
                wrong(
                    "/waits_for/until",
                    "the script is empty or has a NUL in it",
                    "write what must end well",
                );
            }
        }
        if let Some(timeout) = self.timeout {
            check_deadline("/timeout", timeout, 3600, &mut errors);
        }
        if let Some(other) = &self.waits_for {
            check_deadline("/waits_for/timeout", other.timeout, 3600, &mut errors);
        }
        errors
    }

    /// The path of `creates` is claimed with the facet `may-create`, which conflicts with nothing: while the command is
    /// pending, the planner lets [`View::may_appear`] say so of this path.
    fn claims(&self) -> Vec<Claim> {
        let mut claims = vec![Claim::exclusive(self.id(), "state")];
        if let Some(path) = &self.creates {
            claims.push(Claim::edit(path_id(path), "may-create"));
        }
        claims
    }

    fn names(&self) -> Vec<String> {
        self.on_change.clone().unwrap_or_default()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut wanted = self.wanted(view)?;
        let runs = wanted.targets.iter().any(|(object, to)| view.raw(object).is_ok_and(|now| now != *to));
        if runs {
            self.declared().need_dir(view)?;
        }
        if let Some(other) = &self.waits_for {
            wanted.fetch = Some(other.fetch());
            if runs {
                wanted.notes.push(format!("begins when {} is ready", other.host));
            }
        }
        Ok(wanted)
    }
}

impl Command {
    fn wanted(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        match self.guard() {
            CommandGuard::Creates(target) => {
                let now = self.state(view)?;
                match path(view, &target)? {
                    // An earlier item may bring the path: the step looks again and then runs nothing, so the
                    // state after it is known either way.
                    PathState::Absent => Ok(WantedStates {
                        notes: view
                            .may_appear(&path_id(&target))
                            .map(|wait| format!("runs unless {target} is there by then: {}", wait.reason))
                            .into_iter()
                            .collect(),
                        ..WantedStates::one(self.id(), CommandState::Done)
                    }),
                    // It is there, or an earlier item of this run makes it: the command has nothing to do.
                    _ => Ok(WantedStates::one(self.id(), now)),
                }
            }
            CommandGuard::Unless(_) => match view.pending() {
                // The guard may read what an earlier item changes.
                Some(wait) => Err(Stop::Deferred(wait)),
                None => {
                    self.state(view)?;
                    Ok(WantedStates::one(self.id(), CommandState::Done))
                }
            },
            CommandGuard::OnChange(_) => {
                self.state(view)?;
                let names = self.on_change.as_deref().unwrap_or_default();
                let digest = inputs(view, names, None)?.map(|with| with.digest);
                Ok(WantedStates::one(self.id(), CommandState::Ran { digest }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn line(kind: &Command, view: &FakeView) -> String {
        view.line(&kind.id())
    }

    fn view(kind: &Command, state: CommandState) -> FakeView {
        FakeView::new().has(kind.id(), state)
    }

    #[test]
    fn creates_reads_the_virtual_host() {
        let kind = read::<Command>(json!({"run": "make", "creates": "/etc/made"}));
        let pending = view(&kind, CommandState::Pending);
        assert_eq!(line(&kind, &settle(&kind, pending.clone())), "done");
        // An earlier item of the run makes the path: nothing is left to do.
        assert_eq!(line(&kind, &settle(&kind, pending.clone().file("/etc/made", 0o644, ""))), "pending");
        let later = kind.plan(&pending.may(path_id("/etc/made"))).unwrap();
        assert_eq!((later.targets[0].1.line(), later.notes.len()), ("done", 1));
        let done = view(&kind, CommandState::Done).file("/etc/made", 0o644, "");
        assert_eq!(line(&kind, &settle(&kind, done)), "done");
    }

    #[test]
    fn unless_is_not_trusted_behind_an_earlier_change() {
        let kind = read::<Command>(json!({"run": "a", "unless": "b"}));
        assert_eq!(line(&kind, &settle(&kind, view(&kind, CommandState::Pending))), "done");
        assert_eq!(line(&kind, &settle(&kind, view(&kind, CommandState::Done))), "done");
        assert!(matches!(kind.plan(&view(&kind, CommandState::Done).pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn on_change_is_durable() {
        let kind = read::<Command>(json!({"run": "update-grub", "on_change": ["defaults"]}));
        let first = view(&kind, CommandState::Ran { digest: None }).named("defaults", "d1", false, None);
        let ran = settle(&kind, first);
        assert_ne!(line(&kind, &ran), "ran -");
        let changed = ran.clone().named("defaults", "d2", true, None);
        assert_ne!(line(&kind, &settle(&kind, changed)), line(&kind, &ran));
    }

    #[test]
    fn another_host_is_asked_before_it_begins() {
        let kind = read::<Command>(
            json!({"run": "a", "creates": "/x", "waits_for": {"host": "h1", "until": "test -e /y", "timeout": 9}}),
        );
        let fetch = kind.plan(&view(&kind, CommandState::Pending)).unwrap().fetch.unwrap();
        assert_eq!((fetch.host.as_str(), fetch.seconds), ("h1", 9));
        let ends = |until: &str| {
            let script = HostCondition { host: "h1".into(), until: until.into(), timeout: 9 }.fetch().script;
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            (
                output.status.code().unwrap(),
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        assert_eq!(ends("echo out; exit 0").0, 0);
        assert_eq!(ends("false"), (FETCH_NOT_MADE, String::new(), "it is not ready\n".into()));
        assert_eq!(
            ends("echo why >&2; exit 3"),
            (FETCH_NOT_MADE, String::new(), "it is not ready\nwhy\n".into())
        );
    }

    #[test]
    fn the_key_holds_all_of_it() {
        let kind =
            read::<Command>(json!({"run": "a b", "creates": "/x", "undo": "c", "user": "u", "timeout": 9}));
        let key = Key::from_key(&kind.id().key).unwrap();
        assert_eq!(key.guard, CommandGuard::Creates("/x".into()));
        assert_eq!(
            (key.run.as_str(), key.undo.as_deref(), key.user.as_deref(), key.timeout),
            ("a b", Some("c"), Some("u"), Some(9))
        );
        assert_eq!(kind.claims()[1], Claim::edit(path_id("/x"), "may-create"));
    }

    #[test]
    fn the_directory_is_there_when_it_runs() {
        let kind = read::<Command>(json!({"run": "make", "creates": "/etc/made", "chdir": "/srv/app/"}));
        let pending = view(&kind, CommandState::Pending);
        let stop = kind.plan(&pending).unwrap_err();
        assert!(
            matches!(&stop, Stop::Invalid { pointer, message, .. } if pointer == "/chdir" && message.contains("/srv/app does not exist")),
            "{stop:?}"
        );
        assert!(kind.plan(&pending.clone().file("/srv/app", 0o644, "")).is_err(), "it is a file");
        settle(&kind, pending.clone().dir("/srv/app"));
        settle(&kind, pending.clone().link("/srv/app", "v2").dir("/srv/v2"));
        let may = pending.clone().may(path_id("/srv/app"));
        assert!(matches!(kind.plan(&may), Err(Stop::Deferred(_))), "a package may bring it");
        // A command that has run needs no directory.
        settle(&kind, view(&kind, CommandState::Done).file("/etc/made", 0o644, ""));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let params = |more: serde_json::Value| {
            let mut all = json!({"run": "a", "creates": "/x"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            wrong::<Command>(all)
        };
        assert_eq!(params(json!({"chdir": "app"})), ["/chdir"]);
        assert_eq!(params(json!({"env": {"A-B": "x", "1A": "x", "": "x"}})), ["/env", "/env", "/env"]);
        assert_eq!(params(json!({"env": {"A": "\0"}, "stdin": "\0"})), ["/env", "/stdin"]);
        assert_eq!(
            params(json!({"stdin": "x".repeat(70_000), "env": {"A": "x".repeat(70_000)}})),
            ["/env", "/stdin"]
        );
        assert_eq!(wrong::<Command>(json!({"run": "a"})), [""]);
        assert_eq!(wrong::<Command>(json!({"run": "a", "creates": "/x", "unless": "b"})), ["/unless"]);
        assert_eq!(wrong::<Command>(json!({"run": " ", "creates": "x"})), ["/creates", "/run"]);
        assert_eq!(wrong::<Command>(json!({"run": "a", "on_change": []})), ["/on_change"]);
        assert_eq!(wrong::<Command>(json!({"run": "a", "creates": "/x", "timeout": 0})), ["/timeout"]);
        let other = json!({"host": "", "until": " ", "timeout": 0});
        assert_eq!(
            wrong::<Command>(json!({"run": "a", "creates": "/x", "waits_for": other})),
            ["/waits_for/host", "/waits_for/until", "/waits_for/timeout"]
        );
    }
}
