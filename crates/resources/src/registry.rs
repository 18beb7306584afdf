//! The registry: one line a kind.

use crate::kinds;
use converge_resource::KindInfo;

/// All kinds that a user can write, by name.
pub const KINDS: &[KindInfo] = &[
    KindInfo::of::<kinds::command::Command>(),
    KindInfo::of::<kinds::directory::Directory>(),
    KindInfo::of::<kinds::file::File>(),
    KindInfo::of::<kinds::line::Line>(),
    KindInfo::of::<kinds::package::Package>(),
    KindInfo::of::<kinds::service::Service>(),
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static KindInfo> {
    KINDS.iter().find(|k| k.kind == name)
}
