//! Fields that a project owns twice: by an apply, and by an update in which a rollback wrote them. To the server these are two managers of one name.

use crate::api::{APPLY, Api, MERGE, escaped};
use crate::fault::Fault;
use converge_resource::FIELD_MANAGER;
use serde_json::{Map, Value, json};

/// Applies a manifest on the server under the name of a manager; `more` stands behind the other words of the query: `&dryRun=All`. Fields that an
/// update of that name wrote are no conflict; those of others are.
///
/// # Errors
/// The server's. Where fields belong to others too, it names all of them.
pub(crate) async fn apply(
    api: &Api,
    path: &str,
    manifest: &Value,
    manager: &str,
    force: bool,
    more: &str,
) -> Result<Value, Fault> {
    let with = |force: bool| format!("{path}?fieldManager={}&force={force}{more}", escaped(manager));
    match api.patch(&with(force), APPLY, manifest).await {
        Err(Fault::Said(said)) if !force && said.conflicts_only_with(manager) => {
            api.patch(&with(true), APPLY, manifest).await
        }
        result => result,
    }
}

/// Gives the fields that a rollback wrote to the apply of this manager, if that owned fields of the object before: a role that leaves one of them out
/// again takes it away then. `before` is the object as it was, `now` as the rollback left it.
pub(crate) async fn hand_over(api: &Api, path: &str, before: &Value, now: &Value, manager: &str) {
    let Some(managers) = handed_over(before, now, manager) else { return };
    // Where somebody else writes at the same time, the fields stay what they are: no conflict, see above.
    drop(set_managers(api, path, now, &managers, manager).await);
}

/// The fields of an object that this manager's apply owns: in a project that has applied nothing under its own name yet, those of the plain one.
pub(crate) fn applied(object: &Value, manager: &str) -> Option<Value> {
    let of = |manager: &str| entry(object, "Apply", manager).map(fields).cloned();
    of(manager).or_else(|| of(FIELD_MANAGER))
}

/// Gives these fields of an object that a rollback has made again to the apply of this manager.
pub(crate) async fn give(api: &Api, path: &str, made: &Value, applied: &Value, manager: &str) {
    let Some(updated) = entry(made, "Update", manager) else { return };
    let rest = without(fields(updated), applied);
    let Some(moved) = without(fields(updated), rest.as_ref().unwrap_or(&Value::Null)) else { return };
    let managers = moved_to_apply(made, updated, &moved, manager);
    // As in `hand_over`.
    drop(set_managers(api, path, made, &managers, manager).await);
}

/// Writes who owns the fields of an object, if it is still the one that was seen.
async fn set_managers(
    api: &Api,
    path: &str,
    observed: &Value,
    managers: &Value,
    manager: &str,
) -> Result<Value, Fault> {
    let version = observed.pointer("/metadata/resourceVersion");
    let patch = json!({"metadata": {"managedFields": managers, "resourceVersion": version}});
    api.patch(&format!("{path}?fieldManager={}", escaped(manager)), MERGE, &patch).await
}

/// Whether fields of an object have the plain name as manager, which was that of all projects once.
pub(crate) fn has_plain(object: &Value) -> bool {
    entries(object).any(is_plain)
}

/// Gives the fields of the plain name to this manager. The object as it is then.
pub(crate) async fn rename_plain(api: &Api, path: &str, live: &Value, manager: &str) -> Result<Value, Fault> {
    set_managers(api, path, live, &renamed(live, manager), manager).await
}

/// `metadata.managedFields` in which the fields of the plain name are this manager's.
fn renamed(object: &Value, manager: &str) -> Value {
    let kind = |entry: &Value| ["operation", "apiVersion", "subresource"].map(|key| entry.get(key).cloned());
    let mut all: Vec<Value> = entries(object).filter(|entry| !is_plain(entry)).cloned().collect();
    for plain in entries(object).filter(|entry| is_plain(entry)) {
        let mut own = plain.clone();
        own["manager"] = json!(manager);
        let same =
            |entry: &&mut Value| entry.get("manager") == own.get("manager") && kind(entry) == kind(plain);
        match all.iter_mut().find(same) {
            Some(there) => {
                let mut owned = fields(there).clone();
                merge(&mut owned, fields(plain));
                there["fieldsV1"] = owned;
            }
            None => all.push(own),
        }
    }
    Value::Array(all)
}

/// `metadata.managedFields` in which what the manager's update has come to own since `before` is its apply's; `None` where nothing is to be moved.
fn handed_over(before: &Value, now: &Value, manager: &str) -> Option<Value> {
    let entry = |object, operation| entry(object, operation, manager);
    entry(before, "Apply")?;
    let updated = entry(now, "Update")?;
    let old = entry(before, "Update").map_or(&Value::Null, fields);
    let moved = without(fields(updated), old)?;
    Some(moved_to_apply(now, updated, &moved, manager))
}

/// `metadata.managedFields` in which these fields of the manager's update are its apply's.
fn moved_to_apply(now: &Value, updated: &Value, moved: &Value, manager: &str) -> Value {
    let mut applied = updated.clone();
    applied["operation"] = json!("Apply");
    let mut owned = entry(now, "Apply", manager).map_or_else(|| json!({}), |still| fields(still).clone());
    merge(&mut owned, moved);
    applied["fieldsV1"] = owned;
    let own = |e: &&Value| is_own(e, "Apply", manager) || is_own(e, "Update", manager);
    let others = entries(now).filter(|e| !own(e));
    let mut all: Vec<Value> = others.cloned().collect();
    all.push(applied);
    if let Some(rest) = without(fields(updated), moved) {
        let mut updated = updated.clone();
        updated["fieldsV1"] = rest;
        all.push(updated);
    }
    Value::Array(all)
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

fn is_plain(entry: &Value) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(FIELD_MANAGER)
}

fn is_own(entry: &Value, operation: &str, manager: &str) -> bool {
    let says = |key: &str, word: &str| entry.get(key).and_then(Value::as_str) == Some(word);
    says("manager", manager) && says("operation", operation) && entry.get("subresource").is_none()
}

fn entry<'a>(object: &'a Value, operation: &str, manager: &str) -> Option<&'a Value> {
    entries(object).find(|entry| is_own(entry, operation, manager))
}

fn fields(entry: &Value) -> &Value {
    entry.get("fieldsV1").unwrap_or(&Value::Null)
}

/// The fields of a set that are not in another one; `None` when all are.
fn without(set: &Value, other: &Value) -> Option<Value> {
    let map = set.as_object()?;
    if map.is_empty() {
        return other.is_null().then(|| set.clone());
    }
    let rest: Map<String, Value> = map
        .iter()
        .filter_map(|(key, inner)| {
            let rest = without(inner, other.get(key).unwrap_or(&Value::Null))?;
            Some((key.clone(), rest))
        })
        .collect();
    (!rest.is_empty()).then_some(Value::Object(rest))
}

/// Puts the fields of a set into another one.
fn merge(into: &mut Value, set: &Value) {
    let (Some(into), Some(set)) = (into.as_object_mut(), set.as_object()) else { return };
    for (key, inner) in set {
        merge(into.entry(key.clone()).or_insert_with(|| json!({})), inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: &[(&str, &str, Value)]) -> Value {
        let entry = |(manager, operation, fields): &(&str, &str, Value)| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let managers: Vec<Value> = entries.iter().map(entry).collect();
        json!({"metadata": {"managedFields": managers}})
    }

    fn listed(managers: &Value) -> Vec<(String, Value)> {
        let one = |e: &Value| {
            (format!("{} {}", e["manager"], e["operation"]).replace('"', ""), e["fieldsV1"].clone())
        };
        managers.as_array().unwrap().iter().map(one).collect()
    }

    #[test]
    fn what_a_rollback_wrote_is_the_applys_again() {
        let data = |keys: &[&str]| {
            let keys: Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
            json!({"f:data": keys})
        };
        let before = object(&[
            ("converge", "Apply", data(&["a", "kept"])),
            ("converge", "Update", data(&["patched"])),
            ("kubectl", "Update", data(&["theirs"])),
        ]);
        // `a` and the removed `b` were written; the apply still owns what was not.
        let now = object(&[
            ("converge", "Apply", data(&["kept"])),
            ("converge", "Update", data(&["a", "b", "patched"])),
            ("kubectl", "Update", data(&["theirs"])),
        ]);
        let moved = handed_over(&before, &now, "converge").unwrap();
        assert_eq!(
            listed(&moved),
            [
                ("kubectl Update".to_owned(), data(&["theirs"])),
                ("converge Apply".to_owned(), data(&["kept", "a", "b"])),
                ("converge Update".to_owned(), data(&["patched"])),
            ]
        );
        // All that the apply owned was written.
        let before = object(&[("converge", "Apply", data(&["a"]))]);
        let now = object(&[("converge", "Update", data(&["a"]))]);
        assert_eq!(
            listed(&handed_over(&before, &now, "converge").unwrap()),
            [("converge Apply".to_owned(), data(&["a"]))]
        );
        // An object that converge never applied.
        let before = object(&[("converge", "Update", data(&["a"])), ("kubectl", "Update", data(&["b"]))]);
        let now = object(&[("converge", "Update", data(&["a", "b"]))]);
        assert_eq!(handed_over(&before, &now, "converge"), None);
    }

    #[test]
    fn the_fields_of_the_plain_name_become_the_projects() {
        let data = |key: &str| json!({"f:data": {key: {}}});
        let both = object(&[
            ("converge", "Apply", data("f:a")),
            ("converge", "Update", data("f:b")),
            ("converge-shop", "Apply", data("f:c")),
            ("kubectl", "Update", data("f:d")),
        ]);
        assert_eq!(
            listed(&renamed(&both, "converge-shop")),
            [
                ("converge-shop Apply".to_owned(), json!({"f:data": {"f:c": {}, "f:a": {}}})),
                ("kubectl Update".to_owned(), data("f:d")),
                ("converge-shop Update".to_owned(), data("f:b")),
            ]
        );
    }
}
