//! `converge verify`: the live checks of the roles.

use super::plan::inventory_names;
use super::snapshots::lost_code;
use crate::args::ReadArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::Engine;
use converge_render as render;

pub async fn run(args: ReadArgs, console: &Console) -> Result<u8, Failure> {
    let project = project::load(args.target.as_deref(), &args.select, console)?;
    let names = inventory_names(args.target.as_deref(), &args.select);
    let mut session = CommandSession::open(SessionRequest::new(project, &args.connection, &names), console)?;
    session.trace_to(args.timings.file)?;
    let found = session.look(async |engine: &Engine| engine.verify().await).await?;
    session.close().await;
    if console.json {
        console.print_json(&render::verify_json(&found));
    } else if console.junit {
        console.print_junit(&render::verify_junit(&found));
    } else {
        console.print(&render::verified(&found, console.look.verbose));
    }
    let lost = lost_code(found.iter().filter_map(|h| h.lost.as_ref()));
    let holds = found.iter().all(|h| h.checks.iter().all(|(_, why)| why.is_none()));
    Ok(if lost == code::DONE && !holds { code::PENDING } else { lost })
}
