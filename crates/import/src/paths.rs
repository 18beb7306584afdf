//! Names with paths and tests behind them, in the tokens of an expression.

use crate::tokens::{Token, TokenSort};

/// A path behind a name: `.stat.exists`, and the place after it.
pub(crate) struct NamePath {
    pub text: String,
    pub end: usize,
}

/// The path that begins behind the token `at`. Texts in brackets count as names.
pub(crate) fn path_at(all: &[Token<'_>], at: usize) -> NamePath {
    let mut path = NamePath { text: String::new(), end: at };
    loop {
        let word = |offset: usize| all.get(path.end + offset);
        match (word(0), word(1), word(2)) {
            (Some(dot), Some(name), _) if dot.is(".") && matches!(name.sort, TokenSort::Name) => {
                // A call is no part of the path.
                if word(2).is_some_and(|next| next.is("(")) {
                    return path;
                }
                path.text.push('.');
                path.text.push_str(name.text);
                path.end += 2;
            }
            (Some(open), Some(name), Some(close))
                if open.is("[") && close.is("]") && name.quoted().is_some() =>
            {
                path.text.push('.');
                path.text.push_str(name.quoted().unwrap_or_default());
                path.end += 3;
            }
            _ => return path,
        }
    }
}

/// The index of the next token that is no blank.
pub(crate) fn skip(all: &[Token<'_>], mut at: usize) -> usize {
    while all.get(at).is_some_and(|token| token.sort == TokenSort::Blank) {
        at += 1;
    }
    at
}

/// The token before, blanks left out.
pub(crate) fn before<'a, 't>(all: &'a [Token<'t>], at: usize) -> Option<&'a Token<'t>> {
    all.get(..at)?.iter().rev().find(|token| token.sort != TokenSort::Blank)
}

/// The test behind a value: `is [not] NAME`, and the place after it.
pub(crate) fn test_at<'t>(all: &[Token<'t>], at: usize) -> Option<(bool, &'t str, usize)> {
    let mut at = skip(all, at);
    if !all.get(at)?.is("is") {
        return None;
    }
    at = skip(all, at + 1);
    let not = all.get(at)?.is("not");
    if not {
        at = skip(all, at + 1);
    }
    let mut name = all.get(at).filter(|token| token.sort == TokenSort::Name)?.text;
    while all.get(at + 1).is_some_and(|dot| dot.is(".")) {
        at += 2;
        name = all.get(at)?.text;
    }
    Some((not, name, at + 1))
}

/// The place of the bracket that closes the one at a place.
pub(crate) fn closing(all: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (place, token) in all.iter().enumerate().skip(open) {
        match token.text {
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// The name of a path's next part, `.name` or `['name']`, and the place after it.
pub(crate) fn name_behind<'t>(all: &[Token<'t>], at: usize) -> Option<(&'t str, usize)> {
    let word = |offset: usize| all.get(at + offset);
    match (word(0)?, word(1)?) {
        (dot, name) if dot.is(".") && name.sort == TokenSort::Name => {
            (!word(2).is_some_and(|next| next.is("("))).then_some((name.text, at + 2))
        }
        (open, name) if open.is("[") && word(2)?.is("]") => Some((name.quoted()?, at + 3)),
        _ => None,
    }
}
