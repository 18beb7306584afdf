//! The graph of roles.

use converge_resource::RoleEdge;
use petgraph::Direction;
use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::{EdgeRef, IntoEdgeReferences};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A cycle of roles that require each other: its edges in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle<S> {
    /// The first edge starts where the last one ends.
    pub edges: Vec<RoleEdge<S>>,
}

impl<S> Cycle<S> {
    /// `a → b → a`
    pub fn path(&self) -> String {
        let mut names: Vec<&str> = self.edges.iter().map(|e| e.from.as_str()).collect();
        names.extend(self.edges.first().map(|e| e.from.as_str()));
        names.join(" → ")
    }
}

/// The scope of an edge of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeScope {
    /// Both roles run on hosts: on a host that has both, the edge concerns only that host.
    Host,
    /// One of the roles acts on a cluster: the first one must have ended on every eligible host.
    Fleet,
}

/// The order of roles.
#[derive(Clone, Debug)]
pub struct RoleGraph<S> {
    graph: StableDiGraph<String, S>,
    nodes: BTreeMap<String, NodeIndex>,
    order: Vec<String>,
    /// Roles that act on a cluster, and not on each host.
    cluster: BTreeSet<String>,
}

impl<S: Clone> RoleGraph<S> {
    /// Builds the graph. Roles that do not depend on each other keep the given order.
    ///
    /// # Errors
    /// Every cycle, by its edges.
    pub fn new(roles: &[String], edges: Vec<RoleEdge<S>>) -> Result<Self, Vec<Cycle<S>>> {
        let mut graph = StableDiGraph::new();
        let mut nodes = BTreeMap::new();
        let mut names: Vec<&String> = roles.iter().collect();
        names.extend(edges.iter().flat_map(|e| [&e.from, &e.to]));
        for name in names {
            if !nodes.contains_key(name) {
                nodes.insert(name.clone(), graph.add_node(name.clone()));
            }
        }
        for edge in edges {
            if let (Some(&first), Some(&then)) = (nodes.get(&edge.to), nodes.get(&edge.from)) {
                graph.update_edge(first, then, edge.span);
            }
        }
        let cycles = find_cycles(&graph);
        if !cycles.is_empty() {
            return Err(cycles);
        }
        let order = stable_order(&graph);
        Ok(Self { graph, nodes, order, cluster: BTreeSet::new() })
    }

    /// The same graph, with these roles acting on a cluster, through its API, and not on each host.
    #[must_use]
    pub fn on_clusters(mut self, roles: impl IntoIterator<Item = String>) -> Self {
        self.cluster.extend(roles);
        self
    }

    /// True when the role acts on a cluster.
    pub fn is_on_cluster(&self, role: &str) -> bool {
        self.cluster.contains(role)
    }

    /// The scope of an edge.
    pub fn edge_scope(&self, first: &str, then: &str) -> EdgeScope {
        if self.is_on_cluster(first) || self.is_on_cluster(then) { EdgeScope::Fleet } else { EdgeScope::Host }
    }

    /// All roles, each after those that it requires.
    pub fn order(&self) -> &[String] {
        &self.order
    }

    /// Whether role `a` surely comes before role `b`.
    pub fn comes_before(&self, a: &str, b: &str) -> bool {
        match (self.nodes.get(a), self.nodes.get(b)) {
            (Some(&a), Some(&b)) => a != b && has_path_connecting(&self.graph, a, b, None),
            _ => false,
        }
    }

    /// The roles that this one requires directly.
    pub fn requires(&self, role: &str) -> Vec<&str> {
        let Some(&node) = self.nodes.get(role) else { return Vec::new() };
        let mut names: Vec<&str> =
            self.graph.neighbors_directed(node, Direction::Incoming).map(|n| self.name(n)).collect();
        names.sort_unstable();
        names
    }

    /// All edges as (first, then), sorted.
    pub fn edges(&self) -> Vec<(&str, &str)> {
        let mut edges: Vec<(&str, &str)> =
            (&self.graph).edge_references().map(|e| (self.name(e.source()), self.name(e.target()))).collect();
        edges.sort_unstable();
        edges
    }

    fn name(&self, node: NodeIndex) -> &str {
        self.graph.node_weight(node).map_or("", String::as_str)
    }
}

/// Kahn's algorithm, which takes the earliest free role: the user's order stays where possible.
fn stable_order<S>(graph: &StableDiGraph<String, S>) -> Vec<String> {
    let mut waiting: BTreeMap<NodeIndex, usize> =
        graph.node_indices().map(|n| (n, graph.neighbors_directed(n, Direction::Incoming).count())).collect();
    let mut free: BTreeSet<NodeIndex> = waiting.iter().filter(|(_, n)| **n == 0).map(|(i, _)| *i).collect();
    let mut order = Vec::new();
    while let Some(node) = free.pop_first() {
        order.extend(graph.node_weight(node).cloned());
        for next in graph.neighbors(node) {
            if let Some(n) = waiting.get_mut(&next) {
                *n = n.saturating_sub(1);
                if *n == 0 {
                    free.insert(next);
                }
            }
        }
    }
    order
}

fn find_cycles<S: Clone>(graph: &StableDiGraph<String, S>) -> Vec<Cycle<S>> {
    tarjan_scc(graph).into_iter().filter_map(|group| shortest_cycle(graph, &group)).collect()
}

/// The shortest cycle inside a strongly connected group, from its first role.
fn shortest_cycle<S: Clone>(graph: &StableDiGraph<String, S>, group: &[NodeIndex]) -> Option<Cycle<S>> {
    let start = *group.iter().min()?;
    let mut came_from: BTreeMap<NodeIndex, NodeIndex> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    let mut last = None;
    'search: while let Some(node) = queue.pop_front() {
        for next in graph.neighbors(node).filter(|n| group.contains(n)) {
            if next == start {
                last = Some(node);
                break 'search;
            }
            if let Entry::Vacant(unseen) = came_from.entry(next) {
                unseen.insert(node);
                queue.push_back(next);
            }
        }
    }
    // Walking back along first → then edges gives the edges "requires" in reading order.
    let mut edges = Vec::new();
    let (mut node, mut then) = (last?, start);
    loop {
        let span = graph.find_edge(node, then).and_then(|e| graph.edge_weight(e)).cloned()?;
        let name = |n: NodeIndex| graph.node_weight(n).cloned().unwrap_or_default();
        edges.push(RoleEdge { from: name(then), to: name(node), span });
        if node == start {
            break;
        }
        then = node;
        node = *came_from.get(&node)?;
    }
    Some(Cycle { edges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edge(from: &str, to: &str) -> RoleEdge<u32> {
        RoleEdge { from: from.into(), to: to.into(), span: 7 }
    }
    fn names(n: &[&str]) -> Vec<String> {
        n.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn required_roles_come_first_and_the_rest_keeps_its_order() {
        let g = RoleGraph::new(&names(&["c", "b", "a"]), vec![edge("c", "a")]).unwrap();
        assert_eq!(g.order(), ["b", "a", "c"]);
        assert!(g.comes_before("a", "c") && !g.comes_before("c", "a") && !g.comes_before("a", "b"));
        assert_eq!(g.requires("c"), ["a"]);
        assert_eq!(g.edges(), [("a", "c")]);
    }

    #[test]
    fn an_edge_with_a_cluster_at_one_end_reaches_over_the_fleet() {
        let edges = vec![edge("b", "a"), edge("c", "b")];
        let g = RoleGraph::new(&names(&["a", "b", "c"]), edges).unwrap().on_clusters(names(&["c"]));
        assert_eq!((g.edge_scope("a", "b"), g.edge_scope("b", "c")), (EdgeScope::Host, EdgeScope::Fleet));
        assert!(g.is_on_cluster("c") && !g.is_on_cluster("b"));
    }

    #[test]
    fn a_cycle_is_a_path_that_closes() {
        let found = RoleGraph::new(
            &names(&["a", "b", "c", "d"]),
            vec![edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("d", "a")],
        )
        .unwrap_err();
        assert_eq!(found.iter().map(Cycle::path).collect::<Vec<_>>(), ["a → b → c → a"]);
        let own = RoleGraph::new(&names(&["a"]), vec![edge("a", "a")]).unwrap_err();
        assert_eq!(own.iter().map(Cycle::path).collect::<Vec<_>>(), ["a → a"]);
    }

    proptest! {
        #[test]
        fn an_order_or_a_cycle_for_every_graph(pairs in proptest::collection::vec((0..8u8, 0..8u8), 0..16)) {
            let edges: Vec<_> = pairs.iter().map(|(a, b)| edge(&a.to_string(), &b.to_string())).collect();
            match RoleGraph::new(&[], edges.clone()) {
                Ok(g) => for e in &edges {
                    let at = |n: &str| g.order().iter().position(|r| r == n).unwrap();
                    prop_assert!(at(&e.to) < at(&e.from));
                },
                Err(cycles) => for c in cycles {
                    for pair in c.edges.windows(2) {
                        prop_assert_eq!(&pair[0].to, &pair[1].from);
                    }
                    prop_assert_eq!(&c.edges.last().unwrap().to, &c.edges[0].from);
                },
            }
        }
    }
}
