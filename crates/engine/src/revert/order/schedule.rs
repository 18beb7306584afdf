//! The order that keeps every edge: groups by item and transaction, the reverse of the runs where nothing depends.

use super::{Edge, Pods, Revert};
use std::collections::{BTreeMap, BTreeSet};

/// Orders the objects: by the dependencies, else as they are given, and what one item changed together where that is possible.
pub(super) struct Schedule<'a> {
    reverts: &'a [Revert<'a>],
    /// The places of each vertex; all packages are one.
    vertices: Vec<Vec<usize>>,
    /// Where a vertex stands while nothing speaks against it.
    position: Vec<usize>,
    group: Vec<usize>,
    then: Vec<BTreeSet<usize>>,
    /// The number of vertices that must come first, and of those of other groups.
    waits: Vec<usize>,
    outside: Vec<usize>,
    /// Of each group, what is not in order yet.
    open: Vec<BTreeSet<(usize, usize)>>,
    ready: BTreeSet<(usize, usize)>,
    left: BTreeSet<(usize, usize)>,
    out: Vec<usize>,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(reverts: &'a [Revert<'a>], edges: &[Edge]) -> Self {
        let is_package =
            |r: &Revert<'_>| converge_objects::traits_of(r.object).one_transaction && r.from != r.to;
        let mut vertices: Vec<Vec<usize>> = Vec::new();
        let mut vertex_of = Vec::new();
        let mut packages = None;
        for (at, revert) in reverts.iter().enumerate() {
            let vertex = match packages {
                Some(vertex) if is_package(revert) => vertex,
                _ => vertices.len(),
            };
            if is_package(revert) {
                packages = Some(vertex);
            }
            match vertices.get_mut(vertex) {
                Some(members) => members.push(at),
                None => vertices.push(vec![at]),
            }
            vertex_of.push(vertex);
        }
        let of = |at: usize| vertex_of.get(at).copied();
        let mut groups: BTreeMap<(usize, &str, &str), usize> = BTreeMap::new();
        let (mut position, mut group) = (Vec::new(), Vec::new());
        for (vertex, members) in vertices.iter().enumerate() {
            // A revert that needs a package which goes is made while it is there; one that needs a package which comes, after it.
            let going = members.iter().filter(|at| reverts.get(**at).is_some_and(Revert::goes)).max();
            position.push(going.or(members.first()).copied().unwrap_or_default());
            let one = members.first().and_then(|at| reverts.get(*at)).map_or(("", ""), |r| (r.item, r.run));
            let admits = members.iter().any(|at| reverts.get(*at).is_some_and(|r| r.pods == Pods::Admitted));
            let key = match packages {
                Some(of_packages) if of_packages == vertex => (1, "", ""),
                // It may be a part of what its item did.
                _ if admits => (2, one.0, one.1),
                _ => (0, one.0, one.1),
            };
            let next = groups.len();
            group.push(*groups.entry(key).or_insert(next));
        }
        let mut then = vec![BTreeSet::new(); vertices.len()];
        for (first, second) in edges.iter().filter_map(|e| Some((of(e.first)?, of(e.then)?))) {
            if let Some(list) = then.get_mut(first).filter(|_| first != second) {
                list.insert(second);
            }
        }
        let mut schedule = Self {
            reverts,
            waits: vec![0; vertices.len()],
            outside: vec![0; groups.len()],
            open: vec![BTreeSet::new(); groups.len()],
            ready: BTreeSet::new(),
            left: position.iter().copied().zip(0..).collect(),
            out: Vec::new(),
            vertices,
            position,
            group,
            then,
        };
        schedule.count();
        schedule
    }

    fn at(&self, vertex: usize) -> (usize, usize) {
        (self.position.get(vertex).copied().unwrap_or_default(), vertex)
    }

    fn group_of(&self, vertex: usize) -> usize {
        self.group.get(vertex).copied().unwrap_or_default()
    }

    fn count(&mut self) {
        for (first, second) in
            self.then.iter().enumerate().flat_map(|(f, list)| list.iter().map(move |s| (f, *s)))
        {
            let own = self.group.get(second).copied();
            if let Some(waits) = self.waits.get_mut(second) {
                *waits += 1;
            }
            if self.group.get(first).copied() != own
                && let Some(outside) = own.and_then(|g| self.outside.get_mut(g))
            {
                *outside += 1;
            }
        }
        for vertex in 0..self.vertices.len() {
            let (at, group) = (self.at(vertex), self.group_of(vertex));
            if let Some(open) = self.open.get_mut(group) {
                open.insert(at);
            }
            if self.waits.get(vertex) == Some(&0) {
                self.ready.insert(at);
            }
        }
    }

    fn role(&self, vertex: usize) -> &str {
        let first = self.vertices.get(vertex).and_then(|members| members.first());
        first.and_then(|at| self.reverts.get(*at)).map_or("", Revert::role)
    }

    pub(super) fn run(mut self) -> Vec<Vec<usize>> {
        while let Some(&first) = self.ready.first().or(self.left.first()) {
            // An item is not cut in two where another one of its role can come first.
            let role = self.role(first.1).to_owned();
            let free = |at: &&(usize, usize)| self.outside.get(self.group_of(at.1)) == Some(&0);
            let chosen = self.ready.iter().filter(|at| self.role(at.1) == role).find(free).copied();
            match chosen {
                Some((_, vertex)) if self.is_together(self.group_of(vertex)) => {
                    self.emit_group(self.group_of(vertex))
                }
                Some((_, vertex)) => self.emit(vertex),
                // Also where everything waits for each other: the order of the runs is then as good as any.
                None => self.emit(first.1),
            }
        }
        self.grouped()
    }

    /// Whether nothing else stands between what is left of a group.
    fn is_together(&self, group: usize) -> bool {
        let Some(open) = self.open.get(group) else { return false };
        match (open.first(), open.last()) {
            (Some(first), Some(last)) => {
                self.left.range(first..=last).take(open.len() + 1).count() == open.len()
            }
            _ => false,
        }
    }

    fn emit_group(&mut self, group: usize) {
        while let Some(open) = self.open.get(group).filter(|open| !open.is_empty()) {
            let next = open.iter().find(|at| self.ready.contains(at)).or(open.first()).copied();
            let Some((_, vertex)) = next else { return };
            self.emit(vertex);
        }
    }

    fn emit(&mut self, vertex: usize) {
        let (at, group) = (self.at(vertex), self.group_of(vertex));
        self.ready.remove(&at);
        self.left.remove(&at);
        if let Some(open) = self.open.get_mut(group) {
            open.remove(&at);
        }
        self.out.push(vertex);
        for second in self.then.get_mut(vertex).map(std::mem::take).unwrap_or_default() {
            let (place, own) = (self.at(second), self.group_of(second));
            if own != group
                && let Some(outside) = self.outside.get_mut(own)
            {
                *outside = outside.saturating_sub(1);
            }
            let Some(waits) = self.waits.get_mut(second) else { continue };
            *waits = waits.saturating_sub(1);
            if *waits == 0 && self.left.contains(&place) {
                self.ready.insert(place);
            }
        }
    }

    /// The changes of one item that come together are one item again. Its steps go by kind: a kind that comes twice begins another.
    fn grouped(self) -> Vec<Vec<usize>> {
        let mut items: Vec<(usize, Vec<&str>, Vec<usize>)> = Vec::new();
        for vertex in self.out {
            let group = self.group.get(vertex).copied().unwrap_or_default();
            let members = self.vertices.get(vertex).map(Vec::as_slice).unwrap_or_default();
            let kind =
                members.first().and_then(|at| self.reverts.get(*at)).map_or("", |r| r.object.kind.as_str());
            match items.last_mut() {
                Some((last, kinds, all))
                    if *last == group && (kinds.last() == Some(&kind) || !kinds.contains(&kind)) =>
                {
                    kinds.push(kind);
                    all.extend(members);
                }
                _ => items.push((group, vec![kind], members.to_vec())),
            }
        }
        items.into_iter().map(|(_, _, members)| members).collect()
    }
}
