//! Fields of a release's objects that earlier reverts of the same plan give back to a patch: helm would set them to what the chart declares. Pure.

use super::Undone;
use super::unset::RetainedChanges;
use converge_objects::k8s::fields::{Field, read};
use converge_objects::k8s::owners::{entries, owners};
use converge_objects::k8s::parts::leaves;
use converge_objects::{api_ref, release};
use converge_resources::Their;
use serde_json::{Value, json};

/// The fields among `undone` that the project owned before the runs to revert, and that these manifests of a release in `namespace` declare otherwise.
pub(super) fn given_back(
    undone: &Undone,
    manifests: &[Value],
    namespace: &str,
    retained: &RetainedChanges,
) -> Vec<Their> {
    let mut given = Vec::new();
    for (id, then) in undone {
        let (Some(object), Some((fields, then))) = (api_ref(id), then) else { continue };
        let is_it = |manifest: &&Value| release::is(manifest, &object, namespace);
        // No value of a Secret is known.
        let Some(declared) = manifests.iter().filter(|_| object.kind != "Secret").find(is_it) else {
            continue;
        };
        let mut owned = then.clone();
        if let Some(metadata) = owned.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("managedFields".to_owned(), json!(retained.owned_before(id)));
        }
        let managers = entries(&owned).filter_map(|entry| entry.get("manager")?.as_str());
        let Some(owner) = managers.last() else { continue };
        for path in fields.iter().flat_map(|field| leaves(&field.path, read(then, &field.path))) {
            let (Some(value), Some(of_chart)) = (read(then, &path), read(declared, &path)) else { continue };
            if value == of_chart || owners(&owned, &path).is_empty() {
                continue;
            }
            given.push(Their {
                object: object.clone(),
                field: Field { before: Some(value.clone()), after: Some(of_chart.clone()), path },
                owner: owner.to_owned(),
            });
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_objects::k8s::fields::{differences, shown};
    use converge_resource::ObjectId;
    use std::collections::BTreeMap;

    /// A field that the project does not own has the chart's value of before: a patch that took a field away owned nothing of it.
    #[test]
    fn a_field_is_left_to_the_patch_that_comes_back_before_the_release() {
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": data});
        let now = map(json!({"set": "chart 2", "same": "x"}));
        let then = map(json!({"set": "patch", "same": "chart 1", "extra": "patch", "unset": "chart 2"}));
        let id = ObjectId::new("k8s", "v1/ConfigMap/n/a");
        let undone = Undone::from([(id.clone(), Some((differences(&now, &then), then)))]);
        let own = json!({"manager": "converge-shop", "fieldsV1": {"f:data": {"f:set": {}, "f:same": {}, "f:extra": {}}}});
        let retained = |entries: Vec<Value>| RetainedChanges::owning(BTreeMap::from([(id.clone(), entries)]));
        let before = [map(json!({"set": "chart 1", "same": "chart 1", "unset": "chart 1"}))];
        let found = given_back(&undone, &before, "n", &retained(vec![own]));
        let shown: Vec<_> =
            found.iter().map(|t| (shown(&t.field.path), &t.field.before, t.owner.as_str())).collect();
        assert_eq!(shown, [(".data.set".to_owned(), &Some(json!("patch")), "converge-shop")]);
        assert!(given_back(&undone, &before, "n", &retained(Vec::new())).is_empty());
        assert!(given_back(&undone, &before, "n", &RetainedChanges::default()).is_empty());
    }
}
