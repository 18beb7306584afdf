//! Looking at a cluster: all questions at once, a bounded number of requests side by side, each failure with its own question.

mod applied;
mod ask;
mod error;
mod job;
pub(crate) mod release;
mod workload;

pub(crate) use error::LookError;
pub(crate) use workload::RunningWorkload;

use crate::api::escaped;
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::object;
use converge_executor::Answers;
use converge_objects::k8s::K8sState;
use converge_resource::{Answer, ApiProbe, ApiRef, Content, ObjectId, Observation, Probe, State};
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The number of questions that are worked on at a time; the requests themselves are fewer.
const AT_ONCE: usize = 32;

/// From this number on, objects of one kind in one namespace are read with one list request.
const BY_LIST: usize = 4;

/// The time for which the server's own garbage collector is awaited: an object that a killed run has deleted goes by itself.
const COLLECTION: Duration = Duration::from_secs(10);

/// Kind, version, namespace.
type ListedKind = (String, String, Option<String>);

/// List requests that replace many single ones.
type Lists = BTreeMap<ListedKind, Result<BTreeMap<String, Value>, Arc<Fault>>>;

/// An answer, and the content that its state names.
pub(crate) type AnswerWithContents = (Answer, Vec<Content>);

impl Cluster {
    /// Answers questions. Nothing is changed, and each failure stays with its question.
    pub async fn answers_to(&self, probes: &BTreeSet<Probe>) -> Answers {
        let lists = self.lists(probes).await;
        let answers: Vec<(Probe, AnswerWithContents)> = stream::iter(probes.iter().cloned())
            .map(|probe| {
                let lists = &lists;
                async move {
                    let present = self.answer(&probe, lists).await;
                    (probe, present)
                }
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut all = Answers::default();
        for (probe, (answer, contents)) in answers {
            all.answers.push((probe, answer));
            for content in contents {
                if !all.contents.iter().any(|c| c.digest() == content.digest()) {
                    all.contents.push(content);
                }
            }
        }
        all
    }

    /// One list for each kind and namespace of which many objects are asked for.
    async fn lists(&self, probes: &BTreeSet<Probe>) -> Lists {
        let mut groups: BTreeMap<ListedKind, usize> = BTreeMap::new();
        for probe in probes {
            if let Probe::Object(id) = probe
                && let Some(found) = api_ref(id)
            {
                *groups.entry((found.kind, found.api_version, found.namespace)).or_default() += 1;
            }
        }
        let many = groups.into_iter().filter(|(_, count)| *count >= BY_LIST).map(|(group, _)| group);
        stream::iter(many.collect::<Vec<_>>())
            .map(|group| async move {
                let (kind, version, namespace) = &group;
                let resource = self.inner.api.resource(version, kind).await.ok().flatten();
                if resource.is_some_and(|r| r.namespaced != namespace.is_some()) {
                    // Each question tells by itself what is wrong with it.
                    return None;
                }
                let list = self.list(version, kind, namespace.as_deref(), None).await;
                let list = list.map(|l| object::by_name(l.unwrap_or_default())).map_err(Arc::new);
                Some((group, list))
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(|list| async { list })
            .collect()
            .await
    }

    /// All objects of a kind; `None` when the server has no such kind.
    pub(crate) async fn list(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Option<Vec<Value>>, Fault> {
        let api = &self.inner.api;
        let Some(mut path) = api.collection(version, kind, namespace).await? else { return Ok(None) };
        if let Some(labels) = labels {
            path.push_str(&format!("?labelSelector={}", escaped(labels)));
        }
        api.list(&path).await.map(Some)
    }

    async fn answer(&self, probe: &Probe, lists: &Lists) -> AnswerWithContents {
        let result = match probe {
            Probe::Object(id) => self.look_in(id, lists).await,
            Probe::Api(question) => self.ask(question).await.map(|answer| (Answer::Api(answer), Vec::new())),
            Probe::Content(_) | Probe::Run { .. } | Probe::Local(_) => Err(LookError::OfHosts),
        };
        result.unwrap_or_else(|error| (Answer::Failed(error.to_string()), Vec::new()))
    }

    async fn look_in(&self, id: &ObjectId, lists: &Lists) -> Result<AnswerWithContents, LookError> {
        if let Some(wanted) = api_ref(id) {
            let ApiRef { api_version, kind, namespace, name } = wanted.clone();
            if let Some(list) = lists.get(&(kind, api_version, namespace)) {
                let found = list.as_ref().map_err(Arc::clone)?.get(&name);
                if !found.is_some_and(object::is_being_collected) {
                    self.saw(&wanted, found);
                    return present(found);
                }
            }
            let found = self.collected(&wanted).await?;
            self.saw(&wanted, found.as_ref());
            return present(found.as_ref());
        }
        self.look(id).await.map(|(observed, contents)| (Answer::Object(observed), contents))
    }

    /// An object. If the server is deleting it after its dependents, it is awaited briefly.
    pub(crate) async fn collected(&self, wanted: &ApiRef) -> Result<Option<Value>, Fault> {
        let begun = Instant::now();
        loop {
            let found = self.inner.api.object(wanted).await?;
            if !found.as_ref().is_some_and(object::is_being_collected) || begun.elapsed() > COLLECTION {
                return Ok(found);
            }
            tracing::info!(object = %wanted.shown(), "waiting until the API server has deleted it behind what belongs to it");
            sleep(COLLECTION / 20).await;
        }
    }

    /// The state of one object.
    pub(crate) async fn look(&self, id: &ObjectId) -> Result<(Observation, Vec<Content>), LookError> {
        match id.kind.as_str() {
            "k8s" => {
                let wanted = ApiRef::from_key(&id.key).ok_or_else(|| no_key(id))?;
                let found = self.inner.api.object(&wanted).await?;
                Ok(observed(found.as_ref()))
            }
            "workload" => {
                let wanted = ApiRef::from_key(&id.key).ok_or_else(|| no_key(id))?;
                let running = self.running(&wanted).await?;
                let absent = Observation::new(State::absent(), None);
                Ok((running.map_or(absent, |running| running.observed()), Vec::new()))
            }
            "release" => self.release(id).await,
            "condition" => Ok((self.condition(id).await?, Vec::new())),
            other => Err(LookError::Kind(other.to_owned())),
        }
    }

    pub(crate) async fn ask(&self, question: &ApiProbe) -> Result<Value, LookError> {
        match question {
            ApiProbe::Apply { manifest, force } => self.dry_apply(manifest, *force).await,
            ApiProbe::Get(wanted) => {
                let found = self.inner.api.object(wanted).await?;
                Ok(found.unwrap_or_default())
            }
            ApiProbe::Others(wanted) => {
                let found = self.inner.api.object(wanted).await?;
                let own = self.manager();
                let whose = |object: &Value, of_release| object::whose_else(object, own, of_release);
                let others = |object: Value| json!({"whose": whose(&object, false), "whose_of_release": whose(&object, true), "manager": own, "object": object});
                Ok(found.map(others).unwrap_or_default())
            }
            ApiProbe::Back { object, from, to } => self.dry_back(object, from.as_deref(), to).await,
            ApiProbe::Gone(object) => self.dry_gone(object).await,
            ApiProbe::Namespaced { api_version, kind } => {
                let resource = self.inner.api.resource(api_version, kind).await?;
                Ok(resource.map(|resource| Value::Bool(resource.namespaced)).unwrap_or_default())
            }
            ApiProbe::List { api_version, kind, namespace, labels } => {
                let list = self.list(api_version, kind, namespace.as_deref(), labels.as_deref()).await;
                Ok(list?.map(Value::Array).unwrap_or_default())
            }
            ApiProbe::Service { namespace, name, port, tls, path } => {
                let scheme = if *tls { "https:" } else { "" };
                let path =
                    format!("/api/v1/namespaces/{namespace}/services/{scheme}{name}:{port}/proxy{path}");
                let status = self.inner.api.status(&path).await?;
                Ok(json!({"status": status}))
            }
            ApiProbe::Release { namespace, name } => self.revisions(namespace, name).await.map(Value::Array),
            ApiProbe::Render(spec) => self.render(spec).await,
            ApiProbe::Job { manifest, seconds } => Ok(self.job(manifest, *seconds).await?),
        }
    }
}

fn api_ref(id: &ObjectId) -> Option<ApiRef> {
    (id.kind == "k8s").then(|| ApiRef::from_key(&id.key)).flatten()
}

pub(crate) fn no_key(id: &ObjectId) -> LookError {
    LookError::ObjectKey(id.key.clone())
}

/// State and content of an object as the server gives it.
pub(crate) fn observed(object: Option<&Value>) -> (Observation, Vec<Content>) {
    match object {
        None => (Observation::new(State::absent(), None), Vec::new()),
        Some(found) => {
            let (state, content) = K8sState::of(found);
            (Observation::new(state.into(), object::moment(found)), vec![content])
        }
    }
}

/// The answer about an object. One that is being deleted has no state to plan on: what would be written goes with it.
fn present(object: Option<&Value>) -> Result<AnswerWithContents, LookError> {
    if let Some(found) = object.filter(|found| object::is_being_deleted(found)) {
        return Err(LookError::being_deleted(found));
    }
    let (observed, contents) = observed(object);
    Ok((Answer::Object(observed), contents))
}
