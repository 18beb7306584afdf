//! `docs/reference-systems.md` says of each row which role does it and which file shows it: these are there.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test does")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The rows of each system, by the number before the point.
const ROWS: [(&str, usize); 5] = [("3", 48), ("4", 31), ("0", 21), ("1", 21), ("2", 13)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row: number, thing, state, role, and the last column.
struct Row {
    number: String,
    state: String,
    role: String,
    proof: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/reference-systems.md")).unwrap();
    let cells =
        |line: &str| line.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect::<Vec<_>>();
    let is_row = |line: &&str| {
        line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.lines()
        .filter(is_row)
        .map(|line| {
            let [number, _, state, role, proof] = <[String; 5]>::try_from(cells(line)).unwrap();
            Row { number, state, role, proof }
        })
        .collect()
}

/// The words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_row_is_there_once_and_none_is_without_a_reason() {
    let all = rows();
    let mut numbers: Vec<&str> = all.iter().map(|row| row.number.as_str()).collect();
    for (system, count) in ROWS {
        let own = all.iter().filter(|row| row.number.split('.').next() == Some(system)).count();
        assert_eq!(own, count, "rows of {system}");
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all.len(), "a row is there twice");
    for row in &all {
        assert!(!row.proof.is_empty(), "{} says nothing", row.number);
    }
}

#[test]
fn the_roles_and_files_of_a_row_are_there() {
    for Row { number, state, role, proof } in rows() {
        assert!(["works", "left out", "open"].contains(&state.as_str()), "{number}: {state}");
        let role = role.trim_matches('`');
        assert!(
            role == "–" || root().join("roles").join(role).join("role.yaml").is_file(),
            "{number}: {role}"
        );
        let files: Vec<&str> = quoted(&proof).filter(|word| word.contains('/')).collect();
        for file in &files {
            assert!(root().join(file).is_file(), "{number}: there is no {file}");
        }
        let shown = |file: &&str| file.contains("/tests/") || file.ends_with("_tests.rs");
        assert!(state != "works" || files.iter().any(shown), "{number} works, and no test shows it");
    }
}

#[test]
fn every_trap_has_a_test_that_holds_its_safeguard() {
    let text = std::fs::read_to_string(root().join("docs/reference-systems.md")).unwrap();
    let is_trap = |line: &&str| {
        line.strip_prefix("| T").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let traps: Vec<&str> = text.lines().filter(is_trap).collect();
    assert_eq!(traps.len(), 25, "{traps:?}");
    for (n, trap) in traps.iter().enumerate() {
        assert!(trap.starts_with(&format!("| T{} | ", n + 1)), "{trap}");
        let held = trap.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(quoted(held).next().is_some(), "nothing holds it: {trap}");
        for file in quoted(held) {
            assert!(root().join(file).is_file(), "there is no {file}: {trap}");
        }
    }
}

#[test]
fn the_counts_at_the_top_are_those_of_the_rows() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows() {
        *counts.entry(row.state).or_default() += 1;
    }
    let count = |state: &str| counts.get(state).copied().unwrap_or_default();
    let line = format!("| all | | 134 | {} | {} | {} |", count("works"), count("left out"), count("open"));
    let text = std::fs::read_to_string(root().join("docs/reference-systems.md")).unwrap();
    assert!(text.contains(&line), "{line}");
}
