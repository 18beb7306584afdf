//! The report of an import: for each task what it became, and why.

use serde::Serialize;

/// The result for one task, or for something else that is written once (a default, a template, a play).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskVerdict {
    /// It has the same effect.
    Exact,
    /// It was imported or left out, and something about it should be known.
    Remark,
    /// A person must decide; until then a plan refuses the role.
    Open,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct ImportFinding {
    /// The file, from the imported folder.
    pub file: String,
    /// The line in it.
    pub line: usize,
    /// The name of the task.
    pub name: String,
    /// The module, as it was written; of something that is no task, the sort of thing.
    pub module: String,
    /// The result.
    pub verdict: TaskVerdict,
    /// The kinds that stand for it now, or another short word: `left out`, `its tasks`.
    pub became: String,
    /// The remarks; of an open item the reason.
    pub why: Vec<String>,
    /// Of an open item: the text to write.
    pub write: Option<String>,
    /// Whether it counts as a task.
    pub is_task: bool,
    /// Whether it is a handler.
    pub is_handler: bool,
}

/// The counts of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskCounts {
    /// All tasks and handlers.
    pub tasks: usize,
    /// Those that are exact.
    pub exact: usize,
    /// Those with a remark.
    pub remark: usize,
    /// Those that are open.
    pub open: usize,
}

/// The report of an import.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ImportReport {
    /// One for each task, in the order of the files.
    pub findings: Vec<ImportFinding>,
}

impl ImportReport {
    /// Counts the tasks and handlers.
    #[must_use]
    pub fn counts(&self) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for finding in self.findings.iter().filter(|finding| finding.is_task) {
            counts.tasks += 1;
            match finding.verdict {
                TaskVerdict::Exact => counts.exact += 1,
                TaskVerdict::Remark => counts.remark += 1,
                TaskVerdict::Open => counts.open += 1,
            }
        }
        counts
    }

    /// The open findings, those of tasks and others.
    pub fn open(&self) -> impl Iterator<Item = &ImportFinding> {
        self.findings.iter().filter(|finding| finding.verdict == TaskVerdict::Open)
    }
}
