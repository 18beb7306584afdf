//! `unit`

use crate::above::need_parent;
use crate::body::{Body, file_state};
use crate::kinds::service::{check_followed, need_reload, plan_unit, unit_claims};
use crate::look::{path, path_id, unit, unit_id};
use crate::restart::{self, Basis, UnitActivity, Wish, check_unit_name, full_name};
use converge_objects::unit::enabled_by_file;
use converge_objects::{PathState, UnitState};
use converge_resource::{
    Claim, Content, ObjectId, OwnInput, ParamError, Resource, SourceFile, State, Stop, Template, View,
    WantedStates,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A systemd unit of our own: its file in `/etc/systemd/system`, whether it runs and whether it starts at boot.
///
/// systemd reads the file again where that is needed. While the unit runs, a change of its file restarts it, and so does a
/// change of what `restart_on` names; what `reload_on` names reloads it. All of that is durable, as with `service`. With none of `state`,
/// `enabled`, `restart_on` and `reload_on` it is the file alone, and a later `service` resource says the rest.
///
/// With `drop_in` it is a part of a unit that comes from elsewhere: `unit: {name: ssh, drop_in: limits, …}` writes
/// `/etc/systemd/system/ssh.service.d/limits.conf` and leaves the unit's own file alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The unit: `agent`, which is `agent.service`, or with its suffix `backup.timer`. A template such as
    /// `agent@.service` is only written; its instances are `service` resources.
    name: String,
    /// Write this drop-in of the unit instead of its file: `limits` is `limits.conf`.
    drop_in: Option<String>,
    /// The unit file, as text.
    content: Option<String>,
    /// A template under the role's `templates/` that gives the unit file.
    template: Option<Template>,
    /// A file under the role's `files/` that is the unit file.
    source: Option<SourceFile>,
    /// Whether it runs now.
    state: Option<UnitActivity>,
    /// Whether it starts at boot. The file needs an `[Install]` section for it.
    enabled: Option<bool>,
    /// The names of earlier resources of this role: when one of them is no longer what the unit was started with,
    /// it is restarted.
    #[serde(default)]
    restart_on: Vec<String>,
    /// The names of earlier resources of this role: when one of them is no longer what the unit was last started or reloaded with, it is
    /// reloaded. The unit needs an `ExecReload=`. A change of its own file restarts it, and then it is not reloaded besides.
    #[serde(default)]
    reload_on: Vec<String>,
}

impl Unit {
    /// Whether it says nothing about the unit but what its file holds.
    fn is_file_only(&self) -> bool {
        self.enabled.is_none() && self.state.is_none() && Resource::names(self).is_empty()
    }

    fn body(&self) -> Body<'_> {
        Body {
            content: self.content.as_ref(),
            template: self.template.as_ref(),
            source: self.source.as_ref(),
        }
    }

    fn full(&self) -> String {
        full_name(&self.name)
    }

    fn file(&self) -> String {
        match &self.drop_in {
            Some(name) => format!("{}/{}.conf", self.drop_in_folder(), name.trim_end_matches(".conf")),
            None => format!("/etc/systemd/system/{}", self.full()),
        }
    }

    fn drop_in_folder(&self) -> String {
        format!("/etc/systemd/system/{}.d", self.full())
    }

    /// The file, and for a drop-in the folder that holds it. With it comes what a restart depends on.
    fn own(&self, view: &dyn View, content: &Content) -> Result<(WantedStates, OwnInput, bool), Stop> {
        let file = self.file();
        let id = path_id(&file);
        let before = view.observed(&id)?;
        let mut targets = Vec::new();
        if self.drop_in.is_some() {
            let folder = self.drop_in_folder();
            let dir = match path(view, &folder)? {
                PathState::Absent => {
                    need_parent(view, "/name", &folder)?;
                    PathState::Dir { mode: 0o755, owner: "root".to_owned(), group: "root".to_owned() }
                }
                dir @ PathState::Dir { .. } => dir,
                _ => {
                    return Err(Stop::invalid(
                        "/drop_in",
                        format!("{folder} is there and is not a directory"),
                    ));
                }
            };
            targets.push((path_id(&folder), dir.into()));
        }
        let (attrs, managed_here) = match path(view, &file)? {
            PathState::File { mode, owner, group, .. } => ((mode, owner, group), true),
            // A link, of a mask or to a file elsewhere, is replaced by the file.
            PathState::Absent | PathState::Link { .. } => {
                if self.drop_in.is_none() {
                    need_parent(view, "/name", &file)?;
                }
                ((0o644, "root".to_owned(), "root".to_owned()), false)
            }
            PathState::Dir { .. } | PathState::Other { .. } => {
                return Err(Stop::invalid("/name", format!("{file} is there and is not a file")));
            }
        };
        let to: State = file_state(content, attrs).into();
        let own = OwnInput {
            object: id.clone(),
            state: to.clone(),
            changed: before.state != to,
            newest: before.moment,
        };
        targets.push((id, to));
        Ok((
            WantedStates { targets, contents: vec![content.clone()], ..WantedStates::default() },
            own,
            managed_here,
        ))
    }

    fn wish(&self) -> Wish {
        Wish { running: self.state, enabled: self.enabled, masked: None }
    }

    fn is_template(&self) -> bool {
        self.full().contains("@.")
    }
}

impl Resource for Unit {
    const KIND: &'static str = "unit";
    const EXAMPLE: &'static str = "\
- name: the agent runs
  unit:
    name: agent
    content: |
      [Service]
      ExecStart=/usr/local/bin/agent --config /etc/agent.conf
      [Install]
      WantedBy=multi-user.target
    state: started
    enabled: true
    restart_on: [configuration of the agent]
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_unit_name(&self.name, &mut errors);
        self.body().validate(&mut errors);
        let content = self.body().get();
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        match &content {
            None => wrong(
                "",
                "there is no unit file",
                "give `content`, `template` or `source`; for a unit that is there use `service`",
            ),
            Some(content)
                if self.enabled == Some(true)
                    && self.drop_in.is_none()
                    && enabled_by_file(content) == "static" =>
            {
                wrong(
                    "/enabled",
                    "the unit file does not say when to start it at boot",
                    "add `[Install]` with `WantedBy=multi-user.target` to it",
                );
            }
            Some(_) => {}
        }
        let good = |b: u8| b.is_ascii_alphanumeric() || b":-_.".contains(&b);
        if self.drop_in.as_ref().is_some_and(|d| d.is_empty() || d.starts_with('.') || !d.bytes().all(good)) {
            wrong(
                "/drop_in",
                "this is not a valid name of a drop-in",
                "write a file name without its folder, as `limits`",
            );
        }
        if self.is_template() && !self.is_file_only() {
            wrong(
                "/name",
                "a template is no unit that can run",
                "say `state` and `enabled` of its instances, with `service` resources",
            );
        }
        check_followed(self.state, &self.restart_on, &self.reload_on, &mut errors);
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.file());
        let mut claims = vec![Claim::shared(id.clone(), "presence", "file"), Claim::exclusive(id, "content")];
        if self.drop_in.is_some() {
            claims.push(Claim::shared(path_id(&self.drop_in_folder()), "presence", "directory"));
        }
        if !self.is_template() && !self.is_file_only() {
            claims.extend(unit_claims(&self.full(), &self.wish()));
        }
        claims
    }

    fn names(&self) -> Vec<String> {
        [self.restart_on.clone(), self.reload_on.clone()].concat()
    }

    fn restarts(&self) -> Option<ObjectId> {
        let restarts = self.state.is_some() || !Resource::names(self).is_empty();
        (restarts && !self.is_template()).then(|| unit_id(&self.full()))
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let name = self.full();
        let Some(content) = self.body().get() else {
            return Err(Stop::invalid("", "there is no unit file"));
        };
        let (mut wanted, own, managed_here) = self.own(view, &content)?;
        if self.is_template() || self.is_file_only() {
            return Ok(wanted);
        }
        // Who says nothing about running leaves restarts, and their record, to a `service` item.
        let basis = match Resource::restarts(self) {
            Some(unit) => Basis::of_unit(view, &unit, &self.restart_on, Some(own), &self.reload_on)?,
            None => None,
        };
        if self.drop_in.is_some() {
            let settled = plan_unit(view, &name, &self.wish(), basis.as_ref())?;
            wanted.targets.extend(settled.targets);
            wanted.adopt = settled.adopt;
            wanted.notes = settled.notes;
            wanted.runs_with = settled.runs_with;
            return Ok(wanted);
        }
        let since = view.observed(&unit_id(&name))?.moment;
        let from_file = enabled_by_file(&content);
        let (enabled, active, started) = match unit(view, &name)? {
            UnitState::Absent => (from_file.to_owned(), "inactive".to_owned(), None),
            UnitState::Unit { enabled, active, started } => {
                // Without a file of converge it was masked or transient, and both end with the new file.
                let ended =
                    !managed_here && matches!(enabled.as_str(), "masked" | "masked-runtime" | "transient");
                // If nothing enables the unit, the new file tells whether it can be enabled; one that cannot be is not
                // enabled by links that another file has left.
                let by_file = matches!(enabled.as_str(), "static" | "disabled" | "")
                    || (from_file == "static" && enabled == "enabled" && self.enabled == Some(false));
                (if ended || by_file { from_file.to_owned() } else { enabled }, active, started)
            }
        };
        let now = restart::ExistingUnit {
            name: &name,
            enabled: &enabled,
            active: &active,
            started: started.as_deref(),
            since,
        };
        let settled = self.wish().settle(&now, basis.as_ref())?;
        need_reload(view, &name, &settled)?;
        wanted.targets.extend(settled.targets);
        wanted.adopt = settled.adopt;
        wanted.notes = settled.notes;
        wanted.runs_with = settled.runs_with;
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::{Value, json};

    const FILE: &str = "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n";

    fn host() -> FakeView {
        FakeView::new().dir("/etc/systemd").dir("/etc/systemd/system")
    }

    fn params(more: Value) -> Value {
        let mut all = json!({"name": "a", "content": FILE});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    fn line(view: &FakeView) -> String {
        view.line(&unit_id("a.service"))
    }

    #[test]
    fn whether_it_can_be_enabled_follows_from_the_new_file() {
        let found = |state: &str| host().has(unit_id("a.service"), State::from_line(state));
        let fixed = "[Service]\nExecStart=/bin/a\n";
        for (state, more, wanted) in [
            ("unit static active -", json!({"enabled": true}), "unit enabled active -"),
            ("unit \\ active -", json!({"enabled": true}), "unit enabled active -"),
            ("unit static active -", json!({"enabled": false}), "unit disabled active -"),
            ("unit disabled active -", json!({"content": fixed, "enabled": false}), "unit static active -"),
            ("unit enabled active -", json!({"content": fixed, "enabled": false}), "unit static active -"),
            ("unit enabled active -", json!({"enabled": true}), "unit enabled active -"),
        ] {
            let kind = read::<Unit>(params(more));
            assert_eq!(line(&settle(&kind, found(state))), wanted, "{state}");
        }
    }

    #[test]
    fn a_new_unit_is_predicted_whole() {
        let kind = read::<Unit>(params(json!({"state": "started", "enabled": true})));
        let order: Vec<String> =
            kind.plan(&host()).unwrap().targets.iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(order, ["path:/etc/systemd/system/a.service", "unit:a.service"]);
        let after = settle(&kind, host());
        assert_eq!(after.text("/etc/systemd/system/a.service"), FILE);
        assert!(line(&after).starts_with("unit enabled active "), "{}", line(&after));
        let quiet = json!({"name": "a", "state": "stopped", "content": "[Service]\nExecStart=/bin/a\n"});
        assert_eq!(line(&settle(&read::<Unit>(quiet), host())), "unit static inactive -");
    }

    #[test]
    fn without_a_word_about_running_it_is_its_file_alone() {
        let kind = read::<Unit>(params(json!({})));
        let targets = kind.plan(&host()).unwrap().targets;
        assert_eq!(targets.len(), 1, "a `service` item may say the rest");
        assert!(Resource::claims(&kind).iter().all(|c| c.object.kind == "path"));
    }

    #[test]
    fn its_own_file_restarts_it() {
        let kind = read::<Unit>(params(json!({"state": "started"})));
        let after = settle(&kind, host());
        let other = read::<Unit>(
            json!({"name": "a", "state": "started", "content": "[Service]\nExecStart=/bin/b\n"}),
        );
        assert_ne!(line(&settle(&other, after.clone())), line(&after));
        let named = read::<Unit>(params(json!({"state": "started", "restart_on": ["conf"]})));
        let first = settle(&named, after.named("conf", "d1", false, None));
        let again = settle(&named, first.clone().named("conf", "d2", false, None));
        assert_ne!(line(&first), line(&again));
    }

    #[test]
    fn a_running_unit_without_a_record_is_adopted_or_restarted() {
        let kind = read::<Unit>(params(json!({"state": "started"})));
        let running = |since| {
            host()
                .file("/etc/systemd/system/a.service", 0o644, FILE)
                .at(path_id("/etc/systemd/system/a.service"), 100)
                .has(unit_id("a.service"), State::from_line("unit enabled active -"))
                .at(unit_id("a.service"), since)
        };
        let wanted = kind.plan(&running(101)).unwrap();
        assert_eq!((wanted.adopt.len(), wanted.targets[1].1.line()), (1, "unit enabled active -"));
        assert_eq!(kind.plan(&running(100)).unwrap().adopt, []);
    }

    #[test]
    fn a_mask_gives_way_to_the_file() {
        let view = host()
            .link("/etc/systemd/system/a.service", "/dev/null")
            .has(unit_id("a.service"), State::from_line("unit masked inactive -"));
        let kind = read::<Unit>(params(json!({"state": "started", "enabled": true})));
        assert!(line(&settle(&kind, view)).starts_with("unit enabled active "));
    }

    #[test]
    fn a_drop_in_is_a_file_beside_a_unit_of_others() {
        let text = "[Service]\nLimitNOFILE=9\n";
        let kind =
            read::<Unit>(json!({"name": "ssh", "drop_in": "limits", "content": text, "state": "started"}));
        let running = host().has(unit_id("ssh.service"), State::from_line("unit enabled active -"));
        let after = settle(&kind, running.clone());
        assert_eq!(after.text("/etc/systemd/system/ssh.service.d/limits.conf"), text);
        assert!(after.line(&path_id("/etc/systemd/system/ssh.service.d")).starts_with("dir 755"));
        let record = after.line(&unit_id("ssh.service"));
        assert!(
            record.starts_with("unit enabled active ") && !record.ends_with('-'),
            "it restarts: {record}"
        );
        let alone = read::<Unit>(json!({"name": "ssh", "drop_in": "limits.conf", "content": text}));
        assert_eq!(settle(&alone, running).line(&unit_id("ssh.service")), "unit enabled active -");
        assert!(matches!(kind.plan(&host()), Err(Stop::Invalid { pointer, .. }) if pointer == "/name"));
        assert_eq!(wrong::<Unit>(json!({"name": "ssh", "drop_in": "a/b", "content": text})), ["/drop_in"]);
    }

    #[test]
    fn a_template_is_only_written() {
        let kind = read::<Unit>(json!({"name": "a@.service", "content": FILE}));
        assert_eq!(settle(&kind, host()).text("/etc/systemd/system/a@.service"), FILE);
        assert_eq!(kind.claims().len(), 2);
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Unit>(json!({"name": "a"})), [""]);
        let never =
            json!({"name": "a", "content": "[Install]\nWantedBy=\n[Service]\nAlso=x\n", "enabled": true});
        assert_eq!(wrong::<Unit>(never), ["/enabled"]);
        assert_eq!(
            wrong::<Unit>(json!({"name": "a@.service", "content": FILE, "state": "started"})),
            ["/name"]
        );
    }
}
