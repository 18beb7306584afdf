//! The data that all targets of a run share. Every step of a run takes it; it knows no step.

use crate::event::InProgress;
use crate::session::pool::Pool;
use crate::{Activity, Event, EventSink, Options, Traffic};
use converge_ledger::{ProjectName, ProjectScope};
use converge_model::Project;
use converge_planner::RoleGraph;
use converge_syntax::Span;
use std::sync::Arc;

/// The data that all targets of a run share. A clone shares the project and the sessions.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub project: Arc<Project>,
    pub graph: Arc<RoleGraph<Span>>,
    pub options: Options,
    pub events: EventSink,
    pub pool: Arc<Pool>,
}

impl RunContext {
    /// Waits until this host may be worked on too.
    pub async fn permit(&self, host: &str) -> Option<tokio::sync::SemaphorePermit<'_>> {
        if let Ok(permit) = self.pool.forks.try_acquire() {
            return Some(permit);
        }
        let _waits = self.begin(host, Activity::Turn);
        self.pool.forks.acquire().await.ok()
    }

    /// Reports that an activity on this target begins; it ends with what comes back.
    pub fn begin(&self, host: &str, activity: Activity) -> InProgress {
        InProgress::begin(&self.events, Some(host), activity)
    }

    /// Reports the traffic with a host so far.
    pub fn tell_traffic(&self, host: &str, traffic: Option<Traffic>) {
        if let Some(traffic) = traffic {
            self.events.send(Event::Traffic { host: host.to_owned(), traffic });
        }
    }

    /// The same as [`Self::begin`] for work on all targets.
    pub fn begin_all(&self, activity: Activity) -> InProgress {
        InProgress::begin(&self.events, None, activity)
    }

    /// The machines of this run: its hosts, and those through which its clusters are reached.
    pub fn machines(&self) -> Vec<String> {
        let mut machines: Vec<String> = Vec::new();
        for name in self.project.hosts() {
            let own = [name.clone()];
            for host in self.project.entry_hosts(name).unwrap_or(&own) {
                if !machines.contains(host) {
                    machines.push(host.clone());
                }
            }
        }
        machines
    }

    /// The targets of this run, hosts and clusters, in inventory order.
    pub fn targets(&self) -> &[String] {
        self.project.hosts()
    }

    /// The name of the project for a host: that of the inventory's `converge_project`, with the places of the files below the project.
    pub fn scope(&self, host: &str) -> ProjectName {
        let ProjectName { playbook, inventory } = &self.options.scope;
        match self.project_name(host) {
            Some(name) => ProjectName {
                playbook: format!("{name}:{playbook}"),
                inventory: format!("{name}:{inventory}"),
            },
            None => self.options.scope.clone(),
        }
    }

    /// `converge_project` of the inventory, where it says one.
    pub fn project_name(&self, host: &str) -> Option<String> {
        let named = self.project.host_var(host, "converge_project").ok().flatten();
        named.and_then(|node| node.scalar_text()).filter(|name| !name.is_empty())
    }

    /// The same, as it is compared with records.
    pub fn project_of(&self, host: &str) -> ProjectScope {
        ProjectScope(self.scope(host))
    }
}

/// The present moment, RFC 3339 UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
