//! The catalog of kinds as data: the model depends on no kind.

use converge_syntax::Node;
use indexmap::IndexMap;
use serde_json::Value as Json;

pub use converge_resource::LOAD_KEYWORD;
use converge_resource::{KindInfo, Place, UNRECORDED_KEYWORD};

/// The schema keyword of a kind with declared outputs, which allows `register`.
pub const OUTPUT_KEYWORD: &str = "x-converge-outputs";

/// One kind.
#[derive(Clone, Debug)]
pub struct KindSpec {
    /// JSON Schema (2020-12, as schemars writes it) of the parameters.
    pub schema: Json,
    /// The kind only reads: it is allowed in `check` and `verify`.
    pub read_only: bool,
    /// The scopes of the roles that it may be used in.
    pub scopes: Vec<Place>,
    /// The kind is allowed only in `verify`.
    pub verify_only: bool,
}

/// All kinds by name.
#[derive(Clone, Debug, Default)]
pub struct KindCatalog {
    kinds: IndexMap<String, KindSpec>,
}

/// A parameter that names a file of the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Rendered from the role's `templates/`.
    Template,
    /// Read from the role's `files/`.
    Source,
    /// A folder of the role's `files/`, packed.
    Tree,
}

impl KindCatalog {
    /// No kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind for hosts, or replaces it.
    pub fn add(&mut self, name: impl Into<String>, schema: Json, read_only: bool) {
        self.insert(name, KindSpec::for_hosts(schema, read_only));
    }

    /// Adds a kind, or replaces it.
    pub fn insert(&mut self, name: impl Into<String>, spec: KindSpec) {
        self.kinds.insert(name.into(), spec);
    }

    /// The kind of this name.
    pub fn get(&self, name: &str) -> Option<&KindSpec> {
        self.kinds.get(name)
    }

    /// All names for roles of this scope, in the order they were added.
    pub fn names(&self, scope: Place) -> impl Iterator<Item = &str> {
        self.kinds.iter().filter(move |(_, spec)| spec.scopes.contains(&scope)).map(|(name, _)| name.as_str())
    }
}

impl KindSpec {
    /// The properties of a kind that the model needs.
    pub fn of(kind: &KindInfo) -> Self {
        Self {
            schema: (kind.schema)(),
            read_only: kind.read_only,
            scopes: kind.places.to_vec(),
            verify_only: kind.verify_only,
        }
    }

    /// A kind for roles that act on hosts.
    pub fn for_hosts(schema: Json, read_only: bool) -> Self {
        Self { schema, read_only, scopes: vec![Place::Host], verify_only: false }
    }

    /// The schema that a `$ref` leads to; the schema itself where there is none.
    pub(crate) fn resolve<'s>(&'s self, schema: &'s Json) -> &'s Json {
        let mut schema = schema;
        // A chain of references is short; a cycle of them is not followed for ever.
        for _ in 0..8 {
            let Some(target) = schema.get("$ref").and_then(Json::as_str) else {
                break;
            };
            match target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer)) {
                Some(found) => schema = found,
                None => break,
            }
        }
        schema
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.resolve(&self.schema).get("properties").and_then(Json::as_object).into_iter().flatten()
    }

    /// The parameters that name files of the role.
    pub(crate) fn loads(&self) -> Vec<(&str, Load)> {
        self.properties().filter_map(|(name, schema)| Some((name.as_str(), self.load_of(schema)?))).collect()
    }

    fn load_of(&self, schema: &Json) -> Option<Load> {
        let schema = self.resolve(schema);
        match schema.get(LOAD_KEYWORD).and_then(Json::as_str) {
            Some("template") => return Some(Load::Template),
            Some("source") => return Some(Load::Source),
            Some("tree") => return Some(Load::Tree),
            _ => {}
        }
        ["anyOf", "oneOf", "allOf"]
            .iter()
            .filter_map(|key| schema.get(*key)?.as_array())
            .flatten()
            .find_map(|inner| self.load_of(inner))
    }

    /// Whether the value of this parameter is in no state, plan, diff, record or output.
    pub(crate) fn is_unrecorded(&self, parameter: &str) -> bool {
        let properties = self.resolve(&self.schema).get("properties");
        properties.and_then(|all| all.get(parameter)).is_some_and(|schema| self.marks_unrecorded(schema))
    }

    fn marks_unrecorded(&self, schema: &Json) -> bool {
        let schema = self.resolve(schema);
        let options = schema.get("anyOf").and_then(Json::as_array).into_iter().flatten();
        schema.get(UNRECORDED_KEYWORD).is_some() || options.into_iter().any(|one| self.marks_unrecorded(one))
    }

    /// May its result be registered?
    pub(crate) fn has_outputs(&self, kind: &str) -> bool {
        kind == "query" || self.schema.get(OUTPUT_KEYWORD).is_some()
    }

    /// The text that stands for these parameters in a default name: the value itself, else its first required
    /// parameter that is a scalar or a list of them, else the first parameter of that sort.
    pub(crate) fn main_parameter(&self, params: &Node) -> Option<String> {
        if let Some(text) = brief(params) {
            return Some(text);
        }
        let schema = self.resolve(&self.schema);
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        let first = required
            .filter_map(Json::as_str)
            .chain(self.properties().map(|(name, _)| name.as_str()))
            .find_map(|name| params.get(name).and_then(brief));
        first.or_else(|| params.as_map()?.iter().find_map(|(_, value)| brief(value)))
    }
}

fn brief(node: &Node) -> Option<String> {
    let text = match node.as_list() {
        Some(items) => items.iter().map(Node::scalar_text).collect::<Option<Vec<_>>>()?.join(" "),
        None => node.scalar_text()?,
    };
    let line = text.lines().next()?.trim();
    if line.is_empty() || node.is_null() {
        return None;
    }
    Some(match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", line.get(..at)?),
        None => line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::Span;
    use serde_json::json;

    #[test]
    fn files_to_load_are_found_behind_options_and_references() {
        let mut catalog = KindCatalog::new();
        catalog.add(
            "file",
            json!({"type": "object", "properties": {
                "path": {"type": "string"},
                "template": {"type": ["string", "null"], "x-converge-load": "template"},
                "source": {"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}},
                "$defs": {"S": {"type": "string", "x-converge-load": "source"}}}),
            false,
        );
        let spec = catalog.get("file").unwrap();
        assert_eq!(spec.loads(), [("template", Load::Template), ("source", Load::Source)]);
    }

    #[test]
    fn a_default_name_comes_from_the_main_parameter() {
        let schema = json!({"properties": {"state": {}, "names": {}, "path": {}}, "required": ["path"]});
        let spec = KindSpec::for_hosts(schema, false);
        let main = |json: Json| spec.main_parameter(&Node::from_json(&json, &Span::nowhere("t")));
        assert_eq!(main(json!("jq")), Some("jq".into()));
        assert_eq!(main(json!({"state": "absent", "path": "/a"})), Some("/a".into()));
        assert_eq!(main(json!({"names": ["jq", "tree"]})), Some("jq tree".into()));
        assert_eq!(main(json!({"names": {"a": 1}})), None);
        assert_eq!(main(json!(null)), None);
    }
}
