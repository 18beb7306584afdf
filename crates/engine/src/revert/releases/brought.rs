//! Objects that come back with a release of the same rollback, and go on from there. Pure.

use crate::revert::sight::Sight;
use converge_ledger::Undo;
use converge_objects::release::{self, ReleaseState};
use converge_objects::{api_ref, release_of};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, State};
use serde_json::Value;
use std::collections::BTreeMap;

/// The manifests of a state of a release, as far as its text is known.
pub(super) fn manifests(state: &State, known: &Knowledge) -> Vec<Value> {
    known_manifests(state, known).unwrap_or_default()
}

/// The same; `None` where its text is not known, or nothing of it is in force.
pub(super) fn known_manifests(state: &State, known: &Knowledge) -> Option<Vec<Value>> {
    let Ok(ReleaseState::Installed { digest, .. }) = ReleaseState::try_from(state.clone()) else {
        return None;
    };
    release::manifests_of(known.content(&digest)?)
}

/// Whether objects of a release may be missing now that nobody but helm took away.
pub(super) fn may_lack_objects(release: &ObjectId, known: &Knowledge) -> bool {
    let now = known.observed(release).ok().and_then(|now| ReleaseState::try_from(now.state).ok());
    now.is_some_and(|now| now.may_lack_objects())
}

/// The objects that are not there now, while the runs have left them there, each with the release that comes back and brings it: a prune has taken the
/// release away after what was changed of the object. They are visible later.
pub(crate) fn brought_back(
    undos: &[Undo],
    sights: &mut [Sight],
    known: &Knowledge,
) -> BTreeMap<ObjectId, ObjectId> {
    let is_gone = |object: &ObjectId| known.observed(object).is_ok_and(|now| now.state.is_absent());
    let release = |undo: &Undo| {
        let (namespace, _) = release_of(&undo.object).filter(|_| may_lack_objects(&undo.object, known))?;
        Some((undo.object.clone(), namespace.to_owned(), manifests(&undo.before, known)))
    };
    let releases: Vec<(ObjectId, String, Vec<Value>)> = undos.iter().filter_map(release).collect();
    let one = |undo: &Undo| {
        let stands = !undo.left.is_absent() && !undo.before.is_absent();
        let object = api_ref(&undo.object).filter(|_| stands && is_gone(&undo.object))?;
        let brings = |(_, namespace, manifests): &&(ObjectId, String, Vec<Value>)| {
            manifests.iter().any(|manifest| release::is(manifest, &object, namespace))
        };
        releases.iter().find(brings).map(|(release, ..)| (undo.object.clone(), release.clone()))
    };
    let brought: BTreeMap<ObjectId, ObjectId> = undos.iter().filter_map(one).collect();
    for (sight, _) in sights.iter_mut().zip(undos).filter(|(_, undo)| brought.contains_key(&undo.object)) {
        *sight = Sight::Later;
    }
    brought
}

/// Sentences about an object that a release brings, and about a release with which objects go: `brought` and `gone_with` name the release of each object.
pub(crate) fn members_notes(
    object: &ObjectId,
    brought: &BTreeMap<ObjectId, ObjectId>,
    gone_with: &BTreeMap<ObjectId, ObjectId>,
) -> Vec<String> {
    let comes = brought
        .get(object)
        .map(|release| format!("{object}: deferred until the release {} brings it", release.key));
    let go = gone_with.iter().filter(|(_, release)| *release == object);
    comes.into_iter().chain(go.map(|(gone, _)| format!("{gone} goes with it"))).collect()
}

#[cfg(test)]
mod tests {
    use crate::revert::tests::undo;
    use crate::revert::undo::Verdict;
    use crate::revert::{RevertGroup, arrange};
    use converge_ledger::Undo;
    use converge_objects::k8s::K8sState;
    use converge_objects::release::{ReleaseState, content};
    use converge_planner::Knowledge;
    use converge_resource::{Answer, Observation, Probe, State};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Whoever took the object away alone is somebody else; with the release it went, and comes back behind it.
    #[test]
    fn what_a_release_brings_goes_back_behind_it() {
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data});
        let [(left, left_text), (before, before_text)] =
            [json!({"x": "1"}), json!({"x": "1", "w": "p"})].map(|data| K8sState::of(&map(data)));
        let text = content("c", "1", &Value::Null, &[map(json!({"x": "1"}))]);
        let (status, chart, digest) = ("deployed".to_owned(), "c-1".to_owned(), text.digest().clone());
        let release = Undo {
            before: ReleaseState::Installed { status, chart, digest }.into(),
            ..undo("release", "n/r", "absent", "absent")
        };
        let patched = Undo {
            left: left.into(),
            before: before.into(),
            item: "other/patch".to_owned(),
            ..undo("k8s", "v1/ConfigMap/n/c", "absent", "absent")
        };
        let groups = |undos: &[&Undo]| -> Vec<RevertGroup> {
            let mut known = Knowledge::default();
            [&text, &left_text, &before_text].into_iter().for_each(|c| known.learn_content(c.clone()));
            for undo in undos {
                let absent = Answer::Object(Observation::new(State::absent(), None));
                known.learn(Probe::Object(undo.object.clone()), absent);
            }
            arrange(undos.iter().map(|undo| (*undo).clone()).collect(), &mut known, &[])
        };
        let alone = groups(&[&patched]);
        assert!(matches!(alone[0].members[0].verdict, Verdict::Stays(_)), "{alone:?}");
        let both = groups(&[&patched, &release]);
        assert_eq!(both[0].address, release.item);
        let [of_map] = both[1].members.as_slice() else { panic!("{both:?}") };
        let Verdict::Back(change) = &of_map.verdict else { panic!("{both:?}") };
        assert_eq!((&change.from, &change.to), (&patched.left, &patched.before));
        assert_eq!(both[1].after, BTreeSet::from([0]));
        assert!(of_map.notes[0].contains("deferred until the release n/r brings it"), "{of_map:?}");
    }
}
