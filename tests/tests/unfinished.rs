//! Runs that did not end: the next one says what they did, did not do, and what became of the rest, and goes on.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{World, exec, until_exec};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("prune-u{}", std::process::id()), 1).unwrap()));

/// The second of three items waits for a word.
const SLOW: &str = r#"resources:
  - name: first
    file: {path: /etc/cut/first, content: "1\n"}
  - name: slow
    command: {run: "touch /etc/cut/begun; while ! [ -e /etc/cut/go ]; do sleep 0.1; done; touch /etc/cut/slow", creates: /etc/cut/slow, undo: rm /etc/cut/slow}
  - name: last
    file: {path: /etc/cut/last, content: "3\n"}
"#;

fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        exec(host, "rm -rf /etc/cut /var/lib/converge && mkdir /etc/cut");
    }
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

fn begin(world: &World) -> Child {
    let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_killed_controller_is_reported_settled_and_the_run_continues() {
    let world = world();
    let host = &world.hosts()[0];
    world.only_role("cut", SLOW).unwrap();
    let mut child = begin(&world);
    until_exec(host, 60, "test -e /etc/cut/begun");
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    // Its step is still at work, and holds the host.
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    let plan = plan.says("did not end").says("it may still be at work");
    let plan = plan.says("done: cut/first").says("unknown: cut/slow").says("not begun: cut/last");
    assert!(plan.stdout.contains("is as it was before"), "{}", plan.stdout);
    world
        .converge(&["apply", "--yes", "hosts.yaml"])
        .unwrap()
        .expect(4)
        .says("locked by run")
        .says("process ");
    exec(host, "touch /etc/cut/go");
    until_exec(host, 60, "flock -n /var/lib/converge/lock true");
    let plan = world.converge(&["plan", "--output", "json", "hosts.yaml"]).unwrap().expect(2).json().unwrap();
    let run = &plan["hosts"][0]["records"]["unfinished_run"];
    assert_eq!(run["busy"], false, "{run:#}");
    assert_eq!(run["not_begun"][0], "cut/last", "{run:#}");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0).says("did not end");
    assert_eq!(exec(host, "cat /etc/cut/first /etc/cut/last"), "1\n3");
    let after = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    assert!(!after.all().contains("did not end"), "{}", after.all());
    // Objects that the interrupted run made are managed like all others.
    world.only_role("cut", "resources: []\n").unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0).says("orphaned: 3 of 3 resources");
}

/// The shells of the session are killed, and the script that they run goes on: it does not hold the lock, so that a daemon of it would not either.
#[test]
fn a_step_whose_shells_were_killed_is_waited_for_and_a_daemon_is_not() {
    let world = world();
    let host = &world.hosts()[0];
    let daemon = "  - name: daemon\n    command: {run: \"sleep 3456 >/dev/null 2>&1 & touch /etc/cut/daemon\", creates: /etc/cut/daemon}\n";
    for user in ["", ", user: nobody"] {
        exec(host, "rm -rf /etc/cut; mkdir -m 777 /etc/cut");
        world
            .only_role(
                "cut",
                &SLOW
                    .replace("undo: rm /etc/cut/slow}", &format!("undo: rm /etc/cut/slow{user}}}"))
                    .replace("  - name: last\n", &format!("{daemon}  - name: last\n")),
            )
            .unwrap();
        let mut child = begin(&world);
        until_exec(host, 60, "test -e /etc/cut/begun");
        exec(
            host,
            "for fd in /proc/[0-9]*/fd/9; do [ ! $fd -ef /var/lib/converge/lock ] || { pid=${fd#/proc/}; kill -9 ${pid%%/*}; }; done",
        );
        child.kill().unwrap();
        child.wait().unwrap();
        until_exec(host, 60, "flock -n /var/lib/converge/lock true");
        let step = exec(host, "cut -d ' ' -f 1 /var/lib/converge/runs/*/alive/step");
        exec(host, &format!("kill -0 {step}"));
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("it may still be at work");
        let refused = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(4);
        refused.says("a step of it, process ").says("lives, though its session has ended");
        let undo = host.exec("sh /var/lib/converge/undo.sh").unwrap();
        let reply = undo.stdout + &undo.stderr;
        assert!(reply.contains("though its session has ended"), "{reply}");
        exec(host, "touch /etc/cut/go");
        until_exec(host, 60, &format!("! kill -0 {step}"));
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
        assert_eq!(exec(host, "pgrep -fc '^sleep 3456'; true"), "1", "the daemon");
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
        world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
        exec(host, "pkill -f '^sleep 3456'; rm -rf /var/lib/converge");
    }
}

#[test]
fn a_power_cut_with_nothing_left_to_do_is_settled_too() {
    let world = world();
    let host = &world.hosts()[0];
    let only = SLOW.split("  - name: last").next().unwrap();
    world.only_role("cut", only).unwrap();
    let mut child = begin(&world);
    until_exec(host, 60, "test -e /etc/cut/begun");
    exec(host, "touch /etc/cut/go");
    // The command has made its file, and its end is recorded or not: both are reported correctly.
    until_exec(host, 60, "test -e /etc/cut/slow && sync");
    host.kill().unwrap();
    child.wait().unwrap();
    host.start().unwrap();
    until_exec(host, 60, "test -e /etc/cut/slow");
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap();
    assert!(matches!(plan.code, Some(0 | 2)), "{}", plan.all());
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let after = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    assert!(!after.all().contains("did not end"), "{}", after.all());
}

#[test]
fn two_operators_at_once_do_not_meet_and_both_arrive() {
    let world = world();
    let host = &world.hosts()[0];
    world.only_role("cut", SLOW).unwrap();
    let mut first = begin(&world);
    until_exec(host, 60, "test -e /etc/cut/begun");
    let second = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap();
    second.expect(4).says("locked by run").says("it is still at work");
    assert!(!host.exec("test -e /etc/cut/last").unwrap().success());
    exec(host, "touch /etc/cut/go");
    assert!(first.wait().unwrap().success());
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0).says("nothing to change");
}

#[test]
fn a_rollback_of_one_role_is_no_run_for_the_next_rollback() {
    let world = world();
    let host = &world.hosts()[0];
    let file = |name: &str, text: &str| {
        format!("resources:\n  - name: it\n    file: {{path: /etc/cut/{name}, content: \"{text}\\n\"}}\n")
    };
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [a, b]\n").unwrap();
    for text in ["one", "two"] {
        world.write("roles/a/role.yaml", &file("a", text)).unwrap();
        world.write("roles/b/role.yaml", &file("b", text)).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    }
    let rollback = |args: &[&str]| {
        let mut all = vec!["rollback", "--yes", "hosts.yaml"];
        all.extend(args);
        world.converge(&all).unwrap()
    };
    rollback(&["--role", "a"]).expect(0).says("Rollback of a to the state before run");
    assert_eq!(exec(host, "cat /etc/cut/a /etc/cut/b"), "one\ntwo");
    world.converge(&["snapshots", "hosts.yaml"]).unwrap().expect(0).says("rollback of a");
    // The newest run that counts is the second apply: its remaining changes are reverted, and `a` stays.
    rollback(&[]).expect(0);
    assert_eq!(exec(host, "cat /etc/cut/a /etc/cut/b"), "one\none");
    rollback(&[]).expect(0);
    assert_eq!(exec(host, "ls /etc/cut"), "");
}

/// Units of one resource, two of which wait for a word while all are watched.
const TOGETHER: &str = r#"resources:
  - name: agents
    for_each: [a, b, c]
    unit: {name: "cut-{{ item }}", content: "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n", state: started, enabled: true}
  - name: last
    file: {path: /etc/cut/last, content: "3\n"}
"#;

/// A nap of the watch takes until `go` is there.
const NAP: &str = r#"printf '%s\n' '#!/bin/sh' '[ "$1" != 0.2 ] || { touch /etc/cut/napping; while ! [ -e /etc/cut/go ]; do /usr/bin/sleep 0.05; done; }' \
  'exec /usr/bin/sleep "$@"' >/usr/local/bin/sleep; chmod 755 /usr/local/bin/sleep"#;

const KILL: &str = "for fd in /proc/[0-9]*/fd/9; do [ ! $fd -ef /var/lib/converge/lock ] || { pid=${fd#/proc/}; kill -9 ${pid%%/*}; }; done";

#[test]
fn a_kill_while_units_are_watched_together_is_recovered_and_undone() {
    let world = world();
    let host = &world.hosts()[0];
    world.only_role("cut", TOGETHER).unwrap();
    let active = "systemctl is-active cut-a cut-b cut-c | sort -u; true";
    let files = "ls -d /etc/systemd/system/*/cut-* /etc/systemd/system/cut-* /etc/cut/last 2>/dev/null; true";
    for undo in [true, false] {
        exec(host, &format!("rm -f /etc/cut/*; {NAP}"));
        let mut child = begin(&world);
        until_exec(host, 60, "test -e /etc/cut/napping");
        assert_eq!(exec(host, active), "active", "all are started before any is watched");
        child.kill().unwrap();
        exec(host, KILL);
        child.wait().unwrap();
        exec(host, "touch /etc/cut/go; rm /usr/local/bin/sleep");
        until_exec(host, 60, "flock -n /var/lib/converge/lock true");
        assert_eq!(exec(host, "test -e /etc/cut/last || echo none"), "none");
        if undo {
            exec(host, "sh /var/lib/converge/undo.sh");
        } else {
            let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
            plan.says("did not end").says("not begun: cut/last");
            world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
            assert_eq!(exec(host, active), "active");
            world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
            // The run that went on, and the one that was cut off. A unit whose start the kill left unrecorded goes back with the latter alone.
            let first = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
            let refused = first.all().contains("it goes back with that run");
            assert_eq!(first.code, Some(if refused { 4 } else { 0 }), "{}", first.all());
            world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
        }
        assert_eq!(exec(host, files), "");
        assert_eq!(exec(host, active), "inactive");
    }
}
