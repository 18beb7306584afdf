//! The inventories of the reference systems: every item of every host and of the cluster is right, as far as it is known without a host.

#![expect(clippy::panic, reason = "helpers of tests stop the test")]

use crate::kinds::real;
use camino::Utf8Path;
use converge_model::inventory::InventorySource;
use converge_model::{Facts, LoadOptions, Project, RegisteredResults, Resolution};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Each system, the roles of its cluster that matter most, and how many items are known at least.
const SYSTEMS: [(&str, &[&str], usize); 6] = [
    (
        "thinkube",
        &["control_plane_workloads", "gpu_operator", "gpu_ready", "time_slicing", "node_profile"],
        60,
    ),
    (
        "thinkube-snap",
        &["control_plane_workloads", "gpu_operator", "gpu_ready", "time_slicing", "gpu_validation"],
        50,
    ),
    ("smart-scaler", &["gpu_operator", "gpu_ready", "nim_service", "gpu_monitoring", "cluster_extras"], 60),
    ("trainer-ci", &["gpu_operator", "time_slicing", "trainer_runtimes", "gpu_validation"], 40),
    (
        "pytorch-cloud",
        &[
            "device_plugin",
            "node_profile",
            "gpu_validation",
            "arc_controller",
            "arc_runner_set",
            "gpu_monitoring",
        ],
        25,
    ),
    (
        "amd-mi300",
        &["pod_network", "amd_device_plugin", "gpu_validation", "arc_controller", "arc_runner_set"],
        60,
    ),
];

fn load(system: &str) -> Project {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options = LoadOptions {
        inventories: vec![InventorySource::Path(root.join(format!("inventories/{system}.yaml")))],
        playbook: Some(root.join(format!("playbooks/{system}.yaml"))),
        catalog: real(),
        ..LoadOptions::default()
    };
    Project::load(&options).unwrap_or_else(|found| panic!("{system}: {found}"))
}

/// A host that has enough of everything.
fn facts() -> Value {
    let nvidia = json!({
        "present": true, "problem": null, "driver": "580.159.04", "cuda": "13.0", "count": 1, "mig": false,
        "container_toolkit": null,
        "gpus": [{"index": 0, "name": "NVIDIA GB10", "compute_capability": "12.1"}],
    });
    let program = json!({"present": false, "path": null, "version": null, "active": false, "config": null});
    let containerd = json!({
        "present": false, "path": null, "version": null, "active": false, "config": null, "flavour": null, "unit": null, "socket": null,
        "default_runtime": null, "cgroup_driver": null, "runtimes": [],
    });
    json!({
        "hostname": "h", "kernel": "6.8.0", "arch": "x86_64", "dpkg_arch": "amd64", "cpus": 64,
        "memory_mib": 128_000, "swap_mib": 0, "init": "systemd", "package_manager": "apt",
        "os": {"id": "ubuntu", "version": "24.04", "codename": "noble", "like": ["debian"]},
        "mounts": [{"path": "/", "size_mib": 2_000_000, "device": "/dev/sda1", "fstype": "ext4"}],
        "network": {"ipv4": {"address": "192.0.2.21"}},
        "nvidia": nvidia, "amd": {"present": true, "count": 8, "gpus": []},
        "containerd": containerd, "ufw": {"present": false, "enabled": false}, "firewalld": {"present": false, "active": false}, "selinux": "disabled", "snapd": {"present": false, "active": false}, "docker": program, "kubelet": program,
        "kubernetes": {"control_plane": false, "pod_cidr": null, "service_cidr": null, "open": [], "certificates_days": null, "first_end_days": null, "first_to_end": null},
    })
}

/// The same host with processors of another make.
fn facts_of_arm64() -> Value {
    let mut facts = facts();
    if let Some(facts) = facts.as_object_mut() {
        facts.extend([("arch".to_owned(), json!("aarch64")), ("dpkg_arch".to_owned(), json!("arm64"))]);
    }
    facts
}

/// Nothing that a host of arm64 gets is of another architecture: no address, no name of a file or package, no image.
#[test]
fn the_reference_systems_are_planned_for_arm64() {
    let mut named = 0;
    for (system, ..) in SYSTEMS {
        let project = load(system);
        let facts = Facts::new(project.hosts().iter().map(|host| (host.clone(), facts_of_arm64())));
        let registered = RegisteredResults::new();
        for target in project.hosts().iter().map(String::as_str).chain(["cluster"]) {
            let plan = project.host_plan(target, &facts, &registered);
            assert!(plan.errors.is_empty(), "{system} {target}: {}", plan.errors);
            for used in &plan.roles {
                // A check may name all architectures that it takes.
                for item in used.all().filter(|item| item.kind != "assert") {
                    let Resolution::Ready(ready) = used.resolve(item, &registered) else { continue };
                    let text = ready.params.to_string();
                    for other in ["amd64", "x86_64", "x86-64"] {
                        assert!(!text.contains(other), "{system} {target} {}: {text}", item.address);
                    }
                    named += text.matches("arm64").count();
                }
            }
        }
    }
    // kubectl, kind, helm and Go, with the members of their archives.
    assert!(named >= 5, "only {named} names of the architecture are known");
}

#[test]
fn every_item_of_the_reference_systems_is_right() {
    for (system, roles, least) in SYSTEMS {
        let project = load(system);
        assert!(project.warnings().is_empty(), "{system}: {}", project.warnings());
        assert!(project.host_errors().is_empty(), "{system}: {:?}", project.host_errors());
        let facts = Facts::new(project.hosts().iter().map(|host| (host.clone(), facts())));
        let registered = RegisteredResults::new();
        let mut known = 0;
        let mut of_cluster = BTreeSet::new();
        for target in project.hosts().iter().map(String::as_str).chain(["cluster"]) {
            let plan = project.host_plan(target, &facts, &registered);
            assert!(plan.errors.is_empty(), "{system} {target}: {}", plan.errors);
            for used in &plan.roles {
                if target == "cluster" {
                    of_cluster.insert(used.role.name.clone());
                }
                for item in used.all() {
                    let ready = match used.resolve(item, &registered) {
                        Resolution::Ready(ready) => ready,
                        // The answer to a question of the same run is not known here.
                        Resolution::Skipped { .. } | Resolution::Unknown { .. } => continue,
                        Resolution::Invalid(found) => panic!("{system} {target} {}: {found}", item.address),
                    };
                    let kind = converge_resources::kind(&item.kind).unwrap();
                    let resource = (kind.parse)(&ready.params)
                        .unwrap_or_else(|error| panic!("{system} {target} {}: {error:?}", item.address));
                    assert_eq!(resource.validate(), [], "{system} {target} {}", item.address);
                    known += 1;
                }
            }
        }
        for role in roles {
            assert!(of_cluster.contains(*role), "{system} has no {role}: {of_cluster:?}");
        }
        assert!(known >= least, "{system}: only {known} items are known");
    }
}
