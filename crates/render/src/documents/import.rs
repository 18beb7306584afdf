//! The report of an import.

use super::*;

/// `converge import --output json`: what each task became.
#[derive(JsonSchema)]
pub struct ImportDocument {
    /// The document's format
    pub format: ImportFormat,
    /// Its version
    pub version: One,
    /// The counts of tasks and handlers
    pub counts: ImportCounts,
    /// A line for each task, and for each default, template or play of which something should be known
    pub findings: Vec<ImportFindingEntry>,
    /// The files that were written, by their path from the folder of the output
    pub files: Vec<String>,
}

/// Counts of tasks and handlers.
#[derive(JsonSchema)]
pub struct ImportCounts {
    /// All
    pub tasks: usize,
    /// Those with the same effect
    pub exact: usize,
    /// Those with a remark
    pub remark: usize,
    /// Those that a person must decide about
    pub open: usize,
}

/// A line of the report.
#[derive(JsonSchema)]
#[schemars(rename = "ImportFinding")]
pub struct ImportFindingEntry {
    /// The file of Ansible
    pub file: String,
    /// The line in it
    pub line: usize,
    /// The name of the task
    pub name: String,
    /// The module, as it is written
    pub module: String,
    /// `exact`, `remark` or `open`
    pub verdict: String,
    /// The kinds that stand for it, or a short word
    pub became: String,
    /// The remarks, or why it is open
    pub why: Vec<String>,
    /// The text to write, of an open item
    pub write: Option<String>,
    /// Whether it counts as a task
    pub is_task: bool,
    /// Whether it is a handler
    pub is_handler: bool,
}
