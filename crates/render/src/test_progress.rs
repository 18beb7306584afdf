//! Progress of the tests of roles: a live line a running scenario on a terminal, plain lines in a pipe.

use crate::role_tests::{case_report, seconds};
use crate::text::{Line, Look, Text, Tone, columns, visible};
use converge_scenarios::{GateOutcome, ScenarioEvent};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Cut so that the line, with its time, stays on one row.
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

/// Shows what happens to scenarios. Lines go to `out`; live lines to the terminal behind standard error.
pub struct TestProgress {
    look: Look,
    names: Vec<String>,
    column: usize,
    out: Box<dyn Write + Send>,
    /// With reports, or only as lines for who waits for a document.
    reports: bool,
    screen: Option<MultiProgress>,
    bars: BTreeMap<usize, ProgressBar>,
    total: Option<ProgressBar>,
    over: usize,
}

impl TestProgress {
    /// For these scenarios. `live` draws moving lines; `reports` writes the report of each scenario when it is over.
    pub fn new(
        look: Look,
        names: Vec<String>,
        live: bool,
        reports: bool,
        out: Box<dyn Write + Send>,
    ) -> Self {
        let column = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).min(40);
        let screen = live.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Self { look, names, column, out, reports, screen, bars: BTreeMap::new(), total: None, over: 0 }
    }

    /// Shows one event.
    pub fn show(&mut self, progress: &ScenarioEvent) {
        match progress {
            ScenarioEvent::Began { case } => self.began(*case),
            ScenarioEvent::Doing { case, gate, what } => {
                let room = self.look.width.unwrap_or(80).saturating_sub(self.column + 18);
                if let Some(bar) = self.bars.get(case) {
                    let what = if what.is_empty() { String::new() } else { format!("  {what}") };
                    bar.set_message(fitted(&format!("{}{what}", gate.name()), room));
                }
            }
            ScenarioEvent::GateOver { case, gate, outcome, took } => {
                // A pipe, as in CI, is to show life too: the report comes only at the end.
                if self.screen.is_none() && *outcome != GateOutcome::NotRun {
                    let (sign, tone) = match outcome {
                        GateOutcome::Passed => ("✓", Tone::Good),
                        _ => ("✗", Tone::Bad),
                    };
                    let mut text = Text::new();
                    text.push(
                        Line::at(0)
                            .faint(format!("{}  ", self.padded(*case)))
                            .say(tone, sign)
                            .plain(format!(" {}", gate.name()))
                            .faint(format!("  {}", seconds(*took))),
                    );
                    self.print(&text);
                }
            }
            ScenarioEvent::Over { case, report } => {
                if let (Some(bar), Some(screen)) = (self.bars.remove(case), &self.screen) {
                    bar.finish_and_clear();
                    screen.remove(&bar);
                }
                self.over += 1;
                if self.reports {
                    let look = self.look;
                    self.print(&case_report(report, &look));
                }
                self.show_total();
            }
            ScenarioEvent::Remark(line) => {
                let mut text = Text::new();
                text.prose(0, Tone::Faint, "", line);
                self.print(&text);
            }
        }
    }

    fn padded(&self, case: usize) -> String {
        format!("{:<width$}", self.names.get(case).map_or("", String::as_str), width = self.column)
    }

    fn began(&mut self, case: usize) {
        let Some(screen) = &self.screen else { return };
        let bar = ProgressBar::new_spinner()
            .with_style(style("{spinner:.dim} {prefix:.bold}  {msg} {elapsed:.dim}"))
            .with_prefix(self.padded(case));
        let bar = screen.add(bar);
        bar.enable_steady_tick(Duration::from_millis(120));
        self.bars.insert(case, bar);
        self.show_total();
    }

    /// The last line: how many scenarios are over.
    fn show_total(&mut self) {
        let Some(screen) = &self.screen else { return };
        let waiting = self.names.len().saturating_sub(self.over + self.bars.len());
        if let Some(bar) = self.total.take() {
            bar.finish_and_clear();
            screen.remove(&bar);
        }
        if waiting > 0 {
            let bar = screen.add(ProgressBar::new_spinner().with_style(style("  {msg:.dim}")));
            bar.set_message(format!("{} of {} over, {waiting} waiting", self.over, self.names.len()));
            bar.tick();
            self.total = Some(bar);
        }
    }

    fn print(&mut self, text: &Text) {
        let drawn = text.draw(&self.look);
        let out = &mut self.out;
        let mut write = || {
            // A reader that has gone away is no reason to stop.
            let _gone = out.write_all(drawn.as_bytes()).and_then(|()| out.flush());
        };
        match &self.screen {
            Some(screen) => screen.suspend(write),
            None => write(),
        }
    }

    /// Takes the live lines away.
    pub fn end(&mut self) {
        for bar in std::mem::take(&mut self.bars).into_values().chain(self.total.take()) {
            bar.finish_and_clear();
        }
        if let Some(screen) = &self.screen {
            let _gone = screen.clear();
        }
    }
}

impl Drop for TestProgress {
    fn drop(&mut self) {
        self.end();
    }
}
