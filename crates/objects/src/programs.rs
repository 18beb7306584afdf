//! Which facts follow from which programs, by the names of packages, units and files: what a change is known to alter.

/// Facts of programs that packages bring.
pub(crate) const OF_PROGRAMS: [&str; 5] = ["containerd", "docker", "kubelet", "nvidia", "amd"];

/// Folders of programs.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/usr/local/bin/", "/usr/local/sbin/", "/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"];

/// Files that programs are configured with, and the facts that say so.
const FILES: [(&str, &str); 9] = [
    ("/etc/containerd/config.toml", "containerd"),
    ("/etc/ufw/ufw.conf", "ufw"),
    ("/etc/docker/daemon.json", "docker"),
    ("/var/lib/kubelet/config.yaml", "kubelet"),
    ("/etc/os-release", "os"),
    ("/usr/lib/os-release", "os"),
    ("/etc/resolv.conf", "network"),
    ("/etc/kubernetes/manifests/kube-apiserver.yaml", "kubernetes"),
    ("/etc/kubernetes/manifests/kube-controller-manager.yaml", "kubernetes"),
];

/// The folder of drop-ins that containerd's configuration imports.
const DROP_INS: &str = "/etc/containerd/conf.d/";

/// The facts that a package or a snap of this name alters when it comes, goes or changes its version.
pub(crate) fn of_package(name: &str) -> Vec<&'static str> {
    let name = name.split(':').next().unwrap_or(name);
    let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let mut facts = Vec::new();
    if begins(&["containerd"]) {
        facts.push("containerd");
    }
    if begins(&["docker", "moby"]) {
        facts.push("docker");
    }
    if begins(&["kubelet", "microk8s"]) {
        facts.push("kubelet");
    }
    if begins(&["nvidia", "libnvidia", "cuda-drivers", "linux-modules-nvidia"]) {
        facts.extend(["nvidia", "accelerators"]);
    }
    if begins(&["amdgpu", "rocm", "amd-smi"]) {
        facts.extend(["amd", "accelerators"]);
    }
    match name {
        "ufw" => facts.push("ufw"),
        "firewalld" => facts.push("firewalld"),
        "snapd" => facts.push("snapd"),
        "base-files" => facts.push("os"),
        "openssl" => facts.push("kubernetes"),
        _ => {}
    }
    facts
}

/// The facts that say whether this unit runs.
pub(crate) fn of_unit(unit: &str) -> Vec<&'static str> {
    let program = unit.strip_suffix(".service");
    program.into_iter().filter_map(|p| OF_PROGRAMS.into_iter().find(|fact| *fact == p)).collect()
}

/// The facts that a path alters when it is created, removed or changed. A slash at its end matches everything below.
pub(crate) fn of_path(path: &str) -> Vec<&'static str> {
    let below = |file: &str| file == path || (path.ends_with('/') && file.starts_with(path));
    let configured = FILES.iter().filter(|(file, _)| below(file)).map(|(_, fact)| *fact);
    let programs = ["containerd", "docker", "kubelet"];
    let programs =
        programs.into_iter().filter(|name| PROGRAM_FOLDERS.iter().any(|f| below(&format!("{f}{name}"))));
    let imported = (path.starts_with(DROP_INS) && !path.ends_with('/')).then_some("containerd");
    configured.chain(programs).chain(imported).collect()
}

/// The facts that a kernel module alters.
pub(crate) fn of_module(name: &str) -> Vec<&'static str> {
    match name {
        n if n.starts_with("nvidia") || n == "nouveau" => vec!["nvidia", "accelerators"],
        "amdgpu" => vec!["amd", "accelerators"],
        n if n.starts_with("vfio") => vec!["accelerators"],
        _ => Vec::new(),
    }
}

/// The facts that a kernel parameter alters.
pub(crate) fn of_sysctl(name: &str) -> Vec<&'static str> {
    match name.replace('/', ".").as_str() {
        n if n.starts_with("vm.nr_hugepages") || n.starts_with("vm.nr_overcommit_hugepages") => {
            vec!["huge_pages"]
        }
        n if n.starts_with("net.ipv6.") && n.ends_with(".disable_ipv6") => vec!["network"],
        n if n.starts_with("net.") && n.ends_with(".mtu") => vec!["network"],
        "kernel.hostname" => vec!["hostname"],
        _ => Vec::new(),
    }
}

/// These facts, none with a value.
pub(crate) fn not_known(facts: Vec<&'static str>) -> Vec<converge_resource::AlteredFact> {
    facts.into_iter().map(|fact| (fact, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_facts() {
        assert_eq!(of_package("containerd.io"), ["containerd"]);
        assert_eq!(of_package("nvidia-driver-580"), ["nvidia", "accelerators"]);
        assert!(of_package("tree").is_empty());
        assert_eq!(of_unit("docker.service"), ["docker"]);
        assert!(of_unit("nginx.service").is_empty());
        assert_eq!(of_path("/etc/docker/daemon.json"), ["docker"]);
        assert_eq!(of_path("/usr/local/bin/containerd"), ["containerd"]);
        assert_eq!(
            of_path("/usr/local/"),
            ["containerd", "docker", "kubelet"],
            "an archive of unknown content"
        );
        assert!(of_path("/etc/motd").is_empty());
        assert_eq!(of_path("/etc/containerd/conf.d/99-nvidia.toml"), ["containerd"]);
        assert_eq!(of_package("ufw"), ["ufw"]);
        assert_eq!(of_package("firewalld"), ["firewalld"]);
        assert_eq!(of_sysctl("vm.nr_hugepages"), ["huge_pages"]);
        assert!(of_sysctl("net.ipv4.ip_forward").is_empty());
    }
}
