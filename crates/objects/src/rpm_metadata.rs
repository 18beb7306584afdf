//! The metadata that dnf has of one repository. The key NAME stands for `/etc/yum.repos.d/NAME.repo`.

use converge_resource::{
    BroughtObjects, Digest, DynEffects, Effects, ErasedObject, Facets, Object, Traits, state_of_digest,
};

/// The state of a repository's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpmMetadataState {
    /// dnf has none, or such as belong to another content of the file (`absent`).
    Absent,
    /// dnf has the metadata of the repository that a file of this content names (`metadata SHA256`).
    Metadata(Digest),
}

state_of_digest!(RpmMetadataState, Metadata, "metadata");

/// The object.
pub struct RpmMetadata;

impl Object for RpmMetadata {
    const KIND: &'static str = "rpm_metadata";
    const SHELL: &'static str = include_str!("rpm_metadata.sh");
    const SECONDS: u64 = 600;
    /// With other metadata come other versions.
    const TRAITS: Traits = Traits { offers: &["package"], ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = RpmMetadataState;

    fn title(key: &str, _: &RpmMetadataState, to: &RpmMetadataState) -> String {
        match to {
            RpmMetadataState::Absent => format!("drop the metadata of {key}"),
            RpmMetadataState::Metadata(_) => format!("dnf makecache for {key}"),
        }
    }

    fn facets(state: &RpmMetadataState) -> Facets {
        match state {
            RpmMetadataState::Absent => Vec::new(),
            RpmMetadataState::Metadata(of) => vec![("metadata", format!("fetched for {}", of.short()))],
        }
    }
}

impl Effects for RpmMetadata {
    /// Other versions of packages.
    fn may_bring(_: &RpmMetadataState, _: &RpmMetadataState) -> Option<BroughtObjects> {
        Some(BroughtObjects { verb: "the metadata of", kinds: Self::TRAITS.offers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    /// A dnf that keeps what it fetches where dnf does, and knows no other repository.
    const DNF: &str = "#!/bin/sh
here=${0%/tools/*}
case $* in *'--enablerepo=shop '*makecache*) ;; *) echo \"wrong $*\"; exit 9 ;; esac
[ ! -e \"$here/broken\" ] || { mkdir -p \"$here/cache/shop-f123456789abcdef\"; echo 'Error: no network'; exit 1; }
mkdir -p \"$here/cache/shop-0123456789abcdef/repodata\" && : >\"$here/cache/shop-0123456789abcdef/repodata/repomd.xml\"
";

    #[test]
    fn metadata_come_and_go_in_every_shell() {
        assert!(RpmMetadataState::try_from(State::from_line("metadata 12")).is_err());
        for name in shells(tempfile::tempdir().unwrap().path()).into_iter().map(|s| s.name) {
            let dir = tempfile::tempdir().unwrap();
            let shell = shells(dir.path()).into_iter().find(|s| s.name == name).unwrap();
            let tools = fake_tool(dir.path(), "dnf", DNF);
            let at = |name: &str| dir.path().join(name);
            let run = |script: &str| {
                let text = format!(
                    "PATH='{tools}':$PATH; CV_RPM_REPOS='{0}' CV_DNF_CONF='{0}/dnf.conf'; {script}",
                    dir.path().display()
                );
                shell.run(dir.path(), &text, &[], b"")
            };
            let line =
                || String::from_utf8(run("cv_line_rpm_metadata shop").stdout).unwrap().trim().to_owned();
            let want =
                |text: &[u8]| State::from(RpmMetadataState::Metadata(Digest::of(text))).line().to_owned();
            std::fs::write(at("dnf.conf"), format!("[main]\nsystem_cachedir={}\n", at("cache").display()))
                .unwrap();
            std::fs::write(at("shop.repo"), "one").unwrap();
            // Another repository, of which the name begins alike.
            let other = at("cache/shop-tools-0123456789abcdef/repodata");
            std::fs::create_dir_all(&other).unwrap();
            std::fs::write(other.join("repomd.xml"), "").unwrap();
            assert_eq!(line(), "absent", "{name}");
            let done = run(&format!("cv_apply_rpm_metadata shop '{}'", want(b"one")));
            assert!(done.status.success(), "{name}: {done:?}");
            assert_eq!(line(), want(b"one"), "{name}");
            // Another content of the file makes them old.
            std::fs::write(at("shop.repo"), "two").unwrap();
            assert_eq!(line(), "absent", "{name}");
            std::fs::write(at("broken"), "").unwrap();
            let failed = run(&format!("cv_apply_rpm_metadata shop '{}'", want(b"two")));
            assert!(!failed.status.success(), "{name}");
            assert!(String::from_utf8_lossy(&failed.stderr).contains("no network"), "{failed:?}");
            assert!(!at("cache/shop-f123456789abcdef").exists(), "{name}: what dnf leaves behind");
            // A rollback that comes before that of the file needs no network.
            assert!(run(&format!("cv_restore_rpm_metadata shop '{}'", want(b"one"))).status.success());
            std::fs::write(at("shop.repo"), "one").unwrap();
            assert_eq!(line(), want(b"one"), "{name}");
            assert!(run("cv_restore_rpm_metadata shop absent").status.success());
            assert_eq!(line(), "absent", "{name}");
            assert!(!at("cache/shop-0123456789abcdef").exists() && other.exists(), "{name}");
        }
    }
}
