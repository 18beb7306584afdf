//! The pages for contributors name files and modules that are there; the pages of roles say what stays of a role, and what was proved of it.

use super::{ends, files, root};
use std::collections::BTreeSet;

/// The pages beside the design notes.
const PAGES: [&str; 3] = ["docs/architecture.md", "docs/adding-a-kind.md", "tests/README.md"];

/// The files and folders that a page names. A name with a word in capitals stands for many of them.
fn named(page: &str) -> BTreeSet<&str> {
    let is_path = |text: &&str| {
        let is_name =
            text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c));
        is_name && [".rs", ".sh", "/"].iter().any(|end| text.ends_with(end))
    };
    page.split('`').skip(1).step_by(2).filter(is_path).collect()
}

#[test]
fn the_files_that_the_pages_name_are_there() {
    assert_eq!(
        named("`a/b.rs` and `B.rs`, `c/` but `cargo test`, NAME.sh"),
        BTreeSet::from(["a/b.rs", "c/"])
    );
    let is_there = |path: &std::path::Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let folders = ["crates", "tests", "xtask"].iter();
    let there: Vec<String> = folders
        .flat_map(|folder| files(root().join(folder), |path| ends(path, "rs") || ends(path, "sh")))
        .map(|path| format!("/{}", is_there(&path)))
        .collect();
    let mut pages: Vec<_> = PAGES.iter().map(|page| root().join(page)).collect();
    pages.extend(files(root().join("docs/design"), |path| ends(path, "md")));
    let (mut read, mut missing) = (0, Vec::new());
    for path in &pages {
        let page = std::fs::read_to_string(path).unwrap();
        for name in named(&page) {
            read += 1;
            let wanted = format!("/{name}");
            let is = |file: &String| {
                if name.ends_with('/') { file.contains(&wanted) } else { file.ends_with(&wanted) }
            };
            if !there.iter().any(is) {
                missing.push(format!("{}: `{name}`", path.display()));
            }
        }
    }
    assert!(read > 100, "{read} names");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_page_lists_the_modules_of_the_engine() {
    let code = include_str!("../../../crates/engine/src/lib.rs");
    let modules = code.lines().filter_map(|line| {
        let name = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?;
        name.strip_suffix(';')
    });
    let modules: BTreeSet<&str> = modules.collect();
    let page = include_str!("../../../docs/architecture.md");
    let (_, table) = page.split_once("## Inside the engine").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<&str> =
        rows.flat_map(|row| row.split(['`', ',', ' ', '/'])).filter(|name| !name.is_empty()).collect();
    assert!(modules.len() > 10, "{modules:?}");
    assert_eq!(listed, modules, "docs/architecture.md, Inside the engine");
}

/// Roles of the demo, which have no page.
const DEMO: [&str; 3] = ["base", "exporter", "gpu_node"];

/// The declaration that switches a role off, as its inputs have it: `NAME_enabled: false`, or of a role of nodes `NAME_state: absent`.
fn switch(name: &str, role: &str) -> Option<String> {
    let switches = [format!("{name}_enabled: false"), format!("{name}_state: absent")];
    switches.into_iter().find(|switch| {
        let (input, _) = switch.split_once(' ').unwrap();
        role.lines().any(|line| line.strip_prefix("  ").is_some_and(|line| line.starts_with(input)))
    })
}

/// The parts that a page of a role lacks.
fn lacks(name: &str, role: &str, page: &str) -> Vec<String> {
    let Some(switch) = switch(name, role) else {
        return vec![format!("{name}: the role has no switch")];
    };
    let (_, end) = page.split_once("\n## Taken away\n").unwrap_or_default();
    let mut lacking = Vec::new();
    if !end.contains(&format!("`{switch}`")) {
        lacking.push(format!("{name}: `{switch}` below `## Taken away`"));
    }
    if !end.contains("What is left") && !end.contains("Nothing is left") {
        lacking.push(format!("{name}: `What is left: …` or `Nothing is left` below `## Taken away`"));
    }
    let says =
        |text: &str| end.lines().any(|line| line.starts_with(text) || line.contains(&format!(" {text}")));
    if !says("Proved") {
        lacking.push(format!("{name}: `Proved …` at the end"));
    }
    if !says("Not proved: ") {
        lacking.push(format!("{name}: `Not proved: …` at the end"));
    }
    lacking
}

#[test]
fn each_page_of_a_role_says_what_stays_and_what_was_proved() {
    let role = "inputs:\n  web_enabled: {type: bool}\n";
    let page = "# `web`\n\n## Taken away\n\n`web_enabled: false` takes it. Nothing is left.\n\nProved here. Not proved: load.\n";
    assert!(lacks("web", role, page).is_empty());
    assert_eq!(lacks("web", role, "# `web`\n`web_enabled: false`. Proved. Not proved: load.\n").len(), 4);
    assert_eq!(lacks("web", "inputs: {}\n", page).len(), 1);

    let (mut read, mut lacking) = (0, Vec::new());
    for path in files(root().join("roles"), |path| path.ends_with("role.yaml")) {
        let name = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        if DEMO.contains(&name) {
            continue;
        }
        let page = root().join("docs/roles").join(format!("{name}.md"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{}", page.display()));
        lacking.extend(lacks(name, &std::fs::read_to_string(&path).unwrap(), &page));
        read += 1;
    }
    assert!(read > 30, "{read} roles");
    assert!(lacking.is_empty(), "{lacking:#?}");
}
