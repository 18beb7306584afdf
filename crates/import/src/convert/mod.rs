//! The conversion of a task's module: one file for each group of modules.

mod accounts;
mod commands;
mod control;
mod fetched;
mod files;
mod firewalls;
mod found;
mod gathered;
mod kernel;
mod lines;
mod packages;
mod params;
mod places;
mod programs;
mod queries;
mod readers;
mod replaced;
mod repositories;
mod schedule;
mod services;
mod shell_text;

pub(crate) use gathered::{GATHERED, GatheredFact, SELINUX, gathered_by};
pub(crate) use params::Params;
pub(crate) use queries::{of_errors, shape, stat_attribute};
pub(crate) use readers::read_only;

use crate::expression::ImportProblem;
use converge_syntax::Node;

/// A resource that stands for a task or for a part of it.
#[derive(Clone, Debug)]
pub(crate) struct ConvertedPart {
    pub kind: &'static str,
    pub params: Vec<(String, Node)>,
    /// Where a task becomes several resources: the words behind its name.
    pub suffix: &'static str,
    /// Whether its result is registered under the task's name.
    pub registers: bool,
    /// Another name under which its result is registered.
    pub registers_as: Option<String>,
    /// Whether it is a precondition.
    pub is_check: bool,
    /// The parameter that names what it comes after (`restart_on`, `on_change`), if it takes one.
    pub follows: Option<&'static str>,
    /// A condition of this part alone.
    pub when: Option<String>,
}

impl ConvertedPart {
    pub(crate) fn new(kind: &'static str, params: Vec<(String, Node)>) -> Self {
        Self {
            kind,
            params,
            suffix: "",
            registers: false,
            registers_as: None,
            is_check: false,
            follows: None,
            when: None,
        }
    }
}

/// The result of a conversion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversion {
    /// The resources; none where nothing stands for the task.
    pub made: Vec<ConvertedPart>,
    pub remarks: Vec<String>,
    /// Where nothing stands for it: a short word for the report.
    pub left_out: Option<&'static str>,
    /// Conditions of the task that a guard of the resource stands for.
    pub dropped_when: Vec<usize>,
    /// The text of a question, as a guard of a later command asks it.
    pub question: Option<String>,
}

impl Conversion {
    pub(crate) fn one(kind: &'static str, params: Vec<(String, Node)>) -> Self {
        Self { made: vec![ConvertedPart::new(kind, params)], ..Self::default() }
    }

    /// Nothing is written, for this reason.
    pub(crate) fn nothing(remark: impl Into<String>) -> Self {
        Self { remarks: vec![remark.into()], left_out: Some("left out"), ..Self::default() }
    }

    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remarks.push(remark.into());
        self
    }

    pub(crate) fn remark_if(self, holds: bool, remark: &str) -> Self {
        if holds { self.remark(remark) } else { self }
    }
}

/// The surroundings of a task that a conversion may look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// The resources that the task follows: those that notify a handler, or whose change its `when` asks for.
    pub follows: Vec<String>,
    pub is_handler: bool,
    /// Whether one of those that notify the handler has no condition.
    pub is_sure: bool,
    /// The conditions, rewritten.
    pub when: Vec<Node>,
    /// The conditions as they were written.
    pub written_when: Vec<Node>,
    /// The read-only commands of registered queries, by name.
    pub queries: std::collections::BTreeMap<String, String>,
    /// Files below `files/` and `templates/` of the role.
    pub files: std::collections::BTreeSet<String>,
    /// Folders below `files/`.
    pub folders: std::collections::BTreeSet<String>,
    /// Templates that cannot be used here, with the reason.
    pub bad_templates: std::collections::BTreeMap<String, ImportProblem>,
    /// Paths of directories and files that earlier tasks make, as they are written.
    pub paths: std::collections::BTreeMap<String, &'static str>,
    /// Keywords of the task that only some conversions know.
    pub changed_when_false: bool,
    pub failed_when: Option<Node>,
    pub ignores_errors: bool,
    pub environment: Option<Node>,
    pub until: Option<Node>,
    pub retries: Option<i64>,
    pub delay: Option<i64>,
    pub register: Option<String>,
    /// Whether the registered result is a `query`.
    pub is_query: bool,
    /// Whether the task has a loop.
    pub has_loop: bool,
    /// Registered results of which something reads what the command said as errors.
    pub read_errors: std::collections::BTreeSet<String>,
    /// Facts that tasks gather and something reads.
    pub read_facts: std::collections::BTreeSet<&'static str>,
    /// Names of packages that earlier tasks install on every host that reaches the present one, as they are written.
    pub packages: std::collections::BTreeSet<String>,
    /// Variables of the role whose value is a plain text.
    pub literals: std::collections::BTreeMap<String, String>,
}

type Convert = fn(Params, &Context) -> Result<Conversion, ImportProblem>;

/// The modules that are converted. What `docs/ansible.md` says about each stands in its table; a test compares the two.
const CONVERSIONS: &[(&str, Convert)] = &[
    ("copy", files::copy),
    ("template", files::template),
    ("file", files::file),
    ("lineinfile", lines::lineinfile),
    ("replace", replaced::replace),
    ("blockinfile", lines::blockinfile),
    ("ini_file", lines::ini_file),
    ("apt", packages::apt),
    ("package", packages::package),
    ("snap", packages::snap),
    ("dpkg_selections", packages::dpkg_selections),
    ("apt_repository", repositories::apt_repository),
    ("deb822_repository", repositories::deb822_repository),
    ("service", services::service),
    ("systemd", services::service),
    ("systemd_service", services::service),
    ("sysvinit", services::service),
    ("command", commands::command),
    ("shell", commands::shell),
    ("raw", commands::shell),
    ("stat", queries::stat),
    ("slurp", queries::slurp),
    ("service_facts", gathered::gather),
    ("package_facts", gathered::gather),
    ("getent", gathered::gather),
    ("find", found::find),
    ("get_url", fetched::get_url),
    ("uri", fetched::uri),
    ("unarchive", fetched::unarchive),
    ("git", fetched::git),
    ("user", accounts::user),
    ("group", accounts::group),
    ("authorized_key", accounts::authorized_key),
    ("sysctl", kernel::sysctl),
    ("modprobe", kernel::modprobe),
    ("mount", kernel::mount),
    ("hostname", kernel::hostname),
    ("timezone", kernel::timezone),
    ("locale_gen", kernel::locale_gen),
    ("cron", schedule::cron),
    ("wait_for", schedule::wait_for),
    ("ufw", firewalls::ufw),
    ("firewalld", firewalls::firewalld),
    ("wait_for_connection", control::left_out),
    ("ping", control::left_out),
    ("setup", control::left_out),
    ("gather_facts", control::left_out),
    ("debug", control::left_out),
    ("assert", control::assert),
    ("fail", control::fail),
];

/// Modules that the role itself takes apart: they are no resources of their own.
#[cfg(test)]
const STRUCTURE: &[&str] =
    &["set_fact", "include_vars", "include_role", "import_role", "include_tasks", "import_tasks", "meta"];

/// Converts a task's module.
pub(crate) fn convert(module: &str, params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    match CONVERSIONS.iter().find(|(name, _)| *name == module) {
        Some((_, convert)) => convert(params, context),
        None => Err(ImportProblem::new(
            format!("there is no conversion of `{module}`"),
            crate::task::instead(module),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_template::{AnsibleSort, ansible_names};

    #[test]
    fn the_table_of_the_documents_says_which_modules_are_converted() {
        for entry in ansible_names().filter(|entry| entry.sort == AnsibleSort::Module) {
            let own =
                CONVERSIONS.iter().any(|(name, _)| *name == entry.name) || STRUCTURE.contains(&entry.name);
            assert_eq!(entry.is_imported, own, "{}: crates/template/src/ansible/names.rs", entry.name);
        }
        for name in CONVERSIONS.iter().map(|(name, _)| *name).chain(STRUCTURE.iter().copied()) {
            let known = ansible_names().any(|entry| entry.sort == AnsibleSort::Module && entry.name == name);
            assert!(known, "{name} is not in the table");
        }
    }
}
