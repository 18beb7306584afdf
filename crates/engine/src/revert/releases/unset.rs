//! Fields of a cluster's objects that runs in force have taken away: a release that goes back to a chart which declares them does not bring them back.

use super::taken::takes_others;
use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::undo::text_of;
use converge_ledger::{Ledger, OwnedObject, ProjectScope, SavedChange, SavedOutcome, Undo};
use converge_objects::k8s::fields::{self, Field, FieldPath};
use converge_objects::{is_of_api, release_of};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A change that is in force: whether a release has made it, and its states before and after.
#[derive(Debug)]
pub(super) struct InForce {
    by_release: bool,
    pub before: State,
    pub after: State,
    /// The run that made it, for people, where it keeps a release that would take its object along.
    pub keeps: Option<String>,
}

/// The changes of a cluster's objects that stay in force, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RetainedChanges {
    changes: BTreeMap<ObjectId, Vec<InForce>>,
    /// The project's own entries in the objects to revert, before the runs to revert (`metadata.managedFields`).
    owned: BTreeMap<ObjectId, Vec<Value>>,
}

impl RetainedChanges {
    /// Those that these reverts of the runs `reverted` leave. Those of other projects keep a release, and those of the project's own that came after it.
    pub(crate) fn by(
        undos: &[Undo],
        ledger: &Ledger<'_>,
        reverted: &[usize],
        project: &ProjectScope,
    ) -> Self {
        let outer = undos.iter().filter(|undo| takes_others(&undo.object));
        let since = outer.filter_map(|undo| ledger.place(&undo.run)).min();
        let keeps = |at: usize, change: &SavedChange| {
            let is_later = !ledger.is_of(at, project) || since.is_some_and(|since| since <= at);
            ledger.run_in_force(at, project).filter(|_| is_later && change.outcome != SavedOutcome::Moved)
        };
        let objects: BTreeSet<&ObjectId> = undos.iter().map(|undo| &undo.object).collect();
        let by_release = |change: &SavedChange| change.outcome == SavedOutcome::Moved;
        let goes = |at: usize, change: &SavedChange| {
            reverted.contains(&at) && (by_release(change) || objects.contains(&change.object))
        };
        let mut retained: BTreeMap<ObjectId, Vec<InForce>> = BTreeMap::new();
        for (at, change) in ledger.changes_in_force() {
            let is_of_cluster = is_of_api(&change.object) || release_of(&change.object).is_some();
            if is_of_cluster && change.may_have_happened() && !goes(at, change) {
                let (before, after) = (change.before.clone(), change.after.clone());
                let (by_release, keeps) = (by_release(change), keeps(at, change));
                let change_in_force = InForce { by_release, before, after, keeps };
                retained.entry(change.object.clone()).or_default().push(change_in_force);
            }
        }
        let owned = undos.iter().filter_map(|undo| {
            let first = undo.owners.first()?.as_ref()?;
            Some((undo.object.clone(), first.found.clone()))
        });
        Self { changes: retained, owned: owned.collect() }
    }

    /// The project's own entries in an object before the runs to revert.
    pub(super) fn owned_before(&self, object: &ObjectId) -> &[Value] {
        self.owned.get(object).map_or(&[], Vec::as_slice)
    }

    #[cfg(test)]
    pub(super) fn owning(owned: BTreeMap<ObjectId, Vec<Value>>) -> Self {
        Self { changes: BTreeMap::new(), owned }
    }

    /// Those that other projects manage: they keep the releases that a prune would take away.
    pub(crate) fn of_others(things: &[OwnedObject], project: &ProjectScope) -> Self {
        let others = things.iter().filter(|t| !t.by_product && !project.is(&t.scope));
        let mut retained: BTreeMap<ObjectId, Vec<InForce>> = BTreeMap::new();
        for thing in others.filter(|t| is_of_api(&t.object) || release_of(&t.object).is_some()) {
            retained.entry(thing.object.clone()).or_default().push(InForce {
                by_release: false,
                before: thing.before.clone(),
                after: thing.left.clone(),
                keeps: Some(format!("run {}, of another project ({})", thing.run, thing.scope)),
            });
        }
        Self { changes: retained, owned: BTreeMap::new() }
    }

    /// The objects, each with its changes in force.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&ObjectId, &[InForce])> {
        self.changes.iter().map(|(object, changes)| (object, changes.as_slice()))
    }

    /// Brings the contents of these objects' changes.
    pub(crate) async fn learn(
        &self,
        objects: &BTreeSet<ObjectId>,
        target: &Target,
        known: &mut Knowledge,
    ) -> Result<(), TargetError> {
        let changes = objects.iter().filter_map(|object| Some((object, self.changes.get(object)?)));
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
        self.changes.contains_key(object)
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
        for change in self.changes.get(object).into_iter().flatten() {
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
    use converge_ledger::{ProjectName, parse_records};
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
            keeps: None,
        });
        let retained = RetainedChanges {
            changes: BTreeMap::from([(object.clone(), all.collect())]),
            ..RetainedChanges::default()
        };
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

    #[test]
    fn changes_that_stay_in_force_keep_a_release_unless_they_are_older_ones_of_the_project() {
        let (map, _) = K8sState::of(&json!({"kind": "ConfigMap", "data": {"a": "1"}}));
        let (map, installed) = (State::from(map), format!("release deployed c-1 {}", "a".repeat(64)));
        let run = |seq: usize, project: &str, (role, kind, key, after): (&str, &str, &str, &str)| {
            format!(
                "run\tr{seq}\nversion\t3\nseq\t{seq}\nplaybook\t{project}.yaml\ninventory\th.yaml\nscope\t{project}.yaml\th.yaml\n\
                 begin\t0\t{kind}\t{key}\tabsent\t{after}\t{role}/x\t-\nowns\t0\t{role}\ndone\t0\t{after}\nclose\tfinished\t1\n"
            )
        };
        let release = ("one", "release", "n/r", installed.as_str());
        let object = ("two", "k8s", "v1/ConfigMap/n/c", map.line());
        let keeps = |runs: [String; 2], narrowed: bool| -> Option<Option<String>> {
            let records = parse_records(&format!("converge\t6\n{}", runs.concat())).unwrap();
            assert_eq!(records.broken, Vec::<String>::new());
            let (playbook, inventory) = ("a.yaml".to_owned(), "h.yaml".to_owned());
            let (ledger, project) =
                (Ledger::of(&records.runs), ProjectScope(ProjectName { playbook, inventory }));
            let (mut undos, reverted) = ledger.revert_from(0, &project, &|_| true);
            undos.retain(|undo| !narrowed || undo.item == "one/x");
            let retained = RetainedChanges::by(&undos, &ledger, &reverted, &project);
            let mut all = retained.objects().flat_map(|(_, changes)| changes).map(|c| c.keeps.clone());
            all.next()
        };
        let (first, then) = (run(1, "a", release), run(2, "a", object));
        let of_other = "run r2, of another project (playbook b.yaml, inventory h.yaml)".to_owned();
        assert_eq!(keeps([first.clone(), run(2, "b", object)], false), Some(Some(of_other)));
        let not_reverted = "run r2, which is not reverted".to_owned();
        assert_eq!(keeps([first.clone(), then.clone()], true), Some(Some(not_reverted)));
        assert_eq!(keeps([first, then], false), None);
        assert_eq!(keeps([run(1, "a", object), run(2, "a", release)], true), Some(None));
    }
}
