//! Tasks as Ansible reads them: keywords, the module, its parameters in either form.

use crate::expression::ImportProblem;
use crate::yaml::{made, map};
use converge_syntax::{Node, Source, Span, Value, resolve_plain};
use converge_template::ansible_module;

/// The module of a task that includes another role whose files are there.
pub(crate) const OUTER: &str = "include_outer_role";

/// Keywords of tasks, blocks and handlers; `with_…` besides.
const KEYWORDS: &[&str] = &[
    "name",
    "when",
    "tags",
    "register",
    "notify",
    "listen",
    "loop",
    "loop_control",
    "become",
    "become_user",
    "become_method",
    "become_flags",
    "become_exe",
    "no_log",
    "ignore_errors",
    "ignore_unreachable",
    "failed_when",
    "changed_when",
    "until",
    "retries",
    "delay",
    "vars",
    "args",
    "action",
    "local_action",
    "delegate_to",
    "delegate_facts",
    "run_once",
    "environment",
    "async",
    "poll",
    "check_mode",
    "diff",
    "block",
    "rescue",
    "always",
    "module_defaults",
    "collections",
    "any_errors_fatal",
    "throttle",
    "timeout",
    "remote_user",
    "connection",
    "port",
    "debugger",
];

/// Collections whose short names are those of the table.
const COLLECTIONS: &[&str] = &[
    "ansible.builtin",
    "ansible.legacy",
    "ansible.posix",
    "ansible.utils",
    "community.general",
    "community.crypto",
    "community.docker",
    "kubernetes.core",
    "community.kubernetes",
];

/// The reason why a task is for no host that converge works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The condition that does not hold.
    pub condition: String,
    /// Whether it is one on the system of the host: another one may have it.
    pub by_system: bool,
}

/// A task, or a block of them.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The comments above it.
    pub comments: Vec<String>,
    pub name: Option<String>,
    /// The module without its collection; `block` for a block, empty where there is none.
    pub module: String,
    /// The module as it is written.
    pub full_name: String,
    /// The parameters: a map.
    pub args: Node,
    /// The text of a module that takes one.
    pub free: Option<String>,
    /// All keys but the module's.
    pub keywords: Vec<(String, Node)>,
    pub block: Vec<Self>,
    pub span: Span,
    /// Its text, as it was written.
    pub text: String,
    /// Whether the files that it includes were found.
    pub included: bool,
    /// Where it is for no host that converge works on: why.
    pub foreign: Option<Foreign>,
    /// A reason why the task cannot be read.
    pub broken: Option<ImportProblem>,
}

impl Task {
    pub(crate) fn keyword(&self, key: &str) -> Option<&Node> {
        self.keywords
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// A text, or each text of a list.
    pub(crate) fn words(&self, key: &str) -> Vec<String> {
        let words = self.keyword(key).map(|value| match value.as_list() {
            Some(items) => items.iter().filter_map(Node::scalar_text).collect(),
            None => value.scalar_text().into_iter().collect::<Vec<_>>(),
        });
        words.unwrap_or_default()
    }

    /// The name for people.
    pub(crate) fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let main = self.free.clone().or_else(|| {
                ["name", "path", "dest", "src"].iter().find_map(|key| self.args.get(key)?.scalar_text())
            });
            let main = main.unwrap_or_default();
            let module = if self.module == OUTER { "include_role" } else { &self.module };
            format!("{module} {}", main.lines().next().unwrap_or_default()).trim().to_owned()
        })
    }

    /// Whether it only says something, whatever that is and when: nothing reads its result, and it fails nothing.
    pub(crate) fn only_says(&self) -> bool {
        // A failure that is ignored is a message.
        let ignores = self
            .keyword("ignore_errors")
            .is_some_and(|ignores| ignores.as_bool() == Some(true) || ignores.as_str() == Some("yes"));
        let says = matches!(self.module.as_str(), "debug" | "setup" | "gather_facts" | "ping");
        let ignores = ignores || self.never_fails();
        let own = ["register", "until", "notify"];
        (says || ignores && matches!(self.module.as_str(), "fail" | "assert"))
            && own.iter().all(|key| self.keyword(key).is_none())
            && (self.never_fails() || self.keyword("failed_when").is_none())
    }

    /// Whether `failed_when: false` says that nothing is a failure.
    fn never_fails(&self) -> bool {
        self.keyword("failed_when")
            .is_some_and(|when| when.as_bool() == Some(false) || when.as_str() == Some("false"))
    }

    /// The task and the tasks of its blocks, in order.
    pub(crate) fn each<'t>(&'t self, visit: &mut impl FnMut(&'t Self)) {
        visit(self);
        self.block.iter().for_each(|task| task.each(visit));
    }
}

/// The comment lines right above a line (from 1), without those that another value ends on.
pub(crate) fn comments_above(source: &Source, line: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = line;
    while at > 1 {
        at -= 1;
        let text = source.line_text(at).unwrap_or_default().trim();
        if !text.starts_with('#') {
            break;
        }
        found.push(text.to_owned());
    }
    found.reverse();
    found
}

/// Reads a list of tasks.
pub(crate) fn read_tasks(list: &Node) -> Vec<Task> {
    let items = list.as_list().unwrap_or_default();
    items.iter().map(read_task).collect()
}

/// The lines of a node, without what is in front of all of them.
fn text_of(node: &Node) -> String {
    let source = &node.span.source;
    let first = node.head_span().line();
    let last = source.position(node.span.end.saturating_sub(1)).0;
    let lines: Vec<&str> = (first..=last.max(first)).filter_map(|line| source.line_text(line)).collect();
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min();
    let cut = |line: &&str| line.get(indent.unwrap_or(0)..).unwrap_or("").trim_end().to_owned();
    lines.iter().map(cut).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn read_task(node: &Node) -> Task {
    let span = node.head_span().clone();
    let mut task = Task {
        comments: comments_above(&span.source, span.line()),
        name: None,
        module: String::new(),
        full_name: String::new(),
        args: map::<&str>([]),
        free: None,
        keywords: Vec::new(),
        block: Vec::new(),
        text: text_of(node),
        span,
        included: false,
        foreign: None,
        broken: None,
    };
    let Some(entries) = node.as_map() else {
        task.broken = Some(ImportProblem::new("a task is a map", "write `- module: {parameter: value}`"));
        return task;
    };
    let mut modules: Vec<(String, Node)> = Vec::new();
    for (key, value) in entries {
        let key = key.scalar_text().unwrap_or_default();
        if KEYWORDS.contains(&key.as_str()) || key.starts_with("with_") {
            task.keywords.push((key, value.clone()));
        } else {
            modules.push((key, value.clone()));
        }
    }
    task.name = task.keyword("name").and_then(Node::scalar_text);
    if let Some(block) = task.keyword("block") {
        task.block = read_tasks(block);
        "block".clone_into(&mut task.module);
        "block".clone_into(&mut task.full_name);
        return task;
    }
    if let Some(action) = task.keyword("action").or_else(|| task.keyword("local_action")).cloned() {
        modules.extend(action_of(&action));
    }
    let (name, value) = match modules.as_slice() {
        [one] => one.clone(),
        [] => {
            task.broken = Some(ImportProblem::new("the task has no module", "write what it is for"));
            return task;
        }
        all => {
            let names: Vec<String> = all.iter().map(|(name, _)| format!("`{name}`")).collect();
            let why = format!("the task has more than one module: {}", names.join(", "));
            task.broken = Some(ImportProblem::new(why, "make a task of each"));
            return task;
        }
    };
    task.module = short(&name);
    task.full_name = name;
    parameters(&mut task, &value);
    task
}

/// `action: module a=b`, or a map with `module`.
fn action_of(action: &Node) -> Option<(String, Node)> {
    if let Some(text) = action.as_str() {
        let (name, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        return Some((name.to_owned(), Node::new(rest, action.span.clone())));
    }
    let entries = action.as_map()?;
    let name = action.get("module")?.as_str()?.to_owned();
    let rest = entries.iter().filter(|(key, _)| key.as_str() != Some("module")).cloned().collect();
    Some((name, Node { value: Value::Map(rest), span: action.span.clone(), tag: None }))
}

/// The name without its collection, where the table has it from there.
fn short(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((collection, short)) if COLLECTIONS.contains(&collection) => short.to_owned(),
        _ => name.to_owned(),
    }
}

/// Modules that take a text of any form.
const FREE: &[&str] = &["command", "shell", "raw", "script", "win_command", "win_shell"];
/// Modules whose text is a name and may have parameters behind it.
const NAMED: &[&str] = &[
    "include_tasks",
    "import_tasks",
    "include",
    "include_vars",
    "meta",
    "import_playbook",
    "add_host",
    "group_by",
];

fn parameters(task: &mut Task, value: &Node) {
    let mut entries: Vec<(Node, Node)> = Vec::new();
    match &value.value {
        Value::Map(all) => entries.extend(all.iter().cloned()),
        Value::Null => {}
        Value::String(text) if FREE.contains(&task.module.as_str()) => {
            let (given, rest) =
                free_form(text, &["chdir", "creates", "removes", "executable", "stdin", "warn"]);
            entries.extend(given);
            task.free = Some(rest);
        }
        Value::String(text) if NAMED.contains(&task.module.as_str()) => {
            task.free = Some(text.trim().to_owned());
        }
        Value::String(text) => match key_values(text) {
            Some(given) => entries.extend(given),
            None => {
                task.broken = Some(ImportProblem::new("the parameters cannot be read", "write them as a map"))
            }
        },
        _ => task.broken = Some(ImportProblem::new("the parameters are no map", "write them as a map")),
    }
    if let Some(more) = task.keyword("args").and_then(Node::as_map) {
        entries.extend(more.iter().cloned());
    }
    for key in ["cmd", "_raw_params"] {
        let at = entries.iter().position(|(name, _)| name.as_str() == Some(key));
        if let Some(at) = at.filter(|_| FREE.contains(&task.module.as_str())) {
            task.free = entries.remove(at).1.scalar_text();
        }
    }
    task.args = Node { value: Value::Map(entries), span: value.span.clone(), tag: None };
}

/// The words of `a=b c="d e"`, quotes and templates kept together.
pub(crate) fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut depth = 0usize;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' if matches!(rest.peek(), Some('{' | '%')) && quote.is_none() => depth += 1,
            '}' if rest.peek() == Some(&'}') && depth > 0 => {
                depth -= 1;
                word.push(c);
                rest.next();
            }
            '%' if rest.peek() == Some(&'}') && depth > 0 => {
                depth -= 1;
                word.push(c);
                rest.next();
                word.push('}');
                continue;
            }
            '\'' | '"' if depth == 0 => match quote {
                None => quote = Some(c),
                Some(open) if open == c => quote = None,
                Some(_) => {}
            },
            c if c.is_whitespace() && quote.is_none() && depth == 0 => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if quote.is_some() || depth > 0 {
        return None;
    }
    if !word.is_empty() {
        words.push(word);
    }
    Some(words)
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn key_values(text: &str) -> Option<Vec<(Node, Node)>> {
    split_words(text)?.iter().map(|word| pair(word)).collect()
}

fn pair(word: &str) -> Option<(Node, Node)> {
    let (key, value) = word.split_once('=')?;
    let is_name = !key.is_empty() && key.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let value = unquoted(value);
    // `mode=0644` is text in this form, and so is what only looks like a number.
    let value = match resolve_plain(value) {
        Value::Bool(value) => Value::Bool(value),
        _ => Value::from(value),
    };
    is_name.then(|| (made(key), made(value)))
}

/// Parameters in front of or behind the text of a command.
fn free_form(text: &str, keys: &[&str]) -> (Vec<(Node, Node)>, String) {
    let mut given = Vec::new();
    let Some(words) = split_words(text).filter(|_| !text.trim().contains('\n')) else {
        return (given, text.to_owned());
    };
    let mut rest = Vec::new();
    for word in &words {
        match pair(word).filter(|(key, _)| key.as_str().is_some_and(|key| keys.contains(&key))) {
            Some(pair) => given.push(pair),
            None => rest.push(word.clone()),
        }
    }
    let text = if given.is_empty() { text.trim().to_owned() } else { rest.join(" ") };
    (given, text)
}

/// The entry of the table for the task's module.
pub(crate) fn instead(module: &str) -> &'static str {
    ansible_module(module)
        .map_or("write the kind that has this effect, or `command` with a guard", |entry| entry.instead)
}

/// The file that an include names.
pub(crate) fn included_name(task: &Task) -> Option<String> {
    task.free
        .clone()
        .or_else(|| ["file", "_raw_params", "name"].iter().find_map(|key| task.args.get(key)?.scalar_text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::{Dialect, parse_yaml};

    fn task(yaml: &str) -> Task {
        let source = Source::new("t.yml", yaml);
        read_tasks(&parse_yaml(source, Dialect::Ansible).unwrap()[0]).remove(0)
    }

    #[test]
    fn parameters_are_read_in_every_form() {
        let one = task("# why\n- name: n\n  ansible.builtin.service: name=a state=started enabled=yes\n");
        assert_eq!((one.module.as_str(), one.comments.as_slice()), ("service", &["# why".to_owned()][..]));
        assert_eq!(one.args.get("enabled").unwrap().as_bool(), Some(true));
        let two = task("- command: make install chdir=/src creates=\"/usr/bin/a b\"\n");
        assert_eq!(two.free.as_deref(), Some("make install"));
        assert_eq!(two.args.get("creates").unwrap().as_str(), Some("/usr/bin/a b"));
        let three = task("- shell: echo {{ a }} | wc -l\n  args:\n    chdir: /tmp\n");
        assert_eq!(
            (three.free.as_deref(), three.args.get("chdir").unwrap().as_str()),
            (Some("echo {{ a }} | wc -l"), Some("/tmp"))
        );
        let four = task("- action: copy src=a dest={{ b }}/c\n");
        assert_eq!(
            (four.module.as_str(), four.args.get("dest").unwrap().as_str()),
            ("copy", Some("{{ b }}/c"))
        );
        let five = task("- command: {cmd: ls, creates: /x}\n");
        assert_eq!(five.free.as_deref(), Some("ls"));
        assert!(task("- name: x\n").broken.is_some() && task("- copy: {}\n  file: {}\n").broken.is_some());
        assert_eq!(task("- my.own.copy: {a: b}\n").module, "my.own.copy");
    }
}
