//! A connection to a cluster.

use crate::api::Api;
use crate::error::ClusterError;
use crate::kubeconfig::{KubeconfigError, UsableKubeconfig, check};
use crate::login::{Login, LoginError};
use crate::open_run::OpenRun;
use crate::options::ClusterOptions;
use crate::tunnel::{Dialer, Road};
use converge_resource::{ApiRef, Content, Digest, ObjectId, field_manager};
use converge_ssh::Session;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, Body, ConfigExt as _};
use kube::config::KubeConfigOptions;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceBuilder;

/// The endpoint of a cluster.
pub enum ClusterAccess {
    /// From this machine, with a kubeconfig of this machine.
    Kubeconfig {
        /// The kubeconfig.
        text: SecretString,
        /// Its context; the current one when `None`.
        context: Option<String>,
        /// The programs that it may run to log in.
        login: Login,
    },
    /// Through an SSH session of its own, with the kubeconfig of that host.
    Tunnel {
        /// Nothing else uses it: a host's shell and a cluster's lists do not wait for each other.
        session: Session,
        /// The kubeconfig as it lies there.
        text: SecretString,
        /// Its context; the current one when `None`.
        context: Option<String>,
    },
}

/// A connection to a cluster. Clones share it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) api: Arc<Api>,
    pub(crate) options: ClusterOptions,
    /// The field manager of the project.
    pub(crate) manager: String,
    /// The objects whose fields under the plain name are this project's, once they were asked for.
    pub(crate) plainly_managed: tokio::sync::OnceCell<BTreeSet<ObjectId>>,
    /// The entries of this project's applies in the objects that were read, as they were read last.
    pub(crate) applied: std::sync::Mutex<BTreeMap<ApiRef, Vec<Value>>>,
    pub(crate) access: Access,
    pub(crate) run: tokio::sync::Mutex<Option<OpenRun>>,
    pub(crate) charts: std::sync::Mutex<BTreeMap<Digest, Content>>,
}

/// The data with which another program reaches the same server in the same way.
pub(crate) struct Access {
    pub(crate) road: Road,
    pub(crate) server: http::Uri,
    pub(crate) kubeconfig: SecretString,
    pub(crate) context: Option<String>,
    /// The user who logs in with a program, and the program.
    pub(crate) login: Option<(String, PathBuf)>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads the kubeconfig and asks the server who we are. `name` is the cluster's in messages.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn connect(
        name: &str,
        access: ClusterAccess,
        options: ClusterOptions,
    ) -> Result<Self, ClusterError> {
        let (road, kubeconfig, context, login) = match access {
            ClusterAccess::Kubeconfig { text, context, login } => (Road::Direct, text, context, Some(login)),
            ClusterAccess::Tunnel { session, text, context } => (Road::Through(session), text, context, None),
        };
        for recipient in &options.recipients {
            recipient.parse::<age::x25519::Recipient>().map_err(|e| ClusterError::Options {
                cluster: name.to_owned(),
                why: format!("`{recipient}` is not an age recipient ({e}); a recipient begins with age1"),
            })?;
        }
        let bad = |why: KubeconfigError| ClusterError::Kubeconfig { cluster: name.to_owned(), why };
        let checked = check(kubeconfig.expose_secret(), context.as_deref(), login.as_ref()).map_err(bad)?;
        let UsableKubeconfig { config: parsed, expires, login } = checked;
        let chosen = KubeConfigOptions { context: context.clone(), cluster: None, user: None };
        let unusable = |e: &dyn std::fmt::Display| bad(KubeconfigError::Client(e.to_string()));
        let config = kube::Config::from_custom_kubeconfig(parsed, &chosen).await.map_err(|e| unusable(&e))?;
        let server = config.cluster_url.clone();
        let client = match &login {
            None => client(&config, road.clone()).map_err(|e| unusable(&e))?,
            Some((_, program)) => log_in(config, road.clone(), program).await.map_err(bad)?,
        };
        let api = Api::new(client, name.to_owned(), server.to_string(), options.deadline, expires);
        hello(&api).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                api: Arc::new(api),
                manager: field_manager(options.project.as_deref()),
                plainly_managed: tokio::sync::OnceCell::new(),
                options,
                access: Access { road, server, kubeconfig, context, login },
                run: tokio::sync::Mutex::new(None),
                charts: std::sync::Mutex::default(),
                applied: std::sync::Mutex::default(),
            }),
        })
    }

    /// The cluster's name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The last question found no server.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.inner.api.is_gone()
    }

    /// Whether records hold values of Secrets, encrypted.
    #[must_use]
    pub fn keeps_secrets(&self) -> bool {
        !self.inner.options.recipients.is_empty()
    }

    /// Whether the server answers now: the last question may have been another task's, and unlucky.
    pub async fn answers(&self) -> bool {
        self.inner.api.get("/version").await.is_ok()
    }

    /// Hands over a packaged chart, which specifications name by its digest.
    pub fn offer(&self, chart: Content) {
        let mut charts = self.inner.charts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        charts.insert(chart.digest().clone(), chart);
    }
}

fn client(config: &kube::Config, road: Road) -> Result<kube::Client, kube::Error> {
    let https = config.rustls_https_connector_with_connector(Dialer(road))?;
    let hyper = Hyper::builder(TokioExecutor::new()).build::<_, Body>(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(hyper);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// Seconds within which a program that logs in must have ended.
const LOGIN: u64 = 60;

/// The client of a user who logs in with a program: the library runs it at once, and waits for it.
async fn log_in(config: kube::Config, road: Road, program: &Path) -> Result<kube::Client, KubeconfigError> {
    let runtime = tokio::runtime::Handle::current();
    let task = tokio::task::spawn_blocking(move || {
        let _within = runtime.enter();
        client(&config, road)
    });
    let own = program.to_owned();
    let ended = tokio::time::timeout(Duration::from_secs(LOGIN), task).await;
    let ended = ended.map_err(|_| LoginError::Slow(own.clone(), LOGIN))?;
    ended.map_err(|e| KubeconfigError::Client(e.to_string()))?.map_err(|error| match error {
        // The library's own message shows all that the program wrote, its answer too.
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            let reply =
                String::from_utf8_lossy(&out.stderr).trim().lines().next().unwrap_or_default().to_owned();
            let reply = if reply.is_empty() { out.status.to_string() } else { reply };
            LoginError::Failed(own, reply).into()
        }
        kube::Error::Auth(AuthError::AuthExecParse(_)) => {
            LoginError::Failed(own, "its answer is no ExecCredential".to_owned()).into()
        }
        other => KubeconfigError::Client(other.to_string()),
    })
}

/// Everybody who is known may ask who he is.
async fn hello(api: &Api) -> Result<(), ClusterError> {
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    match api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &question).await {
        Ok(answer) => {
            let user = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
            tracing::debug!(user, "connected to the API server");
            Ok(())
        }
        // Older servers do not know the question, which does not mean that they do not know us.
        Err(fault) if fault.code() == Some(404) => Ok(()),
        Err(fault) => Err(api.refusal(fault)),
    }
}
