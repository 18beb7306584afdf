//! All runs that a host or a cluster has recorded.

use crate::Ledger;
use crate::record::{FORMAT, RecordError, Records, RunReader, RunRecord, clip};
use crate::renaming::rename_earlier;
use converge_resource::decode_field;

/// Reads all runs of a host, as its functions print them. A line that is not understood does not hide the others.
///
/// # Errors
/// Another format, or lines that no converge writes before the first run.
pub fn parse_records(output: &str) -> Result<Records, RecordError> {
    let mut records = Records::default();
    let mut runs: Vec<RunReader> = Vec::new();
    // A line without its end was cut off while it was written (power, full disk): it counts as not written.
    for (n, line) in output.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        match (fields.as_slice(), runs.last_mut()) {
            (["converge", FORMAT], None) => {}
            (["converge", other], None) => {
                return Err(RecordError(format!("they have format {other}, this converge reads {FORMAT}")));
            }
            (["now", seconds], None) => records.now = seconds.parse().ok(),
            (["broken", what], None) => records.broken.push(decode_field(what).unwrap_or_default()),
            (["run", id], _) => runs.push(RunReader::new(id)),
            (_, None) => return Err(RecordError(format!("line {}: {}", n + 1, clip(line)))),
            (fields, Some(run)) => run.read(fields),
        }
    }
    records.runs = runs.into_iter().map(RunReader::end_of_run).collect();
    in_order(&mut records.runs);
    records.broken.extend(records.runs.iter().filter_map(|r| r.broken.clone()));
    Ok(records)
}

/// Sorts runs, oldest first, renames the recorded objects to their present names, and notes which later run rolled each of them back, or tried to. Runs without a number come first, by
/// their IDs, which hold the time; the others by their numbers.
pub fn in_order(runs: &mut [RunRecord]) {
    runs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    rename_earlier(runs);
    let marks = Ledger::of(runs).marks();
    for (run, (by, in_part)) in runs.iter_mut().zip(marks) {
        run.rolled_back_by = by;
        run.rolled_back_in_part = in_part;
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
