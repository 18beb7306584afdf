//! Amounts of bytes, as a user writes them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Bytes: a number, or text with a unit of powers of two, `2GiB` or `512M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    fn from_text(text: &str) -> Option<Self> {
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let shift = match unit.trim().trim_end_matches("iB") {
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes, or a size such as `2GiB`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                Size::from_text(text).ok_or_else(|| {
                    E::custom(format!("`{text}` is not a size: write `2GiB`, `512MiB`, or bytes as a number"))
                })
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Size, E> {
                Ok(Size(number))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number).map(Size).map_err(|_| E::custom(format!("{number} is not a size")))
            }
        }
        d.deserialize_any(SizeVisitor)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "pattern": "^[0-9]+ ?[KMGT](iB)?$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn sizes_have_units_of_powers_of_two() {
        for (text, bytes) in [(json!("2GiB"), 2u64 << 30), (json!("512M"), 512 << 20), (json!(77), 77)] {
            assert_eq!(from_value::<Size>(text).unwrap().0, bytes);
        }
        for bad in [json!("2GB"), json!("G"), json!("77"), json!(-1), json!("99999999999T")] {
            assert!(from_value::<Size>(bad.clone()).is_err(), "{bad}");
        }
    }
}
