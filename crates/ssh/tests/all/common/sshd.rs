//! A real sshd on a loopback port, with its own keys and configuration, for the user who runs the tests.

use converge_ssh::{SessionOptions, SshEndpoint};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub struct Sshd {
    child: Child,
    pub dir: tempfile::TempDir,
    pub port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub fn keygen(arguments: &[&str]) {
    let out = Command::new("ssh-keygen").arg("-q").args(arguments).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// File names and contents of all keys: an RSA key takes as long to make as a test to run.
static KEYS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();

fn make_keys() -> Vec<(String, Vec<u8>)> {
    let dir = tempfile::tempdir().unwrap();
    let mut keys = Vec::new();
    for (name, kind, phrase) in [
        ("host_ed25519", "ed25519", ""),
        ("host_rsa", "rsa", ""),
        ("ed25519", "ed25519", ""),
        ("rsa", "rsa", ""),
        ("ecdsa", "ecdsa", ""),
        ("stranger", "ed25519", ""),
        ("locked", "ed25519", "secret"),
    ] {
        keygen(&["-t", kind, "-N", phrase, "-f", dir.path().join(name).to_str().unwrap()]);
        for file in [name.to_owned(), format!("{name}.pub")] {
            let content = std::fs::read(dir.path().join(&file)).unwrap();
            keys.push((file, content));
        }
    }
    keys
}

/// Host keys ed25519 and RSA; user keys `ed25519`, `rsa`, `ecdsa` (allowed), `stranger` (not), `locked` (allowed, passphrase `secret`).
/// `None` when there is no sshd, which is reported.
pub fn sshd(extra: &str) -> Option<Sshd> {
    let program =
        ["/usr/sbin/sshd", "/usr/bin/sshd", "/sbin/sshd"].into_iter().find(|path| Path::new(path).exists());
    let Some(program) = program else {
        super::missing("sshd");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (name, content) in KEYS.get_or_init(make_keys) {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path(name)).unwrap();
        file.write_all(content).unwrap();
    }
    let allowed: String = ["ed25519", "rsa", "ecdsa", "locked"]
        .map(|name| std::fs::read_to_string(path(&format!("{name}.pub"))).unwrap())
        .concat();
    std::fs::write(path("authorized_keys"), allowed).unwrap();
    if is_root() {
        std::fs::create_dir_all("/run/sshd").unwrap();
    }
    // Another process may take the port before sshd does; then the next one is tried.
    for _ in 0..5 {
        let port = free_port();
        let config = format!(
            "{extra}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nLogLevel VERBOSE\n",
            path("host_ed25519"),
            path("host_rsa"),
            path("authorized_keys"),
        );
        std::fs::write(path("sshd_config"), config).unwrap();
        let log = std::fs::File::create(path("log")).unwrap();
        let mut child = Command::new(program)
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        if listens(&mut child, port) {
            return Some(Sshd { child, dir, port });
        }
        child.kill().ok();
        child.wait().unwrap();
        let log = std::fs::read_to_string(path("log")).unwrap_or_default();
        assert!(log.contains("Bind to port"), "sshd did not start: {log}");
    }
    panic!("no free port for sshd");
}

fn listens(child: &mut Child, port: u16) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn is_root() -> bool {
    user() == "root"
}

pub fn user() -> String {
    let out = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

impl Sshd {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// `[127.0.0.1]:port TYPE KEY` of a host key.
    pub fn known_line(&self, key: &str) -> String {
        let public = self.text(&format!("{key}.pub"));
        let words: Vec<&str> = public.split_whitespace().take(2).collect();
        format!("[127.0.0.1]:{} {}\n", self.port, words.join(" "))
    }

    /// A target that knows this host's ed25519 key and logs in with this user key.
    pub fn target(&self, key: &str) -> SshEndpoint {
        let known = self.path("known_hosts");
        if !known.exists() {
            std::fs::write(&known, self.known_line("host_ed25519")).unwrap();
        }
        SshEndpoint {
            address: "127.0.0.1".to_owned(),
            port: self.port,
            user: Some(user()),
            key_files: vec![self.path(key).try_into().unwrap()],
            known_hosts: vec![known.try_into().unwrap()],
            ..SshEndpoint::ssh("gpu1")
        }
    }
}

/// Options in whose home directory there is nothing.
pub fn options(home: &Path) -> SessionOptions {
    SessionOptions { home: Some(home.join("nothing").try_into().unwrap()), ..super::options() }
}
