//! A path below a mount point is another object in each file system.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_ledger::{Ledger, ProjectName, ProjectScope, Records, Undo, parse_owned, parse_records};

const FILE: &str = "/srv/m/file";

/// Runs: lines of their meta, and their changes `KIND KEY|BEFORE|AFTER`.
fn text(runs: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (at, (meta, changes)) in runs.iter().enumerate() {
        text.push_str(&format!("run\tR{at}\nseq\t{}\nscope\tp\thosts.yaml\npurpose\t{meta}\n", at + 1));
        for (n, change) in changes.iter().enumerate() {
            let [object, before, after] = change.split('|').collect::<Vec<_>>().try_into().unwrap();
            let (kind, key) = object.split_once(' ').unwrap();
            text.push_str(&format!("begin\t{n}\t{kind}\t{key}\t{before}\t{after}\tr/{kind}\t-\n"));
            if *meta == "converge" {
                text.push_str(&format!("owns\t{n}\tr\n"));
            }
            text.push_str(&format!("done\t{n}\t{after}\n"));
        }
        text.push_str("close\tfinished\t1\n");
    }
    text
}

fn records(runs: &[(&str, &[&str])]) -> Records {
    let records = parse_records(&format!("converge\t6\n{}", text(runs))).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    records
}

fn project() -> ProjectScope {
    ProjectScope(ProjectName { playbook: "p".to_owned(), inventory: "hosts.yaml".to_owned() })
}

const WRITE: (&str, &[&str]) = ("converge", &["path /srv/m/file|absent|v a"]);
const MOUNT: (&str, &[&str]) =
    ("converge", &["mount /srv/m|absent|mount /dev/b ext4 rw -", "path /srv/m/file|v b|v c"]);

fn reported(undos: &[Undo]) -> Vec<String> {
    let one = |u: &Undo| {
        let within: Vec<&str> = u.lies_in.iter().map(|(_, system)| system.as_str()).collect();
        format!("{} {} -> {} in {within:?}", u.object.kind, u.left, u.before)
    };
    undos.iter().map(one).collect()
}

#[test]
fn what_lies_below_the_mount_and_what_lies_in_it_are_reverted_each_to_its_own_state() {
    let records = records(&[WRITE, MOUNT]);
    let ledger = Ledger::of(&records.runs);
    let (undos, _) = ledger.revert_to(0, &project(), &|_| true);
    let expected = [
        r#"path v c -> v b in ["/dev/b"]"#,
        r#"mount mount /dev/b ext4 rw - -> absent in []"#,
        r#"path v a -> absent in ["-"]"#,
    ];
    assert_eq!(reported(&undos), expected);
    let (undos, _) = ledger.revert_from(1, &project(), &|_| true);
    assert_eq!(reported(&undos), expected[..2]);
}

/// A rollback that reached both runs, and of which the part below the mount was left.
#[test]
fn what_a_rollback_did_in_the_mount_takes_nothing_off_below_it() {
    let back: (&str, &[&str]) = (
        "rollback\nundoes\tR0\nundoes\tR1\nplanned\tr/left",
        &["path /srv/m/file|v c|v b", "mount /srv/m|mount /dev/b ext4 rw -|absent"],
    );
    let records = records(&[WRITE, MOUNT, back]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project(), &|_| true), [0]);
    let (undos, _) = ledger.revert_from(0, &project(), &|_| true);
    assert_eq!(reported(&undos), [r#"path v a -> absent in ["-"]"#]);
}

/// The directory for the mount point is new; what is in the file system is not.
#[test]
fn a_new_mount_point_makes_nothing_in_the_file_system_new() {
    let all: (&str, &[&str]) = (
        "converge",
        &[
            "path /srv/m|absent|dir 755 root root",
            "mount /srv/m|absent|mount /dev/b ext4 rw -",
            "path /srv/m/file|v b|v c",
        ],
    );
    let records = records(&[all]);
    let (undos, _) = Ledger::of(&records.runs).revert_to(0, &project(), &|_| true);
    assert!(
        reported(&undos).contains(&r#"path v c -> v b in ["/dev/b"]"#.to_owned()),
        "{:?}",
        reported(&undos)
    );
}

#[test]
fn both_are_managed_each_with_its_original_state_and_the_base_keeps_them_apart() {
    let managed = |text: &str| {
        let records = parse_owned(text);
        assert_eq!(records.broken, Vec::<String>::new());
        let files: Vec<String> = records
            .things
            .iter()
            .filter(|t| t.object.key == FILE)
            .map(|t| format!("{} -> {} in {:?}", t.left, t.before, t.lies_in[0].1))
            .collect();
        (files, records.base.map(|base| base.text).unwrap_or_default())
    };
    let expected = [r#"v a -> absent in "-""#, r#"v c -> v b in "/dev/b""#];
    let (files, base) = managed(&text(&[WRITE, MOUNT]));
    assert_eq!(files, expected);
    let own = base.lines().map(|line| format!("{line}\n")).collect::<String>();
    let again = format!("recorded\tR0\nrecorded\tR1\n{own}");
    assert_eq!(managed(&again).0, expected);
}
