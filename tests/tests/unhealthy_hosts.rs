//! Unhealthy hosts: each ends in a clear message and without half-done changes, and the next run continues after the repair.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "unhealthy_hosts/read_only.rs"]
mod read_only;
#[path = "unhealthy_hosts/store.rs"]
mod store;

use converge_lab::Host;
use converge_tests::{Ran, World, exec};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// One lab for all tests here, one test at a time.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("t-sick-{}", std::process::id()), 1).unwrap()));

/// The world with a host that knows nothing of other tests.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    exec(
        &world.hosts()[0],
        "umount -l /srv/sick /var/lib/converge 2>/dev/null; rm -rf /srv/sick /var/lib/converge; \
         dpkg -P broken >/dev/null 2>&1; mkdir -p /srv/sick",
    );
    world
}

fn holds(host: &Host, script: &str) -> bool {
    host.exec(script).unwrap().success()
}

fn plan(world: &World) -> Ran {
    world.converge(&["plan", "hosts.yaml"]).unwrap()
}

fn apply(world: &World) -> Ran {
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap()
}

fn role(world: &World, items: &str) {
    world.only_role("sick", &format!("resources:\n{items}")).unwrap();
}

/// A file in `/srv/sick`, then another that depends on nothing but its place in the list.
const FILES: &str = "  - name: first
    file: {path: /srv/sick/first, content: new}
  - name: second
    file: {path: /srv/second, content: new}
";

#[test]
fn a_read_only_file_system_is_reported_and_nothing_is_written() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "rm -f /srv/second; echo old >/srv/sick/first; mount --bind /srv/sick /srv/sick; mount -o remount,bind,ro /srv/sick",
    );
    role(&world, FILES);
    let ran = apply(&world);
    assert_eq!(exec(host, "cat /srv/sick/first; ls -A /srv/sick"), "old\nfirst");
    ran.says("sick/first")
        .says("Read-only file system")
        .says("skipped: depends on `sick/first` · sick/second")
        .expect(1);
    exec(host, "umount /srv/sick");
    apply(&world).expect(0);
    assert_eq!(exec(host, "cat /srv/sick/first /srv/second"), "newnew");
    plan(&world).expect(0);
}

#[test]
fn read_only_records_mean_no_change() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "rm -f /srv/second; mkdir -m 700 /var/lib/converge; mount --bind /var/lib/converge /var/lib/converge; mount -o remount,bind,ro /var/lib/converge",
    );
    role(&world, FILES);
    plan(&world).expect(2);
    let ran = apply(&world);
    assert!(!holds(host, "[ -e /srv/sick/first ] || [ -e /srv/second ]"), "{}", ran.all());
    ran.says("Read-only file system").says("/var/lib/converge").expect(4);
    exec(host, "umount -l /var/lib/converge");
    apply(&world).expect(0);
}

/// The plan of a rollback knows which contents the host has no more; the other files go back.
#[test]
fn a_saved_content_that_is_missing_or_damaged_is_known_to_the_plan_of_a_rollback() {
    let world = world();
    let host = &world.hosts()[0];
    let files = |content: &str| {
        let one = |name: &str| {
            format!("  - name: {name}\n    file: {{path: /srv/sick/{name}, content: \"{name} {content}\"}}\n")
        };
        role(&world, &["a", "b", "c", "d"].map(one).concat());
        apply(&world).expect(0);
    };
    files("one");
    files("two");
    exec(
        host,
        "cd /var/lib/converge/blobs; rm \"$(printf 'b one' | sha256sum | cut -c 1-64)\"; echo x >\"$(printf 'd one' | sha256sum | cut -c 1-64)\"",
    );
    let back = |verb: &[&str]| world.converge(&[&["rollback", "hosts.yaml"], verb].concat()).unwrap();
    back(&[]).says("2 to change").says("its saved content").says("is missing or damaged");
    back(&["--yes"]).says("is missing or damaged");
    assert_eq!(
        exec(host, "cd /srv/sick; cat a; echo; cat b; echo; cat c; echo; cat d"),
        "a one\nb two\nc one\nd two"
    );
}

/// A package that is installed on no host of the lab, with no dependencies, and a file after it.
const PACKAGE: &str = "  - name: package
    package: {name: sl}
  - name: after
    file: {path: /srv/after, content: new}
";

#[test]
fn apt_without_a_network_fails_by_name_and_later_goes_on() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get -qq purge -y sl >/dev/null 2>&1; apt-get clean; rm -f /srv/after");
    exec(
        host,
        "echo 'Acquire::http::Proxy \"http://127.0.0.1:9\"; Acquire::https::Proxy \"http://127.0.0.1:9\"; Acquire::Retries \"0\";' >/etc/apt/apt.conf.d/00-dead",
    );
    role(&world, PACKAGE);
    plan(&world).says("sl").expect(2);
    let ran = apply(&world);
    let installed = holds(host, "dpkg -s sl");
    exec(host, "rm /etc/apt/apt.conf.d/00-dead");
    assert!(!installed && !holds(host, "[ -e /srv/after ]"), "{}", ran.all());
    ran.says("sick/package")
        .says("127.0.0.1")
        .says("skipped: depends on `sick/package` · sick/after")
        .expect(1);
    assert!(!holds(host, "[ -e /usr/sbin/policy-rc.d ]"));
    apply(&world).expect(0);
    assert!(holds(host, "dpkg -s sl && [ -e /srv/after ]"));
}

/// A cloud image: the index is an item of the plan, and all is known and done within one run.
#[test]
fn without_a_package_index_it_is_fetched_first() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "apt-get -qq purge -y sl >/dev/null 2>&1; rm -rf /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial; rm -f /srv/after /var/cache/apt/*.bin",
    );
    role(&world, PACKAGE);
    plan(&world)
        .says("this host has no package index")
        .says("apt-get update")
        .says("2 to change, 1 deferred")
        .expect(2);
    assert!(holds(host, "! ls /var/lib/apt/lists/*_Packages* 2>/dev/null"), "the plan fetched it");
    apply(&world).expect(0);
    assert!(holds(host, "dpkg -s sl && [ -e /srv/after ]"));
    plan(&world).expect(0);
    // A package that no repository offers is an error before anything is changed, with a text file before it and an index
    // that is there.
    role(
        &world,
        "  - {name: text, file: {path: /srv/after, content: other}}\n  - {name: package, package: {name: hello-traditionl}}\n",
    );
    let planned = plan(&world);
    planned.says("apt offers no hello-traditionl").says("did you mean `hello-traditional`?").expect(1);
}

#[test]
fn what_an_interrupted_dpkg_has_left_is_configured_first() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "apt-get -qq purge -y sl >/dev/null 2>&1; rm -f /srv/after; cd /srv && apt-get -qq download sl >/dev/null 2>&1 && \
         dpkg --unpack sl_*.deb >/dev/null && rm sl_*.deb",
    );
    role(&world, PACKAGE);
    plan(&world).says("dpkg --configure -a").says("waits for sick/package: interrupted dpkg").expect(2);
    apply(&world).expect(0);
    assert!(holds(host, "[ -z \"$(dpkg --audit)\" ] && dpkg -s sl && [ -e /srv/after ]"));
    plan(&world).expect(0);
}

/// A file that apt reads before it decides takes effect as soon as it is written.
#[test]
fn a_pin_of_the_same_run_counts() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get -qq purge -y sl >/dev/null 2>&1; rm -f /srv/after");
    let pin = "  - name: pin
    file: {path: /etc/apt/preferences.d/sl, content: \"Package: sl\\nPin: release *\\nPin-Priority: -1\\n\"}
";
    role(&world, &format!("{pin}{PACKAGE}"));
    plan(&world)
        .says("the change of /etc/apt/preferences.d/sl, by which packages are chosen, may bring sl")
        .expect(2);
    apply(&world).says("apt offers no sl on this host").expect(1);
    assert!(!holds(host, "dpkg -s sl || [ -e /srv/after ]"));
    exec(host, "rm /etc/apt/preferences.d/sl");
}

/// However much a bare host lacks, it is asked three times at most.
#[test]
fn any_number_of_packages_users_and_keys_is_planned_in_three_rounds() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "apt-get -qq purge -y sl tree jq ufw nginx-light lsof >/dev/null 2>&1; ! id alice 2>/dev/null",
    );
    role(
        &world,
        "  - {name: alice, user: {name: alice}}
  - {name: home, directory: {path: /home/alice/a/b, owner: alice, parents: true}}
  - {name: ufw, package: {name: ufw}}
  - {name: rules, firewall: {rules: [{port: 22/tcp}], incoming: deny, enabled: true}}
  - {name: web, package: {name: nginx-light}}
  - {name: tools, package: {name: [tree, jq], hold: true}}
  - {name: bob, user: {name: bob, groups: [alice]}}
  - {name: more, package: {name: lsof}}
  - {name: less, package: {name: sl}}
",
    );
    // Files that apt writes even if it only reads: logs of its planner, caches.
    let written = "stat -c '%n %a %s %Y' /var/log/apt /var/log/apt/* /var/cache/apt /var/cache/apt/*.bin 2>/dev/null; true";
    exec(host, "touch /var/log/apt/eipp.log.xz; chmod 644 /var/log/apt/eipp.log.xz");
    let before = exec(host, written);
    let planned = world.converge(&["plan", "hosts.yaml", "-v"]).unwrap();
    assert_eq!(exec(host, written), before, "a plan changes nothing");
    assert!(!planned.all().contains("round 4"), "{}", planned.all());
    planned.says("round 1").says("libnginx-mod-http-echo").says("libjq1").expect(2);
    let left = exec(host, "ls -d /run/converge-plan.* /dev/shm/converge-plan.* 2>/dev/null || true");
    assert_eq!(left, "", "what the plan kept in memory is still there");
}

/// Holds dpkg's lock, as another apt would, for so many seconds.
fn hold_dpkg(host: &Host, seconds: u32) -> std::process::Child {
    let script = format!(
        "exec perl -MFcntl -e '$0 = \"unattended\"; open F, \">>\", \"/var/lib/dpkg/lock-frontend\"; \
         my $l = pack(\"s s l! l! i\", F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $l) or die; \
         open M, \">\", \"/srv/sick/held\"; close M; sleep {seconds}'"
    );
    let mut child = host.exec_command(&script).unwrap().spawn().unwrap();
    while !holds(host, "[ -e /srv/sick/held ]") {
        assert!(child.try_wait().unwrap().is_none(), "the lock is not held");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child
}

#[test]
fn a_lock_of_dpkg_is_waited_for() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get -qq purge -y sl >/dev/null 2>&1; rm -f /srv/after");
    role(&world, PACKAGE);
    let mut holder = hold_dpkg(host, 4);
    // A plan reads only, so it need not wait.
    plan(&world).says("sl").expect(2);
    let ran = apply(&world);
    holder.wait().unwrap();
    ran.says("sick/package").expect(0);
    assert!(holds(host, "dpkg -s sl"));
}

#[test]
fn a_package_that_cannot_be_configured_is_named_and_nothing_else_is_installed() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get -qq purge -y sl >/dev/null 2>&1; rm -f /srv/after");
    // The state after a power cut in the middle of an installation.
    exec(
        host,
        "mkdir -p /srv/sick/broken/DEBIAN; cd /srv/sick; \
         printf 'Package: broken\\nVersion: 1\\nArchitecture: all\\nMaintainer: nobody <n@example.org>\\nDescription: fails\\n' >broken/DEBIAN/control; \
         printf '#!/bin/sh\\n[ -e /srv/mended ]\\n' >broken/DEBIAN/postinst; chmod 755 broken/DEBIAN/postinst; \
         rm -f /srv/mended; dpkg-deb -b broken broken.deb >/dev/null; ! dpkg -i broken.deb >/dev/null 2>&1",
    );
    role(&world, PACKAGE);
    let ran = apply(&world);
    let half = exec(host, "dpkg-query -W -f '${Status}' broken");
    assert!(half.contains("half-configured"), "{half}");
    assert!(!holds(host, "dpkg -s sl || [ -e /srv/after ]"), "{}", ran.all());
    ran.says("broken").says("dpkg --configure -a").expect(1);
    exec(host, "touch /srv/mended; dpkg --configure -a >/dev/null");
    apply(&world).expect(0);
    exec(host, "dpkg -P broken >/dev/null; rm -f /srv/mended");
}

#[test]
fn a_wrong_clock_harms_neither_runs_nor_snapshots() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "apt-get -qq install -y libfaketime >/dev/null 2>&1");
    let library = exec(host, "find /usr/lib -name libfaketime.so.1");
    let unit = "  - name: conf
    file: {path: /srv/sick/conf, content: CONTENT}
  - name: unit
    unit: {name: sick, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\", state: started, restart_on: [conf]}
";
    // Years behind, then years ahead, for every program of a login: every run of it must still be a run.
    for (number, moment) in ["2001-09-09 01:46:40", "2049-09-09 01:46:40"].iter().enumerate() {
        exec(
            host,
            &format!(
                "cp /root/.bashrc /srv/bashrc; printf '%s\n' 'export LD_PRELOAD={library} FAKETIME=\"@{moment}\"' >/root/.bashrc"
            ),
        );
        let year = world.lab().ssh_command("root", host).arg("date +%Y").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&year.stdout).trim(), &moment[..4], "the clock is right");
        role(&world, &unit.replace("CONTENT", &format!("'{number}'")));
        let ran = apply(&world);
        let again = plan(&world);
        exec(host, "mv /srv/bashrc /root/.bashrc");
        ran.expect(0);
        again.expect(0);
        assert_eq!(exec(host, "cat /srv/sick/conf; systemctl is-active sick"), format!("{number}active"));
        plan(&world).expect(0);
    }
    let snapshots = world.converge(&["snapshots", "hosts.yaml", "--output", "json"]).unwrap().expect(0);
    let snapshots = snapshots.json().unwrap();
    assert_eq!(snapshots["hosts"][0]["runs"].as_array().unwrap().len(), 2, "{snapshots}");
    world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
    assert_eq!(exec(host, "cat /srv/sick/conf"), "0");
    world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
    assert!(!holds(host, "[ -e /srv/sick/conf ] || systemctl cat sick"));
}

#[test]
fn a_disk_that_fills_up_anywhere_leaves_old_or_new_and_can_be_rolled_back() {
    let world = world();
    let host = &world.hosts()[0];
    let files: String = (1..=4)
        .map(|n| {
            format!(
                "  - name: f{n}\n    file: {{path: /srv/sick/f{n}, content: \"{{{{ '{n}' * 9000 }}}}\"}}\n"
            )
        })
        .collect();
    role(&world, &files);
    let mut observed = std::collections::BTreeSet::new();
    for pages in 0..=14 {
        exec(
            host,
            "umount -l /srv/sick 2>/dev/null; rm -rf /var/lib/converge; mount -t tmpfs -o size=128k tmpfs /srv/sick; \
             for n in 1 2 3 4; do echo old >/srv/sick/f$n; done",
        );
        // So many pages of four KiB stay free.
        exec(host, &format!("dd if=/dev/zero of=/srv/sick/fill bs=4k count=$((28 - {pages})) 2>/dev/null"));
        let ran = apply(&world);
        let mut new = 0;
        for n in 1..=4 {
            let content = exec(host, &format!("cat /srv/sick/f{n}"));
            let whole = content == n.to_string().repeat(9000);
            assert!(
                whole || content == "old",
                "{pages} pages free: f{n} is neither old nor new: {}",
                ran.all()
            );
            new += usize::from(whole);
        }
        let names = exec(host, "ls -A /srv/sick");
        assert_eq!(names, "f1\nf2\nf3\nf4\nfill", "{pages} pages free");
        assert_eq!(ran.code, Some(if new == 4 { 0 } else { 1 }), "{pages} pages free: {}", ran.all());
        observed.insert(new);
        exec(host, "rm /srv/sick/fill; touch /srv/sick/fill");
        apply(&world).expect(0);
        plan(&world).expect(0);
        world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
        if new > 0 && new < 4 {
            world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
        }
        assert_eq!(
            exec(host, "cat /srv/sick/f1 /srv/sick/f2 /srv/sick/f3 /srv/sick/f4"),
            "old\nold\nold\nold"
        );
    }
    assert!(observed.len() > 2, "the disk filled up at too few places: {observed:?}");
    exec(host, "umount -l /srv/sick");
}

/// A program that fills the disk of the records to the last byte: the journal of the present run to the end of its page, then all other pages.
const FILL: &str = r#"cat >/usr/local/bin/fill <<'END'
#!/bin/sh
for alive in /var/lib/converge/runs/*/alive; do journal=${alive%alive}journal; done
room=$((8192 - $(stat -c %s "$journal") % 4096))
printf "note\t%$((room - 6))s\n" . >>"$journal"
dd if=/dev/zero of=/var/lib/converge/fill bs=4k 2>/dev/null
true
END
chmod 755 /usr/local/bin/fill"#;

/// Between two items the records cannot be written any more: in an apply, in a rollback, in a prune.
#[test]
fn what_was_done_and_cannot_be_recorded_is_reported_as_done_and_the_next_run_ends_it() {
    let world = world();
    let host = &world.hosts()[0];
    let fresh = || {
        exec(
            host,
            "umount -l /var/lib/converge 2>/dev/null; mkdir -p /var/lib/converge; mount -t tmpfs -o size=1m,mode=700 tmpfs /var/lib/converge",
        )
    };
    let restore = || exec(host, "rm /var/lib/converge/fill");
    exec(host, FILL);
    fresh();
    let reported = |ran: Ran| {
        assert_eq!(ran.code, Some(1), "{}", ran.all());
        ran.says("changed, but not recorded: /var/lib/converge cannot be written")
            .says("the next plan reads the state again")
    };
    let role = |run: &str, undo: &str| {
        format!(
            "  - name: below\n    file: {{path: /srv/sick/below, content: new}}\n  - name: made\n    \
             command: {{run: \"{run} touch /srv/sick/made\", creates: /srv/sick/made, undo: \"{undo} rm /srv/sick/made\"}}\n  \
             - name: above\n    file: {{path: /srv/sick/above, content: new}}\n"
        )
    };
    let files = "ls -A /srv/sick";
    self::role(&world, &role("fill;", ""));
    reported(apply(&world));
    assert_eq!(exec(host, files), "below\nmade", "nothing is begun that cannot be recorded");
    restore();
    // Its change is there, and is known to be managed.
    self::role(&world, &role("", "fill;"));
    let rest = plan(&world).expect(2);
    assert!(
        rest.all().contains("sick") && !rest.all().contains("create file /srv/sick/below"),
        "{}",
        rest.all()
    );
    apply(&world).expect(0);
    plan(&world).expect(0);
    assert_eq!(exec(host, files), "above\nbelow\nmade");
    // A rollback: behind the file above, the command's `undo` is done and not recorded.
    fresh();
    exec(host, "rm -rf /srv/sick/*");
    apply(&world).expect(0);
    let rollback = ["rollback", "--yes", "hosts.yaml"];
    reported(world.converge(&rollback).unwrap());
    assert_eq!(exec(host, files), "below");
    restore();
    world.converge(&rollback).unwrap().expect(0);
    assert_eq!(exec(host, files), "");
    world.converge(&rollback).unwrap().expect(0);
    // The same in a prune.
    fresh();
    apply(&world).expect(0);
    world.only_role("sick", "resources: []\n").unwrap();
    let prune = || {
        let command = world.prune_all().unwrap();
        world.converge(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
    };
    reported(prune());
    assert_eq!(exec(host, files), "below");
    restore();
    prune().expect(0);
    assert_eq!(exec(host, files), "");
    prune().expect(0);
    exec(host, "umount -l /var/lib/converge");
}
