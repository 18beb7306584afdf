//! Reverts that the API server of a cluster would refuse: known before the first change, so that nothing waits for them in vain.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::Group;
use crate::revert::undo::Verdict;
use converge_planner::Knowledge;
use converge_resource::{Answer, ApiProbe, ApiRef, Change, Probe, State};
use std::collections::BTreeSet;

/// Kinds that decide what the server takes. Where the rollback itself changes one of them, the server cannot say yet what it will take then.
const DECIDE: [&str; 9] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ResourceQuota",
    "LimitRange",
    "CustomResourceDefinition",
];

/// The object that a verdict writes, with the change.
fn written(verdict: &Verdict) -> Option<(ApiRef, &Change)> {
    let Verdict::Back(change) = verdict else { return None };
    let object = ApiRef::from_key(&change.object.key).filter(|_| change.object.kind == "k8s")?;
    Some((object, change))
}

/// The question whether the server would take it. The values of a Secret are not known here.
fn probe(verdict: &Verdict, known: &Knowledge) -> Option<Probe> {
    let (object, change) = written(verdict).filter(|(object, _)| object.kind != "Secret")?;
    let text = |state: &State| {
        let digest = converge_objects::object("k8s")?.content(state)?;
        Some(known.content(&digest)?.text()?.to_owned())
    };
    let from = if change.from.is_absent() { None } else { Some(text(&change.from)?) };
    Some(Probe::Api(ApiProbe::Back { object, from, to: text(&change.to)? }))
}

/// Lets the objects stay that the server would not take as they were.
pub(crate) async fn leave_what_is_refused(
    target: &Target,
    groups: &mut [Group],
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let verdicts = || groups.iter().flat_map(|group| &group.members).map(|judged| &judged.verdict);
    if verdicts().filter_map(written).any(|(object, _)| DECIDE.contains(&object.kind.as_str())) {
        return Ok(());
    }
    let probes: BTreeSet<Probe> = verdicts().filter_map(|verdict| probe(verdict, known)).collect();
    if probes.is_empty() {
        return Ok(());
    }
    target.look(&probes, known).await?;
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        let Some(probe) = probe(&judged.verdict, known) else { continue };
        let Some(Answer::Api(answer)) = known.answer(&probe) else { continue };
        if let Some(why) = answer.get("invalid").and_then(serde_json::Value::as_str) {
            judged.verdict = Verdict::Stays(format!("the API server would refuse it: {why}"));
        }
    }
    Ok(())
}
