//! The arguments of commands that read a project and contact no host, and of those that describe the program.

use super::{SelectArgs, VaultArgs};
use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// `converge inventory`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct InventoryArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    /// More inventories. May be given several times
    #[arg(short, long = "inventory", value_name = "INVENTORY")]
    pub inventories: Vec<String>,
    /// All groups and hosts with their variables
    #[arg(long, group = "what")]
    pub list: bool,
    /// The tree of groups, from this group
    #[arg(long, group = "what", value_name = "GROUP", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub graph: Option<String>,
    /// The variables of one host
    #[arg(long, group = "what", value_name = "HOST")]
    pub host: Option<String>,
    /// YAML instead of JSON
    #[arg(long)]
    pub yaml: bool,
    /// Variables of groups at their groups, instead of merged into every host
    #[arg(long)]
    pub export: bool,
    /// Variables in the graph
    #[arg(long)]
    pub vars: bool,
    /// Only these hosts
    #[arg(short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// The folder whose group_vars and host_vars count too
    #[arg(long, value_name = "DIR")]
    pub playbook_dir: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub vault: VaultArgs,
}

/// `converge vars`
#[derive(Debug, Args)]
pub struct VarsArgs {
    /// The host
    pub host: String,
    /// The variable [default: all]
    pub name: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
}

/// `converge validate`
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
}

/// `converge settings`
#[derive(Debug, Args)]
pub struct SettingsArgs {}

/// `converge init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The folder of the project; it is made where it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// The address of the host
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.10")]
    pub address: String,
    /// The user to log in as, who may use sudo
    #[arg(long, value_name = "USER", default_value = "deploy")]
    pub user: String,
}

/// `converge import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The folder of a role, or a playbook with its roles beside it
    #[arg(value_name = "PATH")]
    pub path: Utf8PathBuf,
    /// The folder for what is written: `roles/` and `playbooks/` in it
    #[arg(long, value_name = "DIR", default_value = "imported")]
    pub out: Utf8PathBuf,
}

/// `converge graph`
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    /// The format of the graph
    #[arg(long, value_enum, default_value_t = GraphFormat::Text, value_name = "FORM")]
    pub format: GraphFormat,
}

/// The format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// The roles in order
    Text,
    /// For Graphviz
    Dot,
    /// For Mermaid
    Mermaid,
    /// A picture
    Svg,
}

/// `converge explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A kind (`file`), a role (`gpu_node`) or a resource of a role (`gpu_node/settings`) [default: list kinds and roles]
    #[arg(value_name = "KIND|ROLE|RESOURCE")]
    pub name: Option<String>,
    /// The inventory; for a resource
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    /// The host on which a resource is explained [default: the first of its role]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
}

/// `converge schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// role, playbook, inventory, settings; plan, apply (also: report), verify, snapshots, state, vars, facts, fact
    pub name: Option<String>,
}

/// `converge man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder to write to
    #[arg(value_name = "DIR")]
    pub dir: Utf8PathBuf,
}

/// `converge completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `converge complete`
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words behind the program's name, up to that at the cursor
    #[arg(value_name = "WORD", last = true)]
    pub words: Vec<String>,
}

/// `converge docs`
#[derive(Debug, Args)]
pub struct DocsArgs {
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub out: Utf8PathBuf,
    /// Write nothing; fail when a page differs
    #[arg(long)]
    pub check: bool,
}
