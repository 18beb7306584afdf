//! `k8s_rollout`

use crate::restart::inputs;
use crate::target::Targets;
use converge_objects::WorkloadState;
use converge_objects::workload::Workload;
use converge_resource::{
    ApiRef, Claim, ObjectId, ParamError, Place, Resource, RunsWith, State, Stop, View, WantedStates,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Deployments, DaemonSets and StatefulSets that run with what they read, and whose pods are complete: on every node that is ready.
///
/// `restart_on` restarts them when a named resource changes. That is durable, not a notification: converge's records in the cluster hold what
/// its pods were last started with, so an interrupted run never loses a restart, and an operator that writes the workload anew takes nothing away. With no record yet, they are restarted if this run changes a named
/// resource or a named object is newer than the oldest pod; else what is there is adopted. They are restarted too when this run puts a named
/// resource back to what the record says: it is not known what the pods have read in between. Of a workload that an earlier resource changes itself
/// (another image), the new pods are waited for: it is looked at when its turn comes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sRollout {
    /// A workload or a list of them: `daemonset/nvidia-device-plugin-daemonset`.
    target: Targets,
    /// Their namespace.
    namespace: Option<String>,
    /// The names of earlier resources of this role: when one of them is no longer what the pods were started with, they are restarted.
    #[serde(default)]
    restart_on: Vec<String>,
}

impl K8sRollout {
    fn workloads(&self) -> Result<Vec<ApiRef>, ParamError> {
        self.target.find(self.namespace.as_deref())
    }
}

fn id(workload: &ApiRef) -> ObjectId {
    ObjectId::new("workload", workload.key())
}

/// The wanted state of one workload, and its record if only that is missing.
fn settle_one(
    started_with: Option<String>,
    with: Option<&RunsWith>,
    moment: Option<i64>,
) -> (WorkloadState, Option<WorkloadState>) {
    let running = |with: Option<String>| WorkloadState::Running { started_with: with, complete: true };
    let Some(with) = with else { return (running(started_with), None) };
    let fresh = || running(Some(with.digest.clone()));
    if let Some(record) = &started_with
        && digest_of(record) == with.digest
    {
        let again = || running(Some(format!("{}+{}", starts(record).saturating_add(1), with.digest)));
        return (if with.changed { again() } else { running(started_with) }, None);
    }
    let adopts = started_with.is_none() && with.was_there_at(moment);
    if adopts { (running(None), Some(fresh())) } else { (fresh(), None) }
}

/// A record is a digest, or `N+DIGEST` when the pods were started anew with the same N times.
fn digest_of(record: &str) -> &str {
    record.split_once('+').map_or(record, |(_, digest)| digest)
}

fn starts(record: &str) -> u64 {
    record.split_once('+').and_then(|(times, _)| times.parse().ok()).unwrap_or(0)
}

impl Resource for K8sRollout {
    const KIND: &'static str = "k8s_rollout";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the device plugin has read the profiles
  k8s_rollout:
    target: [daemonset/nvidia-device-plugin-daemonset, daemonset/gpu-feature-discovery]
    namespace: gpu-operator
    restart_on: [time-slicing profiles]
";

    fn validate(&self) -> Vec<ParamError> {
        let workloads = match self.workloads() {
            Ok(workloads) => workloads,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        if workloads.is_empty() {
            errors.push(ParamError::new("/target", "the list is empty", "name a workload"));
        }
        let runs = |w: &ApiRef| {
            w.api_version == "apps/v1"
                && ["Deployment", "DaemonSet", "StatefulSet"].contains(&w.kind.as_str())
        };
        for (index, workload) in workloads.iter().enumerate() {
            if !runs(workload) {
                let help = "name a deployment, a daemonset or a statefulset";
                errors.push(ParamError::new("/target", format!("{} has no rollout", workload.shown()), help));
            }
            if workloads.iter().take(index).any(|w| w == workload) {
                let message = format!("{} is named twice", workload.shown());
                errors.push(ParamError::new("/target", message, "name each once"));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for workload in self.workloads().unwrap_or_default() {
            claims.push(Claim::shared(id(&workload), "pods", "complete"));
            if !self.restart_on.is_empty() {
                // Two records in one annotation would restart it for ever.
                claims.push(Claim::exclusive(id(&workload), "started with"));
            }
        }
        claims
    }

    fn names(&self) -> Vec<String> {
        self.restart_on.clone()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let workloads = self.workloads().map_err(|e| Stop::invalid(&e.pointer, e.message))?;
        let with = inputs(view, &self.restart_on, None)?;
        let mut wanted = WantedStates::default();
        for workload in workloads {
            let object = id(&workload);
            let moment = view.observed(&object)?.moment;
            let now = view.state::<Workload>(&object.key)?;
            let WorkloadState::Running { started_with, .. } = &now else {
                return Err(not_there(view, &workload, &object));
            };
            let (state, record) = settle_one(started_with.clone(), with.as_ref(), moment);
            // Its pods are complete as it is now: what becomes of it replaces them.
            if state == now
                && let Some(wait) = view.changed(&workload.object()).or_else(|| view.may_appear(&object))
            {
                return Err(Stop::Deferred(wait));
            }
            wanted.targets.push((object.clone(), State::from(state)));
            if let Some(record) = record {
                wanted.notes.push(format!("adopt: {} runs with what is there", workload.shown()));
                wanted.adopt.push((object, record.into()));
            }
        }
        Ok(wanted)
    }
}

fn not_there(view: &dyn View, workload: &ApiRef, object: &ObjectId) -> Stop {
    // Whoever brings the workload brings it as an object of its kind, or in a release.
    let here =
        view.may_appear(object).or_else(|| view.may_appear(&workload.object())).or_else(|| view.pending());
    match here.or_else(|| view.other_targets()) {
        Some(wait) => Stop::Deferred(wait),
        None => Stop::invalid_help(
            "/target",
            format!("{} is not there, and nothing before this resource brings it", workload.shown()),
            "correct the name, or bring it with an earlier resource or a role in `requires`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use proptest::prelude::*;
    use serde_json::json;

    const KEY: &str = "apps/v1/DaemonSet/ns/x";

    fn kind() -> K8sRollout {
        read(json!({"target": "daemonset/x", "namespace": "ns", "restart_on": ["conf"]}))
    }

    fn view(line: &str, changed: bool, newest: Option<i64>) -> FakeView {
        let id = ObjectId::new("workload", KEY);
        FakeView::new()
            .has(id.clone(), State::from_line(line))
            .at(id, 100)
            .named("conf", "d1", changed, newest)
    }

    fn line(view: FakeView) -> String {
        settle(&kind(), view).line(&ObjectId::new("workload", KEY))
    }

    #[test]
    fn it_is_restarted_when_what_it_reads_is_another() {
        let fresh = line(view("running old complete", false, None));
        assert!(
            fresh.starts_with("running ") && fresh.ends_with(" complete") && !fresh.contains("old"),
            "{fresh}"
        );
        assert_eq!(line(view("running - complete", true, None)), fresh);
        assert_eq!(line(view("running - complete", false, Some(100))), fresh);
        let wanted = kind().plan(&view("running - complete", true, None)).unwrap();
        assert!(wanted.adopt.is_empty());
        let same = view(&fresh, false, Some(200));
        assert_eq!(kind().plan(&same).unwrap().targets[0].1.line(), fresh);
    }

    #[test]
    fn what_this_run_puts_back_is_read_again() {
        let digest =
            line(view("running old complete", false, None)).replace("running ", "").replace(" complete", "");
        let planned = |record: &str, changed: bool| {
            let found = view(&format!("running {record} complete"), changed, Some(200));
            kind().plan(&found).unwrap().targets[0].1.line().to_owned()
        };
        assert_eq!(planned(&digest, true), format!("running 1+{digest} complete"));
        assert_eq!(planned(&format!("1+{digest}"), true), format!("running 2+{digest} complete"));
        assert_eq!(planned(&format!("2+{digest}"), false), format!("running 2+{digest} complete"));
        assert_eq!(planned("1+old", false), format!("running {digest} complete"));
    }

    #[test]
    fn what_runs_with_what_is_there_is_adopted() {
        for newest in [None, Some(99)] {
            let wanted = kind().plan(&view("running - complete", false, newest)).unwrap();
            assert_eq!(wanted.targets[0].1.line(), "running - complete");
            assert_eq!(wanted.adopt.len(), 1);
            assert!(wanted.notes[0].starts_with("adopt: daemonset ns/x"), "{:?}", wanted.notes);
        }
    }

    #[test]
    fn without_names_it_only_waits_for_its_pods() {
        let kind = read::<K8sRollout>(json!({"target": "daemonset/x", "namespace": "ns"}));
        let wanted = kind.plan(&view("running old incomplete", true, None)).unwrap();
        assert_eq!(wanted.targets[0].1.line(), "running old complete");
        assert_eq!(kind.claims().len(), 1);
    }

    #[test]
    fn what_is_missing_is_waited_for_or_named() {
        let none = FakeView::new().named("conf", "d1", false, None);
        assert!(matches!(kind().plan(&none), Err(Stop::Invalid { pointer, .. }) if pointer == "/target"));
        let later = none.may(ObjectId::new("workload", KEY));
        assert!(matches!(kind().plan(&later), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_workload_that_this_run_changes_is_looked_at_again() {
        let object = ObjectId::new("k8s", KEY);
        let waits = |view: FakeView| matches!(kind().plan(&view), Err(Stop::Deferred(_)));
        let record = line(view("running old complete", false, None));
        assert!(waits(view(&record, false, None).changes(object.clone())));
        // Its release is changed.
        assert!(waits(view(&record, false, None).may(ObjectId::new("workload", KEY))));
        // A workload that is restarted anyway is waited for anyway.
        assert!(!waits(view("running old complete", false, None).changes(object.clone())));
        assert!(!waits(view(&record.replace("complete", "incomplete"), false, None).changes(object)));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<K8sRollout>(json!({"target": "daemonset/x"})), ["/target"]);
        assert_eq!(wrong::<K8sRollout>(json!({"target": []})), ["/target"]);
        assert_eq!(wrong::<K8sRollout>(json!({"target": "node/x"})), ["/target"]);
        let twice = json!({"target": ["ds/x", "daemonset/x"], "namespace": "n"});
        assert_eq!(wrong::<K8sRollout>(twice), ["/target"]);
    }

    proptest! {
        #[test]
        fn a_second_run_changes_nothing(
            with in prop_oneof![Just("-"), Just("old")],
            complete: bool,
            changed: bool,
            newest in proptest::option::of(90i64..110),
        ) {
            let complete = if complete { "complete" } else { "incomplete" };
            let text = line(view(&format!("running {with} {complete}"), changed, newest));
            prop_assert!(text.ends_with(" complete"), "{text}");
        }
    }
}
