//! Reverts that the API server of a cluster would refuse: known before the first change, so that nothing waits for them until it times out.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::order::namespaces::namespace_of;
use crate::revert::releases::taken_with;
use crate::revert::shared::state_with;
use crate::revert::undo::{Verdict, text_of};
use crate::revert::{JudgedUndo, RevertGroup};
use converge_objects::k8s::fields::{Field, deviating, leaf_differences, read, shown};
use converge_objects::k8s::normalised;
use converge_objects::{api_ref, release_of};
use converge_planner::Knowledge;
use converge_resource::{Answer, ApiProbe, ApiRef, Change, Probe, State};
use std::collections::BTreeSet;

/// Kinds that decide what the server takes. Where the rollback itself changes one of them, the server cannot say yet what it will take then.
const DECIDE: [&str; 6] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

/// The same, which decide in their own namespace alone.
const DECIDE_INSIDE: [&str; 2] = ["ResourceQuota", "LimitRange"];

/// Whether the first object decides what the server takes of the second one.
fn decides(object: &ApiRef, other: &ApiRef) -> bool {
    let kind = object.kind.as_str();
    let inside = || object.namespace == other.namespace && DECIDE_INSIDE.contains(&kind);
    let definition = || group_defined(object).is_some_and(|group| group_of(other) == Some(group));
    DECIDE.contains(&kind) || inside() || definition()
}

/// The group of whose kinds this object is a definition.
fn group_defined(object: &ApiRef) -> Option<&str> {
    let (_, group) = object.name.split_once('.').filter(|_| object.kind == "CustomResourceDefinition")?;
    Some(group)
}

fn group_of(object: &ApiRef) -> Option<&str> {
    object.api_version.split_once('/').map(|(group, _)| group)
}

/// The object that a verdict writes, with the change.
fn written(verdict: &Verdict) -> Option<(ApiRef, &Change)> {
    let Verdict::Back(change) = verdict else { return None };
    Some((api_ref(&change.object)?, change))
}

/// The question whether the server would take it. The values of a Secret are not known here: of one that comes back it is asked whether its place is there.
fn probe(verdict: &Verdict, known: &Knowledge) -> Option<Probe> {
    if let Some((object, _)) = written(verdict).filter(|(_, change)| change.to.is_absent()) {
        return Some(Probe::Api(ApiProbe::Gone(object)));
    }
    let asked = |(object, change): &(ApiRef, &Change)| !is_secret(object) || change.from.is_absent();
    let (object, change) = written(verdict).filter(asked)?;
    let text = |state: &State| {
        let digest = converge_objects::object(&change.object.kind)?.content(state)?;
        Some(known.content(&digest)?.text()?.to_owned())
    };
    let from = if change.from.is_absent() { None } else { Some(text(&change.from)?) };
    Some(Probe::Api(ApiProbe::Back { object, from, to: text(&change.to)? }))
}

/// The questions whether the server would let go what helm deletes with a release that is taken away. A manifest need not say where its object lives: of the
/// two places one has no answer.
fn release_probes(verdict: &Verdict, known: &Knowledge) -> Vec<(ApiRef, Probe)> {
    let Verdict::Back(change) = verdict else { return Vec::new() };
    let Some((namespace, manifests)) = taken_with(change, known) else { return Vec::new() };
    let placed = |named: &ApiRef| ApiRef { namespace: Some(namespace.to_owned()), ..named.clone() };
    let places = manifests.iter().filter_map(ApiRef::of).flat_map(|named| {
        let placed = named.namespace.is_none().then(|| placed(&named));
        placed.into_iter().chain([named])
    });
    places.map(|object| (object.clone(), Probe::Api(ApiProbe::Gone(object)))).collect()
}

/// Whether it writes a Secret: the server was asked without the values.
fn has_unknown_values(verdict: &Verdict) -> bool {
    written(verdict).is_some_and(|(object, change)| is_secret(&object) && !change.to.is_absent())
}

fn is_secret(object: &ApiRef) -> bool {
    object.kind == "Secret"
}

/// Lets the objects stay that the server would not take as they were, and those that need one of these. `again` is the command that takes up what is left.
pub(crate) async fn leave_what_is_refused(
    target: &Target,
    groups: &mut [RevertGroup],
    known: &mut Knowledge,
    again: &str,
) -> Result<(), TargetError> {
    let verdicts = || groups.iter().flat_map(|group| &group.members).map(|judged| &judged.verdict);
    let mut probes: BTreeSet<Probe> = verdicts().filter_map(|verdict| probe(verdict, known)).collect();
    let of_releases = verdicts().flat_map(|verdict| release_probes(verdict, known));
    probes.extend(of_releases.map(|(_, probe)| probe));
    target.look(&probes, known).await?;
    let changed: Vec<ApiRef> = verdicts().filter_map(written).map(|(object, _)| object).collect();
    let all = RestoredObjects::by(verdicts());
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        leave_what_is_set_anew(judged, &changed, known);
    }
    // Others may need an object that stays.
    loop {
        let brought =
            RestoredObjects::by(groups.iter().flat_map(|group| &group.members).map(|judged| &judged.verdict));
        let place = RevertContext { brought: &brought, all: &all, changed: &changed, again };
        let members = groups.iter_mut().flat_map(|group| &mut group.members);
        let mut is_settled = true;
        for judged in members {
            let Some(why) = place.refused(&judged.verdict, known) else { continue };
            judged.verdict = Verdict::Stays(why);
            is_settled = false;
        }
        if is_settled {
            return Ok(());
        }
    }
}

/// Lets the fields stay that the server would set again in the very write that reverts them, as a mutating policy or webhook does.
fn leave_what_is_set_anew(judged: &mut JudgedUndo, changed: &[ApiRef], known: &mut Knowledge) {
    let Some((object, change)) = written(&judged.verdict) else { return };
    let answer = probe(&judged.verdict, known).and_then(|probe| known.answer(&probe));
    let Some(Answer::Api(answer)) = answer else { return };
    let text = |state: &State| text_of(&change.object, state, known);
    let Some(((from, to), made)) = text(&change.from).zip(text(&change.to)).zip(answer.get("object")) else {
        return;
    };
    let made = normalised(made);
    let is_set_anew = |field: &Field| {
        let is_off = !deviating(&made, std::slice::from_ref(field), true).is_empty();
        is_off && read(&made, &field.path) == field.before.as_ref()
    };
    let (stay, go): (Vec<Field>, Vec<Field>) =
        leaf_differences(&from, &to).into_iter().partition(is_set_anew);
    if stay.is_empty() || is_decided(&object, changed) {
        return;
    }
    let names: Vec<String> = stay.iter().map(|field| shown(&field.path)).collect();
    let why = format!(
        "{}: a policy or webhook of the API server sets this again in the same request, so it is not reverted",
        names.join(", ")
    );
    if go.is_empty() {
        judged.verdict = Verdict::Stays(why);
        return;
    }
    let (id, from_state) = (change.object.clone(), change.from.clone());
    let Some(to) = state_with(&from, &go, &to, known) else { return };
    judged.notes.push(format!("{id}: {why}"));
    judged.verdict = Verdict::Back(Change { object: id, from: from_state, to });
}

/// Whether something that the rollback changes decides what the server takes of an object.
fn is_decided(object: &ApiRef, changed: &[ApiRef]) -> bool {
    changed.iter().any(|other| other != object && decides(other, object))
}

/// The objects among which one comes back.
struct RevertContext<'a> {
    /// Those that come back with it.
    brought: &'a RestoredObjects,
    /// Those that would, if the server let them.
    all: &'a RestoredObjects,
    /// Objects that the rollback changes.
    changed: &'a [ApiRef],
    again: &'a str,
}

impl RevertContext<'_> {
    /// The reason why this cannot be done.
    fn refused(&self, verdict: &Verdict, known: &Knowledge) -> Option<String> {
        let Verdict::Back(change) = verdict else { return None };
        let again = self.again;
        let space = namespace_of(&change.object).filter(|_| change.from.is_absent());
        if let Some(name) = space.filter(|name| self.all.namespaces.contains(name)) {
            return (!self.brought.namespaces.contains(&name))
                .then(|| format!("its namespace {name} does not come back: make it, then `{again}`"));
        }
        let deleted = release_probes(verdict, known);
        if let Some(why) = deleted.iter().find_map(|(object, probe)| self.does_not_go(object, probe, known)) {
            return Some(why);
        }
        let probe = probe(verdict, known)?;
        let (object, _) = written(verdict)?;
        let Some(Answer::Api(answer)) = known.answer(&probe) else { return None };
        let word = |key: &str| answer.get(key).and_then(serde_json::Value::as_str);
        match (word("no_namespace"), word("no_kind"), word("invalid")) {
            (Some(name), ..) => Some(format!("its namespace {name} is not there: make it, then `{again}`")),
            (_, Some(_), _) if self.brought.defines(&object) => None,
            (_, Some(kind), _) if self.all.defines(&object) => Some(format!(
                "the definition of its kind does not come back ({kind}): bring it, then `{again}`"
            )),
            (_, Some(kind), _) => {
                Some(format!("the API server has no kind {kind}: bring its definition, then `{again}`"))
            }
            (.., Some(why)) if !is_decided(&object, self.changed) && !has_unknown_values(verdict) => {
                Some(format!("the API server would refuse it: {why}"))
            }
            _ => None,
        }
    }
}

impl RevertContext<'_> {
    /// The reason why an object of a release that is taken away would not go with it.
    fn does_not_go(&self, object: &ApiRef, probe: &Probe, known: &Knowledge) -> Option<String> {
        let Some(Answer::Api(answer)) = known.answer(probe) else { return None };
        let word = |key: &str| answer.get(key).and_then(serde_json::Value::as_str);
        let held = word("held").map(|why| format!("{}: {why}", object.shown()));
        let denied = word("invalid").filter(|_| !is_decided(object, self.changed));
        held.or_else(|| Some(format!("{}: the API server would refuse it: {}", object.shown(), denied?)))
    }
}

/// Objects that the rollback itself brings back.
#[derive(Debug, Default)]
struct RestoredObjects {
    namespaces: BTreeSet<String>,
    /// The groups of whose kinds it brings definitions.
    groups: BTreeSet<String>,
    /// A release may bring definitions.
    releases: bool,
}

impl RestoredObjects {
    fn by<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut brought = Self::default();
        for verdict in verdicts {
            let Verdict::Back(change) = verdict else { continue };
            if change.to.is_absent() {
                continue;
            }
            brought.releases |= release_of(&change.object).is_some();
            let Some((object, change)) = written(verdict) else { continue };
            brought.groups.extend(group_defined(&object).map(str::to_owned));
            let comes = object.kind == "Namespace" && change.from.is_absent();
            brought.namespaces.extend(comes.then_some(object.name));
        }
        brought
    }

    /// Whether a definition of this object's kind may come.
    fn defines(&self, object: &ApiRef) -> bool {
        self.releases || group_of(object).is_some_and(|group| self.groups.contains(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_of_an_object_is_not_asked_about_it() {
        let of = |key: &str| ApiRef::from_key(key).unwrap();
        let map = of("v1/ConfigMap/ns/x");
        for (key, expected) in [
            ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy/p", true),
            ("v1/ResourceQuota/ns/q", true),
            ("v1/ResourceQuota/other/q", false),
            ("apiextensions.k8s.io/v1/CustomResourceDefinition/gads.ex.io", false),
            ("v1/ConfigMap/ns/y", false),
        ] {
            assert_eq!(decides(&of(key), &map), expected, "{key}");
        }
        let definition = of("apiextensions.k8s.io/v1/CustomResourceDefinition/gads.ex.io");
        assert!(decides(&definition, &of("ex.io/v1/Gad/ns/g")) && !decides(&definition, &definition));
    }
}
