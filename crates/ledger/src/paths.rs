//! Objects that lie at paths.

/// Whether objects of this kind lie at their keys.
pub(crate) fn is_at_path(kind: &str) -> bool {
    converge_objects::object(kind).is_some_and(|object| object.traits().at_path)
}
