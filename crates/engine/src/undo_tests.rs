use super::*;
use converge_resource::Observed;

fn undo(object: &str, key: &str, left: &str, before: &str) -> Undo {
    Undo {
        object: ObjectId::new(object, key),
        left: State::from_line(left),
        before: State::from_line(before),
        between: Vec::new(),
        item: format!("k8s/{key}"),
        sensitive: false,
        run: "r1".to_owned(),
        comes_back: false,
        lost: None,
        way_back: None,
    }
}

fn item(id: u32, undo: Undo, allowed: &[String]) -> Item {
    let mut known = Knowledge::default();
    let seen = Observed { state: undo.left.clone(), moment: None };
    known.learn(Probe::Object(undo.object.clone()), Answer::Object(seen));
    let address = undo.item.clone();
    undo_item(id, &address, vec![undo], &mut known, allowed, &BTreeMap::new())
}

#[test]
fn a_control_plane_is_reset_after_its_snapshot_and_keeps_what_it_stands_on_until_then() {
    let allowed = ["kubeadm:node".to_owned()];
    let plane = undo("kubeadm", "node", "control-plane 10.0.0.1:6443", "absent");
    assert_eq!(item(0, plane.clone(), &[]).backup, None, "it stays");
    let reset = item(0, plane, &allowed);
    assert_eq!(reset.backup.as_ref().map(|b| b.of.as_str()), Some("10.0.0.1:6443"));
    let worker = item(0, undo("kubeadm", "node", "worker 10.0.0.1:6443", "absent"), &allowed);
    assert!(worker.is_pending() && worker.backup.is_none());
    let kubelet = item(1, undo("hostname", "kubelet", "a", "b"), &[]);
    assert_eq!(stand_on_it(std::slice::from_ref(&reset), &kubelet), [0]);
    assert_eq!(stand_on_it(&[worker], &kubelet), [0]);
    let other = Item { role: "other".to_owned(), ..kubelet };
    assert_eq!(stand_on_it(&[reset], &other), [0_u32; 0]);
}

#[test]
fn a_failure_stops_the_rest_of_the_role_and_what_stays_does_not() {
    let goes = |id: u32| item(id, undo("hostname", "h", "name a", "name b"), &[]);
    let moved = {
        let mut known = Knowledge::default();
        let seen = Observed { state: State::from_line("name c"), moment: None };
        known.learn(Probe::Object(ObjectId::new("hostname", "h")), Answer::Object(seen));
        undo_item(
            1,
            "k8s/h",
            vec![undo("hostname", "h", "name a", "name b")],
            &mut known,
            &[],
            &BTreeMap::new(),
        )
    };
    assert!(matches!(moved.outcome, Outcome::Refused(_)), "someone else has changed it");
    assert_eq!(stand_on_it(&[goes(0), moved.clone()], &goes(2)), [0]);
    assert_eq!(stand_on_it(&[goes(0), moved, goes(2)], &goes(3)), [2]);
}

#[test]
fn a_node_goes_before_all_else_of_its_role_and_keeps_it_where_it_stays() {
    let mut undos = vec![
        undo("hostname", "h", "name a", "name b"),
        Undo { item: "k8s/node".to_owned(), ..undo("hostname", "brought", "name a", "name b") },
        undo("kubeadm", "node", "worker 10.0.0.1:6443", "absent"),
        Undo { item: "other/x".to_owned(), ..undo("hostname", "x", "name a", "name b") },
    ];
    in_turn_within_their_role(&mut undos);
    let order: Vec<&str> = undos.iter().map(|u| u.item.as_str()).collect();
    assert_eq!(order, ["k8s/node", "k8s/h", "k8s/node", "other/x"]);
    let of = |kind: &str, item: &str| Undo { item: item.to_owned(), ..undo(kind, "k", "name a", "name b") };
    let mut mixed = [
        of("workload", "a/pods"),
        of("hostname", "b/1"),
        of("hostname", "a/1"),
        of("hostname", "b/2"),
        of("hostname", "a/2"),
        of("kubeadm", "b/node"),
        of("hostname", "b/3"),
    ];
    in_turn_within_their_role(&mut mixed);
    let order: Vec<&str> = mixed.iter().map(|u| u.item.as_str()).collect();
    assert_eq!(order, ["b/node", "b/1", "a/1", "b/2", "a/2", "a/pods", "b/3"]);
    let mut known = Knowledge::default();
    for undo in &undos {
        let seen = Observed { state: undo.left.clone(), moment: None };
        known.learn(Probe::Object(undo.object.clone()), Answer::Object(seen));
    }
    let stay = staying(&undos, &known, &[]);
    assert_eq!(stay.keys().collect::<Vec<_>>(), ["k8s/h", "k8s/node"]);
    let kept = undo_item(0, "k8s/h", vec![undos[1].clone()], &mut known, &[], &stay);
    assert!(matches!(kept.outcome, Outcome::Refused(why) if why.starts_with("`k8s/node` stays")));
    assert!(staying(&undos, &known, &["kubeadm:node".to_owned()]).is_empty());
}
