//! Limits of one template: the nesting of its text and the size of its output. minijinja limits only the number of steps.
//!
//! * The parser and the code generator call themselves once for each level and each link of a chain (`1 + 1 + …`), so the depth of a text
//!   is counted before it is parsed.
//! * What the operators `+`, `~` and `*`, a slice, a list, a tuple or a map makes is measured when it is made: each of them is
//!   compiled inside a filter that measures (see [`crate::guards`] and [`crate::measure`]). So is what is put into a namespace.
//! * What a filter or a function is given and makes is measured by [`crate::registry`]. One that can make much from little
//!   is checked before it begins as well.
//! * A slice becomes a call of a filter of this crate (see [`crate::slices`]).
//! * The elements and bytes that filters handle are counted: minijinja counts a filter as one step, however long its list is.
//! * Output is counted while it is written.
//! * Each evaluation has enough of the stack for a value and for calls of macros as deep as they may be.

use std::cell::Cell;
use std::io::Write;

use minijinja::filters as builtin;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};

use crate::measure::{self, Measure, measure};
use crate::registry::Registry;

/// Levels and links of one expression; statements in each other.
const DEPTH: usize = 100;

/// Bytes of one text that an expression makes, and of all that one template writes: as much as a file may have.
pub(crate) const BYTES: usize = if cfg!(test) { 1 << 14 } else { 64 << 20 };

/// Elements of one list, and of all lists and maps in each other.
pub(crate) const ELEMENTS: usize = 1_000_000;

/// The filter behind each operator that can make its operands grow.
pub(crate) const BOUNDED: &str = "__bounded";

/// The filter behind each list, tuple and map, and before all that is written into a text or put into a namespace.
pub(crate) const MEASURED: &str = "__measured";

/// The filter behind what is put into a namespace, which must not lead back to it.
pub(crate) const NAMESPACED: &str = "__namespaced";

/// The filter behind what `in` searches.
pub(crate) const SEARCHED: &str = "__searched";

/// The stack that a filter, an evaluation and what they call take at most, and the size of a new piece of it.
const STACK: (usize, usize) = (1 << 20, 4 << 20);

/// Runs something with enough of the stack.
pub(crate) fn stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK.0, STACK.1, work)
}

/// Elements that the filters of one template may handle, and the bytes of text that count as one.
const HANDLED: usize = if cfg!(test) { 5_000_000 } else { 50_000_000 };
const TEXT: usize = 64;

thread_local! {
    // minijinja's formatter takes no state from its caller; an evaluation never leaves its thread.
    static WRITTEN: Cell<usize> = const { Cell::new(0) };
    static WORK: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn install(env: &mut Registry<'_>) {
    env.add_unmeasured(BOUNDED, bounded);
    env.add_unmeasured(NAMESPACED, |value: Value| measure::part(&value).map(|()| value));
    env.add_unmeasured(MEASURED, |value: Value| measure(&value).map(|_| value));
    env.add_unmeasured(SEARCHED, |value: Value| {
        let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
        let count = value
            .as_str()
            .map_or_else(|| value.len().filter(|_| is_list).unwrap_or(0), |text| text.len() / TEXT);
        charge(count).map(|()| value)
    });
    env.add_filter("indent", indent);
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("batch", |state: &mut State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        check("batch", count, ELEMENTS)?;
        builtin::batch(state, value, count, fill)
    });
    env.add_filter("slice", |state: &mut State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        check("slice", count, ELEMENTS)?;
        builtin::slice(state, value, count, fill)
    });
    env.add_filter("format", |state: &mut State<'_, '_>, format: Value, values: Rest<ValueOrKwargs>| {
        widths(format.as_str().unwrap_or_default())?;
        builtin::format(state, &format, values)
    });
}

/// An error about too much.
pub(crate) fn too_much(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what}: this would make more than a template may"))
}

/// Refuses a number that is asked for and is beyond the bound.
pub(crate) fn check(what: &str, asked: usize, bound: usize) -> Result<(), Error> {
    if asked > bound { Err(too_much(&format!("{what} of {asked}, at most {bound}"))) } else { Ok(()) }
}

/// Refuses what a filter would make, in bytes.
pub(crate) fn makes(what: &str, bytes: Option<usize>) -> Result<(), Error> {
    match bytes {
        Some(bytes) if bytes <= BYTES => Ok(()),
        _ => Err(too_much(&format!("{what}: more than {} MiB", BYTES >> 20))),
    }
}

/// A value that was made within the bounds. An operator makes a list no deeper than its operands are.
fn bounded(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => makes("a text", Some(text.len()))?,
        None => {
            let count = value.len().unwrap_or(0);
            check("a list", count, ELEMENTS)?;
            charge(count)?;
        }
    }
    settled(value)
}

/// A list or map of its own in the place of one that asks others each time: those can be in each other without end. (What `+`
/// makes of two lists minijinja keeps shallow.)
pub(crate) fn settled(value: Value) -> Result<Value, Error> {
    let made_by = value.as_object().map_or("", |object| object.type_name());
    if value.kind() == ValueKind::Iterable && !made_by.ends_with("::MergeSeq") {
        let mut held = Vec::new();
        for item in value.try_iter()?.checked() {
            held.push(item?);
            check("a list", held.len(), ELEMENTS)?;
        }
        return Ok(Value::from(held));
    }
    if made_by.ends_with("::MergeDict") {
        let mut pairs = Vec::new();
        for key in value.try_iter()?.checked() {
            let key = key?;
            let item = value.get_item(&key)?;
            pairs.push((key, item));
        }
        return Ok(Value::from_pairs(pairs));
    }
    Ok(value)
}

/// Widths and precisions of a printf format, or of Python's `str.format`.
pub(crate) fn widths(format: &str) -> Result<(), Error> {
    let digits = format.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if format.contains('*') && format.contains('%') {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "format: a width is written as a number, not as `*`",
        ));
    }
    check("format: digits of a width", digits, 5)
}

fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let named: Option<usize> = kwargs.get("width")?;
    let width_now = width.or(named).unwrap_or(4);
    let lines = value.as_str().split('\n').count();
    makes("indent", width_now.checked_mul(lines).and_then(|more| more.checked_add(value.as_str().len())))?;
    builtin::indent(value, width, first, blank, kwargs)
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    makes("replace", replaced(value.as_str(), from.as_str(), to.as_str()))?;
    builtin::replace(state, value, from, to)
}

/// The most bytes that a replacement can make.
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> Option<usize> {
    text.matches(from).count().checked_mul(to.len())?.checked_add(text.len())
}

fn join(
    state: &mut State<'_, '_>,
    value: Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let named: Option<Value> = kwargs.get("d")?;
    let joiner_len = match (&joiner, &named) {
        (Some(joiner), _) => joiner.as_str().len(),
        (None, named) => named.as_ref().and_then(Value::as_str).map_or(0, str::len),
    };
    let Ok(items) = value.try_iter() else {
        return builtin::join(state, &value, joiner, attribute, kwargs);
    };
    let (mut held, mut bytes) = (Vec::new(), Some(0_usize));
    for item in items {
        let long = item.as_str().map_or(0, str::len);
        bytes = bytes.and_then(|b| b.checked_add(long)?.checked_add(joiner_len));
        makes("join", bytes)?;
        held.push(item);
        check("join: a list", held.len(), ELEMENTS)?;
    }
    builtin::join(state, &Value::from(held), joiner, attribute, kwargs)
}

/// Before a method of Python's types: what it is given, and what it would make.
pub(crate) fn method(value: &Value, name: &str, args: &[Value]) -> Result<(), Error> {
    let mut bytes = measure(value)?.bytes;
    for value in args {
        bytes = bytes.saturating_add(measure(value)?.bytes);
    }
    makes(name, Some(bytes))?;
    let text = |n: usize| args.get(n).and_then(Value::as_str);
    match (value.as_str(), name) {
        (Some(own), "format") => widths(own),
        (Some(own), "replace") => match (text(0), text(1)) {
            (Some(from), Some(to)) => makes("replace", replaced(own, from, to)),
            _ => Ok(()),
        },
        (Some(own), "join") => {
            let count = args.first().and_then(Value::len).unwrap_or(0);
            makes("join", own.len().checked_mul(count))
        }
        _ => Ok(()),
    }
}

/// A template that is being evaluated, with counts of its own. Those of the template that looked it up go on when this is dropped.
pub(crate) struct CountedEvaluation {
    written: usize,
    work: usize,
}

impl CountedEvaluation {
    /// Begins at nothing.
    pub(crate) fn begin() -> Self {
        Self { written: WRITTEN.replace(0), work: WORK.replace(0) }
    }
}

impl Drop for CountedEvaluation {
    fn drop(&mut self) {
        WRITTEN.set(self.written);
        // Its work is part of theirs: a loop may look up many templates.
        WORK.set(WORK.get().saturating_add(self.work));
    }
}

/// Counts work that minijinja's steps do not: refuses a template that does too much.
pub(crate) fn charge(units: usize) -> Result<(), Error> {
    let work = WORK.get().saturating_add(units);
    WORK.set(work);
    if work > HANDLED { Err(Error::from(ErrorKind::OutOfFuel)) } else { Ok(()) }
}

/// Counts a value that a filter takes or makes.
pub(crate) fn handled(size: Measure) -> Result<(), Error> {
    charge(size.parts.saturating_add(size.bytes / TEXT))
}

/// Before a value is written, in a template or into a variable of it.
pub(crate) fn about_to_write(value: &Value) -> Result<(), Error> {
    let bytes = WRITTEN.get().checked_add(
        value.as_str().map_or_else(|| measure(value).map(|m| m.bytes + 8), |text| Ok(text.len()))?,
    );
    WRITTEN.set(bytes.unwrap_or(usize::MAX));
    makes("the output", bytes)
}

/// Takes what a template writes, as far as it goes.
#[derive(Default)]
pub(crate) struct BoundedOutput(pub Vec<u8>);

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > BYTES {
            return Err(std::io::Error::other(format!("the output is more than {} MiB", BYTES >> 20)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Counts a character of an expression, or the word or quoted text that begins with it, among the links of the open brackets; its length.
fn count(c: char, rest: &str, begins_word: bool, levels: &mut Vec<usize>) -> usize {
    let mut length = c.len_utf8();
    match c {
        '\'' | '"' => length = crate::chain::quoted(rest),
        '(' | '[' | '{' => levels.push(1),
        ')' | ']' | '}' => {
            if levels.len() > 1 {
                levels.pop();
            }
            // A call or a subscript is a link of the chain that it stands in.
            if let Some(level) = levels.last_mut() {
                *level += 1;
            }
        }
        ',' => {
            let first = usize::from(levels.len() > 1);
            if let Some(level) = levels.last_mut() {
                *level = first;
            }
        }
        '+' | '-' | '*' | '/' | '%' | '~' | '|' | '.' | '<' | '>' | '=' | '!' | ':' => {
            if let Some(level) = levels.last_mut() {
                *level += 1;
            }
        }
        _ if begins_word => {
            let word: &str = &rest[..rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len())];
            length = word.len();
            if let ("not" | "and" | "or" | "in" | "is" | "if" | "else", Some(level)) =
                (word, levels.last_mut())
            {
                *level += 1;
            }
        }
        _ => {}
    }
    length
}

/// The first byte at which a text nests too deep, if it does.
pub(crate) fn too_deep(text: &str, bare: bool) -> Option<usize> {
    let mut at = 0;
    let mut inside = bare;
    // Levels of statements, and of each open bracket the links so far.
    let mut statements = 0_usize;
    let mut levels: Vec<usize> = vec![0];
    let mut word_before = false;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if !inside {
            let is_mark = |two: &[u8]| matches!(two, [b'{', b'{' | b'%' | b'#']);
            let Some(open) = rest.as_bytes().windows(2).position(is_mark) else { break };
            at += open;
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with("{#") {
                at += rest.find("#}").map_or(rest.len(), |end| end + 2);
                continue;
            }
            if rest.starts_with("{%") {
                let word = first_word(rest);
                match word {
                    "raw" => {
                        at += rest.find("endraw").unwrap_or(rest.len());
                        continue;
                    }
                    // An `elif` is an `if` in the `else` of the one before it.
                    "if" | "elif" | "for" | "macro" | "call" | "filter" | "with" | "block" | "autoescape" => {
                        statements += 1;
                    }
                    end if end.starts_with("end") => statements = statements.saturating_sub(1),
                    _ => {}
                }
                if statements > DEPTH {
                    return Some(at);
                }
            }
            at += 2;
            inside = true;
            levels = vec![0];
            word_before = false;
            continue;
        }
        if !bare && (rest.starts_with("}}") || rest.starts_with("%}")) && levels.len() == 1 {
            inside = false;
            at += 2;
            continue;
        }
        let Some(c) = rest.chars().next() else { break };
        let is_word = is_of_word(c);
        let length = count(c, rest, is_word && !word_before, &mut levels);
        word_before = is_word;
        at += length;
        if levels.iter().sum::<usize>() > DEPTH {
            return Some(at - length);
        }
    }
    None
}

fn first_word(tag: &str) -> &str {
    let text = tag.trim_start_matches("{%").trim_start_matches(['-', '+']).trim_start();
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The delimiters of templates.
pub(crate) fn syntax() -> SyntaxConfig {
    // The defaults for the delimiters cannot be refused.
    SyntaxConfig::builder().trim_blocks(true).keep_trailing_newline(true).build().unwrap_or_default()
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod bounds_tests;
