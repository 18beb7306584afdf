//! `swap`

use crate::above::{is_changed_above, need_parent, need_root_only};
use crate::fstab::{self, FSTAB, Which};
use crate::kinds::kernel_module::yes;
use crate::look::{check_path, normal, path_id, state};
use crate::presence::Presence;
use crate::size::Size;
use converge_objects::SwapState;
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// Swap: off altogether, as Kubernetes wants it, or a swap file or device that is on, now and at boot.
///
/// `state: absent` without `path` turns all swap off and comments the lines of swap in `/etc/fstab` out; a rollback turns on what was in use,
/// with its priorities. With `path` and `size` a swap file is made; a file that is there and is no swap is never written over. A device must
/// have been made for swap (`mkswap`) already. What systemd makes of a GPT or of zram-generator comes back at boot: keep it out at its
/// source.
///
/// Proved with recorded `swapon`, `swapoff` and `mkswap`: the test hosts are containers, which may not turn swap on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// A swap file or device. Left out with `state: absent`: all swap.
    path: Option<String>,
    /// The size of a swap file: `2GiB`, `512MiB`, or bytes.
    size: Option<Size>,
    /// Which swap is used first: 0 to 32767, the highest first. Left out, the kernel chooses.
    priority: Option<i32>,
    /// Whether it is in use. A swap file that is absent is removed.
    #[serde(default)]
    state: Presence,
    /// Turn it on or off now. With `false` only `/etc/fstab` says so.
    #[serde(default = "yes")]
    now: bool,
    /// Have the line in `/etc/fstab`.
    #[serde(default = "yes")]
    boot: bool,
}

impl Swap {
    fn id(&self) -> ObjectId {
        ObjectId::new("swap", self.path.as_deref().map_or_else(|| "all".to_owned(), normal))
    }

    fn entry(&self) -> Option<Vec<String>> {
        let path = self.path.clone().filter(|_| self.state == Presence::Present)?;
        let options = self.priority.map_or_else(|| "sw".to_owned(), |p| format!("sw,pri={p}"));
        Some(vec![path, "none".to_owned(), "swap".to_owned(), options, "0".to_owned(), "0".to_owned()])
    }

    fn need_root_only(&self, view: &dyn View) -> Result<(), Stop> {
        let remedy = "choose a place where only root may write";
        self.path
            .as_deref()
            .map_or(Ok(()), |path| need_root_only(view, "/path", &normal(path), "swapping", remedy))
    }

    /// The swap file or device in use.
    fn on(&self, view: &dyn View, path: &str) -> Result<SwapState, Stop> {
        let size = self.size.map(|s| s.0);
        let not_swap = || {
            Stop::invalid_help(
                "/path",
                format!("{path} is there and is no swap"),
                "name another file, or run `mkswap` on it first",
            )
        };
        Ok(match state::<SwapState>(view, &self.id())? {
            SwapState::On { size: now, priority } => {
                let retained = size.unwrap_or(now) == now;
                let priority = self.priority.or(priority.filter(|_| retained));
                SwapState::On { size: size.filter(|_| now != 0).unwrap_or(now), priority }
            }
            SwapState::Idle { swap: false, .. } => return Err(not_swap()),
            SwapState::Idle { size: 0, .. } => SwapState::On { size: 0, priority: self.priority },
            SwapState::Idle { size: now, .. } => {
                SwapState::On { size: size.unwrap_or(now), priority: self.priority }
            }
            SwapState::Absent | SwapState::InUse(_) => {
                need_parent(view, "/path", path)?;
                self.need_root_only(view)?;
                match (size, view.may_appear(&path_id(path))) {
                    (Some(size), _) => SwapState::On { size, priority: self.priority },
                    (None, Some(wait)) => return Err(Stop::Deferred(wait)),
                    (None, None) => {
                        let help = "add `size: 2GiB`, say, to have it made";
                        return Err(Stop::invalid_help("/path", format!("{path} does not exist"), help));
                    }
                }
            }
        })
    }
}

impl Resource for Swap {
    const KIND: &'static str = "swap";
    const EXAMPLE: &'static str = "\
- name: the kubelet runs without swap
  swap: {state: absent}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        if let Some(path) = &self.path {
            check_path("/path", path, &mut errors);
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.path.is_none() && self.state == Presence::Present {
            wrong(
                "",
                "nothing says what is used as swap",
                "add `path`, or `state: absent` for no swap at all",
            );
        }
        if self.state == Presence::Absent && (self.size.is_some() || self.priority.is_some()) {
            wrong("/state", "absent swap has no size and no priority", "leave them out");
        }
        if self.size.is_some_and(|s| s.0 < 1 << 16) {
            wrong("/size", "this is too small for swap", "write 64KiB at least");
        }
        if self.priority.is_some_and(|p| !(0..=32767).contains(&p)) {
            wrong("/priority", "the priority is out of range", "write 0 to 32767");
        }
        if !self.now && !self.boot {
            wrong("", "with `now: false` and `boot: false` nothing is left to do", "leave one of them out");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        if self.now {
            claims.push(Claim::exclusive(self.id(), "in use"));
        }
        claims.push(Claim::edit(path_id(FSTAB), "content"));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let entry = self.entry();
        let which = self.path.as_deref().map_or(Which::AllSwap, Which::Swap);
        let mut wanted =
            if self.boot { fstab::plan(view, which, entry.as_deref())? } else { WantedStates::default() };
        if self.now {
            // Where nothing above it changes, the host has judged.
            if self.path.as_deref().is_some_and(|path| is_changed_above(view, path)) {
                self.need_root_only(view)?;
            }
            let to = match (&self.path, self.state) {
                (Some(path), Presence::Present) => self.on(view, path)?,
                _ => match state::<SwapState>(view, &self.id())? {
                    // A file that is not swap is not removed.
                    other @ SwapState::Idle { swap: false, .. } => other,
                    device @ SwapState::Idle { size: 0, .. } => device,
                    SwapState::On { size: 0, .. } => SwapState::Idle { size: 0, swap: true },
                    _ => SwapState::Absent,
                },
            };
            wanted.targets.insert(0, (self.id(), to.into()));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_objects::PathState;
    use converge_resource::State;
    use serde_json::json;

    fn host() -> FakeView {
        FakeView::new().file(FSTAB, 0o644, "UUID=1 / ext4 defaults 0 1\nUUID=2 none swap sw 0 0\n")
    }

    #[test]
    fn all_swap_goes() {
        let kind = read::<Swap>(json!({"state": "absent"}));
        let after = settle(&kind, host().has(kind.id(), State::from_line("in-use /dev/sda2 -2 /f 5")));
        assert_eq!(after.line(&kind.id()), "absent");
        assert!(after.text(FSTAB).ends_with("\n# UUID=2 none swap sw 0 0\n"));
        settle(&kind, FakeView::new());
    }

    #[test]
    fn a_swap_file_is_made_or_left() {
        let kind = read::<Swap>(json!({"path": "/swapfile", "size": "2GiB", "priority": 5}));
        let after = settle(&kind, host());
        assert_eq!(after.line(&kind.id()), "on 2147483648 5");
        assert!(after.text(FSTAB).ends_with("/swapfile none swap sw,pri=5 0 0\n"));
        let open = read::<Swap>(json!({"path": "/swapfile", "size": "2GiB"}));
        assert_eq!(settle(&open, after.clone()).line(&kind.id()), "on 2147483648 5");
        assert_eq!(settle(&open, host()).line(&kind.id()), "on 2147483648 ~");
        let gone = read::<Swap>(json!({"path": "/swapfile", "state": "absent"}));
        assert_eq!(settle(&gone, after).line(&kind.id()), "absent");
        let precious = host().has(kind.id(), State::from_line("idle 9 other"));
        assert!(matches!(kind.plan(&precious), Err(Stop::Invalid { .. })));
        assert_eq!(settle(&gone, precious).line(&kind.id()), "idle 9 other");
    }

    #[test]
    fn no_swap_file_is_made_in_a_users_directory_that_this_run_makes() {
        let kind = read::<Swap>(json!({"path": "/srv/u/swap", "size": "1GiB"}));
        let dir = |owner: &str| {
            let dir = PathState::Dir { mode: 0o755, owner: owner.into(), group: "root".into() };
            host().dir("/srv").has(path_id("/srv/u"), dir).changes(path_id("/srv/u"))
        };
        let Err(Stop::Invalid { pointer, message, .. }) = kind.plan(&dir("alice")) else {
            panic!("it is made")
        };
        assert_eq!(pointer, "/path");
        assert!(message.starts_with("/srv/u/swap: others than root may write to /srv/u, where swapping"));
        settle(&kind, dir("root"));
    }

    #[test]
    fn a_device_must_be_there() {
        let kind = read::<Swap>(json!({"path": "/dev/sda2"}));
        assert!(matches!(kind.plan(&host().dir("/dev")), Err(Stop::Invalid { .. })));
        assert!(matches!(kind.plan(&host().dir("/dev").may(path_id("/dev/sda2"))), Err(Stop::Deferred(_))));
        let idle = host().has(kind.id(), State::from_line("idle 0 swap"));
        let after = settle(&kind, idle);
        assert_eq!(after.line(&kind.id()), "on 0 ~");
        let gone = read::<Swap>(json!({"path": "/dev/sda2", "state": "absent"}));
        assert_eq!(settle(&gone, after).line(&kind.id()), "idle 0 swap");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Swap>(json!({})), [""]);
        assert_eq!(wrong::<Swap>(json!({"state": "absent", "priority": 1})), ["/state"]);
        assert_eq!(
            wrong::<Swap>(json!({"path": "f", "size": 9, "priority": -1})),
            ["/path", "/size", "/priority"]
        );
        assert_eq!(wrong::<Swap>(json!({"path": "/f", "size": "2 parsecs"})), ["parse /size"]);
    }
}
