//! Which runs a cluster keeps. Pure.

use super::{RECORD_LABEL, RUN_LABEL};
use converge_executor::RunEnd;
use converge_ledger::{Ledger, RunRecord};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The number of runs of a project that are kept, those in force before others. Age and size are limited too; the newest good one is kept in every case.
const RUNS: usize = 10;

/// The number of runs of all projects that are kept.
const ALL_RUNS: usize = 100;

const AGE: SignedDuration = SignedDuration::from_hours(30 * 24);

const BYTES: usize = 20 << 20;

/// A recorded run, as its Secrets' metadata tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedRun {
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
pub(crate) fn listed(secrets: &[Value]) -> Vec<ListedRun> {
    let mut runs: BTreeMap<String, ListedRun> = BTreeMap::new();
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
        let run = runs
            .entry(id.to_owned())
            .or_insert_with(|| ListedRun { id: id.to_owned(), ..ListedRun::default() });
        run.bytes += note("converge/bytes").parse::<usize>().unwrap_or(0);
        if labels.get(RECORD_LABEL).and_then(Value::as_str) == Some("run") {
            run.seq = note("converge/seq").parse().ok();
            run.time = note("converge/time").parse().ok();
            run.opened = note("converge/opened").parse().ok();
            run.good = note("converge/result") == RunEnd::Finished.word();
            run.forgets = note("converge/forgets") == "yes";
            note("converge/project").clone_into(&mut run.project);
        }
    }
    let mut runs: Vec<ListedRun> = runs.into_values().collect();
    runs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    runs
}

/// The number of the next run.
pub(crate) fn next_seq(runs: &[ListedRun]) -> u64 {
    runs.iter().filter_map(|r| r.seq).max().map_or(1, |n| n.saturating_add(1))
}

/// The standing of the runs, as their records tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunStanding {
    /// Those that were read.
    known: BTreeSet<String>,
    /// Those of which something is in force.
    in_force: BTreeSet<String>,
    /// The runs that each rollback set out for.
    targets: BTreeMap<String, Vec<String>>,
}

impl RunStanding {
    pub(crate) fn of(runs: &[RunRecord]) -> Self {
        let ledger = Ledger::of(runs);
        let in_force = ledger.changes_in_force().filter_map(|(at, _)| Some(runs.get(at)?.id.clone()));
        Self {
            known: runs.iter().map(|r| r.id.clone()).collect(),
            in_force: in_force.collect(),
            targets: runs.iter().map(|r| (r.id.clone(), r.rolls_back.clone())).collect(),
        }
    }

    /// A run whose record cannot be read may be in force.
    fn is_in_force(&self, run: &ListedRun) -> bool {
        self.in_force.contains(&run.id) || !self.known.contains(&run.id)
    }
}

/// A run that holds what was there before a managed object, and the run that gave this object back.
pub(crate) type Need = (String, Option<String>);

/// Runs that stay or go together: without its rollback a run would be in force again.
struct Set<'a> {
    /// By their places.
    members: BTreeSet<usize>,
    /// The place of the newest one that is in force, where one is.
    in_force: Option<usize>,
    project: &'a str,
    bytes: usize,
}

/// Whether anything could be above a limit: only then the records need to be read.
pub(crate) fn is_full(runs: &[ListedRun], present: &str, now: Timestamp) -> bool {
    let total: usize = runs.iter().map(|r| r.bytes).sum();
    let present = runs.iter().find(|r| r.id == present).and_then(|r| r.time);
    runs.len() > RUNS || total > BYTES || runs.iter().any(|run| is_old(run, present, now))
}

/// Whether a run is too old by the clocks of the controllers and by that of the server: one that is off deletes nothing.
fn is_old(run: &ListedRun, present: Option<Timestamp>, now: Timestamp) -> bool {
    let by_controllers = match (run.time, present) {
        (Some(time), Some(present)) => present.duration_since(time) > AGE,
        _ => true,
    };
    let by_server = run.opened.is_none_or(|opened| now.as_second().saturating_sub(opened) > AGE.as_secs());
    run.time.is_some() && by_controllers && by_server
}

/// The sets of runs that stay or go together, those first that are dropped last: what is in force before what is not, the newest first.
fn sets<'a>(runs: &'a [ListedRun], standing: &RunStanding) -> Vec<Set<'a>> {
    let mut set_of: Vec<usize> = (0..runs.len()).collect();
    for (at, run) in runs.iter().enumerate() {
        let targets = standing.targets.get(&run.id).into_iter().flatten();
        for target in targets.filter_map(|id| runs.iter().position(|r| r.id == *id)) {
            let (from, to) = (set_of.get(target).copied(), set_of.get(at).copied());
            set_of.iter_mut().filter(|set| Some(**set) == from).for_each(|set| *set = to.unwrap_or(*set));
        }
    }
    let mut sets: BTreeMap<usize, Set<'a>> = BTreeMap::new();
    for (at, (run, set)) in runs.iter().zip(set_of).enumerate() {
        let none = Set { members: BTreeSet::new(), in_force: None, project: "", bytes: 0 };
        let set = sets.entry(set).or_insert(none);
        set.members.insert(at);
        set.in_force = Some(at).filter(|_| standing.is_in_force(run)).or(set.in_force);
        set.project = &run.project;
        set.bytes += run.bytes;
    }
    let mut sets: Vec<Set<'a>> = sets.into_values().collect();
    sets.sort_by_key(|set| std::cmp::Reverse((set.in_force, set.members.last().copied())));
    sets
}

/// The runs to drop: what is above the number, the age or the size. What is in force goes last, and of the rest the oldest goes first; never the present
/// run, the newest good one, one that is needed, a rollback without the runs that it set out for, or one that has forgotten objects while a run before it
/// is there, whose changes a rollback would take up again.
pub(crate) fn to_drop(
    runs: &[ListedRun],
    present: &str,
    standing: &RunStanding,
    needs: &[Need],
    now: Timestamp,
) -> Vec<String> {
    let present_time = runs.iter().find(|r| r.id == present).and_then(|r| r.time);
    let newest_good = runs.iter().rev().find(|r| r.good).map(|r| r.id.as_str());
    let sets = sets(runs, standing);
    let has =
        |set: &Set<'_>, id: &str| set.members.iter().any(|at| runs.get(*at).is_some_and(|r| r.id == id));
    // An object that was given back by a rollback of its own run needs this run for the rollback of that rollback alone.
    let is_needed = |set: &Set<'_>| {
        let needs = needs.iter().filter(|(run, _)| has(set, run));
        needs.filter(|(_, by)| !by.as_ref().is_some_and(|by| has(set, by))).count() > 0
    };
    let is_stored =
        |set: &Set<'_>| has(set, present) || newest_good.is_some_and(|id| has(set, id)) || is_needed(set);
    let stored: Vec<bool> = sets.iter().map(is_stored).collect();
    let mut of_project: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = 0;
    let mut drops: Vec<bool> = Vec::new();
    for (set, stored) in sets.iter().zip(&stored) {
        let count = of_project.entry(set.project).or_default();
        let too_many = *count >= RUNS || all >= ALL_RUNS;
        let mut members = set.members.iter().filter_map(|at| runs.get(*at));
        let too_old = members.clone().all(|run| is_old(run, present_time, now));
        let drop = !stored && (too_many || too_old);
        if !drop {
            // Tries to roll a run back that is in force take no place of another one.
            let counted =
                members.by_ref().filter(|r| set.in_force.is_none() || standing.is_in_force(r)).count();
            *count += counted;
            all += counted;
        }
        drops.push(drop);
    }
    let stays = sets.iter().zip(&drops).filter(|(_, drop)| !**drop);
    let mut total: usize = stays.map(|(set, _)| set.bytes).sum();
    for ((set, stored), drop) in sets.iter().zip(&stored).zip(&mut drops).rev() {
        if total > BYTES && !*stored && !*drop {
            total = total.saturating_sub(set.bytes);
            *drop = true;
        }
    }
    let dropped = sets.iter().zip(&drops).filter(|(_, drop)| **drop).flat_map(|(set, _)| &set.members);
    let mut dropped: BTreeSet<usize> = dropped.copied().collect();
    for (at, _) in runs.iter().enumerate().filter(|(_, run)| run.forgets) {
        if (0..at).any(|earlier| !dropped.contains(&earlier)) {
            dropped.remove(&at);
        }
    }
    dropped.into_iter().filter_map(|at| Some(runs.get(at)?.id.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_runs_are_dropped_but_not_what_is_needed() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let day = |n: i64| now.checked_sub(SignedDuration::from_hours(24 * n)).unwrap();
        let run = |n: usize, good: bool| ListedRun {
            id: format!("{n:02}"),
            seq: None,
            time: Some(day(20 - n as i64)),
            opened: None,
            bytes: 1000,
            good,
            forgets: false,
            project: "p".to_owned(),
        };
        let runs: Vec<ListedRun> = (0..13).map(|n| run(n, n == 1)).collect();
        let unread = RunStanding::default();
        let to_drop =
            |runs: &[ListedRun], present: &str, needs: &[Need]| to_drop(runs, present, &unread, needs, now);
        let none = [];
        assert_eq!(to_drop(&runs, "12", &none), ["00", "02"], "01 is the newest good one");
        // Another project's only run stays, however many runs others have made since.
        let mut shared = runs.clone();
        shared[0].project = "q".to_owned();
        assert_eq!(to_drop(&shared, "12", &none), ["02"]);
        let many: Vec<ListedRun> =
            (0..=100).map(|n| ListedRun { project: n.to_string(), ..run(n, false) }).collect();
        let many = many.into_iter().map(|r| ListedRun { time: Some(now), id: format!("{:>3}", r.id), ..r });
        assert_eq!(to_drop(&many.collect::<Vec<_>>(), "100", &none), [" 00"]);
        let needed = [("00".to_owned(), None)];
        assert_eq!(to_drop(&runs, "12", &needed), ["02"]);
        // Forgetting holds as long as there is something before it to take up again.
        let mut forgetting = runs.clone();
        forgetting[2].forgets = true;
        assert_eq!(to_drop(&forgetting, "12", &[]), ["00"], "01 stays, and so does 02");
        forgetting[1].good = false;
        assert_eq!(to_drop(&forgetting, "12", &[]), ["00", "01", "02"]);
        let old = ListedRun { time: Some(day(31)), ..run(1, false) };
        let present = ListedRun { time: Some(now), ..run(2, true) };
        assert_eq!(to_drop(&[old.clone(), present], "02", &none), ["01"]);
        // One wrong clock deletes nothing.
        let (ahead, present) = (Some(day(-400)), Some(day(0).as_second()));
        let off = ListedRun { time: ahead, opened: present, ..run(2, true) };
        let before = ListedRun { opened: Some(day(1).as_second()), ..run(1, false) };
        assert_eq!(to_drop(&[before, off], "02", &none), Vec::<String>::new());
        let big = |n: usize| ListedRun { bytes: 9 << 20, ..run(n, false) };
        assert_eq!(to_drop(&[big(1), big(2), big(3)], "03", &none), ["01"]);
    }

    #[test]
    fn what_is_in_force_stays_before_what_was_rolled_back() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let run =
            |n: usize| ListedRun { id: format!("{n:02}"), project: "p".to_owned(), ..ListedRun::default() };
        // Six runs in force, then five with a rollback behind each.
        let runs: Vec<ListedRun> = (0..16).map(run).collect();
        let rolled_back = |n: usize| n >= 6 && n.is_multiple_of(2);
        let standing = |last: usize| RunStanding {
            known: runs.iter().map(|r| r.id.clone()).collect(),
            in_force: (0..last).filter(|n| *n < 6).map(|n| format!("{n:02}")).collect(),
            targets: (6..last)
                .filter(|n| rolled_back(n - 1))
                .map(|n| (format!("{n:02}"), vec![format!("{:02}", n - 1)]))
                .collect(),
        };
        assert_eq!(to_drop(&runs, "15", &standing(16), &[], now), ["06", "07", "08", "09", "10", "11"]);
        // A rollback stays with the run that it set out for, of which something is needed.
        let needs = [("06".to_owned(), None)];
        assert_eq!(to_drop(&runs, "15", &standing(16), &needs, now), ["08", "09", "10", "11"]);
        // A run that is needed for the rollback of its rollback alone goes with that.
        let given_back = [("06".to_owned(), Some("07".to_owned()))];
        assert_eq!(to_drop(&runs, "15", &standing(16), &given_back, now).len(), 6);
        // Twelve in force and nothing else: the oldest ones.
        let all = RunStanding {
            in_force: (0..12).map(|n| format!("{n:02}")).collect(),
            targets: BTreeMap::new(),
            ..standing(12)
        };
        assert_eq!(to_drop(&runs[..12], "11", &all, &[], now), ["00", "01"]);
    }
}
