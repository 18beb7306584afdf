//! No name in Rust code is a word of the older dialect, nor does a comment or message use one: docs/style.md says which term stands for it.

use super::code::{texts, without_tests};
use super::{ends, files, is_code, root};
use regex::Regex;

/// Names that nothing has any more, whatever their case.
const RETIRED: [&str; 18] = [
    "former", "towards", "reach", "ways", "way_back", "wayback", "ours", "seen", "told", "trial", "unsaved",
    "kept", "spoil", "mend", "mended", "bad_days", "goodbye", "noway",
];

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
