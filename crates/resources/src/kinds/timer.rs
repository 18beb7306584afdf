//! `timer`

use crate::attrs::check_account;
use crate::kinds::kernel_module::yes;
use crate::kinds::service::unit_claims;
use crate::look::{check_path, path_id, unit, unit_id};
use crate::names::Names;
use crate::own_file::{own_file, own_file_gone};
use crate::presence::Presence;
use crate::restart::{self, Basis, UnitActivity, Wish, check_unit_name, inputs};
use converge_objects::UnitState;
use converge_resource::{Claim, OwnInput, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A script that systemd runs at set times: `NAME.timer` and its `NAME.service`, from one declaration.
///
/// Both files are in `/etc/systemd/system`; the timer is started and enabled. The output goes to the journal: `journalctl -u NAME`.
/// Changing the script or the times does not run the script.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timer {
    /// The name of both units, without a suffix: `backup`.
    name: String,
    /// The script, for `/bin/sh`.
    run: Option<String>,
    /// When: one or several of systemd's calendar times, as `daily` or `Mon *-*-* 03:00`.
    #[serde(default)]
    on_calendar: Names,
    /// Again and again, so long after the last run: `15min`.
    every: Option<String>,
    /// So long after each boot: `5min`.
    after_boot: Option<String>,
    /// Make up for calendar times that were missed while the host was off.
    #[serde(default = "yes")]
    persistent: bool,
    /// Wait a random time up to this one, so that many hosts do not start at once: `10min`.
    random_delay: Option<String>,
    /// Run the script as this user.
    user: Option<String>,
    /// Environment variables, `NAME=value`.
    #[serde(default)]
    environment: Names,
    /// The directory in which the script starts.
    working_directory: Option<String>,
    /// End the script after this time: `1h`. Without it it may run for ever.
    timeout: Option<String>,
    /// Whether the timer runs and is enabled. With `false` both files are there and nothing happens.
    #[serde(default = "yes")]
    enabled: bool,
    /// Whether the timer is there at all.
    #[serde(default)]
    state: Presence,
}

/// A word in double quotes for a unit file: systemd's own escapes, `%` and `$` doubled.
fn unit_quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '%' => out.push_str("%%"),
            '$' => out.push_str("$$"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

impl Timer {
    fn file(&self, suffix: &str) -> String {
        format!("/etc/systemd/system/{}.{suffix}", self.name)
    }

    fn timer(&self) -> String {
        format!("{}.timer", self.name)
    }

    fn wish(&self) -> Wish {
        let running = if self.enabled { UnitActivity::Started } else { UnitActivity::Stopped };
        Wish { running: Some(running), enabled: Some(self.enabled), masked: None }
    }

    fn service_text(&self) -> String {
        let mut text =
            format!("[Unit]\nDescription={} (by its timer)\n\n[Service]\nType=oneshot\n", self.name);
        let mut line = |key: &str, value: &str| text.push_str(&format!("{key}={value}\n"));
        if let Some(user) = &self.user {
            line("User", user);
        }
        for variable in &self.environment.0 {
            line("Environment", &unit_quote(variable).replace("$$", "$"));
        }
        if let Some(directory) = &self.working_directory {
            line("WorkingDirectory", &directory.replace('%', "%%"));
        }
        if let Some(timeout) = &self.timeout {
            line("TimeoutStartSec", timeout);
        }
        line(
            "ExecStart",
            &format!("/bin/sh -c {}", unit_quote(self.run.as_deref().unwrap_or("true").trim_end())),
        );
        text
    }

    fn timer_text(&self) -> String {
        let mut text = format!("[Unit]\nDescription=When {} runs\n\n[Timer]\n", self.name);
        let mut line = |key: &str, value: &str| text.push_str(&format!("{key}={value}\n"));
        for time in &self.on_calendar.0 {
            line("OnCalendar", time);
        }
        if let Some(time) = &self.after_boot {
            line("OnBootSec", time);
        }
        if let Some(time) = &self.every {
            line("OnActiveSec", time);
            line("OnUnitActiveSec", time);
        }
        if !self.on_calendar.0.is_empty() && self.persistent {
            line("Persistent", "true");
        }
        if let Some(delay) = &self.random_delay {
            line("RandomizedDelaySec", delay);
        }
        text.push_str("\n[Install]\nWantedBy=timers.target\n");
        text
    }
}

impl Resource for Timer {
    const KIND: &'static str = "timer";
    const EXAMPLE: &'static str = "\
- name: backup at night
  timer:
    name: backup
    run: restic backup /srv --exclude-caches
    on_calendar: \"*-*-* 03:00\"
    random_delay: 30min
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_unit_name(&self.name, &mut errors);
        if let Some(user) = &self.user {
            check_account("/user", user, &mut errors);
        }
        if let Some(directory) = &self.working_directory {
            check_path("/working_directory", directory, &mut errors);
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.name.ends_with(".timer") || self.name.ends_with(".service") || self.name.contains('@') {
            wrong("/name", "the name has a suffix", "write it without, as `backup`");
        }
        if self.state == Presence::Present {
            if self.run.as_ref().is_none_or(|r| r.trim().is_empty() || r.contains('\0')) {
                wrong("/run", "nothing says what is run", "write the script");
            }
            if self.on_calendar.0.is_empty() && self.every.is_none() && self.after_boot.is_none() {
                wrong("", "nothing says when it runs", "give `on_calendar`, `every` or `after_boot`");
            }
        }
        let line = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
        let times = [
            ("/every", &self.every),
            ("/after_boot", &self.after_boot),
            ("/random_delay", &self.random_delay),
            ("/timeout", &self.timeout),
        ];
        for (pointer, _) in times.iter().filter(|(_, t)| t.as_ref().is_some_and(|t| !line(t))) {
            wrong(pointer, "this is no time", "write it as systemd does, as `15min`");
        }
        if self.on_calendar.0.iter().any(|t| !line(t)) {
            wrong("/on_calendar", "this is no time", "write it as systemd does, as `daily` or `*-*-* 03:00`");
        }
        if self.environment.0.iter().any(|v| !line(v) || !v.contains('=')) {
            wrong("/environment", "this is no variable", "write `NAME=value`");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for file in [self.file("service"), self.file("timer")] {
            claims.push(Claim::exclusive(path_id(&file), "content"));
        }
        claims.extend(unit_claims(&self.timer(), &self.wish()));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let name = self.timer();
        let now = unit(view, &name)?;
        if self.state == Presence::Absent {
            let mut wanted = WantedStates::one(unit_id(&name), UnitState::Absent);
            wanted.targets.extend(own_file_gone(view, &self.file("timer"))?.targets);
            wanted.targets.extend(own_file_gone(view, &self.file("service"))?.targets);
            return Ok(wanted);
        }
        let mut wanted = own_file(view, "/name", &self.file("service"), &self.service_text())?;
        let timer = own_file(view, "/name", &self.file("timer"), &self.timer_text())?;
        wanted.targets.extend(timer.targets);
        wanted.contents.extend(timer.contents);
        // The timer starts again when its own file changes; the service reads its file at its next run.
        let own = match wanted.targets.last() {
            Some((id, to)) => {
                let before = view.observed(id)?;
                let changed = before.state != *to;
                Some(OwnInput { object: id.clone(), state: to.clone(), changed, newest: before.moment })
            }
            None => None,
        };
        let basis = Basis::of(inputs(view, &[], own)?);
        let since = view.observed(&unit_id(&name))?.moment;
        let (enabled, active, started) = match now {
            UnitState::Absent => ("disabled".to_owned(), "inactive".to_owned(), None),
            UnitState::Unit { enabled, active, started } => (enabled, active, started),
        };
        let unit = restart::ExistingUnit {
            name: &name,
            enabled: &enabled,
            active: &active,
            started: started.as_deref(),
            since,
        };
        let settled = self.wish().settle(&unit, basis.as_ref())?;
        wanted.targets.extend(settled.targets);
        wanted.adopt = settled.adopt;
        wanted.notes = settled.notes;
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn host() -> FakeView {
        FakeView::new().dir("/etc/systemd").dir("/etc/systemd/system")
    }

    #[test]
    fn one_declaration_makes_both_units() {
        let kind = read::<Timer>(json!({
            "name": "backup", "run": "a \"b\" $C 50%\nd\n", "on_calendar": ["daily", "Mon 03:00"], "user": "ops",
            "environment": "C=1", "random_delay": "5min",
        }));
        let after = settle(&kind, host());
        assert_eq!(
            after.text("/etc/systemd/system/backup.service"),
            "[Unit]\nDescription=backup (by its timer)\n\n[Service]\nType=oneshot\nUser=ops\nEnvironment=\"C=1\"\n\
             ExecStart=/bin/sh -c \"a \\\"b\\\" $$C 50%%\\nd\"\n"
        );
        assert_eq!(
            after.text("/etc/systemd/system/backup.timer"),
            "[Unit]\nDescription=When backup runs\n\n[Timer]\nOnCalendar=daily\nOnCalendar=Mon 03:00\nPersistent=true\n\
             RandomizedDelaySec=5min\n\n[Install]\nWantedBy=timers.target\n"
        );
        assert!(after.line(&unit_id("backup.timer")).starts_with("unit enabled active "));
    }

    #[test]
    fn other_times_restart_the_timer_and_another_script_does_not() {
        let first = settle(&read::<Timer>(json!({"name": "t", "run": "a", "every": "1h"})), host());
        let record = |view: &FakeView| view.line(&unit_id("t.timer"));
        let script = settle(&read::<Timer>(json!({"name": "t", "run": "b", "every": "1h"})), first.clone());
        assert_eq!(record(&script), record(&first));
        let times = settle(&read::<Timer>(json!({"name": "t", "run": "a", "every": "2h"})), first.clone());
        assert_ne!(record(&times), record(&first));
        let off = settle(
            &read::<Timer>(json!({"name": "t", "run": "a", "every": "1h", "enabled": false})),
            first.clone(),
        );
        assert!(record(&off).starts_with("unit disabled inactive"));
        let gone = settle(&read::<Timer>(json!({"name": "t", "state": "absent"})), first);
        assert_eq!(
            (record(&gone).as_str(), gone.line(&path_id("/etc/systemd/system/t.timer")).as_str()),
            ("absent", "absent")
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Timer>(json!({"name": "a.timer"})), ["/name", "/run", ""]);
        assert_eq!(
            wrong::<Timer>(json!({"name": "a", "run": "x", "every": " ", "environment": "A", "user": "-a"})),
            ["/user", "/every", "/environment"]
        );
    }
}
