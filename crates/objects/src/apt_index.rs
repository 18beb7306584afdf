//! The package index of a host as a whole: what apt knows of all its sources. The key is `index`, or `index:SECONDS`
//! with the greatest age that will do.

use converge_resource::{
    BroughtObjects, DynEffects, Effects, ErasedObject, Facets, Object, Traits, state_of_words,
};

/// The state of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AptIndexState {
    /// None at all: a fresh cloud or container image (`absent`).
    Absent,
    /// A source that was added has none yet (`incomplete`).
    Incomplete,
    /// It is older than the key allows (`old`).
    Old,
    /// It is there (`current`).
    Current,
}

impl AptIndexState {
    fn words(&self) -> Vec<String> {
        let word = match self {
            Self::Absent => "absent",
            Self::Incomplete => "incomplete",
            Self::Old => "old",
            Self::Current => "current",
        };
        vec![word.to_owned()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["incomplete"] => Some(Self::Incomplete),
            ["old"] => Some(Self::Old),
            ["current"] => Some(Self::Current),
            _ => None,
        }
    }
}

state_of_words!(AptIndexState);

/// The object.
pub struct AptIndex;

impl Object for AptIndex {
    const KIND: &'static str = "apt_index";
    const SHELL: &'static str = include_str!("apt_index.sh");
    const SECONDS: u64 = 600;
    /// A copy of what repositories offer is not taken back.
    const TRAITS: Traits = Traits { passes: true, offers: &["package"], ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = AptIndexState;

    /// It is never taken back.
    fn fulfils(now: &AptIndexState, planned: &AptIndexState) -> bool {
        now == planned || *planned != AptIndexState::Current
    }

    fn title(_: &str, _: &AptIndexState, _: &AptIndexState) -> String {
        "apt-get update".to_owned()
    }

    fn facets(state: &AptIndexState) -> Facets {
        let index = match state {
            AptIndexState::Absent => return Vec::new(),
            AptIndexState::Incomplete => "a source has none",
            AptIndexState::Old => "too old",
            AptIndexState::Current => "current",
        };
        vec![("index", index.to_owned())]
    }
}

impl Effects for AptIndex {
    /// Other versions of packages.
    fn may_bring(_: &AptIndexState, _: &AptIndexState) -> Option<BroughtObjects> {
        Some(BroughtObjects { verb: "refreshing the", kinds: Self::TRAITS.offers })
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
        for state in
            [AptIndexState::Absent, AptIndexState::Incomplete, AptIndexState::Old, AptIndexState::Current]
        {
            assert_eq!(AptIndexState::try_from(State::from(state)), Ok(state));
        }
        assert!(AptIndexState::try_from(State::from_line("current 12")).is_err());
    }

    /// An apt-get with two sources; `update` fetches those whose server answers.
    const APT: &str = "#!/bin/sh
here=${0%/*}/var/lists
case $1 in
update)
  [ ! -e \"$0.locked\" ] || { rm \"$0.locked\"; echo 'E: Could not get lock /var/lib/apt/lists/lock.' >&2; exit 100; }
  [ ! -e \"$0.broken\" ] || { echo 'E: no network' >&2; exit 100; }
  echo x >\"$here/one_Packages.lz4\"
  if [ -e \"$0.away\" ]; then echo 'W: Failed to fetch two' >&2; else echo x >\"$here/two_Packages\"; fi ;;
indextargets)
  printf '%s\\n' \"http://one d main|$here/one_Packages\" \"http://one d main|$here/one_all_Packages\" \"http://two  |$here/two_Packages\" ;;
esac
";

    #[test]
    fn the_index_is_read_and_refreshed_in_every_shell() {
        for name in shells(tempfile::tempdir().unwrap().path()).into_iter().map(|s| s.name) {
            let dir = tempfile::tempdir().unwrap();
            let shell = shells(dir.path()).into_iter().find(|s| s.name == name).unwrap();
            let at = |name: &str| dir.path().join(name);
            std::fs::write(at("apt-get"), APT).unwrap();
            std::fs::set_permissions(at("apt-get"), std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::create_dir_all(at("var/lists")).unwrap();
            std::fs::create_dir_all(at("etc/sources.list.d")).unwrap();
            let run = |script: &str| {
                let text = format!(
                    "PATH='{0}':$PATH; CV_APT_LISTS='{0}/var/lists' CV_APT_ETC='{0}/etc' CV_ROOT='{0}/root'; sleep() {{ :; }}; {script}",
                    dir.path().display()
                );
                shell.run(dir.path(), &text, &[], b"")
            };
            let see = |key: &str| String::from_utf8(run(&format!("cv_line_apt_index {key}")).stdout).unwrap();
            assert_eq!(see("index"), "absent\n", "{name}");
            std::fs::write(at("var/lists/one_Packages.lz4"), "x").unwrap();
            assert_eq!(see("index"), "incomplete\n", "{name}: the second source has none");
            std::fs::write(at("apt-get.broken"), "").unwrap();
            assert!(!run("cv_apply_apt_index index current").status.success());
            std::fs::remove_file(at("apt-get.broken")).unwrap();
            // If another process holds the lock, or a server does not answer, this is reported and not tried again.
            std::fs::write(at("apt-get.locked"), "").unwrap();
            std::fs::write(at("apt-get.away"), "").unwrap();
            let done = run("cv_apply_apt_index index current");
            assert!(done.status.success(), "{name}: {done:?}");
            assert!(String::from_utf8_lossy(&done.stdout).contains("note"), "{name}: {done:?}");
            assert_eq!((see("index"), see("index:3600")), ("current\n".into(), "current\n".into()), "{name}");
            run("find \"$CV_APT_LISTS\" \"$CV_ROOT\" -exec touch -d '2020-01-02 00:00:00' {} +");
            run("find \"$CV_APT_ETC\" -exec touch -d '2020-01-01 00:00:00' {} +");
            assert_eq!((see("index"), see("index:3600")), ("current\n".into(), "old\n".into()), "{name}");
            std::fs::write(at("etc/sources.list.d/new.list"), "deb").unwrap();
            assert_eq!(see("index"), "incomplete\n", "{name}: a source was written since");
        }
    }
}
