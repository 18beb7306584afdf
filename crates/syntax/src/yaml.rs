//! YAML text to nodes: anchors, merge keys, tags, duplicate keys, limits; plain scalars mean what they mean in Ansible.
//!
//! Built on the events of `granit-parser` (the parser below serde-saphyr), since only they say how a scalar was quoted.

mod explain;

use explain::{MAX_GLUED, TAGS, depth_of, glued_comment, split_tag};
use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle, Tag};

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
/// Reads all documents of a source; none where it holds only comments. Warnings are dropped.
///
/// # Errors
/// Every diagnostic that could be found in one pass.
pub fn parse_yaml(source: Arc<Source>, dialect: Dialect) -> Result<Vec<Node>, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    parse_yaml_into(source, dialect, &mut diagnostics).ok_or(diagnostics)
}

/// As [`parse_yaml`], with diagnostics and warnings added to a list; `None` where there was an error.
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

/// The documents, the diagnostics, and where the parser stopped.
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

/// The diagnostic is recorded; nothing more can be read.
struct Unreadable;

/// A node that an alias can stand for.
struct AnchoredNode {
    node: Node,
    size: usize,
    depth: usize,
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    source: Arc<Source>,
    dialect: Dialect,
    found: Diagnostics,
    anchors: HashMap<usize, AnchoredNode>,
    nodes: usize,
    /// The offset of the syntax error.
    stopped: Option<usize>,
}

/// The place of a node in the tree.
#[derive(Clone, Copy)]
struct NodePlace<'a> {
    depth: usize,
    /// The key that the value stands under.
    key: Option<&'a str>,
    /// True if the node is a key itself.
    is_key: bool,
}

impl<'t> Composer<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Unreadable> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                let start = span.start.byte_offset().unwrap_or(0);
                let end = span.end.byte_offset().unwrap_or(start);
                Ok((event, Span::new(self.source.clone(), start, end)))
            }
            Some(Err(error)) => {
                self.syntax_error(&error);
                Err(Unreadable)
            }
            None => Ok((Event::StreamEnd, Span::new(self.source.clone(), 0, 0))),
        }
    }

    fn documents(&mut self) -> Result<Vec<Node>, Unreadable> {
        let mut documents = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(documents),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ => documents.push(self.node(
                    event,
                    span,
                    NodePlace { depth: 0, key: None, is_key: false },
                )?),
            }
        }
    }

    fn error(&mut self, code: &'static str, message: impl Into<String>, span: &Span, help: Option<&str>) {
        let help = help.map(str::to_owned);
        self.found.push(Diagnostic::error(code, message).at(span).help_if(help));
    }

    /// Counts values and levels against the limits.
    fn count(&mut self, values: usize, depth: usize, span: &Span) -> Result<(), Unreadable> {
        self.nodes += values;
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values (aliases counted where they are used)");
            self.error("too-large", message, span, None);
            return Err(Unreadable);
        }
        if depth > MAX_DEPTH {
            self.error("too-deep", format!("nested more than {MAX_DEPTH} levels deep"), span, None);
            return Err(Unreadable);
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'t>, span: Span, place: NodePlace<'_>) -> Result<Node, Unreadable> {
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
            self.anchors.insert(anchor, AnchoredNode { depth: depth_of(&node), node: node.clone(), size });
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, span: &Span, place: NodePlace<'_>) -> Result<Node, Unreadable> {
        let Some((size, depth)) = self.anchors.get(&id).map(|known| (known.size, known.depth)) else {
            // The anchor's own node is not finished yet.
            self.error("alias-in-itself", "an alias inside the value that it stands for", span, None);
            return Err(Unreadable);
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
        place: NodePlace<'_>,
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
    fn ambiguous(&mut self, text: &str, value: &Value, span: &Span, place: NodePlace<'_>) {
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
        place: NodePlace<'_>,
    ) -> Result<Node, Unreadable> {
        let mut items: Vec<Node> = Vec::new();
        let end = loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                break span;
            }
            items.push(self.node(
                event,
                span,
                NodePlace { depth: place.depth + 1, key: place.key, is_key: false },
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
        place: NodePlace<'_>,
    ) -> Result<Node, Unreadable> {
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
                self.node(event, span, NodePlace { depth: inner, key: None, is_key: true })?
            };
            let name = key.scalar_text();
            let (event, span) = self.next()?;
            let value =
                self.node(event, span, NodePlace { depth: inner, key: name.as_deref(), is_key: false })?;
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
        let mut observed: HashMap<(&'static str, String), (usize, bool)> = HashMap::new();
        let mut all: Vec<(Node, Node)> = Vec::with_capacity(merged_count + own.len());
        for (index, entry) in merged.into_iter().chain(own).enumerate() {
            let is_own = index >= merged_count;
            let name = (entry.0.value.kind(), entry.0.scalar_text().unwrap_or_default());
            match observed.get_mut(&name) {
                None => {
                    observed.insert(name, (all.len(), is_own));
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
    fn skip(&mut self, event: Event<'t>) -> Result<(), Unreadable> {
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
}
