//! Neighbouring items of packages on a real host, with a repository of made-up packages and the real apt: they are one
//! transaction, and each is reported, recorded and reverted by itself.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "packages/along.rs"]
mod along;
#[path = "packages/choice.rs"]
mod choice;
#[path = "packages/cut_off.rs"]
mod cut_off;
#[path = "packages/missing.rs"]
mod missing;
#[path = "packages/rpm.rs"]
mod rpm;
#[path = "packages/rpm_repositories.rs"]
mod rpm_repositories;
#[path = "packages/rpm_roles.rs"]
mod rpm_roles;

use converge_lab::Host;
use converge_tests::{Ran, World, exec, until_exec};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// One host for all tests here, one test at a time.
static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| {
    let world = World::new(&format!("packages-{}", std::process::id()), 1).unwrap();
    exec(&world.hosts()[0], PREPARE);
    Mutex::new(world)
});

/// `made NAME VERSION MORE POSTINST` makes a package, with a configuration file that holds CONF and scripts PRERM and POSTRM; `index` has apt read all of them.
const PREPARE: &str = r#"set -e
cat >/usr/local/bin/made <<'END'
#!/bin/sh -e
umask 022
mkdir -p /repo/files; d=$(mktemp -d); chmod 755 "$d"; mkdir -p "$d/DEBIAN"
printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: T <t@example.org>\nDescription: test\n' "$1" "$2" >"$d/DEBIAN/control"
[ -z "$3" ] || printf '%s\n' "$3" >>"$d/DEBIAN/control"
[ -z "$CONF" ] || { mkdir "$d/etc"; echo "$CONF" >"$d/etc/$1"; echo "/etc/$1" >"$d/DEBIAN/conffiles"; }
[ -z "$PRERM" ] || { printf '#!/bin/sh\n%s\n' "$PRERM" >"$d/DEBIAN/prerm"; chmod 755 "$d/DEBIAN/prerm"; }
[ -z "$POSTRM" ] || { printf '#!/bin/sh\n%s\n' "$POSTRM" >"$d/DEBIAN/postrm"; chmod 755 "$d/DEBIAN/postrm"; }
[ -z "$4" ] || { printf '#!/bin/sh\n%s\n' "$4" >"$d/DEBIAN/postinst"; chmod 755 "$d/DEBIAN/postinst"; }
dpkg-deb --root-owner-group -b "$d" "/repo/files/$1_$2_all.deb" >/dev/null; rm -r "$d"
END
cat >/usr/local/bin/index <<'END'
#!/bin/sh -e
cd /repo/files
for f in *.deb; do dpkg-deb -f $f; echo "Filename: ./$f"; echo "Size: $(stat -c %s $f)"; echo "SHA256: $(sha256sum $f | cut -c1-64)"; echo; done >Packages
apt-get -qq update -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/made.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
END
chmod 755 /usr/local/bin/made /usr/local/bin/index
echo 'deb [trusted=yes] file:/repo/files ./' >/etc/apt/sources.list.d/made.list
made t-a 1 'Depends: t-lib'
made t-b 1 'Depends: t-lib'
made t-old 1
made t-held 1
made t-bars 1 'Conflicts: t-held'
for v in 1 2; do made t-ver $v; CONF="of version $v" made t-conf $v; done
made t-bad 1 '' '[ -e /srv/mended ]'
made t-leans 1 'Depends: t-bad'
made t-scripts 1 '' 'useradd -r t-scripts; mkdir -p /srv/t-scripts; echo more >>/srv/t-own; echo 3 >/proc/sys/net/ipv4/conf/lo/rp_filter 2>/dev/null; echo 1 >/proc/sys/net/ipv4/conf/lo/rp_filter'
made t-slow 1 '' 'touch /srv/begun; while ! [ -e /srv/go ]; do sleep 0.1; done'
PRERM='touch /srv/begun; while ! [ -e /srv/go ]; do sleep 0.1; done' made t-goes 1 'Depends: t-lib'
POSTRM='touch /srv/begun; while ! [ -e /srv/go ]; do sleep 0.1; done' made t-lingers 1
made t-extra 1
made t-serves 1 'Recommends: t-extra' '[ ! -x /usr/sbin/policy-rc.d ] || /usr/sbin/policy-rc.d t-serves start || exit 0; touch /srv/serves'
"#;

/// A host without managed objects, with `t-old` installed.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    exec(
        &world.hosts()[0],
        "mkdir -p /srv; touch /srv/mended /srv/go; dpkg --configure -a; rm -f /repo/files/t-lib_*; made t-lib 1; index; \
         apt-mark -qq unhold 't-*' >/dev/null 2>&1; apt-get -qq -y purge 't-*' >/dev/null 2>&1; \
         rm -rf /var/lib/converge /srv/*; apt-get -qq -y install t-old >/dev/null 2>&1; : >/var/log/apt/history.log",
    );
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

fn converge(world: &World, args: &[&str]) -> Ran {
    world.converge(args).unwrap()
}

fn apply(world: &World) -> Ran {
    converge(world, &["apply", "--yes", "hosts.yaml"])
}

/// Roles that nothing orders, in this order.
fn roles(world: &World, roles: &[(&str, &str)]) {
    let names: Vec<&str> = roles.iter().map(|(name, _)| *name).collect();
    for (name, items) in roles {
        world.write(&format!("roles/{name}/role.yaml"), &format!("resources:\n{items}")).unwrap();
    }
    world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{}]\n", names.join(", "))).unwrap();
}

/// Versions, marks and holds of all that is made up here.
fn packages(host: &Host) -> String {
    exec(
        host,
        "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' 't-*' 2>/dev/null | grep -v not-installed; apt-mark showauto | grep '^t-' | sed 's/$/ auto/'; \
         apt-mark showhold; true",
    )
}

/// Transactions of apt since the test began.
fn transactions(host: &Host) -> u32 {
    exec(host, "grep -c ^Start-Date /var/log/apt/history.log || true").parse().unwrap()
}

/// The items in the journal of the only run, each with how its rows ended.
fn ends(host: &Host) -> String {
    exec(
        host,
        r#"awk -F '\t' '$1 == "begin" { item[$2] = $7 } $1 == "done" || $1 == "off" || $1 == "failed" { print item[$2], $1 }' /var/lib/converge/runs/*/journal | sort | uniq -c | sed 's/^ *//'"#,
    )
}

const FIVE: &str = r#"  - name: a
    package: {name: t-a}
  - name: b
    package: {name: t-b}
  - name: held
    package: {name: t-held, hold: true}
  - name: pinned
    package: {name: t-ver, version: "1"}
  - name: gone
    package: {name: t-old, state: absent, purge: true}
"#;

#[test]
fn neighbours_are_one_transaction_with_records_of_their_own_and_go_back_as_one() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let unit = "  - name: unit\n    unit: {name: t-unit, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started, restart_on: [pinned]}\n";
    for way in ["rollback", "undo.sh"] {
        exec(host, ": >/var/log/apt/history.log");
        roles(&world, &[("r", &format!("{FIVE}{unit}"))]);
        let ran = apply(&world).expect(0);
        for item in ["a", "b", "held", "pinned", "gone"] {
            assert_eq!(ran.stdout.matches(&format!("✓ changed  r/{item} ")).count(), 1, "{}", ran.stdout);
        }
        assert_eq!(transactions(host), 1, "{}", ran.stdout);
        let made = "t-a 1 installed\nt-b 1 installed\nt-held 1 installed\nt-lib 1 installed\nt-ver 1 installed\nt-lib auto\nt-held";
        assert_eq!(packages(host), made);
        if way == "rollback" {
            let each = "2 r/a done\n1 r/b done\n1 r/gone done\n1 r/held done\n1 r/pinned done";
            assert!(ends(host).starts_with(each), "{}", ends(host));
        }
        converge(&world, &["plan", "hosts.yaml"]).expect(0);
        match way {
            "rollback" => drop(converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(packages(host), before, "{way}");
        exec(host, "rm -rf /var/lib/converge");
    }
    // An item that restarts on one item does not restart on its neighbour.
    roles(&world, &[("r", &format!("{FIVE}{unit}"))]);
    apply(&world).expect(0);
    let invocation = || exec(host, "systemctl show -P InvocationID t-unit");
    let first = invocation();
    exec(host, "apt-get -qq -y purge t-a t-b >/dev/null 2>&1");
    apply(&world).expect(0);
    assert_eq!(invocation(), first);
    let newer = FIVE.replace("\"1\"", "\"2\"").replace("hold: true", "hold: false");
    roles(&world, &[("r", &format!("{newer}{unit}"))]);
    apply(&world).expect(0);
    assert_ne!(invocation(), first);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    exec(host, "systemctl stop t-unit; rm /etc/systemd/system/t-unit.service; systemctl daemon-reload");
}

#[test]
fn what_stands_between_or_is_left_out_decides_who_are_neighbours() {
    let world = world();
    let host = &world.hosts()[0];
    let item = |name: &str, tag: &str| {
        format!("  - name: {name}\n    tags: [{tag}]\n    package: {{name: t-{name}}}\n")
    };
    let file = "  - name: file\n    tags: [y]\n    file: {path: /srv/between, content: x}\n";
    let role = [item("a", "x"), file.to_owned(), item("b", "x")].concat();
    roles(&world, &[("r", &role)]);
    apply(&world).expect(0);
    assert_eq!(transactions(host), 2, "a file stands between them");
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    exec(host, ": >/var/log/apt/history.log; rm -rf /srv/* /var/lib/converge");
    converge(&world, &["apply", "--yes", "--tags", "x", "hosts.yaml"]).expect(0);
    assert_eq!((transactions(host), exec(host, "ls /srv")), (1, String::new()));
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    // Two roles as one transaction, of which one goes back; what both need stays with the other.
    exec(host, ": >/var/log/apt/history.log; rm -rf /srv/* /var/lib/converge");
    roles(&world, &[("one", &item("a", "x")), ("two", &item("b", "x"))]);
    apply(&world).expect(0);
    assert_eq!(transactions(host), 1);
    converge(&world, &["rollback", "--yes", "--role", "two", "hosts.yaml"]).expect(0);
    assert_eq!(packages(host), "t-a 1 installed\nt-lib 1 installed\nt-old 1 installed\nt-lib auto");
    converge(&world, &["apply", "--yes", "--role", "two", "hosts.yaml"]).expect(0);
    converge(&world, &["rollback", "--yes", "--role", "two", "hosts.yaml"]).expect(0);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(packages(host), "t-old 1 installed");
}

#[test]
fn one_that_apt_refuses_is_named_and_its_neighbours_are_installed() {
    let world = world();
    let host = &world.hosts()[0];
    let one = |name: &str| format!("  - name: it\n    package: {{name: {name}}}\n");
    // The plan knows it: what it conflicts with is held.
    exec(
        host,
        "apt-get -qq -y install t-held >/dev/null 2>&1; apt-mark -qq hold t-held; : >/var/log/apt/history.log",
    );
    roles(&world, &[("one", &one("t-a")), ("two", &one("t-bars")), ("three", &one("t-ver=1"))]);
    let ran = apply(&world);
    assert_eq!(transactions(host), 1, "{}", ran.all());
    ran.says("two/it").says("t-held").expect(1);
    let found = packages(host);
    assert!(found.contains("t-a 1 installed") && found.contains("t-ver 1 installed"), "{found}");
    assert!(!found.contains("t-bars"), "{found}");
    exec(
        host,
        "apt-get -qq -y purge t-a t-lib t-ver >/dev/null 2>&1; rm -rf /var/lib/converge; : >/var/log/apt/history.log",
    );
    // Only the moment knows it: a library has another version by then.
    let moves = "  - name: moves\n    command: {run: \"rm /repo/files/t-lib_*; made t-lib 2; index; touch /srv/moved\", creates: /srv/moved, undo: \"true\"}\n";
    roles(
        &world,
        &[("zero", moves), ("one", &one("t-ver=1")), ("two", &one("t-a")), ("three", &one("t-bad"))],
    );
    exec(host, "touch /srv/mended");
    let ran = apply(&world);
    ran.says("✗ refused  two/it").says("install t-lib 2 instead of 1").says("plan again").expect(4);
    let found = packages(host);
    assert!(found.contains("t-bad 1 installed") && found.contains("t-ver 1 installed"), "{found}");
    assert!(!found.contains("t-a") && !found.contains("t-lib"), "nothing but what was planned: {found}");
    assert_eq!(transactions(host), 2, "each by itself");
}

#[test]
fn after_a_failed_script_each_package_is_reported_and_the_next_run_completes_it() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let item = |name: &str| format!("  - name: {name}\n    package: {{name: t-{name}}}\n");
    let held = "  - name: held\n    package: {name: t-held, hold: true}\n";
    let file = "  - name: after\n    file: {path: /srv/after, content: x}\n";
    roles(
        &world,
        &[("r", &[&item("a"), &item("bad"), &item("leans"), held, file].map(ToString::to_string).concat())],
    );
    // The third needs what the second fails to configure.
    let ran = apply(&world).expect(1);
    let all = ran.all();
    for (what, times) in [
        ("✓ changed  r/a ", 1),
        ("✗ failed  r/bad ", 1),
        ("✗ failed  r/leans ", 1),
        ("✓ changed  r/held ", 1),
        ("error exit status 1", 1),
        // As the message of that item, in its place and in the end.
        ("E: Sub-process", 2),
    ] {
        assert_eq!(all.matches(what).count(), times, "{what}: {all}");
    }
    let found = packages(host);
    assert!(found.contains("t-bad 1 half-configured") && found.ends_with("t-held"), "{found}");
    assert!(!host.exec("test -e /srv/after").unwrap().success(), "it stands on what failed: {all}");
    exec(host, "touch /srv/mended");
    apply(&world).expect(0);
    assert!(packages(host).contains("t-leans 1 installed"));
    exec(host, "test -e /srv/after");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    let first = exec(host, "ls /var/lib/converge/runs | head -n 1");
    converge(&world, &["rollback", "--yes", "--to", &first, "hosts.yaml"]).expect(0);
    assert_eq!(packages(host), before);
}

#[test]
fn what_a_failed_script_leaves_of_a_package_goes_with_the_rollback() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    roles(&world, &[("r", "  - name: leans\n    package: {name: t-leans}\n")]);
    for way in ["rollback", "undo.sh"] {
        exec(host, "rm -f /srv/mended");
        apply(&world).expect(1);
        assert!(packages(host).contains("t-bad 1 half-configured"), "{}", packages(host));
        match way {
            "rollback" => drop(converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(packages(host), before, "{way}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// dpkg writes its own configuration file beside an edited one, at the upgrade and again at the downgrade of the rollback. Both go with the
/// rollback; one that a user has edited, or that was there before, stays.
#[test]
fn what_dpkg_lays_beside_an_edited_file_goes_with_the_rollback() {
    let world = world();
    let host = &world.hosts()[0];
    let beside = || exec(host, "cat /etc/t-conf.dpkg-dist 2>/dev/null; true");
    let upgrade = "  - name: conf\n    package: {name: t-conf, version: \"2\"}\n";
    let cases = [
        ("true", "true", ""),
        ("true", "rm /etc/t-conf.dpkg-dist", ""),
        ("true", "echo mine >/etc/t-conf.dpkg-dist", "of version 1"),
        ("echo older >/etc/t-conf.dpkg-dist", "true", "of version 1"),
    ];
    for (way, (before, during, left)) in
        ["rollback", "undo.sh"].into_iter().flat_map(|way| cases.map(|case| (way, case)))
    {
        exec(
            host,
            &format!(
                "apt-get -qq -y purge t-conf >/dev/null 2>&1; rm -rf /etc/t-conf.* /var/lib/converge; \
                 apt-get -qq -y install t-conf=1 >/dev/null 2>&1; echo edited >/etc/t-conf; {before}"
            ),
        );
        roles(&world, &[("r", upgrade)]);
        apply(&world).expect(0).says("r/conf: kept the edited /etc/t-conf; the package's is beside it");
        assert_eq!(beside(), "of version 2", "{before}, {during}");
        exec(host, during);
        match way {
            "rollback" => drop(converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(exec(host, "cat /etc/t-conf; dpkg-query -W -f '${Version}' t-conf"), "edited\n1");
        assert_eq!(beside(), left, "{way}: {before}, {during}");
    }
}

/// A package's script changes files that earlier items of the run made: that is of the run, and goes back with it.
#[test]
fn what_a_script_does_to_an_earlier_item_goes_back_with_the_run() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "made t-adds 1 '' 'echo added >>/etc/b36.conf; echo added >>/etc/b37.conf'; index");
    let items = "  - name: new\n    file: {path: /etc/b36.conf, content: \"ours\\n\"}\n  - name: line\n    line: {path: /etc/b37.conf, line: ours}\n  \
                 - name: adds\n    package: {name: t-adds}\n";
    for way in ["rollback", "undo.sh"] {
        exec(host, "echo older >/etc/b37.conf; rm -rf /etc/b36.conf /var/lib/converge");
        roles(&world, &[("r", items)]);
        apply(&world).says("3 changed");
        assert_eq!(exec(host, "cat /etc/b36.conf /etc/b37.conf"), "ours\nadded\nolder\nours\nadded");
        match way {
            "rollback" => drop(converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(
            exec(host, "cat /etc/b37.conf; ls /etc/b36.conf 2>&1 | grep -c 'No such'"),
            "older\n1",
            "{way}"
        );
    }
}

/// A directory that a package of the same run brings is removed behind it, in the first run.
#[test]
fn a_directory_that_a_package_brings_is_removed_in_the_same_run() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "made t-brings 1 '' 'mkdir -p /opt/samples/deep; touch /opt/samples/one /opt/samples/deep/two'; index",
    );
    let items = "  - name: brings\n    package: {name: t-brings}\n  - name: none\n    absent: {path: /opt/samples, recursive: true}\n";
    roles(&world, &[("r", items)]);
    apply(&world).expect(0).says("2 changed");
    assert_eq!(exec(host, "ls /opt"), "");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(exec(host, "find /opt; dpkg-query -W t-brings 2>&1 | grep -c 'no packages'"), "/opt\n1");
}

/// The scripts of a package make what no record knows: the plan of the rollback says that it stays. A file of an item that they changed goes.
#[test]
fn a_rollback_says_that_what_scripts_of_packages_have_made_stays() {
    let world = world();
    let host = &world.hosts()[0];
    let note =
        "what scripts of packages have set or made besides stays: users, directories, kernel parameters";
    let rp_filter = || exec(host, "cat /proc/sys/net/ipv4/conf/lo/rp_filter");
    roles(
        &world,
        &[(
            "r",
            "  - name: own\n    file: {path: /srv/t-own, content: \"a\\n\"}\n  - name: package\n    package: {name: t-scripts}\n",
        )],
    );
    // The script has changed the file, and the run tells it.
    apply(&world).expect(1).says("path:/srv/t-own differs from the plan");
    assert_eq!(exec(host, "cat /srv/t-own"), "a\nmore");
    let set = rp_filter();
    let plan = converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0).says(note);
    assert_eq!(plan.stdout.matches(note).count(), 1, "{}", plan.stdout);
    assert_eq!(exec(host, "ls /srv; dpkg -s t-scripts >/dev/null 2>&1 || echo gone"), "t-scripts\ngone");
    assert_eq!(exec(host, "id -un t-scripts"), "t-scripts");
    assert_eq!(rp_filter(), set, "as the script has set it");
    exec(host, "userdel t-scripts");
    // Where no package goes, there is nothing to say.
    roles(&world, &[("r", "  - name: own\n    file: {path: /srv/t-own, content: \"a\\n\"}\n")]);
    apply(&world).expect(0);
    let plan = converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert!(!plan.all().contains("what scripts of packages"), "{}", plan.all());
}

/// A dependency that a package of another project needs stays with its run, and goes when nothing needs it any more.
#[test]
fn a_dependency_that_another_project_needs_goes_when_nothing_needs_it_any_more() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let install = || {
        for (project, package) in [("pa", "t-a"), ("pb", "t-b")] {
            let file = format!("{project}.yaml");
            world.write(&file, &world.inventory(&format!("converge_project: {project}"))).unwrap();
            roles(&world, &[("r", &format!("  - package: {{name: {package}}}\n"))]);
            converge(&world, &["apply", "--yes", &file]).expect(0);
        }
    };
    let needed = "package:t-lib: the package t-b needs it";
    install();
    let rollback = |file: &str, code| converge(&world, &["rollback", "--yes", file]).expect(code);
    rollback("pa.yaml", 4).says(needed);
    rollback("pb.yaml", 0);
    rollback("pa.yaml", 0);
    assert_eq!(packages(host), before);
    // A prune leaves it too, says so when nothing is left for which it came, and takes it when it can.
    install();
    roles(&world, &[("r", "  []\n")]);
    let prune = |file: &str| converge(&world, &["apply", "--yes", "--prune=1", file]);
    prune("pa.yaml").expect(0);
    prune("pa.yaml").expect(4).says(needed);
    prune("pb.yaml").expect(0);
    prune("pa.yaml").expect(0).says("t-lib");
    assert_eq!(packages(host), before);
    converge(&world, &["plan", "--prune", "pa.yaml"]).expect(0);
}

/// A package whose script failed in one run and that the next one has settled is the runs' own: it goes with the first of them.
#[test]
fn a_package_that_a_second_run_has_settled_goes_with_the_first() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let role =
        "  - package: {name: t-leans}\n  - package: {name: t-a}\n  - file: {path: /srv/after, content: x}\n";
    roles(&world, &[("r", role)]);
    for way in ["rollback", "undo.sh"] {
        exec(host, "rm -f /srv/mended");
        apply(&world).expect(1);
        exec(host, "touch /srv/mended");
        apply(&world).expect(0);
        assert!(packages(host).contains("t-leans 1 installed"), "{}", packages(host));
        let mut reply = String::new();
        for _ in 0..3 {
            let ran = match way {
                "rollback" => converge(&world, &["rollback", "--yes", "hosts.yaml"]).all(),
                _ => {
                    let ran = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                    ran.stdout + &ran.stderr
                }
            };
            reply = reply + "\n--\n" + &ran;
        }
        assert_eq!(packages(host), before, "{way}: {reply}");
        assert!(!reply.contains("someone else"), "{reply}");
        assert!(!host.exec("test -e /srv/after").unwrap().success());
        exec(host, "rm -rf /var/lib/converge");
    }
}
