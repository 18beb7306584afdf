//! `hostname`

use crate::look::{path_id, state};
use crate::own_file::own_file;
use converge_objects::HostnameState;
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// The host's name, now and at boot (`/etc/hostname`).
///
/// Programs that have read the old name keep it until they start again. A line for the name in `/etc/hosts` is a `line` resource.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hostname {
    /// The name: letters, digits, dashes, and dots between labels; 64 characters at most.
    name: String,
}

fn id() -> ObjectId {
    ObjectId::new("hostname", "running")
}

const FILE: &str = "/etc/hostname";

impl Resource for Hostname {
    const KIND: &'static str = "hostname";
    const EXAMPLE: &'static str = "\
- name: the inventory's name
  hostname: {name: gpu-1}
";

    fn validate(&self) -> Vec<ParamError> {
        // HOST_NAME_MAX of Linux, labels as in RFC 1123.
        let label = |l: &str| {
            !l.is_empty()
                && l.len() <= 63
                && !l.starts_with('-')
                && !l.ends_with('-')
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if self.name.len() <= 64 && self.name.split('.').all(label) {
            return Vec::new();
        }
        let message = format!("`{}` is not a host name", self.name);
        vec![ParamError::new(
            "/name",
            message,
            "use letters, digits and dashes, as in `gpu-1` or `gpu-1.example.org`",
        )]
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(path_id(FILE), "content"), Claim::exclusive(id(), "name")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        state::<HostnameState>(view, &id())?;
        let mut wanted = own_file(view, "/name", FILE, &format!("{}\n", self.name))?;
        wanted.targets.push((id(), HostnameState(self.name.clone()).into()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    #[test]
    fn the_name_is_set_now_and_at_boot() {
        let kind = read::<Hostname>(json!({"name": "gpu-1.lab"}));
        let after = settle(&kind, FakeView::new().has(id(), HostnameState("old".into())));
        assert_eq!(
            (after.line(&id()).as_str(), after.text(FILE).as_str()),
            ("name gpu-1.lab", "gpu-1.lab\n")
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        for bad in ["", "a_b", "-a", "a..b", "a b", &"x".repeat(64), &"x.".repeat(40)] {
            assert_eq!(wrong::<Hostname>(json!({"name": bad})), ["/name"], "{bad}");
        }
    }
}
