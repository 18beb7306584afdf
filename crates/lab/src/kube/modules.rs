//! How each part is built: its Go module, as text.

use super::parts::Part;
use super::versions as v;

/// One step of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// `go build` of packages in a module of our own that requires them.
    Module { text: String, packages: Vec<String>, flags: String, tags: &'static str, cgo: bool },
    /// `go install` of a package at its version.
    Install { package: String, cgo: bool },
    /// A program that is named after its folder gets its own name.
    Renamed { from: &'static str, to: &'static str },
}

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

/// The steps that build a part.
pub(crate) fn recipes(part: Part) -> Vec<Recipe> {
    match part {
        Part::Kubernetes | Part::Kubeadm => vec![kubernetes(part, v::KUBERNETES)],
        Part::Older => vec![kubernetes(part, v::KUBERNETES_OLDER)],
        Part::Etcd => vec![
            module("go.etcd.io/etcd/server/v3", v::ETCD, &[""]),
            Recipe::Renamed { from: "server", to: "etcd" },
        ],
        Part::EtcdTools => {
            let packages: Vec<String> =
                ["etcdctl", "etcdutl"].iter().map(|name| format!("go.etcd.io/etcd/{name}/v3")).collect();
            let requirements: String =
                packages.iter().map(|package| format!("require {package} v{}\n", v::ETCD)).collect();
            let text = go_mod(&requirements, &packages);
            vec![Recipe::Module { text, packages, flags: "-s -w".to_owned(), tags: "", cgo: false }]
        }
        Part::Helm => vec![install("helm.sh/helm/v3/cmd/helm", v::HELM, false)],
        Part::Kwok => vec![install("sigs.k8s.io/kwok/cmd/kwok", v::KWOK, false)],
        Part::Containerd => {
            let name = "github.com/containerd/containerd/v2";
            let built =
                module(name, v::CONTAINERD, &["/cmd/containerd", "/cmd/containerd-shim-runc-v2", "/cmd/ctr"]);
            let Recipe::Module { text, packages, cgo, .. } = built else { return vec![built] };
            let flags = format!("-s -w -X {name}/version.Version=v{}", v::CONTAINERD);
            vec![Recipe::Module { text, packages, flags, tags: "no_btrfs no_devmapper no_zfs no_aufs", cgo }]
        }
        Part::Coredns => vec![module("github.com/coredns/coredns", v::COREDNS, &[""])],
        Part::Cni => {
            let plugins = [
                "/plugins/main/bridge",
                "/plugins/main/loopback",
                "/plugins/main/ptp",
                "/plugins/ipam/host-local",
                "/plugins/meta/portmap",
                "/plugins/meta/firewall",
                "/plugins/meta/tuning",
            ];
            vec![module("github.com/containernetworking/plugins", v::CNI, &plugins)]
        }
        Part::DevicePlugin => {
            let commands = ["/cmd/nvidia-device-plugin", "/cmd/gpu-feature-discovery", "/cmd/config-manager"];
            let built = module("github.com/NVIDIA/k8s-device-plugin", v::DEVICE_PLUGIN, &commands);
            let Recipe::Module { text, packages, flags, tags, .. } = built else { return vec![built] };
            vec![Recipe::Module { text, packages, flags, tags, cgo: true }]
        }
        Part::Toolkit => ["nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook"]
            .iter()
            .map(|name| {
                let package = format!("github.com/NVIDIA/nvidia-container-toolkit/cmd/{name}");
                install(&package, v::TOOLKIT, true)
            })
            .collect(),
    }
}

fn install(package: &str, version: &str, cgo: bool) -> Recipe {
    Recipe::Install { package: format!("{package}@v{version}"), cgo }
}

/// Packages below a module, built in a module of our own: `go install` refuses modules with replacements.
fn module(name: &str, version: &str, below: &[&str]) -> Recipe {
    let packages: Vec<String> = below.iter().map(|path| format!("{name}{path}")).collect();
    let text = go_mod(&format!("require {name} v{version}\n"), &packages);
    Recipe::Module { text, packages, flags: "-s -w".to_owned(), tags: "", cgo: false }
}

fn go_mod(requirements: &str, packages: &[String]) -> String {
    let tools: String = packages.iter().map(|package| format!("tool {package}\n")).collect();
    format!("module converge-lab-part\n\ngo {}\n\n{requirements}\n{tools}", v::GO)
}

fn kubernetes(part: Part, version: &str) -> Recipe {
    // The source is always of the one version; an older name is only a name.
    let source = v::KUBERNETES;
    let library = source.strip_prefix("1.").unwrap_or(source);
    let mut requirements = format!("godebug default=go1.26\n\nrequire k8s.io/kubernetes v{source}\n\n");
    for name in STAGING {
        requirements.push_str(&format!("replace k8s.io/{name} => k8s.io/{name} v0.{library}\n"));
    }
    let packages: Vec<String> =
        part.programs().iter().map(|name| format!("k8s.io/kubernetes/cmd/{name}")).collect();
    let minor = version.split('.').nth(1).unwrap_or_default();
    let at = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {at}.gitVersion=v{version} -X {at}.gitMajor=1 -X {at}.gitMinor={minor} -X {at}.gitTreeState=clean"
    );
    Recipe::Module { text: go_mod(&requirements, &packages), packages, flags, tags: "", cgo: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kubernetes_is_the_same_source_under_another_name() {
        let Some(Recipe::Module { text, flags, .. }) = recipes(Part::Older).pop() else { panic!() };
        assert!(text.contains("require k8s.io/kubernetes v1.36.2\n"), "{text}");
        assert!(text.contains("replace k8s.io/api => k8s.io/api v0.36.2\n"), "{text}");
        assert!(flags.contains("gitVersion=v1.35.6") && flags.contains("gitMinor=35"), "{flags}");
    }

    #[test]
    fn every_part_is_pinned() {
        for part in Part::ALL {
            for recipe in recipes(*part) {
                match recipe {
                    Recipe::Module { text, packages, .. } => {
                        assert!(text.contains("require ") && !packages.is_empty(), "{part:?}");
                    }
                    Recipe::Install { package, .. } => assert!(package.contains("@v"), "{package}"),
                    Recipe::Renamed { .. } => {}
                }
            }
        }
    }
}
