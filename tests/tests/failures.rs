//! Bad input, crashes and lost connections, on real hosts: each ends in a clear message and its exit code, and no half-done
//! change stays unreported.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "failures/cut_off.rs"]
mod cut_off;
#[path = "failures/logins.rs"]
mod logins;

use converge_lab::Host;
use converge_tests::{Ran, World, exec, until_exec};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One lab for all tests here, one test at a time; the lab's guard takes it down when this process ends.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("t-bad-{}", std::process::id()), 3).unwrap()));

/// A role that writes one file on each host.
const GREETING: &str =
    "resources:\n  - name: greeting\n    file: {path: /etc/bad/greeting, content: \"hello\\n\"}\n";

/// The world, as if new: no records and no traces of other tests on the hosts, no project but an inventory.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        drop(host.exec("umount -l /var/lib/converge /etc/bad/small 2>/dev/null"));
        exec(host, "rm -rf /etc/bad /var/lib/converge && mkdir /etc/bad");
    }
    for old in ["roles", "playbooks"] {
        drop(std::fs::remove_dir_all(world.dir().join(old)));
    }
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

/// The names of the hosts that have this path.
fn having(world: &World, path: &str) -> Vec<String> {
    let has = |host: &&Host| host.exec(&format!("test -e {path}")).unwrap().success();
    world.hosts().iter().filter(has).map(|host| host.name().to_owned()).collect()
}

fn apply(world: &World) -> Ran {
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap()
}

/// Starts an apply and does not wait for it.
fn begin(world: &World) -> Child {
    let mut command = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(mut child: Child) -> Ran {
    let read = |from: &mut dyn Read| {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    };
    let stdout = read(child.stdout.as_mut().unwrap());
    let stderr = read(child.stderr.as_mut().unwrap());
    Ran { code: child.wait().unwrap().code(), stdout, stderr }
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// The inventory with other connection variables for one host (`key: value, …`).
fn inventory_with(world: &World, host: &str, more: &str) {
    let text = world.inventory("ansible_timeout: 3");
    let from = format!("    {host}: {{");
    assert!(text.contains(&from), "{text}");
    let address = if more.contains("ansible_host") { "was: " } else { "ansible_host: " };
    let text = text.replace(&format!("{from}ansible_host: "), &format!("{from}{more}, {address}"));
    world.write("hosts.yaml", &text).unwrap();
}

// --- bad input ---

/// Runs `apply` with an inventory whose only host is a listener: bad input is found before anybody is dialled.
fn offline(world: &World) -> Ran {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    nobody.set_nonblocking(true).unwrap();
    let port = nobody.local_addr().unwrap().port();
    let text = format!("lab:\n  hosts:\n    lone: {{ansible_host: 127.0.0.1, ansible_port: {port}}}\n");
    world.write("lone.yaml", &text).unwrap();
    let ran = world.converge(&["apply", "--yes", "lone.yaml"]).unwrap();
    let dialled = nobody.accept();
    assert!(dialled.is_err(), "a host was contacted: {dialled:?}\n{}", ran.all());
    ran
}

#[test]
fn malformed_yaml_points_at_its_line() {
    let world = world();
    world
        .only_role("broken", "summary: fine\nresources:\n  - name: a\n    file: {path: /etc/x, content: [}\n")
        .unwrap();
    offline(&world).expect(64).says("roles/broken/role.yaml:4");
}

#[test]
fn all_errors_of_a_role_are_reported_in_one_run() {
    let world = world();
    world
        .only_role(
            "wrong",
            concat!(
                "resources:\n",
                "  - name: unknown kind\n",
                "    fiel: {path: /etc/a, content: a}\n",
                "  - name: unknown key\n",
                "    file: {path: /etc/b, contents: b}\n",
                "  - name: wrong type\n",
                "    directory: {path: /etc/c, parents: [1]}\n",
            ),
        )
        .unwrap();
    offline(&world)
        .expect(64)
        .says("roles/wrong/role.yaml:3")
        .says("`fiel`")
        .says("`file`")
        .says("roles/wrong/role.yaml:5")
        .says("`contents`")
        .says("`content`")
        .says("roles/wrong/role.yaml:7")
        .says("`parents`");
}

#[test]
fn an_unknown_role_is_pointed_at() {
    let world = world();
    world.only_role("web", GREETING).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles:\n    - wbe\n").unwrap();
    offline(&world).expect(64).says("playbooks/site.yaml:3").says("no role `wbe`").says("`web`");
}

#[test]
fn undefined_variables_are_pointed_at() {
    let world = world();
    world
        .only_role(
            "vars",
            concat!(
                "inputs:\n  greeting: {type: str, default: hello, help: what to say}\n",
                "resources:\n",
                "  - name: one\n",
                "    file: {path: /etc/a, content: \"{{ greting }}\"}\n",
                "  - name: two\n",
                "    file: {path: /etc/b, template: b.j2}\n",
            ),
        )
        .unwrap();
    world.write("roles/vars/templates/b.j2", "first\n{{ nobody_set_this }}\n").unwrap();
    offline(&world)
        .expect(64)
        .says("roles/vars/role.yaml:5")
        .says("greting")
        .says("b.j2:2")
        .says("nobody_set_this");
}

#[test]
fn a_cycle_of_roles_is_shown_as_a_path() {
    let world = world();
    world.only_role("one", "requires: [two]\n").unwrap();
    world.write("roles/two/role.yaml", "requires: [three]\n").unwrap();
    world.write("roles/three/role.yaml", "summary: last\nrequires: [one]\n").unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [one, two, three]\n").unwrap();
    offline(&world)
        .expect(64)
        .says("roles/one/role.yaml:1")
        .says("roles/two/role.yaml:1")
        .says("roles/three/role.yaml:2")
        .says("cycle");
}

#[test]
fn two_owners_of_one_resource_are_both_shown() {
    let world = world();
    world.only_role("one", GREETING).unwrap();
    world.write("roles/two/role.yaml", &format!("summary: second\n{GREETING}")).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [one, two]\n").unwrap();
    offline(&world)
        .expect(64)
        .says("/etc/bad/greeting")
        .says("roles/one/role.yaml:")
        .says("roles/two/role.yaml:");
}

// --- what goes wrong on a host ---

#[test]
fn a_template_that_fails_on_one_host_is_its_matter() {
    let world = world();
    world
        .only_role(
            "ratio",
            "resources:\n  - name: share\n    file: {path: /etc/bad/share, template: share.j2}\n",
        )
        .unwrap();
    world.write("roles/ratio/templates/share.j2", "first\n{{ 100 // parts }}\n").unwrap();
    let text = world.inventory("ansible_timeout: 3\nparts: 4");
    world.write("hosts.yaml", &text.replace("    h2: {", "    h2: {parts: 0, ")).unwrap();
    apply(&world).expect(1).says("h2").says("ratio/share").says("share.j2:2");
    assert_eq!(having(&world, "/etc/bad/share"), ["h1", "h3"]);
}

#[test]
fn a_failure_stops_only_what_depends_on_it() {
    let world = world();
    world
        .only_role("first", "resources:\n  - name: fails\n    command: {run: \"echo so sad >&2; exit 7\", creates: /etc/bad/never}\n")
        .unwrap();
    world
        .write(
            "roles/second/role.yaml",
            "requires: [first]\nresources:\n  - name: later\n    file: {path: /etc/bad/later, content: x}\n",
        )
        .unwrap();
    world.write("roles/apart/role.yaml", GREETING).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [first, second, apart]\n").unwrap();
    apply(&world)
        .expect(1)
        .says("first/fails")
        .says("so sad")
        .says("status 7")
        .says("skipped: depends on `first/fails` · second/later");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h2", "h3"]);
    assert_eq!(having(&world, "/etc/bad/later"), Vec::<String>::new());
}

#[test]
fn a_full_disk_leaves_the_file_as_it_was() {
    let world = world();
    let host = &world.hosts()[1];
    exec(
        host,
        "mkdir -p /etc/bad/small && mount -t tmpfs -o size=64k tmpfs /etc/bad/small && echo old > /etc/bad/small/f",
    );
    let role =
        "resources:\n  - name: big\n    file: {path: /etc/bad/small/f, content: \"{{ 'x' * 200000 }}\"}\n";
    world
        .only_role("big", &format!("{role}  - name: there\n    file: {{path: /etc/bad/there, content: x}}\n"))
        .unwrap();
    for host in [&world.hosts()[0], &world.hosts()[2]] {
        exec(host, "mkdir -p /etc/bad/small");
    }
    let ran = apply(&world);
    let (left, names) = (exec(host, "cat /etc/bad/small/f"), exec(host, "ls -A /etc/bad/small"));
    until_exec(host, 20, "umount /etc/bad/small");
    let ran =
        ran.says("h2").says("big/big").says("/etc/bad/small/f: cannot write its content (is the disk full?)");
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert_eq!((left.as_str(), names.as_str()), ("old", "f"));
    assert_eq!(having(&world, "/etc/bad/small/f"), ["h1", "h3"]);
}

#[test]
fn no_room_for_the_records_means_no_change() {
    let world = world();
    let host = &world.hosts()[1];
    world
        .only_role("big", "resources:\n  - name: big\n    file: {path: /etc/bad/big, content: small}\n")
        .unwrap();
    // Too small for a run to begin: no host is changed. Too small for the old content: the item fails, the others go on.
    for (size, code, says, changed) in [
        (
            "64k",
            4,
            "/var/lib/converge/undo.sh cannot be written: cat: write error: No space left on device",
            false,
        ),
        ("600k", 1, "the state before could not be saved, so nothing was changed", true),
    ] {
        for host in world.hosts() {
            exec(host, "head -c 900000 /dev/urandom > /etc/bad/big; cp /etc/bad/big /etc/bad/same");
        }
        exec(
            host,
            &format!("mkdir -p /var/lib/converge && mount -t tmpfs -o size={size} tmpfs /var/lib/converge"),
        );
        let ran = apply(&world);
        // A run that cannot begin, and one that changed nothing, leave no record.
        assert_eq!(exec(host, "ls /var/lib/converge/runs | wc -l"), "0", "{}", ran.all());
        // The session's shell lives a moment longer than the engine.
        until_exec(host, 20, "umount /var/lib/converge");
        let same = |host: &Host| host.exec("cmp -s /etc/bad/big /etc/bad/same").unwrap().success();
        assert!(same(host), "changed without a way back: {}", ran.all());
        assert_eq!(same(&world.hosts()[0]), !changed, "{}", ran.all());
        ran.says("h2").says(says).expect(code);
    }
}

// --- two runs, and runs that do not end ---

#[test]
fn a_lock_on_one_host_keeps_all_hosts_as_they_are() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let host = &world.hosts()[2];
    exec(host, "mkdir -p -m 700 /var/lib/converge");
    let mut holder = host
        .exec_command("exec flock /var/lib/converge/lock sh -c 'echo held > /etc/bad/held; exec sleep 60'")
        .unwrap()
        .spawn()
        .unwrap();
    until_exec(host, 20, "test -e /etc/bad/held");
    let ran = apply(&world);
    exec(host, "pkill -x sleep");
    holder.wait().unwrap();
    ran.expect(4).says("h3").says("lock");
    assert_eq!(having(&world, "/etc/bad/greeting"), Vec::<String>::new());
    apply(&world).expect(0);
}

#[test]
fn foreign_records_are_refused() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    exec(&world.hosts()[0], "mkdir -p -m 700 /var/lib/converge && echo 99 > /var/lib/converge/version");
    apply(&world).expect(4).says("h1").says("format '99'").says("/var/lib/converge");
    assert!(!having(&world, "/etc/bad/greeting").contains(&"h1".to_owned()));
    assert_eq!(exec(&world.hosts()[0], "cat /var/lib/converge/version"), "99");
}

#[test]
fn what_no_snapshot_can_hold_goes_only_by_name() {
    let world = world();
    let [host, ..] = world.hosts() else { panic!("three hosts") };
    let run = |args: &[&str]| {
        let mut all = vec!["--limit", "h1", "hosts.yaml"];
        all.splice(0..0, args.iter().copied());
        world.converge(&all).unwrap()
    };
    let id = "path:/etc/bad/large";
    let roles = [
        ("absent: {path: /etc/bad/large}", ""),
        ("directory: {path: /etc/bad/large, force: true}", "/etc/bad/large/"),
        ("link: {path: /etc/bad/large, target: /etc, force: true}", "/etc/bad/large@"),
    ];
    let makers = ["truncate -s 101M /etc/bad/large", "mkfifo /etc/bad/large"];
    for (make, (role, left)) in makers.iter().flat_map(|make| roles.map(|role| (make, role))) {
        exec(host, make);
        world.only_role("gone", &format!("resources:\n  - name: it\n    {role}\n")).unwrap();
        run(&["plan"]).says(&format!("--allow-destroy {id}"));
        run(&["apply", "--yes"]).expect(4).says(&format!("--allow-destroy {id}"));
        run(&["apply", "--yes", "--allow-destroy", "path:/etc/bad/lerge"]).expect(64).says(id);
        exec(host, "test -e /etc/bad/large -a ! -L /etc/bad/large -a ! -d /etc/bad/large");
        let gone = run(&["apply", "--yes", "--allow-destroy", id]).expect(0);
        assert!(!gone.all().contains("converge rollback"), "{}", gone.all());
        assert_eq!(exec(host, "ls -dF /etc/bad/large 2>/dev/null || :"), left);
        exec(host, "rm -rf /etc/bad/large");
    }
}
