//! minijinja's errors as diagnostics that point into the source.

use std::collections::HashSet;

use converge_syntax::{Diagnostic, Diagnostics, Span, did_you_mean};
use minijinja::{Error, ErrorKind, Value};

use crate::ansible::{self, AnsibleSort};
use crate::chain::RewrittenText;
use crate::engine::Fail;
use crate::frame;
use crate::scope::Scope;
use crate::unclosed;

/// A template and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct TemplatePlace<'a> {
    /// The scalar, or the whole file.
    pub span: &'a Span,
    /// The text of the template, escapes and folds resolved.
    pub text: &'a str,
    /// The position of the compiled text in it.
    pub shift: usize,
    /// True if it is a file of its own.
    pub file: bool,
    /// The text that was compiled instead of `text`, if it was rewritten.
    pub rewritten: Option<&'a RewrittenText>,
}

impl<'a> TemplatePlace<'a> {
    /// A scalar, with the position of the compiled text in it.
    pub fn scalar(span: &'a Span, text: &'a str, shift: usize) -> Self {
        Self { span, text, shift, file: false, rewritten: None }
    }

    /// A file, of which this span is all.
    pub fn file(whole: &'a Span, text: &'a str) -> Self {
        Self { span: whole, text, shift: 0, file: true, rewritten: None }
    }

    /// The bytes of the template as a span of the source; the whole scalar where they cannot be found in it.
    pub fn span_of(&self, range: std::ops::Range<usize>) -> Span {
        self.span_of_text(match self.rewritten {
            Some(rewritten) => rewritten.original(range),
            None => range,
        })
    }

    /// The same for bytes of the text as it was written.
    fn span_of_text(&self, range: std::ops::Range<usize>) -> Span {
        let (start, end) = (range.start + self.shift, range.end + self.shift);
        let placed = |offset: usize, length: usize| {
            let start = self.span.start + offset;
            Span::new(self.span.source.clone(), start, start + length)
        };
        let length = end.saturating_sub(start);
        if self.file {
            return placed(start, length);
        }
        let raw = self.span.text();
        // Plain and simply quoted scalars stand in the source as they are.
        if let Some(offset) = raw.find(self.text) {
            return placed(offset + start, length);
        }
        // Blocks and folded scalars: the line that the error is on, or else the words at fault, where they stand only once.
        let line_start = self.text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let line = self.text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let once = |needle: &str| {
            let offset = raw.find(needle).filter(|_| !needle.is_empty())?;
            (raw.rfind(needle) == Some(offset)).then_some(offset)
        };
        if let Some(offset) = once(line) {
            return placed(offset + start - line_start, length);
        }
        match self.text.get(start..end).and_then(once) {
            Some(offset) => placed(offset, length),
            None => self.span.clone(),
        }
    }
}

/// The beginning of what the engine says of a method of none.
const NO_METHOD: &str = "none has no method named ";

/// The path between backticks in "`a.b` is undefined".
fn undefined_path(detail: &str) -> Option<&str> {
    let end = detail.find("` is undefined")?;
    let start = detail.get(..end)?.rfind('`')? + 1;
    detail.get(start..end)
}

/// Turns an error into a failure with diagnostics.
pub(crate) fn explain(error: &Error, place: TemplatePlace<'_>, scope: &Scope) -> Fail {
    // An error in an included template comes inside one of the template that includes it.
    let inner = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Error>());
    if let Some(inner) = inner.filter(|_| error.kind() == ErrorKind::BadInclude) {
        return explain(inner, place, scope);
    }
    if let Some(source) = error.name().and_then(|name| scope.engine().included(name)) {
        let whole = Span::whole(source.clone());
        let here = TemplatePlace::file(&whole, source.content());
        return describe(error, here, scope);
    }
    describe(error, place, scope)
}

fn describe(error: &Error, place: TemplatePlace<'_>, scope: &Scope) -> Fail {
    let span = error.range().map_or_else(|| place.span.clone(), |range| place.span_of(range));
    let detail = error.detail().unwrap_or_default();
    if error.kind() == ErrorKind::UndefinedError {
        return match undefined_path(detail) {
            Some(path) => undefined(path, &span, scope),
            None => {
                let message = if detail.is_empty() { "an undefined value is used" } else { detail };
                Fail::Undefined(Diagnostic::error("undefined", message).at(&span).into())
            }
        };
    }
    let is_secret = frame::note(|notes| notes.sensitive) == Some(true);
    // `map` and `select` take a name as a value: a secret is shown only where the text itself has it.
    let is_shown = |name: &&str| !is_secret || (!place.span.source.is_secret() && place.text.contains(name));
    let quoted = |lead: &str| {
        let name = detail.strip_prefix(lead).and_then(|rest| rest.strip_suffix(" is unknown"));
        name.filter(is_shown).map(str::to_owned)
    };
    let unknown = |what: &str, name: String, help: Option<String>| {
        Diagnostic::error("unknown-filter", format!("there is no {what} `{name}`")).at(&span).help_if(help)
    };
    let diagnostic = match error.kind() {
        ErrorKind::UnknownFilter => match quoted("filter ") {
            Some(name) => {
                let help = ansible::help(AnsibleSort::Filter, &name);
                unknown("filter", name, help)
            }
            None => {
                Diagnostic::error("unknown-filter", "a filter that does not exist is named here").at(&span)
            }
        },
        ErrorKind::UnknownTest => match quoted("test ") {
            Some(name) => {
                let help = ansible::help(AnsibleSort::Test, &name);
                unknown("test", name, help)
            }
            None => Diagnostic::error("unknown-filter", "a test that does not exist is named here").at(&span),
        },
        ErrorKind::UnknownFunction => {
            let name = quoted("").unwrap_or_default();
            let known = ["lookup", "query", "now", "range", "dict", "namespace"];
            let near = did_you_mean(&name, known).map(|near| format!("did you mean `{near}`?"));
            unknown("function", name, near)
        }
        ErrorKind::SyntaxError => invalid(detail, &span, place),
        ErrorKind::OutOfFuel => Diagnostic::error("template-endless", "the template takes too many steps")
            .at(&span)
            .help("look for a loop over too many items"),
        // The name can be the value of a variable.
        ErrorKind::TemplateNotFound if is_secret => Diagnostic::error(
            "template-include",
            "this template cannot be included; its name is not shown, since the expression reads a secret",
        )
        .at(&span)
        .help("put it into the role's folder `templates/`, and write its path from there"),
        ErrorKind::TemplateNotFound => {
            Diagnostic::error("template-include", format!("this template cannot be included: {detail}"))
                .at(&span)
                .help("put it into the role's folder `templates/`, and write its path from there")
        }
        // The message of a filter may contain the value that the filter got.
        _ if is_secret => Diagnostic::error(
            "template",
            "the expression fails; the reason is not shown, since it reads a secret",
        )
        .at(&span),
        ErrorKind::UnknownMethod if detail.starts_with(NO_METHOD) => {
            no_method(detail, before(error, place), &span)
        }
        kind => {
            let mut message = if detail.is_empty() { kind.to_string() } else { detail.to_owned() };
            if let Some(cause) = std::error::Error::source(error) {
                message = format!("{message}: {cause}");
            }
            Diagnostic::error("template", message).at(&span)
        }
    };
    Fail::Fatal(diagnostic.into())
}

/// A template that cannot be parsed.
fn invalid(detail: &str, span: &Span, place: TemplatePlace<'_>) -> Diagnostic {
    let error = |message: String| Diagnostic::error("template-syntax", message);
    if detail.ends_with("expected end of variable block") {
        return error(format!("the expression does not end: {detail}"))
            .at(span)
            .help("write }} where it ends, and a sign between two values");
    }
    if detail.starts_with("unexpected end of input") {
        let open = unclosed::innermost(place.text);
        let message = match &open {
            Some(open) => format!("the block `{}` is not closed", open.name),
            None => format!("invalid template: {detail}"),
        };
        let at = open.as_ref().map_or_else(|| span.clone(), |open| place.span_of_text(open.range.clone()));
        let help = open.map(|open| format!("write {{% end{} %}} where it ends", open.name));
        return error(message).at(&at).help_if(help);
    }
    let closes = detail.strip_prefix("unknown statement end");
    let help = closes.map(|block| {
        format!("no {{% {block} %}} is open here, or a block inside it is not closed: write its end first")
    });
    error(format!("invalid template: {detail}")).at(span).help_if(help)
}

/// The text before the place at fault.
fn before<'a>(error: &Error, place: TemplatePlace<'a>) -> &'a str {
    error.range().and_then(|range| place.text.get(..range.start)).unwrap_or_default()
}

/// A method of none. The range of the error begins behind the value, which ends the text `before`.
fn no_method(detail: &str, before: &str, span: &Span) -> Diagnostic {
    let method = detail.strip_prefix(NO_METHOD).unwrap_or_default();
    let is_of_path = |c: char| c.is_alphanumeric() || "_.[]'\"".contains(c);
    let of = before.rsplit(|c| !is_of_path(c)).next().filter(|of| !of.is_empty());
    let of = of.map_or_else(|| "the value".to_owned(), |of| format!("`{of}`"));
    Diagnostic::error("template", format!("{of} is none, and none has no method `{method}`"))
        .at(span)
        .help("a fact is none where the host does not tell it: ask before with `is not none`, or give a value with `| default('…', true)`")
}

/// The failure of an evaluation in which the engine panicked.
pub(crate) fn gave_up(why: &str, place: TemplatePlace<'_>) -> Fail {
    // The reason may quote a value.
    let is_secret = frame::note(|notes| notes.sensitive) == Some(true);
    let why = if is_secret { "the reason is not shown, since it reads a secret" } else { why };
    let diagnostic = Diagnostic::error("template-engine", format!("the template engine gave up on this: {why}"))
        .at(place.span)
        .help("write it in another way, with smaller parts in variables; this is an error in converge, please report it");
    Fail::Fatal(diagnostic.into())
}

/// An undefined name or attribute, with the nearest one that exists.
fn undefined(path: &str, span: &Span, scope: &Scope) -> Fail {
    let root = path.split(['.', '[']).next().unwrap_or(path);
    if let Some(why) = frame::note(|notes| notes.undefined.get(root).cloned()).flatten() {
        // The variable exists, but its own value uses something undefined: that is the place to correct.
        let why = why.into_iter().map(|inner| inner.label(span, format!("used here, through `{root}`")));
        return Fail::Undefined(why.collect::<Diagnostics>());
    }
    let diagnostic = Diagnostic::error("undefined", format!("`{path}` is undefined")).at(span);
    let mut help = None;
    if !scope.has(root) {
        let rest = span.source.text().get(span.start..).unwrap_or_default();
        let rest = rest.find(root).and_then(|at| rest.get(at..)).filter(|_| !span.source.is_secret());
        let ansible = ansible::ansible_variable(root, rest.unwrap_or(root)).map(str::to_owned);
        help = ansible
            .or_else(|| did_you_mean(root, scope.names()).map(|near| format!("did you mean `{near}`?")))
            .or_else(|| {
                Some("declare it in `inputs` or `vars` of the role, or set it in the inventory".to_owned())
            });
    } else if path.contains('.') {
        let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
        if let Some(value) = walk(scope, parent) {
            let keys: Vec<String> = value
                .try_iter()
                .into_iter()
                .flatten()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect();
            help = did_you_mean(last, keys.iter().map(String::as_str))
                .map(|near| format!("did you mean `{parent}.{near}`?"));
        }
    }
    Fail::Undefined(diagnostic.help_if(help).into())
}

/// The value at a dotted path; `None` where it is undefined.
fn walk(scope: &Scope, path: &str) -> Option<Value> {
    let mut steps = path.split('.');
    let mut value = scope.look_up(steps.next()?, "")?;
    for step in steps {
        value = value.get_attr(step).ok()?;
    }
    (!value.is_undefined()).then_some(value)
}

/// The failure of an expression that came to nothing: the first of its paths that is undefined.
pub(crate) fn first_undefined(
    paths: HashSet<String>,
    expression: &str,
    place: TemplatePlace<'_>,
    scope: &Scope,
) -> Fail {
    let mut paths: Vec<(usize, String)> =
        paths.into_iter().map(|path| (expression.find(&path).unwrap_or(usize::MAX), path)).collect();
    paths.sort();
    for (offset, path) in paths {
        let mut so_far = String::new();
        for step in path.split('.') {
            if !so_far.is_empty() {
                so_far.push('.');
            }
            so_far.push_str(step);
            if walk(scope, &so_far).is_none() {
                let span = if offset == usize::MAX {
                    place.span.clone()
                } else {
                    place.span_of(offset..offset + so_far.len())
                };
                return undefined(&so_far, &span, scope);
            }
        }
    }
    let message = format!("`{expression}` is undefined");
    let span = place.span_of(0..expression.len());
    Fail::Undefined(Diagnostic::error("undefined", message).at(&span).into())
}
