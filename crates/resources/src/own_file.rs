//! Files of which a kind gives the whole text.

use crate::above::need_parent;
use crate::body::file_state;
use crate::look::{path, path_id};
use converge_objects::PathState;
use converge_resource::{Content, Stop, View, WantedStates};

/// A file of our own with exactly this text. Owner and mode of one that is there stay; a new one is root's, 0644.
pub fn own_file(view: &dyn View, pointer: &str, file: &str, text: &str) -> Result<WantedStates, Stop> {
    let attrs = match path(view, file)? {
        PathState::File { mode, owner, group, .. } => (mode, owner, group),
        PathState::Absent | PathState::Link { .. } => {
            need_parent(view, pointer, file)?;
            (0o644, "root".to_owned(), "root".to_owned())
        }
        PathState::Dir { .. } | PathState::Other { .. } => {
            return Err(Stop::invalid(pointer, format!("{file} is there and is not a file")));
        }
    };
    let content = Content::new(text.as_bytes());
    Ok(WantedStates::one(path_id(file), file_state(&content, attrs)).with(content))
}

/// The same file, not there.
pub fn own_file_gone(view: &dyn View, file: &str) -> Result<WantedStates, Stop> {
    match path(view, file)? {
        PathState::Dir { .. } => Err(Stop::invalid("", format!("{file} is a directory"))),
        _ => Ok(WantedStates::one(path_id(file), PathState::Absent)),
    }
}
