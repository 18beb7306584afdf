//! Links that a run makes, leads elsewhere or puts in the place of a directory: a path below is another file then.

use super::*;

/// A path is edited before and after a command leads it elsewhere.
const TWICE: &str = "resources:
  - name: first
    line: {path: /srv/l/x, line: one}
  - name: c
    command: {COMMAND}
  - name: second
    line: {path: /srv/l/x, line: two}
  - name: new
    file: {path: /srv/l/g, content: v}
";

/// All below `/srv` as the runs may change it.
pub(super) fn files(host: &Host) -> String {
    exec(
        host,
        "cd /srv; find . -mindepth 1 -printf '%p %y %m %U %l\\n' | sort; find . -type f -exec grep -H . {} + | sort",
    )
}

/// Reverts the newest run on the host, without converge.
pub(super) fn undo_sh(host: &Host) -> String {
    exec(host, "sh /var/lib/converge/undo.sh 2>&1; echo status $?")
}

#[test]
fn a_path_that_a_command_leads_elsewhere_is_two_files_and_each_goes_back_in_its_place() {
    let world = world();
    let host = &world.hosts()[0];
    let link =
        "run: ln -sfn /srv/B /srv/l, unless: test $(readlink /srv/l) = /srv/B, undo: ln -sfn /srv/A /srv/l";
    let folder = "run: mv /srv/l /srv/l.old && ln -s /srv/B /srv/l, unless: test -L /srv/l, undo: rm /srv/l && mv /srv/l.old /srv/l";
    for (make, run) in [("mkdir -p /srv/A; ln -sfn /srv/A /srv/l", link), ("mkdir -p /srv/l", folder)] {
        for by_script in [false, true] {
            exec(
                host,
                &format!("mkdir /srv/B; {make}; echo a0 >/srv/l/x; echo b0 >/srv/B/x; chown 4000 /srv/B/x"),
            );
            let before = files(host);
            world.only_role("r", &TWICE.replace("{COMMAND}", &format!("{{{run}}}"))).unwrap();
            world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1).says("r/first");
            assert_eq!(exec(host, "cat /srv/B/x | xargs"), "b0 two");
            if by_script {
                let reply = undo_sh(host);
                assert!(reply.ends_with("status 0"), "{reply}");
                assert_eq!(files(host), before, "{run}: {reply}");
            } else {
                let reply = rollback(&world, &[]).expect(0).all();
                assert_eq!(files(host), before, "{run}: {reply}");
            }
            rollback(&world, &[]).says("no host has a run");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// A link that a run has made from nothing leads to what was there before: an edit through it goes back, in the run that makes it or in a later one.
#[test]
fn what_a_new_link_leads_to_is_not_removed_with_it() {
    let world = world();
    let host = &world.hosts()[0];
    let command = "command: {run: ln -s /srv/A /srv/l, creates: /srv/l, undo: rm /srv/l}";
    // In a directory that the same run makes.
    let inside = "directory: {path: /srv/l}\n  - name: in\n    link: {path: /srv/l/in, target: /srv/A}";
    for link in ["link: {path: /srv/l, target: /srv/A}", command, inside] {
        for (runs, by_script) in [(1, false), (2, false), (1, true), (2, true)] {
            exec(host, "mkdir /srv/A; echo a0 >/srv/A/x");
            let before = files(host);
            for run in 3 - runs..3 {
                let file = if link == inside { "/srv/l/in/x" } else { "/srv/l/x" };
                let line = format!("  - name: line\n    line: {{path: {file}, line: one}}\n");
                let role = format!("resources:\n  - name: link\n    {link}\n");
                world.only_role("r", &(role + if run == 2 { &line } else { "" })).unwrap();
                world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
            }
            assert_eq!(exec(host, "cat /srv/A/x | xargs"), "a0 one");
            let reply = if by_script {
                (0..runs).map(|_| undo_sh(host)).collect()
            } else {
                let first = exec(host, "ls /var/lib/converge/runs | sort | head -1");
                rollback(&world, &["--to", first.trim()]).expect(0).all()
            };
            assert_eq!(files(host), before, "{runs} {link}: {reply}");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// The next runs lead it on: each edit goes back where it was made.
#[test]
fn a_link_that_runs_lead_on_and_on_goes_back_step_by_step() {
    let world = world();
    let host = &world.hosts()[0];
    let role = |to: &str, from: &str| {
        let link = format!(
            "{{run: ln -sfn /srv/{to} /srv/l, unless: test $(readlink /srv/l) = /srv/{to}, undo: ln -sfn /srv/{from} /srv/l}}"
        );
        TWICE.replace("{COMMAND}", &link)
    };
    for how in ["step by step", "by script", "at once"] {
        exec(
            host,
            "cd /srv; mkdir A B C; ln -s /srv/A l; for d in A B C; do echo $d >$d/x; done; chown 4000 B/x",
        );
        let before = files(host);
        for (to, from) in [("B", "A"), ("C", "B")] {
            world.only_role("r", &role(to, from)).unwrap();
            world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1);
        }
        assert_eq!(exec(host, "cat /srv/*/x | xargs"), "A one B two one C two C two");
        match how {
            "by script" => (0..2).for_each(|_| {
                let reply = undo_sh(host);
                assert!(reply.ends_with("status 0"), "{reply}");
            }),
            "at once" => drop(rollback(&world, &["--to", &first_run(host)]).expect(0)),
            _ => (0..2).for_each(|_| drop(rollback(&world, &[]).expect(0))),
        }
        assert_eq!(files(host), before, "{how}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// A command puts a link in the place of a directory that the run has declared.
const DECLARED: &str = "resources:
  - name: folder
    directory: {path: /srv/d, mode: '0755'}
  - name: inside
    file: {path: /srv/d/a, content: v}
  - name: new
    file: {path: /srv/d/f, content: v}
  - name: c
    command: {run: mv /srv/d /srv/d.old && ln -s /srv/e /srv/dUNDO, unless: test -L /srv/d}
";

#[test]
fn a_directory_that_a_command_replaces_by_a_link_is_left_and_named_until_it_is_back() {
    let world = world();
    let host = &world.hosts()[0];
    let undeclared = DECLARED.replace("  - name: folder\n    directory: {path: /srv/d, mode: '0755'}\n", "");
    let old = "mkdir -m 700 /srv/d; echo old >/srv/d/old";
    for (role, make) in [(DECLARED, old), (DECLARED, ":"), (&*undeclared, old)] {
        for undo in ["", ", undo: rm /srv/d && mv /srv/d.old /srv/d"] {
            for by_script in [false, true] {
                let case = format!("{role} {make} {undo} by script: {by_script}");
                exec(host, &format!("mkdir /srv/e; {make}; echo e0 >/srv/e/a; chown 4000 /srv/e/a"));
                let before = files(host);
                world.only_role("r", &role.replace("UNDO", undo)).unwrap();
                world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1);
                if undo.is_empty() {
                    let there = files(host);
                    if by_script {
                        let reply = undo_sh(host);
                        let named = |path: &str| {
                            let line = format!("LEFT ALONE     path:{path}: ");
                            reply.contains(&line) && reply.contains("put that directory back")
                        };
                        assert!(
                            reply.ends_with("status 1") && !reply.contains("else has changed"),
                            "{case}: {reply}"
                        );
                        assert!(["/srv/d", "/srv/d/a", "/srv/d/f"].into_iter().all(named), "{case}: {reply}");
                    } else {
                        let reply = rollback(&world, &[]).expect(4);
                        reply
                            .says("/srv/d: a command put a link")
                            .says("/srv/d/a: it lies in")
                            .says("/srv/d/f: it lies in");
                    }
                    assert_eq!(files(host), there, "{case}");
                    exec(host, "rm /srv/d; mv /srv/d.old /srv/d");
                }
                let reply = if by_script { undo_sh(host) } else { rollback(&world, &[]).all() };
                assert_eq!(files(host), before, "{case}: {reply}");
                if by_script {
                    assert!(reply.ends_with("status 0"), "{case}: {reply}");
                }
                rollback(&world, &[]).says("no host has a run");
                exec(host, "rm -rf /srv/* /var/lib/converge");
            }
        }
    }
}

/// A later run, which is in force, leads the link to a file that looks like that of the first one.
#[test]
fn undo_sh_touches_nothing_behind_a_link_that_a_later_run_leads_elsewhere() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "cd /srv; mkdir A B; echo one >B/x; ln -s /srv/A l");
    apply(&world, "resources:\n  - file: {path: /srv/l/x, content: \"one\\n\"}\n");
    let first = first_run(host);
    for how in [
        "link: {path: /srv/l, target: /srv/B}",
        "command: {run: ln -sfn /srv/B /srv/l, unless: test $(readlink /srv/l) = /srv/B}",
    ] {
        apply(&world, &format!("resources:\n  - {how}\n  - file: {{path: /srv/l/x, content: \"one\\n\"}}\n"));
        let there = files(host);
        let reply = exec(host, &format!("sh /var/lib/converge/undo.sh {first} 2>&1; echo status $?"));
        assert!(
            reply.contains("LEFT ALONE     path:/srv/l/x: ") && reply.ends_with("status 1"),
            "{how}: {reply}"
        );
        assert_eq!(files(host), there, "{how}: {reply}");
        rollback(&world, &[]).expect(0);
    }
}

/// A file of the host before, and resources that make links and edit below them.
const MADE: [&str; 2] = [
    "
  - link: {path: /srv/l, target: /srv/A}
  - file: {path: /srv/l/x, content: \"new\\n\"}
  - file: {path: /srv/l/g, content: v}",
    "
  - link: {path: /srv/k, target: A}
  - link: {path: /srv/l, target: k}
  - line: {path: /srv/l/x, line: two}
  - file: {path: /srv/l/g, content: v}",
];

/// The host alone knows what lies in the place to which a new link leads: the resource waits, and is not refused.
#[test]
fn a_file_below_a_link_that_the_run_makes_is_planned_as_it_lies_there_and_goes_back() {
    let world = world();
    let host = &world.hosts()[0];
    for role in MADE {
        for by_script in [false, true] {
            exec(host, "mkdir /srv/A; echo a0 >/srv/A/x");
            let before = files(host);
            apply(&world, &format!("resources:{role}\n"));
            world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
            let reply = if by_script { undo_sh(host) } else { rollback(&world, &[]).expect(0).all() };
            assert!(!by_script || reply.ends_with("status 0"), "{role}: {reply}");
            assert_eq!(files(host), before, "{role}: {reply}");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// A command makes or leads a link to which a path comes only through another one: what an item changes there goes back, and is not lost from sight.
#[test]
fn what_lies_behind_a_link_that_a_command_leads_goes_back_also_through_a_second_link() {
    let world = world();
    let host = &world.hosts()[0];
    let lead = "run: ln -sfn B /srv/l, unless: test $(readlink /srv/l) = B, undo: ln -sfn A /srv/l";
    let make = "run: ln -sfn /srv/B /srv/n, creates: /srv/n, undo: rm /srv/n";
    let cases = [
        ("LINK", "ln -s l k", "/srv/k/x"),
        ("LINK", "ln -s /srv s", "/srv/s/l/x"),
        (lead, "ln -s l k", "/srv/k/x"),
        (lead, "ln -s /srv/k2 k; ln -s ./l k2", "/srv/k/x"),
        (lead, "mkdir d; ln -s ../l d/k", "/srv/d/k/x"),
        (lead, "ln -s /srv s", "/srv/s/l/x"),
        (make, "ln -s n k", "/srv/k/x"),
    ];
    let items = ["line: {path: FILE, line: two}", "absent: {path: FILE}", "file: {path: FILE, mode: '0600'}"];
    for (n, (command, links, file)) in cases.into_iter().enumerate() {
        for by_script in [false, true] {
            exec(
                host,
                &format!(
                    "cd /srv; mkdir A B; echo a0 >A/x; echo b0 >B/x; ln -s A l; chown -h 4000 l; {links}"
                ),
            );
            let before = files(host);
            let item = items[(n + usize::from(by_script)) % 3].replace("FILE", file);
            let first = match command {
                "LINK" => "link: {path: /srv/l, target: B}".to_owned(),
                command => format!("command: {{{command}}}"),
            };
            apply(
                &world,
                &format!("resources:\n  - {first}\n  - {item}\n  - file: {{path: /srv/l/new, content: v}}\n"),
            );
            assert_ne!(
                exec(host, "(stat -c %a /srv/B/x; cat /srv/B/x) 2>&1; true"),
                "644\nb0",
                "{command} {item}"
            );
            let reply = if by_script { undo_sh(host) } else { rollback(&world, &[]).expect(0).all() };
            assert!(!by_script || reply.ends_with("status 0"), "{command} {item}: {reply}");
            assert_eq!(files(host), before, "{command} {links} {item}: {reply}");
            rollback(&world, &[]).says("no host has a run");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// A package of the same run goes after both: what lies behind a link or a mount goes back while that is there.
#[test]
fn what_lies_behind_a_link_goes_back_before_it_beside_a_package_too() {
    let world = world();
    let host = &world.hosts()[0];
    let lead =
        "command: {run: ln -sfn B /srv/l, unless: test $(readlink /srv/l) = B, undo: ln -sfn A /srv/l}";
    let cases = [
        ("link: {path: /srv/n, target: B}", "true", "/srv/n/x"),
        ("directory: {path: /srv/d}\n  - link: {path: /srv/d/n, target: /srv/B}", "true", "/srv/d/n/x"),
        (lead, "ln -s l k", "/srv/k/x"),
        ("command: {run: ln -s /srv/B /srv/n, creates: /srv/n, undo: rm /srv/n}", "ln -s n k", "/srv/k/x"),
        (
            "directory: {path: /srv/m}\n  - command: {run: mount --bind /srv/B /srv/m, unless: mountpoint -q /srv/m, undo: umount /srv/m}",
            "true",
            "/srv/m/x",
        ),
    ];
    for (first, links, file) in cases {
        for by_script in [false, true] {
            exec(host, &format!("cd /srv; mkdir A B; echo a0 >A/x; echo b0 >B/x; ln -s A l; {links}"));
            let before = files(host);
            apply(
                &world,
                &format!(
                    "resources:\n  - package: {{name: tree}}\n  - {first}\n  - file: {{path: {file}, content: two}}\n"
                ),
            );
            assert_eq!(exec(host, "cat /srv/A/x /srv/B/x"), "a0\ntwo", "{first}");
            let reply = if by_script { undo_sh(host) } else { rollback(&world, &[]).expect(0).all() };
            assert!(!by_script || reply.ends_with("status 0"), "{first}: {reply}");
            assert_eq!(files(host), before, "{first}, by script {by_script}: {reply}");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}
