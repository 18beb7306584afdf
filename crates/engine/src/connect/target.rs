//! The target of a lane: a host through its shell, or a cluster through its API.

use crate::connect::clusters::arrive;
use crate::context::RunContext;
use crate::controller;
use crate::session::cluster::ClusterLink;
use crate::{TargetError, Traffic};
use converge_cluster::SecretSealError;
use converge_executor::FactGroups as Groups;
use converge_executor::{Answers, Executor, Questions, RunEnd, RunMeta};
use converge_host::HostConnection;
use converge_ledger::{Records, Undo};
use converge_planner::Knowledge;
use converge_resource::{ApiRef, Digest, Probe, Wait};
use converge_store::FetchedFiles;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A host or a cluster.
#[derive(Clone)]
pub(crate) enum Target {
    /// With the files of this machine that its resources fetch.
    Host(Arc<HostConnection>, Arc<FetchedFiles>),
    Cluster(Arc<ClusterLink>),
}

impl Target {
    /// The inventory's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(link, _) => &link.host,
            Self::Cluster(link) => &link.name,
        }
    }

    /// The host; an error where a cluster is meant.
    pub fn host(&self) -> Result<&Arc<HostConnection>, TargetError> {
        match self {
            Self::Host(link, _) => Ok(link),
            Self::Cluster(link) => {
                Err(TargetError::Refused(format!("{} is a cluster, not a host", link.name)))
            }
        }
    }

    /// The files of this machine that its resources fetch; none of a cluster.
    pub fn fetched(&self) -> Option<&FetchedFiles> {
        match self {
            Self::Host(_, fetched) => Some(fetched),
            Self::Cluster(_) => None,
        }
    }

    /// Takes the target's lock and begins the run there, or goes on with it in another session. A cluster that is not there yet is locked once it is.
    pub async fn open(&self, context: &RunContext, meta: &RunMeta) -> Result<(), TargetError> {
        if let Self::Cluster(link) = self {
            // The reason why it is not there is no matter here.
            let _found = arrive(context, link).await?;
        }
        self.open_present(meta).await
    }

    /// Begins the run on a target as far as it is there.
    async fn open_present(&self, meta: &RunMeta) -> Result<(), TargetError> {
        let Some(executor) = self.executor().await else { return Ok(()) };
        executor.open(meta).await?;
        if let Self::Cluster(link) = self {
            link.mark_open(Some(&meta.id)).await;
        }
        Ok(())
    }

    /// Begins the run on a cluster that has come with it: until now nothing could be locked.
    pub async fn open_late(&self, meta: &RunMeta) -> Result<(), TargetError> {
        if self.is_open(&meta.id).await { Ok(()) } else { self.open_present(meta).await }
    }

    /// Ends the run and gives the lock back. A target that no longer answers keeps an unfinished record.
    pub async fn close(&self, run: &str, end: RunEnd) {
        if let (true, Some(executor)) = (self.is_open(run).await, self.executor().await) {
            executor.close(run, end).await;
            if let Self::Cluster(link) = self {
                link.mark_open(None).await;
            }
        }
    }

    /// Whether this run may hold its lock; a host knows it itself.
    async fn is_open(&self, run: &str) -> bool {
        match self {
            Self::Host(..) => true,
            Self::Cluster(link) => link.is_open(run).await,
        }
    }

    /// Waits until the session with a host is gone; with a cluster there is none.
    pub async fn gone(&self) -> TargetError {
        match self {
            Self::Host(link, _) => link.gone().await,
            Self::Cluster(_) => std::future::pending().await,
        }
    }

    /// The executor of the target; none where the cluster does not exist yet.
    async fn executor(&self) -> Option<Arc<dyn Executor>> {
        match self {
            Self::Host(link, _) => Some(Arc::clone(link) as Arc<dyn Executor>),
            Self::Cluster(link) => Some(Arc::new(link.present().await?)),
        }
    }

    /// Asks all of this at once and puts the answers into `known`.
    pub async fn observe(
        &self,
        questions: Questions<'_>,
        known: &mut Knowledge,
    ) -> Result<Answers, TargetError> {
        let mut reply = match self.executor().await {
            None => Answers::default(),
            Some(executor) => {
                let others: BTreeSet<Probe>;
                let probes = if questions.probes.iter().any(controller::is_asked_here) {
                    let is_others = |probe: &&Probe| !controller::is_asked_here(probe);
                    others = questions.probes.iter().filter(is_others).cloned().collect();
                    &others
                } else {
                    questions.probes
                };
                executor.observe(Questions { probes, ..questions }).await?
            }
        };
        controller::answer(self.fetched(), questions.probes, &mut reply).await;
        for (probe, answer) in std::mem::take(&mut reply.answers) {
            known.learn(probe, answer);
        }
        for content in std::mem::take(&mut reply.contents) {
            known.learn_content(content);
        }
        Ok(reply)
    }

    /// The runs that it has recorded, oldest first; none of a cluster that is not there yet.
    pub async fn history(&self, context: &RunContext) -> Result<Records, TargetError> {
        if let Self::Cluster(link) = self {
            // The reason why it is not there is no matter here.
            let _found = arrive(context, link).await?;
        }
        match self.executor().await {
            Some(executor) => executor.history().await,
            None => Ok(Records::default()),
        }
    }

    /// Asks for these probes alone.
    pub async fn look(&self, probes: &BTreeSet<Probe>, known: &mut Knowledge) -> Result<(), TargetError> {
        if probes.is_empty() { Ok(()) } else { self.observe(Questions::of(probes), known).await.map(drop) }
    }

    /// Learns previous contents that this machine has saved of a host, and marks the changes whose content it has not.
    pub fn learn_previous(&self, undos: &mut [Undo], known: &mut Knowledge) {
        if let Some(fetched) = self.fetched() {
            controller::previous(fetched, undos, known);
        }
    }

    /// Learns contents that a cluster keeps with its records; a host is asked for its own. Returns those that are sealed, each with the reason why
    /// this machine cannot open it.
    pub async fn learn_recorded(
        &self,
        wanted: &BTreeSet<Digest>,
        known: &mut Knowledge,
    ) -> Result<BTreeMap<Digest, SecretSealError>, TargetError> {
        let link = match self {
            Self::Host(..) => return Ok(BTreeMap::new()),
            Self::Cluster(link) => link,
        };
        let (false, Some(cluster)) = (wanted.is_empty(), link.present().await) else {
            return Ok(BTreeMap::new());
        };
        let saved =
            cluster.contents(wanted).await.map_err(|error| TargetError::Refused(error.to_string()))?;
        saved.found.into_values().for_each(|content| known.learn_content(content));
        Ok(saved.sealed)
    }

    /// Whether a record of a run keeps the values of Secrets. True of what has none.
    pub async fn keeps_secrets(&self) -> bool {
        match self {
            Self::Host(..) => true,
            Self::Cluster(link) => link.present().await.is_none_or(|cluster| cluster.keeps_secrets()),
        }
    }

    /// These nodes come to a cluster in this run, made of these hosts. False of a host: nothing comes to it.
    pub async fn expect(&self, nodes: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Host(..) => false,
            Self::Cluster(link) => {
                link.expect(nodes).await;
                true
            }
        }
    }

    /// The reason why nobody can ask it yet; nothing of what is there.
    pub async fn absent(&self, context: &RunContext) -> Result<Option<String>, TargetError> {
        match self {
            Self::Host(..) => Ok(None),
            Self::Cluster(link) => Ok(arrive(context, link).await?.err().map(|none| none.to_string())),
        }
    }

    /// The traffic of its session so far; nothing of a cluster: its client does not count.
    pub fn traffic(&self) -> Option<Traffic> {
        match self {
            Self::Host(link, _) => Some(link.traffic()),
            Self::Cluster(_) => None,
        }
    }

    /// The run has changed it: what it says of itself is asked again.
    pub fn facts_are_stale(&self) {
        if let Self::Host(link, _) = self {
            link.facts_are_stale();
        }
    }

    /// The groups of facts that are still to be asked here.
    pub fn unknown_facts(&self, wanted: &Groups) -> Option<Groups> {
        match self {
            Self::Host(link, _) => link.unknown_facts(wanted),
            Self::Cluster(_) => None,
        }
    }

    /// Keeps facts.
    pub fn learn_facts(&self, facts: serde_json::Value, groups: &Groups) {
        if let Self::Host(link, _) = self {
            link.learn_facts(facts, groups);
        }
    }
}

/// A host of this run.
pub(crate) fn host(context: &RunContext, link: Arc<HostConnection>) -> Target {
    Target::Host(link, Arc::new(FetchedFiles::of(context.options.folder.clone())))
}

/// The knowledge at the beginning of a look: everything absent for a cluster that does not exist yet.
pub(crate) async fn first_knowledge(context: &RunContext, target: &Target) -> Result<Knowledge, TargetError> {
    let link = match target {
        Target::Host(link, _) => {
            link.look_anew();
            return Ok(Knowledge::default());
        }
        Target::Cluster(link) => link,
    };
    let mut known = match arrive(context, link).await? {
        Ok(_) => Knowledge::default(),
        Err(none) => Knowledge::until(Wait { item: String::new(), reason: none.to_string() }),
    };
    for (name, host) in &link.state.lock().await.joining {
        let (api_version, kind) = ("v1".to_owned(), "Node".to_owned());
        let node = ApiRef { api_version, kind, namespace: None, name: name.clone() };
        let reason = format!("{host} joins the cluster in this run");
        known.expect(node.object(), Wait { item: String::new(), reason });
    }
    Ok(known)
}

/// The target of this name, opened when it is first used.
pub(crate) async fn connect(context: &RunContext, name: &str) -> Result<Target, TargetError> {
    if context.project.entry_hosts(name).is_none() {
        return crate::connect::sessions::link(context, name).await.map(|link| host(context, link));
    }
    let mut clusters = context.pool.clusters.lock().await;
    let link = clusters.entry(name.to_owned()).or_insert_with(|| Arc::new(ClusterLink::new(name)));
    Ok(Target::Cluster(Arc::clone(link)))
}

/// Lets go of a session in which what a look may take is used up: what is under way there is not waited for.
pub(crate) async fn leave(context: &RunContext, target: &Target) {
    if let Target::Host(link, _) = target
        && link.is_used_up()
    {
        context.pool.links.lock().await.remove(&link.host);
    }
}
