//! Swap: all that is in use (key `all`), or one swap file or device (its path).

use converge_resource::{
    AlteredFact, DriftScript, DynEffects, Effects, ErasedObject, Facets, Footprint, Object, Traits, quote,
    state_of_words,
};

/// The state of swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapState {
    /// Of `all`: none is in use. Of a path: nothing is there (`absent`).
    Absent,
    /// Of `all`: these are in use, with their priorities (`in-use NAME PRIORITY…`).
    InUse(Vec<(String, i32)>),
    /// A file or device that is not in use (`idle BYTES swap|other`).
    Idle {
        /// The file's size; 0 for a device.
        size: u64,
        /// Whether it has been made for swap (`mkswap`).
        swap: bool,
    },
    /// In use (`on BYTES PRIORITY`).
    On {
        /// The file's size; 0 for a device.
        size: u64,
        /// Its priority. `None` only in a planned state (`~`): the kernel chooses.
        priority: Option<i32>,
    },
}

impl SwapState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::InUse(list) => {
                let pairs = list.iter().flat_map(|(name, priority)| [name.clone(), priority.to_string()]);
                std::iter::once("in-use".to_owned()).chain(pairs).collect()
            }
            Self::Idle { size, swap } => {
                let sort = if *swap { "swap" } else { "other" };
                vec!["idle".to_owned(), size.to_string(), sort.to_owned()]
            }
            Self::On { size, priority } => {
                let priority = priority.map_or_else(|| "~".to_owned(), |p| p.to_string());
                vec!["on".to_owned(), size.to_string(), priority]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["in-use", pairs @ ..] if pairs.len().is_multiple_of(2) && !pairs.is_empty() => {
                let pair = |p: &[&str]| Some(((*p.first()?).to_owned(), p.get(1)?.parse().ok()?));
                pairs.chunks(2).map(pair).collect::<Option<Vec<_>>>().map(Self::InUse)
            }
            ["idle", size, sort @ ("swap" | "other")] => {
                Some(Self::Idle { size: size.parse().ok()?, swap: *sort == "swap" })
            }
            ["on", size, "~"] => Some(Self::On { size: size.parse().ok()?, priority: None }),
            ["on", size, priority] => {
                Some(Self::On { size: size.parse().ok()?, priority: Some(priority.parse().ok()?) })
            }
            _ => None,
        }
    }
}

state_of_words!(SwapState);

/// The object.
pub struct Swap;

impl Object for Swap {
    const KIND: &'static str = "swap";
    const SHELL: &'static str = include_str!("swap.sh");
    const SECONDS: u64 = 1800;
    const TRAITS: Traits =
        Traits { at_path: true, footprint: Footprint::Place, has_line: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = SwapState;

    fn title(key: &str, _: &SwapState, to: &SwapState) -> String {
        match (key, to) {
            ("all", SwapState::Absent) => "swapoff of all swap".to_owned(),
            ("all", _) => "swapon of what was in use".to_owned(),
            (_, SwapState::On { .. }) => format!("swapon {key}"),
            _ => format!("swapoff {key}"),
        }
    }

    /// A priority that the plan leaves open is any.
    fn fulfils(now: &SwapState, planned: &SwapState) -> bool {
        let mut filled = planned.clone();
        if let (SwapState::On { priority: open @ None, .. }, SwapState::On { priority, .. }) =
            (&mut filled, now)
        {
            *open = *priority;
        }
        *now == filled
    }

    fn facets(state: &SwapState) -> Facets {
        let bytes =
            |size: &u64| ("size", if *size == 0 { "the device".to_owned() } else { size.to_string() });
        match state {
            SwapState::Absent => Vec::new(),
            SwapState::InUse(list) => {
                let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
                vec![("in use", names.join(" "))]
            }
            SwapState::Idle { size, swap } => {
                vec![
                    ("in use", "no".to_owned()),
                    bytes(size),
                    ("made for swap", if *swap { "yes" } else { "no" }.to_owned()),
                ]
            }
            SwapState::On { size, priority } => vec![
                ("in use", "yes".to_owned()),
                bytes(size),
                (
                    "priority",
                    priority.map_or_else(|| "(assigned by the kernel)".to_owned(), |p| p.to_string()),
                ),
            ],
        }
    }

    fn drifts(key: &str, state: &SwapState) -> Vec<DriftScript> {
        match state {
            SwapState::On { .. } => {
                vec![DriftScript::new(
                    "in use",
                    "switched off",
                    format!("swapoff -- {} || exit 3", quote(key)),
                )]
            }
            SwapState::Absent | SwapState::InUse(_) | SwapState::Idle { .. } => Vec::new(),
        }
    }
}

impl Effects for Swap {
    fn alters(key: &str, _: &SwapState, to: &SwapState) -> Vec<AlteredFact> {
        let none = key == "all" && *to == SwapState::Absent;
        vec![("swap_mib", none.then(|| 0.into()))]
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["swap_mib"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    const SWAPON: &str = "#!/bin/sh\np=-2; [ \"$1\" != -p ] || p=$2\nfor last; do :; done\n\
        printf '%s\\tfile\\t8\\t0\\t%s\\n' \"$last\" $p >>\"$CV_SWAPS\"\n";
    const SWAPOFF: &str = "#!/bin/sh\nfor last; do :; done\ngrep -v \"^$last\" \"$CV_SWAPS\" >\"$CV_SWAPS.n\"\nmv \"$CV_SWAPS.n\" \"$CV_SWAPS\"\n";
    const MKSWAP: &str = "#!/bin/sh\nfor last; do :; done\nprintf SWAPSPACE2 | dd of=\"$last\" bs=1 seek=4086 conv=notrunc 2>/dev/null\n";

    #[test]
    fn swap_is_read_made_and_given_back_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        fake_tool(dir.path(), "swapon", SWAPON);
        fake_tool(dir.path(), "swapoff", SWAPOFF);
        let tools = fake_tool(dir.path(), "mkswap", MKSWAP);
        for shell in shells(dir.path()) {
            let (root, disk) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
            let table = disk.path().join("swaps");
            std::fs::write(
                &table,
                "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2\tpartition\t999\t0\t-2\n",
            )
            .unwrap();
            let file = disk.path().join("swap file");
            let key = file.to_str().unwrap();
            let with = |script: &str| {
                format!("PATH='{tools}':$PATH; export CV_SWAPS='{}'; {script}", table.display())
            };
            let see = |key: &str| {
                let answer = shell.good(root.path(), &with("cv_see_swap \"$@\""), &[key], b"");
                SwapState::try_from(
                    crate::testing::parse::<Swap>(&[key], &answer)[key].clone().unwrap().state,
                )
                .unwrap()
            };
            let restore = |key: &str, line: &str| {
                shell.good(root.path(), &with("cv_restore_swap \"$@\""), &[key, line], b"");
            };
            let in_use = SwapState::InUse(vec![("/dev/sda2".to_owned(), -2)]);
            assert_eq!((see("all"), see(key)), (in_use.clone(), SwapState::Absent), "{}", shell.name);
            restore("all", "absent");
            assert_eq!(see("all"), SwapState::Absent, "{}", shell.name);
            restore("all", State::from(in_use.clone()).line());
            assert_eq!(see("all"), in_use);
            // A file: made, with another size, switched off, taken away.
            let made = SwapState::On { size: 1_500_000, priority: Some(7) };
            let plain = disk.path().join("swapfile");
            let key = plain.to_str().unwrap();
            let steps = Swap::steps(&[(key, SwapState::Absent, made.clone())]);
            shell.good(root.path(), &with(&steps[0].script), &[], b"");
            assert_eq!(see(key), made, "{}", shell.name);
            restore(key, "on 65536 9");
            assert_eq!(see(key), SwapState::On { size: 65536, priority: Some(9) }, "{}", shell.name);
            restore(key, "idle 65536 swap");
            assert_eq!(see(key), SwapState::Idle { size: 65536, swap: true }, "{}", shell.name);
            restore(key, "absent");
            assert!(!plain.exists());
            // A file that is not swap is never overwritten.
            std::fs::write(&plain, "precious").unwrap();
            let output = shell.run(root.path(), &with("cv_restore_swap \"$1\" 'on 65536 9'"), &[key], b"");
            assert!(!output.status.success());
            assert_eq!(std::fs::read_to_string(&plain).unwrap(), "precious");
            restore(key, "absent");
            assert!(plain.exists(), "{}", shell.name);
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for line in ["absent", "in-use /dev/sda2 -2 /f 5", "idle 0 other", "on 65536 ~", "on 0 -3"] {
            let state = SwapState::try_from(State::from_line(line)).unwrap();
            assert_eq!(State::from(state).line(), line);
        }
        for bad in ["in-use", "in-use /f", "on 1", "idle x swap"] {
            assert!(SwapState::try_from(State::from_line(bad)).is_err(), "{bad}");
        }
    }
}
