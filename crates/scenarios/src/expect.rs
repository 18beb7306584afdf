//! A plan, held against what a scenario expects of it.

use crate::project::place;
use crate::report::Mismatch;
use crate::scenario::{Expect, ExpectedError, ExpectedItem, ExpectedOutcome};
use converge_engine::{FleetPlan, HostResult};
use converge_planner::{HostPlan, Item, Outcome};
use converge_resource::Content;
use converge_syntax::{Diagnostic, Diagnostics, did_you_mean};

/// The planned outcome of an item, in the words of a scenario.
pub(crate) fn found(item: &Item) -> ExpectedOutcome {
    match item.outcome {
        Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) => ExpectedOutcome::Unchanged,
        Outcome::Changed(_) => ExpectedOutcome::Change,
        Outcome::Deferred { .. } => ExpectedOutcome::Deferred,
        Outcome::Skipped(_) => ExpectedOutcome::Skipped,
        Outcome::Failed(_) | Outcome::Refused(_) => ExpectedOutcome::Wrong,
    }
}

/// The messages of an item.
fn messages(item: &Item) -> String {
    let mut lines = item.notes.clone();
    match &item.outcome {
        Outcome::Deferred { wait, .. } => lines.push(wait.reason.clone()),
        Outcome::Skipped(why) | Outcome::Refused(why) => lines.push(why.clone()),
        Outcome::Failed(problem) => {
            lines.push(problem.message.clone());
            lines.extend(problem.help.clone());
        }
        Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) | Outcome::Changed(_) => {}
    }
    lines.join("\n")
}

/// Everything in which the plan is not as expected. `scenario_host` gives the scenario's name of a host.
pub(crate) fn against_plan(
    plan: &FleetPlan,
    expect: &Expect,
    role: &str,
    scenario_host: &dyn Fn(&str) -> String,
) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for entry in &plan.hosts {
        let name = scenario_host(&entry.host);
        let host_plan = match &entry.result {
            HostResult::Lost(lost) => {
                wrong.push(Mismatch::new(lost.to_string()));
                continue;
            }
            HostResult::Planned(host_plan) => host_plan,
        };
        let own: Vec<&ExpectedItem> =
            expect.plan.iter().filter(|e| e.host.as_ref().is_none_or(|on| *on == name)).collect();
        let mut named = Vec::new();
        for expected in own {
            match find(host_plan, &expected.item.value, role) {
                // A role of a cluster has its items there, and none on the hosts.
                None if is_elsewhere(plan, host_plan, &expected.item.value, role) => {}
                None => {
                    let addresses: Vec<&str> = host_plan.items.iter().map(|i| i.address.as_str()).collect();
                    let near = did_you_mean(&expected.item.value, addresses.iter().copied());
                    let found = near.map_or_else(
                        || format!("the resources {}", addresses.join(", ")),
                        |near| format!("one called `{near}`"),
                    );
                    let mut mismatch = Mismatch::new(format!("the plan of {name} has no such resource"))
                        .but(format!("a resource `{}`", expected.item.value), found);
                    mismatch.at = place(&expected.item);
                    wrong.push(mismatch);
                }
                Some(item) => {
                    named.push(item.id);
                    wrong.extend(one_item(plan, host_plan, item, expected, &name));
                }
            }
        }
        let own_items = || host_plan.items.iter().filter(|i| i.role == role && !named.contains(&i.id));
        if let Some(others) = expect.others {
            for item in own_items().filter(|i| found(i) != others) {
                let what = format!("`{}` on {name}, which the scenario does not name", item.address);
                wrong.push(
                    Mismatch::new(what)
                        .but(format!("it is {}", others.as_str()), describe(item))
                        .plan(plan, &[&item.address]),
                );
            }
        }
        // Unless it is expected, nothing of a plan may be wrong.
        let expected_wrong =
            |item: &Item| named.contains(&item.id) || expect.others == Some(ExpectedOutcome::Wrong);
        for item in
            host_plan.items.iter().filter(|i| found(i) == ExpectedOutcome::Wrong && !expected_wrong(i))
        {
            // An error that only follows from another item is reported for that one.
            if matches!(&item.outcome, Outcome::Failed(problem) if problem.blocked) {
                continue;
            }
            if expect.errors.iter().any(|e| messages(item).contains(&e.message.value)) {
                continue;
            }
            wrong.push(
                Mismatch::new(format!("`{}` has an error on {name}", item.address))
                    .but("no error in the plan", messages(item))
                    .plan(plan, &[&item.address]),
            );
        }
    }
    wrong
}

fn find<'p>(plan: &'p HostPlan, name: &str, role: &str) -> Option<&'p Item> {
    let full = format!("{role}/{name}");
    plan.items.iter().find(|i| i.address == full).or_else(|| plan.items.iter().find(|i| i.address == name))
}

/// Whether this plan has nothing of the item's role, and another one has the item.
fn is_elsewhere(plan: &FleetPlan, here: &HostPlan, name: &str, role: &str) -> bool {
    let role = name.split_once('/').map_or(role, |(role, _)| role);
    !here.items.iter().any(|i| i.role == role) && plan.planned().any(|p| find(p, name, role).is_some())
}

fn describe(item: &Item) -> String {
    let messages = messages(item);
    let more =
        if messages.is_empty() { String::new() } else { format!(": {}", messages.replace('\n', "; ")) };
    format!("it is {}{more}", found(item).as_str())
}

fn one_item(
    plan: &FleetPlan,
    host_plan: &HostPlan,
    item: &Item,
    expected: &ExpectedItem,
    host: &str,
) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    let mut but = |wanted: String, found: String| {
        let mut mismatch = Mismatch::new(format!("`{}` on {host}", item.address))
            .but(wanted, found)
            .plan(plan, &[&item.address]);
        mismatch.at = place(&expected.item);
        wrong.push(mismatch);
    };
    if let Some(is) = expected.is.filter(|is| *is != found(item)) {
        but(format!("it is {}", is.as_str()), describe(item));
        return wrong;
    }
    if let Some(changes) = &expected.changes {
        let mut wanted = changes.clone();
        let mut found: Vec<String> = item
            .changes()
            .iter()
            .map(|c| format!("{}:{}", c.change.object.kind, c.change.object.key))
            .collect();
        wanted.sort();
        found.sort();
        if wanted != found {
            but(format!("it changes {}", listed(&wanted)), format!("it changes {}", listed(&found)));
        }
    }
    for text in &expected.content {
        let contents = item.changes().iter().filter_map(|c| {
            let object = converge_objects::object(&c.change.object.kind)?;
            host_plan.contents.get(&object.content(&c.change.to)?)
        });
        let texts: Vec<&str> = contents.filter_map(Content::text).collect();
        if !texts.iter().any(|t| t.contains(text.as_str())) {
            let found = if item.sensitive {
                "the resource is sensitive: its content is not looked at".to_owned()
            } else if texts.is_empty() {
                "no text is written".to_owned()
            } else {
                texts.join("\n")
            };
            but(format!("its new content holds `{text}`"), found);
        }
    }
    if let (Some(wanted), Outcome::Deferred { wait, .. }) = (&expected.waits_for, &item.outcome) {
        let same = wait.item == *wanted || wait.item == format!("{}/{wanted}", item.role);
        if !same {
            let found = if wait.item.is_empty() { "no resource" } else { wait.item.as_str() };
            but(format!("it waits for `{wanted}`"), format!("it waits for {found}: {}", wait.reason));
        }
    }
    if let Some(text) = &expected.says
        && !messages(item).contains(text.as_str())
    {
        but(
            format!("it says `{text}`"),
            Some(messages(item)).filter(|s| !s.is_empty()).unwrap_or("nothing".into()),
        );
    }
    wrong
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A diagnostic as it is held against an expected one.
pub(crate) struct Complaint {
    message: String,
    help: String,
    at: String,
}

impl Complaint {
    pub fn of(diagnostic: &Diagnostic) -> Self {
        let labels: Vec<&str> = diagnostic.labels.iter().map(|(_, text)| text.as_str()).collect();
        Self {
            message: format!("{} {}", diagnostic.message, labels.join(" ")),
            help: diagnostic.help.clone().unwrap_or_default(),
            at: diagnostic.labels.iter().map(|(span, _)| span.to_string()).collect::<Vec<_>>().join(" "),
        }
    }

    /// Of everything that is wrong in a plan. An error that only follows from another one is that one's.
    pub fn of_plan(plan: &FleetPlan) -> Vec<Self> {
        let items = plan.planned().flat_map(|p| &p.items);
        items
            .filter_map(|item| match &item.outcome {
                Outcome::Failed(problem) if !problem.blocked => Some(Self {
                    message: problem.message.clone(),
                    help: problem.help.clone().unwrap_or_default(),
                    at: format!("{} {}", problem.at.clone().unwrap_or_default(), item.location),
                }),
                _ => None,
            })
            .collect()
    }

    /// The message with its place.
    pub fn shown(&self) -> String {
        format!("{} ({})", self.message.trim(), self.at.trim())
    }
}

/// Expected messages that did not come, and unexpected errors.
pub(crate) fn against_errors(found: &[Complaint], expected: &[ExpectedError]) -> Vec<Mismatch> {
    let fits = |c: &Complaint, e: &ExpectedError| {
        c.message.contains(&e.message.value)
            && e.help.as_ref().is_none_or(|h| c.help.contains(h.as_str()))
            && e.at.as_ref().is_none_or(|at| c.at.contains(at.as_str()))
    };
    let all = || {
        let lines: Vec<String> = found.iter().map(Complaint::shown).collect();
        if lines.is_empty() { "no error".to_owned() } else { lines.join("\n") }
    };
    let mut wrong = Vec::new();
    for error in expected.iter().filter(|e| !found.iter().any(|c| fits(c, e))) {
        let mut wanted = format!("an error with `{}`", error.message.value);
        for (word, text) in [("help", &error.help), ("place", &error.at)] {
            if let Some(text) = text {
                wanted.push_str(&format!(", {word} `{text}`"));
            }
        }
        let mut mismatch = Mismatch::new("it is not refused as expected").but(wanted, all());
        mismatch.at = place(&error.message);
        wrong.push(mismatch);
    }
    for complaint in found.iter().filter(|c| !expected.iter().any(|e| fits(c, e))) {
        wrong
            .push(Mismatch::new("an error that the scenario does not expect").but("none", complaint.shown()));
    }
    wrong
}

/// Errors of files, with their places and help.
pub(crate) fn complaints(found: &Diagnostics) -> Vec<Mismatch> {
    found.iter().map(|d| Mismatch::new("the role or the scenario is wrong").lines([d.to_string()])).collect()
}
