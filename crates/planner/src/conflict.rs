//! Conflicts: two owners of one object.

use converge_resource::{Claim, ClaimMode, ObjectId};
use std::collections::BTreeMap;

/// Two items that claim one facet of one object and do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The object.
    pub object: ObjectId,
    /// The facet.
    pub facet: &'static str,
    /// The indices of the two items, the earlier first.
    pub items: (usize, usize),
    /// The name that each of them uses for it.
    pub named: (ObjectId, ObjectId),
}

/// One item's claims.
pub(crate) struct Claims {
    pub index: usize,
    pub role: String,
    pub claims: Vec<Claim>,
    /// The name that the item uses for the object of each claim, in the same order.
    pub named: Vec<ObjectId>,
}

/// A claim, with its owner, its mode and the name that it uses.
type OwnedClaim<'a> = (&'a Claims, &'a ClaimMode, &'a ObjectId);

/// Finds all conflicts. `ordered(a, b)` tells whether role `a` surely comes before role `b`.
///
/// Two claims agree when both edit, or both want the same value, or when an edit surely comes after
/// the claim on the whole: it then works on that one's result.
pub(crate) fn conflicts(all: &[Claims], ordered: &dyn Fn(&str, &str) -> bool) -> Vec<Conflict> {
    let mut by_facet: BTreeMap<(&ObjectId, &'static str), Vec<OwnedClaim<'_>>> = BTreeMap::new();
    let mut found = Vec::new();
    for item in all {
        for (claim, named) in item.claims.iter().zip(&item.named) {
            let others = by_facet.entry((&claim.object, claim.facet)).or_default();
            let clash = others.iter().find(|(other, mode, _)| {
                other.index != item.index && !agree(mode, &claim.mode, &other.role, &item.role, ordered)
            });
            if let Some((other, _, by)) = clash {
                found.push(Conflict {
                    object: claim.object.clone(),
                    facet: claim.facet,
                    items: (other.index, item.index),
                    named: ((*by).clone(), named.clone()),
                });
            }
            others.push((item, &claim.mode, named));
        }
    }
    found
}

fn agree(
    first: &ClaimMode,
    second: &ClaimMode,
    first_role: &str,
    second_role: &str,
    ordered: &dyn Fn(&str, &str) -> bool,
) -> bool {
    match (first, second) {
        (ClaimMode::Edit, ClaimMode::Edit) => true,
        (ClaimMode::Shared(a), ClaimMode::Shared(b)) => a == b,
        (ClaimMode::Exclusive, ClaimMode::Edit) => {
            first_role == second_role || ordered(first_role, second_role)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(index: usize, role: &str, claim: Claim) -> Claims {
        Claims { index, role: role.to_owned(), named: vec![claim.object.clone()], claims: vec![claim] }
    }

    fn count(first: Claim, second: Claim, roles: (&str, &str)) -> usize {
        conflicts(&[item(0, roles.0, first), item(1, roles.1, second)], &|a, b| (a, b) == ("a", "b")).len()
    }

    #[test]
    fn claims_agree_or_clash() {
        let hosts = ObjectId::new("path", "/etc/hosts");
        let whole = || Claim::exclusive(hosts.clone(), "content");
        let edit = || Claim::edit(hosts.clone(), "content");
        let want = |v: &str| Claim::shared(hosts.clone(), "mode", v);
        assert_eq!(count(whole(), whole(), ("a", "a")), 1);
        assert_eq!(count(edit(), edit(), ("a", "c")), 0);
        assert_eq!(count(whole(), edit(), ("a", "a")), 0);
        assert_eq!(count(whole(), edit(), ("a", "b")), 0, "b requires a");
        assert_eq!(count(whole(), edit(), ("b", "c")), 1, "no order between them");
        assert_eq!(count(edit(), whole(), ("a", "a")), 1, "the edit would be lost");
        assert_eq!(count(want("644"), want("644"), ("a", "c")), 0);
        assert_eq!(count(want("644"), want("600"), ("a", "c")), 1);
        assert_eq!(count(whole(), want("644"), ("a", "c")), 0, "different facets");
    }
}
