//! Inventory, variables, roles and playbooks to typed declarations per host.

mod catalog;
mod fields;
pub mod input;
pub mod inventory;
pub mod item;
pub mod play;
pub mod role;
mod schema;
mod scope;
mod tags;
pub mod vars;

pub use catalog::{KindCatalog, KindSpec, LOAD_KEYWORD, Load, OUTPUT_KEYWORD};
pub use input::{Input, InputType};
pub use item::{COMMON_KEYS, Item, Section};
pub use play::{Play, Playbook, RoleRef};
pub use role::{Role, RolePath};
pub use scope::MAGIC;
pub use tags::TagFilter;
pub use vars::{Candidate, Layer, VarReport, Winner, parse_set};
