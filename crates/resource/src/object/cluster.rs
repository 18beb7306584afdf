//! A name in a cluster.

use super::{ErasedObject, Nothing, Object};
use crate::ApiRef;

/// An object that the API of a cluster, or helm, knows by a name of its own.
pub trait ClusterPart: Object {
    /// True for an object of the API itself: each project owns fields of it, and other objects may stand on it.
    const OF_API: bool = false;

    /// True for an object whose change may wait for pods.
    const NEEDS_PODS: bool = false;

    /// The object of the API that the key names: itself, or the one whose pods it is about.
    fn api(_key: &str) -> Option<ApiRef> {
        None
    }

    /// The namespace and the name of the release of helm that the key names.
    fn release(_key: &str) -> Option<(&str, &str)> {
        None
    }

    /// The note on an object that comes back, though not with all that went with it; `None` for any other.
    fn comes_back_without(_key: &str) -> Option<&'static str> {
        None
    }
}

/// [`ClusterPart`] without its types.
pub trait DynClusterPart: Send + Sync {
    /// [`ClusterPart::OF_API`].
    fn of_api(&self) -> bool {
        false
    }
    /// [`ClusterPart::NEEDS_PODS`].
    fn needs_pods(&self) -> bool {
        false
    }
    /// [`ClusterPart::api`].
    fn api(&self, _key: &str) -> Option<ApiRef> {
        None
    }
    /// [`ClusterPart::release`].
    fn release<'k>(&self, _key: &'k str) -> Option<(&'k str, &'k str)> {
        None
    }
    /// [`ClusterPart::comes_back_without`].
    fn comes_back_without(&self, _key: &str) -> Option<&'static str> {
        None
    }
}

impl DynClusterPart for Nothing {}

impl<O: ClusterPart> DynClusterPart for ErasedObject<O> {
    fn of_api(&self) -> bool {
        O::OF_API
    }
    fn needs_pods(&self) -> bool {
        O::NEEDS_PODS
    }
    fn api(&self, key: &str) -> Option<ApiRef> {
        O::api(key)
    }
    fn release<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        O::release(key)
    }
    fn comes_back_without(&self, key: &str) -> Option<&'static str> {
        O::comes_back_without(key)
    }
}
