//! `archive`

use crate::above::{leads_to, may_fill, need_parent};
use crate::attrs::check_account;
use crate::look::{
    Account, Asks, account_name, check_path, may_be_made, normal, path, path_id, path_id_below,
    program_may_come,
};
use crate::unpack::{ArchiveMember, Choice, Listing, UnpackError, member_script, parse, read, script};
use converge_objects::PathState;
use converge_resource::{
    Claim, Content, ObjectId, PackedContents, ParamError, Probe, Resource, SourceFile, State, Stop, Tree,
    View, Wait, WantedStates,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// An archive, unpacked into a directory that is there.
///
/// Every member is a file, directory or link of its own: the plan shows each, a second run compares each by content, mode and
/// owner, what a member replaces is saved, and a rollback gives it back. What else is in the directory stays. Members with absolute
/// names or `..`, below a link, and devices are refused; setuid and setgid bits do not come out.
///
/// `source` is an archive under the role's `files/`: tar, tar.gz or zip; the plan of it needs nothing from the host. `on_host` is one
/// on the host, as a `download` resource puts it there: tar in any packing that the host's GNU tar reads, or `NAME.zip` with `unzip`. Where a
/// resource of the same run brings it, the unpacking is deferred until then, since only the archive says what is in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// An archive under the role's `files/`.
    source: Option<SourceFile>,
    /// In place of it: a folder under the role's `files/`. Its contents are laid into the directory.
    folder: Option<Tree>,
    /// The absolute path of an archive on the host.
    on_host: Option<String>,
    /// The directory. It must be there.
    path: String,
    /// So many leading names of each member are left out: 1 turns `tool-1.2/bin/tool` to `bin/tool`.
    #[serde(default)]
    strip: u8,
    /// Only these members, as they are named in the archive; one that is a directory brings all that is in it.
    #[serde(default)]
    only: Vec<String>,
    /// Where this absolute path is there, the archive is taken for unpacked, and nothing of it is compared.
    creates: Option<String>,
    /// The owner of the unpacked files. Without it, new files are root's, and others keep theirs.
    owner: Option<String>,
    /// The group of the unpacked files.
    group: Option<String>,
}

impl Archive {
    fn choice(&self) -> Choice<'_> {
        // A folder is packed below its own name.
        Choice { strip: usize::from(self.strip) + usize::from(self.folder.is_some()), only: &self.only }
    }

    fn place(&self, member: &str) -> String {
        normal(&format!("{}/{member}", self.path))
    }

    fn own(&self) -> Option<Result<Listing, UnpackError>> {
        self.packed().map(|s| read(s.content.bytes(), &self.choice()))
    }

    /// The archive of the role itself.
    fn packed(&self) -> Option<&SourceFile> {
        self.source.as_ref().or(self.folder.as_ref().map(|Tree(source)| source))
    }

    /// The members of an archive on the host, each with its path and digest for the steps.
    fn listed(&self, view: &dyn View, archive: &str) -> Result<(Listing, Vec<(String, String)>), Stop> {
        let later = |wait: Option<Wait>, reason: &str| {
            wait.map(|mut wait| {
                wait.reason = format!("{reason}; {}", wait.reason);
                Stop::Deferred(wait)
            })
        };
        let now = path(view, archive)?;
        let PathState::File { digest, .. } = &now else {
            let wait = view.may_appear(&path_id(archive)).or_else(|| may_be_made(view));
            return Err(later(wait, "its members are not known").unwrap_or_else(|| {
                Stop::invalid_help(
                    "/on_host",
                    format!("there is no file {archive}"),
                    "correct the path, or add a `download` resource before this one",
                )
            }));
        };
        let probe = Probe::Run { script: script(archive), user: None, timeout: 600 };
        let answer = view.run(&probe)?;
        if answer.status == 69 {
            let tool = if archive.ends_with(".zip") { "unzip" } else { "tar" };
            let wait = program_may_come(view, &[tool]);
            return Err(later(wait, &format!("this host has no {tool} now")).unwrap_or_else(|| {
                Stop::invalid_help(
                    "/on_host",
                    format!("this host has no {tool} that can list it"),
                    format!("add a resource before this one: `package: {{name: {tool}}}`"),
                )
            }));
        }
        let moved = || {
            let brings = |object: &ObjectId, foreign: bool| foreign || object.kind == "path";
            later(view.pending_act(&brings), &format!("{archive} is not there yet")).unwrap_or_else(|| {
                Stop::Failed(format!("{archive} changed while it was looked at; run again"))
            })
        };
        // The host was asked about the archive that it has now; an earlier item may bring another.
        let sum = answer.stdout.split(' ').next().unwrap_or_default();
        if answer.stdout.trim() == "absent" || sum != digest.as_str() {
            return Err(moved());
        }
        if answer.status != 0 {
            let reply = answer.stderr.trim().lines().last().unwrap_or("it cannot be listed");
            return Err(Stop::invalid("/on_host", format!("{archive}: {reply}")));
        }
        let listed = parse(&answer.stdout, archive.ends_with(".zip"), &self.choice())
            .map_err(|e| Stop::invalid("/on_host", format!("{archive}: {e}")))?;
        let (sum, listing) = listed.ok_or_else(moved)?;
        let settings = vec![
            ("CV_ARCHIVE".to_owned(), archive.to_owned()),
            ("CV_ARCHIVE_SUM".to_owned(), sum.to_string()),
        ];
        Ok((listing, settings))
    }

    fn target(
        &self,
        view: &dyn View,
        place: &str,
        member: &ArchiveMember,
        owners: (&Option<String>, &Option<String>),
    ) -> Result<Option<(ObjectId, State)>, Stop> {
        let now = path(view, place)?;
        let owned = |owner: &str, group: &str| {
            let pick = |given: &Option<String>, now: &str| given.clone().unwrap_or_else(|| now.to_owned());
            (pick(owners.0, owner), pick(owners.1, group))
        };
        let to = match (member, now) {
            // A directory that is there stays as it is.
            (ArchiveMember::Dir { .. }, PathState::Dir { .. } | PathState::Link { .. }) => return Ok(None),
            (ArchiveMember::Dir { mode }, PathState::Absent) => {
                let (owner, group) = owned("root", "root");
                PathState::Dir { mode: *mode | 0o700, owner, group }
            }
            // A link that is as it should be keeps its owner.
            (ArchiveMember::Link { target }, now @ PathState::Link { .. }) if leads_to(&now, target) => now,
            (
                ArchiveMember::Link { target },
                PathState::Absent | PathState::Link { .. } | PathState::File { .. },
            ) => PathState::link(target),
            (ArchiveMember::File { mode, size, digest }, PathState::File { owner, group, .. }) => {
                let (owner, group) = owned(&owner, &group);
                PathState::File { digest: digest.clone(), size: Some(*size), mode: *mode, owner, group }
            }
            (ArchiveMember::File { mode, size, digest }, PathState::Absent | PathState::Link { .. }) => {
                let (owner, group) = owned("root", "root");
                PathState::File { digest: digest.clone(), size: Some(*size), mode: *mode, owner, group }
            }
            (_, PathState::Dir { .. }) => {
                return Err(Stop::invalid(
                    "/path",
                    format!("{place} is a directory, and no directory in the archive"),
                ));
            }
            (ArchiveMember::Dir { .. }, PathState::File { .. }) => {
                return Err(Stop::invalid(
                    "/path",
                    format!("{place} is a file, and a directory in the archive"),
                ));
            }
            (_, PathState::Other { what }) => {
                return Err(Stop::invalid("/path", format!("{place} is a {what}")));
            }
        };
        Ok(Some((path_id(place), to.into())))
    }
}

impl Resource for Archive {
    const KIND: &'static str = "archive";
    const EXAMPLE: &'static str = "\
- name: helm
  archive:
    on_host: /var/cache/helm-v3.16.2.tar.gz
    path: /usr/local/bin
    only: [linux-amd64/helm]
    strip: 1
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        for (pointer, place) in [("/on_host", &self.on_host), ("/creates", &self.creates)] {
            if let Some(place) = place {
                check_path(pointer, place, &mut errors);
            }
        }
        for (pointer, name) in [("/owner", &self.owner), ("/group", &self.group)] {
            if let Some(name) = name {
                check_account(pointer, name, &mut errors);
            }
        }
        let given = [self.source.is_some(), self.folder.is_some(), self.on_host.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let help = "give one of them: `source` or `folder` under the role's `files/`, or `on_host`";
            errors.push(ParamError::new("", "`source`, `folder` or `on_host` says what is unpacked", help));
        }
        if let (Some(Err(error)), Some(source)) =
            (self.own(), self.packed().filter(|s| !s.content.bytes().is_empty()))
        {
            errors.push(ParamError::new(
                "/source",
                format!("{}: {error}", source.path),
                "give a tar, tar.gz or zip",
            ));
        }
        errors
    }

    /// The members of an archive on the host are not known without that host: everything below the directory (a slash at its
    /// end) may be touched.
    fn claims(&self) -> Vec<Claim> {
        let mut claims = vec![Claim::shared(path_id(&self.path), "presence", "directory")];
        if self.on_host.is_some() {
            claims.push(Claim::shared(path_id_below(&self.path), "presence", "directory"));
        }
        let members = self.own().and_then(Result::ok).map(|l| l.members).unwrap_or_default();
        for (name, member) in &members {
            let id = path_id(&self.place(name));
            match member {
                ArchiveMember::Dir { .. } => claims.push(Claim::shared(id, "presence", "directory")),
                ArchiveMember::Link { target } => {
                    claims.push(Claim::shared(id.clone(), "presence", "link"));
                    claims.push(Claim::shared(id, "target", target));
                }
                ArchiveMember::File { mode, .. } => {
                    claims.push(Claim::shared(id.clone(), "presence", "file"));
                    claims.push(Claim::shared(id.clone(), "mode", format!("{mode:o}")));
                    claims.push(Claim::exclusive(id, "content"));
                }
            }
        }
        if let Some(creates) = &self.creates {
            claims.push(Claim::shared(path_id(creates), "may-create", ""));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if let Some(creates) = &self.creates
            && path(view, creates)? != PathState::Absent
        {
            return Ok(WantedStates::default());
        }
        need_parent(view, "/path", &self.place("x"))?;
        let (listing, settings) = match (self.own(), &self.on_host) {
            (Some(listing), _) => (listing.map_err(|e| Stop::invalid("/source", e))?, Vec::new()),
            (None, Some(archive)) => self.listed(view, archive)?,
            (None, None) => return Err(Stop::invalid("", "`source`, `folder` or `on_host` is missing")),
        };
        let mut asks = Asks::default();
        let mut name = |account, pointer, wanted: &Option<String>| match wanted {
            Some(wanted) => asks.take(account_name(view, account, pointer, wanted)),
            None => Ok(None),
        };
        let owner = name(Account::User, "/owner", &self.owner)?;
        let group = name(Account::Group, "/group", &self.group)?;
        let mut targets = Vec::new();
        let mut contents: Vec<Content> = Vec::new();
        for (member, what) in &listing.members {
            let target = asks.take(self.target(view, &self.place(member), what, (&owner, &group)))?;
            targets.extend(target.flatten());
            if let ArchiveMember::File { digest, .. } = what {
                contents.extend(listing.contents.get(digest).cloned());
            }
        }
        asks.take(may_fill(view, "/path", &targets))?;
        asks.finish()?;
        let packed = self
            .on_host
            .as_deref()
            .map(|archive| PackedContents { script: member_script(archive), names: listing.names });
        Ok(WantedStates { targets, contents, packed, settings, ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::unpack::tests::tgz;
    use converge_resource::Digest;
    use serde_json::json;

    fn packed() -> serde_json::Value {
        SourceFile::loaded(
            "x.tar.gz",
            &tgz(&[("top/bin/tool", 0o755, b"#!"), ("top/etc/conf", 0o640, b"a\n")]),
        )
    }

    #[test]
    fn each_member_is_an_object() {
        let kind = read::<Archive>(json!({"source": packed(), "path": "/opt/x", "strip": 1}));
        let view =
            FakeView::new().dir("/opt").dir("/opt/x").dir("/opt/x/etc").file("/opt/x/etc/conf", 0o644, "old");
        let after = settle(&kind, view);
        assert_eq!(after.line(&path_id("/opt/x/bin")), "dir 755 root root");
        assert_eq!(after.text("/opt/x/bin/tool"), "#!");
        assert_eq!(after.text("/opt/x/etc/conf"), "a\n");
        assert!(after.line(&path_id("/opt/x/etc/conf")).starts_with("file 640 root root 2 "));
        assert!(kind.claims().iter().any(|c| c.object.key == "/opt/x/bin/tool" && c.facet == "content"));
    }

    #[test]
    fn the_directory_must_be_there() {
        let kind = read::<Archive>(json!({"source": packed(), "path": "/opt/x"}));
        assert!(
            matches!(kind.plan(&FakeView::new().dir("/opt")), Err(Stop::Invalid { pointer, .. }) if pointer == "/path")
        );
    }

    /// As a directory of root's and a file in it, by two resources, are refused.
    #[test]
    fn a_directory_in_a_users_directory_is_filled_only_as_the_users() {
        let home = || PathState::Dir { mode: 0o755, owner: "alice".into(), group: "alice".into() };
        let view = || FakeView::new().dir("/home").has(path_id("/home/alice"), home()).user("alice", 1000);
        let archive = |more: serde_json::Value| {
            let mut all = json!({"source": packed(), "path": "/home/alice"});
            all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read::<Archive>(all)
        };
        let stop = archive(json!({})).plan(&view()).unwrap_err();
        let Stop::Invalid { pointer, message, help, .. } = stop else { panic!("{stop:?}") };
        assert_eq!(pointer, "/path");
        assert!(message.starts_with("/home/alice/top will belong to root and lies in a directory of alice"));
        assert!(help.unwrap().starts_with("say `owner: alice`"));
        let after = settle(&archive(json!({"owner": "alice"})), view());
        assert_eq!(after.line(&path_id("/home/alice/top/bin")), "dir 755 alice root");
        // A directory that is there is the host's to judge, and files beside each other need no way.
        let there =
            view().has(path_id("/home/alice/top"), home()).has(path_id("/home/alice/top/bin"), home());
        let there = there.has(path_id("/home/alice/top/etc"), home());
        settle(&archive(json!({})), there);
    }

    #[test]
    fn what_it_creates_says_that_it_is_done() {
        let kind = read::<Archive>(json!({"source": packed(), "path": "/opt/x", "creates": "/opt/x/top"}));
        assert_eq!(kind.plan(&FakeView::new().dir("/opt/x/top")), Ok(WantedStates::default()));
    }

    fn on_host() -> Archive {
        read(json!({"on_host": "/srv/a.tgz", "path": "/etc"}))
    }

    fn listing(view: FakeView, bytes: &[u8]) -> FakeView {
        let probe = Probe::Run { script: script("/srv/a.tgz"), user: None, timeout: 600 };
        let text = format!(
            "{}  -\n-rw-r----- 0/0    1 2024-01-01 00:00 \"y\"\n==\n{}  -\n",
            Digest::of(bytes),
            Digest::of(b"y")
        );
        view.answer(&probe, 0, &text)
    }

    #[test]
    fn an_archive_on_the_host_is_listed_there() {
        let view = listing(FakeView::new().file("/srv/a.tgz", 0o644, "packed"), b"packed");
        let after = settle(&on_host(), view.clone());
        let line = format!("file 640 root root 1 {}", Digest::of(b"y"));
        assert_eq!(after.line(&path_id("/etc/y")), line);
        let WantedStates { settings, packed, .. } = on_host().plan(&view).unwrap();
        let member = packed.unwrap().probe(&Digest::of(b"y"));
        let Some(Probe::Run { script, .. }) = member else { panic!("{member:?}") };
        assert!(script.starts_with("name=y\nf=/srv/a.tgz\n"), "an edit behind it can read what it unpacks");
        assert_eq!(settings[0], ("CV_ARCHIVE".to_owned(), "/srv/a.tgz".to_owned()));
        assert_eq!(settings[1].1, Digest::of(b"packed").to_string());
    }

    #[test]
    fn an_archive_of_the_same_run_is_waited_for() {
        assert!(matches!(on_host().plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let command = FakeView::new().acts(ObjectId::new("command", "x"), true);
        assert!(matches!(on_host().plan(&command), Err(Stop::Deferred(_))));
        for object in [path_id("/etc/x"), ObjectId::new("sysctl", "net.core.somaxconn")] {
            let view = FakeView::new().acts(object, false);
            assert!(matches!(on_host().plan(&view), Err(Stop::Invalid { .. })), "it brings no archive");
        }
        // The plan knows the new archive by its digest, and the host has listed the old one.
        let view = listing(FakeView::new().file("/srv/a.tgz", 0o644, "new"), b"old");
        assert!(matches!(on_host().plan(&view), Err(Stop::Failed(_))));
        let brought = view.clone().acts(path_id("/srv/a.tgz"), false);
        assert!(matches!(on_host().plan(&brought), Err(Stop::Deferred(_))));
        // The file is damaged, and an earlier item is about to replace it.
        let probe = Probe::Run { script: script("/srv/a.tgz"), user: None, timeout: 600 };
        let damaged = view.answer(&probe, 2, &format!("{}  -\n", Digest::of(b"drifted")));
        let replaced = damaged.acts(path_id("/srv/a.tgz"), false);
        assert!(matches!(on_host().plan(&replaced), Err(Stop::Deferred(_))));
    }

    #[test]
    fn only_what_may_bring_tar_is_waited_for() {
        let probe = Probe::Run { script: script("/srv/a.tgz"), user: None, timeout: 600 };
        let view = FakeView::new().file("/srv/a.tgz", 0o644, "packed").answer(&probe, 69, "");
        for (object, foreign, waits) in [
            (path_id("/etc/motd"), false, false),
            (ObjectId::new("user", "x"), false, false),
            (path_id("/usr/local/bin/tar"), false, true),
            (ObjectId::new("package", "tar"), false, true),
            (ObjectId::new("command", "x"), true, true),
        ] {
            let planned = on_host().plan(&view.clone().acts(object.clone(), foreign));
            assert_eq!(matches!(planned, Err(Stop::Deferred(_))), waits, "{object}: {planned:?}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Archive>(json!({"path": "/x"})), [""]);
        assert_eq!(
            wrong::<Archive>(json!({"path": "x", "on_host": "y", "creates": "z"})),
            ["/path", "/on_host", "/creates"]
        );
        let bad = json!({"path": "/x", "source": SourceFile::loaded("a.tar", b"nothing of the sort")});
        assert_eq!(wrong::<Archive>(bad), ["/source"]);
        let stripped = json!({"path": "/x", "source": packed(), "strip": 7});
        assert_eq!(wrong::<Archive>(stripped), ["/source"]);
    }
}
