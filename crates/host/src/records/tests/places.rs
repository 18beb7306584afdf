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
fn changed(host: &FakeHost, dir: &Path) -> Change {
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
            let (status, reply) = host.undo(args);
            assert_eq!(status, Some(1), "{reply}");
            let (a, b) = (dir.path().join("A"), dir.path().join("B"));
            let why = format!("it was changed in {}, and its path leads to {} now", a.display(), b.display());
            assert!(reply.contains(&why), "{reply}");
            assert_eq!(read(dir.path()), ["new", "new"], "{reply}");
        }
        lead(dir.path(), "A");
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["old".to_owned(), "new".to_owned()]), "{reply}");
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
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["new".to_owned(), "old".to_owned()]), "{reply}");
    }
}

/// A change that is not seen by its path is left, and named, whatever is seen there; and no older run is undone in its place.
#[test]
fn undo_leaves_what_lies_elsewhere_whatever_the_path_shows() {
    for host in hosts() {
        let dir = linked();
        let (keep, new) = (dir.path().join("keep"), dir.path().join("l/n"));
        host.one("r0", &mut spec(vec![host.change(&keep, host.file_line(b"new", 0o644))]), &[b"new"]);
        changed(&host, dir.path());
        host.one("r2", &mut spec(vec![host.change(&new, host.file_line(b"new", 0o644))]), &[b"new"]);
        let gone = |how: &str| {
            std::fs::remove_file(dir.path().join("l")).unwrap();
            if how == "led" {
                symlink(dir.path().join("B"), dir.path().join("l")).unwrap();
            }
        };
        for how in ["led", "removed"] {
            gone(how);
            let now = if how == "led" { "B" } else { "l" };
            let why = format!(
                "it was changed in {}/A, and its path leads to {}/{now} now",
                text(dir.path()),
                text(dir.path())
            );
            for args in [&[][..], &["r1"], &["--force", "r1"], &["r2"]] {
                let (status, reply) = host.undo(args);
                assert!(status == Some(1) && reply.contains(&why), "{how} {args:?}: {reply}");
                assert!(keep.exists() && dir.path().join("A/n").exists(), "{reply}");
            }
            lead(dir.path(), "A");
        }
        // Restored by hand, it counts as such.
        lead(dir.path(), "B");
        std::fs::remove_file(dir.path().join("A/n")).unwrap();
        let (status, reply) = host.undo(&["r2"]);
        assert!(status == Some(0) && reply.contains("as before"), "{reply}");
        lead(dir.path(), "A");
        assert_eq!(host.undo(&[]).0, Some(0));
        assert_eq!(read(dir.path()), ["old", "old"], "{:?}", host.argv);
    }
}

/// Two runs change one path in two directories: each change goes back in its own, in any order.
#[test]
fn undo_takes_two_changes_of_one_path_back_in_the_directory_of_each() {
    for host in hosts() {
        let dir = linked();
        changed(&host, dir.path());
        lead(dir.path(), "B");
        std::fs::write(dir.path().join("B/x"), "other").unwrap();
        let change = host.change(&dir.path().join("l/x"), host.file_line(b"two", 0o644));
        assert_eq!(host.one("r2", &mut spec(vec![change]), &[b"two"]).reading, Reading::Done);
        lead(dir.path(), "A");
        // The newest run is not passed over, but can be.
        let (status, reply) = host.undo(&[]);
        assert!(status == Some(1) && reply.contains("undoing run r2"), "{reply}");
        let (status, reply) = host.undo(&["r1"]);
        assert_eq!((status, read(dir.path())), (Some(0), ["old".to_owned(), "two".to_owned()]), "{reply}");
        lead(dir.path(), "B");
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["old".to_owned(), "other".to_owned()]), "{reply}");
    }
}

/// A directory that was moved, with a link in its place, is the same one.
#[test]
fn undo_follows_a_directory_that_was_moved() {
    for host in hosts() {
        let dir = linked();
        changed(&host, dir.path());
        std::fs::rename(dir.path().join("A"), dir.path().join("A2")).unwrap();
        symlink("A2", dir.path().join("A")).unwrap();
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, read(dir.path())), (Some(0), ["old".to_owned(), "old".to_owned()]), "{reply}");
        // Its record names the directory of the change: nothing of that is in force any more.
        let run = host.records().pop().unwrap();
        assert_eq!(run.changes[0].real_dir, Some(text(&dir.path().join("A"))));
        assert!(host.undo(&["--list"]).1.is_empty());
    }
}

/// A file that comes back with a directory, in whose place there is a link, is recorded where it will be.
#[test]
fn objects_below_a_directory_that_comes_back_are_recorded_with_their_directories() {
    for host in hosts() {
        let dir = linked();
        symlink("nowhere", dir.path().join("A/d")).unwrap();
        let made = dir.path().join("l/d");
        let absent = |path: &Path, to: State| Change { from: State::absent(), ..host.change(path, to) };
        let changes = [
            host.change(&made, State::from_line("dir 755 root root")),
            absent(&made.join("e"), State::from_line("dir 755 root root")),
            absent(&made.join("e/y"), host.file_line(b"new", 0o644)),
        ];
        let run = host.one("r1", &mut spec(changes.into()), &[b"new"]);
        assert_eq!(run.reading, Reading::Done, "{:?}", run.output);
        let run = host.records().remove(0);
        let dirs: Vec<Option<String>> = run.changes.iter().map(|change| change.real_dir.clone()).collect();
        let wanted = ["A", "A/d", "A/d/e"].map(|name| Some(text(&dir.path().join(name))));
        assert_eq!(dirs, wanted, "{:?}", host.argv);
    }
}
