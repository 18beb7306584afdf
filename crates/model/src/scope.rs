//! The variables that a template sees on a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Value};
use converge_template::{
    Entries, Evaluation, EvaluationResult, HostScopes, Moment, Scope, TemplateEngine, Variable,
};
use serde_json::Value as Json;

use crate::fields::has_template;
use crate::input::Input;
use crate::inventory::Inventory;
use crate::role::Role;
use crate::vars::{Layers, SetVars, host_layers};
use crate::vault::Vault;

/// Facts by host name. A host without an entry has not been asked. Cheap to clone.
#[derive(Clone, Default)]
pub struct Facts(Arc<BTreeMap<String, RunFacts>>);

/// The facts of one host.
#[derive(Clone)]
struct RunFacts {
    now: Arc<Node>,
    /// The facts before this run changed anything.
    before: Arc<Node>,
    /// First names of facts that an earlier item of the run alters: their values are not known yet.
    unknown: BTreeSet<String>,
}

impl Facts {
    /// No host was asked.
    pub fn none() -> Self {
        Self::default()
    }

    /// Takes the facts of each host.
    pub fn new(facts: impl IntoIterator<Item = (String, Json)>) -> Self {
        let of_host = |(host, json): (String, Json)| {
            let now = facts_node(&host, &json);
            (host, RunFacts { before: now.clone(), now, unknown: BTreeSet::new() })
        };
        Self(Arc::new(facts.into_iter().map(of_host).collect()))
    }

    /// Takes the facts of each host: as they are now, and as they were before this run changed anything.
    pub fn in_a_run(facts: impl IntoIterator<Item = (String, Json, Json)>) -> Self {
        let of_host = |(host, now, before): (String, Json, Json)| {
            let (now, before) = (facts_node(&host, &now), facts_node(&host, &before));
            (host, RunFacts { now, before, unknown: BTreeSet::new() })
        };
        Self(Arc::new(facts.into_iter().map(of_host).collect()))
    }

    /// The facts as an item finds them behind others that alter some of them. For each host, by first names, those whose new value is
    /// known, and those whose is not.
    #[must_use]
    pub fn altered<'a>(
        &self,
        hosts: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, Json>, Vec<String>)>,
    ) -> Self {
        let mut all = (*self.0).clone();
        for (host, predicted, unknown) in hosts {
            let Some(of_host) = all.get_mut(host) else { continue };
            let mut now = (*of_host.now).clone();
            if let Value::Map(entries) = &mut now.value {
                for (name, value) in predicted {
                    let value = Node::from_json(value, &now.span);
                    match entries.iter_mut().find(|(key, _)| key.as_str() == Some(name)) {
                        Some((_, old)) => *old = value,
                        None => entries.push((Node::new(name.as_str(), now.span.clone()), value)),
                    }
                }
            }
            of_host.now = Arc::new(now);
            of_host.unknown = unknown.into_iter().collect();
        }
        Self(Arc::new(all))
    }

    /// The facts of one host for all these that were not asked: an evaluation with them shows which hosts it would read.
    #[must_use]
    pub fn assumed<'a>(&self, like: &str, hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let Some(of_host) = self.0.get(like) else { return self.clone() };
        let mut all = (*self.0).clone();
        for host in hosts {
            all.entry(host.to_owned()).or_insert_with(|| of_host.clone());
        }
        Self(Arc::new(all))
    }

    /// The hosts that were asked.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Is this the same collection, not only an equal one?
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Was this host asked?
    pub fn has(&self, host: &str) -> bool {
        self.0.contains_key(host)
    }

    /// `facts` and `facts_before`. `prefix` stands before the names of facts that are read of them.
    fn variables(&self, host: &str, prefix: &str) -> (Variable, Variable) {
        let Some(of_host) = self.0.get(host) else { return (Variable::Unknown, Variable::Unknown) };
        let label = format!("{prefix}facts");
        let now = Entries { label, known: of_host.now.clone(), unknown: of_host.unknown.clone() };
        (Variable::Entries(Arc::new(now)), Variable::Data(of_host.before.clone()))
    }
}

fn facts_node(host: &str, json: &Json) -> Arc<Node> {
    Arc::new(Node::from_json(json, &Span::nowhere(format!("facts of {host}"))))
}

/// State that all scopes of a project share.
#[derive(Clone)]
pub(crate) struct SharedState {
    pub engine: TemplateEngine,
    pub inventory: Arc<Inventory>,
    pub set: Arc<SetVars>,
    pub playbook_dir: Arc<str>,
    /// The magic variable `groups`.
    pub groups: Arc<Node>,
    /// Names that some role declares as a secret: they are secret everywhere.
    pub secrets: Arc<BTreeSet<String>>,
}

impl SharedState {
    pub fn new(
        inventory: Inventory,
        set: SetVars,
        playbook_dir: &str,
        secrets: BTreeSet<String>,
        vault: &Vault,
        moment: Option<Moment>,
    ) -> Self {
        let engine = TemplateEngine::new().with_vault(Arc::new(vault.clone()));
        let span = Span::nowhere("converge");
        let texts = |names: &[&str]| {
            let items = names.iter().map(|name| Node::new(*name, span.clone())).collect();
            Node { value: Value::List(items), span: span.clone(), tag: None }
        };
        let groups = inventory.groups_map();
        let groups =
            groups.iter().map(|(name, hosts)| (Node::new(*name, span.clone()), texts(hosts))).collect();
        let groups = Arc::new(Node { value: Value::Map(groups), span: span.clone(), tag: None });
        Self {
            engine: match moment {
                Some(moment) => engine.at(moment),
                None => engine,
            },
            inventory: Arc::new(inventory),
            set: Arc::new(set),
            playbook_dir: playbook_dir.into(),
            groups,
            secrets: Arc::new(secrets),
        }
    }
}

/// `hostvars`: the variables of the inventory and `--set` of each host, made when they are asked for.
struct InventoryHostScopes {
    shared: SharedState,
    facts: Facts,
    made: Mutex<BTreeMap<String, Scope>>,
}

impl HostScopes for InventoryHostScopes {
    fn names(&self) -> Vec<String> {
        self.shared.inventory.hosts().map(|host| host.name().to_owned()).collect()
    }

    fn scope(&self, host: &str) -> Option<Scope> {
        self.shared.inventory.host(host)?;
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = lock().get(host) {
            return Some(scope.clone());
        }
        let layers = host_layers(&self.shared.inventory, &self.shared.set, host);
        let mut scope = Scope::new(&self.shared.engine);
        add_winners(&mut scope, &self.shared, &layers);
        // Not `hostvars` itself: it would hold itself.
        add_magic(&mut scope, &self.shared, &self.facts, host, &format!("hostvars.{host}."));
        // Where two threads come for it at once, both have the same: what is rendered in it is kept once.
        Some(lock().entry(host.to_owned()).or_insert(scope).clone())
    }
}

/// The `hostvars` of a run. One for all hosts, so that what is rendered once is kept.
pub(crate) fn hostvars(shared: &SharedState, facts: &Facts) -> Arc<dyn HostScopes> {
    Arc::new(InventoryHostScopes { shared: shared.clone(), facts: facts.clone(), made: Mutex::default() })
}

fn add_winners(scope: &mut Scope, shared: &SharedState, layers: &Layers) {
    for (name, candidates) in layers {
        let Some(winner) = candidates.last() else {
            continue;
        };
        if winner.sensitive || shared.secrets.contains(name) {
            scope.set_sensitive(name, Variable::template(winner.node.clone()));
        } else {
            scope.set(name, Variable::template(winner.node.clone()));
        }
    }
}

fn add_magic(scope: &mut Scope, shared: &SharedState, facts: &Facts, host: &str, prefix: &str) {
    let (now, before) = facts.variables(host, prefix);
    let span = Span::nowhere("converge");
    let text = |text: &str| Node::new(text, span.clone());
    let texts = |names: &[&str]| Node {
        value: Value::List(names.iter().map(|name| text(name)).collect()),
        span: span.clone(),
        tag: None,
    };
    let short = host.split('.').next().unwrap_or(host);
    scope
        .set("inventory_hostname", Variable::data(text(host)))
        .set("inventory_hostname_short", Variable::data(text(short)))
        .set("group_names", Variable::data(texts(&shared.inventory.groups_of(host))))
        .set("groups", Variable::Data(shared.groups.clone()))
        .set("playbook_dir", Variable::data(text(&shared.playbook_dir)))
        .set("facts", now)
        .set("facts_before", before);
}

/// The scope of a host outside any role.
pub(crate) fn host_scope(
    shared: &SharedState,
    facts: &Facts,
    hosts: &Arc<dyn HostScopes>,
    host: &str,
) -> Scope {
    let layers = host_layers(&shared.inventory, &shared.set, host);
    let mut scope = Scope::new(&shared.engine);
    add_winners(&mut scope, shared, &layers);
    add_magic(&mut scope, shared, facts, host, "");
    scope.set("hostvars", Variable::Hosts(hosts.clone()));
    scope
}

/// The scope of a role on a host, its inputs checked.
pub(crate) struct RoleScope {
    pub scope: Scope,
    /// Errors of the inputs.
    pub problems: Diagnostics,
    /// The inputs with errors.
    pub bad: BTreeSet<String>,
    /// The names that the value of each input was made of.
    pub input_lookups: BTreeMap<String, BTreeSet<String>>,
}

/// Makes the scope of a role: inputs are evaluated and checked, and have the type that they are declared with. An input
/// with a problem is unknown, so that what uses it does not complain again.
pub(crate) fn role_scope(
    shared: &SharedState,
    facts: &Facts,
    hosts: &Arc<dyn HostScopes>,
    host: &str,
    role: &Role,
    layers: &Layers,
    used: &Span,
) -> RoleScope {
    let mut scope = Scope::new(&shared.engine);
    add_winners(&mut scope, shared, layers);
    add_magic(&mut scope, shared, facts, host, "");
    let span = Span::nowhere("converge");
    scope
        .set("hostvars", Variable::Hosts(hosts.clone()))
        .set("role_name", Variable::data(Node::new(role.name.as_str(), span.clone())))
        .set("role_path", Variable::data(Node::new(role.dir.as_str(), span)))
        .set_files(role.dir.as_std_path());
    let mut made = RoleScope {
        scope,
        problems: Diagnostics::new(),
        bad: BTreeSet::new(),
        input_lookups: BTreeMap::new(),
    };
    // Values without templates come first: templates use them, and must get them with their declared type.
    let is_made = |input: &&Input| {
        layers.get(input.name.as_str()).and_then(|all| all.last()).is_some_and(|won| has_template(&won.node))
    };
    let (templates, plain): (Vec<&Input>, Vec<&Input>) = role.inputs.values().partition(is_made);
    for inputs in [plain, templates] {
        let mut values = Vec::new();
        for input in inputs {
            let name = input.name.as_str();
            match input_value(shared, host, role, input, layers, &made.scope, used) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let secret = found.sensitive || input.sensitive || shared.secrets.contains(name);
                    made.input_lookups.insert(name.to_owned(), found.lookups);
                    values.push((name, Variable::data(found.value), secret));
                }
                Err(more) => {
                    made.problems.extend(more);
                    made.bad.insert(name.to_owned());
                    values.push((name, Variable::Unknown, false));
                }
            }
        }
        for (name, variable, sensitive) in values {
            if sensitive {
                made.scope.set_sensitive(name, variable);
            } else {
                made.scope.set(name, variable);
            }
        }
    }
    made
}

/// The checked value of an input; `None` where no layer gives one or it waits for facts.
fn input_value(
    shared: &SharedState,
    host: &str,
    role: &Role,
    input: &Input,
    layers: &Layers,
    scope: &Scope,
    used: &Span,
) -> Result<Option<EvaluationResult<Node>>, Diagnostics> {
    let name = input.name.as_str();
    let Some(winner) = layers.get(name).and_then(|candidates| candidates.last()) else {
        if !input.required {
            return Ok(None);
        }
        let message = format!("the input `{name}` of the role `{}` has no value on {host}", role.name);
        return Err(Diagnostic::error("missing-input", message)
            .label(&input.span, "required")
            .label(used, "the role is used here")
            .help(format!("set `{name}` in the inventory, or in `vars` where the role is used"))
            .into());
    };
    // A value that waits for facts is checked once the facts are known.
    let Evaluation::Known(mut found) = shared.engine.eval_value(&winner.node, scope)? else {
        return Ok(None);
    };
    // A default of null stands for "no value"; a type belongs to the values of the layers above it.
    if !(found.value.is_null() && input.default.as_ref().is_some_and(Node::is_null)) {
        found.value = input.check(&found.value, found.sensitive || shared.secrets.contains(name))?;
    }
    Ok(Some(found))
}
