//! Fields of a cluster's objects that runs in force have taken away: a release that goes back to a chart which declares them does not bring them back.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::undo::text_of;
use converge_ledger::{Ledger, SavedChange, SavedOutcome, Undo};
use converge_objects::is_of_api;
use converge_objects::k8s::fields::{self, Field, FieldPath};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A change that is in force: whether a release has made it, and its states before and after.
#[derive(Debug)]
struct InForce {
    by_release: bool,
    before: State,
    after: State,
}

/// The changes of a cluster's objects that stay in force, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RetainedChanges(BTreeMap<ObjectId, Vec<InForce>>);

impl RetainedChanges {
    /// Those that these reverts of the runs `reverted` leave.
    pub(crate) fn by(undos: &[Undo], ledger: &Ledger<'_>, reverted: &[usize]) -> Self {
        let objects: BTreeSet<&ObjectId> = undos.iter().map(|undo| &undo.object).collect();
        let by_release = |change: &SavedChange| change.outcome == SavedOutcome::Moved;
        let goes = |at: usize, change: &SavedChange| {
            reverted.contains(&at) && (by_release(change) || objects.contains(&change.object))
        };
        let mut retained: BTreeMap<ObjectId, Vec<InForce>> = BTreeMap::new();
        for (at, change) in ledger.changes_in_force() {
            if is_of_api(&change.object) && change.may_have_happened() && !goes(at, change) {
                let (before, after) = (change.before.clone(), change.after.clone());
                let change_in_force = InForce { by_release: by_release(change), before, after };
                retained.entry(change.object.clone()).or_default().push(change_in_force);
            }
        }
        Self(retained)
    }

    /// Brings the contents of these objects' changes.
    pub(crate) async fn learn(
        &self,
        objects: &BTreeSet<ObjectId>,
        target: &Target,
        known: &mut Knowledge,
    ) -> Result<(), TargetError> {
        let changes = objects.iter().filter_map(|object| Some((object, self.0.get(object)?)));
        let states = changes.flat_map(|(object, all)| {
            all.iter().flat_map(|c| [&c.before, &c.after]).map(move |state| (object, state))
        });
        let digests = states
            .filter_map(|(object, state)| converge_objects::object(&object.kind)?.content(state))
            .filter(|digest| known.content(digest).is_none());
        let digests = digests.collect();
        target.learn_recorded(&digests, known).await.map(drop)
    }

    /// Whether anything of it stays in force.
    pub(crate) fn has(&self, object: &ObjectId) -> bool {
        self.0.contains_key(object)
    }

    /// The fields of a manifest that the live object lacks, since these changes have taken them away. An item of a list and a map that would be empty without
    /// them count as one.
    pub(crate) fn unset(
        &self,
        object: &ObjectId,
        manifest: &Value,
        live: &Value,
        known: &Knowledge,
    ) -> Vec<FieldPath> {
        let mut gone: Vec<Field> = self.taken_away(object, known);
        gone.retain(|field| {
            fields::read(manifest, &field.path).is_some() && fields::read(live, &field.path).is_none()
        });
        let Ok(mut without) = fields::with(manifest, &gone) else { return Vec::new() };
        fields::drop_emptied(&mut without, &gone, live);
        fields::differences(manifest, &without).into_iter().map(|field| field.path).collect()
    }

    /// The fields that they have taken away of an object, all in all. Those that helm itself took away are no patch of anybody's.
    fn taken_away(&self, object: &ObjectId, known: &Knowledge) -> Vec<Field> {
        let mut gone: Vec<Field> = Vec::new();
        for change in self.0.get(object).into_iter().flatten() {
            let text = |state: &State| text_of(object, state, known);
            let (Some(before), Some(after)) = (text(&change.before), text(&change.after)) else {
                // It has come or gone as a whole, or nobody knows what it was.
                gone.clear();
                continue;
            };
            for field in fields::leaf_differences(&before, &after) {
                gone.retain(|other| !fields::touch(&other.path, &field.path));
                if field.after.is_none() && !change.by_release {
                    gone.push(field);
                }
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_objects::k8s::K8sState;
    use serde_json::json;

    /// The fields of a manifest that stay unset after these changes of its object, each by a release or not.
    fn unset(changes: &[(bool, Value, Value)], manifest: &Value, live: &Value) -> Vec<String> {
        let object = ObjectId::new("k8s", "v1/ConfigMap/ns/a");
        let mut known = Knowledge::default();
        let mut state = |data: &Value| {
            let (state, content) = K8sState::of(&json!({"kind": "ConfigMap", "data": data}));
            known.learn_content(content);
            State::from(state)
        };
        let all = changes.iter().map(|(by_release, before, after)| InForce {
            by_release: *by_release,
            before: state(before),
            after: state(after),
        });
        let retained = RetainedChanges(BTreeMap::from([(object.clone(), all.collect())]));
        let data = |data: &Value| json!({"data": data});
        let paths = retained.unset(&object, &data(manifest), &data(live), &known);
        paths.iter().map(|path| fields::shown(path)).collect()
    }

    #[test]
    fn what_a_patch_took_away_stays_away_until_it_is_given_back() {
        let (both, one) = (json!({"a": "1", "b": "1"}), json!({"a": "1"}));
        let took = || (false, both.clone(), one.clone());
        assert_eq!(unset(&[took()], &both, &one), [".data.b"]);
        assert_eq!(unset(&[], &both, &one), Vec::<String>::new());
        assert_eq!(unset(&[took()], &both, &both), Vec::<String>::new(), "somebody has laid it again");
        assert_eq!(unset(&[took()], &one, &one), Vec::<String>::new(), "the manifest has none");
        let laid = |by_release| (by_release, one.clone(), json!({"a": "1", "b": "2"}));
        assert_eq!(unset(&[took(), laid(false)], &both, &one), Vec::<String>::new());
        assert_eq!(unset(&[took(), laid(true), took()], &both, &one), [".data.b"]);
        assert_eq!(
            unset(&[(true, both.clone(), one.clone())], &both, &one),
            Vec::<String>::new(),
            "the chart itself dropped it"
        );
        // The last entry goes with its map.
        let (map, none) = (json!({"a": "1", "m": {"x": "1"}}), json!({"a": "1"}));
        assert_eq!(unset(&[(false, map.clone(), none.clone())], &map, &none), [".data.m"]);
        let more = json!({"a": "1", "m": {"x": "1", "y": "2"}});
        assert_eq!(unset(&[(false, map, none.clone())], &more, &none), [".data.m.x"]);
    }
}
