//! Units that a run has restarted for what an earlier run, which was cut off or failed before that, has changed: the state before them is that of a
//! process which runs with what is not there any more. Pure, and by the records alone.

use crate::revert::JudgedUndo;
use crate::revert::order::may_run_with;
use crate::revert::undo::Verdict;
use converge_ledger::{Ledger, RunRecord, SavedChange, SavedOutcome, Undo};
use converge_objects::UnitState;
use converge_resource::State;
use std::collections::BTreeSet;

/// Said of a unit that stays, or is started with what is there.
const INPUTS_STAY: &str =
    "an earlier run, which is not reverted, has changed what it runs with: it goes back with that run";

/// Marks the units of which an earlier run, that is not among `reverted`, has changed what they run with, and did not come to start them again.
pub(crate) fn mark_inputs_that_stay(
    undos: &mut [Undo],
    ledger: &Ledger<'_>,
    runs: &[RunRecord],
    reverted: &[usize],
) {
    for undo in undos.iter_mut().filter(|undo| undo.object.kind == "unit") {
        let Some(first) = ledger.place(&undo.run) else { continue };
        let of_unit = |change: &&SavedChange| change.object == undo.object;
        let changes = reverted.iter().filter_map(|at| runs.get(*at)).flat_map(|run| &run.changes);
        let items: BTreeSet<&str> = changes.filter(of_unit).map(|change| change.item.as_str()).collect();
        let is_settled = |run: &RunRecord| {
            let done = |change: &SavedChange| change.outcome == SavedOutcome::Done;
            run.changes.iter().filter(of_unit).any(done)
        };
        // Since it was last started.
        let earlier = runs.iter().enumerate().take(first).rev().take_while(|(_, run)| !is_settled(run));
        let open = earlier.filter(|(at, run)| {
            !reverted.contains(at) && run.planned.iter().any(|item| items.contains(item.as_str()))
        });
        let open: BTreeSet<usize> = open.map(|(at, _)| at).collect();
        // The scripts of a package restart what runs of it.
        let is_input = |change: &SavedChange| {
            change.object.kind != "package" && may_run_with(&undo.object, &undo.item, change)
        };
        undo.inputs_stay =
            ledger.changes_in_force().any(|(at, change)| open.contains(&at) && is_input(change));
    }
}

/// Says which units start with what is there.
pub(crate) fn notes(members: &[JudgedUndo]) -> Vec<String> {
    let with_inputs = members.iter().filter(|m| m.in_part && m.undo.inputs_stay);
    with_inputs.map(|m| format!("{}: {INPUTS_STAY}", m.undo.object)).collect()
}

/// A unit that ran without a record of what it was started with cannot be brought back apart from that.
pub(crate) fn judge(undo: &Undo) -> Option<Verdict> {
    let ran = matches!(UnitState::try_from(undo.before.clone()),
        Ok(UnitState::Unit { active, started: None, .. }) if active == "active");
    (undo.inputs_stay && undo.object.kind == "unit" && ran).then(|| Verdict::Stays(INPUTS_STAY.to_owned()))
}

/// The state of a unit that is not recorded as started with what is there; none of any other state.
pub(crate) fn without_record(state: &State) -> Option<State> {
    match UnitState::try_from(state.clone()) {
        Ok(UnitState::Unit { enabled, active, started: Some(_) }) => {
            Some(UnitState::Unit { enabled, active, started: None }.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_ledger::{ProjectName, ProjectScope, parse_records};

    const FIRST: &str =
        "begin\t1\tunit\tu.service\tabsent\tunit static active d1\tr/u\t-\ndone\t1\tunit static active d1\n";
    const LAST: &str = "begin\t1\tunit\tu.service\tunit static active d1\tunit static active d2\tr/u\t-\ndone\t1\tunit static active d2\n";

    /// Whether the input of the unit that the third run restarts stays in a rollback from this run on; `between` is the record of the second one.
    fn stays(between: &str, from: usize) -> bool {
        let run = |(n, text): (usize, &str)| {
            format!(
                "run\tr{n}\nversion\t4\nseq\t{n}\nscope\tp.yaml\thosts.yaml\npurpose\tconverge\n{text}close\tfinished\t1\n"
            )
        };
        let text: String = [FIRST, between, LAST].into_iter().enumerate().map(run).collect();
        let records = parse_records(&format!("converge\t6\n{text}")).unwrap();
        assert_eq!(records.broken, Vec::<String>::new());
        let project =
            ProjectScope(ProjectName { playbook: "p.yaml".to_owned(), inventory: "hosts.yaml".to_owned() });
        let ledger = Ledger::of(&records.runs);
        let (mut undos, reverted) = ledger.revert_from(from, &project, &|_| true);
        mark_inputs_that_stay(&mut undos, &ledger, &records.runs, &reverted);
        undos.iter().any(|undo| undo.inputs_stay)
    }

    #[test]
    fn an_earlier_run_that_did_not_come_to_the_restart_has_changed_its_inputs() {
        let input = |role: &str| {
            format!(
                "planned\t{role}/u\nbegin\t1\tpath\t/srv/x\tabsent\tdir 755 root root\t{role}/x\t-\ndone\t1\tdir 755 root root\n"
            )
        };
        assert!(stays(&input("r"), 2));
        assert!(!stays(&input("r"), 1), "it is reverted with it");
        assert!(!stays(&input("other"), 2));
        assert!(!stays(&input("r").replace("planned", "remark"), 2), "it had nothing to restart");
        assert!(!stays("planned\tr/u\n", 2), "it has changed nothing");
        let package = "planned\tr/u\nbegin\t1\tpackage\tsl\tabsent\tpresent 1 manual -\tr/x\t-\ndone\t1\tpresent 1 manual -\n";
        assert!(!stays(package, 2), "a package restarts what runs of it");
        // Cut off in the restart, or come to its end.
        let restart = LAST.replace("\t1\t", "\t2\t");
        assert!(stays(&(input("r") + restart.split("done").next().unwrap()), 2));
        assert!(!stays(&(input("r") + &restart), 2));
    }
}
