//! Several scenarios side by side.

use crate::discover::Case;
use crate::options::{RunOptions, Where};
use crate::report::{CaseReport, ScenarioEvent};
use crate::{pure, real};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

/// Runs all cases and returns their reports in the same order. Progress is reported as it happens.
pub fn run(cases: &[Case], options: &RunOptions, progress: &Sender<ScenarioEvent>) -> Vec<CaseReport> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    // The longest cases begin first.
    order.sort_by_key(|number| !cases.get(*number).is_some_and(Case::is_whole));
    let queue: Mutex<VecDeque<usize>> = Mutex::new(order.into());
    let reports: Mutex<Vec<Option<CaseReport>>> = Mutex::new(vec![None; cases.len()]);
    let jobs = match options.hosts {
        Where::Inventory(_) => 1,
        Where::ThrowAway | Where::Recorded => options.jobs.clamp(1, cases.len().max(1)),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(number) = next() {
                    let Some(case) = cases.get(number) else { continue };
                    let report = one(case, number, options, progress.clone());
                    let _gone =
                        progress.send(ScenarioEvent::Over { case: number, report: Box::new(report.clone()) });
                    let mut all = reports.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(place) = all.get_mut(number) {
                        *place = Some(report);
                    }
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.into_iter().flatten().collect()
}

fn one(case: &Case, number: usize, options: &RunOptions, progress: Sender<ScenarioEvent>) -> CaseReport {
    if matches!(options.hosts, Where::Recorded) {
        return pure::run(case, number, options, &progress);
    }
    // A thread of its own: making hosts blocks, and other scenarios must not wait for it.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let report = runtime.block_on(real::run(case, number, options, progress));
            runtime.shutdown_background();
            report
        }
        Err(error) => crate::report::broken(case, &format!("no thread for it: {error}")),
    }
}
