//! Runs the shell functions in real shells, for tests.

use converge_resource::{AnswerError, DynObject as _, ErasedObject, Object, Observation};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Reads the answer of `cv_see_KIND` to these keys.
pub(crate) fn parse<O: Object>(
    keys: &[&str],
    answer: &str,
) -> BTreeMap<String, Result<Observation, AnswerError>> {
    ErasedObject::<O>::new().parse(keys, answer)
}

/// A shell with its tools.
#[derive(Clone, Debug)]
pub(crate) struct TestShell {
    pub name: &'static str,
    argv: &'static [&'static str],
    path: Option<PathBuf>,
}

/// `sh` (dash on Debian), bash as `sh` of RPM hosts, and busybox ash with nothing but busybox; on demand that with the tools of this machine.
pub(crate) fn shells(dir: &Path) -> Vec<TestShell> {
    let applets = dir.join("applets");
    std::fs::create_dir_all(&applets).unwrap();
    let made = Command::new("busybox").arg("--install").arg("-s").arg(&applets).status();
    assert!(made.is_ok_and(|s| s.success()), "these tests need busybox: install the package `busybox`");
    // Tests put programs of their own on PATH. A shell that passes them over would work on this machine.
    let own = Command::new("busybox").args(["ash", "-c", "PATH=/nonexistent; true && hostname"]).output();
    assert!(
        own.is_ok_and(|o| !o.status.success()),
        "this busybox runs its own programs before those on PATH: install the package `busybox`, not `busybox-static`"
    );
    let mut shells = vec![
        TestShell { name: "sh", argv: &["sh"], path: None },
        TestShell { name: "bash", argv: &["bash", "--posix"], path: None },
        TestShell { name: "ash", argv: &["busybox", "ash"], path: None },
        TestShell { name: "busybox", argv: &["busybox", "ash"], path: Some(applets) },
    ];
    shells.retain(|shell| is_wanted(shell.name));
    assert!(!shells.is_empty(), "CONVERGE_SHELLS names none of: sh, bash, ash, busybox");
    shells
}

/// Whether a test runs in this shell: one that `CONVERGE_SHELLS` names, or else `sh`, and bash or busybox by turns, since each takes minutes.
fn is_wanted(shell: &str) -> bool {
    let names = std::env::var("CONVERGE_SHELLS").unwrap_or_else(|_| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        if name.len().is_multiple_of(2) { "sh,bash" } else { "sh,busybox" }.to_owned()
    });
    names.split(',').any(|name| name == shell)
}

/// A directory that only this user may change, with all above it: `/tmp` is none.
pub(crate) fn safe_tempdir() -> tempfile::TempDir {
    let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
    let dir = tempfile::tempdir_in(home).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

/// A tool of this name with this text, in a folder of its own below `dir`: the folder, for PATH.
pub(crate) fn fake_tool(dir: &Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let tools = dir.join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::write(tools.join(name), text).unwrap();
    std::fs::set_permissions(tools.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    tools.display().to_string()
}

impl TestShell {
    /// Runs the library, then the script with these arguments.
    pub fn run(&self, root: &Path, script: &str, args: &[&str], stdin: &[u8]) -> Output {
        let library = root.join("library.sh");
        if !library.exists() {
            std::fs::write(&library, crate::registry::shell_library()).unwrap();
        }
        let mut command = match &self.path {
            // The shell itself is named in full: the applets are all that PATH offers.
            Some(path) => {
                let mut c = Command::new(path.join("ash"));
                c.env("PATH", path);
                c
            }
            None => {
                let mut c = Command::new(self.argv[0]);
                c.args(&self.argv[1..]);
                c
            }
        };
        let text = format!(". '{}'\n{script}", library.display());
        let mut child = command
            .arg("-c")
            .arg(text)
            .arg("sh")
            .args(args)
            .env("CV_ROOT", root)
            .env("CV_MIN_FREE", "0")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let bytes = stdin.to_vec();
        let feeder = std::thread::spawn(move || {
            // A script that ends before it has read all closes the pipe: no fault of the test.
            drop(std::io::Write::write_all(&mut pipe, &bytes));
        });
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        output
    }

    /// Runs it and wants status 0 and nothing on standard error.
    pub fn good(&self, root: &Path, script: &str, args: &[&str], stdin: &[u8]) -> String {
        let output = self.run(root, script, args, stdin);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}: {script} {args:?}: {:?}\n{}{}",
            self.name,
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Reads one object with its shell functions, and checks that `cv_line_KIND` prints the same state.
    pub fn see<O: Object>(&self, root: &Path, key: &str) -> Observation {
        let answer = self.good(root, &format!("cv_see_{} \"$@\"", O::KIND), &[key], b"");
        let observed = parse::<O>(&[key], &answer).remove(key).unwrap().unwrap();
        let line = self.good(root, &format!("cv_line_{} \"$@\"", O::KIND), &[key], b"");
        assert_eq!(line.trim_end_matches('\n'), observed.state.line(), "{}", self.name);
        observed
    }
}
