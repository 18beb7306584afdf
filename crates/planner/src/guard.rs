//! Guarded changes: a change that can cut off the access to a host, or stop everything that runs on it, is reverted
//! automatically on the host unless it is confirmed.

use crate::access::{DeclaredGuard, Guard, GuardChoice, ItemGuard};
use crate::{Item, Outcome, Problem};
use converge_objects::traits_of;
use converge_resource::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// The guard of an item of which no role declares one: by the objects that it changes.
pub fn guard_of(item: &Item) -> Option<ItemGuard> {
    guarded(item, DeclaredGuard::default(), None)
}

/// The guard of an item that reverts others: as recorded of these (a word, and the timeout in seconds), else by the objects
/// that it changes.
pub fn guard_as(item: &Item, recorded: Option<(&str, u64)>) -> Option<ItemGuard> {
    let declared = recorded.and_then(|(word, seconds)| {
        Some(DeclaredGuard { choice: GuardChoice::By(Guard::from_word(word)?), seconds: Some(seconds) })
    });
    guarded(item, declared.unwrap_or_default(), None)
}

/// The guard of an item: as its user declares it, else that of an item that it restarts on, else by the objects that it
/// changes.
pub(crate) fn guarded(item: &Item, declared: DeclaredGuard, named: Option<ItemGuard>) -> Option<ItemGuard> {
    let objects: Vec<&ObjectId> = match &item.outcome {
        Outcome::Changed(changes) => changes.iter().map(|c| &c.change.object).collect(),
        Outcome::Deferred { objects, .. } => objects.iter().collect(),
        _ => return None,
    };
    // A restart of the host would count as a sign that the change is bad, and the timeout does not allow for answers of
    // other hosts.
    if item.comes_alone() || objects.iter().any(|o| traits_of(o).restarts_host) {
        return None;
    }
    // A new package has no predecessor to protect; and a package transaction cannot be interrupted, so an automatic revert
    // could not keep its promise.
    if objects.iter().any(|o| traits_of(o).one_transaction) {
        return None;
    }
    let guard = match declared.choice {
        GuardChoice::Never => return None,
        GuardChoice::By(guard) => guard,
        GuardChoice::ByObjects => named.map(|n| n.guard).or_else(|| Guard::of_all(objects))?,
    };
    let same = named.filter(|n| n.guard == guard).map(|n| n.seconds);
    Some(ItemGuard { guard, seconds: declared.seconds.or(same).unwrap_or(guard.seconds()) })
}

/// The reason why this item cannot be guarded although its user declares a guard.
pub(crate) fn refuses(item: &Item, declared: DeclaredGuard) -> Option<Problem> {
    let GuardChoice::By(guard) = declared.choice else { return None };
    let is_package = |object: &ObjectId| traits_of(object).one_transaction;
    let touches = match &item.outcome {
        Outcome::Changed(changes) => changes.iter().any(|c| is_package(&c.change.object)),
        Outcome::Deferred { objects, .. } => objects.iter().any(is_package),
        _ => false,
    };
    touches.then(|| Problem {
        help: Some("guard the resource that configures or restarts the service instead".to_owned()),
        ..Problem::new(format!(
            "`guard: {}` is not possible for a package: its transaction cannot be ended in the middle, so it could not be reverted in time",
            guard.word()
        ))
    })
}

/// Joins a change, the restart that makes it take effect, and the items between them in the role under one automatic revert.
/// `closes` holds the items (by number) that restart something for a guarded one.
pub fn join_guarded(items: &mut [Item], closes: &BTreeSet<u32>) {
    // By role and guard: the position of the first item of the group.
    let mut open: BTreeMap<(String, Guard), usize> = BTreeMap::new();
    for at in 0..items.len() {
        let Some(item) = items.get(at).filter(|i| i.is_pending()) else { continue };
        let role = item.role.clone();
        let Some(own) = item.guard else {
            // These never have an automatic revert.
            if item.comes_alone()
                || item.claims.iter().any(|o| traits_of(o).restarts_host || traits_of(o).one_transaction)
            {
                open.retain(|(of, _), _| *of != role);
            }
            continue;
        };
        let restarts = item.changes().iter().any(|c| c.change.object.kind == "unit");
        if !restarts && !closes.contains(&item.id) {
            open.entry((role, own.guard)).or_insert(at);
        } else if let Some(from) = open.remove(&(role.clone(), own.guard)) {
            let mut members: Vec<&mut Item> = items
                .iter_mut()
                .take(at + 1)
                .skip(from)
                .filter(|i| i.role == role && i.is_pending())
                .collect();
            let guards = || members.iter().filter_map(|i| i.guard);
            // The guard with the strictest conditions applies.
            let guard = guards().map(|g| g.guard).max().unwrap_or(own.guard);
            let seconds = guards().map(|g| g.seconds).max().unwrap_or(own.seconds);
            for member in &mut members {
                member.guard = Some(ItemGuard { guard, seconds });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: u32, role: &str, kind: &str, key: &str) -> Item {
        let object = ObjectId::new(kind, key);
        let state = converge_resource::State::absent;
        let change = converge_resource::Change { object: object.clone(), from: state(), to: state() };
        let reversibility = converge_resource::Reversibility::Reversible;
        Item {
            id,
            address: format!("{role}/{id}"),
            name: id.to_string(),
            role: role.to_owned(),
            kind: kind.to_owned(),
            claims: vec![object],
            outcome: Outcome::Changed(vec![crate::PlannedChange { change, reversibility, opaque: false }]),
            ..Item::default()
        }
    }

    #[test]
    fn an_item_is_guarded_as_declared_else_as_what_it_restarts_on_else_as_what_it_changes() {
        let file = item(1, "r", "path", "/etc/containerd/config.toml");
        let kubelet = item(2, "r", "unit", "kubelet.service");
        let own = guard_of(&file);
        assert_eq!(own, Some(ItemGuard { guard: Guard::Runtime, seconds: 180 }));
        assert_eq!(guard_of(&kubelet), None);
        let shorter = DeclaredGuard { choice: GuardChoice::ByObjects, seconds: Some(90) };
        let short = guarded(&file, shorter, None);
        assert_eq!(short, Some(ItemGuard { guard: Guard::Runtime, seconds: 90 }));
        assert_eq!(guarded(&kubelet, DeclaredGuard::default(), short), short, "it restarts on a guarded one");
        let not = DeclaredGuard { choice: GuardChoice::Never, seconds: None };
        assert_eq!(guarded(&file, not, None), None);
        let network = DeclaredGuard { choice: GuardChoice::By(Guard::Network), seconds: None };
        assert_eq!(
            guarded(&kubelet, network, None).map(|g| (g.guard, g.seconds)),
            Some((Guard::Network, 60))
        );
        let unchanged = Item { outcome: Outcome::Unchanged, ..file };
        assert_eq!(guarded(&unchanged, network, None), None);
        let mut installs = item(3, "r", "package", "containerd");
        if let (Outcome::Changed(all), Outcome::Changed(more)) =
            (&mut installs.outcome, item(3, "r", "unit", "containerd.service").outcome)
        {
            all.extend(more);
        }
        assert_eq!(guard_of(&installs), None, "nothing ran before it");
        assert_eq!(guarded(&installs, network, None), None, "no package transaction is behind a switch");
        assert!(refuses(&installs, network).is_some_and(|why| why.message.contains("package")));
        assert_eq!(refuses(&installs, not), None);
        assert_eq!(refuses(&item(5, "r", "path", "/etc/motd"), network), None);
        let boot = item(4, "r", "boot", "required");
        assert_eq!(guarded(&boot, network, None), None, "a restart ends no window");
    }

    #[test]
    fn a_change_and_its_restart_take_along_what_lies_between_and_nothing_else() {
        let with = |mut items: Vec<Item>| {
            for item in &mut items {
                item.guard = guard_of(item);
            }
            join_guarded(&mut items, &BTreeSet::new());
            items.iter().map(|i| i.guard.is_some()).collect::<Vec<_>>()
        };
        let config = |id: u32| item(id, "r", "path", "/etc/ssh/sshd_config");
        let plain = |id: u32| item(id, "r", "path", "/etc/motd");
        let restart = |id: u32| item(id, "r", "unit", "ssh.service");
        assert_eq!(
            with(vec![plain(1), config(2), plain(3), restart(4), plain(5)]),
            [false, true, true, true, false]
        );
        // A restart of the host in between would look like a change that killed it.
        let boot = item(3, "r", "boot", "required");
        assert_eq!(
            with(vec![config(1), plain(2), boot, plain(4), restart(5)]),
            [true, false, false, false, true]
        );
        // The revert must begin in time, and a package manager cannot be interrupted.
        let package = item(3, "r", "package", "tree");
        assert_eq!(
            with(vec![config(1), plain(2), package, plain(4), restart(5)]),
            [true, false, false, false, true]
        );
        // Items of other roles do not join; another guard has other conditions.
        let other = item(2, "other", "path", "/etc/motd");
        assert_eq!(with(vec![config(1), other, restart(3)]), [true, false, true]);
        let runtime = item(2, "r", "path", "/etc/containerd/config.toml");
        let mut items = vec![config(1), runtime, restart(3)];
        items.iter_mut().for_each(|i| i.guard = guard_of(i));
        join_guarded(&mut items, &BTreeSet::new());
        assert_eq!(items[1].guard.map(|g| g.guard), Some(Guard::Runtime));
    }
}
