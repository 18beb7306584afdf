//! First-run truth: what a plan says of things that the same run makes, beside what the apply then does.
//!
//! Each case is a role for a host that has nothing of it yet. Three things are compared, in both directions: the plan
//! with what must be, the apply with the plan, and every path of the host that changed with the paths that the plan named.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what goes wrong in a test ends it, and so does a host too many"
)]

mod case;
mod cases;
mod edges;
mod moments;
mod names;
mod numbers;

use case::{Case, Run};
use cases::CASES;
use converge_lab::Host;
use converge_tests::{World, exec};
use edges::EDGES;
use moments::MOMENTS;
use names::NAMES;
use numbers::NUMBERS;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where the cases write. Elsewhere nothing may change but what foreign code is known to.
const WATCHED: &str = "/etc /srv /opt /home /root /usr/local";

/// Each watched path with all but its times.
fn paths(host: &Host) -> BTreeMap<String, String> {
    let script = format!(
        "find {WATCHED} -xdev ! -type d -printf '%p\\t%y %m %U:%G %l\\n' -o -xdev -type d -printf '%p\\t%y %m %U:%G\\n'; \
         find {WATCHED} -xdev -type f -exec sha256sum {{}} + | sed 's/^\\([^ ]*\\)  \\(.*\\)/\\2\\t\\1/'"
    );
    let mut out = BTreeMap::<String, String>::new();
    for line in exec(host, &script).lines() {
        let (path, what) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
        out.entry(path.to_owned()).or_default().push_str(what);
    }
    assert!(out.len() > 300, "{} paths only", out.len());
    out
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    let of = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| -> BTreeSet<String> {
        a.iter().filter(|(path, what)| b.get(*path) != Some(what)).map(|(path, _)| path.clone()).collect()
    };
    &of(before, after) | &of(after, before)
}

/// The statements of a plan.
#[derive(Default)]
struct PlanSummary {
    /// Item → result.
    items: BTreeMap<String, String>,
    /// Item → everything that the plan shows of it, for words that must be there.
    shown: BTreeMap<String, String>,
    /// Paths whose state changes.
    surely: BTreeSet<String>,
    /// Paths that may change: deferred items.
    perhaps: BTreeSet<String>,
}

fn path_of(object: &Value) -> Option<String> {
    (object["kind"] == "path").then(|| object["key"].as_str().unwrap().to_owned())
}

fn reply(plan: &Value) -> PlanSummary {
    let mut reply = PlanSummary::default();
    for item in plan["hosts"][0]["items"].as_array().unwrap() {
        let name = name_of(item);
        reply.items.insert(name.clone(), item["result"].as_str().unwrap().to_owned());
        reply.shown.insert(name, serde_json::to_string(item).unwrap());
        for change in item["changes"].as_array().unwrap_or(&Vec::new()) {
            reply.surely.extend(path_of(&change["object"]));
        }
        for object in item["may_change"].as_array().unwrap_or(&Vec::new()) {
            reply.perhaps.extend(path_of(object));
        }
    }
    reply
}

/// The item's name, with the element of `for_each`.
fn name_of(item: &Value) -> String {
    item["address"].as_str().unwrap().trim_start_matches("case/").to_owned()
}

fn did(report: &Value) -> BTreeMap<String, String> {
    let items = report["hosts"][0]["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| (name_of(item), item["result"].as_str().unwrap().to_owned())).collect()
}

/// The result that an apply must have for an item, by its planned result. Deferred items are open: the case knows.
fn promised(planned: &str) -> Option<&'static str> {
    match planned {
        "change" => Some("changed"),
        "unchanged" | "adopt" => Some("unchanged"),
        "not_applicable" => Some("not_applicable"),
        "failed" | "refused" => Some("failed"),
        _ => None,
    }
}

struct Check<'a> {
    case: &'a Case,
    wrong: Vec<String>,
    table: Vec<String>,
}

impl Check<'_> {
    fn that(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(format!("{}: {}", self.case.name, why()));
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let [host] = world.hosts() else { panic!("one host") };
        if !run.before.is_empty() {
            exec(host, run.before);
        }
        world.only_role("case", &format!("resources:\n{}", run.role)).unwrap();
        let before = paths(host);
        let ran = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap();
        if let Some(message) = run.refused {
            self.that(ran.code != Some(0) && ran.code != Some(2), || {
                format!("the plan ended with {:?}", ran.code)
            });
            self.that(ran.all().contains(message), || {
                format!("the plan does not say {message:?}:\n{}", ran.all())
            });
            let applied = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap();
            self.that(applied.code == ran.code, || format!("the apply ended with {:?}", applied.code));
            let changed = changed(&before, &paths(host));
            self.that(changed.is_empty(), || format!("refused, and changed {changed:?}"));
            self.table
                .push(format!("| {} | refused: {message} | the same, nothing changed |", self.case.name));
            return;
        }
        let Ok(plan) = ran.json() else {
            self.that(false, || format!("no plan:\n{}", ran.all()));
            return;
        };
        let reply = reply(&plan);
        let ran = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap();
        let Ok(report) = ran.json() else {
            self.that(false, || format!("no report:\n{}", ran.all()));
            return;
        };
        let did = did(&report);
        let after = paths(host);
        self.items(run, &reply, &did, &report);
        self.reached(&report, &changed(&before, &after), &reply, run);
        for (item, words) in run.shows {
            let shown = reply.shown.get(*item).map_or("", String::as_str);
            for word in *words {
                self.that(shown.contains(word), || {
                    format!("the plan of {item} does not show {word:?}: {shown}")
                });
            }
        }
        for script in run.then {
            let output = host.exec(script).unwrap();
            self.that(output.success(), || format!("afterwards: {script}: {output:?}"));
        }
        if did.values().any(|r| r == "failed") || !run.settles {
            return;
        }
        let again = world.converge(&["plan", "hosts.yaml"]).unwrap();
        self.that(again.code == Some(0), || format!("the second plan is not empty:\n{}", again.all()));
    }

    /// The plan's results are those of the case, and the apply's are those of the plan.
    fn items(&mut self, run: &Run, reply: &PlanSummary, did: &BTreeMap<String, String>, report: &Value) {
        let reported = |name: &str| {
            let items = report["hosts"][0]["items"].as_array().into_iter().flatten();
            items.filter(|item| name_of(item) == name).map(ToString::to_string).collect::<String>()
        };
        let of = |results: &BTreeMap<String, String>, item: &str| {
            results.get(item).cloned().unwrap_or_else(|| "nothing".to_owned())
        };
        let names: BTreeSet<&str> = run.items.iter().map(|(name, _, _)| *name).collect();
        for name in reply.items.keys().chain(did.keys()) {
            self.that(names.contains(name.as_str()), || format!("the case does not know the item {name}"));
        }
        for (name, plan, apply) in run.items {
            let (planned, done) = (of(&reply.items, name), of(did, name));
            self.that(planned == *plan, || {
                format!("{name}: the plan says {planned}, not {plan}: {:?}", reply.shown.get(*name))
            });
            self.that(done == *apply, || {
                format!("{name}: the apply did {done}, not {apply}: {}", reported(name))
            });
            // A plan cannot predict failures and effects of foreign code: such cases declare them.
            let known = !matches!(*apply, "failed" | "skipped") && !run.moved.contains(name);
            if let Some(promise) = promised(&planned).filter(|_| known) {
                self.that(done == promise, || format!("{name}: {planned}, then {done}"));
            }
        }
        for (item, word) in run.tells.iter().flat_map(|(item, words)| words.iter().map(move |w| (item, w))) {
            self.that(reported(item).contains(word), || {
                format!("the report of {item} does not say {word:?}: {}", reported(item))
            });
        }
        let row = |results: &BTreeMap<String, String>| {
            run.items
                .iter()
                .map(|(n, _, _)| format!("{n}: {}", of(results, n)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        self.table.push(format!("| {} | {} | {} |", self.case.name, row(&reply.items), row(did)));
    }

    /// Every path that changed was named, every path that was named changed, and the host looks as planned.
    fn reached(&mut self, report: &Value, changed: &BTreeSet<String>, reply: &PlanSummary, run: &Run) {
        let foreign = |path: &str| run.foreign.iter().any(|top| path.starts_with(top));
        for path in changed {
            self.that(reply.surely.contains(path) || reply.perhaps.contains(path) || foreign(path), || {
                format!("{path} changed, and the plan does not name it")
            });
        }
        let watched = |path: &&String| WATCHED.split(' ').any(|top| path.starts_with(top));
        let whole = !run.items.iter().any(|(_, _, apply)| *apply == "failed");
        for path in reply.surely.iter().filter(watched) {
            self.that(!whole || changed.contains(path) || run.passing.contains(&path.as_str()), || {
                format!("the plan changes {path}, and it is as before")
            });
        }
        let differences = &report["hosts"][0]["differences"];
        self.that(differences.as_array().is_none_or(Vec::is_empty), || {
            format!("not as planned after the apply: {differences}")
        });
    }
}

#[test]
fn what_the_plan_says_is_what_the_apply_does() {
    let world = World::new(&format!("t-first-{}", std::process::id()), 1).unwrap();
    let mut wrong = Vec::new();
    println!("| case | plan | apply |\n|---|---|---|");
    // While one works on some of them, these words of their names choose which.
    let only = std::env::var("FIRST_RUN_ONLY").unwrap_or_default();
    let all: Vec<&Case> = [CASES, EDGES, MOMENTS, NUMBERS, NAMES].into_iter().flatten().collect();
    for case in all.iter().filter(|case| case.name.contains(&only)) {
        exec(&world.hosts()[0], "rm -rf /var/lib/converge");
        let mut check = Check { case, wrong: Vec::new(), table: Vec::new() };
        for run in case.runs {
            check.run(&world, run);
        }
        println!("{}", check.table.join("\n"));
        wrong.extend(check.wrong);
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(all.len() >= 48, "{} cases", all.len());
}
