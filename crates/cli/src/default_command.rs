//! `converge INVENTORY` means `converge apply INVENTORY`.

use converge_syntax::did_you_mean;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

const DEFAULT: &str = "apply";

/// Puts `apply` in where the first word that is no flag is not the name of a command.
pub fn with_default_command(mut arguments: Vec<OsString>, definition: &clap::Command) -> Vec<OsString> {
    if wants_default(arguments.get(1..).unwrap_or_default(), definition) {
        arguments.insert(1, DEFAULT.into());
    }
    arguments
}

fn wants_default(arguments: &[OsString], definition: &clap::Command) -> bool {
    let with_value = flags_with_value(definition);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if matches!(text.as_ref(), "-h" | "--help" | "-V" | "--version") {
            return false;
        }
        if text == "--" {
            return true;
        }
        if text.len() > 1 && text.starts_with('-') {
            if with_value.contains(text.as_ref()) {
                rest.next();
            }
            continue;
        }
        let names: Vec<&str> =
            definition.get_subcommands().map(clap::Command::get_name).chain(["help"]).collect();
        // A misspelt name of a command is left to clap, which suggests the nearest one.
        let slip = || !text.contains(['/', '.', ',']) && did_you_mean(&text, names.iter().copied()).is_some();
        return !names.contains(&text.as_ref()) && (Path::new(argument).exists() || !slip());
    }
    // Only flags: of the default command, unless there is nothing at all.
    !arguments.is_empty()
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
            long.into_iter().chain(a.get_short().map(|s| format!("-{s}")))
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
            "converge plna prod.yaml",
        ] {
            assert_eq!(read(line), line);
        }
    }
}
