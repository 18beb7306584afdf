//! The real directories of changes behind links: recorded, and compared before a change is taken back.

use super::*;

/// A directory below which only root can place links, with `A`, `B` and the link `l` to `A`, and a file `x` in each.
fn linked() -> tempfile::TempDir {
    let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
    let dir = tempfile::tempdir_in(home).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["A", "B"] {
        let name = dir.path().join(name);
        std::fs::create_dir(&name).unwrap();
        std::fs::write(name.join("x"), "old").unwrap();
    }
    lead(dir.path(), "A");
    dir
}

fn lead(dir: &Path, to: &str) {
    let link = dir.join("l");
    let _absent = std::fs::remove_file(&link);
    symlink(dir.join(to), link).unwrap();
}

fn read(dir: &Path) -> [String; 2] {
    ["A/x", "B/x"].map(|name| std::fs::read_to_string(dir.join(name)).unwrap())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A run has changed `l/x` in `A`.
fn changed(host: &Host, dir: &Path) -> Change {
    let change = host.change(&dir.join("l/x"), host.file_line(b"new", 0o644));
    let run = host.one("r1", &mut spec(vec![change.clone()]), &[b"new"]);
    assert_eq!(run.reading, Reading::Done, "{:?}", run.output);
    change
}

#[test]
fn a_change_behind_a_link_is_recorded_with_its_directory_and_any_other_without() {
    for host in hosts() {
        let dir = linked();
        changed(&host, dir.path());
        let plain = host.change(&dir.path().join("A/x"), host.file_line(b"more", 0o644));
        host.one("r2", &mut spec(vec![plain]), &[b"more"]);
        let dirs: Vec<Option<String>> = host
            .records()
            .iter()
            .flat_map(|run| &run.changes)
            .map(|change| change.real_dir.clone())
            .collect();
        assert_eq!(dirs, [Some(text(&dir.path().join("A"))), None], "{:?}", host.argv);
    }
}

/// Its directory is not there yet when the record is written.
#[test]
fn an_object_in_a_directory_that_the_same_item_makes_is_recorded_with_it() {
    for host in hosts() {
        let dir = linked();
        let made = dir.path().join("l/d");
        let changes = [
            host.change(&made, State::from_line("dir 755 root root")),
            host.change(&made.join("y"), host.file_line(b"new", 0o644)),
            host.change(&made.join("z"), host.file_line(b"new", 0o644)),
        ];
        let run = host.one("r1", &mut spec(changes.into()), &[b"new"]);
        assert_eq!(run.reading, Reading::Done, "{:?}", run.output);
        let run = host.records().remove(0);
        let dirs: Vec<Option<&str>> = run.changes.iter().map(|change| change.real_dir.as_deref()).collect();
        let (a, d) = (text(&dir.path().join("A")), text(&dir.path().join("A/d")));
        assert_eq!(dirs, [Some(a.as_str()), Some(&d), Some(&d)], "{:?}", host.argv);
    }
}

#[test]
fn an_item_whose_path_leads_elsewhere_is_refused_before_its_first_step() {
    for host in hosts() {
        let dir = linked();
        let Change { object, from, to } = changed(&host, dir.path());
        // The file at the other place looks the same.
        std::fs::copy(dir.path().join("A/x"), dir.path().join("B/x")).unwrap();
        lead(dir.path(), "B");
        let made_in = text(&dir.path().join("A"));
        let back = Change { object: object.clone(), from: to, to: from };
        let setting = ("CV_MADE_AT".to_owned(), format!("path\t{}\t{made_in}", object.key));
        let item = ItemSpec { settings: vec![setting], ..spec(vec![back]) };
        let run = host.one("r2", &mut item.clone(), &[b"old"]);
        let now = Some(text(&dir.path().join("B")));
        assert_eq!(run.reading, Reading::Elsewhere(vec![OtherPlace { object, made_in, now }]));
        assert_eq!(read(dir.path()), ["new", "new"], "{:?}", host.argv);
        lead(dir.path(), "A");
        assert_eq!(host.one("r3", &mut item.clone(), &[b"old"]).reading, Reading::Done, "{:?}", host.argv);
        assert_eq!(read(dir.path()), ["old", "new"], "{:?}", host.argv);
    }
}

#[test]
fn undo_writes_nothing_where_the_link_leads_since() {
    for host in hosts() {
        let dir = linked();
        changed(&host, dir.path());
        std::fs::copy(dir.path().join("A/x"), dir.path().join("B/x")).unwrap();
        lead(dir.path(), "B");
        for args in [&[][..], &["--force", "r1"]] {
            let (status, said) = host.undo(args);
            assert_eq!(status, Some(1), "{said}");
            let (a, b) = (dir.path().join("A"), dir.path().join("B"));
            let why = format!("it was changed in {}, and its path leads to {} now", a.display(), b.display());
            assert!(said.contains(&why), "{said}");
            assert_eq!(read(dir.path()), ["new", "new"], "{said}");
        }
        lead(dir.path(), "A");
        let (status, said) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["old".to_owned(), "new".to_owned()]), "{said}");
    }
}

/// The record of an older version says no place: its change is taken back where the path leads. Words of later versions are passed over.
#[test]
fn undo_follows_a_link_for_a_record_without_a_directory() {
    for host in hosts() {
        let dir = linked();
        changed(&host, dir.path());
        let journal = host.root().join("runs/r1/journal");
        let lines = std::fs::read_to_string(&journal).unwrap();
        let old: String =
            lines.lines().filter(|l| !l.starts_with("at\t")).map(|l| format!("{l}\n")).collect();
        assert_ne!(old, lines);
        std::fs::write(&journal, old.replace("done\t", "later-word\t1\tx\ndone\t")).unwrap();
        std::fs::copy(dir.path().join("A/x"), dir.path().join("B/x")).unwrap();
        lead(dir.path(), "B");
        let (status, said) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["new".to_owned(), "old".to_owned()]), "{said}");
    }
}
