//! Directories and file systems in memory that hold something of others: a rollback and a prune leave them, and name what they hold.

use converge_tests::{World, exec};

const ROLE: &str = "
resources:
  - name: folder
    directory: {path: /srv/a}
  - name: point
    directory: {path: /mnt/a}
  - name: memory
    mount: {path: /mnt/a, source: tmpfs, fstype: tmpfs}
  - name: inside
    file: {path: /mnt/a/own, content: own}
";

#[test]
fn what_others_have_in_it_keeps_a_directory_and_a_file_system_in_memory() {
    let world = World::new("held", 1).unwrap();
    let host = &world.hosts()[0];
    let apply = || {
        world.only_role("held", ROLE).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    };
    let mounted = || exec(host, "grep -c ' /mnt/a tmpfs ' /proc/mounts || :") == "1";
    let rollback = || world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
    apply();
    exec(host, "echo F >/srv/a/foreign; echo F >/mnt/a/foreign");
    let left = rollback().expect(4);
    for named in ["it holds /srv/a/foreign", "it holds /mnt/a/foreign"] {
        assert!(left.all().contains(named), "{}", left.all());
    }
    assert!(mounted());
    assert_eq!(
        exec(host, "cat /srv/a/foreign /mnt/a/foreign; ls /mnt/a /srv/a"),
        "F\nF\n/mnt/a:\nforeign\n\n/srv/a:\nforeign"
    );
    exec(host, "rm /srv/a/foreign /mnt/a/foreign");
    rollback().expect(0);
    assert!(!mounted());
    assert_eq!(exec(host, "ls -d /srv/a /mnt/a 2>/dev/null || :"), "");
    // The same where no role declares it any more.
    apply();
    exec(host, "echo F >/srv/a/foreign; echo F >/mnt/a/foreign");
    world.only_role("held", "resources: []\n").unwrap();
    let prune = || {
        let prune = world.prune_all().unwrap();
        world.converge(&prune.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().all()
    };
    let said = prune();
    assert!(said.contains("it holds /srv/a/foreign") && said.contains("it holds /mnt/a/foreign"), "{said}");
    assert!(mounted());
    exec(host, "rm /srv/a/foreign /mnt/a/foreign");
    prune();
    assert!(!mounted());
    assert_eq!(exec(host, "ls -d /srv/a /mnt/a 2>/dev/null || :"), "");
}
