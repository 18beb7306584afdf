//! set_fact and include_vars: named expressions of the role.

use crate::expression::{ImportProblem, uses, whole_expression};
use crate::includes::{cases, included_name, listed};
use crate::keywords::{Common, conditions};
use crate::loops::expression_of;
use crate::registers::has_loop;
use crate::report::TaskVerdict;
use crate::role::{Build, ConditionalValue};
use crate::targets::{DecidedFor, decided};
use crate::task::Task;
use crate::tokens::{TokenSort, tokens};
use crate::written::CommentedValue;
use crate::yaml::{made, map};
use converge_syntax::{Diagnostics, Node};
use std::collections::BTreeSet;

impl Build<'_> {
    pub(crate) fn set_fact(&mut self, task: &Task) -> Result<(), ImportProblem> {
        if has_loop(task) {
            return Err(ImportProblem::new(
                "the fact grows in a loop",
                "write it as one expression in `vars`, with `map`, `select` or `combine`",
            ));
        }
        let when = self.whole_condition(task)?;
        let entries: Vec<(Node, Node)> = task.args.as_map().unwrap_or_default().to_vec();
        for (key, value) in entries {
            let name = key.scalar_text().unwrap_or_default();
            if name == "cacheable" {
                continue;
            }
            let value = self.names.node(&value)?;
            self.set(&name, when.clone(), value)?;
        }
        self.find(task, TaskVerdict::Exact, "vars", Vec::new(), None);
        Ok(())
    }

    /// All conditions under which a task is done.
    fn whole_condition(&self, task: &Task) -> Result<Vec<String>, ImportProblem> {
        let mut read = Common::default();
        conditions(task, &self.names, &mut read)?;
        if !read.follows.is_empty() {
            return Err(ImportProblem::new(
                "it is set only when another task has changed something",
                "write an expression of what the host is",
            ));
        }
        Ok(self.conditions.iter().flatten().chain(&read.when).filter_map(Node::scalar_text).collect())
    }

    fn set(&mut self, name: &str, when: Vec<String>, value: Node) -> Result<(), ImportProblem> {
        let all = when.len();
        let when: Vec<String> = when.into_iter().filter(|one| !is_undefined(one, name)).collect();
        let is_default = when.len() < all;
        let mut own = BTreeSet::new();
        uses(&value.to_json().to_string(), name, false, &mut own);
        when.iter().for_each(|one| uses(one, name, true, &mut own));
        if !own.is_empty() {
            return Err(ImportProblem::new(
                format!("the fact `{name}` is made from itself"),
                "write all of it as one expression in `vars`",
            ));
        }
        if self.inputs.contains(name) {
            return Err(ImportProblem::new(
                format!("`{name}` is a default of the role too"),
                "write the expression under another name in `vars`, or as the `default` of the input",
            ));
        }
        let known = self.sets.iter().position(|(own, _)| own == name);
        let at = match known {
            Some(at) => at,
            None => {
                self.sets.push((name.to_owned(), Vec::new()));
                self.sets.len() - 1
            }
        };
        let Some((_, sets)) = self.sets.get_mut(at) else { return Ok(()) };
        if sets.iter().any(|set| set.is_default != is_default) {
            return Err(ImportProblem::new(
                format!("`{name}` has this value only while it has none, and another one in any case"),
                "write one expression in `vars`, or an input with a `default`",
            ));
        }
        // Values with conditions become one expression.
        let chooses = !when.is_empty() || sets.iter().any(|set| !set.when.is_empty());
        let is_open =
            sets.iter().map(|set| &set.value).chain([&value]).any(|value| expression_of(value).is_none());
        if chooses && is_open {
            return Err(ImportProblem::new(
                format!("a value of `{name}` is a template with statements, and a condition chooses it"),
                "write one expression in `vars`",
            ));
        }
        sets.push(ConditionalValue { when, value, is_default });
        Ok(())
    }

    /// A variable that a task alone has.
    pub(crate) fn variable(&mut self, name: &str, value: Node, task: &Task) -> Result<(), ImportProblem> {
        let same = self.sets.iter().find(|(own, _)| own == name).is_some_and(
            |(_, sets)| matches!(sets.as_slice(), [one] if one.when.is_empty() && one.value == value),
        );
        if same {
            return Ok(());
        }
        let is_taken = self.inputs.contains(name) || self.sets.iter().any(|(own, _)| own == name);
        if is_taken {
            return Err(ImportProblem::new(
                format!("the task gives `{name}` a value of its own: {}", task.title()),
                "write the value in the place where it is used",
            ));
        }
        self.set(name, Vec::new(), value)
    }

    pub(crate) fn include_vars(&mut self, task: &Task) -> Result<(), ImportProblem> {
        let when = self.whole_condition(task)?;
        let open = |why: &str| ImportProblem::new(why.to_owned(), crate::task::instead("include_vars"));
        if task.args.get("dir").is_some() {
            return Err(open("a folder of variables is read"));
        }
        let names = match first_found(task) {
            Some(names) => names,
            None if has_loop(task) => return Err(open("several files are read in a loop")),
            None => included_name(task).into_iter().collect(),
        };
        // Each file with the condition under which it is the one; the first that there is counts.
        let mut found: Vec<(Option<String>, String)> = Vec::new();
        let below = self.files.below("vars");
        for name in &names {
            let name = name.trim_start_matches("./").rsplit("vars/").next().unwrap_or(name);
            if !name.contains("{{") {
                if below.iter().any(|file| file == name) {
                    found.push((None, name.to_owned()));
                    break;
                }
                continue;
            }
            let Some(of_system) = cases(name, below.clone()) else {
                if may_match(name, &below) {
                    return Err(open(&format!("`{name}`: the host only knows which file")));
                }
                continue;
            };
            for (condition, file) in of_system {
                match decided(&condition, DecidedFor::Systems) {
                    Some(false) => self.is_of_targets = true,
                    Some(true) => found.push((None, file)),
                    None => found.push((Some(condition), file)),
                }
            }
            if found.iter().any(|(condition, _)| condition.is_none()) {
                break;
            }
        }
        if found.is_empty() {
            return Err(open("no file of variables is found for it"));
        }
        // The role has the values of `vars/main.yml` already, below all others.
        found.retain(|(condition, file)| condition.is_some() || !file.starts_with("main."));
        // The last value that holds counts: those found first come last.
        for (condition, file) in found.iter().rev() {
            let mut diags = Diagnostics::new();
            let node = self.files.yaml(&format!("vars/{file}"), &mut diags);
            let Some(node) = node else { return Err(open(&format!("vars/{file} cannot be read"))) };
            for (key, value) in node.as_map().unwrap_or_default() {
                let value = self.names.node(value)?;
                let mut when = when.clone();
                when.extend(condition.clone());
                self.set(&key.scalar_text().unwrap_or_default(), when, value)?;
            }
        }
        self.find(task, TaskVerdict::Exact, "vars", Vec::new(), None);
        Ok(())
    }

    /// Writes all that was set: expressions of the role, and inputs with a default where it was set only while it had no value.
    pub(crate) fn write_sets(&mut self) -> Result<(), ImportProblem> {
        for (name, sets) in &self.sets {
            let is_default = sets.iter().any(|set| set.is_default);
            // A value without a condition hides those before it.
            let first = sets.iter().rposition(|set| set.when.is_empty()).unwrap_or(0);
            let sets = sets.get(first..).unwrap_or_default();
            let value = match sets {
                [one] if one.when.is_empty() => one.value.clone(),
                sets => {
                    let mut text = String::new();
                    for set in sets.iter().rev() {
                        let value = expression_of(&set.value).ok_or_else(|| {
                            ImportProblem::new(
                                format!("the values of `{name}` are no expressions"),
                                "write one expression in `vars`",
                            )
                        })?;
                        if !text.is_empty() {
                            text.push_str(" else ");
                        }
                        text.push_str(&value);
                        if !set.when.is_empty() {
                            text.push_str(" if ");
                            text.push_str(&joined(&set.when));
                        }
                    }
                    made(format!("{{{{ {text} }}}}"))
                }
            };
            let name = name.clone();
            let written = |value| CommentedValue { comments: Vec::new(), name, value };
            if is_default {
                let kind = made(self.type_of_sets(sets));
                self.written.inputs.push(written(map([("type", kind), ("default", value)])));
            } else {
                self.written.vars.push(written(value));
            }
        }
        Ok(())
    }

    /// The type of the values of a variable; those that are another variable have its type.
    fn type_of_sets(&self, sets: &[ConditionalValue]) -> &'static str {
        let Some(value) = sets.first().map(|set| &set.value) else { return "str" };
        let other = value.as_str().and_then(whole_expression).map(str::trim);
        let of_other = other.and_then(|other| self.sets.iter().find(|(name, _)| name == other));
        let of_vars = other.and_then(|other| self.written.vars.iter().find(|var| var.name == other));
        let value = of_other
            .and_then(|(_, sets)| sets.first().map(|set| &set.value))
            .or(of_vars.map(|var| &var.value))
            .unwrap_or(value);
        crate::inputs::type_name(value)
    }
}

/// The names of which the first that there is counts: of `with_first_found`, or of the lookup `first_found` with a list in `vars` of the task.
fn first_found(task: &Task) -> Option<Vec<String>> {
    let given = match task.keyword("with_first_found") {
        Some(list) => list,
        None => {
            let name = included_name(task)?;
            let all = tokens(whole_expression(&name)?);
            let words: Vec<&str> =
                all.iter().filter(|token| token.sort != TokenSort::Blank).map(|token| token.text).collect();
            let ["lookup" | "query" | "q", "(", lookup, ",", name, ")"] = words.as_slice() else {
                return None;
            };
            let lookup = lookup.trim_matches(['\'', '"']);
            if !matches!(lookup, "first_found" | "ansible.builtin.first_found") {
                return None;
            }
            task.keyword("vars")?.get(name)?
        }
    };
    let mut names = Vec::new();
    for one in listed(given) {
        match one.get("files") {
            Some(files) => names.extend(listed(files).iter().filter_map(Node::scalar_text)),
            None => names.extend(one.scalar_text()),
        }
    }
    Some(names)
}

/// Whether a condition says that the variable has no value yet.
fn is_undefined(condition: &str, name: &str) -> bool {
    let words: Vec<&str> = condition.split_whitespace().collect();
    matches!(words.as_slice(), [own, "is", "not", "defined"] | [own, "is", "undefined"] | ["not", own, "is", "defined"] if *own == name)
}

fn joined(when: &[String]) -> String {
    match when {
        [one] => one.clone(),
        all => all.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" and "),
    }
}

/// Whether a name with templates may be one of these files: its plain parts stand in one in order.
fn may_match(name: &str, files: &[String]) -> bool {
    let plain: Vec<String> = crate::tokens::parts(name)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|part| match part {
            crate::tokens::TemplatePart::Plain(text) => Some(text.to_owned()),
            crate::tokens::TemplatePart::Code(..) => None,
        })
        .collect();
    files.iter().filter(|file| !file.starts_with("main.")).any(|file| {
        let mut rest = file.as_str();
        plain.iter().all(|part| match rest.find(part.as_str()) {
            Some(at) => {
                rest = rest.get(at + part.len()..).unwrap_or("");
                true
            }
            None => false,
        })
    })
}
