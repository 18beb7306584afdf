//! The JSON Schema of `converge.toml`.

use super::keys::{Form, KEYS, SettingKey};
use crate::args::FORKS;
use serde_json::{Map, Value, json};

/// The schema, for editors.
pub fn schema() -> Value {
    let properties: Map<String, Value> = KEYS.iter().map(|key| (key.key.to_owned(), property(key))).collect();
    json!({
        "$schema": crate::schemas::DRAFT,
        "title": "Settings of converge",
        "description": "Settings of a project: converge.toml. Relative paths are relative to its folder",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn property(key: &SettingKey) -> Value {
    let description = format!("{}. Default: {}", key.help, key.default);
    let one = match key.form {
        Form::Number => {
            return json!({"description": description, "type": "integer", "minimum": FORKS.start(), "maximum": FORKS.end()});
        }
        Form::User => json!({"type": "string", "pattern": r"^[^-\s][^\s]*$"}),
        Form::VaultIds => json!({"type": "string", "pattern": "[^@]$"}),
        Form::Inventories | Form::Path | Form::Paths => json!({"type": "string", "minLength": 1}),
    };
    if key.is_list() {
        let list = json!({"type": "array", "minItems": 1, "items": one});
        return json!({"description": description, "anyOf": [one, list]});
    }
    let mut one = one;
    if let Some(map) = one.as_object_mut() {
        map.insert("description".to_owned(), description.into());
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::file;
    use converge_syntax::Source;

    /// A settings file as JSON: editors check its data.
    fn data(text: &str) -> Value {
        fn of(value: &toml_edit::Value) -> Value {
            match value {
                toml_edit::Value::String(text) => text.value().clone().into(),
                toml_edit::Value::Integer(number) => (*number.value()).into(),
                toml_edit::Value::Boolean(truth) => (*truth.value()).into(),
                toml_edit::Value::Array(list) => list.iter().map(of).collect(),
                _ => Value::Null,
            }
        }
        let document = toml_edit::Document::parse(text).unwrap();
        let pairs = document.as_table().iter();
        Value::Object(
            pairs.map(|(key, item)| (key.to_owned(), item.as_value().map_or(Value::Null, of))).collect(),
        )
    }

    #[test]
    fn the_schema_takes_what_the_reader_takes() {
        let schema = schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut texts: Vec<String> =
            KEYS.iter().map(|key| format!("{} = {}", key.key, key.example)).collect();
        let others = [
            "",
            "forks = 1",
            "forks = 1000",
            "forks = 0",
            "forks = 1001",
            "forks = \"1\"",
            "inventory = []",
            "inventory = \"\"",
            "inventory = [\"a\", \"b,\"]",
            "inventory = [1]",
            "inventory = true",
            "playbook = [\"a\"]",
            "user = \"a b\"",
            "user = \"-a\"",
            "user = \"a\"",
            "vault_ids = \"a@\"",
            "vault_ids = [\"a@prompt\"]",
            "reports = 1",
            "roles_path = \"a\"",
            "inventry = \"a\"",
        ];
        texts.extend(others.map(str::to_owned));
        let mut taken = 0;
        for text in texts {
            let read = file::read(&Source::new("converge.toml", text.as_str())).is_ok();
            assert_eq!(validator.is_valid(&data(&text)), read, "{text}");
            taken += usize::from(read);
        }
        assert!(taken >= 12, "{taken}");
    }
}
