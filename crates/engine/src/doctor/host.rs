//! Diagnoses of a GPU host or a node itself: container runtime, driver, docker, toolkit, certificates. Pure functions over its answers.

use super::{CheckAnswers, Finding, Health};
use jiff::Timestamp;

/// Certificates are renewed in time, or a cluster stops at once; in days.
const SOON: i64 = 30;

/// The oldest driver with which the GPU parts work.
const DRIVER: &[u64] = &[470, 82, 1];

/// The first toolkit that masks the driver's files by CDI, which nvkind cannot take.
const CDI_TOOLKIT: &[u64] = &[1, 18];

/// The problems of this host as a node with GPUs; none for a host that is not one.
pub(super) fn diagnose(answer: &CheckAnswers, now: Timestamp) -> Vec<Finding> {
    let get = |key: &str| answer.get(key).map(String::as_str).unwrap_or_default();
    let one = [
        config(get("ctd_error"), get("ctd_root"), get("ctd_files")),
        runc(get("ctd_runtimes"), get("ctd_default")),
        nvidia(get("ctd_runtimes"), get("ctd_files")),
        cgroup(get("ctd_runtimes"), get("kubelet_cgroup"), get("ctd_cgroup")),
        driver(get("gpu_pci"), get("driver"), get("driver_error"), get("driver_loaded"), get("nouveau")),
        amd_driver(get("amd_pci"), get("amdgpu"), get("kfd")),
        docker(get("gpu_pci"), get("docker"), get("docker_file")),
        missing("docker", get("docker_missing"), "docker_runtime"),
        missing("containerd", get("ctd_missing"), "gpu_runtime"),
        toolkit(get("toolkit"), get("nvkind")),
        firewall(get("kubelet_cgroup"), get("ufw_forward")),
        opened(get("kube_open")),
    ];
    one.into_iter().flatten().chain(certificates(answer, now)).collect()
}

/// The numbers of a version.
fn version(text: &str) -> Vec<u64> {
    let start = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let numbers = text.get(start..).unwrap_or_default();
    numbers.split(['.', '-']).map_while(|word| word.parse().ok()).collect()
}

/// Drop-ins as `FILE=VERSION`, whose version is above the root's.
fn above<'a>(root: &str, files: &'a str) -> Option<(&'a str, u64, u64)> {
    let root: u64 = root.parse().ok()?;
    files.split(' ').filter_map(|word| word.rsplit_once('=')).find_map(|(file, version)| {
        let version: u64 = version.parse().ok()?;
        (version > root).then_some((file, version, root))
    })
}

fn config(error: &str, root: &str, files: &str) -> Option<Finding> {
    if let Some((file, version, root)) = above(root, files) {
        let found = format!("{file} has version {version}, config.toml has version {root}");
        let finding = Finding::new("containerd", Health::Ill, found);
        let finding = finding.because(
            "containerd refuses a drop-in of a higher version than the root's, and does not start any more",
        );
        return Some(
            finding
                .help("let the toolkit read the file, not the dump: RUNTIME_CONFIG_SOURCE=file; take the drop-in away, restart containerd")
                .role("gpu_operator"),
        );
    }
    (!error.is_empty()).then(|| {
        Finding::new("containerd", Health::Ill, format!("its configuration cannot be read: {error}"))
            .because("containerd does not start with it any more")
            .help("`containerd config dump` says the same; `converge snapshots` says who changed it")
            .role("k8s")
    })
}

/// Runtimes as `NAME:SystemdCgroup`.
fn runtimes(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(' ').filter_map(|word| word.split_once(':'))
}

fn runc(all: &str, default: &str) -> Option<Finding> {
    let default = if default.is_empty() { "runc" } else { default };
    (!all.is_empty() && runtimes(all).all(|(name, _)| name != default)).then(|| {
        let names: Vec<&str> = runtimes(all).map(|(name, _)| name).collect();
        Finding::new("runc", Health::Ill, format!("no runtime {default} in containerd's configuration, only {}", names.join(", ")))
            .because("a drop-in hides the base definition: containerd serves no pods without its default runtime, the node is NotReady")
            .help("define it in config.toml or in a drop-in that comes first, then restart containerd")
            .role("k8s")
    })
}

fn nvidia(all: &str, files: &str) -> Option<Finding> {
    let file = files
        .split(' ')
        .filter_map(|word| word.rsplit_once('='))
        .find(|(file, _)| file.contains("nvidia"))?
        .0;
    (!all.is_empty() && runtimes(all).all(|(name, _)| name != "nvidia")).then(|| {
        Finding::new(
            "handler",
            Health::Ill,
            format!("{file} is there, and containerd's configuration has no runtime nvidia"),
        )
        .because("config.toml does not import the file: `imports` is missing, or names another folder")
        .help("add the folder to `imports`, then restart containerd")
        .role("gpu_runtime")
    })
}

/// `files`: where the setting is written, as `FILE=VALUE`.
fn cgroup(all: &str, kubelet: &str, files: &str) -> Option<Finding> {
    let wanted = match kubelet {
        "systemd" => "true",
        "cgroupfs" => "false",
        _ => return None,
    };
    let (name, value) = runtimes(all).find(|(_, value)| *value != wanted)?;
    let places = files.split(' ').filter_map(|word| word.rsplit_once('=')).filter(|(_, set)| *set == value);
    let places: Vec<&str> = places.map(|(file, _)| file).collect();
    let places =
        if places.is_empty() { String::new() } else { format!(", which stands in {}", places.join(", ")) };
    Some(
        Finding::new("cgroup", Health::Ill, format!("the kubelet uses {kubelet}, containerd's runtime {name} has SystemdCgroup = {value}{places}"))
            .because("kubelet and containerd disagree on the driver of control groups: pods do not start (`expected cgroupsPath …`)")
            .help("a drop-in goes before config.toml, and that of the toolkit holds a copy of the setting: change it there too, or run nvidia-ctk again")
            .role("k8s"),
    )
}

fn driver(pci: &str, version_: &str, error: &str, loaded: &str, nouveau: &str) -> Option<Finding> {
    if pci.is_empty() || pci == "0" {
        return None;
    }
    let finding = |found: String| Finding::new("driver", Health::Ill, found).role("gpu_host");
    if !nouveau.is_empty() {
        return Some(
            finding("the kernel's nouveau has the GPU".to_owned())
                .because("NVIDIA's driver cannot take a GPU that nouveau holds")
                .help("blacklist nouveau, `update-initramfs -u`, restart the host"),
        );
    }
    if error.contains("version mismatch") {
        return Some(
            finding(error.to_owned())
                .because(format!(
                    "the driver's files were upgraded; the module that is loaded is {}",
                    if loaded.is_empty() { "the old one" } else { loaded }
                ))
                .help("restart the host; hold the driver's packages so that it does not happen unasked"),
        );
    }
    if version_.is_empty() {
        let detail = if error.is_empty() { "there is no nvidia-smi" } else { error };
        return Some(
            finding(format!("a GPU is on the bus, and no driver works: {detail}"))
                .because("the driver is not installed, or its module is not loaded")
                .help("`modprobe nvidia`, `dkms status`, `mokutil --sb-state` (an unsigned module under Secure Boot)"),
        );
    }
    let have = version(version_);
    (have.as_slice() < DRIVER).then(|| {
        finding(format!("the driver {version_} is too old: at least 470.82.01 is needed"))
            .because(
                "containers bring a newer CUDA than the driver knows: `CUDA driver version is insufficient`",
            )
            .help("install a newer driver, then restart the host")
    })
}

/// A GPU of AMD's with which nobody can compute.
fn amd_driver(pci: &str, module: &str, kfd: &str) -> Option<Finding> {
    if pci.is_empty() || pci == "0" || (!module.is_empty() && !kfd.is_empty()) {
        return None;
    }
    let (found, cause) = if module.is_empty() {
        (
            "a GPU of AMD's is on the bus, and the module amdgpu is not loaded",
            "the driver is not installed, or its module is held back",
        )
    } else {
        (
            "the module amdgpu is loaded, and there is no /dev/kfd",
            "the kernel's module has no support for computing, or takes none of these GPUs",
        )
    };
    Some(
        Finding::new("driver", Health::Ill, found)
            .because(cause)
            .help("`dmesg | grep -i amdgpu`, `dkms status`, `modprobe amdgpu`; the device plugin needs /dev/kfd and /dev/dri"),
    )
}

/// Programs of runtimes that are named and not there.
fn missing(engine: &str, programs: &str, role: &'static str) -> Option<Finding> {
    let programs: Vec<&str> = programs.split_whitespace().collect();
    (!programs.is_empty()).then(|| {
        let found = format!("a runtime of {engine} is named, and its program is not there: {}", programs.join(", "));
        Finding::new("runtime", Health::Ill, found)
            .because(format!("NVIDIA's container toolkit is not installed, or was removed while {engine}'s configuration still names it"))
            .help(format!("install the toolkit again, or take the runtime out of {engine}'s configuration and restart {engine}"))
            .role(role)
    })
}

fn docker(pci: &str, runtimes: &str, file: &str) -> Option<Finding> {
    if pci.is_empty() || pci == "0" || runtimes.is_empty() || runtimes.split(' ').any(|name| name == "nvidia")
    {
        return None;
    }
    let cause = if file.is_empty() {
        "/etc/docker/daemon.json does not name the runtime"
    } else {
        "/etc/docker/daemon.json names the runtime, and docker was not restarted since"
    };
    Some(
        Finding::new(
            "docker",
            Health::Ill,
            format!("docker has no runtime nvidia, only {}", runtimes.replace(' ', ", ")),
        )
        .because(cause)
        .help("the role adds the key, keeps the others, and restarts docker")
        .role("gpu_host"),
    )
}

fn toolkit(installed: &str, nvkind: &str) -> Option<Finding> {
    (!nvkind.is_empty() && version(installed).as_slice() >= CDI_TOOLKIT).then(|| {
        Finding::new("toolkit", Health::Odd, format!("{nvkind} beside NVIDIA's container toolkit {installed}"))
            .because("from 1.18 the toolkit uses CDI first; nvkind before that fails with `umount: /proc/driver/nvidia: not mounted`")
            .help("pin all four toolkit packages to 1.17.8-1 and hold them, or use an nvkind that knows it")
    })
}

fn firewall(kubelet: &str, forward: &str) -> Option<Finding> {
    (!kubelet.is_empty() && forward == "DROP").then(|| {
        Finding::new("firewall", Health::Ill, "ufw is active and drops what passes through the host")
            .because("pods are reached through the host: CoreDNS answers 503, services hang")
            .help("DEFAULT_FORWARD_POLICY=\"ACCEPT\" in /etc/default/ufw, then `ufw reload`")
            .role("k8s")
    })
}

fn opened(arguments: &str) -> Option<Finding> {
    (!arguments.is_empty()).then(|| {
        Finding::new("access", Health::Ill, format!("the API server runs with {arguments}"))
            .because("whoever reaches the API server may do more than its roles and bindings say")
            .help("unless it is declared (k8s_cluster.apiServer.extraArgs), an apply with the role removes it; check who added it to /etc/kubernetes/manifests/kube-apiserver.yaml")
            .role("k8s")
    })
}

/// Certificates of the cluster that have ended or are about to; `cert PATH` is the moment in seconds.
fn certificates(answer: &CheckAnswers, now: Timestamp) -> Option<Finding> {
    let ends = answer.iter().filter_map(|(key, value)| {
        let end = Timestamp::from_second(value.parse().ok()?).ok()?;
        Some((key.strip_prefix("cert ")?, end))
    });
    let mut ends: Vec<(&str, Timestamp)> = ends.collect();
    ends.sort_by_key(|(_, end)| *end);
    let (path, end) = *ends.first()?;
    let days = end.duration_since(now).as_secs().div_euclid(86_400);
    if days >= SOON {
        return Some(Finding::new("certs", Health::Well, format!("good for {days} days")));
    }
    let others = ends.iter().filter(|(_, end)| end.duration_since(now).as_secs() < SOON * 86_400).count() - 1;
    let more = if others > 0 { format!(", and {others} more") } else { String::new() };
    let (health, found) = if end <= now {
        (Health::Ill, format!("{path} ended at {end:.0}{more}"))
    } else {
        (
            Health::Odd,
            format!(
                "{path} ends in {}{more}",
                converge_resource::counted(usize::try_from(days).unwrap_or_default(), "day")
            ),
        )
    };
    let kubelet = path.contains("kubelet-client");
    Some(
        Finding::new("certs", health, found)
            .because("kubeadm's certificates are good for a year, and are renewed by an upgrade or by the role")
            .help(if kubelet {
                "the kubelet renews its own while it reaches the API server: `systemctl restart kubelet`; if it has ended, join the node again"
            } else {
                "converge with the role renews them; by hand: `kubeadm certs renew all`, then restart the control plane's pods"
            })
            .role("k8s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(pairs: &[(&str, &str)]) -> Vec<Finding> {
        let answer: CheckAnswers = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        diagnose(&answer, "2026-11-21T00:00:00Z".parse().unwrap())
    }

    fn one(pairs: &[(&str, &str)]) -> Finding {
        let mut all = findings(pairs);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_host_that_is_well_or_no_node_has_nothing() {
        assert!(findings(&[]).is_empty());
        let node = [
            ("ctd_runtimes", "nvidia:true runc:true"),
            ("ctd_default", "runc"),
            ("ctd_root", "3"),
            ("ctd_files", "/etc/containerd/conf.d/99-nvidia.toml=3"),
            ("kubelet_cgroup", "systemd"),
            ("gpu_pci", "8"),
            ("driver", "580.159.04"),
            ("docker", "io.containerd.runc.v2 nvidia runc"),
            ("toolkit", "1.20.0"),
            ("ufw_forward", "ACCEPT"),
        ];
        assert!(findings(&node).is_empty(), "{:?}", findings(&node));
    }

    #[test]
    fn a_drop_in_above_the_root() {
        let found = one(&[
            ("ctd_root", "2"),
            ("ctd_files", "/etc/containerd/conf.d/00-k8s.toml=2 /etc/containerd/conf.d/99-nvidia.toml=4"),
            ("ctd_error", "drop-in config version 4 higher than root config version 2"),
        ]);
        assert_eq!((found.step, found.role), ("containerd", Some("gpu_operator")));
        assert!(found.found.contains("99-nvidia.toml has version 4"), "{found:?}");
        assert_eq!(one(&[("ctd_error", "toml: line 3")]).role, Some("k8s"));
    }

    #[test]
    fn runc_hidden_and_nvidia_not_imported() {
        let found =
            one(&[("ctd_runtimes", "nvidia:true"), ("ctd_default", "runc"), ("kubelet_cgroup", "systemd")]);
        assert_eq!((found.step, found.role), ("runc", Some("k8s")));
        let found = one(&[
            ("ctd_runtimes", "runc:true"),
            ("ctd_files", "/etc/containerd/conf.d/99-nvidia.toml=3"),
            ("ctd_root", "3"),
        ]);
        assert_eq!((found.step, found.role), ("handler", Some("gpu_runtime")));
    }

    #[test]
    fn two_cgroup_drivers() {
        let found = one(&[("ctd_runtimes", "nvidia:true runc:false"), ("kubelet_cgroup", "systemd")]);
        assert!(
            found.step == "cgroup" && found.found.contains("runtime runc has SystemdCgroup = false"),
            "{found:?}"
        );
        assert_eq!(one(&[("ctd_runtimes", "runc:true"), ("kubelet_cgroup", "cgroupfs")]).step, "cgroup");
        let found = one(&[
            ("ctd_runtimes", "runc:false"),
            ("kubelet_cgroup", "systemd"),
            ("ctd_cgroup", "/etc/containerd/config.toml=true /etc/containerd/conf.d/99-nvidia.toml=false"),
        ]);
        assert!(
            found
                .found
                .ends_with("SystemdCgroup = false, which stands in /etc/containerd/conf.d/99-nvidia.toml"),
            "{found:?}"
        );
    }

    #[test]
    fn drivers() {
        let says = |pairs: &[(&str, &str)], text: &str| {
            let found = one(pairs);
            let all = format!("{} {}", found.found, found.cause.clone().unwrap_or_default());
            assert!(
                found.step == "driver" && found.role == Some("gpu_host") && all.contains(text),
                "{found:?}"
            );
        };
        says(&[("gpu_pci", "1"), ("driver", "460.91.03")], "470.82.01");
        says(
            &[
                ("gpu_pci", "1"),
                ("driver_error", "Failed to initialize NVML: Driver/library version mismatch"),
                ("driver_loaded", "550.54.15"),
            ],
            "550.54.15",
        );
        says(&[("gpu_pci", "1")], "there is no nvidia-smi");
        says(&[("gpu_pci", "1"), ("nouveau", "yes")], "nouveau");
        assert!(findings(&[("gpu_pci", "1"), ("driver", "470.82.01")]).is_empty());
        assert!(findings(&[("gpu_pci", "0"), ("driver_error", "no devices")]).is_empty());
    }

    #[test]
    fn drivers_of_amd() {
        let found = one(&[("amd_pci", "8")]);
        assert!(found.step == "driver" && found.found.contains("amdgpu is not loaded"), "{found:?}");
        assert!(one(&[("amd_pci", "8"), ("amdgpu", "yes")]).found.contains("no /dev/kfd"));
        assert!(findings(&[("amd_pci", "8"), ("amdgpu", "yes"), ("kfd", "yes")]).is_empty());
        assert!(findings(&[("amd_pci", "0"), ("amdgpu", "yes")]).is_empty());
    }

    #[test]
    fn runtimes_that_are_named_and_not_there() {
        let found = one(&[("docker_missing", "nvidia-container-runtime ")]);
        assert_eq!((found.step, found.role), ("runtime", Some("docker_runtime")));
        assert!(found.found.ends_with("not there: nvidia-container-runtime"), "{found:?}");
        let found = one(&[("ctd_missing", "/usr/local/nvidia/toolkit/nvidia-container-runtime ")]);
        assert_eq!((found.step, found.role), ("runtime", Some("gpu_runtime")));
        assert!(findings(&[("docker_missing", ""), ("ctd_missing", "")]).is_empty());
    }

    #[test]
    fn docker_without_the_runtime() {
        let host = [("gpu_pci", "1"), ("driver", "580.1"), ("docker", "io.containerd.runc.v2 runc")];
        let found = one(&host);
        assert!(
            found.step == "docker" && found.cause.as_deref().is_some_and(|c| c.contains("does not name")),
            "{found:?}"
        );
        let found = one(&[host.as_slice(), &[("docker_file", "yes")]].concat());
        assert!(found.cause.as_deref().is_some_and(|c| c.contains("not restarted")), "{found:?}");
    }

    #[test]
    fn a_toolkit_that_nvkind_cannot_take() {
        let with = |toolkit| findings(&[("toolkit", toolkit), ("nvkind", "/usr/local/bin/nvkind")]);
        assert_eq!(with("1.18.0").first().map(|f| f.step), Some("toolkit"));
        assert!(with("1.17.8").is_empty() && findings(&[("toolkit", "1.20.0")]).is_empty());
    }

    #[test]
    fn a_firewall_that_drops_what_pods_say() {
        assert_eq!(one(&[("kubelet_cgroup", "systemd"), ("ufw_forward", "DROP")]).step, "firewall");
        assert!(findings(&[("ufw_forward", "DROP")]).is_empty());
    }

    #[test]
    fn arguments_that_open_the_api() {
        let found = one(&[("kube_open", "--authorization-mode=AlwaysAllow")]);
        assert_eq!((found.step, found.role, found.health), ("access", Some("k8s"), Health::Ill));
        assert!(findings(&[("kube_open", "")]).is_empty());
    }

    #[test]
    fn certificates_about_to_end() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap().as_second().to_string();
        let (soon, gone, late) =
            (at("2026-12-01T00:00:00Z"), at("2026-11-20T00:00:00Z"), at("2027-11-20T00:00:00Z"));
        let api = "cert /etc/kubernetes/pki/apiserver.crt";
        let found = one(&[(api, &soon), ("cert /etc/kubernetes/admin.conf", &late)]);
        assert!(
            found.health == Health::Odd && found.found == "/etc/kubernetes/pki/apiserver.crt ends in 10 days",
            "{found:?}"
        );
        let found = one(&[(api, &soon), ("cert /var/lib/kubelet/pki/kubelet-client-current.pem", &gone)]);
        assert!(found.health == Health::Ill && found.found.contains("and 1 more"), "{found:?}");
        assert!(
            found.help.as_deref().is_some_and(|help| help.contains("kubelet renews its own")),
            "{found:?}"
        );
        assert_eq!(one(&[(api, &late)]).health, Health::Well);
    }
}
