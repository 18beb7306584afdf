//! Reverts that cannot be made at once: the records are away, or the host takes no writes.

use super::*;

/// [`die_in_the_window`] when the steps are over: none writes records any more.
fn die_behind_the_steps(world: &World) {
    let controller = begin(world);
    until("the steps are over", 60, || {
        world.hosts()[0]
            .exec("grep -q '^done.*unit enabled active' /var/lib/converge/runs/*/journal")
            .is_ok_and(|o| o.success())
    });
    kill(controller);
}

/// Somebody moves the records away while a change waits for its confirmation: that is none.
#[test]
fn records_that_are_moved_away_confirm_nothing() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /var/lib/away /run/away");
    let moved = "mv /var/lib/converge /var/lib/away";
    // The controller is gone: the host reverts it from where the records are now.
    sshd(&world, "AllowUsers nobody", 15);
    die_behind_the_steps(&world);
    exec(host, moved);
    until("it is reverted", 60, || !has(host, "/etc/ssh/sshd_config.d/50-test.conf"));
    until("the switch is gone", 20, || !has(host, "/var/lib/away/switch"));
    nothing_behind(host);
    exec(host, "mv /var/lib/away /var/lib/converge");
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    plan.says("reverted by the host: sshd/setting");
    // The controller is there, and the change is a good one: the records go before it can say so.
    sshd(&world, "MaxAuthTries 3", 20);
    exec(
        host,
        &format!(
            "touch /root/.bashrc && cp /root/.bashrc /root/.bashrc.old && \
             {{ echo 'test ! -e /var/lib/converge/switch/armed || {moved}'; cat /root/.bashrc.old; }} > /root/.bashrc"
        ),
    );
    let ran = apply(&world);
    exec(host, "mv /root/.bashrc.old /root/.bashrc");
    ran.says("is neither confirmed nor reverted, and its records are gone").says("reverted").expect(5);
    assert!(
        !has(host, "/etc/ssh/sshd_config.d/50-test.conf")
            && !exec(host, "sshd -T").contains("maxauthtries 3")
    );
    nothing_behind(host);
    exec(host, "mv /var/lib/away /var/lib/converge");
    // They are on another disk, out of reach: the host waits for them, and no other run begins.
    exec(host, "rm -rf /var/lib/converge");
    sshd(&world, "AllowUsers nobody", 15);
    die_behind_the_steps(&world);
    exec(host, "cp -a /var/lib/converge /run/away && rm -rf /var/lib/converge; sleep 20");
    assert!(
        has(host, "/etc/ssh/sshd_config.d/50-test.conf")
            && has(host, "/etc/systemd/system/converge-switch.service")
    );
    // A person at the console lets us in, so that we can look.
    exec(host, "mv /etc/ssh/sshd_config.d/50-test.conf /root/bad && systemctl restart ssh");
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    plan.says("is neither confirmed nor reverted, and its records are gone from /var/lib/converge");
    apply(&world).expect(4).says("put that folder back, and the host reverts the change");
    assert!(!has(host, "/var/lib/converge"));
    exec(host, "mv /root/bad /etc/ssh/sshd_config.d/50-test.conf && cp -a /run/away /var/lib/converge");
    until("it is reverted", 60, || !has(host, "/etc/ssh/sshd_config.d/50-test.conf"));
    nothing_behind(host);
    exec(host, "rm -rf /run/away");
}

/// A revert that failed is tried again while its cause is there, then recorded.
#[test]
fn a_revert_that_fails_is_tried_again_until_its_cause_is_gone() {
    let world = world();
    let host = &world.hosts()[0];
    let drop_in = "/etc/systemd/system/converge-switch.service.d";
    let small = "umount -l /srv/small 2>/dev/null; mkdir -p /srv/small && mount -t tmpfs -o size=256k none /srv/small && echo old >/srv/small/conf";
    // The step after the change fails, and takes away what the revert needs.
    let declare = |step: &str| {
        let role = format!(
            "resources:\n  - name: conf\n    guard: network\n    guard_seconds: 12\n    file: {{path: /srv/small/conf, content: \"new\\n\"}}\n  \
             - name: load\n    command: {{run: \"{step}; false\", on_change: [conf]}}\n  \
             - name: after\n    file: {{path: /etc/apart, content: \"1\\n\"}}\n"
        );
        world.only_role("net", &role).unwrap();
    };
    for (step, cause, corrected) in [
        ("mount -o remount,ro /srv/small", "Read-only file system", "mount -o remount,rw /srv/small"),
        (
            "cat /dev/zero >/srv/small/fill 2>/dev/null",
            "cannot write its content (is the disk full?)",
            "rm /srv/small/fill",
        ),
    ] {
        clean(&world);
        exec(host, small);
        declare(step);
        let ran = apply(&world);
        assert!(!has(host, "/etc/apart"), "nothing else is done meanwhile: {}", ran.all());
        ran.says("net/conf")
            .says("the host could not revert it so far")
            .says(cause)
            .says("remove the cause")
            .expect(1);
        let plan = world.converge(&["plan", "hosts.yaml"]).unwrap();
        plan.says("was not confirmed: the host could not revert it so far").says(cause);
        apply(&world).expect(4).says("locked by the guarded change of run").says(cause);
        assert_eq!(exec(host, "cat /srv/small/conf"), "new");
        exec(host, corrected);
        until("it is reverted", 70, || exec(host, "cat /srv/small/conf") == "old");
        nothing_behind(host);
        assert!(!has(host, "/run/converge-switch"));
        let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
        plan.says("reverted by the host: net/conf");
    }
    // Not for ever: what the host gives up is named.
    clean(&world);
    exec(
        host,
        &format!(
            "{small}; mkdir -p {drop_in} && printf '[Service]\\nEnvironment=CV_REVERT_SECONDS=8\\n' >{drop_in}/test.conf; systemctl daemon-reload"
        ),
    );
    declare("mount -o remount,ro /srv/small");
    apply(&world).says("Read-only file system").expect(1);
    nothing_behind(host);
    exec(host, &format!("rm -r {drop_in}; systemctl daemon-reload"));
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap();
    plan.says("the automatic revert did not restore it (path:/srv/small/conf: ")
        .says("Read-only file system)): path:/srv/small/conf");
    exec(host, "umount -l /srv/small");
}
