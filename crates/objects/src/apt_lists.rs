//! The package index that apt has of one repository. The key NAME stands for `/etc/apt/sources.list.d/NAME.sources`.

use converge_resource::{
    BroughtObjects, Digest, DynEffects, Effects, ErasedObject, Facets, Object, Traits, state_of_digest,
};

/// The state of a repository's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AptListsState {
    /// apt has none, or such as belong to another content of the file (`absent`).
    Absent,
    /// apt has the lists of the repository that a file of this content names (`lists SHA256`).
    Lists(Digest),
}

state_of_digest!(AptListsState, Lists, "lists");

/// The object.
pub struct AptLists;

impl Object for AptLists {
    const KIND: &'static str = "apt_lists";
    const SHELL: &'static str = include_str!("apt_lists.sh");
    const SECONDS: u64 = 600;
    /// With other lists come other versions.
    const TRAITS: Traits = Traits { offers: &["package"], ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = AptListsState;

    fn title(key: &str, _: &AptListsState, to: &AptListsState) -> String {
        match to {
            AptListsState::Absent => format!("drop the package index of {key}"),
            AptListsState::Lists(_) => format!("apt-get update for {key}"),
        }
    }

    fn facets(state: &AptListsState) -> Facets {
        match state {
            AptListsState::Absent => Vec::new(),
            AptListsState::Lists(of) => vec![("lists", format!("fetched for {}", of.short()))],
        }
    }
}

impl Effects for AptLists {
    /// Other versions of packages.
    fn may_bring(_: &AptListsState, _: &AptListsState) -> Option<BroughtObjects> {
        Some(BroughtObjects { verb: "the package index of", kinds: Self::TRAITS.offers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for state in [AptListsState::Absent, AptListsState::Lists(Digest::of(b"x"))] {
            assert_eq!(AptListsState::try_from(State::from(state.clone())), Ok(state));
        }
        assert!(AptListsState::try_from(State::from_line("lists 12")).is_err());
    }

    /// A stand-in for apt-get that fetches one list on `update`, and names it if it exists.
    const APT: &str = "#!/bin/sh
case $1 in
update) echo \"$*\" >>\"$0.log\"; [ ! -e \"$0.broken\" ] || { echo 'E: no network' >&2; exit 100; }; : >\"$0.InRelease\"; : >\"$0.Packages\" ;;
indextargets) [ ! -e \"$0.Packages\" ] || printf '%s|%s\\n' \"$0.Packages\" Packages ;;
esac
";

    #[test]
    fn lists_come_and_go_in_every_shell() {
        for shell in shells(tempfile::tempdir().unwrap().path()) {
            let dir = tempfile::tempdir().unwrap();
            let shell = shells(dir.path()).into_iter().find(|s| s.name == shell.name).unwrap();
            let apt = dir.path().join("apt-get");
            std::fs::write(&apt, APT).unwrap();
            std::fs::set_permissions(&apt, std::fs::Permissions::from_mode(0o755)).unwrap();
            let run = |script: &str| {
                let text = format!("PATH='{0}':$PATH; CV_APT_SOURCES='{0}'; {script}", dir.path().display());
                shell.run(dir.path(), &text, &[], b"")
            };
            let line = || String::from_utf8(run("cv_line_apt_lists shop").stdout).unwrap().trim().to_owned();
            assert_eq!(line(), "absent", "{}", shell.name);
            let sources = dir.path().join("shop.sources");
            std::fs::write(&sources, "one").unwrap();
            assert_eq!(line(), "absent");
            let want = |text: &[u8]| format!("lists {}", Digest::of(text));
            assert!(run(&format!("cv_apply_apt_lists shop '{}'", want(b"one"))).status.success());
            assert_eq!(line(), want(b"one"));
            // Another content of the file makes the lists old.
            std::fs::write(&sources, "two").unwrap();
            assert_eq!(line(), "absent");
            std::fs::write(dir.path().join("apt-get.broken"), "").unwrap();
            let failed = run(&format!("cv_apply_apt_lists shop '{}'", want(b"two")));
            assert!(!failed.status.success());
            assert!(String::from_utf8_lossy(&failed.stderr).contains("no network"), "{failed:?}");
            std::fs::remove_file(dir.path().join("apt-get.broken")).unwrap();
            assert!(run(&format!("cv_apply_apt_lists shop '{}'", want(b"two"))).status.success());
            // Back, before the file is back: what was fetched first is still there.
            assert!(run(&format!("cv_restore_apt_lists shop '{}'", want(b"one"))).status.success());
            std::fs::write(&sources, "one").unwrap();
            assert_eq!(line(), want(b"one"));
            assert!(run("cv_restore_apt_lists shop absent").status.success());
            assert_eq!(line(), "absent");
            assert!(!dir.path().join("apt-get.InRelease").exists());
        }
    }
}
