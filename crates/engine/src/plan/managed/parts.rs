//! Parts of objects of a cluster that no role declares any more, while another resource of the project still names the object. A prune gives back exactly
//! these fields.

use super::{Declares, join, orphans};
use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::releases::RetainedChanges;
use crate::revert::undo::{Verdict, owners_probe, text_of};
use crate::revert::{self, JudgedUndo, shared};
use converge_ledger::{ManagedPart, OwnedObject, ProjectScope};
use converge_objects::k8s::fields;
use converge_objects::k8s::fields::{FieldPath, read, touch};
use converge_objects::k8s::owners::staying;
use converge_objects::k8s::parts::{back, holds, named};
use converge_objects::{is_of_api, title_of};
use converge_planner::{Fate, HostPlan, Item, ItemOrigin, Knowledge, Orphan, Outcome};
use converge_resource::{ApiCall, ApiRef, Change, ObjectId, Probe, Segment, State};
use serde_json::Value;
use std::collections::BTreeSet;

/// The orphaned parts of one object.
struct OrphanedParts<'r> {
    thing: &'r OwnedObject,
    /// Those that go: they get their previous values, or are given up where another manager has them too.
    going: Vec<&'r ManagedPart>,
    /// The paths of those that another manager has too, each with the managers: they stay as they are.
    shared: Vec<(&'r ManagedPart, BTreeSet<String>)>,
    /// Those that somebody has changed, each with the reason why it stays.
    changed: Vec<(&'r ManagedPart, String)>,
    /// The change of the object.
    change: Change,
}

impl OrphanedParts<'_> {
    /// For people, before a prune.
    fn shown(&self) -> Vec<Orphan> {
        let going: Vec<&ManagedPart> = self.dropped().collect();
        let changed: Vec<&ManagedPart> = self.changed.iter().map(|(part, _)| *part).collect();
        let whys: BTreeSet<&str> = self.changed.iter().map(|(_, why)| why.as_str()).collect();
        let why = whys.into_iter().collect::<Vec<_>>().join("; ");
        let one = |(parts, fate): (Vec<&ManagedPart>, Fate)| {
            let last = parts.last()?;
            let paths: Vec<&FieldPath> = parts.iter().map(|part| &part.first.path).collect();
            Some(Orphan {
                object: self.thing.object.clone(),
                role: last.role.clone(),
                item: last.item.clone(),
                since: self.thing.since.clone(),
                parts: Some(named(&self.thing.object, &paths)),
                fate,
            })
        };
        [(going, Fate::GivenBack), (changed, Fate::LeftAlone(why))].into_iter().filter_map(one).collect()
    }

    /// Those that the project gives up with a prune.
    fn dropped(&self) -> impl Iterator<Item = &ManagedPart> {
        self.going.iter().copied().chain(self.shared.iter().map(|(part, _)| *part))
    }

    /// The place of its newest part in the order in which the project set them.
    fn newest(&self) -> Option<(&str, u32)> {
        self.dropped().map(|part| (part.run.as_str(), part.seq)).max()
    }
}

/// The orphaned parts of the objects of a target. With `--prune`, the items that give them back are added to the plan.
pub(crate) async fn add_parts(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    things: &[OwnedObject],
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<Vec<Orphan>, TargetError> {
    let all = orphaned_parts(context, target, plan, things, declares, known).await?;
    let mut own = HostPlan { host: plan.host.clone(), ..HostPlan::default() };
    for parts in all.iter().filter(|_| context.options.prune) {
        let id = u32::try_from(own.items.len()).unwrap_or(u32::MAX);
        let Some(item) = item(id, parts, known) else { continue };
        let before = own.items.iter().filter(|earlier| earlier.role == item.role).map(|earlier| earlier.id);
        let needs = before.collect();
        own.items.push(Item { needs, ..item });
    }
    if !own.items.is_empty() {
        revert::complete(context, target, &mut own, &RetainedChanges::default(), known).await?;
        join(plan, own);
    }
    Ok(all.iter().flat_map(OrphanedParts::shown).collect())
}

/// Finds the parts that the records have, that no item of the plan declares, and that are not as they were before.
async fn orphaned_parts<'r>(
    context: &RunContext,
    target: &Target,
    plan: &HostPlan,
    things: &'r [OwnedObject],
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<Vec<OrphanedParts<'r>>, TargetError> {
    let scope = context.project_of(target.name());
    let candidates = candidates(things, &scope, declares, plan);
    let objects = candidates.iter().map(|(thing, _)| &thing.object);
    let mut probes: BTreeSet<Probe> = objects
        .flat_map(|object| [Some(Probe::Object(object.clone())), owners_probe(object)])
        .flatten()
        .collect();
    probes.retain(|probe| !known.knows(probe));
    target.look(&probes, known).await?;
    let mut all: Vec<OrphanedParts<'r>> = Vec::new();
    for (thing, parts) in candidates {
        all.extend(judge(thing, parts, plan, known));
    }
    // The newest part goes first: a taint before what tolerates it.
    all.sort_by(|a, b| b.newest().cmp(&a.newest()));
    Ok(all)
}

/// The parts of declared objects that no item of the plan declares, as far as that is known for sure.
fn candidates<'r>(
    things: &'r [OwnedObject],
    scope: &ProjectScope,
    declares: &Declares,
    plan: &HostPlan,
) -> Vec<(&'r OwnedObject, Vec<&'r ManagedPart>)> {
    let open = |item: &Item| {
        matches!(item.outcome, Outcome::Deferred { .. } | Outcome::Failed(_) | Outcome::Refused(_))
    };
    // Which objects a resource of the role chooses, the plan of that resource says.
    let is_sure = |role: &String| {
        let name = declares.name(role);
        let chooses = declares.choosers.contains(name) && !declares.narrowed;
        declares.surely_without(role)
            || chooses && !plan.items.iter().any(|item| item.role == name && open(item))
    };
    let counts = |thing: &&OwnedObject| {
        let names = |item: &&Item| {
            item.claims.contains(&thing.object)
                || item.parts.iter().any(|(object, _)| *object == thing.object)
        };
        let naming: Vec<&Item> = plan.items.iter().filter(names).collect();
        let planned = naming.iter().filter(|item| !matches!(item.outcome, Outcome::Skipped(_))).count();
        scope.is(&thing.scope)
            && is_of_api(&thing.object)
            && planned > 0
            && planned >= declares.claims.get(&thing.object).copied().unwrap_or_default()
            && !naming.iter().any(|item| open(item))
            && thing.roles.iter().all(is_sure)
    };
    let parts = |thing: &'r OwnedObject| {
        let of_it =
            || plan.items.iter().flat_map(|item| &item.parts).filter(|(object, _)| *object == thing.object);
        let declared = |part: &&ManagedPart| {
            // A resource that chooses its objects may pick this one by what it has not set yet.
            let chooses = |item: &Item| {
                item.address == part.item
                    && !matches!(item.outcome, Outcome::Skipped(_))
                    && !item.claims.iter().any(is_of_api)
            };
            plan.items.iter().any(chooses)
                || of_it().any(|(_, path)| !path.is_empty() && touch(path, &part.first.path))
                || plan.items.iter().any(|item| applies(item, &thing.object, &part.first.path))
        };
        let present = thing.parts.iter().filter(|part| part.gone_by.is_none());
        let mut parts: Vec<&ManagedPart> = present.filter(|part| !declared(part)).collect();
        parts.sort_by_key(|part| part.first.path.len());
        parts
    };
    let all = things.iter().filter(|thing| !thing.parts.is_empty()).filter(counts);
    all.map(|thing| (thing, parts(thing))).filter(|(_, parts)| !parts.is_empty()).collect()
}

/// Whether an item is about to apply a manifest of an object that has this field.
fn applies(item: &Item, object: &ObjectId, path: &FieldPath) -> bool {
    item.calls.iter().any(|call| match call {
        ApiCall::Apply { manifest, .. } => {
            ApiRef::of(manifest).is_some_and(|of| of.object() == *object) && read(manifest, path).is_some()
        }
        _ => false,
    })
}

/// The fates of the orphaned parts of an object; `None` where all of them are as they were before.
fn judge<'r>(
    thing: &'r OwnedObject,
    parts: Vec<&'r ManagedPart>,
    plan: &HostPlan,
    known: &mut Knowledge,
) -> Option<OrphanedParts<'r>> {
    let object = &thing.object;
    let from = orphans::end_of(object, plan, known).filter(|state| !state.is_absent())?;
    let digest = converge_objects::object(&object.kind)?.content(&from)?;
    if let Some(content) = plan.contents.get(&digest) {
        known.learn_content(content.clone());
    }
    let now = text_of(object, &from, known)?;
    let applied =
        plan.items.iter().flat_map(|item| &item.parts).any(|(of, path)| of == object && path.is_empty());
    let (mut going, mut shared, mut changed) = (Vec::<&ManagedPart>::new(), Vec::new(), Vec::new());
    for part in parts {
        let path = &part.first.path;
        // Of an item of a list that goes as a whole no field is looked at.
        let is_within =
            going.iter().any(|whole| path.starts_with(&whole.first.path) && path != &whole.first.path);
        let is_back = is_as(&now, part, part.first.before.as_ref());
        if is_within || is_back || (applied && shared::is_applied(object, path, known)) {
            continue;
        }
        let others = shared::others_of(object, path, known);
        let value = read(&now, path);
        let mut set = [&part.first].into_iter().chain(&part.later).map(|set| set.after.as_ref());
        if !set.any(|set| holds(value, set)) {
            let who = others.into_iter().map(|manager| format!("`{manager}`")).collect::<Vec<_>>().join(", ");
            let who = if who.is_empty() { "somebody else".to_owned() } else { who };
            changed.push((part, format!("{} was changed by {who}", fields::shown(path))));
        } else if others.is_empty() {
            going.push(part);
        } else {
            shared.push((part, others));
        }
    }
    leave_extended(&mut going, &mut shared, &mut changed);
    let backs: Vec<(&FieldPath, usize, Option<&Value>)> =
        going.iter().map(|part| (&part.first.path, part.first.depth, part.first.before.as_ref())).collect();
    let to: State = match back(&now, &backs) {
        Ok(_) if backs.is_empty() => from.clone(),
        Ok(made) => shared::state_of(&made, known),
        Err(why) => {
            changed.extend(going.drain(..).map(|part| (part, why.to_string())));
            from.clone()
        }
    };
    let is_empty = going.is_empty() && shared.is_empty() && changed.is_empty();
    let change = Change { object: object.clone(), from, to };
    (!is_empty).then_some(OrphanedParts { thing, going, shared, changed, change })
}

/// Leaves the fields of an item of a list that stays itself, since somebody has extended or changed it: the server would refuse a container without its image.
fn leave_extended<'r>(
    going: &mut Vec<&'r ManagedPart>,
    shared: &mut Vec<(&'r ManagedPart, BTreeSet<String>)>,
    changed: &mut Vec<(&'r ManagedPart, String)>,
) {
    let is_item = |part: &ManagedPart| matches!(part.first.path.last(), Some(Segment::Item(..)));
    let within = |item: &ManagedPart, part: &ManagedPart| part.first.path.starts_with(&item.first.path);
    let (extended, rest): (Vec<_>, Vec<_>) = std::mem::take(shared)
        .into_iter()
        .partition(|(item, _)| is_item(item) && going.iter().any(|part| within(item, part)));
    *shared = rest;
    changed.extend(extended.into_iter().map(|(item, managers)| {
        let who = managers.into_iter().map(|manager| format!("`{manager}`")).collect::<Vec<_>>().join(", ");
        (item, format!("{} was extended by {who}", fields::shown(&item.first.path)))
    }));
    let items: Vec<_> = changed.iter().filter(|(item, _)| is_item(item)).cloned().collect();
    let why =
        |part: &ManagedPart| items.iter().find(|(item, _)| within(item, part)).map(|(_, why)| why.clone());
    going.retain(|part| {
        changed.extend(why(part).map(|why| (*part, why)));
        why(part).is_none()
    });
}

/// Whether a field has this value; an empty map or list and none are the same to the server.
fn is_as(now: &Value, part: &ManagedPart, value: Option<&Value>) -> bool {
    let field = fields::Field { path: part.first.path.clone(), before: None, after: value.cloned() };
    fields::deviating(now, &[field], true).is_empty()
}

/// The item that gives the orphaned parts of an object back; `None` where all of them stay.
fn item(id: u32, parts: &OrphanedParts<'_>, known: &Knowledge) -> Option<Item> {
    let dropped: Vec<&ManagedPart> = parts.dropped().collect();
    let role = dropped.last()?.role.clone();
    let object = &parts.thing.object;
    let undo = super::undo_of(parts.thing, &[], &BTreeSet::new(), known);
    let stays = |(part, managers): &(&ManagedPart, BTreeSet<String>)| {
        let managers: Vec<&str> = managers.iter().map(String::as_str).collect();
        format!(
            "{object}: {}",
            staying(&[fields::shown(&part.first.path)], Some("no longer this project's"), &managers)
        )
    };
    let left = |(_, why): &(&ManagedPart, String)| format!("{object}: {why} and is left as it is");
    let notes = parts.shared.iter().map(stays).chain(parts.changed.iter().map(left)).collect();
    let verdict = Verdict::Back(parts.change.clone());
    let member = JudgedUndo { undo, verdict, in_part: false, notes };
    let name = format!("orphaned: parts of {}", title_of(object));
    let address = format!("{role}/{name}");
    Some(Item {
        origin: ItemOrigin::Prune,
        kind: "prune".to_owned(),
        role,
        name,
        parts: dropped.iter().map(|part| (object.clone(), part.first.path.clone())).collect(),
        ..revert::item(id, &address, vec![member])
    })
}
