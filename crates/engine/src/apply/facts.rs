//! Facts that this host alters in the run and that items of other targets read: they are read again when the item is over that alters them.

use super::TargetRun;
use crate::TargetError;
use crate::apply::lane::element_of;
use std::sync::Arc;

impl TargetRun {
    /// Reads facts again that items of this host have altered, and lets those items go on elsewhere that wait for them.
    pub(super) async fn tell_facts(&mut self) -> Result<(), TargetError> {
        let host = self.lane.host.clone();
        let is = |address: &str, item: &str| address == item || element_of(address) == item;
        let over: Vec<(String, bool)> = self
            .gates
            .altering(&host)
            .into_iter()
            .filter(|item| !self.lane.is_open(|address| is(address, item)))
            .map(|item| {
                let ended = self.lane.finished().iter();
                let failed =
                    ended.filter(|(of, _)| is(&of.address, &item)).any(|(_, result)| result.is_bad());
                (item, failed)
            })
            .collect();
        let Ok(link) = self.target.host() else { return Ok(()) };
        if over.is_empty() {
            return Ok(());
        }
        let now = crate::plan::facts::read_again(&self.context, link).await?;
        for (item, failed) in over {
            let value = |fact: &str| now.get(fact).cloned().unwrap_or_default();
            Arc::make_mut(&mut self.context.pool.other_facts()).settle(&host, &item, failed, value);
            self.gates.altered(&host, &item, failed.then_some("failed"));
        }
        Ok(())
    }
}
