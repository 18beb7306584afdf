//! Playbooks: a list of plays, each of which puts roles on hosts.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use converge_resource::{MinAvailable, Share};
use converge_syntax::{Diagnostic, Diagnostics, Node, Source, Span, Spanned, Value};
use converge_template::{AnsibleSort, ansible_instead};

use crate::fields::{check_map, conditions, flag, is_identifier, string, tags, wrong_type};
use crate::inventory::Assignment;
use crate::magic::MAGIC;
use crate::role::{RolePath, single_document};

/// The keys of a play.
pub const PLAY_KEYS: [&str; 9] = [
    "name",
    "hosts",
    "roles",
    "vars",
    "tags",
    "serial",
    "max_fail_percentage",
    "any_errors_fatal",
    "min_available",
];
/// The keys of a role entry.
pub const USE_KEYS: [&str; 4] = ["role", "vars", "when", "tags"];

/// A playbook.
#[derive(Clone, Debug)]
pub struct Playbook {
    /// Its file.
    pub path: Utf8PathBuf,
    /// Its plays, in the order of the file.
    pub plays: Vec<Play>,
    /// The folders in which its roles are searched.
    pub role_path: RolePath,
}

/// One play.
#[derive(Clone, Debug)]
pub struct Play {
    /// Its position in the playbook, from 0.
    pub index: usize,
    /// The name for people.
    pub name: Option<Spanned<String>>,
    /// The host pattern: a string or a list of strings.
    pub hosts: Node,
    /// The roles and how they are used.
    pub roles: Vec<RoleRef>,
    /// Variables of the play.
    pub vars: Vec<Assignment>,
    /// Tags of everything in it.
    pub tags: Vec<String>,
    /// The sizes of its batches; the last one holds for all that follow. Empty: no `serial`.
    pub serial: Vec<Share>,
    /// The play stops when more than this percentage of a batch has failed.
    pub max_fail_percentage: Option<f64>,
    /// Does one failed host stop all?
    pub any_errors_fatal: bool,
    /// The number of its hosts that must be available for later disruptive batches.
    pub min_available: Option<MinAvailable>,
    /// The whole play.
    pub span: Span,
}

/// A role in a play.
#[derive(Clone, Debug)]
pub struct RoleRef {
    /// The role.
    pub role: Spanned<String>,
    /// Values for its inputs.
    pub vars: Vec<Assignment>,
    /// Conditions that must all hold.
    pub when: Vec<Node>,
    /// Tags of every item of it.
    pub tags: Vec<String>,
}

impl Play {
    /// Its name, or its host pattern where it has none.
    pub fn title(&self) -> String {
        match (&self.name, &self.hosts.value) {
            (Some(name), _) => name.value.clone(),
            (None, Value::List(items)) => items.iter().filter_map(Node::as_str).collect::<Vec<_>>().join(","),
            (None, _) => self.hosts.scalar_text().unwrap_or_default(),
        }
    }
}

impl Playbook {
    /// Reads a file. Diagnostics are added to `diags`; `None` where nothing can be made of it.
    pub fn load(path: &Utf8Path, diags: &mut Diagnostics) -> Option<Self> {
        match Source::read(path.as_std_path()) {
            Ok(source) => Self::parse(path, source, diags),
            Err(error) => {
                let message = format!("cannot read the playbook: {error}");
                let diagnostic = Diagnostic::error("unreadable", message).at(&Span::nowhere(path.as_str()));
                diags.push(diagnostic.help("name the playbook with --playbook FILE"));
                None
            }
        }
    }

    /// Reads the text of a playbook.
    pub fn parse(path: &Utf8Path, source: Arc<Source>, diags: &mut Diagnostics) -> Option<Self> {
        let node = single_document(source, "a playbook", diags)?;
        Self::from_node(path, &node, Self::role_path(path), diags)
    }

    /// Takes plays that no file holds, such as those of a role's scenario. `path` names them in messages.
    pub fn from_node(
        path: &Utf8Path,
        node: &Node,
        role_path: RolePath,
        diags: &mut Diagnostics,
    ) -> Option<Self> {
        let Some(list) = node.as_list() else {
            diags.push(
                wrong_type(node, "a playbook", "a list of plays")
                    .help("put `- ` before `hosts:` of the first play"),
            );
            return None;
        };
        let plays =
            list.iter().enumerate().filter_map(|(index, play)| read_play(index, play, diags)).collect();
        Some(Self { path: path.to_owned(), plays, role_path })
    }

    /// The folders in which the roles of a playbook are searched: `roles/` beside its folder, then `roles/` in it.
    pub fn role_path(path: &Utf8Path) -> RolePath {
        let dir = match path.parent() {
            Some(dir) if !dir.as_str().is_empty() => dir.to_owned(),
            _ => Utf8PathBuf::from("."),
        };
        let beside = match dir.file_name() {
            // `playbooks` itself, relative to the project's root.
            Some(_) => dir
                .parent()
                .filter(|up| !up.as_str().is_empty())
                .map_or("roles".into(), |up| up.join("roles")),
            None => dir.join("../roles"),
        };
        let mut dirs = vec![beside];
        let own = if dir.as_str() == "." { Utf8PathBuf::from("roles") } else { dir.join("roles") };
        if !dirs.contains(&own) {
            dirs.push(own);
        }
        RolePath { dirs }
    }
}

fn read_play(index: usize, node: &Node, diags: &mut Diagnostics) -> Option<Play> {
    let mut found = Diagnostics::new();
    let is_map = check_map(node, "a play", &PLAY_KEYS, &mut found);
    for diagnostic in &mut found.0 {
        let key = diagnostic.span().map(|span| span.text().to_owned()).unwrap_or_default();
        // A play's `user` is a keyword, and a module of the same name is none of a play.
        let keyword = ansible_instead(&[AnsibleSort::Keyword], &key);
        if let Some(help) = keyword.or_else(|| ansible_instead(&[AnsibleSort::Module], &key)) {
            diagnostic.help = Some(help.to_owned());
        }
    }
    diags.extend(found);
    if !is_map {
        return None;
    }
    let hosts = match node.get("hosts").filter(|hosts| !hosts.is_null()) {
        Some(hosts) => Some(hosts.clone()),
        None => {
            diags.push(
                Diagnostic::error("missing-key", "a play needs `hosts`")
                    .label(node.head_span(), "`hosts` is missing")
                    .help("write a host pattern, such as `hosts: all`"),
            );
            None
        }
    };
    let roles = read_roles(node, diags);
    Some(Play {
        index,
        name: string(node, "name", diags),
        hosts: hosts?,
        roles,
        vars: assignments(node, "the `vars` of a play", diags),
        tags: tags(node, diags),
        serial: serial(node, diags),
        max_fail_percentage: percentage(node, "max_fail_percentage", diags),
        any_errors_fatal: flag(node, "any_errors_fatal", diags),
        min_available: min_available(node, diags),
        span: node.span.clone(),
    })
}

/// `serial`: a number, a percentage, or a list of both.
fn serial(node: &Node, diags: &mut Diagnostics) -> Vec<Share> {
    let Some(value) = node.get("serial").filter(|value| !value.is_null()) else { return Vec::new() };
    let items = value.as_list().unwrap_or(std::slice::from_ref(value));
    if items.is_empty() {
        diags.push(
            wrong_type(value, "`serial`", "at least one number").help("write `2`, `25%` or `[1, 10%]`"),
        );
    }
    items.iter().filter_map(|item| share(item, "serial", diags)).collect()
}

/// A whole number of hosts, or a percentage of 0 to 100.
fn share(value: &Node, key: &str, diags: &mut Diagnostics) -> Option<Share> {
    let read = match &value.value {
        Value::String(text) => match text.trim().strip_suffix('%') {
            Some(number) => percent(number).map(Share::Percent),
            None => text.trim().parse().ok().map(Share::Hosts),
        },
        _ => value.scalar_text().and_then(|text| text.parse().ok()).map(Share::Hosts),
    };
    if read.is_none() {
        let expected = "a whole number of hosts or a percentage";
        let help = if value.as_str().is_some_and(converge_template::is_template) {
            "a play is read before variables are known: write the number itself"
        } else {
            "write `2` or `25%`"
        };
        diags.push(wrong_type(value, &format!("`{key}`"), expected).help(help));
    }
    read
}

fn percent(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number))
}

/// A percentage, with or without its sign.
fn percentage(node: &Node, key: &str, diags: &mut Diagnostics) -> Option<f64> {
    let value = node.get(key).filter(|value| !value.is_null())?;
    let text = value.scalar_text().unwrap_or_default();
    let read = percent(text.trim().trim_end_matches('%'));
    if read.is_none() {
        diags.push(
            wrong_type(value, &format!("`{key}`"), "a percentage from 0 to 100")
                .help("write `30`: the play stops when more than 30 % of a batch have failed"),
        );
    }
    read
}

fn min_available(node: &Node, diags: &mut Diagnostics) -> Option<MinAvailable> {
    let value = node.get("min_available").filter(|value| !value.is_null())?;
    if value.as_str() == Some("majority") {
        return Some(MinAvailable::Majority);
    }
    share(value, "min_available", diags).map(MinAvailable::Share)
}

fn read_roles(node: &Node, diags: &mut Diagnostics) -> Vec<RoleRef> {
    let Some(roles) = node.get("roles").filter(|roles| !roles.is_null()) else {
        diags.push(
            Diagnostic::error("missing-key", "a play needs `roles`")
                .label(node.head_span(), "`roles` is missing")
                .help("write `roles: [NAME]`"),
        );
        return Vec::new();
    };
    let Some(list) = roles.as_list() else {
        diags.push(wrong_type(roles, "`roles`", "a list").help("write `roles: [NAME]`"));
        return Vec::new();
    };
    list.iter().filter_map(|entry| read_use(entry, diags)).collect()
}

fn read_use(node: &Node, diags: &mut Diagnostics) -> Option<RoleRef> {
    if let Some(name) = node.as_str() {
        let role = Spanned::new(name.to_owned(), node.span.clone());
        return Some(RoleRef { role, vars: Vec::new(), when: Vec::new(), tags: Vec::new() });
    }
    if node.as_map().is_none() {
        diags.push(
            wrong_type(node, "a role of a play", "a name or a map")
                .help("write `- NAME` or `- {role: NAME, vars: {…}}`"),
        );
        return None;
    }
    check_map(node, "a role entry", &USE_KEYS, diags);
    let role = string(node, "role", diags);
    if role.is_none() && node.get("role").is_none() {
        diags.push(
            Diagnostic::error("missing-key", "a role entry needs `role`")
                .label(node.head_span(), "`role` is missing")
                .help("write `{role: NAME, vars: {…}}`"),
        );
    }
    let vars = assignments(node, "the `vars` of a role", diags);
    let (when, tags) = (conditions(node, diags), tags(node, diags));
    Some(RoleRef { role: role?, vars, when, tags })
}

/// The entries of `vars`.
fn assignments(node: &Node, what: &str, diags: &mut Diagnostics) -> Vec<Assignment> {
    let Some(vars) = node.get("vars").filter(|vars| !vars.is_null()) else {
        return Vec::new();
    };
    let Some(entries) = vars.as_map() else {
        diags.push(wrong_type(vars, what, "a map").help("write `vars: {name: value}`"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in entries {
        let Some(name) = key.as_str() else {
            diags.push(wrong_type(key, "the name of a variable", "a string"));
            continue;
        };
        if let Err(problem) = variable_name(name) {
            diags.push(problem.label(&key.span, "not usable"));
            continue;
        }
        found.push(Assignment { name: name.to_owned(), key: key.span.clone(), node: value.clone() });
    }
    found
}

/// Can a play, a role's use or `--set` set a variable of this name?
pub(crate) fn variable_name(name: &str) -> Result<(), Diagnostic> {
    if !is_identifier(name) {
        return Err(Diagnostic::error("bad-name", format!("`{name}` cannot be the name of a variable"))
            .help("letters, digits and underscores; no digit first"));
    }
    if MAGIC.contains(&name) {
        return Err(Diagnostic::error(
            "bad-name",
            format!("`{name}` is set by converge and cannot be set here"),
        )
        .help("choose another name"));
    }
    Ok(())
}
