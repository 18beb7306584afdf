//! No name in Rust code is a word of the older dialect: docs/style.md says which term stands for it.

use super::{ends, files, root};

/// Names that nothing has any more, whatever their case.
const RETIRED: [&str; 18] = [
    "former", "towards", "reach", "ways", "way_back", "wayback", "ours", "seen", "told", "trial", "unsaved",
    "kept", "spoil", "mend", "mended", "bad_days", "goodbye", "noway",
];

/// Words that introduce a name.
const KEYWORDS: [&str; 10] =
    ["fn", "struct", "enum", "trait", "type", "mod", "const", "static", "let", "mut"];

/// The retired names that a line of code declares: after a keyword, or before a colon.
fn declared(line: &str) -> Vec<String> {
    let code = line.trim_start();
    if code.starts_with("//") {
        return Vec::new();
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = code;
    let mut previous = "";
    while let Some(start) = rest.find(is_name) {
        let (before, from) = rest.split_at(start);
        if before.contains('"') {
            break;
        }
        let end = from.find(|c| !is_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let introduced = KEYWORDS.contains(&previous) || (after.starts_with(':') && !after.starts_with("::"));
        if introduced && RETIRED.contains(&name.to_lowercase().as_str()) {
            found.push(name.to_owned());
        }
        (previous, rest) = (name, after);
    }
    found
}

#[test]
fn no_name_is_of_the_older_dialect() {
    assert_eq!(declared("    pub(crate) fn told(state: &State) -> Kept {"), ["told"]);
    assert_eq!(declared("pub struct Former {"), ["Former"]);
    assert_eq!(declared("    seen: HashSet<u8>, let mut kept = 1;"), ["seen", "kept"]);
    assert!(
        declared("// let told = 1;").is_empty() && declared("told_apart(seen::x, \"let told\")").is_empty()
    );
    let folders = ["crates", "xtask", "tests"].iter();
    let code: Vec<_> =
        folders.flat_map(|folder| files(root().join(folder), |path| ends(path, "rs"))).collect();
    let mut wrong = Vec::new();
    for path in &code {
        for (at, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
            wrong.extend(
                declared(line).into_iter().map(|name| format!("{}:{}: {name}", path.display(), at + 1)),
            );
        }
    }
    assert!(code.len() > 500, "{} files", code.len());
    assert!(wrong.is_empty(), "docs/style.md has the terms: {wrong:#?}");
}
