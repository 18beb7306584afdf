//! The options of a test run.

use converge_model::KindCatalog;
use converge_model::inventory::InventorySource;
use converge_model::vault::Vault;
use secrecy::SecretString;

/// Which hosts scenarios run on.
#[derive(Clone, Debug)]
pub enum Where {
    /// Hosts that are made for each scenario and thrown away after it.
    ThrowAway,
    /// Hosts that are there already, one scenario after the other.
    Inventory(Given),
    /// None: recorded answers.
    Recorded,
}

/// Hosts that are there already.
#[derive(Clone, Debug)]
pub struct Given {
    /// The files that describe them.
    pub inventories: Vec<InventorySource>,
    /// Their names; a scenario takes the first ones.
    pub names: Vec<String>,
}

/// The options of a test run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// On which hosts.
    pub hosts: Where,
    /// The kinds there are.
    pub catalog: KindCatalog,
    /// Scenarios at once at most.
    pub jobs: usize,
    /// Leave the hosts of a scenario that fails as the failure left them.
    pub keep: bool,
    /// Write down what the hosts answered, for pure runs.
    pub record: bool,
    /// Inject drift into the objects that the role manages.
    pub inject_drift: bool,
    /// The operator, `user@machine`: recorded on hosts.
    pub operator: String,
    /// Decrypts values of an inventory.
    pub vault: Vault,
    /// The password for sudo, for hosts of an inventory.
    pub become_password: Option<SecretString>,
}
