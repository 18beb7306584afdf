//! The engine distinguishes hosts and clusters in `connect/`, and elsewhere only where the list says.

use super::code::without_tests;
use super::{files, is_code, root};
use std::collections::BTreeSet;

/// Files of the engine outside `connect/` that distinguish hosts and clusters, and why.
const JUSTIFIED: &[(&str, &str)] = &[
    ("amend.rs", "the records of a cluster refuse in words of their own"),
    ("apply/mod.rs", "a stretch goes to a host as one batch, to a cluster item by item (ADR 29)"),
    ("rollback.rs", "only a host is asked whether the contents that it has saved are whole"),
];

#[test]
fn hosts_and_clusters_are_distinguished_in_one_place() {
    let engine = root().join("crates/engine/src");
    let arms = regex::Regex::new(r"\bTarget::(Host|Cluster)\b").unwrap();
    let mut found = BTreeSet::new();
    for path in files(&engine, is_code) {
        let name = path.strip_prefix(&engine).unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = without_tests(&text);
        let is_named = code.lines().any(|line| !line.trim_start().starts_with("//") && arms.is_match(line));
        if is_named && !name.starts_with("connect/") {
            found.insert(name);
        }
    }
    let listed: BTreeSet<String> = JUSTIFIED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, listed, "move what distinguishes them to a method of `connect::target::Target`");
}
