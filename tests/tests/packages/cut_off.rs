//! Transactions of packages that are cut off.

use super::*;

#[test]
fn a_transaction_that_was_cut_off_is_completed_by_the_next_run() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let item = |name: &str| format!("  - name: {name}\n    package: {{name: t-{name}}}\n");
    roles(&world, &[("r", &["a", "slow", "ver"].map(item).concat())]);
    for way in ["kill -9", "power"] {
        let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until_exec(host, 60, "test -e /srv/begun");
        if way == "power" {
            host.kill().unwrap();
        }
        assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        if way == "power" {
            host.start().unwrap();
            until_exec(host, 60, "test -d /srv");
            exec(host, "mkdir -p /srv; touch /srv/begun");
        }
        let plan = converge(&world, &["plan", "hosts.yaml"]).expect(2).says("did not end");
        assert!(plan.stdout.contains("unknown: r/a") && plan.stdout.contains("r/ver"), "{}", plan.stdout);
        assert!(!plan.stdout.contains("not begun"), "all of it had begun: {}", plan.stdout);
        exec(host, "touch /srv/go");
        until_exec(host, 60, "flock -n /var/lib/converge/lock true");
        apply(&world).expect(0).says("did not end");
        let made =
            "t-a 1 installed\nt-lib 1 installed\nt-old 1 installed\nt-slow 1 installed\nt-ver 2 installed";
        // Marks come last in a transaction: the power cut takes that of the library.
        let mark = if way == "power" { "" } else { "\nt-lib auto" };
        assert_eq!(packages(host), format!("{made}{mark}"), "{way}");
        assert!(!converge(&world, &["plan", "hosts.yaml"]).expect(0).all().contains("did not end"));
        converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(packages(host), before, "{way}");
        exec(host, "rm -rf /var/lib/converge /srv/*");
    }
}

/// The shell of the run's session on the host ends with all that it has started, as by a kill of its session: the script of a package too. A
/// process may end by itself between its listing and its kill.
const KILL_SESSION: &str = r#"
all() { for child in $(cat /proc/$1/task/*/children 2>/dev/null); do all $child; done; echo $1; }
for session in /var/lib/converge/runs/*/alive/session; do
  read -r pid _ <"$session"
  for process in $(all $pid); do kill -KILL $process 2>/dev/null || ! kill -0 $process 2>/dev/null; done
done"#;

/// A file below and one above two packages, of which the second waits while it is removed.
const GOES: &str = "  - name: below\n    file: {path: /srv/below, content: \"1\\n\"}\n  \
     - name: a\n    package: {name: t-a}\n  - name: goes\n    package: {name: t-goes}\n  \
     - name: above\n    file: {path: /srv/above, content: \"2\\n\"}\n";

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Runs a command that removes `t-goes`, and cuts it off in the script of that package.
fn cut_off(world: &World, host: &Host, args: &[&str], what: &str) {
    cut_off_in(world, host, args, what, "t-goes 1 half-configured");
}

/// Runs a command that removes a package, and cuts it off in the script of that package, which is left in this state.
fn cut_off_in(world: &World, host: &Host, args: &[&str], what: &str, left: &str) {
    exec(host, "rm -f /srv/go /srv/begun");
    let mut command = world.command(args).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_exec(host, 60, "test -e /srv/begun");
    match what {
        "power" => host.kill().unwrap(),
        _ => drop(exec(host, KILL_SESSION)),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    if what == "power" {
        host.start().unwrap();
        until_exec(host, 60, "test -d /srv");
    }
    assert!(packages(host).contains(left), "{what}: {}", packages(host));
    exec(host, "touch /srv/go");
    until_exec(host, 60, "flock -n /var/lib/converge/lock true");
}

/// A rollback and a prune are cut off while a package is removed: the next command ends where they would have ended.
#[test]
fn a_rollback_or_prune_that_was_cut_off_in_a_package_is_completed_by_the_next() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    for (what, prunes) in [("power", false), ("power", true), ("session", false), ("session", true)] {
        let case = format!("{what}, prunes {prunes}");
        roles(&world, &[("r", GOES)]);
        apply(&world).expect(0);
        assert!(packages(host).contains("t-goes 1 installed"), "{}", packages(host));
        if prunes {
            world.write("roles/r/role.yaml", "resources: []\n").unwrap();
        }
        let way = || match prunes {
            true => world.prune_all().unwrap(),
            false => ["rollback", "--yes", "hosts.yaml"].map(str::to_owned).to_vec(),
        };
        let run = |way: Vec<String>| converge(&world, &words(&way));
        cut_off(&world, host, &words(&way()), what);
        let rest = run(way());
        assert_eq!(rest.code, Some(0), "{case}: {}", rest.all());
        assert_eq!(packages(host), before, "{case}: {}", rest.all());
        assert_eq!(exec(host, "cd /srv; ls below above 2>/dev/null || true"), "", "{case}");
        assert_eq!(exec(host, "dpkg --audit"), "", "{case}");
        let none = run(way()).expect(0).all();
        let says = ["nothing to change", "nothing to do", "no host has a run"];
        assert!(says.iter().any(|what| none.contains(what)), "{case}: {none}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// dpkg configures no package that is to go: where the removal was cut off and the package is wanted again, it is taken back.
#[test]
fn a_package_whose_removal_was_cut_off_is_installed_again_where_it_is_wanted() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    for what in ["power", "session"] {
        roles(&world, &[("r", GOES)]);
        apply(&world).expect(0);
        let made = packages(host);
        cut_off(&world, host, &["rollback", "--yes", "hosts.yaml"], what);
        apply(&world).expect(0).says("dpkg --configure -a");
        // The mark of the library was the first to go.
        assert_eq!(packages(host), made.trim_end_matches("\nt-lib auto"), "{what}");
        assert_eq!(exec(host, "cat /srv/below /srv/above; dpkg --audit"), "1\n2", "{what}");
        let first = exec(host, "ls /var/lib/converge/runs | head -n 1");
        converge(&world, &["rollback", "--yes", "--to", &first, "hosts.yaml"]).expect(0);
        assert_eq!(packages(host), before, "{what}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// Of a package some of whose files are gone apt removes the rest with whatever else it does: that ends first.
#[test]
fn a_removal_that_was_cut_off_is_ended_before_another_package_or_itself_is_installed() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    let lingers = "  - name: lingers\n    package: {name: t-lingers}\n";
    let other = "  - name: other\n    package: {name: t-b}\n";
    for (what, wanted, is_there) in
        [("power", other, "t-b 1 installed"), ("session", lingers, "t-lingers 1 installed")]
    {
        roles(&world, &[("r", lingers)]);
        apply(&world).expect(0);
        let back = ["rollback", "--yes", "hosts.yaml"];
        cut_off_in(&world, host, &back, what, "t-lingers 1 half-installed");
        if what == "power" {
            // Where dpkg died and apt wrote its records, the package is to be installed.
            exec(host, "echo t-lingers install | dpkg --set-selections");
            assert_eq!(exec(host, "dpkg-query -W -f '${Status}' t-lingers"), "install ok half-installed");
        }
        roles(&world, &[("r", wanted)]);
        apply(&world).expect(0).says("dpkg --configure -a");
        let found = packages(host);
        assert!(found.contains(is_there) && !found.contains("half-"), "{what}: {found}");
        assert_eq!(found.contains("t-lingers 1 installed"), wanted == lingers, "{what}: {found}");
        assert_eq!(exec(host, "dpkg --audit"), "", "{what}");
        converge(&world, &["plan", "hosts.yaml"]).expect(0);
        let first = exec(host, "ls /var/lib/converge/runs | head -n 1");
        converge(&world, &["rollback", "--yes", "--to", &first, "hosts.yaml"]).expect(0);
        assert_eq!(packages(host), before, "{what}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// `undo.sh` is cut off while a package is removed: it completes that itself.
#[test]
fn an_undo_sh_that_was_cut_off_in_a_package_is_completed_by_the_next() {
    let world = world();
    let host = &world.hosts()[0];
    let before = packages(host);
    roles(&world, &[("r", GOES)]);
    apply(&world).expect(0);
    exec(host, "rm -f /srv/go /srv/begun; systemd-run -q --unit undoing sh /var/lib/converge/undo.sh");
    until_exec(host, 60, "test -e /srv/begun");
    exec(host, "systemctl kill -s KILL undoing; systemctl reset-failed undoing 2>/dev/null || true");
    assert!(packages(host).contains("t-goes 1 half-configured"), "{}", packages(host));
    exec(host, "touch /srv/go");
    until_exec(host, 60, "flock -n /var/lib/converge/lock true");
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(packages(host), before, "{}", undone.stdout);
    assert_eq!(exec(host, "cd /srv; ls below above 2>/dev/null || true; dpkg --audit"), "");
    let again = exec(host, "sh /var/lib/converge/undo.sh");
    assert_eq!(again, "there is no run to undo", "{again}");
}
