//! Diagnostics as `miette` draws them.

use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode, SourceSpan};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::source::Source;

/// A diagnostic in the form of `miette::Diagnostic`. Places in other files than the main one are related reports.
#[derive(Debug)]
pub struct Report {
    message: String,
    code: &'static str,
    severity: Severity,
    help: Option<String>,
    source: Option<NamedSource<Arc<str>>>,
    labels: Vec<LabeledSpan>,
    related: Vec<Report>,
}

impl Report {
    fn place(source: &Source, labels: Vec<LabeledSpan>) -> (Option<NamedSource<Arc<str>>>, Vec<LabeledSpan>) {
        if source.text().is_empty() {
            return (None, Vec::new());
        }
        (Some(NamedSource::new(one_line(source.name()), Arc::from(harmless(source.text())))), labels)
    }
}

/// Whether a character would do something to a terminal, or turn the reading direction.
fn acts(c: char) -> bool {
    matches!(
        c,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// A file's text as it may be drawn: each character that would act becomes question marks, as many as it has bytes, so that all places
/// stay what they are.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // The end of a line, on some machines.
            '\r' => out.push(' '),
            c if acts(c) => out.push_str(&"???"[..c.len_utf8().min(3)]),
            c => out.push(c),
        }
    }
    out
}

/// A message as it may be drawn: each character that would act is written out.
fn spelled(text: &str) -> String {
    text.chars().map(|c| if acts(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// The same for a part within one line.
fn one_line(text: &str) -> String {
    spelled(text).replace('\n', "\\n")
}

impl From<&Diagnostic> for Report {
    fn from(diagnostic: &Diagnostic) -> Self {
        let mut sources: Vec<(Arc<Source>, Vec<LabeledSpan>)> = Vec::new();
        for (span, text) in &diagnostic.labels {
            let text = (!text.is_empty()).then(|| spelled(text));
            // A label over many lines hides the text; the first line says where.
            let shown = span.first_line();
            let label = LabeledSpan::new_with_span(text, SourceSpan::from(shown.start..shown.end));
            match sources.iter_mut().find(|(source, _)| Arc::ptr_eq(source, &span.source)) {
                Some((_, labels)) => labels.push(label),
                None => sources.push((span.source.clone(), vec![label])),
            }
        }
        let mut message = spelled(&diagnostic.message);
        let mut sources = sources.into_iter();
        let (source, labels) = match sources.next() {
            Some((source, labels)) => {
                if source.text().is_empty() {
                    message = format!("{message} (in {})", one_line(source.name()));
                }
                Self::place(&source, labels)
            }
            None => (None, Vec::new()),
        };
        let related = sources
            .filter(|(source, _)| !source.text().is_empty())
            .map(|(source, labels)| {
                let message = format!("see also {}", one_line(source.name()));
                let (source, labels) = Self::place(&source, labels);
                Self {
                    message,
                    code: diagnostic.code,
                    severity: diagnostic.severity,
                    help: None,
                    source,
                    labels,
                    related: Vec::new(),
                }
            })
            .collect();
        Self {
            message,
            code: diagnostic.code,
            severity: diagnostic.severity,
            help: diagnostic.help.as_deref().map(spelled),
            source,
            labels,
            related,
        }
    }
}

impl Diagnostics {
    /// One report each, for `miette`'s handlers.
    pub fn reports(&self) -> Vec<Report> {
        self.iter().map(Report::from).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() { None } else { Some(Box::new(self.labels.iter().cloned())) }
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        if self.related.is_empty() {
            return None;
        }
        Some(Box::new(self.related.iter().map(|report| report as &dyn miette::Diagnostic)))
    }
}

#[cfg(test)]
mod tests {
    use miette::Diagnostic as _;

    use super::*;
    use crate::source::Span;

    #[test]
    fn a_place_in_another_file_is_a_related_report() {
        let first = Source::new("a.yaml", "a: 1\n");
        let second = Source::new("b.yaml", "b: 2\n");
        let report = Report::from(
            &Diagnostic::error("two-owners", "both claim it")
                .label(&Span::new(first, 0, 1), "here")
                .label(&Span::new(second, 3, 4), "and here")
                .help("drop one"),
        );
        assert_eq!(report.to_string(), "both claim it");
        assert_eq!(report.code().unwrap().to_string(), "two-owners");
        let labels: Vec<_> = report.labels().unwrap().collect();
        assert_eq!(labels.len(), 1);
        assert_eq!(labels[0].offset(), 0);
        let related: Vec<_> = report.related().unwrap().collect();
        assert_eq!(related[0].labels().unwrap().next().unwrap().offset(), 3);
        assert_eq!(related[0].to_string(), "see also b.yaml");
    }

    #[test]
    fn a_value_in_no_file_has_no_snippet() {
        let report = Report::from(&Diagnostic::error("type", "not a number").at(&Span::nowhere("--set")));
        assert!(report.source_code().is_none());
        assert!(report.labels().is_none());
        assert_eq!(report.to_string(), "not a number (in --set)");
    }
}
