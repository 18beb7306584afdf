//! `converge run` on real hosts.

use converge_tests::{World, exec, until_exec};

#[test]
fn one_command_on_many_hosts() {
    let world = World::new(&format!("prune-r{}", std::process::id()), 3).unwrap();
    let run = |args: &[&str]| {
        let mut all = vec!["run"];
        all.extend(args);
        world.converge(&all).unwrap()
    };
    // Equal answers are folded, exit codes sorted, the streams apart.
    let script = "echo up; case $(uname -n) in *h2) echo broken >&2; exit 3 ;; esac";
    let ran = run(&["all", "-i", "hosts.yaml", "--", script]).expect(1);
    let expected =
        "h1, h3 · 2 hosts · exit 0\n  up\nh2 · exit 3\n  up\n  ! broken\n\n3 hosts: 2 exit 0, 1 exit 3\n";
    assert_eq!(ran.stdout, expected);
    // Words are taken as they are; patterns as everywhere.
    let ran = run(&["lab:!h3", "-i", "hosts.yaml", "--", "echo", "a  b", "$HOME; exit 1"]).expect(0);
    assert_eq!(ran.stdout, "h1, h2 · 2 hosts · exit 0\n  a  b $HOME; exit 1\n\n2 hosts: 2 exit 0\n");
    // One host: its output as it is, byte for byte, each stream in its own.
    let ran = run(&["h1", "-i", "hosts.yaml", "--", "printf 'x\\n y'; echo no >&2"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("x\n y", "no\n"));
    run(&["h1", "-i", "hosts.yaml", "--", "false"]).expect(1).says("1 exit 1");
    // Too long is ended on the host.
    let ran = run(&[
        "h1",
        "-i",
        "hosts.yaml",
        "--timeout",
        "1",
        "--output",
        "json",
        "--",
        "echo begun; exec sleep 977",
    ]);
    let document = ran.expect(1).json().unwrap();
    assert_eq!(document["hosts"][0]["result"], "timed_out");
    assert_eq!(document["hosts"][0]["stdout"], "begun\n");
    let left = world.hosts()[0].exec("pgrep -fx 'sleep 977'").unwrap();
    assert!(!left.success(), "{left:?}");
    // As another user; nothing is recorded.
    run(&["h1", "-i", "hosts.yaml", "--become-user", "nobody", "--", "id -un"]).expect(0).says("nobody");
    assert!(!world.hosts()[0].exec("test -e /var/lib/converge").unwrap().success());
    // Variables that are encrypted are read with the password that is named, by `facts` too.
    world.write("password", "open\n").unwrap();
    world.write("group_vars/all.yaml", "ansible_timeout: 9\n").unwrap();
    let vault = ["--vault-password-file", "password"];
    let [flag, file] = vault;
    world.converge(&["vault", "encrypt", "group_vars/all.yaml", flag, file]).unwrap().expect(0);
    run(&["h1", "-i", "hosts.yaml", "--", "true"]).expect(64).says("group_vars/all.yaml");
    run(&["h1", "-i", "hosts.yaml", flag, file, "--", "true"]).expect(0);
    world.converge(&["facts", "hosts.yaml", "--limit", "h1"]).unwrap().expect(64);
    world.converge(&["facts", "hosts.yaml", "--limit", "h1", flag, file]).unwrap().expect(0);
    std::fs::remove_file(world.dir().join("group_vars/all.yaml")).unwrap();
    // A dead host is reported and the others answer.
    world.hosts()[2].kill().unwrap();
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    let ran = run(&["all", "-i", "hosts.yaml", "--", "true"]).expect(3);
    assert!(ran.stdout.contains("h1, h2 · 2 hosts · exit 0\n"), "{}", ran.all());
    assert!(ran.stdout.contains("3 hosts: 2 exit 0, 1 unreachable"), "{}", ran.all());
    run(&["nobody-is-called-so", "-i", "hosts.yaml", "--", "true"]).expect(64);
    run(&["all", "--", "true"]).expect(64);
}

/// A command may hold a password, and every user of a host can read the list of processes.
#[test]
fn the_script_is_on_no_list_of_processes() {
    let world = World::new(&format!("run-list-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    // Whoever looks at /proc again and again; it says when it has seen the list once, and that it sees the programs of a script.
    exec(
        host,
        "cat >/root/watch <<'E'\n#!/bin/bash\nwhile [ ! -e /root/stop ]; do for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || cat $p/cmdline $p/environ 2>/dev/null; done \
         | tr '\\0' '\\n' >>/root/seen; : >/root/ready; sleep 0.02; done\nE\n\
         chmod 700 /root/watch; setsid /root/watch >/dev/null 2>&1 </dev/null &",
    );
    until_exec(host, 30, "test -e /root/ready");
    let script = "password=Listed-9d3c; i=0; while [ $i -lt 20 ]; do sleep 0.171; i=$((i + 1)); done; echo \"${#password}\"";
    for more in [&[][..], &["--become-user", "nobody"]] {
        let args = [&["run", "h1", "-i", "hosts.yaml"], more, &["--", script]].concat();
        let ran = world.converge(&args).unwrap().expect(0);
        assert_eq!(ran.stdout, "11\n");
    }
    exec(host, "touch /root/stop");
    assert_ne!(exec(host, "grep -ac '^0.171$' /root/seen || true"), "0", "the watcher sees nothing");
    assert_eq!(exec(host, "grep -a 'Listed-9d3c' /root/seen || true"), "");
}
