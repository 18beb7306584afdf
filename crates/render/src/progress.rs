//! Progress while a run goes on: live rows on a terminal, plain lines in a pipe.

use crate::events::lines;
use crate::live::{Live, ROWS};
use crate::text::{Look, Text, columns};
use crate::waiting::WaitingHosts;
use converge_engine::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;

/// With more hosts than this a terminal gets no line for every item that went well: the live rows count them.
const CHATTY: usize = 8;

/// Asks a terminal for its columns and rows of now. `None` when it has none.
pub type TerminalSize = Box<dyn Fn() -> Option<(usize, usize)> + Send>;

/// Shows events as they come. Lines go to `out`; live rows to the terminal behind standard error.
pub struct Progress {
    look: Look,
    out: Box<dyn Write + Send>,
    column: usize,
    screen: Option<Screen>,
    /// Leave out what went well, and what was said already of another host.
    terse: bool,
    reported: BTreeSet<String>,
    /// False once the reader of `out` has gone away.
    heard: bool,
    /// The hosts whose plans are waited for.
    waiting: Option<WaitingHosts>,
    /// Where it is said who is waited for, where there are no live rows.
    aside: Option<(Look, Box<dyn Write + Send>)>,
}

/// The live rows.
struct Screen {
    live: Live,
    bars: MultiProgress,
    rows: Vec<(ProgressBar, String)>,
    size: TerminalSize,
    frame: usize,
}

impl Progress {
    /// For these hosts. With the size of a terminal it draws moving rows there; without only lines are written.
    pub fn new(look: Look, hosts: &[String], live: Option<TerminalSize>, out: Box<dyn Write + Send>) -> Self {
        let column = hosts.iter().map(|h| columns(h)).max().unwrap_or(0).min(32);
        let terse = live.is_some() && hosts.len() > CHATTY && !look.verbose;
        let screen = live.map(|size| Screen {
            live: Live::new(hosts.len()),
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            rows: Vec::new(),
            size,
            frame: 0,
        });
        Self {
            look,
            out,
            column,
            screen,
            terse,
            reported: BTreeSet::new(),
            heard: true,
            waiting: None,
            aside: None,
        }
    }

    /// Says there, beside the lines, which hosts are waited for; live rows show it themselves.
    #[must_use]
    pub fn aside(mut self, look: Look, out: Box<dyn Write + Send>) -> Self {
        self.aside = self.screen.is_none().then_some((look, out));
        self
    }

    /// From here to [`Self::end`] the plans of these hosts are waited for.
    pub fn wait_for(&mut self, hosts: &[String]) {
        self.waiting = Some(WaitingHosts::new(hosts, Instant::now()));
    }

    /// Shows one event.
    pub fn event(&mut self, event: &Event) {
        self.advance(event);
        if self.is_reported(event) {
            let text = lines(event, self.column, &self.look);
            self.print(&text);
        }
    }

    /// Takes an event into the live rows, without a line for it.
    pub fn advance(&mut self, event: &Event) {
        if let Some(waiting) = &mut self.waiting {
            waiting.event(event);
        }
        if let Some(screen) = &mut self.screen {
            screen.live.event(event, Instant::now());
        }
    }

    /// Draws the live rows as they are now. To be called about ten times a second.
    pub fn tick(&mut self) {
        if let (Some(waiting), Some((look, out))) = (&mut self.waiting, &mut self.aside) {
            let text = waiting.due(Instant::now());
            // Nobody is left to tell that standard error is closed.
            let _gone = out.write_all(text.draw(look).as_bytes()).and_then(|()| out.flush());
        }
        if let Some(screen) = &mut self.screen {
            screen.draw(&self.look);
        }
    }

    fn is_reported(&mut self, event: &Event) -> bool {
        if !self.terse {
            return true;
        }
        match event {
            Event::ItemFinished { result, .. } => result.is_bad(),
            Event::Waiting { .. } => false,
            // The same item turns out alike on most hosts.
            Event::Resolved { item, .. } => {
                self.reported.insert(format!("{}: {:?}", item.address, item.outcome))
            }
            _ => true,
        }
    }

    /// Writes text above the live rows.
    pub fn print(&mut self, text: &Text) {
        if text.is_empty() || !self.heard {
            return;
        }
        let drawn = text.draw(&self.look);
        let out = &mut self.out;
        let mut write = || out.write_all(drawn.as_bytes()).and_then(|()| out.flush()).is_ok();
        self.heard = match &self.screen {
            Some(screen) => screen.bars.suspend(write),
            None => write(),
        };
    }

    /// Takes the live rows away.
    pub fn end(&mut self) {
        self.waiting = None;
        if let Some(screen) = &mut self.screen {
            screen.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

impl Screen {
    fn draw(&mut self, look: &Look) {
        let (width, height) = (self.size)().unwrap_or((80, 24));
        self.frame = self.frame.wrapping_add(1);
        let rows =
            self.live.rows(Instant::now(), self.frame, width, ROWS.min(height.saturating_sub(2)).max(3));
        for (at, row) in rows.iter().enumerate() {
            let mut text = Text::new();
            text.push(row.clone());
            let drawn = text.draw(&Look { width: None, ..*look });
            let drawn = drawn.trim_end_matches('\n').to_owned();
            match self.rows.get_mut(at) {
                Some((_, old)) if *old == drawn => {}
                Some((bar, old)) => {
                    bar.set_message(drawn.clone());
                    *old = drawn;
                }
                None => {
                    let bar = self.bars.add(ProgressBar::new_spinner().with_style(style()));
                    bar.set_message(drawn.clone());
                    bar.tick();
                    self.rows.push((bar, drawn));
                }
            }
        }
        for (bar, _) in self.rows.split_off(rows.len().min(self.rows.len())) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
    }

    fn clear(&mut self) {
        for (bar, _) in self.rows.drain(..) {
            bar.finish_and_clear();
        }
        // A screen that is gone cannot be cleared, and need not be.
        let _gone = self.bars.clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_engine::ItemResult;
    use converge_planner::Summary;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
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

    fn name(n: usize) -> String {
        format!("h{n}")
    }

    fn run(hosts: usize, result: &ItemResult) -> Vec<Event> {
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
            let result = result.clone();
            events.push(Event::ItemFinished { host: name(n), id: 1, address: "r/a".into(), result, took });
            events.push(Event::Verified { host: name(n), differences: vec![] });
        }
        events
    }

    fn reported(hosts: usize, live: bool, result: &ItemResult) -> String {
        let written = SharedBuffer::default();
        let size: Option<TerminalSize> =
            live.then(|| Box::new(|| Some((80_usize, 24_usize))) as TerminalSize);
        let names: Vec<String> = (0..hosts).map(name).collect();
        let mut progress = Progress::new(Look::PLAIN, &names, size, Box::new(written.clone()));
        for event in run(hosts, result) {
            progress.event(&event);
            progress.tick();
        }
        progress.end();
        drop(progress);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_pipe_gets_one_line_an_item() {
        assert_eq!(
            reported(2, false, &ItemResult::Changed),
            "h0  ✓ changed  r/a  1.0s\nh1  ✓ changed  r/a  1.0s\n"
        );
        assert_eq!(reported(200, false, &ItemResult::Changed).lines().count(), 200);
    }

    #[test]
    fn a_terminal_with_many_hosts_gets_lines_for_what_went_wrong_alone() {
        assert_eq!(reported(2, true, &ItemResult::Changed).lines().count(), 2);
        assert_eq!(reported(200, true, &ItemResult::Changed), "");
        let refused = ItemResult::Refused { message: "it moved".into() };
        assert_eq!(reported(200, true, &refused).lines().count(), 400);
    }

    #[test]
    fn a_reader_that_left_is_not_written_to_again() {
        let mut progress = Progress::new(Look::PLAIN, &[], None, Box::new(Gone));
        run(3, &ItemResult::Changed).iter().for_each(|e| progress.event(e));
        assert!(!progress.heard);
    }
}
