//! Typed inputs of a role: their declaration and the check of a value against it.

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, UNSAFE_TAG, Value, resolve_plain};

use crate::fields::{check_map, flag, has_template, is_template, nearest, string, wrong_type};

/// The type of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum InputType {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Float,
    /// Text.
    Str,
    /// An absolute path.
    Path,
    /// A list, with the type of its items where one is declared.
    List(Option<Box<InputType>>),
    /// A map, with the type of its values where one is declared.
    Map(Option<Box<InputType>>),
    /// One of these values.
    Enum(Vec<Node>),
}

const TYPES: [&str; 8] = ["bool", "int", "float", "str", "list", "map", "path", "enum"];
/// The keys of an input.
pub const KEYS: [&str; 10] =
    ["type", "choices", "min", "max", "pattern", "items", "default", "required", "help", "sensitive"];

/// A declared input of a role.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// The place of the name.
    pub span: Span,
    /// The type of its values.
    pub ty: InputType,
    /// Least number, or least length of text, list or map.
    pub min: Option<f64>,
    /// Greatest number, or greatest length of text, list or map.
    pub max: Option<f64>,
    /// The pattern that text must match, from start to end.
    pub pattern: Option<regex::Regex>,
    /// The value where no layer of variables gives one.
    pub default: Option<Node>,
    /// Must some layer give a value?
    pub required: bool,
    /// Its purpose, for people.
    pub help: Option<String>,
    /// Its value is a secret.
    pub sensitive: bool,
}

impl InputType {
    /// The name with its article, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Int => "an integer".into(),
            Self::Float => "a number".into(),
            Self::Str => "a string".into(),
            Self::Path => "an absolute path".into(),
            Self::List(None) => "a list".into(),
            Self::List(Some(inner)) => format!("a list (each item {})", inner.describe()),
            Self::Map(None) => "a map".into(),
            Self::Map(Some(inner)) => format!("a map (each value {})", inner.describe()),
            Self::Enum(choices) => {
                let names: Vec<String> = choices.iter().filter_map(Node::scalar_text).collect();
                format!("one of: {}", names.join(", "))
            }
        }
    }

    /// Whether a plain scalar of this value fits a number or a boolean.
    fn fits_plain(&self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::Int | Self::Float, Value::Int(_) | Value::UInt(_))
                | (Self::Float, Value::Float(_))
                | (Self::Bool, Value::Bool(_))
        )
    }

    fn is_text(&self) -> bool {
        match self {
            Self::Str | Self::Path => true,
            Self::Enum(choices) => choices.iter().all(|choice| choice.as_str().is_some()),
            _ => false,
        }
    }
}

impl Input {
    /// Reads one declaration, with every diagnostic about it.
    pub(crate) fn read(name: &Node, node: &Node, diags: &mut Diagnostics) -> Option<Self> {
        let text = name.as_str().unwrap_or_default();
        if let Some(kind) = node.as_str().filter(|kind| TYPES.contains(kind)) {
            diags.push(
                wrong_type(node, &format!("the input `{text}`"), "a map")
                    .help(format!("write `{text}: {{type: {kind}}}`")),
            );
            return None;
        }
        if !check_map(node, &format!("the input `{text}`"), &KEYS, diags) {
            return None;
        }
        let ty = read_type(node, text, &name.span, diags);
        let pattern = string(node, "pattern", diags).and_then(|pattern| {
            match regex::Regex::new(&format!("^(?:{})$", pattern.value)) {
                Ok(regex) => Some(regex),
                Err(error) => {
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or("").trim().trim_start_matches("error: ");
                    diags.push(
                        Diagnostic::error(
                            "bad-pattern",
                            format!("`pattern` is no regular expression: {reason}"),
                        )
                        .at(&pattern.span),
                    );
                    None
                }
            }
        });
        let mut limit = |key: &str| {
            let value = node.get(key)?;
            if value.as_f64().is_none() {
                diags.push(wrong_type(value, &format!("`{key}`"), "a number"));
            }
            value.as_f64()
        };
        let (min, max) = (limit("min"), limit("max"));
        let default = node.get("default").cloned();
        let required = flag(node, "required", diags);
        if let (true, Some(default)) = (required, &default) {
            diags.push(
                Diagnostic::error("bad-input", format!("the input `{text}` is required and has a default"))
                    .label(&default.span, "never used")
                    .help("remove `required` or `default`"),
            );
        }
        let input = Self {
            name: text.to_owned(),
            span: name.span.clone(),
            ty: ty?,
            min,
            max,
            pattern,
            default,
            required,
            help: string(node, "help", diags).map(|help| help.value),
            sensitive: flag(node, "sensitive", diags),
        };
        input.check_limits(node, diags);
        // An absent value is a legal default: the input is then null until a layer sets it.
        if let Some(default) =
            input.default.as_ref().filter(|default| !has_template(default) && !default.is_null())
            && let Err(more) = input.check(default, false)
        {
            diags.extend(more);
        }
        Some(input)
    }

    fn check_limits(&self, node: &Node, diags: &mut Diagnostics) {
        let name = &self.name;
        let takes_limits = !matches!(self.ty, InputType::Bool | InputType::Enum(_));
        for (key, takes) in [("min", takes_limits), ("max", takes_limits), ("pattern", self.ty.is_text())] {
            if let (false, Some(span)) = (takes, node.key_span(key)) {
                diags.push(
                    Diagnostic::error(
                        "bad-input",
                        format!("`{key}` says nothing about {}", self.ty.describe()),
                    )
                    .label(span, format!("of the input `{name}`"))
                    .help("remove it"),
                );
            }
        }
        if let (Some(min), Some(max), Some(span)) = (self.min, self.max, node.key_span("max"))
            && min > max
        {
            diags.push(
                Diagnostic::error("bad-input", format!("no value of `{name}` is between {min} and {max}"))
                    .label(span, "less than `min`"),
            );
        }
    }

    /// Checks a value and gives it in the input's type: an integer for a `float` becomes a number, and text from
    /// `--set` (a span without a file) is read as the type asks.
    ///
    /// # Errors
    /// Every diagnostic, at the place of the value. Where the input or this value is a secret (`secret`), the value is not in them.
    pub fn check(&self, value: &Node, secret: bool) -> Result<Node, Diagnostics> {
        let mut diags = Diagnostics::new();
        let checked = self.fit(value, &self.ty, &format!("the input `{}`", self.name), &mut diags);
        if diags.is_empty() {
            self.limits(&checked, &mut diags);
        }
        if self.sensitive || secret {
            for diagnostic in &mut diags.0 {
                diagnostic.message = format!(
                    "the input `{}` must be {} (its value is sensitive and is not shown)",
                    self.name,
                    self.ty.describe()
                );
                diagnostic.help = None;
                // The snippet of a report would show the line that the secret stands in.
                let set = diagnostic.span().map(|span| format!("; it is set at {span}")).unwrap_or_default();
                diagnostic.labels = vec![(self.span.clone(), format!("declared here{set}"))];
            }
        }
        if diags.is_empty() { Ok(checked) } else { Err(diags) }
    }

    fn fit(&self, node: &Node, ty: &InputType, what: &str, diags: &mut Diagnostics) -> Node {
        let set = node.span.source.text().is_empty();
        let node = match node.as_str() {
            // `--set` is text: `--set n=3` is the number 3 for an int, and `--set v=1.30` stays text for a str.
            Some(text) if set && !ty.is_text() => {
                &Node { value: resolve_plain(text), span: node.span.clone(), tag: None }
            }
            _ => node,
        };
        match (ty, &node.value) {
            (InputType::Bool, Value::Bool(_))
            | (InputType::Int, Value::Int(_) | Value::UInt(_))
            | (InputType::Float, Value::Float(_))
            | (InputType::Str, Value::String(_)) => {}
            (InputType::Float, Value::Int(_) | Value::UInt(_)) => {
                let value = Value::Float(node.as_f64().unwrap_or_default());
                return Node { value, ..node.clone() };
            }
            (InputType::Path, Value::String(text)) => {
                if !text.starts_with('/') || text.contains('\0') {
                    diags.push(
                        Diagnostic::error("bad-value", format!("{what} must be an absolute path"))
                            .label(node.head_span(), "does not start with /"),
                    );
                }
            }
            (InputType::List(inner), Value::List(items)) => {
                if let Some(inner) = inner {
                    let label = format!("an item of {what}");
                    let items = items.iter().map(|item| self.fit(item, inner, &label, diags)).collect();
                    return Node { value: Value::List(items), ..node.clone() };
                }
            }
            (InputType::Map(inner), Value::Map(entries)) => {
                if let Some(inner) = inner {
                    let label = format!("a value of {what}");
                    let entries = entries
                        .iter()
                        .map(|(key, value)| (key.clone(), self.fit(value, inner, &label, diags)))
                        .collect();
                    return Node { value: Value::Map(entries), ..node.clone() };
                }
            }
            (InputType::Enum(choices), _) => {
                if !choices.iter().any(|choice| choice.value == node.value) {
                    let names: Vec<String> = choices.iter().filter_map(Node::scalar_text).collect();
                    let word = node.scalar_text().unwrap_or_default();
                    diags.push(
                        Diagnostic::error("bad-value", format!("{what} cannot be {}", node.describe()))
                            .label(node.head_span(), "not one of the choices")
                            .help(nearest(&word, names.iter().map(String::as_str))),
                    );
                }
            }
            _ => {
                let literal = node.span.text().trim();
                let scalar = !matches!(node.value, Value::Null | Value::List(_) | Value::Map(_));
                let quotable = ty.is_text() && scalar && !literal.is_empty() && !literal.contains('\n');
                let mut help = quotable.then(|| match is_template(literal) {
                    true => "convert it: {{ … | string }}".to_owned(),
                    false => format!("write it in quotes: \"{literal}\""),
                });
                // `"8080"` for a number, `"yes"` for a boolean.
                if let Some(text) = node.as_str().filter(|text| ty.fits_plain(&resolve_plain(text))) {
                    help = Some(format!("write it without quotes: {text}"));
                }
                diags.push(wrong_type(node, what, &ty.describe()).help_if(help));
            }
        }
        node.clone()
    }

    fn limits(&self, node: &Node, diags: &mut Diagnostics) {
        let (measure, unit) = match &node.value {
            Value::String(text) => (text.chars().count() as f64, " characters"),
            Value::List(items) => (items.len() as f64, " items"),
            Value::Map(entries) => (entries.len() as f64, " entries"),
            _ => match node.as_f64() {
                Some(number) => (number, ""),
                None => return,
            },
        };
        let name = &self.name;
        for (limit, bad, word) in [
            (self.min, self.min.is_some_and(|min| measure < min), "least"),
            (self.max, self.max.is_some_and(|max| measure > max), "most"),
        ] {
            if let (true, Some(limit)) = (bad, limit) {
                diags.push(
                    Diagnostic::error(
                        "bad-value",
                        format!("the input `{name}` must be at {word} {limit}{unit}"),
                    )
                    .label(node.head_span(), format!("this is {measure}{unit}")),
                );
            }
        }
        if let (Some(pattern), Some(text)) = (&self.pattern, node.as_str())
            && !pattern.is_match(text)
        {
            let shown = pattern.as_str();
            let shown = shown.strip_prefix("^(?:").and_then(|s| s.strip_suffix(")$")).unwrap_or(shown);
            diags.push(
                Diagnostic::error("bad-value", format!("the input `{name}` has an invalid format"))
                    .label(node.head_span(), format!("must match {shown}")),
            );
        }
    }
}

fn read_type(node: &Node, name: &str, at: &Span, diags: &mut Diagnostics) -> Option<InputType> {
    let choices = node.get("choices");
    let declared = node.get("type");
    let ty = match (declared, choices) {
        (None, Some(_)) => "enum",
        (None, None) => {
            diags.push(
                Diagnostic::error("missing-key", format!("the input `{name}` has no type"))
                    .label(at, "`type` is missing")
                    .help(format!("one of: {}", TYPES.join(", "))),
            );
            return None;
        }
        (Some(declared), _) => type_name(declared, diags)?,
    };
    let items = node.get("items").and_then(|items| {
        let inner = match items.as_map() {
            Some(_) => {
                check_map(items, "`items`", &["type", "choices", "items"], diags);
                read_type(items, &format!("{name}` (its items) `"), &items.span, diags)
            }
            None => match type_name(items, diags) {
                Some(ty) => simple(ty),
                None => None,
            },
        };
        inner.map(Box::new)
    });
    if let (Some(span), false) = (node.key_span("items"), matches!(ty, "list" | "map")) {
        diags.push(
            Diagnostic::error("bad-input", "`items` belongs to a list or a map")
                .label(span, format!("the input `{name}` is of type {ty}")),
        );
    }
    if let (Some(span), false) = (node.key_span("choices"), ty == "enum") {
        diags.push(
            Diagnostic::error("bad-input", "`choices` belongs to the type enum")
                .label(span, format!("the input `{name}` is of type {ty}"))
                .help("write `type: enum`, or remove `type`"),
        );
        return None;
    }
    match ty {
        "list" => Some(InputType::List(items)),
        "map" => Some(InputType::Map(items)),
        "enum" => match choices.and_then(Node::as_list).filter(|choices| !choices.is_empty()) {
            Some(list) => {
                for choice in list.iter().filter(|choice| choice.scalar_text().is_none()) {
                    diags.push(wrong_type(choice, "a choice", "a string, number or boolean"));
                }
                list.iter().for_each(|choice| misread_choice(choice, diags));
                Some(InputType::Enum(list.to_vec()))
            }
            None => {
                let span = choices.map_or(at, |choices| &choices.span);
                diags.push(
                    Diagnostic::error("missing-key", format!("the input `{name}` has no choices"))
                        .label(span, "an enum needs them")
                        .help("write `choices: [a, b]`"),
                );
                None
            }
        },
        other => simple(other),
    }
}

/// `NO` and `on` among the choices are booleans for YAML, where text is meant.
fn misread_choice(choice: &Node, diags: &mut Diagnostics) {
    let written = choice.span.text().trim();
    let (Value::Bool(value), false) =
        (&choice.value, ["true", "false"].contains(&written.to_lowercase().as_str()))
    else {
        return;
    };
    // The remark about the scalar says less.
    diags.0.retain(|d| {
        !(d.code == "ambiguous-scalar" && d.span().is_some_and(|s| s.start == choice.span.start))
    });
    diags.push(
        Diagnostic::error(
            "ambiguous-choice",
            format!("the choice `{written}` is read as the boolean {value}"),
        )
        .label(&choice.span, "a choice is text")
        .help(format!("write it in quotes: \"{written}\"")),
    );
}

fn simple(name: &str) -> Option<InputType> {
    Some(match name {
        "bool" => InputType::Bool,
        "int" => InputType::Int,
        "float" => InputType::Float,
        "str" => InputType::Str,
        "path" => InputType::Path,
        "list" => InputType::List(None),
        "map" => InputType::Map(None),
        _ => return None,
    })
}

fn type_name(node: &Node, diags: &mut Diagnostics) -> Option<&'static str> {
    let Some(text) = node.as_str() else {
        diags.push(wrong_type(node, "`type`", "a string").help(format!("one of: {}", TYPES.join(", "))));
        return None;
    };
    let alias = match text {
        "string" | "text" => "str",
        "integer" => "int",
        "boolean" => "bool",
        "number" => "float",
        "dict" | "object" => "map",
        "array" => "list",
        other => other,
    };
    let found = TYPES.iter().find(|name| **name == text).copied();
    if found.is_none() {
        let help = if TYPES.contains(&alias) { format!("write `{alias}`") } else { nearest(text, TYPES) };
        let message = format!("there is no type `{text}`");
        diags.push(Diagnostic::error("unknown-type", message).label(&node.span, "not a type").help(help));
    }
    found
}

/// A value given by `--set NAME=VALUE`: text; a value that looks like a YAML list or map is read as one, and a template
/// stays a template, unless the text is taken `literally`.
pub(crate) fn set_value(text: &str, literally: bool, span: &Span) -> Node {
    let mut node = set_node(text, !literally && is_template(text), span);
    if literally {
        take_literally(&mut node);
    }
    node
}

/// Marks all texts below a node as no templates.
fn take_literally(node: &mut Node) {
    match &mut node.value {
        Value::String(_) => node.tag = Some(UNSAFE_TAG.to_owned()),
        Value::List(items) => items.iter_mut().for_each(take_literally),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| take_literally(value)),
        _ => {}
    }
}

fn set_node(text: &str, is_template: bool, span: &Span) -> Node {
    let trimmed = text.trim_start();
    if (trimmed.starts_with('[') || trimmed.starts_with('{')) && !is_template {
        let source = converge_syntax::Source::new(span.source.name(), text);
        if let Ok(mut documents) = converge_syntax::parse_yaml(source, converge_syntax::Dialect::Ansible)
            && documents.len() == 1
            && let Some(node) = documents.pop()
        {
            return Node::from_json(&node.to_json(), span);
        }
    }
    Node::new(text, span.clone())
}
