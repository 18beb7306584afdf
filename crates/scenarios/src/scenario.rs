//! Scenarios as they are written: `roles/NAME/tests/*.yaml`.

use crate::cluster_spec::ClusterSpec;
use crate::folders;
use crate::host_spec::{HostSpec, groups, hosts, must_be_map, unknown_host, wrong};
use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{
    Diagnostic, Diagnostics, Dialect, Node, Source, Span, Spanned, from_node, parse_yaml_into,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The version of the format that this program reads. A scenario may leave it out.
pub const VERSION: i64 = 1;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of its file without the ending; `defaults` for a role that has none.
    pub name: String,
    /// Its file; `None` for a role that has none.
    pub file: Option<Utf8PathBuf>,
    /// The place for diagnostics about it.
    pub span: Span,
    /// One line that says what it shows.
    pub summary: Option<String>,
    /// Its hosts, in order.
    pub hosts: Vec<HostSpec>,
    /// Further roles that are applied with the tested one, each with all that it requires: a system is more than one role.
    pub with: Vec<Spanned<String>>,
    /// Values for inputs on all hosts: a map.
    pub inputs: Option<Node>,
    /// Facts for pure runs, laid over the recorded ones: a map.
    pub facts: Option<Node>,
    /// The preconditions on the hosts.
    pub before: Before,
    /// The expectations.
    pub expect: Expect,
    /// Paths that may be left after the rollback: the role means it. A path ends with `/` for all that lies below it.
    pub leaves: Vec<Spanned<String>>,
    /// IDs that its run and rollback may destroy, as with `--allow-destroy`.
    pub allow_destroy: Vec<String>,
    /// The cluster that its first host gives access to.
    pub cluster: Option<ClusterSpec>,
}

/// The preconditions that are set up on every host before the role is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Folders beside the scenario, by the path that they are copied to.
    #[serde(default)]
    pub folders: BTreeMap<String, Spanned<Utf8PathBuf>>,
    /// The files of these folders, read with the scenario.
    #[serde(skip)]
    pub copied: Vec<(String, BeforeFile)>,
    /// Files and directories by path: text, or a map.
    #[serde(default)]
    pub files: Option<Node>,
    /// Packages that are installed.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Users that are made.
    #[serde(default)]
    pub users: Vec<String>,
    /// Shell commands, last.
    #[serde(default)]
    pub run: Vec<String>,
}

impl Before {
    /// All files and directories, by path; those of folders first. Entries that cannot be read are left out: reading the scenario has named them.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = (&str, BeforeFile)> {
        let own = self.files.iter().filter_map(|files| files.as_map()).flatten();
        let own = own.filter_map(|(key, value)| Some((key.as_str()?, before_file(value).ok()?)));
        self.copied.iter().map(|(path, file)| (path.as_str(), file.clone())).chain(own)
    }
}

/// A file or directory of [`Before::files`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeforeFile {
    /// The text of a file.
    #[serde(default)]
    pub content: Option<String>,
    /// A directory.
    #[serde(default)]
    pub directory: bool,
    /// Permission bits in octal digits.
    #[serde(default)]
    pub mode: Option<String>,
    /// The owner by name.
    #[serde(default)]
    pub owner: Option<String>,
    /// The group by name.
    #[serde(default)]
    pub group: Option<String>,
}

/// The expectations.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Items of the first plan.
    pub plan: Vec<ExpectedItem>,
    /// The expected outcome of the role's items that are not named.
    pub others: Option<ExpectedOutcome>,
    /// The run is refused, with these messages.
    pub errors: Vec<ExpectedError>,
    /// Shell commands that succeed on every host after the role was applied.
    pub after: Vec<Spanned<String>>,
}

/// One item of the plan.
#[derive(Clone, Debug)]
pub struct ExpectedItem {
    /// Its address; the role may be left out.
    pub item: Spanned<String>,
    /// The planned outcome.
    pub is: Option<ExpectedOutcome>,
    /// The objects that change, as `kind:key`: these and no other.
    pub changes: Option<Vec<String>>,
    /// Pieces of text that the new content of its file holds.
    pub content: Vec<String>,
    /// The item that a deferred one waits for.
    pub waits_for: Option<String>,
    /// A part of its messages: why it is deferred, skipped or invalid, or one of its notes.
    pub says: Option<String>,
    /// The only host that this is said of.
    pub host: Option<String>,
}

/// The planned outcome of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutcome {
    /// The resource changes.
    Change,
    /// The resource is unchanged.
    Unchanged,
    /// The result is not known before the apply.
    Deferred,
    /// The resource does not run on this target.
    Skipped,
    /// The resource has an error on this host.
    Wrong,
}

impl ExpectedOutcome {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Unchanged => "unchanged",
            Self::Deferred => "deferred",
            Self::Skipped => "skipped",
            Self::Wrong => "wrong",
        }
    }
}

/// A message that the run is refused with.
#[derive(Clone, Debug)]
pub struct ExpectedError {
    /// A part of the message.
    pub message: Spanned<String>,
    /// A part of the help.
    pub help: Option<String>,
    /// A part of the place: `tests/bad.yaml:3`.
    pub at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    #[serde(default)]
    version: Option<Spanned<i64>>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    hosts: Option<Node>,
    #[serde(default)]
    groups: Option<Node>,
    #[serde(default)]
    with: Vec<Spanned<String>>,
    #[serde(default)]
    inputs: Option<Node>,
    #[serde(default)]
    facts: Option<Node>,
    #[serde(default)]
    before: Option<Before>,
    #[serde(default)]
    expect: Option<RawExpect>,
    #[serde(default)]
    leaves: Vec<Spanned<String>>,
    #[serde(default)]
    allow_destroy: Vec<String>,
    #[serde(default)]
    cluster: Option<Node>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpect {
    #[serde(default)]
    plan: Option<Node>,
    #[serde(default)]
    others: Option<ExpectedOutcome>,
    #[serde(default)]
    errors: Option<Node>,
    #[serde(default)]
    after: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawItem {
    #[serde(default)]
    is: Option<ExpectedOutcome>,
    #[serde(default)]
    changes: Option<Vec<String>>,
    #[serde(default)]
    content: Option<Node>,
    #[serde(default)]
    waits_for: Option<String>,
    #[serde(default)]
    says: Option<String>,
    #[serde(default)]
    host: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawError {
    message: Spanned<String>,
    #[serde(default)]
    help: Option<String>,
    #[serde(default)]
    at: Option<String>,
}

impl Scenario {
    /// The scenario of a role that has none: one host, the defaults of the inputs.
    pub fn defaults(role_file: &Utf8Path) -> Self {
        Self {
            name: "defaults".to_owned(),
            file: None,
            span: Span::nowhere(role_file.as_str()),
            summary: None,
            hosts: vec![HostSpec::plain(1)],
            with: Vec::new(),
            inputs: None,
            facts: None,
            before: Before::default(),
            expect: Expect::default(),
            leaves: Vec::new(),
            allow_destroy: Vec::new(),
            cluster: None,
        }
    }

    /// Reads a scenario's file. Diagnostics are added to `diags`; `None` where nothing can be made of it.
    pub fn load(path: &Utf8Path, diags: &mut Diagnostics) -> Option<Self> {
        match Source::read(path.as_std_path()) {
            Ok(source) => Self::parse(path, source, diags),
            Err(error) => {
                let message = format!("cannot read the scenario: {error}");
                diags.push(Diagnostic::error("unreadable", message).at(&Span::nowhere(path.as_str())));
                None
            }
        }
    }

    /// Reads the text of a scenario.
    pub fn parse(path: &Utf8Path, source: std::sync::Arc<Source>, diags: &mut Diagnostics) -> Option<Self> {
        let start = Span::new(source.clone(), 0, 0);
        let mut documents = parse_yaml_into(source, Dialect::Native, diags)?;
        if documents.len() > 1 {
            diags.push(
                Diagnostic::error("many-documents", "a scenario is one YAML document")
                    .at(documents.get(1).map_or(&start, Node::head_span))
                    .help("write the second one into a file of its own"),
            );
        }
        if documents.is_empty() {
            documents.push(Node::new(converge_syntax::Value::Map(Vec::new()), start.clone()));
        }
        let node = documents.swap_remove(0);
        let raw: RawScenario = match node.is_null() {
            true => {
                diags.take(from_node(&Node::new(converge_syntax::Value::Map(Vec::new()), start.clone())))?
            }
            false => diags.take(from_node(&node))?,
        };
        if let Some(version) = raw.version.filter(|v| v.value != VERSION) {
            diags.push(
                Diagnostic::error("version", format!("version {} of scenarios is not known", version.value))
                    .label(&version.span, "not known")
                    .help(format!("this converge reads version {VERSION}")),
            );
        }
        for (name, value) in [("inputs", &raw.inputs), ("facts", &raw.facts)] {
            must_be_map(name, value.as_ref(), diags);
        }
        let mut hosts = hosts(raw.hosts.as_ref(), diags);
        groups(raw.groups.as_ref(), &mut hosts, diags);
        let cluster = raw.cluster.as_ref().and_then(|node| ClusterSpec::read(node, &hosts, diags));
        let expect = expect(raw.expect.unwrap_or_default(), &hosts, diags);
        Some(Self {
            name: path.file_stem().unwrap_or("scenario").to_owned(),
            file: Some(path.to_owned()),
            span: start,
            summary: raw.summary,
            hosts,
            with: raw.with,
            inputs: raw.inputs.filter(|i| !i.is_null()),
            facts: raw.facts.filter(|f| !f.is_null()),
            before: before(raw.before.unwrap_or_default(), path, diags),
            expect,
            leaves: raw.leaves,
            allow_destroy: raw.allow_destroy,
            cluster,
        })
    }

    /// The hosts' names.
    pub fn host_names(&self) -> Vec<&str> {
        self.hosts.iter().map(|h| h.name.as_str()).collect()
    }
}

fn before(mut before: Before, scenario: &Utf8Path, diags: &mut Diagnostics) -> Before {
    let beside = scenario.parent().unwrap_or(scenario);
    for (to, folder) in &before.folders {
        match folders::read(to, &beside.join(&folder.value)) {
            Ok(files) => before.copied.extend(files.into_iter().map(|file| {
                let mode = file.is_program.then(|| "0755".to_owned());
                (file.path, BeforeFile { content: Some(file.content), mode, ..BeforeFile::default() })
            })),
            Err(error) => diags.push(
                Diagnostic::error("bad-folder", error.to_string())
                    .at(&folder.span)
                    .help("name a folder of text files, from the folder of the scenario"),
            ),
        }
    }
    let Some(files) = before.files.as_ref().filter(|f| !f.is_null()) else { return before };
    let Some(entries) = files.as_map() else {
        diags.push(wrong(files, "`files`", "a map of paths").help("write `files: {/etc/x: text}`"));
        return before;
    };
    for (key, value) in entries {
        if !key.as_str().is_some_and(|p| p.starts_with('/')) {
            diags.push(
                Diagnostic::error("bad-path", "the path of a file must be absolute")
                    .label(&key.span, "starts with no `/`"),
            );
        }
        if let Err(found) = before_file(value) {
            diags.extend(found);
        }
    }
    before
}

/// Reads one entry of `files`.
///
/// # Errors
/// It is neither text nor such a map.
pub fn before_file(value: &Node) -> Result<BeforeFile, Diagnostics> {
    if let Some(text) = value.scalar_text().filter(|_| !value.is_null()) {
        return Ok(BeforeFile { content: Some(text), ..BeforeFile::default() });
    }
    let file: BeforeFile = from_node(value)?;
    let octal = |m: &String| (3..=4).contains(&m.len()) && m.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if file.mode.as_ref().is_some_and(|m| !octal(m)) {
        let at = value.get("mode").unwrap_or(value);
        return Err(Diagnostic::error("bad-value", "the mode is written in octal digits")
            .at(&at.span)
            .help("write `mode: \"0644\"`")
            .into());
    }
    if file.directory && file.content.is_some() {
        return Err(Diagnostic::error("bad-value", "a directory has no content")
            .at(value.head_span())
            .into());
    }
    Ok(file)
}

fn expect(raw: RawExpect, hosts: &[HostSpec], diags: &mut Diagnostics) -> Expect {
    let mut out = Expect { others: raw.others, after: raw.after, ..Expect::default() };
    let names: Vec<String> = hosts.iter().map(|h| h.name.clone()).collect();
    if let Some(plan) = raw.plan.filter(|p| !p.is_null()) {
        match plan.as_map() {
            None => diags.push(
                wrong(&plan, "`plan`", "a map of resources").help("write `plan: {\"NAME OF ITEM\": change}`"),
            ),
            Some(entries) => {
                for (key, value) in entries {
                    let Some(name) = key.scalar_text() else {
                        diags.push(wrong(key, "the name of a resource", "a string"));
                        continue;
                    };
                    let item = Spanned::new(name, key.span.clone());
                    for one in value.as_list().unwrap_or(std::slice::from_ref(value)) {
                        out.plan.extend(expected_item(&item, one, &names, diags));
                    }
                }
            }
        }
    }
    if let Some(errors) = raw.errors.filter(|e| !e.is_null()) {
        for one in errors.as_list().unwrap_or(std::slice::from_ref(&errors)) {
            if let Some(text) = one.as_str() {
                let message = Spanned::new(text.to_owned(), one.span.clone());
                out.errors.push(ExpectedError { message, help: None, at: None });
            } else if let Some(RawError { message, help, at }) = diags.take(from_node::<RawError>(one)) {
                out.errors.push(ExpectedError { message, help, at });
            }
        }
    }
    out
}

fn expected_item(
    item: &Spanned<String>,
    node: &Node,
    hosts: &[String],
    diags: &mut Diagnostics,
) -> Option<ExpectedItem> {
    let plain = |is: Option<ExpectedOutcome>| ExpectedItem {
        item: item.clone(),
        is,
        changes: None,
        content: Vec::new(),
        waits_for: None,
        says: None,
        host: None,
    };
    if node.as_map().is_none() {
        return Some(plain(Some(diags.take(from_node::<ExpectedOutcome>(node))?)));
    }
    let raw: RawItem = diags.take(from_node(node))?;
    if let (Some(on), Some(at)) = (raw.host.as_ref().filter(|on| !hosts.contains(on)), node.get("host")) {
        diags.push(unknown_host(on, &at.span, hosts));
    }
    let content = match raw.content {
        None => Vec::new(),
        Some(node) if node.as_str().is_some() => node.as_str().map(str::to_owned).into_iter().collect(),
        Some(node) => diags.take(from_node::<Vec<String>>(&node)).unwrap_or_default(),
    };
    // `waits_for` implies deferred, and `changes` implies change: the outcome need not be written.
    let is = raw.is.or_else(|| {
        let deferred = raw.waits_for.is_some().then_some(ExpectedOutcome::Deferred);
        deferred.or_else(|| (raw.changes.is_some() || !content.is_empty()).then_some(ExpectedOutcome::Change))
    });
    Some(ExpectedItem {
        changes: raw.changes,
        content,
        waits_for: raw.waits_for,
        says: raw.says,
        host: raw.host,
        ..plain(is)
    })
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
