//! Releases that failed or hung: what was in force then is what a rollback returns to.

use crate::{Lab, says_all};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The event named in `fail` has a hook that fails after some seconds.
const HOOKS: &str = r#"
{{- range $event := list "pre-install" "post-install" "pre-upgrade" "post-upgrade" "pre-rollback" "post-delete" }}
{{- if eq $event $.Values.fail }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: fails-{{ $event }}
  annotations: {helm.sh/hook: {{ $event }}, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {{ $.Values.after }}
  template: {spec: {restartPolicy: Never, nodeSelector: {nope: "1"}, containers: [{name: c, image: x}]}}
{{- end }}
{{- end }}
"#;

/// A map; one with a drawn word where `drawn` is true; a deployment that never is ready where `stuck` is true; an object that the server refuses.
const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: main}
data: {text: {{ .Values.text | quote }}}
{{- if .Values.drawn }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: drawn}
data: {word: {{ randAlphaNum 16 | quote }}}
{{- end }}
{{- if .Values.stuck }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {nope: "1"}, containers: [{name: c, image: x}]}}
{{- end }}
{{- if .Values.refused }}
---
apiVersion: v1
kind: Service
metadata: {name: refused}
spec: {clusterIP: 203.0.113.9, ports: [{port: 80}]}
{{- end }}
"#;

const ROLE: &str = r#"
scope: cluster
inputs:
  v: {type: map, default: {}}
  waits: {type: bool, default: false}
resources:
  - name: release
    helm_release: {name: r, namespace: NAMESPACE, folder: hooked, values: "{{ v }}", create_namespace: true, wait: "{{ waits }}", timeout: 20}
"#;

/// A release in a namespace of its own.
struct RecoveredRelease<'a> {
    lab: &'a Lab,
    namespace: &'static str,
    folder: tempfile::TempDir,
}

impl<'a> RecoveredRelease<'a> {
    fn new(lab: &'a Lab, namespace: &'static str) -> Self {
        lab.role("recovered", &ROLE.replace("NAMESPACE", namespace));
        let chart = "roles/recovered/files/hooked";
        let values = "{text: one, fail: \"\", after: 3, drawn: false, stuck: false, refused: false}\n";
        for (name, text) in [
            ("Chart.yaml", "{apiVersion: v2, name: hooked, version: 1.0.0}\n"),
            ("values.yaml", values),
            ("templates/hooks.yaml", HOOKS),
            ("templates/objects.yaml", OBJECTS),
        ] {
            lab.world.write(&format!("{chart}/{name}"), text).unwrap();
        }
        // For a helm of somebody else.
        let folder = tempfile::tempdir().unwrap();
        let config = lab.api.kubectl(&["config", "view", "--raw", "--flatten"]).unwrap().stdout;
        std::fs::write(folder.path().join("kubeconfig"), config).unwrap();
        Self { lab, namespace, folder }
    }

    fn run(&self, command: &[&str], values: &Value, waits: bool) -> converge_tests::Ran {
        let (values, waits) = (format!("v={values}"), format!("waits={waits}"));
        self.lab.converge(&[command, &["hosts.yaml", "--set", &values, "--set", &waits]].concat())
    }

    fn apply(&self, values: &Value) -> converge_tests::Ran {
        self.run(&["apply", "--yes"], values, false)
    }

    fn back(&self) -> converge_tests::Ran {
        let back = self.run(&["rollback", "--yes"], &json!({}), false).expect(0);
        assert!(!back.all().contains("verification failed"), "{}", back.all());
        back
    }

    /// Beside the server, which listens on its loopback alone.
    fn helm(&self, args: &[&str]) -> Command {
        let leader = self.lab.world.hosts()[0].leader().unwrap().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &leader, "-n", "--"]).arg(&self.lab.helm).args(args);
        command.args(["-n", self.namespace, "--kubeconfig"]).arg(self.folder.path().join("kubeconfig"));
        command
    }

    fn status(&self) -> Option<String> {
        let reply = self.helm(&["status", "r", "-o", "json"]).output().unwrap();
        let status: Value = serde_json::from_slice(&reply.stdout).ok()?;
        status.pointer("/info/status").and_then(Value::as_str).map(str::to_owned)
    }

    /// Another user's helm that is killed in a hook.
    fn killed(&self, args: &[&str], pending: &str) {
        self.killed_in(&mut self.helm(args), pending);
    }

    /// A run of converge that is killed while its helm is in a hook, until its lock has ended.
    fn cut_off(&self, command: &[&str], values: &Value, pending: &str) {
        let values = format!("v={values}");
        let args = [command, &["--yes", "hosts.yaml", "--set", &values]].concat();
        self.killed_in(&mut self.lab.command(&args), pending);
        // As if a minute had gone by.
        let renewed = r#"{"spec":{"renewTime":"2020-01-01T00:00:00.000000Z"}}"#;
        self.lab.kubectl(&[
            "-n",
            "converge-system",
            "patch",
            "lease",
            "converge",
            "--type=merge",
            "-p",
            renewed,
        ]);
    }

    fn killed_in(&self, command: &mut Command, pending: &str) {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let hangs = (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            self.status().as_deref() == Some(pending)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(hangs, "helm did not come to {pending}: {:?}", self.helm(&["status", "r"]).output());
    }

    fn chart(&self) -> String {
        self.lab.world.dir().join("roles/recovered/files/hooked").display().to_string()
    }

    /// The objects of the release, without those of hooks: the text and the drawn word.
    fn live(&self) -> (Option<Value>, Option<Value>) {
        let of = |name: &str, at: &str| self.lab.value(&["-n", self.namespace, "configmap", name], at);
        (of("main", "/data/text"), of("drawn", "/data/word"))
    }
}

/// An upgrade that failed before it applied anything is no state to go back to, and what it would have dropped stays.
#[test]
fn a_rollback_skips_an_upgrade_that_was_never_in_force() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "skipped");
    release
        .apply(&json!({"text": "old", "drawn": true}))
        .expect(0)
        .says("helm makes the namespace skipped first");
    let old = release.live();
    assert!(old.1.is_some());
    release
        .apply(&json!({"text": "never", "fail": "pre-upgrade"}))
        .expect(1)
        .says("pre-upgrade hooks failed");
    assert_eq!((release.live(), release.status().as_deref()), (old.clone(), Some("failed")));
    // The plan tells what is live.
    let plan = release.run(&["plan"], &json!({"text": "new", "drawn": true}), false).expect(2);
    says_all(&plan, &["status failed → deployed", "it is not in force: revision 1 is", "text: old"]);
    assert!(!plan.all().contains("never"), "{}", plan.all());
    // One command takes the failed upgrade back, though helm has lost sight of what it would have dropped.
    release.back();
    assert_eq!((release.live(), release.status().as_deref()), (old.clone(), Some("deployed")));
    // The same with a run that corrects it.
    release.apply(&json!({"text": "never", "fail": "pre-upgrade"})).expect(1);
    release.apply(&json!({"text": "new", "drawn": true})).expect(0);
    assert_eq!(release.live(), (Some(json!("new")), old.1.clone()));
    let back = release.back();
    assert!(!back.all().contains("never"), "{}", back.all());
    assert_eq!((release.live(), release.status().as_deref()), (old, Some("deployed")));
    // No dead end: the first run goes too.
    says_all(&release.back(), &["helm uninstall", "the namespace skipped, which helm made, stays"]);
    assert_eq!(release.live(), (None, None));
}

/// A revision that a killed helm of somebody else began is no state to go back to.
#[test]
fn a_rollback_skips_what_hung() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "skips");
    release.apply(&json!({"text": "old"})).expect(0);
    let chart = release.chart();
    let slow = |fail: &str| format!("text=killed,after=60,fail={fail}");
    release.killed(&["upgrade", "r", &chart, "--set", &slow("pre-upgrade")], "pending-upgrade");
    let plan = release.run(&["plan"], &json!({"text": "new"}), false).expect(2);
    says_all(&plan, &["goes back to revision 1", "text: old"]);
    assert!(!plan.all().contains("killed"), "{}", plan.all());
    release.apply(&json!({"text": "new"})).expect(0);
    let back = release.back();
    assert!(!back.all().contains("pending-upgrade") && !back.all().contains("killed"), "{}", back.all());
    assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("old")), Some("deployed")));
    // The same with a rollback that was killed.
    let helm = release.helm(&["upgrade", "r", &chart, "--set", &slow("pre-rollback")]).output().unwrap();
    assert!(helm.status.success(), "{helm:?}");
    let revision = release.helm(&["history", "r", "-o", "json", "--max", "1"]).output().unwrap();
    let revision: Value = serde_json::from_slice(&revision.stdout).unwrap();
    release.apply(&json!({"text": "three"})).expect(0);
    release.killed(&["rollback", "r", &revision[0]["revision"].to_string()], "pending-rollback");
    release.apply(&json!({"text": "four"})).expect(0);
    release.back();
    assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("three")), Some("deployed")));
}

/// Of an install that never ended nothing was in force: the rollback of the run that recovered it takes the release away.
#[test]
fn a_rollback_does_not_finish_an_install_that_never_ended() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "begun");
    lab.kubectl(&["create", "namespace", "begun"]);
    let chart = release.chart();
    release.killed(
        &["install", "r", &chart, "--set", "text=killed,after=60,fail=pre-install"],
        "pending-install",
    );
    release.apply(&json!({"text": "new"})).expect(0);
    release.back().says("helm uninstall");
    assert_eq!((release.live(), release.status()), ((None, None), None));
    // The same with one that failed before it applied anything.
    let failed = release
        .helm(&["install", "r", &chart, "--set", "text=failed,after=1,fail=pre-install"])
        .output()
        .unwrap();
    assert!(!failed.status.success() && release.status().as_deref() == Some("failed"), "{failed:?}");
    release.apply(&json!({"text": "new"})).expect(0);
    release.back().says("helm uninstall");
    assert_eq!((release.live(), release.status()), ((None, None), None));
}

/// A revision that failed after all of it was applied was in force: a rollback goes back to it, and does not wait for it. One that failed amid it was not.
#[test]
fn a_rollback_goes_back_to_what_failed_after_it_was_applied() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "applied");
    release.apply(&json!({"text": "old"})).expect(0);
    for stuck in [json!({"text": "two", "stuck": true}), json!({"text": "two", "fail": "post-upgrade"})] {
        let waits = stuck.get("stuck").is_some();
        release.run(&["apply", "--yes"], &stuck, waits).expect(1);
        assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("two")), Some("failed")));
        release.apply(&json!({"text": "three"})).expect(0);
        assert_eq!(release.live().0, Some(json!("three")));
        release.back();
        assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("two")), Some("deployed")));
        release.back();
        assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("old")), Some("deployed")));
    }
    release.apply(&json!({"text": "partly", "refused": true})).expect(1);
    release.apply(&json!({"text": "three"})).expect(0);
    release.back();
    assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("old")), Some("deployed")));
}

/// A revision that a killed run left hanging is its own: the next command goes on with it, and no older run is taken in its place.
#[test]
fn what_a_killed_run_left_hanging_is_its_own() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "killed");
    release.apply(&json!({"text": "old"})).expect(0);
    release.cut_off(
        &["apply"],
        &json!({"text": "never", "fail": "pre-upgrade", "after": 60}),
        "pending-upgrade",
    );
    release.run(&["plan"], &json!({"text": "old"}), false).expect(2).says("is in an intermediate state");
    let plan = release.run(&["rollback"], &json!({}), false);
    says_all(&plan, &["status pending-upgrade → deployed", "goes back to revision 1, which was in force"]);
    assert!(!plan.all().contains("someone else") && !plan.all().contains("uninstall"), "{}", plan.all());
    // A rollback that is killed is gone on with.
    release.apply(&json!({"text": "new", "fail": "pre-rollback", "after": 60})).expect(0);
    release.apply(&json!({"text": "newer"})).expect(0);
    release.cut_off(&["rollback"], &json!({}), "pending-rollback");
    let plan = release.run(&["rollback"], &json!({}), false);
    says_all(&plan, &["status pending-rollback → deployed", "which was in force"]);
    assert!(!plan.all().contains("someone else") && !plan.all().contains("uninstall"), "{}", plan.all());
    assert_eq!(release.live().0, Some(json!("newer")));
}

/// An object of a chart that a run has made again goes with a prune of its release. A rollback of that prune which is killed while its helm installs has
/// left that on its way: the next one goes on with it.
#[test]
fn a_pruned_release_comes_back_though_its_rollback_is_killed() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "reinstalled");
    release.apply(&json!({"text": "older"})).expect(0);
    // Its hook is none of the upgrade, and runs when what was pruned is installed.
    let held = json!({"text": "old", "fail": "pre-install", "after": 60});
    release.apply(&held).expect(0);
    let old = release.live();
    lab.kubectl(&["-n", "reinstalled", "delete", "configmap", "main"]);
    release.apply(&held).expect(0);
    let (inputs, _) = ROLE.split_once("resources:").unwrap();
    lab.role("recovered", &format!("{inputs}resources: []\n"));
    release.run(&["apply", "--yes", "--prune=1"], &json!({}), false).expect(0);
    assert_eq!((release.live(), release.status()), ((None, None), None));
    release.cut_off(&["rollback"], &json!({}), "pending-install");
    release.run(&["plan"], &json!({}), false).says("is in an intermediate state");
    // Now the hook finds a node.
    lab.kubectl(&["label", "nodes", "--all", "nope=1"]);
    let back = release.back();
    lab.kubectl(&["label", "nodes", "--all", "nope-"]);
    assert!(!back.all().contains("someone else"), "{}", back.all());
    assert_eq!((release.live(), release.status().as_deref()), (old, Some("deployed")));
}

/// An object of a release that a run has made again goes with it, whoever else has fields in it: nothing is refused beside an uninstall that takes it along. The way
/// back accuses nobody.
#[test]
fn what_was_made_again_goes_with_its_release() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "again");
    let one = json!({"text": "one"});
    release.apply(&one).expect(0);
    let main = |args: &[&str]| lab.kubectl(&[&["-n", "again"], args, &["configmap", "main"]].concat());
    main(&["delete"]);
    release.apply(&one).expect(0);
    lab.kubectl(&["-n", "again", "label", "configmap", "main", "hand=1"]);
    let (inputs, _) = ROLE.split_once("resources:").unwrap();
    lab.role("recovered", &format!("{inputs}resources: []\n"));
    let prune = |command: &[&str]| release.run(command, &json!({}), false);
    let plan = prune(&["plan", "--prune"]).expect(2);
    says_all(&plan, &["helm uninstall again/r", "ConfigMap/again/main goes with it", "1 to change"]);
    assert!(!plan.all().contains("refused"), "{}", plan.all());
    prune(&["apply", "--yes", "--prune=1"]).expect(0);
    assert_eq!((release.live(), release.status()), ((None, None), None));
    release.back();
    assert_eq!((release.live().0, release.status().as_deref()), (Some(json!("one")), Some("deployed")));
    // As the run that made it again has found it, and then as the first run has found it.
    release.back();
    assert_eq!((release.live().0, release.status().as_deref()), (None, Some("deployed")));
    release.back().says("helm uninstall");
    assert_eq!((release.live(), release.status()), ((None, None), None));

    // Both runs at once.
    let release = RecoveredRelease::new(&lab, "again");
    release.apply(&one).expect(0);
    main(&["delete"]);
    release.apply(&one).expect(0);
    lab.kubectl(&["-n", "again", "label", "configmap", "main", "hand=1"]);
    let to = {
        let runs = lab.converge(&["snapshots", "hosts.yaml"]).expect(0);
        let all = runs.stdout.lines().filter(|l| !l.starts_with(' ') && !l.is_empty());
        all.take(2).last().and_then(|line| line.split_whitespace().next()).unwrap().to_owned()
    };
    prune(&["rollback", "--yes", "--to", &to]).expect(0);
    assert_eq!((release.live(), release.status()), ((None, None), None));
}

/// A release of which somebody holds an object is not taken away: the plan names the finalizer, and nothing waits.
#[test]
fn a_release_with_an_object_that_is_held_is_refused() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "held");
    release.apply(&json!({"text": "one"})).expect(0);
    let finalizers = |text: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{text}}}}}"#);
        lab.kubectl(&["-n", "held", "patch", "configmap", "main", "--type=merge", "-p", &patch]);
    };
    finalizers(r#"["example.org/hold"]"#);
    lab.kubectl(&["-n", "held", "delete", "configmap", "main", "--wait=false"]);
    let (inputs, _) = ROLE.split_once("resources:").unwrap();
    lab.role("recovered", &format!("{inputs}resources: []\n"));
    let run = |command: &[&str]| release.run(command, &json!({}), false);
    let names = ["configmap held/main: it has been in deletion since", "example.org/hold", "1 refused"];
    says_all(&run(&["plan", "--prune"]), &names);
    says_all(&run(&["rollback"]), &names);
    says_all(&run(&["apply", "--yes", "--prune"]).expect(4), &names);
    assert_eq!(release.status().as_deref(), Some("deployed"));
    finalizers("null");
    run(&["apply", "--yes", "--prune=1"]).expect(0);
    assert_eq!((release.live(), release.status()), ((None, None), None));
}

/// Objects that a helm of somebody else has taken away with a release are as before the run that brought both: nobody is accused, and nothing is left to do. What a
/// run found there and has changed since is refused, with the command that ends it.
#[test]
fn what_somebody_uninstalled_is_as_before_its_run() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "byhand");
    let patch = "  - k8s_patch: {target: configmap/main, namespace: byhand, set: {/data/w: patched}}\n";
    let role = ROLE.replace("NAMESPACE", "byhand");
    let one = json!({"text": "one"});
    let uninstall = || {
        let gone = release.helm(&["uninstall", "r"]).output().unwrap();
        assert!(gone.status.success(), "{gone:?}");
    };
    lab.role("recovered", &(role.clone() + patch));
    release.apply(&one).expect(0);
    uninstall();
    for _ in 0..2 {
        let back = release.run(&["rollback", "--yes"], &json!({}), false).expect(0);
        assert!(!back.all().contains("refused") && !back.all().contains("someone else"), "{}", back.all());
    }
    lab.forget_records();
    lab.role("recovered", &role);
    release.apply(&one).expect(0);
    lab.role("recovered", &(role + patch));
    release.apply(&one).expect(0);
    uninstall();
    let back = release.run(&["rollback", "--yes"], &json!({}), false).expect(4);
    let remedy = "converge state forget k8s:v1/ConfigMap/byhand/main";
    says_all(&back, &["it was taken away by someone else since, and is not made again", remedy]);
    lab.converge(&["state", "forget", "hosts.yaml", "k8s:v1/ConfigMap/byhand/main", "--yes"]).expect(0);
    release.run(&["rollback", "--yes"], &json!({}), false).expect(0);
}

/// A removal that was killed: what helm has deleted already was taken away by nobody else, and one apply installs the release anew.
#[test]
fn a_removal_that_was_killed_is_gone_on_with() {
    let lab = Lab::get();
    let release = RecoveredRelease::new(&lab, "halfway");
    let patch = "  - k8s_patch: {target: configmap/main, namespace: halfway, set: {/data/w: patched}}\n";
    let role = ROLE.replace("NAMESPACE", "halfway") + patch;
    lab.role("recovered", &role);
    let held = |text: &str| json!({"text": text, "fail": "post-delete", "after": 60});
    release.apply(&held("one")).expect(0);
    let main = |at: &str| lab.value(&["-n", "halfway", "configmap", "main"], at);
    let cut_off = |command: &[&str]| {
        release.cut_off(command, &json!({}), "uninstalling");
        lab.kubectl(&["-n", "halfway", "delete", "configmap", "main", "--ignore-not-found"]);
        assert_eq!(release.status().as_deref(), Some("uninstalling"));
    };
    // The hook finds a node only then.
    let finds_a_node = |run: &dyn Fn() -> converge_tests::Ran| {
        lab.kubectl(&["label", "nodes", "--all", "nope=1"]);
        let ran = run();
        lab.kubectl(&["label", "nodes", "--all", "nope-"]);
        assert!(!ran.all().contains("someone else"), "{}", ran.all());
        ran
    };
    let (inputs, _) = ROLE.split_once("resources:").unwrap();
    lab.role("recovered", &format!("{inputs}resources: []\n"));
    cut_off(&["apply", "--prune=2"]);
    finds_a_node(&|| release.back());
    assert_eq!((main("/data/text"), main("/data/w")), (Some(json!("one")), Some(json!("patched"))));
    assert_eq!(release.status().as_deref(), Some("deployed"));

    cut_off(&["rollback"]);
    lab.role("recovered", &role);
    let all = release.run(&["rollback", "--to", &lab.oldest_run()], &json!({}), false);
    assert!(!all.all().contains("someone else"), "{}", all.all());
    let applied = finds_a_node(&|| release.apply(&held("two")).expect(0));
    says_all(&applied, &["is stuck in uninstalling: it is installed again"]);
    assert_eq!((main("/data/text"), main("/data/w")), (Some(json!("two")), Some(json!("patched"))));
    release.run(&["plan"], &held("two"), false).expect(0);

    // A helm of somebody else takes the release away: the patch has gone with it, for a prune and a rollback, which may be repeated.
    lab.kubectl(&["label", "nodes", "--all", "nope=1"]);
    let gone = release.helm(&["uninstall", "r"]).output().unwrap();
    lab.kubectl(&["label", "nodes", "--all", "nope-"]);
    assert!(gone.status.success(), "{gone:?}");
    lab.role("recovered", &format!("{inputs}resources: []\n"));
    let oldest = lab.oldest_run();
    for command in [&["plan", "--prune"][..], &["rollback", "--yes", "--to", &oldest]] {
        let ran = release.run(command, &json!({}), false);
        assert!(!ran.all().contains("refused") && !ran.all().contains("someone else"), "{}", ran.all());
    }
}
