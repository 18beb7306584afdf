//! `converge state forget`: objects are managed no more.

use super::chosen_objects::narrow_to_resources;
use super::plan::inventory_names;
use super::snapshots::lost_code;
use crate::args::{Reading, StateForget, StateRead};
use crate::console::Console;
use crate::failure::Failure;
use crate::project;
use crate::prompt::{self, Agreement};
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Amendment, Engine, HostManaged, ManagedDetail, not_to_forget};
use converge_render as render;
use converge_resource::{ObjectId, counted};
use std::collections::BTreeSet;

pub async fn run(args: StateForget, console: &Console) -> Result<u8, Failure> {
    let StateForget { read: StateRead { reading, resource }, resources, host, yes } = args;
    let Reading { target, mut select, connection, timings } = reading;
    select.limit = host.or(select.limit);
    let wanted: Vec<String> = resource.into_iter().chain(resources).collect();
    if wanted.is_empty() {
        return Err(Failure::usage(
            "it is not said what to forget",
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
    let objects: usize = found.iter().map(|host| host.objects.len()).sum();
    if console.human() {
        console.print(&render::managed(&found, render::Detail::None));
    }
    if objects > 0 {
        ask(objects, yes, console)?;
        forget(&mut session, &mut found, console).await?;
    }
    session.close().await;
    if console.json {
        console.print_json(&render::managed_json(&found));
    }
    Ok(lost_code(found.iter().filter_map(|h| h.lost.as_ref())))
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

/// Forgets the objects; a host where that failed is told as lost, with none.
async fn forget(
    session: &mut CommandSession,
    found: &mut [HostManaged],
    console: &Console,
) -> Result<(), Failure> {
    let own = |host: &HostManaged| -> BTreeSet<ObjectId> {
        host.objects.iter().map(|thing| thing.object.clone()).collect()
    };
    let chosen = found.iter().filter(|host| host.lost.is_none());
    let chosen = chosen.map(|host| (host.host.clone(), Amendment::Forget(own(host)))).collect();
    let cut = "interrupted: some hosts may have forgotten these objects, `converge state list` tells";
    let done = session.look_until(cut, async |engine: &Engine| engine.amend(chosen).await).await?;
    for (name, result) in done.targets {
        let Some(host) = found.iter_mut().find(|host| host.host == name) else { continue };
        match result {
            Ok(still) => {
                still.iter().for_each(|remark| console.remark(render::Tone::Warn, "warning: ", remark));
                host.remarks.extend(still);
            }
            Err(lost) => {
                host.objects.clear();
                host.lost = Some(lost);
            }
        }
    }
    if console.human() {
        console.write("\n");
        console.print(&render::forgotten(found, &done.run));
    }
    Ok(())
}

fn ask(objects: usize, yes: bool, console: &Console) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let what = counted(objects, "object");
    let agreement = Agreement {
        deed: "forget these objects",
        short: "forget them",
        otherwise: "nothing was forgotten",
        question: &format!("\nForget {what}? No rollback brings that back; the hosts stay as they are."),
    };
    agreement.ask(console.human() && prompt::somebody_is_there())
}
