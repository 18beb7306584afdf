//! The names that Ansible uses and their equivalents here, or the reason why there is none and the text to write instead.
//!
//! One table: the errors for unknown names ask it, and `docs/ansible.md` is made from it.

mod names;
mod options;
mod values;

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
    /// A parameter of a module, under the kind that does the module's work.
    Parameter,
    /// A variable that Ansible sets, or a fact without `ansible_` before it.
    Variable,
    /// An option of `ansible-playbook`, `ansible` or `ansible-inventory`.
    CommandOption,
}

use AnsibleSort::{CommandOption, Filter, Keyword, Lookup, Module, Parameter, Test, Variable};

/// A name of Ansible.
#[derive(Clone, Copy, Debug)]
pub struct AnsibleName {
    /// The sort.
    pub sort: AnsibleSort,
    /// Its short name, without the collection.
    pub name: &'static str,
    /// Other spellings of the name.
    pub also: &'static [&'static str],
    /// Of a module: the kinds that do its work, the first one mostly. Of a parameter: the kinds under which it is looked for; none stand for all.
    pub kinds: &'static [&'static str],
    /// The text to write instead.
    pub instead: &'static str,
    /// Of a module: whether `converge import` has a conversion for it.
    pub is_imported: bool,
    /// Of a variable: the expression that has the same value, where there is one; else empty.
    pub expression: &'static str,
}

/// The name without its collection: `ansible.builtin.copy` is `copy`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl AnsibleName {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.contains(&name)
    }
}

/// Every name that is another one here, or is not.
pub fn ansible_names() -> impl Iterator<Item = &'static AnsibleName> {
    [names::NAMES, values::VALUES, options::OPTIONS].into_iter().flatten()
}

/// The replacement for one of Ansible's names.
#[must_use]
pub fn ansible_instead(sorts: &[AnsibleSort], name: &str) -> Option<&'static str> {
    let name = short(name);
    ansible_names()
        .find(|entry| entry.is_called(name) && sorts.contains(&entry.sort))
        .map(|entry| entry.instead)
}

/// The entry of a module, by its short name.
#[must_use]
pub fn ansible_module(name: &str) -> Option<&'static AnsibleName> {
    ansible_names().find(|entry| entry.sort == Module && entry.is_called(name))
}

/// The entry of a fact or of a variable that Ansible sets, without `ansible_` before it.
#[must_use]
pub fn ansible_fact(name: &str) -> Option<&'static AnsibleName> {
    ansible_names().find(|entry| entry.sort == Variable && entry.is_called(name))
}

/// Whether a filter, test or lookup is here, by its short name.
#[must_use]
pub fn is_known_here(sort: AnsibleSort, name: &str) -> bool {
    let known = match sort {
        Filter => FILTERS,
        Test => TESTS,
        Lookup => LOOKUPS,
        _ => &[],
    };
    known.contains(&name)
}

/// The replacement for a parameter that a kind does not have.
#[must_use]
pub fn ansible_parameter(kind: &str, name: &str) -> Option<&'static str> {
    let of_kind = |entry: &&AnsibleName| entry.kinds.is_empty() || entry.kinds.contains(&kind);
    ansible_names()
        .filter(|entry| entry.sort == Parameter && entry.is_called(name))
        .find(of_kind)
        .map(|entry| entry.instead)
}

/// The replacement for an option of Ansible's programs: `-C`, `--check`.
#[must_use]
pub fn ansible_option(name: &str) -> Option<&'static str> {
    ansible_names()
        .find(|entry| entry.sort == CommandOption && entry.is_called(name))
        .map(|entry| entry.instead)
}

/// The replacement for a variable that Ansible sets. `text` begins with its name: `ansible_facts['hostname'] == …`.
pub(crate) fn ansible_variable(root: &str, text: &str) -> Option<&'static str> {
    let known = |name: &str| ansible_instead(&[Variable], name);
    let Some(name) = root.strip_prefix("ansible_") else { return known(root) };
    if name != "facts" {
        return known(root).or_else(|| known(name));
    }
    // `.hostname`, `['hostname']`, `["hostname"]`; in YAML's double quotes with a backslash before the quote.
    let path = text.strip_prefix(root).unwrap_or_default();
    let path = path.trim_start_matches(['.', '[', '\\', '\'', '"']);
    let end = path.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(path.len());
    let fact = path.get(..end).unwrap_or_default();
    known(fact.strip_prefix("ansible_").unwrap_or(fact))
        .or(Some("write `facts`: `converge facts INVENTORY` and docs/facts.md list its names"))
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
                    (`crates/template/src/ansible`).\n\nInventories, patterns, `group_vars/`, `host_vars/` and vaults are Ansible's own and are read \
                    as Ansible reads them ([inventory.md](inventory.md)). Playbooks and roles are written anew ([roles.md](roles.md)): a role is a list of \
                    what a host should have, not of what to do.\n\n"
        .to_owned();
    page.push_str(&format!("## Command line\n\n{}| Ansible | here |\n|---|---|\n", options::SAME));
    for entry in ansible_names().filter(|entry| entry.sort == CommandOption) {
        page.push_str(&format!("| {} | {} |\n", spellings(entry), cell(entry.instead)));
    }
    page.push_str("\n## Modules\n\n`converge import` converts those of the last column, as far as their parameters allow: [import.md](import.md). Others become open items.\n\n| Ansible | here | how | import |\n|---|---|---|---|\n");
    for entry in ansible_names().filter(|entry| entry.sort == Module) {
        let kinds = if entry.kinds.is_empty() { "none".to_owned() } else { links(entry.kinds) };
        let import = if entry.is_imported { "yes" } else { "open" };
        page.push_str(&format!("| {} | {kinds} | {} | {import} |\n", spellings(entry), cell(entry.instead)));
    }
    page.push_str("\n## Parameters\n\n| Ansible | under | here |\n|---|---|---|\n");
    for entry in ansible_names().filter(|entry| entry.sort == Parameter) {
        let kinds = if entry.kinds.is_empty() { "any kind".to_owned() } else { links(entry.kinds) };
        page.push_str(&format!("| {} | {kinds} | {} |\n", spellings(entry), cell(entry.instead)));
    }
    let mut table = |title: &str, sort: AnsibleSort, lead: String| {
        page.push_str(&format!("\n## {title}\n\n{lead}| Ansible | here |\n|---|---|\n"));
        for entry in ansible_names().filter(|entry| entry.sort == sort) {
            page.push_str(&format!("| {} | {} |\n", spellings(entry), cell(entry.instead)));
        }
    };
    let same = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("The same here: {}.\n\n", names.join(" "))
    };
    table("Keywords", Keyword, "The same here: `name` `when` `tags` `register` `become_user`; in plays also `hosts` `serial` `max_fail_percentage` `any_errors_fatal`.\n\n".to_owned());
    table("Facts and variables", Variable, values::FACTS.to_owned());
    table("Filters", Filter, same(FILTERS) + LIMITS);
    table("Tests", Test, same(TESTS));
    table("Lookups", Lookup, same(LOOKUPS));
    page
}

fn spellings(entry: &AnsibleName) -> String {
    let names: Vec<String> = [entry.name].iter().chain(entry.also).map(|name| format!("`{name}`")).collect();
    names.join(" ")
}

fn links(kinds: &[&str]) -> String {
    kinds.iter().map(|kind| format!("[`{kind}`](kinds/{kind}.md)")).collect::<Vec<_>>().join(", ")
}

const LIMITS: &str = "Where they differ: `password_hash` makes sha512 and sha256 and asks for a salt; `to_datetime` gives a date with `strftime`, `timestamp`, \
    `isoformat` and its parts, and two dates are subtracted by their `timestamp()`; `random`, `shuffle` and `now()` answer the same in a plan and its apply, and with \
    a `seed` as Python does; `combine` has `by` in addition, which merges lists of maps by one of their entries; `quote_words` is not Ansible's: the words of a text, each quoted for the shell. Look-around and back-references in patterns work, as far as the search stays short (a million steps).\n\n";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_no_name_twice_and_none_that_is_the_same_here() {
        let all: Vec<&AnsibleName> = ansible_names().collect();
        for (at, entry) in all.iter().enumerate() {
            let shared = |other: &AnsibleName| {
                entry.kinds.is_empty()
                    || other.kinds.is_empty()
                    || entry.kinds.iter().any(|k| other.kinds.contains(k))
            };
            let same = |other: &&&AnsibleName| {
                other.sort == entry.sort
                    && [other.name].iter().chain(other.also).any(|name| entry.is_called(name))
                    && (entry.sort != Parameter || shared(other))
            };
            assert!(!all.iter().skip(at + 1).any(|other| same(&other)), "{} stands there twice", entry.name);
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
    fn parameters_options_and_facts_are_known() {
        assert_eq!(ansible_parameter("file", "dest"), Some("write `path`"));
        assert_eq!(ansible_parameter("git", "dest"), None);
        assert!(ansible_option("-C").is_some() && ansible_option("-C") == ansible_option("--check"));
        let hostname = Some("write `facts.hostname`");
        assert_eq!(ansible_variable("ansible_hostname", "ansible_hostname == 'a'"), hostname);
        for text in
            ["ansible_facts.hostname", "ansible_facts['hostname']", "ansible_facts[\\\"ansible_hostname\\\"]"]
        {
            assert_eq!(ansible_variable("ansible_facts", text), hostname, "{text}");
        }
        assert!(ansible_variable("ansible_facts", "ansible_facts").is_some());
        assert_eq!(ansible_variable("site_port", "site_port"), None);
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
