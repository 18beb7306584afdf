//! Files of other roles that tasks include, by their path from the role: `../base/tasks/users.yml`.

use crate::files::{RoleFile, RoleFiles, role_name};
use crate::task::{Task, included_name, read_tasks};
use converge_syntax::{Diagnostics, Node};
use std::collections::{BTreeMap, BTreeSet};

/// The longest way up.
const MAX_UP: usize = 6;

/// A path without `.` and without `..` behind a name.
pub(crate) fn normal(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    (parts.iter().filter(|part| **part == "..").count() <= MAX_UP).then(|| parts.join("/"))
}

/// The folder of tasks or handlers that a file is in, and the folder that it stands in itself.
pub(crate) fn folders(path: &str) -> (String, String) {
    let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    let at = parts.iter().position(|part| *part == "tasks" || *part == "handlers").unwrap_or(0);
    (parts.get(..=at).unwrap_or_default().join("/"), beside)
}

/// The folder of the role that a task uses, where it is one beside this one and its name is known.
pub(crate) fn role_of(task: &Task, files: &RoleFiles) -> Option<String> {
    if !matches!(task.module.as_str(), "include_role" | "import_role") {
        return None;
    }
    let name = ["name", "role"].iter().find_map(|key| task.args.get(key)).and_then(Node::scalar_text)?;
    if name.contains(['{', '/']) {
        return None;
    }
    let short = role_name(&name);
    let space = name.strip_suffix(&format!(".{short}"));
    if space.is_some_and(|space| files.collection.as_deref() != Some(space)) || short == files.name {
        return None;
    }
    let plain = short.chars().all(|c| c == '_' || c == '-' || c.is_ascii_alphanumeric());
    (plain && !short.is_empty()).then(|| format!("../{short}"))
}

/// The file that a role's `tasks_from`, `vars_from` or `defaults_from` names.
pub(crate) fn from(files: &RoleFiles, folder: &str, name: Option<&str>) -> Option<String> {
    let names = match name {
        None => return files.main(folder),
        Some(name) if name.contains("{{") || name.contains("..") => return None,
        Some(name) => [name.to_owned(), format!("{name}.yml"), format!("{name}.yaml")],
    };
    names.iter().map(|name| format!("{folder}/{name}")).find(|path| files.has(path))
}

impl RoleFiles {
    /// The folders of other roles whose tasks this one includes, from its own: `../base`. Those that are there already are left out.
    #[must_use]
    pub fn outer_folders(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let is_list = |path: &str| path.split('/').any(|part| part == "tasks" || part == "handlers");
        for path in self.files.keys().filter(|path| is_list(path)) {
            let Some(node) = self.yaml(path, &mut Diagnostics::new()) else { continue };
            for task in &read_tasks(&node) {
                task.each(&mut |task| {
                    found.extend(role_of(task, self));
                    found.extend(self.folder_of_include(task, path));
                });
            }
        }
        let is_there = |folder: &str| self.files.keys().any(|path| path.starts_with(&format!("{folder}/")));
        found.retain(|folder| !is_there(folder));
        found
    }

    fn folder_of_include(&self, task: &Task, path: &str) -> Option<String> {
        if !matches!(task.module.as_str(), "include_tasks" | "import_tasks" | "include") {
            return None;
        }
        let name = included_name(task).filter(|name| !name.contains("{{") && name.contains("../"))?;
        let full = normal(&format!("{}/{name}", folders(path).1))?;
        let (folder, _) = full.split_once("/tasks/")?;
        folder.starts_with("..").then(|| folder.to_owned())
    }

    /// Adds the files of another role, which stands in this folder.
    pub fn add_outer(&mut self, folder: &str, files: BTreeMap<String, RoleFile>) {
        self.files.extend(files.into_iter().map(|(path, file)| (format!("{folder}/{path}"), file)));
    }
}
