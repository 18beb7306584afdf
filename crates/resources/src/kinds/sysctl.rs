//! `sysctl`

use crate::attrs::Attrs;
use crate::boot_settings::later_setting;
use crate::edit::Edit;
use crate::lines::{Insert, LineEdit};
use crate::look::{Asks, check_path, kernel_may_change, normal, path_id, sysctl, sysctl_id};
use crate::own_file::own_file;
use crate::text_or_number::TextOrNumber;
use converge_objects::SysctlState;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use regex::Regex;
use schemars::JsonSchema;

/// A kernel parameter: its value now, and a file in `/etc/sysctl.d` that sets it at boot.
///
/// The file is `99-converge-NAME.conf`, or the one that `file` names, of which other lines are left alone. A file that is read after
/// it at boot (`/etc/sysctl.d/zz.conf`, or `/etc/sysctl.conf` through Debian's link) and sets another value is an error: name that file in
/// `file`, or take its line away before. A parameter that the kernel does not have is refused, unless an earlier resource may load its module.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sysctl {
    /// The dotted name: `net.ipv4.ip_forward`. A slash stands for a dot inside a part.
    name: String,
    /// The value: a number, or text as the kernel prints it.
    value: TextOrNumber<false>,
    /// The file that sets it at boot.
    file: Option<String>,
}

impl Sysctl {
    /// The value in the kernel's own spacing.
    fn text(&self) -> String {
        self.value.0.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn line(&self) -> String {
        format!("{} = {}", self.name, self.text())
    }

    fn own_file(&self) -> String {
        format!("/etc/sysctl.d/99-converge-{}.conf", self.name.replace('/', "-"))
    }

    /// The file as it is to be.
    fn at_boot(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let attrs = Attrs { mode: None, owner: None, group: None };
        if let Some(file) = &self.file {
            let pattern = Regex::new(&format!(r"^\s*-?\s*{}\s*=", regex::escape(&self.name)))
                .map_err(|e| Stop::invalid("/name", e.to_string()))?;
            let edit = Edit { path: file, create: true, removes: false, attrs, culprit: "/file" };
            let line = self.line();
            let wish = LineEdit {
                line: &line,
                regexp: Some(&pattern),
                insert: Insert::End,
                backrefs: false,
                first_match: false,
            };
            return edit.plan(view, &|text| Ok(wish.present(text)));
        }
        own_file(view, "/name", &self.own_file(), &format!("{}\n", self.line()))
    }

    /// Refuses what another file would take back at the next boot.
    fn check_boot(&self, view: &dyn View) -> Result<(), Stop> {
        let own = self.file.as_deref().map_or_else(|| self.own_file(), normal);
        match later_setting(view, &self.name, &own)? {
            Some(later) if later.value != self.text() => Err(Stop::invalid_help(
                if self.file.is_some() { "/file" } else { "/name" },
                format!(
                    "{} is read after {own} at boot, and sets {} to {}: this value would be lost",
                    later.file, self.name, later.value
                ),
                format!(
                    "write `file: {}`, or take the line away with a `line` resource before this one",
                    later.file
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl Resource for Sysctl {
    const KIND: &'static str = "sysctl";
    const EXAMPLE: &'static str = "\
- name: packets are forwarded
  sysctl: {name: net.ipv4.ip_forward, value: 1}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-/@:".contains(&b);
        let parts = self.name.split(['.', '/']).all(|p| !p.is_empty());
        if !self.name.bytes().all(good) || !parts {
            let help = "write it with dots, as `net.ipv4.ip_forward`";
            errors.push(ParamError::new(
                "/name",
                format!("`{}` is not the name of a kernel parameter", self.name),
                help,
            ));
        }
        if self.text().is_empty() || self.value.0.contains(['\n', '\0']) {
            errors.push(ParamError::new(
                "/value",
                "the value is empty or has a line break",
                "write one line",
            ));
        }
        if let Some(file) = &self.file {
            check_path("/file", file, &mut errors);
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let file = match &self.file {
            Some(file) => Claim::edit(path_id(file), "content"),
            None => Claim::exclusive(path_id(&self.own_file()), "content"),
        };
        vec![file, Claim::shared(sysctl_id(&self.name), "value", self.text())]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut asks = Asks::default();
        let now = asks.take(sysctl(view, &self.name))?;
        if now == Some(SysctlState::Absent) {
            // A module may bring it: an earlier command may load one.
            let wait = view.may_appear(&sysctl_id(&self.name)).or_else(|| kernel_may_change(view));
            return Err(match wait {
                Some(mut wait) => {
                    wait.reason = format!("the kernel has no {} now; {}", self.name, wait.reason);
                    Stop::Deferred(wait)
                }
                None => Stop::invalid_help(
                    "/name",
                    format!("this kernel has no parameter {}", self.name),
                    "correct the name, or load its module with a `command` resource before this one",
                ),
            });
        }
        let file = asks.take(self.at_boot(view))?;
        asks.take(self.check_boot(view))?;
        asks.finish()?;
        let mut wanted = file.unwrap_or_default();
        wanted.targets.push((sysctl_id(&self.name), SysctlState::value(&self.value.0).into()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_settings::boot_files_probe;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn view(value: &str) -> FakeView {
        boots("", value)
    }

    /// The files that are read at boot, as the host tells them.
    fn boots(files: &str, value: &str) -> FakeView {
        FakeView::new()
            .dir("/etc/sysctl.d")
            .has(sysctl_id("net.ipv4.ip_forward"), SysctlState::value(value))
            .answer(&boot_files_probe(), 0, files)
    }

    #[test]
    fn another_value_that_is_read_later_is_an_error() {
        let kind = read::<Sysctl>(json!({"name": "net.ipv4.ip_forward", "value": 1}));
        let link = |value: u8| {
            format!(
                "file /etc/sysctl.d/99-sysctl.conf\nreal /etc/sysctl.conf\nset net.ipv4.ip_forward = {value}\n"
            )
        };
        let Err(Stop::Invalid { message, help, .. }) = kind.plan(&boots(&link(0), "1")) else {
            panic!("it is planned")
        };
        assert!(message.starts_with("/etc/sysctl.conf is read after"), "{message}");
        assert!(help.is_some_and(|help| help.contains("`file: /etc/sysctl.conf`")));
        settle(&kind, boots(&link(1), "0"));
        let named =
            read::<Sysctl>(json!({"name": "net.ipv4.ip_forward", "value": 1, "file": "/etc/sysctl.conf"}));
        let view = boots(&link(0), "0").file("/etc/sysctl.conf", 0o644, "net.ipv4.ip_forward = 0\n");
        assert_eq!(settle(&named, view).text("/etc/sysctl.conf"), "net.ipv4.ip_forward = 1\n");
    }

    #[test]
    fn now_and_at_boot() {
        let kind = read::<Sysctl>(json!({"name": "net.ipv4.ip_forward", "value": 1}));
        let after = settle(&kind, view("0"));
        assert_eq!(after.line(&sysctl_id("net.ipv4.ip_forward")), "value 1");
        assert_eq!(
            after.text("/etc/sysctl.d/99-converge-net.ipv4.ip_forward.conf"),
            "net.ipv4.ip_forward = 1\n"
        );
    }

    #[test]
    fn blanks_are_the_kernels() {
        let kind = read::<Sysctl>(json!({"name": "net.ipv4.ip_forward", "value": " 4096\t87380   6 "}));
        let after = settle(&kind, view("4096 87380 6"));
        assert!(
            after.text("/etc/sysctl.d/99-converge-net.ipv4.ip_forward.conf").ends_with("= 4096 87380 6\n")
        );
    }

    #[test]
    fn a_named_file_keeps_its_other_lines() {
        let kind = read::<Sysctl>(
            json!({"name": "net.ipv4.ip_forward", "value": 1, "file": "/etc/sysctl.d/k.conf"}),
        );
        let some = view("0").file("/etc/sysctl.d/k.conf", 0o600, "a = 2\nnet.ipv4.ip_forward=0\nb = 3\n");
        assert_eq!(
            settle(&kind, some).text("/etc/sysctl.d/k.conf"),
            "a = 2\nnet.ipv4.ip_forward = 1\nb = 3\n"
        );
        assert_eq!(settle(&kind, view("1")).text("/etc/sysctl.d/k.conf"), "net.ipv4.ip_forward = 1\n");
    }

    #[test]
    fn a_parameter_that_is_not_there() {
        let kind = read::<Sysctl>(json!({"name": "net.bridge.x", "value": 1}));
        assert!(
            matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { pointer, .. }) if pointer == "/name")
        );
        assert!(matches!(kind.plan(&FakeView::new().pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(
            wrong::<Sysctl>(json!({"name": "a..b", "value": "", "file": "x"})),
            ["/name", "/value", "/file"]
        );
        assert_eq!(wrong::<Sysctl>(json!({"name": "a.b", "value": true})), ["parse /value"]);
    }
}
