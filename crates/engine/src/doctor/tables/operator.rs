//! The GPU operator and its helm release.

use super::super::view::{
    ClusterView, about, annotation, few, full, label, name, namespace, number, short, text,
};
use super::{Diagnosis, Health};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A release between two states.
pub(in super::super) const RELEASE: Diagnosis = Diagnosis {
    step: "helm",
    symptom: "helm refuses: `another operation (install/upgrade/rollback) is in progress`",
    cause: "a helm run was interrupted, or did not succeed",
    help: "let the role that has the release run again: it takes a stuck revision back first. By hand: `helm rollback`, or `helm uninstall` of a first revision",
    role: Some("gpu_operator"),
    look: |view| release(view, true),
};

/// The same of a release that some other role has.
pub(in super::super) const OTHER_RELEASE: Diagnosis =
    Diagnosis { role: None, look: |view| release(view, false), ..RELEASE };

/// `--generate-name`, twice.
pub(in super::super) const TWO: Diagnosis = Diagnosis {
    step: "operators",
    symptom: "parts of the GPU operator are made and taken away again and again",
    cause: "two GPU operators fight over the one ClusterPolicy: a release with a generated name was installed twice",
    help: "uninstall all but the one that the role has (release gpu-operator)",
    role: Some("gpu_operator"),
    look: two,
};

/// A policy that nobody's release has.
pub(in super::super) const POLICY: Diagnosis = Diagnosis {
    step: "policy",
    symptom: "the GPU operator ignores the chart's values, or `helm install` refuses to adopt the ClusterPolicy",
    cause: "the ClusterPolicy does not belong to the installed helm release: made by hand, or left by a release that is gone",
    help: "delete it with `kubectl delete clusterpolicy NAME` (GPU pods run on) and let the role install the operator",
    role: Some("gpu_operator"),
    look: policy,
};

/// A quota where DaemonSets run.
pub(in super::super) const QUOTA: Diagnosis = Diagnosis {
    step: "quota",
    symptom: "new GPU nodes get no device plugin: `exceeded quota`",
    cause: "a ResourceQuota in the namespace of the GPU parts: their DaemonSets grow with every node",
    help: "take the quota away, or raise it with the number of nodes",
    role: None,
    look: quota,
};

/// A namespace that forbids privileged pods.
pub(in super::super) const SECURITY: Diagnosis = Diagnosis {
    step: "security",
    symptom: "the GPU parts' pods are not made: `violates PodSecurity`",
    cause: "the namespace does not allow privileged pods, and the GPU parts are such",
    help: "the namespace needs the label pod-security.kubernetes.io/enforce: privileged",
    role: Some("gpu_operator"),
    look: security,
};

/// The release of the role gpu_operator, or all others.
fn release(view: &ClusterView, operators: bool) -> Option<(Health, String)> {
    let mut newest: BTreeMap<(&str, &str), (u64, &str)> = BTreeMap::new();
    for secret in &view.releases {
        let (Some(release), Some(status)) = (label(secret, "name"), label(secret, "status")) else {
            continue;
        };
        let version = label(secret, "version").and_then(|text| text.parse().ok()).unwrap_or(0);
        let entry = newest.entry((namespace(secret), release)).or_default();
        if version >= entry.0 {
            *entry = (version, status);
        }
    }
    let bad = |status: &str| status.starts_with("pending-") || matches!(status, "failed" | "uninstalling");
    let stuck: Vec<String> = newest
        .iter()
        .filter(|((_, name), (_, status))| bad(status) && (*name == "gpu-operator") == operators)
        .map(|((place, name), (version, status))| format!("{place}/{name} revision {version} is {status}"))
        .collect();
    (!stuck.is_empty()).then(|| (Health::Ill, few(stuck)))
}

fn two(view: &ClusterView) -> Option<(Health, String)> {
    (view.operators.len() > 1).then(|| {
        (
            Health::Ill,
            format!("{} GPU operators: {}", view.operators.len(), few(view.operators.iter().map(full))),
        )
    })
}

fn policy(view: &ClusterView) -> Option<(Health, String)> {
    let policies = view.policies.as_ref()?;
    if policies.len() > 1 {
        return Some((
            Health::Ill,
            format!("{} ClusterPolicies: {}", policies.len(), few(policies.iter().map(name))),
        ));
    }
    let policy = policies.first()?;
    let Some(release) = annotation(policy, "meta.helm.sh/release-name") else {
        return Some((
            Health::Odd,
            format!("ClusterPolicy {} does not belong to a helm release", name(policy)),
        ));
    };
    let there: BTreeSet<&str> = view.releases.iter().filter_map(|secret| label(secret, "name")).collect();
    (!there.contains(release)).then(|| {
        (
            Health::Ill,
            format!("ClusterPolicy {} is of helm release {release}, which is not there", name(policy)),
        )
    })
}

fn quota(view: &ClusterView) -> Option<(Health, String)> {
    let places = view.gpu_namespaces();
    let quota = view.quotas.iter().find(|quota| places.contains(namespace(quota)))?;
    let own = |event: &&Value| places.contains(text(event, "/involvedObject/namespace"));
    if let Some(event) = view.warnings(&["exceeded quota"]).find(own) {
        return Some((
            Health::Ill,
            format!("ResourceQuota {} refuses pods of {}", full(quota), about(event)),
        ));
    }
    let count = |which: &str| number(quota.pointer(&format!("/status/{which}/pods")));
    let used = match (count("used"), count("hard")) {
        (Some(used), Some(hard)) => format!(": {used} of {hard} pods"),
        _ => String::new(),
    };
    Some((Health::Odd, format!("ResourceQuota {}{used}", full(quota))))
}

fn security(view: &ClusterView) -> Option<(Health, String)> {
    let places = view.gpu_namespaces();
    let own = |event: &&Value| places.contains(text(event, "/involvedObject/namespace"));
    let event = view.warnings(&["violates PodSecurity"]).find(own)?;
    Some((Health::Ill, format!("{}: {}", about(event), short(text(event, "/message")))))
}
