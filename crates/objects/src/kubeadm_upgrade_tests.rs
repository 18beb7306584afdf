//! The upgrade of a node in every shell, with stand-ins for kubectl, kubeadm and kubelet.

use super::*;
use crate::testing::{TestShell, fake_tool, shells};
use converge_resource::{ObjectId, State};

/// A stand-in for kubectl: a node in files beside it. `silent` makes it fail, `budget` keeps a pod, `unmanaged` is a pod that no controller brings back.
const KUBECTL: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/log"
[ ! -e "$here/silent" ] || { echo 'connection refused' >&2; exit 1; }
case $* in
*'get node'*nodeInfo*) cat "$here/ready" 2>/dev/null ;;
*'get node'*'-o name'*) echo node/w1 ;;
*'get node'*) printf '%s %s' "$(cat "$here/unschedulable" 2>/dev/null)" "$(cat "$here/annotation" 2>/dev/null)" ;;
*'annotate --overwrite'*) for word; do case $word in converge/cordoned-to=*) echo "${word#*=}" >"$here/annotation" ;; esac done ;;
*'annotate node'*) rm -f "$here/annotation" ;;
*uncordon*) rm -f "$here/unschedulable" ;;
*'get configmap'*) printf 'kind: ClusterConfiguration\nkubernetesVersion: %s\n' "$(cat "$here/version")" ;;
*'get poddisruptionbudgets'*) printf 'stays ' ;;
*--dry-run*)
  case $* in *--force*) exit 0 ;; esac
  [ ! -e "$here/unmanaged" ] || { echo 'error: cannot delete Pods that declare no controller (use --force to override): default/alone' >&2; exit 1; }
  ;;
*drain*)
  echo true >"$here/unschedulable"
  [ ! -e "$here/budget" ] || { echo 'error when evicting pods/"held-1" -n "default" (will retry after 5s): Cannot evict' >&2; exit 1; }
  ;;
esac
"#;

const KUBEADM: &str = "#!/bin/sh\necho \"kubeadm $*\" >>\"${0%/*}/log\"\n[ ! -e \"${0%/*}/fail\" ]\n";
const KUBELET: &str = "#!/bin/sh\necho \"Kubernetes $(cat \"${0%/*}/kubelet-version\")\"\n";

struct FakeNode<'a> {
    shell: &'a TestShell,
    root: tempfile::TempDir,
}

impl<'a> FakeNode<'a> {
    fn new(shell: &'a TestShell) -> Self {
        let node = Self { shell, root: tempfile::tempdir().unwrap() };
        let root = node.root.path();
        for folder in ["kubernetes/manifests", "kubelet", "tools"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (name, text) in [("kubectl", KUBECTL), ("kubeadm", KUBEADM), ("kubelet", KUBELET)] {
            fake_tool(root, name, text);
        }
        for conf in ["kubelet.conf", "admin.conf"] {
            let text = "    server: https://10.0.0.1:6443\n";
            std::fs::write(root.join("kubernetes").join(conf), text).unwrap();
        }
        std::fs::write(root.join("kubernetes/manifests/kube-apiserver.yaml"), "").unwrap();
        node.has("kubelet-version", Some("v1.35.1"));
        node.has("version", Some("v1.35.1"));
        node
    }

    /// A file beside the stand-ins.
    fn has(&self, name: &str, text: Option<&str>) {
        let path = self.root.path().join("tools").join(name);
        match text {
            Some(text) => std::fs::write(path, format!("{text}\n")).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
    }

    fn run(&self, script: &str, stdin: &str) -> (i32, String) {
        let root = self.root.path().display();
        let vars = format!(
            "PATH={root}/tools:$PATH CV_KUBE_DIR={root}/kubernetes CV_KUBELET_DIR={root}/kubelet CV_KUBE_RUN={root}/run; \
             export PATH; sleep() {{ :; }}; "
        );
        let output = self.shell.run(self.root.path(), &format!("{vars}{script}"), &[], stdin.as_bytes());
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), text.trim_end().to_owned())
    }

    fn line(&self, key: &str) -> String {
        self.run(&format!("cv_line_kubeadm_upgrade {key}"), "").1
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.root.path().join("tools/log")).unwrap_or_default()
    }
}

#[test]
fn a_worker_is_drained_upgraded_and_takes_pods_again() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let node = FakeNode::new(&shell);
        assert_eq!(node.line("follow"), "at v1.35.1", "{}", shell.name);
        assert_eq!((node.line("drain:w1"), node.line("pods:w1")), ("runs v1.35.1".into(), "open".into()));
        // The cluster comes first.
        let leads = "cv_kubeadm_leads v1.36.2 10.0.0.1:6443";
        let (status, reply) = node.run(leads, "");
        assert_eq!(status, 75, "{reply}");
        assert!(reply.ends_with("the cluster has the version v1.35.1, and v1.36.2 comes first"), "{reply}");
        node.has("version", Some("v1.36.2"));
        assert_eq!(node.run(leads, ""), (0, "v1.36.2".to_owned()));
        assert_eq!(node.run("cv_apply_kubeadm_upgrade follow 'at v1.36.2'", "").0, 0);
        assert!(node.log().contains("kubeadm upgrade node --ignore-preflight-errors="));
        assert_eq!(node.line("follow"), "at v1.36.2");

        assert_eq!(
            node.run("CV_FETCH_FOR=w1; cv_kubeadm_free w1 10.0.0.1:6443", ""),
            (0, "free w1".to_owned())
        );
        // Cut off here, the next run knows whose cordon it is.
        assert_eq!(node.line("pods:w1"), "cordoned upgrade");
        // Nothing but a control plane's word frees a node.
        let free = "cv_apply_kubeadm_upgrade drain:w1 'free v1.36.2'";
        assert_ne!(node.run(free, "free w2\n").0, 0);
        assert_eq!(node.run(free, "free w1\n").0, 0);
        assert_eq!(node.line("drain:w1"), "free v1.36.2");

        node.has("kubelet-version", Some("v1.36.2"));
        assert_eq!(node.line("drain:w1"), "runs v1.36.2");
        let open = "CV_KUBEADM_READY=v1.36.2 CV_KUBEADM_SECONDS=0; cv_apply_kubeadm_upgrade pods:w1 open";
        node.has("ready", Some("v1.35.1 True"));
        let (status, reply) = node.run(open, "");
        assert!(status != 0 && reply.ends_with("are: v1.35.1 True"), "{reply}");
        node.has("ready", Some("v1.36.2 True"));
        assert_eq!(node.run(open, "").0, 0);
        assert_eq!(node.line("pods:w1"), "open");
        assert!(!node.root.path().join("kubelet/drained-by-converge").exists());
    }
}

#[test]
fn a_pod_that_stays_is_named_and_the_node_takes_pods_again() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let node = FakeNode::new(&shell);
        let free = "CV_FETCH_FOR=w1; cv_kubeadm_free w1 10.0.0.1:6443";
        node.has("unmanaged", Some(""));
        let (status, reply) = node.run(free, "");
        assert_eq!(status, 1, "{reply}");
        assert!(
            reply.contains("declare no controller (unmanaged: true ends them): default/alone"),
            "{reply}"
        );
        assert_eq!(node.line("pods:w1"), "open", "it was cordoned before it was asked");
        assert_eq!(node.run(&format!("{free} --force"), "").0, 0);
        assert_eq!(node.run("cv_kubeadm_keep w1 10.0.0.1:6443 upgrade", "").1, "it takes pods again");
        node.has("unmanaged", None);

        node.has("budget", Some(""));
        let (status, reply) = node.run(free, "");
        assert_eq!(status, 74, "{reply}");
        assert!(
            reply.ends_with(
                "the pod default/held-1 stays on the node: no eviction is allowed by the budget stays"
            ),
            "{reply}"
        );
        // A cordon for another purpose stays.
        assert_eq!(node.run("cv_kubeadm_keep w1 10.0.0.1:6443 leave", ""), (0, String::new()));
        assert_eq!(node.line("pods:w1"), "cordoned upgrade");
        assert_eq!(node.run("cv_kubeadm_keep w1 10.0.0.1:6443 upgrade", "").1, "it takes pods again");
        node.has("budget", None);

        // So does one that others have made.
        node.has("unschedulable", Some("true"));
        assert_eq!(node.line("pods:w1"), "closed");
        assert_eq!(node.run(free, "").0, 0);
        assert_eq!(node.line("pods:w1"), "closed");
        let (status, reply) = node.run("cv_apply_kubeadm_upgrade pods:w1 open", "");
        assert!(status != 0 && reply.contains("it is not cordoned by converge"), "{reply}");
    }
}

#[test]
fn a_removal_that_is_no_longer_wanted_ends_and_a_silent_api_is_reported() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let node = FakeNode::new(&shell);
        node.has("unschedulable", Some("true"));
        node.has("annotation", Some("leave"));
        assert_eq!(node.line("pods:w1"), "cordoned leave");
        assert_eq!(node.run("cv_apply_kubeadm_upgrade pods:w1 open", "").0, 0);
        assert_eq!(node.line("pods:w1"), "open");
        node.has("silent", Some(""));
        assert_eq!(node.line("pods:w1"), "silent");
        assert_eq!(node.line("drain:w1"), "runs v1.35.1");
        std::fs::remove_file(node.root.path().join("kubernetes/kubelet.conf")).unwrap();
        let absent = node.run("cv_see_kubeadm_upgrade follow drain:w1 pods:w1", "").1;
        assert_eq!(absent, "- absent\n- absent\n- absent");
    }
}

#[test]
fn a_node_that_is_drained_is_read_as_cordoned() {
    let change = |node: &str, to: &str| Change {
        object: ObjectId::new("kubeadm_upgrade", format!("drain:{node}")),
        from: State::from_line("runs v1.35.1"),
        to: State::from_line(to),
    };
    let after =
        |key: &str, state: KubeadmUpgradeState, other: &Change| KubeadmUpgrade::follows(key, &state, other);
    let cordoned = Some(KubeadmUpgradeState::Cordoned("upgrade".to_owned()));
    assert_eq!(after("pods:w1", KubeadmUpgradeState::Open, &change("w1", "free v1.36.2")), cordoned);
    assert_eq!(after("pods:w1", KubeadmUpgradeState::Closed, &change("w1", "free v1.36.2")), None);
    assert_eq!(after("pods:w2", KubeadmUpgradeState::Open, &change("w1", "free v1.36.2")), None);
    assert_eq!(after("pods:w1", KubeadmUpgradeState::Open, &change("w1", "runs v1.36.2")), None);
}
