//! Objects that go with what made them: with the command that wrote them, with the package that brought them.

use super::*;

const ROLE: &str = r##"resources:
  - name: folder
    directory: {path: /etc/mine}
  - name: made
    command: {run: echo one >/etc/mine/made, creates: /etc/mine/made, undo: rm -f /etc/mine/made}
  - name: edited
    line: {path: /etc/mine/made, line: two}
  - name: scheduler
    package: {name: cron}
  - name: its settings
    line: {path: /etc/default/cron, line: "# set by a role"}
  - name: it runs
    service: {name: cron, state: started, enabled: true}
  - name: a unit that a command writes
    command:
      run: |
        printf '%s\n' '[Service]' 'ExecStart=/bin/sleep infinity' '[Install]' 'WantedBy=multi-user.target' >/etc/systemd/system/slow.service
        systemctl daemon-reload
      creates: /etc/systemd/system/slow.service
      undo: rm -f /etc/systemd/system/slow.service; systemctl daemon-reload
  - name: the unit runs
    service: {name: slow, state: started, enabled: true}
"##;

/// The state of all that the role makes, read without converge.
fn state(host: &Host) -> String {
    exec(
        host,
        "cat /etc/mine/made /etc/default/cron 2>&1; dpkg-query -W -f '${db:Status-Abbrev}\n' cron 2>&1; \
         for unit in cron slow; do systemctl is-active $unit; systemctl is-enabled $unit 2>&1; done; \
         find /etc/systemd/system -name 'slow*'; true",
    )
}

/// Prunes all that is orphaned.
fn prune(world: &World) -> Ran {
    let refused = converge(world, &["apply", "--yes", "--prune=99", "--limit", "h1", "hosts.yaml"]).expect(4);
    let number = refused.stderr.split("write --prune=").nth(1).unwrap().split(' ').next().unwrap();
    converge(world, &["apply", "--yes", &format!("--prune={number}"), "--limit", "h1", "hosts.yaml"])
}

#[test]
fn what_goes_with_its_maker_is_pruned_once_and_comes_back_in_a_rollback() {
    let world = world();
    let host = &world.hosts()[0];
    playbook(&world, "makers");
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let before = state(host);
    role(&world, "makers", ROLE);
    on_h1(&["apply", "--yes"]).expect(0);
    on_h1(&["plan"]).expect(0);
    let made = state(host);
    for _ in 0..2 {
        role(&world, "makers", "resources: []\n");
        let pruned = prune(&world).expect(0);
        assert_eq!(state(host), before, "{}", pruned.all());
        let planned = on_h1(&["plan", "--prune"]).expect(0);
        assert!(!planned.all().contains("orphaned"), "{}", planned.all());
        let back = on_h1(&["rollback", "--yes"]).expect(0);
        assert_eq!(state(host), made, "{}", back.all());
        role(&world, "makers", ROLE);
        on_h1(&["plan"]).expect(0);
    }
    let back = on_h1(&["rollback", "--yes"]).expect(0);
    assert_eq!(state(host), before, "{}", back.all());
}
