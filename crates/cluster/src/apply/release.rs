//! Helm releases: installed, upgraded, rolled back, taken away; what hangs is put right before.

use super::{Done, Job, failed, shown};
use crate::connect::Cluster;
use crate::helm::Helm;
use crate::object::text;
use crate::observe::release::{chart_name, number, parts};
use crate::records::Ended;
use crate::work::{Work, WorkEnd};
use converge_objects::release::ReleaseState;
use converge_resource::{Answer, ApiCall, ObjectId, Probe, ReleaseSpec, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// helm waits so long for what it was not told about.
const WAIT: u64 = 300;

/// Watched objects before and after.
pub(crate) type Window = (BTreeMap<ObjectId, State>, BTreeMap<ObjectId, State>);

impl Cluster {
    /// Brings a release to its planned state.
    pub(super) async fn change_release(
        &self,
        job: &Job<'_>,
        window: &mut Option<Window>,
    ) -> Result<Done, WorkEnd> {
        let id = &job.change.object;
        let refused = |why: String| WorkEnd::Refused(format!("{}: {why}", shown(id)));
        let (namespace, name) = parts(id).map_err(&refused)?;
        let read = |state: &State| ReleaseState::try_from(state.clone()).map_err(|e| refused(e.to_string()));
        let (from, to) = (read(&job.change.from)?, read(&job.change.to)?);
        let (seen, contents) = self.release(id).await.map_err(&refused)?;
        if seen.state != job.change.from {
            return Err(refused(format!(
                "it was {} when this was planned, and is {} now; plan again",
                told(&from),
                told(&read(&seen.state)?)
            )));
        }
        let call = job.work.calls.iter().find_map(|call| match call {
            ApiCall::Release(spec) if spec.namespace == namespace && spec.name == name => Some(spec),
            _ => None,
        });
        let revisions = self.revisions(namespace, name).await.map_err(&refused)?;
        let back = match (&to, call) {
            (ReleaseState::Installed { .. }, None) => Some(revision_of(&revisions, &to).map_err(&refused)?),
            _ => None,
        };
        for content in
            job.work.contents.values().filter(|c| call.is_some_and(|s| names(s, c.digest().as_str())))
        {
            self.offer(content.clone());
        }
        let helm = Helm::ready(self).await.map_err(&refused)?;
        let arguments = match (call, back, &to) {
            (_, _, ReleaseState::Absent) => {
                words(&["uninstall", name, "-n", namespace, "--wait", "--timeout", &format!("{WAIT}s")])
            }
            (Some(spec), _, _) => upgrade(&helm, self, spec).map_err(&refused)?,
            (None, Some(back), _) => rollback(name, namespace, back),
            (None, None, _) => return Err(refused("nothing tells what to install".to_owned())),
        };
        let saves = contents.iter().map(|c| (c.clone(), None)).collect();
        let seq = self.begin(job, &seen.state, saves, None).await?;
        let before = self.watched(job.work).await;
        let limit = call.and_then(|spec| spec.wait_seconds).unwrap_or(WAIT);
        let result = async {
            self.recover(job, &helm, namespace, name, &revisions).await?;
            let what = match (&to, call) {
                (ReleaseState::Absent, _) => format!("helm uninstall {name}"),
                (_, Some(spec)) => format!("helm upgrade --install {name} ({})", chart_name(spec)),
                _ => format!("helm rollback {name} {}", back.unwrap_or(0)),
            };
            (job.tell)(&what);
            let keep = call.map(|spec| spec.keep.as_slice()).unwrap_or_default();
            let limit = Duration::from_secs(limit);
            let run = match keep.is_empty() {
                true => helm.run(&arguments, limit).await,
                false => helm.run_keeping(self, &arguments, limit, keep, namespace).await,
            };
            run.map_err(|said| (what, said))
        }
        .await;
        let after = self.watched(job.work).await;
        let noted = self.note_moved(job, &before, &after).await;
        *window = Some((before, after));
        let look = self.release(id).await;
        let state = look.as_ref().ok().map(|(observed, contents)| (&observed.state, contents.as_slice()));
        let off = match (&result, &look) {
            (Err((what, said)), _) => Some(self.helm_failed(job, what, said, namespace).await),
            (Ok(_), Err(why)) => Some(failed(format!("{} cannot be looked at since: {why}", shown(id)))),
            (Ok(_), Ok((observed, _))) => not_as(&to, &read(&observed.state)?)
                .map(|found| failed(format!("{} is not as planned: it is {found}", shown(id)))),
        };
        let ended = if off.is_none() { Ended::Done } else { Ended::Failed };
        let recorded = self.end(job, seq, ended, state, None).await;
        // What helm said comes first; a server that is gone takes no records either.
        if off.is_none() {
            noted.and(recorded)?;
        }
        match (off, look) {
            (None, Ok((observed, contents))) => Ok(Done { after: observed.state, contents }),
            (Some(end), _) => Err(end),
            (None, Err(why)) => Err(failed(why)),
        }
    }

    /// Puts a release right that hangs in `pending-*`: back to what was deployed last, or away when nothing ever was.
    async fn recover(
        &self,
        job: &Job<'_>,
        helm: &Helm,
        namespace: &str,
        name: &str,
        revisions: &[Value],
    ) -> Result<(), (String, String)> {
        let status = revisions.first().map(|r| text(r, "/status")).unwrap_or_default();
        if !status.starts_with("pending") && status != "uninstalling" {
            return Ok(());
        }
        let good = |r: &&Value| matches!(text(r, "/status"), "deployed" | "superseded");
        let last = revisions
            .iter()
            .find(|r| text(r, "/status") == "deployed")
            .or_else(|| revisions.iter().find(good));
        let (what, arguments) = match last.filter(|_| status != "uninstalling") {
            Some(last) => {
                (format!("helm rollback {name} {}", number(last)), rollback(name, namespace, number(last)))
            }
            None => (
                format!("helm uninstall {name}"),
                words(&["uninstall", name, "-n", namespace, "--wait", "--timeout", &format!("{WAIT}s")]),
            ),
        };
        (job.tell)(&format!("the release hangs in {status}: {what}"));
        helm.run(&arguments, Duration::from_secs(WAIT)).await.map(|_| ()).map_err(|said| (what, said))
    }

    async fn helm_failed(&self, job: &Job<'_>, what: &str, said: &str, namespace: &str) -> WorkEnd {
        // The error may go over several lines; what stands before it are warnings.
        let (more, error) = said.rsplit_once("Error: ").unwrap_or(("", said));
        let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
        if job.work.sensitive {
            return failed(format!("{what} failed; what it said is hidden, since the item is sensitive"));
        }
        let mut output = more.to_owned();
        let events = self.warnings(namespace, "").await;
        if !events.is_empty() {
            output = format!("{output}\n{events}");
        }
        WorkEnd::Failed { message: format!("{what}: {line}"), output: output.trim().to_owned() }
    }

    /// The states of watched objects, as far as they can be looked at.
    async fn watched(&self, work: &Work) -> BTreeMap<ObjectId, State> {
        let probes: BTreeSet<Probe> = work.watch.iter().map(|(id, _)| Probe::Object(id.clone())).collect();
        let seen = self.observe(&probes).await;
        let one = |(probe, answer)| match (probe, answer) {
            (Probe::Object(id), Answer::Object(observed)) => Some((id, observed.state)),
            _ => None,
        };
        seen.answers.into_iter().filter_map(one).collect()
    }

    /// Records what helm moved of what is watched.
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

fn rollback(name: &str, namespace: &str, revision: u64) -> Vec<String> {
    let (revision, wait) = (revision.to_string(), format!("{WAIT}s"));
    words(&["rollback", name, &revision, "-n", namespace, "--wait", "--timeout", &wait])
}

fn upgrade(helm: &Helm, cluster: &Cluster, spec: &ReleaseSpec) -> Result<Vec<String>, String> {
    let mut arguments = words(&["upgrade", "--install", "-n", &spec.namespace, &spec.name]);
    arguments.extend(helm.chart(cluster, spec)?);
    if spec.create_namespace {
        arguments.push("--create-namespace".to_owned());
    }
    if let Some(seconds) = spec.wait_seconds {
        arguments.extend(["--wait".to_owned(), "--timeout".to_owned(), format!("{seconds}s")]);
    }
    Ok(arguments)
}

/// True when the release's chart is the content with this digest.
fn names(spec: &ReleaseSpec, digest: &str) -> bool {
    matches!(&spec.chart, converge_resource::Chart::Archive(hex) if hex == digest)
}

/// The newest revision with the wanted text.
fn revision_of(revisions: &[Value], wanted: &ReleaseState) -> Result<u64, String> {
    let ReleaseState::Installed { digest, chart, .. } = wanted else {
        return Err("it is to be absent".to_owned());
    };
    let same = |revision: &&Value| {
        let state = ReleaseState::of(revision).map(|(state, _)| state);
        matches!(state, Ok(ReleaseState::Installed { digest: found, .. }) if found == *digest)
    };
    revisions.iter().find(same).map(number).ok_or_else(|| {
        format!("helm keeps no revision with this content ({chart}); it was uninstalled since, or is older than helm's history")
    })
}

/// How a release differs from the planned one. Manifests may differ: charts that draw random values render differently each time.
fn not_as(planned: &ReleaseState, found: &ReleaseState) -> Option<String> {
    let same = match (planned, found) {
        (ReleaseState::Absent, ReleaseState::Absent) => true,
        (ReleaseState::Installed { chart, .. }, ReleaseState::Installed { status, chart: live, .. }) => {
            status == "deployed" && chart == live
        }
        _ => false,
    };
    (!same).then(|| told(found))
}

fn told(state: &ReleaseState) -> String {
    match state {
        ReleaseState::Absent => "not there".to_owned(),
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
        let wanted = ReleaseState::of(&revisions[3]).unwrap().0;
        assert_eq!(revision_of(&revisions, &wanted), Ok(3));
        let none = ReleaseState::of(&revision(9, 9)).unwrap().0;
        assert!(revision_of(&revisions, &none).unwrap_err().contains("helm keeps no revision"));
        assert!(not_as(&wanted, &none).unwrap().starts_with("superseded"));
        assert_eq!(not_as(&ReleaseState::Absent, &ReleaseState::Absent), None);
    }
}
