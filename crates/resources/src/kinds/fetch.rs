//! `fetch`

use crate::look::{check_path, may_be_made, path, path_id, state};
use converge_objects::{FetchedState, PathState};
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A file of the host, brought to the machine that runs converge: a kubeconfig, a certificate, a report.
///
/// It lies below the folder `fetched` of the project, with mode 0600, and is compared like every other file: the plan shows the difference, and
/// whoever edits it there finds it corrected. Put `fetched/` into `.gitignore`. Nothing is written through a link there, or over a directory, and
/// two hosts of the inventory that fetch to one path, or one below the other, are refused, whichever of them the run has: name the host in `to`. What the file holds is data of the host: no other file of the project
/// is ever written.
///
/// A rollback restores the previous file, or removes it where there was none. The previous contents are kept in `~/.local/state/converge/fetched` of this
/// machine for a month, so a rollback from another machine leaves the file alone and says so. `undo.sh` on the host passes over it.
///
/// Files of 1 MiB at most. Where an earlier resource of the run makes the file, it is fetched when that has run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The absolute path of the file on the host. No link.
    path: String,
    /// The path below `fetched` of the project: `clusters/prod.kubeconfig`, `{{ inventory_hostname }}/report.json`.
    to: String,
}

impl Fetch {
    fn id(&self) -> ObjectId {
        ObjectId::new("fetched", self.to.as_str())
    }
}

impl Resource for Fetch {
    const KIND: &'static str = "fetch";
    const EXAMPLE: &'static str = "\
- name: the administrator's kubeconfig
  fetch: {path: /etc/kubernetes/admin.conf, to: kubeconfigs/prod.yaml}
  sensitive: true
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        let step =
            |step: &str| step.is_empty() || step.starts_with('.') || step.chars().any(char::is_control);
        if self.to.split('/').any(step) {
            errors.push(ParamError::new(
                "/to",
                format!("`{}` is not a path below the folder `fetched`", self.to),
                "write a relative path whose names begin with no point: `clusters/prod.kubeconfig`",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(self.id(), "content")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let source = path_id(&self.path);
        let brought = view.changed(&source).is_some();
        let wait = || view.may_appear(&source).or_else(|| may_be_made(view)).filter(|_| !brought);
        let later = |reason: String| {
            wait().map(|mut wait| {
                wait.reason = format!("{reason}; {}", wait.reason);
                Stop::Deferred(wait)
            })
        };
        let digest = match path(view, &self.path)? {
            PathState::File { digest, .. } => digest,
            PathState::Absent => {
                let reason = format!("there is no file {}", self.path);
                return Err(later(reason.clone()).unwrap_or_else(|| {
                    Stop::invalid_help(
                        "/path",
                        reason,
                        "correct the path, or add a resource before this one that makes it",
                    )
                }));
            }
            PathState::Link { target, .. } => {
                let message = format!("{} is a link", self.path);
                return Err(Stop::invalid_help(
                    "/path",
                    message,
                    format!("write the path of the file: it leads to {target}"),
                ));
            }
            PathState::Dir { .. } => {
                let help = "name one file: a `fetch` for each, or an archive that a `command` makes of them";
                return Err(Stop::invalid_help("/path", format!("{} is a directory", self.path), help));
            }
            PathState::Other { what } => {
                return Err(Stop::invalid("/path", format!("{} is a {what}", self.path)));
            }
        };
        // Foreign code that runs first may write it anew.
        if let Some(stop) = later("the file may become another".to_owned()) {
            return Err(stop);
        }
        let content = view.content(&self.path, &digest)?;
        if let FetchedState::Other { what } = state(view, &self.id())? {
            return Err(Stop::invalid_help(
                "/to",
                format!("fetched/{} is a {what} on this machine", self.to),
                "remove it, or write another path",
            ));
        }
        Ok(WantedStates::one(self.id(), FetchedState::private(digest)).with(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::{Content, State};
    use serde_json::json;

    fn kind() -> Fetch {
        read(json!({"path": "/etc/kubernetes/admin.conf", "to": "clusters/a"}))
    }

    fn host() -> FakeView {
        FakeView::new().file("/etc/kubernetes/admin.conf", 0o600, "kind: Config\n")
    }

    #[test]
    fn the_file_comes_as_it_is_and_for_its_owner_alone() {
        let digest = Content::new(b"kind: Config\n".to_vec()).digest().clone();
        for there in [FetchedState::Absent, FetchedState::File { mode: 0o644, digest: digest.clone() }] {
            let after = settle(&kind(), host().has(kind().id(), there));
            assert_eq!(after.line(&kind().id()), format!("file 600 {digest}"));
        }
    }

    #[test]
    fn what_is_no_file_is_named() {
        let pointer = |view: FakeView| match kind().plan(&view) {
            Err(Stop::Invalid { pointer, .. }) => pointer,
            other => panic!("{other:?}"),
        };
        let strange = State::from_words(["other", "link"]);
        assert_eq!(pointer(host().has(kind().id(), strange)), "/to");
        assert_eq!(pointer(FakeView::new()), "/path");
        assert_eq!(pointer(FakeView::new().dir("/etc/kubernetes/admin.conf")), "/path");
        assert_eq!(pointer(FakeView::new().link("/etc/kubernetes/admin.conf", "/x")), "/path");
    }

    #[test]
    fn a_file_that_foreign_code_may_make_is_waited_for() {
        let command = ObjectId::new("command", "x");
        for view in [FakeView::new().acts(command.clone(), true), host().acts(command.clone(), true)] {
            assert!(matches!(kind().plan(&view), Err(Stop::Deferred(_))));
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        for to in ["/etc/x", "../x", "a/../b", "a//b", "", ".git/config", "a/.x", "a\nb"] {
            assert_eq!(wrong::<Fetch>(json!({"path": "/x", "to": to})), ["/to"], "{to:?}");
        }
        assert_eq!(wrong::<Fetch>(json!({"path": "x", "to": "a"})), ["/path"]);
    }
}
