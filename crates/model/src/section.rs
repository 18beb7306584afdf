//! The lists of a role, and the keys that all of their entries may have.

/// The keys that an item of any kind may have.
pub const COMMON_KEYS: [&str; 11] = [
    "name",
    "id",
    "when",
    "for_each",
    "tags",
    "register",
    "become_user",
    "sensitive",
    "disruption",
    "guard",
    "guard_seconds",
];

/// The list of a role that an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Preconditions.
    Check,
    /// The declared resources.
    Resources,
    /// Postconditions.
    Verify,
}

impl Section {
    pub(crate) const ALL: [Self; 3] = [Self::Check, Self::Resources, Self::Verify];

    /// The key in the role's file.
    pub fn key(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Resources => "resources",
            Self::Verify => "verify",
        }
    }
}
