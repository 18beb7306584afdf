//! The graph of roles as a picture: SVG, laid out in columns, each role right of those that it comes after.
//!
//! The layout is Sugiyama's in its plain form: longest path to columns, bends for edges that pass columns, a few sweeps by
//! barycentres against crossings, then places that respect the order.

use converge_planner::{EdgeScope, RoleGraph};
use std::collections::BTreeMap;
use std::fmt::Write;

const CHAR: f64 = 7.9;
const PAD: f64 = 14.0;
const BOX: f64 = 34.0;
const BEND: f64 = 10.0;
const GAP: f64 = 16.0;
const COLUMN_GAP: f64 = 64.0;
const MARGIN: f64 = 20.0;
const SWEEPS: usize = 12;

/// A role, or a bend of an edge that passes a column.
struct GraphNode<'a> {
    role: Option<&'a str>,
    column: usize,
    left: Vec<usize>,
    right: Vec<usize>,
    y: f64,
}

impl GraphNode<'_> {
    fn height(&self) -> f64 {
        if self.role.is_some() { BOX } else { BEND }
    }

    fn width(&self) -> f64 {
        self.role.map_or(0.0, |r| number(r.chars().count()) * CHAR + 2.0 * PAD)
    }
}

struct GraphLayout<'a> {
    nodes: Vec<GraphNode<'a>>,
    /// Per column, nodes from top to bottom.
    columns: Vec<Vec<usize>>,
    /// Each edge: its nodes from left to right, and whether it reaches over the fleet.
    edges: Vec<(Vec<usize>, bool)>,
}

fn number(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}

impl<'a> GraphLayout<'a> {
    fn new<S: Clone>(graph: &'a RoleGraph<S>) -> Self {
        let mut column: BTreeMap<&str, usize> = BTreeMap::new();
        for role in graph.order() {
            let after = graph.requires(role).into_iter().filter_map(|r| column.get(r)).max();
            column.insert(role, after.map_or(0, |c| c + 1));
        }
        let mut layout = Self { nodes: Vec::new(), columns: Vec::new(), edges: Vec::new() };
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for role in graph.order() {
            let at = layout.add(Some(role), column.get(role.as_str()).copied().unwrap_or_default());
            places.insert(role, at);
        }
        for (first, then) in graph.edges() {
            let (Some(&from), Some(&to)) = (places.get(first), places.get(then)) else { continue };
            let (start, end) = (layout.column_of(from), layout.column_of(to));
            let mut way = vec![from];
            way.extend((start + 1..end).map(|column| layout.add(None, column)));
            way.push(to);
            for (&a, &b) in way.iter().zip(way.iter().skip(1)) {
                if let Some(node) = layout.nodes.get_mut(a) {
                    node.right.push(b);
                }
                if let Some(node) = layout.nodes.get_mut(b) {
                    node.left.push(a);
                }
            }
            layout.edges.push((way, graph.edge_scope(first, then) == EdgeScope::Fleet));
        }
        layout.untangle();
        layout.place();
        layout
    }

    fn column_of(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |n| n.column)
    }

    fn add(&mut self, role: Option<&'a str>, column: usize) -> usize {
        let at = self.nodes.len();
        self.nodes.push(GraphNode { role, column, left: Vec::new(), right: Vec::new(), y: 0.0 });
        if self.columns.len() <= column {
            self.columns.resize(column + 1, Vec::new());
        }
        if let Some(list) = self.columns.get_mut(column) {
            list.push(at);
        }
        at
    }

    /// The place of each node in its column.
    fn ranks(&self) -> BTreeMap<usize, f64> {
        let column = |list: &Vec<usize>| -> Vec<(usize, f64)> {
            list.iter().enumerate().map(|(rank, node)| (*node, number(rank))).collect()
        };
        self.columns.iter().flat_map(column).collect()
    }

    /// Edges that cross each other.
    fn crossings(&self) -> usize {
        let ranks = self.ranks();
        let mut crossings = 0;
        for column in &self.columns {
            let pairs: Vec<(f64, f64)> = column
                .iter()
                .filter_map(|n| self.nodes.get(*n).map(|node| (n, node)))
                .flat_map(|(n, node)| node.right.iter().map(move |r| (n, r)))
                .filter_map(|(a, b)| Some((*ranks.get(a)?, *ranks.get(b)?)))
                .collect();
            for (i, (a, b)) in pairs.iter().enumerate() {
                crossings +=
                    pairs.iter().skip(i + 1).filter(|(c, d)| (a < c && b > d) || (a > c && b < d)).count();
            }
        }
        crossings
    }

    fn untangle(&mut self) {
        let mut best = (self.crossings(), self.columns.clone());
        for sweep in 0..SWEEPS {
            let rightwards = sweep % 2 == 0;
            let mut order: Vec<usize> = (0..self.columns.len()).collect();
            if !rightwards {
                order.reverse();
            }
            for column in order {
                let ranks = self.ranks();
                let middle = |n: usize| -> f64 {
                    let own = ranks.get(&n).copied().unwrap_or_default();
                    let Some(node) = self.nodes.get(n) else { return own };
                    let side = if rightwards { &node.left } else { &node.right };
                    mean(side.iter().filter_map(|other| ranks.get(other).copied())).unwrap_or(own)
                };
                let mut sorted: Vec<(f64, usize)> =
                    self.columns.get(column).into_iter().flatten().map(|n| (middle(*n), *n)).collect();
                sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
                if let Some(list) = self.columns.get_mut(column) {
                    *list = sorted.into_iter().map(|(_, n)| n).collect();
                }
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.columns.clone());
            }
        }
        self.columns = best.1;
    }

    /// Gives every node its place from top to bottom: near its neighbours, in the order of its column.
    fn place(&mut self) {
        for sweep in 0..SWEEPS {
            for column in self.columns.clone() {
                let wish = |n: usize| -> Option<f64> {
                    let node = self.nodes.get(n)?;
                    let near: Vec<usize> = match sweep {
                        0 => node.left.clone(),
                        _ => node.left.iter().chain(&node.right).copied().collect(),
                    };
                    mean(near.iter().filter_map(|m| self.nodes.get(*m)).map(|m| m.y))
                };
                let wishes: Vec<Option<f64>> = column.iter().map(|n| wish(*n)).collect();
                let mut ys: Vec<f64> = Vec::new();
                let mut free = f64::NEG_INFINITY;
                for (n, wish) in column.iter().zip(&wishes) {
                    let height = self.nodes.get(*n).map_or(0.0, GraphNode::height);
                    let default = if free.is_finite() { free + height / 2.0 } else { 0.0 };
                    let y = wish.unwrap_or(default).max(free + height / 2.0);
                    ys.push(y);
                    free = y + height / 2.0 + GAP;
                }
                // The whole column moves to where its nodes wished to be on average.
                let off =
                    mean(ys.iter().zip(&wishes).filter_map(|(y, wish)| wish.map(|w| w - y))).unwrap_or(0.0);
                for (n, y) in column.iter().zip(ys) {
                    if let Some(node) = self.nodes.get_mut(*n) {
                        node.y = y + off;
                    }
                }
            }
        }
        let top = self.nodes.iter().map(|n| n.y - n.height() / 2.0).fold(f64::INFINITY, f64::min);
        for node in &mut self.nodes {
            node.y += MARGIN - if top.is_finite() { top } else { 0.0 };
        }
    }

    /// Left edge and width of each column.
    fn spans(&self) -> Vec<(f64, f64)> {
        let mut x = MARGIN;
        let mut spans = Vec::new();
        for column in &self.columns {
            let widths = column.iter().filter_map(|n| self.nodes.get(*n)).map(GraphNode::width);
            let width = widths.fold(0.0, f64::max);
            spans.push((x, width));
            x += width + COLUMN_GAP;
        }
        spans
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / number(n))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// As an SVG picture; an edge leads from the role that comes first. An edge that waits for all hosts is dashed.
pub fn graph_svg<S: Clone>(graph: &RoleGraph<S>) -> String {
    let layout = GraphLayout::new(graph);
    let spans = layout.spans();
    let span = |column: usize| spans.get(column).copied().unwrap_or_default();
    let width = spans.last().map_or(0.0, |(x, w)| x + w) + MARGIN;
    let height = layout.nodes.iter().map(|n| n.y + n.height() / 2.0).fold(0.0, f64::max) + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>roles</title>\n\
         <style>text{{font:13px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#1b2733}}\
         rect{{fill:#fff;stroke:#4a6b8a;stroke-width:1.5}}.cluster{{fill:#eef4fb;stroke-width:2.5}}\
         path{{fill:none;stroke:#7d93a8;stroke-width:1.5}}.fleet{{stroke-dasharray:6 4}}</style>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:#7d93a8;stroke:none\"/></marker></defs>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" style=\"fill:#fff;stroke:none\"/>\n"
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for (way, fleet) in &layout.edges {
        let mut d = String::new();
        let nodes: Vec<&GraphNode<'_>> = way.iter().filter_map(|n| layout.nodes.get(*n)).collect();
        for (a, b) in nodes.iter().zip(nodes.iter().skip(1)) {
            let (ax, aw) = span(a.column);
            let from = if a.role.is_some() { ax + a.width() } else { ax + aw };
            let (to, _) = span(b.column);
            let bend = (to - ax - aw) / 2.0;
            // A string takes everything that is written.
            let _whole = if d.is_empty() {
                write!(d, "M{from:.1} {:.1}", a.y)
            } else {
                write!(d, "L{from:.1} {:.1}", a.y)
            };
            let edge = ax + aw;
            let _whole = write!(
                d,
                "L{edge:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {to:.1} {:.1}",
                a.y,
                edge + bend,
                a.y,
                to - bend,
                b.y,
                b.y
            );
        }
        let class = if *fleet { " class=\"fleet\"" } else { "" };
        line(format!("<path{class} d=\"{d}\" marker-end=\"url(#arrow)\"/>"));
    }
    for node in &layout.nodes {
        let Some(role) = node.role else { continue };
        let (x, _) = span(node.column);
        let class = if graph.is_on_cluster(role) { " class=\"cluster\"" } else { "" };
        line(format!(
            "<rect{class} x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BOX:.0}\" rx=\"6\"/>",
            node.y - BOX / 2.0,
            node.width()
        ));
        line(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x + node.width() / 2.0,
            node.y + 4.5,
            escaped(role)
        ));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::RoleEdge;
    use proptest::prelude::*;

    fn graph(roles: &[&str], edges: &[(&str, &str)]) -> RoleGraph<()> {
        let names: Vec<String> = roles.iter().map(|r| (*r).to_owned()).collect();
        let edge = |(first, then): &(&str, &str)| RoleEdge {
            from: (*then).to_owned(),
            to: (*first).to_owned(),
            span: (),
        };
        RoleGraph::new(&names, edges.iter().map(edge).collect()).unwrap()
    }

    #[test]
    fn roles_stand_right_of_those_they_come_after() {
        let g = graph(
            &["base", "network", "storage", "app"],
            &[("base", "network"), ("network", "app"), ("base", "app"), ("base", "storage")],
        )
        .on_clusters(["app".to_owned()]);
        let layout = GraphLayout::new(&g);
        let column = |role: &str| layout.nodes.iter().find(|n| n.role == Some(role)).unwrap().column;
        assert_eq!(["base", "network", "storage", "app"].map(column), [0, 1, 1, 2]);
        let svg = graph_svg(&g);
        assert_eq!(svg.matches("<rect").count(), 5, "four roles and the ground: {svg}");
        assert_eq!(svg.matches("class=\"fleet\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"cluster\"").count(), 1, "{svg}");
    }

    #[test]
    fn a_tangle_that_can_be_undone_is() {
        let g = graph(&["a", "b", "c", "d"], &[("a", "d"), ("b", "c")]);
        assert_eq!(GraphLayout::new(&g).crossings(), 0);
    }

    #[test]
    fn a_name_is_text_whatever_it_holds() {
        let svg = graph_svg(&graph(&["a<b>&\"c"], &[]));
        assert!(svg.contains(">a&lt;b&gt;&amp;&quot;c</text>"), "{svg}");
    }

    proptest! {
        #[test]
        fn no_two_boxes_overlap_and_edges_lead_right(pairs in proptest::collection::vec((0u8..12, 0u8..12), 0..30)) {
            let names: Vec<String> = (0..12).map(|n| format!("r{n}")).collect();
            let edges: Vec<(String, String)> = pairs
                .iter()
                .filter(|(a, b)| a < b)
                .map(|(a, b)| (format!("r{a}"), format!("r{b}")))
                .collect();
            let roles: Vec<&str> = names.iter().map(String::as_str).collect();
            let edges: Vec<(&str, &str)> = edges.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let g = graph(&roles, &edges);
            let layout = GraphLayout::new(&g);
            for column in &layout.columns {
                for (a, b) in column.iter().zip(column.iter().skip(1)) {
                    let (a, b) = (&layout.nodes[*a], &layout.nodes[*b]);
                    prop_assert!(b.y - a.y >= (a.height() + b.height()) / 2.0 + GAP - 0.01);
                }
            }
            for (way, _) in &layout.edges {
                for (a, b) in way.iter().zip(way.iter().skip(1)) {
                    prop_assert_eq!(layout.column_of(*a) + 1, layout.column_of(*b));
                }
            }
        }
    }
}
