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

/// The question whether the server would take it. The values of a Secret are not known here: of one that comes back it is asked whether its place is there.
fn probe(verdict: &Verdict, known: &Knowledge) -> Option<Probe> {
    if let Some((object, _)) = written(verdict).filter(|(_, change)| change.to.is_absent()) {
        return Some(Probe::Api(ApiProbe::Gone(object)));
    }
    let asked = |(object, change): &(ApiRef, &Change)| !is_secret(object) || change.from.is_absent();
    let (object, change) = written(verdict).filter(asked)?;
    let text = |state: &State| {
        let digest = converge_objects::object("k8s")?.content(state)?;
        Some(known.content(&digest)?.text()?.to_owned())
    };
    let from = if change.from.is_absent() { None } else { Some(text(&change.from)?) };
    Some(Probe::Api(ApiProbe::Back { object, from, to: text(&change.to)? }))
}

/// Whether it writes a Secret: the server was asked without the values.
fn has_unknown_values(verdict: &Verdict) -> bool {
    written(verdict).is_some_and(|(object, change)| is_secret(&object) && !change.to.is_absent())
}

fn is_secret(object: &ApiRef) -> bool {
    object.kind == "Secret"
}

/// Lets the objects stay that the server would not take as they were.
pub(crate) async fn leave_what_is_refused(
    target: &Target,
    groups: &mut [Group],
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let verdicts = || groups.iter().flat_map(|group| &group.members).map(|judged| &judged.verdict);
    let decides = verdicts().filter_map(written).any(|(object, _)| DECIDE.contains(&object.kind.as_str()));
    let brought = Brought::by(verdicts());
    let probes: BTreeSet<Probe> = verdicts().filter_map(|verdict| probe(verdict, known)).collect();
    if probes.is_empty() {
        return Ok(());
    }
    target.look(&probes, known).await?;
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        let Some(probe) = probe(&judged.verdict, known) else { continue };
        let Some(Answer::Api(answer)) = known.answer(&probe) else { continue };
        let word = |key: &str| answer.get(key).and_then(serde_json::Value::as_str);
        let why = match (word("no_namespace"), word("no_kind"), word("invalid")) {
            (Some(name), ..) if !brought.namespaces.contains(name) => {
                format!("its namespace {name} is not there: make it, then roll back again")
            }
            (_, Some(kind), _) if !brought.kinds => {
                format!("the API server has no kind {kind}: bring its definition, then roll back again")
            }
            (.., Some(why)) if !decides && !has_unknown_values(&judged.verdict) => {
                format!("the API server would refuse it: {why}")
            }
            _ => continue,
        };
        judged.verdict = Verdict::Stays(why);
    }
    Ok(())
}

/// Objects that the rollback itself brings back.
struct Brought {
    namespaces: BTreeSet<String>,
    /// Definitions of kinds, or a release that may have some.
    kinds: bool,
}

impl Brought {
    fn by<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut brought = Self { namespaces: BTreeSet::new(), kinds: false };
        for verdict in verdicts {
            let Verdict::Back(change) = verdict else { continue };
            if change.to.is_absent() {
                continue;
            }
            brought.kinds |= change.object.kind == "release";
            let Some((object, _)) = written(verdict) else { continue };
            brought.kinds |= object.kind == "CustomResourceDefinition";
            brought.namespaces.extend((object.kind == "Namespace").then_some(object.name));
        }
        brought
    }
}
