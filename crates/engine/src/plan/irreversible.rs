//! States that the record of a run on a cluster would not keep: shown in the plan, beforehand.

use crate::connect::target::Target;
use converge_objects::{api_ref, release, release_of};
use converge_planner::{HostPlan, Knowledge, Outcome};
use converge_resource::{Change, Reversibility};
use serde_json::Value;

/// Marks changes that no rollback can undo since the values of Secrets are kept for nobody.
pub(crate) async fn mark(target: &Target, plan: &mut HostPlan, known: &Knowledge) {
    if target.keeps_secrets().await {
        return;
    }
    for item in &mut plan.items {
        let Outcome::Changed(changes) = &mut item.outcome else { continue };
        for planned in changes.iter_mut().filter(|p| p.reversibility == Reversibility::Reversible) {
            if let Some(what) = not_saved(&planned.change, item.sensitive, known) {
                let why = format!("{what} are kept only for age recipients, and the inventory names none");
                planned.reversibility = Reversibility::Irreversible(why);
            }
        }
    }
}

/// The part of the state before that is not kept.
fn not_saved(change: &Change, sensitive: bool, known: &Knowledge) -> Option<&'static str> {
    if change.from.is_absent() {
        return None;
    }
    if let Some(object) = api_ref(&change.object) {
        return match (object.kind == "Secret", sensitive) {
            (true, _) => Some("the values of Secrets"),
            (false, true) => Some("objects of sensitive resources"),
            (false, false) => None,
        };
    }
    // As long as it is installed, helm keeps its history.
    release_of(&change.object).filter(|_| change.to.is_absent())?;
    let object = converge_objects::object(&change.object.kind)?;
    let content = object.content(&change.from).and_then(|digest| known.content(&digest));
    let manifests = content.and_then(release::manifests_of).unwrap_or_default();
    let secret = |m: &Value| m.get("kind").and_then(Value::as_str) == Some("Secret");
    (sensitive || manifests.iter().any(secret)).then_some("releases with Secrets")
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_objects::release::ReleaseState;
    use converge_resource::{Content, ObjectId, State};
    use serde_json::json;

    fn release(manifests: &[Value]) -> (State, Content) {
        let content = release::content("c", "1", &Value::Null, manifests);
        let digest = content.digest().clone();
        let state = ReleaseState::Installed { status: "deployed".into(), chart: "c-1".into(), digest };
        (state.into(), content)
    }

    #[test]
    fn what_is_not_saved_is_reported() {
        let mut known = Knowledge::default();
        let change = |kind: &str, key: &str, from: &State, to: &State| Change {
            object: ObjectId::new(kind, key),
            from: from.clone(),
            to: to.clone(),
        };
        let (there, absent) = (State::from_line("object 1"), State::absent());
        let what = |change: Change, known: &Knowledge| not_saved(&change, false, known);
        assert!(what(change("k8s", "v1/Secret/ns/s", &there, &absent), &known).is_some());
        assert_eq!(what(change("k8s", "v1/Secret/ns/s", &absent, &there), &known), None);
        assert_eq!(what(change("k8s", "v1/ConfigMap/ns/s", &there, &absent), &known), None);
        assert!(not_saved(&change("k8s", "v1/ConfigMap/ns/s", &there, &absent), true, &known).is_some());
        assert_eq!(not_saved(&change("k8s", "v1/ConfigMap/ns/s", &absent, &there), true, &known), None);
        for (kind, retained) in [("Secret", false), ("ConfigMap", true)] {
            let (state, content) =
                release(&[json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}})]);
            known.learn_content(content);
            assert_eq!(
                what(change("release", "ns/r", &state, &absent), &known).is_none(),
                retained,
                "{kind}"
            );
            assert_eq!(what(change("release", "ns/r", &state, &there), &known), None);
            assert!(not_saved(&change("release", "ns/r", &state, &absent), true, &known).is_some());
        }
    }
}
