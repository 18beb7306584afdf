//! A kernel parameter's running value. Its key is the dotted name: `net.ipv4.ip_forward`.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step, quote,
};
use std::collections::BTreeMap;

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

impl From<SysctlState> for State {
    fn from(state: SysctlState) -> Self {
        match state {
            SysctlState::Absent => Self::absent(),
            SysctlState::Value(text) => Self::from_words(["value", &text]),
        }
    }
}

impl TryFrom<State> for SysctlState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["value", text] => Ok(Self::Value((*text).to_owned())),
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}

/// The object.
pub struct Sysctl;

impl Object for Sysctl {
    const KIND: &'static str = "sysctl";
    const SHELL: &'static str = include_str!("sysctl.sh");
    type State = SysctlState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<SysctlState>(keys, answer)
    }

    fn steps(changes: &[(&str, SysctlState, SysctlState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, _, to)| {
                let line = State::from(to.clone());
                Step::new(
                    format!("set {key}"),
                    format!("cv_apply_sysctl {} {}", quote(key), quote(line.line())),
                )
            })
            .collect()
    }

    fn reversibility(key: &str, from: &SysctlState, _: &SysctlState) -> Reversibility {
        match from {
            SysctlState::Absent => {
                Reversibility::Irreversible(format!("{key} has no value now to go back to"))
            }
            SysctlState::Value(_) => Reversibility::Reversible,
        }
    }

    fn opaque(_: &SysctlState, _: &SysctlState) -> bool {
        false
    }

    fn attributes(from: &SysctlState, to: &SysctlState) -> Vec<AttributeChange> {
        differing(&["value"], &facets(from), &facets(to))
    }

    fn content(_: &SysctlState) -> Option<Digest> {
        None
    }
}

fn facets(state: &SysctlState) -> BTreeMap<&'static str, String> {
    match state {
        SysctlState::Absent => BTreeMap::new(),
        SysctlState::Value(value) => BTreeMap::from([("value", value.clone())]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;

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
            let seen = Sysctl::parse(&keys, &shell.good(dir.path(), "cv_see_sysctl \"$@\"", &keys, b""));
            let state = |key: &str| seen[key].clone().unwrap().state;
            for (key, path) in
                [("kernel.ostype", "/proc/sys/kernel/ostype"), ("kernel.pid_max", "/proc/sys/kernel/pid_max")]
            {
                assert_eq!(state(key), State::from(SysctlState::value(&file(path))), "{}", shell.name);
            }
            assert!(state("no.such.key").is_absent());
            assert!(seen["kernel"].as_ref().unwrap_err().0.contains("group of kernel parameters"));
            // A key cannot lead out of /proc/sys.
            assert!(!matches!(&seen["../../etc.passwd"], Ok(o) if !o.state.is_absent()));
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
