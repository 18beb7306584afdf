//! The programs of Kubernetes and its surroundings, built from their Go modules at fixed versions.

use super::part::Part;
use super::{go, modules, versions};
use crate::error::{LabError, Result};
use crate::session::{default_cache_dir, make_cache};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A folder of ready-made programs that is searched before anything is built: the ecosystem's own variable.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Where parts lie.
#[derive(Debug, Clone)]
pub struct Parts {
    folders: BTreeMap<Part, PathBuf>,
}

impl Parts {
    /// The folder of a part's programs.
    ///
    /// Errors when the part was not asked for.
    pub fn folder(&self, part: Part) -> Result<&Path> {
        let found = self.folders.get(&part).map(PathBuf::as_path);
        found.ok_or_else(|| LabError::Part { part: part.name(), why: "it was not asked for".to_owned() })
    }

    /// A program of one of the parts that were asked for; of [`Part::Older`] see [`Parts::folder`].
    ///
    /// Errors when no such part was asked for.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let parts = self.folders.iter().filter(|(part, _)| **part != Part::Older);
        let mut found = parts.filter(|(part, _)| part.programs().contains(&name));
        let path = found.next().map(|(_, folder)| folder.join(name));
        path.ok_or_else(|| LabError::Part {
            part: "kube",
            why: format!("no part with `{name}` was asked for"),
        })
    }
}

/// Finds the parts, in the folder that [`ASSETS`] names or in the cache, and builds missing ones; progress goes to standard
/// error.
///
/// Errors when Go is missing and cannot be got, or when a build fails: nothing is skipped.
pub fn ensure(parts: &[Part]) -> Result<Parts> {
    let say = |line: &str| {
        // Nothing can be done about a closed standard error.
        drop(writeln!(std::io::stderr(), "lab: {line}"));
    };
    ensure_in(&default_cache_dir(), parts, &say)
}

/// Like [`ensure`], with another cache and another listener.
pub fn ensure_in(cache: &Path, parts: &[Part], say: &dyn Fn(&str)) -> Result<Parts> {
    let lacking = lacking(cache, parts);
    let go = match lacking.first() {
        None => PathBuf::new(),
        Some(first) => go::program(cache, say).map_err(|error| {
            let help = instead_of_go(&lacking);
            let why = format!("it has to be built, and there is no Go here: {error}\n{help}");
            LabError::Part { part: first.name(), why }
        })?,
    };
    let mut folders = BTreeMap::new();
    for part in parts {
        let folder = match ready(*part) {
            Some(folder) => folder,
            None => built(cache, *part, &go, say)?,
        };
        folders.insert(*part, folder);
    }
    Ok(Parts { folders })
}

/// The folder of ready-made programs, where it has all of a part.
fn ready(part: Part) -> Option<PathBuf> {
    let assets = std::env::var_os(ASSETS).map(PathBuf::from)?;
    Some(part.in_assets(&assets)).filter(|folder| is_whole(part, folder))
}

/// The parts that have to be built.
pub(crate) fn lacking(cache: &Path, parts: &[Part]) -> Vec<Part> {
    let retained = |part: Part| is_whole(part, &cache_folder(cache).join(part.name()));
    parts.iter().copied().filter(|part| ready(*part).is_none() && !retained(*part)).collect()
}

/// Help for a machine that has no Go to build these and cannot get it.
pub(crate) fn instead_of_go(lacking: &[Part]) -> String {
    let programs: Vec<&str> = lacking.iter().flat_map(|part| part.programs()).copied().collect();
    let (version, programs) = (versions::GO, programs.join(", "));
    format!(
        "install Go {version}, with which they are built once (python3-venv, with which it is got by itself), or name a folder \
         with {programs} in {ASSETS}"
    )
}

/// The folder in the lab's cache for the present versions.
pub(crate) fn cache_folder(cache: &Path) -> PathBuf {
    let digest = Sha256::digest(versions::all());
    let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    cache.join(format!("kube-{short}"))
}

fn is_whole(part: Part, folder: &Path) -> bool {
    part.programs().iter().all(|name| folder.join(name).is_file())
}

fn built(cache: &Path, part: Part, go: &Path, say: &dyn Fn(&str)) -> Result<PathBuf> {
    make_cache(cache)?;
    let root = cache_folder(cache);
    fs::create_dir_all(&root)?;
    let folder = root.join(part.name());
    if is_whole(part, &folder) {
        return Ok(folder);
    }
    // Two tests must not build at once; the second one finds it built.
    let lock = fs::File::create(root.join(format!("{}.lock", part.name())))?;
    lock.file().lock()?;
    if is_whole(part, &folder) {
        return Ok(folder);
    }
    say(&format!("building {} from its Go module (minutes, once)", part.name()));
    let begun = Instant::now();
    let work = root.join(format!("{}.building", part.name()));
    for old in [&work, &folder] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    let out = work.join("out");
    fs::create_dir_all(&out)?;
    build(part, go, &work, &out)?;
    if !is_whole(part, &out) {
        let why = format!("the build left not all of {}", part.programs().join(", "));
        return Err(LabError::Part { part: part.name(), why });
    }
    // Renamed whole: a build that was cut off is not taken for a part.
    fs::rename(&out, &folder)?;
    fs::remove_dir_all(&work)?;
    say(&format!("built {} in {} s", part.name(), begun.elapsed().as_secs()));
    Ok(folder)
}

fn build(part: Part, program: &Path, work: &Path, out: &Path) -> Result<()> {
    let recipe = modules::recipe(part);
    let module = work.join("module");
    fs::create_dir_all(&module)?;
    fs::write(module.join("go.mod"), recipe.go_mod())?;
    run_go(part, program, &module, recipe.cgo, &recipe.arguments(&format!("{}/", out.display())))?;
    match recipe.renamed {
        Some((from, to)) => Ok(fs::rename(out.join(from), out.join(to))?),
        None => Ok(()),
    }
}

fn run_go(part: Part, program: &Path, folder: &Path, cgo: bool, arguments: &[String]) -> Result<()> {
    let mut command = Command::new(program);
    // It finds its own library beside itself.
    command.env_remove("GOROOT");
    command.current_dir(folder).args(arguments).env("CGO_ENABLED", if cgo { "1" } else { "0" });
    let output = command.output().map_err(|error| LabError::Part {
        part: part.name(),
        why: format!("`go` does not start: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.trim().lines().collect();
    let tail = lines.get(lines.len().saturating_sub(25)..).unwrap_or_default().join("\n");
    let verb = arguments.first().map(String::as_str).unwrap_or_default();
    Err(LabError::Part { part: part.name(), why: format!("`go {verb}` failed ({}):\n{tail}", output.status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_belongs_to_one_part() {
        let mut observed = BTreeMap::new();
        for part in Part::ALL.iter().filter(|part| **part != Part::Older) {
            for name in part.programs() {
                assert_eq!(observed.insert(*name, *part), None, "{name}");
            }
        }
    }

    #[test]
    fn a_part_that_was_not_asked_for_is_an_error() {
        let parts = Parts { folders: BTreeMap::from([(Part::Etcd, PathBuf::from("/x"))]) };
        assert_eq!(parts.program("etcd").unwrap(), Path::new("/x/etcd"));
        assert!(parts.program("kubectl").unwrap_err().to_string().contains("kubectl"));
        assert!(parts.folder(Part::Cni).is_err());
    }

    #[test]
    fn without_go_all_that_is_lacking_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lacking(folder.path(), &[]), []);
        let reply = instead_of_go(&[Part::Etcd, Part::Helm]);
        assert!(
            reply.contains("install Go") && reply.contains("etcd, helm in KUBEBUILDER_ASSETS"),
            "{reply}"
        );
    }

    #[test]
    fn a_failing_build_shows_the_message_of_go() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["no-such-verb".to_owned()];
        // It stands for a Go that fails.
        let error =
            run_go(Part::Helm, Path::new("ls"), folder.path(), false, &arguments).unwrap_err().to_string();
        assert!(error.contains("helm") && error.contains("No such file"), "{error}");
    }
}
