//! A role of Ansible as a role of converge.

use crate::convert::Context;
use crate::expression::{ExpressionNames, ImportProblem, RegisteredResult};
use crate::files::RoleFiles;
use crate::includes;
use crate::inputs::inputs;
use crate::registers::registers;
use crate::report::ImportFinding;
use crate::task::Task;
use crate::written::{ConvertedResource, ImportedText};
use crate::yaml::{made, map};
use camino::Utf8Path;
use converge_model::{KindCatalog, Role};
use converge_syntax::{Diagnostic, Diagnostics, Node, Source, Span, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A file that an import writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// Its path below the folder of the output.
    pub path: String,
    /// Its content.
    pub content: ImportedContent,
}

/// The content of a written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedContent {
    /// Text.
    Text(String),
    /// The bytes of this file of the role.
    Copy(String),
}

/// The result for one role.
#[derive(Clone, Debug)]
pub struct ImportedRole {
    /// The files, below the role's own folder.
    pub files: Vec<ImportedFile>,
    /// The lines of the report.
    pub findings: Vec<ImportFinding>,
    /// Roles that it requires.
    pub requires: Vec<String>,
}

/// A value that a variable has under conditions; the last one that holds counts.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalValue {
    pub when: Vec<String>,
    pub value: Node,
    /// It counts only while the variable has no value: a `default` that somebody sets from outside.
    pub is_default: bool,
}

/// A role in the making.
pub(crate) struct Build<'f> {
    pub files: &'f RoleFiles,
    pub catalog: &'f KindCatalog,
    pub written: ImportedText,
    pub findings: Vec<ImportFinding>,
    pub names: ExpressionNames,
    pub context: Context,
    pub handlers: Vec<Task>,
    /// The words that tasks notify, and whether one of them is for the hosts that converge works on.
    pub notices: BTreeMap<String, bool>,
    /// Whether tasks of other systems were left out: then the role is for its own alone.
    pub is_of_targets: bool,
    pub used_handlers: BTreeSet<usize>,
    /// Whether a task uses another role.
    pub uses_roles: bool,
    /// Handlers that were notified, each with the resources that notify it.
    pub notified: BTreeMap<usize, Vec<String>>,
    /// The place of each resource among the entries of the role.
    pub positions: BTreeMap<String, usize>,
    /// Resources that are there under conditions only.
    pub conditional: BTreeSet<String>,
    pub top: usize,
    pub depth: usize,
    pub in_handlers: bool,
    /// The conditions of the groups around the present task.
    pub conditions: Vec<Vec<Node>>,
    /// Those of them that Ansible asks again for each task.
    pub asked_again: Vec<Node>,
    /// How many of them, from the outermost, an include asks before any of its tasks is looked at.
    pub asked_before: usize,
    /// Names of resources.
    pub taken: BTreeSet<String>,
    pub open_items: usize,
    pub inputs: BTreeSet<String>,
    pub sets: Vec<(String, Vec<ConditionalValue>)>,
    /// Whether tasks without `become` are done as the user of the login.
    pub has_logins: bool,
    /// Whether tasks without `become` are done as root.
    pub is_of_root: bool,
    /// The tasks so far, each without those below it.
    pub passed: Vec<Task>,
    /// The number of tasks that were passed when a variable was set last.
    pub set_at: BTreeMap<String, usize>,
    /// Templates and files of other roles whose tasks stand in this one.
    pub outer_outputs: Vec<ImportedFile>,
    /// Their defaults that are inputs here: the role and the name.
    pub outer_inputs: BTreeSet<String>,
    /// The resource that writes a file whole, by its path.
    pub owners: BTreeMap<String, String>,
}

impl Build<'_> {
    /// A name that no resource has yet.
    pub(crate) fn unique(&self, title: &str) -> String {
        let name = crate::names::plain_name(title);
        let numbered = |number: usize| if number == 1 { name.clone() } else { format!("{name} ({number})") };
        (1..).map(numbered).find(|name| !self.taken.contains(name)).unwrap_or(name)
    }

    /// Notes the file that a resource writes whole. One file has one owner, whatever the conditions of two say: those on facts are not known
    /// before a host is asked.
    pub(crate) fn claim(&mut self, resource: &ConvertedResource) -> Result<(), ImportProblem> {
        let is_whole =
            resource.params.iter().any(|(key, _)| matches!(key.as_str(), "content" | "template" | "source"));
        let path =
            resource.params.iter().find(|(key, _)| key == "path").and_then(|(_, path)| path.scalar_text());
        let Some(path) = path.filter(|_| resource.kind == "file" && is_whole) else { return Ok(()) };
        match self.owners.get(&path) {
            None => {
                self.owners.insert(path, resource.name.clone());
                Ok(())
            }
            Some(owner) => Err(ImportProblem::new(
                format!("`{owner}` writes {path} already, and one file has one resource"),
                "write one resource, with the conditions in its content or in the name of its template",
            )),
        }
    }

    /// Whether a resource reads the result of a `query`.
    pub(crate) fn reads_results(&self, resource: &ConvertedResource) -> bool {
        let text = format!("{:?}", resource.node());
        let words: BTreeSet<&str> = text.split(|c: char| !(c == '_' || c.is_alphanumeric())).collect();
        self.names.registered.keys().any(|name| words.contains(name.as_str()))
    }

    /// Notes the question of a registered query, for guards of later commands.
    pub(crate) fn note_query(&mut self, task: &Task, text: Option<&str>, args: &Node) {
        let Some(name) = task.keyword("register").and_then(Node::scalar_text) else { return };
        if let Some(text) =
            text.filter(|_| matches!(self.names.registered.get(&name), Some(RegisteredResult::Query(_))))
        {
            self.context.queries.insert(name.clone(), text.to_owned());
        }
        if task.module == "stat"
            && let Some(path) = args.get("path").and_then(Node::scalar_text)
        {
            self.context.queries.insert(format!("{name}.path"), path);
        }
    }

    /// Paths in the home directory of root, which Debian makes /root.
    pub(crate) fn in_home_of_root(&self, resource: &mut ConvertedResource, task: &Task) {
        let is_root = self.is_of_root || crate::logins::says_become(task);
        if !is_root
            || task.keyword("become").and_then(Node::as_bool) == Some(false)
            || resource.become_user.is_some()
        {
            return;
        }
        for (key, value) in &mut resource.params {
            let path = value.as_str().and_then(|text| text.strip_prefix("~/"));
            if let Some(path) = path.filter(|_| matches!(key.as_str(), "path" | "creates" | "on_host")) {
                *value = made(format!("/root/{path}"));
            }
        }
    }

    /// Checks a resource as a role's file would be.
    pub(crate) fn check_resource(
        &self,
        resource: &ConvertedResource,
        task: &Task,
    ) -> Result<(), ImportProblem> {
        let home = resource.params.iter().find(|(key, value)| {
            matches!(key.as_str(), "path" | "creates" | "on_host")
                && value.as_str().is_some_and(|text| text.starts_with('~'))
        });
        if let Some((key, _)) = home {
            return Err(ImportProblem::new(
                format!("`{key}` begins with `~`, a home directory that the host knows"),
                "write the whole path",
            ));
        }
        let mut entries: Vec<Node> = Vec::new();
        for (key, value) in &resource.params {
            if matches!(key.as_str(), "restart_on" | "reload_on" | "on_change") {
                for name in value.as_list().unwrap_or_default() {
                    if !entries.iter().any(|entry: &Node| entry.get("name") == Some(name)) {
                        let path = format!("/{}", entries.len());
                        entries.push(map([("name", name.clone()), ("file", map([("path", made(path))]))]));
                    }
                }
            }
        }
        entries.push(resource.node());
        let role = map([("resources", made(Value::List(entries)))]);
        let mut text = String::new();
        for (key, value) in role.as_map().unwrap_or_default() {
            crate::yaml::entry(&mut text, 0, &key.scalar_text().unwrap_or_default(), value);
        }
        let source = Source::new(task.span.source.name(), text);
        let mut diags = Diagnostics::new();
        Role::parse("import", Utf8Path::new("import"), source, self.catalog, &mut diags);
        match diags.into_iter().find(|one| one.severity == converge_syntax::Severity::Error) {
            None => Ok(()),
            Some(problem) => {
                let write = problem.help.unwrap_or_else(|| crate::task::instead(&task.module).to_owned());
                Err(ImportProblem::new(problem.message, write))
            }
        }
    }
}

/// The variables whose value is a plain text; of two with one name, the last.
fn literals<'a>(variables: impl Iterator<Item = &'a (Node, Node)>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (key, value) in variables {
        let name = key.scalar_text().unwrap_or_default();
        match value.as_str().filter(|text| !text.contains("{{") && !text.contains("{%")) {
            Some(text) => drop(found.insert(name, text.to_owned())),
            None => drop(found.remove(&name)),
        }
    }
    found
}

/// The tasks and the handlers: those that were given, or those of the files of the role.
fn tasks_and_handlers(files: &RoleFiles, diags: &mut Diagnostics) -> (Vec<Task>, Vec<Task>) {
    if files.given.tasks.is_empty() {
        let mut main = |folder| files.main(folder).map(|path| includes::load(files, &path, diags));
        (main("tasks").unwrap_or_default(), main("handlers").unwrap_or_default())
    } else {
        let mut all = |list: &Node| includes::load_given(files, list, diags);
        let tasks: Vec<Task> = files.given.tasks.iter().flat_map(&mut all).collect();
        (tasks, files.given.handlers.as_ref().map(all).unwrap_or_default())
    }
}

/// Whether a task uses another role in its place.
fn uses_roles(tasks: &[Task]) -> bool {
    let mut found = false;
    let uses = |task: &Task| matches!(task.module.as_str(), "include_role" | "import_role");
    tasks.iter().for_each(|task| task.each(&mut |task| found |= uses(task) && task.foreign.is_none()));
    found
}

/// The variables that tasks set.
fn set_by_tasks(tasks: &[Task]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for task in tasks {
        task.each(&mut |task| {
            if task.module == "set_fact" {
                let names = task.args.as_map().unwrap_or_default().iter();
                found.extend(names.filter_map(|(key, _)| key.scalar_text()));
            }
        });
    }
    found
}

/// Reads the role that was made, as a plan would.
fn check(name: &str, text: &str, catalog: &KindCatalog) -> Result<(), Diagnostics> {
    let mut complaints = Diagnostics::new();
    let source = Source::new("role.yaml", text.to_owned());
    Role::parse(name, Utf8Path::new("."), source, catalog, &mut complaints);
    if complaints.has_errors() { Err(complaints) } else { Ok(()) }
}

impl<'a> Build<'a> {
    /// A role of which nothing has been written yet.
    fn new(
        files: &'a RoleFiles,
        catalog: &'a KindCatalog,
        names: ExpressionNames,
        tasks: &[Task],
        handlers: Vec<Task>,
    ) -> Self {
        Self {
            files,
            catalog,
            written: ImportedText::default(),
            findings: Vec::new(),
            names,
            context: Context::default(),
            handlers,
            notices: crate::notices::notices(tasks),
            is_of_targets: false,
            used_handlers: BTreeSet::new(),
            uses_roles: uses_roles(tasks),
            notified: BTreeMap::new(),
            positions: BTreeMap::new(),
            conditional: BTreeSet::new(),
            top: 0,
            depth: 0,
            in_handlers: false,
            conditions: Vec::new(),
            asked_again: Vec::new(),
            asked_before: 0,
            taken: BTreeSet::new(),
            open_items: 0,
            inputs: BTreeSet::new(),
            sets: Vec::new(),
            is_of_root: files.given.becomes || crate::logins::is_of_root(tasks),
            has_logins: !files.given.becomes && crate::logins::is_mixed(tasks),
            passed: Vec::new(),
            set_at: BTreeMap::new(),
            outer_outputs: Vec::new(),
            outer_inputs: BTreeSet::new(),
            owners: BTreeMap::new(),
        }
    }
}

/// Imports a role.
///
/// # Errors
/// Files that cannot be read as YAML, with every diagnostic; a role that includes itself without end.
pub fn import_role(files: &RoleFiles, catalog: &KindCatalog) -> Result<ImportedRole, Diagnostics> {
    let mut diags = Diagnostics::new();
    let defaults = files.values("defaults", &mut diags);
    let vars = files.values("vars", &mut diags);
    let (tasks, handlers) = tasks_and_handlers(files, &mut diags);
    let meta = files.main("meta").and_then(|path| files.yaml(&path, &mut diags));
    let specs = ["meta/argument_specs.yml", "meta/argument_specs.yaml"]
        .iter()
        .find_map(|path| files.yaml(path, &mut diags));
    if diags.has_errors() {
        return Err(diags);
    }
    let (mut tasks, mut handlers) = (tasks, flat(handlers));
    crate::targets::mark(&mut tasks, None);
    crate::targets::mark(&mut handlers, None);
    let mut names = ExpressionNames::default();
    if files.given.tasks.is_empty() {
        names.texts.insert("ansible_role_name", format!("'{}'", files.full_name()));
    }
    names.texts.extend(files.collection.iter().map(|own| ("ansible_collection_name", format!("'{own}'"))));
    let text_of = |key: &Node| key.scalar_text().unwrap_or_default();
    names.declared.extend(defaults.iter().chain(&vars).map(|(key, _)| text_of(key)));
    let mut others: Vec<String> = files
        .below("templates")
        .iter()
        .filter_map(|path| files.text(&format!("templates/{path}")).map(str::to_owned))
        .collect();
    others.extend(defaults.iter().chain(&vars).map(|(_, value)| value.to_json().to_string()));
    let found = registers(&[&tasks, &handlers], &others);
    names.registered = found.shapes;
    names.set_by_tasks = set_by_tasks(&tasks);
    let read_facts = crate::gathered_names::note(&tasks, &handlers, &others, &mut names);
    let mut build = Build::new(files, catalog, names, &tasks, handlers);
    build.context.read_facts = read_facts;
    build.context.literals = literals(defaults.iter().chain(&vars));
    build.note_uses(&found.uses);
    let values: Vec<String> =
        defaults.iter().chain(&vars).map(|(_, value)| value.to_json().to_string()).collect();
    build.asks_for_selinux(&tasks, &values.join("\n"));
    let mut outputs = build.copies();
    build.head(meta.as_ref());
    let specs = specs.as_ref().and_then(|specs| specs.get("argument_specs")?.get("main")?.get("options"));
    let made_inputs = inputs(&defaults, specs, &build.names);
    build.inputs = made_inputs.inputs.iter().map(|input| input.name.clone()).collect();
    build.written.inputs = made_inputs.inputs;
    build.findings.extend(made_inputs.findings);
    build.role_vars(&vars);
    build.top_tasks(&tasks);
    let rest = build.flush();
    build.written.resources.extend(rest);
    build.unused_handlers();
    build.only_targets();
    if let Err(problem) = build.write_sets() {
        return Err(Diagnostic::error("no-expression", problem.why)
            .help(problem.write)
            .at(&Span::nowhere(files.shown.clone()))
            .into());
    }
    build.rename_in_templates(&mut outputs);
    outputs.append(&mut build.outer_outputs);
    let text = build.written.write();
    check(&files.name, &text, catalog)?;
    outputs.insert(0, ImportedFile { path: "role.yaml".to_owned(), content: ImportedContent::Text(text) });
    Ok(ImportedRole { files: outputs, findings: build.findings, requires: build.written.requires })
}

/// Handlers of included files stand side by side.
fn flat(tasks: Vec<Task>) -> Vec<Task> {
    tasks
        .into_iter()
        .flat_map(|task| {
            if task.module == "include_tasks" && task.included && task.keyword("when").is_none() {
                flat(task.block)
            } else {
                vec![task]
            }
        })
        .collect()
}

impl Build<'_> {
    /// Notes for which attributes and outputs the results of tasks are read.
    fn note_uses(&mut self, all: &BTreeMap<String, BTreeSet<String>>) {
        for (name, uses) in all {
            if uses.iter().any(|path| path.starts_with(".stderr")) {
                self.context.read_errors.insert(name.clone());
                let errors = RegisteredResult::Query(BTreeMap::new());
                self.names.registered.insert(crate::convert::of_errors(name), errors);
            }
            if let Some(attribute) = crate::convert::stat_attribute(uses) {
                self.context.queries.insert(name.clone(), attribute);
            }
        }
    }

    /// Tasks of the role, entry by entry, so that a handler can be laid over an earlier one.
    fn top_tasks(&mut self, tasks: &[Task]) {
        for task in tasks {
            let entries = self.tasks(std::slice::from_ref(task));
            self.written.resources.extend(entries);
        }
    }
}
