//! Units among the reverts: whether they stop or start, and which files systemd reads for them.

use super::Revert;
use converge_objects::UnitState;
use converge_resource::State;

pub(super) fn unit_state(state: &State) -> Option<UnitState> {
    UnitState::try_from(state.clone()).ok()
}

/// The effect of a revert on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is stopped, or goes.
    Stops,
    /// It is started, or restarted with other things than it runs with.
    Starts { runs: bool },
    /// Neither.
    Settles,
}

pub(super) fn turn_of(revert: &Revert<'_>) -> Turn {
    let active = |state: &Option<UnitState>| matches!(state, Some(UnitState::Unit { active, .. }) if active == "active");
    let record = |state: &Option<UnitState>| match state {
        Some(UnitState::Unit { started, .. }) => started.clone(),
        _ => None,
    };
    let (from, to) = (unit_state(revert.from), unit_state(revert.to));
    if revert.to.is_absent() || (active(&from) && !active(&to)) {
        Turn::Stops
    } else if active(&to) && (!active(&from) || record(&from) != record(&to)) {
        Turn::Starts { runs: active(&from) }
    } else {
        Turn::Settles
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
