//! The runs that a host has recorded.

use super::RunPurpose;
use converge_resource::{ObjectId, State, WayBack, decode_field};
use std::collections::BTreeMap;

/// One run on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Its ID; IDs sort by time.
    pub id: String,
    /// When it began, as the controller wrote it: `2026-11-21T04:05:06Z`.
    pub time: String,
    /// Who ran it.
    pub operator: String,
    /// The inventory, as the operator named it.
    pub inventory: String,
    /// The playbook, as the operator named it.
    pub playbook: String,
    /// What it was for.
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
    /// What it changed, in order.
    pub changes: Vec<SavedChange>,
    /// False when it was cut off: what it left open is unknown.
    pub finished: bool,
    /// Why its guarded change was put back on the host, when it was.
    pub put_back: Option<String>,
}

/// One change of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedChange {
    /// Its number in the run.
    pub seq: u32,
    /// What was changed.
    pub object: ObjectId,
    /// The state before.
    pub before: State,
    /// The state that the run left; while it is unknown, the planned one.
    pub after: State,
    /// The address of the item.
    pub item: String,
    /// True when the item was declared sensitive.
    pub sensitive: bool,
    /// Why the state before was not kept, when it was not.
    pub unsaved: Option<String>,
    /// What a rollback needs besides the states.
    pub way_back: Option<WayBack>,
    /// How it ended.
    pub outcome: SavedOutcome,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedOutcome {
    /// As planned.
    Done,
    /// Otherwise than planned.
    Off,
    /// A step failed; `after` is what it left.
    Failed,
    /// Foreign code moved the object.
    Moved,
    /// It was guarded and not confirmed: the host has put it back by itself.
    PutBack,
    /// The run was cut off in the middle: it may or may not have happened.
    Unknown,
}

impl SavedChange {
    /// False only when the object is known to be as it was.
    pub fn may_have_happened(&self) -> bool {
        self.outcome == SavedOutcome::Unknown || self.before != self.after
    }
}

/// Records that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the records on the host are not understood: {0}")]
pub struct RecordError(pub String);

/// The format of the records. The host's functions print it for format 1 too.
pub const FORMAT: &str = "2";

/// Whether this converge reads records of a format.
pub fn reads_format(version: &str) -> bool {
    [FORMAT, "1"].contains(&version)
}

/// Reads the output of [`super::list_script`]: all runs, oldest first.
///
/// # Errors
/// Another format, or lines that no converge writes.
pub fn parse_records(output: &str) -> Result<Vec<RunRecord>, RecordError> {
    let mut runs: Vec<Reader> = Vec::new();
    // A line without its end was cut off while it was written (power, full disk): it counts as not written.
    for (n, line) in output.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        match (fields.as_slice(), runs.last_mut()) {
            (["converge", FORMAT], _) => {}
            (["converge", other], _) => {
                return Err(RecordError(format!("they have format {other}, this converge reads {FORMAT}")));
            }
            (["run", id], _) => runs.push(Reader::new(id)),
            (_, None) => return Err(RecordError(format!("line {}: {}", n + 1, clip(line)))),
            (fields, Some(run)) => {
                run.take(fields).ok_or_else(|| RecordError(format!("line {}: {}", n + 1, clip(line))))?;
            }
        }
    }
    let mut records: Vec<RunRecord> = runs.into_iter().map(|r| r.record).collect();
    mark_rolled_back(&mut records);
    Ok(records)
}

/// Puts runs in order, oldest first, and notes which later run rolled each of them back, or tried to.
pub fn mark_rolled_back(records: &mut [RunRecord]) {
    records.sort_by(|a, b| a.id.cmp(&b.id));
    for at in 0..records.len() {
        let by = undone_by(records, at);
        let whole = by.iter().find(|by| is_whole(by)).map(|by| by.id.clone());
        let in_part = !by.is_empty() && whole.is_none();
        if let Some(record) = records.get_mut(at) {
            record.rolled_back_in_part = in_part;
            record.rolled_back_by = whole;
        }
    }
}

/// Whether a rollback has undone all that it set out to: what was refused, has failed or was cut off can still be undone.
fn is_whole(record: &RunRecord) -> bool {
    let done = |c: &SavedChange| matches!(c.outcome, SavedOutcome::Done | SavedOutcome::Moved);
    let begun = |address: &String| record.changes.iter().any(|c| c.item == *address);
    record.finished && record.changes.iter().all(done) && record.planned.iter().all(begun)
}

/// The runs that undid the one at this place, or a part of it, and still count. Only later runs can undo, so this ends.
fn undone_by(records: &[RunRecord], at: usize) -> Vec<&RunRecord> {
    let Some(id) = records.get(at).map(|r| &r.id) else { return Vec::new() };
    let later = records.iter().enumerate().skip(at + 1).filter(|(_, r)| r.rolls_back.contains(id));
    later.filter(|(n, _)| undone_by(records, *n).is_empty()).map(|(_, r)| r).collect()
}

pub(super) struct Reader {
    pub(super) record: RunRecord,
    places: BTreeMap<u32, usize>,
}

impl Reader {
    pub(super) fn new(id: &str) -> Self {
        Self { record: RunRecord { id: id.to_owned(), ..RunRecord::default() }, places: BTreeMap::new() }
    }

    /// One line of meta or journal; `None` when it is of no known form. Fields that a later version adds at the end of
    /// a line, and meta lines of another name, are passed over.
    pub(super) fn take(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
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
            ["purpose", "undo", ..] => self.record.purpose = RunPurpose::Undo,
            ["planned", address, ..] => self.record.planned.push(decode_field(address)?),
            // The next run has ended it.
            ["close", "cut-off", ..] => {}
            ["close", ..] => self.record.finished = true,
            [what @ ("begin" | "moved"), seq, kind, key, before, after, item, flags, ..] => {
                let seq = seq.parse().ok()?;
                self.places.insert(seq, self.record.changes.len());
                self.record.changes.push(SavedChange {
                    seq,
                    object: ObjectId::new(kind, decode_field(key)?),
                    before: State::from_line(before),
                    after: State::from_line(after),
                    item: decode_field(item)?,
                    sensitive: flags.split(',').any(|f| f == "sensitive"),
                    unsaved: None,
                    way_back: None,
                    outcome: if *what == "moved" { SavedOutcome::Moved } else { SavedOutcome::Unknown },
                });
            }
            ["done", seq, line, ..] => self.end(seq, SavedOutcome::Done, line)?,
            ["off", seq, line, ..] => self.end(seq, SavedOutcome::Off, line)?,
            ["failed", seq, _, line, ..] => self.end(seq, SavedOutcome::Failed, line)?,
            ["putback", seq, line, ..] => self.end(seq, SavedOutcome::PutBack, line)?,
            ["switch", "acts", why, ..] => self.record.put_back = Some(decode_field(why)?),
            ["back", seq, host, name, ..] => {
                let way = WayBack { host: decode_field(host)?, name: decode_field(name)? };
                self.change(seq)?.way_back = Some(way);
            }
            ["unsaved", seq, why, ..] => self.change(seq)?.unsaved = Some(decode_field(why)?),
            [_, _, ..] => {}
            _ => return None,
        }
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

pub(super) fn clip(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}
