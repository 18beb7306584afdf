//! Errors of deserializing: what they say, and where.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::Span;
use crate::suggest::did_you_mean;
use serde::de::{Expected, Unexpected};
use std::fmt;

/// The reason why a node does not fit a type.
#[derive(Debug)]
pub struct DeError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    diagnostic: Diagnostic,
    more: Vec<Diagnostic>,
}

pub(super) const UNKNOWN_KEY: &str = "unknown-key";

pub(super) const WRONG_TYPE: &str = "wrong-type";

pub(super) const UNKNOWN_VALUE: &str = "unknown-value";

impl DeError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { diagnostic: Diagnostic::error(code, message), more: Vec::new() }))
    }

    /// Adds the place, unless it is known already.
    pub(super) fn or_span(mut self, span: &Span) -> Self {
        if self.0.diagnostic.labels.is_empty() {
            self.0.diagnostic.labels.push((span.clone(), String::new()));
        }
        self
    }

    pub(super) fn or_help(mut self, help: Option<String>) -> Self {
        if self.0.diagnostic.help.is_none() {
            self.0.diagnostic.help = help;
        }
        self
    }

    pub(super) fn code(&self) -> &'static str {
        self.0.diagnostic.code
    }

    /// Others of the same map come with it.
    pub(super) fn and(mut self, more: Vec<Diagnostic>) -> Self {
        self.0.more = more;
        self
    }

    /// The place, where it is known.
    pub fn span(&self) -> Option<&Span> {
        self.0.diagnostic.span()
    }

    /// The diagnostic, and others of the same map.
    pub fn into_diagnostics(self) -> Diagnostics {
        let inner = *self.0;
        std::iter::once(inner.diagnostic).chain(inner.more).collect()
    }
}

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.diagnostic.message)
    }
}

impl std::error::Error for DeError {}

/// `a`, `b` or `c`.
pub(super) fn list_of(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} or `{last}`", first.join(", "))
        }
    }
}

pub(super) fn suggestion(word: &str, names: &[&str]) -> String {
    match did_you_mean(word, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? Known here: {}", list_of(names)),
        None => format!("known here: {}", list_of(names)),
    }
}

pub(super) fn unknown_key(key: &str, expected: &'static [&'static str]) -> (String, String) {
    (format!("unknown key `{key}`"), suggestion(key, expected))
}

/// serde's words for what it wants, in the words of YAML.
pub(super) fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    let whole = |least: &str, most: &str| format!("an integer from {least} to {most}");
    match text.as_str() {
        "u8" => whole("0", "255"),
        "u16" => whole("0", "65535"),
        "u32" => whole("0", "4294967295"),
        "u64" | "usize" => "an integer of 0 or more".to_owned(),
        "i8" => whole("-128", "127"),
        "i16" => whole("-32768", "32767"),
        "i32" => whole("-2147483648", "2147483647"),
        "i64" | "isize" => "an integer".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "unit" => "nothing".to_owned(),
        _ if text.starts_with("struct ") => "a map".to_owned(),
        _ if text.starts_with("enum ") => "a name or a map with one key".to_owned(),
        _ if text.starts_with("tuple ") => "a list".to_owned(),
        _ => text,
    }
}

impl serde::de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new("invalid-value", message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match unexpected {
            Unexpected::Bool(_) => "a boolean".to_owned(),
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer".to_owned(),
            Unexpected::Float(_) => "a number".to_owned(),
            Unexpected::Str(_) => "a string".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a map".to_owned(),
            Unexpected::Unit | Unexpected::Option => "null".to_owned(),
            other => other.to_string(),
        };
        Self::new(WRONG_TYPE, format!("expected {}, found {found}", wanted(expected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // The text of a string is not repeated: it may be a rendered secret.
        let found = match unexpected {
            Unexpected::Unsigned(value) => format!("{value}"),
            Unexpected::Signed(value) => format!("{value}"),
            Unexpected::Str(_) => "another string".to_owned(),
            other => other.to_string(),
        };
        Self::new("invalid-value", format!("expected {}, found {found}", wanted(expected)))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new("invalid-length", format!("expected {}, found a length of {length}", wanted(expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(UNKNOWN_VALUE, format!("unknown value `{variant}`"))
            .or_help(Some(suggestion(variant, expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let (message, help) = unknown_key(field, expected);
        Self::new(UNKNOWN_KEY, message).or_help(Some(help))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("missing-key", format!("the key `{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new("duplicate-key", format!("the key `{field}` is written twice"))
    }
}
