//! Thousands of SSH hosts in one process, which answer as one real host does: what a fleet costs its controller is measured with them.
//!
//! Every address of this machine at the port is a host. Connections are encrypted as those of any SSH server; what a command then
//! answers was recorded from the real host, the first time that anyone asked. Any key is accepted, of controllers on this machine alone. Only reading may be measured so: what an answer depends on
//! is what was asked before in the same session, and nothing else.
//!
//! ```sh
//! converge-replay --listen 127.0.0.1:2222 --known-hosts fleet-known-hosts -- ssh -i KEY root@REAL
//! ```

mod answer;
mod answers;
mod backing;
mod framed;
mod server;

use answers::AnswerBook;
use clap::Parser;
use russh::keys::{Algorithm, PrivateKey};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// An error of the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A file, the listening socket, or the program that reaches the real host.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The SSH protocol.
    #[error(transparent)]
    Ssh(#[from] russh::Error),
    /// The host key could not be made.
    #[error("no host key: {0}")]
    Key(#[from] russh::keys::ssh_key::Error),
    /// Input that is not what a controller sends.
    #[error("{0}")]
    Protocol(&'static str),
    /// The real host ended a shell in the middle of an answer.
    #[error("the real host ended its shell: {0}")]
    Ended(String),
}

/// Answers as one real host does, for any number of hosts. Prints `ready` once it listens; ends with its standard input, and prints what
/// was asked of it.
#[derive(Parser)]
struct ReplayArguments {
    /// The address to listen at; every address of this machine at its port is a host where it is `0.0.0.0`.
    #[arg(long)]
    listen: SocketAddr,
    /// The file that the line of the host key is written to, valid for every host of 127.0.0.0/8.
    #[arg(long)]
    known_hosts: PathBuf,
    /// The command that runs its last argument on the real host, such as `ssh -i KEY root@HOST`.
    #[arg(last = true, required = true)]
    real: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), ReplayError> {
    let arguments = ReplayArguments::parse();
    let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)?;
    let line = format!("[127.*]:{} {}\n", arguments.listen.port(), key.public_key().to_openssh()?);
    fs_err::write(&arguments.known_hosts, line)?;
    let listener = TcpListener::bind(arguments.listen).await?;
    let book = Arc::new(AnswerBook::new(arguments.real));
    let serving = tokio::spawn(server::serve(listener, key, Arc::clone(&book)));
    writeln!(std::io::stdout(), "ready")?;
    // The end of the input is the end of whoever measures.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await
        .map_err(std::io::Error::other)??;
    serving.abort();
    writeln!(std::io::stdout(), "{}", book.counts())?;
    Ok(())
}
