//! Slices (`x[1:]`, `x[::-1]`) as Python has them.
//!
//! Those of minijinja 3.0.5 panic on some that go backwards (`[][::-1]`), so each is compiled as a call of a filter:
//! `x[a:b]` becomes `x|__slice(a,b,none)`.

use std::ops::Range;

use minijinja::machinery::{Token, tokenize};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};

use crate::bounds::{ELEMENTS, charge, check, syntax};
use crate::filters::{defined, invalid};
use crate::registry::Registry;

/// The filter that slices become.
const SLICE: &str = "__slice";

pub(crate) fn install(env: &mut Registry<'_>) {
    env.add_unmeasured(SLICE, slice);
}

/// A bracket that is open.
struct Open {
    at: Range<usize>,
    /// The colons in it, and whether something stands behind the bracket and behind each colon.
    colons: Vec<Range<usize>>,
    filled: Vec<bool>,
}

/// The edits that make filters of the slices of a text that parses, in any order.
pub(crate) fn edits(text: &str, bare: bool) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for (token, span) in tokenize(text, bare, syntax()).map_while(Result::ok) {
        let at = span.start_offset as usize..span.end_offset as usize;
        if !matches!(token, Token::Colon | Token::BracketClose)
            && let Some(filled) = open.last_mut().and_then(|bracket| bracket.filled.last_mut())
        {
            *filled = true;
        }
        match token {
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                open.push(Open { at, colons: Vec::new(), filled: vec![false] });
            }
            Token::Colon => {
                if let Some(bracket) = open.last_mut() {
                    bracket.colons.push(at);
                    bracket.filled.push(false);
                }
            }
            Token::ParenClose | Token::BraceClose => drop(open.pop()),
            Token::BracketClose => {
                if let Some(bracket) = open.pop().filter(|bracket| !bracket.colons.is_empty()) {
                    found.extend(filter(bracket, at));
                }
            }
            _ => {}
        }
    }
    found
}

fn filter(bracket: Open, end: Range<usize>) -> impl Iterator<Item = (Range<usize>, String)> {
    let close = if bracket.colons.len() == 1 { ",none)" } else { ")" };
    let marks = std::iter::once((bracket.at, format!("|{SLICE}(")))
        .chain(bracket.colons.into_iter().map(|at| (at, ",".to_owned())));
    marks
        .zip(bracket.filled)
        .map(|((at, mark), filled)| (at, if filled { mark } else { mark + "none" }))
        .chain([(end, close.to_owned())])
}

fn slice(
    state: &mut State<'_, '_>,
    value: Value,
    start: Value,
    stop: Value,
    step: Value,
) -> Result<Value, Error> {
    defined(state, &value)?;
    for part in [&start, &stop, &step] {
        defined(state, part)?;
    }
    let number = |value: Value| {
        if value.is_none() {
            return Ok(None);
        }
        let kind = value.kind();
        i128::try_from(value)
            .map(Some)
            .map_err(|_| invalid(format!("the parts of a slice are whole numbers, not a {kind}")))
    };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?.unwrap_or(1));
    if step == 0 {
        return Err(invalid("cannot slice by a step of 0"));
    }
    let places = |count: usize| places(count, start, stop, step);
    match value.kind() {
        ValueKind::String => {
            let chars: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
            charge(chars.len() / 64)?;
            Ok(Value::from(places(chars.len()).filter_map(|at| chars.get(at)).collect::<String>()))
        }
        ValueKind::Bytes => {
            let bytes = value.as_bytes().unwrap_or_default();
            charge(bytes.len() / 64)?;
            Ok(Value::from_bytes(places(bytes.len()).filter_map(|at| bytes.get(at).copied()).collect()))
        }
        ValueKind::Undefined | ValueKind::None => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Seq | ValueKind::Iterable => {
            let retained: Vec<Value> = match value.len().filter(|_| value.kind() == ValueKind::Seq) {
                Some(count) => {
                    places(count).map(|at| value.get_item_by_index(at)).collect::<Result<_, _>>()?
                }
                None => {
                    let mut all = Vec::new();
                    for item in value.try_iter()?.checked() {
                        all.push(item?);
                        check("a list", all.len(), ELEMENTS)?;
                    }
                    charge(all.len())?;
                    places(all.len()).filter_map(|at| all.get(at).cloned()).collect()
                }
            };
            charge(retained.len())?;
            Ok(if value.is_tuple() { Value::from(Tuple::from(retained)) } else { Value::from(retained) })
        }
        kind => Err(invalid(format!("a {kind} cannot be sliced: only lists and texts can"))),
    }
}

/// The places that a slice of so many takes, as Python's `slice.indices` has them.
fn places(count: usize, start: Option<i128>, stop: Option<i128>, step: i128) -> impl Iterator<Item = usize> {
    let count = count as i128;
    let (low, high) = if step < 0 { (-1, count - 1) } else { (0, count) };
    let bound = |asked: i128| {
        let from_start = if asked < 0 { asked.saturating_add(count) } else { asked };
        from_start.clamp(low, high)
    };
    let (first, last) = if step < 0 { (high, low) } else { (low, high) };
    let (start, stop) = (start.map_or(first, bound), stop.map_or(last, bound));
    std::iter::successors(Some(start), move |at| at.checked_add(step))
        .take_while(move |at| if step < 0 { *at > stop } else { *at < stop })
        .filter_map(|at| usize::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;
    use proptest::prelude::*;

    #[test]
    fn slices_are_those_of_python() {
        table(&[
            ("[][::-1]", "[]"),
            ("''[::-1]", "''"),
            ("'abc'[:5:-1]", "''"),
            ("[1][::-9223372036854775808]", "[1]"),
            ("[1, 2][:-9223372036854775808:-9223372036854775808]", "[2]"),
            ("[1, 2][99999999999999999999:]", "[]"),
            ("'äöü'[::-1]", "üöä"),
            ("[1, 2, 3][0:0:-1]", "[]"),
            ("[1, 2, 3][:0:-1]", "[3, 2]"),
            ("[1, 2, 3][-2:]", "[2, 3]"),
            ("[1, 2, 3][ : ]", "[1, 2, 3]"),
            ("[1, 2, 3][::]", "[1, 2, 3]"),
            ("[1, 2, 3][1:][::-1]", "[3, 2]"),
            ("range(5)[1:4][::2]", "[1, 3]"),
            ("(1, 2, 3)[::-1]", "[3, 2, 1]"),
            ("[[1, 2], [3]][[0, 1][1:][0]:][0][0:1]", "[3]"),
            ("{'a': [1, 2]}['a'][1:][0] + 1", "3"),
            ("-[1, 2][1:][0]", "-2"),
            ("[1 + 1, [2 ~ 3][0:]][1 - 1:1 + 1] | length", "2"),
            ("'a b c'.split()[::-1] | join(',')", "c,b,a"),
            ("''.split()[::-1] | join(',')", "''"),
            ("none[1:]", "[]"),
            ("[1, 2][if_one:]", "!`if_one` is undefined"),
            ("nothere[1:]", "!`nothere` is undefined"),
            ("[1, 2][::0]", "!step of 0"),
            ("[1, 2]['a':]", "!whole numbers"),
            ("{'a': 1}[1:]", "!cannot be sliced"),
            ("1[1:]", "!cannot be sliced"),
        ]);
    }

    /// The list as Python slices it, written the slow way: `range(start, stop, step)` over clamped bounds.
    fn slow(all: &[i64], start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
        let count = all.len() as i64;
        let mut at = match start {
            None if step < 0 => count - 1,
            None => 0,
            Some(start) if start < 0 => (start + count).max(if step < 0 { -1 } else { 0 }),
            Some(start) => start.min(if step < 0 { count - 1 } else { count }),
        };
        let end = match stop {
            None if step < 0 => -1,
            None => count,
            Some(stop) if stop < 0 => (stop + count).max(-1),
            Some(stop) => stop.min(count),
        };
        let mut retained = Vec::new();
        while (step > 0 && at < end) || (step < 0 && at > end) {
            retained.push(all[at as usize]);
            at += step;
        }
        retained
    }

    proptest! {
        #[test]
        fn every_slice_has_its_list(
            count in 0_i64..6,
            start in prop::option::of(-8_i64..8),
            stop in prop::option::of(-8_i64..8),
            step in prop::sample::select(vec![-3_i64, -2, -1, 1, 2, 3]),
        ) {
            let all: Vec<i64> = (0..count).collect();
            let shown = |part: Option<i64>| part.map(|part| part.to_string()).unwrap_or_default();
            let wanted = slow(&all, start, stop, step);
            let text = format!("{all:?}[{}:{}:{step}]", shown(start), shown(stop));
            table(&[(&text, &format!("{wanted:?}"))]);
            let word: String = all.iter().map(i64::to_string).collect();
            let retained: String = wanted.iter().map(i64::to_string).collect();
            let text = format!("'{word}'[{}:{}:{step}]", shown(start), shown(stop));
            table(&[(&text, &format!("'{retained}'"))]);
        }

        #[test]
        fn no_slice_brings_it_down(
            value in prop::sample::select(vec!["''", "'äb'", "[]", "[1]", "[1, 2, 3]", "range(3)", "(1, 2)", "none", "{}", "{'a': 1}", "1"]),
            parts in prop::collection::vec(prop::sample::select(vec![
                "", "0", "1", "-1", "5", "-5", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "-170141183460469231731687303715884105728",
                "1.5", "'a'", "none", "true",
            ]), 3),
        ) {
            let engine = crate::engine::TemplateEngine::new();
            let text = format!("{{{{ ({value})[{}] }}}}", parts.join(":"));
            let source = converge_syntax::Source::new("test", text.clone());
            let node = converge_syntax::Node::new(text, converge_syntax::Span::whole(source));
            if let Err(why) = engine.eval_value(&node, &crate::scope::Scope::new(&engine)) {
                prop_assert!(!why.to_string().contains("engine gave up"), "{why}");
            }
        }
    }
}
