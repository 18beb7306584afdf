//! Questions to the person at the terminal.

use crate::args::ConnectionArgs;
use crate::failure::{Failure, code};
use camino::{Utf8Path, Utf8PathBuf};
use converge_engine::{KeyFileError, Question, StepAnswer};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret, SecretString};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};

/// Whether somebody can be asked.
pub fn somebody_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question; only `y` and `yes` mean yes.
fn confirm(question: &str) -> bool {
    let mut err = std::io::stderr();
    let _gone = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(n) if n > 0 => {}
        // The end of the input (Ctrl-D) leaves the cursor behind the question.
        _ => {
            let _gone = writeln!(err);
        }
    }
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// A deed to which a person must agree.
pub struct Agreement<'a> {
    /// Behind 'whether to': `apply these changes`.
    pub deed: &'a str,
    /// Behind 'write --yes to': `apply`.
    pub short: &'a str,
    /// True of all where nobody agrees: `nothing was changed`.
    pub otherwise: &'a str,
    pub question: &'a str,
}

impl Agreement<'_> {
    /// Asks for it. Where nobody `can_be_asked`, or nobody agrees, it is refused.
    pub fn ask(&self, can_be_asked: bool) -> Result<(), Failure> {
        let Self { deed, short, otherwise, question } = self;
        if !can_be_asked {
            return Err(Failure::refused(
                format!("there is no terminal to ask whether to {deed}; {otherwise}"),
                format!("write --yes to {short} without being asked"),
            ));
        }
        if confirm(question) {
            return Ok(());
        }
        Err(Failure::Message {
            code: code::REFUSED,
            message: format!("not confirmed; {otherwise}"),
            help: None,
        })
    }
}

/// Asks for a word.
pub fn typed(question: &str) -> String {
    let mut err = std::io::stderr();
    let _gone = write!(err, "{question} ").and_then(|()| err.flush());
    let mut answer = String::new();
    // The end of the input is an empty answer.
    let _gone = std::io::stdin().lock().read_line(&mut answer);
    answer.trim().to_owned()
}

/// Asks whether an item or a role may begin, until the answer is one.
pub fn step(question: Question) {
    let hosts = match question.hosts.as_slice() {
        [one] => one.clone(),
        many => format!("{} hosts", many.len()),
    };
    let mut err = std::io::stderr();
    let answer = loop {
        let asked =
            write!(err, "{} on {hosts}? (y)es, (n)o, (c)ontinue without asking, (q)uit: ", question.what);
        let _gone = asked.and_then(|()| err.flush());
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(n) if n > 0 => {}
            _ => break StepAnswer::Quit,
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => break StepAnswer::Yes,
            "n" | "no" => break StepAnswer::No,
            "c" | "continue" => break StepAnswer::Continue,
            "q" | "quit" => break StepAnswer::Quit,
            _ => {}
        }
    };
    // A run that has ended meanwhile needs no answer.
    let _gone = question.answer.send(answer);
}

/// The password for sudo, as the flags say.
pub fn become_password(connection: &ConnectionArgs) -> Result<Option<SecretString>, Failure> {
    if let Some(path) = &connection.become_password_file {
        return first_line(path).map(Some);
    }
    if !connection.ask_become_pass {
        return Ok(None);
    }
    read_hidden("Password for sudo, su or doas: ").map(Some).map_err(|e| {
        Failure::refused(
            format!("there is no terminal to ask for a password at ({e})"),
            "use --become-password-file FILE",
        )
    })
}

/// The secret in the first line of a file.
fn first_line(path: &Utf8Path) -> Result<SecretString, Failure> {
    let text = fs_err::read_to_string(path)
        .map_err(|e| Failure::usage(e.to_string(), "name a file that can be read"))?;
    let first = text.lines().next().unwrap_or_default();
    if first.is_empty() {
        return Err(Failure::usage(format!("{path}: the first line is empty"), "write the password there"));
    }
    Ok(first.to_owned().into())
}

/// The sources of passphrases for locked keys.
pub enum Passphrases {
    /// From a file.
    Given(SecretString),
    /// From the terminal, if there is one.
    Asked,
}

impl Passphrases {
    /// As the flags say.
    pub fn of(connection: &ConnectionArgs) -> Result<Self, Failure> {
        Ok(match &connection.key_passphrase_file {
            Some(path) => Self::Given(first_line(path)?),
            None => Self::Asked,
        })
    }

    /// Whether there is anything or anybody to take one from.
    pub fn can_answer(&self) -> bool {
        matches!(self, Self::Given(_)) || somebody_is_there()
    }

    /// Gives the passphrase of each key to `unlock`, which tells whether it is the right one. Empty input leaves a key alone, and so
    /// does one passphrase for several keys that fits another of them.
    pub fn give(
        &self,
        keys: &[Utf8PathBuf],
        unlock: impl Fn(&Utf8Path, &SecretString) -> Result<bool, KeyFileError>,
    ) -> Result<(), Failure> {
        let wrong = |key: &Utf8Path| {
            Failure::refused(
                format!("{key}: this is not its passphrase"),
                "`ssh-keygen -y -f KEY` tries one out",
            )
        };
        match self {
            Self::Given(passphrase) => {
                let mut fits = false;
                for key in keys {
                    fits |= unlock(key, passphrase).map_err(Failure::failed)?;
                }
                keys.first().filter(|_| !fits).map_or(Ok(()), |key| Err(wrong(key)))
            }
            Self::Asked => keys.iter().try_for_each(|key| {
                for _ in 0..3 {
                    let answer = read_hidden(&format!("Passphrase for {key} (empty: without it): "));
                    let Ok(passphrase) = answer else { return Ok(()) };
                    if passphrase.expose_secret().is_empty()
                        || unlock(key, &passphrase).map_err(Failure::failed)?
                    {
                        return Ok(());
                    }
                }
                Err(wrong(key))
            }),
        }
    }
}

/// Lets the terminal show no `^C`, which would shift the live lines; as before when dropped.
pub struct NoEcho(Option<Termios>);

/// Hides `^C` where standard input is a terminal.
pub fn hide_interrupts() -> NoEcho {
    let stdin = std::io::stdin();
    let Some(before) = tcgetattr(&stdin).ok().filter(|_| is_own_prompt()) else { return NoEcho(None) };
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHOCTL);
    NoEcho(tcsetattr(&stdin, OptionalActions::Now, &silent).is_ok().then_some(before))
}

/// A process in the background that touches the terminal is stopped by the kernel.
fn is_own_prompt() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        if let Some(before) = self.0.take().filter(|_| is_own_prompt()) {
            // Nothing can be done about a terminal that is gone.
            let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        }
    }
}

/// Turns the echo on again, however the reading ends.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _gone = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Asks at the terminal without showing the input.
pub fn read_hidden(question: &str) -> std::io::Result<SecretString> {
    let mut terminal = fs_err::OpenOptions::new().read(true).write(true).open("/dev/tty")?.into_parts().0;
    terminal.write_all(question.as_bytes())?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    silent.local_modes.insert(LocalModes::ECHONL);
    let quiet = Quiet { terminal: &terminal, before };
    tcsetattr(quiet.terminal, OptionalActions::Flush, &silent)?;
    let mut line = String::new();
    BufReader::new(quiet.terminal).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned().into())
}
