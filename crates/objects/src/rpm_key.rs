//! A key whose signatures of packages rpm trusts. The key is its whole fingerprint.

use converge_resource::{Digest, DriftScript, Facets, Object, Step, state_of_digest};

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpmKeyState {
    /// rpm does not trust it (`absent`).
    Absent,
    /// rpm trusts it, as it is in this text: with its armour in lines of 64 characters (`key SHA256`).
    Key(Digest),
}

state_of_digest!(RpmKeyState, Key, "key");

/// The object.
pub struct RpmKey;

impl Object for RpmKey {
    const KIND: &'static str = "rpm_key";
    const SHELL: &'static str = include_str!("rpm_key.sh");
    type State = RpmKeyState;

    fn title(key: &str, from: &RpmKeyState, to: &RpmKeyState) -> String {
        match (from, to) {
            (_, RpmKeyState::Absent) => format!("rpm no longer trusts the key {key}"),
            (RpmKeyState::Absent, _) => format!("rpm trusts the key {key}"),
            _ => format!("rpm has the key {key} anew"),
        }
    }

    fn steps(changes: &[(&str, RpmKeyState, RpmKeyState)]) -> Vec<Step> {
        let step = |(key, from, to): &(&str, RpmKeyState, RpmKeyState)| {
            let script = format!("cv_apply_rpm_key {key} '{}'", to.words().join(" "));
            let step = Step::new(Self::title(key, from, to), script);
            match to {
                RpmKeyState::Absent => step,
                RpmKeyState::Key(text) => step.reading(text.clone()),
            }
        };
        changes.iter().map(step).collect()
    }

    fn facets(state: &RpmKeyState) -> Facets {
        match state {
            RpmKeyState::Absent => Vec::new(),
            RpmKeyState::Key(text) => vec![("key", text.short().to_owned())],
        }
    }

    fn drifts(key: &str, state: &RpmKeyState) -> Vec<DriftScript> {
        let version = key.get(32..).unwrap_or_default().to_ascii_lowercase();
        let script = format!("rpm -e --allmatches gpg-pubkey-{version} || exit 3");
        match state {
            RpmKeyState::Absent => Vec::new(),
            RpmKeyState::Key(_) => vec![DriftScript::new("presence", "no longer trusted", script)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    const FINGERPRINT: &str = "63436902A557926AB7C1079E31C6942C962F3A34";

    /// An rpm that keeps one key, and says of it what rpm 4 says.
    const RPM: &str = r#"#!/bin/sh
here=${0%/*}/trusted
case $1 in
-q)
  [ "$4" = gpg-pubkey-962f3a34 ] || { echo "wrong $4"; exit 9; }
  [ ! -e "$here.broken" ] || { echo 'error: cannot open Packages database'; exit 1; }
  [ -e "$here" ] || { echo "package $4 is not installed"; exit 1; }
  sed '1a Version: rpm-4.18.0' "$here" ;;
-e) rm "$here" ;;
--import) [ -e "$here" ] || cp "$2" "$here" ;;
esac
"#;

    #[test]
    fn a_key_is_trusted_renewed_and_restored_in_every_shell() {
        assert!(RpmKeyState::try_from(State::from_line("key 12")).is_err());
        for name in shells(tempfile::tempdir().unwrap().path()).into_iter().map(|s| s.name) {
            let dir = tempfile::tempdir().unwrap();
            let shell = shells(dir.path()).into_iter().find(|s| s.name == name).unwrap();
            let tools = fake_tool(dir.path(), "rpm", RPM);
            let text = |body: &str| {
                format!(
                    "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{body}\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"
                )
            };
            let line = |body: &str| State::from(RpmKeyState::Key(Digest::of(text(body).as_bytes())));
            let run = |verb: &str, line: &str, input: &str| {
                let script = format!("PATH='{tools}':$PATH; cv_{verb}_rpm_key \"$@\"");
                shell.run(dir.path(), &script, &[FINGERPRINT, line], input.as_bytes())
            };
            let see = || String::from_utf8(run("line", "", "").stdout).unwrap().trim().to_owned();
            assert_eq!(see(), "absent", "{name}");
            let (old, new) = (line("mQGNBGsJ"), line("mQGNBGsJnewer"));
            let imported = run("apply", old.line(), &text("mQGNBGsJ"));
            assert!(imported.status.success(), "{name}: {imported:?}");
            assert_eq!(see(), old.line(), "{name}");
            assert!(run("save", old.line(), "").status.success());
            let other = run("apply", new.line(), "drifted");
            assert!(!other.status.success() && see() == old.line(), "{name}: {other:?}");
            assert!(run("apply", new.line(), &text("mQGNBGsJnewer")).status.success());
            assert_eq!(see(), new.line(), "{name}: a key that rpm has is replaced");
            assert!(run("restore", old.line(), "").status.success());
            assert_eq!(see(), old.line(), "{name}");
            assert!(run("restore", "absent", "").status.success());
            assert_eq!(see(), "absent", "{name}");
            std::fs::write(format!("{tools}/trusted.broken"), "").unwrap();
            let broken = run("line", "", "");
            assert!(!broken.status.success(), "{name}");
            assert!(String::from_utf8_lossy(&broken.stderr).contains("cannot open Packages"), "{broken:?}");
        }
    }
}
