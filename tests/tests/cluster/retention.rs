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
