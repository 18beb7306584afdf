//! Fields of objects in a cluster that others own beside the project: a rollback and a prune leave them. Pure.

mod owners;

use crate::revert::JudgedUndo;
use crate::revert::undo::{Verdict, back, owners_probe, shows, text_of};
use converge_ledger::Undo;
use converge_objects::K8sState;
use converge_objects::is_of_api;
use converge_objects::k8s::fields::{Field, drop_emptied, leaf_differences, read, shown, with};
use converge_objects::k8s::owners::staying;
use converge_planner::Knowledge;
use converge_resource::{Answer, ApiProbe, ApiRef, Change, Digest, ObjectId, Probe, Segment, State};
use owners::{GivenFields, answer, given_back, others, owned_before, taken_up};
pub(crate) use owners::{
    belongs_to_others, give_fields_back, given_has_changed, has_fields, is_applied, judge_values_of_before,
    others_of, takes_from_others,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The fields of a change that others own too, each with its manager.
type Theirs = Vec<(Field, String)>;

/// The fields of a change that others own too, and those that they do not, or that the runs themselves have given to them.
fn parted(undo: &Undo, change: &Change, known: &Knowledge) -> Option<(Theirs, Vec<Field>)> {
    let (live, own) = answer(&change.object, known)?;
    let (from, to) =
        (text_of(&change.object, &change.from, known)?, text_of(&change.object, &change.to, known)?);
    let given = GivenFields::by(undo);
    let (mut theirs, mut own_fields) = (Vec::new(), Vec::new());
    for field in leaf_differences(&from, &to) {
        let others = others(&field, live, own);
        match others.first() {
            Some(manager) if given.to(&field, live).is_none() => theirs.push((field, manager.clone())),
            _ => own_fields.push(field),
        }
    }
    Some((theirs, own_fields))
}

/// The change without the fields that others own too. A new content becomes known.
pub(crate) fn without_shared(undo: &Undo, from: State, to: State, known: &mut Knowledge) -> Change {
    let change = Change { object: undo.object.clone(), from, to };
    let Some((theirs, own_fields)) = parted(undo, &change, known) else { return change };
    let both = text_of(&change.object, &change.from, known).zip(text_of(&change.object, &change.to, known));
    let Some((from, to)) = both.filter(|_| !theirs.is_empty()) else { return change };
    // Values of a Secret are found by the content that was saved with them.
    let is_value = |field: &Field| {
        field.after.is_some() && matches!(field.path.first(), Some(Segment::Key(key)) if key == "data")
    };
    let secret = ApiRef::from_key(&change.object.key).is_some_and(|object| object.kind == "Secret");
    if secret && own_fields.iter().any(is_value) {
        return change;
    }
    match state_with(&from, &own_fields, &to, known) {
        Some(to) => Change { to, ..change },
        None => change,
    }
}

/// The state of an object in which these fields are as in another one of its states. Its content becomes known. `None` where a field has no place in it.
pub(crate) fn state_with(
    object: &Value,
    fields: &[Field],
    other: &Value,
    known: &mut Knowledge,
) -> Option<State> {
    let mut made = with(object, fields).ok()?;
    drop_emptied(&mut made, fields, other);
    Some(state_of(&made, known))
}

/// The state of an object of a cluster. Its content becomes known.
pub(crate) fn state_of(object: &Value, known: &mut Knowledge) -> State {
    let (state, content) = K8sState::of(object);
    known.learn_content(content);
    state.into()
}

fn is_secret(undo: &Undo) -> bool {
    ApiRef::from_key(&undo.object.key).is_some_and(|object| object.kind == "Secret")
}

/// Takes what later runs of other projects have brought back to where it was out of what goes back: it stays as it is.
pub(crate) fn leave_what_is_back(undo: &mut Undo, known: &mut Knowledge) {
    if undo.theirs.is_none() || !is_of_api(&undo.object) || is_secret(undo) {
        return;
    }
    let text = |state: &State| text_of(&undo.object, state, known);
    let Ok(now) = known.observed(&undo.object) else { return };
    let (Some(now), Some(left), Some(before)) = (text(&now.state), text(&undo.left), text(&undo.before))
    else {
        return;
    };
    let mut fields = leaf_differences(&left, &before);
    fields.retain(|field| read(&now, &field.path) == field.after.as_ref());
    if fields.is_empty() {
        return;
    }
    if let Some(state) = state_with(&left, &fields, &before, known) {
        undo.left = state;
    }
}

/// Lets an object go back that later runs of other projects changed, where these changes touch nothing of what goes back.
pub(crate) fn part_from_later_runs(undo: &mut Undo, known: &mut Knowledge) {
    leave_what_is_back(undo, known);
    let content = |digest: &Digest| known.content(digest).cloned();
    let apart = |undo: &Undo| {
        let object = converge_objects::object(&undo.object.kind);
        object.is_some_and(|object| object.shared().apart(&undo.past(), &undo.since, &content))
    };
    if !undo.since.is_empty() && apart(undo) {
        undo.theirs = None;
    }
}

/// Lets an object go back that other projects have changed too, where it still shows all that this project's runs have set: they changed other fields.
pub(crate) fn part_from_others(undos: &mut [Undo], known: &Knowledge) {
    for undo in undos.iter_mut().filter(|undo| undo.theirs.is_some()) {
        let Ok(now) = known.observed(&undo.object) else { continue };
        if answer(&undo.object, known).is_some() && !undo.before.is_absent() && shows(undo, &now.state, known)
        {
            undo.theirs = None;
        }
    }
}

/// An object that the project which made it has left to this one goes as a whole with this one's part, where nobody else has fields in it.
pub(crate) fn go_with_the_last_part(undos: &mut [Undo], known: &Knowledge) {
    let is_last = |undo: &Undo| match owners_probe(&undo.object).and_then(|probe| known.answer(&probe)) {
        Some(Answer::Api(answer)) => answer.get("whose").is_none_or(Value::is_null),
        _ => false,
    };
    for undo in undos.iter_mut().filter(|undo| undo.is_heir && is_last(undo)) {
        undo.before = State::absent();
        (undo.theirs, undo.lost) = (None, None);
        undo.since.clear();
    }
}

/// Says which fields stay since others own them too.
pub(crate) fn notes(members: &[JudgedUndo], known: &mut Knowledge) -> Vec<String> {
    let mut notes = |judged: &JudgedUndo| {
        let Verdict::Back(change) = &judged.verdict else { return Vec::new() };
        if let Some(note) = taken_up(&judged.undo, change, known) {
            return vec![note];
        }
        let to = back(&judged.undo, &change.from, known);
        let Some((theirs, _)) = parted(&judged.undo, &Change { to, ..change.clone() }, known) else {
            return Vec::new();
        };
        if theirs.is_empty() {
            return given_back(&judged.undo, change, known).into_iter().collect();
        }
        let managers: BTreeSet<&String> = theirs.iter().map(|(_, manager)| manager).collect();
        let note = |manager: &String| {
            let fields = theirs.iter().filter(|(_, of)| of == manager);
            let fields: Vec<String> = fields.map(|(field, _)| shown(&field.path)).collect();
            format!("{}: {}", change.object, staying(&fields, None, &[manager]))
        };
        managers.into_iter().map(note).collect()
    };
    members.iter().flat_map(&mut notes).collect()
}

/// A manifest that names an object and none of its fields.
fn bare(object: &ObjectId) -> Option<Value> {
    let ApiRef { api_version, kind, namespace, name } = ApiRef::from_key(&object.key)?;
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    Some(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

/// The question what the server makes of a manifest.
fn made_probe(manifest: &Value) -> Probe {
    Probe::Api(ApiProbe::Apply { manifest: manifest.to_string(), force: false })
}

/// The question what stays of an object without the fields that the project alone has applied.
fn rest_probe(object: &ObjectId) -> Option<Probe> {
    Some(made_probe(&bare(object)?))
}

/// The question what the server makes of the project's own fields in an object that another project has taken away since. No value of a Secret is known.
fn own_part_probe(undo: &Undo, known: &Knowledge) -> Option<Probe> {
    let left = undo.between.last().filter(|(left, found)| !left.is_absent() && found.is_absent());
    let went = is_of_api(&undo.object) && undo.left.is_absent() && left.is_some();
    let is_gone = || known.observed(&undo.object).is_ok_and(|now| now.state.is_absent());
    if !went || !is_gone() || is_secret(undo) {
        return None;
    }
    let own = Some(owned_before(undo)).filter(|own| !own.is_empty())?;
    let mut manifest = bare(&undo.object)?;
    for (key, value) in own.part(&text_of(&undo.object, &undo.before, known)?).as_object()? {
        match (manifest.get_mut(key).and_then(Value::as_object_mut), value) {
            (Some(named), Value::Object(more)) => named.extend(more.clone()),
            _ => manifest[key] = value.clone(),
        }
    }
    Some(made_probe(&manifest))
}

/// Asks what the objects are without the parts of projects that have taken them away since.
pub(crate) fn own_part_probes(undos: &[Undo], known: &Knowledge) -> BTreeSet<Probe> {
    undos.iter().filter_map(|undo| own_part_probe(undo, known)).collect()
}

/// Of an object that another project has taken away since, with its own part, the project's own fields come back.
pub(crate) fn bring_own_part_back(undos: &mut [Undo], known: &mut Knowledge) {
    for undo in undos {
        let answer = own_part_probe(undo, known).and_then(|probe| known.answer(&probe));
        let Some(Answer::Api(answer)) = answer else { continue };
        let Some(made) = answer.get("object") else { continue };
        let (state, content) = K8sState::of(made);
        known.learn_content(content);
        undo.before = state.into();
        undo.between.clear();
        undo.open = None;
    }
}

/// Whether a prune takes an object away in which another project (these are their objects) has fields.
fn is_shared(undo: &Undo, others: &BTreeSet<&ObjectId>, known: &Knowledge) -> bool {
    let whose = || match known.answer(&owners_probe(&undo.object)?) {
        Some(Answer::Api(answer)) => answer.get("whose")?.as_str().map(str::to_owned),
        _ => None,
    };
    undo.before.is_absent() && others.contains(&undo.object) && whose().is_some()
}

/// Asks what stays of the objects in which other projects have fields.
pub(crate) fn rest_probes(
    undos: &[Undo],
    others: &BTreeSet<&ObjectId>,
    known: &Knowledge,
) -> BTreeSet<Probe> {
    undos.iter().filter(|u| is_shared(u, others, known)).filter_map(|u| rest_probe(&u.object)).collect()
}

/// An object that a run of the project made, and in which another project has fields by now, stays: the project's own fields go. Where the server would not
/// have it without them, it is left as it is.
pub(crate) fn leave_the_rest(undos: &mut [Undo], others: &BTreeSet<&ObjectId>, known: &mut Knowledge) {
    for undo in undos {
        if !is_shared(undo, others, known) {
            continue;
        }
        let answer = rest_probe(&undo.object).and_then(|probe| known.answer(&probe));
        let Some(Answer::Api(answer)) = answer else { continue };
        let (Some(rest), Ok(now)) = (answer.get("object"), known.observed(&undo.object)) else { continue };
        let (state, content) = K8sState::of(rest);
        known.learn_content(content);
        (undo.left, undo.before) = (now.state, state.into());
        undo.between.clear();
        (undo.open, undo.theirs) = (None, None);
    }
}
