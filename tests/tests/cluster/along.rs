//! Objects that go along with another one, in which a run in force of somebody else stands.

use crate::projects::{declared, of, patch};
use crate::{Lab, says_all};
use converge_tests::until;
use serde_json::{Value, json};

/// A version of the chart `held`: the first has the ConfigMap `kept`, later ones `shared` too.
fn chart(lab: &Lab, version: u8) {
    let chart = "roles/shared/files/along";
    let map = |name: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{x: '1'}}}}\n")
    };
    let text = format!("{{apiVersion: v2, name: along, version: {version}.0.0}}\n");
    lab.world.write(&format!("{chart}/Chart.yaml"), &text).unwrap();
    lab.world.write(&format!("{chart}/templates/kept.yaml"), &map("kept")).unwrap();
    let more = if version > 1 { map("shared") } else { String::new() };
    lab.world.write(&format!("{chart}/templates/map.yaml"), &more).unwrap();
}

const RELEASE: &str = "  - helm_release: {name: held, namespace: default, folder: along}\n";
const AWAY: &str = "  - helm_release: {name: held, namespace: default, state: absent}\n";
const FORCE: [&str; 2] = ["--allow-destroy", "release:default/held"];

/// Objects that helm drops with another revision of a chart are looked for as those that it deletes with the release: while another project has changed it, the rollback and
/// the plan refuse the release. Who may do so goes on, and the other project learns by whom the object went.
#[test]
fn a_release_keeps_the_revision_of_which_another_project_has_changed_an_object() {
    let lab = Lab::get();
    let (apply, back) = (["apply", "--yes"], ["rollback", "--yes"]);
    let held = [
        "configmap default/shared would be removed with it",
        "of another project (playbook pb:playbooks/site.yaml",
        FORCE[1],
    ];
    let live = || lab.value(&["configmap", "shared"], "/metadata/annotations/ex.io~1b");
    let a = |text: &str, args: &[&str]| of(&lab, "pa", text, args);
    let b = |args: &[&str]| of(&lab, "pb", &patch("b", 1), args);
    let both = || {
        chart(&lab, 1);
        a(RELEASE, &apply).expect(0);
        chart(&lab, 2);
        a(RELEASE, &apply).expect(0);
        b(&apply).expect(0);
    };
    both();
    // A rollback, an older chart, and the end of the release.
    says_all(&a(RELEASE, &back).expect(4), &held);
    chart(&lab, 1);
    says_all(&a(RELEASE, &["plan"]).expect(2), &held);
    says_all(&a(RELEASE, &apply).expect(4), &held);
    says_all(&a(AWAY, &apply).expect(4), &held);
    assert_eq!(live(), Some(json!("1")));
    b(&["plan"]).expect(0);
    // A run that the other project reverts first refuses nothing.
    b(&back).expect(0);
    says_all(&a(RELEASE, &back).expect(0), &["helm upgrade default/held"]);
    a(RELEASE, &back).expect(0);
    assert_eq!(lab.value(&["configmap", "kept"], "/data"), None);

    let gone = [
        "was taken away by run",
        "of another project (playbook pa:playbooks/site.yaml",
        "with release:default/held",
    ];
    let forget = "converge state forget k8s:v1/ConfigMap/default/shared";
    let forced: [(&str, &[&str]); 3] = [(RELEASE, &back), (RELEASE, &apply), (AWAY, &apply)];
    for (text, args) in forced {
        both();
        chart(&lab, 1);
        let went = a(text, &[args, &FORCE[..]].concat()).expect(0);
        says_all(&went, &["configmap default/shared goes with it", held[1]]);
        assert_eq!(lab.value(&["configmap", "shared"], "/data"), None);
        says_all(&b(&["plan"]).expect(1), &[&gone[..], &["is not there", forget]].concat());
        says_all(&b(&back).expect(4), &[&gone[..], &[forget]].concat());
        b(&["state", "forget", "--yes", "--resource", "k8s:v1/ConfigMap/default/shared"]).expect(0);
        b(&back).expect(0);
        of(&lab, "pb", &declared(&Value::Null), &["plan", "--prune"]).expect(0);
        a(AWAY, &apply).expect(0);
        lab.forget_records();
    }
}

/// So are objects that the project itself goes on changing: by a role that a rollback leaves, and by one that stays declared.
#[test]
fn a_release_keeps_the_revision_of_which_the_project_itself_changes_an_object() {
    let lab = Lab::get();
    let apply = ["apply", "--yes"];
    let a = |text: &str, args: &[&str]| of(&lab, "pa", text, args);
    chart(&lab, 1);
    a(RELEASE, &apply).expect(0);
    chart(&lab, 2);
    a(RELEASE, &apply).expect(0);
    let two = format!("{RELEASE}{}", patch("a", 1));
    a(&two, &apply).expect(0);
    chart(&lab, 1);
    let declared = ["configmap default/shared would be removed with it", "which is declared, changes it"];
    says_all(&a(&two, &apply).expect(4), &declared);
    assert_eq!(lab.value(&["configmap", "shared"], "/metadata/annotations/ex.io~1a"), Some(json!("1")));
    // With the patch out of the role it goes.
    a(RELEASE, &apply).expect(0);
    assert_eq!(lab.value(&["configmap", "shared"], "/data"), None);
    // Of the patch nothing is left: a prune names the command that ends it.
    let forget = "converge state forget k8s:v1/ConfigMap/default/shared";
    says_all(&a(AWAY, &["apply", "--yes", "--prune"]).expect(4), &[forget]);
    a(AWAY, &["state", "forget", "--yes", "--resource", "k8s:v1/ConfigMap/default/shared"]).expect(0);
    a(AWAY, &["plan", "--prune"]).expect(0);
    a(AWAY, &["rollback", "--yes"]).expect(0);
    a(AWAY, &["rollback", "--yes"]).expect(0);
    a(AWAY, &apply).expect(0);
}

/// A chart has a namespace and a definition of a kind no more: what is in them goes for good, so the upgrade is refused until each is allowed, or the release is.
#[test]
fn an_upgrade_that_drops_what_no_snapshot_holds_is_refused() {
    let lab = Lab::get();
    let templates = "roles/shared/files/along/templates";
    let space = "{apiVersion: v1, kind: Namespace, metadata: {name: along}}\n";
    let definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.along.ex}, spec: {group: along.ex, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}\n";
    let a = |args: &[&str]| of(&lab, "pa", RELEASE, args);
    let there = |kind: &str, name: &str| lab.value(&[kind, name], "/metadata/name").is_some();
    let [space_id, definition_id] =
        ["k8s:v1/Namespace/along", "k8s:apiextensions.k8s.io/v1/CustomResourceDefinition/things.along.ex"];
    let lay = |both: bool| {
        chart(&lab, if both { 1 } else { 2 });
        let text = |text: &str| if both { text.to_owned() } else { String::new() };
        lab.world.write(&format!("{templates}/space.yaml"), &text(space)).unwrap();
        lab.world.write(&format!("{templates}/definition.yaml"), &text(definition)).unwrap();
    };
    for allowed in [&[space_id, definition_id][..], &[FORCE[1]][..]] {
        lay(true);
        a(&["apply", "--yes"]).expect(0);
        lay(false);
        let plan = a(&["plan"]).expect(2);
        says_all(&plan, &["goes, since the chart has it no more", "--allow-destroy k8s:"]);
        a(&["apply", "--yes"]).expect(4);
        assert!(there("namespace", "along") && there("crd", "things.along.ex"));
        let allow: Vec<&str> = allowed.iter().flat_map(|id| ["--allow-destroy", id]).collect();
        a(&[&["apply", "--yes"], &allow[..]].concat()).expect(0);
        until("the namespace and the definition are gone", 60, || {
            !there("namespace", "along") && !there("crd", "things.along.ex")
        });
        of(&lab, "pa", AWAY, &["apply", "--yes"]).expect(0);
    }
}
