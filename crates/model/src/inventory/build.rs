//! Functions that the readers of all formats share: they add hosts, groups and variables with their places.

use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Node, Source, Span, Value};

use super::address::expand_host_pattern;
use super::graph::{Assignment, Graph, GroupId, HostId};
use crate::vault::Vault;

/// The inventory while its sources are read, and all that is to be said about them.
pub(super) struct Builder {
    pub(super) graph: Graph,
    pub(super) diagnostics: Diagnostics,
    pub(super) vault: Vault,
    odd_groups: Vec<Span>,
}

impl Builder {
    pub(super) fn new(vault: &Vault) -> Self {
        Self {
            graph: Graph::new(),
            diagnostics: Diagnostics::new(),
            vault: vault.clone(),
            odd_groups: Vec::new(),
        }
    }

    pub(super) fn error(&mut self, code: &'static str, message: impl Into<String>, at: &Span, help: &str) {
        self.diagnostics.push(Diagnostic::error(code, message).at(at).help(help));
    }

    pub(super) fn warn(&mut self, code: &'static str, message: impl Into<String>, at: &Span, help: &str) {
        self.diagnostics.push(Diagnostic::warning(code, message).at(at).help(help));
    }

    /// Adds a group, or gives the one of that name.
    pub(super) fn group(&mut self, name: &str, span: &Span) -> GroupId {
        if self.graph.group_id(name).is_none() && !is_identifier(name) {
            self.odd_groups.push(span.clone());
        }
        self.graph.add_group(name, Some(span))
    }

    /// Makes `child` a child of `parent`.
    pub(super) fn child(&mut self, parent: GroupId, child: GroupId, at: &Span) {
        if let Err(cycle) = self.graph.add_child(parent, child) {
            let child = self.graph.group_name(child);
            let message = if cycle.path.len() == 1 {
                format!("the group `{child}` is its own child")
            } else {
                format!("groups form a cycle: {} → {child}", cycle.path.join(" → "))
            };
            self.error(
                "group-cycle",
                message,
                at,
                "take one of these groups out of the children of the other",
            );
        }
    }

    /// Adds the hosts of a pattern such as `gpu[01:16]:2222` to a group.
    pub(super) fn hosts(&mut self, pattern: &str, group: GroupId, span: &Span) -> Option<Vec<HostId>> {
        let expanded = match expand_host_pattern(pattern) {
            Ok(expanded) => expanded,
            Err(bad) => {
                self.error("bad-range", bad.message, span, &bad.help);
                return None;
            }
        };
        if expanded.hosts.iter().any(String::is_empty) {
            self.error("bad-host", "a host name is empty", span, "write the name of a host");
            return None;
        }
        let ids = expanded.hosts.iter().map(|name| {
            let (id, new) = self.graph.add_host(name, group, span);
            if new
                && let Some(port) = expanded.port.filter(|port| *port != 0)
                && let Some(host) = self.graph.hosts.get_mut(id)
            {
                host.vars.push(Assignment {
                    name: "ansible_port".to_owned(),
                    key: span.clone(),
                    node: Node::new(port, span.clone()),
                });
            }
            id
        });
        Some(ids.collect())
    }

    /// Sets a variable of a host.
    pub(super) fn host_var(&mut self, host: HostId, assignment: Assignment) {
        if let Some(host) = self.graph.hosts.get_mut(host) {
            host.vars.push(assignment);
        }
    }

    /// Sets a variable of a group; `ansible_group_priority` is no variable but the group's priority.
    pub(super) fn group_var(&mut self, group: GroupId, assignment: Assignment) {
        let priority = (assignment.name == "ansible_group_priority").then(|| whole_number(&assignment.node));
        match (priority, self.graph.groups.get_mut(group)) {
            (Some(Some(priority)), Some(group)) => group.priority = priority,
            (Some(None), _) => self.error(
                "bad-priority",
                format!(
                    "`ansible_group_priority` must be a whole number, this is {}",
                    assignment.node.value.kind()
                ),
                &assignment.node.span,
                "write a number; groups of one depth are merged from the lowest to the highest, 1 by default",
            ),
            (None, Some(group)) => group.vars.push(assignment),
            (_, None) => {}
        }
    }

    /// Complains once for each variable whose name no template can use.
    pub(super) fn check_name(&mut self, name: &str, at: &Span) {
        if !is_identifier(name) {
            self.warn(
                "bad-variable-name",
                format!("`{name}` is not a name that templates can use"),
                at,
                "use letters, digits and underscores, and do not begin with a digit",
            );
        }
    }

    /// After the last source: relations that only the whole shows.
    pub(super) fn finish(&mut self) {
        for cycle in self.graph.reconcile() {
            let top = cycle.path.first().cloned().unwrap_or_default();
            let at = self.graph.group_id(&top).and_then(|id| self.graph.groups.get(id)?.span.clone());
            let mut diagnostic = Diagnostic::error(
                "group-cycle",
                format!("the group `{top}` has `all` below it, and `all` holds every group"),
            )
            .help("take `all` out of its children");
            if let Some(at) = at {
                diagnostic = diagnostic.at(&at);
            }
            self.diagnostics.push(diagnostic);
        }
        let clashes: Vec<Diagnostic> = self
            .graph
            .hosts
            .iter()
            .filter(|host| self.graph.group_id(&host.name).is_some())
            .map(|host| {
                Diagnostic::warning(
                    "host-is-group",
                    format!("`{}` is the name of a host and of a group", host.name),
                )
                .at(&host.span)
                .help("rename one of them: a pattern with this name means the host alone")
            })
            .collect();
        self.diagnostics.extend(clashes);
        let odd = std::mem::take(&mut self.odd_groups);
        if !odd.is_empty() {
            let mut diagnostic = Diagnostic::warning(
                "group-name",
                format!(
                    "{} group name{} cannot be written as `groups.NAME`",
                    odd.len(),
                    if odd.len() == 1 { "" } else { "s" }
                ),
            )
            .help("use letters, digits and underscores; until then write groups['NAME']");
            for span in odd.iter().take(3) {
                diagnostic = diagnostic.at(span);
            }
            self.diagnostics.push(diagnostic);
        }
    }
}

/// A value as Python's `int()` takes it: a whole number, or text of one.
fn whole_number(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Int(n) => Some(*n),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::Float(x) if x.is_finite() => format!("{:.0}", x.trunc()).parse().ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Word characters that do not begin with a digit.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
        && chars.all(|c| c == '_' || c.is_alphanumeric())
}

/// A span over bytes of a source.
pub(super) fn span(source: &Arc<Source>, start: usize, end: usize) -> Span {
    Span::new(source.clone(), start, end)
}
