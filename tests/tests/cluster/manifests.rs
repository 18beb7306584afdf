//! Manifests that others wrote: rendered by the real kustomize, read from folders and addresses; each object is an item.

use crate::{Lab, says_all};
use converge_lab::kube::{Part, ensure};
use converge_tests::Ran;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const BASE: &str = "resources: [objects.yaml]\nnamespace: trainer\nconfigMapGenerator:\n- name: settings\n  literals: [size=1]\n  options: {disableNameSuffixHash: true}\n";

const OVERLAY: &str = "resources: [../../base]\nlabels:\n- pairs: {team: lab}\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    \
    metadata: {name: settings}\n    data: {size: 'SIZE'}\n";

/// The object stands before its kind and its namespace.
const OBJECTS: &str = "\
apiVersion: trainer.example.org/v1
kind: Runtime
metadata: {name: torch, namespace: trainer}
spec: {image: torch}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runtimes.trainer.example.org, creationTimestamp: null}
spec:
  group: trainer.example.org
  names: {kind: Runtime, plural: runtimes, singular: runtime, listKind: RuntimeList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: trainer}
---
apiVersion: v1
kind: Secret
metadata: {name: webhook, namespace: trainer}
";

fn role(from: &str) -> String {
    format!(
        "scope: cluster\nresources:\n  - name: the manifests\n    k8s_manifests: {from}\n    register: manifests\n  \
         - name: an object\n    for_each: \"{{{{ manifests.objects }}}}\"\n    k8s_object: \"{{{{ item.value }}}}\"\n"
    )
}

/// converge with the lab's kubectl at hand, which renders kustomizations.
fn converge(lab: &Lab, args: &[&str]) -> Ran {
    let kubectl = ensure(&[Part::Kubernetes]).unwrap().program("kubectl").unwrap();
    let mut command = lab.command(args);
    command
        .env("PATH", format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap()));
    converge_tests::ran(&mut command).unwrap()
}

#[test]
fn a_kustomization_is_planned_applied_and_rolled_back_object_by_object() {
    let lab = Lab::get();
    let file =
        |path: &str, text: &str| lab.world.write(&format!("roles/trainer/files/k/{path}"), text).unwrap();
    lab.role("trainer", &role("{kustomization: k, overlay: overlays/lab}"));
    file("base/kustomization.yaml", BASE);
    file("base/objects.yaml", OBJECTS);
    file("overlays/lab/kustomization.yaml", &OVERLAY.replace("SIZE", "2"));
    let size = || lab.value(&["configmap", "-n", "trainer", "settings"], "/data/size");
    let runtime =
        || lab.value(&["runtimes.trainer.example.org", "-n", "trainer", "torch"], "/metadata/labels/team");

    let plan = converge(&lab, &["plan", "hosts.yaml"]).expect(2);
    says_all(
        &plan,
        &[
            "create namespace trainer",
            "the namespace trainer is not there yet",
            "create customresourcedefinition",
        ],
    );
    assert!(lab.value(&["namespace", "trainer"], "/metadata/name").is_none());
    let yes = |command: &str| converge(&lab, &[command, "--yes", "hosts.yaml"]);
    yes("apply").expect(0);
    assert_eq!((size().unwrap(), runtime().unwrap()), ("2".into(), "lab".into()));
    // A controller fills the empty Secret: that is its own, and shown nowhere.
    lab.kubectl(&[
        "-n",
        "trainer",
        "patch",
        "secret",
        "webhook",
        "-p",
        r#"{"stringData":{"key":"hunter2"}}"#,
    ]);
    let plan = converge(&lab, &["plan", "hosts.yaml", "-v"]).expect(0).says("nothing to change");
    assert!(!plan.all().contains("hunter2") && !plan.all().contains("aHVudGVyMg"));

    // Another overlay: the one field, and nothing else.
    file("overlays/lab/kustomization.yaml", &OVERLAY.replace("SIZE", "3"));
    let plan = converge(&lab, &["plan", "hosts.yaml"]).expect(2);
    says_all(&plan, &["-  size: '2'", "+  size: '3'", "1 to change"]);
    yes("apply").expect(0);
    assert_eq!(size().unwrap(), "3");
    yes("rollback").expect(0);
    assert_eq!(size().unwrap(), "2");

    // An object that the manifests have no more is orphaned, and goes with --prune.
    let gone = OBJECTS.split_once("---\n").unwrap().1;
    file("base/objects.yaml", gone);
    says_all(&converge(&lab, &["plan", "hosts.yaml"]), &["orphaned", "Runtime/trainer/torch"]);
    converge(&lab, &["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0);
    assert!(runtime().is_none() && size().is_some());

    // An error of kustomize is shown in its words.
    file("overlays/lab/kustomization.yaml", "resources: [../../nothing]\n");
    converge(&lab, &["plan", "hosts.yaml"]).expect(1).says("nothing");
}

/// A folder in the order of its files, and an address, whose checksum decides.
#[test]
fn a_folder_and_an_address_are_read() {
    let lab = Lab::get();
    let map = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{a: '1'}}\n"
        )
    };
    lab.role("given", &role("{folder: pair}"));
    for name in ["one", "two"] {
        lab.world.write(&format!("roles/given/files/pair/{name}.yaml"), &map(name)).unwrap();
    }
    converge(&lab, &["apply", "--yes", "hosts.yaml"]).expect(0);
    for name in ["one", "two"] {
        assert_eq!(lab.value(&["configmap", name], "/data/a").unwrap(), "1");
    }

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/install.yaml", server.local_addr().unwrap());
    let served = map("three");
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _request = stream.read(&mut [0; 4096]).unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", served.len());
            stream.write_all((head + &served).as_bytes()).unwrap();
        }
    });
    let of = |sum: &str| role(&format!("{{url: '{url}', checksum: 'sha256:{sum}'}}"));
    lab.role("given", &of(&"0".repeat(64)));
    let refused =
        converge(&lab, &["apply", "--yes", "hosts.yaml"]).expect(1).says("not the declared one").all();
    let sum = refused.split("has the SHA-256 ").nth(1).unwrap();
    lab.role("given", &of(&sum[..64]));
    converge(&lab, &["apply", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(lab.value(&["configmap", "three"], "/data/a").unwrap(), "1");
    converge(&lab, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert!(lab.value(&["configmap", "three"], "/data/a").is_none());
}

/// An error of manifests is one error, with its place.
#[test]
fn an_error_of_manifests_is_told_once_with_file_and_document() {
    let lab = Lab::get();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n";
    lab.role("given", &role("{folder: m}"));
    let file = |text: &str| lab.world.write("roles/given/files/m/a.yaml", text).unwrap();
    file(&format!("{map}---\n{map}"));
    let reply = converge(&lab, &["plan", "hosts.yaml"]).expect(1);
    says_all(
        &reply,
        &["configmap default/one is there twice: in a.yaml, document 1 and in a.yaml, document 2"],
    );
    says_all(&reply, &["1 error, 1 blocked"]);
    assert!(!reply.all().contains("before_changes"), "{}", reply.all());
    file(&format!("{map}---\n{}", map.replace("name:", "generateName:")));
    let reply = converge(&lab, &["plan", "hosts.yaml"]).expect(1);
    says_all(&reply, &["a.yaml, document 2: the name would be another one with every run"]);
}
