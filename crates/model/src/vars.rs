//! The six layers of variables, lowest first, and who wins.

use std::collections::BTreeMap;
use std::fmt;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, resolve_plain};
use indexmap::IndexMap;

use crate::input::{Input, set_value};
use crate::inventory::{self, Assignment, Inventory};
use crate::play::{Play, RoleRef, variable_name};
use crate::role::Role;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The default of a role's input.
    Default,
    /// A group of the inventory, by name.
    Group(String),
    /// The host itself.
    Host,
    /// The play.
    Play,
    /// `vars` at the use of the role.
    Role,
    /// `--set`.
    Set,
    /// An expression of a role: `vars` in its file. No other layer may give a value then.
    Expression,
}

impl Layer {
    /// The layer's place among the six: 0 is the lowest. An expression of a role stands above them.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Group(_) => 1,
            Self::Host => 2,
            Self::Play => 3,
            Self::Role => 4,
            Self::Set => 5,
            Self::Expression => 6,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("role default"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Host => f.write_str("host"),
            Self::Play => f.write_str("play"),
            Self::Role => f.write_str("role vars"),
            Self::Set => f.write_str("--set"),
            Self::Expression => f.write_str("expression"),
        }
    }
}

/// One value that a variable could have.
#[derive(Clone)]
pub struct Candidate {
    /// The layer.
    pub layer: Layer,
    /// The play or role that the value is limited to; `None` where it holds for the host.
    pub within: Option<String>,
    /// The value as written, with its place.
    pub node: Node,
    /// The place of the name.
    pub key: Span,
    /// An input declares it as a secret, or it is encrypted.
    pub sensitive: bool,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value: &dyn fmt::Debug = if self.sensitive { &"(sensitive)" } else { &self.node };
        f.debug_struct("Candidate")
            .field("layer", &self.layer)
            .field("key", &self.key)
            .field("value", value)
            .finish_non_exhaustive()
    }
}

/// All candidates of a name, lowest first: the last wins.
pub(crate) type Layers = IndexMap<String, Vec<Candidate>>;

/// A variable of `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetVariable {
    /// Its name.
    pub name: String,
    /// The text of its value.
    pub text: String,
    /// No template is read in the text: it is that of a file.
    pub is_literal: bool,
}

impl From<(&str, &str)> for SetVariable {
    /// A value as it is typed.
    fn from((name, text): (&str, &str)) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), is_literal: false }
    }
}

/// The values of `--set`, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetVars(BTreeMap<String, Node>);

/// The name that values of `--set` have as a source.
pub(crate) const SET: &str = "--set";

impl SetVars {
    pub(crate) fn read(given: &[SetVariable], diags: &mut Diagnostics) -> Self {
        let mut found = BTreeMap::new();
        for SetVariable { name, text, is_literal } in given {
            let span = Span::nowhere(SET);
            match variable_name(name) {
                Ok(()) => {
                    found.insert(name.clone(), set_value(text, *is_literal, &span));
                }
                Err(problem) => diags.push(problem.at(&span)),
            }
        }
        Self(found)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Splits `NAME=VALUE`.
///
/// # Errors
/// There is no `=`, or the name cannot be one of a variable.
pub fn parse_set(text: &str) -> Result<(String, String), Diagnostic> {
    let span = Span::nowhere(SET);
    let (name, value) = text.split_once('=').ok_or_else(|| {
        let help = match text.strip_prefix('@') {
            Some(_) => "files of variables are those in group_vars/ and host_vars/; NAME=@FILE takes one value from a file",
            None => "write --set NAME=VALUE",
        };
        Diagnostic::error("bad-set", format!("`{text}` is not NAME=VALUE")).at(&span).help(help)
    })?;
    let name = name.trim();
    variable_name(name).map_err(|problem| problem.at(&span))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The layers of a host, those of the inventory and `--set` alone (`hostvars`).
pub(crate) fn host_layers(inventory: &Inventory, set: &SetVars, host: &str) -> Layers {
    let mut layers = Layers::new();
    add_inventory(&mut layers, inventory, host);
    add_set(&mut layers, set, |_| None);
    layers
}

/// The layers that a role sees on a host.
pub(crate) fn role_layers(
    inventory: &Inventory,
    set: &SetVars,
    host: &str,
    play: &Play,
    used: &RoleRef,
    role: &Role,
) -> Layers {
    let mut layers = Layers::new();
    for input in role.inputs.values() {
        if let Some(default) = &input.default {
            let candidate = Candidate {
                layer: Layer::Default,
                within: Some(format!("role {}", role.name)),
                node: default.clone(),
                key: input.span.clone(),
                sensitive: input.sensitive,
            };
            layers.entry(input.name.clone()).or_default().push(candidate);
        }
    }
    add_inventory(&mut layers, inventory, host);
    add_assignments(&mut layers, &play.vars, &Layer::Play, &format!("play {}", play.title()));
    add_assignments(&mut layers, &used.vars, &Layer::Role, &format!("role {}", role.name));
    add_set(&mut layers, set, |name| role.inputs.get(name));
    for expression in role.vars.values() {
        let candidate = Candidate {
            layer: Layer::Expression,
            within: Some(format!("role {}", role.name)),
            node: expression.node.clone(),
            key: expression.span.clone(),
            sensitive: inventory::is_encrypted(&expression.node),
        };
        layers.entry(expression.name.clone()).or_default().push(candidate);
    }
    for (name, candidates) in &mut layers {
        let secret = role.is_sensitive(name);
        candidates.iter_mut().for_each(|candidate| candidate.sensitive |= secret);
    }
    layers
}

fn add_inventory(layers: &mut Layers, inventory: &Inventory, host: &str) {
    for found in inventory.host_vars(host) {
        let candidate = Candidate {
            layer: match found.layer {
                inventory::InventoryLayer::Group(name) => Layer::Group(name),
                inventory::InventoryLayer::Host => Layer::Host,
            },
            within: None,
            sensitive: inventory::is_encrypted(&found.node),
            node: found.node,
            key: found.key,
        };
        layers.entry(found.name).or_default().push(candidate);
    }
}

fn add_assignments(layers: &mut Layers, vars: &[Assignment], layer: &Layer, within: &str) {
    for var in vars {
        let candidate = Candidate {
            layer: layer.clone(),
            within: Some(within.to_owned()),
            node: var.node.clone(),
            key: var.key.clone(),
            sensitive: inventory::is_encrypted(&var.node),
        };
        layers.entry(var.name.clone()).or_default().push(candidate);
    }
}

/// A value of `--set` for an input is read as the input's type asks, any other as a plain YAML scalar.
fn add_set<'r>(layers: &mut Layers, set: &SetVars, input: impl Fn(&str) -> Option<&'r Input>) {
    for (name, node) in &set.0 {
        let node = match (input(name), node.as_str()) {
            (None, Some(text)) => {
                Node { tag: node.tag.clone(), ..Node::new(resolve_plain(text), node.span.clone()) }
            }
            _ => node.clone(),
        };
        let candidate =
            Candidate { layer: Layer::Set, within: None, key: node.span.clone(), node, sensitive: false };
        layers.entry(name.clone()).or_default().push(candidate);
    }
}

/// One variable of a host as `converge vars` shows it.
#[derive(Clone)]
pub struct VarReport {
    /// The variable.
    pub name: String,
    /// Every candidate, lowest layer first, each place once.
    pub candidates: Vec<Candidate>,
    /// The winning candidates: the first is that of the host outside any role (`None`), then each role where another
    /// candidate wins.
    pub winners: Vec<Winner>,
}

/// The candidate that wins for a host or for one role on it.
#[derive(Clone)]
pub struct Winner {
    /// The role; `None` for the host outside any role.
    pub role: Option<String>,
    /// Its place in [`VarReport::candidates`].
    pub candidate: usize,
    /// The value after templates; `None` where it is sensitive, waits for the host, or cannot be rendered.
    pub value: Option<Node>,
    /// The reason why there is no value.
    pub why: Option<String>,
}

impl fmt::Debug for VarReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VarReport")
            .field("name", &self.name)
            .field("candidates", &self.candidates)
            .field("winners", &self.winners.iter().map(|w| (&w.role, w.candidate)).collect::<Vec<_>>())
            .finish()
    }
}
