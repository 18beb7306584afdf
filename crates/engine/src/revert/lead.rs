//! Links that runs lead elsewhere, and directories that come in their place. Pure.

use converge_objects::PathState;
use converge_resource::{ObjectId, State};

/// Where the paths below a path lie: in the directory itself, or where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    Here,
    To(String),
}

pub(crate) fn lead(state: &State) -> Option<Lead> {
    match PathState::try_from(state.clone()).ok()? {
        PathState::Dir { .. } => Some(Lead::Here),
        PathState::Link { target, .. } => Some(Lead::To(target)),
        _ => None,
    }
}

/// A link that a run has led elsewhere, and a directory and a link of which `foreign` code has put one in the place of the other: where the path led
/// before, and where the run left it. An item that does the latter has recorded what was in the directory.
pub(crate) fn led_elsewhere(
    object: &ObjectId,
    before: &State,
    left: &State,
    foreign: bool,
) -> Option<(Lead, Lead)> {
    let both = (object.kind == "path").then(|| lead(before).zip(lead(left))).flatten();
    both.filter(|(before, left)| {
        before != left && (foreign || (*before != Lead::Here && *left != Lead::Here))
    })
}
