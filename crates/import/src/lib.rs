//! Roles and playbooks of Ansible, written as those of converge, with a report of what each task became.
//!
//! Nothing here runs anything: files come in as text and go out as text. What cannot be said for certain becomes an open item, which the plan of
//! the written role refuses until a person has decided.

mod constants;
mod convert;
mod databases;
mod emit;
mod expression;
mod facts_set;
mod files;
mod gathered_names;
mod gathering;
mod handlers;
mod includes;
mod inputs;
mod keywords;
mod logins;
mod loops;
mod names;
mod notices;
mod open;
mod other_hosts;
mod outer;
mod outer_roles;
mod parts;
mod paths;
mod playbook;
mod problem;
mod record;
mod registers;
mod renamed;
mod report;
mod resources;
mod results;
mod role;
mod system;
mod targets;
mod task;
mod tokens;
mod uses;
mod written;
mod yaml;

pub use files::role_name;
pub use files::{RoleFile, RoleFiles};
pub use playbook::{ImportedPlaybook, import_playbook};
pub use record::{EditConflict, FORMAT, ImportRecord, ImportRecordError, PresentFile, compare};
pub use report::{ImportFinding, ImportReport, TaskCounts, TaskVerdict};
pub use role::{ImportedContent, ImportedFile, ImportedRole, import_role};
