//! Reverts that may wait for pods come between the taints of nodes that go and those that come.

use super::Edges;
use converge_resource::ObjectId;

/// The effect of a revert on pods that are to be scheduled on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pods {
    /// None.
    #[default]
    Unaffected,
    /// A taint or a cordon goes.
    Admitted,
    /// A taint or a cordon comes, and none goes.
    Barred,
}

/// Whether the revert of such an object may wait for pods.
pub(crate) fn needs_pods(object: &ObjectId) -> bool {
    converge_objects::object(&object.kind).is_some_and(|o| o.cluster().needs_pods())
}

impl Edges<'_> {
    /// Nodes take pods before anything may wait for one, and taints and cordons come back after it. A node that does both has two reverts, in this order.
    pub(super) fn pods(&mut self) {
        let reverts = self.reverts;
        let waits =
            || (0..).zip(reverts).filter(|(_, r)| r.from != r.to && needs_pods(r.object)).map(|(at, _)| at);
        for (at, revert) in reverts.iter().enumerate() {
            match revert.pods {
                Pods::Unaffected => {}
                Pods::Barred => waits().for_each(|first| self.order(first, at)),
                Pods::Admitted => {
                    waits().for_each(|then| self.order(at, then));
                    let later = (0..).zip(reverts).skip(at + 1);
                    let rest = later.filter(|(_, r)| r.object == revert.object).map(|(rest, _)| rest);
                    rest.for_each(|rest| self.order(at, rest));
                }
            }
        }
    }
}
