//! The kinds that a user writes: one file each under `kinds/`, one line each in [`KINDS`].
//!
//! A kind maps present states to wanted ones and does nothing else: no I/O, no shell text but read-only probes.

mod above;
mod attrs;
mod body;
mod boot_settings;
mod chart_source;
mod edit;
#[cfg(test)]
mod fake;
mod fstab;
mod hands;
mod kinds;
mod lines;
mod look;
mod manifest;
mod names;
mod normal_form;
mod openpgp;
mod own_file;
mod picked;
mod pointer;
mod presence;
mod reference;
mod registry;
mod release_drift;
mod repository_key;
mod restart;
mod size;
mod structured;
mod surroundings;
mod target;
mod text_or_number;
mod tree;
mod ufw;
mod unpack;

pub use fstab::{ChangedLine, LinesChanged};
pub use kinds::package::asked_together;
pub use reference::reference_page;
pub use registry::{KINDS, kind};
pub use release_drift::{InstalledRelease, ReleaseDrift, Their};
