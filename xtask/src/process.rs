//! Starting programs.

use std::error::Error;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Any error; its text is for people.
pub type AnyError = Box<dyn Error + Send + Sync>;
/// The result of a chore.
pub type Result<T> = std::result::Result<T, AnyError>;

/// The top of the workspace.
pub fn workspace() -> PathBuf {
    // The present value from cargo, not that of the build: checkouts may share a target directory.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    package.parent().unwrap_or(&package).to_owned()
}

/// The cargo that runs this program, at the top of the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(workspace()).args(arguments);
    // Cargo sets these for the program that it runs, not for the cargo that the program runs.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_BIN_") || text == "CARGO_MANIFEST_DIR" {
            command.env_remove(&name);
        }
    }
    command
}

/// The target folder of cargo.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// A command line as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let mut line = name;
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
        line.push(' ');
        if !argument.is_empty() && argument.chars().all(plain) {
            line.push_str(&argument);
        } else {
            line.push_str(&format!("'{}'", argument.replace('\'', r"'\''")));
        }
    }
    line
}

/// Runs a command without input to its end; it shares the output of this program.
pub fn run(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", shown(command)).into()) }
}

/// Runs a command with no input and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        let lines: Vec<&str> = text.trim().lines().collect();
        let end = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n");
        return Err(format!("{}: {}\n{end}", shown(command), output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command under a deadline, its children included. At a terminal there is none: a person is there to stop it.
pub fn limited(command: &Command, limit: Duration) -> Command {
    let seconds = limit.as_secs().to_string();
    let words = ["timeout", "-k", "10", &seconds];
    behind(if std::io::stdin().is_terminal() { &[] } else { &words }, command)
}

/// The command at low priority.
pub fn gently(command: &Command) -> Command {
    behind(&["nice", "-n", "15"], command)
}

/// The command as the end of another command line, with its own folder and environment.
fn behind(words: &[&str], command: &Command) -> Command {
    let mut all = words.iter().map(OsStr::new).chain([command.get_program()]).chain(command.get_args());
    let mut whole = Command::new(all.next().unwrap_or_default());
    whole.args(all);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        whole.current_dir(directory);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let mut command = Command::new("/usr/bin/converge");
        command.args(["run", "it's", "", "a=b"]);
        assert_eq!(shown(&command), r"converge run 'it'\''s' '' a=b");
    }

    #[test]
    fn a_failing_command_is_an_error() {
        assert!(run(&mut Command::new("false")).is_err());
        assert!(output(&mut Command::new("true")).is_ok());
    }
}
