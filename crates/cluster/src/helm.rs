//! The real helm, run on this machine against the cluster: through a port of this machine's loopback that leads into the tunnel, with a
//! kubeconfig that nobody else can read. Both are gone afterwards, and no secret stands on a command line.

use crate::chart_fault::{ChartIndex, SourceFault, without_progress};
use crate::chart_login::{ChartSource, LoginRefusal};
use crate::connect::{Access, Cluster};
use crate::fault::Fault;
use crate::helm_folder::HelmFolder;
use crate::helm_record::RecordFault;
use crate::login;
use crate::options::ClusterOptions;
use crate::private_file::{HelmFileError, private};
use crate::program::{environment, in_path};
use crate::tunnel::{Road, address};
use converge_resource::{Chart, ReleaseSpec};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

/// The time that helm may take beyond its own `--timeout`.
const SLACK: Duration = Duration::from_secs(90);

/// A question takes so long at most.
pub(crate) const QUESTION: Duration = Duration::from_secs(120);

/// The folder of helm's configuration, below the private one.
const CONFIG: &str = "config";

/// The limit of its output that is kept.
const OUTPUT: u64 = 64 << 20;

/// The reason why helm has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelmError {
    #[error("there is no helm at {}", .0.display())]
    NotAt(PathBuf),
    #[error("helm releases need the program `helm` (3) on this machine: install it into a folder of PATH")]
    NotInPath,
    #[error("the kubeconfig is not understood")]
    Kubeconfig,
    #[error("the address of the API server has no host")]
    NoHost,
    #[error("no folder for helm can be made on this machine: {0}")]
    Folder(io::Error),
    #[error("no port for helm can be opened on this machine: {0}")]
    Port(io::Error),
    #[error(transparent)]
    File(#[from] HelmFileError),
    #[error("the content of the packaged chart is not at hand; plan again")]
    NoChart,
    #[error("a previous release has no chart to render")]
    PreviousChart,
    #[error("{} does not start: {error}", program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("the pipes to helm are missing")]
    NoPipes,
    /// Its end or its output did not come through.
    #[error("{0}")]
    Output(io::Error),
    #[error("helm did not end within {0} s and was killed")]
    Late(u64),
    /// It failed without a word.
    #[error("helm ended with {0}")]
    Status(ExitStatus),
    /// It failed: what it wrote to its standard error.
    #[error("{0}")]
    Reply(String),
    /// The repository or registry of the chart refuses the login, or asks for one.
    #[error("{0}; {help}", help = .0.help())]
    Refused(LoginRefusal),
    /// The chart does not come from its repository or registry.
    #[error("{0}; {help}", help = .0.help())]
    Source(SourceFault),
    /// It did not come to an end in its time.
    #[error("{reply}: it had {seconds} s; {}", if *declared { "`timeout` of this `helm_release` gives it more (a role that brings a chart says which of its inputs does)" } else { "a rollback and a prune give a release so long: the same command goes on with it" })]
    TimedOut { reply: String, seconds: u64, declared: bool },
    #[error("helm's answer is not JSON: {0}")]
    Answer(serde_json::Error),
    #[error("helm's manifests: {0}")]
    Manifests(serde_yaml::Error),
    #[error("what helm rendered cannot be read: {0}")]
    Rendered(io::Error),
    #[error("{object}: fields that were unset cannot be taken away again: {fault}")]
    Unset { object: String, fault: Fault },
    #[error("helm's record of {release} has values of others, and cannot be corrected: {fault}")]
    Record { release: String, fault: RecordFault },
}

impl HelmError {
    /// Words of helm itself: it gives no codes.
    fn words(&self) -> &str {
        match self {
            Self::Reply(reply) => reply,
            _ => "",
        }
    }

    /// Whether the release is stuck in another operation: helm then checks nothing else.
    pub(crate) fn hangs(&self) -> bool {
        self.words().contains("another operation")
    }

    /// Whether the release is stuck in its removal: helm then upgrades nothing.
    pub(crate) fn is_half_removed(&self) -> bool {
        self.words().contains("has no deployed releases")
    }

    /// An object is live that the newest revision does not have: `no ConfigMap with the name "x" found`.
    pub(crate) fn lacks_an_object(&self) -> bool {
        let named = |rest: &str| rest.split('"').nth(1).is_some_and(|after| after.starts_with(" found"));
        self.words()
            .split(" with the name ")
            .skip(1)
            .any(|rest| rest.starts_with('"') && named(rest.get(1..).unwrap_or_default()))
    }

    /// Something is to come yet: a kind, a namespace.
    pub(crate) fn waits(&self) -> bool {
        const WAITS: [&str; 4] = [
            "no matches for kind",
            "ensure CRDs are installed first",
            "could not find the requested resource",
            "namespaces \"",
        ];
        WAITS.iter().any(|word| self.words().contains(word))
    }

    /// Whether the chart does not come from its source: an error of the role, or of what it names.
    pub(crate) fn is_of_source(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Source(_))
    }

    /// The same for a call that had so long, and whose time a role has declared or not.
    pub(crate) fn within(self, seconds: u64, declared: bool) -> Self {
        const LATE: [&str; 3] =
            ["timed out waiting", "context deadline exceeded", "client rate limiter Wait returned"];
        match self {
            Self::Reply(reply) if LATE.iter().any(|word| reply.contains(word)) => {
                Self::TimedOut { reply, seconds, declared }
            }
            error => error,
        }
    }

    /// The kinds that helm misses: `no matches for kind "ClusterPolicy" in version "nvidia.com/v1"`.
    pub(crate) fn missing_kinds(&self) -> Vec<String> {
        let after = self.words().split("no matches for kind \"").skip(1);
        after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    }
}

/// A forwarded port and a folder with what helm reads. Dropping it takes both away.
pub(crate) struct Helm {
    program: PathBuf,
    folder: HelmFolder,
    /// The source of the chart, where it is a repository or a registry.
    source: Option<ChartSource>,
    cache: PathBuf,
    server: String,
    forward: Option<JoinHandle<()>>,
}

impl Drop for Helm {
    fn drop(&mut self) {
        if let Some(forward) = &self.forward {
            forward.abort();
        }
    }
}

/// Finds the program.
fn program(options: &ClusterOptions) -> Result<PathBuf, HelmError> {
    if let Some(path) = &options.helm {
        return if path.is_file() { Ok(path.clone()) } else { Err(HelmError::NotAt(path.clone())) };
    }
    in_path("helm").ok_or(HelmError::NotInPath)
}

/// The same kubeconfig with another server, verified by the name of the first.
fn redirected(access: &Access, port: Option<u16>) -> Result<String, HelmError> {
    let bad = || HelmError::Kubeconfig;
    let mut config: Value = serde_yaml::from_str(access.kubeconfig.expose_secret()).map_err(|_| bad())?;
    if let Some(context) = &access.context {
        config["current-context"] = json!(context);
    }
    if let Some((user, program)) = &access.login {
        login::for_helm(&mut config, user, program);
    }
    let Some(port) = port else { return serde_yaml::to_string(&config).map_err(|_| bad()) };
    let current = config.get("current-context").and_then(Value::as_str).unwrap_or_default();
    let contexts = config.get("contexts").and_then(Value::as_array).into_iter().flatten();
    let name = contexts
        .filter(|c| crate::object::text(c, "/name") == current)
        .map(|c| crate::object::text(c, "/context/cluster").to_owned())
        .next()
        .ok_or_else(bad)?;
    let (host, _) = address(&access.server).ok_or_else(bad)?;
    let clusters = config.get_mut("clusters").and_then(Value::as_array_mut).into_iter().flatten();
    for cluster in clusters.filter(|c| crate::object::text(c, "/name") == name) {
        let Some(cluster) = cluster.get_mut("cluster").and_then(Value::as_object_mut) else { continue };
        cluster.insert("server".to_owned(), json!(format!("https://127.0.0.1:{port}")));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        cluster.entry("tls-server-name").or_insert_with(|| json!(host));
    }
    serde_yaml::to_string(&config).map_err(|_| bad())
}

/// Leads each connection to a port of the loopback through the tunnel.
async fn forward(access: &Access) -> Result<(u16, JoinHandle<()>), HelmError> {
    let (host, port) = address(&access.server).ok_or(HelmError::NoHost)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(HelmError::Port)?;
    let local = listener.local_addr().map_err(HelmError::Port)?.port();
    let road = access.road.clone();
    let task = tokio::spawn(async move {
        // Connections end with the listener.
        let mut open = tokio::task::JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let (road, host) = (road.clone(), host.clone());
            open.spawn(async move {
                match road.dial(&host, port).await {
                    Ok(mut far) => {
                        let passed = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                        tracing::trace!(?passed, "a connection of helm ended");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "helm's connection does not come through the tunnel")
                    }
                }
            });
            while open.try_join_next().is_some() {}
        }
    });
    Ok((local, task))
}

impl Helm {
    /// For a call about this release: with the login to the source of its chart.
    pub(crate) async fn ready(cluster: &Cluster, spec: Option<&ReleaseSpec>) -> Result<Self, HelmError> {
        let inner = &cluster.inner;
        let program = program(&inner.options)?;
        let folder = HelmFolder::new().map_err(HelmError::Folder)?;
        let (port, forward) = match inner.access.road {
            Road::Direct => (None, None),
            Road::Through(_) => {
                let (port, task) = forward(&inner.access).await?;
                (Some(port), Some(task))
            }
        };
        let server = inner.access.server.host().unwrap_or_default().to_owned();
        let source = spec.and_then(ChartSource::of);
        // A chart that came by a login is for no other call.
        let own = source.as_ref().is_some_and(ChartSource::has_login);
        let cache = if own { folder.path().to_owned() } else { inner.options.cache.clone() }.join("cache");
        let helm = Self { program, folder, source, cache, server, forward };
        private(&helm.folder.path().join("kubeconfig"), redirected(&inner.access, port)?.as_bytes())?;
        helm.log_in().await?;
        Ok(helm)
    }

    /// The login to the source of the chart; helm reads it in files of its own form.
    async fn log_in(&self) -> Result<(), HelmError> {
        let Some(source) = &self.source else { return Ok(()) };
        if source.lay(&self.folder.path().join(CONFIG))? {
            // It ends well, though it has read nothing.
            let reply = self.run(&source.update(), QUESTION).await?;
            if !source.has_index(&self.cache) {
                return Err(self.failed(&reply));
            }
        }
        Ok(())
    }

    /// The folder that only we can read, and that goes with this.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The arguments that name the chart; a packaged one is laid down.
    pub(crate) fn chart(&self, cluster: &Cluster, spec: &ReleaseSpec) -> Result<Vec<String>, HelmError> {
        let mut arguments = match &spec.chart {
            Chart::Repository { .. } | Chart::Oci(_) => {
                self.source.as_ref().map(ChartSource::arguments).unwrap_or_default()
            }
            Chart::Archive(hex) => {
                let charts = cluster.inner.charts.lock().unwrap_or_else(PoisonError::into_inner);
                let found = charts.iter().find(|(digest, _)| digest.as_str() == hex);
                let (_, content) = found.ok_or(HelmError::NoChart)?;
                let path = self.folder.path().join("chart.tgz");
                private(&path, content.bytes())?;
                vec![path.display().to_string()]
            }
            Chart::SavedRelease(_) => return Err(HelmError::PreviousChart),
        };
        if let Some(version) = &spec.version {
            arguments.extend(["--version".to_owned(), version.clone()]);
        }
        let values = self.folder.path().join("values.json");
        private(&values, spec.values.to_string().as_bytes())?;
        arguments.extend(["--values".to_owned(), values.display().to_string()]);
        Ok(arguments)
    }

    /// Runs it; its standard output.
    pub(crate) async fn run(&self, arguments: &[String], limit: Duration) -> Result<String, HelmError> {
        let limit = limit + SLACK;
        let mut command = Command::new(&self.program);
        command.env_clear().envs(environment());
        // A proxy to the outside does not lead to the API server.
        let mut direct = format!("127.0.0.1,{}", self.server);
        for name in ["NO_PROXY", "no_proxy"] {
            if let Ok(more) = std::env::var(name) {
                direct = format!("{direct},{more}");
            }
        }
        command.env("NO_PROXY", &direct).env("no_proxy", &direct);
        command
            .args(arguments)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HELM_CACHE_HOME", &self.cache)
            .env("HELM_CONFIG_HOME", self.folder.path().join(CONFIG))
            .env("HELM_DATA_HOME", self.folder.path().join("data"))
            .env("HELM_DRIVER", "secret")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is handled by converge: the running step is completed.
            .process_group(0)
            .kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| HelmError::Start { program: self.program.clone(), error })?;
        self.folder.read_by(child.id());
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(HelmError::NoPipes);
        };
        let running = async {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let (mut out, mut err) = (out.take(OUTPUT), err.take(OUTPUT));
            let (status, a, b) =
                tokio::join!(child.wait(), out.read_to_end(&mut stdout), err.read_to_end(&mut stderr));
            a.and(b).and(status).map(|status| (status, stdout, stderr)).map_err(HelmError::Output)
        };
        let ended = tokio::time::timeout(limit, running).await;
        self.folder.read_by(None);
        let (status, stdout, stderr) = ended.map_err(|_| HelmError::Late(limit.as_secs()))??;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let reply = String::from_utf8_lossy(&stderr);
        Err(if reply.trim().is_empty() { HelmError::Status(status) } else { self.failed(&reply) })
    }

    /// The meaning of what helm said of its failure.
    fn failed(&self, reply: &str) -> HelmError {
        let folder = self.folder.path().display().to_string();
        let lines = reply.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("WARNING:"));
        let reply = lines.collect::<Vec<_>>().join("\n").replace(&folder, "…");
        let Some(source) = &self.source else { return HelmError::Reply(reply) };
        if let Some(refusal) = source.refusal(&reply) {
            return HelmError::Refused(refusal);
        }
        let reply = without_progress(&source.hide(&reply));
        let index = || ChartIndex::last_read(&self.cache);
        SourceFault::of(&reply, &source.asked(), index)
            .map_or_else(|| HelmError::Reply(reply), HelmError::Source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(server: &str) -> Access {
        let text = format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: other, user: u}}}}, {{name: a, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: '{server}'}}}}, {{name: other, cluster: {{server: 'https://o'}}}}]}}"
        );
        Access {
            road: Road::Direct,
            server: server.parse().unwrap(),
            kubeconfig: text.into(),
            context: Some("a".to_owned()),
            login: None,
        }
    }

    #[test]
    fn the_server_is_the_forwarded_port_verified_by_its_own_name() {
        let text = redirected(&access("https://10.0.0.7:6443"), Some(4000)).unwrap();
        let config: Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(config["current-context"], "a");
        assert_eq!(
            config["clusters"][0]["cluster"],
            json!({"server": "https://127.0.0.1:4000", "tls-server-name": "10.0.0.7"})
        );
        assert_eq!(config["clusters"][1]["cluster"]["server"], "https://o");
        let direct: Value = serde_yaml::from_str(&redirected(&access("https://h"), None).unwrap()).unwrap();
        assert_eq!(direct["clusters"][0]["cluster"]["server"], "https://h");
    }
}
