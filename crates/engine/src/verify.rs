//! The roles' live checks.

use crate::HostVerify;
use crate::engine::{Engine, side_by_side};
use crate::project::Part;
use converge_planner::{History, HostPlan, Item, Outcome};
use converge_resource::Wait;

impl Engine {
    /// Runs the `verify` items of all roles of this run. Changes nothing.
    pub async fn verify(&self) -> Vec<HostVerify> {
        let hosts = self.hosts();
        let checking = hosts.iter().map(|host| async move {
            let folded = match self.reach(host).await {
                Err(lost) => Err(lost),
                Ok(reach) => self.plan_part(&reach, Part::Verify, &History::default(), false).await,
            };
            match folded {
                Err(lost) => HostVerify { host: host.clone(), checks: Vec::new(), lost: Some(lost) },
                Ok(folded) => {
                    let bad = differences(&folded.plan);
                    let why = |address: &str| bad.iter().find(|(a, _)| a == address).map(|(_, w)| w.clone());
                    let checks =
                        folded.plan.items.iter().map(|i| (i.address.clone(), why(&i.address))).collect();
                    HostVerify { host: host.clone(), checks, lost: None }
                }
            }
        });
        side_by_side(checking.collect()).await
    }
}

/// Why nobody could look at an item: one before it is not as it should be, or what it stands in is not there.
fn not_checked(plan: &HostPlan, wait: &Wait) -> String {
    match plan.items.iter().find(|item| item.address == wait.item) {
        // It stands on another one that could not be looked at: what is behind both is what people need.
        Some(Item { outcome: Outcome::Deferred { wait: first, .. }, .. }) if first.item != wait.item => {
            not_checked(plan, first)
        }
        Some(first) => format!("not checked: `{}` comes first and does not hold", first.address),
        None => format!("not checked: {}", wait.reason),
    }
}

/// What a plan made after the apply still wants.
pub(crate) fn differences(plan: &HostPlan) -> Vec<(String, String)> {
    plan.items
        .iter()
        .filter_map(|item| {
            let why = match &item.outcome {
                Outcome::Changed(_) if item.only_waits() && !item.notes.is_empty() => item.notes.join("; "),
                Outcome::Changed(changes) => {
                    let objects: Vec<String> = changes.iter().map(|c| c.change.object.to_string()).collect();
                    format!("{} is not as planned", objects.join(", "))
                }
                Outcome::Deferred { wait, .. } => not_checked(plan, wait),
                Outcome::Failed(problem) => problem.message.clone(),
                Outcome::Refused(why) => why.clone(),
                Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Skipped(_) => return None,
            };
            Some((item.address.clone(), why))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::item;
    use converge_planner::{PlannedChange, Problem};
    use converge_resource::{Change, ObjectId, Reversibility, State};

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
        let why: Vec<String> = differences(&plan).into_iter().map(|(_, why)| why).collect();
        let blamed = "not checked: `r/1` comes first and does not hold";
        assert_eq!(why, ["node a offers 4", blamed, blamed, "no", "not checked: there is no cluster yet"]);
    }
}
