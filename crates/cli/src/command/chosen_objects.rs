//! Managed objects that are chosen by the names of their resources or their own.

use crate::failure::Failure;
use converge_engine::{HostManaged, ManagedObject};
use std::collections::BTreeSet;

/// The names by which a managed object is chosen: that of its resource, and its own. A command is known by its resource alone.
fn names(object: &ManagedObject) -> impl Iterator<Item = String> {
    let own = (!converge_objects::traits_of(&object.object).key_is_text).then(|| object.object.to_string());
    std::iter::once(object.item.clone()).chain(own)
}

/// Keeps only the chosen objects of this project.
pub(super) fn narrow(found: &mut [HostManaged], wanted: &[String]) -> Result<(), Failure> {
    check(found, wanted)?;
    for host in found {
        host.objects.retain(|o| !o.is_of_others && names(o).any(|name| wanted.contains(&name)));
    }
    Ok(())
}

/// Leaves only the objects of this project whose resources are chosen, or manage a chosen object: with one of them alone a unit would stay without its
/// file, or a user without the home directory.
pub(super) fn narrow_to_resources(found: &mut [HostManaged], wanted: &[String]) -> Result<(), Failure> {
    check(found, wanted)?;
    for host in found {
        let chosen = host.objects.iter().filter(|o| names(o).any(|name| wanted.contains(&name)));
        let items: BTreeSet<String> = chosen.filter(|o| !o.is_of_others).map(|o| o.item.clone()).collect();
        host.objects.retain(|o| !o.is_of_others && items.contains(&o.item));
    }
    Ok(())
}

/// Checks that every requested object is managed by this project.
fn check(found: &[HostManaged], wanted: &[String]) -> Result<(), Failure> {
    let own = found.iter().flat_map(|h| &h.objects).filter(|o| !o.is_of_others);
    let known: BTreeSet<String> = own.flat_map(names).collect();
    let is_all_read = found.iter().all(|h| h.lost.is_none());
    if let Some(unknown) = wanted.iter().find(|w| !known.contains(w.as_str())).filter(|_| is_all_read) {
        return Err(Failure::usage(
            format!("no object is managed by a resource `{unknown}` here"),
            "`converge state list` names the resources that manage something, each as ROLE/ID, and the objects",
        ));
    }
    Ok(())
}
