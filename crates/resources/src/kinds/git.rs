//! `git`

use crate::above::{is_changed_above, need_parent, need_root_only};
use crate::attrs::check_account;
use crate::look::{check_path, normal, path, path_id, program_may_come, state};
use converge_objects::{GitState, PathState};
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates, quote};
use schemars::JsonSchema;
use serde::Deserialize;

/// A checkout of a git repository at one exact commit.
///
/// The plan names the commit: a branch or a tag is looked up with `git ls-remote`, by the host, while it is planned. The commit is checked out by
/// itself, on no branch. Local changes are never overwritten in silence: they stop the resource, unless `force` is given. git runs as the owner of the
/// checkout, asks nothing and runs no hooks. The host needs the package `git`, and for a remote by ssh its key in `known_hosts`. Submodules are left
/// alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// The repository: a path on the host, `https://…`, or `git@host:path`.
    repo: String,
    /// The directory of the checkout. It is made; an empty one is taken.
    dest: String,
    /// A branch, a tag or a whole commit. Without it the remote's default branch.
    #[serde(default = "head")]
    version: String,
    /// Fetch only so many commits of its history.
    depth: Option<u32>,
    /// The user who owns a new checkout.
    user: Option<String>,
    /// The private key for a remote by ssh, a path on the host.
    ssh_key: Option<String>,
    /// Throw local changes of files that git knows away. The plan marks them as lost.
    #[serde(default)]
    force: bool,
}

fn head() -> String {
    "HEAD".to_owned()
}

fn is_commit(version: &str) -> bool {
    matches!(version.len(), 40 | 64)
        && version.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Asks whether the host has git.
fn git_probe() -> Probe {
    Probe::run("command -v git")
}

/// The commit of this version in the answer of `git ls-remote`: of a tag what it points to, and a tag before a branch.
fn commit_of<'a>(answer: &'a str, version: &str) -> Option<&'a str> {
    let find = |name: &str| {
        answer.lines().filter_map(|l| l.split_once('\t')).find(|(_, n)| *n == name).map(|(c, _)| c)
    };
    find(&format!("refs/tags/{version}^{{}}"))
        .or_else(|| find(&format!("refs/tags/{version}")))
        .or_else(|| find(&format!("refs/heads/{version}")))
        .or_else(|| find(version))
        .filter(|commit| is_commit(commit))
}

impl Git {
    fn id(&self) -> ObjectId {
        ObjectId::new("git", normal(&self.dest))
    }

    fn need_root_only(&self, view: &dyn View) -> Result<(), Stop> {
        let remedy = "choose a place where only root may write, or name the user whose it is to be (`user`)";
        need_root_only(view, "/dest", &normal(&self.dest), "a checkout of root", remedy)
    }

    fn ssh(&self) -> String {
        let key = self.ssh_key.as_ref().map(|k| format!(" -o IdentitiesOnly=yes -i {}", quote(k)));
        format!("ssh -o BatchMode=yes{}", key.unwrap_or_default())
    }

    fn probe(&self) -> Probe {
        let (repo, version, peeled) =
            (quote(&self.repo), quote(&self.version), quote(&format!("{}^{{}}", self.version)));
        let script = format!(
            "command -v git >/dev/null 2>&1 || exit 127\n\
             export GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND={}\n\
             cd / && git ls-remote -- {repo} {version} {peeled}",
            quote(&self.ssh())
        );
        Probe::Run { script, user: self.user.clone(), timeout: 60 }
    }

    /// The present checkout. Without git its state is not known: an earlier item may bring it.
    fn present(&self, view: &dyn View) -> Result<GitState, Stop> {
        let failed = match state::<GitState>(view, &self.id()) {
            Err(failed @ Stop::Failed(_)) => failed,
            known => return known,
        };
        let wait = program_may_come(view, &["git"]);
        let has_git = view.run(&git_probe())?.status == 0;
        Err(wait.filter(|_| !has_git).map_or(failed, Stop::Deferred))
    }

    /// The commit that the version is now.
    fn commit(&self, view: &dyn View) -> Result<String, Stop> {
        if is_commit(&self.version) {
            return Ok(self.version.clone());
        }
        let answer = view.run(&self.probe())?;
        if let Some(commit) =
            Some(&answer.stdout).filter(|_| answer.status == 0).and_then(|a| commit_of(a, &self.version))
        {
            return Ok(commit.to_owned());
        }
        // An earlier item may bring git, a key or the repository itself.
        view.after_changes()?;
        Err(match answer.status {
            127 => {
                Stop::invalid_help("", "this host has no git", "install it before: `package: {name: git}`")
            }
            0 => Stop::invalid_help(
                "/version",
                format!("{} has no branch or tag {}", self.repo, self.version),
                "correct it; a commit is written whole, with 40 digits",
            ),
            _ => Stop::Failed(format!("{} cannot be read: {}", self.repo, answer.stderr.trim())),
        })
    }
}

impl Resource for Git {
    const KIND: &'static str = "git";
    const EXAMPLE: &'static str = "\
- name: the exporter's source
  git: {repo: \"https://git.example.org/exporter.git\", dest: /opt/exporter, version: v1.4.2}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/dest", &self.dest, &mut errors);
        if let Some(user) = &self.user {
            check_account("/user", user, &mut errors);
        }
        if let Some(key) = &self.ssh_key {
            check_path("/ssh_key", key, &mut errors);
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        let line =
            |text: &str| !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control);
        if !line(&self.repo) || self.repo.contains("::") {
            wrong(
                "/repo",
                "this is no address of a repository",
                "write a path, `https://…` or `git@host:path`",
            );
        } else if self.repo.split_once("://").is_some_and(|(_, rest)| {
            rest.split('/')
                .next()
                .and_then(|host| host.rsplit_once('@'))
                .is_some_and(|(user, _)| user.contains(':'))
        }) {
            wrong(
                "/repo",
                "the address holds a password, which everyone on the host could read",
                "use a key by ssh",
            );
        }
        if !line(&self.version) || self.version.contains([' ', '~', '^', ':', '?', '*', '[', '\\']) {
            wrong("/version", "this is no branch, tag or commit", "write one, as `main` or `v1.4.2`");
        }
        if self.depth == Some(0) {
            wrong("/depth", "a checkout has one commit at least", "write 1 or more");
        }
        if normal(&self.dest) == "/" {
            wrong("/dest", "the root is no checkout", "name a directory");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(self.id(), "checkout"), Claim::edit(path_id(&self.dest), "may-create")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let now = self.present(view)?;
        match &now {
            GitState::Absent => {
                need_parent(view, "/dest", &self.dest)?;
                if self.user.is_none() {
                    self.need_root_only(view)?;
                }
            }
            GitState::Other => {
                return Err(Stop::invalid_help(
                    "/dest",
                    format!("{} is there and is no checkout", self.dest),
                    "name another directory, or move what is there away by hand",
                ));
            }
            GitState::Checkout { changed: true, .. } if !self.force => {
                return Err(Stop::invalid_help(
                    "/dest",
                    format!("{} has local changes, which are not overwritten", self.dest),
                    "commit them elsewhere or take them back on the host, or add `force: true` to throw them away",
                ));
            }
            // Where nothing above it changes, the host has judged.
            GitState::Checkout { .. } if is_changed_above(view, &self.dest) => {
                if matches!(path(view, &self.dest)?, PathState::Dir { owner, .. } if owner == "root") {
                    self.need_root_only(view)?;
                }
            }
            GitState::Checkout { .. } => {}
        }
        let to = GitState::Checkout { commit: self.commit(view)?, remote: self.repo.clone(), changed: false };
        let mut settings = vec![("CV_GIT_SSH".to_owned(), self.ssh())];
        settings.extend(self.user.iter().map(|u| ("CV_GIT_USER".to_owned(), u.clone())));
        settings.extend(self.depth.iter().map(|d| ("CV_GIT_DEPTH".to_owned(), d.to_string())));
        settings.extend(self.force.then(|| ("CV_GIT_FORCE".to_owned(), "yes".to_owned())));
        Ok(WantedStates { settings, ..WantedStates::one(self.id(), to) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::State;
    use serde_json::json;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn kind(version: &str, force: bool) -> Git {
        read::<Git>(json!({"repo": "/srv/r.git", "dest": "/opt/app/", "version": version, "force": force}))
    }

    fn host(kind: &Git, line: &str) -> FakeView {
        FakeView::new().dir("/opt").has(kind.id(), State::from_line(line))
    }

    #[test]
    fn the_plan_names_the_commit() {
        let branch = kind("main", false);
        let answer = format!("{A}\trefs/heads/main\n");
        let after = settle(&branch, host(&branch, "absent").answer(&branch.probe(), 0, &answer));
        assert_eq!(after.line(&branch.id()), format!("checkout {A} /srv/r.git clean"));
        let commit = kind(B, false);
        assert_eq!(settle(&commit, after).line(&branch.id()), format!("checkout {B} /srv/r.git clean"));
        // An annotated tag is what it points to, and a tag comes before a branch.
        let both = format!("{A}\trefs/heads/v1\n{A}\trefs/tags/v1\n{B}\trefs/tags/v1^{{}}\n");
        assert_eq!(commit_of(&both, "v1"), Some(B));
        assert_eq!(commit_of(&format!("{A}\tHEAD\n"), "HEAD"), Some(A));
    }

    #[test]
    fn local_changes_stop_it_unless_it_is_forced() {
        let line = format!("checkout {A} /srv/r.git changed");
        let careful = kind(A, false);
        let Err(Stop::Invalid { pointer, .. }) = careful.plan(&host(&careful, &line)) else {
            panic!("they are lost")
        };
        assert_eq!(pointer, "/dest");
        let forced = kind(A, true);
        assert_eq!(
            settle(&forced, host(&forced, &line)).line(&forced.id()),
            format!("checkout {A} /srv/r.git clean")
        );
        assert!(matches!(forced.plan(&host(&forced, "other")), Err(Stop::Invalid { .. })));
    }

    #[test]
    fn a_checkout_whose_git_is_missing_waits_for_the_package_that_brings_it() {
        let git = kind(A, false);
        let missing = |status: i32| {
            let view = host(&git, "! this host has no git").answer(&git_probe(), status, "");
            move |acts: bool| if acts { view.acts(ObjectId::new("package", "git"), false) } else { view }
        };
        assert!(matches!(git.plan(&missing(1)(true)), Err(Stop::Deferred(_))));
        assert!(matches!(git.plan(&missing(1)(false)), Err(Stop::Failed(_))));
        assert!(matches!(git.plan(&missing(0)(true)), Err(Stop::Failed(_))), "git is there");
    }

    /// The host refuses it when it clones.
    #[test]
    fn a_checkout_of_roots_is_made_only_where_nobody_else_may_write() {
        let git = |user: serde_json::Value| {
            read::<Git>(json!({"repo": "/r", "dest": "/srv/u/app", "version": A, "user": user}))
        };
        let view = |mode: u32, owner: &str, group: &str| {
            let dir = PathState::Dir { mode, owner: owner.into(), group: group.into() };
            FakeView::new().dir("/srv").has(path_id("/srv/u"), dir)
        };
        for (mode, owner, group) in
            [(0o755, "alice", "root"), (0o1777, "root", "root"), (0o775, "root", "crew")]
        {
            let Err(Stop::Invalid { pointer, message, help, .. }) =
                git(json!(null)).plan(&view(mode, owner, group))
            else {
                panic!("{owner} {mode:o}")
            };
            assert_eq!(pointer, "/dest");
            assert!(message.starts_with("/srv/u/app: others than root may write to /srv/u,"), "{message}");
            assert!(help.unwrap().contains("`user`"));
            settle(&git(json!("alice")), view(mode, owner, group));
        }
        settle(&git(json!(null)), view(0o775, "root", "root"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_or_waited_for() {
        let kind = kind("v9", false);
        for (status, pointer) in [(127, ""), (0, "/version")] {
            let view = host(&kind, "absent").answer(&kind.probe(), status, "");
            assert!(matches!(kind.plan(&view), Err(Stop::Invalid { pointer: p, .. }) if p == pointer));
            assert!(matches!(kind.plan(&view.pending()), Err(Stop::Deferred(_))));
        }
        let view = host(&kind, "absent").complains(&kind.probe(), 128, "fatal: no such repository\n");
        assert!(
            matches!(kind.plan(&view), Err(Stop::Failed(why)) if why.ends_with("fatal: no such repository"))
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(
            wrong::<Git>(json!({"repo": "-x", "dest": "a", "version": "a b", "depth": 0})),
            ["/dest", "/repo", "/version", "/depth"]
        );
        assert_eq!(wrong::<Git>(json!({"repo": "https://me:secret@host/a.git", "dest": "/a"})), ["/repo"]);
    }
}
