//! A helm release. Its key is `NAMESPACE/NAME`.

mod reader;

use crate::k8s::normalised;
use converge_resource::{
    ApiRef, BroughtObjects, ClusterPart, Content, Contents, Digest, Disruption, DynClusterPart, DynEffects,
    DynSharedObject, Effects, ErasedObject, Facets, Object, ObjectId, Past, Place, Reversibility,
    SharedObject, Traits, state_of_words,
};
pub use reader::{documents, manifests};
use serde_json::{Value, json};

/// The status of helm's newest revision, and the revision that is in force ([`in_force`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// No such release.
    Absent,
    /// An installation of which nothing is in force: it is stuck, or failed before all of it was applied.
    Begun {
        /// helm's word: `failed`, `pending-install` …
        status: String,
        /// `NAME-VERSION` of the chart that was to come.
        chart: String,
    },
    /// It is installed.
    Installed {
        /// helm's word for its newest revision: `deployed`, `failed`, `pending-upgrade` …
        status: String,
        /// `NAME-VERSION` of the chart in force.
        chart: String,
        /// The digest of the text in force: its values and its manifests.
        digest: Digest,
    },
}

/// helm's word for a revision that came to its end.
const DEPLOYED: &str = "deployed";
/// helm's word for a release that it takes away.
const UNINSTALLING: &str = "uninstalling";

impl ReleaseState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Begun { status, chart } => vec!["begun".to_owned(), status.clone(), chart.clone()],
            Self::Installed { status, chart, digest } => {
                vec!["release".to_owned(), status.clone(), chart.clone(), digest.to_string()]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["begun", status, chart] => {
                Some(Self::Begun { status: (*status).to_owned(), chart: (*chart).to_owned() })
            }
            ["release", status, chart, digest] => Some(Self::Installed {
                status: (*status).to_owned(),
                chart: (*chart).to_owned(),
                digest: Digest::from_hex(digest)?,
            }),
            _ => None,
        }
    }
}

state_of_words!(ReleaseState);

impl ReleaseState {
    /// Of a revision, as [`converge_resource::ApiProbe::Release`] answers it, with the content that the state names.
    ///
    /// # Errors
    /// Its manifest is no YAML.
    pub fn of(revision: &Value) -> Result<(Self, Content), serde_yaml::Error> {
        let (name, version) = (word(revision, "/chart/name"), word(revision, "/chart/version"));
        let values = revision.get("values").unwrap_or(&Value::Null);
        let content = content(name, version, values, &manifests(word(revision, "/manifest"))?);
        let state = Self::Installed {
            status: word(revision, "/status").to_owned(),
            chart: chart(revision),
            digest: content.digest().clone(),
        };
        Ok((state, content))
    }

    /// Of a release with these revisions, newest first, with the content in force. What was uninstalled with its history kept is not there.
    ///
    /// # Errors
    /// A manifest is no YAML.
    pub fn now(revisions: &[Value]) -> Result<(Self, Option<Content>), serde_yaml::Error> {
        let Some(newest) = revisions.first().filter(|r| word(r, "/status") != "uninstalled") else {
            return Ok((Self::Absent, None));
        };
        let status = word(newest, "/status").to_owned();
        let Some(revision) = in_force(revisions) else {
            return Ok((Self::Begun { status, chart: chart(newest) }, None));
        };
        let (state, content) = Self::of(revision)?;
        Ok((state.with_status(&status), Some(content)))
    }

    /// The state that a rollback to this one ends in: helm leaves a release deployed, or none.
    #[must_use]
    pub fn settled(&self) -> Self {
        match self {
            // Records of older versions name the content of an install that hung.
            Self::Installed { status, .. } if status == "pending-install" => Self::Absent,
            Self::Begun { .. } => Self::Absent,
            _ => self.clone().with_status(DEPLOYED),
        }
    }

    /// Whether objects of it may be missing that nobody but helm took away: nothing of it is in force, or helm is taking it away.
    pub fn may_lack_objects(&self) -> bool {
        !matches!(self, Self::Installed { status, .. } if status != UNINSTALLING)
    }

    fn with_status(self, status: &str) -> Self {
        match self {
            Self::Installed { chart, digest, .. } => {
                Self::Installed { status: status.to_owned(), chart, digest }
            }
            other => other,
        }
    }
}

fn word<'a>(revision: &'a Value, pointer: &str) -> &'a str {
    revision.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `NAME-VERSION` of a revision's chart.
fn chart(revision: &Value) -> String {
    format!("{}-{}", word(revision, "/chart/name"), word(revision, "/chart/version"))
}

/// Whether a revision waits for an end that does not come.
fn is_pending(revision: &Value) -> bool {
    word(revision, "/status").starts_with("pending")
}

/// Whether all of a revision that failed was applied, as the executor of clusters has found.
fn is_applied(revision: &Value) -> bool {
    revision.get("applied") == Some(&Value::Bool(true))
}

/// Whether a revision has this content.
pub fn has_content(revision: &Value, digest: &Digest) -> bool {
    let state = ReleaseState::of(revision).map(|(state, _)| state);
    matches!(state, Ok(ReleaseState::Installed { digest: found, .. }) if found == *digest)
}

/// The revision to which a rollback to this content goes: the newest that may have been in force, and that helm counts as good, if there is one. One
/// that is stuck was never in force, nor was one that failed and was not applied.
pub fn revision_of<'a>(revisions: &'a [Value], digest: &Digest) -> Option<&'a Value> {
    let may = |r: &&Value| !is_pending(r) && r.get("applied") != Some(&Value::Bool(false));
    let all = || revisions.iter().filter(may).filter(|r| has_content(r, digest));
    all().find(|r| !has_failed(r)).or_else(|| all().next())
}

/// Whether helm counts a revision as failed.
pub fn has_failed(revision: &Value) -> bool {
    word(revision, "/status") == "failed"
}

/// The revision whose manifests are live, of these, newest first: the one that helm deployed last, or a later one that failed after all of it was
/// applied. None where an install did not get so far.
pub fn in_force(revisions: &[Value]) -> Option<&Value> {
    let is = |r: &&Value, status: &str| word(r, "/status") == status;
    let newest = revisions.first()?;
    if !is_pending(newest) && !has_failed(newest) {
        return Some(newest);
    }
    // A rollback of helm's that fails marks the revision before it as superseded, whether that was ever deployed or not.
    let here = || revisions.iter().take_while(|r| !is(r, "uninstalled"));
    let any_deployed = here().any(|r| is(&r, DEPLOYED));
    let counts = |r: &&Value| {
        is(r, DEPLOYED) || (is(r, "superseded") && !any_deployed) || (has_failed(r) && is_applied(r))
    };
    here().find(counts)
}

/// The recovery of a release that is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Roll back to this revision.
    Rollback(u64),
    /// Uninstall: no revision is in force.
    Uninstall,
}

/// The recovery of a release that is stuck in `pending-*` or `uninstalling`: a rollback to the revision in force, or an uninstallation if there is
/// none. `revisions` are newest first.
pub fn recovery(revisions: &[Value]) -> Option<Recovery> {
    let newest = revisions.first()?;
    if word(newest, "/status") == UNINSTALLING {
        return Some(Recovery::Uninstall);
    }
    if !is_pending(newest) {
        return None;
    }
    let number = in_force(revisions).and_then(|r| r.get("revision")).and_then(Value::as_u64);
    Some(number.map_or(Recovery::Uninstall, Recovery::Rollback))
}

/// Values as helm stores them: every number is a floating-point one, and one without a fraction is written as an integer.
pub fn stored(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(k, v)| (k.clone(), stored(v))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(stored).collect()),
        Value::Number(number) => {
            let Some(float) = number.as_f64() else { return value.clone() };
            let whole = format!("{float:.0}");
            match (whole.parse::<i64>(), whole.parse::<u64>()) {
                _ if float.fract() != 0.0 => Value::from(float),
                (Ok(0), _) => Value::from(0),
                (Ok(whole), _) => Value::from(whole),
                (_, Ok(whole)) => Value::from(whole),
                _ => Value::from(float),
            }
        }
        other => other.clone(),
    }
}

/// The text of a release, whose digest its state holds: chart, version, the values given, and the manifests in the order of their names.
/// The values of Secrets stand there as digests.
pub fn content(chart: &str, version: &str, values: &Value, manifests: &[Value]) -> Content {
    let mut manifests: Vec<Value> = manifests.iter().map(normalised).collect();
    let name = |m: &Value| {
        let word = |pointer: &str| m.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        [word("/kind"), word("/metadata/namespace"), word("/metadata/name"), word("/apiVersion")]
    };
    manifests.sort_by_cached_key(name);
    let values = match values {
        Value::Null => json!({}),
        values => stored(values),
    };
    let text = json!({"chart": chart, "version": version, "values": values, "manifests": manifests});
    Content::new(crate::k8s::text(&text).into_bytes())
}

/// The manifests in the text of a release.
pub fn manifests_of(text: &Content) -> Option<Vec<Value>> {
    crate::k8s::from_text(text)?.get("manifests")?.as_array().cloned()
}

/// Whether a manifest of a release is this object; one without a namespace belongs to that of the release.
pub fn is(manifest: &Value, object: &ApiRef, namespace: &str) -> bool {
    ApiRef::of(manifest).is_some_and(|mut found| {
        if found.namespace.is_none() && object.namespace.as_deref() == Some(namespace) {
            found.namespace = Some(namespace.to_owned());
        }
        found == *object
    })
}

/// The release to which an object belongs, by the marks of helm.
pub fn marked(object: &Value) -> Option<ObjectId> {
    let mark = |name: &str| object.pointer("/metadata/annotations")?.get(name)?.as_str();
    let (namespace, name) = (mark("meta.helm.sh/release-namespace")?, mark("meta.helm.sh/release-name")?);
    Some(ObjectId::new(Release::KIND, format!("{namespace}/{name}")))
}

/// The object.
pub struct Release;

impl Object for Release {
    const KIND: &'static str = "release";
    const SHELL: &'static str = "";
    const PLACE: Place = Place::Cluster;
    const TRAITS: Traits = Traits { offers: &["k8s", "workload"], ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const SHARED: &'static dyn DynSharedObject = &ErasedObject::<Self>::new();
    const CLUSTER: &'static dyn DynClusterPart = &ErasedObject::<Self>::new();
    type State = ReleaseState;

    fn title(key: &str, from: &ReleaseState, to: &ReleaseState) -> String {
        match (from, to) {
            (_, ReleaseState::Absent) => format!("helm uninstall {key}"),
            (ReleaseState::Installed { .. }, ReleaseState::Installed { chart, .. }) => {
                format!("helm upgrade {key} ({chart})")
            }
            (_, ReleaseState::Installed { chart, .. } | ReleaseState::Begun { chart, .. }) => {
                format!("helm install {key} ({chart})")
            }
        }
    }

    /// helm keeps the previous revision. Custom resource definitions stay, and are neither removed nor downgraded.
    fn reversibility(_: &str, _: &ReleaseState, _: &ReleaseState) -> Reversibility {
        Reversibility::Reversible
    }

    fn opaque(_: &ReleaseState, _: &ReleaseState) -> bool {
        true
    }

    fn facets(state: &ReleaseState) -> Facets {
        match state {
            ReleaseState::Absent => Vec::new(),
            ReleaseState::Begun { status, chart } | ReleaseState::Installed { status, chart, .. } => {
                vec![("chart", chart.clone()), ("status", status.clone())]
            }
        }
    }

    fn content(state: &ReleaseState) -> Option<Digest> {
        match state {
            ReleaseState::Absent | ReleaseState::Begun { .. } => None,
            ReleaseState::Installed { digest, .. } => Some(digest.clone()),
        }
    }

    /// helm writes what it is about before it begins: what it left hanging, or has failed since, has the content of one end in force. An install may lead to
    /// either end, since a rollback goes the way of a step backwards. One that hung is uninstalled before a new one begins.
    fn amid(before: &ReleaseState, after: &ReleaseState, now: &ReleaseState) -> bool {
        let ends = [before, after];
        let begun = |of: Option<&str>| {
            ends.iter().any(|end| match end {
                ReleaseState::Begun { chart, .. } => of.is_none_or(|of| of == chart),
                _ => false,
            })
        };
        match now {
            ReleaseState::Absent => begun(None),
            ReleaseState::Begun { .. } => ends.iter().any(|end| end.settled() == ReleaseState::Absent),
            ReleaseState::Installed { status, chart, digest } => {
                let is_of_end = || ends.iter().filter_map(|end| Self::content(end)).any(|end| end == *digest);
                status != DEPLOYED && (is_of_end() || (status == UNINSTALLING && begun(Some(chart))))
            }
        }
    }

    fn disruption(_: &ReleaseState, _: Option<&ReleaseState>) -> Disruption {
        Disruption::Restarts
    }
}

impl ClusterPart for Release {
    const NEEDS_PODS: bool = true;

    fn release(key: &str) -> Option<(&str, &str)> {
        key.split_once('/')
    }
}

impl Effects for Release {
    fn may_bring(_: &ReleaseState, to: &ReleaseState) -> Option<BroughtObjects> {
        (*to != ReleaseState::Absent)
            .then_some(BroughtObjects { verb: "installing", kinds: &["k8s", "workload"] })
    }
}

impl SharedObject for Release {
    /// A revision that failed or is stuck cannot be made so again: its manifests in force are as good.
    fn same(a: &ReleaseState, before: &ReleaseState) -> bool {
        a == before || *a == before.settled()
    }

    fn back(
        _: &ReleaseState,
        past: &Past<'_, ReleaseState>,
        _: &Contents<'_>,
    ) -> (ReleaseState, Option<Content>) {
        (past.before.settled(), None)
    }
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod tests;
