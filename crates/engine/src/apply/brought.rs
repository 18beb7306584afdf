//! Objects that are there only once an earlier item of a rollback has made what brings them. Pure.

use converge_resource::{Change, ObjectId, State};
use std::collections::BTreeSet;

/// The objects that come with the one that this change makes: a unit with its file.
pub(super) fn brought_by(change: &Change) -> Vec<ObjectId> {
    let makes = change.from.is_absent() && !change.to.is_absent();
    let object = converge_objects::object(&change.object.kind).filter(|_| makes);
    let brings = object.map(|o| o.links().brings(&change.object.key, &State::absent(), None));
    brings.into_iter().flatten().map(|(id, _)| id).collect()
}

/// Whether a change begins with what only these objects make of its object: a unit of which nothing but its file, or its template's, is there.
pub(super) fn is_brought(change: &Change, brought: &BTreeSet<ObjectId>) -> bool {
    let Some(object) = converge_objects::object(&change.object.kind) else { return false };
    let template = || object.links().template(&change.object.key);
    let comes = brought.contains(&change.object) || template().is_some_and(|t| brought.contains(&t));
    comes && object.links().bare(&change.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package comes back before the file of a template: planned anew behind the package, the instance is not there yet.
    #[test]
    fn an_instance_begins_as_its_template_leaves_it_where_the_template_comes_back_before_it() {
        let change = |kind: &str, key: &str, from: &str, to: &str| Change {
            object: ObjectId::new(kind, key),
            from: State::from_line(from),
            to: State::from_line(to),
        };
        let file = |path: &str, from: &str| change("path", path, from, "file 644 root root 1 00");
        let (bare, runs) = ("unit disabled inactive -", "unit enabled active 00");
        let instance = change("unit", "w@one.service", bare, runs);
        let comes = |file: &Change, unit: &Change| is_brought(unit, &brought_by(file).into_iter().collect());
        let template = file("/etc/systemd/system/w@.service", "absent");
        assert!(comes(&template, &instance));
        assert!(!comes(&file("/etc/systemd/system/w.service", "absent"), &instance));
        assert!(!comes(&file("/etc/systemd/system/w@.service", "file 644 root root 2 11"), &instance));
        // Somebody has taken away what was more than its file.
        assert!(!comes(&template, &change("unit", "w@one.service", runs, bare)));
        assert!(comes(
            &file("/etc/systemd/system/w.service", "absent"),
            &change("unit", "w.service", bare, runs)
        ));
    }
}
