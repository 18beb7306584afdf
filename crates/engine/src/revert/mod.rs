//! Reverts of one host: judged by what is there now, put in order, and made items of a plan. Only what asks a target waits.

pub(crate) mod accounts;
mod admission;
mod asked;
pub(crate) mod directories;
pub(crate) mod flags;
pub(crate) mod gone;
pub(crate) mod holders;
pub(crate) mod layers;
mod left;
pub(crate) mod lines;
pub(crate) mod made_in;
mod movers;
mod needs;
pub(crate) mod nodes;
pub(crate) mod order;
pub(crate) mod package_files;
mod packages;
pub(crate) mod paths;
pub(crate) mod releases;
pub(crate) mod restarts;
pub(crate) mod saved;
pub(crate) mod sealed;
pub(crate) mod shared;
pub(crate) mod sight;
pub(crate) mod undo;

pub(crate) use crate::revert::accounts::AccountChanges;
pub(crate) use crate::revert::asked::{complete, leave_what_cannot_go, translate_accounts};
use crate::revert::layers::sights;
use crate::revert::left::name_what_stays;
use crate::revert::needs::groups_before;
pub(crate) use crate::revert::needs::needs;
use crate::revert::order::Revert;
use crate::revert::sight::Sight;
use crate::revert::undo::{
    Verdict, back, begun, changed_by, creates, destroys, is_half_installed, is_midway, lost, planned, same,
    shows, undistinguished, without,
};
use converge_ledger::{Lead, Undo};
use converge_objects::action_of;
use converge_objects::path::within;
use converge_planner::{Item, ItemOrigin, Knowledge, Outcome, Problem};
use converge_resource::{Answer, Change, Disruption, ObjectId, Probe, State, name_of, role_of};
use std::collections::{BTreeMap, BTreeSet};

impl Verdict {
    fn stays(&self) -> bool {
        matches!(self, Self::Stays(_) | Self::NotAllowed(_) | Self::Lost(_))
    }
}

/// An object with what is to be done with it.
#[derive(Clone, Debug)]
pub(crate) struct JudgedUndo {
    pub undo: Undo,
    pub verdict: Verdict,
    /// It is reverted, but not to the very state before: something that belongs to it stays.
    pub in_part: bool,
    /// Sentences about its revert.
    pub notes: Vec<String>,
}

/// Objects that become one item of the plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct RevertGroup {
    /// `role/name`, unique among the groups.
    pub address: String,
    pub members: Vec<JudgedUndo>,
    /// The groups, by their places, that must have succeeded before: those of other roles, and of objects of a cluster those that each needs.
    pub after: BTreeSet<usize>,
}

/// Judges all objects of a host by what is known of them now, and brings them into the order in which they are reverted. They come in the
/// reverse of the order in which the runs first touched them.
pub(crate) fn arrange(undos: Vec<Undo>, known: &mut Knowledge, allowed: &[String]) -> Vec<RevertGroup> {
    arrange_after(AccountChanges::default(), undos, known, allowed)
}

/// The same after changes of accounts in the same run.
pub(crate) fn arrange_after(
    accounts: AccountChanges,
    mut undos: Vec<Undo>,
    known: &mut Knowledge,
    allowed: &[String],
) -> Vec<RevertGroup> {
    go_with_commands(&mut undos, known);
    let mut sights = sights(&undos, known);
    let brought = releases::brought_back(&undos, &mut sights, known);
    let both = undos.iter().zip(&sights);
    let mut verdicts: Vec<Verdict> = both
        .map(|(undo, sight)| match sight {
            Sight::Now => judge(undo, known, allowed),
            Sight::Later | Sight::Elsewhere(_) => judge_as(undo, undo.left.clone(), known, allowed),
            Sight::AsBefore => Verdict::Same,
            Sight::Never(why) => Verdict::Stays(why.clone()),
        })
        .collect();
    made_in::leave_what_is_elsewhere(&undos, &mut sights, &mut verdicts);
    go_with_their_node(&undos, &mut verdicts);
    let gone_with = releases::go_with_their_release(&undos, &mut verdicts, known, allowed);
    package_files::leave_for_what_stays(&undos, &mut verdicts, known, allowed);
    packages::leave_what_others_need(&mut verdicts, known);
    accounts::leave_groups_of_users(&undos, &mut verdicts, known);
    directories::leave_what_is_not_empty(&undos, &sights, &mut verdicts, known);
    lines::leave_mounts_whose_lines_stay(&undos, &mut verdicts, known);
    let first_steps = nodes::admit_first(&mut undos, &mut verdicts, &mut sights, known);
    let ends = ends(&undos, &verdicts, &sights, known);
    let reverts: Vec<Revert<'_>> = (undos.iter().zip(&ends).zip(&sights))
        .map(|((undo, (from, to)), sight)| Revert {
            brought_by: brought.get(&undo.object),
            is_elsewhere: *sight == Sight::Later && undo.dir().is_some(),
            ..revert(undo, from, to, known)
        })
        .collect();
    let order = order::arrange(&reverts);
    keep_whole_roles(&undos, &mut verdicts, &order.concat());
    let stay: BTreeSet<usize> = (0..).zip(&verdicts).filter(|(_, v)| v.stays()).map(|(at, _)| at).collect();
    for (at, first) in order::held_back(&reverts, &stay) {
        if let (Some(verdict @ Verdict::Back(_)), Some(first)) = (verdicts.get_mut(at), undos.get(first)) {
            *verdict = Verdict::Stays(format!(
                "{} is not reverted, and one of the two needs the other",
                first.object
            ));
        }
    }
    let mut in_part = start_with_nothing_certain(&undos, &reverts, &mut verdicts);
    let after = groups_before(&reverts, &order);
    in_part.extend(first_steps);
    in_part.extend(lines::leave_lines_of_mounts_that_stay(&undos, &mut verdicts, known));
    lines::leave_mounts_whose_lines_stay(&undos, &mut verdicts, known);
    accounts::follow(&order, &mut verdicts, accounts);
    let addresses = addresses(&undos, &order);
    let mut judged: Vec<Option<JudgedUndo>> = (0..)
        .zip(undos.into_iter().zip(verdicts))
        .map(|(at, (undo, verdict))| {
            let notes = releases::members_notes(&undo.object, &brought, &gone_with);
            Some(JudgedUndo { undo, verdict, in_part: in_part.contains(&at), notes })
        })
        .collect();
    let members = order
        .into_iter()
        .map(|places| places.into_iter().filter_map(|at| judged.get_mut(at)?.take()).collect::<Vec<_>>());
    let groups = members.zip(addresses).zip(after);
    let mut groups: Vec<RevertGroup> =
        groups.map(|((members, address), after)| RevertGroup { address, members, after }).collect();
    name_what_stays(&mut groups);
    groups
}

fn revert<'a>(undo: &'a Undo, from: &'a State, to: &'a State, known: &'a Knowledge) -> Revert<'a> {
    Revert {
        pods: nodes::effect(&undo.object, from, to, known),
        object: &undo.object,
        from,
        to,
        item: &undo.item,
        run: &undo.run,
        moved_by: undo.moved_by.as_deref(),
        lies_in: &undo.lies_in,
        real: known.real(&undo.object),
        brought_by: None,
        is_elsewhere: false,
    }
}

/// From where to where each object goes, or would.
fn ends(undos: &[Undo], verdicts: &[Verdict], sights: &[Sight], known: &Knowledge) -> Vec<(State, State)> {
    let all = undos.iter().zip(verdicts).zip(sights);
    all.map(|((undo, verdict), sight)| match verdict {
        Verdict::Same | Verdict::With(_) => (undo.before.clone(), undo.before.clone()),
        Verdict::Back(change) => (change.from.clone(), change.to.clone()),
        Verdict::Stays(_) | Verdict::NotAllowed(_) | Verdict::Lost(_) => {
            let now = known.observed(&undo.object).ok().filter(|_| *sight == Sight::Now);
            let now = now.map_or_else(|| undo.left.clone(), |found| found.state);
            (now, undo.before.clone())
        }
    })
    .collect()
}

/// The verdict on an object, by itself.
pub(crate) fn judge(undo: &Undo, known: &mut Knowledge, allowed: &[String]) -> Verdict {
    let now = match known.observed(&undo.object) {
        Ok(found) if found.state.is_absent() && undo.comes_back => undo.left.clone(),
        Ok(found) => found.state,
        // The runs, rollbacks among them, have left it was before: nothing of theirs is there, as when the program went that shows it.
        Err(_) if undo.open.is_none() && same(&undo.object, &undo.left, &undo.before) => {
            return Verdict::Same;
        }
        Err(_) => {
            let why = match known.answer(&Probe::Object(undo.object.clone())) {
                Some(Answer::Failed(why)) => format!(": {why}"),
                _ => String::new(),
            };
            return Verdict::Stays(format!("it cannot be read{why}"));
        }
    };
    judge_as(undo, now, known, allowed)
}

/// The same for an object in the state `now`.
fn judge_as(undo: &Undo, now: State, known: &mut Knowledge, allowed: &[String]) -> Verdict {
    if let Some(change) = begun(undo, &now) {
        return Verdict::Back(change);
    }
    if let Some(verdict) = shared::judge_values_of_before(undo, &now, known) {
        return verdict;
    }
    if let Some(verdict) = lines::judge(undo, &now, known) {
        return verdict;
    }
    if let Some(why) = &undo.theirs {
        return Verdict::Stays(why.clone());
    }
    if !shows(undo, &now, known) {
        if let Some(why) = undistinguished(undo, known) {
            let id = undo.object.to_string();
            return match lost(undo) {
                Some(why) => Verdict::Lost(why),
                None if allowed.contains(&id) => {
                    judge_as(&Undo { between: Vec::new(), ..undo.clone() }, now, known, allowed)
                }
                None => Verdict::Stays(format!("{why}: `--allow-destroy {id}` reverts all differences")),
            };
        }
        return Verdict::Stays(changed_by(undo, known));
    }
    if let Some(why) = lost(undo).filter(|_| is_midway(undo, &now)) {
        return Verdict::Stays(format!(
            "a run was interrupted in a step that cannot be reverted ({why}): {TAKES_ON}"
        ));
    }
    if let Some(why) = lost(undo).map(Verdict::Lost).or_else(|| restarts::judge(undo)) {
        return why;
    }
    if let Some(why) = shared::given_has_changed(undo, &now, known) {
        return Verdict::Stays(why);
    }
    let to = back(undo, &now, known);
    let back = shared::without_shared(undo, now, to, known);
    // An object that converge was about to destroy already is no loss.
    let on_its_way = undo.open.as_ref().is_some_and(|open| back.from != *open && back.from != undo.left);
    // Nor is what a failed script has left of a package: nobody can want that state back.
    let on_its_way = on_its_way || is_half_installed(&back.object, &back.from);
    if let Some(why) = destroys(&back, allowed).filter(|_| !on_its_way) {
        return Verdict::NotAllowed(why);
    }
    match shared::takes_from_others(undo, &back, known, allowed) {
        Some(why) => Verdict::Stays(why),
        None => Verdict::Back(back),
    }
}

/// The remedy for an object that a run which was cut off has left on the way.
pub(crate) const TAKES_ON: &str = "`converge apply` completes the change to the declared state";

/// Said where packages go: the records do not know it.
const SCRIPTS_LEAVE: &str =
    "what scripts of packages have set or made besides stays: users, directories, kernel parameters";

/// Said where the recorded runs do not join.
const CHANGED_BETWEEN: &str =
    "between the runs to revert, it was changed by someone else, or by a run that is not recorded any more";

fn removes_package(change: &Change) -> bool {
    change.object.kind == "package" && change.to.is_absent()
}

/// An object that a command has made goes with it, whatever was edited in it since: its path was not there before the command. What lies behind a link that
/// the command has made was there.
fn go_with_commands(undos: &mut [Undo], known: &Knowledge) {
    for path in made_by_commands(undos) {
        let is_link = matches!(layers::leads(&path, known), Some(Lead::To(_)));
        let goes = |key: &str| within(key, &path) && !(is_link && key != path);
        // Also where the records have them in another order, as after a rollback of a prune: while the path was there, the command did not run.
        for undo in undos.iter_mut().filter(|u| u.object.kind == "path" && goes(&u.object.key)) {
            undo.before = State::absent();
        }
    }
}

/// The paths of which the commands say that they make them, where the command goes back.
fn made_by_commands(undos: &[Undo]) -> Vec<String> {
    let goes = |undo: &&Undo| action_of(&undo.object).is_pending(&undo.before) && lost(undo).is_none();
    undos.iter().filter(goes).filter_map(|undo| creates(&undo.object)).collect()
}

/// Further objects of a host's part in its cluster go with the node: a reset takes the version of the control plane along, and the objects of its role
/// that say so ([`NodePart::GOES_WITH_NODE`](converge_resource::NodePart::GOES_WITH_NODE)) and that runs have changed since the node joined.
fn go_with_their_node(undos: &[Undo], verdicts: &mut [Verdict]) {
    let whole = |undo: &Undo| {
        converge_objects::object(&undo.object.kind).is_some_and(|o| o.node().stays_unless_allowed())
    };
    let mut both = undos.iter().zip(verdicts.iter());
    let node = both.position(|(undo, verdict)| {
        let leaves = undo.before.is_absent() && matches!(verdict, Verdict::Back(_) | Verdict::Same);
        leaves && whole(undo) && undo.object.key == "node"
    });
    let Some((at, role)) = node.and_then(|at| Some((at, role_of(&undos.get(at)?.item)))) else { return };
    // They come in the reverse of the order in which the runs first touched them: what is before the node came after it.
    let since = undos.iter().zip(verdicts.iter_mut()).take(at);
    for (undo, verdict) in since.filter(|(undo, _)| role_of(&undo.item) == role) {
        if converge_objects::object(&undo.object.kind).is_some_and(|o| o.node().goes_with_node()) {
            *verdict = Verdict::Same;
        }
    }
    for (undo, verdict) in undos.iter().zip(verdicts.iter_mut()) {
        if whole(undo) && undo.object.key != "node" {
            *verdict = Verdict::Same;
        }
    }
}

/// The questions besides those for the objects themselves: who needs the packages and the groups that go, what the directories hold, and what commands
/// have made.
pub(crate) fn probes(undos: &[Undo]) -> Vec<Probe> {
    let goes = |kind: &str| undos.iter().any(|undo| undo.object.kind == kind && undo.before.is_absent());
    let packages = goes("package").then(packages::probe).into_iter().chain(package_files::probe(undos));
    let users = goes("group").then(accounts::users_probe);
    let made = made_by_commands(undos).into_iter().map(|path| Probe::Object(ObjectId::new("path", path)));
    packages.chain(users).chain(directories::probe(undos)).chain(made).collect()
}

/// An object that cannot be reverted without destroying something keeps what it depends on: the items of its role that came before it. A host's part in
/// its cluster comes first ([`converge_resource::NodePart::STAYS_UNLESS_ALLOWED`]), and so keeps its whole role, for whatever reason it stays.
fn keep_whole_roles(undos: &[Undo], verdicts: &mut [Verdict], order: &[usize]) {
    let whole = |undo: &Undo| {
        converge_objects::object(&undo.object.kind).is_some_and(|o| o.node().stays_unless_allowed())
    };
    let mut retained: BTreeMap<&str, &Undo> = BTreeMap::new();
    for &at in order {
        let (Some(undo), Some(verdict)) = (undos.get(at), verdicts.get_mut(at)) else { continue };
        match retained.get(role_of(&undo.item)) {
            Some(first) if first.item != undo.item || whole(first) => {
                if matches!(verdict, Verdict::Back(_)) {
                    *verdict = Verdict::Stays(format!(
                        "{} is not reverted, so nothing that belongs to it is reverted either",
                        first.object
                    ));
                }
            }
            None if matches!(verdict, Verdict::NotAllowed(_)) || (whole(undo) && verdict.stays()) => {
                retained.insert(role_of(&undo.item), undo);
            }
            _ => {}
        }
    }
}

/// A unit that is started although something that it may run with stays is not recorded as started with all of it. The places of these units.
fn start_with_nothing_certain(
    undos: &[Undo],
    reverts: &[Revert<'_>],
    verdicts: &mut [Verdict],
) -> BTreeSet<usize> {
    let stay: BTreeSet<usize> =
        (0..).zip(verdicts.iter()).filter(|(_, v)| v.stays()).map(|(at, _)| at).collect();
    let edges = if stay.is_empty() { Vec::new() } else { order::edges(reverts) };
    let of_these = edges.iter().filter(|e| stay.contains(&e.first)).map(|e| e.then);
    let of_others = (0..).zip(undos).filter(|(_, undo)| undo.inputs_stay).map(|(at, _)| at);
    let mut in_part = BTreeSet::new();
    for at in of_these.chain(of_others).collect::<BTreeSet<usize>>() {
        let Some(Verdict::Back(change)) = verdicts.get_mut(at) else { continue };
        if let Some(to) = restarts::without_record(&change.to) {
            change.to = to;
            in_part.insert(at);
        }
    }
    for at in &in_part {
        let Some(verdict) = verdicts.get_mut(*at) else { continue };
        if matches!(verdict, Verdict::Back(change) if change.from == change.to) {
            *verdict = Verdict::Same;
        }
    }
    in_part
}

/// The addresses of the items: that of the item which made the change, where it is one and comes once.
fn addresses(undos: &[Undo], order: &[Vec<usize>]) -> Vec<String> {
    let mut used: BTreeSet<String> = undos.iter().map(|u| u.item.clone()).collect();
    let mut given = BTreeSet::new();
    let mut unique = |wanted: String, fresh: bool| {
        let mut address = wanted.clone();
        for n in 2.. {
            let taken = if fresh { !used.insert(address.clone()) } else { given.contains(&address) };
            if !taken {
                break;
            }
            address = format!("{wanted} ({n})");
        }
        given.insert(address.clone());
        used.insert(address.clone());
        address
    };
    order
        .iter()
        .map(|places| {
            let items: BTreeSet<&str> =
                places.iter().filter_map(|at| undos.get(*at)).map(|u| u.item.as_str()).collect();
            // The one that is latest here was the first in the runs: the others may stand on it.
            let first = places.iter().max().and_then(|at| undos.get(*at)).map_or("", |u| u.item.as_str());
            match items.len() {
                0 | 1 => unique(first.to_owned(), false),
                _ => unique(format!("{}/packages", role_of(first)), true),
            }
        })
        .collect()
}

/// One item of a rollback.
pub(crate) fn item(id: u32, address: &str, members: Vec<JudgedUndo>) -> Item {
    let claims: Vec<ObjectId> = members.iter().map(|m| m.undo.object.clone()).collect();
    let sensitive = members.iter().any(|m| m.undo.sensitive);
    // As the items were whose changes it reverts.
    let guards = members.iter().filter_map(|m| m.undo.guard.as_ref());
    let guard = guards.max_by_key(|guard| guard.seconds).cloned();
    let from_run = members.first().map(|m| m.undo.run.clone()).unwrap_or_default();
    // Accounts and links of units are restored from what that run has kept of them.
    let mut settings = vec![("CV_FROM_RUN".to_owned(), from_run)];
    settings.extend(made_in::setting(&members));
    settings.extend(flags::setting(&members, sensitive));
    let mut notes = restarts::notes(&members);
    let (mut changes, mut stay, mut lost, mut node_removal) = (Vec::new(), Vec::new(), Vec::new(), None);
    for JudgedUndo { undo, verdict, notes: own_notes, .. } in members {
        match verdict {
            Verdict::Same | Verdict::With(_) => {}
            Verdict::Back(change) => {
                if undo.unrecorded.between {
                    notes.push(format!("{}: {CHANGED_BETWEEN}", undo.object));
                }
                notes.extend(own_notes);
                node_removal = node_removal.or(undo.node_removal);
                changes.push(change);
            }
            Verdict::Stays(why) | Verdict::NotAllowed(why) => stay.push(format!("{}: {why}", undo.object)),
            Verdict::Lost(why) => lost.push(format!("{}: {why}", undo.object)),
        }
    }
    // Where nothing is done, the outcome says it.
    let (does, says) = (!changes.is_empty(), !changes.is_empty() || !stay.is_empty());
    notes.extend(stay.iter().filter(|_| does).cloned());
    notes.extend(lost.iter().filter(|_| says).map(|l| format!("cannot be undone: {l}")));
    let comes = changes.iter().filter(|change| change.from.is_absent() && !change.to.is_absent());
    notes.extend(comes.filter_map(|change| Some(format!("{}: {}", change.object, without(&change.object)?))));
    // The packages of a host are one item, so this is said once.
    if changes.iter().any(removes_package) {
        notes.push(SCRIPTS_LEAVE.to_owned());
    }
    let outcome = if !changes.is_empty() {
        Outcome::Changed(changes.into_iter().map(planned).collect())
    } else if !stay.is_empty() {
        Outcome::Refused(stay.join("; "))
    } else if !lost.is_empty() {
        Outcome::Failed(Problem::new(format!("cannot be undone: {}", lost.join("; "))))
    } else {
        Outcome::Unchanged
    };
    let disruption = match &outcome {
        Outcome::Changed(changes) => converge_planner::disruption(changes),
        _ => Disruption::None,
    };
    // The content that it destroys with the user's permission is copied to this machine before.
    let backup = match &outcome {
        Outcome::Changed(changes) => changes.iter().find_map(|planned| {
            let object = converge_objects::object(&planned.change.object.kind)?;
            object.node().backup(&planned.change)
        }),
        _ => None,
    };
    let item = Item {
        id,
        address: address.to_owned(),
        name: name_of(address).to_owned(),
        role: role_of(address).to_owned(),
        origin: ItemOrigin::Rollback,
        kind: "rollback".to_owned(),
        claims,
        outcome,
        notes,
        sensitive,
        disruption,
        backup,
        node_removal,
        settings,
        ..Item::default()
    };
    let guard = guard.as_ref().map(|guard| (guard.by.as_str(), guard.seconds));
    Item { guard: converge_planner::guard_as(&item, guard), ..item }
}

#[cfg(test)]
#[path = "revert_tests.rs"]
mod tests;

#[cfg(test)]
mod place_tests;
