//! File systems in memory, whose content is lost when they are unmounted.

use super::*;

/// A command beside them, of which nobody knows what it leaves in them.
const BESIDE_COMMAND: &str = "
resources:
  - name: folder
    directory: {path: /srv/a}
  - name: memory
    mount: {path: /mnt/a, source: tmpfs, fstype: tmpfs}
  - name: inner
    directory: {path: /mnt/a/d}
  - name: inside
    file: {path: /mnt/a/d/own, content: own}
  - name: fill
    command: {run: touch /srv/a/x /mnt/a/x, creates: /srv/a/x, undo: rm /srv/a/x /mnt/a/x}
";

#[test]
fn a_file_system_in_memory_is_not_lost_with_what_others_have_in_it() {
    let world = World::new("memory", 1).unwrap();
    let host = &world.hosts()[0];
    let without = BESIDE_COMMAND.split("  - name: fill").next().unwrap();
    let all = || {
        exec(
            host,
            "cd /; find srv/a mnt/a -type f 2>/dev/null | sort | xargs -r grep -H . || :; findmnt -n /mnt/a | wc -l",
        )
    };
    for (role, theirs, undone, refused) in [
        (BESIDE_COMMAND, "echo t >/srv/a/f; echo t >/mnt/a/f", "rm -f /srv/a/f /mnt/a/f", "/mnt/a/f"),
        (BESIDE_COMMAND, "echo t >/mnt/a/d/f", "rm /mnt/a/d/f", "/mnt/a/d/f"),
        (without, "echo t >/mnt/a/d/f", "rm /mnt/a/d/f", "/mnt/a/d/f"),
        (without, "echo t >>/mnt/a/d/own", "printf own >/mnt/a/d/own", "/mnt/a/d/own"),
    ] {
        for by_script in [false, true] {
            world.only_role("held", role).unwrap();
            world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
            exec(host, theirs);
            let case = format!("{theirs}, by script: {by_script}");
            if by_script {
                let reply = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert_eq!(reply.status, Some(1), "{case}: {}", reply.stdout);
                assert!(reply.stdout.contains("LEFT ALONE     mount:/mnt/a"), "{case}: {}", reply.stdout);
            } else {
                // Only when the command has been undone, the host can tell.
                let code = if role == without { 4 } else { 1 };
                let reply = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(code);
                assert!(reply.all().contains(refused), "{case}: {}", reply.all());
            }
            assert!(all().ends_with("\n1"), "{case}: {}", all());
            assert!(all().contains(":t") || all().contains(":ownt"), "{case}: {}", all());
            exec(host, undone);
            let reply = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
            assert_eq!(all(), "0", "{case}: {}", reply.all());
        }
    }
}

/// A role that takes the place of a file system in memory says that what it holds will be gone.
#[test]
fn a_plan_says_that_the_content_of_a_file_system_in_memory_will_be_gone() {
    let world = World::new("memory-gone", 1).unwrap();
    let host = &world.hosts()[0];
    let role = |source: &str, fstype: &str| {
        let text = format!(
            "resources:\n  - name: other\n    directory: {{path: /srv/other}}\n  \
             - name: memory\n    mount: {{path: /mnt/m, source: {source}, fstype: {fstype}}}\n"
        );
        world.only_role("held", &text).unwrap();
    };
    role("tmpfs", "tmpfs");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    // A size that it had not before goes only with a new mount.
    let options = || exec(host, "findmnt -n -o OPTIONS /mnt/m");
    let before = options();
    role("tmpfs", "tmpfs, options: [size=1m]");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert!(options().contains("size=1024k"), "{}", options());
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(options(), before);
    // An empty one comes back as it was.
    role("/srv/other", "bind");
    let planned = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert!(!planned.all().contains("in memory"), "{}", planned.all());
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(host, "findmnt -no FSTYPE /mnt/m"), "tmpfs");
    exec(host, "echo data >/mnt/m/theirs");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("what it holds in memory goes with it");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    // The file system comes back, empty: the plan had said so.
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(host, "findmnt -no FSTYPE /mnt/m; ls -A /mnt/m"), "tmpfs");
}
