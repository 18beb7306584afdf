//! Source text and positions in it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A text that values come from: a file, or something like `--set` that is not one.
pub struct Source {
    name: String,
    text: String,
    /// The decrypted text, for a source whose values are all secrets; `text` is then its masked form.
    secret: Option<String>,
    lines: OnceLock<Vec<usize>>,
}

impl Source {
    /// A source with the name that the user is shown (a path as the user would type it) and its whole text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into(), secret: None, lines: OnceLock::new() })
    }

    /// A source whose values are secrets (a decrypted file). [`Source::text`] has a star for every byte but line ends and what
    /// stands at `shown`: reports may show it, and places in it are those of the file.
    pub fn secret(
        name: impl Into<String>,
        content: impl Into<String>,
        shown: impl IntoIterator<Item = std::ops::Range<usize>>,
    ) -> Arc<Self> {
        let content: String = content.into();
        let star = |byte: u8| if byte == b'\n' { byte } else { b'*' };
        let mut text: Vec<u8> = content.bytes().map(star).collect();
        for range in shown {
            if let (Some(open), Some(slot)) = (content.get(range.clone()), text.get_mut(range)) {
                slot.copy_from_slice(open.as_bytes());
            }
        }
        // Stars and whole pieces of the content are UTF-8.
        let text = String::from_utf8(text).unwrap_or_default();
        Arc::new(Self { name: name.into(), text, secret: Some(content), lines: OnceLock::new() })
    }

    /// Whether the values in it are secrets.
    pub fn is_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// The whole text, in clear; the one of a secret source contains secrets.
    pub fn content(&self) -> &str {
        self.secret.as_deref().unwrap_or(&self.text)
    }

    /// A source without text, for values that are in no file (defaults, values made by the engine).
    pub fn nowhere(name: impl Into<String>) -> Arc<Self> {
        Self::new(name, String::new())
    }

    /// Reads a file as UTF-8; a byte order mark is dropped. The name is the path as given.
    ///
    /// # Errors
    /// Errors of the file system, or `InvalidData` for a file that is not UTF-8.
    pub fn read(path: &Path) -> io::Result<Arc<Self>> {
        let bytes = std::fs::read(path)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8 text (byte {at})"))
        })?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Self::new(path.to_string_lossy(), text))
    }

    /// The name shown to the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte offsets at which the lines start.
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect()
        })
    }

    /// Line and column of a byte offset, both from 1; the column counts characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let lines = self.lines();
        let line = lines.partition_point(|start| *start <= offset).max(1);
        let start = lines.get(line - 1).copied().unwrap_or(0);
        let end = self.floor(offset);
        let column = self.text.get(start..end).map_or(0, |before| before.chars().count());
        (line, column + 1)
    }

    /// Byte offset at which a line (from 1) starts.
    pub fn line_start(&self, line: usize) -> Option<usize> {
        self.lines().get(line.checked_sub(1)?).copied()
    }

    /// The text of a line (from 1) without its line end.
    pub fn line_text(&self, line: usize) -> Option<&str> {
        let rest = self.text.get(self.line_start(line)?..)?;
        Some(rest.split('\n').next().unwrap_or(rest).trim_end_matches('\r'))
    }

    /// The nearest character boundary at or before an offset.
    fn floor(&self, offset: usize) -> usize {
        let mut at = offset.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name)
    }
}

/// A stretch of a source: bytes `start..end`.
#[derive(Clone)]
pub struct Span {
    /// The range of bytes.
    pub source: Arc<Source>,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes `start..end` of a source.
    pub fn new(source: Arc<Source>, start: usize, end: usize) -> Self {
        Self { source, start, end: end.max(start) }
    }

    /// A span over a whole source.
    pub fn whole(source: Arc<Source>) -> Self {
        let end = source.text().len();
        Self { source, start: 0, end }
    }

    /// A span in no file, under a name such as `default`.
    pub fn nowhere(name: impl Into<String>) -> Self {
        Self { source: Source::nowhere(name), start: 0, end: 0 }
    }

    /// Line of the first byte, from 1.
    pub fn line(&self) -> usize {
        self.source.position(self.start).0
    }

    /// Column of the first character, from 1.
    pub fn column(&self) -> usize {
        self.source.position(self.start).1
    }

    /// The text under the span; empty where the source has none.
    pub fn text(&self) -> &str {
        self.source.text().get(self.start..self.end).unwrap_or("")
    }

    /// The span from the start of this one to the end of the other (both in one source).
    pub fn to(&self, other: &Self) -> Self {
        Self::new(self.source.clone(), self.start, other.end.max(self.end))
    }

    /// The part of the span on its first line.
    pub fn first_line(&self) -> Self {
        let length = self.text().find('\n').unwrap_or(self.end - self.start);
        Self::new(self.source.clone(), self.start, self.start + length)
    }
}

impl fmt::Display for Span {
    /// `file:line:column`, or the name alone where the source has no text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source.text().is_empty() {
            return f.write_str(self.source.name());
        }
        let (line, column) = self.source.position(self.start);
        write!(f, "{}:{line}:{column}", self.source.name())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
            && self.end == other.end
            && (Arc::ptr_eq(&self.source, &other.source) || self.source.name == other.source.name)
    }
}

impl Eq for Span {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let source = Source::new("a.yaml", "ab\n\u{e9}x: 1\n");
        let at = |offset| source.position(offset);
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 3));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(5), (2, 2), "the two-byte letter is one column");
        assert_eq!(at(4), (2, 1), "inside a letter is its start");
        assert_eq!(at(999), (3, 1), "past the end is the end");
        assert_eq!(source.line_text(2), Some("\u{e9}x: 1"));
        assert_eq!(source.line_text(0), None);
        assert_eq!(Span::new(source.clone(), 5, 6).to_string(), "a.yaml:2:2");
        assert_eq!(Span::new(source, 5, 6).text(), "x");
        assert_eq!(Span::nowhere("--set").to_string(), "--set");
    }

    #[test]
    fn secret_sources_show_only_what_may_be_shown() {
        let source = Source::secret("a", "é: x\nb: y", [0..2, 6..7, 99..100]);
        assert_eq!((source.text(), source.content()), ("é***\nb***", "é: x\nb: y"));
        assert!(source.is_secret() && !format!("{source:?}").contains('x'));
    }
}
