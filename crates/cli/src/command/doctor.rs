//! `converge doctor`: why a host cannot be reached or worked on.

use super::plan::inventory_names;
use crate::args::DoctorArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Engine, Health};
use converge_render as render;

pub async fn run(args: DoctorArgs, console: &Console) -> Result<u8, Failure> {
    let (select, connection) = args.hosts.split();
    let project = project::load_inventory(args.target.as_deref(), &select, console)?;
    let names = inventory_names(args.target.as_deref(), &select);
    let mut session = CommandSession::begin(SessionRequest::new(project, &connection, &names), console)?;
    let found = session.look(async |engine: &Engine| engine.doctor().await).await?;
    session.close().await;
    if console.json {
        console.print_json(&render::doctor_json(&found));
    } else {
        console.print(&render::doctor(&found, console.look.verbose));
    }
    let ill = found.iter().filter(|host| host.health() == Health::Ill);
    Ok(ill
        .map(|host| if host.unreachable { code::UNREACHABLE } else { code::FAILED })
        .max()
        .unwrap_or(code::DONE))
}
