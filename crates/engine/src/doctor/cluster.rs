//! Asks a cluster's API server for what the diagnoses look at: lists, side by side, in two rounds.

use super::seen::{Seen, text};
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
    let mut seen = Seen::default();
    first_round(&target, &mut seen, &mut unanswered).await?;
    second_round(&target, &mut seen, &mut unanswered).await?;
    match unanswered.first() {
        None => {
            let found =
                format!("answers; {}, {} with GPUs", counted(seen.nodes.len(), "node"), seen.with_gpus());
            chart.findings.push(Finding::new("api", Health::Well, found));
        }
        Some(why) => {
            let finding = Finding::new("api", Health::Odd, format!("did not tell everything: {why}"));
            chart
                .findings
                .push(finding.help("what could not be asked is not examined: may this user list it?"));
        }
    }
    chart.findings.extend(tables::diagnose(&seen));
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
    seen: &mut Seen,
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
    seen.nodes = next().unwrap_or_default();
    seen.daemon_sets = next().unwrap_or_default();
    seen.operators = next().unwrap_or_default();
    seen.runtime_classes = next().unwrap_or_default();
    seen.policies = next();
    seen.releases = next().unwrap_or_default();
    // A Secret's labels tell what is wanted; its values are not kept.
    for release in &mut seen.releases {
        if let Some(secret) = release.as_object_mut() {
            secret.remove("data");
        }
    }
    seen.events = next().unwrap_or_default();
    seen.events.retain(|event| text(event, "/type") == "Warning");
    seen.quotas = next().unwrap_or_default();
    seen.nims = next().unwrap_or_default();
    seen.nims.extend(next().unwrap_or_default());
    seen.runner_sets = next().unwrap_or_default();
    Ok(())
}

async fn second_round(
    target: &Target,
    seen: &mut Seen,
    unanswered: &mut Vec<String>,
) -> Result<(), TargetError> {
    let mut places = seen.gpu_namespaces();
    places.extend(seen.nim_namespaces());
    places.insert("kube-system");
    let stuck = seen.events.iter().filter(|event| {
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
        seen.configs().iter().map(|(place, name)| get("ConfigMap", place, name)).collect();
    let all: Vec<Probe> = pods.iter().chain(&configs).cloned().collect();
    let mut answers = ask(target, &all, unanswered).await?;
    let maps = answers.split_off(pods.len());
    seen.pods = answers.into_iter().flatten().flatten().collect();
    seen.config_maps = maps.into_iter().flatten().flatten().collect();
    Ok(())
}
