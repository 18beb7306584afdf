//! Task files with all that they include, as far as the names are known.

use crate::files::RoleFiles;
use crate::outer::{folders, from, normal, role_of};
use crate::system;
use crate::task::{OUTER, Task, included_name, read_tasks};
use crate::tokens::{TemplatePart, Token, TokenSort, parts, tokens};
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
        let message = format!("{path} is not a list of tasks");
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
    crate::databases::take_apart(task);
    if task.module == "block" {
        for inner in &mut task.block {
            follow(files, inner, path, depth, count, diags);
        }
        return;
    }
    if let Some(outer) = role_of(task, files).filter(|_| is_in_place(task))
        && let Some(path) = from(
            files,
            &format!("{outer}/tasks"),
            task.args.get("tasks_from").and_then(Node::scalar_text).as_deref(),
        )
    {
        if depth >= MAX_DEPTH {
            let message = format!("files of tasks include each other more than {MAX_DEPTH} times");
            diags.push(Diagnostic::error("too-deep", message).at(&task.span));
            return;
        }
        task.block = load_at(files, &path, depth + 1, count, diags);
        task.included = true;
        OUTER.clone_into(&mut task.module);
        return;
    }
    if !matches!(task.module.as_str(), "include_tasks" | "import_tasks" | "include") {
        return;
    }
    "include_tasks".clone_into(&mut task.module);
    let Some(name) = included_name(task) else { return };
    let (folder, beside) = folders(path);
    let (name, beside) = match in_own_tasks(&name) {
        Some(rest) => (rest.to_owned(), folder.clone()),
        None => (name, beside),
    };
    let find = |name: &str| {
        let name = name.trim_start_matches("./");
        let places = [format!("{beside}/{name}"), format!("{folder}/{name}")];
        places.iter().filter_map(|path| normal(path)).find(|path| files.has(path))
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
    let cases = cases(&name, files.below(&folder)).unwrap_or_default();
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

/// The name below the folder of tasks, where it begins with that folder of the role.
fn in_own_tasks(name: &str) -> Option<&str> {
    let inside = name.trim_start().strip_prefix("{{")?.trim_start_matches('-').trim_start();
    let rest = inside.strip_prefix("role_path")?.trim_start().trim_start_matches('-');
    rest.strip_prefix("}}")?.strip_prefix("/tasks/")
}

/// Whether another role stands in the place of the task: one that comes as a whole, and before all else, is a role of its own.
fn is_in_place(task: &Task) -> bool {
    ["tasks_from", "vars_from", "defaults_from"].iter().any(|key| task.args.get(key).is_some())
}

/// The files of a folder that a name with facts of the system may mean, each with its condition. `None` where another thing decides.
pub(crate) fn cases(name: &str, files: Vec<String>) -> Option<Vec<(String, String)>> {
    let pieces = pieces(name)?;
    let mut found = Vec::new();
    for file in files {
        if let Some(condition) = condition(&pieces, &file)? {
            found.push((condition, file));
        }
    }
    Some(found)
}

/// A part of a name: text, or a fact and whether it is lower case.
enum NamePiece {
    Text(String),
    Fact(String, bool),
}

/// The condition under which the pieces are this name: the outer `None` where that is not known, the inner one where they never are.
fn condition(pieces: &[NamePiece], file: &str) -> Option<Option<String>> {
    let (before, rest) = match pieces {
        [NamePiece::Text(text), rest @ ..] => (text.as_str(), rest),
        rest => ("", rest),
    };
    let (after, rest) = match rest {
        [rest @ .., NamePiece::Text(text)] => (text.as_str(), rest),
        rest => ("", rest),
    };
    let Some(value) = file.strip_prefix(before).and_then(|file| file.strip_suffix(after)) else {
        return Some(None);
    };
    let (fact, lower, value, version) = match rest {
        [NamePiece::Fact(fact, lower)] => (fact, *lower, value, None),
        [NamePiece::Fact(fact, lower), NamePiece::Text(between), NamePiece::Fact(more, _)] => {
            let Some((value, version)) = value.rsplit_once(between.as_str()) else { return Some(None) };
            (fact, *lower, value, Some((more.as_str(), version)))
        }
        _ => return None,
    };
    if value.contains('/') || (lower && value != value.to_lowercase()) {
        return Some(None);
    }
    let Some(values) = system::values(fact, value, lower) else { return Some(None) };
    let Some(mut text) = system::written_of(fact, &values) else { return Some(None) };
    if let Some((fact, version)) = version {
        match system::release(fact, &values, version)? {
            Some(more) => text.push_str(&format!(" and {more}")),
            None => return Some(None),
        }
    }
    Some(Some(text))
}

/// The pieces of a name; the first fact is one of the system.
fn pieces(name: &str) -> Option<Vec<NamePiece>> {
    let mut all = Vec::new();
    for part in parts(name)? {
        match part {
            TemplatePart::Plain(text) => all.push(NamePiece::Text(text.trim_start_matches("./").to_owned())),
            TemplatePart::Code("{{", inside, _) => {
                let words = tokens(inside);
                let words: Vec<&Token<'_>> =
                    words.iter().filter(|token| token.sort != TokenSort::Blank).collect();
                for piece in words.split(|word| word.is("+") || word.is("~")) {
                    all.push(piece_of(piece)?);
                }
            }
            TemplatePart::Code(..) => return None,
        }
    }
    // Texts that stand side by side are one.
    let mut joined: Vec<NamePiece> = Vec::new();
    for piece in all {
        match (joined.last_mut(), piece) {
            (Some(NamePiece::Text(text)), NamePiece::Text(more)) => text.push_str(&more),
            (_, piece) => joined.push(piece),
        }
    }
    let first = joined.iter().find_map(|piece| match piece {
        NamePiece::Fact(fact, _) => Some(fact.as_str()),
        NamePiece::Text(_) => None,
    });
    first.is_some_and(system::is_compared).then_some(joined)
}

fn piece_of(words: &[&Token<'_>]) -> Option<NamePiece> {
    if let [text] = words
        && let Some(text) = text.quoted()
    {
        return Some(NamePiece::Text(text.to_owned()));
    }
    let words: Vec<&str> = words.iter().map(|token| token.text).collect();
    let (fact, rest) = match words.as_slice() {
        ["ansible_facts", ".", name, rest @ ..] => (*name, rest),
        ["ansible_facts", "[", name, "]", rest @ ..] => (name.trim_matches(['\'', '"']), rest),
        [name, rest @ ..] => (name.strip_prefix("ansible_")?, rest),
        [] => return None,
    };
    // Every host has these facts: a default of them is never taken.
    let rest = match rest {
        [rest @ .., "|", "default", "(", ")"] => rest,
        [rest @ .., "|", "default", "(", _, ")"] => rest,
        rest => rest,
    };
    let (fact, rest) = match (fact, rest) {
        ("distribution_version", [".", "split", "(", "'.'" | "\".\"", ")", "[", "0", "]", rest @ ..]) => {
            ("distribution_major_version", rest)
        }
        all => all,
    };
    match rest {
        [] => Some(NamePiece::Fact(fact.to_owned(), false)),
        ["|", "lower"] => Some(NamePiece::Fact(fact.to_owned(), true)),
        _ => None,
    }
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
        let found = cases("setup-{{ ansible_os_family }}.yml", files()).unwrap();
        assert_eq!(found[0], ("facts.package_manager == 'apt'".to_owned(), "setup-Debian.yml".to_owned()));
        assert_eq!(found.len(), 2);
        assert!(cases("{{ other }}.yml", files()).is_none());
        let lower = cases("{{ ansible_facts['distribution'] | lower }}.yml", vec!["ubuntu.yml".into()]);
        assert_eq!(lower.unwrap().len(), 1);
    }

    #[test]
    fn a_name_with_a_release_is_one_file_for_each_release() {
        let files = || ["Ubuntu-24.04.yml", "Debian-11.yml", "Debian.yml"].map(str::to_owned).to_vec();
        let of = |name: &str| cases(name, files()).unwrap();
        let ubuntu =
            ("facts.os.id == 'ubuntu' and facts.os.version == '24.04'".to_owned(), files().remove(0));
        assert_eq!(
            of("{{ ansible_facts['distribution'] + '-' + ansible_facts['distribution_version'] }}.yml"),
            [ubuntu]
        );
        let family = of("{{ ansible_os_family }}-{{ ansible_distribution_major_version }}.yml");
        let condition = "facts.package_manager == 'apt' and facts.os.version.split('.')[0] == '11'";
        assert_eq!(family, [(condition.to_owned(), "Debian-11.yml".to_owned())]);
        assert!(cases("{{ ansible_os_family }}-{{ ansible_kernel }}.yml", files()).is_none());
    }
}
