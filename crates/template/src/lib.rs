//! The minijinja environment: filters, tests, native values, spans.
//!
//! Values in inventories, roles and playbooks are [`Node`](converge_syntax::Node)s that may hold Jinja. An [`TemplateEngine`] renders
//! them in a [`Scope`] of variables, which are rendered when they are looked up, as in Ansible. An [`Evaluation`] says what was
//! looked up, and tells values that cannot be known yet from errors.

mod ansible;
mod bounds;
mod chain;
mod compiled;
mod convert;
mod engine;
mod evaluation;
mod explain;
mod files;
mod filters;
mod frame;
mod guards;
mod include;
mod lookup;
mod measure;
mod moment;
mod panics;
mod references;
mod registry;
mod scope;
mod slices;
mod text;
mod unclosed;

pub use ansible::{
    AnsibleName, AnsibleSort, ansible_fact, ansible_instead, ansible_module, ansible_names, ansible_option,
    ansible_page, ansible_parameter, is_known_here,
};
pub use engine::{Decrypt, TemplateEngine};
pub use evaluation::{Evaluation, EvaluationResult};
pub use moment::Moment;
pub use scope::{Entries, HostScopes, Scope, Variable};
pub use text::is_template;
