//! The minijinja environment: filters, tests, native values, spans.
//!
//! Values in inventories, roles and playbooks are [`Node`](converge_syntax::Node)s that may hold Jinja. An [`Engine`] renders
//! them in a [`Scope`] of variables, which are rendered when they are looked up, as in Ansible. An [`Outcome`] says what was
//! reached on the way, and tells values that cannot be known yet from errors.

mod convert;
mod engine;
mod explain;
mod filters;
mod frame;
mod lookup;
mod outcome;
mod scope;
mod text;

pub use engine::{Decrypt, Engine};
pub use outcome::{Evaluated, Outcome};
pub use scope::{HostScopes, Scope, Variable};
pub use text::is_template;
