//! A folder of records that is none, or not root's, or holds more than is read.

use super::*;

#[test]
fn records_that_are_not_roots_are_refused() {
    let world = world();
    let host = &world.hosts()[0];
    role(&world, FILES);
    for (damage, why) in [
        ("echo something >/var/lib/converge", "/var/lib/converge is not a directory: move it away"),
        (
            "ln -s /srv/nowhere /var/lib/converge",
            "/var/lib/converge is a link to /srv/nowhere, which is not there: make that directory, or remove the link",
        ),
        (
            "mkdir -m 700 /var/lib/converge; chown nobody /var/lib/converge",
            "/var/lib/converge belongs to nobody, who may have written what it holds: move it away, or, if you trust it: chown -R root:root",
        ),
    ] {
        exec(host, &format!("rm -rf /var/lib/converge /srv/second /srv/sick/*; {damage}"));
        plan(&world).says(why);
        let ran = apply(&world);
        assert!(!holds(host, "[ -e /srv/sick/first ]"), "{damage}: {}", ran.all());
        assert!(!ran.all().contains("root is needed") && !ran.all().contains("needs root"), "{}", ran.all());
        ran.says(why).expect(4);
        world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().says(why).expect(4);
    }
}

/// Lines that somebody has added to a journal: the host names the file, and goes on without it.
#[test]
fn a_journal_of_forged_lines_is_named() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -f /srv/second");
    role(&world, FILES);
    apply(&world).expect(0);
    exec(
        host,
        "cd /var/lib/converge/runs/*/ && awk 'BEGIN { for (i = 0; i < 200000; i++) print \"done\\t1\\tfile 644 root root 1 0123456789abcdef\" }' >>journal",
    );
    let run = exec(host, "ls /var/lib/converge/runs");
    for verb in ["plan", "rollback", "snapshots"] {
        let ran = world.converge(&[verb, "hosts.yaml"]).unwrap();
        let ran = ran.says(&format!("/var/lib/converge/runs/{run}/journal has 2000"));
        ran.says(&format!("remove /var/lib/converge/runs/{run} "));
    }
    plan(&world).expect(4);
    exec(host, "rm -r /var/lib/converge/runs/*");
    plan(&world).expect(0);
}
