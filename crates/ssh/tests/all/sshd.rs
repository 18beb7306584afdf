//! Sessions with a real sshd, and with things that are none.

use crate::common::sshd::{Sshd, free_port, keygen, options, sshd};
use converge_ssh::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

async fn refused(target: &SshEndpoint, options: &SessionOptions) -> ConnectError {
    match Session::connect(target, options).await {
        Ok(_) => panic!("a session came about"),
        Err(error) => error,
    }
}

async fn echo(session: &Session) -> String {
    let shell = session.shell(&Become::None).await.unwrap();
    let (results, error) =
        shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "echo hello; id -un")])).await.unwrap();
    assert!(error.is_none(), "{error:?}");
    String::from_utf8(results[0].output.clone()).unwrap()
}

fn hello() -> String {
    format!("hello\n{}\n", crate::common::sshd::user())
}

#[tokio::test]
async fn key_files_of_every_type_log_in() {
    let Some(host) = sshd("") else { return };
    for key in ["ed25519", "ecdsa", "rsa"] {
        let session = Session::connect(&host.target(key), &options(host.dir.path()))
            .await
            .unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(echo(&session).await, hello(), "{key}");
    }
    // An RSA key that this process signs with is reported, once for a file.
    let once = options(host.dir.path());
    for (key, reported) in [("ed25519", 0), ("rsa", 1), ("rsa", 0)] {
        let (trail, session) = Session::explore(&host.target(key), &once).await;
        session.unwrap();
        let files =
            trail.iter().filter(|mark| matches!(mark, Mark::RsaKeyFile { path } if path.ends_with("/rsa")));
        assert_eq!(files.count(), reported, "{key}: {trail:?}");
    }
    // A key that is not named: found in the home directory.
    let home = host.path("home");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::copy(host.path("ed25519"), home.join(".ssh/id_ed25519")).unwrap();
    std::fs::write(home.join(".ssh/known_hosts"), host.known_line("host_ed25519")).unwrap();
    let target = SshEndpoint { key_files: Vec::new(), known_hosts: Vec::new(), ..host.target("ed25519") };
    let options = SessionOptions { home: Some(home.try_into().unwrap()), ..crate::common::options() };
    assert_eq!(echo(&Session::connect(&target, &options).await.unwrap()).await, hello());
}

#[tokio::test]
async fn a_refused_login_names_what_was_tried() {
    let Some(host) = sshd("") else { return };
    let mut target = host.target("stranger");
    target.key_files.push(host.path("locked").try_into().unwrap());
    target.key_files.push(host.path("no-such-key").try_into().unwrap());
    let error = refused(&target, &options(host.dir.path())).await;
    assert!(error.is_refused() && !error.is_unreachable());
    let ConnectError::RefusedLogin { tried, offered, notes, .. } = &error else { panic!("{error}") };
    assert_eq!(tried.len(), 1);
    assert!(tried[0].starts_with("ssh-ed25519 SHA256:") && tried[0].ends_with("stranger"), "{tried:?}");
    assert_eq!(**offered, ["publickey"]);
    assert!(notes[0].contains("passphrase") && notes[0].contains("ssh-add"), "{notes:?}");
    assert!(notes[1].contains("no-such-key") && notes[1].contains("cannot be read"), "{notes:?}");

    let nothing = SshEndpoint { key_files: Vec::new(), ..target };
    let error = refused(&nothing, &options(host.dir.path())).await.to_string();
    assert!(error.contains("There is no key to try"), "{error}");
}

#[tokio::test]
async fn a_private_key_that_others_may_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(host) = sshd("") else { return };
    let mode = |key: &str, mode: u32| {
        std::fs::set_permissions(host.path(key), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let target = host.target("ed25519");
    for open in [0o644, 0o640, 0o622] {
        mode("ed25519", open);
        let error = refused(&target, &options(host.dir.path())).await;
        let ConnectError::RefusedLogin { tried, notes, .. } = &error else { panic!("{error}") };
        assert_eq!(**tried, [] as [String; 0], "{open:o}");
        let remedy = format!("run `chmod 600 {}`", host.path("ed25519").display());
        assert!(
            notes.iter().any(|n| n.contains("by others than its owner") && n.contains(&remedy)),
            "{notes:?}"
        );
    }
    mode("ed25519", 0o600);
    assert_eq!(echo(&Session::connect(&target, &options(host.dir.path())).await.unwrap()).await, hello());
    // Nor is one that would be unlocked.
    let (ring, locked) = (KeyRing::default(), camino::Utf8PathBuf::try_from(host.path("locked")).unwrap());
    mode("locked", 0o644);
    let error = ring.unlock(&locked, &"secret".into()).unwrap_err();
    assert!(matches!(&error, KeyFileError::Open(path) if *path == locked), "{error}");
    assert!(error.to_string().contains("chmod 600"), "{error}");
    mode("locked", 0o600);
    assert!(ring.unlock(&locked, &"secret".into()).unwrap());
}

struct Agent {
    pid: String,
    socket: String,
}

impl Drop for Agent {
    fn drop(&mut self) {
        Command::new("kill").arg(&self.pid).status().ok();
    }
}

fn agent(host: &Sshd, keys: &[&str]) -> Agent {
    let socket = host.path("agent").to_str().unwrap().to_owned();
    let out = Command::new("ssh-agent").args(["-s", "-a", &socket]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let pid = text.split("SSH_AGENT_PID=").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let ask = host.path("askpass");
    std::fs::write(&ask, "#!/bin/sh\necho secret\n").unwrap();
    Command::new("chmod").arg("700").arg(&ask).status().unwrap();
    for key in keys {
        let added = Command::new("ssh-add")
            .arg(host.path(key))
            .env("SSH_AUTH_SOCK", &socket)
            .env("SSH_ASKPASS", &ask)
            .env("SSH_ASKPASS_REQUIRE", "force")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    }
    Agent { pid, socket }
}

#[tokio::test]
async fn the_agent_logs_in_also_with_a_key_whose_file_is_locked() {
    let Some(host) = sshd("MaxAuthTries 3") else { return };
    let agent = agent(&host, &["stranger", "rsa", "locked"]);
    let with_agent = SessionOptions { agent: Some(agent.socket.clone().into()), ..options(host.dir.path()) };
    let target = SshEndpoint { key_files: Vec::new(), ..host.target("ed25519") };
    assert_eq!(echo(&Session::connect(&target, &with_agent).await.unwrap()).await, hello());
    let locked = host.target("locked");
    assert_eq!(echo(&Session::connect(&locked, &with_agent).await.unwrap()).await, hello());
    // Only the agent's copy of the named key: the others do not use up the server's patience.
    let only = SshEndpoint { identities_only: true, ..locked };
    assert_eq!(echo(&Session::connect(&only, &with_agent).await.unwrap()).await, hello());

    // An RSA key of a named file is the agent's to sign with, where it holds it.
    let (trail, session) = Session::explore(&host.target("rsa"), &with_agent).await;
    assert_eq!(echo(&session.unwrap()).await, hello());
    assert!(!trail.iter().any(|mark| matches!(mark, Mark::RsaKeyFile { .. })), "{trail:?}");

    let gone = SessionOptions { agent: Some("/nonexistent/agent".into()), ..options(host.dir.path()) };
    let error = refused(&target, &gone).await.to_string();
    assert!(error.contains("No ssh-agent answers at /nonexistent/agent"), "{error}");
}

#[tokio::test]
async fn an_unknown_host_key_is_refused_with_the_line_that_would_accept_it() {
    let Some(host) = sshd("") else { return };
    let known = host.path("other_known_hosts");
    let target =
        SshEndpoint { known_hosts: vec![known.clone().try_into().unwrap()], ..host.target("ed25519") };
    let error = refused(&target, &options(host.dir.path())).await;
    let ConnectError::UnknownHostKey { key, file, .. } = &error else { panic!("{error}") };
    let ShownKey { line, algorithm, fingerprint, .. } = &**key;
    assert_eq!(algorithm, "ssh-ed25519");
    assert_eq!(*file, known.to_str().unwrap());
    assert_eq!(format!("{line}\n"), host.known_line("host_ed25519"));
    let shown = Command::new("ssh-keygen").arg("-lf").arg(host.path("host_ed25519.pub")).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(fingerprint.as_str()));
    assert!(error.is_refused());

    std::fs::write(&known, format!("{line}\n")).unwrap();
    assert_eq!(echo(&Session::connect(&target, &options(host.dir.path())).await.unwrap()).await, hello());
    // The same, with the name hashed by ssh-keygen.
    keygen(&["-H", "-f", known.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&known).unwrap().starts_with("|1|"));
    assert_eq!(echo(&Session::connect(&target, &options(host.dir.path())).await.unwrap()).await, hello());
}

#[tokio::test]
async fn a_changed_and_a_revoked_key_are_refused_with_their_lines() {
    let Some(host) = sshd("") else { return };
    let target = host.target("ed25519");
    let known = host.path("known_hosts");
    let real = host.known_line("host_ed25519");
    let other = format!("[127.0.0.1]:{} {}", host.port, host.text("stranger.pub"));
    std::fs::write(&known, format!("# comment\n\n{other}")).unwrap();
    let error = refused(&target, &options(host.dir.path())).await;
    let ConnectError::ChangedHostKey { recorded, .. } = &error else { panic!("{error}") };
    assert_eq!(recorded, &[FileLine { file: known.to_str().unwrap().to_owned(), line: 3 }]);
    assert!(error.to_string().contains(&format!("{}:3", known.display())) && error.is_refused());

    std::fs::write(&known, format!("{real}@revoked * {}", real.split_once(' ').unwrap().1)).unwrap();
    let error = refused(&target, &options(host.dir.path())).await;
    assert!(matches!(&error, ConnectError::RevokedHostKey { at, .. } if at.line == 2), "{error}");

    std::fs::remove_file(&known).unwrap();
    std::fs::create_dir(&known).unwrap();
    let error = refused(&target, &options(host.dir.path())).await;
    assert!(matches!(&error, ConnectError::KnownHostsFile { .. }), "{error}");
}

#[tokio::test]
async fn a_host_known_by_its_rsa_key_only_is_asked_for_that_key() {
    let Some(host) = sshd("") else { return };
    let target = host.target("ed25519");
    std::fs::write(host.path("known_hosts"), host.known_line("host_rsa")).unwrap();
    assert_eq!(echo(&Session::connect(&target, &options(host.dir.path())).await.unwrap()).await, hello());
}

#[tokio::test]
async fn more_shells_than_max_sessions_get_a_connection_of_their_own() {
    let Some(host) = sshd("MaxSessions 2") else { return };
    let session = Session::connect(&host.target("ed25519"), &options(host.dir.path())).await.unwrap();
    let mut shells = Vec::new();
    for _ in 0..3 {
        shells.push(session.shell(&Become::None).await.unwrap());
    }
    for shell in &shells {
        let (results, error) =
            shell.run_to_end(&Batch::of(vec![ShellItem::new(1, "echo on")])).await.unwrap();
        assert!(error.is_none() && results[0].output == b"on\n", "{error:?}");
    }
}

#[tokio::test]
async fn a_server_without_sessions_is_an_error_of_its_own() {
    let Some(host) = sshd("MaxSessions 0") else { return };
    let session = Session::connect(&host.target("ed25519"), &options(host.dir.path())).await.unwrap();
    let error = session.shell(&Become::None).await.unwrap_err();
    assert!(
        matches!(&error, ShellError::NoChannel { .. }) && error.to_string().contains("MaxSessions"),
        "{error}"
    );
}

#[tokio::test]
async fn a_slow_reader_on_one_shell_does_not_stop_another() {
    let Some(host) = sshd("") else { return };
    let session = Session::connect(&host.target("ed25519"), &options(host.dir.path())).await.unwrap();
    let noisy = session.shell(&Become::None).await.unwrap();
    let unread = noisy.run(&Batch::of(vec![ShellItem::new(1, "head -c 30000000 /dev/zero")])).unwrap();
    assert_eq!(echo(&session).await, hello());
    let mut unread = unread;
    let mut size = 0;
    let mut cut_seen = false;
    while let Some(event) = unread.next().await {
        match event.unwrap() {
            ShellEvent::Output { bytes, .. } => size += bytes.len(),
            ShellEvent::Finished { cut, .. } => cut_seen = cut,
            _ => {}
        }
    }
    assert!(cut_seen);
    assert_eq!(size, 8 << 20);
}

#[tokio::test]
async fn a_server_that_does_not_speak_ssh_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let at = |port| SshEndpoint {
        address: "127.0.0.1".to_owned(),
        port,
        known_hosts: vec![dir.path().join("known_hosts").try_into().unwrap()],
        connect_timeout: Duration::from_secs(2),
        ..SshEndpoint::ssh("odd")
    };
    let error = refused(&at(free_port()), &options).await;
    assert!(matches!(&error, ConnectError::Unreachable { .. }) && error.is_unreachable(), "{error}");

    let serve = |answer: &'static [u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.write_all(answer).ok();
                if answer.is_empty() {
                    held.push(stream);
                }
            }
        });
        port
    };
    let web = refused(&at(serve(b"HTTP/1.1 400 Bad Request\r\n\r\n")), &options).await;
    assert!(matches!(&web, ConnectError::Protocol { .. }) && web.is_unreachable(), "{web}");
    let noise = refused(&at(serve(&[0xff; 4000])), &options).await;
    assert!(matches!(&noise, ConnectError::Protocol { .. }), "{noise}");
    let half =
        refused(&at(serve(b"SSH-2.0-Fake\r\n\x00\x00\x00\x0c\x0a\x14garbagegarbagegarbage")), &options).await;
    assert!(matches!(&half, ConnectError::Protocol { .. } | ConnectError::HungUp { .. }), "{half}");

    let began = Instant::now();
    let silent = refused(&at(serve(b"")), &options).await;
    assert!(matches!(&silent, ConnectError::Timeout { during: ConnectPhase::Handshake, .. }), "{silent}");
    assert!(began.elapsed() >= Duration::from_secs(2));

    let unnamed = SshEndpoint {
        address: "no-such-host.invalid".to_owned(),
        connect_timeout: Duration::from_secs(30),
        ..at(22)
    };
    let error = refused(&unnamed, &options).await;
    assert!(matches!(&error, ConnectError::Dns { .. }), "{error}");
}

/// Passes bytes on between a client and sshd until it gets the signal to cut.
fn proxy(to: u16) -> (u16, std::sync::mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cut, reported) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        for (from, into) in [(&client, &server), (&server, &client)] {
            let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut buf = [0; 16384];
                while let Ok(n @ 1..) = from.read(&mut buf) {
                    if into.write_all(&buf[..n]).is_err() {
                        break;
                    }
                }
            });
        }
        reported.recv().ok();
        client.shutdown(std::net::Shutdown::Both).ok();
        server.shutdown(std::net::Shutdown::Both).ok();
    });
    (port, cut)
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_of_an_item_names_what_is_open() {
    let Some(host) = sshd("") else { return };
    let (port, cut) = proxy(host.port);
    let target = SshEndpoint { host_key_alias: Some("the-host".to_owned()), port, ..host.target("ed25519") };
    let line = host.known_line("host_ed25519");
    std::fs::write(host.path("known_hosts"), format!("the-host {}", line.split_once(' ').unwrap().1))
        .unwrap();
    let session = Session::connect(&target, &options(host.dir.path())).await.unwrap();
    let shell = session.shell(&Become::None).await.unwrap();
    let mark = host.path("went-on");
    let batch = Batch::of(vec![
        ShellItem::new(1, "echo one"),
        ShellItem::new(2, "echo two; read -r x </dev/null; sleep 5"),
        ShellItem::new(3, format!("touch {}", quote(mark.to_str().unwrap()))),
    ]);
    let mut events = shell.run(&batch).unwrap();
    let error = loop {
        match events.next().await.unwrap() {
            Ok(ShellEvent::Output { id: 2, .. }) => cut.send(()).unwrap(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, ShellError::Closed { open, .. } if *open == [2, 3]), "{error}");
    assert!(events.next().await.is_none());
    // Everything that is sent from now on learns the same.
    let (_, later) = shell.run_to_end(&Batch::of(vec![ShellItem::new(9, "true")])).await.unwrap();
    assert!(matches!(later, Some(ShellError::Closed { .. })), "{later:?}");
    assert!(session.is_closed());
}
