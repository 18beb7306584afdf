//! Objects of releases of which a prune takes back what the project has set: this comes before the release is upgraded, so helm finds these fields as its own
//! and sets what the chart declares now. Pure.

use converge_objects::k8s::fields::{FieldPath, leaf_differences};
use converge_objects::k8s::from_text;
use converge_objects::{api_ref, is_of_api, release};
use converge_planner::{HostPlan, Item, ItemOrigin};
use converge_resource::{Change, Content, Digest, ObjectId, PreservedField, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type ByDigest = BTreeMap<Digest, Content>;

/// The object in this state, if its content is known.
fn text_of(object: &ObjectId, state: &State, contents: &ByDigest) -> Option<Value> {
    from_text(contents.get(&converge_objects::object(&object.kind)?.content(state)?)?)
}

/// The changes of a prune that leave objects of a cluster.
fn given_back(item: &Item) -> impl Iterator<Item = &Change> {
    let changes = item.changes().iter().map(|planned| &planned.change);
    let is_pruned = item.origin == ItemOrigin::Prune;
    let stays = |change: &Change| !change.from.is_absent() && !change.to.is_absent();
    changes.filter(move |change| is_pruned && is_of_api(&change.object) && stays(change))
}

/// The fields that these items prune of objects that stay.
pub(crate) fn pruned_fields(items: &[Item], contents: &ByDigest) -> Vec<PreservedField> {
    let differing = |change: &Change| -> Vec<FieldPath> {
        let text = |state| text_of(&change.object, state, contents);
        let both = text(&change.from).zip(text(&change.to));
        both.iter().flat_map(|(from, to)| leaf_differences(from, to)).map(|field| field.path).collect()
    };
    let of_item = |item: &Item| -> Vec<(ObjectId, FieldPath)> {
        let whole = given_back(item).filter(|change| !item.parts.iter().any(|(of, _)| *of == change.object));
        let whole = whole.flat_map(|change| {
            differing(change).into_iter().map(|path| (change.object.clone(), path)).collect::<Vec<_>>()
        });
        let parts = item.parts.iter().filter(|_| item.origin == ItemOrigin::Prune).cloned();
        whole.chain(parts).collect()
    };
    let fields = items.iter().flat_map(of_item);
    fields.filter_map(|(object, path)| Some(PreservedField { object: api_ref(&object)?, path })).collect()
}

/// Moves each item of a prune that gives fields of a release's objects back before that release, with what must come before that.
pub(crate) fn lead_releases(plan: &mut HostPlan) {
    let release_of =
        |change: &Change| release::marked(&text_of(&change.object, &change.from, &plan.contents)?);
    let led_by = |item: &Item| {
        let releases: BTreeSet<ObjectId> = given_back(item).filter_map(release_of).collect();
        let is_led = |item: &Item| {
            item.origin == ItemOrigin::Declared
                && item.changes().iter().any(|planned| releases.contains(&planned.change.object))
        };
        plan.items.iter().position(is_led).filter(|_| !releases.is_empty())
    };
    let prunes = || plan.items.iter().enumerate().filter(|(_, item)| item.origin == ItemOrigin::Prune);
    let leading = prunes().filter_map(|(at, item)| Some((at, led_by(item).filter(|led| *led < at)?)));
    let leading: Vec<(usize, usize)> = leading.collect();
    let (Some(last), Some(first)) =
        (leading.iter().map(|(at, _)| *at).max(), leading.iter().map(|(_, led)| *led).min())
    else {
        return;
    };
    // A newer part goes first: a taint before the toleration of it.
    let is_newer_part = |(at, item): &(usize, &Item)| *at < last && !item.parts.is_empty();
    let leads = |(at, _): &(usize, &Item)| leading.iter().any(|(leading, _)| leading == at);
    let mut going: BTreeSet<u32> =
        prunes().filter(|each| leads(each) || is_newer_part(each)).map(|(_, item)| item.id).collect();
    for (_, item) in prunes().collect::<Vec<_>>().into_iter().rev() {
        if going.contains(&item.id) {
            going.extend(prunes().map(|(_, item)| item.id).filter(|id| item.needs.contains(id)));
        }
    }
    let led: BTreeSet<u32> =
        leading.iter().filter_map(|(_, led)| plan.items.get(*led)).map(|item| item.id).collect();
    let items = std::mem::take(&mut plan.items);
    let (mut moved, mut rest): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| going.contains(&item.id));
    moved.iter_mut().for_each(|item| item.needs.retain(|need| going.contains(need)));
    for item in rest.iter_mut().filter(|item| led.contains(&item.id)) {
        let needs: BTreeSet<u32> = item.needs.iter().chain(&going).copied().collect();
        item.needs = needs.into_iter().collect();
    }
    rest.splice(first..first, moved);
    plan.items = rest;
}
