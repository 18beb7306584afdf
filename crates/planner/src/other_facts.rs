//! Facts of other hosts, as an item finds them: in the order of the roles, behind what these hosts alter before it in the same run.

use crate::AlteredFacts;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A point in the order of a run, which is the same on all targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPosition {
    /// Postconditions come after everything else.
    pub verify: bool,
    /// The place of the role in the order of the roles.
    pub role: usize,
    /// The place of the item in its role.
    pub item: usize,
}

/// A fact that an item alters on its host.
#[derive(Clone, Debug, PartialEq)]
pub struct Alteration {
    /// When.
    pub moment: RunPosition,
    /// The address of the item.
    pub item: String,
    /// The first name of the fact.
    pub fact: String,
    /// Its new value, where that is known.
    pub value: Option<Value>,
}

/// The facts that the hosts of a run alter and that other targets read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherFacts {
    /// By moment.
    alterations: Vec<OfHost>,
    /// The values before the run, by host and first name.
    before: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
struct OfHost {
    host: String,
    alteration: Alteration,
    /// The item is over, without a failure.
    settled: bool,
}

impl OfHost {
    fn is_of(&self, host: &str, fact: &str) -> bool {
        self.host == host && self.alteration.fact == fact
    }
}

impl OtherFacts {
    /// Takes what each host alters in the order of its items, and the values before the run, as far as they were read.
    pub fn new<'a>(
        hosts: impl IntoIterator<Item = (&'a str, &'a [Alteration])>,
        before: impl Fn(&str, &str) -> Option<Value>,
    ) -> Self {
        let mut all = Self::default();
        for (host, alterations) in hosts {
            for alteration in alterations {
                let facts = all.before.entry(host.to_owned()).or_default();
                facts.extend(before(host, &alteration.fact).map(|value| (alteration.fact.clone(), value)));
                let (host, alteration) = (host.to_owned(), alteration.clone());
                all.alterations.push(OfHost { host, alteration, settled: false });
            }
        }
        all.alterations.sort_by_key(|a| a.alteration.moment);
        all
    }

    /// No host alters a fact.
    pub fn is_empty(&self) -> bool {
        self.alterations.is_empty()
    }

    /// The number of alterations before a moment: with the same number, the facts of all hosts are the same.
    pub fn count_before(&self, moment: RunPosition) -> usize {
        self.alterations.partition_point(|a| a.alteration.moment < moment)
    }

    /// The facts of each host but this one that are other than those that were read, behind that many alterations.
    pub fn behind(&self, count: usize, but: &str) -> BTreeMap<String, AlteredFacts> {
        let mut hosts: BTreeMap<String, AlteredFacts> = BTreeMap::new();
        // A fact that is altered later has its value from before the run, whatever was read in the middle of it.
        for (host, facts) in self.before.iter().filter(|(host, _)| *host != but) {
            let altered = hosts.entry(host.clone()).or_default();
            facts.iter().for_each(|(fact, value)| altered.know(fact, value.clone()));
        }
        for OfHost { host, alteration, .. } in self.alterations.iter().take(count) {
            let Alteration { item, fact, value, .. } = alteration;
            let Some(altered) = hosts.get_mut(host) else { continue };
            match value {
                Some(value) => altered.know(fact, value.clone()),
                None => altered.forget(fact, item, &format!("`{item}` on {host} alters facts.{fact} first")),
            }
        }
        hosts
    }

    /// The item of a host that alters a fact last before a moment, unless it is over.
    pub fn altered_by(&self, host: &str, fact: &str, moment: RunPosition) -> Option<&str> {
        let mut earlier = self.alterations.iter().take(self.count_before(moment)).rev();
        let last = earlier.find(|a| a.is_of(host, fact)).filter(|a| !a.settled);
        last.map(|a| a.alteration.item.as_str())
    }

    /// The item of a host that alters a fact first at a moment or after it.
    pub fn altered_later_by(&self, host: &str, fact: &str, moment: RunPosition) -> Option<&str> {
        let mut later = self.alterations.iter().skip(self.count_before(moment));
        later.find(|a| a.is_of(host, fact)).map(|a| a.alteration.item.as_str())
    }

    /// The items of a host that alter facts and are not over, by their addresses.
    pub fn items_of(&self, host: &str) -> BTreeSet<String> {
        let open = self.alterations.iter().filter(|a| a.host == host && !a.settled);
        open.map(|a| a.alteration.item.clone()).collect()
    }

    /// An item of a host is over: the facts that it alters have the values that were read then. Where it has failed, what reads them is not begun.
    pub fn settle(&mut self, host: &str, item: &str, failed: bool, now: impl Fn(&str) -> Value) {
        for of_host in self.alterations.iter_mut().filter(|a| a.host == host && a.alteration.item == item) {
            of_host.alteration.value = Some(now(&of_host.alteration.fact));
            of_host.settled = !failed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn moment(role: usize, item: usize) -> RunPosition {
        RunPosition { verify: false, role, item }
    }

    fn alters(at: (usize, usize), item: &str, fact: &str, value: Option<&str>) -> Alteration {
        Alteration {
            moment: moment(at.0, at.1),
            item: item.to_owned(),
            fact: fact.to_owned(),
            value: value.map(Value::from),
        }
    }

    /// h1 gets a name in role 0 and another in role 2; h2 gets a runtime in role 1.
    fn facts() -> OtherFacts {
        let h1 = [
            alters((0, 3), "name/it", "hostname", Some("b")),
            alters((2, 0), "last/it", "hostname", Some("c")),
        ];
        let h2 = [alters((1, 0), "runtime/it", "containerd", None)];
        OtherFacts::new([("h2", &h2[..]), ("h1", &h1[..])], |host, fact| {
            Some(json!(format!("{host} {fact}")))
        })
    }

    fn hostname(facts: &OtherFacts, at: RunPosition) -> Value {
        let hosts = facts.behind(facts.count_before(at), "h2");
        hosts["h1"].predicted()["hostname"].clone()
    }

    #[test]
    fn a_fact_has_the_value_of_its_place_in_the_order_of_the_run() {
        let facts = facts();
        assert_eq!(hostname(&facts, moment(0, 0)), "h1 hostname", "as before the run");
        assert_eq!(hostname(&facts, moment(0, 3)), "h1 hostname", "items of one place do not see each other");
        assert_eq!(hostname(&facts, moment(0, 4)), "b");
        assert_eq!(hostname(&facts, moment(1, 9)), "b");
        assert_eq!(hostname(&facts, moment(2, 1)), "c");
        let verify = RunPosition { verify: true, ..RunPosition::default() };
        assert_eq!(hostname(&facts, verify), "c", "postconditions of every role see the end of the run");
        assert!(facts.behind(3, "h1").keys().eq(["h2"]), "what a host itself alters is a matter of its plan");
    }

    #[test]
    fn an_unknown_value_has_its_reason_until_the_item_is_over() {
        let mut facts = facts();
        let at = moment(1, 1);
        let count = facts.count_before(at);
        let wait = facts.behind(count, "h1")["h2"].wait("containerd").cloned().unwrap();
        assert_eq!(wait.reason, "`runtime/it` on h2 alters facts.containerd first");
        assert_eq!(facts.altered_by("h2", "containerd", at), Some("runtime/it"));
        assert_eq!(facts.altered_by("h2", "containerd", moment(1, 0)), None);
        assert_eq!(facts.altered_later_by("h2", "containerd", moment(1, 0)), Some("runtime/it"));
        assert_eq!(facts.altered_by("h2", "hostname", at), None);
        facts.settle("h2", "runtime/it", true, |_| Value::Null);
        assert_eq!(facts.altered_by("h2", "containerd", at), Some("runtime/it"), "it has failed");
        facts.settle("h2", "runtime/it", false, |fact| json!(format!("{fact} 9")));
        assert_eq!(facts.altered_by("h2", "containerd", at), None);
        let known = facts.behind(count, "h1");
        assert_eq!(known["h2"].predicted()["containerd"], "containerd 9");
        assert_eq!(known["h2"].wait("containerd"), None);
        // An item before it still sees the old value.
        assert_eq!(facts.behind(0, "h1")["h2"].predicted()["containerd"], "h2 containerd");
        assert_eq!((facts.items_of("h1").len(), facts.items_of("h2").len()), (2, 0));
    }

    /// Two hosts that read each other's facts: each waits only for items that come before its own, so nobody waits in a circle.
    #[test]
    fn hosts_never_wait_for_each_other_in_a_circle() {
        let first = [alters((0, 1), "ring/program", "containerd", None)];
        let facts = OtherFacts::new([("h1", &first[..]), ("h2", &first[..])], |_, _| {
            Some(Value::from("before the run"))
        });
        let reader = moment(0, 0);
        for (host, other) in [("h1", "h2"), ("h2", "h1")] {
            assert_eq!(facts.altered_by(other, "containerd", reader), None);
            let observed = facts.behind(facts.count_before(reader), host);
            assert_eq!(observed[other].predicted()["containerd"], "before the run");
            assert_eq!(facts.altered_later_by(other, "containerd", reader), Some("ring/program"));
        }
    }
}
