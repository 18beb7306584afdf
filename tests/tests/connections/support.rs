//! Shared parts of these tests: one lab, and inventories with connection variables of their own.

use converge_lab::Host;
use converge_tests::World;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// One lab for all tests here, one test at a time; the lab's guard takes it down when this process ends.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("ways-{}", std::process::id()), 3).unwrap()));

/// A role that writes one file, runs a command whose output is kept apart, and says who did it.
const ROLE: &str = "resources:\n  - name: greeting\n    file: {path: /etc/ways/greeting, content: \"hello\\n\"}\n  \
                    - name: who\n    command: {run: 'id -un > /etc/ways/who; echo said; echo loud >&2', creates: /etc/ways/who}\n";

/// The world, as if new: sshd as it was, no records, no traces.
pub fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        exec(
            host,
            "rm -rf /etc/ways /var/lib/converge /etc/doas.conf; mkdir /etc/ways; passwd -dl root >/dev/null; \
             systemctl reset-failed ssh; c=/etc/ssh/sshd_config.d/ways.conf; ! test -e $c || { rm $c; systemctl restart ssh; }",
        );
        host.wait_until_ready().unwrap();
    }
    for old in ["roles", "playbooks", ".ssh"] {
        drop(std::fs::remove_dir_all(world.dir().join(old)));
    }
    world.only_role("ways", ROLE).unwrap();
    world
}

pub fn exec(host: &Host, script: &str) -> String {
    let output = host.exec(script).unwrap();
    assert!(output.success(), "{}: {script}: {output:?}", host.name());
    output.stdout.trim().to_owned()
}

/// Makes sshd of a host take more options.
pub fn sshd(host: &Host, options: &str) {
    exec(
        host,
        &format!("printf '%s\\n' '{options}' > /etc/ssh/sshd_config.d/ways.conf; systemctl restart ssh"),
    );
    host.wait_until_ready().unwrap();
}

/// An inventory `hosts.yaml` with h1 alone and these variables (lines of `key: value`); the lab's key and known hosts stand in them
/// unless they are set here.
pub fn only_h1(world: &World, vars: &str) {
    let host = &world.hosts()[0];
    let mut text = format!("lab:\n  hosts:\n    h1:\n      ansible_host: {}\n", host.address());
    if !vars.contains("private_key_file") {
        text.push_str(&format!("      ansible_ssh_private_key_file: {}\n", world.lab().identity().display()));
    }
    if !vars.contains("common_args") {
        let known = world.lab().known_hosts();
        text.push_str(&format!("      ansible_ssh_common_args: -o UserKnownHostsFile={}\n", known.display()));
    }
    for line in vars.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    world.write("hosts.yaml", &text).unwrap();
}

/// Applies, sees what the role made and who made it, and plans again: nothing is left to do.
#[track_caller]
pub fn converges(world: &World, more: &[&str], who: &str) {
    let args = |command: &'static [&'static str]| [command, more].concat();
    world.converge(&args(&["apply", "--yes", "hosts.yaml"])).unwrap().expect(0);
    assert_eq!(exec(&world.hosts()[0], "cat /etc/ways/greeting /etc/ways/who"), format!("hello\n{who}"));
    world.converge(&args(&["plan", "hosts.yaml"])).unwrap().expect(0);
}
