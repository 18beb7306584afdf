//! `converge apply`: plan, show, ask, converge.

use super::allowed_ids::refuse_unknown_ids;
use super::plan::{SavedArguments, inventory_names, show};
use crate::args::{ApplyArgs, RemovalArgs, SelectArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::page::{Page, PagePath};
use crate::project;
use crate::prompt::{self, Agreement};
use crate::session::{CommandSession, SessionRequest};
use camino::Utf8Path;
use converge_engine::saved::{self, SavedPlan};
use converge_engine::{ApplyReport, Engine, FleetPlan, HostApply, ItemResult, TargetError};
use converge_planner::{HostPlan, Item, Outcome};
use converge_render as render;
use converge_resource::{counted, quote};
use std::io::Read;

pub async fn run(args: ApplyArgs, console: &Console) -> Result<u8, Failure> {
    let number = args.removal.prune.flatten();
    let Some((saved, arguments)) = saved_plan(&args, console)? else {
        let project = project::load(args.target.as_deref(), &args.select, console)?;
        let names = inventory_names(args.target.as_deref(), &args.select);
        let mut session = CommandSession::open(
            SessionRequest::new(project, &args.connection, &names)
                .with_removal(&args.removal)
                .with_no_deferred(args.no_deferred),
            console,
        )?;
        session.trace_to(args.timings.file)?;
        let page = Page::new(PagePath::of(args.report, args.reports), &names, &session);
        session.ask_before(args.step)?;
        let plan = session.plan().await?;
        refuse_unknown_ids(&plan, &args.removal.allow_destroy)?;
        let how = ApplyOptions {
            yes: args.yes,
            number,
            rollback: back(&names, &args.select),
            page,
            goes_back: false,
        };
        return carry_out(session, plan, how, console).await;
    };
    if args.removal.prune.is_some() && !arguments.prune {
        let help = "plan again with --prune, or leave it out";
        return Err(Failure::usage("the saved plan was made without --prune", help));
    }
    let removal = RemovalArgs {
        prune: arguments.prune.then_some(number),
        allow_destroy: [arguments.allow_destroy, args.removal.allow_destroy].concat(),
    };
    let select = project::relative_to(&arguments.folder, arguments.target.as_deref(), &arguments.select);
    let project = project::load_at(arguments.moment, &select, console)?;
    let names = inventory_names(None, &select);
    let mut session = CommandSession::open(
        SessionRequest::new(project, &args.connection, &names)
            .with_removal(&removal)
            .with_no_deferred(args.no_deferred),
        console,
    )?;
    session.trace_to(args.timings.file)?;
    let page = Page::new(PagePath::of(args.report, args.reports), &names, &session);
    session.ask_before(args.step)?;
    let fresh = session.plan().await?;
    refuse_unknown_ids(&fresh, &removal.allow_destroy)?;
    let missing = saved.missing(&fresh);
    if !missing.is_empty() {
        let names = missing.join(", ");
        let help = "make the plan again; nothing was changed";
        return Err(Failure::refused(
            format!("the saved plan has targets that the inventory does not have: {names}"),
            help,
        ));
    }
    let plan = saved.bind(fresh).map_err(|e| Failure::refused(e.to_string(), "make the plan again"))?;
    let how = ApplyOptions { yes: args.yes, number, rollback: back(&names, &select), page, goes_back: false };
    carry_out(session, plan, how, console).await
}

/// The saved plan, when the target is one, and what it was made with.
fn saved_plan(args: &ApplyArgs, console: &Console) -> Result<Option<(SavedPlan, SavedArguments)>, Failure> {
    let Some(path) = args.target.as_deref().filter(|t| is_plan_file(t)) else { return Ok(None) };
    if args.select != SelectArgs::default() {
        let help = "leave them out, or plan again with them";
        return Err(Failure::usage("a saved plan holds its own choice of hosts, roles and variables", help));
    }
    let bad = |e: String| Failure::usage(e, "make the plan again: converge plan INVENTORY --out FILE");
    let saved = saved::load(Utf8Path::new(path)).map_err(|e| bad(e.to_string()))?;
    let arguments: SavedArguments =
        serde_json::from_value(saved.arguments.clone()).map_err(|e| bad(format!("{path}: {e}")))?;
    if console.human() {
        console.remark(
            render::Tone::Faint,
            "",
            &format!(
                "The saved plan of {}; only changes that still match it are applied:\n",
                saved.created()
            ),
        );
    }
    Ok(Some((saved, arguments)))
}

/// A plan file names its format at its start; an inventory does not.
pub fn is_plan_file(target: &str) -> bool {
    let mut start = Vec::new();
    let read = fs_err::File::open(target).and_then(|f| f.take(4096).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start);
    read.is_ok() && text.trim_start().starts_with('{') && text.contains("\"converge-plan\"")
}

/// The command that puts a run back.
pub(super) fn back(inventory: &str, select: &SelectArgs) -> String {
    let mut words = vec!["converge rollback".to_owned()];
    // The first inventory is an argument, the others are flags.
    words.extend(
        inventory.split(' ').enumerate().map(|(n, i)| if n == 0 { i.to_owned() } else { format!("-i {i}") }),
    );
    words.extend(select.playbook.iter().map(|p| format!("--playbook {}", quote(p.as_str()))));
    words.extend(select.limit.iter().map(|l| format!("--limit {}", quote(l))));
    words.join(" ")
}

/// The options of carrying out a plan.
pub struct ApplyOptions {
    /// No question is asked.
    pub yes: bool,
    /// The number of things that may be removed, as it was said.
    pub number: Option<usize>,
    /// The command that puts the run back.
    pub rollback: String,
    /// The page that is written.
    pub page: Page,
    /// It is a rollback: afterwards the checks of the roles that are still in place are run.
    pub goes_back: bool,
}

/// Shows a plan, asks, applies it, and says what became of it.
pub async fn carry_out(
    mut session: CommandSession,
    plan: FleetPlan,
    how: ApplyOptions,
    console: &Console,
) -> Result<u8, Failure> {
    let ApplyOptions { yes, number, rollback, page, goes_back } = how;
    let work = plan.planned().flat_map(|p| &p.items).filter(|i| i.is_pending()).count();
    let records = plan.planned().flat_map(|p| &p.items).any(Item::only_records);
    if console.human() {
        console.print(&render::plan(&plan, &console.look));
    }
    let cut_off = |p: &HostPlan| p.earlier_runs.cut_off.as_ref().is_some_and(|c| !c.busy);
    if work == 0 && !records && !plan.planned().any(cut_off) {
        let code = without_work(&plan);
        if !console.human() {
            show(&plan, console);
        }
        session.close().await;
        page.write(&plan, None, console);
        return Ok(code);
    }
    if work > 0 && !yes {
        ask(&plan, console)?;
    }
    confirm_prune(&plan, number, console)?;
    let planned = without_work(&plan);
    let shown = page.wanted().then(|| plan.clone());
    let report = session.apply(plan).await;
    let hosts = changed_hosts(&report).filter(|_| goes_back);
    let checks = match hosts {
        Some(hosts) => {
            session.look(async |engine: &Engine| engine.verify_what_is_in_place(&hosts).await).await?
        }
        None => Vec::new(),
    };
    let slowest = session.slowest(&report);
    session.close().await;
    if console.json {
        console.print_json(&render::apply_json(&report, &checks, &slowest));
    } else if console.junit {
        console.print_junit(&render::apply_junit(&report, &checks));
    } else {
        console.write("\n");
        console.print(&render::applied(&report, &rollback, &slowest));
        if checks.iter().any(|host| !host.checks.is_empty() || host.lost.is_some()) {
            let what = "\nChecks of the roles that are still in place, as the project has them now:\n";
            console.remark(render::Tone::Faint, "", what);
            console.print(&render::verified(&checks, console.look.verbose));
        }
    }
    if let Some(plan) = shown {
        page.write(&plan, Some(&report), console);
    }
    // Success of the rest does not hide parts that the plan could not do.
    Ok(if report.exit_code() == code::DONE { planned } else { report.exit_code() })
}

/// The hosts on which something was changed.
fn changed_hosts(report: &ApplyReport) -> Option<Vec<String>> {
    let changed = |host: &&HostApply| {
        host.lost.is_none() && host.items.iter().any(|(_, result)| *result == ItemResult::Changed)
    };
    let hosts: Vec<String> = report.hosts.iter().filter(changed).map(|host| host.host.clone()).collect();
    (!hosts.is_empty()).then_some(hosts)
}

/// The exit code of a plan, as far as it does not say that changes are pending.
fn without_work(plan: &FleetPlan) -> u8 {
    let refused = plan.planned().flat_map(|p| &p.items).any(|i| matches!(i.outcome, Outcome::Refused(_)));
    match plan.exit_code() {
        code::DONE | code::PENDING if refused => code::REFUSED,
        code::PENDING => code::DONE,
        other => other,
    }
}

/// Much that goes at once is not covered by a yes: its number must be said.
fn confirm_prune(plan: &FleetPlan, number: Option<usize>, console: &Console) -> Result<(), Failure> {
    let pruned = plan.pruned();
    let things = pruned.things;
    match number {
        Some(given) if pruned.is_covered_by(given) => return Ok(()),
        Some(given) => {
            let message = format!(
                "--prune={given} was given, and the plan removes or restores {}; nothing was changed",
                counted(things, "object")
            );
            return Err(Failure::refused(
                message,
                format!("look at the plan; write --prune={things} if it is right"),
            ));
        }
        None if !pruned.many => return Ok(()),
        None => {}
    }
    let much = format!(
        "{} would be removed or restored: more than 10, or more than 10 % of a host's",
        counted(things, "object")
    );
    if !console.human() || !prompt::somebody_is_there() {
        return Err(Failure::refused(
            format!("{much}; nothing was changed"),
            format!("look at the plan; write --prune={things} if it is right"),
        ));
    }
    if prompt::typed(&format!("{much}. Type their number:")) == things.to_string() {
        return Ok(());
    }
    Err(Failure::Message {
        code: code::REFUSED,
        message: "the number does not match; nothing was changed".to_owned(),
        help: None,
    })
}

fn ask(plan: &FleetPlan, console: &Console) -> Result<(), Failure> {
    let hosts = plan.planned().filter(|p| p.items.iter().any(Item::is_pending)).count();
    let lost: Vec<&TargetError> = plan
        .hosts
        .iter()
        .filter_map(|h| match &h.result {
            converge_engine::HostResult::Lost(lost) => Some(lost),
            converge_engine::HostResult::Planned(_) => None,
        })
        .collect();
    let rest = if lost.is_empty() { String::new() } else { format!(", without the {} left out", lost.len()) };
    let noun = if hosts == 1 { "host" } else { "hosts" };
    let agreement = Agreement {
        deed: "apply these changes",
        short: "apply",
        otherwise: "nothing was changed",
        question: &format!("\nApply these changes to {hosts} {noun}{rest}?"),
    };
    agreement.ask(console.human() && prompt::somebody_is_there())?;
    console.write("\n");
    Ok(())
}
