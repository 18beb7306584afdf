//! A kernel parameter's running value. Its key is the dotted name: `net.ipv4.ip_forward`.

use crate::programs::{not_known, of_sysctl};
use converge_resource::{
    AlteredFact, DriftScript, DynEffects, DynNeeds, Effects, ErasedObject, Facets, Footprint, Needs, Object,
    Reversibility, Traits, quote, state_of_words,
};

/// The state of a kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SysctlState {
    /// This kernel has no such parameter, or its module is not loaded (`absent`).
    Absent,
    /// Its running value (`value TEXT`), runs of blanks made one space, trimmed.
    Value(String),
}

impl SysctlState {
    /// A value as the host prints it: runs of blanks made one space, trimmed.
    pub fn value(text: &str) -> Self {
        Self::Value(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl SysctlState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Value(text) => vec!["value".to_owned(), text.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["value", text] => Some(Self::Value((*text).to_owned())),
            _ => None,
        }
    }
}

state_of_words!(SysctlState);

/// The object.
pub struct Sysctl;

impl Object for Sysctl {
    const KIND: &'static str = "sysctl";
    const SHELL: &'static str = include_str!("sysctl.sh");
    const TRAITS: Traits = Traits { footprint: Footprint::Named, runs_no_code: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = SysctlState;

    fn title(key: &str, _: &SysctlState, _: &SysctlState) -> String {
        format!("set {key}")
    }

    fn reversibility(key: &str, from: &SysctlState, _: &SysctlState) -> Reversibility {
        match from {
            SysctlState::Absent => {
                Reversibility::Irreversible(format!("{key} has no value now to go back to"))
            }
            SysctlState::Value(_) => Reversibility::Reversible,
        }
    }

    fn facets(state: &SysctlState) -> Facets {
        match state {
            SysctlState::Absent => Vec::new(),
            SysctlState::Value(value) => vec![("value", value.clone())],
        }
    }

    fn drifts(key: &str, state: &SysctlState) -> Vec<DriftScript> {
        let SysctlState::Value(text) = state else { return Vec::new() };
        let other = match text.parse::<i64>() {
            Ok(0) => 1,
            Ok(number) => number - 1,
            Err(_) => return Vec::new(),
        };
        let swap = |c: char| match c {
            '.' => '/',
            '/' if key.contains('/') => '.',
            other => other,
        };
        let file = format!("/proc/sys/{}", key.chars().map(swap).collect::<String>());
        // Not every kernel takes every number.
        let script = format!("echo {other} >{} || exit 3", quote(&file));
        vec![DriftScript::new("value", format!("value {other}"), script)]
    }
}

impl Effects for Sysctl {
    fn alters(key: &str, _: &SysctlState, _: &SysctlState) -> Vec<AlteredFact> {
        not_known(of_sysctl(key))
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_sysctl(key)
    }
}

impl Needs for Sysctl {
    fn stands_on(_: &str, state: &SysctlState) -> Vec<String> {
        if matches!(state, SysctlState::Value(_)) { vec!["sysctl".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;

    #[test]
    fn the_running_kernel_is_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let keys = [
            "kernel.ostype",
            "kernel.pid_max",
            "net.ipv4.tcp_rmem",
            "no.such.key",
            "kernel",
            "../../etc.passwd",
        ];
        let file = |path: &str| std::fs::read_to_string(path).unwrap();
        for shell in shells(dir.path()) {
            let observed = crate::testing::parse::<Sysctl>(
                &keys,
                &shell.good(dir.path(), "cv_see_sysctl \"$@\"", &keys, b""),
            );
            let state = |key: &str| observed[key].clone().unwrap().state;
            for (key, path) in
                [("kernel.ostype", "/proc/sys/kernel/ostype"), ("kernel.pid_max", "/proc/sys/kernel/pid_max")]
            {
                assert_eq!(state(key), State::from(SysctlState::value(&file(path))), "{}", shell.name);
            }
            assert!(state("no.such.key").is_absent());
            assert!(observed["kernel"].as_ref().unwrap_err().0.contains("group of kernel parameters"));
            // A key cannot lead out of /proc/sys.
            assert!(!matches!(&observed["../../etc.passwd"], Ok(o) if !o.state.is_absent()));
            let path = shell.good(dir.path(), "cv_sysctl_path net.ipv4.conf.eth0/7.rp_filter", &[], b"");
            assert_eq!(path.trim_end(), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
        }
    }

    #[test]
    fn values_are_compared_without_their_blanks() {
        assert_eq!(
            SysctlState::value(" 4096\t131072  6291456\n"),
            SysctlState::Value("4096 131072 6291456".to_owned())
        );
        let line = State::from(SysctlState::value("1 2"));
        assert_eq!(SysctlState::try_from(line), Ok(SysctlState::Value("1 2".to_owned())));
        assert!(SysctlState::try_from(State::from_line("value 1 2")).is_err());
    }
}
