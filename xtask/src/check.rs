//! Every check there is.

use crate::process::{Result, cargo, gently, limited, run as run_command, shown, target_dir, workspace};
use crate::tiers::{TestChoice, Tier, UNIT_ENVIRONMENT};
use crate::{generate, shell, suite, tools};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// No step may take longer; a hanging test must not take the summary with it.
const LIMIT: Duration = Duration::from_secs(70 * 60);
/// The word that a test prints if it could not run; see [`skipped_test`].
const SKIPPED: &str = "SKIPPED";
/// Tells the tests of the whole that the binary is there: see `converge_tests::BINARY_IS_BUILT`.
const BUILT: &str = "CONVERGE_BINARY_IS_BUILT";

/// apt of new lab hosts knows what the tests install, and not all of Debian, for which each of its thousand answers would take most of a second.
const FEW_PACKAGES: (&str, &str) = ("CONVERGE_LAB_PACKAGES", "few");

enum CheckOutcome {
    Passed,
    /// The step could not run here: why.
    Skipped(String),
    Failed(String),
}

struct CheckStep {
    name: String,
    outcome: CheckOutcome,
    took: Duration,
}

#[derive(Default)]
struct CheckReport {
    steps: Vec<CheckStep>,
    /// The time of the steps that only prepare: most of it goes into what the next run finds in the cache.
    prepared: Duration,
}

impl CheckReport {
    /// A step that brings what the others need.
    fn preparation(&mut self, name: &str, prepare: impl FnOnce() -> CheckOutcome) {
        self.step(name, prepare);
        self.prepared += self.steps.last().map_or(Duration::ZERO, |step| step.took);
    }

    fn step(&mut self, name: &str, check: impl FnOnce() -> CheckOutcome) {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = check();
        match &outcome {
            CheckOutcome::Passed => {}
            CheckOutcome::Skipped(why) => println!("*** SKIPPED: {why}"),
            CheckOutcome::Failed(why) => println!("*** FAILED: {why}"),
        }
        self.steps.push(CheckStep { name: name.to_owned(), outcome, took: start.elapsed() });
    }

    fn command(&mut self, command: &Command) {
        self.step(&shown(command), || {
            outcome(run_command(&mut limited(command, LIMIT)).map_err(|_| "see above".into()))
        });
    }

    /// The summary, and whether all is well.
    fn finish(&self) -> Result<()> {
        println!("\n== Summary");
        let (mut failed, mut skipped) = (Vec::new(), 0);
        for step in &self.steps {
            let (word, why) = match &step.outcome {
                CheckOutcome::Passed => ("ok", ""),
                CheckOutcome::Skipped(why) => {
                    skipped += 1;
                    ("SKIPPED", why.as_str())
                }
                CheckOutcome::Failed(why) => {
                    failed.push(step.name.as_str());
                    ("FAILED", why.as_str())
                }
            };
            let why = if why.is_empty() {
                String::new()
            } else {
                format!("  ({})", why.lines().next().unwrap_or_default())
            };
            println!("{word:8}{:6.1} s  {}{why}", step.took.as_secs_f64(), step.name);
        }
        let total: Duration = self.steps.iter().map(|step| step.took).sum();
        let passed = self.steps.len() - failed.len() - skipped;
        println!(
            "checks: {passed} passed, {} failed, {skipped} skipped, {:.0} s; of these {:.0} s brought programs and parts that later runs find in the cache",
            failed.len(),
            total.as_secs_f64(),
            self.prepared.as_secs_f64()
        );
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join("; ")).into()) }
    }
}

fn outcome(result: Result<()>) -> CheckOutcome {
    match result {
        Ok(()) => CheckOutcome::Passed,
        Err(error) => CheckOutcome::Failed(error.to_string()),
    }
}

/// Runs the tests that are chosen, or all checks, failed ones notwithstanding, and fails at the end when one did; `CI=true` in the environment
/// makes a test that could not run a failure.
pub fn run(choice: &TestChoice) -> Result<()> {
    let on_ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    let mut report = CheckReport::default();
    if !choice.is_all() {
        some(choice, &mut report, on_ci);
        return report.finish();
    }
    let mut venv = None;
    report.preparation("tools", || {
        outcome(tools::debian().and_then(|()| {
            venv = Some(tools::ansible()?);
            Ok(())
        }))
    });
    // Its build takes minutes the first time: beside the rest, at low priority.
    let deny_build = std::thread::spawn(|| {
        let start = Instant::now();
        (tools::cargo_deny(), start.elapsed())
    });
    report.command(&cargo(&["fmt", "--all", "--check"]));
    // Beside clippy: it takes a quarter of a minute.
    let shell = std::thread::spawn(shell::check);
    report.command(&cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]));
    report.step("shell: shfmt, shellcheck, names", || {
        outcome(shell.join().unwrap_or_else(|_| Err("the thread that checks shell died".into())).map(
            |files| {
                println!("{files} files");
            },
        ))
    });
    // Minutes the first time, and kept: before the tests, whose own deadlines they would eat.
    report.preparation("parts of Kubernetes", || outcome(tools::kubernetes()));
    report.step("tests, documents, converge test --all", || tests(choice, venv.as_deref(), on_ci));
    report.command(&suite::documentation());
    let (built, took) = deny_build
        .join()
        .unwrap_or_else(|_| (Err("the thread that builds cargo-deny died".into()), Duration::ZERO));
    println!("cargo-deny was there after {:.0} s, beside the other steps", took.as_secs_f64());
    match built {
        Ok(program) => deny(&mut report, &program),
        Err(error) => report.step("cargo-deny", || CheckOutcome::Failed(error.to_string())),
    }
    report.step("cargo xtask generate --check", || {
        outcome(binary().and_then(|program| generate::check(Some(&program))))
    });
    report.finish()
}

/// The tests that are chosen, and what they need.
fn some(choice: &TestChoice, report: &mut CheckReport, on_ci: bool) {
    let mut venv = None;
    report.preparation("tools", || {
        let unit = choice.tier == Some(Tier::Unit);
        outcome((|| {
            // Whoever is not root has what is installed; what a test lacks it says.
            if !unit {
                tools::debian()?;
            }
            if matches!(choice.tier, None | Some(Tier::Cluster)) {
                tools::kubernetes()?;
            }
            if matches!(choice.tier, None | Some(Tier::Unit)) {
                venv = tools::ansible().map_err(|error| println!("no Ansible to compare with: {error}")).ok();
            }
            Ok(())
        })())
    });
    report.step("tests", || tests(choice, venv.as_deref(), on_ci));
}

/// All tests, or those that are chosen: of the units, of properties, and on lab hosts (the package `converge-tests` starts its labs itself); beside them, since they
/// wait more than they work, the roles' own tests and rustdoc.
fn tests(choice: &TestChoice, venv: Option<&Path>, on_ci: bool) -> CheckOutcome {
    // The binary is: the tests of its own crate need it.
    let mut environment = vec![(BUILT, Path::new("1")), (FEW_PACKAGES.0, Path::new(FEW_PACKAGES.1))];
    environment.extend(venv.map(|venv| ("CONVERGE_ANSIBLE_VENV", venv)));
    if choice.tier == Some(Tier::Unit) {
        environment.extend(UNIT_ENVIRONMENT.iter().map(|(name, value)| (*name, Path::new(value))));
    }
    let (mut skipped, mut failed, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let more = match binary() {
        Ok(program) if choice.is_all() => vec![scenarios(&program), documents()],
        Ok(_) => Vec::new(),
        Err(error) => return CheckOutcome::Failed(error.to_string()),
    };
    let logs = target_dir().join("suite");
    println!("what the programs print is kept in {}", logs.display());
    let done = suite::run(choice, &environment, more, |ran| {
        let retained = ran.keep(&logs);
        println!("-- {} {} after {:.1} s", ran.name, ran.word(), ran.took.as_secs_f64());
        for line in ran.output.lines().filter(|l| skipped_test(l)) {
            println!("{line}");
            skipped.push(line.trim().to_owned());
        }
        if let Err(error) = retained {
            println!("its output cannot be kept in {}: {error}", logs.display());
        }
        if !ran.passed {
            println!("{}", suite::of_failures(&ran.output));
            let tests = suite::failed(&ran.output).join(", ");
            failed.push(if tests.is_empty() { ran.name.clone() } else { format!("{}: {tests}", ran.name) });
        }
        times.push((ran.took, ran.name));
    });
    times.sort();
    println!("\n-- the longest");
    for (took, name) in times.iter().rev().take(15) {
        println!("{:7.1} s  {name}", took.as_secs_f64());
    }
    match done {
        Err(error) => return CheckOutcome::Failed(error.to_string()),
        Ok(0) => return CheckOutcome::Failed("no test is of this name and tier".to_owned()),
        Ok(programs) => println!("{programs} programs"),
    }
    if !failed.is_empty() {
        return CheckOutcome::Failed(failed.join("; "));
    }
    match skipped.as_slice() {
        [] => CheckOutcome::Passed,
        skipped => {
            let list = format!("{} skipped: {}", skipped.len(), skipped.join("; "));
            if on_ci { CheckOutcome::Failed(list) } else { CheckOutcome::Skipped(list) }
        }
    }
}

/// The binary that the build of the tests has made, beside this program.
fn binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("converge"))
}

/// The roles' own tests.
fn scenarios(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace()).args(["test", "--all"]).env(FEW_PACKAGES.0, FEW_PACKAGES.1);
    command
}

/// rustdoc of all crates, at low priority.
fn documents() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    gently(&command)
}

/// Whether a test says that it could not run, or the test runner that one is ignored.
fn skipped_test(line: &str) -> bool {
    let ignored = line
        .strip_prefix("test result:")
        .and_then(|rest| rest.split(';').find(|part| part.contains("ignored")));
    line.contains(SKIPPED) || ignored.is_some_and(|part| part.trim() != "0 ignored")
}

fn deny(report: &mut CheckReport, program: &Path) {
    let mut command = Command::new(program);
    command.current_dir(workspace()).args(["check", "bans", "licenses", "sources"]);
    report.command(&command);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_and_ignored_tests_are_counted() {
        assert!(skipped_test("*** SKIPPED: no such tool ***"));
        assert!(skipped_test("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"));
        assert!(!skipped_test("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"));
        assert!(!skipped_test("test skipped_items_are_named ... ok"));
    }
}
