//! The code of a file that is no test.

use regex::Regex;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

/// The words that begin an item, with those of its visibility and qualifiers.
const ITEMS: [&str; 16] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
];

/// A comment, a literal, a word or a sign.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r###"(?s)//[^\n]*|/\*.*?\*/|b?r##".*?"##|b?r#".*?"#|b?r"[^"]*"|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'|\w+|\S"###,
    )
    .unwrap()
});

/// The words, signs and literals of Rust with their places, without comments.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let all = TOKEN.find_iter(text).map(|found| (found.start(), found.as_str()));
    all.filter(|(_, token)| !token.starts_with("//") && !token.starts_with("/*")).collect()
}

/// The comments and the string literals of Rust, each with its line.
pub(crate) fn texts(text: &str) -> Vec<(usize, &str)> {
    let (mut line, mut from) = (1, 0);
    let mut found = Vec::new();
    for token in TOKEN.find_iter(text) {
        line += text[from..token.start()].matches('\n').count();
        from = token.start();
        if token.as_str().starts_with("//") || token.as_str().contains('"') {
            found.push((line, token.as_str()));
        }
    }
    found
}

/// The words, signs and literals of Rust, each with its line.
pub(crate) fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut line, mut from) = (1, 0);
    let with_line = |(at, token): (usize, _)| {
        line += text[from..at].matches('\n').count();
        from = at;
        (line, token)
    };
    tokens(text).into_iter().map(with_line).collect()
}

/// The number of tokens up to the end of the item, field or arm with which these begin.
fn item(tokens: &[(usize, &str)]) -> usize {
    let word = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    let (mut at, mut depth) = (0, 0_u32);
    // Further attributes.
    while word(at) == "#" {
        at += 1;
        loop {
            match word(at) {
                "[" => depth += 1,
                "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 || at >= tokens.len() {
                break;
            }
        }
    }
    let is_item = ITEMS.contains(&word(at));
    let mut first = at;
    if word(first) == "pub" {
        first += if word(first + 1) == "(" { 4 } else { 1 };
    }
    let is_value = word(first) == "const" && word(first + 2) == ":";
    let by_semicolon = is_value || ["let", "static", "type", "use"].contains(&word(first));
    while at < tokens.len() {
        match word(at) {
            "(" | "[" | "{" => depth += 1,
            // The end of the block around it.
            ")" | "]" | "}" if depth == 0 => return at,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 && !by_semicolon {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && !is_item => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The text without the items behind `#[cfg(test)]`; its lines keep their numbers. Several tests look at each file, and it is divided once.
pub(crate) fn without_tests(text: &str) -> String {
    static DONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    if !text.contains("cfg(test)") {
        return text.to_owned();
    }
    if let Some(code) = DONE.lock().unwrap().get(text) {
        return code.clone();
    }
    let code = cut_tests(text);
    DONE.lock().unwrap().insert(text.to_owned(), code.clone());
    code
}

/// As [`without_tests`], of a text that has not been divided yet.
fn cut_tests(text: &str) -> String {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let tokens = tokens(text);
    let is_attribute =
        |at: usize| tokens.iter().skip(at).map(|(_, token)| *token).take(ATTRIBUTE.len()).eq(ATTRIBUTE);
    let (mut out, mut from, mut at) = (String::new(), 0, 0);
    while at < tokens.len() {
        if !is_attribute(at) {
            at += 1;
            continue;
        }
        let start = tokens[at].0;
        at += ATTRIBUTE.len();
        at += item(&tokens[at..]);
        let end = at.checked_sub(1).map_or(start, |last| tokens[last].0 + tokens[last].1.len());
        out.push_str(&text[from..start]);
        out.extend(text[start..end].chars().filter(|c| *c == '\n'));
        from = end;
    }
    out + &text[from..]
}

#[test]
fn only_the_item_behind_the_attribute_is_a_test() {
    for (text, code) in [
        ("a();\n#[cfg(test)]\nmod tests {\n    fn f() { \"}\" }\n}\nb();\n", "a();\n\n\n\n\nb();\n"),
        ("#[cfg(test)]\n#[path = \"t].rs\"]\nmod tests;\nb();\n", "\n\n\nb();\n"),
        ("#[cfg(test)]\nuse a::{b, c};\nfn d() {}\n", "\n\nfn d() {}\n"),
        ("#[cfg(test)]\npub(crate) fn f<'a, T>(x: [u8; 2]) -> &'a T { '}'; r#\"}\"#; x }\nd();", "\n\nd();"),
        ("#[cfg(test)]\nconst A: B = B { c: 1 };\nfn d() {}", "\n\nfn d() {}"),
        ("struct S {\n    #[cfg(test)]\n    a: u8,\n    b: u8,\n}", "struct S {\n    \n\n    b: u8,\n}"),
        ("f(#[cfg(test)] a)", "f()"),
        ("// #[cfg(test)]\nfn f() {} // }\n", "// #[cfg(test)]\nfn f() {} // }\n"),
    ] {
        let found = without_tests(text);
        let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(lines(&found), lines(code), "{text}");
    }
}
