//! Contents that only the diff of a change to a saved state needs.

use crate::TargetError;
use crate::connect::target::Target;
use converge_host::records as host;
use converge_planner::{HostPlan, Item, Knowledge};
use converge_resource::{Answer, Probe};
use std::collections::BTreeSet;

/// Reads the present and the saved content of files for the diff.
pub(crate) async fn contents_for_diffs(
    target: &Target,
    plan: &mut HostPlan,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let mut probes = BTreeSet::new();
    for planned in plan.items.iter().filter(|i| !i.sensitive).flat_map(Item::changes) {
        let change = &planned.change;
        let Some(object) = converge_objects::object(&change.object.kind) else { continue };
        let (from, to) = (object.content(&change.from), object.content(&change.to));
        if change.object.kind != "path" || from == to {
            continue;
        }
        probes.extend(from.map(|_| Probe::Content(change.object.key.clone())));
        probes.extend(to.map(|digest| Probe::Content(host::blob_path(&digest))));
    }
    target.look(&probes, known).await?;
    for probe in &probes {
        if let Some(Answer::Content(Some(content))) = known.answer(probe) {
            plan.contents.insert(content.digest().clone(), content.clone());
        }
    }
    Ok(())
}
