//! `assert`

use converge_resource::{Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Conditions that must hold, or the host's resources after it are not done.
///
/// Write each as a whole expression, which becomes true or false before it is checked: `"{{ ram_mib >= 4096 }}"`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assert {
    /// One condition, or a list: booleans, or expressions in `{{ }}` that give one.
    that: Conditions,
    /// The message for the user if one of them does not hold.
    message: Option<String>,
}

/// One boolean or several.
#[derive(Debug)]
struct Conditions {
    list: bool,
    holds: Vec<bool>,
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(AssertionsVisitor)
    }
}

/// A single boolean of the list.
struct Assertion(bool);

impl<'de> Deserialize<'de> for Assertion {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let one = d.deserialize_any(AssertionsVisitor)?;
        match one.holds.as_slice() {
            [holds] if !one.list => Ok(Self(*holds)),
            _ => Err(D::Error::custom("a list stands in the list of conditions")),
        }
    }
}

struct AssertionsVisitor;

impl<'de> Visitor<'de> for AssertionsVisitor {
    type Value = Conditions;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false, or a list of them")
    }
    fn visit_bool<E: Error>(self, holds: bool) -> Result<Conditions, E> {
        Ok(Conditions { list: false, holds: vec![holds] })
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Conditions, E> {
        Err(E::custom(format!(
            "`{text}` is text, not true or false: write the expression as `\"{{{{ {text} }}}}\"`"
        )))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Conditions, A::Error> {
        let mut holds = Vec::new();
        while let Some(Assertion(one)) = list.next_element()? {
            holds.push(one);
        }
        Ok(Conditions { list: true, holds })
    }
}

impl JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // Strings: expressions, before they are evaluated.
        json_schema!({"type": ["boolean", "string", "array"], "items": {"type": ["boolean", "string"]}})
    }
}

impl Resource for Assert {
    const KIND: &'static str = "assert";
    const READ_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Host, Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the host is large enough
  assert:
    that: [\"{{ ram_mib >= 4096 }}\", \"{{ cores >= 2 }}\"]
    message: a control plane needs 4 GiB of memory and 2 cores
";

    fn validate(&self) -> Vec<ParamError> {
        if self.that.holds.is_empty() {
            return vec![ParamError::new("/that", "the list of conditions is empty", "write a condition")];
        }
        Vec::new()
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, _: &dyn View) -> Result<WantedStates, Stop> {
        let failed: Vec<String> = self
            .that
            .holds
            .iter()
            .enumerate()
            .filter(|(_, h)| !**h)
            .map(|(i, _)| (i + 1).to_string())
            .collect();
        if failed.is_empty() {
            return Ok(WantedStates::default());
        }
        let which = match (self.that.list, failed.len()) {
            (false, _) => "the condition does not hold".to_owned(),
            (true, 1) => format!("condition {} of `that` does not hold", failed.concat()),
            (true, _) => format!("conditions {} of `that` do not hold", failed.join(", ")),
        };
        Err(Stop::Failed(self.message.as_ref().map_or_else(|| which.clone(), |m| format!("{m} ({which})"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn why(params: serde_json::Value) -> String {
        match read::<Assert>(params).plan(&FakeView::new()) {
            Err(Stop::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_must_hold() {
        settle(&read::<Assert>(json!({"that": true})), FakeView::new());
        settle(&read::<Assert>(json!({"that": [true, true]})), FakeView::new());
        assert_eq!(why(json!({"that": false})), "the condition does not hold");
        assert_eq!(why(json!({"that": [true, false]})), "condition 2 of `that` does not hold");
        let both = why(json!({"that": [false, true, false], "message": "too small"}));
        assert_eq!(both, "too small (conditions 1, 3 of `that` do not hold)");
    }

    #[test]
    fn text_is_no_condition() {
        assert_eq!(wrong::<Assert>(json!({"that": ["x > 1"]})), ["parse /that/0"]);
        assert_eq!(wrong::<Assert>(json!({"that": [[true]]})), ["parse /that/0"]);
        assert_eq!(wrong::<Assert>(json!({"that": []})), ["/that"]);
        let error = converge_resource::parse_params::<Assert>(&json!({"that": "x > 1"})).unwrap_err();
        assert!(error.message.contains("`\"{{ x > 1 }}\"`"), "{}", error.message);
    }
}
