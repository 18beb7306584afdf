//! What the tests need besides cargo, installed where it is missing.

use crate::process::{Result, cargo, gently, run};
use converge_lab::{default_cache_dir, ensure_packages};
use fs_err as fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Debian packages that tests and the bench use besides the lab's own.
const PACKAGES: &[&str] = &[
    "openssh-server",
    "openssh-client",
    "busybox",
    "dash",
    "bash",
    "sudo",
    "git",
    "python3-venv",
    "coreutils",
    "chromium",
];
/// The oracle for inventories.
const ANSIBLE: &str = "2.19.14";
const CARGO_DENY: &str = "0.20.2";

/// Installs missing Debian packages; says which.
pub fn debian() -> Result<()> {
    Ok(ensure_packages(PACKAGES, &|line| println!("{line}"))?)
}

/// A Python virtual environment with Ansible, made once a version.
pub fn ansible() -> Result<PathBuf> {
    let venv = cache()?.join(format!("venv-ansible-{ANSIBLE}"));
    let marker = venv.join(".complete");
    if marker.exists() {
        return Ok(venv);
    }
    println!("making {} (once)", venv.display());
    if venv.exists() {
        fs::remove_dir_all(&venv)?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let wanted = format!("ansible-core=={ANSIBLE}");
    run(Command::new(venv.join("bin/python")).args(["-m", "pip", "install", "--quiet", &wanted]))?;
    fs::write(marker, "")?;
    Ok(venv)
}

/// cargo-deny, built once a version.
pub fn cargo_deny() -> Result<PathBuf> {
    let root = cache()?.join(format!("tools/cargo-deny-{CARGO_DENY}"));
    let program = root.join("bin/cargo-deny");
    if program.exists() {
        return Ok(program);
    }
    let build = cache()?.join("tools/build");
    let mut install =
        cargo(&["install", "cargo-deny", "--quiet", "--locked", "--version", CARGO_DENY, "--root"]);
    install.arg(&root);
    install.env("CARGO_TARGET_DIR", &build).env_remove("RUSTFLAGS");
    println!("cargo install cargo-deny {CARGO_DENY} (once, minutes, beside the other checks)");
    run(gently(&install).stdout(Stdio::null()))?;
    fs::remove_dir_all(build)?;
    Ok(program)
}

/// The programs of Kubernetes, each built once a version; minutes the first time.
pub fn kubernetes() -> Result<()> {
    converge_lab::kube::ensure(converge_lab::kube::Part::ALL)?;
    Ok(())
}

fn cache() -> Result<PathBuf> {
    let cache = default_cache_dir();
    converge_lab::make_cache(&cache)?;
    Ok(cache)
}
