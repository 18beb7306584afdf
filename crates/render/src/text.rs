//! Text as lines of toned words, drawn with or without colour, folded to a width.
//!
//! Everything that a renderer shows goes through [`Text::draw`]: what a host or a file said can therefore never send a control
//! sequence to the terminal.

use owo_colors::Style;
use std::fmt::Write as _;

/// The look of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours and underlines, as ANSI escapes.
    pub color: bool,
    /// Columns after which prose is folded; `None` never folds (pipes).
    pub width: Option<usize>,
    /// Show parts that are usually only counted.
    pub verbose: bool,
    /// Show diffs and new files to their last line and character.
    pub full_diff: bool,
}

impl Look {
    /// For pipes and files: no colour, no folding.
    pub const PLAIN: Self = Self { color: false, width: None, verbose: false, full_diff: false };
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// A name to find again.
    Strong,
    /// Less important.
    Faint,
    /// New.
    Add,
    /// The new words of a changed line.
    AddWord,
    /// Gone.
    Remove,
    /// The old words of a changed line.
    RemoveWord,
    /// Changed.
    Change,
    /// Wants attention.
    Warn,
    /// Wrong.
    Bad,
    /// In order.
    Good,
    /// Where in a file: hunk headers.
    Place,
}

impl Tone {
    /// Its name in a style sheet; empty for the plain tone.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "strong",
            Self::Faint => "faint",
            Self::Add => "add",
            Self::AddWord => "addword",
            Self::Remove => "remove",
            Self::RemoveWord => "removeword",
            Self::Change => "change",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Good => "good",
            Self::Place => "place",
        }
    }

    fn style(self) -> Option<Style> {
        let style = Style::new();
        Some(match self {
            Self::Plain => return None,
            Self::Strong => style.bold(),
            Self::Faint => style.dimmed(),
            Self::Add | Self::Good => style.green(),
            Self::AddWord => style.green().bold().underline(),
            Self::Remove => style.red(),
            Self::RemoveWord => style.red().bold().underline(),
            Self::Change | Self::Warn => style.yellow(),
            Self::Bad => style.red().bold(),
            Self::Place => style.cyan(),
        })
    }
}

/// One line: an indent and toned words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    indent: usize,
    /// Columns of the continuation lines when the line may be folded.
    hang: Option<usize>,
    spans: Vec<(Tone, String)>,
}

impl Line {
    /// An empty line that begins at this column.
    pub fn at(indent: usize) -> Self {
        Self { indent, ..Self::default() }
    }

    /// Adds text.
    #[must_use]
    pub fn say(mut self, tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push((tone, text));
        }
        self
    }

    /// Adds text in the plain tone.
    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.say(Tone::Plain, text)
    }

    /// Adds faint text.
    #[must_use]
    pub fn faint(self, text: impl Into<String>) -> Self {
        self.say(Tone::Faint, text)
    }

    /// Lets the line be folded at blanks; the rest goes on at this column.
    #[must_use]
    pub fn fold(mut self, hang: usize) -> Self {
        self.hang = Some(hang);
        self
    }

    /// Cuts the line so that it needs no more columns than this, and marks the cut.
    pub(crate) fn cut(&mut self, limit: usize) {
        if self.indent + self.width() <= limit {
            return;
        }
        let mut left = limit.saturating_sub(self.indent + 1);
        let mut retained = Vec::new();
        for (tone, text) in std::mem::take(&mut self.spans) {
            let text = visible(&text);
            let wide = columns(&text);
            if wide <= left {
                left -= wide;
                retained.push((tone, text));
                continue;
            }
            let mut short = String::new();
            for c in text.chars() {
                let wide = columns(c.encode_utf8(&mut [0; 4]));
                if wide > left {
                    break;
                }
                left -= wide;
                short.push(c);
            }
            retained.push((tone, short));
            break;
        }
        retained.push((Tone::Faint, "…".to_owned()));
        self.spans = retained;
        self.indent = self.indent.min(limit.saturating_sub(1));
    }

    /// The column at which it begins.
    pub(crate) fn start(&self) -> usize {
        self.indent
    }

    /// Its words with their tones.
    pub(crate) fn spans(&self) -> &[(Tone, String)] {
        &self.spans
    }

    /// Columns without the indent.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, t)| columns(t)).sum()
    }
}

/// Lines, one below the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text {
    lines: Vec<Line>,
}

impl Text {
    /// No line yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Adds an empty line, unless the text is empty or ends with one.
    pub fn gap(&mut self) {
        if self.lines.last().is_some_and(|l| !l.spans.is_empty()) {
            self.lines.push(Line::default());
        }
    }

    /// Adds all lines of another text.
    pub fn append(&mut self, other: Self) {
        self.lines.extend(other.lines);
    }

    /// Adds text of one tone that may hold line ends: `lead` before its first line, the others below it.
    pub fn prose(&mut self, indent: usize, tone: Tone, lead: &str, text: &str) {
        // Below a long lead there would be no room.
        let hang = indent + if columns(lead) > 14 { 2 } else { columns(lead) };
        for (i, part) in text.trim_end().split('\n').enumerate() {
            let part = part.trim_end_matches('\r');
            let line = if i == 0 { Line::at(indent).say(tone, lead) } else { Line::at(hang) };
            self.push(line.say(tone, part).fold(hang));
        }
    }

    /// Its lines.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines below the first one, moved to the left.
    pub(crate) fn below_head(self) -> Self {
        let mut lines: Vec<Line> = self.lines.into_iter().skip(1).collect();
        let least = lines.iter().filter(|l| !l.spans.is_empty()).map(|l| l.indent).min().unwrap_or(0);
        lines.iter_mut().for_each(|line| line.indent = line.indent.saturating_sub(least));
        Self { lines }
    }

    /// Drops all lines but the first so many; gives back how many were dropped.
    pub(crate) fn keep(&mut self, lines: usize) -> usize {
        let dropped = self.lines.len().saturating_sub(lines);
        self.lines.truncate(lines);
        dropped
    }

    /// True without any line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The text as the look wants it; every line ends with a newline.
    pub fn draw(&self, look: &Look) -> String {
        let mut out = String::new();
        for line in &self.lines {
            draw_line(&mut out, line, look);
        }
        out
    }
}

fn draw_line(out: &mut String, line: &Line, look: &Look) {
    let limit = match (line.hang, look.width) {
        (Some(_), Some(width)) => width.max(40),
        _ => usize::MAX,
    };
    let hang = line.hang.unwrap_or(0);
    if line.spans.is_empty() {
        out.push('\n');
        return;
    }
    push_blanks(out, line.indent);
    let mut column = line.indent;
    for (tone, text) in &line.spans {
        let text = visible(text);
        // The pending text up to a fold. Blanks are held back until a word follows: they vanish at a fold.
        let mut run = String::new();
        let mut held = "";
        for word in words(&text) {
            let width = columns(word);
            if limit == usize::MAX {
                run.push_str(word);
            } else if word.starts_with(' ') {
                held = word;
            } else if column + held.len() + width > limit && column > hang {
                paint(out, *tone, &run, look.color);
                run.clear();
                out.push('\n');
                push_blanks(out, hang);
                run.push_str(word);
                column = hang + width;
                held = "";
            } else {
                run.push_str(held);
                run.push_str(word);
                column += held.len() + width;
                held = "";
            }
        }
        run.push_str(held);
        column += held.len();
        paint(out, *tone, &run, look.color);
    }
    out.push('\n');
}

fn push_blanks(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// Cuts into words and the blanks between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let blank = first == ' ';
        let end = rest.find(|c| (c == ' ') != blank).unwrap_or(rest.len());
        let (word, tail) = rest.split_at_checked(end)?;
        rest = tail;
        Some(word)
    })
}

fn paint(out: &mut String, tone: Tone, text: &str, color: bool) {
    match tone.style().filter(|_| color && !text.is_empty()) {
        // Writing to a string cannot fail.
        Some(style) => {
            let _infallible = write!(out, "{}{text}{}", style.prefix_formatter(), style.suffix_formatter());
        }
        None => out.push_str(text),
    }
}

/// Makes control characters and characters that turn the reading direction visible.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(c),
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            c if steers(c) => {
                let _infallible = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

/// Whether a character beyond ASCII does something to a terminal, or to the order in which others are read.
pub(crate) fn steers(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Output of a program, filtered for a terminal: as [`visible`], but line ends stay. A character may come in parts.
#[derive(Debug, Default)]
pub struct Stream(Vec<u8>);

impl Stream {
    /// Takes more bytes; gives back what can be shown by now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        // The beginning of a character at the end: the rest comes. What is wrong before it does not matter.
        let begins = |tail: &[u8]| {
            std::str::from_utf8(tail).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
        };
        let tail = (1..=3).find(|length| {
            let from = self.0.len().checked_sub(*length);
            from.and_then(|from| self.0.get(from..)).is_some_and(begins)
        });
        let whole = self.0.len() - tail.unwrap_or(0);
        let text: Vec<u8> = self.0.drain(..whole).collect();
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
    }
}

/// Columns that a terminal needs. Wide characters count as two.
pub(crate) fn columns(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36f => 0,
            0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
            0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Look = Look { width: Some(40), ..Look::PLAIN };

    #[test]
    fn what_a_program_writes_does_nothing_to_a_terminal() {
        let mut stream = Stream::default();
        let umlaut = "ü".as_bytes();
        let parts: Vec<&[u8]> =
            vec![b"a\x1b[31mb\tc\r\n", &umlaut[..1], &umlaut[1..], b"\xff\x07\n\xe2\x80", b"\xaex\rz"];
        let shown: String = parts.into_iter().map(|part| stream.push(part)).collect();
        assert_eq!(shown, "a\u{241b}[31mb\tc\nü\u{fffd}\u{2407}\n\\u{202e}x\u{240d}z");
    }

    #[test]
    fn prose_is_folded_under_itself() {
        let mut text = Text::new();
        text.prose(
            4,
            Tone::Plain,
            "help: ",
            "write the path of the file as an absolute path\nor leave it out",
        );
        assert_eq!(
            text.draw(&NARROW),
            "    help: write the path of the file as\n          an absolute path\n          or leave it out\n"
        );
        assert_eq!(text.draw(&Look::PLAIN).lines().count(), 2);
    }

    #[test]
    fn a_host_cannot_write_to_the_terminal() {
        let mut text = Text::new();
        text.push(Line::at(0).plain("a\u{1b}[2Jb\rc\u{9b}d\u{202e}e\u{7f}"));
        let colored = Look { color: true, ..Look::PLAIN };
        assert_eq!(text.draw(&colored), "a\u{241b}[2Jb\u{240d}c\\u{9b}d\\u{202e}e\u{2421}\n");
    }

    #[test]
    fn colour_is_only_where_it_is_wanted() {
        let line = Line::at(2).say(Tone::Add, "+").plain(" x");
        let text = Text { lines: vec![line] };
        assert_eq!(text.draw(&Look::PLAIN), "  + x\n");
        assert_eq!(text.draw(&Look { color: true, ..Look::PLAIN }), "  \u{1b}[32m+\u{1b}[0m x\n");
    }
}
