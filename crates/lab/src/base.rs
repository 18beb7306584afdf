//! The root file system that all hosts share, built once and cached.

use crate::command;
use crate::error::Result;
use crate::mirror::{Mirror, SUITE};
use crate::rpm::RPM_TOOLS;
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A user of every host with sudo without a password.
pub const DEPLOY_USER: &str = "deploy";
/// A user of every host whose sudo asks for [`OPERATOR_PASSWORD`].
pub const OPERATOR_USER: &str = "operator";
/// The password of [`OPERATOR_USER`]: no secret, the hosts live on one machine for minutes.
pub const OPERATOR_PASSWORD: &str = "lab-operator";
/// Packages whose files lie in every host's apt cache with all that they need, not installed: they install with no network. With
/// `CONVERGE_LAB_PACKAGES=few` in the environment apt knows no others on a new host, and takes a twentieth of the time for each question.
pub const PREFETCHED_PACKAGES: &[&str] = &[
    "chrony",
    "conntrack",
    "containerd",
    "cowsay",
    "cron",
    "docker.io",
    "ethtool",
    "git",
    "iptables",
    "jq",
    "libfaketime",
    "locales",
    "lsof",
    "netbase",
    "nftables",
    "nginx-light",
    "opendoas",
    "sl",
    "tree",
    "ufw",
];

/// The packages of a small Debian server. No Python: the engine must not need it.
const INCLUDE: &str = "systemd,systemd-sysv,dbus,libpam-systemd,openssh-server,iproute2,iputils-ping,ca-certificates,\
                       sudo,procps,kmod,less,curl,gnupg,bash,dash,busybox";
const SETUP: &str = include_str!("scripts/base.sh");

/// The cached base of the present recipe; builds it when it is missing.
pub(crate) fn ensure(cache: &Path, mirror: &Mirror, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let lock = fs::File::create(cache.join("base.lock"))?;
    lock.file().lock()?;
    let key = cache.join("id_lab");
    if !key.exists() {
        let mut keygen = Command::new("ssh-keygen");
        command::checked(
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "converge-lab", "-f"]).arg(&key),
        )?;
    }
    let authorized = fs::read_to_string(key.with_extension("pub"))?;
    let base = folder(cache, &authorized);
    // The marker is made last and lies beside: a build that was cut off is not taken for a base.
    let marker = base.with_extension("ready");
    if marker.exists() {
        return Ok(base);
    }
    say("building the hosts' base root file system (about a minute, once)");
    command::checked(command::root("rm").args(["-rf", "--one-file-system", "--"]).arg(&base))?;
    let mut build = command::root("mmdebstrap");
    build.args(["--quiet", "--variant=minbase", "--mode=root", "--dpkgopt=force-unsafe-io"]);
    build.arg(format!("--include={INCLUDE}")).arg(SUITE).arg(&base).args(mirror.sources());
    command::checked(&mut build)?;
    command::write(&base.join("root/.ssh/authorized_keys"), "600", &authorized)?;
    command::run("chmod", &["700", &base.join("root/.ssh").to_string_lossy()])?;
    // The image's own look-ups during the build are this machine's.
    command::checked(command::root("cp").arg("/etc/resolv.conf").arg(base.join("etc/resolv.conf")))?;
    let mut setup = command::root("chroot");
    setup
        .arg(&base)
        .args(["sh", "-s", "--", DEPLOY_USER, OPERATOR_USER, OPERATOR_PASSWORD, &RPM_TOOLS.join(" ")])
        .args(PREFETCHED_PACKAGES);
    command::with_input(&mut setup, SETUP.as_bytes())?;
    fs::write(&marker, "")?;
    Ok(base)
}

/// Whether the base of the present recipe is there.
pub(crate) fn is_built(cache: &Path) -> bool {
    let Ok(authorized) = fs::read_to_string(cache.join("id_lab.pub")) else { return false };
    folder(cache, &authorized).with_extension("ready").exists()
}

/// Where the base of the present recipe lies, for this authorized key.
fn folder(cache: &Path, authorized: &str) -> PathBuf {
    let (packages, rpm) = (PREFETCHED_PACKAGES.join(" "), RPM_TOOLS.join(" "));
    cache.join(format!("base-{}", digest(&[INCLUDE, SETUP, SUITE, authorized, &packages, &rpm])))
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_recipe_is_another_base() {
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab", ""]));
        assert_eq!(digest(&[]).len(), 12);
    }
}
