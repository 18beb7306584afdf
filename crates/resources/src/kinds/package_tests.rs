use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use converge_resource::{First, Probe};
use serde_json::json;

fn present(version: &str) -> PackageState {
    PackageState::Present { version: version.into(), auto: false, hold: false }
}

fn held(version: &str) -> PackageState {
    PackageState::Present { version: version.into(), auto: false, hold: true }
}

/// The question of one resource alone.
fn asked(kind: &Package) -> Probe {
    simulation(&[Resource::stage(kind).unwrap()])
}

/// The host's answer without problems, apart from these lines; states of packages follow the end of the stage.
fn reply(lines: &str) -> String {
    format!("arch amd64\nstage 1\ndpkg settled\nindex index current\n{lines}end 0\n")
}

fn complaint(lines: &str) -> String {
    let lines: String = lines.lines().map(|l| format!("err {l}\n")).collect();
    format!("arch amd64\nstage 1\ndpkg settled\nindex index current\n{lines}end 100\n")
}

fn nothing() -> String {
    "arch amd64\nstage 1\n".to_owned()
}

fn line(view: &FakeView, name: &str) -> String {
    view.line(&package_id(name))
}

#[test]
fn what_is_installed_needs_no_simulation() {
    let kind = read::<Package>(json!({"name": ["curl", "jq=1.6-2"]}));
    let view = FakeView::strict()
        .has(package_id("curl"), present("7.88"))
        .has(package_id("jq"), present("1.6-2"))
        .answer(&asked(&kind), 0, &nothing());
    let wanted = kind.plan(&view).unwrap();
    assert_eq!(wanted.targets.len(), 2);
    assert_eq!(wanted.notes, Vec::<String>::new());
    settle(&kind, view);
}

#[test]
fn the_whole_transaction_is_planned() {
    let kind = read::<Package>(json!({"name": ["curl", "jq"]}));
    let out = "inst libjq1 1.6-2.1\ninst jq 1.6-2.1\ninst libcurl4 7.88.1-10\nconf libjq1\nconf jq\n";
    let view = FakeView::new()
        .has(package_id("curl"), PackageState::Present { version: "7.80".into(), auto: true, hold: false })
        .has(
            package_id("libcurl4"),
            PackageState::Present { version: "7.80".into(), auto: true, hold: false },
        )
        .answer(&asked(&kind), 0, &reply(out));
    let wanted = kind.plan(&view).unwrap();
    let lines: Vec<String> = wanted.targets.iter().map(|(id, s)| format!("{} {s}", id.key)).collect();
    let expected = [
        "curl present 7.80 manual -",
        "jq present 1.6-2.1 manual -",
        "libjq1 present 1.6-2.1 auto -",
        "libcurl4 present 7.88.1-10 auto -",
    ];
    assert_eq!(lines, expected);
    assert!(wanted.notes[0].contains("jq are not started"), "{:?}", wanted.notes);
    settle(&kind, view);
}

/// The question says whether recommended packages come along; what starts services is reported, and goes by itself.
#[test]
fn recommended_packages_and_services_are_asked_for() {
    for (params, flags) in [
        (json!({"name": "jq", "recommends": "always"}), "-r"),
        (json!({"name": "jq", "recommends": "as_configured"}), "-c"),
    ] {
        assert_eq!(Resource::stage(&read::<Package>(params)).unwrap(), format!("present {flags} index jq"));
    }
    let kind = read::<Package>(json!({"name": "jq", "starts_services": true}));
    let view = FakeView::new().has(package_id("jq"), PackageState::Absent).answer(
        &asked(&kind),
        0,
        &reply("inst jq 1\n"),
    );
    let wanted = kind.plan(&view).unwrap();
    assert!(wanted.notes[0].contains("starts services of jq"), "{:?}", wanted.notes);
    assert!(
        wanted.settings.contains(&("CV_SERVICES".to_owned(), "start".to_owned())),
        "{:?}",
        wanted.settings
    );
    for name in ["recommends", "starts_services"] {
        let value = if name == "recommends" { json!("always") } else { json!(true) };
        let params = json!({"name": "jq", "state": "absent", name: value});
        assert_eq!(wrong::<Package>(params), [format!("/{name}")]);
    }
}

#[test]
fn one_round_asks_all() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let view = FakeView::strict();
    let both = vec![Probe::Object(package_id("jq")), asked(&kind)];
    assert_eq!(kind.plan(&view), Err(Stop::Ask(both)));
    let reported = format!("{}was jq absent\nwas libjq1 absent\n", reply("inst libjq1 1\ninst jq 1\n"));
    let view = view.has(package_id("jq"), PackageState::Absent).answer(&asked(&kind), 0, &reported);
    let wanted = kind.plan(&view).unwrap();
    assert_eq!(wanted.targets.len(), 2, "the answer told what libjq1 is");
    assert_eq!(wanted.incidental.len(), 2);
}

#[test]
fn items_ask_together_and_each_reads_its_own_part() {
    let [first, second] = [json!({"name": "jq"}), json!({"name": "tree", "hold": true})].map(read::<Package>);
    let stages = [&first, &second].map(|kind| Resource::stage(kind).unwrap());
    assert_eq!(stages, ["present - index jq", "present -h index tree"]);
    let answer = "arch amd64\nstage 1\ndpkg settled\nindex index current\ninst jq 1\nend 0\nstage 2\ninst tree 2\nend 0\nwas jq absent\nwas tree absent\n";
    let parts = [0, 1].map(|at| Transaction::parse(answer, at, "index").installed);
    assert_eq!(parts, [vec![("jq".to_owned(), "1".to_owned())], vec![("tree".to_owned(), "2".to_owned())]]);
    let view = FakeView::new().together(&stages, 1).answer(&simulation(&stages), 0, answer);
    assert_eq!(line(&settle(&second, view), "tree"), "present 2 manual hold");
}

#[test]
fn exact_versions_up_and_down() {
    let kind = read::<Package>(json!({"name": "jq", "version": "1.5", "allow_downgrade": true}));
    let view = FakeView::new().has(package_id("jq"), present("1.6")).answer(
        &asked(&kind),
        0,
        &reply("inst jq 1.5\nconf jq\n"),
    );
    assert_eq!(line(&settle(&kind, view), "jq"), "present 1.5 manual -");
}

#[test]
fn a_downgrade_is_declared() {
    let plan = |params| {
        let kind = read::<Package>(params);
        let view = FakeView::new()
            .has(package_id("jq"), present("1.6"))
            .has(package_id("libjq1"), present("1.6"))
            .answer(&asked(&kind), 0, &reply("inst jq 1.5\ninst libjq1 1.5\noffered jq\n"));
        kind.plan(&view)
    };
    let Err(Stop::Invalid { help, .. }) = plan(json!({"name": "jq=1.5"})) else { panic!() };
    assert!(help.unwrap().contains("allow_downgrade"));
    let Err(Stop::Invalid { help, .. }) = plan(json!({"name": "jq=1.5", "allow_downgrade": true})) else {
        panic!()
    };
    assert!(help.unwrap().contains("libjq1=1.5"));
    let both = json!({"name": ["jq=1.5", "libjq1=1.5"], "allow_downgrade": true});
    let wanted = plan(both).unwrap();
    // Only the version that no repository offers any more cannot come back.
    let lost: Vec<&str> = wanted.irreversible.iter().map(|(id, _)| id.key.as_str()).collect();
    assert_eq!(lost, ["libjq1"]);
    assert_eq!(wanted.settings, [("CV_IRREVERSIBLE".to_owned(), "yes".to_owned())]);
}

/// The change carries what apt chose by, and what it was asked. Where nothing is to be done apt was not asked.
#[test]
fn a_change_is_bound_to_what_apt_chose_by() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let answer = || reply("choice abc\ninst jq 1\n");
    let view =
        FakeView::new().has(package_id("jq"), PackageState::Absent).answer(&asked(&kind), 0, &answer());
    let settings = kind.plan(&view).unwrap().settings;
    let wanted = [("CV_APT_CHOICE", "abc"), ("CV_APT_STAGES", "present - index jq")];
    assert_eq!(settings, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let view = FakeView::new().has(package_id("jq"), present("1")).answer(&asked(&kind), 0, &answer());
    assert_eq!(kind.plan(&view).unwrap().settings, []);
}

#[test]
fn a_repository_of_the_same_run_is_waited_for() {
    let (jq, curl) = (read::<Package>(json!({"name": "jq"})), read::<Package>(json!({"name": "curl"})));
    let view = FakeView::new()
        .may(package_id("jq"))
        .has(package_id("curl"), present("8"))
        .answer(&asked(&jq), 0, &reply("inst jq 1\n"))
        .answer(&asked(&curl), 0, &nothing());
    let stop = jq.plan(&view).unwrap_err();
    assert!(matches!(&stop, Stop::Deferred(w) if w.reason.contains("not known yet")), "{stop:?}");
    assert!(curl.plan(&view).is_ok(), "it is there");
}

#[test]
fn latest_asks_every_time() {
    let kind = read::<Package>(json!({"name": "jq", "state": "latest"}));
    let view = FakeView::new().has(package_id("jq"), present("1.6"));
    assert_eq!(kind.plan(&view), Err(Stop::Ask(vec![asked(&kind)])));
    let same = view.clone().answer(&asked(&kind), 0, &reply(""));
    assert_eq!(line(&settle(&kind, same), "jq"), "present 1.6 manual -");
    let newer = view.answer(&asked(&kind), 0, &reply("inst jq 1.7\n"));
    assert_eq!(kind.plan(&newer).unwrap().targets[0].1.line(), "present 1.7 manual -");
}

#[test]
fn nothing_goes_that_nobody_asked_to_go() {
    let kind = read::<Package>(json!({"name": "exim4"}));
    let view = FakeView::new().has(package_id("postfix"), present("3")).answer(
        &asked(&kind),
        0,
        &reply("remv postfix\ninst exim4 4.96\n"),
    );
    let Err(Stop::Invalid { message, help, .. }) = kind.plan(&view) else { panic!() };
    assert!(message.contains("remove postfix"), "{message}");
    assert!(help.unwrap().contains("state: absent"));
    // An earlier item of the run removed it.
    settle(&kind, view.has(package_id("postfix"), PackageState::Absent));
}

#[test]
fn held_packages_change_only_when_it_is_declared() {
    let answer = reply("inst jq 1.7\ninst libjq1 1.7\n");
    let kind = read::<Package>(json!({"name": "jq=1.7"}));
    let declared = read::<Package>(json!({"name": "jq=1.7", "hold": true}));
    let view = FakeView::new().has(package_id("jq"), held("1.6")).answer(&asked(&kind), 0, &answer).answer(
        &asked(&declared),
        0,
        &answer,
    );
    assert!(
        matches!(kind.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("held at 1.6"))
    );
    assert_eq!(line(&settle(&declared, view.clone()), "jq"), "present 1.7 manual hold");
    let along = view.has(package_id("libjq1"), held("1.6"));
    assert!(
        matches!(declared.plan(&along), Err(Stop::Invalid { message, .. }) if message.contains("libjq1 is held"))
    );
}

#[test]
fn a_hold_alone_needs_no_simulation() {
    let kind = read::<Package>(json!({"name": "kubelet", "hold": true}));
    let view =
        FakeView::strict().has(package_id("kubelet"), present("1.34")).answer(&asked(&kind), 0, &nothing());
    assert_eq!(line(&settle(&kind, view), "kubelet"), "present 1.34 manual hold");
}

#[test]
fn removal_says_what_is_left() {
    let kind = read::<Package>(json!({"name": ["chrony", "jq", "gone"], "state": "absent"}));
    let view = FakeView::new()
        .has(package_id("chrony"), present("4.3"))
        .has(package_id("jq"), present("1.6"))
        .answer(&asked(&kind), 0, &reply("remv chrony\nremv jq\nleaves chrony\n"));
    let after = settle(&kind, view.clone());
    assert_eq!(
        [line(&after, "chrony"), line(&after, "jq"), line(&after, "gone")],
        ["config 4.3", "absent", "absent"]
    );
    let purge = read::<Package>(json!({"name": "chrony", "state": "absent", "purge": true}));
    let left = view.has(package_id("chrony"), PackageState::Config { version: "4.3".into() }).answer(
        &asked(&purge),
        0,
        &nothing(),
    );
    assert_eq!(line(&settle(&purge, left), "chrony"), "absent");
}

#[test]
fn dependents_are_not_dragged_along() {
    let kind = read::<Package>(json!({"name": "libjq1", "state": "absent"}));
    let view = FakeView::new()
        .has(package_id("jq"), present("1.6"))
        .has(package_id("libjq1"), present("1.6"))
        .answer(&asked(&kind), 0, &reply("remv jq\nremv libjq1\n"));
    assert!(
        matches!(kind.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("also remove jq"))
    );
}

#[test]
fn an_exact_version_that_a_dependency_keeps_back_names_it() {
    let kind = read::<Package>(json!({"name": "jq=1.6"}));
    let help = |reply: &str| match kind.plan(&FakeView::new().answer(&asked(&kind), 0, &complaint(reply))) {
        Err(Stop::Invalid { message, help, .. }) => {
            assert!(message.starts_with("apt refuses the transaction:\n"), "{message}");
            help
        }
        Err(Stop::Failed(_)) => None,
        other => panic!("{other:?}"),
    };
    let exact = help(" jq : Depends: libjq1 (= 1.6) but 1.7 is to be installed");
    assert!(exact.unwrap().ends_with("name that one with its version too, as `libjq1=1.6`"));
    assert_eq!(help(" jq : Depends: libjq1 (>= 1.6) but it is not installable"), None);
}

#[test]
fn an_unknown_name_is_an_error_unless_something_may_bring_it() {
    let kind = read::<Package>(json!({"name": ["jq", "crul"]}));
    let answer =
        complaint("E: Unable to locate package crul").replace("end", "near crul crun curl cruft\nend");
    let view = FakeView::new().answer(&asked(&kind), 0, &answer);
    let Err(Stop::Invalid { pointer, message, help, .. }) = kind.plan(&view) else { panic!() };
    assert_eq!((pointer.as_str(), message.as_str()), ("/name/1", "apt offers no crul on this host"));
    assert!(help.unwrap().starts_with("did you mean `c"));
    // A text file before it brings no package; a package source and a script may.
    assert!(matches!(kind.plan(&view.clone().pending()), Err(Stop::Invalid { .. })));
    assert!(matches!(kind.plan(&view.clone().runs_foreign()), Err(Stop::Deferred(_))));
    assert!(matches!(kind.plan(&view.may(package_id("crul"))), Err(Stop::Deferred(_))));
    let pinned = read::<Package>(json!({"name": "jq=9"}));
    let view =
        FakeView::new().answer(&asked(&pinned), 0, &complaint("E: Version '9' for 'jq' was not found"));
    assert!(
        matches!(pinned.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("jq at version 9"))
    );
}

#[test]
fn an_index_that_is_not_there_is_fetched_first() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let bare = reply("").replace("index current", "index absent").replace("end 0", "end 72");
    let view = FakeView::new().answer(&asked(&kind), 0, &bare);
    let Err(Stop::First(first)) = kind.plan(&view) else { panic!() };
    let [First { name, object, from, to, .. }] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((*name, object.to_string().as_str()), ("package index", "apt_index:index"));
    assert_eq!((from.line(), to.line()), ("absent", "current"));
    // Behind it the version is not known yet.
    let behind = view.changes(object.clone()).may(package_id("jq"));
    assert!(matches!(kind.plan(&behind), Err(Stop::Deferred(_))));
    // An installed package needs no index.
    let there = FakeView::new().has(package_id("jq"), present("1")).answer(&asked(&kind), 0, &nothing());
    assert!(kind.plan(&there).is_ok());
}

#[test]
fn an_old_index_is_refreshed_where_an_age_is_given() {
    let kind = read::<Package>(json!({"name": "jq", "max_age": 3600}));
    assert_eq!(Resource::stage(&kind).unwrap(), "present - index:3600 jq");
    let answer = |state: &str| {
        format!(
            "arch amd64\nstage 1\ndpkg settled\nindex index:3600 {state}\ninst jq 1\nend 0\nwas jq absent\n"
        )
    };
    let old = FakeView::new().answer(&asked(&kind), 0, &answer("old"));
    assert!(matches!(kind.plan(&old), Err(Stop::First(f)) if f[0].why.contains("max_age")));
    let current = FakeView::new().answer(&asked(&kind), 0, &answer("current"));
    assert_eq!(line(&settle(&kind, current), "jq"), "present 1 manual -");
}

#[test]
fn names_that_are_not_a_package_say_which_is() {
    let one = read::<Package>(json!({"name": "awk"}));
    let view = FakeView::new().answer(&asked(&one), 0, &reply("inst mawk 1.3\n"));
    let Err(Stop::Invalid { help, .. }) = one.plan(&view) else { panic!() };
    assert!(help.unwrap().contains("mawk"));
    let reply = "Package awk is a virtual package provided by:\n  mawk 1.3 (= 1.3-1)\n  gawk 5.2\nE: Package 'awk' has no installation candidate";
    let view = FakeView::new().answer(&asked(&one), 0, &complaint(reply)).pending();
    let Err(Stop::Invalid { message, .. }) = one.plan(&view) else { panic!() };
    assert_eq!(message, "awk is a virtual package: mawk and gawk provide it");
    let native = read::<Package>(json!({"name": "tree:amd64"}));
    let view = FakeView::new().answer(&asked(&native), 0, &self::reply("inst tree 2\n"));
    let Err(Stop::Invalid { message, help, .. }) = native.plan(&view) else { panic!() };
    assert_eq!(message, "amd64 is this host's own architecture");
    assert_eq!(help.unwrap(), "write it without: `tree`");
}

#[test]
fn an_interrupted_dpkg_is_settled_by_an_item_of_its_own() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let answer = reply("conf jq\n").replace("dpkg settled", "dpkg unfinished jq");
    let half = PackageState::Broken { status: "half-configured".into() };
    let view = FakeView::new().has(package_id("jq"), half).answer(&asked(&kind), 0, &answer);
    let Err(Stop::First(first)) = kind.plan(&view) else { panic!() };
    assert_eq!((first[0].object.to_string().as_str(), first[0].to.line()), ("dpkg:packages", "settled"));
    assert!(matches!(kind.plan(&view.clone().changes(first[0].object.clone())), Err(Stop::Deferred(_))));
    // So is the removal of another package, and of this one, that was cut off.
    let removed = reply("inst jq 1\nremv tree\n").replace("dpkg settled", "dpkg unfinished tree");
    let view = FakeView::new().answer(&asked(&kind), 0, &removed);
    assert!(matches!(kind.plan(&view), Err(Stop::First(_))));
    let half = |dpkg: &str| {
        let answer = reply("inst jq 1\n").replace("dpkg settled", dpkg);
        let view = FakeView::new().answer(&asked(&kind), 0, &answer);
        kind.plan(&view.has(package_id("jq"), PackageState::Broken { status: "half-installed".into() }))
    };
    assert!(matches!(half("dpkg unfinished jq"), Err(Stop::First(_))));
    // A package that must be unpacked again is left to people.
    assert!(matches!(half("dpkg settled"), Err(Stop::Failed(why)) if why.contains("--reinstall jq")));
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Package>(json!({"name": []})), ["/name"]);
    assert_eq!(wrong::<Package>(json!({"name": ["ok1", "-x", "b;d"]})), ["/name/1", "/name/2"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq=1.*"})), ["/name"]);
    assert_eq!(wrong::<Package>(json!({"name": ["jq", "jq=1.0"]})), ["/name/1"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq=1", "state": "absent"})), ["/state"]);
    assert_eq!(wrong::<Package>(json!({"name": ["a1", "b1"], "version": "1"})), ["/version"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq", "purge": true})), ["/purge"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq", "state": "absent", "max_age": 1})), ["/max_age"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq", "allow_downgrade": true})), ["/allow_downgrade"]);
}

#[test]
fn a_hold_needs_the_plugin_of_dnf() {
    let kind = read::<Package>(json!({"name": "jq", "hold": true}));
    let out =
        |more: &str| format!("manager dnf\n{more}arch x86_64\nstage 1\ninst jq 1-1\nend 0\nwas jq absent\n");
    let without = FakeView::new().answer(&asked(&kind), 0, &out(""));
    assert!(matches!(kind.plan(&without), Err(Stop::Invalid { pointer, .. }) if pointer == "/hold"));
    let comes = without.acts(package_id("python3-dnf-plugin-versionlock"), false);
    assert!(matches!(kind.plan(&comes), Err(Stop::Deferred(_))));
    let with = FakeView::new().answer(&asked(&kind), 0, &out("locks\n"));
    assert_eq!(line(&settle(&kind, with), "jq"), "present 1-1 manual hold");
}
