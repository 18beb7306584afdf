//! A connection to a cluster.

use crate::api::Api;
use crate::error::ClusterError;
use crate::kubeconfig::{KubeconfigError, check};
use crate::open_run::OpenRun;
use crate::options::ClusterOptions;
use crate::tunnel::{Dialer, Road};
use converge_resource::{Content, Digest};
use converge_ssh::Session;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::KubeConfigOptions;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tower::ServiceBuilder;

/// The endpoint of a cluster.
pub enum Way {
    /// From this machine, with a kubeconfig of this machine.
    Kubeconfig {
        /// The kubeconfig.
        text: SecretString,
        /// Its context; the current one when `None`.
        context: Option<String>,
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
    pub async fn connect(name: &str, way: Way, options: ClusterOptions) -> Result<Self, ClusterError> {
        let (road, kubeconfig, context) = match way {
            Way::Kubeconfig { text, context } => (Road::Direct, text, context),
            Way::Tunnel { session, text, context } => (Road::Through(session), text, context),
        };
        for recipient in &options.recipients {
            recipient.parse::<age::x25519::Recipient>().map_err(|e| ClusterError::Options {
                cluster: name.to_owned(),
                why: format!("`{recipient}` is no age recipient ({e}); it is written age1…"),
            })?;
        }
        let bad = |why: KubeconfigError| ClusterError::Kubeconfig { cluster: name.to_owned(), why };
        let far = matches!(road, Road::Through(_));
        let (parsed, expires) = check(kubeconfig.expose_secret(), context.as_deref(), far).map_err(bad)?;
        let chosen = KubeConfigOptions { context: context.clone(), cluster: None, user: None };
        let unusable = |e: &dyn std::fmt::Display| bad(KubeconfigError::Client(e.to_string()));
        let config = kube::Config::from_custom_kubeconfig(parsed, &chosen).await.map_err(|e| unusable(&e))?;
        let server = config.cluster_url.clone();
        let client = client(&config, road.clone()).map_err(|e| unusable(&e))?;
        let api = Api::new(client, name.to_owned(), server.to_string(), options.deadline, expires);
        hello(&api).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                api: Arc::new(api),
                options,
                access: Access { road, server, kubeconfig, context },
                run: tokio::sync::Mutex::new(None),
                charts: std::sync::Mutex::default(),
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
