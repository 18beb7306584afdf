//! The source and the inputs of an item as one text. A saved plan binds what it defers by a digest of this text.

use std::collections::BTreeSet;
use std::fmt;

use converge_syntax::{Node, Span, Value};
use converge_template::{Evaluation, Scope};
use serde_json::{Value as Json, json};

use crate::catalog::Load;
use crate::declare::{DeclaredItem, Each, RegisteredResults, RoleUse};
use crate::files::locate;

/// Values of a moment of a run: no digest of them binds anything.
const OF_THE_MOMENT: [&str; 3] = ["facts", "facts_before", "hostvars"];

/// The source and the inputs of an item. Two of them are equal when the item means the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Binding {
    /// Canonical text. It may hold secrets.
    pub text: String,
    /// A secret went into it.
    pub sensitive: bool,
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("sensitive", &self.sensitive).finish_non_exhaustive()
    }
}

/// Collects the parts of a binding.
struct BindingParts<'a> {
    used: &'a RoleUse,
    scope: Scope,
    sensitive: bool,
    /// Everything that evaluations reached, by its full name: `hostvars.h1.port`, `lookup.file.motd`.
    lookups: BTreeSet<String>,
}

impl RoleUse {
    /// The source and the inputs of an item, as far as they are known.
    pub fn binding(&self, item: &DeclaredItem, registered: &RegisteredResults) -> Binding {
        let scope = self.item_scope(item, registered);
        let mut parts =
            BindingParts { used: self, scope, sensitive: item.item.sensitive, lookups: BTreeSet::new() };
        let written = parts.written(item);
        let params = parts.values(&item.item.params);
        let files = parts.files(item, &params);
        let element = match &item.each {
            Each::Element { value, sensitive, .. } => {
                parts.sensitive |= sensitive;
                value.to_json()
            }
            _ => Json::Null,
        };
        let inputs = parts.inputs(item);
        let text = json!({
            "address": item.address, "kind": item.kind, "written": written, "params": params, "files": files, "element": element,
            "inputs": inputs,
        });
        // Maps are sorted by their keys, so equal values have equal texts.
        // A password that nobody has marked is none to guess from a digest either.
        let sensitive = parts.sensitive || self.recorded_part(item).is_some();
        Binding { text: sorted(&text).to_string(), sensitive }
    }
}

impl BindingParts<'_> {
    fn source(&mut self, node: &Node) -> Json {
        self.sensitive |= node.span.source.is_secret();
        let plain = match &node.value {
            Value::List(items) => items.iter().map(|item| self.source(item)).collect(),
            // The order of a map may matter to the item.
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| json!([self.source(key), self.source(value)])).collect()
            }
            _ => node.to_json(),
        };
        match &node.tag {
            Some(tag) => json!([tag, plain]),
            None => plain,
        }
    }

    fn sources<'n>(&mut self, nodes: impl IntoIterator<Item = &'n Node>) -> Vec<Json> {
        nodes.into_iter().map(|node| self.source(node)).collect()
    }

    /// The item as it stands in the role.
    fn written(&mut self, item: &DeclaredItem) -> Json {
        let source = &item.item;
        json!({
            "params": self.source(&source.params),
            "when": self.sources(&source.when),
            "use": self.sources(&self.used.conditions),
            "for_each": self.sources(&source.for_each),
            "become_user": self.sources(&source.become_user),
            "register": item.register,
            "sensitive": source.sensitive,
        })
    }

    fn value(&mut self, node: &Node) -> Option<Json> {
        match self.used.project.shared.engine.eval_value(node, &self.scope) {
            Ok(Evaluation::Known(found)) => {
                self.sensitive |= found.sensitive;
                self.lookups.extend(found.lookups);
                Some(found.value.to_json())
            }
            Ok(Evaluation::Unknown { lookups, .. }) => {
                self.lookups.extend(lookups);
                None
            }
            Err(_) => None,
        }
    }

    /// The parameters, null for what is not known.
    fn values(&mut self, node: &Node) -> Json {
        match &node.value {
            Value::List(items) => items.iter().map(|item| self.values(item)).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| json!([key.to_json(), self.values(value)])).collect()
            }
            _ => self.value(node).unwrap_or_default(),
        }
    }

    /// The files of the role that the item reads.
    fn files(&mut self, item: &DeclaredItem, params: &Json) -> Json {
        let project = &self.used.project;
        let spec = project.catalog.get(&item.kind);
        let entry = |name: &str| {
            let entries = params.as_array()?.iter();
            let entry = entries.filter_map(Json::as_array).find(|e| e.first().is_some_and(|k| k == name))?;
            entry.get(1)?.as_str().map(str::to_owned)
        };
        let mut files = Vec::new();
        for (name, load) in spec.map(|spec| spec.loads()).unwrap_or_default() {
            let span = &item.item.params.span;
            let Some(path) = entry(name).and_then(|n| locate(&self.used.role, load, &n, span).ok()) else {
                continue;
            };
            match load {
                Load::Source | Load::Tree => {
                    if let Ok(bytes) = project.files.bytes(load, &path, span) {
                        self.sensitive |= bytes.secret;
                        files.push(json!(&*bytes.hex));
                    }
                }
                Load::Template => {
                    if let Ok(source) = project.files.template(&path, span) {
                        self.sensitive |= source.is_secret();
                        files.push(json!(source.content()));
                        if ["include", "import", "extends"].iter().any(|word| source.content().contains(word))
                        {
                            files.extend(self.templates());
                        }
                        // The names that its variables look up are followed below; those of the file itself show only when
                        // it is rendered.
                        if let Ok(Evaluation::Unknown { lookups, .. }) =
                            project.shared.engine.render_file(&source, &self.scope)
                        {
                            self.lookups.extend(lookups);
                        }
                    }
                }
            }
        }
        files.into()
    }

    /// All templates of the role: one may include another.
    fn templates(&mut self) -> Vec<Json> {
        let folder = self.used.role.dir.join("templates");
        let mut paths: Vec<_> =
            folder.read_dir_utf8().into_iter().flatten().flatten().map(|e| e.into_path()).collect();
        paths.sort();
        let mut all = Vec::new();
        for path in paths.iter().filter(|path| path.is_file()) {
            if let Ok(source) = self.used.project.files.template(path, &self.used.role.span) {
                self.sensitive |= source.is_secret();
                all.push(json!([path.file_name(), source.content()]));
            }
        }
        all
    }

    /// The values of all variables that the item may read; of one that is not known, how it is written.
    fn inputs(&mut self, item: &DeclaredItem) -> Json {
        let names = self.used.possible_lookups(item, BTreeSet::new());
        let later = |name: &str| {
            OF_THE_MOMENT.contains(&name)
                || name == "item"
                || item.sees.iter().any(|observed| observed == name)
        };
        let mut inputs = serde_json::Map::new();
        for name in names.iter().filter(|name| !name.contains('.') && !later(name)) {
            let value = self.value(&Node::new(format!("{{{{ {name} }}}}"), Span::nowhere("a saved plan")));
            let value = value.or_else(|| {
                let winner = self.used.layers.get(name)?.last()?;
                self.sensitive |= winner.sensitive;
                let node = winner.node.clone();
                Some(json!({"written": self.source(&node)}))
            });
            inputs.insert(name.clone(), value.unwrap_or_default());
        }
        for name in std::mem::take(&mut self.lookups) {
            let expression = match name.split_once('.') {
                Some(("hostvars", rest)) => rest
                    .rsplit_once('.')
                    .filter(|(host, var)| !host.ends_with(".facts") && !OF_THE_MOMENT.contains(var))
                    .map(|(host, var)| format!("hostvars[{}][{}]", json!(host), json!(var))),
                Some(("lookup", rest)) => rest
                    .split_once('.')
                    .filter(|(sort, _)| ["file", "unvault", "env"].contains(sort))
                    .map(|(sort, name)| format!("lookup({}, {})", json!(sort), json!(name))),
                _ => None,
            };
            let Some(expression) = expression else { continue };
            let value =
                self.value(&Node::new(format!("{{{{ {expression} }}}}"), Span::nowhere("a saved plan")));
            inputs.insert(name, value.unwrap_or_default());
        }
        inputs.into()
    }
}

/// The same value with the entries of all maps in the order of their keys.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(sorted).collect(),
        Json::Object(entries) => {
            let mut entries: Vec<(String, Json)> =
                entries.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(entries.into_iter().collect())
        }
        plain => plain.clone(),
    }
}
