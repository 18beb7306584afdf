//! Packages that cannot come back, or go, without others that the runs are not about: known before the first change.

use super::*;

/// Reverts the newest run; with whether something of it is left.
fn back(world: &World, way: &str, is_left: bool) -> String {
    match way {
        "rollback" => {
            let code = if is_left { 4 } else { 0 };
            converge(world, &["rollback", "--yes", "hosts.yaml"]).expect(code).all()
        }
        _ => {
            let ran = world.hosts()[0].exec("sh /var/lib/converge/undo.sh 2>&1").unwrap();
            assert_eq!(ran.status, Some(i32::from(is_left)), "{}", ran.stdout);
            ran.stdout
        }
    }
}

const BOTH: &str = "  - name: a\n    package: {name: t-a}\n  - name: ver\n    package: {name: t-ver}\n";

/// A prune has removed a package, and somebody since what it depends on: it comes back when that has, and its neighbour at once.
#[test]
fn a_package_whose_dependency_has_gone_is_refused_in_the_plan_and_its_neighbour_comes_back() {
    for way in ["rollback", "undo.sh"] {
        let world = world();
        let host = &world.hosts()[0];
        exec(host, "apt-get -qq -y install t-lib >/dev/null 2>&1");
        roles(&world, &[("r", BOTH)]);
        apply(&world).expect(0);
        roles(&world, &[("r", "  []\n")]);
        converge(&world, &["apply", "--yes", "--prune=2", "hosts.yaml"]).expect(0);
        assert_eq!(packages(host), "t-lib 1 installed\nt-old 1 installed", "{way}");
        exec(host, "apt-get -qq -y purge t-lib >/dev/null 2>&1");
        if way == "rollback" {
            let plan = converge(&world, &["rollback", "hosts.yaml"]).all();
            assert!(!plan.contains("install t-a"), "{plan}");
        }
        let reply = back(&world, way, true);
        assert!(reply.contains("package:t-a") && reply.contains("install t-lib 1"), "{reply}");
        assert_eq!(packages(host), "t-old 1 installed\nt-ver 2 installed", "{way}: {reply}");
        exec(host, "apt-get -qq -y install t-lib >/dev/null 2>&1");
        let reply = back(&world, way, false);
        assert!(packages(host).starts_with("t-a 1 installed\nt-lib 1 installed"), "{way}: {reply}");
    }
}

/// Somebody has installed a package that needs one of the run's: `undo.sh` takes back what can go, as a rollback does.
#[test]
fn a_package_that_somebody_elses_needs_stays_and_its_neighbours_go() {
    for way in ["rollback", "undo.sh"] {
        let world = world();
        let host = &world.hosts()[0];
        roles(&world, &[("r", BOTH)]);
        apply(&world).expect(0);
        exec(host, "apt-get -qq -y install t-b >/dev/null 2>&1");
        let reply = back(&world, way, true);
        assert!(reply.contains("package:t-lib"), "{reply}");
        let there = "t-b 1 installed\nt-lib 1 installed\nt-old 1 installed\nt-lib auto";
        assert_eq!(packages(host), there, "{way}: {reply}");
        exec(host, "apt-get -qq -y purge t-b >/dev/null 2>&1");
        let reply = back(&world, way, false);
        assert_eq!(packages(host), "t-old 1 installed", "{way}: {reply}");
    }
}
