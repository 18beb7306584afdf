//! Hosts, groups and their relations, with the rules of `ansible/inventory/{data,group,host}.py`.

use std::collections::{HashMap, HashSet};

use converge_syntax::{Node, Span};

/// The names that stand for the machine that `converge` runs on.
pub const LOCALHOST: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

pub(super) type GroupId = usize;
pub(super) type HostId = usize;

pub(super) const ALL: GroupId = 0;
pub(super) const UNGROUPED: GroupId = 1;

/// One assignment `name: value` in an inventory file or a vars file.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// The place of the name.
    pub key: Span,
    /// The value.
    pub node: Node,
}

/// A group of the inventory.
#[derive(Debug, Clone)]
pub struct InventoryGroup {
    pub(super) name: String,
    pub(super) hosts: Vec<HostId>,
    pub(super) children: Vec<GroupId>,
    pub(super) parents: Vec<GroupId>,
    pub(super) vars: Vec<Assignment>,
    pub(super) priority: i64,
    pub(super) depth: usize,
    pub(super) span: Option<Span>,
}

impl InventoryGroup {
    /// Its name, as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The longest path up to `all`, in edges.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// `ansible_group_priority`, 1 where it is not set.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// The place where the group is first named; `None` for `all` and `ungrouped` if no file names them.
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref()
    }
}

/// A host of the inventory.
#[derive(Debug, Clone)]
pub struct InventoryHost {
    pub(super) name: String,
    pub(super) groups: Vec<GroupId>,
    pub(super) vars: Vec<Assignment>,
    pub(super) span: Span,
}

impl InventoryHost {
    /// Its name in the inventory, `inventory_hostname`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place where the host is first named.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

/// Adding the edge would close a cycle.
#[derive(Debug)]
pub(super) struct GroupCycle {
    /// Group names from the child down to the parent.
    pub(super) path: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Graph {
    pub(super) groups: Vec<InventoryGroup>,
    pub(super) hosts: Vec<InventoryHost>,
    group_ids: HashMap<String, GroupId>,
    host_ids: HashMap<String, HostId>,
    members: HashSet<(GroupId, HostId)>,
    pub(super) localhost: Option<HostId>,
}

impl Graph {
    pub(super) fn new() -> Self {
        let mut graph = Self {
            groups: Vec::new(),
            hosts: Vec::new(),
            group_ids: HashMap::new(),
            host_ids: HashMap::new(),
            members: HashSet::new(),
            localhost: None,
        };
        graph.add_group("all", None);
        graph.add_group("ungrouped", None);
        // These two cannot close a cycle.
        let _ = graph.add_child(ALL, UNGROUPED);
        graph
    }

    pub(super) fn group_id(&self, name: &str) -> Option<GroupId> {
        self.group_ids.get(name).copied()
    }

    pub(super) fn host_id(&self, name: &str) -> Option<HostId> {
        self.host_ids.get(name).copied()
    }

    pub(super) fn add_group(&mut self, name: &str, span: Option<&Span>) -> GroupId {
        if let Some(id) = self.group_id(name) {
            if let Some(group) = self.groups.get_mut(id) {
                group.span = group.span.take().or_else(|| span.cloned());
            }
            return id;
        }
        let id = self.groups.len();
        self.groups.push(InventoryGroup {
            name: name.to_owned(),
            hosts: Vec::new(),
            children: Vec::new(),
            parents: Vec::new(),
            vars: Vec::new(),
            priority: 1,
            depth: 0,
            span: span.cloned(),
        });
        self.group_ids.insert(name.to_owned(), id);
        id
    }

    /// Adds a host to a group; the host is made when it is new, and then the second value is true.
    pub(super) fn add_host(&mut self, name: &str, group: GroupId, span: &Span) -> (HostId, bool) {
        let (id, new) = match self.host_id(name) {
            Some(id) => (id, false),
            None => {
                let id = self.hosts.len();
                self.hosts.push(InventoryHost {
                    name: name.to_owned(),
                    groups: Vec::new(),
                    vars: Vec::new(),
                    span: span.clone(),
                });
                self.host_ids.insert(name.to_owned(), id);
                if self.localhost.is_none() && LOCALHOST.contains(&name) {
                    self.localhost = Some(id);
                }
                (id, true)
            }
        };
        self.join(id, group);
        (id, new)
    }

    fn join(&mut self, host: HostId, group: GroupId) {
        if self.members.insert((group, host)) {
            if let Some(group) = self.groups.get_mut(group) {
                group.hosts.push(host);
            }
            if let Some(host) = self.hosts.get_mut(host) {
                host.groups.push(group);
            }
        }
    }

    fn leave(&mut self, host: HostId, group: GroupId) {
        if self.members.remove(&(group, host)) {
            if let Some(group) = self.groups.get_mut(group) {
                group.hosts.retain(|id| *id != host);
            }
            if let Some(host) = self.hosts.get_mut(host) {
                host.groups.retain(|id| *id != group);
            }
        }
    }

    /// Makes one group the child of another.
    pub(super) fn add_child(&mut self, parent: GroupId, child: GroupId) -> Result<(), GroupCycle> {
        if let Some(path) = self.path_down(child, parent) {
            return Err(GroupCycle { path });
        }
        let known = self.groups.get(parent).is_some_and(|group| group.children.contains(&child));
        if !known {
            if let Some(group) = self.groups.get_mut(parent) {
                group.children.push(child);
            }
            if let Some(group) = self.groups.get_mut(child) {
                group.parents.push(parent);
            }
        }
        Ok(())
    }

    /// The names on a path down from one group to another, both included.
    fn path_down(&self, from: GroupId, to: GroupId) -> Option<Vec<String>> {
        let mut came_from: HashMap<GroupId, GroupId> = HashMap::new();
        let mut queue = vec![from];
        let mut observed = HashSet::from([from]);
        while let Some(id) = queue.pop() {
            if id == to {
                let mut path = vec![self.group_name(id)];
                let mut at = id;
                while let Some(previous) = came_from.get(&at) {
                    path.push(self.group_name(*previous));
                    at = *previous;
                }
                path.reverse();
                return Some(path);
            }
            for child in self.groups.get(id).map_or(&[][..], |group| &group.children) {
                if observed.insert(*child) {
                    came_from.insert(*child, id);
                    queue.push(*child);
                }
            }
        }
        None
    }

    pub(super) fn group_name(&self, id: GroupId) -> String {
        self.groups.get(id).map(|group| group.name.clone()).unwrap_or_default()
    }

    /// After all sources: every group below `all`, hosts of no group in `ungrouped`, depths.
    ///
    /// A group above `all` comes back as an error.
    pub(super) fn reconcile(&mut self) -> Vec<GroupCycle> {
        let mut cycles = Vec::new();
        for id in 1..self.groups.len() {
            let is_root = self.groups.get(id).is_some_and(|group| group.parents.is_empty());
            if is_root && let Err(cycle) = self.add_child(ALL, id) {
                cycles.push(cycle);
            }
        }
        for id in 0..self.hosts.len() {
            let groups = self.groups_of(id);
            let elsewhere = groups.iter().any(|group| *group != ALL && *group != UNGROUPED);
            if groups.contains(&UNGROUPED) && elsewhere {
                self.leave(id, UNGROUPED);
            } else if !elsewhere {
                self.join(id, UNGROUPED);
            }
        }
        if cycles.is_empty() {
            self.set_depths();
        }
        cycles
    }

    /// The depth of a group is the longest path down to it from `all`.
    fn set_depths(&mut self) {
        let mut open: Vec<usize> = self.groups.iter().map(|group| group.parents.len()).collect();
        let mut ready = vec![ALL];
        while let Some(id) = ready.pop() {
            let Some(group) = self.groups.get(id) else {
                continue;
            };
            let (depth, children) = (group.depth + 1, group.children.clone());
            for child in children {
                if let Some(group) = self.groups.get_mut(child) {
                    group.depth = group.depth.max(depth);
                }
                if let Some(left) = open.get_mut(child) {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        ready.push(child);
                    }
                }
            }
        }
    }

    /// The groups of a host and all their ancestors.
    pub(super) fn groups_of(&self, host: HostId) -> HashSet<GroupId> {
        let mut observed = HashSet::new();
        let mut queue: Vec<GroupId> = self.hosts.get(host).map_or_else(Vec::new, |host| host.groups.clone());
        while let Some(id) = queue.pop() {
            if observed.insert(id) {
                queue.extend(self.groups.get(id).map_or(&[][..], |group| &group.parents));
            }
        }
        observed
    }

    /// The order in which variables of groups are merged: by depth, then priority, then name.
    pub(super) fn sorted_groups_of(&self, host: HostId) -> Vec<GroupId> {
        let mut groups: Vec<GroupId> = self.groups_of(host).into_iter().filter(|id| *id != ALL).collect();
        groups.sort_by_key(|id| self.groups.get(*id).map(|group| (group.depth, group.priority, &group.name)));
        groups
    }

    /// The hosts of a group and its descendants: level by level, each once.
    pub(super) fn hosts_of(&self, group: GroupId) -> Vec<HostId> {
        let mut order = vec![group];
        let mut level = self.groups.get(group).map_or_else(Vec::new, |group| group.children.clone());
        let mut observed: HashSet<GroupId> = HashSet::from([group]);
        while !level.is_empty() {
            order.extend(&level);
            observed.extend(&level);
            let mut next: Vec<GroupId> = Vec::new();
            let mut queued = HashSet::new();
            for id in &level {
                for child in self.groups.get(*id).map_or(&[][..], |group| &group.children) {
                    if !observed.contains(child) && queued.insert(*child) {
                        next.push(*child);
                    }
                }
            }
            level = next;
        }
        let mut hosts = Vec::new();
        let mut known = HashSet::new();
        for id in order {
            for host in self.groups.get(id).map_or(&[][..], |group| &group.hosts) {
                if known.insert(*host) {
                    hosts.push(*host);
                }
            }
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_named_and_not_made() {
        let mut graph = Graph::new();
        let a = graph.add_group("a", None);
        let b = graph.add_group("b", None);
        let c = graph.add_group("c", None);
        graph.add_child(a, b).unwrap();
        graph.add_child(b, c).unwrap();
        assert_eq!(graph.add_child(c, a).unwrap_err().path, ["a", "b", "c"]);
        assert_eq!(graph.add_child(a, a).unwrap_err().path, ["a"]);
        assert!(graph.reconcile().is_empty());
        assert_eq!(graph.groups.iter().map(|g| g.depth).collect::<Vec<_>>(), [0, 1, 1, 2, 3]);
    }

    #[test]
    fn hosts_leave_ungrouped_when_they_have_a_group() {
        let mut graph = Graph::new();
        let a = graph.add_group("a", None);
        let here = Span::nowhere("test");
        graph.add_host("x", UNGROUPED, &here);
        graph.add_host("y", UNGROUPED, &here);
        graph.add_host("x", a, &here);
        graph.add_host("z", ALL, &here);
        graph.reconcile();
        let names =
            |id| graph.hosts_of(id).into_iter().map(|h| graph.hosts[h].name.clone()).collect::<Vec<_>>();
        assert_eq!(names(UNGROUPED), ["y", "z"]);
        assert_eq!(names(ALL), ["z", "y", "x"]);
    }
}
