//! Notes of a plan on the copies that come to this machine before something is destroyed.

use converge_planner::HostPlan;
use converge_store::Backups;

/// Says in the plan what is brought where before what.
pub(crate) fn note_backups(plan: &mut HostPlan) {
    for item in plan.items.iter_mut().filter(|item| item.is_pending()) {
        let Some(backup) = &item.backup else { continue };
        let of = backup.host.as_ref().map(|host| format!(" of {host}")).unwrap_or_default();
        let folder = match Backups::of(&backup.of) {
            Ok(backups) => backups.folder().to_string(),
            Err(why) => format!("this machine ({why})"),
        };
        item.notes.push(format!("a {}{of} is brought to {folder} first", backup.what));
    }
}
