//! The order of a rollback on a real host: judged from outside, by files, units, processes and packages.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "rollback_order/accounts.rs"]
mod accounts;
#[path = "rollback_order/cut_off.rs"]
mod cut_off;
#[path = "rollback_order/elsewhere.rs"]
mod elsewhere;
#[path = "rollback_order/links.rs"]
mod links;
#[path = "rollback_order/needed.rs"]
mod needed;
#[path = "rollback_order/packages.rs"]
mod packages;
#[path = "rollback_order/places.rs"]
mod places;
#[path = "rollback_order/projects.rs"]
mod projects;
#[path = "rollback_order/units.rs"]
mod units;

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
    // A file that a user has changed stays; the unit has no record of running with another one, and goes back with the file, by converge and on the host
    // itself. No more than ten runs are kept.
    for way in ["rollback", "undo.sh"] {
        let back = |code: i32| match way {
            "rollback" => rollback(&world, &[]).expect(code).all(),
            _ => {
                let ran = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert_eq!(ran.success(), code == 0, "{}{}", ran.stdout, ran.stderr);
                ran.stdout
            }
        };
        apply(&world, &demo("v2"));
        exec(host, "sed -i s/v2/v3/ /usr/local/bin/demo");
        let reply = back(4);
        assert!(
            reply.contains("changed by someone else") || reply.contains("someone else has changed"),
            "{reply}"
        );
        assert!(runs(host).starts_with("v3\nv1\nv1\n"), "{}", runs(host));
        assert!(!host.exec("test -e /var/lib/converge/started/demo.service").unwrap().success());
        exec(host, "sed -i s/v3/v2/ /usr/local/bin/demo");
        back(0);
        assert_eq!(runs(host), wanted("v1"), "{way}");
    }
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
    // The project still declares two: the check says so, and the rollback is done nevertheless.
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
        // The host itself gives back what it finds gone with the command, and so does the rollback of that.
        exec(host, "rm -rf /var/lib/converge /srv/*");
        apply(&world, &full);
        let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
        assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
        assert_eq!(exec(host, "ls -A /srv"), "");
        world.only_role("r", "resources: []\n").unwrap();
        let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        assert!(!plan.all().contains("orphaned"), "{}", plan.all());
        let run = undone.stdout.lines().find_map(|line| line.split_once(" as run ")).unwrap().1;
        let again = host.exec(&format!("sh /var/lib/converge/undo.sh {run}")).unwrap();
        assert!(again.success(), "{}{}", again.stdout, again.stderr);
        assert_eq!(exec(host, &format!("cat {file}")), "a=1\nb=2");
    }
}
