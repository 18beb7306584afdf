//! One session with a host, and the facts read in it.

use crate::budget;
use crate::facts::Groups;
use crate::heartbeat::Heart;
use crate::records::SILENCE;
use crate::taught::TaughtShell;
use converge_executor::TargetError;
use converge_ledger::NewBase;
use converge_ssh::{
    Batch, Become, Events, Room, Session, ShellError, ShellItem, ShellItemResult, Stderr, Traffic,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between two looks whether a connection is gone.
const LOOK: Duration = Duration::from_secs(1);

/// An open session with a host, at the privilege at which its items run.
pub struct HostConnection {
    /// The inventory's name of it.
    pub host: String,
    /// Where its items run.
    shell: TaughtShell,
    session: Session,
    become_: Become,
    /// Beats while a run is open in this session.
    heart: Mutex<Option<Heart>>,
    /// The facts of the host, once they were asked for.
    facts: Mutex<Option<KnownFacts>>,
    /// Whether its shell knows how to look for facts that foreign code has changed.
    watches_facts: AtomicBool,
    /// The budget that is left of the present look.
    room: Mutex<Room>,
    /// The base of managed objects that its next run gives the host.
    pub(crate) base: Mutex<Option<NewBase>>,
}

impl HostConnection {
    /// A session with a host, at the privilege at which its items run.
    ///
    /// # Errors
    /// The shell does not begin.
    pub async fn open(host: &str, session: Session, become_: Become) -> Result<Self, TargetError> {
        let lost = |error: ShellError| lost(&session, &error);
        let shell = session.shell(&become_).await.map_err(lost)?;
        Ok(Self {
            host: host.to_owned(),
            shell: TaughtShell::new(shell),
            session,
            become_,
            facts: Mutex::new(None),
            heart: Mutex::new(None),
            watches_facts: AtomicBool::new(false),
            room: Mutex::new(budget::whole()),
            base: Mutex::new(None),
        })
    }

    /// The host dropped out.
    pub fn lost(&self, error: &ShellError) -> TargetError {
        tracing::debug!(host = self.host, %error, "lost");
        let is_open = || self.heart.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match error {
            ShellError::Exhausted { time, .. } => budget::used_up(&self.host, *time),
            ShellError::Closed { terminated: true, .. } if is_open() => TargetError::Unreachable(format!(
                "the host ended this run: it received no heartbeat from this controller for {} s (was the controller suspended, or the network down?); its records list the completed changes, and the next run continues from them",
                SILENCE
            )),
            error => lost(&self.session, error),
        }
    }

    /// Sends a batch, behind the functions that it uses and the shell has not read yet, and returns at once.
    ///
    /// # Errors
    /// As of `Shell::run`.
    pub fn run(&self, batch: &Batch) -> Result<Events, ShellError> {
        self.shell.run(batch)
    }

    /// The same, and waits for its end.
    ///
    /// # Errors
    /// As of `Shell::run_to_end`.
    pub async fn run_to_end(
        &self,
        batch: &Batch,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        self.shell.run_to_end(batch).await
    }

    /// Sends questions, for whose answers there is so much room. A program that only a host with dnf needs travels once the host has said that it has dnf.
    pub(crate) async fn ask_within(
        &self,
        batch: &Batch,
        room: &mut Room,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        self.shell.ask_within(batch, room).await
    }

    /// The traffic between this machine and the host so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shell.shell.traffic()
    }

    /// Ends the shell.
    pub async fn close(self) {
        self.shell.shell.close().await;
    }

    /// Waits until the connection is gone: while nothing is asked of the host nobody else sees that. Why the host is left out then.
    pub async fn gone(&self) -> TargetError {
        while !self.session.is_closed() {
            tokio::time::sleep(LOOK).await;
        }
        let reply = "the host sent nothing while it was waiting".to_owned();
        self.lost(&ShellError::closed(reply, Vec::new()))
    }

    /// Makes the loop on the host skip items that have not begun.
    pub async fn raise_stop(&self, stop_file: &str) {
        let script = format!(": > {}", converge_resource::quote(stop_file));
        match self.session.shell(&self.become_).await {
            Ok(shell) => {
                let batch = Batch::of(vec![ShellItem::new(1, script)]);
                if let Err(error) = shell.run_to_end(&batch).await {
                    tracing::warn!(host = self.host, %error, "the stop request was not delivered");
                }
            }
            Err(error) => tracing::warn!(host = self.host, %error, "the stop request was not delivered"),
        }
    }

    /// Lets the host know that this run's controller is alive, until [`HostConnection::end_beating`].
    pub(crate) fn beat(&self, run: &str) {
        let heart = Heart::of(self.session.clone(), self.become_.clone(), run);
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some(heart);
    }

    /// The run is over here.
    pub(crate) fn end_beating(&self) {
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A second shell on the host, independent of the running batch; its answers are for the caller alone.
    ///
    /// # Errors
    /// The session is over.
    pub async fn aside(&self) -> Result<Aside, ShellError> {
        let shell = self.session.shell(&self.become_).await?;
        Ok(Aside(TaughtShell::new(shell)))
    }

    /// Runs one script there.
    ///
    /// # Errors
    /// The session is over.
    pub async fn ask_beside(&self, script: &str, seconds: u64) -> Result<ShellItemResult, ShellError> {
        self.aside().await?.ask(script, seconds).await
    }

    /// The budget that is left of the present look.
    pub(crate) fn room(&self) -> std::sync::MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the present look has used up what it may take.
    pub fn is_used_up(&self) -> bool {
        self.room().is_used_up()
    }

    /// A new look begins.
    pub fn look_anew(&self) {
        *self.room() = budget::whole();
    }

    fn facts(&self) -> std::sync::MutexGuard<'_, Option<KnownFacts>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts as they were read last.
    pub fn known_facts(&self) -> Option<serde_json::Value> {
        self.facts().as_ref().map(|known| known.now.clone())
    }

    /// The facts as they were read last, and as they were before this run changed anything.
    pub fn facts_of_run(&self) -> Option<(serde_json::Value, serde_json::Value)> {
        self.facts().as_ref().map(|known| (known.now.clone(), known.before.clone()))
    }

    /// The groups that are still to be asked; `None` when all that is wanted is known.
    pub fn unknown_facts(&self, wanted: &Groups) -> Option<Groups> {
        match &*self.facts() {
            None => Some(wanted.clone()),
            Some(known) if known.stale => Some(wanted.clone()),
            Some(known) if wanted.is_subset(&known.groups) => None,
            Some(known) => Some(wanted.difference(&known.groups).copied().collect()),
        }
    }

    /// The groups that it was asked for.
    pub fn known_groups(&self) -> Groups {
        self.facts().as_ref().map(|known| known.groups.clone()).unwrap_or_default()
    }

    /// Keeps facts with these groups.
    pub fn learn_facts(&self, facts: serde_json::Value, groups: &Groups) {
        let mut known = self.facts();
        let known = known.get_or_insert_with(KnownFacts::default);
        known.stale = false;
        known.groups.extend(groups);
        let serde_json::Value::Object(new) = facts else { return };
        for (name, value) in new {
            // A fact that is first read in the middle of a run is the nearest to the one before it.
            known
                .before
                .as_object_mut()
                .and_then(|b| (!b.contains_key(&name)).then(|| b.insert(name.clone(), value.clone())));
            known.now.as_object_mut().and_then(|now| now.insert(name, value));
        }
    }

    /// The run has changed the host: its facts are asked again before anything is planned with them.
    pub fn facts_are_stale(&self) {
        if let Some(known) = &mut *self.facts() {
            known.stale = true;
        }
    }

    /// A new run begins: what an earlier one of this process has found is over.
    pub fn begin(&self) {
        self.look_anew();
        let mut known = self.facts();
        if known.as_ref().is_some_and(|known| known.stale || known.now != known.before) {
            *known = None;
        }
    }

    /// Whether the shell has yet to receive the script that looks for facts. It receives it once.
    pub fn must_learn_to_watch(&self) -> bool {
        !self.watches_facts.swap(true, Ordering::Relaxed)
    }
}

/// The known facts of a host.
struct KnownFacts {
    now: serde_json::Value,
    /// The same before this run changed anything.
    before: serde_json::Value,
    /// Which groups of facts that holds.
    groups: Groups,
    /// The run has changed the host since.
    stale: bool,
}

impl Default for KnownFacts {
    fn default() -> Self {
        let none = || serde_json::Value::Object(serde_json::Map::new());
        Self { now: none(), before: none(), groups: Groups::new(), stale: false }
    }
}

/// A shell of its own on a host.
pub struct Aside(TaughtShell);

impl Aside {
    /// Runs a script.
    ///
    /// # Errors
    /// The session is over.
    pub async fn ask(&self, script: &str, seconds: u64) -> Result<ShellItemResult, ShellError> {
        let item = ShellItem {
            stderr: Stderr::Separate,
            timeout: Some(Duration::from_secs(seconds)),
            ..ShellItem::new(1, script)
        };
        let (results, error) = self.0.run_to_end(&Batch::of(vec![item])).await?;
        match (error, results.into_iter().next()) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(ShellError::closed("no answer".to_owned(), Vec::new())),
        }
    }
}

/// The reason why a host with which there was a session is excluded from the run.
fn lost(session: &Session, error: &ShellError) -> TargetError {
    let refused = matches!(
        error,
        ShellError::PasswordNeeded { .. }
            | ShellError::WrongPassword { .. }
            | ShellError::BecomeFailed { .. }
            | ShellError::NoChannel { .. }
    );
    match refused && !session.is_closed() {
        true => TargetError::Refused(error.to_string()),
        false => TargetError::Unreachable(error.to_string()),
    }
}
