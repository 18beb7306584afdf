//! Records that are larger than any run makes them: their size tells it, and nothing of them is read.

use super::*;
use std::time::{Duration, Instant};

/// A file of so many bytes, all of them holes.
fn hole(path: &Path, bytes: u64) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn a_record_that_is_too_large_is_named_and_all_others_are_read() {
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                let (a, b) = (host.file("a"), host.file("b"));
                for (run, path) in [("r1", &a), ("r2", &b)] {
                    let change = host.change(path, host.file_line(run.as_bytes(), 0o600));
                    host.one(run, &mut spec(vec![change]), &[run.as_bytes()]);
                }
                let runs = host.root().join("runs");
                hole(&runs.join("huge/meta"), 3 << 30);
                hole(&runs.join("r1/journal"), 3 << 30);
                hole(&runs.join("zeros/meta"), 4 << 20);
                std::fs::write(runs.join("zeros/journal"), "").unwrap();
                let begun = Instant::now();
                let records = host.all_records();
                assert!(begun.elapsed() < Duration::from_secs(60), "{:?}: {:?}", host.argv, begun.elapsed());
                let reply = records.broken.join("\n");
                for what in
                    ["huge/meta is larger than", "r1/journal is larger than", "zeros/meta holds no text"]
                {
                    assert!(reply.contains(what), "{:?}: {reply}", host.argv);
                }
                assert!(records.runs.iter().any(|run| run.id == "r2" && run.changes.len() == 1));
                let (status, reply) = host.undo(&[]);
                assert_eq!(status, Some(0), "{reply}");
                assert!(reply.contains("undoing run r2") && reply.contains("huge/meta is larger"), "{reply}");
                assert!(a.exists() && !b.exists(), "{reply}");
                let (status, reply) = host.undo(&["r1"]);
                assert_eq!(status, Some(64), "{reply}");
            });
        }
    });
}

impl FakeHost {
    /// A run that has made a file: its journal, and the text of that.
    fn one_run(&self) -> (PathBuf, String) {
        let change = self.change(&self.file("a"), self.file_line(b"1", 0o600));
        self.one("r1", &mut spec(vec![change]), &[b"1"]);
        let journal = self.root().join("runs/r1/journal");
        let text = std::fs::read_to_string(&journal).unwrap();
        (journal, text)
    }
}

/// A journal that fills an answer by itself is named by the host, before anything of it is sent.
#[test]
fn a_journal_that_fills_an_answer_is_named_with_the_remedy() {
    for host in hosts() {
        let (journal, text) = host.one_run();
        let forged = "done\t1\tfile 644 root root 1 0123456789abcdef\n".repeat(200_000);
        std::fs::write(&journal, format!("{text}{forged}")).unwrap();
        for script in [list_script(), owned_script()] {
            let output = host.sh(&script);
            let reply = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{reply}");
            assert!(
                reply.contains("runs/r1/journal has 200003 lines") && reply.contains("remove "),
                "{reply}"
            );
            assert!(output.stdout.len() < 1000);
        }
    }
}

/// Middling journals that fill an answer together are named too: the largest, as many as have to go.
#[test]
fn journals_that_fill_an_answer_together_are_named_with_the_remedy() {
    for host in hosts() {
        let (_, text) = host.one_run();
        let line = "done\t1\tfile 644 root root 1 0123456789abcdef\n";
        let runs = host.root().join("runs");
        for n in 2..6_usize {
            let run = runs.join(format!("r{n}"));
            std::fs::create_dir(&run).unwrap();
            std::fs::write(run.join("meta"), format!("version\t4\nid\tr{n}\nseq\t{n}\n")).unwrap();
            std::fs::write(run.join("journal"), format!("{text}{}", line.repeat(40_000 + 5_000 * n)))
                .unwrap();
        }
        for script in [list_script(), owned_script()] {
            let output = host.sh(&script);
            let reply = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{reply}");
            let named = "the largest are r5 (2.8 MiB). To go on without these, move their folders away";
            assert!(reply.contains("9.9 MiB together, ") && reply.contains(named), "{reply}");
        }
        std::fs::rename(runs.join("r5"), host.root().join("r5")).unwrap();
        assert!(host.sh(&list_script()).status.success());
    }
}

#[test]
fn zeros_in_a_record_are_no_end_of_a_line() {
    for host in hosts() {
        let (journal, text) = host.one_run();
        std::fs::write(&journal, format!("{text}begin\t9\tpath\t/x\tabsent\t{}", "\0".repeat(4096))).unwrap();
        assert_eq!(host.records()[0].changes.len(), 1, "what was cut short is no change: {:?}", host.argv);
    }
}
