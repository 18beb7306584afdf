use super::*;

#[test]
fn a_release_is_its_chart_values_and_manifests_in_any_order() {
    let manifest = "---\n# Source: a\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\ndata: {k: aHVudGVyMg==}\n\
        ---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n";
    let revision = json!({"status": "deployed", "chart": {"name": "c", "version": "1.2"},
        "values": {"z": 1, "a": {"y": 2, "b": 3}}, "manifest": manifest});
    let (state, one) = ReleaseState::of(&revision).unwrap();
    let mut list = manifests(manifest).unwrap();
    assert_eq!(list.len(), 2);
    list.reverse();
    let other = content("c", "1.2", &json!({"a": {"b": 3, "y": 2}, "z": 1}), &list);
    assert_eq!(one.text(), other.text());
    assert!(!one.text().unwrap().contains("aHVudGVyMg"));
    let (status, chart) = ("deployed".into(), "c-1.2".into());
    let digest = other.digest().clone();
    assert_eq!(state, ReleaseState::Installed { status, chart, digest });
    assert_eq!(manifests_of(&one).unwrap().len(), 2);
    assert!(manifests("a: [").is_err());
    assert_ne!(content("c", "1.2", &Value::Null, &list), other);
}
#[test]
fn values_are_compared_as_helm_stores_them() {
    let given: Value = serde_json::from_str(
        r#"{"b": 2.0, "a": [1e3, 12345678901234567890, 9007199254740993, -0.0, 1.5, 1e300], "n": null, "t": "2.0"}"#,
    )
    .unwrap();
    // As Go writes the same after it has read it.
    let helm: Value = serde_json::from_str(
        r#"{"a": [1000, 12345678901234567000, 9007199254740992, 0, 1.5, 1e+300], "b": 2, "n": null, "t": "2.0"}"#,
    )
    .unwrap();
    assert_eq!(stored(&given), stored(&helm));
    assert_eq!(content("c", "1", &given, &[]), content("c", "1", &helm, &[]));
    assert_ne!(stored(&json!({"b": 2})), stored(&json!({"b": "2"})));
    assert_ne!(stored(&json!(1.5)), stored(&json!(1)));
}

#[test]
fn what_hangs_goes_back_or_away() {
    let hangs = |statuses: &[&str]| {
        let one = |(n, status): (usize, &&str)| json!({"revision": statuses.len() - n, "status": status});
        recovery(&statuses.iter().enumerate().map(one).collect::<Vec<Value>>())
    };
    assert_eq!(hangs(&["pending-upgrade", "failed", "deployed", "superseded"]), Some(Recovery::Rollback(2)));
    assert_eq!(hangs(&["pending-rollback", "superseded", "superseded"]), Some(Recovery::Rollback(2)));
    assert_eq!(hangs(&["pending-install"]), Some(Recovery::Uninstall));
    assert_eq!(hangs(&["uninstalling", "superseded"]), Some(Recovery::Uninstall));
    assert_eq!(hangs(&["failed", "deployed"]), None);
    assert_eq!(hangs(&["pending-upgrade", "failed"]), Some(Recovery::Uninstall));
}

fn revision(number: u64, status: &str, applied: Option<bool>) -> Value {
    json!({"revision": number, "status": status, "applied": applied, "manifest": "", "chart": {"name": "c", "version": "1"}, "values": {"n": number}})
}

#[test]
fn what_is_in_force_is_what_was_deployed_last_or_applied_since() {
    let force = |revisions: &[(&str, Option<bool>)]| {
        let mut all: Vec<Value> = (1..).zip(revisions).map(|(n, (s, a))| revision(n, s, *a)).collect();
        all.reverse();
        in_force(&all).and_then(|r| r["revision"].as_u64())
    };
    let (fine, superseded) = (("deployed", None), ("superseded", None));
    let (failed, applied, hangs) =
        (("failed", Some(false)), ("failed", Some(true)), ("pending-upgrade", None));
    assert_eq!(force(&[superseded, fine]), Some(2));
    assert_eq!(force(&[fine, failed]), Some(1));
    assert_eq!(force(&[fine, applied]), Some(2));
    assert_eq!(force(&[fine, applied, failed, hangs]), Some(2));
    assert_eq!(force(&[fine, failed, fine, hangs]), Some(3));
    assert_eq!(force(&[failed, ("pending-install", None)]), None);
    assert_eq!(force(&[applied, hangs]), Some(1));
    assert_eq!(force(&[superseded, ("uninstalled", None), ("pending-install", None)]), None);
    // The revision that helm marks when its own rollback fails.
    assert_eq!(force(&[fine, superseded, failed]), Some(1));
    assert_eq!(force(&[superseded, superseded, failed]), Some(2));
}

#[test]
fn a_rollback_ends_in_what_was_in_force() {
    let state = |revisions: &[Value]| ReleaseState::now(revisions).unwrap().0;
    let one = state(&[revision(1, "deployed", None)]);
    let mut hung = vec![revision(2, "pending-upgrade", None), revision(1, "deployed", None)];
    let hangs = state(&hung);
    assert!(hangs != one && hangs.settled() == one, "{hangs:?}");
    // A recovered revision needs no revert, and one that is stuck is recovered.
    assert!(Release::same(&one, &hangs) && !Release::same(&hangs, &one));
    hung.remove(1);
    hung[0]["status"] = json!("pending-install");
    let begun = state(&hung);
    assert_eq!(begun, ReleaseState::Begun { status: "pending-install".into(), chart: "c-1".into() });
    let line = converge_resource::State::from(begun.clone());
    assert_eq!(ReleaseState::try_from(line), Ok(begun.clone()));
    assert_eq!(begun.settled(), ReleaseState::Absent);
    // A run that was cut off left it so.
    let two = state(&[revision(2, "deployed", None)]);
    let amid = |before: &ReleaseState, now: &ReleaseState| Release::amid(before, &two, now);
    assert!(amid(&one, &hangs) && amid(&ReleaseState::Absent, &begun));
    assert!(!amid(&one, &one) && !amid(&two, &hangs) && !amid(&one, &begun));
    // The rollback of a prune installs; a prune, and the rollback of an install, uninstall.
    let (absent, either) =
        (ReleaseState::Absent, |end: &ReleaseState, other: &ReleaseState, now: &ReleaseState| {
            let both = [Release::amid(end, other, now), Release::amid(other, end, now)];
            assert_eq!(both[0], both[1], "{end:?} {other:?} {now:?}");
            both[0]
        });
    assert!(either(&one, &absent, &begun) && either(&one, &absent, &one.clone().with_status("uninstalling")));
    assert!(either(&begun, &absent, &begun.clone()) && either(&begun, &two, &begun));
    assert!(!either(&one, &absent, &two.clone().with_status("uninstalling")) && !either(&one, &two, &absent));
    // A revision that hung goes before its release is installed anew.
    let goes = state(&[revision(1, "uninstalling", None)]);
    assert!(either(&begun, &two, &goes) && either(&begun, &absent, &goes) && either(&begun, &two, &absent));
    let other = ReleaseState::Begun { status: "failed".into(), chart: "other-1".into() };
    assert!(!either(&other, &two, &goes));
    assert_eq!(state(&[revision(1, "uninstalled", None)]), ReleaseState::Absent);
    // As records of older versions have it.
    assert_eq!(one.with_status("pending-install").settled(), ReleaseState::Absent);
}

#[test]
fn of_what_helm_has_not_finished_objects_may_be_missing() {
    let state = |line: &str| ReleaseState::try_from(converge_resource::State::from_line(line)).unwrap();
    let digest = "a".repeat(64);
    let with = |status: &str| state(&format!("release {status} c-1 {digest}"));
    assert!(ReleaseState::Absent.may_lack_objects() && state("begun pending-install c-1").may_lack_objects());
    assert!(with("uninstalling").may_lack_objects());
    for status in ["deployed", "failed", "pending-upgrade", "pending-rollback"] {
        assert!(!with(status).may_lack_objects(), "{status}");
    }
}
