//! Groups of items: `when` and `tags` that several items of a role share. A group holds its items below the key of its list.

use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, did_you_mean};
use converge_template::is_template;

use crate::fields::{conditions, string, tags, wrong_type};
use crate::section::{COMMON_KEYS, Section};

/// The keys that a group may have beside the list of its items.
pub const GROUP_KEYS: [&str; 3] = ["name", "when", "tags"];

/// A group of items, as written.
#[derive(Clone, Debug)]
pub struct ItemGroup {
    /// Its name, for people.
    pub name: Option<String>,
    /// Its own conditions, which all of its items share.
    pub when: Vec<Node>,
    /// Its own tags.
    pub tags: Vec<String>,
    /// The whole group.
    pub span: Span,
}

impl ItemGroup {
    /// Adds the name of the group to the reason for which one of its conditions leaves an item out.
    pub(crate) fn explain(&self, why: String) -> String {
        match &self.name {
            Some(name) => format!("{why} (group {name})"),
            None => why,
        }
    }
}

/// An item as written, and the groups that it stands in, outermost first.
pub(crate) type GroupedItem<'n> = (&'n Node, Vec<Arc<ItemGroup>>);

/// The items of a list of a role in order, those of nested groups included. Complains about wrong groups.
pub(crate) fn flatten<'n>(
    entries: &'n [Node],
    section: Section,
    diags: &mut Diagnostics,
) -> Vec<GroupedItem<'n>> {
    let mut found = Vec::new();
    walk(entries, section, &[], &mut found, diags);
    found
}

fn walk<'n>(
    entries: &'n [Node],
    section: Section,
    groups: &[Arc<ItemGroup>],
    found: &mut Vec<GroupedItem<'n>>,
    diags: &mut Diagnostics,
) {
    for entry in entries {
        let list = Section::ALL.into_iter().find_map(|other| Some((other, entry.entry(other.key())?)));
        let Some((other, (key, list))) = list else {
            found.push((entry, groups.to_vec()));
            continue;
        };
        if other != section {
            let (here, there) = (section.key(), other.key());
            diags.push(
                Diagnostic::error(
                    "wrong-section",
                    format!("a group of `{here}` has its resources below `{here}`"),
                )
                .label(&key.span, format!("`{there}`"))
                .help(format!("write `{here}:` here, or move the group to `{there}`")),
            );
        }
        keys(entry, other, diags);
        let Some(items) = list.as_list() else {
            diags.push(
                wrong_type(list, &format!("`{}` of a group", other.key()), "a list")
                    .help("put `- ` before each of them"),
            );
            continue;
        };
        let group = ItemGroup {
            name: name(entry, diags),
            when: conditions(entry, diags),
            tags: tags(entry, diags),
            span: entry.span.clone(),
        };
        let inner: Vec<Arc<ItemGroup>> = groups.iter().cloned().chain([Arc::new(group)]).collect();
        walk(items, section, &inner, found, diags);
    }
}

/// Complains about keys that a group does not have.
fn keys(group: &Node, section: Section, diags: &mut Diagnostics) {
    for (key, _) in group.as_map().into_iter().flatten() {
        let name = key.scalar_text().unwrap_or_default();
        if name == section.key() || GROUP_KEYS.contains(&name.as_str()) {
            continue;
        }
        let help = if COMMON_KEYS.contains(&name.as_str()) {
            format!("write `{name}` at each resource of the group that it is for")
        } else {
            match did_you_mean(&name, GROUP_KEYS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a kind stands in a resource of its own: put `- ` before it".to_owned(),
            }
        };
        diags.push(
            Diagnostic::error("unknown-key", format!("a group of resources has no key `{name}`"))
                .label(&key.span, "not known here")
                .help(help),
        );
    }
}

fn name(group: &Node, diags: &mut Diagnostics) -> Option<String> {
    let name = string(group, "name", diags)?;
    let problem = if name.value.trim().is_empty() {
        "is empty"
    } else if is_template(&name.value) {
        "holds a template"
    } else if name.value.contains(char::is_control) {
        "has more than one line"
    } else {
        return Some(name.value);
    };
    diags.push(
        Diagnostic::error("bad-name", format!("the name of a group {problem}"))
            .label(&name.span, "a name is the same on every host")
            .help("write plain words"),
    );
    None
}

/// The tags of groups and of an item in them, each once.
pub(crate) fn shared_tags(groups: &[Arc<ItemGroup>], own: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for tag in groups.iter().flat_map(|group| group.tags.clone()).chain(own) {
        if !all.contains(&tag) {
            all.push(tag);
        }
    }
    all
}
