//! The value of a plain scalar by YAML 1.1, as PyYAML and therefore Ansible read it.
//!
//! The grammar is that of PyYAML's `resolver.py` and `constructor.py`; `tests/fixtures/yaml11.json` holds answers recorded
//! from PyYAML and from `ansible-inventory`.

use crate::node::Value;

/// The tag of a node whose text stands for a whole number beyond 64 bits.
pub const BIG_INTEGER: &str = "!!int";
/// The most digits of a whole number that are converted: more are no number that anybody writes.
const MAX_DIGITS: usize = 2000;

/// Whether this value of a plain scalar is a whole number beyond 64 bits.
pub(crate) fn is_big_integer(value: &Value) -> bool {
    let Value::String(text) = value else { return false };
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() >= 19 && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number of any size in decimal digits; `None` where it has too many of them, or another character.
#[must_use]
pub fn decimal(digits: &str, radix: u32) -> Option<String> {
    const LIMB: u64 = 1_000_000_000;
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    // The lowest nine digits come first.
    let mut limbs: Vec<u64> = vec![0];
    for digit in digits.chars() {
        let mut carry = u64::from(digit.to_digit(radix)?);
        for limb in &mut limbs {
            let value = *limb * u64::from(radix) + carry;
            *limb = value % LIMB;
            carry = value / LIMB;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let (first, rest) = limbs.split_last()?;
    Some(rest.iter().rev().fold(first.to_string(), |text, limb| format!("{text}{limb:09}")))
}

/// The value of an unquoted scalar. Dates stay text in ISO form, as `ansible-inventory` prints them; whole numbers beyond
/// 64 bits are text in decimal digits; a node that holds one has the tag [`BIG_INTEGER`].
pub fn resolve_plain(text: &str) -> Value {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Value::from(text);
    }
    float(text)
        .or_else(|| integer(text))
        .or_else(|| timestamp(text).map(Value::String))
        .unwrap_or_else(|| Value::from(text))
}

/// Splits a sign off: is it negative, and the rest.
fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn digits_or_underscores(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn float(text: &str) -> Option<Value> {
    let (negative, body) = sign(text);
    let signed = |value: f64| Some(Value::Float(if negative { -value } else { value }));
    match body {
        ".inf" | ".Inf" | ".INF" => return signed(f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if body.len() == text.len() => return Some(Value::Float(f64::NAN)),
        _ => {}
    }
    let (whole, rest) = body.split_once('.')?;
    if whole.contains(':') {
        let parts = sexagesimal(whole, '0')?;
        if !digits_or_underscores(rest) {
            return None;
        }
        let last: f64 = format!("{}.{}", parts.last()?, rest.replace('_', "")).parse().ok()?;
        let head = parts.iter().rev().skip(1).rev();
        let minutes = head.fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap_or(0.0));
        return signed(minutes * 60.0 + last);
    }
    let (fraction, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (rest.get(..at)?, Some(rest.get(at + 1..)?)),
        None => (rest, None),
    };
    // YAML 1.1 wants a sign in the exponent.
    let exponent_ok = exponent.is_none_or(|exponent| {
        exponent
            .strip_prefix(['+', '-'])
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let whole_ok = if whole.is_empty() {
        // Without a whole part there is no sign, and a digit must follow the point.
        body.len() == text.len() && fraction.starts_with(|first: char| first.is_ascii_digit())
    } else {
        whole.starts_with(|first: char| first.is_ascii_digit()) && digits_or_underscores(whole)
    };
    if !exponent_ok || !whole_ok || !digits_or_underscores(fraction) {
        return None;
    }
    signed(body.replace('_', "").parse().ok()?)
}

/// The parts of `a:b:c`; the first starts with a digit of at least `least`, each other one is below 60.
fn sexagesimal(text: &str, least: char) -> Option<Vec<String>> {
    let mut parts = text.split(':');
    let first = parts.next()?;
    if !first.starts_with(|c: char| c.is_ascii_digit() && c >= least) || !digits_or_underscores(first) {
        return None;
    }
    let mut all = vec![first.replace('_', "")];
    for part in parts {
        let ok = matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
        if !ok {
            return None;
        }
        all.push(part.to_owned());
    }
    (all.len() > 1).then_some(all)
}

fn integer(text: &str) -> Option<Value> {
    let (negative, body) = sign(text);
    let radix = |digits: &str, radix: u32| {
        let digits = digits.replace('_', "");
        let sign = if negative { "-" } else { "" };
        match u128::from_str_radix(&digits, radix) {
            Ok(value) => Some(whole(negative, value, text)),
            Err(_) => decimal(&digits, radix).map(|digits| Value::String(format!("{sign}{digits}"))),
        }
    };
    if let Some(digits) = body.strip_prefix("0b") {
        return radix(digits, 2);
    }
    if let Some(digits) = body.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if body == "0" {
        return Some(Value::Int(0));
    }
    if body.starts_with('0') {
        let octal = body.bytes().all(|byte| matches!(byte, b'0'..=b'7' | b'_'));
        return if octal { radix(body, 8) } else { None };
    }
    if body.contains(':') {
        let value = sexagesimal(body, '1')?
            .iter()
            .try_fold(0u128, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))?;
        return Some(whole(negative, value, text));
    }
    if !body.starts_with(|first: char| first.is_ascii_digit()) || !digits_or_underscores(body) {
        return None;
    }
    let digits = body.replace('_', "");
    Some(match digits.parse() {
        Ok(value) => whole(negative, value, text),
        Err(_) => Value::String(format!("{}{digits}", if negative { "-" } else { "" })),
    })
}

fn whole(negative: bool, value: u128, text: &str) -> Value {
    let signed = i128::try_from(value).ok().map(|value| if negative { -value } else { value });
    match signed {
        Some(value) => i64::try_from(value)
            .map(Value::Int)
            .or_else(|_| u64::try_from(value).map(Value::UInt))
            .unwrap_or_else(|_| Value::String(value.to_string())),
        None => Value::from(text),
    }
}

/// A date or a time in ISO form, as Python's `isoformat()` prints it.
fn timestamp(text: &str) -> Option<String> {
    let digits = |part: &str, least: usize, most: usize| -> Option<u32> {
        let ok = (least..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if ok { part.parse().ok() } else { None }
    };
    let split = text.find(['T', 't', ' ', '\t']);
    let (date, time) = match split {
        Some(at) => (text.get(..at)?, Some(text.get(at..)?)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let least = if time.is_some() { 1 } else { 2 };
    let (year, month, day) = (digits(year, 4, 4)?, digits(month, least, 2)?, digits(day, least, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=days).contains(&day) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    let Some(time) = time else { return Some(date) };
    let time = match time.strip_prefix(['T', 't']) {
        Some(rest) => rest,
        None => time.trim_start_matches([' ', '\t']),
    };
    let clock_end = time.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(time.len());
    let (clock, zone) = (time.get(..clock_end)?, time.get(clock_end..)?.trim_start_matches([' ', '\t']));
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, fraction),
        None => (clock, ""),
    };
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let (hour, minute, second) = (digits(hour, 1, 2)?, digits(minute, 2, 2)?, digits(second, 2, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros: u32 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let micros = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    let zone = match zone {
        "" => String::new(),
        "Z" => "+00:00".to_owned(),
        _ => {
            let rest = zone.strip_prefix(['+', '-'])?;
            let (hours, minutes) = match rest.split_once(':') {
                Some(pair) => pair,
                None => (rest, ""),
            };
            let hours = digits(hours, 1, 2)?;
            let minutes = if rest.contains(':') { digits(minutes, 2, 2)? } else { 0 };
            if hours > 23 || minutes > 59 {
                return None;
            }
            format!("{}{hours:02}:{minutes:02}", zone.get(..1)?)
        }
    };
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{micros}{zone}"))
}
