//! Objects that others of a cluster need to come back: their namespace, the definition of their kind, and the release that brings them.

use super::{Edges, Revert};
use converge_objects::{api_ref, release_of};
use converge_resource::{ApiRef, ObjectId};
use serde_json::Value;
use std::collections::HashMap;

/// The namespace in which an object lies, or those of a release.
pub(crate) fn namespace_of(object: &ObjectId) -> Option<String> {
    let of_release = || release_of(object).map(|(namespace, _)| namespace.to_owned());
    api_ref(object).map_or_else(of_release, |r| r.namespace)
}

/// Whether another object goes with this one of the API: it lies in that namespace, or is of the kind that this definition, by its text, defines.
pub(crate) fn goes_along(outer: &ApiRef, text: Option<&Value>, inner: &ObjectId) -> bool {
    let defined = || {
        let word = |at: &str| text?.pointer(at).and_then(Value::as_str);
        word("/spec/group").zip(word("/spec/names/kind"))
    };
    match outer.kind.as_str() {
        "Namespace" => namespace_of(inner).as_ref() == Some(&outer.name),
        "CustomResourceDefinition" => defined().is_some_and(|(group, kind)| {
            let is_of = |r: ApiRef| {
                r.api_version.split_once('/').is_some_and(|(of, _)| of == group) && r.kind == kind
            };
            api_ref(inner).is_some_and(is_of)
        }),
        _ => false,
    }
}

impl Edges<'_> {
    /// A release comes before what is changed of the objects that it brings.
    pub(super) fn brought_by_releases(&mut self) {
        let reverts = self.reverts;
        let changing = reverts.iter().enumerate().filter(|(_, revert)| revert.from != revert.to);
        let releases: HashMap<&ObjectId, usize> =
            (0..).zip(reverts).map(|(at, revert)| (revert.object, at)).collect();
        let brought = changing.filter_map(|(at, revert)| Some((*releases.get(revert.brought_by?)?, at)));
        brought.for_each(|(release, at)| self.need(release, at));
    }

    /// A namespace comes before what is in it, and goes after it: it would take a release along that a later step uninstalls. A definition comes before
    /// the objects of its group.
    pub(super) fn namespaces(&mut self) {
        let reverts = self.reverts;
        for (outer, revert) in reverts.iter().enumerate().filter(|(_, revert)| revert.from != revert.to) {
            let Some(ApiRef { kind, name, .. }) = api_ref(revert.object) else { continue };
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
                        api_ref(inner.object)
                            .is_some_and(|r| r.api_version.split_once('/').is_some_and(|(g, _)| g == group))
                    };
                    coming.filter(|(_, inner)| of_group(inner)).for_each(|(at, _)| self.order(outer, at));
                }
                _ => {}
            }
        }
    }
}
