//! Progress while a run goes on: live lines on a terminal, plain lines in a pipe.

use crate::events::lines;
use crate::text::{Look, Text, columns, visible};
use converge_engine::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

/// Live lines at most; more hosts are counted.
const LIVE_LINES: usize = 16;

/// Shows events as they come. Lines go to `out`; live lines to the terminal behind standard error.
pub struct Progress {
    look: Look,
    out: Box<dyn Write + Send>,
    column: usize,
    live: Option<Live>,
    /// False once the reader of `out` has gone away.
    heard: bool,
}

struct Live {
    screen: MultiProgress,
    /// Hosts that are looked at and not planned yet, and how many are.
    looking: BTreeSet<String>,
    total: usize,
    over: usize,
    look_bar: Option<ProgressBar>,
    bars: BTreeMap<String, HostBar>,
    more: Option<ProgressBar>,
    column: usize,
    /// Columns of the terminal.
    width: usize,
}

struct HostBar {
    bar: Option<ProgressBar>,
    /// Items that run now: number and address.
    running: BTreeMap<u32, String>,
    total: usize,
    over: usize,
}

impl Progress {
    /// For these hosts. `live` draws moving lines; without it only lines are written.
    pub fn new(look: Look, hosts: &[String], live: bool, out: Box<dyn Write + Send>) -> Self {
        let column = hosts.iter().map(|h| columns(h)).max().unwrap_or(0).min(32);
        let live = live.then(|| Live {
            screen: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            looking: BTreeSet::new(),
            total: hosts.len(),
            over: 0,
            look_bar: None,
            bars: BTreeMap::new(),
            more: None,
            column,
            width: look.width.unwrap_or(80),
        });
        Self { look, out, column, live, heard: true }
    }

    /// Shows one event.
    pub fn event(&mut self, event: &Event) {
        let text = lines(event, self.column, &self.look);
        self.advance(event);
        self.print(&text);
    }

    /// Moves the live lines on, without a line for the event.
    pub fn advance(&mut self, event: &Event) {
        if let Some(live) = &mut self.live {
            live.event(event);
        }
    }

    /// Writes text above the live lines.
    pub fn print(&mut self, text: &Text) {
        if text.is_empty() || !self.heard {
            return;
        }
        let drawn = text.draw(&self.look);
        let out = &mut self.out;
        let mut write = || out.write_all(drawn.as_bytes()).and_then(|()| out.flush()).is_ok();
        self.heard = match &self.live {
            Some(live) => live.screen.suspend(write),
            None => write(),
        };
    }

    /// Takes the live lines away.
    pub fn end(&mut self) {
        if let Some(live) = &mut self.live {
            live.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

impl Live {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connecting { host } => {
                self.looking.insert(host.clone());
                self.show_looking();
            }
            Event::Planned { host, .. } => {
                self.looking.remove(host);
                self.over += 1;
                self.show_looking();
            }
            Event::Lost { host, .. } => {
                if self.looking.remove(host) {
                    self.over += 1;
                    self.show_looking();
                }
                self.drop_bar(host);
            }
            Event::ApplyStarted { host, items } => {
                self.end_looking();
                let entry = HostBar { bar: None, running: BTreeMap::new(), total: *items, over: 0 };
                self.bars.insert(host.clone(), entry);
                self.show(host);
            }
            Event::ItemStarted { host, id, address } => {
                if let Some(entry) = self.bars.get_mut(host) {
                    entry.running.insert(*id, address.clone());
                    if let Some(bar) = &entry.bar {
                        bar.reset_elapsed();
                    }
                }
                self.show(host);
            }
            Event::ItemFinished { host, id, .. } => {
                if let Some(entry) = self.bars.get_mut(host) {
                    entry.running.remove(id);
                    entry.over += 1;
                }
                self.show(host);
            }
            Event::Waiting { host, role, on } => {
                let message = format!("waits before role {role} for {on}");
                let room = self.room();
                if let Some(bar) = self.bars.get(host).and_then(|b| b.bar.as_ref()) {
                    bar.set_message(fitted(&message, room));
                }
            }
            Event::Verified { host, .. } => self.drop_bar(host),
            _ => {}
        }
    }

    fn show_looking(&mut self) {
        if self.looking.is_empty() {
            self.end_looking();
            return;
        }
        let bar = self.look_bar.get_or_insert_with(|| {
            let bar = self
                .screen
                .add(ProgressBar::new_spinner().with_style(style("{spinner:.dim} {msg} {elapsed:.dim}")));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let mut names: Vec<&str> = self.looking.iter().take(6).map(String::as_str).collect();
        if self.looking.len() > names.len() {
            names.push("…");
        }
        let message = format!("looking  {}/{}  {}", self.over, self.total, names.join(", "));
        bar.set_message(fitted(&message, self.width.saturating_sub(14)));
    }

    fn end_looking(&mut self) {
        if let Some(bar) = self.look_bar.take() {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, host: &str) {
        let drawn = self.bars.values().filter(|b| b.bar.is_some()).count();
        let room = self.room();
        let Some(entry) = self.bars.get_mut(host) else { return };
        if entry.bar.is_none() && drawn < LIVE_LINES {
            let bar = ProgressBar::new_spinner()
                .with_style(style("{spinner:.dim} {prefix:.bold}  {msg} {elapsed:.dim}"))
                .with_prefix(format!("{:<width$}", visible(host), width = self.column));
            let bar = self.screen.add(bar);
            bar.enable_steady_tick(Duration::from_millis(120));
            entry.bar = Some(bar);
        }
        let now: Vec<&str> = entry.running.values().map(String::as_str).collect();
        let message = match now.as_slice() {
            [] if entry.over >= entry.total => "looks again".to_owned(),
            [] => "…".to_owned(),
            now => now.join(", "),
        };
        if let Some(bar) = &entry.bar {
            bar.set_message(fitted(&format!("{}/{}  {message}", entry.over, entry.total), room));
        }
        self.show_more();
    }

    /// Columns for what a host does now.
    fn room(&self) -> usize {
        self.width.saturating_sub(self.column + 18)
    }

    /// One line for the hosts that have none of their own.
    fn show_more(&mut self) {
        let hidden = self.bars.values().filter(|b| b.bar.is_none()).count();
        if hidden == 0 {
            if let Some(bar) = self.more.take() {
                bar.finish_and_clear();
            }
            return;
        }
        let bar = self.more.get_or_insert_with(|| {
            self.screen.add(ProgressBar::new_spinner().with_style(style("  {wide_msg:.dim}")))
        });
        bar.set_message(format!("and {hidden} more"));
    }

    fn drop_bar(&mut self, host: &str) {
        if let Some(bar) = self.bars.remove(host).and_then(|b| b.bar) {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
        // A host that was only counted takes the free line.
        let next = self.bars.iter().find(|(_, b)| b.bar.is_none()).map(|(h, _)| h.clone());
        if let Some(next) = next {
            self.show(&next);
        } else {
            self.show_more();
        }
    }

    fn clear(&mut self) {
        self.end_looking();
        self.bars.values().filter_map(|b| b.bar.as_ref()).for_each(ProgressBar::finish_and_clear);
        self.bars.clear();
        self.show_more();
        // A screen that is gone cannot be cleared, and need not be.
        let _gone = self.screen.clear();
    }
}

/// Cut so that the line, with its time and an echoed `^C`, stays on one row.
fn fitted(message: &str, room: usize) -> String {
    let message = visible(message);
    if columns(&message) <= room {
        return message;
    }
    let mut cut: String = message.chars().take(room.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_engine::ItemResult;
    use converge_planner::Summary;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn run(hosts: usize) -> Vec<Event> {
        let name = |n: usize| format!("h{n}");
        let mut events = Vec::new();
        for n in 0..hosts {
            events.push(Event::Connecting { host: name(n) });
            events.push(Event::Planned { host: name(n), summary: Summary::default() });
        }
        for n in 0..hosts {
            events.push(Event::ApplyStarted { host: name(n), items: 1 });
            events.push(Event::ItemStarted { host: name(n), id: 1, address: "r/a".into() });
        }
        for n in 0..hosts {
            let took = Duration::from_secs(1);
            let result = ItemResult::Changed;
            events.push(Event::ItemFinished { host: name(n), id: 1, address: "r/a".into(), result, took });
            events.push(Event::Verified { host: name(n), differences: vec![] });
        }
        events
    }

    #[test]
    fn a_pipe_gets_one_line_an_item() {
        let kept = Kept::default();
        let mut progress =
            Progress::new(Look::PLAIN, &["h0".into(), "h1".into()], false, Box::new(kept.clone()));
        run(2).iter().for_each(|e| progress.event(e));
        progress.end();
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "h0  ✓ changed  r/a  1.0s\nh1  ✓ changed  r/a  1.0s\n");
    }

    #[test]
    fn live_lines_come_and_go_with_their_hosts() {
        let mut progress = Progress::new(Look::PLAIN, &[], true, Box::new(Kept::default()));
        let events = run(40);
        let (before, after) = events.split_at(events.len() - 80);
        before.iter().for_each(|e| progress.event(e));
        let live = progress.live.as_ref().unwrap();
        assert!(live.look_bar.is_none() && live.more.is_some());
        assert_eq!(live.bars.values().filter(|b| b.bar.is_some()).count(), LIVE_LINES);
        after.iter().for_each(|e| progress.event(e));
        let live = progress.live.as_ref().unwrap();
        assert!(live.bars.is_empty() && live.more.is_none());
    }

    #[test]
    fn live_lines_stay_on_one_row() {
        assert_eq!(fitted("a\u{1b}bc", 4), "a\u{241b}bc");
        assert_eq!(fitted("abcdef", 4), "abc…");
    }

    #[test]
    fn a_reader_that_left_is_not_written_to_again() {
        let mut progress = Progress::new(Look::PLAIN, &[], false, Box::new(Gone));
        run(3).iter().for_each(|e| progress.event(e));
        assert!(!progress.heard);
    }
}
