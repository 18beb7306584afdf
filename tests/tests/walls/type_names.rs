//! One name, one meaning: no two types of the workspace share a name unless they mean the same on two levels.

use super::code::without_tests;
use super::{files, is_code, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Folders whose types are named after those of another level: kinds after objects, arguments after commands, documents after what they show.
const LEVELS: [&str; 3] = ["resources/src/kinds/", "cli/src/args/", "render/src/documents"];

/// Names of several types, and the reason.
const SHARED: &[(&str, &str)] = &[
    ("Become", "the other user, as the inventory says it and as a shell runs"),
    ("Candidate", "a value of a variable, in the inventory and among all layers"),
    ("Inner", "Rust's name for what clones of a handle share"),
    ("Item", "a resource as a role writes it, and as a target has it"),
    ("Layer", "the place of a value among the layers, in the inventory and among all"),
    ("Mount", "a mount as an object, and as a fact"),
    ("Read", "the form in which serde reads a parameter that has several"),
    ("Result", "the standard type with the error of a crate"),
    ("Transport", "ssh or this machine, as the inventory says it and for a session"),
];

/// Names with the ending of a participle that are nouns, or the name that the field has for the thing.
const NOUNS: &[(&str, &str)] = &[
    ("Fetched", "the kind of object `fetched`"),
    ("Need", "a noun"),
    ("Spanned", "the name in serde_spanned"),
    ("Structured", "the kind `structured`"),
];

/// The names of the types that a file defines, but for its tests.
fn defined(text: &str) -> BTreeSet<String> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?m)^(?:\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait)|(?:pub(?:\([^)]*\))?\s+)?type)\s+([A-Z]\w*)",
        )
        .unwrap()
    });
    let code = without_tests(text);
    ITEM.captures_iter(&code).map(|found| found[1].to_owned()).collect()
}

#[test]
fn no_two_types_share_a_name_and_not_a_meaning() {
    let code = "pub struct One;\n    enum Two {}\n    type Three = u8;\ntype Four = u8;\n#[cfg(test)]\nmod tests { struct Five; }\n";
    assert_eq!(defined(code), ["Four", "One", "Two"].map(str::to_owned).into());
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let folders = ["crates", "xtask"].map(|folder| root().join(folder));
    for path in folders.iter().flat_map(|folder| files(folder, is_code)) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        // Parts of tests, behind the `cfg` of another file, and the programs' own arguments.
        let is_other = |part: &str| name.contains(part);
        if LEVELS.iter().any(|level| is_other(level))
            || ["/tests/", "_tests/", "_tests.rs", "/testing.rs", "/bin/"].iter().any(|p| is_other(p))
        {
            continue;
        }
        for kind in defined(&std::fs::read_to_string(&path).unwrap()) {
            found.entry(kind).or_default().push(name.clone());
        }
    }
    assert!(found.len() > 900, "{} types", found.len());
    found.retain(|_, files| files.len() > 1);
    let several: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let listed: BTreeSet<&str> = SHARED.iter().map(|(name, _)| *name).collect();
    let wrong: Vec<_> = found.iter().filter(|(name, _)| !listed.contains(name.as_str())).collect();
    assert!(wrong.is_empty(), "docs/style.md: name each after what it is: {wrong:#?}");
    assert_eq!(listed, several, "a name that is not shared any more leaves the list");
}

/// A type is a thing: `Observation`, not `Observed`.
#[test]
fn no_type_is_a_bare_participle() {
    let folders = ["crates", "xtask"].map(|folder| root().join(folder));
    let all: BTreeSet<String> = folders
        .iter()
        .flat_map(|folder| files(folder, is_code))
        .flat_map(|path| defined(&std::fs::read_to_string(path).unwrap()))
        .collect();
    let participle = Regex::new("^[A-Z][a-z]+ed$").unwrap();
    let found: Vec<&String> = all.iter().filter(|name| participle.is_match(name)).collect();
    let is_noun = |name: &str| NOUNS.iter().any(|(noun, _)| *noun == name);
    let wrong: Vec<_> = found.iter().filter(|name| !is_noun(name)).collect();
    assert!(wrong.is_empty(), "docs/style.md: types are nouns: {wrong:?}");
}
