//! Documents that the `converge` binary writes about itself.

use crate::process::{Result, cargo, run, workspace};
use fs_err as fs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes them below `docs/`.
pub fn write() -> Result<()> {
    generate(&workspace().join("docs"), None)
}

/// The command that runs the binary: cargo's, or the binary itself where it is built.
fn converge(built: Option<&Path>) -> Command {
    match built {
        Some(program) => Command::new(program),
        None => cargo(&["run", "--quiet", "--locked", "-p", "converge-cli", "--bin", "converge", "--"]),
    }
}

/// Fails when a file differs from what would be written, is missing, or lies in a generated folder without being generated.
pub fn check(built: Option<&Path>) -> Result<()> {
    let fresh = tempfile::tempdir()?;
    generate(fresh.path(), built)?;
    let wrong = differences(fresh.path(), &workspace().join("docs"))?;
    if wrong.is_empty() {
        return Ok(());
    }
    let list: String = wrong.iter().map(|line| format!("\n  {line}")).collect();
    Err(format!("run `cargo xtask generate` and commit what it writes; not up to date:{list}").into())
}

fn generate(out: &Path, built: Option<&Path>) -> Result<()> {
    run(converge(built).args(["docs", "--out"]).arg(out))
}

fn differences(fresh: &Path, retained: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let generated = files(fresh, fresh)?;
    if generated.is_empty() {
        return Err("the generator wrote nothing".into());
    }
    for path in &generated {
        let there = retained.join(path);
        if !there.exists() {
            wrong.push(format!("docs/{}: missing", path.display()));
        } else if fs::read(fresh.join(path))? != fs::read(there)? {
            wrong.push(format!("docs/{}: differs", path.display()));
        }
    }
    // A folder that the generator writes to is wholly its own.
    let folders: BTreeSet<&Path> =
        generated.iter().filter_map(|path| path.parent()).filter(|path| *path != Path::new("")).collect();
    for folder in folders {
        if !retained.join(folder).is_dir() {
            continue;
        }
        for entry in fs::read_dir(retained.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_file() && !generated.contains(&path) {
                wrong.push(format!("docs/{}: nothing generates it any more", path.display()));
            }
        }
    }
    Ok(wrong)
}

fn files(folder: &Path, top: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, top)?);
        } else {
            found.insert(path.strip_prefix(top)?.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_of_difference_is_named() {
        let (fresh, retained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |folder: &Path, name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, text) in
            [("ref/same.md", "1"), ("ref/old.md", "new"), ("ref/new.md", "2"), ("top.md", "3")]
        {
            put(fresh.path(), name, text);
        }
        for (name, text) in [
            ("ref/same.md", "1"),
            ("ref/old.md", "old"),
            ("ref/stale.md", "4"),
            ("top.md", "3"),
            ("own.md", "5"),
        ] {
            put(retained.path(), name, text);
        }
        let wrong = differences(fresh.path(), retained.path()).unwrap();
        assert_eq!(
            wrong,
            [
                "docs/ref/new.md: missing",
                "docs/ref/old.md: differs",
                "docs/ref/stale.md: nothing generates it any more"
            ]
        );
    }
}
