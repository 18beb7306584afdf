//! command, shell, raw.

use super::params::param;
use super::queries::{of_errors, statuses};
use super::{Context, Conversion, ConvertedPart, Params, read_only, shell_text};
use crate::expression::ImportProblem;
use crate::tokens::{TemplatePart, Token, TokenSort, parts, tokens};
use converge_syntax::{Node, Value};

pub(super) fn command(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    if let Some(words) = params.take(&["argv"]) {
        let words: Vec<String> =
            words.as_list().unwrap_or_default().iter().filter_map(Node::scalar_text).collect();
        params.free = Some(words.iter().map(|word| shell_text::word(word)).collect::<Vec<_>>().join(" "));
    } else if let Some(text) = params.free.take() {
        params.free = Some(without_shell(&text)?);
        let all = converted(params, context, Some(&text))?;
        return Ok(all.remark_if(
            text.contains("{%"),
            "a shell reads it here: write `| quote` behind values that may have signs of the shell in them",
        ));
    }
    converted(params, context, None)
}

/// The text of `command`, which no shell reads in Ansible, as text for a shell.
fn without_shell(text: &str) -> Result<String, ImportProblem> {
    let text = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let outside = shell_text::outside_of_templates(&text);
    let is_plain = !outside.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '(', ')', '#', '~', '!']);
    let has_values = text.contains("{{") && !text.contains("{%");
    if is_plain && !has_values {
        return Ok(text);
    }
    let words = crate::task::split_words(&text)
        .ok_or_else(|| ImportProblem::new("a quote in the command is not closed", "close it"))?;
    let quoted = |word: &String| {
        if has_values && word.contains("{{") {
            return with_values(word).unwrap_or_else(|| word.clone());
        }
        if is_plain {
            return word.clone();
        }
        let bare = word.trim_matches(['\'', '"']);
        let is_bare = word.len() == bare.len() && !word.contains(['\'', '"']);
        let names_variable = word.contains('$') && !word.contains(['`', '\\', '{']);
        if let Some(rest) = word.strip_prefix("~/").filter(|_| is_bare) {
            // Ansible has the home and the variables of the environment in it, as the shell has.
            format!("~/{}", shell_text::word(rest))
        } else if is_bare && names_variable {
            format!("\"{word}\"")
        } else if is_bare {
            shell_text::word(word)
        } else if bare.len() + 2 == word.len() {
            format!("'{}'", bare.replace('\'', "'\\''"))
        } else {
            word.clone()
        }
    };
    Ok(words.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// A word with values in it: Ansible takes the text apart that it has with them, so a value outside of quotes may be several words. What stands
/// in one stays text. `None` where a template is not closed.
fn with_values(word: &str) -> Option<String> {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    for part in parts(word)? {
        let text = match part {
            TemplatePart::Code(_, inside, _) => {
                let inside = inside.trim_matches('-').trim();
                let filter = if quote.is_some() { "quote" } else { "quote_words" };
                let is_name = inside.chars().all(|c| c == '_' || c == '.' || c.is_alphanumeric());
                let value = if is_name { inside.to_owned() } else { format!("({inside})") };
                out.push_str(&format!("{{{{ {value} | {filter} }}}}"));
                continue;
            }
            TemplatePart::Plain(text) => text,
        };
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (None, '\'' | '"') => quote = Some(c),
                (Some(own), c) if own == c => quote = None,
                (None, '\\') => plain.extend(chars.next()),
                (Some('"'), '\\') if matches!(chars.peek(), Some('"' | '\\')) => plain.extend(chars.next()),
                (_, c) => plain.push(c),
            }
        }
        let names_variable = plain.contains('$') && !plain.contains(['`', '\\', '{', '"']);
        match plain.strip_prefix("~/").filter(|_| out.is_empty()) {
            _ if plain.is_empty() => {}
            Some("") => out.push_str("~/"),
            Some(rest) => out.push_str(&format!("~/{}", shell_text::word(rest))),
            None if names_variable => out.push_str(&format!("\"{plain}\"")),
            None => out.push_str(&shell_text::word(&plain)),
        }
    }
    Some(out)
}

pub(super) fn shell(params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    converted(params, context, None)
}

/// Converts a command; `written` is its text before it was made one for a shell.
fn converted(
    mut params: Params,
    context: &Context,
    written: Option<&str>,
) -> Result<Conversion, ImportProblem> {
    params.ignore(&["warn", "strip_empty_ends", "expand_argument_vars"]);
    let text =
        params.free.take().map(|text| text.trim_end().to_owned()).filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ImportProblem::new("there is no command", "write `run`"))?;
    let is_bare = context.environment.is_none()
        && ["chdir", "stdin", "executable", "creates", "removes"]
            .iter()
            .all(|name| params.clone().take(&[name]).is_none());
    if is_bare
        && !context.is_query
        && let Some(usual) = shell_text::usual(written.unwrap_or(&text), !context.follows.is_empty())
    {
        return Ok(usual);
    }
    if let Some(write) = shell_text::of_a_cluster(&text) {
        return Err(ImportProblem::new("it works on a cluster", write));
    }
    let creates = params.text(&["creates"]);
    let removes = params.text(&["removes"]);
    let mut out = vec![param("run", text.as_str())];
    let mut interpreter = false;
    if let Some(program) =
        params.text(&["executable"]).filter(|program| program != "/bin/sh" && program != "sh")
    {
        if params.clone().take(&["stdin"]).is_some() {
            return Err(ImportProblem::new(
                "another shell reads the text, and there is an input",
                "write the shell into `run`",
            ));
        }
        out = vec![param("run", program), param("stdin", format!("{text}\n"))];
        interpreter = true;
    }
    params.same(&[("chdir", "chdir"), ("stdin", "stdin")], &mut out);
    params.ignore(&["stdin_add_newline"]);
    if let Some(environment) = &context.environment {
        out.push(("env".to_owned(), environment.clone()));
    }
    params.finish("command")?;
    if let Some(until) = &context.until {
        return waited(&text, out, until, context);
    }
    // A command that only reads changes nothing, whether anything reads its answer or not; a failure of it is one.
    let unread = creates.is_none() && removes.is_none() && context.follows.is_empty() && read_only(&text);
    if unread && !context.is_query && (context.ignores_errors || says_never(context.failed_when.as_ref())) {
        return Ok(Conversion { left_out: Some("left out"), ..Conversion::default() });
    }
    if context.is_query || unread {
        return query(text.as_str(), out, context);
    }
    let own = context.register.as_deref().unwrap_or_default();
    let usual = |when: &Node| failing(when, own).is_some_and(|all| all.is_some_and(|all| all == [0]));
    if context.failed_when.as_ref().is_some_and(|when| !usual(when)) {
        return Err(ImportProblem::new(
            "`failed_when` decides what a failure is",
            "write it into `run`, with the guard of the command",
        ));
    }
    let mut converted = Conversion::default().remark_if(
        interpreter,
        "the text goes to the input of the shell: what reads its own input there reads the text",
    );
    let mut made = ConvertedPart::new("command", out);
    set_guard(&mut made, &mut converted, (creates, removes), context)?;
    converted.made.push(made);
    Ok(converted)
}

/// A command that only reads, asked again until its answer is the wanted one.
fn waited(
    text: &str,
    out: Vec<(String, Node)>,
    until: &Node,
    context: &Context,
) -> Result<Conversion, ImportProblem> {
    let open = || {
        ImportProblem::new(
            "it is tried again until it succeeds",
            "write `wait_for` with a `command` that only reads, or `command` with its guard",
        )
    };
    let is_bare = out.iter().all(|(key, _)| key == "run");
    let reads = context.changed_when_false || read_only(text);
    if !is_bare || !reads || context.failed_when.is_some() || context.ignores_errors {
        return Err(open());
    }
    let condition = until.as_str().ok_or_else(open)?;
    let all: Vec<Token<'_>> =
        tokens(condition).into_iter().filter(|token| token.sort != TokenSort::Blank).collect();
    let words: Vec<&str> = all.iter().map(|token| token.text).collect();
    let own = context.register.as_deref().unwrap_or_default();
    let command = match words.as_slice() {
        [name, "is", "success" | "succeeded" | "successful"]
        | [name, ".", "rc", "==", "0"]
        | [name, "is", "not", "failed"]
        | ["not", name, "is", "failed"]
        | ["not", name, ".", "failed"]
            if *name == own =>
        {
            text.to_owned()
        }
        [_, "in", name, ".", "stdout"] if *name == own && !text.contains('\n') => {
            let literal =
                all.first().and_then(Token::quoted).filter(|text| !text.is_empty()).ok_or_else(open)?;
            format!("{text} | grep -qF -- {}", shell_text::word(literal))
        }
        _ => return Err(open()),
    };
    let every = context.delay.unwrap_or(5).max(1);
    let timeout = context.retries.unwrap_or(3).max(1).saturating_mul(every);
    let out = vec![param("command", command), param("timeout", timeout), param("every", every)];
    Ok(Conversion::one("wait_for", out))
}

/// Gives a command its guard: the files that it creates and removes, the change that it follows, or a condition of its task.
fn set_guard(
    made: &mut ConvertedPart,
    converted: &mut Conversion,
    files: (Option<String>, Option<String>),
    context: &Context,
) -> Result<(), ImportProblem> {
    match files {
        (Some(path), None) => made.params.push(param("creates", path)),
        (None, Some(path)) => {
            made.params.push(param("unless", format!("test ! -e {}", shell_text::word(&path))))
        }
        (Some(path), Some(gone)) => {
            let (path, gone) = (shell_text::word(&path), shell_text::word(&gone));
            made.params.push(param("unless", format!("test -e {path} || test ! -e {gone}")));
        }
        (None, None) if !context.follows.is_empty() => {
            made.follows = Some("on_change");
            converted.remarks.push(
                "where it never ran under converge it runs once, whether something changed or not".to_owned(),
            );
        }
        (None, None) => match guard(context) {
            Some((index, guard)) => {
                made.params.push(guard);
                converted.dropped_when.push(index);
                converted
                    .remarks
                    .push("the condition is its guard: after the command it must hold".to_owned());
            }
            None => return Err(open(context)),
        },
    }
    Ok(())
}

/// Whether `failed_when` says that nothing is a failure.
fn says_never(failed_when: Option<&Node>) -> bool {
    failed_when.is_some_and(|when| when.as_bool() == Some(false) || when.as_str() == Some("false"))
}

fn open(context: &Context) -> ImportProblem {
    if context.changed_when_false {
        return ImportProblem::new(
            "it says that it changes nothing, and runs in each run",
            "write `query` if it only reads; else `command` with `unless`: a question that is true once it is done",
        );
    }
    ImportProblem::new(
        "nothing says when it is done",
        "write `command` with `creates`, `unless` (a question that is true once it is done) or `on_change`",
    )
}

/// The question of a registered command as a guard: `rc != 0`, `'text' not in stdout`; the path of a `stat`.
fn guard(context: &Context) -> Option<(usize, (String, Node))> {
    context.written_when.iter().enumerate().find_map(|(index, condition)| {
        let text = condition.as_str()?;
        let all: Vec<Token<'_>> =
            tokens(text).into_iter().filter(|token| token.sort != TokenSort::Blank).collect();
        let words: Vec<&str> = all.iter().map(|token| token.text).collect();
        let command = |name: &str| context.queries.get(name).filter(|text| text.contains([' ', '/']));
        let guard = match words.as_slice() {
            [name, ".", "rc", "!=" | ">", "0"] => command(name)?.clone(),
            [name, "is", "failed"] => command(name)?.clone(),
            ["not", name, ".", "stat", ".", "exists"] => {
                let path = context.queries.get(&format!("{name}.path"))?;
                return Some((index, param("creates", path.as_str())));
            }
            [_, "not", "in", name, ".", "stdout"] => {
                let literal = all.first()?.quoted()?;
                let pattern = shell_text::word(literal);
                let run = command(name)?;
                if run.contains('\n') {
                    return None;
                }
                format!("{run} | grep -qF -- {pattern}")
            }
            _ => return None,
        };
        Some((index, param("unless", guard)))
    })
}

/// A question whose answer later tasks read.
fn query(text: &str, mut out: Vec<(String, Node)>, context: &Context) -> Result<Conversion, ImportProblem> {
    // A guard asks as a shell reads it, without another one.
    let is_bare = out.iter().all(|(key, _)| key == "run");
    let statuses_wanted: Option<Vec<i64>> = match &context.failed_when {
        None if context.ignores_errors => None,
        None => Some(vec![0]),
        Some(when) => match failing(when, context.register.as_deref().unwrap_or_default()) {
            Some(all) => all,
            None => {
                return Err(ImportProblem::new(
                    "`failed_when` asks for more than the exit status",
                    "write `status` of `query`, and `assert` for the rest",
                ));
            }
        },
    };
    match statuses_wanted {
        Some(all) if all == [0] => {}
        Some(all) => out.push(statuses(&all)),
        None => {
            // Every status is an answer: 1 stands for all that are no success.
            for (_, run) in out.iter_mut().filter(|(key, _)| key == "run") {
                let text = run.as_str().unwrap_or_default();
                let is_simple = !text.contains(['|', '&', ';', '\n']);
                *run = crate::yaml::made(if is_simple {
                    format!("{text} || exit 1")
                } else {
                    format!("( {text}\n) || exit 1")
                });
            }
            out.push(statuses(&[0, 1]));
        }
    }
    let mut made = ConvertedPart::new("query", out);
    made.registers = context.is_query;
    let mut all = vec![made];
    if let Some(register) = context.register.as_ref().filter(|name| context.read_errors.contains(*name)) {
        // A query has one text as its answer: the same question gives what it says as errors.
        let mut errors = all.first().cloned().unwrap_or_else(|| ConvertedPart::new("query", Vec::new()));
        for (_, run) in errors.params.iter_mut().filter(|(key, _)| key == "run") {
            *run = crate::yaml::made(format!("( {}\n) 2>&1 >/dev/null", run.as_str().unwrap_or_default()));
        }
        (errors.suffix, errors.registers, errors.registers_as) = ("errors", false, Some(of_errors(register)));
        all.push(errors);
    }
    Ok(Conversion { made: all, question: is_bare.then(|| text.to_owned()), ..Conversion::default() }
        .remark_if(!read_only(text), "every plan runs it: it must only read"))
}

/// The statuses that are no failure: `false` gives all, `x.rc not in [0, 1]` and `x.rc > 1` give a list.
fn failing(when: &Node, register: &str) -> Option<Option<Vec<i64>>> {
    if when.value == Value::Bool(false) {
        return Some(None);
    }
    let text = match when.as_list() {
        Some([one]) => one.as_str()?,
        _ => when.as_str()?,
    };
    let all: Vec<Token<'_>> =
        tokens(text).into_iter().filter(|token| token.sort != TokenSort::Blank).collect();
    let words: Vec<&str> = all.iter().map(|token| token.text).collect();
    let [name, ".", "rc", rest @ ..] = words.as_slice() else {
        return (text.trim() == "false").then_some(None);
    };
    if *name != register {
        return None;
    }
    match rest {
        [">", number] => Some(Some((0..=number.parse::<i64>().ok().filter(|n| *n < 10)?).collect())),
        [">=", number] => {
            Some(Some((0..number.parse::<i64>().ok().filter(|n| (1..10).contains(n))?).collect()))
        }
        ["!=", "0"] => Some(Some(vec![0])),
        ["not", "in", "[" | "(", list @ .., "]" | ")"] => list
            .iter()
            .filter(|word| **word != ",")
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<i64>>>()
            .map(Some),
        _ => None,
    }
}
