//! Records in a cluster that earlier versions wrote: see `fixtures/formats/README.md`.

use crate::Lab;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write as _;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/formats");
const INVENTORY: &str = "inventories/hosts.yaml";

fn role(lab: &Lab, version: u8) {
    let more = "  - name: more\n    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: app}, data: {a: b}}\n";
    let text = format!(
        r#"summary: An application
scope: cluster
resources:
  - name: space
    namespace: {{name: app}}
  - name: settings
    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: settings, namespace: app}}, data: {{version: "{version}", there: "yes"}}}}
  - name: was there
    k8s_patch: {{target: configmap/was-there, namespace: default, set: {{/data/version: "{version}"}}}}
{}"#,
        if version == 2 { more } else { "" }
    );
    lab.role("app", &text);
}

/// The version of the two objects that stay, and whether the third one is there.
fn standing(lab: &Lab) -> (Option<Value>, Option<Value>, bool) {
    (
        lab.value(&["configmap", "-n", "app", "settings"], "/data/version"),
        lab.value(&["configmap", "was-there"], "/data/version"),
        lab.value(&["configmap", "-n", "app", "more"], "/data/a").is_some(),
    )
}

/// The number of formats of runs in clusters that have a fixture: all but the present one.
fn old_formats() -> usize {
    let names = std::fs::read_dir(FIXTURES).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("cluster-")).count()
}

/// The format in which runs are recorded now.
fn written_format(lab: &Lab) -> u64 {
    let secrets = ["secrets", "-n", "converge-system", "-l", "converge/record=run"];
    let record = lab.value(&secrets, "/items/0/data/record").unwrap();
    let packed = STANDARD.decode(record.as_str().unwrap()).unwrap();
    let record: Value = serde_json::from_reader(GzDecoder::new(packed.as_slice())).unwrap();
    record["format"].as_u64().unwrap()
}

/// Puts the records of an old version in the place of those that made the same objects. They name objects by their UIDs.
fn give_old_records(lab: &Lab, format: usize) {
    let path = format!("{FIXTURES}/cluster-{format}.json");
    let old: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut uids = Vec::new();
    for (key, uid) in old["uids"].as_object().unwrap() {
        let parts: Vec<&str> = key.split('/').collect();
        let now = match parts[..] {
            ["v1", "Namespace", name] => lab.value(&["namespace", name], "/metadata/uid"),
            ["v1", "ConfigMap", space, name] => lab.value(&["configmap", "-n", space, name], "/metadata/uid"),
            _ => None,
        };
        uids.push((uid.as_str().unwrap(), now.unwrap().as_str().unwrap().to_owned()));
    }
    lab.kubectl(&["delete", "secret", "-n", "converge-system", "--all"]);
    let secrets = old["secrets"].as_array().unwrap().iter().map(|secret| {
        let record =
            uids.iter().fold(secret["record"].to_string(), |text, (old, now)| text.replace(old, now));
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(record.as_bytes()).unwrap();
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": secret["type"],
            "metadata": {
                "name": secret["name"], "namespace": "converge-system",
                "labels": secret["labels"], "annotations": secret["annotations"],
            },
            "data": {"record": STANDARD.encode(packed.finish().unwrap())},
        })
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": secrets.collect::<Vec<_>>()});
    lab.api.apply(&list.to_string()).unwrap();
}

#[test]
fn records_of_every_format_are_read_and_rolled_back() {
    let lab = Lab::get();
    let inventory = std::fs::read_to_string(lab.world.dir().join("hosts.yaml")).unwrap();
    lab.world.write(INVENTORY, &inventory).unwrap();
    let value = |text: &str| Some(json!(text));
    let formats = old_formats();
    for format in 1..=formats {
        lab.kubectl(&[
            "create",
            "configmap",
            "was-there",
            "--from-literal=version=0",
            "--from-literal=other=x",
        ]);
        for version in [1, 2] {
            role(&lab, version);
            lab.converge(&["apply", INVENTORY, "--yes"]).expect(0);
        }
        let present = u64::try_from(formats).unwrap() + 1;
        assert_eq!(written_format(&lab), present, "a new format brings a fixture of the one before it");
        give_old_records(&lab, format);
        let snapshots = lab.converge(&["snapshots", INVENTORY]).expect(0).all();
        assert_eq!(snapshots.matches("rolled back by").count(), 1, "{snapshots}");
        lab.converge(&["plan", INVENTORY]).expect(0);
        role(&lab, 1);
        lab.converge(&["plan", "--prune", INVENTORY]).expect(2).says("app/more");
        assert_eq!(standing(&lab), (value("2"), value("2"), true), "{format}");
        lab.converge(&["rollback", INVENTORY, "--yes"]).expect(0);
        assert_eq!(standing(&lab), (value("1"), value("1"), false), "{format}");
        let whole = ["rollback", INVENTORY, "--yes", "--allow-destroy", "k8s:v1/Namespace/app"];
        lab.converge(&whole).expect(0);
        assert_eq!(standing(&lab), (None, value("0"), false), "{format}");
        assert_eq!(lab.value(&["namespace", "app"], "/metadata/name"), None, "{format}");
        lab.kubectl(&["delete", "configmap", "was-there"]);
        lab.forget_records();
    }
}
