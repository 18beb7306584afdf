//! The variables that a template sees.

/// Names that converge sets itself.
pub const MAGIC: [&str; 10] = [
    "inventory_hostname",
    "inventory_hostname_short",
    "groups",
    "group_names",
    "hostvars",
    "facts",
    "role_name",
    "role_path",
    "playbook_dir",
    "item",
];
