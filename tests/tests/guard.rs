//! Guarded changes on real hosts: the host reverts an unconfirmed change automatically, even if controller and connection
//! are gone.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "guard/revert.rs"]
mod revert;

use converge_lab::Host;
use converge_tests::{Ran, World, exec, until};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("guard-{}", std::process::id()), 1).unwrap()));

/// The world, as if new. The worlds of these tests are one: they go one after another.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    clean(&world);
    world
}

fn clean(world: &World) {
    let host = &world.hosts()[0];
    // A switch that a failed test has left must not act in the next one.
    drop(host.exec("systemctl stop converge-switch; rm -f /etc/systemd/system/converge-switch.service"));
    exec(
        host,
        // systemd starts a unit five times in ten seconds and no more: the starts of the test before do not count.
        "rm -rf /etc/ssh/sshd_config.d/50-test.conf /etc/guarded /etc/apart /var/lib/converge; systemctl reset-failed ssh; systemctl restart ssh",
    );
    for old in ["roles", "playbooks"] {
        drop(std::fs::remove_dir_all(world.dir().join(old)));
    }
    world.write("hosts.yaml", &world.inventory("")).unwrap();
}

fn has(host: &Host, path: &str) -> bool {
    host.exec(&format!("test -e {path}")).unwrap().success()
}

/// A role that sets one line of sshd's configuration, restarts it, and goes on; and a role beside it.
fn sshd(world: &World, line: &str, seconds: u32) {
    let role = format!(
        r#"resources:
  - directory: {{path: /etc/guarded}}
  - name: setting
    guard_seconds: {seconds}
    file: {{path: /etc/ssh/sshd_config.d/50-test.conf, content: "{line}\n"}}
  - name: sshd
    service: {{name: ssh, state: started, restart_on: [setting]}}
  - name: after
    file: {{path: /etc/guarded/after, content: "1\n"}}
"#
    );
    world.only_role("sshd", &role).unwrap();
    let other = "resources:\n  - name: apart\n    file: {path: /etc/apart, content: \"1\\n\"}\n";
    world.write("roles/other/role.yaml", other).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [sshd, other]\n").unwrap();
}

fn apply(world: &World) -> Ran {
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap()
}

fn begin(world: &World) -> Child {
    let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
}

/// No switch, and no unit of one.
fn nothing_behind(host: &Host) {
    until("the switch is gone", 20, || {
        let active = host.exec("systemctl is-active converge-switch.service").unwrap();
        !has(host, "/var/lib/converge/switch") && active.stdout.trim() == "inactive"
    });
    for path in ["converge-switch.service", "multi-user.target.wants/converge-switch.service"] {
        assert!(!host.exec(&format!("test -L /etc/systemd/system/{path}")).unwrap().success(), "{path}");
        assert!(!has(host, &format!("/etc/systemd/system/{path}")), "{path}");
    }
}

/// The records of the newest run about its automatic revert.
fn switch_of_the_newest_run(host: &Host) -> String {
    exec(host, "grep '^switch' \"$(ls -d /var/lib/converge/runs/* | tail -n 1)/journal\" | tr '\\t\\n' ' ,'")
}

#[test]
fn a_good_change_of_sshd_is_confirmed_and_leaves_nothing_behind() {
    let world = world();
    let host = &world.hosts()[0];
    sshd(&world, "MaxAuthTries 4", 40);
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    plan.says("guarded: reverted automatically unless confirmed by a new connection within 40 s");
    let pid = exec(host, "systemctl show -p MainPID --value ssh");
    apply(&world).expect(0);
    assert_eq!(switch_of_the_newest_run(host), "switch armed ssh 40,switch confirmed,");
    assert_ne!(exec(host, "systemctl show -p MainPID --value ssh"), pid);
    assert!(exec(host, "sshd -T").contains("maxauthtries 4"));
    assert!(has(host, "/etc/guarded/after") && has(host, "/etc/apart"));
    nothing_behind(host);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    // The rollback is guarded alike.
    let back = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    back.says("guarded: reverted automatically unless confirmed by a new connection within 40 s");
    assert_eq!(switch_of_the_newest_run(host), "switch armed ssh 40,switch confirmed,");
    assert!(!exec(host, "sshd -T").contains("maxauthtries 4"));
    nothing_behind(host);
}

#[test]
fn a_change_of_sshd_that_shuts_us_out_is_put_back() {
    let world = world();
    let host = &world.hosts()[0];
    sshd(&world, "AllowUsers nobody", 12);
    let run = apply(&world).expect(5).says("reverted").says("no new session within 12 s");
    let run = run.says("refused the login").says("skipped: depends on `sshd/");
    assert!(!has(host, "/etc/ssh/sshd_config.d/50-test.conf"), "{}", run.all());
    assert!(!exec(host, "sshd -T").contains("allowusers"));
    assert!(!has(host, "/etc/guarded/after"), "it stands on what was reverted");
    assert!(has(host, "/etc/apart"), "the rest of the run goes on: {}", run.all());
    nothing_behind(host);
    // We come in again, and the plan is what it was.
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert!(plan.all().contains("50-test.conf") && !plan.all().contains("did not end"), "{}", plan.all());
    assert!(
        exec(host, "sh /var/lib/converge/undo.sh").contains("as before      path:/etc/ssh/sshd_config.d")
    );
}

#[test]
fn what_a_role_guards_by_name_is_guarded_in_a_rollback_and_a_prune_too() {
    let world = world();
    let host = &world.hosts()[0];
    let role = r#"resources:
  - directory: {path: /etc/guarded}
  - name: rules
    guard: network
    guard_seconds: 12
    file: {path: /etc/guarded/rules, content: "1\n"}
  - name: loaded
    command: {run: "true", on_change: [rules], undo: "ip link set host0 down"}
"#;
    world.only_role("net", role).unwrap();
    apply(&world).expect(0);
    let went = |args: &[&str]| {
        let run = world.converge(args).unwrap().expect(5);
        run.says("by a new connection within 12 s").says("reverted");
        assert!(has(host, "/etc/guarded/rules"), "it came back with the network");
        nothing_behind(host);
    };
    went(&["rollback", "--yes", "hosts.yaml"]);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    world.only_role("net", "resources: []\n").unwrap();
    went(&["apply", "--yes", "--prune=3", "hosts.yaml"]);
}

/// Waits until the switch is armed and the daemon restarts with the bad setting, and ends the controller.
fn die_in_the_window(world: &World) {
    let host = &world.hosts()[0];
    let controller = begin(world);
    until("the change is made", 60, || {
        let restarts = "grep -qsE '^begin.[0-9]+.unit.ssh.service' /var/lib/converge/runs/*/journal";
        host.exec(&format!(
            "test -e /var/lib/converge/switch/armed && sshd -T | grep -q 'allowusers nobody' && {restarts}"
        ))
        .is_ok_and(|o| o.success())
    });
    kill(controller);
}

/// Seconds between the end of the window and the moment in which the host begins to put the change back.
fn put_back_late(world: &World) -> f64 {
    let host = &world.hosts()[0];
    sshd(world, "AllowUsers nobody", 15);
    die_in_the_window(world);
    // By the clock of the host: the switch counts seconds since the boot.
    let end = exec(
        host,
        "read -r up idle </proc/uptime; awk -v now=\"$(date +%s.%N)\" -v up=\"$up\" '{ printf \"%.1f\", now + $4 - up }' /var/lib/converge/switch/armed",
    );
    assert!(has(host, "/etc/ssh/sshd_config.d/50-test.conf"), "the window is not over");
    until("it is reverted", 60, || !has(host, "/etc/ssh/sshd_config.d/50-test.conf"));
    nothing_behind(host);
    let begun = exec(
        host,
        "journalctl -q -o short-unix -u converge-switch.service | grep 'putting back the guarded change' | tail -n 1 | cut -d ' ' -f 1",
    );
    begun.parse::<f64>().unwrap() - end.parse::<f64>().unwrap()
}

/// `CONVERGE_GUARD_ROUNDS` says how often: once by default.
#[test]
fn a_host_puts_back_by_itself_what_a_dead_controller_has_left() {
    let world = world();
    let host = &world.hosts()[0];
    let rounds = std::env::var("CONVERGE_GUARD_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut late = Vec::new();
    for round in 0..rounds {
        if round > 0 {
            clean(&world);
        }
        late.push(put_back_late(&world));
        eprintln!("round {}: {:.1} s after the end of the window", round + 1, late[round]);
        // The window is counted in whole seconds.
        assert!((-1.0..=10.0).contains(&late[round]), "{late:?}");
    }
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("did not end");
    let plan = plan.says("reverted by the host: sshd/setting, sshd/sshd");
    plan.says("nobody confirmed it within 15 s").says("not begun: sshd/after");
    // The next run goes on from there, with another setting.
    sshd(&world, "MaxAuthTries 5", 40);
    apply(&world).expect(0);
    assert!(exec(host, "sshd -T").contains("maxauthtries 5") && has(host, "/etc/guarded/after"));
    assert!(!world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0).all().contains("did not end"));
    nothing_behind(host);
}

#[test]
fn a_power_cut_in_the_window_puts_it_back_after_the_boot() {
    let world = world();
    let host = &world.hosts()[0];
    sshd(&world, "AllowUsers nobody", 300);
    die_in_the_window(&world);
    host.kill().unwrap();
    host.start().unwrap();
    until("it is reverted", 60, || {
        host.exec("! test -e /etc/ssh/sshd_config.d/50-test.conf").is_ok_and(|o| o.success())
    });
    host.wait_until_ready().unwrap();
    nothing_behind(host);
    assert!(!exec(host, "sshd -T").contains("allowusers"));
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    plan.says("reverted by the host: sshd/setting").says("the host restarted before it was confirmed");
}

#[test]
fn while_a_switch_is_armed_no_other_run_begins() {
    let world = world();
    let host = &world.hosts()[0];
    sshd(&world, "MaxAuthTries 3", 20);
    // A new session hangs before it can confirm: the shell of its login waits.
    exec(
        host,
        "touch /root/.bashrc && cp /root/.bashrc /root/.bashrc.old && \
         { echo 'test ! -e /var/lib/converge/switch/armed || sleep 1000'; cat /root/.bashrc.old; } > /root/.bashrc",
    );
    let controller = begin(&world);
    until("the change is made", 60, || {
        host.exec("grep -q '^done.*unit enabled active' /var/lib/converge/runs/*/journal")
            .is_ok_and(|o| o.success())
    });
    kill(controller);
    exec(host, "mv /root/.bashrc.old /root/.bashrc");
    let other = apply(&world).expect(4);
    other
        .says("locked by the guarded change of run")
        .says("it is reverted automatically unless confirmed within");
    until("it is reverted", 40, || !has(host, "/etc/ssh/sshd_config.d/50-test.conf"));
    nothing_behind(host);
    apply(&world).expect(0);
}

/// Packages on either side of a guarded change: none is in the middle of its work while the switch is armed, whatever becomes of the change.
#[test]
fn packages_beside_a_guarded_change_are_whole_whatever_becomes_of_it() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |line: &str| {
        format!(
            r#"resources:
  - name: before
    package: {{name: sl}}
  - name: setting
    guard_seconds: 12
    file: {{path: /etc/ssh/sshd_config.d/50-test.conf, content: "{line}\n"}}
  - name: sshd
    service: {{name: ssh, state: started, restart_on: [setting]}}
  - name: behind
    package: {{name: cowsay}}
"#
        )
    };
    let installed = |name: &str| {
        host.exec(&format!("dpkg -s {name} 2>/dev/null | grep -q '^Status.*ok installed'")).unwrap().success()
    };
    let while_armed = || {
        let lines = "sed -n '/^switch\tarmed/,/^switch\t[cd]o/p' \"$(ls -d /var/lib/converge/runs/* | tail -n 1)/journal\"";
        let lines = exec(host, lines);
        assert!(lines.contains("armed") && !lines.contains("\tpackage\t"), "{lines}");
    };
    exec(host, "apt-get -qq purge -y sl cowsay ethtool >/dev/null 2>&1; rm -rf /var/lib/converge");
    world.only_role("mixed", &role("AllowUsers nobody")).unwrap();
    world
        .write("roles/other/role.yaml", "resources:\n  - name: apart\n    package: {name: ethtool}\n")
        .unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [mixed, other]\n").unwrap();
    let run = apply(&world).expect(5).says("reverted").says("skipped: depends on `mixed/");
    assert!(installed("sl") && !installed("cowsay") && installed("ethtool"), "{}", run.all());
    while_armed();
    assert_eq!(exec(host, "dpkg --audit"), "");
    nothing_behind(host);
    world.write("roles/mixed/role.yaml", &role("MaxAuthTries 4")).unwrap();
    apply(&world).expect(0);
    while_armed();
    assert!(installed("cowsay") && exec(host, "sshd -T").contains("maxauthtries 4"));
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    while_armed();
    assert!(installed("sl") && !installed("cowsay") && !exec(host, "sshd -T").contains("maxauthtries 4"));
    assert_eq!(exec(host, "dpkg --audit"), "");
    exec(host, "apt-get -qq purge -y sl ethtool >/dev/null 2>&1");
}

/// The rules of the host's own nftables, loaded by its unit.
#[test]
fn real_rules_of_nftables_that_shut_us_out_are_put_back() {
    let world = world();
    let host = &world.hosts()[0];
    let rules = |policy: &str, port: u32| {
        format!(
            "#!/usr/sbin/nft -f\nflush ruleset\ntable inet filter {{\n  chain input {{\n    type filter hook input priority filter; policy {policy};\n    \
             tcp dport {port} accept\n  }}\n}}\n"
        )
    };
    let declare = |text: &str| {
        let content = serde_json::to_string(text).unwrap();
        let role = format!(
            "resources:\n  - package: {{name: nftables}}\n  - name: rules\n    guard: network\n    guard_seconds: 12\n    \
             file: {{path: /etc/nftables.conf, content: {content}, mode: \"0755\", validate: \"nft -c -f %s\"}}\n  \
             - name: nftables\n    service: {{name: nftables, state: started, enabled: true, restart_on: [rules]}}\n"
        );
        world.only_role("net", &role).unwrap();
    };
    let (good, bad) = (rules("accept", 22), rules("drop", 2222));
    declare(&good);
    apply(&world).expect(0);
    nothing_behind(host);
    let loaded = exec(host, "nft list ruleset");
    assert!(loaded.contains("policy accept") && loaded.contains("dport 22 accept"), "{loaded}");
    // Rules that nft does not understand never come into force.
    declare("table inet filter { this is no rule }\n");
    apply(&world).expect(1).says("the new content was refused by: nft -c -f");
    // Rules that it understands shut out every connection, the present one included.
    declare(&bad);
    let run = apply(&world).expect(5).says("reverted");
    assert_eq!(exec(host, "nft list ruleset"), loaded, "{}", run.all());
    assert_eq!(exec(host, "cat /etc/nftables.conf"), good.trim_end());
    nothing_behind(host);
    // The rollback to no rules is guarded alike, and we get in all the time.
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert!(!host.exec("nft list ruleset | grep -q 'dport 22'").unwrap().success());
    exec(host, "apt-get -qq purge -y nftables >/dev/null 2>&1; rm -f /etc/nftables.conf");
}

/// Sets one line of containerd's configuration and restarts it.
fn containerd(world: &World, line: &str) {
    let role = format!(
        r#"resources:
  - name: configuration
    guard_seconds: 20
    file: {{path: /etc/containerd/config.toml, content: "version = 2\n{line}\n"}}
  - name: containerd
    service: {{name: containerd, state: started, restart_on: [configuration]}}
"#
    );
    world.only_role("runtime", &role).unwrap();
}

#[test]
fn a_runtime_that_no_longer_serves_cri_gets_its_configuration_back() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y containerd");
    let serves = || {
        exec(host, "ctr plugins ls")
            .lines()
            .any(|l| l.contains("grpc.v1") && l.contains(" cri ") && l.trim().ends_with("ok"))
    };
    assert!(serves(), "{}", exec(host, "ctr plugins ls"));
    containerd(&world, "oom_score = 5");
    apply(&world).expect(0);
    let good = exec(host, "cat /etc/containerd/config.toml");
    assert!(good.contains("oom_score"));
    nothing_behind(host);
    // It parses and starts, and no pod would run any more.
    containerd(&world, r#"disabled_plugins = [\"io.containerd.grpc.v1.cri\"]"#);
    let run = apply(&world).expect(5).says("reverted");
    run.says("its plugin io.containerd.grpc.v1.cri is not ok");
    assert_eq!(exec(host, "cat /etc/containerd/config.toml"), good);
    assert!(serves(), "{}", exec(host, "ctr plugins ls"));
    nothing_behind(host);
    // It does not even start: the confirmation timeout is not waited for.
    containerd(&world, "this is no toml");
    apply(&world).expect(5).says("reverted").says("`runtime/containerd` failed");
    assert_eq!(exec(host, "cat /etc/containerd/config.toml"), good);
    assert!(serves(), "{}", exec(host, "ctr plugins ls"));
    nothing_behind(host);
    exec(host, "apt-get -qq purge -y containerd && rm -rf /etc/containerd");
}

/// A command of the group fails after its work, or hangs until the controller is gone.
#[test]
fn the_undo_of_a_command_that_was_begun_runs() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |end: &str, undo: &str| {
        let role = format!(
            "resources:
  - name: rules
    guard: network
    guard_seconds: 6
    file: {{path: /etc/apart, content: \"two\\n\"}}
  - name: load
    command: {{run: 'cp /etc/apart /run/loaded; {end}', on_change: [rules]{undo}}}
"
        );
        world.only_role("r", &role).unwrap();
    };
    let undo = ", undo: 'echo once >>/run/undone; rm -f /run/loaded'";
    exec(host, "rm -f /run/loaded /run/undone");
    role("exit 3", undo);
    apply(&world).expect(5).says("all changes are reverted");
    assert!(!has(host, "/etc/apart") && !has(host, "/run/loaded"));
    assert_eq!(exec(host, "cat /run/undone; rm /run/undone"), "once");
    role("sleep 300", undo);
    let controller = begin(&world);
    until("the command is at work", 60, || has(host, "/run/loaded"));
    kill(controller);
    until("it is reverted", 60, || !has(host, "/etc/apart") && !has(host, "/run/loaded"));
    nothing_behind(host);
    assert_eq!(exec(host, "cat /run/undone; rm /run/undone"), "once");
    // Without an `undo` its work stays, and the run says so.
    role("exit 3", "");
    apply(&world).expect(5).says("but not what the command itself did: it has no `undo`");
    assert!(!has(host, "/etc/apart") && has(host, "/run/loaded"));
    exec(host, "rm /run/loaded");
}
