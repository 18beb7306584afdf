//! Registered results: who reads them, and what they become.

use crate::convert::{read_only, shape};
use crate::expression::{ImportProblem, RegisteredResult, uses};
use crate::includes::listed;
use crate::task::Task;
use crate::tokens::{TokenSort, tokens};
use crate::yaml::each_text;
use converge_syntax::Node;
use std::collections::{BTreeMap, BTreeSet};

/// The registered results of a role, and their uses.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub shapes: BTreeMap<String, RegisteredResult>,
    /// Paths with which each is used.
    pub uses: BTreeMap<String, BTreeSet<String>>,
}

/// Keywords in which a task speaks of its own result.
const OWN: &[&str] = &["until", "failed_when", "changed_when"];

/// Whether a task says that it changes nothing, or nothing unless it fails.
pub(crate) fn says_no_change(task: &Task) -> bool {
    let Some(value) = task.keyword("changed_when") else { return false };
    let fails_as_usual = task.keyword("ignore_errors").is_none()
        && task.keyword("failed_when").is_none_or(|when| is_own_failure(when, task));
    value.as_bool() == Some(false)
        || value.as_str() == Some("false")
        || fails_as_usual && is_own_failure(value, task)
}

/// Whether a condition says that the task itself has failed: `x is failed`, of a command `x.rc != 0` too.
pub(crate) fn is_own_failure(when: &Node, task: &Task) -> bool {
    let Some(name) = task.keyword("register").and_then(Node::scalar_text) else { return false };
    let is_command = matches!(task.module.as_str(), "command" | "shell" | "raw");
    let says = |one: &Node, all: &[&[&str]]| {
        let words = one.as_str().map(tokens).unwrap_or_default();
        let words: Vec<&str> =
            words.iter().filter(|token| token.sort != TokenSort::Blank).map(|token| token.text).collect();
        matches!(words.as_slice(), [own, rest @ ..] if *own == name && all.contains(&rest))
    };
    let mut all = listed(when);
    if is_command && all.len() > 1 {
        all.retain(|one| !says(one, &[&[".", "rc", "is", "defined"]]));
    }
    let [one] = all.as_slice() else { return false };
    says(one, FAILURES) || is_command && says(one, &[&[".", "rc", "!=", "0"]])
}

/// The text for the change of a command that only reads: Ansible says that it changed something, unless the task says another thing.
fn says_changed(task: &Task, (name, fails): (&str, bool), known: &mut BTreeMap<String, String>) {
    let failed = || task.keyword("changed_when").is_some_and(|when| is_own_failure(when, task));
    for path in [".changed", " is changed", " is change"] {
        known.remove(path);
        if fails && failed() {
            known.insert(path.to_owned(), format!("({name}.status != 0)"));
        } else if says_no_change(task) {
            known.insert(path.to_owned(), "false".to_owned());
        }
    }
}

/// Words behind the name of a result that say that its task has failed.
const FAILURES: &[&[&str]] = &[
    &["is", "failed"],
    &["is", "failure"],
    &[".", "failed"],
    &["is", "not", "success"],
    &["is", "not", "succeeded"],
    &["is", "not", "successful"],
];

/// Whether a task has a loop.
pub(crate) fn has_loop(task: &Task) -> bool {
    task.keywords.iter().any(|(key, _)| key == "loop" || key.starts_with("with_"))
}

/// Looks through all tasks, and other texts (values and templates).
pub(crate) fn registers(tasks: &[&[Task]], others: &[String]) -> Registers {
    let mut all: Vec<&Task> = Vec::new();
    for list in tasks {
        list.iter().for_each(|task| task.each(&mut |task| all.push(task)));
    }
    all.retain(|task| !task.only_says());
    let mut sure: Vec<&Task> = Vec::new();
    tasks.iter().for_each(|list| unconditional(list, &mut sure));
    let (foreign, all): (Vec<&Task>, Vec<&Task>) = all.into_iter().partition(|task| task.foreign.is_some());
    let mut names: BTreeMap<String, Vec<&Task>> = BTreeMap::new();
    for task in &all {
        if let Some(name) = task.keyword("register").and_then(Node::scalar_text) {
            names.entry(name).or_default().push(task);
        }
    }
    let mut found = Registers::default();
    // A task that is passed over has changed nothing.
    for name in foreign.iter().filter_map(|task| task.keyword("register").and_then(Node::scalar_text)) {
        let known =
            [(".changed", "false"), (" is changed", "false"), (".skipped", "true"), (" is skipped", "true")];
        let known = known.map(|(path, here)| (path.to_owned(), here.to_owned()));
        found.shapes.insert(name, RegisteredResult::Query(BTreeMap::from(known)));
    }
    for (name, registering) in names {
        let mut paths = BTreeSet::new();
        for task in &all {
            let is_own = task.keyword("register").and_then(Node::scalar_text).as_deref() == Some(&name);
            for (key, value) in &task.keywords {
                if is_own && OWN.contains(&key.as_str()) || key == "block" {
                    continue;
                }
                let bare = matches!(key.as_str(), "when" | "until" | "failed_when" | "changed_when");
                each_text(value, &mut |text| uses(text, &name, bare, &mut paths));
            }
            let bare = matches!(task.module.as_str(), "assert" | "fail" | "debug");
            each_text(&task.args, &mut |text| uses(text, &name, bare, &mut paths));
            if let Some(text) = &task.free {
                uses(text, &name, false, &mut paths);
            }
        }
        for text in others {
            uses(text, &name, false, &mut paths);
        }
        let is_sure = registering.iter().all(|task| sure.iter().any(|one| std::ptr::eq(*one, *task)));
        let is_odd = all.iter().any(|task| compares_status(&task.text, &name))
            || others.iter().any(|text| compares_status(text, &name));
        found.shapes.insert(name.clone(), shape_of(&name, &registering, (is_sure, is_odd), &paths));
        found.uses.insert(name, paths);
    }
    found
}

/// Whether each status of a task but 0 is one and the same here.
fn has_one_failure(task: &Task) -> bool {
    let is = |key: &str, wanted: bool| {
        task.keyword(key).is_some_and(|value| {
            value.as_bool() == Some(wanted) || value.as_str() == Some(if wanted { "yes" } else { "false" })
        })
    };
    task.keyword("failed_when").is_none() && is("ignore_errors", true) || is("failed_when", false)
}

/// Whether a text compares the exit status of a result with anything but 0.
fn compares_status(text: &str, name: &str) -> bool {
    text.split(&format!("{name}.rc")).skip(1).any(|rest| {
        let rest = rest.trim_start().trim_start_matches("| int").trim_start();
        let Some(sign) =
            ["==", "!=", ">=", "<=", ">", "<", "in ", "not in "].iter().find(|sign| rest.starts_with(**sign))
        else {
            return false;
        };
        let value = rest.trim_start_matches(sign).trim_start();
        let is_zero = value.starts_with('0') && !value.starts_with("0.");
        !(is_zero && matches!(*sign, "==" | "!=" | ">"))
    })
}

/// The tasks that are done on every host.
fn unconditional<'t>(tasks: &'t [Task], found: &mut Vec<&'t Task>) {
    for task in tasks.iter().filter(|task| task.keyword("when").is_none()) {
        found.push(task);
        unconditional(&task.block, found);
    }
}

fn shape_of(
    name: &str,
    tasks: &[&Task],
    (is_sure, is_odd): (bool, bool),
    paths: &BTreeSet<String>,
) -> RegisteredResult {
    if paths.is_empty() {
        return RegisteredResult::Changes(Vec::new());
    }
    let [task] = tasks else {
        return RegisteredResult::Unknown(ImportProblem::new(
            format!("several tasks register `{name}`"),
            "give each result a name of its own",
        ));
    };
    if has_loop(task) {
        return RegisteredResult::Unknown(ImportProblem::new(
            format!("`{name}` has a result for each element of a loop"),
            "ask for everything in one `query`",
        ));
    }
    let only_changes = paths.iter().all(|path| path == ".changed" || path == " is changed");
    if only_changes && task.module != "stat" && !says_no_change(task) {
        return RegisteredResult::Changes(Vec::new());
    }
    if has_one_failure(task) && is_odd {
        return RegisteredResult::Unknown(ImportProblem::new(
            format!(
                "the exit status of `{name}` is compared with one that is no success and no failure as such"
            ),
            "write `query` with `status`: the list of the statuses that are an answer",
        ));
    }
    let text = task.free.as_deref();
    let reads = says_no_change(task) || text.is_some_and(read_only);
    let fails = task.keyword("failed_when").is_some()
        || task.keyword("ignore_errors").is_some_and(|v| v.as_bool() == Some(true));
    let text = text.or_else(|| task.args.get("argv").map(|_| "argv"));
    let mut shape = shape(&task.module, text, (reads, fails), paths, name);
    if let RegisteredResult::Query(known) = &mut shape
        && text.is_some()
    {
        says_changed(task, (name, fails), known);
    }
    // A task that was done in any case has given its answer.
    let known = match &mut shape {
        RegisteredResult::Query(known) => Some(known),
        RegisteredResult::Json(answer) => {
            if is_sure {
                let there = [(" is defined", "true"), (" is undefined", "false")];
                answer.known.extend(there.map(|(path, here)| (path.to_owned(), here.to_owned())));
            }
            None
        }
        _ => None,
    };
    if let Some(known) = known.filter(|_| is_sure) {
        let there: Vec<String> = known.keys().filter(|path| !path.contains(' ')).cloned().collect();
        let parents = there.iter().map(|path| path.split('.').take(2).collect::<Vec<_>>().join("."));
        let all: BTreeSet<String> = parents.chain(there.iter().cloned()).chain([String::new()]).collect();
        for path in all.iter().filter(|path| !path.starts_with(".stat.") || *path == ".stat.exists") {
            known.insert(format!("{path} is defined"), "true".to_owned());
            known.insert(format!("{path} is undefined"), "false".to_owned());
        }
    }
    shape
}
