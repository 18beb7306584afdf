//! The reasons why a chart does not come from its repository or registry, in what helm says of it: it gives no codes. Pure, but for the index that helm has read.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// The number of versions or names that a message lists.
const LISTED: usize = 8;

/// Lines in which helm reports its progress, also where it fails.
const PROGRESS: [&str; 4] = [
    "Hang tight while we grab",
    "...Unable to get an update from",
    "...Successfully got an update from",
    "Update Complete.",
];

/// Words of HTTP and of the network for a server from which nothing comes.
const UNREACHABLE: [&str; 9] = [
    "connection refused",
    "no such host",
    "i/o timeout",
    "no route to host",
    "network is unreachable",
    "connection reset",
    "Client.Timeout",
    "context deadline exceeded",
    "unexpected EOF",
];

/// Words of HTTPS that meets a server without TLS.
const PLAIN: [&str; 2] =
    ["server gave HTTP response to HTTPS client", "first record does not look like a TLS handshake"];

/// Words of helm for an answer that is no index of charts, behind the name of the repository or alone in a line. A template has others before them.
const NO_INDEX: [&str; 3] =
    ["error converting YAML to JSON", "error unmarshaling JSON", "json: cannot unmarshal"];

/// The text without lines in which helm reports its progress.
pub(crate) fn without_progress(reply: &str) -> String {
    let lines = reply.lines().filter(|line| !PROGRESS.iter().any(|word| line.trim_start().starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The reason why a chart does not come from its source. Its words hold no secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceFault {
    #[error("{address} cannot be reached: {cause}")]
    Unreachable { address: String, cause: String },
    #[error("the certificate of {address} is not trusted here: {cause}")]
    Untrusted { address: String, cause: String },
    #[error("{address} answers without TLS")]
    Plain { address: String },
    #[error("{address} is no repository of charts: {}", no_index(*answers))]
    NoIndex { address: String, answers: bool },
    #[error("the index of {address} has {package}, and the server does not: 404 Not Found")]
    NoPackage { address: String, package: String },
    #[error("{address} answers {status}")]
    Status { address: String, status: String },
    #[error("{address} has no chart `{chart}`{}", listed(names, ": its charts are"))]
    NoChart { address: String, chart: String, names: Vec<String> },
    #[error("{address} has no chart `{chart}` in the version {version}")]
    Neither { address: String, chart: String, version: String },
    #[error("{address} has no version {version} of the chart{}", listed(versions, ": the newest are"))]
    NoVersion { address: String, version: String, versions: Vec<String> },
}

impl SourceFault {
    /// The correction.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "correct the address, or open the way to it from this machine (HTTPS_PROXY is passed on to helm)"
            }
            Self::Untrusted { .. } => {
                "make its authority known on this machine: SSL_CERT_FILE names a file with certificates, and is passed on to helm"
            }
            Self::Plain { .. } => {
                "write `http://` for a repository, or `plain_http: true` for a registry, if it is to be reached so"
            }
            Self::NoPackage { .. } => "tell its maintainers, or choose another `version`",
            Self::Neither { .. } => "correct `chart` or `version`: `helm search repo --versions` lists both",
            Self::NoIndex { .. } => "correct the address: its folder must have the file `index.yaml`",
            Self::Status { .. } => "look at the server, and plan again",
            Self::NoChart { .. } => "correct the name in `chart`",
            Self::NoVersion { versions, .. } if versions.is_empty() => {
                "a registry lists no versions for helm: look the tag up there, and correct `version`"
            }
            Self::NoVersion { .. } => "correct `version`",
        }
    }

    /// The parameter at fault: the version, or the source itself.
    pub(crate) fn parameter(&self) -> Option<&'static str> {
        match self {
            Self::NoVersion { .. } | Self::NoPackage { .. } => Some("version"),
            Self::NoChart { .. } | Self::Neither { .. } => Some("chart"),
            _ => None,
        }
    }

    /// The meaning of what helm said of its failure with a chart of this source; `index` gives the versions of the repository's charts.
    pub(crate) fn of(
        reply: &str,
        asked: &AskedChart<'_>,
        index: impl FnOnce() -> ChartIndex,
    ) -> Option<Self> {
        let address = asked.address.to_owned();
        let line = |words: &[&str]| reply.lines().find(|line| words.iter().any(|word| line.contains(word)));
        // helm's own wait for the cluster, and a webhook of it, have other words before the cause.
        let asks = |line: &&str| {
            ["Get \"", "Head \"", "failed to fetch", "dial tcp"].iter().any(|word| line.contains(word))
        };
        let of_proxy = |line: &&str| line.contains("proxyconnect ");
        if line(&PLAIN).filter(asks).is_some_and(|line| !of_proxy(&line)) {
            return Some(Self::Plain { address });
        }
        // The cause stands last, behind the request and the address.
        let cause = |line: &str| last_words(line).to_owned();
        if let Some(line) = line(&["x509:", "tls: "]) {
            let at = ["x509: ", "tls: "].iter().filter_map(|word| line.find(word)).min().unwrap_or_default();
            return Some(Self::Untrusted {
                address,
                cause: line.get(at..).unwrap_or(line).trim().to_owned(),
            });
        }
        if let Some(line) = line(&UNREACHABLE).filter(asks) {
            return Some(Self::Unreachable { address, cause: cause(line) });
        }
        if let Some(line) = line(&["404 Not Found"]) {
            let package = line.split_whitespace().map(|word| word.trim_matches(['"', ':']));
            let mut packages = package.filter(|word| word.ends_with(".tgz"));
            match packages.next() {
                Some(package) => return Some(Self::NoPackage { address, package: package.to_owned() }),
                None if line.contains("index.yaml") => {
                    return Some(Self::NoIndex { address, answers: false });
                }
                None => {}
            }
        }
        let is_no_index = |line: &str| {
            let rest = line.rsplit_once("or cannot be reached: ").map_or(line, |(_, rest)| rest);
            NO_INDEX.iter().any(|word| rest.trim_start().starts_with(word))
        };
        if reply.lines().any(is_no_index) {
            return Some(Self::NoIndex { address, answers: true });
        }
        if let Some(status) = line(&[" : 5", "status code 5"]).and_then(status) {
            return Some(Self::Status { address, status });
        }
        let missing = ["no chart version found", "no chart name found", "chart not found in repo"];
        let is_missing = missing.iter().any(|word| reply.contains(word))
            || (reply.contains("chart \"") && reply.contains("not found in"));
        let no_tag = asked.chart.is_none()
            && ["not found", "Unable to locate any tags"].iter().any(|word| reply.contains(word))
            && reply.contains(asked.address.trim_start_matches("oci://"));
        if !is_missing && !no_tag {
            return None;
        }
        let version = asked.version.unwrap_or("(none given)").to_owned();
        let Some(chart) = asked.chart else {
            return Some(Self::NoVersion { address, version, versions: Vec::new() });
        };
        let index = index();
        // helm keeps no index of a repository that it does not know by name.
        if index.entries.is_empty() {
            return Some(Self::Neither { address, chart: chart.to_owned(), version });
        }
        Some(match index.versions(chart) {
            Some(versions) => Self::NoVersion { address, version, versions },
            None => Self::NoChart { address, chart: chart.to_owned(), names: index.names() },
        })
    }
}

/// The chart that helm was asked for.
pub(crate) struct AskedChart<'a> {
    /// The address of the repository, or of the chart in a registry.
    pub(crate) address: &'a str,
    /// The name of the chart in a repository.
    pub(crate) chart: Option<&'a str>,
    /// Its version.
    pub(crate) version: Option<&'a str>,
}

/// `500 Internal Server Error` at the end of a line, or behind `status code`.
fn status(line: &str) -> Option<String> {
    let rest = line.rsplit_once("status code ").or_else(|| line.rsplit_once(" : ")).map(|(_, rest)| rest)?;
    rest.starts_with('5').then(|| rest.trim().to_owned())
}

/// The last part of `Get "http://…": dial tcp 127.0.0.1:1: connect: connection refused`.
fn last_words(line: &str) -> &str {
    let at = UNREACHABLE.iter().filter_map(|word| line.find(word)).min().unwrap_or_default();
    line.get(at..).unwrap_or(line).trim().trim_end_matches(')')
}

fn no_index(answers: bool) -> &'static str {
    if answers { "its answer is no index" } else { "it answers 404 Not Found for its index" }
}

fn listed(names: &[String], words: &str) -> String {
    let some = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        _ if names.is_empty() => String::new(),
        0 => format!("{words} {some}"),
        more => format!("{words} {some} and {more} more"),
    }
}

/// The charts of a repository, each with its versions, as its index lists them: the newest first.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ChartIndex {
    #[serde(default)]
    entries: BTreeMap<String, Vec<IndexedChart>>,
}

#[derive(Debug, Deserialize)]
struct IndexedChart {
    #[serde(default)]
    version: String,
}

impl ChartIndex {
    /// The index that helm has read last into this cache; empty where there is none, or none that is understood.
    pub(crate) fn last_read(cache: &Path) -> Self {
        let files = std::fs::read_dir(cache.join("repository")).into_iter().flatten().flatten();
        let is_index =
            |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with("-index.yaml");
        let age = |entry: &std::fs::DirEntry| {
            entry.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let newest = files.filter(is_index).max_by_key(age);
        let text = newest.and_then(|entry| std::fs::read_to_string(entry.path()).ok());
        text.and_then(|text| serde_yaml::from_str(&text).ok()).unwrap_or_default()
    }

    fn versions(&self, chart: &str) -> Option<Vec<String>> {
        self.entries.get(chart).map(|all| all.iter().map(|one| one.version.clone()).collect())
    }

    fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "https://charts.example.org";

    fn fault(reply: &str, chart: Option<&str>) -> Option<SourceFault> {
        let address = if chart.is_some() { ADDRESS } else { "oci://r.example.org/charts/app" };
        let asked = AskedChart { address, chart, version: Some("9.9.9") };
        let index = "entries: {app: [{version: 1.1.0}, {version: 1.0.0}], other: [{version: 1.0.0}]}";
        SourceFault::of(&without_progress(reply), &asked, || serde_yaml::from_str(index).unwrap())
    }

    #[test]
    fn each_cause_is_one_line_without_helms_progress() {
        let update = |cause: &str| {
            format!(
                "Hang tight while we grab the latest from your chart repositories...\n...Unable to get an update from the \"converge\" chart repository ({ADDRESS}):\n\t{cause}\nUpdate Complete. ⎈Happy Helming!⎈\n"
            )
        };
        let get = format!("Get \"{ADDRESS}/index.yaml\":");
        for (cause, words) in [
            (
                format!("{get} dial tcp 192.0.2.1:443: connect: connection refused"),
                "cannot be reached: connection refused",
            ),
            (
                format!("{get} dial tcp: lookup charts.example.org: no such host"),
                "cannot be reached: no such host",
            ),
            (
                format!(
                    "{get} tls: failed to verify certificate: x509: certificate signed by unknown authority"
                ),
                "is not trusted here: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (format!("failed to fetch {ADDRESS}/index.yaml : 404 Not Found"), "404 Not Found for its index"),
            (
                format!("failed to fetch {ADDRESS}/app-9.9.9.tgz : 404 Not Found"),
                "has https://charts.example.org/app-9.9.9.tgz, and the server does not",
            ),
            (format!("{get} http: server gave HTTP response to HTTPS client"), "answers without TLS"),
            (format!("{get} tls: first record does not look like a TLS handshake"), "answers without TLS"),
            (
                format!(
                    "looks like \"{ADDRESS}\" is not a valid chart repository or cannot be reached: error converting YAML to JSON: yaml: line 2"
                ),
                "is no repository of charts: its answer is no index",
            ),
            (
                format!("failed to fetch {ADDRESS}/index.yaml : 500 Internal Server Error"),
                "answers 500 Internal Server Error",
            ),
        ] {
            let found = fault(&update(&cause), Some("app")).unwrap().to_string();
            assert!(found.contains(words) && found.contains(ADDRESS) && !found.contains('\n'), "{found}");
        }
        assert_eq!(fault("Error: UPGRADE FAILED: context deadline exceeded", Some("app")), None);
        for other in [
            "Error: template: app/templates/x.yaml: nil pointer",
            "Error: YAML parse error on app/templates/x.yaml: error converting YAML to JSON: yaml: line 3",
            "Error: looks like \"https://charts.example.org\" is not a valid chart repository or cannot be reached: failed to fetch https://charts.example.org/index.yaml : 401 Unauthorized",
        ] {
            assert_eq!(fault(other, Some("app")), None);
        }
    }

    #[test]
    fn a_missing_version_names_those_that_are_there() {
        let known = "Error: chart \"app\" matching 9.9.9 not found in converge index. (try 'helm repo update'): no chart version found for app-9.9.9";
        let other =
            "Error: chart \"app\" version \"9.9.9\" not found in https://charts.example.org repository";
        for reply in [known, other] {
            let found = fault(reply, Some("app")).unwrap();
            assert_eq!(
                found.to_string(),
                "https://charts.example.org has no version 9.9.9 of the chart: the newest are 1.1.0, 1.0.0"
            );
            assert_eq!(found.help(), "correct `version`");
        }
        let found = fault(&known.replace("app", "none"), Some("none")).unwrap();
        assert_eq!(
            found.to_string(),
            "https://charts.example.org has no chart `none`: its charts are app, other"
        );
        let asked = AskedChart { address: ADDRESS, chart: Some("app"), version: Some("9.9.9") };
        let found = SourceFault::of(other, &asked, ChartIndex::default).unwrap();
        assert_eq!(found.to_string(), "https://charts.example.org has no chart `app` in the version 9.9.9");
        let tag = "Error: failed to perform \"FetchReference\" on source: r.example.org/charts/app:9.9.9: not found";
        let found = fault(tag, None).unwrap();
        assert!(
            found.to_string().contains("has no version 9.9.9") && found.help().contains("look the tag up")
        );
    }
}
