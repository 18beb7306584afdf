//! `converge state`: the managed objects of each target.

use super::chosen_objects::narrow;
use super::plan::inventory_names;
use super::snapshots::lost_code;
use super::{adopt, forget, move_objects};
use crate::args::{ReadArgs, StateAction, StateArgs, StateReadArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Engine, HostManaged, ManagedDetail, Present};
use converge_render as render;

pub async fn run(args: StateArgs, console: &Console) -> Result<u8, Failure> {
    let (read, detail) = match args.action {
        StateAction::List(read) => (read, render::Detail::None),
        StateAction::Show(read) => (read, render::Detail::States),
        StateAction::Diff(read) => (read, render::Detail::Differences),
        StateAction::Forget(args) => return forget::run(args, console).await,
        StateAction::Adopt(args) => return adopt::run(args, console).await,
        StateAction::Move(args) => return move_objects::run(args, console).await,
    };
    let StateReadArgs { reading: ReadArgs { target, select, connection, timings }, resource } = read;
    let project = project::load(target.as_deref(), &select, console)?;
    let names = inventory_names(target.as_deref(), &select);
    let mut session = CommandSession::open(SessionRequest::new(project, &connection, &names), console)?;
    session.trace_to(timings.file)?;
    let look = match detail == render::Detail::Differences {
        true => ManagedDetail::Compared,
        false => ManagedDetail::Recorded,
    };
    let mut found = session.look(async |engine: &Engine| engine.managed_objects(look).await).await?;
    session.close().await;
    if !resource.is_empty() {
        narrow(&mut found, &resource)?;
    }
    if console.json {
        console.print_json(&render::managed_json(&found));
    } else {
        console.print(&render::managed(&found, detail));
    }
    let differs =
        |host: &HostManaged| host.objects.iter().any(|o| !matches!(o.present, None | Some(Present::AsLeft)));
    match lost_code(found.iter().filter_map(|h| h.lost.as_ref())) {
        code::DONE if found.iter().any(differs) => Ok(code::PENDING),
        lost => Ok(lost),
    }
}
