//! Links that runs lead elsewhere, and directories that come in their place. Pure.

use converge_resource::{ObjectId, State, decode_field};

/// Where the paths below a path lie: in the directory itself, or where a link leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lead {
    /// In the directory.
    Here,
    /// Where a link leads.
    To(String),
}

/// The lead of a path in this state, which is one of a directory or a link.
pub fn lead(state: &State) -> Option<Lead> {
    let mut words = state.line().split(' ');
    match words.next() {
        Some("dir") => Some(Lead::Here),
        Some("link") => Some(Lead::To(decode_field(words.next()?)?)),
        _ => None,
    }
}

/// A link that a run has led elsewhere, and a directory and a link of which `foreign` code has put one in the place of the other: where the path led
/// before, and where the run left it. An item that does the latter has recorded what was in the directory.
pub fn led_elsewhere(object: &ObjectId, before: &State, left: &State, foreign: bool) -> Option<(Lead, Lead)> {
    let both = (object.kind == "path").then(|| lead(before).zip(lead(left))).flatten();
    both.filter(|(before, left)| {
        before != left && (foreign || (*before != Lead::Here && *left != Lead::Here))
    })
}

/// Whether a change makes, removes or turns a link: other paths are visible below it then, or none.
pub fn turns_link(object: &ObjectId, before: &State, left: &State) -> bool {
    let ends = [lead(before), lead(left)];
    object.kind == "path" && ends[0] != ends[1] && ends.iter().any(|end| matches!(end, Some(Lead::To(_))))
}

/// Whether a change takes a link away: what lay behind it is out of sight.
pub(crate) fn takes_link_away(object: &ObjectId, before: &State, left: &State) -> bool {
    object.kind == "path" && matches!(lead(before), Some(Lead::To(_))) && lead(left).is_none()
}

/// A path above an object, which runs have led elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedPath {
    /// The path.
    pub path: String,
    /// Where it must lead for the object to be visible.
    pub lies_in: Lead,
    /// Where the runs have left it.
    pub now: Lead,
}
