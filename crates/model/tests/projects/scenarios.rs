//! The scenarios that show the reference systems run the roles of the systems' playbooks, with the inputs of their inventories.

#![expect(clippy::panic, reason = "helpers of tests stop the test")]

use converge_syntax::{Dialect, Node, Source, parse_yaml};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each system with its scenario: the role in whose folder it lies, and its name.
const SYSTEMS: [(&str, &str, &str); 5] = [
    ("thinkube", "gpu_ready", "thinkube"),
    ("smart-scaler", "gpu_ready", "smart_scaler"),
    ("trainer-ci", "trainer_runtimes", "trainer_ci"),
    ("pytorch-cloud", "arc_runner_set", "pytorch_cloud"),
    ("amd-mi300", "arc_runner_set", "amd_mi300"),
];

/// Inputs that differ, in all systems or in one, with the reason.
const EXCEPTIONS: [(&str, &[&str], &str); 6] = [
    (
        "all",
        &[
            "gpu_operator_repository",
            "pod_network_repository",
            "nim_operator_chart",
            "arc_controller_chart",
            "arc_runner_chart",
            "cluster_extras_releases",
        ],
        "the charts of others are stand-ins on the lab's own server",
    ),
    (
        "all",
        &["gpu_operator_hosts", "node_profile_nodes", "gpu_validation_nodes"],
        "simulated nodes have names of their own",
    ),
    ("all", &["arc_runner_login", "nim_service_ngc_key"], "a scenario holds no secret"),
    (
        "thinkube",
        &["requirements_cpus", "requirements_memory_mib", "requirements_disk_mib", "requirements_systems"],
        "a host of the lab is small, and runs Debian",
    ),
    ("thinkube", &["discovery_ask", "discovery_endpoints"], "simulated nodes serve nothing"),
    ("amd-mi300", &["amd_device_plugin_count"], "a simulated node has no host that counts its GPUs"),
];

/// Roles of a system's cluster that its scenario does not run, with the reason.
const LEFT_OUT: [(&str, &str, &str); 1] = [(
    "thinkube",
    "pod_network",
    "the nodes' network is simulated: roles/pod_network/tests/no_kube_proxy.yaml",
)];

fn read(path: &str) -> Node {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = Source::read(&root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    parse_yaml(source, Dialect::Native).unwrap_or_else(|_| panic!("{path}")).remove(0)
}

/// The entries of a map below a JSON pointer; none where it is not there.
fn map(tree: &Node, pointer: &str) -> BTreeMap<String, Value> {
    let entries = tree.pointer(pointer).and_then(Node::as_map).unwrap_or_default();
    let text = |key: &Node| key.as_str().unwrap_or_default().to_owned();
    entries.iter().map(|(key, value)| (text(key), value.to_json())).collect()
}

fn names(list: Option<&Node>) -> Vec<String> {
    let list = list.and_then(Node::as_list).unwrap_or_default();
    let name =
        |node: &Node| node.as_str().or_else(|| node.get("role")?.as_str()).unwrap_or_default().to_owned();
    list.iter().map(name).collect()
}

#[test]
fn the_scenarios_of_the_systems_have_the_inputs_of_their_inventories() {
    let (mut wrong, mut used, mut same) = (Vec::new(), BTreeSet::new(), 0);
    for (system, role, scenario) in SYSTEMS {
        let scenario = read(&format!("roles/{role}/tests/{scenario}.yaml"));
        let mut roles = names(scenario.get("with"));
        roles.push(role.to_owned());
        for role in roles.clone() {
            roles.extend(names(read(&format!("roles/{role}/role.yaml")).get("requires")));
        }
        for play in read(&format!("playbooks/{system}.yaml")).as_list().unwrap_or_default() {
            for name in names(play.get("roles")) {
                let of_cluster = read(&format!("roles/{name}/role.yaml"));
                let of_cluster = of_cluster.get("scope").and_then(Node::as_str) == Some("cluster");
                let is_left_out = LEFT_OUT.iter().any(|(s, r, _)| (*s, *r) == (system, &name));
                if of_cluster && roles.contains(&name) == is_left_out {
                    wrong.push(format!("{system}: the role {name} is in one of scenario and table"));
                }
            }
        }

        let given = map(&scenario, "/inputs");
        let inventory = map(&read(&format!("inventories/{system}.yaml")), "/all/vars");
        let known: BTreeSet<String> = roles
            .iter()
            .flat_map(|role| map(&read(&format!("roles/{role}/role.yaml")), "/inputs").into_keys())
            .collect();
        let all: BTreeSet<&String> =
            given.keys().chain(inventory.keys().filter(|name| known.contains(*name))).collect();
        for name in all {
            let is = |(of, names, _): &(&str, &[&str], &str)| {
                (*of == "all" || *of == system) && names.contains(&name.as_str())
            };
            if given.get(name) == inventory.get(name) {
                same += 1;
            } else if EXCEPTIONS.iter().any(is) {
                used.insert(name.clone());
            } else {
                wrong.push(format!(
                    "{system}: {name} is {:?}, in the inventory {:?}",
                    given.get(name),
                    inventory.get(name)
                ));
            }
        }
    }
    let unused =
        EXCEPTIONS.iter().flat_map(|(_, names, _)| names.iter()).filter(|name| !used.contains(**name));
    wrong.extend(unused.map(|name| format!("{name} is the same everywhere, and in the table")));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(same > 40, "only {same} inputs are compared");
}
