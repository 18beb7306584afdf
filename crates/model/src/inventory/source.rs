//! The sources of an inventory: files, directories of files, and lists of hosts; and the format of each file.
//!
//! Facts: `parse_source` in `ansible/inventory/manager.py`, `verify_file` of the inventory plugins, the defaults of
//! `INVENTORY_IGNORE_EXTS` and `YAML_FILENAME_EXTENSIONS`.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Diagnostics, MAX_BYTES, Node, Severity, Source, Span};

use super::address::parse_address;
use super::build::Builder;
use super::graph::{Assignment, UNGROUPED};
use super::{ini, yaml};
use crate::vault::{decrypted_text, documents, unquoted};

/// One `-i`: a path, or host names with commas such as `h1,h2,`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InventorySource {
    /// A file or a directory.
    Path(Utf8PathBuf),
    /// Hosts, separated by commas.
    HostList(String),
}

impl InventorySource {
    /// Reads the value of `-i`: a list of host names if it contains a comma and no file has that name, else a path.
    #[must_use]
    pub fn from_argument(text: &str) -> Self {
        if text.contains(',') && !Utf8Path::new(text).exists() {
            Self::HostList(text.to_owned())
        } else {
            Self::Path(Utf8PathBuf::from(text))
        }
    }

    /// The directory whose `group_vars/` and `host_vars/` belong to this source.
    #[must_use]
    pub fn directory(&self) -> Option<Utf8PathBuf> {
        match self {
            Self::HostList(_) => None,
            Self::Path(path) if path.is_dir() => Some(path.clone()),
            Self::Path(path) => match path.parent() {
                Some(parent) if !parent.as_str().is_empty() => Some(parent.to_owned()),
                _ => Some(Utf8PathBuf::from(".")),
            },
        }
    }
}

/// Files in an inventory directory with these endings are passed over.
const IGNORED_ENDINGS: [&str; 12] =
    [".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry"];
/// As for Ansible, this environment variable holds the endings instead, with commas.
const IGNORE_VARIABLE: &str = "ANSIBLE_INVENTORY_IGNORE";
/// The endings of inventories: one of these with an error in it is no foreign file.
const INVENTORY_ENDINGS: [&str; 5] = ["yml", "yaml", "json", "ini", "toml"];
const IGNORED_NAMES: [&str; 3] = ["host_vars", "group_vars", "vars_plugins"];
/// Directories in an inventory directory deeper than this are taken for a loop of links.
const MAX_FOLDERS: usize = 32;

/// Reads one source into the builder.
pub(super) fn read(builder: &mut Builder, source: &InventorySource) {
    match source {
        InventorySource::HostList(list) => host_list(builder, list),
        InventorySource::Path(path) => {
            if path.exists() {
                path_source(builder, path, 0);
            } else {
                let help = if path.as_str().contains(['/', '.']) {
                    "check the path".to_owned()
                } else {
                    format!("check the path, or write `{path},` with a comma for a host of that name")
                };
                builder.diagnostics.push(
                    Diagnostic::error("no-inventory", format!("the inventory `{path}` does not exist"))
                        .help(help),
                );
            }
        }
    }
}

fn host_list(builder: &mut Builder, list: &str) {
    let source = Source::new("--inventory", list);
    let mut start = 0;
    for part in list.split(',') {
        let name = part.trim();
        let at = start + (part.len() - part.trim_start().len());
        start += part.len() + 1;
        if name.is_empty() {
            continue;
        }
        let at = Span::new(source.clone(), at, at + name.len());
        let (host, port) = parse_address(name, false).unwrap_or((name, None));
        if builder.graph.host_id(host).is_some() {
            continue;
        }
        let (id, _) = builder.graph.add_host(host, UNGROUPED, &at);
        if let Some(port) = port.filter(|port| *port != 0) {
            let node = Node::new(port, at.clone());
            builder.host_var(id, Assignment { name: "ansible_port".to_owned(), key: at, node });
        }
    }
}

fn path_source(builder: &mut Builder, path: &Utf8Path, depth: usize) {
    if !path.is_dir() {
        file(builder, path);
        return;
    }
    let role = path.join("role.yaml");
    if role.is_file() {
        return file(builder, &role);
    }
    let mut names: Vec<String> = match fs_err::read_dir(path.as_std_path()) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
        Err(error) => {
            builder.diagnostics.push(Diagnostic::error("unreadable", error.to_string()));
            return;
        }
    };
    names.sort();
    let own = std::env::var(IGNORE_VARIABLE).ok().filter(|own| !own.trim().is_empty());
    for name in names {
        let ignored = name.starts_with('.')
            || IGNORED_NAMES.contains(&name.as_str())
            || match &own {
                Some(own) => {
                    own.split(',').map(str::trim).any(|ending| !ending.is_empty() && name.ends_with(ending))
                }
                None => IGNORED_ENDINGS.iter().any(|ending| name.ends_with(ending)),
            };
        if ignored || depth >= MAX_FOLDERS {
            continue;
        }
        let path = path.join(name);
        if path.is_dir() || path.extension().is_none_or(|ending| INVENTORY_ENDINGS.contains(&ending)) {
            path_source(builder, &path, depth + 1);
        } else {
            perhaps_inventory(builder, &path);
        }
    }
}

/// Reads a file of a folder whose ending is that of no inventory. As in Ansible, one that is none is passed over with a warning.
fn perhaps_inventory(builder: &mut Builder, path: &Utf8Path) {
    let graph = builder.graph.clone();
    let before = std::mem::take(&mut builder.diagnostics);
    file(builder, path);
    let found = std::mem::replace(&mut builder.diagnostics, before);
    let runs = |problem: &Diagnostic| matches!(problem.code, "inventory-script" | "inventory-plugin");
    let why = found.iter().find(|problem| problem.severity == Severity::Error);
    match why {
        // A program or a plugin would give hosts.
        Some(why) if !runs(why) => {
            let at = why.span().cloned().unwrap_or_else(|| Span::nowhere(path.as_str()));
            builder.graph = graph;
            builder.diagnostics.push(
                Diagnostic::warning("foreign-file", format!("`{path}` is passed over: {}", why.message))
                    .at(&at)
                    .help(format!(
                        "move it out of the folder, or put its ending into {IGNORE_VARIABLE}, with commas"
                    )),
            );
        }
        _ => builder.diagnostics.extend(found),
    }
}

fn refuse(builder: &mut Builder, code: &'static str, message: String, at: Option<&Span>, help: &str) {
    let mut diagnostic = Diagnostic::error(code, message).help(help);
    if let Some(at) = at {
        diagnostic = diagnostic.at(at);
    }
    builder.diagnostics.push(diagnostic);
}

/// Reads one file, whatever its format.
fn file(builder: &mut Builder, path: &Utf8Path) {
    let mut bytes = Vec::new();
    let read = fs_err::File::open(path.as_std_path())
        .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        builder.diagnostics.push(Diagnostic::error("unreadable", error.to_string()));
        return;
    }
    // Before any format is tried: all of them would read all of it.
    if bytes.len() > MAX_BYTES {
        refuse(
            builder,
            "too-large",
            format!("`{path}` is larger than {} MiB", MAX_BYTES >> 20),
            None,
            "make a directory of it that holds several smaller files",
        );
        return;
    }
    let executable =
        fs_err::metadata(path.as_std_path()).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0);
    if executable && (bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF")) {
        let source = Source::new(path.as_str(), String::from_utf8_lossy(&bytes).into_owned());
        refuse(
            builder,
            "inventory-script",
            format!("`{path}` is a program; inventory scripts are not run"),
            bytes.starts_with(b"#!").then(|| Span::whole(source).first_line()).as_ref(),
            "save what it prints: ansible-inventory -i SCRIPT --list --export --yaml > inventory.yaml",
        );
        return;
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            refuse(
                builder,
                "not-text",
                format!("`{path}` is not UTF-8 text (byte {at})"),
                None,
                "save the file as UTF-8",
            );
            return;
        }
    };
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let source = Source::new(path.as_str(), text);
    let source = match decrypted_text(&source, &builder.vault) {
        Ok(None) => source,
        Ok(Some(text)) => Source::secret(path.as_str(), text.as_str(), []),
        Err(problem) => {
            builder.diagnostics.push(problem);
            return;
        }
    };
    let before = builder.diagnostics.len();
    let ending = path.extension();
    if ending == Some("toml") {
        refuse(
            builder,
            "toml-inventory",
            format!("`{path}`: inventories in TOML are not read"),
            None,
            "write it in YAML or INI",
        );
        return;
    }
    match ending {
        None | Some("yml" | "yaml" | "json") => detect(builder, &source, ending.is_some()),
        Some(_) => ini::read(builder, &source),
    }
    if source.is_secret() {
        // Messages about a decrypted file may quote it; the places in it say enough.
        builder.diagnostics.0.iter_mut().skip(before).for_each(|problem| unquoted(problem, path.as_str()));
    }
}

/// YAML first; a file that is no YAML map is read as INI, and the diagnostics of the likelier format are kept.
fn detect(builder: &mut Builder, source: &Arc<Source>, named_yaml: bool) {
    let mut complaints = Diagnostics::new();
    let documents = documents(source.clone(), &mut complaints);
    // A duplicate key and the like are found in what is YAML beyond doubt.
    let syntax_is_yaml = !complaints.iter().any(|d| d.code.contains("syntax"));
    let root = documents.as_ref().and_then(|documents| documents.first());
    if let Some(root) = root.filter(|root| root.as_map().is_some()) {
        builder.diagnostics.extend(complaints);
        yaml_root(builder, root, documents.as_deref().unwrap_or(&[]));
        return;
    }
    if is_blank(source.content()) {
        if named_yaml {
            builder
                .diagnostics
                .push(Diagnostic::warning("empty-inventory", format!("`{}` is empty", source.name())));
        }
        return;
    }
    let mut attempt = Builder::new(&builder.vault);
    attempt.graph = builder.graph.clone();
    ini::read(&mut attempt, source);
    let ini_fails = attempt.diagnostics.has_errors();
    if ini_fails
        && (named_yaml || (documents.is_none() && syntax_is_yaml) || looks_like_yaml(source.content()))
    {
        if complaints.is_empty() {
            let kind = root.map_or("nothing", |root| root.value.kind());
            let at = root
                .map_or_else(|| Span::whole(source.clone()).first_line(), |root| root.head_span().clone());
            if root.is_some_and(is_playbook) {
                let help = format!(
                    "name the inventory, and this file behind it: INVENTORY --playbook {}",
                    source.name()
                );
                builder.error("bad-inventory", "this is a playbook, not an inventory", &at, &help);
            } else {
                builder.error(
                    "bad-inventory",
                    format!("a YAML inventory is a map of groups, this is {kind}"),
                    &at,
                    "begin with `all:`, and write hosts, vars and children below it",
                );
            }
        }
        builder.diagnostics.extend(complaints);
        return;
    }
    ini::read(builder, source);
}

/// A list of maps of which one has the key of a play.
fn is_playbook(root: &Node) -> bool {
    let is_play = |node: &Node| node.get("hosts").is_some() || node.get("import_playbook").is_some();
    root.as_list().is_some_and(|list| list.iter().any(is_play))
}

/// A map with the resources or the summary of a role.
fn is_role(root: &Node) -> bool {
    root.get("resources").is_some_and(|resources| resources.as_list().is_some())
        || root.get("summary").is_some_and(|summary| summary.as_str().is_some())
}

/// Only white space and comments.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

/// The first line that says something decides: `---` or a key without a section before it.
fn looks_like_yaml(text: &str) -> bool {
    text.lines().map(str::trim).find(|line| !(line.is_empty() || line.starts_with(['#', ';']))).is_some_and(
        |line| line == "---" || line.starts_with(['{', '-']) || (line.ends_with(':') && !line.contains('=')),
    )
}

fn yaml_root(builder: &mut Builder, root: &Node, documents: &[Node]) {
    if let Some(second) = documents.get(1) {
        builder.error(
            "several-documents",
            "an inventory holds one YAML document, this is another",
            second.head_span(),
            "take out the line `---` before it",
        );
    }
    if let Some((key, value)) = root.entry("plugin").filter(|(_, value)| !value.is_null()) {
        let name = value.scalar_text().unwrap_or_default();
        builder.error(
            "inventory-plugin",
            format!("this configures the inventory plugin `{name}`, and plugins are not run"),
            &key.span.to(&value.span),
            "save what it gives: ansible-inventory -i FILE --list --export --yaml > inventory.yaml",
        );
        return;
    }
    if is_role(root) {
        builder.error(
            "bad-inventory",
            "this is a role, not an inventory",
            root.head_span(),
            "name the inventory; the playbook says which hosts have which roles, `converge explain ROLE` shows one",
        );
        return;
    }
    yaml::read(builder, root);
}
