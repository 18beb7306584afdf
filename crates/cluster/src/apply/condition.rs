//! Waits for conditions.

use super::{Done, Job, failed};
use crate::connect::Cluster;
use crate::work::WorkEnd;
use converge_objects::condition::{ConditionState, Pick, Verdict, Wait, What};
use converge_resource::{ObjectId, Observed};
use futures::future::try_join_all;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// What one look at a condition may take at least.
const LEAST: Duration = Duration::from_secs(2);

fn read(id: &ObjectId) -> Result<Wait, String> {
    Wait::from_key(&id.key).ok_or_else(|| "the condition is not understood; plan again".to_owned())
}

/// The namespaces of what is waited for.
fn namespaces(wait: &Wait) -> Vec<String> {
    let pick = match &wait.what {
        What::Condition { of, .. } | What::Field { of, .. } | What::Count { of, .. } => of,
        What::Allocatable { .. } => return Vec::new(),
        What::Answers { namespace, .. } => return vec![namespace.clone()],
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
    async fn verdict(&self, wait: &Wait) -> Result<Verdict, String> {
        let asks = wait.asks();
        let answers = try_join_all(asks.iter().map(|question| self.ask(question))).await?;
        Ok(wait.judge(&answers))
    }

    /// Whether it holds now.
    pub(crate) async fn condition(&self, id: &ObjectId) -> Result<Observed, String> {
        let state = match self.verdict(&read(id)?).await? {
            Verdict::Met => ConditionState::Met,
            Verdict::Open(_) => ConditionState::Open,
        };
        Ok(Observed { state: state.into(), moment: None })
    }

    /// Waits until it holds.
    pub(super) async fn change_condition(&self, job: &Job<'_>) -> Result<Done, WorkEnd> {
        let wait = read(&job.change.object).map_err(WorkEnd::Refused)?;
        let limit = Duration::from_secs(wait.seconds);
        let (start, mut told) = (Instant::now(), String::new());
        loop {
            // A question to a server that is gone is asked again and again: the deadline is over that too.
            let left = limit.saturating_sub(start.elapsed()).max(LEAST);
            let why = match timeout(left, self.verdict(&wait)).await {
                Ok(Ok(Verdict::Met)) => {
                    return Ok(Done { after: ConditionState::Met.into(), contents: Vec::new() });
                }
                // A server that is away for a moment is no answer either.
                Ok(Ok(Verdict::Open(why)) | Err(why)) => why,
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
                output.retain(|text| !text.is_empty());
                let message = format!("{} does not hold after {} s: {why}", wait.shown(), wait.seconds);
                return match output.is_empty() {
                    true => Err(failed(message)),
                    false => Err(WorkEnd::Failed { message, output: output.join("\n") }),
                };
            }
            if why != told {
                (job.tell)(&why);
                told = why;
            }
            let pause =
                Duration::from_millis(if start.elapsed() < Duration::from_secs(5) { 250 } else { 1000 });
            sleep(pause.min(limit.saturating_sub(start.elapsed()))).await;
        }
    }
}
