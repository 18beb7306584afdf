//! Texts that are put together of texts: nothing but what the role itself writes stands in them.

use crate::loops::expression_of;
use crate::role::Build;
use crate::tokens::{TemplatePart, TokenSort, parts, tokens};
use converge_syntax::{Node, Span};
use converge_template::{Scope, TemplateEngine};

/// Most variables in each other.
const MAX_DEPTH: usize = 8;
/// The longest expression.
const MAX_LENGTH: usize = 2000;
/// Filters that make a text of texts.
const FILTERS: &[&str] = &["first", "last", "lower", "upper", "replace", "regex_replace", "basename", "join"];

impl Build<'_> {
    /// The text that a template always gives here, where it is one.
    pub(crate) fn constant(&self, text: &str) -> Option<String> {
        let text = self.names.template(text).ok()?;
        let engine = TemplateEngine::new();
        let scope = Scope::new(&engine);
        let mut out = String::new();
        for part in parts(&text)? {
            match part {
                TemplatePart::Plain(text) => out.push_str(text),
                TemplatePart::Code("{{", inside, _) => {
                    let closed = format!("{{{{ {} }}}}", self.closed(inside, 0)?);
                    let value = engine.eval_value(&Node::new(closed, Span::nowhere("import")), &scope);
                    out.push_str(value.ok()?.known()?.as_str()?);
                }
                TemplatePart::Code(..) => return None,
            }
        }
        Some(out)
    }

    /// An expression without variables: each is replaced by its value, where it has one alone.
    fn closed(&self, text: &str, depth: usize) -> Option<String> {
        let mut out = String::new();
        let mut before = "";
        for token in tokens(text) {
            let is_filter = before == "|";
            match token.sort {
                TokenSort::Name if is_filter => {
                    FILTERS.contains(&token.text).then(|| out.push_str(token.text))?;
                }
                TokenSort::Name => {
                    let value = self.one_value(token.text).filter(|_| before != "." && depth < MAX_DEPTH)?;
                    out.push_str(&format!("({})", self.closed(&expression_of(value)?, depth + 1)?));
                }
                _ => out.push_str(token.text),
            }
            if token.sort != TokenSort::Blank {
                before = token.text;
            }
            if out.len() > MAX_LENGTH {
                return None;
            }
        }
        Some(out)
    }

    /// The value of a variable that has one in any case, and that nobody sets from outside.
    fn one_value(&self, name: &str) -> Option<&Node> {
        if let Some((_, sets)) = self.sets.iter().find(|(own, _)| own == name) {
            return match sets.as_slice() {
                [one] if one.when.is_empty() && !one.is_default => Some(&one.value),
                _ => None,
            };
        }
        self.written.vars.iter().find(|var| var.name == name).map(|var| &var.value)
    }
}
