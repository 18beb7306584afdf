//! Roles of Ansible, recognised by their folders.

use camino::{Utf8Path, Utf8PathBuf};

/// The folders of an Ansible role, and what stands for them in `role.yaml`.
pub(crate) const ANSIBLE: [(&str, &str); 5] = [
    ("tasks", "write the `resources` of role.yaml"),
    ("handlers", "write `restart_on` at the service"),
    ("defaults", "write `inputs` with a `default` in role.yaml"),
    ("vars", "write `vars` in role.yaml"),
    ("meta", "write `requires` in role.yaml"),
];

/// The file `main.yml` of a folder.
pub(crate) fn main_file(dir: &Utf8Path, folder: &str) -> Option<Utf8PathBuf> {
    ["main.yml", "main.yaml"].iter().map(|name| dir.join(folder).join(name)).find(|path| path.is_file())
}

/// The correction where a role's folder is there, and its file is not: another ending, or a role of Ansible.
pub(crate) fn almost_a_role(dir: &Utf8Path) -> Option<String> {
    let other = dir.join("role.yml");
    if other.is_file() {
        return Some(format!("`{other}` is there: rename it to role.yaml"));
    }
    let ansible = ANSIBLE.iter().find_map(|(folder, _)| main_file(dir, folder))?;
    Some(format!("`{dir}` is a role of Ansible ({ansible}): write {dir}/role.yaml, see docs/ansible.md"))
}
