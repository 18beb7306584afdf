//! A role as it is written: its parts in order, with comments.

use crate::yaml::{comments, entry, keyed, made, map, pad, texts};
use converge_syntax::{Node, Value};

/// A resource, a group of them, or comments alone.
#[derive(Clone, Debug)]
pub(crate) enum RoleEntry {
    Resource(Box<ConvertedResource>),
    Group(EntryGroup),
    /// An open item: the lines of its comment.
    Open(Vec<String>),
}

/// Entries in their place, and those of `check`.
pub(crate) type Sections = (Vec<RoleEntry>, Vec<RoleEntry>);

#[derive(Clone, Debug, Default)]
pub(crate) struct ConvertedResource {
    pub comments: Vec<String>,
    pub name: String,
    pub when: Vec<Node>,
    pub for_each: Option<Node>,
    pub tags: Vec<String>,
    pub kind: String,
    pub params: Vec<(String, Node)>,
    pub register: Option<String>,
    pub become_user: Option<Node>,
    pub sensitive: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EntryGroup {
    pub comments: Vec<String>,
    pub name: Option<String>,
    pub when: Vec<Node>,
    pub tags: Vec<String>,
    pub entries: Vec<RoleEntry>,
}

/// A named value with the comments above it.
#[derive(Clone, Debug)]
pub(crate) struct CommentedValue {
    pub comments: Vec<String>,
    pub name: String,
    pub value: Node,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ImportedText {
    pub head: Vec<String>,
    pub summary: Option<String>,
    pub requires: Vec<String>,
    pub inputs: Vec<CommentedValue>,
    pub vars: Vec<CommentedValue>,
    pub check: Vec<RoleEntry>,
    pub resources: Vec<RoleEntry>,
}

impl RoleEntry {
    fn is_resource(&self) -> bool {
        match self {
            Self::Resource(_) => true,
            Self::Group(group) => group.entries.iter().any(Self::is_resource),
            Self::Open(_) => false,
        }
    }
}

fn conditions(when: &[Node]) -> Option<Node> {
    match when {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(made(Value::List(all.to_vec()))),
    }
}

impl ConvertedResource {
    /// The entries of its map, in the order in which they are written.
    pub(crate) fn node(&self) -> Node {
        let mut entries = vec![("name".to_owned(), made(self.name.as_str()))];
        let mut add = |key: &str, value: Option<Node>| {
            entries.extend(value.map(|value| (key.to_owned(), value)));
        };
        add("when", conditions(&self.when));
        add("for_each", self.for_each.clone());
        add("tags", (!self.tags.is_empty()).then(|| texts(&self.tags)));
        add("become_user", self.become_user.clone());
        add("sensitive", self.sensitive.then(|| made(true)));
        add(&self.kind, Some(map(self.params.clone())));
        add("register", self.register.as_ref().map(|name| made(name.as_str())));
        map(entries)
    }

    fn write(&self, out: &mut String, indent: usize) {
        comments(out, indent, &self.comments);
        dashed(out, indent, &self.node());
    }
}

/// A map as an element of a list.
fn dashed(out: &mut String, indent: usize, node: &Node) {
    for (index, (key, value)) in node.as_map().unwrap_or_default().iter().enumerate() {
        pad(out, indent);
        out.push_str(if index == 0 { "- " } else { "  " });
        keyed(out, indent + 2, &key.scalar_text().unwrap_or_default(), value);
    }
}

fn write_entries(out: &mut String, indent: usize, section: &str, entries: &[RoleEntry]) {
    for entry in entries {
        match entry {
            RoleEntry::Resource(resource) => resource.write(out, indent),
            RoleEntry::Open(lines) => comments(out, indent, lines),
            // A group of comments alone would have no list.
            RoleEntry::Group(group) if !group.entries.iter().any(RoleEntry::is_resource) => {
                comments(out, indent, &group.comments);
                write_entries(out, indent, section, &group.entries);
            }
            RoleEntry::Group(group) => {
                comments(out, indent, &group.comments);
                let mut head: Vec<(&str, Node)> = Vec::new();
                head.extend(group.name.as_ref().map(|name| ("name", made(name.as_str()))));
                head.extend(conditions(&group.when).map(|when| ("when", when)));
                head.extend((!group.tags.is_empty()).then(|| ("tags", texts(&group.tags))));
                let lead = if head.is_empty() { "- " } else { "  " };
                dashed(out, indent, &map(head));
                pad(out, indent);
                out.push_str(&format!("{lead}{section}:\n"));
                write_entries(out, indent + 4, section, &group.entries);
            }
        }
    }
}

impl ImportedText {
    /// The text of `role.yaml`.
    pub(crate) fn write(&self) -> String {
        let mut out = String::new();
        comments(&mut out, 0, &self.head);
        if let Some(summary) = &self.summary {
            entry(&mut out, 0, "summary", &made(summary.as_str()));
        }
        if !self.requires.is_empty() {
            entry(&mut out, 0, "requires", &texts(&self.requires));
        }
        for (key, list) in [("inputs", &self.inputs), ("vars", &self.vars)] {
            if !list.is_empty() {
                out.push_str(&format!("{key}:\n"));
            }
            for named in list {
                comments(&mut out, 2, &named.comments);
                entry(&mut out, 2, &named.name, &named.value);
            }
        }
        for (key, list) in [("check", &self.check), ("resources", &self.resources)] {
            if !list.is_empty() {
                out.push_str(&format!("{key}:\n"));
                write_entries(&mut out, 2, key, list);
            }
        }
        out
    }
}
