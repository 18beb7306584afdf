//! Compares the results of a run with its plan.

use crate::cluster::ClusterFault;
use crate::report::Mismatch;
use converge_engine::{ApplyReport, FleetPlan, ItemClaims, ItemResult};
use converge_objects::{api_ref, is_of_api};
use converge_planner::{Item, Outcome as Planned, PlannedChange};
use converge_resource::{Change, Claim, ObjectId, State};
use std::collections::BTreeMap;

/// The result of an item, in words.
pub(crate) fn ended(result: &ItemResult) -> String {
    match result {
        ItemResult::Changed => "changed".to_owned(),
        ItemResult::Unchanged => "unchanged".to_owned(),
        ItemResult::Failed { message, output } if output.is_empty() => format!("failed: {message}"),
        ItemResult::Failed { message, output } => format!("failed: {message}\n{output}"),
        ItemResult::Refused { message } => format!("refused: {message}"),
        ItemResult::Skipped { because } => format!("skipped: {because}"),
        ItemResult::NotApplicable { why } => format!("skipped: {why}"),
        ItemResult::Stopped => "stopped".to_owned(),
        ItemResult::PutBack { message, .. } => format!("reverted: {message}"),
        ItemResult::Unknown { message } => format!("unknown: {message}"),
    }
}

/// The claims of the roles on a host or cluster before the first run.
#[derive(Clone, Debug, Default)]
pub(crate) struct InitialState {
    /// The claims of the items.
    pub claims: Vec<ItemClaims>,
    /// The states of the claimed objects at that time.
    pub states: BTreeMap<ObjectId, State>,
}

/// By host and cluster.
pub(crate) type InitialStates = BTreeMap<String, InitialState>;

/// Adds what items made that could not say beforehand what they claim: they waited for others. Of these it is known that the thing is there.
pub(crate) fn add_what_waited(start: &mut InitialStates, report: &ApplyReport) {
    for host in &report.hosts {
        let Some(own) = start.get_mut(&host.host) else { continue };
        for (item, _) in host.items.iter().filter(|(_, result)| *result == ItemResult::Changed) {
            if own.claims.iter().any(|known| known.address == item.address) {
                continue;
            }
            let changes = item.changes().iter().map(|planned| &planned.change);
            let made: Vec<&Change> =
                changes.filter(|change| change.from.is_absent() && !change.to.is_absent()).collect();
            for change in made.iter().filter(|change| is_of_api(&change.object)) {
                own.states.entry(change.object.clone()).or_insert_with(State::absent);
            }
            let claims = made.iter().map(|change| Claim::exclusive(change.object.clone(), "presence"));
            own.claims.push(ItemClaims {
                address: item.address.clone(),
                role: item.role.clone(),
                claims: claims.collect(),
                sensitive: item.sensitive,
                restart_on: Vec::new(),
            });
        }
    }
}

/// The IDs of objects that the run creates and that a rollback removes only if that is allowed.
pub(crate) fn made_whole(start: &InitialStates) -> Vec<String> {
    let absent = start.values().flat_map(|start| &start.states).filter(|(_, state)| state.is_absent());
    let whole = |object: &ObjectId| {
        api_ref(object).is_some_and(|r| ["Namespace", "CustomResourceDefinition"].contains(&r.kind.as_str()))
    };
    let made = absent.filter(|(object, _)| whole(object));
    made.map(|(object, _)| object.to_string()).collect()
}

/// The mismatch for differences of a cluster.
pub(crate) fn as_before(found: Result<Vec<String>, ClusterFault>, what: &str) -> Option<Mismatch> {
    match found {
        Ok(differ) if differ.is_empty() => None,
        Ok(differ) => {
            let found = format!("{} that differ", differ.len());
            Some(Mismatch::new(what).but("every object as before", found).lines(differ))
        }
        Err(fault) => {
            Some(Mismatch::new("the objects of the cluster cannot be compared").lines([fault.to_string()]))
        }
    }
}

/// The mismatches of an apply.
pub(crate) fn applied(report: &ApplyReport, plan: &FleetPlan) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for host in &report.hosts {
        for (item, result) in host.items.iter().filter(|(_, r)| r.is_bad()) {
            wrong.push(
                Mismatch::new(format!("`{}` on {}", item.address, host.host))
                    .lines(ended(result).lines().map(str::to_owned))
                    .plan(plan, &[&item.address]),
            );
        }
        // A live check that does not hold is a matter of its own gate.
        let resources: Vec<String> = plan
            .planned()
            .filter(|p| p.host == host.host)
            .flat_map(|p| &p.items)
            .map(|i| format!("{}: ", i.address))
            .collect();
        let is_rollback = plan.purpose != converge_engine::Purpose::Converge;
        let own = |d: &&String| is_rollback || resources.iter().any(|r| d.starts_with(r.as_str()));
        for difference in host.differences.iter().filter(own) {
            wrong.push(
                Mismatch::new(format!("{} was read again and differs from its declaration", host.host))
                    .lines([difference.clone()]),
            );
        }
        if let Some(lost) = &host.lost {
            wrong.push(Mismatch::new(lost.to_string()));
        }
    }
    wrong
}

/// Objects of the API that deferred items may change: a later item's own fields of them are known, and the whole object is not.
#[derive(Default)]
struct OpenObjects {
    named: Vec<ObjectId>,
    /// An item may change any.
    any: bool,
}

impl OpenObjects {
    fn add(&mut self, item: &Item) {
        if let Planned::Deferred { objects, .. } = &item.outcome {
            self.any |= objects.is_empty();
            self.named.extend(objects.iter().cloned());
        }
    }

    fn holds(&self, object: &ObjectId) -> bool {
        is_of_api(object) && (self.any || self.named.iter().any(|open| open.covers(object)))
    }
}

/// The differences between plan and apply.
pub(crate) fn as_planned(plan: &FleetPlan, report: &ApplyReport) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for host_plan in plan.planned() {
        let done: BTreeMap<&str, (&Item, &ItemResult)> = report
            .hosts
            .iter()
            .filter(|h| h.host == host_plan.host)
            .flat_map(|h| &h.items)
            .map(|(item, result)| (item.address.as_str(), (item, result)))
            .collect();
        let mut open = OpenObjects::default();
        for item in &host_plan.items {
            let did = done.get(item.address.as_str());
            open.add(item);
            let changes = |item: &Item| -> BTreeMap<String, String> {
                let all = item.changes().iter();
                let to = |c: &PlannedChange| match open.holds(&c.change.object) {
                    true => "its fields".to_owned(),
                    false => c.change.to.line().to_owned(),
                };
                all.map(|c| (c.change.object.to_string(), to(c))).collect()
            };
            let (expected, found) = match (&item.outcome, did) {
                (Planned::Changed(_), None) => ("it changes".to_owned(), "it was left alone".to_owned()),
                (Planned::Changed(_), Some((_, ItemResult::Unchanged))) => {
                    ("it changes".to_owned(), "it was unchanged".to_owned())
                }
                (Planned::Changed(_), Some((applied, ItemResult::Changed))) => {
                    let (reply, did) = (changes(item), changes(applied));
                    if reply == did {
                        continue;
                    }
                    let list = |all: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
                        let own = all.iter().filter(|(object, to)| other.get(*object) != Some(to));
                        let own: Vec<String> = own.map(|(object, to)| format!("{object} → {to}")).collect();
                        if own.is_empty() { "nothing more".to_owned() } else { own.join("\n") }
                    };
                    (list(&reply, &did), list(&did, &reply))
                }
                (
                    Planned::Unchanged | Planned::Adopt(_) | Planned::Forget(_),
                    Some((_, ItemResult::Changed)),
                ) => ("it is unchanged".to_owned(), "it was changed".to_owned()),
                (Planned::Deferred { objects, .. }, Some((applied, ItemResult::Changed))) => {
                    let more: Vec<String> = applied
                        .changes()
                        .iter()
                        .map(|c| &c.change.object)
                        .filter(|o| !objects.is_empty() && !objects.iter().any(|may| may.covers(o)))
                        .map(ToString::to_string)
                        .collect();
                    if more.is_empty() {
                        continue;
                    }
                    (
                        "it changes only what it was deferred for".to_owned(),
                        format!("it changed {}", more.join(", ")),
                    )
                }
                _ => continue,
            };
            wrong.push(
                Mismatch::new(format!("`{}` on {}: plan and apply differ", item.address, host_plan.host))
                    .but(format!("as the plan said: {expected}"), format!("as the apply did: {found}"))
                    .plan(plan, &[&item.address]),
            );
        }
    }
    wrong
}
