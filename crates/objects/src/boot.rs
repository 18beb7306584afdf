//! A restart of the host for a reason. Its key is the reason: `required`, `once TOKEN`, `change NAMES`.

use crate::programs::not_known;
use converge_resource::{
    AlteredFact, Disruption, DynEffects, Effects, ErasedObject, Facets, Object, Reversibility, Traits,
    state_of_words,
};

/// The state of the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootState {
    /// Key `required`: the host says that it must restart.
    Required,
    /// Key `required`: it does not.
    Settled,
    /// The other keys: the reason of the last restart (`restarted WHAT`; `restarted -` if there was none).
    Restarted {
        /// The token, or the digest of the named resources.
        what: Option<String>,
    },
}

impl BootState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Required => vec!["required".to_owned()],
            Self::Settled => vec!["settled".to_owned()],
            Self::Restarted { what } => {
                vec!["restarted".to_owned(), what.clone().unwrap_or_else(|| "-".to_owned())]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["required"] => Some(Self::Required),
            ["settled"] => Some(Self::Settled),
            ["restarted", what] => Some(Self::Restarted { what: (*what != "-").then(|| (*what).to_owned()) }),
            _ => None,
        }
    }
}

state_of_words!(BootState);

/// The object.
pub struct Boot;

impl Object for Boot {
    const KIND: &'static str = "boot";
    const SHELL: &'static str = include_str!("boot.sh");
    const TRAITS: Traits = Traits { restarts_host: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = BootState;

    fn title(key: &str, _: &BootState, _: &BootState) -> String {
        match key.split_once(' ') {
            Some(("once", token)) => format!("restart the host, once for `{token}`"),
            Some(("change", names)) => format!("restart the host: {names} changed"),
            _ => "restart the host: it says that it must".to_owned(),
        }
    }

    fn reversibility(_: &str, _: &BootState, _: &BootState) -> Reversibility {
        Reversibility::Irreversible("a restart is not taken back; a rollback passes over it".to_owned())
    }

    fn facets(state: &BootState) -> Facets {
        match state {
            BootState::Required => vec![("restart", "required".to_owned())],
            BootState::Settled => vec![("restart", "not required".to_owned())],
            BootState::Restarted { what: None } => vec![("restarted for", "never".to_owned())],
            BootState::Restarted { what: Some(what) } => {
                vec![("restarted for", what.chars().take(40).collect())]
            }
        }
    }

    fn disruption(_: &BootState, _: Option<&BootState>) -> Disruption {
        Disruption::Drain
    }
}

impl Effects for Boot {
    fn alters(key: &str, _: &BootState, _: &BootState) -> Vec<AlteredFact> {
        not_known(Self::may_alter(key))
    }

    /// Facts that a restart may change: a new kernel and its modules.
    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["kernel", "nvidia", "amd", "accelerators"]
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{fake_tool, shells};
    use converge_resource::quote;

    #[test]
    fn a_restart_counts_once_the_boot_is_another() {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            let root = tempfile::tempdir().unwrap();
            let id = root.path().join("boot_id");
            let vars = format!("CV_BOOT_ID={}", quote(id.to_str().unwrap()));
            let see = || shell.good(root.path(), &format!("{vars}; cv_line_boot 'change a, b'"), &[], b"");
            std::fs::write(&id, "first\n").unwrap();
            assert_eq!(see(), "restarted -\n", "{}", shell.name);
            // The record as it is written before the restart: it was asked for, and has not happened.
            let record =
                format!("{vars}; cv_write_record \"$(cv_boot_record 'change a, b')\" 'digest first -'");
            shell.good(root.path(), &record, &[], b"");
            assert_eq!(see(), "restarted -\n", "{}", shell.name);
            std::fs::write(&id, "second\n").unwrap();
            assert_eq!(see(), "restarted digest\n", "{}", shell.name);
            shell.good(root.path(), "cv_adopt_boot \"$1\" \"$2\"", &["change a, b", "restarted other"], b"");
            assert_eq!(see(), "restarted other\n", "{}", shell.name);
        }
    }

    #[test]
    fn a_host_says_why_it_must_restart() {
        let tools = tempfile::tempdir().unwrap();
        for shell in shells(tools.path()) {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("boot");
            std::fs::create_dir(&dir).unwrap();
            let flag = root.path().join("reboot-required");
            let vars = format!(
                "CV_BOOT_KERNELS={} CV_REBOOT_REQUIRED={} CV_BOOT_RUNNING=6.1.0-9-amd64",
                quote(dir.to_str().unwrap()),
                quote(flag.to_str().unwrap())
            );
            let why = || shell.good(root.path(), &format!("{vars}; cv_boot_why"), &[], b"");
            let line = || shell.good(root.path(), &format!("{vars}; cv_line_boot required"), &[], b"");
            std::fs::write(dir.join("vmlinuz-6.1.0-18-amd64"), "").unwrap();
            assert_eq!((why(), line()), (String::new(), "settled\n".to_owned()), "{}", shell.name);
            std::fs::write(dir.join("vmlinuz-6.1.0-9-amd64"), "").unwrap();
            std::fs::write(dir.join("vmlinuz-6.1.0-20-cloud"), "").unwrap();
            assert_eq!(
                why(),
                "kernel 6.1.0-18-amd64 is installed and 6.1.0-9-amd64 runs\n",
                "{}",
                shell.name
            );
            // It restarted for that one, and the boot loader chose another.
            shell.good(root.path(), "cv_write_record \"$CV_ROOT/boot/kernel\" 6.1.0-18-amd64", &[], b"");
            assert_eq!(line(), "settled\n", "{}", shell.name);
            std::fs::write(&flag, "").unwrap();
            std::fs::write(root.path().join("reboot-required.pkgs"), "libc6\nlibc6\ndbus\n").unwrap();
            assert!(why().ends_with("is there for dbus libc6\n"), "{}: {}", shell.name, why());
            assert_eq!(line(), "required\n", "{}", shell.name);
        }
    }

    #[test]
    fn units_that_do_not_come_are_named() {
        let tools = tempfile::tempdir().unwrap();
        let text = "#!/bin/sh\ncase \"$*\" in is-system-running) echo running ;; *good) exit 0 ;; *) echo failed; exit 3 ;; esac\n";
        let path = fake_tool(tools.path(), "systemctl", text);
        for shell in shells(tools.path()) {
            let root = tempfile::tempdir().unwrap();
            let script = |units: &str| {
                format!("PATH={path}:$PATH CV_RESTART_LEFT=0 CV_RESTART_UNITS={units}; cv_back_boot 'once x'")
            };
            shell.good(root.path(), &script("good"), &[], b"");
            let output = shell.run(root.path(), &script("bad"), &[], b"");
            assert!(!output.status.success());
            let reply = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(reply.contains("bad is failed, not active"), "{}: {reply}", shell.name);
        }
    }
}
