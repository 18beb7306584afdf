//! A host's part in its cluster.

use super::typed::typed;
use super::{Change, ErasedObject, Nothing, Object};
use crate::{Backup, NodeRemoval, NodeRemovalRequest};

/// An object that makes its host a node of a cluster, or goes with the node.
pub trait NodePart: Object {
    /// True for an object that makes its host a node of a cluster while it is not absent. The node's name is that of its
    /// [`NodeRemoval`], else the host's.
    const MAKES_NODE: bool = false;

    /// True for an object that goes with its host's node: a rollback that removes the node does not revert it, if an item of the node's role has
    /// changed it since the node joined.
    const GOES_WITH_NODE: bool = false;

    /// True for an object that is removed only with `--allow-destroy`, in an ordinary run too: a host's part in its cluster. A
    /// rollback reverts it before everything else of its role; if it stays, the role stays. `undo.sh` never removes it, and asks
    /// `cv_stays_KIND KEY NOW BEFORE` whether and why it stays.
    const STAYS_UNLESS_ALLOWED: bool = false;

    /// The backup that must reach the controller before a rollback makes this change: a copy of data that the change
    /// destroys. A kind that makes such a change in a plan sets `WantedStates::backup` itself.
    fn backup(_from: &Self::State, _to: &Self::State) -> Option<Backup> {
        None
    }

    /// The question to another host before a rollback makes this change, if the run recorded one. The record is data of the
    /// host and not trusted.
    fn removal_request(
        _way: &NodeRemoval,
        _from: &Self::State,
        _to: &Self::State,
    ) -> Option<NodeRemovalRequest> {
        None
    }
}

/// [`NodePart`] without its types.
pub trait DynNodePart: Send + Sync {
    /// [`NodePart::MAKES_NODE`].
    fn makes_node(&self) -> bool {
        false
    }
    /// [`NodePart::GOES_WITH_NODE`].
    fn goes_with_node(&self) -> bool {
        false
    }
    /// [`NodePart::STAYS_UNLESS_ALLOWED`].
    fn stays_unless_allowed(&self) -> bool {
        false
    }
    /// [`NodePart::backup`]; none for a bad state: it cannot be applied.
    fn backup(&self, _change: &Change) -> Option<Backup> {
        None
    }
    /// [`NodePart::removal_request`]; none for a bad state.
    fn removal_request(&self, _way: &NodeRemoval, _change: &Change) -> Option<NodeRemovalRequest> {
        None
    }
}

impl DynNodePart for Nothing {}

impl<O: NodePart> DynNodePart for ErasedObject<O> {
    fn makes_node(&self) -> bool {
        O::MAKES_NODE
    }
    fn goes_with_node(&self) -> bool {
        O::GOES_WITH_NODE
    }
    fn stays_unless_allowed(&self) -> bool {
        O::STAYS_UNLESS_ALLOWED
    }
    fn backup(&self, change: &Change) -> Option<Backup> {
        typed::<O>(change).ok().and_then(|(from, to)| O::backup(&from, &to))
    }
    fn removal_request(&self, way: &NodeRemoval, change: &Change) -> Option<NodeRemovalRequest> {
        typed::<O>(change).ok().and_then(|(from, to)| O::removal_request(way, &from, &to))
    }
}
