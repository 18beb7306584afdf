//! Where an apply goes: to what the project declares, or back to a saved state. It decides how the rest is planned anew.

use crate::engine::{Engine, Link};
use crate::lane::{Lane, element_of};
use crate::{ItemResult, LostHost, Purpose};
use converge_planner::{HostPlan, Knowledge, Outcome};
use converge_resource::{Change, ObjectId, Probe, State};
use std::collections::{BTreeMap, BTreeSet};

/// The goal of one host.
pub(crate) enum Towards {
    /// What roles declare.
    Declared,
    /// These states.
    Saved(Vec<Change>),
}

impl Towards {
    pub fn new(purpose: &Purpose, plan: &HostPlan) -> Self {
        match purpose {
            Purpose::Converge => Self::Declared,
            Purpose::Rollback(_) => {
                Self::Saved(plan.items.iter().flat_map(|i| i.changes()).map(|c| c.change.clone()).collect())
            }
        }
    }

    /// Plans what is left on a fresh look.
    pub async fn replan(&self, engine: &Engine, link: &Link, lane: &Lane) -> Result<HostPlan, LostHost> {
        match self {
            Self::Declared => Ok(engine.plan_again(link, lane.history()).await?.plan),
            Self::Saved(_) => {
                let objects =
                    lane.remaining().iter().flat_map(|i| i.changes()).map(|c| c.change.object.clone());
                let now = look(link, objects.collect()).await?;
                let mut fresh = HostPlan { host: lane.host.clone(), ..HostPlan::default() };
                for item in lane.remaining() {
                    let mut item = item.clone();
                    if let Outcome::Changed(changes) = &mut item.outcome {
                        for planned in changes.iter_mut() {
                            if let Some(state) = now.get(&planned.change.object) {
                                planned.change.from = state.clone();
                            }
                        }
                        changes.retain(|c| c.change.from != c.change.to);
                        if changes.is_empty() {
                            item.outcome = Outcome::Unchanged;
                        }
                    }
                    fresh.items.push(item);
                }
                Ok(fresh)
            }
        }
    }

    /// Looks again after the apply: what is not as planned, leaving out what is known to have failed.
    pub async fn differences(
        &self,
        engine: &Engine,
        link: &Link,
        lane: &Lane,
    ) -> Result<Vec<String>, LostHost> {
        let mut bad = BTreeSet::new();
        let mut rolled_back = BTreeSet::new();
        for (item, result) in lane.finished() {
            if result.is_bad() {
                bad.insert(item.address.clone());
            }
            if *result == ItemResult::Changed {
                rolled_back.extend(item.changes().iter().map(|c| c.change.object.clone()));
            }
        }
        match self {
            Self::Declared => {
                let fresh = engine.plan_after(link, &bad).await?;
                Ok(fresh
                    .iter()
                    .filter(|(address, _)| !bad.contains(address) && !bad.contains(element_of(address)))
                    .map(|(a, why)| format!("{a}: {why}"))
                    .collect())
            }
            Self::Saved(changes) => {
                let now = look(link, rolled_back.iter().cloned().collect()).await?;
                // The last change of an object says where it should be.
                let wanted: BTreeMap<&ObjectId, &State> =
                    changes.iter().map(|c| (&c.object, &c.to)).collect();
                Ok(now
                    .iter()
                    .filter_map(|(object, state)| {
                        let to = wanted.get(object)?;
                        (*to != state).then(|| format!("{object} is `{state}`, not `{to}`"))
                    })
                    .collect())
            }
        }
    }
}

/// The present states of these objects.
async fn look(link: &Link, objects: Vec<ObjectId>) -> Result<BTreeMap<ObjectId, State>, LostHost> {
    let probes: BTreeSet<Probe> = objects.iter().cloned().map(Probe::Object).collect();
    let mut known = Knowledge::default();
    crate::observe::observe(&link.shell, &probes, None, &mut known).await.map_err(|e| link.lost(&e))?;
    Ok(objects.into_iter().filter_map(|o| known.observed(&o).ok().map(|seen| (o, seen.state))).collect())
}
