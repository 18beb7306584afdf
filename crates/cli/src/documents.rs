//! Checks that the statements of README and docs about commands, options, kinds and roles are true.

use crate::args;
use crate::default_command::with_default_command;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README and the documents that people write. What is made by a program is compared elsewhere.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs", "docs/kinds", "docs/roles", "docs/adr", "docs/design"] {
        paths.extend(std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let made = ["commands.md", "ansible.md"];
    let written = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        path.extension().is_some_and(|e| e == "md") && !made.contains(&name.as_ref())
    };
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
    paths.into_iter().filter(written).map(read).collect()
}

/// The sources, in which messages, helps and the descriptions of fields name command lines.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("roles")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs" || e == "sh" || e == "yaml") {
                found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// A text with the number of its line.
type NumberedLine<'a> = (usize, &'a str);

/// Lines of code blocks, and texts between backticks outside of them, each with its line.
fn code(text: &str) -> (Vec<NumberedLine<'_>>, Vec<NumberedLine<'_>>) {
    let (mut blocks, mut inline) = (Vec::new(), Vec::new());
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            blocks.push((number, line.trim()));
        } else {
            inline.extend(line.split('`').skip(1).step_by(2).map(|code| (number, code)));
        }
    }
    (blocks, inline)
}

/// The words of a command line, up to a comment, a pipe or another command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, ' ') => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            _ => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    // `[--limit PATTERN]` may be left out; a bare inventory is known by its form.
    words.iter_mut().for_each(|word| *word = word.trim_matches(['[', ']']).to_owned());
    words.retain(|word| word != "…" && word != "...");
    if let [_, inventory] = words.as_mut_slice()
        && inventory == "INVENTORY"
    {
        "hosts.yaml".clone_into(inventory);
    }
    words
}

/// The error of a command line; `whole`: nothing may be missing.
fn wrong(line: &str, whole: bool) -> Option<String> {
    let definition = args::definition();
    let arguments: Vec<OsString> = words(line).into_iter().map(OsString::from).collect();
    let arguments = with_default_command(arguments, &definition);
    let error = definition.try_get_matches_from(arguments).err()?;
    let passes = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        // `SHELL`, `NUMBER`: placeholders of a value.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            line.contains(|c: char| c.is_ascii_uppercase())
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand => !whole,
        _ => false,
    };
    (!passes).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[test]
fn every_command_line_in_the_documents_is_one() {
    let (mut found, mut bad) = (0, Vec::new());
    for (path, text) in documents() {
        let (blocks, inline) = code(&text);
        let blocks = blocks.into_iter().map(|(n, line)| (n, line.trim_start_matches("$ "), true));
        let lines = blocks.chain(inline.into_iter().map(|(n, code)| (n, code, false)));
        for (number, line, whole) in lines.filter(|(_, line, _)| line.starts_with("converge ")) {
            found += 1;
            bad.extend(wrong(line, whole).map(|why| format!("{path}:{number}: {line}: {why}")));
        }
    }
    assert!(found > 60, "only {found} command lines");
    let mut checked = 0;
    for (path, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            let named = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("converge "));
            for code in named {
                checked += 1;
                // A placeholder that a message fills in.
                let filled = code.replace("{}", "NAME");
                bad.extend(wrong(&filled, false).map(|why| format!("{path}:{number}: {code}: {why}")));
            }
        }
    }
    assert!(checked > 60, "only {checked} command lines in the sources");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(wrong("converge plan --no-such-option x", false).is_some());
    assert!(wrong("converge nosuchcommand x y", true).is_some());
}

/// Paths in command lines that another user makes, with who does.
const MADE: &[(&str, &str)] = &[
    ("demo-cluster.yaml", "`cargo xtask demo cluster` writes it"),
    ("roles/operators", "docs/first-hour.md has its text"),
    ("roles/exporter", "an example of a role of the reader's own"),
    ("group_vars/db/secrets.yml", "an example of encrypted variables"),
    ("roles/chrony", "an example of a role of Ansible"),
    ("site.yml", "an example of a playbook of Ansible"),
    ("hosts.yaml", "the reader's own inventory"),
    ("playbooks/site.yaml", "`converge import` writes it"),
    ("~/.vault-prod", "an example of a file with a password"),
];

#[test]
fn every_file_that_a_command_line_names_is_there() {
    let (mut there, mut made, mut bad) = (0, BTreeSet::new(), Vec::new());
    for (path, text) in documents() {
        let lines = code(&text).0.into_iter().map(|(n, line)| (n, line.trim_start_matches("$ ")));
        for (number, line) in lines.filter(|(_, line)| line.starts_with("converge ")) {
            for word in words(line).into_iter().skip(1) {
                let is_path = word.contains('/') || word.ends_with(".yaml") || word.ends_with(".yml");
                // Shell text is not a path, nor is a placeholder.
                if !is_path || word.contains(' ') || word.chars().any(|c| c.is_ascii_uppercase()) {
                    continue;
                }
                match MADE.iter().find(|(name, _)| *name == word) {
                    Some((name, _)) => drop(made.insert(*name)),
                    None if root().join(&word).exists() => there += 1,
                    None => bad.push(format!("{path}:{number}: {line}: there is no {word}")),
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(there > 5, "only {there} files");
    assert_eq!(made.len(), MADE.len(), "no command line names the rest any more: {made:?}");
}

/// All long options of all commands.
fn options(command: &clap::Command, all: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        all.extend(argument.get_long().into_iter().chain(aliases).map(|name| format!("--{name}")));
    }
    command.get_subcommands().for_each(|command| options(command, all));
}

#[test]
fn every_option_kind_and_role_that_the_documents_name_is_there() {
    let mut known = BTreeSet::from(["--help".to_owned(), "--version".to_owned()]);
    options(&args::definition(), &mut known);
    // Of other programs, and of those in this repository that are not `converge`.
    let kinds: BTreeSet<&str> = converge_resources::KINDS.iter().map(|kind| kind.kind).collect();
    let mut bad = Vec::new();
    for (path, text) in documents() {
        for (number, code) in code(&text).1 {
            let option = code.split([' ', '=']).next().unwrap_or_default();
            let is_option = option.strip_prefix("--").is_some_and(|name| !name.is_empty());
            if is_option && !known.contains(option) && !OTHERS.contains(&option) {
                bad.push(format!("{path}:{number}: no command has {option}"));
            }
        }
        for (folder, is_there) in [
            ("kinds/", &(|name: &str| kinds.contains(name)) as &dyn Fn(&str) -> bool),
            ("roles/", &|name: &str| root().join("roles").join(name).join("role.yaml").exists()),
        ] {
            let places = [format!("({folder}"), format!("(docs/{folder}")];
            let named = places.iter().flat_map(|place| text.split(place.as_str()).skip(1));
            for name in named.filter_map(|rest| rest.split_once(".md").map(|(name, _)| name)) {
                if !name.contains([')', '/']) && !is_there(name) {
                    bad.push(format!("{path}: there is no {folder}{name}"));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Options of other programs that the documents name.
const OTHERS: &[&str] = &[
    "--keep-history",
    "--wait",
    "--authorization-mode",
    "--token-auth-file",
    "--basic-auth-file",
    "--service-account-lookup",
];

#[test]
fn the_help_on_ansibles_names_is_true() {
    let kinds: BTreeSet<&str> = converge_resources::KINDS.iter().map(|kind| kind.kind).collect();
    let page = converge_model::ansible_page();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        // A row of a module: its name, the kinds in its place, what to write.
        let Some((_, rest)) = row.split_once("](kinds/") else { continue };
        for kind in std::iter::once(rest).chain(rest.split("](kinds/").skip(1)) {
            let kind = kind.split(".md").next().unwrap_or_default();
            named += 1;
            assert!(kinds.contains(kind), "there is no kind `{kind}`: {row}");
        }
    }
    assert!(named > 30, "only {named} kinds are named");
    for (path, text) in documents().into_iter().chain([("docs/ansible.md".to_owned(), page)]) {
        assert!(
            !text.contains("are not there yet") && !text.contains("is an error in this version"),
            "{path}"
        );
    }
}
