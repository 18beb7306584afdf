//! The order of a rollback on a real host: judged from outside, by files, units, processes and packages.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World, exec, until, until_exec};
use std::io::Read as _;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// One host for all tests here, one test at a time.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("rollback-order-{}", std::process::id()), 1).unwrap()));

fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    // A test that failed may have left its unit.
    exec(
        &world.hosts()[0],
        "rm -rf /var/lib/converge /srv/*; systemctl stop cut 2>/dev/null; rm -f /etc/systemd/system/cut.service; systemctl daemon-reload",
    );
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

fn apply(world: &World, role: &str) -> Ran {
    world.only_role("r", role).unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0)
}

fn rollback(world: &World, args: &[&str]) -> Ran {
    let mut all = vec!["rollback", "--yes", "hosts.yaml"];
    all.extend(args);
    world.converge(&all).unwrap()
}

/// The run that began first of those that are kept.
fn first_run(host: &Host) -> String {
    exec(host, "ls /var/lib/converge/runs | head -n 1")
}

fn program(version: &str) -> String {
    format!(
        r##"resources:
  - name: program
    file: {{path: /usr/local/bin/demo, mode: "0755", content: "#!/bin/sh\necho {version} > /run/demo\nexec sleep infinity\n"}}
  - name: service
    unit: {{name: demo, content: "[Service]\nExecStart=/usr/local/bin/demo\n", state: started, restart_on: [program]}}
"##
    )
}

/// The same, with a unit that is there already.
fn demo(version: &str) -> String {
    let another = "  - name: another\n    service: {name: demo2, state: started, restart_on: [setting]}\n";
    let setting = format!("  - name: setting\n    file: {{path: /etc/demo2, content: \"{version}\\n\"}}\n");
    [program(version), setting, another.to_owned()].concat()
}

/// The output of both programs, and the files on the disk.
fn runs(host: &Host) -> String {
    until_exec(host, 20, "test -s /run/demo && test -s /run/demo2");
    exec(
        host,
        "cat /run/demo /run/demo2 /etc/demo2; tail -n 2 /usr/local/bin/demo | head -n 1; systemctl is-active demo demo2",
    )
}

#[test]
fn a_unit_runs_with_what_has_come_back() {
    let world = world();
    let host = &world.hosts()[0];
    // A unit that ran before converge, with an earlier file: its first record is one of converge.
    exec(
        host,
        "printf 'zero\\n' > /etc/demo2; \
         printf '[Service]\\nExecStart=/bin/sh -c \"cat /etc/demo2 > /run/demo2; exec sleep infinity\"\\n' > /etc/systemd/system/demo2.service; \
         systemctl daemon-reload; systemctl start demo2; sleep 1.1",
    );
    let wanted = |version: &str| {
        format!("{version}\n{version}\n{version}\necho {version} > /run/demo\nactive\nactive")
    };
    for version in ["v1", "v2"] {
        apply(&world, &demo(version));
        assert_eq!(runs(host), wanted(version));
    }
    rollback(&world, &[]).expect(0);
    assert_eq!(runs(host), wanted("v1"));
    // The plan that finds nothing to do tells the truth.
    world.only_role("r", &demo("v1")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    // The same on the host itself.
    apply(&world, &demo("v2"));
    assert_eq!(runs(host), wanted("v2"));
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(runs(host), wanted("v1"));
    // A file that a user has changed stays; the unit has no record of running with another one.
    apply(&world, &demo("v2"));
    exec(host, "sed -i s/v2/v3/ /usr/local/bin/demo");
    rollback(&world, &[]).expect(4).says("changed by someone else");
    assert!(runs(host).starts_with("v3\nv1\nv1\n"), "{}", runs(host));
    assert!(!host.exec("test -e /var/lib/converge/started/demo.service").unwrap().success());
    exec(host, "sed -i s/v3/v2/ /usr/local/bin/demo");
    rollback(&world, &[]).expect(0);
    assert_eq!(runs(host), wanted("v1"));
    // And to before the first run: the unit that was there runs with its own file again.
    rollback(&world, &[]).expect(0);
    assert_eq!(
        exec(
            host,
            "cat /etc/demo2 /run/demo2; systemctl is-active demo demo2; ls /usr/local/bin/demo 2>&1 | grep -c 'No such'; true"
        ),
        "zero\nzero\ninactive\nactive\n1"
    );
    exec(
        host,
        "systemctl stop demo2; rm -f /etc/demo2 /run/demo* /etc/systemd/system/demo2.service; systemctl daemon-reload",
    );
}

#[test]
fn a_unit_that_crashed_is_reverted_and_one_that_somebody_stopped_is_left() {
    let world = world();
    let host = &world.hosts()[0];
    let runs = || exec(host, "sleep 0.5; cat /run/demo; systemctl is-active demo; true");
    apply(&world, &program("v1"));
    for on_the_host in [false, true] {
        apply(&world, &program("v2"));
        assert_eq!(runs(), "v2\nactive");
        exec(host, "systemctl kill -s KILL demo; sleep 0.5; ! systemctl is-active -q demo");
        match on_the_host {
            false => drop(rollback(&world, &[]).expect(0)),
            true => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(runs(), "v1\nactive");
    }
    apply(&world, &program("v2"));
    exec(host, "systemctl stop demo");
    rollback(&world, &[]).expect(4).says("unit:demo.service: it was changed by someone else");
    exec(host, "systemctl start demo");
    rollback(&world, &[]).expect(0);
    assert_eq!(runs(), "v1\nactive");
    // A unit that a prune took away comes back enabled and running, whatever else comes back between its file and its start.
    let timer = |more: &str| {
        format!("  - name: timer\n    timer: {{name: bk, run: 'true{more}', on_calendar: daily}}\n")
    };
    let command = "  - name: command\n    command: {run: 'echo 1 > /srv/cmd', creates: /srv/cmd, undo: 'rm -f /srv/cmd'}\n";
    let enabled = program("v1").replace("[Service]", "[Install]\\nWantedBy=multi-user.target\\n[Service]");
    let enabled = enabled.replace("state: started", "state: started, enabled: true");
    apply(&world, &[enabled, timer(""), command.to_owned()].concat());
    let whole = "systemctl is-enabled demo bk.timer; systemctl is-active demo bk.timer; cat /srv/cmd /usr/local/bin/demo";
    let before = exec(host, whole);
    world.only_role("r", &format!("resources:\n{}", timer(" 2"))).unwrap();
    let pruned = ["apply", "--yes", "hosts.yaml", "--prune=4"];
    world.converge(&pruned).unwrap().expect(0);
    assert!(!host.exec("test -e /usr/local/bin/demo").unwrap().success());
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, whole), before);
    exec(
        host,
        "systemctl -q disable --now bk.timer demo; rm -f /etc/systemd/system/bk.* /etc/systemd/system/demo.service \
         /usr/local/bin/demo /run/demo; systemctl daemon-reload",
    );
}

#[test]
fn a_tree_that_went_twice_comes_back_whole_and_a_command_is_undone_with_what_it_made() {
    let world = world();
    let host = &world.hosts()[0];
    let tree = "mkdir -p /srv/d2/a/b; echo 1 > /srv/d2/a/b/one; echo 2 > /srv/d2/two";
    let state = "find /srv -printf '%p %y %m %s\\n' | grep -v ' d 755 ' | sort; find /srv -type d | sort";
    exec(host, tree);
    let before = exec(host, state);
    let absent = "resources:\n  - name: tree\n    absent: {path: /srv/d2, recursive: true}\n";
    apply(&world, absent);
    let first = first_run(host);
    exec(host, &format!("{tree}; echo 3 > /srv/d2/new"));
    apply(&world, absent);
    assert_eq!(exec(host, "ls /srv"), "");
    let back = rollback(&world, &["--to", &first]);
    assert_eq!(back.code, Some(0), "{}", back.all());
    assert_eq!(exec(host, "cat /srv/d2/a/b/one /srv/d2/two"), "1\n2");
    exec(host, "rm -rf /srv/d2/new");
    assert_eq!(exec(host, state), before);
    exec(host, "rm -rf /srv/d2 /var/lib/converge");
    // A command with `creates`, and edits of what it made: in the same run, and in a later one.
    let made = "resources:\n  - name: make\n    command: {run: 'echo a=1 > /srv/f', creates: /srv/f, undo: 'rm /srv/f; echo undone >> /srv/log'}\n  - name: edit\n    line: {path: /srv/f, line: b=2}\n";
    apply(&world, made);
    apply(&world, &format!("{made}  - name: more\n    line: {{path: /srv/f, line: c=3}}\n"));
    let first = first_run(host);
    let back = rollback(&world, &["--to", &first]);
    assert_eq!(back.code, Some(0), "{}", back.all());
    assert_eq!(exec(host, "ls /srv; cat /srv/log"), "log\nundone");
    apply(&world, made);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(exec(host, "ls /srv; cat /srv/log"), "log\nundone\nundone");
}

#[test]
fn packages_go_together_and_a_masked_unit_is_masked_without_its_link() {
    let world = world();
    let host = &world.hosts()[0];
    let installed = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' | grep '^[^ ]* [^ ]* [ihr]'; apt-mark showmanual | sort; apt-mark showhold";
    let link = "ls /etc/systemd/system/*.wants/masked.service 2>/dev/null; systemctl is-enabled masked; systemctl is-active masked; true";
    exec(
        host,
        "mkdir -p /usr/local/lib/systemd/system; printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \
         > /usr/local/lib/systemd/system/masked.service; systemctl daemon-reload; systemctl mask masked",
    );
    let (packages, unit) = (exec(host, installed), exec(host, link));
    let role = r#"resources:
  - name: tree
    package: {name: tree}
  - name: firewall
    package: {name: ufw}
  - name: between
    file: {path: /srv/between, content: "x\n"}
  - name: python
    package: {name: python3-minimal}
  - name: lifted
    service: {name: masked, masked: false, enabled: true, state: started}
"#;
    for way in ["rollback", "undo.sh"] {
        apply(&world, role);
        exec(host, "systemctl is-active masked && ls /usr/bin/tree /usr/sbin/ufw /usr/bin/python3");
        if way == "rollback" {
            let plan = rollback(&world, &[]);
            assert_eq!(plan.code, Some(0), "{}", plan.all());
            assert_eq!(plan.stdout.matches(" python3-minimal ").count(), 1, "{}", plan.stdout);
        } else {
            let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
            assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
        }
        assert_eq!(exec(host, installed), packages, "{way}");
        assert_eq!(exec(host, link), unit, "{way}");
        assert_eq!(exec(host, "ls /srv"), "");
    }
    exec(
        host,
        "systemctl unmask masked; rm /usr/local/lib/systemd/system/masked.service; systemctl daemon-reload",
    );
}

/// A file, a unit that takes its time to start, a command that takes its time, a file: a power cut at every point of an apply.
const SLOW: &str = r#"resources:
  - name: below
    file: {path: /srv/below, content: "1\n"}
  - name: runs
    unit: {name: cut, content: "[Service]\nExecStartPre=/bin/sh -c 'touch /srv/starting; sleep 2'\nExecStart=/bin/sleep infinity\n", state: started}
  - name: slow
    command: {run: "touch /srv/running; sleep 2; touch /srv/slow", creates: /srv/slow, undo: rm /srv/slow}
  - name: above
    file: {path: /srv/above, content: "2\n"}
"#;

#[test]
fn an_apply_that_was_cut_off_at_any_step_is_told_completed_and_taken_back() {
    let world = world();
    let host = &world.hosts()[0];
    world.only_role("r", SLOW).unwrap();
    // Behind the first file; in the start of the unit; behind it; in the command; behind it.
    let moments = [
        "test -e /srv/below",
        "test -e /srv/starting",
        "systemctl -q is-active cut",
        "test -e /srv/running",
        "test -e /srv/slow",
    ];
    for moment in moments {
        for power in [true, false] {
            let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            until_exec(host, 60, moment);
            if power {
                host.kill().unwrap();
            }
            drop(child.kill());
            child.wait().unwrap();
            if power {
                host.start().unwrap();
            }
            until_exec(host, 60, "test -d /srv && flock -n /var/lib/converge/lock true");
            let plan = world.converge(&["plan", "hosts.yaml"]).unwrap();
            let done = exec(host, "cd /srv; ls above 2>/dev/null; true");
            // It may have come to its last item before it was cut off.
            if done.is_empty() {
                assert_eq!(plan.code, Some(2), "{moment}, {power}: {}", plan.all());
                assert!(plan.all().contains("did not end"), "{moment}, {power}: {}", plan.all());
            }
            let rest = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap();
            assert_eq!(rest.code, Some(0), "{moment}, {power}: {}", rest.all());
            let whole = exec(host, "cd /srv; cat below above; test -e slow && systemctl is-active cut");
            assert_eq!(whole, "1\n2\nactive", "{moment}, {power}: {}", rest.all());
            world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
            let first = first_run(host);
            let back = rollback(&world, &["--to", &first]);
            assert_eq!(back.code, Some(0), "{moment}, {power}: {}", back.all());
            let left = exec(
                host,
                "cd /srv; rm -f starting running; ls -A; systemctl is-active cut; ls /etc/systemd/system/cut.service 2>&1 | grep -c 'No such'; true",
            );
            assert_eq!(left, "inactive\n1", "{moment}, {power}: {}", back.all());
            exec(host, "rm -rf /var/lib/converge");
        }
    }
}

/// A file, a command whose undo takes its time, a unit, a file: for a power cut at every point of the rollback.
const CUT: &str = r#"resources:
  - name: below
    file: {path: /srv/below, content: "1\n"}
  - name: slow
    command: {run: touch /srv/slow, creates: /srv/slow, undo: "touch /srv/undoing; sleep 2; rm /srv/slow"}
  - name: runs
    unit: {name: cut, content: "[Service]\nExecStart=/bin/sleep infinity\n", state: started}
  - name: above
    file: {path: /srv/above, content: "2\n"}
"#;

#[test]
fn a_rollback_or_prune_that_was_cut_off_at_any_step_is_completed_by_the_next() {
    let world = world();
    let host = &world.hosts()[0];
    // When the power goes: the first file is gone; the unit is stopped; the command is being undone; it is undone.
    let moments = [
        "! test -e /srv/above",
        "! systemctl -q is-active cut",
        "test -e /srv/undoing",
        "test -e /srv/undoing && ! test -e /srv/slow",
    ];
    for (moment, prunes) in moments.into_iter().flat_map(|m| [false, true].map(|prunes| (m, prunes))) {
        apply(&world, CUT);
        if prunes {
            world.only_role("r", "resources: []\n").unwrap();
        }
        let way = || {
            if prunes {
                world.prune_all().unwrap()
            } else {
                ["rollback", "--yes", "hosts.yaml"].map(str::to_owned).to_vec()
            }
        };
        let run =
            |way: Vec<String>| world.converge(&way.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let mut command = world.command(&way().iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the moment to cut it off", 60, || {
            let come = host.exec(moment).unwrap().success();
            if !come && child.try_wait().unwrap().is_some() {
                let mut said = String::new();
                child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("{moment}, prunes {prunes}: it ended before: {said}");
            }
            come
        });
        host.kill().unwrap();
        drop(child.kill());
        child.wait().unwrap();
        host.start().unwrap();
        until_exec(host, 60, "test -d /srv");
        let rest = run(way());
        assert_eq!(rest.code, Some(0), "{moment}: {}", rest.all());
        let left = exec(
            host,
            "cd /srv; rm -f undoing; ls -A; systemctl is-active cut; ls /etc/systemd/system/cut.service 2>&1 | grep -c 'No such'; true",
        );
        assert_eq!(left, "inactive\n1", "{moment}: {}", rest.all());
        let none = run(way()).expect(0);
        let none = none.all();
        let says = ["nothing to change", "nothing to do", "no host has a run"];
        assert!(says.iter().any(|what| none.contains(what)), "{moment}: {none}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

#[test]
fn an_apply_that_was_cut_off_in_a_step_is_rolled_back_and_leaves_no_temporary_file() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |text: &str, check: &str| {
        format!(
            "resources:\n  - name: f\n    file: {{path: /srv/f, content: \"{text}\\n\", validate: \"{check}\"}}\n"
        )
    };
    apply(&world, &role("one", "test -s %s"));
    let first = first_run(host);
    world.only_role("r", &role("two", "touch /srv/checking; sleep 30; test -s %s")).unwrap();
    let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_exec(host, 60, "test -e /srv/checking");
    host.kill().unwrap();
    drop(child.kill());
    child.wait().unwrap();
    host.start().unwrap();
    until_exec(host, 60, "test -e /srv/f");
    assert_eq!(exec(host, "cat /srv/f; ls -A /srv | grep -c '^[.]f[.]cv-'"), "one\n1");
    let back = rollback(&world, &["--to", &first]);
    assert_eq!(back.code, Some(0), "{}", back.all());
    assert_eq!(exec(host, "ls -A /srv"), "checking");
}

/// All that lies below `/srv`: type, mode, owner, size or target, and content.
fn srv(host: &Host) -> String {
    exec(
        host,
        "cd /srv && find . -mindepth 1 -printf '%p %y %m %u:%g %l\\n' | sort; find . -type f | sort | xargs -r sha256sum",
    )
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file_and_all_comes_back() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "cd /srv && echo one >x && chmod 640 x && chown daemon x && mkdir -p -m 750 d/sub l && echo two >d/sub/f && ln -s f d/sub/to && echo three >l/f",
    );
    let found = srv(host);
    let there = r#"resources:
  - name: x
    directory: {path: /srv/x, mode: "0711", force: true}
  - name: in x
    file: {path: /srv/x/in, content: "in\n"}
  - name: d
    file: {path: /srv/d, content: "d\n", force: true}
  - name: l
    link: {path: /srv/l, target: x, force: true}
"#;
    let back = r#"resources:
  - name: x
    file: {path: /srv/x, content: "again\n", force: true}
  - name: d
    directory: {path: /srv/d, force: true}
  - name: in d
    file: {path: /srv/d/in, content: "in\n"}
  - name: l
    directory: {path: /srv/l, force: true}
"#;
    // Without `force` nothing of it is done, and the plan says how.
    world.only_role("r", &there.replace(", force: true", "")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1).says("`force: true`");
    let unchanged = || world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    apply(&world, there);
    unchanged();
    let first = srv(host);
    apply(&world, back);
    unchanged();
    assert_ne!(srv(host), first);
    rollback(&world, &[]).expect(0);
    assert_eq!(srv(host), first);
    rollback(&world, &[]).expect(0);
    assert_eq!(srv(host), found);
    // Both runs in one, and by the host alone.
    apply(&world, there);
    let run = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    apply(&world, back);
    rollback(&world, &["--to", &run]).expect(0);
    assert_eq!(srv(host), found);
    apply(&world, there);
    exec(host, "sh /var/lib/converge/undo.sh");
    assert_eq!(srv(host), found);
}

#[test]
fn the_checks_after_a_rollback_are_reported_in_every_form() {
    let world = world();
    let role = |value: &str, more: &str| {
        format!(
            "resources:\n  - name: it\n    file: {{path: /srv/it, content: \"{value}\\n\"}}\n{more}\
             verify:\n  - name: its value\n    query: {{run: 'test \"$(cat /srv/it)\" = {value}'}}\n"
        )
    };
    let more = "  - name: more\n    file: {path: /srv/more, content: x}\n";
    apply(&world, &role("one", more));
    apply(&world, &role("two", more));
    // The project still declares two: the check says so, and the rollback is done all the same.
    let json = rollback(&world, &["--output", "json"]).expect(0).json().unwrap();
    let check = &json["checks"][0]["checks"][0];
    assert_eq!((&check["address"], &check["holds"]), (&"r/its value".into(), &false.into()), "{json:#}");
    apply(&world, &role("three", more));
    let xml = rollback(&world, &["--output", "junit"]).expect(0).stdout;
    assert!(xml.contains("h1: checks") && xml.contains("its value"), "{xml}");
    apply(&world, &role("four", more));
    rollback(&world, &[]).expect(0).says("1 of 1 check failed").says("its value");
}

/// A check of a role of which nothing is left is not asked: it may wait for minutes for what the rollback took away.
#[test]
fn the_checks_of_roles_that_are_gone_are_not_run() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |name: &str| {
        format!(
            "resources:\n  - name: it\n    file: {{path: /srv/{name}, content: x}}\n\
             verify:\n  - name: its check\n    query: {{run: 'echo {name} >>/run/asked; test -e /srv/{name}'}}\n"
        )
    };
    for name in ["stays", "goes"] {
        world.write(&format!("roles/{name}/role.yaml"), &role(name)).unwrap();
    }
    let site = |roles: &str| {
        world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{roles}]\n")).unwrap();
    };
    let apply = || world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    site("stays");
    apply();
    site("stays, goes");
    apply();
    exec(host, "rm -f /run/asked");
    let ran = rollback(&world, &[]).expect(0).says("1 check holds");
    assert!(!ran.all().contains("goes/its check"), "{}", ran.all());
    assert_eq!(exec(host, "sort -u /run/asked"), "stays");
    // To the bare host: no check at all.
    exec(host, "rm -f /run/asked");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "cat /run/asked 2>/dev/null || echo none"), "none");
}

#[test]
fn a_directory_that_holds_what_others_made_stays_and_an_older_run_is_reverted_next() {
    let world = world();
    let host = &world.hosts()[0];
    let older = "resources:\n  - name: file\n    file: {path: /etc/older, content: \"a\\n\"}\n";
    let newer = format!("{older}  - name: directory\n    directory: {{path: /srv/newer}}\n");
    let twice = || {
        exec(host, "rm -rf /var/lib/converge /srv/newer /etc/older");
        apply(&world, older);
        apply(&world, &newer);
        exec(host, "touch \"/srv/newer/a file of others\"");
    };
    twice();
    let first = rollback(&world, &[]);
    first.says("it holds /srv/newer/a file of others, which is not reverted").says("remove file /etc/older");
    assert_eq!(exec(host, "ls /srv/newer; ls /etc/older 2>/dev/null || echo gone"), "a file of others\ngone");
    // Once it is empty it goes.
    exec(host, "rm /srv/newer/*");
    rollback(&world, &[]).expect(0).says("remove directory /srv/newer");
    // Managed objects in it are removed with it.
    twice();
    exec(host, "rm /srv/newer/*");
    apply(
        &world,
        &format!("{newer}  - name: inside\n    file: {{path: /srv/newer/inside, content: \"b\\n\"}}\n"),
    );
    let ids = exec(host, "ls /var/lib/converge/runs");
    rollback(&world, &["--to", ids.lines().nth(1).unwrap()]).expect(0);
    assert_eq!(exec(host, "ls -d /srv/newer 2>/dev/null || echo gone"), "gone");
    // The same without converge.
    twice();
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.stdout.contains("restored       path:/etc/older"), "{}{}", undone.stdout, undone.stderr);
    exec(host, "rm /srv/newer/*");
    let rest = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(
        rest.success() && rest.stdout.contains("restored       path:/srv/newer"),
        "{}{}",
        rest.stdout,
        rest.stderr
    );
}

#[test]
fn instances_come_and_go_with_their_template() {
    let world = world();
    let host = &world.hosts()[0];
    let role = r#"resources:
  - name: template
    unit: {name: "w@", content: "[Service]\nExecStart=/bin/sleep 10%i\n[Install]\nWantedBy=multi-user.target\n"}
  - name: instances
    for_each: [1, 2]
    service: {name: "w@{{ item }}", state: started, enabled: true}
  - name: stopped
    service: {name: w@3, state: stopped}
"#;
    apply(&world, role);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(
        exec(host, "systemctl is-active w@1 w@2; systemctl is-enabled w@1"),
        "active\nactive\nenabled"
    );
    rollback(&world, &[]).expect(0);
    let rest =
        "systemctl list-units --all 'w@*' --no-legend --plain; ls /etc/systemd/system | grep w@ || echo none";
    assert_eq!(exec(host, rest), "none");
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(exec(host, rest), "none");
}

#[test]
fn what_lies_below_a_link_that_is_not_there_yet_waits_for_it() {
    let world = world();
    let role = r#"resources:
  - name: memory
    mount: {path: /srv/memory, source: tmpfs, fstype: tmpfs}
  - name: directory
    directory: {path: /srv/memory/x/y, parents: true}
  - name: link
    link: {path: /srv/to-memory, target: memory/x}
  - name: file
    file: {path: /srv/to-memory/y/file, content: "g\n"}
"#;
    apply(&world, role);
    assert_eq!(exec(&world.hosts()[0], "cat /srv/memory/x/y/file"), "g");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    rollback(&world, &[]).expect(0);
}

/// A path below a mount point is one file before the mount and another one after it.
#[test]
fn what_lies_in_a_file_system_that_a_run_mounts_goes_back_as_it_was_there() {
    let world = world();
    let host = &world.hosts()[0];
    let begin = "mkdir -p /srv/src/dir /srv/dst; echo s >/srv/src/s; echo old >/srv/src/dir/s; chmod 700 /srv/src/dir; \
        echo below >/srv/dst/low; echo in >/srv/src/low";
    let look = "mountpoint -q /srv/dst && echo mounted; cd /srv && find . -mindepth 1 ! -type d -exec grep -H . {} + | sort; \
        stat -c '%n %a' src/dir; cat /etc/fstab";
    let mount = "resources:\n  - mount: {path: /srv/dst, source: /srv/src, fstype: bind}\n";
    let roles = [
        // As it is there.
        "  - file: {path: /srv/dst/s, content: \"s\\n\"}\n",
        "  - line: {path: /srv/dst/s, line: more}\n  - file: {path: /srv/dst/low, content: \"new\\n\"}\n",
        "  - directory: {path: /srv/dst/dir, mode: \"0750\"}\n  - file: {path: /srv/dst/dir/s, content: \"new\\n\"}\n",
    ];
    for role in roles {
        for by_the_host in [false, true] {
            exec(host, begin);
            let before = exec(host, look);
            apply(&world, &format!("{mount}{role}"));
            assert_ne!(exec(host, look), before);
            if by_the_host {
                exec(host, "sh /var/lib/converge/undo.sh");
            } else {
                rollback(&world, &[]).expect(0);
            }
            assert_eq!(exec(host, look), before, "{role} {by_the_host}");
            exec(host, "rm -rf /srv/*");
        }
    }
    // A prune takes the mount and leaves what lies in it.
    exec(host, begin);
    let before = exec(host, look);
    apply(&world, &format!("{mount}{}", roles[0]));
    world.only_role("r", "resources: []\n").unwrap();
    let pruned = world.converge(&["apply", "--yes", "--prune=2", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(host, look), before, "{}", pruned.all());
}

#[test]
fn a_link_of_somebody_comes_back_with_its_owner() {
    let world = world();
    let host = &world.hosts()[0];
    let dirs = "/srv /home/linker";
    exec(
        host,
        &format!(
            "useradd -m linker; for dir in {dirs}; do ln -s /old $dir/l; ln -s /old $dir/f; chown -h linker:daemon $dir/l; chown -h linker:linker $dir/f; done"
        ),
    );
    let look =
        format!("find {dirs} -name '?' -printf '%p %y %l %u:%g\\n' | sort; find {dirs} -name '.?.cv*'");
    let found = exec(host, &look);
    let items = ["/srv", "/home/linker"].map(|dir| {
        format!("  - link: {{path: {dir}/l, target: /new}}\n  - file: {{path: {dir}/f, content: f}}\n")
    });
    let role = format!("resources:\n{}", items.concat());
    for by_the_host in [false, true] {
        apply(&world, &role);
        assert!(exec(host, &look).contains("/srv/l l /new root:root"), "{}", exec(host, &look));
        if by_the_host {
            exec(host, "sh /var/lib/converge/undo.sh");
        } else {
            rollback(&world, &[]).expect(0);
        }
        assert_eq!(exec(host, &look), found);
    }
    // One that leads where it should keeps its owner.
    apply(
        &world,
        "resources:\n  - link: {path: /srv/l, target: /old}\n  - file: {path: /srv/n, content: n}\n",
    );
    assert!(exec(host, &look).contains("/srv/l l /old linker:daemon"), "{}", exec(host, &look));
}

/// Run 1 writes files; run 2 mounts something above them and edits the file of the same name there: two files under one path.
#[test]
fn a_file_below_a_mount_and_the_one_in_it_go_back_each_by_itself() {
    let world = world();
    let host = &world.hosts()[0];
    let look =
        "! mountpoint -q /srv/m || echo mounted; cd /srv && find . ! -type d -exec grep -H . {} + | sort";
    let files = |text: &str| {
        format!(
            "  - file: {{path: /srv/m/file, content: \"{text}\\n\"}}\n  - file: {{path: /srv/m/same, content: \"in\\n\"}}\n"
        )
    };
    let mount = "  - mount: {path: /srv/m, source: /srv/src, fstype: bind, boot: false}\n";
    for how in ["one by one", "at once", "by the host", "by a prune", "after somebody has unmounted it"] {
        exec(
            host,
            "! mountpoint -q /srv/m || umount /srv/m; rm -rf /srv/* /var/lib/converge; mkdir -p /srv/m /srv/src; \
             echo in | tee /srv/src/file >/srv/src/same",
        );
        let before = exec(host, look);
        apply(&world, &format!("resources:\n{}", files("below")));
        let first = exec(host, look);
        let run = exec(host, "ls /var/lib/converge/runs");
        apply(&world, &format!("resources:\n{mount}{}", files("new")));
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        assert!(exec(host, look).starts_with("mounted"));
        match how {
            "one by one" => {
                rollback(&world, &[]).expect(0);
                assert_eq!(exec(host, look), first);
                rollback(&world, &[]).expect(0);
            }
            "at once" => drop(rollback(&world, &["--to", &run]).expect(0)),
            "by the host" => {
                let mounted = exec(host, look);
                let early = host.exec(&format!("sh /var/lib/converge/undo.sh {run}")).unwrap();
                let said = format!("{}{}", early.stdout, early.stderr);
                assert!(
                    !early.success() && said.contains("has mounted or unmounted something above it"),
                    "{said}"
                );
                assert_eq!(exec(host, look), mounted, "{said}");
                exec(host, "sh /var/lib/converge/undo.sh");
                assert_eq!(exec(host, look), first);
                exec(host, "sh /var/lib/converge/undo.sh");
            }
            "by a prune" => {
                world.only_role("r", "resources: []\n").unwrap();
                world.converge(&["apply", "--yes", "--prune=4", "hosts.yaml"]).unwrap().expect(0);
            }
            _ => {
                exec(host, "umount /srv/m");
                let ran = rollback(&world, &["--to", &run]).expect(4);
                assert!(ran.all().contains("which is not mounted at /srv/m now"), "{}", ran.all());
                assert_eq!(exec(host, look), before.replace("file:in", "file:new"), "{}", ran.all());
                continue;
            }
        }
        assert_eq!(exec(host, look), before, "{how}");
    }
}

#[test]
fn a_directory_goes_with_the_files_that_a_run_made_in_it_through_a_link() {
    let world = world();
    let host = &world.hosts()[0];
    let role = r#"resources:
  - name: directory
    directory: {path: /srv/w2}
  - name: link
    link: {path: /srv/wc, target: w2}
  - name: file
    file: {path: /srv/wc/app.conf, content: "a\n"}
"#;
    apply(&world, role);
    rollback(&world, &[]).expect(0);
    assert_eq!(srv(host), "");
    // A prune, and a rollback without converge.
    apply(&world, role);
    world.only_role("r", "resources: []\n").unwrap();
    world.converge(&["apply", "--yes", "--prune=3", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(srv(host), "");
    apply(&world, role);
    host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert_eq!(srv(host), "");
    // A file of others keeps it, as does one that somebody has changed.
    for change in ["touch /srv/w2/theirs", "echo b >/srv/w2/app.conf"] {
        apply(&world, role);
        exec(host, change);
        rollback(&world, &[]).expect(4);
        assert!(srv(host).contains("./w2 "), "{change}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

#[test]
fn an_account_comes_back_with_its_files() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "useradd -u 4960 gon2; echo 1 >/srv/gon2f; chown gon2:gon2 /srv/gon2f");
    let role = r"resources:
  - name: user
    user: {name: gon2, state: absent}
  - name: group
    group: {name: gon2, state: absent}
  - name: file
    file: {path: /srv/gon2f, owner: games, group: games}
";
    let owner = || exec(host, "stat -c %U:%G /srv/gon2f; id -u gon2 2>/dev/null || echo none");
    apply(&world, role);
    assert_eq!(owner(), "games:games\nnone");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "gon2:gon2\n4960");
    // The same without converge.
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(owner(), "gon2:gon2\n4960");
    exec(host, "userdel gon2; rm /srv/gon2f");
}

/// The owner of a file is a number: its name comes and goes with the account.
#[test]
fn a_file_is_the_runs_own_under_the_name_and_the_number_of_its_owner() {
    let world = world();
    let host = &world.hosts()[0];
    let owner = || {
        exec(host, "stat -c %U:%G /srv/mine 2>/dev/null || echo none; id -u own5 2>/dev/null || echo none")
    };
    let file =
        "  - name: file\n    file: {path: /srv/mine, content: \"a\\n\", owner: \"4977\", group: \"4977\"}\n";
    let group = "  - name: group\n    group: {name: own5, gid: 4977}\n";
    let user = "  - name: user\n    user: {name: own5, uid: 4977, group: own5, home: /srv}\n";
    let older = "  - name: older\n    file: {path: /etc/older, content: \"a\\n\"}\n";
    let role = |items: &[&str]| format!("resources:\n{older}{}", items.concat());
    // One run, and the account comes after the file.
    apply(&world, &role(&[]));
    apply(&world, &role(&[file, group, user]));
    assert_eq!(owner(), "own5:own5\n4977");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // The account comes in a later run, and a third changes the content.
    apply(&world, &role(&[file]));
    let from = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    apply(&world, &role(&[file, group, user]));
    apply(&world, &role(&[&file.replace("a\\n", "b\\n"), group, user]));
    rollback(&world, &["--to", &from]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // Somebody takes the account away, and gives its number to another: the file is as the run left it.
    apply(&world, &role(&[group, user, &file.replace("\"4977\"", "own5")]));
    exec(
        host,
        "userdel own5; groupdel own5 2>/dev/null; groupadd -g 4977 new5; useradd -u 4977 -g new5 -d /srv new5",
    );
    assert_eq!(owner(), "new5:new5\nnone");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // Given to somebody else, it is his.
    apply(&world, &role(&[&file.replace("\"4977\"", "new5")]));
    exec(host, "chown games /srv/mine");
    rollback(&world, &[]).says("changed by someone else");
    assert_eq!(owner(), "games:new5\nnone");
    exec(host, "userdel new5; rm -f /srv/mine /etc/older; rm -rf /var/lib/converge");
}

/// Without converge as well: the numbers of the accounts that there are decide.
#[test]
fn the_host_itself_takes_back_a_file_whose_owner_has_got_a_name() {
    let world = world();
    let host = &world.hosts()[0];
    let role = "resources:\n  - name: file\n    file: {path: /srv/mine, content: x, owner: \"4978\", group: \"4978\"}\n  - name: group\n    group: {name: own6, gid: 4978}\n  - name: user\n    user: {name: own6, uid: 4978, group: own6, home: /srv}\n";
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(
        exec(host, "ls /srv/mine 2>/dev/null || echo gone; id -u own6 2>/dev/null || echo none"),
        "gone\nnone"
    );
}

#[test]
fn a_home_with_files_of_its_user_stays_with_its_user() {
    let world = world();
    let host = &world.hosts()[0];
    let older = "resources:\n  - name: file\n    file: {path: /etc/older, content: \"a\\n\"}\n";
    apply(&world, older);
    apply(&world, &format!("{older}  - name: account\n    user: {{name: bob}}\n"));
    exec(host, "install -o bob /dev/null /home/bob/.history");
    rollback(&world, &[])
        .says("it holds /home/bob/.history, which is not reverted")
        .says("remove file /etc/older");
    assert_eq!(exec(host, "stat -c %U /home/bob; ls /etc/older 2>/dev/null || echo gone"), "bob\ngone");
    exec(host, "rm /home/bob/.history");
    rollback(&world, &[]).expect(0);
    assert_eq!(
        exec(host, "id bob 2>&1; ls -d /home/bob 2>/dev/null || echo gone"),
        "id: ‘bob’: no such user\ngone"
    );
}

#[test]
fn a_command_and_the_edits_of_what_it_made_come_and_go_in_turn() {
    let world = world();
    let host = &world.hosts()[0];
    for (dir, undo) in [("/srv/made", "rm -rf /srv/made"), ("/srv", "rm -f /srv/made.txt")] {
        exec(host, "rm -rf /var/lib/converge /srv/*");
        let file = if dir == "/srv" { "/srv/made.txt" } else { "/srv/made/file" };
        let keep = "resources:\n  - name: keep\n    file: {path: /srv/keep, content: \"k\\n\"}\n";
        let full = format!(
            "{keep}  - name: command\n    command: {{run: \"mkdir -p {dir}; echo a=1 > {file}\", creates: {file}, undo: \"{undo}\"}}\n  \
             - name: edit\n    line: {{path: {file}, line: b=2}}\n"
        );
        let prune = || {
            world.only_role("r", keep).unwrap();
            world
                .converge(&world.prune_all().unwrap().iter().map(String::as_str).collect::<Vec<_>>())
                .unwrap()
                .expect(0);
            assert_eq!(exec(host, &format!("ls {file} 2>/dev/null || echo gone")), "gone");
        };
        apply(&world, &full);
        prune();
        rollback(&world, &[]).expect(0);
        assert_eq!(exec(host, &format!("cat {file}")), "a=1\nb=2");
        rollback(&world, &[]).expect(0);
        assert_eq!(exec(host, "ls -A /srv"), "");
        // And once more, after a rollback.
        apply(&world, &full);
        prune();
    }
}

#[test]
fn what_a_package_brought_goes_with_it_changed_and_masked() {
    let world = world();
    let host = &world.hosts()[0];
    let role = r#"resources:
  - name: server
    package: {name: nginx-light}
  - name: directory
    directory: {path: /etc/nginx/sites-available, mode: "0750"}
  - name: masked
    service: {name: nginx, masked: true, state: stopped}
"#;
    let rest = "ls -d /etc/nginx /etc/systemd/system/nginx.service 2>/dev/null || echo none";
    apply(&world, role);
    assert_eq!(
        exec(host, "stat -c %a /etc/nginx/sites-available; systemctl is-enabled nginx; true"),
        "750\nmasked"
    );
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, rest), "none");
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(exec(host, rest), "none");
}

#[test]
fn a_directory_in_one_of_a_package_goes_before_the_package() {
    let world = world();
    let host = &world.hosts()[0];
    apply(
        &world,
        "resources:\n  - name: scheduler\n    package: {name: cron}\n  - name: directory\n    directory: {path: /etc/cron.d/kept}\n",
    );
    rollback(&world, &[]).expect(0);
    assert_eq!(
        exec(
            host,
            "ls -d /etc/cron.d/kept 2>/dev/null || echo gone; dpkg-query -W -f '${db:Status-Status}' cron | grep -x installed || echo purged"
        ),
        "gone\npurged"
    );
}
