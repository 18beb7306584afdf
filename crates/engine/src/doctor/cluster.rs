//! Asks a cluster's API server for what the diagnoses look at: lists, side by side, in two rounds.

use super::view::{ClusterView, text};
use super::{Finding, Health, HostDoctor, tables};
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::{Event, TargetError};
use converge_planner::{Knowledge, Summary};
use converge_resource::{Answer, ApiProbe, ApiRef, Probe, counted};
use serde_json::Value;
use std::collections::BTreeSet;

/// Pods of which an event says that they do not start, that are looked at one by one.
const STUCK_PODS: usize = 50;

/// helm keeps every revision; only what is or was to be the newest is asked for.
const RELEASES: &str = "owner=helm,status notin (superseded,uninstalled)";

fn list(api_version: &str, kind: &str, namespace: Option<&str>, labels: Option<&str>) -> Probe {
    let own = str::to_owned;
    Probe::Api(ApiProbe::List {
        api_version: own(api_version),
        kind: own(kind),
        namespace: namespace.map(own),
        labels: labels.map(own),
    })
}

fn get(kind: &str, namespace: &str, name: &str) -> Probe {
    Probe::Api(ApiProbe::Get(ApiRef {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }))
}

pub(crate) async fn examine_cluster(context: &RunContext, name: &str) -> HostDoctor {
    let mut chart = HostDoctor {
        host: name.to_owned(),
        address: String::new(),
        findings: Vec::new(),
        unreachable: false,
        cluster: true,
    };
    match look_at_cluster(context, name, &mut chart).await {
        Ok(()) => {}
        Err(lost) => {
            chart.unreachable = lost.is_unreachable();
            chart.findings.push(Finding::new("api", Health::Ill, lost.to_string()));
        }
    }
    context.events.send(Event::Planned { host: name.to_owned(), summary: Summary::default() });
    chart
}

async fn look_at_cluster(
    context: &RunContext,
    name: &str,
    chart: &mut HostDoctor,
) -> Result<(), TargetError> {
    let target = crate::connect::target::connect(context, name).await?;
    if let Some(why) = target.absent(context).await? {
        let finding = Finding::new("api", Health::Odd, why);
        chart.findings.push(finding.help("a run with the role k8s makes the cluster").role("k8s"));
        return Ok(());
    }
    let mut unanswered = Vec::new();
    let mut view = ClusterView::default();
    first_round(&target, &mut view, &mut unanswered).await?;
    second_round(&target, &mut view, &mut unanswered).await?;
    match unanswered.first() {
        None => {
            let found =
                format!("answers; {}, {} with GPUs", counted(view.nodes.len(), "node"), view.with_gpus());
            chart.findings.push(Finding::new("api", Health::Well, found));
        }
        Some(why) => {
            let finding =
                Finding::new("api", Health::Odd, format!("some objects could not be listed: {why}"));
            chart.findings.push(finding.help("these objects are not examined: may this user list them?"));
        }
    }
    chart.findings.extend(tables::diagnose(&view));
    Ok(())
}

/// Asks for lists; what is not answered is an empty list, and is said.
async fn ask(
    target: &Target,
    probes: &[Probe],
    unanswered: &mut Vec<String>,
) -> Result<Vec<Option<Vec<Value>>>, TargetError> {
    let mut known = Knowledge::default();
    target.look(&probes.iter().cloned().collect::<BTreeSet<_>>(), &mut known).await?;
    let answer = |probe: &Probe| match known.answer(probe) {
        Some(Answer::Api(Value::Array(items))) => Some(items.clone()),
        Some(Answer::Api(Value::Null)) | None => None,
        Some(Answer::Api(object)) => Some(vec![object.clone()]),
        Some(Answer::Failed(why)) => {
            unanswered.push(why.clone());
            None
        }
        Some(_) => None,
    };
    Ok(probes.iter().map(answer).collect())
}

async fn first_round(
    target: &Target,
    view: &mut ClusterView,
    unanswered: &mut Vec<String>,
) -> Result<(), TargetError> {
    let probes = [
        list("v1", "Node", None, None),
        list("apps/v1", "DaemonSet", None, None),
        list("apps/v1", "Deployment", None, Some("app=gpu-operator")),
        list("node.k8s.io/v1", "RuntimeClass", None, None),
        list("nvidia.com/v1", "ClusterPolicy", None, None),
        list("v1", "Secret", None, Some(RELEASES)),
        list("v1", "Event", None, None),
        list("v1", "ResourceQuota", None, None),
        list("apps.nvidia.com/v1alpha1", "NIMCache", None, None),
        list("apps.nvidia.com/v1alpha1", "NIMService", None, None),
        list("actions.github.com/v1alpha1", "AutoscalingRunnerSet", None, None),
    ];
    let mut answers = ask(target, &probes, unanswered).await?.into_iter();
    let mut next = || answers.next().flatten();
    view.nodes = next().unwrap_or_default();
    view.daemon_sets = next().unwrap_or_default();
    view.operators = next().unwrap_or_default();
    view.runtime_classes = next().unwrap_or_default();
    view.policies = next();
    view.releases = next().unwrap_or_default();
    // A Secret's labels tell what is wanted; its values are not kept.
    for release in &mut view.releases {
        if let Some(secret) = release.as_object_mut() {
            secret.remove("data");
        }
    }
    view.events = next().unwrap_or_default();
    view.events.retain(|event| text(event, "/type") == "Warning");
    view.quotas = next().unwrap_or_default();
    view.nims = next().unwrap_or_default();
    view.nims.extend(next().unwrap_or_default());
    view.runner_sets = next().unwrap_or_default();
    Ok(())
}

async fn second_round(
    target: &Target,
    view: &mut ClusterView,
    unanswered: &mut Vec<String>,
) -> Result<(), TargetError> {
    let mut places = view.gpu_namespaces();
    places.extend(view.nim_namespaces());
    places.insert("kube-system");
    let stuck = view.events.iter().filter(|event| {
        let kind = text(event, "/involvedObject/kind");
        kind == "Pod" && !places.contains(text(event, "/involvedObject/namespace"))
    });
    let stuck: BTreeSet<Probe> = stuck
        .map(|event| {
            get("Pod", text(event, "/involvedObject/namespace"), text(event, "/involvedObject/name"))
        })
        .take(STUCK_PODS)
        .collect();
    let pods: Vec<Probe> =
        places.iter().map(|place| list("v1", "Pod", Some(place), None)).chain(stuck).collect();
    let configs: Vec<Probe> =
        view.configs().iter().map(|(place, name)| get("ConfigMap", place, name)).collect();
    let all: Vec<Probe> = pods.iter().chain(&configs).cloned().collect();
    let mut answers = ask(target, &all, unanswered).await?;
    let maps = answers.split_off(pods.len());
    view.pods = answers.into_iter().flatten().flatten().collect();
    view.config_maps = maps.into_iter().flatten().flatten().collect();
    Ok(())
}
