//! The managed objects of a cluster, as the Secret `owned` keeps them: the base over which the runs are folded that it does not name. Pure.

use crate::records::{FORMAT, Record};
use converge_ledger::{Entry, ManagedObjects, ManagedPart, MountLayer, OwnedObject, ProjectName};
use converge_resource::{ObjectId, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnedDoc {
    format: u32,
    things: Vec<OwnedThing>,
    /// The runs that it holds. Those of older formats wrote themselves into it and are not named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    folded: BTreeSet<String>,
}

impl Default for OwnedDoc {
    fn default() -> Self {
        Self { format: FORMAT, things: Vec::new(), folded: BTreeSet::new() }
    }
}

impl Record for OwnedDoc {
    const NEWEST: u32 = FORMAT;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnedThing {
    object: ObjectId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heir_by: Option<String>,
    scope: ProjectName,
    roles: Vec<String>,
    item: String,
    since: String,
    run: String,
    before: State,
    left: State,
    /// The other end of the last change, when that was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<State>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    between: Vec<(State, State)>,
    #[serde(default)]
    sensitive: bool,
    #[serde(rename = "unsaved", default, skip_serializing_if = "Option::is_none")]
    no_snapshot: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<ManagedPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earlier: Option<Box<OwnedThing>>,
}

impl OwnedThing {
    fn of(entry: &Entry) -> Self {
        let t = entry.thing.clone();
        Self {
            object: t.object,
            uid: t.uid,
            heir_by: t.heir_by,
            scope: t.scope,
            roles: t.roles,
            item: t.item,
            since: t.since,
            run: t.run,
            before: t.before,
            left: t.left,
            open: t.open,
            between: t.between,
            sensitive: t.sensitive,
            no_snapshot: t.no_snapshot,
            parts: t.parts,
            gone_by: entry.gone_by.clone(),
            earlier: entry.earlier.as_deref().map(Self::of).map(Box::new),
        }
    }

    fn entry(self) -> Entry {
        let thing = OwnedObject {
            object: self.object,
            // A cluster mounts nothing.
            layer: MountLayer::default(),
            lies_in: Vec::new(),
            uid: self.uid,
            heir_by: self.heir_by,
            scope: self.scope,
            roles: self.roles,
            item: self.item,
            since: self.since,
            run: self.run,
            // In a cluster an apply takes over what it declares.
            adopted_by: None,
            before: self.before,
            // No directory of a host has a part in it.
            made_in: BTreeSet::new(),
            // No foreign code of an item is watched in a cluster.
            moved: None,
            left: self.left,
            open: self.open,
            between: self.between,
            sensitive: self.sensitive,
            // An object that an item of a cluster changes belongs to its role. Nothing goes back by way of a host.
            by_product: false,
            no_snapshot: self.no_snapshot,
            node_removal: None,
            guard: None,
            parts: self.parts,
        };
        let earlier = self.earlier.map(|earlier| Box::new(earlier.entry()));
        Entry { thing, gone_by: self.gone_by, earlier }
    }
}

impl OwnedDoc {
    pub(crate) fn of(managed: &ManagedObjects) -> Self {
        let things = managed.entries.iter().map(OwnedThing::of).collect();
        Self { format: FORMAT, things, folded: managed.folded.clone() }
    }

    pub(crate) fn managed(self) -> ManagedObjects {
        ManagedObjects {
            entries: self.things.into_iter().map(OwnedThing::entry).collect(),
            folded: self.folded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ChangeDoc, ChangeEnd, RunDoc, pack, secret, unpack};
    use converge_executor::RunMeta;
    use converge_ledger::fold;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn change(before: &str, after: &str, owner: Option<&str>, outcome: Option<ChangeEnd>) -> ChangeDoc {
        ChangeDoc {
            seq: 1,
            object: ObjectId::new("k8s", "v1/ConfigMap/n/x"),
            before: State::from_line(before),
            after: State::from_line(after),
            item: "r/i".to_owned(),
            owner: owner.map(str::to_owned),
            uid: Some("u1".to_owned()),
            sensitive: false,
            in_part: false,
            no_snapshot: None,
            waits: None,
            parts: Vec::new(),
            owners: None,
            owners_left: None,
            managers: BTreeMap::new(),
            applied: None,
            outcome,
        }
    }

    fn run(id: &str, changes: Vec<ChangeDoc>) -> RunDoc {
        let meta = RunMeta { id: id.to_owned(), time: "t".to_owned(), ..RunMeta::default() };
        RunDoc { changes, ..RunDoc::of(&meta) }
    }

    #[test]
    fn a_record_of_the_version_before_means_the_same() {
        let old = json!({"format": 1, "things": [
            {"object": {"kind": "k8s", "key": "v1/ConfigMap/n/x"}, "uid": "u1",
             "scope": {"playbook": "p", "inventory": "i"}, "roles": ["s", "r"], "item": "s/i", "since": "t", "run": "a",
             "before": "absent", "left": "object 2", "between": [["object 0", "object 1"]], "sensitive": true},
            {"object": {"kind": "k8s", "key": "v1/ConfigMap/n/y"}, "scope": {"playbook": "p", "inventory": "i"},
             "roles": ["r"], "item": "r/i", "since": "t", "run": "a", "before": "absent", "left": "absent",
             "sensitive": false, "gone_by": "b"},
        ]});
        let doc: OwnedDoc = unpack(&secret("owned", "owned", None, &pack(&old).unwrap(), &[])).unwrap();
        let managed = doc.managed();
        let things: Vec<_> = managed.present().collect();
        assert_eq!(
            (things.len(), things[0].roles.join(","), things[0].uid.as_deref()),
            (1, "s,r".to_owned(), Some("u1"))
        );
        assert_eq!(managed.entries[1].gone_by.as_deref(), Some("b"));
        // Written again it is what it was.
        assert_eq!(serde_json::to_value(OwnedDoc::of(&managed)).unwrap(), old);
    }

    #[test]
    fn what_a_cut_off_run_made_is_managed() {
        let cut = run("a", vec![change("absent", "object 1", Some("r"), None)]);
        let managed = fold(OwnedDoc::default().managed(), &[cut.clone().record()]);
        assert_eq!(managed.present().count(), 1);
        let again = OwnedDoc::of(&managed).managed();
        assert_eq!(again, managed);
        assert_eq!(fold(again, &[cut.record()]), managed, "it is folded once");
    }

    #[test]
    fn what_others_have_in_an_object_does_not_keep_it_managed_after_a_rollback() {
        let first = run("a", vec![change("object 1", "object 2", Some("r"), Some(ChangeEnd::Done))]);
        // Another client has set another field meanwhile: it does not come to stand exactly as before.
        let back = vec![change("object 3", "object 4", None, Some(ChangeEnd::Done))];
        let back = RunDoc { rollback: Some(Vec::new()), rolls_back: vec!["a".to_owned()], ..run("b", back) };
        let managed = fold(ManagedObjects::default(), &[first.record(), back.record()]);
        assert_eq!(managed.present().count(), 0);
    }

    #[test]
    fn what_foreign_code_moves_is_as_the_run_left_it() {
        let made = run("a", vec![change("absent", "object 1", Some("r"), Some(ChangeEnd::Done))]);
        let moved = run("b", vec![change("object 1", "object 2", None, Some(ChangeEnd::Moved))]);
        let managed = fold(ManagedObjects::default(), &[made.record(), moved.record()]);
        assert_eq!(managed.entries[0].thing.left, State::from_line("object 2"));
    }
}
