//! Units among the reverts: whether they stop or start, and which files systemd reads for them.

use super::{Edges, Revert};
use converge_ledger::SavedChange;
use converge_objects::UnitState;
use converge_resource::{ObjectId, State, role_of};
use std::collections::BTreeMap;

pub(super) fn unit_state(state: &State) -> Option<UnitState> {
    UnitState::try_from(state.clone()).ok()
}

/// The effect of a revert on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitTurn {
    /// It is stopped, or goes.
    Stops,
    /// It is started, or restarted with other things than it runs with.
    Starts { runs: bool },
    /// Neither.
    Settles,
}

pub(super) fn turn_of(revert: &Revert<'_>) -> UnitTurn {
    let active = |state: &Option<UnitState>| matches!(state, Some(UnitState::Unit { active, .. }) if active == "active");
    let record = |state: &Option<UnitState>| match state {
        Some(UnitState::Unit { started, .. }) => started.clone(),
        _ => None,
    };
    let (from, to) = (unit_state(revert.from), unit_state(revert.to));
    if revert.to.is_absent() || (active(&from) && !active(&to)) {
        UnitTurn::Stops
    } else if active(&to) && (!active(&from) || record(&from) != record(&to)) {
        UnitTurn::Starts { runs: active(&from) }
    } else {
        UnitTurn::Settles
    }
}

/// Whether systemd reads this path for the unit: its file, its template's, or a drop-in.
pub(super) fn is_read_for(path: &str, unit: &str) -> bool {
    const FOLDERS: [&str; 4] = [
        "/etc/systemd/system/",
        "/usr/local/lib/systemd/system/",
        "/usr/lib/systemd/system/",
        "/lib/systemd/system/",
    ];
    let Some(rest) = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder)) else { return false };
    let name = rest.split('/').next().unwrap_or(rest);
    let name = name.strip_suffix(".d").unwrap_or(name);
    let template = unit.split_once('@').zip(unit.rsplit_once('.'));
    name == unit || template.is_some_and(|((stem, _), (_, suffix))| name == format!("{stem}@.{suffix}"))
}

/// Whether a unit in this state runs, or starts at boot: then it needs its files.
pub(super) fn is_used(state: &State) -> bool {
    let used = |enabled: &str, active: &str| {
        enabled.starts_with("enabled") || !["inactive", "failed"].contains(&active)
    };
    matches!(unit_state(state), Some(UnitState::Unit { enabled, active, .. }) if used(&enabled, &active))
}

/// Whether a unit may have been started with this, or a command have run with it: no other unit, no command, nothing with a turn of its own.
pub(super) fn a_unit_may_run_with(object: &ObjectId) -> bool {
    object.kind != "unit"
        && converge_objects::object(&object.kind).is_none_or(|o| {
            !o.node().stays_unless_allowed()
                && !o.action().is_action()
                && !o.traits().back_last
                && !o.traits().restarts_host
                && !o.traits().passes
        })
}

/// Whether a unit, which an item has changed, may run with the object of a change.
pub(crate) fn may_run_with(unit: &ObjectId, item: &str, change: &SavedChange) -> bool {
    let of_role = role_of(item) == role_of(&change.item) && a_unit_may_run_with(&change.object);
    of_role || (change.object.kind == "path" && is_read_for(&change.object.key, &unit.key))
}

impl Edges<'_> {
    /// A unit stops before the things of its role change, and starts after them: what they are to a unit is not recorded, and any of them
    /// may be what it runs with.
    pub(super) fn units(&mut self) {
        let mut of_role: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let reverts = self.reverts;
        let things = reverts.iter().enumerate().filter(|(_, r)| r.from != r.to);
        for (at, thing) in things.filter(|(_, r)| a_unit_may_run_with(r.object)) {
            of_role.entry(thing.role()).or_default().push(at);
        }
        let read: Vec<(usize, &Revert<'_>)> =
            self.of("path").filter(|(_, p)| p.object.key.contains("/systemd/")).collect();
        for (at, unit) in self.of("unit") {
            let turn = turn_of(unit);
            let things = of_role.get(unit.role()).into_iter().flatten();
            let others = things.filter(|at| reverts.get(**at).is_some_and(|r| !serves(unit, r)));
            for &thing in others {
                match turn {
                    // A command that it may serve is undone behind the thing, or makes what the thing lies in.
                    UnitTurn::Stops if self.sides.is_before(thing, at) => {}
                    UnitTurn::Starts { runs: false } if self.sides.is_after(thing, at) => {}
                    UnitTurn::Stops => self.order(at, thing),
                    UnitTurn::Starts { .. } => self.order(thing, at),
                    UnitTurn::Settles => {}
                }
            }
            for (path, revert) in read.iter().filter(|(_, p)| is_read_for(&p.object.key, &unit.object.key)) {
                match turn {
                    UnitTurn::Stops if revert.goes() && is_used(unit.from) => self.need(at, *path),
                    UnitTurn::Stops => self.order(at, *path),
                    _ => self.order(*path, at),
                }
            }
            // Commands of its role that ran before it: one that stops may work on what they made; one that runs on may have to be restarted.
            let earlier = self
                .with(|object| object.action().is_action())
                .filter(|(c, command)| *c > at && command.role() == unit.role());
            for (command, _) in earlier {
                match turn {
                    UnitTurn::Stops => self.order(at, command),
                    UnitTurn::Starts { runs: true } => self.order(command, at),
                    UnitTurn::Starts { runs: false } | UnitTurn::Settles => {}
                }
            }
        }
    }

    /// Objects that can be reverted only while a unit runs: before it stops, and after it has started. A package that goes may take the unit along.
    pub(super) fn served(&mut self) {
        let reverts = self.reverts;
        let is_served = |r: &Revert<'_>| r.from != r.to && !units_of(r.object).is_empty();
        for (at, object) in reverts.iter().enumerate().filter(|(_, r)| is_served(r)) {
            for (unit, revert) in self.of("unit").filter(|(_, unit)| serves(unit, object)) {
                match turn_of(revert) {
                    UnitTurn::Stops => self.order(at, unit),
                    UnitTurn::Starts { runs: false } => self.need(unit, at),
                    UnitTurn::Starts { runs: true } | UnitTurn::Settles => {}
                }
            }
            let package = self.of("package").find(|(_, p)| p.role() == object.role() && p.goes());
            if let Some((package, _)) = package {
                self.order(at, package);
            }
        }
    }
}

/// The units of which one must run while the object is reverted.
fn units_of(object: &ObjectId) -> &'static [&'static str] {
    converge_objects::object(&object.kind).map_or(&[], |o| o.needs().served_by(&object.key))
}

/// Whether this is a unit that must run while the other object is reverted.
fn serves(unit: &Revert<'_>, other: &Revert<'_>) -> bool {
    units_of(other.object).contains(&unit.object.key.as_str())
}
