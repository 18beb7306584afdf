//! The fold: declared items, in order, over the virtual host.

use crate::conflict::{Claims, Conflict, conflicts};
use crate::guard::{guarded, join_guarded};
use crate::{
    Guarded, HostPlan, Item, Knowledge, Outcome, PlannedChange, Problem, SaidGuard, VirtualHost, chains,
};
use converge_resource::{
    Change, Claim, ClaimMode, Disruption, DynResource, ObjectId, Probe, State, Stop, View as _, Wait, Wanted,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of an item without a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// `role/name`, with `[key]` for an element of `for_each`.
    pub address: String,
    /// What the user called it (without `[key]`): what `restart_on` names.
    pub name: String,
    /// The role.
    pub role: String,
    /// The kind.
    pub kind: String,
    /// `file:line`.
    pub origin: String,
    /// The variable that takes its output.
    pub register: Option<String>,
    /// What the user says that it does to what runs; else its kind and its objects say it.
    pub disruption: Option<Disruption>,
    /// What the user says of its guard.
    pub guard: SaidGuard,
}

/// An item's parameters on a host.
pub enum Resolved {
    /// All parameters are known.
    Ready {
        /// The resource.
        resource: Box<dyn DynResource>,
        /// Its parameters as JSON.
        params: serde_json::Value,
        /// True when a sensitive value was in reach.
        sensitive: bool,
    },
    /// It does not apply: why.
    Skipped(String),
    /// A value is not known yet.
    Unknown {
        /// The variables that are outputs of deferred items.
        names: Vec<String>,
        /// What it answers for, as far as the parameters that are known tell.
        claims: Vec<Claim>,
        /// True when a sensitive value was in reach.
        sensitive: bool,
    },
    /// The declaration is wrong on this host.
    Invalid(Problem),
}

/// A registered value.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The value.
    pub value: serde_json::Value,
    /// The item that registered it is sensitive: so is what the value reaches.
    pub sensitive: bool,
}

/// Registered values by role and name.
pub type Outputs = BTreeMap<(String, String), Output>;

/// The reason of a sensitive item may quote what nobody is to read.
fn silent(stop: Stop) -> Stop {
    let pointer = if let Stop::Invalid { pointer, .. } = stop { pointer } else { String::new() };
    Stop::Invalid {
        pointer,
        message: "it is wrong on this host (why is sensitive)".to_owned(),
        help: Some("look on the host, or try it with a value that is no secret".to_owned()),
    }
}

/// Where the items of one host come from: a project, or a saved plan.
pub trait Source {
    /// All items of the host, in an order in which every role comes after those that it requires.
    fn items(&self) -> &[Declared];
    /// Evaluates item `index`. `outputs` holds the registered values so far; a registered name that is missing there
    /// is unknown.
    fn resolve(&self, index: usize, outputs: &Outputs) -> Resolved;
    /// Whether role `a` surely comes before role `b`.
    fn ordered(&self, a: &str, b: &str) -> bool;
}

/// What a fold found.
#[derive(Debug, Default)]
pub struct Folded {
    /// The plan so far. Complete when `asks` is empty.
    pub plan: HostPlan,
    /// Questions that the host must answer first.
    pub asks: BTreeSet<Probe>,
    /// Contents that only a diff for people needs. Not worth a round trip when nobody looks.
    pub diff_asks: BTreeSet<Probe>,
    /// Two owners of one thing: an error of the whole run.
    pub conflicts: Vec<Conflict>,
    /// Values of `register`.
    pub outputs: Outputs,
}

/// What has happened earlier in the same run, by the items' addresses. Such items are not planned again.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// They were changed: for `restart_on` and `on_change` they count as changed.
    pub changed: BTreeSet<String>,
    /// They are over without a change: as declared, failed, refused or skipped.
    pub over: BTreeSet<String>,
}

/// Plans the items of one host against what it has answered. Pure: call it again when more is known.
pub fn fold(host: &str, source: &dyn Source, known: &Knowledge, history: &History) -> Folded {
    let mut closed = BTreeSet::new();
    loop {
        let folded = pass(host, source, known, history, &closed);
        let more = chains::closed(&folded.plan.items);
        // Every pass closes at least one more chain, so this ends.
        if !folded.asks.is_empty() || more.is_subset(&closed) {
            return folded;
        }
        closed.extend(more);
    }
}

struct Pass<'a> {
    virtual_host: VirtualHost<'a>,
    known: &'a Knowledge,
    history: &'a History,
    closed: &'a BTreeSet<ObjectId>,
    out: Folded,
    /// Items whose failure stops later ones: the last of each role that matters, and who changed an object last.
    last_of_role: BTreeMap<String, u32>,
    last_on_object: BTreeMap<ObjectId, u32>,
    /// Roles in which an item failed at plan time.
    failed_roles: BTreeMap<String, String>,
    /// Guarded items by role and name, and the numbers of those that restart something for one.
    guarded: BTreeMap<(String, String), Guarded>,
    restarts: BTreeSet<u32>,
}

fn pass(
    host: &str,
    source: &dyn Source,
    known: &Knowledge,
    history: &History,
    closed: &BTreeSet<ObjectId>,
) -> Folded {
    let mut pass = Pass {
        virtual_host: VirtualHost::new(known),
        known,
        history,
        closed,
        out: Folded::default(),
        last_of_role: BTreeMap::new(),
        last_on_object: BTreeMap::new(),
        failed_roles: BTreeMap::new(),
        guarded: BTreeMap::new(),
        restarts: BTreeSet::new(),
    };
    host.clone_into(&mut pass.out.plan.host);
    let mut all_claims = Vec::new();
    for (index, declared) in source.items().iter().enumerate() {
        pass.virtual_host.enter_role(&declared.role);
        let resolved = source.resolve(index, &pass.out.outputs);
        let claims = match &resolved {
            Resolved::Ready { resource, .. } => resource.claims(),
            Resolved::Unknown { claims, .. } => claims.clone(),
            Resolved::Skipped(_) | Resolved::Invalid(_) => Vec::new(),
        };
        all_claims.push(Claims { index, role: declared.role.clone(), claims });
        let reads = matches!(&resolved, Resolved::Ready { resource, .. } if resource.read_only());
        let asked = pass.out.asks.len();
        pass.item(index, declared, resolved, source);
        // What only reads changes nothing for those after it, whatever it is told.
        if !reads && pass.out.asks.len() > asked {
            pass.virtual_host.leave_open();
        }
    }
    join_guarded(&mut pass.out.plan.items, &pass.restarts);
    pass.out.conflicts = conflicts(&all_claims, &|a, b| source.ordered(a, b));
    pass.ask_for_diffs();
    let claimed: BTreeSet<&ObjectId> = pass.out.plan.items.iter().flat_map(|i| &i.claims).collect();
    let base = claimed.into_iter().filter_map(|o| known.observed(o).ok().map(|seen| (o.clone(), seen.state)));
    pass.out.plan.base = base.collect();
    let made = pass.virtual_host.into_contents();
    pass.out.plan.contents.extend(made);
    pass.out
}

impl Pass<'_> {
    fn item(&mut self, index: usize, declared: &Declared, resolved: Resolved, source: &dyn Source) {
        let mut item = Item {
            id: u32::try_from(index).unwrap_or(u32::MAX),
            address: declared.address.clone(),
            name: declared.name.clone(),
            role: declared.role.clone(),
            kind: declared.kind.clone(),
            origin: declared.origin.clone(),
            needs: self.role_needs(declared, source),
            ..Item::default()
        };
        let mut objects = Vec::new();
        let mut basis = None;
        let mut by_kind = Disruption::None;
        let mut names = Vec::new();
        let outcome = match resolved {
            Resolved::Skipped(why) => Outcome::Skipped(why),
            Resolved::Invalid(problem) => Outcome::Failed(problem),
            Resolved::Unknown { names, claims, sensitive } => {
                item.sensitive = sensitive;
                objects = objects_of(&claims);
                self.ask_for_claims(&claims);
                Outcome::Deferred {
                    wait: Wait {
                        item: String::new(),
                        reason: format!("{} is not known yet", names.join(", ")),
                    },
                    objects: objects.clone(),
                }
            }
            Resolved::Ready { resource, params, sensitive } => {
                let sensitive = sensitive || resource.sensitive();
                item.sensitive = sensitive;
                by_kind = resource.disruption();
                names = resource.names();
                basis = resource.basis();
                item.params = (!sensitive).then_some(params);
                let claims = resource.claims();
                objects = objects_of(&claims);
                self.ask_for_claims(&claims);
                let read_only = resource.read_only();
                let over =
                    self.history.changed.contains(&item.address) || self.history.over.contains(&item.address);
                match self.failed_before(declared, source) {
                    // What was read stays read, unless later items need its value.
                    _ if over && !(read_only && declared.register.is_some()) => Outcome::Unchanged,
                    Some(why) if !read_only => Outcome::Failed(Problem::new(why)),
                    _ => self.planned(&mut item, resource.as_ref(), &claims, declared),
                }
            }
        };
        item.disruption = self.disruption(declared, by_kind, &outcome);
        self.close(&mut item, outcome, (objects, basis), declared);
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

    /// What an item does to what runs: as the user says, else the worst of its kind and its objects.
    fn disruption(&self, declared: &Declared, by_kind: Disruption, outcome: &Outcome) -> Disruption {
        let by_objects = match outcome {
            Outcome::Changed(changes) => disruption(changes),
            Outcome::Deferred { objects, .. } => objects
                .iter()
                .filter_map(|object| {
                    let seen = self.known.observed(object).ok()?;
                    Some(converge_objects::object(&object.kind)?.disruption(&seen.state, None))
                })
                .max()
                .unwrap_or_default(),
            _ => return Disruption::None,
        };
        declared.disruption.unwrap_or(by_kind.max(by_objects))
    }

    /// Plans one resource whose parameters are known.
    fn planned(
        &mut self,
        item: &mut Item,
        resource: &dyn DynResource,
        claims: &[Claim],
        declared: &Declared,
    ) -> Outcome {
        let planned = resource.plan(&self.virtual_host).map_err(|stop| match stop {
            Stop::Invalid { .. } | Stop::Failed(_) if item.sensitive => silent(stop),
            stop => stop,
        });
        let wanted = match planned {
            Ok(wanted) => wanted,
            Err(Stop::Ask(probes)) => {
                let unanswered: Vec<Probe> = probes.into_iter().filter(|p| !self.known.knows(p)).collect();
                if unanswered.is_empty() {
                    return Outcome::Failed(Problem::new("asks again for what was answered already"));
                }
                self.out.asks.extend(unanswered);
                return Outcome::Unchanged;
            }
            Err(Stop::Deferred(wait)) => {
                return Outcome::Deferred { wait, objects: objects_of(claims) };
            }
            Err(Stop::Invalid { pointer, message, help }) => {
                return Outcome::Failed(Problem { message, help, pointer, at: None });
            }
            Err(Stop::Failed(why)) => return Outcome::Failed(Problem::new(why)),
        };
        item.notes = wanted.notes.clone();
        item.settings = wanted.settings.clone();
        item.calls.clone_from(&wanted.calls);
        item.fetch = wanted.fetch.clone();
        item.backup = wanted.backup.clone();
        item.way_back = wanted.way_back.clone();
        if let (Some(name), Some(output)) = (&declared.register, &wanted.output) {
            let output = Output { value: output.clone(), sensitive: item.sensitive };
            self.out.outputs.insert((declared.role.clone(), name.clone()), output);
        }
        self.take(item, wanted, claims)
    }

    /// Lays what a resource wants over the virtual host.
    fn take(&mut self, item: &mut Item, wanted: Wanted, claims: &[Claim]) -> Outcome {
        for content in wanted.contents {
            self.virtual_host.add_content(content);
        }
        let mut changes = Vec::new();
        let mut adopted = Vec::new();
        for (list, targets) in [(&mut changes, wanted.targets), (&mut adopted, wanted.adopt)] {
            // An item's steps start when all its objects are still as the items before it left them.
            let mut moves = Vec::new();
            for (object, to) in targets {
                match self.virtual_host.observed(&object) {
                    Ok(seen) if seen.state == to => {}
                    Ok(seen) => moves.push(Change { object, from: seen.state, to }),
                    Err(Stop::Ask(probes)) => self.out.asks.extend(probes),
                    Err(Stop::Deferred(wait)) => return Outcome::Deferred { wait, objects: vec![object] },
                    Err(Stop::Failed(why)) => return Outcome::Failed(Problem::new(why)),
                    Err(Stop::Invalid { message, .. }) => return Outcome::Failed(Problem::new(message)),
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
            for claim in claims.iter().filter(|c| is_promise(c)) {
                let seen = self.virtual_host.observed(&claim.object);
                if seen.is_ok_and(|o| o.state.is_absent()) {
                    self.virtual_host.promise(claim.object.clone(), &item.address);
                }
            }
            let mut planned: Vec<PlannedChange> = changes.into_iter().map(plan_change).collect();
            for (object, why) in wanted.irreversible {
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
        declared: &Declared,
    ) {
        let changed = matches!(outcome, Outcome::Changed(_));
        if !changed {
            item.fetch = None;
            item.backup = None;
            item.way_back = None;
        }
        let deferred = matches!(outcome, Outcome::Deferred { .. });
        if deferred {
            self.virtual_host.defer(&declared.address, &objects);
        }
        let mut matters = changed || deferred;
        if let Outcome::Failed(problem) = &outcome {
            // What only reads is planned behind it all the same; when the turn comes, it is not begun.
            matters = true;
            self.failed_roles.entry(declared.role.clone()).or_insert_with(|| {
                format!("`{}` comes first and cannot be done: {}", item.address, problem.message)
            });
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
    fn role_needs(&self, declared: &Declared, source: &dyn Source) -> Vec<u32> {
        self.last_of_role
            .iter()
            .filter(|(role, _)| **role == declared.role || source.ordered(role, &declared.role))
            .map(|(_, id)| *id)
            .collect()
    }

    fn failed_before(&self, declared: &Declared, source: &dyn Source) -> Option<String> {
        self.failed_roles
            .iter()
            .find(|(role, _)| **role == declared.role || source.ordered(role, &declared.role))
            .map(|(_, why)| why.clone())
    }

    /// Objects that are claimed are always looked at, and files that are edited are read, in the first round already.
    fn ask_for_claims(&mut self, claims: &[Claim]) {
        if self.known.absent().is_some() {
            return;
        }
        for claim in claims {
            let mut probes = vec![Probe::Object(claim.object.clone())];
            if claim.mode == ClaimMode::Edit && claim.facet == "content" && claim.object.kind == "path" {
                probes.push(Probe::Content(claim.object.key.clone()));
            }
            self.out.asks.extend(probes.into_iter().filter(|p| !self.known.knows(p)));
        }
    }

    /// For changed files: the old content, for the diff.
    fn ask_for_diffs(&mut self) {
        let mut found = Vec::new();
        for item in &self.out.plan.items {
            for planned in item.changes() {
                let change = &planned.change;
                let Some(digest) = content_of(&change.object, &change.from) else { continue };
                if change.object.kind != "path" {
                    // The content of what lives in a cluster came with its state, and is compared field by field later.
                    found.extend(self.known.content(&digest).cloned());
                    continue;
                }
                if item.sensitive {
                    continue;
                }
                match self.known.content(&digest) {
                    Some(content) => found.push(content.clone()),
                    None => {
                        let probe = Probe::Content(change.object.key.clone());
                        let predicted = content_of(&change.object, &change.to).as_ref() == Some(&digest);
                        if !predicted && !self.known.knows(&probe) {
                            self.out.diff_asks.insert(probe);
                        }
                    }
                }
            }
        }
        for content in found {
            self.out.plan.contents.insert(content.digest().clone(), content);
        }
    }
}

/// The objects that these claims answer for, each once.
fn objects_of(claims: &[Claim]) -> Vec<ObjectId> {
    let mut objects = Vec::new();
    for claim in claims.iter().filter(|c| !is_promise(c)) {
        if !objects.contains(&claim.object) {
            objects.push(claim.object.clone());
        }
    }
    objects
}

/// A claim that says only: my steps may make this.
fn is_promise(claim: &Claim) -> bool {
    claim.facet == "may-create"
}

fn content_of(object: &ObjectId, state: &State) -> Option<converge_resource::Digest> {
    converge_objects::object(&object.kind).and_then(|o| o.content(state))
}

/// The worst that these changes do to what runs, as their objects say.
pub fn disruption(changes: &[PlannedChange]) -> Disruption {
    let one = |planned: &PlannedChange| {
        let object = converge_objects::object(&planned.change.object.kind)?;
        Some(object.disruption(&planned.change.from, Some(&planned.change.to)))
    };
    changes.iter().filter_map(one).max().unwrap_or_default()
}

/// Adds what people must know beforehand.
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
