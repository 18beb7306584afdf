//! Declared items, as the fold takes them.

use crate::{AlteredFacts, DeclaredGuard, Problem, RunPosition};
use converge_resource::{Claim, Disruption, DynResource, Wait};
use std::collections::{BTreeMap, BTreeSet};

/// An item as far as it is known without a host.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemDeclaration {
    /// `role/name`, with `[key]` for an element of `for_each`.
    pub address: String,
    /// The user's name for it (without `[key]`); `restart_on` names it so.
    pub name: String,
    /// A short name for references, if the user has given one.
    pub item_id: Option<String>,
    /// The role.
    pub role: String,
    /// The kind.
    pub kind: String,
    /// `file:line`.
    pub location: String,
    /// The variable that takes its output.
    pub register: Option<String>,
    /// The disruption that the user declares; else it follows from its kind and its objects.
    pub disruption: Option<Disruption>,
    /// The user's settings of its guard.
    pub guard: DeclaredGuard,
}

/// An item's parameters on a host.
pub enum ResolvedParameters {
    /// All parameters are known.
    Ready {
        /// The resource.
        resource: Box<dyn DynResource>,
        /// Its parameters as JSON.
        params: serde_json::Value,
        /// True if it reads a sensitive value.
        sensitive: bool,
    },
    /// The item does not apply (a condition is false): why.
    Skipped(String),
    /// A value is not known yet.
    Unknown {
        /// The variables that deferred items will register.
        names: Vec<String>,
        /// The objects that it manages, as far as the known parameters tell.
        claims: Vec<Claim>,
        /// True if it reads a sensitive value.
        sensitive: bool,
    },
    /// The declaration is invalid on this host.
    Invalid(Problem),
}

/// A registered value.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The value.
    pub value: serde_json::Value,
    /// True if the item that registered it is sensitive: then every value that is made of it is too.
    pub sensitive: bool,
}

/// Registered values by role and name.
pub type Outputs = BTreeMap<(String, String), Output>;

/// The source of the items of one host: a project, or a saved plan.
pub trait ItemSource {
    /// All items of the host, in an order in which every role comes after those that it requires.
    fn items(&self) -> &[ItemDeclaration];
    /// Evaluates item `index`. `outputs` holds the registered values so far; a registered name that is not in it is unknown.
    /// `altered` holds the facts of the host that earlier items alter.
    fn resolve(&self, index: usize, outputs: &Outputs, altered: &AlteredFacts) -> ResolvedParameters;
    /// The first names of the facts that item `index` has read when it was resolved last.
    fn facts_read(&self, _index: usize) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// The place of item `index` in the order of the run.
    fn moment(&self, _index: usize) -> RunPosition {
        RunPosition::default()
    }
    /// The items of other hosts that alter facts which item `index` has read then, each as host and address.
    fn waits_for_others(&self, _index: usize) -> BTreeSet<(String, String)> {
        BTreeSet::new()
    }
    /// The reason why a variable of another host, by its full name, is not known to item `index`.
    fn wait_for_other(&self, _index: usize, _name: &str) -> Option<Wait> {
        None
    }
    /// Remarks for people on the values that item `index` has read then.
    fn remarks(&self, _index: usize) -> Vec<String> {
        Vec::new()
    }
    /// Whether role `a` surely comes before role `b`.
    fn ordered(&self, a: &str, b: &str) -> bool;
    /// The part of item `index` in the question that all items of its kind ask together, as far as it is known.
    fn stage(&self, index: usize, outputs: &Outputs) -> Option<String> {
        let _ = (index, outputs);
        None
    }
}
