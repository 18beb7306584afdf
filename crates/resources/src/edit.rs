//! Edits of a part of a text file: the frame that `line`, `block` and `sysctl` share.

use crate::above::need_parent;
use crate::attrs::Attrs;
use crate::body::{file_state, keep_setting};
use crate::look::{Asks, may_be_made, path, path_id};
use converge_objects::PathState;
use converge_resource::{Content, Stop, View, WantedStates};

/// An edit of one file.
pub struct Edit<'a> {
    pub path: &'a str,
    /// Makes the file when it is not there.
    pub create: bool,
    /// An absent file is as wanted (the edit only takes away).
    pub removes: bool,
    pub attrs: Attrs<'a>,
    /// JSON pointer of the parameter that is at fault when the edit would change its own result.
    pub culprit: &'a str,
}

impl Edit<'_> {
    /// The file with the edit made. `change` maps the whole text; what it makes of its own result must be the same.
    pub fn plan(
        &self,
        view: &dyn View,
        change: &dyn Fn(&str) -> Result<String, Stop>,
    ) -> Result<WantedStates, Stop> {
        let target = self.path;
        let (text, present) = match path(view, target)? {
            PathState::File { digest, mode, owner, group, .. } => {
                let content = view.content(&path_id(target).key, &digest)?;
                let Some(text) = content.text().map(str::to_owned) else {
                    return Err(Stop::Failed(format!(
                        "{target} is not UTF-8 text, so its lines cannot be edited"
                    )));
                };
                (text, Some((mode, owner, group)))
            }
            PathState::Absent => {
                // An edit would be of what comes by then.
                let made = || if self.removes { None } else { may_be_made(view) };
                if let Some(wait) = view.may_appear(&path_id(target)).or_else(made) {
                    return Err(Stop::Deferred(wait));
                }
                if self.removes {
                    return Ok(WantedStates::one(path_id(target), PathState::Absent));
                }
                if !self.create {
                    return Err(Stop::invalid_help(
                        "/path",
                        format!("{target} does not exist"),
                        "correct the path, or add `create: true`",
                    ));
                }
                (String::new(), None)
            }
            PathState::Link { target: to, .. } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{target} is a symbolic link to {to}"),
                    "name the file that the link leads to",
                ));
            }
            PathState::Dir { .. } => return Err(Stop::invalid("/path", format!("{target} is a directory"))),
            PathState::Other { what } => return Err(Stop::invalid("/path", format!("{target} is a {what}"))),
        };
        let mut asks = Asks::default();
        if present.is_none() {
            asks.take(need_parent(view, "/path", target))?;
        }
        let as_present = present.as_ref().map(|(m, o, g)| (*m, o.as_str(), g.as_str()));
        let attrs = self.attrs.settle(view, as_present, 0o644, &mut asks)?;
        asks.finish()?;
        let new = change(&text)?;
        if change(&new)? != new {
            return Err(Stop::invalid_help(
                self.culprit,
                format!(
                    "the edit of {target} would change its own result, so every run would change the file again"
                ),
                "let the regular expression match the new line too, and no line that the edit leaves as it is",
            ));
        }
        let content = Content::new(new.into_bytes());
        // `settle` answers whenever nothing is asked.
        let attrs = attrs.ok_or_else(|| Stop::Failed(format!("{target}: its owner is not known")))?;
        let given = present.as_ref().is_some_and(|present| *present != attrs);
        let mut wanted = WantedStates::one(path_id(target), file_state(&content, attrs)).with(content);
        wanted.settings = keep_setting(given);
        Ok(wanted)
    }
}
