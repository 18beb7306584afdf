//! `service`

use crate::look::{Asks, path, path_id, unit, unit_id};
use crate::restart::{Basis, ExistingUnit, UnitActivity, Wish, check_unit_name, full_name};
use converge_objects::unit::Act;
use converge_objects::{PathState, UnitState};
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates, quote};
use schemars::JsonSchema;
use serde::Deserialize;

/// A systemd unit that is there, or that an earlier resource brings: whether it runs, and whether it starts at boot.
///
/// `restart_on` restarts it when a named resource changes. That is durable, not a notification: the host records what
/// the unit was last started with, so an interrupted run never loses a restart. With no record yet, it is restarted if this
/// run changes a named resource or a named file is newer than the unit's start; else the present files are adopted.
///
/// `reload_on` does the same with a reload (`systemctl reload`), which disrupts nothing. A unit that is started or restarted in the run is
/// not reloaded besides. A unit that cannot be reloaded (`systemctl show -p CanReload`) is an error, and is never restarted instead: a
/// restart disrupts, so it is `restart_on` that says it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The unit: `ssh`, which is `ssh.service`, or with its suffix `apt-daily.timer`.
    name: String,
    /// Whether it runs now.
    state: Option<UnitActivity>,
    /// Whether it starts at boot.
    enabled: Option<bool>,
    /// Whether it is barred from starting at all. To lift it, say `enabled` too. What runs goes on, but for a timer: that is stopped first.
    masked: Option<bool>,
    /// The names of earlier resources of this role: when one of them is no longer what the unit was started with,
    /// it is restarted.
    #[serde(default)]
    restart_on: Vec<String>,
    /// The names of earlier resources of this role: when one of them is no longer what the unit was last started or reloaded with, it is
    /// reloaded.
    #[serde(default)]
    reload_on: Vec<String>,
}

impl Service {
    fn wish(&self) -> Wish {
        Wish { running: self.state, enabled: self.enabled, masked: self.masked }
    }
}

/// Where an earlier resource may have written this unit's file; for `a@b.service` also the template `a@.service`.
fn unit_files(unit: &str) -> Vec<String> {
    let mut names = vec![unit.to_owned()];
    if let (Some((stem, _)), Some((_, suffix))) = (unit.split_once('@'), unit.rsplit_once('.')) {
        names.push(format!("{stem}@.{suffix}"));
    }
    names
        .iter()
        .flat_map(|n| ["/etc/systemd/system", "/usr/local/lib/systemd/system"].map(|d| format!("{d}/{n}")))
        .collect()
}

/// Claims on a unit's facets.
pub fn unit_claims(name: &str, wish: &Wish) -> Vec<Claim> {
    let id = unit_id(name);
    let running = wish.running.map(|r| ("active", format!("{r:?}")));
    let enabled = wish.enabled.map(|e| ("enabled", e.to_string()));
    let masked = wish.masked.map(|m| ("masked", m.to_string()));
    let mut claims: Vec<Claim> = [running, enabled, masked]
        .into_iter()
        .flatten()
        .map(|(facet, value)| Claim::shared(id.clone(), facet, value))
        .collect();
    if claims.is_empty() {
        // A service that is only restarted leaves to others whether it runs.
        claims.push(Claim::edit(id, "started"));
    }
    claims
}

impl Resource for Service {
    const KIND: &'static str = "service";
    const EXAMPLE: &'static str = "\
- name: ssh runs with its configuration
  service: {name: ssh, state: started, enabled: true, restart_on: [no login with a password]}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_unit_name(&self.name, &mut errors);
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.masked == Some(true) && self.enabled == Some(true) {
            wrong("/enabled", "a masked unit cannot be enabled", "leave `masked` or `enabled` out");
        }
        if self.masked == Some(true) && self.state == Some(UnitActivity::Started) {
            wrong("/state", "a masked unit cannot be started", "leave `masked` out, or say `state: stopped`");
        }
        check_followed(self.state, &self.restart_on, &self.reload_on, &mut errors);
        if self.wish() == (Wish { running: None, enabled: None, masked: None })
            && self.restart_on.is_empty()
            && self.reload_on.is_empty()
        {
            let help = "give `state`, `enabled`, `masked`, `restart_on` or `reload_on`";
            errors.push(ParamError::new("", "nothing is said about the unit", help));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        unit_claims(&full_name(&self.name), &self.wish())
    }

    fn names(&self) -> Vec<String> {
        [self.restart_on.clone(), self.reload_on.clone()].concat()
    }

    fn restarts(&self) -> Option<ObjectId> {
        (!self.names().is_empty()).then(|| unit_id(&full_name(&self.name)))
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let unit = unit_id(&full_name(&self.name));
        let basis = Basis::of_unit(view, &unit, &self.restart_on, None, &self.reload_on)?;
        if self.masked == Some(true) {
            check_mask(view, &full_name(&self.name))?;
        }
        plan_unit(view, &full_name(&self.name), &self.wish(), basis.as_ref())
    }
}

/// Refuses to mask a unit whose own file, or a link to it, lies where the mask would stand: systemctl does not replace it.
fn check_mask(view: &dyn View, name: &str) -> Result<(), Stop> {
    let file = format!("/etc/systemd/system/{name}");
    let mut asks = Asks::default();
    let unit = asks.take(unit(view, name))?;
    let there = asks.take(path(view, &file))?;
    asks.finish()?;
    // An empty file is a mask, too.
    let is_masked = matches!(unit, Some(UnitState::Unit { enabled, .. }) if enabled == "masked");
    let what = match there {
        None | Some(PathState::Absent) => return Ok(()),
        Some(_) if is_masked => return Ok(()),
        Some(PathState::Link { target, .. }) if target == "/dev/null" => return Ok(()),
        Some(PathState::Link { target, .. }) => format!("{file}, a link to {target},"),
        Some(_) => format!("its own file {file}"),
    };
    Err(Stop::invalid_help(
        "/masked",
        format!("{name} cannot be masked: {what} lies where the mask would stand"),
        "say `enabled: false` and `state: stopped` instead; of a unit that a package brings too, remove that path before this resource",
    ))
}

/// Refuses resources that a unit follows though it does not run, or in two ways.
pub fn check_followed(
    state: Option<UnitActivity>,
    restart_on: &[String],
    reload_on: &[String],
    errors: &mut Vec<ParamError>,
) {
    let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
    if state == Some(UnitActivity::Stopped) {
        if !restart_on.is_empty() {
            let message = "a stopped unit is not restarted".to_owned();
            wrong("/restart_on", message, "leave `restart_on` or `state: stopped` out");
        }
        if !reload_on.is_empty() {
            let message = "a stopped unit is not reloaded".to_owned();
            wrong("/reload_on", message, "leave `reload_on` or `state: stopped` out");
        }
    }
    if let Some(both) = reload_on.iter().find(|name| restart_on.contains(name)) {
        let message = format!("`{both}` stands in `restart_on` too");
        wrong("/reload_on", message, "a restart reads all again: leave it out of one of them");
    }
}

/// Refuses a reload of a unit that has none, as far as that is known: what an earlier resource of the run may change is left to the host.
pub fn need_reload(view: &dyn View, name: &str, wanted: &WantedStates) -> Result<(), Stop> {
    let id = unit_id(name);
    let now = unit(view, name)?;
    let is_due = wanted.targets.iter().filter(|(object, _)| *object == id).any(|(_, state)| {
        UnitState::try_from(state.clone())
            .is_ok_and(|then| converge_objects::unit::act(&now, &then) == Act::Reload)
    });
    let comes = |object: &ObjectId, foreign: bool| foreign || object.key.contains("/systemd/");
    if !is_due || view.pending_act(&comes).is_some() {
        return Ok(());
    }
    let answer = view.run(&Probe::run(format!("systemctl show -p CanReload -- {}", quote(name))))?;
    if answer.stdout.trim() != "CanReload=no" {
        return Ok(());
    }
    Err(Stop::invalid_help(
        "/reload_on",
        format!("{name} cannot be reloaded"),
        "write `restart_on`, or give the unit an `ExecReload=` with a `unit` resource before this one",
    ))
}

/// A unit that is there, or that an earlier resource brings, as it is to be.
pub fn plan_unit(
    view: &dyn View,
    name: &str,
    wish: &Wish,
    basis: Option<&Basis>,
) -> Result<WantedStates, Stop> {
    let since = view.observed(&unit_id(name))?.moment;
    match unit(view, name)? {
        UnitState::Unit { enabled, active, started } => {
            let now =
                ExistingUnit { name, enabled: &enabled, active: &active, started: started.as_deref(), since };
            let wanted = wish.settle(&now, basis)?;
            need_reload(view, name, &wanted)?;
            Ok(wanted)
        }
        UnitState::Absent => not_there(view, name, wish, basis),
    }
}

fn not_there(view: &dyn View, name: &str, wish: &Wish, basis: Option<&Basis>) -> Result<WantedStates, Stop> {
    let mut asks = Asks::default();
    let mut brought = false;
    for file in unit_files(name) {
        let there = asks.take(path(view, &file))?;
        brought |= matches!(there, Some(PathState::File { .. } | PathState::Link { .. }));
        brought |= view.may_appear(&path_id(&file)).is_some();
    }
    asks.finish()?;
    let wait = view.may_appear(&unit_id(name));
    if !brought && wait.is_none() {
        // A missing unit does not run and does not start at boot.
        let wants_it = wish.running == Some(UnitActivity::Started) || wish.enabled == Some(true);
        if !wants_it && wish.masked != Some(true) && basis.is_none() {
            return Ok(WantedStates::one(unit_id(name), UnitState::Absent));
        }
        return Err(Stop::invalid_help(
            "/name",
            format!("systemd on this host knows no unit {name}"),
            "correct the name, or bring the unit with a `package` or `unit` resource before this one",
        ));
    }
    // The properties of the unit are known only once its package or file is there; the states that the item wants are known now.
    let enabled = if wish.masked == Some(true) { Some(false) } else { wish.enabled };
    let running = if wish.masked == Some(true) { Some(UnitActivity::Stopped) } else { wish.running };
    match (running, enabled, wait.or_else(|| view.pending())) {
        (Some(_), Some(enabled), _) => {
            let enabled = if enabled { "enabled" } else { "disabled" };
            let now = ExistingUnit { name, enabled, active: "inactive", started: None, since: None };
            wish.settle(&now, basis)
        }
        (_, _, Some(wait)) => Err(Stop::Deferred(wait)),
        (_, _, None) => Err(Stop::Failed(format!(
            "the file of {name} is there, but systemd has not read it: run `systemctl daemon-reload` on the host"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn has(view: FakeView, line: &str) -> FakeView {
        view.has(unit_id("ssh.service"), converge_resource::State::from_line(line))
    }

    fn line(view: &FakeView) -> String {
        view.line(&unit_id("ssh.service"))
    }

    fn settled(params: serde_json::Value, before: &str) -> String {
        line(&settle(&read::<Service>(params), has(FakeView::new(), before)))
    }

    #[test]
    fn running_and_enabled() {
        let on = json!({"name": "ssh", "state": "started", "enabled": true});
        assert_eq!(settled(on.clone(), "unit disabled inactive -"), "unit enabled active -");
        assert_eq!(settled(on.clone(), "unit enabled failed -"), "unit enabled active -");
        assert_eq!(settled(on.clone(), "unit static active -"), "unit static active -");
        assert_eq!(settled(on.clone(), "unit enabled-runtime active -"), "unit enabled active -");
        let off = json!({"name": "ssh.service", "state": "stopped", "enabled": false});
        assert_eq!(settled(off.clone(), "unit enabled active -"), "unit disabled inactive -");
        assert_eq!(settled(off.clone(), "unit enabled failed -"), "unit disabled failed -");
        assert_eq!(
            settled(json!({"name": "ssh", "masked": true}), "unit enabled active -"),
            "unit masked active -"
        );
    }

    #[test]
    fn a_timer_that_is_masked_is_stopped() {
        for name in ["apt-daily.timer", "a@b.timer"] {
            let view = FakeView::new()
                .has(unit_id(name), converge_resource::State::from_line("unit enabled active -"));
            let after = settle(&read::<Service>(json!({"name": name, "masked": true})), view);
            assert_eq!(after.line(&unit_id(name)), "unit masked inactive -");
        }
    }

    #[test]
    fn a_mask_is_lifted_only_when_it_is_declared() {
        let view = has(FakeView::new(), "unit masked inactive -");
        let on = read::<Service>(json!({"name": "ssh", "enabled": true}));
        assert!(matches!(on.plan(&view), Err(Stop::Invalid { .. })));
        let start = read::<Service>(json!({"name": "ssh", "state": "started"}));
        assert!(matches!(start.plan(&view), Err(Stop::Invalid { .. })));
        let half = read::<Service>(json!({"name": "ssh", "masked": false}));
        assert!(matches!(half.plan(&view), Err(Stop::Invalid { .. })));
        let whole = json!({"name": "ssh", "masked": false, "enabled": true, "state": "started"});
        assert_eq!(settled(whole, "unit masked inactive -"), "unit enabled active -");
    }

    #[test]
    fn a_unit_that_an_earlier_item_brings_is_predicted() {
        let kind = read::<Service>(
            json!({"name": "ssh", "state": "started", "enabled": true, "restart_on": ["conf"]}),
        );
        let view = FakeView::new().named("conf", "d1", true, None);
        let packaged = view.clone().may(unit_id("ssh.service"));
        assert!(line(&settle(&kind, packaged)).starts_with("unit enabled active "));
        let written = view.clone().file("/etc/systemd/system/ssh.service", 0o644, "[Service]\n");
        assert!(line(&settle(&kind, written)).starts_with("unit enabled active "));
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { pointer, .. }) if pointer == "/name"));
        let vague = read::<Service>(json!({"name": "ssh", "state": "started"}));
        let masked = read::<Service>(json!({"name": "ssh", "masked": true}));
        assert_eq!(
            line(&settle(&masked, FakeView::new().may(unit_id("ssh.service")))),
            "unit masked inactive -"
        );
        assert!(matches!(masked.plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let own =
            has(FakeView::new(), "unit static inactive -").file("/etc/systemd/system/ssh.service", 0o644, "");
        assert!(matches!(masked.plan(&own), Err(Stop::Invalid { pointer, .. }) if pointer == "/masked"));
        let linked = |target: &str, state: &str| {
            has(FakeView::new(), state)
                .has(path_id("/etc/systemd/system/ssh.service"), PathState::link(target))
        };
        let refused = linked("/opt/ssh.service", "unit linked inactive -");
        assert!(matches!(masked.plan(&refused), Err(Stop::Invalid { pointer, .. }) if pointer == "/masked"));
        assert_eq!(
            line(&settle(&masked, linked("/dev/null", "unit masked inactive -"))),
            "unit masked inactive -"
        );
        assert!(matches!(vague.plan(&FakeView::new().may(unit_id("ssh.service"))), Err(Stop::Deferred(_))));
    }

    #[test]
    fn one_round_asks_for_all_files_of_an_absent_unit() {
        let kind = read::<Service>(json!({"name": "wg@a", "state": "started", "enabled": true}));
        let view = FakeView::strict().has(unit_id("wg@a.service"), UnitState::Absent);
        let Err(Stop::Ask(probes)) = kind.plan(&view) else { panic!() };
        assert_eq!(probes.len(), 4, "{probes:?}");
        let written = FakeView::new().file("/etc/systemd/system/wg@.service", 0o644, "[Service]\n");
        settle(&kind, written);
    }

    #[test]
    fn what_is_not_there_does_not_run() {
        let kind = read::<Service>(json!({"name": "ssh", "state": "stopped", "enabled": false}));
        assert_eq!(line(&settle(&kind, FakeView::new())), "absent");
    }

    /// Another role declares whether the unit runs: no two owners of that.
    #[test]
    fn a_service_that_is_only_restarted_claims_nothing_of_what_others_declare() {
        let facets = |parameters| {
            read::<Service>(parameters).claims().into_iter().map(|claim| claim.facet).collect::<Vec<_>>()
        };
        let whole =
            facets(json!({"name": "ssh", "state": "started", "enabled": true, "restart_on": ["conf"]}));
        let only = facets(json!({"name": "ssh", "restart_on": ["conf"]}));
        assert!(!only.is_empty() && only.iter().all(|facet| !whole.contains(facet)), "{only:?} {whole:?}");
    }

    #[test]
    fn a_restart_is_durable() {
        let kind = read::<Service>(json!({"name": "ssh", "restart_on": ["conf"]}));
        let view = FakeView::new().named("conf", "d1", false, Some(100));
        let id = unit_id("ssh.service");
        // No record, the file is older than the start: adopted, no change.
        let adopting = has(view.clone(), "unit enabled active -").at(id.clone(), 200);
        let wanted = kind.plan(&adopting).unwrap();
        assert_eq!(wanted.targets[0].1.line(), "unit enabled active -");
        assert_eq!(wanted.adopt.len(), 1);
        assert!(wanted.notes[0].starts_with("adopt: ssh.service"));
        let recorded = settle(&kind, adopting);
        // No record, the file is newer, or the start is unknown: restarted.
        for newer in
            [has(view.clone(), "unit enabled active -").at(id, 50), has(view, "unit enabled active -")]
        {
            let wanted = kind.plan(&newer).unwrap();
            assert_eq!(wanted.adopt, []);
            assert_eq!(wanted.targets[0].1.line(), line(&recorded));
        }
        // A record of something else: restarted, in whichever run.
        let wanted = kind.plan(&recorded.clone().named("conf", "d2", false, Some(1))).unwrap();
        assert_ne!(wanted.targets[0].1.line(), line(&recorded));
        // A unit that does not run is not started by it.
        let idle = has(recorded, "unit enabled inactive -");
        assert_eq!(line(&settle(&kind, idle)), "unit enabled inactive -");
    }

    #[test]
    fn a_reload_is_durable_and_a_restart_wins() {
        let kind = read::<Service>(json!({"name": "ssh", "restart_on": ["a"], "reload_on": ["b"]}));
        let host =
            |a: &str, b: &str| FakeView::new().named("a", a, false, Some(1)).named("b", b, false, Some(1));
        let can = Probe::run("systemctl show -p CanReload -- ssh.service");
        let id = unit_id("ssh.service");
        let act = |view: &FakeView| {
            let now = UnitState::try_from(converge_resource::State::from_line(&view.line(&id))).unwrap();
            let wanted = kind.plan(view).unwrap();
            (
                converge_objects::unit::act(&now, &UnitState::try_from(wanted.targets[0].1.clone()).unwrap()),
                wanted.adopt.len(),
            )
        };
        let adopting = has(host("a1", "b1"), "unit enabled active -").at(id.clone(), 9);
        assert_eq!(act(&adopting), (Act::Nothing, 1));
        let recorded = settle(&kind, adopting);
        let next = |a: &str, b: &str| {
            recorded.clone().named("a", a, false, Some(1)).named("b", b, false, Some(1)).answer(
                &can,
                0,
                "CanReload=yes\n",
            )
        };
        assert_eq!(act(&next("a1", "b1")), (Act::Nothing, 0));
        assert_eq!(act(&next("a1", "b2")), (Act::Reload, 0));
        assert_eq!(act(&next("a2", "b1")), (Act::Restart, 0));
        assert_eq!(act(&next("a2", "b2")), (Act::Restart, 0), "one action for both");
        let restarted = settle(&kind, next("a2", "b2"));
        assert_eq!(act(&restarted), (Act::Nothing, 0));
        settle(&kind, next("a1", "b2"));
        // Without a record of the restart's part, a reload does not become a restart.
        let unknown = has(host("a1", "b1"), "unit enabled active -")
            .at(id.clone(), 9)
            .named("b", "b2", true, None)
            .answer(&can, 0, "CanReload=yes\n");
        assert_eq!(act(&unknown), (Act::Reload, 0));
        // A unit that starts is not reloaded.
        let on = read::<Service>(json!({"name": "ssh", "state": "started", "reload_on": ["b"]}));
        let idle = settle(&on, has(host("a1", "b1"), "unit enabled inactive -"));
        assert!(line(&idle).starts_with("unit enabled active ~"), "{}", line(&idle));
        let cannot = next("a1", "b2").answer(&can, 0, "CanReload=no\n");
        assert!(matches!(kind.plan(&cannot), Err(Stop::Invalid { pointer, .. }) if pointer == "/reload_on"));
        assert!(kind.plan(&cannot.pending()).is_ok(), "an earlier resource may bring it: the host says");
    }

    #[test]
    fn a_change_of_this_run_restarts() {
        let kind = read::<Service>(json!({"name": "ssh", "state": "started", "restart_on": ["conf"]}));
        let view = has(FakeView::new().named("conf", "d", true, None), "unit enabled active -");
        let wanted = kind.plan(&view).unwrap();
        assert_eq!(wanted.adopt, []);
        assert_ne!(wanted.targets[0].1.line(), "unit enabled active -");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Service>(json!({"name": "ssh"})), [""]);
        assert_eq!(wrong::<Service>(json!({"name": "a b", "enabled": true})), ["/name"]);
        assert_eq!(wrong::<Service>(json!({"name": "a", "masked": true, "enabled": true})), ["/enabled"]);
        assert_eq!(wrong::<Service>(json!({"name": "a", "masked": true, "state": "started"})), ["/state"]);
        assert_eq!(
            wrong::<Service>(json!({"name": "a", "state": "stopped", "restart_on": ["x"]})),
            ["/restart_on"]
        );
        assert_eq!(wrong::<Service>(json!({"name": "a", "state": "restarted"})), ["parse /state"]);
        assert_eq!(
            wrong::<Service>(json!({"name": "a", "state": "stopped", "reload_on": ["x"]})),
            ["/reload_on"]
        );
        assert_eq!(
            wrong::<Service>(json!({"name": "a", "restart_on": ["x"], "reload_on": ["x"]})),
            ["/reload_on"]
        );
    }
}
