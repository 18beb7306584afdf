//! Chains of items that change one object and may leave it as it began.

use crate::Item;
use converge_resource::{ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// Finds objects that several items change and that end in the state that was read: a whole file and an edit of it, both
/// already in place. Such chains are no change at all. Chains with a deferred or opaque item stay.
pub(crate) fn closed(items: &[Item]) -> BTreeSet<ObjectId> {
    let mut chains: BTreeMap<&ObjectId, (usize, &State, &State, bool)> = BTreeMap::new();
    for item in items {
        for planned in item.changes() {
            let c = &planned.change;
            chains
                .entry(&c.object)
                .and_modify(|(n, _, last, opaque)| {
                    *n += 1;
                    *last = &c.to;
                    *opaque |= planned.opaque;
                })
                .or_insert((1, &c.from, &c.to, planned.opaque));
        }
    }
    chains
        .into_iter()
        .filter(|(_, (n, first, last, opaque))| *n > 1 && first == last && !opaque)
        .map(|(object, _)| object.clone())
        .collect()
}
