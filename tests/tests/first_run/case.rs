//! The form of a case.

/// One case.
pub struct Case {
    /// The subject.
    pub name: &'static str,
    /// Its runs, one after the other on the same host.
    pub runs: &'static [Run],
}

/// A plan and an apply.
pub struct Run {
    /// A script on the host before it.
    pub before: &'static str,
    /// The items of the role.
    pub role: &'static str,
    /// Each resource with what the plan says of it and what the apply makes of it.
    pub items: &'static [(&'static str, &'static str, &'static str)],
    /// Words that the plan shows of an item.
    pub shows: &'static [(&'static str, &'static [&'static str])],
    /// Words that the apply's report has of an item.
    pub tells: &'static [(&'static str, &'static [&'static str])],
    /// Scripts that succeed afterwards.
    pub then: &'static [&'static str],
    /// Beginnings of paths that foreign code (packages, units, commands, `useradd`) may change.
    pub foreign: &'static [&'static str],
    /// Paths that one item makes and a later one takes away again.
    pub passing: &'static [&'static str],
    /// Items that have nothing to do until foreign code of the same run gives them some.
    pub moved: &'static [&'static str],
    /// The run is refused with this message, and changes nothing.
    pub refused: Option<&'static str>,
    /// The second plan is empty. Not if the case itself makes drift at its end.
    pub settles: bool,
}

/// A run of which nothing but its items is known.
pub const RUN: Run = Run {
    before: "",
    role: "",
    items: &[],
    shows: &[],
    tells: &[],
    then: &[],
    foreign: &[],
    passing: &[],
    moved: &[],
    refused: None,
    settles: true,
};

/// Files of the accounts' database and its locks and copies.
pub const ACCOUNTS: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/subgid",
    "/etc/.pwd.lock",
    "/home/",
];

/// Links that systemctl makes.
pub const UNITS: &[&str] = &["/etc/systemd/system/"];
