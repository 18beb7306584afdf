use super::*;
use crate::revert::undo::owners_probe;
use converge_objects::k8s::K8sState;
use converge_objects::{Command, CommandGuard, Surroundings};
use converge_resource::{Answer, Observation, Probe};
use serde_json::{Value, json};

pub(crate) fn undo(object: &str, key: &str, left: &str, before: &str) -> Undo {
    Undo {
        object: ObjectId::new(object, key),
        layer: converge_ledger::MountLayer::default(),
        lies_in: Vec::new(),
        led_in: Vec::new(),
        made_in: Vec::new(),
        left: State::from_line(left),
        before: State::from_line(before),
        between: Vec::new(),
        open: None,
        states: Vec::new(),
        theirs: None,
        sealed: false,
        since: Vec::new(),
        unrecorded: converge_ledger::UnrecordedRuns::default(),
        moved_by: None,
        inputs_stay: false,
        item: format!("k8s/{key}"),
        sensitive: false,
        run: "r1".to_owned(),
        comes_back: false,
        lost: None,
        node_removal: None,
        is_heir: false,
        owners: Vec::new(),
        guard: None,
    }
}

/// The plan back where the host shows these states, or a reason behind `! `; the others are as the runs left them.
pub(crate) fn plan(undos: &[Undo], now: &[(&str, &str)], allowed: &[&str]) -> Vec<Item> {
    let mut known = Knowledge::default();
    for undo in undos {
        let found = now.iter().find(|(key, _)| *key == undo.object.key);
        let state = found.map_or_else(|| undo.left.clone(), |(_, line)| State::from_line(line));
        let answer = match state.unread() {
            Some(why) => Answer::Failed(why),
            None => Answer::Object(Observation::new(state, None)),
        };
        known.learn(Probe::Object(undo.object.clone()), answer);
    }
    let allowed: Vec<String> = allowed.iter().map(|id| (*id).to_owned()).collect();
    let mut items: Vec<Item> = Vec::new();
    for (id, group) in arrange(undos.to_vec(), &mut known, &allowed).into_iter().enumerate() {
        let mut item = item(u32::try_from(id).unwrap(), &group.address, group.members);
        item.needs = needs(&items, &item, &group.after);
        items.push(item);
    }
    items
}

/// The changes of the plan, or the reason why an object stays, where the host shows these states.
pub(crate) fn plan_observed(undos: &[Undo], now: &[(&str, &str)]) -> Vec<String> {
    let mut known = Knowledge::default();
    for undo in undos.iter().map(|u| &u.object).chain([&ObjectId::new("mount", "/srv/m")]) {
        let (_, line) = now.iter().find(|(key, _)| *key == undo.key).unwrap();
        let answer = Answer::Object(Observation::new(State::from_line(line), None));
        known.learn(Probe::Object(undo.clone()), answer);
    }
    let groups = arrange(undos.to_vec(), &mut known, &[]);
    let members = groups.into_iter().flat_map(|group| group.members);
    let reported = members.filter_map(|judged| match judged.verdict {
        Verdict::Same | Verdict::With(_) => None,
        Verdict::Back(change) => Some(format!("{} {} -> {}", change.object, change.from, change.to)),
        Verdict::Stays(why) | Verdict::NotAllowed(why) | Verdict::Lost(why) => Some(why),
    });
    reported.collect()
}

fn one(undo: Undo, now: &[(&str, &str)], allowed: &[&str]) -> Item {
    plan(&[undo], now, allowed).remove(0)
}

fn to(item: &Item) -> Vec<&str> {
    item.changes().iter().map(|c| c.change.to.line()).collect()
}

#[test]
fn a_control_plane_is_reset_after_its_snapshot_and_keeps_what_it_stands_on_until_then() {
    let plane = undo("kubeadm", "node", "control-plane 10.0.0.1:6443", "absent");
    let kubelet = undo("hostname", "kubelet", "name a", "name b");
    let other = Undo { item: "other/x".to_owned(), ..kubelet.clone() };
    let items = plan(
        &[kubelet.clone(), plane.clone(), Undo { object: ObjectId::new("hostname", "o"), ..other }],
        &[],
        &[],
    );
    let retained = |item: &Item| matches!(&item.outcome, Outcome::Refused(why) if why.contains("kubeadm:node is not reverted"));
    assert_eq!(
        items.iter().map(|i| i.address.as_str()).collect::<Vec<_>>(),
        ["k8s/node", "k8s/kubelet", "other/x"]
    );
    assert!(matches!(items[0].outcome, Outcome::Refused(_)) && items[0].backup.is_none(), "it stays");
    assert!(retained(&items[1]) && items[2].is_pending());
    let items = plan(&[kubelet, plane], &[], &["kubeadm:node"]);
    assert_eq!(items[0].backup.as_ref().map(|b| b.of.as_str()), Some("10.0.0.1:6443"));
    assert_eq!(items[1].needs, [0]);
    let worker = one(undo("kubeadm", "node", "worker 10.0.0.1:6443", "absent"), &[], &["kubeadm:node"]);
    assert!(worker.is_pending() && worker.backup.is_none());
}

#[test]
fn an_upgrade_goes_with_its_node_and_else_keeps_the_whole_role() {
    let version = Undo {
        item: "k8s/upgrade".to_owned(),
        ..undo("kubeadm", "version", "version v1.36.2 v1.36.2", "version v1.35.6 v1.35.6")
    };
    let package = undo("package", "kubelet", "present 1.36.2 manual hold", "present 1.35.6 manual hold");
    // An unreachable state is known before the first change.
    let upgrade = plan(&[version.clone(), package.clone()], &[], &["kubeadm:node", "kubeadm:version"]);
    assert!(upgrade.iter().all(|i| !i.is_pending()), "{upgrade:#?}");
    let node = undo("kubeadm", "node", "control-plane 10.0.0.1:6443", "absent");
    let all = [version, package, node];
    let stay = plan(&all, &[], &[]);
    assert!(stay.iter().all(|i| !i.is_pending()), "{stay:#?}");
    let go = plan(&all, &[], &["kubeadm:node"]);
    let pending: Vec<&str> = go.iter().filter(|i| i.is_pending()).map(|i| i.address.as_str()).collect();
    assert_eq!(pending, ["k8s/node", "k8s/kubelet"]);
    // And where the node is reset already.
    let again = plan(&all, &[("node", "absent"), ("version", "absent")], &["kubeadm:node"]);
    let pending: Vec<&str> = again.iter().filter(|i| i.is_pending()).map(|i| i.address.as_str()).collect();
    assert_eq!(pending, ["k8s/kubelet"]);
}

/// Some of the files are made, and the record says that it was begun: a rollback takes it back, and leaves what somebody else has written since.
#[test]
fn a_control_plane_that_was_being_made_when_the_run_was_cut_off_goes_back() {
    let before = "plane a kube-apiserver:--v=1 manifest:kube-apiserver=a kube-scheduler:--s=1 name:x";
    let planned = "plane b ~ kube-apiserver:--v=2 ^kube-apiserver:--v=1";
    let cut = Undo {
        open: Some(State::from_line(before)),
        ..undo("kubeadm_control_plane", "all", planned, before)
    };
    for (now, managed) in [
        ("plane begun kube-apiserver:--v=2 manifest:kube-apiserver=b kube-scheduler:--s=1 name:x", true),
        ("plane begun kube-apiserver:--v=3 manifest:kube-apiserver=c kube-scheduler:--s=1 name:x", false),
        ("plane a kube-apiserver:--v=2 manifest:kube-apiserver=b kube-scheduler:--s=1 name:x", false),
    ] {
        let item = one(cut.clone(), &[("all", now)], &[]);
        assert_eq!(item.is_pending(), managed, "{item:#?}");
    }
}

#[test]
fn what_was_done_to_a_node_since_it_came_goes_with_it() {
    let command = |item: &str, back: Option<&str>| {
        let guard = CommandGuard::Unless(format!("test {item}"));
        let undo_script = back.map(str::to_owned);
        let key = Command {
            guard,
            run: item.to_owned(),
            undo: undo_script,
            user: None,
            timeout: None,
            surroundings: Surroundings::default(),
        }
        .key();
        Undo { item: item.to_owned(), ..undo("command", &key, "done", "pending") }
    };
    let node = undo("kubeadm", "node", "control-plane 10.0.0.1:6443", "absent");
    let config = |n: u8| format!("text maxPods:{n}");
    // In the reverse of the order in which the runs first touched them.
    let all = [
        command("k8s/the installed kubelet runs", None),
        command("k8s/arguments", Some("put them back")),
        undo("kubeadm_config", "cluster", &config(2), &config(1)),
        command("other/own", Some("put it back")),
        node,
        command("k8s/images", Some("remove them")),
    ];
    let pending = |items: &[Item]| -> Vec<String> {
        items.iter().filter(|i| i.is_pending()).map(|i| i.address.clone()).collect()
    };
    let go = plan(&all, &[], &["kubeadm:node"]);
    assert_eq!(pending(&go), ["other/own", "k8s/node", "k8s/images"]);
    assert!(!go.iter().any(|i| matches!(i.outcome, Outcome::Failed(_) | Outcome::Refused(_))), "{go:#?}");
    // So it is when the node is gone already, and a node that stays keeps all of it.
    let again = plan(&all, &[("node", "absent")], &["kubeadm:node"]);
    assert_eq!(pending(&again), ["other/own", "k8s/images"]);
    assert_eq!(pending(&plan(&all, &[], &[])), ["other/own"]);
}

#[test]
fn an_object_that_cannot_be_looked_at_matters_only_where_something_of_the_runs_is_in_force() {
    let image = |left: &str| undo("container_image", "ctr /run/c.sock k8s.io/a:1", left, "absent");
    let no_ctr = [("ctr /run/c.sock k8s.io/a:1", "! gone")];
    let there = one(image("pinned"), &no_ctr, &[]);
    assert!(
        matches!(&there.outcome, Outcome::Refused(why) if why.ends_with("it cannot be read: gone")),
        "{there:#?}"
    );
    // A rollback has taken it away, and containerd after it.
    assert_eq!(one(image("absent"), &no_ctr, &[]).outcome, Outcome::Unchanged);
    // One that was cut off may not have.
    let cut = Undo { open: Some(State::from_line("pinned")), ..image("absent") };
    assert!(matches!(one(cut, &no_ctr, &[]).outcome, Outcome::Refused(_)));
}

#[test]
fn a_failure_stops_the_rest_of_the_role_and_what_stays_does_not() {
    let host = |key: &str| undo("hostname", key, "name a", "name b");
    let items = plan(&[host("1"), host("2"), host("3")], &[("2", "name c")], &[]);
    assert!(matches!(items[1].outcome, Outcome::Refused(_)), "someone else has changed it");
    assert_eq!(items[2].needs, [0]);
}

#[test]
fn both_ends_of_a_step_that_was_cut_off_count_as_left() {
    let file = |n: u8| format!("file 644 root root 1 {}", format!("{n:02x}").repeat(32));
    let cut = |kind: &str, left: &str, open: &str, before: &str| Undo {
        open: Some(State::from_line(open)),
        ..undo(kind, "x", left, before)
    };
    let refused =
        |undo: Undo, now: &str| matches!(one(undo, &[("x", now)], &[]).outcome, Outcome::Refused(_));
    let path = || cut("path", &file(2), &file(1), "absent");
    for now in [file(1), file(2)] {
        assert_eq!(to(&one(path(), &[("x", &now)], &[])), ["absent"], "{now}");
    }
    assert!(refused(path(), &file(3)) && refused(undo("path", "x", &file(2), "absent"), &file(1)));
    let unit =
        || cut("unit", "unit enabled active d2", "unit disabled inactive -", "unit disabled inactive -");
    assert_eq!(to(&one(unit(), &[("x", "unit enabled inactive -")], &[])), ["unit disabled inactive -"]);
    assert!(refused(unit(), "unit masked inactive -"));
    let package = || cut("package", "absent", "present 1.2 manual -", "absent");
    for now in ["present 1.2 manual -", "config 1.2", "broken half-configured"] {
        assert_eq!(to(&one(package(), &[("x", now)], &[])), ["absent"], "{now}");
    }
    assert!(refused(package(), "present 1.3 manual -"));
    // A step that only sets marks leaves nothing half done: that was somebody else's.
    let marks = cut("package", "present 1.2 manual hold", "present 1.2 manual -", "present 1.2 manual -");
    assert!(refused(marks, "broken half-configured"));
    let folder = || cut("path", "dir 755 www www", "absent", "absent");
    assert_eq!(to(&one(folder(), &[("x", "dir 700 root root")], &[])), ["absent"]);
    assert!(refused(folder(), "dir 777 root root"));
}

/// A script of it failed in the run that is reverted. What the run found comes back, and nobody is asked whether the half of it may go.
#[test]
fn a_package_that_the_run_left_half_done_goes_back_like_any_other() {
    for before in ["absent", "present 1.1 manual -"] {
        let item = one(undo("package", "x", "broken half-configured", before), &[], &[]);
        assert_eq!(to(&item), [before]);
    }
    let other = one(undo("package", "x", "present 1.2 manual -", "absent"), &[("x", "broken unpacked")], &[]);
    assert!(matches!(other.outcome, Outcome::Refused(_)), "{other:?}");
}

#[test]
fn a_unit_that_starts_without_all_its_files_back_has_no_record_of_them() {
    let unit = undo("unit", "demo.service", "unit enabled active d2", "unit enabled active d1");
    let conf = undo("path", "/etc/conf", &format!("file 644 root root 1 {}", "02".repeat(32)), "absent");
    let undos = [unit, conf];
    let whole = plan(&undos, &[], &[]);
    assert_eq!(to(whole.last().unwrap()), ["unit enabled active d1"]);
    let foreign = format!("file 644 root root 1 {}", "03".repeat(32));
    let part = plan(&undos, &[("/etc/conf", &foreign)], &[]);
    assert_eq!(to(part.last().unwrap()), ["unit enabled active -"]);
    // Once is enough, and when the file is back the record is too.
    let after = [("/etc/conf", foreign.as_str()), ("demo.service", "unit enabled active -")];
    assert_eq!(plan(&undos, &after, &[]).last().unwrap().outcome, Outcome::Unchanged);
    let later = plan(&undos, &[("demo.service", "unit enabled active -")], &[]);
    assert_eq!(to(later.last().unwrap()), ["unit enabled active d1"]);
}

#[test]
fn what_a_command_made_goes_with_it_though_it_was_edited_since() {
    let command = |undo: Option<&str>| {
        let guard = CommandGuard::Creates("/srv/f".to_owned());
        let undo = undo.map(str::to_owned);
        Command {
            guard,
            run: "make".to_owned(),
            undo,
            user: None,
            timeout: None,
            surroundings: Surroundings::default(),
        }
        .key()
    };
    let file = |n: u8| format!("file 644 root root 1 {}", format!("{n:02x}").repeat(32));
    let edit = undo("path", "/srv/f", &file(2), &file(1));
    let goes = plan(&[edit.clone(), undo("command", &command(Some("rm")), "done", "pending")], &[], &[]);
    assert_eq!((to(&goes[0]), to(&goes[1])), (vec!["pending"], vec!["absent"]));
    // Without an undo what it did stays, and so does its file.
    let stays = plan(&[edit, undo("command", &command(None), "done", "pending")], &[], &[]);
    assert_eq!(stays.iter().flat_map(to).collect::<Vec<_>>(), [file(1).as_str()]);
}

#[test]
fn packages_are_one_item_and_every_address_is_one_items() {
    let of = |kind: &str, key: &str, left: &str, before: &str, item: &str| Undo {
        item: item.to_owned(),
        ..undo(kind, key, left, before)
    };
    let package = |name: &str, item: &str| of("package", name, "present 1 auto -", "absent", item);
    let items = plan(
        &[
            package("python3-minimal", "a/python"),
            of("hostname", "1", "name a", "name b", "a/twice"),
            of("hostname", "2", "name a", "name b", "a/between"),
            of("hostname", "3", "name a", "name b", "a/twice"),
            package("ufw", "b/packages"),
            package("libpython", "a/ufw"),
        ],
        &[],
        &[],
    );
    let all: Vec<&str> = items.iter().map(|i| i.address.as_str()).collect();
    assert_eq!(all, ["a/twice", "a/between", "a/twice (2)", "a/packages"]);
    assert_eq!(items.last().unwrap().changes().len(), 3);
}

/// A run made the file through a link: its directory goes with it, and stays where the file stays.
#[test]
fn a_directory_goes_with_what_a_run_made_in_it_through_a_link() {
    let file = "file 644 root root 2 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";
    let undos = [
        undo("path", "/opt/wc/app.conf", file, "absent"),
        undo("path", "/opt/wc", "link w2", "absent"),
        undo("path", "/opt/w2", "dir 755 root root", "absent"),
    ];
    let plan = |held: &str, now: &str| {
        let mut known = Knowledge::default();
        for undo in &undos {
            let state =
                if undo.object.key.ends_with("conf") { State::from_line(now) } else { undo.left.clone() };
            known.learn(Probe::Object(undo.object.clone()), Answer::Object(Observation::new(state, None)));
        }
        let stdout = format!("{held}\n/opt/wc /opt/w2\n");
        let answer = converge_resource::RunAnswer { status: 0, stdout, stderr: String::new() };
        known.learn(directories::probe(&undos).unwrap(), Answer::Run(answer));
        let groups = arrange(undos.to_vec(), &mut known, &[]);
        let all = groups.into_iter().flat_map(|group| group.members);
        all.filter(|one| one.verdict.stays()).map(|one| one.undo.object.key).collect::<Vec<_>>()
    };
    assert!(plan("/opt/w2/app.conf", file).is_empty());
    assert_eq!(plan("/opt/w2/app.conf\n/opt/w2/theirs", file), ["/opt/w2"]);
    let other = file.replace("87", "88");
    assert!(plan("/opt/w2/app.conf", &other).contains(&"/opt/w2".to_owned()));
}

#[test]
fn a_content_that_is_missing_or_damaged_is_lost_and_one_in_place_is_not_needed() {
    use converge_host::records::blob_path;
    use converge_resource::Digest;
    let state = |content: &str| {
        let digest = Digest::of(content.as_bytes());
        format!("file 0644 root root {} {digest}", content.len())
    };
    let of = |path: &str, before: &str| undo("path", path, &state("new"), &state(before));
    let mut undos = vec![of("/whole", "a"), of("/damaged", "b"), of("/missing", "c"), of("/in-place", "d")];
    let probe = saved::probe(&undos).unwrap();
    let bad = |named: &str, why: &str| format!("{}: FAILED{why}\n", blob_path(&Digest::of(named.as_bytes())));
    let stdout = bad("b", "") + &bad("c", " open or read") + &bad("d", "");
    let mut known = Knowledge::default();
    let answer = converge_resource::RunAnswer { status: 0, stdout, stderr: String::new() };
    known.learn(probe.clone(), Answer::Run(answer));
    for undo in &undos {
        let now = if undo.object.key == "/in-place" { &undo.before } else { &undo.left };
        let observed = Observation::new(now.clone(), None);
        known.learn(Probe::Object(undo.object.clone()), Answer::Object(observed));
    }
    saved::mark_missing(&mut undos, &probe, &known);
    let lost: Vec<bool> = undos.iter().map(|undo| undo.lost.is_some()).collect();
    assert_eq!(lost, [false, true, true, false]);
    assert!(saved::probe(&[]).is_none());
}

/// A name and a number of one account mean one owner, in the states of the records and in the order of a rollback.
#[test]
fn a_file_is_the_runs_own_under_the_name_and_the_number_of_its_owner() {
    use crate::revert::accounts::{AccountChanges, Accounts};
    let file = |owner: &str, group: &str, n: u8| {
        format!("file 644 {owner} {group} 1 {}", format!("{n:02x}").repeat(32))
    };
    let of_path = |left: &str, before: &str| undo("path", "/srv/f", left, before);
    let user = |uid: &str| format!("user {uid} u \\ /home/u /bin/sh locked");
    // By the numbers of accounts in the records, an account that exists now, and the found state.
    let judged = |undo: &Undo, numbers: &[(&str, &str)], account: Option<(&str, &str)>, now: &str| {
        let mut known = Knowledge::default();
        let mut learn = |kind: &str, key: &str, line: &str| {
            let observed = Observation::new(State::from_line(line), None);
            known.learn(Probe::Object(ObjectId::new(kind, key)), Answer::Object(observed));
        };
        learn("path", "/srv/f", now);
        if let Some((name, line)) = account {
            learn("user", name, line);
        }
        let states: Vec<_> =
            numbers.iter().map(|(key, line)| (ObjectId::new("user", *key), State::from_line(line))).collect();
        let mut undos = vec![undo.clone()];
        Accounts::of(states.iter().map(|(o, s)| (o, s))).translate(&mut undos, &known);
        judge(&undos[0], &mut known, &[])
    };
    let back = |verdict: Verdict| match verdict {
        Verdict::Back(change) => change.to.line().to_owned(),
        other => format!("{other:?}"),
    };
    let made = of_path(&file("77", "root", 1), "absent");
    // It got a name since, by the records or by somebody; another number is another owner.
    assert_eq!(back(judged(&made, &[], Some(("u", &user("77"))), &file("u", "root", 1))), "absent");
    assert!(matches!(judged(&made, &[], Some(("u", &user("78"))), &file("u", "root", 1)), Verdict::Stays(_)));
    assert!(matches!(judged(&made, &[], None, &file("u", "root", 1)), Verdict::Stays(_)));
    // It lost its name; the records know the number that it had.
    let named = of_path(&file("u", "root", 2), &file("u", "root", 1));
    assert_eq!(
        back(judged(&named, &[("u", &user("77"))], None, &file("77", "root", 2))),
        file("77", "root", 1)
    );
    assert!(matches!(judged(&named, &[("u", &user("77"))], None, &file("78", "root", 2)), Verdict::Stays(_)));
    assert!(matches!(judged(&named, &[], None, &file("77", "root", 2)), Verdict::Stays(_)));
    // Its number is another account's now.
    let other = Some(("v", "user 77 v \\ /home/v /bin/sh locked"));
    assert_eq!(
        back(judged(&named, &[("u", &user("77"))], other, &file("v", "root", 2))),
        file("v", "root", 1)
    );
    // Before, it was the same under another word: nothing is to be done.
    let same = of_path(&file("root", "root", 1), &file("77", "root", 1));
    assert_eq!(judged(&same, &[], Some(("u", &user("77"))), &file("u", "root", 1)), Verdict::Same);
    // The account goes before the file comes back: its number is what the host shows at that turn.
    let account = undo("user", "u", &user("77"), "absent");
    let change = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => (change.from.line().to_owned(), change.to.line().to_owned()),
        other => panic!("{other:?}"),
    };
    let mut known = Knowledge::default();
    for (object, line) in [(&account.object, user("77")), (&named.object, file("u", "root", 2))] {
        known.learn(
            Probe::Object(object.clone()),
            Answer::Object(Observation::new(State::from_line(&line), None)),
        );
    }
    let mut verdicts = vec![judge(&account, &mut known, &[]), judge(&named, &mut known, &[])];
    accounts::follow(&[vec![0], vec![1]], &mut verdicts, AccountChanges::default());
    assert_eq!(change(&verdicts[1]), (file("77", "root", 2), file("77", "root", 1)));
    let mut verdicts = vec![judge(&account, &mut known, &[]), judge(&named, &mut known, &[])];
    accounts::follow(&[vec![1], vec![0]], &mut verdicts, AccountChanges::default());
    assert_eq!(change(&verdicts[1]), (file("u", "root", 2), file("u", "root", 1)));
}

/// A rollback has given a value of somebody's back: it is nobody's by the field managers, and no run left it.
#[test]
fn an_object_that_shows_values_of_others_is_not_deleted_without_leave() {
    let map = |a: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n",
            "managedFields": [{"manager": "converge", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}]},
            "data": {"a": a, "b": "2"}})
    };
    let (key, id) = ("v1/ConfigMap/n/x", "k8s:v1/ConfigMap/n/x");
    let (left, was) = K8sState::of(&map("1"));
    let left = State::from(left);
    let verdict = |live: &Value, allowed: &[&str], change: &dyn Fn(&mut Undo)| {
        let mut undo = Undo { left: left.clone(), ..undo("k8s", key, "absent", "absent") };
        change(&mut undo);
        let (state, content) = K8sState::of(live);
        let mut known = Knowledge::default();
        known.learn_content(was.clone());
        known.learn_content(content);
        known.learn(Probe::Object(undo.object.clone()), Answer::Object(Observation::new(state.into(), None)));
        known.learn(owners_probe(&undo.object).unwrap(), Answer::Api(json!({"object": live, "whose": null})));
        let allowed: Vec<String> = allowed.iter().map(|id| (*id).to_owned()).collect();
        judge(&undo, &mut known, &allowed)
    };
    let none = |_: &mut Undo| {};
    assert!(matches!(verdict(&map("1"), &[], &none), Verdict::Back(_)));
    let Verdict::Stays(why) = verdict(&map("9"), &[], &none) else { panic!("it is deleted") };
    assert_eq!(
        why,
        format!(
            "it was changed by someone else since: .data.a (left as \"1\", found \"9\"): `--allow-destroy {id}` allows it"
        )
    );
    assert!(matches!(verdict(&map("9"), &[id], &none), Verdict::Back(_)));
    let hidden = |undo: &mut Undo| undo.sensitive = true;
    assert!(matches!(verdict(&map("9"), &[], &hidden), Verdict::Stays(why) if !why.contains('9')));
    // For a prune the rollback is the last run, and left it so.
    let rolled_back = |undo: &mut Undo| {
        let their: State = K8sState::of(&map("9")).0.into();
        undo.between = vec![(undo.left.clone(), their.clone())];
        undo.left = their;
    };
    assert!(matches!(verdict(&map("9"), &[], &rolled_back), Verdict::Stays(why) if why.contains(".data.a")));
    // The step that made it so was cut off: that value may be the runs' own.
    let cut_off = |undo: &mut Undo| undo.open = Some(K8sState::of(&map("9")).0.into());
    assert!(matches!(verdict(&map("9"), &[], &cut_off), Verdict::Back(_)));
}
