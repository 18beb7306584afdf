//! The declarations of one host: its roles and their items, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, Value};
use converge_template::{Evaluation, Scope, Variable};
use serde_json::Value as Json;

use crate::item::Item;
use crate::loaded::Inner;
use crate::role::Role;
use crate::scope::{Facts, RoleScope, role_scope};
use crate::section::Section;
use crate::tags::TagFilter;
use crate::vars::Layers;

/// Results that items of a role registered on one host.
#[derive(Clone, Default)]
pub struct RegisteredResults(BTreeMap<(String, String), (Json, bool)>);

impl RegisteredResults {
    /// Nothing is registered yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The result of an item of a role; null for an item that was skipped.
    pub fn set(&mut self, role: &str, name: &str, value: Json) {
        self.0.insert((role.to_owned(), name.to_owned()), (value, false));
    }

    /// The result of a sensitive item: what it reaches is sensitive.
    pub fn set_sensitive(&mut self, role: &str, name: &str, value: Json) {
        self.0.insert((role.to_owned(), name.to_owned()), (value, true));
    }

    /// The result, where there is one.
    pub fn get(&self, role: &str, name: &str) -> Option<&Json> {
        self.0.get(&(role.to_owned(), name.to_owned())).map(|(value, _)| value)
    }
}

/// All that is declared for one host, in the order of the playbook.
pub struct HostDeclarations {
    /// The host.
    pub host: String,
    /// Its roles, each once.
    pub roles: Vec<RoleUse>,
    /// Errors on this host: inputs that are missing or have a wrong value.
    pub errors: Diagnostics,
    /// Variables of the host outside any role, for connection variables.
    pub scope: Scope,
}

impl HostDeclarations {
    /// A role of this host.
    pub fn role(&self, name: &str) -> Option<&RoleUse> {
        self.roles.iter().find(|used| used.role.name == name)
    }
}

/// A role on a host.
pub struct RoleUse {
    /// The host.
    pub host: String,
    /// The role.
    pub role: Arc<Role>,
    /// The play that puts it on the host, by its name or pattern.
    pub play: String,
    /// The place where the play names the role.
    pub span: Span,
    /// Preconditions, in order.
    pub checks: Vec<DeclaredItem>,
    /// The declared resources, in order.
    pub items: Vec<DeclaredItem>,
    /// Postconditions, in order.
    pub verify: Vec<DeclaredItem>,
    /// Does any of it take part in this run?
    pub selected: bool,
    /// Whether all of its items take part, each fully known. Only then may orphaned objects be removed.
    pub complete: bool,
    /// The role's inputs have errors on this host; they are in [`HostDeclarations::errors`].
    pub problems: Diagnostics,
    pub(crate) when: ConditionAnswer,
    /// The conditions of its use, as written, and what they read.
    pub(crate) conditions: Vec<Node>,
    pub(crate) when_lookups: BTreeSet<String>,
    pub(crate) scope: Scope,
    pub(crate) bad: BTreeSet<String>,
    pub(crate) input_lookups: BTreeMap<String, BTreeSet<String>>,
    pub(crate) layers: Layers,
    pub(crate) project: Arc<Inner>,
}

impl RoleUse {
    /// The roles that come first.
    pub fn requires(&self) -> &[Spanned<String>] {
        &self.role.requires
    }

    /// All items: checks, resources, verifications.
    pub fn all(&self) -> impl Iterator<Item = &DeclaredItem> {
        self.checks.iter().chain(&self.items).chain(&self.verify)
    }
}

/// The answer of a condition.
#[derive(Clone, Debug)]
pub(crate) enum ConditionAnswer {
    Yes,
    No(String),
    Unknown(BTreeSet<String>),
    Wrong(Diagnostics),
}

/// One item on one host: of `for_each`, one element.
#[derive(Clone)]
pub struct DeclaredItem {
    /// `role/name`, or `role/name[key]` for an element.
    pub address: String,
    /// The role.
    pub role: String,
    /// The item's name in its role.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// The list that it belongs to.
    pub section: Section,
    /// The whole item in the role's file.
    pub span: Span,
    /// Tags of the play, of the role's use and its own.
    pub tags: Vec<String>,
    /// Does it take part in this run (`--role`, `--tags`, `--skip-tags`)? What does not is still checked.
    pub selected: bool,
    /// The name that its result gets.
    pub register: Option<String>,
    /// Names of items of the same role that it restarts for or acts on; an element's name stands for all elements.
    pub names: Vec<Spanned<String>>,
    /// The item as written: parameters, conditions.
    pub item: Arc<Item>,
    pub(crate) each: Each,
    /// Results registered by items before it.
    pub(crate) sees: Arc<[String]>,
}

impl fmt::Debug for DeclaredItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclaredItem")
            .field("address", &self.address)
            .field("kind", &self.kind)
            .field("span", &self.span)
            .field("selected", &self.selected)
            .finish_non_exhaustive()
    }
}

impl DeclaredItem {
    /// Whether an address is that of this item: `role/name` or `role/id`, with `[key]` for an element.
    pub fn is_at(&self, address: &str) -> bool {
        if self.address == address {
            return true;
        }
        let named = self.address.strip_prefix(&self.role).and_then(|rest| rest.strip_prefix('/'));
        let key = named.and_then(|rest| rest.strip_prefix(&self.name)).unwrap_or_default();
        self.item.id.as_ref().is_some_and(|id| format!("{}/{}{key}", self.role, id.value) == address)
    }

    /// The parameters as written.
    pub fn params(&self) -> &Node {
        &self.item.params
    }

    /// The conditions as written.
    pub fn when(&self) -> &[Node] {
        &self.item.when
    }

    /// The names that the list of its `for_each` was made of.
    pub fn list_lookups(&self) -> Option<&BTreeSet<String>> {
        match &self.each {
            Each::Element { lookups, .. } | Each::Empty { lookups } => Some(lookups),
            Each::One | Each::Waits(_) | Each::Wrong(_) => None,
        }
    }

    /// The names of the results that it may read: those that items before it in its role register.
    pub fn visible_results(&self) -> &[String] {
        &self.sees
    }

    /// Its elements are not known yet: this stands for all of them.
    pub fn is_unexpanded(&self) -> bool {
        matches!(self.each, Each::Waits(_) | Each::Wrong(_))
    }
}

/// The element of `for_each`.
#[derive(Clone)]
pub(crate) enum Each {
    /// There is no `for_each`.
    One,
    /// This element.
    Element {
        value: Node,
        sensitive: bool,
        /// The names that the list was made of.
        lookups: Arc<BTreeSet<String>>,
    },
    /// An empty list of facts: it is kept so that a fact that fills it later is not overlooked.
    Empty { lookups: Arc<BTreeSet<String>> },
    /// The list waits for these variables.
    Waits(BTreeSet<String>),
    /// The list cannot be made.
    Wrong(Diagnostics),
}

/// The parts of a role entry that apply to each of its items.
pub(crate) struct UseContext<'a> {
    pub role: &'a Arc<Role>,
    pub play: String,
    pub span: &'a Span,
    pub when: ConditionAnswer,
    pub conditions: Vec<Node>,
    pub when_lookups: BTreeSet<String>,
    pub tags: Vec<String>,
    pub layers: Layers,
    pub role_selected: bool,
}

/// Declares the items of a role on a host.
pub(crate) fn declare(
    project: &Arc<Inner>,
    host: &str,
    context: UseContext<'_>,
    made: RoleScope,
    registered: &RegisteredResults,
) -> RoleUse {
    let UseContext { role, play, span, when, conditions, when_lookups, tags, layers, role_selected } =
        context;
    let mut used = RoleUse {
        host: host.to_owned(),
        role: role.clone(),
        play,
        span: span.clone(),
        checks: Vec::new(),
        items: Vec::new(),
        verify: Vec::new(),
        selected: false,
        complete: true,
        problems: made.problems,
        when,
        conditions,
        when_lookups,
        scope: made.scope,
        bad: made.bad,
        input_lookups: made.input_lookups,
        layers,
        project: project.clone(),
    };
    let mut sees: Arc<[String]> = Arc::from([]);
    for item in role.items() {
        let declared = expand(&used, item, &tags, &sees, registered, role_selected);
        if let Some(register) = &item.register {
            sees = sees.iter().cloned().chain([register.value.clone()]).collect();
        }
        match item.section {
            Section::Check => used.checks.extend(declared),
            Section::Resources => used.items.extend(declared),
            Section::Verify => used.verify.extend(declared),
        }
    }
    let selected = used.all().any(|item| item.selected);
    used.selected = selected;
    used.complete = used.items.iter().all(|item| item.selected && !item.is_unexpanded())
        && role_selected
        && project.start_at.is_none()
        && !matches!(used.when, ConditionAnswer::Unknown(_) | ConditionAnswer::Wrong(_));
    if selected {
        // Preconditions guard whatever part of the role runs, and results are read-only and needed by others.
        used.checks.iter_mut().for_each(|item| item.selected = true);
        let reads = |item: &&mut DeclaredItem| item.register.is_some();
        used.items.iter_mut().filter(reads).for_each(|item| item.selected = true);
    }
    used
}

/// One declared item, or one for each element.
fn expand(
    used: &RoleUse,
    item: &Item,
    tags: &[String],
    sees: &Arc<[String]>,
    registered: &RegisteredResults,
    role_selected: bool,
) -> Vec<DeclaredItem> {
    let mut all_tags = tags.to_vec();
    all_tags.extend(item.tags.iter().filter(|tag| !tags.contains(tag)).cloned());
    let one = DeclaredItem {
        address: format!("{}/{}", used.role.name, item.name.value),
        role: used.role.name.clone(),
        name: item.name.value.clone(),
        kind: item.kind.value.clone(),
        section: item.section,
        span: item.span.clone(),
        selected: role_selected && used.project.filter.selects(&all_tags),
        tags: all_tags,
        register: item.register.as_ref().map(|name| name.value.clone()),
        names: item.names.clone(),
        item: Arc::new(item.clone()),
        each: Each::One,
        sees: sees.clone(),
    };
    let Some(each) = &item.for_each else {
        return vec![one];
    };
    if matches!(used.when, ConditionAnswer::No(_)) {
        // The role is not used: its lists need not make sense.
        return vec![one];
    }
    let scope = used.item_scope(&one, registered);
    let single = |each: Each| vec![DeclaredItem { each, ..one.clone() }];
    match used.project.shared.engine.eval_value(each, &scope) {
        Err(why) => single(Each::Wrong(why)),
        Ok(Evaluation::Unknown { names, .. }) => single(Each::Waits(names)),
        Ok(Evaluation::Known(list)) => match elements(&list.value, &each.span, list.sensitive) {
            Err(why) => single(Each::Wrong(why.into())),
            Ok(elements) => {
                let lookups = Arc::new(used.with_input_lookups(list.lookups));
                if elements.is_empty() && lookups.iter().any(|name| name.starts_with("facts.")) {
                    return single(Each::Empty { lookups });
                }
                elements
                    .into_iter()
                    .map(|(key, value)| DeclaredItem {
                        address: format!("{}[{key}]", one.address),
                        each: Each::Element { value, sensitive: list.sensitive, lookups: lookups.clone() },
                        ..one.clone()
                    })
                    .collect()
            }
        },
    }
}

/// The elements of a list or map with their keys: of a map its keys; of a list the text of each element, or one of its
/// entries `name`, `key`, `id` or `path`, else its position. A secret list gives positions alone.
fn elements(list: &Node, span: &Span, sensitive: bool) -> Result<Vec<(String, Node)>, Diagnostic> {
    let mut found: Vec<(String, Node)> = Vec::new();
    let mut add = |key: Option<String>, index: usize, value: Node| {
        let key = key.filter(|key| {
            !sensitive && !key.is_empty() && key.len() <= 80 && !key.contains(char::is_control)
        });
        let key = key.unwrap_or_else(|| index.to_string());
        let taken = found.iter().any(|(other, _)| *other == key);
        found.push((if taken { format!("{key}#{index}") } else { key }, value));
    };
    match &list.value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let named = ["name", "key", "id", "path"].iter().find_map(|key| item.get(key)?.scalar_text());
                add(item.scalar_text().or(named), index, item.clone());
            }
        }
        Value::Map(entries) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                let entry = |name: &str, node: &Node| (Node::new(name, span.clone()), node.clone());
                let item = Value::Map(vec![entry("key", key), entry("value", value)]);
                add(key.scalar_text(), index, Node { value: item, span: value.span.clone(), tag: None });
            }
        }
        _ => {
            return Err(Diagnostic::error(
                "wrong-type",
                format!("`for_each` needs a list or a map, found {}", list.value.kind()),
            )
            .label(span, "this is its value")
            .help("a list of one is written `[x]`"));
        }
    }
    Ok(found)
}

/// Evaluates conditions that must all hold; what they read is added to `lookups`.
pub(crate) fn gate(
    project: &Inner,
    conditions: &[Node],
    scope: &Scope,
    lookups: &mut BTreeSet<String>,
) -> ConditionAnswer {
    let mut unknown = BTreeSet::new();
    let mut wrong = Diagnostics::new();
    for condition in conditions {
        let answer = project.shared.engine.eval_bool(condition, scope);
        if let Ok(answer) = &answer {
            lookups.extend(answer.lookups().iter().cloned());
        }
        match answer {
            Ok(Evaluation::Known(answer)) if answer.value => {}
            Ok(Evaluation::Known(_)) => {
                let text = condition.scalar_text().unwrap_or_default();
                return ConditionAnswer::No(format!(
                    "when: {}",
                    text.split_whitespace().collect::<Vec<_>>().join(" ")
                ));
            }
            Ok(Evaluation::Unknown { names, .. }) => unknown.extend(names),
            Err(why) => wrong.extend(why),
        }
        // A condition is a guard for those after it.
        if !unknown.is_empty() || !wrong.is_empty() {
            break;
        }
    }
    if !wrong.is_empty() {
        return ConditionAnswer::Wrong(wrong);
    }
    if unknown.is_empty() { ConditionAnswer::Yes } else { ConditionAnswer::Unknown(unknown) }
}

impl RoleUse {
    /// The same use with other facts: its inputs and conditions are evaluated anew. It has no items of its own; those of the first one
    /// are resolved with it.
    #[must_use]
    pub fn with_facts(&self, facts: &Facts) -> Self {
        let shared = &self.project.shared;
        let hosts = crate::scope::hostvars(shared, facts);
        let mut made = role_scope(shared, facts, &hosts, &self.host, &self.role, &self.layers, &self.span);
        let mut when_lookups = BTreeSet::new();
        let when = gate(&self.project, &self.conditions, &made.scope, &mut when_lookups);
        if let Some(names) = self.scope.variable("role_names") {
            made.scope.set("role_names", names);
        }
        Self {
            host: self.host.clone(),
            role: self.role.clone(),
            play: self.play.clone(),
            span: self.span.clone(),
            checks: Vec::new(),
            items: Vec::new(),
            verify: Vec::new(),
            selected: self.selected,
            complete: self.complete,
            problems: made.problems,
            when,
            conditions: self.conditions.clone(),
            when_lookups,
            scope: made.scope,
            bad: made.bad,
            input_lookups: made.input_lookups,
            layers: self.layers.clone(),
            project: self.project.clone(),
        }
    }

    /// The role's scope with the results before an item, and its element.
    pub(crate) fn item_scope(&self, item: &DeclaredItem, registered: &RegisteredResults) -> Scope {
        let mut scope = self.scope.clone();
        for name in item.sees.iter() {
            let Some((json, sensitive)) = registered.0.get(&(item.role.clone(), name.clone())) else {
                scope.set(name, Variable::Unknown);
                continue;
            };
            let variable = Variable::data(Node::from_json(json, &Span::nowhere(format!("result `{name}`"))));
            if *sensitive {
                scope.set_sensitive(name, variable);
            } else {
                scope.set(name, variable);
            }
        }
        if let Each::Element { value, sensitive, .. } = &item.each {
            let variable = Variable::data(value.clone());
            if *sensitive {
                scope.set_sensitive("item", variable);
            } else {
                scope.set("item", variable);
            }
        }
        scope
    }
}

/// The filter of `--tags` and `--skip-tags`.
pub(crate) fn tag_filter(only: &[String], skip: &[String]) -> TagFilter {
    let split = |tags: &[String]| -> Vec<String> {
        let words = tags.iter().flat_map(|tag| tag.split(','));
        words.map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    };
    TagFilter { only: split(only), skip: split(skip) }
}

#[cfg(test)]
#[path = "declare_tests.rs"]
mod tests;
