//! Documents whose files and commands are run as they are printed.

use crate::{Error, Ran, World, binary, ended};
use converge_lab::Host;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Stands for text that is left out.
const LEFT_OUT: char = '…';

/// A step that a document asks its reader to take.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A block behind a line that begins with a path in backquotes: the file's text.
    File {
        /// The path, below the project.
        path: String,
        /// The text.
        text: String,
    },
    /// A line `$ …` of a block `console`.
    Command {
        /// The command.
        line: String,
        /// The output shown below it.
        shown: Vec<String>,
        /// The exit code: that of the block's `exit=N`, 0 without.
        exit: i32,
    },
}

/// The steps of a document, in order.
pub fn steps(document: &str) -> Vec<Step> {
    let (mut steps, mut path) = (Vec::new(), None);
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(form) = line.strip_prefix("```") else {
            if let Some(named) = line.strip_prefix('`').and_then(|rest| rest.split('`').next()) {
                path = (named.contains('/') || named.ends_with(".toml")).then(|| named.to_owned()).or(path);
            }
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        if let Some(exit) = form.strip_prefix("console") {
            let exit = exit.trim().strip_prefix("exit=").and_then(|code| code.parse().ok()).unwrap_or(0);
            for line in block {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(line), _) => {
                        steps.push(Step::Command { line: line.to_owned(), shown: Vec::new(), exit });
                    }
                    (None, Some(Step::Command { shown, .. })) => shown.push(line.to_owned()),
                    (None, _) => {}
                }
            }
        } else if let Some(path) = path.take() {
            steps.push(Step::File { path, text: block.iter().flat_map(|line| [line, "\n"]).collect() });
        }
    }
    steps
}

/// Holds an output against the lines that a document shows of it.
///
/// A line `…` stands for any number of lines, `…` inside a line for any text. The first and the last line shown are those of the output.
///
/// # Errors
/// The first line shown that the output does not have where it should.
pub fn shows(shown: &[String], output: &str) -> Result<(), String> {
    let mut rest = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).peekable();
    let mut skips = false;
    for line in shown.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
        if line.trim() == LEFT_OUT.to_string() {
            skips = true;
            continue;
        }
        let found = if skips {
            rest.any(|reply| fits(line, reply))
        } else {
            rest.next().is_some_and(|reply| fits(line, reply))
        };
        if !found {
            return Err(line.to_owned());
        }
        skips = false;
    }
    match rest.next() {
        Some(more) if !skips && !shown.is_empty() => Err(format!("(nothing more, but there is: {more})")),
        _ => Ok(()),
    }
}

/// Whether a line is the one shown.
fn fits(shown: &str, reply: &str) -> bool {
    let parts: Vec<&str> = shown.split(LEFT_OUT).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return shown == reply };
    let Some(mut rest) = reply.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

impl World {
    /// Makes a host of the world known to ssh under each of these addresses, which a document gives its reader.
    ///
    /// # Errors
    /// The file system's.
    pub fn known_as(&self, addresses: &[(&str, &Host)]) -> Result<(), Error> {
        let lab = self.lab();
        let config: String = addresses
            .iter()
            .map(|(address, host)| {
                format!(
                    "Host {address}\n  HostName {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
                    host.address(),
                    lab.identity().display(),
                    lab.known_hosts().display()
                )
            })
            .collect();
        self.write(".ssh/config", &config)
    }

    /// Runs a line in a folder as it is printed, at a terminal of 200 columns at which somebody answers `y`.
    ///
    /// # Errors
    /// The program does not build, or `script` cannot be started.
    pub fn typed(&self, folder: &Path, line: &str) -> Result<Ran, Error> {
        let own = binary()?;
        let programs = own.parent().unwrap_or(Path::new("/")).display().to_string();
        let mut command = Command::new("script");
        command.args(["-qefc", &format!("stty cols 200 rows 50; {line}"), "/dev/null"]);
        command.current_dir(folder).env("HOME", self.dir()).env_remove("SSH_AUTH_SOCK");
        command.env("PATH", format!("{programs}:{}", std::env::var("PATH")?)).env("TERM", "dumb");
        // A CI system counts as a terminal with colours.
        command.env("NO_COLOR", "1");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // It stays open: the end of the input would end the terminal.
        let mut answers = child.stdin.take();
        if let Some(answers) = &mut answers {
            answers.write_all(b"y\n")?;
        }
        let ran = ended(child);
        drop(answers);
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_held_against_what_is_shown() {
        let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let output = "h1 · 2 to change\r\n\r\n  base\n    + tools\n2 hosts (2.3 s)\n";
        for good in ["", "…", "h1 · 2 to change\n…\n    + tools\n2 hosts (… s)", "h1 …\n  base\n…"]
        {
            assert_eq!(shows(&shown(good), output), Ok(()), "{good}");
        }
        for bad in [
            "h1",
            "h1 · 2 to change\n    + tools\n…",
            "…\n2 hosts",
            "h1 · 2 to change\n  base",
            "…\n  base\nh1 …",
        ] {
            assert!(shows(&shown(bad), output).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_and_commands_are_steps() {
        let text = "`a/b.yaml`, a file:\n\n```yaml\na: 1\n```\n\n```console exit=2\n$ converge plan\nout\n```\n```text\nx\n```\n";
        let steps = steps(text);
        let [Step::File { path, text }, Step::Command { line, shown, exit }] = steps.as_slice() else {
            panic!("{steps:?}")
        };
        assert_eq!((path.as_str(), text.as_str()), ("a/b.yaml", "a: 1\n"));
        assert_eq!(
            (line.as_str(), shown.as_slice(), *exit),
            ("converge plan", ["out".to_owned()].as_slice(), 2)
        );
    }
}
