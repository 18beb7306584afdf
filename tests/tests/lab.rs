//! The lab keeps its promises: what the other tests stand on.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::{Host, Lab, LabOptions};
use converge_tests::exec;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the process that opens a lab and then dies.
const DIES: &str = "CONVERGE_TEST_LAB_DIES";

fn name(what: &str) -> String {
    format!("t-{what}-{}", std::process::id())
}

/// Everything on this machine that names the lab. Another lab may have taken its subnet in the meantime: the bridge names its
/// owner, and what names the subnet is that lab's then.
fn traces(state: &Path, address: &str) -> Vec<String> {
    let run = |program: &str, args: &[&str]| -> String {
        let mut sudo = Command::new("sudo");
        let mut plain = Command::new(program);
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
        let command = if root { plain.args(args) } else { sudo.args(["-n", "--", program]).args(args) };
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let subnet = address.rsplit_once('.').unwrap().0;
    let number = subnet.split('.').nth(1).unwrap();
    let (bridge, tap, group) =
        (format!("clab{number}"), format!("vb-c{number}-"), format!("converge-lab-{number}"));
    let state_dir = state.display().to_string();
    let mut found = [
        lines("link", &run("ip", &["-o", "link"]), &[&bridge, &tap]),
        lines("rule", &run("iptables", &["-w", "-S"]), &[subnet, &bridge]),
        lines("nat", &run("iptables", &["-w", "-t", "nat", "-S"]), &[subnet, &bridge]),
        lines("cgroup", &run("find", &["/sys/fs/cgroup", "-maxdepth", "2", "-name", &group]), &[&group]),
    ]
    .concat();
    let owner = std::fs::read_to_string(format!("/sys/class/net/{bridge}/ifalias")).unwrap_or_default();
    if !owner.is_empty() && !owner.contains(&state_dir) {
        found.clear();
    }
    found.extend(lines("mount", &std::fs::read_to_string("/proc/self/mountinfo").unwrap(), &[&state_dir]));
    found.extend(lines("process", &run("ps", &["-eo", "args"]), &[&state_dir]));
    if state.exists() {
        found.push(format!("directory: {state_dir}"));
    }
    found
}

/// The lines of `text` that contain one of the words, each behind the name of what it is about.
fn lines(about: &str, text: &str, words: &[&str]) -> Vec<String> {
    let named = text.lines().filter(|line| words.iter().any(|word| line.contains(word)));
    named.map(|line| format!("{about}: {line}")).collect()
}

#[test]
fn a_host_follows_the_command() {
    let lab = Lab::open(LabOptions::new(name("lab"))).unwrap();
    let hosts = lab.start_hosts(&["h1", "db"]).unwrap();
    let [host, other] = hosts.as_slice() else { panic!("two hosts") };
    assert_eq!(exec(host, "hostname"), "h1");
    assert_eq!(exec(other, "ps -o comm= -p 1"), "systemd");

    // Logins: root, sudo without and with a password.
    let ssh = |user: &str, script: &str| {
        let output = lab.ssh_command(user, other).arg(script).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{user}: {script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ssh("root", "id -un").trim(), "root");
    assert_eq!(ssh("deploy", "sudo -n id -un").trim(), "root");
    assert_eq!(ssh("operator", "! sudo -n true 2>/dev/null && echo asks").trim(), "asks");
    let sudo = format!("echo {} | sudo -S -p '' id -un", converge_lab::OPERATOR_PASSWORD);
    assert_eq!(ssh("operator", &sudo).trim(), "root");

    // A prefetched package needs no network.
    exec(host, "apt-get install -y -qq --no-download tree >/dev/null 2>&1 && tree --version");

    // A power cut keeps the disk, a reset throws it away.
    exec(host, "echo kept > /root/mark && sync");
    host.kill().unwrap();
    assert!(!host.is_up() && !host.greets());
    assert!(host.exec("true").is_err());
    host.start().unwrap();
    assert_eq!(exec(host, "cat /root/mark"), "kept");
    host.reboot().unwrap();
    assert_eq!(exec(host, "cat /root/mark"), "kept");
    host.reset().unwrap();
    exec(host, "test ! -e /root/mark && test ! -e /usr/bin/tree");
    host.stop().unwrap();
    host.start().unwrap();

    // Three sorts of silence, each ended again; the other host is not touched.
    host.cut().unwrap();
    assert!(!host.greets() && other.greets());
    host.heal().unwrap();
    host.wait_until_ready().unwrap();
    host.mute().unwrap();
    assert!(!host.greets() && other.greets());
    host.unmute().unwrap();
    host.wait_until_ready().unwrap();
    host.pause().unwrap();
    assert!(!host.greets() && other.greets());
    host.resume().unwrap();
    host.wait_until_ready().unwrap();

    // A round trip takes at least the time that was added, also for a host that boots later.
    lab.rtt(20).unwrap();
    host.reset().unwrap();
    for host in [host, other] {
        let fastest = (0..3).map(|_| connect(host)).min().unwrap();
        assert!(fastest >= Duration::from_millis(20), "{fastest:?}");
    }
    lab.rtt(0).unwrap();
    host.wait_until_ready().unwrap();

    let (state, address) = (lab.state_dir().to_owned(), host.address().to_string());
    assert!(!traces(&state, &address).is_empty());
    lab.down().unwrap();
    assert_eq!(traces(&state, &address), Vec::<String>::new());
}

fn connect(host: &Host) -> Duration {
    let start = Instant::now();
    TcpStream::connect((host.address(), 22)).unwrap();
    start.elapsed()
}

/// systemd stops every process of a host that goes down before it ends them, and nsenter stops itself with what it runs.
#[test]
fn a_host_restarts_while_commands_run_in_it() {
    let lab = Lab::open(LabOptions::new(name("busy"))).unwrap();
    let hosts = lab.start_hosts(&["h1"]).unwrap();
    let [host] = hosts.as_slice() else { panic!("one host") };
    std::thread::scope(|scope| {
        let script = "touch /run/begun; while :; do sleep 1; done";
        let busy = scope.spawn(|| host.exec(script));
        converge_tests::until_exec(host, 30, "test -e /run/begun");
        host.reboot().unwrap();
        assert!(!busy.join().unwrap().unwrap().success());
    });
    assert_eq!(exec(host, "hostname"), "h1");
}

#[test]
fn nothing_is_left_when_the_owner_dies() {
    if let Ok(name) = std::env::var(DIES) {
        let lab = Lab::open(LabOptions::new(name)).unwrap();
        let hosts = lab.up(1).unwrap();
        println!("HOST {} {}", lab.state_dir().display(), hosts[0].address());
        // Power cut of the process itself: no destructor runs.
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
    }
    let name = name("dies");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "nothing_is_left_when_the_owner_dies", "--nocapture"]).env(DIES, &name);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line =
        text.lines().find_map(|line| line.split_once("HOST ")).unwrap_or_else(|| panic!("{output:?}")).1;
    let (state, address) = line.split_once(' ').unwrap();
    let state = PathBuf::from(state);
    // The next owner of the name waits until the guard of the dead one has cleaned up.
    let lab = Lab::open(LabOptions::new(&name)).unwrap();
    let others = traces(&state, address);
    assert!(others.iter().all(|line| !line.starts_with("process:") || line.contains("guard")), "{others:?}");
    assert!(lab.hosts().is_empty());
    lab.down().unwrap();
    assert_eq!(traces(&state, address), Vec::<String>::new());
}

#[test]
fn a_lab_has_one_owner() {
    let lab = Lab::open(LabOptions::new(name("one"))).unwrap();
    let error = Lab::open(LabOptions::new(name("one"))).map(drop).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    // Another lab beside it gets another subnet.
    let second = Lab::open(LabOptions::new(name("two"))).unwrap();
    let [first, second] = [lab, second].map(|lab| lab.up(1).unwrap()[0].address());
    assert_ne!(first, second);
}

/// Who has closed the output of `converge-lab up` still has the lab.
#[test]
fn a_closed_output_keeps_no_lab_from_coming_up() {
    let name = name("deaf");
    let program = converge_tests::binary().unwrap().with_file_name("converge-lab");
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--name", &name]).args(args).stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut up = run(&["up", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(up.stdout.take());
    let ended = up.wait_with_output().unwrap();
    let status = run(&["status"]).output().unwrap();
    let down = run(&["down"]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&status.stdout).contains("up, pid"), "{status:?}");
    assert!(down.status.success(), "{down:?}");
}
