//! The verdict on each object in a rollback, from its composed changes (`converge_ledger`) and its present state. Pure.

use converge_ledger::{SavedChange, SavedOutcome, Undo, is_by_lines};
use converge_objects::k8s::from_text;
use converge_objects::{PackageState, action_of, api_ref, is_action, release_of};
use converge_planner::{HostPlan, Item, Knowledge, PlannedChange};
use converge_resource::{
    Answer, ApiProbe, ApiRef, Change, Content, Digest, ObjectId, Past, Place, Probe, Reversibility, State,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The verdict on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is as it was before.
    Same,
    /// It is reverted.
    Back(Change),
    /// It goes with this release, by helm.
    With(ObjectId),
    /// It stays as it is: why.
    Stays(String),
    /// It would be destroyed for good, and no user has allowed that: why.
    NotAllowed(String),
    /// Its state before cannot be restored: why.
    Lost(String),
}

/// Whether a rollback takes a change back at all.
pub(crate) fn goes_back(change: &SavedChange) -> bool {
    let Some(object) = converge_objects::object(&change.object.kind) else { return true };
    // A restart of the host is not reverted. An object that helm has changed in a cluster goes back with its release.
    // Nor is a dpkg that the run has settled made unconfigured again.
    let is_left = object.place() == Place::Cluster || is_half_installed(&change.object, &change.before);
    let moved = change.outcome == SavedOutcome::Moved && is_left;
    !object.traits().restarts_host && !object.traits().passes && !moved
}

/// Whether dpkg has left a package half installed in this state.
pub(crate) fn is_half_installed(object: &ObjectId, state: &State) -> bool {
    let package = PackageState::try_from(state.clone()).ok().filter(|_| object.kind == "package");
    matches!(package, Some(PackageState::Broken { .. }))
}

/// The same with what goes or comes with another object; [`crate::revert::arrange`] brings them into the order in which they are reverted.
pub(crate) fn brought_along(mut undos: Vec<Undo>) -> Vec<Undo> {
    go_with_what_brought_them(&mut undos);
    undos
}

/// An object that exists only through another one goes with it and comes back with it: a unit with its file.
pub(crate) fn go_with_what_brought_them(undos: &mut [Undo]) {
    let object = |id: &ObjectId| converge_objects::object(&id.kind);
    let bare = |id: &ObjectId, state: &State| object(id).is_some_and(|o| o.links().bare(state));
    let brought = |undos: &[Undo], absent: &dyn Fn(&Undo) -> bool| -> BTreeSet<ObjectId> {
        let those = undos.iter().filter(|u| absent(u));
        let brings =
            |u: &Undo| Some(object(&u.object)?.links().brings(&u.object.key, &State::absent(), None));
        those.filter_map(brings).flatten().map(|(id, _)| id).collect()
    };
    let goes = brought(undos, &|u| u.before.is_absent());
    let comes = brought(undos, &|u| u.left.is_absent() && !u.before.is_absent());
    for undo in undos {
        let with = |brought: &BTreeSet<ObjectId>| {
            let template = || object(&undo.object)?.links().template(&undo.object.key);
            brought.contains(&undo.object) || template().is_some_and(|t| brought.contains(&t))
        };
        let comes_back = with(&comes) && bare(&undo.object, &undo.left);
        if with(&goes) && bare(&undo.object, &undo.before) {
            undo.before = State::absent();
        }
        undo.comes_back = comes_back;
    }
}

/// Takes the contents that the changes name, as far as they are known: an executor of clusters compares them field by field.
pub(crate) fn take_contents(plan: &mut HostPlan, known: &Knowledge) {
    let changes = plan.items.iter().flat_map(Item::changes).map(|c| &c.change);
    let named = changes.filter_map(|change| {
        let object = converge_objects::object(&change.object.kind)?;
        Some([object.content(&change.from), object.content(&change.to)])
    });
    let found: Vec<Content> =
        named.flatten().flatten().filter_map(|digest| known.content(&digest).cloned()).collect();
    plan.contents.extend(found.into_iter().map(|c| (c.digest().clone(), c)));
}

/// The states of the items' claims, as they were observed.
pub(crate) fn base_of(plan: &HostPlan, known: &Knowledge) -> Vec<(ObjectId, State)> {
    let claims = plan.items.iter().flat_map(|i| &i.claims);
    claims.filter_map(|o| known.observed(o).ok().map(|present| (o.clone(), present.state))).collect()
}

/// Whether the object still shows what the runs made of it. Of a change that was cut off, both ends count, and what lies between them.
pub(crate) fn shows(undo: &Undo, now: &State, known: &Knowledge) -> bool {
    let content = |digest: &Digest| known.content(digest).cloned();
    let as_left = |left: &State| match converge_objects::object(&undo.object.kind) {
        Some(object) => object.shared().shows(now, &Past { left, ..undo.past() }, &content),
        None => *now == undo.left,
    };
    // An object that another one has brought, and nobody has touched, is as good as absent, before it comes and when it has gone.
    let bare =
        |state: &State| converge_objects::object(&undo.object.kind).is_some_and(|o| o.links().bare(state));
    (undo.left.is_absent() && bare(now))
        || (now.is_absent() && bare(&undo.left))
        || as_left(&undo.left)
        || undo.open.as_ref().is_some_and(|open| as_left(open) || is_amid(undo, open, now))
}

/// Whether a state is one through which a step may pass from one state to the other: each word of it is of one of them or the host's own choice
/// (`~`), or the host's tools leave it on the way.
fn is_amid(undo: &Undo, open: &State, now: &State) -> bool {
    let words = |state: &State| -> Vec<String> { state.line().split(' ').map(str::to_owned).collect() };
    let (before, after, found) = (words(open), words(&undo.left), words(now));
    let each = before.len() == found.len()
        && after.len() == found.len()
        && before.iter().zip(&after).zip(&found).all(|((b, a), f)| f == b || f == a || a == "~");
    let bare = || converge_objects::object(&undo.object.kind).is_some_and(|o| o.links().bare(now));
    let change = || Change { object: undo.object.clone(), from: open.clone(), to: undo.left.clone() };
    let passing =
        || converge_objects::object(&undo.object.kind).is_some_and(|object| object.amid(&change(), now));
    each || passing() || bare()
}

/// The revert of a command that was begun and did not come to its end, and that is as before by its state: it may have done a part of its work, and its
/// `undo` takes that back.
pub(crate) fn begun(undo: &Undo, now: &State) -> Option<Change> {
    let last = undo.states.last().filter(|last| last.is_planned && last.state != undo.before)?;
    let is_begun = is_action(&undo.object)
        && undo.theirs.is_none()
        && *now == undo.before
        && irreversible(Change { object: undo.object.clone(), from: now.clone(), to: last.state.clone() })
            .is_none();
    is_begun.then(|| Change { object: undo.object.clone(), from: last.state.clone(), to: now.clone() })
}

/// Whether a run was cut off in a step that cannot be reverted, and has left the object between the step's ends.
pub(crate) fn is_midway(undo: &Undo, now: &State) -> bool {
    let amid = |open: &State| open != now && undo.left != *now && is_amid(undo, open, now);
    lost(undo).is_some() && undo.open.as_ref().is_some_and(amid)
}

/// The state after the revert of an object, which is in the state `now` and still shows the result of the runs. A new content becomes known.
pub(crate) fn back(undo: &Undo, now: &State, known: &mut Knowledge) -> State {
    let content = |digest: &Digest| known.content(digest).cloned();
    let Some(object) = converge_objects::object(&undo.object.kind) else { return undo.before.clone() };
    let (state, new) = object.shared().back(now, &undo.past(), &content);
    if let Some(content) = new {
        known.learn_content(content);
    }
    state
}

/// Whether an object has nothing to revert: it has its previous state, or all fields that the runs changed have their previous values.
pub(crate) fn is_back(undo: &Undo, now: &State, known: &Knowledge) -> bool {
    let content = |digest: &Digest| known.content(digest).cloned();
    let by_fields = || {
        let object = converge_objects::object(&undo.object.kind).filter(|o| o.cluster().of_api());
        object.is_some_and(|object| object.shared().back(now, &undo.past(), &content).0 == *now)
    };
    same(&undo.object, now, &undo.before) || by_fields()
}

/// The reason why the state before cannot be restored.
pub(crate) fn lost(undo: &Undo) -> Option<String> {
    let forward = Change { object: undo.object.clone(), from: undo.before.clone(), to: undo.left.clone() };
    undo.lost.clone().or_else(|| irreversible(forward).filter(|_| without(&undo.object).is_none()))
}

/// The note on an object that comes back, though not with all that went with it; `None` for any other.
pub(crate) fn without(object: &ObjectId) -> Option<&'static str> {
    converge_objects::object(&object.kind)?.cluster().comes_back_without(&object.key)
}

/// The reason why this change cannot be reverted, as far as the objects know it.
pub(crate) fn irreversible(change: Change) -> Option<String> {
    match planned(change).reversibility {
        Reversibility::Irreversible(why) => Some(why),
        Reversibility::Reversible => None,
    }
}

/// The reason why a change must not be made: it destroys what no snapshot holds, and no user has allowed that by ID.
pub(crate) fn destroys(change: &Change, allowed: &[String]) -> Option<String> {
    let id = change.object.to_string();
    match planned(change.clone()).reversibility {
        // A command's undo destroys nothing that could be kept.
        Reversibility::Irreversible(why) if !is_action(&change.object) && !allowed.contains(&id) => {
            Some(format!("its data would be destroyed ({why}): `--allow-destroy {id}` allows it"))
        }
        _ => None,
    }
}

/// Asks who else owns fields of an object of a cluster.
pub(crate) fn owners_probe(object: &ObjectId) -> Option<Probe> {
    Some(Probe::Api(ApiProbe::Others(api_ref(object)?)))
}

/// The reason why the changes of others between the runs cannot be distinguished from those of the runs: of an object that goes back field by field, contents
/// are missing.
pub(crate) fn undistinguished(undo: &Undo, known: &Knowledge) -> Option<String> {
    let object = converge_objects::object(&undo.object.kind).filter(|o| o.cluster().of_api())?;
    let between = undo.between.iter().flat_map(|(left, found)| [left, found]);
    let mut states = [&undo.before, &undo.left].into_iter().chain(between);
    let is_missing =
        |state: &State| object.content(state).is_some_and(|digest| known.content(&digest).is_none());
    let is_broken = undo.between.iter().any(|(left, found)| left != found);
    let missing = !undo.before.is_absent() && is_broken && states.any(is_missing);
    missing.then(|| {
        "others have changed it between the runs, and the contents that they left are no longer saved"
            .to_owned()
    })
}

/// The text of a state of an object of a cluster, where it is known.
pub(crate) fn text_of(object: &ObjectId, state: &State, known: &Knowledge) -> Option<Value> {
    from_text(known.content(&converge_objects::object(&object.kind)?.content(state)?)?)
}

/// The questions who has changed the objects of a cluster that do not show what runs made of them.
pub(crate) fn changed_probes(undos: &[Undo], known: &Knowledge) -> BTreeSet<Probe> {
    let changed = |undo: &&Undo| {
        let now = known.observed(&undo.object).map(|found| found.state);
        let is_other = |now: &State| !same(&undo.object, now, &undo.before) && !shows(undo, now, known);
        undo.theirs.is_none() && now.is_ok_and(|now| !now.is_absent() && is_other(&now))
    };
    let who = |undo: &Undo| owners_probe(&undo.object).or_else(|| revisions_probe(&undo.object));
    let probes = undos.iter().filter(changed).filter_map(who);
    probes.filter(|probe| !known.knows(probe)).collect()
}

/// Asks for the revisions of a release.
fn revisions_probe(object: &ObjectId) -> Option<Probe> {
    let (namespace, name) = release_of(object)?;
    Some(Probe::Api(ApiProbe::Release { namespace: namespace.to_owned(), name: name.to_owned() }))
}

/// The newest revision of a release, for people.
fn newest_revision(object: &ObjectId, known: &Knowledge) -> Option<String> {
    let Some(Answer::Api(revisions)) = known.answer(&revisions_probe(object)?) else { return None };
    let newest = revisions.get(0)?;
    let word = |at: &str| newest.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (status, chart, version) = (word("/status"), word("/chart/name"), word("/chart/version"));
    Some(format!("revision {} is {status}, {chart}-{version}", newest.get("revision")?))
}

/// The reason why an object stays that does not show what runs made of it: of one in a cluster with the fields and their managers, or the revision.
pub(crate) fn changed_by(undo: &Undo, known: &Knowledge) -> String {
    let text = |state: &State| text_of(&undo.object, state, known);
    let fields = || {
        let Some(Answer::Api(answer)) = known.answer(&owners_probe(&undo.object)?) else { return None };
        let (before, left) = (text(&undo.before), text(&undo.left)?);
        converge_cluster::changed_by(answer.get("object")?, before.as_ref(), &left)
    };
    let fields = fields().or_else(|| newest_revision(&undo.object, known));
    let fields = fields.map(|fields| format!(" ({fields})")).unwrap_or_default();
    let who = undo.unrecorded.who();
    let is_in_cluster =
        converge_objects::object(&undo.object.kind).is_some_and(|o| o.place() == Place::Cluster);
    if is_in_cluster && known.observed(&undo.object).is_ok_and(|now| now.state.is_absent()) {
        let forget = forget(&undo.object);
        return format!("it was taken away by {who}, and is not made again: {forget}");
    }
    let lines = if is_by_lines(&undo.object) { NOT_SAVED } else { "" };
    format!("it was changed by {who}{fields} and is left as it is{lines}")
}

/// The reason why lines that somebody has added by hand keep the lines of the runs, and the next step.
const NOT_SAVED: &str = ": no run has saved it as the last one left it, so its own lines cannot be distinguished from later ones. Take the later change out, roll back again, and make the change anew";

/// The command that ends the matter of an object that is gone for good.
pub(crate) fn forget(object: &ObjectId) -> String {
    format!("`converge state forget {object}` takes it out of the records")
}

/// A workload that a rollback takes away needs no restart.
pub(crate) fn without_gone_workloads(undos: &mut Vec<Undo>) {
    let going = undos.iter().filter(|u| u.before.is_absent());
    let gone: BTreeSet<ApiRef> = going.filter_map(|u| api_ref(&u.object)).collect();
    let runs_in = |object: &ObjectId| {
        let cluster = converge_objects::object(&object.kind)?.cluster();
        cluster.api(&object.key).filter(|_| cluster.needs_pods())
    };
    undos.retain(|u| runs_in(&u.object).is_none_or(|workload| !gone.contains(&workload)));
}

/// The path whose presence says that a command has run, where this is one.
pub(crate) fn creates(object: &ObjectId) -> Option<String> {
    action_of(object).creates(&object.key)
}

/// Whether an object in the state `now` is in this planned state.
pub(crate) fn fulfils(object: &ObjectId, now: &State, planned: &State) -> bool {
    converge_objects::object(&object.kind).map_or(now == planned, |o| o.fulfils(now, planned))
}

/// Whether there is nothing to revert between these states of an object.
pub(crate) fn same(object: &ObjectId, a: &State, b: &State) -> bool {
    converge_objects::object(&object.kind).map_or(a == b, |o| o.shared().same(a, b))
}

pub(crate) fn planned(change: Change) -> PlannedChange {
    let object = converge_objects::object(&change.object.kind);
    PlannedChange {
        // A state that a rollback replaces is saved like every other.
        reversibility: object.map_or(Reversibility::Reversible, |o| o.reversibility(&change)),
        opaque: object.is_none_or(|o| o.opaque(&change)),
        change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revert::judge;
    use crate::revert::tests::undo;
    use converge_objects::k8s::K8sState;
    use converge_resource::Observation;
    use serde_json::json;

    /// The changes of others between two runs are recognised by the contents that these runs left. Where they are missing, nothing is overwritten unasked.
    #[test]
    fn without_the_contents_between_the_runs_an_object_stays() {
        let map = |a: &str, b: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}, "data": {"a": a, "b": b}});
        let [before, first, found, left] =
            [map("0", "0"), map("1", "0"), map("1", "9"), map("2", "9")].map(|object| K8sState::of(&object));
        let state = |of: &(K8sState, Content)| State::from(of.0.clone());
        let mut undo = undo("k8s", "v1/ConfigMap/n/x", "absent", "absent");
        (undo.before, undo.left) = (state(&before), state(&left));
        undo.between = vec![(state(&first), state(&found))];
        let verdict = |contents: &[&(K8sState, Content)], allowed: &[String]| {
            let mut known = Knowledge::default();
            contents.iter().for_each(|(_, content)| known.learn_content(content.clone()));
            known.learn(
                Probe::Object(undo.object.clone()),
                Answer::Object(Observation::new(undo.left.clone(), None)),
            );
            judge(&undo, &mut known, allowed)
        };
        let to = |verdict: Verdict| match verdict {
            Verdict::Back(change) => change.to,
            other => panic!("{other:?}"),
        };
        assert_eq!(to(verdict(&[&before, &first, &found, &left], &[])), state(&K8sState::of(&map("0", "9"))));
        let few = [&before, &left];
        let Verdict::Stays(why) = verdict(&few, &[]) else { panic!("it is overwritten") };
        assert!(why.contains("no longer saved") && why.contains("--allow-destroy"), "{why}");
        assert_eq!(to(verdict(&few, &[undo.object.to_string()])), undo.before);
    }

    /// Fields that somebody else has restored already, beside changes of their own, are nothing to do and no reason for a refusal.
    #[test]
    fn fields_that_are_back_already_are_nothing_to_do() {
        let node = |labels: Value| {
            K8sState::of(
                &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}),
            )
        };
        let (before, left) = (node(json!({"os": "l"})), node(json!({"os": "l", "gpus": "8", "own": "1"})));
        let mut undo = undo("k8s", "v1/Node/n", "absent", "absent");
        (undo.before, undo.left) = (before.0.clone().into(), left.0.clone().into());
        let verdict = |labels: Value| {
            let mut known = Knowledge::default();
            let (now, content) = node(labels);
            [&before.1, &left.1, &content]
                .into_iter()
                .for_each(|content| known.learn_content(content.clone()));
            let observed = Observation::new(now.into(), None);
            known.learn(Probe::Object(undo.object.clone()), Answer::Object(observed));
            judge(&undo, &mut known, &[])
        };
        assert_eq!(verdict(json!({"os": "l", "theirs": "1"})), Verdict::Same);
        let Verdict::Back(change) = verdict(json!({"os": "l", "own": "1", "theirs": "1"})) else {
            panic!("the other label goes still")
        };
        assert_eq!(change.to, node(json!({"os": "l", "theirs": "1"})).0.into());
        assert!(matches!(verdict(json!({"os": "l", "own": "2"})), Verdict::Stays(_)));
    }
}
