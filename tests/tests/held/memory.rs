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
                let said = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert_eq!(said.status, Some(1), "{case}: {}", said.stdout);
                assert!(said.stdout.contains("LEFT ALONE     mount:/mnt/a"), "{case}: {}", said.stdout);
            } else {
                // Only when the command has been undone, the host can tell.
                let code = if role == without { 4 } else { 1 };
                let said = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(code);
                assert!(said.all().contains(refused), "{case}: {}", said.all());
            }
            assert!(all().ends_with("\n1"), "{case}: {}", all());
            assert!(all().contains(":t") || all().contains(":ownt"), "{case}: {}", all());
            exec(host, undone);
            let said = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
            assert_eq!(all(), "0", "{case}: {}", said.all());
        }
    }
}
