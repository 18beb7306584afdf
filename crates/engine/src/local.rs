//! Questions to this machine: manifests that kustomize makes, texts of addresses.

use converge_cluster::{environment, in_path};
use converge_resource::{Digest, LocalProbe};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// The time that a program may take.
const SECONDS: u64 = 120;

/// Bytes of an address that are read.
const MOST: usize = 16 << 20;

/// Characters of the words of a program that failed.
const REPLY_CHARS: usize = 2000;

/// The reason why this machine gave no text.
#[derive(Debug, thiserror::Error)]
enum LocalError {
    #[error(
        "a kustomization needs the program `kustomize` or `kubectl` on this machine: install it into a folder of PATH"
    )]
    NoKustomize,
    #[error("an address needs the program `curl` on this machine: install it into a folder of PATH")]
    NoCurl,
    #[error("`{0}` is not a path below the folder")]
    Outside(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it did not end within {SECONDS} s and was ended")]
    Late,
    /// The program failed: its words.
    #[error("{0}")]
    Reply(String),
    #[error("the content found has the SHA-256 {0}, not the declared one")]
    Differs(Digest),
    #[error("it is more than {} MiB", MOST >> 20)]
    TooLarge,
    #[error("it is not UTF-8 text")]
    NoText,
}

/// Answers a question.
pub(crate) async fn answer(probe: &LocalProbe) -> Value {
    let text = match probe {
        LocalProbe::Kustomize { files, overlay } => kustomize(files, overlay).await,
        LocalProbe::Url { url, sha256 } => fetched(url, sha256).await,
    };
    match text {
        Ok(text) => json!({"text": text}),
        Err(error) => json!({"invalid": error.to_string()}),
    }
}

async fn kustomize(files: &BTreeMap<String, String>, overlay: &str) -> Result<String, LocalError> {
    let (program, verb) = match (in_path("kustomize"), in_path("kubectl")) {
        (Some(kustomize), _) => (kustomize, "build"),
        (None, Some(kubectl)) => (kubectl, "kustomize"),
        (None, None) => return Err(LocalError::NoKustomize),
    };
    let folder = tempfile::Builder::new().prefix("converge-kustomize-").tempdir()?;
    let root = folder.path().join("files");
    for (path, text) in files {
        if path.split('/').any(|step| ["", ".", ".."].contains(&step)) {
            return Err(LocalError::Outside(path.to_owned()));
        }
        let full = root.join(path);
        if let Some(above) = full.parent() {
            std::fs::create_dir_all(above)?;
        }
        std::fs::write(full, text)?;
    }
    let mut command = Command::new(program);
    command.arg(verb).arg(root.join(overlay)).current_dir(folder.path());
    let output = ran(command, folder.path()).await.map_err(|error| match error {
        // The folder has another name each time, and nobody finds it afterwards.
        LocalError::Reply(reply) => LocalError::Reply(reply.replace(&format!("{}/", root.display()), "")),
        error => error,
    })?;
    String::from_utf8(output.stdout).map_err(|_| LocalError::NoText)
}

async fn fetched(url: &str, sha256: &str) -> Result<String, LocalError> {
    let mut command = Command::new(in_path("curl").ok_or(LocalError::NoCurl)?);
    // Without its own file of settings; the address is no option.
    command.args(["-q", "-fsSL", "--proto", "=http,https", "--max-filesize", &MOST.to_string(), "--", url]);
    let bytes = ran(command, Path::new("/")).await?.stdout;
    if bytes.len() > MOST {
        return Err(LocalError::TooLarge);
    }
    let found = Digest::of(&bytes);
    if found.as_str() != sha256 {
        return Err(LocalError::Differs(found));
    }
    String::from_utf8(bytes).map_err(|_| LocalError::NoText)
}

/// The output of a program that succeeds, with this folder as its home.
async fn ran(mut command: Command, home: &Path) -> Result<Output, LocalError> {
    command.env_clear().envs(environment()).env("HOME", home).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(SECONDS), command.output());
    let output = ended.await.map_err(|_| LocalError::Late)??;
    if output.status.success() {
        return Ok(output);
    }
    let reply = String::from_utf8_lossy(&output.stderr);
    let reply: String = reply.trim().chars().take(REPLY_CHARS).collect();
    Err(LocalError::Reply(if reply.is_empty() { format!("it ended with {}", output.status) } else { reply }))
}
