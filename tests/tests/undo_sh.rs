//! `undo.sh` on a real host: what a run made goes back without converge, and the records know it.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec};

const ROLE: &str = r##"resources:
  - name: folder
    directory: {path: /etc/undone}
  - name: file
    file: {path: /etc/undone/file, content: "ours\n"}
  - name: note
    line: {path: /etc/issue, line: "to be undone"}
  - name: tool
    package: {name: tree}
  - name: scheduler
    package: {name: cron}
  - name: its settings
    line: {path: /etc/default/cron, line: "EXTRA_OPTS='-L 5'"}
  - name: its settings again
    line: {path: /etc/default/cron, line: "# set by a role"}
  - name: account
    user: {name: undone}
  - name: daemon
    unit:
      name: undone
      content: |
        [Service]
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=multi-user.target
  - name: runs
    service: {name: undone, state: started, enabled: true}
  - name: key
    command: {run: "touch /etc/undone/key", creates: /etc/undone/key, undo: rm -f /etc/undone/key}
"##;

/// The state that the role touches, in one text.
fn state(host: &Host) -> String {
    let script = "ls -A /etc/undone 2>&1; cat /etc/issue; command -v tree; id undone 2>&1; ls -d /home/undone 2>&1; \
        systemctl is-active undone; systemctl is-enabled undone 2>&1; ls /etc/systemd/system/undone.service /etc/default/cron 2>&1; true";
    let output = host.exec(script).unwrap();
    assert!(output.success(), "{output:?}");
    output.stdout
}

#[test]
fn a_run_is_undone_on_the_host_itself() {
    let world = World::new(&format!("prune-s{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    world.only_role("undone", ROLE).unwrap();
    let before = state(host);
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let made = state(host);
    assert!(made.contains("/usr/bin/tree") && made.contains("active\nenabled"), "{made}");
    let listed = host.exec("sh /var/lib/converge/undo.sh --list").unwrap();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:?}");
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(state(host), before, "{}", undone.stdout);
    world
        .converge(&["snapshots", "hosts.yaml"])
        .unwrap()
        .expect(0)
        .says("undo.sh of ")
        .says("rolled back by");
    // A rollback that leaves something alone is gone on with here.
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    exec(host, "echo mine > /etc/undone/file");
    let part = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
    assert_ne!(part.code, Some(0), "{}", part.all());
    assert!(!state(host).contains("/usr/bin/tree"), "{}", part.all());
    exec(host, "echo ours > /etc/undone/file");
    let rest = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(rest.success() && rest.stdout.contains("as before"), "{}{}", rest.stdout, rest.stderr);
    assert_eq!(state(host), before, "{}", rest.stdout);
    assert_eq!(exec(host, "sh /var/lib/converge/undo.sh"), "there is no run to undo");
    // Nothing of it is managed any more.
    world.only_role("undone", "resources: []\n").unwrap();
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    assert!(!plan.all().contains("orphaned"), "{}", plan.all());
    // And what undo.sh did can be undone.
    let again =
        host.exec("ls /var/lib/converge/runs | tail -n1 | xargs sh /var/lib/converge/undo.sh").unwrap();
    assert!(
        again.stdout.contains("restored       path:/etc/undone/file"),
        "{}{}",
        again.stdout,
        again.stderr
    );
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0).says("path:/etc/undone/file · role undone");
    the_paths_of_a_user_lead_nowhere(&world);
}

/// `undo.sh`: whether all went well, and its output.
fn undo(host: &Host) -> (bool, String) {
    let ran = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    (ran.success(), ran.stdout + &ran.stderr)
}

/// Files that another user has put beside or into the objects of a run stay, with all that would take them along; everything else goes back.
#[test]
fn what_others_have_added_stays_with_all_that_holds_it() {
    let world = World::new(&format!("undo-s{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    let older = "resources:\n  - file: {path: /srv/older, content: x}\n";
    let with = "  - directory: {path: /srv/a}\n  - directory: {path: /srv/a/b}\n";
    for role in [older.to_owned(), format!("{older}{with}")] {
        world.only_role("layers", &role).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    }
    // Two levels of directories that hold a user's file: nothing of the newer run can go, so the older one is undone.
    exec(host, "echo x >/srv/a/b/theirs");
    let (_, reply) = undo(host);
    assert!(reply.contains("restored       path:/srv/older"), "{reply}");
    assert_eq!(exec(host, "cd /srv; find . | sort"), ".\n./a\n./a/b\n./a/b/theirs");
    exec(host, "rm /srv/a/b/theirs");
    let (good, reply) = undo(host);
    assert!(good, "{reply}");
    assert_eq!(exec(host, "ls /srv"), "", "{reply}");
    // A file of a package that a user has edited since: a purge would take it along.
    let cron =
        "resources:\n  - package: {name: cron}\n  - line: {path: /etc/default/cron, line: \"# by a role\"}\n";
    world.only_role("layers", cron).unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    exec(host, "echo '# mine' >>/etc/default/cron");
    let (good, reply) = undo(host);
    assert!(!good && reply.contains("LEFT ALONE     package:cron"), "{reply}");
    assert_eq!(
        exec(host, "tail -n 2 /etc/default/cron; command -v cron"),
        "# by a role\n# mine\n/usr/sbin/cron",
        "{reply}"
    );
    exec(host, "sed -i '$d' /etc/default/cron");
    let (good, reply) = undo(host);
    assert!(good, "{reply}");
    assert_eq!(exec(host, "ls /etc/default/cron /usr/sbin/cron 2>/dev/null; true"), "", "{reply}");
}

/// A mount that is in use cannot go. Its line in /etc/fstab goes nevertheless: neither a boot nor systemd mounts it once more.
#[test]
fn a_busy_mount_loses_its_line_in_fstab_first() {
    let world = World::new(&format!("mount-s{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    let before = exec(host, "cat /etc/fstab 2>/dev/null; true");
    world
        .only_role("vol", "resources:\n  - mount: {path: /srv/vol, source: tmpfs, fstype: tmpfs}\n")
        .unwrap();
    for by_converge in [false, true] {
        let go_back = || {
            if !by_converge {
                return undo(host);
            }
            let ran = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
            (ran.code == Some(0), ran.all())
        };
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
        exec(
            host,
            "grep -q /srv/vol /etc/fstab && systemd-run -q --unit busy --property WorkingDirectory=/srv/vol sleep 600",
        );
        let (good, reply) = go_back();
        assert!(!good && reply.contains("(sleep) uses /srv/vol: end it"), "{reply}");
        exec(host, "mountpoint -q /srv/vol");
        assert_eq!(exec(host, "cat /etc/fstab"), before, "{reply}");
        exec(host, "systemctl stop busy");
        let (good, reply) = go_back();
        assert!(good, "{reply}");
        exec(host, "! mountpoint -q /srv/vol");
        assert_eq!(exec(host, "cat /etc/fstab"), before, "{reply}");
    }
}

/// A line that says FAILED carries the reason.
#[test]
fn what_cannot_be_restored_is_reported_with_its_reason() {
    let world = World::new(&format!("why-s{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    exec(host, "mkdir /srv/fixed && mount --bind /srv/fixed /srv/fixed");
    world
        .only_role(
            "why",
            r#"resources:
  - {name: file, file: {path: /srv/fixed/file, content: x}}
  - {name: account, user: {name: worker}}
  - {name: group, group: {name: crew}}
  - {name: other, user: {name: silent}}
  - {name: tool, package: {name: sl}}
  - {name: step, command: {run: "touch /srv/made", creates: /srv/made, undo: "echo 'it is stuck' >&2; false"}}
"#,
        )
        .unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap();
    exec(
        host,
        "mount -o remount,bind,ro /srv/fixed; systemd-run -q --unit busy --uid worker sleep 600; useradd -M -g crew member; \
         printf '#!/bin/sh\necho it will not go >&2; exit 1\n' >/var/lib/dpkg/info/sl.prerm; chmod 755 /var/lib/dpkg/info/sl.prerm; \
         printf '#!/bin/sh\n[ \"$2\" = silent ] && exit 9\nexec /usr/sbin/userdel \"$@\"\n' >/usr/local/sbin/userdel; chmod 755 /usr/local/sbin/userdel",
    );
    let (good, reply) = undo(host);
    assert!(!good, "{reply}");
    for (object, why) in [
        ("path:/srv/fixed/file", "Read-only file system"),
        ("user:worker", "userdel: user worker is currently used by process"),
        ("user:silent", "it ended with status 1 and no message"),
        ("package:sl", "E: Sub-process /usr/bin/dpkg returned an error code"),
        ("command:why/step", "the command ended with status 1"),
    ] {
        let line = reply.lines().find(|line| line.starts_with(&format!("FAILED         {object}")));
        assert!(line.is_some_and(|line| line.contains(why)), "{object}: {why}\n{reply}");
    }
    assert!(reply.contains("\n               it is stuck\n"), "{reply}");
    // A group that no tool would remove is named before.
    assert!(reply.contains("\nLEFT ALONE     group:crew: it is the primary group of member"), "{reply}");
}

/// A run whose controller is gone works on for a while: nothing is undone meanwhile, even where somebody has removed the file of its lock.
#[test]
fn nothing_is_undone_while_a_session_of_the_run_lives() {
    let world = World::new(&format!("alive-s{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    let role = "resources:\n  - {name: file, file: {path: /srv/file, content: x}}\n  \
                - {name: long, command: {run: \"touch /srv/begun; sleep 25\", creates: /srv/none}}\n";
    world.only_role("long", role).unwrap();
    let mut controller = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    let mut controller = controller.stdout(std::process::Stdio::null()).spawn().unwrap();
    converge_tests::until("it is in the middle", 60, || host.exec("test -e /srv/begun").unwrap().success());
    controller.kill().unwrap();
    controller.wait().unwrap();
    let rollback = |words: &[&str]| {
        let plan = world.converge(&["rollback", "hosts.yaml"]).unwrap();
        plan.says("did not end, and it may still be at work");
        let ran = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
        words.iter().fold(ran, |ran, word| ran.says(word)).expect(4);
    };
    let (good, reply) = undo(host);
    assert!(!good && reply.contains("locked by run") && reply.contains("it is still at work"), "{reply}");
    rollback(&["locked by run"]);
    exec(host, "rm /var/lib/converge/lock");
    let (good, reply) = undo(host);
    let why = "has not ended and may still be at work: its session, process";
    assert!(
        !good && reply.contains(why) && reply.contains("Wait until it has ended, or end that process"),
        "{reply}"
    );
    let ran = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
    ran.says(why).expect(4);
    exec(host, "test -e /srv/file");
    converge_tests::until("the step ends", 60, || host.exec("! pgrep -f 'sleep 2[5]'").unwrap().success());
    converge_tests::until("it is undone", 20, || undo(host).0);
    exec(host, "! test -e /srv/file");
}

/// One item of each kind that works at a path, below this directory.
fn items(dir: &str) -> Vec<(&'static str, String)> {
    let key =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3V1hQ8nP0a2uYxq8QJmVd5pP0mT0h8v7c2d0nqk3Zb m@example.org";
    vec![
        ("file", format!("{{path: {dir}/env.sh, content: \"id\\n\", owner: mallory}}")),
        ("directory", format!("{{path: {dir}/made, owner: mallory}}")),
        ("link", format!("{{path: {dir}/linked, target: /etc}}")),
        ("line", format!("{{path: {dir}/known, line: added, owner: mallory}}")),
        ("block", format!("{{path: {dir}/known, block: added}}")),
        ("structured", format!("{{path: {dir}/known.json, create: true, set: {{/a: 1}}}}")),
        ("absent", format!("{{path: {dir}/known}}")),
        ("absent", format!("{{path: {dir}/more, recursive: true}}")),
        ("authorized_key", format!("{{user: mallory, key: {key}, path: {dir}/keys}}")),
        (
            "download",
            format!("{{url: \"http://127.0.0.1:1/x\", path: {dir}/got, checksum: \"sha256:{:064}\"}}", 0),
        ),
        ("archive", format!("{{on_host: /srv/x.tgz, path: {dir}, owner: mallory}}")),
        (
            "git",
            format!("{{repo: /srv/none.git, dest: {dir}/checkout, version: \"{:040}\", user: mallory}}", 0),
        ),
        ("mount", format!("{{path: {dir}/mounted, fstype: tmpfs}}")),
        ("swap", format!("{{path: {dir}/swapped, size: 1M}}")),
    ]
}

/// The files of root that paths of a user could lead to.
fn roots(host: &Host) -> String {
    exec(
        host,
        "cd / && find etc/profile.d etc/victim root/.ssh -printf '%p %y %U %G %m %l\\n' | sort; \
         find etc/profile.d etc/victim root/.ssh -type f -exec sha256sum {} + | sort; stat -c %h:%U:%a /etc/shadow",
    )
}

/// Not by the host when half of it is made, after which every plan would be an error.
fn what_the_run_makes_below_a_users_directory_is_refused_by_the_plan(world: &World) {
    exec(
        &world.hosts()[0],
        "mkdir -p /srv/tree/sub && echo x >/srv/tree/sub/a && tar -czf /srv/tree.tgz -C /srv tree && mkdir -p /srv/given/sub \
         && echo x >/srv/given/sub/there && ln -s /home/mallory /srv/to-mallory && mkdir /srv/shown",
    );
    const GIVEN: &str = "directory: {path: /srv/given, owner: mallory}";
    const OUT: &str = "link: {path: /home/mallory/out, target: /srv}";
    const IN: &str = "link: {path: /srv/in, target: /home/mallory}";
    let crossed = "will belong to root and lies in a directory of mallory";
    let given = "/srv/given/sub will belong to root and lies in a directory of mallory";
    let linked = "/home/mallory/out is a link below /home/mallory";
    let commit = format!("{:040}", 7);
    let git =
        format!("git: {{repo: /srv/none.git, dest: /home/mallory/app/checkout, version: \"{commit}\"}}");
    let cases: &[(&[&str], &str)] = &[
        (&["archive: {on_host: /srv/tree.tgz, path: /home/mallory/app}"], crossed),
        (
            &[
                "directory: {path: /home/mallory/app/made}",
                "directory: {path: /home/mallory/app/made/a/b, parents: true}",
            ],
            crossed,
        ),
        (&[&git], "others than root may write to /home/mallory, where a checkout of root is not done"),
        (
            &[
                "directory: {path: /srv/theirs, owner: mallory}",
                "mount: {path: /srv/theirs/m, fstype: tmpfs, boot: false}",
            ],
            "others than root may write to /srv/theirs, where mounting is not done",
        ),
        // Below a directory that the run gives away before.
        (&[GIVEN, "file: {path: /srv/given/sub/new, content: x}"], given),
        (&[GIVEN, "line: {path: /srv/given/sub/there, line: y}"], given),
        (&[GIVEN, "absent: {path: /srv/given/sub/there}"], given),
        (&[GIVEN, "directory: {path: /srv/given/sub/a/b, parents: true}"], given),
        (&[GIVEN, "link: {path: /srv/given/sub/l, target: /srv}"], given),
        (&[GIVEN, "archive: {on_host: /srv/tree.tgz, path: /srv/given/sub}"], given),
        // And after: what the run has made there could not be looked at any more.
        (&["file: {path: /srv/given/sub/new, content: x}", GIVEN], given),
        // Through a link in a user's directory, which the run makes.
        (&[OUT, "file: {path: /home/mallory/out/f, content: x}"], linked),
        (&[OUT, "archive: {on_host: /srv/tree.tgz, path: /home/mallory/out/shown}"], linked),
        // Through a link of root's into a user's directory: one of the host, and one that the run makes.
        (
            &[&git.replace("/home/mallory/app", "/srv/to-mallory")],
            "others than root may write to /home/mallory,",
        ),
        (&[IN, &git.replace("/home/mallory/app", "/srv/in")], "others than root may write to /home/mallory,"),
        (
            &[IN, "mount: {path: /srv/in/m, fstype: tmpfs, boot: false}"],
            "/home/mallory/m: others than root may write to a directory above it, where mounting is not done",
        ),
        (
            &["mount: {path: /srv/shown, source: /srv/to-mallory/app, fstype: bind, boot: false}"],
            "others than root may write to /home/mallory, where taking something to be mounted is not done",
        ),
        (
            &[IN, "swap: {path: /srv/in/swap, size: 1MiB}"],
            "others than root may write to /home/mallory, where swapping is not done",
        ),
    ];
    let mut missed = Vec::new();
    for (items, why) in cases {
        let lines = items.iter().enumerate().map(|(n, item)| format!("  - name: n{n}\n    {item}\n"));
        world.only_role("mallory", &format!("resources:\n{}", lines.collect::<String>())).unwrap();
        let planned = world.converge(&["plan", "hosts.yaml"]).unwrap();
        if !planned.all().contains("1 error") || !planned.all().contains(why) {
            missed.push(format!("{items:?} ({why}): {}", planned.all()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A user who puts links and directories of others on a path that root works on gains nothing by it.
fn the_paths_of_a_user_lead_nowhere(world: &World) {
    let host = &world.hosts()[0];
    exec(
        host,
        "useradd -m mallory && tar -czf /srv/x.tgz -C /etc hostname && mkdir -p /root/.ssh /etc/victim/conf && echo known >/etc/victim/conf/known \
         && su mallory -c 'mkdir ~/app && ln -s /root/.ssh ~/.ssh && ln -s /etc/profile.d ~/app/conf && ln -s /etc/victim ~/app/v'",
    );
    let before = roots(host);
    let key =
        "key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3V1hQ8nP0a2uYxq8QJmVd5pP0mT0h8v7c2d0nqk3Zb m@example.org";
    let role = |kind: &str, item: &str| format!("resources:\n  - name: it\n    {kind}: {item}\n");
    let refused = |kind: &str, item: &str, why: &str| {
        world.only_role("mallory", &role(kind, item)).unwrap();
        let planned = world.converge(&["plan", "hosts.yaml"]).unwrap();
        let reply = planned.all();
        assert!(reply.contains(why) || reply.contains("others than root may write"), "{kind}: {reply}");
        let applied = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap();
        assert_ne!(applied.code, Some(0), "{kind}: {}", applied.all());
        assert_eq!(roots(host), before, "{kind}: {}", applied.all());
    };
    refused(
        "authorized_key",
        &format!("{{user: mallory, {key}}}"),
        "/home/mallory/.ssh is a link (owner mallory)",
    );
    for (kind, item) in items("/home/mallory/app/conf") {
        refused(kind, &item, "conf is a link (owner mallory)");
    }
    // Root's own link, and root's own directory that a user has moved into his home: neither is followed.
    exec(host, "rm /home/mallory/app/conf && ln -s /etc/profile.d /home/mallory/app/conf");
    refused("file", "{path: /home/mallory/app/conf/env.sh, content: x}", "conf is a link (owner root)");
    exec(host, "rm /home/mallory/app/conf && mkdir /home/mallory/app/conf");
    refused(
        "file",
        "{path: /home/mallory/app/conf/env.sh, content: x}",
        "conf belongs to root and lies in a directory of mallory",
    );
    // Several names, and what would never end.
    exec(host, "ln /etc/shadow /home/mallory/app/hard && mkfifo /home/mallory/app/fifo");
    let before = roots(host);
    assert!(before.contains("2:root"), "{before}");
    let refused = |kind: &str, item: &str, why: &str| {
        world.only_role("mallory", &role(kind, item)).unwrap();
        let applied = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap();
        assert!(applied.code != Some(0) && applied.all().contains(why), "{kind}: {}", applied.all());
        assert_eq!(roots(host), before, "{kind}: {}", applied.all());
    };
    refused("file", "{path: /home/mallory/app/hard, owner: mallory}", "has 2 names");
    refused("line", "{path: /home/mallory/app/hard, line: x}", "has 2 names");
    refused("line", "{path: /home/mallory/app/fifo, line: x}", "fifo");

    // An unchanged home is managed, and comes back; one that was exchanged since is left alone by both forms of rollback.
    exec(
        host,
        "rm -r /home/mallory/app /home/mallory/.ssh && su mallory -c 'mkdir ~/app && echo old >~/app/kept && chmod 640 ~/app/kept'",
    );
    what_the_run_makes_below_a_users_directory_is_refused_by_the_plan(world);
    let home = "find /home/mallory -printf '%p %y %u %g %m %l\\n' | sort; cat /home/mallory/app/kept";
    let (roots_then, start) = (roots(host), exec(host, home));
    let honest = format!(
        "resources:\n  - name: key\n    authorized_key: {{user: mallory, {key}}}\n  \
         - name: conf\n    directory: {{path: /home/mallory/app/conf, owner: mallory, group: mallory}}\n  \
         - name: env\n    file: {{path: /home/mallory/app/conf/env.sh, content: \"id\\n\", owner: mallory}}\n  \
         - name: kept\n    line: {{path: /home/mallory/app/kept, line: added, mode: \"0600\"}}\n  \
         - name: by root\n    file: {{path: /home/mallory/app/roots, content: x}}\n"
    );
    for undo in ["sh /var/lib/converge/undo.sh", ""] {
        let go_back = || {
            if undo.is_empty() {
                let ran = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
                (ran.code == Some(0), ran.all())
            } else {
                let ran = host.exec(undo).unwrap();
                (ran.success(), ran.stdout + &ran.stderr)
            }
        };
        world.only_role("mallory", &honest).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
        world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
        exec(
            host,
            "cd /home/mallory && rm -rf /etc/victim && cp -a app /etc/victim && chown -R root:root /etc/victim && mkdir /etc/victim/ssh \
             && cp -a .ssh/. /etc/victim/ssh && su mallory -c 'mv ~/app ~/app.was && ln -s /etc/victim ~/app && mv ~/.ssh ~/ssh.was && ln -s /etc/victim/ssh ~/.ssh'",
        );
        let before = roots(host);
        let (good, reply) = go_back();
        assert_eq!(roots(host), before, "{reply}");
        assert!(!good, "{reply}");
        exec(
            host,
            "cd /home/mallory && rm app .ssh && mv app.was app && mv ssh.was .ssh && rm -rf /etc/victim/*",
        );
        let (good, reply) = go_back();
        assert!(good, "{reply}");
        assert_eq!(exec(host, home), start, "{reply}");
    }
    exec(host, "rm -rf /etc/victim && mkdir -p /etc/victim/conf && echo known >/etc/victim/conf/known");
    assert_eq!(roots(host), roots_then);
}

/// A run that was passed over, since all was as before it, keeps no older one from being undone.
#[test]
fn a_run_that_was_passed_over_is_not_in_the_way_of_an_older_one() {
    let world = World::new("passed", 1).unwrap();
    let host = &world.hosts()[0];
    for version in 1..=3 {
        let role = format!("resources:\n  - file: {{path: /srv/f, content: \"{version}\"}}\n");
        world.only_role("passed", &role).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    }
    exec(host, "printf 2 >/srv/f");
    for left in ["1", ""] {
        let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
        assert!(undone.success() && undone.stdout.contains("passed over"), "{undone:?}");
        assert_eq!(exec(host, "cat /srv/f 2>/dev/null || :"), left);
    }
    // The newest run put the file from 2 to 3; that it is absent now is nobody else's doing.
    assert_eq!(exec(host, "sh /var/lib/converge/undo.sh 2>&1"), "there is no run to undo");
}
