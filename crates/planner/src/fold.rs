//! The fold: declared items, in order, over the virtual host.

use crate::conflict::{Claims, conflicts};
use crate::declared::{ItemDeclaration, ItemSource, Outputs, ResolvedParameters};
use crate::guard::join_guarded;
use crate::pass::{FoldResult, History, Pass, RestartersOfUnits};
use crate::{Alteration, AlteredFacts, HostPlan, Item, Knowledge, Problem, VirtualHost, chains, names};
use converge_resource::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// Plans the items of one host with the answers so far. Pure: it is called again when there are more.
pub fn fold(host: &str, source: &dyn ItemSource, known: &Knowledge, history: &History) -> FoldResult {
    let mut closed = BTreeSet::new();
    let mut stages = stages(source, history, &Outputs::new());
    let mut restarters = RestartersOfUnits::new();
    let mut contested = BTreeMap::new();
    let mut passes = 0;
    loop {
        let (folded, found) = pass(host, source, known, history, (&closed, &stages, &restarters, &contested));
        let more = names::contested(&folded.conflicts, source.items());
        if more.keys().any(|index| !contested.contains_key(index)) {
            contested.extend(more);
            continue;
        }
        // The value that an item has registered may complete one more part.
        if !folded.outputs.is_empty() {
            let all = self::stages(source, history, &folded.outputs);
            if all.len() > stages.len() {
                stages = all;
                continue;
            }
        }
        let more = chains::closed(&folded.plan.items);
        passes += 1;
        // The items that restart a unit are known after one pass; they change again only if an item turns out to be invalid.
        let same = passes > 4 || found == restarters;
        // Every further pass closes at least one more chain, so this ends.
        if same && (!folded.asks.is_empty() || more.is_subset(&closed)) {
            return folded;
        }
        if folded.asks.is_empty() {
            closed.extend(more);
        }
        restarters = found;
    }
}

/// The parts of the question that items ask together, by the items' numbers. Finished items do not ask again.
fn stages(source: &dyn ItemSource, history: &History, outputs: &Outputs) -> BTreeMap<usize, String> {
    let over = |item: &ItemDeclaration| {
        history.changed.contains(&item.address) || history.over.contains(&item.address)
    };
    let items = source.items().iter().enumerate().filter(|(_, item)| !over(item));
    items.filter_map(|(index, _)| Some((index, source.stage(index, outputs)?))).collect()
}

/// Results of earlier passes: closed chains, parts of questions, the items that restart each unit, and objects with two
/// owners under two names.
type EarlierPasses<'a> = (
    &'a BTreeSet<ObjectId>,
    &'a BTreeMap<usize, String>,
    &'a RestartersOfUnits,
    &'a BTreeMap<usize, Problem>,
);

fn pass(
    host: &str,
    source: &dyn ItemSource,
    known: &Knowledge,
    history: &History,
    (closed, stages, restarters, contested): EarlierPasses<'_>,
) -> (FoldResult, RestartersOfUnits) {
    let mut pass = Pass {
        virtual_host: VirtualHost::new(known).with_restarters(restarters.clone()),
        known,
        history,
        closed,
        contested,
        out: FoldResult::default(),
        last_of_role: BTreeMap::new(),
        last_on_object: BTreeMap::new(),
        failed_roles: BTreeMap::new(),
        guarded: BTreeMap::new(),
        restarts: BTreeSet::new(),
        restarters: RestartersOfUnits::new(),
        restarting_roles: BTreeMap::new(),
        secrets: BTreeSet::new(),
    };
    host.clone_into(&mut pass.out.plan.host);
    pass.virtual_host.ask_together(stages.values().cloned().collect());
    let places: BTreeMap<usize, usize> = stages.keys().enumerate().map(|(at, index)| (*index, at)).collect();
    let mut all_claims = Vec::new();
    let mut altered = AlteredFacts::default();
    for (index, declared) in source.items().iter().enumerate() {
        pass.virtual_host.enter_role(&declared.role);
        pass.virtual_host.enter_stage(places.get(&index).copied());
        pass.virtual_host.enter_item(&declared.address);
        let resolved = source.resolve(index, &pass.out.outputs, pass.virtual_host.altered());
        let claims = match &resolved {
            ResolvedParameters::Ready { resource, .. } => resource.claims(),
            ResolvedParameters::Unknown { claims, .. } => claims.clone(),
            ResolvedParameters::Skipped(_) | ResolvedParameters::Invalid(_) => Vec::new(),
        };
        let named = claims.iter().map(|claim| claim.object.clone()).collect();
        all_claims.push(Claims { index, role: declared.role.clone(), claims, named });
        let reads = matches!(&resolved, ResolvedParameters::Ready { resource, .. } if resource.read_only());
        let asked = pass.out.asks.len();
        pass.item(index, declared, resolved, source);
        // An item that only reads changes nothing for the items after it, whatever the answer is.
        if !reads && pass.out.asks.len() > asked {
            pass.virtual_host.leave_open();
        }
        let now = pass.virtual_host.altered();
        if *now != altered {
            let moment = source.moment(index);
            let made = now.since(&altered).into_iter().map(|(fact, value)| Alteration {
                moment,
                item: declared.address.clone(),
                fact,
                value,
            });
            pass.out.plan.alterations.extend(made);
            altered = now.clone();
        }
    }
    note_values_from_before(&mut pass.out.plan);
    join_guarded(&mut pass.out.plan.items, &pass.restarts);
    // Which names mean one object is known only after the last item.
    for item in &mut all_claims {
        item.claims = pass.virtual_host.on_one(std::mem::take(&mut item.claims));
    }
    pass.out.conflicts = conflicts(&all_claims, &|a, b| source.ordered(a, b));
    pass.ask_for_diffs();
    let claimed: BTreeSet<&ObjectId> = pass.out.plan.items.iter().flat_map(|i| &i.claims).collect();
    let base =
        claimed.into_iter().filter_map(|o| known.observed(o).ok().map(|present| (o.clone(), present.state)));
    pass.out.plan.base = base.collect();
    let made = pass.virtual_host.into_contents();
    pass.out.plan.contents.extend(made);
    pass.restarters.retain(|_, items| items.len() > 1);
    (pass.out, pass.restarters)
}

/// Says it of items that read a fact which a later item gives another value: the next run will read that one.
fn note_values_from_before(plan: &mut HostPlan) {
    let place: BTreeMap<&str, u32> = plan.items.iter().map(|item| (item.address.as_str(), item.id)).collect();
    let known = plan.alterations.iter().filter(|alteration| alteration.value.is_some());
    let altered: Vec<(u32, &Alteration)> =
        known.filter_map(|alteration| Some((*place.get(alteration.item.as_str())?, alteration))).collect();
    let note = |item: &Item| {
        let is_later = |(id, by): &&(u32, &Alteration)| *id > item.id && item.facts.contains(&by.fact);
        altered.iter().find(is_later).map(|(_, by)| {
            let Alteration { fact, item, .. } = by;
            format!("facts.{fact} still has its value from before this run: `{item}` changes it later")
        })
    };
    let notes: Vec<Option<String>> = plan.items.iter().map(note).collect();
    plan.items.iter_mut().zip(notes).for_each(|(item, note)| item.notes.extend(note));
}
