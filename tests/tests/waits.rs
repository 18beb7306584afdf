//! A host that waits for another one: it goes on when that one is ready, and ends at once when that will not come in this run.

use converge_tests::{World, exec};

/// h2 waits for what h1 makes; the deadline is longer than any test.
const ROLE: &str = r#"resources:
  - name: first
    when: inventory_hostname == 'h1'
    command: {run: "sleep 2; test ! -e /etc/broken && touch /etc/ready", creates: /etc/ready}
  - name: then
    when: inventory_hostname == 'h2'
    command:
      run: touch /etc/then
      creates: /etc/then
      waits_for: {host: h1, until: "test -e /etc/ready || { echo 'there is no /etc/ready' >&2; exit 3; }", timeout: 3600}
"#;

#[test]
fn a_wait_for_another_host_ends_with_the_work_there() {
    let world = World::new(&format!("t-waits-{}", std::process::id()), 2).unwrap();
    let (one, two) = (&world.hosts()[0], &world.hosts()[1]);
    world.only_role("waits", ROLE).unwrap();
    let apply = |more: &[&str]| world.converge(&[&["apply", "--yes", "hosts.yaml"], more].concat()).unwrap();
    let gave_none = "h1 did not provide leave to go on: there is no /etc/ready; this run makes no further request to that host";

    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("begins when h1 is ready");
    // The work there fails: the wait ends.
    exec(one, "touch /etc/broken");
    apply(&[]).expect(1).says(gave_none);
    assert!(!two.exec("test -e /etc/then").unwrap().success());
    // There is no work there in this run.
    apply(&["--limit", "h2"]).expect(1).says(gave_none);
    // It is waited for while the work goes on.
    exec(one, "rm /etc/broken");
    apply(&[]).expect(0).says("leave to go on of h1: there is no /etc/ready");
    exec(two, "test -e /etc/then");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    // It is ready, and not among the hosts of the run.
    exec(two, "rm /etc/then");
    apply(&["--limit", "h2"]).expect(0);
    exec(two, "test -e /etc/then");
}
