//! `link`

use crate::above::{leads_to, need_parent};
use crate::look::{check_path, path, path_id};
use crate::tree::emptied;
use converge_objects::PathState;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A symbolic link.
///
/// The target need not exist. A link with another target is changed; a file or a directory is replaced only with `force`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The absolute path of the link.
    path: String,
    /// The target: an absolute path, or one that is relative to the link's directory.
    target: String,
    /// Replace a regular file that is in its place, or a directory with all that is in it (up to 1000 things on one file system). A rollback
    /// restores it. A device, a socket or a pipe goes only with `--allow-destroy path:PATH`.
    #[serde(default)]
    force: bool,
}

impl Resource for Link {
    const KIND: &'static str = "link";
    const EXAMPLE: &'static str = "\
- name: local time
  link: {path: /etc/localtime, target: /usr/share/zoneinfo/Europe/Berlin, force: true}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        if self.target.is_empty() || self.target.chars().any(char::is_control) {
            errors.push(ParamError::new(
                "/target",
                "the target is empty or has a control character",
                "write a path",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path);
        vec![Claim::shared(id.clone(), "presence", "link"), Claim::shared(id, "target", &self.target)]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut targets = Vec::new();
        let now = path(view, &self.path)?;
        let mut to = PathState::link(&self.target);
        match now {
            PathState::Absent => need_parent(view, "/path", &self.path)?,
            // It keeps its owner.
            now if leads_to(&now, &self.target) => to = now,
            PathState::Link { .. } => {}
            PathState::File { .. } | PathState::Other { .. } if self.force => {}
            PathState::File { .. } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a regular file", self.path),
                    "correct the path, or add `force: true` to replace the file",
                ));
            }
            PathState::Dir { .. } if self.force => targets = emptied(view, &self.path, true)?,
            PathState::Dir { .. } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a directory", self.path),
                    "correct the path, or add `force: true` to replace the directory with all that is in it",
                ));
            }
            PathState::Other { what } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a {what}", self.path),
                    "correct the path, or add `force: true` to replace it",
                ));
            }
        }
        targets.push((path_id(&self.path), to.into()));
        Ok(WantedStates { targets, ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    #[test]
    fn a_link_is_made_or_changed() {
        let kind = read::<Link>(json!({"path": "/etc/x", "target": "../run/a b"}));
        for view in [FakeView::new(), FakeView::new().link("/etc/x", "/old")] {
            assert_eq!(
                settle(&kind, view).line(&path_id("/etc/x")),
                r"link \0056\0056\0057\0162\0165\0156\0057\0141\0040\0142"
            );
        }
        let deep = read::<Link>(json!({"path": "/srv/x", "target": "/a"}));
        assert!(matches!(deep.plan(&FakeView::new()), Err(Stop::Invalid { .. })));
    }

    #[test]
    fn a_file_or_directory_is_replaced_only_with_force() {
        let view = FakeView::new().file("/etc/x", 0o644, "a");
        let kind = read::<Link>(json!({"path": "/etc/x", "target": "/a"}));
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { .. })));
        let forced = read::<Link>(json!({"path": "/etc/x", "target": "/a", "force": true}));
        assert_eq!(settle(&forced, view).line(&path_id("/etc/x")), "link /a");
        let fifo = FakeView::new().has(path_id("/etc/x"), PathState::Other { what: "fifo".into() });
        assert!(matches!(kind.plan(&fifo), Err(Stop::Invalid { .. })));
        assert_eq!(settle(&forced, fifo).line(&path_id("/etc/x")), "link /a");
        let full = FakeView::new().dir("/etc/x").file("/etc/x/f", 0o644, "a").answer(
            &crate::tree::below("/etc/x"),
            0,
            "/etc/x/f\n/etc/x\n",
        );
        assert!(matches!(kind.plan(&full), Err(Stop::Invalid { .. })));
        let after = settle(&forced, full);
        assert_eq!(after.line(&path_id("/etc/x")), "link /a");
        assert_eq!(after.line(&path_id("/etc/x/f")), "absent");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Link>(json!({"path": "x", "target": ""})), ["/path", "/target"]);
    }
}
