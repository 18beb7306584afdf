//! Expressions of Ansible as those of converge: facts, results of tasks and elements of loops by their names here.

use crate::paths::skip;
pub(crate) use crate::paths::{before, path_at, test_at};
pub(crate) use crate::problem::ImportProblem;
pub(crate) use crate::results::RegisteredResult;
use crate::results::result;
use crate::system;
use crate::targets::{python_test, version_test};
pub(crate) use crate::tokens::whole_expression;
use crate::tokens::{TemplatePart, Token, TokenSort, parts, tokens};
pub(crate) use crate::uses::uses;
use converge_syntax::{Node, UNSAFE_TAG, Value};
use converge_template::{AnsibleSort, ansible_fact, ansible_instead, is_known_here};
use std::collections::{BTreeMap, BTreeSet};

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpressionNames {
    pub registered: BTreeMap<String, RegisteredResult>,
    /// The name of the loop's element.
    pub element: Option<String>,
    /// Variables that the role declares, among them such as begin with `ansible_`.
    pub declared: BTreeSet<String>,
    /// Facts that a task has gathered, and what stands for each.
    pub gathered: BTreeMap<&'static str, String>,
    /// Variables that have another name from the present task on.
    pub renamed: BTreeMap<String, String>,
    /// Variables of Ansible that are known beforehand, as an expression.
    pub texts: BTreeMap<&'static str, String>,
    /// Variables that tasks set: other hosts have them too in Ansible.
    pub set_by_tasks: BTreeSet<String>,
}

/// Variables of the inventory that begin with `ansible_` and are read here as well.
pub(crate) const CONNECTION: &[&str] = &[
    "host",
    "user",
    "port",
    "connection",
    "become",
    "become_user",
    "become_method",
    "ssh_private_key_file",
    "ssh_common_args",
];

impl ExpressionNames {
    /// Rewrites a bare expression.
    pub(crate) fn expression(&self, text: &str) -> Result<String, ImportProblem> {
        let all = tokens(text);
        let mut out = String::new();
        let mut at = 0;
        while let Some(token) = all.get(at) {
            let previous = before(&all, at);
            let after_dot = previous.is_some_and(|token| token.is("."));
            if token.sort != TokenSort::Name || after_dot {
                out.push_str(token.text);
                at += 1;
                continue;
            }
            if previous.is_some_and(|token| token.is("|")) {
                at = filter(&all, at, &mut out)?;
                continue;
            }
            let is_keyword = previous.is_some_and(|token| token.is("is"))
                || (token.text != "not" && is_test_name(&all, at));
            if is_keyword && token.text != "not" {
                at = test(&all, at, &mut out)?;
                continue;
            }
            // The name of an argument.
            let next = skip(&all, at + 1);
            if all.get(next).is_some_and(|sign| sign.is("=")) {
                out.push_str(token.text);
                at += 1;
                continue;
            }
            at = self.name(&all, at, &mut out)?;
        }
        Ok(out)
    }

    /// Rewrites a name with its path; the place after what was read.
    fn name(&self, all: &[Token<'_>], at: usize, out: &mut String) -> Result<usize, ImportProblem> {
        let name = all.get(at).map_or("", |token| token.text);
        if self.element.as_deref() == Some(name) {
            out.push_str("item");
            return Ok(at + 1);
        }
        if name == "lookup" || name == "query" || name == "q" {
            return lookup(all, at, out);
        }
        if name == "vars" && !self.declared.contains(name) {
            return Err(ImportProblem::new(
                "a variable is read by a name that is computed",
                "name the variable",
            ));
        }
        if name == "hostvars"
            && let Some(end) = self.of_other_host(all, at, out)?
        {
            return Ok(end);
        }
        if let Some(text) = self.texts.get(name).filter(|_| !self.declared.contains(name)) {
            out.push_str(text);
            return Ok(at + 1);
        }
        if let Some(registered) = self.registered.get(name) {
            return result(name, registered, all, at, out);
        }
        if name == "ansible_version"
            && let Some((holds, end)) = version_test(all, at + 1)
        {
            out.push_str(if holds { "true" } else { "false" });
            return Ok(end);
        }
        let Some(fact) = name.strip_prefix("ansible_").filter(|_| !self.declared.contains(name)) else {
            out.push_str(self.renamed.get(name).map_or(name, String::as_str));
            return Ok(at + 1);
        };
        if fact == "facts" {
            let path = path_at(all, at + 1);
            let first = path.text.split('.').nth(1).unwrap_or_default().to_owned();
            if first.is_empty() {
                return Err(ImportProblem::new(
                    "the facts of Ansible are used as a whole",
                    "write `facts`, whose names are in docs/facts.md",
                ));
            }
            // The tokens of the first name: `.name` or `['name']`.
            let used = if all.get(at + 1).is_some_and(|open| open.is("[")) { 3 } else { 2 };
            return self.fact(first.strip_prefix("ansible_").unwrap_or(&first), all, at + 1 + used, out);
        }
        if CONNECTION.contains(&fact) {
            out.push_str(name);
            return Ok(at + 1);
        }
        self.fact(fact, all, at + 1, out)
    }

    /// Rewrites a fact; `at` is the place behind its name.
    pub(crate) fn fact(
        &self,
        fact: &str,
        all: &[Token<'_>],
        at: usize,
        out: &mut String,
    ) -> Result<usize, ImportProblem> {
        if let Some(here) = self.gathered.get(fact) {
            out.push_str(here);
            return Ok(at);
        }
        if let Some(end) = system::compared(fact, all, at, out)? {
            return Ok(end);
        }
        if fact == "system" {
            out.push_str("'Linux'");
            return Ok(at);
        }
        if fact == "python_version"
            && let Some((holds, end)) = python_test(all, at)
        {
            out.push_str(if holds { "true" } else { "false" });
            return Ok(end);
        }
        let entry = ansible_fact(fact);
        let expression = entry.filter(|entry| entry.name == fact).map_or("", |entry| entry.expression);
        let path = path_at(all, at);
        // Where there is no program `lsb_release` Ansible does not know it, and the task fails there.
        if fact == "lsb" && path.text == ".codename" {
            out.push_str("facts.os.codename");
            return Ok(path.end);
        }
        let is_address = matches!(path.text.as_str(), ".address" | ".interface" | ".gateway");
        let bad_part = fact.starts_with("default_ipv") && !is_address;
        if expression.is_empty() || bad_part || system::is_compared(fact) {
            let write = entry.map_or("write what docs/facts.md has for it", |entry| entry.instead);
            return Err(ImportProblem::new(
                format!("`ansible_{fact}{}` has no exact counterpart in this place", path.text),
                write,
            ));
        }
        out.push_str(expression);
        Ok(at)
    }

    /// Rewrites a text that may hold templates.
    pub(crate) fn template(&self, text: &str) -> Result<String, ImportProblem> {
        if !text.contains("{{") && !text.contains("{%") {
            return Ok(text.to_owned());
        }
        let all = parts(text)
            .ok_or_else(|| ImportProblem::new("an expression is not closed", "close it with `}}` or `%}`"))?;
        let mut out = String::new();
        for part in all {
            match part {
                TemplatePart::Plain(text) => out.push_str(text),
                TemplatePart::Code(open, inside, close) => {
                    let code = self.expression(inside)?;
                    // A text alone needs no expression around it.
                    match code.trim().strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                        Some(plain) if open == "{{" && code != inside && !plain.contains(['\'', '\\']) => {
                            out.push_str(plain);
                        }
                        _ => out.push_str(&format!("{open}{code}{close}")),
                    }
                }
            }
        }
        Ok(out)
    }

    /// A text with only those names that have another one now.
    pub(crate) fn with_new_names(&self, text: &str) -> String {
        let Some(all) = parts(text).filter(|_| !self.renamed.is_empty()) else { return text.to_owned() };
        let mut out = String::new();
        for part in all {
            let TemplatePart::Code(open, inside, close) = part else {
                if let TemplatePart::Plain(plain) = part {
                    out.push_str(plain);
                }
                continue;
            };
            out.push_str(open);
            let all = tokens(inside);
            for (at, token) in all.iter().enumerate() {
                let is_part = before(&all, at).is_some_and(|token| token.is(".") || token.is("|"));
                let is_set = before(&all, at).is_some_and(|token| token.is("set"));
                let is_argument = !is_set && all.get(skip(&all, at + 1)).is_some_and(|sign| sign.is("="));
                let new = self.renamed.get(token.text);
                let new = new.filter(|_| token.sort == TokenSort::Name && !is_part && !is_argument);
                out.push_str(new.map_or(token.text, String::as_str));
            }
            out.push_str(close);
        }
        out
    }

    /// Rewrites all texts of a value. Keys of maps stay.
    pub(crate) fn node(&self, node: &Node) -> Result<Node, ImportProblem> {
        let value = match &node.value {
            Value::String(text) if node.tag.as_deref() != Some(UNSAFE_TAG) => {
                Value::String(self.template(text)?)
            }
            Value::List(items) => {
                Value::List(items.iter().map(|item| self.node(item)).collect::<Result<_, _>>()?)
            }
            Value::Map(entries) => Value::Map(
                entries.iter().map(|(key, value)| Ok((key.clone(), self.node(value)?))).collect::<Result<
                    _,
                    ImportProblem,
                >>(
                )?,
            ),
            other => other.clone(),
        };
        Ok(Node { value, span: node.span.clone(), tag: node.tag.clone() })
    }
}

/// Whether the token is the name of a test behind `is not`.
fn is_test_name(all: &[Token<'_>], at: usize) -> bool {
    let words: Vec<&Token<'_>> = all
        .get(..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .filter(|t| t.sort != TokenSort::Blank)
        .take(2)
        .collect();
    matches!(words.as_slice(), [not, is] if not.is("not") && is.is("is"))
}

/// A dotted name at a place: its last part, and the place after it.
fn dotted<'t>(all: &[Token<'t>], at: usize) -> (&'t str, usize) {
    let mut at = at;
    while all.get(at + 1).is_some_and(|dot| dot.is("."))
        && all.get(at + 2).is_some_and(|t| t.sort == TokenSort::Name)
    {
        at += 2;
    }
    (all.get(at).map_or("", |token| token.text), at + 1)
}

/// A name that another one stands for here, as the table says it: `write NAME`.
fn renamed(sort: AnsibleSort, name: &str) -> Option<String> {
    let instead = ansible_instead(&[sort], name)?;
    let other = instead.strip_prefix("write `")?.strip_suffix('`')?;
    is_known_here(sort, other).then(|| other.to_owned())
}

fn filter(all: &[Token<'_>], at: usize, out: &mut String) -> Result<usize, ImportProblem> {
    known(AnsibleSort::Filter, "filter", all, at, out)
}

fn test(all: &[Token<'_>], at: usize, out: &mut String) -> Result<usize, ImportProblem> {
    known(AnsibleSort::Test, "test", all, at, out)
}

fn known(
    sort: AnsibleSort,
    word: &str,
    all: &[Token<'_>],
    at: usize,
    out: &mut String,
) -> Result<usize, ImportProblem> {
    let (name, end) = dotted(all, at);
    if is_known_here(sort, name) {
        out.push_str(name);
    } else if let Some(other) = renamed(sort, name) {
        out.push_str(&other);
    } else {
        let write = ansible_instead(&[sort], name).unwrap_or("write it without this one");
        return Err(ImportProblem::new(format!("there is no {word} `{name}`"), write));
    }
    Ok(end)
}

fn lookup(all: &[Token<'_>], at: usize, out: &mut String) -> Result<usize, ImportProblem> {
    let open = skip(all, at + 1);
    let first = skip(all, open + 1);
    let name = all.get(first).and_then(Token::quoted);
    let short = name.map(|name| name.rsplit('.').next().unwrap_or(name));
    match short {
        _ if !all.get(open).is_some_and(|sign| sign.is("(")) => {
            out.push_str(all.get(at).map_or("", |token| token.text));
            Ok(at + 1)
        }
        Some(name) if is_known_here(AnsibleSort::Lookup, name) => {
            out.push_str(if all.get(at).is_some_and(|token| token.text == "q") {
                "query"
            } else {
                all.get(at).map_or("", |t| t.text)
            });
            out.push_str(&format!("('{name}'"));
            Ok(first + 1)
        }
        Some(name) => {
            let write = ansible_instead(&[AnsibleSort::Lookup], name).unwrap_or("write the value itself");
            Err(ImportProblem::new(format!("there is no lookup `{name}`"), write))
        }
        None => Err(ImportProblem::new("the name of a lookup is computed", "write its name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        ExpressionNames::default().expression(text).unwrap_or_else(|problem| format!("! {}", problem.why))
    }

    #[test]
    fn facts_get_their_names_here() {
        for (ansible, here) in [
            ("ansible_hostname == 'a'", "facts.hostname == 'a'"),
            ("ansible_facts['kernel'] is version('5.0', '>=')", "facts.kernel is version('5.0', '>=')"),
            ("ansible_os_family == \"Debian\"", "facts.package_manager == 'apt'"),
            (
                "ansible_facts.os_family != 'RedHat'",
                "facts.package_manager not in ['dnf', 'microdnf', 'yum']",
            ),
            ("ansible_distribution in ['Debian', 'Ubuntu']", "facts.os.id in ['debian', 'ubuntu']"),
            ("ansible_distribution|lower == 'ubuntu'", "facts.os.id == 'ubuntu'"),
            ("ansible_distribution_major_version | int >= 12", "facts.os.version.split('.')[0] | int >= 12"),
            ("ansible_default_ipv4.address", "facts.network.ipv4.address"),
            ("x.ansible_hostname", "x.ansible_hostname"),
            ("'ansible_hostname' in y", "'ansible_hostname' in y"),
            ("ansible_host", "ansible_host"),
            ("a is ansible.builtin.version_compare('1', '<')", "a is version('1', '<')"),
            ("a is not defined and b is issubset(c)", "a is not defined and b is subset(c)"),
            ("x | ansible.utils.ipaddr('net')", "x | ipaddr('net')"),
        ] {
            assert_eq!(written(ansible), here, "{ansible}");
        }
        for bad in [
            "ansible_fqdn",
            "ansible_facts",
            "ansible_distribution",
            "ansible_default_ipv4.macaddress",
            "lookup('pipe', 'date')",
            "q('ansible.builtin.url', 'http://x')",
            "x | no_such_filter",
            "hostvars[h]['ansible_eth0']",
            "vars['a' ~ b]",
        ] {
            assert!(written(bad).starts_with('!'), "{bad}: {}", written(bad));
        }
    }

    #[test]
    fn a_loop_variable_becomes_item() {
        let names = ExpressionNames { element: Some("account".into()), ..ExpressionNames::default() };
        assert_eq!(names.template("{{ account.name }}-account").unwrap(), "{{ item.name }}-account");
        assert_eq!(
            ExpressionNames::default().template("# {{ ansible_managed }}").unwrap(),
            "# Managed by converge"
        );
    }
}
