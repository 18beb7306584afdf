//! The output of `ansible-inventory`: `--list`, `--host` and `--graph`.
//!
//! Facts: `ansible/cli/inventory.py`; the JSON is that of Python's `json.dumps(sort_keys=True, indent=4)`.

use std::collections::{BTreeMap, HashSet};

use converge_syntax::{BIG_INTEGER, Node, Span, UNSAFE_TAG, Value, YamlStyle, write_yaml};

use super::Inventory;
use super::graph::{ALL, GroupId};
use super::json_key::{float_json, json_key};
use super::python::str_of;

/// The options of printing an inventory.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// YAML instead of JSON.
    pub yaml: bool,
    /// Group variables at their groups instead of merged into every host.
    pub export: bool,
    /// Variables in the graph.
    pub vars: bool,
    /// Only these hosts, as `--limit` selects them.
    pub limit: Option<HashSet<String>>,
    /// The folder of the playbook is the working folder, for want of another: only a host with all its variables has those in it.
    pub working_folder: bool,
}

/// Names that `ansible-inventory` never prints, since Ansible sets them itself (`INTERNAL_STATIC_VARS`).
const INTERNAL: [&str; 33] = [
    "ansible_async_path",
    "ansible_collection_name",
    "ansible_config_file",
    "ansible_dependent_role_names",
    "ansible_diff_mode",
    "ansible_facts",
    "ansible_forks",
    "ansible_inventory_sources",
    "ansible_limit",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_play_role_names",
    "ansible_playbook_python",
    "ansible_role_name",
    "ansible_role_names",
    "ansible_run_tags",
    "ansible_skip_tags",
    "ansible_verbosity",
    "ansible_version",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "groups",
    "group_names",
    "hostvars",
    "playbook_dir",
    "play_hosts",
    "role_name",
    "role_names",
    "role_path",
    "role_uuid",
];

/// A tree to print: values of variables, and the maps and lists around them.
#[derive(Debug, Clone)]
pub(super) enum Out {
    Value(Node),
    Names(Vec<String>),
    Map(BTreeMap<String, Out>),
}

type OutputVars = BTreeMap<String, Out>;

impl Inventory {
    /// Prints as `ansible-inventory --list` does, without the last line end.
    #[must_use]
    pub fn print_list(&self, options: &OutputOptions) -> String {
        let mut hosts: Vec<&str> = self.hosts().map(super::InventoryHost::name).collect();
        if let Some(limit) = &options.limit {
            hosts.retain(|host| limit.contains(*host));
        }
        let mut printer = Printer {
            inventory: self,
            options,
            available: hosts.iter().copied().collect(),
            observed: HashSet::new(),
        };
        if options.yaml {
            let mut listed_hosts = HashSet::new();
            let tree = printer.yaml_group(ALL, &mut listed_hosts);
            return yaml(Out::Map(tree));
        }
        let mut tree = BTreeMap::new();
        printer.json_group(ALL, &mut tree);
        let mut host_vars = BTreeMap::new();
        for host in hosts {
            let vars = self.vars_of_host(host, options);
            if !vars.is_empty() {
                host_vars.insert(host.to_owned(), Out::Map(vars));
            }
        }
        let profile = Node::new("inventory_legacy", Span::nowhere("inventory"));
        let meta = BTreeMap::from([
            ("hostvars".to_owned(), Out::Map(host_vars)),
            ("profile".to_owned(), Out::Value(profile)),
        ]);
        tree.insert("_meta".to_owned(), Out::Map(meta));
        let mut text = String::new();
        write_json(&Out::Map(tree), 0, &mut Vec::new(), &mut text);
        text
    }

    /// Prints as `ansible-inventory --host NAME` does, without the last line end; `None` for an unknown host.
    #[must_use]
    pub fn print_host(&self, name: &str, options: &OutputOptions) -> Option<String> {
        self.host(name)?;
        let vars = Out::Map(self.vars_of_host(name, options));
        if options.yaml {
            return Some(yaml(vars));
        }
        let mut text = String::new();
        write_json(&vars, 0, &mut Vec::new(), &mut text);
        Some(text)
    }

    /// Prints as `ansible-inventory --graph GROUP` does, without the last line end; `None` for an unknown group.
    #[must_use]
    pub fn print_graph(&self, group: &str, options: &OutputOptions) -> Option<String> {
        let id = self.graph.group_id(group)?;
        let mut lines = Vec::new();
        self.graph_group(id, 0, options, &mut lines);
        Some(lines.join("\n"))
    }

    fn graph_group(&self, id: GroupId, depth: usize, options: &OutputOptions, lines: &mut Vec<String>) {
        let Some(group) = self.graph.groups.get(id) else {
            return;
        };
        lines.push(branch(&format!("@{}:", group.name), depth));
        for child in &group.children {
            self.graph_group(*child, depth + 1, options, lines);
        }
        let show = |vars: OutputVars, depth: usize, lines: &mut Vec<String>| {
            for (name, value) in vars {
                if let Out::Value(node) = value {
                    let text =
                        if super::is_encrypted(&node) { "(encrypted)".to_owned() } else { str_of(&node) };
                    lines.push(branch(&format!("{{{name} = {text}}}"), depth));
                }
            }
        };
        if id != ALL {
            for host in group.hosts.iter().filter_map(|host| self.graph.hosts.get(*host)) {
                lines.push(branch(&host.name, depth + 1));
                if options.vars {
                    show(self.vars_of_host(&host.name, options), depth + 2, lines);
                }
            }
        }
        if options.vars {
            show(self.vars_of_group(id, options), depth + 1, lines);
        }
    }

    /// The variables of a host: all that it has, or with `export` only those of the host itself.
    fn vars_of_host(&self, host: &str, options: &OutputOptions) -> OutputVars {
        if !options.export {
            let all = self.host_vars(host).into_iter();
            return printable(all.map(|candidate| (candidate.name, candidate.node)));
        }
        let inline = self.host(host).map(|host| host.vars.as_slice()).unwrap_or_default();
        let files = self.found_for_output(false, host, options).flat_map(|found| &found.vars);
        printable(inline.iter().chain(files).map(|own| (own.name.clone(), own.node.clone())))
    }

    /// Files of variables. The working folder's count for a host with all it has alone, as in `ansible-inventory`.
    fn found_for_output<'a>(
        &'a self,
        is_group: bool,
        name: &'a str,
        options: &OutputOptions,
    ) -> impl Iterator<Item = &'a super::FoundVars> {
        let beside_playbook = self.beside_playbook.iter().filter(|_| !options.working_folder);
        let directories: Vec<usize> = self.beside_inventory.iter().chain(beside_playbook).copied().collect();
        directories.into_iter().filter_map(move |directory| self.files.get(directory, is_group, name))
    }

    /// The variables of a group itself, without those of its parents.
    fn vars_of_group(&self, id: GroupId, options: &OutputOptions) -> OutputVars {
        let Some(group) = self.graph.groups.get(id) else {
            return OutputVars::new();
        };
        let mut vars: Vec<(String, Node)> = Vec::new();
        let mut add = |assignments: &[super::Assignment]| {
            vars.extend(
                assignments.iter().map(|assignment| (assignment.name.clone(), assignment.node.clone())),
            );
        };
        add(&group.vars);
        for found in self.found_for_output(true, &group.name, options) {
            add(&found.vars);
        }
        if group.priority != 1 {
            let node = Node::new(group.priority, Span::nowhere("priority"));
            vars.push(("ansible_group_priority".to_owned(), node));
        }
        printable(vars.into_iter())
    }
}

fn printable(vars: impl Iterator<Item = (String, Node)>) -> OutputVars {
    vars.filter(|(name, _)| !INTERNAL.contains(&name.as_str()))
        .map(|(name, node)| (name, Out::Value(hidden(node))))
        .collect()
}

/// A value of a file that is encrypted as a whole is not printed; one that is encrypted itself is, as it is.
fn hidden(node: Node) -> Node {
    if node.span.source.is_secret() { Node::new("(encrypted)", node.span) } else { node }
}

fn branch(name: &str, depth: usize) -> String {
    if depth == 0 { name.to_owned() } else { format!("{}--{name}", "  |".repeat(depth)) }
}

struct Printer<'a> {
    inventory: &'a Inventory,
    options: &'a OutputOptions,
    available: HashSet<&'a str>,
    observed: HashSet<GroupId>,
}

impl Printer<'_> {
    fn json_group(&mut self, id: GroupId, tree: &mut BTreeMap<String, Out>) {
        let Some(group) = self.inventory.graph.groups.get(id) else {
            return;
        };
        let mut entry = BTreeMap::new();
        if id != ALL {
            let hosts = group.hosts.iter().filter_map(|host| self.inventory.graph.hosts.get(*host));
            let names: Vec<String> = hosts
                .map(|host| host.name.clone())
                .filter(|name| self.available.contains(name.as_str()))
                .collect();
            if !names.is_empty() {
                entry.insert("hosts".to_owned(), Out::Names(names));
            }
        }
        let mut children = Vec::new();
        for child in &group.children {
            children.push(self.inventory.graph.group_name(*child));
            if !self.observed.contains(child) {
                self.json_group(*child, tree);
                self.observed.insert(*child);
            }
        }
        if !children.is_empty() {
            entry.insert("children".to_owned(), Out::Names(children));
        }
        if self.options.export {
            let vars = self.inventory.vars_of_group(id, self.options);
            if !vars.is_empty() {
                entry.insert("vars".to_owned(), Out::Map(vars));
            }
        }
        if !entry.is_empty() {
            tree.insert(group.name.clone(), Out::Map(entry));
        }
    }

    /// The group under its name, with its children nested; empty where there is nothing to say.
    fn yaml_group(&mut self, id: GroupId, listed_hosts: &mut HashSet<usize>) -> BTreeMap<String, Out> {
        let Some(group) = self.inventory.graph.groups.get(id) else {
            return BTreeMap::new();
        };
        let mut entry = BTreeMap::new();
        let mut children = BTreeMap::new();
        for child in group.children.iter().filter(|child| **child != ALL) {
            if self.observed.contains(child) {
                children.insert(self.inventory.graph.group_name(*child), Out::Map(BTreeMap::new()));
            } else {
                children.extend(self.yaml_group(*child, listed_hosts));
                self.observed.insert(*child);
            }
        }
        if !children.is_empty() {
            entry.insert("children".to_owned(), Out::Map(children));
        }
        let mut hosts = BTreeMap::new();
        if id != ALL {
            for host_id in &group.hosts {
                let Some(host) = self.inventory.graph.hosts.get(*host_id) else {
                    continue;
                };
                if !self.available.contains(host.name.as_str()) {
                    continue;
                }
                let vars = if listed_hosts.insert(*host_id) {
                    self.inventory.vars_of_host(&host.name, self.options)
                } else {
                    OutputVars::new()
                };
                hosts.insert(host.name.clone(), Out::Map(vars));
            }
        }
        if !hosts.is_empty() {
            entry.insert("hosts".to_owned(), Out::Map(hosts));
        }
        if self.options.export {
            let vars = self.inventory.vars_of_group(id, self.options);
            if !vars.is_empty() {
                entry.insert("vars".to_owned(), Out::Map(vars));
            }
        }
        if entry.is_empty() {
            BTreeMap::new()
        } else {
            BTreeMap::from([(group.name.clone(), Out::Map(entry))])
        }
    }
}

/// Whether values here are those of variables, where `!unsafe` text is marked.
fn is_variable(path: &[&str]) -> bool {
    matches!(path, ["_meta", "hostvars", _, _, ..] | [_, "vars", _, ..])
}

/// YAML that Ansible reads as it reads its own: entries sorted, nothing folded, nothing shared by anchors.
fn yaml(out: Out) -> String {
    let style = YamlStyle { indent: 2, sort: true, flow_leaves: false };
    write_yaml(&tree(out), &style)
}

fn tree(out: Out) -> Node {
    let node = |value: Value| Node::new(value, Span::nowhere("inventory"));
    let text = |text: String| node(Value::String(text));
    match out {
        Out::Value(node) => node,
        Out::Names(names) => node(Value::List(names.into_iter().map(text).collect())),
        Out::Map(entries) => {
            node(Value::Map(entries.into_iter().map(|(key, value)| (text(key), tree(value))).collect()))
        }
    }
}

fn write_json<'a>(out: &'a Out, depth: usize, path: &mut Vec<&'a str>, text: &mut String) {
    match out {
        Out::Names(names) => {
            let items: Vec<OutputItem<'_>> = names.iter().map(|name| OutputItem::Text(name)).collect();
            write_items(&items, ('[', ']'), depth, text);
        }
        Out::Value(node) => write_node(node, is_variable(path), false, depth, text),
        Out::Map(entries) => {
            if entries.is_empty() {
                text.push_str("{}");
                return;
            }
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                text.push_str(if index == 0 { "\n" } else { ",\n" });
                indent(depth + 1, text);
                quote(key, text);
                text.push_str(": ");
                path.push(key);
                write_json(value, depth + 1, path, text);
                path.pop();
            }
            text.push('\n');
            indent(depth, text);
            text.push('}');
        }
    }
}

fn indent(depth: usize, text: &mut String) {
    text.push_str(&"    ".repeat(depth));
}

enum OutputItem<'a> {
    Text(&'a str),
    Node(&'a Node, bool, bool),
    Entry(String, &'a Node, bool, bool),
}

fn write_items(items: &[OutputItem<'_>], (open, close): (char, char), depth: usize, text: &mut String) {
    text.push(open);
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        indent(depth + 1, text);
        match item {
            OutputItem::Text(name) => quote(name, text),
            OutputItem::Node(node, mark, untrusted) => write_node(node, *mark, *untrusted, depth + 1, text),
            OutputItem::Entry(key, node, mark, untrusted) => {
                quote(key, text);
                text.push_str(": ");
                write_node(node, *mark, *untrusted, depth + 1, text);
            }
        }
    }
    if !items.is_empty() {
        text.push('\n');
        indent(depth, text);
    }
    text.push(close);
}

/// `mark`: `!unsafe` text is written as a map with a marker. `untrusted`: the node is below `!unsafe`.
fn write_node(node: &Node, mark: bool, untrusted: bool, depth: usize, text: &mut String) {
    let untrusted = untrusted || node.tag.as_deref() == Some(UNSAFE_TAG);
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Int(n) => text.push_str(&n.to_string()),
        Value::UInt(n) => text.push_str(&n.to_string()),
        Value::Float(x) => text.push_str(&float_json(*x)),
        Value::String(digits) if node.tag.as_deref() == Some(BIG_INTEGER) => text.push_str(digits),
        Value::String(value) => {
            let marker = match node.tag.as_deref() {
                Some("!vault" | "!vault-encrypted") => Some("__ansible_vault"),
                _ if untrusted && mark => Some("__ansible_unsafe"),
                _ => None,
            };
            match marker {
                None => quote(value, text),
                Some(marker) => {
                    text.push_str("{\n");
                    indent(depth + 1, text);
                    quote(marker, text);
                    text.push_str(": ");
                    quote(value, text);
                    text.push('\n');
                    indent(depth, text);
                    text.push('}');
                }
            }
        }
        Value::List(items) => {
            let items: Vec<OutputItem<'_>> =
                items.iter().map(|item| OutputItem::Node(item, mark, untrusted)).collect();
            write_items(&items, ('[', ']'), depth, text);
        }
        Value::Map(entries) => {
            let mut sorted: Vec<&(Node, Node)> = entries.iter().collect();
            // Keys are text before they are sorted.
            sorted.sort_by_cached_key(|entry| json_key(&entry.0));
            let items: Vec<OutputItem<'_>> = sorted
                .into_iter()
                .map(|(key, value)| OutputItem::Entry(json_key(key), value, mark, untrusted))
                .collect();
            write_items(&items, ('{', '}'), depth, text);
        }
    }
}

/// A JSON string; only quotes, backslashes and control characters are escaped.
fn quote(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            c if u32::from(c) < 0x20 => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}
