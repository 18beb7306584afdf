//! Values of INI inventories: what Python's `ast.literal_eval` accepts, else the text as it is.
//!
//! Facts: `_parse_value` in `ansible/plugins/inventory/ini.py`. Tuples and sets become lists, bytes and complex numbers
//! become text. Kept as text although Python reads them: `\N{…}` escapes and lone surrogates. Whole numbers above 64 bits are
//! text with a tag, as in YAML.

mod number;
mod text;

use converge_syntax::{BIG_INTEGER, Node, Span, UNSAFE_TAG, Value};
use number::{Number, number_at, short};
use text::string_body;

/// The greatest depth of brackets; a deeper text is taken as it is.
const MAX_DEPTH: usize = 90;

/// The value of `key=text` in an INI inventory. Every part of a list or map gets `span`.
#[must_use]
pub fn value_of(text: &str, span: &Span) -> Node {
    literal(text, span).unwrap_or_else(|| Node::new(text, span.clone()))
}

fn literal(text: &str, span: &Span) -> Option<Node> {
    let mut parser = Parser { rest: text, span, depth: 0 };
    parser.blank();
    let first = parser.expression()?;
    parser.blank();
    let node = if parser.rest.starts_with(',') {
        let items = parser.more_items(first, None)?;
        parser.node(Value::List(items))
    } else {
        parser.finish(first)?
    };
    parser.blank();
    parser.rest.is_empty().then_some(node)
}

/// A value of an expression; an imaginary number stays separate until the sum that it ends is complete.
enum LiteralItem {
    Node(Node),
    Imaginary(f64),
}

struct Parser<'a> {
    rest: &'a str,
    span: &'a Span,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn node(&self, value: Value) -> Node {
        Node { value, span: self.span.clone(), tag: None }
    }

    fn finish(&self, item: LiteralItem) -> Option<Node> {
        Some(match item {
            LiteralItem::Node(node) => node,
            LiteralItem::Imaginary(number) => self.node(Value::String(format!("{}j", short(number)))),
        })
    }

    /// Skips blanks and a comment.
    fn blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\u{c}']);
        if self.rest.starts_with('#') {
            self.rest = "";
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blank();
        if let Some(rest) = self.rest.strip_prefix(token) {
            self.rest = rest;
            return true;
        }
        false
    }

    /// A value, or a number plus or minus an imaginary one.
    fn expression(&mut self) -> Option<LiteralItem> {
        self.blank();
        let sign = match self.rest.chars().next()? {
            '-' => Some(-1.0),
            '+' => Some(1.0),
            _ => None,
        };
        let left = if let Some(sign) = sign {
            self.rest = self.rest.get(1..)?;
            self.blank();
            let negative = sign < 0.0;
            match self.atom()? {
                LiteralItem::Imaginary(number) => LiteralItem::Imaginary(sign * number),
                LiteralItem::Node(node) => {
                    let value = match node.value {
                        Value::String(digits) if node.tag.as_deref() == Some(BIG_INTEGER) => {
                            let sign = if negative { "-" } else { "" };
                            let value = Value::String(format!("{sign}{digits}"));
                            return Some(LiteralItem::Node(Node { tag: node.tag, ..self.node(value) }));
                        }
                        Value::UInt(n) if negative && n > i64::MAX.unsigned_abs() + 1 => {
                            let value = Value::String(format!("-{n}"));
                            return Some(LiteralItem::Node(Node {
                                tag: Some(BIG_INTEGER.to_owned()),
                                ..self.node(value)
                            }));
                        }
                        Value::Int(n) if negative => Value::Int(n.checked_neg()?),
                        Value::UInt(n) if negative => Value::Int(i64::try_from(-i128::from(n)).ok()?),
                        Value::Float(x) if negative => Value::Float(-x),
                        value @ (Value::Int(_) | Value::UInt(_) | Value::Float(_)) => value,
                        _ => return None,
                    };
                    LiteralItem::Node(self.node(value))
                }
            }
        } else {
            self.atom()?
        };
        self.blank();
        let sign = match self.rest.chars().next() {
            Some('+') => '+',
            Some('-') => '-',
            _ => return Some(left),
        };
        let LiteralItem::Node(real) = left else {
            return None;
        };
        let real = match real.value {
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => real.as_f64()?,
            _ => return None,
        };
        self.rest = self.rest.get(1..)?;
        self.blank();
        let LiteralItem::Imaginary(imaginary) = self.atom()? else {
            return None;
        };
        let text = format!("({}{sign}{}j)", short(real), short(imaginary));
        Some(LiteralItem::Node(self.node(Value::String(text))))
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn value(&mut self) -> Option<Node> {
        let item = self.nested(Self::expression)?;
        self.finish(item)
    }

    /// The items after the first one, up to `close` or to the end of the text; a comma may come last.
    fn more_items(&mut self, first: LiteralItem, close: Option<&str>) -> Option<Vec<Node>> {
        let mut items = vec![self.finish(first)?];
        loop {
            let comma = self.eat(",");
            self.blank();
            match close {
                Some(close) => {
                    if self.eat(close) {
                        return Some(items);
                    }
                }
                None => {
                    if self.rest.is_empty() {
                        return Some(items);
                    }
                }
            }
            if !comma {
                return None;
            }
            items.push(self.value()?);
        }
    }

    fn atom(&mut self) -> Option<LiteralItem> {
        self.blank();
        let first = self.rest.chars().next()?;
        match first {
            '[' => {
                self.rest = self.rest.get(1..)?;
                let items = self.sequence("]")?;
                Some(LiteralItem::Node(self.node(Value::List(items))))
            }
            '(' => {
                self.rest = self.rest.get(1..)?;
                self.group()
            }
            '{' => {
                self.rest = self.rest.get(1..)?;
                self.braces()
            }
            '.' if self.rest.starts_with("...") => {
                self.rest = self.rest.get(3..)?;
                Some(LiteralItem::Node(self.node("...".into())))
            }
            '0'..='9' | '.' => self.number(),
            '\'' | '"' => self.strings(),
            c if c == '_' || c.is_alphabetic() => self.word(),
            _ => None,
        }
    }

    fn sequence(&mut self, close: &str) -> Option<Vec<Node>> {
        if self.eat(close) {
            return Some(Vec::new());
        }
        let first = self.nested(Self::expression)?;
        self.more_items(first, Some(close))
    }

    fn group(&mut self) -> Option<LiteralItem> {
        if self.eat(")") {
            return Some(LiteralItem::Node(self.node(Value::List(Vec::new()))));
        }
        let first = self.nested(Self::expression)?;
        if self.eat(")") {
            return Some(first);
        }
        let items = self.more_items(first, Some(")"))?;
        Some(LiteralItem::Node(self.node(Value::List(items))))
    }

    fn braces(&mut self) -> Option<LiteralItem> {
        if self.eat("}") {
            return Some(LiteralItem::Node(self.node(Value::Map(Vec::new()))));
        }
        let first = self.value()?;
        if !self.eat(":") {
            let items = self.more_items(LiteralItem::Node(first), Some("}"))?;
            let mut unique: Vec<Node> = Vec::new();
            for item in items {
                hashable(&item)?;
                if !unique.contains(&item) {
                    unique.push(item);
                }
            }
            return Some(LiteralItem::Node(self.node(Value::List(unique))));
        }
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let mut key = first;
        loop {
            hashable(&key)?;
            let value = self.value()?;
            match entries.iter_mut().find(|(observed, _)| *observed == key) {
                Some((_, observed)) => *observed = value,
                None => entries.push((key, value)),
            }
            let comma = self.eat(",");
            if self.eat("}") {
                return Some(LiteralItem::Node(self.node(Value::Map(entries))));
            }
            if !comma {
                return None;
            }
            key = self.value()?;
            if !self.eat(":") {
                return None;
            }
        }
    }

    fn word(&mut self) -> Option<LiteralItem> {
        let end = self.rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(self.rest.len());
        let (name, after) = self.rest.split_at_checked(end)?;
        if after.starts_with(['\'', '"']) {
            return self.strings();
        }
        self.rest = after;
        let value = match name {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            "set" => {
                let empty = self.eat("(") && self.eat(")");
                return empty.then(|| LiteralItem::Node(self.node(Value::List(Vec::new()))));
            }
            _ => return None,
        };
        Some(LiteralItem::Node(self.node(value)))
    }

    fn number(&mut self) -> Option<LiteralItem> {
        let (number, length) = number_at(self.rest)?;
        let rest = self.rest.get(length..)?;
        // A digit, letter or point right behind a number is a syntax error.
        if rest.starts_with(|c: char| c == '_' || c == '.' || c.is_alphanumeric()) {
            return None;
        }
        self.rest = rest;
        Some(match number {
            Number::Whole(value) => {
                let big = matches!(value, Value::String(_)).then(|| BIG_INTEGER.to_owned());
                LiteralItem::Node(Node { tag: big, ..self.node(value) })
            }
            Number::Real(x) => LiteralItem::Node(self.node(Value::Float(x))),
            Number::Imaginary(x) => LiteralItem::Imaginary(x),
        })
    }

    /// One string literal or several side by side, which are joined.
    fn strings(&mut self) -> Option<LiteralItem> {
        let mut joined = String::new();
        let mut bytes = None;
        loop {
            self.blank();
            let quote = self.rest.find(['\'', '"']);
            let prefix = quote.and_then(|at| self.rest.get(..at)).unwrap_or("x");
            let (is_bytes, raw) = match prefix.to_ascii_lowercase().as_str() {
                "" | "u" => (false, false),
                "r" => (false, true),
                "b" => (true, false),
                "br" | "rb" => (true, true),
                _ => break,
            };
            if *bytes.get_or_insert(is_bytes) != is_bytes {
                return None;
            }
            let body = self.rest.get(prefix.len()..)?;
            let (text, rest) = string_body(body, raw, is_bytes)?;
            joined.push_str(&text);
            self.rest = rest;
        }
        let mut node = self.node(Value::String(joined));
        if bytes? {
            // Ansible trusts no template that was written as bytes.
            node.tag = Some(UNSAFE_TAG.to_owned());
        }
        Some(LiteralItem::Node(node))
    }
}

/// Lists and maps cannot be keys or members of sets; Python refuses the whole value.
fn hashable(node: &Node) -> Option<()> {
    (!matches!(node.value, Value::List(_) | Value::Map(_))).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> serde_json::Value {
        value_of(text, &Span::nowhere("test")).to_json()
    }

    #[test]
    fn literals_are_those_of_python() {
        use serde_json::json;
        for (text, expected) in [
            ("1", json!(1)),
            ("-1", json!(-1)),
            ("+1", json!(1)),
            ("1_000", json!(1000)),
            ("0x1f", json!(31)),
            ("0o17", json!(15)),
            ("0b11", json!(3)),
            ("00", json!(0)),
            ("18446744073709551615", json!(18446744073709551615u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("5.", json!(5.0)),
            ("1e3", json!(1000.0)),
            ("1_0.5", json!(10.5)),
            ("True", json!(true)),
            ("None", json!(null)),
            ("'a' \"b\"", json!("ab")),
            ("r'\\n'", json!("\\n")),
            ("b'x'", json!("x")),
            ("'\\x41\\u00e9\\d\\101'", json!("A\u{e9}\\dA")),
            ("'a' # c", json!("a")),
            ("1 # c", json!(1)),
            ("[1, 'a', [True,], {}]", json!([1, "a", [true], {}])),
            ("(1)", json!(1)),
            ("()", json!([])),
            ("1,", json!([1])),
            ("1, 'x'", json!([1, "x"])),
            ("{1, 2, 1}", json!([1, 2])),
            ("{'a': 1, 'b': [2], 'a': 3, 4: 5}", json!({"a": 3, "b": [2], "4": 5})),
            ("set()", json!([])),
            ("1j", json!("1j")),
            ("1+2j", json!("(1+2j)")),
            ("...", json!("...")),
            ("-  1", json!(-1)),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_stays_text() {
        for text in [
            "",
            "true",
            "yes",
            "017",
            "1__0",
            "1_",
            "1if",
            "1L",
            "--1",
            "-True",
            "1 2",
            "'a",
            "[1",
            "[1,,]",
            "[1 2]",
            "{[]: 1}",
            "{'a': 1",
            "f'x'",
            "a # c",
            "1;",
            "not True",
            "10.0.0.1",
            "a,b",
            "'a' b'c'",
            "1+2",
            "\\",
            "'\\N{BULLET}'",
            "2001:db8::1",
            "5x",
            "b'é'",
        ] {
            assert_eq!(json(text), serde_json::Value::from(text), "{text}");
        }
        let deep = "[".repeat(5000);
        assert_eq!(json(&deep), serde_json::Value::from(deep.as_str()));
    }

    proptest! {
        #[test]
        fn any_text_is_a_value(text in "[-+0-9a-fjxeTrueNon'\"\\\\\\[\\](){}:,. #é]{0,24}") {
            let _ = value_of(&text, &Span::nowhere("test"));
        }
    }
}
