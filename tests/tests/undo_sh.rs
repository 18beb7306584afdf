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

/// What the role touches, in one text.
fn state(host: &Host) -> String {
    let script = "ls -A /etc/undone 2>&1; cat /etc/issue; command -v tree; id undone 2>&1; ls -d /home/undone 2>&1; \
        systemctl is-active undone; systemctl is-enabled undone 2>&1; ls /etc/systemd/system/undone.service 2>&1; true";
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
    // Nothing of it is ours any more.
    world.only_role("undone", "resources: []\n").unwrap();
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    assert!(!plan.all().contains("no longer declared"), "{}", plan.all());
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
}
