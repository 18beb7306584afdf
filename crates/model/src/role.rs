//! Roles: `roles/NAME/role.yaml`.

use camino::{Utf8Path, Utf8PathBuf};
use converge_resource::Place;
use converge_syntax::{
    Diagnostic, Diagnostics, Dialect, Node, Source, Span, Spanned, did_you_mean, parse_yaml_into,
};
use indexmap::IndexMap;

use crate::ansible_role::almost_a_role;
use crate::catalog::KindCatalog;
use crate::expressions::{self, Expression, check_name};
use crate::fields::{check_map, nearest, string, strings, wrong_type};
use crate::input::Input;
use crate::item::{Item, read_items};
use crate::section::Section;

/// The keys of a role.
pub const KEYS: [&str; 10] = [
    "summary",
    "scope",
    "renamed_from",
    "requires",
    "after",
    "inputs",
    "vars",
    "check",
    "resources",
    "verify",
];

/// A role as its file declares it.
#[derive(Clone, Debug)]
pub struct Role {
    /// The name of its folder.
    pub name: String,
    /// Its folder.
    pub dir: Utf8PathBuf,
    /// The start of its file.
    pub span: Span,
    /// One line that says what it is for.
    pub summary: Option<String>,
    /// Its earlier names: resources made under them belong to this role.
    pub renamed_from: Vec<Spanned<String>>,
    /// Its scope: hosts or clusters.
    pub scope: Place,
    /// Roles that come first, with the place of each name.
    pub requires: Vec<Spanned<String>>,
    /// Roles that come first where the playbook has them, with the place of each name.
    pub after: Vec<Spanned<String>>,
    /// Its typed inputs, in the order of the file.
    pub inputs: IndexMap<String, Input>,
    /// Its named expressions, in the order of the file.
    pub vars: IndexMap<String, Expression>,
    /// Preconditions: read-only.
    pub check: Vec<Item>,
    /// The declared resources, in order.
    pub resources: Vec<Item>,
    /// Postconditions: read-only.
    pub verify: Vec<Item>,
}

impl Role {
    /// Reads `DIR/role.yaml`. Diagnostics are added to `diags`; `None` where nothing can be made of the file.
    pub fn load(name: &str, dir: &Utf8Path, catalog: &KindCatalog, diags: &mut Diagnostics) -> Option<Self> {
        let path = dir.join("role.yaml");
        match Source::read(path.as_std_path()) {
            Ok(source) => Self::parse(name, dir, source, catalog, diags),
            Err(error) => {
                let message = format!("cannot read {path}: {error}");
                diags.push(Diagnostic::error("unreadable", message).at(&Span::nowhere(path.as_str())));
                None
            }
        }
    }

    /// Reads the text of a role's file.
    pub fn parse(
        name: &str,
        dir: &Utf8Path,
        source: std::sync::Arc<Source>,
        catalog: &KindCatalog,
        diags: &mut Diagnostics,
    ) -> Option<Self> {
        let span = Span::new(source.clone(), 0, 0);
        let node = single_document(source, "a role", diags)?;
        if !check_map(&node, "a role", &KEYS, diags) {
            return None;
        }
        let scope = scope(&node, diags);
        let requires = strings(&node, "requires", diags);
        let after = strings(&node, "after", diags);
        for (index, required) in requires.iter().chain(&after).enumerate() {
            if required.value == name {
                diags.push(
                    Diagnostic::error("role-cycle", format!("the role `{name}` requires itself"))
                        .label(&required.span, "itself"),
                );
            }
            if requires.iter().chain(&after).take(index).any(|earlier| earlier == required) {
                let message = format!("the role `{}` is required twice", required.value);
                diags.push(Diagnostic::error("duplicate", message).label(&required.span, "again here"));
            }
        }
        let inputs = inputs(&node, diags);
        let vars = expressions::read(&node, &inputs, diags);
        let mut sections = read_items(&node, scope, catalog, (&inputs, &vars), diags);
        let mut take = |section: Section| {
            let (taken, rest) = std::mem::take(&mut sections).into_iter().partition(|i| i.section == section);
            sections = rest;
            taken
        };
        Some(Self {
            name: name.to_owned(),
            dir: dir.to_owned(),
            span,
            summary: string(&node, "summary", diags).map(|summary| summary.value),
            renamed_from: strings(&node, "renamed_from", diags),
            scope,
            requires,
            after,
            inputs,
            vars,
            check: take(Section::Check),
            resources: take(Section::Resources),
            verify: take(Section::Verify),
        })
    }

    /// All items, checks first, then resources, then verifications.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.check.iter().chain(&self.resources).chain(&self.verify)
    }

    /// Is one of the inputs sensitive, by name?
    pub fn is_sensitive(&self, input: &str) -> bool {
        self.inputs.get(input).is_some_and(|input| input.sensitive)
    }
}

fn scope(node: &Node, diags: &mut Diagnostics) -> Place {
    let Some(scope) = string(node, "scope", diags) else {
        return Place::Host;
    };
    match scope.value.as_str() {
        "host" => {}
        "cluster" => return Place::Cluster,
        other => diags.push(
            Diagnostic::error("bad-value", format!("there is no scope `{other}`"))
                .label(&scope.span, "not a scope")
                .help(nearest(other, ["host", "cluster"])),
        ),
    }
    Place::Host
}

fn inputs(node: &Node, diags: &mut Diagnostics) -> IndexMap<String, Input> {
    let mut inputs = IndexMap::new();
    let Some(declared) = node.get("inputs").filter(|inputs| !inputs.is_null()) else {
        return inputs;
    };
    let Some(entries) = declared.as_map() else {
        diags.push(wrong_type(declared, "`inputs`", "a map").help("write `inputs: {name: {type: str}}`"));
        return inputs;
    };
    for (key, value) in entries {
        let Some(name) = check_name(key, "an input", diags) else { continue };
        if let Some(input) = Input::read(key, value, diags) {
            inputs.insert(name, input);
        }
    }
    inputs
}

/// The one document of a file; diagnostics where there is none or more than one.
pub(crate) fn single_document(
    source: std::sync::Arc<Source>,
    what: &str,
    diags: &mut Diagnostics,
) -> Option<Node> {
    let start = Span::new(source.clone(), 0, 0);
    let mut documents = parse_yaml_into(source, Dialect::Native, diags)?;
    if let Some(second) = documents.get(1) {
        diags.push(
            Diagnostic::error("many-documents", format!("{what} is one YAML document"))
                .label(second.head_span(), "a second one starts here")
                .help("remove the line `---` before it"),
        );
    }
    let first = (!documents.is_empty()).then(|| documents.swap_remove(0)).filter(|node| !node.is_null());
    if first.is_none() {
        diags.push(Diagnostic::error("empty", format!("{what} is empty")).at(&start));
    }
    first
}

/// Finds roles by name.
#[derive(Clone, Debug, Default)]
pub struct RolePath {
    /// Folders that hold roles, in the order they are searched.
    pub dirs: Vec<Utf8PathBuf>,
}

impl RolePath {
    /// Adds folders that are searched after the others.
    pub fn extend(&mut self, more: &[Utf8PathBuf]) {
        for dir in more {
            if !self.dirs.contains(dir) {
                self.dirs.push(dir.clone());
            }
        }
    }

    /// The folder of a role.
    ///
    /// # Errors
    /// No folder of the path has it; the help names the nearest one that is there.
    pub fn find(&self, name: &Spanned<String>) -> Result<Utf8PathBuf, Diagnostic> {
        let text = name.value.as_str();
        let plain = !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\\', '\0']);
        if plain
            && let Some(dir) =
                self.dirs.iter().map(|dir| dir.join(text)).find(|d| d.join("role.yaml").is_file())
        {
            return Ok(dir);
        }
        let known = self.names();
        let almost = self.dirs.iter().filter(|_| plain).find_map(|dir| almost_a_role(&dir.join(text)));
        let help = match did_you_mean(text, known.iter().map(String::as_str)) {
            _ if almost.is_some() => almost.unwrap_or_default(),
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                let places: Vec<String> =
                    self.dirs.iter().map(|dir| format!("{dir}/{text}/role.yaml")).collect();
                format!("write {}", places.first().cloned().unwrap_or_else(|| "roles/NAME/role.yaml".into()))
            }
            None => format!("roles there are: {}", known.join(", ")),
        };
        Err(Diagnostic::error("unknown-role", format!("there is no role `{text}`"))
            .label(&name.span, "not found")
            .help(help))
    }

    /// The names of all roles, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .dirs
            .iter()
            .filter_map(|dir| dir.read_dir_utf8().ok())
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.path().join("role.yaml").is_file())
            .map(|entry| entry.file_name().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}
