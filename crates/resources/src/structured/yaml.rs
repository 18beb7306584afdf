//! YAML, by the events of `granit-parser` (the parser below our own reader): they say where each value stands, and edits replace
//! or insert exactly these bytes.
//!
//! A plain word has the meaning of YAML 1.2's core schema. `yes`, `0o17` and the like, which programs read differently, are text
//! here and are written in quotes.

mod write;

use super::{Editor, Refusal, pointer};
use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle};
use serde_json::{Map, Number, Value};
use std::ops::Range;
use write::{behind, behind_dash, block, flow, key};

pub struct Yaml;

const DEEPEST: usize = 100;

/// A value and where it stands.
#[derive(Debug)]
struct YamlNode {
    what: YamlValue,
    /// From the first byte to behind the last one, without blanks and comments after it.
    span: Range<usize>,
    /// It has an anchor or a tag, which an edit would lose.
    marked: bool,
}

#[derive(Debug)]
enum YamlValue {
    Scalar { value: Value, block: bool },
    Map { entries: Vec<(YamlNode, YamlNode)>, flow: bool },
    List { items: Vec<YamlNode>, flow: bool },
    Alias,
}

struct YamlReader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
}

fn wrong(message: String) -> Refusal {
    Refusal::new(&[], message)
}

impl<'t> YamlReader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Range<usize>), Refusal> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                let start = span.start.byte_offset().unwrap_or(0).min(self.text.len());
                let end = span.end.byte_offset().unwrap_or(start).clamp(start, self.text.len());
                Ok((event, start..end))
            }
            Some(Err(error)) => Err(wrong(format!("the text is not YAML: {error}"))),
            None => Ok((Event::StreamEnd, self.text.len()..self.text.len())),
        }
    }

    /// The only document; `None` where there is nothing but comments.
    fn document(&mut self) -> Result<Option<YamlNode>, Refusal> {
        let mut found = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(found),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ if found.is_some() => {
                    return Err(wrong("the text has several YAML documents".to_owned()).help(
                        "edit it with the kinds `line` and `block`, or give the whole content with `file`",
                    ));
                }
                _ => found = Some(self.node(event, span, 0)?),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Range<usize>, depth: usize) -> Result<YamlNode, Refusal> {
        if depth > DEEPEST {
            return Err(wrong(format!("the text is nested more than {DEEPEST} levels deep")));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let value =
                    if plain && tag.is_none() { resolve(&text) } else { Value::String(text.into_owned()) };
                // The span of a block scalar begins behind its header, and may reach to the next value.
                let end = span.start + self.text.get(span.clone()).unwrap_or_default().trim_end().len();
                let header = self.text.get(..span.start).and_then(|t| t.rfind(['|', '>'])).filter(|_| block);
                let span = header.map_or(span.start, |h| h.min(span.start))..end;
                Ok(YamlNode {
                    what: YamlValue::Scalar { value, block },
                    span,
                    marked: anchor != 0 || tag.is_some(),
                })
            }
            Event::SequenceStart(style, anchor, tag) => {
                let flow = style == StructureStyle::Flow;
                let mut items = Vec::new();
                loop {
                    let (event, at) = self.next()?;
                    if event == Event::SequenceEnd {
                        let end = if flow {
                            at.end
                        } else {
                            items.last().map_or(span.start, |n: &YamlNode| n.span.end)
                        };
                        let what = YamlValue::List { items, flow };
                        return Ok(YamlNode {
                            what,
                            span: span.start..end,
                            marked: anchor != 0 || tag.is_some(),
                        });
                    }
                    items.push(self.node(event, at, depth + 1)?);
                }
            }
            Event::MappingStart(style, anchor, tag) => {
                let flow = style == StructureStyle::Flow;
                let mut entries: Vec<(YamlNode, YamlNode)> = Vec::new();
                loop {
                    let (event, at) = self.next()?;
                    if event == Event::MappingEnd {
                        let end =
                            if flow { at.end } else { entries.last().map_or(span.start, |e| e.1.span.end) };
                        let start = if flow {
                            span.start
                        } else {
                            entries.first().map_or(span.start, |e| e.0.span.start)
                        };
                        let what = YamlValue::Map { entries, flow };
                        return Ok(YamlNode { what, span: start..end, marked: anchor != 0 || tag.is_some() });
                    }
                    let key = self.node(event, at, depth + 1)?;
                    let (event, at) = self.next()?;
                    let mut value = self.node(event, at, depth + 1)?;
                    if value.span.is_empty() && !value.marked {
                        // A value that is not written stands right behind the colon.
                        let rest = self.text.get(key.span.end..).unwrap_or_default();
                        let blanks = rest.len() - rest.trim_start().len();
                        let colon = usize::from(rest.trim_start().starts_with(':'));
                        let at = key.span.end + blanks + colon;
                        value.span = at..at;
                    }
                    entries.push((key, value));
                }
            }
            Event::Alias(_) => Ok(YamlNode { what: YamlValue::Alias, span, marked: true }),
            other => Err(wrong(format!("the text is not YAML that can be edited: {other:?}"))),
        }
    }
}

fn parse(text: &str) -> Result<Option<YamlNode>, Refusal> {
    let options =
        granit_parser::options! { emit_comments: false, flow_nesting_limit: 100, block_nesting_limit: 100 };
    YamlReader { text, parser: Parser::new_from_str_with_options(text, options) }.document()
}

/// The value of a plain scalar by the core schema.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // A leading zero is octal for some: such a word is text here.
    if decimal && (digits == "0" || !digits.starts_with('0')) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        return plain
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| plain.parse::<u64>().map(Number::from))
            .map_or_else(|_| text.into(), Value::Number);
    }
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(['.', 'e', 'E'])
        && digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    match text.parse::<f64>() {
        Ok(x) if numeric => Number::from_f64(x).map_or_else(|| text.into(), Value::Number),
        _ => text.into(),
    }
}

fn data(node: &YamlNode) -> Result<Value, Refusal> {
    Ok(match &node.what {
        YamlValue::Scalar { value, .. } => value.clone(),
        // No wish equals it.
        YamlValue::Alias => Value::Object(Map::from_iter([("\u{0}alias".to_owned(), Value::Null)])),
        YamlValue::List { items, .. } => Value::Array(items.iter().map(data).collect::<Result<_, _>>()?),
        YamlValue::Map { entries, .. } => {
            let mut map = Map::new();
            for (key, value) in entries {
                let name = key_text(key)?;
                if map.insert(name.clone(), data(value)?).is_some() {
                    return Err(wrong(format!("the key `{name}` stands twice in one mapping"))
                        .help("remove one of the two by hand: programs do not agree which one counts"));
                }
            }
            Value::Object(map)
        }
    })
}

fn key_text(node: &YamlNode) -> Result<String, Refusal> {
    match &node.what {
        YamlValue::Scalar { value: Value::String(s), .. } => Ok(s.clone()),
        YamlValue::Scalar { value: Value::Null, .. } => Ok("null".to_owned()),
        YamlValue::Scalar { value, .. } => Ok(value.to_string()),
        _ => Err(wrong("a key of a mapping is a mapping or a list itself".to_owned())),
    }
}

fn lost(at: &[String]) -> Refusal {
    Refusal::new(at, "the place cannot be found again in the text")
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |n| n + 1)
}

/// Behind the line end of the line that holds the byte before `at`.
fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|t| t.find('\n')).map_or(text.len(), |n| at + n + 1)
}

fn column(text: &str, at: usize) -> usize {
    at - line_start(text, at)
}

/// Puts whole lines in at the start of a line.
fn insert_lines(text: &str, at: usize, lines: &str) -> String {
    let (before, after) = text.split_at(at);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{gap}{lines}\n{after}")
}

fn splice(text: &str, range: Range<usize>, new: &str) -> String {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    format!("{before}{new}{after}")
}

fn find<'n>(node: &'n YamlNode, path: &[String]) -> Option<&'n YamlNode> {
    path.iter().try_fold(node, |here, word| match &here.what {
        YamlValue::Map { entries, .. } => {
            entries.iter().find(|(k, _)| key_text(k).is_ok_and(|k| k == *word)).map(|(_, v)| v)
        }
        YamlValue::List { items, .. } => items.get(word.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Whether the place lies in a value on one line, where nothing can be written on lines of its own.
fn in_flow(root: &YamlNode, path: &[String]) -> bool {
    (0..=path.len()).any(|n| {
        find(root, path.get(..n).unwrap_or_default()).is_some_and(|node| {
            n < path.len()
                && match &node.what {
                    YamlValue::Map { flow, .. } | YamlValue::List { flow, .. } => *flow,
                    _ => false,
                }
        })
    })
}

fn guard(node: &YamlNode, at: &[String]) -> Result<(), Refusal> {
    let why = match &node.what {
        YamlValue::Alias => "is an alias (`*name`)",
        _ if node.marked => "has an anchor or a tag",
        _ => return Ok(()),
    };
    Err(Refusal::new(at, format!("the value at `{}` {why}, which an edit would lose", pointer(at)))
        .help("edit it with the kind `line`, or write the value out by hand first"))
}

/// Replaces the value of a key or the item of a list.
fn replace(
    text: &str,
    root: &YamlNode,
    old: &YamlNode,
    at: &[String],
    value: &Value,
) -> Result<String, Refusal> {
    guard(old, at)?;
    let deep = matches!(value, Value::Object(m) if !m.is_empty())
        || matches!(value, Value::Array(l) if !l.is_empty());
    if at.is_empty() {
        return Ok(splice(text, old.span.clone(), &block(value, 0)));
    }
    if !deep || in_flow(root, at) {
        let new = flow(value);
        let block_before = match &old.what {
            YamlValue::Scalar { block, .. } => *block,
            YamlValue::Map { flow, .. } | YamlValue::List { flow, .. } => !*flow,
            YamlValue::Alias => false,
        };
        let ends = text.get(..old.span.start).unwrap_or_default();
        if block_before && !matches!(old.what, YamlValue::Scalar { .. }) {
            // From behind the colon or dash: the value stood on lines of its own.
            let start = ends.trim_end().len();
            // Comments between the key and its value go with the value.
            let start = text.get(..start).map_or(start, |before| behind_mark(before, start));
            return Ok(splice(text, start..old.span.end, &format!(" {new}")));
        }
        let blank = if ends.ends_with([':', '-']) { " " } else { "" };
        return Ok(splice(text, old.span.clone(), &format!("{blank}{new}")));
    }
    // On lines of its own below the key.
    let (last, above) = at.split_last().ok_or_else(|| lost(at))?;
    let holder = find(root, above).ok_or_else(|| lost(at))?;
    match &holder.what {
        YamlValue::Map { entries, .. } => {
            let (key, _) = entries
                .iter()
                .find(|(k, _)| key_text(k).is_ok_and(|k| k == *last))
                .ok_or_else(|| lost(at))?;
            let indent = column(text, key.span.start);
            let colon = text
                .get(key.span.end..)
                .and_then(|t| t.find(':'))
                .map_or(key.span.end, |n| key.span.end + n + 1);
            let new = behind(value, indent);
            // A comment on the line of the key stays there.
            let rest_end = line_end(text, colon.max(old.span.end).min(text.len()));
            let rest = text.get(old.span.end.max(colon)..rest_end).unwrap_or_default();
            let same_line = !text.get(colon..old.span.end.max(colon)).unwrap_or_default().contains('\n');
            if same_line && rest.trim_start().starts_with('#') {
                let comment = rest.trim();
                let line_break = if rest.ends_with('\n') { "\n" } else { "" };
                return Ok(splice(text, colon..rest_end, &format!(" {comment}{new}{line_break}")));
            }
            Ok(splice(text, colon..old.span.end.max(colon), &new))
        }
        YamlValue::List { .. } => {
            let dash = dash_before(text, old.span.start).ok_or_else(|| lost(at))?;
            let indent = column(text, dash);
            Ok(splice(text, dash + 1..old.span.end, &behind_dash(value, indent)))
        }
        _ => Err(lost(at)),
    }
}

/// The byte behind the last colon or dash of a text that may end with comment lines.
fn behind_mark(before: &str, end: usize) -> usize {
    let mut at = end;
    while at > 0 {
        let start = line_start(before, at);
        let line = before.get(start..at).unwrap_or_default();
        if !line.trim_start().starts_with('#') && !line.trim().is_empty() {
            return start + line.trim_end().len();
        }
        at = start.saturating_sub(1);
    }
    end
}

/// The dash of the item that starts here.
fn dash_before(text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?.trim_end_matches([' ', '\t']);
    before.ends_with('-').then(|| before.len() - 1)
}

/// Where the blanks and the comma in front of the end of a flow value begin.
fn flow_end(text: &str, span: &Range<usize>) -> usize {
    let inner = text.get(span.start..span.end.saturating_sub(1)).unwrap_or_default();
    span.start + inner.trim_end().trim_end_matches(',').trim_end().len()
}

impl Editor for Yaml {
    fn read(&self, text: &str) -> Result<Value, Refusal> {
        parse(text)?.map_or(Ok(Value::Null), |node| data(&node))
    }

    fn fit(&self, _: &[String], value: &Value) -> Result<Value, Refusal> {
        Ok(value.clone())
    }

    fn put(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let Some(root) = parse(text)? else {
            if !at.is_empty() {
                return Err(lost(at));
            }
            return Ok(insert_lines(text, text.len(), &block(value, 0)));
        };
        if let Some(old) = find(&root, at) {
            if at.is_empty() && old.span.is_empty() {
                return Ok(insert_lines(text, text.len(), &block(value, 0)));
            }
            return replace(text, &root, old, at, value);
        }
        let (last, above) = at.split_last().ok_or_else(|| lost(at))?;
        let holder = find(&root, above).ok_or_else(|| lost(at))?;
        match &holder.what {
            YamlValue::Map { entries, flow: true } => {
                let end = flow_end(text, &holder.span);
                let comma = if entries.is_empty() { "" } else { ", " };
                Ok(splice(text, end..end, &format!("{comma}{}: {}", key(last), flow(value))))
            }
            YamlValue::Map { entries, flow: false } => {
                let (first, _) = entries.first().ok_or_else(|| lost(at))?;
                let indent = column(text, first.span.start);
                let new = block(&Value::Object(Map::from_iter([(last.clone(), value.clone())])), indent);
                Ok(insert_lines(text, line_end(text, holder.span.end), &new))
            }
            _ => Err(lost(at)),
        }
    }

    fn take(&self, text: &str, at: &[String]) -> Result<String, Refusal> {
        let root = parse(text)?.ok_or_else(|| lost(at))?;
        let (last, above) = at.split_last().ok_or_else(|| lost(at))?;
        let holder = find(&root, above).ok_or_else(|| lost(at))?;
        let YamlValue::Map { entries, flow } = &holder.what else { return Err(lost(at)) };
        let n = entries
            .iter()
            .position(|(k, _)| key_text(k).is_ok_and(|k| k == *last))
            .ok_or_else(|| lost(at))?;
        let (key, value) = entries.get(n).ok_or_else(|| lost(at))?;
        if value.marked && !matches!(value.what, YamlValue::Alias) {
            guard(value, at)?;
        }
        if entries.len() == 1 {
            return replace(text, &root, holder, above, &Value::Object(Map::new()));
        }
        let next = entries.get(n + 1).map(|(k, _)| k.span.start);
        let before = n.checked_sub(1).and_then(|n| entries.get(n)).map(|(_, v)| v.span.end);
        if *flow {
            return Ok(match (next, before) {
                (Some(next), _) => splice(text, key.span.start..next, ""),
                (None, Some(before)) => splice(text, before..value.span.end, ""),
                (None, None) => text.to_owned(),
            });
        }
        let start = line_start(text, key.span.start);
        let end = line_end(text, value.span.end);
        if text.get(start..key.span.start).is_some_and(|t| t.trim().is_empty()) {
            return Ok(splice(text, start..end, ""));
        }
        // The first key behind a dash: the next one takes its place.
        let next = next.ok_or_else(|| lost(at))?;
        if text.get(value.span.end..next).is_some_and(|t| t.contains('#')) {
            return Err(Refusal::new(at, format!("a comment behind `{}` would be lost", pointer(at)))
                .help("remove the key with the kind `line` or `block`"));
        }
        Ok(splice(text, key.span.start..next, ""))
    }

    fn append(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let root = parse(text)?.ok_or_else(|| lost(at))?;
        let list = find(&root, at).ok_or_else(|| lost(at))?;
        let YamlValue::List { items, flow: is_flow } = &list.what else { return Err(lost(at)) };
        if *is_flow {
            let end = flow_end(text, &list.span);
            let comma = if items.is_empty() { "" } else { ", " };
            return Ok(splice(text, end..end, &format!("{comma}{}", flow(value))));
        }
        let first = items.first().ok_or_else(|| lost(at))?;
        let dash = dash_before(text, first.span.start).ok_or_else(|| lost(at))?;
        let indent = column(text, dash);
        let new = block(&Value::Array(vec![value.clone()]), indent);
        Ok(insert_lines(text, line_end(text, list.span.end), &new))
    }
}
