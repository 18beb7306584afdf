//! containerd from recorded answers: of the package containerd.io 2.2.9, and command lines as the other flavours start it.

use crate::facts::{Groups, parse};
use serde_json::{Value, json};

/// The answer of a real containerd 2.2.9 with two runtimes.
const PACKAGE: &str = include_str!("../../fixtures/facts/containerd.txt");

fn facts(answer: &str) -> Value {
    parse(answer, &Groups::from(["containerd"]))["containerd"].clone()
}

fn started(words: &[&str], cgroup: &str, dump: &[&str]) -> String {
    let words = words.iter().map(|word| format!("containerd.word={word}\n")).collect::<String>();
    let dump = dump.iter().map(|line| format!("containerd.dump={line}\n")).collect::<String>();
    let exe = words.lines().next().and_then(|line| line.split_once('=')).map_or("", |(_, exe)| exe);
    format!(
        "containerd.runs={exe}\n{words}containerd.cgroup=0::/system.slice/{cgroup}\ncontainerd.runs_version=containerd x v1.7.27 y\n{dump}"
    )
}

#[test]
fn a_package_is_read_from_what_it_answered() {
    let runtime = |name: &str, binary: Value| json!({"name": name, "type": "io.containerd.runc.v2", "binary": binary, "cgroup_driver": "systemd"});
    assert_eq!(
        facts(PACKAGE),
        json!({
            "present": true, "path": "/usr/bin/containerd", "version": "2.2.9", "active": true,
            "config": "/etc/containerd/config.toml", "flavour": "package", "unit": "containerd",
            "socket": "/run/containerd/containerd.sock", "default_runtime": "runc", "cgroup_driver": "systemd",
            "runtimes": [runtime("nvidia", "/usr/bin/nvidia-container-runtime".into()), runtime("runc", Value::Null)],
        })
    );
    // Another driver of another runtime is not that of the default one, and a default that is no runtime has none.
    let other = PACKAGE.replace("SystemdCgroup = true", "SystemdCgroup = false");
    assert_eq!(facts(&other)["cgroup_driver"], "cgroupfs");
    let gone = PACKAGE.replace("default_runtime_name = 'runc'", "default_runtime_name = 'crun'");
    assert_eq!(
        (&facts(&gone)["default_runtime"], &facts(&gone)["cgroup_driver"]),
        (&json!("crun"), &Value::Null)
    );
    // One that does not run tells what its files say.
    let idle: String = PACKAGE
        .lines()
        .filter(|line| {
            !["runs", "word", "cgroup"].iter().any(|key| line.starts_with(&format!("containerd.{key}")))
        })
        .map(|line| line.replace("State=active", "State=inactive") + "\n")
        .collect();
    let idle = facts(&idle);
    assert_eq!((&idle["active"], &idle["cgroup_driver"]), (&json!(false), &json!("systemd")));
    assert_eq!(facts("")["flavour"], Value::Null);
}

#[test]
fn flavours_are_distinguished_by_the_process() {
    let (k3s, rke2) = ("/var/lib/rancher/k3s", "/var/lib/rancher/rke2");
    let flavours = [
        (
            started(
                &[
                    "/snap/k8s/3020/bin/containerd",
                    "--address",
                    "/run/containerd/containerd.sock",
                    "--config",
                    "/var/snap/k8s/common/etc/containerd/config.toml",
                ],
                "snap.k8s.containerd.service",
                &["[grpc]", "address = '/other.sock'"],
            ),
            json!([
                "k8s-snap",
                "snap.k8s.containerd",
                "/run/containerd/containerd.sock",
                "/var/snap/k8s/common/etc/containerd/config.toml"
            ]),
        ),
        (
            started(
                &[
                    &format!("{k3s}/data/9c8f/bin/containerd"),
                    "-c",
                    &format!("{k3s}/agent/etc/containerd/config.toml"),
                ],
                "k3s-agent.service",
                &["[grpc]", "address = \"/run/k3s/containerd/containerd.sock\""],
            ),
            json!([
                "k3s",
                "k3s-agent",
                "/run/k3s/containerd/containerd.sock",
                format!("{k3s}/agent/etc/containerd/config.toml")
            ]),
        ),
        (
            started(
                &[
                    &format!("{rke2}/data/v1.34/bin/containerd"),
                    "-c",
                    &format!("{rke2}/agent/etc/containerd/config.toml"),
                ],
                "rke2-server.service",
                &["[grpc]", "address = \"/run/k3s/containerd/containerd.sock\""],
            ),
            json!([
                "rke2",
                "rke2-server",
                "/run/k3s/containerd/containerd.sock",
                format!("{rke2}/agent/etc/containerd/config.toml")
            ]),
        ),
    ];
    // Docker's own is beside each of them, and is not the one that Kubernetes uses.
    let docker = started(
        &["containerd", "--config", "/var/run/docker/containerd/containerd.toml"],
        "docker.service",
        &["[grpc]", "address = '/var/run/docker/containerd/containerd.sock'"],
    );
    for (answer, expected) in flavours {
        let found = facts(&format!("{docker}{answer}"));
        let shown = ["flavour", "unit", "socket", "config"].map(|key| found[key].clone());
        assert_eq!(Value::from(shown.to_vec()), expected);
        assert_eq!((&found["version"], &found["active"]), (&json!("1.7.27"), &json!(true)));
    }
    let alone = facts(&docker);
    assert_eq!((&alone["flavour"], &alone["unit"]), (&json!("docker"), &json!("docker")));
    // The package runs beside Docker, which is configured to use it or has one of its own.
    assert_eq!(facts(&format!("{docker}{PACKAGE}"))["flavour"], "package");
}

#[test]
fn a_configuration_of_version_two_and_an_odd_one_are_read() {
    let dump = [
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd]",
        "default_runtime_name = \"runc\"",
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]",
        "SystemdCgroup = true",
        // No table of the CRI: another plugin's runtimes.
        "[plugins.\"x\".runtimes.foreign]",
        "[",
        "SystemdCgroup = ",
    ];
    let found = facts(&started(&["/usr/bin/containerd"], "containerd.service", &dump));
    assert_eq!(found["cgroup_driver"], "systemd");
    assert_eq!(found["runtimes"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["socket"], Value::Null);
}
