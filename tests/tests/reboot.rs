//! Hosts that restart: only when they must or are asked to, one after another, and a run that goes on behind the restart.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec, until};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("reboot-{}", std::process::id()), 2).unwrap()));

const REQUIRED: &str = r#"resources:
  - name: before
    file: {path: /etc/boots/before, content: "1\n"}
  - name: restart
    reboot: {when_required: true, timeout: 120, units: [ssh]}
  - name: after
    command: {run: "cat /proc/sys/kernel/random/boot_id > /etc/boots/after", creates: /etc/boots/after, undo: rm /etc/boots/after}
"#;

/// Two hosts with fresh records. The worlds of these tests are one: they go one after another.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        exec(host, "rm -rf /etc/boots /var/lib/converge /run/reboot-required* && mkdir /etc/boots");
    }
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

fn boot(host: &Host) -> String {
    exec(host, "cat /proc/sys/kernel/random/boot_id")
}

fn boots(world: &World) -> Vec<String> {
    world.hosts().iter().map(boot).collect()
}

#[test]
fn a_host_restarts_when_it_must_and_the_run_goes_on_behind_it() {
    let world = world();
    let [one, other] = world.hosts() else { unreachable!() };
    let before = boots(&world);
    world.only_role("boots", REQUIRED).unwrap();
    exec(one, "touch /run/reboot-required; echo libc6 > /run/reboot-required.pkgs");
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    let plan = plan.says("/run/reboot-required is there for libc6").says("needs drain");
    assert!(plan.all().contains("restart the host"), "{}", plan.all());
    let run = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_ne!(boot(one), before[0], "{}", run.all());
    assert_eq!(boot(other), before[1], "nothing asked it to: {}", run.all());
    assert_eq!(exec(one, "cat /etc/boots/after"), boot(one), "{}", run.all());
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    // The script on the host passes over it.
    let last = boot(one);
    let undone = exec(one, "sh /var/lib/converge/undo.sh");
    assert!(undone.contains("passed over    boot:required"), "{undone}");
    assert!(undone.contains("restored       path:/etc/boots/before"), "{undone}");
    assert_eq!(boot(one), last);
    assert!(!one.exec("test -e /etc/boots/before").unwrap().success());
}

#[test]
fn two_hosts_restart_one_after_the_other_for_one_token() {
    let world = world();
    let before = boots(&world);
    let role = "resources:\n  - name: restart\n    reboot: {once: first, timeout: 120}\n";
    world.only_role("boots", role).unwrap();
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    let flat: String = plan.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(", 2 batches"), "{flat}");
    let run = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    run.says("batch 1 of 2").says("batch 2 of 2");
    let after = boots(&world);
    assert!(before.iter().zip(&after).all(|(b, a)| b != a), "{before:?} {after:?}");
    let since = |host: &Host| exec(host, "stat -c %Y /var/lib/converge/boot/* | sort -n | tail -1");
    let [one, other]: [u64; 2] = [0, 1].map(|n| since(&world.hosts()[n]).parse().unwrap());
    assert_ne!(one, other, "they were asked to restart at the same time");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0).says("nothing to change");
    assert_eq!(boots(&world), after);
    // A rollback passes over restarts.
    let back = world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert!(!back.all().contains("boots/restart"), "{}", back.all());
    assert_eq!(boots(&world), after);
}

#[test]
fn a_controller_that_dies_during_the_restart_does_not_repeat_it() {
    let world = world();
    let one = &world.hosts()[0];
    let role = r#"resources:
  - name: settings
    file: {path: /etc/boots/settings, content: "quiet\n"}
  - name: restart
    reboot: {on_change: [settings], timeout: 120}
  - name: after
    file: {path: /etc/boots/after, content: "3\n"}
"#;
    world.only_role("boots", role).unwrap();
    let before = boot(one);
    let mut command = world.command(&["apply", "--yes", "--limit", "h1", "hosts.yaml"]).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the restart is begun", 90, || one.exec("ls /var/lib/converge/boot/*").is_ok_and(|o| o.success()));
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    until("another boot", 90, || {
        one.exec("cat /proc/sys/kernel/random/boot_id")
            .is_ok_and(|o| o.success() && o.stdout.trim() != before)
    });
    one.wait_until_ready().unwrap();
    let after = boot(one);
    let plan = world.converge(&["plan", "--limit", "h1", "hosts.yaml"]).unwrap().expect(2);
    plan.says("did not end").says("the host has restarted").says("not begun: boots/after");
    world.converge(&["apply", "--yes", "--limit", "h1", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(one, "cat /etc/boots/after"), "3");
    assert_eq!(boot(one), after, "it restarted again");
    world.converge(&["plan", "--limit", "h1", "hosts.yaml"]).unwrap().expect(0);
}

#[test]
fn a_host_that_does_not_come_back_is_named() {
    let world = world();
    let one = &world.hosts()[0];
    let role = "resources:\n  - name: restart\n    reboot: {once: second, timeout: 8}\n  - name: after\n    file: {path: /etc/boots/after, content: x}\n";
    world.only_role("boots", role).unwrap();
    // The reboot is masked: the host stays up.
    exec(one, "mkdir -p /run/systemd/system/reboot.target.d; systemctl mask --runtime reboot.target");
    let run = world.converge(&["apply", "--yes", "--limit", "h1", "hosts.yaml"]).unwrap();
    assert!(!matches!(run.code, Some(0 | 2)), "{}", run.all());
    run.says("did not restart within 8 s of the request").says("Call to Reboot failed");
    // The run is over in good order; the next one tries again.
    let plan = world.converge(&["plan", "--limit", "h1", "hosts.yaml"]).unwrap().expect(2);
    assert!(!plan.all().contains("did not end"), "{}", plan.all());
    assert!(!one.exec("test -e /etc/boots/after").unwrap().success());
    exec(one, "systemctl unmask --runtime reboot.target");
}
