//! Which facts the text of a project reads, by their first names: `nvidia` of `facts.nvidia.count`.
//!
//! The module reads text and not the lookups of an evaluation, so it may name too many facts, and never too few: some are expensive
//! to ask for, and an answer that was not asked for could not be known.

use std::collections::BTreeSet;

use converge_syntax::{Node, Value};

const WORD: &str = "facts";

/// The end of `facts_before`: the same facts at another moment.
const BEFORE: &str = "_before";

/// Facts by their first names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactNames {
    /// These, and no others.
    Some(BTreeSet<String>),
    /// Any: `facts` is used as a whole.
    All,
}

impl Default for FactNames {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl FactNames {
    /// Is this one among them?
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.contains(name),
        }
    }

    fn add(&mut self, name: &str) {
        if let Self::Some(names) = self {
            names.insert(name.to_owned());
        }
    }

    /// Adds those of another.
    pub fn extend(&mut self, other: &Self) {
        match other {
            Self::All => *self = Self::All,
            Self::Some(names) => names.iter().for_each(|name| self.add(name)),
        }
    }

    /// Adds what this text reads.
    pub(crate) fn scan(&mut self, text: &str) {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        for (at, found) in text.match_indices(WORD) {
            let (before, rest) =
                (text.get(..at).unwrap_or_default(), text.get(at + found.len()..).unwrap_or_default());
            let rest = rest.strip_prefix(BEFORE).unwrap_or(rest);
            if before.ends_with(word) || rest.starts_with(word) {
                continue;
            }
            // `hostvars[host]['facts'].name`
            let rest = rest.strip_prefix("']").or_else(|| rest.strip_prefix("\"]")).unwrap_or(rest);
            let inner = match rest.strip_prefix('.') {
                // The end of a sentence.
                Some(name) if !name.starts_with(word) => continue,
                Some(name) => Some(name),
                None => rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\"")),
            };
            let name = inner.map(|i| i.split_at(i.find(|c| !word(c)).unwrap_or(i.len())));
            match name {
                Some((name, after)) if !name.is_empty() && !after.starts_with('(') => self.add(name),
                _ => *self = Self::All,
            }
        }
    }

    /// Adds what the templates in a variable's value read. A path that has the word in it is none.
    pub(crate) fn scan_variable(&mut self, node: &Node) {
        match &node.value {
            Value::String(text) if text.contains("{{") || text.contains("{%") => self.scan(text),
            Value::List(items) => items.iter().for_each(|item| self.scan_variable(item)),
            Value::Map(entries) => entries.iter().for_each(|(_, value)| self.scan_variable(value)),
            _ => {}
        }
    }

    /// Adds what the texts of a value read.
    pub(crate) fn scan_node(&mut self, node: &Node) {
        match &node.value {
            Value::String(text) => self.scan(text),
            Value::List(items) => items.iter().for_each(|item| self.scan_node(item)),
            Value::Map(entries) => entries.iter().for_each(|(key, value)| {
                self.scan_node(key);
                self.scan_node(value);
            }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> FactNames {
        let mut names = FactNames::default();
        names.scan(text);
        names
    }

    fn some(list: &[&str]) -> FactNames {
        FactNames::Some(list.iter().map(|n| (*n).to_owned()).collect())
    }

    #[test]
    fn first_names_are_found_in_text() {
        let text = "{{ facts.os.id }} {{ hostvars[h].facts['nvidia'].count }} {{ hostvars[h]['facts'].amd }}";
        assert_eq!(names(text), some(&["os", "nvidia", "amd"]));
        assert_eq!(names("facts_before.kubelet.present"), some(&["kubelet"]));
        assert_eq!(names("artefacts of my_facts, facts_x. These are the facts."), some(&[]));
        for whole in ["{{ facts | to_json }}", "facts[name]", "facts.get('nvidia')", "{% set f = facts %}"] {
            assert_eq!(names(whole), FactNames::All, "{whole}");
        }
    }
}
