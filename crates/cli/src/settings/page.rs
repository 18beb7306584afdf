//! `docs/settings.md`.

use super::keys::KEYS;
use super::{FILE, FILE_VARIABLE};
use std::fmt::Write as _;

const HEAD: &str = "\
# Settings

Written by `cargo xtask generate` from the table of settings in the binary.

The settings of a project stand in `converge.toml`. A command reads the nearest one from the working folder upwards, so that `converge plan` works anywhere in
a project without an inventory:

```toml
#:schema ./.converge/settings.json
inventory = \"inventories/prod.yaml\"
vault_ids = [\"prod@~/.vault-prod\"]
forks = 50
```

Relative paths are relative to the folder of the file, `~/` is the home folder. Each setting is also an environment variable, whose relative paths are relative
to the working folder. The first of these counts, for each setting by itself: the command line, the environment, the file, the default. `converge settings` shows
the values that are in force with their sources.

| key | variable | option | value | default |
|---|---|---|---|---|
";

const TAIL: &str = "
Lists in variables: paths are separated by `:`, vault passwords by `,`; names of hosts with commas are one inventory. An empty variable is not set.

One inventory on the command line takes the place of all that are set, and one option for vault passwords that of `vault_ids`; the variables of Ansible for these
([inventory.md](inventory.md#encrypted-values)) count beside the setting. `converge test` takes `vault_ids` alone: it never tests on the hosts of the inventory unless asked to.
A saved plan keeps inventory, playbook, roles path and vault passwords as they were when it was made.

## Files that others may write

Whoever writes these settings decides which programs run here and on the hosts, and which files are written. So they count only from a file that nobody else may write:
the file and its folder belong to you or to root (with sudo also: to the user who called it), and neither everybody nor a group with other members may write
them. From another file they are ignored, with a warning that names the reason and the correction: ";

const END: &str = "

## ansible.cfg

What an `ansible.cfg` says about inventory and connection counts where nothing else does: that of the variable `ANSIBLE_CONFIG`, else the one in the working folder, else the one
beside the settings of the project. `inventory`, `remote_user`, `forks`, `roles_path`, `vault_password_file` and `vault_identity_list` are the settings of these names here. `private_key_file`, `remote_port`,
`timeout`, `host_key_checking`, `become`, `become_user`, `become_method`, `ssh_args`, `ssh_common_args` and `ssh_extra_args` are variables of the connection (`ansible_become` and so on) for hosts whose
inventory sets none of the name. `converge settings` shows all of them with their places, and the keys about connections that mean nothing here. A file that somebody else may write is ignored, with a warning.

## Mistakes

Unknown keys, wrong types and values that cannot be are errors with file, line and column, all of them at once, before anything else is read. `converge schema settings`
prints a JSON Schema for editors ([editors.md](editors.md)); `converge init` writes a file with its first line.
";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for key in &KEYS {
        let options: Vec<String> = key.option.split(", ").map(|option| format!("`{option}`")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "| `{}` | `{}` | {} | {}: `{}` | {} |",
            key.key,
            key.variable(),
            options.join(", "),
            key.help,
            key.example,
            key.default
        );
    }
    let guarded: Vec<String> =
        KEYS.iter().filter(|key| key.needs_trust).map(|key| format!("`{}`", key.key)).collect();
    let _ = write!(
        page,
        "{TAIL}{}.\nThe variable `{FILE_VARIABLE}=FILE` names a file, which then counts in whole whoever may write it; no `{FILE}` is searched then.{END}",
        guarded.join(", ")
    );
    page
}
