//! Where results, remarks and complaints go.

use crate::args::{Global, Output};
use converge_render::{Look, Text, Tone};
use converge_syntax::{Diagnostics, Severity};
use miette::{GraphicalReportHandler, GraphicalTheme};
use std::io::{IsTerminal, Write};

/// Standard output for results, standard error for everything else.
pub struct Console {
    /// How text on standard output looks.
    pub look: Look,
    /// How text on standard error looks.
    pub error_look: Look,
    /// One JSON document instead of text.
    pub json: bool,
    /// JUnit's XML instead of text.
    pub junit: bool,
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
    pub fn new(global: &Global) -> Self {
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
        Self { look, error_look, json: global.output == Output::Json, junit: global.output == Output::Junit }
    }

    /// Writes a result. A reader that has gone away is no error.
    pub fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a result for people.
    pub fn print(&self, text: &Text) {
        self.write(&text.draw(&self.look));
    }

    /// Writes a result as one JSON document.
    pub fn print_json(&self, value: &serde_json::Value) {
        self.write(&format!("{value:#}\n"));
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

    /// Writes all complaints to standard error: drawn in their files on a terminal, a line each in a pipe; how many in the end.
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
                    drawn.push_str(&format!("{report}\n"));
                }
            }
        } else {
            drawn = diagnostics.iter().map(|d| format!("{d}\n")).collect();
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
