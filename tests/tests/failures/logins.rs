//! Hosts that cannot be reached or do not let anybody in.

use super::*;

// --- hosts that do not let us in ---

#[test]
fn a_silent_host_does_not_hold_up_the_others() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let dead = &world.hosts()[1];
    dead.mute().unwrap();
    let start = Instant::now();
    let ran = apply(&world);
    let took = start.elapsed();
    dead.unmute().unwrap();
    ran.expect(3).says("h2").says("gave no answer within 3 s");
    // Far below TCP's own patience of two minutes.
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
    // The host is back: the next run continues.
    dead.wait_until_ready().unwrap();
    apply(&world).expect(0);
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h2", "h3"]);
}

#[test]
fn a_refused_login_says_what_was_tried() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let key = world.dir().join("fresh");
    drop(std::fs::remove_file(&key));
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    inventory_with(&world, "h2", &format!("ansible_ssh_private_key_file: {}", key.display()));
    apply(&world).expect(3).says("refused the login of root").says("fresh").says("publickey");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
}

/// Makes h2 be looked up in this known_hosts file.
fn known_hosts(world: &World, text: &str) {
    world.write("known", text).unwrap();
    let path = world.dir().join("known");
    let options = format!("-o UserKnownHostsFile={} -o StrictHostKeyChecking=yes", path.display());
    inventory_with(world, "h2", &format!("ansible_ssh_common_args: {options}"));
}

#[test]
fn an_unknown_host_key_is_not_trusted() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    known_hosts(&world, "");
    let key = world.hosts()[1].public_key().unwrap();
    let base64 = key.split_whitespace().nth(1).unwrap();
    // The line to add is given, whole.
    apply(&world).expect(4).says("h2").says("is not known").says("SHA256:").says(base64);
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
}

#[test]
fn a_changed_host_key_is_shouted_about() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let other = world.hosts()[0].public_key().unwrap();
    known_hosts(&world, &format!("# comment\n{} {other}\n", world.hosts()[1].address()));
    apply(&world).expect(4).says("h2").says("HAS CHANGED").says("known:2");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
}

#[test]
fn a_wrong_sudo_password_is_reported() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let operator = "ansible_user: operator, ansible_become: true";
    inventory_with(&world, "h2", &format!("{operator}, ansible_become_password: not-this"));
    apply(&world).says("h2").says("did not accept the password").expect(4);
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
    inventory_with(&world, "h2", operator);
    apply(&world).says("h2").says("asks for a password for becoming root").expect(4);
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
}

/// A server on this machine that does something to each connection; it lives as long as the process.
fn server(serve: impl Fn(&mut std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            serve(&mut stream);
            open.push(stream);
        }
    });
    port
}

#[test]
fn garbage_and_silence_instead_of_ssh() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let garbage = server(|stream| drop(stream.write_all(&[0xff, 0x00, b'\n'].repeat(40_000))));
    let silent = server(|_| {});
    let half = server(|stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n")));
    for (port, says) in
        [(garbage, "does not speak SSH"), (silent, "no answer within 3 s"), (half, "no answer within 3 s")]
    {
        for host in world.hosts() {
            exec(host, "rm -f /etc/bad/greeting");
        }
        inventory_with(&world, "h2", &format!("ansible_host: 127.0.0.1, ansible_port: {port}"));
        apply(&world).expect(3).says("h2").says(says);
        assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
    }
}

#[test]
fn a_login_that_never_stops_talking() {
    let world = world();
    world.only_role("greet", GREETING).unwrap();
    let endless = server(|stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || while stream.write_all(b"just a moment\r\n").is_ok() {});
    });
    inventory_with(&world, "h2", &format!("ansible_host: 127.0.0.1, ansible_port: {endless}"));
    apply(&world).expect(3).says("h2").says("does not speak SSH");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);

    // A shell that talks before it listens: once is put up with, for ever is not.
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    let host = &world.hosts()[1];
    exec(host, "cp /root/.bashrc /etc/bad/bashrc; echo 'echo welcome; echo to all >&2' > /root/.bashrc");
    let polite = apply(&world);
    exec(host, "rm /etc/bad/greeting; echo 'yes welcome' > /root/.bashrc");
    let start = Instant::now();
    let endless = apply(&world);
    let took = start.elapsed();
    exec(host, "mv /etc/bad/bashrc /root/.bashrc");
    polite.expect(0);
    endless.expect(3).says("h2");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(having(&world, "/etc/bad/greeting"), ["h1", "h3"]);
}
