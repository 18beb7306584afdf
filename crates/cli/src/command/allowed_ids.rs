//! The IDs that `--allow-destroy` takes.

use crate::failure::Failure;
use converge_engine::FleetPlan;
use converge_planner::{Item, Outcome, PlannedChange};
use converge_resource::Reversibility;
use std::collections::BTreeSet;

/// Refuses IDs to destroy that name nothing in the plan: a misspelt one would pass without a word.
pub(super) fn refuse_unknown_ids(plan: &FleetPlan, allowed: &[String]) -> Result<(), Failure> {
    let Some(known) = plan.object_ids().filter(|known| !known.is_empty()) else { return Ok(()) };
    let wanted: BTreeSet<String> =
        plan.planned().flat_map(|host| &host.items).flat_map(ids_to_allow).collect();
    let is_known = |id: &String| {
        // An object in a directory of the plan may be removed with the directory.
        let inside =
            |known: &String| id.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('/'));
        known.contains(id) || wanted.contains(id) || known.iter().any(inside)
    };
    let unknown: Vec<String> =
        allowed.iter().filter(|id| !is_known(id)).map(|id| format!("`{id}`")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let help = match wanted.len() {
        0 => "nothing in this plan needs --allow-destroy: leave it out".to_owned(),
        _ => format!("the plan needs: {}", wanted.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::usage(
        format!("--allow-destroy names IDs that are not in the plan: {}", unknown.join(", ")),
        help,
    ))
}

/// The IDs that an item says it wants to be allowed, and those that were allowed.
fn ids_to_allow(item: &Item) -> Vec<String> {
    let refused = match &item.outcome {
        Outcome::Refused(why) => Some(why),
        _ => None,
    };
    let named = item.notes.iter().chain(refused).flat_map(|text| text.split("--allow-destroy ").skip(1));
    let named = named.filter_map(|rest| rest.split('`').next()).map(str::to_owned);
    let irreversible = |planned: &&PlannedChange| {
        matches!(planned.reversibility, Reversibility::Irreversible(_))
            && !converge_objects::is_action(&planned.change.object)
    };
    named
        .chain(item.changes().iter().filter(irreversible).map(|planned| planned.change.object.to_string()))
        .collect()
}
