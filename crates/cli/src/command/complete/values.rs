//! The values that a project and its hosts have for the words of a command line.

use crate::args::{Cli, CommandArgs, GlobalArgs, OutputFormat, ReadArgs};
use crate::command::plan::inventory_names;
use crate::console::Console;
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use crate::settings::Settings;
use camino::{Utf8Path, Utf8PathBuf};
use clap::Parser;
use converge_engine::Engine;
use converge_model::inventory::Inventory;
use converge_model::vault::Vault;
use converge_syntax::{Dialect, Node, Source, parse_yaml};
use std::collections::BTreeMap;
use std::time::Duration;

/// Hosts that do not answer in this time have no runs to choose from.
const PATIENCE: Duration = Duration::from_secs(10);

/// Values, each with a word about it.
pub type Values = BTreeMap<String, String>;

/// The part of a command line that says which project is meant.
pub struct CompletionProject {
    reading: ReadArgs,
    /// The folder of the settings, where it is another one.
    folder: Option<Utf8PathBuf>,
}

impl CompletionProject {
    /// Of an inventory and options, as they were typed, and the settings.
    pub fn of(typed: &[String]) -> Option<Self> {
        let line = ["converge", "snapshots"].map(str::to_owned).into_iter().chain(typed.iter().cloned());
        let mut command = Cli::try_parse_from(line).ok()?.command;
        // Mistakes in the settings are reported by the command itself.
        let settings = Settings::load().map(|(settings, _)| settings).unwrap_or_default();
        settings.complete(&mut command);
        let CommandArgs::Snapshots(reading) = command else { return None };
        let folder = settings.file.as_deref().and_then(Utf8Path::parent).map(Utf8Path::to_owned);
        Some(Self { reading, folder })
    }

    fn inventory(&self) -> Option<Inventory> {
        let ReadArgs { target, select, .. } = &self.reading;
        let sources = project::sources(target.as_deref(), &select.inventories).ok()?;
        // Names of hosts are in no encrypted file, and nobody is asked for a password here.
        Inventory::read(&sources, None, &Vault::new(Vec::new())).ok().map(|(inventory, _)| inventory)
    }

    pub fn hosts(&self) -> Values {
        let inventory = self.inventory();
        let hosts = inventory.iter().flat_map(Inventory::hosts);
        hosts.map(|host| (host.name().to_owned(), "host".to_owned())).collect()
    }

    pub fn groups(&self) -> Values {
        let inventory = self.inventory();
        let groups = inventory.iter().flat_map(Inventory::groups);
        groups.map(|group| (group.name().to_owned(), "group".to_owned())).collect()
    }

    /// Hosts and groups.
    pub fn patterns(&self) -> Values {
        let mut all = self.groups();
        all.extend(self.hosts());
        all
    }

    /// The files that hold the project's roles, by role.
    fn role_files(&self) -> BTreeMap<String, Utf8PathBuf> {
        let select = &self.reading.select;
        let here = Utf8PathBuf::from(".");
        let playbook = select.playbook.clone().unwrap_or_else(|| Utf8PathBuf::from("playbooks/site.yaml"));
        let beside = playbook.parent().map(Utf8Path::to_owned).unwrap_or_default();
        let above = beside.join("..");
        let tops = [Some(here), Some(beside), Some(above), self.folder.clone()].into_iter().flatten();
        let folders = tops.map(|top| top.join("roles")).chain(select.roles_path.iter().cloned());
        let mut files = BTreeMap::new();
        for entry in folders.filter_map(|folder| folder.read_dir_utf8().ok()).flatten().flatten() {
            let file = entry.path().join("role.yaml");
            if file.is_file() {
                files.entry(entry.file_name().to_owned()).or_insert(file);
            }
        }
        files
    }

    pub fn roles(&self) -> Values {
        let summary = |file: &Utf8Path| {
            let role = read(file);
            let text = role.iter().find_map(|node| node.get("summary")).and_then(Node::as_str);
            text.unwrap_or_default().to_owned()
        };
        self.role_files().into_iter().map(|(role, file)| (role, summary(&file))).collect()
    }

    /// The tags of the roles' resources and of the playbooks.
    pub fn tags(&self) -> Values {
        let mut files: Vec<Utf8PathBuf> = self.role_files().into_values().collect();
        files.push(
            self.reading.select.playbook.clone().unwrap_or_else(|| Utf8PathBuf::from("playbooks/site.yaml")),
        );
        let mut tags = Values::new();
        for node in files.iter().flat_map(|file| read(file)) {
            add_tags(&node, &mut tags);
        }
        tags
    }

    /// The runs that the hosts have recorded; none where they do not answer soon.
    pub async fn runs(self) -> Values {
        let listing = tokio::time::timeout(PATIENCE, self.recorded_runs());
        listing.await.ok().flatten().unwrap_or_default()
    }

    async fn recorded_runs(self) -> Option<Values> {
        let ReadArgs { target, select, connection, .. } = self.reading;
        let console =
            Console::new(&GlobalArgs { output: OutputFormat::Json, no_color: true, ..GlobalArgs::default() });
        let project = project::load(target.as_deref(), &select, &console).ok()?;
        let names = inventory_names(target.as_deref(), &select);
        let mut session =
            CommandSession::open(SessionRequest::new(project, &connection, &names), &console).ok()?;
        session.hush();
        let hosts = session.look(async |engine: &Engine| engine.snapshots().await).await.ok()?;
        session.close().await;
        let runs = hosts.into_iter().flat_map(|host| host.runs);
        Some(runs.map(|run| (run.run, format!("{} · {}", run.time, run.purpose))).collect())
    }
}

/// The documents of a file; none of one that cannot be read.
fn read(file: &Utf8Path) -> Vec<Node> {
    let source = Source::read(file.as_std_path()).ok();
    source.and_then(|source| parse_yaml(source, Dialect::Native).ok()).unwrap_or_default()
}

fn add_tags(node: &Node, tags: &mut Values) {
    for item in node.as_list().into_iter().flatten() {
        add_tags(item, tags);
    }
    for (key, value) in node.as_map().into_iter().flatten() {
        if key.as_str() == Some("tags") {
            let list = value.as_list().into_iter().flatten().chain(std::iter::once(value));
            let plain = list.filter_map(Node::as_str).filter(|tag| !tag.contains("{{"));
            tags.extend(plain.map(|tag| (tag.to_owned(), "tag".to_owned())));
        } else {
            add_tags(value, tags);
        }
    }
}
