//! Batches of items for a shell, and their results.

use crate::error::ShellError;
use crate::quote::quote;
use bytes::Bytes;
use std::collections::HashSet;
use std::time::Duration;

/// The destination of the standard error of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stderr {
    /// Into its output, in the order written.
    #[default]
    Merge,
    /// Kept apart.
    Separate,
}

/// One step or probe.
#[derive(Debug, Clone, Default)]
pub struct ShellItem {
    /// Its number; unique in the batch.
    pub id: u32,
    /// Earlier items of the batch that must have succeeded; else this one is skipped.
    pub needs: Vec<u32>,
    /// POSIX shell text, any bytes but NUL. It runs in a subshell that has the prelude's functions and variables.
    pub script: String,
    /// Standard input; `None` is /dev/null.
    pub payload: Option<Bytes>,
    /// Limit; `None` is `Options::item_timeout`. An item whose limit passes is killed on the host and ends as `Status::TimedOut`.
    pub timeout: Option<Duration>,
    /// The destination of standard error.
    pub stderr: Stderr,
}

impl ShellItem {
    /// An item with this script, no needs, no input.
    #[must_use]
    pub fn new(id: u32, script: impl Into<String>) -> Self {
        Self { id, script: script.into(), ..Self::default() }
    }
}

/// Items that are sent whole; nothing waits for an answer.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Evaluated first, in the loop's own shell: its functions and variables stay, for later batches too. A status other than 0 stops
    /// the batch before its first item.
    pub prelude: Option<String>,
    /// Absolute path on the host; while such a file exists, items not yet started are skipped as stopped.
    pub stop_file: Option<String>,
    /// The items, in the order in which they run.
    pub items: Vec<ShellItem>,
}

/// The reason why an item was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// This need failed or was skipped.
    Need(u32),
    /// The stop file exists.
    Stopped,
}

/// The end of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Its exit status; 128 + n when signal n ended it.
    Exited(i32),
    /// Its limit passed and its processes were ended.
    TimedOut,
}

impl Status {
    /// Exit status 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// An event on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellEvent {
    /// An item began.
    Started(u32),
    /// Bytes that an item wrote.
    Output {
        /// The item.
        id: u32,
        /// The bytes, as they came.
        bytes: Bytes,
        /// Standard error of an item with `Stderr::Separate`.
        stderr: bool,
    },
    /// An item ended.
    Finished {
        /// The item.
        id: u32,
        /// The end.
        status: Status,
        /// Measured on the host (10 ms steps) or, where it cannot tell, here.
        duration: Duration,
        /// Output beyond the limit was dropped.
        cut: bool,
    },
    /// An item was not run.
    Skipped {
        /// The item.
        id: u32,
        /// The reason.
        because: Because,
    },
}

/// The final result of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellOutcome {
    /// The item ran.
    Finished {
        /// The end.
        status: Status,
        /// The duration.
        duration: Duration,
    },
    /// The item was skipped.
    Skipped(Because),
    /// The shell ended first; it was running.
    Lost,
    /// The shell ended first; it may not have begun.
    Unknown,
}

/// The result of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellItemResult {
    /// The item.
    pub id: u32,
    /// The result.
    pub outcome: ShellOutcome,
    /// Standard output; with `Stderr::Merge`, standard error too.
    pub output: Vec<u8>,
    /// Standard error with `Stderr::Separate`.
    pub stderr: Vec<u8>,
    /// Output beyond the limit was dropped.
    pub cut: bool,
}

impl ShellItemResult {
    /// True if the item ran and ended with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        matches!(self.outcome, ShellOutcome::Finished { status, .. } if status.success())
    }
}

impl Batch {
    /// A batch of these items.
    #[must_use]
    pub fn of(items: Vec<ShellItem>) -> Self {
        Self { items, ..Self::default() }
    }

    /// Header line and text, and the payloads that follow; or the error of the batch.
    pub(crate) fn encode(&self) -> Result<Vec<Bytes>, ShellError> {
        let bad = |why: String| Err(ShellError::BadBatch(why));
        let mut text = String::from("_cv_m() {\n");
        if let Some(stop) = &self.stop_file {
            if !stop.starts_with('/') || stop.contains('\0') {
                return bad(format!("the stop file {stop:?} is not an absolute path"));
            }
            text.push_str(&format!("_cv_stop={}\n", quote(stop)));
        }
        let total: usize = self.items.iter().filter_map(|item| item.payload.as_ref()).map(Bytes::len).sum();
        if let Some(prelude) = &self.prelude {
            if prelude.contains('\0') {
                return bad("the prelude holds a NUL byte".to_owned());
            }
            text.push_str(&format!(
                "_cv_f P\neval {} 3<&- 2>&1\n_cv_r=$?\nset +eufx\n_cv_f \"Q $_cv_r\"\ntest $_cv_r = 0 || {{ {}return 0; }}\n",
                quote(prelude),
                if total > 0 { format!("_cv_take {total} >/dev/null; ") } else { String::new() }
            ));
        }
        let mut observed = HashSet::new();
        let mut payloads = Vec::new();
        for item in &self.items {
            if item.script.contains('\0') {
                return bad(format!("the script of item {} holds a NUL byte", item.id));
            }
            if let Some(need) = item.needs.iter().find(|need| !observed.contains(*need)) {
                return bad(format!("item {} needs {need}, which does not come before it", item.id));
            }
            if !observed.insert(item.id) {
                return bad(format!("two items have the number {}", item.id));
            }
            let needs = item.needs.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            let mode = match item.stderr {
                Stderr::Merge => 'm',
                Stderr::Separate => 's',
            };
            // An empty payload is /dev/null: an input that is at its end.
            let payload = item.payload.as_ref().filter(|bytes| !bytes.is_empty());
            let size = payload.map_or_else(|| "-".to_owned(), |bytes| bytes.len().to_string());
            text.push_str(&format!("_cv_i {} {mode} {size} '{needs}' {}\n", item.id, quote(&item.script)));
            payloads.extend(payload.cloned());
        }
        text.push_str("return 0\n}\n");
        let mut out = vec![Bytes::from(format!("B {}\n{text}", text.len()))];
        out.append(&mut payloads);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_batches_are_refused_before_anything_is_sent() {
        let item = |id, needs: &[u32], script: &str| ShellItem {
            needs: needs.to_vec(),
            ..ShellItem::new(id, script)
        };
        for (items, says) in [
            (vec![item(1, &[], "a"), item(1, &[], "b")], "two items have the number 1"),
            (vec![item(1, &[2], "a"), item(2, &[], "b")], "item 1 needs 2, which does not come before it"),
            (vec![item(1, &[1], "a")], "item 1 needs 1"),
            (vec![item(7, &[], "a\0b")], "script of item 7 holds a NUL"),
        ] {
            let error = Batch::of(items).encode().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let stop = Batch { stop_file: Some("relative".to_owned()), ..Batch::default() };
        assert!(stop.encode().unwrap_err().to_string().contains("not an absolute path"));
    }
}
