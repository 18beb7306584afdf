//! The commands of a contributor: `cargo xtask demo|parts|test|shell|audit|bench|mutate|generate`.
#![expect(clippy::print_stdout, reason = "a command-line program answers on standard output")]

mod audit;
mod bench;
mod check;
mod demo;
mod demo_cluster;
mod demo_system;
mod generate;
mod mutate;
mod process;
#[cfg(test)]
mod roles;
mod safeguards;
mod shell;
mod suite;
mod tiers;
mod tools;
mod workload;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// The chores of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Converge three disposable hosts before your eyes: plan, apply, drift, rollback.
    Demo {
        /// The demo to show instead: a cluster from bare hosts, or one of the reference systems.
        #[arg(value_enum)]
        what: Option<DemoChoice>,
    },
    /// Build the programs of Kubernetes that tests and `demo cluster` run, where they are not built yet: minutes, once.
    Parts,
    /// Run every check there is; this decides about a change. With a filter or a tier: these tests alone.
    Test(tiers::TestChoice),
    /// Check all files of shell, as `test` does: shfmt, shellcheck, names and comments of functions, globals.
    Shell,
    /// Look every crate up in the database of advisories, which grows by itself: for a job that runs by the clock.
    Audit,
    /// Measure beside the floor: OpenSSH and one script.
    Bench(bench::BenchArguments),
    /// Seed wrong rules into `crates/ledger`, one at a time in a copy, and fail when its tests do not catch one: half an hour.
    Mutate,
    /// Take the safeguards of roles away, one at a time in a copy, and fail when the scenario that should notice holds: a quarter of an hour.
    Safeguards {
        /// Only roles with this in their names.
        #[arg(default_value = "")]
        role: String,
    },
    /// Write the generated documents.
    Generate {
        /// Change nothing; fail when a file is not as it would be written.
        #[arg(long)]
        check: bool,
    },
}

/// The demos besides the main job.
#[derive(Clone, Copy, clap::ValueEnum)]
enum DemoChoice {
    /// From two bare hosts to a Kubernetes cluster with shared GPUs.
    Cluster,
    /// The GPU operator, GPUs shared by product, a control plane with GPUs.
    Thinkube,
    /// The hosts' toolkit beside the operator, a model, scaled by its GPUs.
    SmartScaler,
    /// Kubeflow's trainer: two shares a GPU, and runtimes with the class.
    TrainerCi,
    /// Device plugin, runners and metrics of PyTorch's CI.
    PytorchCloud,
    /// AMD's device plugin, its validation and runners.
    AmdMi300,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Demo { what: None } => demo::run(),
        Chore::Demo { what: Some(DemoChoice::Cluster) } => demo_cluster::run(),
        Chore::Demo { what: Some(DemoChoice::Thinkube) } => demo_system::run(demo_system::THINKUBE),
        Chore::Demo { what: Some(DemoChoice::SmartScaler) } => demo_system::run(demo_system::SMART_SCALER),
        Chore::Demo { what: Some(DemoChoice::TrainerCi) } => demo_system::run(demo_system::TRAINER),
        Chore::Demo { what: Some(DemoChoice::PytorchCloud) } => demo_system::run(demo_system::PYTORCH),
        Chore::Demo { what: Some(DemoChoice::AmdMi300) } => demo_system::run(demo_system::AMD),
        Chore::Parts => tools::kubernetes(),
        Chore::Test(choice) => check::run(&choice),
        Chore::Shell => shell::check().map(|files| println!("{files} files are well")),
        Chore::Audit => audit::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Mutate => mutate::run(),
        Chore::Safeguards { role } => safeguards::run(&role),
        Chore::Generate { check: true } => generate::check(None),
        Chore::Generate { check: false } => generate::write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            drop(writeln!(std::io::stderr(), "\nerror: {error}"));
            ExitCode::FAILURE
        }
    }
}
