//! Container images as docker-archive files, without a registry: one layer, the same inputs give the same bytes.

use super::control_plane::LONG_LIVED;
use crate::command;
use crate::error::{LabError, Result};
use fs_err as fs;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const CREATED: &str = "2026-01-01T00:00:00Z";

/// The content of an image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    name: String,
    entrypoint: Option<String>,
    environment: Vec<String>,
    files: Vec<(String, PathBuf)>,
    links: Vec<(String, String)>,
}

impl Image {
    /// An image of this name and tag.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(crate) fn entrypoint(mut self, program: &str) -> Self {
        self.entrypoint = Some(program.to_owned());
        self
    }

    /// A variable of its processes.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// A file of this machine, at this path in the image.
    pub(crate) fn file(mut self, from: impl Into<PathBuf>, to: &str) -> Self {
        self.files.push((to.to_owned(), from.into()));
        self
    }

    /// A symbolic link in the image.
    pub(crate) fn link(mut self, target: &str, at: &str) -> Self {
        self.links.push((at.to_owned(), target.to_owned()));
        self
    }

    /// The shared libraries that a file needs, where it looks for them.
    pub(crate) fn libraries_of(mut self, file: &Path) -> Result<Self> {
        let mut ldd = Command::new("ldd");
        let output = match command::checked(ldd.arg(file).env("LC_ALL", "C")) {
            // It has all of them in itself.
            Err(LabError::Tool { detail, .. }) if detail.contains("not a dynamic executable") => {
                return Ok(self);
            }
            output => output?,
        };
        for path in libraries(&String::from_utf8_lossy(&output.stdout)) {
            self.files.push((path.clone(), path.into()));
        }
        Ok(self)
    }

    /// Writes the archive, whole or not at all.
    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let layer = self.layer()?;
        let digest = hex(&layer);
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut environment = vec![path.to_owned(), LONG_LIVED.to_owned()];
        environment.extend(self.environment.iter().cloned());
        let mut run = json!({"Env": environment});
        if let Some(program) = &self.entrypoint {
            run["Entrypoint"] = json!([program]);
        }
        let config = json!({
            "architecture": "amd64", "os": "linux", "created": CREATED, "config": run,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
            "history": [{"created": CREATED}],
        })
        .to_string();
        let file = format!("{}.json", hex(config.as_bytes()));
        let manifest =
            json!([{"Config": file, "RepoTags": [self.name], "Layers": ["layer.tar"]}]).to_string();
        let new = to.with_extension("new");
        let mut archive = tar::Builder::new(fs::File::create(&new)?);
        for (name, content) in [
            (file.as_str(), config.as_bytes()),
            ("layer.tar", &layer),
            ("manifest.json", manifest.as_bytes()),
        ] {
            let mut header = header(tar::EntryType::Regular, 0o644);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, content)?;
        }
        archive.finish()?;
        drop(archive);
        Ok(fs::rename(new, to)?)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut observed = BTreeSet::new();
        for folder in ["bin", "dev", "etc", "proc", "run", "sys", "tmp", "var"] {
            folders(&mut archive, &mut observed, folder)?;
        }
        for (to, from) in &self.files {
            let to = to.trim_start_matches('/');
            if !observed.insert(to.to_owned()) {
                continue;
            }
            folders(&mut archive, &mut observed, parent(to))?;
            let content = fs::read(fs::canonicalize(from)?)?;
            let mut header = header(tar::EntryType::Regular, 0o755);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, to, content.as_slice())?;
        }
        for (at, target) in &self.links {
            let at = at.trim_start_matches('/');
            folders(&mut archive, &mut observed, parent(at))?;
            if observed.insert(at.to_owned()) {
                let mut header = header(tar::EntryType::Symlink, 0o777);
                archive.append_link(&mut header, at, target)?;
            }
        }
        archive.into_inner().map_err(LabError::Io)
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A folder and those above it, each once.
fn folders(
    archive: &mut tar::Builder<Vec<u8>>,
    observed: &mut BTreeSet<String>,
    path: &str,
) -> io::Result<()> {
    if path.is_empty() || !observed.insert(path.to_owned()) {
        return Ok(());
    }
    folders(archive, observed, parent(path))?;
    let mut header = header(tar::EntryType::Directory, if path == "tmp" { 0o1777 } else { 0o755 });
    archive.append_data(&mut header, format!("{path}/"), io::empty())
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The paths in what ldd prints.
fn libraries(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let rest = line.split_once("=> ").map_or(line, |(_, rest)| rest).trim();
        rest.split_whitespace().next().filter(|word| word.starts_with('/')).map(ToOwned::to_owned)
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_inputs_give_the_same_archive() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let image = Image::new("lab.local/x:1").entrypoint("/bin/x").file(&file, "/usr/bin/x");
        let image = image.link("x", "/usr/bin/y");
        let [a, b] = ["a.tar", "b.tar"].map(|name| dir.path().join(name));
        image.write(&a).unwrap();
        image.write(&b).unwrap();
        assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
        let mut archive = tar::Archive::new(fs::File::open(&a).unwrap());
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names.len(), 3);
        assert_eq!(names[1..], ["layer.tar", "manifest.json"]);
        let layer = image.layer().unwrap();
        let mut layer = tar::Archive::new(layer.as_slice());
        let names: Vec<String> = layer
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names[8..], ["usr/", "usr/bin/", "usr/bin/x", "usr/bin/y"]);
    }

    #[test]
    fn libraries_are_read_as_ldd_prints_them() {
        let text = "\tlinux-vdso.so.1 (0x00007)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007)\n";
        assert_eq!(libraries(text), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tnot a dynamic executable\n").is_empty());
    }
}
