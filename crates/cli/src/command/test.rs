//! `converge test`: roles, held against their scenarios and the gates that hold for every role.

use crate::args::TestArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::prompt::Agreement;
use crate::{project, prompt, session};
use camino::Utf8PathBuf;
use converge_model::inventory::Inventory;
use converge_render as render;
use converge_scenarios::{Case, Given, RunOptions, ScenarioEvent, Where};
use converge_syntax::Diagnostics;
use std::io::Write;
use std::time::Instant;

/// A disposable host and its share of the work take about this much memory, in KiB.
const HOST_KIB: u64 = 512 << 10;

pub fn run(args: TestArgs, console: &Console) -> Result<u8, Failure> {
    if args.remove_remaining {
        return remove_remaining_hosts(console);
    }
    let cases = cases(&args)?;
    let hosts = hosts(&args, &cases, console)?;
    let connection = crate::args::ConnectionArgs {
        forks: Some(1),
        user: None,
        ask_become_pass: args.ask_become_pass,
        become_password_file: args.become_password_file.clone(),
        key_passphrase_file: None,
        accept_new_host_keys: false,
        defaults: std::collections::BTreeMap::new(),
    };
    let options = RunOptions {
        jobs: jobs(&args, &cases),
        keep: args.keep,
        record: args.record,
        inject_drift: !args.no_drift,
        catalog: project::catalog(),
        vault: args.vault.vault()?,
        operator: session::operator(),
        become_password: prompt::become_password(&connection)?,
        hosts,
    };
    let begun = Instant::now();
    let mut progress = progress(&cases, console);
    let (sender, receiver) = std::sync::mpsc::channel::<ScenarioEvent>();
    let reports = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            // Moved in, so that the channel ends with the run.
            let sender = sender;
            converge_scenarios::run(&cases, &options, &sender)
        });
        while let Ok(event) = receiver.recv() {
            progress.show(&event);
        }
        running.join()
    });
    progress.end();
    let reports = reports.map_err(|_| Failure::failed("a thread of the tests died"))?;
    let took = begun.elapsed();
    if console.json {
        console.print_json(&render::tests_json(&reports, took));
    } else if console.junit {
        console.print_junit(&render::tests_junit(&reports));
    } else {
        console.write("\n");
        console.print(&render::test_summary(&reports, took));
    }
    Ok(if reports.iter().all(converge_scenarios::CaseReport::passed) { code::DONE } else { code::FAILED })
}

/// Reads all scenarios that are asked for; diagnostics of all of them together.
fn cases(args: &TestArgs) -> Result<Vec<Case>, Failure> {
    let folders: Vec<Utf8PathBuf> = match (args.all, args.roles.is_empty()) {
        (true, true) => converge_scenarios::find_roles(&args.roles_folder)?,
        (true, false) => {
            return Err(Failure::usage("--all and the folder of a role are given", "leave one of them out"));
        }
        (false, true) => {
            return Err(Failure::usage(
                "no role is given",
                "name its folder, `converge test roles/NAME`, or write --all",
            ));
        }
        (false, false) => args.roles.clone(),
    };
    let mut wrong = Diagnostics::new();
    let mut all: Vec<Case> =
        folders.iter().filter_map(|dir| wrong.take(converge_scenarios::role_at(dir))).flatten().collect();
    if wrong.has_errors() {
        return Err(wrong.into());
    }
    let known: Vec<String> = all.iter().map(|c| c.scenario.name.clone()).collect();
    if let Some(name) = args.scenarios.iter().find(|n| !known.contains(n)) {
        let mut names = known;
        names.sort();
        names.dedup();
        let help = format!("scenarios there are: {}", names.join(", "));
        return Err(Failure::usage(format!("no scenario is called `{name}`"), help));
    }
    all.retain(|c| args.scenarios.is_empty() || args.scenarios.contains(&c.scenario.name));
    Ok(all)
}

/// Where the scenarios run; refused with what to do where they cannot.
fn hosts(args: &TestArgs, cases: &[Case], console: &Console) -> Result<Where, Failure> {
    if args.pure {
        return Ok(Where::Recorded);
    }
    if args.inventories.is_empty() {
        let missing = converge_scenarios::missing(cases);
        if missing.is_empty() {
            return Ok(Where::ThrowAway);
        }
        let lines: Vec<String> = missing.iter().map(|m| format!("- {}: {}", m.what, m.help)).collect();
        return Err(Failure::refused(
            format!("disposable hosts cannot be made on this machine; it lacks:\n{}", lines.join("\n")),
            "or test on hosts that you have (--inventory FILE), or on recorded answers (--pure)",
        ));
    }
    let inventories = project::sources(None, &args.inventories)?;
    let (inventory, _) = Inventory::load(&inventories, None, &args.vault.vault()?)?;
    let selection = inventory.select_limit(args.limit.as_deref().unwrap_or("all"), ".".into())?;
    let names = selection.hosts;
    let needed = cases.iter().map(|c| c.scenario.hosts.len()).max().unwrap_or(1);
    if names.len() < needed {
        return Err(Failure::usage(
            format!(
                "a scenario needs {}, and --limit leaves {}",
                converge_resource::counted(needed, "host"),
                names.len()
            ),
            "widen --limit, or choose scenarios with --scenario",
        ));
    }
    let names: Vec<String> = names.into_iter().take(needed).collect();
    ask(args, &names, cases, console)?;
    Ok(Where::Inventory(Given { inventories, names }))
}

/// Hosts that a user has are changed only when a user says so.
fn ask(args: &TestArgs, names: &[String], cases: &[Case], console: &Console) -> Result<(), Failure> {
    let roles: Vec<&str> = cases.iter().map(|c| c.role.as_str()).collect();
    let mut roles: Vec<&str> = roles;
    roles.dedup();
    let damage = if args.no_drift {
        ""
    } else {
        " Drift is injected into all objects of these roles, one after another, and corrected."
    };
    let notice = format!(
        "This changes {}: {} with all that they require are applied, then rolled back.{damage}",
        names.join(", "),
        roles.join(", ")
    );
    console.remark(render::Tone::Warn, "", &notice);
    if args.yes {
        return Ok(());
    }
    let agreement = Agreement {
        deed: "test on these hosts",
        short: "test",
        otherwise: "nothing was changed",
        question: "Test on these hosts?",
    };
    agreement.ask(prompt::somebody_is_there())
}

/// Scenarios at once: as many as processors, and as their hosts have room in memory.
fn jobs(args: &TestArgs, cases: &[Case]) -> usize {
    if let Some(jobs) = args.jobs {
        return usize::from(jobs);
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // A node of a whole cluster needs more.
    let size = |case: &Case| case.scenario.hosts.len() * if case.is_whole() { 2 } else { 1 };
    let largest = cases.iter().map(size).max().unwrap_or(1);
    let free = fs_err::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().split(' ').next()?.parse::<u64>().ok()
    });
    let room = free.map_or(1, |kib| kib / HOST_KIB);
    let room = usize::try_from(room).unwrap_or(usize::MAX) / largest.max(1);
    processors.min(room).max(1)
}

fn progress(cases: &[Case], console: &Console) -> render::TestProgress {
    let live = console.look.width.is_some() && console.error_look.width.is_some();
    let human = console.human();
    let names = cases.iter().map(Case::name).collect();
    let (look, out): (render::Look, Box<dyn Write + Send>) = if human {
        (console.look, Box::new(std::io::stdout()))
    } else {
        (console.error_look, Box::new(std::io::stderr()))
    };
    render::TestProgress::new(look, names, live, human, out)
}

fn remove_remaining_hosts(console: &Console) -> Result<u8, Failure> {
    let removed = converge_scenarios::remove_remaining_hosts().map_err(Failure::failed)?;
    let notice = if removed.is_empty() {
        "no hosts were left\n".to_owned()
    } else {
        format!("removed: {}\n", removed.join(", "))
    };
    console.write(&notice);
    Ok(code::DONE)
}
