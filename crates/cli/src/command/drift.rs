//! `converge drift`: whether anything differs.

use super::plan;
use crate::args::{DriftArgs, RemovalArgs};
use crate::console::Console;
use crate::failure::Failure;

pub async fn run(args: DriftArgs, console: &Console) -> Result<u8, Failure> {
    let (found, _) = plan::make(
        args.target.as_deref(),
        &args.select,
        &args.connection,
        &RemovalArgs::default(),
        plan::OutputFiles { report: args.report, timings: args.timings.file },
        console,
    )
    .await?;
    plan::show(&found, console);
    Ok(found.exit_code())
}
