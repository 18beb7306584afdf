//! The source of a chart for helm: a repository or a registry, and the login to it. helm reads a login in a file of its own form, which only we
//! can read: on its command line all users of this machine would see it.

use crate::chart_fault::AskedChart;
use crate::private_file::{HelmFileError, private};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_resource::{Chart, ChartLogin, ReleaseSpec};
use serde_json::json;
use std::fmt;
use std::path::Path;

/// The name under which helm knows the repository of a login.
const NAME: &str = "converge";

/// Hosts of Docker's registry: helm looks for their login under another name.
const DOCKER: [&str; 2] = ["docker.io", "registry-1.docker.io"];
/// That name.
const DOCKER_LOGIN: &str = "https://index.docker.io/v1/";

/// The source of a chart.
pub(crate) struct ChartSource {
    chart: Chart,
    version: Option<String>,
    login: Option<ChartLogin>,
    plain_http: bool,
}

impl ChartSource {
    /// The source of a release's chart; `None` for a chart that is at hand.
    pub(crate) fn of(spec: &ReleaseSpec) -> Option<Self> {
        let ReleaseSpec { chart, version, login, plain_http, .. } = spec.clone();
        matches!(chart, Chart::Repository { .. } | Chart::Oci(_)).then_some(Self {
            chart,
            version,
            login,
            plain_http,
        })
    }

    pub(crate) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// Lays the login into helm's folder of configuration; true when helm must read the index of the repository before it finds a chart there.
    pub(crate) fn lay(&self, config: &Path) -> Result<bool, HelmFileError> {
        let Some(login) = &self.login else { return Ok(false) };
        let ChartLogin { username, password } = login;
        let (path, text) = match &self.chart {
            Chart::Repository { url, .. } => {
                let one = json!({"name": NAME, "url": url, "username": username, "password": password});
                (config.join("repositories.yaml"), json!({"apiVersion": "", "repositories": [one]}))
            }
            Chart::Oci(_) => {
                let host = self.registry();
                let key = if DOCKER.contains(&host) { DOCKER_LOGIN } else { host };
                let auth = STANDARD.encode(format!("{username}:{password}"));
                (config.join("registry/config.json"), json!({"auths": {key: {"auth": auth}}}))
            }
            Chart::Archive(_) | Chart::SavedRelease(_) => return Ok(false),
        };
        let folder = path.parent().unwrap_or(config);
        std::fs::create_dir_all(folder).map_err(|error| HelmFileError { path: folder.to_owned(), error })?;
        private(&path, text.to_string().as_bytes())?;
        Ok(matches!(self.chart, Chart::Repository { .. }))
    }

    /// The arguments with which helm reads the index of the repository.
    pub(crate) fn update(&self) -> Vec<String> {
        ["repo", "update", NAME].map(str::to_owned).to_vec()
    }

    /// Whether the index of the repository has been read.
    pub(crate) fn has_index(&self, cache: &Path) -> bool {
        cache.join(format!("repository/{NAME}-index.yaml")).is_file()
    }

    /// The arguments that name the chart.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = match &self.chart {
            Chart::Repository { name, .. } if self.has_login() => vec![format!("{NAME}/{name}")],
            Chart::Repository { url, name } => vec![name.clone(), "--repo".to_owned(), url.clone()],
            Chart::Oci(url) => vec![url.clone()],
            Chart::Archive(_) | Chart::SavedRelease(_) => Vec::new(),
        };
        if self.plain_http {
            arguments.push("--plain-http".to_owned());
        }
        arguments
    }

    /// Host and port of the registry.
    fn registry(&self) -> &str {
        let Chart::Oci(url) = &self.chart else { return "" };
        url.strip_prefix("oci://").unwrap_or(url).split('/').next().unwrap_or_default()
    }

    /// The chart for which helm is asked.
    pub(crate) fn asked(&self) -> AskedChart<'_> {
        let (address, chart) = match &self.chart {
            Chart::Repository { url, name } => (url.as_str(), Some(name.as_str())),
            Chart::Oci(url) => (url.as_str(), None),
            Chart::Archive(_) | Chart::SavedRelease(_) => ("", None),
        };
        AskedChart { address, chart, version: self.version.as_deref() }
    }

    /// A text of helm without the password, whatever helm may come to print: as it is, and in the header that a server may repeat.
    pub(crate) fn hide(&self, reply: &str) -> String {
        let Some(login) = &self.login else { return reply.to_owned() };
        let header = STANDARD.encode(format!("{}:{}", login.username, login.password));
        reply.replace(&header, "…").replace(&login.password, "…")
    }

    /// The refusal in what helm said of its failure: the status of HTTP, as its two clients write it.
    pub(crate) fn refusal(&self, reply: &str) -> Option<LoginRefusal> {
        let has = |words: &[&str]| words.iter().any(|word| reply.contains(word));
        let forbidden = has(&[": 403 Forbidden", "response status code 403"]);
        let unknown = has(&[": 401 Unauthorized", "response status code 401", "basic credential not found"]);
        let address = match &self.chart {
            Chart::Repository { url, .. } | Chart::Oci(url) => url.clone(),
            Chart::Archive(_) | Chart::SavedRelease(_) => return None,
        };
        (forbidden || unknown).then_some(LoginRefusal { address, forbidden, had_login: self.has_login() })
    }
}

/// The refusal of a login by a repository or registry. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginRefusal {
    address: String,
    /// The login is known, and may not read the chart.
    forbidden: bool,
    had_login: bool,
}

impl LoginRefusal {
    /// The correction.
    pub(crate) fn help(&self) -> &'static str {
        match (self.had_login, self.forbidden) {
            (false, _) => {
                "give `login` with `username` and `password`, the password by a sensitive input or from a vault"
            }
            (true, false) => "correct `username` and `password` of `login`; a token may have expired",
            (true, true) => "let this user read the chart there, or give another `login`",
        }
    }
}

impl fmt::Display for LoginRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, .. } = self;
        match (self.had_login, self.forbidden) {
            (false, false) => write!(f, "{address} asks for a login (401 Unauthorized)"),
            (false, true) => write!(f, "{address} gives the chart to nobody without a login (403 Forbidden)"),
            (true, false) => write!(f, "{address} does not accept the login (401 Unauthorized)"),
            (true, true) => write!(f, "{address} does not let the login read the chart (403 Forbidden)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn source(chart: Chart, has_login: bool) -> ChartSource {
        let login = ChartLogin { username: "$oauthtoken".to_owned(), password: "hunter2".to_owned() };
        ChartSource { chart, version: None, login: has_login.then_some(login), plain_http: false }
    }

    fn repository(has_login: bool) -> ChartSource {
        let (url, name) = ("https://charts.example.org".to_owned(), "op".to_owned());
        source(Chart::Repository { url, name }, has_login)
    }

    #[test]
    fn a_login_stands_in_a_private_file_and_in_no_argument() {
        let folder = tempfile::tempdir().unwrap();
        let oci = |url: &str| source(Chart::Oci(url.to_owned()), true);
        let auth = STANDARD.encode("$oauthtoken:hunter2");
        for (source, file, holds, is_read) in [
            (repository(true), "repositories.yaml", "hunter2".to_owned(), true),
            (
                oci("oci://r.example.org:5000/a/b"),
                "registry/config.json",
                format!(r#""r.example.org:5000":{{"auth":"{auth}"#),
                false,
            ),
            (
                oci("oci://docker.io/a/b"),
                "registry/config.json",
                format!(r#""{DOCKER_LOGIN}":{{"auth":"{auth}"#),
                false,
            ),
        ] {
            assert_eq!(source.lay(folder.path()).unwrap(), is_read);
            let path = folder.path().join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(&holds), "{text}");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let arguments = [source.arguments(), source.update()].concat().join(" ");
            assert!(!arguments.contains("hunter2") && !arguments.contains(&auth), "{arguments}");
        }
        assert!(!repository(false).lay(folder.path()).unwrap());
        assert_eq!(repository(false).arguments(), ["op", "--repo", "https://charts.example.org"]);
        assert_eq!(repository(true).arguments(), ["converge/op"]);
    }

    #[test]
    fn refusals_are_distinguished_from_other_failures() {
        let unknown = "failed to fetch https://charts.example.org/index.yaml : 401 Unauthorized";
        let reply = |source: &ChartSource, reply: &str| source.refusal(reply).map(|found| found.to_string());
        let address = "https://charts.example.org";
        let (with, without) = (repository(true), repository(false));
        assert_eq!(
            reply(&with, unknown).unwrap(),
            format!("{address} does not accept the login (401 Unauthorized)")
        );
        assert_eq!(
            reply(&without, unknown).unwrap(),
            format!("{address} asks for a login (401 Unauthorized)")
        );
        let denied = "GET \"https://r/v2/x\": response status code 403: denied";
        assert!(reply(&with, denied).unwrap().contains("does not let the login read the chart"));
        assert!(with.refusal(denied).unwrap().help().contains("let this user read"));
        assert_eq!(reply(&with, "secrets is forbidden: User \"x\" cannot list"), None);
        assert_eq!(with.hide("no hunter2 here"), "no … here");
    }
}
