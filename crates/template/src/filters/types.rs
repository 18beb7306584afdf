//! Conversions and choices: `bool`, `int`, `float`, `mandatory`, `ternary`, `type_debug`, `human_to_bytes`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, State, Value};

use super::{defined, invalid};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("bool", to_bool);
    env.add_filter("int", to_int);
    env.add_filter("float", to_float);
    env.add_filter("mandatory", mandatory);
    env.add_filter("ternary", ternary);
    env.add_filter("type_debug", type_debug);
    env.add_filter("human_to_bytes", human_to_bytes);
}

/// Ansible's words for true; everything else is false, null stays null.
fn to_bool(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    defined(state, &value)?;
    Ok(match value.kind() {
        ValueKind::None => Value::from(()),
        ValueKind::Bool => value,
        ValueKind::Number => Value::from(value == Value::from(1)),
        _ => {
            let text = value.to_string().to_lowercase();
            Value::from(matches!(text.as_str(), "yes" | "on" | "1" | "true" | "t" | "y"))
        }
    })
}

/// Python's `int()`; a value that is not a number becomes the default.
fn to_int(
    state: &State<'_, '_>,
    value: Value,
    default: Option<Value>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    defined(state, &value)?;
    let default = kwargs.get::<Option<Value>>("default")?.or(default).unwrap_or_else(|| Value::from(0));
    let base = kwargs.get::<Option<u32>>("base")?.or(base).unwrap_or(10);
    kwargs.assert_all_used()?;
    if !(2..=36).contains(&base) {
        return Err(invalid("int: the base must be from 2 to 36"));
    }
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value,
        ValueKind::Number => {
            f64::try_from(value).map_or(default, |number| Value::from(number.trunc() as i64))
        }
        ValueKind::String => {
            let text = value.to_string().trim().replace('_', "").to_lowercase();
            let (negative, digits) = match text.strip_prefix('-') {
                Some(rest) => (true, rest),
                None => (false, text.strip_prefix('+').unwrap_or(&text)),
            };
            let prefix = match base {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            let digits = digits.strip_prefix(prefix).unwrap_or(digits);
            match i64::from_str_radix(digits, base) {
                Ok(number) if !digits.starts_with(['-', '+']) => {
                    Value::from(if negative { -number } else { number })
                }
                // Jinja tries a float before it gives up.
                _ => text
                    .parse::<f64>()
                    .ok()
                    .filter(|number| base == 10 && number.is_finite())
                    .map_or(default, |number| Value::from(number.trunc() as i64)),
            }
        }
        _ => default,
    })
}

/// Python's `float()`; a value that is not a number becomes the default.
fn to_float(
    state: &State<'_, '_>,
    value: Value,
    default: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    defined(state, &value)?;
    let default = kwargs.get::<Option<Value>>("default")?.or(default).unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value).map_or(default, Value::from),
        _ => value.to_string().trim().replace('_', "").parse::<f64>().map_or(default, Value::from),
    })
}

fn mandatory(
    state: &State<'_, '_>,
    value: Value,
    message: Option<String>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let message = kwargs.get::<Option<String>>("msg")?.or(message);
    kwargs.assert_all_used()?;
    if !value.is_undefined() {
        return Ok(value);
    }
    match message {
        Some(message) => Err(invalid(message)),
        None => defined(state, &value).map(|()| value),
    }
}

fn ternary(value: Value, yes: Value, no: Value, none: Option<Value>) -> Value {
    match none {
        Some(none) if value.is_none() => none,
        _ if value.is_true() => yes,
        _ => no,
    }
}

/// Python's name of the type.
fn type_debug(value: Value) -> &'static str {
    match value.kind() {
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Map => "dict",
        ValueKind::Undefined => "AnsibleUndefined",
        _ => "list",
    }
}

/// `1.5 GB` → bytes, powers of 1024.
fn human_to_bytes(value: Value, unit: Option<String>, kwargs: Kwargs) -> Result<Value, Error> {
    let default_unit = kwargs.get::<Option<String>>("default_unit")?.or(unit);
    let bits = kwargs.get::<Option<bool>>("isbits")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let text = value.to_string();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, given) = text.split_at(end);
    let wrong = || invalid(format!("human_to_bytes: `{text}` is no size; write one such as 10G or 512 MB"));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let given = given.trim();
    let unit = if given.is_empty() { default_unit.unwrap_or_default() } else { given.to_owned() };
    let mut letters = unit.chars();
    let Some(letter) = letters.next() else { return Ok(Value::from(number.round() as i64)) };
    let rest = letters.as_str();
    let power = "BKMGTPEZY".find(letter.to_ascii_uppercase()).ok_or_else(wrong)?;
    let word = rest.to_lowercase();
    let ok = match (bits, rest) {
        (_, "") => true,
        (false, "B") | (true, "b") => power > 0,
        (false, _) => word.ends_with("byte") || word.ends_with("bytes"),
        (true, _) => word.ends_with("bit") || word.ends_with("bits"),
    };
    if !ok {
        return Err(wrong());
    }
    let bytes = (number * 1024f64.powi(i32::try_from(power).unwrap_or(0))).round();
    Ok(if bytes < 9e18 { Value::from(bytes as i64) } else { Value::from(bytes as i128) })
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn conversions() {
        table(&[
            ("'yes' | bool", "true"),
            ("'On' | bool", "true"),
            ("'false' | bool", "false"),
            ("'other' | bool", "false"),
            ("1 | bool", "true"),
            ("2 | bool", "false"),
            ("none | bool", ""),
            ("nope | bool", "!`nope` is undefined"),
            ("'12' | int", "12"),
            ("' -12 ' | int", "-12"),
            ("'12.7' | int", "12"),
            ("'x' | int", "0"),
            ("'x' | int(5)", "5"),
            ("'x' | int(default=-1)", "-1"),
            ("'ff' | int(base=16)", "255"),
            ("'0xff' | int(0, 16)", "255"),
            ("'644' | int(base=8)", "420"),
            ("12.9 | int", "12"),
            ("true | int", "1"),
            ("'1.5' | float", "1.5"),
            ("'x' | float(2.5)", "2.5"),
            ("3 | float", "3.0"),
            ("1 | string", "'1'"),
            ("true | string", "'True'"),
            ("'abc' | list", "[a, b, c]"),
        ]);
    }

    #[test]
    fn choices() {
        table(&[
            ("nope | default('x')", "x"),
            ("'' | default('x')", "''"),
            ("'' | default('x', true)", "x"),
            ("none | default('x')", ""),
            ("'a' | mandatory", "a"),
            ("nope | mandatory", "!undefined"),
            ("nope | mandatory(msg='give a name')", "!give a name"),
            ("true | ternary('a', 'b')", "a"),
            ("'' | ternary('a', 'b')", "b"),
            ("none | ternary('a', 'b', 'c')", "c"),
            ("none | ternary('a', 'b')", "b"),
            ("1 | type_debug", "int"),
            ("1.0 | type_debug", "float"),
            ("'1' | type_debug", "str"),
            ("[] | type_debug", "list"),
            ("{} | type_debug", "dict"),
            ("none | type_debug", "NoneType"),
        ]);
    }

    #[test]
    fn sizes() {
        table(&[
            ("'10' | human_to_bytes", "10"),
            ("'1.5K' | human_to_bytes", "1536"),
            ("'2 GB' | human_to_bytes", "2147483648"),
            ("10 | human_to_bytes('M')", "10485760"),
            ("'1Mb' | human_to_bytes(isbits=true)", "1048576"),
            ("'1Mb' | human_to_bytes", "!is no size"),
            ("'big' | human_to_bytes", "!is no size"),
        ]);
    }
}
