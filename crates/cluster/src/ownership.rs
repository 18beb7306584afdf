//! Who owns the fields of an object: the entries of `metadata.managedFields`. Pure, but for the writes.
//!
//! A manager is known by its name and the operation: what an apply and an update of one name own are two entries. Each change that converge makes
//! records the entries that it finds ([`found`]); a revert gives the fields back by these records ([`settled`]).

use crate::api::{APPLY, Api, MERGE, escaped};
use crate::fault::Fault;
use converge_objects::k8s::field_set::FieldSet;
use converge_objects::k8s::fields::{Field, shown};
use converge_objects::k8s::normalised;
use converge_objects::k8s::owners::entries;
pub(crate) use converge_objects::k8s::owners::is_own;
use converge_resource::{ChangedPart, FIELD_MANAGER};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;
use tokio::time::sleep;

/// Comparisons when others write at the same time.
pub(crate) const TRIES: usize = 6;

/// The pause before another try.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// Makes a write, and again a few times where another client has written in between.
///
/// # Errors
/// That of the last try.
pub(crate) async fn retried<E, F: Future<Output = Result<(), E>>>(
    is_raced: impl Fn(&E) -> bool,
    write: impl Fn() -> F,
) -> Result<(), E> {
    let mut tries = 1..TRIES;
    loop {
        match write().await {
            Err(error) if is_raced(&error) && tries.next().is_some() => sleep(AGAIN).await,
            end => return end,
        }
    }
}

/// Applies a manifest on the server under the name of a manager; `more` stands behind the other words of the query: `&dryRun=All`. Fields that an
/// update of that name wrote are no conflict; those of others are.
///
/// # Errors
/// The server's. Where fields belong to others too, it names all of them.
pub(crate) async fn apply(
    api: &Api,
    path: &str,
    manifest: &Value,
    manager: &str,
    force: bool,
    more: &str,
) -> Result<Value, Fault> {
    let with = |force: bool| format!("{path}?fieldManager={}&force={force}{more}", escaped(manager));
    match api.patch(&with(force), APPLY, manifest).await {
        Err(Fault::Reply(reply)) if !force && reply.conflicts_only_with(manager) => {
            api.patch(&with(true), APPLY, manifest).await
        }
        result => result,
    }
}

/// Writes who owns the fields of an object, if it is still the one that was observed.
pub(crate) async fn set_managers(
    api: &Api,
    path: &str,
    observed: &Value,
    managers: &[Value],
    manager: &str,
) -> Result<Value, Fault> {
    let version = observed.pointer("/metadata/resourceVersion");
    // The server takes an empty list for one that its writer did not know.
    let managers = if managers.is_empty() { json!([{}]) } else { json!(managers) };
    let patch = json!({"metadata": {"managedFields": managers, "resourceVersion": version}});
    api.patch(&format!("{path}?fieldManager={}", escaped(manager)), MERGE, &patch).await
}

/// The annotation in the placeholder entry; no object has it.
const NOTHING: &str = "f:converge/nobody";

/// The server takes an object without any manager for one that was made before managers were known, and gives all of its fields to this one at the next
/// apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// `metadata.managedFields` without the entries of some managers; `None` where they have none. Where nobody else has any, an entry without a field of the
/// object stays: else the server assigns all fields to a default manager at the next apply.
pub(crate) fn without(live: &Value, is_own: &dyn Fn(&str) -> bool) -> Option<Vec<Value>> {
    let is_own = |entry: &&Value| entry.get("manager").and_then(Value::as_str).is_some_and(is_own);
    let (own, mut others): (Vec<&Value>, Vec<&Value>) = entries(live).partition(is_own);
    if own.is_empty() {
        return None;
    }
    let fields = json!({"f:metadata": {"f:annotations": {NOTHING: {}}}});
    let nobody = json!({"manager": BEFORE_FIRST_APPLY, "operation": "Update", "apiVersion": live.get("apiVersion"), "fieldsType": "FieldsV1", "fieldsV1": fields});
    if others.is_empty() {
        others.push(&nobody);
    }
    Some(others.into_iter().cloned().collect())
}

/// Whether fields of an object have the plain name as manager, which was that of all projects once.
pub(crate) fn has_plain(object: &Value) -> bool {
    entries(object).any(|entry| is_of(entry, FIELD_MANAGER))
}

/// Gives the fields of the plain name to this manager. The object as it is then.
pub(crate) async fn rename_plain(api: &Api, path: &str, live: &Value, manager: &str) -> Result<Value, Fault> {
    set_managers(api, path, live, &renamed(live, manager), manager).await
}

/// `metadata.managedFields` in which the fields of the plain name are this manager's.
fn renamed(object: &Value, manager: &str) -> Vec<Value> {
    let (plain, mut all): (Vec<Value>, Vec<Value>) =
        entries(object).cloned().partition(|entry| is_of(entry, FIELD_MANAGER));
    plain.into_iter().for_each(|entry| add(&mut all, under(entry, manager)));
    all
}

/// The entries that a change of an object finds, or leaves: those of this manager, and those of others as far as they have one of the changed fields or one
/// that was this manager's before (`had`), or have any where the object goes (`None`).
pub(crate) fn found(live: &Value, fields: Option<&[Field]>, had: &FieldSet, manager: &str) -> Vec<Value> {
    let all = all(live);
    let taken = |entry: &Value| -> Option<Value> {
        let Some(fields) = fields.filter(|_| !is_of(entry, manager)) else { return Some(entry.clone()) };
        let set = FieldSet::of(entry);
        let touched = fields.iter().map(|field| set.touching(&field.path, live, &all));
        with(entry, &touched.chain([set.and(had)]).collect())
    };
    let is_main_entry = |entry: &&Value| entry.get("subresource").and_then(Value::as_str) != Some("status");
    entries(live).filter(is_main_entry).filter_map(taken).collect()
}

/// The fields that a manager owns of an object.
pub(crate) fn fields_of(live: &Value, manager: &str) -> FieldSet {
    entries(live).filter(|entry| is_own(entry, manager)).map(FieldSet::of).collect()
}

/// The entries of this manager, without its fields in these parts.
pub(crate) fn own_without(live: &Value, parts: &[ChangedPart], manager: &str) -> Vec<Value> {
    let all = all(live);
    let less = |entry: &Value| {
        let set = FieldSet::of(entry);
        let gone = parts.iter().map(|part| set.touching(&part.path, live, &all)).collect();
        with(entry, &set.without(&gone))
    };
    entries(live).filter(|entry| is_own(entry, manager)).filter_map(less).collect()
}

/// The entries of an object that an apply of this manager, or of the plain name, made.
pub(crate) fn applied(object: &Value, manager: &str) -> Vec<Value> {
    let counts = |entry: &&Value| {
        operation(entry) == Some("Apply") && (is_own(entry, manager) || is_own(entry, FIELD_MANAGER))
    };
    entries(object).filter(counts).cloned().collect()
}

/// The fields that an apply gives up: this manager had applied them (`before`), and the object that the apply makes still has them, owned by other managers or by none.
/// Each with its managers.
pub(crate) fn given_up(before: &[Value], made: &Value, manager: &str) -> Vec<Value> {
    let had = before.iter().filter(|entry| is_own(entry, manager)).map(FieldSet::of);
    let lost = had.collect::<FieldSet>().without(&owned(made, "Apply", manager));
    let of = |set: &FieldSet| -> BTreeSet<&str> {
        let holds = |entry: &&Value| !is_of(entry, manager) && !FieldSet::of(entry).and(set).is_empty();
        entries(made).filter(holds).filter_map(|entry| entry.get("manager")?.as_str()).collect()
    };
    let lost = lost.present(made).outermost();
    lost.into_iter().map(|(field, set)| json!({"field": field, "managers": of(&set)})).collect()
}

/// The owners of the fields of an object before some changes, as these have recorded them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners {
    /// The entries of the project that the first of the changes found; `None` where it did not record them.
    pub(crate) own: Option<Vec<Value>>,
    /// Those of others, with the fields that the changes took from them.
    pub(crate) others: Vec<Value>,
    /// The fields that the changes took from others, as far as they have recorded what they left.
    pub(crate) taken: FieldSet,
    /// The entries of others with the fields that the changes gave to them, as far as they have recorded what they left.
    pub(crate) given: Vec<Value>,
    /// Of records of older versions: the managers of fields that were taken, by the paths of these.
    pub(crate) by_path: BTreeMap<String, String>,
    /// Of records of older versions: the fields that the project's apply owned of an object that went.
    pub(crate) applied: Option<Value>,
}

impl Owners {
    /// Adds the entries of others that a change has found: what an earlier one says of a field counts.
    pub(crate) fn then(&mut self, others: &[Value]) {
        let known = self.others.iter().chain(self.own.iter().flatten());
        let known: FieldSet = known.map(FieldSet::of).collect();
        for entry in others {
            if let Some(entry) = with(entry, &FieldSet::of(entry).without(&known)) {
                add(&mut self.others, entry);
            }
        }
    }

    /// Adds what a change gave to others: what they have with `left`, had not with `found`, and had not before all of the changes. What it took from them is
    /// not given any more.
    pub(crate) fn give(&mut self, found: &[Value], left: &[Value]) {
        let of = |all: &[Value], entry: &Value| -> FieldSet {
            all.iter().filter(|one| identity(one) == identity(entry)).map(FieldSet::of).collect()
        };
        let stays = |entry: Value| {
            let taken = of(found, &entry).without(&of(left, &entry));
            with(&entry, &FieldSet::of(&entry).without(&taken))
        };
        self.given = std::mem::take(&mut self.given).into_iter().filter_map(stays).collect();
        for entry in left {
            let had = of(found, entry).or(&of(&self.others, entry));
            if let Some(entry) = with(entry, &FieldSet::of(entry).without(&had)) {
                add(&mut self.given, entry);
            }
        }
    }
}

/// Fields of an object that were written back.
pub(crate) struct Written<'a> {
    /// The object before it was written; `None` where it was not there.
    pub(crate) live: Option<&'a Value>,
    /// The fields.
    pub(crate) fields: &'a [Field],
    /// The object as it was before the changes that are taken back, where it is known.
    pub(crate) before: Option<&'a Value>,
}

/// `metadata.managedFields` after changes were reverted: written fields get their previous owners, and the project keeps no field that it did not own
/// before; fields that the changes gave to others and that the project owns again are taken from those. `None` where it is so already.
pub(crate) fn settled(
    now: &Value,
    written: &Written<'_>,
    owners: &Owners,
    manager: &str,
) -> Option<Vec<Value>> {
    let recorded = owners.own.iter().flatten().chain(&owners.others);
    let every = recorded.map(FieldSet::of).fold(all(now), |all, one| all.or(&one));
    let updated = owned(now, "Update", manager);
    let fresh = updated.without(&written.live.map(|live| owned(live, "Update", manager)).unwrap_or_default());
    let of = |field: &Field| updated.touching(&field.path, now, &every);
    let back = written.fields.iter().map(of).fold(fresh, |all, one| all.or(&one));
    let live = normalised(now);
    // Another writer has already restored the previous value under the project's name.
    let as_before = written.before.map(|before| owners.taken.same(before, &live, &every)).unwrap_or_default();
    let back = back.or(&as_before.and(&fields_of(now, manager)));
    let (own_now, mut settled): (Vec<Value>, Vec<Value>) =
        entries(now).cloned().partition(|entry| is_own(entry, manager));
    for entry in &owners.others {
        if let Some(entry) = with(entry, &FieldSet::of(entry).and(&back)) {
            add(&mut settled, entry);
        }
    }
    let mut theirs = FieldSet::default();
    for field in written.fields {
        if let Some(by) = owners.by_path.get(&shown(&field.path)) {
            let set = of(field);
            settled_by_path(&mut settled, now, by, &set);
            theirs = theirs.or(&set);
        }
    }
    let earlier = || unrecorded(now, written.live, owners, &back.without(&theirs), manager);
    for entry in owners.own.clone().unwrap_or_else(earlier) {
        let set = FieldSet::of(&entry);
        let is = |e: &&Value| operation(e) == operation(&entry);
        let held = own_now.iter().filter(is).map(FieldSet::of).fold(back.clone(), |all, one| all.or(&one));
        let same = written.before.map(|before| set.same(before, &live, &every)).unwrap_or_default();
        if let Some(entry) = with(&entry, &set.and(&held.or(&same))) {
            add(&mut settled, entry);
        }
    }
    let again: FieldSet = settled.iter().filter(|entry| is_own(entry, manager)).map(FieldSet::of).collect();
    let keeps = |entry: Value| {
        let given = owners.given.iter().filter(|given| identity(given) == identity(&entry));
        let taken: FieldSet = given.map(|given| FieldSet::of(given).and(&again)).collect();
        if taken.is_empty() { Some(entry) } else { with(&entry, &FieldSet::of(&entry).without(&taken)) }
    };
    let settled: Vec<Value> = settled.into_iter().filter_map(keeps).collect();
    (by_identity(settled.iter()) != by_identity(entries(now))).then_some(settled)
}

fn settled_by_path(settled: &mut Vec<Value>, now: &Value, by: &str, set: &FieldSet) {
    if !set.is_empty() {
        let version = now.get("apiVersion");
        add(
            settled,
            json!({"manager": by, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": set.value()}),
        );
    }
}

/// The project's entries before changes whose records do not contain them: restored fields are credited to its apply, if that owned anything.
fn unrecorded(
    now: &Value,
    live: Option<&Value>,
    owners: &Owners,
    back: &FieldSet,
    manager: &str,
) -> Vec<Value> {
    let (applied, updated) = (owned(now, "Apply", manager), owned(now, "Update", manager));
    let had = live.is_some_and(|live| !owned(live, "Apply", manager).is_empty());
    let given = match &owners.applied {
        Some(fields) => FieldSet::of(&json!({"fieldsV1": fields})).and(back),
        None if had => back.clone(),
        None => FieldSet::default(),
    };
    let entry = |operation: &str, set: FieldSet| {
        let entry = json!({"manager": manager, "operation": operation, "apiVersion": now.get("apiVersion"), "fieldsType": "FieldsV1"});
        with(&entry, &set)
    };
    let rest =
        updated.and(back).without(&given).or(&live.map(|l| owned(l, "Update", manager)).unwrap_or_default());
    [entry("Apply", applied.or(&given)), entry("Update", rest.without(&given))]
        .into_iter()
        .flatten()
        .collect()
}

fn all(object: &Value) -> FieldSet {
    entries(object).map(FieldSet::of).collect()
}

fn is_of(entry: &Value, manager: &str) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(manager)
}

fn operation(entry: &Value) -> Option<&str> {
    entry.get("operation").and_then(Value::as_str)
}

/// The fields that an operation of this manager owns.
fn owned(object: &Value, by: &str, manager: &str) -> FieldSet {
    let own = entries(object).filter(|e| is_own(e, manager) && operation(e) == Some(by));
    own.map(FieldSet::of).collect()
}

/// An entry with these fields; `None` without any.
fn with(entry: &Value, set: &FieldSet) -> Option<Value> {
    (!set.is_empty()).then(|| {
        let mut entry = entry.clone();
        entry["fieldsV1"] = set.value();
        entry
    })
}

/// The same entry under another name.
pub(crate) fn under(mut entry: Value, manager: &str) -> Value {
    entry["manager"] = json!(manager);
    entry
}

/// The identity of an entry on the server.
fn identity(entry: &Value) -> String {
    let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    ["manager", "operation", "apiVersion", "subresource"].map(word).join(" ")
}

/// Lays an entry into that of the same identity, if there is one.
fn add(all: &mut Vec<Value>, entry: Value) {
    match all.iter_mut().find(|there| identity(there) == identity(&entry)) {
        Some(there) => there["fieldsV1"] = FieldSet::of(there).or(&FieldSet::of(&entry)).value(),
        None => all.push(entry),
    }
}

fn by_identity<'a>(entries: impl Iterator<Item = &'a Value>) -> BTreeMap<String, FieldSet> {
    entries.map(|entry| (identity(entry), FieldSet::of(entry))).collect()
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
