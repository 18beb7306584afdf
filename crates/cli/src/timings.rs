//! `--timings`: the trace of a run, written whatever its end.

use crate::console::Console;
use crate::failure::Failure;
use crate::output_file::{check, put};
use camino::Utf8PathBuf;
use converge_engine::TimedEvent;
use converge_render::{Timings, Tone};
use std::time::Instant;

/// The times of a session, and the file in which they are wanted.
pub struct Trace {
    timings: Timings,
    file: Option<Utf8PathBuf>,
    console: Console,
}

impl Trace {
    /// Of a run on these targets that begins now.
    pub fn new(targets: &[String], console: &Console) -> Self {
        Self { timings: Timings::new(targets, Instant::now()), file: None, console: console.clone() }
    }

    /// Has the trace written to this file in the end.
    pub fn write_to(&mut self, file: Utf8PathBuf) -> Result<(), Failure> {
        check(&file).map_err(|error| {
            let message = format!("the timings cannot be written to {file}: {error}; no host was contacted");
            Failure::usage(message, "name a file in a folder that you may write to")
        })?;
        self.file = Some(file);
        Ok(())
    }

    /// Takes one event.
    pub fn event(&mut self, event: &TimedEvent) {
        self.timings.event(event);
    }

    /// The times so far.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Writes the trace, if it is wanted and not written yet.
    pub fn write(&mut self) {
        let Some(file) = self.file.take() else { return };
        match put(&file, self.timings.trace(Instant::now()).as_bytes()) {
            Ok(()) => {
                let remark =
                    format!("The timings are in {file}: open it in ui.perfetto.dev or chrome://tracing");
                self.console.remark(Tone::Faint, "", &remark);
            }
            Err(error) => self.console.not_written(&format!("the timings {file}"), &error),
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.write();
    }
}
