use super::*;
use crate::records::readable_library;
use std::collections::BTreeSet;
use std::process::Command;

/// Bytes that an ordinary look may send: paths, packages, units, users, groups, kernel parameters, commands, and the records. It only may grow for a reason.
const MOST_OF_A_LOOK: usize = 56_000;

const LOOK: &str = "cv_see_path /a; cv_see_package a; cv_plan_packages a; cv_see_unit a; cv_see_user a; cv_see_group a; cv_see_sysctl a; \
     cv_see_command a; cv_content /a 1; cv_owned";

fn lesson(known: &KnownParts, text: &str, waits: bool) -> Lesson {
    known.lesson(std::iter::once(text), waits)
}

/// The names of the functions that bash reads in this text, which does and says nothing else.
fn functions(text: &str) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    std::fs::write(&file, text).unwrap();
    let output = Command::new("bash")
        .args(["-c", ". \"$1\"; compgen -A function", "bash"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn each_part_is_whole_and_has_one_name_and_together_they_are_the_library() {
    let texts = texts();
    let pieces: Vec<&str> = texts.iter().flat_map(|text| split(text)).collect();
    assert_eq!(pieces.concat(), texts.concat());
    let unnamed: Vec<&&str> = pieces.iter().filter(|piece| defined(piece).is_none()).collect();
    assert!(unnamed.len() == 1, "only what all use has no name: {:?}", unnamed.get(1));
    for piece in pieces.iter().filter(|piece| matches!(kind(piece), Definition::Function)) {
        let name = defined(piece).unwrap();
        let starts = piece.lines().filter(|line| line.starts_with("cv_") && line.contains("()")).count();
        assert_eq!(starts, 1, "{name}: {piece}");
    }
    let all = lesson(&KnownParts::default(), "cv_see_$kind", false).text;
    assert_eq!(functions(&all), functions(&readable_library()));
}

/// Whatever a shell was told before, it comes to know what it is told now, and is told nothing twice.
#[test]
fn what_is_used_is_sent_once() {
    let mut known = KnownParts::default();
    let first = lesson(&known, LOOK, true);
    assert!(first.open && !first.text.contains("\nCV_RPM_PROGRAM="), "nobody knows whether the host has dnf");
    assert!(first.text.len() <= MOST_OF_A_LOOK, "{} bytes", first.text.len());
    let there = functions(&first.text);
    for name in ["cv_see_package", "cv_see_unit", "cv_owned", "cv_say"] {
        assert!(there.contains(name), "{name}");
    }
    assert!(!there.contains("cv_apply_packages") && !there.contains("cv_see_kubeadm"), "{there:?}");
    known.learn(first);
    assert_eq!(lesson(&known, LOOK, true).text, "");
    known.has_dnf = Some(false);
    assert_eq!(lesson(&known, LOOK, false).text, "");
    let rest = lesson(&known, "cv_run_open a b c; cv_see_$kind", false);
    assert!(!rest.open && !rest.text.contains("\nCV_RPM_PROGRAM=") && rest.text.len() > 50_000);
    let more = functions(&rest.text);
    assert_eq!(more.intersection(&there).count(), 0);
    known.has_dnf = Some(true);
    let with = lesson(&known, LOOK, false);
    assert!(with.text.starts_with("CV_RPM_PROGRAM="), "{}", with.text);
}

#[test]
fn names_that_are_put_together_may_be_any() {
    for text in ["\"cv_see_$kind\" a", "cv_restore_$row_kind", "cv_${f}_$1"] {
        assert!(is_open(text), "{text}");
    }
    for text in ["cv_see_path /a_$b", "$cv_a$cv_b", "a_$b"] {
        assert!(!is_open(text), "{text}");
    }
}
