//! Variables, rendered when they are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use converge_syntax::{Diagnostic, Diagnostics, Node};
use minijinja::value::{Enumerator, Object};
use minijinja::{Error, ErrorKind, Value};

use crate::convert::to_value;
use crate::engine::{Fail, TemplateEngine};
use crate::frame::{self, Notes};

/// The scopes of other hosts, by host name, for `hostvars`.
pub trait HostScopes: Send + Sync {
    /// Every host name.
    fn names(&self) -> Vec<String>;
    /// The variables of a host; `None` where there is no such host.
    fn scope(&self, host: &str) -> Option<Scope>;
}

/// The value of a name.
#[derive(Clone)]
pub enum Variable {
    /// Text of a user: rendered when looked up.
    Template(Arc<Node>),
    /// Data of a host, or an earlier rendering: never rendered.
    Data(Arc<Node>),
    /// A map of data some entries of which are not known yet. Lookups in it are noted entry by entry.
    Entries(Arc<Entries>),
    /// Not known yet.
    Unknown,
    /// The variables of other hosts.
    Hosts(Arc<dyn HostScopes>),
}

impl Variable {
    /// A value of a user, rendered when looked up.
    pub fn template(node: Node) -> Self {
        Self::Template(Arc::new(node))
    }

    /// A value that is never rendered.
    pub fn data(node: Node) -> Self {
        Self::Data(Arc::new(node))
    }
}

/// A map of which entries are known one by one: the facts of a host in the middle of a run.
#[derive(Debug)]
pub struct Entries {
    /// The prefix of an entry in notes: `facts` of `facts.hostname`.
    pub label: String,
    /// The map.
    pub known: Arc<Node>,
    /// Entries that are not known yet.
    pub unknown: BTreeSet<String>,
}

impl Object for Entries {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        let name = || format!("{}.{key}", self.label);
        if self.unknown.contains(key) {
            frame::note(|notes| {
                notes.lookups.insert(name());
                notes.unknown.insert(name());
            });
            return Some(stopped("not known yet"));
        }
        let value = self.known.get(key)?;
        frame::note(|notes| notes.lookups.insert(name()));
        Some(to_value(value))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let known = self.known.as_map().into_iter().flatten().filter_map(|(key, _)| key.as_str());
        let unknown = self.unknown.iter().map(String::as_str).filter(|key| self.known.get(key).is_none());
        Enumerator::Values(known.chain(unknown).map(Value::from).collect())
    }
}

/// A set of variables. Cheap to clone; what was rendered is kept.
#[derive(Clone)]
pub struct Scope(Arc<Inner>);

struct Inner {
    engine: TemplateEngine,
    variables: BTreeMap<String, ScopeEntry>,
    /// A scope that this one adds to, and the names that it changes.
    base: Option<(Scope, BTreeSet<String>)>,
    files: Option<PathBuf>,
    cache: Mutex<BTreeMap<String, Arc<EvaluatedVariable>>>,
}

#[derive(Clone)]
struct ScopeEntry {
    variable: Variable,
    sensitive: bool,
}

/// A variable after its evaluation.
#[derive(Clone)]
struct EvaluatedVariable {
    value: Value,
    notes: Notes,
    /// Undefined inside: why.
    undefined: Option<Diagnostics>,
}

impl Scope {
    /// No variables yet. Add them before the scope is shared: see [`Scope::set`].
    pub fn new(engine: &TemplateEngine) -> Self {
        Self(Arc::new(Inner {
            engine: engine.clone(),
            variables: BTreeMap::new(),
            base: None,
            files: None,
            cache: Mutex::default(),
        }))
    }

    /// Adds or replaces a variable, in this handle only: clones made before keep what they had.
    pub fn set(&mut self, name: impl Into<String>, variable: Variable) -> &mut Self {
        self.insert(name.into(), variable, false)
    }

    /// As [`Scope::set`], for a secret: what reaches it is sensitive.
    pub fn set_sensitive(&mut self, name: impl Into<String>, variable: Variable) -> &mut Self {
        self.insert(name.into(), variable, true)
    }

    fn insert(&mut self, name: String, variable: Variable, sensitive: bool) -> &mut Self {
        let inner = self.change();
        if let Some((_, changed)) = &mut inner.base {
            changed.insert(name.clone());
        }
        inner.variables.insert(name, ScopeEntry { variable, sensitive });
        self
    }

    /// The folder that `lookup('file', …)` starts from (a role's folder; its `files/` is tried first).
    pub fn set_files(&mut self, folder: impl Into<PathBuf>) -> &mut Self {
        self.change().files = Some(folder.into());
        self
    }

    /// The contents for changing; what was rendered is forgotten. A handle that others share becomes a scope of its own.
    fn change(&mut self) -> &mut Inner {
        if Arc::get_mut(&mut self.0).is_none() {
            let base = self.clone();
            self.0 = Arc::new(Inner {
                engine: base.0.engine.clone(),
                variables: base.0.variables.clone(),
                files: base.0.files.clone(),
                base: Some((base, BTreeSet::new())),
                cache: Mutex::default(),
            });
        }
        let inner = Arc::make_mut(&mut self.0);
        inner.cache = Mutex::default();
        inner
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.variables.keys().map(String::as_str)
    }

    /// The value of a name.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        Some(self.0.variables.get(name)?.variable.clone())
    }

    /// Is there a variable of this name?
    pub fn has(&self, name: &str) -> bool {
        self.0.variables.contains_key(name)
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn engine(&self) -> &TemplateEngine {
        &self.0.engine
    }

    pub(crate) fn files(&self) -> Option<&Path> {
        self.0.files.as_deref()
    }

    /// The value of a variable for a template, noted in the innermost evaluation. `prefix` stands before noted names.
    pub(crate) fn look_up(&self, name: &str, prefix: &str) -> Option<Value> {
        if !self.has(name) {
            return None;
        }
        if let Some(chain) = frame::refusal(self, name) {
            let diagnostics = Diagnostics::from(cycle(name, &chain));
            frame::note(|notes| notes.fatal.get_or_insert(diagnostics).len());
            return Some(stopped("variables refer to each other in a circle"));
        }
        let looked = self.looked(name);
        frame::note(|notes| {
            let prefixed = |name: &String| format!("{prefix}{name}");
            notes.lookups.insert(format!("{prefix}{name}"));
            notes.lookups.extend(looked.notes.lookups.iter().map(prefixed));
            notes.unknown.extend(looked.notes.unknown.iter().map(prefixed));
            notes.sensitive |= looked.notes.sensitive;
            if notes.fatal.is_none() {
                notes.fatal.clone_from(&looked.notes.fatal);
            }
            if let Some(why) = &looked.undefined {
                notes.undefined.insert(name.to_owned(), why.clone());
            }
        });
        Some(looked.value.clone())
    }

    /// The evaluated variable, from the cache where it can.
    fn looked(&self, name: &str) -> Arc<EvaluatedVariable> {
        let lock = || self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looked) = lock().get(name) {
            return looked.clone();
        }
        let looked = self.in_base(name).unwrap_or_else(|| Arc::new(self.evaluate(name)));
        // Failures too: minijinja looks every name up once more when it describes an error.
        lock().insert(name.to_owned(), looked.clone());
        looked
    }

    /// The rendering in the cache of the base scope, unless a name that it looked up is changed in this scope.
    fn in_base(&self, name: &str) -> Option<Arc<EvaluatedVariable>> {
        let (base, changed) = self.0.base.as_ref()?;
        if changed.contains(name) {
            return None;
        }
        let known = base.0.cache.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        // A variable that was undefined in the base may have been added in this scope.
        known
            .or_else(|| base.in_base(name))
            .filter(|known| known.undefined.is_none() && known.notes.undefined.is_empty())
            .filter(|known| known.notes.lookups.is_disjoint(changed))
            .filter(|_| base.0.files == self.0.files)
    }

    fn evaluate(&self, name: &str) -> EvaluatedVariable {
        let Some(entry) = self.0.variables.get(name) else {
            return EvaluatedVariable { value: Value::UNDEFINED, notes: Notes::default(), undefined: None };
        };
        let sensitive = entry.sensitive;
        let plain = |value: Value| EvaluatedVariable {
            value,
            notes: Notes { sensitive, ..Notes::default() },
            undefined: None,
        };
        let node = match &entry.variable {
            Variable::Data(node) => return plain(to_value(node)),
            Variable::Hosts(hosts) => return plain(Value::from_object(HostVars(hosts.clone()))),
            Variable::Entries(entries) => return plain(Value::from_dyn_object(entries.clone())),
            Variable::Unknown => {
                let mut looked = plain(stopped("not known yet"));
                looked.notes.unknown.insert(name.to_owned());
                return looked;
            }
            Variable::Template(node) => node,
        };
        let (result, mut notes) =
            frame::within(self, Some(name), &node.span, || self.0.engine.walk(node, self));
        notes.sensitive |= sensitive;
        let (value, undefined) = match result {
            Ok(node) => (to_value(&node), None),
            Err(Fail::Unknown) => (stopped("not known yet"), None),
            Err(Fail::Undefined(why)) => (Value::UNDEFINED, Some(why)),
            Err(Fail::Fatal(why)) => {
                notes.fatal.get_or_insert(why);
                (stopped("the variable cannot be rendered"), None)
            }
        };
        EvaluatedVariable { value, notes, undefined }
    }
}

impl Clone for Inner {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            variables: self.variables.clone(),
            base: self.base.clone(),
            files: self.files.clone(),
            cache: Mutex::default(),
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.0.variables.keys().collect::<Vec<_>>()).finish()
    }
}

/// A value that stops the template that touches it; the reason is in the notes.
fn stopped(why: &'static str) -> Value {
    Value::from(Error::new(ErrorKind::InvalidOperation, why))
}

fn cycle(name: &str, chain: &[(String, converge_syntax::Span)]) -> Diagnostic {
    let path: Vec<&str> = chain.iter().map(|(name, _)| name.as_str()).chain([name]).collect();
    let circle = chain.first().is_some_and(|(first, _)| first == name);
    let message = if circle {
        format!("variables refer to each other in a circle: {}", path.join(" → "))
    } else {
        format!("variables refer to variables too deeply: {} …", path.join(" → "))
    };
    let mut diagnostic = Diagnostic::error("variable-cycle", message);
    for (index, (_, span)) in chain.iter().enumerate() {
        let next = path.get(index + 1).copied().unwrap_or(name);
        diagnostic = diagnostic.label(span, format!("refers to `{next}`"));
    }
    diagnostic.help(if circle {
        "break the circle: one of them must not refer to the others"
    } else {
        "make the chain shorter: write the value at its end into one of them"
    })
}

/// The variables as the root of a template.
#[derive(Debug)]
pub(crate) struct Root(pub Scope);

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.look_up(key.as_str()?, "")
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.look_up(key, "")
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.names().map(Value::from).collect())
    }
}

/// Does it render a variable when it is asked for one?
pub(crate) fn is_lazy(value: &Value) -> bool {
    value.downcast_object_ref::<HostVars>().is_some()
        || value.downcast_object_ref::<HostVariables>().is_some()
        || value.downcast_object_ref::<Entries>().is_some()
        || value.downcast_object_ref::<Root>().is_some()
}

/// `hostvars`.
struct HostVars(Arc<dyn HostScopes>);

impl fmt::Debug for HostVars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hostvars")
    }
}

impl Object for HostVars {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let host = key.as_str()?;
        let scope = self.0.scope(host)?;
        Some(Value::from_object(HostVariables { prefix: format!("hostvars.{host}."), scope }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.names().into_iter().map(Value::from).collect())
    }
}

/// `hostvars['host']`.
#[derive(Debug)]
struct HostVariables {
    prefix: String,
    scope: Scope,
}

impl Object for HostVariables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.scope.look_up(key.as_str()?, &self.prefix)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.scope.names().map(Value::from).collect())
    }
}
