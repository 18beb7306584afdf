//! Orphaned objects of a host, and the plan that removes them or restores their original states.
//!
//! A thing counts as no longer declared when no item of any role claims it and every role that made it was evaluated
//! completely for that host. Whatever is not known for sure leaves it alone.

mod declares;
mod fate;
mod lead;
mod orphans;
mod parts;

pub(crate) use declares::Declares;
pub(crate) use lead::{lead_releases, pruned_fields};
pub(crate) use orphans::undo_of;
pub(crate) use parts::add_parts;

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::accounts::{AccountChanges, Accounts};
use crate::revert::package_files::leave_those_that_others_need;
use crate::revert::releases::{RetainedChanges, leave_those_that_hold_others, name_what_goes_along};
use crate::revert::undo::{Verdict, changed_probes, fulfils, go_with_what_brought_them, owners_probe};
use crate::revert::{self, JudgedUndo, RevertGroup, holders, layers, shared};
use converge_ledger::{
    OwnedObject, OwnedRecords, ProjectScope, RunRecord, SavedChange, SavedOutcome, Undo, is_by_lines,
};
use converge_objects::{title_of, traits_of};
use converge_planner::{CutOff, Fate, HostPlan, Item, ItemOrigin, Knowledge, Orphan, Outcome};
use converge_resource::{Change, ObjectId, Probe, State};
use fate::{fate, why_it_stays};
use orphans::{
    autoremovable, autoremove_probe, behind, companions, contents, covered, goes_with, hidden, is_given_back,
    name_other_projects, orphaned, other_names, remains,
};
use std::collections::{BTreeMap, BTreeSet};

/// The questions that come first about objects that go: themselves, what they lie in, their other names and owners, and with `apt` the packages that came
/// along.
fn first_probes(
    going: &[&OwnedObject],
    records: &OwnedRecords,
    declares: &Declares,
    apt: bool,
) -> BTreeSet<Probe> {
    let mut probes: BTreeSet<Probe> =
        going.iter().map(|t| Probe::Object(t.object.clone())).chain(open_probes(records)).collect();
    probes.extend(going.iter().flat_map(|t| layers::probes(&t.lies_in)));
    probes.extend(other_names(going, declares));
    probes.extend(going.iter().filter_map(|t| owners_probe(&t.object)));
    if apt {
        let with = records.things.iter().filter(|t| t.by_product && t.object.kind == "package");
        probes.extend(with.map(|t| Probe::Object(t.object.clone())));
    }
    probes
}

/// Adds to a plan what the host's records say: what is no longer declared, how it would go, and a run that did not end.
pub(crate) async fn own(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    records: OwnedRecords,
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let scope = context.project_of(target.name());
    plan.earlier_runs.remarks.clone_from(&records.broken);
    let mut going = orphaned(&records.things, &scope, declares);
    let counts = |t: &&OwnedObject| remains(t) && !t.by_product && scope.is(&t.scope);
    plan.earlier_runs.owned = records.things.iter().filter(counts).count();
    let prune = context.options.prune;
    let apt = autoremove_probe(&going).filter(|_| prune);
    let mut probes = first_probes(&going, &records, declares, apt.is_some());
    let inside = |going: &[&OwnedObject]| if prune { contents(&records.things, going) } else { Vec::new() };
    probes.extend(inside(&going).iter().map(|t| Probe::Object(t.object.clone())));
    probes.extend(apt.clone());
    probes.retain(|p| !known.knows(p));
    target.look(&probes, known).await?;
    let real =
        |object: &ObjectId| converge_planner::real_name(known, object).unwrap_or_else(|| object.clone());
    let declared: BTreeSet<ObjectId> = declares.objects.iter().map(real).collect();
    going.retain(|t| !declared.contains(&real(&t.object)));
    plan.earlier_runs.cut_off =
        records.cut_off.as_ref().map(|run| Box::new(cut_off(run, records.busy, known)));
    // Those that the run which was cut off has given back bring along what came with them, too.
    let went = going.clone();
    // The run that begins next writes into the record of the one that was cut off that it gave these back.
    let ends =
        records.cut_off.iter().flat_map(|run| &run.changes).map(|c| &c.object).collect::<BTreeSet<_>>();
    going.retain(|t| !(is_given_back(t, known) && ends.contains(&t.object)));
    plan.earlier_runs.owned -= records.things.iter().filter(|t| counts(t) && is_given_back(t, known)).count();
    let with = match apt.as_ref().and_then(|probe| known.answer(probe)) {
        Some(converge_resource::Answer::Run(answer)) => {
            companions(&records.things, &went, &autoremovable(answer))
        }
        _ => Vec::new(),
    };
    let inside = inside(&going);
    let leaving: BTreeSet<&ObjectId> = going.iter().chain(&with).chain(&inside).map(|t| &t.object).collect();
    // In the order of the records, the last first.
    let of_project = records.things.iter().filter(|t| scope.is(&t.scope));
    let leaving: Vec<&OwnedObject> = of_project.rev().filter(|t| leaving.contains(&t.object)).collect();
    let others = records.things.iter().filter(|t| !scope.is(&t.scope)).map(|t| &t.object).collect();
    let mut undos: Vec<Undo> = leaving.iter().map(|t| undo_of(t, &leaving, &others, known)).collect();
    let places: BTreeSet<Probe> = revert::made_in::probes(&undos).filter(|p| !known.knows(p)).collect();
    target.look(&places, known).await?;
    layers::settle_observed_layers(&mut undos, known);
    go_with_what_brought_them(&mut undos);
    shared::go_with_the_last_part(&mut undos, known);
    name_other_projects(&mut undos, &records.things, &scope, known);
    let rests = shared::rest_probes(&undos, &others, known);
    target.look(&rests, known).await?;
    shared::leave_the_rest(&mut undos, &others, known);
    let later = leave_what_declared_ones_need(&mut undos, plan, declares, known);
    holders::leave_those_that_remain_needed(&mut undos, plan, &records.things, known);
    let asked: BTreeSet<_> = revert::probes(&undos).into_iter().filter(|probe| !known.knows(probe)).collect();
    if prune {
        target.look(&asked, known).await?;
    }
    revert::translate_accounts(target, &numbers_of(&records.things), &mut undos, known).await?;
    let lines = if prune { file_of_lines(&records.things, &leaving, &others, &scope, known) } else { None };
    revert::saved::learn_contents(target, &mut undos, lines.as_ref(), known).await?;
    shared::part_from_others(&mut undos, known);
    let asked = if prune { changed_probes(&undos, known) } else { BTreeSet::new() };
    target.look(&asked, known).await?;
    let along = leave_what_others_need(context, target, &mut undos, plan, &records.things, known).await?;
    let allowed = &context.options.allow_destroy;
    // The declared items come first: an account that gets another number leaves its old one on files.
    let accounts = AccountChanges::of(&plan.items);
    let mut groups = revert::arrange_after(accounts, undos, known, allowed);
    name_what_goes_along(&mut groups, &along);
    if let Some(lines) = lines {
        let then = end_of(&lines.object, plan, known).unwrap_or_else(|| lines.left.clone());
        revert::lines::go_with_mounts(&mut groups, &lines, then, known);
    }
    shared::give_fields_back(&mut groups, known);
    if prune {
        revert::leave_what_cannot_go(target, &mut groups, &plan.items, PRUNE_AGAIN, known).await?;
    }
    plan.earlier_runs.undeclared = undeclared(&groups, &going, declares, known);
    if prune && !groups.is_empty() {
        let groups = without(groups, &later);
        add_prune_items(context, target, plan, groups, declares, known).await?;
    }
    Ok(())
}

/// Lets the releases and packages stay that would take away what others need. Returns the sentences about those that go nevertheless.
async fn leave_what_others_need(
    context: &RunContext,
    target: &Target,
    undos: &mut [Undo],
    plan: &HostPlan,
    things: &[OwnedObject],
    known: &mut Knowledge,
) -> Result<BTreeMap<ObjectId, String>, TargetError> {
    let allowed = &context.options.allow_destroy;
    let of_others = RetainedChanges::of_others(things, &context.project_of(target.name()));
    let mut along = leave_those_that_hold_others(target, undos, &of_others, allowed, known).await?;
    if context.options.prune {
        let holders = holders::remaining(undos, plan, things, known);
        along.extend(leave_those_that_others_need(target, undos, &holders, None, allowed, known).await?);
    }
    Ok(along)
}

/// The file of the project that belongs to others by its lines, where it stays as a whole.
fn file_of_lines(
    things: &[OwnedObject],
    leaving: &[&OwnedObject],
    others: &BTreeSet<&ObjectId>,
    scope: &ProjectScope,
    known: &Knowledge,
) -> Option<Undo> {
    let file = things.iter().find(|t| scope.is(&t.scope) && is_by_lines(&t.object))?;
    let stays = !leaving.iter().any(|l| l.object == file.object);
    let mut undo =
        stays.then(|| Undo { theirs: Some(DECLARED.to_owned()), ..undo_of(file, leaving, others, known) });
    layers::settle_observed_layers(undo.as_mut_slice(), known);
    undo
}

/// The numbers of accounts in the records. Of a change that was cut off either end may be there.
fn numbers_of(things: &[OwnedObject]) -> Accounts {
    Accounts::of(things.iter().flat_map(|thing| {
        [&thing.before, &thing.left].into_iter().chain(&thing.open).map(|state| (&thing.object, state))
    }))
}

/// Lets stay what declared objects lie in, or would go with. Returns the objects that another item of the plan brings to an end itself, since what they lie
/// in is declared otherwise.
fn leave_what_declared_ones_need(
    undos: &mut [Undo],
    plan: &HostPlan,
    declares: &Declares,
    known: &Knowledge,
) -> BTreeSet<ObjectId> {
    let mut later = BTreeSet::new();
    for undo in undos.iter_mut() {
        let inside = || goes_with(&undo.object, plan, declares, known);
        let inside = if undo.before.is_absent() { inside() } else { Vec::new() };
        let gone = refused_for(
            &inside,
            "would be removed with it: declare it again, or take these out of the role too",
        );
        let other = || {
            let link = &undo.object.key;
            let then = format!(
                "would be a different path without the link {link}: declare the link again, or take these out of the role first"
            );
            refused_for(&behind(undo, declares, known), &then)
        };
        let why = gone.or_else(other).or_else(|| hidden(&undo.object, plan, known));
        undo.theirs = why.or(undo.theirs.take());
    }
    for undo in undos {
        let Some((above, changes)) = covered(&undo.object, plan, declares, known) else { continue };
        undo.lost.get_or_insert(format!("{above}, in which it lies, is declared otherwise"));
        if changes {
            later.insert(undo.object.clone());
        }
    }
    later
}

/// The orphaned objects `going`, each with what is to become of it.
fn undeclared(
    groups: &[RevertGroup],
    going: &[&OwnedObject],
    declares: &Declares,
    known: &Knowledge,
) -> Vec<Orphan> {
    let since: BTreeMap<&ObjectId, &OwnedObject> = going.iter().map(|t| (&t.object, *t)).collect();
    // A node may go back in two steps.
    let mut named: BTreeSet<&ObjectId> = BTreeSet::new();
    let members = groups.iter().flat_map(|group| &group.members);
    let each = members.filter(|judged| named.insert(&judged.undo.object)).filter_map(|judged| {
        let thing = since.get(&judged.undo.object).filter(|thing| !is_given_back(thing, known))?;
        let role = thing.roles.first().map(|r| declares.name(r).to_owned()).unwrap_or_default();
        Some(Orphan {
            object: judged.undo.object.clone(),
            role,
            item: thing.item.clone(),
            since: thing.since.clone(),
            parts: None,
            fate: match fate(judged, known) {
                Fate::GivenBack if thing.before.is_absent() => Fate::OwnPartRemoved,
                fate => fate,
            },
        })
    });
    each.collect()
}

/// The command that takes up what a prune has left.
const PRUNE_AGAIN: &str = "converge apply --prune";

/// The reason why something stays for those that are declared, and what would become of them.
fn refused_for(inside: &[&ObjectId], then: &str) -> Option<String> {
    let (first, more) = inside.split_first()?;
    let first = title_of(first);
    let and = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(format!("{first}{and}, declared in the same plan, {then}"))
}

const DECLARED: &str = "other lines of the file are still declared";

/// The state of an object after the declared items, whose new content becomes known.
fn end_of(object: &ObjectId, plan: &HostPlan, known: &mut Knowledge) -> Option<State> {
    let end = orphans::end_of(object, plan, known)?;
    let content = converge_objects::object(&object.kind).and_then(|o| o.content(&end));
    let content = content.and_then(|digest| plan.contents.get(&digest));
    content.into_iter().for_each(|c| known.learn_content(c.clone()));
    Some(end)
}

/// The groups without what this run removes first: the next one takes it out of the records.
fn without(mut groups: Vec<RevertGroup>, later: &BTreeSet<ObjectId>) -> Vec<RevertGroup> {
    for group in &mut groups {
        group.members.retain(|judged| !later.contains(&judged.undo.object));
    }
    groups
}

async fn add_prune_items(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    groups: Vec<RevertGroup>,
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let mut own = HostPlan { host: plan.host.clone(), ..HostPlan::default() };
    // Where the item of each group stands, so that those behind it can wait for it.
    let mut item_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, RevertGroup { address, members, after }) in groups.into_iter().enumerate() {
        let forgets = |judged: &JudgedUndo| {
            matches!(judged.verdict, Verdict::With(_)) || matches!(fate(judged, known), Fate::Forgotten(_))
        };
        let (forget, undo): (Vec<JudgedUndo>, Vec<JudgedUndo>) = members.into_iter().partition(forgets);
        // A file that others changed too has no managed part left, although it does not have its original state.
        let given_up = |judged: &&JudgedUndo| {
            let back = matches!(&judged.verdict, Verdict::Back(change) if change.to != judged.undo.before);
            let object = &judged.undo.object;
            back && !judged.in_part && is_by_lines(object) && !declares.objects.contains(object)
        };
        let given_up: Vec<JudgedUndo> = undo.iter().filter(given_up).cloned().collect();
        let role = declares.name(converge_resource::role_of(&address)).to_owned();
        let name = converge_resource::name_of(&address);
        for (members, forgets) in
            [(forget, true), (undo, false), (given_up, true)].into_iter().filter(|(m, _)| !m.is_empty())
        {
            let notes = if forgets { Vec::new() } else { shared::notes(&members, known) };
            let mut item =
                if forgets { forget_item(&members, known) } else { revert::item(0, &address, members) };
            item.notes.extend(notes);
            item.origin = ItemOrigin::Prune;
            "prune".clone_into(&mut item.kind);
            item.role.clone_from(&role);
            let what = if forgets { "no longer managed" } else { "orphaned" };
            item.address = format!("{role}/{what}: {name}");
            item.name = format!("{what}: {name}");
            item.id = u32::try_from(own.items.len()).unwrap_or(u32::MAX);
            let after = after.iter().filter_map(|group| item_of.get(group).copied()).collect();
            item.needs = revert::needs(&own.items, &item, &after);
            if !forgets {
                item_of.insert(number, own.items.len());
            }
            own.items.push(item);
        }
    }
    revert::complete(context, target, &mut own, &RetainedChanges::default(), known).await?;
    join(plan, own);
    Ok(())
}

/// Lays the items that give something back behind the declared ones. They wait for all that is to be done before.
fn join(plan: &mut HostPlan, own: HostPlan) {
    let matters =
        |i: &&Item| !i.only_records() && !matches!(i.outcome, Outcome::Unchanged | Outcome::Skipped(_));
    let before: Vec<u32> = plan.items.iter().filter(matters).map(|i| i.id).collect();
    let next = plan.items.iter().map(|i| i.id).max().map_or(0, |id| id.saturating_add(1));
    plan.items.extend(own.items.into_iter().map(|mut item| {
        item.id = item.id.saturating_add(next);
        let own_needs = item.needs.iter().map(|need| need.saturating_add(next));
        item.needs = before.iter().copied().chain(own_needs).collect();
        item
    }));
    plan.base.extend(own.base);
    plan.contents.extend(own.contents);
}

/// The items that give something back, for a plan that was made anew in the middle of a run.
pub(crate) fn carry_over(fresh: &mut HostPlan, items: Vec<Item>, address_of: &BTreeMap<u32, String>) {
    let mut ids: BTreeMap<String, u32> = fresh.items.iter().map(|i| (i.address.clone(), i.id)).collect();
    let mut next = fresh.items.iter().map(|i| i.id).max().map_or(0, |id| id.saturating_add(1));
    for mut item in items {
        item.needs = item
            .needs
            .iter()
            .filter_map(|n| address_of.get(n).and_then(|address| ids.get(address)).copied())
            .collect();
        item.id = next;
        ids.insert(item.address.clone(), next);
        next = next.saturating_add(1);
        fresh.items.push(item);
    }
}

/// One item that only takes things out of the record.
fn forget_item(members: &[JudgedUndo], known: &Knowledge) -> Item {
    let mut item = revert::item(0, "", Vec::new());
    let stay = members.iter().filter(|judged| !matches!(judged.verdict, Verdict::With(_)));
    let stay: Vec<&Undo> = stay.map(|judged| &judged.undo).collect();
    let members: Vec<&Undo> = members.iter().map(|judged| &judged.undo).collect();
    let now =
        |u: &Undo| known.observed(&u.object).map(|present| present.state).unwrap_or_else(|_| u.left.clone());
    let changes: Vec<Change> = members
        .iter()
        .map(|u| Change { object: u.object.clone(), from: now(u), to: u.before.clone() })
        .collect();
    item.claims = members.iter().map(|u| u.object.clone()).collect();
    item.sensitive = members.iter().any(|u| u.sensitive);
    item.notes = stay
        .iter()
        .filter_map(|u| {
            let now = now(u);
            (now != u.before).then(|| why_it_stays(u))
        })
        .collect();
    item.outcome = Outcome::Forget(changes);
    item
}

/// The objects that must be observed to describe an unfinished run.
fn open_probes(records: &OwnedRecords) -> Vec<Probe> {
    let changes = records.cut_off.iter().flat_map(|r| &r.changes);
    changes.filter(|c| c.outcome == SavedOutcome::Unknown).map(|c| Probe::Object(c.object.clone())).collect()
}

/// Describes an unfinished run: what it did, did not begin, and what the host shows of the rest.
fn cut_off(run: &RunRecord, busy: bool, known: &Knowledge) -> CutOff {
    let mut items: Vec<(&str, Vec<&SavedChange>)> = Vec::new();
    for change in run.changes.iter().filter(|c| c.outcome != SavedOutcome::Moved) {
        match items.iter_mut().find(|(item, _)| *item == change.item) {
            Some((_, changes)) => changes.push(change),
            None => items.push((&change.item, vec![change])),
        }
    }
    let begun: BTreeSet<&str> = items.iter().map(|(item, _)| *item).collect();
    let not_begun = run.planned.iter().filter(|a| !begun.contains(a.as_str())).cloned().collect();
    let (mut done, mut unknown, mut put_back) = (Vec::new(), Vec::new(), Vec::new());
    for (item, changes) in items {
        if changes.iter().any(|c| c.outcome == SavedOutcome::PutBack) {
            let stays = changes.iter().filter(|c| c.outcome == SavedOutcome::PutBack && !is_back(c));
            let stays: Vec<String> = stays.map(|c| c.object.to_string()).collect();
            if stays.is_empty() {
                put_back.push(item.to_owned());
            } else {
                let cause = run.not_put_back.as_ref().map_or(String::new(), |why| format!(" ({why})"));
                let why = format!("the automatic revert did not restore it{cause}: {}", stays.join(", "));
                unknown.push((item.to_owned(), why));
            }
            continue;
        }
        let open: Vec<String> = changes
            .iter()
            .filter(|c| c.outcome == SavedOutcome::Unknown)
            .map(|c| format!("{} {}", c.object, found(c, known)))
            .collect();
        if open.is_empty() {
            done.push(item.to_owned());
        } else {
            unknown.push((item.to_owned(), open.join("; ")));
        }
    }
    CutOff {
        run: run.id.clone(),
        time: run.time.clone(),
        operator: run.operator.clone(),
        busy,
        put_back: run.put_back.clone().map(|why| (why, put_back)),
        done,
        unknown,
        not_begun,
        arrived: arrived(run, known),
    }
}

/// The changes that a run was cut off in and whose objects are in their planned states.
fn arrived(run: &RunRecord, known: &Knowledge) -> Vec<(u32, State)> {
    let open = run.changes.iter().filter(|c| c.outcome == SavedOutcome::Unknown);
    let found = |c: &&SavedChange| known.observed(&c.object).is_ok_and(|present| present.state == c.after);
    open.filter(found).map(|c| (c.seq, c.after.clone())).collect()
}

/// Whether the automatic revert has led to the state before.
fn is_back(change: &SavedChange) -> bool {
    change.after == change.before
        || converge_objects::object(&change.object.kind)
            .is_some_and(|object| object.fulfils(&change.after, &change.before))
}

/// Whether the step, cut off, may have left this state.
fn amid(change: &SavedChange, now: &State) -> bool {
    let step =
        Change { object: change.object.clone(), from: change.before.clone(), to: change.after.clone() };
    converge_objects::object(&change.object.kind).is_some_and(|object| object.amid(&step, now))
}

fn found(change: &SavedChange, known: &Knowledge) -> &'static str {
    let restart = traits_of(&change.object).restarts_host;
    match known.observed(&change.object) {
        Ok(present) if restart && present.state == change.after => "is over: the host has restarted",
        Ok(present) if restart && present.state == change.before => "is open: the host has not restarted",
        Ok(present) if fulfils(&change.object, &present.state, &change.after) => "was changed as planned",
        Ok(present) if present.state == change.before => "is as it was before",
        Ok(present) if amid(change, &present.state) => "is in an intermediate state",
        Ok(_) => "is neither as before nor as planned",
        Err(_) => "cannot be read",
    }
}
