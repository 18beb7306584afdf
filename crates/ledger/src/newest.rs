//! Which run is the newest of several hosts.

use std::collections::BTreeMap;

/// The newest of the runs that each host could take back: for each host its candidates, oldest first, with their ages in seconds. Each host knows
/// its own order; a run that some host has a newer one than is not the newest. Where no host has both of two, the younger one by the clocks of
/// their own hosts is newer: an age does not depend on how that clock is set.
pub fn newest<'a>(hosts: &[Vec<(&'a str, i64)>]) -> Option<&'a str> {
    let mut ages: BTreeMap<&str, i64> = BTreeMap::new();
    for (id, age) in hosts.iter().flatten() {
        let youngest = ages.entry(id).or_insert(*age);
        *youngest = (*youngest).min(*age);
    }
    let last = |runs: &&Vec<(&'a str, i64)>| runs.last().map(|(id, _)| *id);
    let overtaken = |id: &str| hosts.iter().any(|runs| runs.iter().rev().skip(1).any(|(r, _)| *r == id));
    let heads: Vec<&str> = hosts.iter().filter_map(|runs| last(&runs)).collect();
    let free: Vec<&str> = heads.iter().copied().filter(|id| !overtaken(id)).collect();
    let from = if free.is_empty() { heads } else { free };
    from.into_iter().min_by_key(|id| (ages.get(id).copied().unwrap_or_default(), std::cmp::Reverse(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_host_counts_more_than_the_age_on_another() {
        assert_eq!(newest(&[]), None);
        // By its clock the second host has made the older run a moment ago.
        assert_eq!(newest(&[vec![("one", 100), ("two", 50)], vec![("one", 10)]]), Some("two"));
        // No host has both: the younger one.
        assert_eq!(newest(&[vec![("one", 100)], vec![("two", 50)]]), Some("two"));
        // Each host has them in another order: the younger one again.
        let crossed = [vec![("one", 9), ("two", 5)], vec![("two", 7), ("one", 3)]];
        assert_eq!(newest(&crossed), Some("one"));
    }
}
