//! All objects: one line each.

use crate::{command, group, package, path, sysctl, unit, user};
use converge_resource::{DynObject, Erased};

static OBJECTS: &[&dyn DynObject] = &[
    &Erased::<path::Path>::new(),
    &Erased::<package::Package>::new(),
    &Erased::<unit::Unit>::new(),
    &Erased::<user::User>::new(),
    &Erased::<group::Group>::new(),
    &Erased::<sysctl::Sysctl>::new(),
    &Erased::<command::Command>::new(),
];

/// All objects.
pub fn objects() -> &'static [&'static dyn DynObject] {
    OBJECTS
}

/// The object of this kind.
pub fn object(kind: &str) -> Option<&'static dyn DynObject> {
    OBJECTS.iter().copied().find(|o| o.kind() == kind)
}

/// The shell functions of all objects and the helpers that they share. Read once per shell; see [`converge_resource::Object::SHELL`].
pub fn shell_library() -> String {
    let mut text = include_str!("common.sh").to_owned();
    for object in OBJECTS {
        text.push('\n');
        text.push_str(object.shell());
    }
    text
}
