//! Words of Ansible, Terraform and kubectl on the command line: other names of commands, other options.
//!
//! Options that are here are translated; for the others the error says what to write. The names of options are those of
//! `converge_model::ansible_option`, from which `docs/ansible.md` is made too.

use crate::default_command::{FirstArgument, first_word};
use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use converge_model::ansible_option;
use converge_model::inventory::shell_words;
use converge_syntax::did_you_mean;
use std::ffi::OsString;
use std::path::Path;

/// Words in place of a command, and what to write.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["destroy", "delete", "remove", "rm", "uninstall"],
        "`converge rollback INVENTORY` reverts the changes of a run; `converge apply INVENTORY --prune` removes what no role declares any more",
    ),
    (&["undo", "revert", "restore"], "`converge rollback INVENTORY` reverts the changes of a run"),
    (
        &["list", "ls", "hosts", "list-hosts", "groups"],
        "`converge inventory INVENTORY --graph` lists hosts and groups, `converge explain` kinds and roles",
    ),
    (&["version"], "`converge --version`"),
    (
        &["diff", "check", "preview", "dry-run", "show", "compare"],
        "`converge plan INVENTORY` shows what would change, and changes nothing",
    ),
    (
        &["status"],
        "`converge drift INVENTORY` says whether anything differs, `converge snapshots INVENTORY` which runs there were",
    ),
    (
        &["ping", "connect"],
        "`converge doctor INVENTORY` tests the connection to each host, `converge run all -i INVENTORY -- true` does no more than log in",
    ),
    (
        &["deploy", "up", "sync", "play", "playbook", "execute", "install", "provision", "converge"],
        "`converge INVENTORY`, which is short for `converge apply INVENTORY`: it plans, asks, and changes",
    ),
    (&["shell", "exec", "ssh", "command", "adhoc", "ad-hoc"], "`converge run PATTERN -i INVENTORY -- CMD`"),
    (&["setup", "gather", "gather-facts", "refresh"], "`converge facts INVENTORY`"),
    (
        &["encrypt", "encrypt-string", "encrypt_string", "decrypt", "view", "edit", "rekey"],
        "`converge vault encrypt FILE`, and likewise encrypt-string, decrypt, view, edit, rekey",
    ),
    (
        &["config", "configuration", "configure", "env"],
        "`converge settings` shows each setting and its source, converge.toml holds them",
    ),
    (&["history", "log", "logs", "runs"], "`converge snapshots INVENTORY` lists the runs"),
    (
        &["doc", "describe", "kinds", "modules"],
        "`converge explain` lists kinds and roles, `converge explain NAME` shows one",
    ),
    (&["new", "create", "generate"], "`converge init` writes a first project"),
    (&["galaxy", "role", "roles", "module"], "roles are folders below roles/: `converge explain` lists them"),
    (
        &["lint", "syntax", "syntax-check"],
        "`converge graph INVENTORY` reads and checks all files, and contacts no host",
    ),
];

/// The error for a first word that is no command, and can be no inventory either: there is no such file, and no host list has this form.
pub fn unknown_command(arguments: &[OsString], definition: &clap::Command) -> Option<Failure> {
    let FirstArgument::Word(word) = first_word(arguments.get(1..).unwrap_or_default(), definition) else {
        return None;
    };
    let text = word.to_str()?;
    let names: Vec<&str> = definition
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    let known = definition.get_subcommands().any(|command| command.get_name() == text) || text == "help";
    if known || text.contains(['/', '.', ',']) || Path::new(word).exists() {
        return None;
    }
    let habit =
        WORDS.iter().find(|(words, _)| words.contains(&text)).map(|(_, instead)| (*instead).to_owned());
    let near =
        || did_you_mean(text, names.iter().copied()).map(|near| format!("did you mean `converge {near}`?"));
    let help = habit.or_else(near).unwrap_or_else(|| {
        format!("commands: {}; a host of this name is written `{text},`", names.join(", "))
    });
    Some(Failure::usage(format!("there is no command and no inventory `{text}`"), help))
}

/// The error for an option of Ansible's that is not here.
pub fn unknown_option(error: &mut clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    if let Some(instead) = ansible_option(name) {
        return Some(Failure::usage(format!("there is no option `{name}` here"), instead));
    }
    if !name.starts_with('-') && Path::new(name).exists() {
        return Some(Failure::usage(
            format!("`{name}` is one argument too many"),
            format!(
                "one inventory is an argument, more are given with `-i {name}`, a playbook with `--playbook {name}`"
            ),
        ));
    }
    // "to pass '-x' as a value, use '-- -x'" helps nobody.
    error.insert(ContextKind::Suggested, ContextValue::None);
    None
}

/// Translates options that mean something here in another form: `-e` holds several variables, or JSON; `plan` always is a check with
/// differences.
pub fn translated(arguments: Vec<OsString>, definition: &clap::Command) -> Vec<OsString> {
    let command = match first_word(arguments.get(1..).unwrap_or_default(), definition) {
        FirstArgument::Word(word) => word.to_string_lossy().into_owned(),
        _ => return arguments,
    };
    let only_reads = matches!(command.as_str(), "plan" | "drift");
    let mut all = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy().into_owned();
        if text == "--" {
            all.push(argument);
            break;
        }
        let dropped = match text.as_str() {
            "--diff" | "-D" => only_reads || command == "apply",
            "--check" | "-C" | "-CD" | "-DC" => only_reads,
            _ => false,
        };
        if dropped {
            continue;
        }
        let glued = text
            .strip_prefix("--extra-vars=")
            .or_else(|| text.strip_prefix("-e").filter(|value| !value.is_empty()))
            .map(OsString::from);
        let value = match glued {
            None if matches!(text.as_str(), "-e" | "--extra-vars") => rest.next(),
            glued => glued,
        };
        match value {
            Some(value) => {
                for pair in pairs(&value) {
                    all.extend(["--set".into(), pair]);
                }
            }
            None => all.push(argument),
        }
    }
    all.extend(rest);
    all
}

/// The variables of one `-e`: `a=1 b='x y'`, or a JSON object. What is neither stays whole.
fn pairs(value: &OsString) -> Vec<OsString> {
    let whole = || vec![value.clone()];
    let Some(text) = value.to_str() else { return whole() };
    if let Ok(serde_json::Value::Object(map)) = serde_json::from_str(text) {
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        return map.into_iter().map(|(name, value)| format!("{name}={}", text(value)).into()).collect();
    }
    match shell_words(text) {
        Some(words) if !words.is_empty() && words.iter().all(|word| word.contains('=')) => {
            words.into_iter().map(OsString::from).collect()
        }
        _ => whole(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<String> {
        let words = shell_words(line).unwrap_or_default().into_iter().map(OsString::from).collect();
        let words = translated(words, &crate::args::definition());
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn extra_vars_are_several_variables() {
        for (typed, meant) in [
            (r#"converge plan a -e "x=1 y='2 3'""#, vec!["--set", "x=1", "--set", "y=2 3"]),
            (r#"converge plan a -ex=1"#, vec!["--set", "x=1"]),
            (r#"converge plan a --extra-vars=x=1"#, vec!["--set", "x=1"]),
            (r#"converge plan a -e '{"x": [1], "y": "z"}'"#, vec!["--set", "x=[1]", "--set", "y=z"]),
            (r#"converge plan a -e "motd=hello world""#, vec!["--set", "motd=hello world"]),
            (r#"converge plan a -e @vars.yml"#, vec!["--set", "@vars.yml"]),
            (r#"converge plan a -CD --check --diff"#, vec![]),
            (r#"converge apply a -D --check"#, vec!["--check"]),
            (r#"converge run a -- -e x=1 --check"#, vec!["--", "-e", "x=1", "--check"]),
        ] {
            assert_eq!(read(typed).get(3..).unwrap_or_default(), meant, "{typed}");
        }
    }

    #[test]
    fn no_word_of_the_table_is_a_command() {
        let definition = crate::args::definition();
        let names: Vec<&str> = definition.get_subcommands().map(clap::Command::get_name).collect();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(!names.contains(word), "{word} is a command");
        }
        for (at, word) in WORDS.iter().flat_map(|(words, _)| *words).enumerate() {
            let again = WORDS.iter().flat_map(|(words, _)| *words).skip(at + 1).any(|other| other == word);
            assert!(!again, "{word} stands there twice");
        }
    }
}
