//! Values that the roles of this repository make of their inputs.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

use crate::common::World;
use converge_model::{Facts, Project, RegisteredResults, Resolution};
use serde_json::{Value as Json, json};

/// A project with one role of this repository and values for its inputs.
fn project(role: &str, values: &str) -> (World, Project) {
    let mut world = World::new();
    world.options.catalog = crate::kinds::real();
    let roles = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../roles"));
    std::os::unix::fs::symlink(roles.canonicalize().unwrap(), world.path("roles")).unwrap();
    world.write("playbooks/site.yaml", &format!("- hosts: h1\n  roles: [{role}]\n"));
    world.write("inventories/host_vars/h1.yaml", values);
    let project = world.load();
    (world, project)
}

fn params(project: &Project, target: &str, address: &str) -> Json {
    let registered = RegisteredResults::new();
    let plan = project.host_plan(target, &Facts::none(), &registered);
    match crate::common::resolve(&plan, address, &registered) {
        Resolution::Ready(ready) => ready.params,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn values_of_a_user_keep_the_safeguards_of_the_gpu_operator() {
    let values = "gpu_operator_version: v25.3.0\ngpu_operator_values: {toolkit: {env: [{name: DEBUG, value: '1'}, {name: CONTAINERD_SOCKET, value: /mine}]}, dcgm: {enabled: false}}\n";
    let (_world, project) = project("gpu_operator", values);
    let made = params(&project, "cluster", "gpu_operator/the operator");
    assert_eq!(
        made["values"],
        json!({
            "driver": {"enabled": false},
            "cdi": {"enabled": true},
            "mig": {"strategy": "none"},
            "toolkit": {"enabled": true, "env": [
                {"name": "CONTAINERD_CONFIG", "value": "/etc/containerd/config.toml"},
                {"name": "CONTAINERD_SOCKET", "value": "/mine"},
                {"name": "RUNTIME_CONFIG_SOURCE", "value": "file"},
                {"name": "DEBUG", "value": "1"},
            ]},
            "dcgm": {"enabled": false},
        })
    );
}

#[test]
fn values_of_a_user_keep_those_of_the_pod_network() {
    let values = "pod_network_version: 1.0.0\npod_network_repository: https://charts\npod_network_chart: net\npod_network_workloads: []\npod_network_own_values: {agents: [{name: a, port: 1}]}\npod_network_values: {agents: [{name: b}]}\n";
    let (_world, project) = project("pod_network", values);
    let made = params(&project, "cluster", "pod_network/the plugin");
    assert_eq!(made["values"], json!({"agents": [{"name": "a", "port": 1}, {"name": "b"}]}));
}

#[test]
fn hosts_that_restart_containerd_keep_the_toolkit_from_it() {
    let values = "gpu_operator_version: v25.10.0\ngpu_operator_restart: host\ngpu_operator_hosts: [h1]\n";
    let (_world, project) = project("gpu_operator", values);
    let made = params(&project, "cluster", "gpu_operator/the operator");
    let env = made["values"]["toolkit"]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "RUNTIME_RESTART_MODE", "value": "none"})), "{env:?}");
}

/// Volta is 7.0: a host with an older GPU is left alone unless the list says otherwise.
#[test]
fn gpus_before_volta_are_left_alone_by_themselves() {
    let registered = RegisteredResults::new();
    for (capability, list, alone) in
        [("6.1", "", true), ("7.0", "", false), ("6.1", "gpu_operator_unsupported: []\n", false)]
    {
        let gpus = json!([{"compute_capability": "9.0"}, {"compute_capability": capability}]);
        let facts = Facts::new([("h1".to_owned(), json!({"nvidia": {"gpus": gpus}}))]);
        let values = format!("gpu_operator_version: v25.10.0\ngpu_operator_hosts: [h1]\n{list}");

        let (_world, operator) = project("gpu_operator", &values);
        let plan = operator.host_plan("cluster", &facts, &registered);
        let address = "gpu_operator/nodes that the operator leaves alone[h1]";
        let labelled = plan.roles.iter().flat_map(|used| used.all()).any(|item| item.address == address);
        assert_eq!(labelled, alone, "{capability} {list:?}");

        let (_world, runtime) = project("gpu_runtime", &values);
        let plan = runtime.host_plan("h1", &facts, &registered);
        let waits =
            crate::common::resolve(&plan, "gpu_runtime/the toolkit has written its drop-in", &registered);
        assert_eq!(matches!(waits, Resolution::Skipped { .. }), alone, "{capability} {list:?}: {waits:?}");
    }
}

#[test]
fn a_driver_is_held_to_the_cuda_of_the_images_and_stays_loaded_where_it_is_wanted() {
    let registered = RegisteredResults::new();
    let nvidia = json!({"present": true, "problem": null, "driver": "535.274.02", "gpus": []});
    let facts = Facts::new([("h1".to_owned(), json!({"nvidia": nvidia}))]);
    for (cuda, fits) in [("12.8", true), ("13.0", false)] {
        let values = format!("gpu_cuda: \"{cuda}\"\ngpu_persistence: true\ngpu_docker: \"no\"\n");
        let (_world, project) = project("gpu_host", &values);
        let plan = project.host_plan("h1", &facts, &registered);
        let ready = |address: &str| match crate::common::resolve(&plan, address, &registered) {
            Resolution::Ready(ready) => ready.params,
            other => unreachable!("{address}: {other:?}"),
        };
        let check = ready("gpu_host/the driver is new enough for CUDA");
        assert_eq!(check["that"], json!(fits), "{cuda}: {check}");
        assert_eq!(ready("gpu_host/the driver stays loaded")["name"], json!("nvidia-persistenced"));
    }
}

#[test]
fn cdi_is_off_where_it_is_not_wanted() {
    let (_world, project) =
        project("gpu_operator", "gpu_operator_version: v25.3.2\ngpu_operator_cdi: false\n");
    let made = params(&project, "cluster", "gpu_operator/the operator");
    assert_eq!(made["values"]["cdi"], json!({"enabled": false}));
}

/// Roles of the demo, and those of a node, which have a state of their own.
const WITHOUT_A_SWITCH: &[&str] = &["base", "exporter", "gpu_node", "k8s", "k8s_snap"];

#[test]
fn every_role_can_be_switched_off_as_a_whole() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../roles"));
    let mut observed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let role = entry.unwrap().file_name().into_string().unwrap();
        if WITHOUT_A_SWITCH.contains(&role.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(folder.join(&role).join("role.yaml")).unwrap();
        assert!(
            text.contains(&format!("\n  {role}_enabled: {{type: bool, default: true,")),
            "{role} has no switch"
        );
        for section in ["check", "resources", "verify"] {
            let Some((_, rest)) = text.split_once(&format!("\n{section}:\n")) else { continue };
            let first = format!("  - when: {role}_enabled\n    {section}:\n");
            // A role that is switched off may take away what others have left, when it is asked to.
            let cleans = format!("  - when: {role}_cleans");
            assert!(
                rest.starts_with(&first) || rest.starts_with(&cleans),
                "{role}: the switch is not around its {section}"
            );
            let alone = rest.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
            assert_eq!(
                alone.filter(|line| line.starts_with("  - ") && *line != cleans).count(),
                1,
                "{role}: {section} has items beside the switch"
            );
        }
        observed += 1;
    }
    assert!(observed > 20, "{observed} roles");
}
