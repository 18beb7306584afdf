//! `timezone`

use crate::above::need_parent;
use crate::look::{path, path_id};
use crate::own_file::own_file;
use converge_objects::PathState;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// The host's time zone.
///
/// `/etc/localtime` leads to the zone's file below `/usr/share/zoneinfo`, by an absolute or a relative link; `/etc/timezone` has its name on hosts that have
/// that file, as Debian and Ubuntu do. A zone that the host does not know is refused, unless an earlier resource may bring it (the package `tzdata`).
/// Programs that run keep the zone with which they began: name this resource in the `restart_on` of their `service`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timezone {
    /// The name of the zone: `Europe/Berlin`, `UTC`.
    name: String,
}

const LINK: &str = "/etc/localtime";
const NAME: &str = "/etc/timezone";
const ZONES: &str = "usr/share/zoneinfo";

impl Timezone {
    fn zone(&self) -> String {
        format!("/{ZONES}/{}", self.name)
    }

    /// The host must know the zone when the turn of the resource comes.
    fn known(&self, view: &dyn View) -> Result<(), Stop> {
        let zone = path_id(&self.zone());
        match path(view, &self.zone())? {
            PathState::File { .. } | PathState::Link { .. } => Ok(()),
            PathState::Absent => Err(view.may_appear(&zone).map_or_else(
                || {
                    Stop::invalid_help(
                        "/name",
                        format!("this host knows no time zone {}", self.name),
                        "correct the name (`timedatectl list-timezones` shows all), or install the package tzdata before",
                    )
                },
                Stop::Deferred,
            )),
            PathState::Dir { .. } | PathState::Other { .. } => Err(Stop::invalid_help(
                "/name",
                format!("{} is no time zone", self.name),
                "write the whole name, as `Europe/Berlin`",
            )),
        }
    }
}

impl Resource for Timezone {
    const KIND: &'static str = "timezone";
    const EXAMPLE: &'static str = "\
- name: the time of the site
  timezone: {name: Europe/Berlin}
";

    fn validate(&self) -> Vec<ParamError> {
        let part = |part: &str| {
            part.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b))
        };
        if self.name.split('/').all(part) {
            return Vec::new();
        }
        let message = format!("`{}` is not the name of a time zone", self.name);
        vec![ParamError::new("/name", message, "write it as `Europe/Berlin` or `UTC`")]
    }

    fn claims(&self) -> Vec<Claim> {
        let link = path_id(LINK);
        vec![
            Claim::shared(link.clone(), "presence", "link"),
            Claim::shared(link, "target", self.zone()),
            Claim::exclusive(path_id(NAME), "content"),
        ]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        self.known(view)?;
        let now = path(view, LINK)?;
        let link = match &now {
            // timedatectl writes relative ones.
            PathState::Link { target, .. }
                if target.trim_start_matches("..").trim_start_matches('/')
                    == self.zone().trim_start_matches('/') =>
            {
                now
            }
            PathState::Link { .. } | PathState::File { .. } => PathState::link(self.zone()),
            PathState::Absent => {
                need_parent(view, "/name", LINK)?;
                PathState::link(self.zone())
            }
            PathState::Dir { .. } | PathState::Other { .. } => {
                return Err(Stop::invalid("/name", format!("{LINK} is neither a link nor a file")));
            }
        };
        let mut wanted = match path(view, NAME)? {
            PathState::Absent => match view.may_appear(&path_id(NAME)) {
                Some(wait) => return Err(Stop::Deferred(wait)),
                None => WantedStates::one(path_id(NAME), PathState::Absent),
            },
            _ => own_file(view, "/name", NAME, &format!("{}\n", self.name))?,
        };
        wanted.targets.insert(0, (path_id(LINK), link.into()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    const BERLIN: &str = "/usr/share/zoneinfo/Europe/Berlin";

    fn host() -> FakeView {
        FakeView::new().file(BERLIN, 0o644, "TZif2")
    }

    fn berlin() -> Timezone {
        read(json!({"name": "Europe/Berlin"}))
    }

    #[test]
    fn link_and_name_are_set() {
        for view in
            [host().link(LINK, "/usr/share/zoneinfo/Etc/UTC"), host().file(LINK, 0o644, "TZif2"), host()]
        {
            let after = settle(&berlin(), view.clone().file(NAME, 0o644, "Etc/UTC\n"));
            assert_eq!(after.line(&path_id(LINK)), format!("link {BERLIN}"));
            assert_eq!(after.text(NAME), "Europe/Berlin\n");
            assert_eq!(settle(&berlin(), view).line(&path_id(NAME)), "absent", "no such file is made");
        }
    }

    #[test]
    fn a_relative_link_is_as_good() {
        let target = format!("..{BERLIN}");
        let after = settle(&berlin(), host().link(LINK, &target));
        assert_eq!(after.line(&path_id(LINK)), format!("link {target}"));
    }

    #[test]
    fn a_zone_must_be_known() {
        assert!(
            matches!(berlin().plan(&FakeView::new()), Err(Stop::Invalid { pointer, .. }) if pointer == "/name")
        );
        assert!(matches!(berlin().plan(&FakeView::new().may(path_id(BERLIN))), Err(Stop::Deferred(_))));
        let europe: Timezone = read(json!({"name": "Europe"}));
        assert!(matches!(
            europe.plan(&FakeView::new().dir("/usr/share/zoneinfo/Europe")),
            Err(Stop::Invalid { .. })
        ));
    }

    #[test]
    fn wrong_parameters_are_named() {
        for bad in ["", "../x", "/etc/passwd", "Europe//Berlin", "a b", "Europe/.."] {
            assert_eq!(wrong::<Timezone>(json!({"name": bad})), ["/name"], "{bad}");
        }
    }
}
