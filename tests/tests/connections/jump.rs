//! Jump hosts, from the inventory and from ssh's configuration.

use crate::support::{converges, only_h1, sshd, world};
use converge_lab::Host;
use converge_tests::World;

/// Refuses all connections except those from this host.
fn only_from(host: &Host, hop: &Host) {
    sshd(host, &format!("AllowUsers root@{} operator@{}", hop.address(), hop.address()));
}

/// h1 behind h2 behind h3; the last one listens on port 2222 too and lets only `deploy` in.
fn behind_two(world: &World) {
    let (h1, h2, h3) = (&world.hosts()[0], &world.hosts()[1], &world.hosts()[2]);
    only_from(h1, h2);
    only_from(h2, h3);
    sshd(h3, "Port 22\nPort 2222\nAllowUsers deploy");
}

#[test]
fn two_jump_hosts_from_the_inventory_with_users_and_ports_of_their_own() {
    let world = world();
    behind_two(&world);
    let (h2, h3) = (world.hosts()[1].address(), world.hosts()[2].address());
    let known = world.dir().join("known");
    let text = std::fs::read_to_string(world.lab().known_hosts()).unwrap();
    let h3_key = world.hosts()[2].public_key().unwrap();
    world.write("known", &format!("{text}\n[{h3}]:2222 {h3_key}\n")).unwrap();
    let vars = |jump: &str| {
        format!(
            "ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={} -o ProxyJump={jump}",
            known.display()
        )
    };
    // Nobody comes in directly.
    only_h1(
        &world,
        &format!("ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={}", known.display()),
    );
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3).says("login refused");
    only_h1(&world, &vars(&format!("deploy@{h3}:2222,root@{h2}")));
    converges(&world, &[], "root");
    // A jump host that is in the inventory brings its own variables.
    let text = std::fs::read_to_string(world.dir().join("hosts.yaml")).unwrap();
    let text = text.replace(&format!("deploy@{h3}:2222"), "door");
    let key = world.lab().identity();
    world
        .write(
            "hosts.yaml",
            &format!(
                "{text}doors:\n  hosts:\n    door: {{ansible_host: {h3}, ansible_port: 2222, ansible_user: deploy, ansible_ssh_private_key_file: {}}}\n",
                key.display()
            ),
        )
        .unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    // Ansible's usual ProxyCommand means the same.
    only_h1(
        &world,
        &format!(
            "ansible_user: root\nansible_ssh_common_args: -o UserKnownHostsFile={} -o ProxyCommand='ssh -W %h:%p -q deploy@{h3} -p 2222'",
            known.display()
        ),
    );
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3).says("login refused");
    // Every hop's key is checked.
    world
        .write(
            "known",
            &std::fs::read_to_string(world.lab().known_hosts()).unwrap().replace(&h3.to_string(), "10.0.0.1"),
        )
        .unwrap();
    only_h1(&world, &vars(&format!("deploy@{h3}:2222,root@{h2}")));
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(4)
        .says("on the way through a jump host")
        .says("is not known");
}

#[test]
fn many_hosts_behind_one_jump_host_use_one_connection() {
    let world = world();
    let h2 = &world.hosts()[1];
    // At most one login at a time, and no session at all: forwarding needs none.
    sshd(h2, "MaxStartups 1\nMaxSessions 0");
    let mut text = String::from("lab:\n  hosts:\n");
    for number in 0..8 {
        text.push_str(&format!(
            "    n{number}: {{ansible_host: {}}}\n",
            world.hosts()[usize::from(number % 2 == 1) * 2].address()
        ));
    }
    text.push_str(&format!(
        "  vars:\n    ansible_user: root\n    ansible_ssh_private_key_file: {}\n    ansible_ssh_common_args: -o UserKnownHostsFile={} -J root@{}\n",
        world.lab().identity().display(),
        world.lab().known_hosts().display(),
        h2.address()
    ));
    world.write("hosts.yaml", &text).unwrap();
    let logged_in = || {
        let reply = h2.exec("journalctl -u ssh -o cat | grep -c 'Accepted publickey'").unwrap().stdout;
        reply.trim().parse::<usize>().unwrap()
    };
    let before = logged_in();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert_eq!(logged_in() - before, 1);
    // A refusal by the jump host is reported as such.
    sshd(h2, "AllowTcpForwarding no");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3).says("AllowTcpForwarding");
}

#[test]
fn the_configuration_of_ssh_names_hosts_users_keys_and_the_way() {
    let world = world();
    behind_two(&world);
    let (h1, h2, h3) = (&world.hosts()[0], &world.hosts()[1], &world.hosts()[2]);
    let config = format!(
        "Include conf.d/*.conf\nHost h1.lab\n  HostName {}\n  User root\n  ProxyJump middle\nHost middle\n  HostName {}\n  User root\n  ProxyJump deploy@outer\n\
         Host *\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
        h1.address(),
        h2.address(),
        world.lab().identity().display(),
        world.dir().join("known").display()
    );
    let known = std::fs::read_to_string(world.lab().known_hosts()).unwrap();
    world
        .write("known", &format!("{known}\n[{}]:2222 {}\n", h3.address(), h3.public_key().unwrap()))
        .unwrap();
    world.write(".ssh/config", &config).unwrap();
    world
        .write(".ssh/conf.d/outer.conf", &format!("Host outer\n  HostName {}\n  Port 2222\n", h3.address()))
        .unwrap();
    world.write("hosts.yaml", "lab:\n  hosts:\n    h1: {ansible_host: h1.lab}\n").unwrap();
    converges(&world, &[], "root");
    // Without an ssh, converge reads the files itself. Nothing else on its path is needed.
    let mut command = world.command(&["plan", "hosts.yaml"]).unwrap();
    converge_tests::ran(command.env("PATH", "/nonexistent")).unwrap().expect(0);
    // The inventory wins over the configuration.
    world
        .write("hosts.yaml", "lab:\n  hosts:\n    h1: {ansible_host: h1.lab, ansible_user: nobody-here}\n")
        .unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3).says("refused the login of nobody-here");
}
