//! Units whose files and restarts are of different runs, or of different projects.

use super::*;
use converge_tests::prune_by_number;

/// A unit and the file that it is restarted on; what stands between the two may fail.
fn cut(version: &str, between: &str) -> String {
    format!(
        "resources:
  - name: setting
    file: {{path: /srv/setting, content: \"{version}\\n\"}}
{between}  - name: runs
    unit:
      name: cut
      content: |
        [Service]
        ExecStart=/bin/sh -c 'cp /srv/setting /srv/runs-with; exec sleep infinity'
      state: started
      restart_on: [setting]
"
    )
}

fn runs_with(host: &Host) -> String {
    until_exec(host, 20, "test -s /srv/runs-with");
    exec(host, "sleep 0.3; cat /srv/setting /srv/runs-with | xargs")
}

/// The run that failed has changed the file, the run after it has restarted the unit: the unit goes back with the file, in any way.
#[test]
fn a_unit_that_a_later_run_has_restarted_goes_back_with_the_file_of_the_earlier_one() {
    let world = world();
    let host = &world.hosts()[0];
    let barred = "  - name: barred\n    command: {run: 'test -e /srv/open && touch /srv/done', creates: /srv/done, undo: rm -f /srv/done}\n";
    for way in ["rollback", "undo.sh"] {
        exec(host, "touch /srv/open");
        apply(&world, &cut("one", ""));
        assert_eq!(runs_with(host), "one one");
        exec(host, "rm /srv/open");
        world.only_role("r", &cut("two", barred)).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1);
        exec(host, "touch /srv/open");
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0).says("restart cut.service");
        assert_eq!(runs_with(host), "two two");
        match way {
            "rollback" => {
                rollback(&world, &[]).expect(0).says("it goes back with that run");
                assert_eq!(runs_with(host), "two two");
                rollback(&world, &[]).expect(0);
            }
            _ => {
                let undo = || host.exec("sh /var/lib/converge/undo.sh").unwrap();
                let ran = undo();
                assert_eq!(runs_with(host), "two two", "{}{}", ran.stdout, ran.stderr);
                // The file goes back, and the unit that runs with the other one is named.
                let ran = undo();
                assert_eq!(runs_with(host), "one two", "{}{}", ran.stdout, ran.stderr);
                assert!(
                    !ran.success() && ran.stdout.contains("unit:cut.service"),
                    "{}{}",
                    ran.stdout,
                    ran.stderr
                );
                let ran = undo();
                assert!(ran.success(), "{}{}", ran.stdout, ran.stderr);
            }
        }
        assert_eq!(runs_with(host), "one one", "{way}");
        world.only_role("r", &cut("one", "")).unwrap();
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        exec(
            host,
            "systemctl stop cut; rm -rf /etc/systemd/system/cut.service /var/lib/converge /srv/*; systemctl daemon-reload",
        );
    }
}

/// `systemctl` that waits, while `/srv/hold` names its verb.
const WAITS: &str = "printf '#!/bin/sh\nwhile grep -qsx -- \"$1\" /srv/hold; do touch /srv/held; sleep 0.1; done\nexec /usr/bin/systemctl \"$@\"\n' \
     >/usr/local/sbin/systemctl; chmod 755 /usr/local/sbin/systemctl";

/// The run is cut off behind the file of a unit and before its restart, and the next one restarts it.
#[test]
fn a_unit_whose_run_was_cut_off_before_the_restart_goes_back_with_its_file() {
    let world = world();
    let host = &world.hosts()[0];
    let unit = |seconds: &str| {
        format!(
            "resources:\n  - name: runs\n    unit: {{name: cut, content: \"[Service]\\nExecStart=/bin/sleep {seconds}\\n\", state: started}}\n"
        )
    };
    let is = || {
        exec(
            host,
            "grep -o '100[0-9]*' /etc/systemd/system/cut.service; ps -o args= -p $(systemctl show -p MainPID --value cut) | grep -o '100[0-9]*'",
        )
    };
    exec(host, WAITS);
    for (verb, way) in
        ["daemon-reload", "restart"].into_iter().flat_map(|v| [(v, "rollback"), (v, "undo.sh")])
    {
        apply(&world, &unit("100001"));
        exec(host, &format!("echo {verb} >/srv/hold"));
        world.only_role("r", &unit("100002")).unwrap();
        let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until_exec(host, 60, "test -e /srv/held");
        exec(
            host,
            "for fd in /proc/[0-9]*/fd/9; do [ ! $fd -ef /var/lib/converge/lock ] || { pid=${fd#/proc/}; kill -9 ${pid%%/*}; }; done",
        );
        child.kill().unwrap();
        child.wait().unwrap();
        exec(
            host,
            "for pid in $(pgrep -f '^/bin/sh /usr/local/sbin/systemctl'); do kill -9 $pid; done; rm -f /srv/hold /srv/held",
        );
        until_exec(host, 60, "flock -n /var/lib/converge/lock true");
        assert_eq!(is(), "100002\n100001", "{verb}");
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
        assert_eq!(is(), "100002\n100002", "{verb}");
        let mut reply = String::new();
        for _ in 0..4 {
            if is() == "100001\n100001" {
                break;
            }
            // systemd tells starts in whole seconds: a unit without a record that starts in the second of its file may have read the previous one.
            exec(host, "sleep 1.1");
            let ran = match way {
                "rollback" => rollback(&world, &[]).expect(0).all(),
                _ => host.exec("sh /var/lib/converge/undo.sh").unwrap().stdout,
            };
            reply = reply + "\n--\n" + &ran;
            assert!(is() != "100001\n100002" || ran.contains("LEFT ALONE     unit:cut.service"), "{reply}");
        }
        assert_eq!(is(), "100001\n100001", "{verb}, {way}: {reply}");
        world.only_role("r", &unit("100001")).unwrap();
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        exec(
            host,
            "systemctl stop cut; rm -rf /etc/systemd/system/cut.service /var/lib/converge; systemctl daemon-reload",
        );
    }
    exec(host, "rm /usr/local/sbin/systemctl");
}

const OWN: &str =
    "  - unit: {name: cut, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started}\n";
const DROP_IN: &str =
    "  - unit: {name: cut, drop_in: x, content: \"[Service]\\nNice=5\\n\", state: started}\n";

/// A unit that another project has restarted since keeps its file; it goes when the other project has given it back.
#[test]
fn a_unit_with_a_drop_in_of_another_project_keeps_its_file() {
    let world = world();
    let host = &world.hosts()[0];
    let is = || {
        exec(
            host,
            "systemctl show -p LoadState -p ActiveState -p Nice cut | sed 's/.*=//' | xargs; cd /etc/systemd/system; ls -d cut.service* | xargs",
        )
    };
    let back = |name: &str, way: &str, first: &str, code: i32| match way {
        "rollback" => drop(world.of_project(name, &["rollback", "--yes"], None).unwrap().expect(code)),
        "prune" => {
            let prune =
                |option: &str| world.of_project(name, &["apply", "--yes", option], Some("  []\n")).unwrap();
            drop(prune_by_number(prune).expect(code));
        }
        _ => {
            let run = if name == "pa" { first } else { "" };
            let ran = host.exec(&format!("sh /var/lib/converge/undo.sh {run}")).unwrap();
            assert_eq!(ran.success(), code == 0, "{}{}", ran.stdout, ran.stderr);
        }
    };
    let commands = ["rollback", "prune", "undo.sh"];
    for (own, others) in commands.into_iter().flat_map(|own| commands.map(|others| (own, others))) {
        world.of_project("pa", &["apply", "--yes"], Some(OWN)).unwrap().expect(0);
        world.of_project("pb", &["apply", "--yes"], Some(DROP_IN)).unwrap().expect(0);
        let whole = "5 loaded active\ncut.service cut.service.d";
        assert_eq!(is(), whole);
        let first = first_run(host);
        let reply = format!("{own}, of the other one {others}");
        back("pa", own, &first, 4);
        assert_eq!(is(), whole, "{reply}");
        back("pb", others, &first, 0);
        assert_eq!(is(), "0 loaded active\ncut.service", "{reply}");
        back("pa", own, &first, 0);
        assert_eq!(is(), "0 not-found inactive", "{reply}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// Directories before a command that makes a link, the command, and a file behind the link.
const BEHIND: &str = "
  - directory: {path: /srv/p}
  - directory: {path: /srv/p/r}
  - command: {run: systemctl -q is-active cut && ln -s r /srv/p/l, creates: /srv/p/l, undo: systemctl -q is-active cut && rm /srv/p/l}
  - file: {path: /srv/p/l/k, content: \"k\\n\"}
";

/// The command works while the unit runs, and the file behind its link goes before the link does.
#[test]
fn a_command_goes_and_comes_between_its_unit_and_what_lies_behind_its_link() {
    let world = world();
    let host = &world.hosts()[0];
    let unit = "
  - unit: {name: cut, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started}";
    let package = "
  - package: {name: tree}";
    let is = || {
        exec(
            host,
            "cd /srv; find . -mindepth 1 -printf '%p %l\\n' | sort; systemctl is-active cut; ls /usr/bin/tree 2>/dev/null; true",
        )
    };
    let none = is();
    let other = "resources:\n  - file: {path: /srv/o, content: \"o\\n\"}\n";
    for (before, way) in [
        (unit.to_owned(), "rollback"),
        (format!("{package}{unit}"), "rollback"),
        (format!("{unit}{package}"), "undo.sh"),
        (unit.to_owned(), "prune"),
        (format!("{package}{unit}"), "prune"),
    ] {
        let case = format!("{before}, {way}");
        apply(&world, &format!("resources:{before}{BEHIND}"));
        let made = is();
        assert!(made.contains("./p/l r\n./p/r \n./p/r/k \nactive"), "{case}: {made}");
        match way {
            "rollback" => drop(rollback(&world, &[]).expect(0)),
            "undo.sh" => {
                let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert!(undone.success(), "{case}: {}{}", undone.stdout, undone.stderr);
            }
            _ => {
                world.only_role("r", other).unwrap();
                let prune = world.prune_all().unwrap();
                let pruned = world.converge(&prune.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
                assert_eq!(pruned.code, Some(0), "{case}: {}", pruned.all());
                assert_eq!(is(), format!("./o \n{none}"), "{case}: {}", pruned.all());
                let back = rollback(&world, &[]).expect(0);
                assert_eq!(is(), made, "{case}: {}", back.all());
                rollback(&world, &[]).expect(0);
            }
        }
        assert_eq!(is(), none, "{case}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// The plan of a mask is what systemd makes of it: it ends a timer, and a socket no longer listens until it is started again.
#[test]
fn what_runs_is_masked_as_planned_and_works_again_after_it() {
    let world = world();
    let host = &world.hosts()[0];
    let unit = |name: &str, text: &str| {
        exec(
            host,
            &format!(
                "mkdir -p /usr/local/lib/systemd/system; printf '{text}' >/usr/local/lib/systemd/system/{name}"
            ),
        );
    };
    let timer = "[Timer]\\nOnCalendar=daily\\n[Install]\\nWantedBy=timers.target\\n";
    let service = "[Service]\\nExecStart=/bin/sleep infinity\\n";
    for name in ["once.service", "each@.service", "seen.service", "runs.service"] {
        unit(name, service);
    }
    unit("heard.service", "[Service]\\nExecStart=/bin/sh -c \"head -n 1 <&3 >/run/heard\"\\n");
    unit("once.timer", timer);
    unit("each@.timer", timer);
    unit("heard.socket", "[Socket]\\nListenFIFO=/run/heard.fifo\\n[Install]\\nWantedBy=sockets.target\\n");
    unit("seen.path", "[Path]\\nPathExists=/run/seen\\n[Install]\\nWantedBy=paths.target\\n");
    let units = "once.timer each@x.timer heard.socket seen.path runs.service once.service";
    exec(
        host,
        "systemctl daemon-reload; systemctl -q enable --now once.timer each@x.timer heard.socket seen.path; systemctl start runs",
    );
    let shown = format!("systemctl show -p Id -p UnitFileState -p ActiveState --value {units} | xargs");
    let found = exec(host, &shown);
    let role = units.split(' ').fold("resources:\n".to_owned(), |role, name| {
        format!("{role}  - name: {name}\n    service: {{name: {name}, masked: true}}\n")
    });
    for way in ["rollback", "undo.sh"] {
        let applied = apply(&world, &role);
        applied.says("mask and stop once.timer").says("mask and stop each@x.timer");
        assert_eq!(
            exec(host, &format!("systemctl is-active {units} | xargs")),
            "inactive inactive active active active inactive"
        );
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0).says("nothing to change");
        if way == "rollback" {
            rollback(&world, &[]).expect(0);
        } else {
            let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
            assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
        }
        assert_eq!(exec(host, &shown), found, "{way}");
        exec(host, "rm -f /run/heard; timeout 5 sh -c 'echo word >/run/heard.fifo'");
        until_exec(host, 10, "test -s /run/heard");
    }
    exec(
        host,
        &format!(
            "systemctl -q disable {units} 2>/dev/null; systemctl stop {units}; cd /usr/local/lib/systemd/system; rm once.* each@* heard.* seen.* runs.service; systemctl daemon-reload"
        ),
    );
}

/// Two roles have the unit of a package, and one of them restarts it for a drop-in of its own.
#[test]
fn a_unit_that_another_role_has_running_is_restarted_when_the_drop_in_of_a_role_goes() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "systemctl enable --now cron 2>/dev/null || apt-get install -qq -y cron >/dev/null; systemctl disable -q --now cron",
    );
    let web = "resources:\n  - service: {name: cron, state: started, enabled: true}\n";
    let limits = "requires: [web]\nresources:\n  - name: limit\n    unit: {name: cron, drop_in: limit, content: \"[Service]\\nNice=5\\n\"}\n  - service: {name: cron, restart_on: [limit]}\n";
    world.write("roles/web/role.yaml", web).unwrap();
    world.write("roles/limits/role.yaml", limits).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [web, limits]\n").unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let shown = "systemctl is-enabled cron; systemctl is-active cron; systemctl show -p Nice --value cron";
    assert_eq!(exec(host, shown).replace('\n', " "), "enabled active 5");
    rollback(&world, &["--role", "limits"]).expect(0).says("restart cron.service");
    assert_eq!(exec(host, shown).replace('\n', " "), "enabled active 0");
    // The part of the other role is in force, and goes by itself.
    world.converge(&["plan", "hosts.yaml", "--role", "web"]).unwrap().expect(0);
    rollback(&world, &["--role", "web"]).expect(0);
    assert_eq!(exec(host, shown).replace('\n', " "), "disabled inactive 0");
    exec(host, "systemctl enable -q --now cron");
}

/// The package comes back first, and its unit with it: the plan that is made again then does not see the template yet.
#[test]
fn the_instance_of_a_template_comes_back_beside_a_package_with_a_service() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get purge -qq -y cron >/dev/null 2>&1; true");
    let role = "resources:
  - package: {name: cron}
  - unit: {name: 'w@.service', content: \"[Service]\\nExecStart=/bin/sleep 900\\n[Install]\\nWantedBy=multi-user.target\\n\"}
  - service: {name: cron, state: started, enabled: true}
  - service: {name: 'w@one', state: started, enabled: true}
";
    apply(&world, role);
    rollback(&world, &[]).expect(0);
    let back = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    rollback(&world, &["--to", &back]).expect(0);
    let shown = "systemctl is-enabled w@one; systemctl is-active w@one cron";
    assert_eq!(exec(host, shown).replace('\n', " "), "enabled active active");
    rollback(&world, &[]).expect(0);
}
