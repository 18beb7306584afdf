//! `converge run` on real hosts.

use converge_tests::World;

#[test]
fn one_command_on_many_hosts() {
    let world = World::new(&format!("prune-r{}", std::process::id()), 3).unwrap();
    let run = |args: &[&str]| {
        let mut all = vec!["run"];
        all.extend(args);
        world.converge(&all).unwrap()
    };
    // Equal answers are folded, exit codes sorted, the streams apart.
    let script = "echo up; case $(uname -n) in *h2) echo broken >&2; exit 3 ;; esac";
    let ran = run(&["all", "-i", "hosts.yaml", "--", script]).expect(1);
    let expected =
        "h1, h3 · 2 hosts · exit 0\n  up\nh2 · exit 3\n  up\n  ! broken\n\n3 hosts: 2 exit 0, 1 exit 3\n";
    assert_eq!(ran.stdout, expected);
    // Words are taken as they are; patterns as everywhere.
    let ran = run(&["lab:!h3", "-i", "hosts.yaml", "--", "echo", "a  b", "$HOME; exit 1"]).expect(0);
    assert_eq!(ran.stdout, "h1, h2 · 2 hosts · exit 0\n  a  b $HOME; exit 1\n\n2 hosts: 2 exit 0\n");
    // One host: its output as it is, byte for byte, each stream in its own.
    let ran = run(&["h1", "-i", "hosts.yaml", "--", "printf 'x\\n y'; echo no >&2"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("x\n y", "no\n"));
    run(&["h1", "-i", "hosts.yaml", "--", "false"]).expect(1).says("1 exit 1");
    // Too long is ended on the host.
    let ran = run(&[
        "h1",
        "-i",
        "hosts.yaml",
        "--timeout",
        "1",
        "--output",
        "json",
        "--",
        "echo begun; exec sleep 977",
    ]);
    let document = ran.expect(1).json().unwrap();
    assert_eq!(document["hosts"][0]["result"], "timed_out");
    assert_eq!(document["hosts"][0]["stdout"], "begun\n");
    let left = world.hosts()[0].exec("pgrep -fx 'sleep 977'").unwrap();
    assert!(!left.success(), "{left:?}");
    // As another user; nothing is recorded.
    run(&["h1", "-i", "hosts.yaml", "--become-user", "nobody", "--", "id -un"]).expect(0).says("nobody");
    assert!(!world.hosts()[0].exec("test -e /var/lib/converge").unwrap().success());
    // Variables that are encrypted are read with the password that is named, by `facts` too.
    world.write("password", "open\n").unwrap();
    world.write("group_vars/all.yaml", "ansible_timeout: 9\n").unwrap();
    let vault = ["--vault-password-file", "password"];
    let [flag, file] = vault;
    world.converge(&["vault", "encrypt", "group_vars/all.yaml", flag, file]).unwrap().expect(0);
    run(&["h1", "-i", "hosts.yaml", "--", "true"]).expect(64).says("group_vars/all.yaml");
    run(&["h1", "-i", "hosts.yaml", flag, file, "--", "true"]).expect(0);
    world.converge(&["facts", "hosts.yaml", "--limit", "h1"]).unwrap().expect(64);
    world.converge(&["facts", "hosts.yaml", "--limit", "h1", flag, file]).unwrap().expect(0);
    std::fs::remove_file(world.dir().join("group_vars/all.yaml")).unwrap();
    // A dead host is reported and the others answer.
    world.hosts()[2].kill().unwrap();
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    let ran = run(&["all", "-i", "hosts.yaml", "--", "true"]).expect(3);
    assert!(ran.stdout.contains("h1, h2 · 2 hosts · exit 0\n"), "{}", ran.all());
    assert!(ran.stdout.contains("3 hosts: 2 exit 0, 1 unreachable"), "{}", ran.all());
    run(&["nobody-is-called-so", "-i", "hosts.yaml", "--", "true"]).expect(64);
    run(&["all", "--", "true"]).expect(64);
}
