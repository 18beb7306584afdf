//! Splits a line into words as Python's `shlex.split` does: host lines of INI inventories, arguments of ssh.

use std::ops::Range;

/// One word: its text with quotes and escapes taken away, and its bytes in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The text after the removal of quotes and escapes.
    pub text: String,
    /// The place of the word in the line, quotes included.
    pub range: Range<usize>,
}

/// The reason why a line cannot be split; the range covers the open quote or the last backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclosedQuote {
    /// `"` or `'` for a quote that is not closed, `\` for an escape with nothing after it.
    pub what: char,
    /// From that character to the end of the line.
    pub range: Range<usize>,
}

/// Splits `line` at white space; with `comments`, `#` starts a comment, even inside a bare word.
///
/// # Errors
/// When a quote is not closed or the line ends in a backslash.
pub fn split(line: &str, comments: bool) -> Result<Vec<Word>, UnclosedQuote> {
    let mut words = Vec::new();
    let mut chars = line.char_indices().peekable();
    let mut word: Option<(usize, String)> = None;
    let end = line.len();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => {
                if let Some((start, text)) = word.take() {
                    words.push(Word { text, range: start..at });
                }
            }
            '#' if comments => {
                if let Some((start, text)) = word.take() {
                    words.push(Word { text, range: start..at });
                }
                return Ok(words);
            }
            '\\' => {
                let (_, text) = word.get_or_insert_with(|| (at, String::new()));
                let Some((_, next)) = chars.next() else {
                    return Err(UnclosedQuote { what: '\\', range: at..end });
                };
                text.push(next);
            }
            '"' | '\'' => {
                let (_, text) = word.get_or_insert_with(|| (at, String::new()));
                loop {
                    let Some((_, inner)) = chars.next() else {
                        return Err(UnclosedQuote { what: c, range: at..end });
                    };
                    if inner == c {
                        break;
                    }
                    // Only double quotes know escapes, and only for themselves and the backslash.
                    if inner == '\\' && c == '"' {
                        match chars.next() {
                            None => {
                                return Err(UnclosedQuote { what: c, range: at..end });
                            }
                            Some((_, escaped)) => {
                                if escaped != '"' && escaped != '\\' {
                                    text.push('\\');
                                }
                                text.push(escaped);
                            }
                        }
                    } else {
                        text.push(inner);
                    }
                }
            }
            _ => word.get_or_insert_with(|| (at, String::new())).1.push(c),
        }
    }
    if let Some((start, text)) = word.take() {
        words.push(Word { text, range: start..end });
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        split(line, true).unwrap().into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn words_are_those_of_python() {
        assert_eq!(words("a b=1  # c"), ["a", "b=1"]);
        assert_eq!(words("a b='x y' c=\"p 'q'\""), ["a", "b=x y", "c=p 'q'"]);
        assert_eq!(words(r#"a b="x\"y\n" c=x\ y"#), ["a", "b=x\"y\\n", "c=x y"]);
        assert_eq!(words("a b=x#y z"), ["a", "b=x"]);
        assert_eq!(words("a b='x#y'"), ["a", "b=x#y"]);
        assert_eq!(split("a#b", false).unwrap()[0].text, "a#b");
        assert_eq!(words("a ''"), ["a", ""]);
        assert_eq!(words(r#"a b="['x', 'y']""#), ["a", "b=['x', 'y']"]);
    }

    #[test]
    fn what_is_not_closed_is_named() {
        assert_eq!(split("a b='x", true).unwrap_err(), UnclosedQuote { what: '\'', range: 4..6 });
        assert_eq!(split("a \\", true).unwrap_err().what, '\\');
    }

    proptest! {
        #[test]
        fn ranges_lie_in_the_line(line in "[a-c \\\\'\"#=é]{0,30}") {
            if let Ok(words) = split(&line, true) {
                for word in words {
                    prop_assert!(line.get(word.range.clone()).is_some());
                }
            }
        }
    }
}
