//! A snap of snapd. Its key is the snap's name.

use crate::programs::{not_known, of_package};
use converge_resource::{
    AlteredFact, BroughtObjects, DriftScript, DynEffects, DynNeeds, Effects, ErasedObject, Facets, Needs,
    Object, Reversibility, Traits, quote, state_of_words,
};
use std::fmt;

/// A revision of a snap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapRevision {
    /// The store's (`3070`).
    Store(u32),
    /// That of a file, which snapd counts on this host alone (`x1`). No store knows it.
    File(u32),
}

impl SnapRevision {
    fn read(word: &str) -> Option<Self> {
        match word.strip_prefix('x') {
            Some(number) => number.parse().ok().map(Self::File),
            None => word.parse().ok().map(Self::Store),
        }
    }
}

impl fmt::Display for SnapRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(number) => write!(f, "{number}"),
            Self::File(number) => write!(f, "x{number}"),
        }
    }
}

/// The state of a snap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapState {
    /// Not installed (`absent`).
    Absent,
    /// Installed (`snap CHANNEL REVISION strict|classic|devmode hold|-`).
    Snap {
        /// The channel that it tracks, in full: `latest/stable`. `-` for a snap from a file that tracks none.
        channel: String,
        /// The revision. `None` only in a planned state (`~` in the line): the store chooses it by the channel.
        revision: Option<SnapRevision>,
        /// `strict`, `classic` or `devmode`.
        confinement: String,
        /// Held: snapd does not refresh it by itself.
        hold: bool,
    },
}

impl SnapState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Snap { channel, revision, confinement, hold } => vec![
                "snap".to_owned(),
                channel.clone(),
                revision.map_or_else(|| "~".to_owned(), |n| n.to_string()),
                confinement.clone(),
                if *hold { "hold" } else { "-" }.to_owned(),
            ],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            [
                "snap",
                channel,
                revision,
                confinement @ ("strict" | "classic" | "devmode"),
                hold @ ("hold" | "-"),
            ] => Some(Self::Snap {
                channel: (*channel).to_owned(),
                revision: if *revision == "~" { None } else { Some(SnapRevision::read(revision)?) },
                confinement: (*confinement).to_owned(),
                hold: *hold == "hold",
            }),
            _ => None,
        }
    }
}

state_of_words!(SnapState);

/// The object.
pub struct Snap;

impl Object for Snap {
    const KIND: &'static str = "snap";
    const SHELL: &'static str = include_str!("snap.sh");
    const SECONDS: u64 = 1800;
    const TRAITS: Traits = Traits { holds_data: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = SnapState;

    fn title(key: &str, from: &SnapState, to: &SnapState) -> String {
        match (from, to) {
            (_, SnapState::Absent) => format!("snap remove {key}"),
            (SnapState::Absent, SnapState::Snap { channel, .. }) => format!("snap install {key} ({channel})"),
            (SnapState::Snap { .. }, SnapState::Snap { channel, .. }) => {
                format!("snap refresh {key} ({channel})")
            }
        }
    }

    fn reversibility(_: &str, from: &SnapState, to: &SnapState) -> Reversibility {
        match (from, to) {
            (SnapState::Snap { .. }, SnapState::Absent) => Reversibility::Irreversible(
                "the snap's data goes with it; `snap saved` shows what snapd keeps of it".to_owned(),
            ),
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(from: &SnapState, to: &SnapState) -> bool {
        let without_hold = |state: &SnapState| match state {
            SnapState::Absent => None,
            SnapState::Snap { channel, revision, confinement, .. } => {
                Some((channel.clone(), *revision, confinement.clone()))
            }
        };
        without_hold(from) != without_hold(to)
    }

    /// A revision that the plan leaves open is any. So is the channel where a snap from a file tracked none: snapd does not forget a channel.
    fn fulfils(now: &SnapState, planned: &SnapState) -> bool {
        let mut filled = planned.clone();
        if let (
            SnapState::Snap { channel: to, revision: open, .. },
            SnapState::Snap { channel, revision, .. },
        ) = (&mut filled, now)
        {
            if open.is_none() {
                *open = *revision;
            }
            if to == "-" {
                to.clone_from(channel);
            }
        }
        *now == filled
    }

    fn facets(state: &SnapState) -> Facets {
        match state {
            SnapState::Absent => Vec::new(),
            SnapState::Snap { channel, revision, confinement, hold } => vec![
                ("channel", channel.clone()),
                (
                    "revision",
                    revision.map_or_else(|| "the newest of the channel".to_owned(), |n| n.to_string()),
                ),
                ("confinement", confinement.clone()),
                ("hold", if *hold { "held" } else { "no" }.to_owned()),
            ],
        }
    }

    fn drifts(key: &str, state: &SnapState) -> Vec<DriftScript> {
        let SnapState::Snap { hold, .. } = state else { return Vec::new() };
        let snap = quote(key);
        let (did, option) = if *hold { ("let go", "--unhold") } else { ("held", "--hold") };
        vec![
            DriftScript::new("hold", did, format!("snap refresh {option} {snap} >/dev/null")),
            DriftScript::new("presence", "removed", format!("snap remove {snap} >/dev/null")),
        ]
    }
}

impl Effects for Snap {
    fn may_bring(from: &SnapState, _: &SnapState) -> Option<BroughtObjects> {
        (*from == SnapState::Absent)
            .then_some(BroughtObjects { verb: "installing", kinds: &["path", "unit"] })
    }

    fn alters(key: &str, _: &SnapState, _: &SnapState) -> Vec<AlteredFact> {
        not_known(of_package(key))
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_package(key)
    }
}

impl Needs for Snap {
    fn stands_on(_: &str, state: &SnapState) -> Vec<String> {
        if matches!(state, SnapState::Snap { .. }) { vec!["snap".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    fn snap(channel: &str, revision: Option<u32>, confinement: &str, hold: bool) -> SnapState {
        let revision = revision.map(SnapRevision::Store);
        SnapState::Snap { channel: channel.to_owned(), revision, confinement: confinement.to_owned(), hold }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for (state, line) in [
            (SnapState::Absent, "absent"),
            (snap("latest/stable", None, "strict", false), "snap latest/stable ~ strict -"),
            (snap("1.34/stable", Some(7), "classic", true), "snap 1.34/stable 7 classic hold"),
        ] {
            assert_eq!(State::from(state.clone()).line(), line);
            assert_eq!(SnapState::try_from(State::from_line(line)), Ok(state));
        }
        let from_file = SnapState::try_from(State::from_line("snap - x1 strict -")).unwrap();
        assert_eq!(State::from(from_file.clone()).line(), "snap - x1 strict -");
        assert!(Snap::facets(&from_file).contains(&("revision", "x1".to_owned())));
        assert!(SnapState::try_from(State::from_line("snap a y1 strict -")).is_err());
        assert!(Snap::opaque(&SnapState::Absent, &snap("a", None, "strict", false)));
        assert!(!Snap::opaque(&snap("a", Some(1), "strict", false), &snap("a", Some(1), "strict", true)));
    }

    /// A stand-in for snap 2.63 that prints a table, which its other commands write.
    const SNAP: &str = r#"#!/bin/sh
set -f
table=$0.table
case $1 in
list)
  echo 'Name     Version  Rev   Tracking       Publisher    Notes'
  shift 2
  for name; do grep "^$name " "$table"; done
  exit 0
  ;;
info) echo 'name: x'; echo 'tracking:     latest/stable/ubuntu-22.04'; exit 0 ;;
esac
echo "$*" >>"$0.log"
for last; do :; done
row=$(grep "^$last " "$table")
grep -v "^$last " "$table" >"$table.new"
case "$*" in
remove*) row= ;;
*--hold*) row=$(echo "$row" | sed 's/ -$/ held/') ;;
*--unhold*) row=$(echo "$row" | sed 's/ held$/ -/') ;;
switch*) row=$(echo "$row" | sed "s| - - | ${2#*=} - |") ;;
*)
  channel= rev=42 notes=-
  for word; do case $word in --channel=*) channel=${word#*=} ;; --revision=*) rev=${word#*=} ;; --classic) notes=classic ;; esac; done
  row="$last 1.0 $rev $channel canonical** $notes"
  ;;
esac
[ -z "$row" ] || echo "$row" >>"$table.new"
mv "$table.new" "$table"
"#;

    #[test]
    fn snaps_come_and_go_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tools = fake_tool(dir.path(), "snap", SNAP);
        let table = format!("{tools}/snap.table");
        for shell in shells(dir.path()) {
            std::fs::write(
                &table,
                "core22 20240111 1122 latest/stable canonical** base\nlxd 5.0 99 latest/stable/... canonical** held\noff 1 5 latest/stable x disabled\n",
            )
            .unwrap();
            let run =
                |script: &str| shell.good(dir.path(), &format!("PATH='{tools}':$PATH; {script}"), &[], b"");
            let keys = ["core22", "lxd", "gone", "off"];
            let observed = crate::testing::parse::<Snap>(
                &keys,
                &shell.good(dir.path(), &format!("PATH='{tools}':$PATH; cv_see_snap \"$@\""), &keys, b""),
            );
            let line = |key: &str| observed[key].as_ref().unwrap().state.line().to_owned();
            assert_eq!(line("core22"), "snap latest/stable 1122 strict -", "{}", shell.name);
            assert_eq!(line("lxd"), "snap latest/stable/ubuntu-22.04 99 strict hold");
            assert_eq!(line("gone"), "absent");
            assert!(observed["off"].as_ref().unwrap_err().0.contains("disabled"));
            let now = || run("cv_line_snap kubectl").trim().to_owned();
            run("cv_apply_snap kubectl 'snap 1.34/stable ~ classic -'");
            assert_eq!(now(), "snap 1.34/stable 42 classic -", "{}", shell.name);
            run("cv_same_snap kubectl 'snap 1.34/stable 42 classic -' 'snap 1.34/stable ~ classic -'");
            run("! cv_same_snap kubectl 'snap 1.33/stable 42 classic -' 'snap 1.34/stable ~ classic -'");
            run("! cv_same_snap kubectl absent 'snap 1.34/stable ~ classic -'");
            run("cv_restore_snap kubectl 'snap 1.33/stable 7 strict -'");
            assert_eq!(now(), "snap 1.33/stable 7 strict -");
            run("cv_apply_snap kubectl 'snap 1.33/stable 7 strict hold'");
            assert_eq!(now(), "snap 1.33/stable 7 strict hold", "{}", shell.name);
            run("cv_apply_snap kubectl 'snap 1.33/stable 7 strict -'");
            assert_eq!(now(), "snap 1.33/stable 7 strict -");
            // A snap from a file: under another channel it is the same, the store's replaces it on request, and none brings it back.
            std::fs::write(&table, "kubectl 1.0 x1 - - classic\n").unwrap();
            std::fs::write(format!("{tools}/snap.log"), "").unwrap();
            assert_eq!(now(), "snap - x1 classic -", "{}", shell.name);
            run("cv_apply_snap kubectl 'snap 1.34/stable x1 classic -'");
            run("cv_same_snap kubectl 'snap 1.34/stable x1 classic -' 'snap - x1 classic -'");
            run("! cv_same_snap kubectl 'snap 1.34/stable x2 classic -' 'snap - x1 classic -'");
            run("cv_apply_snap kubectl 'snap 1.35/stable ~ classic -'");
            std::fs::write(&table, "kubectl 1.0 x2 1.35/stable - classic\n").unwrap();
            run("cv_apply_snap kubectl 'snap 1.34/stable x1 classic -'");
            let log = std::fs::read_to_string(format!("{tools}/snap.log")).unwrap();
            let asked = [
                "switch --channel=1.34/stable kubectl",
                "refresh --channel=1.35/stable --classic --amend kubectl",
                "refresh --channel=1.34/stable --revision=x1 --classic kubectl",
            ];
            assert_eq!(log.lines().collect::<Vec<_>>(), asked, "{}", shell.name);
            run("cv_apply_snap kubectl absent");
            run("! cv_apply_snap kubectl 'snap 1.34/stable x1 classic -' 2>/dev/null");
            run("cv_apply_snap kubectl 'snap 1.34/stable x1 classic -' 2>&1 | grep -q 'came from a file'");
            assert_eq!(now(), "absent");
        }
    }
}
