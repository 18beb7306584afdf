//! Packages that an interrupted run of dpkg has left unconfigured, or has not removed to the end. The only key is `packages`.

use converge_resource::{
    BroughtObjects, DynEffects, Effects, ErasedObject, Facets, Object, Traits, state_of_words,
};

/// Whether there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DpkgState {
    /// Nothing (`settled`).
    Settled,
    /// These packages, by their names with commas (`unfinished NAMES`).
    Unfinished(String),
}

impl DpkgState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Settled => vec!["settled".to_owned()],
            Self::Unfinished(names) => vec!["unfinished".to_owned(), names.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["settled"] => Some(Self::Settled),
            ["unfinished", names] if !names.is_empty() => Some(Self::Unfinished((*names).to_owned())),
            _ => None,
        }
    }
}

state_of_words!(DpkgState);

/// The object.
pub struct Dpkg;

impl Object for Dpkg {
    const KIND: &'static str = "dpkg";
    const SHELL: &'static str = include_str!("dpkg.sh");
    const SECONDS: u64 = 1800;
    /// A rollback never makes packages unconfigured again.
    const TRAITS: Traits = Traits {
        passes: true,
        offers: &["package", "path", "unit", "user", "group", "sysctl"],
        ..Traits::NONE
    };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = DpkgState;

    /// It is never taken back.
    fn fulfils(now: &DpkgState, planned: &DpkgState) -> bool {
        now == planned || *planned != DpkgState::Settled
    }

    fn title(_: &str, _: &DpkgState, _: &DpkgState) -> String {
        "dpkg --configure -a".to_owned()
    }

    /// The scripts of packages.
    fn opaque(_: &DpkgState, _: &DpkgState) -> bool {
        true
    }

    fn facets(state: &DpkgState) -> Facets {
        match state {
            DpkgState::Settled => vec![("interrupted", "nothing".to_owned())],
            DpkgState::Unfinished(names) => vec![("interrupted", names.replace(',', ", "))],
        }
    }
}

impl Effects for Dpkg {
    fn may_bring(_: &DpkgState, _: &DpkgState) -> Option<BroughtObjects> {
        Some(BroughtObjects { verb: "configuring the", kinds: Self::TRAITS.offers })
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
        for state in [DpkgState::Settled, DpkgState::Unfinished("a,b".to_owned())] {
            assert_eq!(DpkgState::try_from(State::from(state.clone())), Ok(state));
        }
        assert!(DpkgState::try_from(State::from_line("unfinished")).is_err());
    }

    #[test]
    fn what_is_left_is_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("dpkg-query");
        let query = "#!/bin/sh\ncat \"$0.says\"\n";
        std::fs::write(&tool, query).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let updates = dir.path().join("updates");
        std::fs::create_dir(&updates).unwrap();
        for shell in shells(dir.path()) {
            let see = || {
                let script = format!(
                    "PATH='{}':$PATH CV_DPKG_UPDATES='{}'; cv_line_dpkg packages",
                    dir.path().display(),
                    updates.display()
                );
                shell.good(dir.path(), &script, &[], b"")
            };
            let says = |text: &str| std::fs::write(dir.path().join("dpkg-query.says"), text).unwrap();
            says(
                "install\tok\tinstalled\ta\ndeinstall\tok\tconfig-files\tb\ninstall\treinstreq\thalf-installed\tc\n",
            );
            assert_eq!(see().trim(), "settled", "{}", shell.name);
            says("install\tok\thalf-configured\tb\ninstall\tok\tinstalled\ta\ninstall\tok\tunpacked\ta\n");
            assert_eq!(see().trim(), "unfinished a,b", "{}", shell.name);
            says(
                "deinstall\tok\thalf-installed\tc\npurge\tok\thalf-installed\tb\ninstall\tok\tunpacked\ta\n",
            );
            assert_eq!(see().trim(), "unfinished a,b,c", "{}", shell.name);
            says("install\tok\tinstalled\ta\n");
            std::fs::write(updates.join("0001"), "").unwrap();
            assert_eq!(see().trim(), "unfinished updates", "{}", shell.name);
            std::fs::remove_file(updates.join("0001")).unwrap();
        }
    }
}
