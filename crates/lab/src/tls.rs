//! TLS before a small server of the lab: each connection goes through a process of openssl, which a client sees as the server.

use crate::error::{LabError, Result};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A key and a certificate for 127.0.0.1 by an authority that nobody knows, in files of the folder.
const CERTIFICATE: &str = r#"set -e; cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -days 2 -subj /CN=lab -out ca.pem
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout server.key -subj /CN=server -out server.csr
printf subjectAltName=IP:127.0.0.1 >server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem"#;

/// The certificate of a server.
pub(crate) struct Tls {
    folder: PathBuf,
    connections: AtomicU64,
}

/// One connection, decrypted.
pub(crate) struct TlsConnection {
    openssl: Child,
    /// The bytes of the client.
    pub reader: ChildStdout,
    /// The bytes to the client.
    pub writer: ChildStdin,
}

impl Tls {
    /// Makes the certificate in this folder, which it creates.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        fs_err::create_dir_all(folder)?;
        let made = Command::new("sh").args(["-c", CERTIFICATE, "sh"]).arg(folder).output()?;
        if !made.status.success() {
            return Err(LabError::Tool {
                command: "openssl".to_owned(),
                status: made.status.to_string(),
                detail: String::from_utf8_lossy(&made.stderr).into_owned(),
            });
        }
        Ok(Self { folder: folder.to_owned(), connections: AtomicU64::new(0) })
    }

    /// The certificate of the authority.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Puts a process of openssl before this connection.
    pub(crate) fn accept(&self, client: TcpStream) -> io::Result<TlsConnection> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let socket = format!("{number}.sock");
        let mut openssl = Command::new("openssl")
            .args([
                "s_server",
                "-quiet",
                "-cert",
                "server.pem",
                "-key",
                "server.key",
                "-naccept",
                "1",
                "-unix",
                &socket,
            ])
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let server = connect(&self.folder.join(&socket)).inspect_err(|_| drop(openssl.kill()))?;
        let (to, from) = (server.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || pump(&from, &to, |to| to.shutdown(Shutdown::Write)));
        std::thread::spawn(move || pump(&server, &client, |client| client.shutdown(Shutdown::Both)));
        match (openssl.stdout.take(), openssl.stdin.take()) {
            (Some(reader), Some(writer)) => Ok(TlsConnection { openssl, reader, writer }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl TlsConnection {
    /// Waits until the client has closed the connection.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let end = Instant::now() + Duration::from_secs(30);
        while self.openssl.try_wait()?.is_none() {
            if Instant::now() > end {
                return self.openssl.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Connects as soon as openssl listens.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match UnixStream::connect(socket) {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

/// Copies until the end; then `close` says so.
fn pump<R, W>(mut from: R, mut to: W, close: impl Fn(&W) -> io::Result<()>)
where
    R: io::Read,
    W: io::Write,
{
    drop(io::copy(&mut from, &mut to));
    drop(close(&to));
}
