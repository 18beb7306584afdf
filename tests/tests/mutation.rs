//! A change that a user makes between plan and apply is refused by name and left as it is: for every kind of object of a
//! host, with a saved plan, and between the question and its answer.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World, exec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::Stdio;

/// One item, and what a user does behind its back.
struct Case {
    /// Its role; each has its own, so that one refusal does not skip another.
    role: &'static str,
    item: &'static str,
    /// Words of the refusal that name the thing.
    named: &'static str,
    mutate: &'static str,
    /// It is still as a user made it.
    stays: &'static str,
    /// Everything as before the plan again.
    reset: &'static str,
}

const CASES: &[Case] = &[
    Case {
        role: "old_file",
        item: "file: {path: /srv/m/file, content: new}",
        named: "/srv/m/file",
        mutate: "echo theirs >/srv/m/file",
        stays: "grep -qx theirs /srv/m/file",
        reset: "echo old >/srv/m/file",
    },
    Case {
        role: "new_file",
        item: "file: {path: /srv/m/new, content: new}",
        named: "/srv/m/new",
        mutate: "echo theirs >/srv/m/new",
        stays: "grep -qx theirs /srv/m/new",
        reset: "rm -f /srv/m/new",
    },
    Case {
        role: "mode",
        item: "directory: {path: /srv/m/dir, mode: '0750'}",
        named: "/srv/m/dir",
        mutate: "chmod 711 /srv/m/dir",
        stays: "[ $(stat -c %a /srv/m/dir) = 711 ]",
        reset: "mkdir -p /srv/m/dir; chmod 755 /srv/m/dir",
    },
    Case {
        role: "a_link",
        item: "link: {path: /srv/m/link, target: /etc/hostname, force: true}",
        named: "/srv/m/link",
        mutate: "ln -sfn /etc/passwd /srv/m/link",
        stays: "[ $(readlink /srv/m/link) = /etc/passwd ]",
        reset: "ln -sfn /etc/issue /srv/m/link",
    },
    Case {
        role: "removal",
        item: "absent: {path: /srv/m/gone}",
        named: "/srv/m/gone",
        mutate: "echo theirs >/srv/m/gone",
        stays: "grep -qx theirs /srv/m/gone",
        reset: "echo old >/srv/m/gone",
    },
    Case {
        role: "an_edit",
        item: "line: {path: /srv/m/lines, line: ours}",
        named: "/srv/m/lines",
        mutate: "echo theirs >>/srv/m/lines",
        stays: "grep -qx theirs /srv/m/lines && ! grep -q ours /srv/m/lines",
        reset: "echo old >/srv/m/lines",
    },
    Case {
        role: "json",
        item: "structured: {path: /srv/m/x.json, set: {/ours: 1}}",
        named: "/srv/m/x.json",
        mutate: "echo '{\"theirs\": 1}' >/srv/m/x.json",
        stays: "grep -q theirs /srv/m/x.json && ! grep -q ours /srv/m/x.json",
        reset: "echo '{}' >/srv/m/x.json",
    },
    Case {
        role: "a_user",
        item: "user: {name: mutuser, shell: /bin/bash}",
        named: "mutuser",
        mutate: "useradd -u 4555 -s /bin/sh mutuser",
        stays: "getent passwd mutuser | grep -q ':4555:.*:/bin/sh$'",
        reset: "userdel mutuser 2>/dev/null || :",
    },
    Case {
        role: "a_password",
        item: "user: {name: mutpass, password_hash: '$6$oursaltours$ours'}",
        named: "mutpass",
        mutate: "echo 'mutpass:$6$theirs$theirs' | chpasswd -e",
        stays: "grep -q '^mutpass:.6.theirs.theirs:' /etc/shadow",
        reset: "id mutpass >/dev/null 2>&1 || useradd mutpass; echo 'mutpass:$6$old$old' | chpasswd -e",
    },
    Case {
        role: "a_group",
        item: "group: {name: mutgroup, gid: 4600}",
        named: "mutgroup",
        mutate: "groupadd -g 4700 mutgroup",
        stays: "getent group mutgroup | grep -q :4700:",
        reset: "groupdel mutgroup 2>/dev/null || :",
    },
    Case {
        role: "a_package",
        item: "package: {name: tree, state: absent}",
        named: "tree",
        mutate: "apt-mark hold tree >/dev/null",
        stays: "dpkg -s tree | grep -q '^Status: hold ok installed'",
        reset: "apt-mark unhold tree >/dev/null; apt-get install -qq -y tree >/dev/null 2>&1",
    },
    Case {
        role: "a_unit",
        item: "service: {name: mutidle, state: started}",
        named: "mutidle",
        mutate: "systemctl -q enable mutidle 2>/dev/null",
        stays: "systemctl is-enabled mutidle && ! systemctl is-active mutidle",
        reset: "systemctl -q disable --now mutidle 2>/dev/null",
    },
    Case {
        role: "a_parameter",
        item: "sysctl: {name: net.core.somaxconn, value: 7000}",
        named: "net.core.somaxconn",
        mutate: "echo 7777 >/proc/sys/net/core/somaxconn",
        stays: "grep -qx 7777 /proc/sys/net/core/somaxconn",
        reset: "echo 4096 >/proc/sys/net/core/somaxconn; rm -f /etc/sysctl.d/*somaxconn*",
    },
    Case {
        role: "a_command",
        item: "command: {run: 'echo ours >/srv/m/made', creates: /srv/m/made, undo: rm /srv/m/made}",
        named: "a_command",
        mutate: "echo theirs >/srv/m/made",
        stays: "grep -qx theirs /srv/m/made",
        reset: "rm -f /srv/m/made",
    },
    Case {
        role: "a_mount",
        item: "mount: {path: /srv/m/mnt, source: tmpfs, fstype: tmpfs, options: [size=64k]}",
        named: "/srv/m/mnt",
        mutate: "mount -t tmpfs -o size=128k theirs /srv/m/mnt; touch /srv/m/mnt/theirs",
        stays: "[ -e /srv/m/mnt/theirs ]",
        reset: "umount /srv/m/mnt 2>/dev/null; mkdir -p /srv/m/mnt; sed -i '\\,/srv/m/mnt,d' /etc/fstab",
    },
    Case {
        role: "a_hostname",
        item: "hostname: {name: ours}",
        named: "hostname",
        mutate: "hostname theirs",
        stays: "[ $(hostname) = theirs ]",
        reset: "hostname h1; echo h1 >/etc/hostname",
    },
    Case {
        role: "a_disk",
        item: "filesystem: {device: /srv/m/disk, fstype: ext4}",
        named: "/srv/m/disk",
        mutate: "mkfs.ext3 -qF /srv/m/disk",
        stays: "[ $(blkid -p -o value -s TYPE /srv/m/disk) = ext3 ]",
        reset: "rm -f /srv/m/disk; truncate -s 16M /srv/m/disk",
    },
    Case {
        role: "a_locale",
        item: "locale: {names: de_DE.UTF-8}",
        named: "de_DE.UTF-8",
        mutate: "localedef -i de_DE -f UTF-8 de_DE.UTF-8",
        stays: "localedef --list-archive | grep -qx de_DE.utf8 && ! grep -q '^de_DE' /etc/locale.gen",
        reset: "localedef --delete-from-archive de_DE.utf8 2>/dev/null; sed -i 's/^de_DE/# &/' /etc/locale.gen",
    },
    Case {
        role: "a_checkout",
        item: "git: {repo: /srv/m/origin, dest: /srv/m/checkout, version: master}",
        named: "/srv/m/checkout",
        mutate: "git clone -q /srv/m/origin /srv/m/checkout && git -C /srv/m/checkout checkout -q --detach HEAD~1",
        stays: "[ \"$(git -C /srv/m/checkout rev-parse HEAD)\" = \"$(git -C /srv/m/origin rev-parse HEAD~1)\" ]",
        reset: "rm -rf /srv/m/checkout",
    },
    Case {
        role: "a_firewall",
        item: "firewall: {rules: [{port: 9100/tcp}]}",
        named: "firewall",
        mutate: "ufw allow 9200/tcp >/dev/null",
        stays: "ufw show added | grep -q 9200 && ! ufw show added | grep -q 9100",
        reset: "ufw --force reset >/dev/null",
    },
];

/// Kinds of objects that a container cannot really have, with what stands for the proof.
const NOT_HERE: &[(&str, &str)] = &[
    ("boot", "a restart for a reason: nobody can make one that was not, or undo one that was"),
    ("snap", "the test hosts have no snapd"),
    ("module", "the kernel of a container takes no modules"),
    ("swap", "a container may not turn swap on"),
    (
        "apt_lists",
        "it knows only whether lists are there: nothing that somebody could change into something else",
    ),
    ("rpm_key", "of a host of rpm: packages/rpm_repositories.rs"),
    ("rpm_metadata", "of a host of rpm, as apt_lists: packages/rpm_repositories.rs"),
    ("apt_index", "a copy of what repositories offer: one that somebody has refreshed will do"),
    (
        "dpkg",
        "what an interrupted run left: somebody who has configured it has done the same, see unhealthy_hosts.rs",
    ),
    ("k8s", "of a cluster: crates/cluster/tests/objects.rs"),
    ("release", "of a cluster: crates/cluster/tests/releases.rs"),
    ("workload", "of a cluster, and only restarted: crates/cluster/tests/rollouts.rs"),
    ("condition", "of a cluster, and never changed"),
    ("fetched", "it lies on the machine that runs converge: kinds_files.rs"),
    ("container_image", "of a containerd, which these hosts have not: k8s_nodes.rs"),
    ("kubeadm_certificates", "of a cluster that kubeadm has made, and renewed for a reason: k8s_nodes.rs"),
    ("kubeadm_control_plane", "of a control plane that kubeadm has made: k8s_nodes.rs"),
    ("kubeadm_config", "of a cluster that kubeadm has made: k8s_nodes.rs"),
    ("kubeadm_upgrade", "of a cluster that kubeadm has made: k8s_role.rs"),
    ("k8s_snap", "only a bootstrap or a join, as of kubeadm: k8s_role.rs"),
    ("kubeadm", "only an init or a join, which a host that somebody made a node refuses: k8s_role.rs"),
];

const PREPARE: &str = "set -e; apt-get install -qq -y tree git ufw locales >/dev/null 2>&1; mkdir -p /srv/m /etc/systemd/system
printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/mutidle.service
systemctl daemon-reload
git config --global user.email t@example.org; git config --global user.name T; git init -q -b master /srv/m/origin; cd /srv/m/origin
echo 1 >a; git add a; git commit -qm one; echo 2 >a; git commit -qam two";

fn world() -> World {
    let world = World::new(&format!("t-mutate-{}", std::process::id()), 1).unwrap();
    exec(&world.hosts()[0], PREPARE);
    let mut playbook = "- hosts: lab\n  roles:\n".to_owned();
    for case in CASES {
        let role = format!("resources:\n  - name: thing\n    {}\n", case.item);
        world.write(&format!("roles/{}/role.yaml", case.role), &role).unwrap();
        playbook.push_str(&format!("    - {}\n", case.role));
    }
    world.write("playbooks/site.yaml", &playbook).unwrap();
    world
}

fn reset(host: &Host) {
    for case in CASES {
        exec(host, &format!("{{ {}; }}; true", case.reset));
    }
}

fn mutate(host: &Host) {
    for case in CASES {
        exec(host, case.mutate);
    }
}

/// Every item is refused by name, and everything is as a user made it.
fn all_refused(host: &Host, ran: &Ran, wrong: &mut Vec<String>) {
    for case in CASES {
        let text = ran.all();
        // A plan shows the role above its items, an apply the whole address.
        let address = format!("{}/thing", case.role);
        let starts =
            |line: &str| line.trim() == case.role || line.contains("refused") && line.contains(&address);
        let lines: Vec<&str> = text.lines().collect();
        let reply = (0..lines.len())
            .filter(|at| starts(lines[*at]))
            .map(|at| lines.iter().skip(at).take(3).copied().collect::<Vec<_>>().join(" "))
            .find(|reply| reply.contains("refused"));
        if !reply.as_ref().is_some_and(|s| s.contains(case.named)) {
            wrong.push(format!("{}: the refusal does not name {}: {reply:?}", case.role, case.named));
        }
        if !host.exec(case.stays).unwrap().success() {
            wrong.push(format!("{}: what somebody made is overwritten", case.role));
        }
    }
    if ran.code != Some(4) || !wrong.is_empty() {
        wrong.push(format!("exit code {:?}: {}", ran.code, ran.all()));
    }
}

/// Answers the question of an apply only after a user has changed everything.
fn answered_late(world: &World, host: &Host) -> Ran {
    let binary = converge_tests::binary().unwrap();
    let mut command = std::process::Command::new("script");
    command
        .args(["-qfec", &format!("{} apply hosts.yaml --no-color", binary.display()), "/dev/null"])
        .current_dir(world.dir())
        .env("HOME", world.dir())
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut text = Vec::new();
    let mut part = [0; 4096];
    let mut asked = false;
    loop {
        let size = stdout.read(&mut part).unwrap();
        if size == 0 {
            break;
        }
        text.extend_from_slice(&part[..size]);
        if !asked && String::from_utf8_lossy(&text).contains("[y/N]") {
            asked = true;
            mutate(host);
            stdin.write_all(b"y\n").unwrap();
        }
    }
    let code = child.wait().unwrap().code();
    assert!(asked, "no question: {}", String::from_utf8_lossy(&text));
    Ran { code, stdout: String::from_utf8_lossy(&text).replace('\r', ""), stderr: String::new() }
}

#[test]
fn a_mutation_between_plan_and_apply_is_refused_for_every_kind() {
    let world = world();
    let host = &world.hosts()[0];
    let mut wrong = Vec::new();
    reset(host);
    let plan = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap().expect(2).json().unwrap();
    let items = plan["hosts"][0]["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["result"] == "change"), "{plan:#}");
    let kinds: BTreeSet<&str> = items
        .iter()
        .flat_map(|item| item["changes"].as_array().unwrap())
        .filter_map(|change| change["object"]["kind"].as_str())
        .chain(NOT_HERE.iter().map(|(kind, _)| *kind))
        .collect();
    let all: BTreeSet<&str> = converge_objects::objects().iter().map(|object| object.kind()).collect();
    assert_eq!(kinds, all, "a kind of object without a mutation");

    world.converge(&["plan", "hosts.yaml", "--out", "kept.plan"]).unwrap().expect(2);
    mutate(host);
    let ran = world.converge(&["apply", "kept.plan", "--yes"]).unwrap();
    all_refused(host, &ran, &mut wrong);

    reset(host);
    let ran = answered_late(&world, host);
    all_refused(host, &ran, &mut wrong);

    // Undisturbed, the same roles go through: the refusals were for the mutations.
    reset(host);
    let report = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap().expect(0);
    let report = report.json().unwrap();
    let changed = |item: &&Value| item["result"] == "changed";
    assert_eq!(report["hosts"][0]["items"].as_array().unwrap().iter().filter(changed).count(), CASES.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
