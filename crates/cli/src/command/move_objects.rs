//! `converge state move`: managed objects are another role's or resource's.

use super::amending::AmendmentText;
use super::plan::inventory_names;
use crate::args::{AmendArgs, ReadArgs, StateMoveArgs};
use crate::console::Console;
use crate::failure::Failure;
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Amendment, Engine, HostManaged, ManagedDetail, Renaming, not_to_move};
use converge_model::Project;
use converge_render as render;
use converge_resource::role_of;

pub async fn run(args: StateMoveArgs, console: &Console) -> Result<u8, Failure> {
    let StateMoveArgs {
        reading: ReadArgs { target, mut select, connection, timings },
        names,
        amend: AmendArgs { host, yes },
    } = args;
    let renaming = renaming(&names)?;
    select.limit = host.or(select.limit);
    let project = project::load(target.as_deref(), &select, console)?;
    check_new_name(&project, &renaming)?;
    let inventories = inventory_names(target.as_deref(), &select);
    let mut session = CommandSession::open(SessionRequest::new(project, &connection, &inventories), console)?;
    session.trace_to(timings.file)?;
    let mut found =
        session.look(async |engine: &Engine| engine.managed_objects(ManagedDetail::Recorded).await).await?;
    narrow(&mut found, &renaming)?;
    if console.human() {
        console.print(&render::to_move(&found, &renaming));
    }
    let amending = AmendmentText {
        verb: "move",
        question: &|objects| format!("\nMove {objects} to {}? The hosts stay as they are.", renaming.to),
        in_doubt: "some hosts may have these objects under the new name",
        yes,
    };
    let of = |_: &HostManaged| Amendment::Rename(renaming.clone());
    let written = |host: &mut HostManaged, _: Vec<String>, _: &str| {
        for thing in &mut host.objects {
            thing.item = renaming.of(&thing.item).unwrap_or_default();
            thing.role = role_of(&thing.item).to_owned();
        }
    };
    amending.run(session, found, of, written, console).await
}

/// The old name and the new one.
fn renaming(names: &[String]) -> Result<Renaming, Failure> {
    let help = "converge state move INVENTORY OLD NEW, as `web nginx` for two roles or `web/site nginx/page` for two resources";
    let [from, to] = names else {
        return Err(Failure::usage("two names are needed: OLD and NEW", help));
    };
    let is_resource = |name: &str| name.contains('/');
    // The name of a resource may have a slash in it: `web/file /etc/motd`.
    let is_name = |name: &&String| match name.split_once('/') {
        Some((role, resource)) => !role.is_empty() && !resource.is_empty(),
        None => !name.is_empty(),
    };
    if let Some(bad) = names.iter().find(|name| !is_name(name)) {
        return Err(Failure::usage(format!("`{bad}` is neither a role nor a resource ROLE/ID"), help));
    }
    if is_resource(from) != is_resource(to) {
        return Err(Failure::usage(
            format!("`{from}` and `{to}` are not two roles, nor two resources"),
            help,
        ));
    }
    if from == to {
        return Err(Failure::usage(format!("`{from}` has this name already"), help));
    }
    Ok(Renaming { from: from.clone(), to: to.clone() })
}

/// Objects of a role that the playbook does not have would be orphaned.
fn check_new_name(project: &Project, renaming: &Renaming) -> Result<(), Failure> {
    let role = role_of(&renaming.to);
    if project.roles().any(|known| known.name == role) {
        return Ok(());
    }
    Err(Failure::usage(
        format!("the playbook has no role `{role}`"),
        "rename the role or move the resource in the files first: what is moved to a role that is not there would be orphaned",
    ))
}

/// An object that is managed under a name which a moved one would have.
fn name_in_use(found: &[HostManaged], renaming: &Renaming) -> Option<Failure> {
    let of_host = |host: &HostManaged| {
        let own = || host.objects.iter().filter(|thing| !thing.is_of_others);
        let stays = |name: &str| own().find(|t| t.item == name && renaming.of(&t.item).is_none());
        own().find_map(|thing| {
            let name = renaming.of(&thing.item)?;
            let (moved, used) = (&thing.object, &stays(&name)?.object);
            Some(Failure::refused(
                format!(
                    "`{name}` is in use on {}: it manages {used}, and {moved} ({}) would have the same name; nothing was moved",
                    host.host, thing.item
                ),
                "give the resource that is moved another name, or move the other one away first: `converge state list` names both",
            ))
        })
    };
    found.iter().find_map(of_host)
}

/// Leaves only what is moved.
fn narrow(found: &mut [HostManaged], renaming: &Renaming) -> Result<(), Failure> {
    if let Some(failure) = name_in_use(found, renaming) {
        return Err(failure);
    }
    for host in &mut *found {
        host.objects.retain(|thing| !thing.is_of_others && renaming.of(&thing.item).is_some());
    }
    let mut all = found.iter().flat_map(|host| host.objects.iter().map(move |thing| (&host.host, thing)));
    if let Some((host, thing, why)) =
        all.find_map(|(host, thing)| Some((host, thing, not_to_move(&thing.object)?)))
    {
        return Err(Failure::refused(
            format!("{} of {host} ({}) cannot be moved: {why}; nothing was moved", thing.object, thing.item),
            "keep the name of the role, or of the resource",
        ));
    }
    if found.iter().all(|host| host.objects.is_empty() && host.lost.is_none()) {
        return Err(Failure::usage(
            format!("no object is managed by `{}` here", renaming.from),
            "`converge state list` names the resources that manage something, each as ROLE/ID",
        ));
    }
    Ok(())
}
