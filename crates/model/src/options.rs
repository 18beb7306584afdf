//! The sources of a project, and the limits of a run.

use camino::Utf8PathBuf;
use converge_syntax::Node;
use converge_template::Moment;

use crate::catalog::KindCatalog;
use crate::inventory::InventorySource;
use crate::role::RolePath;
use crate::vars::SetVariable;
use crate::vault::Vault;

/// The sources of a project, and the limits of the run.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Inventories, in the order of the command line.
    pub inventories: Vec<InventorySource>,
    /// `--playbook`; else the inventory's `converge_playbook`, else `playbooks/site.yaml`.
    pub playbook: Option<Utf8PathBuf>,
    /// Plays that no file holds, instead of a playbook. Variables beside a playbook are not read then.
    pub plays: Option<GivenPlays>,
    /// `--roles-path`: folders in which roles are searched after those of the playbook.
    pub roles_path: Vec<Utf8PathBuf>,
    /// `--set`; of several for one name the last counts.
    pub set: Vec<SetVariable>,
    /// `--limit`.
    pub limit: Option<String>,
    /// `--role`; empty for all.
    pub roles: Vec<String>,
    /// `--start-at`: `ROLE` or `ROLE/ITEM`.
    pub start_at: Option<String>,
    /// `--tags`; empty for all.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// The kinds there are.
    pub catalog: KindCatalog,
    /// Only the inventory: all its hosts, no playbook and no roles.
    pub inventory_only: bool,
    /// Passwords for encrypted values and files.
    pub vault: Vault,
    /// The moment that `now()` and unseeded `random` use: that of a saved plan, else the present one.
    pub moment: Option<Moment>,
    /// Selections that come to nothing are errors: an empty limit or inventory, patterns and tags without a match.
    pub refuse_empty: bool,
}

/// Plays that no file holds: those of a role's scenario.
#[derive(Clone, Debug)]
pub struct GivenPlays {
    /// The name for messages, in place of the path of a playbook.
    pub path: Utf8PathBuf,
    /// A list of plays, as a playbook has it.
    pub plays: Node,
    /// The folders in which roles are searched.
    pub role_path: RolePath,
}
