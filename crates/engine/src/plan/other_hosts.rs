//! Facts of other hosts (`hostvars[HOST].facts`) in the plan of one target: which hosts its items read, and what these alter or why they cannot be asked.

use crate::TargetError;
use converge_executor::without_name;
use converge_planner::{AlteredFacts, OtherFacts, Problem, RunPosition};
use converge_resource::Wait;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The other hosts, as far as a look has asked them.
#[derive(Clone, Default)]
pub(crate) struct OtherHosts {
    /// The facts that they alter in this run.
    pub facts: Arc<OtherFacts>,
    /// The hosts that were asked for facts.
    pub asked: BTreeSet<String>,
    /// The reason why a host cannot be asked.
    pub lost: BTreeMap<String, UnavailableHost>,
}

/// The reason why a host cannot be asked.
#[derive(Clone)]
pub(crate) struct UnavailableHost {
    pub error: TargetError,
    /// The run has this host, and tells the error there.
    pub in_run: bool,
}

impl UnavailableHost {
    /// The error of an item that reads a variable of this host, by its full name. Where the cause was reported already, the item is blocked by it.
    fn problem(&self, host: &str, name: &str, reported: bool) -> Problem {
        let expression = match name.strip_prefix("hostvars.").and_then(|rest| rest.strip_prefix(host)) {
            Some(rest) => format!("hostvars['{host}']{rest}"),
            None => format!("{name} of {host}"),
        };
        let state = match &self.error {
            TargetError::LoginRefused(_) => format!("{host} refuses the login"),
            error => format!("{host} is {}", error.word()),
        };
        let message = format!("`{expression}` is not known: {state}");
        if self.in_run || reported {
            return Problem { blocked: true, ..Problem::new(message) };
        }
        let why = match &self.error {
            TargetError::Maintenance => String::new(),
            error => format!(": {}", without_name(host, &error.to_string())),
        };
        let help = format!(
            "{host} takes no part in this run, but a template reads its facts: make it reachable, remove it from the list of hosts, or read a variable of the inventory instead of the fact"
        );
        Problem { help: Some(help), ..Problem::new(format!("{message}{why}")) }
    }
}

/// The reads of one target's items, by their places in its list of items.
#[derive(Default)]
pub(crate) struct Reads {
    /// The hosts whose facts some item has read.
    hosts: RefCell<BTreeSet<String>>,
    /// The items of other hosts that alter facts which the item has read, each as host and address.
    waits: RefCell<BTreeMap<usize, BTreeSet<(String, String)>>>,
    /// Remarks on the values.
    remarks: RefCell<BTreeMap<usize, Vec<String>>>,
    /// The first item that a lost host stops.
    stopped: RefCell<BTreeMap<String, usize>>,
}

/// The host and the first name of its fact where this full name of a variable is one of `hostvars`. The name is empty where the facts as a whole are
/// meant, or those before the run.
fn fact_of_host(name: &str) -> Option<(&str, &str)> {
    // A variable of a host that is made of its facts is noted with both ways to it.
    let (_, name) = name.rsplit_once("hostvars.")?;
    if let Some((host, fact)) = name.split_once(".facts.") {
        return Some((host, fact.split('.').next().unwrap_or(fact)));
    }
    let host = name.strip_suffix(".facts").or_else(|| name.strip_suffix(".facts_before"))?;
    Some((host, ""))
}

/// An item whose reads are noted.
#[derive(Clone, Copy)]
pub(crate) struct ReadingItem<'a> {
    /// The target that the item belongs to.
    pub target: &'a str,
    /// The host whose facts are `facts` there: the target itself, or the host through which a cluster is reached.
    pub host: &'a str,
    pub index: usize,
    pub moment: RunPosition,
}

impl ReadingItem<'_> {
    /// The host and the first name of its fact where this full name of a variable is a fact of another host.
    fn other_fact<'n>(&'n self, name: &'n str) -> Option<(&'n str, &'n str)> {
        let own = || Some((self.host, name.strip_prefix("facts.")?.split('.').next()?));
        fact_of_host(name).or_else(own).filter(|(host, _)| *host != self.target)
    }
}

impl Reads {
    /// The hosts whose facts the items have read so far.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.hosts.borrow().clone()
    }

    /// Notes the names that an item has read, those that are not known among them.
    pub fn note<'n>(
        &self,
        reader: ReadingItem<'_>,
        others: &OtherHosts,
        read: impl Iterator<Item = &'n String>,
    ) {
        let (mut waits, mut remarks) = (BTreeSet::new(), Vec::new());
        for name in read {
            if let Some((host, _)) = fact_of_host(name)
                && !self.hosts.borrow().contains(host)
            {
                self.hosts.borrow_mut().insert(host.to_owned());
            }
            let Some((host, fact)) = reader.other_fact(name) else { continue };
            if let Some(item) = others.facts.altered_by(host, fact, reader.moment) {
                waits.insert((host.to_owned(), item.to_owned()));
            }
            if let Some(item) = others.facts.altered_later_by(host, fact, reader.moment) {
                let remark = format!(
                    "facts.{fact} of {host} still has its value from before this run: `{item}` changes it later"
                );
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
        }
        self.waits.borrow_mut().insert(reader.index, waits);
        self.remarks.borrow_mut().insert(reader.index, remarks);
    }

    /// The items of other hosts that the item waits for.
    pub fn waits(&self, index: usize) -> BTreeSet<(String, String)> {
        self.waits.borrow().get(&index).cloned().unwrap_or_default()
    }

    /// Remarks on the values that the item has read.
    pub fn remarks(&self, index: usize) -> Vec<String> {
        self.remarks.borrow().get(&index).cloned().unwrap_or_default()
    }

    /// The error of an item that reads these unknown variables, where one of them belongs to a host that cannot be asked.
    pub fn lost<'n>(
        &self,
        reader: ReadingItem<'_>,
        others: &OtherHosts,
        unknown: impl Iterator<Item = &'n String>,
    ) -> Option<Problem> {
        let whole = |name: &'n String| -> Option<(&'n str, &'n str)> {
            let (host, _) = fact_of_host(name)?;
            Some((host, name))
        };
        let speaker = |name: &'n String| name == "facts" || name == "facts_before";
        for name in unknown {
            let (host, shown) = match whole(name) {
                Some(found) => found,
                None if reader.host != reader.target && speaker(name) => (reader.host, name.as_str()),
                None => continue,
            };
            let Some(lost) = others.lost.get(host) else { continue };
            let mut stopped = self.stopped.borrow_mut();
            let first = stopped.entry(host.to_owned()).or_insert(reader.index);
            *first = reader.index.min(*first);
            return Some(lost.problem(host, shown, *first < reader.index));
        }
        None
    }
}

impl OtherHosts {
    /// The facts of other hosts that are other than those that were read, for an item at this moment.
    pub fn altered(&self, target: &str, moment: RunPosition) -> BTreeMap<String, AlteredFacts> {
        self.facts.behind(self.facts.count_before(moment), target)
    }

    /// The reason to wait for the first of these names that is a fact which another host alters before this item.
    pub fn altered_among<'n>(
        &self,
        reader: ReadingItem<'_>,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Option<String> {
        names.into_iter().find_map(|name| {
            let (host, fact) = reader.other_fact(name)?;
            let item = self.facts.altered_by(host, fact, reader.moment)?;
            Some(format!("`{item}` on {host} alters facts.{fact} first"))
        })
    }

    /// The reason why a variable, by its full name, is not known to an item.
    pub fn wait(&self, reader: ReadingItem<'_>, name: &str) -> Option<Wait> {
        let (host, fact) = reader.other_fact(name)?;
        self.altered(reader.target, reader.moment).get(host)?.wait(fact).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_planner::Alteration;
    use serde_json::Value;

    fn reader(target: &'static str, index: usize) -> ReadingItem<'static> {
        let moment = RunPosition { verify: false, role: 1, item: index };
        ReadingItem { target, host: "h1", index, moment }
    }

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn full_names_tell_host_and_fact() {
        assert_eq!(fact_of_host("hostvars.h2.facts.os.id"), Some(("h2", "os")));
        assert_eq!(fact_of_host("hostvars.h2.example.org.facts"), Some(("h2.example.org", "")));
        assert_eq!(fact_of_host("hostvars.h2.facts_before"), Some(("h2", "")));
        assert_eq!(fact_of_host("hostvars.h2.hostvars.h2.facts.hostname"), Some(("h2", "hostname")));
        for none in ["facts.os", "hostvars", "hostvars.h2.port", "facts"] {
            assert_eq!(fact_of_host(none), None, "{none}");
        }
    }

    #[test]
    fn an_item_waits_for_what_comes_before_it_and_is_reported_what_comes_after_it() {
        let alters = |role: usize, item: &str, fact: &str| Alteration {
            moment: RunPosition { verify: false, role, item: 0 },
            item: item.to_owned(),
            fact: fact.to_owned(),
            value: None,
        };
        let own = [alters(0, "runtime/it", "containerd"), alters(2, "name/it", "hostname")];
        let facts = Arc::new(OtherFacts::new([("h2", &own[..]), ("h1", &own[..])], |_, _| Some(Value::Null)));
        let others = OtherHosts { facts, ..OtherHosts::default() };
        let read = names(&[
            "hostvars.h1.facts.containerd",
            "hostvars.h2.facts.containerd.version",
            "hostvars.h2.facts.hostname",
            "facts.containerd",
        ]);
        let reads = Reads::default();
        reads.note(reader("h1", 7), &others, read.iter());
        let wait = |host: &str| (host.to_owned(), "runtime/it".to_owned());
        assert_eq!(reads.waits(7), BTreeSet::from([wait("h2")]));
        assert_eq!(
            reads.remarks(7),
            ["facts.hostname of h2 still has its value from before this run: `name/it` changes it later"]
        );
        assert_eq!(reads.hosts(), BTreeSet::from(["h1".to_owned(), "h2".to_owned()]));
        // On a cluster `facts` are those of another target.
        reads.note(reader("cluster", 8), &others, read.iter());
        assert_eq!(reads.waits(8), BTreeSet::from([wait("h1"), wait("h2")]));
        let reason = others.wait(reader("cluster", 8), "facts.containerd").map(|wait| wait.reason);
        assert_eq!(reason.as_deref(), Some("`runtime/it` on h1 alters facts.containerd first"));
        assert_eq!(others.wait(reader("h1", 8), "facts.containerd"), None, "its own plan knows");
    }

    #[test]
    fn a_lost_host_is_reported_once() {
        let error = TargetError::Unreachable("h9: no route to host".to_owned());
        let lost =
            |in_run| BTreeMap::from([("h9".to_owned(), UnavailableHost { error: error.clone(), in_run })]);
        let unknown = names(&["x", "hostvars.h9.facts"]);
        let found = |reads: &Reads, others: &OtherHosts, index: usize| {
            reads.lost(reader("h1", index), others, unknown.iter()).map(|p| (p.message, p.blocked))
        };
        let others = OtherHosts { lost: lost(false), ..OtherHosts::default() };
        let reads = Reads::default();
        let message = "`hostvars['h9'].facts` is not known: h9 is unreachable".to_owned();
        assert_eq!(found(&reads, &others, 3), Some((format!("{message}: no route to host"), false)));
        assert_eq!(found(&reads, &others, 4), Some((message.clone(), true)));
        assert_eq!(found(&reads, &others, 3), Some((format!("{message}: no route to host"), false)));
        let others = OtherHosts { lost: lost(true), ..OtherHosts::default() };
        assert_eq!(found(&Reads::default(), &others, 3), Some((message, true)), "the run tells it at h9");
        assert_eq!(found(&Reads::default(), &OtherHosts::default(), 3), None);
    }
}
