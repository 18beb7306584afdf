//! Objects that several projects share: each owns some lines, or some fields.

use converge_resource::ObjectId;

/// The file that says what a boot mounts: each line belongs to its mount point or to its swap space.
pub const FSTAB: &str = "/etc/fstab";

/// Whether each run owns only lines of this file, and others change other lines of it: its changes go back line by line.
pub fn is_by_lines(object: &ObjectId) -> bool {
    object.kind == "path" && object.key == FSTAB
}

/// Whether the object is such a file, or a mount, whose line goes with it.
pub fn stands_in_lines(object: &ObjectId) -> bool {
    converge_objects::traits_of(object).mounts || is_by_lines(object)
}

/// Whether each run owns only fields of this object, and others change other fields of it.
pub(crate) fn is_by_fields(object: &ObjectId) -> bool {
    converge_objects::is_of_api(object)
}
