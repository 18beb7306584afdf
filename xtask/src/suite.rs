//! All tests of the workspace: built once, and run as many side by side as the machine has processors. cargo would run one program
//! after another, and most of ours wait for hosts.

use crate::process::{Result, cargo, limited, workspace};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No program of tests may take longer.
const LIMIT: Duration = Duration::from_secs(25 * 60);
/// The package whose tests start hosts: they take longest, and begin first.
const LONG: &str = "converge-tests";

/// A program of tests.
#[derive(Debug, PartialEq)]
struct Program {
    package: String,
    name: String,
    path: PathBuf,
    /// The package's folder, in which cargo would run it.
    folder: PathBuf,
}

/// How one ended.
pub struct Ran {
    /// `PACKAGE NAME`.
    pub name: String,
    /// Whether all its tests passed.
    pub passed: bool,
    /// How long it took.
    pub took: Duration,
    /// What it printed.
    pub output: String,
}

/// The program that a message of cargo tells of, if it is one of tests.
fn program(message: &Value) -> Option<Program> {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
    if text("/reason") != Some("compiler-artifact") || !test {
        return None;
    }
    let folder = Path::new(text("/manifest_path")?).parent()?.to_owned();
    // `path+file:///…/crates/cli#converge-cli@0.1.0`, or without the name where the folder has it.
    let id = text("/package_id")?;
    let last = id.rsplit_once('#').map_or(id, |(_, last)| last);
    let package = match last.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name()?.to_string_lossy().into_owned(),
    };
    Some(Program {
        package,
        name: text("/target/name")?.to_owned(),
        path: PathBuf::from(text("/executable")?),
        folder,
    })
}

/// Builds them all. With them comes the binary itself, since the tests of its own crate need it.
fn build() -> Result<Vec<Program>> {
    let mut command = cargo(&[
        "test",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<Program> =
        text.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect();
    programs.sort_by_key(|p| p.package != LONG);
    Ok(programs)
}

/// Builds and runs them; `environment` is added to that of each. `done` gets each as it ends, one at a time.
pub fn run(environment: &[(&str, &Path)], done: impl FnMut(Ran) + Send) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(build()?));
    let done = Mutex::new(done);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { return };
                    let ran = one(&program, environment);
                    (done.lock().unwrap_or_else(PoisonError::into_inner))(ran);
                }
            });
        }
    });
    Ok(())
}

fn one(program: &Program, environment: &[(&str, &Path)]) -> Ran {
    let name = format!("{} {}", program.package, program.name);
    let begun = Instant::now();
    // Nothing can be done about a closed standard output.
    drop(writeln!(std::io::stdout(), "-- {name} begins"));
    let mut command = Command::new(&program.path);
    // The output of tests that pass is shown: one that could not run says so there.
    command.arg("--show-output").current_dir(&program.folder);
    // What cargo tells a test that it runs.
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
    command.envs(environment.iter().copied());
    let (passed, output) = match to_its_end(&mut limited(&command, LIMIT)) {
        Ok((status, mut text)) => {
            if status.code() == Some(124) {
                text.push_str(&format!("*** it was stopped after {} s\n", LIMIT.as_secs()));
            }
            (status.success(), text)
        }
        Err(error) => (false, format!("{}: {error}\n", program.path.display())),
    };
    Ran { name, passed, took: begun.elapsed(), output }
}

/// Runs it, and reads what it wrote. Into a file: what it leaves running must not hold us up.
fn to_its_end(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut file = tempfile::tempfile()?;
    let status = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?).status()?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// The tests that failed, by a program's output.
pub fn failed(output: &str) -> Vec<&str> {
    let name = |line: &'_ str| -> Option<usize> {
        let rest = line.strip_prefix("test ")?;
        rest.strip_suffix(" ... FAILED").map(str::len)
    };
    output.lines().filter_map(|line| name(line).and_then(|len| line.get(5..5 + len))).collect()
}

/// The tests of the documentation, which only cargo can run.
pub fn documentation() -> Command {
    let mut command = cargo(&["test", "--workspace", "--locked", "--doc"]);
    command.current_dir(workspace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_of_tests_are_known_by_cargos_messages() {
        let message = |test: bool, id: &str| {
            json!({"reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/crates/cli/Cargo.toml",
                "target": {"name": "cli"}, "profile": {"test": test}, "executable": "/t/cli-1"})
        };
        let found = program(&message(true, "path+file:///w/crates/cli#converge-cli@0.1.0")).unwrap();
        assert_eq!((found.package.as_str(), found.name.as_str()), ("converge-cli", "cli"));
        assert_eq!(found.folder, Path::new("/w/crates/cli"));
        assert_eq!(program(&message(true, "path+file:///w/crates/cli#0.1.0")).unwrap().package, "cli");
        assert_eq!(program(&message(false, "path+file:///w/crates/cli#converge-cli@0.1.0")), None);
        assert_eq!(program(&json!({"reason": "build-finished"})), None);
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\ntest c ... FAILED\ntest d - should panic ... ok\n";
        assert_eq!(failed(output), ["c"]);
    }
}
