//! The runs that can be rolled back.

use crate::connect::runs::records;
use crate::context::RunContext;
use crate::tasks::on_each;
use crate::{HostSnapshots, Snapshot};
use converge_ledger::{RunPurpose, RunRecord};
use std::sync::Arc;

/// The snapshots of every host, newest first.
pub(crate) async fn snapshots(context: &Arc<RunContext>) -> Vec<HostSnapshots> {
    let reading = on_each(context, context.targets(), |context, host| async move {
        let (runs, lost, remarks) = match records(&context, &host).await {
            Err(lost) => (Vec::new(), Some(lost), Vec::new()),
            Ok((_, records)) => (list(&records.runs), None, records.broken),
        };
        HostSnapshots { host, runs, lost, remarks }
    });
    reading.await
}

/// Newest first.
fn list(records: &[RunRecord]) -> Vec<Snapshot> {
    let runs = records.iter().rev();
    runs.map(|r| Snapshot {
        run: r.id.clone(),
        time: r.time.clone(),
        operator: r.operator.clone(),
        project: r.scope.project().map(str::to_owned),
        playbook: r.playbook.clone(),
        inventory: r.inventory.clone(),
        roles: r.roles().into_iter().map(str::to_owned).collect(),
        purpose: match &r.purpose {
            RunPurpose::Undo => format!("undo.sh of {}", r.attempts.as_deref().unwrap_or("a run")),
            RunPurpose::Rollback(roles) if !roles.is_empty() => format!("rollback of {}", roles.join(", ")),
            _ if !r.forgotten.is_empty() => "state forget".to_owned(),
            _ if !r.renamed.is_empty() => "state move".to_owned(),
            _ if !r.adopted.is_empty() => "state adopt".to_owned(),
            _ if r.rolls_back.is_empty() => "converge".to_owned(),
            _ => format!("rollback of {}", r.rolls_back.join(", ")),
        },
        changes: r.changes.iter().filter(|c| c.may_have_happened()).count() + r.disowned.len(),
        forgotten: r.forgotten.len(),
        finished: r.finished,
        // Forgetting is for good.
        rolled_back_by: r.rolled_back_by.clone().filter(|_| r.forgotten.is_empty()),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_ledger::parse_records;

    #[test]
    fn a_run_that_only_gave_things_out_of_management_is_listed_with_their_number() {
        let begin = "begin\t1\tpath\t/a\tabsent\tdir\tr/a\t-\ndone\t1\tdir\n";
        let text = format!(
            "converge\t6\nrun\ta\nseq\t1\n{begin}close\tfinished\nrun\tb\nseq\t2\ndisown\tpath\t/a\ndisown\tpath\t/b\nclose\tfinished\n"
        );
        let listed = list(&parse_records(&text).unwrap().runs);
        let changes: Vec<_> = listed.iter().map(|s| (s.run.as_str(), s.changes)).collect();
        assert_eq!(changes, [("b", 2), ("a", 1)]);
    }
}
