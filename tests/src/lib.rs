//! A world for tests of the whole: disposable real hosts, a project in a temporary folder, and the real binary.

pub mod guide;
pub mod kubeadm;
pub mod snaps;

use converge_lab::{Host, Lab, LabOptions};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An error of the surroundings of a test.
pub type Error = Box<dyn std::error::Error>;

/// Hosts and a project.
pub struct World {
    lab: Lab,
    hosts: Vec<Host>,
    dir: TempDir,
}

/// The most lines of an output that a failed test shows.
const SHOWN_LINES: usize = 80;

/// The result of a run of the binary.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Everything that was printed.
    pub fn all(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// Checks the exit code.
    ///
    /// # Panics
    /// When it is another; everything that was printed is shown.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code\n{}", self.shown());
        self
    }

    /// Checks that this was printed.
    ///
    /// # Panics
    /// When it was not.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.all().contains(text), "nobody says {text:?}\n{}", self.shown());
        self
    }

    /// Both outputs for a failed test: the errors first, and of a long output its end, which names what failed.
    fn shown(&self) -> String {
        let lines: Vec<&str> = self.stdout.lines().collect();
        let left_out = lines.len().saturating_sub(SHOWN_LINES);
        let end = lines.get(left_out..).unwrap_or_default().join("\n");
        let note = if left_out > 0 { format!(", without its first {left_out} lines") } else { String::new() };
        format!("--- stderr\n{}\n--- stdout{note}\n{end}", self.stderr)
    }

    /// Standard output as JSON.
    ///
    /// # Errors
    /// It is none.
    pub fn json(&self) -> Result<serde_json::Value, Error> {
        Ok(serde_json::from_str(&self.stdout).map_err(|e| format!("{e}: {}", self.stdout))?)
    }
}

/// Set where the binary is there already: `cargo test --workspace` builds it for the tests of its own crate. Built by itself it has other features of
/// its dependencies, which are then all compiled once more.
pub const BINARY_IS_BUILT: &str = "CONVERGE_BINARY_IS_BUILT";

/// The binary, built once; `converge-lab` stands beside it.
///
/// # Errors
/// It does not build.
pub fn binary() -> Result<PathBuf, Error> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        // target/PROFILE/deps/test-HASH → target/PROFILE/converge
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let profile = own.parent().and_then(Path::parent).ok_or("no folder of the test")?;
        if std::env::var_os(BINARY_IS_BUILT).is_some() {
            return Ok(profile.join("converge"));
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "--package", "converge-cli", "--bins"]);
        if profile.file_name() == Some(OsStr::new("release")) {
            build.arg("--release");
        }
        let status = build.current_dir(root()).status().map_err(|e| e.to_string())?;
        if status.success() {
            Ok(profile.join("converge"))
        } else {
            Err("the binary does not build".to_owned())
        }
    });
    Ok(built.clone()?)
}

/// The checkout.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Links every role of the project into a project's folder `roles`, so that a test's own may stand beside them.
///
/// # Errors
/// The folder is there already, or cannot be made.
pub fn link_roles(project: &Path) -> std::io::Result<()> {
    let roles = project.join("roles");
    std::fs::create_dir(&roles)?;
    for role in std::fs::read_dir(root().join("roles"))? {
        let role = role?;
        std::os::unix::fs::symlink(role.path(), roles.join(role.file_name()))?;
    }
    Ok(())
}

impl World {
    /// A lab of this name with so many hosts, and a project whose inventory `hosts.yaml` names them as group `lab`.
    ///
    /// # Errors
    /// The lab cannot be made.
    pub fn new(name: &str, hosts: u8) -> Result<Self, Error> {
        Self::open(LabOptions::new(name), hosts)
    }

    /// The same with a lab of these options.
    ///
    /// # Errors
    /// The lab cannot be made.
    pub fn open(options: LabOptions, hosts: u8) -> Result<Self, Error> {
        let lab = Lab::open(options)?;
        let hosts = lab.up(hosts)?;
        lab.write_ssh_files()?;
        let world = Self { lab, hosts, dir: TempDir::new()? };
        world.write("hosts.yaml", &world.inventory(""))?;
        Ok(world)
    }

    /// The inventory's text, with more variables for all hosts (lines of `key: value`).
    pub fn inventory(&self, more: &str) -> String {
        let mut text = String::from("lab:\n  hosts:\n");
        for host in &self.hosts {
            text.push_str(&format!("    {}: {{ansible_host: {}}}\n", host.name(), host.address()));
        }
        text.push_str("  vars:\n");
        for (name, value) in self.lab.variables() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("    {name}: {value}\n"));
        }
        for line in more.lines() {
            text.push_str(&format!("    {line}\n"));
        }
        text
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The hosts, h1 first.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The project's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a file into the project.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Error> {
        let path = self.dir.path().join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
            // A role of the repository may be linked into the project.
            if !parent.canonicalize()?.starts_with(self.dir.path().canonicalize()?) {
                return Err(format!("{} leads out of the project", path.display()).into());
            }
        }
        Ok(std::fs::write(path, text)?)
    }

    /// Puts a role into the project and a playbook `playbooks/site.yaml` that gives all hosts this role alone.
    ///
    /// # Errors
    /// The file system's.
    pub fn only_role(&self, name: &str, role: &str) -> Result<(), Error> {
        self.write(&format!("roles/{name}/role.yaml"), role)?;
        self.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{name}]\n"))
    }

    /// Runs the binary with these arguments for a project of this name on all hosts, whose inventory is written before; with `resources` also its only role.
    ///
    /// # Errors
    /// A file cannot be written, or the binary does not build.
    pub fn of_project(&self, name: &str, args: &[&str], resources: Option<&str>) -> Result<Ran, Error> {
        let inventory = format!("{name}.yaml");
        self.write(&inventory, &self.inventory(&format!("converge_project: {name}")))?;
        if let Some(resources) = resources {
            self.only_role(name, &format!("resources:\n{resources}"))?;
        }
        self.converge(&[args, &[inventory.as_str()]].concat())
    }

    /// The binary, to be started in the project's folder with this machine's ssh agent and home out of sight.
    ///
    /// # Errors
    /// It does not build.
    pub fn command(&self, args: &[&str]) -> Result<Command, Error> {
        let mut command = Command::new(binary()?);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Runs the binary in the project's folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn converge(&self, args: &[&str]) -> Result<Ran, Error> {
        ran(&mut self.command(args)?)
    }

    /// The command that removes all orphaned objects: a wrong number is refused, and the refusal names the right one.
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn prune_all(&self) -> Result<Vec<String>, Error> {
        let refused = self.converge(&["apply", "--yes", "--prune=99", "hosts.yaml"])?.all();
        let number = refused.split("write --prune=").nth(1).and_then(|rest| rest.split(' ').next());
        let prune = number.map_or("--prune".to_owned(), |number| format!("--prune={number}"));
        Ok(["apply", "--yes", &prune, "hosts.yaml"].map(str::to_owned).to_vec())
    }
}

/// Prunes with the number that the command asks for; `run` takes the option.
pub fn prune_by_number(run: impl Fn(&str) -> Ran) -> Ran {
    let asked = run("--prune");
    let all = asked.all();
    let number = all.split_once("write --prune=").and_then(|(_, rest)| rest.split(' ').next());
    number.map_or(asked, |number| run(&format!("--prune={number}")))
}

/// The output of a shell command on a host, without the newline at its end.
///
/// # Panics
/// The host cannot be entered, or the command fails; its whole output is shown.
#[track_caller]
#[expect(clippy::panic, reason = "what goes wrong in a test ends it")]
pub fn exec(host: &Host, script: &str) -> String {
    match host.exec(script) {
        Ok(output) if output.success() => output.stdout.trim().to_owned(),
        other => panic!("{}: {script}: {other:?}", host.name()),
    }
}

/// Waits until this holds.
///
/// # Panics
/// It does not within so many seconds.
#[track_caller]
pub fn until(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let begun = Instant::now();
        if holds() {
            return;
        }
        assert!(Instant::now() < end, "{what} does not come true");
        converge_lab::pause(begun);
    }
}

/// Waits until a shell command ends well on a host.
///
/// # Panics
/// The host cannot be entered, or the command does not end well within so many seconds.
#[track_caller]
#[expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]
pub fn until_exec(host: &Host, seconds: u64, script: &str) {
    until(script, seconds, || host.exec(script).unwrap().success());
}

/// A command that takes longer is named with its time in the output of its test.
const LONG: Duration = Duration::from_secs(2);

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started.
#[expect(clippy::print_stdout, reason = "the log of a slow test says where its time went")]
pub fn ran(command: &mut Command) -> Result<Ran, Error> {
    let begun = Instant::now();
    let output = command.output()?;
    let took = begun.elapsed();
    if took >= LONG {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        println!("{:6.1} s  {}", took.as_secs_f64(), words.join(" "));
    }
    reply(output)
}

/// Waits for a command that was started with pipes.
///
/// # Errors
/// The system's.
pub fn ended(child: Child) -> Result<Ran, Error> {
    reply(child.wait_with_output()?)
}

fn reply(output: Output) -> Result<Ran, Error> {
    Ok(Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A list that shows any difference between two states of a whole host: every path below `/` (except those that the kernel
/// and logins write) with its type, mode, owner, size, mtime and digest.
///
/// # Errors
/// The host does not answer.
pub fn whole_file_system(host: &Host) -> Result<Vec<String>, Error> {
    // /var/log: journald and sshd's login records; apt's own are looked at. /run, /proc, /sys, /dev: not on disk. lastlog and wtmp are in /var/log.
    let script = "cd / && skip='( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp \
        -o -path ./var/log -o -path ./var/lib/systemd/timers -o -path ./var/lib/sudo ) -prune -o'; set -f; \
        { find . -xdev $skip -printf '%p %y %m %U %G %s %l %T@\\n' && \
          find ./var/log/apt -printf '%p %y %m %U %G %s %l %T@\\n' && \
          find . -xdev $skip -type f -print0 | xargs -0 sha256sum | sed 's/^\\([^ ]*\\)  \\(.*\\)/\\2 \\1/'; } | LC_ALL=C sort";
    let output = host.exec(script)?;
    if !output.success() {
        return Err(format!("find: {}", output.stderr).into());
    }
    Ok(output.stdout.lines().map(str::to_owned).collect())
}
