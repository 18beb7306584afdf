//! A cluster planned, applied, verified and rolled back like files: through a real sshd, against a real API server with real helm and
//! simulated nodes. And the roles of a GPU cluster on fifty of them.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod admitted;
mod along;
mod forced;
mod forged;
mod forgotten;
mod formats;
mod given_back;
mod logins;
mod manifests;
mod nodes;
mod operators;
mod other_targets;
mod owners_back;
mod ownership;
mod parts;
mod patched;
mod projects;
mod records_of_helm;
mod recovered;
mod refused;
mod retention;
mod returns;
mod saved;

use converge_lab::kube::{ApiOptions, ApiServer, Component, NodeSpec, Part, ensure};
use converge_tests::{Ran, World, until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The namespace of converge's records.
const RECORDS: &str = "converge-system";

/// One control plane for all tests here, one test at a time.
struct Lab {
    world: World,
    api: ApiServer,
    helm: PathBuf,
}

static LAB: LazyLock<Mutex<Lab>> = LazyLock::new(|| {
    let world = World::new(&format!("cluster-p{}", std::process::id()), 1).unwrap();
    let api = ApiServer::start(&world.hosts()[0], ApiOptions::new().kwok()).unwrap();
    api.nodes(&NodeSpec::new("cpu", 1)).unwrap();
    let helm = ensure(&[Part::Helm]).unwrap().program("helm").unwrap();
    Mutex::new(Lab { world, api, helm })
});

impl Lab {
    fn get() -> MutexGuard<'static, Self> {
        let lab = LAB.lock().unwrap_or_else(PoisonError::into_inner);
        // The records of other tests: of a cluster only the newest are kept.
        lab.forget_records();
        lab
    }

    /// Deletes the namespace of converge's records with what is in it, at once: the controller of namespaces would begin after five seconds.
    fn forget_records(&self) {
        self.kubectl(&["delete", "secrets,configmaps,leases", "--all", "-n", RECORDS]);
        self.kubectl(&["delete", "namespace", RECORDS, "--ignore-not-found", "--wait=false"]);
        let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RECORDS}, "spec": {"finalizers": []}});
        let finalize = format!("/api/v1/namespaces/{RECORDS}/finalize");
        // It fails where no namespace is there.
        drop(self.api.kubectl_with_input(&["replace", "--raw", &finalize, "-f", "-"], &empty.to_string()));
        assert!(self.api.get(&["namespace", RECORDS]).is_err(), "the records are still there");
    }

    fn role(&self, name: &str, text: &str) {
        let roles = self.world.dir().join("roles");
        drop(std::fs::remove_file(&roles));
        self.world.write(&format!("roles/{name}/role.yaml"), text).unwrap();
        self.world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{name}]\n")).unwrap();
    }

    /// The binary, with the real helm at hand.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args).unwrap();
        let folder = self.helm.parent().unwrap().display().to_string();
        command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
        command
    }

    fn converge(&self, args: &[&str]) -> Ran {
        converge_tests::ran(&mut self.command(args)).unwrap()
    }

    fn plan(&self) -> Ran {
        self.converge(&["plan", "hosts.yaml"])
    }

    fn apply(&self) -> Ran {
        self.converge(&["apply", "--yes", "hosts.yaml"])
    }

    /// The run that is shown last: what it changed was the first.
    fn oldest_run(&self) -> String {
        let runs = self.converge(&["snapshots", "hosts.yaml"]).expect(0);
        let line = runs.stdout.lines().rfind(|l| !l.starts_with(' ')).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    }

    fn value(&self, object: &[&str], pointer: &str) -> Option<Value> {
        self.api.get(object).ok()?.pointer(pointer).cloned()
    }

    fn kubectl(&self, args: &[&str]) {
        let reply = self.api.kubectl(args).unwrap();
        assert!(reply.success(), "{args:?}: {reply:?}");
    }
}

/// Everything that must be printed.
#[track_caller]
fn says_all(ran: &Ran, texts: &[&str]) {
    for text in texts {
        assert!(ran.all().contains(text), "nobody says {text:?}\n{}", ran.all());
    }
}

const SETTINGS: &str = r#"
scope: cluster
inputs:
  force: {type: bool, default: false}
resources:
  - name: a place for it
    namespace: {name: shop}
  - name: settings
    k8s_object:
      force_conflicts: "{{ force }}"
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: settings, namespace: shop, labels: {app: shop}}
      data: {replicas: "2", text: "hello\n"}
"#;

#[test]
fn an_object_is_planned_created_corrected_and_rolled_back() {
    let lab = Lab::get();
    lab.role("shop", SETTINGS);
    // The namespace comes first in the same run: objects in it are deferred.
    let plan = lab.plan().expect(2);
    says_all(&plan, &["create namespace shop", "? settings", "the namespace shop is not there yet"]);
    assert!(lab.value(&["namespace", "shop"], "/metadata/name").is_none(), "planning made something");
    says_all(&lab.apply().expect(0), &["create configmap shop/settings", "+  replicas: '2'"]);
    let data = ["configmap", "-n", "shop", "settings"];
    assert_eq!(lab.value(&data, "/data/replicas").unwrap(), "2");
    lab.plan().expect(0).says("nothing to change");

    // A field that is not declared is a user's: it stays, and is no difference.
    lab.kubectl(&["-n", "shop", "patch", "configmap", "settings", "-p", r#"{"data":{"more":"1"}}"#]);
    lab.plan().expect(0);

    // A user takes a declared field: both owners are named, and nothing is taken without being asked for.
    lab.kubectl(&["-n", "shop", "patch", "configmap", "settings", "-p", r#"{"data":{"replicas":"9"}}"#]);
    says_all(
        &lab.apply().expect(1),
        &["converge", "kubectl-patch", ".data.replicas", "force_conflicts: true"],
    );
    assert_eq!(lab.value(&data, "/data/replicas").unwrap(), "9");
    let forced = lab.converge(&["plan", "hosts.yaml", "--set", "force=true"]).expect(2);
    says_all(&forced, &["-  replicas: '9'", "+  replicas: '2'"]);
    lab.converge(&["apply", "--yes", "hosts.yaml", "--set", "force=true"]).expect(0);
    assert_eq!(lab.value(&data, "/data/replicas").unwrap(), "2");
    assert_eq!(lab.value(&data, "/data/more").unwrap(), "1");

    // The newest run goes back: only the field that it changed.
    says_all(
        &lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0),
        &["-  replicas: '2'", "+  replicas: '9'"],
    );
    assert_eq!(lab.value(&data, "/data/replicas").unwrap(), "9");

    // The one before made the object, in which others own fields, and the namespace: neither goes unasked.
    let oldest = lab.oldest_run();
    let back = ["rollback", "--yes", "hosts.yaml", "--to", &oldest];
    let refused = lab.converge(&back).expect(4);
    says_all(
        &refused,
        &["--allow-destroy k8s:v1/Namespace/shop", "--allow-destroy k8s:v1/ConfigMap/shop/settings"],
    );
    assert_eq!(lab.value(&data, "/data/replicas").unwrap(), "9");
    let allowed =
        ["--allow-destroy", "k8s:v1/Namespace/shop", "--allow-destroy", "k8s:v1/ConfigMap/shop/settings"];
    lab.converge(&[&back, &allowed[..]].concat()).expect(0);
    assert!(lab.value(&["namespace", "shop"], "/metadata/name").is_none());
}

/// A namespace with one object in it.
fn corner(name: &str) -> String {
    format!(
        "  - name: the corner {name}\n    namespace: {{name: {name}}}\n  - name: a thing in {name}\n    \
         k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: thing, namespace: {name}}}, data: {{a: '1'}}}}\n"
    )
}

#[test]
fn a_rollback_that_left_something_is_gone_on_with() {
    let lab = Lab::get();
    let role = |corners: &[&str]| {
        let resources: String = corners.iter().copied().map(corner).collect();
        lab.role("corners", &format!("scope: cluster\nresources:\n{resources}"));
        lab.apply().expect(0);
    };
    role(&["one"]);
    role(&["one", "two"]);
    let thing = |namespace: &str| lab.api.get(&["configmap", "-n", namespace, "thing"]).is_ok();
    // The objects in the namespace are removed, the namespace itself only if that is allowed.
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]);
    assert_ne!(back.code, Some(0), "{}", back.all());
    says_all(&back, &["--allow-destroy k8s:v1/Namespace/two"]);
    assert!(!thing("two") && lab.api.get(&["namespace", "two"]).is_ok());
    // The same run is gone on with, and not the one before it.
    lab.converge(&["rollback", "--yes", "hosts.yaml", "--allow-destroy", "k8s:v1/Namespace/two"]).expect(0);
    assert!(lab.api.get(&["namespace", "two"]).is_err() && thing("one"));
    // That one is next.
    lab.converge(&["rollback", "--yes", "hosts.yaml", "--allow-destroy", "k8s:v1/Namespace/one"]).expect(0);
    assert!(lab.api.get(&["namespace", "one"]).is_err());
}

/// The second of three objects waits for a word.
const CUT: &str = r#"
scope: cluster
resources:
  - name: a place for it
    namespace: {name: cut}
  - name: first
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: cut}, data: {a: "1"}}
  - name: a word
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: cut, name: word}, jsonpath: "{.data.go}", equals: "yes", timeout: 240}
  - name: last
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: last, namespace: cut}, data: {a: "3"}}
"#;

#[test]
fn a_power_cut_of_the_control_plane_is_reported_and_the_run_continues() {
    let lab = Lab::get();
    lab.role("cut", CUT);
    let host = &lab.world.hosts()[0];
    lab.world.write("hosts.yaml", &lab.world.inventory("ansible_timeout: 3")).unwrap();
    let mut apply = lab.command(&["apply", "--yes", "hosts.yaml"]);
    let mut apply = apply.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first object", 120, || lab.api.get(&["configmap", "-n", "cut", "first"]).is_ok());
    host.kill().unwrap();
    until("the end of the run", 120, || apply.try_wait().unwrap().is_some());
    let cut = converge_tests::ended(apply).unwrap();
    assert!(!matches!(cut.code, Some(0 | 2)), "{}", cut.all());
    host.start().unwrap();
    host.wait_until_ready().unwrap();
    lab.api.start_again().unwrap();

    // Objects that were created exist, those that were not begun are planned, and the interrupted run is reported.
    let plan = lab.plan().expect(2);
    says_all(&plan, &["did not end", "create configmap cut/last"]);
    assert!(!plan.all().contains("create configmap cut/first"), "{}", plan.all());
    lab.api
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: word, namespace: cut}, data: {go: 'yes'}}")
        .unwrap();
    // The lock of the run that was cut holds until it has not been renewed for a minute.
    let mut applied = lab.apply();
    until("the end of the lock", 120, || {
        let held = applied.code == Some(4);
        if held {
            assert!(applied.all().contains("was renewed"), "{}", applied.all());
            applied = lab.apply();
        }
        !held
    });
    applied.expect(0);
    lab.plan().expect(0).says("nothing to change");
    lab.kubectl(&["delete", "namespace", "cut"]);
    lab.world.write("hosts.yaml", &lab.world.inventory("")).unwrap();
}

#[test]
fn a_cluster_that_cannot_be_asked_is_an_error_of_its_own() {
    let lab = Lab::get();
    lab.role("shop", SETTINGS);
    lab.api.kill(Component::ApiServer).unwrap();
    let down = lab.plan();
    assert_eq!(down.code, Some(3), "{}", down.all());
    // Of a rollback too: what the server has recorded is not known.
    for to in [&[][..], &["--to", "01"]] {
        let back = lab.converge(&[&["rollback", "--yes", "hosts.yaml"], to].concat()).expect(3);
        assert!(!back.all().contains("has a run"), "{}", back.all());
        assert_eq!(
            back.stdout.matches("unreachable").count(),
            down.stdout.matches("unreachable").count(),
            "{}",
            back.all()
        );
    }
    lab.api.start_one(Component::ApiServer).unwrap();
    lab.api.wait_until_ready().unwrap();
    // No kubeconfig on the control plane: there is no cluster yet, and all of it is deferred.
    let host = &lab.world.hosts()[0];
    host.exec("mv /etc/kubernetes/admin.conf /root/admin.conf").unwrap();
    let none = lab.plan().expect(2);
    host.exec("mv /root/admin.conf /etc/kubernetes/admin.conf").unwrap();
    says_all(&none, &["2 deferred", "there is no cluster yet: no kubeconfig on h1"]);
}
