//! A connection to a cluster.

use crate::api::Api;
use crate::certificate;
use crate::error::ClusterError;
use crate::open_run::OpenRun;
use crate::options::ClusterOptions;
use crate::tunnel::{Dialer, Road};
use converge_resource::{Content, Digest};
use converge_ssh::Session;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
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
        let bad = |why: String| ClusterError::Kubeconfig { cluster: name.to_owned(), why };
        let far = matches!(road, Road::Through(_));
        let (parsed, expires) = check(kubeconfig.expose_secret(), context.as_deref(), far).map_err(bad)?;
        let chosen = KubeConfigOptions { context: context.clone(), cluster: None, user: None };
        let config =
            kube::Config::from_custom_kubeconfig(parsed, &chosen).await.map_err(|e| bad(e.to_string()))?;
        let server = config.cluster_url.clone();
        let client = client(&config, road.clone()).map_err(|e| bad(e.to_string()))?;
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

/// The kubeconfig, and when its client certificate ends. What would run programs or read files behind our back is refused.
fn check(
    text: &str,
    context: Option<&str>,
    far: bool,
) -> Result<(Kubeconfig, Option<jiff::Timestamp>), String> {
    // A parser's message may quote the text, which holds keys: only the place is told.
    let parsed = Kubeconfig::from_yaml(text).map_err(|_| match serde_yaml::from_str::<Value>(text) {
        Err(error) => match error.location() {
            Some(at) => format!("line {} is not valid YAML", at.line()),
            None => "it is not valid YAML".to_owned(),
        },
        Ok(_) => "it is not a kubeconfig (`kind: Config` with clusters, users and contexts)".to_owned(),
    })?;
    let names: Vec<&str> = parsed.contexts.iter().map(|c| c.name.as_str()).collect();
    let chosen = context.or(parsed.current_context.as_deref().filter(|c| !c.is_empty()));
    let chosen = chosen
        .ok_or_else(|| format!("it names no current context; choose one of these: {}", names.join(", ")))?;
    let entry = parsed
        .contexts
        .iter()
        .find(|c| c.name == chosen)
        .and_then(|c| c.context.as_ref())
        .ok_or_else(|| format!("it has no context `{chosen}`; it has: {}", names.join(", ")))?;
    let cluster = parsed.clusters.iter().find(|c| c.name == entry.cluster).and_then(|c| c.cluster.as_ref());
    let user = entry.user.as_deref();
    let user = parsed.auth_infos.iter().find(|u| Some(u.name.as_str()) == user);
    let user = user.and_then(|u| u.auth_info.as_ref());
    if let Some(exec) = user.and_then(|u| u.exec.as_ref()) {
        let program = exec.command.as_deref().unwrap_or("a program");
        return Err(format!(
            "its user runs {program} to log in (`exec`), which converge does not do; use a client certificate or a token of a service account"
        ));
    }
    if user.is_some_and(|u| u.auth_provider.is_some()) {
        return Err("its user logs in through an `auth-provider`, which converge does not do; use a client certificate or a token".to_owned());
    }
    if cluster.is_some_and(|c| c.proxy_url.is_some()) {
        return Err(
            "its cluster is behind `proxy-url`; reach it through a host of the inventory instead".to_owned()
        );
    }
    let files = [
        ("certificate-authority", cluster.and_then(|c| c.certificate_authority.as_deref())),
        ("client-certificate", user.and_then(|u| u.client_certificate.as_deref())),
        ("client-key", user.and_then(|u| u.client_key.as_deref())),
        ("tokenFile", user.and_then(|u| u.token_file.as_deref())),
    ];
    for (field, file) in files {
        match file {
            Some(file) if far || !file.starts_with('/') => {
                return Err(format!(
                    "its `{field}` names the file {file}; hold the content itself in it (`kubectl config view --flatten --raw`)"
                ));
            }
            _ => {}
        }
    }
    let expires = user.and_then(|u| u.client_certificate_data.as_deref()).and_then(pem);
    Ok((parsed, expires))
}

fn pem(data: &str) -> Option<jiff::Timestamp> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.trim()).ok()?;
    certificate::expires(std::str::from_utf8(&bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(user: &str, cluster: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:6443'{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    fn refused(text: &str, context: Option<&str>, far: bool) -> String {
        check(text, context, far).err().unwrap_or_default()
    }

    #[test]
    fn what_would_run_programs_or_read_files_is_refused() {
        let exec = config(
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}",
            "",
        );
        assert!(
            refused(&exec, None, false).contains("runs aws to log in"),
            "{}",
            refused(&exec, None, false)
        );
        let file = config("client-key: /etc/key", "");
        assert!(refused(&file, None, true).contains("--flatten"));
        assert_eq!(refused(&file, None, false), "");
        assert!(refused(&config("tokenFile: token", ""), None, false).contains("tokenFile"));
        assert!(refused(&config("token: x", ", proxy-url: 'http://p'"), None, false).contains("proxy-url"));
    }

    #[test]
    fn a_context_is_named_or_current() {
        let text = config("token: x", "");
        assert!(check(&text, None, true).is_ok());
        assert_eq!(refused(&text, Some("b"), true), "it has no context `b`; it has: a");
        assert!(
            refused(&text.replace("current-context: a", "current-context: ''"), None, true)
                .contains("these: a")
        );
    }

    #[test]
    fn a_bad_kubeconfig_is_never_quoted() {
        for bad in ["token: [s3cret", "s3cret", "clusters: s3cret"] {
            let why = refused(bad, None, true);
            assert!(!why.is_empty() && !why.contains("s3cret"), "{why}");
        }
    }
}
