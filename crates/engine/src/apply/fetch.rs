//! An item that needs a secret or a word of another host: it is asked for at the item's turn, and lives in the controller's memory only.

use super::TargetRun;
use crate::context::RunContext;
use crate::{Event, ItemResult};
use bytes::Bytes;
use converge_planner::Item;
use converge_resource::{FETCH_NOT_MADE, FETCH_NOT_READY, OtherHostQuestion, quote};
use converge_ssh::{ShellOutcome, Status};
use std::time::{Duration, Instant};

/// Between two questions to the other host.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Seconds that one answer may take.
const ANSWER: u64 = 90;

/// A question to another host for an item, asked time and again.
#[derive(Clone)]
pub(super) struct OpenQuestion {
    /// The item's address.
    address: String,
    until: Instant,
    /// The names and addresses of the host that asks.
    asks: String,
}

/// The answer of the other host.
enum OtherHostAnswer {
    Here(Bytes),
    /// Not yet: why.
    NotYet(String),
    /// The reason why it cannot be had.
    Never(String),
}

/// The last line that a script wrote, for people.
pub(super) fn last_words(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("no output").trim().to_owned()
}

/// The names and addresses by which this machine knows a host: what a host says of itself is its own claim.
async fn known_as(context: &RunContext, host: &str) -> Vec<String> {
    let mut names = vec![host.to_owned()];
    let declared = context.project.host_var(host, "ansible_host").ok().flatten();
    if let Some(address) = declared.and_then(|node| node.scalar_text()) {
        if let Ok(found) = tokio::net::lookup_host((address.as_str(), 22)).await {
            names.extend(found.map(|socket| socket.ip().to_string()));
        }
        names.push(address);
    }
    names
}

impl TargetRun {
    /// Asks for what this item needs. With nothing, either it is asked again later, or the item has failed.
    pub(super) async fn fetch(&mut self, id: u32) -> Option<Bytes> {
        let item = self.lane.remaining().iter().find(|i| i.id == id).cloned()?;
        let fetch = item.fetch.clone()?;
        let first = self.sending.asking.as_ref().is_none_or(|open| open.address != item.address);
        if first {
            self.sending.asking = Some(OpenQuestion {
                address: item.address.clone(),
                until: Instant::now() + Duration::from_secs(fetch.seconds),
                asks: known_as(&self.context, &self.lane.host).await.join(" "),
            });
        }
        let OpenQuestion { until, asks, .. } = self.sending.asking.clone()?;
        // Looked at before the question: work that ends meanwhile is noticed by the next one.
        let at_work = self.gates.is_at_work(&fetch.host) && fetch.host != self.lane.host;
        let left = until.saturating_duration_since(Instant::now());
        // A script that waits there must not wait longer than the time that is left.
        let seconds = left.as_secs().max(1);
        let script = format!("CV_FETCH_SECONDS={seconds} CV_FETCH_FOR={}\n{}", quote(&asks), fetch.script);
        let reply = self.ask_for(&fetch, &script, at_work).await;
        let late = Instant::now() >= until;
        match reply {
            OtherHostAnswer::Here(reply) => {
                self.sending.asking = None;
                Some(reply)
            }
            OtherHostAnswer::NotYet(why) if !late => {
                if first {
                    let on = format!("{} of {}: {why}", fetch.what, fetch.host);
                    let event = Event::Waiting { host: self.lane.host.clone(), role: item.role.clone(), on };
                    self.context.events.send(event);
                }
                None
            }
            OtherHostAnswer::NotYet(why) => {
                let within = fetch.seconds;
                self.report_missing(&item, &fetch, &format!("not within {within} s: {why}")).await;
                None
            }
            OtherHostAnswer::Never(why) => {
                self.report_missing(&item, &fetch, &why).await;
                None
            }
        }
    }

    async fn report_missing(&mut self, item: &Item, fetch: &OtherHostQuestion, why: &str) {
        self.sending.asking = None;
        let mut message = format!("{} did not provide {}: {why}", fetch.host, fetch.what);
        if let Some(given_up) = self.give_up(fetch).await {
            message.push_str(&format!("; {given_up}"));
        }
        self.finish(item, ItemResult::Failed { message, output: String::new() }, &[], Duration::ZERO);
    }

    /// Takes back what the other host has begun, and says what became of that.
    async fn give_up(&self, fetch: &OtherHostQuestion) -> Option<String> {
        let script = fetch.give_up.as_ref()?;
        let link = crate::connect::sessions::link(&self.context, &fetch.host).await.ok()?;
        let result = link.ask_beside(script, ANSWER).await.ok()?;
        let reply = if result.success() { &result.output } else { &result.stderr };
        let text = String::from_utf8_lossy(reply).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    async fn ask_for(&self, fetch: &OtherHostQuestion, script: &str, at_work: bool) -> OtherHostAnswer {
        let link = match crate::connect::sessions::link(&self.context, &fetch.host).await {
            Ok(link) => link,
            Err(lost) => return OtherHostAnswer::Never(lost.to_string()),
        };
        let result = match link.ask_beside(script, ANSWER).await {
            Ok(result) => result,
            // A host at work may be restarting: its lane brings the session back.
            Err(error) if at_work => return OtherHostAnswer::NotYet(error.to_string()),
            Err(error) => return OtherHostAnswer::Never(link.lost(&error).to_string()),
        };
        let why = || last_words(&result.stderr);
        match result.outcome {
            ShellOutcome::Finished { status: Status::Exited(0), .. } => {
                OtherHostAnswer::Here(Bytes::from(result.output))
            }
            ShellOutcome::Finished { status: Status::Exited(FETCH_NOT_READY), .. } => {
                OtherHostAnswer::NotYet(why())
            }
            ShellOutcome::Finished { status: Status::Exited(FETCH_NOT_MADE), .. } if at_work => {
                OtherHostAnswer::NotYet(why())
            }
            ShellOutcome::Finished { status: Status::TimedOut, .. } => {
                OtherHostAnswer::NotYet(format!("no answer within {ANSWER} s"))
            }
            ShellOutcome::Finished { status: Status::Exited(FETCH_NOT_MADE), .. } => {
                OtherHostAnswer::Never(format!("{}; this run makes no further request to that host", why()))
            }
            _ => OtherHostAnswer::Never(why()),
        }
    }
}
