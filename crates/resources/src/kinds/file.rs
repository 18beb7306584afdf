//! `file`

use crate::above::{may_give, need_parent};
use crate::attrs::{Attrs, Mode};
use crate::body::{Body, check_validate, file_state, keep_setting, validate_setting};
use crate::look::{Asks, check_path, may_be_made, path, path_id};
use crate::tree::emptied;
use converge_objects::PathState;
use converge_resource::{Claim, ParamError, Resource, SourceFile, Stop, Template, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A regular file: its whole content, or only its attributes.
///
/// With `content`, `template` or `source` the file has exactly these bytes; a symbolic link in its place is replaced, a directory only with
/// `force`.
/// Without any of them the file must exist, and only the given mode, owner and group are changed. Attributes that are not
/// given are kept; a new file is root's with mode 0644.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The absolute path.
    path: String,
    /// The content, as text.
    content: Option<String>,
    /// A template under the role's `templates/`, rendered with the variables of the host.
    template: Option<Template>,
    /// A file under the role's `files/`, copied byte by byte. It has at most 64 MiB; a larger one is fetched by the host
    /// itself, with the kind `download`.
    source: Option<SourceFile>,
    /// Octal digits in quotes, as `"0644"`, or all of it in symbols, as `"u=rw,g=r,o="`. A new file has 0644 without it.
    mode: Option<Mode>,
    /// The owner's name.
    owner: Option<String>,
    /// The group's name.
    group: Option<String>,
    /// A command that checks the new content before it replaces the old: `%s` is the candidate file. It must end
    /// with status 0. It runs without a shell's variables of yours, as `visudo -cf %s`.
    validate: Option<String>,
    /// Replace a directory that is in its place, with all that is in it (up to 1000 things on one file system). A rollback restores it.
    #[serde(default)]
    force: bool,
}

impl File {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }

    fn body(&self) -> Body<'_> {
        Body {
            content: self.content.as_ref(),
            template: self.template.as_ref(),
            source: self.source.as_ref(),
        }
    }
}

impl Resource for File {
    const KIND: &'static str = "file";
    const EXAMPLE: &'static str = "\
- name: who may become root
  file:
    path: /etc/sudoers.d/ops
    content: |
      %ops ALL=(ALL) ALL
    mode: \"0440\"
    validate: visudo -cf %s
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        self.body().validate(&mut errors);
        check_validate(self.validate.as_ref(), &mut errors);
        if self.body().get().is_none() {
            if self.validate.is_some() {
                let help = "give `content`, `template` or `source`, or leave `validate` out";
                errors.push(ParamError::new("/validate", "there is no content to check", help));
            } else if self.force {
                let help = "give `content`, `template` or `source`, or leave `force` out";
                errors.push(ParamError::new(
                    "/force",
                    "there is no content to put in the place of a directory",
                    help,
                ));
            } else if self.mode.is_none() && self.owner.is_none() && self.group.is_none() {
                let help = "give `content`, `template` or `source`, or `mode`, `owner` or `group`";
                errors.push(ParamError::new("", "nothing is said about the file", help));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path);
        let mut claims = vec![Claim::shared(id.clone(), "presence", "file")];
        if self.body().get().is_some() {
            claims.push(Claim::exclusive(id.clone(), "content"));
        }
        claims.extend(self.attrs().claims(&id));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let id = path_id(&self.path);
        let body = self.body().get();
        let mut inner = Vec::new();
        let present = match (path(view, &self.path)?, &body) {
            (PathState::File { digest, size, mode, owner, group }, _) => {
                Some((digest, size, mode, owner, group))
            }
            (PathState::Absent | PathState::Link { .. }, Some(_)) => None,
            (PathState::Absent, None) => {
                return Err(match view.may_appear(&id).or_else(|| may_be_made(view)) {
                    Some(wait) => Stop::Deferred(wait),
                    None => Stop::invalid_help(
                        "/path",
                        format!("{} does not exist", self.path),
                        "correct the path, or give its `content`, `template` or `source`",
                    ),
                });
            }
            (PathState::Link { target, .. }, None) => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a symbolic link to {target}", self.path),
                    "name the file that the link leads to",
                ));
            }
            (PathState::Dir { .. }, Some(_)) if self.force => {
                inner = emptied(view, &self.path, true)?;
                None
            }
            (PathState::Dir { .. }, _) => {
                return Err(Stop::invalid_help(
                    "/path",
                    format!("{} is a directory", self.path),
                    "use the kind `directory`, or add `force: true` to replace the directory with all that is in it",
                ));
            }
            (PathState::Other { what }, _) => {
                return Err(Stop::invalid("/path", format!("{} is a {what}", self.path)));
            }
        };
        let mut asks = Asks::default();
        if present.is_none() {
            asks.take(need_parent(view, "/path", &self.path))?;
        }
        let as_present = present.as_ref().map(|(_, _, m, o, g)| (*m, o.as_str(), g.as_str()));
        let attrs = self.attrs().settle(view, as_present, 0o644, &mut asks)?;
        asks.finish()?;
        let Some(attrs) = attrs else {
            return Err(Stop::Failed(format!("{}: its owner is not known", self.path)));
        };
        if let (None, Some((_, _, mode, owner, group))) = (&body, &present)
            && (attrs.0, &attrs.1, &attrs.2) != (*mode, owner, group)
        {
            may_give(view, "/path", &self.path, owner)?;
        }
        let retained = body.is_none();
        let mut wanted = match (body, present) {
            (Some(content), _) => WantedStates::one(id, file_state(&content, attrs)).with(content),
            (None, Some((digest, size, ..))) => {
                let (mode, owner, group) = attrs;
                WantedStates::one(id, PathState::File { digest, size, mode, owner, group })
            }
            // Sorted out above: without content the file is there.
            (None, None) => return Err(Stop::invalid("/path", format!("{} does not exist", self.path))),
        };
        wanted.targets.splice(0..0, inner);
        wanted.settings = validate_setting(self.validate.as_ref());
        wanted.settings.extend(keep_setting(retained));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::look::user_id;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn new_content_keeps_the_attributes() {
        let kind = read::<File>(json!({"path": "/etc/x", "content": "new\n"}));
        let after = settle(&kind, FakeView::new().file("/etc/x", 0o600, "old\n"));
        assert_eq!(after.text("/etc/x"), "new\n");
        assert!(after.line(&path_id("/etc/x")).starts_with("file 600 root root 4 "));
        let after = settle(&kind, FakeView::new());
        assert!(after.line(&path_id("/etc/x")).starts_with("file 644 root root 4 "));
    }

    #[test]
    fn templates_and_sources_are_content() {
        let rendered = json!({"path": "/etc/x", "template": Template::loaded("x.j2", "a\n")});
        assert_eq!(settle(&read::<File>(rendered), FakeView::new()).text("/etc/x"), "a\n");
        let copied = read::<File>(json!({"path": "/etc/x", "source": SourceFile::loaded("x", &[0, 255])}));
        let wanted = copied.plan(&FakeView::new()).unwrap();
        assert_eq!(wanted.contents[0].bytes(), [0, 255]);
    }

    #[test]
    fn a_directory_is_replaced_only_with_force() {
        let view = FakeView::new().dir("/etc/x").dir("/etc/x/d").file("/etc/x/d/f", 0o644, "a").answer(
            &crate::tree::below("/etc/x"),
            0,
            "/etc/x/d/f\n/etc/x/d\n/etc/x\n",
        );
        let kind = read::<File>(json!({"path": "/etc/x", "content": "new\n"}));
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { .. })));
        let forced = read::<File>(json!({"path": "/etc/x", "content": "new\n", "force": true}));
        let order: Vec<String> =
            forced.plan(&view).unwrap().targets.iter().map(|(id, _)| id.key.clone()).collect();
        assert_eq!(order, ["/etc/x/d/f", "/etc/x/d", "/etc/x"]);
        assert_eq!(settle(&forced, view).text("/etc/x"), "new\n");
        assert_eq!(wrong::<File>(json!({"path": "/x", "mode": "0644", "force": true})), ["/force"]);
    }

    #[test]
    fn attributes_alone_need_the_file() {
        let kind = read::<File>(json!({"path": "/etc/x", "mode": "0600"}));
        let after = settle(&kind, FakeView::new().file("/etc/x", 0o644, "kept"));
        assert_eq!(after.text("/etc/x"), "kept");
        assert!(after.line(&path_id("/etc/x")).starts_with("file 600 "));
        assert!(matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let later = FakeView::new().may(path_id("/etc/x"));
        assert!(matches!(kind.plan(&later), Err(Stop::Deferred(_))));
    }

    #[test]
    fn what_a_user_may_have_moved_there_gets_no_other_owner() {
        let home = |mode| PathState::Dir { mode, owner: "alice".into(), group: "alice".into() };
        let view =
            |mode| FakeView::new().has(path_id("/home/alice"), home(mode)).file("/home/alice/x", 0o644, "a");
        let kind = read::<File>(json!({"path": "/home/alice/x", "mode": "0600"}));
        let Err(Stop::Invalid { message, .. }) = kind.plan(&view(0o755)) else { panic!() };
        assert!(message.contains("belongs to root and lies in a directory of alice"), "{message}");
        settle(&kind, view(0o1777));
        let same = read::<File>(json!({"path": "/home/alice/x", "mode": "0644"}));
        settle(&same, view(0o755));
        let whole = read::<File>(json!({"path": "/home/alice/x", "mode": "0600", "content": "a"}));
        settle(&whole, view(0o755));
    }

    #[test]
    fn whole_content_is_predicted_where_a_package_may_bring_the_file() {
        let kind = read::<File>(json!({"path": "/etc/app/x", "content": "a", "owner": "app"}));
        let view = FakeView::new().may(path_id("/etc/app/x"));
        let after = settle(&kind, view.clone().dir("/etc/app").user("app", 7));
        assert!(after.line(&path_id("/etc/app/x")).starts_with("file 644 app root 1 "));
        // Whether its directory and its owner come decides whether it can be made at all.
        let folder = view.clone().may(path_id("/etc/app")).user("app", 7);
        assert!(matches!(kind.plan(&folder), Err(Stop::Deferred(_))));
        let owner = view.dir("/etc/app").may(user_id("app"));
        assert!(matches!(kind.plan(&owner), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_second_run_asks_nothing_more() {
        let kind =
            read::<File>(json!({"path": "/srv/deep/x", "content": "a", "owner": "root", "mode": "0644"}));
        let view = FakeView::strict().file("/srv/deep/x", 0o644, "a");
        assert!(kind.plan(&view).is_ok());
    }

    #[test]
    fn a_link_is_replaced_only_by_content() {
        let view = FakeView::new().link("/etc/x", "/run/x");
        settle(&read::<File>(json!({"path": "/etc/x", "content": "a"})), view.clone());
        let attributes = read::<File>(json!({"path": "/etc/x", "mode": "0600"}));
        assert!(matches!(attributes.plan(&view), Err(Stop::Invalid { .. })));
        let dir = read::<File>(json!({"path": "/etc", "content": "a"}));
        assert!(matches!(dir.plan(&view), Err(Stop::Invalid { .. })));
    }

    #[test]
    fn the_check_travels_with_the_item() {
        let kind = read::<File>(json!({"path": "/etc/x", "content": "a", "validate": "visudo -cf %s"}));
        let wanted = kind.plan(&FakeView::new()).unwrap();
        assert_eq!(wanted.settings, [("CV_VALIDATE".to_owned(), "visudo -cf %s".to_owned())]);
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<File>(json!({"path": "/x"})), [""]);
        assert_eq!(wrong::<File>(json!({"path": "/x", "content": "a", "validate": "true"})), ["/validate"]);
        let both = json!({"path": "/x", "content": "a", "source": SourceFile::loaded("a", b"")});
        assert_eq!(wrong::<File>(both), ["/source"]);
    }

    proptest! {
        #[test]
        fn there_and_back(
            old in proptest::option::of((proptest::collection::vec(any::<u8>(), 0..20), 0u32..0o10000)),
            new in "\\PC{0,20}",
            mode in proptest::option::of(0u32..0o10000),
        ) {
            let id = path_id("/etc/x");
            let before = match &old {
                Some((bytes, mode)) => FakeView::new().file("/etc/x", *mode, bytes),
                None => FakeView::new(),
            };
            let mut params = json!({"path": "/etc/x", "content": new});
            if let Some(mode) = mode {
                params["mode"] = json!(format!("{mode:04o}"));
            }
            let after = settle(&read::<File>(params), before.clone());
            prop_assert_eq!(after.text("/etc/x"), new);
            // Backward: what was there, given as a source, with the mode that it had.
            if let Some((bytes, mode)) = old {
                let back = json!({"path": "/etc/x", "source": SourceFile::loaded("x", &bytes), "mode": format!("{mode:04o}")});
                prop_assert_eq!(settle(&read::<File>(back), after).line(&id), before.line(&id));
            }
        }
    }
}
