//! A path that leads to another place than the one where a run changed it: nothing is written there.

use super::links::undo_sh;
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
        let said = take_back(&world, by_script);
        let now = exec(host, "cat /srv/B/x");
        assert_eq!(exec(host, "cd /srv; stat -c %a A/x; cat A/x"), first, "{by_script}: {said}");
        assert!(now == "b0" || said.contains("/srv/k/x: it was changed in /srv/B"), "{by_script}: {said}");
        // Where the links lead back, the rest goes back too.
        if now != "b0" {
            exec(host, "ln -sfn l /srv/k; ln -sfn B /srv/l");
            let said = take_back(&world, by_script);
            assert_eq!(exec(host, "cat /srv/B/x"), "b0", "{by_script}: {said}");
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
        let said = match how {
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
        assert_eq!(exec(host, both), there, "{how}: {said}");
        if how == "old record" {
            continue;
        }
        let why = "it was changed in /home/pg1/data, and its path leads to /home/pg2/data now";
        assert!(said.contains(why), "{how}: {said}");
        assert!(!how.starts_with("undo") || said.ends_with("status 1"), "{how}: {said}");
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
            let said = rollback(&world, &["--to", &first_run(host)]).expect(4);
            said.says("/srv/l/x: it was changed in /srv/A and in /srv/B");
            assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), there);
        }
        let said = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 one a0 one", "{said}");
        // The file behind the link looks as the first run left its own.
        let said = take_back(&world, by_script);
        assert!(said.contains("it was changed in /srv/A, and its path leads to /srv/B now"), "{said}");
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 one a0 one", "{said}");
        exec(host, "ln -sfn A /srv/l");
        let said = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "a0 a0 one", "{said}");
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
        let said = take_back(&world, by_script);
        assert_eq!(exec(host, "cat /srv/e/x"), "old", "{said}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}
