//! List items of a role: one kind each, and the keys that every kind has.

mod guard;
mod id;
mod names;

use guard::{guard, guard_seconds, word};
use names::{name_of, named_items, names_are_earlier, registers, unique_names};
use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, Value, did_you_mean};
use indexmap::IndexMap;

use converge_template::{AnsibleSort, ansible_instead};

use crate::catalog::{KindCatalog, KindSpec};
use crate::expressions::Expression;
use crate::fields::{conditions, flag, is_identifier, is_template, string, tags, wrong_type};
use crate::group::{ItemGroup, flatten, shared_tags};
use crate::input::Input;
use crate::schema;
use crate::section::{COMMON_KEYS, Section};
use converge_resource::Place;

/// The disruptions of running work that a user can declare for an item.
pub const DISRUPTIONS: [&str; 3] = ["none", "restarts", "drain"];
/// The access that an item may break, as a user writes it; `none` switches its guard off.
pub const GUARDS: [&str; 4] = ["none", "ssh", "network", "runtime"];
/// The shortest and the longest window of a guarded item, in seconds.
pub const GUARD_SECONDS: (i64, i64) = (5, 3600);
/// Parameters of any kind that name earlier items of the same role.
pub(crate) const NAMING: [&str; 3] = ["restart_on", "reload_on", "on_change"];

/// One list item of a role, as written.
#[derive(Clone, Debug)]
pub struct Item {
    /// The list that it belongs to.
    pub section: Section,
    /// Its name, unique in the role; by default the kind and its main parameter.
    pub name: Spanned<String>,
    /// A short name for references, unique in the role.
    pub id: Option<Spanned<String>>,
    /// The kind, at the place of its key.
    pub kind: Spanned<String>,
    /// The kind's parameters, not evaluated.
    pub params: Node,
    /// The groups that it stands in, outermost first.
    pub groups: Vec<Arc<ItemGroup>>,
    /// Conditions that must all hold: those of its groups, then its own.
    pub when: Vec<Node>,
    /// The list or map to repeat over, not evaluated.
    pub for_each: Option<Node>,
    /// The tags of its groups and its own.
    pub tags: Vec<String>,
    /// The name that its result gets.
    pub register: Option<Spanned<String>>,
    /// The user that commands run as, not evaluated.
    pub become_user: Option<Node>,
    /// The declared disruption, one of [`DISRUPTIONS`].
    pub disruption: Option<String>,
    /// The declared guard, one of [`GUARDS`].
    pub guard: Option<String>,
    /// The seconds within which a guarded change must be confirmed.
    pub guard_seconds: Option<u64>,
    /// Marked as secret by hand.
    pub sensitive: bool,
    /// Earlier items that its parameters name (`restart_on`, `reload_on`, `on_change`).
    pub names: Vec<Spanned<String>>,
    /// The whole item.
    pub span: Span,
}

impl Item {
    /// Whether a reference names this item: by its name or its id.
    pub fn is_called(&self, reference: &str) -> bool {
        self.references().any(|own| own == reference)
    }

    /// The words that a reference may use: its name, and its id if it has one.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        [self.name.value.as_str()].into_iter().chain(self.id.as_ref().map(|id| id.value.as_str()))
    }
}

/// Reads the three lists of a role, with every diagnostic about them.
pub(crate) fn read_items(
    role: &Node,
    scope: Place,
    catalog: &KindCatalog,
    (inputs, vars): (&IndexMap<String, Input>, &IndexMap<String, Expression>),
    diags: &mut Diagnostics,
) -> Vec<Item> {
    let mut items = Vec::new();
    for section in Section::ALL {
        let key = section.key();
        let Some(list) = role.get(key).filter(|list| !list.is_null()) else {
            continue;
        };
        let Some(entries) = list.as_list() else {
            diags.push(wrong_type(list, &format!("`{key}`"), "a list").help("put `- ` before each of them"));
            continue;
        };
        for (entry, groups) in flatten(entries, section, diags) {
            items.extend(read_item(entry, (section, groups), scope, catalog, diags));
        }
    }
    unique_names(&items, diags);
    id::unique(&items, diags);
    id::to_names(&mut items);
    registers(&items, inputs, vars, diags);
    for index in 0..items.len() {
        names_are_earlier(&items, index, diags);
    }
    items
}

fn read_item(
    node: &Node,
    (section, groups): (Section, Vec<Arc<ItemGroup>>),
    scope: Place,
    catalog: &KindCatalog,
    diags: &mut Diagnostics,
) -> Option<Item> {
    let Some(entries) = node.as_map() else {
        diags.push(
            wrong_type(node, &format!("an entry of `{}`", section.key()), "a map")
                .help("write `kind: {parameter: value}`"),
        );
        return None;
    };
    let (kind_key, params, spec) = kind_of(node, entries, scope, catalog, diags)?;
    let kind = kind_key.as_str().unwrap_or_default().to_owned();
    right_place(kind_key, &kind, section, scope, spec, diags);
    if section != Section::Resources && !spec.read_only {
        diags.push(not_read_only(kind_key, &kind, section, scope, catalog));
    }
    diags.extend(schema::check(spec, &format!("`{kind}`"), params, kind_key));
    let name = name_of(node, &kind, kind_key, params, spec, diags);
    let register = register(node, &kind, spec, diags);
    let for_each = for_each(node, register.as_ref(), diags);
    let become_user = node.get("become_user").filter(|user| !user.is_null()).cloned();
    if let Some(user) = become_user.as_ref().filter(|user| user.as_str().is_none()) {
        diags.push(wrong_type(user, "`become_user`", "a string"));
    }
    Some(Item {
        section,
        name,
        id: id::read(node, diags),
        kind: Spanned::new(kind, kind_key.span.clone()),
        params: params.clone(),
        when: groups.iter().flat_map(|group| group.when.clone()).chain(conditions(node, diags)).collect(),
        for_each,
        tags: shared_tags(&groups, tags(node, diags)),
        groups,
        register,
        become_user,
        disruption: word(node, "disruption", &DISRUPTIONS, section, diags),
        guard: guard(node, section, scope, diags),
        guard_seconds: guard_seconds(node, diags),
        sensitive: flag(node, "sensitive", diags),
        names: named_items(params, diags),
        span: node.span.clone(),
    })
}

/// The diagnostic about a kind that makes changes in a list of a role that only reads.
fn not_read_only(
    kind_key: &Node,
    kind: &str,
    section: Section,
    scope: Place,
    catalog: &KindCatalog,
) -> Diagnostic {
    let reads = |spec: &KindSpec| spec.read_only && (section == Section::Verify || !spec.verify_only);
    let readers: Vec<&str> =
        catalog.names(scope).filter(|name| catalog.get(name).is_some_and(reads)).collect();
    let message = format!("`{}` only reads, and `{kind}` makes changes", section.key());
    Diagnostic::error("not-read-only", message)
        .label(&kind_key.span, format!("changes the {}", scope.word()))
        .help(format!("move it to `resources`, or use one of: {}", readers.join(", ")))
}

/// The name under which the result of an item is registered.
fn register(node: &Node, kind: &str, spec: &KindSpec, diags: &mut Diagnostics) -> Option<Spanned<String>> {
    let register = string(node, "register", diags)?;
    if !spec.has_outputs(kind) {
        diags.push(
            Diagnostic::error("bad-register", format!("`{kind}` has no result to register"))
                .label(&register.span, "no result")
                .help("register the result of a `query`"),
        );
    }
    if !is_identifier(&register.value) {
        diags.push(
            Diagnostic::error("bad-name", format!("`{}` cannot be the name of a result", register.value))
                .label(&register.span, "not usable in templates")
                .help("letters, digits and underscores; no digit first"),
        );
    }
    Some(register)
}

/// The list, map or template over whose elements an item is repeated.
fn for_each(node: &Node, register: Option<&Spanned<String>>, diags: &mut Diagnostics) -> Option<Node> {
    let each = node.get("for_each")?;
    let good = match &each.value {
        Value::List(_) | Value::Map(_) => true,
        Value::String(text) => is_template(text),
        _ => false,
    };
    if !good {
        diags.push(
            wrong_type(each, "`for_each`", "a list, a map or a template")
                .help("write `for_each: \"{{ some_list }}\"` or a list"),
        );
    }
    if let Some(register) = register {
        diags.push(
            Diagnostic::error("bad-register", "a result cannot be registered by a resource with `for_each`")
                .label(&register.span, "each element would replace the one before")
                .help("ask for everything in one query"),
        );
    }
    Some(each.clone())
}

/// Complains about a kind that is not for roles of this scope, or not for this list of the role.
fn right_place(
    key: &Node,
    kind: &str,
    section: Section,
    scope: Place,
    spec: &KindSpec,
    diags: &mut Diagnostics,
) {
    if let Some(other) = spec.scopes.first().filter(|_| !spec.scopes.contains(&scope)) {
        let (here, there) = (scope.word(), other.word());
        diags.push(
            Diagnostic::error("wrong-scope", format!("`{kind}` is not for roles of scope `{here}`"))
                .label(&key.span, format!("works on a {there}"))
                .help(format!("move it to a role with `scope: {there}`, and name that role in `requires` where one must come first")),
        );
    }
    if spec.verify_only && section != Section::Verify {
        diags.push(
            Diagnostic::error("wrong-section", format!("`{kind}` may stand in `verify` alone"))
                .label(&key.span, format!("stands in `{}`", section.key()))
                .help("move it to `verify`: it puts work on the cluster and takes it away again"),
        );
    }
}

/// The one key of an item that is a kind. Complains about none, two, unknown ones.
fn kind_of<'n, 'c>(
    node: &'n Node,
    entries: &'n [(Node, Node)],
    scope: Place,
    catalog: &'c KindCatalog,
    diags: &mut Diagnostics,
) -> Option<(&'n Node, &'n Node, &'c KindSpec)> {
    let mut found: Vec<(&Node, &Node, &KindSpec)> = Vec::new();
    let mut unknown: Vec<&Node> = Vec::new();
    for (key, value) in entries {
        let name = key.as_str().unwrap_or_default();
        if COMMON_KEYS.contains(&name) {
            continue;
        }
        match catalog.get(name) {
            Some(spec) => found.push((key, value, spec)),
            None => unknown.push(key),
        }
    }
    for key in &unknown {
        let name = key.scalar_text().unwrap_or_default();
        let habit = ansible_instead(&[AnsibleSort::Module, AnsibleSort::Keyword], &name).map(str::to_owned);
        let meant = || {
            did_you_mean(&name, catalog.names(scope).chain(COMMON_KEYS))
                .map(|n| format!("did you mean `{n}`?"))
        };
        let (code, message, all) = if found.is_empty() {
            let all = format!("kinds there are: {}", catalog.names(scope).collect::<Vec<_>>().join(", "));
            ("unknown-kind", format!("there is no kind `{name}`"), all)
        } else {
            let all = format!("besides the kind: {}", COMMON_KEYS.join(", "));
            ("unknown-key", format!("a resource has no key `{name}`"), all)
        };
        let inside =
            found.first().filter(|(_, _, spec)| spec_has(spec, &name)).and_then(|(kind, ..)| kind.as_str());
        let help = match inside {
            Some(kind) => format!("`{name}` is a parameter of `{kind}`: indent it below `{kind}:`"),
            None => habit.or_else(meant).unwrap_or(all),
        };
        diags.push(Diagnostic::error(code, message).label(&key.span, "not known here").help(help));
    }
    if let [(first, ..), rest @ ..] = found.as_slice()
        && !rest.is_empty()
    {
        let mut diagnostic = Diagnostic::error("two-kinds", "a resource has exactly one kind");
        for (key, ..) in rest {
            diagnostic = diagnostic.label(&key.span, "a second kind");
        }
        diags.push(
            diagnostic
                .label(&first.span, "the first kind")
                .help("make two resources of it: put `- ` before the second"),
        );
        return None;
    }
    if found.is_empty() && unknown.is_empty() {
        diags.push(
            Diagnostic::error("no-kind", "a resource has exactly one kind, and this has none")
                .label(node.head_span(), "only common keys")
                .help(format!("kinds there are: {}", catalog.names(scope).collect::<Vec<_>>().join(", "))),
        );
    }
    found.pop()
}

fn spec_has(spec: &KindSpec, name: &str) -> bool {
    spec.resolve(&spec.schema).get("properties").is_some_and(|all| all.get(name).is_some())
}
