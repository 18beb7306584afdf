//! The shape of the facts. `docs/facts.md` and the schema are made from these types.

use schemars::JsonSchema;
use serde::Serialize;

/// The facts of a host. Roles read them as `facts`, facts of other hosts as `hostvars[HOST].facts`.
///
/// A fact that the host does not report, or reports in an unknown form, is null. Text is at most 256 characters long and holds no
/// control characters; lists are bounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostFacts {
    /// The host's own name for itself
    pub hostname: Option<String>,
    /// The distribution
    pub os: Os,
    /// The kernel's release
    pub kernel: Option<String>,
    /// The machine's architecture as `uname -m` says it: `x86_64`, `aarch64`
    pub arch: Option<String>,
    /// The architecture as dpkg names it: `amd64`, `arm64`
    pub dpkg_arch: Option<String>,
    /// Processors that are online (hardware threads)
    pub cpus: Option<u64>,
    /// The processor
    pub cpu: Cpu,
    /// Memory in MiB. On machines with unified memory GPUs use it too
    pub memory_mib: Option<u64>,
    /// Swap in MiB; 0 without swap
    pub swap_mib: Option<u64>,
    /// Huge pages of the default size
    pub huge_pages: HugePages,
    /// The first process: `systemd`
    pub init: Option<String>,
    /// `apt`, `dnf`, `microdnf`, `yum`, `apk`, `zypper` or `pacman`
    pub package_manager: Option<String>,
    /// ufw, the firewall of Ubuntu and Debian
    pub ufw: Ufw,
    /// firewalld, the firewall of RHEL and its relatives
    pub firewalld: Firewalld,
    /// SELinux now: `enforcing` or `permissive`; `disabled` also where the kernel has none
    pub selinux: Option<String>,
    /// snapd, which installs and runs snaps
    pub snapd: Snapd,
    /// Maker and model of the machine
    pub machine: Machine,
    /// Its virtualisation
    pub virtualisation: Virtualisation,
    /// Disks, without loop, RAM and mapped devices
    pub disks: Vec<Disk>,
    /// Mounted file systems of block devices, and the root
    pub mounts: Vec<MountFact>,
    /// The network
    pub network: Network,
    /// GPUs and accelerators on the PCI bus, of any maker, with a driver or without
    pub accelerators: Vec<Accelerator>,
    /// NVIDIA's driver and GPUs. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvidia: Option<Nvidia>,
    /// AMD's driver and GPUs. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amd: Option<Amd>,
    /// containerd. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containerd: Option<Containerd>,
    /// Docker. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<Program>,
    /// The kubelet. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<Program>,
    /// Kubernetes, where kubeadm has set it up. Gathered where a role or the command reads it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
}

/// A distribution, from `/etc/os-release`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Os {
    /// `debian`, `ubuntu`, `rhel`
    pub id: Option<String>,
    /// Distributions that it is like: `["debian"]`
    pub like: Vec<String>,
    /// `12`, `24.04`
    pub version: Option<String>,
    /// `bookworm`, `noble`
    pub codename: Option<String>,
    /// Its full name
    pub name: Option<String>,
}

/// A processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cpu {
    /// Its name
    pub model: Option<String>,
    /// Sockets that hold one
    pub sockets: Option<u64>,
    /// Cores in all sockets
    pub cores: Option<u64>,
}

/// Huge pages of the default size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HugePages {
    /// The number that is set aside
    pub count: Option<u64>,
    /// The size of one in KiB
    pub size_kib: Option<u64>,
}

/// A machine, from its firmware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// Its maker
    pub vendor: Option<String>,
    /// Its model
    pub product: Option<String>,
}

/// The virtualisation of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Virtualisation {
    /// The hypervisor as `systemd-detect-virt` names it: `kvm`, `vmware`; null on bare metal
    pub machine: Option<String>,
    /// The container it runs in: `systemd-nspawn`, `docker`; null outside of any
    pub container: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Disk {
    /// `nvme0n1`
    pub name: String,
    /// Its size in MiB
    pub size_mib: Option<u64>,
    /// Does it spin?
    pub rotational: Option<bool>,
    /// Can it be taken out?
    pub removable: Option<bool>,
    /// Its model
    pub model: Option<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Mount")]
pub struct MountFact {
    /// Where
    pub path: String,
    /// The device: `/dev/nvme0n1p2`
    pub device: String,
    /// `ext4`, `xfs`
    pub fstype: Option<String>,
    /// Is it mounted read-only?
    pub read_only: bool,
    /// Its size in MiB
    pub size_mib: Option<u64>,
    /// The space that users may still write, in MiB. It changes all the time: good for conditions, bad in files
    pub available_mib: Option<u64>,
}

/// The network of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Network {
    /// The way out for IPv4
    pub ipv4: Option<Route>,
    /// The way out for IPv6
    pub ipv6: Option<Route>,
    /// Its interfaces, without those of pods (`veth…`, `cali…`, `lxc…`)
    pub interfaces: Vec<Interface>,
    /// Name servers of `/etc/resolv.conf`
    pub dns_servers: Vec<String>,
    /// Search domains of `/etc/resolv.conf`
    pub dns_search: Vec<String>,
}

/// A default route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Route {
    /// The host's own first address on that interface
    pub address: Option<String>,
    /// The interface
    pub interface: Option<String>,
    /// The router
    pub gateway: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interface {
    /// `eth0`
    pub name: String,
    /// Its hardware address
    pub mac: Option<String>,
    /// Its largest packet in bytes
    pub mtu: Option<u64>,
    /// `up`, `down`, `unknown`
    pub state: Option<String>,
    /// Its speed in Mbit/s; null where there is none (virtual, or no link)
    pub speed_mbps: Option<u64>,
    /// Is it InfiniBand?
    pub infiniband: bool,
    /// Its addresses with their prefix: `10.0.0.5/24`
    pub addresses: Vec<String>,
}

/// A GPU or accelerator on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Accelerator {
    /// Its address: `0000:00:06.0`
    pub bus_id: String,
    /// `nvidia`, `amd`, `intel`, else the number: `0x1234`
    pub vendor: String,
    /// The number of its model: `0x2335`
    pub device: Option<String>,
    /// The kernel's driver that holds it: `nvidia`, `nouveau`, `amdgpu`, `vfio-pci`; null without one
    pub driver: Option<String>,
}

/// NVIDIA's driver and GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Nvidia {
    /// Is there any NVIDIA GPU, with a driver or without?
    pub present: bool,
    /// The version of the loaded driver: `580.159.04`
    pub driver: Option<String>,
    /// The highest CUDA version that the driver supports: `13.0`
    pub cuda: Option<String>,
    /// Its GPUs by index. Without nvidia-smi only what the kernel module says
    pub gpus: Vec<NvidiaGpu>,
    /// The number of GPUs that the driver knows
    pub count: u64,
    /// Is MIG on for any of them?
    pub mig: bool,
    /// The reason why nvidia-smi did not answer; null when it did, or when there is none
    pub problem: Option<String>,
    /// The version of NVIDIA's container toolkit
    pub container_toolkit: Option<String>,
}

/// A GPU of NVIDIA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NvidiaGpu {
    /// Its number
    pub index: u64,
    /// Its name: `NVIDIA H200`
    pub name: Option<String>,
    /// `GPU-…`
    pub uuid: Option<String>,
    /// Its address: `00000000:00:06.0`
    pub bus_id: Option<String>,
    /// Its own memory in MiB; null where it has none of its own
    pub memory_mib: Option<u64>,
    /// It has no memory of its own and uses the machine's (DGX Spark, GB10)
    pub unified_memory: bool,
    /// `9.0`
    pub compute_capability: Option<String>,
    /// Is MIG on? Null where the GPU does not know MIG
    pub mig: Option<bool>,
    /// Its MIG devices
    pub mig_devices: Vec<MigDevice>,
}

/// A part of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MigDevice {
    /// `1g.18gb`
    pub profile: String,
    /// `MIG-…`
    pub uuid: Option<String>,
}

/// AMD's driver and GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Amd {
    /// Is there any AMD GPU, with a driver or without?
    pub present: bool,
    /// The version of the amdgpu module, where it has one (a module of the kernel's own tree has none)
    pub driver: Option<String>,
    /// The version of ROCm
    pub rocm: Option<String>,
    /// Its GPUs by bus address
    pub gpus: Vec<AmdGpu>,
    /// The number of GPUs that the driver knows
    pub count: u64,
}

/// A GPU of AMD.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AmdGpu {
    /// Its address: `0000:05:00.0`
    pub bus_id: Option<String>,
    /// Its name, where amd-smi, rocm-smi or the kernel tells one
    pub name: Option<String>,
    /// The number of its model: `0x74a1`
    pub device: Option<String>,
    /// `gfx942`
    pub gfx: Option<String>,
    /// Its memory in MiB
    pub memory_mib: Option<u64>,
    /// Its serial number
    pub unique_id: Option<String>,
}

/// The firewall ufw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Ufw {
    /// Is the program there?
    pub present: bool,
    /// Is it on, now and at boot?
    pub enabled: bool,
}

/// The firewall firewalld.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Firewalld {
    /// Is its program `firewall-cmd` there?
    pub present: bool,
    /// Does it run?
    pub active: bool,
}

/// The service that installs and runs snaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Snapd {
    /// Is its program `snap` there?
    pub present: bool,
    /// Is its socket there?
    pub active: bool,
}

/// The container runtime containerd. Of several that run (Docker may start one of its own) the one that Kubernetes uses is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Containerd {
    /// Is the program there, or does one run?
    pub present: bool,
    /// Where: `/usr/bin/containerd`; that of the running process, if one runs
    pub path: Option<String>,
    /// `2.2.9`; that of the running process, if one runs
    pub version: Option<String>,
    /// Does one run?
    pub active: bool,
    /// Its configuration file: that of its command line, else the usual one that is there
    pub config: Option<String>,
    /// Whose it is: `package`, `docker` (dockerd's own), `k8s-snap`, `k3s` or `rke2`; null without one
    pub flavour: Option<String>,
    /// The unit that runs it: `containerd`, `docker`, `snap.k8s.containerd`, `k3s`, `rke2-server`; null where nothing tells
    pub unit: Option<String>,
    /// The socket on which it answers: of its command line, else of its effective configuration
    pub socket: Option<String>,
    /// The runtime of pods that name none: `runc`
    pub default_runtime: Option<String>,
    /// Who makes the control groups of that runtime's pods: `systemd` or `cgroupfs`; null where it is no runtime of the configuration
    pub cgroup_driver: Option<String>,
    /// The runtimes in its effective configuration (`containerd config dump`), by name
    pub runtimes: Vec<Runtime>,
}

/// A runtime of containerd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Runtime {
    /// Its name: `runc`, `nvidia`
    pub name: String,
    /// Its type: `io.containerd.runc.v2`
    #[serde(rename = "type")]
    pub sort: Option<String>,
    /// The program that makes its containers; null means the usual one of its type
    pub binary: Option<String>,
    /// Who makes the control groups: `systemd` or `cgroupfs`
    pub cgroup_driver: String,
}

/// A program that runs as a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Program {
    /// Is the program there?
    pub present: bool,
    /// Where: `/usr/bin/containerd`
    pub path: Option<String>,
    /// `2.2.9`
    pub version: Option<String>,
    /// Does its unit run?
    pub active: bool,
    /// Its configuration file: that of its command line, else the usual one that is there
    pub config: Option<String>,
}

/// Kubernetes on a host, from what kubeadm leaves below `/etc/kubernetes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Kubernetes {
    /// Does an API server of kubeadm's belong here?
    pub control_plane: bool,
    /// The network of the pods with which the cluster was made: `10.244.0.0/16`. Null on workers
    pub pod_cidr: Option<String>,
    /// The network of the services with which the cluster was made: `10.96.0.0/16`. Null on workers
    pub service_cidr: Option<String>,
    /// Settings that let everyone in, each with its program: `kube-apiserver has --authorization-mode=AlwaysAllow`, `kube-apiserver has no
    /// --authorization-mode`, `etcd has no --client-cert-auth=true`, `kubelet has authentication.anonymous.enabled: true`
    pub open: Vec<String>,
    /// When the first of the certificates ends that `kubeadm certs renew` renews: `2027-11-22T03:45:01Z`. Null on workers, and where
    /// there is no openssl
    pub certificates_end: Option<String>,
    /// Whole days until then, by the host's own clock; below 0 when it has ended
    pub certificates_days: Option<i64>,
    /// The file with that certificate: `/etc/kubernetes/pki/apiserver.crt`
    pub first_certificate: Option<String>,
    /// Whole days until the first of all certificates ends: those, the authorities', and the kubelet's own, which it renews itself
    pub first_end_days: Option<i64>,
    /// The file with that certificate: `/var/lib/kubelet/pki/kubelet-client-current.pem`
    pub first_to_end: Option<String>,
}
