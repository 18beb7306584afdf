//! The reasons why a command ends without doing its work, and the exit codes.

use crate::console::Console;
use converge_render::Tone;
use converge_syntax::Diagnostics;

/// Exit codes.
pub mod code {
    pub use converge_engine::exit_code::{DONE, FAILED, PENDING, REFUSED, UNREACHABLE};

    /// Wrong usage or bad input.
    pub const USAGE: u8 = 64;
    /// All else went well, but its output or report could not be written.
    pub const OUTPUT: u8 = 74;
}

/// The reasons why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Diagnostics about files.
    Input(Diagnostics),
    /// A message with its exit code.
    Message {
        /// One of [`code`].
        code: u8,
        /// The error.
        message: String,
        /// The correction.
        help: Option<String>,
    },
}

impl Failure {
    /// Wrong usage: what, and what to write instead.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Message { code: code::USAGE, message: message.into(), help: Some(help.into()) }
    }

    /// Refused: why, and what to do.
    pub fn refused(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Message { code: code::REFUSED, message: message.into(), help: Some(help.into()) }
    }

    /// The work failed.
    pub fn failed(message: impl ToString) -> Self {
        Self::Message { code: code::FAILED, message: message.to_string(), help: None }
    }

    /// Reports the failure and returns the exit code.
    pub fn report(&self, console: &Console) -> u8 {
        match self {
            Self::Input(diagnostics) => {
                console.complain(diagnostics);
                code::USAGE
            }
            Self::Message { code, message, help } => {
                console.remark(Tone::Bad, "error: ", message);
                if let Some(help) = help {
                    console.remark(Tone::Plain, "  help: ", help);
                }
                *code
            }
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Input(diagnostics)
    }
}
