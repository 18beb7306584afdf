//! A git checkout. Its key is its directory.

use converge_resource::{
    DriftScript, DynNeeds, ErasedObject, Facets, Footprint, Needs, Object, Reversibility, Traits, quote,
    state_of_words,
};

/// The state of a directory, as git sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitState {
    /// Nothing is there, or an empty directory (`absent`).
    Absent,
    /// Something that is no checkout (`other`).
    Other,
    /// A checkout (`checkout COMMIT REMOTE clean|changed`).
    Checkout {
        /// The commit that is checked out, 40 or 64 hexadecimal digits; `none` where there is none yet.
        commit: String,
        /// The address of `origin`; empty where there is none.
        remote: String,
        /// Whether a file that git knows differs from the commit.
        changed: bool,
    },
}

impl GitState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Other => vec!["other".to_owned()],
            Self::Checkout { commit, remote, changed } => {
                let changed = if *changed { "changed" } else { "clean" };
                ["checkout", commit, remote, changed].map(str::to_owned).to_vec()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["other"] => Some(Self::Other),
            ["checkout", commit, remote, changed @ ("clean" | "changed")] => Some(Self::Checkout {
                commit: (*commit).to_owned(),
                remote: (*remote).to_owned(),
                changed: *changed == "changed",
            }),
            _ => None,
        }
    }
}

state_of_words!(GitState);

/// The object.
pub struct Git;

impl Object for Git {
    const KIND: &'static str = "git";
    const SHELL: &'static str = include_str!("git.sh");
    const SECONDS: u64 = 1800;
    const TRAITS: Traits =
        Traits { at_path: true, footprint: Footprint::Place, from_inside: true, ..Traits::NONE };
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = GitState;

    fn title(key: &str, from: &GitState, to: &GitState) -> String {
        match (from, to) {
            (_, GitState::Checkout { commit, .. }) => {
                let short: String = commit.chars().take(12).collect();
                let verb = if matches!(from, GitState::Absent) { "clone" } else { "check out" };
                format!("{verb} {short} in {key}")
            }
            _ => format!("remove the checkout {key}"),
        }
    }

    fn reversibility(key: &str, from: &GitState, _: &GitState) -> Reversibility {
        match from {
            GitState::Checkout { changed: true, .. } => {
                Reversibility::Irreversible(format!("the local changes in {key} are not kept"))
            }
            _ => Reversibility::Reversible,
        }
    }

    /// Every file of the checkout may change.
    fn opaque(_: &GitState, _: &GitState) -> bool {
        true
    }

    fn facets(state: &GitState) -> Facets {
        match state {
            GitState::Absent => Vec::new(),
            GitState::Other => vec![("directory", "not a checkout".to_owned())],
            GitState::Checkout { commit, remote, changed } => vec![
                ("repository", remote.clone()),
                ("commit", commit.clone()),
                ("local changes", if *changed { "yes" } else { "none" }.to_owned()),
            ],
        }
    }

    fn drifts(key: &str, state: &GitState) -> Vec<DriftScript> {
        match state {
            GitState::Checkout { .. } => {
                let script =
                    format!("git -C {} checkout -q --detach HEAD~1 2>/dev/null || exit 3", quote(key));
                vec![DriftScript::new("checkout", "the commit before", script)]
            }
            GitState::Absent | GitState::Other => Vec::new(),
        }
    }
}

impl Needs for Git {
    fn stands_on(_: &str, state: &GitState) -> Vec<String> {
        if matches!(state, GitState::Checkout { .. }) { vec!["git".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;
    use std::path::Path;

    fn git(dir: &Path, words: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(dir).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_checkout_is_made_moved_and_taken_away_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let origin = dir.path().join("it's the origin");
        std::fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "-q"]);
        let commit = |text: &str| {
            std::fs::write(origin.join("file"), text).unwrap();
            git(&origin, &["add", "file"]);
            git(&origin, &["commit", "-q", "-m", text]);
            git(&origin, &["rev-parse", "HEAD"])
        };
        let (one, two) = (commit("one"), commit("two"));
        let remote = origin.to_str().unwrap();
        let at = |commit: &str| GitState::Checkout {
            commit: commit.to_owned(),
            remote: remote.to_owned(),
            changed: false,
        };
        // git is not among the applets of busybox.
        for shell in shells(dir.path()).into_iter().filter(|s| s.name != "busybox") {
            let (root, place) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
            let target = place.path().join("app");
            let key = target.to_str().unwrap();
            let see = || GitState::try_from(shell.see::<Git>(root.path(), key).state).unwrap();
            let go = |from: &GitState, to: &GitState| {
                let script = Git::steps(&[(key, from.clone(), to.clone())]).remove(0).script;
                shell.good(root.path(), &script, &[], b"");
            };
            assert_eq!(see(), GitState::Absent);
            go(&GitState::Absent, &at(&two));
            assert_eq!(see(), at(&two), "{}", shell.name);
            go(&at(&two), &at(&one));
            assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "one");
            // Local changes stay, unless the item says so.
            std::fs::write(target.join("file"), "mine").unwrap();
            assert!(matches!(see(), GitState::Checkout { changed: true, .. }));
            let back = Git::steps(&[(key, see(), at(&two))]).remove(0).script;
            assert!(!shell.run(root.path(), &back, &[], b"").status.success());
            assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "mine", "{}", shell.name);
            shell.good(root.path(), &format!("CV_GIT_FORCE=yes; {back}"), &[], b"");
            assert_eq!(see(), at(&two));
            // A file that git does not track prevents the removal of the checkout.
            std::fs::write(target.join("more"), "mine").unwrap();
            let gone = shell.run(root.path(), "cv_restore_git \"$1\" absent", &[key], b"");
            assert!(String::from_utf8_lossy(&gone.stderr).contains("?? more"), "{}", shell.name);
            std::fs::remove_file(target.join("more")).unwrap();
            shell.good(root.path(), "cv_restore_git \"$1\" absent", &[key], b"");
            assert!(!target.exists(), "{}: we made it", shell.name);
            // A commit that does not exist leaves nothing behind.
            let never = Git::steps(&[(key, GitState::Absent, at(&"0".repeat(40)))]).remove(0).script;
            assert!(!shell.run(root.path(), &never, &[], b"").status.success());
            assert!(!target.exists(), "{}", shell.name);
            std::fs::create_dir(&target).unwrap();
            assert_eq!(see(), GitState::Absent);
            std::fs::write(target.join("x"), "").unwrap();
            assert_eq!(see(), GitState::Other);
        }
    }

    #[test]
    fn states_are_lines_and_local_changes_cannot_be_brought_back() {
        for line in ["absent", "other", "checkout abc git@host:a.git clean", "checkout none \\ changed"] {
            let state = GitState::try_from(State::from_line(line)).unwrap();
            assert_eq!(State::from(state).line(), line);
        }
        assert!(GitState::try_from(State::from_line("checkout abc")).is_err());
        let changed = GitState::Checkout { commit: "a".into(), remote: "b".into(), changed: true };
        assert!(matches!(
            Git::reversibility("/x", &changed, &GitState::Absent),
            Reversibility::Irreversible(_)
        ));
    }
}
