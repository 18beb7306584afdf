//! A small private repository of helm charts, which is a registry of OCI too: HTTP with basic authentication, or with tokens as large registries have
//! them, on a port of this machine's loopback.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{LabError, Result};
use crate::http::RequestHead;
use crate::tls::Tls;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &[u8] = b"{}";
/// The token of a registry that hands out tokens.
const TOKEN: &str = "a-token-of-the-lab";

/// A packaged chart.
struct PackedChart {
    name: String,
    version: String,
    archive: Vec<u8>,
}

/// The parts that every connection reads.
#[derive(Default)]
struct ServedCharts {
    /// The expected header `Authorization`; `None` refuses all with 403.
    authorization: Mutex<Option<String>>,
    /// The registry takes no login but a token, which its other address gives to the login.
    has_tokens: AtomicBool,
    charts: Mutex<Vec<PackedChart>>,
    /// Paths that were given out.
    given: Mutex<Vec<String>>,
    tls: Option<Tls>,
}

/// The server. It ends with the process.
pub struct ChartServer {
    address: SocketAddr,
    shared: Arc<ServedCharts>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChartServer {
    /// Starts it on a free port, with no chart.
    ///
    /// # Errors
    /// No port can be opened.
    pub fn start() -> Result<Self> {
        Self::serve(None)
    }

    /// The same with TLS, by a certificate of an authority of its own: the files lie in this folder.
    ///
    /// # Errors
    /// No port can be opened; the certificate cannot be made.
    pub fn start_with_tls(folder: &Path) -> Result<Self> {
        Self::serve(Some(Tls::new(folder)?))
    }

    fn serve(tls: Option<Tls>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServedCharts { tls, ..ServedCharts::default() });
        let of_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_all);
                std::thread::spawn(move || drop(answer_one(stream, &shared)));
            }
        });
        Ok(Self { address, shared })
    }

    /// The certificate of the authority behind TLS.
    pub fn authority(&self) -> Option<PathBuf> {
        self.shared.tls.as_ref().map(Tls::authority)
    }

    /// Lets this user in, and no other.
    pub fn admit(&self, username: &str, password: &str) {
        *locked(&self.shared.authorization) =
            Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))));
    }

    /// Knows everybody, and lets nobody read (403).
    pub fn forbid(&self) {
        *locked(&self.shared.authorization) = None;
    }

    /// The registry refuses a login from now on, and names the address where it gets a token.
    pub fn hand_out_tokens(&self) {
        self.shared.has_tokens.store(true, Ordering::Relaxed);
    }

    /// Takes a packaged chart.
    pub fn put(&self, name: &str, version: &str, archive: Vec<u8>) {
        locked(&self.shared.charts).push(PackedChart {
            name: name.to_owned(),
            version: version.to_owned(),
            archive,
        });
    }

    /// Packs a chart with the real helm, of files by their names in it, and takes it.
    ///
    /// # Errors
    /// helm refuses the chart, or a file cannot be written.
    pub fn pack(&self, helm: &Path, name: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
        let folder = format!("chart-{}-{}-{name}", std::process::id(), self.address.port());
        let folder = std::env::temp_dir().join(folder);
        let meta = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        for (file, text) in files.iter().copied().chain([("Chart.yaml", meta.as_str())]) {
            let path = folder.join(name).join(file);
            fs_err::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs_err::write(&path, text)?;
        }
        let packed =
            Command::new(helm).arg("package").arg(folder.join(name)).current_dir(&folder).output()?;
        if !packed.status.success() {
            return Err(LabError::Tool {
                command: format!("helm package {name}"),
                status: packed.status.to_string(),
                detail: String::from_utf8_lossy(&packed.stderr).into_owned(),
            });
        }
        self.put(name, version, fs_err::read(folder.join(format!("{name}-{version}.tgz")))?);
        Ok(fs_err::remove_dir_all(&folder)?)
    }

    /// `HOST:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The paths that were given out since the last call.
    pub fn given(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.shared.given))
    }
}

/// Answers the request of one connection.
fn answer_one(stream: TcpStream, shared: &ServedCharts) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let Some(tls) = &shared.tls else { return answer(&stream, &stream, shared) };
    let mut connection = tls.accept(stream)?;
    answer(&mut connection.reader, &mut connection.writer, shared)?;
    connection.finish()
}

/// Answers the request that is read with what is written.
fn answer(reader: impl Read, mut writer: impl Write, shared: &ServedCharts) -> std::io::Result<()> {
    let mut reader = BufReader::new(reader).take(64 << 10);
    let RequestHead { method, path, headers } = RequestHead::read(&mut reader)?;
    let login = locked(&shared.authorization).clone();
    let wants_token = shared.has_tokens.load(Ordering::Relaxed) && path.starts_with("/v2/");
    let expected = if wants_token { login.map(|_| format!("Bearer {TOKEN}")) } else { login };
    let found = match (&expected, headers.get("authorization")) {
        (None, _) => Err("403 Forbidden"),
        (Some(expected), Some(given)) if given == expected => {
            content(&path, &locked(&shared.charts)).ok_or("404 Not Found")
        }
        _ => Err("401 Unauthorized"),
    };
    if found.is_ok() {
        locked(&shared.given).push(path);
    }
    let (status, kind, body) = match found {
        Ok((kind, body)) => ("200 OK", kind, body),
        Err(status) => (status, "text/plain", Vec::new()),
    };
    let digest = digest(&body);
    let challenge = if wants_token {
        let host = headers.get("host").map(String::as_str).unwrap_or_default();
        let scheme = if shared.tls.is_some() { "https" } else { "http" };
        format!(
            "Bearer realm=\"{scheme}://{host}/token\",service=\"charts\",scope=\"repository:charts:pull\""
        )
    } else {
        "Basic realm=\"charts\"".to_owned()
    };
    write!(
        writer,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nDocker-Content-Digest: {digest}\r\nWWW-Authenticate: {challenge}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        writer.write_all(&body)?;
    }
    writer.flush()
}

/// Type and body of a path: the index of the repository, an archive, or a manifest or blob of the registry.
fn content(path: &str, charts: &[PackedChart]) -> Option<(&'static str, Vec<u8>)> {
    if path.starts_with("/token?") {
        return Some(("application/json", serde_json::json!({"token": TOKEN}).to_string().into_bytes()));
    }
    if path == "/index.yaml" {
        let mut index = "apiVersion: v1\nentries:\n".to_owned();
        for PackedChart { name, version, .. } in charts {
            index.push_str(&format!(
                "  {name}:\n  - {{apiVersion: v2, name: {name}, version: {version}, urls: [{name}-{version}.tgz]}}\n"
            ));
        }
        return Some(("text/yaml", index.into_bytes()));
    }
    let archive = |chart: &&PackedChart| path == format!("/{}-{}.tgz", chart.name, chart.version);
    if let Some(chart) = charts.iter().find(archive) {
        return Some(("application/gzip", chart.archive.clone()));
    }
    let wanted = path.strip_prefix("/v2/")?.rsplit('/').next()?;
    let blobs = charts.iter().map(|chart| chart.archive.as_slice()).chain([CONFIG]);
    if let Some(blob) = blobs.into_iter().find(|blob| digest(blob) == wanted) {
        return Some(("application/octet-stream", blob.to_vec()));
    }
    let of_path = |chart: &&PackedChart| {
        path.contains(&format!("/{}/manifests/", chart.name))
            && (chart.version == wanted || digest(&manifest(chart)) == wanted)
    };
    Some((MANIFEST, manifest(charts.iter().find(of_path)?)))
}

/// The manifest of a chart in a registry.
fn manifest(chart: &PackedChart) -> Vec<u8> {
    let part = |kind: &str, bytes: &[u8]| serde_json::json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
    serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": part("application/vnd.cncf.helm.config.v1+json", CONFIG),
        "layers": [part("application/vnd.cncf.helm.chart.content.v1.tar+gzip", &chart.archive)],
    })
    .to_string()
    .into_bytes()
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
