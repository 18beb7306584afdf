//! Runs that are cut off, and what the next run or rollback makes of them.

use super::*;

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
fn an_apply_that_was_cut_off_at_any_step_is_reported_completed_and_taken_back() {
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
                let mut reply = String::new();
                child.stdout.take().unwrap().read_to_string(&mut reply).unwrap();
                child.stderr.take().unwrap().read_to_string(&mut reply).unwrap();
                panic!("{moment}, prunes {prunes}: it ended before: {reply}");
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
