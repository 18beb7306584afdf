//! Questions to the API of a cluster and work on it, as data.

use crate::{ChartLogin, Digest, ObjectId, Segment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name under which the server knows the fields of a project without a name (`metadata.managedFields[].manager`), and of our own records.
pub const FIELD_MANAGER: &str = "converge";

/// The server takes no longer name of a manager, in bytes.
const LONGEST: usize = 128;

/// The name under which the server knows the fields of a project. Two projects may declare different fields of one object: what one of them no longer
/// declares must not take away what the other one does.
pub fn field_manager(project: Option<&str>) -> String {
    let Some(project) = project else { return FIELD_MANAGER.to_owned() };
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '-' };
    let name = FIELD_MANAGER.chars().chain(['-']).chain(project.chars().map(plain));
    name.take(LONGEST).collect()
}

/// The key under which an [`ApiProbe::Render`] holds a packaged chart.
pub const ARCHIVE: &str = "archive_content";

/// The key in an answer to [`ApiProbe::Render`] of a repository or registry from which the chart does not come: `{message, help, parameter}`, the last one
/// `login`, `version`, `chart`, or null for its address.
pub const REFUSED: &str = "login_refused";

/// The key in an answer to [`ApiProbe::Render`] that holds the fields which the chart generates again each time ([`PreservedField`]).
pub const RANDOM: &str = "random";

/// Which object of a cluster. As a key: `v1/ConfigMap/NAMESPACE/NAME`, `apps/v1/DaemonSet/NAMESPACE/NAME`, and without a
/// namespace `v1/Node/NAME`, `nvidia.com/v1/ClusterPolicy/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ApiRef {
    /// `v1`, `apps/v1`, `nvidia.com/v1`.
    pub api_version: String,
    /// `ConfigMap`.
    pub kind: String,
    /// `None` for an object of the whole cluster.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ApiRef {
    /// Reads a key; `None` for a text that is no key.
    pub fn from_key(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split('/').collect();
        let at = parts.iter().position(|p| p.starts_with(|c: char| c.is_ascii_uppercase()))?;
        let (version, rest) = parts.split_at(at);
        let (namespace, name) = match rest {
            [_, name] => (None, *name),
            [_, namespace, name] => (Some((*namespace).to_owned()), *name),
            _ => return None,
        };
        let good =
            matches!(version.len(), 1 | 2) && !name.is_empty() && version.iter().all(|v| !v.is_empty());
        good.then(|| Self {
            api_version: version.join("/"),
            kind: rest.first().copied().unwrap_or_default().to_owned(),
            namespace,
            name: name.to_owned(),
        })
    }

    /// Of a manifest: `apiVersion`, `kind`, `metadata.namespace`, `metadata.name`.
    pub fn of(manifest: &Value) -> Option<Self> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    /// The key of its [`ObjectId`].
    pub fn key(&self) -> String {
        let Self { api_version, kind, namespace, name } = self;
        match namespace {
            Some(namespace) => format!("{api_version}/{kind}/{namespace}/{name}"),
            None => format!("{api_version}/{kind}/{name}"),
        }
    }

    /// Its identity among the objects.
    pub fn object(&self) -> ObjectId {
        ObjectId::new("k8s", self.key())
    }

    /// As people name it: `daemonset gpu-operator/nvidia-device-plugin-daemonset`.
    pub fn shown(&self) -> String {
        let kind = self.kind.to_lowercase();
        match &self.namespace {
            Some(namespace) => format!("{kind} {namespace}/{}", self.name),
            None => format!("{kind} {}", self.name),
        }
    }
}

/// A question to the API of a cluster. It changes nothing there, but for a [`ApiProbe::Job`], which takes away what it made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ApiProbe {
    /// A dry run of this manifest (JSON text), applied by our field manager. Answer: an object with one of `object` (the
    /// whole result as the server gives it; beside it `gives_up`, the fields that stay and are no longer our manager's: a list of `{field, managers}`), `conflicts` (a list of `{manager, field}`, with our own name beside it as `manager`), `no_kind`,
    /// `no_namespace` or `invalid` (the message of the server).
    Apply {
        /// JSON text.
        manifest: String,
        /// Take fields from other managers.
        force: bool,
    },
    /// One object as the server gives it, status and all. Answer: the object, or null.
    Get(ApiRef),
    /// The same, for what takes it or fields of it away. Answer: `{object, manager, whose, whose_of_release}`: our own field manager, and for people whose
    /// else it is; `whose_of_release` if runs of the project left it as an object of its release; or null.
    Others(ApiRef),
    /// A dry run of a write of some fields, as a patch or a rollback makes it. Answer: `{invalid}` with the server's message where it would refuse the object,
    /// `{no_namespace}` or `{no_kind}` where these are not there, `{object}` as the server would make it, beside it `found`, the object as it was if it was
    /// there; or null where nothing can be asked.
    Back {
        /// The object.
        object: ApiRef,
        /// The text of the state in which it is; `None` where it is not there.
        from: Option<String>,
        /// That of the one to which it goes.
        to: String,
    },
    /// A dry run of the deletion of an object. Answer: `{invalid}` with the server's message where it would refuse it, `{held}` with the reason why it does
    /// not go though it is deleted; else null.
    Gone(ApiRef),
    /// Whether objects of a kind live in a namespace. Answer: true or false; null when the server has no such kind.
    Namespaced {
        /// `v1`, `apps/v1`.
        api_version: String,
        /// `Node`.
        kind: String,
    },
    /// All objects of a kind. Answer: a list of objects as the server gives them; null when the server has no such kind.
    List {
        /// `v1`, `apps/v1`.
        api_version: String,
        /// `Node`.
        kind: String,
        /// In this namespace; in all when `None`.
        namespace: Option<String>,
        /// A label selector as kubectl takes it.
        labels: Option<String>,
    },
    /// A GET over HTTP that the server passes on to a Service. Answer: `{status}`; 503 if the Service has no endpoint, 504
    /// if there is no answer in time.
    Service {
        /// Namespace.
        namespace: String,
        /// Service.
        name: String,
        /// Its port.
        port: u16,
        /// It speaks TLS. Its certificate is not checked.
        tls: bool,
        /// `/healthz`.
        path: String,
    },
    /// The revisions of a helm release, newest first, as helm keeps them in Secrets. Answer: a list of `{revision, status,
    /// chart: {name, version}, values, manifest, updated, definitions: (names of the kinds' definitions in its chart)}`.
    Release {
        /// Namespace.
        namespace: String,
        /// Release.
        name: String,
    },
    /// Renders a chart with real helm against the server: JSON text of a [`ReleaseSpec`], with the content of a packaged chart beside it
    /// as [`ARCHIVE`] (base64).
    /// Answer: `{manifests: [object…], chart, version, values: (the chart's own values), notes, definitions: (names of those of kinds)}` or `{invalid: what helm said}` or
    /// `{login_refused: {message, help, parameter}}` ([`REFUSED`]) or `{waits: why}` when what the chart needs (an API, a namespace) is not there yet.
    Render(String),
    /// Runs a Job (JSON text of its manifest) to its end, reads its log, and takes it away in every case. Answer: `{succeeded:
    /// bool, log, reason, seconds}`.
    Job {
        /// JSON text.
        manifest: String,
        /// Its deadline.
        seconds: u64,
    },
}

/// The owners of an object's fields before a change of it and after it: entries as the server has them (`metadata.managedFields`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldOwners {
    /// The project's own entries that the change found.
    pub found: Vec<Value>,
    /// Those that it left.
    pub left: Vec<Value>,
    /// The entries of others that it found, with the fields that it changed and those that are the project's too.
    pub others_found: Vec<Value>,
    /// Those that it left.
    pub others_left: Vec<Value>,
}

impl FieldOwners {
    /// Whether the project owns other fields after it than before.
    pub fn moved(&self) -> bool {
        let is = |a: &Value, b: &Value| ["operation", "fieldsV1"].iter().all(|key| a.get(key) == b.get(key));
        let within = |a: &[Value], b: &[Value]| a.iter().all(|a| b.iter().any(|b| is(a, b)));
        !within(&self.found, &self.left) || !within(&self.left, &self.found)
    }
}

/// A helm release as it is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseSpec {
    /// Its fixed name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The source of the chart.
    pub chart: Chart,
    /// The login to the chart's repository or registry. It is never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<ChartLogin>,
    /// The registry of the chart is asked without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// The exact version; `None` for an archive, which has its own.
    pub version: Option<String>,
    /// The values, typed.
    pub values: Value,
    /// Make the namespace.
    pub create_namespace: bool,
    /// Wait until what it installs is ready, at most this many seconds.
    pub wait_seconds: Option<u64>,
    /// Seconds that helm may take, for hooks too, where it does not wait for anything else. `None` in plans of an older converge: helm's own five
    /// minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Fields of its objects that belong to other managers: an upgrade leaves them as they are. helm's record has what the chart declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<PreservedField>,
    /// Fields for which the chart draws another value each time: an upgrade leaves them as they are, and helm's record has these values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<PreservedField>,
    /// Fields of its objects that are away by a run in force: helm lays them, and they are taken away again behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<PreservedField>,
}

impl ReleaseSpec {
    /// A release as it was, whose text has this digest. It needs no repository, so no login.
    pub fn saved(namespace: &str, name: &str, digest: &Digest) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            chart: Chart::SavedRelease(digest.as_str().to_owned()),
            login: None,
            plain_http: false,
            version: None,
            values: Value::Null,
            create_namespace: false,
            wait_seconds: None,
            seconds: None,
            keep: Vec::new(),
            drawn: Vec::new(),
            unset: Vec::new(),
        }
    }
}

/// A field that a release leaves to another manager, or away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreservedField {
    /// The object.
    pub object: ApiRef,
    /// The path to the field.
    pub path: Vec<Segment>,
}

/// The source of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    /// A chart of a repository.
    Repository {
        /// `https://helm.ngc.nvidia.com/nvidia`
        url: String,
        /// `gpu-operator`
        name: String,
    },
    /// `oci://…/chart`
    Oci(String),
    /// A packaged chart: the digest of its content (hex).
    Archive(String),
    /// The release as it was, whatever became of its chart: the digest of its text (hex).
    #[serde(rename = "former")]
    SavedRelease(String),
}

/// A piece of work that its changes alone do not describe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ApiCall {
    /// Server-side apply of this manifest, by our field manager.
    Apply {
        /// The whole manifest.
        manifest: Value,
        /// Take fields from other managers.
        force: bool,
    },
    /// Installs or upgrades a release. Before it, a release that is stuck in `pending-*` is recovered.
    Release(Box<ReleaseSpec>),
    /// A change of this object is written under this field manager and not under the one of converge: a field of helm's own
    /// stays helm's.
    As {
        /// The object.
        object: ApiRef,
        /// The field manager.
        manager: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_its_manager() {
        assert_eq!(field_manager(None), "converge");
        assert_eq!(field_manager(Some("shop")), "converge-shop");
        assert_eq!(field_manager(Some("Zürich ops")), "converge-Z-rich-ops");
        assert_eq!(field_manager(Some(&"x".repeat(300))).len(), 128);
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        for key in [
            "v1/ConfigMap/gpu-operator/time-slicing",
            "apps/v1/DaemonSet/ns/x",
            "v1/Node/h1",
            "nvidia.com/v1/ClusterPolicy/a.b",
        ] {
            assert_eq!(ApiRef::from_key(key).map(|r| r.key()).as_deref(), Some(key));
        }
        for bad in ["", "v1", "v1/Node", "Node/x", "a/b/c/Node/x", "v1/Node/a/b/c", "v1/Node/"] {
            assert_eq!(ApiRef::from_key(bad), None, "{bad}");
        }
    }
}
