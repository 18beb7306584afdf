//! Results of tasks that later expressions read.

use crate::paths::{name_behind, path_at, test_at};
use crate::problem::ImportProblem;
use crate::tokens::Token;
use std::collections::BTreeMap;

/// A registered result, as later expressions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RegisteredResult {
    /// A `query`: what stands for each path behind the name.
    Query(BTreeMap<String, String>),
    /// A `query` that answers in JSON.
    Json(JsonAnswer),
    /// The names of the resources of a task; only whether it changed something is known.
    Changes(Vec<String>),
    /// Nothing here knows it.
    Unknown(ImportProblem),
}

/// The answer of a `query` in JSON, which has the structure that Ansible's result has below a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonAnswer {
    /// The path behind the name: `.stat`.
    pub path: &'static str,
    /// The text for the name with this path.
    pub here: String,
    /// The texts for other paths.
    pub known: BTreeMap<String, String>,
}

/// Rewrites the use of a registered result.
pub(crate) fn result(
    name: &str,
    registered: &RegisteredResult,
    all: &[Token<'_>],
    at: usize,
    out: &mut String,
) -> Result<usize, ImportProblem> {
    let path = path_at(all, at + 1);
    let (mut key, mut end) = (path.text.clone(), path.end);
    let mut negated = false;
    if let Some((not, test, after)) = test_at(all, path.end) {
        key.push_str(&format!(" is {test}"));
        (negated, end) = (not, after);
    }
    let known = match registered {
        RegisteredResult::Query(known) => known,
        RegisteredResult::Json(answer) => &answer.known,
        RegisteredResult::Changes(_) => {
            return Err(ImportProblem::new(
                format!("`{name}{key}` is the result of a task that changes something"),
                "write `on_change` or `restart_on` where something follows a change; ask the host with `query` for what it is",
            ));
        }
        RegisteredResult::Unknown(problem) => return Err(problem.clone()),
    };
    if let Some(text) = known.get(&key) {
        out.push_str(if negated { "not " } else { "" });
        out.push_str(text);
        return Ok(end);
    }
    if let RegisteredResult::Json(answer) = registered
        && let Some(below) = below(all, at + 1, answer.path)
    {
        out.push_str(&answer.here);
        return Ok(below);
    }
    // Another test asks what the value is, as it does there.
    if let Some(text) = known.get(&path.text)
        && test_at(all, path.end).is_some_and(|(_, test, _)| !OF_RESULTS.contains(&test))
    {
        out.push_str(text);
        return Ok(path.end);
    }
    Err(ImportProblem::new(
        format!("`{name}{key}` is not known of a `query`"),
        "a `query` gives `stdout`, `lines`, `status` and `json`",
    ))
}

/// Tests that ask how a task ended, or whether it was done at all.
const OF_RESULTS: &[&str] = &[
    "defined",
    "undefined",
    "changed",
    "change",
    "skipped",
    "skip",
    "failed",
    "failure",
    "succeeded",
    "success",
    "successful",
    "finished",
    "started",
    "reachable",
    "unreachable",
];

/// The place behind a path, where it begins at this one.
fn below(all: &[Token<'_>], at: usize, path: &str) -> Option<usize> {
    path.split('.').filter(|name| !name.is_empty()).try_fold(at, |at, name| {
        let (own, end) = name_behind(all, at)?;
        (own == name).then_some(end)
    })
}
