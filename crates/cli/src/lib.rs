//! The command line of `converge`: one command, one file below `command/`.
//!
//! The binary `converge` holds all of it but the tests of roles: these need disposable hosts, which stand in the binary `converge-lab`.

mod args;
mod command;
mod console;
mod default_command;
#[cfg(test)]
mod documents;
mod failure;
mod familiar;
mod output_file;
mod page;
mod project;
mod prompt;
mod schemas;
mod session;
mod settings;
mod timings;
mod vault;

use args::{Cli, CommandArgs};
use clap::{CommandFactory, FromArgMatches};
use console::Console;
use failure::{Failure, code};
use settings::Settings;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs the tests of roles that the arguments ask for.
type TestRoles = fn(args::TestArgs, &Console) -> Result<u8, Failure>;

/// The program `converge`: hands `converge test` over to `converge-lab`.
pub fn converge(arguments: Vec<OsString>) -> ExitCode {
    start(arguments, command::lab::run)
}

/// `converge test` in the program `converge-lab`: the version of the `converge` that hands it over, and its arguments without its name.
pub fn converge_test(version: &str, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let failure = Failure::refused(
            format!("this is converge-lab {own}, and `converge test` of converge {version} called it"),
            "install both programs from one checkout: `cargo install --path crates/cli`",
        );
        return ExitCode::from(failure.report(&Console::new(&args::GlobalArgs::default())));
    }
    start([OsString::from("converge")].into_iter().chain(arguments).collect(), command::test::run)
}

fn start(arguments: Vec<OsString>, test_roles: TestRoles) -> ExitCode {
    if args::asks_version(&arguments) {
        return printed(std::io::stdout().write_all(args::VERSION.as_bytes()), code::DONE);
    }
    let definition = args::definition();
    if let Some(failure) = familiar::unknown_command(&arguments, &definition) {
        return ExitCode::from(failure.report(&Console::new(&args::GlobalArgs::default())));
    }
    let arguments = default_command::with_default_command(arguments, &definition);
    let arguments = familiar::translated(arguments, &definition);
    let parsed = definition.try_get_matches_from(arguments).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(mut error) => {
            if let Some(failure) = familiar::unknown_option(&mut error) {
                return ExitCode::from(failure.report(&Console::new(&args::GlobalArgs::default())));
            }
            return printed(error.print(), if error.use_stderr() { code::USAGE } else { code::DONE });
        }
    };
    let console = Console::new(&cli.global);
    trace(cli.global.verbose);
    let outcome = if console.junit && !cli.command.has_junit() {
        Err(Failure::usage(
            "this command has no JUnit form",
            "apply, plan, drift, rollback and verify have; others: --output json",
        ))
    } else {
        run(cli.command, test_roles, &console)
    };
    let code = outcome.unwrap_or_else(|failure| failure.report(&console));
    ended(code, &console)
}

/// The exit code behind text of the program itself: its help, its version.
fn printed(result: std::io::Result<()>, code: u8) -> ExitCode {
    let console = Console::new(&args::GlobalArgs::default());
    if let Err(error) = result.and_then(|()| std::io::stdout().flush()) {
        console.not_written("the output", &error);
    }
    ended(code, &console)
}

/// The exit code, also where something could not be written.
fn ended(code: u8, console: &Console) -> ExitCode {
    ExitCode::from(match console.lost() {
        Some(what) => {
            console.remark(converge_render::Tone::Bad, "error: ", &what);
            if matches!(code, code::DONE | code::PENDING) { code::OUTPUT } else { code }
        }
        None => code,
    })
}

fn run(mut command: CommandArgs, test_roles: TestRoles, console: &Console) -> Result<u8, Failure> {
    let mut settings = Settings::default();
    if Settings::concern(&command) {
        let (found, warnings) = Settings::load()?;
        if !warnings.is_empty() {
            console.complain(&warnings);
        }
        settings = found;
        settings.complete(&mut command);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start: {e}")))?;
    let code = match command {
        CommandArgs::Apply(a) => runtime.block_on(command::apply::run(a, console)),
        CommandArgs::Plan(a) => runtime.block_on(command::plan::run(a, console)),
        CommandArgs::Drift(a) => runtime.block_on(command::drift::run(a, console)),
        CommandArgs::Rollback(a) => runtime.block_on(command::rollback::run(a, console)),
        CommandArgs::Snapshots(a) => runtime.block_on(command::snapshots::run(a, console)),
        CommandArgs::State(a) => runtime.block_on(command::state::run(a, console)),
        CommandArgs::Verify(a) => runtime.block_on(command::verify::run(a, console)),
        CommandArgs::Doctor(a) => runtime.block_on(command::doctor::run(a, console)),
        CommandArgs::Facts(a) => runtime.block_on(command::facts::run(a, console)),
        CommandArgs::Test(a) => test_roles(a, console),
        CommandArgs::Run(a) => runtime.block_on(command::run::run(a, console)),
        CommandArgs::Settings(a) => command::settings::run(a, &settings, console),
        CommandArgs::Inventory(a) => command::inventory::run(a, console),
        CommandArgs::Vars(a) => command::vars::run(a, console),
        CommandArgs::Vault(a) => command::vault::run(a, console),
        CommandArgs::Validate(a) => command::validate::run(a, console),
        CommandArgs::Init(a) => command::init::run(a, console),
        CommandArgs::Import(a) => command::import::run(a, console),
        CommandArgs::Graph(a) => command::graph::run(a, console),
        CommandArgs::Explain(a) => command::explain::run(a, console),
        CommandArgs::Schema(a) => command::schema::run(a, console),
        CommandArgs::Man(a) => command::man::run(a, console),
        CommandArgs::Completions(a) => command::completions::run(a, console, Cli::command()),
        CommandArgs::Complete(a) => runtime.block_on(command::complete::run(a, console, Cli::command())),
        CommandArgs::Docs(a) => command::docs::run(a, console),
    };
    // A host that no longer answers must not hold up the end.
    runtime.shutdown_background();
    converge_engine::abandon_helm();
    code.map_err(|failure| settings.placed(failure))
}

/// The log, for people who look for a fault: `CONVERGE_LOG=debug`, or `-vv`.
fn trace(verbose: u8) {
    let wanted = std::env::var("CONVERGE_LOG").ok().filter(|l| !l.is_empty());
    let wanted = wanted.or_else(|| (verbose > 1).then(|| "debug,russh=info".to_owned()));
    if let Some(wanted) = wanted {
        let filter = tracing_subscriber::EnvFilter::new(wanted);
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}
