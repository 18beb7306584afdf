//! The roles' live checks.

use crate::context::RunContext;
use crate::plan::source::ItemSelection;
use crate::tasks::on_each;
use crate::{Activity, CheckFailure, HostVerify, TargetError};
use converge_executor::Questions;
use converge_objects::title_of;
use converge_planner::{History, HostPlan, Item, Knowledge, Outcome, PlannedChange};
use converge_resource::{Change, ObjectId, State, Wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Runs the `verify` items of all roles of this run. Changes nothing.
pub(crate) async fn verify(context: &Arc<RunContext>) -> Vec<HostVerify> {
    let _checks = context.begin_all(Activity::CheckAll);
    let checking = on_each(context, context.targets(), |context, host| async move {
        let _checks = context.begin(&host, Activity::Verify);
        let folded = match crate::connect::target::connect(&context, &host).await {
            Err(lost) => Err(lost),
            Ok(target) => {
                crate::plan::look::plan_part(
                    &context,
                    &target,
                    ItemSelection::Verify,
                    &History::default(),
                    false,
                )
                .await
            }
        };
        match folded {
            Err(lost) => HostVerify { host, checks: Vec::new(), lost: Some(lost) },
            Ok(folded) => HostVerify { host, checks: checks(&folded.plan), lost: None },
        }
    });
    checking.await
}

/// Runs the `verify` items of those roles that still have something of theirs on these hosts, as after a rollback. Changes nothing.
pub(crate) async fn verify_what_is_in_place(context: &Arc<RunContext>, hosts: &[String]) -> Vec<HostVerify> {
    let _checks = context.begin_all(Activity::CheckAll);
    let checking = on_each(context, hosts, |context, host| async move {
        let _checks = context.begin(&host, Activity::Verify);
        match checks_in_place(&context, &host).await {
            Err(lost) => HostVerify { host, checks: Vec::new(), lost: Some(lost) },
            Ok(checks) => HostVerify { host, checks, lost: None },
        }
    });
    checking.await
}

async fn checks_in_place(
    context: &RunContext,
    host: &str,
) -> Result<Vec<(String, Option<CheckFailure>)>, TargetError> {
    let target = crate::connect::target::connect(context, host).await?;
    let (nothing, mut known) = (BTreeSet::new(), Knowledge::default());
    let questions = Questions { probes: &nothing, facts: None, managed: true };
    let Some(Ok(records)) = target.observe(questions, &mut known).await?.managed else {
        return Ok(Vec::new());
    };
    let scope = context.scope(host);
    let things = records.things.iter().filter(|thing| !thing.by_product && thing.scope == scope);
    let roles: BTreeSet<String> = things.flat_map(|thing| &thing.roles).cloned().collect();
    if roles.is_empty() {
        return Ok(Vec::new());
    }
    // A check of another role may wait for minutes for what the rollback has removed: it is not run.
    let part = ItemSelection::VerifyOf(&roles);
    let folded = crate::plan::look::plan_part(context, &target, part, &History::default(), false).await?;
    Ok(checks(&folded.plan))
}

/// The address of each check, with the reason why it does not hold.
fn checks(plan: &HostPlan) -> Vec<(String, Option<CheckFailure>)> {
    let bad = differences(plan);
    let why = |address: &str| bad.iter().find(|(a, _)| a == address).map(|(_, w)| w.clone());
    plan.items.iter().map(|item| (item.address.clone(), why(&item.address))).collect()
}

/// The reason why nobody could look at an item: one before it is not as it should be, or what it stands in is not there.
fn not_checked(plan: &HostPlan, wait: &Wait) -> CheckFailure {
    // Where it stands on another one that could not be looked at, what is behind both is what people need.
    match first_open(plan, wait) {
        Some(first) => CheckFailure::Behind(first.address.clone()),
        None => CheckFailure::NotChecked(wait.reason.clone()),
    }
}

/// Something that the run has set going and that has not come to its end.
pub(crate) struct SettlingItem {
    pub object: ObjectId,
    /// Its present state.
    pub state: State,
    /// So long it may take.
    pub limit: Duration,
    /// For people: the item's address and why.
    pub shown: String,
}

/// Whether a change comes about by itself, like the pods of a rollout that are not all there yet.
fn settles(planned: &PlannedChange) -> bool {
    let Change { object, from, to } = &planned.change;
    converge_objects::object(&object.kind)
        .is_some_and(|o| o.needs().patience(&object.key).is_some() && o.shared().same(from, to))
}

/// The open waits of a plan that was made after the apply, if nothing else differs in it. Those of `known` failures are over.
pub(crate) fn settling(plan: &HostPlan, known: impl Fn(&str) -> bool) -> Vec<SettlingItem> {
    let mut found = Vec::new();
    for item in plan.items.iter().filter(|item| !known(&item.address)) {
        match &item.outcome {
            Outcome::Changed(changes) if !item.awaits().is_empty() || changes.iter().all(settles) => {
                for change in changes {
                    let object = &change.change.object;
                    let patience =
                        converge_objects::object(&object.kind).and_then(|o| o.needs().patience(&object.key));
                    found.push(SettlingItem {
                        object: object.clone(),
                        state: change.change.from.clone(),
                        limit: Duration::from_secs(patience.unwrap_or_default()),
                        shown: match item.notes.as_slice() {
                            [] => format!("{}: {} is not complete", item.address, title_of(object)),
                            notes => format!("{}: {}", item.address, notes.join("; ")),
                        },
                    });
                }
            }
            // It stands behind one of the others.
            Outcome::Deferred { .. } => {}
            Outcome::Changed(_) | Outcome::Failed(_) | Outcome::Refused(_) => return Vec::new(),
            Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) | Outcome::Skipped(_) => {}
        }
    }
    found
}

/// The differences, for users: items that could not be looked at stand with the one that is to blame, not by themselves. Leaves out `known` failures.
pub(crate) fn folded(plan: &HostPlan, known: impl Fn(&str) -> bool) -> Vec<String> {
    let found: Vec<(String, CheckFailure)> =
        differences(plan).into_iter().filter(|(address, _)| !known(address)).collect();
    let behind = |address: &str| {
        let item = plan.items.iter().find(|item| item.address == address)?;
        let Outcome::Deferred { wait, .. } = &item.outcome else { return None };
        let first = &first_open(plan, wait)?.address;
        (known(first) || found.iter().any(|(a, _)| a == first)).then(|| first.clone())
    };
    let mut after: BTreeMap<String, usize> = BTreeMap::new();
    for (address, _) in &found {
        if let Some(first) = behind(address) {
            *after.entry(first).or_default() += 1;
        }
    }
    let shown = |(address, why): &(String, CheckFailure)| {
        let more = match after.get(address) {
            None => String::new(),
            Some(1) => " (1 resource behind it was not checked)".to_owned(),
            Some(count) => format!(" ({count} resources behind it were not checked)"),
        };
        format!("{address}: {why}{more}")
    };
    let own = found.iter().filter(|(address, _)| behind(address).is_none()).map(shown);
    // The reason why the first does not hold was reported when it failed.
    let failed = after.iter().filter(|(first, _)| known(first)).map(|(first, count)| match count {
        1 => format!("1 resource behind `{first}`, which failed, was not checked"),
        count => format!("{count} resources behind `{first}`, which failed, were not checked"),
    });
    own.chain(failed).collect()
}

/// The item that keeps others from being looked at.
fn first_open<'a>(plan: &'a HostPlan, wait: &Wait) -> Option<&'a Item> {
    let first = plan.items.iter().find(|item| item.address == wait.item)?;
    match &first.outcome {
        Outcome::Deferred { wait: next, .. } if next.item != wait.item => first_open(plan, next),
        _ => Some(first),
    }
}

/// The differences that a plan after the apply still shows.
pub(crate) fn differences(plan: &HostPlan) -> Vec<(String, CheckFailure)> {
    plan.items
        .iter()
        .filter_map(|item| {
            let why = match &item.outcome {
                Outcome::Changed(_) if !item.awaits().is_empty() && !item.notes.is_empty() => {
                    CheckFailure::Differs(item.notes.join("; "))
                }
                Outcome::Changed(changes) => {
                    let objects: Vec<String> = changes.iter().map(|c| c.change.object.to_string()).collect();
                    CheckFailure::Differs(format!("{} differs from the plan", objects.join(", ")))
                }
                Outcome::Deferred { wait, .. } => not_checked(plan, wait),
                Outcome::Failed(problem) => CheckFailure::Differs(problem.message.clone()),
                Outcome::Refused(why) => CheckFailure::Differs(why.clone()),
                Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) | Outcome::Skipped(_) => {
                    return None;
                }
            };
            Some((item.address.clone(), why))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::lane::tests::item;
    use converge_objects::condition::{self, Expectation, Pick};
    use converge_planner::Problem;
    use converge_resource::Reversibility;

    fn behind(id: u32, first: &str, reason: &str) -> Item {
        let wait = Wait { item: first.to_owned(), reason: reason.to_owned() };
        item(id, "r", &[], Outcome::Deferred { wait, objects: Vec::new() })
    }

    /// As a person would say it: which check is to blame, and not what the planner calls it.
    #[test]
    fn what_stands_behind_an_open_check_names_that_check() {
        let change = Change {
            object: ObjectId::new("condition", "x"),
            from: State::from_line("open"),
            to: State::from_line("met"),
        };
        let planned = PlannedChange { change, reversibility: Reversibility::Reversible, opaque: false };
        let items = vec![
            Item {
                notes: vec!["node a offers 4".to_owned()],
                claims: vec![planned.change.object.clone()],
                ..item(1, "r", &[], Outcome::Changed(vec![planned]))
            },
            behind(2, "r/1", "`r/1` changes this host first"),
            behind(3, "r/2", "`r/2` is deferred itself"),
            item(4, "r", &[], Outcome::Failed(Problem::new("no"))),
            behind(5, "", "there is no cluster yet"),
            item(6, "r", &[], Outcome::Unchanged),
        ];
        let plan = HostPlan { items, ..HostPlan::default() };
        let why: Vec<String> = differences(&plan).into_iter().map(|(_, why)| why.to_string()).collect();
        let blamed = "not checked: `r/1` comes first and does not hold";
        assert_eq!(why, ["node a offers 4", blamed, blamed, "no", "not checked: there is no cluster yet"]);
        // One cause is one message.
        assert_eq!(
            folded(&plan, |_| false),
            [
                "r/1: node a offers 4 (2 resources behind it were not checked)",
                "r/4: no",
                "r/5: not checked: there is no cluster yet"
            ]
        );
        assert_eq!(folded(&plan, |address| address == "r/4").len(), 2);
        // So is one that the run itself has reported.
        assert_eq!(
            folded(&plan, |address| address == "r/1"),
            [
                "r/4: no",
                "r/5: not checked: there is no cluster yet",
                "2 resources behind `r/1`, which failed, were not checked"
            ]
        );
    }

    /// An open wait is no difference before its own deadline, unless something else is wrong: then no wait helps.
    #[test]
    fn open_waits_are_given_their_time() {
        let wait = |id: u32, key: &str| {
            let object = ObjectId::new("condition", key);
            let (from, to) = (State::from_line("open"), State::from_line("met"));
            let change = Change { object: object.clone(), from, to };
            let planned = PlannedChange { change, reversibility: Reversibility::Reversible, opaque: false };
            let claims = vec![object, ObjectId::new("k8s", "v1/Node/a")];
            Item {
                claims,
                notes: vec!["waits".to_owned()],
                ..item(id, "r", &[], Outcome::Changed(vec![planned]))
            }
        };
        let ready = Expectation::Condition {
            of: Pick::Named(Vec::new()),
            name: "Ready".into(),
            status: "True".into(),
        };
        let key = condition::TimedCondition { what: ready, seconds: 40 }.key();
        let items = vec![wait(1, &key), behind(2, "r/1", "`r/1` changes this host first")];
        let plan = HostPlan { items, ..HostPlan::default() };
        let open = settling(&plan, |_| false);
        assert_eq!(
            (open.len(), open[0].limit, open[0].shown.as_str()),
            (1, Duration::from_secs(40), "r/1: waits")
        );
        assert!(settling(&plan, |address| address == "r/1").is_empty(), "it has had its time in the run");
        let mut wrong = plan.clone();
        wrong.items.push(item(3, "r", &[], Outcome::Failed(Problem::new("no"))));
        assert!(settling(&wrong, |_| false).is_empty());
        assert_eq!(settling(&wrong, |address| address == "r/3").len(), 1);
    }
}
