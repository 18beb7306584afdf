//! Terms of plays and roles that mean the same where they are declared and where they are planned.

/// A number of hosts, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// So many hosts; zero means all, as in Ansible.
    Hosts(usize),
    /// So many percent.
    Percent(f64),
}

/// The number of hosts of a play that must be available for later disruptive batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinAvailable {
    /// A number, or a share.
    Share(Share),
    /// More than half.
    Majority,
}

/// An edge between roles: `from` requires `to`, which comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleEdge<S> {
    /// The role that requires.
    pub from: String,
    /// The role that is required.
    pub to: String,
    /// The place in `requires` or `after`.
    pub span: S,
}

impl Share {
    /// The number for `all` hosts: percentages are rounded down, to one host at least.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Hosts(0) => all,
            Self::Hosts(n) => n,
            Self::Percent(percent) => percent_of(percent, all).max(1),
        }
    }
}

/// `percent` of `all`, rounded down.
fn percent_of(percent: f64, all: usize) -> usize {
    // The largest n whose share is not above it: no float becomes an integer.
    (1..=all).take_while(|n| percentage(*n, all) <= percent).last().unwrap_or(0)
}

/// `part` of `all`, in percent; 0 if `all` is 0.
pub fn percentage(part: usize, all: usize) -> f64 {
    let number = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if all == 0 { 0.0 } else { number(part) * 100.0 / number(all) }
}

impl MinAvailable {
    /// Whether it allows a disruption while so many of all hosts are there.
    pub fn holds(self, there: usize, all: usize) -> bool {
        match self {
            Self::Share(Share::Hosts(n)) => there >= n.min(all),
            Self::Share(Share::Percent(percent)) => percentage(there, all) >= percent,
            Self::Majority => there * 2 > all,
        }
    }
}

impl std::fmt::Display for MinAvailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Share(Share::Hosts(n)) => write!(f, "{n}"),
            Self::Share(Share::Percent(percent)) => write!(f, "{percent} %"),
            Self::Majority => f.write_str("a majority"),
        }
    }
}
