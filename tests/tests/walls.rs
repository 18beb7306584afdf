//! The walls between the crates, held against `cargo metadata`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "walls/circles.rs"]
mod circles;
#[path = "walls/code.rs"]
mod code;
#[path = "walls/lengths.rs"]
mod lengths;
#[path = "walls/object_names.rs"]
mod object_names;
#[path = "walls/pages.rs"]
mod pages;
#[path = "walls/targets.rs"]
mod targets;
#[path = "walls/terms.rs"]
mod terms;
#[path = "walls/text_errors.rs"]
mod text_errors;
#[path = "walls/type_names.rs"]
mod type_names;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use code::without_tests;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates that would bring I/O into a crate.
const RUNTIMES: &[&str] = &["tokio", "russh", "kube", "reqwest", "hyper", "async-std", "smol"];

/// One row of the table of crates in `docs/architecture.md`.
struct Row {
    name: String,
    uses: BTreeSet<String>,
    is_pure: bool,
}

/// The table, in its order.
fn table() -> Vec<Row> {
    let page = include_str!("../../docs/architecture.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        let (name, what, uses) = (cells[0], cells[1], cells[2]);
        let named = uses.split(", ").filter(|name| *name != "—").map(str::to_owned);
        Row {
            name: name.trim_matches('`').trim_start_matches("crates/").to_owned(),
            uses: named.collect(),
            is_pure: what.ends_with("(pure)"),
        }
    };
    let rows: Vec<Row> = page.lines().filter(|line| line.starts_with("| `crates/")).map(row).collect();
    assert!(rows.len() > 10 && rows.iter().filter(|row| row.is_pure).count() > 5, "{} rows", rows.len());
    rows
}

fn packages() -> BTreeMap<String, Package> {
    let metadata =
        MetadataCommand::new().no_deps().other_options(vec!["--locked".to_owned()]).exec().unwrap();
    metadata
        .packages
        .into_iter()
        .filter_map(|p| {
            let name = p.name.strip_prefix("converge-")?.to_owned();
            Some((name, p))
        })
        .collect()
}

fn uses(package: &Package) -> BTreeSet<String> {
    let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
    normal.map(|d| d.name.clone()).collect()
}

#[test]
fn every_crate_uses_only_what_the_table_says() {
    let packages = packages();
    let mut above: BTreeSet<String> = BTreeSet::new();
    for Row { name, uses: allowed, .. } in table() {
        let package = packages.get(&name).unwrap_or_else(|| panic!("there is no crate {name}"));
        let used =
            uses(package).iter().filter_map(|u| u.strip_prefix("converge-")).map(str::to_owned).collect();
        if allowed == BTreeSet::from(["all".to_owned()]) {
            continue;
        }
        assert_eq!(allowed, used, "docs/architecture.md: what converge-{name} uses");
        assert!(allowed.is_subset(&above), "docs/architecture.md: {name} comes before what it uses");
        above.insert(name);
    }
    let listed: BTreeSet<String> = table().into_iter().map(|row| row.name).collect();
    let missing: Vec<&String> =
        packages.keys().filter(|name| *name != "tests" && !listed.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/architecture.md does not list {missing:?}");
}

#[test]
fn kinds_do_no_io_and_ssh_knows_no_resource() {
    let packages = packages();
    for Row { name, .. } in table().into_iter().filter(|row| row.is_pure) {
        let used = uses(&packages[&name]);
        assert!(RUNTIMES.iter().all(|r| !used.contains(*r)), "converge-{name} uses a runtime: {used:?}");
    }
    assert!(uses(&packages["ssh"]).iter().all(|u| !u.starts_with("converge-")));
}

/// Whether a file holds tests alone, by its name: its module stands behind `#[cfg(test)]` in the file beside it.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let below = path.parent().is_some_and(|folder| folder.ends_with("tests"));
    below || stem.is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The files below a folder that are taken, in no order.
fn files(folder: impl Into<PathBuf>, takes: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.into()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if takes(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether the name of a file has this ending.
fn ends(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own == ending)
}

/// Whether a file is Rust code that is no test.
fn is_code(path: &Path) -> bool {
    ends(path, "rs") && !is_test(path)
}

/// `print!` and its like stand only in `render` and `cli`.
#[test]
fn only_render_and_cli_print() {
    let print = regex::Regex::new(r"\b(e?print(ln)?|dbg)!\s*\(").unwrap();
    let mut found = Vec::new();
    for (name, package) in
        packages().iter().filter(|(n, _)| !["render", "cli", "tests"].contains(&n.as_str()))
    {
        let source = package.manifest_path.parent().unwrap().join("src");
        for path in files(source, is_code) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = without_tests(&text);
            if code.lines().any(|l| !l.trim_start().starts_with("//") && print.is_match(l)) {
                found.push(format!("{name}: {}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The lines of a file at which a comment begins with a bare `What`, or a sentence of one does at the start of a line.
fn bare_what(text: &str) -> Vec<usize> {
    let text_of = |line: &str| {
        let line = line.trim_start();
        let marked = ["///", "//!", "//"].iter().find_map(|marker| line.strip_prefix(marker));
        let shell = || line.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        marked.or_else(shell).map(|text| text.trim().to_owned())
    };
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let comment = text_of(line);
        if let Some(comment) = &comment
            && !inside
            && (comment == "What" || comment.starts_with("What "))
            && !comment.ends_with('?')
        {
            found.push(number + 1);
        }
        // A line that ends in the middle of a sentence goes on in the next one.
        inside =
            comment.is_some_and(|c| !c.is_empty() && !c.ends_with(['.', ':', '?']) && !c.starts_with("# "));
    }
    found
}

#[test]
fn no_comment_begins_with_a_bare_what() {
    assert_eq!(bare_what("/// What it does.\nfn f() {}\n# What\n"), [1, 3]);
    assert_eq!(bare_what("// It ends.\n// What follows.\n/// # Errors\n/// What is wrong.\n"), [2, 4]);
    assert_eq!(
        bare_what("//! It tells\n//! What it sees.\n// What for?\nlet s = \"What \";\n"),
        [0_usize; 0]
    );

    let is_text =
        |path: &Path| path.extension().is_none() || ["rs", "sh", "yaml"].iter().any(|e| ends(path, e));
    let folders = ["crates", "xtask", "tests", "roles", ".ci", "bench"].iter();
    let (mut read, mut found) = (0, Vec::new());
    for path in folders.flat_map(|folder| files(root().join(folder), is_text)) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        read += 1;
        found.extend(bare_what(&text).into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(read > 500, "{read} files");
    assert!(found.is_empty(), "name the thing, or begin with a verb (docs/style.md): {found:#?}");
}

/// Nouns in the plural that a message may put behind a number.
const PLURALS: &[&str] = &[
    "changes",
    "checks",
    "days",
    "files",
    "groups",
    "hosts",
    "items",
    "lines",
    "names",
    "nodes",
    "objects",
    "packages",
    "plays",
    "pods",
    "questions",
    "resources",
    "roles",
    "runs",
    "scenarios",
    "steps",
    "things",
    "users",
    "warnings",
];

/// Texts in which the number is never one, or the word is a verb.
const NEVER_ONE: &[&str] = &[
    "{} has {names} names (hard links)",
    "is the beginning of {} runs:",
    "{count} resources behind",
    "{} hosts, each: ",
    "{ready}/{} hosts",
    "many => format!(\"{} hosts\"",
    "n => format!(\"{n} checks\")",
    "_ => format!(\"{} days\"",
    "good for {days} days",
    "{left} files and directories",
    "{fact} changes first",
    "{} runs with what is there",
    "{} runs: the options count",
    "Description=When {} runs",
    "{set} names RuntimeClass",
    "{used} of {hard} pods",
    "only {there} files",
];

/// The lines of a file whose text puts a number before a plural: with one it is wrong.
fn numbers_before_plurals(text: &str) -> Vec<usize> {
    let code = without_tests(text);
    let wrong = |line: &str| {
        let mut pieces = line.split("} ");
        let mut before = pieces.next().unwrap_or_default();
        pieces.any(|piece| {
            let word = piece.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let placeholder = before.rsplit_once('{').is_some_and(|(_, name)| {
                // A constant is a limit.
                !name.contains([' ', '}']) && (name.is_empty() || name.chars().any(char::is_lowercase))
            });
            before = piece;
            placeholder && PLURALS.contains(&word)
        })
    };
    let comment = |line: &str| line.trim_start().starts_with("//");
    (1..)
        .zip(code.lines())
        .filter(|(_, line)| line.contains('"') && !comment(line) && wrong(line))
        .filter(|(_, line)| !NEVER_ONE.iter().any(|text| line.contains(text)))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn no_message_says_one_things() {
    assert_eq!(
        numbers_before_plurals("f(\"{n} hosts\");\nf(\"{} of {all} pods\", 1);\n// \"{} pods\"\n"),
        [1, 2]
    );
    assert_eq!(numbers_before_plurals("f(\"{host} hosted\");\nf(\"{} of a host's\");\n"), [0_usize; 0]);
    let crates = root().join("crates");
    let in_tests = |path: &Path| path.strip_prefix(&crates).unwrap().iter().any(|part| part == "tests");
    let code = files(&crates, |path| is_code(path) && !in_tests(path));
    let mut found = Vec::new();
    for path in &code {
        let lines = numbers_before_plurals(&std::fs::read_to_string(path).unwrap());
        found.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(code.len() > 300, "{} files", code.len());
    assert!(found.is_empty(), "write it with `counted` (converge_resource): {found:#?}");
}
