//! Two projects on one object of a cluster.

use crate::{Lab, says_all};
use converge_tests::Ran;
use serde_json::{Value, json};

/// Runs a command of a project, whose only role says this.
fn of(lab: &Lab, project: &str, item: &str, args: &[&str]) -> Ran {
    lab.role("shared", &format!("scope: cluster\nresources:\n{item}"));
    let inventory = lab.world.inventory(&format!("converge_project: {project}"));
    lab.world.write("project.yaml", &inventory).unwrap();
    lab.converge(&[args, &["project.yaml"]].concat())
}

/// A patch of the project's annotation.
fn patch(project: &str, value: u8) -> String {
    format!(
        "  - k8s_patch: {{target: configmap/shared, namespace: default, set: {{/metadata/annotations/ex.io~1{project}: '{value}'}}}}\n"
    )
}

/// Other fields are no other project's: each takes its own back, whatever the other one has done since.
#[test]
fn two_projects_that_change_different_fields_take_each_its_own_back() {
    let lab = Lab::get();
    lab.kubectl(&["create", "configmap", "shared", "--from-literal=x=1"]);
    let live = || lab.value(&["configmap", "shared"], "/metadata/annotations").unwrap_or(Value::Null);
    for (project, value) in [("b", 6), ("a", 5), ("b", 5), ("a", 1), ("b", 4)] {
        of(&lab, project, &patch(project, value), &["apply", "--yes"]).expect(0);
    }
    assert_eq!(live(), json!({"ex.io/a": "1", "ex.io/b": "4"}));
    let back = |project: &str| of(&lab, project, &patch(project, 0), &["rollback", "--yes"]).expect(0);
    back("a");
    assert_eq!(live(), json!({"ex.io/a": "5", "ex.io/b": "4"}));
    back("b");
    assert_eq!(live(), json!({"ex.io/a": "5", "ex.io/b": "5"}));
    back("a");
    back("b");
    assert_eq!(live(), json!({"ex.io/b": "6"}));
    back("b");
    assert_eq!(live(), Value::Null);
    lab.kubectl(&["delete", "configmap", "shared"]);
}

/// Projects whose files have the same names are told apart by their names.
#[test]
fn the_project_of_a_run_is_named() {
    let lab = Lab::get();
    lab.kubectl(&["create", "configmap", "shared", "--from-literal=x=1"]);
    let set = |value: u8| {
        format!(
            "  - k8s_patch: {{target: configmap/shared, namespace: default, set: {{/data/x: '{value}'}}}}\n"
        )
    };
    for (project, value) in [("pa", 5), ("pb", 6)] {
        of(&lab, project, &set(value), &["apply", "--yes"]).expect(0);
    }
    let ran = of(&lab, "pa", &set(5), &["rollback", "--yes"]);
    says_all(&ran, &["of another project changed it too (playbook pb:playbooks/site.yaml"]);
    let runs = of(&lab, "pa", &set(5), &["snapshots"]).expect(0);
    says_all(&runs, &["playbook pa:playbooks/site.yaml", "playbook pb:playbooks/site.yaml"]);
    let theirs = runs.stdout.split_whitespace().next().unwrap().to_owned();
    let refused = of(&lab, "pa", &set(5), &["rollback", "--yes", "--to", &theirs]);
    says_all(&refused, &["is of another project: playbook pb:playbooks/site.yaml"]);
    lab.kubectl(&["delete", "configmap", "shared"]);
}
