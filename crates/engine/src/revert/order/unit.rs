//! Units among the reverts: whether they stop or start, and which files systemd reads for them.

use super::Revert;
use crate::revert::undo::role_of;
use converge_ledger::SavedChange;
use converge_objects::UnitState;
use converge_resource::{ObjectId, State};

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

/// Whether a unit may have been started with this: no other unit, no command, nothing with a turn of its own.
pub(super) fn a_unit_may_run_with(object: &ObjectId) -> bool {
    !["unit", "command"].contains(&object.kind.as_str())
        && converge_objects::object(&object.kind).is_none_or(|o| {
            !o.node().stays_unless_allowed()
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
