//! The size of values: how deep they are, and what it would take to write them out.
//!
//! Everything that goes through a value calls itself once for each level: filters, comparison, printing, even freeing it. A
//! value that holds one text or list many times is small in memory and huge once it is written. So each value is measured
//! where a template makes it (see [`crate::registry`] and [`crate::bounds`]).

use std::cell::RefCell;

use minijinja::tests::is_sameas;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use crate::bounds::{BYTES, ELEMENTS, makes, too_much};
use crate::filters::invalid;
use crate::scope;

/// Levels of lists and maps in each other: as many as JSON may have.
pub(crate) const LEVELS: usize = 128;

/// Values that were measured last, so that a variable that a loop uses again and again is measured once.
const RETAINED: usize = 16;

thread_local! {
    // Whoever asks has no state to keep them in; an evaluation never leaves its thread.
    static MEASURED: RefCell<Vec<(Value, Measure)>> = const { RefCell::new(Vec::new()) };
}

/// The size of a value.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measure {
    /// Bytes of all texts in it, each as often as it occurs.
    pub bytes: usize,
    /// Lists, maps and their elements, each as often as it occurs.
    pub parts: usize,
    /// Sum of the levels that the parts stand at: what an indent is multiplied by.
    pub indents: usize,
}

/// Measures a value, and refuses one that is too deep or too large.
pub(crate) fn measure(value: &Value) -> Result<Measure, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Measure { bytes: text.len(), ..Measure::default() });
    }
    if value.as_object().is_none() {
        return Ok(Measure::default());
    }
    let known = MEASURED.with_borrow(|all| {
        let same = |retained: &&(Value, Measure)| is_sameas(&retained.0, value);
        all.iter().find(same).map(|retained| retained.1)
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let mut found = Measure::default();
    crate::bounds::stack(|| walk(value, 0, &mut found))?;
    // A namespace may be another one by the next time.
    if found.parts > RETAINED && !is_namespace(value) {
        MEASURED.with_borrow_mut(|all| {
            all.truncate(RETAINED - 1);
            all.insert(0, (value.clone(), found));
        });
    }
    Ok(found)
}

/// Refuses what must not become a part of a namespace: another one, or the module of a template that may hold one. Lists and maps
/// that hold one are refused where they are made.
pub(crate) fn part(value: &Value) -> Result<(), Error> {
    let module = value.as_object().is_some_and(|object| object.type_name().ends_with("::Module"));
    if module || is_namespace(value) { Err(nested()) } else { Ok(()) }
}

/// A namespace changes after it was made: it could become a part of itself, or ever deeper.
fn nested() -> Error {
    invalid("a namespace cannot be inside a list, a map or a namespace")
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// Refuses a value that is too large once each part of it stands on a line of its own, indented by its level.
pub(crate) fn with_indent(what: &str, value: &Value, indent: usize) -> Result<(), Error> {
    let size = measure(value)?;
    makes(what, size.indents.checked_mul(indent).and_then(|more| more.checked_add(size.bytes)))
}

/// Frees what was kept; for the end of an evaluation that no other one asked for.
pub(crate) fn forget() {
    MEASURED.with_borrow_mut(Vec::clear);
}

fn walk(value: &Value, level: usize, found: &mut Measure) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        found.bytes = found.bytes.saturating_add(text.len());
        return if found.bytes > BYTES {
            Err(too_much(&format!("a value with more than {} MiB of text", BYTES >> 20)))
        } else {
            Ok(())
        };
    }
    // The variables of other hosts are rendered when they are asked for: nothing here may do that.
    if value.as_object().is_none() || scope::is_lazy(value) {
        return Ok(());
    }
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(());
    }
    if level > 0 && is_namespace(value) {
        return Err(nested());
    }
    if level == LEVELS {
        return Err(too_much(&format!("a value of more than {LEVELS} lists and maps in each other")));
    }
    for item in value.try_iter()? {
        found.parts += 1;
        found.indents = found.indents.saturating_add(level + 1);
        if found.parts > ELEMENTS {
            return Err(too_much(&format!("a value of more than {ELEMENTS} elements in all")));
        }
        if is_map && let Ok(inner) = value.get_item(&item) {
            walk(&inner, level + 1, found)?;
        }
        walk(&item, level + 1, found)?;
    }
    Ok(())
}
