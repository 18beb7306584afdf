//! The parts of a managed object: fields that items of the project have set while others have further fields of it.

use crate::{ManagedPart, OwnedObject, RunPurpose, RunRecord, SavedChange};
use std::collections::BTreeSet;

/// The parts after a change of their object that came out as planned. A prune and a rollback of the run that first set one give it back; it is the
/// project's again when that run is rolled back.
pub(crate) fn follow(
    thing: &mut OwnedObject,
    run: &RunRecord,
    change: &SavedChange,
    reverts: &BTreeSet<&str>,
) {
    let is_of = |part: &ManagedPart| match &run.purpose {
        RunPurpose::Rollback(roles) if !roles.is_empty() => roles.contains(&part.role),
        _ => true,
    };
    for part in thing.parts.iter_mut().filter(|part| is_of(part)) {
        match &part.gone_by {
            _ if reverts.contains(part.run.as_str()) => part.gone_by = Some(run.id.clone()),
            Some(by) if reverts.contains(by.as_str()) => part.gone_by = None,
            _ => {}
        }
    }
    let Some(role) = &change.owner else { return };
    for new in &change.parts {
        let known = thing.parts.iter_mut().find(|p| p.gone_by.is_none() && p.first.path == new.path);
        match known {
            Some(known) if new.dropped => known.gone_by = Some(run.id.clone()),
            Some(known) => {
                if [&known.first].into_iter().chain(&known.later).all(|set| set.after != new.after) {
                    known.later.push(new.clone());
                }
                (known.role, known.item) = (role.clone(), change.item.clone());
            }
            None if new.dropped => {}
            None => thing.parts.push(ManagedPart {
                first: new.clone(),
                later: Vec::new(),
                role: role.clone(),
                item: change.item.clone(),
                run: run.id.clone(),
                seq: change.seq,
                gone_by: None,
            }),
        }
    }
}

/// Whether a change gives parts of an object back, and nothing else: the object remains its roles', as their items left it.
pub(crate) fn gives_back_parts(change: &SavedChange) -> bool {
    change.parts.iter().any(|part| part.dropped)
}

/// Forgets parts that were given back by runs that are not recorded any more.
pub(crate) fn forget_gone(thing: &mut OwnedObject, is_recorded: &dyn Fn(&str) -> bool) {
    thing.parts.retain(|part| part.gone_by.as_deref().is_none_or(is_recorded));
}

#[cfg(test)]
mod tests {
    use crate::{ManagedObjects, ManagedPart, RunPurpose, RunRecord, SavedChange, SavedOutcome, fold};
    use converge_resource::{ChangedPart, ObjectId, Segment, State};

    /// A change of one part; a prune gives it back.
    fn change(before: &str, after: &str, owner: Option<&str>, dropped: bool) -> SavedChange {
        let path = ["metadata", "labels", "a"].map(|key| Segment::Key(key.to_owned())).to_vec();
        let value = |state: &str| (state != "object 0").then(|| state.into());
        let part = ChangedPart { path, depth: 2, before: value(before), after: value(after), dropped };
        SavedChange {
            seq: 1,
            object: ObjectId::new("k8s", "v1/Node/n"),
            before: State::from_line(before),
            after: State::from_line(after),
            goal: State::from_line(after),
            real_dir: None,
            item: "r/item".to_owned(),
            owner: owner.map(str::to_owned),
            uid: None,
            sensitive: false,
            no_snapshot: None,
            node_removal: None,
            guard: None,
            parts: owner.map(|_| part).into_iter().collect(),
            owners: None,
            outcome: SavedOutcome::Done,
            arrived: false,
        }
    }

    fn run(id: &str, change: SavedChange) -> RunRecord {
        RunRecord { id: id.to_owned(), changes: vec![change], ..RunRecord::default() }
    }

    fn rollback(id: &str, of: &[&str], change: SavedChange) -> RunRecord {
        let rolls_back = of.iter().map(|run| (*run).to_owned()).collect();
        RunRecord { purpose: RunPurpose::Rollback(Vec::new()), rolls_back, ..run(id, change) }
    }

    fn parts(runs: &[RunRecord]) -> Vec<ManagedPart> {
        let managed = fold(ManagedObjects::default(), runs);
        let parts = managed.entries.into_iter().flat_map(|entry| entry.thing.parts);
        parts.filter(|part| part.gone_by.is_none()).collect()
    }

    #[test]
    fn a_part_has_its_first_value_until_a_prune_or_a_rollback_gives_it_back() {
        let mut runs = vec![
            run("1", change("object 0", "object 1", Some("r"), false)),
            run("2", change("object 1", "object 2", Some("s"), false)),
        ];
        let found = parts(&runs);
        assert_eq!((found.len(), found[0].first.before.clone(), found[0].later.len()), (1, None, 1));
        assert_eq!((found[0].role.as_str(), found[0].run.as_str()), ("s", "1"));
        runs.push(run("3", change("object 2", "object 0", Some("s"), true)));
        assert_eq!(parts(&runs), []);
        let object = fold(ManagedObjects::default(), &runs);
        let thing = object.present().next().unwrap();
        assert_eq!(thing.roles, ["s", "r"], "the object stays managed");
        // The rollback of the prune, and of all.
        let mut back = runs.clone();
        back.push(rollback("4", &["3"], change("object 0", "object 2", None, false)));
        assert_eq!(parts(&back), found);
        runs.push(rollback("4", &["1", "2", "3"], change("object 0", "object 0", None, false)));
        assert_eq!(parts(&runs), []);
    }
}
