//! Output of results, remarks and errors.

use crate::args::{GlobalArgs, OutputFormat};
use converge_render::{Look, Text, Tone};
use converge_syntax::{Diagnostics, Severity};
use miette::{GraphicalReportHandler, GraphicalTheme};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Standard output for results, standard error for everything else. Clones share what was lost.
#[derive(Clone)]
pub struct Console {
    /// The look of text on standard output.
    pub look: Look,
    /// The look of text on standard error.
    pub error_look: Look,
    /// One JSON document instead of text.
    pub json: bool,
    /// JUnit's XML instead of text.
    pub junit: bool,
    /// The first output that could not be written.
    lost: Arc<Mutex<Option<String>>>,
}

fn width(terminal: bool, stream: impl std::os::fd::AsFd) -> Option<usize> {
    if !terminal {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|w| *w > 0)
}

impl Console {
    /// Asks the streams and the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `TERM`).
    pub fn new(global: &GlobalArgs) -> Self {
        if global.no_color {
            anstream::ColorChoice::Never.write_global();
        }
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let color = |choice: anstream::ColorChoice| choice != anstream::ColorChoice::Never;
        let verbose = global.verbose > 0;
        let look = Look {
            color: color(anstream::AutoStream::choice(&out)),
            width: width(out.is_terminal(), &out),
            verbose,
            full_diff: global.full_diff,
        };
        let error_look = Look {
            color: color(anstream::AutoStream::choice(&err)),
            width: width(err.is_terminal(), &err),
            verbose,
            full_diff: global.full_diff,
        };
        let (json, junit) = (global.output == OutputFormat::Json, global.output == OutputFormat::Junit);
        Self { look, error_look, json, junit, lost: Arc::default() }
    }

    /// Writes a result. A reader that has gone away is no error.
    pub fn write(&self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    /// Writes bytes that do not come from converge.
    pub fn write_bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
            self.not_written("the output", &error);
        }
    }

    /// Something could not be written: [`Console::lost`] says so in the end. A reader that has gone away is no error.
    pub fn not_written(&self, what: &str, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert_with(|| format!("{what} could not be written: {error}"));
        }
    }

    /// The output that could not be written.
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a result for people.
    pub fn print(&self, text: &Text) {
        self.write(&text.draw(&self.look));
    }

    /// Writes a result as one JSON document.
    pub fn print_json(&self, value: &serde_json::Value) {
        self.write(&converge_render::json_text(value));
    }

    /// Writes a result as JUnit's XML.
    pub fn print_junit(&self, suites: &converge_render::Suites) {
        self.write(&suites.xml());
    }

    /// Text for people goes to standard output; nothing else does.
    pub fn human(&self) -> bool {
        !self.json && !self.junit
    }

    /// Writes a remark to standard error.
    pub fn remark(&self, tone: Tone, lead: &str, message: &str) {
        let mut text = Text::new();
        text.prose(0, tone, lead, message);
        self.remark_text(&text);
    }

    /// Writes text to standard error.
    pub fn remark_text(&self, text: &Text) {
        let _gone = std::io::stderr().write_all(text.draw(&self.error_look).as_bytes());
    }

    /// Writes all diagnostics to standard error: drawn in their files on a terminal, a line each in a pipe; how many in the end.
    pub fn complain(&self, diagnostics: &Diagnostics) {
        let mut drawn = String::new();
        if self.error_look.width.is_some() {
            let theme = if self.error_look.color {
                GraphicalTheme::unicode()
            } else {
                GraphicalTheme::unicode_nocolor()
            };
            let width = self.error_look.width.unwrap_or(100).clamp(40, 120);
            let handler = GraphicalReportHandler::new_themed(theme).with_width(width);
            for report in diagnostics.reports() {
                // Drawing into a string fails for no input; the plain form says the same.
                if handler.render_report(&mut drawn, &report).is_err() {
                    drawn.push_str(&format!("{}\n", converge_render::visible(&report.to_string())));
                }
            }
        } else {
            let lines = diagnostics.iter().flat_map(|d| {
                d.to_string()
                    .split('\n')
                    .map(|line| converge_render::visible(line) + "\n")
                    .collect::<Vec<_>>()
            });
            drawn = lines.collect();
        }
        let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        let warnings = diagnostics.len() - errors;
        let many = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
        match (errors, warnings) {
            (0, _) => {}
            (_, 0) => drawn.push_str(&format!("{}\n", many(errors, "error"))),
            _ => drawn.push_str(&format!("{}, {}\n", many(errors, "error"), many(warnings, "warning"))),
        }
        let _gone = std::io::stderr().write_all(drawn.as_bytes());
    }
}
