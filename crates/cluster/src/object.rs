//! Objects as the server gives them: who owns their fields, when they changed, what brings one to another form. Pure.

use converge_objects::k8s::fields::{self, Deviation, Field, Segment};
use converge_objects::k8s::normalised;
use converge_objects::k8s::owners::owners;
use converge_resource::FIELD_MANAGER;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Managers that Kubernetes itself runs: what they write they write anew.
const CONTROLLERS: [&str; 7] = [
    "kube-controller-manager",
    "kube-scheduler",
    "kube-apiserver",
    "kubelet",
    "kube-proxy",
    "cloud-controller-manager",
    "before-first-apply",
];

/// Whether the server deletes it as soon as its finalizers, its contents or its grace period let it.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Its finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether it is being deleted, and goes when somebody takes its finalizers off.
pub(crate) fn is_held(object: &Value) -> bool {
    is_being_deleted(object) && !finalizers(object).is_empty()
}

/// The finalizers of the server's own garbage collector.
const COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Whether it is being deleted, and only the server's own garbage collector is waited for.
pub(crate) fn is_being_collected(object: &Value) -> bool {
    is_held(object) && finalizers(object).iter().all(|finalizer| COLLECTOR.contains(finalizer))
}

/// `.spec.replicas (planned against 2, found 3)`, for people.
pub(crate) fn listed(deviations: &[Deviation], planned: &str, secret: bool) -> String {
    let value = |v: &Option<Value>| match v {
        None => "nothing".to_owned(),
        Some(_) if secret => "(hidden)".to_owned(),
        Some(v) => {
            let text = v.to_string();
            if text.chars().count() > 60 {
                format!("{}…", text.chars().take(60).collect::<String>())
            } else {
                text
            }
        }
    };
    let mut parts: Vec<String> = deviations
        .iter()
        .take(5)
        .map(|(path, expected, found)| {
            format!("{} ({planned} {}, found {})", fields::shown(path), value(expected), value(found))
        })
        .collect();
    if deviations.len() > parts.len() {
        parts.push(format!("and {} more", deviations.len() - parts.len()));
    }
    parts.join("; ")
}

/// The merge patch (RFC 7386) that makes one of the other.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return to.clone() };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(was) if was == value => {}
            Some(was) => {
                patch.insert(key.clone(), merge_patch(was, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// The manager of what helm writes, and of what converge makes again in its name.
const HELM: &str = "helm";

/// The namespace and the name of the release whose object it is, as helm marks it.
pub fn marked_release(object: &Value) -> Option<[&str; 2]> {
    let annotations = object.pointer("/metadata/annotations")?;
    let word = |key: &str| annotations.get(key).and_then(Value::as_str);
    Some([word("meta.helm.sh/release-namespace")?, word("meta.helm.sh/release-name")?])
}

/// Whether both are objects of one release of helm.
pub fn is_of_one_release(one: &Value, other: &Value) -> bool {
    marked_release(one).is_some_and(|release| marked_release(other) == Some(release))
}

/// Managers of fields other than those of converge, Kubernetes' own, and those of the status. What converge wrote before projects had managers of their own counts as
/// converge's. So does what helm has of an object that runs of the project left as one of its release (`is_of_release`): converge makes it again in helm's name,
/// and an upgrade writes it as helm itself.
fn other_managers(object: &Value, own: &str, is_of_release: bool) -> BTreeSet<String> {
    let managed_here = [own, FIELD_MANAGER];
    entries(object)
        .filter(|entry| {
            entry.get("fieldsV1").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty())
        })
        .filter_map(|entry| entry.get("manager").and_then(Value::as_str))
        .filter(|manager| !managed_here.contains(manager) && !CONTROLLERS.contains(manager))
        .filter(|manager| !(is_of_release && *manager == HELM))
        .map(str::to_owned)
        .collect()
}

/// To whom else an object belongs, for people: what takes it away takes it from them. An owner that this manager itself has declared is no one else.
/// `is_of_release`: runs of the project left it as an object of the release to which it belongs.
pub(crate) fn whose_else(object: &Value, own: &str, is_of_release: bool) -> Option<String> {
    let owners_of = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let declared = |owner: &Value| {
        let item =
            Segment::Item("uid".to_owned(), owner.get("uid").map(Value::to_string).unwrap_or_default());
        let key = |name: &str| Segment::Key(name.to_owned());
        let managers = owners(object, &[key("metadata"), key("ownerReferences"), item]);
        !managers.is_empty()
            && managers.iter().all(|manager| [own, FIELD_MANAGER].contains(&manager.as_str()))
    };
    if let Some(owner) = owners_of.and_then(|list| list.iter().find(|owner| !declared(owner))) {
        let (kind, name) = (text(owner, "/kind").to_lowercase(), text(owner, "/name"));
        return Some(format!("it belongs to {kind} {name} and goes with that"));
    }
    let others: Vec<String> = other_managers(object, own, is_of_release).into_iter().collect();
    (!others.is_empty()).then(|| format!("fields of it belong to {}", others.join(", ")))
}

/// Values that somebody has put in the place of those that runs left, for people. `left` are the contents that the last run may have left: a step that
/// was cut off has two. `between` are those that each run before left, with those that the next one found. Field managers alone do not tell: a rollback
/// gives a value back under our name.
pub fn edited_since(
    live: &Value,
    between: &[(Value, Value)],
    left: &[Value],
    secret: bool,
) -> Option<String> {
    let (last, others) = left.split_first()?;
    let live_text = normalised(live);
    // A field that came since has a manager, and with one that went nothing of anybody's would be lost.
    let edits = |from: &Value, to: &Value| -> Vec<Field> {
        let all = fields::leaf_differences(from, to);
        all.into_iter().filter(|field| field.before.is_some() && field.after.is_some()).collect()
    };
    let shows = |object: &Value, field: &Field| fields::read(object, &field.path) == field.after.as_ref();
    let mut theirs: Vec<Field> = Vec::new();
    let next = between.iter().skip(1).map(|(left, _)| left).chain([last]);
    for ((left, found), next) in between.iter().zip(next) {
        theirs.extend(edits(left, found));
        // A run that has set it again has made it its own.
        theirs.retain(|field| shows(next, field));
    }
    let since = edits(last, &live_text);
    theirs.extend(since.into_iter().filter(|field| !others.iter().any(|other| shows(other, field))));
    let of_a_controller = |path: &fields::FieldPath| {
        owners(live, path).iter().any(|owner| CONTROLLERS.contains(&owner.as_str()))
    };
    let theirs: Vec<Deviation> = theirs
        .into_iter()
        .filter(|field| shows(&live_text, field) && !of_a_controller(&field.path))
        .map(|field| (field.path, field.before, field.after))
        .collect();
    (!theirs.is_empty()).then(|| listed(&theirs, "left as", secret))
}

/// The fields of a live object that are not as runs left it, with those who own them now, for people: of what the runs changed (`before` to `left`), or of
/// all where nothing of that differs. No values.
pub fn changed_by(live: &Value, before: Option<&Value>, left: &Value) -> Option<String> {
    let paths = |fields: Vec<Field>| -> Vec<fields::FieldPath> {
        fields.into_iter().map(|field| field.path).collect()
    };
    let now = normalised(live);
    let all = paths(fields::moved(left, &now, before));
    let own = before.map(|before| paths(fields::leaf_differences(before, left))).unwrap_or_default();
    let of_runs: Vec<&fields::FieldPath> =
        all.iter().filter(|path| own.iter().any(|own| fields::touch(own, path))).collect();
    let named = if of_runs.is_empty() { all.iter().collect() } else { of_runs };
    let shown = |path: &&fields::FieldPath| match owners(live, path).as_slice() {
        _ if fields::read(&now, path).is_none() => format!("{} was taken away", fields::shown(path)),
        [] => fields::shown(path),
        managers => format!("{} by `{}`", fields::shown(path), managers.join("`, `")),
    };
    let mut parts: Vec<String> = named.iter().take(5).map(shown).collect();
    if named.len() > parts.len() {
        parts.push(format!("and {} more", named.len() - parts.len()));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// When an owner last changed it, in seconds since 1970: the newest of its managers' times, those of the status left out.
pub(crate) fn moment(object: &Value) -> Option<i64> {
    let times = entries(object).filter_map(|entry| entry.get("time"));
    let created = object.pointer("/metadata/creationTimestamp");
    times.chain(created).filter_map(seconds).max()
}

/// Seconds since 1970 of a time as the server writes it.
pub(crate) fn seconds(time: &Value) -> Option<i64> {
    time.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    converge_objects::k8s::owners::entries(object).filter(|entry| {
        let part = entry.get("subresource").and_then(Value::as_str).unwrap_or_default();
        part != "status"
    })
}

/// A text at this place; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A label selector as text, of a `LabelSelector` object.
pub(crate) fn selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut parts: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = text(term, "/key");
        let values: Vec<&str> = term
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        match text(term, "/operator") {
            "In" => parts.push(format!("{key} in ({values})")),
            "NotIn" => parts.push(format!("{key} notin ({values})")),
            "Exists" => parts.push(key.to_owned()),
            "DoesNotExist" => parts.push(format!("!{key}")),
            _ => {}
        }
    }
    parts.join(",")
}

/// Objects by their names.
pub(crate) fn by_name(list: Vec<Value>) -> BTreeMap<String, Value> {
    list.into_iter().map(|object| (text(&object, "/metadata/name").to_owned(), object)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_moved_is_reported_and_a_secret_is_not() {
        let path = ["metadata", "labels", "a"].map(|key| Segment::Key(key.to_owned())).to_vec();
        let found = [(path, None, Some(json!("0")))];
        assert_eq!(
            listed(&found, "planned against", false),
            ".metadata.labels.a (planned against nothing, found \"0\")"
        );
        assert_eq!(
            listed(&found, "planned against", true),
            ".metadata.labels.a (planned against nothing, found (hidden))"
        );
    }

    #[test]
    fn a_merge_patch_makes_one_of_the_other() {
        let from = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x"});
        let to = json!({"a": {"b": 1, "c": [2]}, "e": {"f": true}});
        assert_eq!(merge_patch(&from, &to), json!({"a": {"c": [2]}, "e": {"f": true}, "d": null}));
    }

    #[test]
    fn managers_and_moments_leave_the_status_out() {
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
            {"manager": "converge", "time": "2026-01-01T00:00:10Z", "fieldsV1": {"f:data": {}}},
            {"manager": "converge-shop", "time": "2026-01-01T00:00:10Z", "fieldsV1": {"f:data": {}}},
            {"manager": "kubectl-edit", "time": "2026-01-01T00:00:20Z", "fieldsV1": {"f:data": {}}},
            {"manager": "operator", "time": "2026-01-01T00:00:30Z", "subresource": "status", "fieldsV1": {"f:status": {}}},
            {"manager": "kubelet", "time": "2026-01-01T00:00:05Z", "fieldsV1": {"f:spec": {}}}]}});
        let others = |own: &str| other_managers(&object, own, false).into_iter().collect::<Vec<_>>();
        assert_eq!(others("converge"), ["converge-shop", "kubectl-edit"]);
        assert_eq!(others("converge-shop"), ["kubectl-edit"]);
        assert_eq!(moment(&object), Some(1_767_225_620));
    }

    #[test]
    fn an_owner_that_the_role_declares_is_no_one_else() {
        let owned = |manager: &str| {
            json!({"metadata": {"ownerReferences": [{"kind": "ConfigMap", "name": "o", "uid": "u1"}],
                "managedFields": [{"manager": manager, "fieldsV1": {"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u1\"}": {}}}}}]}})
        };
        assert_eq!(whose_else(&owned("converge-shop"), "converge-shop", false), None);
        let theirs = Some("it belongs to configmap o and goes with that".to_owned());
        assert_eq!(whose_else(&owned("kube-controller-manager"), "converge-shop", false), theirs);
        assert_eq!(whose_else(&owned("converge-other"), "converge-shop", false), theirs);
    }

    #[test]
    fn what_helm_has_of_an_object_of_the_release_is_no_one_elses() {
        let with = |entries: &[(&str, &str)]| {
            let entry = |(manager, by): &(&str, &str)| json!({"manager": manager, "operation": by, "fieldsV1": {"f:data": {}}});
            json!({"metadata": {"managedFields": entries.iter().map(entry).collect::<Vec<_>>()}})
        };
        let whose =
            |entries: &[(&str, &str)], of_release| whose_else(&with(entries), "converge-shop", of_release);
        assert_eq!(whose(&[("helm", "Apply")], true), None);
        let helm = Some("fields of it belong to helm".to_owned());
        assert_eq!(whose(&[("helm", "Apply")], false), helm);
        assert_eq!(whose(&[("helm", "Update"), ("converge-shop", "Update")], true), None);
        let of = |name: &str| json!({"metadata": {"annotations": {"meta.helm.sh/release-namespace": "n", "meta.helm.sh/release-name": name}}});
        assert!(is_of_one_release(&of("r"), &of("r")) && !is_of_one_release(&of("r"), &of("s")));
        assert!(!is_of_one_release(&json!({}), &json!({})));
        let beside = whose(&[("helm", "Apply"), ("kubectl-edit", "Update")], true);
        assert_eq!(beside, Some("fields of it belong to kubectl-edit".to_owned()));
    }

    #[test]
    fn a_value_that_no_run_left_is_somebodys_whoever_manages_it() {
        let map =
            |a: &str, more: Value| json!({"kind": "ConfigMap", "data": {"a": a, "b": "2"}, "metadata": more});
        let (left, none) = (map("1", json!({})), json!({}));
        let edited = |live: &Value, left: &[Value]| edited_since(live, &[], left, false);
        assert_eq!(
            edited(&map("9", none.clone()), std::slice::from_ref(&left)).unwrap(),
            ".data.a (left as \"1\", found \"9\")"
        );
        assert!(
            !edited_since(&map("9", none.clone()), &[], std::slice::from_ref(&left), true)
                .unwrap()
                .contains('9')
        );
        // A step that was cut off has left either of two values.
        assert_eq!(edited(&map("9", none.clone()), &[left.clone(), map("9", none.clone())]), None);
        assert_eq!(edited(&map("9", none.clone()), &[]), None, "without the content nothing is known");
        // Between two runs, and the last one has left it so, or has set it again.
        let (own, their) = (map("1", none.clone()), map("9", none.clone()));
        let between = [(own.clone(), their.clone())];
        let found =
            |live: &Value, last: &Value| edited_since(live, &between, std::slice::from_ref(last), false);
        assert!(found(&their, &their).unwrap().contains(".data.a (left as \"1\", found \"9\")"));
        assert_eq!(found(&own, &own), None);
        assert_eq!(found(&own, &their), Some(".data.a (left as \"9\", found \"1\")".to_owned()));
        // A field that came or went is reported by its manager, and a controller's value is written anew.
        let labelled = map("1", json!({"labels": {"theirs": "1"}}));
        assert_eq!(edited(&labelled, std::slice::from_ref(&left)), None);
        assert_eq!(edited(&left, &[labelled]), None);
        let fields = json!({"managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:data": {"f:a": {}}}}]});
        assert_eq!(edited(&map("9", fields), &[left]), None);
    }

    #[test]
    fn fields_that_others_have_changed_are_named_without_values() {
        let map = |data: Value| json!({"kind": "ConfigMap", "data": data, "metadata": {"name": "x"}});
        let (before, left) = (map(json!({"a": "0"})), map(json!({"a": "1"})));
        let mut live = map(json!({"a": "9", "beside": "9"}));
        live["metadata"]["managedFields"] =
            json!([{"manager": "kubectl-patch", "fieldsV1": {"f:data": {"f:a": {}}}}]);
        let reply = |live: &Value, before: Option<&Value>| changed_by(live, before, &left);
        assert_eq!(reply(&live, Some(&before)).unwrap(), ".data.a by `kubectl-patch`");
        assert_eq!(reply(&live, None).unwrap(), ".data.a by `kubectl-patch`, .data.beside");
        assert_eq!(reply(&map(json!({"b": "1"})), Some(&before)).unwrap(), ".data.a was taken away");
        assert_eq!(reply(&left, Some(&before)), None);
    }

    #[test]
    fn selectors_are_text() {
        let given = json!({"matchLabels": {"app": "x"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "z", "operator": "DoesNotExist"}]});
        assert_eq!(selector(&given), "app=x,tier in (a,b),!z");
    }
}
