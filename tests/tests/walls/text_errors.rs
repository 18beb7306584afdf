//! Errors are types: no function gives a text as its error.

use super::is_test;
use std::collections::BTreeSet;

/// Functions that may give a text as their error: the file, the function, and why no type can name the cause.
const TEXT_IS_THE_ERROR: &[(&str, &str, &str)] =
    &[("template/src/panics.rs", "caught", "the payload of a panic is a text, whoever panicked")];

/// The functions of a file in whose signature or body a `Result` has a text as its error; what stands outside of functions is named `-`.
fn text_errors(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let function = regex::Regex::new(r"\bfn (\w+)").unwrap();
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
        let last = function.captures_iter(&code[..at]).last();
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

    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"));
    let (mut folders, mut files, mut found) = (vec![root.to_owned()], 0, BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let source = path.components().any(|part| part.as_os_str() == "src");
            if path.is_dir() {
                folders.push(path);
            } else if source && path.extension().is_some_and(|e| e == "rs") && !is_test(&path) {
                files += 1;
                let file = path.strip_prefix(root).unwrap().display().to_string();
                let text = std::fs::read_to_string(&path).unwrap();
                found.extend(text_errors(&text).into_iter().map(|function| (file.clone(), function)));
            }
        }
    }
    assert!(files > 300, "{files} files");
    let allowed = |(file, function, _): &(&str, &str, &str)| ((*file).to_owned(), (*function).to_owned());
    let allowed: BTreeSet<(String, String)> = TEXT_IS_THE_ERROR.iter().map(allowed).collect();
    assert_eq!(found, allowed, "give the error a type with a variant for each cause (docs/style.md)");
}
