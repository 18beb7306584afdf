//! Numbers as Python writes them.

use converge_syntax::{Value, decimal};

pub(super) fn short(x: f64) -> String {
    let text = super::super::python::float_repr(x);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

pub(super) enum Number {
    Whole(Value),
    Real(f64),
    Imaginary(f64),
}

/// The length of digits at the start of `text`; one underscore may stand between two of them.
pub(super) fn digits_len(text: &str, radix: u32) -> usize {
    let mut length = 0;
    let mut after_digit = false;
    for c in text.chars() {
        if c.is_digit(radix) {
            after_digit = true;
        } else if c == '_' && after_digit {
            after_digit = false;
        } else {
            break;
        }
        length += 1;
    }
    if length > 0 && !after_digit {
        length -= 1;
    }
    length
}

pub(super) fn whole(digits: &str, radix: u32) -> Option<Value> {
    let digits = digits.replace('_', "");
    match u64::from_str_radix(&digits, radix) {
        Ok(n) => Some(Value::from(n)),
        Err(_) => decimal(&digits, radix).map(Value::String),
    }
}

pub(super) fn number_at(text: &str) -> Option<(Number, usize)> {
    if let Some(prefix) = text.get(..2) {
        let radix = match prefix {
            "0x" | "0X" => 16,
            "0o" | "0O" => 8,
            "0b" | "0B" => 2,
            _ => 0,
        };
        if radix > 0 {
            let body = text.get(2..)?;
            let body = body.strip_prefix('_').unwrap_or(body);
            let skipped = text.len() - body.len();
            let length = digits_len(body, radix);
            let value = whole(body.get(..length)?, radix)?;
            return Some((Number::Whole(value), skipped + length));
        }
    }
    let integer = digits_len(text, 10);
    let mut end = integer;
    let mut real = false;
    if text.get(end..)?.starts_with('.') {
        let fraction = digits_len(text.get(end + 1..)?, 10);
        if integer == 0 && fraction == 0 {
            return None;
        }
        end += 1 + fraction;
        real = true;
    }
    let tail = text.get(end..)?;
    if tail.starts_with(['e', 'E']) {
        let signed = if tail.get(1..)?.starts_with(['+', '-']) { 2 } else { 1 };
        let exponent = digits_len(tail.get(signed..)?, 10);
        if exponent == 0 {
            return None;
        }
        end += signed + exponent;
        real = true;
    }
    let body = text.get(..end)?;
    if text.get(end..)?.starts_with(['j', 'J']) {
        let x = body.replace('_', "").parse().ok()?;
        return Some((Number::Imaginary(x), end + 1));
    }
    if real {
        return Some((Number::Real(body.replace('_', "").parse().ok()?), end));
    }
    // Leading zeros are allowed for zero alone.
    if body.starts_with('0') && body.bytes().any(|b| matches!(b, b'1'..=b'9')) {
        return None;
    }
    Some((Number::Whole(whole(body, 10)?), end))
}
