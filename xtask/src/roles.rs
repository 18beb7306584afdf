//! The rules for the text of roles: no long lines, hardly any shell, and `k8s` fits on a few pages. shfmt writes the shell first: statements
//! after one another get lines of their own.

use crate::process::workspace;
use crate::tools;
use converge_syntax::{Dialect, Node, Source, Value, parse_yaml};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Columns of a line of `role.yaml` or of a template.
const COLUMNS: usize = 140;
/// Lines of one piece of shell, without blank lines and comments.
const SHELL: usize = 5;
/// Lines of `roles/k8s/role.yaml` and of the roles that it requires.
const K8S: usize = 300;
/// The keys of items whose text is a script.
const SCRIPTS: [&str; 5] = ["run", "unless", "undo", "until", "command"];

/// A role: its name and the text of its files.
struct RoleText {
    name: String,
    /// `role.yaml`
    tree: Node,
    text: String,
    /// Below `templates/` and `files/`, by their path in the role.
    files: BTreeMap<String, String>,
}

fn roles() -> Vec<RoleText> {
    let mut roles = Vec::new();
    for entry in std::fs::read_dir(workspace().join("roles")).unwrap() {
        let folder = entry.unwrap().path();
        let source = Source::read(&folder.join("role.yaml")).unwrap();
        let text = source.text().to_owned();
        let tree =
            parse_yaml(source, Dialect::Native).unwrap_or_else(|_| panic!("{}", folder.display())).remove(0);
        let mut files = BTreeMap::new();
        for part in ["templates", "files"] {
            collect(&folder.join(part), part, &mut files);
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        roles.push(RoleText { name, tree, text, files });
    }
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    roles
}

fn collect(folder: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = format!("{name}/{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            collect(&path, &name, into);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            into.insert(name, text);
        }
    }
}

fn entries(node: &Node) -> &[(Node, Node)] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The scripts of a tree, each with the name of its item.
fn scripts(node: &Node, item: &str, found: &mut Vec<(String, String)>) {
    let named = entries(node).iter().find(|(key, _)| text(key) == Some("name"));
    let item = named.and_then(|(_, name)| text(name)).unwrap_or(item);
    for (key, value) in entries(node) {
        match (text(key), text(value)) {
            (Some(key), Some(script)) if SCRIPTS.contains(&key) => {
                found.push((item.to_owned(), script.to_owned()));
            }
            _ => scripts(value, item, found),
        }
    }
    if let Value::List(nodes) = &node.value {
        nodes.iter().for_each(|node| scripts(node, item, found));
    }
}

/// The texts of a role that its scripts include by name: defaults of inputs, and expressions.
fn included(tree: &Node) -> BTreeMap<&str, &str> {
    let of = |name: &str| entries(tree).iter().find(|(key, _)| text(key) == Some(name)).map(|(_, node)| node);
    let inputs = of("inputs").into_iter().flat_map(entries).filter_map(|(key, input)| {
        let default = entries(input).iter().find(|(key, _)| text(key) == Some("default"))?;
        Some((text(key)?, text(&default.1)?))
    });
    let vars =
        of("vars").into_iter().flat_map(entries).filter_map(|(key, value)| Some((text(key)?, text(value)?)));
    inputs.chain(vars).collect()
}

/// Plain shell of a template: texts that it includes are in their place, other expressions are a word, and statements are gone.
fn plain(script: &str, role: &RoleText, depth: usize) -> String {
    let included = included(&role.tree);
    let mut shell = String::new();
    let mut rest = script;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let (before, template) = rest.split_at(at);
        shell.push_str(before);
        let end = if template.starts_with("{{") { "}}" } else { "%}" };
        let (inner, after) = template.split_at(2).1.split_once(end).unwrap_or_default();
        let inner = inner.trim();
        let file = inner.strip_prefix("lookup('template', '").and_then(|name| name.strip_suffix("')"));
        let file = file.and_then(|name| role.files.get(&format!("templates/{name}")));
        match file.map(String::as_str).or_else(|| included.get(inner).copied()) {
            Some(text) if depth > 0 => shell.push_str(&plain(text, role, depth - 1)),
            _ if end == "}}" => shell.push_str("word"),
            _ => {}
        }
        rest = after;
    }
    shell.push_str(rest);
    shell
}

/// The lines that a script has when shfmt has written it.
///
/// Errors with the diagnostic of shfmt.
fn lines(shfmt: &Path, script: &str) -> Result<usize, String> {
    let mut child = Command::new(shfmt)
        .args(["-ln", "posix", "-i", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    Ok(text.lines().filter(counts).count())
}

/// The scripts of a role with their places: of items, files that are run, and templates of shell that no item includes.
fn shell_of(role: &RoleText) -> Vec<(String, String)> {
    let mut found = Vec::new();
    scripts(&role.tree, "", &mut found);
    for (name, text) in &role.files {
        let is_program =
            text.lines().next().is_some_and(|line| line.starts_with("#!") && line.contains("sh"));
        if is_program || name.ends_with(".sh") || name.ends_with(".sh.j2") {
            found.push((name.clone(), text.clone()));
        }
    }
    found
}

/// The roles that this one needs, itself included.
fn with_required<'a>(role: &'a RoleText, all: &'a [RoleText], found: &mut BTreeSet<&'a str>) {
    if !found.insert(&role.name) {
        return;
    }
    let requires = entries(&role.tree).iter().find(|(key, _)| text(key) == Some("requires"));
    let Some((_, Node { value: Value::List(names), .. })) = requires else { return };
    for other in names.iter().filter_map(text).filter_map(|name| all.iter().find(|role| role.name == name)) {
        with_required(other, all, found);
    }
}

/// Fails with all places that break a rule.
fn none_broken(broken: &[String]) {
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_line_of_a_role_is_long() {
    let mut broken = Vec::new();
    for role in roles() {
        let templates = role.files.iter().filter(|(name, _)| name.starts_with("templates/"));
        let own = ("role.yaml".to_owned(), role.text.clone());
        for (file, text) in templates.map(|(name, text)| (name.clone(), text.clone())).chain([own]) {
            let long = (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > COLUMNS);
            let long: Vec<usize> = long.map(|(number, _)| number).collect();
            if !long.is_empty() {
                let why = format!("the lines {long:?} are longer than {COLUMNS} columns");
                broken.push(format!("{}/{file}: {why}", role.name));
            }
        }
    }
    none_broken(&broken);
}

#[test]
fn no_shell_of_a_role_is_long() {
    let shfmt = tools::shfmt().unwrap();
    let mut broken = Vec::new();
    for role in roles() {
        for (place, script) in shell_of(&role) {
            let place = format!("{}|{place}", role.name);
            match lines(&shfmt, &plain(&script, &role, 4)) {
                Ok(count) if count <= SHELL => {}
                Ok(count) => {
                    let why = format!(
                        "{count} lines of shell: a kind or a fact takes their place, {SHELL} are allowed"
                    );
                    broken.push(format!("{place}: {why}"));
                }
                Err(why) => panic!("{place}: {why}"),
            }
        }
    }
    none_broken(&broken);
}

#[test]
fn the_role_of_a_node_fits_on_a_few_pages() {
    let all = roles();
    let mut names = BTreeSet::new();
    with_required(all.iter().find(|role| role.name == "k8s").unwrap(), &all, &mut names);
    let count: usize = all
        .iter()
        .filter(|role| names.contains(role.name.as_str()))
        .map(|role| role.text.lines().count())
        .sum();
    assert!(count <= K8S, "{names:?} have {count} lines, and {K8S} are allowed");
}

#[test]
fn shell_is_counted_as_shfmt_writes_it() {
    let shfmt = tools::shfmt().unwrap();
    assert_eq!(lines(&shfmt, "a; b; c # all in one\n\n# a comment\n"), Ok(3));
    assert_eq!(lines(&shfmt, "if a; then\nb; c; fi; d"), Ok(5));
    assert!(lines(&shfmt, "if a; then").is_err());
    let source = Source::new(
        "role.yaml",
        "inputs: {f: {type: str, default: \"f() { a; b; }\"}}\nresources:\n  - name: x\n    resources:\n      - name: y\n        \
         command: {run: \"{{ f }}\\n{% if z %}\\nf {{ z }}\\n{% endif %}\", unless: \"{{ lookup('template', 't.sh.j2') }}\"}\n",
    );
    let role = RoleText {
        name: "r".to_owned(),
        text: String::new(),
        tree: parse_yaml(source, Dialect::Native).unwrap_or_default().remove(0),
        files: BTreeMap::from([("templates/t.sh.j2".to_owned(), "a\nb {{ c }}\n".to_owned())]),
    };
    let found = shell_of(&role);
    assert_eq!(
        found.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>(),
        ["y", "y", "templates/t.sh.j2"]
    );
    let counts: Vec<_> = found.iter().map(|(_, script)| lines(&shfmt, &plain(script, &role, 4))).collect();
    assert_eq!(counts, [Ok(5), Ok(2), Ok(2)]);
}
