//! The one interface of hosts and clusters.

use crate::{RunEnd, RunMeta, TargetError};
use converge_ledger::{OwnedRecords, Records};
use converge_resource::{Answer, Content, Probe};
use std::collections::BTreeSet;
use std::pin::Pin;

/// Names of groups of facts.
pub type FactGroups = BTreeSet<&'static str>;

/// Work on a target that is under way.
pub type TargetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The questions of one round trip.
#[derive(Clone, Copy, Debug)]
pub struct Questions<'a> {
    /// Questions of items.
    pub probes: &'a BTreeSet<Probe>,
    /// Facts, with these groups. A cluster has none.
    pub facts: Option<&'a FactGroups>,
    /// Whether the managed objects are asked for.
    pub managed: bool,
}

impl<'a> Questions<'a> {
    /// These alone.
    #[must_use]
    pub fn of(probes: &'a BTreeSet<Probe>) -> Self {
        Self { probes, facts: None, managed: false }
    }
}

/// The answers of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// An answer to every question that the target understands.
    pub answers: Vec<(Probe, Answer)>,
    /// The contents that the states name.
    pub contents: Vec<Content>,
    /// The facts, when they were asked for.
    pub facts: Option<serde_json::Value>,
    /// The managed objects, when they were asked for; the refusal, when the records are not understood.
    pub managed: Option<Result<OwnedRecords, TargetError>>,
}

/// A host or a cluster that is connected.
pub trait Executor: Send + Sync {
    /// The inventory's name of it.
    fn name(&self) -> &str;

    /// Asks all of this at once. Changes nothing.
    fn observe<'a>(&'a self, questions: Questions<'a>) -> TargetFuture<'a, Result<Answers, TargetError>>;

    /// Takes the target's lock and begins a run there, or goes on with it in another session.
    fn open<'a>(&'a self, meta: &'a RunMeta) -> TargetFuture<'a, Result<(), TargetError>>;

    /// Ends a run and gives the lock back. A target that no longer answers keeps an unfinished record.
    fn close<'a>(&'a self, run: &'a str, end: RunEnd) -> TargetFuture<'a, ()>;

    /// The runs that the target has recorded, oldest first.
    fn history(&self) -> TargetFuture<'_, Result<Records, TargetError>>;
}
