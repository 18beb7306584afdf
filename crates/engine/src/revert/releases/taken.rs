//! Objects that go with a release which a plan takes away: helm deletes all that its manifests name. Pure.

use super::brought::{known_manifests, manifests, may_lack_objects};
use crate::revert::order::namespaces::goes_along;
use crate::revert::undo::{Verdict, text_of};
use converge_cluster::marked_release;
use converge_ledger::Undo;
use converge_objects::{api_ref, release, release_of};
use converge_planner::Knowledge;
use converge_resource::{ApiRef, Change, ObjectId};
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds of the API with whose objects others go.
const OUTER: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

/// Whether other objects may go with this one: a release, a namespace, the definition of a kind.
pub(crate) fn takes_others(object: &ObjectId) -> bool {
    release_of(object).is_some() || api_ref(object).is_some_and(|r| OUTER.contains(&r.kind.as_str()))
}

/// The namespace of a release that this change takes away or leads to another revision, and the manifests of what helm deletes with it, as far as they are
/// known: of one that stays, those that its state afterwards lacks.
pub(crate) fn taken_with<'c>(change: &'c Change, known: &Knowledge) -> Option<(&'c str, Vec<Value>)> {
    let (namespace, _) = release_of(&change.object)?;
    let stay = if change.to.is_absent() { Vec::new() } else { known_manifests(&change.to, known)? };
    let stay: Vec<_> = stay.iter().filter_map(|manifest| identity(manifest, namespace)).collect();
    let has_keep_policy = |manifest: &Value| {
        let policy = manifest.pointer("/metadata/annotations")?.get("helm.sh/resource-policy")?.as_str()?;
        Some(policy.trim().eq_ignore_ascii_case("keep"))
    };
    let mut manifests = manifests(&change.from, known);
    manifests.retain(|manifest| {
        let is_there_then = || identity(manifest, namespace).is_some_and(|one| stay.contains(&one));
        has_keep_policy(manifest) != Some(true) && !is_there_then()
    });
    Some((namespace, manifests))
}

/// The objects that helm deletes when it leads a release to another revision, each under the IDs that it may have: a manifest need not name its namespace.
pub(crate) fn dropped_with(change: &Change, known: &Knowledge) -> Vec<[ObjectId; 2]> {
    let Some((namespace, manifests)) = taken_with(change, known).filter(|_| !change.to.is_absent()) else {
        return Vec::new();
    };
    let ids = |manifest: &Value| {
        let named = ApiRef::of(manifest)?;
        let placed = ApiRef {
            namespace: named.namespace.clone().or_else(|| Some(namespace.to_owned())),
            ..named.clone()
        };
        Some([named.object(), placed.object()])
    };
    manifests.iter().filter_map(ids).collect()
}

/// The key by which helm tells two objects of a release apart: the version of a kind's group does not.
fn identity(manifest: &Value, namespace: &str) -> Option<(String, String, String, String)> {
    let ApiRef { api_version, kind, namespace: own, name } = ApiRef::of(manifest)?;
    let group = api_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    Some((group, kind, own.unwrap_or_else(|| namespace.to_owned()), name))
}

/// Whether an object goes with what helm deletes: it is one of these manifests of a release in `namespace`, lies in a namespace of theirs, or is of a kind that
/// one of them defines.
pub(crate) fn goes_with(manifests: &[Value], namespace: &str, object: &ObjectId) -> bool {
    let api = api_ref(object);
    manifests.iter().any(|manifest| {
        ApiRef::of(manifest).is_some_and(|outer| {
            goes_along(&outer, Some(manifest), object)
                || api.as_ref().is_some_and(|object| release::is(manifest, object, namespace))
        })
    })
}

/// Lets what runs have made or changed of the objects of a release go with it, each returned with its release: one that is refused would go nevertheless.
/// An object that would be lost for good, or that another project has changed, keeps the release instead, the latter unless the release may go.
pub(crate) fn go_with_their_release(
    undos: &[Undo],
    verdicts: &mut [Verdict],
    known: &Knowledge,
    allowed: &[String],
) -> BTreeMap<ObjectId, ObjectId> {
    let is_there = |object: &ObjectId| known.observed(object).is_ok_and(|now| !now.state.is_absent());
    let mut gone_with = BTreeMap::new();
    rest_with_their_release(undos, verdicts, known);
    for at in 0..verdicts.len() {
        let Some(Verdict::Back(change)) = verdicts.get(at) else { continue };
        let Some((namespace, manifests)) = taken_with(change, known) else { continue };
        let (release, namespace) = (change.object.clone(), namespace.to_owned());
        let is_allowed = allowed.contains(&release.to_string());
        let is_of_release = |undo: &Undo| {
            let object = api_ref(&undo.object).filter(|_| is_there(&undo.object));
            object.is_some_and(|object| manifests.iter().any(|m| release::is(m, &object, &namespace)))
        };
        let keeps = undos.iter().zip(verdicts.iter()).find_map(|(undo, verdict)| match verdict {
            Verdict::NotAllowed(why) if is_of_release(undo) => Some((undo, why)),
            Verdict::Stays(why) if undo.theirs.is_some() && !is_allowed && is_of_release(undo) => {
                Some((undo, why))
            }
            _ => None,
        });
        if let Some((undo, why)) = keeps {
            let why = format!("{} would be removed with it: {why}", undo.object);
            verdicts.get_mut(at).into_iter().for_each(|verdict| *verdict = Verdict::Stays(why.clone()));
            continue;
        }
        for (undo, verdict) in undos.iter().zip(verdicts.iter_mut()).filter(|(undo, _)| is_of_release(undo)) {
            let goes = match verdict {
                Verdict::Back(change) => change.to.is_absent(),
                Verdict::Stays(_) | Verdict::Lost(_) => true,
                Verdict::Same | Verdict::With(_) | Verdict::NotAllowed(_) => false,
            };
            if goes {
                *verdict = Verdict::With(release.clone());
                gone_with.insert(undo.object.clone(), release.clone());
            }
        }
    }
    gone_with
}

/// Objects that went with a release which is away, or which helm is taking away, are as they were before the release. Their changes came after it: they stand before it.
fn rest_with_their_release(undos: &[Undo], verdicts: &mut [Verdict], known: &Knowledge) {
    for (at, of_release) in undos.iter().enumerate() {
        let Some((namespace, name)) = release_of(&of_release.object) else { continue };
        let is_back = matches!(verdicts.get(at), Some(Verdict::Same | Verdict::Back(_)));
        if !is_back || !of_release.before.is_absent() || !may_lack_objects(&of_release.object, known) {
            continue;
        }
        let between = of_release.between.iter().flat_map(|(left, found)| [left, found]);
        let states = between.chain([&of_release.left]).chain(&of_release.open);
        let manifests: Vec<Value> = states.flat_map(|state| manifests(state, known)).collect();
        for (undo, verdict) in undos.iter().zip(verdicts.iter_mut()).take(at) {
            let is_gone = known.observed(&undo.object).is_ok_and(|now| now.state.is_absent());
            let object = api_ref(&undo.object).filter(|_| is_gone && undo.theirs.is_none());
            // No record has what somebody uninstalled by hand: the objects name their release themselves.
            let is_marked = || {
                let marks = |text: Value| marked_release(&text) == Some([namespace, name]);
                let states = [&undo.before, &undo.left];
                states.iter().any(|state| text_of(&undo.object, state, known).is_some_and(marks))
            };
            let is_of =
                |object: &ApiRef| manifests.iter().any(|m| release::is(m, object, namespace)) || is_marked();
            if object.is_some_and(|object| is_of(&object)) {
                *verdict = Verdict::With(of_release.object.clone());
            }
        }
    }
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

    /// An object that went with a release which is away was taken away by nobody else. One that was there before it, or is away while the release stands, was.
    #[test]
    fn what_went_with_a_release_that_is_away_is_as_before() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"x": "1"}});
        let mut patched = object.clone();
        patched["data"]["w"] = json!("1");
        let [(found, found_text), (left, left_text)] = [K8sState::of(&object), K8sState::of(&patched)];
        let text = content("c", "1", &Value::Null, &[object]);
        let verdict = |status: Option<&str>, is_there: bool, is_older: bool| -> Verdict {
            let installed = |status: &str| -> State {
                let (status, chart, digest) = (status.to_owned(), "c-1".to_owned(), text.digest().clone());
                ReleaseState::Installed { status, chart, digest }.into()
            };
            let patch = Undo {
                left: left.clone().into(),
                before: found.clone().into(),
                ..undo("k8s", "v1/ConfigMap/n/c", "absent", "absent")
            };
            // As a rollback of it left it.
            let ends = (installed("deployed"), installed("deployed"));
            let release = Undo { between: vec![ends], ..undo("release", "n/r", "absent", "absent") };
            let release = match status {
                None => release,
                Some(_) => Undo { left: installed("deployed"), ..release },
            };
            let mut known = Knowledge::default();
            [&text, &found_text, &left_text].into_iter().for_each(|c| known.learn_content(c.clone()));
            let now = status.map_or_else(State::absent, installed);
            let map = if is_there { patch.left.clone() } else { State::absent() };
            for (undo, now) in [(&release, now), (&patch, map)] {
                known.learn(Probe::Object(undo.object.clone()), Answer::Object(Observation::new(now, None)));
            }
            let both = if is_older { vec![release, patch] } else { vec![patch, release] };
            let members = arrange(both, &mut known, &[]).into_iter().flat_map(|group| group.members);
            let mut of_map = members.filter(|judged| judged.undo.object.kind == "k8s");
            of_map.next().map(|judged| judged.verdict).unwrap()
        };
        let is_with = |verdict: &Verdict| matches!(verdict, Verdict::With(_));
        assert!(is_with(&verdict(None, false, false)));
        assert!(matches!(verdict(None, false, true), Verdict::Stays(_)), "it was there before the release");
        assert!(matches!(verdict(None, true, false), Verdict::Back(_)), "helm has left it");
        let stays = verdict(Some("deployed"), false, false);
        assert!(
            matches!(&stays, Verdict::Stays(why) if why.contains("taken away by someone else")),
            "{stays:?}"
        );
    }

    #[test]
    fn helm_deletes_what_lies_in_its_namespaces_and_what_its_definitions_define() {
        let manifests = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inner"}}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gads.ex.io"},
                "spec": {"group": "ex.io", "names": {"kind": "Gad"}}}),
        ];
        for (kind, key, goes) in [
            ("k8s", "v1/ConfigMap/n/c", true),
            ("k8s", "v1/ConfigMap/other/c", false),
            ("k8s", "v1/Secret/n/c", false),
            ("k8s", "v1/Secret/inner/any", true),
            ("release", "inner/r", true),
            ("release", "n/r", false),
            ("k8s", "v1/Namespace/inner", true),
            ("k8s", "ex.io/v1/Gad/other/g", true),
            ("k8s", "ex.com/v1/Gad/other/g", false),
        ] {
            assert_eq!(goes_with(&manifests, "n", &ObjectId::new(kind, key)), goes, "{key}");
        }
    }
}
