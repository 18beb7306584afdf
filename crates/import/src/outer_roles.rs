//! Another role in the middle of a role: its tasks stand here, with the variables that it is given.

use crate::expression::ImportProblem;
use crate::files::role_name;
use crate::inputs::inputs;
use crate::outer::{from, role_of};
use crate::registers::has_loop;
use crate::report::TaskVerdict;
use crate::role::{Build, ImportedContent, ImportedFile};
use crate::task::Task;
use crate::written::RoleEntry;
use converge_syntax::{Diagnostics, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Variables of a role made of each other, at most so deep.
const MAX_DEPTH: usize = 32;

/// A variable of another role.
struct OuterVariable {
    value: Node,
    /// Whether the task that uses the role gives it: its value is one of this role.
    is_given: bool,
    is_default: bool,
}

/// All names that a text may read: its words, wherever they stand.
fn names_in(text: &str, found: &mut BTreeSet<String>) {
    let words = text.split(|c: char| !(c == '_' || c.is_alphanumeric())).filter(|word| !word.is_empty());
    found.extend(words.map(str::to_owned));
}

fn own_way(why: String) -> ImportProblem {
    ImportProblem::new(why, crate::task::instead("include_role"))
}

impl Build<'_> {
    /// The tasks of another role in the place of the task that uses it.
    pub(crate) fn outer_role(&mut self, task: &Task) -> Result<Vec<RoleEntry>, ImportProblem> {
        let mut asked = task.clone();
        asked.module =
            if task.full_name.ends_with("import_role") { "import_role" } else { "include_role" }.to_owned();
        let Some(folder) = role_of(&asked, self.files).filter(|_| !has_loop(task)) else {
            return Err(own_way("the role is used for each element of a loop".to_owned()));
        };
        let is_set = |key: &&&str| task.args.get(key).is_some_and(|value| value.as_bool() != Some(false));
        if let Some(key) = ["public", "handlers_from"].iter().find(is_set) {
            return Err(own_way(format!("`{key}` of a role that is used here")));
        }
        let mut text = BTreeSet::new();
        for inner in &task.block {
            inner.each(&mut |inner| {
                names_in(&inner.text, &mut text);
            });
        }
        let of_role = ["role_path", "role_name", "ansible_parent_role_paths"];
        if let Some(name) = of_role.iter().find(|name| text.contains(**name)) {
            return Err(own_way(format!("its tasks read `{name}`, which is another one here")));
        }
        let renamed = self.names.renamed.clone();
        let texts = self.names.texts.clone();
        let found = self.scope(task, &folder, text);
        let result = found.map(|()| {
            self.find(task, TaskVerdict::Exact, "its tasks", Vec::new(), None);
            let push_down = crate::keywords::asks_for_change(task, &self.names);
            self.group(task, push_down)
        });
        self.names.renamed = renamed;
        self.names.texts = texts;
        result
    }

    /// Gives the tasks of another role their variables, templates and files.
    fn scope(&mut self, task: &Task, folder: &str, mut read: BTreeSet<String>) -> Result<(), ImportProblem> {
        let part = |key: &str| task.args.get(key).and_then(Node::scalar_text);
        let mut all: BTreeMap<String, OuterVariable> = BTreeMap::new();
        for (key, name, is_default) in [("defaults_from", "defaults", true), ("vars_from", "vars", false)] {
            let place = format!("{folder}/{name}");
            let wanted = part(key);
            let path = from(self.files, &place, wanted.as_deref());
            if path.is_none() && (wanted.is_some() || !self.files.below(&format!("{place}/main")).is_empty())
            {
                return Err(own_way(format!("`{key}` of the role: the file is not found")));
            }
            let node = path.and_then(|path| self.files.yaml(&path, &mut Diagnostics::new()));
            for (key, value) in node.as_ref().and_then(Node::as_map).unwrap_or_default() {
                let value = OuterVariable { value: value.clone(), is_given: false, is_default };
                all.insert(key.scalar_text().unwrap_or_default(), value);
            }
        }
        for (key, value) in task.keyword("vars").and_then(Node::as_map).unwrap_or_default() {
            let value = OuterVariable { value: value.clone(), is_given: true, is_default: false };
            all.insert(key.scalar_text().unwrap_or_default(), value);
        }
        // Templates of this role and of the other one may read them too.
        let used = self.outer_templates(task, folder);
        for text in used.values().filter_map(|path| self.files.text(path)) {
            names_in(text, &mut read);
        }
        let full = self.files.full_name();
        let other = full.rsplit_once('.').map_or_else(
            || folder.trim_start_matches("../").to_owned(),
            |(space, _)| format!("{space}.{}", folder.trim_start_matches("../")),
        );
        let given = self.names.clone();
        self.names.texts.insert("ansible_role_name", format!("'{other}'"));
        self.names.texts.insert("ansible_parent_role_names", format!("['{full}']"));
        let mut done = BTreeSet::new();
        for name in all.keys().filter(|name| read.contains(*name)).cloned().collect::<Vec<_>>() {
            self.outer_variable(task, &name, &all, &given, &mut done, 0)?;
        }
        for text in self
            .files
            .below("templates")
            .iter()
            .filter_map(|path| self.files.text(&format!("templates/{path}")))
        {
            let mut names = BTreeSet::new();
            names_in(text, &mut names);
            let is_new = |name: &&String| self.names.renamed.get(*name) != given.renamed.get(*name);
            if let Some(name) = names.iter().find(is_new) {
                return Err(own_way(format!("a template reads `{name}`, which has several values here")));
            }
        }
        self.outer_files(folder, &used)
    }

    /// Sets a variable of another role, after those that it is made of.
    fn outer_variable(
        &mut self,
        task: &Task,
        name: &str,
        all: &BTreeMap<String, OuterVariable>,
        given: &crate::expression::ExpressionNames,
        done: &mut BTreeSet<String>,
        depth: usize,
    ) -> Result<(), ImportProblem> {
        let Some(variable) = all.get(name).filter(|_| !done.contains(name)) else { return Ok(()) };
        if depth > MAX_DEPTH {
            return Err(own_way(format!("the variable `{name}` of the role is made of itself")));
        }
        if !variable.is_given {
            let mut names = BTreeSet::new();
            crate::yaml::each_text(&variable.value, &mut |text| names_in(text, &mut names));
            names.remove(name);
            for other in names.iter().filter(|other| all.contains_key(*other)) {
                self.outer_variable(task, other, all, given, done, depth + 1)?;
            }
        }
        done.insert(name.to_owned());
        if variable.is_default {
            let known = format!(
                "{} {name}",
                task.args
                    .get("name")
                    .and_then(Node::scalar_text)
                    .map(|name| role_name(&name))
                    .unwrap_or_default()
            );
            if self.outer_inputs.contains(&known) {
                return Ok(());
            }
            if self.inputs.contains(name) {
                return Err(own_way(format!("`{name}` is a default of both roles")));
            }
            self.outer_inputs.insert(known);
            let key = crate::yaml::made(name);
            let made = inputs(&[(key, variable.value.clone())], None, &self.names);
            self.findings.extend(made.findings);
            self.inputs.extend(made.inputs.iter().map(|input| input.name.clone()));
            self.written.inputs.extend(made.inputs);
            return Ok(());
        }
        let value = if variable.is_given { given } else { &self.names }.node(&variable.value)?;
        if value.as_str().and_then(crate::expression::whole_expression).map(str::trim) == Some(name) {
            return Ok(());
        }
        let Err(problem) = self.variable(name, value.clone(), task) else { return Ok(()) };
        if self.inputs.contains(name) || self.written.vars.iter().any(|var| var.name == name) {
            return Err(problem);
        }
        let is_taken = |other: &String| {
            self.inputs.contains(other)
                || self.names.declared.contains(other)
                || self.names.set_by_tasks.contains(other)
                || self.names.registered.contains_key(other)
        };
        let same = |other: &String| {
            self.sets.iter().find(|(own, _)| own == other).is_none_or(
                |(_, sets)| matches!(sets.as_slice(), [one] if one.when.is_empty() && one.value == value),
            )
        };
        let fresh = (2..1000).map(|n| format!("{name}_{n}")).find(|other| !is_taken(other) && same(other));
        let Some(fresh) = fresh else { return Err(problem) };
        if !self.sets.iter().any(|(own, _)| *own == fresh) {
            self.put(&fresh, Vec::new(), value)?;
        }
        self.names.renamed.insert(name.to_owned(), fresh);
        Ok(())
    }

    /// The templates of another role that its tasks name, by the name.
    fn outer_templates(&self, task: &Task, folder: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for place in ["templates", "files"] {
            for path in self.files.below(&format!("{folder}/{place}")) {
                let mut is_used = false;
                task.block.iter().for_each(|one| one.each(&mut |one| is_used |= one.text.contains(&path)));
                if is_used {
                    found.insert(format!("{place}/{path}"), format!("{folder}/{place}/{path}"));
                }
            }
        }
        found
    }

    /// Copies templates and files of another role to those of this one.
    fn outer_files(&mut self, folder: &str, used: &BTreeMap<String, String>) -> Result<(), ImportProblem> {
        for (name, path) in used {
            let content = match self.files.text(path).filter(|_| name.starts_with("templates/")) {
                None => ImportedContent::Copy(path.clone()),
                Some(text) => match self.names.template(text) {
                    Ok(text) => ImportedContent::Text(text),
                    Err(problem) => {
                        let short = name.trim_start_matches("templates/").to_owned();
                        self.context.bad_templates.insert(short, problem);
                        ImportedContent::Copy(path.clone())
                    }
                },
            };
            let file = ImportedFile { path: name.clone(), content };
            let is_other = self.outer_outputs.iter().any(|one| one.path == file.path && *one != file);
            if is_other || self.files.has(name) {
                return Err(own_way(format!("{folder} has another file {name} than this role")));
            }
            if !self.outer_outputs.contains(&file) {
                self.context.files.insert(name.clone());
                self.outer_outputs.push(file);
            }
        }
        Ok(())
    }
}
