//! The whole cluster of a scenario: before the gates the role `k8s` makes it of the scenario's hosts.

use crate::cluster::{self, ClusterFault};
use crate::cluster_spec::ClusterSpec;
use crate::expect::Complaint;
use crate::hosts::ScenarioHosts;
use crate::judge;
use crate::report::Mismatch;
use converge_engine::{Engine, HostResult, StopSwitch};
use converge_lab::kube::{Kubectl, pod_routes};
use converge_lab::{Host, LabError};
use tokio::sync::Mutex;

/// Paths that a node's kubelet, container runtime and etcd write by themselves, in addition to [`crate::NOISE`].
pub(crate) const NOISE: &[&str] =
    &["/var/lib/etcd/", "/var/lib/kubelet/", "/var/lib/containerd/", "/var/lib/cni/"];

/// Where every host finds the administrator's kubeconfig.
pub(crate) const KUBECONFIG: &str = "/run/converge-test/admin.conf";

/// Two clusters at once are more than a small machine can start in time.
static TURN: Mutex<()> = Mutex::const_new(());

/// The timeout of a wait, as an option of kubectl.
const LIMIT: &str = "--timeout=180s";

/// Lets an engine with the given roles make the cluster, and waits until it is at rest.
pub(crate) async fn raise(
    engine: Engine,
    hosts: &ScenarioHosts,
    spec: &ClusterSpec,
) -> Result<(), Vec<Mismatch>> {
    let _turn = TURN.lock().await;
    let made = apply(&engine).await;
    engine.close().await;
    made?;
    let Some(api) = &hosts.kubectl else { return Ok(()) };
    let ready = ready(api, &hosts.nodes()).and_then(|()| cluster::objects(api, spec));
    ready
        .map_err(|fault| vec![Mismatch::new("the whole cluster does not come up").lines([fault.to_string()])])
}

async fn apply(engine: &Engine) -> Result<(), Vec<Mismatch>> {
    let plan = engine.plan().await.map_err(|found| crate::expect::complaints(&found))?;
    let lost = plan.hosts.iter().filter_map(|host| match &host.result {
        HostResult::Lost(lost) => Some(Mismatch::new(lost.to_string())),
        HostResult::Planned(_) => None,
    });
    let failed = Complaint::of_plan(&plan);
    let mut wrong: Vec<Mismatch> = failed
        .iter()
        .map(|why| Mismatch::new("the whole cluster cannot be made").lines([why.shown()]))
        .collect();
    wrong.extend(lost);
    if wrong.is_empty() {
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        wrong = judge::applied(&report, &plan);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Waits until pods run on every node and reach those of the others.
fn ready(api: &Kubectl, nodes: &[Host]) -> Result<(), ClusterFault> {
    api.reply(&["wait", "--for=condition=Ready", "node", "--all", LIMIT])?;
    if nodes.len() == 1 {
        // There is no other node for pods.
        api.reply(&["taint", "node", "--all", "node-role.kubernetes.io/control-plane-"])?;
    }
    let runs = |what: &str| api.reply(&["--namespace=kube-system", "rollout", "status", what, LIMIT]);
    runs("daemonset/kube-proxy")?;
    let networks = nodes
        .iter()
        .map(|host| api.reply(&["get", "node", host.name(), "--output=jsonpath={.spec.podCIDR}"]))
        .collect::<Result<Vec<String>, LabError>>()?;
    let networks: Vec<(&Host, &str)> = nodes.iter().zip(networks.iter().map(String::as_str)).collect();
    pod_routes(&networks)?;
    runs("deployment/coredns")?;
    administrator(nodes)
}

/// Gives every host the administrator's kubeconfig, for the commands of a scenario.
fn administrator(nodes: &[Host]) -> Result<(), ClusterFault> {
    let Some(first) = nodes.first() else { return Ok(()) };
    let text = first.exec("cat /etc/kubernetes/admin.conf")?.stdout;
    let script = format!("umask 077; mkdir -p \"$(dirname {KUBECONFIG})\" && cat >{KUBECONFIG}");
    for host in nodes {
        let output = host.exec_with_input(&script, text.as_bytes())?;
        if !output.success() {
            let (host, reply) = (host.name().to_owned(), output.stderr.trim().to_owned());
            return Err(ClusterFault::Kubeconfig { host, reply });
        }
    }
    Ok(())
}
