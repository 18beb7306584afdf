//! Records as they are read: their order, older formats, damage.

use super::*;

#[test]
fn runs_are_ordered_by_the_count_of_the_host_and_one_wrong_clock_drops_none() {
    // 2026-02-10, a year before, a year after, 2026-02-11.
    let ids = [
        "019c44d8-8400-7000-8000-000000000001",
        "01957d18-0400-7000-8000-000000000002",
        "01a40a28-1000-7000-8000-000000000003",
        "019c49fe-e000-7000-8000-000000000004",
    ];
    for host in hosts() {
        let path = host.file("a");
        for id in ids {
            let change = host.change(&path, host.file_line(id.as_bytes(), 0o600));
            host.one(id, &mut spec(vec![change]), &[id.as_bytes()]);
        }
        let retained: Vec<(String, Option<u64>)> =
            host.records().into_iter().map(|r| (r.id, r.seq)).collect();
        let wanted: Vec<(String, Option<u64>)> =
            ids.iter().zip(1..).map(|(id, seq)| ((*id).to_owned(), Some(seq))).collect();
        assert_eq!(retained, wanted);
        // The newest one goes back first, whatever its ID says.
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), ids[2], "{reply}");
        // Both clocks say that it is too old.
        let meta = host.root().join("runs").join(ids[1]).join("meta");
        let text = std::fs::read_to_string(&meta).unwrap();
        let opened = text.lines().find_map(|l| l.strip_prefix("opened\t")).unwrap();
        let old: i64 = opened.parse::<i64>().unwrap() - 31 * 86400;
        std::fs::write(&meta, text.replace(&format!("opened\t{opened}"), &format!("opened\t{old}"))).unwrap();
        let change = host.change(&path, host.file_line(b"last", 0o600));
        host.one("019c4f25-3c00-7000-8000-000000000005", &mut spec(vec![change]), &[b"last"]);
        let left: Vec<String> =
            host.records().into_iter().map(|r| r.id).filter(|id| ids.contains(&id.as_str())).collect();
        assert_eq!(left, [ids[0], ids[2], ids[3]]);
    }
}

#[test]
fn records_of_older_formats_come_before_all_that_are_numbered() {
    for host in hosts() {
        let path = host.file("a");
        for id in ["b-old", "a-old"] {
            let change = host.change(&path, host.file_line(id.as_bytes(), 0o600));
            host.one(id, &mut spec(vec![change]), &[id.as_bytes()]);
        }
        // As format 2 has written them: by their IDs.
        for id in ["a-old", "b-old"] {
            let meta = host.root().join("runs").join(id).join("meta");
            let text = std::fs::read_to_string(&meta).unwrap();
            let old: Vec<&str> = text.lines().filter(|l| !l.starts_with("seq\t")).collect();
            std::fs::write(&meta, format!("{}\n", old.join("\n")).replace("version\t3", "version\t2"))
                .unwrap();
        }
        std::fs::write(host.root().join("version"), "2\n").unwrap();
        assert_eq!(host.records().len(), 2);
        let change = host.change(&path, host.file_line(b"new", 0o600));
        host.one("0-new", &mut spec(vec![change]), &[b"new"]);
        let order: Vec<String> = host.records().into_iter().map(|r| r.id).collect();
        assert_eq!(order, ["a-old", "b-old", "0-new"]);
        assert_eq!(std::fs::read_to_string(host.root().join("version")).unwrap(), "6\n");
    }
}

#[test]
fn damage_to_one_run_hides_no_other() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let to = |p: &PathBuf, bytes: &[u8]| host.change(p, host.file_line(bytes, 0o600));
        host.one("001", &mut spec(vec![to(&a, b"1")]), &[b"1"]);
        host.one("002", &mut spec(vec![to(&b, b"2")]), &[b"2"]);
        let garble = |file: &str, with: &str| {
            let file = host.root().join("runs/001").join(file);
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{with}{text}")).unwrap();
        };
        garble("meta", "\u{1}\u{2}garbage\n");
        garble("journal", "run\tevil\nown\tx\nbegin\t7\nrubbish\n");
        let _old = std::fs::remove_file(host.root().join("owned"));
        let fifo = Command::new("mkfifo").arg(host.root().join("owned")).status().unwrap();
        assert!(fifo.success());
        std::fs::remove_file(host.root().join("version")).unwrap();
        assert!(Command::new("mkfifo").arg(host.root().join("version")).status().unwrap().success());
        let read = host.all_records();
        let ids: Vec<&str> = read.runs.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids, ["001", "002"]);
        assert_eq!(read.runs[0].changes.len(), 1, "what is whole is read");
        assert!(
            read.broken.iter().any(|b| b.contains("run 001 is damaged: 5 of its lines")),
            "{:?}",
            read.broken
        );
        assert!(read.broken.iter().any(|b| b.contains("/owned is no regular file")), "{:?}", read.broken);
        let owned = parse_owned(&String::from_utf8_lossy(&host.sh(&owned_script()).stdout));
        assert!(owned.broken.iter().any(|b| b.contains("/version is no regular file")), "{:?}", owned.broken);
        // Work goes on, and both go back.
        host.one("003", &mut spec(vec![to(&b, b"3")]), &[b"3"]);
        for (run, left) in [("003", "2"), ("002", "")] {
            let (status, reply) = host.undo(&[]);
            assert!(status == Some(0) && reply.contains(&format!("undoing run {run}")), "{reply}");
            assert_eq!(std::fs::read_to_string(&b).unwrap_or_default(), left);
        }
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(!a.exists(), "{reply}");
    }
}

#[test]
fn what_is_no_file_where_a_record_should_be_is_refused_and_never_waited_for() {
    for host in hosts() {
        let open = |id: &str| host.sh(&open_script(&RunMeta { id: id.to_owned(), ..RunMeta::default() }));
        assert!(open("r1").status.success());
        let fifo = |path: &str| {
            let path = host.root().join(path);
            drop(std::fs::remove_file(&path));
            let made = Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
        };
        fifo("lock");
        let refused = open("r2");
        assert_eq!(refused.status.code(), Some(UNFIT));
        let reply = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(reply.contains("lock is no regular file"), "{:?}: {reply}", host.argv);
        std::fs::remove_file(host.root().join("lock")).unwrap();
        // The number and the project of such a run are not known: it is none.
        std::fs::create_dir_all(host.root().join("runs/r3")).unwrap();
        std::fs::write(host.root().join("runs/r3/journal"), "begin\t1\tpath\t/x\tabsent\tdir\tr/x\t-\n")
            .unwrap();
        fifo("runs/r3/meta");
        // Zeros are no journal.
        std::fs::create_dir_all(host.root().join("runs/r0")).unwrap();
        std::fs::write(host.root().join("runs/r0/journal"), [0; 5000]).unwrap();
        let reply = String::from_utf8(host.sh("cv_broken").stdout).unwrap();
        let broken: Vec<String> =
            reply.lines().filter_map(|l| converge_resource::decode_field(l.split_once('\t')?.1)).collect();
        let [meta, journal] = broken.as_slice() else { panic!("{:?}: {broken:?}", host.argv) };
        assert!(meta.ends_with("runs/r3/meta is no regular file: it is not considered"), "{meta}");
        assert!(journal.contains("runs/r0/journal holds no text: it is damaged"), "{journal}");
        let order = host.sh("cv_order");
        assert!(!String::from_utf8_lossy(&order.stdout).contains("r3"), "{:?}", host.argv);
        assert!(open("r4").status.success());
    }
}

/// A saved content that is not what its name says: a content that comes again is saved anew, and is never taken from there.
#[test]
fn a_damaged_content_is_saved_anew_and_never_brought_back() {
    for host in hosts() {
        let path = host.file("a");
        std::fs::write(&path, "old").unwrap();
        let garbage = |bytes: &[u8], with: &str| {
            let blobs = host.root().join("blobs");
            std::fs::create_dir_all(&blobs).unwrap();
            std::fs::write(blobs.join(Digest::of(bytes).as_str()), with).unwrap();
        };
        // A damaged blob is no copy of the old content, nor of the new one.
        garbage(b"old", "");
        garbage(b"new", "garbage");
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let run = host.one("r1", &mut spec(vec![change]), &[b"new"]);
        assert_eq!(run.reading, Reading::Done, "{:?}: {}", host.argv, run.output);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, std::fs::read(&path).unwrap().as_slice()), (Some(0), &b"old"[..]), "{reply}");
        // Damaged after it was saved: the file stays as it is, and what is wrong is named.
        let change = host.change(&path, host.file_line(b"new", 0o600));
        assert_eq!(host.one("r2", &mut spec(vec![change]), &[b"new"]).reading, Reading::Done);
        garbage(b"old", "garbage");
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, std::fs::read(&path).unwrap().as_slice()), (Some(1), &b"new"[..]), "{reply}");
        assert!(reply.contains("is damaged: it is not used"), "{:?}: {reply}", host.argv);
    }
}
