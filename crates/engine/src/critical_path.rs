//! The critical path of an apply: the chain of items that made it take as long as it did.

use serde::Serialize;
use std::time::Duration;

/// An item that was worked on, in time since the apply began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedItem {
    /// The host.
    pub host: String,
    /// The item's address.
    pub address: String,
    /// When it began.
    pub begun: Duration,
    /// When it was over.
    pub ended: Duration,
    /// Since when the host had waited for other hosts, if it had just before.
    pub waited: Option<Duration>,
}

/// One item of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathStep {
    /// The host.
    pub host: String,
    /// The item's address.
    pub address: String,
    /// The duration.
    #[serde(skip)]
    pub took: Duration,
}

/// The chain that ends with the last item: before each item what it waited for, on its own host, or on the host that ended its
/// wait.
pub fn critical_path(items: &[TimedItem]) -> Vec<PathStep> {
    let mut path = Vec::new();
    let mut next = items.iter().max_by_key(|item| item.ended);
    while let Some(item) = next {
        path.push(PathStep {
            host: item.host.clone(),
            address: item.address.clone(),
            took: item.ended.saturating_sub(item.begun),
        });
        let before = |other: &&TimedItem| {
            let earlier = other.ended <= item.begun && other.begun < item.begun;
            earlier
                && match item.waited {
                    None => other.host == item.host,
                    Some(since) => other.host == item.host || other.ended >= since,
                }
        };
        next = items.iter().filter(before).max_by_key(|other| other.ended);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(host: &str, address: &str, begun: u64, ended: u64, waited: Option<u64>) -> TimedItem {
        TimedItem {
            host: host.to_owned(),
            address: address.to_owned(),
            begun: Duration::from_secs(begun),
            ended: Duration::from_secs(ended),
            waited: waited.map(Duration::from_secs),
        }
    }

    fn path(items: &[TimedItem]) -> Vec<String> {
        critical_path(items)
            .iter()
            .map(|s| format!("{} {} {}", s.host, s.address, s.took.as_secs()))
            .collect()
    }

    #[test]
    fn it_leads_over_the_hosts_that_were_waited_for() {
        let items = [
            item("h1", "db/a", 0, 5, None),
            item("h1", "db/b", 5, 9, None),
            item("h2", "x/a", 0, 2, None),
            item("h3", "x/a", 0, 3, None),
            item("h2", "app/a", 9, 12, Some(2)),
            item("h3", "app/a", 3, 7, None),
        ];
        assert_eq!(path(&items), ["h1 db/a 5", "h1 db/b 4", "h2 app/a 3"]);
        assert_eq!(path(&items[2..4]), ["h3 x/a 3"]);
        assert!(path(&[]).is_empty());
    }

    #[test]
    fn items_without_length_end_it() {
        let items = [item("h1", "a", 1, 1, None), item("h1", "b", 1, 1, None)];
        assert_eq!(path(&items).len(), 1);
    }
}
