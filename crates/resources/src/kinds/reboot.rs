//! `reboot`

use crate::look::{check_deadline, path_id};
use crate::restart::{check_unit_name, full_name, inputs};
use converge_objects::BootState;
use converge_resource::{Claim, Disruption, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// Says why the host must restart; nothing when it need not.
const WHY: &str = "cv_boot_why";

/// A restart of the host, only when one is required or asked for.
///
/// Exactly one reason is needed: `when_required`, `on_change` or `once`. The run loses the session, connects again in the
/// same way until the deadline, checks that the host runs another boot (`/proc/sys/kernel/random/boot_id`), waits for
/// the end of the boot and for `units`, reads the host again, and continues with the resources after it. State that a restart changes
/// (units that are started, values that are not kept) is corrected by the later resources of the same run. A restart needs
/// drain: hosts restart in batches, the first one alone. A controller that is lost meanwhile does no harm: the next run
/// sees whether the host has restarted and does not repeat it. A rollback passes over a restart. The machine on which
/// converge runs is never restarted by it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reboot {
    /// Reason: the host says that it must restart. It has `/run/reboot-required` (Debian, Ubuntu), or a newer kernel of
    /// the running one's flavour in `/boot`. For one kernel it restarts once: a boot loader that chooses another is reported.
    when_required: Option<bool>,
    /// Reason: one of these earlier resources of this role is no longer what the host last restarted for. With no
    /// record yet, the host restarts if this run changes one of them or one is newer than the boot.
    on_change: Option<Vec<String>>,
    /// Reason: this word is new to the host. Write another one for one more restart.
    once: Option<String>,
    /// Seconds within which the host must be back, with its units. At most 3600.
    #[serde(default = "ten_minutes")]
    timeout: u64,
    /// Units that must be active after the restart.
    #[serde(default)]
    units: Vec<String>,
}

fn ten_minutes() -> u64 {
    600
}

impl Reboot {
    fn id(&self) -> ObjectId {
        let key = match (&self.once, &self.on_change) {
            (Some(token), _) => format!("once {token}"),
            (None, Some(names)) => format!("change {}", names.join(", ")),
            (None, None) => "required".to_owned(),
        };
        ObjectId::new("boot", key)
    }

    fn wanted(&self, state: BootState) -> WantedStates {
        let units: Vec<String> = self.units.iter().map(|name| full_name(name)).collect();
        WantedStates {
            settings: vec![
                ("CV_RESTART_LEFT".to_owned(), self.timeout.to_string()),
                ("CV_RESTART_UNITS".to_owned(), units.join(" ")),
            ],
            ..WantedStates::one(self.id(), state)
        }
    }

    /// Restarts for what changed, or records that the host has booted with it.
    fn for_change(&self, names: &[String], view: &dyn View) -> Result<WantedStates, Stop> {
        let observed = view.observed(&self.id())?;
        let now = BootState::try_from(observed.state).map_err(|e| Stop::Failed(e.to_string()))?;
        let Some(with) = inputs(view, names, None)? else { return Ok(self.wanted(now)) };
        let then = BootState::Restarted { what: Some(with.digest) };
        let booted_with = match (with.newest, observed.moment) {
            (None, _) => true,
            (Some(newest), Some(since)) => newest < since,
            (Some(_), None) => false,
        };
        if now == (BootState::Restarted { what: None }) && !with.changed && booted_with {
            return Ok(WantedStates {
                targets: vec![(self.id(), now.into())],
                adopt: vec![(self.id(), then.into())],
                notes: vec!["adopt: the host has booted with what is there".to_owned()],
                ..WantedStates::default()
            });
        }
        Ok(self.wanted(then))
    }
}

impl Resource for Reboot {
    const KIND: &'static str = "reboot";
    const EXAMPLE: &'static str = "\
- name: the host runs what is installed
  reboot:
    when_required: true
    timeout: 900
    units: [ssh]
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        for name in &self.units {
            let mut own = Vec::new();
            check_unit_name(name, &mut own);
            errors.extend(own.into_iter().map(|e| ParamError { pointer: "/units".to_owned(), ..e }));
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        let given: Vec<&str> = [
            self.when_required.map(|_| "/when_required"),
            self.on_change.as_ref().map(|_| "/on_change"),
            self.once.as_ref().map(|_| "/once"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match given.as_slice() {
            [] => wrong(
                "",
                "nothing says why the host is to restart",
                "add `when_required: true`, `on_change: [NAMES]` or `once: WORD`",
            ),
            [_] => {}
            [_, second, ..] => wrong(
                second,
                "there is more than one reason",
                "keep one of `when_required`, `on_change` and `once`; write one resource for each reason",
            ),
        }
        if self.when_required == Some(false) {
            wrong("/when_required", "it can only be true", "take the resource out, or give it a `when`");
        }
        if self.on_change.as_ref().is_some_and(Vec::is_empty) {
            wrong("/on_change", "no resource is named", "name an earlier resource of this role");
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:@+-".contains(&b);
        let is_word = |t: &String| (1..=100).contains(&t.len()) && t != "-" && t.bytes().all(plain);
        if self.once.as_ref().is_some_and(|token| !is_word(token)) {
            wrong(
                "/once",
                "it is not a word of letters, digits and `._:@+-`, at most 100 of them",
                "write a date, as `2026-11-21`, or the number of a ticket",
            );
        }
        check_deadline("/timeout", self.timeout, 3600, &mut errors);
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![match &self.on_change {
            // The names are those of one role: another role has others.
            Some(_) => Claim::exclusive(self.id(), "restart"),
            None => Claim::shared(self.id(), "restart", "done"),
        }]
    }

    fn names(&self) -> Vec<String> {
        self.on_change.clone().unwrap_or_default()
    }

    fn disruption(&self) -> Disruption {
        Disruption::Drain
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if let Some(names) = &self.on_change {
            return self.for_change(names, view);
        }
        if let Some(token) = &self.once {
            view.raw(&self.id())?;
            return Ok(self.wanted(BootState::Restarted { what: Some(token.clone()) }));
        }
        match crate::look::state(view, &self.id())? {
            BootState::Required => {
                let why = view.run(&Probe::run(WHY))?.stdout.trim().replace('\n', "; ");
                Ok(WantedStates {
                    notes: vec![format!("the host must restart: {why}")],
                    ..self.wanted(BootState::Settled)
                })
            }
            state => match view.may_appear(&path_id("/run/reboot-required")) {
                // Packages ask for a restart when they are installed.
                Some(wait) => Err(Stop::Deferred(wait)),
                None => Ok(self.wanted(state)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn never() -> BootState {
        BootState::Restarted { what: None }
    }

    #[test]
    fn it_restarts_when_it_must_and_says_why() {
        let kind = read::<Reboot>(json!({"when_required": true, "units": ["ssh"]}));
        let probe = Probe::run(WHY);
        let must = FakeView::new().has(kind.id(), BootState::Required).answer(
            &probe,
            0,
            "/run/reboot-required is there for libc6\n",
        );
        let wanted = kind.plan(&must).unwrap();
        assert_eq!(wanted.notes, ["the host must restart: /run/reboot-required is there for libc6"]);
        assert_eq!(wanted.settings[1], ("CV_RESTART_UNITS".to_owned(), "ssh.service".to_owned()));
        assert_eq!(settle(&kind, must).line(&kind.id()), "settled");
        let calm = FakeView::new().has(kind.id(), BootState::Settled);
        assert_eq!(settle(&kind, calm.clone()).line(&kind.id()), "settled");
        let behind = calm.may(path_id("/run/reboot-required"));
        assert!(matches!(kind.plan(&behind), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_token_is_good_for_one_restart() {
        let kind = read::<Reboot>(json!({"once": "2026-11-21"}));
        let view = FakeView::new().has(kind.id(), never());
        assert_eq!(settle(&kind, view).line(&kind.id()), "restarted 2026-11-21");
        assert_ne!(read::<Reboot>(json!({"once": "2026-11-22"})).id(), kind.id());
    }

    #[test]
    fn what_changed_is_durable_and_what_was_booted_with_is_adopted() {
        let kind = read::<Reboot>(json!({"on_change": ["grub"]}));
        let view = FakeView::new().has(kind.id(), never()).at(kind.id(), 100);
        let old = kind.plan(&view.clone().named("grub", "d", false, Some(50))).unwrap();
        assert_eq!((old.adopt.len(), old.targets[0].1.line()), (1, "restarted -"));
        for (changed, newest) in [(true, Some(50)), (false, Some(100)), (true, None)] {
            let found = view.clone().named("grub", "d", changed, newest);
            let after = settle(&kind, found);
            assert_ne!(after.line(&kind.id()), "restarted -");
            let later = settle(&kind, after.clone().named("grub", "e", false, Some(50)));
            assert_ne!(later.line(&kind.id()), after.line(&kind.id()));
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Reboot>(json!({})), [""]);
        assert_eq!(wrong::<Reboot>(json!({"when_required": true, "once": "a"})), ["/once"]);
        assert_eq!(wrong::<Reboot>(json!({"when_required": false})), ["/when_required"]);
        assert_eq!(wrong::<Reboot>(json!({"on_change": []})), ["/on_change"]);
        assert_eq!(wrong::<Reboot>(json!({"once": "a b", "timeout": 0})), ["/once", "/timeout"]);
        assert_eq!(wrong::<Reboot>(json!({"once": "a", "units": ["-x"]})), ["/units"]);
    }
}
