//! Which runs a cluster keeps. Pure.

use super::{RECORD_LABEL, RUN_LABEL};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The number of runs of a project that are kept. Age and size are limited too; the newest good one is kept in every case.
const RUNS: usize = 10;

/// The number of runs of all projects that are kept.
const ALL_RUNS: usize = 100;

const AGE: SignedDuration = SignedDuration::from_hours(30 * 24);

const BYTES: usize = 20 << 20;

/// A recorded run, as its Secrets' metadata tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) seq: Option<u64>,
    pub(crate) time: Option<Timestamp>,
    /// When it began by the server's clock, in seconds since 1970.
    pub(crate) opened: Option<i64>,
    pub(crate) bytes: usize,
    /// It ended well.
    pub(crate) good: bool,
    /// It has forgotten objects: it stays as long as a run before it.
    pub(crate) forgets: bool,
    /// Its project; empty in records that do not say so.
    pub(crate) project: String,
}

/// Runs by the metadata of their Secrets, oldest first.
pub(crate) fn listed(secrets: &[Value]) -> Vec<Listed> {
    let mut runs: BTreeMap<String, Listed> = BTreeMap::new();
    for secret in secrets {
        let labels = secret.pointer("/metadata/labels").unwrap_or(&Value::Null);
        let Some(id) = labels.get(RUN_LABEL).and_then(Value::as_str) else { continue };
        let note = |key: &str| {
            secret
                .pointer("/metadata/annotations")
                .and_then(|a| a.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let run =
            runs.entry(id.to_owned()).or_insert_with(|| Listed { id: id.to_owned(), ..Listed::default() });
        run.bytes += note("converge/bytes").parse::<usize>().unwrap_or(0);
        if labels.get(RECORD_LABEL).and_then(Value::as_str) == Some("run") {
            run.seq = note("converge/seq").parse().ok();
            run.time = note("converge/time").parse().ok();
            run.opened = note("converge/opened").parse().ok();
            run.good = note("converge/result") == "finished";
            run.forgets = note("converge/forgets") == "yes";
            note("converge/project").clone_into(&mut run.project);
        }
    }
    let mut runs: Vec<Listed> = runs.into_values().collect();
    runs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    runs
}

/// The number of the next run.
pub(crate) fn next_seq(runs: &[Listed]) -> u64 {
    runs.iter().filter_map(|r| r.seq).max().map_or(1, |n| n.saturating_add(1))
}

/// The runs to drop: what is above the number, the age or the size, the oldest first; never the present one, the newest good one, or
/// one that is needed. One that has forgotten objects is needed while a run before it is there, whose changes a rollback would take up again.
pub(crate) fn to_drop(
    runs: &[Listed],
    present: &str,
    needed: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<String> {
    let present_time = runs.iter().find(|r| r.id == present).and_then(|r| r.time);
    let newest_good = runs.iter().rev().find(|r| r.good).map(|r| r.id.as_str());
    let mut total: usize = runs.iter().map(|r| r.bytes).sum();
    let mut dropped = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let later = runs.get(at + 1..).unwrap_or_default();
        let of_project = later.iter().filter(|r| r.project == run.project).count();
        let too_many = of_project >= RUNS || later.len() >= ALL_RUNS;
        // By the clocks of the controllers and by that of the server: one that is off deletes nothing.
        let by_controllers = match (run.time, present_time) {
            (Some(time), Some(present)) => present.duration_since(time) > AGE,
            _ => true,
        };
        let by_server =
            run.opened.is_none_or(|opened| now.as_second().saturating_sub(opened) > AGE.as_secs());
        let too_old = run.time.is_some() && by_controllers && by_server;
        let stored = run.id == present
            || Some(run.id.as_str()) == newest_good
            || needed.contains(&run.id)
            || (run.forgets && dropped.len() < at);
        if !stored && (too_many || too_old || total > BYTES) {
            total = total.saturating_sub(run.bytes);
            dropped.push(run.id.clone());
        }
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_runs_are_dropped_but_not_what_is_needed() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let day = |n: i64| now.checked_sub(SignedDuration::from_hours(24 * n)).unwrap();
        let run = |n: usize, good: bool| Listed {
            id: format!("{n:02}"),
            seq: None,
            time: Some(day(20 - n as i64)),
            opened: None,
            bytes: 1000,
            good,
            forgets: false,
            project: "p".to_owned(),
        };
        let runs: Vec<Listed> = (0..13).map(|n| run(n, n == 1)).collect();
        let none = BTreeSet::new();
        assert_eq!(to_drop(&runs, "12", &none, now), ["00", "02"], "01 is the newest good one");
        // Another project's only run stays, however many runs others have made since.
        let mut shared = runs.clone();
        shared[0].project = "q".to_owned();
        assert_eq!(to_drop(&shared, "12", &none, now), ["02"]);
        let many: Vec<Listed> =
            (0..=100).map(|n| Listed { project: n.to_string(), ..run(n, false) }).collect();
        let many = many.into_iter().map(|r| Listed { time: Some(now), id: format!("{:>3}", r.id), ..r });
        assert_eq!(to_drop(&many.collect::<Vec<_>>(), "100", &none, now), [" 00"]);
        let needed = BTreeSet::from(["00".to_owned()]);
        assert_eq!(to_drop(&runs, "12", &needed, now), ["02"]);
        // Forgetting holds as long as there is something before it to take up again.
        let mut forgetting = runs.clone();
        forgetting[2].forgets = true;
        assert_eq!(to_drop(&forgetting, "12", &none, now), ["00"], "01 stays, and so does 02");
        forgetting[1].good = false;
        assert_eq!(to_drop(&forgetting, "12", &none, now), ["00", "01", "02"]);
        let old = Listed { time: Some(day(31)), ..run(1, false) };
        let present = Listed { time: Some(now), ..run(2, true) };
        assert_eq!(to_drop(&[old.clone(), present], "02", &none, now), ["01"]);
        // One wrong clock deletes nothing.
        let (ahead, present) = (Some(day(-400)), Some(day(0).as_second()));
        let off = Listed { time: ahead, opened: present, ..run(2, true) };
        let before = Listed { opened: Some(day(1).as_second()), ..run(1, false) };
        assert_eq!(to_drop(&[before, off], "02", &none, now), Vec::<String>::new());
        let big = |n: usize| Listed { bytes: 9 << 20, ..run(n, false) };
        assert_eq!(to_drop(&[big(1), big(2), big(3)], "03", &none, now), ["01"]);
    }
}
