//! Orphaned objects, values of Secrets, and releases: removed, and restored.

use crate::{Lab, says_all};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_lab::kube::NodeSpec;
use converge_tests::Ran;
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::Command;

/// A namespace and two objects in it.
const ALL: &str = r#"
scope: cluster
resources:
  - name: a place for it
    namespace: {name: goods}
  - name: stays
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: stays, namespace: default}, data: {a: "1"}}
  - name: goes
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: goes, namespace: goods}, data: {a: "1"}}
  - name: shared
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: goods}, data: {a: "1"}}
"#;

/// Others change an object of the cluster between two runs, after them, and in between: their values stay, whether a
/// rollback reverts the changes of converge or a prune does.
#[test]
fn fields_that_others_have_set_since_survive_a_rollback() {
    let lab = Lab::get();
    for pruned in [false, true] {
        let name = lab.api.nodes(&NodeSpec::new("shared", 1)).unwrap().remove(0);
        let role = |items: &str| lab.role("shared", &format!("scope: cluster\nresources:\n{items}"));
        let own = |marks: &str| {
            role(&format!("  - name: ours\n    node: {{name: {name}, {marks}}}\n"));
            lab.apply().expect(0);
        };
        own("labels: {own: one}");
        let oldest = lab.oldest_run();
        lab.kubectl(&["cordon", &name]);
        own("labels: {own: two}, taints: [{key: ours, effect: NoSchedule}]");
        lab.kubectl(&["taint", "node", &name, "theirs=yes:NoSchedule"]);
        lab.kubectl(&["label", "node", &name, "theirs=yes"]);
        let back = if pruned {
            role("  - name: it is there\n    k8s_query: {kind: Node}\n");
            lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0)
        } else {
            lab.converge(&["rollback", "--yes", "hosts.yaml", "--to", &oldest]).expect(0)
        };
        let goes = back.stdout.lines().filter(|line| line.trim_start().starts_with('-'));
        assert_eq!(
            goes.filter(|l| l.contains("theirs") || l.contains("unschedulable")).count(),
            0,
            "{}",
            back.all()
        );
        let of = |pointer: &str| lab.value(&["node", &name], pointer);
        assert_eq!(of("/metadata/labels/own"), None);
        assert_eq!(of("/metadata/labels/theirs"), Some(json!("yes")));
        assert_eq!(of("/spec/unschedulable"), Some(json!(true)), "{}", back.all());
        let taints = of("/spec/taints").unwrap();
        let keys: Vec<&str> = taints.as_array().unwrap().iter().filter_map(|t| t["key"].as_str()).collect();
        assert!(keys.contains(&"theirs") && !keys.contains(&"ours"), "{taints}");
        lab.kubectl(&["delete", "node", &name]);
    }
}

/// Somebody else has taken away a label that a rollback would take away: that is no reason to leave the node.
#[test]
fn what_is_away_already_keeps_nothing_from_going_back() {
    let lab = Lab::get();
    let name = lab.api.nodes(&NodeSpec::new("labelled", 1)).unwrap().remove(0);
    lab.role(
        "labelled",
        &format!(
            "scope: cluster\nresources:\n  - name: labels\n    node: {{name: {name}, labels: {{own: one, gpus: '8'}}}}\n"
        ),
    );
    lab.apply().expect(0);
    for takes in [&["gpus-"][..], &["gpus-", "own-"]] {
        lab.kubectl(&[&["label", "node", &name, "theirs=yes"], takes].concat());
        let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        let labels = lab.value(&["node", &name], "/metadata/labels").unwrap();
        let is = |label: &str| labels.get(label).is_some();
        assert!(!is("own") && !is("gpus") && is("theirs"), "{labels}: {}", back.all());
        lab.kubectl(&["label", "node", &name, "theirs-"]);
        lab.apply().expect(0);
    }
    lab.kubectl(&["delete", "node", &name]);
}

/// The plan of a rollback shows what goes, whether the taints came in one resource, in two, or in two runs.
#[test]
fn a_rollback_of_two_taints_shows_both() {
    let lab = Lab::get();
    let name = lab.api.nodes(&NodeSpec::new("tainted", 1)).unwrap().remove(0);
    let item = |key: &str, taints: &[&str]| {
        let taints: Vec<String> =
            taints.iter().map(|t| format!("{{key: {t}, value: 'yes', effect: PreferNoSchedule}}")).collect();
        format!("  - name: {key}\n    node: {{name: {name}, taints: [{}]}}\n", taints.join(", "))
    };
    let one = item("one", &["one"]);
    let two = item("two", &["two"]);
    // With the changes of others between the runs and since.
    let runs: [(&[String], bool); 5] = [
        (&[item("both", &["one", "two"])], false),
        (&[format!("{one}{two}")], false),
        (&[format!("{one}{two}")], true),
        (&[one.clone(), format!("{one}{two}")], true),
        (&[one.clone(), item("one", &["one", "two"])], true),
    ];
    for (number, (roles, others)) in runs.iter().enumerate() {
        lab.forget_records();
        for role in *roles {
            lab.role("tainted", &format!("scope: cluster\nresources:\n{role}"));
            lab.apply().expect(0);
            if *others {
                lab.kubectl(&["taint", "node", &name, "theirs=yes:PreferNoSchedule", "--overwrite"]);
                lab.kubectl(&["label", "node", &name, "theirs=yes", "--overwrite"]);
            }
        }
        let to = lab.oldest_run();
        for args in [
            ["rollback", "hosts.yaml", "--to", &to].as_slice(),
            &["rollback", "--yes", "hosts.yaml", "--to", &to],
        ] {
            let back = lab.converge(args);
            let goes: String =
                back.stdout.lines().filter(|line| line.trim_start().starts_with('-')).collect();
            let both = goes.contains("key: one") && goes.contains("key: two") && !goes.contains("theirs");
            assert!(both, "{number}: {}", back.all());
        }
        let left =
            lab.value(&["node", &name], "/spec/taints").and_then(|taints| taints.as_array().map(Vec::len));
        assert_eq!(left, others.then_some(1), "{number}");
        if *others {
            lab.kubectl(&["taint", "node", &name, "theirs-"]);
            lab.kubectl(&["label", "node", &name, "theirs-"]);
        }
    }
    lab.kubectl(&["delete", "node", &name]);
}

#[test]
fn what_is_no_longer_declared_goes_with_prune_and_comes_back() {
    let lab = Lab::get();
    lab.role("goods", ALL);
    lab.apply().expect(0);
    let there = |object: &[&str]| lab.api.get(object).is_ok();
    let goes = ["configmap", "-n", "goods", "goes"];
    let shared = ["configmap", "-n", "goods", "shared"];
    lab.kubectl(&["-n", "goods", "patch", "configmap", "shared", "-p", r#"{"data":{"more":"1"}}"#]);
    let few: String =
        ALL.lines().take_while(|line| !line.contains("name: goes")).map(|l| format!("{l}\n")).collect();
    let few = few.replace("  - name: a place for it\n    namespace: {name: goods}\n", "");
    lab.role("goods", &few);

    // Nothing goes without being asked for.
    let plan = lab.plan().expect(0);
    says_all(&plan, &["orphaned", "v1/ConfigMap/goods/goes", "v1/Namespace/goods"]);
    lab.apply().expect(0);
    assert!(there(&goes));

    // Objects that only converge has changed are removed. The namespace stays, and so do objects with fields of others.
    let prune = ["--yes", "--prune=1", "hosts.yaml"];
    let plan = lab.converge(&["plan", "--prune", "hosts.yaml"]);
    says_all(
        &plan,
        &[
            "delete configmap goods/goes",
            "--allow-destroy k8s:v1/Namespace/goods",
            "fields of it belong to kubectl-patch",
        ],
    );
    let pruned = lab.converge(&[&["apply"], &prune[..]].concat());
    assert_eq!(pruned.code, Some(4), "{}", pruned.all());
    says_all(&pruned, &["--allow-destroy k8s:v1/Namespace/goods", "kubectl-patch"]);
    assert!(!there(&goes) && there(&shared) && there(&["namespace", "goods"]));
    assert!(there(&["configmap", "-n", "default", "stays"]));

    // A pruning run is a run: the objects that it removed come back, and are managed again.
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(lab.value(&goes, "/data/a").unwrap(), "1");
    says_all(&lab.plan().expect(0), &["v1/ConfigMap/goods/goes"]);
    let allow =
        ["--allow-destroy", "k8s:v1/Namespace/goods", "--allow-destroy", "k8s:v1/ConfigMap/goods/shared"];
    let all = lab.converge(&[&["apply", "--yes", "--prune=3", "hosts.yaml"], &allow[..]].concat());
    assert_eq!(all.code, Some(0), "{}", all.all());
    assert!(!there(&["namespace", "goods"]) && there(&["configmap", "-n", "default", "stays"]));
    assert!(!lab.plan().expect(0).all().contains("orphaned"));
}

const TOKEN: &str = r#"
scope: cluster
inputs:
  token: {type: str, sensitive: true}
resources:
  - name: a token
    secret: {name: token, namespace: default, data: {key: "{{ token }}"}}
  - name: a token where none belongs
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: token, namespace: default}, data: {key: "{{ token }}"}}
"#;

const LABEL: &str = r#"
scope: cluster
inputs:
  token: {type: str, sensitive: true}
resources:
  - name: a label
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: default, labels: {token: "{{ token }} is no label!"}}}
"#;

/// All that the records of runs hold, unpacked.
fn records(lab: &Lab) -> String {
    let secrets = lab.api.get(&["secrets", "-n", "converge-system"]).unwrap();
    let mut all = String::new();
    for secret in secrets["items"].as_array().unwrap() {
        let packed = STANDARD.decode(secret["data"]["record"].as_str().unwrap()).unwrap();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut all).unwrap();
    }
    all
}

#[test]
fn values_of_secrets_come_back_and_are_nowhere_in_the_clear() {
    use secrecy::ExposeSecret as _;
    let lab = Lab::get();
    let identity = age::x25519::Identity::generate();
    lab.world.write("identity", identity.to_string().expose_secret()).unwrap();
    let identity_file = lab.world.dir().join("identity");
    let more = |token: &str| {
        let age = format!(
            "converge_age_recipients: [{}]\nconverge_age_identity: {}",
            identity.to_public(),
            identity_file.display()
        );
        lab.world.write("hosts.yaml", &lab.world.inventory(&format!("{age}\ntoken: {token}"))).unwrap();
    };
    lab.role("token", TOKEN);
    let values = ["first-of-two-values", "second-of-two-values"];
    let live = || lab.value(&["secret", "token"], "/data/key").unwrap();
    let map = || lab.value(&["configmap", "token"], "/data/key");
    let mut reply = String::new();
    let mut run = |args: &[&str], code: i32| {
        let file = lab.world.dir().join("report.html");
        let report = file.display().to_string();
        let all: Vec<&str> = args.iter().copied().chain(["--report", report.as_str(), "-v"]).collect();
        let mut command = lab.command(&all);
        let ran = converge_tests::ran(command.env("CONVERGE_LOG", "debug")).unwrap().expect(code);
        reply.push_str(&ran.all());
        reply.push_str(&std::fs::read_to_string(&file).unwrap_or_default());
    };
    for value in values {
        more(value);
        run(&["plan", "hosts.yaml"], 2);
        run(&["plan", "--output", "json", "hosts.yaml"], 2);
        run(&["plan", "--out", "saved.plan", "hosts.yaml"], 2);
        run(&["apply", "--yes", "hosts.yaml"], 0);
        assert_eq!(live(), STANDARD.encode(value));
    }
    run(&["plan", "hosts.yaml"], 0);
    let saved = std::fs::read_to_string(lab.world.dir().join("saved.plan")).unwrap();
    run(&["rollback", "--yes", "hosts.yaml"], 0);
    assert_eq!(live(), STANDARD.encode(values[0]));
    assert_eq!(map(), Some(json!(values[0])));
    run(&["rollback", "--yes", "hosts.yaml"], 0);
    assert!(lab.api.get(&["secret", "token"]).is_err() && map().is_none());
    let junit = ["plan", "drift"].map(|way| lab.converge(&[way, "--output", "junit", "-v", "hosts.yaml"]));
    assert!(junit.iter().all(|ran| ran.stdout.contains("create secret default/token")), "{}", junit[0].all());
    reply.extend(junit.iter().map(Ran::all));
    // The API server says which value of a label is wrong.
    lab.role("token", LABEL);
    let refused = lab.converge(&["apply", "--yes", "-v", "hosts.yaml"]);
    assert!(refused.code != Some(0) && refused.all().contains("✗ a label"), "{}", refused.all());
    reply.push_str(&refused.all());
    assert!(reply.contains("<html") && reply.contains("DEBUG"), "no report, or no log");
    let records = records(&lab);
    assert!(records.contains("v1/Secret/default/token") && records.contains("\"sealed\""), "{records}");
    for value in values {
        for (place, text) in [("output", &reply), ("saved plan", &saved), ("records", &records)] {
            for form in [value.to_owned(), STANDARD.encode(value)] {
                assert!(!text.contains(&form), "{form} stands in the {place}: {text}");
            }
        }
    }
    lab.world.write("hosts.yaml", &lab.world.inventory("")).unwrap();
}

const RELEASE: &str = r#"
scope: cluster
inputs:
  size: {type: float, default: 1}
  force: {type: bool, default: false}
  installed: {type: bool, default: true}
resources:
  - name: a place for it
    namespace: {name: charts}
  - name: a release
    helm_release:
      name: web
      namespace: charts
      archive: small-1.0.0.tgz
      values: {size: "{{ size }}", large: 12345678901234567890}
      force_conflicts: "{{ force }}"
      state: "{{ 'present' if installed else 'absent' }}"
"#;

#[test]
fn a_release_comes_back_and_leaves_to_others_what_is_theirs() {
    let lab = Lab::get();
    lab.role("charts", RELEASE);
    let chart = lab.world.dir().join("small");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.0.0\n").unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: {{ .Values.size | quote }}, twice: {{ mul 2 .Values.size | quote }}}\n";
    std::fs::write(chart.join("templates/map.yaml"), map).unwrap();
    let drawn =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: drawn}\ndata: {password: {{ randAlphaNum 20 }}}\n";
    std::fs::write(chart.join("templates/drawn.yaml"), drawn).unwrap();
    let files = lab.world.dir().join("roles/charts/files");
    std::fs::create_dir_all(&files).unwrap();
    let packed = Command::new(&lab.helm).arg("package").arg(&chart).current_dir(&files).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let data = || lab.value(&["configmap", "-n", "charts", "web"], "/data").unwrap_or(Value::Null);
    let apply = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["apply", "--yes", "hosts.yaml"].into_iter().chain(sets).collect();
        lab.converge(&args).expect(0)
    };
    apply(&["size=1"]);
    // Values that the chart generates again each time it is rendered, and a number that helm stores in another form, are no
    // difference.
    let password = || lab.value(&["configmap", "-n", "charts", "drawn"], "/data/password").unwrap();
    let drawn = password();
    says_all(&lab.converge(&["plan", "hosts.yaml", "--set", "size=1"]).expect(0), &["nothing to change"]);
    apply(&["size=2"]);
    assert_eq!((data(), password()), (json!({"size": "2", "twice": "4"}), drawn.clone()));
    // The same chart as a folder of the role.
    let copied = Command::new("cp").arg("-r").arg(&chart).arg(&files).status().unwrap();
    assert!(copied.success());
    lab.role("charts", &RELEASE.replace("archive: small-1.0.0.tgz", "folder: small"));
    says_all(&lab.converge(&["plan", "hosts.yaml", "--set", "size=2"]).expect(0), &["nothing to change"]);
    let more = map.replace("data: {", "data: {more: \"yes\", ");
    std::fs::write(files.join("small/templates/map.yaml"), more).unwrap();
    apply(&["size=2"]);
    assert_eq!(data(), json!({"size": "2", "twice": "4", "more": "yes"}));
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(), password()), (json!({"size": "2", "twice": "4"}), drawn.clone()));
    lab.role("charts", RELEASE);

    // A controller takes a field: neither an upgrade nor a rollback sets it back, and the plan says so.
    let patch = |manager: &str, size: &str| {
        let (manager, data) =
            (format!("--field-manager={manager}"), json!({"data": {"size": size}}).to_string());
        lab.kubectl(&["-n", "charts", "patch", "configmap", "web", &manager, "-p", &data]);
    };
    patch("sizer", "9");
    let theirs = ".data.size belongs to `sizer`: left as it is";
    says_all(&apply(&["size=3"]), &[theirs]);
    assert_eq!(data(), json!({"size": "9", "twice": "6"}));
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    says_all(&back, &[theirs, "-    twice: '6'", "+    twice: '4'"]);
    assert!(
        !back.all().contains("verification failed") && !back.all().contains("size: '9'\n+"),
        "{}",
        back.all()
    );
    assert_eq!(data(), json!({"size": "9", "twice": "4"}));
    says_all(&lab.converge(&["plan", "hosts.yaml", "--set", "size=2"]).expect(0), &["nothing to change"]);

    // A user changes a field by hand: that is drift, and is reported as such with the name of the tool. No change is
    // reported that was not made.
    patch("kubectl-patch", "11");
    let declared = ["--set", "size=2"];
    for command in [&["drift"][..], &["plan"], &["apply", "--yes"]] {
        let reported = lab.converge(&[command, &["hosts.yaml"], &declared[..]].concat());
        assert!(!matches!(reported.code, Some(0)), "{}", reported.all());
        says_all(
            &reported,
            &["configmap charts/web: .data.size was changed by `kubectl-patch`", "force_conflicts"],
        );
    }
    assert_eq!(data(), json!({"size": "11", "twice": "4"}));
    apply(&["size=2", "force=true"]);
    assert_eq!(data(), json!({"size": "2", "twice": "4"}));
    // It is helm's own again: the next value reaches it without force.
    lab.converge(&["drift", "hosts.yaml", "--set", "size=2"]).expect(0);
    apply(&["size=4"]);
    assert_eq!(data(), json!({"size": "4", "twice": "8"}));
    // By force in the same run in which something else of it changes; a field that no role declares is not a difference.
    patch("kubectl-edit", "12");
    lab.kubectl(&["-n", "charts", "patch", "configmap", "web", "-p", r#"{"data":{"more":"1"}}"#]);
    apply(&["size=5", "force=true"]);
    assert_eq!(data(), json!({"size": "5", "twice": "10", "more": "1"}));
    lab.converge(&["drift", "hosts.yaml", "--set", "size=5"]).expect(0);
    // Missing objects are created again, and belong to helm too; a packaged chart is no exception.
    lab.kubectl(&["-n", "charts", "delete", "configmap", "web"]);
    lab.converge(&["drift", "hosts.yaml", "--set", "size=5"]).expect(2);
    apply(&["size=5"]);
    apply(&["size=6"]);
    assert_eq!(data(), json!({"size": "6", "twice": "12"}));
    // helm keeps 2 where 2.0 is given.
    apply(&["size=2.0"]);
    says_all(&lab.converge(&["plan", "hosts.yaml", "--set", "size=2.0"]).expect(0), &["nothing to change"]);
    patch("sizer", "9");
    says_all(&apply(&["size=2"]), &["nothing to change"]);
    apply(&["size=7"]);

    // Objects that a run removes come back, and the role continues with them.
    apply(&["installed=false"]);
    assert_eq!(data(), Value::Null);
    says_all(
        &lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0),
        &["helm install charts/web (small-1.0.0)"],
    );
    assert_eq!(
        data(),
        json!({"size": "7", "twice": "14"}),
        "as the chart declares it: the value of the other program went with the object"
    );
    assert_eq!(password(), drawn, "another one was drawn");
    lab.converge(&["plan", "hosts.yaml", "--set", "size=9"]).expect(2);
    apply(&["size=5"]);
    assert_eq!(data(), json!({"size": "5", "twice": "10"}));
}

/// Two runs, then somebody's edit, then rollbacks one by one: each takes back its run's fields, and none of the edit.
#[test]
fn an_edit_before_the_first_of_two_rollbacks_survives_both() {
    let lab = Lab::get();
    let node = lab.api.nodes(&NodeSpec::new("edited", 1)).unwrap().remove(0);
    for map in ["patched", "declared"] {
        lab.kubectl(&["create", "configmap", map, "--from-literal=f=0"]);
    }
    let apply = |value: u8| {
        lab.role("edited", &format!(
            "scope: cluster\nresources:\n  \
             - name: patched\n    k8s_patch: {{target: configmap/patched, namespace: default, set: {{/data/y: '{value}', /metadata/annotations/ex.io~1y: '{value}'}}}}\n  \
             - name: declared\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: declared, namespace: default}}, data: {{y: '{value}'}}}}\n  \
             - name: node\n    node: {{name: {node}, labels: {{own: v{value}}}}}\n"
        ));
        lab.apply().expect(0);
    };
    let rollback = || lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    let data = |map: &str| lab.value(&["configmap", map], "/data").unwrap_or(Value::Null);
    let of_node = || {
        let of = |pointer: &str| lab.value(&["node", &node], pointer);
        (of("/metadata/labels/own"), of("/metadata/labels/theirs"), of("/spec/unschedulable"))
    };
    (1..=3).for_each(apply);
    for map in ["patched", "declared"] {
        lab.kubectl(&["patch", "configmap", map, "-p", r#"{"data":{"f":"9","theirs":"1"}}"#]);
    }
    lab.kubectl(&["cordon", &node]);
    lab.kubectl(&["label", "node", &node, "theirs=yes"]);
    for value in [Some("2"), Some("1"), None] {
        let back = rollback();
        for map in ["patched", "declared"] {
            let mut wanted = json!({"f": "9", "theirs": "1"});
            if let Some(value) = value {
                wanted["y"] = json!(value);
            }
            assert_eq!(data(map), wanted, "{map}: {}", back.all());
        }
        let own = value.map(|value| json!(format!("v{value}")));
        assert_eq!(of_node(), (own, Some(json!("yes")), Some(json!(true))), "{}", back.all());
    }
    assert_eq!(lab.value(&["configmap", "patched"], "/metadata/annotations"), None);
    for map in ["patched", "declared"] {
        lab.kubectl(&["delete", "configmap", map]);
    }
    lab.kubectl(&["delete", "node", &node]);
}
