//! One host of a lab.

use crate::command;
use crate::error::{LabError, Result};
use crate::inner::{Inner, SHARE};
use crate::net;
use fs_err as fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SUPERVISE: &str = include_str!("scripts/supervise.sh");
const DISK: &str = include_str!("scripts/disk.sh");
const OFF: &str = include_str!("scripts/off.sh");
const KUBE_HOST: &str = include_str!("scripts/kube-host.sh");
const RUNC: &str = include_str!("scripts/runc.sh");

/// The time that a host may take to boot, on a loaded machine too.
const BOOT: Duration = Duration::from_secs(60);

/// A handle on a host; clones are the same host.
#[derive(Clone)]
pub struct Host {
    lab: Arc<Inner>,
    name: String,
    last: u8,
}

/// The result of a command on a host, with its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    /// Exit status; nothing when a signal ended it.
    pub status: Option<i32>,
    /// Standard output, with bytes that are no UTF-8 replaced.
    pub stdout: String,
    /// Standard error, in the same way.
    pub stderr: String,
}

impl ExecOutput {
    /// Whether the command exited with 0.
    pub fn success(&self) -> bool {
        self.status == Some(0)
    }
}

impl From<Output> for ExecOutput {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Host {
    pub(crate) fn new(lab: Arc<Inner>, name: &str, last: u8) -> Self {
        Self { lab, name: name.to_owned(), last }
    }

    /// Its name in the lab, which is its host name too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, which this machine reaches.
    pub fn address(&self) -> Ipv4Addr {
        self.lab.net.address(self.last)
    }

    /// The files of its console log, disk and key.
    pub(crate) fn directory(&self) -> PathBuf {
        self.lab.state.join("hosts").join(&self.name)
    }

    /// Its root file system as this machine sees it, for looking at it without a login.
    pub fn root_dir(&self) -> PathBuf {
        self.directory().join("root")
    }

    /// Its public ssh key: algorithm and base64, as `known_hosts` wants it.
    pub fn public_key(&self) -> Result<String> {
        let text = fs::read_to_string(self.directory().join("ssh_key.pub"))?;
        Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    }

    fn cgroup(&self) -> PathBuf {
        self.lab.cgroup2.join(self.lab.net.cgroup()).join(&self.name)
    }

    fn link(&self) -> String {
        self.lab.net.host_link(self.last)
    }

    /// PID of the host's PID 1 as this machine sees it; nothing when the host is down.
    pub fn leader(&self) -> Option<u32> {
        let text = fs::read_to_string(self.cgroup().join("payload/init.scope/cgroup.procs")).ok()?;
        text.lines().filter_map(|line| line.parse().ok()).find(|pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            own.and_then(|ids| ids.split_whitespace().last()) == Some("1")
        })
    }

    /// Whether the host runs.
    pub fn is_up(&self) -> bool {
        self.leader().is_some()
    }

    /// Boots the host from the disk it has, or from a fresh one, and waits until its sshd greets.
    pub fn start(&self) -> Result<()> {
        if !self.is_up() {
            self.boot()?;
        }
        self.wait_until_ready()
    }

    fn boot(&self) -> Result<()> {
        let net = self.lab.net;
        let directory = self.directory();
        let mut hosts = format!("127.0.0.1 localhost\n127.0.1.1 {}\n", self.name);
        for endpoint in &self.lab.mirror {
            hosts.push_str(&format!("{} {}\n", endpoint.address, endpoint.name));
        }
        let mut disk = command::root("sh");
        disk.args(["-c", DISK, "converge-lab-disk"]).arg(&directory).arg(&self.lab.base).arg(&self.name);
        disk.args([self.address().to_string(), net.gateway().to_string()]).arg(self.cgroup());
        disk.arg(std::env::var_os("CONVERGE_LAB_PACKAGES").unwrap_or_default());
        if self.lab.kube {
            disk.args([KUBE_HOST, RUNC]);
        }
        command::with_input(&mut disk, hosts.as_bytes())?;
        let console = fs::OpenOptions::new().create(true).append(true).open(directory.join("console.log"))?;
        let mut supervisor = command::root("setsid");
        supervisor.args([
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            SUPERVISE,
            "converge-lab-host",
        ]);
        supervisor.arg(&self.lab.cgroup2).arg(self.cgroup()).arg(directory.join("root"));
        supervisor
            .args([&net.machine(self.last), &self.name, &self.uuid()])
            .arg(self.lab.state.join("bridge"))
            .arg(self.lab.state.join("share"))
            .arg(if self.lab.kube { "kube" } else { "" });
        supervisor.stdin(Stdio::null()).stdout(console.file().try_clone()?).stderr(console.into_parts().0);
        let mut child = supervisor.spawn().map_err(|error| command::failed_start(&supervisor, &error))?;
        // Somebody has to collect its exit status; what it says is in the console log.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    fn uuid(&self) -> String {
        format!("7ab00000-0000-4000-8000-0000{:04x}{:04x}", self.lab.net.number, self.last)
    }

    /// Waits until the host's sshd greets, at most 60 s.
    pub fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + BOOT;
        while !self.greets() {
            if Instant::now() > deadline {
                let console = self.directory().join("console.log");
                let text = fs::read(&console)
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n");
                return Err(LabError::NoAnswer {
                    host: self.name.clone(),
                    seconds: BOOT.as_secs(),
                    console,
                    tail,
                });
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(())
    }

    /// Whether the host's sshd sends its greeting within a second.
    pub fn greets(&self) -> bool {
        let limit = Duration::from_secs(1);
        let Ok(mut stream) = TcpStream::connect_timeout(&SocketAddr::from((self.address(), 22)), limit)
        else {
            return false;
        };
        let mut start = [0_u8; 4];
        stream.set_read_timeout(Some(limit)).is_ok()
            && stream.read_exact(&mut start).is_ok()
            && &start == b"SSH-"
    }

    /// Power cut: every process dies at once; the disk stays as it is.
    pub fn kill(&self) -> Result<()> {
        self.off(false)
    }

    /// Kills the host, throws its disk away and boots it fresh; it keeps its address and its ssh key.
    pub fn reset(&self) -> Result<()> {
        self.off(true)?;
        self.start()
    }

    /// Orderly power-off: units are stopped; waits until the host is down.
    pub fn stop(&self) -> Result<()> {
        if let Some(pid) = self.leader() {
            // systemd's signal for halt.target; see systemd(1).
            command::run("kill", &["-s", "RTMIN+4", &pid.to_string()])?;
            self.wait_for("power-off", || !self.is_up())?;
        }
        self.off(false)
    }

    /// Reboots the host from inside and waits until it answers again.
    pub fn reboot(&self) -> Result<()> {
        let before = self.leader().ok_or_else(|| LabError::HostDown(self.name.clone()))?;
        // The connection into the host may end before the command does.
        drop(self.exec("systemctl reboot")?);
        self.wait_for("reboot", || self.leader().is_some_and(|pid| pid != before))?;
        self.wait_until_ready()
    }

    fn off(&self, throw_away: bool) -> Result<()> {
        let mut off = command::root("sh");
        off.args(["-c", OFF, "converge-lab-off"]).arg(self.cgroup()).arg(self.link());
        if throw_away {
            off.arg(self.directory());
        }
        command::checked(&mut off).map(drop)
    }

    pub(crate) fn wait_for(&self, what: &str, done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + BOOT;
        while !done() {
            if Instant::now() > deadline {
                return Err(LabError::Stuck {
                    what: format!("{what} of {}", self.name),
                    seconds: BOOT.as_secs(),
                });
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(())
    }

    /// Pulls the cable: nothing reaches the host, or comes from it. Connections hang, later ones find no route.
    pub fn cut(&self) -> Result<()> {
        command::run("ip", &["link", "set", &self.link(), "down"])
    }

    /// Plugs the cable in again.
    pub fn heal(&self) -> Result<()> {
        command::run("ip", &["link", "set", &self.link(), "up"])
    }

    /// A black hole: what the host sends to this machine vanishes, so that connecting and reading hang.
    pub fn mute(&self) -> Result<()> {
        self.lab.net.mute(self.last, true)
    }

    /// Ends [`Host::mute`].
    pub fn unmute(&self) -> Result<()> {
        self.lab.net.mute(self.last, false)
    }

    /// Freezes every process of the host: its kernel still answers pings and takes connections.
    pub fn pause(&self) -> Result<()> {
        self.freeze("1")
    }

    /// Thaws the host.
    pub fn resume(&self) -> Result<()> {
        self.freeze("0")
    }

    fn freeze(&self, value: &str) -> Result<()> {
        let group = self.cgroup().join("payload");
        let mut tee = command::root("tee");
        tee.arg(group.join("cgroup.freeze"));
        command::with_input(&mut tee, value.as_bytes())?;
        // The kernel stops one process after the other.
        let done = format!("frozen {value}");
        self.wait_for("the freezing or thawing", || {
            let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == done)
        })
    }

    pub(crate) fn join_bridge(&self, bridge: &str) -> Result<()> {
        let link = self.link();
        if net::is_link(&link) {
            command::run("ip", &["link", "set", &link, "master", bridge])
        } else {
            Ok(())
        }
    }

    /// Runs a shell command as root inside the host, past its network and sshd; a failing command is no error.
    pub fn exec(&self, script: &str) -> Result<ExecOutput> {
        self.exec_with_input(script, b"")
    }

    /// Like [`Host::exec`], with this standard input.
    pub fn exec_with_input(&self, script: &str, input: &[u8]) -> Result<ExecOutput> {
        Ok(command::output_of(&mut self.exec_command(script)?, input)?.into())
    }

    /// Writes a file of root inside the host, with the directories above it.
    pub(crate) fn write(&self, path: &str, mode: &str, content: &str) -> Result<()> {
        let pid = self.leader().ok_or_else(|| LabError::HostDown(self.name.clone()))?;
        let mut install = command::root("nsenter");
        install.args(["-t", &pid.to_string(), "-a", "--", "install", "-D", "-m", mode, "/dev/stdin", path]);
        command::with_input(&mut install, content.as_bytes()).map(drop)
    }

    /// Shows a file of this machine to the lab's hosts, without a copy where it can be, and says where they have it.
    pub(crate) fn share(&self, file: &Path) -> Result<String> {
        self.lab.share(file, "")
    }

    /// The state that all hosts of the lab share.
    pub(crate) fn inner(&self) -> &Inner {
        &self.lab
    }

    /// Where hosts have a file that was shared.
    pub(crate) fn shared(&self, name: &str) -> String {
        format!("{SHARE}/{name}")
    }

    /// The command of [`Host::exec`], to be run in another way.
    pub fn exec_command(&self, script: &str) -> Result<Command> {
        let pid = self.leader().ok_or_else(|| LabError::HostDown(self.name.clone()))?;
        let mut nsenter = command::root("nsenter");
        nsenter.args(["-t", &pid.to_string(), "-a", "--", "env", "-i"]);
        nsenter.args([
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
        ]);
        nsenter.args(["sh", "-c", script]);
        Ok(nsenter)
    }
}

/// Names that are safe as a file, a host and a part of a cgroup.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=30).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(fits)
}
