//! Dependencies between hosts in an apply: a role waits for a role that runs elsewhere, and a play goes over its hosts in batches.

use crate::{StepAnswer, TimedItem};
use converge_planner::{Item, ItemOrigin, OtherTargets, OtherTargetsByRole, Turn, Turns};
use converge_resource::Wait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The progress of a role on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoleState {
    /// Something is still to be done.
    pub open: bool,
    /// Something failed.
    pub failed: bool,
}

/// A role that comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequiredRole {
    pub role: String,
    /// It must be through on every eligible host, also where the one that waits has it itself.
    pub everywhere: bool,
}

/// Whether an item may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Go,
    /// Not yet: what it waits for, for people. The second word is the same for what need not be reported twice.
    Wait(String, String),
    /// Not in this run: why.
    Never(String),
}

/// The key of waits for an answer.
pub(crate) const STEP: &str = "step";

/// A batch that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub play: String,
    pub number: usize,
    pub of: usize,
    pub hosts: Vec<String>,
}

/// The progress of every host, shared by all lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Role → the roles that it requires.
    requires: BTreeMap<String, Vec<RequiredRole>>,
    /// Host → its roles → the play that gives it the role. Roles without work are here too.
    declared: BTreeMap<String, BTreeMap<String, usize>>,
    state: Mutex<GateState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    /// Host → role → how far it is. Hosts that are out of the run are not here.
    hosts: BTreeMap<String, BTreeMap<String, RoleState>>,
    turns: Vec<Turns>,
    /// Lanes at work.
    lanes: BTreeSet<String>,
    /// Lanes that wait, with the news that they knew when they began to.
    waiting: BTreeMap<String, u64>,
    news: u64,
    /// Hosts whose next item waits for their turn in a play, not for a role.
    for_turn: BTreeSet<String>,
    /// Host → its items that alter facts which items elsewhere read: these wait.
    altering: BTreeMap<String, BTreeMap<String, PendingAlteration>>,
    /// Items and roles that a person decides on: which hosts have them, and what was said.
    steps: Option<StepState>,
    timeline: Vec<TimedItem>,
}

/// An item that alters facts and has not done so.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PendingAlteration {
    Open,
    /// The reason why it will not do so in this run.
    Never(String),
}

#[derive(Debug)]
struct StepState {
    by_role: bool,
    hosts: BTreeMap<String, Vec<String>>,
    answers: BTreeMap<String, bool>,
    /// A question that a user has to ask, and one that is asked.
    wanted: Option<String>,
    asked: bool,
}

impl StepState {
    /// The unit of a decision with `--step` that this item belongs to.
    fn key(&self, item: &Item) -> String {
        if self.by_role { item.role.clone() } else { item.address.clone() }
    }
}

impl GateState {
    /// Whether the facts of other hosts that an item reads are known.
    fn facts_for(&self, item: &Item) -> Permit {
        let mut open = Vec::new();
        for (host, address) in &item.waits_for_others {
            match self.altering.get(host).and_then(|items| items.get(address)) {
                None => {}
                Some(PendingAlteration::Open) => {
                    open.push(format!("facts of {host} that `{address}` alters"))
                }
                Some(PendingAlteration::Never(why)) => {
                    return Permit::Never(format!(
                        "it reads facts of {host} that `{address}` alters, which {why}"
                    ));
                }
            }
        }
        match open.is_empty() {
            true => Permit::Go,
            false => Permit::Wait(open.join("; "), open.join("; ")),
        }
    }
}

impl Gates {
    pub fn new(
        requires: BTreeMap<String, Vec<RequiredRole>>,
        declared: BTreeMap<String, BTreeMap<String, usize>>,
        turns: Vec<Turns>,
    ) -> Self {
        let state = Mutex::new(GateState { turns, ..GateState::default() });
        Self(Arc::new(Inner { requires, declared, state, changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &mut GateState) {
        state.news += 1;
        self.0.changed.notify_waiters();
    }

    /// A person is asked before each of these: item or role, and the hosts that have it to do.
    pub fn ask_before(&self, by_role: bool, items: impl Iterator<Item = (String, Item)>) {
        let mut steps = StepState {
            by_role,
            hosts: BTreeMap::new(),
            answers: BTreeMap::new(),
            wanted: None,
            asked: false,
        };
        for (host, item) in items {
            let hosts = steps.hosts.entry(steps.key(&item)).or_default();
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        self.state().steps = Some(steps);
    }

    /// The next question to ask, and its hosts. Whoever takes it brings the answer.
    pub fn take_question(&self) -> Option<(String, Vec<String>)> {
        let mut state = self.state();
        let steps = state.steps.as_mut().filter(|steps| !steps.asked)?;
        let what = steps.wanted.clone()?;
        steps.asked = true;
        let hosts = steps.hosts.get(&what).cloned().unwrap_or_default();
        Some((what, hosts))
    }

    /// Records the answer to the question that was taken.
    pub fn answer(&self, what: &str, answer: StepAnswer) {
        let mut state = self.state();
        if answer == StepAnswer::Continue {
            state.steps = None;
        } else if let Some(steps) = &mut state.steps {
            steps.answers.insert(what.to_owned(), answer == StepAnswer::Yes);
            steps.wanted = None;
            steps.asked = false;
        }
        self.tell(&mut state);
    }

    /// An item was worked on.
    pub fn record(&self, item: TimedItem) {
        self.state().timeline.push(item);
    }

    /// All items that were worked on.
    pub fn take_timeline(&self) -> Vec<TimedItem> {
        std::mem::take(&mut self.state().timeline)
    }

    /// The roles of a host, with their plays.
    pub fn declared(&self, host: &str) -> BTreeMap<String, usize> {
        self.0.declared.get(host).cloned().unwrap_or_default()
    }

    /// A lane begins.
    pub fn enter(&self, host: &str) {
        self.state().lanes.insert(host.to_owned());
    }

    /// A lane is over.
    pub fn leave(&self, host: &str) {
        let mut state = self.state();
        state.lanes.remove(host);
        state.waiting.remove(host);
        self.tell(&mut state);
    }

    /// Says how far a host is, and wakes those who wait.
    pub fn report(&self, host: &str, roles: BTreeMap<String, RoleState>) {
        let mut state = self.state();
        state.waiting.remove(host);
        if state.hosts.get(host) != Some(&roles) {
            state.hosts.insert(host.to_owned(), roles);
            self.tell(&mut state);
        }
    }

    /// Items of a host, by address, alter facts that items elsewhere read.
    pub fn alters(&self, host: &str, items: BTreeSet<String>) {
        let open = items.into_iter().map(|item| (item, PendingAlteration::Open)).collect();
        self.state().altering.insert(host.to_owned(), open);
    }

    /// The items of a host that are still to alter facts.
    pub fn altering(&self, host: &str) -> Vec<String> {
        let state = self.state();
        let items = state.altering.get(host).into_iter().flatten();
        items.filter(|(_, how)| **how == PendingAlteration::Open).map(|(item, _)| item.clone()).collect()
    }

    /// An item of a host has altered facts, which are resolved, or never does: why.
    pub fn altered(&self, host: &str, item: &str, never: Option<&str>) {
        let mut state = self.state();
        let Some(items) = state.altering.get_mut(host) else { return };
        match never {
            Some(why) => drop(items.insert(item.to_owned(), PendingAlteration::Never(why.to_owned()))),
            None => drop(items.remove(item)),
        }
        self.tell(&mut state);
    }

    /// Whether an item of a host has not altered facts as it was planned: it is still to come, or it never does.
    pub fn is_to_alter(&self, host: &str, item: &str) -> bool {
        self.state().altering.get(host).is_some_and(|items| items.contains_key(item))
    }

    /// The host is out of the run: nobody waits for it.
    pub fn lose(&self, host: &str) {
        let mut state = self.state();
        for how in state.altering.get_mut(host).into_iter().flat_map(BTreeMap::values_mut) {
            *how = PendingAlteration::Never("was not run: the connection to the host was lost".to_owned());
        }
        state.hosts.remove(host);
        state.turns.iter_mut().for_each(|turns| turns.lose(host));
        self.tell(&mut state);
    }

    /// Something of a play failed on a host.
    pub fn fail(&self, host: &str, play: usize, what: &str) {
        let mut state = self.state();
        if state.turns.get_mut(play).is_some_and(|turns| turns.fail(host, what)) {
            self.tell(&mut state);
        }
    }

    /// A host is through with a play.
    pub fn finish(&self, host: &str, play: usize) {
        let mut state = self.state();
        if let Some(turns) = state.turns.get_mut(play) {
            turns.finish(host);
        }
        self.tell(&mut state);
    }

    /// Whether other hosts wait for this one to be through with a play.
    pub fn is_awaited(&self, host: &str, play: usize) -> bool {
        self.state().turns.get(play).is_some_and(|turns| turns.is_awaited(host))
    }

    /// Batches that have begun since the last call.
    pub fn take_begun(&self) -> Vec<Begun> {
        let mut state = self.state();
        let begun = state.turns.iter_mut().flat_map(|turns| {
            let play = turns.play().to_owned();
            let all = turns.take_begun().into_iter();
            all.map(move |(number, of, hosts)| Begun { play: play.clone(), number, of, hosts })
        });
        begun.collect()
    }

    /// Whether this run is still at work on a host.
    pub fn is_at_work(&self, host: &str) -> bool {
        self.state().lanes.contains(host)
    }

    /// Returns after the next report of any host, or at once when one came since this was enabled.
    pub fn next_report(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.changed.notified()
    }

    /// The news so far, as a number: what a lane knows that now decides whether it waits.
    pub fn news(&self) -> u64 {
        self.state().news
    }

    /// A lane waits, which knew these news when it decided to. Where all lanes wait, and for each other, the first that waits for its turn goes.
    pub fn wait(&self, host: &str, knew: u64) {
        let mut state = self.state();
        let news = state.news;
        state.waiting.insert(host.to_owned(), knew);
        // One that decided before the last news came decides again.
        let stuck = state.lanes.iter().all(|lane| state.waiting.get(lane) == Some(&news));
        if !stuck {
            return;
        }
        let waiting: BTreeSet<String> =
            state.waiting.keys().filter(|lane| state.for_turn.contains(*lane)).cloned().collect();
        if state.turns.iter_mut().any(|turns| turns.release(&waiting)) {
            self.tell(&mut state);
        }
    }

    /// Whether an item may begin on this host: by the roles before it, by the batches of its play, and by the person who
    /// is asked.
    pub fn permit(&self, host: &str, item: &Item) -> Permit {
        match self.turn(host, item) {
            Permit::Go if !item.only_records() => {}
            other => return other,
        }
        let mut state = self.state();
        let Some(steps) = &mut state.steps else { return Permit::Go };
        let key = steps.key(item);
        match steps.answers.get(&key) {
            Some(true) => Permit::Go,
            Some(false) => Permit::Never("answered `no`".to_owned()),
            None => {
                steps.wanted.get_or_insert(key);
                Permit::Wait("an answer".to_owned(), STEP.to_owned())
            }
        }
    }

    /// The roles of a host that must not begin yet because of roles on other targets, with the reason to wait. The host's own roles are a matter of
    /// its plan.
    pub fn before(&self, host: &str) -> OtherTargetsByRole {
        let state = self.state();
        let waits = |role: &String| match self.required(&state, host, role, &|other| other != host) {
            Permit::Go => None,
            Permit::Wait(reason, _) => Some(format!("{reason} first")),
            Permit::Never(reason) => Some(reason),
        };
        let roles = self.0.declared.get(host).into_iter().flatten();
        let open = |reason| OtherTargets::Open(Wait { item: String::new(), reason });
        roles.filter_map(|(role, _)| Some((role.clone(), open(waits(role)?)))).collect()
    }

    /// Whether a role may begin on a host by the roles before it. A required role that this host has too is a matter of this host alone,
    /// unless the edge reaches over the fleet; else it has to be over on every host that it runs on.
    fn required(&self, state: &GateState, host: &str, role: &str, counts: &dyn Fn(&str) -> bool) -> Permit {
        let own = self.0.declared.get(host);
        let mut open: Vec<String> = Vec::new();
        for required in self.0.requires.get(role).into_iter().flatten() {
            if !required.everywhere && own.is_some_and(|own| own.contains_key(&required.role)) {
                continue;
            }
            let mut on: Vec<&str> = Vec::new();
            for (other, roles) in state.hosts.iter().filter(|(other, _)| counts(other)) {
                match roles.get(&required.role) {
                    Some(RoleState { failed: true, .. }) => {
                        return Permit::Never(format!("role `{}` failed on {other}", required.role));
                    }
                    Some(RoleState { open: true, .. }) => on.push(other),
                    _ => {}
                }
            }
            if !on.is_empty() {
                open.push(format!("role {} on {}", required.role, on.join(", ")));
            }
        }
        match open.is_empty() {
            true => Permit::Go,
            false => Permit::Wait(open.join("; "), open.join("; ")),
        }
    }

    /// Whether an item may begin on a host by the roles before it and by the batches of its play.
    fn turn(&self, host: &str, item: &Item) -> Permit {
        let mut state = self.state();
        state.for_turn.remove(host);
        let own = self.0.declared.get(host);
        // A prune has its place in the plan of its own target: there a role that its role requires may wait for it.
        let counts = |other: &str| item.origin != ItemOrigin::Prune || other != host;
        match self.required(&state, host, &item.role, &counts) {
            Permit::Go => {}
            other => return other,
        }
        match state.facts_for(item) {
            Permit::Go => {}
            other => return other,
        }
        let Some(play) = own.and_then(|own| own.get(&item.role)) else { return Permit::Go };
        let Some(turns) = state.turns.get_mut(*play) else { return Permit::Go };
        match turns.may(host, item.disruption.is_some()) {
            Turn::Go => Permit::Go,
            Turn::Never(why) => Permit::Never(why),
            Turn::Wait(hosts) => {
                let on = format!("its turn in the play `{}`: {} first", turns.play(), hosts.join(", "));
                state.for_turn.insert(host.to_owned());
                Permit::Wait(on, format!("turn {play}"))
            }
        }
    }
}

#[cfg(test)]
#[path = "barriers_tests.rs"]
mod tests;
