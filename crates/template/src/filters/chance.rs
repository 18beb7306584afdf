//! Filters and functions that depend on the moment: `random`, `shuffle`, `now()`.
//!
//! A plan and its apply must render the same: without a seed in the template, the result follows from the moment of the run
//! ([`crate::Moment`], which a saved plan holds), from the host and from the arguments.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::collections::items;
use super::invalid;
use super::maths::{Twister, seeded};
use crate::frame;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("random", random);
    env.add_filter("shuffle", shuffle);
}

/// The generator for a seed, or for the run, the host and the question.
fn generator(seed: Option<&Value>, question: &str) -> Twister {
    match seed {
        Some(seed) => seeded(seed),
        None => {
            frame::note(|notes| notes.lookups.insert("moment.seed".to_owned()));
            let scope = frame::current_scope();
            let moment = scope.as_ref().map(|scope| scope.engine().moment().seed.clone()).unwrap_or_default();
            let host = scope.and_then(|scope| scope.look_up("inventory_hostname", "")).unwrap_or_default();
            Twister::of_text(&format!("{moment}\n{host}\n{question}"))
        }
    }
}

fn random(end: Value, start: Option<i64>, step: Option<i64>, options: Kwargs) -> Result<Value, Error> {
    let start = options.get::<Option<i64>>("start")?.or(start);
    let step = options.get::<Option<i64>>("step")?.or(step);
    let seed = options.get::<Option<Value>>("seed")?;
    options.assert_all_used()?;
    let mut numbers = generator(seed.as_ref(), &end.to_string());
    if end.kind() == ValueKind::Number && end.is_integer() {
        let (start, step) = (start.unwrap_or(0), step.unwrap_or(1));
        let end = i64::try_from(end)?;
        let width = i128::from(end) - i128::from(start);
        let count = if step == 0 {
            0
        } else {
            (width + i128::from(step) - i128::from(step.signum())) / i128::from(step)
        };
        let count = u64::try_from(count).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| {
            invalid(format!("random: nothing lies from {start} to {end} in steps of {step}"))
        })?;
        let chosen = i64::try_from(numbers.below(count)).unwrap_or_default();
        return Ok(Value::from(start.saturating_add(step.saturating_mul(chosen))));
    }
    if start.is_some() || step.is_some() {
        return Err(invalid("random: `start` and `step` belong to a number"));
    }
    let all = match end.as_str() {
        Some(text) => text.chars().map(|c| Value::from(c.to_string())).collect(),
        None => items(&end)?,
    };
    let chosen = usize::try_from(numbers.below(all.len() as u64)).unwrap_or_default();
    all.get(chosen).cloned().ok_or_else(|| invalid("random: the list is empty"))
}

fn shuffle(list: Value, options: Kwargs) -> Result<Vec<Value>, Error> {
    let seed = options.get::<Option<Value>>("seed")?;
    options.assert_all_used()?;
    let mut numbers = generator(seed.as_ref(), &list.to_string());
    let mut all = items(&list)?;
    for at in (1..all.len()).rev() {
        let other = usize::try_from(numbers.below(at as u64 + 1)).unwrap_or_default();
        all.swap(at, other);
    }
    Ok(all)
}
