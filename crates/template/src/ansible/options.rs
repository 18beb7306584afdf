//! Options of `ansible-playbook`, `ansible` and `ansible-inventory`.

use super::AnsibleName;
use super::AnsibleSort::CommandOption;

/// The options that mean the same here, for the page.
pub(super) const SAME: &str = "The same here: `-i` `--inventory`, `-l` `--limit`, `-e` `--extra-vars` (also `--set`; NAME=VALUE, several with spaces between them), `-t` `--tags`, \
    `--skip-tags`, `-f` `--forks`, `-u` `--user`, `-K` `--ask-become-pass`, `--become-password-file`, `-J` `--ask-vault-pass`, `--vault-id`, `--vault-password-file`, `-v`, `--step`; `-C` `--check` \
    and `-D` `--diff` of `plan` and `drift`, which never change anything and always show the difference; `-b` `--become` and `--become-user` of `run`; \
    `--list`, `--graph`, `--host`, `--yaml`, `--export`, `--vars` and `--playbook-dir` of `inventory`.\n\n";

const fn option(name: &'static str, also: &'static [&'static str], instead: &'static str) -> AnsibleName {
    AnsibleName { sort: CommandOption, name, also, kinds: &[], instead, is_imported: false, expression: "" }
}

/// Options that are other ones here, or are not.
pub(super) const OPTIONS: &[AnsibleName] = &[
    option("--check", &["-C"], "`converge plan INVENTORY` shows what would change, and changes nothing"),
    option("--diff", &["-D"], "a plan always shows the difference; `--full-diff` shows long ones whole"),
    option(
        "--list-hosts",
        &[],
        "`converge inventory INVENTORY --graph` lists the hosts; `--limit PATTERN` selects some",
    ),
    option(
        "--list-tasks",
        &[],
        "`converge graph INVENTORY` shows the roles in order, `converge explain ROLE` the resources of one",
    ),
    option("--list-tags", &[], "`converge explain ROLE` shows the resources of a role"),
    option(
        "--syntax-check",
        &[],
        "`converge validate INVENTORY` checks everything that can be known without contact to a host",
    ),
    option(
        "--become",
        &["-b"],
        "write `ansible_become: true` in the inventory, or --set ansible_become=true",
    ),
    option(
        "--become-user",
        &[],
        "write `ansible_become_user` in the inventory, or `become_user` at a resource",
    ),
    option("--become-method", &[], "write `ansible_become_method` in the inventory: sudo, su or doas"),
    option(
        "--ask-pass",
        &["-k"],
        "use keys and the agent; a password comes from the inventory (`ansible_password`, encrypted), or --set ansible_password=@FILE",
    ),
    option("--connection-password-file", &["--conn-pass-file"], "write --set ansible_password=@FILE"),
    option(
        "--private-key",
        &["--key-file"],
        "write `ansible_ssh_private_key_file` in the inventory, or --set ansible_ssh_private_key_file=FILE",
    ),
    option("--connection", &["-c"], "write `ansible_connection` in the inventory: ssh or local"),
    option(
        "--timeout",
        &["-T"],
        "write `ansible_timeout` in the inventory, or --set ansible_timeout=SECONDS",
    ),
    option(
        "--ssh-common-args",
        &["--ssh-extra-args"],
        "write `ansible_ssh_common_args` in the inventory, or an entry in ~/.ssh/config",
    ),
    option(
        "--scp-extra-args",
        &["--sftp-extra-args"],
        "files travel in the one connection; there is no scp and no sftp",
    ),
    option("--start-at-task", &[], "write --start-at ROLE/RESOURCE"),
    option("--flush-cache", &[], "facts are gathered in every run that reads them; there is no cache"),
    option("--force-handlers", &[], "a pending restart is remembered on the host; the next run makes it"),
    option("--module-path", &["-M"], "kinds come with converge; there are no modules"),
    option(
        "--module-name",
        &["-m", "--args", "-a"],
        "write the command behind `--`: converge run PATTERN -i INVENTORY -- CMD",
    ),
    option(
        "--background",
        &["-B", "--poll", "-P"],
        "`converge run` streams the output; --timeout SECONDS bounds it",
    ),
    option("--one-line", &["-o", "--tree"], "`--output json` gives one document"),
    option("--toml", &[], "write --yaml; without it the output is JSON"),
];
