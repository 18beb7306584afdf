//! What runs made on a host, and for whom.

use crate::RunRecord;
use crate::record::Reader;
use converge_resource::{ObjectId, State, WayBack, decode_field};
use serde::{Deserialize, Serialize};

/// Whose things are: a playbook used with an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The playbook, by a name that stays the same from run to run.
    pub playbook: String,
    /// The inventories, as for the playbook.
    pub inventory: String,
}

/// The project that a rollback or a prune works for, as it is named now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project(pub Scope);

impl Project {
    /// Whether records of this name are of the project. Older ones hold absolute paths of some controller: these are of it if they are its
    /// paths below one folder.
    pub fn is(&self, recorded: &Scope) -> bool {
        let Self(Scope { playbook, inventory }) = self;
        if *recorded == self.0 {
            return true;
        }
        let below = |path: &str, name: &str| -> Option<String> {
            let folder = path.strip_suffix(name)?.strip_suffix('/')?;
            (path.starts_with('/') && !name.starts_with('/')).then(|| folder.to_owned())
        };
        let Some(folder) = below(&recorded.playbook, playbook) else { return false };
        let (old, now) = (recorded.inventory.split(' '), inventory.split(' '));
        let same = |(path, name): (&str, &str)| path == name || below(path, name).as_deref() == Some(&folder);
        old.clone().count() == now.clone().count() && old.zip(now).all(same)
    }

    /// The same; a record that names no project is of every one.
    pub fn has(&self, recorded: &Scope) -> bool {
        *recorded == Scope::default() || self.is(recorded)
    }
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
    /// What of the records is not understood, and so not considered.
    pub broken: Vec<String>,
}

/// Reads what a host says of former runs, as its functions print it.
pub fn parse_owned(output: &str) -> OwnedRecords {
    let mut records = OwnedRecords::default();
    let mut cut_off: Option<Reader> = None;
    for (n, line) in output.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        // The text of a line may hold what is secret.
        let odd = || format!("line {} of the record of what is managed is damaged and not considered", n + 1);
        match (fields.as_slice(), &mut cut_off) {
            (["run", id], None) => cut_off = Some(Reader::new(id)),
            (fields, Some(run)) => run.read(fields),
            (["converge-owned", "1"], None) => {}
            (["busy", "yes"], None) => records.busy = true,
            // It was given back.
            (["gone", ..], None) => {}
            (["broken", what], None) => records.broken.push(decode_field(what).unwrap_or_default()),
            (["own", rest @ ..], None) => match thing(rest) {
                Some(thing) => records.things.push(thing),
                None => records.broken.push(odd()),
            },
            _ => records.broken.push(odd()),
        }
    }
    records.cut_off = cut_off.map(Reader::end_of_run);
    records.broken.extend(records.cut_off.iter().filter_map(|r| r.broken.clone()));
    records
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
