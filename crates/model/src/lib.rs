//! Inventory, variables, roles and playbooks to typed declarations per host.

mod binding;
mod catalog;
mod clusters;
pub mod declare;
mod empty;
pub mod expressions;
mod fact_names;
mod fields;
mod files;
pub mod group;
pub mod input;
pub mod inventory;
pub mod item;
mod item_id;
mod load;
mod local_mistakes;
mod needed_files;
pub mod play;
pub mod project;
mod report;
pub mod resolve;
pub mod role;
mod schema;
mod scope;
mod stray;
mod tags;
mod tree;
pub mod vars;
pub mod vault;

pub use binding::Binding;
pub use catalog::{KindCatalog, KindSpec, LOAD_KEYWORD, Load, OUTPUT_KEYWORD};
pub use converge_template::{
    AnsibleName, AnsibleSort, Moment, ansible_instead, ansible_names, ansible_option, ansible_page,
};
pub use declare::{DeclaredItem, HostPlan, Registered, RoleUse};
pub use empty::blank_limit;
pub use expressions::Expression;
pub use fact_names::FactNames;
pub use group::{GROUP_KEYS, Group};
pub use input::{Input, InputType};
pub use item::{COMMON_KEYS, DISRUPTIONS, GUARD_SECONDS, GUARDS, Item, Section};
pub use play::{MinAvailable, Play, Playbook, RoleRef, Share};
pub use project::{GivenPlays, HostErrors, LoadOptions, Needs, Project, RoleEdge};
pub use resolve::{EMPTY_LIST, NOT_KNOWN, Outline, ParamSpans, Ready, Resolution};
pub use role::{Role, RolePath};
pub use scope::{Facts, MAGIC};
pub use tags::TagFilter;
pub use vars::{Candidate, Layer, VarReport, Winner, parse_set};
