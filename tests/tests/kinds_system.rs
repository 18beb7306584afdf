//! Kinds about the system on a real host: planned, applied, then unchanged; drift of each is detected and corrected; all are
//! rolled back.
//!
//! Not on this host, which is a container: loading a kernel module and turning swap on. Their files are.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what goes wrong in a test ends it, and steps are told"
)]

use converge_lab::Host;
use converge_tests::{World, exec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const ROLE: &str = r##"
summary: The kinds about the system
resources:
  - name: firewall program
    package: {name: ufw}
  - name: bridge module
    kernel_module: {name: br_netfilter, options: [a=1], now: false}
  - name: no nouveau
    kernel_module: {name: nouveau, blacklist: true, now: false}
  - name: host name
    hostname: {name: gpu-1}
  - name: fast disk
    mount: {path: /mnt/fast, fstype: tmpfs, options: [size=16M, mode=0755, noexec]}
  - name: data
    directory: {path: /srv/data}
  - name: data once more
    mount: {path: /mnt/data, source: /srv/data, fstype: bind, options: [ro]}
  - name: no swap
    swap: {state: absent}
  - name: stamp
    timer: {name: stamp, run: 'date "+%F $HOME" >/run/stamp', on_calendar: daily, every: 1h}
  - name: job
    cron: {name: job, schedule: "0 3 * * *", run: "date +%F >/run/job"}
  - name: job of root
    cron: {name: mine, schedule: "@daily", run: "true", in_crontab: true}
  - name: application
    git: {repo: /srv/origin.git, dest: /opt/app, version: main}
  - name: cron is nice
    unit: {name: cron, drop_in: nice, content: "[Service]\nNice=5\n", state: started}
  - name: application is there
    wait_for: {file: /opt/app/file, contains: "^two$"}
  - name: cron runs
    wait_for: {unit: cron}
  - name: firewall
    firewall:
      rules:
        - {action: limit, port: 22/tcp, comment: ssh}
        - {port: 9100/tcp, from: 10.0.0.0/8}
        - {port: "8000:8010/tcp"}
      incoming: deny
      enabled: true
verify:
  - name: ssh listens
    wait_for: {port: 22}
  - name: the timer runs
    wait_for: {unit: stamp.timer}
  - name: cron has its drop-in
    wait_for: {command: "systemctl show -p Nice cron | grep -qx Nice=5", timeout: 5}
"##;

/// Before everything: git with a repository of two commits, cron, a line of swap in fstab.
const PREPARE: &str = r#"set -e
apt-get install -y -q --no-install-recommends git cron >/dev/null 2>&1
git init -q -b main /srv/work; cd /srv/work
for word in one two; do echo $word >file; git add file; git -c user.name=t -c user.email=t@t commit -q -m $word; done
git clone -q --bare /srv/work /srv/origin.git
printf '# disks\n/dev/sdz2 none swap sw 0 0\n' >/etc/fstab
"#;

/// Every thing that the role manages, changed by hand.
const DRIFT: &[(&str, &str)] = &[
    ("bridge module", "echo loop >>/etc/modules-load.d/converge-br_netfilter.conf"),
    ("no nouveau", "rm /etc/modprobe.d/converge-nouveau.conf"),
    ("host name", "hostname other"),
    ("fast disk", "mount -o remount,exec,size=32M /mnt/fast"),
    ("data once more", "umount /mnt/data"),
    ("no swap", "echo '/swap none swap sw 0 0' >>/etc/fstab"),
    ("stamp", "systemctl -q stop stamp.timer"),
    ("job", "echo '* * * * * root true' >>/etc/cron.d/job"),
    ("job of root", "echo '5 5 * * * mine' | crontab -"),
    ("application", "git -C /opt/app checkout -q HEAD~1"),
    ("cron is nice", "rm /etc/systemd/system/cron.service.d/nice.conf"),
    (
        "firewall",
        "ufw delete allow from 10.0.0.0/8 to any port 9100 proto tcp && ufw allow 1/tcp && ufw default allow incoming",
    ),
];

fn step(what: &str) {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    println!("{:>6.1} s  {what}", START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64());
}

/// The state that a rollback must restore.
fn state(host: &Host) -> BTreeSet<String> {
    let script = "for top in /etc/modules-load.d /etc/modprobe.d /etc/hostname /etc/fstab /etc/systemd/system /etc/cron.d \
           /var/spool/cron/crontabs /opt /mnt /srv/data; do [ -e $top ] || { echo \"$top none\"; continue; }; \
           find $top -printf '%p %y %m %U:%G %l\\n'; find $top -type f -exec sha256sum {} +; done; \
         hostname; grep ' /mnt' /proc/self/mountinfo | cut -d' ' -f5,6; cat /proc/swaps; \
         for unit in stamp.timer stamp.service cron.service; do \
           echo $unit $(systemctl show -p LoadState -p ActiveState -p UnitFileState -p Nice $unit); done; \
         dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' | grep ' ii'; \
         ls /etc/ufw 2>&1 | sed 's/^/ufw /'; { iptables -S 2>/dev/null || true; } | sed 's/^/rule /'";
    exec(host, script).lines().map(str::to_owned).collect()
}

fn apart(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let gone = before.difference(after).map(|l| format!("-{l}"));
    gone.chain(after.difference(before).map(|l| format!("+{l}"))).collect()
}

/// The result of each item.
fn results(document: &Value) -> BTreeMap<String, String> {
    let items = document["hosts"][0]["items"].as_array().unwrap();
    let word = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    items.iter().map(|item| (word(item, "name"), word(item, "result"))).collect()
}

fn reply(results: &BTreeMap<String, String>, what: &str) -> BTreeSet<String> {
    results.iter().filter(|(_, r)| *r == what).map(|(name, _)| name.clone()).collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|n| (*n).to_owned()).collect()
}

fn plan(world: &World, code: i32) -> BTreeMap<String, String> {
    let ran = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap();
    results(&ran.expect(code).json().unwrap())
}

fn first_run(world: &World, host: &Host) {
    let planned = plan(world, 2);
    // An item that reads the result of an earlier item is deferred; the package may bring a crontab too.
    assert_eq!(
        reply(&planned, "deferred"),
        names(&["application is there", "cron runs", "firewall", "job of root"]),
        "{planned:#?}"
    );
    assert_eq!(reply(&planned, "change").len(), 12, "{planned:#?}");
    let main = exec(host, "git -C /srv/origin.git rev-parse main");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says(&main);
    step("first apply");
    let applied = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap().expect(0);
    let applied = applied.json().unwrap();
    assert_eq!(applied["hosts"][0]["differences"], Value::Array(Vec::new()));
    assert_eq!(reply(&results(&applied), "changed").len(), 14, "{:#?}", results(&applied));
}

fn as_declared(host: &Host) {
    assert_eq!(exec(host, "cat /etc/modules-load.d/converge-br_netfilter.conf"), "br_netfilter");
    assert_eq!(
        exec(host, "cat /etc/modprobe.d/converge-*.conf"),
        "options br_netfilter a=1\nblacklist nouveau"
    );
    assert_eq!(exec(host, "hostname; cat /etc/hostname"), "gpu-1\ngpu-1");
    let mounts = exec(host, "grep ' /mnt' /proc/self/mountinfo | cut -d' ' -f5,6");
    assert_eq!(mounts, "/mnt/fast rw,noexec,relatime\n/mnt/data ro,relatime");
    assert!(exec(host, "df -k --output=size /mnt/fast").ends_with("16384"));
    let fstab = "# disks\n# /dev/sdz2 none swap sw 0 0\ntmpfs /mnt/fast tmpfs size=16M,mode=0755,noexec 0 0\n\
        /srv/data /mnt/data none bind,ro 0 0";
    assert_eq!(exec(host, "grep -vx '# /swap none swap sw 0 0' /etc/fstab"), fstab);
    assert!(exec(host, "systemctl start stamp.service; cat /run/stamp").starts_with("20"));
    assert_eq!(
        exec(host, "systemctl is-active stamp.timer; systemctl is-enabled stamp.timer"),
        "active\nenabled"
    );
    assert_eq!(exec(host, "tail -n1 /etc/cron.d/job"), "0 3 * * * root date +\\%F >/run/job");
    assert!(exec(host, "cat /var/spool/cron/crontabs/root").ends_with("# converge: mine\n@daily true"));
    assert_eq!(exec(host, "cat /opt/app/file"), "two");
    assert_eq!(exec(host, "systemctl show -p Nice -p NeedDaemonReload cron"), "Nice=5\nNeedDaemonReload=no");
    let rules = exec(host, "ufw show added");
    for rule in [
        "limit 22/tcp comment 'ssh'",
        "allow 8000:8010/tcp",
        "allow from 10.0.0.0/8 to any port 9100 proto tcp",
    ] {
        assert!(rules.lines().any(|l| l == format!("ufw {rule}")), "{rules}");
    }
    let ufw = exec(host, "ufw status verbose");
    assert!(ufw.contains("Status: active") && ufw.contains("Default: deny (incoming)"), "{ufw}");
}

fn drift(world: &World, host: &Host) {
    for (_, script) in DRIFT {
        exec(host, script);
    }
    let found = plan(world, 2);
    let damaged: BTreeSet<String> = DRIFT.iter().map(|(item, _)| (*item).to_owned()).collect();
    assert_eq!(reply(&found, "change"), damaged, "{found:#?}");
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    as_declared(host);
    let left = plan(world, 0);
    assert_eq!(reply(&left, "unchanged").len(), 16, "{left:#?}");
}

/// A change that would lose data is refused, and nothing is changed.
fn refusals(world: &World, host: &Host) {
    exec(host, "echo mine >/opt/app/file");
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1).says("/opt/app has local changes");
    assert_eq!(exec(host, "cat /opt/app/file; git -C /opt/app checkout -q file"), "mine");
    let shut = "summary: shut\nresources:\n  - name: shut\n    firewall: {rules: [{port: 80/tcp}], only: true, enabled: true}\n";
    world.only_role("system", shut).unwrap();
    world
        .converge(&["apply", "hosts.yaml", "--yes"])
        .unwrap()
        .expect(1)
        .says("would shut out the connection in use");
    assert!(exec(host, "ufw show added").contains("limit 22/tcp"));
    let vain = "summary: vain\nresources:\n  - name: vain\n    wait_for: {port: 9999, timeout: 1}\n";
    world.only_role("system", vain).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(1)
        .says("waiting for port 9999 to listen: nothing listens there");
    world.only_role("system", ROLE).unwrap();
}

fn roll_back(world: &World, host: &Host, bare: &BTreeSet<String>) {
    let listed =
        world.converge(&["snapshots", "hosts.yaml", "--output", "json"]).unwrap().expect(0).json().unwrap();
    let runs = listed["hosts"][0]["runs"].as_array().unwrap();
    let first = runs.iter().filter_map(|r| r["run"].as_str()).min().unwrap();
    world.converge(&["rollback", "hosts.yaml", "--to", first, "--yes"]).unwrap().expect(0);
    // The line that somebody has added to fstab is his again, and no comment any more.
    assert_eq!(exec(host, "tail -n1 /etc/fstab; sed -i '$d' /etc/fstab"), "/swap none swap sw 0 0");
    let left = apart(bare, &state(host));
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn the_kinds_of_the_system() {
    step("a host");
    let world = World::new(&format!("kinds2-system-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    exec(host, PREPARE);
    world.only_role("system", ROLE).unwrap();
    let bare = state(host);
    step("first run");
    first_run(&world, host);
    as_declared(host);
    assert_eq!(reply(&plan(&world, 0), "unchanged").len(), 16);
    world.converge(&["verify", "hosts.yaml"]).unwrap().expect(0);
    step("drift");
    drift(&world, host);
    step("refusals");
    refusals(&world, host);
    step("roll back");
    roll_back(&world, host, &bare);
    step("done");
}

/// A package whose scripts tell systemd nothing, or too early, leaves its unit in systemd's memory.
#[test]
fn a_unit_whose_file_is_gone_is_absent_before_systemd_reads_its_files_again() {
    let world = World::new("unit-gone", 1).unwrap();
    let host = &world.hosts()[0];
    exec(
        host,
        "cd /usr/lib/systemd/system; printf '[Service]\\nExecStart=/bin/true\\n' >gone.service
         printf '[Unit]\\nAfter=gone.service\\n[Service]\\nExecStart=/bin/sleep infinity\\n' >keeps.service
         systemctl daemon-reload; systemctl start keeps; systemctl enable gone; rm gone.service",
    );
    let shown = exec(host, "systemctl show -p LoadState -p UnitFileState gone");
    assert_eq!(shown, "LoadState=loaded\nUnitFileState=bad");
    world
        .only_role("gone", "resources:\n  - name: unit\n    service: {name: gone, state: started}\n")
        .unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1).says("knows no unit gone.service");
}

const AGENTS: &str = r#"resources:
  - name: agents
    for_each: [a, b, c]
    unit:
      name: "agent-{{ item }}"
      content: "[Service]\nExecStart=/usr/bin/sleep {{ 'SECONDS' if item == 'b' else 'infinity' }}\n[Install]\nWantedBy=multi-user.target\n"
      enabled: true
      state: started
  - name: last
    file: {path: /etc/last, content: "1\n"}
"#;

/// Units of one resource are started together and watched together. One that dies at once fails, its neighbours are done, and what comes after is not.
#[test]
fn a_unit_that_dies_while_all_are_watched_fails_by_itself_and_stops_what_comes_after() {
    let world = World::new("units-together", 1).unwrap();
    let host = &world.hosts()[0];
    let bare = state(host);
    world.only_role("agents", &AGENTS.replace("SECONDS", "0.3")).unwrap();
    let ran = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1);
    ran.says("agents/agents[b]").says("agent-b.service did not start").says("depends on `agents/agents[b]`");
    let active = "for u in a b c; do systemctl is-active agent-$u; done; test -e /etc/last || echo none";
    assert_eq!(exec(host, active), "active\ninactive\nactive\nnone");
    let journal = exec(host, "cat /var/lib/converge/runs/*/journal");
    let begun = journal.rfind("begin\t").unwrap();
    assert!(journal.find("done\t").unwrap() > begun, "one write of the journal before all of it: {journal}");
    world.only_role("agents", &AGENTS.replace("SECONDS", "infinity")).unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(host, active).lines().collect::<BTreeSet<_>>(), BTreeSet::from(["active"]));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    for _ in 0..2 {
        world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    }
    let left = apart(&bare, &state(host));
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn a_bind_mount_of_a_bind_mount_is_as_declared() {
    let world = World::new("kinds-bind", 1).unwrap();
    let mount =
        |path: &str, source: &str| format!("  - mount: {{path: {path}, source: {source}, fstype: bind}}\n");
    let mounts = [("/srv/b", "/srv/src"), ("/srv/c", "/srv/b"), ("/srv/e", "/srv/c/d")];
    let mounts: String = mounts.iter().map(|(path, source)| mount(path, source)).collect();
    exec(&world.hosts()[0], "mkdir -p /srv/src/d && echo x > /srv/src/d/f");
    world.only_role("r", &format!("resources:\n{mounts}")).unwrap();
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(&world.hosts()[0], "cat /srv/c/d/f /srv/e/f"), "x\nx");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(&world.hosts()[0], "grep -c ' /srv/' /proc/self/mountinfo || true"), "0");
}
