//! Keys with passphrases, certificates of users and of hosts, pinned keys, first contact.

use crate::support::{converges, exec, only_h1, sshd, world};
use converge_lab::Host;
use converge_tests::World;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Runs `ssh-keygen` in the project's folder.
fn keygen(world: &World, args: &[&str]) {
    let output = Command::new("ssh-keygen").arg("-q").args(args).current_dir(world.dir()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A new key `name` with this passphrase.
fn key(world: &World, name: &str, passphrase: &str) {
    for old in [name.to_owned(), format!("{name}.pub"), format!("{name}-cert.pub")] {
        drop(std::fs::remove_file(world.dir().join(old)));
    }
    keygen(world, &["-t", "ed25519", "-N", passphrase, "-f", name]);
}

fn public(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.dir().join(format!("{name}.pub"))).unwrap().trim().to_owned()
}

/// Lets root of a host in with a key that is not the lab's, while the test runs.
fn allow(host: &Host, key: &str) {
    exec(host, &format!("echo '{key}' > /root/.ssh/ways_keys"));
    sshd(host, "AuthorizedKeysFile .ssh/ways_keys");
}

struct Agent(Child, String);

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// An ssh-agent with these keys.
fn agent(world: &World, keys: &[&str]) -> Agent {
    let socket = world.dir().join("agent").to_str().unwrap().to_owned();
    drop(std::fs::remove_file(&socket));
    let child = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn().unwrap();
    let agent = Agent(child, socket);
    while !Path::new(&agent.1).exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for key in keys {
        let mut add = Command::new("ssh-add");
        add.args(["-q", key]).current_dir(world.dir()).env("SSH_AUTH_SOCK", &agent.1);
        assert!(add.stdin(Stdio::null()).status().unwrap().success());
    }
    agent
}

#[test]
fn a_locked_key_is_unlocked_from_a_file_and_named_otherwise() {
    let world = world();
    key(&world, "locked", "sesame open");
    allow(&world.hosts()[0], &public(&world, "locked"));
    let locked = world.dir().join("locked");
    only_h1(&world, &format!("ansible_user: root\nansible_ssh_private_key_file: {}", locked.display()));
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(3)
        .says("login refused")
        .says("protected by a passphrase")
        .says("--key-passphrase-file");
    world.write("wrong", "sesame shut\n").unwrap();
    world
        .converge(&["plan", "hosts.yaml", "--key-passphrase-file", "wrong"])
        .unwrap()
        .expect(4)
        .says("this is not its passphrase");
    world.write("phrase", "sesame open\n").unwrap();
    converges(&world, &["--key-passphrase-file", "phrase"], "root");
}

#[test]
fn user_certificates_beside_a_key_and_with_an_agent() {
    let world = world();
    let host = &world.hosts()[0];
    key(&world, "ca", "");
    key(&world, "user", "");
    keygen(&world, &["-s", "ca", "-I", "tests", "-n", "root", "-V", "-5m:+1h", "user.pub"]);
    exec(host, &format!("echo '{}' > /etc/ssh/ways_ca.pub", public(&world, "ca")));
    sshd(host, "TrustedUserCAKeys /etc/ssh/ways_ca.pub\nAuthorizedKeysFile none");
    let user = world.dir().join("user");
    let vars = format!("ansible_user: root\nansible_ssh_private_key_file: {}", user.display());
    only_h1(&world, &vars);
    converges(&world, &[], "root");

    // The agent holds the certificate too (ssh-add finds it beside the key); no file is named.
    let agent_ = agent(&world, &["user"]);
    only_h1(&world, "ansible_user: root\nansible_ssh_private_key_file: ~/no-such-key");
    let mut command = world.command(&["plan", "hosts.yaml"]).unwrap();
    converge_tests::ran(command.env("SSH_AUTH_SOCK", &agent_.1)).unwrap().expect(0);
    drop(agent_);

    // The key is in the agent alone, the certificate in a file alone.
    let certificate = world.dir().join("user-cert.pub");
    let apart = world.dir().join("apart-cert.pub");
    std::fs::rename(&certificate, &apart).unwrap();
    let agent_ = agent(&world, &["user"]);
    std::fs::rename(&user, world.dir().join("gone")).unwrap();
    let known = world.lab().known_hosts();
    only_h1(
        &world,
        &format!(
            "{vars}\nansible_ssh_common_args: -o UserKnownHostsFile={} -o CertificateFile={}",
            known.display(),
            apart.display()
        ),
    );
    let mut command = world.command(&["plan", "hosts.yaml"]).unwrap();
    converge_tests::ran(command.env("SSH_AUTH_SOCK", &agent_.1)).unwrap().expect(0);
    drop(agent_);
    std::fs::rename(world.dir().join("gone"), &user).unwrap();

    // One that is over is not even tried.
    keygen(&world, &["-s", "ca", "-I", "tests", "-n", "root", "-V", "-2h:-1h", "user.pub"]);
    only_h1(&world, &vars);
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(3)
        .says("expired 60 min ago")
        .says("login refused");
}

/// Gives h1 a host certificate and shows it to it; `more` are arguments of `ssh-keygen -s`.
fn certify(world: &World, more: &[&str]) {
    let host = &world.hosts()[0];
    world.write("host.pub", &format!("{}\n", exec(host, "cat /etc/ssh/ssh_host_ed25519_key.pub"))).unwrap();
    keygen(world, &[&["-s", "ca", "-h", "-I", "h1"], more, &["host.pub"]].concat());
    let certificate = std::fs::read_to_string(world.dir().join("host-cert.pub")).unwrap();
    exec(host, &format!("echo '{}' > /etc/ssh/ways_host-cert.pub", certificate.trim()));
    sshd(host, "HostKey /etc/ssh/ssh_host_ed25519_key\nHostCertificate /etc/ssh/ways_host-cert.pub");
}

#[test]
fn host_certificates_by_an_authority_in_known_hosts() {
    let world = world();
    let address = world.hosts()[0].address().to_string();
    key(&world, "ca", "");
    certify(&world, &["-n", &address, "-V", "-5m:+1h"]);
    let known = world.dir().join("known");
    let vars =
        format!("ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={}", known.display());
    only_h1(&world, &vars);
    let ca = public(&world, "ca");
    world.write("known", &format!("@cert-authority 10.* {ca}\n")).unwrap();
    converges(&world, &[], "root");
    // Of another authority, or of one for other hosts: the host is unknown.
    world.write("known", &format!("@cert-authority *.example {ca}\n")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("is not known");
    world.write("known", &format!("@cert-authority 10.* {ca}\n@revoked * {ca}\n")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("is revoked");
    // For another name, and out of its time.
    world.write("known", &format!("@cert-authority 10.* {ca}\n")).unwrap();
    certify(&world, &["-n", "other.example", "-V", "-5m:+1h"]);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("it names other.example");
    certify(&world, &["-n", &address, "-V", "-2h:-1h"]);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("expired 60 min ago");
}

#[test]
fn keys_pinned_in_the_inventory_count_alone() {
    let world = world();
    let host = &world.hosts()[0];
    let own = host.public_key().unwrap();
    let other = world.hosts()[1].public_key().unwrap();
    // The known_hosts file is a wrong one: it does not count.
    world.write("known", &format!("{} {other}\n", host.address())).unwrap();
    let known = world.dir().join("known");
    let vars =
        format!("ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={}\n", known.display());
    only_h1(&world, &format!("{vars}converge_host_keys: ['{other}', '{own}']"));
    converges(&world, &[], "root");
    only_h1(&world, &format!("{vars}converge_host_keys: '{other}'"));
    world.converge(&["plan", "hosts.yaml", "--accept-new-host-keys"]).unwrap().expect(4).says("HAS CHANGED");
    key(&world, "ca", "");
    certify(&world, &["-n", &host.address().to_string(), "-V", "-5m:+1h"]);
    only_h1(&world, &format!("{vars}converge_host_keys: '@cert-authority {}'", public(&world, "ca")));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
}

#[test]
fn first_contact_only_by_a_flag_and_never_with_a_changed_key() {
    let world = world();
    let host = &world.hosts()[0];
    let known = world.dir().join("fresh/known");
    drop(std::fs::remove_dir_all(world.dir().join("fresh")));
    only_h1(
        &world,
        &format!("ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={}", known.display()),
    );
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("--accept-new-host-keys");
    assert!(!known.exists());
    let first = world.converge(&["plan", "hosts.yaml", "--accept-new-host-keys"]).unwrap().expect(2);
    first.says("new host key ssh-ed25519 SHA256:").says("fresh/known");
    let line = std::fs::read_to_string(&known).unwrap();
    assert_eq!(line, format!("{} {}\n", host.address(), host.public_key().unwrap()));
    // From now on it is known, without the flag.
    converges(&world, &[], "root");
    let other = world.hosts()[1].public_key().unwrap();
    std::fs::write(&known, format!("{} {other}\n", host.address())).unwrap();
    world.converge(&["plan", "hosts.yaml", "--accept-new-host-keys"]).unwrap().expect(4).says("HAS CHANGED");
}
