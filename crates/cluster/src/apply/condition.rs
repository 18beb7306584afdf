//! Waits for conditions.

use super::{Done, Job, failed};
use crate::api::escaped;
use crate::connect::Cluster;
use crate::object::text;
use crate::observe::LookError;
use crate::rollout::listed;
use crate::work::WorkEnd;
use converge_objects::condition::{
    ConditionState, ConditionVerdict, Expectation, Pick, TimedCondition, ready,
};
use converge_resource::{ObjectId, Observation};
use futures::future::try_join_all;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The number of pods whose messages are reported.
const PODS: usize = 6;

/// The time that one look at a condition may take at least.
const LEAST: Duration = Duration::from_secs(2);

fn read(id: &ObjectId) -> Result<TimedCondition, LookError> {
    TimedCondition::from_key(&id.key).ok_or(LookError::ConditionKey)
}

/// The namespaces of what is waited for.
fn namespaces(wait: &TimedCondition) -> Vec<String> {
    let pick = match &wait.what {
        Expectation::Condition { of, .. } | Expectation::Field { of, .. } | Expectation::Count { of, .. } => {
            of
        }
        Expectation::Allocatable { .. } => return Vec::new(),
        Expectation::Answers { namespace, .. } => return vec![namespace.clone()],
    };
    let mut found: Vec<String> = match pick {
        Pick::Named(list) => list.iter().filter_map(|r| r.namespace.clone()).collect(),
        Pick::All { namespace, .. } => namespace.iter().cloned().collect(),
    };
    found.sort();
    found.dedup();
    found
}

impl Cluster {
    async fn verdict(&self, wait: &TimedCondition) -> Result<ConditionVerdict, LookError> {
        let asks = wait.asks();
        let answers = try_join_all(asks.iter().map(|question| self.ask(question))).await?;
        Ok(wait.judge(&answers))
    }

    /// Whether it holds now.
    pub(crate) async fn condition(&self, id: &ObjectId) -> Result<Observation, LookError> {
        let state = match self.verdict(&read(id)?).await? {
            ConditionVerdict::Met => ConditionState::Met,
            ConditionVerdict::Open(_) => ConditionState::Open,
        };
        Ok(Observation::new(state.into(), None))
    }

    /// Messages of pods that may be to blame: those of the nodes in question, and of the release that brought the object in question.
    async fn blamed(&self, wait: &TimedCondition) -> Vec<String> {
        let mut places = BTreeSet::new();
        for question in wait.asks() {
            let answer = self.ask(&question).await.unwrap_or_default();
            let one = std::slice::from_ref(&answer);
            for object in answer.as_array().map_or(one, Vec::as_slice) {
                let annotations = object.pointer("/metadata/annotations");
                let release =
                    annotations.and_then(|a| a.get("meta.helm.sh/release-namespace")).and_then(Value::as_str);
                match text(object, "/kind") {
                    "Node" => places.insert(("/spec/nodeName", text(object, "/metadata/name").to_owned())),
                    _ => release.is_some_and(|r| places.insert(("/metadata/namespace", r.to_owned()))),
                };
            }
        }
        let pods = self.list("v1", "Pod", None, None).await.ok().flatten().unwrap_or_default();
        let own = |pod: &&Value| places.iter().any(|(at, name)| text(pod, at) == name);
        let bad = |pod: &&Value| text(pod, "/status/phase") != "Succeeded" && !ready(pod);
        let mut reply = Vec::new();
        for pod in pods.iter().filter(own).filter(bad).take(PODS) {
            reply.push(format!("{}: {}", text(pod, "/metadata/namespace"), listed(pod)));
            reply.extend(self.last_words(pod).await);
        }
        reply
    }

    /// The last lines of a container that has ended and is started again.
    async fn last_words(&self, pod: &Value) -> Vec<String> {
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
        let ended = |status: &&Value| status.pointer("/lastState/terminated").is_some();
        let Some(status) = statuses.into_iter().flatten().find(ended) else { return Vec::new() };
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/log?container={}&previous=true&tailLines=3&limitBytes=2000",
            escaped(text(pod, "/metadata/namespace")),
            escaped(text(pod, "/metadata/name")),
            escaped(text(status, "/name"))
        );
        let log = self.inner.api.text(&path).await.unwrap_or_default();
        let clean = |line: &str| line.chars().filter(|c| !c.is_control()).take(300).collect::<String>();
        log.lines().map(|line| format!("  | {}", clean(line))).collect()
    }

    /// Waits until it holds.
    pub(super) async fn change_condition(&self, job: &Job<'_>) -> Result<Done, WorkEnd> {
        let wait = read(&job.change.object).map_err(|error| WorkEnd::Refused(error.to_string()))?;
        let limit = Duration::from_secs(wait.seconds);
        let (start, mut last) = (Instant::now(), String::new());
        loop {
            // A question to a server that is gone is asked again and again: the deadline is over that too.
            let left = limit.saturating_sub(start.elapsed()).max(LEAST);
            let why = match timeout(left, self.verdict(&wait)).await {
                Ok(Ok(ConditionVerdict::Met)) => {
                    return Ok(Done { after: ConditionState::Met.into(), contents: Vec::new() });
                }
                // A server that is away for a moment is no answer either.
                Ok(Ok(ConditionVerdict::Open(why))) => why,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the API server does not answer".to_owned(),
            };
            if self.inner.access.road.is_closed() {
                let lost = "the connection to the host through which the API is reached has ended";
                return Err(failed(format!("{}: {lost}", wait.shown())));
            }
            if start.elapsed() >= limit {
                let mut output = Vec::new();
                for namespace in namespaces(&wait) {
                    output.push(self.warnings(&namespace, "").await);
                }
                output.push(self.blamed(&wait).await.join("\n"));
                output.retain(|text| !text.is_empty());
                let message = format!("{} does not hold after {} s: {why}", wait.shown(), wait.seconds);
                return match output.is_empty() {
                    true => Err(failed(message)),
                    false => Err(WorkEnd::Failed { message, output: output.join("\n") }),
                };
            }
            if why != last {
                (job.tell)(&why);
                last = why;
            }
            let pause =
                Duration::from_millis(if start.elapsed() < Duration::from_secs(5) { 250 } else { 1000 });
            sleep(pause.min(limit.saturating_sub(start.elapsed()))).await;
        }
    }
}
