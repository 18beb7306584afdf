//! `converge snapshots`: what can be rolled back to.

use super::plan::inventory_names;
use crate::args::ReadArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Engine, TargetError};
use converge_render as render;

pub async fn run(args: ReadArgs, console: &Console) -> Result<u8, Failure> {
    let project = project::load(args.target.as_deref(), &args.select, console)?;
    let names = inventory_names(args.target.as_deref(), &args.select);
    let mut session = CommandSession::open(SessionRequest::new(project, &args.connection, &names), console)?;
    session.trace_to(args.timings.file)?;
    let found = session.look(async |engine: &Engine| engine.snapshots().await).await?;
    session.close().await;
    if console.json {
        console.print_json(&render::snapshots_json(&found));
    } else {
        console.print(&render::snapshots(&found));
    }
    Ok(lost_code(found.iter().filter_map(|h| h.lost.as_ref())))
}

/// 4 when a host was refused, 3 when one was unreachable, else 0.
pub fn lost_code<'a>(lost: impl Iterator<Item = &'a TargetError>) -> u8 {
    let one = |l: &TargetError| if l.is_unreachable() { code::UNREACHABLE } else { code::REFUSED };
    lost.map(one).max().unwrap_or(code::DONE)
}
