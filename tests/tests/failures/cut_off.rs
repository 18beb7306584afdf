//! Runs that are interrupted, killed or cut off.

use super::*;

/// A role with a file before and a file after a command that waits for `/etc/bad/go`.
const SLOW: &str = concat!(
    "resources:\n",
    "  - name: before\n    file: {path: /etc/bad/before, content: x}\n",
    "  - name: slow\n",
    "    command:\n",
    "      run: touch /etc/bad/begun; until test -e /etc/bad/go; do sleep 0.1; done; touch /etc/bad/done\n",
    "      creates: /etc/bad/done\n",
    "  - name: after\n    file: {path: /etc/bad/after, content: x}\n",
);

#[test]
fn the_first_interrupt_ends_what_is_in_flight() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    let child = begin(&world);
    for host in world.hosts() {
        until_exec(host, 20, "test -e /etc/bad/begun");
    }
    signal(&child, "-INT");
    // The signal is taken in long before the hosts are asked anything.
    std::thread::sleep(Duration::from_millis(300));
    for host in world.hosts() {
        exec(host, "touch /etc/bad/go");
    }
    end(child).expect(1).says("slow/slow").says("not begun");
    assert_eq!(having(&world, "/etc/bad/done"), ["h1", "h2", "h3"]);
    assert_eq!(having(&world, "/etc/bad/after"), Vec::<String>::new());
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h2", "h3"]);
}

#[test]
fn a_terminal_that_goes_away_ends_a_run_as_a_termination_does() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    let child = begin(&world);
    for host in world.hosts() {
        until_exec(host, 20, "test -e /etc/bad/begun");
    }
    // It says so more than once, which is no wish to leave at once.
    for _ in 0..3 {
        signal(&child, "-HUP");
        std::thread::sleep(Duration::from_millis(200));
    }
    for host in world.hosts() {
        exec(host, "touch /etc/bad/go");
    }
    end(child).expect(1).says("slow/slow").says("not begun");
    assert_eq!(having(&world, "/etc/bad/done"), ["h1", "h2", "h3"]);
    assert_eq!(having(&world, "/etc/bad/after"), Vec::<String>::new());
    world.converge(&["snapshots", "hosts.yaml"]).unwrap().expect(0);
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h2", "h3"]);
}

#[test]
fn a_killed_engine_leaves_a_record_and_the_next_run_goes_on() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    let mut child = begin(&world);
    for host in world.hosts() {
        until_exec(host, 20, "test -e /etc/bad/begun");
    }
    signal(&child, "-KILL");
    assert_eq!(child.wait().unwrap().code(), None);
    for host in world.hosts() {
        exec(host, "touch /etc/bad/go");
    }
    world.converge(&["snapshots", "hosts.yaml"]).unwrap().expect(0).says("did not end by itself");
    for host in world.hosts() {
        until_exec(host, 20, "flock -n /var/lib/converge/lock true");
    }
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h2", "h3"]);
    apply(&world).expect(0);
}

#[test]
fn a_link_that_is_lost_without_a_word_leaves_nothing_in_doubt_and_no_lock() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    let child = begin(&world);
    for host in world.hosts() {
        until_exec(host, 20, "test -e /etc/bad/begun");
    }
    let [h1, h2, h3] = world.hosts() else { panic!("three hosts") };
    h2.cut().unwrap();
    let cut = Instant::now();
    for host in [h1, h3] {
        exec(host, "touch /etc/bad/go");
    }
    // The host finishes the step in which it is, and begins no other: it has heard nothing for too long.
    until_exec(h2, 90, "test -e /var/lib/converge/runs/*/fenced");
    assert!(cut.elapsed() > Duration::from_secs(30), "{:?}", cut.elapsed());
    assert!(!h2.exec("flock -n /var/lib/converge/lock true").unwrap().success(), "a step is at work");
    exec(h2, "touch /etc/bad/go");
    until_exec(h2, 30, "flock -n /var/lib/converge/lock true");
    exec(h2, "test -e /etc/bad/done && ! test -e /etc/bad/after");
    let ran = end(child);
    h2.heal().unwrap();
    // Steps that were sent and not answered are unknown: the one in progress, and the one after it.
    let ran = ran.says("h2").says("unknown").expect(1);
    let line = |item: &str| ran.all().lines().any(|l| l.contains("unknown") && l.contains(item));
    assert!(line("slow/slow"), "{}", ran.all());
    assert!(
        !ran.all().contains("skipped: the connection to the host was lost · slow/after"),
        "{}",
        ran.all()
    );
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h3"]);
    // A new run begins at once, and finds the interrupted changes.
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h2", "h3"]);
    assert!(!h2.exec("ls /var/lib/converge/runs/*/alive").unwrap().success(), "nothing stays");
}

#[test]
fn a_power_cut_is_reported_and_repaired() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    let child = begin(&world);
    for host in world.hosts() {
        until_exec(host, 20, "test -e /etc/bad/begun");
    }
    let [h1, h2, h3] = world.hosts() else { panic!("three hosts") };
    h2.kill().unwrap();
    for host in [h1, h3] {
        exec(host, "touch /etc/bad/go");
    }
    let ran = end(child);
    h2.start().unwrap();
    let ran = ran.says("h2").says("slow/slow");
    // The result of its last step is not known: that is a failure, not only an absence.
    ran.says("unknown").expect(1);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h3"]);
    exec(h2, "touch /etc/bad/go");
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/after"), ["h1", "h2", "h3"]);
}

/// Nothing is asked of a host that waits for its batch: that it has died is seen nevertheless, while the first one is still at work.
#[test]
fn a_host_that_dies_while_it_waits_for_another_one_is_named_at_once() {
    let world = world();
    world.only_role("slow", SLOW).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  serial: 1\n  roles: [slow]\n").unwrap();
    let reply = world.dir().join("said");
    let file = std::fs::File::create(&reply).unwrap();
    let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
    let [h1, h2, h3] = world.hosts() else { panic!("three hosts") };
    until_exec(h1, 20, "test -e /etc/bad/begun");
    h2.kill().unwrap();
    let text = || std::fs::read_to_string(&reply).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(100) && !text().contains("sent nothing while it was waiting")
    {
        std::thread::sleep(Duration::from_secs(1));
    }
    let before = text();
    h2.start().unwrap();
    for host in [h1, h3] {
        exec(host, "touch /etc/bad/go");
    }
    let code = child.wait().unwrap().code();
    assert!(
        before.contains("h2") && before.contains("sent nothing while it was waiting"),
        "{before}\n---\n{}",
        text()
    );
    assert_ne!(code, Some(0), "{}", text());
    assert!(having(&world, "/etc/bad/after").contains(&"h1".to_owned()));
}
