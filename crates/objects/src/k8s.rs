//! An object of a cluster: all that its owners say of it, without its status and what the server keeps for itself.

pub mod field_set;
pub mod fields;
pub mod owners;
pub mod parts;

use crate::workload::{RESTARTED, STARTED_WITH};
use converge_resource::{
    ApiRef, BroughtObjects, ClusterPart, Content, Contents, Digest, Disruption, DriftScript, DynClusterPart,
    DynEffects, DynSharedObject, Effects, ErasedObject, Facets, Object, Past, Reversibility, SharedObject,
    state_of_digest,
};
use fields::Field;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Whether it is there, and the digest of its text ([`text`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum K8sState {
    /// Not there.
    Absent,
    /// There, with this content.
    Present(Digest),
}

state_of_digest!(K8sState, Present, "object");

impl K8sState {
    /// Of an object as the server gives it, with the content that the state names.
    pub fn of(object: &Value) -> (Self, Content) {
        let content = Content::new(text(&normalised(object)).into_bytes());
        (Self::Present(content.digest().clone()), content)
    }
}

/// Annotations about the origin of an object, which are not part of its state. All but the first tell the origin of a
/// workload's pods: a restart moves them.
const NOTES: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    STARTED_WITH,
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
];

/// The fields of `metadata` that belong to the server.
const RETAINED: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// All that owners say of an object: without status, and without what the server keeps for itself. The values of a Secret stand there as
/// their digests.
pub fn normalised(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in RETAINED {
                metadata.shift_remove(key);
            }
            without_notes(metadata, &NOTES);
        }
        if map.get("kind").and_then(Value::as_str) == Some("Secret") {
            hide(map);
        }
    }
    // The mark of a restart is in the template of the pods.
    if let Some(metadata) = object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
        without_notes(metadata, &[RESTARTED]);
    }
    sorted(object)
}

/// Takes these annotations out of an object's `metadata`.
fn without_notes(metadata: &mut Map<String, Value>, notes: &[&str]) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    for key in notes {
        annotations.shift_remove(*key);
    }
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
}

/// Puts digests where the values of a Secret are.
fn hide(secret: &mut Map<String, Value>) {
    for part in ["data", "stringData"] {
        let Some(values) = secret.get_mut(part).and_then(Value::as_object_mut) else { continue };
        for value in values.values_mut() {
            let digest = Sha256::digest(value.to_string().as_bytes());
            let short: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
            *value = Value::String(format!("(sha256 {short})"));
        }
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            // As people expect to read a manifest.
            let rank = |key: &str| {
                ["apiVersion", "kind", "metadata", "name", "namespace"]
                    .iter()
                    .position(|k| *k == key)
                    .unwrap_or(9)
            };
            entries.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The text of a normalised object, for digests and for people: YAML.
pub fn text(object: &Value) -> String {
    serde_yaml::to_string(object).unwrap_or_else(|_| object.to_string())
}

/// Reads a content back.
pub fn from_text(content: &Content) -> Option<Value> {
    serde_yaml::from_str(content.text()?).ok()
}

/// The object in a state whose content is known.
fn read(state: &K8sState, content: &Contents<'_>) -> Option<Value> {
    K8s::content(state).and_then(|digest| content(&digest)).and_then(|found| from_text(&found))
}

/// Whether each run found the object as the one before had left it.
fn is_unbroken(past: &Past<'_, K8sState>) -> bool {
    past.between.iter().all(|(left, found)| left == found)
}

/// The fields that were made, from what the last run left to what was there before the first one. What others did between the runs is none.
fn fields_back(past: &Past<'_, K8sState>, content: &Contents<'_>) -> Option<Vec<Field>> {
    let back = |left: &K8sState, before: &K8sState| {
        Some(fields::leaf_differences(&read(left, content)?, &read(before, content)?))
    };
    let all = back(past.left, past.before)?;
    if is_unbroken(past) {
        return Some(all);
    }
    let begun = std::iter::once(past.before).chain(past.between.iter().map(|(_, found)| found));
    let ended = past.between.iter().map(|(left, _)| left).chain([past.left]);
    // Without the contents of all steps in between, the changes of others cannot be distinguished from those of converge.
    // An object that was not there in between was made anew: all of it.
    let found =
        |state: &K8sState| if *state == K8sState::Absent { Some(Value::Null) } else { read(state, content) };
    let step = |(before, left)| Some(fields::leaf_differences(&found(left)?, &found(before)?));
    let steps: Option<Vec<Vec<Field>>> = begun.zip(ended).map(step).collect();
    let touched: Vec<Field> = steps?.into_iter().flatten().collect();
    let is_managed = |field: &Field| {
        touched.iter().any(|t| t.path.starts_with(&field.path) || field.path.starts_with(&t.path))
    };
    Some(all.into_iter().filter(is_managed).collect())
}

/// The object.
pub struct K8s;

/// Kinds whose deletion takes what no snapshot holds.
fn takes_more(key: &str) -> Option<&'static str> {
    match ApiRef::from_key(key)?.kind.as_str() {
        "Namespace" => Some("all that is in the namespace goes with it"),
        "CustomResourceDefinition" => Some("all objects of its kind go with it"),
        "PersistentVolumeClaim" | "PersistentVolume" => Some("its data may go with it"),
        _ => None,
    }
}

impl Object for K8s {
    const KIND: &'static str = "k8s";
    const SHELL: &'static str = "";
    const PLACE: converge_resource::Place = converge_resource::Place::Cluster;
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const SHARED: &'static dyn DynSharedObject = &ErasedObject::<Self>::new();
    const CLUSTER: &'static dyn DynClusterPart = &ErasedObject::<Self>::new();
    type State = K8sState;

    fn title(key: &str, from: &K8sState, to: &K8sState) -> String {
        let name = ApiRef::from_key(key).map_or_else(|| key.to_owned(), |r| r.shown());
        match (from, to) {
            (_, K8sState::Absent) => format!("delete {name}"),
            (K8sState::Absent, _) => format!("create {name}"),
            _ => format!("change {name}"),
        }
    }

    fn reversibility(key: &str, _: &K8sState, to: &K8sState) -> Reversibility {
        match (to, takes_more(key)) {
            (K8sState::Absent, Some(why)) => Reversibility::Irreversible(why.to_owned()),
            _ => Reversibility::Reversible,
        }
    }

    fn facets(_: &K8sState) -> Facets {
        Vec::new()
    }

    fn content(state: &K8sState) -> Option<Digest> {
        match state {
            K8sState::Absent => None,
            K8sState::Present(digest) => Some(digest.clone()),
        }
    }

    fn disruption(_: &K8sState, _: Option<&K8sState>) -> Disruption {
        Disruption::None
    }

    fn drifts(_: &str, _: &K8sState) -> Vec<DriftScript> {
        Vec::new()
    }
}

impl ClusterPart for K8s {
    const OF_API: bool = true;

    fn api(key: &str) -> Option<ApiRef> {
        ApiRef::from_key(key)
    }

    fn comes_back_without(key: &str) -> Option<&'static str> {
        match ApiRef::from_key(key)?.kind.as_str() {
            "Namespace" => Some(
                "it comes back empty: of what was in it, only the objects that a rollback names come back",
            ),
            "CustomResourceDefinition" => Some(
                "it comes back alone: of the objects of its kind, only those that a rollback names come back",
            ),
            _ => None,
        }
    }
}

impl Effects for K8s {
    fn may_bring(from: &K8sState, to: &K8sState) -> Option<BroughtObjects> {
        // A definition of a kind, a namespace: what stands on it may come once it is there.
        (*from == K8sState::Absent && *to != K8sState::Absent)
            .then_some(BroughtObjects { verb: "creating", kinds: &["k8s"] })
    }
}

impl SharedObject for K8s {
    /// The fields that were made are as they were left, or as they were before already; others may have changed.
    fn shows(now: &K8sState, past: &Past<'_, K8sState>, content: &Contents<'_>) -> bool {
        match (now, past.left, past.before) {
            (now, left, _) if now == left && is_unbroken(past) => true,
            // An object that a run created is deleted as a whole, whatever was added to it: the executor looks for other
            // owners.
            (K8sState::Present(_), K8sState::Present(_), K8sState::Absent) => true,
            _ => match (read(now, content), fields_back(past, content)) {
                (Some(now), Some(back)) => fields::elsewhere(&now, &back).is_empty(),
                _ => false,
            },
        }
    }

    fn back(
        now: &K8sState,
        past: &Past<'_, K8sState>,
        content: &Contents<'_>,
    ) -> (K8sState, Option<Content>) {
        let whole = || (past.before.clone(), None);
        if now == past.left && is_unbroken(past) {
            return whole();
        }
        let (Some(now), Some(fields), Some(before)) =
            (read(now, content), fields_back(past, content), read(past.before, content))
        else {
            return whole();
        };
        // The values of a Secret are found by the content that was saved with them.
        if now.get("kind").and_then(Value::as_str) == Some("Secret") {
            return whole();
        }
        let Ok(mut back) = fields::with(&now, &fields) else { return whole() };
        fields::drop_emptied(&mut back, &fields, &before);
        let (state, content) = K8sState::of(&back);
        (state, Some(content))
    }

    fn apart(past: &Past<'_, K8sState>, since: &[(K8sState, K8sState)], content: &Contents<'_>) -> bool {
        let (Some(before), Some(_), Some(managed_here)) =
            (read(past.before, content), read(past.left, content), fields_back(past, content))
        else {
            return false;
        };
        // A Secret goes back as a whole.
        if before.get("kind").and_then(Value::as_str) == Some("Secret") {
            return false;
        }
        let free = |theirs: &Field| !managed_here.iter().any(|own| fields::touch(&own.path, &theirs.path));
        since.iter().all(|(before, after)| match (read(before, content), read(after, content)) {
            (Some(before), Some(after)) => fields::leaf_differences(&before, &after).iter().all(free),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_keeps_for_itself_is_no_part_of_the_state() {
        let live = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"b": "1", "a": "2"}, "metadata": {
            "name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7", "managedFields": [], "generation": 2,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "status": {"phase": "Active"}});
        let (state, content) = K8sState::of(&live);
        assert_eq!(
            content.text(),
            Some(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  namespace: n\ndata:\n  a: '2'\n  b: '1'\n"
            )
        );
        assert_eq!(K8s::content(&state).as_ref(), Some(content.digest()));
        assert_eq!(from_text(&content), Some(normalised(&live)));
    }

    #[test]
    fn a_change_of_a_daemonset_is_still_there_after_a_restart() {
        let daemonset = |generation: &str, volumes: Value, restarted: Value| {
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "d", "namespace": "n",
                    "annotations": {"deprecated.daemonset.template.generation": generation, "converge/started-with": generation}},
                "spec": {"template": {"metadata": {"annotations": restarted}, "spec": {"volumes": volumes}}}})
        };
        let volumes = json!([{"name": "a", "configMap": {"name": "a"}}]);
        let states = [
            daemonset("1", json!([]), json!({})),
            daemonset("2", volumes.clone(), json!({})),
            daemonset("5", volumes, json!({"converge/restarted": "now"})),
        ]
        .map(|object| K8sState::of(&object));
        let content = |digest: &Digest| states.iter().map(|(_, c)| c).find(|c| c.digest() == digest).cloned();
        let [(before, _), (left, _), (now, _)] = &states;
        let past = Past { before, left, between: &[] };
        assert!(K8s::shows(now, &past, &content), "nobody else has changed it");
        // A restart alone changes nothing of it.
        assert_eq!(now, left);
    }

    /// A run labels a node, somebody cordons it, another run adds a taint, and the node controller one of its own.
    #[test]
    fn a_rollback_leaves_fields_of_others_alone() {
        let node = |labels: Value, cordoned: bool, taints: Value| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels},
                "spec": {"unschedulable": cordoned, "taints": taints}})
        };
        let (own, gpu) = (json!({"os": "linux"}), json!({"os": "linux", "gpu": "true"}));
        let (mine, theirs) =
            (json!({"key": "gpu", "effect": "NoSchedule"}), json!({"key": "down", "effect": "NoExecute"}));
        let states = [
            node(own.clone(), false, json!([])),
            node(gpu.clone(), false, json!([])),
            node(gpu.clone(), true, json!([])),
            node(gpu.clone(), true, json!([mine])),
            node(gpu, true, json!([mine, theirs])),
        ]
        .map(|object| K8sState::of(&object));
        let content = |digest: &Digest| states.iter().map(|(_, c)| c).find(|c| c.digest() == digest).cloned();
        let [(bare, _), (labelled, _), (cordoned, _), (tainted, _), (now, _)] = &states;
        let between = [(labelled.clone(), cordoned.clone())];
        let past = Past { before: bare, left: tainted, between: &between };
        assert!(K8s::shows(now, &past, &content));
        let (_, back) = K8s::back(now, &past, &content);
        let wanted = node(own.clone(), true, json!([theirs]));
        assert_eq!(from_text(&back.unwrap()), Some(normalised(&wanted)));
        // Without the contents of a step in between nothing goes back: the changes of others cannot be distinguished.
        let lost =
            |digest: &Digest| content(digest).filter(|_| K8s::content(labelled).as_ref() != Some(digest));
        assert!(!K8s::shows(tainted, &past, &lost) && !K8s::shows(now, &past, &lost));
        // An object that somebody has deleted in between was made anew: all of it is the runs'.
        let remade = [(labelled.clone(), K8sState::Absent)];
        let remade = Past { between: &remade, ..past };
        assert!(K8s::shows(tainted, &remade, &content));
        assert_eq!(
            from_text(&K8s::back(tainted, &remade, &content).1.unwrap()),
            Some(normalised(&node(own.clone(), false, json!([]))))
        );
        // One run, and no change of others since: exactly the state before.
        let one = Past { before: bare, left: labelled, between: &[] };
        assert_eq!(K8s::back(labelled, &one, &content), (bare.clone(), None));
        // Another project has changed another field since, or this one.
        assert!(K8s::apart(&one, &[(labelled.clone(), cordoned.clone())], &content));
        assert!(!K8s::apart(
            &one,
            &[(labelled.clone(), cordoned.clone()), (bare.clone(), labelled.clone())],
            &content
        ));
        assert!(!K8s::apart(&one, &[(K8sState::Absent, labelled.clone())], &content), "it is another object");
        // Somebody has taken the label away already: that is where it goes, and the taint goes still.
        let (halfway, content_then) = K8sState::of(&node(own.clone(), true, json!([mine])));
        let content = |digest: &Digest| {
            content(digest).or_else(|| Some(content_then.clone()).filter(|c| c.digest() == digest))
        };
        assert!(K8s::shows(&halfway, &past, &content));
        let (_, back) = K8s::back(&halfway, &past, &content);
        assert_eq!(from_text(&back.unwrap()), Some(normalised(&node(own, true, json!([])))));
        // The label is another now: a user has changed what was made.
        let (other, changed) = K8sState::of(&node(json!({"os": "linux", "gpu": "no"}), true, json!([mine])));
        let content = |digest: &Digest| content(digest).or_else(|| Some(changed.clone()));
        assert!(!K8s::shows(&other, &past, &content));
    }

    #[test]
    fn values_of_a_secret_are_never_in_its_text() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "aHVudGVyMg=="}});
        let (one, content) = K8sState::of(&secret);
        assert!(!content.text().unwrap().contains("aHVudGVy"), "{content:?}");
        let other =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}});
        assert_ne!(one, K8sState::of(&other).0);
    }

    #[test]
    fn what_takes_more_with_it_cannot_be_undone() {
        let present = || K8sState::Present(Digest::of(b""));
        let gone = |key: &str| K8s::reversibility(key, &present(), &K8sState::Absent);
        assert!(matches!(gone("v1/Namespace/x"), Reversibility::Irreversible(_)));
        assert!(matches!(gone("v1/ConfigMap/x/y"), Reversibility::Reversible));
        assert!(K8s::comes_back_without("v1/Namespace/x").is_some());
        assert!(
            K8s::comes_back_without("v1/PersistentVolumeClaim/x/y").is_none(),
            "an empty volume is no state before"
        );
    }
}
