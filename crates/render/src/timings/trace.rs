//! The times of a run in the Trace Event Format, which Perfetto and chrome://tracing open.
//!
//! A target is a process of the trace, and each sort of its work a thread. Where work of one sort overlaps without one part being inside
//! the other, it gets another thread: viewers draw a thread as a stack of slices.

use super::{Slice, TimedWork, Timings, WorkPart};
use crate::text::visible;
use converge_engine::{Activity, ItemPhase, Traffic};
use converge_resource::counted;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The rows of a target, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TraceRow {
    Run,
    Items,
    Parts,
}

impl TraceRow {
    const ALL: [Self; 3] = [Self::Run, Self::Items, Self::Parts];

    fn of(slice: &Slice) -> Self {
        match &slice.what {
            TimedWork::Activity(Activity::Together { .. }) | TimedWork::Item { .. } => Self::Items,
            TimedWork::Activity(_) => Self::Run,
            TimedWork::Phase(_) => Self::Parts,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Items => "resources",
            Self::Parts => "parts of a resource",
        }
    }
}

/// A slice in whole microseconds.
struct TraceSlice<'a> {
    slice: &'a Slice,
    from: u64,
    to: u64,
}

impl Timings {
    /// The trace up to this moment, as JSON text with one event a line. What is in progress ends there.
    pub fn trace(&self, now: Instant) -> String {
        let end = micros(now.saturating_duration_since(self.began));
        let mut events: Vec<Value> = Vec::new();
        let mut thread = 0;
        let mut rows: BTreeMap<(Option<usize>, TraceRow), Vec<&Slice>> = BTreeMap::new();
        for slice in &self.slices {
            rows.entry((slice.target, TraceRow::of(slice))).or_default().push(slice);
        }
        let mut samples: BTreeMap<usize, Vec<(Duration, Traffic)>> = BTreeMap::new();
        for (target, at, traffic) in &self.samples {
            samples.entry(*target).or_default().push((*at, *traffic));
        }
        let targets = std::iter::once(None).chain((0..self.targets.len()).map(Some));
        for (place, target) in targets.enumerate() {
            let process = place + 1;
            let name = target.and_then(|t| self.targets.get(t)).map_or("converge", String::as_str);
            events.push(named("process_name", process, 0, &visible(name)));
            events.push(json!({"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": place}}));
            for row in TraceRow::ALL {
                let slices = rows.remove(&(target, row)).unwrap_or_default();
                for (number, lane) in lanes(slices, end).into_iter().enumerate() {
                    thread += 1;
                    let name = match number {
                        0 => row.name().to_owned(),
                        _ => format!("{} ({})", row.name(), number + 1),
                    };
                    events.push(named("thread_name", process, thread, &name));
                    events.push(json!({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}));
                    events.extend(lane.iter().map(|piece| shown(piece, process, thread)));
                }
            }
            for (at, traffic) in target.and_then(|t| samples.remove(&t)).unwrap_or_default() {
                let ts = micros(at);
                events.push(json!({"ph": "C", "name": "bytes", "pid": process, "ts": ts, "args": {"sent": traffic.sent, "received": traffic.received}}));
                events.push(json!({"ph": "C", "name": "batches", "pid": process, "ts": ts, "args": {"batches": traffic.batches}}));
            }
            for (_, at, word) in self.marks.iter().filter(|(of, ..)| *of == target) {
                events.push(
                    json!({"ph": "i", "s": "p", "name": word, "pid": process, "tid": 0, "ts": micros(*at)}),
                );
            }
        }
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn named(what: &str, process: usize, thread: usize, name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}})
}

fn piece(slice: &Slice, end: u64) -> TraceSlice<'_> {
    let from = micros(slice.begin).min(end);
    TraceSlice { slice, from, to: slice.end.map_or(end, micros).max(from) }
}

/// Slices of one row, on as many threads as it takes for each pair to be apart or one inside the other.
fn lanes(slices: Vec<&Slice>, end: u64) -> Vec<Vec<TraceSlice<'_>>> {
    let mut pieces: Vec<TraceSlice<'_>> = slices.into_iter().map(|slice| piece(slice, end)).collect();
    pieces.sort_by_key(|piece| (piece.from, std::cmp::Reverse(piece.to)));
    let mut lanes: Vec<(Vec<TraceSlice<'_>>, Vec<u64>)> = Vec::new();
    for piece in pieces {
        for (_, around) in &mut lanes {
            while around.last().is_some_and(|to| *to <= piece.from) {
                around.pop();
            }
        }
        let to = piece.to;
        let fits = |around: &Vec<u64>| around.last().is_none_or(|end| to <= *end);
        match lanes.iter_mut().find(|(_, around)| fits(around)) {
            Some((lane, around)) => {
                around.push(to);
                lane.push(piece);
            }
            None => lanes.push((vec![piece], vec![to])),
        }
    }
    lanes.into_iter().map(|(lane, _)| lane).collect()
}

fn shown(piece: &TraceSlice<'_>, process: usize, thread: usize) -> Value {
    let (name, sort, mut arguments) = match &piece.slice.what {
        TimedWork::Activity(activity) => activity_of(activity),
        TimedWork::Item { address, result } => {
            (address.clone(), "resource", arguments(&[("result", json!(result.unwrap_or("in progress")))]))
        }
        TimedWork::Phase(part) => (part_of(*part).to_owned(), "part", Map::new()),
    };
    if piece.slice.end.is_none() {
        arguments.insert("unfinished".to_owned(), json!(true));
    }
    json!({
        "ph": "X", "name": visible(&name), "cat": sort, "pid": process, "tid": thread,
        "ts": piece.from, "dur": piece.to - piece.from, "args": arguments,
    })
}

fn arguments(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// The name of an activity, its sort, and more about it.
fn activity_of(activity: &Activity) -> (String, &'static str, Map<String, Value>) {
    let plain = |name: &str, sort| (name.to_owned(), sort, Map::new());
    match activity {
        Activity::PlanAll => plain("plan", "run"),
        Activity::ApplyAll => plain("apply", "run"),
        Activity::CheckAll => plain("checks of the roles", "run"),
        Activity::Turn => (
            "wait for a turn".to_owned(),
            "wait",
            arguments(&[("on", json!("fewer hosts in work: --forks"))]),
        ),
        Activity::Connect => plain("connect", "connection"),
        Activity::Plan => plain("plan", "look"),
        Activity::Records => plain("read the records", "look"),
        Activity::Round { round, questions } => {
            (format!("round {round}"), "round trip", arguments(&[("questions", json!(questions))]))
        }
        Activity::Open => plain("take the lock, begin the records", "records"),
        Activity::Close => plain("end the records, free the lock", "records"),
        Activity::Stretch { items } => {
            (format!("stretch of {}", counted(*items, "resource")), "round trip", Map::new())
        }
        Activity::Together { items, packages } => {
            let what = if *packages { "one transaction" } else { "together" };
            (format!("{} {what}", counted(*items, "resource")), "resource", Map::new())
        }
        Activity::Replan => plain("plan again", "look"),
        Activity::Wait { role, on } => {
            let more = arguments(&[("on", json!(visible(on))), ("before", json!(visible(role)))]);
            ("wait for other targets".to_owned(), "wait", more)
        }
        Activity::AskOther { address } => {
            let more = arguments(&[("for", json!(visible(address)))]);
            ("wait for another host's answer".to_owned(), "wait", more)
        }
        Activity::Question => plain("wait for a person's answer", "wait"),
        Activity::Backup { what } => (format!("bring a {what}"), "backup", Map::new()),
        Activity::Confirm { seconds } => {
            let more = arguments(&[("reverted_after_seconds", json!(seconds))]);
            ("confirm over a new session".to_owned(), "guard", more)
        }
        Activity::Revert => plain("automatic revert", "guard"),
        Activity::HostRestart { seconds } => (
            "wait for the host's restart".to_owned(),
            "wait",
            arguments(&[("at_most_seconds", json!(seconds))]),
        ),
        Activity::UnitsAfterRestart => plain("wait for the host's units", "wait"),
        Activity::Verify => plain("verify", "look"),
        Activity::Settle { on } => {
            let on: Vec<String> = on.iter().map(|on| visible(on)).collect();
            ("wait for conditions".to_owned(), "wait", arguments(&[("on", json!(on))]))
        }
    }
}

fn part_of(part: WorkPart) -> &'static str {
    match part {
        WorkPart::Compare => "compare with the plan",
        WorkPart::Reported(ItemPhase::Save) => "save, write the journal",
        WorkPart::Reported(ItemPhase::Simulate) => "simulate",
        WorkPart::Reported(ItemPhase::Change) => "change",
        WorkPart::Reported(ItemPhase::Watch) => "watch the unit",
        WorkPart::Reported(ItemPhase::Check) => "look again, write the journal",
    }
}
