//! What runs have done on its way back: composed of their records, judged by what is there now, and made items of a plan. Pure.

use converge_planner::{HostPlan, Item, Knowledge, Outcome, PlannedChange, Problem};
use converge_resource::{
    Answer, ApiProbe, ApiRef, Change, Content, Digest, Disruption, ObjectId, Past, Place, Probe,
    Reversibility, State, WayBack,
};
use converge_store::host::{RunRecord, SavedChange, SavedOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// One object on its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    pub object: ObjectId,
    /// What the runs left; anything else is someone else's.
    pub left: State,
    /// Where it was before them.
    pub before: State,
    /// What each run but the last one left, and what the next one found.
    pub between: Vec<(State, State)>,
    /// The item that changed it last.
    pub item: String,
    pub sensitive: bool,
    /// The run whose records hold the state before.
    pub run: String,
    /// It went with another object, and comes back with it first: in the state that the run left.
    pub comes_back: bool,
    /// Why it cannot be undone, when the run itself said so.
    pub lost: Option<String>,
    /// What it needs besides the states.
    pub way_back: Option<WayBack>,
}

impl Undo {
    fn past(&self) -> Past<'_, State> {
        Past { before: &self.before, left: &self.left, between: &self.between }
    }
}

/// What the changes of these runs, oldest first, come to: one entry an object, in the reverse of the order in which the runs first
/// touched them. What was mended later still goes before what it stands on: a user before its group.
pub(crate) fn compose(runs: &[&RunRecord]) -> Vec<Undo> {
    let mut undos: Vec<Undo> = Vec::new();
    let restart =
        |c: &SavedChange| converge_objects::object(&c.object.kind).is_some_and(|o| o.restarts_host());
    let changes = runs.iter().flat_map(|r| r.changes.iter().map(|c| (r.id.as_str(), c)));
    // What the host has restarted for stays so.
    let passes = |c: &SavedChange| converge_objects::object(&c.object.kind).is_some_and(|o| o.passes());
    // What helm has moved in a cluster goes back with its release.
    let moved = |c: &SavedChange| {
        let place = converge_objects::object(&c.object.kind).map(|o| o.place());
        c.outcome == SavedOutcome::Moved && place == Some(Place::Cluster)
    };
    let changes = changes.filter(|(_, c)| !restart(c) && !passes(c) && !moved(c));
    for (run, change) in changes.filter(|(_, c)| c.may_have_happened()) {
        let place = undos.iter().position(|u| u.object == change.object);
        let earlier = place.map(|at| undos.remove(at));
        let undo = Undo {
            object: change.object.clone(),
            left: change.after.clone(),
            before: earlier.as_ref().map_or_else(|| change.before.clone(), |u| u.before.clone()),
            between: earlier.as_ref().map_or_else(Vec::new, |u| {
                let step = (u.left.clone(), change.before.clone());
                u.between.iter().cloned().chain([step]).collect()
            }),
            item: change.item.clone(),
            comes_back: false,
            sensitive: change.sensitive || earlier.as_ref().is_some_and(|u| u.sensitive),
            run: earlier.as_ref().map_or_else(|| run.to_owned(), |u| u.run.clone()),
            lost: change.unsaved.clone().or_else(|| earlier.as_ref().and_then(|u| u.lost.clone())),
            way_back: change.way_back.clone().or_else(|| earlier.and_then(|u| u.way_back)),
        };
        undos.insert(place.unwrap_or(undos.len()), undo);
    }
    undos.reverse();
    in_turn_within_their_role(&mut undos);
    go_with_what_brought_them(&mut undos);
    undos
}

/// Within each role, what a host's part in its cluster is comes first ([`converge_resource::Object::STAYS_UNLESS_ALLOWED`]): a node leaves while its
/// kubelet runs. What is seen to last ([`converge_resource::Object::BACK_LAST`]) comes behind all else of its role, and not behind other roles: these
/// wait for this one. All the rest keeps its order.
pub(crate) fn in_turn_within_their_role(undos: &mut [Undo]) {
    let turn = |u: &Undo| match converge_objects::object(&u.object.kind) {
        Some(object) if object.stays_unless_allowed() => 0,
        Some(object) if object.back_last() => 2,
        _ => 1,
    };
    for at in 0..undos.len() {
        let Some(undo) = undos.get(at).filter(|u| turn(u) == 0) else { continue };
        let earlier =
            undos.iter().take(at).position(|u| turn(u) != 0 && role_of(&u.item) == role_of(&undo.item));
        if let Some(passed) = earlier.and_then(|first| undos.get_mut(first..=at)) {
            passed.rotate_right(1);
        }
    }
    for at in (0..undos.len()).rev() {
        let Some(undo) = undos.get(at).filter(|u| turn(u) == 2) else { continue };
        let later = undos.iter().rposition(|u| turn(u) != 2 && role_of(&u.item) == role_of(&undo.item));
        if let Some(passed) = later.and_then(|last| undos.get_mut(at..=last)) {
            passed.rotate_left(1);
        }
    }
}

/// What was there only through another object that goes, goes with it, and comes back with it: a unit with its file.
pub(crate) fn go_with_what_brought_them(undos: &mut [Undo]) {
    let object = |id: &ObjectId| converge_objects::object(&id.kind);
    let bare = |id: &ObjectId, state: &State| object(id).is_some_and(|o| o.bare(state));
    let brought = |undos: &[Undo], absent: &dyn Fn(&Undo) -> bool| -> BTreeSet<ObjectId> {
        let those = undos.iter().filter(|u| absent(u));
        let brings = |u: &Undo| Some(object(&u.object)?.brings(&u.object.key, &State::absent(), None));
        those.filter_map(brings).flatten().map(|(id, _)| id).collect()
    };
    let goes = brought(undos, &|u| u.before.is_absent());
    let comes = brought(undos, &|u| u.left.is_absent() && !u.before.is_absent());
    for undo in undos {
        if goes.contains(&undo.object) && bare(&undo.object, &undo.before) {
            undo.before = State::absent();
        }
        undo.comes_back = comes.contains(&undo.object) && bare(&undo.object, &undo.left);
    }
}

/// What one item of one run changed goes back together.
pub(crate) fn by_item(undos: Vec<Undo>) -> Vec<(String, Vec<Undo>)> {
    let mut groups: Vec<(String, Vec<Undo>)> = Vec::new();
    for undo in undos {
        match groups.last_mut() {
            Some((item, members)) if *item == undo.item && members.iter().all(|m| m.run == undo.run) => {
                members.push(undo);
            }
            _ => groups.push((undo.item.clone(), vec![undo])),
        }
    }
    groups
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

/// What the items claim, as it was seen.
pub(crate) fn base_of(plan: &HostPlan, known: &Knowledge) -> Vec<(ObjectId, State)> {
    let claims = plan.items.iter().flat_map(|i| &i.claims);
    claims.filter_map(|o| known.observed(o).ok().map(|seen| (o.clone(), seen.state))).collect()
}

/// Whether the object still shows what the runs made of it.
pub(crate) fn shows(undo: &Undo, now: &State, known: &Knowledge) -> bool {
    let content = |digest: &Digest| known.content(digest).cloned();
    match converge_objects::object(&undo.object.kind) {
        Some(object) => object.shows(now, &undo.past(), &content),
        None => *now == undo.left,
    }
}

/// What becomes of the object, which is in the state `now` and still shows what the runs made of it. A new content becomes known.
fn back(undo: &Undo, now: &State, known: &mut Knowledge) -> State {
    let content = |digest: &Digest| known.content(digest).cloned();
    let Some(object) = converge_objects::object(&undo.object.kind) else { return undo.before.clone() };
    let (state, new) = object.back(now, &undo.past(), &content);
    if let Some(content) = new {
        known.learn_content(content);
    }
    state
}

/// Why the state before cannot be restored.
pub(crate) fn lost(undo: &Undo) -> Option<String> {
    let forward = Change { object: undo.object.clone(), from: undo.before.clone(), to: undo.left.clone() };
    let lost_now = match planned(forward).reversibility {
        Reversibility::Irreversible(why) => Some(why),
        Reversibility::Reversible => None,
    };
    undo.lost.clone().or(lost_now)
}

/// The items that stay since one that comes before them on the way back does, by their addresses, and why: what stands on them stays. A node in its
/// cluster comes first, and so keeps its whole role: the kubelet, the network of its pods.
pub(crate) fn staying(undos: &[Undo], known: &Knowledge, allowed: &[String]) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<&str, &Undo> = BTreeMap::new();
    let mut stay = BTreeMap::new();
    // What a join has brought besides stays with it.
    let whole =
        |undo: &Undo| converge_objects::object(&undo.object.kind).is_some_and(|o| o.stays_unless_allowed());
    for undo in undos {
        match kept.get(role_of(&undo.item)) {
            Some(first) if first.item != undo.item || whole(first) => {
                let why = format!("`{}` stays, and so does what belongs to it", first.item);
                stay.insert(undo.item.clone(), why);
            }
            None if is_kept(undo, known, allowed) => {
                kept.insert(role_of(&undo.item), undo);
            }
            _ => {}
        }
    }
    stay
}

/// Whether an object stays because its way back would destroy what nobody has allowed by name.
fn is_kept(undo: &Undo, known: &Knowledge, allowed: &[String]) -> bool {
    let Ok(seen) = known.observed(&undo.object) else { return false };
    let back = Change { object: undo.object.clone(), from: seen.state, to: undo.before.clone() };
    shows(undo, &back.from, known)
        && back.from != back.to
        && lost(undo).is_none()
        && destroys(&back, allowed).is_some()
}

/// Why a change must not be made: it destroys what no snapshot holds, and nobody has allowed that by name.
pub(crate) fn destroys(change: &Change, allowed: &[String]) -> Option<String> {
    let id = change.object.to_string();
    match planned(change.clone()).reversibility {
        // A command's undo destroys nothing that could be kept.
        Reversibility::Irreversible(why) if change.object.kind != "command" && !allowed.contains(&id) => {
            Some(format!("it would be lost for good ({why}): `--allow-destroy {id}` allows it"))
        }
        _ => None,
    }
}

/// Asks who else owns what is to be taken away from a cluster.
pub(crate) fn owners_probe(object: &ObjectId, before: &State) -> Option<Probe> {
    let goes = object.kind == "k8s" && before.is_absent();
    goes.then(|| ApiRef::from_key(&object.key).map(|wanted| Probe::Api(ApiProbe::Get(wanted)))).flatten()
}

/// Why an object must not be taken away: it is others' too, and nobody has allowed it by name.
pub(crate) fn takes_from_others(change: &Change, known: &Knowledge, allowed: &[String]) -> Option<String> {
    let id = change.object.to_string();
    let probe = owners_probe(&change.object, &change.to).filter(|_| !allowed.contains(&id))?;
    let Some(Answer::Api(live)) = known.answer(&probe) else { return None };
    Some(format!("{}: `--allow-destroy {id}` allows it", converge_cluster::whose_else(live)?))
}

/// The items of its role that must have gone back before this one: the latest that goes back at all, so that a failure stops the rest of the
/// role, as it does on the way there; and those whose things stand on it, though they stay: a host that could not be taken out of its cluster
/// keeps the kubelet.
pub(crate) fn stand_on_it(before: &[Item], item: &Item) -> Vec<u32> {
    let stays = |planned: &PlannedChange| {
        converge_objects::object(&planned.change.object.kind).is_some_and(|o| o.stays_unless_allowed())
    };
    let of_role = || before.iter().filter(|i| i.role == item.role);
    let latest = of_role().rfind(|i| i.is_pending());
    let kept = of_role().filter(|i| i.changes().iter().any(stays));
    let all: BTreeSet<u32> = kept.chain(latest).map(|i| i.id).collect();
    all.into_iter().collect()
}

pub(crate) fn role_of(address: &str) -> &str {
    address.split_once('/').map_or(address, |(role, _)| role)
}

/// A workload that a rollback takes away needs no restart.
pub(crate) fn without_gone_workloads(undos: &mut Vec<Undo>) {
    let gone: BTreeSet<String> = undos
        .iter()
        .filter(|u| u.object.kind == "k8s" && u.before.is_absent())
        .map(|u| u.object.key.clone())
        .collect();
    undos.retain(|u| u.object.kind != "workload" || !gone.contains(&u.object.key));
}

/// Whether there is nothing to put back between these states of an object.
pub(crate) fn same(object: &ObjectId, a: &State, b: &State) -> bool {
    converge_objects::object(&object.kind).map_or(a == b, |o| o.same(a, b))
}

/// One item of a rollback: all objects that one item of the run changed. `stay` is of [`staying`].
pub(crate) fn undo_item(
    id: u32,
    address: &str,
    members: Vec<Undo>,
    known: &mut Knowledge,
    allow_destroy: &[String],
    stay: &BTreeMap<String, String>,
) -> Item {
    let mut changes = Vec::new();
    let mut moved = Vec::new();
    let mut lost = Vec::new();
    let claims = members.iter().map(|u| u.object.clone()).collect();
    let sensitive = members.iter().any(|u| u.sensitive);
    let from_run = members.first().map(|u| u.run.clone()).unwrap_or_default();
    let mut way_back = None;
    for undo in members {
        let now = match known.observed(&undo.object) {
            Ok(seen) if seen.state.is_absent() && undo.comes_back => undo.left.clone(),
            Ok(seen) => seen.state,
            Err(_) => {
                moved.push(format!("{} cannot be looked at", undo.object));
                continue;
            }
        };
        if same(&undo.object, &now, &undo.before) {
            continue;
        }
        if !shows(&undo, &now, known) {
            moved.push(format!("{} was changed by someone else since: it is left as it is", undo.object));
            continue;
        }
        if let Some(why) = self::lost(&undo) {
            lost.push(format!("{}: {why}", undo.object));
            continue;
        }
        let to = back(&undo, &now, known);
        let back = Change { object: undo.object, from: now, to };
        let stays = || takes_from_others(&back, known, allow_destroy);
        if let Some(why) = destroys(&back, allow_destroy).or_else(stays) {
            moved.push(format!("{}: {why}", back.object));
            continue;
        }
        way_back = way_back.or(undo.way_back);
        changes.push(back);
    }
    let mut notes = moved.clone();
    notes.extend(lost.iter().map(|l| format!("cannot be undone: {l}")));
    let outcome = if let Some(why) = stay.get(address).filter(|_| !changes.is_empty()) {
        Outcome::Refused(why.clone())
    } else if !changes.is_empty() {
        Outcome::Changed(changes.into_iter().map(planned).collect())
    } else if !moved.is_empty() {
        Outcome::Refused(moved.join("; "))
    } else if !lost.is_empty() {
        Outcome::Failed(Problem::new(format!("cannot be undone: {}", lost.join("; "))))
    } else {
        Outcome::Unchanged
    };
    let disruption = match &outcome {
        Outcome::Changed(changes) => converge_planner::disruption(changes),
        _ => Disruption::None,
    };
    // What it destroys, though somebody has allowed it, is brought to this machine before.
    let backup = match &outcome {
        Outcome::Changed(changes) => changes.iter().find_map(|planned| {
            let object = converge_objects::object(&planned.change.object.kind)?;
            object.backup(&planned.change)
        }),
        _ => None,
    };
    let item = Item {
        id,
        address: address.to_owned(),
        name: address.split_once('/').map_or(address, |(_, name)| name).to_owned(),
        role: role_of(address).to_owned(),
        kind: "rollback".to_owned(),
        claims,
        outcome,
        notes,
        sensitive,
        disruption,
        backup,
        way_back,
        // Accounts are restored from what that run has kept of them.
        settings: vec![("CV_FROM_RUN".to_owned(), from_run)],
        ..Item::default()
    };
    Item { guard: converge_planner::guard_of(&item), ..item }
}

pub(crate) fn planned(change: Change) -> PlannedChange {
    let object = converge_objects::object(&change.object.kind);
    PlannedChange {
        // What a rollback replaces is saved like every change.
        reversibility: object.map_or(Reversibility::Reversible, |o| o.reversibility(&change)),
        opaque: object.is_none_or(|o| o.opaque(&change)),
        change,
    }
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
