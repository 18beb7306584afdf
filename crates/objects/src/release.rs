//! A helm release. Its key is `NAMESPACE/NAME`.

mod reader;

use crate::k8s::normalised;
use converge_resource::{
    ApiRef, ClusterPart, Content, Contents, Digest, Disruption, DynClusterPart, DynEffects, DynShared,
    Effects, Erased, Facets, MayBring, Object, Past, Place, Reversibility, Shared, Traits, state_of_words,
};
pub use reader::{documents, manifests};
use serde_json::{Value, json};

/// The status of helm's newest revision, and the revision that is in force ([`in_force`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// No such release.
    Absent,
    /// An install of which nothing is in force: it hangs, or failed before all of it was applied.
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
/// that hangs was never in force, nor was one that failed and was not applied.
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
    if word(newest, "/status") == "uninstalling" {
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

/// The text of a release with these manifests in place of its own, which they come from.
pub fn with_manifests(text: &Content, manifests: &[Value]) -> Option<Content> {
    // Where a Secret's values are there are digests already.
    let secret = |m: &Value| m.get("kind").and_then(Value::as_str) == Some("Secret");
    let one = |m: &Value| if secret(m) { m.clone() } else { normalised(m) };
    let mut value = crate::k8s::from_text(text)?;
    *value.get_mut("manifests")? = Value::Array(manifests.iter().map(one).collect());
    Some(Content::new(crate::k8s::text(&value).into_bytes()))
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

/// The object.
pub struct Release;

impl Object for Release {
    const KIND: &'static str = "release";
    const SHELL: &'static str = "";
    const PLACE: Place = Place::Cluster;
    const TRAITS: Traits = Traits { offers: &["k8s", "workload"], ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &Erased::<Self>::new();
    const SHARED: &'static dyn DynShared = &Erased::<Self>::new();
    const CLUSTER: &'static dyn DynClusterPart = &Erased::<Self>::new();
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

    /// helm writes what it is about before it begins: what it left hanging, or has failed since, has the content of one end in force.
    fn amid(before: &ReleaseState, after: &ReleaseState, now: &ReleaseState) -> bool {
        match now {
            ReleaseState::Absent => false,
            ReleaseState::Begun { .. } => before.settled() == ReleaseState::Absent,
            ReleaseState::Installed { status, digest, .. } => {
                let ends = [Self::content(before), Self::content(after)];
                status != DEPLOYED && ends.iter().flatten().any(|end| end == digest)
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
    fn may_bring(_: &ReleaseState, to: &ReleaseState) -> Option<MayBring> {
        (*to != ReleaseState::Absent).then_some(MayBring { verb: "installing", kinds: &["k8s", "workload"] })
    }
}

impl Shared for Release {
    /// A revision that failed or hangs cannot be made so again: its manifests in force are as good.
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
mod tests {
    use super::*;

    #[test]
    fn a_release_is_its_chart_values_and_manifests_in_any_order() {
        let manifest = "---\n# Source: a\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata: {k: aHVudGVyMg==}\n\
            ---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n";
        let revision = json!({"status": "deployed", "chart": {"name": "c", "version": "1.2"},
            "values": {"z": 1, "a": {"y": 2, "b": 3}}, "manifest": manifest});
        let (state, one) = ReleaseState::of(&revision).unwrap();
        let mut list = manifests(manifest).unwrap();
        assert_eq!(list.len(), 2);
        list.reverse();
        let other = content("c", "1.2", &json!({"a": {"b": 3, "y": 2}, "z": 1}), &list);
        assert_eq!(one.text(), other.text());
        assert!(!one.text().unwrap().contains("aHVudGVyMg"));
        let (status, chart) = ("deployed".into(), "c-1.2".into());
        let digest = other.digest().clone();
        assert_eq!(state, ReleaseState::Installed { status, chart, digest });
        let mut edited = manifests_of(&one).unwrap();
        assert_eq!(with_manifests(&one, &edited).unwrap().text(), one.text());
        edited[0]["data"] = json!({"b": "2", "a": "1"});
        let edited = with_manifests(&one, &edited).unwrap();
        list.iter_mut().find(|m| m["kind"] == "ConfigMap").unwrap()["data"] = json!({"a": "1", "b": "2"});
        assert_eq!(edited.text(), content("c", "1.2", &revision["values"], &list).text());
        assert!(manifests("a: [").is_err());
        assert_ne!(content("c", "1.2", &Value::Null, &list), other);
    }
    #[test]
    fn values_are_compared_as_helm_stores_them() {
        let given: Value = serde_json::from_str(
            r#"{"b": 2.0, "a": [1e3, 12345678901234567890, 9007199254740993, -0.0, 1.5, 1e300], "n": null, "t": "2.0"}"#,
        )
        .unwrap();
        // As Go writes the same after it has read it.
        let helm: Value = serde_json::from_str(
            r#"{"a": [1000, 12345678901234567000, 9007199254740992, 0, 1.5, 1e+300], "b": 2, "n": null, "t": "2.0"}"#,
        )
        .unwrap();
        assert_eq!(stored(&given), stored(&helm));
        assert_eq!(content("c", "1", &given, &[]), content("c", "1", &helm, &[]));
        assert_ne!(stored(&json!({"b": 2})), stored(&json!({"b": "2"})));
        assert_ne!(stored(&json!(1.5)), stored(&json!(1)));
    }

    #[test]
    fn what_hangs_goes_back_or_away() {
        let hangs = |statuses: &[&str]| {
            let one = |(n, status): (usize, &&str)| json!({"revision": statuses.len() - n, "status": status});
            recovery(&statuses.iter().enumerate().map(one).collect::<Vec<Value>>())
        };
        assert_eq!(
            hangs(&["pending-upgrade", "failed", "deployed", "superseded"]),
            Some(Recovery::Rollback(2))
        );
        assert_eq!(hangs(&["pending-rollback", "superseded", "superseded"]), Some(Recovery::Rollback(2)));
        assert_eq!(hangs(&["pending-install"]), Some(Recovery::Uninstall));
        assert_eq!(hangs(&["uninstalling", "superseded"]), Some(Recovery::Uninstall));
        assert_eq!(hangs(&["failed", "deployed"]), None);
        assert_eq!(hangs(&["pending-upgrade", "failed"]), Some(Recovery::Uninstall));
    }

    fn revision(number: u64, status: &str, applied: Option<bool>) -> Value {
        json!({"revision": number, "status": status, "applied": applied, "manifest": "", "chart": {"name": "c", "version": "1"}, "values": {"n": number}})
    }

    #[test]
    fn what_is_in_force_is_what_was_deployed_last_or_applied_since() {
        let force = |revisions: &[(&str, Option<bool>)]| {
            let mut all: Vec<Value> = (1..).zip(revisions).map(|(n, (s, a))| revision(n, s, *a)).collect();
            all.reverse();
            in_force(&all).and_then(|r| r["revision"].as_u64())
        };
        let (fine, superseded) = (("deployed", None), ("superseded", None));
        let (failed, applied, hangs) =
            (("failed", Some(false)), ("failed", Some(true)), ("pending-upgrade", None));
        assert_eq!(force(&[superseded, fine]), Some(2));
        assert_eq!(force(&[fine, failed]), Some(1));
        assert_eq!(force(&[fine, applied]), Some(2));
        assert_eq!(force(&[fine, applied, failed, hangs]), Some(2));
        assert_eq!(force(&[fine, failed, fine, hangs]), Some(3));
        assert_eq!(force(&[failed, ("pending-install", None)]), None);
        assert_eq!(force(&[applied, hangs]), Some(1));
        assert_eq!(force(&[superseded, ("uninstalled", None), ("pending-install", None)]), None);
        // The revision that helm marks when its own rollback fails.
        assert_eq!(force(&[fine, superseded, failed]), Some(1));
        assert_eq!(force(&[superseded, superseded, failed]), Some(2));
    }

    #[test]
    fn a_way_back_ends_in_what_was_in_force() {
        let state = |revisions: &[Value]| ReleaseState::now(revisions).unwrap().0;
        let one = state(&[revision(1, "deployed", None)]);
        let mut hung = vec![revision(2, "pending-upgrade", None), revision(1, "deployed", None)];
        let hangs = state(&hung);
        assert!(hangs != one && hangs.settled() == one, "{hangs:?}");
        // A revision that was put right needs no revert, and one that hangs is put right.
        assert!(Release::same(&one, &hangs) && !Release::same(&hangs, &one));
        hung.remove(1);
        hung[0]["status"] = json!("pending-install");
        let begun = state(&hung);
        assert_eq!(begun, ReleaseState::Begun { status: "pending-install".into(), chart: "c-1".into() });
        let line = converge_resource::State::from(begun.clone());
        assert_eq!(ReleaseState::try_from(line), Ok(begun.clone()));
        assert_eq!(begun.settled(), ReleaseState::Absent);
        // A run that was cut off left it so.
        let two = state(&[revision(2, "deployed", None)]);
        let amid = |before: &ReleaseState, now: &ReleaseState| Release::amid(before, &two, now);
        assert!(amid(&one, &hangs) && amid(&ReleaseState::Absent, &begun));
        assert!(!amid(&one, &one) && !amid(&two, &hangs) && !amid(&one, &begun));
        assert_eq!(state(&[revision(1, "uninstalled", None)]), ReleaseState::Absent);
        // As records of older versions have it.
        assert_eq!(one.with_status("pending-install").settled(), ReleaseState::Absent);
    }
}
