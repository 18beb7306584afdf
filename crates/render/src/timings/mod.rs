//! The time of a run: what each target did when. Pure: events in; a trace for a viewer, and the slowest things, out.

mod advice;
mod cause;
mod slowest;
mod trace;

pub use slowest::Slow;
pub(crate) use slowest::push_slowest;

use crate::events::verdict;
use converge_engine::{Activity, Event, ItemPhase, TimedEvent, Traffic};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// The times of a run, as its events tell them.
pub struct Timings {
    began: Instant,
    /// The run's targets, in inventory order; then those that only events name, such as the hosts through which a cluster is reached.
    targets: Vec<String>,
    /// Their places, by name.
    places: HashMap<String, usize>,
    slices: Vec<Slice>,
    /// The slices of activities in progress, by their numbers.
    open: HashMap<u64, usize>,
    /// By target.
    present: BTreeMap<usize, ItemsInProgress>,
    samples: Vec<(usize, Duration, Traffic)>,
    marks: Vec<(Option<usize>, Duration, &'static str)>,
}

/// The items that a target has in progress.
#[derive(Default)]
struct ItemsInProgress {
    /// Their slices, by number.
    items: BTreeMap<u32, usize>,
    /// The items that are done together: their slice, and the end of those that are over. Each gets its share of the time.
    group: Option<(usize, Duration)>,
    /// The part of the item in progress.
    phase: Option<usize>,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slice {
    /// The target, by its place; none where it is work on this machine.
    target: Option<usize>,
    what: TimedWork,
    begin: Duration,
    /// None while it is in progress.
    end: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TimedWork {
    Activity(Activity),
    Item {
        address: String,
        /// The word for its result.
        result: Option<&'static str>,
    },
    Phase(WorkPart),
}

/// A part of an item's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkPart {
    /// Its objects are compared with the plan: before the host reports a part.
    Compare,
    Reported(ItemPhase),
}

impl Slice {
    /// The duration, as far as it is over.
    fn took(&self) -> Duration {
        self.end.map_or(Duration::ZERO, |end| end.saturating_sub(self.begin))
    }

    fn activity(&self) -> Option<&Activity> {
        match &self.what {
            TimedWork::Activity(activity) => Some(activity),
            TimedWork::Item { .. } | TimedWork::Phase(_) => None,
        }
    }
}

impl Timings {
    /// Of a run on these targets that begins now.
    pub fn new(targets: &[String], began: Instant) -> Self {
        Self {
            began,
            targets: targets.to_vec(),
            places: targets.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect(),
            slices: Vec::new(),
            open: HashMap::new(),
            present: BTreeMap::new(),
            samples: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Takes one event.
    pub fn event(&mut self, timed: &TimedEvent) {
        let at = timed.at.saturating_duration_since(self.began);
        match &timed.event {
            Event::Began { host, span, activity } => {
                let target = host.as_ref().map(|host| self.target(host));
                let place = self.push(target, TimedWork::Activity(activity.clone()), at);
                self.open.insert(*span, place);
                if let (Some(target), Activity::Together { .. }) = (target, activity) {
                    self.end_items(target, at);
                    self.present.entry(target).or_default().group = Some((place, at));
                }
            }
            Event::Ended { span } => self.end_activity(*span, at),
            Event::ItemStarted { host, id, address } => {
                let target = self.target(host);
                if self.present.get(&target).is_none_or(|present| present.group.is_none()) {
                    self.end_items(target, at);
                }
                let place =
                    self.push(Some(target), TimedWork::Item { address: address.clone(), result: None }, at);
                self.present.entry(target).or_default().items.insert(*id, place);
            }
            Event::ItemPhase { host, id, phase } => {
                let target = self.target(host);
                self.phase(target, *id, *phase, at);
            }
            Event::ItemPutOff { host, id } => {
                let target = self.target(host);
                self.finish(target, *id, "comes again", Duration::ZERO, at);
            }
            Event::ItemFinished { host, id, result, took, .. } => {
                let target = self.target(host);
                self.finish(target, *id, verdict(result).1, *took, at);
            }
            Event::Traffic { host, traffic } => {
                let target = self.target(host);
                self.samples.push((target, at, *traffic));
            }
            Event::Lost { host, .. } => {
                let target = self.target(host);
                self.marks.push((Some(target), at, "excluded"));
            }
            Event::Stopping => self.marks.push((None, at, "stopping")),
            _ => {}
        }
    }

    fn target(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.targets.len();
        self.targets.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    fn push(&mut self, target: Option<usize>, what: TimedWork, begin: Duration) -> usize {
        self.slices.push(Slice { target, what, begin, end: None });
        self.slices.len() - 1
    }

    /// Ends a slice, unless it is over.
    fn end(&mut self, place: usize, at: Duration) {
        if let Some(slice) = self.slices.get_mut(place) {
            slice.end.get_or_insert(at.max(slice.begin));
        }
    }

    fn end_activity(&mut self, span: u64, at: Duration) {
        let Some(place) = self.open.remove(&span) else { return };
        self.end(place, at);
        let Some((Some(target), activity)) = self.slices.get(place).map(|s| (s.target, s.activity())) else {
            return;
        };
        match activity {
            Some(Activity::Together { .. }) => {
                self.end_phase(target, at);
                self.present.entry(target).or_default().group = None;
            }
            // The result of a guarded item is reported later, when it is confirmed.
            Some(Activity::Stretch { .. }) => self.end_items(target, at),
            _ => {}
        }
    }

    /// The items in progress end here, whenever their results are reported: a target does one after the other.
    fn end_items(&mut self, target: usize, at: Duration) {
        self.end_phase(target, at);
        let places: Vec<usize> =
            self.present.get(&target).map(|p| p.items.values().copied().collect()).unwrap_or_default();
        places.into_iter().for_each(|place| self.end(place, at));
    }

    fn end_phase(&mut self, target: usize, at: Duration) {
        if let Some(place) = self.present.get_mut(&target).and_then(|present| present.phase.take()) {
            self.end(place, at);
        }
    }

    fn phase(&mut self, target: usize, id: u32, phase: ItemPhase, at: Duration) {
        let item = self.present.get(&target).and_then(|present| present.items.get(&id));
        let Some(begin) = item.and_then(|place| self.slices.get(*place)).map(|slice| slice.begin) else {
            return;
        };
        if self.present.get(&target).is_some_and(|present| present.phase.is_none()) {
            let place = self.push(Some(target), TimedWork::Phase(WorkPart::Compare), begin);
            self.end(place, at);
        }
        self.end_phase(target, at);
        let place = self.push(Some(target), TimedWork::Phase(WorkPart::Reported(phase)), at);
        self.present.entry(target).or_default().phase = Some(place);
    }

    fn finish(&mut self, target: usize, id: u32, word: &'static str, took: Duration, at: Duration) {
        let Some(present) = self.present.get_mut(&target) else { return };
        // One that was not begun took no time.
        let Some(place) = present.items.remove(&id) else { return };
        let share = present.group.as_mut().map(|(_, over)| {
            let begin = *over;
            *over = (begin + took).min(at).max(begin);
            (begin, *over)
        });
        if let Some(Slice { what: TimedWork::Item { result, .. }, begin, end, .. }) =
            self.slices.get_mut(place)
        {
            *result = Some(word);
            if let Some((from, to)) = share {
                (*begin, *end) = (from, Some(to));
            }
        }
        self.end(place, at);
        if share.is_none() {
            self.end_phase(target, at);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
