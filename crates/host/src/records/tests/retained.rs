//! Which runs a host keeps.

use super::*;
use converge_ledger::ProjectName;

#[test]
fn old_runs_and_content_that_nothing_names_are_dropped() {
    for host in hosts() {
        let path = host.file("a");
        for n in 0..13 {
            let change = host.change(&path, host.file_line(format!("{n}").as_bytes(), 0o600));
            host.one(&format!("r{n:02}"), &mut spec(vec![change]), &[format!("{n}").as_bytes()]);
        }
        let ids: Vec<String> = host.records().into_iter().map(|r| r.id).collect();
        assert_eq!(ids.len(), 10);
        assert_eq!(ids[0], "r03");
        let blobs = std::fs::read_dir(host.root().join("blobs")).unwrap().count();
        assert_eq!(blobs, 10, "each of ten runs saved one former content");
        let empty = host.run("r99", &[], "true");
        assert!(empty.status.success());
        assert_eq!(host.records().len(), 10, "a run without changes is not recorded");
    }
}

/// A run of a project that writes its own name into the file, on a host that keeps so many runs of each.
fn run_of(host: &FakeHost, id: &str, playbook: &str, most: &str) {
    let scope = ProjectName { playbook: playbook.to_owned(), inventory: "i".to_owned() };
    let meta = RunMeta { id: id.to_owned(), scope, ..RunMeta::default() };
    let mut item = spec(vec![host.change(&host.file("a"), host.file_line(id.as_bytes(), 0o600))]);
    item.run = id.to_owned();
    let item = host.item(&item, &[id.as_bytes()]);
    let keep = format!("export CV_KEEP_RUNS={most}");
    let (open, base, close) = (open_script(&meta), host.base(id), close_script(id, RunEnd::Finished));
    // Its text is too long for an argument.
    let text = host.dir.path().join("undo-text");
    std::fs::write(&text, undo_text()).unwrap();
    let undo = format!("cp '{}' \"$CV_ROOT/undo.sh\"", text.display());
    let text = format!("{keep}\n{open}\n{undo}\n{base}\n{item}\n{close}");
    assert!(host.sh(&text).status.success());
}

fn ids(host: &FakeHost) -> Vec<String> {
    host.records().into_iter().map(|r| r.id).collect()
}

/// A run that was rolled back pushes none in force out, and goes together with its rollback.
#[test]
fn runs_in_force_stay_before_those_that_were_rolled_back() {
    for host in hosts() {
        run_of(&host, "p1", "p", "2");
        for n in 2..=4 {
            run_of(&host, &format!("p{n}"), "p", "2");
            assert_eq!(host.undo(&[&format!("p{n}")]).0, Some(0));
        }
        run_of(&host, "p5", "p", "3");
        let stored = ids(&host);
        assert_eq!(
            (stored.len(), &stored[0][..], &stored[1][..], &stored[3][..]),
            (4, "p1", "p4", "p5"),
            "{stored:?}"
        );
        run_of(&host, "p6", "p", "2");
        assert_eq!(ids(&host), ["p5", "p6"]);
    }
}

#[test]
fn each_project_keeps_its_own_runs_and_a_hundred_stay_in_all() {
    for host in hosts() {
        let run = |id: &str, playbook: &str, most: &str| run_of(&host, id, playbook, most);
        let ids = || ids(&host);
        run("p1", "quiet", "2");
        for n in 1..=4 {
            run(&format!("q{n}"), "busy", "2");
        }
        assert_eq!(ids(), ["p1", "q3", "q4"]);
        // The record of an undo belongs to the project of the run that it undid.
        assert_eq!(host.undo(&["q4"]).0, Some(0));
        run("q5", "busy", "2");
        let left = ids();
        assert_eq!((left.len(), left[0].as_str(), left[2].as_str()), (3, "p1", "q5"));
        // Ten times as many in all.
        for n in 0..12 {
            run(&format!("s{n:02}"), &format!("other{n}"), "1");
        }
        assert_eq!(ids(), (2..12).map(|n| format!("s{n:02}")).collect::<Vec<_>>());
    }
}
