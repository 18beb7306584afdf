//! The wanted state of a unit, and durable restarts and reloads: a record of the inputs that the unit was last started or reloaded with.

use crate::look::unit_id;
use converge_objects::UnitState;
use converge_resource::{Inputs, ObjectId, OwnInput, Restarters, RunsWith, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Whether a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnitActivity {
    /// It runs.
    Started,
    /// It does not run.
    Stopped,
}

/// The inputs of a unit by one item, in the states that they will have at its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// Those for which it is restarted, and those for which it is reloaded.
    pub with: Vec<RunsWith>,
    /// The other items of the run that restart or reload the unit.
    pub others: Restarters,
}

/// The action that the record of a unit calls for. Each variant holds the new record.
enum Due {
    Nothing(String),
    Adopt(String),
    Reload(String),
    Restart(String),
}

/// The beginning of the keys of those parts of a record for which a reload is enough; see the object.
const RELOAD: &str = "~";

/// The parts of a record: a part for each item and way, by their key. The part of an item that is alone is its digest, under no key.
fn parts(record: &str) -> BTreeMap<String, String> {
    let part = |part: &str| match (part.split_once('='), part.strip_prefix(RELOAD)) {
        (Some((key, digest)), _) => (key.to_owned(), digest.to_owned()),
        (None, Some(digest)) => (RELOAD.to_owned(), digest.to_owned()),
        (None, None) => (String::new(), part.to_owned()),
    };
    record.split('+').filter(|p| !p.is_empty()).map(part).collect()
}

fn record(parts: &BTreeMap<String, String>) -> String {
    let part = |(key, digest): (&String, &String)| match key.as_str() {
        "" | RELOAD => format!("{key}{digest}"),
        _ => format!("{key}={digest}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join("+")
}

/// The key of the part of an item that is alone.
fn plain(with: &RunsWith) -> &'static str {
    if with.inputs.reload { RELOAD } else { "" }
}

/// The key of the part of an item among others.
fn keyed(item: &str, with: &RunsWith) -> String {
    format!("{}{item}", plain(with))
}

/// Reads the named resources, and beside them the object that the kind itself brings (a unit file). `None` when there is nothing to depend on.
pub fn inputs(view: &dyn View, names: &[String], own: Option<OwnInput>) -> Result<Option<RunsWith>, Stop> {
    read(view, Inputs { own, names: names.to_vec(), reload: false })
}

fn read(view: &dyn View, inputs: Inputs) -> Result<Option<RunsWith>, Stop> {
    if inputs.is_empty() { Ok(None) } else { inputs.read(&|name| view.named(name)).map(Some) }
}

impl Basis {
    /// `None` when there is nothing to depend on.
    pub fn of(with: impl IntoIterator<Item = RunsWith>) -> Option<Self> {
        let with: Vec<RunsWith> = with.into_iter().collect();
        (!with.is_empty()).then(|| Self { with, others: Restarters::default() })
    }

    /// The inputs of a unit by one item, beside the other items of the run that restart or reload it: what it is restarted and reloaded on, and its
    /// own file. `None` when there is nothing to depend on.
    ///
    /// # Errors
    /// As [`View::named`] and [`View::restarters`].
    pub fn of_unit(
        view: &dyn View,
        unit: &ObjectId,
        restart_on: &[String],
        own: Option<OwnInput>,
        reload_on: &[String],
    ) -> Result<Option<Self>, Stop> {
        let restart = inputs(view, restart_on, own)?;
        let reload = read(view, Inputs { own: None, names: reload_on.to_vec(), reload: true })?;
        let basis = Self::of(restart.into_iter().chain(reload));
        basis.map(|basis| Ok(Self { others: view.restarters(unit)?, ..basis })).transpose()
    }

    /// Whether no other item of the run restarts or reloads the unit.
    fn is_alone(&self) -> bool {
        self.others.earlier.is_empty() && self.others.later.is_none()
    }

    /// All inputs up to this item, by the keys of their parts.
    fn all(&self, alone: bool) -> Vec<(String, &RunsWith)> {
        let key =
            |with: &RunsWith| if alone { plain(with).to_owned() } else { keyed(&self.others.key, with) };
        let earlier = self.others.earlier.iter().map(|(item, with)| (keyed(item, with), with));
        earlier.chain(self.with.iter().map(|with| (key(with), with))).collect()
    }

    /// The action that is due for a unit that has run since `start`, by its record.
    fn due(&self, started: Option<&str>, start: Option<i64>) -> Due {
        let known = started.map(parts).unwrap_or_default();
        let is_plain = |key: &String| key.is_empty() || key == RELOAD;
        let alone = self.is_alone() && known.keys().all(is_plain);
        let all = self.all(alone);
        let is_there = |(key, with): &&(String, &RunsWith)| match (known.get(key), known.get(plain(with))) {
            (Some(digest), _) => *digest == with.digest,
            // A record of one item alone says that it was that item's. Without a record, the times tell whether the unit runs with
            // the present inputs.
            (None, Some(digest)) => {
                let is_ones = all.iter().any(|(_, one)| plain(one) == plain(with) && one.digest == *digest);
                *digest == with.digest || (is_ones && with.was_there_at(start))
            }
            (None, None) => with.was_there_at(start),
        };
        let missing: Vec<&(String, &RunsWith)> = all.iter().filter(|one| !is_there(one)).collect();
        let mut wanted = known.clone();
        if missing.iter().all(|(_, with)| with.inputs.reload) && !missing.is_empty() {
            // The parts of a restart stay as they are recorded: the unit is not restarted.
            let reloads = all.iter().filter(|(_, with)| with.inputs.reload);
            if !alone {
                wanted.remove(RELOAD);
            }
            wanted.extend(reloads.map(|(key, with)| (key.clone(), with.digest.clone())));
            return Due::Reload(record(&wanted));
        }
        if !alone {
            wanted.retain(|key, _| !is_plain(key));
        }
        wanted.extend(all.iter().map(|(key, with)| (key.clone(), with.digest.clone())));
        let wanted = record(&wanted);
        match missing.is_empty() {
            false => Due::Restart(wanted),
            true if started == Some(&wanted) => Due::Nothing(wanted),
            true => Due::Adopt(wanted),
        }
    }

    /// The record of a unit that the item starts.
    fn started(&self) -> String {
        let all = self.all(self.is_alone());
        record(&all.into_iter().map(|(key, with)| (key, with.digest.clone())).collect())
    }
}

/// The unit state that an item wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    pub running: Option<UnitActivity>,
    pub enabled: Option<bool>,
    pub masked: Option<bool>,
}

/// A unit that exists now, or that an earlier item brings.
#[derive(Clone, Debug)]
pub struct ExistingUnit<'a> {
    pub name: &'a str,
    pub enabled: &'a str,
    pub active: &'a str,
    pub started: Option<&'a str>,
    /// Since when it is active.
    pub since: Option<i64>,
}

/// `UnitFileState`s that `systemctl enable` leaves as they are: the unit starts already, or cannot be enabled.
const NOT_ENABLED_BY_HAND: [&str; 6] = ["static", "indirect", "generated", "transient", "alias", ""];

impl Wish {
    fn file_state(&self, unit: &ExistingUnit<'_>, notes: &mut Vec<String>) -> Result<String, Stop> {
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
    pub fn settle(&self, unit: &ExistingUnit<'_>, basis: Option<&Basis>) -> Result<WantedStates, Stop> {
        let mut notes = Vec::new();
        let enabled = self.file_state(unit, &mut notes)?;
        let runs = unit.active == "active";
        if enabled == "masked" && !runs && self.running == Some(UnitActivity::Started) {
            return Err(Stop::invalid_help(
                "/state",
                format!("{} is masked, so it cannot be started", unit.name),
                "add `masked: false`",
            ));
        }
        // systemd ends a timer that is masked while it runs, as failed: it is stopped before.
        let ends = enabled == "masked" && unit.name.ends_with(".timer");
        let active = match self.running {
            Some(UnitActivity::Started) => "active",
            Some(UnitActivity::Stopped) if runs => "inactive",
            _ if runs && ends => "inactive",
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
            Some(basis) if active == "active" && !runs => same(Some(&basis.started())),
            Some(basis) if active == "active" => {
                match (basis.due(unit.started, unit.since), &basis.others.later) {
                    (Due::Nothing(record), _) => same(Some(&record)),
                    (Due::Restart(_), Some(later)) => {
                        notes.push(format!("the restart comes with `{later}`, for both"));
                        same(unit.started)
                    }
                    (Due::Reload(_), Some(later)) => {
                        notes.push(format!("the reload comes with `{later}`, for both"));
                        same(unit.started)
                    }
                    (Due::Adopt(_), Some(_)) => same(unit.started),
                    (Due::Adopt(record), None) => adopted(&mut adopt, &mut notes, unit, &same, &record),
                    (Due::Restart(record) | Due::Reload(record), None) => same(Some(&record)),
                }
            }
            _ => same(unit.started),
        };
        let runs_with = basis.map(|basis| basis.with.clone()).unwrap_or_default();
        Ok(WantedStates {
            targets: vec![(id, target.into())],
            adopt,
            notes,
            runs_with,
            ..WantedStates::default()
        })
    }
}

fn adopted(
    adopt: &mut Vec<(ObjectId, converge_resource::State)>,
    notes: &mut Vec<String>,
    unit: &ExistingUnit<'_>,
    same: &dyn Fn(Option<&str>) -> UnitState,
    record: &str,
) -> UnitState {
    notes.push(format!("adopt: {} runs with what is there", unit.name));
    adopt.push((unit_id(unit.name), same(Some(record)).into()));
    same(unit.started)
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
        let running =
            prop_oneof![Just(None), Just(Some(UnitActivity::Started)), Just(Some(UnitActivity::Stopped))];
        (running, proptest::option::of(any::<bool>()), proptest::option::of(any::<bool>()))
            .prop_map(|(running, enabled, masked)| Wish { running, enabled, masked })
    }

    fn read(wanted: &WantedStates) -> (String, String, Option<String>) {
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
            let others = Restarters::default();
            let with = RunsWith { digest: "new".into(), changed, newest, inputs: Inputs::default() };
            let basis = depends.then_some(Basis { with: vec![with], others });
            let now = ExistingUnit { name: "a.service", enabled, active, started: started.as_deref(), since };
            if let Ok(first) = wish.settle(&now, basis.as_ref()) {
                let (e, a, s) = read(&first);
                let then = ExistingUnit { name: "a.service", enabled: &e, active: &a, started: s.as_deref(), since };
                let second = wish.settle(&then, basis.as_ref()).unwrap();
                prop_assert_eq!(read(&second), (e, a.clone(), s.clone()));
                prop_assert!(second.adopt.is_empty());
                if depends && a == "active" {
                    prop_assert_eq!(s.as_deref(), Some("new"));
                }
            }
        }
    }

    /// Two items that restart one unit, in one run after the other: one restart, for both, and then none.
    #[test]
    fn two_restarters_make_one_restart() {
        let with = |digest: &str, changed| RunsWith {
            digest: digest.into(),
            changed,
            newest: Some(5),
            inputs: Inputs::default(),
        };
        let first = |digest: &str, changed| Basis {
            with: vec![with(digest, changed)],
            others: Restarters { key: "a".into(), earlier: Vec::new(), later: Some("r2/b".into()) },
        };
        let second = |digest: &str, changed, earlier: RunsWith| Basis {
            with: vec![with(digest, changed)],
            others: Restarters { key: "b".into(), earlier: vec![("a".into(), earlier)], later: None },
        };
        let on = Wish { running: Some(UnitActivity::Started), enabled: None, masked: None };
        let settle = |started: Option<&str>, basis: &Basis| {
            let since = Some(9);
            let now =
                ExistingUnit { name: "a.service", enabled: "enabled", active: "active", started, since };
            let wanted = on.settle(&now, Some(basis)).unwrap();
            (read(&wanted).2, !wanted.adopt.is_empty())
        };
        let both = Some("a=1+b=2".to_owned());
        // Without a record, and running with the present inputs: adopted once, with both.
        assert_eq!(settle(None, &first("1", false)), (None, false));
        assert_eq!(settle(None, &second("2", false, with("1", false))), (both.clone(), true));
        // One of them changes: the last one restarts.
        assert_eq!(settle(both.as_deref(), &first("3", true)), (both.clone(), false));
        let restarted = settle(both.as_deref(), &second("2", false, with("3", true)));
        assert_eq!(restarted, (Some("a=3+b=2".to_owned()), false));
        // The next run has nothing to do.
        assert_eq!(settle(restarted.0.as_deref(), &first("3", false)), (restarted.0.clone(), false));
        assert_eq!(settle(restarted.0.as_deref(), &second("2", false, with("3", false))), restarted);
        // An older record, of one item alone, is that item's: the other one adopts.
        assert_eq!(settle(Some("1"), &second("2", false, with("1", false))), (both.clone(), true));
        assert_eq!(settle(Some("7"), &second("2", false, with("1", false))), (both.clone(), false));
        // A run that is narrowed to one role keeps the other one's part.
        let alone = |digest: &str| Basis {
            others: Restarters { key: "a".into(), ..Restarters::default() },
            ..first(digest, false)
        };
        assert_eq!(settle(both.as_deref(), &alone("1")), (both.clone(), false));
        assert_eq!(settle(both.as_deref(), &alone("4")), (Some("a=4+b=2".to_owned()), false));
        // A start writes what it starts with.
        let off = ExistingUnit {
            name: "a.service",
            enabled: "enabled",
            active: "inactive",
            started: None,
            since: None,
        };
        assert_eq!(read(&on.settle(&off, Some(&first("1", true))).unwrap()).2.as_deref(), Some("a=1"));
    }

    #[test]
    fn names_get_their_suffix() {
        assert_eq!(full_name("ssh"), "ssh.service");
        assert_eq!(full_name("a.timer"), "a.timer");
        assert_eq!(full_name("wg-quick@wg0"), "wg-quick@wg0.service");
    }
}
