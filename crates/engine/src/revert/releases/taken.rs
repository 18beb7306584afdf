//! Objects that go with a release which a plan takes away: helm deletes all that its manifests name. Pure.

use super::brought::manifests;
use crate::revert::undo::Verdict;
use converge_ledger::Undo;
use converge_objects::{api_ref, release, release_of};
use converge_planner::Knowledge;
use converge_resource::{Change, ObjectId};
use serde_json::Value;
use std::collections::BTreeMap;

/// The namespace of a release that this change takes away, and the manifests of what helm deletes with it, as far as they are known.
pub(crate) fn taken_with<'c>(change: &'c Change, known: &Knowledge) -> Option<(&'c str, Vec<Value>)> {
    let (namespace, _) = release_of(&change.object).filter(|_| change.to.is_absent())?;
    let is_kept = |manifest: &Value| {
        let policy = manifest.pointer("/metadata/annotations")?.get("helm.sh/resource-policy")?.as_str()?;
        Some(policy.trim().eq_ignore_ascii_case("keep"))
    };
    let mut manifests = manifests(&change.from, known);
    manifests.retain(|manifest| is_kept(manifest) != Some(true));
    Some((namespace, manifests))
}

/// Lets what runs have made or changed of the objects of a release go with it, each returned with its release: one that is refused would go all the same.
/// An object that would be lost for good, or that another project has changed, keeps the release instead.
pub(crate) fn go_with_their_release(
    undos: &[Undo],
    verdicts: &mut [Verdict],
    known: &Knowledge,
) -> BTreeMap<ObjectId, ObjectId> {
    let is_there = |object: &ObjectId| known.observed(object).is_ok_and(|now| !now.state.is_absent());
    let mut gone_with = BTreeMap::new();
    for at in 0..verdicts.len() {
        let Some(Verdict::Back(change)) = verdicts.get(at) else { continue };
        let Some((namespace, manifests)) = taken_with(change, known) else { continue };
        let (release, namespace) = (change.object.clone(), namespace.to_owned());
        let is_of_release = |undo: &Undo| {
            let object = api_ref(&undo.object).filter(|_| is_there(&undo.object));
            object.is_some_and(|object| manifests.iter().any(|m| release::is(m, &object, &namespace)))
        };
        let keeps = undos.iter().zip(verdicts.iter()).find_map(|(undo, verdict)| match verdict {
            Verdict::Kept(why) if is_of_release(undo) => Some((undo, why)),
            Verdict::Stays(why) if undo.theirs.is_some() && is_of_release(undo) => Some((undo, why)),
            _ => None,
        });
        if let Some((undo, why)) = keeps {
            let why = format!("{} would go with it: {why}", undo.object);
            verdicts.get_mut(at).into_iter().for_each(|verdict| *verdict = Verdict::Stays(why.clone()));
            continue;
        }
        for (undo, verdict) in undos.iter().zip(verdicts.iter_mut()).filter(|(undo, _)| is_of_release(undo)) {
            let goes = match verdict {
                Verdict::Back(change) => change.to.is_absent(),
                Verdict::Stays(_) | Verdict::Lost(_) => true,
                Verdict::Same | Verdict::With(_) | Verdict::Kept(_) => false,
            };
            if goes {
                *verdict = Verdict::With(release.clone());
                gone_with.insert(undo.object.clone(), release.clone());
            }
        }
    }
    gone_with
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revert::arrange;
    use crate::revert::tests::undo;
    use crate::revert::undo::owners_probe;
    use converge_objects::k8s::K8sState;
    use converge_objects::release::{ReleaseState, content};
    use converge_resource::{Answer, Observation, Probe, State};
    use serde_json::json;

    /// Of an object that a release takes along nothing is refused; one that is lost for good keeps the release.
    #[test]
    fn what_a_release_takes_along_is_not_refused_beside_it() {
        let verdicts = |kind: &str, metadata: Value| -> Vec<Verdict> {
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "c", "namespace": "n"}, "data": {"x": "1"}});
            let (state, object_text) = K8sState::of(&object);
            object["metadata"]["annotations"] = metadata;
            let text = content("c", "1", &Value::Null, &[object]);
            let (status, chart, digest) = ("deployed".to_owned(), "c-1".to_owned(), text.digest().clone());
            let installed: State = ReleaseState::Installed { status, chart, digest }.into();
            let key = format!("v1/{kind}/n/c");
            let made = Undo { left: state.clone().into(), ..undo("k8s", &key, "absent", "absent") };
            let release = Undo { left: installed.clone(), ..undo("release", "n/r", "absent", "absent") };
            let mut known = Knowledge::default();
            let others =
                json!({"object": {}, "manager": "converge", "whose": "fields of it belong to kubectl-label"});
            known.learn(owners_probe(&made.object).unwrap(), Answer::Api(others));
            [text, object_text].into_iter().for_each(|content| known.learn_content(content));
            for (undo, now) in [(&made, State::from(state)), (&release, installed)] {
                known.learn(Probe::Object(undo.object.clone()), Answer::Object(Observation::new(now, None)));
            }
            let groups = arrange(vec![made, release], &mut known, &[]);
            groups.into_iter().flat_map(|group| group.members).map(|judged| judged.verdict).collect()
        };
        let goes = |verdict: &Verdict| matches!(verdict, Verdict::Back(change) if change.to.is_absent());
        let with = |verdict: &Verdict| matches!(verdict, Verdict::With(release) if release.key == "n/r");
        let map = verdicts("ConfigMap", Value::Null);
        assert!(map.iter().any(goes) && map.iter().any(with), "{map:?}");
        let stays =
            |verdict: &Verdict| matches!(verdict, Verdict::Stays(why) if why.contains("kubectl-label"));
        let retained = verdicts("ConfigMap", json!({"helm.sh/resource-policy": "keep"}));
        assert!(retained.iter().any(goes) && retained.iter().any(stays), "helm leaves it: {retained:?}");
        let claim = verdicts("PersistentVolumeClaim", Value::Null);
        assert!(!claim.iter().any(|verdict| goes(verdict) || with(verdict)), "{claim:?}");
    }
}
