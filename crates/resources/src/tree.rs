//! A directory that goes, with all that is in it.

use crate::look::{Asks, path, path_id};
use converge_objects::PathState;
use converge_resource::{ObjectId, Probe, State, Stop, View, quote};

/// More than this is no matter for a plan that people read.
pub const LIMIT: usize = 1000;

/// The read-only question what lies below a directory: paths, the deepest first, each ended by a NUL made a newline.
/// Names with a newline, and other file systems, end it with status 3 and 4.
pub fn below(path: &str) -> Probe {
    let path = quote(path);
    Probe::run(format!("cv_path_below {path} {}", LIMIT + 2))
}

/// The changes that empty the directory `top`: removals of everything in it, the deepest first.
///
/// # Errors
/// When there is too much, and without `recursive` when there is anything.
pub fn emptied(view: &dyn View, top: &str, recursive: bool) -> Result<Vec<(ObjectId, State)>, Stop> {
    let id = path_id(top);
    let answer = view.run(&below(&id.key))?;
    match answer.status {
        0 => {}
        3 => {
            return Err(Stop::Failed(format!("{top} holds a name with a line break: remove it by hand")));
        }
        4 => {
            return Err(Stop::Failed(format!(
                "another file system is mounted below {top}: unmount it first"
            )));
        }
        _ => return Err(Stop::Failed(format!("cannot list {top}: {}", answer.stderr.trim()))),
    }
    let inner: Vec<&str> = answer.stdout.lines().filter(|l| *l != id.key).collect();
    let mut asks = Asks::default();
    let mut targets = Vec::new();
    let mut left = 0;
    for entry in inner.iter().take(LIMIT) {
        // An earlier item may have removed it: the list shows the host as it is now.
        match asks.take(path(view, entry))? {
            None | Some(PathState::Absent) => {}
            Some(_) => {
                left += 1;
                targets.push((path_id(entry), PathState::Absent.into()));
            }
        }
    }
    if recursive && inner.len() > LIMIT {
        return Err(Stop::invalid_help(
            "/path",
            format!("{top} holds more than {LIMIT} files and directories"),
            "name a smaller part, or use a `command` resource, which cannot be rolled back",
        ));
    }
    asks.finish()?;
    if left > 0 && !recursive {
        let what = if left == 1 { "one thing".to_owned() } else { format!("{left} files and directories") };
        return Err(Stop::invalid_help(
            "/path",
            format!("{top} is a directory with {what} in it"),
            "add `recursive: true` to remove it with all that is in it",
        ));
    }
    Ok(targets)
}
