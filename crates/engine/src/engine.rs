//! The engine: what can be done with a project and its targets. Nothing in this crate uses it.

use crate::amend::{Amendment, AmendmentRun};
use crate::context::RunContext;
use crate::plan::source::role_graph;
use crate::recorded::HostRecording;
use crate::session::pool::Pool;
use crate::tasks::side_by_side;
use crate::{
    ApplyReport, EventSink, FleetPlan, HostAnswer, HostDoctor, HostManaged, HostRan, HostSnapshots,
    HostVerify, ItemClaims, ManagedDetail, Options, Steps, StopSwitch, TargetError,
};
use camino::{Utf8Path, Utf8PathBuf};
use converge_model::Project;
use converge_planner::RoleGraph;
use converge_resource::{ObjectId, RunAnswer, State};
use converge_ssh::KeyFileError;
use converge_syntax::{Diagnostics, Span};
use secrecy::SecretString;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Looks, plans, applies, verifies, rolls back. Sessions stay open from one to the next.
pub struct Engine(RunContext);

impl Engine {
    /// An engine for this project. Nothing is contacted yet.
    ///
    /// # Errors
    /// Roles that require each other in a circle.
    pub fn new(project: Project, options: Options, events: EventSink) -> Result<Self, Diagnostics> {
        let graph = Arc::new(role_graph(&project)?);
        let ssh = converge_ssh::SessionOptions {
            accept_new: options.accept_new_host_keys,
            ..converge_ssh::SessionOptions::default()
        };
        let pool = Arc::new(Pool::new(options.forks, ssh));
        Ok(Self(RunContext { project: Arc::new(project), graph, options, events, pool }))
    }

    /// The context of one verb: its tasks share it.
    fn context(&self) -> Arc<RunContext> {
        Arc::new(self.0.clone())
    }

    /// The graph of the project's roles.
    pub fn graph(&self) -> &RoleGraph<Span> {
        &self.0.graph
    }

    /// The targets of this run, hosts and clusters, in inventory order.
    pub fn hosts(&self) -> Vec<String> {
        self.0.targets().to_vec()
    }

    /// The path of the playbook.
    pub fn playbook(&self) -> String {
        self.0.project.playbook().path.to_string()
    }

    /// Lets a person decide before each item or each role of an apply.
    pub fn ask_before(&mut self, steps: Steps) {
        self.0.options.steps = Some(steps);
    }

    /// Has hosts report the parts of each item's work.
    pub fn tell_phases(&mut self) {
        self.0.options.phases = true;
    }

    /// Lets what follows destroy these things, by ID, though nothing keeps them.
    pub fn allow_destroy(&mut self, ids: Vec<String>) {
        self.0.options.allow_destroy = ids;
    }

    /// Key files on the ways to the hosts of this run that need a passphrase, and are not in the ssh-agent. Contacts no host.
    pub async fn locked_keys(&self) -> Vec<Utf8PathBuf> {
        crate::connect::endpoints::locked_keys(&self.0).await
    }

    /// Unlocks a key for all hosts; false when this is not its passphrase.
    ///
    /// # Errors
    /// The file cannot be read, or others can write or read it too.
    pub fn unlock(&self, key: &Utf8Path, passphrase: &SecretString) -> Result<bool, KeyFileError> {
        self.0.pool.ssh.keys.unlock(key, passphrase)
    }

    /// Two owners of one thing, wrong parameters: all that shows without a host, on all hosts.
    ///
    /// # Errors
    /// All diagnostics, when every host has some.
    pub fn check_without_hosts(&self) -> Result<(), Diagnostics> {
        crate::plan::check::check_without_hosts(&self.0)
    }

    /// Everything that is known to be wrong without contact to any host: of connections, values and resources, on whichever host.
    #[must_use]
    pub fn validate(&self) -> Diagnostics {
        let mut found = self.0.project.connection_errors();
        for complaint in crate::plan::check::found_without_hosts(&self.0).0 {
            if !found.iter().any(|known| *known == complaint) {
                found.push(complaint);
            }
        }
        found
    }

    /// Looks at every host and plans. Changes nothing anywhere.
    ///
    /// # Errors
    /// The errors of the project, found without any host: nothing was contacted then.
    pub async fn plan(&self) -> Result<FleetPlan, Diagnostics> {
        crate::plan::plan_fleet(&self.context()).await
    }

    /// Applies a plan: what it shows is what happens, or it is refused by name.
    pub async fn apply(&self, plan: FleetPlan, stop: StopSwitch) -> ApplyReport {
        crate::apply::fleet::apply(&self.context(), plan, stop).await
    }

    /// Runs the `verify` items of all roles of this run. Changes nothing.
    pub async fn verify(&self) -> Vec<HostVerify> {
        crate::verify::verify(&self.context()).await
    }

    /// Runs the `verify` items of those roles that still have something of theirs on these hosts, as after a rollback. Changes nothing.
    pub async fn verify_what_is_in_place(&self, hosts: &[String]) -> Vec<HostVerify> {
        crate::verify::verify_what_is_in_place(&self.context(), hosts).await
    }

    /// The snapshots of every host, newest first.
    pub async fn snapshots(&self) -> Vec<HostSnapshots> {
        crate::snapshots::snapshots(&self.context()).await
    }

    /// The managed objects of every target, as its records tell, and whether they are still as runs left them where that is compared.
    pub async fn managed_objects(&self, detail: ManagedDetail) -> Vec<HostManaged> {
        crate::managed_objects::managed_objects(&self.context(), detail).await
    }

    /// Takes objects of targets out of management. Nothing else on the targets changes, but the owners of the fields of objects of a cluster.
    pub async fn amend(&self, chosen: Vec<(String, Amendment)>) -> AmendmentRun {
        crate::amend::amend(&self.context(), chosen).await
    }

    /// Plans a rollback: to the state before the run `to` (its ID, or the beginning of it), or before the newest run of this project that is in force.
    /// `roles` narrows it to items of these roles.
    ///
    /// # Errors
    /// A run that no host knows, that is not unique, or that is of another project.
    pub async fn plan_rollback(&self, to: Option<&str>, roles: &[String]) -> Result<FleetPlan, Diagnostics> {
        crate::rollback::plan_rollback(&self.context(), to, roles).await
    }

    /// The facts of all hosts of this run, those of [`crate::FACT_GROUPS`] for which `wanted` holds among them. Changes nothing.
    pub async fn gather_facts(&self, wanted: impl Fn(&str) -> bool) -> Vec<HostAnswer> {
        crate::plan::facts::gather_facts(&self.context(), wanted).await
    }

    /// Looks at the way into every host of this run, and at what a run needs there; then at the clusters that are reached through
    /// these hosts. Changes nothing.
    pub async fn doctor(&self) -> Vec<HostDoctor> {
        crate::doctor::doctor(&self.context()).await
    }

    /// Runs shell text on every host of this run, at most `forks` at once. `observed` gets what is written as it comes:
    /// whether it is standard error, bytes. A command that takes longer than `limit` is ended on its host.
    pub async fn run_command(
        &self,
        script: &str,
        limit: Duration,
        observed: &(dyn Fn(bool, &[u8]) + Sync),
    ) -> Vec<HostRan> {
        crate::ad_hoc::run_command(&self.context(), script, limit, observed).await
    }

    /// Runs a shell script on a host with the privilege of the run. For tests of roles: a plan never does.
    ///
    /// # Errors
    /// The host is lost, or the script took longer than `limit`.
    pub async fn script(&self, host: &str, script: &str, limit: Duration) -> Result<RunAnswer, TargetError> {
        crate::role_testing::script(&self.0, host, script, limit).await
    }

    /// Lets a host keep the records of all runs of this session, instead of the newest few: a test makes many, and rolls back to
    /// before the first.
    ///
    /// # Errors
    /// The host is lost.
    pub async fn keep_all_runs(&self, host: &str) -> Result<(), TargetError> {
        crate::role_testing::keep_all_runs(&self.0, host).await
    }

    /// The present states of objects on a host; those that cannot be read are left out.
    ///
    /// # Errors
    /// The host is lost.
    pub async fn states(
        &self,
        host: &str,
        objects: &BTreeSet<ObjectId>,
    ) -> Result<BTreeMap<ObjectId, State>, TargetError> {
        crate::role_testing::states(&self.0, host, objects).await
    }

    /// The claims of every item of a host, as a fresh look resolves it. Items that cannot be resolved are left out.
    ///
    /// # Errors
    /// The host is lost.
    pub async fn claims(&self, host: &str) -> Result<Vec<ItemClaims>, TargetError> {
        crate::role_testing::claims(&self.0, host).await
    }

    /// Plans like [`Engine::plan`], and keeps what every host answered; what clusters answer is not kept. Contents and answers that belong to sensitive items are
    /// left out.
    ///
    /// # Errors
    /// The errors of the project.
    pub async fn plan_and_record(&self) -> Result<(FleetPlan, BTreeMap<String, HostRecording>), Diagnostics> {
        crate::role_testing::plan_and_record(&self.0).await
    }

    /// Plans against recorded answers; no host is contacted. Objects that the recording does not know are taken for absent;
    /// they come back by host. Scripts that it does not know make the items that ask them fail.
    ///
    /// # Errors
    /// The errors of the project.
    pub fn plan_recorded(
        &self,
        recordings: &BTreeMap<String, HostRecording>,
    ) -> Result<(FleetPlan, BTreeMap<String, Vec<ObjectId>>), Diagnostics> {
        crate::role_testing::plan_recorded(&self.0, recordings)
    }

    /// Ends all sessions.
    pub async fn close(self) {
        let links = std::mem::take(&mut *self.0.pool.links.lock().await);
        let closing = links.into_values().filter_map(Arc::into_inner).map(|link| {
            // A host that no longer answers must not hold up the end.
            tokio::time::timeout(Duration::from_secs(2), link.close())
        });
        side_by_side(closing.collect()).await;
    }
}
