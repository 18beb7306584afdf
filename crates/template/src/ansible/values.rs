//! Parameters of modules, facts, and variables that Ansible sets.

use super::AnsibleName;
use super::AnsibleSort::{Parameter, Variable};

type ValueNames = &'static [&'static str];

/// The lead of the table of facts, for the page.
pub(super) const FACTS: &str = "Facts are in `facts`, without a prefix: [facts.md](facts.md) lists them. The same here: `inventory_hostname` `inventory_hostname_short` `groups` \
    `group_names` `hostvars` `role_name` `role_path` `playbook_dir` `item`. \
    Facts of another host are `hostvars['h2'].facts`, and need no `gather_facts` there: [they are read](facts.md#facts-of-other-hosts) of every host that is named, outside `--limit` too.\n\n";

const fn parameter(
    name: &'static str,
    also: ValueNames,
    kinds: ValueNames,
    instead: &'static str,
) -> AnsibleName {
    AnsibleName { sort: Parameter, name, also, kinds, instead, is_imported: false, expression: "" }
}

const fn variable(name: &'static str, also: ValueNames, instead: &'static str) -> AnsibleName {
    AnsibleName { sort: Variable, name, also, kinds: &[], instead, is_imported: false, expression: "" }
}

/// A variable with an expression that has the same value.
const fn equal(
    name: &'static str,
    also: ValueNames,
    instead: &'static str,
    expression: &'static str,
) -> AnsibleName {
    AnsibleName { sort: Variable, name, also, kinds: &[], instead, is_imported: false, expression }
}

/// Parameters and variables that have other names here, or none.
pub(super) const VALUES: &[AnsibleName] = &[
    parameter(
        "src",
        &[],
        &["file"],
        "write `source` for a file below files/, `template` for one below templates/",
    ),
    parameter("src", &[], &["archive", "mount"], "write `source`"),
    parameter("src", &[], &["link"], "write `target`: the path that the link points to"),
    parameter("src", &[], &["structured"], "write `set` with the values, or the kind `file` with `source`"),
    parameter(
        "dest",
        &[],
        &["file", "directory", "link", "download", "archive", "line", "block", "structured"],
        "write `path`",
    ),
    parameter(
        "state",
        &[],
        &["file", "directory", "link"],
        "what shall not be there is the kind `absent`; a folder is the kind `directory`, a link `link`",
    ),
    parameter(
        "state",
        &[],
        &["download", "archive", "hostname"],
        "leave it out; what shall not be there is the kind `absent`",
    ),
    parameter(
        "state",
        &[],
        &["sysctl"],
        "leave it out; a resource that is taken out is restored with `--prune`",
    ),
    parameter(
        "minute",
        &["hour", "day", "month", "weekday"],
        &["cron"],
        "write `schedule`: \"MINUTE HOUR DAY MONTH WEEKDAY\", such as \"0 3 * * *\"",
    ),
    parameter("special_time", &[], &["cron"], "write `schedule`: \"@daily\", \"@reboot\""),
    parameter("job", &[], &["cron"], "write `run`"),
    parameter("cron_file", &[], &["cron"], "write `name`: the file in /etc/cron.d has this name"),
    parameter(
        "update_cache",
        &["cache_valid_time"],
        &["package"],
        "write `max_age`: the greatest age of the package index in seconds; without it a missing index is fetched",
    ),
    parameter("pkg", &[], &["package"], "write `name`"),
    parameter(
        "autoremove",
        &["force", "dpkg_options", "install_recommends", "allow_unauthenticated"],
        &["package"],
        "leave it out; `converge explain package` says what is installed and removed",
    ),
    parameter("cmd", &["argv", "_raw_params"], &["command", "query"], "write `run`"),
    parameter("removes", &[], &["command"], "write `unless`, a command: test ! -e FILE"),
    parameter("environment", &[], &["command", "query"], "write `env`"),
    parameter("executable", &[], &["command", "query"], "write it in `run`, which is shell text"),
    parameter(
        "stdin_add_newline",
        &[],
        &["command", "query"],
        "leave it out: `stdin` is given as it is written, and `stdin: |` ends with a newline",
    ),
    parameter(
        "backup",
        &[],
        &[],
        "leave it out: the state before each change is saved, and `converge rollback` restores it",
    ),
    parameter("remote_src", &[], &["archive"], "write `on_host`"),
    parameter("follow", &["directory_mode", "lstrip_blocks"], &["file"], "leave it out"),
    parameter("recurse", &[], &["directory"], "write a resource for each path"),
    parameter(
        "daemon_reload",
        &[],
        &["service", "unit"],
        "leave it out: systemd is reloaded where a unit's file has changed",
    ),
    parameter("sha256sum", &[], &["download"], "write `checksum`"),
    parameter(
        "validate_certs",
        &[],
        &["download"],
        "leave it out: certificates and checksum are always checked",
    ),
    parameter("repo", &[], &["apt_repository"], "write `uris`, `suites` and `components`"),
    parameter("filename", &[], &["apt_repository"], "write `name`"),
    parameter("key_file", &[], &["git"], "write `ssh_key`"),
    parameter(
        "accept_hostkey",
        &[],
        &["git"],
        "leave it out; write the key with `line` in /etc/ssh/ssh_known_hosts",
    ),
    parameter("opts", &[], &["mount"], "write `options`"),
    parameter("key_options", &[], &["authorized_key"], "write `options`"),
    parameter("sysctl_file", &[], &["sysctl"], "write `file`"),
    parameter("sysctl_set", &["reload"], &["sysctl"], "leave it out: the value is set and kept in a file"),
    parameter("search_regex", &[], &["wait_for"], "write `contains`"),
    parameter("sleep", &["delay"], &["wait_for"], "write `every`"),
    parameter("path", &[], &["wait_for"], "write `file`"),
    parameter("insertafter", &[], &["line", "block"], "write `insert_after`"),
    parameter("insertbefore", &[], &["line", "block"], "write `insert_before`"),
    parameter(
        "definition",
        &["resource_definition"],
        &["k8s_object"],
        "write the object itself: `kind`, `metadata`, `spec`",
    ),
    parameter("namespace", &[], &["k8s_object"], "write it in `metadata`"),
    parameter("release_name", &[], &["helm_release"], "write `name`"),
    parameter("release_namespace", &[], &["helm_release"], "write `namespace`"),
    parameter("chart_ref", &[], &["helm_release"], "write `chart`"),
    parameter("chart_version", &[], &["helm_release"], "write `version`"),
    parameter("chart_repo_url", &[], &["helm_release"], "write `repository`"),
    parameter("release_values", &[], &["helm_release"], "write `values`"),
    equal("hostname", &["nodename"], "write `facts.hostname`", "facts.hostname"),
    variable("fqdn", &["domain"], "write `inventory_hostname`, or `facts.hostname` for the host's own name"),
    equal(
        "os_family",
        &[],
        "write `facts.package_manager` (apt, dnf), or `facts.os.id` with `facts.os.like`",
        "facts.package_manager",
    ),
    equal("distribution", &[], "write `facts.os.id`: debian, ubuntu, rhel", "facts.os.id"),
    equal("distribution_version", &[], "write `facts.os.version`", "facts.os.version"),
    equal(
        "distribution_major_version",
        &[],
        "write `facts.os.version.split('.')[0]`",
        "facts.os.version.split('.')[0]",
    ),
    equal("distribution_release", &[], "write `facts.os.codename`", "facts.os.codename"),
    variable("lsb", &[], "write `facts.os.codename`"),
    equal("kernel", &[], "write `facts.kernel`", "facts.kernel"),
    equal(
        "architecture",
        &["machine", "userspace_architecture"],
        "write `facts.arch`, or `facts.dpkg_arch` for Debian's name of it",
        "facts.arch",
    ),
    equal("processor_vcpus", &["processor_nproc"], "write `facts.cpus`", "facts.cpus"),
    variable("processor_cores", &[], "write `facts.cpu.cores`"),
    equal("processor_count", &[], "write `facts.cpu.sockets`", "facts.cpu.sockets"),
    variable("processor", &[], "write `facts.cpu.model`"),
    equal("memtotal_mb", &["memory_mb"], "write `facts.memory_mib`", "facts.memory_mib"),
    equal("swaptotal_mb", &[], "write `facts.swap_mib`", "facts.swap_mib"),
    equal(
        "default_ipv4",
        &["all_ipv4_addresses"],
        "write `facts.network.ipv4.address`; all are in `facts.network.interfaces`",
        "facts.network.ipv4",
    ),
    equal(
        "default_ipv6",
        &["all_ipv6_addresses"],
        "write `facts.network.ipv6.address`; all are in `facts.network.interfaces`",
        "facts.network.ipv6",
    ),
    variable("interfaces", &[], "write `facts.network.interfaces`"),
    variable("dns", &[], "write `facts.network.dns_servers`"),
    variable("mounts", &[], "write `facts.mounts`"),
    variable("devices", &["device_links"], "write `facts.disks`"),
    equal("pkg_mgr", &[], "write `facts.package_manager`", "facts.package_manager"),
    equal("service_mgr", &[], "write `facts.init`", "facts.init"),
    variable(
        "virtualization_type",
        &["virtualization_role"],
        "write `facts.virtualisation.machine`, or `facts.virtualisation.container`",
    ),
    equal("system_vendor", &[], "write `facts.machine.vendor`", "facts.machine.vendor"),
    equal("product_name", &[], "write `facts.machine.product`", "facts.machine.product"),
    variable("date_time", &[], "write `now()`"),
    variable(
        "env",
        &[],
        "a host's environment is not read; lookup('env', 'NAME') reads that of the controller",
    ),
    variable("python", &["python_version", "python_interpreter"], "hosts need no Python"),
    equal(
        "check_mode",
        &["diff_mode"],
        "leave it out: `converge plan` changes nothing, and evaluates what an apply would",
        "false",
    ),
    variable(
        "play_hosts",
        &[
            "play_batch",
            "play_hosts_all",
            "ansible_play_hosts",
            "ansible_play_hosts_all",
            "ansible_play_batch",
        ],
        "write `groups['NAME']`",
    ),
    variable("play_name", &["ansible_play_name"], "leave it out: a role does not depend on its play"),
    variable("inventory_dir", &["inventory_file"], "write `playbook_dir`"),
    equal("managed", &[], "write the text of the remark itself", "'Managed by converge'"),
    variable("ansible_version", &["version"], "converge is not Ansible; leave it out"),
    variable(
        "ansible_loop",
        &["loop_var", "ansible_loop_var"],
        "give the elements a field of their own; `item` is the element of `for_each`",
    ),
];
