//! The roles' live checks.

use crate::HostVerify;
use crate::engine::{Engine, differences, side_by_side};
use crate::project::Part;
use converge_planner::History;

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
