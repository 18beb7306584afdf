//! What a unit is to be, and durable restarts: a record of what it was last started with.

use crate::look::unit_id;
use converge_objects::UnitState;
use converge_resource::{Content, Stop, View, Wanted};
use schemars::JsonSchema;
use serde::Deserialize;

/// Whether a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Running {
    /// It runs.
    Started,
    /// It does not run.
    Stopped,
}

/// What a unit was started with: the resources that `restart_on` names, as they will be at its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    pub digest: String,
    pub changed: bool,
    pub newest: Option<i64>,
}

impl Basis {
    /// Reads the named resources. `own` is a line for what the kind itself brings (a unit file): its text, whether
    /// this run changes it, and its moment. `None` when there is nothing to depend on.
    pub fn read(
        seen: &dyn View,
        names: &[String],
        own: Option<(String, bool, Option<i64>)>,
    ) -> Result<Option<Self>, Stop> {
        if names.is_empty() && own.is_none() {
            return Ok(None);
        }
        let mut lines = String::new();
        let (mut changed, mut newest) = (false, None);
        if let Some((line, own_changed, moment)) = own {
            lines.push_str(&line);
            lines.push('\n');
            (changed, newest) = (own_changed, moment);
        }
        for name in names {
            let named = seen.named(name)?;
            lines.push_str(&format!("{name}\t{}\n", named.digest));
            changed |= named.changed;
            newest = newest.max(named.newest);
        }
        Ok(Some(Self { digest: Content::new(lines.into_bytes()).digest().to_string(), changed, newest }))
    }

    /// Whether what has no record yet, and runs since this moment, runs with what is there.
    pub fn was_there_at(&self, start: Option<i64>) -> bool {
        match (self.changed, self.newest, start) {
            (false, None, _) => true,
            // Moments are whole seconds: what changed within the second of the start may be newer.
            (false, Some(newest), Some(start)) => newest < start,
            _ => false,
        }
    }
}

/// What an item says about a unit.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub running: Option<Running>,
    pub enabled: Option<bool>,
    pub masked: Option<bool>,
}

/// A unit that exists now, or that an earlier item brings.
#[derive(Clone, Debug)]
pub struct Unit<'a> {
    pub name: &'a str,
    pub enabled: &'a str,
    pub active: &'a str,
    pub started: Option<&'a str>,
    /// Since when it is active.
    pub since: Option<i64>,
}

/// `UnitFileState`s that `systemctl enable` leaves as they are: what is there already starts it, or nothing can.
const NOT_ENABLED_BY_HAND: [&str; 6] = ["static", "indirect", "generated", "transient", "alias", ""];

impl Wish {
    fn file_state(&self, unit: &Unit<'_>, notes: &mut Vec<String>) -> Result<String, Stop> {
        let masked_now = matches!(unit.enabled, "masked" | "masked-runtime");
        match (self.masked, self.enabled) {
            (Some(true), _) => return Ok("masked".to_owned()),
            (Some(false), None) if masked_now => {
                return Err(Stop::invalid_help(
                    "/masked",
                    format!("{} is masked, and nothing says what it is to be afterwards", unit.name),
                    "add `enabled: true` or `enabled: false`",
                ));
            }
            (None, Some(true)) if masked_now => {
                return Err(Stop::invalid_help(
                    "/enabled",
                    format!("{} is masked, so it cannot be enabled", unit.name),
                    "add `masked: false`",
                ));
            }
            _ => {}
        }
        let fixed = NOT_ENABLED_BY_HAND.contains(&unit.enabled);
        if fixed && self.enabled == Some(true) && matches!(unit.enabled, "static" | "transient") {
            notes.push(format!(
                "{} is {}: it has no [Install] section, other units or timers start it",
                unit.name, unit.enabled
            ));
        }
        Ok(match self.enabled {
            Some(_) if fixed => unit.enabled,
            Some(true) => "enabled",
            Some(false) if masked_now && self.masked.is_none() => unit.enabled,
            Some(false) => "disabled",
            None => unit.enabled,
        }
        .to_owned())
    }

    /// The unit as it is to be.
    pub fn settle(&self, unit: &Unit<'_>, basis: Option<&Basis>) -> Result<Wanted, Stop> {
        let mut notes = Vec::new();
        let enabled = self.file_state(unit, &mut notes)?;
        let runs = unit.active == "active";
        if enabled == "masked" && !runs && self.running == Some(Running::Started) {
            return Err(Stop::invalid_help(
                "/state",
                format!("{} is masked, so it cannot be started", unit.name),
                "add `masked: false`",
            ));
        }
        let active = match self.running {
            Some(Running::Started) => "active",
            Some(Running::Stopped) if runs => "inactive",
            _ => unit.active,
        };
        let same = |started: Option<&str>| UnitState::Unit {
            enabled: enabled.clone(),
            active: active.to_owned(),
            started: started.map(str::to_owned),
        };
        let id = unit_id(unit.name);
        let mut adopt = Vec::new();
        let target = match basis {
            Some(basis) if active == "active" => match unit.started {
                _ if !runs => same(Some(&basis.digest)),
                Some(digest) if digest == basis.digest => same(Some(digest)),
                Some(_) => same(Some(&basis.digest)),
                // With no record yet the moments tell whether it runs with what is there.
                None if basis.was_there_at(unit.since) => adopted(&mut adopt, &mut notes, unit, &same, basis),
                None => same(Some(&basis.digest)),
            },
            _ => same(unit.started),
        };
        Ok(Wanted { targets: vec![(id, target.into())], adopt, notes, ..Wanted::default() })
    }
}

fn adopted(
    adopt: &mut Vec<(converge_resource::ObjectId, converge_resource::State)>,
    notes: &mut Vec<String>,
    unit: &Unit<'_>,
    same: &dyn Fn(Option<&str>) -> UnitState,
    basis: &Basis,
) -> UnitState {
    notes.push(format!("adopt: {} runs with what is there", unit.name));
    adopt.push((unit_id(unit.name), same(Some(&basis.digest)).into()));
    same(None)
}

/// The name with its suffix: `ssh` is `ssh.service`.
pub fn full_name(name: &str) -> String {
    const SUFFIXES: [&str; 11] = [
        ".service",
        ".socket",
        ".target",
        ".timer",
        ".mount",
        ".path",
        ".slice",
        ".scope",
        ".swap",
        ".device",
        ".automount",
    ];
    if SUFFIXES.iter().any(|s| name.ends_with(s)) { name.to_owned() } else { format!("{name}.service") }
}

/// Refuses what can be no unit's name.
pub fn check_unit_name(name: &str, errors: &mut Vec<converge_resource::ParamError>) {
    let good = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    if name.is_empty() || name.starts_with('-') || name.len() > 200 || !name.bytes().all(good) {
        let help = "write a unit's name, as `ssh`, `docker.service` or `wg-quick@wg0`";
        errors.push(converge_resource::ParamError::new(
            "/name",
            format!("`{name}` is not the name of a unit"),
            help,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit_state() -> impl Strategy<Value = (&'static str, &'static str, Option<String>, Option<i64>)> {
        let enabled = prop_oneof![
            Just("enabled"),
            Just("disabled"),
            Just("static"),
            Just("masked"),
            Just("alias"),
            Just("enabled-runtime"),
            Just("")
        ];
        let active = prop_oneof![Just("active"), Just("inactive"), Just("failed")];
        let started = prop_oneof![Just(None), Just(Some("old".to_owned())), Just(Some("new".to_owned()))];
        (enabled, active, started, proptest::option::of(0i64..3))
    }

    fn wish() -> impl Strategy<Value = Wish> {
        let running = prop_oneof![Just(None), Just(Some(Running::Started)), Just(Some(Running::Stopped))];
        (running, proptest::option::of(any::<bool>()), proptest::option::of(any::<bool>()))
            .prop_map(|(running, enabled, masked)| Wish { running, enabled, masked })
    }

    fn read(wanted: &Wanted) -> (String, String, Option<String>) {
        let (_, state) = wanted.adopt.first().or(wanted.targets.first()).unwrap().clone();
        match UnitState::try_from(state).unwrap() {
            UnitState::Unit { enabled, active, started } => (enabled, active, started),
            UnitState::Absent => panic!("a unit does not go away"),
        }
    }

    proptest! {
        #[test]
        fn a_second_run_changes_nothing(
            (enabled, active, started, since) in unit_state(),
            wish in wish(),
            changed: bool,
            newest in proptest::option::of(0i64..3),
            depends: bool,
        ) {
            let basis = depends.then(|| Basis { digest: "new".into(), changed, newest });
            let now = Unit { name: "a.service", enabled, active, started: started.as_deref(), since };
            if let Ok(first) = wish.settle(&now, basis.as_ref()) {
                let (e, a, s) = read(&first);
                let then = Unit { name: "a.service", enabled: &e, active: &a, started: s.as_deref(), since };
                let second = wish.settle(&then, basis.as_ref()).unwrap();
                prop_assert_eq!(read(&second), (e, a.clone(), s.clone()));
                prop_assert!(second.adopt.is_empty());
                if depends && a == "active" {
                    prop_assert_eq!(s.as_deref(), Some("new"));
                }
            }
        }
    }

    #[test]
    fn names_get_their_suffix() {
        assert_eq!(full_name("ssh"), "ssh.service");
        assert_eq!(full_name("a.timer"), "a.timer");
        assert_eq!(full_name("wg-quick@wg0"), "wg-quick@wg0.service");
    }
}
