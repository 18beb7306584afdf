//! The owners of fields, as the server records them in `metadata.managedFields`.

use super::fields::{Segment, read};
use serde_json::Value;

/// The owners of a field, by the server's own record.
pub fn owners(object: &Value, path: &[Segment]) -> Vec<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    // The number of replicas is written through a resource of its own, by people and by autoscalers.
    let counts = |part: Option<&Value>| part.is_none_or(|part| part.as_str() == Some("scale"));
    let holds_it = |entry: &&Value| {
        counts(entry.get("subresource"))
            && entry.get("fieldsV1").is_some_and(|fields| holds(fields, path, Some(object)))
    };
    let manager = |entry: &Value| entry.get("manager").and_then(Value::as_str).map(str::to_owned);
    entries.into_iter().flatten().filter(holds_it).filter_map(manager).collect()
}

/// Whether a record of fields holds this one; `live` is the object at this place. The server may know an item of a list by other keys than we do.
fn holds(at: &Value, path: &[Segment], live: Option<&Value>) -> bool {
    let (Some(map), Some((segment, rest))) = (at.as_object(), path.split_first()) else { return true };
    if map.is_empty() {
        // Owned as a whole.
        return true;
    }
    let inner_live = live.and_then(|live| read(live, std::slice::from_ref(segment)));
    match segment {
        Segment::Key(key) => map.get(&format!("f:{key}")).is_some_and(|inner| holds(inner, rest, inner_live)),
        Segment::Item(key, value) => map.iter().any(|(name, inner)| {
            let Some(Value::Object(keys)) =
                name.strip_prefix("k:").and_then(|t| serde_json::from_str(t).ok())
            else {
                return false;
            };
            let same = match inner_live {
                Some(item) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
                None => keys.get(key).map(Value::to_string).as_deref() == Some(value),
            };
            same && holds(inner, rest, inner_live)
        }),
    }
}
