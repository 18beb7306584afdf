//! `snap`

use crate::look::{program_may_come, state};
use crate::presence::Presence;
use converge_objects::{SnapRevision, SnapState};
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A snap of snapd: its channel, its confinement, and whether snapd may refresh it by itself.
///
/// Attributes that are not given are kept; a new snap tracks `latest/stable`. The plan leaves the revision open, unless it is given: the store
/// chooses it by the channel, and snapd refreshes a snap that is not held at any time. Nothing is refreshed within its channel.
/// Removing a snap takes its data along, and the plan says so.
///
/// A snap that was installed from a file has a revision of this host's own, as `x1`, and tracks no channel unless somebody has set one. Both are kept
/// where they are not given. A channel that is given replaces the snap by the store's. No store knows a revision of a file: snapd goes back to one that it
/// still has, and a snap from a file that was removed is not installed again.
///
/// To hold one snap takes snapd 2.58. The package of Debian 12 is older; its first snap from the store brings the snap `snapd`, which is newer.
///
/// Proved in `tests/tests/snaps.rs` with Debian's snapd on a real host (no AppArmor, so snaps of classic confinement only): installation, hold, another
/// channel, rollback to the revision before, removal, and a snap from a file. That host's snapd has no store. A program before `snap` takes the store's
/// part: it turns `snap install NAME` and `snap refresh --channel` into an installation from a file. Proved with recorded answers only are therefore a
/// `revision` that is given, a change of confinement, and the replacement of a snap from a file by the store's.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snap {
    /// The snap's name.
    name: String,
    /// The channel: `1.34/stable`, `1.34`, or `edge`.
    channel: Option<String>,
    /// The exact revision. Hold it, or snapd will refresh it.
    revision: Option<u32>,
    /// Let it out of its confinement. The snap must be made for that.
    classic: Option<bool>,
    /// Keep snapd from refreshing it, or let it again.
    hold: Option<bool>,
    /// Whether it is installed.
    #[serde(default)]
    state: Presence,
}

const RISKS: &[&str] = &["stable", "candidate", "beta", "edge"];

/// A channel as snapd shows it: track, risk and branch.
fn full(channel: &str) -> String {
    let first = channel.split('/').next().unwrap_or_default();
    match (RISKS.contains(&first), channel.contains('/')) {
        (true, _) => format!("latest/{channel}"),
        (false, true) => channel.to_owned(),
        (false, false) => format!("{channel}/stable"),
    }
}

impl Snap {
    fn id(&self) -> ObjectId {
        ObjectId::new("snap", &self.name)
    }
}

impl Resource for Snap {
    const KIND: &'static str = "snap";
    const EXAMPLE: &'static str = "\
- name: kubectl of this cluster's version
  snap: {name: kubectl, channel: 1.34/stable, classic: true, hold: true}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        let name = self.name.as_bytes();
        if !name.first().is_some_and(u8::is_ascii_alphanumeric) || !name.iter().all(|b| good(*b)) {
            wrong(
                "/name",
                format!("`{}` is not the name of a snap", self.name),
                "write it as `snap list` shows it",
            );
        }
        if let Some(channel) = &self.channel {
            let part = |p: &str| {
                p.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && p.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            };
            let whole = full(channel);
            let parts: Vec<&str> = whole.split('/').collect();
            let risk = parts.get(1).is_some_and(|r| RISKS.contains(r));
            if !parts.iter().all(|p| part(p)) || !risk || parts.len() > 3 {
                wrong("/channel", format!("`{channel}` is not a channel"), "write it as `1.34/stable`");
            }
        }
        if self.state == Presence::Absent {
            for (pointer, given) in [
                ("/channel", self.channel.is_some()),
                ("/revision", self.revision.is_some()),
                ("/classic", self.classic.is_some()),
                ("/hold", self.hold.is_some()),
            ] {
                if given {
                    wrong(pointer, "what is absent has none of it".to_owned(), "leave it out");
                }
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = self.id();
        if self.state == Presence::Absent {
            return vec![Claim::shared(id, "presence", "absent")];
        }
        let claim = |facet, value: Option<String>| value.map(|v| Claim::shared(id.clone(), facet, v));
        [
            claim("presence", Some("present".to_owned())),
            claim("channel", self.channel.as_deref().map(full)),
            claim("revision", self.revision.map(|r| r.to_string())),
            claim("confinement", self.classic.map(|c| c.to_string())),
            claim("hold", self.hold.map(|h| h.to_string())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let now = match state::<SnapState>(view, &self.id()) {
            Err(Stop::Failed(why)) => {
                // An earlier item may bring snapd.
                return Err(match program_may_come(view, &["snap"]) {
                    Some(mut wait) => {
                        wait.reason = format!("{why}; {}", wait.reason);
                        Stop::Deferred(wait)
                    }
                    None => Stop::Failed(why),
                });
            }
            other => other?,
        };
        if self.state == Presence::Absent {
            return Ok(WantedStates::one(self.id(), SnapState::Absent));
        }
        let (old_channel, old_revision, old_confinement, old_hold) = match now {
            SnapState::Absent => (None, None, "strict".to_owned(), false),
            SnapState::Snap { channel, revision, confinement, hold } => {
                (Some(channel), revision, confinement, hold)
            }
        };
        let channel = self.channel.as_deref().map(full).or_else(|| old_channel.clone());
        let channel = channel.unwrap_or_else(|| "latest/stable".to_owned());
        let confinement = match self.classic {
            Some(true) => "classic".to_owned(),
            Some(false) => "strict".to_owned(),
            None => old_confinement.clone(),
        };
        let stays = old_channel.as_ref() == Some(&channel) && old_confinement == confinement;
        let revision = self.revision.map(SnapRevision::Store).or(if stays { old_revision } else { None });
        let hold = self.hold.unwrap_or(old_hold);
        Ok(WantedStates::one(self.id(), SnapState::Snap { channel, revision, confinement, hold }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::{Value, json};

    fn line(params: Value, now: &str) -> String {
        let kind = read::<Snap>(params);
        let view = FakeView::new().has(kind.id(), converge_resource::State::from_line(now));
        settle(&kind, view).line(&kind.id())
    }

    #[test]
    fn attributes_that_are_not_given_are_preserved() {
        let name = json!({"name": "lxd"});
        assert_eq!(line(name.clone(), "absent"), "snap latest/stable ~ strict -");
        assert_eq!(line(name, "snap 5.0/stable 9 strict hold"), "snap 5.0/stable 9 strict hold");
        let held = json!({"name": "lxd", "hold": true});
        assert_eq!(line(held, "snap 5.0/stable 9 strict -"), "snap 5.0/stable 9 strict hold");
    }

    #[test]
    fn another_channel_leaves_the_revision_open() {
        let params = json!({"name": "kubectl", "channel": "1.34", "classic": true});
        assert_eq!(line(params.clone(), "snap 1.33/stable 9 classic -"), "snap 1.34/stable ~ classic -");
        assert_eq!(line(params, "snap 1.34/stable 10 classic -"), "snap 1.34/stable 10 classic -");
        let exact = json!({"name": "kubectl", "revision": 7});
        assert_eq!(line(exact, "snap 1.33/stable 9 classic -"), "snap 1.33/stable 7 classic -");
        assert_eq!(line(json!({"name": "x", "channel": "edge"}), "absent"), "snap latest/edge ~ strict -");
        assert_eq!(line(json!({"name": "x", "state": "absent"}), "snap a/edge 1 strict -"), "absent");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Snap>(json!({"name": "-x", "channel": "a/b"})), ["/name", "/channel"]);
        assert_eq!(wrong::<Snap>(json!({"name": "x", "channel": "a/stable/b/c"})), ["/channel"]);
        assert_eq!(wrong::<Snap>(json!({"name": "x", "state": "absent", "hold": true})), ["/hold"]);
    }
}
