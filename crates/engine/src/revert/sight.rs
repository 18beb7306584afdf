//! Whether the host shows an object by its name. Pure.

/// Whether the host shows the object of which the records speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Now.
    Now,
    /// Once this plan has mounted or unmounted what is above it. The host compares it then.
    Later,
    /// A link above it leads to another directory, and it is as before in the one in which it was changed.
    AsBefore,
    /// A link above it leads to another directory than the one in which it was changed: why it stays, where nothing in the plan leads that back.
    Elsewhere(String),
    /// Another object goes by its path, and this plan does not change that: why.
    Never(String),
}
