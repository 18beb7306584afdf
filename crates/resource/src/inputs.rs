//! The inputs that items run a unit with.

use crate::{Digest, ObjectId, State, Stop};

/// A resource of the same role that `restart_on` or `reload_on` names, in its state after its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedResource {
    /// SHA-256 over the lines of all objects that it claims, after it.
    pub digest: String,
    /// True when this run changes it.
    pub changed: bool,
    /// The newest moment (a path's mtime) of its objects, in seconds since 1970.
    pub newest: Option<i64>,
}

/// The inputs that an item runs a unit with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsWith {
    /// A digest of the inputs.
    pub digest: String,
    /// Whether this run changes it.
    pub changed: bool,
    /// Its newest moment, in seconds since 1970.
    pub newest: Option<i64>,
    /// The inputs themselves, to be read again when a later item restarts the unit.
    pub inputs: Inputs,
}

/// The inputs of a unit by one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The object that the kind itself brings.
    pub own: Option<OwnInput>,
    /// The names of earlier resources of the same role.
    pub names: Vec<String>,
    /// Whether a reload of the unit is enough for them.
    pub reload: bool,
}

/// The object that a kind brings for its unit: a unit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInput {
    /// The object.
    pub object: ObjectId,
    /// Its state after the item.
    pub state: State,
    /// Whether this run changes it.
    pub changed: bool,
    /// Its moment, in seconds since 1970.
    pub newest: Option<i64>,
}

impl Inputs {
    /// Whether there is nothing to depend on.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.names.is_empty()
    }

    /// Reads the named resources in their present states.
    ///
    /// # Errors
    /// As `named`, which looks up one of them.
    pub fn read(self, named: &dyn Fn(&str) -> Result<NamedResource, Stop>) -> Result<RunsWith, Stop> {
        let mut lines = String::new();
        let (mut changed, mut newest) = (false, None);
        if let Some(own) = &self.own {
            lines.push_str(&format!("{}\t{}\n", own.object, own.state));
            (changed, newest) = (own.changed, own.newest);
        }
        for name in &self.names {
            let named = named(name)?;
            lines.push_str(&format!("{name}\t{}\n", named.digest));
            changed |= named.changed;
            newest = newest.max(named.newest);
        }
        Ok(RunsWith { digest: Digest::of(lines.as_bytes()).to_string(), changed, newest, inputs: self })
    }
}

impl RunsWith {
    /// Whether a unit without a record that has run since this moment runs with the present inputs.
    pub fn was_there_at(&self, start: Option<i64>) -> bool {
        match (self.changed, self.newest, start) {
            (false, None, _) => true,
            // Moments are whole seconds: what changed within the second of the start may be newer.
            (false, Some(newest), Some(start)) => newest < start,
            _ => false,
        }
    }
}
