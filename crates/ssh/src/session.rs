//! One connection to one host.

use crate::connect;
use crate::connection::Connection;
use crate::error::{ConnectError, ShellError};
use crate::pipes::{self, InputWriter, OutputReader};
use crate::program::ShellStart;
use crate::target::{Become, SessionOptions, SshEndpoint, Transport};
use crate::trail::Mark;
use std::process::Stdio;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Channels open at a time: sshd's default limit (`MaxSessions`) is 10.
const MAX_CHANNELS: usize = 8;

/// A connection to a host, or this machine. Clones share it; it ends when the last clone and the last shell are gone.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    route: SessionRoute,
    target: SshEndpoint,
    /// Further connections, made where sshd gives one connection no second session (`MaxSessions 1`).
    more: tokio::sync::Mutex<Vec<Connection>>,
    options: Arc<SessionOptions>,
    channels: Arc<Semaphore>,
}

enum SessionRoute {
    Ssh(Connection),
    Local,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let route = match self.inner.route {
            SessionRoute::Ssh(_) => "ssh",
            SessionRoute::Local => "local",
        };
        f.debug_struct("Session").field("route", &route).finish_non_exhaustive()
    }
}

impl Session {
    /// Dials, checks the host key, logs in.
    ///
    /// # Errors
    /// See [`ConnectError`]. `Transport::Local` cannot fail.
    pub async fn connect(target: &SshEndpoint, options: &SessionOptions) -> Result<Self, ConnectError> {
        Self::explore(target, options).await.1
    }

    /// As [`Session::connect`], and tells the steps that were taken, those before a failure too.
    pub async fn explore(
        target: &SshEndpoint,
        options: &SessionOptions,
    ) -> (Vec<Mark>, Result<Self, ConnectError>) {
        let mut trail = Vec::new();
        let route = match target.transport {
            Transport::Local => Ok(SessionRoute::Local),
            Transport::Ssh => connect::connect(target, options, &mut trail).await.map(SessionRoute::Ssh),
        };
        let session = route.map(|route| Self::over(route, target, options));
        (trail, session)
    }

    fn over(route: SessionRoute, target: &SshEndpoint, options: &SessionOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                route,
                target: target.clone(),
                more: tokio::sync::Mutex::new(Vec::new()),
                options: Arc::new(options.clone()),
                channels: Arc::new(Semaphore::new(MAX_CHANNELS)),
            }),
        }
    }

    /// Opens the input and the output of a shell that starts so.
    pub(crate) async fn open(
        &self,
        start: &ShellStart,
        become_: &Become,
    ) -> Result<(InputWriter, OutputReader), ShellError> {
        let options = &self.inner.options;
        if let Become::User { method, user, password } = become_ {
            let terminal = matches!(self.inner.route, SessionRoute::Local) && start.terminal;
            let reply = unusable(user, password.as_ref()).or_else(|| {
                terminal
                    .then(|| "it needs a terminal, and on this machine there is none; use sudo".to_owned())
            });
            if let Some(reply) = reply {
                return Err(ShellError::BecomeFailed { method: *method, user: user.clone(), reply });
            }
        }
        let opening = async {
            match &self.inner.route {
                SessionRoute::Ssh(connection) => match self.channel(connection, start).await {
                    Err(error @ ShellError::NoChannel { .. }) => self.another(start, error).await,
                    other => other,
                },
                SessionRoute::Local => spawn(start),
            }
        };
        timeout(options.start_timeout, opening).await.map_err(|_| ShellError::Deadline {
            item: None,
            limit: options.start_timeout,
            open: Vec::new(),
        })?
    }

    /// Its options.
    pub(crate) fn options(&self) -> &Arc<SessionOptions> {
        &self.inner.options
    }

    /// A session on a connection of its own; the error is the first one's when that does not come about.
    async fn another(
        &self,
        start: &ShellStart,
        refused: ShellError,
    ) -> Result<(InputWriter, OutputReader), ShellError> {
        let mut trail = Vec::new();
        let connection = match connect::connect(&self.inner.target, &self.inner.options, &mut trail).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!(%error, "no second connection");
                return Err(refused);
            }
        };
        let opened = self.channel(&connection, start).await;
        let mut more = self.inner.more.lock().await;
        more.retain(|connection| !connection.handle.is_closed());
        more.push(connection);
        opened
    }

    async fn channel(
        &self,
        connection: &Connection,
        start: &ShellStart,
    ) -> Result<(InputWriter, OutputReader), ShellError> {
        let closed = |error: russh::Error| ShellError::closed(error.to_string(), Vec::new());
        // The semaphore is never closed.
        let slot = Arc::clone(&self.inner.channels)
            .acquire_owned()
            .await
            .map_err(|error| ShellError::NoChannel { reply: error.to_string() })?;
        let channel = connection.handle.channel_open_session().await.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(reason) => {
                ShellError::NoChannel { reply: format!("{reason:?}") }
            }
            error => closed(error),
        })?;
        let (half, writer) = channel.split();
        if start.terminal {
            // A refusal is noticed by the `stty` on the other side.
            writer.request_pty(false, "dumb", 80, 24, 0, 0, &[]).await.map_err(closed)?;
        }
        // The answer is not waited for; a refusal reaches the reader.
        writer.exec(true, start.command_line()).await.map_err(closed)?;
        Ok((InputWriter::Ssh(writer), OutputReader::Ssh { half, ended: None, _slot: slot }))
    }

    /// The connection; none when the session is a local one.
    pub(crate) fn ssh(&self) -> Option<&Connection> {
        match &self.inner.route {
            SessionRoute::Ssh(connection) => Some(connection),
            SessionRoute::Local => None,
        }
    }

    /// The connection is gone; a local session never is.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.inner.route {
            SessionRoute::Ssh(connection) => connection.handle.is_closed(),
            SessionRoute::Local => false,
        }
    }
}

/// The reason why a user name or password cannot be an argument or a line of input.
fn unusable(user: &str, password: Option<&secrecy::SecretString>) -> Option<String> {
    use secrecy::ExposeSecret;
    if user.is_empty() || user.contains('\0') || user.starts_with('-') {
        return Some(format!("{user:?} is not a user name; correct `ansible_become_user`"));
    }
    let bad = password.is_some_and(|text| text.expose_secret().contains(['\n', '\0']));
    bad.then(|| {
        "the become password holds a line break, which cannot be typed; correct `ansible_become_password`"
            .to_owned()
    })
}

fn spawn(start: &ShellStart) -> Result<(InputWriter, OutputReader), ShellError> {
    let failed = |reply: String| ShellError::NotStarted { reply };
    let (program, arguments) =
        start.words.split_first().ok_or_else(|| failed("no shell is named".to_owned()))?;
    let child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C at the terminal is for this program; steps in progress are finished.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("{program}: {error}")))?;
    pipes::local(child).ok_or_else(|| failed("no pipes".to_owned()))
}
