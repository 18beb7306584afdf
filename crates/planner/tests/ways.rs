//! The plan refuses a path to which the host will not go when its turn comes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

use converge_planner::{Knowledge, VirtualHost};
use converge_resource::{Answer, Change, ObjectId, Observation, Probe, State, Stop, View};

fn path(p: &str) -> ObjectId {
    ObjectId::new("path", p)
}

/// Lines `PATH STATE`; an answer through links has the real name behind the path: `PATH=REAL STATE`.
fn host(lines: &[&str]) -> Knowledge {
    let mut known = Knowledge::default();
    for line in lines {
        let (name, state) = line.split_once(' ').unwrap();
        let (name, real) = match name.split_once('=') {
            Some((name, real)) => (name, Some(real.to_owned())),
            None => (name, None),
        };
        let state = if state.starts_with('!') {
            Answer::Failed(state.to_owned())
        } else {
            Answer::Object(Observation { real, ..Observation::new(State::from_line(state), None) })
        };
        known.learn(Probe::Object(path(name)), state);
    }
    known
}

/// The answer of the view about a path after these changes: its line, or the reason why not.
fn after(known: &Knowledge, changes: &[(&str, &str)], target: &ObjectId) -> String {
    let mut host = VirtualHost::new(known);
    for (name, to) in changes {
        let from = host.observed(&path(name)).unwrap().state;
        let change = Change { object: host.one(&path(name)), from, to: State::from_line(to) };
        host.set(change.object.clone(), change.to.clone());
        host.note_change("r/earlier", &[change]);
    }
    match host.observed(target) {
        Ok(found) => found.state.line().to_owned(),
        Err(Stop::Invalid { message, help, .. }) => format!("{message}. {}", help.unwrap()),
        Err(Stop::Deferred(_)) => "deferred".to_owned(),
        Err(Stop::Ask(probes)) => format!("asks {probes:?}"),
        Err(other) => panic!("{other:?}"),
    }
}

const HOST: &[&str] = &[
    "/srv dir 755 root root",
    "/srv/app dir 755 root root",
    "/srv/app/sub dir 755 root root",
    "/srv/app/sub/file absent",
    "/srv/lnk link /srv/app/sub",
    "/srv/lnk/file=/srv/app/sub/file absent",
    "/home dir 755 root root",
    "/home/bob dir 700 bob bob",
    "/home/bob/out absent",
    "/home/bob/app absent",
    "/home/bob/app/file absent",
];

#[test]
fn below_a_directory_that_the_run_gives_away_only_its_owners_directories_are_entered() {
    let known = host(HOST);
    let target = path("/srv/app/sub/file");
    let crossed = "/srv/app/sub will belong to root and lies in a directory of bob";
    let given = ("/srv/app", "dir 755 bob bob");
    assert!(after(&known, &[given], &target).starts_with(crossed));
    assert!(after(&known, &[given], &path("/srv/lnk/file")).starts_with(crossed), "through a link");
    assert!(after(&known, &[given], &ObjectId::new("git", "/srv/app/sub/file")).starts_with(crossed));
    // The file beside it, and one of his own, are reached; so is all of it where he is given all, or nothing.
    assert_eq!(after(&known, &[given], &path("/srv/app/sub")), "dir 755 root root");
    assert_eq!(after(&known, &[("/srv/app/sub", "dir 755 bob bob"), given], &target), "absent");
    assert_eq!(after(&known, &[("/srv/app", "dir 750 root root")], &target), "absent");
    // Where all may write, root enters any directory.
    assert_eq!(after(&known, &[("/srv/app", "dir 1777 root root")], &target), "absent");
}

#[test]
fn a_directory_that_the_run_makes_in_a_users_is_entered_as_his_own() {
    let known = host(HOST);
    let target = path("/home/bob/app/file");
    let made = after(&known, &[("/home/bob/app", "dir 755 root root")], &target);
    assert!(made.starts_with("/home/bob/app will belong to root and lies in a directory of bob"), "{made}");
    assert!(made.contains("owner: bob}"), "{made}");
    assert_eq!(after(&known, &[("/home/bob/app", "dir 755 bob bob")], &target), "absent");
}

#[test]
fn a_link_that_the_run_makes_is_followed_only_where_root_alone_can_make_one() {
    let known = host(HOST);
    let out = after(&known, &[("/home/bob/out", "link /srv/app/sub")], &path("/home/bob/out/file"));
    assert!(
        out.starts_with("/home/bob/out is a link below /home/bob, to which others than root may write"),
        "{out}"
    );
    let open = ("/srv/app", "dir 777 root root");
    let sub = ("/srv/app/sub", "link /srv");
    let target = path("/srv/app/sub/file");
    let reply = after(&known, &[sub, open], &target);
    assert!(reply.starts_with("/srv/app/sub is a link below /srv/app"), "{reply}");
}

/// A directory that the run corrects first is no reason to refuse, and one answer more is enough.
#[test]
fn what_is_corrected_first_is_waited_for_and_all_above_is_asked_for_at_once() {
    let mut lines = HOST.to_vec();
    lines.extend(["/home/bob/roots dir 755 root root", "/home/bob/roots/file ! roots belongs to root"]);
    let known = host(&lines);
    let target = path("/home/bob/roots/file");
    assert_eq!(after(&known, &[("/home/bob", "dir 700 root root")], &target), "deferred");
    let crossed = after(&known, &[("/home/bob", "dir 755 bob bob")], &target);
    assert!(crossed.starts_with("/home/bob/roots will belong to root"), "{crossed}");
    let known = host(&["/srv/app dir 755 root root", "/srv/app/a/b/file absent"]);
    let asked = after(&known, &[("/srv/app", "dir 755 bob bob")], &path("/srv/app/a/b/file"));
    for name in ["/srv", "/srv/app/a", "/srv/app/a/b"] {
        assert!(asked.contains(&format!("\"{name}\"")), "{asked}");
    }
}

/// The state that was read is that of the file behind the link.
#[test]
fn below_a_link_that_the_run_replaces_or_leads_elsewhere_a_path_is_another_one() {
    let read = "dir 700 root root";
    let known = host(&[
        "/srv dir 755 root root",
        "/srv/A dir 755 root root",
        "/srv/B dir 755 root root",
        "/srv/B/new absent",
        "/srv/B/x dir 711 root root",
        "/srv/k link l",
        "/srv/k/x=/srv/A/x dir 700 root root",
        "/srv/l link A",
        "/srv/l/new=/srv/A/new dir 700 root root",
        "/srv/l/x=/srv/A/x dir 700 root root",
        "/srv/A/x dir 700 root root",
    ]);
    let of = |changes: &[(&str, &str)], target: &str| after(&known, changes, &path(target));
    let made = ("/srv/l", "dir 755 root root");
    let led = ("/srv/l", "link B");
    assert_eq!(of(&[made], "/srv/l/x"), "absent");
    assert_eq!(of(&[made, ("/srv/l/x", "dir 750 root root")], "/srv/l/x"), "dir 750 root root");
    assert_eq!(of(&[("/srv/l", "absent")], "/srv/l/x"), "absent");
    assert_eq!(of(&[led], "/srv/l/new"), "absent");
    assert_eq!(of(&[led], "/srv/l/x"), "deferred");
    // Behind the link all is as it was read; another owner of the link touches nothing.
    for changes in [made, led, ("/srv/l", "link A daemon daemon")] {
        assert_eq!(of(&[changes], "/srv/A/x"), read);
    }
    assert_eq!(of(&[("/srv/l", "link A daemon daemon")], "/srv/l/x"), read);
    // Through another link.
    assert_eq!(of(&[made], "/srv/k/x"), "deferred");
    // Changed before that, in the place to which it led.
    assert_eq!(of(&[("/srv/l/x", "dir 750 root root"), led], "/srv/l/x"), "deferred");
    assert_eq!(of(&[("/srv/l/x", "dir 750 root root"), made], "/srv/l/x"), "deferred");
}

/// The files that were read lay in the directory, and so did those that the item has removed with it.
#[test]
fn below_a_link_that_takes_the_place_of_a_directory_a_path_is_another_one() {
    let known = host(&[
        "/srv dir 755 root root",
        "/srv/A dir 755 root root",
        "/srv/A/new absent",
        "/srv/A/x dir 711 root root",
        "/srv/d dir 755 root root",
        "/srv/d/new absent",
        "/srv/d/x absent",
        "/srv/d/old dir 700 root root",
        "/srv/A/old dir 711 root root",
    ]);
    let link = ("/srv/d", "link A");
    let of = |changes: &[(&str, &str)], target: &str| after(&known, changes, &path(target));
    assert_eq!(of(&[link], "/srv/d/new"), "absent");
    assert_eq!(of(&[link], "/srv/d/x"), "deferred");
    assert_eq!(of(&[link], "/srv/A/x"), "dir 711 root root");
    assert_eq!(of(&[("/srv/d/old", "absent"), link], "/srv/d/old"), "deferred");
}

/// A path in the place to which a new link leads lies below the link too.
#[test]
fn below_a_link_that_the_run_makes_a_path_is_what_lies_in_its_target() {
    let known = host(&[
        "/srv dir 755 root root",
        "/srv/B dir 755 root root",
        "/srv/B/new absent",
        "/srv/B/x dir 711 root root",
        "/srv/m absent",
        "/srv/m/new absent",
        "/srv/m/x absent",
        "/srv/n absent",
        "/srv/n/new absent",
        "/srv/n/x absent",
    ]);
    let of = |changes: &[(&str, &str)], target: &str| after(&known, changes, &path(target));
    let (new, next) = (("/srv/n", "link B"), ("/srv/m", "link n"));
    assert_eq!(of(&[new], "/srv/n/new"), "absent");
    assert_eq!(of(&[new], "/srv/n/x"), "deferred");
    assert_eq!(of(&[new], "/srv/B/x"), "dir 711 root root");
    assert_eq!(of(&[new, next], "/srv/m/x"), "deferred");
    assert_eq!(of(&[("/srv/n", "dir 755 root root")], "/srv/n/x"), "absent");
}
