//! How each part is built: packages of a Go module of our own, which requires the modules of nearly all parts.
//!
//! In it each library has one version, the newest that one of the parts asks for, and is compiled once for all of them. A part's own
//! source is of its version.

use super::part::Part;
use super::versions as v;

/// The step that builds a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    modules: &'static [(&'static str, &'static str)],
    pub packages: Vec<String>,
    /// For the linker.
    pub flags: String,
    pub tags: &'static str,
    /// Whether a package of it is written in C too.
    pub cgo: bool,
    /// A program that is named after its folder gets its own name.
    pub renamed: Option<(&'static str, &'static str)>,
}

/// The modules of the parts that are built together.
const TOGETHER: &[(&str, &str)] = &[
    (KUBERNETES, v::KUBERNETES),
    ("go.etcd.io/etcd/server/v3", v::ETCD),
    ("go.etcd.io/etcd/etcdctl/v3", v::ETCD),
    ("go.etcd.io/etcd/etcdutl/v3", v::ETCD),
    ("helm.sh/helm/v3", v::HELM),
    ("sigs.k8s.io/kwok", v::KWOK),
    (CONTAINERD, v::CONTAINERD),
    ("github.com/coredns/coredns", v::COREDNS),
    ("github.com/containernetworking/plugins", v::CNI),
    ("github.com/NVIDIA/k8s-device-plugin", v::DEVICE_PLUGIN),
];
/// The toolkit wants a newer library of NVIDIA's than the device plugin can be built with.
const APART: &[(&str, &str)] = &[("github.com/NVIDIA/nvidia-container-toolkit", v::TOOLKIT)];
const KUBERNETES: &str = "k8s.io/kubernetes";
const CONTAINERD: &str = "github.com/containerd/containerd/v2";

/// No debugger looks at them.
const COMPILER: &str = "-gcflags=all=-dwarf=false";
/// Names and users are looked up in Go where there is C too: all that stands on these packages is the same for every part then.
const TAGS: &str = "netgo,osusergo";

/// Modules that live in the repository of Kubernetes and have to be of its version.
const STAGING: &[&str] = &[
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "cri-streaming",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
    "sample-cli-plugin",
    "sample-controller",
    "streaming",
];

/// The step that builds a part.
pub(crate) fn recipe(part: Part) -> Recipe {
    match part {
        Part::Kubernetes | Part::Kubeadm => kubernetes(part, v::KUBERNETES),
        Part::Older => kubernetes(part, v::KUBERNETES_OLDER),
        Part::Etcd => {
            Recipe { renamed: Some(("server", "etcd")), ..packages("go.etcd.io/etcd/server/v3", &[""]) }
        }
        Part::EtcdTools => packages("go.etcd.io/etcd", &["/etcdctl/v3", "/etcdutl/v3"]),
        Part::Helm => packages("helm.sh/helm/v3", &["/cmd/helm"]),
        Part::Kwok => packages("sigs.k8s.io/kwok", &["/cmd/kwok"]),
        Part::Containerd => Recipe {
            flags: format!("-s -w -X {CONTAINERD}/version.Version=v{}", v::CONTAINERD),
            tags: "no_btrfs,no_devmapper,no_zfs,no_aufs",
            ..packages(CONTAINERD, &["/cmd/containerd", "/cmd/containerd-shim-runc-v2", "/cmd/ctr"])
        },
        Part::Coredns => packages("github.com/coredns/coredns", &[""]),
        Part::Cni => packages(
            "github.com/containernetworking/plugins/plugins",
            &[
                "/main/bridge",
                "/main/loopback",
                "/main/ptp",
                "/ipam/host-local",
                "/meta/portmap",
                "/meta/firewall",
                "/meta/tuning",
            ],
        ),
        Part::DevicePlugin => Recipe {
            cgo: true,
            ..packages(
                "github.com/NVIDIA/k8s-device-plugin/cmd",
                &["/nvidia-device-plugin", "/gpu-feature-discovery", "/config-manager"],
            )
        },
        Part::Toolkit => Recipe {
            modules: APART,
            cgo: true,
            ..packages(
                "github.com/NVIDIA/nvidia-container-toolkit/cmd",
                &["/nvidia-ctk", "/nvidia-container-runtime", "/nvidia-cdi-hook"],
            )
        },
    }
}

impl Recipe {
    /// The arguments of `go` that build it into this folder.
    pub(crate) fn arguments(&self, to: &str) -> Vec<String> {
        let tags = [TAGS, self.tags].join(",");
        let fixed = [
            "build",
            "-mod=mod",
            COMPILER,
            "-ldflags",
            &self.flags,
            "-tags",
            tags.trim_end_matches(','),
            "-o",
            to,
        ];
        fixed.into_iter().map(str::to_owned).chain(self.packages.iter().cloned()).collect()
    }

    /// The module in which it is built, as `go.mod`; `go build -mod=mod` adds what these require.
    pub(crate) fn go_mod(&self) -> String {
        let mut text = format!("module converge-lab-part\n\ngo {}\n\ngodebug default=go1.26\n\n", v::GO);
        for (name, version) in self.modules {
            text.push_str(&format!("require {name} v{version}\n"));
        }
        let library = v::KUBERNETES.strip_prefix("1.").unwrap_or(v::KUBERNETES);
        for name in STAGING.iter().filter(|_| self.modules == TOGETHER) {
            text.push_str(&format!("replace k8s.io/{name} => k8s.io/{name} v0.{library}\n"));
        }
        text
    }
}

fn packages(above: &str, below: &[&str]) -> Recipe {
    Recipe {
        modules: TOGETHER,
        packages: below.iter().map(|path| format!("{above}{path}")).collect(),
        flags: "-s -w".to_owned(),
        tags: "",
        cgo: false,
        renamed: None,
    }
}

/// The source is always of the one version; an older name is only a name.
fn kubernetes(part: Part, version: &str) -> Recipe {
    let below: Vec<String> = part.programs().iter().map(|name| format!("/cmd/{name}")).collect();
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    let minor = version.split('.').nth(1).unwrap_or_default();
    let at = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {at}.gitVersion=v{version} -X {at}.gitMajor=1 -X {at}.gitMinor={minor} -X {at}.gitTreeState=clean"
    );
    Recipe { flags, ..packages(KUBERNETES, &below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kubernetes_is_the_same_source_under_another_name() {
        let flags = recipe(Part::Older).flags;
        assert!(flags.contains("gitVersion=v1.35.6") && flags.contains("gitMinor=35"), "{flags}");
        assert_eq!(recipe(Part::Kubeadm).packages[0], recipe(Part::Older).packages[0]);
    }

    #[test]
    fn every_part_is_of_a_pinned_module() {
        for part in Part::ALL {
            let recipe = recipe(*part);
            let of = |package: &String| recipe.modules.iter().any(|(name, _)| package.starts_with(name));
            assert!(!recipe.packages.is_empty() && recipe.packages.iter().all(of), "{part:?}");
            let text = recipe.go_mod();
            for (name, version) in recipe.modules {
                assert!(text.contains(&format!("require {name} v{version}\n")), "{text}");
            }
        }
        assert!(recipe(Part::Helm).go_mod().contains("replace k8s.io/api => k8s.io/api v0.36.2\n"));
        assert!(!recipe(Part::Toolkit).go_mod().contains("k8s.io"));
    }

    #[test]
    fn tags_are_joined() {
        let tags = |part| {
            let all = recipe(part).arguments("out/");
            all[all.iter().position(|a| a == "-tags").unwrap() + 1].clone()
        };
        assert_eq!(tags(Part::Helm), "netgo,osusergo");
        assert!(tags(Part::Containerd).starts_with("netgo,osusergo,no_btrfs"));
    }
}
