//! In which order the objects of one host are reverted, and what must stay because something that needs it stays. Pure.
//!
//! The order is that of the dependencies between the objects themselves, across runs and roles: directories before their contents when
//! they come back and after them when they go, accounts around the files that they own, packages as one transaction, units stopped before
//! all that they run with and started after it, but not while an object needs them. Where nothing depends, the reverse of the order of the runs remains.

mod commands;
mod links;
pub(crate) mod namespaces;
mod pods;
mod schedule;
mod unit;

use super::paths::above;
use commands::CommandSides;
use converge_ledger::{FSTAB, file_system};
use converge_objects::{PathState, UserState, action_of, chooses_packages, is_container, traits_of};
use converge_resource::{DynObject, ObjectId, State};
pub(crate) use pods::{Pods, needs_pods};
use schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
pub(crate) use unit::may_run_with;
use unit::{UnitTurn, turn_of};

/// One object that is to be reverted. Those of a host are given in the reverse of the order in which the runs first touched them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revert<'a> {
    pub object: &'a ObjectId,
    /// Its present state.
    pub from: &'a State,
    /// The state that it gets.
    pub to: &'a State,
    /// The item that changed it, `role/name`, and the run that holds the state before.
    pub item: &'a str,
    pub run: &'a str,
    /// The item whose foreign code changed it first, when it was foreign code.
    pub moved_by: Option<&'a str>,
    /// The mounts above it, each with the file system in which it lies.
    pub lies_in: &'a [(String, String)],
    /// The path that the host shows for its path, where links lead on.
    pub real: Option<&'a str>,
    /// Its effect on pods that are to be scheduled.
    pub pods: Pods,
    /// The release that brings it back first.
    pub brought_by: Option<&'a ObjectId>,
    /// Its path leads to another directory now than the one in which it was changed.
    pub is_elsewhere: bool,
}

impl Revert<'_> {
    fn role(&self) -> &str {
        converge_resource::role_of(self.item)
    }

    /// Whether the other object may lie in the same file system.
    fn may_hold(&self, inner: &Self) -> bool {
        self.lies_in.iter().all(|(place, system)| {
            let other = inner.lies_in.iter().find(|(at, _)| at == place);
            other.is_none_or(|(_, other)| other == system)
        })
    }

    fn goes(&self) -> bool {
        !self.from.is_absent() && self.to.is_absent()
    }

    fn comes(&self) -> bool {
        self.from.is_absent() && !self.to.is_absent()
    }
}

/// One object must be reverted before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub first: usize,
    pub then: usize,
    /// The second cannot be reverted unless the first is.
    pub needed: bool,
}

/// All dependencies among the objects, by their places.
pub(crate) fn edges(reverts: &[Revert<'_>]) -> Vec<Edge> {
    let mut found = Edges { reverts, edges: Vec::new(), sides: CommandSides::default() };
    found.sides = found.command_sides();
    found.containment();
    found.mounts();
    found.accounts();
    found.units();
    found.served();
    found.packages();
    found.commands();
    found.namespaces();
    found.brought_by_releases();
    found.pods();
    found.by_kind_within_roles();
    found.edges
}

/// The places in the order in which they are reverted; each inner list is one item of the plan.
pub(crate) fn arrange(reverts: &[Revert<'_>]) -> Vec<Vec<usize>> {
    let edges = edges(reverts);
    Schedule::new(reverts, &edges).run()
}

/// The reverts that must stay since one that needs them stays: each place with the one that is to blame.
pub(crate) fn held_back(reverts: &[Revert<'_>], stay: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    let mut needs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in edges(reverts).into_iter().filter(|e| e.needed) {
        needs.entry(edge.first).or_default().push(edge.then);
    }
    // The home directory of a user who stays does so too. It goes before the user, so no edge of the order says that.
    let goes = |kind: &'static str| {
        let all = reverts.iter().enumerate();
        all.filter(move |(_, r)| r.object.kind == kind && r.goes())
    };
    for (user, home) in goes("user").filter_map(|(at, user)| Some((at, home_of(user.from)?))) {
        let homes = goes("path").filter(|(_, path)| path.object.key == home && is_dir(path.from));
        needs.entry(user).or_default().extend(homes.map(|(at, _)| at));
    }
    let mut held = BTreeMap::new();
    let mut open: Vec<usize> = stay.iter().copied().collect();
    while let Some(first) = open.pop() {
        for &then in needs.get(&first).into_iter().flatten() {
            if !stay.contains(&then) && !held.contains_key(&then) {
                held.insert(then, first);
                open.push(then);
            }
        }
    }
    held
}

/// The directory in which, or the path at which, an object lies.
fn place(object: &ObjectId) -> Option<&str> {
    traits_of(object).at_path.then_some(object.key.as_str())
}

fn path_state(state: &State) -> Option<PathState> {
    PathState::try_from(state.clone()).ok()
}

/// Whether the state is that of a directory.
pub(crate) fn is_dir(state: &State) -> bool {
    matches!(path_state(state), Some(PathState::Dir { .. }))
}

fn owner_and_group(state: &State) -> Option<(String, String)> {
    match path_state(state)? {
        PathState::File { owner, group, .. }
        | PathState::Dir { owner, group, .. }
        | PathState::Link { owner, group, .. } => Some((owner, group)),
        _ => None,
    }
}

fn home_of(user: &State) -> Option<String> {
    match UserState::try_from(user.clone()).ok()? {
        UserState::User { home, .. } => Some(home),
        UserState::Absent => None,
    }
}

/// The primary group of a user and the others.
fn groups_of(state: &State) -> BTreeSet<String> {
    match UserState::try_from(state.clone()) {
        Ok(UserState::User { group, mut groups, .. }) => {
            groups.insert(group);
            groups
        }
        Ok(UserState::Absent) | Err(_) => BTreeSet::new(),
    }
}

struct Edges<'a> {
    reverts: &'a [Revert<'a>],
    edges: Vec<Edge>,
    sides: CommandSides,
}

impl<'a> Edges<'a> {
    fn order(&mut self, first: usize, then: usize) {
        self.add(first, then, false);
    }

    fn need(&mut self, first: usize, then: usize) {
        self.add(first, then, true);
    }

    /// An object goes before the file system in which it lies. One in memory would take along what stays in it.
    fn leaves(&mut self, inner: usize, mount: usize, revert: &Revert<'_>) {
        self.add(inner, mount, is_container(revert.object, revert.from));
    }

    fn add(&mut self, first: usize, then: usize, needed: bool) {
        if first != then {
            self.edges.push(Edge { first, then, needed });
        }
    }

    /// Those that change, of a kind, with their places.
    fn of(&self, kind: &'a str) -> impl Iterator<Item = (usize, &'a Revert<'a>)> + use<'a> {
        let changing = self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to);
        changing.filter(move |(_, r)| r.object.kind == kind)
    }

    /// Those that change, of the kinds that have this property, with their places.
    fn with(
        &self,
        has: fn(&dyn DynObject) -> bool,
    ) -> impl Iterator<Item = (usize, &'a Revert<'a>)> + use<'a> {
        let changing = self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to);
        changing.filter(move |(_, r)| converge_objects::object(&r.object.kind).is_some_and(has))
    }

    /// Directories before what is in them when they come, after it when they go. A mount that comes, before what is below it.
    fn containment(&mut self) {
        let mounts: HashMap<&str, usize> =
            self.with(|object| object.traits().mounts).map(|(at, r)| (r.object.key.as_str(), at)).collect();
        let links = self.links();
        self.through_links();
        let mut paths: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, revert) in self.of("path") {
            paths.entry(revert.object.key.as_str()).or_default().push(at);
        }
        let reverts = self.reverts;
        // A path as it is now goes before the same one in another place.
        for (at, then) in paths.values().flat_map(|places| places.iter().zip(places.iter().skip(1))) {
            self.order(*at, *then);
        }
        for (at, inner) in reverts.iter().enumerate().filter(|(_, r)| r.from != r.to) {
            let Some(key) = place(inner.object) else { continue };
            // A checkout or a mount stands on the directory of its own name too, and hides it.
            let own = (inner.object.kind != "path" || mounts.contains_key(key)).then_some(key);
            for folder in own.into_iter().chain(above(key)) {
                let outers = paths.get(folder).into_iter().flatten();
                let outers = outers.filter_map(|outer| Some((*outer, reverts.get(*outer)?)));
                let is_led = |outer: &usize| {
                    links.get(folder).is_some_and(|links| links.iter().any(|(at, _)| at == outer))
                };
                for (outer, revert) in outers.filter(|(at, outer)| !is_led(at) && outer.may_hold(inner)) {
                    let (was, is) = (is_dir(revert.from), is_dir(revert.to));
                    if was && !is && inner.is_elsewhere {
                        self.need(outer, at);
                    } else if was && !is {
                        self.need(at, outer);
                    } else if is && !was && !inner.to.is_absent() {
                        self.need(outer, at);
                    }
                }
                // Objects that were changed where the link leads now go first, those where it led before then after it.
                for &(link, _) in links.get(folder).into_iter().flatten() {
                    if at > link {
                        self.need(link, at);
                    } else {
                        self.order(at, link);
                    }
                }
                let system =
                    inner.lies_in.iter().find(|(place, _)| place == folder).map(|(_, system)| system);
                match mounts.get(folder).and_then(|m| Some((*m, reverts.get(*m)?))) {
                    // Paths in the file system that is there now go first, those that come to light then after it.
                    Some((mount, revert)) if system.is_some() => {
                        let is = |state: &State| system.is_some_and(|system| file_system(state) == system);
                        match (is(revert.from), is(revert.to)) {
                            (true, false) => self.leaves(at, mount, revert),
                            (false, true) => self.need(mount, at),
                            _ => {}
                        }
                    }
                    Some((mount, revert)) if revert.comes() && !inner.to.is_absent() => self.need(mount, at),
                    Some((mount, revert)) if revert.goes() && at < mount => {
                        self.leaves(at, mount, revert);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A directory goes after an object in it that lies there under another name, since a link leads there.
    fn through_links(&mut self) {
        let real = |r: &Revert<'a>| r.real.unwrap_or(&r.object.key);
        let leaves = self.of("path").filter(|(_, r)| is_dir(r.from) && !is_dir(r.to));
        let folders: HashMap<&str, (usize, &Revert<'_>)> = leaves.map(|(at, r)| (real(r), (at, r))).collect();
        if folders.is_empty() {
            return;
        }
        let mut within: Vec<(usize, usize)> = Vec::new();
        for (at, inner) in
            self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to && !r.from.is_absent())
        {
            let Some(key) = place(inner.object) else { continue };
            let outers = above(real(inner)).filter_map(|folder| folders.get(folder));
            let outers = outers.filter(|(_, outer)| !above(key).any(|dir| dir == outer.object.key));
            within.extend(outers.filter(|(_, outer)| outer.may_hold(inner)).map(|(outer, _)| (at, *outer)));
        }
        within.into_iter().for_each(|(inner, outer)| self.need(inner, outer));
    }

    /// The lines of the mounts at boot go before an unmount is tried: else systemd or a boot mounts it once more, and where it is in use the line would
    /// stay. They come back when the mount is there: a line that cannot be mounted can hold up a boot. A directory that is mounted elsewhere is there
    /// for as long as that.
    fn mounts(&mut self) {
        let lines = self.of("path").find(|(_, r)| r.object.key == FSTAB).map(|(at, _)| at);
        let dirs: HashMap<&str, (usize, bool)> = self
            .of("path")
            .filter(|(_, r)| is_dir(r.from) != is_dir(r.to))
            .map(|(at, r)| (r.object.key.as_str(), (at, is_dir(r.to))))
            .collect();
        for (at, mount) in self.with(|object| object.traits().mounts) {
            let (goes, comes) = (mount.goes(), mount.comes());
            match lines {
                Some(lines) if goes => self.order(lines, at),
                Some(lines) if comes => self.order(at, lines),
                _ => {}
            }
            let source = file_system(if goes { mount.from } else { mount.to });
            for dir in std::iter::once(source).chain(above(source)) {
                match dirs.get(dir) {
                    Some((dir, false)) if goes => self.need(at, *dir),
                    Some((dir, true)) if comes => self.need(*dir, at),
                    _ => {}
                }
            }
        }
    }

    /// Users and groups before what they own, and what belonged to them before they go; groups around their users.
    fn accounts(&mut self) {
        let named = |kind: &'a str| {
            self.of(kind).map(|(at, r)| (r.object.key.as_str(), (at, r))).collect::<HashMap<_, _>>()
        };
        let (users, groups) = (named("user"), named("group"));
        for (at, path) in self.of("path") {
            for (state, comes) in [(path.from, false), (path.to, true)] {
                let Some((owner, group)) = owner_and_group(state) else { continue };
                for account in [users.get(owner.as_str()), groups.get(group.as_str())].into_iter().flatten() {
                    match account {
                        (account, revert) if comes && revert.comes() => self.need(*account, at),
                        (account, revert) if !comes && revert.goes() => self.need(at, *account),
                        _ => {}
                    }
                }
            }
        }
        for (at, user) in self.of("user") {
            for (state, comes) in [(user.from, false), (user.to, true)] {
                for name in groups_of(state) {
                    match groups.get(name.as_str()) {
                        Some((group, revert)) if comes && revert.comes() => self.need(*group, at),
                        Some((group, revert)) if !comes && revert.goes() => self.need(at, *group),
                        _ => {}
                    }
                }
            }
        }
        for (at, command) in self.with(|object| object.action().is_action()) {
            let user = action_of(command.object).user(&command.object.key);
            match user.and_then(|name| users.get(name.as_str()).copied()) {
                Some((user, revert)) if revert.goes() => self.order(at, user),
                Some((user, revert)) if revert.comes() => self.order(user, at),
                _ => {}
            }
        }
    }

    /// Around the transaction of the packages: what runs of them is stopped before, and files that go would else keep their directories;
    /// what comes back or stays would be taken along by a purge.
    fn packages(&mut self) {
        let packages: Vec<usize> = self.of("package").map(|(at, _)| at).collect();
        let Some(&one) = packages.first() else { return };
        let roles: BTreeSet<&str> =
            packages.iter().filter_map(|at| Some(self.reverts.get(*at)?.role())).collect();
        let reverts = self.reverts;
        let changing = reverts.iter().enumerate().filter(|(_, r)| r.from != r.to);
        for (at, revert) in changing.filter(|(_, r)| roles.contains(r.role())) {
            let before = match revert.object.kind.as_str() {
                // It goes back while what a command has made, or a link, is there: that goes before the package that it may need.
                "path" if !revert.to.is_absent() && self.sides.is_bound(at) => continue,
                // The command brings it back, and nothing comes between the two.
                "path" if revert.moved_by.is_some() && self.sides.is_after(at, 0) => continue,
                // The sources and settings of package managers are a matter of their own order.
                "path" if chooses_packages(revert.object) => continue,
                // No package has files in a directory that an item made after it.
                "path" => {
                    let is_later = revert.moved_by.is_none() && packages.iter().all(|p| at < *p);
                    revert.to.is_absent() && (!is_dir(revert.from) || is_later)
                }
                "unit" => match turn_of(revert) {
                    UnitTurn::Stops => true,
                    UnitTurn::Starts { .. } => false,
                    UnitTurn::Settles => continue,
                },
                "user" | "group" if revert.comes() => true,
                "user" | "group" if revert.goes() => false,
                _ => continue,
            };
            // All packages are one transaction: one of them stands for all.
            if before { self.order(at, one) } else { self.order(one, at) }
        }
    }

    /// A host's part in its cluster comes before all else of its role: a node leaves while its kubelet runs. What is handled last comes
    /// behind it.
    fn by_kind_within_roles(&mut self) {
        let class = |revert: &Revert<'_>| match converge_objects::object(&revert.object.kind) {
            Some(object) if object.node().stays_unless_allowed() => 0,
            Some(object) if object.traits().back_last => 2,
            _ => 1,
        };
        let mut of_role: BTreeMap<&str, [Vec<usize>; 3]> = BTreeMap::new();
        for (at, revert) in self.reverts.iter().enumerate() {
            if let Some(list) = of_role.entry(revert.role()).or_default().get_mut(class(revert)) {
                list.push(at);
            }
        }
        for [first, usual, last] in of_role.into_values() {
            for &early in &first {
                usual.iter().chain(&last).for_each(|&then| self.order(early, then));
            }
            for &late in &last {
                usual.iter().for_each(|&before| self.order(before, late));
            }
        }
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
