//! `converge complete`: the candidates for the last of some words. The scripts of `converge completions` ask for them: the program knows the project.

mod values;
mod words;

use super::schema;
use crate::args::CompleteArgs;
use crate::console::Console;
use crate::failure::Failure;
use clap::{Arg, Command};
use values::{CompletionProject, Values};
use words::{CommandLine, Wants};

/// The command that needs no name.
const DEFAULT: &str = "apply";

pub async fn run(args: CompleteArgs, console: &Console, definition: Command) -> Result<u8, Failure> {
    let found = candidates(definition, &args.words).await;
    let line =
        |(word, about): (String, String)| format!("{word}\t{}\n", about.lines().next().unwrap_or_default());
    console.write(&found.into_iter().map(line).collect::<String>());
    Ok(0)
}

/// The words that may stand in the place of the last one, each with a word about it. None where a file may stand there.
async fn candidates(mut definition: Command, words: &[String]) -> Values {
    definition.build();
    let line = words::read(&definition, DEFAULT, words);
    let current = words.last().map_or("", String::as_str);
    let (all, before, begin) = match &line.wants {
        Wants::Option => (options(line.command), String::new(), current),
        Wants::Operand(arg) => {
            let mut all = if line.values.is_empty() { commands(line.command) } else { Values::new() };
            let (found, before, begin) = match arg {
                Some(arg) => values_of(arg, &line, current).await,
                None => (Values::new(), String::new(), current),
            };
            all.extend(found);
            (all, before, begin)
        }
        Wants::Value(arg, option, begin) => {
            let (all, before, begin) = values_of(arg, &line, begin).await;
            (all, format!("{option}{before}"), begin)
        }
    };
    let fitting = all.into_iter().filter(|(value, _)| value.starts_with(begin));
    fitting.map(|(value, about)| (format!("{before}{value}"), about)).collect()
}

fn commands(command: &Command) -> Values {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let about = |sub: &Command| sub.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|sub| (sub.get_name().to_owned(), about(sub))).collect()
}

fn options(command: &Command) -> Values {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let about = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
    let named = shown.filter_map(|arg| {
        let short = arg.get_short().map(|c| format!("-{c}"));
        Some((arg.get_long().map(|long| format!("--{long}")).or(short)?, about(arg)))
    });
    named.collect()
}

/// All values of an argument, the part of the word that stays before them, and the rest of it.
async fn values_of<'a>(arg: &Arg, line: &CommandLine<'_>, word: &'a str) -> (Values, String, &'a str) {
    let fixed = arg.get_possible_values();
    if !fixed.is_empty() {
        let about = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string);
        let all = fixed.iter().map(|v| (v.get_name().to_owned(), about(v).unwrap_or_default()));
        return (all.collect(), String::new(), word);
    }
    let place = || CompletionProject::of(&typed(line));
    let placeholder = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let whole = |all: Option<Values>| (all.unwrap_or_default(), String::new(), word);
    match (placeholder, arg.get_id().as_str()) {
        ("PATTERN", _) => {
            let (before, begin) = behind(word, &[':', ',', '!', '&']);
            (place().map(|p| p.patterns()).unwrap_or_default(), before, begin)
        }
        ("TAG,…", _) => {
            let (before, begin) = behind(word, &[',']);
            (place().map(|p| p.tags()).unwrap_or_default(), before, begin)
        }
        ("HOST", _) | (_, "host") => whole(place().map(|p| p.hosts())),
        ("GROUP", _) => whole(place().map(|p| p.groups())),
        ("ROLE" | "ROLE[/RESOURCE]", _) | ("NAME", "roles") => whole(place().map(|p| p.roles())),
        ("KIND|ROLE|RESOURCE", _) => {
            let kinds =
                converge_resources::KINDS.iter().map(|kind| (kind.kind.to_owned(), "kind".to_owned()));
            let mut all = place().map(|p| p.roles()).unwrap_or_default();
            all.extend(kinds);
            (all, String::new(), word)
        }
        ("RUN", _) => match place() {
            Some(place) => (place.runs().await, String::new(), word),
            None => whole(None),
        },
        _ if line.command.get_name() == "schema" => {
            let names = schema::all().into_iter();
            (names.map(|(name, _)| (name.to_owned(), "schema".to_owned())).collect(), String::new(), word)
        }
        _ => whole(None),
    }
}

/// The words of the line that say which project is meant, as arguments of a command that reads one.
fn typed(line: &CommandLine<'_>) -> Vec<String> {
    let of = |(arg, value): &(&Arg, &str)| match arg.get_id().as_str() {
        "target" => vec![(*value).to_owned()],
        "inventories" => vec![format!("--inventory={value}")],
        "playbook" => vec![format!("--playbook={value}")],
        "roles_path" => vec![format!("--roles-path={value}")],
        _ => Vec::new(),
    };
    line.values.iter().flat_map(of).collect()
}

/// A word at its last separator: the part that stays, and the part that is completed.
fn behind<'a>(word: &'a str, separators: &[char]) -> (String, &'a str) {
    let at = word.rfind(separators).map_or(0, |at| at + 1);
    let (before, begin) = word.split_at(at);
    (before.to_owned(), begin)
}
