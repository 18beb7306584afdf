//! The sources of an inventory: files, directories of files, and lists of hosts; and the format of each file.
//!
//! Facts: `parse_source` in `ansible/inventory/manager.py`, `verify_file` of the inventory plugins, the defaults of
//! `INVENTORY_IGNORE_EXTS` and `YAML_FILENAME_EXTENSIONS`.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Diagnostics, Node, Source, Span};

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
    let mut names: Vec<String> = match fs_err::read_dir(path.as_std_path()) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
        Err(error) => {
            builder.diagnostics.push(Diagnostic::error("unreadable", error.to_string()));
            return;
        }
    };
    names.sort();
    for name in names {
        let ignored = name.starts_with('.')
            || IGNORED_NAMES.contains(&name.as_str())
            || IGNORED_ENDINGS.iter().any(|ending| name.ends_with(ending));
        if !ignored && depth < MAX_FOLDERS {
            path_source(builder, &path.join(name), depth + 1);
        }
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
    let bytes = match fs_err::read(path.as_std_path()) {
        Ok(bytes) => bytes,
        Err(error) => {
            builder.diagnostics.push(Diagnostic::error("unreadable", error.to_string()));
            return;
        }
    };
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

/// YAML first; a file that is no YAML map is read as INI, and the complaints of the likelier format are kept.
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
    let mut trial = Builder::new(&builder.vault);
    trial.graph = builder.graph.clone();
    ini::read(&mut trial, source);
    let ini_fails = trial.diagnostics.has_errors();
    if ini_fails
        && (named_yaml || (documents.is_none() && syntax_is_yaml) || looks_like_yaml(source.content()))
    {
        if complaints.is_empty() {
            let kind = root.map_or("nothing", |root| root.value.kind());
            let at = root
                .map_or_else(|| Span::whole(source.clone()).first_line(), |root| root.head_span().clone());
            builder.error(
                "bad-inventory",
                format!("a YAML inventory is a map of groups, this is {kind}"),
                &at,
                "begin with `all:`, and write hosts, vars and children below it",
            );
        }
        builder.diagnostics.extend(complaints);
        return;
    }
    ini::read(builder, source);
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
    yaml::read(builder, root);
}
