use super::*;
use converge_objects::{Command, CommandGuard, Surroundings};
use proptest::prelude::*;

/// An object in a test: kind, key, from, to, item, and who changed it first.
pub(super) type RecordedRow = (&'static str, String, String, String, String, Option<String>);

pub(super) struct FakeHost {
    reverts: Vec<(ObjectId, State, State, String, Option<String>)>,
    /// The paths to which links lead, by those of the objects.
    real: BTreeMap<String, String>,
}

impl FakeHost {
    pub(super) fn new(recorded: Vec<RecordedRow>) -> Self {
        let one = |(kind, key, from, to, item, moved): RecordedRow| {
            (ObjectId::new(kind, key), State::from_line(&from), State::from_line(&to), item, moved)
        };
        Self { reverts: recorded.into_iter().map(one).collect(), real: BTreeMap::new() }
    }

    pub(super) fn reverts(&self) -> Vec<Revert<'_>> {
        self.reverts
            .iter()
            .map(|(object, from, to, item, moved)| Revert {
                object,
                from,
                to,
                item,
                run: "run",
                moved_by: moved.as_deref(),
                lies_in: &[],
                real: self.real.get(&object.key).map(String::as_str),
                pods: Pods::default(),
                brought_by: None,
                is_elsewhere: false,
            })
            .collect()
    }

    /// The keys of the items in their order.
    fn order(&self) -> Vec<Vec<String>> {
        let reverts = self.reverts();
        let key = |at: &usize| self.reverts[*at].0.key.clone();
        arrange(&reverts).iter().map(|items| items.iter().map(key).collect()).collect()
    }

    pub(super) fn flat(&self) -> Vec<String> {
        self.order().concat()
    }
}

pub(super) fn recorded(kind: &'static str, key: &str, from: &str, to: &str, item: &str) -> RecordedRow {
    (kind, key.to_owned(), from.to_owned(), to.to_owned(), item.to_owned(), None)
}

pub(super) fn file(n: u8) -> String {
    format!("file 644 root root 1 {}", format!("{n:02x}").repeat(32))
}

pub(super) const DIR: &str = "dir 755 root root";

/// A release that waits for a node which takes pods again is uninstalled before its namespace takes it along.
#[test]
fn a_namespace_goes_after_the_release_in_it_that_waits_for_a_node() {
    let host = FakeHost::new(vec![
        recorded("release", "apps/web", "release deployed c-1 d", "absent", "r/web"),
        recorded("k8s", "v1/Namespace/apps", "object a", "absent", "r/space"),
        recorded("k8s", "v1/Node/n1", "object b", "object c", "r/node"),
    ]);
    let mut reverts = host.reverts();
    reverts[2].pods = Pods::Admitted;
    let order = arrange(&reverts).concat();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn lines_of_mounts_go_before_an_unmount_and_come_after_a_mount() {
    let fstab = |item| recorded("path", "/etc/fstab", &file(2), &file(1), item);
    let mount = "mount tmpfs tmpfs rw -";
    for (of_lines, of_mount) in [("r/a", "r/a"), ("r/lines", "r/mount")] {
        let goes =
            FakeHost::new(vec![recorded("mount", "/srv/a", mount, "absent", of_mount), fstab(of_lines)]);
        assert_eq!(goes.flat(), ["/etc/fstab", "/srv/a"]);
        let comes =
            FakeHost::new(vec![fstab(of_lines), recorded("mount", "/srv/a", "absent", mount, of_mount)]);
        assert_eq!(comes.flat(), ["/srv/a", "/etc/fstab"]);
    }
}

#[test]
fn a_directory_that_is_mounted_elsewhere_goes_after_the_unmount_and_comes_before_the_mount() {
    let (dir, mount) = ("dir 755 root root", "mount /dev/sda1 ext4 ro /srv/data/in");
    let fstab = |item| recorded("path", "/etc/fstab", &file(2), &file(1), item);
    let goes = FakeHost::new(vec![
        recorded("path", "/srv/data", dir, "absent", "r/data"),
        fstab("r/lines"),
        recorded("mount", "/mnt", mount, "absent", "r/mount"),
    ]);
    assert_eq!(goes.flat(), ["/etc/fstab", "/mnt", "/srv/data"]);
    let comes = FakeHost::new(vec![
        recorded("mount", "/mnt", "absent", mount, "r/mount"),
        fstab("r/lines"),
        recorded("path", "/srv/data", "absent", dir, "r/data"),
    ]);
    assert_eq!(comes.flat(), ["/srv/data", "/mnt", "/etc/fstab"]);
}

#[test]
fn a_unit_restarts_after_the_files_of_its_role_came_back_and_stops_before_they_go() {
    let changed = |key: &str, item: &str| recorded("path", key, &file(2), &file(1), item);
    let host = FakeHost::new(vec![
        recorded("unit", "demo.service", "unit enabled active d2", "unit enabled active d1", "r/svc"),
        changed("/etc/systemd/system/demo.service", "r/svc"),
        changed("/usr/local/bin/demo", "r/program"),
        changed("/etc/other", "other/file"),
    ]);
    assert_eq!(
        host.order(),
        [
            vec!["/usr/local/bin/demo"],
            vec!["/etc/systemd/system/demo.service", "demo.service"],
            vec!["/etc/other"]
        ]
    );
    // The record goes, and what it ran with before comes back: a restart too.
    let first = FakeHost::new(vec![
        recorded("unit", "nginx.service", "unit enabled active d1", "unit enabled active -", "r/svc"),
        changed("/etc/nginx/nginx.conf", "r/conf"),
    ]);
    assert_eq!(first.flat(), ["/etc/nginx/nginx.conf", "nginx.service"]);
    let gone = |key: &str, item: &str| recorded("path", key, &file(2), "absent", item);
    // The later run made the second file: it stands first, and the unit stops before it goes nevertheless.
    let stops = FakeHost::new(vec![
        gone("/etc/demo/late", "r/late"),
        recorded("unit", "demo.service", "unit enabled active d2", "absent", "r/svc"),
        gone("/etc/systemd/system/demo.service", "r/svc"),
        gone("/usr/local/bin/demo", "r/program"),
    ]);
    assert_eq!(stops.flat().first().map(String::as_str), Some("demo.service"));
}

/// A role that has made a node: its units, its packages, an image of containerd, and files that containerd and the kubelet run with.
fn node(image: (&str, &str), unit: (&str, &str)) -> Vec<RecordedRow> {
    let package = if unit.1 == "absent" {
        ("present 1 auto -", "absent")
    } else {
        ("present 2 auto -", "present 1 auto -")
    };
    vec![
        recorded(
            "container_image",
            "ctr /run/containerd/containerd.sock k8s.io/a:1",
            image.0,
            image.1,
            "r/images",
        ),
        recorded("unit", "kubelet.service", unit.0, unit.1, "r/kubelet"),
        recorded("path", "/var/lib/kubelet/config.yaml", &file(2), &file(1), "r/kubelet"),
        recorded("unit", "containerd.service", unit.0, unit.1, "r/containerd"),
        recorded("path", "/etc/containerd/config.toml", &file(2), &file(1), "r/config"),
        recorded("package", "containerd", package.0, package.1, "r/package"),
        recorded("package", "kubelet", package.0, package.1, "r/package"),
    ]
}

#[test]
fn an_image_goes_while_containerd_runs_and_after_what_may_use_it() {
    let order = FakeHost::new(node(("pinned", "absent"), ("unit enabled active d2", "absent"))).flat();
    let at = |key: &str| order.iter().position(|k| k.ends_with(key)).expect("all are in it");
    // A restored file comes after the transaction of the packages.
    let expected = ["kubelet.service", "k8s.io/a:1", "containerd.service", "/etc/containerd/config.toml"];
    let places: Vec<usize> = expected.iter().map(|key| at(key)).collect();
    assert!(places.is_sorted(), "{order:?}");
    // The unit of another containerd does not matter; an image that stays does not hold containerd.
    let mut recorded = node(("pinned", "absent"), ("unit enabled active d2", "absent"));
    "ctr /run/k3s/containerd/containerd.sock k8s.io/a:1".clone_into(&mut recorded[0].1);
    let order = FakeHost::new(recorded).flat();
    let at = |key: &str| order.iter().position(|k| k.ends_with(key));
    assert!(at("containerd.service") < at("k8s.io/a:1"), "{order:?}");
    let host = FakeHost::new(node(("pinned", "absent"), ("unit enabled active d2", "absent")));
    assert_eq!(held_back(&host.reverts(), &BTreeSet::from([0])), BTreeMap::new());
    // One that comes back needs it; without the unit it stays away.
    let comes =
        FakeHost::new(node(("absent", "pinned"), ("unit enabled inactive -", "unit enabled active d1")));
    assert_eq!(held_back(&comes.reverts(), &BTreeSet::from([3])), BTreeMap::from([(0, 3)]));
}

/// The key of a command that makes /srv/f.
fn command(user: Option<&str>) -> String {
    Command {
        guard: CommandGuard::Creates("/srv/f".to_owned()),
        run: "make".to_owned(),
        undo: Some("unmake".to_owned()),
        user: user.map(str::to_owned),
        timeout: None,
        surroundings: Surroundings::default(),
    }
    .key()
}

#[test]
fn a_unit_that_started_after_a_command_stops_before_it_is_undone() {
    let key = command(None);
    let host = FakeHost::new(vec![
        recorded("path", "/etc/systemd/system/check.timer", &file(1), "absent", "r/check"),
        recorded("unit", "check.timer", "unit enabled active -", "absent", "r/check"),
        recorded("path", "/usr/sbin/check", &file(1), "absent", "r/program"),
        recorded("command", &key, "done", "pending", "r/command"),
    ]);
    assert_eq!(host.flat().first().map(String::as_str), Some("check.timer"));
    assert!(host.flat().contains(&key));
}

#[test]
fn a_command_is_undone_before_what_it_made_is_settled_and_while_its_unit_stops_after_it() {
    let key = command(Some("bob"));
    let mut other = recorded("path", "/srv/other", &file(1), "absent", "r/edit");
    other.5 = Some("r/command".to_owned());
    let host = FakeHost::new(vec![
        recorded("path", "/srv/f", &file(2), "absent", "r/edit"),
        other,
        recorded("user", "bob", "user 1 bob \\ / / locked", "absent", "r/user"),
        recorded("command", &key, "done", "pending", "r/command"),
    ]);
    assert_eq!(host.flat(), [key.as_str(), "/srv/f", "/srv/other", "bob"]);
}

#[test]
fn all_packages_are_one_item_between_what_runs_of_them_and_what_comes_back() {
    let there = "present 1 auto -";
    let host = FakeHost::new(vec![
        recorded("package", "python3-minimal", there, "absent", "r/python"),
        recorded("path", "/etc/ufw", DIR, "absent", "r/folder"),
        recorded("package", "ufw", there, "absent", "r/ufw"),
        recorded("unit", "ufw.service", "unit enabled active -", "unit enabled inactive -", "r/unit"),
        recorded("path", "/etc/conf", &file(2), &file(1), "r/conf"),
        recorded("user", "u", "user 1 u \\ / / locked", "absent", "r/user"),
        recorded("package", "tree", there, "absent", "r/tree"),
        recorded("path", "/etc/ufw/own", &file(2), "absent", "r/own"),
    ]);
    let order = host.order();
    let packages = vec!["python3-minimal", "ufw", "tree"];
    let at = order.iter().position(|item| *item == packages).expect("one item");
    let before: Vec<String> = order[..at].concat();
    assert_eq!(before, ["ufw.service", "/etc/ufw/own"]);
    assert_eq!(order[at + 1..].concat(), ["/etc/ufw", "/etc/conf", "u"]);
}

#[test]
fn a_node_comes_first_in_its_role_and_checks_come_last() {
    let of = |kind: &'static str, key: &str, item: &str| recorded(kind, key, "name a", "name b", item);
    let host = FakeHost::new(vec![
        of("workload", "pods", "a/pods"),
        of("hostname", "b1", "b/1"),
        of("hostname", "a1", "a/1"),
        of("hostname", "b2", "b/2"),
        of("hostname", "a2", "a/2"),
        of("kubeadm", "node", "b/node"),
        of("hostname", "b3", "b/3"),
    ]);
    let order = host.flat();
    let at = |key: &str| order.iter().position(|k| k == key);
    assert!(["b1", "b2", "b3"].iter().all(|key| at("node") < at(key)), "{order:?}");
    assert!(["a1", "a2"].iter().all(|key| at(key) < at("pods")), "{order:?}");
    assert!(at("b1") < at("b2") && at("b2") < at("b3") && at("a1") < at("a2"), "{order:?}");
}

#[test]
fn what_something_needs_that_stays_stays_too() {
    let host = FakeHost::new(vec![
        recorded("path", "/srv/d/x", &file(1), "absent", "r/x"),
        recorded("path", "/srv/d", DIR, "absent", "r/d"),
        recorded("path", "/srv", DIR, "absent", "r/srv"),
        recorded("path", "/opt", "absent", DIR, "r/opt"),
        recorded("path", "/opt/y", "absent", &file(1), "r/y"),
        recorded("path", "/etc/z", &file(1), "absent", "r/z"),
    ]);
    let reverts = host.reverts();
    assert_eq!(held_back(&reverts, &BTreeSet::from([0])), BTreeMap::from([(1, 0), (2, 0)]));
    assert_eq!(held_back(&reverts, &BTreeSet::from([3])), BTreeMap::from([(4, 3)]));
    assert_eq!(held_back(&reverts, &BTreeSet::from([5])), BTreeMap::new());
}

#[test]
fn what_waits_for_each_other_keeps_the_order_of_the_runs() {
    let host = FakeHost::new(vec![
        recorded("path", "/a", "absent", DIR, "r/a"),
        recorded("path", "/b", "absent", DIR, "r/b"),
    ]);
    let reverts = host.reverts();
    let both = [Edge { first: 0, then: 1, needed: false }, Edge { first: 1, then: 0, needed: false }];
    assert_eq!(Schedule::new(&reverts, &both).run(), [[0], [1]]);
}

/// Paths of three letters, each with a state before and after, in any order: what is in a directory is there only with it.
fn tree() -> impl Strategy<Value = Vec<RecordedRow>> {
    let keys = ["/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e", "/f", "/f/g"];
    let states = proptest::collection::vec((0u8..3, 0u8..3), keys.len());
    (states, Just(keys.to_vec()).prop_shuffle(), proptest::collection::vec(0u8..3, keys.len())).prop_map(
        move |(states, order, items)| {
            let mut ends: BTreeMap<&str, (u8, u8)> = BTreeMap::new();
            for (key, (mut from, mut to)) in keys.iter().zip(states) {
                // 0: not there, 1: a directory, 2: a file. Only a directory holds something.
                let outer = key.rsplit_once('/').map(|(outer, _)| outer).filter(|outer| !outer.is_empty());
                let (was, is) = outer.map_or((1, 1), |outer| ends[outer]);
                from = if was == 1 { from } else { 0 };
                to = if is == 1 { to } else { 0 };
                ends.insert(key, (from, to));
            }
            let line = |state: u8| match state {
                0 => "absent".to_owned(),
                1 => DIR.to_owned(),
                _ => file(1),
            };
            let one = |(key, item): (&&str, u8)| {
                let (from, to) = ends[*key];
                recorded("path", key, &line(from), &line(to), &format!("r{item}/i"))
            };
            order.iter().zip(items).map(one).collect()
        },
    )
}

proptest! {
    /// In any order of the runs: an image is reverted while containerd runs, whether it stops, starts, restarts or goes with its package.
    #[test]
    fn an_image_is_reverted_while_containerd_runs(
        order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle(),
        image in (0usize..3, 0usize..3),
        unit in 0usize..4,
        roles in proptest::collection::vec(0u8..2, 7),
    ) {
        let lines = ["absent", "present", "pinned"];
        let units = [
            ("unit enabled active d2", "absent"),
            ("unit enabled active d2", "unit enabled inactive -"),
            ("unit enabled inactive -", "unit enabled active d1"),
            ("unit enabled active d2", "unit enabled active d1"),
        ];
        let all = node((lines[image.0], lines[image.1]), units[unit]);
        let recorded = order.iter().map(|at| {
            let mut recorded = all[*at].clone();
            // Units of other roles count too; the package is that of the image's role.
            if recorded.0 == "unit" || recorded.0 == "path" {
                recorded.4 = recorded.4.replacen('r', &format!("r{}", roles[*at]), 1);
            }
            recorded
        });
        let host = FakeHost::new(recorded.collect());
        let mut runs = units[unit].0.contains(" active ");
        let mut there = true;
        for key in host.flat() {
            if key == "containerd.service" {
                runs = units[unit].1.contains(" active ");
            }
            there &= key != "containerd" || units[unit].1 != "absent";
            let changes = image.0 != image.1 && key.ends_with("k8s.io/a:1");
            prop_assert!(!changes || (runs && there), "{:?}", host.flat());
        }
    }

    /// The same where links lead to them: a directory goes after what lies in it under any name.
    #[test]
    fn directories_go_after_what_lies_in_them_through_links(
        turns in proptest::collection::vec((0u8..9, any::<bool>()), 1..6),
    ) {
        // Each lies in the directory before it.
        let mut recorded_of: Vec<(u8, RecordedRow)> = Vec::new();
        let mut real = BTreeMap::new();
        for (depth, (turn, through)) in turns.into_iter().enumerate() {
            let path = "/d".repeat(depth + 1);
            let key = if through { format!("/link{depth}/d") } else { path.clone() };
            real.insert(key.clone(), path);
            recorded_of.push((turn, recorded("path", &key, DIR, "absent", &format!("r/{depth}"))));
        }
        recorded_of.sort_by_key(|(turn, _)| *turn);
        let recorded_of = recorded_of.into_iter().map(|(_, recorded)| recorded).collect();
        let host = FakeHost { real: real.clone(), ..FakeHost::new(recorded_of) };
        let order = host.flat();
        prop_assert!(order.iter().map(|key| real[key].len()).is_sorted_by(|a, b| a > b), "{:?}", order);
    }

    /// In any order of the runs: every step finds the directory that it needs, and no directory goes before it is empty.
    #[test]
    fn directories_hold_their_contents_in_both_directions(tree in tree()) {
        let host = FakeHost::new(tree);
        let reverts = host.reverts();
        let mut now: BTreeMap<String, State> =
            reverts.iter().map(|r| (r.object.key.clone(), r.from.clone())).collect();
        let order: Vec<usize> = arrange(&reverts).concat();
        let all: BTreeSet<usize> = order.iter().copied().collect();
        prop_assert_eq!(all.len(), reverts.len());
        for at in order {
            let Revert { object, from, to, .. } = reverts[at];
            let key = &object.key;
            if from == to {
                continue;
            }
            if !to.is_absent() && let Some((outer, _)) = key.rsplit_once('/').filter(|(o, _)| !o.is_empty()) {
                prop_assert!(is_dir(&now[outer]), "{} comes and {} is not there", key, outer);
            }
            if is_dir(from) && !is_dir(to) {
                let inner = format!("{key}/");
                let left = now.iter().find(|(k, s)| k.starts_with(&inner) && !s.is_absent());
                prop_assert!(left.is_none(), "{} goes and still holds {:?}", key, left);
            }
            now.insert(key.clone(), to.clone());
        }
    }

    /// Every edge holds in the order, where they do not run in a circle; and everything comes exactly once.
    #[test]
    fn the_order_keeps_every_edge(
        turns in proptest::collection::vec((0usize..6, 0usize..6, 0u8..4), 1..12),
        edges in proptest::collection::vec((0usize..12, 0usize..12), 0..20),
    ) {
        let recorded = turns.iter().enumerate().map(|(n, (role, item, kind))| {
            let kind = if *kind == 0 { "package" } else { "hostname" };
            recorded(kind, &format!("k{n}"), "name a", "name b", &format!("r{role}/i{item}"))
        });
        let host = FakeHost::new(recorded.collect());
        let reverts = host.reverts();
        // Only forward: no circle. Packages are one, so an edge of theirs may close one and is left out.
        let hold = |at: usize| reverts.get(at).is_some_and(|r| r.object.kind != "package");
        let edges: Vec<Edge> = edges
            .into_iter()
            .filter(|(first, then)| first > then && hold(*first) && hold(*then))
            .map(|(first, then)| Edge { first, then, needed: false })
            .collect();
        let order = Schedule::new(&reverts, &edges).run().concat();
        let place = |at: usize| order.iter().position(|o| *o == at);
        for edge in &edges {
            prop_assert!(place(edge.first) < place(edge.then), "{:?} in {:?}", edge, order);
        }
        let all: BTreeSet<usize> = order.iter().copied().collect();
        prop_assert_eq!((all.len(), order.len()), (reverts.len(), reverts.len()));
        let packages: Vec<usize> = order.iter().copied().filter(|at| !hold(*at)).collect();
        let first = packages.first().and_then(|at| place(*at)).unwrap_or_default();
        prop_assert!(packages.iter().enumerate().all(|(n, at)| place(*at) == Some(first + n)), "packages apart");
    }
}

/// A command of one item has led a link from A to B, the next run's from B to C: only that one is still done.
#[test]
fn what_lies_behind_a_link_that_commands_led_on_goes_back_after_the_undo_of_the_newest() {
    let (newest, oldest) = (command(None), command(Some("other")));
    let link = |from: &str, to: &str| {
        let mut link = recorded(
            "path",
            "/srv/l",
            &format!("link {from} root root"),
            &format!("link {to} root root"),
            "r/c",
        );
        link.5 = Some("r/c".to_owned());
        link
    };
    let inside = |n: u8| recorded("path", "/srv/l/x", &file(n + 1), &file(n), "r/edit");
    let host = FakeHost::new(vec![
        inside(5),
        link("/C", "/B"),
        recorded("command", &newest, "done", "pending", "r/c"),
        inside(3),
        link("/B", "/A"),
        recorded("command", &oldest, "pending", "pending", "r/c"),
        inside(1),
    ]);
    assert_eq!(
        host.flat().iter().filter(|key| **key != oldest).collect::<Vec<_>>(),
        ["/srv/l/x", &newest, "/srv/l", "/srv/l/x", "/srv/l", "/srv/l/x"]
    );
}
