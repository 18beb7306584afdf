//! One pass over the declared items of a host: each is planned against the virtual host.

mod ask;
mod secret;

use crate::conflict::Conflict;
use crate::declared::{ItemDeclaration, ItemSource, Output, Outputs, ResolvedParameters};
use crate::guard::{guarded, refuses};
use crate::{HostPlan, Item, ItemGuard, Knowledge, Outcome, PlannedChange, Problem, VirtualHost, names};
use ask::{is_promise, objects_of};
use converge_resource::{
    Change, Claim, Disruption, DynResource, First, ObjectId, Probe, Stop, View as _, Wait, WantedStates,
};
use std::collections::{BTreeMap, BTreeSet};

/// The number of changes that must be made before one item, at most.
const MOST_FIRST: u32 = 4;

/// The result of a fold.
#[derive(Debug, Default)]
pub struct FoldResult {
    /// The plan so far. Complete when `asks` is empty.
    pub plan: HostPlan,
    /// Questions that the host must answer first.
    pub asks: BTreeSet<Probe>,
    /// Contents that only a diff for people needs. They are worth a round trip only if a diff is shown.
    pub diff_asks: BTreeSet<Probe>,
    /// Conflicts of two owners of one object: an error of the whole run.
    pub conflicts: Vec<Conflict>,
    /// Values of `register`.
    pub outputs: Outputs,
}

/// The results of earlier items of the same run, by address. Such items are not planned again.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Items that were changed: for `restart_on` and `on_change` they count as changed.
    pub changed: BTreeSet<String>,
    /// Items that ended without a change: as declared, failed, refused or skipped.
    pub over: BTreeSet<String>,
}

/// Units that several items restart, with the addresses of these.
pub(crate) type RestartersOfUnits = BTreeMap<ObjectId, Vec<String>>;

/// The state of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) virtual_host: VirtualHost<'a>,
    pub(crate) known: &'a Knowledge,
    pub(crate) history: &'a History,
    pub(crate) closed: &'a BTreeSet<ObjectId>,
    pub(crate) contested: &'a BTreeMap<usize, Problem>,
    pub(crate) out: FoldResult,
    /// Items whose failure stops later ones: the last of each role that matters, and the last that changed each object.
    pub(crate) last_of_role: BTreeMap<String, u32>,
    pub(crate) last_on_object: BTreeMap<ObjectId, u32>,
    /// Roles in which an item failed at plan time.
    pub(crate) failed_roles: BTreeMap<String, String>,
    /// Guarded items by role and name, and the numbers of those that restart something for one.
    pub(crate) guarded: BTreeMap<(String, String), ItemGuard>,
    pub(crate) restarts: BTreeSet<u32>,
    pub(crate) restarters: RestartersOfUnits,
    /// The roles of those that were planned.
    pub(crate) restarting_roles: BTreeMap<ObjectId, Vec<String>>,
    /// The objects of sensitive items.
    pub(crate) secrets: BTreeSet<ObjectId>,
}

/// The reason of a sensitive item may quote a secret.
fn silent(stop: Stop) -> Stop {
    let pointer = match stop {
        Stop::Invalid { pointer, help, open: Some(message), .. } => {
            return Stop::Invalid { pointer, message, help, open: None };
        }
        Stop::Invalid { pointer, .. } => pointer,
        _ => String::new(),
    };
    Stop::Invalid {
        pointer,
        message: "error on this host (the reason is sensitive)".to_owned(),
        help: Some("look on the host, or try it with a value that is no secret".to_owned()),
        open: None,
    }
}

impl Pass<'_> {
    pub(crate) fn item(
        &mut self,
        index: usize,
        declared: &ItemDeclaration,
        resolved: ResolvedParameters,
        source: &dyn ItemSource,
    ) {
        let mut item = Item {
            id: u32::try_from(index).unwrap_or(u32::MAX),
            address: declared.address.clone(),
            name: declared.name.clone(),
            item_id: declared.item_id.clone(),
            role: declared.role.clone(),
            kind: declared.kind.clone(),
            location: declared.location.clone(),
            needs: self.role_needs(declared, source),
            facts: source.facts_read(index),
            waits_for_others: source.waits_for_others(index),
            notes: source.remarks(index),
            ..Item::default()
        };
        let mut objects = Vec::new();
        let mut basis = None;
        let mut by_kind = Disruption::None;
        let mut names = Vec::new();
        let mut restarts = None;
        let outcome = match resolved {
            ResolvedParameters::Skipped(why) => Outcome::Skipped(why),
            ResolvedParameters::Invalid(problem) => Outcome::Failed(problem),
            ResolvedParameters::Unknown { names, claims, sensitive } => {
                let claims = self.called(claims, &mut item.notes);
                objects = objects_of(&claims);
                item.sensitive = sensitive || self.holds_secret(&objects);
                Outcome::Deferred {
                    wait: self.wait_for(index, declared, &names, source),
                    objects: objects.clone(),
                }
            }
            ResolvedParameters::Ready { resource, params, sensitive } => {
                by_kind = resource.disruption();
                names = resource.names();
                restarts = resource.restarts().map(|unit| self.virtual_host.one(&unit));
                if names.iter().any(|n| self.guarded.contains_key(&(declared.role.clone(), n.clone()))) {
                    self.virtual_host.guard();
                }
                basis = resource.basis();
                let claims = self.called(resource.claims(), &mut item.notes);
                objects = objects_of(&claims);
                item.sensitive = sensitive || resource.sensitive() || self.holds_secret(&objects);
                item.params = (!item.sensitive).then_some(params);
                let read_only = resource.read_only();
                let over =
                    self.history.changed.contains(&item.address) || self.history.over.contains(&item.address);
                match self.failed_before(declared, source) {
                    // An item that has read does not read again, unless later items need its value.
                    _ if over && !(read_only && declared.register.is_some()) => {
                        self.still_runs_with(resource.as_ref());
                        Outcome::Unchanged
                    }
                    _ if self.contested.contains_key(&index) => {
                        self.contested.get(&index).cloned().map_or(Outcome::Unchanged, Outcome::Failed)
                    }
                    Some(why) if !read_only => Outcome::Failed(Problem::blocked(why)),
                    _ => self.planned_behind(&mut item, resource.as_ref(), &claims, declared),
                }
            }
        };
        if let Some(unit) = restarts.filter(|_| !matches!(outcome, Outcome::Failed(_) | Outcome::Refused(_)))
        {
            self.note_restart(unit, &mut item, declared);
        }
        item.disruption = self.disruption(declared, by_kind, &outcome);
        self.close(&mut item, outcome, (objects, basis), declared);
        self.keep_secrets(&mut item);
        if let Some(problem) = refuses(&item, declared.guard) {
            item.outcome = Outcome::Failed(problem);
        }
        let named = names.iter().find_map(|name| self.guarded.get(&(declared.role.clone(), name.clone())));
        item.guard = guarded(&item, declared.guard, named.copied());
        if let Some(guard) = item.guard {
            if named.is_some() {
                self.restarts.insert(item.id);
            }
            self.guarded.insert((declared.role.clone(), declared.name.clone()), guard);
        }
        self.out.plan.items.push(item);
    }

    /// Notes that an item may restart a unit. A unit is not restarted for changes that an earlier role could not make.
    fn note_restart(&mut self, unit: ObjectId, item: &mut Item, declared: &ItemDeclaration) {
        for role in self.restarting_roles.get(&unit).into_iter().flatten() {
            if let Some(last) = self.last_of_role.get(role).filter(|id| !item.needs.contains(id)) {
                item.needs.push(*last);
            }
        }
        self.restarting_roles.entry(unit.clone()).or_default().push(declared.role.clone());
        self.restarters.entry(unit).or_default().push(declared.address.clone());
    }

    /// The reason to wait for an item that reads these unknown variables.
    fn wait_for(
        &self,
        index: usize,
        declared: &ItemDeclaration,
        names: &[String],
        source: &dyn ItemSource,
    ) -> Wait {
        let altered = self.virtual_host.altered();
        let fact = |name: &String| {
            let (_, fact) =
                name.strip_prefix("facts.").map(|f| ("", f)).or_else(|| name.split_once(".facts."))?;
            let own = || altered.wait(fact.split('.').next().unwrap_or(fact)).cloned();
            source.wait_for_other(index, name).or_else(own)
        };
        let registers = |earlier: &&ItemDeclaration| {
            earlier.role == declared.role && earlier.register.as_ref().is_some_and(|r| names.contains(r))
        };
        let mut waits: Vec<Wait> = names.iter().filter_map(fact).collect();
        if !waits.is_empty() && waits.len() == names.len() {
            waits.dedup();
            let reasons: Vec<&str> = waits.iter().map(|w| w.reason.as_str()).collect();
            let item = waits.last().map(|w| w.item.clone()).unwrap_or_default();
            return Wait { item, reason: reasons.join("; ") };
        }
        let earlier = source.items().iter().take(index).rev();
        let item = earlier.clone().find(registers).map(|i| i.address.clone()).unwrap_or_default();
        Wait { item, reason: format!("{} is not known yet", names.join(", ")) }
    }

    /// The effect of an item on running work: as the user declares it, else the worst of its kind and its objects.
    fn disruption(&self, declared: &ItemDeclaration, by_kind: Disruption, outcome: &Outcome) -> Disruption {
        let by_objects = match outcome {
            Outcome::Changed(changes) => disruption(changes),
            Outcome::Deferred { objects, .. } => objects
                .iter()
                .filter_map(|object| {
                    let found = self.known.observed(object).ok()?;
                    Some(converge_objects::object(&object.kind)?.disruption(&found.state, None))
                })
                .max()
                .unwrap_or_default(),
            _ => return Disruption::None,
        };
        declared.disruption.unwrap_or(by_kind.max(by_objects))
    }

    /// Plans one resource, after the changes that must be made first.
    fn planned_behind(
        &mut self,
        item: &mut Item,
        resource: &dyn DynResource,
        claims: &[Claim],
        declared: &ItemDeclaration,
    ) -> Outcome {
        let mut count = 0;
        loop {
            let firsts = match self.planned(item, resource, claims, declared) {
                Ok(outcome) => return outcome,
                Err(firsts) => firsts,
            };
            if firsts.is_empty() || count >= MOST_FIRST {
                return Outcome::Failed(Problem::new("needs again what was done before it"));
            }
            for first in firsts {
                self.put_first(first, count, item);
                count += 1;
            }
        }
    }

    /// Plans one resource whose parameters are known; the error holds changes that must be made first.
    fn planned(
        &mut self,
        item: &mut Item,
        resource: &dyn DynResource,
        claims: &[Claim],
        declared: &ItemDeclaration,
    ) -> Result<Outcome, Vec<First>> {
        let planned = resource.plan(&self.virtual_host).map_err(|stop| match stop {
            Stop::Invalid { .. } | Stop::Failed(_) if item.sensitive => silent(stop),
            stop => stop,
        });
        let wanted = match planned {
            Ok(wanted) => wanted,
            Err(Stop::Ask(probes)) => {
                let unanswered: Vec<Probe> = probes.into_iter().filter(|p| !self.known.knows(p)).collect();
                if unanswered.is_empty() {
                    return Ok(Outcome::Failed(Problem::new("asks again for what was answered already")));
                }
                self.out.asks.extend(unanswered);
                return Ok(Outcome::Unchanged);
            }
            Err(Stop::Deferred(wait)) => {
                for claim in claims.iter().filter(|c| is_promise(c)) {
                    self.virtual_host.promise(claim.object.clone(), &item.address);
                }
                return Ok(Outcome::Deferred { wait, objects: objects_of(claims) });
            }
            Err(Stop::Invalid { pointer, message, help, .. }) => {
                return Ok(Outcome::Failed(Problem { message, help, pointer, at: None, blocked: false }));
            }
            Err(Stop::Failed(why)) => return Ok(Outcome::Failed(Problem::new(why))),
            Err(Stop::First(firsts)) => return Err(firsts),
        };
        if let Some(unit) = resource.restarts() {
            for with in &wanted.runs_with {
                self.virtual_host.runs_with(self.virtual_host.one(&unit), with.clone());
            }
        }
        item.notes.extend(wanted.notes.iter().cloned());
        item.settings = wanted.settings.clone();
        item.calls.clone_from(&wanted.calls);
        item.parts.clone_from(&wanted.parts);
        item.fetch = wanted.fetch.clone();
        item.backup = wanted.backup.clone();
        item.node_removal = wanted.node_removal.clone();
        if let (Some(name), Some(output)) = (&declared.register, &wanted.output) {
            let output = Output { value: output.clone(), sensitive: item.sensitive };
            self.out.outputs.insert((declared.role.clone(), name.clone()), output);
        }
        Ok(self.take(item, wanted, claims))
    }

    /// Records a finished item for the later ones that restart the same unit.
    fn still_runs_with(&mut self, resource: &dyn DynResource) {
        let Some(unit) = resource.restarts().map(|unit| self.virtual_host.one(&unit)) else { return };
        match resource.plan(&self.virtual_host) {
            Ok(WantedStates { runs_with, .. }) => {
                runs_with.into_iter().for_each(|with| self.virtual_host.runs_with(unit.clone(), with));
            }
            Err(Stop::Ask(probes)) => {
                self.out.asks.extend(probes.into_iter().filter(|p| !self.known.knows(p)));
            }
            _ => {}
        }
    }

    /// Lays the wanted states of a resource over the virtual host.
    fn take(&mut self, item: &mut Item, wanted: WantedStates, claims: &[Claim]) -> Outcome {
        wanted.contents.into_iter().for_each(|content| self.virtual_host.add_content(content));
        wanted.packed.into_iter().for_each(|packed| self.virtual_host.add_packed(packed));
        self.virtual_host.add_incidental(wanted.incidental);
        let mut changes = Vec::new();
        let mut adopted = Vec::new();
        for (list, targets) in [(&mut changes, wanted.targets), (&mut adopted, wanted.adopt)] {
            // The steps of an item start only if all its objects are still as the earlier items left them.
            let mut moves = Vec::new();
            for (named, to) in targets {
                let object = self.virtual_host.one(&named);
                self.virtual_host.settle(&object, &to);
                // Under its own name: links on the way to it count.
                match self.virtual_host.observed(&named) {
                    Ok(found) if found.state == to && !wanted.owners_only.contains(&named) => {}
                    Ok(found) => {
                        let change = Change { object, from: found.state, to };
                        item.notes.extend(names::severed(&change, found.names));
                        moves.push(change);
                    }
                    Err(Stop::Ask(probes)) => self.out.asks.extend(probes),
                    Err(Stop::Deferred(wait)) => return Outcome::Deferred { wait, objects: vec![object] },
                    Err(Stop::Failed(why)) => return Outcome::Failed(Problem::new(why)),
                    Err(Stop::Invalid { message, help, .. }) => {
                        return Outcome::Failed(Problem { help, ..Problem::new(message) });
                    }
                    Err(Stop::First(_)) => {
                        return Outcome::Failed(Problem::new("a state needs nothing first"));
                    }
                }
            }
            for change in moves {
                self.virtual_host.set(change.object.clone(), change.to.clone());
                if !self.closed.contains(&change.object) {
                    list.push(change);
                }
            }
        }
        if !changes.is_empty() {
            self.virtual_host.note_change(&item.address, &changes);
            match self.virtual_host.cuts_off(&changes) {
                Ok(None) => {}
                Ok(Some(problem)) => return Outcome::Failed(problem),
                Err(Stop::Ask(probes)) => self.out.asks.extend(probes),
                Err(_) => {}
            }
            for claim in claims.iter().filter(|c| is_promise(c)) {
                let found = self.virtual_host.observed(&claim.object);
                if found.is_ok_and(|o| o.state.is_absent()) {
                    self.virtual_host.promise(claim.object.clone(), &item.address);
                }
            }
            let mut planned: Vec<PlannedChange> = changes.into_iter().map(plan_change).collect();
            for (object, why) in wanted.irreversible {
                let object = self.virtual_host.one(&object);
                for change in planned.iter_mut().filter(|p| p.change.object == object) {
                    change.reversibility = converge_resource::Reversibility::Irreversible(why.clone());
                }
            }
            return Outcome::Changed(planned);
        }
        if adopted.is_empty() { Outcome::Unchanged } else { Outcome::Adopt(adopted) }
    }

    /// Records the outcome for later items.
    fn close(
        &mut self,
        item: &mut Item,
        outcome: Outcome,
        (objects, basis): (Vec<ObjectId>, Option<String>),
        declared: &ItemDeclaration,
    ) {
        let changed = matches!(outcome, Outcome::Changed(_));
        if !changed {
            item.fetch = None;
            item.backup = None;
            item.node_removal = None;
        }
        let deferred = matches!(outcome, Outcome::Deferred { .. });
        if deferred {
            self.virtual_host.defer(&declared.address, &objects);
        }
        let mut matters = changed || deferred;
        if let Outcome::Failed(_) = &outcome {
            // Items that only read are still planned behind it; when their turn comes, they are not begun.
            matters = true;
            self.failed_roles
                .entry(declared.role.clone())
                .or_insert_with(|| format!("`{}` has an error", item.address));
        }
        if changed || deferred {
            for planned in match &outcome {
                Outcome::Changed(changes) => changes.as_slice(),
                _ => &[],
            } {
                if let Some(last) = self.last_on_object.insert(planned.change.object.clone(), item.id)
                    && !item.needs.contains(&last)
                {
                    item.needs.push(last);
                }
            }
        }
        if matters {
            self.last_of_role.insert(declared.role.clone(), item.id);
        }
        let changed = changed || self.history.changed.contains(&declared.address);
        item.claims.clone_from(&objects);
        self.virtual_host.finish(&declared.name, (objects, basis), changed, deferred);
        item.outcome = outcome;
    }

    /// The last pending item of this role, and of every role that surely comes before it.
    fn role_needs(&self, declared: &ItemDeclaration, source: &dyn ItemSource) -> Vec<u32> {
        self.last_of_role
            .iter()
            .filter(|(role, _)| **role == declared.role || source.ordered(role, &declared.role))
            .map(|(_, id)| *id)
            .collect()
    }

    fn failed_before(&self, declared: &ItemDeclaration, source: &dyn ItemSource) -> Option<String> {
        self.failed_roles
            .iter()
            .find(|(role, _)| **role == declared.role || source.ordered(role, &declared.role))
            .map(|(_, why)| why.clone())
    }
}

/// The worst effect of these changes on running work, by their objects.
pub fn disruption(changes: &[PlannedChange]) -> Disruption {
    let one = |planned: &PlannedChange| {
        let object = converge_objects::object(&planned.change.object.kind)?;
        Some(object.disruption(&planned.change.from, Some(&planned.change.to)))
    };
    changes.iter().filter_map(one).max().unwrap_or_default()
}

/// Adds notes that people need beforehand.
pub(crate) fn plan_change(change: Change) -> PlannedChange {
    match converge_objects::object(&change.object.kind) {
        Some(object) => PlannedChange {
            reversibility: object.reversibility(&change),
            opaque: object.opaque(&change),
            change,
        },
        None => PlannedChange {
            reversibility: converge_resource::Reversibility::Irreversible(
                "unknown kind of object".to_owned(),
            ),
            opaque: true,
            change,
        },
    }
}
