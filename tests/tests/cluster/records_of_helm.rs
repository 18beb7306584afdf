//! helm's record of a release beside a patch of its objects: it has what the chart declares, and later rollbacks go by it.

use crate::Lab;
use crate::patched::{MAP, data, declare, lay_chart, nothing_to_change};
use serde_json::{Value, json};

/// The IDs of the recorded runs, the newest first.
fn runs(lab: &Lab) -> Vec<String> {
    let shown = lab.converge(&["snapshots", "hosts.yaml", "--output", "json"]).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let runs = shown["hosts"][0]["runs"].as_array().unwrap();
    runs.iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

/// The value of a patch stays out of helm's record: whatever goes back later, it does not come again once the patch has gone.
#[test]
fn a_later_rollback_does_not_bring_back_the_value_of_a_patch_that_has_gone() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    let rollback = || lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    let of_chart = |own: &str| json!({"own": own, "both": "1"});
    declare(&lab, "1", None);
    lab.apply().expect(0);
    declare(&lab, "1", Some("patched"));
    lab.apply().expect(0);
    declare(&lab, "2", Some("patched"));
    lab.apply().expect(0);
    rollback();
    rollback();
    assert_eq!(data(&lab), of_chart("1"));
    declare(&lab, "1", None);
    nothing_to_change(&lab);
    declare(&lab, "3", None);
    lab.apply().expect(0);
    rollback();
    assert_eq!(data(&lab), of_chart("1"));

    // A prune in a run of its own.
    for own in ["1", "2"] {
        declare(&lab, own, Some("patched"));
        lab.apply().expect(0);
    }
    declare(&lab, "2", None);
    lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), of_chart("2"));
    nothing_to_change(&lab);
    declare(&lab, "3", None);
    lab.apply().expect(0);
    rollback();
    assert_eq!(data(&lab), of_chart("2"));
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A run that changed the release and the patch goes back, forth by `--to`, and back once more.
#[test]
fn a_run_with_a_release_and_a_patch_goes_back_after_its_rollback_was_undone() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    let steps = [("1", None), ("1", Some("patched")), ("2", Some("patched")), ("3", Some("again"))];
    let mut shown = Vec::new();
    for (own, patched) in steps {
        declare(&lab, own, patched);
        lab.apply().expect(0);
        shown.push(data(&lab));
    }
    let second = runs(&lab)[2].clone();
    lab.converge(&["rollback", "--yes", "--to", &second, "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), shown[0]);
    let back = runs(&lab)[0].clone();
    lab.converge(&["rollback", "--yes", "--to", &back, "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), shown[3]);
    nothing_to_change(&lab);
    for before in shown.iter().rev().skip(1) {
        lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(data(&lab), *before);
    }
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A role with patches requires that of the release: one of the patches is pruned before the release is upgraded, although its role waits for that one.
#[test]
fn a_patch_of_a_role_behind_the_release_is_pruned_in_the_run_that_upgrades_it() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    let patch = |name: &str, field: &str| {
        format!(
            "  - name: {name}\n    k8s_patch: {{target: configmap/held, namespace: held, set: {{/data/{field}: p}}}}\n"
        )
    };
    let declare_both = |own: &str, patches: &str| {
        declare(&lab, own, None);
        lab.role("heldpatch", &format!("scope: cluster\nrequires: [held]\nresources:\n{patches}"));
        lab.world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [held, heldpatch]\n").unwrap();
    };
    let (both, more) = (patch("both", "both"), patch("more", "extra"));
    declare_both("1", &format!("{both}{more}"));
    lab.apply().expect(0);
    declare_both("2", &more);
    lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), json!({"own": "2", "both": "1", "extra": "p"}));
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "namespace", "held"]);
}
