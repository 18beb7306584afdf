//! Follows the owners of an object's fields in a cluster through recorded runs, and judges what a rollback may take again. Pure.

use crate::revert::undo::{Verdict, changed_by, is_back, owners_probe, text_of};
use crate::revert::{JudgedUndo, RevertGroup};
use converge_ledger::Undo;
use converge_objects::is_of_api;
use converge_objects::k8s::field_set::FieldSet;
use converge_objects::k8s::fields::{Field, FieldPath, leaf_differences, moved, shown};
use converge_objects::k8s::owners::{entries, is_own, owners_of_part, staying};
use converge_planner::Knowledge;
use converge_resource::{Answer, ApiRef, Change, FIELD_MANAGER, FieldOwners, ObjectId, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The server's answer about the owners of an object: the object, and the project's own manager.
pub(super) fn answer<'k>(object: &ObjectId, known: &'k Knowledge) -> Option<(&'k Value, &'k str)> {
    let Some(Answer::Api(answer)) = known.answer(&owners_probe(object)?) else { return None };
    Some((answer.get("object")?, answer.get("manager")?.as_str()?))
}

/// The managers of a field other than the project's own.
pub(super) fn others(field: &Field, live: &Value, own: &str) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = owners_of_part(live, &field.path).into_iter().collect();
    all.retain(|manager| ![own, FIELD_MANAGER].contains(&manager.as_str()));
    all
}

/// The managers of a field of an object other than the project's own.
pub(crate) fn others_of(object: &ObjectId, path: &FieldPath, known: &Knowledge) -> BTreeSet<String> {
    let field = Field { path: path.clone(), before: None, after: None };
    answer(object, known).map(|(live, own)| others(&field, live, own)).unwrap_or_default()
}

/// Whether the project owns a field by an apply: its manifest declares it.
pub(crate) fn is_applied(object: &ObjectId, path: &FieldPath, known: &Knowledge) -> bool {
    let Some((live, own)) = answer(object, known) else { return false };
    let applied = |entry: &&Value| {
        entry.get("operation").and_then(Value::as_str) == Some("Apply") && is_own(entry, own)
    };
    let set: FieldSet = entries(live).filter(applied).map(FieldSet::of).collect();
    !set.within(path, live).is_empty()
}

/// The fields that some runs gave to others, each with these: fields that they brought back, and those that the project owned before them and that they gave
/// up.
#[derive(Default)]
pub(super) struct GivenFields {
    brought: FieldSet,
    lost: FieldSet,
    others: Vec<(String, FieldSet)>,
}

impl GivenFields {
    pub(super) fn by(undo: &Undo) -> Self {
        let mut given = Self::default();
        for owners in &undo.owners {
            let Some(owners) = owners else {
                // Nobody knows what became of it.
                given = Self::default();
                continue;
            };
            let (found, left) = (all(&owners.found), all(&owners.left));
            let (had, has) = (by_manager(&owners.others_found), by_manager(&owners.others_left));
            let news = has.iter().map(|(manager, set)| match had.get(manager) {
                Some(had) => set.without(had),
                None => set.clone(),
            });
            let (lost, brought): (_, FieldSet) = (found.without(&left), news.collect());
            // The project has taken these again.
            let of_all = |of: &BTreeMap<String, FieldSet>| of.values().cloned().collect::<FieldSet>();
            let again = left.without(&found).or(&of_all(&had).without(&of_all(&has)));
            let new = lost.or(&brought);
            given.keep(&|set| set.without(&again).without(&new));
            given.others.extend(has.into_iter().map(|(manager, set)| (manager, set.and(&new))));
            (given.lost, given.brought) = (given.lost.or(&lost), given.brought.or(&brought));
        }
        given.lost = given.lost.and(&owned_before(undo));
        given
    }

    fn keep(&mut self, part: &dyn Fn(&FieldSet) -> FieldSet) {
        (self.lost, self.brought) = (part(&self.lost), part(&self.brought));
        self.others.iter_mut().for_each(|(_, set)| *set = part(set));
    }

    /// The managers to whom the runs left a field; `None` where they did not give it to anybody.
    pub(super) fn to(&self, field: &Field, live: &Value) -> Option<BTreeSet<String>> {
        let has = |set: &FieldSet| !set.touching(&field.path, live, set).is_empty();
        let others = || self.others.iter().filter(|(_, set)| has(set)).map(|(manager, _)| manager.clone());
        (has(&self.lost) || self.has_brought(field, live)).then(|| others().collect())
    }

    /// Whether the runs brought a field back for another manager.
    fn has_brought(&self, field: &Field, live: &Value) -> bool {
        !self.brought.touching(&field.path, live, &self.brought).is_empty()
    }
}

/// The fields of each manager. The plain name was that of every project once.
fn by_manager(entries: &[Value]) -> BTreeMap<String, FieldSet> {
    let mut all: BTreeMap<String, FieldSet> = BTreeMap::new();
    for entry in entries {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let set = all.entry(manager.to_owned()).or_default();
        *set = set.or(&FieldSet::of(entry));
    }
    all.remove(FIELD_MANAGER);
    all
}

/// The reason why a change is not made: a field that the runs gave up has changed hands since. Or why an object must not be taken away: it is others' too,
/// or holds what others wrote over the values that the runs left, and no user has allowed it by ID.
pub(crate) fn takes_from_others(
    undo: &Undo,
    back: &Change,
    known: &Knowledge,
    allowed: &[String],
) -> Option<String> {
    if let Some(why) = changed_hands(undo, back, known) {
        return Some(why);
    }
    let id = back.object.to_string();
    let goes = back.to.is_absent() && !allowed.contains(&id);
    let probe = owners_probe(&back.object).filter(|_| goes)?;
    let Some(Answer::Api(answer)) = known.answer(&probe) else { return None };
    let live = answer.get("object")?;
    let text = |state: &State| text_of(&back.object, state, known);
    let whose = if is_left_to_release(undo, back, known) { "whose_of_release" } else { "whose" };
    let whose = answer.get(whose).and_then(Value::as_str).map(str::to_owned);
    let edited = || {
        let left: Vec<Value> = std::iter::once(&undo.left).chain(&undo.open).filter_map(text).collect();
        let secret = undo.sensitive || ApiRef::from_key(&back.object.key).is_some_and(|r| r.kind == "Secret");
        let between = undo.between.iter().filter_map(|(left, found)| Some((text(left)?, text(found)?)));
        let edits = converge_cluster::edited_since(live, &between.collect::<Vec<_>>(), &left, secret)?;
        Some(format!("it was changed by {}: {edits}", undo.unrecorded.who()))
    };
    let fields = || {
        let fields = converge_cluster::changed_by(live, None, &text(&undo.left)?)?;
        Some(format!(" ({fields})"))
    };
    let whose = whose.map(|whose| format!("{whose}{}", fields().unwrap_or_default()));
    let why = whose.or_else(edited)?;
    Some(format!("{why}: `--allow-destroy {id}` allows it"))
}

/// Whether runs left it as an object of the release to which it belongs. One that the project itself has fields in was made by its own name, and a helm of
/// somebody else has taken it over, unless it was helm's when the first of the runs had made it.
fn is_left_to_release(undo: &Undo, back: &Change, known: &Knowledge) -> bool {
    let Some((live, own)) = answer(&back.object, known) else { return false };
    let left = std::iter::once(&undo.left).chain(&undo.open);
    let left = left.filter_map(|state| text_of(&back.object, state, known));
    let is_helm = |entry: &Value| entry.get("manager").and_then(Value::as_str) == Some("helm");
    let first = undo.owners.first().and_then(Option::as_ref);
    let was_helms = || first.is_some_and(|owners| owners.others_left.iter().any(is_helm));
    let is_made = fields_of(live, own).is_empty() || was_helms();
    is_made && left.into_iter().any(|left| converge_cluster::is_of_one_release(&left, live))
}

/// The reason why a run must not take an object away that a role wants to be absent: it is others' too, and no user has allowed it by ID.
pub(crate) fn belongs_to_others(change: &Change, known: &Knowledge, allowed: &[String]) -> Option<String> {
    let id = change.object.to_string();
    let goes = change.to.is_absent() && !allowed.contains(&id);
    let Some(Answer::Api(answer)) = known.answer(&owners_probe(&change.object).filter(|_| goes)?) else {
        return None;
    };
    let whose = answer.get("whose")?.as_str()?;
    Some(format!("{whose}: `--allow-destroy {id}` allows it"))
}

/// All fields of some entries.
fn all(entries: &[Value]) -> FieldSet {
    entries.iter().map(FieldSet::of).collect()
}

/// The fields that the project owned before the first of the changes, as far as the records tell.
pub(super) fn owned_before(undo: &Undo) -> FieldSet {
    undo.owners.first().and_then(Option::as_ref).map(|owners| all(&owners.found)).unwrap_or_default()
}

/// The reason why an object stays of which the runs gave a field up that has come to belong to others since.
fn changed_hands(undo: &Undo, change: &Change, known: &Knowledge) -> Option<String> {
    let (live, own) = answer(&change.object, known)?;
    let (from, to) =
        (text_of(&change.object, &change.from, known)?, text_of(&change.object, &change.to, known)?);
    let given = GivenFields::by(undo);
    leaf_differences(&from, &to).iter().find_map(|field| {
        let (then, now) = (given.to(field, live)?, others(field, live, own));
        let names = |all: &BTreeSet<String>| all.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let given =
            if then.is_empty() { String::new() } else { format!(" was given to {}, and", names(&then)) };
        (!now.is_empty() && now != then).then(|| {
            format!("{}{given} belongs to {} by now: it is left as it is", shown(&field.path), names(&now))
        })
    })
}

/// The reason why an object stays in which a field that the runs brought back for another manager has another value by now, whatever else goes back.
pub(crate) fn given_has_changed(undo: &Undo, now: &State, known: &Knowledge) -> Option<String> {
    let (live, _) = answer(&undo.object, known)?;
    let text = |state: &State| text_of(&undo.object, state, known);
    let given = GivenFields::by(undo);
    let changed = moved(&text(&undo.left)?, &text(now)?, text(&undo.before).as_ref());
    changed.iter().any(|field| given.has_brought(field, live)).then(|| changed_by(undo, known))
}

/// The verdict on an object that has its previous values, or of which the runs changed nothing but owners; `None` for any other.
pub(crate) fn judge_values_of_before(undo: &Undo, now: &State, known: &Knowledge) -> Option<Verdict> {
    judge_owners(undo, now, known).or_else(|| is_back(undo, now, known).then_some(Verdict::Same))
}

/// The verdict on an object of which nothing but the owners goes back; `None` for any other.
fn judge_owners(undo: &Undo, now: &State, known: &Knowledge) -> Option<Verdict> {
    let moved = MovedOwners::by(undo, now, known)?;
    let back = Change { object: undo.object.clone(), from: now.clone(), to: now.clone() };
    if let Some(why) = brought_to_others_since(undo, known).filter(|_| !moved.comes.is_empty()) {
        return Some(Verdict::Stays(why));
    }
    Some(if !moved.comes.is_empty() || !moved.goes.is_empty() {
        Verdict::Back(back)
    } else if moved.differs.is_empty() {
        Verdict::Same
    } else {
        Verdict::Stays(format!("{} has been changed since and is left as it is", moved.differs.join(", ")))
    })
}

/// The reason why owners stay where fields that the runs brought back for others belong to still others by now.
fn brought_to_others_since(undo: &Undo, known: &Knowledge) -> Option<String> {
    let (live, own) = answer(&undo.object, known)?;
    let given = GivenFields::by(undo);
    let brought = |all: BTreeMap<String, FieldSet>| -> BTreeMap<String, FieldSet> {
        let part = all.into_iter().map(|(manager, set)| (manager, set.and(&given.brought)));
        part.filter(|(_, set)| !set.is_empty()).collect()
    };
    let mut then: BTreeMap<String, FieldSet> = BTreeMap::new();
    for (manager, set) in &given.others {
        let all = then.entry(manager.clone()).or_default();
        *all = all.or(set);
    }
    let others: Vec<Value> = entries(live).filter(|entry| !is_own(entry, own)).cloned().collect();
    let (then, now) = (brought(then), brought(by_manager(&others)));
    let names = |all: &BTreeMap<String, FieldSet>| all.keys().cloned().collect::<Vec<_>>().join(", ");
    let fields: Vec<String> = given.brought.outermost().into_iter().map(|(path, _)| path).collect();
    (!now.is_empty() && now != then).then(|| {
        format!(
            "{} was given to {}, and belongs to {} by now: it is left as it is",
            fields.join(", "),
            names(&then),
            names(&now)
        )
    })
}

/// The fields of which nothing but the owners goes back, for people.
struct MovedOwners {
    /// They are the project's own again with the state before.
    comes: Vec<String>,
    /// They are no longer.
    goes: Vec<String>,
    /// They were its own, and have another value by now.
    differs: Vec<String>,
}

impl MovedOwners {
    /// `None` where the runs have changed no owners, or values that nobody has restored.
    fn by(undo: &Undo, now: &State, known: &Knowledge) -> Option<Self> {
        let is_moved = |owners: &Option<FieldOwners>| owners.as_ref().is_some_and(FieldOwners::moved);
        let is_back = undo.theirs.is_none() && is_back(undo, now, known);
        let is_same = is_back || undo.states.iter().all(|known| known.state == undo.before);
        let last = undo.owners.last()?.as_ref().filter(|_| is_same && undo.owners.iter().any(is_moved))?;
        let (live, own) = answer(&undo.object, known)?;
        let (then, now) = (text_of(&undo.object, &undo.before, known)?, text_of(&undo.object, now, known)?);
        let (before, owned) = (owned_before(undo), fields_of(live, own));
        let (lost, gained) =
            (before.without(&owned).present(&then), owned.and(&all(&last.left)).without(&before));
        let same = lost.same(&then, &now, &lost.or(&entries(live).map(FieldSet::of).collect()));
        let shown = |set: &FieldSet| set.outermost().into_iter().map(|(path, _)| path).collect();
        Some(Self { comes: shown(&same), goes: shown(&gained), differs: shown(&lost.without(&same)) })
    }
}

/// Says of an object whose owners alone go back which fields are the project's own again, and which are no longer.
pub(super) fn taken_up(undo: &Undo, change: &Change, known: &Knowledge) -> Option<String> {
    let MovedOwners { comes, goes, .. } = MovedOwners::by(undo, &change.from, known)?;
    let (fields, now) =
        if comes.is_empty() { (goes, "no longer this project's") } else { (comes, "this project's again") };
    Some(format!("{}: {}", change.object, staying(&fields, Some(now), &[])))
}

/// Whether the project owns fields of an object of a cluster.
pub(crate) fn has_fields(object: &ObjectId, known: &Knowledge) -> bool {
    answer(object, known).is_some_and(|(live, own)| !fields_of(live, own).is_empty())
}

/// Objects that a prune finds as before already, with fields of the project: these fields go back to their previous owners, and that is a change of its own.
pub(crate) fn give_fields_back(groups: &mut [RevertGroup], known: &Knowledge) {
    for JudgedUndo { undo, verdict, .. } in groups.iter_mut().flat_map(|group| &mut group.members) {
        let gives = *verdict == Verdict::Same && is_of_api(&undo.object) && has_fields(&undo.object, known);
        let now = known.observed(&undo.object).ok().filter(|now| gives && !now.state.is_absent());
        if let Some(now) = now {
            let (object, to) = (undo.object.clone(), now.state.clone());
            *verdict = Verdict::Back(Change { object, from: now.state, to });
        }
    }
}

/// Says of an object of which a prune gives back nothing but fields which these are.
pub(super) fn given_back(undo: &Undo, change: &Change, known: &Knowledge) -> Option<String> {
    let (live, own) = answer(&change.object, known).filter(|_| change.from == change.to)?;
    let fields = fields_of(live, own).present(live).outermost().into_iter().map(|(path, _)| path);
    let fields: Vec<String> = fields.collect();
    let back = "given back to whom it belonged before";
    (undo.owners.is_empty() && !fields.is_empty())
        .then(|| format!("{}: {}", change.object, staying(&fields, Some(back), &[])))
}

/// The fields that a manager owns of an object.
fn fields_of(live: &Value, own: &str) -> FieldSet {
    entries(live).filter(|entry| is_own(entry, own)).map(FieldSet::of).collect()
}
