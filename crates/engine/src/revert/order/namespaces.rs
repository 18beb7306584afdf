//! Objects that others of a cluster need to come back: their namespace, and the definition of their kind.

use super::{Edges, Revert};
use converge_resource::{ApiRef, ObjectId};

/// The namespace in which an object lies, or those of a release.
pub(crate) fn namespace_of(object: &ObjectId) -> Option<String> {
    match object.kind.as_str() {
        "k8s" => ApiRef::from_key(&object.key)?.namespace,
        "release" => Some(object.key.split_once('/')?.0.to_owned()),
        _ => None,
    }
}

impl Edges<'_> {
    /// A namespace comes before what is in it, and goes after it: it would take a release along that a later step uninstalls. A definition comes before
    /// the objects of its group.
    pub(super) fn namespaces(&mut self) {
        for (outer, revert) in self.of("k8s").collect::<Vec<_>>() {
            let Some(ApiRef { kind, name, .. }) = ApiRef::from_key(&revert.object.key) else { continue };
            let reverts = self.reverts;
            let is_inside = |inner: &Revert<'_>| namespace_of(inner.object).as_ref() == Some(&name);
            let coming = reverts.iter().enumerate().filter(|(_, inner)| inner.comes());
            match kind.as_str() {
                "Namespace" if revert.comes() => {
                    coming.filter(|(_, inner)| is_inside(inner)).for_each(|(at, _)| self.need(outer, at));
                }
                "Namespace" if revert.goes() => {
                    let changing = reverts.iter().enumerate().filter(|(_, inner)| inner.from != inner.to);
                    changing.filter(|(_, inner)| is_inside(inner)).for_each(|(at, _)| self.order(at, outer));
                }
                "CustomResourceDefinition" if revert.comes() => {
                    let Some((_, group)) = name.split_once('.') else { continue };
                    let of_group = |inner: &Revert<'_>| {
                        let found =
                            ApiRef::from_key(&inner.object.key).filter(|_| inner.object.kind == "k8s");
                        found.is_some_and(|r| r.api_version.split_once('/').is_some_and(|(g, _)| g == group))
                    };
                    coming.filter(|(_, inner)| of_group(inner)).for_each(|(at, _)| self.order(outer, at));
                }
                _ => {}
            }
        }
    }
}
