//! The things that a run took longest for, and what would shorten them.

use super::advice::advice;
use super::cause::Cause;
use super::{Slice, Timings};
use crate::events::span;
use crate::text::{Line, Text, Tone};
use converge_engine::ApplyReport;
use converge_resource::counted;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Of a run that is shorter nothing is said.
const SHORT: Duration = Duration::from_secs(5);
/// The number of things that are named.
const MOST: usize = 3;
/// A thing that took a smaller share of the run, in percent, is not named.
const SHARE: u32 = 5;
/// The number of resources that are named.
const NAMED: usize = 3;

/// One of the things that a run took longest for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    cause: Cause,
    target: String,
    /// The addresses of resources.
    items: Vec<String>,
    took: Duration,
}

impl Slow {
    /// The advice how to shorten it, where something can.
    fn advice(&self) -> Option<&'static str> {
        advice(&self.cause, self.items.len())
    }

    fn shown(&self) -> String {
        match &self.cause {
            Cause::Turn => "waited for its turn".to_owned(),
            Cause::Connect => "connect".to_owned(),
            Cause::Read => "read and plan".to_owned(),
            Cause::Open => "take the lock, begin the records".to_owned(),
            Cause::Kind(kind) => {
                let named = self.items.get(..NAMED).unwrap_or(&self.items).join(", ");
                match self.items.len().saturating_sub(NAMED) {
                    0 => format!("{kind}: {named}"),
                    more => format!("{kind}: {named} and {more} more"),
                }
            }
            Cause::Replan => "plan again in the middle".to_owned(),
            Cause::Verify => "verify".to_owned(),
            Cause::Settle => "wait for conditions after the last change".to_owned(),
            Cause::Confirm => "confirm guarded changes".to_owned(),
            Cause::Close => "end the records".to_owned(),
        }
    }

    /// It as a part of a document.
    pub(crate) fn json(&self) -> Value {
        let kind = match &self.cause {
            Cause::Kind(kind) => Some(kind),
            _ => None,
        };
        json!({
            "what": self.cause.word(),
            "kind": kind,
            "target": self.target,
            "items": self.items,
            "seconds": self.took.as_secs_f64(),
            "advice": self.advice(),
        })
    }
}

impl Timings {
    /// The three things that this run took longest for, the longest first; none of a short run. Only what others waited for counts: the
    /// target that was planned last, the resources of the critical path, the target that ended last.
    pub fn slowest(&self, report: &ApplyReport, now: Instant) -> Vec<Slow> {
        let now = now.saturating_duration_since(self.began);
        let took = |slice: &Slice| slice.end.unwrap_or(now).saturating_sub(slice.begin);
        let own = self.slices.iter().filter(|slice| slice.target.is_none());
        // A question to a person between plan and apply is no time of the run.
        let whole: Duration = own.clone().map(took).sum();
        if whole < SHORT {
            return Vec::new();
        }
        let mut all: Vec<Slow> = Vec::new();
        for part in own {
            let to = part.end.unwrap_or(now);
            let within = |slice: &&Slice| slice.begin >= part.begin && slice.begin < to;
            let of_targets = || self.slices.iter().filter(|s| s.target.is_some()).filter(within);
            let last = of_targets().filter_map(|s| Some((s.end?, s.target?))).max().map(|(_, target)| target);
            for slice in of_targets().filter(|slice| slice.target == last) {
                self.count(&mut all, slice);
            }
        }
        self.items(&mut all, report);
        all.retain(|slow| slow.took * 100 >= whole * SHARE);
        all.sort_by_key(|slow| std::cmp::Reverse(slow.took));
        all.truncate(MOST);
        all
    }

    fn count(&self, all: &mut Vec<Slow>, slice: &Slice) {
        let Some(cause) = slice.activity().and_then(Cause::of) else { return };
        let mut took = slice.took();
        let inside = self.slices.iter().filter(|other| other.target == slice.target && *other != slice);
        for other in inside.filter(|other| other.begin >= slice.begin && other.end <= slice.end) {
            // An activity that stands for itself is not counted twice.
            if other.activity().and_then(Cause::of).is_some() {
                took = took.saturating_sub(other.took());
            }
        }
        add(all, cause, self.name(slice), None, took);
    }

    fn items(&self, all: &mut Vec<Slow>, report: &ApplyReport) {
        for step in &report.critical_path {
            let host = report.hosts.iter().find(|host| host.host == step.host);
            let item = host.and_then(|host| host.items.iter().find(|(item, _)| item.address == step.address));
            if let Some((item, _)) = item {
                add(all, Cause::Kind(item.kind.clone()), &step.host, Some(&step.address), step.took);
            }
        }
    }

    fn name(&self, slice: &Slice) -> &str {
        slice.target.and_then(|target| self.targets.get(target)).map_or("", String::as_str)
    }
}

fn add(all: &mut Vec<Slow>, cause: Cause, target: &str, item: Option<&str>, took: Duration) {
    let there = all.iter_mut().find(|slow| slow.cause == cause && slow.target == target);
    let slow = match there {
        Some(slow) => slow,
        None => {
            all.push(Slow { cause, target: target.to_owned(), items: Vec::new(), took: Duration::ZERO });
            let Some(slow) = all.last_mut() else { return };
            slow
        }
    };
    slow.took += took;
    slow.items.extend(item.map(str::to_owned));
}

/// The block of the summary.
pub(crate) fn push_slowest(text: &mut Text, slowest: &[Slow]) {
    if slowest.is_empty() {
        return;
    }
    text.push(Line::at(0).faint(format!("The slowest {}:", counted(slowest.len(), "part"))));
    for slow in slowest {
        let line =
            Line::at(2).plain(format!("{:>6}  ", span(slow.took))).say(Tone::Strong, slow.target.as_str());
        text.push(line.plain(format!("  {}", slow.shown())).fold(10));
        if let Some(advice) = slow.advice() {
            text.push(Line::at(10).faint("shorter: ").plain(advice).fold(10));
        }
    }
}
