//! `converge plan`: what would change.

use crate::args::{ConnectionArgs, PlanArgs, RemovalArgs, SelectArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::page::{Page, PagePath};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use camino::Utf8PathBuf;
use converge_engine::{FleetPlan, saved};
use converge_model::Moment;
use converge_render as render;
use serde::{Deserialize, Serialize};

/// The command line as a saved plan keeps it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedArguments {
    /// The working folder of the command: paths are relative to it.
    pub folder: Utf8PathBuf,
    /// The inventory.
    pub target: Option<String>,
    /// The rest.
    pub select: SelectArgs,
    /// Whether it prunes orphaned objects.
    #[serde(default)]
    pub prune: bool,
    /// The objects that may be destroyed, by ID.
    #[serde(default)]
    pub allow_destroy: Vec<String>,
    /// The moment that `now()` and unseeded `random` use: the apply of the plan renders the same.
    pub moment: Moment,
}

pub async fn run(args: PlanArgs, console: &Console) -> Result<u8, Failure> {
    if args.out.is_some() {
        refuse_standard_input(&args.select)?;
    }
    let files = OutputFiles { report: args.report, timings: args.timings.file };
    let (plan, LoadedProject { playbook, moment }) =
        make(args.target.as_deref(), &args.select, &args.connection, &args.removal, files, console).await?;
    show(&plan, console);
    if let Some(path) = &args.out {
        let folder = std::env::current_dir().ok().and_then(|d| Utf8PathBuf::from_path_buf(d).ok());
        let folder = folder.ok_or_else(|| Failure::failed("the current folder's name is not UTF-8"))?;
        // Which playbook is the default one depends on the folder.
        let select = SelectArgs { playbook: Some(playbook), ..args.select };
        let arguments = SavedArguments {
            folder,
            target: args.target,
            select,
            prune: args.removal.prune.is_some(),
            allow_destroy: args.removal.allow_destroy,
            moment,
        };
        let arguments = serde_json::to_value(arguments).map_err(|e| Failure::failed(e.to_string()))?;
        saved::save(&plan, arguments, path).map_err(|e| Failure::Message {
            code: code::OUTPUT,
            message: format!("the plan could not be saved in {path}: {e}"),
            help: None,
        })?;
        console.remark(
            render::Tone::Faint,
            "",
            &format!("\nPlan saved in {path}. To apply it: converge apply {path}"),
        );
    }
    Ok(plan.exit_code())
}

/// A saved plan is made again from its arguments, and standard input cannot be read twice.
fn refuse_standard_input(select: &SelectArgs) -> Result<(), Failure> {
    match select.set.iter().find(|pair| pair.ends_with("=@-")) {
        None => Ok(()),
        Some(pair) => Err(Failure::usage(
            format!("`--set {pair}` reads standard input, which a saved plan cannot do again"),
            "write the value into a file that only you can read: --set NAME=@FILE",
        )),
    }
}

/// The properties of the loaded project that a saved plan records.
pub struct LoadedProject {
    playbook: Utf8PathBuf,
    moment: Moment,
}

/// The files that a look writes beside its output.
pub struct OutputFiles {
    /// The page for a browser.
    pub report: Option<Utf8PathBuf>,
    /// The trace.
    pub timings: Option<Utf8PathBuf>,
}

/// Loads the project and plans; writes a page about it where one is wanted.
pub async fn make(
    target: Option<&str>,
    select: &SelectArgs,
    connection: &ConnectionArgs,
    removal: &RemovalArgs,
    files: OutputFiles,
    console: &Console,
) -> Result<(FleetPlan, LoadedProject), Failure> {
    let project = project::load(target, select, console)?;
    let loaded =
        LoadedProject { playbook: project.playbook().path.clone(), moment: project.moment().clone() };
    let names = inventory_names(target, select);
    let mut session = CommandSession::open(
        SessionRequest::new(project, connection, &names).with_removal(removal),
        console,
    )?;
    session.trace_to(files.timings)?;
    let page = Page::new(PagePath::of(files.report, None), &names, &session);
    let plan = session.plan().await?;
    session.close().await;
    super::allowed_ids::refuse_unknown_ids(&plan, &removal.allow_destroy)?;
    page.write(&plan, None, console);
    Ok((plan, loaded))
}

/// The inventories as they were typed, for the records of runs.
pub fn inventory_names(target: Option<&str>, select: &SelectArgs) -> String {
    let all: Vec<&str> = target.into_iter().chain(select.inventories.iter().map(String::as_str)).collect();
    all.join(" ")
}

/// Prints a plan in the form that is asked for.
pub fn show(plan: &FleetPlan, console: &Console) {
    if console.json {
        console.print_json(&render::plan_json(plan));
    } else if console.junit {
        console.print_junit(&render::plan_junit(plan));
    } else {
        console.print(&render::plan(plan, &console.look));
    }
}
