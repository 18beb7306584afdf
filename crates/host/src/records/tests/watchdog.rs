//! A controller that has fallen silent: its session is ended, and its lock is free.

use super::*;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::time::{Duration, Instant};

impl FakeHost {
    /// A session of its own, in which a run is open and does this.
    fn session(&self, id: &str, body: &str) -> Child {
        let meta = RunMeta { id: id.to_owned(), ..RunMeta::default() };
        let library = self.dir.path().join("library");
        let open = open_script(&meta);
        // As in the loop of a real session, what is to come is read from descriptor 3.
        let text = format!(
            "exec 3<&0 </dev/null\n. '{}'\n{open} || exit $?\n: >\"$CV_ROOT/opened\"\n{body}",
            library.display()
        );
        let child = self
            .command()
            .arg("-c")
            .arg(text)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        self.until("it is open", || self.root().join("opened").exists());
        child
    }

    /// As the second session of the same controller does it.
    fn beside(&self, script: &str) {
        let output = self.command().arg("-c").arg(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < end, "{:?}: {what} does not come true", self.argv);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn may_open(&self, id: &str) -> Output {
        self.sh(&open_script(&RunMeta { id: id.to_owned(), ..RunMeta::default() }))
    }
}

#[test]
fn after_silence_the_present_step_ends_the_lock_is_free_and_the_controller_is_fenced_off() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let done = host.file("done");
                let mut session =
                    host.session("r1", &format!("(sleep 6; : >'{}')\nread -r line <&3", done.display()));
                host.beside(&watch_script("r1", "t", 2));
                host.until("it is fenced", || host.root().join("runs/r1/fenced").exists());
                host.until("nothing else begins", || host.root().join("runs/r1/stop").exists());
                assert!(!done.exists(), "the test is too slow to show anything");
                assert_eq!(host.may_open("r2").status.code(), Some(LOCKED), "its step is still at work");
                host.until("its step ends", || done.exists());
                host.until("the session ends", || session.try_wait().unwrap().is_some());
                assert!(host.may_open("r2").status.success(), "the lock is free");
            });
        }
    });
}

#[test]
fn a_session_that_does_nothing_is_ended_and_its_run_cannot_go_on() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let mut session = host.session("r1", "read -r line <&3; echo more >\"$CV_ROOT/more\"");
                host.beside(&watch_script("r1", "t", 2));
                host.until("the session ends", || session.try_wait().unwrap().is_some());
                assert!(!host.root().join("more").exists());
                let again = host.may_open("r1");
                assert_eq!(again.status.code(), Some(UNFIT));
                assert!(String::from_utf8_lossy(&again.stderr).contains("heard nothing of the controller"));
                assert!(host.may_open("r2").status.success(), "the lock is free");
            });
        }
    });
}

#[test]
fn a_step_whose_input_is_cut_short_gets_its_end() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let got = host.file("got");
                let body = format!("head -c 10 <&3 | {{ cat >'{}'; }}\nread -r line <&3", got.display());
                let mut session = host.session("r1", &body);
                host.beside(&watch_script("r1", "t", 2));
                host.until("the session ends", || session.try_wait().unwrap().is_some());
                let next = host.may_open("r2");
                assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
            });
        }
    });
}

#[test]
fn signs_of_life_an_armed_switch_and_the_end_of_the_run_keep_it_quiet() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let end = host.file("end");
                let body = format!(
                    "until [ -e '{}' ]; do sleep 0.1; done\n{}",
                    end.display(),
                    close_script("r1", RunEnd::Finished)
                );
                let mut session = host.session("r1", &body);
                // Longer than a busy machine keeps a sign of life back.
                let limit = 14;
                host.beside(&watch_script("r1", "t", limit));
                for number in 1..=limit + 2 {
                    std::thread::sleep(Duration::from_secs(1));
                    host.beside(&beat_script("r1", "t", number));
                }
                std::fs::create_dir(host.root().join("switch")).unwrap();
                std::thread::sleep(Duration::from_secs(limit + 4));
                std::fs::remove_dir(host.root().join("switch")).unwrap();
                assert!(session.try_wait().unwrap().is_none(), "{:?}", host.argv);
                assert!(!host.root().join("runs/r1/fenced").exists());
                std::fs::write(&end, "").unwrap();
                assert!(session.wait().unwrap().success());
                // Nothing is left of it, and nobody is ended for it.
                std::thread::sleep(Duration::from_secs(3));
                assert!(!host.root().join("runs/r1").exists());
            });
        }
    });
}

#[test]
fn a_sign_of_life_that_comes_late_leaves_nothing() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let mut session = host.session("r1", ": >\"$CV_ROOT/runs/r1/journal\"\nread -r line <&3");
                host.beside(&watch_script("r1", "t", 60));
                host.beside(&beat_script("r1", "t", 1));
                let alive = host.root().join("runs/r1/alive");
                assert!(alive.join("beat").exists());
                session.kill().unwrap();
                session.wait().unwrap();
                host.until("the lock is free", || host.may_open("r2").status.success());
                assert!(!alive.exists(), "{:?}", host.argv);
                // The network delivers it when another run has ended this one.
                assert!(!host.sh(&beat_script("r1", "t", 2)).status.success());
                assert!(host.sh(&watch_script("r1", "t", 60)).status.success());
                assert!(!alive.exists(), "{:?}", host.argv);
            });
        }
    });
}
