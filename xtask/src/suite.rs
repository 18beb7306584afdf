//! Runs all tests of the workspace: they are built once and run side by side, three on two processors, and more while these
//! are idle. cargo would run one program after another, and most of them wait for hosts.

use crate::process::{Result, cargo, limited, shown, workspace};
use crate::tiers::{self, HOSTS as LONG, ProgramPart, TestChoice, Tier};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No program of tests may take longer. What hangs is stopped while the other programs run, and named.
const fn limit(tier: Tier) -> Duration {
    Duration::from_secs(match tier {
        Tier::Unit => 35 * 60,
        Tier::Host => 40 * 60,
        Tier::Cluster => 60 * 60,
    })
}
/// Of the tests that start hosts, which take longest and begin first, those that bring up clusters, the longest first: what begins last is
/// waited for alone.
const LONGEST: &[&str] = &["cluster", "k8s_role", "k8s_nodes", "gpu_faults", "kinds_system", "guard"];

/// Packages of unit tests that take longest, the longest first: they start shells and sshd.
const LONGEST_UNIT: &[&str] = &["converge-host", "converge-objects", "converge-ledger", "converge-ssh"];

/// More is begun than there is room for while this share of the processors' time is idle …
const IDLE: f64 = 0.3;
/// … for so long.
const LOOK: Duration = Duration::from_secs(5);

/// A program of tests.
#[derive(Debug, PartialEq)]
struct TestProgram {
    package: String,
    name: String,
    path: PathBuf,
    /// The package's folder, in which cargo would run it.
    folder: PathBuf,
}

impl TestProgram {
    fn job(&self, environment: &[(&str, &Path)], tests: &[String]) -> TestJob {
        let mut command = Command::new(&self.path);
        if !tests.is_empty() {
            command.arg("--exact").args(tests);
        }
        // The output of tests that pass is shown: one that could not run says so there.
        command.arg("--show-output").current_dir(&self.folder);
        // The environment that cargo gives to a test.
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command.envs(environment.iter().copied());
        let limit = limit(tiers::tier(&self.package, &self.name));
        TestJob { name: format!("{} {}", self.package, self.name), command, limit }
    }
}

/// A program to run.
struct TestJob {
    name: String,
    command: Command,
    limit: Duration,
}

/// The end of a program.
pub struct Ran {
    /// `PACKAGE NAME`, or the command line of what is no program of tests.
    pub name: String,
    /// Whether all its tests passed.
    pub passed: bool,
    /// The duration.
    pub took: Duration,
    /// The output.
    pub output: String,
}

impl Ran {
    /// Whether all went well, for people.
    pub fn word(&self) -> &'static str {
        if self.passed { "passed" } else { "FAILED" }
    }

    /// Keeps what it printed, in a file of this folder.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        let name: String = self.name.chars().take(80).map(plain).collect();
        Ok(std::fs::write(folder.join(name).with_extension("log"), &self.output)?)
    }
}

/// The program that a message of cargo tells of, if it is one of tests.
fn program(message: &Value) -> Option<TestProgram> {
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
    Some(TestProgram {
        package,
        name: text("/target/name")?.to_owned(),
        path: PathBuf::from(text("/executable")?),
        folder,
    })
}

/// Its place in the order: the smaller, the earlier. The longest unit tests begin before the other tests that start hosts: those end soon enough one by
/// one.
fn turn(program: &TestProgram) -> usize {
    let own = program.package == LONG;
    let long = LONGEST.iter().position(|name| own && program.name == *name);
    let unit = || LONGEST_UNIT.iter().position(|name| program.package == *name).map(|at| LONGEST.len() + at);
    long.or_else(unit).unwrap_or(LONGEST.len() + LONGEST_UNIT.len() + usize::from(!own))
}

/// Builds what is chosen. With it comes the binary itself, since the tests of its own crate need it.
fn build(choice: &TestChoice) -> Result<Vec<TestProgram>> {
    let mut command = cargo(&[]);
    command.args(choice.build()?).args(["--locked", "--message-format", "json-render-diagnostics"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> =
        text.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect();
    programs.sort_by_key(turn);
    Ok(programs)
}

/// Builds and runs what is chosen, and says how many programs that were; `environment` is added to that of each. `more` runs among them, early.
/// `done` gets each as it ends, one at a time.
pub fn run(
    choice: &TestChoice,
    environment: &[(&str, &Path)],
    more: Vec<Command>,
    done: impl FnMut(Ran) + Send,
) -> Result<usize> {
    let programs = build(choice)?;
    let early = programs.iter().take_while(|program| turn(program) < LONGEST.len()).count();
    let mut jobs = Vec::new();
    for program in &programs {
        match choice.part(&program.package, &program.name, || tiers::list(&program.path))? {
            ProgramPart::Whole => jobs.push(program.job(environment, &[])),
            ProgramPart::Some(tests) => jobs.push(program.job(environment, &tests)),
            ProgramPart::None => {}
        }
    }
    let early = early.min(jobs.len());
    jobs.splice(
        early..early,
        more.into_iter().map(|command| TestJob {
            name: shown(&command),
            command,
            limit: limit(Tier::Cluster),
        }),
    );
    let all = jobs.len();
    let waiting = Mutex::new(VecDeque::from(jobs));
    let done = Mutex::new(done);
    // Half as many again as there are processors: most of their time they wait for hosts, but a cluster that starts waits for nobody. The others
    // take something up only while the processors have nothing to do.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let steady = processors + processors.div_ceil(2);
    std::thread::scope(|scope| {
        for number in 0..processors * 3 {
            let (waiting, done) = (&waiting, &done);
            scope.spawn(move || {
                loop {
                    let left = waiting.lock().unwrap_or_else(PoisonError::into_inner).len();
                    if left > 0 && number >= steady && idle_share(LOOK) < IDLE {
                        continue;
                    }
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(job) = next else { return };
                    let ran = one(job);
                    (done.lock().unwrap_or_else(PoisonError::into_inner))(ran);
                }
            });
        }
    });
    Ok(all)
}

/// The share of their time that the processors have nothing to do, looked at for so long; 0 where the system does not say.
fn idle_share(time: Duration) -> f64 {
    let before = processor_times();
    std::thread::sleep(time);
    match (before, processor_times()) {
        (Some((idle, all)), Some((idle_now, all_now))) if all_now > all => {
            idle_now.saturating_sub(idle) as f64 / (all_now - all) as f64
        }
        _ => 0.0,
    }
}

/// The time that all processors were idle, and all their time, in ticks since the start (`/proc/stat`, proc(5)).
fn processor_times() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times: Vec<u64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|time| time.parse().ok())
        .collect();
    Some((*times.get(3)?, times.iter().sum()))
}

fn one(TestJob { name, command, limit }: TestJob) -> Ran {
    let begun = Instant::now();
    // Nothing can be done about a closed standard output.
    drop(writeln!(std::io::stdout(), "-- {name} begins"));
    let (passed, output) = match to_its_end(&mut limited(&command, limit)) {
        Ok((status, mut text)) => {
            if status.code() == Some(124) {
                text.push_str(&format!("*** it was stopped after {} s\n", limit.as_secs()));
            }
            (status.success(), text)
        }
        Err(error) => (false, format!("{name}: {error}\n")),
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

/// The part of a failed program's output that concerns its failures: without the tests that passed and their output, and
/// with equal lines in a row only once. A file keeps the whole output (`Ran::keep`).
pub fn of_failures(output: &str) -> String {
    let (begin, rest) = output.split_once("\nsuccesses:\n").unwrap_or((output, ""));
    let failures = rest.find("\nfailures:\n").map_or("", |at| &rest[at..]);
    let passed = |line: &&str| line.starts_with("test ") && line.ends_with(" ... ok");
    let mut lines: Vec<&str> = begin.lines().chain(failures.lines()).filter(|line| !passed(line)).collect();
    lines.dedup();
    lines.join("\n")
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
    fn what_takes_longest_begins_first() {
        let program = |package: &str, name: &str| TestProgram {
            package: package.into(),
            name: name.into(),
            path: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let own = |name: &str| program(LONG, name);
        let mut all = [
            program("cluster", "cluster"),
            own("prune"),
            program("converge-host", "converge_host"),
            own("k8s_nodes"),
            own("k8s_role"),
        ];
        all.sort_by_key(turn);
        let names = all.each_ref().map(|p| p.name.as_str());
        assert_eq!(names, ["k8s_role", "k8s_nodes", "converge_host", "prune", "cluster"]);
    }

    #[test]
    fn the_processors_say_how_idle_they_are() {
        let (idle, all) = processor_times().unwrap();
        assert!(idle < all);
        assert!((0.0..=1.0).contains(&idle_share(Duration::from_millis(50))));
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\ntest c ... FAILED\ntest d - should panic ... ok\n";
        assert_eq!(failed(output), ["c"]);
    }

    #[test]
    fn what_passed_is_not_printed_with_what_failed() {
        let begin = "running 2 tests\ntest a ... ok\nhm\nhm\ntest c ... FAILED\n";
        let successes = "\nsuccesses:\n\n---- a stdout ----\nlong\n\nsuccesses:\n    a\n";
        let failures = "\nfailures:\n\n---- c stdout ----\nwhy\n\nfailures:\n    c\n";
        let expected = "running 2 tests\nhm\ntest c ... FAILED\n\nfailures:\n\n---- c stdout ----\nwhy\n\nfailures:\n    c";
        assert_eq!(of_failures(&format!("{begin}{successes}{failures}")), expected);
        assert_eq!(of_failures("no test\nat all\n"), "no test\nat all");
    }
}
