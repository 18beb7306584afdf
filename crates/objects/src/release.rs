//! A helm release. Its key is `NAMESPACE/NAME`.

use crate::k8s::normalised;
use converge_resource::{
    ApiRef, Content, Digest, Disruption, DynEffects, Effects, Erased, Facets, MayBring, Object, Place,
    Reversibility, Traits, state_of_words,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The newest revision in helm's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// No such release.
    Absent,
    /// It is installed, or was meant to be.
    Installed {
        /// helm's word: `deployed`, `failed`, `pending-upgrade` …
        status: String,
        /// `NAME-VERSION` of its chart.
        chart: String,
        /// The digest of its text: the values and the manifests that are to be live.
        digest: Digest,
    },
}

impl ReleaseState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Installed { status, chart, digest } => {
                vec!["release".to_owned(), status.clone(), chart.clone(), digest.to_string()]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
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
        let word = |pointer: &str| revision.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (chart, version) = (word("/chart/name"), word("/chart/version"));
        let values = revision.get("values").unwrap_or(&Value::Null);
        let content = content(chart, version, values, &manifests(word("/manifest"))?);
        let state = Self::Installed {
            status: word("/status").to_owned(),
            chart: format!("{chart}-{version}"),
            digest: content.digest().clone(),
        };
        Ok((state, content))
    }
}

/// The recovery of a release that is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Roll back to this revision.
    Rollback(u64),
    /// Uninstall: no revision was ever deployed.
    Uninstall,
}

/// The recovery of a release that is stuck in `pending-*` or `uninstalling`: a rollback to the revision that was deployed
/// last, or an uninstallation if none ever was. `revisions` are newest first.
pub fn recovery(revisions: &[Value]) -> Option<Recovery> {
    let status = |r: &Value| r.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    let now = revisions.first().map(status).unwrap_or_default();
    if !now.starts_with("pending") && now != "uninstalling" {
        return None;
    }
    let find = |word: &str| revisions.iter().find(|r| status(r) == word);
    let good = |r: &&Value| matches!(status(r).as_str(), "deployed" | "superseded");
    let last = find("deployed").or_else(|| revisions.iter().find(good)).filter(|_| now != "uninstalling");
    Some(match last.and_then(|last| last.get("revision")).and_then(Value::as_u64) {
        Some(number) => Recovery::Rollback(number),
        None => Recovery::Uninstall,
    })
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

/// The objects in a text of several YAML documents, as helm renders it.
///
/// # Errors
/// It is no YAML, and where.
pub fn manifests(text: &str) -> Result<Vec<Value>, serde_yaml::Error> {
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        match Value::deserialize(document)? {
            Value::Null => {}
            value => found.push(value),
        }
    }
    Ok(found)
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
    type State = ReleaseState;

    fn title(key: &str, from: &ReleaseState, to: &ReleaseState) -> String {
        match (from, to) {
            (_, ReleaseState::Absent) => format!("helm uninstall {key}"),
            (ReleaseState::Absent, ReleaseState::Installed { chart, .. }) => {
                format!("helm install {key} ({chart})")
            }
            (_, ReleaseState::Installed { chart, .. }) => format!("helm upgrade {key} ({chart})"),
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
            ReleaseState::Installed { status, chart, .. } => {
                vec![("chart", chart.clone()), ("status", status.clone())]
            }
        }
    }

    fn content(state: &ReleaseState) -> Option<Digest> {
        match state {
            ReleaseState::Absent => None,
            ReleaseState::Installed { digest, .. } => Some(digest.clone()),
        }
    }

    fn disruption(_: &ReleaseState, _: Option<&ReleaseState>) -> Disruption {
        Disruption::Restarts
    }
}

impl Effects for Release {
    fn may_bring(_: &ReleaseState, to: &ReleaseState) -> Option<MayBring> {
        (*to != ReleaseState::Absent).then_some(MayBring { verb: "installing", kinds: &["k8s", "workload"] })
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
        assert_eq!(
            state,
            ReleaseState::Installed {
                status: "deployed".into(),
                chart: "c-1.2".into(),
                digest: other.digest().clone()
            }
        );
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
    }
}
