//! YAML as PyYAML's `dump(default_flow_style=False, allow_unicode=True)` writes it: sorted keys, lines folded at column 80.
//! Other than there, a list or map that several hosts share is written out for each and gets no anchor.
//!
//! Facts: the analysis and the writers of scalars in libyaml's `emitter.c`.

use converge_syntax::{Node, Value, format_float, resolve_plain};

use super::output::{Out, key_order};
use super::python::float_repr;

const WIDTH: usize = 80;

/// The whole document, with the last line end.
pub(super) fn dump(out: &Out) -> String {
    let mut emitter = Emitter { text: String::new(), column: 0 };
    let tree = tree_of(out);
    emitter.node(&tree, None, false);
    if emitter.column > 0 {
        emitter.text.push('\n');
    }
    emitter.text
}

/// What is written; keys of maps are scalars.
enum Tree {
    Scalar(Scalar),
    List(Vec<Tree>),
    Map(Vec<(Scalar, Tree)>),
}

struct Scalar {
    text: String,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    /// `!vault |`
    Vault,
}

fn tree_of(out: &Out) -> Tree {
    match out {
        Out::Value(node) => tree_of_node(node),
        Out::Names(names) => Tree::List(names.iter().map(|name| Tree::Scalar(string(name))).collect()),
        Out::Map(entries) => {
            Tree::Map(entries.iter().map(|(key, value)| (string(key), tree_of(value))).collect())
        }
    }
}

fn tree_of_node(node: &Node) -> Tree {
    match &node.value {
        Value::List(items) => Tree::List(items.iter().map(tree_of_node).collect()),
        Value::Map(entries) => {
            let mut sorted: Vec<&(Node, Node)> = entries.iter().collect();
            sorted.sort_by(|left, right| key_order(&left.0, &right.0));
            Tree::Map(sorted.into_iter().map(|(key, value)| (scalar(key), tree_of_node(value))).collect())
        }
        _ => Tree::Scalar(scalar(node)),
    }
}

fn scalar(node: &Node) -> Scalar {
    let plain = |text: String| Scalar { text, style: Style::Plain };
    match &node.value {
        Value::String(text) if matches!(node.tag.as_deref(), Some("!vault" | "!vault-encrypted")) => {
            Scalar { text: text.clone(), style: Style::Vault }
        }
        Value::String(text) => string(text),
        Value::Float(x) if x.is_finite() => {
            let text = float_repr(*x);
            // YAML 1.1 floats have a point.
            plain(if text.contains('.') { text } else { text.replacen('e', ".0e", 1) })
        }
        Value::Float(x) => plain(format_float(*x)),
        _ => plain(node.scalar_text().unwrap_or_default()),
    }
}

/// What libyaml takes for printable: neither tabs nor anything beyond the basic plane.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Chooses the quotes of a string as the emitter's analysis does for block context.
fn string(text: &str) -> Scalar {
    let mut plain = !text.is_empty();
    let mut single = true;
    let chars: Vec<char> = text.chars().collect();
    if text.starts_with("---") || text.starts_with("...") {
        plain = false;
    }
    let mut previous_space = false;
    let mut previous_break = false;
    let mut preceded_by_white = true;
    for (at, c) in chars.iter().copied().enumerate() {
        let next = chars.get(at + 1).copied();
        let followed_by_white = next.is_none_or(|c| c == ' ' || c == '\t' || is_break(c));
        let indicator = if at == 0 {
            "#,[]{}&*!|>'\"%@`".contains(c) || (matches!(c, '?' | ':' | '-') && followed_by_white)
        } else {
            (c == ':' && followed_by_white) || (c == '#' && preceded_by_white)
        };
        if indicator {
            plain = false;
        }
        let (first, last) = (at == 0, at + 1 == chars.len());
        if !is_printable(c) {
            (plain, single) = (false, false);
        }
        if c == ' ' {
            if first || last {
                plain = false;
            }
            if previous_break {
                // A break followed by a space.
                plain = false;
                single = false;
            }
            previous_space = true;
            previous_break = false;
        } else if is_break(c) {
            plain = false;
            if previous_space {
                single = false;
            }
            previous_space = false;
            previous_break = true;
        } else {
            previous_space = false;
            previous_break = false;
        }
        preceded_by_white = c == ' ' || c == '\t' || is_break(c);
    }
    // What would be read back as something else is quoted.
    if plain
        && !matches!(resolve_plain(text), Value::String(same) if same == text && !looks_like_a_date(text))
    {
        plain = false;
    }
    if matches!(text, "=" | "<<") {
        plain = false;
    }
    let style = match (plain, single) {
        (true, _) => Style::Plain,
        (false, true) => Style::Single,
        (false, false) => Style::Double,
    };
    Scalar { text: text.to_owned(), style }
}

/// Text in the form of a YAML 1.1 timestamp, which is quoted when it is a string.
fn looks_like_a_date(text: &str) -> bool {
    let day: Vec<&str> = text.split(['T', 't', ' ']).next().unwrap_or("").split('-').collect();
    let digits = |part: &str, longest: usize| {
        (1..=longest).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    matches!(day.as_slice(), [year, month, day]
        if year.len() == 4 && digits(year, 4) && digits(month, 2) && digits(day, 2))
}

struct Emitter {
    text: String,
    column: usize,
}

impl Emitter {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self, indent: usize) {
        self.text.push('\n');
        self.text.push_str(&" ".repeat(indent));
        self.column = indent;
    }

    /// Writes a node behind what is already on the line. `indent` is that of the map or list around it.
    fn node(&mut self, tree: &Tree, indent: Option<usize>, in_map: bool) {
        match tree {
            Tree::Scalar(scalar) => {
                if in_map || indent.is_some() {
                    self.put(" ");
                }
                self.scalar(scalar, indent.map_or(2, |indent| indent + 2), false);
            }
            Tree::List(items) if items.is_empty() => {
                self.put(if indent.is_some() { " []" } else { "[]" });
            }
            Tree::Map(entries) if entries.is_empty() => {
                self.put(if indent.is_some() { " {}" } else { "{}" });
            }
            Tree::List(items) => {
                // A list below a key stands at the key's own indentation.
                let own = match indent {
                    None => 0,
                    Some(indent) if in_map => indent,
                    Some(indent) => indent + 2,
                };
                for (index, item) in items.iter().enumerate() {
                    if index == 0 && !in_map && indent.is_some() {
                        self.put(" ");
                    } else if index > 0 || in_map {
                        self.line(own);
                    }
                    self.put("-");
                    self.node(item, Some(own), false);
                }
            }
            Tree::Map(entries) => {
                let own = indent.map_or(0, |indent| indent + 2);
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index == 0 && !in_map && indent.is_some() {
                        self.put(" ");
                    } else if index > 0 || in_map {
                        self.line(own);
                    }
                    self.key(key, own);
                    self.node(value, Some(own), true);
                }
            }
        }
    }

    fn key(&mut self, key: &Scalar, indent: usize) {
        // Keys of more than 128 bytes or several lines are written with `?`.
        if key.text.len() > 128 || key.text.contains(is_break) {
            self.put("? ");
            self.scalar(key, indent + 2, false);
            self.line(indent);
        } else {
            self.scalar(key, indent + 2, true);
        }
        self.put(":");
    }

    fn scalar(&mut self, scalar: &Scalar, indent: usize, is_key: bool) {
        match scalar.style {
            Style::Plain => self.plain(&scalar.text, indent, is_key),
            Style::Single => self.single(&scalar.text, indent, is_key),
            Style::Double => self.double(&scalar.text, indent, is_key),
            Style::Vault => {
                self.put(if scalar.text.ends_with('\n') { "!vault |" } else { "!vault |-" });
                for line in scalar.text.lines() {
                    self.line(indent);
                    self.put(line);
                }
            }
        }
    }

    fn plain(&mut self, text: &str, indent: usize, is_key: bool) {
        let chars: Vec<char> = text.chars().collect();
        let mut after_space = false;
        for (at, c) in chars.iter().copied().enumerate() {
            let fold =
                c == ' ' && !is_key && !after_space && self.column > WIDTH && chars.get(at + 1) != Some(&' ');
            after_space = c == ' ';
            if fold { self.line(indent) } else { self.put(c.encode_utf8(&mut [0; 4])) }
        }
    }

    fn single(&mut self, text: &str, indent: usize, is_key: bool) {
        let chars: Vec<char> = text.chars().collect();
        self.put("'");
        let (mut after_space, mut after_break) = (false, false);
        for (at, c) in chars.iter().copied().enumerate() {
            if c == ' ' {
                let inner = at > 0 && at + 1 < chars.len();
                let fold = !is_key
                    && !after_space
                    && self.column > WIDTH
                    && inner
                    && chars.get(at + 1) != Some(&' ');
                after_space = true;
                if fold { self.line(indent) } else { self.put(" ") }
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.text.push('\n');
                }
                self.text.push(c);
                self.column = 0;
                after_break = true;
            } else {
                if after_break {
                    self.put(&" ".repeat(indent));
                }
                if c == '\'' {
                    self.put("''");
                } else {
                    self.put(c.encode_utf8(&mut [0; 4]));
                }
                (after_space, after_break) = (false, false);
            }
        }
        if after_break {
            self.put(&" ".repeat(indent));
        }
        self.put("'");
    }

    fn double(&mut self, text: &str, indent: usize, is_key: bool) {
        let chars: Vec<char> = text.chars().collect();
        self.put("\"");
        let mut after_space = false;
        for (at, c) in chars.iter().copied().enumerate() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                let escape = match c {
                    '\0' => "\\0".to_owned(),
                    '\u{7}' => "\\a".to_owned(),
                    '\u{8}' => "\\b".to_owned(),
                    '\t' => "\\t".to_owned(),
                    '\n' => "\\n".to_owned(),
                    '\u{b}' => "\\v".to_owned(),
                    '\u{c}' => "\\f".to_owned(),
                    '\r' => "\\r".to_owned(),
                    '\u{1b}' => "\\e".to_owned(),
                    '"' => "\\\"".to_owned(),
                    '\\' => "\\\\".to_owned(),
                    '\u{85}' => "\\N".to_owned(),
                    '\u{2028}' => "\\L".to_owned(),
                    '\u{2029}' => "\\P".to_owned(),
                    c if u32::from(c) <= 0xff => format!("\\x{:02X}", u32::from(c)),
                    c if u32::from(c) <= 0xffff => format!("\\u{:04X}", u32::from(c)),
                    c => format!("\\U{:08X}", u32::from(c)),
                };
                self.put(&escape);
                after_space = false;
            } else if c == ' ' {
                let inner = at > 0 && at + 1 < chars.len();
                if !is_key && !after_space && self.column > WIDTH && inner {
                    self.line(indent);
                    if chars.get(at + 1) == Some(&' ') {
                        self.put("\\");
                    }
                } else {
                    self.put(" ");
                }
                after_space = true;
            } else {
                self.put(c.encode_utf8(&mut [0; 4]));
                after_space = false;
            }
        }
        self.put("\"");
    }
}
