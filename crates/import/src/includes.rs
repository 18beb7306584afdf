//! Task files with all that they include, as far as the names are known.

use crate::files::RoleFiles;
use crate::system;
use crate::task::{Task, read_tasks};
use crate::tokens::{TemplatePart, TokenSort, parts, tokens};
use crate::yaml::made;
use converge_syntax::{Diagnostic, Diagnostics, Node};

/// Most files that lead to each other.
const MAX_DEPTH: usize = 16;
/// Most tasks of a role.
const MAX_TASKS: usize = 10_000;

/// The module of a pseudo task that stands for one file of an include whose name the system decides.
pub(crate) const CASE: &str = "include_case";

/// Reads a file of tasks, and those that it includes.
pub(crate) fn load(files: &RoleFiles, path: &str, diags: &mut Diagnostics) -> Vec<Task> {
    let mut count = 0;
    load_at(files, path, 0, &mut count, diags)
}

/// The tasks of a list that stands in a playbook.
pub(crate) fn load_given(files: &RoleFiles, list: &Node, diags: &mut Diagnostics) -> Vec<Task> {
    let mut count = 0;
    let mut tasks = read_tasks(list);
    for task in &mut tasks {
        follow(files, task, "tasks/main.yml", 0, &mut count, diags);
    }
    tasks
}

fn load_at(
    files: &RoleFiles,
    path: &str,
    depth: usize,
    count: &mut usize,
    diags: &mut Diagnostics,
) -> Vec<Task> {
    let Some(node) = files.yaml(path, diags) else { return Vec::new() };
    if node.as_list().is_none() && !node.is_null() {
        let message = format!("{path} is no list of tasks");
        diags.push(
            Diagnostic::error("wrong-type", message).at(node.head_span()).help("put `- ` before each task"),
        );
        return Vec::new();
    }
    let mut tasks = read_tasks(&node);
    for task in &mut tasks {
        follow(files, task, path, depth, count, diags);
    }
    tasks
}

fn follow(
    files: &RoleFiles,
    task: &mut Task,
    path: &str,
    depth: usize,
    count: &mut usize,
    diags: &mut Diagnostics,
) {
    *count += 1;
    if *count > MAX_TASKS {
        if *count == MAX_TASKS + 1 {
            let message = format!(
                "the role has more than {MAX_TASKS} tasks, those of included files counted each time"
            );
            diags.push(Diagnostic::error("too-large", message).at(&task.span));
        }
        return;
    }
    if task.module == "block" {
        for inner in &mut task.block {
            follow(files, inner, path, depth, count, diags);
        }
        return;
    }
    if !matches!(task.module.as_str(), "include_tasks" | "import_tasks" | "include") {
        return;
    }
    "include_tasks".clone_into(&mut task.module);
    let Some(name) = included_name(task) else { return };
    let folder = path.split('/').next().unwrap_or("tasks").to_owned();
    let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let find = |name: &str| {
        let name = name.trim_start_matches("./");
        [format!("{beside}/{name}"), format!("{folder}/{name}")].into_iter().find(|path| files.has(path))
    };
    let load = |path: &str, count: &mut usize, diags: &mut Diagnostics| {
        if depth >= MAX_DEPTH {
            let message = format!("files of tasks include each other more than {MAX_DEPTH} times");
            diags.push(Diagnostic::error("too-deep", message).at(&task.span));
            return Vec::new();
        }
        load_at(files, path, depth + 1, count, diags)
    };
    if !name.contains("{{") {
        if let Some(path) = find(&name) {
            task.block = load(&path, count, diags);
            task.included = true;
        }
        return;
    }
    let cases = cases(&name, files.below(&folder));
    for (condition, file) in cases {
        let mut case = task.clone();
        CASE.clone_into(&mut case.module);
        case.keywords = vec![("when".to_owned(), made(condition))];
        case.name = Some(format!("{} {file}", task.title()));
        case.block = load(&format!("{folder}/{file}"), count, diags);
        case.comments = Vec::new();
        task.block.push(case);
        task.included = true;
    }
}

/// The file that an include names.
pub(crate) fn included_name(task: &Task) -> Option<String> {
    task.free
        .clone()
        .or_else(|| ["file", "_raw_params", "name"].iter().find_map(|key| task.args.get(key)?.scalar_text()))
}

/// The files of a folder that a name with one fact of the system may mean, each with its condition. Empty where another thing decides.
pub(crate) fn cases(name: &str, files: Vec<String>) -> Vec<(String, String)> {
    let Some((before, fact, lower, after)) = one_fact(name) else { return Vec::new() };
    files
        .into_iter()
        .filter_map(|file| {
            let value = file.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
            if value.contains('/') || (lower && value != value.to_lowercase()) {
                return None;
            }
            let condition = if lower {
                let values = system::values(&fact, value, true)?;
                system::written_of(&fact, &values)?
            } else {
                let values = system::values(&fact, value, false)?;
                system::written_of(&fact, &values)?
            };
            Some((condition, file))
        })
        .collect()
}

/// Text, a fact of the system, whether it is lower case, text.
fn one_fact(name: &str) -> Option<(String, String, bool, String)> {
    let all = parts(name)?;
    let plain = |part: Option<&TemplatePart<'_>>| match part {
        Some(TemplatePart::Plain(text)) => Some((*text).to_owned()),
        None => Some(String::new()),
        Some(TemplatePart::Code(..)) => None,
    };
    let at = all.iter().position(|part| matches!(part, TemplatePart::Code("{{", ..)))?;
    if at > 1 || all.len() > at + 2 {
        return None;
    }
    let (before, after) = (plain(all.get(..at)?.first())?, plain(all.get(at + 1))?);
    let Some(TemplatePart::Code(_, inside, _)) = all.get(at) else { return None };
    let words: Vec<&str> = tokens(inside)
        .iter()
        .filter(|token| token.sort != TokenSort::Blank)
        .map(|token| token.text)
        .collect();
    let (fact, rest) = match words.as_slice() {
        ["ansible_facts", ".", name, rest @ ..] => (*name, rest),
        ["ansible_facts", "[", name, "]", rest @ ..] => (name.trim_matches(['\'', '"']), rest),
        [name, rest @ ..] => (name.strip_prefix("ansible_")?, rest),
        [] => return None,
    };
    let lower = match rest {
        [] => false,
        ["|", "lower"] => true,
        _ => return None,
    };
    system::is_compared(fact)
        .then(|| (before.trim_start_matches("./").to_owned(), fact.to_owned(), lower, after))
}

/// The list of an argument that is a list or a text.
pub(crate) fn listed(node: &Node) -> Vec<Node> {
    node.as_list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_the_family_is_one_file_for_each_family() {
        let files =
            || vec!["setup-Debian.yml".to_owned(), "setup-RedHat.yml".to_owned(), "main.yml".to_owned()];
        let found = cases("setup-{{ ansible_os_family }}.yml", files());
        assert_eq!(found[0], ("facts.package_manager == 'apt'".to_owned(), "setup-Debian.yml".to_owned()));
        assert_eq!(found.len(), 2);
        assert!(cases("{{ other }}.yml", files()).is_empty());
        assert_eq!(
            cases("{{ ansible_facts['distribution'] | lower }}.yml", vec!["ubuntu.yml".into()]).len(),
            1
        );
    }
}
