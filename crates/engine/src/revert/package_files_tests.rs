use super::*;
use crate::revert::tests::{plan, undo};
use crate::revert::{JudgedUndo, arrange};
use converge_resource::{Observation, RunAnswer, State};

const PACKAGE: &str = "present 1 manual -";
const FILE: &str = "file 644 root root 2 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";
const OTHER: &str = "file 644 root root 2 0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f";
const ON: &str = "ufw active deny allow deny";
const HOST: &str = "conf\tcron\taa\tbb\t/etc/crontab\nconf\tcron\tcc\tcc\t/etc/default/cron\nfile\tcron\t/usr/sbin/cron\n\
                    file\tcron\t/lib/systemd/system/cron.service\nconf\tufw\taa\tbb\t/etc/ufw/ufw.conf\nfile\tufw\t/usr/sbin/ufw\n\
                    dir\tcron base-files \t/etc/cron.d\ndir\tufw\t/etc/ufw\n\
                    starts\tmine.service\t/sbin/cron\nstarts\tmine.service\t/bin/sh\n";

/// The host's answer about the packages, and that all objects are as the runs left them, but for these.
fn known(undos: &[Undo], now: &[(&str, &str)]) -> Knowledge {
    let mut known = Knowledge::default();
    let answer = RunAnswer { status: 0, stdout: HOST.to_owned(), stderr: String::new() };
    known.learn(probe(undos).unwrap(), Answer::Run(answer));
    for undo in undos {
        let line = now.iter().find(|(key, _)| *key == undo.object.key).map(|(_, line)| *line);
        let state = line.map_or_else(|| undo.left.clone(), State::from_line);
        known.learn(Probe::Object(undo.object.clone()), Answer::Object(Observation::new(state, None)));
    }
    known
}

fn holder(kind: &str, key: &str, state: &str, at: usize) -> StayingObject {
    let (object, state) = (ObjectId::new(kind, key), State::from_line(state));
    let words = words(&object, &[&state]);
    StayingObject { whose: format!("{object} of run b"), object, words, is_there: true, at: Some(at) }
}

/// The reason why the first object, a package, stays.
fn why(
    undos: &[Undo],
    holders: &[StayingObject],
    before: &[(&str, &str)],
    allowed: &[&str],
) -> Option<String> {
    let mut undos = undos.to_vec();
    let known = known(&undos, &[]);
    let before = before.iter().map(|(path, digest)| ((*path).to_owned(), (*digest).to_owned())).collect();
    let allowed: Vec<String> = allowed.iter().map(|id| (*id).to_owned()).collect();
    let notes = leave(&mut undos, holders, &|_| 3, &before, &allowed, &known);
    let first = undos.swap_remove(0);
    notes.get(&first.object).map(|note| format!("note: {note}")).or(first.theirs)
}

#[test]
fn a_package_stays_with_a_configuration_file_that_others_have_changed() {
    let cron = undo("package", "cron", PACKAGE, "absent");
    let edited = why(std::slice::from_ref(&cron), &[], &[], &[]).unwrap();
    assert!(edited.contains("/etc/crontab was changed by someone else"), "{edited}");
    assert!(edited.contains("--allow-destroy package:cron"), "{edited}");
    let note = why(std::slice::from_ref(&cron), &[], &[], &["package:cron"]).unwrap();
    assert!(note.starts_with("note: /etc/crontab") && note.contains("no rollback brings"), "{note}");
    let line = |before: &str| [cron.clone(), undo("path", "/etc/crontab", FILE, before)];
    // The edit of the runs goes back with them, unless somebody had edited the file before.
    assert_eq!(why(&line("absent"), &[], &[], &[]), None);
    assert_eq!(why(&line(OTHER), &[], &[("/etc/crontab", "aa")], &[]), None);
    assert!(why(&line(OTHER), &[], &[("/etc/crontab", "dd")], &[]).unwrap().contains("someone else"));
    // A later run of another project.
    let held = why(&line("absent"), &[holder("path", "/etc/default/cron", FILE, 4)], &[], &[]).unwrap();
    assert!(held.starts_with("path:/etc/default/cron of run b, a configuration file of it, stays"), "{held}");
    assert_eq!(why(&line("absent"), &[holder("path", "/etc/default/cron", FILE, 2)], &[], &[]), None);
    // A removed package keeps its configuration files.
    let removed = undo("package", "cron", PACKAGE, "config 1");
    let known = known(&[cron], &[]);
    assert!(leave(&mut [removed.clone()], &[], &|_| 0, &BTreeSet::new(), &[], &known).is_empty());
    assert!(probe(&[removed]).is_none());
}

#[test]
fn a_package_stays_whose_program_unit_or_directory_an_object_of_others_needs() {
    let ufw = [undo("package", "ufw", PACKAGE, "absent"), undo("firewall", "ufw", ON, "absent")];
    // ufw writes the rules of the runs into its own configuration file.
    assert_eq!(why(&ufw, &[], &[], &[]), None);
    for (kind, key, state) in [
        ("firewall", "ufw", ON),
        ("path", "/etc/ufw/before.rules", FILE),
        ("path", "/usr/local/bin/fw", "link /usr/sbin/ufw"),
    ] {
        assert!(why(&ufw, &[holder(kind, key, state, 4)], &[], &[]).is_some(), "{key}");
    }
    let line = undo("path", "/etc/crontab", FILE, "absent");
    let cron = [undo("package", "cron", PACKAGE, "absent"), line];
    for (kind, key, state, stays) in [
        ("unit", "cron.service", "unit enabled active -", true),
        ("unit", "cron.service", "unit disabled inactive -", false),
        ("unit", "mine.service", "unit enabled active -", true),
        ("unit", "mine.service", "unit disabled inactive -", false),
        ("unit", "other.service", "unit enabled active -", false),
        ("path", "/etc/cron.d/job", FILE, true),
        ("path", "/etc/other", FILE, false),
        ("firewall", "ufw", ON, false),
    ] {
        assert_eq!(why(&cron, &[holder(kind, key, state, 4)], &[], &[]).is_some(), stays, "{key} {state}");
    }
}

#[test]
fn an_object_that_stays_keeps_the_package_of_its_program() {
    let ufw = undo("package", "ufw", PACKAGE, "absent");
    let firewall = undo("firewall", "ufw", ON, "absent");
    let theirs = Undo { theirs: Some("another project".to_owned()), ..firewall.clone() };
    let stays = |undos: &[Undo], allowed: &[&str]| {
        let allowed: Vec<String> = allowed.iter().map(|id| (*id).to_owned()).collect();
        let groups = arrange(undos.to_vec(), &mut known(undos, &[]), &allowed);
        let mut members = groups.into_iter().flat_map(|group| group.members);
        let of = |judged: JudgedUndo| match judged.verdict {
            Verdict::Stays(why) => Some(why),
            _ => None,
        };
        members.find(|judged| judged.undo.object.kind == "package").and_then(of)
    };
    assert_eq!(stays(&[firewall, ufw.clone()], &[]), None);
    let why = stays(&[theirs.clone(), ufw.clone()], &[]).unwrap();
    assert!(why.starts_with("firewall:ufw, which needs it, stays"), "{why}");
    assert_eq!(stays(&[theirs, ufw.clone()], &["package:ufw"]), None);
    // Without an answer nothing is known.
    assert!(plan(&[ufw], &[], &[])[0].is_pending());
}
