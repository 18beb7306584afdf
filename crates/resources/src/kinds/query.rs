//! `query`

use crate::attrs::check_account;
use crate::look::check_deadline;
use crate::surroundings::{DeclaredSurroundings, Env};
use converge_resource::{Claim, ParamError, Probe, Resource, RunAnswer, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A read-only question to the host, a shell script. It runs with every plan, so it must not change anything.
///
/// With `register` its answer is a value for later resources: `stdout` (text), `lines` (list), `status` (number) and, with
/// `json`, `json` (what the output says). Behind an earlier change of the same run the answer could become another, so
/// the question then waits for its turn, and with it all that reads the answer; `before_changes` asks now.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The script.
    run: String,
    /// Read its output as JSON.
    #[serde(default)]
    json: bool,
    /// The exit statuses that are an answer and no failure.
    #[serde(default = "only_zero")]
    status: Vec<i32>,
    /// Ask how the host is before this run changes it, whatever comes earlier.
    #[serde(default)]
    before_changes: bool,
    /// Run it as this user.
    user: Option<String>,
    /// Run it in this directory, which must be there; without it in `/`.
    chdir: Option<String>,
    /// Environment variables. Their values stand on no command line. A secret among them makes the question and its answer sensitive.
    #[serde(default)]
    env: Env,
    /// Its standard input, as text of 64 KiB at most; without it there is none. A secret in it is treated as one in `env`.
    stdin: Option<String>,
    /// Seconds after which it has failed.
    #[serde(default = "a_minute")]
    timeout: u64,
}

fn only_zero() -> Vec<i32> {
    vec![0]
}

fn a_minute() -> u64 {
    60
}

impl Query {
    fn declared(&self) -> DeclaredSurroundings<'_> {
        DeclaredSurroundings { chdir: self.chdir.as_ref(), env: &self.env, stdin: self.stdin.as_ref() }
    }

    fn probe(&self) -> Probe {
        let script = self.declared().surroundings().around(&self.run, self.user.as_deref());
        Probe::Run { script, user: self.user.clone(), timeout: self.timeout }
    }

    fn output(&self, answer: &RunAnswer) -> Result<Value, Stop> {
        let text = &answer.stdout;
        let parsed = if self.json && answer.status == 0 {
            serde_json::from_str(text).map_err(|e| {
                Stop::Failed(format!("the query's output is not JSON: {e}: {}", excerpt(text)))
            })?
        } else {
            Value::Null
        };
        let lines: Vec<&str> = text.lines().collect();
        Ok(
            json!({"stdout": text.trim_end_matches('\n'), "lines": lines, "status": answer.status, "json": parsed}),
        )
    }
}

fn excerpt(text: &str) -> String {
    let short: String = text.trim().chars().take(200).collect();
    if short.is_empty() { "(nothing)".to_owned() } else { short }
}

impl Resource for Query {
    const KIND: &'static str = "query";
    const READ_ONLY: bool = true;
    const EXAMPLE: &'static str = "\
- name: disks
  query: {run: lsblk --json, json: true}
  register: disks
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        if self.run.trim().is_empty() || self.run.contains('\0') {
            errors.push(ParamError::new(
                "/run",
                "the script is empty or has a NUL in it",
                "write what to ask",
            ));
        }
        if self.status.is_empty() {
            errors.push(ParamError::new(
                "/status",
                "no exit status would be an answer",
                "write `status: [0, 1]`",
            ));
        }
        check_deadline("/timeout", self.timeout, 600, &mut errors);
        if let Some(user) = &self.user {
            check_account("/user", user, &mut errors);
        }
        self.declared().validate(&mut errors);
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if !self.before_changes {
            view.after_changes()?;
        }
        self.declared().need_dir(view)?;
        let answer = view.run(&self.probe())?;
        if !self.status.contains(&answer.status) {
            let reply = if answer.stderr.trim().is_empty() { &answer.stdout } else { &answer.stderr };
            return Err(Stop::Failed(format!(
                "the query ended with status {}: {}",
                answer.status,
                excerpt(reply)
            )));
        }
        Ok(WantedStates { output: Some(self.output(&answer)?), ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};

    #[test]
    fn the_answer_is_a_value() {
        let kind = read::<Query>(json!({"run": "q", "status": [0, 1]}));
        let view = FakeView::new().answer(&kind.probe(), 1, "a\nb\n");
        let output = kind.plan(&view).unwrap().output.unwrap();
        assert_eq!(output, json!({"stdout": "a\nb", "lines": ["a", "b"], "status": 1, "json": null}));
        settle(&kind, view);
    }

    #[test]
    fn json_is_read() {
        let kind = read::<Query>(json!({"run": "q", "json": true}));
        let view = FakeView::new().answer(&kind.probe(), 0, "{\"a\": [1]}");
        assert_eq!(kind.plan(&view).unwrap().output.unwrap()["json"]["a"][0], 1);
        let garbage = FakeView::new().answer(&kind.probe(), 0, "oops");
        assert!(matches!(kind.plan(&garbage), Err(Stop::Failed(why)) if why.contains("oops")));
    }

    #[test]
    fn an_unforeseen_status_fails() {
        let kind = read::<Query>(json!({"run": "q"}));
        let view = FakeView::new().complains(&kind.probe(), 127, "q: not found");
        assert!(matches!(kind.plan(&view), Err(Stop::Failed(why)) if why.contains("127: q: not found")));
    }

    #[test]
    fn it_waits_for_earlier_changes() {
        let kind = read::<Query>(json!({"run": "q"}));
        let view = FakeView::new().answer(&kind.probe(), 0, "").pending();
        assert!(matches!(kind.plan(&view), Err(Stop::Deferred(_))));
        let early = read::<Query>(json!({"run": "q", "before_changes": true}));
        assert!(early.plan(&view).is_ok());
    }

    #[test]
    fn it_is_asked_in_its_directory() {
        let kind = read::<Query>(json!({"run": "q", "chdir": "/srv", "env": {"A": "it's"}, "stdin": "x"}));
        let Probe::Run { script, .. } = kind.probe() else { panic!() };
        assert_eq!(
            script,
            "cv_enter /srv || exit 126\nexport A='it'\\''s'\nprintf %s x 2>/dev/null | eval q"
        );
        let view = FakeView::new().answer(&kind.probe(), 0, "");
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { pointer, .. }) if pointer == "/chdir"));
        settle(&kind, view.dir("/srv"));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Query>(json!({"run": "q", "chdir": "x", "env": {"-": "x"}})), ["/chdir", "/env"]);
        assert_eq!(
            wrong::<Query>(json!({"run": "", "status": [], "timeout": 0})),
            ["/run", "/status", "/timeout"]
        );
    }
}
