//! `directory`

use crate::above::{may_set, need_parent};
use crate::attrs::{Attrs, Mode};
use crate::look::{Asks, ancestors, check_path, path, path_id};
use converge_objects::PathState;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A directory.
///
/// Mode, owner and group are changed only where they are given; a new directory is root's with mode 0755. What is in
/// the directory is left alone. A file or a symbolic link in its place is replaced only with `force`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// The absolute path.
    path: String,
    /// Make the directories above it too, with mode 0755, where they are missing: root's, or below a user's directory that user's.
    #[serde(default)]
    parents: bool,
    /// With `parents`: those that are missing get the owner, the group and the mode of this one.
    #[serde(default)]
    parents_alike: bool,
    /// Replace a regular file or a symbolic link that is in its place. A rollback restores it. A device, a socket or a pipe goes only with
    /// `--allow-destroy path:PATH`.
    #[serde(default)]
    force: bool,
    /// Octal digits in quotes, as `"0750"`, or all of it in symbols, as `"u=rwx,g=rx,o="`. A new directory has 0755 without it.
    mode: Option<Mode>,
    /// The owner's name.
    owner: Option<String>,
    /// The group's name.
    group: Option<String>,
}

impl Directory {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }
}

impl Resource for Directory {
    const KIND: &'static str = "directory";
    const EXAMPLE: &'static str = "\
- name: configuration of the agent
  directory: {path: /etc/agent/conf.d, parents: true, mode: \"0750\", group: adm}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        if self.parents_alike && !self.parents {
            errors.push(ParamError::new(
                "/parents_alike",
                "`parents_alike` goes with `parents: true`",
                "add it, or leave this out",
            ));
        }
        errors
    }

    /// With `parents`, every directory above it is claimed as well: all of them are looked at in the first round.
    fn claims(&self) -> Vec<Claim> {
        let above = if self.parents { ancestors(&self.path) } else { Vec::new() };
        let mut claims: Vec<Claim> =
            above.iter().map(|p| Claim::shared(path_id(p), "presence", "directory")).collect();
        let id = path_id(&self.path);
        claims.push(Claim::shared(id.clone(), "presence", "directory"));
        claims.extend(self.attrs().claims(&id));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut asks = Asks::default();
        let mut targets = Vec::new();
        let present = match path(view, &self.path)? {
            PathState::Dir { mode, owner, group } => Some((mode, owner, group)),
            PathState::Absent => None,
            PathState::Link { .. } | PathState::File { .. } | PathState::Other { .. } if self.force => None,
            PathState::Link { target, .. } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a symbolic link to {target}", self.path),
                    "name the directory that the link leads to, or add `force: true` to replace the link",
                ));
            }
            PathState::File { .. } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a regular file", self.path),
                    "correct the path, or add `force: true` to replace the file",
                ));
            }
            PathState::Other { what } => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a {what}", self.path),
                    "correct the path, or add `force: true` to replace it",
                ));
            }
        };
        let as_present = present.as_ref().map(|(m, o, g)| (*m, o.as_str(), g.as_str()));
        let attrs = self.attrs().settle(view, as_present, 0o755, &mut asks)?;
        if self.parents {
            let roots = || ("root".to_owned(), "root".to_owned());
            // Below a user's directory nothing is made in another owner's.
            let mut rights = roots();
            for above in ancestors(&self.path) {
                match asks.take(path(view, &above))? {
                    Some(PathState::Absent) => {
                        let (owner, group) = rights.clone();
                        let usual = (0o755, owner, group);
                        let (mode, owner, group) =
                            attrs.clone().filter(|_| self.parents_alike).unwrap_or(usual);
                        targets.push((path_id(&above), PathState::Dir { mode, owner, group }.into()));
                    }
                    Some(PathState::Dir { mode, owner, group }) => {
                        rights = if owner == "root" { roots() } else { (owner.clone(), group.clone()) };
                        targets.push((path_id(&above), PathState::Dir { mode, owner, group }.into()));
                    }
                    // A path below a link is read through the link.
                    Some(PathState::Link { .. }) | None => rights = roots(),
                    Some(PathState::File { .. } | PathState::Other { .. }) => {
                        return Err(Stop::invalid("/path", format!("{above} is not a directory")));
                    }
                }
            }
        } else if present.is_none() {
            asks.take(need_parent(view, "/path", &self.path))?;
        }
        if let (Some((m, o, g)), Some(wanted)) = (&present, &attrs)
            && (m, o, g) != (&wanted.0, &wanted.1, &wanted.2)
        {
            asks.take(may_set(view, "/path", &self.path, o))?;
        }
        asks.finish()?;
        if let Some((mode, owner, group)) = attrs {
            targets.push((path_id(&self.path), PathState::Dir { mode, owner, group }.into()));
        }
        Ok(WantedStates { targets, ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::look::account_probe;
    use converge_resource::{ObjectId, Probe};
    use serde_json::json;

    fn line(view: &FakeView, path: &str) -> String {
        view.line(&ObjectId::new("path", path))
    }

    #[test]
    fn a_new_directory_has_the_usual_attributes() {
        let after = settle(&read::<Directory>(json!({"path": "/etc/x/"})), FakeView::new());
        assert_eq!(line(&after, "/etc/x"), "dir 755 root root");
    }

    #[test]
    fn attributes_that_are_not_declared_are_preserved() {
        let kind = read::<Directory>(json!({"path": "/etc/x", "mode": "02750"}));
        let dir = PathState::Dir { mode: 0o700, owner: "www-data".into(), group: "adm".into() };
        let after = settle(&kind, FakeView::new().has(path_id("/etc/x"), dir));
        assert_eq!(line(&after, "/etc/x"), "dir 2750 www-data adm");
    }

    #[test]
    fn parents_are_targets_of_their_own() {
        let kind = read::<Directory>(json!({"path": "/srv/a/b", "parents": true, "mode": "0700"}));
        let wanted = kind.plan(&FakeView::new()).unwrap();
        let lines: Vec<String> = wanted.targets.iter().map(|(id, s)| format!("{id} {s}")).collect();
        let expected = [
            "path:/srv dir 755 root root",
            "path:/srv/a dir 755 root root",
            "path:/srv/a/b dir 700 root root",
        ];
        assert_eq!(lines, expected);
        settle(&kind, FakeView::new());
        let file = FakeView::new().file("/srv", 0o644, "");
        assert!(matches!(kind.plan(&file), Err(Stop::Invalid { .. })));
    }

    #[test]
    fn parents_may_be_like_it() {
        let params = json!({"path": "/srv/a/b", "parents": true, "parents_alike": true, "mode": "0750", "owner": "alice"});
        let kind = read::<Directory>(params);
        let after = settle(&kind, FakeView::new().dir("/srv").user("alice", 1000));
        assert_eq!(line(&after, "/srv"), "dir 755 root root");
        for path in ["/srv/a", "/srv/a/b"] {
            assert_eq!(line(&after, path), "dir 750 alice root");
        }
    }

    #[test]
    fn below_a_users_directory_parents_are_the_users() {
        let kind =
            read::<Directory>(json!({"path": "/home/alice/.config/app", "parents": true, "owner": "alice"}));
        let home = PathState::Dir { mode: 0o700, owner: "alice".into(), group: "staff".into() };
        let view = FakeView::new().dir("/home").has(path_id("/home/alice"), home).user("alice", 1000);
        let after = settle(&kind, view);
        assert_eq!(line(&after, "/home/alice/.config"), "dir 755 alice staff");
    }

    #[test]
    fn what_belongs_to_another_in_a_users_directory_stays_as_it_is() {
        let dir = |owner: &str| PathState::Dir { mode: 0o755, owner: owner.into(), group: owner.into() };
        let view = |owner: &str| {
            let view = FakeView::new().dir("/home").has(path_id("/home/alice"), dir("alice"));
            view.user("alice", 1000).has(path_id("/home/alice/app"), dir(owner))
        };
        for change in [json!({"owner": "alice"}), json!({"mode": "0700"})] {
            let mut params = json!({"path": "/home/alice/app"});
            params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let kind = read::<Directory>(params);
            let Err(Stop::Invalid { message, help, .. }) = kind.plan(&view("root")) else {
                panic!("{change}")
            };
            assert!(message.starts_with("/home/alice/app belongs to root and lies in a directory of alice"));
            assert!(help.unwrap().contains("chown -h alice /home/alice/app"));
            settle(&kind, view("alice"));
        }
        // Nothing to change is nothing to refuse.
        settle(&read::<Directory>(json!({"path": "/home/alice/app"})), view("root"));
    }

    #[test]
    fn a_missing_parent_is_named() {
        let kind = read::<Directory>(json!({"path": "/srv/a/b"}));
        let stop = kind.plan(&FakeView::new()).unwrap_err();
        let Stop::Invalid { message, help, .. } = stop else { panic!("{stop:?}") };
        assert!(message.contains("/srv/a does not exist"), "{message}");
        assert!(help.unwrap().contains("parents: true"));
        assert!(matches!(kind.plan(&FakeView::new().may(path_id("/srv/a"))), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_file_or_link_is_replaced_only_with_force() {
        let kind = read::<Directory>(json!({"path": "/etc/x"}));
        let forced = read::<Directory>(json!({"path": "/etc/x", "mode": "0750", "force": true}));
        for view in [FakeView::new().file("/etc/x", 0o644, ""), FakeView::new().link("/etc/x", "/srv")] {
            let Err(Stop::Invalid { help, .. }) = kind.plan(&view) else { panic!() };
            assert!(help.unwrap().contains("`force: true`"));
            assert_eq!(line(&settle(&forced, view), "/etc/x"), "dir 750 root root");
        }
        let device = FakeView::new().has(path_id("/etc/x"), PathState::Other { what: "fifo".into() });
        assert!(matches!(kind.plan(&device), Err(Stop::Invalid { .. })));
        assert_eq!(line(&settle(&forced, device), "/etc/x"), "dir 750 root root");
    }

    #[test]
    fn owner_and_parent_are_asked_in_one_round() {
        let kind = read::<Directory>(json!({"path": "/srv/x", "owner": "alice", "group": "12"}));
        let view = FakeView::strict().has(path_id("/srv/x"), PathState::Absent);
        let Err(Stop::Ask(probes)) = kind.plan(&view) else { panic!() };
        let numeric = account_probe(crate::look::Account::Group, "12");
        let expected =
            [Probe::Object(ObjectId::new("user", "alice")), numeric.clone(), Probe::Object(path_id("/srv"))];
        assert_eq!(probes, expected);
        let after = settle(&kind, FakeView::new().dir("/srv").user("alice", 1000).answer(&numeric, 2, ""));
        assert_eq!(line(&after, "/srv/x"), "dir 755 alice 12");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Directory>(json!({"path": "x", "owner": "a b"})), ["/path", "/owner"]);
        assert_eq!(wrong::<Directory>(json!({"path": "/x", "mode": 755})), ["parse /mode"]);
        assert_eq!(wrong::<Directory>(json!({"path": "/x", "mod": "0755"})), ["parse /mod"]);
    }
}
