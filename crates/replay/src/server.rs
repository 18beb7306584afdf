//! The SSH server: one task for a connection, one for a command on it.

use crate::ReplayError;
use crate::answer::marked;
use crate::answers::AnswerBook;
use crate::framed::{self, ShellBeginning};
use russh::keys::PrivateKey;
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Server as _, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelReadHalf, ChannelWriteHalf};
use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

/// Serves until the task is aborted.
pub(crate) async fn serve(
    listener: TcpListener,
    key: PrivateKey,
    book: Arc<AnswerBook>,
) -> Result<(), ReplayError> {
    let config = Config {
        keys: vec![key],
        nodelay: true,
        inactivity_timeout: None,
        auth_rejection_time: Duration::ZERO,
        ..Config::default()
    };
    Ok(SimulatedFleet { book }.run_on_socket(Arc::new(config), &listener).await?)
}

struct SimulatedFleet {
    book: Arc<AnswerBook>,
}

impl russh::server::Server for SimulatedFleet {
    type Handler = SimulatedHost;

    fn new_client(&mut self, peer: Option<SocketAddr>) -> SimulatedHost {
        self.book.count_session();
        let is_here = peer.is_some_and(|peer| peer.ip().is_loopback());
        SimulatedHost { book: Arc::clone(&self.book), channels: HashMap::new(), is_here }
    }
}

/// One connection.
struct SimulatedHost {
    book: Arc<AnswerBook>,
    channels: HashMap<ChannelId, Channel<Msg>>,
    /// The controller is on this machine: nobody else may ask the real host anything.
    is_here: bool,
}

impl Handler for SimulatedHost {
    type Error = ReplayError;

    async fn auth_publickey(&mut self, _: &str, _: VerifiedPublicKey<'_>) -> Result<Auth, ReplayError> {
        Ok(if self.is_here { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), ReplayError> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), ReplayError> {
        let Some(channel) = self.channels.remove(&id) else {
            session.channel_failure(id)?;
            return Ok(());
        };
        session.channel_success(id)?;
        let command = String::from_utf8_lossy(command).into_owned();
        let book = Arc::clone(&self.book);
        tokio::spawn(async move {
            let (read, write) = channel.split();
            match run(&book, &command, read, &write).await {
                // The controller has left.
                Ok(()) | Err(ReplayError::Ssh(_)) => {}
                Err(error) => drop(writeln!(std::io::stderr(), "{error}")),
            }
            // The other side may be gone.
            drop(write.close().await);
        });
        Ok(())
    }
}

async fn run(
    book: &AnswerBook,
    command: &str,
    mut read: ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
) -> Result<(), ReplayError> {
    let mut input = BufReader::new(read.make_reader());
    let (mut output, mut errors) = (write.make_writer(), write.make_writer_ext(Some(1)));
    let status = if let Some(hello) = framed::greeting(command) {
        output.write_all(format!("{hello} 1\n").as_bytes()).await?;
        let (Some(line), Some(nonce)) = (framed::line(&mut input).await?, framed::line(&mut input).await?)
        else {
            return Ok(());
        };
        let mut halves = nonce.split(' ').skip(1).map(str::to_owned);
        let mark = [halves.next().unwrap_or_default(), halves.next().unwrap_or_default()];
        let start = ShellBeginning { command: command.to_owned(), line, mark };
        let mark = start.whole_mark();
        let mut before = None;
        while let Some(batch) = framed::batch(&mut input).await? {
            let (question, answer) = book.framed(&start, before, batch).await?;
            before = Some(question);
            if let Some(answer) = answer.get() {
                errors.write_all(&marked(&answer.errors, &mark)).await?;
                output.write_all(&marked(&answer.output, &mark)).await?;
            }
        }
        0
    } else {
        let mut all = Vec::new();
        input.read_to_end(&mut all).await?;
        let answer = book.plain(command, all.into()).await?;
        let answer = answer.get().ok_or(ReplayError::Protocol("no answer"))?;
        errors.write_all(&marked(&answer.errors, b"")).await?;
        output.write_all(&marked(&answer.output, b"")).await?;
        answer.status
    };
    write.exit_status(status).await?;
    write.eof().await?;
    Ok(())
}
