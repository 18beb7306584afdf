//! Helm releases: installed, upgraded, rolled back, uninstalled; one that is stuck is recovered before.

mod declared;
mod unset;

use super::{Done, Job, Save, failed, shown};
use crate::connect::Cluster;
use crate::helm::{Helm, HelmError};
use crate::object::text;
use crate::observe::release::{chart_name, number, parts, revision, state};
use crate::open_run::Left;
use crate::preserved::PreservedFields;
use crate::private_file::HelmFileError;
use crate::record_error::{RecordsError, SecretSealError};
use crate::records::{Beside, ChangeEnd};
use crate::saved_release::{SavedRelease, SavedReleaseError};
use crate::sealed::{seal, unseal};
use crate::work::{ClusterWork, WorkEnd};
use converge_objects::release::{self, Recovery, ReleaseState};
use converge_resource::{
    Answer, ApiCall, Chart, Content, Digest, ObjectId, PreservedField, Probe, ReleaseSpec, State,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The time for which helm waits if no timeout is declared.
const WAIT: u64 = 300;

/// Watched objects before and after.
pub(crate) type Window = (BTreeMap<ObjectId, State>, BTreeMap<ObjectId, State>);

/// The reason why it is not known how helm brings a release to its planned state.
#[derive(Debug, thiserror::Error)]
enum ActionError {
    #[error(transparent)]
    Helm(#[from] HelmError),
    #[error(transparent)]
    File(#[from] HelmFileError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("the plan names no content")]
    NoContent,
    #[error(
        "revision {revision} ({chart}, {status}) was never in force, so nothing goes back to it: apply the role to have its release as declared"
    )]
    NeverInForce { revision: u64, chart: String, status: String },
    #[error("neither helm nor a run's record has a revision with this content ({chart})")]
    NotSaved { chart: String },
    #[error("its saved manifests ({chart}) cannot be read: {error}")]
    Sealed { chart: String, error: SecretSealError },
    #[error("its saved manifests ({chart}) cannot be read: {error}")]
    Packed { chart: String, error: SavedReleaseError },
}

/// The reason why a release is not kept.
#[derive(Debug, thiserror::Error)]
enum ReleaseSaveError {
    #[error("helm's record of it is not understood")]
    Record,
    #[error("the release is too large to be kept: {0}")]
    Packed(#[from] SavedReleaseError),
    #[error(transparent)]
    Seal(#[from] SecretSealError),
    #[error("the inventory names no age recipients, so a release that holds Secrets is not kept")]
    NoRecipients,
}

/// A release as it was found.
struct FoundRelease<'a> {
    namespace: &'a str,
    name: &'a str,
    /// Whether it is installed, or was meant to be.
    there: bool,
    /// The records of helm, newest first.
    records: Vec<Value>,
    revisions: Vec<Value>,
}

/// The time that helm has, and whether it waits in it until everything is ready, or gone.
#[derive(Clone, Copy)]
struct Patience {
    seconds: u64,
    waits: bool,
}

/// A call of helm.
struct HelmCall {
    /// The message for the user.
    what: String,
    arguments: Vec<String>,
    /// The release.
    name: String,
    /// Fields that it leaves as they are.
    keep: PreservedFields,
    /// Fields that are taken away again behind it.
    unset: Vec<PreservedField>,
    seconds: u64,
}

impl Cluster {
    /// Brings a release to its planned state.
    pub(super) async fn change_release(
        &self,
        job: &Job<'_>,
        window: &mut Option<Window>,
    ) -> Result<Done, WorkEnd> {
        let id = &job.change.object;
        let refused = |why: &dyn Display| WorkEnd::Refused(format!("{}: {why}", shown(id)));
        let (namespace, name) = parts(id).map_err(|e| refused(&e))?;
        let read = |state: &State| ReleaseState::try_from(state.clone()).map_err(|e| refused(&e));
        let (from, to) = (read(&job.change.from)?, read(&job.change.to)?);
        let records = self.helm_records(namespace, name).await.map_err(|e| refused(&e))?;
        let revisions = self.revisions_of(namespace, &records).await.map_err(|e| refused(&e))?;
        let (present, content) = state(&revisions).map_err(|e| refused(&e))?;
        if present.state != job.change.from {
            return Err(refused(&format!(
                "it was {} when this was planned, and is {} now; plan again",
                listed(&from),
                listed(&read(&present.state)?)
            )));
        }
        let call = job.work.calls.iter().find_map(|call| match call {
            ApiCall::Release(spec) if spec.namespace == namespace && spec.name == name => Some(&**spec),
            _ => None,
        });
        for content in
            job.work.contents.values().filter(|c| call.is_some_and(|s| names(s, c.digest().as_str())))
        {
            self.offer(content.clone());
        }
        let helm = Helm::ready(self, call).await.map_err(|e| refused(&e))?;
        let found = FoundRelease { namespace, name, there: !present.state.is_absent(), records, revisions };
        let waits = match job.work.release(id) {
            Some(spec) => spec.wait_seconds.is_some(),
            None => self.waits(id, content_of(&to, call).as_ref()).await.map_err(|e| refused(&e))?,
        };
        let action = self.action(&helm, &found, &to, call, waits).await.map_err(|e| refused(&e))?;
        let recovery = found.recovery(Patience { seconds: call.map_or(WAIT, seconds), waits });
        let hangs = recovery
            .as_ref()
            .map(|_| found.revisions.first().map(|r| text(r, "/status")).unwrap_or_default());
        let tells = |what: &str| {
            hangs.map_or_else(|| what.to_owned(), |h| format!("the release is stuck in {h}: {what}"))
        };
        // Where putting it right is all that there is to do, it is done once.
        let recovery = recovery.filter(|recovery| recovery.what != action.what);
        let (saves, no_snapshot) = self.release_to_save(job, &found, content);
        let seq = self.begin(job, &present.state, saves, no_snapshot).await?;
        let (before, _) = self.watched(job.work).await;
        let result = async {
            if let Some(recovery) = recovery {
                (job.tell)(&tells(&recovery.what));
                let late = |error: HelmError| error.within(recovery.seconds, call.is_some());
                let called = self.call(&helm, &recovery, namespace).await.map_err(late);
                called.map_err(|reply| (recovery.what, reply))?;
                (job.tell)(&action.what);
            } else {
                (job.tell)(&tells(&action.what));
            }
            let late = |error: HelmError| error.within(action.seconds, job.work.release(id).is_some());
            self.call(&helm, &action, namespace).await.map_err(late).map_err(|reply| (action.what, reply))
        }
        .await;
        let (after, moved) = self.watched(job.work).await;
        let noted = self.note_moved(job, &before, &after).await;
        *window = Some((before, after));
        let look = self.release(id).await;
        let state = look.as_ref().ok().map(|(observed, contents)| (&observed.state, contents.as_slice()));
        let off = match (&result, &look) {
            (Err((what, reply)), _) => Some(self.helm_failed(job, what, reply, namespace).await),
            (Ok(_), Err(why)) => Some(failed(format!("{} cannot be read since: {why}", shown(id)))),
            (Ok(_), Ok((observed, _))) => not_as(&to, &read(&observed.state)?)
                .map(|found| failed(format!("{} differs from the plan: it is {found}", shown(id)))),
        };
        let ended = if off.is_none() { ChangeEnd::Done } else { ChangeEnd::Failed };
        let recorded = self.end(job, seq, ended, state, Left::default()).await;
        // The message of helm comes first; a server that is gone takes no records either.
        if off.is_none() {
            noted.and(recorded)?;
        }
        match (off, look) {
            (None, Ok((observed, mut contents))) => {
                contents.extend(moved);
                Ok(Done { after: observed.state, contents })
            }
            (Some(end), _) => Err(end),
            (None, Err(why)) => Err(failed(why)),
        }
    }

    /// The call of helm that brings a release to this state.
    async fn action(
        &self,
        helm: &Helm,
        found: &FoundRelease<'_>,
        to: &ReleaseState,
        call: Option<&ReleaseSpec>,
        waits: bool,
    ) -> Result<HelmCall, ActionError> {
        let patience = Patience { seconds: call.map_or(WAIT, seconds), waits };
        let ReleaseState::Installed { chart, .. } = to else { return Ok(found.uninstall(patience)) };
        let name = found.name;
        let digest = content_of(to, call).ok_or(ActionError::NoContent)?;
        let (keep, unset) = match call {
            Some(ReleaseSpec { chart: Chart::SavedRelease(_), keep, unset, .. }) => {
                (PreservedFields { others: keep.clone(), drawn: Vec::new() }, unset.clone())
            }
            Some(spec) => {
                return Ok(HelmCall {
                    what: format!("helm upgrade --install {name} ({})", chart_name(spec)),
                    arguments: upgrade(helm.chart(self, spec)?, spec),
                    name: name.to_owned(),
                    keep: PreservedFields { others: spec.keep.clone(), drawn: spec.drawn.clone() },
                    unset: spec.unset.clone(),
                    seconds: seconds(spec),
                });
            }
            None => (PreservedFields::default(), Vec::new()),
        };
        let stays = found.there && found.needed_recovery() != Some(Recovery::Uninstall);
        let at = release::revision_of(&found.revisions, &digest);
        // Nothing goes back to a revision that was never in force, but to what a run has kept: an install that a rollback was cut off in has that content too.
        let has_it = |r: &&Value| at.is_none() && release::has_content(r, &digest);
        let never = found.revisions.iter().find(has_it);
        let never_in_force = |error: ActionError| match (error, never) {
            (ActionError::NotSaved { chart }, Some(never)) => {
                let status = text(never, "/status").to_owned();
                ActionError::NeverInForce { revision: number(never), chart, status }
            }
            (error, _) => error,
        };
        // helm's own rollback has no place for what belongs to others.
        if let Some(at) = at.filter(|_| stays && keep.is_empty()) {
            return Ok(HelmCall { unset, ..found.back(number(at), patience) });
        }
        let waits = found.waits(at, waits);
        let spec = ReleaseSpec {
            wait_seconds: waits.then_some(WAIT),
            seconds: Some(WAIT),
            ..ReleaseSpec::saved(found.namespace, name, &digest)
        };
        let records = if never.is_some() { &[] } else { found.records.as_slice() };
        let saved_release = self.saved_release(records, &digest, chart).await.map_err(never_in_force)?;
        let mut arguments = upgrade(saved_release.lay(helm.folder())?, &spec);
        arguments.extend(words(&["--description", "Reverted by converge"]));
        Ok(HelmCall {
            what: format!("helm upgrade --install {name} ({})", chart_name(&spec)),
            arguments,
            name: name.to_owned(),
            keep,
            unset,
            seconds: WAIT,
        })
    }

    /// A release as it was: out of what helm keeps, or out of our records.
    async fn saved_release(
        &self,
        records: &[Value],
        digest: &Digest,
        chart: &str,
    ) -> Result<SavedRelease, ActionError> {
        let same = |record: &&Value| release::has_content(&revision(record), digest);
        if let Some(saved_release) = records.iter().find(same).and_then(SavedRelease::of) {
            return Ok(saved_release);
        }
        let packed = match self.stored(&BTreeSet::from([digest.clone()])).await?.remove(digest) {
            Some(crate::records::StoredContent { beside: Some(Beside::Plain(packed)), .. }) => packed,
            Some(crate::records::StoredContent { beside: Some(Beside::Sealed(sealed)), .. }) => {
                let packed = unseal(&sealed, &self.inner.options)
                    .map_err(|error| ActionError::Sealed { chart: chart.to_owned(), error })?;
                packed.as_str().unwrap_or_default().to_owned()
            }
            _ => return Err(ActionError::NotSaved { chart: chart.to_owned() }),
        };
        SavedRelease::unpack(&packed).map_err(|error| ActionError::Packed { chart: chart.to_owned(), error })
    }

    /// The saved parts of a release as it is. The second is the reason why it cannot come back once it is gone.
    fn release_to_save(
        &self,
        job: &Job<'_>,
        found: &FoundRelease<'_>,
        content: Option<Content>,
    ) -> (Vec<Save>, Option<String>) {
        let keep = |record: &Value| -> Result<Beside, ReleaseSaveError> {
            let saved_release = SavedRelease::of(record).ok_or(ReleaseSaveError::Record)?;
            let packed = saved_release.pack()?;
            if !job.work.sensitive && !saved_release.holds_secrets() {
                return Ok(Beside::Plain(packed));
            }
            let sealed = seal(&Value::String(packed), &self.inner.options)?;
            Ok(Beside::Sealed(sealed.ok_or(ReleaseSaveError::NoRecipients)?))
        };
        let stored = found.in_force().map(keep).transpose();
        let (beside, why) = match stored {
            Ok(beside) => (beside, None),
            Err(not_saved) => (None, Some(not_saved.to_string())),
        };
        let saves = content.map(|content| (content, beside)).into_iter().collect();
        // A release that goes on being installed has its history.
        (saves, why.filter(|_| job.change.to.is_absent()))
    }

    async fn helm_failed(&self, job: &Job<'_>, what: &str, error: &HelmError, namespace: &str) -> WorkEnd {
        let reply = error.to_string();
        // The error may go over several lines; what stands before it are warnings.
        let (more, error) = reply.rsplit_once("Error: ").unwrap_or(("", &reply));
        let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
        if job.work.sensitive {
            return failed(format!("{what} failed; what it said is hidden, since the resource is sensitive"));
        }
        let mut output = more.to_owned();
        let events = self.warnings(namespace, "").await;
        if !events.is_empty() {
            output = format!("{output}\n{events}");
        }
        WorkEnd::Failed { message: format!("{what}: {line}"), output: output.trim().to_owned() }
    }

    /// The states of watched objects, as far as they can be looked at.
    async fn watched(&self, work: &ClusterWork) -> (BTreeMap<ObjectId, State>, Vec<Content>) {
        let probes: BTreeSet<Probe> = work.watch.iter().map(|(id, _)| Probe::Object(id.clone())).collect();
        let present = self.answers_to(&probes).await;
        let one = |(probe, answer)| match (probe, answer) {
            (Probe::Object(id), Answer::Object(observed)) => Some((id, observed.state)),
            _ => None,
        };
        (present.answers.into_iter().filter_map(one).collect(), present.contents)
    }

    /// Records the watched objects that helm changed.
    async fn note_moved(
        &self,
        job: &Job<'_>,
        before: &BTreeMap<ObjectId, State>,
        after: &BTreeMap<ObjectId, State>,
    ) -> Result<(), WorkEnd> {
        let moved: Vec<(ObjectId, State, State)> = before
            .iter()
            .filter_map(|(id, was)| {
                after.get(id).filter(|is| *is != was).map(|is| (id.clone(), was.clone(), is.clone()))
            })
            .collect();
        let mut slot = self.inner.run.lock().await;
        match slot.as_mut().filter(|open| open.meta.id == job.run) {
            Some(open) => open.moved(&moved, &job.work.address).await.map_err(failed),
            None => Ok(()),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

impl FoundRelease<'_> {
    fn needed_recovery(&self) -> Option<Recovery> {
        release::recovery(&self.revisions)
    }

    /// The recovery of a release that is stuck in `pending-*`.
    fn recovery(&self, patience: Patience) -> Option<HelmCall> {
        Some(match self.needed_recovery()? {
            Recovery::Rollback(number) => self.back(number, patience),
            Recovery::Uninstall => self.uninstall(patience),
        })
    }

    /// helm's record of the revision that is in force.
    fn in_force(&self) -> Option<&Value> {
        let revision = release::in_force(&self.revisions).filter(|_| self.there)?;
        self.records.iter().find(|record| record.get("version") == revision.get("revision"))
    }

    /// A revision that never got ready is not waited for.
    fn waits(&self, revision: Option<&Value>, waits: bool) -> bool {
        waits && !revision.is_some_and(release::has_failed)
    }

    fn action(&self, what: String, words: &[&str], patience: Patience) -> HelmCall {
        let Patience { seconds, waits } = patience;
        let mut arguments = self::words(words);
        arguments.extend(self::words(&["-n", self.namespace, "--timeout", &format!("{seconds}s")]));
        if waits {
            arguments.push("--wait".to_owned());
        }
        let (name, keep) = (self.name.to_owned(), PreservedFields::default());
        HelmCall { what, arguments, name, keep, unset: Vec::new(), seconds }
    }

    fn uninstall(&self, patience: Patience) -> HelmCall {
        self.action(format!("helm uninstall {}", self.name), &["uninstall", self.name], patience)
    }

    fn back(&self, revision: u64, patience: Patience) -> HelmCall {
        let number = revision.to_string();
        let at = self.revisions.iter().find(|r| self::number(r) == revision);
        let patience = Patience { waits: self.waits(at, patience.waits), ..patience };
        let words = ["rollback", self.name, &number];
        self.action(format!("helm rollback {} {number}", self.name), &words, patience)
    }
}

/// The digest of the content to which a release goes: with fields of others in it, it is another than the recorded one, which the call names.
fn content_of(to: &ReleaseState, call: Option<&ReleaseSpec>) -> Option<Digest> {
    match (to, call.map(|spec| &spec.chart)) {
        (ReleaseState::Absent | ReleaseState::Begun { .. }, _) => None,
        (_, Some(Chart::SavedRelease(hex))) => Digest::from_hex(hex),
        (ReleaseState::Installed { digest, .. }, _) => Some(digest.clone()),
    }
}

/// The arguments of an upgrade to this chart. Values of the previous revision that are no longer given are not taken over.
fn upgrade(chart: Vec<String>, spec: &ReleaseSpec) -> Vec<String> {
    let mut arguments = words(&["upgrade", "--install", "--reset-values", "-n", &spec.namespace, &spec.name]);
    arguments.extend(chart);
    if spec.create_namespace {
        arguments.push("--create-namespace".to_owned());
    }
    if spec.wait_seconds.is_some() {
        arguments.push("--wait".to_owned());
    }
    // Hooks have this time too, whether anything else is waited for or not.
    arguments.extend(["--timeout".to_owned(), format!("{}s", seconds(spec))]);
    arguments
}

/// So long helm may take.
fn seconds(spec: &ReleaseSpec) -> u64 {
    spec.seconds.or(spec.wait_seconds).unwrap_or(WAIT)
}

/// True when the release's chart is the content with this digest.
fn names(spec: &ReleaseSpec, digest: &str) -> bool {
    matches!(&spec.chart, Chart::Archive(hex) if hex == digest)
}

/// The difference of a release from the planned one. Manifests may differ: charts that draw random values render differently each time.
fn not_as(planned: &ReleaseState, found: &ReleaseState) -> Option<String> {
    let same = match (planned, found) {
        (ReleaseState::Absent, ReleaseState::Absent) => true,
        (ReleaseState::Installed { chart, .. }, ReleaseState::Installed { status, chart: live, .. }) => {
            status == "deployed" && chart == live
        }
        _ => false,
    };
    (!same).then(|| listed(found))
}

fn listed(state: &ReleaseState) -> String {
    match state {
        ReleaseState::Absent => "not there".to_owned(),
        ReleaseState::Begun { status, chart } => format!("{status} ({chart}, nothing in force)"),
        ReleaseState::Installed { status, chart, digest } => {
            format!("{status} ({chart}, content {})", digest.short())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rollback_goes_to_the_newest_revision_with_the_content() {
        let revision = |n: u64, size: u64| json!({"revision": n, "status": "superseded", "chart": {"name": "c", "version": "1"}, "values": {"size": size}, "manifest": ""});
        let revisions = [revision(4, 2), revision(3, 1), revision(2, 2), revision(1, 1)];
        let digest = |n: u64, size: u64| match ReleaseState::of(&revision(n, size)).unwrap().0 {
            ReleaseState::Installed { digest, .. } => digest,
            _ => panic!(),
        };
        let at = |digest: &Digest| release::revision_of(&revisions, digest).map(number);
        assert_eq!((at(&digest(1, 1)), at(&digest(9, 9))), (Some(3), None));
        let wanted = ReleaseState::of(&revisions[3]).unwrap().0;
        let none = ReleaseState::of(&revision(9, 9)).unwrap().0;
        assert!(not_as(&wanted, &none).unwrap().starts_with("superseded"));
        assert_eq!(not_as(&ReleaseState::Absent, &ReleaseState::Absent), None);
        let revision = |n: u64, status: &str, applied: Option<bool>| json!({"revision": n, "status": status, "applied": applied, "chart": {"name": "c", "version": "1"}, "values": {"size": 7}, "manifest": ""});
        let at = |all: &[Value]| release::revision_of(all, &digest(7, 7)).map(number);
        assert_eq!(at(&[revision(2, "failed", None), revision(1, "superseded", None)]), Some(1));
        assert_eq!(at(&[revision(2, "failed", None)]), Some(2));
        assert_eq!(at(&[revision(3, "pending-upgrade", None), revision(2, "failed", Some(false))]), None);
    }
}
