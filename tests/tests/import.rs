//! `converge import` on roles and a playbook of `fixtures/ansible`: what is written is applied to a real host, and the next plan is empty.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

use converge_tests::{World, exec, ran, root};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Copies the fixtures into the folder of a project.
fn fixtures(world: &World) {
    let from = root().join("tests/fixtures/ansible");
    let mut copy = Command::new("cp");
    assert_eq!(ran(copy.arg("-r").arg(from).arg(world.dir().join("ansible"))).unwrap().code, Some(0));
}

fn report(world: &World, path: &str, out: &str) -> Value {
    world.converge(&["import", path, "--out", out, "--output", "json"]).unwrap().expect(0).json().unwrap()
}

/// The verdict and the word of the report for a task.
fn became<'r>(report: &'r Value, name: &str) -> (&'r str, &'r str) {
    let all = report["findings"].as_array().unwrap();
    let found = all
        .iter()
        .find(|finding| finding["name"] == name)
        .unwrap_or_else(|| panic!("no task {name}: {report:#}"));
    (found["verdict"].as_str().unwrap(), found["became"].as_str().unwrap())
}

#[test]
fn an_imported_playbook_is_applied_and_planned_again_empty() {
    let world = World::new("import", 1).unwrap();
    let host = &world.hosts()[0];
    fixtures(&world);
    let playbook = report(&world, "ansible/site.yml", ".");
    let schema = world.converge(&["schema", "import"]).unwrap().expect(0).json().unwrap();
    assert!(jsonschema::is_valid(&schema, &playbook), "{playbook:#}");
    assert_eq!(became(&playbook, "Write the configuration"), ("exact", "file"));
    assert_eq!(became(&playbook, "restart chrony"), ("exact", "restart_on of `Start chrony`"));
    assert_eq!(became(&playbook, "Install chrony on Red Hat"), ("exact", "does not apply"));
    world.converge(&["validate", "hosts.yaml", "--playbook", "playbooks/site.yaml"]).unwrap().expect(0);
    // The lab's hosts are containers, which may not set the clock: another program stands for chronyd in its unit.
    exec(
        host,
        "mkdir -p /etc/systemd/system/chrony.service.d && printf '%s\\n' '[Unit]' ConditionCapability= '[Service]' Type=exec PIDFile= \
         ExecStart= 'ExecStart=/bin/sleep infinity' >/etc/systemd/system/chrony.service.d/lab.conf && systemctl daemon-reload",
    );
    let apply = ["apply", "hosts.yaml", "--playbook", "playbooks/site.yaml", "--yes"];
    world.converge(&apply).unwrap().expect(0);
    for (script, says) in [
        ("systemctl is-active chrony agent", "active\nactive"),
        ("grep -c iburst /etc/chrony/chrony.conf", "2"),
        ("grep makestep /etc/chrony/chrony.conf", "makestep 0.5 3"),
        (
            "stat -c '%a %U' /etc/chrony/chrony.conf /opt/agent/agent.sh /etc/agent",
            "644 root\n755 root\n750 agent",
        ),
        ("cat /etc/agent/version /srv/remarks/last", "1.2\ndone on h1"),
        ("grep port /etc/agent/agent.conf", "port = 9200"),
        ("cat /etc/agent/host", "running bash 0755 root info+ own"),
        ("id -nG ada", "ada operators"),
        ("cat /srv/agent /srv/other", "port 9200, agent of operators\nnothing, other of operators"),
        ("cat /srv/other.head && stat -c %a /srv/agent.head", "# operators h1\n640"),
        ("cat /srv/found", "1 /etc/apt/preferences.d 27 disabled"),
        ("cd /srv && ls -d 'a b' '$(id);x' noted", "$(id);x\na b\nnoted"),
        ("ls /etc/sudoers.d | grep -E 'ada|bob'", "ada"),
        ("ls /run/agent-names-changed /opt/agent/index", "/opt/agent/index\n/run/agent-names-changed"),
        ("grep -c 'ANSIBLE MANAGED BLOCK' /etc/hosts", "2"),
        ("grep -v '^$' /etc/cron.d/old-files | tail -n 1 | cut -c -9", "15 3 * * "),
    ] {
        assert_eq!(exec(host, script), says.trim_end(), "{script}");
    }
    world.converge(&["plan", "hosts.yaml", "--playbook", "playbooks/site.yaml"]).unwrap().expect(0);

    // A change of an input restarts what was notified before.
    let before = exec(host, "systemctl show -p MainPID --value chrony");
    let more = [&apply[..], &["--set", "timesync_servers=[192.0.2.1]"]].concat();
    world.converge(&more).unwrap().expect(0);
    assert_ne!(exec(host, "systemctl show -p MainPID --value chrony"), before, "chrony was restarted");
}

#[test]
fn an_open_item_refuses_the_plan_until_it_is_decided() {
    let world = World::new("import-open", 1).unwrap();
    let host = &world.hosts()[0];
    fixtures(&world);
    let tuning = report(&world, "ansible/roles/tuning", ".");
    assert_eq!(became(&tuning, "Generation"), ("open", "open item"));
    assert_eq!(became(&tuning, "Cluster settings"), ("open", "open item"));
    assert_eq!(became(&tuning, "Leftovers"), ("exact", "absent"));
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [tuning]\n").unwrap();
    let refused = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1);
    refused.says("nothing says when it is done").says("ansible/roles/tuning/tasks/main.yml:");
    assert_eq!(exec(host, "ls /etc/tuning-system 2>/dev/null | wc -l"), "0", "nothing of the role is done");

    // A person decides: the two checks go, and one resource comes.
    let path = world.dir().join("roles/tuning/role.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let decided = decided(&text);
    assert!(!decided.contains("that: false"), "{decided}");
    std::fs::write(&path, &decided).unwrap();
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    for (script, says) in [
        ("cat /etc/tuning-system /etc/security/limits.d/tuning.conf | head -n 1", "debian"),
        ("cat /proc/sys/net/core/somaxconn", "1024"),
        ("findmnt -n -o FSTYPE /srv/scratch", "tmpfs"),
        ("cat /etc/tuning.ini", "[Journal]\nSystemMaxUse = 50M"),
    ] {
        assert_eq!(exec(host, script), says, "{script}");
    }
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);

    // The person's file is not overwritten, and the difference is shown.
    let again = world.converge(&["import", "ansible/roles/tuning", "--out", "."]).unwrap().expect(4);
    again.says("nothing was written").says("+").says("that: false");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), decided);
    std::fs::write(&path, &text).unwrap();
    world.converge(&["import", "ansible/roles/tuning", "--out", "."]).unwrap().expect(0);
}

/// The role without its open checks.
fn decided(text: &str) -> String {
    let mut rest = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("  - name: \"open item") || line.starts_with("  - name: open item") {
            inside = true;
        } else if line.starts_with("  - ") || !line.starts_with("    ") {
            inside = false;
        }
        if !inside {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    rest
}

#[test]
fn hostile_files_give_errors_with_a_place_and_run_nothing() {
    let dir = tempfile::TempDir::new().unwrap();
    let binary = converge_tests::binary().unwrap();
    let import = |name: &str| {
        let role = root().join("tests/fixtures/ansible/hostile").join(name);
        let mut command = Command::new(&binary);
        ran(command.args(["import"]).arg(role).args(["--out", "out"]).current_dir(dir.path())).unwrap()
    };
    import("bomb").expect(64).says("more than 500000 values").says("tasks/main.yml:6:");
    import("endless").expect(64).says("include each other").says("tasks/main.yml:1:");
    let calls = import("calls").expect(0);
    calls
        .says("there is no lookup `pipe`")
        .says("`delegate_to`: it works on another host")
        .says("4 tasks: 2 exact, 0 with a remark, 2 open");
    assert!(!Path::new("/tmp/import-was-run").exists());
    let link = dir.path().join("linked/tasks");
    std::fs::create_dir_all(&link).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", link.join("main.yml")).unwrap();
    let mut command = Command::new(&binary);
    ran(command.args(["import", "linked"]).current_dir(dir.path()))
        .unwrap()
        .expect(64)
        .says("leads to no file of the role, and is not followed");
}
