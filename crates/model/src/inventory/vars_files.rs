//! Variables in `group_vars/` and `host_vars/`, beside the inventory and beside the playbook.
//!
//! Facts: `ansible/plugins/vars/host_group_vars.py` and `find_vars_files` in `ansible/parsing/dataloader.py`.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Diagnostics, Source, Span, did_you_mean};

use super::build::Builder;
use super::graph::Assignment;
use super::yaml;
use crate::vault::decrypted_documents;

const EXTENSIONS: [&str; 3] = [".yml", ".yaml", ".json"];
/// Folders in `group_vars/NAME/` deeper than this are taken for a loop of links.
const MAX_FOLDERS: usize = 32;

/// The variables of one group or host from one directory, in the order in which they are merged.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundVars {
    pub(super) vars: Vec<Assignment>,
    /// Diagnostics about the files. They count where a host is used that has these variables.
    pub(super) problems: Diagnostics,
}

/// The directories that hold vars files, and what was read from them.
#[derive(Debug, Clone, Default)]
pub(super) struct VarsFiles {
    found: HashMap<(usize, bool, String), FoundVars>,
}

impl VarsFiles {
    /// The vars files in `directory` (an index) for a group or a host.
    pub(super) fn get(&self, directory: usize, is_group: bool, name: &str) -> Option<&FoundVars> {
        self.found.get(&(directory, is_group, name.to_owned()))
    }

    /// Diagnostics about the files of all groups and hosts, in order.
    pub(super) fn problems(&self) -> Diagnostics {
        let mut all: Vec<_> = self.found.iter().filter(|(_, found)| !found.problems.is_empty()).collect();
        all.sort_by_key(|((directory, is_group, name), _)| (*directory, !*is_group, name));
        all.into_iter().flat_map(|(_, found)| found.problems.iter().cloned()).collect()
    }

    /// All variables of all files.
    pub(super) fn assignments(&self) -> impl Iterator<Item = &Assignment> {
        self.found.values().flat_map(|found| &found.vars)
    }

    /// Reads the files of all groups and hosts.
    pub(super) fn read(builder: &mut Builder, directories: &[Utf8PathBuf]) -> Self {
        let mut files = Self::default();
        let groups: Vec<String> = builder.graph.groups.iter().map(|group| group.name.clone()).collect();
        let hosts: Vec<String> = builder.graph.hosts.iter().map(|host| host.name.clone()).collect();
        for (index, directory) in directories.iter().enumerate() {
            for (is_group, names) in [(true, &groups), (false, &hosts)] {
                let folder = directory.join(if is_group { "group_vars" } else { "host_vars" });
                if !folder.exists() {
                    continue;
                }
                if !folder.is_dir() {
                    builder.diagnostics.push(
                        Diagnostic::warning(
                            "not-a-folder",
                            format!("`{folder}` is passed over: it is not a folder"),
                        )
                        .help("put files named after groups or hosts into a folder of this name"),
                    );
                    continue;
                }
                for name in names {
                    let before = std::mem::take(&mut builder.diagnostics);
                    let mut found = read_entity(builder, &folder, name);
                    found.problems = std::mem::replace(&mut builder.diagnostics, before);
                    if !found.vars.is_empty() || !found.problems.is_empty() {
                        files.found.insert((index, is_group, name.clone()), found);
                    }
                }
                unread(builder, &folder, names, if is_group { "group" } else { "host" });
            }
        }
        files
    }
}

/// Warns about files of names that no group or host has. Several inventories may share a folder: there, only where the name is nearly
/// one that is known.
fn unread(builder: &mut Builder, folder: &Utf8Path, names: &[String], what: &str) {
    let entries = |folder: &Utf8Path| -> Vec<String> {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_owned()).collect();
        names.retain(|name| !name.starts_with('.') && !name.ends_with('~'));
        names.sort();
        names
    };
    let beside = folder.parent().unwrap_or(folder);
    let inventories = entries(beside).into_iter().filter(|name| beside.join(name).is_file()).count();
    for entry in entries(folder) {
        let stem = EXTENSIONS.iter().find_map(|ending| entry.strip_suffix(ending)).unwrap_or(&entry);
        let path = folder.join(&entry);
        if names.iter().any(|name| name == stem) || (stem.contains('.') && path.is_file()) {
            continue;
        }
        let near = did_you_mean(stem, names.iter().map(String::as_str));
        if near.is_none() && inventories != 1 {
            continue;
        }
        let message = format!("`{path}` is not read: the inventory has no {what} `{stem}`");
        builder.diagnostics.push(
            Diagnostic::warning("unused-file", message).at(&Span::nowhere(path.as_str())).help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("rename it, or put the {what} into the inventory"),
            }),
        );
    }
}

/// Reads the files of one group or host; a name that leads out of the folder has none.
fn read_entity(builder: &mut Builder, folder: &Utf8Path, name: &str) -> FoundVars {
    let mut found = FoundVars::default();
    if name.starts_with('/') || Utf8Path::new(name).components().any(|part| part.as_str() == "..") {
        return found;
    }
    let mut candidates = [""].iter().chain(&EXTENSIONS).map(|ending| folder.join(format!("{name}{ending}")));
    let Some(path) = candidates.find(|path| path.exists()) else {
        return found;
    };
    for other in candidates.filter(|path| path.exists()) {
        builder.diagnostics.push(
            Diagnostic::warning("unused-file", format!("`{other}` is not read: `{path}` comes before it"))
                .help(format!("put both below the folder `{}`", folder.join(name))),
        );
    }
    let mut paths = Vec::new();
    if path.is_dir() {
        folder_files(builder, &path, 0, &mut paths)
    } else {
        paths.push(path)
    }
    for path in paths {
        read_file(builder, &path, &mut found);
    }
    found
}

/// The files of a folder, sorted by name, folders among them read in their place.
fn folder_files(builder: &mut Builder, folder: &Utf8Path, depth: usize, paths: &mut Vec<Utf8PathBuf>) {
    let mut names: Vec<String> = match fs_err::read_dir(folder.as_std_path()) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
        Err(error) => {
            builder.diagnostics.push(Diagnostic::error("unreadable", error.to_string()));
            return;
        }
    };
    names.sort();
    for name in names {
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        let path = folder.join(&name);
        let ending = path.extension().map(|ending| format!(".{ending}"));
        if path.is_dir() {
            if ending.is_none() && depth < MAX_FOLDERS {
                folder_files(builder, &path, depth + 1, paths);
            }
        } else if path.is_file() && ending.is_none_or(|ending| EXTENSIONS.contains(&ending.as_str())) {
            paths.push(path);
        }
    }
}

fn read_file(builder: &mut Builder, path: &Utf8Path, found: &mut FoundVars) {
    let source = match Source::read(path.as_std_path()) {
        Ok(source) => source,
        Err(error) => {
            builder
                .diagnostics
                .push(Diagnostic::error("unreadable", format!("`{path}` cannot be read: {error}")));
            return;
        }
    };
    let Some(documents) = decrypted_documents(source, &builder.vault, &mut builder.diagnostics) else {
        return;
    };
    if let Some(second) = documents.get(1) {
        builder.error(
            "several-documents",
            "a vars file holds one YAML document, this is another",
            second.head_span(),
            "take out the line `---` before it",
        );
    }
    let Some(root) = documents.first().filter(|root| !root.is_null()) else {
        return;
    };
    let Some(entries) = root.as_map() else {
        builder.error(
            "bad-vars-file",
            format!("a vars file must be a map, this is {}", root.value.kind()),
            root.head_span(),
            "write one `name: value` a line, without dashes",
        );
        return;
    };
    for (key, value) in entries {
        found.vars.extend(yaml::assignment(builder, key, value));
    }
}
