//! A playbook of Ansible as a playbook of converge: plays with roles; tasks of a play become a role of its own.

use crate::expression::{ExpressionNames, ImportProblem};
use crate::files::role_name;
use crate::files::{RoleFile, RoleFiles};
use crate::report::{ImportFinding, TaskVerdict};
use crate::task::comments_above;
use crate::yaml::{comments, made, map, texts};
use converge_syntax::{Diagnostic, Diagnostics, Dialect, Node, Source, Value, parse_yaml_into};
use converge_template::{AnsibleSort, ansible_instead};
use std::collections::{BTreeMap, BTreeSet};

/// A playbook, taken apart.
#[derive(Clone, Debug)]
pub struct ImportedPlaybook {
    /// The text of the new playbook.
    pub text: String,
    /// The roles that it names, in order, as it names them, those of its own tasks left out.
    pub roles: Vec<String>,
    /// Roles made of the tasks of plays, as files of Ansible.
    pub own: Vec<RoleFiles>,
    /// The lines of the report.
    pub findings: Vec<ImportFinding>,
}

/// Keys of a play that are written as they are.
const SAME: &[&str] = &["hosts", "serial", "max_fail_percentage", "any_errors_fatal"];
/// Keys of a play that change nothing here.
const SILENT: &[&str] = &[
    "gather_facts",
    "become",
    "become_method",
    "gather_subset",
    "gather_timeout",
    "remote_user",
    "user",
    "collections",
    "force_handlers",
    "order",
    "fact_path",
    "diff",
    "ignore_unreachable",
    "name",
    "tags",
    "vars",
    "roles",
];
/// Lists of tasks of a play, before and after its roles.
const BEFORE: &[&str] = &["pre_tasks"];
const AFTER: &[&str] = &["tasks", "post_tasks"];

struct Reader<'f> {
    names: ExpressionNames,
    findings: Vec<ImportFinding>,
    roles: Vec<String>,
    own: Vec<RoleFiles>,
    taken: BTreeSet<String>,
    files: &'f BTreeMap<String, RoleFile>,
    shown: String,
}

/// Imports a playbook. `files` are those beside it, by their path from its folder.
///
/// # Errors
/// The playbook cannot be read.
pub fn import_playbook(
    source: std::sync::Arc<Source>,
    stem: &str,
    shown: &str,
    files: &BTreeMap<String, RoleFile>,
    known_roles: &BTreeSet<String>,
) -> Result<ImportedPlaybook, Diagnostics> {
    let mut diags = Diagnostics::new();
    let documents = parse_yaml_into(source.clone(), Dialect::Ansible, &mut diags);
    let plays = documents.unwrap_or_default().into_iter().next();
    let plays = match plays {
        Some(plays) if plays.as_list().is_some() => plays,
        _ if diags.has_errors() => return Err(diags),
        Some(other) => {
            return Err(Diagnostic::error("wrong-type", "a playbook is a list of plays")
                .at(other.head_span())
                .into());
        }
        None => {
            return Err(Diagnostic::error("empty", "the playbook is empty")
                .at(&converge_syntax::Span::new(source, 0, 0))
                .into());
        }
    };
    let mut reader = Reader {
        names: ExpressionNames::default(),
        findings: Vec::new(),
        roles: Vec::new(),
        own: Vec::new(),
        taken: known_roles.clone(),
        files,
        shown: shown.to_owned(),
    };
    let mut text = String::new();
    for play in plays.as_list().unwrap_or_default() {
        if let Some(name) =
            play.get("import_playbook").or_else(|| play.get("ansible.builtin.import_playbook"))
        {
            reader.find(
                play,
                TaskVerdict::Open,
                "import_playbook",
                &format!("another playbook, `{}`, is imported", name.scalar_text().unwrap_or_default()),
                Some("import that one too, and write its plays here"),
            );
            continue;
        }
        let span = play.head_span();
        comments(&mut text, 0, &comments_above(&span.source, span.line()));
        let entries = reader.play(play, stem);
        for (index, (key, value)) in entries.iter().enumerate() {
            text.push_str(if index == 0 { "- " } else { "  " });
            crate::yaml::keyed(&mut text, 2, key, value);
        }
    }
    Ok(ImportedPlaybook { text, roles: reader.roles, own: reader.own, findings: reader.findings })
}

impl Reader<'_> {
    fn find(&mut self, node: &Node, verdict: TaskVerdict, module: &str, why: &str, write: Option<&str>) {
        let span = node.head_span();
        self.findings.push(ImportFinding {
            file: span.source.name().to_owned(),
            line: span.line(),
            name: module.to_owned(),
            module: "play".to_owned(),
            verdict,
            became: if verdict == TaskVerdict::Open { "open item" } else { "left out" }.to_owned(),
            why: vec![why.to_owned()],
            write: write.map(str::to_owned),
            is_task: false,
            is_handler: false,
        });
    }

    fn play(&mut self, play: &Node, stem: &str) -> Vec<(String, Node)> {
        let mut out: Vec<(String, Node)> = Vec::new();
        let title = play.get("name").and_then(Node::scalar_text);
        out.extend(title.as_ref().map(|name| ("name".to_owned(), made(crate::names::plain_name(name)))));
        for (key, value) in play.as_map().unwrap_or_default() {
            let name = key.scalar_text().unwrap_or_default();
            if SAME.contains(&name.as_str()) {
                out.push((name, value.clone()));
            } else if name == "gather_facts"
                || SILENT.contains(&name.as_str())
                || BEFORE.contains(&name.as_str())
                || AFTER.contains(&name.as_str())
                || name == "handlers"
            {
                continue;
            } else if name == "become_user" {
                self.other_user(key, value, "play");
            } else {
                let instead = ansible_instead(&[AnsibleSort::Keyword], &name).unwrap_or("leave it out");
                self.find(
                    key,
                    TaskVerdict::Remark,
                    &name,
                    &format!("`{name}` of the play is left out: {instead}"),
                    None,
                );
            }
        }
        self.values(play, &mut out);
        let mut tags: Vec<String> = play
            .get("tags")
            .map(crate::includes::listed)
            .unwrap_or_default()
            .iter()
            .filter_map(Node::scalar_text)
            .collect();
        tags.retain(|tag| !tag.contains("{{"));
        if !tags.is_empty() {
            out.push(("tags".to_owned(), texts(&tags)));
        }
        let mut roles: Vec<Node> = Vec::new();
        roles.extend(self.own_role(play, BEFORE, stem, "before"));
        for entry in play.get("roles").and_then(Node::as_list).unwrap_or_default() {
            roles.extend(self.role_entry(entry));
        }
        roles.extend(self.own_role(play, AFTER, stem, "tasks"));
        out.push(("roles".to_owned(), made(Value::List(roles))));
        out
    }

    /// Variables of a play.
    fn values(&mut self, play: &Node, out: &mut Vec<(String, Node)>) {
        let Some(vars) = play.get("vars").and_then(Node::as_map) else { return };
        let mut all: Vec<(String, Node)> = Vec::new();
        for (key, value) in vars {
            all.extend(self.variable(key, value));
        }
        if !all.is_empty() {
            out.push(("vars".to_owned(), map(all)));
        }
    }

    /// A variable of a play or of a role in it; one that cannot be said here is open.
    fn variable(&mut self, key: &Node, value: &Node) -> Option<(String, Node)> {
        let name = key.scalar_text().unwrap_or_default();
        match self.names.node(value) {
            Ok(value) => Some((name, value)),
            Err(ImportProblem { why, write }) => {
                self.find(key, TaskVerdict::Open, &name, &why, Some(&write));
                None
            }
        }
    }

    /// All of a play, or of a role, is done as another user.
    fn other_user(&mut self, key: &Node, user: &Node, of: &str) {
        let user = user.scalar_text().unwrap_or_default();
        if user != "root" {
            let why = format!("`become_user: {user}` is for all tasks of it");
            self.find(
                key,
                TaskVerdict::Open,
                of,
                &why,
                Some("write `become_user` at the commands, and `owner` at the files"),
            );
        }
    }

    fn role_entry(&mut self, entry: &Node) -> Option<Node> {
        let name = entry
            .as_str()
            .map(str::to_owned)
            .or_else(|| ["role", "name"].iter().find_map(|key| entry.get(key)).and_then(Node::scalar_text))?;
        if name.contains("{{") {
            self.find(
                entry,
                TaskVerdict::Open,
                &name,
                "the host only knows which role it is",
                Some("name the role, with a `when`"),
            );
            return None;
        }
        let short = role_name(&name);
        if !self.roles.contains(&name) {
            self.roles.push(name.clone());
        }
        let Some(keys) = entry.as_map() else { return Some(made(short.as_str())) };
        let mut out = vec![("role".to_owned(), made(short.as_str()))];
        let mut vars: Vec<(String, Node)> = Vec::new();
        for (key, value) in keys {
            let name = key.scalar_text().unwrap_or_default();
            match name.as_str() {
                "role" | "name" | "become" => {}
                "become_user" => self.other_user(key, value, &short),
                "when" => {
                    let all: Result<Vec<Node>, ImportProblem> = crate::includes::listed(value)
                        .iter()
                        .map(|one| match one.as_str() {
                            Some(text) => self
                                .names
                                .expression(crate::expression::whole_expression(text).unwrap_or(text))
                                .map(made),
                            None => Ok(one.clone()),
                        })
                        .collect();
                    match all {
                        Ok(all) => out.push((
                            "when".to_owned(),
                            match all.as_slice() {
                                [one] => one.clone(),
                                _ => made(Value::List(all)),
                            },
                        )),
                        Err(ImportProblem { why, write }) => {
                            self.find(key, TaskVerdict::Open, &short, &why, Some(&write))
                        }
                    }
                }
                "tags" => out.push(("tags".to_owned(), value.clone())),
                "vars" => {
                    for (key, value) in value.as_map().unwrap_or_default() {
                        vars.extend(self.variable(key, value));
                    }
                }
                "delegate_to" | "environment" | "connection" | "port" => {
                    self.find(
                        key,
                        TaskVerdict::Open,
                        &short,
                        &format!("`{name}` of the role `{short}`"),
                        ansible_instead(&[AnsibleSort::Keyword], &name),
                    );
                }
                _ => vars.extend(self.variable(key, value)),
            }
        }
        if !vars.is_empty() {
            out.push(("vars".to_owned(), map(vars)));
        }
        if out.len() == 1 {
            return Some(made(short.as_str()));
        }
        Some(map(out))
    }

    /// A role made of the tasks of a play: its files as Ansible would have them.
    fn own_role(&mut self, play: &Node, keys: &[&str], stem: &str, word: &str) -> Option<Node> {
        let lists: Vec<&Node> = keys
            .iter()
            .filter_map(|key| play.get(key))
            .filter(|list| list.as_list().is_some_and(|all| !all.is_empty()))
            .collect();
        if lists.is_empty() {
            return None;
        }
        let base: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            .collect();
        let name = (1..)
            .map(
                |number| {
                    if number == 1 { format!("{base}_{word}") } else { format!("{base}_{word}_{number}") }
                },
            )
            .find(|name| !self.taken.contains(name))?;
        self.taken.insert(name.clone());
        let mut files: BTreeMap<String, RoleFile> = BTreeMap::new();
        // Files beside the playbook are those that its tasks name.
        for (path, body) in self.files {
            if ["templates/", "files/", "tasks/"].iter().any(|folder| path.starts_with(folder)) {
                files.insert(path.clone(), body.clone());
            }
        }
        let role = RoleFiles::new(name.clone(), self.shown.clone(), files);
        let becomes = play.get("become").is_some_and(|value| value.as_bool() != Some(false));
        let role =
            role.with_tasks(lists.into_iter().cloned().collect(), play.get("handlers").cloned(), becomes);
        self.own.push(role);
        Some(made(name))
    }
}
