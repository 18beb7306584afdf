//! `kernel_module`

use crate::look::{kernel_may_change, state};
use crate::names::Names;
use crate::own_file::{own_file, own_file_gone};
use crate::presence::Presence;
use converge_objects::ModuleState;
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates, quote};
use schemars::JsonSchema;
use serde::Deserialize;

/// A kernel module: loaded now and at every boot, with options, or kept out.
///
/// At boot it is loaded by `/etc/modules-load.d/converge-NAME.conf`; `options` and `blacklist` are in
/// `/etc/modprobe.d/converge-NAME.conf`. A module that this kernel does not have is refused, unless an earlier resource may bring
/// it. Options of a module that is loaded already count from its next load, and the plan says so. Kernel parameters that come with
/// the module (`sysctl`) may be declared after it.
///
/// Loading and unloading are proved with a recorded `modprobe`, the files on real hosts: the test hosts are containers, whose kernel takes no
/// modules.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelModule {
    /// The module's name: `br_netfilter`. Dashes and underscores are the same.
    name: String,
    /// Whether it is loaded. Absent with `blacklist`, else present.
    state: Option<Presence>,
    /// Load or unload it now. With `false` what runs stays until the next boot.
    #[serde(default = "yes")]
    now: bool,
    /// Load it at every boot.
    #[serde(default = "yes")]
    boot: bool,
    /// Options for the module, one `name=value` or a list of them.
    #[serde(default)]
    options: Names,
    /// Keep the kernel from loading it by itself for a device.
    #[serde(default)]
    blacklist: bool,
}

pub fn yes() -> bool {
    true
}

impl KernelModule {
    fn module(&self) -> String {
        self.name.replace('-', "_")
    }

    fn id(&self) -> ObjectId {
        ObjectId::new("module", self.module())
    }

    fn is_loaded(&self) -> bool {
        self.state.map_or(!self.blacklist, |s| s == Presence::Present)
    }

    fn boot_file(&self) -> String {
        format!("/etc/modules-load.d/converge-{}.conf", self.module())
    }

    fn options_file(&self) -> String {
        format!("/etc/modprobe.d/converge-{}.conf", self.module())
    }

    fn options_text(&self) -> String {
        let mut text = String::new();
        if self.blacklist {
            text.push_str(&format!("blacklist {}\n", self.module()));
        }
        if !self.options.0.is_empty() {
            text.push_str(&format!("options {} {}\n", self.module(), self.options.0.join(" ")));
        }
        text
    }

    /// Asks modprobe, which changes nothing with `-n`, whether this kernel has the module.
    fn probe(&self) -> Probe {
        Probe::run(format!(
            "PATH=$PATH:/usr/sbin:/sbin; modprobe -n -q -- {} || {{ uname -r; exit 1; }}",
            quote(&self.module())
        ))
    }

    fn known_to_the_kernel(&self, view: &dyn View) -> Result<(), Stop> {
        let answer = view.run(&self.probe())?;
        if answer.status == 0 {
            return Ok(());
        }
        match kernel_may_change(view) {
            Some(wait) => Err(Stop::Deferred(wait)),
            None => Err(Stop::invalid_help(
                "/name",
                format!("the kernel {} has no module {}", answer.stdout.trim(), self.name),
                "correct the name, or install the package that brings it before",
            )),
        }
    }
}

impl Resource for KernelModule {
    const KIND: &'static str = "kernel_module";
    const EXAMPLE: &'static str = "\
- name: bridged packets pass the firewall
  kernel_module: {name: br_netfilter}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        if self.name.is_empty() || self.name.starts_with('-') || !self.name.bytes().all(good) {
            let message = format!("`{}` is not the name of a kernel module", self.name);
            errors.push(ParamError::new("/name", message, "write it as `lsmod` shows it, as `br_netfilter`"));
        }
        if self.options.0.iter().any(|o| o.is_empty() || o.chars().any(char::is_control)) {
            errors.push(ParamError::new(
                "/options",
                "an option is empty or has a line break",
                "write `name=value`",
            ));
        }
        if self.blacklist && self.state == Some(Presence::Present) {
            errors.push(ParamError::new(
                "/blacklist",
                "the module is to be loaded and to be kept out",
                "leave `blacklist` or `state: present` out",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        if self.now {
            claims.push(Claim::shared(self.id(), "loaded", self.is_loaded().to_string()));
        }
        for file in [self.options_file(), self.boot_file()] {
            claims.push(Claim::exclusive(crate::look::path_id(&file), "content"));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let options = self.options_text();
        let mut wanted = if options.is_empty() {
            own_file_gone(view, &self.options_file())?
        } else {
            own_file(view, "/name", &self.options_file(), &options)?
        };
        let new_options = match wanted.targets.first() {
            Some((id, to)) => !self.options.0.is_empty() && view.raw(id)? != *to,
            None => false,
        };
        let boot = if self.boot && self.is_loaded() {
            own_file(view, "/name", &self.boot_file(), &format!("{}\n", self.module()))?
        } else {
            own_file_gone(view, &self.boot_file())?
        };
        wanted.targets.extend(boot.targets);
        wanted.contents.extend(boot.contents);
        if self.now {
            let to = match (self.is_loaded(), state::<ModuleState>(view, &self.id())?) {
                (true, ModuleState::Absent) => {
                    self.known_to_the_kernel(view)?;
                    ModuleState::Loaded
                }
                (true, now) => {
                    if new_options {
                        wanted
                            .notes
                            .push(format!("{} runs: the options count from its next load", self.name));
                    }
                    now
                }
                (false, ModuleState::Builtin) => {
                    wanted.notes.push(format!("{} is a fixed part of this kernel: it stays", self.name));
                    ModuleState::Builtin
                }
                (false, _) => ModuleState::Absent,
            };
            wanted.targets.push((self.id(), to.into()));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::look::path_id;
    use serde_json::json;

    fn host() -> FakeView {
        FakeView::new().dir("/etc/modules-load.d").dir("/etc/modprobe.d")
    }

    #[test]
    fn it_is_loaded_now_and_at_boot() {
        let kind = read::<KernelModule>(json!({"name": "br-netfilter", "options": ["a=1", "b=2"]}));
        let after = settle(&kind, host().answer(&kind.probe(), 0, ""));
        assert_eq!(after.line(&kind.id()), "loaded");
        assert_eq!(after.text("/etc/modules-load.d/converge-br_netfilter.conf"), "br_netfilter\n");
        assert_eq!(
            after.text("/etc/modprobe.d/converge-br_netfilter.conf"),
            "options br_netfilter a=1 b=2\n"
        );
        let built_in = host().has(kind.id(), ModuleState::Builtin);
        assert_eq!(settle(&kind, built_in).line(&kind.id()), "builtin");
        let other = read::<KernelModule>(json!({"name": "br_netfilter", "options": "a=3"}));
        assert!(other.plan(&after).unwrap().notes[0].contains("next load"));
    }

    #[test]
    fn a_blacklisted_module_is_unloaded_and_not_loaded_at_boot() {
        let kind = read::<KernelModule>(json!({"name": "nouveau", "blacklist": true}));
        let loaded = host().has(kind.id(), ModuleState::Loaded).file(
            "/etc/modules-load.d/converge-nouveau.conf",
            0o644,
            "nouveau\n",
        );
        let after = settle(&kind, loaded.clone());
        assert_eq!(after.line(&kind.id()), "absent");
        assert_eq!(after.line(&path_id("/etc/modules-load.d/converge-nouveau.conf")), "absent");
        assert_eq!(after.text("/etc/modprobe.d/converge-nouveau.conf"), "blacklist nouveau\n");
        let later = read::<KernelModule>(json!({"name": "nouveau", "blacklist": true, "now": false}));
        assert_eq!(settle(&later, loaded).line(&kind.id()), "loaded");
    }

    #[test]
    fn a_module_that_the_kernel_lacks_is_refused_or_waited_for() {
        let kind = read::<KernelModule>(json!({"name": "nvidia"}));
        let view = host().answer(&kind.probe(), 1, "6.1.0-9-amd64\n");
        let Err(Stop::Invalid { message, .. }) = kind.plan(&view) else { panic!("it is accepted") };
        assert_eq!(message, "the kernel 6.1.0-9-amd64 has no module nvidia");
        assert!(matches!(kind.plan(&view.pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<KernelModule>(json!({"name": "a.ko", "options": "a\nb"})), ["/name", "/options"]);
        assert_eq!(
            wrong::<KernelModule>(json!({"name": "a", "state": "present", "blacklist": true})),
            ["/blacklist"]
        );
    }
}
