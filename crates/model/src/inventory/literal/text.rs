//! Strings as Python writes them.

/// The text of a quoted string at the start of `body`, and what follows it.
pub(super) fn string_body(body: &str, raw: bool, bytes: bool) -> Option<(String, &str)> {
    let quote = body.chars().next()?;
    let triple = quote.to_string().repeat(3);
    let (close, mut rest) = match body.strip_prefix(triple.as_str()) {
        Some(rest) => (triple, rest),
        None => (quote.to_string(), body.get(1..)?),
    };
    let mut text = String::new();
    let mut octets = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(close.as_str()) {
            if bytes {
                text = String::from_utf8(octets).ok()?;
            }
            return Some((text, after));
        }
        let c = rest.chars().next()?;
        rest = rest.get(c.len_utf8()..)?;
        if bytes && !c.is_ascii() {
            return None;
        }
        let decoded = if c != '\\' {
            c
        } else if raw {
            // A raw string keeps the backslash, but an escaped quote does not end it.
            let next = rest.chars().next()?;
            rest = rest.get(next.len_utf8()..)?;
            text.push('\\');
            octets.push(b'\\');
            next
        } else {
            match escape(rest, bytes)? {
                Escape::Char(c, length) => {
                    rest = rest.get(length..)?;
                    c
                }
                Escape::None => '\\',
            }
        };
        text.push(decoded);
        octets.push(u8::try_from(u32::from(decoded)).unwrap_or(b'?'));
    }
}

pub(super) enum Escape {
    /// The character, and how many bytes after the backslash stand for it.
    Char(char, usize),
    /// Not an escape: the backslash stays.
    None,
}

pub(super) fn escape(rest: &str, bytes: bool) -> Option<Escape> {
    let next = rest.chars().next()?;
    let hex = |length: usize| -> Option<Escape> {
        let digits = rest.get(1..=length)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        Some(Escape::Char(c, length + 1))
    };
    Some(match next {
        '\\' | '\'' | '"' => Escape::Char(next, 1),
        'a' => Escape::Char('\u{7}', 1),
        'b' => Escape::Char('\u{8}', 1),
        'f' => Escape::Char('\u{c}', 1),
        'n' => Escape::Char('\n', 1),
        'r' => Escape::Char('\r', 1),
        't' => Escape::Char('\t', 1),
        'v' => Escape::Char('\u{b}', 1),
        '0'..='7' => {
            let length = rest.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            let code = u32::from_str_radix(rest.get(..length)?, 8).ok()?;
            Escape::Char(char::from_u32(code)?, length)
        }
        'x' => hex(2)?,
        'u' if !bytes => hex(4)?,
        'U' if !bytes => hex(8)?,
        'N' if !bytes => return None,
        _ => Escape::None,
    })
}
