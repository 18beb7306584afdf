//! A command line that is being written: which command, which values it has so far, and the kind of word that comes next. Pure.

use clap::{Arg, Command};

/// A command line up to the word at the cursor.
pub struct CommandLine<'a> {
    /// The command, as far as it is named.
    pub command: &'a Command,
    /// The values so far, each with the argument that it is of.
    pub values: Vec<(&'a Arg, &'a str)>,
    /// The sort of word that may stand at the cursor.
    pub wants: Wants<'a>,
}

/// The sort of word that may stand at the cursor.
pub enum Wants<'a> {
    /// An option.
    Option,
    /// A value of an argument: the part of the word before it (`--limit=`), and its beginning.
    Value(&'a Arg, String, &'a str),
    /// A command, or an operand of the present one.
    Operand(Option<&'a Arg>),
}

/// Reads the words behind the program's name; the last one is that at the cursor. `default` names the command that needs no name.
pub fn read<'a>(definition: &'a Command, default: &str, words: &'a [String]) -> CommandLine<'a> {
    let (current, before) =
        words.split_last().map_or(("", words), |(current, before)| (current.as_str(), before));
    let (mut command, mut is_named) = (definition, false);
    let (mut values, mut operands, mut waits, mut only_operands) = (Vec::new(), 0_usize, None, false);
    for word in before {
        if let Some(arg) = waits.take() {
            values.push((arg, word.as_str()));
        } else if !only_operands && word == "--" {
            only_operands = true;
        } else if !only_operands && word.len() > 1 && word.starts_with('-') {
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
            if !is_named && option(command, name).is_none() {
                (command, is_named) = (command.find_subcommand(default).unwrap_or(command), true);
            }
            let arg = option(command, name).filter(|arg| arg.get_action().takes_values());
            match (arg, value) {
                (Some(arg), Some(value)) => values.push((arg, value)),
                (Some(arg), None) if !arg.is_require_equals_set() => waits = Some(arg),
                _ => {}
            }
        } else if let Some(sub) = command.find_subcommand(word).filter(|_| operands == 0 && !only_operands) {
            (command, is_named) = (sub, true);
        } else {
            if !is_named {
                (command, is_named) = (command.find_subcommand(default).unwrap_or(command), true);
            }
            values.extend(operand(command, operands).map(|arg| (arg, word.as_str())));
            operands += 1;
        }
    }
    if !is_named && current.starts_with('-') {
        command = command.find_subcommand(default).unwrap_or(command);
    }
    let wants = match (waits, current.split_once('=')) {
        (Some(arg), _) => Wants::Value(arg, String::new(), current),
        (None, Some((name, value))) if name.starts_with('-') && !only_operands => {
            match option(command, name).filter(|arg| arg.get_action().takes_values()) {
                Some(arg) => Wants::Value(arg, format!("{name}="), value),
                None => Wants::Option,
            }
        }
        _ if current.starts_with('-') && !only_operands => Wants::Option,
        _ => Wants::Operand(operand(command, operands)),
    };
    CommandLine { command, values, wants }
}

fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = name.strip_prefix("--");
    let short = name.strip_prefix('-').filter(|_| long.is_none()).and_then(|rest| rest.chars().next());
    command.get_arguments().find(|arg| match (long, short) {
        (Some(long), _) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        (None, short) => short.is_some() && arg.get_short() == short,
    })
}

/// The operand at this place; the last one takes all that come after it.
fn operand(command: &Command, place: usize) -> Option<&Arg> {
    let takes_more = |arg: &&Arg| matches!(arg.get_action(), clap::ArgAction::Append);
    command.get_positionals().nth(place).or_else(|| command.get_positionals().last().filter(takes_more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> String {
        let mut definition = crate::args::definition();
        definition.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let CommandLine { command, values, wants } = read(&definition, "apply", &words);
        let values: Vec<String> =
            values.iter().map(|(arg, value)| format!("{}={value}", arg.get_id())).collect();
        let wants = match wants {
            Wants::Option => "option".to_owned(),
            Wants::Value(arg, before, begin) => format!("{} {before}|{begin}", arg.get_id()),
            Wants::Operand(arg) => format!("operand {}", arg.map_or("", |arg| arg.get_id().as_str())),
        };
        format!("{} [{}] {wants}", command.get_name(), values.join(" "))
    }

    #[test]
    fn the_word_at_the_cursor_is_known() {
        for (line, expected) in [
            ("", "converge [] operand "),
            ("pl", "converge [] operand "),
            ("plan ", "plan [] operand target"),
            ("plan hosts.yaml --limit ", "plan [target=hosts.yaml] limit |"),
            ("plan -l we", "plan [] limit |we"),
            ("plan --limit=we", "plan [] limit --limit=|we"),
            ("plan --li", "plan [] option"),
            ("hosts.yaml --tags=a,b --role ", "apply [target=hosts.yaml tags=a,b] roles |"),
            ("state show hosts.yaml -v --res", "show [target=hosts.yaml] option"),
            ("state forget hosts.yaml a/b ", "forget [target=hosts.yaml resources=a/b] operand resources"),
            ("--role ", "apply [] roles |"),
            ("--ro", "apply [] option"),
            ("--role=", "apply [] roles --role=|"),
            ("-v pl", "converge [] operand "),
            ("plan --prune ho", "plan [] operand target"),
            (
                "run web -i hosts.yaml -- plan ",
                "run [pattern=web inventories=hosts.yaml command=plan] operand command",
            ),
        ] {
            assert_eq!(at(line), expected, "{line:?}");
        }
    }
}
