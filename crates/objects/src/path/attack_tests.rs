//! A user of the host who exchanges paths in his own directory while root works there.
//!
//! The attacker has root's own rights to rename and to link, so what `protected_symlinks` and `protected_hardlinks` would forbid a user
//! does not matter. `CONVERGE_ATTACKS` says how often each kind of work is done (in all shells together); few are done by default.

use crate::testing::{TestShell, safe_tempdir, shells};
use converge_resource::Digest;
use field::{AttackField, SECRET, THEIRS, attempts, dir_of, give, while_exchanging};
use rustix::fs::CWD;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(super) mod field;

/// A field, what is exchanged in it, and a place for records.
struct Ground {
    field: AttackField,
    pair: [PathBuf; 2],
    root: tempfile::TempDir,
}

impl Ground {
    fn new(pair: impl Fn(&AttackField) -> [PathBuf; 2]) -> Self {
        let (field, root) = (AttackField::new(safe_tempdir()), tempfile::tempdir().unwrap());
        std::fs::create_dir(root.path().join("blobs")).unwrap();
        std::fs::write(root.path().join("theirs"), THEIRS).unwrap();
        Self { pair: pair(&field), field, root }
    }

    /// The script so often, in one process. What it printed.
    fn work(&self, shell: &TestShell, times: usize, script: &str) -> String {
        let text =
            format!("n=0; while [ $n -lt {times} ]; do n=$((n + 1)); ({script}) 2>&1 </dev/null; done");
        let args = [key(&self.pair[0]), "nobody", Digest::of(THEIRS).as_str()].map(str::to_owned);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = shell.run(self.root.path(), &text, &args, b"");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Each shell does its share of the work while the pair is exchanged; then nothing of root's is otherwise, and no secret was said.
fn attack(name: &str, pair: impl Fn(&AttackField) -> [PathBuf; 2], script: &str) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // Attackers would take the time from each other.
    let _alone = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let tools = tempfile::tempdir().unwrap();
    let mut done = 0;
    let began = std::time::Instant::now();
    let shells: Vec<TestShell> = shells(tools.path()).into_iter().filter(|s| s.name != "ash").collect();
    let times = attempts().div_ceil(shells.len());
    for shell in &shells {
        let reply = Ground::new(&pair).work(shell, 1, script);
        assert!(reply.contains("did it"), "{name}, {}: the work fails even in peace\n{reply}", shell.name);
        let ground = Ground::new(&pair);
        let before = ground.field.roots();
        let reply = while_exchanging(&ground.pair, || ground.work(shell, times, script));
        assert_eq!(ground.field.roots(), before, "{name}, {}: root's own was changed\n{reply}", shell.name);
        let secret = Digest::of(SECRET);
        assert!(!reply.contains(secret.as_str()), "{name}, {}: root's digest was said\n{reply}", shell.name);
        assert!(!reply.contains("own secret"), "{name}, {}: root's secret was said\n{reply}", shell.name);
        assert!(
            !ground.root.path().join("blobs").join(secret.as_str()).exists(),
            "{name}, {}: root's secret was saved",
            shell.name
        );
        done += reply.matches("did it").count();
    }
    eprintln!(
        "{name}: {:?}, {times} attempts in each of {} shells, {done} went through",
        began.elapsed(),
        shells.len()
    );
}

const FILE: &str = "printf x | cv_put_path \"$1/new\" 644 \"$2\" nogroup && rm -f \"$1/new\" && echo did it";

#[test]
fn the_attack_would_be_noticed() {
    // The work as it was done once: it looks, then it goes, then it changes.
    let once = "[ -L \"$1\" ] || { cd \"$1\" && chown \"$2:\" . && chmod 750 .; }";
    let tools = tempfile::tempdir().unwrap();
    let shell = shells(tools.path()).remove(0);
    let ground = Ground::new(AttackField::linked_dir);
    let before = ground.field.roots();
    let observed = (0..60).any(|_| {
        while_exchanging(&ground.pair, || ground.work(&shell, 100, once));
        ground.field.roots() != before
    });
    assert!(observed, "an attacker who never wins shows nothing");
}

fn key(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nothing_is_written_through_a_directory_that_is_exchanged() {
    attack("file", AttackField::linked_dir, FILE);
    attack(
        "directory",
        AttackField::linked_dir,
        "cv_mkdir_path \"$1/new\" 750 \"$2\" nogroup && rmdir \"$1/new\" && echo did it",
    );
    attack(
        "link",
        AttackField::linked_dir,
        "cv_link_path \"$1/new\" /etc && rm -f \"$1/new\" && echo did it",
    );
    attack(
        "link of the user's",
        AttackField::linked_dir,
        "cv_link_path \"$1/new\" /etc \"$2\" nogroup && rm -f \"$1/new\" && echo did it",
    );
    attack(
        "absent",
        AttackField::linked_dir,
        "cv_remove_path \"$1/gone\"; cv_remove_path \"$1/gone2\" && echo did it",
    );
    attack("owner", AttackField::linked_dir, "cv_own_path \"$1/f\" 644 \"$2\" nogroup \"$3\" && echo did it");
}

/// A directory of the user's, and one of root's that lies in the home.
fn roots_dir(field: &AttackField) -> [PathBuf; 2] {
    let pair = [field.home.join("app"), field.home.join("app.other")];
    dir_of(&pair[0], 0o755);
    give(&pair[0]);
    field.fill(&pair[0]);
    std::fs::rename(&field.victim, &pair[1]).unwrap();
    pair
}

#[test]
fn no_directory_of_roots_is_given_away() {
    attack(
        "directory itself",
        AttackField::linked_dir,
        "cv_mkdir_path \"$1\" 750 \"$2\" nogroup && echo did it",
    );
    attack(
        "root's directory in the home",
        roots_dir,
        "cv_mkdir_path \"$1\" 750 \"$2\" nogroup && echo did it",
    );
    attack("below root's directory", roots_dir, FILE);
    let inner = |field: &AttackField| {
        let [app, _] = field.linked_dir();
        let other = app.join("d.other");
        symlink(field.victim.join("d"), &other).unwrap();
        [app.join("d"), other]
    };
    attack("directory in a directory", inner, "cv_mkdir_path \"$1\" 755 \"$2\" nogroup && echo did it");
}

/// The user's file of that name, and another one of that name: a link to root's, a hard link to it, or a pipe.
fn instead_of(field: &AttackField, name: &str, other: impl FnOnce(&Path, &Path)) -> [PathBuf; 2] {
    let [app, _] = field.linked_dir();
    let exchanged = app.join(format!("{name}.other"));
    other(&field.victim.join(name), &exchanged);
    [app.join(name), exchanged]
}

fn linked(of_root: &Path, other: &Path) {
    symlink(of_root, other).unwrap();
}

fn pipe(_: &Path, other: &Path) {
    rustix::fs::mknodat(CWD, other, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
}

const ITSELF: &str = "cv_see_path \"$1\" && cv_content \"$1\" 1000 && echo did it; cv_own_path \"$1\" 644 \"$2\" nogroup \"$3\"";

#[test]
fn nothing_of_roots_is_read() {
    let read = "cv_see_path \"$1/f\" | grep -F \"$3\" && echo did it; cv_see_path \"$1/f\"; cv_content \"$1/f\" 1000";
    attack("look", AttackField::linked_dir, read);
    attack("look at a link", |field| instead_of(field, "f", linked), ITSELF);
}

#[test]
fn no_other_name_of_roots_file_is_read() {
    let hard = |of_root: &Path, other: &Path| std::fs::hard_link(of_root, other).unwrap();
    attack("look at a hard link", |field| instead_of(field, "f", hard), ITSELF);
}

#[test]
fn no_pipe_is_waited_for() {
    attack("look at a FIFO", |field| instead_of(field, "f", pipe), &format!("CV_OPEN_SECONDS=1; {ITSELF}"));
}

#[test]
fn nothing_of_roots_is_saved() {
    let save = "cv_save_path \"$1\" \"file 600 root root 18 $(sha256sum </dev/null | cut -c1-64)\"; \
                cv_save_path \"$1\" \"file 644 $2 nogroup 15 $3\" && echo did it; rm -f \"$CV_ROOT/blobs/$3\"";
    attack("save", |field| instead_of(field, "f", linked), save);
    let tree = "cv_path_below \"$1/d\" 10 >\"$CV_ROOT/names\" && cat \"$CV_ROOT/names\" && while IFS= read -r name; do \
                cv_remove_path \"$name\" || exit; done <\"$CV_ROOT/names\" && cv_mkdir_path \"$1/d\" 755 \"$2\" nogroup && echo did it";
    attack("tree", AttackField::linked_dir, tree);
}

#[test]
fn keys_and_edits_stay_in_the_users_directory() {
    let key = "cv_mkdir_path \"$1\" 700 \"$2\" nogroup; cv_content \"$1/f\" 1000; \
               echo 'ssh-ed25519 AAAA' | cv_put_path \"$1/f\" 600 \"$2\" nogroup && echo did it";
    attack("authorized_key", AttackField::linked_dir, key);
    // The text that was read is the one that is written again.
    let edit = "text=$(cv_content \"$1/f\" 1000) && printf '%s\\n' \"$text\" && CV_KEEP=yes && \
                printf '%s\\n' \"$text\" | cv_put_path \"$1/f\" 640 \"$2\" nogroup && echo did it";
    attack("edit", AttackField::linked_dir, edit);
    attack("edit at a link", |field| instead_of(field, "f", linked), &edit.replace("$1/f", "$1"));
}

/// The steps in which a plan reads an archive on the host, and an item then unpacks it.
const ARCHIVE: &str = "sum=$(cv_hold \"$1\" && tar -tf \"$CV_HELD\" >&2 && sha256sum <\"$CV_HELD\") && CV_RUN=r && \
                       CV_ARCHIVE=$1 CV_ARCHIVE_SUM=${sum%% *} && rm -rf \"$CV_ROOT/runs\" && mkdir -p \"$CV_ROOT/runs/r\" && \
                       cv_put_path \"$1.new\" 644 \"$2\" nogroup \"$3\" && rm -f \"$1.new\" && echo did it";

#[test]
fn archives_are_those_of_the_user() {
    attack("archive", |field| instead_of(field, "a.tar", linked), ARCHIVE);
    let within = |field: &AttackField| AttackField::linked_dir(field);
    attack(
        "archive in a directory",
        within,
        &ARCHIVE.replace("\"$1", "\"$1/a.tar").replace("=$1 ", "=$1/a.tar "),
    );
    attack(
        "archive or FIFO",
        |field| instead_of(field, "a.tar", pipe),
        &format!("CV_OPEN_SECONDS=1; {ARCHIVE}"),
    );
}

#[test]
fn nothing_comes_back_elsewhere() {
    let back = "cp \"$CV_ROOT/theirs\" \"$CV_ROOT/blobs/$3\"; cv_restore_path \"$1/gone\" absent; \
                cv_restore_path \"$1/gone\" \"file 644 $2 nogroup 15 $3\"; cv_restore_path \"$1/new\" \"dir 755 $2 nogroup\"; \
                cv_restore_path \"$1/new\" 'link /etc'; cv_restore_path \"$1/new\" absent && echo did it";
    attack("rollback", AttackField::linked_dir, back);
}
