//! A very small web server for files: what apt and curl ask of a repository.

use crate::error::Result;
use crate::http::RequestHead;
use fs_err as fs;
use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks for a client.
const LOOK: Duration = Duration::from_millis(10);

/// Serves a folder until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(folder: &Path, address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address)?;
        // It looks for its end between two clients: nothing could wake it up once the address is gone.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (observed, root) = (Arc::clone(&stop), folder.to_owned());
        let thread = std::thread::Builder::new().name("lab-http".to_owned()).spawn(move || {
            while !observed.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(LOOK);
                    continue;
                };
                let root = root.clone();
                // A client that goes away in the middle is no concern of the others.
                let answer = move || stream.set_nonblocking(false).and_then(|()| answer(&root, stream));
                drop(std::thread::Builder::new().spawn(answer));
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn answer(root: &Path, stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let RequestHead { method, path, .. } = RequestHead::read(&mut reader)?;
    let file = below(root, &path).and_then(|path| fs::File::open(path).ok());
    let file = file.and_then(|file| {
        let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        Some((file, size))
    });
    match file {
        Some((mut file, size)) if method == "GET" || method == "HEAD" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n")?;
            if method == "GET" {
                io::copy(&mut file, &mut stream)?;
            }
        }
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?,
    }
    stream.flush()
}

/// The file that a request means; nothing outside the folder.
fn below(root: &Path, request: &str) -> Option<PathBuf> {
    let path = decoded(request.split(['?', '#']).next()?)?;
    let relative = Path::new(path.trim_start_matches('/'));
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| root.join(relative))
}

fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_request_stays_in_the_folder() {
        let root = Path::new("/r");
        assert_eq!(below(root, "/core%3a/x?y"), Some(PathBuf::from("/r/core:/x")));
        for bad in ["/../etc/passwd", "/%2e%2e/etc/passwd", "/a/%2", "//../x"] {
            assert_eq!(below(root, bad), None, "{bad}");
        }
    }

    #[test]
    fn files_are_served_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a:b"), "content").unwrap();
        let server = Server::start(dir.path(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let answer = ask("/a:b");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\ncontent"), "{answer}");
        assert!(ask("/").starts_with("HTTP/1.1 404 "));
    }
}
