//! Judges the API's answers: one test for each kind of question.

use super::super::jsonpath::FieldQuery;
use super::{Amount, CountTest, Pick, Test, condition_of, name_of, ready, shown};
use converge_resource::pointer_word;
use serde_json::Value;

/// The reason why the condition does not hold.
pub(super) fn condition(object: &Value, name: &str, wanted: &str) -> Option<String> {
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    let Some(found) = condition_of(object, name) else { return Some(format!("no condition {name} yet")) };
    let observed = number(found.get("observedGeneration"))
        .or_else(|| number(object.pointer("/status/observedGeneration")));
    if let (Some(observed), Some(now)) = (observed, number(object.pointer("/metadata/generation")))
        && observed < now
    {
        return Some(format!("its controller has not looked at the newest change yet ({observed} of {now})"));
    }
    let text = |key: &str| found.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    let status = text("status").unwrap_or("Unknown");
    if status.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let why: Vec<&str> = [text("reason"), text("message")].into_iter().flatten().collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(": ")) };
    Some(format!("{name} is {status}{why}"))
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn field(object: &Value, query: &FieldQuery, path: &str, test: &Test) -> Option<String> {
    let found = query.find(object);
    if found.is_empty() {
        return Some(format!("{path} is not there"));
    }
    let bad = found.into_iter().find(|value| match test {
        Test::Exists => false,
        Test::Equals(wanted) => plain(value) != plain(wanted),
        Test::AtLeast(least) => quantity(value).is_none_or(|n| n < i128::from(*least) * 1000),
        Test::AtMost(most) => quantity(value).is_none_or(|n| n > i128::from(*most) * 1000),
    })?;
    Some(format!("{path} is {}, expected {}", plain(bad), test.wanted()))
}

/// A quantity of Kubernetes in thousandths: `8`, `100m`, `4Ki`.
pub fn quantity(value: &Value) -> Option<i128> {
    let text = plain(value);
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: i128 = number.parse().ok()?;
    let power = |base: i128, exponent: u32| Some(base.pow(exponent) * 1000);
    let factor = match suffix {
        "m" => Some(1),
        "" => Some(1000),
        "k" => power(1000, 1),
        "M" => power(1000, 2),
        "G" => power(1000, 3),
        "T" => power(1000, 4),
        "Ki" => power(1024, 1),
        "Mi" => power(1024, 2),
        "Gi" => power(1024, 3),
        "Ti" => power(1024, 4),
        _ => None,
    }?;
    number.checked_mul(factor)
}

pub(super) fn count(of: &Pick, name: Option<&str>, test: &CountTest, answers: &[Value]) -> Option<String> {
    let (there, missing) = of.found(answers);
    if let (Some(missing), Pick::All { .. }) = (missing.first(), of) {
        return Some(missing.clone());
    }
    let mut waiting = Vec::new();
    let mut number = 0_u64;
    for object in there {
        match name.and_then(|name| condition(object, name, "True")) {
            None => number += 1,
            Some(why) => waiting.push(format!("{}: {why}", shown(object))),
        }
    }
    let (holds, wanted) = match test {
        CountTest::Equals(n) => (number == *n, n.to_string()),
        CountTest::AtLeast(n) => (number >= *n, format!("at least {n}")),
        CountTest::Nodes(labels) => {
            let nodes = answers.last().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let ready = nodes.iter().filter(|n| ready(n)).count() as u64;
            let which = labels.as_ref().map_or_else(String::new, |l| format!(" with {l}"));
            (number == ready, format!("{ready}: a node that is ready{which} each"))
        }
    };
    if holds {
        return None;
    }
    let state = name.map_or_else(String::new, |name| format!(" that are {name}"));
    let why = if waiting.is_empty() { String::new() } else { format!("; {}", some_of(&waiting)) };
    Some(format!("{number} {}{state}, expected {wanted}{why}", of.shown()))
}

pub(super) fn allocatable(
    list: &[Value],
    resources: &[&str],
    labels: Option<&str>,
    amount: &Amount,
    none_is_fine: bool,
) -> Vec<String> {
    let eligible: Vec<&Value> = list.iter().filter(|n| ready(n)).collect();
    if eligible.is_empty() && !none_is_fine {
        let which = labels.map_or_else(String::new, |l| format!(" with {l}"));
        return vec![format!("no node{which} is ready")];
    }
    eligible.into_iter().filter_map(|node| offered(node, resources, amount)).collect()
}

/// The reason why a node does not offer what it should, of these resources together.
pub(super) fn offered(node: &Value, resources: &[&str], amount: &Amount) -> Option<String> {
    let name = name_of(node);
    let (wanted, how) = match &amount.label {
        None => (i128::from(amount.times), String::new()),
        Some(label) => {
            let value = node.pointer(&format!("/metadata/labels/{}", pointer_word(label)));
            let Some(number) = value.and_then(Value::as_str).and_then(|v| v.parse::<u32>().ok()) else {
                let what = value.map_or_else(|| "is missing".to_owned(), |v| format!("is {}", plain(v)));
                return Some(format!(
                    "node {name}: its label {label} {what}, so nobody can say how much to expect"
                ));
            };
            let times = amount.times;
            (
                i128::from(number) * i128::from(times),
                format!(" (its label {label} = {number}, times {times})"),
            )
        }
    };
    let of =
        |which: &str, resource: &str| node.pointer(&format!("/status/{which}/{}", pointer_word(resource)));
    let there = resources.iter().filter_map(|resource| Some((*resource, of("allocatable", resource)?)));
    let there: Vec<(&str, &Value)> = there.collect();
    let number: i128 = there.iter().filter_map(|(_, found)| quantity(found)).sum();
    if number == wanted * 1000 || (amount.or_more && number > wanted * 1000) {
        return None;
    }
    let first = resources.first().copied().unwrap_or_default();
    let (resource, found) = there.first().copied().map_or((first, None), |(name, found)| (name, Some(found)));
    let shown = found.map_or_else(|| "0".to_owned(), plain);
    let capacity = of("capacity", resource).map(plain);
    let capacity = capacity.filter(|c| *c != shown).map_or_else(String::new, |c| format!(" of capacity {c}"));
    let more = if amount.or_more { " or more" } else { "" };
    Some(format!("node {name}: allocatable {resource} is {shown}{capacity}, expected {wanted}{more}{how}"))
}

/// The first reasons, and how many more there are.
pub(super) fn some_of(reasons: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = reasons.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if reasons.len() > SHOWN {
        text.push_str(&format!("; and {} more", reasons.len() - SHOWN));
    }
    text
}
