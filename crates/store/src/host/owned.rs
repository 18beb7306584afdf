//! What runs made on a host, and for whom.

use super::record::{Reader, clip};
use super::{RecordError, RunRecord};
use converge_resource::{ObjectId, State, WayBack, decode_field, quote};
use serde::{Deserialize, Serialize};

/// Whose things are: a playbook used with an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The playbook, by a name that stays the same from run to run.
    pub playbook: String,
    /// The inventories, as for the playbook.
    pub inventory: String,
}

/// An object that a run made or changed, and that was not given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// What it is.
    pub object: ObjectId,
    /// Whose it is.
    pub scope: Scope,
    /// The roles whose items changed it, the last one first.
    pub roles: Vec<String>,
    /// The address of the item that changed it last.
    pub item: String,
    /// When it became ours, RFC 3339 UTC.
    pub since: String,
    /// The run that first changed it; it keeps what the state before only names.
    pub run: String,
    /// The state that was there before us.
    pub before: State,
    /// The state that we left.
    pub left: State,
    /// What a run of ours left and what the next one found, where somebody else was there in between. Of clusters: objects of hosts go back whole.
    pub between: Vec<(State, State)>,
    /// True when its item was declared sensitive.
    pub sensitive: bool,
    /// True when no role answers for it by itself: it came with something that one answers for, such as a package's
    /// dependency.
    pub by_product: bool,
    /// Why the state before was not kept, when it was not.
    pub unsaved: Option<String>,
    /// What its way back needs besides the states.
    pub way_back: Option<WayBack>,
}

/// What a host says of former runs, for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedRecords {
    /// In the order in which they became ours.
    pub things: Vec<Owned>,
    /// The newest run, when it did not end.
    pub cut_off: Option<RunRecord>,
    /// True when some process holds the host's lock: that run may still be at work.
    pub busy: bool,
}

/// Prints what is ours and what was cut off; read it with [`parse_owned`]. It changes nothing.
pub fn owned_script() -> String {
    "cv_owned".to_owned()
}

/// Takes an object out of the record of what is ours. The run holds the host's lock.
pub fn disown_script(object: &ObjectId) -> String {
    format!("cv_disown {} {}", object.kind, quote(&object.key))
}

/// Reads the output of [`owned_script`].
///
/// # Errors
/// Lines that no converge writes.
pub fn parse_owned(output: &str) -> Result<OwnedRecords, RecordError> {
    let mut records = OwnedRecords::default();
    let mut cut_off: Option<Reader> = None;
    for (n, line) in output.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let odd = || RecordError(format!("line {}: {}", n + 1, clip(line)));
        match (fields.as_slice(), &mut cut_off) {
            (["run", id], None) => cut_off = Some(Reader::new(id)),
            (fields, Some(run)) => run.take(fields).ok_or_else(odd)?,
            (["converge-owned", "1"], None) => {}
            (["busy", "yes"], None) => records.busy = true,
            // It was given back.
            (["gone", ..], None) => {}
            (["own", rest @ ..], None) => records.things.push(thing(rest).ok_or_else(odd)?),
            _ => return Err(odd()),
        }
    }
    records.cut_off = cut_off.map(|r| r.record);
    Ok(records)
}

fn thing(fields: &[&str]) -> Option<Owned> {
    let [kind, key, playbook, inventory, roles, item, since, run, before, left, flags, unsaved, rest @ ..] =
        fields
    else {
        return None;
    };
    let text = |word: &str| decode_field(word);
    let flag = |name: &str| flags.split(',').any(|f| f == name);
    Some(Owned {
        object: ObjectId::new(kind, text(key)?),
        scope: Scope { playbook: text(playbook)?, inventory: text(inventory)? },
        roles: roles.split(',').map(text).collect::<Option<_>>()?,
        item: text(item)?,
        since: (*since).to_owned(),
        run: (*run).to_owned(),
        before: State::from_line(before),
        left: State::from_line(left),
        between: Vec::new(),
        sensitive: flag("sensitive"),
        by_product: flag("by"),
        unsaved: if *unsaved == "-" { None } else { Some(text(unsaved)?) },
        // Behind the run that gave it back.
        way_back: match rest {
            [_, host, name, ..] if *host != "-" => Some(WayBack { host: text(host)?, name: text(name)? }),
            _ => None,
        },
    })
}
