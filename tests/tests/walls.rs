//! The walls between the crates, held against `cargo metadata`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

/// Crate → the crates of this workspace that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("syntax", &[]),
    ("resource", &[]),
    ("template", &["syntax"]),
    ("model", &["syntax", "template", "resource"]),
    ("objects", &["resource"]),
    ("resources", &["resource", "objects", "syntax"]),
    ("planner", &["model", "resource", "objects", "resources", "syntax"]),
    ("ssh", &[]),
    ("ledger", &["resource"]),
    ("store", &["resource", "ledger", "objects"]),
    ("cluster", &["resource", "ledger", "objects", "ssh", "store"]),
    (
        "engine",
        &[
            "syntax",
            "template",
            "model",
            "resource",
            "objects",
            "resources",
            "planner",
            "ssh",
            "ledger",
            "cluster",
            "store",
        ],
    ),
    ("lab", &[]),
    ("scenarios", &["engine", "planner", "objects", "resource", "model", "syntax", "lab"]),
    ("render", &["engine", "scenarios", "resource", "objects", "planner", "model", "syntax"]),
];

/// Crates that know no I/O, and what would bring it.
const PURE: &[&str] = &["syntax", "resource", "ledger", "objects", "resources", "planner"];
const RUNTIMES: &[&str] = &["tokio", "russh", "kube", "reqwest", "hyper", "async-std", "smol"];

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
fn every_crate_uses_only_what_it_may() {
    let packages = packages();
    for (name, package) in packages.iter().filter(|(n, _)| !["cli", "tests"].contains(&n.as_str())) {
        let (_, allowed) =
            ALLOWED.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} is not on the list"));
        for used in uses(package).iter().filter_map(|u| u.strip_prefix("converge-")) {
            assert!(allowed.contains(&used), "converge-{name} may not use converge-{used}");
        }
    }
}

#[test]
fn kinds_do_no_io_and_ssh_knows_no_resource() {
    let packages = packages();
    for name in PURE {
        let used = uses(&packages[*name]);
        assert!(RUNTIMES.iter().all(|r| !used.contains(*r)), "converge-{name} uses a runtime: {used:?}");
    }
    assert!(uses(&packages["ssh"]).iter().all(|u| !u.starts_with("converge-")));
}

/// `print!` and its like stand only in `render` and `cli`; `lab` has a small tool for contributors with its own exception.
/// Whether a file holds tests alone, by its name: its module stands behind `#[cfg(test)]` in the file beside it.
fn is_test(path: &std::path::Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_tests"))
}

#[test]
fn only_render_and_cli_print() {
    let print = regex::Regex::new(r"\b(e?print(ln)?|dbg)!\s*\(").unwrap();
    let mut found = Vec::new();
    for (name, package) in
        packages().iter().filter(|(n, _)| !["render", "cli", "tests", "lab"].contains(&n.as_str()))
    {
        let source = package.manifest_path.parent().unwrap().join("src");
        let mut folders = vec![source.into_std_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") && !is_test(&path) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                    if code.lines().any(|l| !l.trim_start().starts_with("//") && print.is_match(l)) {
                        found.push(format!("{name}: {}", path.display()));
                    }
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Objects that crates beside `objects` and `resources` know by name: paths have content that is diffed, several packages make one
/// transaction, a command's key is not for people, and a unit's and a group's attributes hold no secret.
const KNOWN_BY_NAME: &[&str] = &["command", "group", "package", "path", "unit"];

#[test]
fn a_new_object_is_known_by_name_nowhere_else() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");
    let files = |dir: String, ending: &str| -> Vec<std::path::PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![std::path::PathBuf::from(dir)]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false if path.to_str().unwrap().ends_with(ending) => found.push(path),
                    false => {}
                }
            }
        }
        found
    };
    let stem = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut objects: BTreeSet<String> =
        files(format!("{crates}/objects/src"), ".sh").iter().map(|p| stem(p)).collect();
    objects.remove("common");
    assert!(objects.len() > 10, "{objects:?}");
    let mut named = BTreeSet::new();
    for name in ["resource", "planner", "engine", "store", "render", "cli"] {
        for file in files(format!("{crates}/{name}/src"), ".rs").iter().filter(|file| !is_test(file)) {
            let text = std::fs::read_to_string(file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for line in code.lines().map(str::trim).filter(|l| !l.starts_with("//")) {
                for object in &objects {
                    let quoted = format!("\"{object}\"");
                    if (line.contains("kind") && line.contains(&quoted))
                        || line.starts_with(&format!("{quoted} =>"))
                    {
                        named.insert(object.clone());
                    }
                }
            }
        }
    }
    let known: BTreeSet<String> = KNOWN_BY_NAME.iter().map(|k| (*k).to_owned()).collect();
    assert_eq!(named, known, "an object says what it is in its own file: see Object's methods");
}
