//! `cron`

use crate::attrs::{Attrs, check_account};
use crate::edit::Edit;
use crate::look::path_id;
use crate::names::Names;
use crate::own_file::{own_file, own_file_gone};
use crate::presence::Presence;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A command that cron runs: a file of its own in `/etc/cron.d`, or a line in a user's crontab.
///
/// A `%` in the command is written as `\%`, so that cron takes it for what it is. In a crontab the line stands below a comment with its name;
/// all other lines are left alone. cron itself is a package (`cron`). For a new job prefer `timer`: its output is in the journal, and missed
/// times are made up for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cron {
    /// The job's name: the file in `/etc/cron.d`, or the comment in the crontab. Letters, digits, dashes and underscores.
    name: String,
    /// The command, on one line.
    run: Option<String>,
    /// Minute, hour, day, month and weekday, as `0 3 * * *`; or `@daily`, `@reboot` and the like.
    schedule: Option<String>,
    /// The user who runs it.
    #[serde(default = "root")]
    user: String,
    /// Put it into that user's own crontab, where the user sees it with `crontab -l`.
    #[serde(default)]
    in_crontab: bool,
    /// Variables that stand before the job in its file, `NAME=value`.
    #[serde(default)]
    environment: Names,
    /// Whether the job is there.
    #[serde(default)]
    state: Presence,
}

fn root() -> String {
    "root".to_owned()
}

/// The command in cron's spelling: an unescaped `%` would end it.
fn escape(command: &str) -> String {
    let mut out = String::new();
    let mut escaped = false;
    for c in command.trim().chars() {
        if c == '%' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

/// Debian's `crontab` takes so many comments at the top for its own header, and shows and keeps none of them.
const HIDDEN: usize = 3;

/// The text of a crontab with this job below its mark, or without it.
fn with(text: &str, mark: &str, job: Option<&str>) -> String {
    let mut out = String::new();
    let mut put = job.is_none();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim_end() != mark {
            out.push_str(line);
            continue;
        }
        // The job is the next line, unless that is another mark.
        if lines.peek().is_some_and(|l| !l.starts_with('#')) {
            lines.next();
        }
        if let (false, Some(job)) = (put, job) {
            out.push_str(&format!("{mark}\n{job}\n"));
            put = true;
        }
    }
    if let (false, Some(job)) = (put, job) {
        // A job that was written back without its mark is the same job.
        if let Some(at) = out.lines().position(|l| l == job) {
            let lines = out.lines().enumerate();
            return lines
                .map(|(n, l)| if n == at { format!("{mark}\n{l}\n") } else { format!("{l}\n") })
                .collect();
        }
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        // An editor of crontabs would drop a mark that stands among the first comments.
        if out.lines().all(|l| l.starts_with('#')) && out.lines().count() < HIDDEN {
            out.push('\n');
        }
        out.push_str(&format!("{mark}\n{job}\n"));
    }
    out
}

impl Cron {
    fn file(&self) -> String {
        if self.in_crontab {
            format!("/var/spool/cron/crontabs/{}", self.user)
        } else {
            format!("/etc/cron.d/{}", self.name)
        }
    }

    fn mark(&self) -> String {
        format!("# converge: {}", self.name)
    }

    fn times(&self) -> &str {
        self.schedule.as_deref().unwrap_or("").trim()
    }

    fn command(&self) -> String {
        escape(self.run.as_deref().unwrap_or(""))
    }

    fn file_text(&self) -> String {
        let mut text = format!("{}\n", self.mark());
        for variable in &self.environment.0 {
            text.push_str(&format!("{variable}\n"));
        }
        text.push_str(&format!("{} {} {}\n", self.times(), self.user, self.command()));
        text
    }
}

impl Resource for Cron {
    const KIND: &'static str = "cron";
    const EXAMPLE: &'static str = "\
- name: old logs go at night
  cron: {name: old-logs, schedule: \"30 3 * * *\", run: find /var/log/agent -mtime +30 -delete}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_account("/user", &self.user, &mut errors);
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        // cron(8): files in /etc/cron.d with other characters in their names are ignored.
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        if self.name.is_empty() || self.name.starts_with('-') || !self.name.bytes().all(good) {
            wrong(
                "/name",
                "cron ignores files with such a name",
                "use letters, digits, `_` and `-`, as in `old-logs`",
            );
        }
        if self.user.contains('/') || self.user.contains('.') {
            wrong("/user", "this is not a valid name of a user", "write a user's name");
        }
        if self.state == Presence::Present {
            let fields = self.times().split_ascii_whitespace().count();
            let special = matches!(
                self.times(),
                "@reboot"
                    | "@yearly"
                    | "@annually"
                    | "@monthly"
                    | "@weekly"
                    | "@daily"
                    | "@midnight"
                    | "@hourly"
            );
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"*/,- ~\t".contains(&b);
            if !special && (fields != 5 || !self.times().bytes().all(allowed)) {
                wrong(
                    "/schedule",
                    "this is no schedule of cron",
                    "write five fields, as `0 3 * * *`, or `@daily`",
                );
            }
            let run = self.run.as_deref().unwrap_or("").trim();
            if run.is_empty() || run.chars().any(|c| matches!(c, '\n' | '\0')) {
                wrong(
                    "/run",
                    "the command is missing, or is more than one line",
                    "write one line; put a longer script into a file",
                );
            }
        }
        if self.in_crontab && !self.environment.0.is_empty() {
            wrong(
                "/environment",
                "variables in a crontab hold for all later jobs",
                "set them in the command, or leave `in_crontab` out",
            );
        }
        if self.environment.0.iter().any(|v| !v.contains('=') || v.chars().any(char::is_control)) {
            wrong("/environment", "this is no variable", "write `NAME=value`");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.file());
        vec![if self.in_crontab { Claim::edit(id, "content") } else { Claim::exclusive(id, "content") }]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let present = self.state == Presence::Present;
        let file = self.file();
        if !self.in_crontab {
            return if present {
                own_file(view, "/name", &file, &self.file_text())
            } else {
                own_file_gone(view, &file)
            };
        }
        // cron takes a crontab only from its user, and no one else may read it.
        let attrs =
            Attrs { mode: Some(crate::attrs::Mode(0o600)), owner: Some(&self.user), group: Some("crontab") };
        let attrs = if present { attrs } else { Attrs { mode: None, owner: None, group: None } };
        let edit = Edit { path: &file, create: true, removes: !present, attrs, culprit: "/run" };
        let job = format!("{} {}", self.times(), self.command());
        edit.plan(view, &|text| Ok(with(text, &self.mark(), present.then_some(job.as_str()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use proptest::prelude::*;
    use serde_json::json;

    fn host() -> FakeView {
        FakeView::new()
            .dir("/etc/cron.d")
            .dir("/var")
            .dir("/var/spool")
            .dir("/var/spool/cron")
            .dir("/var/spool/cron/crontabs")
            .user("ops", 1000)
            .group("crontab", 101)
    }

    #[test]
    fn a_job_has_a_file_of_its_own() {
        let kind = read::<Cron>(json!({
            "name": "stamp", "schedule": "0 3 * * *", "user": "ops", "run": "date +%F \\%", "environment": ["MAILTO="]
        }));
        let after = settle(&kind, host());
        assert_eq!(
            after.text("/etc/cron.d/stamp"),
            "# converge: stamp\nMAILTO=\n0 3 * * * ops date +\\%F \\%\n"
        );
        let gone = read::<Cron>(json!({"name": "stamp", "state": "absent"}));
        assert_eq!(settle(&gone, after).line(&path_id("/etc/cron.d/stamp")), "absent");
    }

    #[test]
    fn a_crontab_keeps_its_other_lines() {
        let file = "/var/spool/cron/crontabs/ops";
        let view = host().file(file, 0o600, "# mine\n1 2 * * * a\n# converge: x\n9 9 * * * old\n# end\n");
        let set = |state: &str| {
            read::<Cron>(
                json!({"name": "x", "schedule": "@daily", "run": "new", "user": "ops", "in_crontab": true, "state": state}),
            )
        };
        let after = settle(&set("present"), view);
        assert_eq!(after.text(file), "# mine\n1 2 * * * a\n# converge: x\n@daily new\n# end\n");
        assert_eq!(settle(&set("absent"), after).text(file), "# mine\n1 2 * * * a\n# end\n");
        let bare = settle(&set("present"), host().file(file, 0o600, "1 2 * * * a\n@daily new\n"));
        assert_eq!(bare.text(file), "1 2 * * * a\n# converge: x\n@daily new\n");
        let new = settle(&set("present"), host());
        assert_eq!(new.text(file), "\n# converge: x\n@daily new\n");
        assert!(new.line(&path_id(file)).starts_with("file 600 ops crontab "));
    }

    proptest! {
        #[test]
        fn an_edit_of_its_own_result_changes_nothing(text in "(#|# converge: a|x y)?(\n(# converge: a|# converge: b|1 2|@daily z)){0,5}\n?", set: bool) {
            let once = with(&text, "# converge: a", set.then_some("@daily z"));
            prop_assert_eq!(with(&once, "# converge: a", set.then_some("@daily z")), once);
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(
            wrong::<Cron>(json!({"name": "a.b", "user": "../x"})),
            ["/user", "/name", "/user", "/schedule", "/run"]
        );
        let job = json!({"name": "a", "schedule": "0 3 * *", "run": "a\nb", "in_crontab": true, "environment": "A"});
        assert_eq!(wrong::<Cron>(job), ["/schedule", "/run", "/environment", "/environment"]);
    }
}
