//! Paths that lead elsewhere: links, mounts and the files below them.

use super::links::{files, undo_sh};
use super::*;

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
            // systemd makes a unit of each line of /etc/fstab, and would mount it once more.
            assert_eq!(exec(host, "systemctl show -p LoadState --value srv-dst.mount"), "not-found");
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
                let reply = format!("{}{}", early.stdout, early.stderr);
                assert!(
                    !early.success() && reply.contains("has mounted or unmounted something above it"),
                    "{reply}"
                );
                assert_eq!(exec(host, look), mounted, "{reply}");
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

/// A change of a path, and the file below it that the role declares, with its end.
struct Relinked {
    start: &'static str,
    role: &'static str,
    after: &'static str,
}

/// A path below a link that a role replaces or leads elsewhere is another file after that, in one run.
#[test]
fn below_a_link_that_the_run_replaces_or_leads_elsewhere_one_apply_reaches_the_goal() {
    const LINKED: &str = "mkdir A B; echo a >A/x; echo b >B/x; echo y >A/y; ln -s A l";
    const TO_DIRECTORY: &str = "  - directory: {path: /srv/l, force: true}\n";
    const TO_LINK: &str = "  - link: {path: /srv/l, target: B, force: true}\n";
    let cases = [
        Relinked {
            start: LINKED,
            role: "TO_DIRECTORY  - file: {path: /srv/l/x, content: \"new\\n\"}\n",
            after: "l/x:new",
        },
        // As behind the link.
        Relinked {
            start: LINKED,
            role: "TO_DIRECTORY  - file: {path: /srv/l/x, content: \"a\\n\"}\n",
            after: "l/x:a",
        },
        Relinked {
            start: LINKED,
            role: "TO_DIRECTORY  - line: {path: /srv/l/x, line: new, create: true}\n",
            after: "l/x:new",
        },
        Relinked {
            start: LINKED,
            role: "TO_DIRECTORY  - link: {path: /srv/l/x, target: ../A/y, force: true}\n",
            after: "l/x:y",
        },
        Relinked {
            start: LINKED,
            role: "TO_DIRECTORY  - directory: {path: /srv/l/d}\n  - file: {path: /srv/l/d/x, content: \"new\\n\"}\n",
            after: "l/d/x:new",
        },
        Relinked {
            start: LINKED,
            role: "TO_LINK  - file: {path: /srv/l/x, content: \"new\\n\"}\n",
            after: "B/x:new",
        },
        Relinked {
            start: LINKED,
            role: "TO_LINK  - file: {path: /srv/l/x, content: \"a\\n\"}\n",
            after: "B/x:a",
        },
        Relinked {
            start: LINKED,
            role: "TO_LINK  - line: {path: /srv/l/x, line: new}\n",
            after: "B/x:b new",
        },
        Relinked { start: LINKED, role: "TO_LINK  - absent: {path: /srv/l/x}\n", after: "B/x:" },
        Relinked {
            start: LINKED,
            role: "TO_LINK  - file: {path: /srv/l/y, content: \"y\\n\"}\n",
            after: "B/y:y",
        },
        Relinked {
            start: "echo f >l",
            role: "TO_DIRECTORY  - file: {path: /srv/l/x, content: \"new\\n\"}\n",
            after: "l/x:new",
        },
    ];
    let world = world();
    let host = &world.hosts()[0];
    let look = "cd /srv; find . -mindepth 1 -printf '%p %y %m %U %l\\n' | sort; find . -type f | sort | xargs -r grep -H .";
    for (number, Relinked { start, role, after }) in cases.into_iter().enumerate() {
        let role = role.replace("TO_DIRECTORY", TO_DIRECTORY).replace("TO_LINK", TO_LINK);
        let role = format!("resources:\n{role}");
        for by_the_host in [false, true] {
            exec(host, &format!("cd /srv; {start}"));
            let before = exec(host, look);
            let applied = apply(&world, &role).all();
            let (path, text) = after.split_once(':').unwrap();
            let found = exec(host, &format!("cat /srv/{path} 2>/dev/null | xargs"));
            assert_eq!(found, text, "{number} {role} {applied}");
            world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
            if by_the_host {
                exec(host, "sh /var/lib/converge/undo.sh");
            } else {
                rollback(&world, &[]).expect(0);
            }
            assert_eq!(exec(host, look), before, "{number} {role} {by_the_host}");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// A directory is replaced by a link to another one with files of the same names: each comes back as it was.
#[test]
fn a_directory_goes_for_a_link_to_one_with_the_same_names() {
    let world = world();
    let host = &world.hosts()[0];
    for how in ["rollback", "undo.sh", "prune"] {
        exec(
            host,
            "cd /srv; for d in d e; do mkdir -p $d/sub; for f in x 'a b' sub/y; do echo $d >\"$d/$f\"; done; done; chmod 4750 d/x",
        );
        let before = files(host);
        apply(&world, "resources:\n  - link: {path: /srv/d, target: e, force: true}\n");
        assert_eq!(exec(host, "cat /srv/d/x /srv/d/sub/y | xargs"), "e e");
        let planned = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        assert!(!planned.all().contains("orphaned"), "{}", planned.all());
        let reply = match how {
            "undo.sh" => undo_sh(host),
            "rollback" => rollback(&world, &[]).expect(0).all(),
            _ => {
                world.only_role("r", "resources: []\n").unwrap();
                world.converge(&["apply", "--yes", "--prune=5", "hosts.yaml"]).unwrap().expect(0).all()
            }
        };
        assert_eq!(files(host), before, "{how}: {reply}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// A link goes back in no prune while something declared lies behind it, also through a second link: that would be another object from then on.
#[test]
fn a_link_stays_while_something_declared_lies_behind_it() {
    let world = world();
    let host = &world.hosts()[0];
    for file in ["/srv/l/x", "/srv/k/x"] {
        exec(host, "cd /srv; mkdir a b; echo a >a/x; echo b >b/x; ln -s a l; ln -s l k");
        let before = files(host);
        apply(&world, "resources:\n  - link: {path: /srv/l, target: b}\n");
        world.only_role("r", &format!("resources:\n  - line: {{path: {file}, line: more}}\n")).unwrap();
        let planned = world.converge(&["plan", "--prune", "hosts.yaml"]).unwrap();
        let why = format!(
            "path:{file}, declared in the same plan, would be a different path without the link /srv/l"
        );
        assert!(planned.all().contains(&why), "{}", planned.all());
        let applied = world.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).unwrap();
        let found = exec(host, "cd /srv; readlink l; cat a/x b/x | xargs");
        assert_eq!(found.trim(), "b\na b more", "{}", applied.all());
        for _ in 0..2 {
            rollback(&world, &[]).expect(0);
        }
        assert_eq!(files(host), before, "{file}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// A directory stands where a link or a file was, and somebody has put something into it: it is named and left, and what is older goes back.
#[test]
fn a_directory_in_the_place_of_something_else_stays_while_it_holds_what_others_made() {
    let world = world();
    let host = &world.hosts()[0];
    let older = "resources:\n  - file: {path: /srv/older, content: x}\n";
    let newer = format!(
        "{older}  - directory: {{path: /srv/l, force: true}}\n  - file: {{path: /srv/l/k, content: k}}\n"
    );
    let look = "cd /srv; find . -mindepth 1 -printf '%p %y %m %U %l\\n' | sort";
    for make in ["mkdir A; ln -s A l", "echo x >l"] {
        for by_script in [false, true] {
            let case = format!("{make}, by script: {by_script}");
            exec(host, &format!("cd /srv; {make}"));
            let before = exec(host, look);
            apply(&world, older);
            apply(&world, &newer);
            exec(host, "echo t >/srv/l/theirs");
            if by_script {
                let left = exec(host, "sh /var/lib/converge/undo.sh 2>&1; echo status $?");
                assert!(
                    left.contains("LEFT ALONE     path:/srv/l: it holds") && left.ends_with("status 1"),
                    "{case}: {left}"
                );
                assert!(left.contains("restored       path:/srv/l/k"), "{case}: {left}");
            } else {
                rollback(&world, &[]).expect(4).says("/srv/l: it holds /srv/l/theirs, which is not reverted");
                let left = rollback(&world, &[]);
                left.says("it holds /srv/l/theirs").says("remove file /srv/older");
            }
            assert_eq!(exec(host, "ls /srv/l"), "theirs", "{case}");
            exec(host, "rm /srv/l/theirs");
            for _ in 0..2 {
                match by_script {
                    true => drop(exec(host, "sh /var/lib/converge/undo.sh; true")),
                    false => drop(rollback(&world, &[]).expect(0)),
                }
            }
            assert_eq!(exec(host, look), before, "{case}");
            exec(host, "rm -rf /srv/* /var/lib/converge");
        }
    }
}

/// A link of an earlier run leads to nothing: what lies behind it is planned where this run makes that, and goes back with it.
#[test]
fn a_link_that_leads_to_nothing_is_followed_where_the_run_makes_its_target() {
    let world = world();
    let host = &world.hosts()[0];
    let link = "resources:\n  - name: place\n    directory: {path: /srv/p}\n  - name: link\n    link: {path: /srv/p/cur, target: r1}\n";
    let made = "  - name: made\n    directory: {path: /srv/p/r1}\n  - name: file\n    file: {path: /srv/p/r1/y, content: \"y\\n\"}\n";
    let edit = "  - name: edit\n    line: {path: /srv/p/cur/y, line: L}\n  - name: new\n    file: {path: /srv/p/cur/z, content: \"z\\n\"}\n";
    let package = "  - name: package\n    package: {name: tree}\n";
    for before in ["", package] {
        apply(&world, link);
        apply(&world, &format!("{link}{before}{made}{edit}")).says("create file /srv/p/cur/z");
        assert_eq!(exec(host, "cat /srv/p/r1/y /srv/p/r1/z"), "y\nL\nz");
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        rollback(&world, &[]).expect(0);
        assert_eq!(exec(host, "ls -A /srv/p; readlink /srv/p/cur"), "cur\nr1");
        rollback(&world, &[]).expect(0);
        assert_eq!(exec(host, "ls /srv"), "");
    }
}
