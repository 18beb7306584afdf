//! Between the plan and the transaction the files change that apt chooses by, or the packages that are installed.

use super::*;

/// A command of the run that writes this pin.
fn pin(package: &str) -> String {
    format!(
        "  - name: pin\n    command: {{run: \"printf 'Package: {package}\\\\nPin: version 1\\\\nPin-Priority: 1001\\\\n' >/etc/apt/preferences.d/made\", creates: /etc/apt/preferences.d/made, undo: rm /etc/apt/preferences.d/made}}\n"
    )
}

const NEEDS: &str = "  - name: needs\n    package: {name: t-needs}\n";
const A: &str = "  - name: a\n    package: {name: t-a}\n";

/// The plan says `t-ver 2`, as a dependency: a pin of the same run makes that another transaction, which is refused. Its neighbour is installed.
#[test]
fn a_pin_that_a_command_of_the_run_writes_is_not_overridden() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "made t-needs 1 'Depends: t-ver'; index; rm -f /etc/apt/preferences.d/made");
    roles(&world, &[("pin", &pin("t-ver")), ("needs", NEEDS), ("a", A)]);
    let ran = apply(&world);
    let found = packages(host);
    assert!(!found.contains("t-ver") && found.contains("t-a 1 installed"), "{found}\n{}", ran.all());
    ran.says("✗ refused  needs/needs").says("install t-ver 1 instead of 2").says("plan again").expect(4);
    apply(&world).expect(0);
    assert!(packages(host).contains("t-ver 1 installed"));
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    for _ in 0..2 {
        converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    }
    assert_eq!(packages(host), "t-old 1 installed");
    exec(host, "rm -f /etc/apt/preferences.d/made");
}

/// A pin of something else changes what apt chooses by, and not its choice.
#[test]
fn a_pin_of_another_package_leaves_the_transaction_as_planned() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "made t-needs 1 'Depends: t-ver'; index; rm -f /etc/apt/preferences.d/made");
    let gone = "  - name: gone\n    package: {name: t-old, state: absent, purge: true}\n";
    roles(&world, &[("pin", &pin("t-conf")), ("rest", &[NEEDS, gone, A].concat())]);
    apply(&world).expect(0);
    let found = packages(host);
    assert!(found.contains("t-ver 2 installed") && found.contains("t-a 1 installed"), "{found}");
    assert!(!found.contains("t-old"), "{found}");
    assert_eq!(transactions(host), 1);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(packages(host), "t-old 1 installed");
    assert_eq!(exec(host, "ls /etc/apt/preferences.d"), "");
}

/// A command of the run installs what the package conflicts with: apt would remove that.
#[test]
fn a_refused_transaction_says_what_apt_would_do_besides() {
    let world = world();
    let host = &world.hosts()[0];
    let held = "  - name: held\n    command: {run: \"apt-get -qq -y install t-held; touch /srv/held\", creates: /srv/held, undo: \"true\"}\n";
    roles(&world, &[("held", held), ("bars", "  - name: bars\n    package: {name: t-bars}\n")]);
    let ran = apply(&world).expect(4).says("✗ refused  bars/bars").says("so nothing was changed");
    ran.says("remove t-held, which is not planned").says("plan again");
    assert_eq!(packages(host), "t-held 1 installed\nt-old 1 installed");
}
