//! The target of a lane: a host through its shell, or a cluster through its API.

use crate::context::RunContext;
use crate::controller;
use crate::session::cluster::ClusterLink;
use crate::session::endpoint::EndpointError;
use crate::{Activity, Event, TargetError, Traffic};
use converge_cluster::{
    Cluster, ClusterAccess, ClusterError, ClusterOptions, Login, SecretSealError, UnreadIdentities,
};
use converge_executor::FactGroups as Groups;
use converge_executor::{Answers, Executor, Questions};
use converge_host::Link;
use converge_ledger::{Records, Undo};
use converge_planner::Knowledge;
use converge_resource::{ApiRef, Digest, Probe, Wait, quote};
use converge_ssh::{Batch, ShellItem, ShellOutcome, Status, Stderr};
use converge_store::FetchedFiles;
use converge_syntax::Node;
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The kubeconfig of a control plane, where its host's variables name no other.
const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";

/// The variable that names a kubeconfig on this machine: then no host is entered for the cluster.
const KUBECONFIG: &str = "converge_kubeconfig";

/// The variable that lists the programs that it may run to log in, by their absolute paths.
const PROGRAMS: &str = "converge_kubeconfig_exec";

/// The variable that names the context in it.
const CONTEXT: &str = "converge_kube_context";

/// The variable that names the kubeconfig on a control plane.
const KUBECONFIG_ON_HOST: &str = "converge_kubeconfig_on_host";

/// The variable that lists the age recipients to whom saved values of Secrets are encrypted.
const RECIPIENTS: &str = "converge_age_recipients";

/// The variable that names the file of the age identity, on this machine, with which a rollback reads them.
const IDENTITY: &str = "converge_age_identity";

/// Exit status of the script that reads a kubeconfig: there is none.
const NO_FILE: i32 = 44;

/// A host or a cluster.
#[derive(Clone)]
pub(crate) enum Target {
    /// With the files of this machine that its resources fetch.
    Host(Arc<Link>, Arc<FetchedFiles>),
    Cluster(Arc<ClusterLink>),
}

/// The reason why a cluster is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCluster {
    #[error("all hosts through which it is reached are in maintenance")]
    Maintenance,
    #[error("there is no cluster yet: no kubeconfig on {}", .0.join(", "))]
    NoKubeconfig(Vec<String>),
}

/// A cluster, or why it is not there yet.
type FoundCluster = Result<Cluster, NoCluster>;

impl Target {
    /// The inventory's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(link, _) => &link.host,
            Self::Cluster(link) => &link.name,
        }
    }

    /// The host; an error where a cluster is meant.
    pub fn host(&self) -> Result<&Arc<Link>, TargetError> {
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
        let mut said = match self.executor().await {
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
        controller::answer(self.fetched(), questions.probes, &mut said).await;
        for (probe, answer) in std::mem::take(&mut said.answers) {
            known.learn(probe, answer);
        }
        for content in std::mem::take(&mut said.contents) {
            known.learn_content(content);
        }
        Ok(said)
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

    /// Learns contents of before that this machine has kept of a host, and marks the changes whose content it has not.
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
            Self::Host(link, _) => Some(link.shell.traffic()),
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
pub(crate) fn host(context: &RunContext, link: Arc<Link>) -> Target {
    Target::Host(link, Arc::new(FetchedFiles::of(context.options.folder.clone())))
}

/// The cluster, looked for anew where it was not there, or is gone.
pub(crate) async fn arrive(context: &RunContext, link: &ClusterLink) -> Result<FoundCluster, TargetError> {
    let mut state = link.state.lock().await;
    if let Some(cluster) = state.cluster.as_ref().filter(|cluster| !cluster.is_gone()) {
        return Ok(Ok(cluster.clone()));
    }
    let found = find_cluster(context, &link.name).await?;
    state.cluster = found.as_ref().ok().cloned();
    Ok(found)
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

/// A variable of a host as text.
fn text_var(context: &RunContext, host: &str, name: &str) -> Result<Option<String>, TargetError> {
    let found = context.project.host_var(host, name);
    let node = found.map_err(EndpointError::Variables)?;
    Ok(node.and_then(|node| node.scalar_text()).filter(|text| !text.is_empty()))
}

/// Reaches a cluster: with a kubeconfig of this machine, or through the first of its hosts that has one.
async fn find_cluster(context: &RunContext, name: &str) -> Result<FoundCluster, TargetError> {
    let accesses = context.project.entry_hosts(name).unwrap_or_default().to_vec();
    let _connects = context.begin(name, Activity::Connect);
    context.events.send(Event::Connecting { host: name.to_owned() });
    let begun = Instant::now();
    let mut without = Vec::new();
    let mut last = None;
    for host in &accesses {
        let kube_context = text_var(context, host, CONTEXT)?;
        let access = match text_var(context, host, KUBECONFIG)? {
            Some(path) => {
                let programs = text_list(context, host, PROGRAMS)?.into_iter().map(PathBuf::from).collect();
                let login = Login { file: local_path(&path), programs };
                local_file(&path)
                    .map(|text| Some(ClusterAccess::Kubeconfig { text, context: kube_context, login }))
            }
            None => endpoint_through(context, host, kube_context).await,
        };
        let access = match access {
            Ok(Some(access)) => access,
            Ok(None) => {
                without.push(host.clone());
                continue;
            }
            Err(lost) => {
                last = Some(lost.map_message(|why| format!("through {host}: {why}")));
                continue;
            }
        };
        match Cluster::connect(name, access, cluster_options(context, name, host)?).await {
            Ok(cluster) => {
                let event = Event::Connected { host: name.to_owned(), took: begun.elapsed() };
                context.events.send(event);
                return Ok(Ok(cluster));
            }
            Err(error) => last = Some(no_cluster(host, &error)),
        }
    }
    match last {
        Some(lost) => Err(lost),
        None if without.is_empty() => Ok(Err(NoCluster::Maintenance)),
        None => Ok(Err(NoCluster::NoKubeconfig(without))),
    }
}

/// A way through a host; nothing where the host has no kubeconfig.
async fn endpoint_through(
    context: &RunContext,
    host: &str,
    kube_context: Option<String>,
) -> Result<Option<ClusterAccess>, TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let path = text_var(context, host, KUBECONFIG_ON_HOST)?.unwrap_or_else(|| ADMIN_CONF.to_owned());
    let path = quote(&path);
    let script = format!("[ -e {path} ] || exit {NO_FILE}; cat -- {path}");
    let item = ShellItem { stderr: Stderr::Separate, ..ShellItem::new(1, script) };
    let (results, error) = link.shell.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
    if let Some(error) = error {
        return Err(link.lost(&error));
    }
    let Some(result) = results.into_iter().next() else { return Ok(None) };
    if matches!(result.outcome, ShellOutcome::Finished { status: Status::Exited(NO_FILE), .. }) {
        return Ok(None);
    }
    if !result.success() {
        let said = String::from_utf8_lossy(&result.stderr).trim().to_owned();
        return Err(TargetError::Refused(format!("the kubeconfig cannot be read: {said}")));
    }
    let text = SecretString::from(String::from_utf8_lossy(&result.output).into_owned());
    let (target, _) = crate::connect::endpoints::endpoint(context, host).await?;
    // A connection of its own: bulk data must not hold up the shell's.
    let session = crate::connect::endpoints::enter(context, host, &target)
        .await
        .1
        .map_err(|e| crate::connect::endpoints::no_session(host, &e))?;
    Ok(Some(ClusterAccess::Tunnel { session, text, context: kube_context }))
}

/// The age recipients to whom what is secret of this host's cluster is encrypted.
pub(crate) fn recipients(context: &RunContext, host: &str) -> Result<Vec<String>, TargetError> {
    text_list(context, host, RECIPIENTS)
}

/// A variable of a host as texts: a list, or one.
fn text_list(context: &RunContext, host: &str, name: &str) -> Result<Vec<String>, TargetError> {
    let found = context.project.host_var(host, name);
    Ok(match found.map_err(EndpointError::Variables)? {
        None => Vec::new(),
        Some(node) => match node.as_list() {
            Some(list) => list.iter().filter_map(Node::scalar_text).collect(),
            None => node.scalar_text().into_iter().collect(),
        },
    })
}

/// The options of a cluster that is reached through this host.
fn cluster_options(context: &RunContext, name: &str, host: &str) -> Result<ClusterOptions, TargetError> {
    let recipients = recipients(context, host)?;
    let (identity, unread_identities) = match text_var(context, host, IDENTITY)?.map(|path| identities(&path))
    {
        Some(Ok(text)) => (Some(text), None),
        Some(Err(unread)) => (None, Some(unread)),
        None => (None, None),
    };
    // An identity file of age: comments, and one key a line.
    let keys = identity.iter().flat_map(|text| text.expose_secret().lines());
    let identities = keys.filter(|line| line.starts_with("AGE-SECRET-KEY-")).map(SecretString::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache =
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home.map(|home| home.join(".cache")));
    let defaults = ClusterOptions::default();
    Ok(ClusterOptions {
        recipients,
        identities: identities.collect(),
        unread_identities,
        operator: context.options.operator.clone(),
        scope: context.scope(name),
        project: context.project_name(name),
        keep_all_runs: context.options.keep_all_runs,
        helm: context.options.helm.clone(),
        cache: cache.map_or(defaults.cache, |cache| cache.join("converge/helm")),
        ..defaults
    })
}

/// The text of a file of age identities on this machine.
fn identities(path: &str) -> Result<SecretString, UnreadIdentities> {
    let file = local_path(path);
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(SecretString::from(text)),
        Err(error) => Err(UnreadIdentities { file, error: Arc::new(error) }),
    }
}

/// A file of this machine that holds secrets.
fn local_file(path: &str) -> Result<SecretString, TargetError> {
    let path = local_path(path);
    std::fs::read_to_string(&path)
        .map(SecretString::from)
        .map_err(|e| TargetError::Refused(format!("{} cannot be read: {e}", path.display())))
}

/// A path of this machine, `~/` being the home of who runs converge; absolute.
fn local_path(path: &str) -> PathBuf {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = path.strip_prefix("~/").map_or_else(|| path.to_owned(), |rest| format!("{home}/{rest}"));
    std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path))
}

/// The reason why a cluster is excluded from a run.
fn no_cluster(host: &str, error: &ClusterError) -> TargetError {
    let message = format!("through {host}: {error}");
    if error.is_unreachable() { TargetError::Unreachable(message) } else { TargetError::Refused(message) }
}
