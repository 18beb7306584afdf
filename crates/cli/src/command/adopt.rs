//! `converge state adopt`: objects that are as declared are managed, as they are.

use super::amending::AmendmentText;
use super::plan::inventory_names;
use crate::args::{AmendArgs, ReadArgs, StateAdoptArgs};
use crate::console::Console;
use crate::failure::Failure;
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{
    Adoption, Amendment, Engine, FleetPlan, HostManaged, ManagedDetail, ManagedObject, ProjectName,
    not_to_forget,
};
use converge_planner::{HostPlan, Item, Outcome};
use converge_render as render;
use std::collections::BTreeSet;

pub async fn run(args: StateAdoptArgs, console: &Console) -> Result<u8, Failure> {
    let StateAdoptArgs {
        reading: ReadArgs { target, mut select, connection, timings },
        resources,
        amend: AmendArgs { host, yes },
    } = args;
    if resources.is_empty() {
        return Err(Failure::usage(
            "no resource is named",
            "converge state adopt INVENTORY ROLE/ID…: `converge plan -v` names the resources",
        ));
    }
    select.limit = host.or(select.limit);
    let project = project::load(target.as_deref(), &select, console)?;
    let names = inventory_names(target.as_deref(), &select);
    let mut session = CommandSession::open(SessionRequest::new(project, &connection, &names), console)?;
    session.trace_to(timings.file)?;
    let plan = session.plan().await?;
    check(&plan, &resources)?;
    let mut found =
        session.look(async |engine: &Engine| engine.managed_objects(ManagedDetail::Recorded).await).await?;
    found.iter_mut().for_each(|host| adoptable(host, &plan, &resources));
    found.retain(|host| host.lost.is_some() || !host.objects.is_empty());
    if console.human() {
        console.print(&render::to_adopt(&found));
    }
    let amending = AmendmentText {
        verb: "adopt",
        question: &|objects| format!("\nAdopt {objects}? The hosts stay as they are."),
        in_doubt: "some hosts may have adopted these objects",
        yes,
    };
    let of = |host: &HostManaged| Amendment::Adopt(host.objects.iter().map(adoption).collect());
    let written = |host: &mut HostManaged, _: Vec<String>, run: &str| {
        host.objects.iter_mut().for_each(|thing| run.clone_into(&mut thing.run));
    };
    amending.run(session, found, of, written, console).await
}

/// Whether the item is of one of these resources.
fn is_chosen(item: &Item, resources: &[String]) -> bool {
    resources.iter().any(|name| is_of(item, name))
}

fn is_of(item: &Item, resource: &str) -> bool {
    item.address.strip_prefix(resource).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// All resources are declared, for hosts, and none of them has anything to change.
fn check(plan: &FleetPlan, resources: &[String]) -> Result<(), Failure> {
    let items = || plan.planned().flat_map(|host| host.items.iter().map(move |item| (host, item)));
    let is_whole_plan = plan.planned().count() == plan.hosts.len();
    if let Some(unknown) = resources.iter().find(|name| !items().any(|(_, item)| is_of(item, name)))
        && is_whole_plan
    {
        return Err(Failure::usage(
            format!("no resource `{unknown}` is declared here"),
            "`converge plan -v` names all resources, each as ROLE/ID",
        ));
    }
    for (host, item) in items().filter(|(_, item)| is_chosen(item, resources)) {
        if plan.clusters.contains(&host.host) {
            return Err(Failure::usage(
                format!("{} is a resource of a cluster", item.address),
                "in a cluster an apply takes over the fields that it declares, also where their values are right: run `converge apply`",
            ));
        }
        let differs = match &item.outcome {
            Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) | Outcome::Skipped(_) => continue,
            Outcome::Changed(_) => "is not as declared",
            Outcome::Deferred { .. } => "depends on a change that is still to be made",
            Outcome::Failed(_) | Outcome::Refused(_) => "has an error in the plan",
        };
        return Err(Failure::refused(
            format!("{} of {} {differs}: nothing was adopted", item.address, host.host),
            "`converge plan` shows it; `converge apply` makes it as declared, and manages what it changes. Adopt the rest after that",
        ));
    }
    Ok(())
}

/// Leaves in the place of what is managed what is to be: the objects of the chosen resources that are there and are not managed yet.
fn adoptable(host: &mut HostManaged, plan: &FleetPlan, resources: &[String]) {
    let managed = std::mem::take(&mut host.objects);
    let managed = managed.into_iter().filter(|thing| !thing.is_of_others).map(|thing| thing.object);
    let mut known: BTreeSet<_> = managed.collect();
    let Some(plan) = plan.planned().find(|plan| plan.host == host.host) else { return };
    let is_right = |item: &&Item| matches!(item.outcome, Outcome::Unchanged | Outcome::Adopt(_));
    for item in plan.items.iter().filter(|item| is_chosen(item, resources)).filter(is_right) {
        for thing in objects(item, plan) {
            if known.insert(thing.object.clone()) {
                host.objects.push(thing);
            }
        }
    }
}

/// The objects of an item that are there. A command is an action and no state; what stands on others, or among them, has its own rules.
fn objects<'a>(item: &'a Item, plan: &'a HostPlan) -> impl Iterator<Item = ManagedObject> + 'a {
    let claimed = plan.base.iter().filter(|(object, _)| item.claims.contains(object));
    let there = claimed.filter(|(object, state)| {
        !state.is_absent() && !converge_objects::is_action(object) && not_to_forget(object).is_none()
    });
    there.map(|(object, state)| ManagedObject {
        object: object.clone(),
        role: item.role.clone(),
        item: item.address.clone(),
        since: String::new(),
        run: String::new(),
        scope: ProjectName::default(),
        is_of_others: false,
        by_product: false,
        sensitive: item.sensitive,
        original: state.clone(),
        left: state.clone(),
        present: None,
    })
}

/// An object as the records will have it.
fn adoption(thing: &ManagedObject) -> Adoption {
    Adoption {
        object: thing.object.clone(),
        state: thing.original.clone(),
        item: thing.item.clone(),
        sensitive: thing.sensitive,
        real_dir: None,
    }
}
