//! Mode, owner and group of a path, as a user writes them.

use crate::look::{Account, Asks, account_name};
use converge_resource::{Claim, HELP_KEYWORD, ObjectId, ParamError, Stop, View};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Permission bits: a string of octal digits, `"0644"`, or symbols that say all of them, `"u=rw,g=r,o="`.
///
/// YAML 1.1 reads an unquoted `0644` as the number 420. A number is taken when it can only be such a literal; one
/// that could as well be a forgotten zero (`644`) is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

/// The reason why something is not taken for a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ModeError {
    /// Its decimal digits would be a usual mode.
    #[error("the mode {0} is a decimal number: write \"0{0}\"")]
    Decimal(u64),
    /// No usual mode has this value.
    #[error("the mode {0} is a number: write octal digits in quotes, as \"0644\"")]
    Number(u64),
    /// It is written in no way that is read.
    #[error("`{0}` is not a mode: write octal digits, as \"0644\", or symbols, as \"u=rw,g=r,o=r\"")]
    Unread(String),
    /// A part of it changes bits of which the parts before it say nothing.
    #[error(
        "`{part}` in the mode `{mode}` depends on the present mode: write all of it first, as \"u=rw,g=r,o=r\" or \"a=r,u+w\""
    )]
    Relative { mode: String, part: String },
    /// It says nothing about some of owner, group and others.
    #[error("the mode `{mode}` says nothing about {missing}: write all of it, as \"u=rw,g=r,o=\"")]
    Partial { mode: String, missing: String },
    /// The bit that only some objects get.
    #[error("`X` in the mode `{0}` depends on the present mode: write `x`, or leave it out")]
    Sometimes(String),
    /// Without a class, the mask of whoever runs it counts.
    #[error(
        "`{part}` in the mode `{mode}` says not whose bits it means: write `a{part}`, or `u`, `g` and `o`"
    )]
    Nobody { mode: String, part: String },
}

/// Owner, group and others: the letter, the words for people, the place of the bits, and the bit of `s` or `t`.
const CLASSES: [(char, &str, u32, u32); 3] =
    [('u', "the owner (u)", 6, 0o4000), ('g', "the group (g)", 3, 0o2000), ('o', "others (o)", 0, 0o1000)];

/// Symbols as `chmod` reads them, if they say the whole mode, whatever it was before.
fn symbolic(text: &str) -> Result<u32, ModeError> {
    let unread = || ModeError::Unread(text.to_owned());
    // The bits of each class, with its special bit as 8; none where nothing has been said.
    let mut known: [Option<u32>; 3] = [None; 3];
    for part in text.split(',') {
        let (mode, part_text) = (|| text.to_owned(), || part.to_owned());
        let start = part.find(['=', '+', '-']).ok_or_else(unread)?;
        let (who, mut actions) = part.split_at(start);
        if who.is_empty() {
            return Err(ModeError::Nobody { mode: mode(), part: part_text() });
        }
        if !who.chars().all(|c| "ugoa".contains(c)) {
            return Err(unread());
        }
        while let Some(sign) = actions.chars().next() {
            let rest = actions.get(1..).unwrap_or_default();
            let end = rest.find(['=', '+', '-']).unwrap_or(rest.len());
            let (letters, after) = rest.split_at(end);
            actions = after;
            let before = known;
            for (at, (letter, ..)) in CLASSES.iter().enumerate() {
                if !who.contains(*letter) && !who.contains('a') {
                    continue;
                }
                let Some(slot) = known.get_mut(at) else { continue };
                let relative = || ModeError::Relative { mode: mode(), part: part_text() };
                let bits = bits_of(letters, at, &before, text)?.ok_or_else(relative)?;
                *slot = Some(match sign {
                    '=' => bits,
                    '+' => slot.ok_or_else(relative)? | bits,
                    _ => slot.ok_or_else(relative)? & !bits,
                });
            }
        }
    }
    let missing: Vec<&str> = CLASSES
        .iter()
        .zip(&known)
        .filter(|(_, bits)| bits.is_none())
        .map(|((_, words, ..), _)| *words)
        .collect();
    if !missing.is_empty() {
        return Err(ModeError::Partial { mode: text.to_owned(), missing: missing.join(" and ") });
    }
    let placed = CLASSES.iter().zip(known).map(|((_, _, place, special), bits)| {
        let bits = bits.unwrap_or_default();
        (bits & 7) << place | if bits & 8 != 0 { *special } else { 0 }
    });
    Ok(placed.fold(0, |all, bits| all | bits))
}

/// The bits that these letters mean for a class. `None` if they are those of another class of which nothing is known.
fn bits_of(
    letters: &str,
    class: usize,
    known: &[Option<u32>; 3],
    text: &str,
) -> Result<Option<u32>, ModeError> {
    let mut bits = 0;
    for letter in letters.chars() {
        bits |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            // Of others there is no `s`, and `t` is theirs alone.
            's' => {
                if class < 2 {
                    8
                } else {
                    0
                }
            }
            't' => {
                if class == 2 {
                    8
                } else {
                    0
                }
            }
            'X' => return Err(ModeError::Sometimes(text.to_owned())),
            copied => {
                let from = CLASSES.iter().position(|(other, ..)| *other == copied && letters.len() == 1);
                let Some(from) = from else { return Err(ModeError::Unread(text.to_owned())) };
                match known.get(from).copied().flatten() {
                    Some(bits) => bits & 7,
                    None => return Ok(None),
                }
            }
        };
    }
    Ok(Some(bits))
}

/// The usual form of a file's mode: the owner may read, and nobody may do more than the one before.
fn usual(mode: u32) -> bool {
    let (owner, group, other) = ((mode >> 6) & 7, (mode >> 3) & 7, mode & 7);
    mode <= 0o7777 && owner & 4 != 0 && group & !owner == 0 && other & !group == 0
}

impl Mode {
    fn from_text(text: &str) -> Result<Self, ModeError> {
        match Self::from_digits(text) {
            Some(mode) => Ok(mode),
            None if text.contains(['=', '+', '-']) => symbolic(text).map(Self),
            None => Err(ModeError::Unread(text.to_owned())),
        }
    }

    fn from_digits(text: &str) -> Option<Self> {
        let digits = (3..=5).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        u32::from_str_radix(text, 8).ok().filter(|m| digits && *m <= 0o7777).map(Self)
    }

    fn from_number(number: u64) -> Result<Self, ModeError> {
        let forgotten_zero = Self::from_digits(&number.to_string()).is_some_and(|m| usual(m.0));
        match u32::try_from(number).ok().filter(|m| usual(*m) && !forgotten_zero) {
            Some(mode) => Ok(Self(mode)),
            None if forgotten_zero => Err(ModeError::Decimal(number)),
            None => Err(ModeError::Number(number)),
        }
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct ModeVisitor;
        impl Visitor<'_> for ModeVisitor {
            type Value = Mode;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a mode in octal digits and quotes, as \"0644\", or in symbols, as \"u=rw,g=r,o=r\"",
                )
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Mode, E> {
                Mode::from_text(text).map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Mode, E> {
                Mode::from_number(number).map_err(E::custom)
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Mode, E> {
                let number =
                    u64::try_from(number).map_err(|_| E::custom(format!("{number} is not a mode")))?;
                self.visit_u64(number)
            }
        }
        d.deserialize_any(ModeVisitor)
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> Cow<'static, str> {
        "Mode".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "pattern": "^([0-7]{3,5}|[ugoa]*[-+=][-+=rwxXstugo]*(,[ugoa]*[-+=][-+=rwxXstugo]*)*)$",
            HELP_KEYWORD: "write octal digits in quotes, such as \"0644\", or the whole mode in symbols, such as u=rw,g=r,o=r",
        })
    }
}

/// The attributes of a path that an item declares.
pub struct Attrs<'a> {
    pub mode: Option<Mode>,
    pub owner: Option<&'a str>,
    pub group: Option<&'a str>,
}

/// Mode, owner, group of a path that is there.
pub type PresentAttributes<'a> = (u32, &'a str, &'a str);

impl Attrs<'_> {
    pub fn claims(&self, id: &ObjectId) -> Vec<Claim> {
        let mode = self.mode.map(|m| Claim::shared(id.clone(), "mode", format!("{:o}", m.0)));
        let owner = self.owner.map(|o| Claim::shared(id.clone(), "owner", o));
        let group = self.group.map(|g| Claim::shared(id.clone(), "group", g));
        [mode, owner, group].into_iter().flatten().collect()
    }

    pub fn validate(&self, errors: &mut Vec<ParamError>) {
        for (pointer, name) in [("/owner", self.owner), ("/group", self.group)] {
            if let Some(name) = name {
                check_account(pointer, name, errors);
            }
        }
    }

    /// The attributes that the path is to have. What is not said is kept; a new path is root's.
    /// `None` when something was asked.
    pub fn settle(
        &self,
        view: &dyn View,
        present: Option<PresentAttributes<'_>>,
        new_mode: u32,
        asks: &mut Asks,
    ) -> Result<Option<(u32, String, String)>, Stop> {
        let (mode, owner, group) = present.unwrap_or((new_mode, "root", "root"));
        let mut name = |account, pointer, wanted: Option<&str>, now: &str| match wanted {
            // An owner that is already so needs no look: this keeps a second run at one round trip.
            Some(wanted) if present.is_none() || wanted != now => {
                asks.take(account_name(view, account, pointer, wanted))
            }
            _ => Ok(Some(now.to_owned())),
        };
        let owner = name(Account::User, "/owner", self.owner, owner)?;
        let group = name(Account::Group, "/group", self.group, group)?;
        Ok(owner.zip(group).map(|(o, g)| (self.mode.map_or(mode, |m| m.0), o, g)))
    }
}

/// Refuses what can be no name of a user or group.
pub fn check_account(pointer: &str, name: &str, errors: &mut Vec<ParamError>) {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"_-.$@\\".contains(&b);
    if name.is_empty() || name.starts_with('-') || !name.bytes().all(good) {
        let help = "use letters, digits, `_`, `-` and `.`, as in `www-data`";
        errors.push(ParamError::new(pointer, format!("`{name}` is not the name of a user or group"), help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: serde_json::Value) -> Result<u32, String> {
        serde_json::from_value::<Mode>(value).map(|m| m.0).map_err(|e| e.to_string())
    }

    #[test]
    fn octal_digits_are_modes() {
        for (text, mode) in [("0644", 0o644), ("644", 0o644), ("1777", 0o1777), ("02755", 0o2755), ("000", 0)]
        {
            assert_eq!(read(json!(text)), Ok(mode));
        }
        for bad in ["0888", "u=rw", "64", "77777", "", "+644", "rw-r--r--"] {
            assert!(read(json!(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn symbols_that_say_all_of_it_are_modes() {
        for (text, mode) in [
            ("u=rw,g=r,o=", 0o640),
            ("u=rwx,g=rx,o=rx", 0o755),
            ("a=r,u+w", 0o644),
            ("ugo=rx", 0o555),
            ("a=rwx,o-w+t", 0o1775),
            ("u=rwxs,g=rxs,o=", 0o6750),
            ("u=rwx,go=", 0o700),
            ("u=rw,g=u,o=g,o-w", 0o664),
            ("a=", 0),
            ("u=rw+x-w,go=", 0o500),
            ("a=rxs,u-s", 0o2555),
        ] {
            assert_eq!(read(json!(text)), Ok(mode), "{text}");
        }
        for (text, why) in [
            ("u=rw", "says nothing about the group (g) and others (o)"),
            ("u+x", "`u+x` in the mode `u+x` depends on the present mode"),
            ("u=rw,g=r,o+r", "`o+r` in the mode `u=rw,g=r,o+r` depends on the present mode"),
            ("a=rX", "`X` in the mode `a=rX` depends"),
            ("a+X", "`X` in the mode `a+X` depends"),
            ("+x", "write `a+x`"),
            ("g=u,u=rw,o=", "`g=u` in the mode"),
            ("a=rq", "is not a mode"),
            ("a=ru", "is not a mode"),
            ("u=rw,", "is not a mode"),
        ] {
            let error = read(json!(text)).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn an_unquoted_literal_is_taken_only_when_it_is_one() {
        for mode in [0o644, 0o755, 0o600, 0o640, 0o440, 0o400, 0o700, 0o664, 0o775, 0o750, 0o1777] {
            assert_eq!(read(json!(mode)), Ok(mode), "{mode:o}");
        }
        for slip in [644, 755, 600, 640, 700, 775, 750, 777, 1777, 400] {
            let error = read(json!(slip)).unwrap_err();
            assert!(error.contains(&format!("\"0{slip}\"")), "{error}");
        }
        assert!(read(json!(-1)).is_err());
        assert!(read(json!(99999)).is_err());
    }
}
