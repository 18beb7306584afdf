//! Parameters that name a file of the role. The model reads or renders it before the kind sees it.

use crate::Content;
use crate::hex::{from_hex, to_hex};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// The schema keyword by which the model finds parameters to load: `"template"` or `"source"`.
pub const LOAD_KEYWORD: &str = "x-converge-load";

/// The schema keyword with the correction for a value that does not match the `pattern` beside it.
pub const HELP_KEYWORD: &str = "x-converge-help";

/// A parameter written as a path under the role's `templates/`, handed over as
/// `{"path": "x.conf.j2", "text": "…rendered…"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// As the user wrote it.
    pub path: String,
    /// The rendered text.
    pub text: String,
}

/// A parameter written as a path under the role's `files/`, handed over as `{"path": "x", "hex": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As the user wrote it.
    pub path: String,
    /// The file's bytes.
    pub content: Content,
}

/// A parameter written as a folder under the role's `files/`, handed over as a [`SourceFile`]: the folder as a tar.gz, below its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(pub SourceFile);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTemplate {
    path: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSource {
    path: String,
    hex: String,
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        RawTemplate::deserialize(d).map(|RawTemplate { path, text }| Self { path, text })
    }
}

impl<'de> Deserialize<'de> for SourceFile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let RawSource { path, hex } = RawSource::deserialize(d)?;
        let bytes = from_hex(&hex).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))?;
        Ok(Self { path, content: Content::new(bytes) })
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        SourceFile::deserialize(d).map(Self)
    }
}

impl Template {
    /// The JSON that a kind reads a template from.
    pub fn loaded(path: &str, text: &str) -> serde_json::Value {
        serde_json::json!({"path": path, "text": text})
    }
}

impl SourceFile {
    /// The JSON that a kind reads a source from.
    pub fn loaded(path: &str, bytes: &[u8]) -> serde_json::Value {
        serde_json::json!({"path": path, "hex": to_hex(bytes)})
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-converge-load": "template"})
    }
}

impl JsonSchema for SourceFile {
    fn schema_name() -> Cow<'static, str> {
        "Source".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-converge-load": "source"})
    }
}

impl JsonSchema for Tree {
    fn schema_name() -> Cow<'static, str> {
        "Tree".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-converge-load": "tree"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_loads_the_kind_reads() {
        let t: Template = serde_json::from_value(Template::loaded("a.j2", "x\n")).unwrap();
        assert_eq!((t.path.as_str(), t.text.as_str()), ("a.j2", "x\n"));
        let s: SourceFile = serde_json::from_value(SourceFile::loaded("a", &[0, 255, 7])).unwrap();
        assert_eq!(s.content.bytes(), [0, 255, 7]);
        assert!(serde_json::from_value::<SourceFile>(serde_json::json!({"path": "a", "hex": "0é"})).is_err());
    }
}
