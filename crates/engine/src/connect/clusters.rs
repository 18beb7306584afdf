//! The way to a cluster: with a kubeconfig of this machine, or through the first of its hosts that has one.

use crate::context::RunContext;
use crate::session::cluster::ClusterLink;
use crate::session::endpoint::EndpointError;
use crate::{Activity, Event, TargetError};
use camino::Utf8Path;
use converge_cluster::{Cluster, ClusterAccess, ClusterError, ClusterOptions, Login, UnreadIdentities};
use converge_resource::quote;
use converge_ssh::{Batch, ShellItem, ShellOutcome, Status, Stderr};
use converge_syntax::Node;
use secrecy::{ExposeSecret, SecretString};
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
    let (results, error) = link.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
    if let Some(error) = error {
        return Err(link.lost(&error));
    }
    let Some(result) = results.into_iter().next() else { return Ok(None) };
    if matches!(result.outcome, ShellOutcome::Finished { status: Status::Exited(NO_FILE), .. }) {
        return Ok(None);
    }
    if !result.success() {
        let reply = String::from_utf8_lossy(&result.stderr).trim().to_owned();
        return Err(TargetError::Refused(format!("the kubeconfig cannot be read: {reply}")));
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
    let path = PathBuf::from(converge_store::from_home(Utf8Path::new(path)));
    std::path::absolute(&path).unwrap_or(path)
}

/// The reason why a cluster is excluded from a run.
fn no_cluster(host: &str, error: &ClusterError) -> TargetError {
    let message = format!("through {host}: {error}");
    if error.is_unreachable() { TargetError::Unreachable(message) } else { TargetError::Refused(message) }
}
