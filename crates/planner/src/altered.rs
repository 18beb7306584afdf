//! Facts that earlier items of a run alter: the next item finds other values than those read before the run.

use converge_resource::{Change, ObjectId, Wait};
use serde_json::Value;
use std::collections::BTreeMap;

/// The facts of one host, by first names, that differ from those that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlteredFacts {
    /// Facts whose new value a change determines.
    predicted: BTreeMap<String, Value>,
    /// Facts whose value is not known before the item that alters them has run.
    unknown: BTreeMap<String, Wait>,
}

impl AlteredFacts {
    /// No fact is altered.
    pub fn is_empty(&self) -> bool {
        self.predicted.is_empty() && self.unknown.is_empty()
    }

    /// The facts whose new value is known.
    pub fn predicted(&self) -> &BTreeMap<String, Value> {
        &self.predicted
    }

    /// The first names of the facts that are not known.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.keys().map(String::as_str)
    }

    /// The reason why the fact of this first name is not known.
    pub fn wait(&self, fact: &str) -> Option<&Wait> {
        self.unknown.get(fact)
    }

    /// Whether an earlier item of this run alters, or may alter, the fact.
    pub fn has(&self, fact: &str) -> bool {
        self.predicted.contains_key(fact) || self.unknown.contains_key(fact)
    }

    /// A word that identifies a set of alterations.
    pub fn key(&self) -> String {
        let unknown: Vec<&String> = self.unknown.keys().collect();
        format!("{:?} {unknown:?}", self.predicted)
    }

    /// The facts that differ from those of an earlier moment, with their new values where these are known.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<(String, Option<Value>)> {
        let known = self.predicted.iter().filter(|(fact, value)| earlier.predicted.get(*fact) != Some(value));
        let unknown = self.unknown.iter().filter(|(fact, wait)| earlier.unknown.get(*fact) != Some(wait));
        let known = known.map(|(fact, value)| (fact.clone(), Some(value.clone())));
        known.chain(unknown.map(|(fact, _)| (fact.clone(), None))).collect()
    }

    /// Records the changes of an item.
    pub(crate) fn by_changes(&mut self, address: &str, changes: &[Change]) {
        for change in changes.iter().filter(|c| c.from != c.to) {
            let Some(object) = converge_objects::object(&change.object.kind) else { continue };
            for (fact, value) in object.effects().alters(change) {
                match value {
                    Some(value) => self.know(fact, value),
                    None => self.forget_by(fact, address),
                }
            }
        }
    }

    /// Records objects that an item may turn out to change.
    pub(crate) fn by_deferred(&mut self, address: &str, objects: &[ObjectId]) {
        for object in objects {
            let Some(kind) = converge_objects::object(&object.kind) else { continue };
            for fact in kind.effects().may_alter(&object.key) {
                self.forget_by(fact, address);
            }
        }
    }

    fn forget_by(&mut self, fact: &str, address: &str) {
        self.forget(fact, address, &format!("`{address}` alters facts.{fact} first"));
    }

    /// The new value of a fact is known.
    pub(crate) fn know(&mut self, fact: &str, value: Value) {
        self.unknown.remove(fact);
        self.predicted.insert(fact.to_owned(), value);
    }

    /// The value of a fact is not known before the item of this address has run.
    pub(crate) fn forget(&mut self, fact: &str, address: &str, reason: &str) {
        self.predicted.remove(fact);
        let wait = Wait { item: address.to_owned(), reason: reason.to_owned() };
        self.unknown.insert(fact.to_owned(), wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::State;

    fn change(kind: &str, key: &str, from: &str, to: &str) -> Change {
        let object = ObjectId::new(kind, key);
        Change { object, from: State::from_line(from), to: State::from_line(to) }
    }

    #[test]
    fn a_change_predicts_or_hides_what_follows_from_it() {
        let mut altered = AlteredFacts::default();
        altered.by_changes("r/name", &[change("hostname", "running", "name a", "name b")]);
        assert_eq!(altered.predicted().get("hostname"), Some(&Value::from("b")));
        // The whole transaction counts, but marks alter nothing.
        let comes = change("package", "containerd", "absent", "present 1 auto -");
        let mark = change("package", "docker.io", "present 1 auto -", "present 1 manual -");
        altered
            .by_changes("r/tool", &[change("package", "tool", "absent", "present 1 manual -"), comes, mark]);
        assert_eq!(altered.unknown().collect::<Vec<_>>(), ["containerd"]);
        assert_eq!(altered.wait("containerd").map(|w| w.item.as_str()), Some("r/tool"));
        altered.by_changes("r/file", &[change("path", "/etc/motd", "absent", "link /x")]);
        assert_eq!(altered.unknown().count(), 1, "a text file alters nothing");
        // The last alteration of a fact counts.
        altered.by_deferred("r/later", &[ObjectId::new("hostname", "running")]);
        assert!(altered.predicted().is_empty() && altered.wait("hostname").is_some());
        altered.by_changes("r/last", &[change("hostname", "running", "name b", "name c")]);
        assert_eq!(altered.predicted().get("hostname"), Some(&Value::from("c")));
    }

    #[test]
    fn an_item_alters_what_was_otherwise_before_it() {
        let mut before = AlteredFacts::default();
        before.by_changes("r/name", &[change("hostname", "running", "name a", "name b")]);
        assert_eq!(before.since(&before.clone()), []);
        let mut after = before.clone();
        after.by_deferred("r/later", &[ObjectId::new("hostname", "running")]);
        assert_eq!(after.since(&before), [("hostname".to_owned(), None)]);
        let name = ("hostname".to_owned(), Some(Value::from("b")));
        assert_eq!(before.since(&after), std::slice::from_ref(&name));
        assert_eq!(before.since(&AlteredFacts::default()), [name]);
    }
}
