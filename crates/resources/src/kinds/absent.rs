//! `absent`

use crate::look::{Asks, check_path, normal, path, path_id};
use converge_objects::PathState;
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, State, Stop, View, Wanted, quote};
use schemars::JsonSchema;
use serde::Deserialize;

/// Nothing at a path.
///
/// A symbolic link is removed itself, never what it leads to. A directory goes when it is empty; with `recursive` each
/// thing in it is part of the plan and of the snapshot, so that a rollback brings all of it back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The absolute path.
    path: String,
    /// Remove a directory with all that is in it, up to 1000 things on one file system.
    #[serde(default)]
    recursive: bool,
}

/// More than this is no matter for a plan that people read.
const LIMIT: usize = 1000;

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

/// The read-only question what lies below a directory: paths, the deepest first, each ended by a NUL made a newline.
/// Names with a newline, and other file systems, end it with status 3 and 4.
fn below(path: &str) -> Probe {
    let path = quote(path);
    Probe::run(format!("cv_path_below {path} {}", LIMIT + 2))
}

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

    /// What lies below a directory is not claimed: only the host knows it. It is in the plan's targets all the same.
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::shared(path_id(&self.path), "presence", "absent")]
    }

    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop> {
        let id = path_id(&self.path);
        let mut targets: Vec<(ObjectId, State)> = Vec::new();
        match path(seen, &self.path)? {
            PathState::Absent => {
                if let Some(wait) = seen.may_appear(&id) {
                    return Err(Stop::Deferred(wait));
                }
            }
            PathState::File { .. } | PathState::Link { .. } => {}
            PathState::Dir { .. } => targets = self.contents(seen, &id)?,
            PathState::Other { what } => {
                return Err(Stop::invalid(
                    "/path",
                    format!("{} is a {what}, which no rollback could restore", self.path),
                ));
            }
        }
        targets.push((id, PathState::Absent.into()));
        Ok(Wanted { targets, ..Wanted::default() })
    }
}

impl Absent {
    /// What lies in the directory, the deepest first.
    fn contents(&self, seen: &dyn View, id: &ObjectId) -> Result<Vec<(ObjectId, State)>, Stop> {
        let top = &self.path;
        let answer = seen.run(&below(&id.key))?;
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
            match asks.take(path(seen, entry))? {
                None | Some(PathState::Absent) => {}
                Some(PathState::Other { what }) => {
                    return Err(Stop::Failed(format!(
                        "{entry} is a {what}, which no rollback could restore"
                    )));
                }
                Some(_) => {
                    left += 1;
                    targets.push((path_id(entry), PathState::Absent.into()));
                }
            }
        }
        if self.recursive && inner.len() > LIMIT {
            return Err(Stop::invalid_help(
                "/path",
                format!("{top} holds more than {LIMIT} files and directories"),
                "name a smaller part, or use a `command` item, which cannot be rolled back",
            ));
        }
        asks.finish()?;
        if left > 0 && !self.recursive {
            let what =
                if left == 1 { "one thing".to_owned() } else { format!("{left} files and directories") };
            return Err(Stop::invalid_help(
                "/path",
                format!("{top} is a directory with {what} in it"),
                "add `recursive: true` to remove it with all that is in it",
            ));
        }
        Ok(targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
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
    fn what_cannot_come_back_is_refused() {
        let kind = read::<Absent>(json!({"path": "/etc/x", "recursive": true}));
        let socket = tree().has(path_id("/etc/x/l"), PathState::Other { what: "socket".into() });
        assert!(matches!(kind.plan(&socket), Err(Stop::Failed(_))));
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
