//! The kind `snap` with Debian's snapd on a real host, whose store is a program that packs snaps: planned, applied, then unchanged; drift is detected
//! and corrected; another channel brings another revision, and a rollback the first one again.

use converge_tests::snaps::{offer_snapd, row};
use converge_tests::{Ran, World, exec};
use std::path::Path;

fn resource(attributes: &str) -> String {
    format!("  - name: hello\n    snap: {{name: hello, {attributes}}}\n")
}

#[test]
fn a_snap_of_snapd_is_installed_held_refreshed_and_rolled_back() {
    let world = World::new(&format!("snaps-{}", std::process::id()), 1).unwrap();
    let [host] = world.hosts() else { panic!("one host") };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("stand_ins/snap_store");
    let is_snapd =
        offer_snapd(world.lab(), host, &here.join("without"), &[("hello", &here.join("hello"))]).unwrap();
    let run = |arguments: &[&str], resource: Option<&str>| -> Ran {
        world.of_project("snaps", arguments, resource).unwrap()
    };
    let says = |version: &str, revision: &str| {
        if is_snapd {
            assert_eq!(exec(host, "/snap/bin/hello").trim(), format!("hello {version} of {revision}"));
            exec(host, "systemctl is-active snap.hello.sleeper && mountpoint -q /snap/hello/current/");
        }
    };

    let held = resource("channel: 1.0/stable, classic: true, hold: true");
    run(&["plan"], Some(&held)).expect(2).says("snap install hello (1.0/stable)");
    run(&["apply", "--yes"], None).expect(0);
    assert_eq!(row(host, "hello"), "hello 1.0 x1 1.0/stable - classic,held");
    says("1.0", "x1");
    run(&["plan"], None).expect(0).says("nothing to change");

    // Drift: of the hold, and of the snap itself.
    exec(host, "snap refresh --unhold hello");
    run(&["drift"], None).expect(2);
    run(&["apply", "--yes"], None).expect(0);
    assert_eq!(row(host, "hello"), "hello 1.0 x1 1.0/stable - classic,held");
    exec(host, "snap remove hello");
    run(&["plan"], None).expect(2).says("snap install hello (1.0/stable)");
    run(&["apply", "--yes"], None).expect(0);
    run(&["plan"], None).expect(0);
    says("1.0", "x1");

    // Another channel is another revision; the rollback takes the one that snapd has kept, and asks no store.
    run(&["plan"], Some(&resource("channel: 2.0/stable, classic: true, hold: true")))
        .expect(2)
        .says("snap refresh hello (2.0/stable)");
    run(&["apply", "--yes"], None).expect(0);
    assert_eq!(row(host, "hello"), "hello 2.0 x2 2.0/stable - classic,held");
    says("2.0", "x2");
    run(&["plan"], None).expect(0);
    run(&["rollback", "--yes"], None).expect(0);
    assert_eq!(row(host, "hello"), "hello 1.0 x1 1.0/stable - classic,held");
    says("1.0", "x1");
    run(&["plan"], Some(&held)).expect(0);

    // The snap's data goes with it: a removal is allowed by name.
    let gone = resource("state: absent");
    assert_ne!(run(&["apply", "--yes"], Some(&gone)).code, Some(0));
    run(&["apply", "--yes", "--allow-destroy", "snap:hello"], None).expect(0);
    run(&["plan"], None).expect(0);
    assert_eq!(row(host, "hello"), "");
    assert_eq!(exec(host, "ls -d /snap/hello /var/snap/hello 2>/dev/null || true"), "");

    // A snap that somebody has installed from a file tracks no channel and has a revision of this host's own. Both are kept.
    exec(
        host,
        "/opt/snap-store/hello 3.0/stable /root/hello.snap && snap install --dangerous --classic /root/hello.snap",
    );
    assert_eq!(row(host, "hello"), "hello 3.0 x1 - - classic");
    run(&["plan"], Some(&resource("classic: true"))).expect(0);
    run(&["apply", "--yes"], Some(&resource("hold: true"))).expect(0);
    assert_eq!(row(host, "hello"), "hello 3.0 x1 - - classic,held");
    run(&["rollback", "--yes"], None).expect(0);
    assert_eq!(row(host, "hello"), "hello 3.0 x1 - - classic");
    says("3.0", "x1");
}
