//! Compares the published schemas with real documents.

use super::*;
use crate::samples::{fleet, idle, lost, rich};
use converge_engine::{CheckFailure, HostAnswer, HostSnapshots, HostVerify, Purpose, Snapshot};
use serde_json::json;
use std::time::Duration;

/// The same schema, but nothing that it does not name may be there.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                map.insert("additionalProperties".into(), false.into());
            }
            map.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

fn fits(name: &str, document: &Value) {
    let mut schema = schemas().into_iter().find(|(n, _)| *n == name).unwrap().1;
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

#[test]
fn every_document_fits_its_schema_and_has_nothing_else() {
    let mut plan = fleet(vec![rich("web1"), idle("db1")]);
    plan.hosts.push(lost("db2", true));
    fits("plan", &crate::plan_json(&plan));
    plan.purpose = Purpose::Rollback(vec![("web1".into(), "r1".into())]);
    fits("plan", &crate::plan_json(&plan));
    let check = ("a/b".to_owned(), Some(CheckFailure::Differs("no".to_owned())));
    let checks = [HostVerify { host: "h".into(), checks: vec![check], lost: None }];
    fits("apply", &crate::apply_json(&crate::report::sample(), &[], &[]));
    fits("apply", &crate::apply_json(&crate::report::sample(), &checks, &crate::timings::tests::slowest()));
    fits("verify", &crate::verify_json(&checks));
    let run = Snapshot {
        run: "r".into(),
        time: "t".into(),
        operator: "o".into(),
        project: Some("n".into()),
        playbook: "p".into(),
        inventory: "i".into(),
        roles: vec!["r".into()],
        purpose: "converge".into(),
        changes: 1,
        finished: true,
        forgotten: 0,
        rolled_back_by: None,
    };
    fits(
        "snapshots",
        &crate::snapshots_json(&[HostSnapshots {
            host: "h".into(),
            runs: vec![run],
            lost: None,
            remarks: vec![],
        }]),
    );
    fits("state", &crate::managed_json(&crate::managed::tests::sample()));
    let facts = vec![HostAnswer { host: "h".into(), result: Ok(json!({"cpus": 2})) }];
    fits("fact", &crate::fact_json("cpus", &[("h".into(), json!(2))], &facts));
    fits("tests", &crate::tests_json(&crate::role_tests::tests::cases(), Duration::from_secs(1)));
    fits("run", &crate::ran_json("true", &crate::ran::tests::two_hundred(), 1));
    fits("doctor", &crate::doctor_json(&crate::doctor::tests::sample()));
    let setting = SettingEntry {
        name: "forks".into(),
        value: json!(5),
        source: SettingSource::Environment,
        at: Some("CONVERGE_FORKS".into()),
        default: "20".into(),
        ignored_at: None,
    };
    let settings = SettingsDocument {
        format: SettingsFormat,
        version: One,
        file: None,
        named_by: None,
        settings: vec![setting],
        ansible: None,
    };
    fits("settings-report", &to_json(&settings));
}

#[test]
fn another_document_does_not_fit() {
    let (_, schema) = schemas().remove(0);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut plan = crate::plan_json(&fleet(vec![rich("web1")]));
    assert!(validator.is_valid(&plan));
    plan["format"] = "converge-plan".into();
    assert!(!validator.is_valid(&plan), "a saved plan has that name");
}

/// Each document that names a format is one of the published ones, or a file of ours that nobody else reads.
#[test]
fn every_format_has_a_schema() {
    let schemas = serde_json::to_string(&schemas()).unwrap();
    let own = ["plan"];
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut files = vec![std::path::PathBuf::from(sources)];
    let mut found = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for name in
                text.split("\"format\": \"converge-").skip(1).filter_map(|rest| rest.split('"').next())
            {
                let is_known =
                    schemas.contains(&format!("\"const\":\"converge-{name}\"")) || own.contains(&name);
                assert!(is_known, "{}: `converge-{name}` has no schema", path.display());
                found += 1;
            }
        }
    }
    assert!(found > 5, "{found}");
}
