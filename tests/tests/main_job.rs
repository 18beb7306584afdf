//! The main job on real hosts: look, plan, converge, find drift, keep a plan, roll back, sudo.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what goes wrong in a test ends it, and steps are told"
)]

use converge_lab::Host;
use converge_tests::{World, exec, whole_file_system};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

/// Everything that a first-run plan must foresee: each item stands on one that this very run makes.
const ROLE: &str = r##"
summary: Items that stand on each other
resources:
  - name: the user
    user: {name: keeper, shell: /bin/bash}
  - name: the directory
    directory: {path: /etc/shop, mode: "0750", owner: keeper}
  - name: the file
    file: {path: /etc/shop/shop.conf, content: "colour = green\nsize = 1\n", mode: "0640", owner: keeper}
  - name: first edit
    line: {path: /etc/shop/shop.conf, regexp: "^size = ", line: "size = 2"}
  - name: second edit
    line: {path: /etc/shop/shop.conf, line: "{{ greeting }}", insert_after: "^colour"}
  - name: line in a new file
    line: {path: /etc/shop/lines.conf, line: "one line", create: true}
  - name: line in an old file
    line: {path: /etc/issue, line: "Property of the shop"}
  - name: tool
    package: {name: tree}
  - name: program
    file: {path: /usr/local/bin/shop, content: "#!/bin/sh\nexec sleep infinity\n", mode: "0755"}
  - name: unit of the shop
    unit:
      name: shop
      content: |
        [Service]
        ExecStart=/usr/local/bin/shop
        [Install]
        WantedBy=multi-user.target
  - name: shop runs
    service: {name: shop, state: started, enabled: true, restart_on: [the file, second edit, program]}
  - name: web server
    package: {name: nginx-light}
  - name: web configuration
    file:
      path: /etc/nginx/nginx.conf
      content: |
        worker_processes 1;
        events { worker_connections 64; }
        http { server { listen 127.0.0.1:8099; return 204; } }
  - name: edit of the web configuration
    line: {path: /etc/nginx/nginx.conf, regexp: "^worker_processes", line: "worker_processes 2;"}
  - name: web server runs
    service: {name: nginx, state: started, enabled: true, restart_on: [web configuration, edit of the web configuration]}
  - name: queue
    sysctl: {name: net.core.somaxconn, value: 5000}
  - name: key
    command: {run: "echo secret > /etc/shop/key", creates: /etc/shop/key, undo: rm -f /etc/shop/key}
"##;

/// The paths that the role claims, and those that its packages bring.
const CLAIMED: &str = "/etc/shop /etc/issue /etc/nginx /usr/local/bin /etc/systemd/system /etc/sysctl.d /home /usr/bin/tree \
    /usr/sbin/nginx /etc/passwd /etc/group";

fn step(what: &str) {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    println!("{:>6.1} s  {what}", START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64());
}

/// Paths, bytes, modes and owners, packages, users, groups, units and kernel parameters: what a rollback must restore.
fn state(host: &Host) -> BTreeSet<String> {
    let script = format!(
        "for top in {CLAIMED}; do [ -e $top ] || {{ echo \"$top none\"; continue; }}; \
           find $top -printf '%p %y %m %U:%G %l\\n'; find $top -type f -exec sha256sum {{}} +; done; \
         dpkg-query -W -f 'package ${{Package}} ${{Version}} ${{db:Status-Abbrev}}\\n' | grep ' ii'; \
         sed 's/:[^:]*:/ /' /etc/passwd /etc/group | sed 's/^/id /'; \
         cut -d: -f1,2 /etc/shadow | sed 's/^/shadow /'; \
         for unit in shop nginx; do echo unit $unit $(systemctl is-active $unit) $(systemctl is-enabled $unit 2>&1); done; \
         echo sysctl $(cat /proc/sys/net/core/somaxconn)"
    );
    exec(host, &script).lines().map(str::to_owned).collect()
}

/// The entries that are in one of two states only.
fn apart(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let gone = before.difference(after).map(|l| format!("-{l}"));
    gone.chain(after.difference(before).map(|l| format!("+{l}"))).collect()
}

/// The paths of which something changed.
fn changed_paths(before: &[String], after: &[String]) -> BTreeSet<String> {
    let before: BTreeSet<&String> = before.iter().collect();
    let after: BTreeSet<&String> = after.iter().collect();
    before.symmetric_difference(&after).filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
}

/// The result of each item of each host, `host/item`, by the plan or by the apply.
fn results(document: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for host in document["hosts"].as_array().unwrap() {
        for item in host["items"].as_array().unwrap_or(&Vec::new()) {
            let name = format!("{}/{}", host["host"].as_str().unwrap(), item["name"].as_str().unwrap());
            out.insert(name, item["result"].as_str().unwrap().to_owned());
        }
    }
    out
}

/// The same with the words of an apply. What waits for its turn is changed then: a file below the directory of a package, and what stands on it.
fn promised(plan: &Value) -> BTreeMap<String, String> {
    let mut out = results(plan);
    for result in out.values_mut() {
        match result.as_str() {
            "change" | "deferred" => "changed".clone_into(result),
            "adopt" => "unchanged".clone_into(result),
            _ => {}
        }
    }
    out
}

fn reply<'a>(results: &'a BTreeMap<String, String>, what: &str) -> Vec<&'a str> {
    results.iter().filter(|(_, r)| *r == what).map(|(name, _)| name.as_str()).collect()
}

fn role(greeting: &str) -> String {
    ROLE.replace("{{ greeting }}", greeting)
}

fn plan_changes_nothing(world: &World) {
    let login = |host: &Host| {
        let status = world.lab().ssh_command("root", host).arg("true").stdin(Stdio::null()).status().unwrap();
        assert!(status.success());
    };
    let looks = || -> Vec<Vec<String>> {
        world.hosts().iter().take(1).map(|h| whole_file_system(h).unwrap()).collect()
    };
    // Nor does apt when its caches are not current: it would write them, and a log of what it simulates.
    world.hosts().iter().for_each(|host| drop(exec(host, "rm -f /var/cache/apt/*pkgcache.bin")));
    world.hosts().iter().for_each(login);
    let first = looks();
    world.hosts().iter().for_each(login);
    let second = looks();
    let temporary = |h: &Host| exec(h, "ls -A /tmp /var/tmp");
    let temporary_before: Vec<String> = world.hosts().iter().map(temporary).collect();
    step("a plan changes nothing: plan");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    step("a plan changes nothing: compare");
    let third = looks();
    let temporary_after: Vec<String> = world.hosts().iter().map(temporary).collect();
    for (((host, first), second), third) in world.hosts().iter().zip(&first).zip(&second).zip(&third) {
        assert!(first.len() > 2000, "{} paths only", first.len());
        let by_login = changed_paths(first, second);
        let by_plan = changed_paths(second, third);
        let more: Vec<&String> = by_plan.difference(&by_login).collect();
        assert!(more.is_empty(), "{}: the plan changed {more:#?}; a login {by_login:?}", host.name());
    }
    assert_eq!(temporary_before, temporary_after);
}

fn first_run(world: &World) {
    let plan = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap();
    let plan = plan.expect(2).json().unwrap();
    let promised = promised(&plan);
    let applied = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap();
    let applied = applied.expect(0).json().unwrap();
    assert_eq!(promised, results(&applied), "the plan said, the apply did");
    assert_eq!(reply(&promised, "changed").len(), 34, "{promised:#?}");
    for host in applied["hosts"].as_array().unwrap() {
        assert_eq!(host["differences"], Value::Array(Vec::new()));
    }
    for host in world.hosts() {
        assert_eq!(exec(host, "cat /etc/shop/shop.conf"), "colour = green\nhello\nsize = 2");
        assert_eq!(exec(host, "stat -c '%a %U' /etc/shop /etc/shop/shop.conf"), "750 keeper\n640 keeper");
        assert_eq!(exec(host, "head -n1 /etc/nginx/nginx.conf"), "worker_processes 2;");
        assert_eq!(exec(host, "systemctl is-active shop nginx"), "active\nactive");
        assert_eq!(exec(host, "systemctl is-enabled shop nginx"), "enabled\nenabled");
        assert_eq!(exec(host, "cat /etc/shop/lines.conf /proc/sys/net/core/somaxconn"), "one line\n5000");
        assert_eq!(exec(host, "tail -n1 /etc/issue; command -v tree"), "Property of the shop\n/usr/bin/tree");
    }
    let again = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap().expect(0);
    let again = results(&again.json().unwrap());
    assert!(again.values().all(|r| r == "unchanged"), "{again:#?}");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
}

fn drift(world: &World) {
    let [host, other] = world.hosts() else { panic!("two hosts") };
    let pid = |h: &Host, unit: &str| exec(h, &format!("systemctl show -p MainPID --value {unit}"));
    let before = [pid(host, "shop"), pid(other, "shop")];
    exec(host, "echo colour = red >/etc/shop/shop.conf");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("-colour = red");
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    assert_eq!(exec(host, "cat /etc/shop/shop.conf"), "colour = green\nhello\nsize = 2");
    assert_eq!(before[0], pid(host, "shop"), "it was started with the very configuration that is back");
    assert_eq!(before[1], pid(other, "shop"), "nothing changed there");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
}

fn saved_plan(world: &World) {
    let [host, other] = world.hosts() else { panic!("two hosts") };
    world.only_role("shop", &role("welcome")).unwrap();
    world.converge(&["plan", "hosts.yaml", "--out", "kept.plan"]).unwrap().expect(2);
    exec(host, "echo '# by hand' >>/etc/shop/shop.conf");
    world.converge(&["apply", "kept.plan", "--yes"]).unwrap().expect(4).says("/etc/shop/shop.conf");
    assert_eq!(exec(host, "cat /etc/shop/shop.conf"), "colour = green\nhello\nsize = 2\n# by hand");
    assert!(exec(other, "cat /etc/shop/shop.conf").contains("welcome"));
    exec(host, "sed -i '/by hand/d' /etc/shop/shop.conf");
}

/// Back to before the first run: what the role claims is as it was.
fn roll_back(world: &World, bare: &[BTreeSet<String>]) {
    let listed = world.converge(&["snapshots", "hosts.yaml", "--output", "json"]).unwrap().expect(0);
    let listed = listed.json().unwrap();
    let runs = listed["hosts"][0]["runs"].as_array().unwrap();
    let first = runs.iter().filter_map(|r| r["run"].as_str()).min().unwrap();
    world.converge(&["rollback", "hosts.yaml", "--to", first, "--yes"]).unwrap().expect(0);
    for (host, bare) in world.hosts().iter().zip(bare) {
        let left = apart(bare, &state(host));
        assert!(left.is_empty(), "{}: {left:#?}", host.name());
    }
}

#[test]
fn the_main_job() {
    step("hosts");
    let world = World::new(&format!("t-main-{}", std::process::id()), 2).unwrap();
    world.only_role("shop", &role("hello")).unwrap();
    let bare: Vec<BTreeSet<String>> = world.hosts().iter().map(state).collect();
    step("a plan changes nothing");
    plan_changes_nothing(&world);
    step("first run");
    first_run(&world);
    let after: Vec<BTreeSet<String>> = world.hosts().iter().map(state).collect();
    assert!(apart(&bare[0], &after[0]).len() > 20);
    step("drift");
    drift(&world);
    step("a saved plan");
    saved_plan(&world);
    step("roll back");
    roll_back(&world, &bare);
    step("done");
}
