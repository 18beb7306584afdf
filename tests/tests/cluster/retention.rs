//! Which runs a cluster keeps, and a rollback where records are missing.

use crate::{Lab, says_all};
use serde_json::json;

#[test]
fn runs_in_force_are_kept_before_those_that_were_rolled_back() {
    let lab = Lab::get();
    lab.kubectl(&["create", "configmap", "kept", "--from-literal=v=0"]);
    let apply = |value: u8| {
        let patch = format!("{{target: configmap/kept, namespace: default, set: {{/data/v: '{value}'}}}}");
        lab.role("kept", &format!("scope: cluster\nresources:\n  - name: a value\n    k8s_patch: {patch}\n"));
        lab.apply().expect(0);
    };
    let back = || lab.converge(&["rollback", "--yes", "hosts.yaml"]);
    let value = || lab.value(&["configmap", "kept"], "/data/v").unwrap();
    (1..=6).for_each(&apply);
    for n in 1..=5 {
        apply(10 * n);
        back().expect(0);
        assert_eq!(value(), json!("6"));
    }
    // The six runs in force, and of the others those for which there is place.
    let runs = lab.converge(&["snapshots", "hosts.yaml"]).expect(0).stdout;
    let runs = runs.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).count();
    assert!((10..=11).contains(&runs), "{runs} runs");
    for n in [5, 4] {
        let ran = back().expect(0);
        assert!(!ran.all().contains("someone else"), "{}", ran.all());
        assert_eq!(value(), json!(n.to_string()));
    }

    // Of more than ten in force the oldest is kept for what was there before, and the ones after it are not.
    (21..=29).for_each(apply);
    let oldest = lab.oldest_run();
    let ran = lab.converge(&["rollback", "--yes", "hosts.yaml", "--to", &oldest]).expect(0);
    says_all(&ran, &["someone else, or by a run that is not recorded any more"]);
    assert_eq!(value(), json!("0"));
    lab.kubectl(&["delete", "configmap", "kept"]);
}

/// The run that made an object is not recorded any more: a prune takes the object away nevertheless, and a rollback goes no further than the records do.
#[test]
fn an_object_whose_first_run_is_not_recorded_any_more_is_the_projects() {
    let lab = Lab::get();
    let role = |item: &str| lab.role("kept", &format!("scope: cluster\nresources:\n{item}"));
    let map = |v: u8| {
        role(&format!(
            "  - k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: kept, namespace: default}}, data: {{v: '{v}'}}}}\n"
        ));
        lab.apply().expect(0);
    };
    let none = || role("  - name: it is there\n    k8s_query: {kind: Node}\n");
    let live = || lab.value(&["configmap", "kept"], "/data/v");
    let prune = || lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]);
    let back = || lab.converge(&["rollback", "--yes", "hosts.yaml"]);
    for rolls_back in [false, true] {
        map(1);
        let first = lab.oldest_run();
        map(2);
        let of_run = format!("converge/run={first}");
        lab.kubectl(&["-n", "converge-system", "delete", "secret", "-l", &of_run]);
        none();
        if rolls_back {
            back().expect(0);
            assert_eq!(live(), Some(json!("1")));
            back().expect(0).says("no host has a run to roll back");
            assert_eq!(live(), Some(json!("1")));
        }
        prune().expect(0);
        assert_eq!(live(), None, "rolls back: {rolls_back}");
        // It comes back as it was.
        back().expect(0);
        assert_eq!(live(), Some(json!(if rolls_back { "1" } else { "2" })));
        prune().expect(0);
        lab.forget_records();
    }
}
