//! Objects that a sensitive item has changed stay hidden.

use super::*;

#[test]
fn what_changes_an_object_with_a_secret_in_it_is_sensitive() {
    let kinds = [
        ("r", Kind::Write(FOO, "plain\n")),
        ("r", Kind::Append(FOO, "line")),
        ("r", Kind::Remove(FOO)),
        ("r", Kind::Write("/etc/bar", "x\n")),
    ];
    let hidden = |folded: &FoldResult| folded.plan.items.iter().map(|i| i.sensitive).collect::<Vec<_>>();
    let files = [(FOO, "TOPSECRET\n"), ("/etc/bar", "y\n")];
    let folded = planned(&kinds, host(&files));
    assert_eq!(hidden(&folded), [false; 4]);
    let old = Content::new(b"TOPSECRET\n".to_vec()).digest().clone();
    assert!(folded.plan.contents.contains_key(&old), "the diff shows what is no secret");
    let mut known = host(&files);
    known.set_secrets([path(FOO)].into());
    let folded = planned(&kinds, known);
    assert_eq!(hidden(&folded), [true, true, true, false]);
    assert!(folded.plan.items.iter().all(|item| item.sensitive == item.params.is_none()));
    assert!(!folded.plan.contents.contains_key(&old));
}

#[test]
fn a_secret_of_a_file_that_is_removed_is_not_even_read() {
    let mut known = host(&[]);
    let (state, _) = file("TOPSECRET\n");
    known.learn(Probe::Object(path(FOO)), Answer::Object(Observation::new(state, Some(1))));
    let items = Items::new(&[("r", Kind::Remove(FOO))]);
    let asked = |known: &Knowledge| fold("h", &items, known, &History::default()).diff_asks.len();
    assert_eq!(asked(&known), 1);
    known.set_secrets([path(FOO)].into());
    assert_eq!(asked(&known), 0);
}

#[test]
fn a_secret_of_the_run_itself_stays_one_for_the_items_behind_it() {
    let kinds =
        [("r", Kind::Append(FOO, "a")), ("r", Kind::Secret(FOO, "s\n")), ("r", Kind::Append(FOO, "b"))];
    let folded = planned(&kinds, host(&[(FOO, "x\n")]));
    assert_eq!(folded.plan.items.iter().map(|i| i.sensitive).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn an_object_is_a_secret_under_the_name_that_the_host_gives_it_too() {
    let mut known = Knowledge::default();
    let (state, _) = file("s");
    let found = Observation { real: Some("/srv/real".to_owned()), ..Observation::new(state, None) };
    known.learn(Probe::Object(path("/srv/link")), Answer::Object(found));
    known.set_secrets([path("/srv/real")].into());
    assert!(known.is_secret(&path("/srv/link")) && known.is_secret(&path("/srv/real")));
    assert!(!known.is_secret(&path("/srv/other")));
}
