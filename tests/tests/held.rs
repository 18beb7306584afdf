//! Directories and file systems in memory that hold something of others: a rollback and a prune leave them, and name what they hold.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{Ran, World, exec, prune_by_number};

#[path = "held/memory.rs"]
mod memory;

const ROLE: &str = "
resources:
  - name: folder
    directory: {path: /srv/a}
  - name: point
    directory: {path: /mnt/a}
  - name: memory
    mount: {path: /mnt/a, source: tmpfs, fstype: tmpfs}
  - name: inside
    file: {path: /mnt/a/own, content: own}
";

#[test]
fn what_others_have_in_it_keeps_a_directory_and_a_file_system_in_memory() {
    let world = World::new("held", 1).unwrap();
    let host = &world.hosts()[0];
    let apply = || {
        world.only_role("held", ROLE).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    };
    let mounted = || exec(host, "grep -c ' /mnt/a tmpfs ' /proc/mounts || :") == "1";
    let rollback = || world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
    apply();
    exec(host, "echo F >/srv/a/foreign; echo F >/mnt/a/foreign");
    let left = rollback().expect(4);
    for named in ["it holds /srv/a/foreign", "it holds /mnt/a/foreign"] {
        assert!(left.all().contains(named), "{}", left.all());
    }
    assert!(mounted());
    assert_eq!(
        exec(host, "cat /srv/a/foreign /mnt/a/foreign; ls /mnt/a /srv/a"),
        "F\nF\n/mnt/a:\nforeign\n\n/srv/a:\nforeign"
    );
    exec(host, "rm /srv/a/foreign /mnt/a/foreign");
    rollback().expect(0);
    assert!(!mounted());
    assert_eq!(exec(host, "ls -d /srv/a /mnt/a 2>/dev/null || :"), "");
    // The same where no role declares it any more.
    apply();
    exec(host, "echo F >/srv/a/foreign; echo F >/mnt/a/foreign");
    world.only_role("held", "resources: []\n").unwrap();
    let prune = || {
        let prune = world.prune_all().unwrap();
        world.converge(&prune.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().all()
    };
    let reply = prune();
    assert!(
        reply.contains("it holds /srv/a/foreign") && reply.contains("it holds /mnt/a/foreign"),
        "{reply}"
    );
    assert!(mounted());
    exec(host, "rm /srv/a/foreign /mnt/a/foreign");
    prune();
    assert!(!mounted());
    assert_eq!(exec(host, "ls -d /srv/a /mnt/a 2>/dev/null || :"), "");
}

/// A command mounts a directory over a file that the run has written; the file of that name in the mounted one is of others.
const OVER: &str = "
resources:
  - name: below
    file: {path: /srv/m/x, content: v}
  - name: line
    line: {path: /srv/m/u, line: v}
  - name: c
    command: {run: mount --bind /srv/n /srv/m, unless: findmnt -M /srv/m}
  - name: inside
    file: {path: /srv/m/g, content: v}
";

#[test]
fn a_command_that_mounts_over_files_of_the_run_hides_them_until_the_rollback_unmounts_it() {
    let world = World::new("over", 1).unwrap();
    let host = &world.hosts()[0];
    let all = || exec(host, "cd /srv; for f in m/* n/*; do echo $f $(cat $f); done");
    for undo in ["", ", undo: umount /srv/m"] {
        exec(host, "mkdir -p /srv/m /srv/n; echo under >/srv/m/u; echo theirs >/srv/n/x; echo n >/srv/n/u");
        let before = all();
        world
            .only_role(
                "over",
                &OVER.replace(" /srv/m}\n  - name: inside", &format!(" /srv/m{undo}}}\n  - name: inside")),
            )
            .unwrap();
        // The files that the run has written are out of sight in the end, and it says so.
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1).says("over/below");
        assert_eq!(all(), "m/g v\nm/u n\nm/x theirs\nn/g v\nn/u n\nn/x theirs");
        world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
        assert_eq!(all(), before);
        assert_eq!(exec(host, "findmnt -M /srv/m || :"), "");
        exec(host, "rm -rf /srv/m /srv/n");
    }
}

/// A command leads a link elsewhere, above files that the run has written.
const LED: &str = "
resources:
  - name: old
    file: {path: /srv/l/f, content: v}
  - name: nowhere
    file: {path: /srv/l/e, content: v}
  - name: line
    line: {path: /srv/l/a, line: v}
  - name: c
    command: {run: ln -sfn /srv/B /srv/l, unless: test $(readlink /srv/l) = /srv/B}
  - name: new
    file: {path: /srv/l/g, content: v}
";

#[test]
fn a_command_that_leads_a_link_elsewhere_hides_the_files_of_the_run_until_the_rollback_leads_it_back() {
    let world = World::new("led", 1).unwrap();
    let host = &world.hosts()[0];
    let all = || exec(host, "cd /srv; readlink l; for f in A/* B/*; do echo $f $(cat $f); done");
    let by_command = |undo: &str| LED.replace("= /srv/B}", &format!("= /srv/B{undo}}}"));
    let by_link = LED.lines().map(|line| match line {
        line if line.starts_with("    command:") => "    link: {path: /srv/l, target: /srv/B}",
        line => line,
    });
    let by_link = by_link.collect::<Vec<_>>().join("\n");
    for role in [by_command(""), by_command(", undo: ln -sfn /srv/A /srv/l"), by_link] {
        exec(
            host,
            "mkdir -p /srv/A /srv/B; echo a0 >/srv/A/a; echo b0 >/srv/B/a; echo v >/srv/B/f; ln -sfn /srv/A /srv/l",
        );
        let before = all();
        world.only_role("led", &role).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1).says("led/line");
        assert_eq!(all(), "/srv/B\nA/a a0 v\nA/e v\nA/f v\nB/a b0\nB/f v\nB/g v");
        world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
        assert_eq!(all(), before);
        exec(host, "rm -rf /srv/A /srv/B /srv/l");
    }
}

/// A command puts a link in the place of a directory that holds files of the run.
#[test]
fn a_command_that_replaces_a_directory_by_a_link_hides_the_files_of_the_run_until_the_directory_is_back() {
    let world = World::new("replaced", 1).unwrap();
    let host = &world.hosts()[0];
    let all = || {
        exec(host, "cd /srv; readlink l; for f in l.old/* l/* B/*; do [ ! -f $f ] || echo $f $(cat $f); done")
    };
    for undo in ["", ", undo: rm /srv/l && mv /srv/l.old /srv/l"] {
        exec(host, "mkdir -p /srv/l /srv/B; echo a0 >/srv/l/a; echo b0 >/srv/B/a; echo v >/srv/B/f");
        let before = all();
        let run = "mv /srv/l /srv/l.old && ln -s /srv/B /srv/l";
        let role = LED.replace("ln -sfn /srv/B /srv/l,", &format!("{run},"));
        let role = role.replace("test $(readlink /srv/l) = /srv/B}", &format!("test -L /srv/l{undo}}}"));
        world.only_role("led", &role).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1).says("led/line");
        assert_eq!(exec(host, "cd /srv; cat l/a l.old/a l/g | xargs"), "b0 a0 v v");
        let rollback = || world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
        if undo.is_empty() {
            // Nothing is taken for another file, nor forgotten.
            let left = rollback().expect(4).all();
            for object in
                ["/srv/l: a command put a link", "/srv/l/f: it lies in the directory", "/srv/l/a: it lies in"]
            {
                assert!(left.contains(object), "{object}: {left}");
            }
            assert_eq!(exec(host, "cd /srv; cat B/a B/f l.old/a l.old/f | xargs; ls B"), "b0 v a0 v v\na\nf");
            exec(host, "rm /srv/l; mv /srv/l.old /srv/l");
        }
        rollback().expect(0);
        assert_eq!(all(), before);
        exec(host, "rm -rf /srv/l /srv/B");
    }
}

/// Two projects mount something: of `/etc/fstab` each takes back its own lines, and no line of the other.
#[test]
fn each_project_takes_back_its_own_lines_of_fstab() {
    let world = World::new("fstab", 1).unwrap();
    let host = &world.hosts()[0];
    exec(host, "printf '# disks\\n' >/etc/fstab");
    let run = |name: &str, args: &[&str], role: Option<&str>| {
        let file = format!("{name}.yaml");
        world.write(&file, &world.inventory(&format!("converge_project: {name}"))).unwrap();
        if let Some(role) = role {
            world.only_role(name, role).unwrap();
        }
        world.converge(&[args, &[file.as_str()]].concat()).unwrap()
    };
    let mount = |at: &str, option: &str| {
        format!("  - mount: {{path: {at}, source: tmpfs, fstype: tmpfs, options: [size=1M, {option}]}}\n")
    };
    let apply = |name: &str, role: &str| {
        let role = format!("resources:\n{role}");
        drop(run(name, &["apply", "--yes"], Some(&role)).expect(0));
    };
    let lines = || exec(host, "grep -v '^#' /etc/fstab | cut -d' ' -f2,4 | sort | xargs");
    let mounted =
        |at: &str| exec(host, &format!("findmnt -nM {at} -o OPTIONS | grep -o 'nosuid\\|nodev' || :"));
    apply("pb", &mount("/mnt/b", "nosuid"));
    apply("pa", &mount("/mnt/a", "nosuid"));
    apply("pb", &mount("/mnt/b", "nodev"));
    apply("pa", &(mount("/mnt/a", "nosuid") + &mount("/mnt/c", "nosuid")));
    assert_eq!(lines(), "/mnt/a size=1M,nosuid /mnt/b size=1M,nodev /mnt/c size=1M,nosuid");
    run("pb", &["rollback", "--yes"], None).expect(0);
    assert_eq!(lines(), "/mnt/a size=1M,nosuid /mnt/b size=1M,nosuid /mnt/c size=1M,nosuid");
    assert_eq!(mounted("/mnt/b"), "nosuid");
    // Of its two mounts, the second project gives one up.
    run("pa", &["apply", "--yes", "--prune=2"], Some(&format!("resources:\n{}", mount("/mnt/a", "nosuid"))))
        .expect(0);
    assert_eq!(lines(), "/mnt/a size=1M,nosuid /mnt/b size=1M,nosuid");
    assert_eq!(mounted("/mnt/c"), "");
    run("pb", &["rollback", "--yes"], None).expect(0);
    assert_eq!((lines().as_str(), mounted("/mnt/b").as_str()), ("/mnt/a size=1M,nosuid", ""));
    apply("pb", &mount("/mnt/b", "nosuid"));
    run("pa", &["apply", "--yes", "--prune=2"], Some("resources: []\n")).expect(0);
    assert_eq!((lines().as_str(), mounted("/mnt/a").as_str()), ("/mnt/b size=1M,nosuid", ""));
    let plan = run("pa", &["plan"], None).expect(0).all();
    assert!(!plan.contains("orphaned"), "{plan}");
    // A line that somebody has changed stays, and so does its mount.
    exec(host, "sed -i s/nosuid/noexec/ /etc/fstab");
    let newest = "$(grep -l '^scope.pb:' /var/lib/converge/runs/*/meta | tail -n1 | cut -d/ -f6)";
    let undone = exec(host, &format!("sh /var/lib/converge/undo.sh {newest} 2>&1 || :"));
    assert!(undone.contains("mount:/mnt/b: its line in /etc/fstab stays"), "{undone}");
    assert_eq!(mounted("/mnt/b"), "nosuid");
    let left = run("pb", &["rollback", "--yes"], None).expect(4).all();
    assert!(left.contains("mount:/mnt/b: "), "{left}");
    assert_eq!((lines().as_str(), mounted("/mnt/b").as_str()), ("/mnt/b size=1M,noexec", "nosuid"));
    exec(host, "sed -i s/noexec/nosuid/ /etc/fstab");
    run("pb", &["rollback", "--yes"], None).expect(0);
    assert_eq!(exec(host, "cat /etc/fstab"), "# disks");
}

/// A command fills the file system of the records. What later items change was saved before it ran, so they go on, and all of it can be rolled back.
#[test]
fn what_was_saved_before_a_command_fills_the_disk_is_changed_and_rolled_back() {
    let world = World::new("filled", 1).unwrap();
    let host = &world.hosts()[0];
    exec(host, "mkdir -m 700 /var/lib/converge; mount -t tmpfs -o size=8m,mode=700 tmpfs /var/lib/converge");
    let role = |version: &str| {
        let run = "test ! -e /run/arm || { touch /run/saved-$(cat /var/lib/converge/blobs/* | grep -c 'f one\\\\|e one'); cat /dev/zero >/var/lib/converge/fill; true; }";
        let role = format!(
            "resources:\n  - name: c\n    command: {{run: \"{run}; touch /run/c-{version}\", creates: /run/c-{version}, undo: rm /run/c-{version}}}\n  - file: {{path: /srv/f, content: \"f {version}\\n\"}}\n  - line: {{path: /srv/e, create: true, line: e {version}, regexp: ^e}}\n"
        );
        world.only_role("filled", &role).unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap()
    };
    role("one").expect(0);
    exec(host, "touch /run/arm");
    role("two").expect(0);
    assert_eq!(
        exec(
            host,
            "cat /srv/f /srv/e; ls /run/saved-*; [ $(df --output=avail /var/lib/converge | tail -n1) -lt 100 ] && echo full"
        ),
        "f two\ne two\n/run/saved-2\nfull"
    );
    exec(host, "rm /var/lib/converge/fill /run/arm");
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(exec(host, "cat /srv/f /srv/e; ls /run/c-*"), "f one\ne one\n/run/c-one");
}

/// Prunes all of a project.
fn prune_all_of(world: &World, name: &str) -> Ran {
    prune_by_number(|option| world.of_project(name, &["apply", "--yes", option], Some("  []\n")).unwrap())
}

const MOUNT_A: &str = "  - mount: {path: /mnt/a, source: tmpfs, fstype: tmpfs, options: size=1M}\n";
const MOUNT_B: &str = "  - mount: {path: /mnt/b, source: tmpfs, fstype: tmpfs, options: size=1M}\n";
const LINE_X: &str = "  - line: {path: /etc/fstab, line: tmpfs /mnt/x tmpfs noauto 0 0}\n";
const BLOCK_Y: &str =
    "  - block: {path: /etc/fstab, block: \"# hello\\n\\ntmpfs /mnt/y tmpfs noauto 0 0\\n\"}\n";

/// Lines that one project has taken back stay so when the other one rolls back or prunes, in any order, comments among it.
#[test]
fn a_project_brings_no_lines_of_fstab_back_that_another_one_has_taken_back() {
    let world = World::new("lines", 1).unwrap();
    let host = &world.hosts()[0];
    let orders = [["pa", "pb"], ["pb", "pa"]];
    for (order, way) in orders.iter().flat_map(|order| [(order, "rollback"), (order, "prune")]) {
        exec(host, "printf '# orig\n' >/etc/fstab");
        for (name, role) in [("pa", [MOUNT_A, LINE_X].concat()), ("pb", [BLOCK_Y, MOUNT_B].concat())] {
            world.of_project(name, &["apply", "--yes"], Some(&role)).unwrap().expect(0);
        }
        for name in order {
            match way {
                "prune" => prune_all_of(&world, name),
                _ => world.of_project(name, &["rollback", "--yes"], None).unwrap(),
            }
            .expect(0);
        }
        assert_eq!(
            exec(host, "cat /etc/fstab; findmnt -M /mnt/a; findmnt -M /mnt/b || :"),
            "# orig",
            "{order:?} {way}"
        );
        // A rollback leaves the roles as they are.
        for name in order.iter().filter(|_| way == "prune") {
            let plan = world.of_project(name, &["plan"], None).unwrap().expect(0).all();
            assert!(!plan.contains("orphaned"), "{order:?} {name}: {plan}");
        }
    }
}

/// A mount that holds what is not reverted stays, with its line; when that has gone, so do both.
#[test]
fn a_mount_that_stays_keeps_its_line_and_goes_when_nothing_is_in_it_any_more() {
    let world = World::new("kept", 1).unwrap();
    let host = &world.hosts()[0];
    let lines = || exec(host, "cut -d' ' -f2 /etc/fstab | xargs");
    let mounted = || exec(host, "awk '$2 ~ /^.mnt.[abc]$/ {print $2}' /proc/mounts | sort | xargs");
    for (role, left) in [
        (MOUNT_A.to_owned(), "/mnt/a"),
        ([MOUNT_A, MOUNT_B].concat(), "/mnt/a"),
        ([MOUNT_B, MOUNT_A].concat(), "/mnt/a"),
    ] {
        for way in ["rollback", "prune"] {
            exec(host, "printf '' >/etc/fstab");
            world.of_project("pa", &["apply", "--yes"], Some(&role)).unwrap().expect(0);
            world
                .of_project("pb", &["apply", "--yes"], Some("  - file: {path: /mnt/a/bf, content: b}\n"))
                .unwrap()
                .expect(0);
            let back = |code| {
                let ran = match way {
                    "prune" => prune_all_of(&world, "pa"),
                    _ => world.of_project("pa", &["rollback", "--yes"], None).unwrap(),
                };
                ran.expect(code).all()
            };
            let reply = back(4);
            assert!(reply.contains("it holds /mnt/a/bf"), "{reply}");
            assert_eq!((lines(), mounted()), (left.to_owned(), left.to_owned()), "{role} {way}");
            world.of_project("pb", &["rollback", "--yes"], None).unwrap().expect(0);
            back(0);
            assert_eq!((lines(), mounted()), (String::new(), String::new()), "{role} {way}");
        }
    }
}

/// A host that stays in its cluster keeps all that its role has made there, in the run of the node and in those before it: `undo.sh` says why, and takes back what other roles made.
#[test]
fn undo_sh_keeps_all_that_a_node_stands_on() {
    let world = World::new("held-node", 1).unwrap();
    let host = &world.hosts()[0];
    // It leaves the files of a control plane.
    exec(
        host,
        "cat >/usr/local/bin/kubeadm <<'END'
#!/bin/sh
[ \"$1\" = init ] || exit 1
mkdir -p /etc/kubernetes/manifests /etc/kubernetes/pki
echo '    server: https://10.0.0.1:6443' | tee /etc/kubernetes/admin.conf >/etc/kubernetes/kubelet.conf
touch /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/pki/ca.crt
END
chmod 755 /usr/local/bin/kubeadm",
    );
    let first = "resources:
  - name: folder
    directory: {path: /etc/stand}
  - name: settings
    file: {path: /etc/stand/first, content: x}
";
    let more = "  - name: more settings
    file: {path: /etc/stand/second, content: x}
  - name: account
    user: {name: stand}
  - name: program
    package: {name: tree}
  - name: daemon
    unit: {name: stand, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\"}
  - name: runs
    service: {name: stand, state: started}
  - name: the cluster
    kubeadm:
      endpoint: 10.0.0.1:6443
      init:
        config:
          - {apiVersion: kubeadm.k8s.io/v1beta4, kind: ClusterConfiguration, kubernetesVersion: v1.36.2, controlPlaneEndpoint: \"10.0.0.1:6443\"}
  - name: settings of the node
    file: {path: /etc/stand/third, content: x}
";
    for (node, other) in [(first.to_owned(), "a"), (format!("{first}{more}"), "b")] {
        world.write("roles/node/role.yaml", &node).unwrap();
        world
            .write(
                "roles/other/role.yaml",
                &format!("resources:\n  - file: {{path: /srv/{other}, content: x}}\n"),
            )
            .unwrap();
        world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [node, other]\n").unwrap();
        world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    }
    let stands = || {
        exec(
            host,
            "cd /etc/stand; ls; systemctl is-active stand; id -un stand; command -v tree; ls /etc/kubernetes /etc/systemd/system/stand.service",
        )
    };
    let before = stands();
    // Files of other roles go, run by run; then nothing is left that can.
    for (reply, srv) in
        [("restored       path:/srv/b", "a"), ("restored       path:/srv/a", ""), ("LEFT ALONE", "")]
    {
        let undone = exec(host, "sh /var/lib/converge/undo.sh 2>&1; echo \"ended with $?\"");
        assert!(undone.contains(reply) && undone.ends_with("ended with 1"), "{undone}");
        assert!(!undone.contains("FAILED") && undone.contains("belongs to it: left alone"), "{undone}");
        assert_eq!((stands(), exec(host, "ls /srv").as_str()), (before.clone(), srv), "{undone}");
    }
    let newest = exec(host, "sh /var/lib/converge/undo.sh --list | tail -n 1 | cut -d' ' -f1");
    let undone =
        exec(host, &format!("sh /var/lib/converge/undo.sh --force {newest} 2>&1; echo \"ended with $?\""));
    let node = "LEFT ALONE     kubeadm:node: the host stays in its cluster (control-plane 10.0.0.1:6443)";
    assert!(undone.contains(node) && undone.ends_with("ended with 1"), "{undone}");
    assert_eq!(stands(), before, "{undone}");
    // The host has left its cluster: all of it goes.
    exec(host, "rm -r /etc/kubernetes");
    for _ in 0..2 {
        let undone = exec(host, "sh /var/lib/converge/undo.sh 2>&1; echo \"ended with $?\"");
        assert!(undone.ends_with("ended with 0"), "{undone}");
    }
    assert_eq!(
        exec(host, "ls -d /etc/stand /usr/bin/tree /home/stand 2>/dev/null; systemctl is-active stand || :"),
        "inactive"
    );
}

/// A mount that somebody has mounted anew with other options stays, and so does its line, by all three ways.
#[test]
fn a_mount_that_somebody_has_changed_keeps_its_line() {
    let world = World::new("remounted", 1).unwrap();
    let host = &world.hosts()[0];
    let lines = || exec(host, "cut -d' ' -f2 /etc/fstab | xargs");
    for way in ["rollback", "prune", "undo.sh"] {
        exec(host, "printf '' >/etc/fstab");
        world.of_project("pa", &["apply", "--yes"], Some(MOUNT_A)).unwrap().expect(0);
        exec(host, "mount -o remount,ro,size=2m /mnt/a");
        let back = |is_left: bool| {
            let code = if is_left { 4 } else { 0 };
            match way {
                "undo.sh" => {
                    let ran = host.exec("sh /var/lib/converge/undo.sh 2>&1").unwrap();
                    assert_eq!(ran.status, Some(i32::from(is_left)), "{}", ran.stdout);
                    ran.stdout
                }
                "prune" => prune_all_of(&world, "pa").expect(code).all(),
                _ => world.of_project("pa", &["rollback", "--yes"], None).unwrap().expect(code).all(),
            }
        };
        for _ in 0..2 {
            let reply = back(true);
            assert!(reply.contains("/mnt/a") && reply.contains("/etc/fstab"), "{way}: {reply}");
            assert_eq!(lines(), "/mnt/a", "{way}: {reply}");
            exec(host, "mountpoint -q /mnt/a");
        }
        exec(host, "umount /mnt/a; mount /mnt/a");
        let reply = back(false);
        assert_eq!(lines(), "", "{way}: {reply}");
        exec(host, "! mountpoint -q /mnt/a; rm -rf /var/lib/converge");
    }
}
