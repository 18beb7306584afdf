//! `converge drift`: whether anything differs.

use super::plan;
use crate::args::{Drift, Removal};
use crate::console::Console;
use crate::failure::Failure;

pub async fn run(args: Drift, console: &Console) -> Result<u8, Failure> {
    let (found, _) = plan::make(
        args.target.as_deref(),
        &args.select,
        &args.connection,
        &Removal::default(),
        plan::OutputFiles { report: args.report, timings: args.timings.file },
        console,
    )
    .await?;
    plan::show(&found, console);
    Ok(found.exit_code())
}
