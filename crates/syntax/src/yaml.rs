//! YAML text to nodes: anchors, merge keys, tags, duplicate keys, limits; plain scalars mean what they mean in Ansible.
//!
//! Built on the events of `granit-parser` (the parser below serde-saphyr), since only they say how a scalar was quoted.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, StrInput, StructureStyle, Tag};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Node, Value};
use crate::scalar::{BIG_INTEGER, is_big_integer, resolve_plain};
use crate::source::{Source, Span};
use crate::suggest::did_you_mean;

/// Which rules apply. Values mean the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Inventories and variable files: read as Ansible reads them, without remarks.
    Ansible,
    /// Roles and playbooks: scalars that are easily misread (`yes`, `0644`, `1:30`) get a warning.
    Native,
}

/// Deepest nesting of lists and maps, aliases resolved.
const MAX_DEPTH: usize = 100;
/// Most values in one source, aliases resolved.
const MAX_NODES: usize = 500_000;
/// Largest source in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// Tags that mean something; the parser's core tags besides.
const TAGS: [&str; 3] = ["!vault", "!vault-encrypted", "!unsafe"];
/// Most comments right behind a quoted scalar that are read around.
const MAX_GLUED: usize = 100;

/// Reads all documents of a source; none where it holds only comments. Warnings are dropped.
///
/// # Errors
/// Every complaint that could be found in one pass.
pub fn parse_yaml(source: Arc<Source>, dialect: Dialect) -> Result<Vec<Node>, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    parse_yaml_into(source, dialect, &mut diagnostics).ok_or(diagnostics)
}

/// As [`parse_yaml`], with complaints and warnings added to a list; `None` where there was an error.
pub fn parse_yaml_into(
    source: Arc<Source>,
    dialect: Dialect,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Node>> {
    if source.text().len() > MAX_BYTES {
        let message = format!("the file is larger than {} MiB", MAX_BYTES >> 20);
        diagnostics.push(Diagnostic::error("too-large", message).at(&Span::new(source, 0, 0)));
        return None;
    }
    let mut text = source.text().to_owned();
    for _ in 0..MAX_GLUED {
        let (documents, found, stopped) = compose(source.clone(), &text, dialect);
        let glued = stopped.filter(|_| dialect == Dialect::Ansible).and_then(|at| glued_comment(&text, at));
        if let Some(range) = glued {
            text.replace_range(range.clone(), &" ".repeat(range.len()));
            continue;
        }
        let failed = found.has_errors();
        diagnostics.extend(found);
        return documents.filter(|_| !failed);
    }
    diagnostics.push(
        Diagnostic::error("syntax", "too many comments right behind a quote").at(&Span::new(source, 0, 0)),
    );
    None
}

/// The documents, the complaints, and where the parser stopped.
fn compose(
    source: Arc<Source>,
    text: &str,
    dialect: Dialect,
) -> (Option<Vec<Node>>, Diagnostics, Option<usize>) {
    let options =
        granit_parser::options! { emit_comments: false, flow_nesting_limit: 120, block_nesting_limit: 120 };
    let mut composer = Composer {
        parser: Parser::new_from_str_with_options(text, options),
        source,
        dialect,
        found: Diagnostics::new(),
        anchors: HashMap::new(),
        nodes: 0,
        stopped: None,
    };
    let documents = composer.documents().ok();
    (documents, composer.found, composer.stopped)
}

/// The comment right behind a quoted scalar, near the place where the parser stops. PyYAML reads `a: "x"#note`; the YAML that
/// the parser knows wants a space before the `#`.
fn glued_comment(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.split('\n').next()?;
    let sharp = ["\"#", "'#"].iter().filter_map(|glued| line.find(glued)).min()? + 1;
    // Only where the parser stops at it.
    (start + sharp).abs_diff(at).le(&1).then_some(start + sharp..start + line.len())
}

/// The complaint is recorded; nothing more can be read.
struct Stop;

/// A node that an alias can stand for.
struct Anchored {
    node: Node,
    size: usize,
    depth: usize,
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    source: Arc<Source>,
    dialect: Dialect,
    found: Diagnostics,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    /// The offset of the syntax error.
    stopped: Option<usize>,
}

/// The place of a node in the tree.
#[derive(Clone, Copy)]
struct Place<'a> {
    depth: usize,
    /// The key that the value stands under.
    key: Option<&'a str>,
    /// True if the node is a key itself.
    is_key: bool,
}

impl<'t> Composer<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Stop> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                let start = span.start.byte_offset().unwrap_or(0);
                let end = span.end.byte_offset().unwrap_or(start);
                Ok((event, Span::new(self.source.clone(), start, end)))
            }
            Some(Err(error)) => {
                self.syntax_error(&error);
                Err(Stop)
            }
            None => Ok((Event::StreamEnd, Span::new(self.source.clone(), 0, 0))),
        }
    }

    fn documents(&mut self) -> Result<Vec<Node>, Stop> {
        let mut documents = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(documents),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ => documents.push(self.node(event, span, Place { depth: 0, key: None, is_key: false })?),
            }
        }
    }

    fn error(&mut self, code: &'static str, message: impl Into<String>, span: &Span, help: Option<&str>) {
        let help = help.map(str::to_owned);
        self.found.push(Diagnostic::error(code, message).at(span).help_if(help));
    }

    /// Counts values and levels against the limits.
    fn count(&mut self, values: usize, depth: usize, span: &Span) -> Result<(), Stop> {
        self.nodes += values;
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values (aliases counted where they are used)");
            self.error("too-large", message, span, None);
            return Err(Stop);
        }
        if depth > MAX_DEPTH {
            self.error("too-deep", format!("nested more than {MAX_DEPTH} levels deep"), span, None);
            return Err(Stop);
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'t>, span: Span, place: Place<'_>) -> Result<Node, Stop> {
        let before = self.nodes;
        self.count(1, place.depth, &span)?;
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, self.scalar(&text, style, tag.as_deref(), span, place))
            }
            Event::SequenceStart(style, anchor, tag) => {
                (anchor, self.list(style, tag.as_deref(), span, place)?)
            }
            Event::MappingStart(style, anchor, tag) => {
                (anchor, self.map(style, tag.as_deref(), span, place)?)
            }
            Event::Alias(id) => return self.alias(id, &span, place),
            _ => return Ok(Node::null(span)),
        };
        if anchor != 0 {
            let size = self.nodes - before;
            self.anchors.insert(anchor, Anchored { depth: depth_of(&node), node: node.clone(), size });
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, span: &Span, place: Place<'_>) -> Result<Node, Stop> {
        let Some((size, depth)) = self.anchors.get(&id).map(|known| (known.size, known.depth)) else {
            // The anchor's own node is not finished yet.
            self.error("alias-in-itself", "an alias inside the value that it stands for", span, None);
            return Err(Stop);
        };
        self.count(size, place.depth + depth, span)?;
        Ok(self.anchors.get(&id).map_or_else(|| Node::null(span.clone()), |known| known.node.clone()))
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
        place: Place<'_>,
    ) -> Node {
        let plain = style == ScalarStyle::Plain;
        let (core, tag) = self.tag(tag, &span);
        let value = match core.as_deref() {
            None if tag.is_some() => Value::from(text),
            None if plain => {
                let value = resolve_plain(text);
                if self.dialect == Dialect::Native && !place.is_key {
                    self.ambiguous(text, &value, &span, place);
                }
                if is_big_integer(&value) {
                    return Node { value, span, tag: Some(BIG_INTEGER.to_owned()) };
                }
                value
            }
            None | Some("str") => Value::from(text),
            Some("null") => Value::Null,
            Some(name) => self.forced(name, text, &span),
        };
        Node { value, span, tag }
    }

    /// A tag as core name and as a tag of its own; one that nothing here reads is an error.
    fn tag(&mut self, tag: Option<&Tag>, span: &Span) -> (Option<String>, Option<String>) {
        let (core, own) = split_tag(tag);
        if let Some(unknown) = own.as_deref().filter(|own| !TAGS.contains(own)) {
            let near = did_you_mean(unknown, TAGS).map(|near| format!("did you mean `{near}`?"));
            let help = near.unwrap_or_else(|| format!("take it out; known are {}", TAGS.join(", ")));
            self.error("unknown-tag", format!("nothing here reads the tag `{unknown}`"), span, Some(&help));
        }
        (core, own)
    }

    /// A scalar with a core tag such as `!!int`.
    fn forced(&mut self, name: &str, text: &str, span: &Span) -> Value {
        match (name, resolve_plain(text)) {
            ("int", value @ (Value::Int(_) | Value::UInt(_)))
            | ("float", value @ Value::Float(_))
            | ("bool", value @ Value::Bool(_)) => value,
            ("float", Value::Int(value)) => Value::Float(value as f64),
            ("float", Value::UInt(value)) => Value::Float(value as f64),
            _ => {
                self.error("wrong-type", format!("`{text}` is no value of `!!{name}`"), span, None);
                Value::Null
            }
        }
    }

    /// Warns where a plain scalar is not what it looks like.
    fn ambiguous(&mut self, text: &str, value: &Value, span: &Span, place: Place<'_>) {
        let digits = text.trim_start_matches(['-', '+']);
        let (reads, write) = match value {
            Value::Bool(value)
                if !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false") =>
            {
                (format!("the boolean {value}"), format!("write {value}, or \"{text}\" for the text"))
            }
            // Octal is what is meant by a mode.
            Value::Int(_) if place.key.is_some_and(|key| key.ends_with("mode")) => return,
            Value::Int(value)
                if digits.len() > 1
                    && digits.bytes().all(|b| b.is_ascii_digit())
                    && digits.starts_with('0') =>
            {
                (format!("the octal number {value}"), format!("write {value}, or \"{text}\" for the text"))
            }
            Value::Int(value) if text.contains(':') => {
                (format!("{value} (base 60)"), format!("write {value}, or \"{text}\" for the text"))
            }
            Value::Float(_) if text.contains(':') => {
                ("a number in base 60".to_owned(), format!("write \"{text}\" for the text"))
            }
            _ => return,
        };
        self.found.push(
            Diagnostic::warning("ambiguous-scalar", format!("`{text}` is read as {reads}"))
                .at(span)
                .help(write),
        );
    }

    fn list(
        &mut self,
        style: StructureStyle,
        tag: Option<&Tag>,
        start: Span,
        place: Place<'_>,
    ) -> Result<Node, Stop> {
        let mut items: Vec<Node> = Vec::new();
        let end = loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                break span;
            }
            items.push(self.node(
                event,
                span,
                Place { depth: place.depth + 1, key: place.key, is_key: false },
            )?);
        };
        let extent = match (style, items.first(), items.last()) {
            (StructureStyle::Block, Some(first), Some(last)) => first.span.to(&last.span),
            _ => start.to(&end),
        };
        Ok(Node { value: Value::List(items), span: extent, tag: self.tag(tag, &start).1 })
    }

    fn map(
        &mut self,
        style: StructureStyle,
        tag: Option<&Tag>,
        start: Span,
        place: Place<'_>,
    ) -> Result<Node, Stop> {
        let expression = (style == StructureStyle::Flow).then(|| self.expression(&start)).flatten();
        if let Some(expression) = &expression {
            self.unquoted(expression);
        }
        let inner = place.depth + 1;
        let mut merged: Vec<(Node, Node)> = Vec::new();
        let mut own: Vec<(Node, Node)> = Vec::new();
        let (mut first, mut last) = (None, None);
        let end = loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break span;
            }
            let merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text.as_ref() == "<<");
            let quiet = matches!(event, Event::Scalar(..));
            let key = if expression.is_some() && !quiet {
                // The inside of an unquoted `{{ … }}` is not YAML; a diagnostic has been added for it already.
                self.skip(event)?;
                Node::null(span)
            } else {
                self.node(event, span, Place { depth: inner, key: None, is_key: true })?
            };
            let name = key.scalar_text();
            let (event, span) = self.next()?;
            let value =
                self.node(event, span, Place { depth: inner, key: name.as_deref(), is_key: false })?;
            first.get_or_insert_with(|| key.span.clone());
            last =
                Some(value.span.clone()).filter(|span| span.end >= key.span.end).or(Some(key.span.clone()));
            if merge {
                self.merge(&key, value, &mut merged);
            } else {
                if name.is_none() {
                    let message = format!("a key must be a scalar, not {}", key.value.kind());
                    self.error("bad-key", message, key.head_span(), None);
                    continue;
                }
                own.push((key, value));
            }
        };
        let extent = match (style, first, last) {
            (StructureStyle::Block, Some(first), Some(last)) => first.to(&last),
            _ => start.to(&end),
        };
        if expression.is_some() {
            return Ok(Node::null(extent));
        }
        Ok(Node { value: Value::Map(self.entries(merged, own)), span: extent, tag: self.tag(tag, &start).1 })
    }

    /// Adds the entries of a merge key (`<<`). Of several maps the earlier one wins, as in YAML's own definition and in PyYAML up to 6.0.3.
    fn merge(&mut self, key: &Node, value: Node, merged: &mut Vec<(Node, Node)>) {
        match value.value {
            Value::Map(entries) => merged.extend(entries),
            Value::List(items) => {
                for item in items.into_iter().rev() {
                    match item.value {
                        Value::Map(entries) => merged.extend(entries),
                        _ => self.error("bad-merge", "`<<` takes maps only", &item.span, None),
                    }
                }
            }
            _ => self.error("bad-merge", "`<<` takes a map or a list of maps", &key.span, None),
        }
    }

    /// Merged entries first, then the map's own, each key once: own entries win. One that is written twice is an error, or a warning in
    /// Ansible's files.
    fn entries(&mut self, merged: Vec<(Node, Node)>, own: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        let merged_count = merged.len();
        let mut seen: HashMap<(&'static str, String), (usize, bool)> = HashMap::new();
        let mut all: Vec<(Node, Node)> = Vec::with_capacity(merged_count + own.len());
        for (index, entry) in merged.into_iter().chain(own).enumerate() {
            let is_own = index >= merged_count;
            let name = (entry.0.value.kind(), entry.0.scalar_text().unwrap_or_default());
            match seen.get_mut(&name) {
                None => {
                    seen.insert(name, (all.len(), is_own));
                    all.push(entry);
                }
                Some((at, own_already)) => {
                    if let Some(known) = all.get_mut(*at) {
                        if *own_already && is_own {
                            // As Ansible: a warning, and the last one counts.
                            let message = format!("the key `{}` is written twice", name.1);
                            let problem = match self.dialect {
                                Dialect::Ansible => Diagnostic::warning(
                                    "duplicate-key",
                                    format!("{message}; the last one counts"),
                                ),
                                Dialect::Native => Diagnostic::error("duplicate-key", message),
                            };
                            self.found.push(
                                problem
                                    .label(&entry.0.span, "again here")
                                    .label(&known.0.span, "first here")
                                    .help("keep one of them"),
                            );
                        }
                        *known = entry;
                        *own_already = is_own;
                    }
                }
            }
        }
        all
    }

    /// Reads past a node without making anything of it.
    fn skip(&mut self, event: Event<'t>) -> Result<(), Stop> {
        let mut open = 0usize;
        let mut event = event;
        loop {
            match event {
                Event::MappingStart(..) | Event::SequenceStart(..) => open += 1,
                Event::MappingEnd | Event::SequenceEnd => open = open.saturating_sub(1),
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
            event = self.next()?.0;
        }
    }

    /// The `{{ … }}` that starts where a flow map starts, up to the end of its line at most.
    fn expression(&self, start: &Span) -> Option<Span> {
        let rest = self.source.text().get(start.start..)?;
        let line = rest.lines().next()?;
        if !line.starts_with("{{") {
            return None;
        }
        let length = line.find("}}").map_or(line.trim_end().len(), |at| at + 2);
        Some(Span::new(self.source.clone(), start.start, start.start + length))
    }

    fn unquoted(&mut self, expression: &Span) {
        let line = self.source.line_text(expression.line()).unwrap_or_default();
        let column = line.find(expression.text()).unwrap_or(0);
        let whole = line.get(column..).unwrap_or_default().trim_end();
        let whole = whole.split(" #").next().unwrap_or(whole).trim_end();
        let whole = flow_value(line.get(..column).unwrap_or_default(), whole);
        let quoted = if whole.contains('"') { format!("'{whole}'") } else { format!("\"{whole}\"") };
        self.error(
            "unquoted-expression",
            "an expression must be quoted: YAML reads `{` as the start of a map",
            expression,
            Some(&format!("quote the expression: {quoted}")),
        );
    }

    fn syntax_error(&mut self, error: &ScanError) {
        let text = self.source.text();
        let marker = error.marker();
        let at = marker.byte_offset().unwrap_or_else(|| {
            text.char_indices().nth(marker.index()).map_or(text.len(), |(offset, _)| offset)
        });
        let length = text
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .filter(|c| *c != '\n')
            .map_or(0, char::len_utf8);
        self.stopped = Some(at);
        let mut span = Span::new(self.source.clone(), at, at + length);
        let line = span.line();
        // An unquoted expression often breaks the syntax further on, sometimes before its map was seen.
        if self.found.iter().any(|known| {
            known.code == "unquoted-expression"
                && known.span().is_some_and(|span| line.abs_diff(span.line()) <= 1)
        }) {
            return;
        }
        for near in [line, line.saturating_sub(1)] {
            if let Some(expression) = self.expression_on(near) {
                return self.unquoted(&expression);
            }
        }
        // The parser complains of a tab at the end of the line before it.
        let kind = error.kind().to_string();
        if let Some(tab) = self.indenting_tab(line).filter(|_| kind.contains("tab")) {
            span = tab;
        }
        let shown = self.source.line_text(span.line()).unwrap_or_default();
        let before = shown
            .char_indices()
            .nth(span.column().saturating_sub(1))
            .map_or(shown, |(at, _)| shown.get(..at).unwrap_or(shown));
        let (message, help) = explain(&kind, shown, before);
        self.error("syntax", message, &span, help);
    }

    /// The first tab that indents a line, on this line or one of the next two.
    fn indenting_tab(&self, line: usize) -> Option<Span> {
        (line..line + 3).find_map(|line| {
            let text = self.source.line_text(line)?;
            let indent = text.get(..text.len() - text.trim_start().len())?;
            let at = self.source.line_start(line)? + indent.find('\t')?;
            Some(Span::new(self.source.clone(), at, at + 1))
        })
    }

    /// An expression that stands unquoted as the start of a value on a line.
    fn expression_on(&self, line: usize) -> Option<Span> {
        let text = self.source.line_text(line)?;
        let column = [": {{", "- {{"].iter().filter_map(|lead| text.find(lead)).min()? + 2;
        let start = self.source.line_start(line)? + column;
        self.expression(&Span::new(self.source.clone(), start, start))
    }
}

/// The value that begins with an expression: where a map or list in brackets is open before it, the value ends at the next comma or bracket.
fn flow_value<'t>(before: &str, text: &'t str) -> &'t str {
    let count = |brackets: [char; 2]| before.matches(brackets).count();
    if count(['{', '[']) <= count(['}', ']']) {
        return text;
    }
    let mut inside = false;
    let mut rest = text.char_indices().peekable();
    while let Some((at, letter)) = rest.next() {
        let doubled = rest.peek().is_some_and(|(_, next)| *next == letter);
        match letter {
            '{' if doubled => inside = true,
            '}' if doubled && inside => {
                inside = false;
                rest.next();
            }
            ',' | '}' | ']' if !inside => return text.get(..at).unwrap_or(text).trim_end(),
            _ => {}
        }
    }
    text
}

/// Plain words for what the parser says, with advice where the cause is known.
fn explain(kind: &str, line: &str, before: &str) -> (String, Option<&'static str>) {
    let tab = line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
    let help = if tab {
        Some("indent with spaces; YAML allows no tabs")
    } else if kind.contains("mapping values")
        || before.matches(": ").count() > 0 && kind.contains("simple key")
    {
        Some("a value that holds `: ` must be quoted")
    } else if kind.contains("quote") {
        Some("close the quote; in single quotes a quote is written twice")
    } else if kind.contains("unknown anchor") {
        Some("an alias `*name` needs an anchor `&name` before it in the same document")
    } else if kind.contains("bracket") || kind.contains("flow") {
        Some("check the brackets and commas; text with brackets or commas must be quoted")
    } else if kind.contains("block") || kind.contains("indent") {
        Some("check the indentation: the keys of a map and the items of a list start in the same column")
    } else {
        None
    };
    (format!("invalid YAML: {kind}"), help)
}

/// A tag as core name (`str`, `int` …) or as a tag of its own (`!vault`).
fn split_tag(tag: Option<&Tag>) -> (Option<String>, Option<String>) {
    let Some(tag) = tag else { return (None, None) };
    let full = format!("{}{}", tag.handle(), tag.suffix());
    match full.strip_prefix("tag:yaml.org,2002:") {
        Some(name @ ("str" | "int" | "float" | "bool" | "null" | "map" | "seq")) => {
            (Some(name.to_owned()), None)
        }
        Some(name) => (None, Some(format!("!!{name}"))),
        None if full == "!" => (Some("str".to_owned()), None),
        None => (None, Some(full)),
    }
}

/// Levels of lists and maps below a node, itself included.
fn depth_of(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| depth_of(value)).max().unwrap_or(0),
        _ => 0,
    }
}
