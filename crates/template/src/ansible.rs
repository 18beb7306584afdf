//! The names that Ansible uses and their equivalents here, or the reason why there is none and the text to write instead.
//!
//! One table: the errors for unknown names ask it, and `docs/ansible.md` is made from it.

use converge_syntax::did_you_mean;
use minijinja::Error;

use crate::filters::{FILTERS, TESTS, invalid};
use crate::lookup::LOOKUPS;

/// The sort of a name in Ansible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsibleSort {
    /// A module: the one key of a task that says what it does.
    Module,
    /// A keyword of a task, block or play.
    Keyword,
    /// A filter.
    Filter,
    /// A test.
    Test,
    /// A lookup.
    Lookup,
}

use AnsibleSort::{Filter, Keyword, Lookup, Module, Test};

/// A name of Ansible.
#[derive(Clone, Copy, Debug)]
pub struct AnsibleName {
    /// The sort.
    pub sort: AnsibleSort,
    /// Its short name, without the collection.
    pub name: &'static str,
    /// The kinds that do its work; the first one mostly.
    pub kinds: &'static [&'static str],
    /// The text to write instead.
    pub instead: &'static str,
}

const fn module(name: &'static str, kinds: &'static [&'static str], instead: &'static str) -> AnsibleName {
    AnsibleName { sort: Module, name, kinds, instead }
}

const fn other(sort: AnsibleSort, name: &'static str, instead: &'static str) -> AnsibleName {
    AnsibleName { sort, name, kinds: &[], instead }
}

/// Every name that is another one here, or is not.
pub const ANSIBLE: &[AnsibleName] = &[
    module("copy", &["file"], "write `file` with `content` or `source`"),
    module("template", &["file"], "write `file` with `template`"),
    module(
        "file",
        &["file", "directory", "link", "absent"],
        "by `state`: `file`, `directory`, `link` or `absent`",
    ),
    module("lineinfile", &["line"], "write `line`"),
    module("replace", &["line"], "write `line` with a pattern for each line, or `file` with the whole text"),
    module("blockinfile", &["block"], "write `block`"),
    module("ini_file", &["structured"], "write `structured` with the format INI"),
    module("xml", &["file"], "write `file` with the whole text; XML is not edited in parts"),
    module("assemble", &["file"], "write `file` with a `template` that includes the parts"),
    module("apt", &["package"], "write `package`"),
    module("dnf", &["package"], "write `package`"),
    module("dnf5", &["package"], "write `package`"),
    module("yum", &["package"], "write `package`"),
    module("package", &["package"], "write `package`"),
    module("snap", &["snap"], "write `snap`"),
    module("apt_repository", &["apt_repository"], "write `apt_repository`"),
    module("deb822_repository", &["apt_repository"], "write `apt_repository`"),
    module(
        "apt_key",
        &["apt_repository"],
        "write `apt_repository` with the key's fingerprint; apt-key is gone",
    ),
    module(
        "yum_repository",
        &["structured"],
        "write `structured` for the file in /etc/yum.repos.d, in the format INI",
    ),
    module("dpkg_selections", &["package"], "write `package` with `hold`"),
    module(
        "pip",
        &["command"],
        "write `command` with `creates` or `unless`; a package of the distribution is better",
    ),
    module("service", &["service"], "write `service`"),
    module("systemd", &["service", "unit"], "write `service`, or `unit` for the unit's file"),
    module("systemd_service", &["service", "unit"], "write `service`, or `unit` for the unit's file"),
    module("sysvinit", &["service"], "write `service`"),
    module("shell", &["command"], "write `command` with `creates`, `unless` or `on_change`"),
    module(
        "command",
        &["command"],
        "write `command` with `creates`, `unless` or `on_change`; `query` where it only reads",
    ),
    module("raw", &["command"], "write `command`; hosts need no Python"),
    module("script", &["file", "command"], "write `file` with `source`, then `command`"),
    module(
        "expect",
        &["command"],
        "write `command` with what answers in its input; questions are not waited for",
    ),
    module("stat", &["query"], "write `query`"),
    module("find", &["query"], "write `query` with find"),
    module("slurp", &["query"], "write `query` with cat"),
    module("getent", &["query"], "write `query` with getent"),
    module("service_facts", &["query"], "write `query`, or use `facts`"),
    module("package_facts", &["query"], "write `query`, or use `facts`"),
    module("setup", &[], "facts are gathered when something reads `facts`; `converge facts` shows them"),
    module("gather_facts", &[], "facts are gathered when something reads `facts`"),
    module("get_url", &["download"], "write `download` with its checksum"),
    module("uri", &["wait_for", "query"], "write `wait_for` for an answer, or `query` with curl"),
    module("unarchive", &["archive"], "write `archive`"),
    module("git", &["git"], "write `git`"),
    module("user", &["user"], "write `user`"),
    module("group", &["group"], "write `group`"),
    module("authorized_key", &["authorized_key"], "write `authorized_key`"),
    module("known_hosts", &["line"], "write `line` in /etc/ssh/ssh_known_hosts"),
    module("sysctl", &["sysctl"], "write `sysctl`"),
    module("modprobe", &["kernel_module"], "write `kernel_module`"),
    module("mount", &["mount"], "write `mount`"),
    module("hostname", &["hostname"], "write `hostname`"),
    module("timezone", &["link"], "write `link` for /etc/localtime"),
    module(
        "locale_gen",
        &["line", "command"],
        "write `line` in /etc/locale.gen and `command` with `on_change`",
    ),
    module("cron", &["cron", "timer"], "write `cron`, or better `timer`"),
    module("at", &["timer"], "write `timer`"),
    module("ufw", &["firewall"], "write `firewall`"),
    module("iptables", &["firewall"], "write `firewall`"),
    module("firewalld", &["firewall"], "write `firewall` (it speaks to ufw), or `command` with `unless`"),
    module("pam_limits", &["file"], "write `file` in /etc/security/limits.d"),
    module("alternatives", &["link"], "write `link`, or `command` with `unless`"),
    module(
        "filesystem",
        &["command"],
        "write `command` with `unless`; making a file system cannot be reverted",
    ),
    module("lvol", &["command"], "write `command` with `unless`; volumes cannot be reverted"),
    module("lvg", &["command"], "write `command` with `unless`; volumes cannot be reverted"),
    module("parted", &["command"], "write `command` with `unless`; partitions cannot be reverted"),
    module("reboot", &["reboot"], "write `reboot`"),
    module("wait_for", &["wait_for"], "write `wait_for`"),
    module("wait_for_connection", &[], "a host that reboots is waited for by `reboot`"),
    module("ping", &[], "`converge run PATTERN -- true` tests the connection"),
    module("pause", &["wait_for"], "write `wait_for` for what you wait for; a fixed pause proves nothing"),
    module("assert", &["assert"], "write `assert`"),
    module("fail", &["assert"], "write `assert` with the opposite condition"),
    module("debug", &[], "`converge vars HOST NAME` shows values, `converge plan -v` what is made of them"),
    module("set_fact", &[], "write an expression in `vars` of the role"),
    module(
        "include_vars",
        &[],
        "write the variables in group_vars/ or host_vars/; lookup('file') | from_yaml reads a file",
    ),
    module("include_role", &[], "name the role in the play, or in `requires` of the role"),
    module("import_role", &[], "name the role in the play, or in `requires` of the role"),
    module(
        "include_tasks",
        &[],
        "write one list of resources; parts that others use become a role in `requires`",
    ),
    module(
        "import_tasks",
        &[],
        "write one list of resources; parts that others use become a role in `requires`",
    ),
    module("import_playbook", &[], "write all plays in one playbook; the order comes from `requires`"),
    module("meta", &[], "there are no handlers to flush: `restart_on` restarts in its place"),
    module("add_host", &[], "write the host into the inventory"),
    module("group_by", &[], "write the group into the inventory, or a `when` on `facts`"),
    module("fetch", &[], "nothing is copied to the controller; `converge run PATTERN -- cat FILE` prints it"),
    module("synchronize", &["archive", "git"], "write `archive` or `git`"),
    module("tempfile", &[], "a run leaves nothing behind, and needs no file in between"),
    module("set_stats", &[], "`--output json` has the result of a run"),
    module("async_status", &[], "long steps stream; there is nothing to poll"),
    module(
        "k8s",
        &["k8s_object", "k8s_patch", "k8s_query", "k8s_wait"],
        "write `k8s_object`, in a role with `scope: cluster`",
    ),
    module("k8s_info", &["k8s_query"], "write `k8s_query`, in a role with `scope: cluster`"),
    module("helm", &["helm_release"], "write `helm_release`, in a role with `scope: cluster`"),
    other(Keyword, "notify", "write `restart_on` at the service instead"),
    other(Keyword, "listen", "write `restart_on` at the service instead"),
    other(
        Keyword,
        "handlers",
        "write `restart_on` at the service: it is remembered on the host, so an interrupted run loses none",
    ),
    other(Keyword, "loop", "write `for_each`"),
    other(Keyword, "with_items", "write `for_each`"),
    other(Keyword, "with_list", "write `for_each`"),
    other(Keyword, "with_dict", "write `for_each: \"{{ NAME | dict2items }}\"`"),
    other(Keyword, "with_together", "write `for_each: \"{{ A | zip(B) | list }}\"`"),
    other(Keyword, "with_nested", "write `for_each: \"{{ A | product(B) | list }}\"`"),
    other(Keyword, "with_subelements", "write `for_each: \"{{ A | subelements('KEY') }}\"`"),
    other(Keyword, "with_sequence", "write `for_each: \"{{ range(1, 5) | list }}\"`"),
    other(Keyword, "with_fileglob", "write the names as a list for `for_each`"),
    other(Keyword, "with_first_found", "write lookup('first_found', [...]) where the name stands"),
    other(Keyword, "loop_control", "write `for_each`; the element is `item`"),
    other(Keyword, "until", "write `wait_for`"),
    other(Keyword, "retries", "write `wait_for`; downloads and packages try again themselves"),
    other(Keyword, "delay", "write `wait_for`"),
    other(Keyword, "become", "every resource runs as root; write `become_user` for another user"),
    other(Keyword, "become_user", "write `become_user` at the resource"),
    other(Keyword, "remote_user", "set `ansible_user` in the inventory"),
    other(Keyword, "user", "set `ansible_user` in the inventory"),
    other(Keyword, "port", "set `ansible_port` in the inventory"),
    other(Keyword, "connection", "set `ansible_connection` in the inventory"),
    other(Keyword, "become_method", "write `ansible_become_method` in the inventory"),
    other(Keyword, "no_log", "write `sensitive: true`"),
    other(Keyword, "ignore_errors", "a failure stops only what depends on it; there is no key for it"),
    other(Keyword, "ignore_unreachable", "an unreachable host is left out and named, and the others go on"),
    other(Keyword, "failed_when", "write an `assert`"),
    other(
        Keyword,
        "changed_when",
        "kinds know what they change; a `command` needs a guard (`creates`, `unless`, `on_change`)",
    ),
    other(
        Keyword,
        "delegate_to",
        "put the resource into a role of that host, and name that role in `requires`",
    ),
    other(Keyword, "local_action", "give a role to `localhost`, and name it in `requires`"),
    other(Keyword, "run_once", "put the resource into a role of one host"),
    other(Keyword, "throttle", "write `serial` at the play, or `--forks`"),
    other(Keyword, "vars", "write expressions in `vars` of the role; what users set is an input"),
    other(Keyword, "vars_files", "write the variables in group_vars/ or host_vars/"),
    other(Keyword, "vars_prompt", "write an input without a default, and give it with --set NAME=@FILE"),
    other(Keyword, "environment", "write the variables in the `command`: env NAME=VALUE …"),
    other(Keyword, "check_mode", "`converge plan` changes nothing"),
    other(Keyword, "diff", "a plan always shows the difference"),
    other(Keyword, "async", "long steps stream; hosts work side by side"),
    other(Keyword, "poll", "long steps stream; hosts work side by side"),
    other(Keyword, "block", "write a group: `when`, `tags` and its entries below `resources`"),
    other(
        Keyword,
        "rescue",
        "a failed change is named and what needs it is skipped; `converge rollback` reverts a run",
    ),
    other(Keyword, "always", "what must hold in any case stands in `verify`"),
    other(Keyword, "args", "write the parameters below the kind"),
    other(Keyword, "action", "write the kind as the key"),
    other(Keyword, "tasks", "a play holds roles only: write a role"),
    other(Keyword, "pre_tasks", "write a role, and name it in `requires` of the others"),
    other(Keyword, "post_tasks", "write a role that names the others in `requires`, or `verify`"),
    other(Keyword, "strategy", "hosts go side by side, in the order of `requires`"),
    other(Keyword, "gather_facts", "facts are gathered when something reads `facts`"),
    other(Keyword, "module_defaults", "write the values as `inputs`"),
    other(Keyword, "collections", "kinds come with converge"),
    other(Filter, "to_nice_xml", "write the text in a template"),
    other(Filter, "vault", "encrypt beforehand: converge vault encrypt-string"),
    other(Filter, "unvault", "encrypted values and files are decrypted where they are used"),
    other(Filter, "fileglob", "write the names as a list"),
    other(Filter, "forceescape", "write `escape`"),
    other(Filter, "urldecode", "write the text decoded"),
    other(Filter, "xmlattr", "write the attributes in the template"),
    other(Filter, "urlize", "it makes HTML; write the link in the template"),
    other(Filter, "pprint", "write `to_nice_json`"),
    other(Filter, "center", "write the spaces in the template"),
    other(Filter, "wordwrap", "write the lines in the template"),
    other(Filter, "truncate", "write NAME[:20]"),
    other(Filter, "striptags", "write `regex_replace('<[^>]*>', '')`"),
    other(Filter, "filesizeformat", "write `human_readable`"),
    other(Filter, "lists_mergeby", "write `combine` with `by`, of maps that hold the lists"),
    other(Filter, "dict_kv", "write {NAME: VALUE}"),
    other(Filter, "counter", "write `groupby` and `length`"),
    other(Filter, "random_mac", "write the address in the inventory"),
    other(Filter, "hwaddr", "write the address as it should stand"),
    other(Filter, "macaddr", "write the address as it should stand"),
    other(Filter, "ipaddr_utils", "write `ipaddr`"),
    other(Filter, "next_nth_usable", "write `ipmath`"),
    other(Filter, "previous_nth_usable", "write `ipmath` with a negative number"),
    other(Filter, "reduce_on_network", "write `select('in_network', NET)`"),
    other(Filter, "slaac", "write the address in the inventory"),
    other(Filter, "parse_cli", "write `query`, and `regex_findall` on what it gives"),
    other(Filter, "parse_xml", "write `query` with a program that gives JSON, and `from_json`"),
    other(Filter, "from_csv", "write the table in YAML"),
    other(Filter, "from_ini", "write `query`, or the values in YAML"),
    other(Test, "version_compare", "write `version`"),
    other(Test, "timedout", "a step that takes too long has failed: write `failed`"),
    other(Test, "started", "nothing runs on behind a step"),
    other(Test, "finished", "nothing runs on behind a step"),
    other(Test, "reachable", "hosts that cannot be reached are left out by themselves"),
    other(Test, "unreachable", "hosts that cannot be reached are left out by themselves"),
    other(Test, "vault_encrypted", "encrypted values are decrypted where they are used"),
    other(Test, "vaulted_file", "encrypted files are decrypted where they are used"),
    other(Test, "issubset", "write `subset`"),
    other(Test, "issuperset", "write `superset`"),
    other(Test, "isnan", "write `nan`"),
    other(Test, "is_abs", "write `abs`"),
    other(Test, "is_dir", "write `directory`"),
    other(Test, "is_file", "write `file`"),
    other(Test, "url", "write `match('https?://')`"),
    other(Test, "uri", "write `match('[a-z]+:')`"),
    other(Test, "urn", "write `match('urn:')`"),
    other(
        Lookup,
        "pipe",
        "a command of the controller may say something else when the plan is applied; run it before, and give what it prints with --set NAME=@FILE",
    ),
    other(
        Lookup,
        "url",
        "what an address answers may be something else when the plan is applied; fetch it before, and use lookup('file')",
    ),
    other(Lookup, "dict", "write NAME | dict2items"),
    other(Lookup, "items", "write the list itself"),
    other(Lookup, "list", "write the list itself"),
    other(Lookup, "flattened", "write LIST | flatten"),
    other(Lookup, "indexed_items", "write a loop in the template; `loop.index0` counts"),
    other(Lookup, "nested", "write A | product(B) | list"),
    other(Lookup, "cartesian", "write A | product(B) | list"),
    other(Lookup, "together", "write A | zip(B) | list"),
    other(Lookup, "sequence", "write range(1, 5) | list"),
    other(Lookup, "subelements", "write LIST | subelements('KEY')"),
    other(Lookup, "random_choice", "write LIST | random"),
    other(Lookup, "fileglob", "write the names as a list"),
    other(Lookup, "filetree", "write the names as a list"),
    other(Lookup, "lines", "write lookup('file', NAME).splitlines()"),
    other(Lookup, "ini", "write the values in YAML: group_vars/, or lookup('file', NAME) | from_yaml"),
    other(Lookup, "csvfile", "write the table in YAML: lookup('file', NAME) | from_yaml"),
    other(Lookup, "config", "settings of Ansible are not read"),
    other(Lookup, "inventory_hostnames", "write `groups['NAME']`"),
    other(Lookup, "varnames", "name the variables"),
    other(
        Lookup,
        "hashi_vault",
        "fetch the secret before, and give it with --set NAME=@FILE, or keep it in a vault file",
    ),
    other(
        Lookup,
        "aws_secret",
        "fetch the secret before, and give it with --set NAME=@FILE, or keep it in a vault file",
    ),
    other(
        Lookup,
        "passwordstore",
        "fetch the secret before: pass show NAME | converge apply … --set NAME=@-",
    ),
    other(Lookup, "onepassword", "fetch the secret before: op read … | converge apply … --set NAME=@-"),
    other(Lookup, "k8s", "write `k8s_query` with `register`, in a role with `scope: cluster`"),
    other(Lookup, "dig", "write the address in the inventory, or `query` with getent"),
    other(Lookup, "redis", "fetch the value before, and give it with --set"),
];

/// The name without its collection: `ansible.builtin.copy` is `copy`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The replacement for one of Ansible's names.
#[must_use]
pub fn ansible_instead(sorts: &[AnsibleSort], name: &str) -> Option<&'static str> {
    let name = short(name);
    ANSIBLE.iter().find(|entry| entry.name == name && sorts.contains(&entry.sort)).map(|entry| entry.instead)
}

/// The help for an unknown filter or test: what to write instead, or the nearest one.
pub(crate) fn help(sort: AnsibleSort, name: &str) -> Option<String> {
    let known = match sort {
        Test => TESTS,
        Lookup => LOOKUPS,
        _ => FILTERS,
    };
    if name.contains('.') && known.contains(&short(name)) {
        return Some(format!("write `{}`, without the collection", short(name)));
    }
    ansible_instead(&[sort], name)
        .map(str::to_owned)
        .or_else(|| did_you_mean(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?")))
}

/// The error for a lookup that is not there.
pub(crate) fn no_lookup(name: &str) -> Error {
    let help = help(Lookup, name).unwrap_or_else(|| format!("known are {}", LOOKUPS.join(", ")));
    invalid(format!("there is no lookup `{name}`: {help}"))
}

/// `docs/ansible.md`.
#[must_use]
pub fn ansible_page() -> String {
    let mut page = "# Coming from Ansible\n\nWritten by `cargo xtask generate` from the table that the errors for unknown names use \
                    (`crates/template/src/ansible.rs`).\n\nInventories, patterns, `group_vars/`, `host_vars/` and vaults are Ansible's own and are read \
                    as Ansible reads them ([inventory.md](inventory.md)). Playbooks and roles are written anew ([roles.md](roles.md)): a role is a list of \
                    what a host should have, not of what to do.\n\n"
        .to_owned();
    page.push_str("## Modules\n\n| Ansible | here | how |\n|---|---|---|\n");
    for entry in ANSIBLE.iter().filter(|entry| entry.sort == Module) {
        let kinds: Vec<String> =
            entry.kinds.iter().map(|kind| format!("[`{kind}`](kinds/{kind}.md)")).collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        page.push_str(&format!("| `{}` | {kinds} | {} |\n", entry.name, cell(entry.instead)));
    }
    let mut table = |title: &str, sort: AnsibleSort, lead: String| {
        page.push_str(&format!("\n## {title}\n\n{lead}| Ansible | here |\n|---|---|\n"));
        for entry in ANSIBLE.iter().filter(|entry| entry.sort == sort) {
            page.push_str(&format!("| `{}` | {} |\n", entry.name, cell(entry.instead)));
        }
    };
    let same = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("The same here: {}.\n\n", names.join(" "))
    };
    table("Keywords", Keyword, "The same here: `name` `when` `tags` `register` `become_user`; in plays also `hosts` `serial` `max_fail_percentage` `any_errors_fatal`.\n\n".to_owned());
    table("Filters", Filter, same(FILTERS) + LIMITS);
    table("Tests", Test, same(TESTS));
    table("Lookups", Lookup, same(LOOKUPS));
    page
}

const LIMITS: &str = "Where they differ: `password_hash` makes sha512 and sha256 and asks for a salt; `to_datetime` gives a date with `strftime`, `timestamp`, \
    `isoformat` and its parts, and two dates are subtracted by their `timestamp()`; `random`, `shuffle` and `now()` answer the same in a plan and its apply, and with \
    a `seed` as Python does; `combine` has `by` in addition, which merges lists of maps by one of their entries. Look-around and back-references in patterns work, as far as the search stays short (a million steps).\n\n";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_name_twice_and_none_that_is_the_same_here() {
        for (at, entry) in ANSIBLE.iter().enumerate() {
            let same = |other: &AnsibleName| other.name == entry.name && other.sort == entry.sort;
            assert!(!ANSIBLE.iter().skip(at + 1).any(same), "{} stands there twice", entry.name);
            let here = match entry.sort {
                Filter => FILTERS,
                Test => TESTS,
                Lookup => LOOKUPS,
                _ => &[],
            };
            assert!(!here.contains(&entry.name), "{} is the same here", entry.name);
        }
    }

    #[test]
    fn names_with_their_collection_are_known() {
        assert_eq!(ansible_instead(&[Module], "ansible.builtin.lineinfile"), Some("write `line`"));
        assert_eq!(ansible_instead(&[Keyword], "lineinfile"), None);
        assert_eq!(
            help(Filter, "ansible.utils.ipaddr").as_deref(),
            Some("write `ipaddr`, without the collection")
        );
        assert!(no_lookup("pipe").to_string().contains("may say something else"));
    }
}
