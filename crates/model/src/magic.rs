//! The variables that converge sets itself.

/// Names that converge sets itself.
pub const MAGIC: [&str; 12] = [
    "inventory_hostname",
    "inventory_hostname_short",
    "groups",
    "group_names",
    "hostvars",
    "facts",
    "facts_before",
    "role_name",
    "role_path",
    "role_names",
    "playbook_dir",
    "item",
];
