use super::*;
use crate::report::sample;
use crate::text::{Look, Text};
use converge_engine::{ItemResult, PathStep};
use serde_json::Value;

/// A run whose events come at these moments, in milliseconds.
struct RecordedRun {
    timings: Timings,
    began: Instant,
}

impl RecordedRun {
    fn new(targets: &[&str]) -> Self {
        let began = Instant::now();
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        Self { timings: Timings::new(&targets, began), began }
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    fn event(&mut self, ms: u64, event: Event) {
        self.timings.event(&TimedEvent { at: self.at(ms), event });
    }

    /// An activity from here to there.
    fn span(&mut self, span: u64, host: &str, activity: Activity, from: u64, to: u64) {
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        self.event(from, Event::Began { host, span, activity });
        self.event(to, Event::Ended { span });
    }

    fn began(&mut self, ms: u64, span: u64, host: &str, activity: Activity) {
        self.event(ms, Event::Began { host: Some(host.to_owned()), span, activity });
    }

    fn started(&mut self, ms: u64, host: &str, id: u32) {
        self.event(ms, Event::ItemStarted { host: host.into(), id, address: format!("r/{id}") });
    }

    fn finished(&mut self, ms: u64, host: &str, id: u32, took: u64) {
        let (address, took) = (format!("r/{id}"), Duration::from_millis(took));
        let result = ItemResult::Changed;
        self.event(ms, Event::ItemFinished { host: host.into(), id, address, result, took });
    }

    fn phase(&mut self, ms: u64, host: &str, id: u32, phase: ItemPhase) {
        self.event(ms, Event::ItemPhase { host: host.into(), id, phase });
    }

    /// The slices of the trace: the process's name, the slice's, from and to, in milliseconds.
    fn slices(&self, end: u64) -> Vec<(String, String, u64, u64)> {
        let text = self.timings.trace(self.at(end));
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let name_of = |process: &Value| {
            let named = events.iter().find(|e| e["name"] == "process_name" && e["pid"] == *process).unwrap();
            named["args"]["name"].as_str().unwrap().to_owned()
        };
        nest(events);
        let slices = events.iter().filter(|e| e["ph"] == "X").map(|e| {
            let (ts, dur) = (e["ts"].as_u64().unwrap(), e["dur"].as_u64().unwrap());
            let name = e["name"].as_str().unwrap().to_owned();
            (name_of(&e["pid"]), name, ts / 1000, (ts + dur) / 1000)
        });
        slices.collect()
    }
}

/// Slices of one thread are apart, or one is inside the other.
fn nest(events: &[Value]) {
    let mut threads: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events.iter().filter(|e| e["ph"] == "X") {
        let (ts, dur) = (event["ts"].as_u64().unwrap(), event["dur"].as_u64().unwrap());
        threads.entry(event["tid"].as_u64().unwrap()).or_default().push((ts, ts + dur));
    }
    for (thread, slices) in threads {
        for (n, a) in slices.iter().enumerate() {
            for b in &slices[n + 1..] {
                let apart = a.1 <= b.0 || b.1 <= a.0;
                let inside = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                assert!(apart || inside, "thread {thread}: {a:?} and {b:?}");
            }
        }
    }
}

fn slice(process: &str, name: &str, from: u64, to: u64) -> (String, String, u64, u64) {
    (process.to_owned(), name.to_owned(), from, to)
}

#[test]
fn every_target_is_a_process_though_nothing_happened_there() {
    let mut recording = RecordedRun::new(&["h1", "cluster"]);
    recording.span(0, "", Activity::PlanAll, 0, 9);
    recording.span(1, "jump", Activity::Connect, 1, 3);
    let trace: Value = serde_json::from_str(&recording.timings.trace(recording.at(10))).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let names: Vec<&str> = events
        .iter()
        .filter(|e| e["name"] == "process_name")
        .map(|e| e["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["converge", "h1", "cluster", "jump"]);
    assert_eq!(recording.slices(10), [slice("converge", "plan", 0, 9), slice("jump", "connect", 1, 3)]);
}

#[test]
fn items_have_parts_and_end_with_their_work_though_their_result_comes_later() {
    let mut recording = RecordedRun::new(&["h1"]);
    recording.began(0, 1, "h1", Activity::Stretch { items: 2 });
    recording.started(1, "h1", 1);
    recording.phase(2, "h1", 1, ItemPhase::Save);
    recording.phase(3, "h1", 1, ItemPhase::Change);
    // A guarded item: its result is reported when it is confirmed.
    recording.started(5, "h1", 2);
    recording.event(7, Event::Ended { span: 1 });
    recording.span(2, "h1", Activity::Confirm { seconds: 60 }, 8, 20);
    recording.finished(21, "h1", 1, 4);
    recording.finished(21, "h1", 2, 2);
    assert_eq!(
        recording.slices(30),
        [
            slice("h1", "stretch of 2 resources", 0, 7),
            slice("h1", "confirm over a new session", 8, 20),
            slice("h1", "r/1", 1, 5),
            slice("h1", "r/2", 5, 7),
            slice("h1", "compare with the plan", 1, 2),
            slice("h1", "save, write the journal", 2, 3),
            slice("h1", "change", 3, 5),
        ]
    );
}

#[test]
fn items_that_are_done_together_have_their_shares_of_the_time() {
    let mut recording = RecordedRun::new(&["h1"]);
    recording.began(10, 1, "h1", Activity::Together { items: 3, packages: false });
    (1..=3).for_each(|id| recording.started(10, "h1", id));
    recording.phase(14, "h1", 1, ItemPhase::Save);
    recording.finished(40, "h1", 1, 10);
    recording.event(40, Event::ItemPutOff { host: "h1".into(), id: 2 });
    recording.finished(40, "h1", 3, 10);
    recording.event(40, Event::Ended { span: 1 });
    recording.started(41, "h1", 2);
    recording.finished(50, "h1", 2, 9);
    assert_eq!(
        recording.slices(60),
        [
            slice("h1", "3 resources together", 10, 40),
            slice("h1", "r/1", 10, 20),
            slice("h1", "r/3", 20, 30),
            slice("h1", "r/2", 20, 20),
            slice("h1", "r/2", 41, 50),
            slice("h1", "compare with the plan", 10, 14),
            slice("h1", "save, write the journal", 14, 40),
        ]
    );
}

#[test]
fn work_that_overlaps_in_part_gets_threads_of_its_own_and_what_is_open_ends_with_the_trace() {
    let mut recording = RecordedRun::new(&["h1"]);
    recording.began(0, 1, "h1", Activity::Plan);
    recording.began(5, 2, "h1", Activity::Connect);
    recording.event(8, Event::Ended { span: 1 });
    let wait = Activity::Wait { role: "app".into(), on: "role db on h2".into() };
    recording.began(12, 3, "h1", wait);
    recording.started(13, "h1", 1);
    assert_eq!(
        recording.slices(20),
        [
            slice("h1", "plan", 0, 8),
            slice("h1", "wait for other targets", 12, 20),
            slice("h1", "connect", 5, 20),
            slice("h1", "r/1", 13, 20),
        ]
    );
    let text = recording.timings.trace(recording.at(20));
    assert!(text.contains(r#""args":{"on":"role db on h2","before":"app","unfinished":true}"#), "{text}");
    assert!(text.contains(r#""args":{"result":"in progress","unfinished":true}"#), "{text}");
}

#[test]
fn no_output_of_a_host_or_a_command_is_in_a_trace() {
    let mut recording = RecordedRun::new(&["h1"]);
    recording.started(0, "h1", 1);
    recording.event(1, Event::ItemOutput { host: "h1".into(), id: 1, text: "hunter2".into() });
    let result = ItemResult::Failed { message: "hunter2".into(), output: "hunter2".into() };
    let took = Duration::from_millis(2);
    recording.event(2, Event::ItemFinished { host: "h1".into(), id: 1, address: "r/1".into(), result, took });
    recording.event(3, Event::Lost { host: "h1".into(), message: "hunter2".into() });
    let traffic = Traffic { sent: 10, received: 20, batches: 1 };
    recording.event(4, Event::Traffic { host: "h1".into(), traffic });
    let text = recording.timings.trace(recording.at(5));
    assert!(!text.contains("hunter2"), "{text}");
    for part in [r#""result":"failed""#, r#""name":"excluded""#, r#"{"sent":10,"received":20}"#] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The slowest things of a run of twelve seconds.
fn recording_of_twelve_seconds() -> (RecordedRun, converge_engine::ApplyReport) {
    let mut recording = RecordedRun::new(&["web0", "web1", "db1"]);
    recording.began(0, 10, "web0", Activity::Plan);
    recording.event(0, Event::Began { host: None, span: 0, activity: Activity::PlanAll });
    recording.span(1, "web0", Activity::Connect, 0, 100);
    recording.event(300, Event::Ended { span: 10 });
    // It was planned last.
    recording.began(0, 11, "db1", Activity::Plan);
    recording.span(2, "db1", Activity::Connect, 0, 2_500);
    recording.event(3_000, Event::Ended { span: 11 });
    recording.event(3_000, Event::Ended { span: 0 });
    // A person was asked for a minute.
    recording.event(63_000, Event::Began { host: None, span: 20, activity: Activity::ApplyAll });
    recording.span(21, "db1", Activity::Verify, 71_000, 72_000);
    recording.event(72_000, Event::Ended { span: 20 });
    let mut report = sample();
    let web1 = report.hosts.iter_mut().find(|host| host.host == "web1").unwrap();
    web1.items =
        crate::samples::rich("web1").items.into_iter().map(|item| (item, ItemResult::Changed)).collect();
    report.critical_path = [("nginx/web server", 4_000), ("nginx/runs", 1_200), ("nginx/old unit", 1_300)]
        .map(|(address, ms)| PathStep {
            host: "web1".into(),
            address: address.into(),
            took: Duration::from_millis(ms),
        })
        .to_vec();
    (recording, report)
}

pub(crate) fn slowest() -> Vec<Slow> {
    let (recording, report) = recording_of_twelve_seconds();
    recording.timings.slowest(&report, recording.at(72_000))
}

#[test]
fn the_slowest_things_are_those_that_the_run_waited_for() {
    let mut text = Text::new();
    push_slowest(&mut text, &slowest());
    let drawn = text.draw(&Look::PLAIN);
    let lines: Vec<&str> = drawn.lines().map(|line| line.split(" near the host").next().unwrap()).collect();
    assert_eq!(lines.len(), 7, "{drawn}");
    assert_eq!(lines[0], "The slowest 3 parts:");
    assert_eq!(lines[1], "    4.0s  web1  package: nginx/web server");
    assert_eq!(lines[2], "          shorter: a mirror or a cache of packages");
    assert_eq!(lines[3], "    2.5s  db1  connect");
    assert!(lines[4].contains("name lookup"), "{drawn}");
    assert_eq!(lines[5], "    2.5s  web1  service: nginx/runs, nginx/old unit");
    assert!(lines[6].contains("watched for a second"), "{drawn}");
}

#[test]
fn of_a_short_run_nothing_is_reported() {
    let (_, report) = recording_of_twelve_seconds();
    let mut recording = RecordedRun::new(&["web1"]);
    recording.event(0, Event::Began { host: None, span: 0, activity: Activity::ApplyAll });
    recording.span(1, "web1", Activity::Open, 0, 4_000);
    recording.event(4_900, Event::Ended { span: 0 });
    assert_eq!(recording.timings.slowest(&report, recording.at(4_900)), []);
    let mut text = Text::new();
    push_slowest(&mut text, &[]);
    assert!(text.is_empty());
}
