//! A user of the host who exchanges paths in his own directory while root works there.
//!
//! The attacker has root's own rights to rename and to link, so what `protected_symlinks` and `protected_hardlinks` would forbid a user
//! does not matter. `CONVERGE_ATTACKS` says how often each kind of work is done (in all shells together); few are done by default.

use super::Path as PathObject;
use crate::testing::{Shell, safe_tempdir, shells};
use converge_resource::{Digest, Object as _};
use rustix::fs::{CWD, Gid, RenameFlags, Uid, chown, renameat_with};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `nobody` stands for the user; the names are on every system.
const USER: u32 = 65534;
const SECRET: &[u8] = b"root's own secret\n";

/// A home with what the user puts into it, and what is root's beside it.
struct Field {
    _keep: tempfile::TempDir,
    home: PathBuf,
    victim: PathBuf,
    inode: u64,
}

fn give(path: &Path) {
    chown(path, Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER))).unwrap();
}

fn dir_of(path: &Path, mode: u32) {
    std::fs::create_dir(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Field {
    fn new() -> Self {
        let keep = safe_tempdir();
        let (home, victim) = (keep.path().join("home"), keep.path().join("victim"));
        dir_of(&home, 0o755);
        dir_of(&victim, 0o755);
        give(&home);
        for name in ["f", "gone"] {
            std::fs::write(victim.join(name), SECRET).unwrap();
            std::fs::set_permissions(victim.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        dir_of(&victim.join("d"), 0o700);
        let inode = std::fs::metadata(&victim).unwrap().ino();
        Self { home, victim, inode, _keep: keep }
    }

    /// A directory of the user's, and a link of that name to root's.
    fn linked_dir(&self) -> [PathBuf; 2] {
        let pair = [self.home.join("app"), self.home.join("app.other")];
        dir_of(&pair[0], 0o755);
        give(&pair[0]);
        self.fill(&pair[0]);
        symlink(&self.victim, &pair[1]).unwrap();
        pair
    }

    /// A directory of the user's, and one of root's that lies in the home.
    fn roots_dir(&self) -> [PathBuf; 2] {
        let pair = [self.home.join("app"), self.home.join("app.other")];
        dir_of(&pair[0], 0o755);
        give(&pair[0]);
        self.fill(&pair[0]);
        std::fs::rename(&self.victim, &pair[1]).unwrap();
        pair
    }

    fn fill(&self, app: &Path) {
        for name in ["f", "gone"] {
            std::fs::write(app.join(name), "the user's own\n").unwrap();
            give(&app.join(name));
        }
        dir_of(&app.join("d"), 0o755);
        give(&app.join("d"));
    }

    /// What nobody but root may bring about, as a text: names, kinds, owners, modes and contents of all that is root's.
    fn roots(&self) -> String {
        let places = [self.victim.clone(), self.home.join("app"), self.home.join("app.other")];
        let is = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|m| m.ino() == self.inode);
        let victim = places.into_iter().find(is).unwrap();
        let mut out = Vec::new();
        let mut left = vec![victim];
        while let Some(path) = left.pop() {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            out.push(format!("{} {} {:o} {:?}", meta.uid(), meta.gid(), meta.mode(), content));
            if meta.is_dir() {
                let mut inside: Vec<PathBuf> =
                    std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).collect();
                inside.sort();
                out.extend(inside.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()));
                left.extend(inside);
            }
        }
        out.join("\n")
    }
}

/// Exchanges the two as fast as it can while `work` runs, with a rest now and then, so that work is done as well.
fn while_exchanging<T>(pair: &[PathBuf; 2], work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // One of them may be missing for a moment, while root replaces it.
                let _missing = renameat_with(CWD, &pair[0], CWD, &pair[1], RenameFlags::EXCHANGE);
                turn += 1;
                // A tool of root's takes a millisecond to start: many exchanges fall between two of its looks.
                let rest = if turn.is_multiple_of(512) { 20_000 } else { turn * 37 % 251 };
                std::thread::sleep(Duration::from_micros(rest));
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

fn attempts() -> usize {
    std::env::var("CONVERGE_ATTACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

/// dash, bash and busybox: the script so often, in one process each. What it printed.
fn work(shell: &Shell, root: &Path, times: usize, script: &str, args: &[&str]) -> String {
    let text = format!("n=0; while [ $n -lt {times} ]; do n=$((n + 1)); ({script}) 2>&1 </dev/null; done");
    let output = shell.run(root, &text, args, b"");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Each shell does its share of the work while the pair is exchanged; then nothing of root's is otherwise, and no secret was said.
fn attack(name: &str, pair: impl Fn(&Field) -> [PathBuf; 2], script: &str) -> usize {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // Attackers would take the time from each other.
    let _alone = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let tools = tempfile::tempdir().unwrap();
    let mut done = 0;
    let began = std::time::Instant::now();
    let shells: Vec<Shell> = shells(tools.path()).into_iter().filter(|s| s.name != "ash").collect();
    let times = attempts().div_ceil(shells.len());
    for shell in &shells {
        let field = Field::new();
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("blobs")).unwrap();
        let pair = pair(&field);
        let before = field.roots();
        let at = pair[0].to_str().unwrap();
        let (owner, theirs) = ("nobody", Digest::of(b"the user's own\n"));
        let args = [at, owner, theirs.as_str()];
        let said = while_exchanging(&pair, || work(shell, root.path(), times, script, &args));
        assert_eq!(field.roots(), before, "{name}, {}: root's own was changed\n{said}", shell.name);
        let secret = Digest::of(SECRET);
        assert!(!said.contains(secret.as_str()), "{name}, {}: root's digest was said\n{said}", shell.name);
        assert!(!said.contains("own secret"), "{name}, {}: root's secret was said\n{said}", shell.name);
        assert!(
            !root.path().join("blobs").join(secret.as_str()).exists(),
            "{name}, {}: root's secret was saved",
            shell.name
        );
        done += said.matches("did it").count();
    }
    eprintln!(
        "{name}: {:?}, {times} attempts in each of {} shells, {done} went through",
        began.elapsed(),
        shells.len()
    );
    done
}

const FILE: &str = "printf x | cv_put_path \"$1/new\" 644 \"$2\" nogroup && rm -f \"$1/new\" && echo did it";

#[test]
fn the_attack_would_be_seen() {
    // The work as it was done once: it looks, then it goes, then it changes.
    let once = "[ -L \"$1\" ] || { cd \"$1\" && chown \"$2:\" . && chmod 750 .; }";
    let tools = tempfile::tempdir().unwrap();
    let shell = shells(tools.path()).remove(0);
    let field = Field::new();
    let root = tempfile::tempdir().unwrap();
    let pair = field.linked_dir();
    let before = field.roots();
    let seen = (0..60).any(|_| {
        while_exchanging(&pair, || work(&shell, root.path(), 100, once, &[key(&pair[0]), "nobody"]));
        field.roots() != before
    });
    assert!(seen, "an attacker who never wins shows nothing");
}

fn key(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nothing_is_written_through_a_directory_that_is_exchanged() {
    attack("file", Field::linked_dir, FILE);
    attack(
        "directory",
        Field::linked_dir,
        "cv_mkdir_path \"$1/new\" 750 \"$2\" nogroup && rmdir \"$1/new\" && echo did it",
    );
    attack("link", Field::linked_dir, "cv_link_path \"$1/new\" /etc && rm -f \"$1/new\" && echo did it");
    attack(
        "absent",
        Field::linked_dir,
        "cv_remove_path \"$1/gone\"; cv_remove_path \"$1/gone2\" && echo did it",
    );
    attack("owner", Field::linked_dir, "cv_own_path \"$1/f\" 644 \"$2\" nogroup \"$3\" && echo did it");
}

#[test]
fn no_directory_of_roots_is_given_away() {
    attack("directory itself", Field::linked_dir, "cv_mkdir_path \"$1\" 750 \"$2\" nogroup && echo did it");
    attack(
        "root's directory in the home",
        Field::roots_dir,
        "cv_mkdir_path \"$1\" 750 \"$2\" nogroup && echo did it",
    );
    attack("below root's directory", Field::roots_dir, FILE);
    let inner = |field: &Field| {
        let [app, _] = field.linked_dir();
        let other = app.join("d.other");
        symlink(field.victim.join("d"), &other).unwrap();
        [app.join("d"), other]
    };
    attack("directory in a directory", inner, "cv_mkdir_path \"$1\" 755 \"$2\" nogroup && echo did it");
}

#[test]
fn nothing_of_roots_is_read_or_saved() {
    let read = "cv_see_path \"$1/f\" | grep -F \"$3\" && echo did it; cv_see_path \"$1/f\"; cv_content \"$1/f\" 1000";
    attack("look", Field::linked_dir, read);
    let final_link = |field: &Field| {
        let [app, _] = field.linked_dir();
        let other = app.join("f.other");
        symlink(field.victim.join("f"), &other).unwrap();
        [app.join("f"), other]
    };
    let itself = "cv_see_path \"$1\" && cv_content \"$1\" 1000 && echo did it; cv_own_path \"$1\" 644 \"$2\" nogroup \"$3\"";
    attack("look at a link", final_link, itself);
    let save = "cv_save_path \"$1\" \"file 600 root root 18 $(sha256sum </dev/null | cut -c1-64)\"; \
                cv_save_path \"$1\" \"file 644 $2 nogroup 15 $3\" && echo did it; rm -f \"$CV_ROOT/blobs/$3\"";
    attack("save", final_link, save);
    let hard = |field: &Field| {
        let [app, _] = field.linked_dir();
        let other = app.join("f.other");
        std::fs::hard_link(field.victim.join("f"), &other).unwrap();
        [app.join("f"), other]
    };
    attack("look at a hard link", hard, itself);
    let pipe = |field: &Field| {
        let [app, _] = field.linked_dir();
        let other = app.join("f.other");
        rustix::fs::mknodat(CWD, &other, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
        [app.join("f"), other]
    };
    attack("look at a FIFO", pipe, &format!("CV_OPEN_SECONDS=1; {itself}"));
}

#[test]
fn a_way_that_leads_elsewhere_is_refused_and_named() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let field = Field::new();
        let root = tempfile::tempdir().unwrap();
        let [app, link] = field.linked_dir();
        let roots = field.home.join("root's");
        dir_of(&roots, 0o755);
        std::fs::hard_link(field.victim.join("f"), app.join("hard")).unwrap();
        let why = |path: &Path| {
            let answer = shell.good(root.path(), "cv_see_path \"$1\"", &[key(path)], b"");
            PathObject::parse(&[key(path)], &answer).remove(key(path)).unwrap().map(|seen| seen.state)
        };
        let linked = why(&link.join("x")).unwrap_err().0;
        assert!(linked.contains("app.other is a link (owner root)"), "{}: {linked}", shell.name);
        assert!(linked.contains("which nobody may write to"), "{}: {linked}", shell.name);
        let step = why(&roots.join("x")).unwrap_err().0;
        assert!(step.contains("belongs to root and lies in a directory of nobody"), "{}: {step}", shell.name);
        let hard = why(&app.join("hard")).unwrap_err().0;
        assert!(hard.contains("has 2 names"), "{}: {hard}", shell.name);
        assert_eq!(why(&roots).unwrap().line(), "dir 755 root root", "what lies there itself is shown");
        assert!(why(&app.join("no/such/thing")).unwrap().is_absent());
        let refused = |script: &str, path: &Path| {
            let output = shell.run(root.path(), script, &[key(path)], b"x");
            assert!(!output.status.success(), "{}: {script}", shell.name);
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        for script in [
            "cv_put_path \"$1\" 644 root root",
            "cv_mkdir_path \"$1\" 755 root root",
            "cv_link_path \"$1\" x",
            "cv_remove_path \"$1\"",
            "cv_restore_path \"$1\" 'dir 755 root root'",
            "cv_line_path \"$1\"",
            "cv_content \"$1\" 100",
            "cv_apply_mount \"$1\" 'mount tmpfs tmpfs defaults -'",
            "cv_line_swap \"$1\"",
            "cv_hold \"$1\"",
        ] {
            refused(script, &link.join("x"));
            refused(script, &roots.join("x"));
        }
        // What is root's own and stands in a user's directory is left as it is.
        refused("cv_mkdir_path \"$1\" 700 nobody nogroup", &roots);
        std::fs::write(field.home.join("moved"), SECRET).unwrap();
        let keep = "CV_KEEP=yes; cv_own_path \"$1\" 644 nobody nogroup \"$(sha256sum <\"$1\" | cut -c1-64)\"";
        assert!(refused(keep, &field.home.join("moved")).contains("gets no other owner"), "{}", shell.name);
        // A checkout of root's in a home is a step to another owner.
        if shell.name != "busybox" {
            dir_of(&app.join("checkout"), 0o755);
            assert!(
                refused("cv_apply_git \"$1\" \"checkout x /srv/x clean\"", &app.join("new")).contains("user")
            );
        }
    }
}

/// The directories in which processes sleep for so many seconds.
fn sleepers(seconds: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|e| Some(e.ok()?.path()));
    let line = format!("sleep\0{seconds}\0");
    let sleeps = |p: &PathBuf| std::fs::read(p.join("cmdline")).is_ok_and(|words| words == line.as_bytes());
    processes.filter(sleeps).filter_map(|p| std::fs::read_link(p.join("cwd")).ok()).collect()
}

/// Who waits for a pipe in a user's directory does not keep the mount busy in which it lies, and ends with the wait.
#[test]
fn a_wait_for_a_pipe_holds_no_directory_and_leaves_no_process() {
    let tools = tempfile::tempdir().unwrap();
    for (n, shell) in shells(tools.path()).into_iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let field = Field::new();
        let at = field.home.display().to_string();
        std::fs::write(field.home.join("plain"), "x").unwrap();
        let pipe = field.home.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let seconds = format!("1.{}{n}", std::process::id());
        // The pipe takes the place of the file between the look and the open.
        let script = "cd \"$1\"; sh -c \"$CV_OPEN\" sh \"$2\" ./pipe - cat; echo $?";
        let seen = std::thread::scope(|scope| {
            let waits = scope.spawn(|| shell.run(root.path(), script, &[&at, &seconds], b""));
            let mut seen = Vec::new();
            while !waits.is_finished() {
                seen.extend(sleepers(&seconds));
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(String::from_utf8_lossy(&waits.join().unwrap().stdout), "137\n", "{}", shell.name);
            seen
        });
        assert!(!seen.is_empty() && seen.iter().all(|d| d == Path::new("/")), "{}: {seen:?}", shell.name);
        let seconds = format!("30.{}{n}", std::process::id());
        let many = "cd \"$1\"; CV_OPEN_SECONDS=$2 n=0; while [ $n -lt 40 ]; do cv_open ./plain cat || exit; n=$((n + 1)); done";
        assert_eq!(shell.good(root.path(), many, &[&at, &seconds], b""), "x".repeat(40), "{}", shell.name);
        // A signal takes its time.
        let mut left = usize::MAX;
        for _ in 0..100 {
            left = sleepers(&seconds).len();
            if left == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(left, 0, "{}", shell.name);
    }
}

#[test]
fn a_trusted_path_costs_no_process_more_however_many_there_are() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()).into_iter().filter(|s| s.name != "busybox") {
        let root = tempfile::tempdir().unwrap();
        let dir = safe_tempdir();
        let names: Vec<String> = (0..40)
            .map(|n| {
                let path = dir.path().join(format!("f{n}"));
                std::fs::write(&path, "x").unwrap();
                key(&path).to_owned()
            })
            .collect();
        let log = root.path().join("log");
        let counted = crate::testing::fake_tool(
            root.path(),
            "stat",
            &format!("#!/bin/sh\necho stat >>'{}'\nexec /usr/bin/stat \"$@\"\n", log.display()),
        );
        let count = |script: &str, args: &[&str]| {
            std::fs::write(&log, "").unwrap();
            shell.good(root.path(), &format!("PATH='{counted}':$PATH; {script}"), args, b"");
            std::fs::read_to_string(&log).unwrap().lines().count()
        };
        let args: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(count("cv_see_path \"$@\"", &args), 1, "{}", shell.name);
        // One look at what is above, then none.
        let many = "cv_is_safe \"${1%/*}\"; for f; do cv_own_path \"$f\" 600 root root x; cv_content \"$f\" 9 >/dev/null; \
                    cv_remove_path \"$f\"; done";
        assert_eq!(count(many, &args), 1, "{}", shell.name);
    }
}
