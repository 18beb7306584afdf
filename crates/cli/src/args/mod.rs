//! The command line.

mod common;
mod project;
mod state;
mod vault;

pub use common::*;
pub use project::*;
pub use state::{
    AmendArgs, StateAction, StateAdoptArgs, StateArgs, StateForgetArgs, StateMoveArgs, StateReadArgs,
};
pub use vault::*;

use camino::Utf8PathBuf;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;

const EXIT_CODES: &str = "\
Exit codes:
  0   nothing to do, or done
  1   failed
  2   changes are pending (plan, drift, verify), or something differs (state diff)
  3   a host was unreachable
  4   refused: not confirmed, a stale plan, a lock, a changed host key
  5   failed, and a guarded change was reverted
  64  wrong usage or bad input
  74  all else went well, but the output or the report could not be written";

/// Converge hosts to what a playbook declares.
///
/// It looks at every host over SSH, shows exactly what would change, asks, changes it, and can revert everything. Nothing is
/// installed on the hosts.
///
/// `converge INVENTORY` is short for `converge apply INVENTORY`.
#[derive(Debug, Parser)]
#[command(name = "converge", version, after_help = EXIT_CODES, arg_required_else_help = true)]
#[command(override_usage = "converge [OPTIONS] INVENTORY\n       converge [OPTIONS] COMMAND")]
pub struct Cli {
    /// For all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The subcommand.
    #[command(subcommand)]
    pub command: CommandArgs,
}

/// Flags of all commands.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArgs {
    /// Show more: unchanged resources, whole files, the output of steps; twice for a log
    #[arg(help_heading = "Global options", short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// The format of results
    #[arg(help_heading = "Global options", long, global = true, value_enum, default_value_t = OutputFormat::Human, value_name = "FORM")]
    pub output: OutputFormat,
    /// Show diffs and new files whole, however long they are
    #[arg(help_heading = "Global options", long, global = true)]
    pub full_diff: bool,
    /// No colour (also: the variable NO_COLOR, or a pipe)
    #[arg(help_heading = "Global options", long, global = true)]
    pub no_color: bool,
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON document on standard output, with its format and version in it (`converge schema` has its schema)
    Json,
    /// JUnit's XML on standard output, for build servers: apply, plan, drift, rollback, test, verify
    Junit,
}

/// The subcommand.
#[derive(Debug, Subcommand)]
pub enum CommandArgs {
    /// Plan, show, ask, converge (the default command)
    ///
    /// With a file that `plan --out` wrote, applies that plan: whatever is not as the plan saw it is refused by name, and nothing
    /// is overwritten. A file that is named like a command is written `./plan`.
    Apply(ApplyArgs),
    /// Show what would change; change nothing
    ///
    /// Ends with 2 when changes are pending.
    Plan(PlanArgs),
    /// Find out whether anything differs from what is declared; for cron and CI
    ///
    /// Like `plan`, without the option to save the plan. Ends with 2 when something differs.
    Drift(DriftArgs),
    /// Revert the changes of a run
    ///
    /// Goes back to the state before the newest run that changed a host and has not been rolled back, or to the one before the run
    /// of --to. It plans first, like any change; what someone else has changed since is reported and not overwritten.
    Rollback(RollbackArgs),
    /// List what can be rolled back to, run by run
    Snapshots(ReadArgs),
    /// Show what converge manages on each host: since which run, and by which resource
    ///
    /// It reads the records that the hosts and clusters keep. An object that was in its declared state already is not managed.
    State(StateArgs),
    /// Run the live checks of the roles, and nothing else
    ///
    /// Ends with 2 when a check does not hold.
    Verify(ReadArgs),
    /// Find out why a host cannot be reached or worked on, and what is wrong with a GPU cluster
    ///
    /// Tests the connection step by step: name, TCP, jump hosts, host key, login, shell, becoming another user; then what a run needs there:
    /// records, disk space, clock, packages; then container runtime, driver and certificates of a node; then the cluster itself. Each failure
    /// comes with its cause, its correction, and the role that makes it. Changes nothing. Ends with 1 when something is wrong, with 3 when a
    /// host cannot be reached or refuses the login.
    Doctor(DoctorArgs),
    /// Show what hosts say about themselves: system, disks, network, GPUs, container runtimes
    ///
    /// Identical output is grouped. Without a name all facts are asked; with one only what it needs. `docs/facts.md` lists them.
    Facts(FactsArgs),
    /// Test roles on disposable hosts: their scenarios, and the gates that hold for every role
    ///
    /// A scenario is a file `tests/*.yaml` of a role: preconditions, and the expected result. Unasked, every scenario goes through the
    /// gates: planning changes nothing, it converges as planned, the next plan is empty, converging again changes nothing, the live
    /// checks hold, injected drift is detected and corrected, and the rollback restores the start.
    Test(TestArgs),
    /// Run a command on the hosts of a pattern, side by side; identical output is grouped
    ///
    /// `converge run 'web:&prod' -i inventories/prod.yaml -- systemctl is-active nginx`. One word after `--` is shell text, several are a
    /// command and its arguments. It runs as the inventory says (`ansible_become`). With one host its output comes as it is
    /// written. Nothing of it is recorded, planned or rolled back. Ends with 1 when it failed on some host.
    Run(RunArgs),
    /// Print the inventory as `ansible-inventory` does
    Inventory(InventoryArgs),
    /// Show every candidate for the value of a variable, with its place, and who wins
    Vars(VarsArgs),
    /// Encrypt and decrypt files and values, as `ansible-vault` does
    Vault(VaultCommandArgs),
    /// Check everything that can be known without contact to a host
    ///
    /// Inventory, variables, playbook, roles, templates, connection variables, key files, vault passwords, and what each resource
    /// declares on each host. Values that facts decide, and states of hosts, are what `plan` looks at. Ends with 64 when something is wrong.
    Validate(ValidateArgs),
    /// Show each setting of the project, its value and its source
    ///
    /// Settings come from the nearest `converge.toml`, from the working folder upwards, and from environment variables. The first of these
    /// counts: the command line, the environment, the file, the default. `docs/settings.md` lists them.
    Settings(SettingsArgs),
    /// Write a first project: settings, an inventory, a playbook, a role and its template
    ///
    /// The five files of the README, for a host that you name, and the JSON Schemas of its files for editors. No file is overwritten.
    Init(InitArgs),
    /// Write a role or a playbook of Ansible as one of converge, and report what each task became
    ///
    /// Nothing of it is run, and nothing is fetched. What cannot be said for certain becomes an open item: the plan of the role refuses until
    /// a person has decided. Importing again never overwrites what a person has edited. `-v` lists every task.
    Import(ImportArgs),
    /// Draw which role comes after which
    Graph(GraphArgs),
    /// Explain a kind, a role, or what a resource claims on a host and where its values come from
    Explain(ExplainArgs),
    /// Print a JSON Schema: of what you write, for editors, or of what `--output json` gives; without a name, list them
    ///
    /// `docs/editors.md` says how to tell an editor about them.
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    ///
    /// Those of bash, zsh and fish complete commands, options, hosts, groups, roles, kinds, tags and recorded runs of the project in the working folder.
    Completions(CompletionsArgs),
    /// Write manual pages into a folder
    Man(ManArgs),
    /// Print the candidates for the last of some words, for the scripts of shells
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Write the generated reference pages
    #[command(hide = true)]
    Docs(DocsArgs),
}

impl CommandArgs {
    /// Does `--output junit` mean anything to it?
    pub fn has_junit(&self) -> bool {
        matches!(
            self,
            Self::Apply(_)
                | Self::Plan(_)
                | Self::Drift(_)
                | Self::Rollback(_)
                | Self::Test(_)
                | Self::Verify(_)
        )
    }
}

/// `converge apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The inventory, or a plan that `plan --out` wrote [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY|PLAN")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub removal: RemovalArgs,
    /// Stop before the first deferred resource
    #[arg(long)]
    pub no_deferred: bool,
    /// Ask before each resource, or before each role
    #[arg(long, value_name = "EACH", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "resource")]
    pub step: Option<StepUnit>,
    /// Write a page for a browser: plan, diffs, what was done, times. One file that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub timings: TimingsArgs,
    /// The setting `reports`: the folder of the page where no file is named.
    #[arg(skip)]
    pub reports: Option<Utf8PathBuf>,
}

/// The unit of a question of `--step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StepUnit {
    /// Each resource
    #[value(name = "resource", alias = "item")]
    Item,
    /// Each role
    Role,
}

/// `converge plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub removal: RemovalArgs,
    /// Save the plan in this file, for `converge apply FILE`
    #[arg(long, value_name = "FILE")]
    pub out: Option<Utf8PathBuf>,
    /// Write a page for a browser: plan, diffs, what was done, times. One file that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub timings: TimingsArgs,
}

/// `converge drift`
#[derive(Debug, Args)]
pub struct DriftArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Write a page for a browser: plan, diffs, what was done, times. One file that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub timings: TimingsArgs,
}

/// `converge rollback`
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    /// More inventories. May be given several times
    #[arg(short, long = "inventory", value_name = "INVENTORY")]
    pub inventories: Vec<String>,
    /// The playbook [default: as for apply]
    #[arg(long, value_name = "FILE")]
    pub playbook: Option<Utf8PathBuf>,
    /// A folder in which roles are searched after those of the playbook. May be given several times
    #[arg(long, value_name = "DIR")]
    pub roles_path: Vec<Utf8PathBuf>,
    /// To the state before this run (see `converge snapshots`) [default: the newest that is not rolled back]
    #[arg(long, value_name = "RUN")]
    pub to: Option<String>,
    /// Only these hosts
    #[arg(short, long, value_name = "PATTERN")]
    pub limit: Option<String>,
    /// Only what this role changed. May be given several times
    #[arg(long = "role", value_name = "NAME")]
    pub roles: Vec<String>,
    /// Set a variable, as for the run that is reverted
    #[arg(short = 'e', long = "set", visible_alias = "extra-vars", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Selecting nothing is no error: a `--limit`, a pattern of a play or a tag without a match, an inventory without hosts
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub vault: VaultArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Destroy this though no snapshot holds it: an ID as the plan shows it. May be given several times
    #[arg(long, value_name = "ID")]
    pub allow_destroy: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Write a page for a browser: plan, diffs, what was done, times. One file that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub timings: TimingsArgs,
    /// The setting `reports`: the folder of the page where no file is named.
    #[arg(skip)]
    pub reports: Option<Utf8PathBuf>,
}

/// `converge snapshots` and `converge verify`
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub timings: TimingsArgs,
}

/// `converge facts`
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    /// One fact: `os.id`, `nvidia.gpus[0].name`, `network.interfaces[].name` [default: all]
    #[arg(value_name = "NAME.PATH")]
    pub name: Option<String>,
    #[command(flatten)]
    pub hosts: HostsArgs,
}

/// `converge doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The inventory [default: the setting `inventory`]
    #[arg(value_name = "INVENTORY")]
    pub target: Option<String>,
    #[command(flatten)]
    pub hosts: HostsArgs,
}

/// `converge test`
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The folders of roles: roles/NAME
    #[arg(value_name = "ROLE")]
    pub roles: Vec<Utf8PathBuf>,
    /// All roles
    #[arg(long)]
    pub all: bool,
    /// Where --all finds roles
    #[arg(long, value_name = "DIR", default_value = "roles")]
    pub roles_folder: Utf8PathBuf,
    /// Only this scenario. May be given several times
    #[arg(long = "scenario", value_name = "NAME")]
    pub scenarios: Vec<String>,
    /// No hosts: plan on recorded answers, in milliseconds. Of the gates only the input and the plan are held
    #[arg(long, conflicts_with_all = ["inventories", "keep", "record"])]
    pub pure: bool,
    /// Write what the hosts answer to tests/recorded/ of the role, for --pure
    #[arg(long)]
    pub record: bool,
    /// When a gate fails, leave the hosts as they are and say how to get in
    #[arg(long)]
    pub keep: bool,
    /// Remove hosts that --keep has left
    #[arg(long = "remove-kept", conflicts_with_all = ["roles", "all"])]
    pub remove_remaining: bool,
    /// Do not inject drift into the objects that the roles manage
    #[arg(long = "no-drift", alias = "no-spoil")]
    pub no_drift: bool,
    /// Scenarios at once [default: as processors and memory allow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    pub jobs: Option<u8>,
    /// Test on these hosts instead of disposable ones. May be given several times
    #[arg(
        help_heading = "Hosts that you have",
        short,
        long = "inventory",
        value_name = "INVENTORY",
        conflicts_with = "keep"
    )]
    pub inventories: Vec<String>,
    #[command(flatten)]
    pub vault: VaultArgs,
    /// Only these hosts of the inventory
    #[arg(
        help_heading = "Hosts that you have",
        short,
        long,
        value_name = "PATTERN",
        requires = "inventories"
    )]
    pub limit: Option<String>,
    /// Do not ask
    #[arg(help_heading = "Hosts that you have", short, long, requires = "inventories")]
    pub yes: bool,
    /// Ask for the password for sudo
    #[arg(help_heading = "Hosts that you have", short = 'K', long, conflicts_with = "become_password_file")]
    pub ask_become_pass: bool,
    /// Read the password for sudo from the first line of this file
    #[arg(help_heading = "Hosts that you have", long, value_name = "FILE")]
    pub become_password_file: Option<Utf8PathBuf>,
}

/// `converge run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The hosts, in Ansible's pattern language: `all`, `web:&prod:!web3`
    #[arg(value_name = "PATTERN")]
    pub pattern: String,
    /// The inventory: a file, a folder, or host names with commas (`h1,h2,`). May be given several times
    #[arg(short, long = "inventory", value_name = "INVENTORY")]
    pub inventories: Vec<String>,
    /// As root, though the inventory does not say so
    #[arg(short, long = "become")]
    pub become_root: bool,
    /// As this user
    #[arg(long, value_name = "USER")]
    pub become_user: Option<String>,
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
    /// Seconds that the command may take on a host; then it is ended there
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// The answer to `--version`.
pub const VERSION: &str = concat!("converge ", env!("CARGO_PKG_VERSION"), "\n");

/// Whether nothing but the version is asked for. To build the definition of all commands takes most of such a call's time.
pub fn asks_version(arguments: &[OsString]) -> bool {
    matches!(arguments, [_, only] if only == "--version" || only == "-V")
}

/// The command line as clap knows it.
pub fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_sound() {
        super::definition().debug_assert();
    }

    #[test]
    fn the_version_is_what_clap_says() {
        assert_eq!(super::definition().render_version(), super::VERSION);
        let asks = |line: &str| {
            let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
            super::asks_version(&words)
        };
        assert!(asks("converge --version") && asks("converge -V"));
        assert!(!asks("converge") && !asks("converge plan --version") && !asks("converge --version x"));
    }
}
