//! One command, one file.

mod allowed_ids;
pub mod apply;
mod chosen_objects;
pub mod completions;
pub mod docs;
pub mod doctor;
pub mod drift;
pub mod explain;
pub mod facts;
mod forget;
pub mod graph;
pub mod init;
pub mod inventory;
pub mod lab;
pub mod man;
pub mod plan;
pub mod rollback;
pub mod run;
pub mod schema;
pub mod settings;
pub mod snapshots;
pub mod state;
pub mod test;
pub mod validate;
pub mod vars;
pub mod vault;
pub mod verify;
