//! Advisories about what the workspace is made of. They are published at any time, so they decide about no change: this is a command of its own,
//! for a job that runs by the clock (`docs/ci.md`).

use crate::process::{Result, limited, workspace};
use crate::tools;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);
/// The message of cargo-deny if it cannot get the database.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Looks every crate up in the database of advisories.
///
/// Errors when one of them is vulnerable, unsound or withdrawn, and when nothing could be looked up. One without a maintainer is a warning.
pub fn run() -> Result<()> {
    let mut command = Command::new(tools::cargo_deny()?);
    command
        .current_dir(workspace())
        .args(["check", "--warn", "unmaintained", "advisories"])
        .stdin(Stdio::null());
    let output = limited(&command, LIMIT).output()?;
    println!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    println!("\n{}", verdict(&output)?);
    Ok(())
}

/// The result of cargo-deny's output.
fn verdict(output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains(NO_DATABASE) {
        return Err("the database of advisories cannot be fetched from here: nothing was checked".into());
    }
    if !output.status.success() {
        let all = lines(&text, "error");
        let why = if all.is_empty() { "cargo-deny could not check".to_owned() } else { all.join("; ") };
        return Err(why.into());
    }
    let warned = lines(&text, "warning[unmaintained]");
    Ok(match warned.len() {
        0 => "no advisory applies".to_owned(),
        _ => format!("*** WARNING: {}", warned.join("; ")),
    })
}

/// The headlines that begin so, each once.
fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let mut all: Vec<&str> = text.lines().filter(|line| line.starts_with(start)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(code: i32, text: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_unmaintained_crate_is_a_warning() {
        assert_eq!(verdict(&output(0, "advisories ok")).unwrap(), "no advisory applies");
        let reply = "warning[unmaintained]: x is unmaintained\n   ├ ID: RUSTSEC-2026-0173\n\nadvisories ok";
        let verdict = verdict(&output(0, reply)).unwrap();
        assert_eq!(verdict, "*** WARNING: warning[unmaintained]: x is unmaintained");
    }

    #[test]
    fn a_vulnerable_crate_is_a_failure_and_so_is_a_check_that_was_none() {
        let why = |code, text: &str| verdict(&output(code, text)).unwrap_err().to_string();
        assert_eq!(
            why(1, "error[vulnerability]: x is bad\n├ ID: y\nerror[vulnerability]: x is bad"),
            "error[vulnerability]: x is bad"
        );
        assert!(why(1, "[ERROR] failed to fetch advisory database x").contains("nothing was checked"));
        assert!(why(0, "[ERROR] failed to fetch advisory database x").contains("nothing was checked"));
        assert_eq!(why(1, "[ERROR] failed to load config: x"), "cargo-deny could not check");
    }
}
