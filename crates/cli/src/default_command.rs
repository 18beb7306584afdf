//! `converge INVENTORY` means `converge apply INVENTORY`.

use std::collections::BTreeSet;
use std::ffi::OsString;

const DEFAULT: &str = "apply";

/// Puts `apply` in where the first word that is no flag is not the name of a command.
pub fn with_default_command(mut arguments: Vec<OsString>, definition: &clap::Command) -> Vec<OsString> {
    if wants_default(arguments.get(1..).unwrap_or_default(), definition) {
        arguments.insert(1, DEFAULT.into());
    }
    arguments
}

fn wants_default(arguments: &[OsString], definition: &clap::Command) -> bool {
    let word = match first_word(arguments, definition) {
        FirstArgument::Question => return false,
        // Only flags: of the default command, unless there is nothing at all.
        FirstArgument::Nothing => return !arguments.is_empty(),
        FirstArgument::Operands => return true,
        FirstArgument::Word(word) => word,
    };
    let text = word.to_string_lossy();
    let mut names = definition.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    !names.any(|name| name == text)
}

/// The first argument that is no flag.
pub enum FirstArgument<'a> {
    /// Before it something is asked of the program itself: `--help`.
    Question,
    /// There is only flags.
    Nothing,
    /// `--`: what follows are operands.
    Operands,
    /// This word.
    Word(&'a OsString),
}

/// Finds the first argument that is no flag and no value of one.
pub fn first_word<'a>(arguments: &'a [OsString], definition: &clap::Command) -> FirstArgument<'a> {
    let with_value = flags_with_value(definition);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if matches!(text.as_ref(), "-h" | "--help" | "-V" | "--version") {
            return FirstArgument::Question;
        }
        if text == "--" {
            return FirstArgument::Operands;
        }
        if text.len() > 1 && text.starts_with('-') {
            if with_value.contains(text.as_ref()) {
                rest.next();
            }
            continue;
        }
        return FirstArgument::Word(argument);
    }
    FirstArgument::Nothing
}

/// `-i`, `--inventory` … of the default command and of all commands.
fn flags_with_value(definition: &clap::Command) -> BTreeSet<String> {
    let default = definition.find_subcommand(DEFAULT);
    definition
        .get_arguments()
        .chain(default.into_iter().flat_map(clap::Command::get_arguments))
        .filter(|a| !a.is_positional() && a.get_action().takes_values())
        .flat_map(|a| {
            let long = a.get_long().map(|l| format!("--{l}"));
            let other = a.get_all_aliases().unwrap_or_default().into_iter().map(|l| format!("--{l}"));
            long.into_iter().chain(a.get_short().map(|s| format!("-{s}"))).chain(other)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = with_default_command(words, &crate::args::definition());
        words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_inventory_in_place_of_a_command_is_applied() {
        for (typed, meant) in [
            ("converge inventories/prod.yaml", "converge apply inventories/prod.yaml"),
            ("converge prod --yes", "converge apply prod --yes"),
            ("converge --yes -i a.yaml", "converge apply --yes -i a.yaml"),
            ("converge --output json prod", "converge apply --output json prod"),
            ("converge -- plan", "converge apply -- plan"),
            ("converge ./plan", "converge apply ./plan"),
        ] {
            assert_eq!(read(typed), meant);
        }
    }

    #[test]
    fn commands_and_questions_stay_as_they_are() {
        for line in [
            "converge",
            "converge --help",
            "converge -v --version",
            "converge plan prod.yaml",
            "converge --output json plan prod.yaml",
            "converge -v rollback",
            "converge help plan",
        ] {
            assert_eq!(read(line), line);
        }
    }
}
