//! Sets of fields, as the server records them for each manager (`fieldsV1`).

use super::fields::{Segment, read};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A set of fields, each the path of its names: `f:data`, `k:{"name":"a"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeSet<Vec<String>>);

/// The fields of all of these sets.
impl FromIterator<FieldSet> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Self>>(sets: I) -> Self {
        Self(sets.into_iter().flat_map(|set| set.0).collect())
    }
}

impl FieldSet {
    /// Of a manager's entry in `metadata.managedFields`.
    pub fn of(entry: &Value) -> Self {
        let mut set = Self::default();
        if let Some(fields) = entry.get("fieldsV1") {
            set.take(&mut Vec::new(), fields);
        }
        set
    }

    fn take(&mut self, path: &mut Vec<String>, fields: &Value) {
        for (name, inner) in fields.as_object().into_iter().flatten() {
            if name == "." {
                self.0.insert(path.clone());
                continue;
            }
            path.push(name.clone());
            if inner.as_object().is_none_or(Map::is_empty) {
                self.0.insert(path.clone());
            } else {
                self.take(path, inner);
            }
            path.pop();
        }
    }

    /// As `fieldsV1`.
    pub fn value(&self) -> Value {
        let mut all = json!({});
        for path in &self.0 {
            let member = if self.has_below(path) { Some(".".to_owned()) } else { None };
            lay(&mut all, &mut path.iter().cloned().chain(member));
        }
        all
    }

    /// Whether it has a field below this one.
    fn has_below(&self, path: &[String]) -> bool {
        let next = self.0.range(path.to_vec()..).nth(usize::from(self.0.contains(path)));
        next.is_some_and(|next| next.len() > path.len() && next.starts_with(path))
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// The fields of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    /// The fields that the other one does not have.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    /// The fields at this place of an object, below it, and those above it that are owned as a whole: none of `all` lies below them.
    #[must_use]
    pub fn touching(&self, path: &[Segment], object: &Value, all: &Self) -> Self {
        let counts = |own: &&Vec<String>| {
            leads_along(own, path, object) && (own.len() >= path.len() || !all.has_below(own))
        };
        Self(self.0.iter().filter(counts).cloned().collect())
    }

    /// The fields at this place of an object and below it.
    #[must_use]
    pub fn within(&self, path: &[Segment], object: &Value) -> Self {
        let counts = |own: &&Vec<String>| own.len() >= path.len() && leads_along(own, path, object);
        Self(self.0.iter().filter(counts).cloned().collect())
    }

    /// Its outermost fields, each with its path for people: what lies below another one goes with that. No values of items stand in a path.
    pub fn outermost(&self) -> Vec<(String, Self)> {
        let is_below = |path: &[String]| {
            (0..path.len()).any(|end| path.get(..end).is_some_and(|above| self.0.contains(above)))
        };
        let outer = self.0.iter().filter(|path| !is_below(path));
        outer
            .map(|path| (path.iter().map(|name| shown(name)).collect(), Self([path.clone()].into())))
            .collect()
    }

    /// The fields of which the object has a value.
    #[must_use]
    pub fn present(&self, object: &Value) -> Self {
        Self(self.0.iter().filter(|path| value_at(object, path).is_some()).cloned().collect())
    }

    /// The fields that have one value in both objects. A map or a list of which `all` has fields below counts by being there.
    #[must_use]
    pub fn same(&self, a: &Value, b: &Value, all: &Self) -> Self {
        let same = |path: &&Vec<String>| match (value_at(a, path), value_at(b, path)) {
            (Some(a), Some(b)) => a == b || all.has_below(path),
            _ => false,
        };
        Self(self.0.iter().filter(same).cloned().collect())
    }

    /// The part of an object that these fields are. An item of a list has the fields that tell it from others, whoever owns them.
    #[must_use]
    pub fn part(&self, object: &Value) -> Value {
        let paths: Vec<&[String]> = self.0.iter().map(Vec::as_slice).collect();
        if paths.is_empty() { json!({}) } else { part(object, &paths) }
    }
}

fn part(value: &Value, paths: &[&[String]]) -> Value {
    let below: Vec<(&String, &[String])> = paths.iter().filter_map(|path| path.split_first()).collect();
    let under = |is: &dyn Fn(&String) -> bool| -> Vec<&[String]> {
        below.iter().filter(|(name, _)| is(name)).map(|(_, rest)| *rest).collect()
    };
    match value {
        _ if below.is_empty() => value.clone(),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                let inner = under(&|name| name.strip_prefix("f:") == Some(key));
                (!inner.is_empty()).then(|| (key.clone(), part(value, &inner)))
            };
            Value::Object(map.iter().filter_map(entry).collect())
        }
        Value::Array(items) => {
            let is = |name: &String, item: &Value| {
                value_at(value, std::slice::from_ref(name)).is_some_and(|there| std::ptr::eq(there, item))
            };
            let one = |item: &Value| {
                let inner = under(&|name| is(name, item));
                let mut found = (!inner.is_empty()).then(|| part(item, &inner))?;
                let keys = below
                    .iter()
                    .find(|(name, _)| is(name, item))
                    .and_then(|(name, _)| name.strip_prefix("k:"));
                let keys = keys.and_then(|keys| serde_json::from_str::<Map<String, Value>>(keys).ok());
                found
                    .as_object_mut()
                    .into_iter()
                    .for_each(|found| found.extend(keys.clone().unwrap_or_default()));
                Some(found)
            };
            Value::Array(items.iter().filter_map(one).collect())
        }
        other => other.clone(),
    }
}

fn lay(at: &mut Value, names: &mut dyn Iterator<Item = String>) {
    if let (Some(map), Some(name)) = (at.as_object_mut(), names.next()) {
        lay(map.entry(name).or_insert_with(|| json!({})), names);
    }
}

/// A name of a path for people.
fn shown(name: &str) -> String {
    match name.split_once(':') {
        Some(("f", key)) => format!(".{key}"),
        Some(("k", keys)) => {
            let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return "[…]".to_owned() };
            let key = |(key, value): (&String, &Value)| {
                format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            };
            format!("[{}]", keys.iter().map(key).collect::<Vec<_>>().join(","))
        }
        _ => "[…]".to_owned(),
    }
}

/// Whether the names of a field and a path are the same as far as both go. The server may know an item of a list by other keys than we do.
fn leads_along(names: &[String], path: &[Segment], object: &Value) -> bool {
    names.iter().zip(path).enumerate().all(|(at, (name, segment))| match segment {
        Segment::Key(key) => name.strip_prefix("f:") == Some(key),
        Segment::Item(key, value) => {
            let keys = name.strip_prefix("k:").and_then(|text| serde_json::from_str(text).ok());
            let Some(Value::Object(keys)) = keys else { return false };
            match path.get(..=at).and_then(|path| read(object, path)) {
                Some(item) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
                None => keys.get(key).map(Value::to_string).as_deref() == Some(value),
            }
        }
    })
}

fn value_at<'a>(object: &'a Value, names: &[String]) -> Option<&'a Value> {
    names.iter().try_fold(object, |at, name| match name.split_once(':')? {
        ("f", key) => at.get(key),
        ("k", keys) => {
            let Value::Object(keys) = serde_json::from_str(keys).ok()? else { return None };
            let is = |item: &&Value| keys.iter().all(|(key, value)| item.get(key) == Some(value));
            at.as_array()?.iter().find(is)
        }
        ("v", value) => {
            let value: Value = serde_json::from_str(value).ok()?;
            at.as_array()?.iter().find(|item| **item == value)
        }
        ("i", place) => at.as_array()?.get(place.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written_as_the_server_has_them() {
        let fields = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {}},
            "f:spec": {"f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}, "v:\"y\"": {}}}});
        let set = FieldSet::of(&json!({"fieldsV1": fields}));
        assert_eq!(set.value(), fields);
        let of = |fields: Value| FieldSet::of(&json!({"fieldsV1": fields}));
        let (a, data) = (of(json!({"f:data": {"f:a": {}}})), of(json!({"f:data": {}})));
        assert_eq!(set.and(&a).value(), json!({"f:data": {"f:a": {}}}));
        assert_eq!(set.and(&data).value(), json!({"f:data": {}}));
        assert_eq!(a.or(&data).value(), json!({"f:data": {".": {}, "f:a": {}}}));
        assert_eq!(a.or(&data).without(&a).value(), json!({"f:data": {}}));
    }

    #[test]
    fn a_part_of_an_object_has_these_fields_alone() {
        let port = |port: u16, name: &str| json!({"port": port, "protocol": "TCP", "name": name});
        let object = json!({"data": {"a": "1", "b": "2"}, "metadata": {"finalizers": ["x", "y"], "labels": {"l": "1"}},
            "spec": {"ports": [port(80, "web"), port(81, "more")], "type": "ClusterIP"}});
        let fields = json!({"f:data": {"f:a": {}, "f:gone": {}}, "f:metadata": {"f:labels": {}, "f:finalizers": {"v:\"y\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}});
        let part = FieldSet::of(&json!({"fieldsV1": fields})).part(&object);
        let wanted = json!({"data": {"a": "1"}, "metadata": {"finalizers": ["y"], "labels": {"l": "1"}},
            "spec": {"ports": [{"port": 81, "protocol": "TCP"}]}});
        assert_eq!(part, wanted);
        assert_eq!(FieldSet::default().part(&object), json!({}));
    }

    #[test]
    fn people_read_the_outermost_fields() {
        let set = FieldSet::of(
            &json!({"fieldsV1": {"f:data": {"f:a": {}}, "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}}),
        );
        let shown: Vec<String> = set.outermost().into_iter().map(|(path, _)| path).collect();
        assert_eq!(shown, [".data.a", ".metadata.finalizers[…]", ".spec.ports[port=80,protocol=TCP]"]);
        assert_eq!(set.present(&json!({"data": {"a": "1"}})).value(), json!({"f:data": {"f:a": {}}}));
    }

    #[test]
    fn fields_are_found_by_their_values_too() {
        let before = json!({"data": {"a": "1", "b": "1"}, "list": [{"name": "x", "port": 1}], "args": ["1"]});
        let now = json!({"data": {"a": "1", "b": "2"}, "list": [{"name": "x", "port": 2}], "args": ["2"]});
        let set = FieldSet::of(&json!({"fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}},
            "f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:port": {}}}, "f:args": {}}}));
        let same = json!({"f:data": {".": {}, "f:a": {}}, "f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}});
        assert_eq!(set.same(&before, &now, &set).value(), same);
    }
}
