//! Facts from recorded answers.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const UBUNTU: &str = include_str!("../../fixtures/facts/base.txt");
const H200: &str = include_str!("../../fixtures/facts/nvidia-h200.txt");

fn all() -> Groups {
    FACT_GROUPS.into_iter().collect()
}

fn only(group: &'static str) -> Groups {
    Groups::from([group])
}

#[test]
fn a_server_tells_what_it_is() {
    let facts = parse(UBUNTU, &Groups::new());
    assert_eq!(
        facts["os"],
        json!({"id": "ubuntu", "like": ["debian"], "version": "24.04", "codename": "noble", "name": "Ubuntu 24.04.3 LTS"})
    );
    assert_eq!(facts["hostname"], "gpu01");
    assert_eq!(facts["package_manager"], "apt");
    assert_eq!(facts["cpus"], 4);
    assert_eq!(facts["cpu"], json!({"model": "Intel(R) Xeon(R) Platinum 8558", "sockets": 2, "cores": 3}));
    assert_eq!(facts["memory_mib"], 2_063_868);
    assert_eq!(facts["virtualisation"], json!({"machine": null, "container": null}));
    assert_eq!(facts["disks"][0]["size_mib"], 3_662_830);
    assert_eq!(facts["disks"][0]["rotational"], false);
    assert_eq!(facts["disks"][1]["model"], Value::Null);
    assert_eq!(facts["mounts"].as_array().unwrap().len(), 3, "a bind mount is no other disk");
    assert_eq!(facts["mounts"][2]["path"], "/srv/my data");
    assert_eq!(facts["mounts"][2]["available_mib"], 1);
    assert_eq!(facts["mounts"][2]["read_only"], true);
    assert_eq!(
        facts["network"]["ipv4"],
        json!({"address": "10.0.0.11", "interface": "eno1", "gateway": "10.0.0.1"})
    );
    assert_eq!(facts["network"]["ipv6"]["address"], "2001:db8::11", "no address of the link");
    assert_eq!(facts["network"]["interfaces"][1]["infiniband"], true);
    assert_eq!(
        (&facts["ufw"], &facts["snapd"]),
        (&json!({"present": true, "enabled": true}), &json!({"present": true, "active": false}))
    );
    assert_eq!(facts["network"]["dns_search"], json!(["gpu.example.net", "example.net"]));
    assert_eq!(
        facts["accelerators"][0],
        json!({"bus_id": "0000:00:06.0", "vendor": "nvidia", "device": "0x2335", "driver": "nvidia"})
    );
    assert!(facts.get("nvidia").is_none(), "it was not asked for");
}

#[test]
fn an_h200_is_read_from_what_it_answered() {
    let facts = parse(&format!("{UBUNTU}{H200}"), &only("nvidia"));
    assert_eq!(
        facts["nvidia"],
        json!({
            "present": true, "driver": "580.159.04", "cuda": "13.0", "count": 1, "mig": false, "problem": null,
            "container_toolkit": "1.20.0",
            "gpus": [{
                "index": 0, "name": "NVIDIA H200", "uuid": "GPU-add45612-96f5-c703-3bbd-bcb482e47194",
                "bus_id": "00000000:00:06.0", "memory_mib": 143_771, "unified_memory": false,
                "compute_capability": "9.0", "mig": false, "mig_devices": [],
            }],
        })
    );
}

#[test]
fn a_machine_with_unified_memory_has_a_gpu_without_memory() {
    let reply = "nvidia.gpu=index,uuid,driver_version,memory.total,pci.bus_id,mig.mode.current,compute_cap,name,\
        0, GPU-1, 580.95.05, [N/A], 0000000F:01:00.0, [N/A], 12.1, NVIDIA GB10\nend=nvidia\n";
    let gpu = parse(reply, &only("nvidia"))["nvidia"]["gpus"][0].clone();
    assert_eq!(gpu["memory_mib"], Value::Null);
    assert_eq!(gpu["unified_memory"], true);
    assert_eq!(gpu["mig"], Value::Null);
    assert_eq!(gpu["name"], "NVIDIA GB10");
    let denied = reply.replace("[N/A], 0000000F", "[Insufficient Permissions], 0000000F");
    let gpu = parse(&denied, &only("nvidia"))["nvidia"]["gpus"][0].clone();
    assert_eq!((&gpu["memory_mib"], &gpu["unified_memory"]), (&Value::Null, &json!(false)));
}

#[test]
fn parts_of_a_gpu_are_listed() {
    let reply = "nvidia.gpu=index,uuid,driver_version,memory.total,pci.bus_id,mig.mode.current,name,\
        1, GPU-b, 470.1, 40536, 0:1, Enabled, NVIDIA A100, 40GB\n\
        nvidia.list=GPU 1: NVIDIA A100 (UUID: GPU-b)\n\
        nvidia.list=  MIG 3g.20gb     Device  0: (UUID: MIG-c1be7d8e)\nend=nvidia\n";
    let nvidia = parse(reply, &only("nvidia"))["nvidia"].clone();
    assert_eq!(nvidia["mig"], true);
    assert_eq!(nvidia["gpus"][0]["name"], "NVIDIA A100, 40GB");
    assert_eq!(nvidia["gpus"][0]["mig_devices"], json!([{"profile": "3g.20gb", "uuid": "MIG-c1be7d8e"}]));
}

#[test]
fn without_nvidia_smi_the_module_tells() {
    let reply = "pci=0000:00:06.0 0x10de 0x2335 nvidia\nend=base\n\
        nvidia.proc=NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n\
        nvidia.info=Slot: 0000:00:06.0\nnvidia.info=Model: \t\t NVIDIA H200\nnvidia.info=GPU UUID: \t GPU-add4\n\
        nvidia.problem=Failed to initialize NVML: Driver/library version mismatch\nend=nvidia\n";
    let nvidia = parse(reply, &only("nvidia"))["nvidia"].clone();
    assert_eq!(nvidia["driver"], "535.104.05");
    assert_eq!(nvidia["count"], 1);
    assert_eq!(nvidia["gpus"][0]["name"], "NVIDIA H200");
    assert_eq!(nvidia["gpus"][0]["bus_id"], "0000:00:06.0");
    assert_eq!(nvidia["gpus"][0]["unified_memory"], false);
    assert!(nvidia["problem"].as_str().unwrap().contains("version mismatch"));
    let bare = parse("pci=0000:00:06.0 0x10de 0x2335 nouveau\nend=base\nend=nvidia\n", &only("nvidia"));
    assert_eq!((&bare["nvidia"]["present"], &bare["nvidia"]["count"]), (&json!(true), &json!(0)));
    let cut = parse("end=base\nnvidia.smi=yes\n", &only("nvidia"));
    assert!(cut["nvidia"]["problem"].as_str().unwrap().contains("not answered"));
}

#[test]
fn amd_is_read_from_sysfs_and_named_by_the_tools() {
    let cards = "amd.driver=6.12.12\namd.rocm=6.4.1-83\n\
        amd.card=card1|0000:05:00.0|0x74a1|206141652992|d1e2f3|\namd.card=card2|0000:26:00.0|0x74a1|206141652992||\n\
        amd.node=90402 0 1280\namd.node=90402 0 9728\n";
    let smi = "amd.smi=[{\"gpu\":0,\"asic\":{\"market_name\":\"AMD Instinct MI300X\"},\"bus\":{\"bdf\":\"0000:05:00.0\"}}]\n";
    let amd = parse(&format!("{cards}{smi}end=amd\n"), &only("amd"))["amd"].clone();
    assert_eq!(amd["count"], 2);
    assert_eq!(
        amd["gpus"][0],
        json!({
            "bus_id": "0000:05:00.0", "name": "AMD Instinct MI300X", "device": "0x74a1", "gfx": "gfx942",
            "memory_mib": 196_592, "unique_id": "d1e2f3",
        })
    );
    assert_eq!(amd["gpus"][1]["gfx"], "gfx942");
    let rocm = "amd.rocm_smi={\"card0\":{\"PCI Bus\":\"0000:26:00.0\",\"Card Series\":\"AMD Instinct MI300X\"},\"system\":{}}\n";
    let amd = parse(&format!("{cards}{rocm}end=amd\n"), &only("amd"))["amd"].clone();
    assert_eq!(amd["gpus"][1]["name"], "AMD Instinct MI300X");
}

#[test]
fn programs_have_versions_and_the_configuration_that_they_run_with() {
    let reply = "containerd.path=/usr/bin/containerd\n\
        containerd.version=containerd github.com/containerd/containerd/v2 v2.2.9 1c4457e00facac03ce1d75f7b6777a7a851e5c41\n\
        containerd.ActiveState=active\ncontainerd.arg=/usr/bin/containerd\ncontainerd.arg=--config\ncontainerd.arg=/srv/c.toml\n\
        containerd.file=/etc/containerd/config.toml\n\
        docker.path=/usr/bin/docker\ndocker.version=Docker version 28.2.2, build e6534b4\ndocker.ActiveState=inactive\n\
        kubelet.path=/usr/bin/kubelet\nkubelet.version=Kubernetes v1.36.2\nkubelet.arg=/usr/bin/kubelet\n\
        kubelet.arg=--config=/var/lib/kubelet/config.yaml\n";
    let facts = parse(reply, &all());
    let containerd = &facts["containerd"];
    assert_eq!((&containerd["version"], &containerd["config"]), (&json!("2.2.9"), &json!("/srv/c.toml")));
    assert_eq!(facts["docker"]["version"], "28.2.2");
    assert_eq!(facts["docker"]["active"], false);
    assert_eq!(facts["kubelet"]["version"], "1.36.2");
    assert_eq!(facts["kubelet"]["config"], "/var/lib/kubelet/config.yaml");
    assert_eq!(parse("", &all())["docker"]["present"], false);
    let debian =
        "containerd.version=containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1\n";
    assert_eq!(parse(debian, &all())["containerd"]["version"], "1.6.20~ds1");
}

#[test]
fn a_control_plane_tells_its_networks_and_the_first_end_of_its_certificates() {
    let reply = "kubernetes.runs=kube-controller-manager\nkubernetes.pod_cidr=10.244.0.0/16\n\
        kubernetes.service_cidr=10.96.0.0/16\nkubernetes.runs=kube-apiserver\nkubernetes.service_cidr=10.96.0.0/16\n\
        kubernetes.open=kube-apiserver has --authorization-mode=AlwaysAllow\nkubernetes.now=1795319101\n\
        kubernetes.certificate=/etc/kubernetes/pki/apiserver.crt|Nov 22 03:45:01 2027 GMT\n\
        kubernetes.certificate=/etc/kubernetes/admin.conf|Dec  2 03:45:00 2026 GMT\n\
        kubernetes.certificate=/etc/kubernetes/odd.crt|soon\n\
        kubernetes.certificate=/etc/kubernetes/pki/etcd/ca.crt|Nov 30 03:45:00 2026 GMT\n\
        kubernetes.certificate=/var/lib/kubelet/pki/kubelet-client-current.pem|Dec  1 03:45:00 2026 GMT\n";
    let facts = parse(reply, &only("kubernetes"));
    assert_eq!(
        facts["kubernetes"],
        json!({
            "control_plane": true, "pod_cidr": "10.244.0.0/16", "service_cidr": "10.96.0.0/16",
            "open": ["kube-apiserver has --authorization-mode=AlwaysAllow"],
            "certificates_end": "2026-12-02T03:45:00Z", "certificates_days": 9,
            "first_certificate": "/etc/kubernetes/admin.conf",
            "first_end_days": 7, "first_to_end": "/etc/kubernetes/pki/etcd/ca.crt",
        })
    );
    let ended = reply.replace("2026 GMT", "2025 GMT");
    assert_eq!(parse(&ended, &only("kubernetes"))["kubernetes"]["certificates_days"], -356);
    let worker = "kubernetes.now=1795319101\n\
        kubernetes.certificate=/var/lib/kubelet/pki/kubelet-client-current.pem|Dec  1 03:45:00 2026 GMT\n";
    let worker = parse(worker, &only("kubernetes"))["kubernetes"].clone();
    assert_eq!(worker["control_plane"], false);
    assert_eq!(worker["certificates_end"], Value::Null, "it is not kubeadm that renews it");
    assert_eq!(worker["first_end_days"], 8);
}

#[test]
fn an_answer_fits_the_schema() {
    let schema = facts_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for answer in ["", UBUNTU, &format!("{UBUNTU}{H200}")] {
        let facts = parse(answer, &all());
        let wrong: Vec<String> = validator.iter_errors(&facts).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    assert!(!validator.is_valid(&json!({"cpus": "many"})));
}

#[test]
fn every_fact_is_on_the_page() {
    let page = facts_page();
    for row in [
        "| `os.id` | string | `debian`, `ubuntu`, `rhel` |",
        "| `nvidia.gpus[].memory_mib` | integer |",
        "| `network.interfaces[].addresses` | list of string |",
        "| `kubelet.config` | string |",
        "| `kubernetes.certificates_days` | integer |",
    ] {
        assert!(page.contains(row), "{row} is not in\n{page}");
    }
}

#[test]
fn a_hostile_host_gets_nulls_and_no_more() {
    let long = "x".repeat(1 << 20);
    let many = "net=a|b|c\n".repeat(20_000);
    let facts = parse(&format!("os.PRETTY_NAME=\"{long}\"\nuname=a\u{1b}[2Jb k\n{many}cpus=-1\n"), &all());
    assert_eq!(facts["os"]["name"].as_str().unwrap().len(), 256);
    assert_eq!(facts["hostname"], "a[2Jb", "no control characters");
    assert!(facts["network"]["interfaces"].as_array().unwrap().len() <= 512);
    assert_eq!(facts["cpus"], Value::Null);
    assert_eq!(parse("os.ID={{ 7 * 7 }}\n", &all())["os"]["id"], "{{ 7 * 7 }}");
}

proptest! {
    #[test]
    fn no_answer_breaks_the_parser(lines in proptest::collection::vec(("[a-z.]{1,12}", "\\PC{0,80}"), 0..40), bytes in "\\PC{0,200}") {
        let names = ["nvidia.gpu", "amd.node", "amd.card", "ip", "df", "mount", "disk", "pci", "core", "route4", "amd.smi"];
        let mut answer = bytes;
        for (at, (name, value)) in lines.iter().enumerate() {
            let name = names.get(at).copied().unwrap_or(name);
            answer.push_str(&format!("\n{name}={value}"));
        }
        prop_assert!(parse(&answer, &all()).is_object());
    }
}

/// The digests that a window compares: one a fact, the same in every shell, and the same again when nothing has changed.
#[test]
fn facts_are_watched_in_every_shell() {
    let names: Vec<&str> =
        FACT_GROUPS.iter().copied().chain(["hostname", "os", "cpu", "memory_mib"]).collect();
    // As it is called on a host: without globbing, and with another separator.
    let script = format!("{}\nset -f\nIFS='\n'\ncv_see_fact \"$@\"\n", watch_script());
    let mut answers = Vec::new();
    for shell in [&["dash"][..], &["bash"], &["busybox", "ash"], &["dash"]] {
        let mut command = std::process::Command::new(shell[0]);
        command.args(&shell[1..]).args(["-c", &script, "watch"]).args(&names);
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{shell:?}: {output:?}");
        answers.push(String::from_utf8(output.stdout).unwrap());
    }
    let lines: Vec<&str> = answers[0].lines().collect();
    assert_eq!(lines.len(), names.len(), "{}", answers[0]);
    for (line, name) in lines.iter().zip(&names) {
        let (reply, digest) = line.split_once(' ').unwrap();
        assert!(reply == *name && digest.len() == 64, "{line}");
    }
    let nothing = lines
        .iter()
        .filter(|line| line.ends_with("01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b"));
    assert_eq!(nothing.count(), 0, "a fact says nothing at all: {}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
}
