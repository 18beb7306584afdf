//! The owners of an object's fields before the changes that are taken back, from the records of these. Pure.

use super::{ChangeDoc, RunDoc};
use crate::ownership::{Owners, is_own, under};
use converge_objects::k8s::field_set::FieldSet;
use converge_resource::{FIELD_MANAGER, FieldOwners, ObjectId, State};
use serde_json::Value;

/// The owners before a change under the name of this manager, and after it. Of an object that was not there nobody owned anything.
pub(crate) fn field_owners(
    found: Option<Vec<Value>>,
    left: Option<Vec<Value>>,
    manager: &str,
) -> Option<FieldOwners> {
    let parted = |entries: Vec<Value>| entries.into_iter().partition(|e| is_own(e, manager));
    let (found, others_found) = parted(found.unwrap_or_default());
    let (left, others_left) = parted(left?);
    Some(FieldOwners { found, left, others_found, others_left })
}

/// The owners before the changes of an object by these runs, and the state that the first of them found. `None` where they did not change it.
pub(crate) fn owners_before(
    docs: &[RunDoc],
    object: &ObjectId,
    counts: &dyn Fn(&RunDoc) -> bool,
    manager: &str,
) -> Option<(State, Owners)> {
    let mut docs: Vec<&RunDoc> = docs.iter().filter(|doc| counts(doc)).collect();
    docs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    let of_it = |doc: &&'_ RunDoc| -> Vec<(String, ChangeDoc)> {
        let name = doc.manager.clone().unwrap_or_else(|| FIELD_MANAGER.to_owned());
        let changes =
            doc.changes.iter().filter(|c| c.object == *object && c.outcome != Some(super::ChangeEnd::Moved));
        changes.map(|change| (name.clone(), change.clone())).collect()
    };
    let mut changes = docs.iter().flat_map(of_it).peekable();
    let before = changes.peek()?.1.before.clone();
    // Of an object that was not there nobody owned anything.
    let mut owners = Owners { own: before.is_absent().then(Vec::new), ..Owners::default() };
    let mut is_first = true;
    for (name, change) in changes {
        let recorded = change.owners.map(|entries| {
            // The project may have got its name since.
            let renamed = |e: Value| if is_own(&e, &name) { under(e, manager) } else { e };
            entries.into_iter().map(renamed).partition::<Vec<Value>, _>(|e| is_own(e, manager))
        });
        if let Some((own, others)) = recorded {
            owners.then(&others);
            if let Some(left) = change.owners_left {
                let left: Vec<Value> = left.into_iter().filter(|e| !is_own(e, &name)).collect();
                let has: FieldSet = left.iter().map(FieldSet::of).collect();
                let had: FieldSet = others.iter().map(FieldSet::of).collect();
                owners.taken = owners.taken.or(&had.without(&has));
                owners.give(&others, &left);
            }
            if is_first {
                owners.own = Some(own);
            }
        }
        for (path, by) in change.managers {
            owners.by_path.entry(path).or_insert(by);
        }
        owners.applied = change.applied.or(owners.applied);
        is_first = false;
    }
    Some((before, owners))
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_executor::RunMeta;
    use serde_json::json;

    fn doc(seq: u64, change: &Value) -> RunDoc {
        let mut whole = json!({"seq": 1, "object": {"kind": "k8s", "key": "v1/ConfigMap/n/x"}, "before": "object a",
            "after": "object b", "item": "r/i", "outcome": "done"});
        for (key, value) in change.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let meta = RunMeta { id: seq.to_string(), ..RunMeta::default() };
        RunDoc { seq: Some(seq), changes: vec![serde_json::from_value(whole).unwrap()], ..RunDoc::of(&meta) }
    }

    fn owners(docs: &[RunDoc], runs: &[&str]) -> Option<(State, Owners)> {
        let object = ObjectId::new("k8s", "v1/ConfigMap/n/x");
        owners_before(docs, &object, &|doc| runs.contains(&doc.id.as_str()), "converge-a")
    }

    #[test]
    fn the_first_change_says_what_the_project_owned_and_each_what_it_took() {
        let entry = |manager: &str, key: &str| json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {key: {}}}});
        let docs = [
            doc(
                2,
                &json!({"owners": [entry("converge-a", "f:x"), entry("late", "f:y"), entry("late", "f:z")]}),
            ),
            // Before the project had a name.
            doc(
                1,
                &json!({"before": "object 0", "owners": [entry("converge", "f:a"), entry("first", "f:y")]}),
            ),
        ];
        let (before, found) = owners(&docs, &["1", "2"]).unwrap();
        assert_eq!(before.line(), "object 0");
        assert_eq!(found.own, Some(vec![entry("converge-a", "f:a")]));
        assert_eq!(found.others, [entry("first", "f:y"), entry("late", "f:z")]);
        assert_eq!(owners(&docs, &["2"]).unwrap().1.own, Some(vec![entry("converge-a", "f:x")]));
        assert_eq!(owners(&docs, &["3"]), None);
        // Of an object that was not there nobody owned anything.
        let made = [doc(1, &json!({"before": "absent"}))];
        assert_eq!(owners(&made, &["1"]).unwrap().1.own, Some(Vec::new()));
    }

    #[test]
    fn what_changes_gave_to_others_is_known() {
        let entry = |manager: &str, keys: &[&str]| {
            let fields: serde_json::Map<String, Value> =
                keys.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
            json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": fields}})
        };
        let gives = json!({"owners": [entry("converge-a", &["f:x"]), entry("argo", &["f:y"])], "owners_left": [entry("argo", &["f:x", "f:y"])]});
        let takes = json!({"owners": [entry("argo", &["f:x", "f:y"])], "owners_left": [entry("converge-a", &["f:x"]), entry("argo", &["f:y"])]});
        let mut docs = [doc(1, &gives), doc(2, &takes)];
        docs.iter_mut().for_each(|doc| doc.manager = Some("converge-a".to_owned()));
        assert_eq!(owners(&docs, &["1"]).unwrap().1.given, [entry("argo", &["f:x"])]);
        assert_eq!(owners(&docs, &["1", "2"]).unwrap().1.given, [] as [Value; 0]);
    }

    #[test]
    fn records_of_older_versions_are_read() {
        let docs = [
            doc(1, &json!({"managers": {".data.a": "kubectl"}})),
            doc(2, &json!({"applied": {"f:data": {"f:b": {}}}, "after": "absent"})),
        ];
        let found = owners(&docs, &["1", "2"]).unwrap().1;
        assert_eq!((found.own, found.others), (None, Vec::new()));
        assert_eq!(found.by_path.get(".data.a").map(String::as_str), Some("kubectl"));
        assert_eq!(found.applied, Some(json!({"f:data": {"f:b": {}}})));
    }
}
