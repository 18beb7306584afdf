//! Source text to spanned nodes; diagnostics with spans, help and a code.
//!
//! Every value that a user wrote is a [`Node`]: a [`Value`] with the [`Span`] it was written at. Diagnostics are
//! [`Diagnostic`]s that point at spans. Typed structs are read out of nodes with [`from_node`], so that a wrong type or an
//! unknown key is reported where it stands in the file.

mod de;
mod diagnostic;
mod node;
mod report;
mod scalar;
mod source;
mod spanned;
mod suggest;
mod yaml;
mod yaml_text;

pub use de::{DeError, from_node};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use node::{Node, UNSAFE_TAG, Value, format_float};
pub use report::Report;
pub use scalar::{BIG_INTEGER, decimal, resolve_plain};
pub use source::{Source, Span};
pub use spanned::Spanned;
pub use suggest::{did_you_mean, edit_distance};
pub use yaml::{Dialect, MAX_BYTES, parse_yaml, parse_yaml_into};
pub use yaml_text::{YamlStyle, write_yaml};
