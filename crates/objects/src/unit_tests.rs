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
  LoadState=masked ActiveState=inactive UnitFileState=masked '' \\
  LoadState=loaded ActiveState=inactive UnitFileState=bad FragmentPath=/nonexistent/gone.service
";

/// A unit is restarted for other inputs of a restart, and reloaded where those of a reload alone differ: on both sides.
#[test]
fn the_record_says_whether_a_unit_is_restarted_or_reloaded() {
    let tools = tempfile::tempdir().unwrap();
    let cases = [
        (None, None, Act::Nothing),
        (None, Some("a"), Act::Restart),
        (Some("a"), None, Act::Restart),
        (None, Some("~a"), Act::Reload),
        (Some("~a"), None, Act::Reload),
        (Some("a+~b"), Some("a+~c"), Act::Reload),
        (Some("a"), Some("a+~c"), Act::Reload),
        (Some("a+~b"), Some("d+~c"), Act::Restart),
        (Some("a+~b"), Some("d+~b"), Act::Restart),
        (Some("k=a+l=b+~k=c"), Some("k=a+l=b+~k=c"), Act::Nothing),
        (Some("k=a+l=b+~k=c"), Some("k=a+l=b+~k=c+~l=d"), Act::Reload),
        (Some("k=a+l=b+~k=c"), Some("k=a+l=d+~k=c"), Act::Restart),
    ];
    for (from, to, expected) in cases {
        let (from_state, to_state) = (unit("enabled", "active", from), unit("enabled", "active", to));
        assert_eq!(act(&from_state, &to_state), expected, "{from:?} {to:?}");
        let disturbs = expected == Act::Restart;
        assert_eq!(Unit::disruption(&from_state, Some(&to_state)) == Disruption::Restarts, disturbs);
        let word = match expected {
            Act::Restart => "restart",
            Act::Reload => "reload",
            _ => "",
        };
        for shell in shells(tools.path()) {
            let root = tempfile::tempdir().unwrap();
            let args = [from.unwrap_or("-"), to.unwrap_or("-")];
            let reply =
                shell.good(root.path(), "cv_unit_act \"$1\" \"$2\"; printf %s \"$CV_ACT\"", &args, b"");
            assert_eq!(reply, word, "{} {args:?}", shell.name);
        }
    }
}

#[test]
fn systemctl_is_read_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("systemctl"), SYSTEMCTL).unwrap();
    let set =
        |mode| std::fs::set_permissions(dir.path().join("systemctl"), std::fs::Permissions::from_mode(mode));
    set(0o755).unwrap();
    std::fs::create_dir(dir.path().join("started")).unwrap();
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(dir.path().join("started/once.service.boot"), boot).unwrap();
    std::fs::write(dir.path().join("started/a.service"), "d1\n").unwrap();
    let keys = ["a.service", "no.service", "once.service", "m.service", "gone.service"];
    for shell in shells(dir.path()) {
        let here = dir.path().display();
        let script = format!("PATH='{here}':$PATH; CV_SYSTEMD='{here}'; cv_see_unit \"$@\"");
        let observed = crate::testing::parse::<Unit>(&keys, &shell.good(dir.path(), &script, &keys, b""));
        let line = |key: &str| observed[key].clone().unwrap();
        assert_eq!(line("a.service").state.line(), "unit enabled active d1");
        assert_eq!(line("a.service").moment, Some(1_700_000_000));
        assert!(line("no.service").state.is_absent());
        // It ran in this boot, and we started it.
        assert_eq!(line("once.service").state.line(), "unit static active -");
        assert_eq!(line("m.service").state.line(), "unit masked inactive -");
        // Its file is gone, and systemd has not been reloaded.
        assert!(line("gone.service").state.is_absent());
        let none = shell.good(dir.path(), "CV_SYSTEMD=/nonexistent; cv_see_unit a.service", &[], b"");
        let reason = crate::testing::parse::<Unit>(&["a.service"], &none)["a.service"].clone().unwrap_err();
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
    for (found, before, left, managed_here) in &cases {
        assert_eq!(shows(found, before, left), *managed_here, "{found} after {before}, {left}");
    }
    let table: String = cases.iter().map(|(f, b, l, _)| format!("{f}\t{b}\t{l}\n")).collect();
    let script = "while IFS='\t' read -r f b l; do cv_shows_unit \"$f\" \"$b\" \"$l\" && echo true || echo false; done";
    for shell in shells(dir.path()) {
        let reply = shell.good(dir.path(), script, &[], table.as_bytes());
        let reply: Vec<bool> = reply.lines().map(|line| line == "true").collect();
        for ((found, before, left, managed_here), reply) in cases.iter().zip(&reply) {
            assert_eq!(managed_here, reply, "{}: {found} after {before}, {left}", shell.name);
        }
        assert_eq!(reply.len(), cases.len());
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
    std::fs::set_permissions(dir.path().join("systemctl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    write("lib/other.service", "[Install]\nAlias = x.service c.service\n");
    write("lib/hidden.service", "[Install]\nAlias=d.service\n");
    write("etc/hidden.service", "[Install]\n");
    write("lib/o@.service", "[Install]\nAlias=e.service\n");
    write("started/a.service", "d1\n");
    let keys = ["a.service", "b.service", "c.service", "cc.service", "d.service", "e.service", "a.service"];
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

#[test]
fn controller_and_host_agree_on_what_an_interrupted_step_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let on = unit("enabled", "active", Some("d1"));
    let off = unit("disabled", "inactive", None);
    let stays = unit("disabled", "inactive", Some("d1"));
    let masked = unit("masked", "inactive", None);
    let absent = UnitState::Absent;
    for (from, to, now, amid) in [
        (&on, &absent, &off, true),
        (&on, &absent, &stays, true),
        (&on, &absent, &unit("enabled", "failed", Some("d1")), true),
        (&on, &absent, &masked, false),
        (&on, &absent, &unit("disabled", "inactive", Some("d2")), false),
        (&on, &absent, &absent, false),
        (&absent, &on, &unit("disabled", "active", None), true),
        (&masked, &on, &off, true),
        (&on, &masked, &unit("static", "inactive", None), true),
        (&on, &off, &unit("static", "inactive", None), false),
        (&unit("", "inactive", None), &on, &unit("", "active", Some("d1")), true),
    ] {
        assert_eq!(Unit::amid(from, to, now), amid, "{from:?} {to:?} {now:?}");
        let line = |state: &UnitState| State::from(state.clone()).line().to_owned();
        for shell in shells(dir.path()) {
            let args = [line(now), line(from), line(to)];
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = shell.run(dir.path(), "cv_amid_unit \"$@\"", &args, b"");
            assert_eq!(output.status.success(), amid, "{}: {args:?}", shell.name);
        }
    }
}
