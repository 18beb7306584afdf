//! The screen during a run: the graph of roles with the present activity of each. Pure: events in, rows out.

use crate::events::span;
use crate::names::fold_names;
use crate::text::{Line, Tone, columns};
use converge_engine::{Event, ItemResult, RoleWork};
use converge_resource::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Rows that a terminal of 24 lines has room for, with what scrolls above them.
pub(crate) const ROWS: usize = 16;
/// Columns of the bar of the whole run.
const BAR: usize = 24;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The state of a run as people see it.
#[derive(Default)]
pub(crate) struct Live {
    looking: LookProgress,
    roles: Vec<RoleRow>,
    hosts: BTreeMap<String, HostRow>,
    /// When the apply began.
    began: Option<Instant>,
    stopping: bool,
    failed: usize,
}

#[derive(Default)]
struct LookProgress {
    began: Option<Instant>,
    hosts: BTreeSet<String>,
    over: usize,
    total: usize,
}

struct RoleRow {
    name: String,
    requires: Vec<String>,
    /// Items of each host.
    items: BTreeMap<String, usize>,
    over: usize,
    began: Option<Instant>,
    ended: Option<Instant>,
    done: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// The reason to wait by host, in the words of the engine.
    waits: BTreeMap<String, String>,
}

#[derive(Default)]
struct HostRow {
    running: BTreeMap<u32, (String, Instant)>,
    over: bool,
}

impl Live {
    pub fn new(hosts: usize) -> Self {
        Self { looking: LookProgress { total: hosts, ..LookProgress::default() }, ..Self::default() }
    }

    /// Takes one event.
    pub fn event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Connecting { host } => {
                self.looking.began.get_or_insert(now);
                self.looking.hosts.insert(host.clone());
            }
            Event::Planned { host, .. } => self.looked(host),
            Event::RunStarted { roles, .. } => self.begin(roles, now),
            Event::ItemStarted { host, id, address } => {
                self.hosts.entry(host.clone()).or_default().running.insert(*id, (address.clone(), now));
                if let Some(role) = self.role_of(address) {
                    role.began.get_or_insert(now);
                    role.waits.remove(host);
                }
            }
            Event::ItemFinished { host, id, address, result, .. } => {
                self.hosts.entry(host.clone()).or_default().running.remove(id);
                self.failed += usize::from(is_failure(result));
                if let Some(role) = self.role_of(address) {
                    role.began.get_or_insert(now);
                    role.over += 1;
                }
            }
            Event::RoleFinished { host, role, failed } => {
                if let Some(role) = self.roles.iter_mut().find(|r| r.name == *role) {
                    role.finish(host, *failed, now);
                }
            }
            Event::Waiting { host, role, on } => {
                if let Some(role) = self.roles.iter_mut().find(|r| r.name == *role) {
                    role.waits.insert(host.clone(), on.clone());
                }
            }
            Event::Lost { host, .. } => {
                self.looked(host);
                for role in self.roles.iter_mut().filter(|r| r.items.contains_key(host)) {
                    if !role.done.contains(host) {
                        role.finish(host, true, now);
                    }
                }
                self.over(host);
            }
            Event::Verified { host, .. } => self.over(host),
            Event::Stopping => self.stopping = true,
            _ => {}
        }
    }

    fn looked(&mut self, host: &str) {
        self.looking.over += usize::from(self.looking.hosts.remove(host));
    }

    fn over(&mut self, host: &str) {
        let host = self.hosts.entry(host.to_owned()).or_default();
        host.over = true;
        host.running.clear();
    }

    fn begin(&mut self, roles: &[RoleWork], now: Instant) {
        self.looking.hosts.clear();
        self.began = Some(now);
        for work in roles {
            for host in work.items.keys() {
                self.hosts.entry(host.clone()).or_default();
            }
            self.roles.push(RoleRow {
                name: work.role.clone(),
                requires: work.requires.clone(),
                items: work.items.clone(),
                over: 0,
                began: None,
                ended: None,
                done: BTreeSet::new(),
                failed: BTreeSet::new(),
                waits: BTreeMap::new(),
            });
        }
    }

    fn role_of(&mut self, address: &str) -> Option<&mut RoleRow> {
        let name = converge_resource::role_of(address);
        self.roles.iter_mut().find(|r| r.name == name)
    }

    /// The rows of this moment, none longer than the width.
    pub fn rows(&self, now: Instant, frame: usize, width: usize, limit: usize) -> Vec<Line> {
        let spinner = SPINNER.get(frame % SPINNER.len()).copied().unwrap_or("·");
        let mut rows = match self.began {
            None => self.looking_row(now, spinner).into_iter().collect(),
            Some(began) => self.run_rows(began, now, spinner, limit),
        };
        // The last column stays free: a full line would wrap on some terminals.
        rows.iter_mut().for_each(|row| row.cut(width.saturating_sub(1)));
        rows
    }

    fn looking_row(&self, now: Instant, spinner: &str) -> Option<Line> {
        let began = self.looking.began?;
        if self.looking.hosts.is_empty() {
            return None;
        }
        let names: Vec<&str> = self.looking.hosts.iter().map(String::as_str).collect();
        let line = Line::at(0).say(Tone::Place, spinner).plain(" reading state").faint("  ");
        let line = line.plain(format!("{} of {}", self.looking.over, counted(self.looking.total, "host")));
        let took = span(now.saturating_duration_since(began));
        Some(line.faint(format!("  {took}  waiting for {}", fold_names(&names))))
    }

    fn run_rows(&self, began: Instant, now: Instant, spinner: &str, limit: usize) -> Vec<Line> {
        let names = self.roles.iter().map(|r| columns(&r.name)).max().unwrap_or(0).min(28);
        let most = self.roles.iter().map(|r| r.items.len()).max().unwrap_or(0).to_string().len();
        let mut done: Vec<&RoleRow> = Vec::new();
        let mut active: Vec<Line> = Vec::new();
        let mut waiting: Vec<Line> = Vec::new();
        for role in &self.roles {
            match role.stage() {
                Stage::Done => done.push(role),
                Stage::Waiting => waiting.push(self.waiting(role, names)),
                Stage::Failed | Stage::Running => active.push(self.active(role, names, most, now, spinner)),
            }
        }
        let mut rows: Vec<Line> = Vec::new();
        // Active roles have the first claim to a row; then those that wait, then those that are finished.
        let room = limit.saturating_sub(2);
        let free = room.saturating_sub(active.len());
        let shown_waiting = waiting.len().min(free.saturating_sub(usize::from(!done.is_empty())).max(1));
        let shown_done = if done.len() + shown_waiting <= free { done.len() } else { 0 };
        if shown_done == 0 && !done.is_empty() {
            let list: Vec<&str> = done.iter().map(|r| r.name.as_str()).collect();
            let line = Line::at(0).say(Tone::Good, "✓ ").plain(counted(done.len(), "role")).plain(" done");
            rows.push(line.faint(format!("  {}", list.join(", "))));
        }
        rows.extend(done.iter().take(shown_done).map(|role| role.over_row(names, most, now)));
        let hidden = active.len().saturating_sub(room);
        rows.extend(active.into_iter().take(room));
        if hidden > 0 {
            rows.push(Line::at(0).faint(format!("  and {hidden} more at work")));
        }
        let left = waiting.len() - shown_waiting;
        rows.extend(waiting.into_iter().take(shown_waiting));
        if left > 0 {
            rows.push(Line::at(0).faint(format!("· {} more to come", counted(left, "role"))));
        }
        rows.push(self.footer(began, now));
        rows
    }

    fn active(&self, role: &RoleRow, names: usize, most: usize, now: Instant, spinner: &str) -> Line {
        let failed = role.stage() == Stage::Failed;
        let (sign, tone) = match (failed, role.ended.is_some()) {
            (true, true) => ("✗", Tone::Bad),
            (true, false) => (spinner, Tone::Bad),
            _ => (spinner, Tone::Place),
        };
        let mut line = role.begin_row(sign, tone, names, most, now);
        if !role.failed.is_empty() {
            let bad: Vec<&str> = role.failed.iter().map(String::as_str).collect();
            line = line.say(Tone::Bad, format!("  failed on {}", fold_names(&bad)));
        }
        let mut work: Vec<(&str, &str, Instant)> = Vec::new();
        for (host, state) in &self.hosts {
            for (address, since) in state.running.values() {
                if let Some(item) = address.strip_prefix(&role.name).and_then(|r| r.strip_prefix('/')) {
                    work.push((host, item, *since));
                }
            }
        }
        work.sort_by_key(|(.., since)| *since);
        let more = work.len().saturating_sub(3);
        for (at, (host, item, since)) in work.into_iter().take(3).enumerate() {
            let took = now.saturating_duration_since(since);
            line = line.faint(if at == 0 { "  " } else { " · " }).faint(host).plain(format!(" {item}"));
            if took >= Duration::from_secs(2) {
                line = line.faint(format!(" {}", span(took)));
            }
        }
        if more > 0 { line.faint(format!(" · {more} more")) } else { line }
    }

    fn waiting(&self, role: &RoleRow, names: usize) -> Line {
        let line = Line::at(0).faint("· ").say(Tone::Faint, padded(&role.name, names));
        let open = |name: &String| self.roles.iter().any(|r| r.name == *name && r.ended.is_none());
        let first: Vec<&str> = role.requires.iter().filter(|r| open(r)).map(String::as_str).collect();
        // The messages of the engine name the hosts too; equal messages of many hosts are shown once.
        let reasons: BTreeSet<&str> =
            role.waits.values().map(String::as_str).filter(|s| !s.is_empty()).collect();
        match (reasons.into_iter().next(), first.is_empty()) {
            (Some(on), _) => line.faint(format!("  waits for {on}")),
            (None, false) => line.faint(format!("  waits for {}", first.join(", "))),
            (None, true) => line.faint(format!("  comes next on {}", counted(role.items.len(), "host"))),
        }
    }

    fn footer(&self, began: Instant, now: Instant) -> Line {
        let all: usize = self.roles.iter().map(RoleRow::total).sum();
        let over: usize = self.roles.iter().map(RoleRow::passed).sum();
        let ready = self.hosts.values().filter(|h| h.over).count();
        let full = (over * BAR).checked_div(all).map_or(BAR, |full| full.min(BAR));
        let line = Line::at(2)
            .say(Tone::Good, "━".repeat(full))
            .faint("─".repeat(BAR - full))
            .plain(format!("  {over}/{all} resources  {ready}/{} hosts", self.hosts.len()));
        let line =
            if self.failed > 0 { line.say(Tone::Bad, format!("  {} failed", self.failed)) } else { line };
        let line = line.faint(format!("  {}", span(now.saturating_duration_since(began))));
        if self.stopping {
            line.say(Tone::Warn, "  stopping: Ctrl-C again leaves at once")
        } else {
            line.faint("  Ctrl-C stops")
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Done,
    Failed,
}

impl RoleRow {
    fn finish(&mut self, host: &str, failed: bool, now: Instant) {
        if !self.items.contains_key(host) {
            return;
        }
        self.waits.remove(host);
        if failed {
            self.failed.insert(host.to_owned());
        }
        self.began.get_or_insert(now);
        self.done.insert(host.to_owned());
        if self.done.len() == self.items.len() {
            self.ended.get_or_insert(now);
        }
    }

    fn stage(&self) -> Stage {
        match (self.began, self.ended) {
            _ if !self.failed.is_empty() => Stage::Failed,
            (_, Some(_)) => Stage::Done,
            (Some(_), None) => Stage::Running,
            (None, None) => Stage::Waiting,
        }
    }

    fn total(&self) -> usize {
        self.items.values().sum()
    }

    /// Items that are over, those that ended without a word among them.
    fn passed(&self) -> usize {
        let done: usize = self.done.iter().filter_map(|h| self.items.get(h)).sum();
        self.over.max(done).min(self.total())
    }

    fn begin_row(&self, sign: &str, tone: Tone, names: usize, most: usize, now: Instant) -> Line {
        let took = match (self.began, self.ended) {
            (Some(began), end) => span(end.unwrap_or(now).saturating_duration_since(began)),
            (None, _) => String::new(),
        };
        let hosts = self.items.len();
        let noun = if hosts == 1 { "host " } else { "hosts" };
        Line::at(0)
            .say(tone, format!("{sign} "))
            .say(Tone::Strong, padded(&self.name, names))
            .plain(format!(
                "  {:>most$}/{hosts:<most$} {noun}",
                self.done.len() - self.failed.len().min(self.done.len())
            ))
            .faint(format!("  {:>9}", format!("{}/{}", self.passed(), self.total())))
            .faint(format!("  {took:>7}"))
    }

    fn over_row(&self, names: usize, most: usize, now: Instant) -> Line {
        self.begin_row("✓", Tone::Good, names, most, now)
    }
}

fn padded(name: &str, width: usize) -> String {
    let mut name: String = if columns(name) > width {
        name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        name.to_owned()
    };
    name.push_str(&" ".repeat(width.saturating_sub(columns(&name))));
    name
}

fn is_failure(result: &ItemResult) -> bool {
    matches!(
        result,
        ItemResult::Failed { .. }
            | ItemResult::Refused { .. }
            | ItemResult::PutBack { .. }
            | ItemResult::Unknown { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Look, Text};
    use converge_planner::Summary;

    struct Show {
        live: Live,
        start: Instant,
    }

    impl Show {
        fn new(hosts: usize) -> Self {
            Self { live: Live::new(hosts), start: Instant::now() }
        }

        fn at(&mut self, seconds: u64, event: Event) {
            self.live.event(&event, self.start + Duration::from_secs(seconds));
        }

        fn rows(&self, seconds: u64, width: usize) -> String {
            let mut text = Text::new();
            for row in self.live.rows(self.start + Duration::from_secs(seconds), 2, width, ROWS) {
                text.push(row);
            }
            text.draw(&Look::PLAIN)
        }
    }

    fn work(role: &str, requires: &[&str], hosts: std::ops::RangeInclusive<usize>, items: usize) -> RoleWork {
        RoleWork {
            role: role.into(),
            requires: requires.iter().map(|r| (*r).to_owned()).collect(),
            items: hosts.map(|n| (format!("gpu{n:03}"), items)).collect(),
        }
    }

    fn begun(host: &str, id: u32, address: &str) -> Event {
        Event::ItemStarted { host: host.into(), id, address: address.into() }
    }

    fn ended(host: &str, id: u32, address: &str, result: ItemResult) -> Event {
        Event::ItemFinished {
            host: host.into(),
            id,
            address: address.into(),
            result,
            took: Duration::from_secs(1),
        }
    }

    #[test]
    fn two_hundred_hosts_are_looked_at() {
        let mut show = Show::new(200);
        for n in 1..=200 {
            show.at(0, Event::Connecting { host: format!("gpu{n:03}") });
        }
        for n in (1..=200).filter(|n| n % 7 != 0) {
            show.at(1, Event::Planned { host: format!("gpu{n:03}"), summary: Summary::default() });
        }
        let rows = show.rows(3, 80);
        assert!(
            rows.starts_with("⠹ reading state  172 of 200 hosts  3.0s  waiting for gpu007, gpu014"),
            "{rows}"
        );
        assert_eq!(rows.lines().count(), 1);
        assert!(rows.lines().all(|l| columns(l) < 80));
    }

    #[test]
    fn the_graph_of_roles_shows_what_each_does() {
        let mut show = Show::new(3);
        let roles = vec![
            work("base", &[], 1..=3, 4),
            work("gpu_node", &["base"], 1..=3, 10),
            work("exporter", &["gpu_node"], 1..=2, 3),
        ];
        show.at(0, Event::RunStarted { run: "r".into(), roles });
        for n in 1..=3 {
            let host = format!("gpu{n:03}");
            show.at(0, begun(&host, 1, "base/tools"));
            show.at(2, ended(&host, 1, "base/tools", ItemResult::Changed));
            show.at(10, Event::RoleFinished { host, role: "base".into(), failed: false });
        }
        show.at(10, begun("gpu001", 2, "gpu_node/driver"));
        show.at(12, begun("gpu002", 2, "gpu_node/driver"));
        let failed = ItemResult::Failed { message: "x".into(), output: String::new() };
        show.at(13, begun("gpu003", 2, "gpu_node/driver"));
        show.at(14, ended("gpu003", 2, "gpu_node/driver", failed));
        show.at(14, Event::RoleFinished { host: "gpu003".into(), role: "gpu_node".into(), failed: true });
        insta::assert_snapshot!(show.rows(40, 100));
        show.at(41, Event::Stopping);
        assert!(show.rows(41, 120).contains("stopping: Ctrl-C again"), "{}", show.rows(41, 120));
        for width in [20, 40, 64, 80] {
            assert!(show.rows(40, width).lines().all(|l| columns(l) < width), "{}", show.rows(40, width));
        }
    }

    #[test]
    fn many_roles_on_many_hosts_stay_on_one_screen() {
        let mut show = Show::new(200);
        let names: Vec<String> = (0..40).map(|n| format!("role{n:02}")).collect();
        show.at(
            0,
            Event::RunStarted {
                run: "r".into(),
                roles: names.iter().map(|n| work(n, &[], 1..=200, 5)).collect(),
            },
        );
        for name in names.iter().take(12) {
            for n in 1..=200 {
                show.at(
                    1,
                    Event::RoleFinished { host: format!("gpu{n:03}"), role: name.clone(), failed: false },
                );
            }
        }
        for n in 1..=200 {
            show.at(2, begun(&format!("gpu{n:03}"), 9, "role12/things"));
        }
        let rows = show.rows(9, 140);
        assert!(rows.lines().count() <= ROWS, "{rows}");
        assert!(rows.contains("✓ 12 roles done"), "{rows}");
        assert!(rows.contains("197 more"), "{rows}");
        assert!(rows.contains("more to come"), "{rows}");
    }

    #[test]
    fn a_lost_host_does_not_hold_up_its_roles() {
        let mut show = Show::new(2);
        show.at(0, Event::RunStarted { run: "r".into(), roles: vec![work("base", &[], 1..=2, 2)] });
        show.at(1, Event::RoleFinished { host: "gpu001".into(), role: "base".into(), failed: false });
        show.at(2, Event::Lost { host: "gpu002".into(), message: "gone".into() });
        let rows = show.rows(60, 100);
        assert!(rows.contains("✗ base  1/2 hosts") && rows.contains("failed on gpu002"), "{rows}");
        assert!(rows.contains("1.0s"), "its clock stands still: {rows}");
    }
}
