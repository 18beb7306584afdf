//! `converge rollback`: revert what a run changed.

use super::allowed_ids::refuse_unknown_ids;
use super::apply::{ApplyOptions, back, carry_out};
use super::plan::inventory_names;
use crate::args::{RemovalArgs, RollbackArgs, SelectArgs};
use crate::console::Console;
use crate::failure::Failure;
use crate::page::{Page, PagePath};
use crate::project;
use crate::session::{CommandSession, SessionRequest};

pub async fn run(args: RollbackArgs, console: &Console) -> Result<u8, Failure> {
    // Roles limit the changes that are reverted, not the roles that are loaded: a role may have left the playbook since.
    let select = SelectArgs {
        inventories: args.inventories,
        playbook: args.playbook,
        roles_path: args.roles_path,
        limit: args.limit,
        set: args.set,
        vault: args.vault,
        allow_empty: args.allow_empty,
        ..SelectArgs::default()
    };
    let project = project::load(args.target.as_deref(), &select, console)?;
    let names = inventory_names(args.target.as_deref(), &select);
    let removal = RemovalArgs { prune: None, allow_destroy: args.allow_destroy };
    let mut session = CommandSession::open(
        SessionRequest::new(project, &args.connection, &names).with_removal(&removal),
        console,
    )?;
    session.trace_to(args.timings.file)?;
    let page = Page::new(PagePath::of(args.report, args.reports), &names, &session);
    let plan = session.plan_rollback(args.to.as_deref(), &args.roles).await?;
    refuse_unknown_ids(&plan, &removal.allow_destroy)?;
    let rollback = format!("{} --to {}", back(&names, &select), plan.id);
    carry_out(
        session,
        plan,
        ApplyOptions { yes: args.yes, number: None, rollback, page, goes_back: true },
        console,
    )
    .await
}
