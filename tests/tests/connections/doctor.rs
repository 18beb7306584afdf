//! `converge doctor`, and what a run says when sshd is short of something.

use crate::support::{exec, only_h1, sshd, world};
use converge_lab::Host;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

/// Doctor names the step of each problem and its correction.
#[test]
fn doctor_finds_the_step_that_does_not_work() {
    let world = world();
    let host = &world.hosts()[0];
    let address = host.address();
    only_h1(&world, "ansible_user: deploy\nansible_become: true");
    let well = world.converge(&["doctor", "hosts.yaml", "-v"]).unwrap().expect(0);
    let well = well
        .says("✓ host key")
        .says("✓ login     deploy, with ssh-ed25519")
        .says("✓ become    root, through sudo");
    well.says("✓ apt").says("✓ clock").says("✓ lock").says("· healthy");
    assert!(!host.exec("test -e /var/lib/converge").unwrap().success(), "doctor changed the host");

    let says = |vars: &str, code: i32, texts: &[&str]| {
        only_h1(&world, vars);
        let mut ran = world.converge(&["doctor", "hosts.yaml"]).unwrap().expect(code);
        for text in texts {
            ran = ran.says(text);
        }
    };
    says("ansible_user: root\nansible_port: 9", 3, &["✗ tcp", "Connection refused", "ss -ltn"]);
    says("ansible_user: nobody-here", 3, &["✗ login", "! login     refused: ssh-ed25519", "authorized_keys"]);
    says(
        "ansible_user: root\nconverge_host_keys: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4eR0kzGkpXyZrcNcv2ZwsZkzJkRkGkbZ3yUP3G1PSV'",
        1,
        &["✗ host key", "HAS CHANGED"],
    );
    says("ansible_user: deploy", 1, &["✗ become", "ansible_become: true"]);
    says("ansible_user: operator\nansible_become: true", 1, &["✗ become", "-K"]);
    says(
        "ansible_user: deploy\nansible_become: true\nansible_become_user: operator",
        1,
        &["✗ become", "may not change the machine"],
    );
    exec(
        host,
        "mkdir -p /var/lib/converge; chown deploy /var/lib/converge; echo oops > /var/lib/dpkg/updates/0000",
    );
    says("ansible_user: root", 1, &["✗ records", "belongs to someone else"]);
    exec(
        host,
        "rm -f /var/lib/dpkg/updates/0000; chown root /var/lib/converge; echo 7 > /var/lib/converge/version",
    );
    says("ansible_user: root", 1, &["format 7"]);
    exec(host, "rm -rf /var/lib/converge");
    let json =
        world.converge(&["doctor", "hosts.yaml", "--output", "json"]).unwrap().expect(0).json().unwrap();
    assert_eq!(json["format"], "converge-doctor");
    assert_eq!(json["hosts"][0]["address"], address.to_string());
    assert_eq!(json["hosts"][0]["health"], "well");
}

#[test]
fn doctor_folds_hosts_with_the_same_trouble() {
    let world = world();
    let text = world.inventory("").replace("ansible_user: root", "ansible_user: nobody-here");
    world.write("hosts.yaml", &text).unwrap();
    let ran = world.converge(&["doctor", "hosts.yaml"]).unwrap().expect(3);
    ran.says("h[1:3] · refuses the login")
        .says("HOST refused the login of nobody-here")
        .says("3 hosts: 0 healthy, 3 unhealthy");
}

#[test]
fn one_session_a_connection_is_enough() {
    let world = world();
    sshd(&world.hosts()[0], "MaxSessions 1");
    only_h1(&world, "ansible_user: root");
    crate::support::converges(&world, &[], "root");
    sshd(&world.hosts()[0], "MaxSessions 0");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("raise MaxSessions");
}

/// A login that has begun and does not continue; sshd may still count the one before it for a moment.
fn sit(host: &Host) -> TcpStream {
    loop {
        let mut stream = TcpStream::connect((host.address(), 22)).unwrap();
        let mut start = [0_u8; 4];
        if stream.read_exact(&mut start).is_ok() && &start == b"SSH-" {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_with_too_many_logins_is_tried_again() {
    let world = world();
    let host = &world.hosts()[0];
    // At most one login at a time; another one holds the slot for a second.
    sshd(host, "MaxStartups 1\nLoginGraceTime 1");
    let sitting = sit(host);
    only_h1(&world, "ansible_user: root");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    drop(sitting);
    // The slot stays taken as long as converge waits: then the reason is reported, in the server's own words.
    sshd(host, "MaxStartups 1\nLoginGraceTime 60");
    let sitting = sit(host);
    only_h1(&world, "ansible_user: root\nansible_timeout: 2");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3).says("MaxStartups");
    drop(sitting);
}

#[test]
fn a_connection_that_is_cut_in_the_middle_names_the_items() {
    let world = world();
    let host = &world.hosts()[0];
    let cut = "command: {run: 'kill -9 $(pgrep -f ^sshd:.root@notty); sleep 5', creates: /etc/ways/never}";
    world.only_role("ways", &format!("resources:\n  - name: cuts its own way\n    {cut}\n")).unwrap();
    only_h1(&world, "ansible_user: root");
    let ran = world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(1);
    let ran = ran.says("connection to the shell was lost").says("in the middle of: ways/cuts its own way");
    assert!(!ran.all().contains("still open"), "{}", ran.all());
    assert!(!ran.all().contains("h1: the connection"), "the host is named twice: {}", ran.all());
    exec(host, "systemctl restart ssh");
}
