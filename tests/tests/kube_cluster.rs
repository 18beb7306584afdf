//! The whole cluster tier: real kubeadm, kubelet and containerd in lab hosts, from the lab's own signed repositories and images.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

use converge_lab::kube::{
    DEVICE_PLUGIN_IMAGE, FAKE_GPUS, Part, Repositories, device_plugin_image, pod_network, show_programs,
};
use converge_lab::{Host, Lab, LabOptions};
use std::time::{Duration, Instant};

/// What a role does, in its shortest form.
const INSTALL: &str = r#"
set -eu
export DEBIAN_FRONTEND=noninteractive
install -d /etc/apt/keyrings
curl -fsS "$KEY" | gpg --dearmor -o /etc/apt/keyrings/kubernetes.gpg
curl -fsS "$CONTAINERD_KEY" | gpg --dearmor -o /etc/apt/keyrings/containerd.gpg
gpg --show-keys --with-colons /etc/apt/keyrings/kubernetes.gpg | grep -q "^fpr:.*$FINGERPRINT"
echo "deb [signed-by=/etc/apt/keyrings/kubernetes.gpg] $URL /" > /etc/apt/sources.list.d/kubernetes.list
echo "deb [arch=amd64 signed-by=/etc/apt/keyrings/containerd.gpg] $CONTAINERD_URL bookworm stable" > /etc/apt/sources.list.d/containerd.list
apt-get update -qq
apt-get install -y -qq --no-install-recommends "containerd.io=$CONTAINERD_VERSION" \
  "kubelet=$VERSION" "kubeadm=$VERSION" "kubectl=$VERSION" > /dev/null
containerd config default | sed "s#sandbox = '.*'#sandbox = 'registry.k8s.io/pause:3.10.2'#" > /etc/containerd/config.toml
systemctl restart containerd
for image in /run/lab/images/*.tar; do ctr -n k8s.io images import "$image" > /dev/null; done
"#;

const INIT: &str = r"
set -eu
cat > /root/init.yaml << END
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.2
networking: {podSubnet: 10.244.0.0/16}
etcd: {local: {imageTag: 3.6.14-0}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0}
END
kubeadm init --config /root/init.yaml --ignore-preflight-errors=SystemVerification >&2
kubeadm token create --print-join-command
";

fn sh(host: &Host, script: &str) -> String {
    let output = host.exec(script).unwrap();
    if !output.success() {
        // What the cluster itself says about it.
        let look = "export KUBECONFIG=/etc/kubernetes/admin.conf; kubectl get pods -A -o wide; kubectl describe pods -n default; kubectl -n kube-system logs -l k8s-app=kube-dns --prefix --tail=-1 | grep -v 'Plugins not ready'; kubectl -n kube-system logs -l k8s-app=kube-proxy --prefix --tail=15; kubectl describe nodes | grep -A 12 -E \"^Name:|Taints|Conditions\"";
        let seen = host.exec(look).unwrap().stdout;
        panic!("{}: {script}\n{}\n{}\n{seen}", host.name(), output.stdout, output.stderr);
    }
    output.stdout.trim().to_owned()
}

fn kubectl(host: &Host, arguments: &str) -> String {
    sh(host, &format!("kubectl --kubeconfig=/etc/kubernetes/admin.conf {arguments}"))
}

/// NVIDIA's own programs over the fake library: on the host itself, and in a pod that registers with the kubelet.
fn gpus_without_silicon(control: &Host, node: &Host) {
    node.fake_gpus("count=4\nname=NVIDIA H200\n").unwrap();
    assert_eq!(sh(node, "nvidia-smi -L | wc -l"), "4");
    let features = "/run/lab/gpu-feature-discovery --oneshot --use-node-feature-api=false --no-timestamp --output-file= \
                    --machine-type-file=/etc/hostname 2>/dev/null";
    let labels = sh(node, features);
    assert!(labels.lines().any(|line| line == "nvidia.com/gpu.count=4"), "{labels}");
    let plugin = format!(
        r"
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: plugin, namespace: kube-system}}
spec:
  selector: {{matchLabels: {{name: plugin}}}}
  template:
    metadata: {{labels: {{name: plugin}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: h2}}
      containers:
      - name: plugin
        image: {DEVICE_PLUGIN_IMAGE}
        args: [--device-discovery-strategy=nvml, --device-list-strategy=envvar]
        volumeMounts:
        - {{name: kubelet, mountPath: /var/lib/kubelet/device-plugins}}
        - {{name: gpus, mountPath: {FAKE_GPUS}}}
      volumes:
      - {{name: kubelet, hostPath: {{path: /var/lib/kubelet/device-plugins}}}}
      - {{name: gpus, hostPath: {{path: {FAKE_GPUS}}}}}
"
    );
    let apply = "kubectl --kubeconfig=/etc/kubernetes/admin.conf apply -f -";
    assert!(control.exec_with_input(apply, plugin.as_bytes()).unwrap().success());
    let wait = |wanted: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let found = kubectl(control, r"get node h2 -o jsonpath='{.status.allocatable.nvidia\.com/gpu}'");
            if found == wanted {
                return;
            }
            let log = "-n kube-system logs daemonset/plugin --tail=20";
            assert!(Instant::now() < deadline, "allocatable {found}: {}", kubectl(control, log));
            std::thread::sleep(Duration::from_millis(500));
        }
    };
    wait("4");
    node.fake_gpus("count=4\nabsent.1=1\n").unwrap();
    kubectl(control, "-n kube-system rollout restart daemonset/plugin");
    wait("3");
}

#[test]
fn two_bare_hosts_become_a_cluster() {
    let lab = Lab::open(LabOptions::new(format!("t-cluster-{}", std::process::id())).kube()).unwrap();
    let repositories = Repositories::serve(&lab).unwrap();
    device_plugin_image(&lab).unwrap();
    show_programs(&lab, &[Part::DevicePlugin]).unwrap();
    let begun = Instant::now();
    let step = |what: &str| println!("{:6.1} s  {what}", begun.elapsed().as_secs_f64());
    let hosts = lab.up(2).unwrap();
    step("two hosts up");
    let variables = format!(
        "URL={} KEY={} FINGERPRINT={} CONTAINERD_URL={} CONTAINERD_KEY={} VERSION={} CONTAINERD_VERSION={}",
        repositories.kubernetes_url(),
        repositories.kubernetes_key_url(),
        repositories.kubernetes_fingerprint().unwrap(),
        repositories.containerd_url(),
        repositories.containerd_key_url(),
        Repositories::kubernetes_package_version(),
        Repositories::containerd_package_version(),
    );
    let install = format!("{variables}\n{INSTALL}");
    std::thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(|| sh(host, &install));
        }
    });
    step("packages and images");
    let [first, second] = hosts.as_slice() else { panic!("two hosts") };
    let join = sh(first, INIT);
    step("kubeadm init");
    sh(second, &format!("{join} --ignore-preflight-errors=SystemVerification"));
    step("kubeadm join");
    kubectl(first, "-n kube-system rollout status daemonset/kube-proxy --timeout=120s");
    let cidr = |name: &str| {
        let ask = format!("get node {name} -o jsonpath='{{.spec.podCIDR}}'");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let found = kubectl(first, &ask);
            if !found.is_empty() || Instant::now() > deadline {
                return found;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let cidrs = [cidr("h1"), cidr("h2")];
    pod_network(&[(first, &cidrs[0]), (second, &cidrs[1])]).unwrap();
    kubectl(first, "wait --for=condition=Ready node --all --timeout=120s");
    step("nodes Ready");
    kubectl(first, "-n kube-system rollout status deployment/coredns --timeout=120s");
    step("CoreDNS answers");

    // A pod on the node without the API reaches it: the way back goes from a host's own address to a pod's.
    let image = Repositories::BUSYBOX_IMAGE;
    let on =
        |node: &str| format!(r#"{{"spec":{{"nodeName":"{node}","tolerations":[{{"operator":"Exists"}}]}}}}"#);
    let call =
        "for i in 1 2 3 4 5 6 7 8 9; do echo | timeout 3 nc 10.96.0.1 443 && exit 0; sleep 1; done; exit 1";
    kubectl(
        first,
        &format!("run call --image={image} --restart=Never --overrides='{}' -- sh -c '{call}'", on("h2")),
    );
    kubectl(first, "wait --for=jsonpath='{.status.phase}'=Succeeded pod/call --timeout=60s");
    step("a pod asked the API");

    // A pod on one node reaches a pod on the other, by the service's name.
    kubectl(
        first,
        &format!(
            "create deployment web --image={image} --port=8080 -- sh -c 'mkdir /tmp/w; echo hello > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w'"
        ),
    );
    kubectl(first, "expose deployment web --port=80 --target-port=8080");
    kubectl(first, "rollout status deployment/web --timeout=60s");
    kubectl(
        first,
        &format!(
            "run ask --image={image} --restart=Never --overrides='{}' -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do timeout 3 wget -qO- http://web && exit 0; sleep 1; done; exit 1'",
            on("h1")
        ),
    );
    let wait = "kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/ask --timeout=60s";
    let why = "kubectl get pods -A -o wide; kubectl describe pod ask; kubectl logs ask; kubectl logs deployment/web; ip route; exit 1";
    sh(first, &format!("export KUBECONFIG=/etc/kubernetes/admin.conf; {wait} || {{ {why}; }}"));
    // A question that had to be asked again has left a line of its own.
    assert_eq!(kubectl(first, "logs ask").lines().last(), Some("hello"));
    step("a pod asked a service across nodes");

    gpus_without_silicon(first, second);
    step("a device plugin counts fake GPUs");

    // The control plane comes back after a power cut.
    first.kill().unwrap();
    first.start().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !first.exec("kubectl --kubeconfig=/etc/kubernetes/admin.conf get --raw=/readyz").unwrap().success()
    {
        assert!(Instant::now() < deadline, "the API does not come back");
        std::thread::sleep(Duration::from_millis(500));
    }
    step("the control plane is back after a power cut");
    let state = lab.state_dir().to_owned();
    lab.down().unwrap();
    assert!(!state.exists());
    step("down");
}
