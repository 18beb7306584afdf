use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

fn present(version: &str) -> PackageState {
    PackageState::Present { version: version.into(), auto: false, hold: false }
}

fn held(version: &str) -> PackageState {
    PackageState::Present { version: version.into(), auto: false, hold: true }
}

fn sim(options: &str, requests: &[&str]) -> Probe {
    simulation(options, &owned(requests), &[])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn line(view: &FakeView, name: &str) -> String {
    view.line(&package_id(name))
}

#[test]
fn what_is_installed_needs_no_simulation() {
    let kind = read::<Package>(json!({"name": ["curl", "jq=1.6-2"]}));
    let view =
        FakeView::strict().has(package_id("curl"), present("7.88")).has(package_id("jq"), present("1.6-2"));
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
        .answer(&sim("", &["jq"]), 0, out);
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

#[test]
fn at_most_three_rounds_are_asked() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let view = FakeView::strict();
    assert_eq!(kind.plan(&view), Err(Stop::Ask(vec![Probe::Object(package_id("jq"))])));
    let view = view.has(package_id("jq"), PackageState::Absent);
    let question = sim("", &["jq"]);
    assert_eq!(kind.plan(&view), Err(Stop::Ask(vec![question.clone()])));
    let view = view.answer(&question, 0, "inst libjq1 1\ninst jq 1\n");
    assert_eq!(kind.plan(&view), Err(Stop::Ask(vec![Probe::Object(package_id("libjq1"))])));
    assert!(kind.plan(&view.has(package_id("libjq1"), PackageState::Absent)).is_ok());
}

#[test]
fn exact_versions_up_and_down() {
    let kind = read::<Package>(json!({"name": "jq", "version": "1.5", "allow_downgrade": true}));
    let view = FakeView::new().has(package_id("jq"), present("1.6")).answer(
        &sim("", &["jq=1.5"]),
        0,
        "inst jq 1.5\nconf jq\n",
    );
    assert_eq!(line(&settle(&kind, view), "jq"), "present 1.5 manual -");
}

#[test]
fn a_downgrade_is_declared() {
    let answer = "inst jq 1.5\ninst libjq1 1.5\noffered jq\n";
    let view = FakeView::new()
        .has(package_id("jq"), present("1.6"))
        .has(package_id("libjq1"), present("1.6"))
        .answer(&sim("", &["jq=1.5"]), 0, answer)
        .answer(&sim("", &["jq=1.5", "libjq1=1.5"]), 0, answer);
    let plan = |params| read::<Package>(params).plan(&view);
    let Err(Stop::Invalid { help, .. }) = plan(json!({"name": "jq=1.5"})) else { panic!() };
    assert!(help.unwrap().contains("allow_downgrade"));
    let Err(Stop::Invalid { help, .. }) = plan(json!({"name": "jq=1.5", "allow_downgrade": true})) else {
        panic!()
    };
    assert!(help.unwrap().contains("libjq1=1.5"));
    let both = json!({"name": ["jq=1.5", "libjq1=1.5"], "allow_downgrade": true});
    let wanted = plan(both).unwrap();
    // Only the version that nobody offers any more cannot come back.
    let lost: Vec<&str> = wanted.irreversible.iter().map(|(id, _)| id.key.as_str()).collect();
    assert_eq!(lost, ["libjq1"]);
    assert_eq!(wanted.settings, [("CV_IRREVERSIBLE".to_owned(), "yes".to_owned())]);
}

#[test]
fn a_repository_of_the_same_run_is_waited_for() {
    let view = FakeView::new().may(package_id("jq")).has(package_id("curl"), present("8"));
    let stop = read::<Package>(json!({"name": "jq"})).plan(&view).unwrap_err();
    assert!(matches!(&stop, Stop::Deferred(w) if w.reason.contains("not known yet")), "{stop:?}");
    assert!(read::<Package>(json!({"name": "curl"})).plan(&view).is_ok(), "it is there");
}

#[test]
fn latest_asks_every_time() {
    let kind = read::<Package>(json!({"name": "jq", "state": "latest"}));
    let view = FakeView::new().has(package_id("jq"), present("1.6"));
    assert_eq!(kind.plan(&view), Err(Stop::Ask(vec![sim("", &["jq"])])));
    let same = view.clone().answer(&sim("", &["jq"]), 0, "");
    assert_eq!(line(&settle(&kind, same), "jq"), "present 1.6 manual -");
    let newer = view.answer(&sim("", &["jq"]), 0, "inst jq 1.7\n");
    assert_eq!(kind.plan(&newer).unwrap().targets[0].1.line(), "present 1.7 manual -");
}

#[test]
fn nothing_goes_that_nobody_asked_to_go() {
    let kind = read::<Package>(json!({"name": "exim4"}));
    let view = FakeView::new().has(package_id("postfix"), present("3")).answer(
        &sim("", &["exim4"]),
        0,
        "remv postfix\ninst exim4 4.96\n",
    );
    let Err(Stop::Invalid { message, help, .. }) = kind.plan(&view) else { panic!() };
    assert!(message.contains("remove postfix"), "{message}");
    assert!(help.unwrap().contains("state: absent"));
    // An earlier item of the run removed it.
    settle(&kind, view.has(package_id("postfix"), PackageState::Absent));
}

#[test]
fn held_packages_change_only_when_it_is_declared() {
    let answer = "inst jq 1.7\ninst libjq1 1.7\n";
    let view = FakeView::new()
        .has(package_id("jq"), held("1.6"))
        .answer(&sim("", &["jq=1.7"]), 0, answer)
        .answer(&sim(HELD, &["jq=1.7"]), 0, answer);
    let kind = read::<Package>(json!({"name": "jq=1.7"}));
    assert!(
        matches!(kind.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("held at 1.6"))
    );
    let declared = read::<Package>(json!({"name": "jq=1.7", "hold": true}));
    assert_eq!(line(&settle(&declared, view.clone()), "jq"), "present 1.7 manual hold");
    let along = view.has(package_id("libjq1"), held("1.6"));
    assert!(
        matches!(declared.plan(&along), Err(Stop::Invalid { message, .. }) if message.contains("libjq1 is held"))
    );
}

#[test]
fn a_hold_alone_needs_no_simulation() {
    let kind = read::<Package>(json!({"name": "kubelet", "hold": true}));
    let view = FakeView::strict().has(package_id("kubelet"), present("1.34"));
    assert_eq!(line(&settle(&kind, view), "kubelet"), "present 1.34 manual hold");
}

#[test]
fn removal_says_what_is_left() {
    let kind = read::<Package>(json!({"name": ["chrony", "jq", "gone"], "state": "absent"}));
    let view = FakeView::new()
        .has(package_id("chrony"), present("4.3"))
        .has(package_id("jq"), present("1.6"))
        .answer(&kind.removal(&owned(&["chrony", "jq"])), 0, "remv chrony\nremv jq\nleaves chrony\n");
    let after = settle(&kind, view.clone());
    assert_eq!(
        [line(&after, "chrony"), line(&after, "jq"), line(&after, "gone")],
        ["config 4.3", "absent", "absent"]
    );
    let purge = read::<Package>(json!({"name": "chrony", "state": "absent", "purge": true}));
    let left = view.has(package_id("chrony"), PackageState::Config { version: "4.3".into() });
    assert_eq!(line(&settle(&purge, left), "chrony"), "absent");
}

#[test]
fn the_question_is_the_one_that_the_apply_asks() {
    let kind = read::<Package>(json!({"name": "jq", "state": "absent", "purge": true}));
    let Probe::Run { script, .. } = kind.removal(&owned(&["jq"])) else { panic!() };
    assert!(
        script.starts_with("out=$(cv_simulate_package install --allow-downgrades --purge jq-) || exit $?\n"),
        "{script}"
    );
}

#[test]
fn dependents_are_not_dragged_along() {
    let kind = read::<Package>(json!({"name": "libjq1", "state": "absent"}));
    let view = FakeView::new()
        .has(package_id("jq"), present("1.6"))
        .has(package_id("libjq1"), present("1.6"))
        .answer(&kind.removal(&owned(&["libjq1"])), 0, "remv jq\nremv libjq1\n");
    assert!(
        matches!(kind.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("also remove jq"))
    );
}

#[test]
fn an_unknown_name_is_pointed_at() {
    let kind = read::<Package>(json!({"name": ["jq", "crul"]}));
    let question = sim("", &["jq", "crul"]);
    let view = FakeView::new().complains(&question, 100, "E: Unable to locate package crul\n");
    let Err(Stop::Invalid { pointer, message, .. }) = kind.plan(&view) else { panic!() };
    assert_eq!((pointer.as_str(), message.as_str()), ("/name/1", "apt offers no crul on this host"));
    assert!(matches!(kind.plan(&view.pending()), Err(Stop::Deferred(_))));
    let pinned = read::<Package>(json!({"name": "jq=9"}));
    let view = FakeView::new().complains(&sim("", &["jq=9"]), 100, "E: Version '9' for 'jq' was not found\n");
    assert!(
        matches!(pinned.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("jq at version 9"))
    );
}

#[test]
fn a_host_without_lists_says_so() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let view = FakeView::new().complains(&sim("", &["jq"]), 72, "no package lists\n");
    assert!(matches!(kind.plan(&view), Err(Stop::Invalid { message, .. }) if message.contains("no lists")));
    assert!(matches!(kind.plan(&view.pending()), Err(Stop::Deferred(_))));
}

#[test]
fn a_virtual_package_is_not_a_name() {
    let kind = read::<Package>(json!({"name": "awk"}));
    let view = FakeView::new().answer(&sim("", &["awk"]), 0, "inst mawk 1.3\n");
    let Err(Stop::Invalid { help, .. }) = kind.plan(&view) else { panic!() };
    assert!(help.unwrap().contains("mawk"));
}

#[test]
fn an_interrupted_dpkg_is_never_mended_in_silence() {
    let kind = read::<Package>(json!({"name": "jq"}));
    let view =
        FakeView::new().has(package_id("jq"), PackageState::Broken { status: "half-configured".into() });
    assert!(matches!(kind.plan(&view), Err(Stop::Failed(why)) if why.contains("dpkg --configure -a")));
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Package>(json!({"name": []})), ["/name"]);
    assert_eq!(wrong::<Package>(json!({"name": ["ok1", "-x", "Bad"]})), ["/name/1", "/name/2"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq=1.*"})), ["/name"]);
    assert_eq!(wrong::<Package>(json!({"name": ["jq", "jq=1.0"]})), ["/name/1"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq=1", "state": "absent"})), ["/state"]);
    assert_eq!(wrong::<Package>(json!({"name": ["a1", "b1"], "version": "1"})), ["/version"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq", "purge": true})), ["/purge"]);
    assert_eq!(wrong::<Package>(json!({"name": "jq", "allow_downgrade": true})), ["/allow_downgrade"]);
}
