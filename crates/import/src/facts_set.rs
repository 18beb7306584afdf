//! set_fact and include_vars: named expressions of the role.

use crate::expression::{ImportProblem, uses, whole_expression};
use crate::includes::{cases, listed};
use crate::keywords::{Common, conditions};
use crate::loops::expression_of;
use crate::registers::has_loop;
use crate::report::TaskVerdict;
use crate::role::{Build, ConditionalValue};
use crate::targets::{DecidedFor, decided};
use crate::task::Task;
use crate::task::included_name;
use crate::tokens::{TokenSort, tokens};
use crate::written::CommentedValue;
use crate::yaml::{each_text, made, map};
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
            // A variable that gets its own value keeps it.
            if value.as_str().and_then(whole_expression).map(str::trim) == Some(&name) {
                continue;
            }
            self.set(&name, when.clone(), value, true)?;
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

    /// Sets a variable for all later tasks, or for the present one alone.
    fn set(
        &mut self,
        name: &str,
        when: Vec<String>,
        value: Node,
        is_for_all: bool,
    ) -> Result<(), ImportProblem> {
        if self.names.registered.contains_key(name) {
            return Err(ImportProblem::new(
                format!("`{name}` is the result of a task too"),
                "give one of the two another name",
            ));
        }
        let is_new = !self.names.renamed.contains_key(name) && !self.sets.iter().any(|(own, _)| own == name);
        // A name that was read before stays with its value, and so does one that users may give.
        let is_read = || self.passed.iter().any(|task| self.reads(task, name));
        let is_first = is_new && is_for_all && (self.inputs.contains(name) || is_read());
        self.not_read_before(name, is_first)?;
        if is_first {
            self.rename_input(name)?;
        }
        self.context.literals.remove(name);
        self.set_at.insert(name.to_owned(), self.passed.len());
        let renamed = self.names.renamed.get(name).cloned();
        self.put(renamed.as_deref().unwrap_or(name), when, value)
    }

    pub(crate) fn put(&mut self, name: &str, when: Vec<String>, value: Node) -> Result<(), ImportProblem> {
        let is_of_vars = self.written.vars.iter().any(|var| var.name == name);
        if is_of_vars {
            let value = self.of_vars(name);
            self.sets.push((name.to_owned(), value));
        }
        let all = when.len();
        let when: Vec<String> = when.into_iter().filter(|one| !is_undefined(one, name)).collect();
        let mut is_default = when.len() < all;
        let mut value = value;
        let when = self.with_earlier(name, when)?;
        if uses_itself(&value, name) {
            if let Some((_, sets)) = self.sets.iter().find(|(own, _)| own == name) {
                value = grown(name, &value, sets)?;
            } else if let Some(default) = default_of(name, &value) {
                (value, is_default) = (default, true);
            }
        }
        let mut own = BTreeSet::new();
        uses(&value.to_json().to_string(), name, false, &mut own);
        when.iter().for_each(|one| uses(one, name, true, &mut own));
        if !own.is_empty() {
            return Err(ImportProblem::new(
                format!("the fact `{name}` is made from itself"),
                "write all of it as one expression in `vars`",
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

    /// The value of a variable of the role, which holds where none of those does that tasks set.
    fn of_vars(&mut self, name: &str) -> Vec<ConditionalValue> {
        let Some(at) = self.written.vars.iter().position(|var| var.name == name) else { return Vec::new() };
        let value = self.written.vars.remove(at).value;
        vec![ConditionalValue { when: Vec::new(), value, is_default: false }]
    }

    /// A variable of a role has one value, from its first task on: a task that reads it before it is set, or between two values, would see
    /// another one. One that gets another name here keeps its own for what stands before, but for templates: they are one text for all that use them.
    fn not_read_before(&self, name: &str, is_first: bool) -> Result<(), ImportProblem> {
        let first = self.set_at.get(name).copied().unwrap_or(0);
        let passed = self.passed.get(first..).unwrap_or_default().iter();
        let mut passed = passed.filter(|task| !is_first || task.module == "template");
        let reader = passed.find(|task| self.reads(task, name));
        match reader {
            None => Ok(()),
            Some(task) => Err(ImportProblem::new(
                format!("`{}` reads `{name}` before it has this value", task.title()),
                "write the value under another name in `vars`, and read that one from here on",
            )),
        }
    }

    /// Whether a task reads a variable, in its template too.
    fn reads(&self, task: &Task, name: &str) -> bool {
        let mut found = BTreeSet::new();
        let sets_it = task.module == "set_fact" && task.args.get(name).is_some();
        for (key, value) in task.keywords.iter().filter(|_| !sets_it) {
            let bare = matches!(key.as_str(), "when" | "until" | "failed_when" | "changed_when");
            each_text(value, &mut |text| uses(text, name, bare, &mut found));
        }
        let bare = matches!(task.module.as_str(), "assert" | "debug");
        for (key, value) in task.args.as_map().unwrap_or_default() {
            if key.as_str() != Some(name) {
                each_text(value, &mut |text| uses(text, name, bare, &mut found));
            }
        }
        if let Some(text) = &task.free {
            uses(text, name, false, &mut found);
        }
        if task.module == "template" {
            let source = task.args.get("src").and_then(Node::scalar_text).unwrap_or_default();
            let path = format!("templates/{}", source.trim_start_matches("templates/"));
            match self.files.text(&path) {
                Some(text) => uses(text, name, false, &mut found),
                // Any of them may be meant.
                None => {
                    for path in self.files.below("templates") {
                        let text = self.files.text(&format!("templates/{path}")).unwrap_or_default();
                        uses(text, name, false, &mut found);
                    }
                }
            }
        }
        !found.is_empty()
    }

    /// A variable that a task alone has.
    pub(crate) fn variable(&mut self, name: &str, value: Node, task: &Task) -> Result<(), ImportProblem> {
        let same = self.sets.iter().find(|(own, _)| own == name).is_some_and(
            |(_, sets)| matches!(sets.as_slice(), [one] if one.when.is_empty() && one.value == value),
        );
        if same {
            return Ok(());
        }
        let is_taken = self.inputs.contains(name)
            || self.sets.iter().any(|(own, _)| own == name)
            || self.written.vars.iter().any(|var| var.name == name);
        if is_taken {
            return Err(ImportProblem::new(
                format!("the task gives `{name}` a value of its own: {}", task.title()),
                "write the value in the place where it is used",
            ));
        }
        self.set(name, Vec::new(), value, false)
    }

    pub(crate) fn include_vars(&mut self, task: &Task) -> Result<(), ImportProblem> {
        let when = self.whole_condition(task)?;
        let open = |why: &str| ImportProblem::new(why.to_owned(), crate::task::instead("include_vars"));
        if task.args.get("dir").is_some() {
            return Err(open("a folder of variables is read"));
        }
        let name = task.args.get("file").and_then(|_| task.args.get("name")?.scalar_text());
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
            let mut when = when.clone();
            when.extend(condition.clone());
            // With a name the variables are the keys of one.
            if let Some(name) = &name {
                let value = self.names.node(&node)?;
                self.set(name, when, value, true)?;
                continue;
            }
            for (key, value) in node.as_map().unwrap_or_default() {
                let value = self.names.node(value)?;
                self.set(&key.scalar_text().unwrap_or_default(), when.clone(), value, true)?;
            }
        }
        self.find(task, TaskVerdict::Exact, "vars", Vec::new(), None);
        Ok(())
    }

    /// Writes all that was set: expressions of the role, and inputs with a default where it was set only while it had no value.
    pub(crate) fn write_sets(&mut self) -> Result<(), ImportProblem> {
        for (name, sets) in self.sets.iter().filter(|(_, sets)| !sets.is_empty()) {
            let is_default = sets.iter().any(|set| set.is_default);
            // A value without a condition hides those before it.
            let first = sets.iter().rposition(|set| set.when.is_empty()).unwrap_or(0);
            let sets = sets.get(first..).unwrap_or_default();
            let value = match sets {
                [one] if one.when.is_empty() => one.value.clone(),
                sets => made(format!("{{{{ {} }}}}", expression_of_sets(name, sets)?)),
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

/// The longest expression of a variable that grows from task to task.
const MAX_GROWN: usize = 4000;

/// The expression for the values of a variable, of which the last counts that holds.
fn expression_of_sets(name: &str, sets: &[ConditionalValue]) -> Result<String, ImportProblem> {
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
        if set.when.is_empty() {
            break;
        }
        text.push_str(" if ");
        text.push_str(&joined(&set.when));
    }
    Ok(text)
}

/// Whether a value has the variable in it that it is for.
fn uses_itself(value: &Node, name: &str) -> bool {
    let mut found = BTreeSet::new();
    each_text(value, &mut |text| uses(text, name, false, &mut found));
    !found.is_empty()
}

/// The value with the variable in it replaced by what it was.
pub(crate) fn grown(name: &str, value: &Node, sets: &[ConditionalValue]) -> Result<Node, ImportProblem> {
    let problem = |why: &str| {
        ImportProblem::new(
            format!("the fact `{name}` is made from itself, {why}"),
            "write all of it as one expression in `vars`",
        )
    };
    if sets.iter().any(|set| set.is_default) {
        return Err(problem("and is set from outside too"));
    }
    let before = expression_of_sets(name, sets)?;
    let text = expression_of(value).ok_or_else(|| problem("in a template with statements"))?;
    let mut out = String::new();
    let all = tokens(&text);
    for (at, token) in all.iter().enumerate() {
        let after_dot = at.checked_sub(1).and_then(|at| all.get(at)).is_some_and(|token| token.is("."));
        if token.sort == TokenSort::Name && token.text == name && !after_dot {
            out.push_str(&format!("({before})"));
        } else {
            out.push_str(token.text);
        }
        if out.len() > MAX_GROWN {
            return Err(problem("and becomes too long"));
        }
    }
    Ok(made(format!("{{{{ {out} }}}}")))
}

/// Of `NAME | default(VALUE)`, whatever other defaults stand behind it: the value.
fn default_of(name: &str, value: &Node) -> Option<Node> {
    let text = value.as_str().and_then(whole_expression)?.trim();
    let rest = text.strip_prefix(name)?.trim_start().strip_prefix('|')?.trim_start();
    let rest = rest.strip_prefix("default")?.trim_start().strip_prefix('(')?;
    let mut depth = 1usize;
    let mut end = 0;
    for token in tokens(rest) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            // With a second argument an empty value counts as none.
            "," if depth == 1 => return None,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        end += token.text.len();
    }
    let (inside, more) = (rest.get(..end)?.trim(), rest.get(end + 1..)?.trim());
    // Another filter would change a value from outside too.
    if !is_defaults(more) {
        return None;
    }
    // `default()` gives an empty text.
    let inside = if inside.is_empty() { "''" } else { inside };
    Some(made(if more.is_empty() {
        format!("{{{{ {inside} }}}}")
    } else {
        format!("{{{{ ({inside}) {more} }}}}")
    }))
}

/// Whether a text is nothing but `| default(...)`, any number of times.
fn is_defaults(text: &str) -> bool {
    let mut depth = 0usize;
    tokens(text).iter().filter(|token| token.sort != TokenSort::Blank).all(|token| match token.text {
        "(" | "[" | "{" => {
            depth += 1;
            true
        }
        ")" | "]" | "}" => {
            depth = depth.saturating_sub(1);
            true
        }
        word => depth > 0 || word == "|" || word == "default",
    })
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
