//! Programs of this machine that work for a cluster: helm, kustomize, curl.

use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that they may see: where programs are, and the way out to the network.
const PASSED: [&str; 10] = [
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TMPDIR",
];

/// The environment that such a program gets: a few variables of this process, and no other.
pub fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)))
}

/// The program of this name in a folder of PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}
