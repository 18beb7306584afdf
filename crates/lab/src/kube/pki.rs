//! Certificates of an API server of the lab.

use super::control_plane::{Administrator, Layout};
use crate::command;
use crate::error::Result;
use std::process::Command;

/// Makes missing certificates, and always that of the administrator.
pub(crate) const PKI: &str = include_str!("../scripts/kube-pki.sh");

/// Runs it for an API server on loopback.
pub(crate) fn certificates(layout: &Layout, administrator: Administrator) -> Result<()> {
    let mut script = Command::new("sh");
    script.args(["-c", PKI, "converge-lab-pki"]).arg(&layout.etc);
    script.args([layout.ports.api.to_string(), administrator.days()]);
    command::checked(&mut script).map(drop)
}
