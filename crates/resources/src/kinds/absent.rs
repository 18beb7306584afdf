//! `absent`

use crate::look::{check_path, normal, path, path_id, path_id_below};
use crate::tree::emptied;
use converge_objects::PathState;
use converge_resource::{Claim, ObjectId, ParamError, Resource, State, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// Nothing at a path.
///
/// A symbolic link is removed itself, never what it leads to. A directory goes when it is empty; with `recursive` each
/// thing in it is part of the plan and of the snapshot, so that a rollback brings all of it back. A device, a socket or a pipe is in no snapshot: it
/// goes only with `--allow-destroy path:PATH`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The absolute path.
    path: String,
    /// Remove a directory with all that is in it, up to 1000 things on one file system.
    #[serde(default)]
    recursive: bool,
}

/// Directories without which a machine does not start.
const NEEDED: [&str; 20] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/lib",
    "/var/lib/converge",
];

impl Resource for Absent {
    const KIND: &'static str = "absent";
    const EXAMPLE: &'static str = "\
- name: no default site
  absent: {path: /etc/nginx/sites-enabled/default}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        if errors.is_empty() && NEEDED.contains(&normal(&self.path).as_str()) {
            let help = "name what is to go inside of it";
            errors.push(ParamError::new("/path", format!("{} is a part of every system", self.path), help));
        }
        errors
    }

    /// Only the host knows the contents of a directory: with `recursive` everything below it (a slash at its end) may be touched, also what
    /// an earlier resource of the run brings.
    fn claims(&self) -> Vec<Claim> {
        let mut claims = vec![Claim::shared(path_id(&self.path), "presence", "absent")];
        if self.recursive {
            claims.push(Claim::shared(path_id_below(&self.path), "presence", "absent"));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let id = path_id(&self.path);
        let mut targets: Vec<(ObjectId, State)> = Vec::new();
        match path(view, &self.path)? {
            PathState::Absent => {
                if let Some(wait) = view.may_appear(&id) {
                    return Err(Stop::Deferred(wait));
                }
            }
            // The engine asks for permission by its ID where nothing keeps it.
            PathState::File { .. } | PathState::Link { .. } | PathState::Other { .. } => {}
            PathState::Dir { .. } => targets = emptied(view, &self.path, self.recursive)?,
        }
        targets.push((id, PathState::Absent.into()));
        Ok(WantedStates { targets, ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::tree::{LIMIT, below};
    use serde_json::json;

    fn tree() -> FakeView {
        FakeView::new()
            .dir("/etc/x")
            .dir("/etc/x/d")
            .file("/etc/x/d/f", 0o644, "a")
            .link("/etc/x/l", "/srv")
            .answer(&below("/etc/x"), 0, "/etc/x/d/f\n/etc/x/d\n/etc/x/l\n/etc/x\n")
    }

    #[test]
    fn a_file_or_link_goes_itself() {
        let kind = read::<Absent>(json!({"path": "/etc/x"}));
        for view in [
            FakeView::new(),
            FakeView::new().file("/etc/x", 0o644, ""),
            FakeView::new().link("/etc/x", "/srv"),
            FakeView::new().has(path_id("/etc/x"), PathState::Other { what: "fifo".into() }),
        ] {
            assert_eq!(settle(&kind, view).line(&path_id("/etc/x")), "absent");
        }
        let later = FakeView::new().may(path_id("/etc/x"));
        assert!(matches!(kind.plan(&later), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_full_directory_needs_recursive() {
        let kind = read::<Absent>(json!({"path": "/etc/x/"}));
        let Err(Stop::Invalid { message, .. }) = kind.plan(&tree()) else { panic!() };
        assert!(message.contains("3 files and directories"), "{message}");
        let empty = FakeView::new().dir("/etc/x").answer(&below("/etc/x"), 0, "/etc/x\n");
        settle(&kind, empty);
        // Earlier items of the run have emptied it.
        let emptied = ["/etc/x/d/f", "/etc/x/d", "/etc/x/l"]
            .into_iter()
            .fold(tree(), |view, entry| view.has(path_id(entry), PathState::Absent));
        settle(&kind, emptied);
    }

    #[test]
    fn each_thing_below_is_a_target_deepest_first() {
        let kind = read::<Absent>(json!({"path": "/etc/x", "recursive": true}));
        let wanted = kind.plan(&tree()).unwrap();
        let order: Vec<&str> = wanted.targets.iter().map(|(id, _)| id.key.as_str()).collect();
        assert_eq!(order, ["/etc/x/d/f", "/etc/x/d", "/etc/x/l", "/etc/x"]);
        settle(&kind, tree());
    }

    #[test]
    fn what_is_too_much_or_mounted_is_refused_and_a_socket_is_a_target() {
        let kind = read::<Absent>(json!({"path": "/etc/x", "recursive": true}));
        let socket = tree().has(path_id("/etc/x/l"), PathState::Other { what: "socket".into() });
        assert_eq!(settle(&kind, socket).line(&path_id("/etc/x/l")), "absent");
        let many: String = (0..=LIMIT).map(|i| format!("/etc/x/{i}\n")).collect();
        let many = FakeView::new().dir("/etc/x").answer(&below("/etc/x"), 0, &many);
        assert!(matches!(kind.plan(&many), Err(Stop::Invalid { .. })));
        let mounted = FakeView::new().dir("/etc/x").answer(&below("/etc/x"), 4, "");
        assert!(matches!(kind.plan(&mounted), Err(Stop::Failed(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Absent>(json!({"path": "/var/lib/"})), ["/path"]);
        assert_eq!(wrong::<Absent>(json!({"path": "//"})), ["/path"]);
        assert_eq!(wrong::<Absent>(json!({"path": "x"})), ["/path"]);
    }
}
