//! Inventory, variables, roles and playbooks to typed declarations per host.

mod binding;
mod catalog;
mod clusters;
pub mod declare;
mod fact_names;
mod fields;
mod files;
pub mod input;
pub mod inventory;
pub mod item;
mod load;
pub mod play;
pub mod project;
mod report;
pub mod resolve;
pub mod role;
mod schema;
mod scope;
mod tags;
pub mod vars;
pub mod vault;

pub use binding::Binding;
pub use catalog::{KindCatalog, KindSpec, LOAD_KEYWORD, Load, OUTPUT_KEYWORD};
pub use converge_template::{ANSIBLE, AnsibleName, AnsibleSort, Moment, ansible_page};
pub use declare::{DeclaredItem, HostPlan, Registered, RoleUse};
pub use fact_names::FactNames;
pub use input::{Input, InputType};
pub use item::{COMMON_KEYS, DISRUPTIONS, GUARD_SECONDS, GUARDS, Item, Section};
pub use play::{MinAvailable, Play, Playbook, RoleRef, Share};
pub use project::{GivenPlays, HostErrors, LoadOptions, Needs, Project, RoleEdge};
pub use resolve::{EMPTY_LIST, NOT_KNOWN, Outline, ParamSpans, Ready, Resolution};
pub use role::{Role, RolePath};
pub use scope::{Facts, MAGIC};
pub use tags::TagFilter;
pub use vars::{Candidate, Layer, VarReport, Winner, parse_set};
