//! A part of the host that cannot be written for a while.

use super::*;

#[test]
fn a_unit_that_stays_enabled_is_not_taken_for_restored() {
    let world = world();
    let host = &world.hosts()[0];
    let unit = "  - name: daemon
    unit:
      name: undone
      state: started
      enabled: true
      content: |
        [Service]
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=multi-user.target
";
    role(&world, unit);
    apply(&world).expect(0);
    let undo = || {
        let ran = host.exec("sh /var/lib/converge/undo.sh").unwrap();
        (ran.success(), ran.stdout + &ran.stderr)
    };
    exec(host, "mount --bind /etc /etc; mount -o remount,ro,bind /etc");
    let (done, reply) = undo();
    exec(host, "umount /etc");
    assert!(!done, "{reply}");
    let (done, reply) = undo();
    assert!(done, "{reply}");
    assert_eq!(exec(host, "find /etc/systemd/system -name 'undone*'"), "", "{reply}");
}
