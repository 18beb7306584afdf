//! The order of the runs on a host, whatever their records hold.

use super::*;

/// A meta may hold these: numbers, what looks like one, and what a power cut leaves. The name of a run with a colon is none.
const PARTS: [&[u8]; 16] = [
    b"",
    b"time\tx\n",
    b"seq\t5\n",
    b"seq\t12\tmore\n",
    b"seq\t007\n",
    b"seq\t123456789012345\n",
    b"seq\t1234567890123456\n",
    b"seq\t6x\n",
    b"seq\t\n",
    b"seq\t8\r\n",
    b" seq\t3\n",
    b"0-0/meta:seq\t99\n",
    b"\xff\xfe\n",
    b"\0\0\0",
    b"seq\t4\0\n",
    b"seq\t9",
];

/// The number that a meta tells: of its first line that is one.
fn number(meta: &[u8]) -> u64 {
    let numbers = meta.split(|b| *b == b'\n').filter_map(|line| {
        let mut fields = line.split(|b| *b == b'\t');
        (fields.next() == Some(b"seq")).then_some(())?;
        let digits = std::str::from_utf8(fields.next()?).ok()?;
        let is_one = (1..16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        is_one.then(|| digits.parse().unwrap())
    });
    numbers.into_iter().next().unwrap_or(0)
}

#[test]
fn runs_are_ordered_by_their_numbers_whatever_their_records_hold() {
    for host in hosts() {
        let runs = host.root().join("runs");
        let mut expected = Vec::new();
        for (a, first) in PARTS.iter().enumerate() {
            for (b, second) in PARTS.iter().enumerate() {
                let (name, meta) = (format!("{a}-{b}"), [*first, *second].concat());
                std::fs::create_dir_all(runs.join(&name)).unwrap();
                std::fs::write(runs.join(&name).join("meta"), &meta).unwrap();
                expected.push((number(&meta), name));
            }
        }
        let with = |name: &str, file: &str, text: &str| {
            std::fs::create_dir_all(runs.join(name)).unwrap();
            std::fs::write(runs.join(name).join(file), text).unwrap();
        };
        // A name that looks like an option, and a journal alone.
        with("-v", "meta", "seq\t7\n");
        with("only", "journal", "seq\t7\n");
        expected.extend([(7, "-v".to_owned()), (0, "only".to_owned())]);
        // None of these is a run.
        for name in [".hidden", "a:b", "a b", "a\nb"] {
            with(name, "meta", "seq\t1\n");
        }
        std::fs::create_dir_all(runs.join("folder/meta")).unwrap();
        with("folder", "journal", "");
        symlink(runs.join("only/journal"), runs.join("folder/link")).unwrap();
        with("linked", "journal", "");
        symlink("nothing", runs.join("linked/meta")).unwrap();
        expected.sort();
        let reply = host.sh("cv_order");
        let order: Vec<String> = String::from_utf8_lossy(&reply.stdout).lines().map(str::to_owned).collect();
        let expected: Vec<String> = expected.into_iter().map(|(_, name)| name).collect();
        assert_eq!(order, expected, "{:?}: {}", host.argv, String::from_utf8_lossy(&reply.stderr));
    }
}

#[test]
fn the_order_of_many_runs_takes_as_many_programs_as_that_of_one() {
    for host in hosts() {
        let programs = |last: u32| {
            for run in 1..=last {
                let folder = host.root().join(format!("runs/r{run}"));
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(folder.join("meta"), format!("seq\t{run}\n")).unwrap();
            }
            let noted = |name: &&str| format!("{name}() {{ echo {name} >&2; command {name} \"$@\"; }}\n");
            let programs = ["awk", "cat", "cut", "find", "grep", "sed", "sort", "tr", "xargs"];
            let noted: String = programs.iter().map(noted).collect();
            let reply = host.sh(&format!("{noted}cv_order"));
            assert_eq!(String::from_utf8_lossy(&reply.stdout).lines().count(), last as usize);
            let mut programs: Vec<String> =
                String::from_utf8_lossy(&reply.stderr).lines().map(str::to_owned).collect();
            programs.sort();
            programs
        };
        let one = programs(1);
        assert!(!one.is_empty());
        assert_eq!(programs(100), one, "{:?}", host.argv);
    }
}
