//! A path that leads to another place than the one where a run changed it: nothing is written there.

use super::links::{files, undo_sh};
use super::*;

/// Takes the newest run back, without an expectation of how it ends.
fn take_back(world: &World, by_script: bool) -> String {
    if by_script { undo_sh(&world.hosts()[0]) } else { rollback(world, &[]).all() }
}

/// A unit, a command that leads a link elsewhere, a second link through the first one, and an edit through that.
const THROUGH_A_SECOND: &str = "resources:
  - name: unit
    unit: {name: cut, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started}
  - name: lead
    command: {run: ln -sfn B /srv/l, unless: test $(readlink /srv/l) = B, undo: ln -sfn A /srv/l}
  - name: second
    link: {path: /srv/k, target: l}
  - name: edit
    line: {path: /srv/k/x, line: two}
";

#[test]
fn a_file_behind_two_links_is_not_written_where_the_first_one_led_before() {
    let world = world();
    let host = &world.hosts()[0];
    for (by_script, other) in [(false, "a0"), (true, "a0"), (false, "b0\\ntwo"), (true, "b0\\ntwo")] {
        exec(
            host,
            &format!("cd /srv; mkdir A B; printf '{other}\\n' >A/x; echo b0 >B/x; chmod 600 A/x; ln -s A l"),
        );
        let first = exec(host, "cd /srv; stat -c %a A/x; cat A/x");
        apply(&world, THROUGH_A_SECOND);
        assert_eq!(exec(host, "cat /srv/B/x"), "b0\ntwo");
        let reply = take_back(&world, by_script);
        let now = exec(host, "cat /srv/B/x");
        assert_eq!(exec(host, "cd /srv; stat -c %a A/x; cat A/x"), first, "{by_script}: {reply}");
        assert!(now == "b0" || reply.contains("/srv/k/x: it was changed in /srv/B"), "{by_script}: {reply}");
        // Where the links lead back, the rest goes back too.
        if now != "b0" {
            exec(host, "ln -sfn l /srv/k; ln -sfn B /srv/l");
            let reply = take_back(&world, by_script);
            assert_eq!(exec(host, "cat /srv/B/x"), "b0", "{by_script}: {reply}");
        }
        exec(host, "systemctl stop cut; rm -rf /srv/* /var/lib/converge /etc/systemd/system/cut.service");
    }
}

const HOMES: &str = "rm -rf /home/pg* /srv/*; mkdir -p /home/pg1/data /home/pg2/data; \
    echo old | tee /home/pg1/data/x >/home/pg2/data/x; chown -R 4000:4000 /home/pg1 /home/pg2; ln -s /home/pg1/data /srv/u";
const IN_HOME: &str =
    "resources:\n  - file: {path: /srv/u/x, content: \"new\\n\", owner: \"4000\", group: \"4000\"}\n";
/// The link leads to the other home, whose file looks the same.
const LED_AWAY: &str = "cp -a /home/pg1/data/x /home/pg2/data/x; ln -sfn /home/pg2/data /srv/u";

#[test]
fn a_link_into_a_home_that_somebody_leads_to_another_one_is_followed_by_no_rollback_and_no_prune() {
    let world = world();
    let host = &world.hosts()[0];
    let both = "cat /home/pg1/data/x /home/pg2/data/x | xargs";
    for how in ["rollback", "undo.sh", "undo.sh --force", "prune", "old record"] {
        exec(host, HOMES);
        apply(&world, IN_HOME);
        assert_eq!(exec(host, both), "new old");
        let journal = exec(host, "cat /var/lib/converge/runs/*/journal");
        assert!(journal.contains("\nat\t1\t/home/pg1/data\n"), "{journal}");
        exec(host, LED_AWAY);
        let reply = match how {
            "undo.sh" => undo_sh(host),
            "undo.sh --force" => exec(host, "sh /var/lib/converge/undo.sh --force 2>&1; echo status $?"),
            "prune" => {
                world.only_role("r", "resources: []\n").unwrap();
                world.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).unwrap().all()
            }
            "old record" => {
                exec(host, "sed -i '/^at\\t/d' /var/lib/converge/runs/*/journal");
                rollback(&world, &[]).expect(0).all()
            }
            _ => rollback(&world, &[]).expect(4).all(),
        };
        // A record of an older version does not say where the change was made.
        let there = if how == "old record" { "new old" } else { "new new" };
        assert_eq!(exec(host, both), there, "{how}: {reply}");
        if how == "old record" {
            continue;
        }
        let why = "it was changed in /home/pg1/data, and its path leads to /home/pg2/data now";
        assert!(reply.contains(why), "{how}: {reply}");
        assert!(!how.starts_with("undo") || reply.ends_with("status 1"), "{how}: {reply}");
        exec(host, "ln -sfn /home/pg1/data /srv/u");
        match how {
            "prune" => {
                drop(world.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).unwrap().expect(0))
            }
            how => drop(take_back(&world, how != "rollback")),
        }
        assert_eq!(exec(host, both), "old new", "{how}");
        exec(host, "rm -rf /var/lib/converge");
    }
    exec(host, "rm -rf /home/pg*");
}

#[test]
fn a_path_that_two_runs_edit_at_two_places_goes_back_at_each_and_not_in_one() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |line: &str| format!("resources:\n  - name: it\n    line: {{path: /srv/l/x, line: {line}}}\n");
    for by_script in [false, true] {
        exec(host, "cd /srv; mkdir A B; echo a0 >A/x; ln -s A l");
        apply(&world, &role("one"));
        exec(host, "cd /srv; cp -a A/x B/x; ln -sfn B l");
        apply(&world, &role("two"));
        let there = exec(host, "cat /srv/A/x /srv/B/x | xargs");
        assert_eq!(there, "a0 one a0 one two");
        if !by_script {
            // The one that is seen goes back.
            let reply = rollback(&world, &["--to", &first_run(host)]).expect(4);
            reply.says("/srv/l/x: it was changed in /srv/A, and its path leads to /srv/B now");
            assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 one a0 one");
        }
        let reply = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 one a0 one", "{reply}");
        // The file behind the link looks as the first run left its own.
        let reply = take_back(&world, by_script);
        assert!(reply.contains("it was changed in /srv/A, and its path leads to /srv/B now"), "{reply}");
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 one a0 one", "{reply}");
        exec(host, "ln -sfn A /srv/l");
        let reply = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 a0 one", "{reply}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// The record of a path without a link above it names no place: its directory may move, and a link may stand there then.
#[test]
fn a_directory_that_somebody_moves_and_links_to_is_followed() {
    let world = world();
    let host = &world.hosts()[0];
    for by_script in [false, true] {
        exec(host, "mkdir /srv/d; echo old >/srv/d/x");
        apply(&world, "resources:\n  - line: {path: /srv/d/x, line: more}\n");
        assert_eq!(exec(host, "grep -c '^at' /var/lib/converge/runs/*/journal; true"), "0");
        exec(host, "mv /srv/d /srv/e; ln -s e /srv/d");
        let reply = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/e/x"), "old", "{reply}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

const THREE: &str = "resources:
  - file: {path: /srv/l/f, content: \"new\\n\"}
  - file: {path: /srv/l/n, content: \"new\\n\"}
  - file: {path: /srv/keep, content: \"new\\n\"}
";

/// The link is led to a place that shows the states before, or removed: that says nothing of what was changed.
#[test]
fn what_another_directory_shows_reverts_and_forgets_nothing() {
    let world = world();
    let host = &world.hosts()[0];
    let look = "cd /srv; cat A/f; ls A keep 2>/dev/null | xargs";
    for (how, away) in [("rollback", "rm l"), ("undo.sh", "ln -sfn B l"), ("prune", "ln -sfn B l")] {
        exec(host, "cd /srv; mkdir A B; echo o | tee A/f >B/f; ln -s A l");
        apply(&world, THREE);
        exec(host, &format!("cd /srv; {away}"));
        let prune = |number: usize| {
            world.only_role("r", "resources: []\n").unwrap();
            world.converge(&["apply", "--yes", &format!("--prune={number}"), "hosts.yaml"]).unwrap().all()
        };
        let take = |number| if how == "prune" { prune(number) } else { take_back(&world, how == "undo.sh") };
        let reply = take(1);
        let now = if away == "rm l" { "/srv/l" } else { "/srv/B" };
        let why = |name| format!("/srv/l/{name}: it was changed in /srv/A, and its path leads to {now} now");
        assert!(reply.contains(&why("f")) && reply.contains(&why("n")), "{how}: {reply}");
        assert_eq!(exec(host, look), "new\nA: f n", "{how}: {reply}");
        exec(host, "ln -sfn A /srv/l");
        let reply = take(2);
        assert_eq!(exec(host, look), "o\nA: f", "{how}: {reply}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

#[test]
fn no_older_run_is_taken_for_one_whose_change_lies_elsewhere() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "cd /srv; mkdir A B; ln -s A l");
    apply(&world, "resources:\n  - file: {path: /srv/keep, content: \"new\\n\"}\n");
    apply(&world, "resources:\n  - file: {path: /srv/l/f, content: \"new\\n\"}\n");
    exec(host, "ln -sfn B /srv/l");
    rollback(&world, &[]).expect(4).says("it was changed in /srv/A").says("no older run is taken");
    assert_eq!(exec(host, "cat /srv/keep /srv/A/f | xargs"), "new new");
    exec(host, "ln -sfn A /srv/l");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "ls /srv | xargs; ls /srv/A"), "A B keep l");
}

/// The link leads to the directory of the older run by then: its change goes back, and that of the newer one stays on its own stack.
#[test]
fn a_rollback_over_two_directories_takes_back_what_is_seen_and_keeps_the_rest() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |text: &str| format!("resources:\n  - file: {{path: /srv/l/f, content: \"{text}\\n\"}}\n");
    exec(host, "cd /srv; mkdir A B; echo oa >A/f; echo ob >B/f; ln -s A l");
    apply(&world, &role("one"));
    let first = first_run(host);
    exec(host, "ln -sfn B /srv/l");
    apply(&world, &role("two"));
    exec(host, "ln -sfn A /srv/l");
    let why = "/srv/l/f: it was changed in /srv/B, and its path leads to /srv/A now";
    rollback(&world, &[]).expect(4).says(why);
    rollback(&world, &["--to", &first]).expect(4).says(why);
    assert_eq!(exec(host, "cat /srv/A/f /srv/B/f | xargs"), "oa two");
    exec(host, "ln -sfn B /srv/l");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "cat /srv/A/f /srv/B/f | xargs"), "oa ob");
    rollback(&world, &[]).says("no host has a run");
}

#[test]
fn a_directory_behind_a_link_that_somebody_moves_and_links_to_is_followed() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "cd /srv; mkdir A; echo old >A/f; ln -s A l");
    apply(&world, "resources:\n  - file: {path: /srv/l/f, content: \"new\\n\"}\n");
    exec(host, "cd /srv; mv A A2; ln -s A2 A");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "cat /srv/A2/f"), "old");
    rollback(&world, &[]).says("no host has a run");
}

/// A rollback brings a tree back, behind a link that somebody leads elsewhere then: undo.sh of that rollback removes nothing there.
#[test]
fn what_a_rollback_brought_back_behind_a_link_is_removed_nowhere_else() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "cd /srv; mkdir -p A/old/sub B; ln -s A l; echo o >A/old/sub/f");
    apply(&world, "resources:\n  - link: {path: /srv/l/old, target: /nowhere, force: true}\n");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "cat /srv/A/old/sub/f"), "o");
    exec(host, "cd /srv; cp -a A/. B; ln -sfn B l");
    let back = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    let reply = exec(host, &format!("sh /var/lib/converge/undo.sh {back} 2>&1; echo status $?"));
    assert!(reply.ends_with("status 1") && !reply.contains("restored"), "{reply}");
    assert_eq!(exec(host, "cat /srv/A/old/sub/f /srv/B/old/sub/f | xargs"), "o o", "{reply}");
    exec(host, "ln -sfn A /srv/l");
    let reply = exec(host, &format!("sh /var/lib/converge/undo.sh {back} 2>&1; echo status $?"));
    assert!(reply.ends_with("status 0"), "{reply}");
    assert_eq!(exec(host, "readlink /srv/A/old; cat /srv/B/old/sub/f"), "/nowhere\no");
}

/// A link takes the place of a directory, and the other way round, and a file lies behind it.
#[test]
fn a_file_behind_a_link_in_the_place_of_a_directory_is_planned_there_and_goes_back_and_forth() {
    let world = world();
    let host = &world.hosts()[0];
    let file = "  - name: f\n    file: {path: /srv/d/f, content: \"three\\n\"}\n";
    let link = "  - name: d\n    link: {path: /srv/d, target: A, force: true}\n";
    let dir = "  - name: d\n    directory: {path: /srv/d, force: true}\n";
    for (make, change, there) in [("mkdir A d", link, "three"), ("mkdir A; ln -s A d", dir, "o")] {
        exec(host, &format!("cd /srv; {make}; echo o >A/f"));
        let before = files(host);
        apply(&world, &format!("resources:\n{change}{file}"));
        assert_eq!(exec(host, "cat /srv/d/f /srv/A/f | xargs"), format!("three {there}"));
        rollback(&world, &[]).expect(0);
        assert_eq!(files(host), before);
        let back = exec(host, "grep -l '^purpose.rollback' /var/lib/converge/runs/*/meta | cut -d / -f 6");
        rollback(&world, &["--to", &back]).expect(0);
        assert_eq!(exec(host, "cat /srv/d/f /srv/A/f | xargs"), format!("three {there}"));
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// Releases as people have them: a link to the present one, and a file of it behind the link. A rollback, and the rollback of that by `--to`, go through each release.
#[test]
fn releases_go_back_and_forth_with_the_file_behind_their_link() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "mkdir /srv/A /srv/B /srv/C; for d in A B C; do echo old$d >/srv/$d/f; done");
    let mut shown = vec![files(host)];
    for to in ["A", "B", "C"] {
        let link = format!("  - link: {{path: /srv/l, target: {to}}}\n");
        apply(&world, &format!("resources:\n{link}  - file: {{path: /srv/l/f, content: \"new{to}\\n\"}}\n"));
        shown.push(files(host));
    }
    let first = first_run(host);
    let runs = exec(host, "ls /var/lib/converge/runs");
    rollback(&world, &["--to", &first]).expect(0);
    assert_eq!(files(host), shown[0]);
    let back = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    rollback(&world, &["--to", &back]).expect(0);
    assert_eq!(files(host), shown[3]);
    for before in shown.iter().rev().skip(1) {
        rollback(&world, &[]).expect(0);
        assert_eq!(files(host), *before, "{runs}");
    }
}

/// A run has taken the link away: what its earlier runs made behind it goes back through it, and at the end it is gone again.
#[test]
fn what_lies_behind_a_link_that_a_later_run_removed_goes_back_through_it() {
    let world = world();
    let host = &world.hosts()[0];
    let made = |to: &str| {
        let link = format!("  - link: {{path: /srv/l, target: {to}}}\n");
        format!("resources:\n{link}  - file: {{path: /srv/l/f, content: \"new{to}\\n\"}}\n")
    };
    for (targets, how) in [(&["A"][..], "--to"), (&["A", "B"][..], "--to"), (&["A", "B"][..], "undo.sh")] {
        exec(
            host,
            "rm -rf /srv/* /var/lib/converge; mkdir /srv/A /srv/B; for d in A B; do echo old$d >/srv/$d/f; done",
        );
        let before = files(host);
        for to in targets {
            apply(&world, &made(to));
        }
        apply(&world, "resources:\n  - absent: {path: /srv/l}\n");
        let made = files(host);
        let first = first_run(host);
        let reply = rollback(&world, &["--to", &first]);
        assert_eq!(files(host), before, "{targets:?}: {}", reply.all());
        reply.expect(0);
        let back = exec(host, "ls /var/lib/converge/runs | tail -n 1");
        let again = match how {
            "undo.sh" => exec(host, &format!("sh /var/lib/converge/undo.sh {back} 2>&1; echo status $?")),
            _ => rollback(&world, &["--to", &back]).expect(0).all(),
        };
        assert_eq!(files(host), made, "{targets:?} {how}: {again}");
        assert!(how != "undo.sh" || again.ends_with("status 0"), "{again}");
        let last = rollback(&world, &["--to", &first]).all();
        assert_eq!(files(host), before, "{targets:?} {how}: {again}{last}");
    }
}
