//! A systemd unit. Its key is the full name: `ssh.service`.

use crate::programs::{not_known, of_unit};
use converge_resource::{
    AlteredFact, Content, Contents, Disruption, DriftScript, DynEffects, DynLinks, DynShared, Effects,
    Erased, Facets, Links, Naming, Object, ObjectId, Past, Shared, State, Traits, quote, state_of_words,
};

/// The folder of the administrator's units; a file directly in it is a unit.
pub(crate) const UNIT_FOLDER: &str = "/etc/systemd/system/";

/// The last parts of names that systemd reads as units.
const SUFFIXES: &[&str] = &["service", "socket", "timer", "path", "mount", "target", "slice"];

/// The answer of `systemctl is-enabled` for a unit with this file that has not been enabled: `disabled` with an `[Install]`
/// section that says when to start it, else `static`.
pub fn enabled_by_file(content: &Content) -> &'static str {
    let text = String::from_utf8_lossy(content.bytes());
    let mut inside = false;
    let installs = text.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            inside = line == "[Install]";
        }
        let key =
            line.split_once('=').filter(|(_, value)| !value.trim().is_empty()).map(|(key, _)| key.trim());
        inside && matches!(key, Some("WantedBy" | "RequiredBy" | "UpheldBy" | "Alias" | "Also"))
    });
    if installs { "disabled" } else { "static" }
}

/// The other names that this unit file gives to its unit, once that is enabled. Those with specifiers are left out.
fn aliases(content: &Content) -> Vec<String> {
    let text = String::from_utf8_lossy(content.bytes());
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Install]";
        }
        let value =
            line.split_once('=').filter(|(key, _)| inside && key.trim() == "Alias").map(|(_, value)| value);
        names.extend(
            value.into_iter().flat_map(str::split_whitespace).filter(|n| !n.contains('%')).map(str::to_owned),
        );
    }
    names
}

/// The names that a file or a link among the administrator's units gives: its own one, and those of `Alias=`.
pub(crate) fn names_by_file(path: &str, content: &Content) -> Vec<(ObjectId, ObjectId)> {
    let Some(unit) = unit_of_file(path) else { return Vec::new() };
    let others = aliases(content).into_iter().map(|name| (ObjectId::new(Unit::KIND, name), unit.clone()));
    std::iter::once((unit.clone(), unit.clone())).chain(others).collect()
}

/// The same of a link: it is an alias of the unit that it leads to.
pub(crate) fn name_by_link(path: &str, target: &str) -> Option<(ObjectId, ObjectId)> {
    let file = target.rsplit('/').next().unwrap_or(target);
    Some((unit_of_file(path)?, unit_of_file(&format!("{UNIT_FOLDER}{file}"))?))
}

/// The kind of the objects that a file at this path may name.
pub(crate) fn named_at(path: &str) -> Option<&'static str> {
    path.starts_with(UNIT_FOLDER).then_some(Unit::KIND)
}

/// The unit that this file makes. A template (`a@.service`) is none that can run.
fn unit_of_file(path: &str) -> Option<ObjectId> {
    made_by_file(path).filter(|unit| !unit.key.contains("@."))
}

/// The unit, or template of units, that this file makes.
fn made_by_file(path: &str) -> Option<ObjectId> {
    let name = path.strip_prefix(UNIT_FOLDER).filter(|n| !n.contains('/'))?;
    let (_, suffix) = name.rsplit_once('.')?;
    SUFFIXES.contains(&suffix).then(|| ObjectId::new(Unit::KIND, name))
}

/// The template of this unit, if it is an instance (`a@b.service` of `a@.service`) or a template.
fn template_of(name: &str) -> Option<ObjectId> {
    let (stem, instance) = name.split_once('@')?;
    let (_, suffix) = instance.rsplit_once('.')?;
    Some(ObjectId::new(Unit::KIND, format!("{stem}@.{suffix}")))
}

/// The unit that comes into being with this file, stopped and not enabled.
pub(crate) fn brought_by_file(path: &str, content: &Content) -> Option<(ObjectId, State)> {
    let state = UnitState::Unit {
        enabled: enabled_by_file(content).to_owned(),
        active: "inactive".to_owned(),
        started: None,
    };
    made_by_file(path).map(|unit| (unit, state.into()))
}

/// The unit that goes with this file.
pub(crate) fn gone_with_file(path: &str) -> Option<(ObjectId, State)> {
    made_by_file(path).map(|unit| (unit, State::absent()))
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// systemd knows no such unit (`absent`).
    Absent,
    /// A unit (`unit ENABLED ACTIVE STARTED`).
    Unit {
        /// systemd's `UnitFileState`: `enabled`, `disabled`, `masked`, `static` …; empty when it has none.
        enabled: String,
        /// systemd's `ActiveState` once settled: `active`, `inactive`, `failed`.
        active: String,
        /// The digest, recorded by converge, of what it was last started with.
        started: Option<String>,
    },
}

impl UnitState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Unit { enabled, active, started } => {
                let started = started.as_deref().unwrap_or("-");
                ["unit", enabled, active, started].map(str::to_owned).to_vec()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["unit", enabled, active, started] => Some(Self::Unit {
                enabled: (*enabled).to_owned(),
                active: (*active).to_owned(),
                started: (*started != "-").then(|| (*started).to_owned()),
            }),
            _ => None,
        }
    }
}

state_of_words!(UnitState);

/// The object.
pub struct Unit;

impl Object for Unit {
    const KIND: &'static str = "unit";
    const SHELL: &'static str = include_str!("unit.sh");
    const SECONDS: u64 = 600;
    /// systemd has no record of who used an alias: one record of what it was started with serves all its names.
    const TRAITS: Traits = Traits { naming: Naming::Real, ..Traits::NONE };
    const LINKS: &'static dyn DynLinks = &Erased::<Self>::new();
    const EFFECTS: &'static dyn DynEffects = &Erased::<Self>::new();
    const SHARED: &'static dyn DynShared = &Erased::<Self>::new();
    type State = UnitState;

    fn title(key: &str, from: &UnitState, to: &UnitState) -> String {
        title(key, from, to)
    }

    fn opaque(from: &UnitState, to: &UnitState) -> bool {
        starts(from, to) || stops(from, to)
    }

    fn facets(state: &UnitState) -> Facets {
        match state {
            UnitState::Absent => Vec::new(),
            UnitState::Unit { enabled, active, started } => {
                let record = started.iter().map(|digest| ("started with", digest.chars().take(12).collect()));
                [("unit", "known".to_owned()), ("enabled", enabled.clone()), ("active", active.clone())]
                    .into_iter()
                    .chain(record)
                    .collect()
            }
        }
    }

    /// A running unit is stopped or restarted; the first start of a unit disrupts nothing.
    fn disruption(from: &UnitState, to: Option<&UnitState>) -> Disruption {
        let disturbed = match to {
            None => active(from),
            Some(to) => stops(from, to) || (active(from) && starts(from, to)),
        };
        if disturbed { Disruption::Restarts } else { Disruption::None }
    }

    /// A unit whose file is still there cannot be absent, and no step makes a unit fail: stopped is as near as a host can come.
    fn fulfils(now: &UnitState, planned: &UnitState) -> bool {
        match (now, planned) {
            (UnitState::Unit { active, started: None, .. }, UnitState::Absent) => {
                active == "inactive" || active == "failed"
            }
            (UnitState::Unit { active, .. }, UnitState::Unit { enabled, active: wanted, started })
                if active == "inactive" && wanted == "failed" =>
            {
                let (enabled, started) = (enabled.clone(), started.clone());
                *now == UnitState::Unit { enabled, active: active.clone(), started }
            }
            _ => now == planned,
        }
    }

    fn drifts(key: &str, state: &UnitState) -> Vec<DriftScript> {
        let UnitState::Unit { enabled, active, .. } = state else { return Vec::new() };
        let unit = quote(key);
        let mut drifts = match active.as_str() {
            "active" => vec![DriftScript::new("active", "stopped", format!("systemctl stop -- {unit}"))],
            "inactive" => {
                vec![DriftScript::new("active", "started", format!("systemctl start -- {unit} || exit 3"))]
            }
            _ => Vec::new(),
        };
        drifts.extend(match enabled.as_str() {
            "enabled" => {
                Some(DriftScript::new("enabled", "disabled", format!("systemctl -q disable -- {unit}")))
            }
            "disabled" => Some(DriftScript::new(
                "enabled",
                "enabled",
                format!("systemctl -q enable -- {unit} || exit 3"),
            )),
            "masked" => {
                Some(DriftScript::new("masked", "unmasked", format!("systemctl -q unmask -- {unit}")))
            }
            _ => None,
        });
        drifts
    }
}

impl Links for Unit {
    fn template(key: &str) -> Option<ObjectId> {
        template_of(key)
    }

    /// Its file alone makes it so.
    fn bare(state: &UnitState) -> bool {
        matches!(state, UnitState::Unit { enabled, active, started: None }
            if active == "inactive" && matches!(enabled.as_str(), "disabled" | "static" | "indirect" | ""))
    }
}

impl Effects for Unit {
    fn alters(key: &str, from: &UnitState, to: &UnitState) -> Vec<AlteredFact> {
        if Self::opaque(from, to) { not_known(of_unit(key)) } else { Vec::new() }
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_unit(key)
    }
}

impl Shared for Unit {
    /// The record is converge's own, whoever wrote it last. A unit that is enabled as the run left it still shows what the run made of it while
    /// it runs as the run left it or found it, has failed since, or was started by a boot: none of these is a user's decision. Started with
    /// something else, by another run or rollback, it shows no more what this one made of it.
    fn shows(now: &UnitState, past: &Past<'_, UnitState>, _: &Contents<'_>) -> bool {
        let (
            UnitState::Unit { enabled, active, started },
            UnitState::Unit { enabled: left, active: ran, started: with },
        ) = (now, past.left)
        else {
            return now == past.left;
        };
        let (before, found_with) = match past.before {
            UnitState::Unit { active, started, .. } => (active.as_str(), started.as_ref()),
            UnitState::Absent => ("inactive", None),
        };
        let other = started.is_some() && with.is_some() && started != with && started.as_ref() != found_with;
        if active == "active" && ran == "active" && other {
            return false;
        }
        let boots = !enabled.is_empty() && enabled != "disabled" && !enabled.starts_with("masked");
        let by_itself = if ran == "active" { active != "inactive" } else { active != "active" || boots };
        enabled == left && (active == ran || active == before || by_itself)
    }
}

fn active(state: &UnitState) -> bool {
    matches!(state, UnitState::Unit { active, .. } if active == "active")
}

fn record(state: &UnitState) -> Option<&str> {
    match state {
        UnitState::Unit { started, .. } => started.as_deref(),
        UnitState::Absent => None,
    }
}

/// True if the change starts or restarts the unit: also if only the record of its inputs is to be removed, since the unit
/// then runs with the inputs that come back.
fn starts(from: &UnitState, to: &UnitState) -> bool {
    active(to) && (!active(from) || record(from) != record(to))
}

fn stops(from: &UnitState, to: &UnitState) -> bool {
    active(from) && !active(to)
}

fn title(key: &str, from: &UnitState, to: &UnitState) -> String {
    let enabled = |state: &UnitState| match state {
        UnitState::Unit { enabled, .. } => enabled.clone(),
        UnitState::Absent => String::new(),
    };
    let mut words = Vec::new();
    match enabled(to).as_str() {
        same if same == enabled(from) => {}
        "enabled" | "enabled-runtime" => words.push("enable"),
        "disabled" => words.push("disable"),
        "masked" | "masked-runtime" => words.push("mask"),
        _ => {}
    }
    if starts(from, to) {
        words.push(if active(from) { "restart" } else { "start" });
    } else if stops(from, to) {
        words.push("stop");
    }
    if words.is_empty() {
        words.push("settle");
    }
    format!("{} {key}", words.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use std::os::unix::fs::PermissionsExt;

    fn unit(enabled: &str, active: &str, started: Option<&str>) -> UnitState {
        let started = started.map(str::to_owned);
        UnitState::Unit { enabled: enabled.to_owned(), active: active.to_owned(), started }
    }

    #[test]
    fn only_what_runs_can_be_disturbed() {
        let runs = unit("enabled", "active", Some("d1"));
        let idle = unit("enabled", "inactive", None);
        for (from, to, disturbs) in [
            (&idle, Some(&runs), false),
            (&runs, Some(&idle), true),
            (&runs, Some(&unit("enabled", "active", Some("d2"))), true),
            (&runs, Some(&unit("disabled", "active", Some("d1"))), false),
            (&runs, None, true),
            (&idle, None, false),
            (&UnitState::Absent, Some(&runs), false),
        ] {
            assert_eq!(Unit::disruption(from, to).is_some(), disturbs, "{from:?} {to:?}");
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for (state, line) in [
            (UnitState::Absent, "absent"),
            (unit("enabled", "active", Some("ab")), "unit enabled active ab"),
            (unit("", "inactive", None), "unit \\ inactive -"),
        ] {
            assert_eq!(State::from(state.clone()).line(), line);
            assert_eq!(UnitState::try_from(State::from_line(line)), Ok(state));
        }
        assert!(UnitState::try_from(State::from_line("unit enabled active")).is_err());
    }

    #[test]
    fn a_step_says_what_it_does_and_whether_it_runs_foreign_code() {
        let off = unit("disabled", "inactive", None);
        let on = unit("enabled", "active", Some("a"));
        let again = unit("enabled", "active", Some("b"));
        for (from, to, title, opaque) in [
            (&off, &on, "enable and start x.service", true),
            (&on, &again, "restart x.service", true),
            (&on, &off, "disable and stop x.service", true),
            (&off, &unit("masked", "inactive", None), "mask x.service", false),
            (&on, &unit("enabled", "active", None), "restart x.service", true),
            (&on, &unit("static", "active", Some("a")), "settle x.service", false),
        ] {
            let steps = Unit::steps(&[("x.service", from.clone(), to.clone())]);
            assert_eq!(steps[0].title, title);
            assert_eq!(Unit::opaque(from, to), opaque, "{title}");
        }
    }

    const SYSTEMCTL: &str = "#!/bin/sh
for last; do :; done
printf '%s\\n' Type=simple RemainAfterExit=no Result=success LoadState=loaded ActiveState=active \\
  UnitFileState=enabled ActiveEnterTimestamp=@1700000000 '' \\
  LoadState=not-found ActiveState=inactive UnitFileState= ActiveEnterTimestamp= '' \\
  Type=oneshot RemainAfterExit=no Result=success LoadState=loaded ActiveState=inactive \\
  UnitFileState=static ActiveEnterTimestamp= '' \\
  LoadState=masked ActiveState=inactive UnitFileState=masked
";

    #[test]
    fn systemctl_is_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("systemctl"), SYSTEMCTL).unwrap();
        let set = |mode| {
            std::fs::set_permissions(dir.path().join("systemctl"), std::fs::Permissions::from_mode(mode))
        };
        set(0o755).unwrap();
        std::fs::create_dir(dir.path().join("started")).unwrap();
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap();
        std::fs::write(dir.path().join("started/once.service.boot"), boot).unwrap();
        std::fs::write(dir.path().join("started/a.service"), "d1\n").unwrap();
        let keys = ["a.service", "no.service", "once.service", "m.service"];
        for shell in shells(dir.path()) {
            let here = dir.path().display();
            let script = format!("PATH='{here}':$PATH; CV_SYSTEMD='{here}'; cv_see_unit \"$@\"");
            let seen = crate::testing::parse::<Unit>(&keys, &shell.good(dir.path(), &script, &keys, b""));
            let line = |key: &str| seen[key].clone().unwrap();
            assert_eq!(line("a.service").state.line(), "unit enabled active d1");
            assert_eq!(line("a.service").moment, Some(1_700_000_000));
            assert!(line("no.service").state.is_absent());
            // It ran in this boot, and we started it.
            assert_eq!(line("once.service").state.line(), "unit static active -");
            assert_eq!(line("m.service").state.line(), "unit masked inactive -");
            let none = shell.good(dir.path(), "CV_SYSTEMD=/nonexistent; cv_see_unit a.service", &[], b"");
            let reason =
                crate::testing::parse::<Unit>(&["a.service"], &none)["a.service"].clone().unwrap_err();
            assert_eq!(reason.0, "this host does not run systemd");
        }
    }

    #[test]
    fn what_a_boot_or_a_crash_does_to_a_unit_is_nobodys_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut cases = vec![
            // Found, before the run, left by the run; whether it is still the run's.
            ("unit enabled failed d2", "unit enabled active d1", "unit enabled active d2", true),
            ("unit enabled activating -", "absent", "unit enabled active d2", true),
            ("unit enabled inactive d2", "unit enabled active d1", "unit enabled active d2", false),
            ("unit enabled inactive d2", "unit disabled inactive -", "unit enabled active d2", true),
            ("unit enabled active d1", "absent", "unit enabled inactive -", true),
            ("unit disabled active -", "absent", "unit disabled inactive -", false),
            ("unit disabled active -", "unit disabled active -", "unit disabled inactive -", true),
            ("unit disabled active d2", "absent", "unit enabled active d2", false),
            ("unit \\ active -", "absent", "unit \\ inactive -", false),
            ("absent", "unit enabled active d1", "unit enabled active d2", false),
            // The unit was started with inputs that the run neither left nor found.
            ("unit enabled active d3", "absent", "unit enabled active d2", false),
            ("unit enabled active d3", "unit enabled active d1", "unit enabled active d2", false),
            ("unit enabled active d1", "unit disabled active d1", "unit enabled active d2", true),
            ("unit enabled active -", "absent", "unit enabled active d2", true),
            ("unit enabled active d3", "absent", "unit enabled active -", true),
        ];
        // Both say the same of whatever there is.
        let words = [
            "absent",
            "unit enabled active d",
            "unit enabled active e",
            "unit enabled failed -",
            "unit disabled inactive -",
            "unit masked active -",
        ];
        for found in words {
            for before in words {
                cases.extend(words.map(|left| (found, before, left, shows(found, before, left))));
            }
        }
        for (found, before, left, ours) in &cases {
            assert_eq!(shows(found, before, left), *ours, "{found} after {before}, {left}");
        }
        let table: String = cases.iter().map(|(f, b, l, _)| format!("{f}\t{b}\t{l}\n")).collect();
        let script = "while IFS='\t' read -r f b l; do cv_shows_unit \"$f\" \"$b\" \"$l\" && echo true || echo false; done";
        for shell in shells(dir.path()) {
            let said = shell.good(dir.path(), script, &[], table.as_bytes());
            let said: Vec<bool> = said.lines().map(|line| line == "true").collect();
            for ((found, before, left, ours), said) in cases.iter().zip(&said) {
                assert_eq!(ours, said, "{}: {found} after {before}, {left}", shell.name);
            }
            assert_eq!(said.len(), cases.len());
        }
    }

    fn shows(found: &str, before: &str, left: &str) -> bool {
        let state = |line: &str| UnitState::try_from(State::from_line(line)).unwrap();
        let (before, left) = (state(before), state(left));
        Unit::shows(&state(found), &Past { before: &before, left: &left, between: &[] }, &|_| None)
    }

    #[test]
    fn another_name_of_a_unit_is_reported_with_the_real_one() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        for folder in ["etc", "lib", "started"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        // Of a unit that is not enabled systemd does not know the alias; its file says it.
        let tool = "#!/bin/sh
for last; do
  case $last in
  *.service) ;;
  *) continue ;;
  esac
  case $last in
  a.service | b.service | other.service) echo LoadState=loaded; echo ActiveState=active; echo UnitFileState=enabled ;;
  *) echo LoadState=not-found; echo ActiveState=inactive; echo UnitFileState= ;;
  esac
  case $last in b.service) echo Id=a.service ;; *) echo Id=$last ;; esac
  echo
done
";
        write("systemctl", tool);
        std::fs::set_permissions(dir.path().join("systemctl"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        write("lib/other.service", "[Install]\nAlias = x.service c.service\n");
        write("lib/hidden.service", "[Install]\nAlias=d.service\n");
        write("etc/hidden.service", "[Install]\n");
        write("lib/o@.service", "[Install]\nAlias=e.service\n");
        write("started/a.service", "d1\n");
        let keys =
            ["a.service", "b.service", "c.service", "cc.service", "d.service", "e.service", "a.service"];
        for shell in shells(dir.path()) {
            let here = dir.path().display();
            let script = format!(
                "PATH='{here}':$PATH; CV_SYSTEMD='{here}'; CV_UNIT_FILES='{here}/etc {here}/lib'; cv_see_unit \"$@\""
            );
            let answer = shell.good(dir.path(), &script, &keys, b"");
            let lines: Vec<&str> = answer.lines().collect();
            let own = "- unit enabled active d1";
            let expected = [
                own,
                "-=a.service unit enabled active d1",
                "-=other.service unit enabled active -",
                "- absent",
                "- absent",
                "- absent",
                own,
            ];
            assert_eq!(lines, expected, "{}", shell.name);
        }
    }

    #[test]
    fn what_cannot_be_reached_exactly_is_accepted_as_near_as_it_can_be() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            for (found, wanted, same) in [
                ("unit disabled inactive -", "absent", true),
                ("unit disabled active -", "absent", false),
                ("unit enabled inactive a", "unit enabled failed a", true),
                ("unit enabled inactive a", "unit disabled failed a", false),
                ("unit enabled inactive a", "unit enabled active a", false),
            ] {
                let output = shell.run(dir.path(), "cv_same_unit x \"$1\" \"$2\"", &[found, wanted], b"");
                assert_eq!(output.status.success(), same, "{}: {found} for {wanted}", shell.name);
            }
        }
    }
}
