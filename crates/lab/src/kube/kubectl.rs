//! kubectl on a control plane, with the rights of an administrator.

use super::control_plane::{ETC, SHORT_LIVED};
use crate::error::{LabError, Result};
use crate::host::{ExecOutput, Host};

/// The number of seconds that kubectl may take, for a wait of its own.
pub(crate) const LIMIT: u32 = 300;
/// Objects are applied from the server's side, as the manager `lab` and with `--force-conflicts`.
pub(crate) const APPLY: [&str; 5] =
    ["apply", "--server-side", "--force-conflicts", "--field-manager=lab", "--filename=-"];

/// Asks a cluster, from one of its control planes.
#[derive(Clone)]
pub struct Kubectl {
    host: Host,
    program: String,
    kubeconfig: String,
}

impl Kubectl {
    /// Of an [`ApiServer`](super::ApiServer) in this host: the lab's own administrator, whose certificate is always valid.
    pub fn of_api_server(host: &Host) -> Self {
        Self {
            host: host.clone(),
            program: host.shared("kubectl"),
            kubeconfig: format!("{ETC}/super-admin.conf"),
        }
    }

    /// Of a control plane that kubeadm made, which has the package kubectl.
    pub fn of_kubeadm(host: &Host) -> Self {
        Self { host: host.clone(), program: "kubectl".to_owned(), kubeconfig: format!("{ETC}/admin.conf") }
    }

    /// Runs kubectl; a failing command is no error.
    pub fn run(&self, arguments: &[&str]) -> Result<ExecOutput> {
        self.within(LIMIT, arguments, "")
    }

    /// Like [`Kubectl::run`], with another limit and this standard input.
    pub(crate) fn within(&self, seconds: u32, arguments: &[&str], input: &str) -> Result<ExecOutput> {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        let (program, kubeconfig) = (&self.program, &self.kubeconfig);
        let line = format!(
            "{SHORT_LIVED} timeout {seconds} {program} --kubeconfig={kubeconfig} {}",
            words.join(" ")
        );
        self.host.exec_with_input(&line, input.as_bytes())
    }

    /// Applies YAML or JSON from the server's side, as the manager `lab` and with `--force-conflicts`.
    ///
    /// Errors with what kubectl said when it fails.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        expect(self.within(LIMIT, &APPLY, manifests)?, "kubectl apply").map(drop)
    }

    /// The output of kubectl.
    ///
    /// Fails with its messages when kubectl fails.
    pub fn reply(&self, arguments: &[&str]) -> Result<String> {
        let output = expect(self.run(arguments)?, &format!("kubectl {}", arguments.join(" ")))?;
        Ok(output.stdout)
    }
}

/// The output of a command that has to succeed.
pub(crate) fn expect(output: ExecOutput, what: &str) -> Result<ExecOutput> {
    if output.success() {
        return Ok(output);
    }
    let status = output.status.map_or("a signal".to_owned(), |code| format!("exit status {code}"));
    let lines: Vec<&str> = output.stderr.trim().lines().collect();
    let detail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
    Err(LabError::Tool { command: what.to_owned(), status, detail })
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
