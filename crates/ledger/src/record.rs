//! The runs that a host or a cluster has recorded, and the reader of their lines.

use crate::paths::is_at_path;
use crate::{Adoption, ProjectName, Renaming};
use converge_resource::{
    Change, ChangedPart, FieldOwners, NodeRemoval, ObjectId, Reversibility, State, decode_field, encode_field,
};
use std::collections::{BTreeMap, BTreeSet};

/// One run on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Its ID.
    pub id: String,
    /// Its number on the host: one more than that of any run before it. None in records of formats 1 and 2.
    pub seq: Option<u64>,
    /// When it began by the host's own clock, in seconds since 1970.
    pub opened: Option<i64>,
    /// The project that it was for; empty in records of format 1.
    pub scope: ProjectName,
    /// When it began, as the controller wrote it: `2026-11-21T04:05:06Z`.
    pub time: String,
    /// Who ran it.
    pub operator: String,
    /// The inventory, as the operator named it.
    pub inventory: String,
    /// The playbook, as the operator named it.
    pub playbook: String,
    /// Its purpose.
    pub purpose: RunPurpose,
    /// The addresses of the items that it was about to work on; none in records of format 1.
    pub planned: Vec<String>,
    /// The runs that it rolled back.
    pub rolls_back: Vec<String>,
    /// The run that `undo.sh` meant to undo; it is among `rolls_back` too when nothing was left alone.
    pub attempts: Option<String>,
    /// The run that rolled this one back, and was not rolled back itself.
    pub rolled_back_by: Option<String>,
    /// A run set out to roll this one back, and did not do all of it.
    pub rolled_back_in_part: bool,
    /// Its changes, in order.
    pub changes: Vec<SavedChange>,
    /// The objects that it took out of management without a change, each with the number of changes before that.
    pub disowned: Vec<(usize, ObjectId)>,
    /// The objects of `disowned` that somebody has forgotten (`converge state forget`): the changes of earlier runs of the project to them are in force no
    /// more, and no rollback gives that back.
    pub forgotten: BTreeSet<ObjectId>,
    /// The roles and resources of the project that go by another name since (`converge state move`), in order.
    pub renamed: Vec<Renaming>,
    /// The objects that it took into management as they were (`converge state adopt`).
    pub adopted: Vec<Adoption>,
    /// False when it was cut off: what it left open is unknown.
    pub finished: bool,
    /// Whether its record has an end: also that of a run that was cut off, once a later run has begun.
    pub closed: bool,
    /// The reason why its guarded change was reverted on the host, when it was.
    pub put_back: Option<String>,
    /// The host's words about the first thing that its automatic revert could not restore.
    pub not_put_back: Option<String>,
    /// The part of its record that is not understood, and so is ignored.
    pub broken: Option<String>,
}

impl RunRecord {
    /// Whether it was a rollback, by converge or by `undo.sh`.
    pub fn is_rollback(&self) -> bool {
        self.purpose != RunPurpose::Converge || !self.rolls_back.is_empty() || self.attempts.is_some()
    }

    /// Its playbook as the operator named it, behind the name of its project.
    pub fn playbook_of_project(&self) -> String {
        self.scope.project().map_or_else(|| self.playbook.clone(), |name| format!("{name}:{}", self.playbook))
    }

    /// Its playbook and inventory as the operator named them, for people.
    pub fn named_project(&self) -> ProjectName {
        ProjectName { playbook: self.playbook_of_project(), inventory: self.inventory.clone() }
    }

    /// The roles whose items it was to work on, or did work on.
    pub fn roles(&self) -> BTreeSet<&str> {
        let changed = self.changes.iter().map(|c| &c.item);
        self.planned.iter().chain(changed).filter_map(|a| a.split_once('/')).map(|(role, _)| role).collect()
    }
}

/// The records of the runs on a host or a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// All runs, oldest first.
    pub runs: Vec<RunRecord>,
    /// The time of the host by its own clock, in seconds since 1970.
    pub now: Option<i64>,
    /// The parts of the records that are not understood, and so are ignored.
    pub broken: Vec<String>,
}

impl Records {
    /// The age of a run, in seconds by the host's clock; by its ID where the record does not say it.
    pub fn age(&self, run: &RunRecord) -> i64 {
        let Some(now) = self.now else { return 0 };
        run.opened.or_else(|| id_seconds(&run.id)).map_or(0, |opened| now.saturating_sub(opened))
    }
}

/// The time in a UUID of version 7 (RFC 9562), in seconds since 1970.
pub fn id_seconds(id: &str) -> Option<i64> {
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let is_v7 = digits.len() == 32 && digits.get(12..13) == Some("7");
    let milliseconds = digits.get(..12).filter(|_| is_v7).and_then(|d| i64::from_str_radix(d, 16).ok())?;
    Some(milliseconds / 1000)
}

/// The flag of a change that a rollback made knowing that it does not come to the state before.
pub const IN_PART: &str = "in-part";

/// Marks a change that undoes a command which was begun and did not come to its end: its state does not tell what it has done.
pub const BEGUN: &str = "begun";

/// One change of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedChange {
    /// Its number in the run.
    pub seq: u32,
    /// The changed object.
    pub object: ObjectId,
    /// The state before.
    pub before: State,
    /// The state that the run left; while it is unknown, the planned one.
    pub after: State,
    /// The state to which it was to lead.
    pub goal: State,
    /// The real directory of the object at that time, where links led there. None without a link above it, and in records that do not say it.
    pub real_dir: Option<String>,
    /// The address of the item.
    pub item: String,
    /// The role whose own the object becomes by it; none in a rollback or a prune, and of what changes besides.
    pub owner: Option<String>,
    /// In a cluster: the server's identity of the object that it left.
    pub uid: Option<String>,
    /// True when the item was declared sensitive.
    pub sensitive: bool,
    /// The reason why the state before was not kept, when it was not.
    pub no_snapshot: Option<String>,
    /// The data that a rollback needs besides the states.
    pub node_removal: Option<NodeRemoval>,
    /// How its item was guarded; a rollback of it is guarded alike.
    pub guard: Option<SavedGuard>,
    /// In a cluster: the parts of the object that its item declares and that it changed, or that a prune gave back.
    pub parts: Vec<ChangedPart>,
    /// In a cluster: who owned the fields before it and after it. `None` where the record does not tell.
    pub owners: Option<FieldOwners>,
    /// Its result.
    pub outcome: SavedOutcome,
    /// Where the run was cut off in it: whether a plan has found the object in the planned state since.
    pub arrived: bool,
}

/// The guard of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGuard {
    /// By what must answer: `ssh`, `network` or `runtime`.
    pub by: String,
    /// Its window.
    pub seconds: u64,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedOutcome {
    /// As planned.
    Done,
    /// Otherwise than planned.
    Off,
    /// A step failed; `after` is what it left.
    Failed,
    /// Foreign code changed the object.
    Moved,
    /// It was guarded and not confirmed: the host has put it back by itself.
    PutBack,
    /// The run was cut off in the middle: it may or may not have happened.
    Unknown,
}

impl SavedChange {
    /// False only when the object is known to be as it was, and its fields are whose they were.
    pub fn may_have_happened(&self) -> bool {
        self.outcome == SavedOutcome::Unknown || self.before != self.after || self.moves_owners()
    }

    /// Whether the project owns other fields of the object after it than before.
    fn moves_owners(&self) -> bool {
        self.outcome == SavedOutcome::Done && self.owners.as_ref().is_some_and(FieldOwners::moved)
    }

    /// Whether its result is known: that of a step in which the run was cut off is where the object was found in the planned state.
    pub(crate) fn is_known(&self) -> bool {
        self.outcome != SavedOutcome::Unknown || self.arrived
    }
}

/// The purpose of a run. A later rollback undoes the newest run of purpose [`RunPurpose::Converge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunPurpose {
    /// Towards what is declared.
    #[default]
    Converge,
    /// Back to saved states; of these roles only, when there are some.
    Rollback(Vec<String>),
    /// `undo.sh` on the host itself.
    Undo,
}

impl RunPurpose {
    /// The line of a run's meta that says so.
    pub fn line(&self) -> String {
        match self {
            Self::Converge => "purpose\tconverge".to_owned(),
            Self::Undo => "purpose\tundo".to_owned(),
            Self::Rollback(roles) => {
                let roles = roles.iter().map(|r| format!("\t{}", encode_field(r)));
                std::iter::once("purpose\trollback".to_owned()).chain(roles).collect()
            }
        }
    }
}

/// Records that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the records on the host are not understood: {0}")]
pub struct RecordError(pub String);

/// The format of the records. The host's functions print it for the older ones too.
pub const FORMAT: &str = "6";

/// Whether this converge reads records of a format.
pub fn reads_format(version: &str) -> bool {
    [FORMAT, "5", "4", "3", "2", "1"].contains(&version)
}

pub(crate) struct RunReader {
    pub(crate) record: RunRecord,
    places: BTreeMap<u32, usize>,
    /// Changes that bear [`IN_PART`].
    in_part: BTreeSet<u32>,
    lines: usize,
    bad: Vec<usize>,
}

impl RunReader {
    pub(crate) fn new(id: &str) -> Self {
        let record = RunRecord { id: id.to_owned(), ..RunRecord::default() };
        Self { record, places: BTreeMap::new(), in_part: BTreeSet::new(), lines: 0, bad: Vec::new() }
    }

    /// One line; what is not understood is counted.
    pub(crate) fn read(&mut self, fields: &[&str]) {
        self.lines += 1;
        if self.take(fields).is_none() {
            self.bad.push(self.lines);
        }
    }

    pub(crate) fn end_of_run(mut self) -> RunRecord {
        if let Some(first) = self.bad.first() {
            // The text of a line may hold what is secret.
            let lines = match self.bad.len() {
                1 => format!("its line {first} is"),
                bad => format!("{bad} of its lines, the first one line {first}, are"),
            };
            self.record.broken = Some(format!(
                "the record of run {} is damaged: {lines} not understood and not considered",
                self.record.id
            ));
        }
        self.record
    }

    /// One line of meta or journal; `None` when it is of no known form. Fields that a later version adds at the end of
    /// a line, and meta lines of another name, are passed over.
    pub(crate) fn take(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["seq", n, ..] => self.record.seq = Some(n.parse().ok()?),
            ["opened", seconds, ..] => self.record.opened = Some(seconds.parse().ok()?),
            ["scope", playbook, inventory, ..] => {
                self.record.scope =
                    ProjectName { playbook: decode_field(playbook)?, inventory: decode_field(inventory)? };
            }
            ["time", time, ..] => (*time).clone_into(&mut self.record.time),
            ["operator", who, ..] => self.record.operator = decode_field(who)?,
            ["inventory", name, ..] => self.record.inventory = decode_field(name)?,
            ["playbook", name, ..] => self.record.playbook = decode_field(name)?,
            ["undoes", id, ..] => self.record.rolls_back.push((*id).to_owned()),
            ["attempts", id, ..] => self.record.attempts = Some((*id).to_owned()),
            ["purpose", "rollback", roles @ ..] => {
                let roles: Option<Vec<String>> = roles.iter().map(|r| decode_field(r)).collect();
                self.record.purpose = RunPurpose::Rollback(roles?);
            }
            ["purpose", "converge", ..] => self.record.purpose = RunPurpose::Converge,
            ["purpose", "undo", ..] => self.record.purpose = RunPurpose::Undo,
            ["planned", address, ..] => self.record.planned.push(decode_field(address)?),
            // The next run has ended it.
            ["close", "cut-off", ..] => self.record.closed = true,
            ["close", ..] => (self.record.finished, self.record.closed) = (true, true),
            [word @ ("disown" | "forget"), kind, key, ..] => {
                let object = ObjectId::new(kind, decode_field(key)?);
                if *word == "forget" {
                    self.record.forgotten.insert(object.clone());
                }
                self.record.disowned.push((self.record.changes.len(), object));
            }
            ["adopt", kind, key, state, item, flags, rest @ ..] => self.record.adopted.push(Adoption {
                object: ObjectId::new(kind, decode_field(key)?),
                state: State::from_line(state),
                item: decode_field(item)?,
                sensitive: flags.split(',').any(|f| f == "sensitive"),
                real_dir: rest.first().and_then(|dir| directory(dir)),
            }),
            ["move", from, to, ..] => {
                let renaming = Renaming { from: decode_field(from)?, to: decode_field(to)? };
                self.record.renamed.push(renaming);
            }
            [what @ ("begin" | "moved"), seq, kind, key, before, after, item, flags, ..] => {
                let outcome = if *what == "moved" { SavedOutcome::Moved } else { SavedOutcome::Unknown };
                let kind = kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some(*kind)?;
                let object = ObjectId::new(kind, decode_field(key)?);
                let states = [State::from_line(before), State::from_line(after)];
                self.begin(seq.parse().ok()?, object, states, decode_field(item)?, flags, outcome)?;
            }
            // A state that came out as planned in part is not the state before: the next rollback goes on with it.
            ["done", seq, line, ..] if self.in_part.contains(&seq.parse().ok()?) => {
                self.end(seq, SavedOutcome::Off, line)?;
            }
            ["done", seq, line, ..] => self.end(seq, SavedOutcome::Done, line)?,
            ["off", seq, line, ..] => self.end(seq, SavedOutcome::Off, line)?,
            ["failed", seq, status, line, ..] => {
                let change = self.change(seq)?;
                if *status == NOT_BEGUN || !is_begun(change, line) {
                    self.end(seq, SavedOutcome::Failed, line)?;
                }
            }
            ["putback", seq, line, ..] => self.end(seq, SavedOutcome::PutBack, line)?,
            ["found", seq, line, ..] => {
                let change = self.change(seq)?;
                change.arrived = change.after.line() == *line;
            }
            ["switch", "acts", why, ..] => self.record.put_back = Some(decode_field(why)?),
            ["back", seq, host, name, ..] => {
                let way = NodeRemoval { host: decode_field(host)?, name: decode_field(name)? };
                self.change(seq)?.node_removal = Some(way);
            }
            ["switch", "done", _, why, ..] => self.record.not_put_back = Some(decode_field(why)?),
            ["guard", seq, by, seconds, ..] => {
                let guard = SavedGuard { by: decode_field(by)?, seconds: seconds.parse().ok()? };
                self.change(seq)?.guard = Some(guard);
            }
            ["owns", seq, role, ..] => self.change(seq)?.owner = Some(decode_field(role)?),
            ["at", seq, dir, ..] => self.change(seq)?.real_dir = directory(dir),
            ["unsaved", seq, why, ..] => self.change(seq)?.no_snapshot = Some(decode_field(why)?),
            // A line of a later version.
            [word, _, ..]
                if word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !KNOWN.contains(word) => {}
            _ => return None,
        }
        Some(())
    }

    /// A change of an object that an item begins, from the one state to the other; lines after it say what became of it.
    fn begin(
        &mut self,
        seq: u32,
        object: ObjectId,
        [before, after]: [State; 2],
        item: String,
        flags: &str,
        outcome: SavedOutcome,
    ) -> Option<()> {
        // Nobody can look at a path that does not begin at the root.
        (object.key.starts_with('/') || !is_at_path(&object.kind)).then_some(())?;
        let has = |flag: &str| flags.split(',').any(|f| f == flag);
        self.places.insert(seq, self.record.changes.len());
        if has(IN_PART) {
            self.in_part.insert(seq);
        }
        self.record.changes.push(SavedChange {
            seq,
            object,
            before,
            goal: after.clone(),
            after,
            real_dir: None,
            item,
            owner: None,
            uid: None,
            sensitive: has("sensitive"),
            no_snapshot: None,
            node_removal: None,
            guard: None,
            parts: Vec::new(),
            owners: None,
            outcome,
            arrived: false,
        });
        Some(())
    }

    fn change(&mut self, seq: &str) -> Option<&mut SavedChange> {
        let place = self.places.get(&seq.parse().ok()?)?;
        self.record.changes.get_mut(*place)
    }

    fn end(&mut self, seq: &str, outcome: SavedOutcome, line: &str) -> Option<()> {
        let change = self.change(seq)?;
        if line.starts_with('!') {
            // The host could not look: whether it happened is not known.
            return Some(());
        }
        change.outcome = outcome;
        change.after = State::from_line(line);
        Some(())
    }
}

/// The status of a step that has refused before it changed anything.
const NOT_BEGUN: &str = "70";

/// Whether a command has failed that can be undone and is as before by its state: it may have done a part of its work, so either state counts as left.
fn is_begun(change: &SavedChange, line: &str) -> bool {
    let Some(object) = converge_objects::object(&change.object.kind) else { return false };
    let forward =
        Change { object: change.object.clone(), from: change.before.clone(), to: change.goal.clone() };
    change.before.line() == line
        && object.action().is_action()
        && !object.action().undoes(&forward)
        && object.reversibility(&forward) == Reversibility::Reversible
}

/// Words of lines that have more fields than a damaged one of theirs.
const KNOWN: &[&str] = &[
    "begin", "moved", "done", "off", "failed", "putback", "back", "guard", "owns", "at", "unsaved", "disown",
    "forget", "move", "adopt", "scope", "purpose",
];

/// The directory of a field. A name that is no UTF-8 cannot be given to the host again.
fn directory(field: &str) -> Option<String> {
    decode_field(field).filter(|dir| encode_field(dir) == field)
}

pub(crate) fn clip(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}
