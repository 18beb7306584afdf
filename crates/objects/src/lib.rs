//! What a machine has: one file an object, with its state, probe, parsing, steps, save and restore.

pub mod apt_lists;
pub mod boot;
pub mod command;
pub mod firewall;
pub mod git;
pub mod group;
pub mod hostname;
pub mod module;
pub mod mount;
pub mod package;
pub mod path;
pub mod registry;
pub mod snap;
pub mod swap;
pub mod sysctl;
#[cfg(test)]
mod testing;
pub mod unit;
pub mod user;

pub use apt_lists::AptListsState;
pub use boot::BootState;
pub use command::{Command, CommandState, Guard};
pub use firewall::FirewallState;
pub use git::GitState;
pub use group::GroupState;
pub use hostname::HostnameState;
pub use module::ModuleState;
pub use mount::MountState;
pub use package::PackageState;
pub use path::PathState;
pub use registry::{object, objects, shell_library};
pub use snap::SnapState;
pub use swap::SwapState;
pub use sysctl::SysctlState;
pub use unit::UnitState;
pub use user::UserState;
