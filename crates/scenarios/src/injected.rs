//! A drift that a test injects.

use converge_resource::ObjectId;

/// One drift to inject.
pub(crate) struct InjectedDrift {
    pub object: ObjectId,
    pub facet: &'static str,
    pub what: String,
    /// Shell text; on a cluster the words for kubectl, one a line.
    pub script: String,
}

/// The name of an object for people.
pub(crate) fn shown(object: &ObjectId) -> String {
    if converge_objects::is_action(object) { format!("a {}'s mark", object.kind) } else { object.to_string() }
}
