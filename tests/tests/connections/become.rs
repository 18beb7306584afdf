//! Becoming another user: sudo, su and doas, each with and without a password.

use crate::support::{converges, exec, only_h1, sshd, world};

const OPERATOR: &str = "ansible_user: operator\nansible_become: true\n";

#[test]
fn sudo_without_a_password() {
    let world = world();
    only_h1(&world, "ansible_user: deploy\nansible_become: true");
    converges(&world, &[], "root");
}

#[test]
fn sudo_with_a_password_from_a_file() {
    let world = world();
    only_h1(&world, OPERATOR);
    world.write("pass", "lab-operator\n").unwrap();
    converges(&world, &["--become-password-file", "pass"], "root");
}

#[test]
fn su_asks_for_the_other_users_password() {
    let world = world();
    exec(&world.hosts()[0], "echo root:lab-root | chpasswd; passwd -u root >/dev/null");
    only_h1(&world, &format!("{OPERATOR}ansible_become_method: su\nansible_become_password: lab-root"));
    converges(&world, &[], "root");
    only_h1(&world, &format!("{OPERATOR}ansible_become_method: su\nansible_become_password: not-this"));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("su wants the one of root");
    only_h1(&world, &format!("{OPERATOR}ansible_become_method: su"));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("su on the host asks for a password");
}

#[test]
fn su_without_a_password_where_pam_asks_for_none() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "cp /etc/pam.d/su /root/pam.su; sed -i '1i auth sufficient pam_permit.so' /etc/pam.d/su");
    only_h1(&world, &format!("{OPERATOR}ansible_become_method: su"));
    let ran = std::panic::catch_unwind(|| converges(&world, &[], "root"));
    exec(host, "mv /root/pam.su /etc/pam.d/su");
    ran.unwrap();
}

#[test]
fn doas_with_and_without_a_password() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "command -v doas || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq opendoas >/dev/null",
    );
    let doas = format!("{OPERATOR}ansible_become_method: doas\n");
    exec(host, "echo 'permit nopass operator' > /etc/doas.conf");
    only_h1(&world, &doas);
    converges(&world, &[], "root");
    exec(host, "rm -rf /etc/ways/* /var/lib/converge; echo 'permit operator' > /etc/doas.conf");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("doas on the host asks for a password");
    only_h1(&world, &format!("{doas}ansible_become_password: not-this"));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("did not accept the password");
    only_h1(&world, &format!("{doas}ansible_become_password: lab-operator"));
    converges(&world, &[], "root");
}

#[test]
fn su_says_that_it_needs_a_terminal() {
    let world = world();
    sshd(&world.hosts()[0], "PermitTTY no");
    only_h1(&world, &format!("{OPERATOR}ansible_become_method: su\nansible_become_password: lab-root"));
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(4).says("PermitTTY");
}
