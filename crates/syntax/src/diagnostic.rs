//! Diagnostics that point: severity, code, message, labelled spans, help.

use std::fmt;

use crate::source::Span;

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The work goes on.
    Warning,
    /// The work cannot go on.
    Error,
}

/// One diagnostic about the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable name for this sort of diagnostic, such as `unknown-key`.
    pub code: &'static str,
    /// The problem, in one sentence without a full stop.
    pub message: String,
    /// Places in the source, each with a note; the first is the main place.
    pub labels: Vec<(Span, String)>,
    /// The correction: the text to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code, message: message.into(), labels: Vec::new(), help: None }
    }

    /// A warning without a place yet.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds a place with a note.
    #[must_use]
    pub fn label(mut self, span: &Span, text: impl Into<String>) -> Self {
        self.labels.push((span.clone(), text.into()));
        self
    }

    /// Adds a place with no words of its own.
    #[must_use]
    pub fn at(self, span: &Span) -> Self {
        self.label(span, "")
    }

    /// Adds the correction.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the correction, if there is one.
    #[must_use]
    pub fn help_if(mut self, help: Option<String>) -> Self {
        if help.is_some() {
            self.help = help;
        }
        self
    }

    /// The main place.
    pub fn span(&self) -> Option<&Span> {
        self.labels.first().map(|(span, _)| span)
    }
}

impl fmt::Display for Diagnostic {
    /// Plain text for pipes: message, main place, other places, help; no line end at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        for (index, (span, text)) in self.labels.iter().enumerate() {
            let arrow = if index == 0 { "-->" } else { "   " };
            write!(f, "\n  {arrow} {span}")?;
            if !text.is_empty() {
                write!(f, ": {text}")?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// All diagnostics of one piece of work, in the order they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds many.
    pub fn extend(&mut self, more: impl IntoIterator<Item = Diagnostic>) {
        self.0.extend(more);
    }

    /// Keeps the value of a result and takes over its diagnostics.
    pub fn take<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(more) => {
                self.extend(more);
                None
            }
        }
    }

    /// Is there an error among them?
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// True if there is no diagnostic.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of diagnostics.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// The value where there is no error, the diagnostics where there is one (warnings alone are dropped).
    ///
    /// # Errors
    /// All diagnostics, where one of them is an error.
    pub fn or_value<T>(self, value: T) -> Result<T, Self> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn plain_text_names_code_place_and_help() {
        let source = Source::new("role.yaml", "a: 1\nb: 2\n");
        let diagnostic = Diagnostic::error("duplicate-key", "the key `a` is written twice")
            .label(&Span::new(source.clone(), 5, 6), "again here")
            .label(&Span::new(source, 0, 1), "first here")
            .help("keep one of them");
        assert_eq!(
            diagnostic.to_string(),
            "error[duplicate-key]: the key `a` is written twice\n  --> role.yaml:2:1: again here\n      \
             role.yaml:1:1: first here\n  help: keep one of them"
        );
    }

    #[test]
    fn warnings_are_no_errors() {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::warning("w", "careful"));
        assert!(!all.has_errors());
        assert_eq!(all.clone().or_value(1), Ok(1));
        all.extend([Diagnostic::error("e", "no")]);
        assert_eq!(all.clone().or_value(1).unwrap_err().len(), 2);
        assert_eq!(all.to_string(), "warning[w]: careful\nerror[e]: no");
    }
}
