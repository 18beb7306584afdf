//! `converge state forget`: objects are managed no more.

use super::amending::AmendmentText;
use super::chosen_objects::narrow_to_resources;
use super::plan::inventory_names;
use crate::args::{AmendArgs, ReadArgs, StateForgetArgs, StateReadArgs};
use crate::console::Console;
use crate::failure::Failure;
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Amendment, Engine, HostManaged, ManagedDetail, not_to_forget};
use converge_render as render;

pub async fn run(args: StateForgetArgs, console: &Console) -> Result<u8, Failure> {
    let StateForgetArgs {
        read: StateReadArgs { reading, resource },
        resources,
        amend: AmendArgs { host, yes },
    } = args;
    let ReadArgs { target, mut select, connection, timings } = reading;
    select.limit = host.or(select.limit);
    let wanted: Vec<String> = resource.into_iter().chain(resources).collect();
    if wanted.is_empty() {
        return Err(Failure::usage(
            "no resource or object is named",
            "converge state forget INVENTORY ROLE/ID…: `converge state list` names the resources and the objects",
        ));
    }
    let project = project::load(target.as_deref(), &select, console)?;
    let names = inventory_names(target.as_deref(), &select);
    let mut session = CommandSession::open(SessionRequest::new(project, &connection, &names), console)?;
    session.trace_to(timings.file)?;
    let mut found =
        session.look(async |engine: &Engine| engine.managed_objects(ManagedDetail::Recorded).await).await?;
    narrow_to_resources(&mut found, &wanted)?;
    refuse_what_cannot_be_forgotten(&found)?;
    found.retain(|host| host.lost.is_some() || !host.objects.is_empty());
    if console.human() {
        console.print(&render::managed(&found, render::Detail::None));
    }
    let amending = AmendmentText {
        verb: "forget",
        question: &|objects| {
            format!("\nForget {objects}? No rollback brings that back; the hosts stay as they are.")
        },
        in_doubt: "some hosts may have forgotten these objects",
        yes,
    };
    let of = |host: &HostManaged| {
        Amendment::Forget(host.objects.iter().map(|thing| thing.object.clone()).collect())
    };
    let written = |host: &mut HostManaged, still: Vec<String>, _: &str| {
        still.iter().for_each(|remark| console.remark(render::Tone::Warn, "warning: ", remark));
        host.remarks.extend(still);
    };
    amending.run(session, found, of, written, console).await
}

/// Refuses objects that others stand on or beside.
fn refuse_what_cannot_be_forgotten(found: &[HostManaged]) -> Result<(), Failure> {
    let mut all = found.iter().flat_map(|host| host.objects.iter().map(move |o| (&host.host, o)));
    let Some((host, thing, why)) =
        all.find_map(|(host, thing)| Some((host, thing, not_to_forget(&thing.object)?)))
    else {
        return Ok(());
    };
    Err(Failure::refused(
        format!(
            "{} of {host} ({}) cannot be forgotten: {why}; nothing was forgotten",
            thing.object, thing.item
        ),
        "leave it in the role, or take it out of the role and run `converge apply --prune`",
    ))
}
