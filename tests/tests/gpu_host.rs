//! Faults of a GPU host, made on a real one: its driver, docker, NVIDIA's container toolkit, the firewall. `converge doctor`
//! names each with its cause and its role, and no longer reports it once it is corrected. The GPU on the bus, the driver and
//! the toolkit are simulated; docker and ufw are the real programs.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::{Host, LabOptions};
use converge_tests::{World, exec, root};
use serde_json::Value;

/// A GPU on the PCI bus, as the kernel shows one, and a place for the kernel's modules, which a container does not see.
const BUS: &str = "mount -t tmpfs none /sys/bus && mkdir -p /sys/bus/pci/devices/0000:06:00.0 && \
    cd /sys/bus/pci/devices/0000:06:00.0 && echo 0x10de > vendor && echo 0x030200 > class && \
    { [ -d /sys/module ] && mount -t tmpfs none /sys/module || { mount -o remount,rw /sys && mkdir /sys/module; }; }";

/// docker as it comes, but for what a container on this machine cannot do.
const DOCKER: &str = r#"mkdir -p /etc/docker && printf '{"iptables": false, "bridge": "none", "storage-driver": "vfs", "log-opts": {"max-size": "10m"}}\n' > /etc/docker/daemon.json
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends docker.io >/var/log/docker-install 2>&1 || { cat /var/log/docker-install; exit 1; }
systemctl is-active -q docker || { journalctl -u docker -n 20 --no-pager; exit 1; }"#;

struct Lab {
    world: World,
}

impl Lab {
    fn new() -> Self {
        let world =
            World::open(LabOptions::new(format!("gpu-host-{}", std::process::id())).kube(), 1).unwrap();
        std::fs::create_dir_all(world.dir().join("roles")).unwrap();
        std::os::unix::fs::symlink(root().join("roles/gpu_host"), world.dir().join("roles/gpu_host"))
            .unwrap();
        // As the role k8s has it.
        let routed =
            "resources:\n  - name: routed\n    firewall: {rules: [{port: 6443/tcp}], routed: allow}\n";
        world.write("roles/routed/role.yaml", routed).unwrap();
        world.write("playbooks/routed.yaml", "- hosts: lab\n  roles: [routed]\n").unwrap();
        world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [gpu_host]\n").unwrap();
        Self { world }
    }

    fn host(&self) -> &Host {
        &self.world.hosts()[0]
    }

    /// The finding of doctor at this step, unless it is healthy.
    fn reported(&self, step: &str) -> Option<Value> {
        let ran = self.world.converge(&["doctor", "hosts.yaml", "--output", "json"]).unwrap();
        let all = ran.json().unwrap();
        let mut findings = all["hosts"][0]["findings"].as_array().unwrap().iter();
        findings.find(|f| f["step"] == step && f["health"] != "well").cloned()
    }

    /// Checks the evidence, the cause and the role that doctor gives at this step.
    #[track_caller]
    fn tells(&self, step: &str, role: Option<&str>, found: &str, cause: &str) {
        let reported = self.reported(step);
        let has = |reported: &Value, key: &str, text: &str| {
            reported[key].as_str().is_some_and(|t| t.contains(text))
        };
        assert!(
            reported.as_ref().is_some_and(|t| has(t, "found", found)
                && has(t, "cause", cause)
                && t["role"].as_str() == role),
            "{step}: {reported:#?}"
        );
    }

    #[track_caller]
    fn is_silent(&self, step: &str) {
        assert_eq!(self.reported(step), None);
    }
}

#[test]
fn faults_of_a_gpu_host_are_named_until_they_are_corrected() {
    let lab = Lab::new();
    driver(&lab);
    devices(&lab);
    docker(&lab);
    toolkit(&lab);
    missing_runtimes(&lab);
    amd(&lab);
    firewall(&lab);
    other_layouts(&lab);
}

fn driver(lab: &Lab) {
    let host = lab.host();
    let tells = |found: &str, cause: &str| lab.tells("driver", Some("gpu_host"), found, cause);
    lab.is_silent("driver");
    exec(host, BUS);
    tells("a GPU is on the bus, and no driver works: there is no nvidia-smi", "is not installed");
    exec(host, "mkdir /sys/module/nouveau");
    tells("the kernel's nouveau has the GPU", "cannot take a GPU that nouveau holds");
    exec(host, "rmdir /sys/module/nouveau");
    host.fake_gpus("driver=none\n").unwrap();
    tells("couldn't communicate with the NVIDIA driver", "its module is not loaded");
    exec(host, "mkdir /sys/module/nvidia && echo 550.54.15 > /sys/module/nvidia/version");
    host.fake_gpus("driver=mismatch\n").unwrap();
    tells("Driver/library version mismatch", "the module that is loaded is 550.54.15");
    host.fake_gpus("driver=460.91.03\n").unwrap();
    tells(
        "the driver 460.91.03 is too old: at least 470.82.01 is needed",
        "newer CUDA than the driver knows",
    );
    let refused = lab.world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1);
    refused.says("the driver is 460.91.03, and 470.82.01 is needed");
    host.fake_gpus("count=1\n").unwrap();
    lab.is_silent("driver");
}

/// `verify` of the role names what keeps pods from the GPUs.
fn devices(lab: &Lab) {
    let host = lab.host();
    let verify = || lab.world.converge(&["verify", "hosts.yaml"]).unwrap();
    exec(host, "install -m 600 /dev/null /dev/nvidia0");
    verify().expect(2).says("/dev/nvidia0 cannot be opened by everyone");
    exec(host, "chmod 666 /dev/nvidia0");
    verify().expect(0);
    let reply = "printf '#!/bin/sh\\necho Enforcing\\n' >/usr/bin/getenforce";
    let off = "printf '#!/bin/sh\\necho container_use_devices: off\\n' >/usr/bin/getsebool";
    exec(host, &format!("{reply} && {off} && chmod 755 /usr/bin/getenforce /usr/bin/getsebool"));
    verify().expect(2).says("SELinux keeps containers from devices");
    exec(host, "sed -i 's/off/on/' /usr/bin/getsebool");
    verify().expect(0);
    exec(host, "rm /dev/nvidia0 /usr/bin/getenforce /usr/bin/getsebool");
}

fn docker(lab: &Lab) {
    let host = lab.host();
    exec(host, DOCKER);
    let tells =
        |cause: &str| lab.tells("docker", Some("gpu_host"), "docker has no runtime nvidia, only ", cause);
    tells("does not name the runtime");
    // A user writes it and restarts nothing.
    exec(
        host,
        r#"sed -i 's/^{/{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, /' /etc/docker/daemon.json"#,
    );
    tells("docker was not restarted since");
    lab.world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    lab.is_silent("docker");
    assert!(exec(host, "cat /etc/docker/daemon.json").contains("max-size"), "what is not ours is gone");
    lab.world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
}

/// Runtimes that stay in a configuration although their programs are gone, as after a removal of the toolkit.
fn missing_runtimes(lab: &Lab) {
    let host = lab.host();
    let docker = "a runtime of docker is named, and its program is not there: nvidia-container-runtime";
    let cause = "NVIDIA's container toolkit is not installed";
    lab.tells("runtime", Some("docker_runtime"), docker, cause);
    exec(host, "ln -s /bin/true /usr/bin/nvidia-container-runtime");
    lab.is_silent("runtime");
    // docker's package has brought containerd, which runs.
    let config = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n\
        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\nBinaryName = \"/usr/local/nvidia/toolkit/nvidia-container-runtime\"\n";
    exec(host, &format!("mkdir -p /etc/containerd && printf '%s' '{config}' >/etc/containerd/config.toml"));
    let containerd = "a runtime of containerd is named, and its program is not there: /usr/local/nvidia/toolkit/nvidia-container-runtime";
    lab.tells("runtime", Some("gpu_runtime"), containerd, cause);
    exec(
        host,
        "mkdir -p /usr/local/nvidia/toolkit && ln -s /bin/true /usr/local/nvidia/toolkit/nvidia-container-runtime",
    );
    lab.is_silent("runtime");
    exec(host, "rm -r /usr/local/nvidia /etc/containerd");
}

/// An accelerator of AMD's on the bus, as the kernel shows one.
fn amd(lab: &Lab) {
    let host = lab.host();
    let device = "/sys/bus/pci/devices/0000:07:00.0";
    exec(
        host,
        &format!("mkdir -p {device} && echo 0x1002 >{device}/vendor && echo 0x120000 >{device}/class"),
    );
    lab.tells("driver", None, "the module amdgpu is not loaded", "is not installed");
    exec(host, "mkdir /sys/module/amdgpu");
    lab.tells("driver", None, "there is no /dev/kfd", "no support for computing");
    exec(host, "touch /dev/kfd");
    lab.is_silent("driver");
    exec(host, "rm /dev/kfd");
    exec(host, &format!("rm -r {device} /sys/module/amdgpu"));
}

fn toolkit(lab: &Lab) {
    let host = lab.host();
    // doctor asks the one for its version, and whether the other is there.
    let version = |version: &str| {
        let reply = format!("echo NVIDIA Container Toolkit CLI version {version}");
        exec(
            host,
            &format!("printf '#!/bin/sh\n{reply}\n' > /usr/bin/nvidia-ctk && chmod 755 /usr/bin/nvidia-ctk"),
        );
    };
    version("1.18.0");
    lab.is_silent("toolkit");
    exec(host, "ln -s /bin/true /usr/local/bin/nvkind");
    lab.tells(
        "toolkit",
        None,
        "/usr/local/bin/nvkind beside NVIDIA's container toolkit 1.18.0",
        "uses CDI first",
    );
    version("1.17.8");
    lab.is_silent("toolkit");
}

fn firewall(lab: &Lab) {
    let host = lab.host();
    exec(host, "apt-get install -y -q --no-install-recommends ufw >/dev/null 2>&1");
    exec(host, "mkdir -p /var/lib/kubelet && echo 'cgroupDriver: systemd' > /var/lib/kubelet/config.yaml");
    lab.is_silent("firewall");
    exec(host, "ufw allow 22/tcp >/dev/null && ufw --force enable >/dev/null");
    lab.tells(
        "firewall",
        Some("k8s"),
        "ufw is active and drops what passes",
        "pods are reached through the host",
    );
    let run = |command: &str| {
        lab.world.converge(&[command, "--yes", "hosts.yaml", "--playbook", "playbooks/routed.yaml"]).unwrap()
    };
    run("apply").expect(0);
    lab.is_silent("firewall");
    let forwards = "iptables -S FORWARD | head -n 1";
    assert!(exec(host, forwards).ends_with("ACCEPT"), "{}", exec(host, forwards));
    run("rollback").expect(0);
    assert!(exec(host, forwards).ends_with("DROP"), "{}", exec(host, forwards));
}

/// A containerd beside docker's own, as k8s-snap, k3s or RKE2 has it: its program, configuration and unit.
fn layout(host: &Host, folder: &str, program: &str, unit: &str) -> String {
    let config = format!("{folder}/config.toml");
    let run = format!(
        "{program} --config {config} --address /run/other/c.sock --state /run/other --root /var/lib/other"
    );
    exec(
        host,
        &format!(
            "mkdir -p {folder} /etc/containerd/conf.d $(dirname {program}) && cp /usr/bin/containerd {program} && \
             printf '[Service]\\nExecStart={run}\\n' >/etc/systemd/system/{unit}.service && systemctl daemon-reload"
        ),
    );
    config
}

/// The containerd of the pods is looked at, where docker has one of its own, and no other is on PATH.
fn other_layouts(lab: &Lab) {
    let host = lab.host();
    let drop_in = "/etc/containerd/conf.d/99-nvidia.toml";
    let runc = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n";
    for (folder, program, unit) in [
        (
            "/var/lib/k8s-containerd/k8s-containerd/etc/containerd",
            "/snap/k8s/3070/bin/containerd",
            "snap.k8s.containerd",
        ),
        ("/var/lib/rancher/k3s/agent/etc/containerd", "/var/lib/rancher/k3s/data/1f0c/bin/containerd", "k3s"),
        (
            "/var/lib/rancher/rke2/agent/etc/containerd",
            "/var/lib/rancher/rke2/data/v1.34.1-rke2r1/bin/containerd",
            "rke2-server",
        ),
    ] {
        let config = layout(host, folder, program, unit);
        let write = |file: &str, text: &str| exec(host, &format!("printf '%s' '{text}' >{file}"));
        let good = format!("version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n{runc}");
        write(&config, &good);
        exec(host, &format!("systemctl start {unit} && sleep 1"));
        lab.is_silent("containerd");
        lab.is_silent("runc");

        write(drop_in, "version = 3\n");
        let found = format!("{drop_in} has version 3, config.toml has version 2");
        lab.tells("containerd", Some("gpu_operator"), &found, "refuses a drop-in of a higher version");
        exec(host, &format!("rm {drop_in}"));
        let default = "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"gone\"\n";
        write(&config, &format!("{good}{default}"));
        lab.tells("runc", Some("k8s"), "no runtime gone in containerd's configuration", "NotReady");
        write(&config, &good);
        exec(
            host,
            "mkdir -p /var/snap/k8s/common/args && echo --cgroup-driver=systemd >/var/snap/k8s/common/args/kubelet",
        );
        if unit == "snap.k8s.containerd" {
            let found = "the kubelet uses systemd, containerd's runtime runc has SystemdCgroup = false";
            lab.tells("cgroup", Some("k8s"), found, "disagree on the driver");
        }
        exec(host, &format!("rm -r /var/snap; systemctl stop {unit}; rm -r {folder} {program}"));
    }
}
