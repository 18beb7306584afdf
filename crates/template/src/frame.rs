//! The evaluations in progress on this thread, and the names that each has looked up so far.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use converge_syntax::{Diagnostics, Span};

use crate::scope::Scope;
use crate::{bounds, measure};

/// One evaluation: that of a variable, or the one that a caller asked for.
pub(crate) struct Frame {
    pub scope: Scope,
    /// The variable, or `None` at the start.
    pub name: Option<String>,
    pub span: Span,
    pub notes: Notes,
}

/// Notes on one evaluation: the names that it looked up, and the conditions that it met.
#[derive(Default, Clone)]
pub(crate) struct Notes {
    pub lookups: BTreeSet<String>,
    pub unknown: BTreeSet<String>,
    pub sensitive: bool,
    /// A variable that was looked up failed for another reason than an undefined name.
    pub fatal: Option<Diagnostics>,
    /// Variables that are undefined because something in their own value is.
    pub undefined: BTreeMap<String, Diagnostics>,
}

/// Variables that refer to variables may go this deep.
const MAX_FRAMES: usize = 64;

thread_local! {
    // minijinja calls back into a context that takes no state from us; an evaluation never leaves its thread.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Runs an evaluation in a frame of its own and hands back what it met.
pub(crate) fn within<T>(
    scope: &Scope,
    name: Option<&str>,
    span: &Span,
    work: impl FnOnce() -> T,
) -> (T, Notes) {
    struct FrameReset;
    impl Drop for FrameReset {
        fn drop(&mut self) {
            let none = FRAMES.with(|frames| {
                let mut frames = frames.borrow_mut();
                frames.pop();
                frames.is_empty()
            });
            if none {
                measure::forget();
            }
        }
    }
    let frame = Frame {
        scope: scope.clone(),
        name: name.map(str::to_owned),
        span: span.clone(),
        notes: Notes::default(),
    };
    FRAMES.with(|frames| frames.borrow_mut().push(frame));
    let guard = FrameReset;
    let value = bounds::stack(work);
    let notes = note(|notes| notes.clone()).unwrap_or_default();
    drop(guard);
    (value, notes)
}

/// Reads or changes the notes of the innermost evaluation.
pub(crate) fn note<T>(change: impl FnOnce(&mut Notes) -> T) -> Option<T> {
    FRAMES.with(|frames| frames.borrow_mut().last_mut().map(|frame| change(&mut frame.notes)))
}

/// The scope of the innermost evaluation.
pub(crate) fn current_scope() -> Option<Scope> {
    FRAMES.with(|frames| frames.borrow().last().map(|frame| frame.scope.clone()))
}

/// The reason why a variable must not be entered now: the chain of variables that leads back to it, or too deep a chain.
pub(crate) fn refusal(scope: &Scope, name: &str) -> Option<Vec<(String, Span)>> {
    FRAMES.with(|frames| {
        let frames = frames.borrow();
        let same = |frame: &Frame| frame.name.as_deref() == Some(name) && frame.scope.is_same_as(scope);
        let from = frames.iter().position(same).or((frames.len() >= MAX_FRAMES).then_some(0))?;
        let chain = frames.iter().skip(from);
        Some(chain.filter_map(|frame| Some((frame.name.clone()?, frame.span.clone()))).collect())
    })
}
