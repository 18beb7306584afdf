//! The owners of fields, as the server records them in `metadata.managedFields`.

use super::field_set::FieldSet;
use super::fields::Segment;
use serde_json::Value;

/// The owners of a field, by the server's own record. Who owns a map or a list without what is in it (the manager that made it) owns none of that.
pub fn owners(object: &Value, path: &[Segment]) -> Vec<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entries = || entries.into_iter().flatten();
    let all = entries().fold(FieldSet::default(), |all, entry| all.or(&FieldSet::of(entry)));
    // The number of replicas is written through a resource of its own, by people and by autoscalers.
    let counts = |part: Option<&Value>| part.is_none_or(|part| part.as_str() == Some("scale"));
    let holds_it = |entry: &&Value| {
        counts(entry.get("subresource")) && !FieldSet::of(entry).touching(path, object, &all).is_empty()
    };
    let manager = |entry: &Value| entry.get("manager").and_then(Value::as_str).map(str::to_owned);
    entries().filter(holds_it).filter_map(manager).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_made_a_map_owns_nothing_that_others_lay_into_it() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let made = entry("kubectl-create", json!({"f:data": {}, "f:args": {}}));
        let object = json!({"data": {"y": "1"}, "args": ["1"], "metadata": {"managedFields": [made, entry("converge", json!({"f:data": {"f:y": {}}}))]}});
        let of = |keys: &[&str]| {
            let path: Vec<Segment> = keys.iter().map(|key| Segment::Key((*key).to_owned())).collect();
            owners(&object, &path)
        };
        assert_eq!(of(&["data", "y"]), ["converge"]);
        assert_eq!(of(&["args"]), ["kubectl-create"]);
        assert_eq!(of(&["data"]), ["kubectl-create", "converge"]);
    }
}
