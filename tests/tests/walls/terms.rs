//! No name in Rust code is a word of the older dialect or has one as a part, nor does a comment or message use one: docs/style.md says which term stands for it.

use super::code::{texts, without_tests, words};
use super::{ends, files, is_code, root};
use regex::Regex;
use std::sync::LazyLock;

/// Words that no name has any more, whatever their case. Those of several parts have `_` between them.
const RETIRED: [&str; 24] = [
    "former", "towards", "reach", "ways", "way_back", "wayback", "ours", "seen", "told", "said", "trial",
    "unsaved", "kept", "spoil", "spoils", "spoiled", "spoilt", "mend", "mends", "mended", "bad_days",
    "goodbye", "noway", "no_way",
];

// `reachable` and `unreachable` are words of their own, the field's; they need no exception.

/// Words of comments and messages that have a plain one in docs/style.md. A line may break inside of them.
const IN_TEXTS: &str = r"(?x)\b(
    ours | told | former(ly)? | in\s+vain | way\s+back | mend(s|ed|ing)? | spoil(s|t|ed)? | puts?\s+right
    | of\s+(before|then) | all\s+the\s+same | armed | complaints? | (code|what|something)\s+(has\s+|have\s+)?moved
)\b";

/// Stored words and options: the end of a file's path, the text in which the word may be, and the reason.
const STORED: [(&str, &str, &str); 3] = [
    ("planner/src/plan.rs", "\"ours\"", "a field of saved plans"),
    ("resource/src/api.rs", "\"former\"", "a field of saved plans"),
    ("cli/src/args/mod.rs", "\"no-spoil\"", "the earlier name of an option"),
];

/// The parts of a name in snake or camel case, in lower case with `_` before, between and after them.
fn parts(name: &str) -> String {
    let mut parts = String::from("_");
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            parts.push('_');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        parts.extend(c.to_lowercase());
    }
    parts + "_"
}

/// Whether a name has a retired word as a part.
fn is_retired(name: &str) -> bool {
    let parts = parts(name);
    RETIRED.iter().any(|word| parts.contains(&format!("_{word}_")))
}

/// The retired names of a code, each with its line: whatever they name, and wherever they are used.
fn retired(code: &str) -> Vec<(usize, String)> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[A-Za-z_][A-Za-z0-9_]*$").unwrap());
    let mut found = words(code);
    found.retain(|(_, name)| NAME.is_match(name) && is_retired(name));
    found.into_iter().map(|(line, name)| (line, name.to_owned())).collect()
}

#[test]
fn no_name_is_of_the_older_dialect() {
    let names = |code: &str| retired(code).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(names("    pub(crate) fn told(state: &State) -> Kept {"), ["told", "Kept"]);
    assert_eq!(
        names("pub struct FormerRun {\n is_seen: u8, _kept2: SAID, }"),
        ["FormerRun", "is_seen", "SAID"]
    );
    assert_eq!(names("let a_way_back_ends = WayBack::new();"), ["a_way_back_ends", "WayBack"]);
    assert!(names("// let told = 1;\nreachable(unreachable, untold, \"let told\", always)").is_empty());
    assert!(names("r##\"\"ours\" \"# told\"##").is_empty());
    assert_eq!(retired("\n\nlet said = 1;"), [(3, "said".to_owned())]);
    let folders = ["crates", "xtask", "tests"].iter();
    let code: Vec<_> =
        folders.flat_map(|folder| files(root().join(folder), |path| ends(path, "rs"))).collect();
    let mut wrong = Vec::new();
    for path in &code {
        // The programs of tests are named by subject; the names of their tests are sentences.
        let is_program = !path.components().any(|part| part.as_os_str() == "src");
        for (line, name) in retired(&std::fs::read_to_string(path).unwrap()) {
            if !is_program || RETIRED.contains(&name.to_lowercase().as_str()) {
                wrong.push(format!("{}:{line}: {name}", path.display()));
            }
        }
    }
    assert!(code.len() > 500, "{} files", code.len());
    assert!(wrong.is_empty(), "docs/style.md has the terms: {wrong:#?}");
}

/// The retired words in the comments and strings of a code, each with its line.
fn in_texts(words: &Regex, code: &str) -> Vec<(usize, String)> {
    let marks = Regex::new(r"\\?\n\s*(//[/!]? ?)?").unwrap();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut block: Option<(usize, String)> = None;
    // Comments of successive lines are one text.
    let mut blocks = Vec::new();
    for (line, text) in texts(code) {
        let is_comment = text.starts_with("//");
        match &mut block {
            Some((last, lines)) if is_comment && *last + 1 == line => {
                (*last, *lines) = (line, format!("{lines}\n{text}"));
            }
            _ => blocks.extend(block.replace((line, text.to_owned()))),
        }
    }
    blocks.extend(block);
    for (line, text) in blocks {
        let text = marks.replace_all(&text, " ");
        found.extend(words.find_iter(&text).map(|word| (line, format!("{} ({text})", word.as_str()))));
    }
    found
}

#[test]
fn no_comment_or_message_is_of_the_older_dialect() {
    let words = Regex::new(IN_TEXTS).unwrap();
    let count = |code: &str| in_texts(&words, code).len();
    assert_eq!(
        count("/// The state of\n/// before.\nlet told = 1;\nf(\"all the \\\n    same\"); // told"),
        3
    );
    assert_eq!(count("/// The hours before us: a former of\n\n/// before"), 1);
    let code = files(root().join("crates"), is_code);
    assert!(code.len() > 400, "{} files", code.len());
    let (mut wrong, mut stored) = (Vec::new(), 0);
    for path in code.iter().filter(|path| path.components().any(|part| part.as_os_str() == "src")) {
        for (line, found) in in_texts(&words, &without_tests(&std::fs::read_to_string(path).unwrap())) {
            let is_stored =
                |(file, text, _): &(&str, &str, &str)| path.ends_with(file) && found.contains(text);
            if STORED.iter().any(is_stored) {
                stored += 1;
            } else {
                wrong.push(format!("{}:{line}: {found}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/style.md has the words: {wrong:#?}");
    assert_eq!(stored, STORED.len(), "a word of the list is not there any more");
}
