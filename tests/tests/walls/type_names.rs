//! One name, one meaning: no two types of the workspace share a name, whatever their visibility, unless they mean the same on two levels. Types of tests may share one.

use super::code::without_tests;
use super::{ends, files, is_code, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Names of several types, and the reason.
const SHARED: &[(&str, &str)] = &[
    ("Inner", "Rust's name for what clones of a handle share; private"),
    ("Item", "the glossary's item, as a role declares it and as a target has it"),
    ("Result", "the standard type with the error of a crate"),
];

/// Where an object and its kind stand: a kind has the name of its object if both files have one name.
const OBJECTS: &str = "crates/objects/src/";
const KINDS: &str = "crates/resources/src/kinds/";

/// Names with the ending of a participle that are nouns, or the name that the field has for the thing.
const NOUNS: &[(&str, &str)] = &[
    ("Fetched", "the kind of object `fetched`"),
    ("Need", "a noun"),
    ("Spanned", "the name in serde_spanned"),
    ("Structured", "the kind `structured`"),
];

/// The names of the types that a code defines.
fn defined(code: &str) -> Vec<String> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?m)^(?:\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait)|(?:pub(?:\([^)]*\))?\s+)?type)\s+([A-Z]\w*)",
        )
        .unwrap()
    });
    ITEM.captures_iter(code).map(|found| found[1].to_owned()).collect()
}

/// Whether the files are those of an object and of the kind that manages it.
fn is_kind_of_object(files: &[String]) -> bool {
    let [object, kind] = files else { return false };
    let name = object.strip_prefix(OBJECTS);
    name.is_some() && name == kind.strip_prefix(KINDS)
}

/// By name the files that define it, but for those that are shared; and the names of the types of tests.
fn by_name() -> (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<String>>) {
    let (mut code, mut tests) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    let folders = ["crates", "xtask"].map(|folder| root().join(folder));
    for path in folders.iter().flat_map(|folder| files(folder, |path| ends(path, "rs"))) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if !name.contains("/src/") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // Parts of tests, behind the `cfg` of another file.
        let is_test = ["/tests/", "/tests.rs", "_tests/", "_tests.rs", "/testing.rs"];
        let of_code = if is_test.iter().any(|part| name.contains(part)) {
            Vec::new()
        } else {
            defined(&without_tests(&text))
        };
        let mut of_tests = defined(&text);
        for kind in of_code {
            of_tests.swap_remove(of_tests.iter().position(|other| *other == kind).unwrap());
            code.entry(kind).or_default().push(name.clone());
        }
        for kind in of_tests {
            tests.entry(kind).or_default().push(name.clone());
        }
    }
    for files in code.values_mut() {
        files.sort();
    }
    (code, tests)
}

#[test]
fn no_two_types_share_a_name_and_not_a_meaning() {
    let code = "pub struct One;\n    enum Two {}\n    type Three = u8;\ntype Four = u8;\n#[cfg(test)]\nmod tests { struct Five; }\n";
    assert_eq!(defined(&without_tests(code)), ["One", "Two", "Four"]);
    assert!(is_kind_of_object(&[format!("{OBJECTS}git.rs"), format!("{KINDS}git.rs")]));
    assert!(!is_kind_of_object(&[format!("{OBJECTS}git.rs"), format!("{KINDS}line.rs")]));
    let (mut found, tests) = by_name();
    assert!(found.len() > 1000, "{} types", found.len());
    let as_code: Vec<_> = tests.iter().filter(|(name, _)| found.contains_key(*name)).collect();
    assert!(as_code.is_empty(), "a type of a test has the name of another type: {as_code:#?}");
    found.retain(|_, files| files.len() > 1 && !is_kind_of_object(files));
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
        .flat_map(|path| defined(&without_tests(&std::fs::read_to_string(path).unwrap())))
        .collect();
    let participle = Regex::new("^[A-Z][a-z]+ed$").unwrap();
    let found: Vec<&String> = all.iter().filter(|name| participle.is_match(name)).collect();
    let is_noun = |name: &str| NOUNS.iter().any(|(noun, _)| *noun == name);
    let wrong: Vec<_> = found.iter().filter(|name| !is_noun(name)).collect();
    assert!(wrong.is_empty(), "docs/style.md: types are nouns: {wrong:?}");
}
