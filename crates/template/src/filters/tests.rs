//! Tests (`x is …`) of Ansible that Jinja has not.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, State, Value};

use super::regex::{compile, flags, gave_up};
use super::{arguments, defined, invalid, version};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_test("match", |state: &State<'_, '_>, text: Value, pattern: String, options: Kwargs| {
        // The start of the text, whatever its lines are.
        matches(state, &text, &format!("\\A(?:{pattern})"), options)
    });
    env.add_test("search", |state: &State<'_, '_>, text: Value, pattern: String, options: Kwargs| {
        matches(state, &text, &pattern, options)
    });
    env.add_test("regex", regex);
    env.add_test("version", is_version);
    env.add_test("subset", |a: Value, b: Value| subset(&a, &b));
    env.add_test("superset", |a: Value, b: Value| subset(&b, &a));
    env.add_test("contains", |list: Value, item: Value| contains(&list, &item));
    for name in ["failed", "failure"] {
        env.add_test(name, |result: Value| failed("failed", &result));
    }
    for name in ["succeeded", "success", "successful"] {
        env.add_test(name, |result: Value| failed("succeeded", &result).map(|failed| !failed));
    }
    for name in ["changed", "change"] {
        env.add_test(name, |result: Value| result_says("changed", &result, "changed"));
    }
    for name in ["skipped", "skip"] {
        env.add_test(name, |result: Value| result_says("skipped", &result, "skipped"));
    }
    env.add_test("any", |list: Value| {
        Ok::<_, Error>(list.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?.iter().any(Value::is_true))
    });
    env.add_test("all", |list: Value| {
        Ok::<_, Error>(list.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?.iter().all(Value::is_true))
    });
    env.add_test("nan", |value: f64| value.is_nan());
    env.add_test("truthy", truthy);
    env.add_test("falsy", |state: &State<'_, '_>, value: Value, options: Kwargs| {
        truthy(state, value, options).map(|truthy| !truthy)
    });
}

/// A result of an item: a map. A command that ended with another code than 0 has failed.
fn failed(test: &str, result: &Value) -> Result<bool, Error> {
    let mut bad = false;
    for key in ["rc", "status"] {
        let code = result_part(test, result, key)?;
        bad |= code.is_integer() && code != Value::from(0);
    }
    Ok(bad || result_says(test, result, "failed")?)
}

fn result_says(test: &str, result: &Value, key: &str) -> Result<bool, Error> {
    result_part(test, result, key).map(|part| part.is_true())
}

fn result_part(test: &str, result: &Value, key: &str) -> Result<Value, Error> {
    if result.kind() != ValueKind::Map {
        return Err(invalid(format!("{test}: a result of `register` is wanted, not a {}", result.kind())));
    }
    result.get_attr(key)
}

fn matches(state: &State<'_, '_>, value: &Value, pattern: &str, options: Kwargs) -> Result<bool, Error> {
    defined(state, value)?;
    let (ignore_case, multi_line) = flags(&options)?;
    options.assert_all_used()?;
    compile(pattern, ignore_case, multi_line)?.is_match(value.to_string().as_str()).map_err(gave_up)
}

fn regex(state: &State<'_, '_>, text: Value, pattern: String, options: Kwargs) -> Result<bool, Error> {
    let kind = options.get::<Option<String>>("match_type")?.unwrap_or_else(|| "search".to_owned());
    let pattern = match kind.as_str() {
        "search" => pattern,
        "match" => format!("\\A(?:{pattern})"),
        "fullmatch" => format!("\\A(?:{pattern})\\z"),
        _ => return Err(invalid(format!("regex: there is no match_type `{kind}`"))),
    };
    matches(state, &text, &pattern, options)
}

fn is_version(
    state: &State<'_, '_>,
    left: Value,
    right: Value,
    more: Rest<ValueOrKwargs>,
) -> Result<bool, Error> {
    defined(state, &left)?;
    defined(state, &right)?;
    let (more, options) = arguments(more)?;
    let given = more.first().map(ToString::to_string);
    let operator = options.get::<Option<String>>("operator")?.or(given).unwrap_or_else(|| "==".to_owned());
    let kind = options.get::<Option<String>>("version_type")?.unwrap_or_else(|| "loose".to_owned());
    options.get::<Option<bool>>("strict")?;
    options.assert_all_used()?;
    let semantic = match kind.as_str() {
        "semver" | "semantic" => true,
        "loose" | "strict" | "pep440" => false,
        _ => return Err(invalid(format!("version: there is no version_type `{kind}`"))),
    };
    version::compare(&left.to_string(), &right.to_string(), &operator, semantic)
}

fn subset(a: &Value, b: &Value) -> Result<bool, Error> {
    let all: Vec<Value> = b.try_iter()?.checked().collect::<Result<_, _>>()?;
    for item in a.try_iter()?.checked() {
        if !all.contains(&item?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains(list: &Value, item: &Value) -> Result<bool, Error> {
    if let (Some(text), Some(part)) = (list.as_str(), item.as_str()) {
        return Ok(text.contains(part));
    }
    for known in list.try_iter()?.checked() {
        if known? == *item {
            return Ok(true);
        }
    }
    Ok(false)
}

fn truthy(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<bool, Error> {
    let convert = options.get::<Option<bool>>("convert_bool")?.unwrap_or(false);
    options.assert_all_used()?;
    defined(state, &value)?;
    if convert && value.kind() == ValueKind::String {
        match value.to_string().to_lowercase().as_str() {
            "y" | "yes" | "on" | "1" | "true" | "t" => return Ok(true),
            "n" | "no" | "off" | "0" | "false" | "f" => return Ok(false),
            _ => {}
        }
    }
    Ok(value.is_true())
}

#[cfg(test)]
mod check {
    use crate::filters::check::table;

    #[test]
    fn patterns() {
        table(&[
            ("'gpu01' is match('gpu')", "true"),
            ("'x gpu01' is match('gpu')", "false"),
            ("'x gpu01' is search('gpu')", "true"),
            ("'GPU' is search('gpu', ignorecase=true)", "true"),
            ("'a\nb' is match('^b', multiline=true)", "false"),
            ("'a\nb' is search('^b', multiline=true)", "true"),
            ("'abc' is regex('b')", "true"),
            ("'abc' is regex('b', match_type='match')", "false"),
            ("'abc' is regex('a|abc', match_type='fullmatch')", "true"),
            ("nope is search('x')", "!`nope` is undefined"),
        ]);
    }

    #[test]
    fn versions() {
        table(&[
            ("'1.30.2' is version('1.30', '>=')", "true"),
            ("'1.9' is version('1.10', '<')", "true"),
            ("'535.104.05' is version('535.86', 'gt')", "true"),
            ("'12' is version('12')", "true"),
            ("1.5 is version('1.4', '>')", "true"),
            ("'1.0.0-rc1' is version('1.0.0', '<', version_type='semver')", "true"),
            ("'1.0.0-rc.2' is version('1.0.0-rc.10', '<', version_type='semver')", "true"),
            ("'1.0.0+b' is version('1.0.0', '==', version_type='semver')", "true"),
            ("'1.0' is version('1.0.0', '==', version_type='semver')", "!no semantic version"),
            ("'1' is version('2', '~')", "!no operator `~`"),
            ("'' is version('2')", "!empty"),
        ]);
    }

    #[test]
    fn sets_and_truth() {
        table(&[
            ("[1, 2] is subset([1, 2, 3])", "true"),
            ("[1, 4] is subset([1, 2, 3])", "false"),
            ("[1, 2, 3] is superset([3])", "true"),
            ("[1, 2] is contains(2)", "true"),
            ("{'a': 1} is contains('a')", "true"),
            ("[{'g': ['a', 'b']}] | selectattr('g', 'contains', 'b') | list | length", "1"),
            ("'x' is truthy", "true"),
            ("'' is falsy", "true"),
            ("'no' is truthy(convert_bool=true)", "false"),
            ("'no' is truthy", "true"),
        ]);
    }
}
