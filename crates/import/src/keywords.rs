//! Keywords of a task beside its module.

use crate::convert::{Context, gathered_by};
use crate::expression::{ExpressionNames, ImportProblem, RegisteredResult};
use crate::includes::listed;
use crate::registers::{is_own_failure, says_no_change};
use crate::targets::{DecidedFor, decided};
use crate::task::Task;
use crate::tokens::{TokenSort, tokens};
use crate::yaml::made;
use converge_syntax::{Node, Value};
use converge_template::{AnsibleSort, ansible_instead};

/// The keywords of a task, read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub when: Vec<Node>,
    pub written_when: Vec<Node>,
    /// Results whose change a condition asks for, as the names of resources.
    pub follows: Vec<String>,
    pub tags: Vec<String>,
    pub become_user: Option<Node>,
    pub sensitive: bool,
    pub remarks: Vec<String>,
}

fn instead(keyword: &str) -> &'static str {
    ansible_instead(&[AnsibleSort::Keyword], keyword).unwrap_or("leave it out")
}

fn is_true(node: &Node) -> bool {
    node.as_bool() == Some(true) || node.as_str().is_some_and(|text| matches!(text, "true" | "yes"))
}

/// Whether one of the conditions of a task or block asks for the change of another task.
pub(crate) fn asks_for_change(task: &Task, names: &ExpressionNames) -> bool {
    task.keyword("when").is_some_and(|when| {
        listed(when).iter().any(|one| one.as_str().and_then(|text| changed(text, names)).is_some())
    })
}

/// The resources whose change a whole condition asks for: `x is changed`, `x.changed`, several with `or`.
fn changed(text: &str, names: &ExpressionNames) -> Option<Vec<String>> {
    let all: Vec<&str> = tokens(text)
        .into_iter()
        .filter(|token| token.sort != TokenSort::Blank)
        .map(|token| token.text)
        .collect();
    let mut found = Vec::new();
    for part in all.split(|word| *word == "or") {
        let name = match part {
            [name, "is", "changed" | "change"]
            | [name, ".", "changed"]
            | [name, ".", "changed", "|", "bool"] => name,
            ["(", name, "is", "changed", ")"] | ["(", name, ".", "changed", ")"] => name,
            [name, "|", "changed"] => name,
            _ => return None,
        };
        match names.registered.get(*name)? {
            RegisteredResult::Changes(resources) => found.extend(resources.iter().cloned()),
            _ => return None,
        }
    }
    Some(found)
}

/// Reads conditions, and those that ask for a change apart.
pub(crate) fn conditions(
    task: &Task,
    names: &ExpressionNames,
    common: &mut Common,
) -> Result<(), ImportProblem> {
    for condition in task.keyword("when").map(listed).unwrap_or_default() {
        if let Some(resources) = condition.as_str().and_then(|text| changed(text, names)) {
            if resources.is_empty() {
                return Err(ImportProblem::new(
                    format!(
                        "`{}`: nothing stands for the task that it asks about",
                        condition.as_str().unwrap_or_default()
                    ),
                    "write `on_change` or `restart_on` with the names of resources",
                ));
            }
            common.follows.extend(resources);
            continue;
        }
        let written = match &condition.value {
            Value::String(text) => {
                let bare = crate::expression::whole_expression(text).unwrap_or(text);
                if bare.contains("{{") || bare.contains("{%") {
                    return Err(ImportProblem::new(
                        "a condition with a template in it",
                        "write the condition as one expression without `{{ }}`",
                    ));
                }
                if decided(bare, DecidedFor::Hosts) == Some(true) || asks_for_gathered(bare, task, names) {
                    continue;
                }
                let text = names.expression(bare.trim())?;
                let text = text.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
                made(unwrapped(text.trim()))
            }
            Value::Bool(value) => made(*value),
            _ => return Err(ImportProblem::new("a condition is not text", "write an expression")),
        };
        common.written_when.push(condition);
        common.when.push(written);
    }
    Ok(())
}

/// Whether a condition asks whether a fact is not there yet that the task gathers: to gather it once more is the same.
fn asks_for_gathered(condition: &str, task: &Task, names: &ExpressionNames) -> bool {
    let Some(known) = gathered_by(task).filter(|known| !names.gathered.contains_key(known.fact)) else {
        return false;
    };
    let words: Vec<&str> = tokens(condition)
        .into_iter()
        .filter(|token| token.sort != TokenSort::Blank)
        .map(|token| token.quoted().unwrap_or(token.text))
        .collect();
    let fact = known.fact;
    match words.as_slice() {
        ["not", "(", own, "in", "ansible_facts", ")"]
        | ["not", own, "in", "ansible_facts"]
        | [own, "not", "in", "ansible_facts"]
        | ["ansible_facts", ".", own, "is", "not", "defined"]
        | ["ansible_facts", ".", own, "is", "undefined"]
        | ["ansible_facts", "[", own, "]", "is", "not", "defined"]
        | ["ansible_facts", "[", own, "]", "is", "undefined"]
        | [own, "is", "not", "defined"]
        | [own, "is", "undefined"] => *own == fact,
        _ => false,
    }
}

/// The text without brackets around all of it.
fn unwrapped(text: &str) -> String {
    let Some(inside) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
        return text.to_owned();
    };
    let mut depth = 0i32;
    for token in tokens(inside).iter().filter(|token| token.sort == TokenSort::Sign) {
        depth += match token.text {
            "(" => 1,
            ")" => -1,
            _ => 0,
        };
        if depth < 0 {
            return text.to_owned();
        }
    }
    inside.to_owned()
}

/// The user that a task becomes, where it is not root.
fn becomes(task: &Task, names: &ExpressionNames) -> Result<Option<Node>, ImportProblem> {
    match task.keyword("become_user") {
        Some(user) if user.as_str() != Some("root") => names.node(user).map(Some),
        _ => Ok(None),
    }
}

/// Keywords that change nothing here.
const SILENT: &[&str] = &[
    "name",
    "when",
    "tags",
    "register",
    "notify",
    "listen",
    "loop",
    "loop_control",
    "become_user",
    "become_method",
    "become_flags",
    "become_exe",
    "args",
    "action",
    "check_mode",
    "diff",
    "block",
    "rescue",
    "always",
    "collections",
    "vars",
    "changed_when",
    "failed_when",
    "until",
    "retries",
    "delay",
    "environment",
    "no_log",
    "remote_user",
    "debugger",
    "any_errors_fatal",
    "run_once",
];

/// Reads the keywords of a task.
pub(crate) fn common(task: &Task, names: &ExpressionNames) -> Result<Common, ImportProblem> {
    let mut common =
        Common { tags: task.words("tags"), become_user: becomes(task, names)?, ..Common::default() };
    common.tags.retain(|tag| !tag.contains("{{"));
    let mut tags: Vec<String> =
        common.tags.iter().flat_map(|tag| tag.split(',')).map(|tag| tag.trim().to_owned()).collect();
    tags.retain(|tag| !tag.is_empty());
    common.tags = tags;
    conditions(task, names, &mut common)?;
    for (key, value) in task.keywords.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "become" if value.as_bool() == Some(false) => {
                common.remarks.push("`become: false`: every resource runs as root where the inventory says so; write `become_user` at a command".to_owned());
            }
            "become" => {}
            "no_log" => {
                common.sensitive = value.as_bool() != Some(false);
            }
            "delegate_to"
                if value.as_str().is_some_and(|host| host.replace(' ', "") == "{{inventory_hostname}}") => {}
            // They look at variables alone, which are those of the host in any case.
            "delegate_to" if matches!(task.module.as_str(), "assert" | "fail") => {}
            "delegate_to" | "local_action" | "delegate_facts" => {
                return Err(ImportProblem::new(
                    format!("`{key}`: it works on another host"),
                    instead("delegate_to"),
                ));
            }
            "run_once" if is_true(value) && is_of_inputs(task, names) => {}
            "run_once" if is_true(value) => {
                return Err(ImportProblem::new("`run_once`: one host does it for all", instead("run_once")));
            }
            "async" if task.keyword("poll").is_some_and(|poll| poll.as_i64() == Some(0)) => {
                return Err(ImportProblem::new(
                    "it goes on in the background",
                    "write a `unit` for what runs on, or `command` with a guard",
                ));
            }
            "async" | "poll" => {}
            "ignore_errors" if is_true(value) => {}
            "ignore_errors" | "ignore_unreachable" => {}
            "module_defaults" => {
                return Err(ImportProblem::new(
                    "`module_defaults` gives parameters",
                    instead("module_defaults"),
                ));
            }
            "connection" | "port" => {
                return Err(ImportProblem::new(
                    format!("`{key}`: it takes another connection"),
                    instead(key),
                ));
            }
            "throttle" => common.remarks.push(format!("`throttle`: {}", instead("throttle"))),
            "timeout" => common.remarks.push("`timeout` is left out: a `command` has its own".to_owned()),
            key if SILENT.contains(&key) || key.starts_with("with_") => {}
            key => return Err(ImportProblem::new(format!("`{key}` has no counterpart"), instead(key))),
        }
    }
    Ok(common)
}

/// Whether a task only checks what is the same on all hosts: inputs and variables. Then it says on each what it says on one.
fn is_of_inputs(task: &Task, names: &ExpressionNames) -> bool {
    let text = tokens(&task.text);
    let of_host = |word: &str| {
        word.contains("ansible_")
            || matches!(word, "inventory_hostname" | "inventory_hostname_short" | "hostvars" | "group_names")
            || names.registered.contains_key(word)
            || names.set_by_tasks.contains(word)
    };
    matches!(task.module.as_str(), "assert" | "fail")
        && task.keyword("register").is_none()
        && !text.iter().any(|token| of_host(token.text))
}

/// Whether an environment has nothing in it but where the usual programs are, and that apt asks no questions: kinds have both.
fn is_of_programs(environment: &Node) -> bool {
    const USUAL: &[&str] =
        &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/snap/bin"];
    environment.as_map().is_some_and(|all| {
        all.iter().all(|(name, value)| match (name.as_str(), value.as_str()) {
            (Some("DEBIAN_FRONTEND"), Some(value)) => value == "noninteractive",
            (Some("PATH"), Some(path)) => {
                path.split(':').all(|folder| USUAL.contains(&folder.trim_end_matches('/')))
            }
            _ => false,
        })
    })
}

/// Fills what only some conversions know, and refuses what the task's module cannot have.
pub(crate) fn special(
    task: &Task,
    names: &ExpressionNames,
    context: &mut Context,
    common: &mut Common,
) -> Result<(), ImportProblem> {
    let is_command = matches!(task.module.as_str(), "command" | "shell" | "raw");
    let has_answer = is_command || matches!(task.module.as_str(), "uri" | "stat" | "slurp");
    context.changed_when_false = says_no_change(task);
    context.ignores_errors = task.keyword("ignore_errors").is_some_and(is_true);
    context.register = task.keyword("register").and_then(Node::scalar_text);
    context.retries = task.keyword("retries").and_then(Node::as_i64);
    context.delay = task.keyword("delay").and_then(Node::as_i64);
    context.until = task.keyword("until").cloned();
    let environment = task.keyword("environment").filter(|all| is_command || !is_of_programs(all));
    if let Some(environment) = environment {
        if !is_command {
            return Err(ImportProblem::new(
                format!("`environment` goes to `{}`", task.module),
                "write the setting into the program's own configuration (proxies of apt: a file in /etc/apt/apt.conf.d)",
            ));
        }
        context.environment = Some(names.node(environment)?);
    }
    match task.keyword("failed_when") {
        Some(when) if is_own_failure(when, task) => {}
        Some(when) if is_command => context.failed_when = Some(when.clone()),
        Some(when) if when.as_bool() == Some(false) => context.ignores_errors = true,
        Some(_) if task.module == "debug" => {}
        Some(_) => {
            return Err(ImportProblem::new(
                "`failed_when` decides what a failure is",
                instead("failed_when"),
            ));
        }
        None => {}
    }
    if context.ignores_errors && !(context.is_query || task.module == "debug") {
        common.remarks.push(format!("`ignore_errors`: {}", instead("ignore_errors")));
    }
    let changed = task.keyword("changed_when").filter(|_| !context.changed_when_false);
    if changed.is_some() && !is_command {
        common.remarks.push("`changed_when` is left out: a kind knows what it changes".to_owned());
    }
    if context.until.is_some() && task.module != "uri" {
        let is_number = |key: &str| task.keyword(key).is_none_or(|value| value.as_i64().is_some());
        let is_waited = is_command && !context.is_query && is_number("retries") && is_number("delay");
        // These kinds try again themselves, and a command that only reads becomes a `wait_for`.
        let tries_itself = ["apt", "package", "get_url", "unarchive", "git", "apt_repository"];
        if has_answer && !is_waited {
            return Err(ImportProblem::new("it is tried again until it succeeds", instead("until")));
        }
        if !is_waited && !tries_itself.contains(&task.module.as_str()) {
            common.remarks.push("it is not tried again: downloads and packages do so themselves".to_owned());
        }
    }
    Ok(())
}
