//! The records of runs, kept in Secrets of the cluster itself: their forms, how they are packed, which ones are dropped. Pure.
//!
//! Namespace [`NAMESPACE`]. A run has the Secret `run-ID` (what it did) and `run-ID-2`, `run-ID-3` … (the states before, by digest).
//! `owned` holds what is managed ([`crate::owned`]). Each Secret holds one value, `record`: JSON with `format`, packed by gzip.

mod owners;
mod retention;

use crate::packed;
use crate::record_error::{Damage, RecordReadError, RecordsError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_executor::RunMeta;
use converge_ledger::{
    ProjectName, Records, Renaming, RunPurpose, RunRecord, SavedChange, SavedOutcome, in_order,
};
use converge_resource::{ChangedPart, Content, Digest, FIELD_MANAGER, ObjectId, State};
use jiff::Timestamp;
use owners::field_owners;
pub(crate) use owners::owners_before;
pub(crate) use retention::{ListedRun, Need, RunStanding, is_full, listed, next_seq, to_drop};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The namespace of all that converge keeps in a cluster.
pub const NAMESPACE: &str = "converge-system";

/// The limit of the packed size of a record's Secret: the server takes 1 MiB.
const LIMIT: usize = 900 << 10;

/// The limit of the unpacked size of a record: a guard against a crafted one.
const UNPACKED: u64 = 256 << 20;

/// The format of the records, but for those of runs.
pub(crate) const FORMAT: u32 = 1;

/// The format of the record of a run. Those of formats 1 and 2 say nothing of owners: their runs wrote into `owned` what they made. Those of
/// format 1 have no number: they come before all that have one.
const RUN_FORMAT: u32 = 5;

/// Label with the run's ID.
pub(crate) const RUN_LABEL: &str = "converge/run";
/// Label with what the Secret is.
pub(crate) const RECORD_LABEL: &str = "converge/record";

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunDoc {
    pub(crate) format: u32,
    pub(crate) id: String,
    /// One more than that of any run before it in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// When it began by the server's clock, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) opened: Option<i64>,
    pub(crate) time: String,
    pub(crate) operator: String,
    pub(crate) inventory: String,
    pub(crate) playbook: String,
    pub(crate) scope: ProjectName,
    /// The field manager under which it wrote. `None` for the plain name, and in records of versions that knew no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manager: Option<String>,
    /// Of a rollback: the roles; empty for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) rolls_back: Vec<String>,
    #[serde(default)]
    pub(crate) planned: Vec<String>,
    #[serde(default)]
    pub(crate) changes: Vec<ChangeDoc>,
    /// The objects that it took out of management, each with the number of changes before that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) disowned: Vec<(usize, ObjectId)>,
    /// Those of them that somebody has forgotten, for rollbacks too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) forgotten: BTreeSet<ObjectId>,
    /// The roles and resources that go by another name since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) renamed: Vec<Renaming>,
    /// Its result; `None` while it is at work, or when it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
}

/// A change of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeDoc {
    pub(crate) seq: u32,
    pub(crate) object: ObjectId,
    pub(crate) before: State,
    pub(crate) after: State,
    pub(crate) item: String,
    /// The role whose own the object becomes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The server's identity of the object that it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// A rollback goes on with the object in a later change: where this one has led it is not where the rollback leads it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_part: bool,
    #[serde(rename = "unsaved", default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_snapshot: Option<String>,
    /// Of a release: whether its role wants helm to wait until everything is ready. `None` where no role says so, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<bool>,
    /// The parts of the object that its item declares and that it changes, or that a prune gives back. Records of older versions say nothing of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<ChangedPart>,
    /// The entries of `metadata.managedFields` that it found: those of the project, and those of others with the fields that it changes. `None` where
    /// the object was not there, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owners: Option<Vec<Value>>,
    /// The same entries as it left them. `None` while it is at work, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owners_left: Option<Vec<Value>>,
    /// In records of older versions: the managers of fields that it has taken from others, by the paths of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) managers: BTreeMap<String, String>,
    /// In records of older versions, of a change that takes an object away: the fields of it that the project's apply owned (`fieldsV1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) applied: Option<Value>,
    /// `None` until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<ChangeEnd>,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChangeEnd {
    /// As planned.
    Done,
    /// It failed.
    Failed,
    /// Foreign code changed the object.
    Moved,
}

impl RunDoc {
    pub(crate) fn of(meta: &RunMeta) -> Self {
        let RunMeta { id, time, operator, inventory, playbook, purpose, scope, rolls_back, planned, .. } =
            meta;
        Self {
            format: RUN_FORMAT,
            id: id.clone(),
            seq: None,
            opened: None,
            time: time.clone(),
            operator: operator.clone(),
            inventory: inventory.clone(),
            playbook: playbook.clone(),
            scope: scope.clone(),
            manager: None,
            rollback: match purpose {
                RunPurpose::Rollback(roles) => Some(roles.clone()),
                RunPurpose::Converge | RunPurpose::Undo => None,
            },
            rolls_back: rolls_back.clone(),
            planned: planned.clone(),
            changes: Vec::new(),
            disowned: Vec::new(),
            forgotten: BTreeSet::new(),
            renamed: Vec::new(),
            result: None,
        }
    }

    /// Whether it wrote into `owned` itself what it made.
    pub(crate) fn is_in_owned(&self) -> bool {
        self.format < 3
    }

    pub(crate) fn record(self) -> RunRecord {
        let manager = self.manager.unwrap_or_else(|| FIELD_MANAGER.to_owned());
        let change = |c: ChangeDoc| SavedChange {
            parts: c.parts,
            owners: field_owners(c.owners, c.owners_left, &manager),
            seq: c.seq,
            object: c.object,
            before: c.before,
            // A record of a cluster names one state after.
            goal: c.after.clone(),
            after: c.after,
            real_dir: None,
            item: c.item,
            owner: c.owner,
            uid: c.uid,
            sensitive: c.sensitive,
            no_snapshot: c.no_snapshot,
            node_removal: None,
            guard: None,
            outcome: match c.outcome {
                None => SavedOutcome::Unknown,
                // The next rollback goes on with it.
                Some(ChangeEnd::Done) if c.in_part => SavedOutcome::Off,
                Some(ChangeEnd::Done) => SavedOutcome::Done,
                Some(ChangeEnd::Failed) => SavedOutcome::Failed,
                Some(ChangeEnd::Moved) => SavedOutcome::Moved,
            },
            arrived: false,
        };
        RunRecord {
            id: self.id,
            seq: self.seq,
            opened: self.opened,
            scope: self.scope,
            time: self.time,
            operator: self.operator,
            inventory: self.inventory,
            playbook: self.playbook,
            purpose: self.rollback.map_or(RunPurpose::Converge, RunPurpose::Rollback),
            planned: self.planned,
            rolls_back: self.rolls_back,
            attempts: None,
            rolled_back_by: None,
            rolled_back_in_part: false,
            changes: self.changes.into_iter().map(change).collect(),
            disowned: self.disowned,
            forgotten: self.forgotten,
            renamed: self.renamed,
            // Objects of a cluster are managed by the fields that an apply takes over.
            adopted: Vec::new(),
            finished: self.result.is_some(),
            closed: self.result.is_some(),
            put_back: None,
            not_put_back: None,
            broken: None,
        }
    }
}

/// All runs, oldest first, and those of them that wrote into `owned` themselves. A record that is damaged does not hide the others; one of a later
/// format does.
pub(crate) fn runs(
    secrets: &[Value],
    now: Timestamp,
) -> Result<(Records, BTreeSet<String>), RecordReadError> {
    let mut records = Records { now: Some(now.as_second()), ..Records::default() };
    let mut in_owned = BTreeSet::new();
    for secret in secrets {
        match unpack::<RunDoc>(secret) {
            Ok(doc) => {
                in_owned.extend(doc.is_in_owned().then(|| doc.id.clone()));
                records.runs.push(doc.record());
            }
            Err(unread @ RecordReadError::Format { .. }) => return Err(unread),
            Err(unread @ RecordReadError::Damaged { .. }) => {
                records.broken.push(format!("{unread}; it is not considered"));
            }
        }
    }
    in_order(&mut records.runs);
    Ok((records, in_owned))
}

/// Whether helm waits for a release that goes to the content `to`, or away: as the role wanted it of the run that left this content, else of the newest
/// run. Records that say nothing of it are of older versions, which always waited.
pub(crate) fn waits(docs: &[RunDoc], release: &ObjectId, to: Option<&Digest>) -> bool {
    let mut docs: Vec<&RunDoc> = docs.iter().collect();
    docs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    let of_it =
        || docs.iter().rev().flat_map(|doc| doc.changes.iter().rev()).filter(|c| c.object == *release);
    let left = |change: &&ChangeDoc| {
        let word = |word: &String| to.is_some_and(|to| word == to.as_str());
        change.after.words().is_ok_and(|words| words.iter().any(word))
    };
    let wishes = of_it().filter(left).chain(of_it());
    wishes.filter_map(|change| change.waits).next().unwrap_or(true)
}

/// A record's formats that this converge reads.
pub(crate) trait Record: DeserializeOwned {
    /// The newest one.
    const NEWEST: u32;
}

impl Record for RunDoc {
    const NEWEST: u32 = RUN_FORMAT;
}

impl Record for ContentsDoc {
    const NEWEST: u32 = FORMAT;
}

/// States before, by digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContentsDoc {
    pub(crate) format: u32,
    pub(crate) contents: BTreeMap<Digest, StoredContent>,
}

/// A content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredContent {
    /// The text whose digest it is; a Secret's values stand in it as digests.
    pub(crate) text: String,
    /// Further data of the object.
    #[serde(flatten)]
    pub(crate) beside: Option<Beside>,
}

/// Data that is needed besides a text to make the object again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Beside {
    /// A Secret's values, or a release that holds Secrets (JSON), encrypted by age, base64.
    Sealed(String),
    /// A release without Secrets, as [`crate::saved_release`] packs it.
    Plain(String),
    /// The text itself, of a sensitive item, and what would stand beside it: encrypted as [`Beside::Sealed`]. The text that stands in the open is empty.
    Whole(String),
}

impl StoredContent {
    pub(crate) fn content(&self) -> Content {
        Content::new(self.text.clone().into_bytes())
    }
}

/// Packs a record.
pub(crate) fn pack<T: Serialize>(record: &T) -> Result<Vec<u8>, RecordsError> {
    packed::pack(record)
}

/// Whether a Secret can hold it.
pub(crate) fn fits(packed: &[u8]) -> bool {
    packed.len() <= LIMIT
}

/// Reads the record of a Secret.
pub(crate) fn unpack<T: Record>(secret: &Value) -> Result<T, RecordReadError> {
    let record = || format!("{NAMESPACE}/{}", crate::object::text(secret, "/metadata/name"));
    let damaged = |damage: Damage| RecordReadError::Damaged { record: record(), damage };
    let value = json_of(secret).map_err(damaged)?;
    match value.get("format").and_then(Value::as_u64) {
        Some(format) if (1..=u64::from(T::NEWEST)).contains(&format) => {}
        Some(found) => return Err(RecordReadError::Format { record: record(), found, newest: T::NEWEST }),
        None => return Err(damaged(Damage::NoFormat)),
    }
    serde_json::from_value(value).map_err(|error| damaged(error.into()))
}

/// The JSON of a Secret's record.
fn json_of(secret: &Value) -> Result<Value, Damage> {
    packed::unpack(crate::object::text(secret, "/data/record"), UNPACKED)
}

/// The Secret for a packed record, as a manifest to apply.
pub(crate) fn secret(
    name: &str,
    what: &str,
    run: Option<&str>,
    packed: &[u8],
    notes: &[(&str, &str)],
) -> Value {
    let mut labels = json!({"app.kubernetes.io/managed-by": FIELD_MANAGER, RECORD_LABEL: what});
    if let (Some(run), Some(labels)) = (run, labels.as_object_mut()) {
        labels.insert(RUN_LABEL.to_owned(), json!(run));
    }
    let mut annotations = json!({"converge/bytes": packed.len().to_string()});
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.extend(notes.iter().map(|(key, value)| (format!("converge/{key}"), json!(value))));
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": format!("converge/{what}"),
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
        "data": {"record": STANDARD.encode(packed)},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(id: &str) -> RunMeta {
        RunMeta { id: id.to_owned(), time: "2026-11-21T00:00:00Z".to_owned(), ..RunMeta::default() }
    }

    #[test]
    fn records_come_back_and_another_format_is_refused() {
        let mut doc = RunDoc::of(&meta("a"));
        doc.changes.push(ChangeDoc {
            seq: 1,
            object: ObjectId::new("k8s", "v1/ConfigMap/n/x"),
            before: State::absent(),
            after: State::from_line("object 1"),
            item: "i".to_owned(),
            owner: Some("r".to_owned()),
            uid: None,
            sensitive: false,
            in_part: false,
            no_snapshot: None,
            waits: None,
            parts: Vec::new(),
            owners: None,
            owners_left: None,
            managers: BTreeMap::new(),
            applied: None,
            outcome: None,
        });
        let packed = pack(&doc).unwrap();
        let secret = secret("run-a", "run", Some("a"), &packed, &[("time", "t")]);
        assert_eq!(unpack::<RunDoc>(&secret).unwrap(), doc);
        let old = RunDoc { format: 1, id: "0".to_owned(), ..doc.clone() };
        let old_secret = super::secret("run-0", "run", Some("0"), &pack(&old).unwrap(), &[]);
        assert_eq!(unpack::<RunDoc>(&old_secret).unwrap(), old, "records of format 1 are read");
        assert_eq!(doc.clone().record().changes[0].outcome, SavedOutcome::Unknown);
        assert!(!doc.clone().record().finished);
        let mut partly = doc.clone();
        partly.changes[0].outcome = Some(ChangeEnd::Done);
        assert_eq!(partly.clone().record().changes[0].outcome, SavedOutcome::Done);
        partly.changes[0].in_part = true;
        assert_eq!(
            partly.record().changes[0].outcome,
            SavedOutcome::Off,
            "the next rollback goes on with it"
        );
        doc.format = 6;
        let later = super::secret("run-a", "run", Some("a"), &pack(&doc).unwrap(), &[]);
        let now = Timestamp::UNIX_EPOCH;
        let unread = runs(&[later], now).unwrap_err();
        assert!(matches!(unread, RecordReadError::Format { found: 6, newest: 5, .. }), "{unread}");
        assert!(unread.to_string().contains("it has format 6, this converge reads 5"), "{unread}");
        let broken = super::secret("run-b", "run", None, b"no gzip", &[]);
        let (read, in_owned) = runs(&[broken, secret, old_secret], now).unwrap();
        assert_eq!(in_owned.len(), 1, "a run of an older format wrote into `owned` itself");
        assert_eq!(read.runs.len(), 2, "the others are read");
        assert!(read.broken[0].contains("converge-system/run-b"), "{:?}", read.broken);
    }

    #[test]
    fn helm_waits_as_the_run_wanted_it_that_left_the_content() {
        let release = ObjectId::new("release", "ns/r");
        let digest = |n: &str| Digest::of(n.as_bytes());
        let run = |seq: u64, n: &str, waits: Option<bool>| {
            let mut doc = RunDoc { seq: Some(seq), ..RunDoc::of(&meta(n)) };
            doc.changes.push(ChangeDoc {
                seq: 1,
                object: release.clone(),
                before: State::absent(),
                after: State::from_line(&format!("release deployed c-1 {}", digest(n))),
                item: "i".to_owned(),
                owner: None,
                uid: None,
                sensitive: false,
                in_part: false,
                no_snapshot: None,
                waits,
                parts: Vec::new(),
                owners: None,
                owners_left: None,
                managers: BTreeMap::new(),
                applied: None,
                outcome: Some(ChangeEnd::Done),
            });
            doc
        };
        let docs = [run(3, "c", None), run(2, "b", Some(true)), run(1, "a", Some(false))];
        assert!(!waits(&docs, &release, Some(&digest("a"))));
        assert!(waits(&docs, &release, Some(&digest("b"))));
        assert!(waits(&docs, &release, None), "as the newest that says so");
        assert!(!waits(&docs[2..], &release, Some(&digest("?"))));
        assert!(waits(&docs[..1], &release, None), "records of older versions do not say so");
        assert!(waits(&docs, &ObjectId::new("release", "ns/s"), None));
    }
}
