//! A parameter that is text, or a number as it is written.

use converge_resource::HELP_KEYWORD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Text, or a number as it is written: with `FRACTIONS`, also one that is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextOrNumber<const FRACTIONS: bool>(pub String);

struct TextVisitor<const FRACTIONS: bool>;

impl<const FRACTIONS: bool> Visitor<'_> for TextVisitor<FRACTIONS> {
    type Value = TextOrNumber<FRACTIONS>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if FRACTIONS { "text or a number" } else { "text or a whole number" })
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrNumber(text.to_owned()))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(TextOrNumber(number.to_string()))
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(TextOrNumber(number.to_string()))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        match FRACTIONS {
            true => Ok(TextOrNumber(number.to_string())),
            false => Err(E::custom(format!("{number} is not whole"))),
        }
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Err(E::custom(format!(
            "{value} is not text: write the word that the program reads, as \"{value}\" or \"1\""
        )))
    }
}

impl<'de, const FRACTIONS: bool> Deserialize<'de> for TextOrNumber<FRACTIONS> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TextVisitor)
    }
}

impl<const FRACTIONS: bool> JsonSchema for TextOrNumber<FRACTIONS> {
    fn schema_name() -> Cow<'static, str> {
        "TextOrNumber".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match FRACTIONS {
            true => json_schema!({
                "type": ["string", "number"],
                HELP_KEYWORD: "write text in quotes, as \"true\"",
            }),
            false => json_schema!({"type": ["string", "integer"]}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_taken_as_they_are_written() {
        type Any = TextOrNumber<true>;
        for (written, text) in
            [(json!("x y"), "x y"), (json!(8080), "8080"), (json!(-1), "-1"), (json!(1.5), "1.5")]
        {
            assert_eq!(serde_json::from_value::<Any>(written).unwrap().0, text);
        }
        let error = serde_json::from_value::<Any>(json!(true)).unwrap_err().to_string();
        assert!(error.contains("\"true\""), "{error}");
        let whole = |value| serde_json::from_value::<TextOrNumber<false>>(value);
        assert_eq!(whole(json!(4096)).unwrap().0, "4096");
        assert!(whole(json!(1.5)).is_err());
    }
}
