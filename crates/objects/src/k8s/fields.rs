//! The fields in which two objects of a cluster differ, by path. Items of a list are found by their key, never by their place, where
//! they have one.

pub use converge_resource::Segment;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Names of keys by which Kubernetes finds an item of a list, in the order in which they are tried: the merge keys of its API.
const KEYS: [&str; 7] = ["name", "key", "type", "mountPath", "containerPort", "port", "ip"];

/// The path to a field.
pub type FieldPath = Vec<Segment>;

/// A field that is not the same on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Where.
    pub path: FieldPath,
    /// The old value; `None` if there was none.
    pub before: Option<Value>,
    /// The new value; `None` if the field is removed.
    pub after: Option<Value>,
}

/// A field that deviates: its path, the wanted value, the present value.
pub type Deviation = (FieldPath, Option<Value>, Option<Value>);

/// As people write it: `.spec.template.spec.containers[name=driver].image`.
pub fn shown(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        let _infallible = match segment {
            Segment::Key(key) if key.contains(['.', '/', '[']) => write!(text, "[\"{key}\"]"),
            Segment::Key(key) => write!(text, ".{key}"),
            Segment::Item(key, value) => write!(text, "[{key}={}]", value.trim_matches('"')),
        };
    }
    text
}

/// The key by which the items of both lists are found, if they have one.
fn key_of(lists: [&[Value]; 2]) -> Option<&'static str> {
    let items = || lists.iter().flat_map(|list| list.iter());
    let unique = |key: &str| {
        lists.iter().all(|list| {
            let found: BTreeSet<String> = list
                .iter()
                .filter_map(|item| item.get(key))
                .filter(|v| !v.is_object() && !v.is_array())
                .map(Value::to_string)
                .collect();
            found.len() == list.len()
        })
    };
    items().next()?;
    KEYS.into_iter().find(|key| unique(key))
}

fn item<'a>(list: &'a [Value], key: &str, value: &str) -> Option<&'a Value> {
    list.iter().find(|item| has(item, key, value))
}

/// Whether the key of an item has this value (JSON text).
fn has(item: &Value, key: &str, value: &str) -> bool {
    let text = item.get(key).map(Value::to_string);
    text.as_deref() == Some(value)
}

/// The items of a list by their keys; `None` where they have none.
pub fn items(list: &[Value]) -> Option<Vec<Segment>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    let key = key_of([list, &[]])?;
    let item = |item: &Value| item.get(key).map(|value| Segment::Item(key.to_owned(), value.to_string()));
    list.iter().map(item).collect()
}

/// The differences of two objects, in the order of their keys. A value on one side only is one field, as a whole.
pub fn differences(before: &Value, after: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), before, after, &mut found);
    found
}

fn compare(path: &mut FieldPath, before: &Value, after: &Value, found: &mut Vec<Field>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                one(path, Segment::Key(name.clone()), old.get(name), new.get(name), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => match key_of([old, new]) {
            Some(key) => {
                let names: BTreeSet<String> =
                    old.iter().chain(new).filter_map(|item| item.get(key)).map(Value::to_string).collect();
                for name in names {
                    let (a, b) = (item(old, key, &name), item(new, key, &name));
                    one(path, Segment::Item(key.to_owned(), name), a, b, found);
                }
            }
            None => differ(path, Some(before), Some(after), found),
        },
        _ => differ(path, Some(before), Some(after), found),
    }
}

fn one(
    path: &mut FieldPath,
    segment: Segment,
    old: Option<&Value>,
    new: Option<&Value>,
    found: &mut Vec<Field>,
) {
    path.push(segment);
    match (old, new) {
        (Some(old), Some(new)) => compare(path, old, new, found),
        _ => differ(path, old, new, found),
    }
    path.pop();
}

fn differ(path: &FieldPath, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Field>) {
    found.push(Field { path: path.clone(), before: old.cloned(), after: new.cloned() });
}

/// The value of a field.
pub fn read<'a>(object: &'a Value, path: &[Segment]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, segment| match segment {
        Segment::Key(key) => at.get(key),
        Segment::Item(key, value) => item(at.as_array()?, key, value),
    })
}

/// The reason why an object has no place for a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A key is looked for in a value that has none: the rest of the path from there.
    #[error("{} is no map", shown(.0))]
    NotAMap(FieldPath),
    /// An item is looked for in a value that has none: the rest of the path from there.
    #[error("{} is not a list", shown(.0))]
    NotAList(FieldPath),
}

/// Sets or removes a field. Missing maps and lists above it are created.
///
/// # Errors
/// A value above the field is neither a map nor a list.
pub fn write(object: &mut Value, path: &[Segment], value: Option<Value>) -> Result<(), FieldError> {
    let Some((segment, rest)) = path.split_first() else {
        *object = value.unwrap_or(Value::Null);
        return Ok(());
    };
    match segment {
        Segment::Key(key) => {
            if object.is_null() {
                *object = Value::Object(Map::new());
            }
            let Some(map) = object.as_object_mut() else {
                return Err(FieldError::NotAMap(path.to_vec()));
            };
            if rest.is_empty() && value.is_none() {
                map.shift_remove(key);
                return Ok(());
            }
            match (map.contains_key(key), &value) {
                (false, None) => Ok(()),
                _ => write(map.entry(key.clone()).or_insert(Value::Null), rest, value),
            }
        }
        Segment::Item(key, name) => {
            if object.is_null() {
                *object = Value::Array(Vec::new());
            }
            let Some(list) = object.as_array_mut() else {
                return Err(FieldError::NotAList(path.to_vec()));
            };
            let at = list.iter().position(|item| has(item, key, name));
            match (at, rest.is_empty(), value) {
                (Some(at), true, None) => {
                    list.remove(at);
                    Ok(())
                }
                (None, _, None) => Ok(()),
                (Some(at), _, value) => match list.get_mut(at) {
                    Some(found) => write(found, rest, value),
                    None => Ok(()),
                },
                (None, _, value) => {
                    let named = serde_json::from_str(name).unwrap_or(Value::Null);
                    let mut new = Value::Object(Map::from_iter([(key.clone(), named)]));
                    write(&mut new, rest, value)?;
                    list.push(new);
                    Ok(())
                }
            }
        }
    }
}

/// The same object with these fields as they are to be.
///
/// # Errors
/// As [`write()`].
pub fn with(object: &Value, fields: &[Field]) -> Result<Value, FieldError> {
    let mut new = object.clone();
    for field in fields {
        write(&mut new, &field.path, field.after.clone())?;
    }
    Ok(new)
}

/// Takes out the maps and lists that lost their last entry to these fields, where the wanted object has none there.
pub fn drop_emptied(object: &mut Value, changed: &[Field], wanted: &Value) {
    for field in changed.iter().filter(|field| field.after.is_none()) {
        let mut path = field.path.as_slice();
        while let Some((_, above)) = path.split_last() {
            let empty = read(object, above).is_some_and(is_empty);
            // A field that cannot be written was not emptied.
            if above.is_empty()
                || !empty
                || read(wanted, above).is_some()
                || write(object, above, None).is_err()
            {
                break;
            }
            path = above;
        }
    }
}

/// Whether one of two paths is the other or leads to it.
pub fn touch(a: &[Segment], b: &[Segment]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// Where two objects differ, as fine as maps and lists go: one that is on one side only counts by its entries, so that what others have in the
/// same map or list is left to them. An item of a list that goes, goes as a whole: its key is one of its entries, and nothing is left of it without.
pub fn leaf_differences(before: &Value, after: &Value) -> Vec<Field> {
    differences(before, after).into_iter().flat_map(leaves).collect()
}

fn leaves(field: Field) -> Vec<Field> {
    if field.after.is_none() && matches!(field.path.last(), Some(Segment::Item(..))) {
        return vec![field];
    }
    let ((Some(value), None) | (None, Some(value))) = (&field.before, &field.after) else {
        return vec![field];
    };
    let entries: Vec<(Segment, Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, v)| (Segment::Key(key.clone()), v.clone())).collect(),
        Value::Array(list) => items(list).unwrap_or_default().into_iter().zip(list.iter().cloned()).collect(),
        _ => Vec::new(),
    };
    if entries.is_empty() {
        return vec![field];
    }
    let comes = field.after.is_some();
    let one = |(segment, value): (Segment, Value)| {
        let mut path = field.path.clone();
        path.push(segment);
        let (before, after) = if comes { (None, Some(value)) } else { (Some(value), None) };
        leaves(Field { path, before, after })
    };
    entries.into_iter().flat_map(one).collect()
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Whether two values of a field are one to the server: an empty map or list and none are the same.
fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let blank = |v: Option<&Value>| v.is_none_or(|v| v.is_null() || is_empty(v));
    a == b || (blank(a) && blank(b))
}

/// Fields that do not have the value on this side, with what they have. `after` tells which side.
pub fn deviating(live: &Value, wanted: &[Field], after: bool) -> Vec<Deviation> {
    wanted
        .iter()
        .filter_map(|field| {
            let expected = if after { &field.after } else { &field.before };
            let found = read(live, &field.path);
            let same = is_same(found, expected.as_ref());
            (!same).then(|| (field.path.clone(), expected.clone(), found.cloned()))
        })
        .collect()
}

/// Fields of a change that somebody has given a third value: neither the one before it nor, already, the one after it.
pub fn elsewhere(live: &Value, change: &[Field]) -> Vec<Deviation> {
    let open: Vec<Field> = change.iter().filter(|field| !is_after(live, field)).cloned().collect();
    deviating(live, &open, false)
}

/// The fields in which an object is not as it was left, without those that have their previous value already.
pub fn moved(left: &Value, now: &Value, before: Option<&Value>) -> Vec<Field> {
    let mut all = leaf_differences(left, now);
    all.retain(|field| before.is_none_or(|before| read(before, &field.path) != field.after.as_ref()));
    all
}

/// Whether a field has the value after its change already.
fn is_after(live: &Value, field: &Field) -> bool {
    is_same(read(live, &field.path), field.after.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn items_of_lists_are_found_by_their_key() {
        let before = json!({"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b"}], "args": ["1", "2"]}});
        let after =
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "image": "x:2"}], "args": ["2"]}});
        let found = differences(&before, &after);
        let paths: Vec<String> = found.iter().map(|f| shown(&f.path)).collect();
        assert_eq!(paths, [".spec.args", ".spec.containers[name=a].image"]);
        assert_eq!(read(&after, &found[1].path), Some(&json!("x:2")));
        assert_eq!(differences(&with(&before, &found).unwrap(), &after), []);
    }

    #[test]
    fn what_comes_and_goes_is_one_field() {
        let before = json!({"metadata": {"labels": {"a.b/c": "1"}}});
        let after = json!({"metadata": {}, "data": {"k": {"x": 1}}});
        let found = differences(&before, &after);
        let paths: Vec<String> = found.iter().map(|f| shown(&f.path)).collect();
        assert_eq!(paths, [".data", ".metadata.labels"]);
        assert_eq!(with(&before, &found).unwrap(), json!({"metadata": {}, "data": {"k": {"x": 1}}}));
        // A field of a missing object is created with the maps above it, and removed without a trace of them.
        let mut bare = json!({});
        let path = vec![
            Segment::Key("spec".into()),
            Segment::Item("name".into(), "\"a\"".into()),
            Segment::Key("image".into()),
        ];
        write(&mut bare, &path, None).unwrap();
        assert_eq!(bare, json!({}));
        write(&mut bare, &path, Some(json!("x"))).unwrap();
        assert_eq!(bare, json!({"spec": [{"name": "a", "image": "x"}]}));
        assert!(write(&mut json!({"spec": 1}), &path, Some(json!(1))).is_err());
    }

    #[test]
    fn a_map_that_came_with_its_entries_goes_with_them() {
        let before = json!({"spec": {"plugin": {"enabled": true}, "empty": {}}});
        let after = json!({"spec": {"plugin": {"enabled": true, "config": {"name": "n", "default": "any"}}, "empty": {"a": 1}}});
        let back = leaf_differences(&after, &before);
        let mut new = with(&after, &back).unwrap();
        drop_emptied(&mut new, &back, &before);
        assert_eq!(new, before);
        // Entries that others have added stay.
        let mut live = after;
        live["spec"]["plugin"]["config"]["more"] = json!(1);
        let mut new = with(&live, &back).unwrap();
        drop_emptied(&mut new, &back, &before);
        assert_eq!(new["spec"]["plugin"]["config"], json!({"more": 1}));
    }

    #[test]
    fn an_item_of_a_list_goes_as_a_whole() {
        let before = json!({"env": [{"name": "A", "value": "1"}], "volumes": [{"name": "a", "hostPath": {"path": "/a"}}]});
        let after = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "volumes": [{"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "configMap": {"name": "b", "defaultMode": 420}}]});
        let back = leaf_differences(&after, &before);
        let mut new = with(&after, &back).unwrap();
        drop_emptied(&mut new, &back, &before);
        assert_eq!(new, before);
        // Fields that the server adds to a new item are not compared.
        let bare = json!({"env": after["env"], "volumes": [before["volumes"][0], {"name": "b", "configMap": {"name": "b"}}]});
        assert_eq!(deviating(&after, &leaf_differences(&before, &bare), true), []);
    }

    #[test]
    fn a_map_that_comes_counts_by_its_entries() {
        let before = json!({"metadata": {"name": "x"}});
        let after = json!({"metadata": {"name": "x", "labels": {"a": "1"}}});
        let planned = leaf_differences(&before, &after);
        let live = json!({"metadata": {"name": "x", "labels": {"theirs": "2"}}});
        assert_eq!(deviating(&live, &planned, false), []);
        let new = with(&live, &planned).unwrap();
        assert_eq!(new["metadata"]["labels"], json!({"theirs": "2", "a": "1"}));
        let moved = json!({"metadata": {"name": "x", "labels": {"a": "0"}}});
        let found = deviating(&moved, &planned, false);
        let none = (planned[0].path.clone(), None, Some(json!("0")));
        assert_eq!(found, [none]);
        // Back: what others have stays.
        let back = leaf_differences(&after, &before);
        assert_eq!(with(&new, &back).unwrap()["metadata"]["labels"], json!({"theirs": "2"}));
    }

    #[test]
    fn a_list_that_comes_counts_by_its_items() {
        let before = json!({"spec": {"podCIDR": "10.1.0.0/24"}});
        let after =
            json!({"spec": {"podCIDR": "10.1.0.0/24", "taints": [{"key": "ours", "effect": "NoSchedule"}]}});
        let mut live = after.clone();
        live["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "theirs", "effect": "NoExecute"}));
        let back = leaf_differences(&after, &before);
        assert_eq!(deviating(&live, &back, false), []);
        let mut new = with(&live, &back).unwrap();
        drop_emptied(&mut new, &back, &before);
        assert_eq!(new["spec"]["taints"], json!([{"key": "theirs", "effect": "NoExecute"}]));
        let mut new = with(&after, &back).unwrap();
        drop_emptied(&mut new, &back, &before);
        assert_eq!(new, before);
        // A list whose items have no key is one field.
        assert_eq!(leaf_differences(&json!({}), &json!({"args": ["a", "b"]})).len(), 1);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!(true)), Just(json!("y"))];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|m| json!(m)),
                proptest::collection::btree_map("[a-c]", inner.clone(), 0..3).prop_map(|m| {
                    let named = |(name, v): (String, Value)| json!({"name": name, "value": v});
                    Value::Array(m.into_iter().map(named).collect())
                }),
                proptest::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_differences_lead_there_and_back(a in value(), b in value()) {
            let forth = differences(&a, &b);
            let there = with(&a, &forth).unwrap();
            prop_assert!(differences(&there, &b).is_empty(), "{there} {b}");
            let back: Vec<Field> = forth
                .into_iter()
                .map(|f| Field { path: f.path, before: f.after, after: f.before })
                .collect();
            let again = with(&there, &back).unwrap();
            prop_assert!(differences(&again, &a).is_empty(), "{again} {a}");
        }
    }
}
