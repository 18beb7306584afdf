//! Runners of GitHub's controller that are to use GPUs.

use super::super::view::{
    AMD, ClusterView, Maker, NVIDIA, few, full, list, name, offers, takes, text, tolerates,
};
use super::{Diagnosis, Health};
use serde_json::Value;

/// They ask for a GPU, and no node with GPUs takes them.
pub(in super::super) const PLACE: Diagnosis = Diagnosis {
    step: "runners",
    symptom: "jobs for GPU runners stay queued, and their pods Pending",
    cause: "the runners ask for a GPU, and their nodeSelector or tolerations fit no node that offers one",
    help: "give the set the toleration of the GPU nodes' taint, and a selector that they have",
    role: Some("arc_runner_set"),
    look: place,
};

/// They are sent to nodes with GPUs, and ask for none.
pub(in super::super) const REQUEST: Diagnosis = Diagnosis {
    step: "runners",
    symptom: "a job on a GPU runner finds no GPU: `nvidia-smi` is not there, `torch.cuda.is_available()` is False",
    cause: "the runners are placed on nodes with GPUs, and no container of theirs asks for one",
    help: "ask for it in the set: `resources.limits` with nvidia.com/gpu or amd.com/gpu, of the container `runner`",
    role: Some("arc_runner_set"),
    look: request,
};

fn spec(set: &Value) -> &Value {
    set.pointer("/spec/template/spec").unwrap_or(&Value::Null)
}

/// Whether a container of the set's runners asks for this resource.
fn asks(set: &Value, maker: &Maker) -> bool {
    list(spec(set), "/containers").iter().any(|container| {
        ["limits", "requests"].iter().any(|which| {
            let amount =
                container.pointer(&format!("/resources/{which}")).and_then(|all| all.get(maker.resource));
            amount.is_some_and(|amount| amount.as_str() != Some("0") && amount.as_u64() != Some(0))
        })
    })
}

/// The taint of the node that keeps the runners out.
fn refusing<'a>(set: &Value, node: &'a Value) -> Option<&'a Value> {
    let hard = |taint: &&Value| text(taint, "/effect") != "PreferNoSchedule";
    list(node, "/spec/taints").iter().filter(hard).find(|taint| !tolerates(spec(set), taint))
}

fn place(view: &ClusterView) -> Option<(Health, String)> {
    view.runner_sets.iter().find_map(|set| {
        let maker = [&NVIDIA, &AMD].into_iter().find(|maker| asks(set, maker))?;
        let offering: Vec<&Value> = view.nodes_of(maker).filter(|node| offers(node, maker)).collect();
        let selected: Vec<&&Value> = offering.iter().filter(|node| takes(spec(set), node)).collect();
        if offering.is_empty() || selected.iter().any(|node| refusing(set, node).is_none()) {
            return None;
        }
        let why = match selected.first().and_then(|node| Some((node, refusing(set, node)?))) {
            Some((node, taint)) => {
                format!(
                    "they do not tolerate {}:{} of {}",
                    text(taint, "/key"),
                    text(taint, "/effect"),
                    name(node)
                )
            }
            None => "no such node has what their nodeSelector asks for".to_owned(),
        };
        Some((
            Health::Ill,
            format!("no node with {} takes the runners of {}: {why}", maker.resource, full(set)),
        ))
    })
}

fn request(view: &ClusterView) -> Option<(Health, String)> {
    let wrong = view.runner_sets.iter().filter(|set| {
        let placed = |maker: &Maker| {
            let names_taint = list(spec(set), "/tolerations")
                .iter()
                .any(|toleration| text(toleration, "/key") == maker.resource);
            let mut with = view.nodes.iter().filter(|node| takes(spec(set), node)).peekable();
            let selects = spec(set).pointer("/nodeSelector").is_some();
            let only_such = selects
                && with.peek().is_some()
                && with.all(|node| view.nodes_of(maker).any(|other| name(other) == name(node)));
            names_taint || only_such
        };
        let makers = [&NVIDIA, &AMD];
        makers.into_iter().any(placed) && !makers.into_iter().any(|maker| asks(set, maker))
    });
    let wrong: Vec<String> = wrong.map(full).collect();
    (!wrong.is_empty()).then(|| (Health::Odd, format!("the runners of {} ask for no GPU", few(wrong))))
}
