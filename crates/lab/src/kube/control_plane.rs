//! The processes of an API server: which, and with what arguments. Pure.

use super::part::Part;
use std::path::{Path, PathBuf};

const STAGES: &str = include_str!("stages.yaml");
/// The initial text of [`Layout::pod_log`], as a validation workload of a GPU ends.
pub(crate) const POD_LOG: &str = "simulated\nTest PASSED\n";

/// The folder of a host with its kubeconfigs.
pub(crate) const ETC: &str = "/etc/kubernetes";

/// The environment of long-lived processes: Go's collector begins when the heap has grown to four times the size after the last
/// collection, not twice. This trades memory for time, of which a machine with many clusters has less.
pub(crate) const LONG_LIVED: &str = "GOGC=300";
/// The environment of short-lived processes: no garbage collection.
pub(crate) const SHORT_LIVED: &str = "GOGC=off";

/// The components beside etcd and kube-apiserver, and their settings.
#[derive(Debug, Clone, Default)]
pub struct ApiOptions {
    pub(crate) controllers: bool,
    pub(crate) kwok: bool,
    pub(crate) administrator: Administrator,
    pub(crate) node_grace: Option<u32>,
}

/// The certificate in `admin.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Administrator {
    /// Valid for a year.
    #[default]
    Valid,
    /// Valid for so many days.
    Days(u16),
    /// Expired a day ago.
    Expired,
}

impl Administrator {
    /// As the script with the certificates takes it.
    pub(crate) fn days(self) -> String {
        match self {
            Self::Valid => "365".to_owned(),
            Self::Days(days) => days.to_string(),
            Self::Expired => "-1".to_owned(),
        }
    }
}

impl ApiOptions {
    /// etcd and kube-apiserver only: objects are stored and served, nothing moves.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the controller manager and the scheduler.
    #[must_use]
    pub fn controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// With controllers, and kwok for the nodes that [`super::ApiServer::nodes`] makes.
    #[must_use]
    pub fn kwok(mut self) -> Self {
        self.kwok = true;
        self.controllers()
    }

    /// Which certificate `admin.conf` holds.
    #[must_use]
    pub fn administrator(mut self, administrator: Administrator) -> Self {
        self.administrator = administrator;
        self
    }

    /// After how many seconds without a heartbeat a node is no longer Ready; Kubernetes' own default is 50.
    #[must_use]
    pub fn node_grace(mut self, seconds: u32) -> Self {
        self.node_grace = Some(seconds);
        self
    }

    /// The components, in the order of starting.
    pub(crate) fn components(&self) -> Vec<Component> {
        let mut out = vec![Component::Etcd, Component::ApiServer];
        if self.controllers {
            out.extend([Component::Controllers, Component::Scheduler]);
        }
        if self.kwok {
            out.push(Component::Kwok);
        }
        out
    }

    /// The parts with the programs, kubectl among them.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut out = vec![Part::Kubernetes, Part::Etcd];
        if self.kwok {
            out.push(Part::Kwok);
        }
        out
    }
}

/// Lines as a container runtime writes them to a log.
pub(crate) fn log_text(text: &str) -> String {
    text.lines().map(|line| format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n")).collect()
}

impl Layout {
    /// kwok's stages, with the file that every simulated container has written.
    pub(crate) fn stages_text(&self) -> String {
        STAGES.replace("POD_LOG", &self.pod_log().display().to_string())
    }

    /// The log of simulated containers; a test may write another text.
    pub(crate) fn pod_log(&self) -> PathBuf {
        self.etc.join("pod.log")
    }
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    Controllers,
    /// kube-scheduler.
    Scheduler,
    /// kwok.
    Kwok,
}

/// Where an API server's files lie and where it listens.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// `pki` and the kubeconfigs.
    pub etc: PathBuf,
    /// etcd's data.
    pub data: PathBuf,
    /// kwok's stages.
    pub stages: PathBuf,
    pub ports: Ports,
}

/// Ports on loopback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub api: u16,
    pub etcd: u16,
    pub etcd_peer: u16,
    pub controllers: u16,
    pub scheduler: u16,
    pub kwok: u16,
}

impl Ports {
    /// Where kubeadm has them.
    pub(crate) const USUAL: Self =
        Self { api: 6443, etcd: 2379, etcd_peer: 2380, controllers: 10257, scheduler: 10259, kwok: 10247 };
}

/// The label of nodes whose kubelet kwok plays.
pub(crate) const PLAYED: &str = "converge-lab/kubelet";

impl Component {
    /// Its name in files and units; fit for a shell variable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "apiserver",
            Self::Controllers => "controllers",
            Self::Scheduler => "scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// The program that it is.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Controllers => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// Its arguments; none has a space or a quote in it, as long as the layout's paths have none.
    pub(crate) fn arguments(self, layout: &Layout, options: &ApiOptions) -> Vec<String> {
        let Layout { etc, data, stages, ports } = layout;
        let pki = |name: &str| etc.join("pki").join(name).display().to_string();
        let conf = |name: &str| etc.join(name).display().to_string();
        let local = |port: u16| format!("http://127.0.0.1:{port}");
        match self {
            Self::Etcd => vec![
                "--name=lab".to_owned(),
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={}", local(ports.etcd)),
                format!("--advertise-client-urls={}", local(ports.etcd)),
                format!("--listen-peer-urls={}", local(ports.etcd_peer)),
                format!("--initial-advertise-peer-urls={}", local(ports.etcd_peer)),
                format!("--initial-cluster=lab={}", local(ports.etcd_peer)),
                // The machine below never loses its page cache; fsync is what etcd waits for most.
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            Self::ApiServer => {
                let mut out = vec![
                    format!("--etcd-servers={}", local(ports.etcd)),
                    "--bind-address=127.0.0.1".to_owned(),
                    format!("--secure-port={}", ports.api),
                    "--advertise-address=127.0.0.1".to_owned(),
                    // An endpoint on loopback is refused.
                    "--endpoint-reconciler-type=none".to_owned(),
                    "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                    "--authorization-mode=Node,RBAC".to_owned(),
                    "--enable-admission-plugins=NodeRestriction".to_owned(),
                    "--allow-privileged=true".to_owned(),
                    "--profiling=false".to_owned(),
                    "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
                    "--requestheader-allowed-names=front-proxy-client".to_owned(),
                    "--requestheader-username-headers=X-Remote-User".to_owned(),
                    "--requestheader-group-headers=X-Remote-Group".to_owned(),
                    "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
                    "--kubelet-preferred-address-types=InternalIP".to_owned(),
                ];
                for (flag, file) in [
                    ("tls-cert-file", "apiserver.crt"),
                    ("tls-private-key-file", "apiserver.key"),
                    ("client-ca-file", "ca.crt"),
                    ("service-account-key-file", "sa.pub"),
                    ("service-account-signing-key-file", "sa.key"),
                    ("requestheader-client-ca-file", "front-proxy-ca.crt"),
                    ("proxy-client-cert-file", "front-proxy-client.crt"),
                    ("proxy-client-key-file", "front-proxy-client.key"),
                    ("kubelet-client-certificate", "apiserver-kubelet-client.crt"),
                    ("kubelet-client-key", "apiserver-kubelet-client.key"),
                ] {
                    out.push(format!("--{flag}={}", pki(file)));
                }
                out
            }
            Self::Controllers => {
                let mut out = as_user(&conf("controller-manager.conf"), ports.controllers);
                out.extend([
                    format!("--service-account-private-key-file={}", pki("sa.key")),
                    format!("--root-ca-file={}", pki("ca.crt")),
                    format!("--cluster-signing-cert-file={}", pki("ca.crt")),
                    format!("--cluster-signing-key-file={}", pki("ca.key")),
                    "--use-service-account-credentials=true".to_owned(),
                ]);
                out.extend(
                    options.node_grace.map(|seconds| format!("--node-monitor-grace-period={seconds}s")),
                );
                out
            }
            Self::Scheduler => as_user(&conf("scheduler.conf"), ports.scheduler),
            Self::Kwok => vec![
                format!("--kubeconfig={}", conf("super-admin.conf")),
                format!("--manage-nodes-with-label-selector={PLAYED}=on"),
                format!("--server-address=127.0.0.1:{}", ports.kwok),
                // The API server asks it for logs, as it asks a kubelet.
                format!("--tls-cert-file={}", pki("apiserver.crt")),
                format!("--tls-private-key-file={}", pki("apiserver.key")),
                "--node-ip=127.0.0.1".to_owned(),
                "--node-lease-duration-seconds=40".to_owned(),
                format!("--config={}", stages.display()),
            ],
        }
    }

    /// Its systemd unit: it comes back after a reboot, as a static pod does.
    pub(crate) fn unit(self, program: &Path, layout: &Layout, options: &ApiOptions) -> String {
        let arguments = self.arguments(layout, options).join(" ");
        format!(
            "[Unit]\nDescription=lab: {}\nStartLimitIntervalSec=0\n\n\
             [Service]\nEnvironment={LONG_LIVED}\nExecStart={} {arguments}\nRestart=on-failure\nRestartSec=1\nLimitNOFILE=65536\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            self.program(),
            program.display()
        )
    }

    /// The unit's name.
    pub(crate) fn unit_name(self) -> String {
        format!("lab-kube-{}.service", self.name())
    }
}

fn as_user(kubeconfig: &str, port: u16) -> Vec<String> {
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
        // With the defaults, 20 requests a second, the controllers wait four seconds of each start for their own limit.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            etc: "/etc/kubernetes".into(),
            data: "/var/lib/x".into(),
            stages: "/s".into(),
            ports: Ports::USUAL,
        }
    }

    #[test]
    fn kwok_brings_the_controllers() {
        assert_eq!(ApiOptions::new().components(), [Component::Etcd, Component::ApiServer]);
        assert_eq!(ApiOptions::new().kwok().components().len(), 5);
        assert!(!ApiOptions::new().controllers().parts().contains(&Part::Kwok));
    }

    #[test]
    fn no_argument_needs_a_quote() {
        let options = ApiOptions::new().kwok().node_grace(9);
        for component in options.components() {
            for argument in component.arguments(&layout(), &options) {
                assert!(
                    argument.starts_with("--") && !argument.contains([' ', '\'', '"', '%', '$']),
                    "{argument}"
                );
            }
            let name = component.name();
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
        }
    }

    #[test]
    fn everything_listens_on_loopback() {
        let options = ApiOptions::new().kwok();
        let unit = Component::ApiServer.unit(Path::new("/run/lab/kube-apiserver"), &layout(), &options);
        assert!(unit.contains("ExecStart=/run/lab/kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=127.0.0.1 --secure-port=6443 "), "{unit}");
    }
}
