//! Changes of objects.

mod owners;
mod waits;

use super::{Done, Job, Save, failed, named, shown};
use crate::api::{MERGE, escaped};
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::object::{self, listed, merge_patch};
use crate::observe::{no_key, observed};
use crate::open_run::Left;
use crate::ownership::{self, AGAIN, TRIES};
use crate::records::{Beside, ChangeEnd};
use crate::sealed::{seal, unseal};
use crate::takeover::TakeOverError;
use crate::work::WorkEnd;
use converge_objects::k8s::field_set::FieldSet;
use converge_objects::k8s::fields::{self, Field, Segment, deviating, elsewhere, leaf_differences};
use converge_objects::k8s::{K8sState, normalised};
use converge_resource::{ApiCall, ApiRef, State};
use owners::WriteBack;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Display;
use tokio::time::sleep;

/// Fields that the server fills when an object is made again.
const ASSIGNED: [&str; 8] = [
    ".spec.clusterIP",
    ".spec.clusterIPs",
    ".spec.healthCheckNodePort",
    ".spec.volumeName",
    ".spec.nodeName",
    ".spec.template.metadata.labels",
    ".spec.selector",
    ".metadata.finalizers",
];

/// A change as it was planned.
struct PlannedWrite<'a> {
    wanted: ApiRef,
    /// Both sides; `None` for absent.
    from: Option<Value>,
    to: Option<Value>,
    from_state: K8sState,
    to_state: K8sState,
    /// The fields in which they differ.
    fields: Vec<Field>,
    manifest: Option<(&'a Value, bool)>,
    /// The field manager under whose name it is written.
    manager: &'a str,
    secret: bool,
}

/// The reason why a write did not come about.
enum Miss {
    /// Another client wrote in between.
    Raced,
    End(WorkEnd),
}

impl<'a> PlannedWrite<'a> {
    fn of(job: &Job<'a>, own: &'a str) -> Result<Self, WorkEnd> {
        let change = job.change;
        let refused = |why: &dyn Display| WorkEnd::Refused(format!("{}: {why}", shown(&change.object)));
        let wanted = ApiRef::from_key(&change.object.key).ok_or_else(|| refused(&no_key(&change.object)))?;
        let state = |state: &State| K8sState::try_from(state.clone()).map_err(|e| refused(&e));
        let (from_state, to_state) = (state(&change.from)?, state(&change.to)?);
        let value = |state: &K8sState| match state {
            K8sState::Absent => Ok(None),
            K8sState::Present(digest) => named(job.work, digest)
                .map(Some)
                .ok_or_else(|| refused(&"the plan does not hold the content that it names")),
        };
        let (from, to) = (value(&from_state)?, value(&to_state)?);
        let nothing = json!({});
        let fields = leaf_differences(from.as_ref().unwrap_or(&nothing), to.as_ref().unwrap_or(&nothing));
        let manifest = job.work.calls.iter().find_map(|call| match call {
            ApiCall::Apply { manifest, force } if ApiRef::of(manifest).as_ref() == Some(&wanted) => {
                Some((manifest, *force))
            }
            _ => None,
        });
        let manager = job.work.calls.iter().find_map(|call| match call {
            ApiCall::As { object, manager } if *object == wanted => Some(manager.as_str()),
            _ => None,
        });
        let manager = manager.unwrap_or(own);
        let secret = wanted.kind == "Secret" || job.work.sensitive;
        Ok(Self { wanted, from, to, from_state, to_state, fields, manifest, manager, secret })
    }

    /// The owners of the fields that it changes and of those that the project's own manager had, with all that this one owns.
    fn finds(&self, live: Option<&Value>, had: &FieldSet, own: &str) -> Option<Vec<Value>> {
        let fields = self.to.is_some().then_some(self.fields.as_slice());
        live.map(|live| ownership::found(live, fields, had, own))
    }

    /// The identity and the owners of what it left.
    fn left(&self, live: Option<&Value>, had: &FieldSet, own: &str) -> Left {
        let uid = live.map(|live| object::text(live, "/metadata/uid").to_owned());
        Left { uid, owners: Some(self.finds(live, had, own).unwrap_or_default()) }
    }

    /// Whether the live object is what the change was planned against, but for what a release of the item has set since. The error names the differences.
    fn check(&self, job: &Job<'_>, live: Option<&Value>) -> Result<(), WorkEnd> {
        let refused = |why: String| Err(WorkEnd::Refused(format!("{} {why}", self.wanted.shown())));
        match (live, &self.from) {
            (None, None) => Ok(()),
            (None, Some(_)) => refused("was there when this was planned, and is gone; plan again".to_owned()),
            (Some(_), None) => {
                refused("was not there when this was planned, and is there now; plan again".to_owned())
            }
            (Some(live), Some(from)) => {
                let live = normalised(live);
                if K8sState::of(&live).0 == self.from_state {
                    return Ok(());
                }
                let mut moved = match self.to {
                    // With the whole object everything goes that anybody has put there.
                    None => deviating(&live, &leaf_differences(from, &live), false),
                    Some(_) => elsewhere(&live, &self.fields),
                };
                // A rollback takes a release back before its objects.
                moved.retain(|(path, _, found)| !job.is_laid(&self.wanted, path, found.as_ref()));
                if moved.is_empty() {
                    return Ok(());
                }
                refused(format!(
                    "has changed since this was planned: {}; plan again",
                    listed(&moved, "planned against", self.secret)
                ))
            }
        }
    }

    /// Whether it may be taken away.
    fn may_go(&self, live: &Value, job: &Job<'_>, own: &str) -> Result<(), WorkEnd> {
        let id = &job.change.object;
        let allowed = |named: &String| *named == id.key || *named == id.to_string();
        if job.work.allow_destroy.iter().any(allowed) {
            return Ok(());
        }
        let more = match self.wanted.kind.as_str() {
            "Namespace" => Some("all that is in it would be removed with it"),
            "CustomResourceDefinition" => Some("all objects of its kind would be removed with it"),
            "PersistentVolumeClaim" | "PersistentVolume" => Some("its data may go with it"),
            _ => None,
        };
        let refused = |why: String| {
            Err(WorkEnd::Refused(format!(
                "{} is not deleted: {why}; name it to allow this: --allow-destroy {id}",
                self.wanted.shown()
            )))
        };
        if let Some(more) = more {
            return refused(more.to_owned());
        }
        // A prune and a rollback take away what a run made, also in helm's name; an item that wants an object absent, whatever there is.
        let is_planned = |from: &Value| object::is_of_one_release(from, live);
        let is_of_release = job.work.owner.is_empty() && self.from.as_ref().is_some_and(is_planned);
        object::whose_else(live, own, is_of_release).map_or(Ok(()), refused)
    }

    /// Fields that are not as planned, after the change.
    fn off(&self, live: &Value) -> Vec<(fields::FieldPath, Option<Value>, Option<Value>)> {
        let live = normalised(live);
        if K8sState::of(&live).0 == self.to_state {
            return Vec::new();
        }
        let manifest = self.manifest.map(|(manifest, _)| normalised(manifest));
        let counts = |field: &&Field| match (&self.from, &manifest) {
            // Fields that the server fills by itself on creation are its own affair.
            (None, Some(manifest)) => fields::read(manifest, &field.path).is_some(),
            (None, None) => {
                let path = fields::shown(&field.path);
                !path.contains("nodePort") && !ASSIGNED.iter().any(|assigned| path.starts_with(assigned))
            }
            _ => true,
        };
        let fields: Vec<Field> = match (&self.from, &self.to) {
            // A new object is one difference as a whole: what of it is not as planned is looked for inside.
            (None, Some(to)) => {
                let wanted = |f: Field| Field { path: f.path, before: None, after: f.before };
                leaf_differences(to, &live).into_iter().map(wanted).filter(|f| counts(&f)).collect()
            }
            _ => self.fields.iter().filter(counts).cloned().collect(),
        };
        deviating(&live, &fields, true)
    }
}

impl Cluster {
    /// Brings one object to its planned state.
    pub(super) async fn change_k8s(&self, job: &Job<'_>) -> Result<Done, WorkEnd> {
        let planned = PlannedWrite::of(job, self.manager())?;
        let look =
            |fault: Fault| WorkEnd::Refused(format!("{} cannot be read: {fault}", planned.wanted.shown()));
        let mut seq = None;
        let mut had = FieldSet::default();
        let values = self.values(&planned).await?;
        for _ in 0..TRIES {
            let live = self.inner.api.object(&planned.wanted).await.map_err(look)?;
            let live = match self.ready(job, &planned, live).await {
                Ok(live) => live,
                Err(Miss::Raced) => {
                    sleep(AGAIN).await;
                    continue;
                }
                Err(Miss::End(end)) => {
                    if let Some(number) = seq {
                        // Somebody came in between: the journal says that it began, and nothing was written.
                        self.stopped(job, &planned, &had, number).await?;
                    }
                    return Err(end);
                }
            };
            let before = observed(live.as_ref()).0.state;
            let (saves, no_snapshot) = self.to_save(live.as_ref())?;
            let number = match seq {
                None => self.begin(job, &before, saves, no_snapshot).await?,
                Some(number) => self.begin_again(job, number, &before, saves).await?,
            };
            seq = Some(number);
            had = live.as_ref().map(|live| ownership::fields_of(live, self.manager())).unwrap_or_default();
            self.finds(job, number, planned.finds(live.as_ref(), &had, self.manager())).await?;
            let written = self.write(job, &planned, live.as_ref(), &values).await;
            match written {
                Ok(()) => return self.after_k8s(job, &planned, &had, number).await,
                Err(Miss::Raced) => sleep(AGAIN).await,
                Err(Miss::End(end)) => {
                    self.stopped(job, &planned, &had, number).await?;
                    return Err(end);
                }
            }
        }
        if let Some(number) = seq {
            self.stopped(job, &planned, &had, number).await?;
        }
        Err(failed(format!(
            "{}: other writers kept changing it; it was compared and tried {TRIES} times",
            planned.wanted.shown()
        )))
    }

    /// The object as it is to be written, if the change may be made.
    async fn ready(
        &self,
        job: &Job<'_>,
        planned: &PlannedWrite<'_>,
        live: Option<Value>,
    ) -> Result<Option<Value>, Miss> {
        planned.check(job, live.as_ref()).map_err(Miss::End)?;
        let Some(live) = live else { return Ok(None) };
        if planned.to.is_none() {
            planned.may_go(&live, job, self.manager()).map_err(Miss::End)?;
            self.same(job, planned, &live).await.map_err(Miss::End)?;
        } else if planned.manager == self.manager() {
            return match self.take_over(&planned.wanted, live).await {
                Ok(live) => Ok(Some(live)),
                Err(TakeOverError::Api(fault)) if fault.code() == Some(409) => Err(Miss::Raced),
                Err(error) => Err(Miss::End(failed(format!("{}: {error}", planned.wanted.shown())))),
            };
        }
        Ok(Some(live))
    }

    /// Refuses unless the object that a prune or a rollback removes is the very one that was made, not another one of the same name.
    async fn same(&self, job: &Job<'_>, planned: &PlannedWrite<'_>, live: &Value) -> Result<(), WorkEnd> {
        let slot = self.inner.run.lock().await;
        let made = slot.as_ref().and_then(|open| open.uid(&job.change.object));
        match made {
            Some(made) if job.work.owner.is_empty() && made != object::text(live, "/metadata/uid") => {
                Err(WorkEnd::Refused(format!(
                    "{} is not the object that converge created: that was deleted, and another was created under the same name; it is left alone",
                    planned.wanted.shown()
                )))
            }
            _ => Ok(()),
        }
    }

    /// The part of the present object that is saved.
    fn to_save(&self, live: Option<&Value>) -> Result<(Vec<Save>, Option<String>), WorkEnd> {
        let Some(live) = live else { return Ok((Vec::new(), None)) };
        let (_, content) = K8sState::of(live);
        if live.get("kind").and_then(Value::as_str) != Some("Secret") {
            return Ok((vec![(content, None)], None));
        }
        let values = live.get("data").cloned().unwrap_or_else(|| json!({}));
        let sealed =
            seal(&values, &self.inner.options).map_err(|error| WorkEnd::NotSaved(error.to_string()))?;
        let no_snapshot = sealed.is_none().then(|| {
            "the inventory names no age recipients, so the values of a Secret are not kept".to_owned()
        });
        Ok((vec![(content, sealed.map(Beside::Sealed))], no_snapshot))
    }

    /// The values of a Secret that is to be as it was; null where none are needed.
    async fn values(&self, planned: &PlannedWrite<'_>) -> Result<Value, WorkEnd> {
        let K8sState::Present(digest) = &planned.to_state else { return Ok(Value::Null) };
        let needs = planned.fields.iter().any(|f| f.after.is_some() && is_value(&f.path));
        if planned.wanted.kind != "Secret" || planned.manifest.is_some() || !needs {
            return Ok(Value::Null);
        }
        let refused = |why: &dyn Display| {
            WorkEnd::Refused(format!("{}: its values cannot be restored: {why}", planned.wanted.shown()))
        };
        let stored = self.stored(&BTreeSet::from([digest.clone()])).await.map_err(|e| refused(&e))?;
        match stored.get(digest).and_then(|stored| stored.beside.as_ref()) {
            Some(Beside::Sealed(sealed)) => unseal(sealed, &self.inner.options).map_err(|e| refused(&e)),
            _ => Err(refused(&"they were not saved (no age recipients)")),
        }
    }

    async fn write(
        &self,
        job: &Job<'_>,
        planned: &PlannedWrite<'_>,
        live: Option<&Value>,
        values: &Value,
    ) -> Result<(), Miss> {
        let api = &self.inner.api;
        let shown = planned.wanted.shown();
        let missed = |fault: Fault| match &fault {
            Fault::Reply(reply) if reply.code == 409 && !reply.conflicts().is_empty() => {
                let others: Vec<String> = reply
                    .conflicts()
                    .iter()
                    .map(|(manager, field)| format!("{field} belongs to {manager}"))
                    .collect();
                Miss::End(WorkEnd::Refused(format!(
                    "{shown}: {}; leave these fields to them, or take them with `force_conflicts`",
                    others.join(", ")
                )))
            }
            Fault::Reply(reply) if reply.code == 409 && reply.reason == "Conflict" => Miss::Raced,
            Fault::Reply(reply) if reply.reason == "AlreadyExists" => Miss::Raced,
            _ => Miss::End(failed(format!("{shown}: {fault}"))),
        };
        let path = api.path(&planned.wanted).await.map_err(missed)?;
        let path = path.ok_or_else(|| {
            let ApiRef { api_version, kind, .. } = &planned.wanted;
            Miss::End(failed(format!("{shown}: the API server has no kind {kind} of {api_version}")))
        })?;
        let version = live.map(|live| object::text(live, "/metadata/resourceVersion"));
        match (&planned.to, planned.manifest, live) {
            (None, _, None) => Ok(()),
            (None, _, Some(live)) => {
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": going(&planned.wanted),
                    "preconditions": {"uid": object::text(live, "/metadata/uid"), "resourceVersion": version}});
                api.delete(&path, &options).await.map_err(missed)?;
                self.gone(job, planned, live).await.map_err(Miss::End)
            }
            (Some(_), Some((manifest, force)), _) => {
                let mut manifest = manifest.clone();
                if let (Some(version), Some(metadata)) =
                    (version, manifest.get_mut("metadata").and_then(Value::as_object_mut))
                {
                    metadata.insert("resourceVersion".to_owned(), json!(version));
                }
                let made = ownership::apply(api, &path, &manifest, planned.manager, force, "").await;
                made.map(drop).map_err(missed)
            }
            (Some(to), None, Some(live)) => {
                let fields = real(&planned.fields, values);
                let mut new =
                    fields::with(live, &fields).map_err(|e| Miss::End(failed(format!("{shown}: {e}"))))?;
                fields::drop_emptied(&mut new, &fields, to);
                let mut patch = merge_patch(live, &new);
                if let Some(map) = patch.as_object_mut() {
                    let metadata = map.entry("metadata").or_insert_with(|| json!({}));
                    if let Some(metadata) = metadata.as_object_mut() {
                        metadata.insert("resourceVersion".to_owned(), json!(version));
                    }
                }
                let as_manager = format!("{path}?fieldManager={}", escaped(planned.manager));
                let now = api.patch(&as_manager, MERGE, &patch).await.map_err(missed)?;
                if job.work.owner.is_empty() || job.work.gives_back {
                    let (parts, live) = (job.work.given_back(job.change), Some(live));
                    let back =
                        WriteBack { path: &path, live, made: None, parts: &parts, fields: &fields, to };
                    self.give_back_fields(job, &back, now).await.map_err(Miss::End)?;
                }
                Ok(())
            }
            (Some(to), None, None) => {
                let new = fields::with(to, &real(&planned.fields, values));
                let new = new.map_err(|e| Miss::End(failed(format!("{shown}: {e}"))))?;
                let ApiRef { api_version, kind, namespace, .. } = &planned.wanted;
                let list = api.collection(api_version, kind, namespace.as_deref()).await.map_err(missed)?;
                let list = format!("{}?fieldManager={}", list.unwrap_or_default(), escaped(self.manager()));
                let made = api.post(&list, &new).await.map_err(missed)?;
                if job.work.owner.is_empty() {
                    let made_state = Some(&job.change.to);
                    let back =
                        WriteBack { path: &path, live: None, made: made_state, parts: &[], fields: &[], to };
                    self.give_back_fields(job, &back, made).await.map_err(Miss::End)?;
                }
                Ok(())
            }
        }
    }

    async fn after_k8s(
        &self,
        job: &Job<'_>,
        planned: &PlannedWrite<'_>,
        had: &FieldSet,
        seq: u32,
    ) -> Result<Done, WorkEnd> {
        let shown = planned.wanted.shown();
        let established = self.established(planned).await;
        let live = self.inner.api.object(&planned.wanted).await;
        let live =
            live.map_err(|fault| failed(format!("{shown} was changed, and cannot be read since: {fault}")))?;
        self.saw(&planned.wanted, live.as_ref());
        let off = match (&planned.to, &live) {
            (None, None) => String::new(),
            (None, Some(_)) => format!("{shown} was deleted, and somebody has made it again"),
            (Some(_), None) => format!("{shown} was written, and is gone"),
            (Some(_), Some(live)) => match planned.off(live) {
                off if off.is_empty() => String::new(),
                off => format!("{shown} differs from the plan: {}", listed(&off, "planned", planned.secret)),
            },
        };
        let (found, contents) = observed(live.as_ref());
        let left = planned.left(live.as_ref(), had, self.manager());
        let ended = if off.is_empty() && established.is_ok() { ChangeEnd::Done } else { ChangeEnd::Failed };
        self.end(job, seq, ended, Some((&found.state, &contents)), left).await?;
        established?;
        if off.is_empty() { Ok(Done { after: found.state, contents }) } else { Err(failed(off)) }
    }

    /// Records what a write that did not come about has left.
    async fn stopped(
        &self,
        job: &Job<'_>,
        planned: &PlannedWrite<'_>,
        had: &FieldSet,
        seq: u32,
    ) -> Result<(), WorkEnd> {
        let live = self.inner.api.object(&planned.wanted).await;
        let after = live.as_ref().ok().map(|live| observed(live.as_ref()));
        let live = live.ok().flatten();
        let left = planned.left(live.as_ref(), had, self.manager());
        // The record says that it is unknown when nobody can look, and when the object goes later, without this run.
        let goes = live.as_ref().is_some_and(object::is_being_deleted);
        let Some((found, contents)) = after.filter(|_| !goes) else { return Ok(()) };
        self.end(job, seq, ChangeEnd::Failed, Some((&found.state, &contents)), left).await
    }
}

/// How what stands below an object goes: before it, where there may be something; a plain object need not wait for the collector.
fn going(wanted: &ApiRef) -> &'static str {
    let group = wanted.api_version.split_once('/').map_or("", |(group, _)| group);
    let plain = group.is_empty() || group.ends_with(".k8s.io");
    if plain { "Background" } else { "Foreground" }
}

fn is_value(path: &[Segment]) -> bool {
    matches!(path, [Segment::Key(data), Segment::Key(_)] if data == "data")
}

/// The fields with real values where a Secret's stand as digests.
fn real(planned: &[Field], values: &Value) -> Vec<Field> {
    let one = |field: &Field| match (field.path.as_slice(), &field.after) {
        ([Segment::Key(data), Segment::Key(key)], Some(_)) if data == "data" && !values.is_null() => {
            Field { after: values.get(key).cloned(), ..field.clone() }
        }
        _ => field.clone(),
    };
    planned.iter().map(one).collect()
}
