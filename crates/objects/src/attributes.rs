//! Which attributes of two states differ.

use converge_resource::AttributeChange;
use std::collections::BTreeMap;

/// The attributes of these names, in this order, that are not equal on both sides.
pub(crate) fn differing(
    names: &[&'static str],
    before: &BTreeMap<&'static str, String>,
    after: &BTreeMap<&'static str, String>,
) -> Vec<AttributeChange> {
    names
        .iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| AttributeChange {
            name: (*name).to_owned(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}
