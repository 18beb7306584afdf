//! The shell functions in parts: a session is given those that its batches use, when they use them.
//!
//! A part is one function, or one variable. It uses those that its text names. Where a name is put together on the host (`cv_see_$kind`), it may be
//! any, and all go.

use super::{lean, texts};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The variable that holds the program for dnf, which only a host with dnf needs.
const RPM_PROGRAM: &str = "CV_RPM_PROGRAM";

/// One definition.
struct ShellPart {
    /// The text that is sent of it.
    text: String,
    /// The parts that it uses itself.
    uses: Vec<usize>,
    /// Any part may be used.
    any: bool,
}

/// All of them, in the order in which they are defined.
pub(crate) struct ShellParts {
    parts: Vec<ShellPart>,
    names: HashMap<String, Vec<usize>>,
    /// Those without a name, which all others use.
    unnamed: Vec<usize>,
}

/// The parts that a shell has read.
#[derive(Clone, Default)]
pub(crate) struct KnownParts {
    sent: Vec<bool>,
    /// Whether dnf changes the packages of the host; none while that is not known.
    pub(crate) has_dnf: Option<bool>,
}

/// The definitions that are sent before a text.
pub(crate) struct Lesson {
    /// The definitions; empty where the shell knows them all.
    pub(crate) text: String,
    /// The program for dnf is used, and is not sent: it is not known whether the host has dnf.
    pub(crate) open: bool,
    known: Vec<bool>,
}

static PARTS: LazyLock<ShellParts> = LazyLock::new(|| ShellParts::of(&texts()));

impl KnownParts {
    /// The definitions that the shell must have before these texts. `waits`: the program for dnf is left out while nobody knows whether it is of use.
    pub(crate) fn lesson<'a>(&self, texts: impl Iterator<Item = &'a str>, waits: bool) -> Lesson {
        PARTS.lesson(self, texts, waits)
    }

    /// The shell has them.
    pub(crate) fn learn(&mut self, lesson: Lesson) {
        self.sent = lesson.known;
    }
}

impl ShellParts {
    fn of(texts: &[&'static str]) -> Self {
        let pieces: Vec<&str> = texts.iter().flat_map(|text| split(text)).collect();
        let mut names: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(name) = defined(piece) {
                names.entry(name.to_owned()).or_default().push(at);
            }
        }
        let part = |piece: &&str| {
            let text = lean::lean(piece);
            let uses = used(&text).filter_map(|name| names.get(name)).flatten().copied().collect();
            ShellPart { uses, any: is_open(&text), text }
        };
        let parts = pieces.iter().map(part).collect();
        let unnamed = pieces.iter().enumerate().filter(|(_, piece)| defined(piece).is_none());
        let unnamed = unnamed.map(|(at, _)| at).collect();
        Self { parts, names, unnamed }
    }

    fn lesson<'a>(&self, known: &KnownParts, texts: impl Iterator<Item = &'a str>, waits: bool) -> Lesson {
        let mut next = self.unnamed.clone();
        let mut any = false;
        for text in texts {
            any |= is_open(text);
            next.extend(used(text).filter_map(|name| self.names.get(name)).flatten());
        }
        let mut wanted = vec![false; self.parts.len()];
        while let Some(at) = next.pop() {
            let Some(part) = self.parts.get(at) else { continue };
            if let Some(wanted) = wanted.get_mut(at).filter(|wanted| !**wanted) {
                *wanted = true;
                any |= part.any;
                next.extend(&part.uses);
            }
        }
        if any {
            wanted.fill(true);
        }
        let mut open = false;
        let program = self.names.get(RPM_PROGRAM).into_iter().flatten();
        for at in program.copied() {
            let is_sent = known.sent.get(at).copied().unwrap_or_default();
            let is_for_nothing = known.has_dnf == Some(false) || (waits && known.has_dnf.is_none());
            if let Some(wanted) = wanted.get_mut(at).filter(|wanted| **wanted && !is_sent && is_for_nothing) {
                open = known.has_dnf.is_none();
                *wanted = false;
            }
        }
        let mut text = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            let Some(wanted) = wanted.get_mut(at) else { continue };
            if known.sent.get(at).copied().unwrap_or_default() {
                *wanted = true;
            } else if *wanted {
                text.push_str(&part.text);
            }
        }
        Lesson { text, open, known: wanted }
    }
}

/// The definitions of a text. What stands before the first one is a part without a name.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let piece = text.get(from..at + line.len()).unwrap_or_default();
        let ends = match kind(piece) {
            Definition::Function => line.starts_with(['}', ')']) || is_whole(piece),
            Definition::Variable(quote) => quote.is_none_or(|quote| line.contains(quote)),
            // Comments go with what follows them.
            Definition::None => false,
        };
        at += line.len();
        if ends && lean::is_closed(piece) {
            pieces.push(piece);
            from = at;
        }
    }
    pieces.extend(text.get(from..).filter(|rest| !rest.trim().is_empty()));
    pieces
}

enum Definition {
    Function,
    /// The quote with which its value begins.
    Variable(Option<char>),
    None,
}

/// The first line of a piece that is code.
fn first(piece: &str) -> &str {
    piece.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default()
}

fn kind(piece: &str) -> Definition {
    let first = first(piece);
    match defined(piece) {
        Some(name) if first[name.len()..].starts_with("()") => Definition::Function,
        Some(name) => Definition::Variable(first[name.len()..].chars().nth(1).filter(|c| "'\"".contains(*c))),
        None => Definition::None,
    }
}

/// A function on one line.
fn is_whole(piece: &str) -> bool {
    let first = first(piece);
    piece.trim_end().ends_with(first) && first.ends_with(['}', ')'])
}

/// The name that a piece defines.
fn defined(piece: &str) -> Option<&str> {
    let first = first(piece);
    let end = first.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = first.split_at(end);
    let is_own = name.starts_with("cv_") || name.starts_with("CV_");
    (is_own && (rest.starts_with("()") || rest.starts_with('='))).then_some(name)
}

/// The names in a text that may be those of functions and variables.
fn used(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("cv_") || word.starts_with("CV_"))
}

/// Whether it puts the name of a function together.
fn is_open(text: &str) -> bool {
    text.match_indices("_$").any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let from = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        before.get(from..).is_some_and(|word| word == "cv" || word.starts_with("cv_"))
    })
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
