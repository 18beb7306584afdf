//! `group`

use crate::attrs::check_account;
use crate::look::{Account, Asks, account_probe, group, group_id};
use crate::presence::Presence;
use converge_objects::GroupState;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A local group.
///
/// Who belongs to it is said by the `user` resources. Without `gid` a group that is there keeps its number, and the host
/// assigns one for a new group: the plan shows it as open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The group's name.
    name: String,
    /// Its number.
    gid: Option<u32>,
    /// Choose the number of a new group among those of the system.
    #[serde(default)]
    system: bool,
    /// Whether the group is there.
    #[serde(default)]
    state: Presence,
}

/// The setting by which the group and user objects choose a system number.
pub fn system_setting(system: bool) -> Vec<(String, String)> {
    if system { vec![("CV_USER_SYSTEM".to_owned(), "yes".to_owned())] } else { Vec::new() }
}

impl Resource for Group {
    const KIND: &'static str = "group";
    const EXAMPLE: &'static str = "\
- name: operators
  group: {name: ops, gid: 4100}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_account("/name", &self.name, &mut errors);
        if self.state == Presence::Absent {
            if self.gid.is_some() {
                errors.push(ParamError::new("/gid", "an absent group has no number", "leave `gid` out"));
            }
            if self.name == "root" {
                errors.push(ParamError::new("/name", "root is a part of every system", "name another group"));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = group_id(&self.name);
        let presence = if self.state == Presence::Absent { "absent" } else { "present" };
        let mut claims = vec![Claim::shared(id.clone(), "presence", presence)];
        if let Some(gid) = self.gid {
            claims.push(Claim::shared(id, "gid", gid.to_string()));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let id = group_id(&self.name);
        let mut asks = Asks::default();
        let now = asks.take(group(view, &self.name))?;
        if let Some(gid) = self.gid {
            // Asked in the same round.
            asks.take(view.run(&account_probe(Account::Group, &gid.to_string())))?;
            if now.is_some_and(|now| now != GroupState::Group { gid: Some(gid) }) {
                asks.take(Account::Group.check_number(view, "/gid", &self.name, gid))?;
            }
        }
        asks.finish()?;
        let now = group(view, &self.name)?;
        if let (Some(gid), GroupState::Group { gid: Some(was) }) = (self.gid, &now)
            && *was != gid
        {
            Account::Group.check_owned(view, &self.name, *was, None)?;
        }
        let to = match (self.state, now) {
            (Presence::Absent, GroupState::Absent) => {
                if let Some(wait) = view.may_appear(&id) {
                    return Err(Stop::Deferred(wait));
                }
                GroupState::Absent
            }
            (Presence::Absent, GroupState::Group { .. }) => GroupState::Absent,
            (Presence::Present, GroupState::Absent) => GroupState::Group { gid: self.gid },
            (Presence::Present, GroupState::Group { gid }) => GroupState::Group { gid: self.gid.or(gid) },
        };
        Ok(WantedStates { settings: system_setting(self.system), ..WantedStates::one(id, to) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn settled(params: serde_json::Value, view: FakeView) -> String {
        settle(&read::<Group>(params), view).line(&group_id("ops"))
    }

    #[test]
    fn the_number_is_preserved_unless_one_is_declared() {
        assert_eq!(settled(json!({"name": "ops"}), FakeView::new().group("ops", 7)), "group 7");
        assert_eq!(settled(json!({"name": "ops", "gid": 8}), FakeView::new().group("ops", 7)), "group 8");
        assert_eq!(settled(json!({"name": "ops", "gid": 8}), FakeView::new()), "group 8");
        assert_eq!(settled(json!({"name": "ops"}), FakeView::new()), "group ~");
        assert_eq!(
            settled(json!({"name": "ops", "state": "absent"}), FakeView::new().group("ops", 7)),
            "absent"
        );
        let system = read::<Group>(json!({"name": "ops", "system": true}));
        assert_eq!(system.plan(&FakeView::new()).unwrap().settings.len(), 1);
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Group>(json!({"name": "root", "state": "absent", "gid": 1})), ["/gid", "/name"]);
        assert_eq!(wrong::<Group>(json!({"name": "-a"})), ["/name"]);
        assert_eq!(wrong::<Group>(json!({"name": "a", "gid": -1})), ["parse /gid"]);
    }
}
