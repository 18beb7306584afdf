//! Options that several commands have.

use super::VaultArgs;
use camino::Utf8PathBuf;
use clap::Args;
use serde::{Deserialize, Serialize};

/// The numbers of hosts that may be worked on at once.
pub const FORKS: std::ops::RangeInclusive<i64> = 1..=1000;
/// The number of hosts that are worked on at once where nothing sets it.
pub const DEFAULT_FORKS: u16 = 20;

/// Which hosts and which part of the playbook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectArgs {
    /// More inventories: a file, a folder, or host names with commas (`h1,h2,`). May be given several times
    #[arg(help_heading = "Targeting", short, long = "inventory", value_name = "INVENTORY")]
    pub inventories: Vec<String>,
    /// The playbook [default: the setting `playbook`, the inventory's variable converge_playbook, or playbooks/site.yaml]
    #[arg(help_heading = "Targeting", long, value_name = "FILE")]
    pub playbook: Option<Utf8PathBuf>,
    /// A folder in which roles are searched after those of the playbook. May be given several times
    #[arg(help_heading = "Targeting", long, value_name = "DIR")]
    #[serde(default)]
    pub roles_path: Vec<Utf8PathBuf>,
    /// Only these hosts, in Ansible's pattern language: `web:&prod:!web3`
    #[arg(help_heading = "Targeting", short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// Only this role. May be given several times
    #[arg(help_heading = "Targeting", long = "role", value_name = "NAME")]
    pub roles: Vec<String>,
    /// Start here in the order of the roles: leave out what comes before
    #[arg(help_heading = "Targeting", long, value_name = "ROLE[/RESOURCE]")]
    #[serde(default)]
    pub start_at: Option<String>,
    /// Only resources with one of these tags
    #[arg(help_heading = "Targeting", short, long, value_delimiter = ',', value_name = "TAG,…")]
    pub tags: Vec<String>,
    /// Not the resources with one of these tags
    #[arg(help_heading = "Targeting", long, value_delimiter = ',', value_name = "TAG,…")]
    pub skip_tags: Vec<String>,
    /// Set a variable, above all other places. May be given several times
    ///
    /// NAME=@FILE takes the text of a file, NAME=@- standard input; no template is read in it. What is typed here stands in the list of processes, and
    /// so the value of a sensitive input is taken only in these ways.
    #[arg(
        help_heading = "Targeting",
        short = 'e',
        long = "set",
        visible_alias = "extra-vars",
        value_name = "NAME=VALUE"
    )]
    pub set: Vec<String>,
    /// Selecting nothing is no error: a `--limit`, a pattern of a play or a tag without a match, an inventory without hosts
    #[arg(help_heading = "Targeting", long)]
    #[serde(default)]
    pub allow_empty: bool,
    #[command(flatten)]
    #[serde(default)]
    pub vault: VaultArgs,
}

/// The options of connections.
#[derive(Clone, Debug, Args)]
pub struct ConnectionArgs {
    /// The number of hosts that are worked on at once [default: the setting `forks`, or 20]
    #[arg(help_heading = "How to reach the hosts", short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(FORKS))]
    pub forks: Option<u16>,
    /// The user to log in as, where the inventory sets no ansible_user [default: the setting `user`, or yours]
    #[arg(help_heading = "How to reach the hosts", short, long, value_name = "NAME")]
    pub user: Option<String>,
    /// Ask for the password for sudo, su or doas
    #[arg(
        help_heading = "How to reach the hosts",
        short = 'K',
        long,
        conflicts_with = "become_password_file"
    )]
    pub ask_become_pass: bool,
    /// Read the password for sudo, su or doas from the first line of this file
    #[arg(help_heading = "How to reach the hosts", long, alias = "become-pass-file", value_name = "FILE")]
    pub become_password_file: Option<Utf8PathBuf>,
    /// Read the passphrase of ssh keys from the first line of this file [default: ask, where a terminal is]
    #[arg(help_heading = "How to reach the hosts", long, value_name = "FILE")]
    pub key_passphrase_file: Option<Utf8PathBuf>,
    /// First contact: record and trust the keys of hosts that known_hosts does not know; a changed key stays refused
    #[arg(help_heading = "How to reach the hosts", long)]
    pub accept_new_host_keys: bool,
    /// Variables of connections of `ansible.cfg`, where the inventory sets none of their names.
    #[arg(skip)]
    pub defaults: std::collections::BTreeMap<String, String>,
}

/// Where the times of a run are written.
#[derive(Clone, Debug, Default, Args)]
pub struct TimingsArgs {
    /// Write the times of the run as a trace, which ui.perfetto.dev and chrome://tracing show: a row a host. Also of a run that fails
    #[arg(id = "timings", long = "timings", value_name = "FILE.json")]
    pub file: Option<Utf8PathBuf>,
}

/// The options that allow removal.
#[derive(Clone, Debug, Default, Args)]
pub struct RemovalArgs {
    /// Remove what runs of this playbook and inventory made and no role declares any more, or restore their original state.
    /// With more than 10 objects or 10 % of a host's, N confirms their number where there is no terminal to ask on
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub prune: Option<Option<usize>>,
    /// Destroy this though no snapshot holds it: an ID as the plan shows it, such as `path:/srv/big`. May be given several times
    #[arg(long, value_name = "ID")]
    pub allow_destroy: Vec<String>,
}

/// The hosts of a command that reads their inventory and no playbook.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// More inventories: a file, a folder, or host names with commas (`h1,h2,`). May be given several times
    #[arg(short, long = "inventory", value_name = "INVENTORY")]
    pub inventories: Vec<String>,
    /// Only these hosts, in Ansible's pattern language
    #[arg(short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// Set a variable, above all other places. May be given several times
    #[arg(short = 'e', long = "set", visible_alias = "extra-vars", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Selecting nothing is no error: a `--limit`, a pattern of a play or a tag without a match, an inventory without hosts
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub vault: VaultArgs,
}

impl HostsArgs {
    /// As a selection of all that the inventory says, and the options of the connections.
    pub fn split(self) -> (SelectArgs, ConnectionArgs) {
        let Self { inventories, limit, set, allow_empty, connection, vault } = self;
        (SelectArgs { inventories, limit, set, allow_empty, vault, ..SelectArgs::default() }, connection)
    }
}
