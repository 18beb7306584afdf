//! What a lane works on: a host through its shell, or a cluster through its API.

use crate::engine::{Engine, Link};
use crate::facts::Groups;
use crate::observe::{Beside, Round, observe_beside};
use crate::{Event, LostHost};
use converge_cluster::{Cluster, ClusterError, ClusterOptions, Way};
use converge_ledger::Undo;
use converge_planner::Knowledge;
use converge_resource::{ApiRef, Digest, ObjectId, Probe, State, Wait, quote};
use converge_ssh::{Batch, Item, Outcome, Status, Stderr};
use converge_syntax::Node;
use secrecy::{ExposeSecret, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// The kubeconfig of a control plane, where its host's variables name no other.
const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";

/// The variable that names a kubeconfig on this machine: then no host is entered for the cluster.
const KUBECONFIG: &str = "converge_kubeconfig";

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
pub(crate) enum Reach {
    Host(Arc<Link>),
    Cluster(Arc<ClusterLink>),
}

/// A cluster, as far as it is there.
pub(crate) struct ClusterLink {
    pub name: String,
    state: tokio::sync::Mutex<Standing>,
}

#[derive(Default)]
struct Standing {
    cluster: Option<Cluster>,
    /// The run that holds its lock.
    run: Option<String>,
    /// Nodes that come in this run, and the hosts that they are made of.
    joining: BTreeMap<String, String>,
}

/// A cluster, or why it is not there yet, for people.
type Found = Result<Cluster, String>;

impl Reach {
    /// The inventory's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(link) => &link.host,
            Self::Cluster(link) => &link.name,
        }
    }

    /// The host; an error where a cluster is meant.
    pub fn host(&self) -> Result<&Arc<Link>, LostHost> {
        match self {
            Self::Host(link) => Ok(link),
            Self::Cluster(link) => Err(LostHost::refused(format!("{} is a cluster, not a host", link.name))),
        }
    }

    /// Asks all of this at once and puts the answers into `known`.
    pub async fn observe(
        &self,
        probes: &BTreeSet<Probe>,
        beside: Beside<'_>,
        known: &mut Knowledge,
    ) -> Result<Round, LostHost> {
        match self {
            Self::Host(link) => {
                let seen = observe_beside(&link.shell, probes, beside, known).await;
                let mut round = seen.map_err(|e| link.lost(&e))?;
                if let Some(Ok(records)) = &mut round.owned {
                    *link.base.lock().unwrap_or_else(PoisonError::into_inner) = records.base.take();
                }
                Ok(round)
            }
            Self::Cluster(link) => {
                let Some(cluster) = link.present().await else {
                    return Ok(Round { facts: None, owned: None });
                };
                let owned = async {
                    match beside.owned {
                        true => Some(cluster.owned().await),
                        false => None,
                    }
                };
                let (seen, owned) = tokio::join!(cluster.observe(probes), owned);
                if cluster.is_gone() {
                    return Err(LostHost::new("the API server does not answer any more", true));
                }
                for (probe, answer) in seen.answers {
                    known.learn(probe, answer);
                }
                for content in seen.contents {
                    known.learn_content(content);
                }
                Ok(Round { facts: None, owned })
            }
        }
    }

    /// Asks for these probes alone.
    pub async fn look(&self, probes: &BTreeSet<Probe>, known: &mut Knowledge) -> Result<(), LostHost> {
        self.observe(probes, Beside::default(), known).await.map(drop)
    }

    /// Brings the contents that these changes' states name, where they are kept with the records.
    pub async fn saved_contents<'a>(
        &self,
        undos: impl Iterator<Item = &'a Undo>,
        known: &mut Knowledge,
    ) -> Result<(), LostHost> {
        let Self::Cluster(link) = self else { return Ok(()) };
        let content = |id: &ObjectId, state: &State| converge_objects::object(&id.kind)?.content(state);
        let wanted: BTreeSet<Digest> = undos
            .flat_map(|u| {
                let between = u.between.iter().flat_map(|(left, found)| [left, found]);
                let states = [&u.left, &u.before].into_iter().chain(between);
                states.filter_map(|state| content(&u.object, state)).collect::<Vec<_>>()
            })
            .filter(|digest| known.content(digest).is_none())
            .collect();
        if let (false, Some(cluster)) = (wanted.is_empty(), link.present().await) {
            let found = cluster.contents(&wanted).await.map_err(LostHost::refused)?;
            found.into_values().for_each(|content| known.learn_content(content));
        }
        Ok(())
    }

    /// The run has changed it: what it says of itself is asked again.
    pub fn facts_are_stale(&self) {
        if let Self::Host(link) = self {
            link.facts_are_stale();
        }
    }

    /// A new run begins.
    pub fn begin(&self) {
        if let Self::Host(link) = self {
            link.begin();
        }
    }

    /// The groups of facts that are still to be asked here.
    pub fn unknown_facts(&self, wanted: &Groups) -> Option<Groups> {
        match self {
            Self::Host(link) => link.unknown_facts(wanted),
            Self::Cluster(_) => None,
        }
    }

    /// Keeps facts.
    pub fn learn_facts(&self, facts: serde_json::Value, groups: &Groups) {
        if let Self::Host(link) = self {
            link.learn_facts(facts, groups);
        }
    }
}

impl ClusterLink {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: tokio::sync::Mutex::default() }
    }

    /// The cluster, when it is there.
    pub async fn present(&self) -> Option<Cluster> {
        self.state.lock().await.cluster.clone()
    }

    /// Whether this run holds the cluster's lock.
    pub async fn is_open(&self, run: &str) -> bool {
        self.state.lock().await.run.as_deref() == Some(run)
    }

    /// This run holds the cluster's lock, or gives it back.
    pub async fn mark_open(&self, run: Option<&str>) {
        self.state.lock().await.run = run.map(str::to_owned);
    }

    /// The cluster, looked for anew where it was not there, or is gone.
    pub async fn arrive(&self, engine: &Engine) -> Result<Found, LostHost> {
        let mut state = self.state.lock().await;
        if let Some(cluster) = state.cluster.as_ref().filter(|cluster| !cluster.is_gone()) {
            return Ok(Ok(cluster.clone()));
        }
        let found = engine.find_cluster(&self.name).await?;
        state.cluster = found.as_ref().ok().cloned();
        Ok(found)
    }

    /// What is known before anything was asked: nothing of a cluster that is not there yet.
    pub async fn first_knowledge(&self, engine: &Engine) -> Result<Knowledge, LostHost> {
        let mut known = match self.arrive(engine).await? {
            Ok(_) => Knowledge::default(),
            Err(why) => Knowledge::until(Wait { item: String::new(), reason: why }),
        };
        for (name, host) in &self.state.lock().await.joining {
            let (api_version, kind) = ("v1".to_owned(), "Node".to_owned());
            let node = ApiRef { api_version, kind, namespace: None, name: name.clone() };
            let reason = format!("{host} joins the cluster in this run");
            known.expect(node.object(), Wait { item: String::new(), reason });
        }
        Ok(known)
    }

    /// These nodes come in this run, made of these hosts.
    pub async fn expect(&self, nodes: &BTreeMap<String, String>) {
        self.state.lock().await.joining.extend(nodes.iter().map(|(node, host)| (node.clone(), host.clone())));
    }
}

impl Engine {
    /// What a lane of this name works on, opened when it is first used.
    pub(crate) async fn reach(&self, name: &str) -> Result<Reach, LostHost> {
        if self.project().ways_to(name).is_none() {
            return self.link(name).await.map(Reach::Host);
        }
        let mut clusters = self.clusters.lock().await;
        let link = clusters.entry(name.to_owned()).or_insert_with(|| Arc::new(ClusterLink::new(name)));
        Ok(Reach::Cluster(Arc::clone(link)))
    }

    /// A variable of a host as text.
    fn text_var(&self, host: &str, name: &str) -> Result<Option<String>, LostHost> {
        let found = self.project().host_var(host, name);
        let node = found.map_err(|e| LostHost::refused(crate::project::one_line(&e)))?;
        Ok(node.and_then(|node| node.scalar_text()).filter(|text| !text.is_empty()))
    }

    /// Reaches a cluster: with a kubeconfig of this machine, or through the first of its hosts that has one.
    async fn find_cluster(&self, name: &str) -> Result<Found, LostHost> {
        let ways = self.project().ways_to(name).unwrap_or_default().to_vec();
        self.events().send(Event::Connecting { host: name.to_owned() });
        let begun = Instant::now();
        let mut without = Vec::new();
        let mut last = None;
        for host in &ways {
            let context = self.text_var(host, CONTEXT)?;
            let way = match self.text_var(host, KUBECONFIG)? {
                Some(path) => local_file(&path).map(|text| Some(Way::Kubeconfig { text, context })),
                None => self.way_through(host, context).await,
            };
            let way = match way {
                Ok(Some(way)) => way,
                Ok(None) => {
                    without.push(host.clone());
                    continue;
                }
                Err(lost) => {
                    last = Some(LostHost { message: format!("through {host}: {}", lost.message), ..lost });
                    continue;
                }
            };
            match Cluster::connect(name, way, self.cluster_options(host)?).await {
                Ok(cluster) => {
                    let event = Event::Connected { host: name.to_owned(), took: begun.elapsed() };
                    self.events().send(event);
                    return Ok(Ok(cluster));
                }
                Err(error) => last = Some(no_cluster(host, &error)),
            }
        }
        match last {
            Some(lost) => Err(lost),
            None => {
                let why = match without.as_slice() {
                    [] => "all hosts through which it is reached are in maintenance".to_owned(),
                    hosts => format!("there is no cluster yet: no kubeconfig on {}", hosts.join(", ")),
                };
                Ok(Err(why))
            }
        }
    }

    /// A way through a host; nothing where the host has no kubeconfig.
    async fn way_through(&self, host: &str, context: Option<String>) -> Result<Option<Way>, LostHost> {
        let link = self.link(host).await?;
        let path = self.text_var(host, KUBECONFIG_ON_HOST)?.unwrap_or_else(|| ADMIN_CONF.to_owned());
        let path = quote(&path);
        let script = format!("[ -e {path} ] || exit {NO_FILE}; cat -- {path}");
        let item = Item { stderr: Stderr::Separate, ..Item::new(1, script) };
        let (results, error) =
            link.shell.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
        if let Some(error) = error {
            return Err(link.lost(&error));
        }
        let Some(result) = results.into_iter().next() else { return Ok(None) };
        if matches!(result.outcome, Outcome::Finished { status: Status::Exited(NO_FILE), .. }) {
            return Ok(None);
        }
        if !result.success() {
            let said = String::from_utf8_lossy(&result.stderr).trim().to_owned();
            return Err(LostHost::refused(format!("the kubeconfig cannot be read: {said}")));
        }
        let text = SecretString::from(String::from_utf8_lossy(&result.output).into_owned());
        let (target, _) = self.way(host).await.map_err(LostHost::refused)?;
        // A connection of its own: bulk data must not hold up the shell's.
        let session = self.enter(host, &target).await.1.map_err(|e| crate::ways::no_session(host, &e))?;
        Ok(Some(Way::Tunnel { session, text, context }))
    }

    /// The age recipients to whom what is secret of this host's cluster is encrypted.
    pub(crate) fn recipients(&self, host: &str) -> Result<Vec<String>, LostHost> {
        let found = self.project().host_var(host, RECIPIENTS);
        Ok(match found.map_err(|e| LostHost::refused(crate::project::one_line(&e)))? {
            None => Vec::new(),
            Some(node) => match node.as_list() {
                Some(list) => list.iter().filter_map(Node::scalar_text).collect(),
                None => node.scalar_text().into_iter().collect(),
            },
        })
    }

    /// What holds for a cluster that is reached through this host.
    fn cluster_options(&self, host: &str) -> Result<ClusterOptions, LostHost> {
        let recipients = self.recipients(host)?;
        let identity = match self.text_var(host, IDENTITY)? {
            Some(path) => Some(local_file(&path)?),
            None => None,
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
            operator: self.options().operator.clone(),
            keep_all_runs: self.options().keep_all_runs,
            cache: cache.map_or(defaults.cache, |cache| cache.join("converge/helm")),
            ..defaults
        })
    }
}

/// A file of this machine that holds secrets.
fn local_file(path: &str) -> Result<SecretString, LostHost> {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = path.strip_prefix("~/").map_or_else(|| path.to_owned(), |rest| format!("{home}/{rest}"));
    std::fs::read_to_string(&path)
        .map(SecretString::from)
        .map_err(|e| LostHost::refused(format!("{path} cannot be read: {e}")))
}

/// Why a cluster is out of a run.
fn no_cluster(host: &str, error: &ClusterError) -> LostHost {
    LostHost::new(format!("through {host}: {error}"), error.is_unreachable())
}
