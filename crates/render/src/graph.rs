//! The graph of roles: text, DOT, Mermaid.

use crate::text::{Line, Text, Tone};
use converge_planner::RoleGraph;

/// The roles in order, each with those that it comes after.
pub fn graph_text<S: Clone>(graph: &RoleGraph<S>) -> Text {
    let mut text = Text::new();
    let width = graph.order().iter().map(|r| r.chars().count()).max().unwrap_or(0);
    for (i, role) in graph.order().iter().enumerate() {
        let after = graph.requires(role);
        let mut line = Line::at(0).faint(format!("{:>3}  ", i + 1)).say(Tone::Strong, role.as_str());
        if !after.is_empty() {
            let gap = width.saturating_sub(role.chars().count()) + 2;
            line = line.faint(format!("{}after ", " ".repeat(gap))).plain(after.join(", "));
        }
        text.push(line);
    }
    text
}

/// As Graphviz reads it; an edge leads from the role that comes first.
pub fn graph_dot<S: Clone>(graph: &RoleGraph<S>) -> String {
    let name = |role: &str| format!("\"{}\"", role.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = "digraph roles {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for role in graph.order() {
        out.push_str(&format!("  {};\n", name(role)));
    }
    for (first, then) in graph.edges() {
        out.push_str(&format!("  {} -> {};\n", name(first), name(then)));
    }
    out.push_str("}\n");
    out
}

/// As Mermaid reads it; an edge leads from the role that comes first.
pub fn graph_mermaid<S: Clone>(graph: &RoleGraph<S>) -> String {
    let number = |role: &str| graph.order().iter().position(|r| r == role).unwrap_or(0);
    let mut out = "graph LR\n".to_owned();
    for (i, role) in graph.order().iter().enumerate() {
        out.push_str(&format!("  r{i}[\"{}\"]\n", role.replace('"', "#quot;")));
    }
    for (first, then) in graph.edges() {
        out.push_str(&format!("  r{} --> r{}\n", number(first), number(then)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Look;
    use converge_resource::RoleEdge;

    fn graph() -> RoleGraph<()> {
        let names = ["app", "base", "nginx"].map(str::to_owned);
        let edge = |from: &str, to: &str| RoleEdge { from: from.into(), to: to.into(), span: () };
        RoleGraph::new(&names, vec![edge("app", "nginx"), edge("app", "base"), edge("nginx", "base")])
            .unwrap()
    }

    #[test]
    fn three_forms_of_drawn_roles() {
        insta::assert_snapshot!(graph_text(&graph()).draw(&Look::PLAIN));
        insta::assert_snapshot!(graph_dot(&graph()));
        insta::assert_snapshot!(graph_mermaid(&graph()));
    }
}
