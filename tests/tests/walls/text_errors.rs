//! Errors are types: no function gives a text as its error.

use super::code::without_tests;
use super::{files, is_code, root};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

/// Functions that may give a text as their error: the file, the function, and why no type can name the cause.
const TEXT_IS_THE_ERROR: &[(&str, &str, &str)] =
    &[("template/src/panics.rs", "caught", "the payload of a panic is a text, whoever panicked")];

/// The functions of a file in whose signature or body a `Result` has a text as its error; what stands outside of functions is named `-`.
fn text_errors(text: &str) -> Vec<String> {
    let code = without_tests(text);
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn (\w+)").unwrap());
    let is_text = |error: &str| matches!(error.trim(), "String" | "&str" | "&'static str");
    let has_text = |start: usize| {
        // The arguments up to the bracket that closes them, as far as no other bracket is open.
        let (mut depth, mut arguments) = (0_usize, vec![String::new()]);
        let mut before = ' ';
        for c in code[start..].chars() {
            match c {
                '<' | '(' | '[' => depth += 1,
                '>' if before == '-' => {}
                '>' if depth == 0 => return arguments.len() == 2 && is_text(&arguments[1]),
                '>' | ')' | ']' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => arguments.push(String::new()),
                _ => {}
            }
            if !(c == ',' && depth == 0) {
                arguments.last_mut().unwrap().push(c);
            }
            before = c;
        }
        false
    };
    let starts = code.match_indices("Result<").map(|(at, found)| at + found.len());
    let name = |at: usize| {
        let last = FUNCTION.captures_iter(&code[..at]).last();
        last.map_or_else(|| "-".to_owned(), |found| found[1].to_owned())
    };
    starts.filter(|at| has_text(*at)).map(name).collect()
}

#[test]
fn errors_are_types_and_not_texts() {
    assert_eq!(text_errors("type Found = Result<u32, String>;\n"), ["-"]);
    assert_eq!(
        text_errors("fn f<T>(g: impl Fn(&str) -> T)\n-> Result<\n    Vec<(T, u8)>, String> {\n"),
        ["f"]
    );
    assert_eq!(text_errors("fn f() -> Option<Result<Result<u8, &'static str>, E>> {\n"), ["f"]);
    let fine = "fn f() -> Result<String, Box<E>> {}\n// Result<(), String>\n#[cfg(test)]\nfn g() -> Result<(), String> {}";
    assert_eq!(text_errors(fine), [""; 0]);

    let crates = root().join("crates");
    let file_of = |path: &Path| path.strip_prefix(&crates).unwrap().to_owned();
    let code = files(&crates, |path| is_code(path) && file_of(path).iter().any(|part| part == "src"));
    let mut found = BTreeSet::new();
    for path in &code {
        let file = file_of(path).display().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        found.extend(text_errors(&text).into_iter().map(|function| (file.clone(), function)));
    }
    assert!(code.len() > 300, "{} files", code.len());
    let allowed = |(file, function, _): &(&str, &str, &str)| ((*file).to_owned(), (*function).to_owned());
    let allowed: BTreeSet<(String, String)> = TEXT_IS_THE_ERROR.iter().map(allowed).collect();
    assert_eq!(found, allowed, "give the error a type with a variant for each cause (docs/style.md)");
}
