//! Values that the roles of this repository make of their inputs.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

use crate::common::World;
use converge_model::{Facts, Project, Registered, Resolution};
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
    let registered = Registered::new();
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
