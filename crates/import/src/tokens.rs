//! The words of a Jinja expression, with the text as it was written.

/// The sort of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSort {
    /// A name or a keyword.
    Name,
    /// Text in quotes, with them.
    Text,
    /// A number.
    Number,
    /// Blanks and line ends.
    Blank,
    /// An operator or a bracket.
    Sign,
}

/// A word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub sort: TokenSort,
    pub text: &'t str,
}

impl<'t> Token<'t> {
    /// The inside of a text in quotes without escapes.
    pub(crate) fn quoted(&self) -> Option<&'t str> {
        let inner = self.text.get(1..self.text.len().checked_sub(1)?)?;
        (self.sort == TokenSort::Text && !inner.contains('\\')).then_some(inner)
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.sort, TokenSort::Sign | TokenSort::Name)
    }
}

const DOUBLE: [&str; 6] = ["==", "!=", "<=", ">=", "//", "**"];

/// The words of an expression. Every byte of the text is in one of them.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    words(text).collect()
}

/// The words one by one: who looks for the end of an expression reads no further.
fn words(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let run = |holds: fn(char) -> bool| rest.find(|c| !holds(c)).unwrap_or(rest.len());
        let (sort, length) = if first.is_whitespace() {
            (TokenSort::Blank, run(char::is_whitespace))
        } else if first == '_' || first.is_alphabetic() {
            (TokenSort::Name, run(|c| c == '_' || c.is_alphanumeric()))
        } else if first.is_ascii_digit() {
            (TokenSort::Number, run(|c| c == '.' || c == '_' || c.is_ascii_alphanumeric()))
        } else if first == '\'' || first == '"' {
            (TokenSort::Text, text_length(rest, first))
        } else {
            let double = DOUBLE.iter().any(|sign| rest.starts_with(sign));
            (TokenSort::Sign, if double { 2 } else { first.len_utf8() })
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(Token { sort, text: word })
    })
}

/// The length of a text in quotes; to the end where it is not closed.
fn text_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// A stretch of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePart<'t> {
    /// Text that is printed, comments too.
    Plain(&'t str),
    /// `{{ … }}` or `{% … %}`: the opening sign, the inside, the closing sign.
    Code(&'t str, &'t str, &'t str),
}

/// The inside of a text that is one `{{ … }}` and nothing else.
pub(crate) fn whole_expression(text: &str) -> Option<&str> {
    match parts(text.trim())?.as_slice() {
        [TemplatePart::Code("{{", inside, _)] => Some(inside.trim()),
        _ => None,
    }
}

/// The parts of a template, in order. `None` where an expression is not closed.
pub(crate) fn parts(text: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut all = Vec::new();
    let mut rest = text;
    let is_mark = |two: &[u8]| matches!(two, [b'{', b'{' | b'%' | b'#']);
    while let Some(at) = rest.as_bytes().windows(2).position(is_mark) {
        let (before, code) = rest.split_at(at);
        if !before.is_empty() {
            all.push(TemplatePart::Plain(before));
        }
        if code.starts_with("{#") {
            let end = code.find("#}")? + 2;
            let (comment, after) = code.split_at(end);
            all.push(TemplatePart::Plain(comment));
            rest = after;
            continue;
        }
        let close = if code.starts_with("{{") { "}}" } else { "%}" };
        let end = close_at(code, close)?;
        let (inside, after) = (code.get(2..end)?, code.get(end + 2..)?);
        all.push(TemplatePart::Code(code.get(..2)?, inside, close));
        rest = after;
        if close == "%}" && inside.trim_matches(['-', '+', ' ']) == "raw" {
            let end = rest.find("endraw").and_then(|at| rest.get(..at)?.rfind("{%"))?;
            let (raw, after) = rest.split_at(end);
            all.push(TemplatePart::Plain(raw));
            rest = after;
        }
    }
    if !rest.is_empty() {
        all.push(TemplatePart::Plain(rest));
    }
    Some(all)
}

/// The place of a closing sign outside of texts in quotes.
fn close_at(code: &str, close: &str) -> Option<usize> {
    let mut at = 2;
    let mut depth = 0usize;
    for token in words(code.get(2..)?) {
        let rest = code.get(at..)?;
        if token.sort == TokenSort::Sign {
            if depth == 0 && rest.starts_with(close) {
                return Some(at);
            }
            match token.text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        at += token.text.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_fall_into_their_parts() {
        let text = "a {{ x | default('}}') }} b {% raw %}{{ y }}{% endraw %}{# {{ z }} #}";
        let all = parts(text).unwrap();
        assert_eq!(all[1], TemplatePart::Code("{{", " x | default('}}') ", "}}"));
        let code = all.iter().filter(|part| matches!(part, TemplatePart::Code(..))).count();
        assert_eq!(code, 3, "{all:?}");
        assert_eq!(parts("{{ {'a': {'b': 1}} }}").unwrap().len(), 1);
        assert_eq!(parts("{{ x"), None);
    }

    #[test]
    fn no_letter_of_an_expression_is_lost() {
        for text in ["a.b['c\\'d'] == \"x\" and (y // 2) >= 1.5", "é | f(x='1", "a~b"] {
            assert_eq!(tokens(text).iter().map(|t| t.text).collect::<String>(), text);
        }
    }
}
