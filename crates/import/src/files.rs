//! The files of a role of Ansible.

use converge_syntax::{Diagnostic, Diagnostics, Dialect, Node, Source, Span, Value, parse_yaml_into};
use std::collections::BTreeMap;

/// The content of a file of a role.
#[derive(Clone, Debug)]
pub enum RoleFile {
    /// Text in UTF-8.
    Text(String),
    /// Anything else, and what need not be looked into.
    Other,
}

/// The files of a role, by their path in it.
#[derive(Clone, Debug)]
pub struct RoleFiles {
    /// The name of the role.
    pub name: String,
    /// The path in front of those of the files, for messages.
    pub shown: String,
    /// The files.
    pub files: BTreeMap<String, RoleFile>,
    /// The collection that the role is a part of: `NAMESPACE.NAME`.
    pub collection: Option<String>,
    /// Tasks and handlers that stand in a playbook, read already.
    pub(crate) given: PlayTasks,
}

/// Tasks and handlers of a play.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlayTasks {
    pub tasks: Vec<Node>,
    pub handlers: Option<Node>,
    /// Whether the play says `become`.
    pub becomes: bool,
}

/// A name that a role's folder has: of `namespace.collection.role` and of a path the last part.
pub fn role_name(name: &str) -> String {
    name.rsplit(['/', '.']).next().unwrap_or(name).to_owned()
}

impl RoleFiles {
    /// A role of these files.
    #[must_use]
    pub fn new(name: impl Into<String>, shown: impl Into<String>, files: BTreeMap<String, RoleFile>) -> Self {
        Self { name: name.into(), shown: shown.into(), files, collection: None, given: PlayTasks::default() }
    }

    /// The role as a part of a collection, whose `galaxy.yml` this is.
    #[must_use]
    pub fn in_collection(mut self, galaxy: &str) -> Self {
        let source = Source::new("galaxy.yml", galaxy);
        let documents =
            parse_yaml_into(source, Dialect::Ansible, &mut Diagnostics::new()).unwrap_or_default();
        let name = |key: &str| {
            let name = documents.first()?.get(key)?.scalar_text()?;
            let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
            (!name.is_empty() && name.chars().all(is_name)).then_some(name)
        };
        self.collection = name("namespace").zip(name("name")).map(|(space, name)| format!("{space}.{name}"));
        self
    }

    /// The name of the role as Ansible has it, with its collection.
    pub(crate) fn full_name(&self) -> String {
        self.collection.as_ref().map_or_else(|| self.name.clone(), |own| format!("{own}.{}", self.name))
    }

    /// A role whose tasks stand in a playbook.
    pub(crate) fn with_tasks(mut self, tasks: Vec<Node>, handlers: Option<Node>, becomes: bool) -> Self {
        self.given = PlayTasks { tasks, handlers, becomes };
        self
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// The paths below a folder.
    pub(crate) fn below(&self, folder: &str) -> Vec<String> {
        let lead = format!("{folder}/");
        self.files.keys().filter_map(|path| path.strip_prefix(&lead)).map(str::to_owned).collect()
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        match self.files.get(path)? {
            RoleFile::Text(text) => Some(text),
            RoleFile::Other => None,
        }
    }

    /// The document of a file; null where it is empty.
    pub(crate) fn yaml(&self, path: &str, diags: &mut Diagnostics) -> Option<Node> {
        let shown = format!("{}{path}", self.shown);
        let Some(text) = self.text(path) else {
            if self.has(path) {
                let message = format!("{shown} is not UTF-8 text, or too large");
                diags.push(Diagnostic::error("unreadable", message).at(&Span::nowhere(shown)));
            }
            return None;
        };
        let source = Source::new(shown, text);
        let start = Span::new(source.clone(), 0, 0);
        let mut own = Diagnostics::new();
        let documents = parse_yaml_into(source, Dialect::Ansible, &mut own);
        diags.extend(own.into_iter().filter(|one| one.severity == converge_syntax::Severity::Error));
        let mut documents = documents?;
        Some(if documents.is_empty() { Node::null(start) } else { documents.swap_remove(0) })
    }

    /// The file `main.yml` of a folder.
    pub(crate) fn main(&self, folder: &str) -> Option<String> {
        ["main.yml", "main.yaml", "main"]
            .iter()
            .map(|name| format!("{folder}/{name}"))
            .find(|path| self.has(path))
    }

    /// The entries of `FOLDER/main.yml` or of the files below `FOLDER/main/`.
    pub(crate) fn values(&self, folder: &str, diags: &mut Diagnostics) -> Vec<(Node, Node)> {
        let mut paths: Vec<String> = self.main(folder).into_iter().collect();
        if paths.is_empty() {
            let lead = format!("{folder}/main/");
            paths.extend(self.files.keys().filter(|path| path.starts_with(&lead)).cloned());
        }
        let mut all = Vec::new();
        for path in paths {
            let Some(node) = self.yaml(&path, diags) else { continue };
            match &node.value {
                Value::Map(entries) => all.extend(entries.iter().cloned()),
                Value::Null => {}
                _ => diags.push(
                    Diagnostic::error("wrong-type", format!("{path} is no map of variables"))
                        .at(node.head_span())
                        .help("decrypt an encrypted file first: ansible-vault decrypt, or write the values into group_vars/"),
                ),
            }
        }
        all
    }
}
