//! Releases in a rollback: fields of their objects that belong to others stay with these, as in an upgrade, and those that a patch in force has taken away
//! stay away.

mod brought;
mod given;
mod held;
mod taken;
mod unset;
mod upgraded;

use crate::TargetError;
use crate::connect::target::Target;
pub(crate) use brought::{brought_back, members_notes};
use converge_objects::k8s::fields::{self, Field};
use converge_objects::k8s::from_text;
use converge_objects::release::{self, ReleaseState};
use converge_objects::{is_of_api, release_of};
use converge_planner::{HostPlan, Item, Knowledge, Outcome, VirtualHost};
use converge_resource::{
    Answer, ApiCall, ApiProbe, ApiRef, Change, Digest, ObjectId, PreservedField, Probe, ReleaseSpec, Stop,
};
use converge_resources::{InstalledRelease, ReleaseDrift, Their};
pub(crate) use held::{goes_by, held_by, leave_those_that_hold_others, name_what_goes_along};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use taken::{dropped_with, go_with_their_release, goes_with, taken_with, takes_others};
pub(crate) use unset::RetainedChanges;
pub(crate) use upgraded::follow_upgrades;

/// Rounds of questions about one release.
const ROUNDS: usize = 3;

/// The reason why it is not known what of a release belongs to others.
#[derive(Debug, thiserror::Error)]
enum NotKnown {
    /// The look at it stopped: its words.
    #[error("{0}")]
    Stopped(String),
    #[error("another question must be answered first")]
    First,
    #[error("helm requests ever more objects of the server")]
    Endless,
}

/// The reverts of earlier items of the plan: the fields and the object as it will be; `None` for one that goes.
type Undone = BTreeMap<ObjectId, Option<(Vec<Field>, Value)>>;

/// Plans what releases of a rollback leave to others, and what they leave away.
pub(crate) async fn releases_back(
    target: &Target,
    plan: &mut HostPlan,
    retained: &RetainedChanges,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let mut undone = Undone::new();
    for item in &mut plan.items {
        let Outcome::Changed(changes) = &item.outcome else { continue };
        let changes: Vec<Change> = changes.iter().map(|c| c.change.clone()).collect();
        for change in &changes {
            if is_of_api(&change.object) {
                undone.insert(change.object.clone(), as_it_will_be(change, known));
            }
            back(target, item, change, (&undone, retained), known).await?;
        }
    }
    Ok(())
}

fn as_it_will_be(change: &Change, known: &Knowledge) -> Option<(Vec<Field>, Value)> {
    let object = converge_objects::object(&change.object.kind)?;
    let read = |state| from_text(known.content(&object.content(state)?)?);
    let (from, to) = (read(&change.from)?, read(&change.to)?);
    Some((fields::differences(&from, &to), to))
}

/// Plans one release back; nothing of another object.
async fn back(
    target: &Target,
    item: &mut Item,
    change: &Change,
    (undone, retained): (&Undone, &RetainedChanges),
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let state = |state: &converge_resource::State| ReleaseState::try_from(state.clone()).ok();
    let Some((namespace, name)) = release_of(&change.object) else { return Ok(()) };
    let to = state(&change.to);
    if to == Some(ReleaseState::Absent) {
        item.notes.extend(namespace_stays(target, namespace, known).await?);
        item.notes.extend(definitions_stay(target, namespace, name, known).await?);
    }
    let Some(ReleaseState::Installed { digest, .. }) = to else { return Ok(()) };
    let Some(content) = known.content(&digest).cloned() else { return Ok(()) };
    let Some(manifests) = release::manifests_of(&content) else { return Ok(()) };
    let unset = stays_unset(target, namespace, &manifests, retained, known).await?;
    if !unset.is_empty() {
        item.notes.extend(unset.iter().map(|field| {
            format!(
                "{}: {} stays unset, as a run that is not reverted has left it",
                field.object.shown(),
                fields::shown(&field.path)
            )
        }));
        item.calls.push(saved(name, namespace, &digest, Vec::new(), unset.clone()));
    }
    let Some(ReleaseState::Installed { digest: now, .. }) = state(&change.from) else { return Ok(()) };
    let installed = known.content(&now).and_then(release::manifests_of).unwrap_or_default();
    let mut drift = match drift(target, InstalledRelease { name, namespace, force: false }, &manifests, known)
        .await?
    {
        Ok(drift) => drift,
        Err(why) => {
            item.notes
                .push(format!("the fields of other managers cannot be read ({why}): helm overwrites them"));
            return Ok(());
        }
    };
    drift.theirs.retain_mut(|their| stays_theirs(their, undone, &installed, namespace));
    let is_new = |given: &Their| {
        !drift.theirs.iter().any(|their| their.object == given.object && their.field.path == given.field.path)
    };
    let mut given = given::given_back(undone, &manifests, namespace, retained);
    given.retain(is_new);
    drift.theirs.extend(given);
    let keep = drift.keep(namespace, &manifests);
    if keep.is_empty() {
        item.notes.extend(revision_of(target, namespace, name, &digest, known).await?);
        return Ok(());
    }
    item.notes.extend(drift.notes());
    item.calls.retain(|call| !is_of(call, name, namespace));
    item.calls.push(saved(name, namespace, &digest, keep, unset));
    Ok(())
}

/// A release as it was, with fields of others in it and without those that stay unset.
fn saved(
    name: &str,
    namespace: &str,
    digest: &Digest,
    keep: Vec<PreservedField>,
    unset: Vec<PreservedField>,
) -> ApiCall {
    ApiCall::Release(Box::new(ReleaseSpec { keep, unset, ..ReleaseSpec::saved(namespace, name, digest) }))
}

fn is_of(call: &ApiCall, name: &str, namespace: &str) -> bool {
    matches!(call, ApiCall::Release(spec) if spec.name == name && spec.namespace == namespace)
}

/// The fields of these manifests that stay unset.
async fn stays_unset(
    target: &Target,
    namespace: &str,
    manifests: &[Value],
    retained: &RetainedChanges,
    known: &mut Knowledge,
) -> Result<Vec<PreservedField>, TargetError> {
    let object = |manifest: &Value| {
        let named = ApiRef::of(manifest)?;
        let placed = ApiRef { namespace: Some(namespace.to_owned()), ..named.clone() };
        [named, placed].into_iter().find(|o| retained.has(&o.object()) && release::is(manifest, o, namespace))
    };
    // No value of a Secret is known.
    let known_values = manifests.iter().filter(|m| m.get("kind").and_then(Value::as_str) != Some("Secret"));
    let touched: Vec<(ApiRef, &Value)> = known_values.filter_map(|m| Some((object(m)?, m))).collect();
    retained.learn(&touched.iter().map(|(object, _)| object.object()).collect(), target, known).await?;
    let probe = |object: &ApiRef| Probe::Api(ApiProbe::Get(object.clone()));
    target.look(&touched.iter().map(|(object, _)| probe(object)).collect(), known).await?;
    let unset = touched.into_iter().flat_map(|(object, manifest)| {
        let paths = match known.answer(&probe(&object)) {
            Some(Answer::Api(live)) => retained.unset(&object.object(), manifest, live, known),
            _ => Vec::new(),
        };
        paths.into_iter().map(move |path| PreservedField { object: object.clone(), path })
    });
    Ok(unset.collect())
}

/// Says that the namespace stays, where helm has made it for a release (`create_namespace`) that goes.
async fn namespace_stays(
    target: &Target,
    namespace: &str,
    known: &mut Knowledge,
) -> Result<Option<String>, TargetError> {
    let Some(object) = ApiRef::from_key(&format!("v1/Namespace/{namespace}")) else { return Ok(None) };
    let probe = Probe::Api(ApiProbe::Get(object));
    target.look(&BTreeSet::from([probe.clone()]), known).await?;
    let Some(Answer::Api(live)) = known.answer(&probe) else { return Ok(None) };
    let by_helm = |entry: &Value| entry.get("manager").and_then(Value::as_str) == Some("helm");
    let made = converge_objects::k8s::owners::entries(live).any(by_helm);
    Ok(made.then(|| format!("the namespace {namespace}, which helm made, stays")))
}

/// Says which definitions of kinds stay that came with the chart of a release that goes.
async fn definitions_stay(
    target: &Target,
    namespace: &str,
    name: &str,
    known: &mut Knowledge,
) -> Result<Option<String>, TargetError> {
    let revisions = revisions(target, namespace, name, known).await?;
    let names = revisions.first().and_then(|r| r.get("definitions")?.as_array());
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    let text = || format!("the definitions of kinds that came with its chart stay: {}", names.join(", "));
    Ok((!names.is_empty()).then(text))
}

/// The revisions of a release, newest first.
async fn revisions(
    target: &Target,
    namespace: &str,
    name: &str,
    known: &mut Knowledge,
) -> Result<Vec<Value>, TargetError> {
    let probe = Probe::Api(ApiProbe::Release { namespace: namespace.to_owned(), name: name.to_owned() });
    target.look(&BTreeSet::from([probe.clone()]), known).await?;
    let Some(Answer::Api(revisions)) = known.answer(&probe) else { return Ok(Vec::new()) };
    Ok(revisions.as_array().cloned().unwrap_or_default())
}

/// Says to which revision helm goes back.
async fn revision_of(
    target: &Target,
    namespace: &str,
    name: &str,
    digest: &Digest,
    known: &mut Knowledge,
) -> Result<Option<String>, TargetError> {
    let revisions = revisions(target, namespace, name, known).await?;
    let number = release::revision_of(&revisions, digest).and_then(|r| r.get("revision"));
    Ok(number.map(|number| format!("goes back to revision {number}, which was in force")))
}

/// Where the manifests differ from what is live.
async fn drift(
    target: &Target,
    release: InstalledRelease<'_>,
    manifests: &[Value],
    known: &mut Knowledge,
) -> Result<Result<ReleaseDrift, NotKnown>, TargetError> {
    for _ in 0..ROUNDS {
        let found = release.drift(&VirtualHost::new(known), manifests);
        match found {
            Ok(drift) => return Ok(Ok(drift)),
            Err(Stop::Ask(probes)) => target.look(&probes.into_iter().collect(), known).await?,
            Err(Stop::Failed(why) | Stop::Invalid { message: why, .. }) => {
                return Ok(Err(NotKnown::Stopped(why)));
            }
            Err(Stop::Deferred(wait)) => return Ok(Err(NotKnown::Stopped(wait.reason))),
            Err(Stop::First(_)) => return Ok(Err(NotKnown::First)),
        }
    }
    Ok(Err(NotKnown::Endless))
}

/// Whether a field is still another's when the release's turn comes. What an earlier item reverts to what the release itself has made of
/// it is the release's own again.
fn stays_theirs(their: &mut Their, undone: &Undone, installed: &[Value], namespace: &str) -> bool {
    let Some(undone) = undone.get(&their.object.object()) else { return true };
    let Some((fields, then)) = undone else { return false };
    if !fields.iter().any(|field| fields::touch(&field.path, &their.field.path)) {
        return true;
    }
    let then = fields::read(then, &their.field.path);
    let made = installed.iter().find(|m| release::is(m, &their.object, namespace));
    if then.is_none() || then == made.and_then(|m| fields::read(m, &their.field.path)) {
        return false;
    }
    their.field.before = then.cloned();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_objects::k8s::fields::Segment;
    use serde_json::json;

    fn key(name: &str) -> Segment {
        Segment::Key(name.to_owned())
    }

    #[test]
    fn a_field_that_is_put_back_first_is_taken_as_it_will_be() {
        let object = ApiRef::from_key("v1/ConfigMap/ns/a").unwrap();
        let their = |live: &str| Their {
            object: object.clone(),
            field: Field {
                path: vec![key("data"), key("x")],
                before: Some(json!(live)),
                after: Some(json!("chart")),
            },
            owner: "converge".to_owned(),
        };
        let manifest = |x: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": x}});
        let installed = [manifest("release")];
        let undone = |to: Value| {
            let fields = fields::differences(&manifest("patched"), &to);
            Undone::from([(object.object(), Some((fields, to)))])
        };
        let stays = |undone: &Undone| {
            let mut their = their("patched");
            stays_theirs(&mut their, undone, &installed, "ns").then_some(their.field.before)
        };
        assert_eq!(stays(&Undone::new()), Some(Some(json!("patched"))));
        assert_eq!(stays(&undone(manifest("release"))), None, "it was the release's own");
        assert_eq!(stays(&undone(manifest("other"))), Some(Some(json!("other"))));
        assert_eq!(stays(&undone(json!({"data": {}}))), None);
        assert_eq!(stays(&Undone::from([(object.object(), None)])), None, "the object goes");
        let elsewhere = vec![Field { path: vec![key("data"), key("y")], before: None, after: None }];
        let elsewhere = Undone::from([(object.object(), Some((elsewhere, manifest("z"))))]);
        assert_eq!(stays(&elsewhere), Some(Some(json!("patched"))));
    }
}
