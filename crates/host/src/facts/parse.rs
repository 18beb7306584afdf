//! From the host's lines to facts. Nothing that a host says can do more than make a fact null.

use super::shape::{
    Accelerator, Cpu, Disk, Firewalld, HostFacts, HugePages, Interface, Kubernetes, Machine, MountFact,
    Network, Os, Program, Route, Snapd, Ufw, Virtualisation,
};
use converge_objects::openssl_moment;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Lines that are read.
const LINES: usize = 8192;
/// Entries of a list that are kept.
const ENTRIES: usize = 512;
/// Characters of a text that are kept.
const CHARS: usize = 256;

/// The lines of an answer.
pub(super) struct AnswerLines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> AnswerLines<'a> {
    pub fn new(answer: &'a str) -> Self {
        let model = |line: &'a str| line.split_once('=').or_else(|| line.split_once("\t:"));
        Self(answer.lines().take(LINES).filter_map(model).collect())
    }

    /// The lines whose names begin so, in order: names without that beginning, and values.
    pub fn below(&self, begin: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(k, v)| Some((k.strip_prefix(begin)?, *v)))
    }

    /// All values of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| *k == name).map(|(_, v)| *v).take(ENTRIES)
    }

    /// The first value.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.raw(name).and_then(text)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.raw(name).and_then(number)
    }

    /// True when this part of the questions was answered to its end.
    pub fn ended(&self, part: &str) -> bool {
        self.all("end").any(|p| p == part)
    }
}

/// Text of people's length without control characters; `None` when it is empty.
pub(super) fn text(value: &str) -> Option<String> {
    let clean: String = value.trim().chars().filter(|c| !c.is_control()).take(CHARS).collect();
    (!clean.is_empty()).then_some(clean)
}

pub(super) fn number(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}

/// `none` is what systemd-detect-virt says outside of all.
fn unless_none(value: Option<String>) -> Option<String> {
    value.filter(|v| v != "none")
}

fn unquoted(value: Option<&str>) -> Option<String> {
    let value = value?.trim();
    let inner = ['"', '\''].iter().find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q));
    text(inner.unwrap_or(value))
}

/// The facts of [`super::BASE`].
pub(super) fn base(reply: &AnswerLines<'_>) -> HostFacts {
    let mut uname = reply.raw("uname").unwrap_or_default().split(' ').map(text);
    let (hostname, kernel, arch) = (uname.next().flatten(), uname.next().flatten(), uname.next().flatten());
    let os = |key: &str| unquoted(reply.raw(&format!("os.{key}")));
    let mib = |name: &str| reply.number(name).map(|kib| kib / 1024);
    let cores: BTreeSet<&str> = reply.all("core").collect();
    let sockets: BTreeSet<&str> =
        cores.iter().filter_map(|c| c.split(' ').next()).filter(|s| !s.is_empty()).collect();
    let counted = |n: usize| u64::try_from(n).ok().filter(|n| *n > 0);
    HostFacts {
        hostname,
        os: Os {
            id: os("ID"),
            like: os("ID_LIKE").map(|l| l.split(' ').filter_map(text).collect()).unwrap_or_default(),
            version: os("VERSION_ID"),
            codename: os("VERSION_CODENAME"),
            name: os("PRETTY_NAME"),
        },
        kernel,
        arch,
        dpkg_arch: reply.text("dpkg_arch"),
        cpus: reply.number("cpus").filter(|n| *n > 0),
        cpu: Cpu {
            model: reply.text("model name"),
            sockets: counted(sockets.len()),
            cores: counted(cores.len()),
        },
        memory_mib: mib("mem.MemTotal"),
        swap_mib: mib("mem.SwapTotal"),
        huge_pages: HugePages {
            count: reply.number("mem.HugePages_Total"),
            size_kib: reply.number("mem.Hugepagesize"),
        },
        init: reply.text("init"),
        package_manager: reply.text("package_manager").map(|p| if p == "apt-get" { "apt".into() } else { p }),
        ufw: Ufw { present: reply.raw("ufw.present").is_some(), enabled: reply.raw("ufw.enabled").is_some() },
        firewalld: Firewalld {
            present: reply.raw("firewalld.present").is_some(),
            active: reply.raw("firewalld.active").is_some(),
        },
        selinux: reply.text("selinux"),
        snapd: Snapd {
            present: reply.raw("snapd.present").is_some(),
            active: reply.raw("snapd.listens").is_some(),
        },
        machine: Machine { vendor: reply.text("machine.vendor"), product: reply.text("machine.product") },
        virtualisation: Virtualisation {
            machine: unless_none(reply.text("virt.machine")),
            container: unless_none(reply.text("virt.container")),
        },
        disks: reply.all("disk").filter_map(disk).collect(),
        mounts: mounts(reply),
        network: network(reply),
        accelerators: reply.all("pci").filter_map(accelerator).collect(),
        ..HostFacts::default()
    }
}

fn flag(value: Option<&str>) -> Option<bool> {
    match value?.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn disk(line: &str) -> Option<Disk> {
    let mut parts = line.splitn(5, '|');
    Some(Disk {
        name: text(parts.next()?)?,
        // Sectors of 512 bytes, whatever the disk's own are.
        size_mib: parts.next().and_then(number).map(|sectors| sectors / 2048),
        rotational: flag(parts.next()),
        removable: flag(parts.next()),
        model: parts.next().and_then(text),
    })
}

/// `\040` and the like, as the kernel writes blanks in its table of mounts.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

fn mounts(reply: &AnswerLines<'_>) -> Vec<MountFact> {
    let mut found: Vec<MountFact> = Vec::new();
    for line in reply.all("mount") {
        let mut parts = line.split(' ');
        let (Some(device), Some(path)) = (parts.next().and_then(text), parts.next()) else { continue };
        let Some(path) = text(&unescaped(path)) else { continue };
        let fstype = parts.next().and_then(text);
        let read_only = parts.next().is_some_and(|o| o.split(',').any(|o| o == "ro"));
        // The last mount over a path is the visible one. A device that is mounted again elsewhere is no other disk.
        found.retain(|m| m.path != path);
        if found.iter().any(|m| m.device == device) && path != "/" {
            continue;
        }
        found.push(MountFact { path, device, fstype, read_only, size_mib: None, available_mib: None });
    }
    for line in reply.all("df") {
        let mut parts = line.splitn(3, ' ');
        let (size, free) = (parts.next().and_then(number), parts.next().and_then(number));
        let path = parts.next().unwrap_or_default();
        if let Some(mount) = found.iter_mut().find(|m| m.path == path) {
            mount.size_mib = size.map(|kib| kib / 1024);
            mount.available_mib = free.map(|kib| kib / 1024);
        }
    }
    found
}

fn network(reply: &AnswerLines<'_>) -> Network {
    let mut interfaces: Vec<Interface> = reply.all("net").filter_map(interface).collect();
    for line in reply.all("ip") {
        // `4: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0`; `eth0@if5` names the other end.
        let mut words = line.split_whitespace().skip(1);
        let name = words.next().unwrap_or_default().split('@').next().unwrap_or_default();
        let Some("inet" | "inet6") = words.next() else { continue };
        let Some(address) = words.next().and_then(text) else { continue };
        if let Some(one) = interfaces.iter_mut().find(|i| i.name == name)
            && one.addresses.len() < ENTRIES
        {
            one.addresses.push(address);
        }
    }
    let route = |name: &str, v6: bool| {
        let words: Vec<&str> = reply.raw(name)?.split_whitespace().collect();
        let after = |key: &str| {
            words.iter().position(|w| *w == key).and_then(|at| words.get(at + 1)).and_then(|w| text(w))
        };
        let interface = after("dev");
        let own = interfaces.iter().find(|i| Some(&i.name) == interface.as_ref());
        let fits = |a: &&String| a.contains(':') == v6 && !a.starts_with("fe80:");
        let address = after("src").or_else(|| {
            let first = own?.addresses.iter().find(fits)?;
            first.split('/').next().map(str::to_owned)
        });
        Some(Route { address, interface, gateway: after("via") })
    };
    let (ipv4, ipv6) = (route("route4", false), route("route6", true));
    let search = reply.raw("dns.search").unwrap_or_default();
    Network {
        ipv4,
        ipv6,
        interfaces,
        dns_servers: reply.all("dns.nameserver").filter_map(text).take(16).collect(),
        dns_search: search.split_whitespace().filter_map(text).take(32).collect(),
    }
}

fn interface(line: &str) -> Option<Interface> {
    let mut parts = line.split('|');
    Some(Interface {
        name: text(parts.next()?)?,
        mac: parts.next().and_then(text),
        mtu: parts.next().and_then(number),
        state: parts.next().and_then(text),
        // ARPHRD_INFINIBAND
        infiniband: parts.next() == Some("32"),
        // -1 or nothing without a link.
        speed_mbps: parts.next().and_then(number).filter(|n| *n > 0),
        addresses: Vec::new(),
    })
}

fn accelerator(line: &str) -> Option<Accelerator> {
    let mut parts = line.split(' ');
    let bus_id = text(parts.next()?)?;
    let vendor = match parts.next()? {
        "0x10de" => "nvidia".to_owned(),
        "0x1002" => "amd".to_owned(),
        "0x8086" => "intel".to_owned(),
        other => text(other)?,
    };
    Some(Accelerator {
        bus_id,
        vendor,
        device: parts.next().and_then(text),
        driver: parts.next().and_then(text),
    })
}

/// The facts of a program that runs as a service. `flags` name its configuration on the command line.
pub(super) fn program(reply: &AnswerLines<'_>, name: &str, flags: &[&str], usual: &str) -> Program {
    let key = |part: &str| format!("{name}.{part}");
    let active = reply.raw(&key("ActiveState")) == Some("active");
    let args: Vec<&str> = reply.all(&key("arg")).collect();
    let reported = args.iter().enumerate().find_map(|(at, arg)| {
        flags.iter().find_map(|flag| match arg.strip_prefix(flag)? {
            "" => args.get(at + 1).and_then(|v| text(v)),
            rest => rest.strip_prefix('=').and_then(text),
        })
    });
    let running = args.first().and_then(|a| text(a));
    let path = reply.text(&key("path")).or_else(|| running.clone());
    let version = reply.raw(&key("version")).and_then(version);
    Program {
        present: path.is_some(),
        path,
        version,
        active,
        config: reported.or_else(|| {
            // Of several files the one beside the program that runs is meant; else the first.
            let files: Vec<&str> = reply.all(&key("file")).collect();
            let file = files.iter().find(|f| **f == usual).or_else(|| files.first());
            file.and_then(|f| text(f))
        }),
    }
}

/// The traces of kubeadm on the host.
pub(super) fn kubernetes(reply: &AnswerLines<'_>) -> Kubernetes {
    let ends = reply.all("kubernetes.certificate").filter_map(|line| {
        let (file, end) = line.split_once('|')?;
        Some((openssl_moment(end)?, text(file)?))
    });
    let ends: Vec<(Timestamp, String)> = ends.collect();
    let renewed = |file: &str| !file.ends_with("ca.crt") && !file.starts_with("/var/lib/kubelet/");
    let first = ends.iter().filter(|(_, file)| renewed(file)).min();
    let first_of_all = ends.iter().min();
    let now = reply.number("kubernetes.now").and_then(|now| i64::try_from(now).ok());
    let days = |end: &Timestamp| Some(end.as_second().checked_sub(now?)?.div_euclid(86_400));
    Kubernetes {
        control_plane: reply.all("kubernetes.runs").any(|name| name == "kube-apiserver"),
        pod_cidr: reply.text("kubernetes.pod_cidr"),
        service_cidr: reply.text("kubernetes.service_cidr"),
        open: reply.all("kubernetes.open").filter_map(text).collect(),
        certificates_end: first.map(|(end, _)| end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        certificates_days: first.and_then(|(end, _)| days(end)),
        first_certificate: first.map(|(_, file)| file.clone()),
        first_end_days: first_of_all.and_then(|(end, _)| days(end)),
        first_to_end: first_of_all.map(|(_, file)| file.clone()),
    }
}

/// The first word that begins with a number: of `containerd github.com/… v2.2.9 HASH`, `Docker version 28.2.2, build …`,
/// `Kubernetes v1.36.2`.
pub(super) fn version(line: &str) -> Option<String> {
    line.split([' ', ',']).find_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let numbers = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        if numbers { text(word) } else { None }
    })
}
