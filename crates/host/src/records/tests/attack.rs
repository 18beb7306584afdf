//! A user who exchanges a directory of his for a link to root's, while an item changes what is in it and `undo.sh` takes the change back.
//!
//! `CONVERGE_ATTACKS` says how often the objects are attacked, in all shells together; an item and `undo.sh` are much more work, and are
//! attacked a quarter as often.

use super::*;
use field::{AttackField, SECRET, THEIRS, attempts, while_exchanging};
use std::fmt::Write as _;
use std::os::fd::AsRawFd;

#[path = "../../../../objects/src/path/attack_tests/field.rs"]
mod field;

/// The machine under attack: the user's directory as it was and as a run has left it, and the records of that run.
struct AttackedMachine {
    host: FakeHost,
    field: AttackField,
    pair: [PathBuf; 2],
    before: String,
    /// Leads to the user's directory, whatever its name is at the moment.
    real: std::fs::File,
    item: ItemSpec,
}

const NEW: &[u8] = b"of the run\n";

impl AttackedMachine {
    fn new(host: FakeHost) -> Self {
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
        let keep = tempfile::tempdir_in(home).unwrap();
        std::fs::set_permissions(keep.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let field = AttackField::new(keep);
        let pair = field.linked_dir();
        let real = std::fs::File::open(&pair[0]).unwrap();
        let state = |line: &str| State::from_line(line);
        let file = |bytes: &[u8]| {
            state(&format!("file 644 nobody nogroup {} {}", bytes.len(), Digest::of(bytes).as_str()))
        };
        let change = |name: &str, to: State| host.change(&pair[0].join(name), to);
        let changes = vec![
            change("f", file(NEW)),
            change("gone", state("absent")),
            change("new", file(NEW)),
            change("made", state("dir 755 nobody nogroup")),
            change("link", state("link /etc")),
        ];
        let item = ItemSpec { run: "r1".to_owned(), ..spec(changes) };
        let before = field.roots();
        Self { before, real, item, field, pair, host }
    }

    /// The user's directory by a name that is never exchanged, and the place where its states are kept.
    fn names(&self) -> (String, PathBuf) {
        let real = format!("/proc/{}/fd/{}", std::process::id(), self.real.as_raw_fd());
        (real, self.host.dir.path().join("kept"))
    }

    /// Keeps the user's directory as it is, under this name.
    fn keep(&self, name: &str) {
        let (real, retained) = self.names();
        std::fs::create_dir_all(&retained).unwrap();
        let text = format!("cp -a {real}/. {}", retained.join(name).display());
        assert!(Command::new("sh").args(["-c", &text]).status().unwrap().success());
    }

    /// Makes the directory as it was kept, from inside, so that it does not matter how it is called at the moment.
    fn again(&self, name: &str) -> String {
        let (real, retained) = self.names();
        format!(
            "(cd -P {real}/ && rm -rf ./* && cp -a {}/. .) || exit 9; chown nobody:nogroup {real}/",
            retained.join(name).display()
        )
    }

    /// Exchanges while this is done so often, and wants everything of root's as it was. How often it went through.
    fn attack(&self, times: usize, text: &str) -> usize {
        let secret = Digest::of(SECRET);
        let saved = format!("[ ! -e \"$CV_ROOT/blobs/{secret}\" ] || echo \"root's own secret was saved\"");
        let script = format!(
            "n=0; while [ $n -lt {times} ]; do n=$((n + 1)); ({text}\n) 2>&1 </dev/null; {saved}; done"
        );
        let peace = self.host.sh(&format!("({text}\n) 2>&1 </dev/null"));
        let peace = String::from_utf8_lossy(&peace.stdout).into_owned();
        assert!(peace.contains("did it"), "{:?}: the work fails even in peace\n{peace}", self.host.argv);
        let output = while_exchanging(&self.pair, || self.host.sh(&script));
        let reply = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{reply}{}", String::from_utf8_lossy(&output.stderr));
        let shell = &self.host.argv;
        assert_eq!(self.field.roots(), self.before, "{shell:?}: root's own was changed\n{reply}");
        assert!(!reply.contains(secret.as_str()), "{shell:?}: root's digest was said\n{reply}");
        assert!(!reply.contains("own secret"), "{shell:?}: root's secret was said\n{reply}");
        reply.matches("did it").count()
    }
}

/// One attack in each shell; `ready` does what comes before it in peace, `text` is what is done under attack.
fn attacks(name: &str, ready: impl Fn(&AttackedMachine), text: impl Fn(&AttackedMachine) -> String) {
    let hosts: Vec<FakeHost> = hosts().into_iter().filter(|host| !host.is_ash_with_tools()).collect();
    let times = attempts().div_ceil(4 * hosts.len());
    let (begun, shells, mut done) = (std::time::Instant::now(), hosts.len(), 0);
    for host in hosts {
        let attacked = AttackedMachine::new(host);
        attacked.keep("before");
        ready(&attacked);
        done += attacked.attack(times, &text(&attacked));
    }
    eprintln!(
        "{name}: {:?}, {times} attempts in each of {shells} shells, {done} went through",
        begun.elapsed()
    );
}

impl FakeHost {
    /// The tools are the same as dash's, and busybox's own ash comes by itself.
    fn is_ash_with_tools(&self) -> bool {
        self.path.is_none() && self.argv[0].ends_with("ash") && self.argv[0].is_absolute()
    }
}

#[test]
fn an_item_changes_nothing_of_roots() {
    attacks(
        "item",
        |_| {},
        |attacked| {
            let mut text = attacked.again("before");
            // The records of one attempt only: each is the first run of a host.
            let meta = RunMeta { id: "r1".to_owned(), ..RunMeta::default() };
            writeln!(text, "; rm -rf \"$CV_ROOT\"; {} || exit 8", open_script(&meta)).unwrap();
            let item = attacked.host.item(&attacked.item, &[NEW]);
            text + &item.replace("echo \"status $?\"", "[ $? -ne 0 ] || echo did it")
        },
    );
}

#[test]
fn undo_sh_changes_nothing_of_roots() {
    attacks(
        "undo.sh",
        |attacked| {
            let output = attacked.host.run("r1", &[], &attacked.host.item(&attacked.item, &[NEW]));
            let reply = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(reply.lines().filter(|l| l.starts_with("status")).all(|l| l == "status 0"), "{reply}");
            attacked.keep("after");
            let retained = attacked.host.dir.path().join("kept/records");
            let copied = Command::new("cp").arg("-a").arg(attacked.host.root()).arg(&retained).status();
            assert!(copied.unwrap().success());
            std::fs::write(attacked.host.dir.path().join("undo.sh"), undo_text()).unwrap();
            assert_eq!(std::fs::read(attacked.pair[0].join("f")).unwrap(), NEW);
            assert_eq!(std::fs::read(attacked.field.home.join("app.other/f")).unwrap(), SECRET);
            assert!(THEIRS != NEW);
        },
        |attacked| {
            let dir = attacked.host.dir.path().display().to_string();
            let shell: Vec<String> = attacked.host.argv.iter().map(|w| w.display().to_string()).collect();
            format!(
                "{}; rm -rf \"$CV_ROOT\"; cp -a {dir}/kept/records \"$CV_ROOT\"; {} {dir}/undo.sh --force r1 && echo did it",
                attacked.again("after"),
                shell.join(" ")
            )
        },
    );
}
