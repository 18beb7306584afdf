//! Fields of a release's objects that earlier reverts of the same plan give back to a patch: helm would set them to what the chart declares. Pure.

use super::Undone;
use converge_objects::k8s::fields::{Field, read};
use converge_objects::k8s::owners::owners_of_part;
use converge_objects::k8s::parts::leaves;
use converge_objects::{api_ref, release};
use converge_resource::{ApiRef, ObjectId, PreservedField};
use converge_resources::Their;
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields that a release leaves to the patches which come back before it.
#[derive(Default)]
pub(super) struct GivenBack {
    /// Those with a value.
    pub set: Vec<Their>,
    /// Those that the patches take away.
    pub unset: Vec<PreservedField>,
}

/// The fields among `undone` that these manifests of a release declare otherwise, and that the project's field manager does not own now: it does
/// once they are back. `live` are the objects as they are.
pub(super) fn given_back(
    undone: &Undone,
    (manifests, namespace): (&[Value], &str),
    manager: &str,
    live: &BTreeMap<ObjectId, Value>,
) -> GivenBack {
    let mut given = GivenBack::default();
    for (id, then) in undone {
        let (Some(object), Some((fields, then)), Some(live)) = (api_ref(id), then, live.get(id)) else {
            continue;
        };
        let is_it = |manifest: &&Value| release::is(manifest, &object, namespace);
        let Some(declared) = manifests.iter().find(is_it) else { continue };
        for path in fields.iter().flat_map(|field| leaves(&field.path, read(then, &field.path))) {
            let (value, of_chart) = (read(then, &path), read(declared, &path));
            let is_own = || owners_of_part(live, &path).iter().any(|owner| owner == manager);
            if of_chart.is_none() || value == of_chart || is_own() {
                continue;
            }
            let object = object.clone();
            match value {
                None => given.unset.push(PreservedField { object, path }),
                Some(value) => given.set.push(Their {
                    object,
                    field: Field { before: Some(value.clone()), after: of_chart.cloned(), path },
                    owner: manager.to_owned(),
                }),
            }
        }
    }
    given
}

/// The objects of these manifests that earlier reverts change, as far as their values are known: those of a Secret are not.
pub(super) fn objects_of(undone: &Undone, manifests: &[Value], namespace: &str) -> Vec<ApiRef> {
    let objects = undone.keys().filter_map(api_ref).filter(|object| object.kind != "Secret");
    objects.filter(|object| manifests.iter().any(|m| release::is(m, object, namespace))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_objects::k8s::fields::{differences, shown};
    use serde_json::json;

    #[test]
    fn a_field_is_left_to_the_patch_that_comes_back_before_the_release() {
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": data});
        let mut now = map(json!({"set": "chart 2", "gone": "chart 2", "ours": "patch 2", "same": "x"}));
        let then = map(json!({"set": "patch", "ours": "patch", "same": "chart 1", "extra": "patch"}));
        let id = ObjectId::new("k8s", "v1/ConfigMap/n/a");
        let undone = Undone::from([(id.clone(), Some((differences(&now, &then), then.clone())))]);
        now["metadata"]["managedFields"] =
            json!([{"manager": "converge", "fieldsV1": {"f:data": {"f:ours": {}}}}]);
        let before =
            [map(json!({"set": "chart 1", "gone": "chart 1", "ours": "chart 1", "same": "chart 1"}))];
        let live = BTreeMap::from([(id, now)]);
        let found = given_back(&undone, (&before, "n"), "converge", &live);
        let set: Vec<_> =
            found.set.iter().map(|their| (shown(&their.field.path), &their.field.before)).collect();
        assert_eq!(set, [(".data.set".to_owned(), &Some(json!("patch")))]);
        let unset: Vec<_> = found.unset.iter().map(|field| shown(&field.path)).collect();
        assert_eq!(unset, [".data.gone"]);
        assert!(given_back(&undone, (&[], "n"), "converge", &live).set.is_empty());
        assert_eq!(objects_of(&undone, &before, "n").len(), 1);
    }
}
