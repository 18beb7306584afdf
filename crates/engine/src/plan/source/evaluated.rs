//! Evaluations that are kept: a plan passes over its items several times, and asks at its end what all of them claim.

use super::{HostSource, registered};
use converge_model::{DeclaredItem, Resolution, RoleUse};
use converge_planner::{Output, Outputs};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An item as it was evaluated.
pub(super) struct EvaluatedItem {
    /// The role that it was evaluated with, where that is not the declared one.
    used: Option<Arc<RoleUse>>,
    /// The results that it may have read.
    results: Vec<Option<Output>>,
    pub resolution: Resolution,
    /// The names that it has read.
    pub read: BTreeSet<String>,
}

impl EvaluatedItem {
    /// Evaluates an item with a role of its host, or with the same role where earlier items alter facts.
    pub fn new(
        item: &DeclaredItem,
        declared: &RoleUse,
        used: Option<Arc<RoleUse>>,
        outputs: &Outputs,
    ) -> Self {
        let mut read = BTreeSet::new();
        let role = used.as_deref().unwrap_or(declared);
        let resolution = role.resolve_reading(item, &registered(outputs), &mut read);
        let results = results(item, outputs).map(Option::<&Output>::cloned).collect();
        Self { used, results, resolution, read }
    }
}

/// The results that an item may read.
fn results<'a>(item: &'a DeclaredItem, outputs: &'a Outputs) -> impl Iterator<Item = Option<&'a Output>> {
    item.visible_results().iter().map(|name| outputs.get(&(item.role.clone(), name.clone())))
}

impl HostSource<'_> {
    /// The evaluation of item `index`; made anew where the role or a result that it may read is not that of the last time.
    pub(super) fn evaluated(
        &self,
        index: usize,
        (declared, item): (&RoleUse, &DeclaredItem),
        used: Option<Arc<RoleUse>>,
        outputs: &Outputs,
    ) -> Arc<EvaluatedItem> {
        let is_same = |last: &&Arc<EvaluatedItem>| {
            let same_role = match (&last.used, &used) {
                (Some(last), Some(used)) => Arc::ptr_eq(last, used),
                (last, used) => last.is_none() && used.is_none(),
            };
            same_role && last.results.iter().map(Option::as_ref).eq(results(item, outputs))
        };
        if let Some(last) = self.evaluated.borrow().get(&index).filter(is_same) {
            return last.clone();
        }
        let made = Arc::new(EvaluatedItem::new(item, declared, used, outputs));
        self.evaluated.borrow_mut().insert(index, made.clone());
        made
    }
}
