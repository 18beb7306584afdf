//! Parts of objects: what a change makes of the fields that its item declares, and how they go back.

use super::fields::{self, FieldPath, Segment, read, shown};
use converge_resource::{ApiRef, ChangedPart, ObjectId};
use serde_json::Value;
use std::collections::BTreeSet;

/// The parts among these declared fields that differ in the two states of an object. An item of a list that comes or goes as a whole is a part too.
pub fn changed(from: &Value, to: &Value, declared: &[&FieldPath]) -> Vec<ChangedPart> {
    let mut paths: BTreeSet<FieldPath> = BTreeSet::new();
    for path in declared.iter().map(|path| distinct(from, to, path)) {
        let items = (1..path.len()).filter_map(|end| path.get(..end));
        let comes_or_goes = |item: &&[Segment]| {
            matches!(item.last(), Some(Segment::Item(..)))
                && read(from, item).is_some() != read(to, item).is_some()
        };
        paths.extend(items.filter(comes_or_goes).map(<[Segment]>::to_vec));
        if !is_key_of_item(&path) {
            paths.insert(path);
        }
    }
    let part = |path: FieldPath| ChangedPart {
        depth: (0..path.len())
            .take_while(|end| path.get(..=*end).is_some_and(|way| read(from, way).is_some()))
            .count(),
        before: read(from, &path).cloned(),
        after: read(to, &path).cloned(),
        dropped: false,
        path,
    };
    paths.into_iter().map(part).filter(|part| part.before != part.after).collect()
}

/// A path as far as it leads to one field: the key of an item need not be the only one of its kind, as that of two taints with different effects.
fn distinct(from: &Value, to: &Value, path: &FieldPath) -> FieldPath {
    let is_unclear = |end: usize| {
        let (Some(list), Some(Segment::Item(key, value))) = (path.get(..end), path.get(end)) else {
            return false;
        };
        let has = |item: &&Value| item.get(key).map(Value::to_string).as_ref() == Some(value);
        let several = |object| {
            read(object, list)
                .and_then(Value::as_array)
                .is_some_and(|items| items.iter().filter(has).count() > 1)
        };
        several(from) || several(to)
    };
    let end = (0..path.len()).find(|end| is_unclear(*end)).unwrap_or(path.len());
    path.iter().take(end).cloned().collect()
}

/// Whether it is the field by which an item of a list is found: it is there as long as the item.
fn is_key_of_item(path: &[Segment]) -> bool {
    matches!(path, [.., Segment::Item(key, _), Segment::Key(field)] if key == field)
}

/// The fields of a value below this path, as fine as maps go.
pub fn leaves(path: &FieldPath, value: Option<&Value>) -> Vec<FieldPath> {
    match value.and_then(Value::as_object).filter(|map| !map.is_empty()) {
        None => vec![path.clone()],
        Some(map) => {
            let below = |(key, value): (&String, &Value)| {
                let path = path.iter().cloned().chain([Segment::Key(key.clone())]).collect();
                leaves(&path, Some(value))
            };
            map.iter().flat_map(below).collect()
        }
    }
}

/// Whether a field still has a value that was set: what the server or others have added to a map below it does not count.
pub fn holds(now: Option<&Value>, set: Option<&Value>) -> bool {
    match (now, set) {
        (Some(Value::Object(now)), Some(Value::Object(set))) => {
            set.iter().all(|(key, value)| holds(now.get(key), Some(value)))
        }
        (Some(Value::Array(now)), Some(Value::Array(set))) => {
            now.len() == set.len() && now.iter().zip(set).all(|(now, set)| holds(Some(now), Some(set)))
        }
        (now, set) => now == set,
    }
}

/// The object with these fields as they were before: each with its path, its depth ([`ChangedPart::depth`]) and its previous value.
///
/// # Errors
/// A value above a field is neither a map nor a list.
pub fn back(
    object: &Value,
    parts: &[(&FieldPath, usize, Option<&Value>)],
) -> Result<Value, fields::FieldError> {
    let mut made = object.clone();
    for (path, _, before) in parts {
        fields::write(&mut made, path, before.cloned())?;
    }
    for (path, depth, _) in parts.iter().filter(|(.., before)| before.is_none()) {
        for end in (depth.saturating_add(1)..path.len()).rev() {
            let Some(above) = path.get(..end) else { continue };
            let is_empty = |value: &Value| {
                value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            if !read(&made, above).is_some_and(is_empty) {
                break;
            }
            fields::write(&mut made, above, None)?;
        }
    }
    Ok(made)
}

/// Fields of one sort: the words for one and for several, and their names.
type PartNames = ((&'static str, &'static str), BTreeSet<String>);

/// Parts of an object for people: `labels a, b; taint gpu of node n`.
pub fn named(object: &ObjectId, paths: &[&FieldPath]) -> String {
    let whole = ApiRef::from_key(&object.key);
    let kind = whole.as_ref().map_or("", |object| object.kind.as_str());
    let mut sorts: Vec<PartNames> = Vec::new();
    for path in paths {
        let (words, name) = sort(kind, path);
        match sorts.iter_mut().find(|(of, _)| *of == words) {
            Some((_, names)) => drop(names.insert(name)),
            None => sorts.push((words, BTreeSet::from([name]))),
        }
    }
    let one = |((one, several), names): &PartNames| {
        let word = if names.len() == 1 { one } else { several };
        format!("{word} {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    let all: Vec<String> = sorts.iter().map(one).collect();
    format!("{} of {}", all.join("; "), whole.map_or_else(|| object.to_string(), |object| object.shown()))
}

/// The words for a field of an object of this kind, and its name.
fn sort(kind: &str, path: &[Segment]) -> ((&'static str, &'static str), String) {
    let keys: Vec<&str> = path
        .iter()
        .map(|segment| match segment {
            Segment::Key(key) => key.as_str(),
            Segment::Item(_, value) => value.trim_matches('"'),
        })
        .collect();
    match (kind, keys.as_slice()) {
        (_, ["metadata", "labels", name]) => (("label", "labels"), (*name).to_owned()),
        (_, ["metadata", "annotations", name]) => (("annotation", "annotations"), (*name).to_owned()),
        ("Node", ["spec", "taints", name]) => (("taint", "taints"), (*name).to_owned()),
        ("ConfigMap", ["data" | "binaryData", name]) => (("key", "keys"), (*name).to_owned()),
        _ => (("field", "fields"), shown(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn way(keys: &[&str]) -> FieldPath {
        let one = |key: &&str| match key.split_once('=') {
            Some((key, value)) => Segment::Item(key.to_owned(), json!(value).to_string()),
            None => Segment::Key((*key).to_owned()),
        };
        keys.iter().map(one).collect()
    }

    #[test]
    fn only_declared_fields_that_change_are_parts_and_they_go_back() {
        let before =
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [{"name": "x", "port": 1}]}});
        let after = json!({"metadata": {"labels": {"a": "2", "b": "1"}}, "spec": {"ports": [{"name": "x", "port": 1, "nodePort": 3}],
            "env": [{"name": "E", "value": "1"}], "config": {"name": "c"}}});
        let declared = [
            way(&["metadata", "labels", "a"]),
            way(&["metadata", "labels", "b"]),
            way(&["spec", "env", "name=E", "name"]),
            way(&["spec", "env", "name=E", "value"]),
            way(&["spec", "config", "name"]),
            way(&["spec", "ports", "name=x", "port"]),
        ];
        let parts = changed(&before, &after, &declared.iter().collect::<Vec<_>>());
        let names: Vec<String> = parts.iter().map(|part| shown(&part.path)).collect();
        assert_eq!(
            names,
            [
                ".metadata.labels.a",
                ".metadata.labels.b",
                ".spec.config.name",
                ".spec.env[name=E]",
                ".spec.env[name=E].value"
            ]
        );
        let taken: Vec<_> = parts.iter().take(4).map(|p| (&p.path, p.depth, p.before.as_ref())).collect();
        let mut made = back(&after, &taken).unwrap();
        // A value that the server has drawn is nobody's part.
        made["spec"]["ports"][0].as_object_mut().unwrap().remove("nodePort");
        assert_eq!(made, before);
    }

    #[test]
    fn a_field_that_was_taken_away_comes_back() {
        let (before, after) = (json!({"data": {"a": "1", "b": "2"}}), json!({"data": {"b": "2"}}));
        let path = way(&["data", "a"]);
        let parts = changed(&before, &after, &[&path]);
        assert_eq!((parts[0].before.clone(), parts[0].after.clone()), (Some(json!("1")), None));
        assert_eq!(back(&after, &[(&path, 2, parts[0].before.as_ref())]).unwrap(), before);
    }

    #[test]
    fn two_items_with_one_key_are_not_distinguished() {
        let taint = |effect: &str| json!({"key": "a", "effect": effect});
        let before = json!({"spec": {"taints": [taint("NoExecute")]}});
        let after = json!({"spec": {"taints": [taint("NoExecute"), taint("NoSchedule")]}});
        let parts = changed(&before, &after, &[&way(&["spec", "taints", "key=a"])]);
        assert_eq!(parts.iter().map(|p| shown(&p.path)).collect::<Vec<_>>(), [".spec.taints"]);
    }

    #[test]
    fn parts_are_named_by_their_sort() {
        let node = ObjectId::new("k8s", "v1/Node/n");
        let paths = [
            way(&["metadata", "labels", "b"]),
            way(&["metadata", "labels", "a"]),
            way(&["spec", "taints", "key=x"]),
        ];
        assert_eq!(named(&node, &paths.iter().collect::<Vec<_>>()), "labels a, b; taint x of node n");
        let set = ObjectId::new("k8s", "apps/v1/DaemonSet/n/d");
        assert_eq!(named(&set, &[&way(&["spec", "x"])]), "field .spec.x of daemonset n/d");
    }

    #[test]
    fn what_others_add_below_a_field_does_not_change_it() {
        let set = json!({"name": "v", "configMap": {"name": "c"}});
        let now = json!({"name": "v", "configMap": {"name": "c", "defaultMode": 420}});
        assert!(holds(Some(&now), Some(&set)) && !holds(Some(&set), Some(&now)) && !holds(None, Some(&set)));
        assert!(holds(None, None));
    }
}
