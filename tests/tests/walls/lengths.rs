//! No file of Rust or shell, and no function, is so long that nobody reads it to its end.

use super::{ends, files, is_code, root};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

/// The most lines of a file.
const MOST: usize = 500;

/// The most lines of a function that is no test.
const MOST_OF_FUNCTION: usize = 90;

/// Functions that are longer: the file, the name, and why.
const JUSTIFIED: &[(&str, &str, &str)] = &[
    (
        "import/src/convert/files.rs",
        "file",
        "each state that the module of Ansible knows is one arm, and the arms share what was read before them",
    ),
    ("render/src/samples.rs", "rich", "a table: the plan of the snapshots, item by item"),
];

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let is_code = |path: &Path| ends(path, "rs") || ends(path, "sh");
    let folders = ["crates", "xtask", "tests"].iter();
    let code: Vec<_> = folders.flat_map(|folder| files(root().join(folder), is_code)).collect();
    let mut long = Vec::new();
    for path in &code {
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        if lines > MOST {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(code.len() > 500, "{} files", code.len());
    assert!(long.is_empty(), "divide it by what its parts are about: {long:#?}");
}

/// The functions of a file with the number of their lines: from `fn` to the brace that closes it, as rustfmt lays them out.
fn functions(text: &str) -> Vec<(String, usize)> {
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn (\w+)").unwrap()
    });
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(names) = BEGIN.captures(line).filter(|_| !line.ends_with([';', '}'])) else { continue };
        let (close, declared) = (format!("{}}}", &names[1]), format!("{})", &names[1]));
        let mut rest =
            lines[at..].iter().take_while(|line| !(line.starts_with(&declared) && line.ends_with(';')));
        if let Some(end) = rest.position(|line| **line == close) {
            found.push((names[2].to_owned(), end + 1));
        }
    }
    found
}

#[test]
fn no_function_is_longer_than_ninety_lines() {
    let text = "fn a() {\n    b();\n}\n\ntrait T {\n    fn c();\n    fn d(\n        x: u8,\n    ) -> u8;\n}\n\nimpl U {\n    pub(crate) async fn e(\n        x: u8,\n    ) -> u8 {\n        x\n    }\n    fn f() {}\n}\n";
    assert_eq!(functions(text), [("a".to_owned(), 3), ("e".to_owned(), 5)]);
    let crates = root().join("crates");
    let code: Vec<_> = files(&crates, |path| is_code(path) && path.to_str().unwrap().contains("/src/"));
    let (mut read, mut long, mut lengths) = (0, BTreeSet::new(), Vec::new());
    for path in &code {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap();
        let all = functions(&std::fs::read_to_string(path).unwrap());
        read += all.len();
        for (function, lines) in all.into_iter().filter(|(_, lines)| *lines > MOST_OF_FUNCTION) {
            lengths.push(format!("{name}: {function} has {lines} lines"));
            long.insert((name.to_owned(), function));
        }
    }
    assert!(read > 5000, "{read} functions");
    let justified: BTreeSet<(String, String)> =
        JUSTIFIED.iter().map(|(file, function, _)| ((*file).to_owned(), (*function).to_owned())).collect();
    assert_eq!(long, justified, "a part with a job of its own gets a name of its own: {lengths:#?}");
}
