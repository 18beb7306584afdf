use super::*;
use crate::fake::FakeView;

#[test]
fn paths_have_one_spelling() {
    assert_eq!(normal("//etc//x/"), "/etc/x");
    assert_eq!(normal("/"), "/");
    assert_eq!(parent("/etc/x/"), "/etc");
    assert_eq!(parent("/etc"), "/");
    assert_eq!(ancestors("/a/b/c"), ["/a", "/a/b"]);
}

#[test]
fn accounts_are_found_locally_or_by_the_name_service() {
    let view = FakeView::new().user("alice", 1000).answer(
        &account_probe(Account::User, "ldap"),
        0,
        "ldap:x:9:9::/:/bin/sh\n",
    );
    assert_eq!(account_name(&view, Account::User, "/owner", "alice"), Ok("alice".into()));
    assert_eq!(account_name(&view, Account::User, "/owner", "ldap"), Ok("ldap".into()));
    let view = view.answer(&account_probe(Account::User, "nobdy"), 2, "").answer(
        &account_probe(Account::User, "1000"),
        0,
        "alice:x:1000:",
    );
    assert_eq!(account_name(&view, Account::User, "/owner", "1000"), Ok("alice".into()));
    let stop = account_name(&view, Account::User, "/owner", "nobdy").unwrap_err();
    assert!(matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/owner"), "{stop:?}");
}

#[test]
fn what_may_appear_is_not_there_yet() {
    let view = FakeView::new().may(path_id("/opt/tool")).may(user_id("tool"));
    assert!(matches!(crate::above::need_parent(&view, "/path", "/opt/tool/conf"), Err(Stop::Deferred(_))));
    assert!(matches!(account_name(&view, Account::User, "/owner", "tool"), Err(Stop::Deferred(_))));
}

#[test]
fn a_number_leads_to_the_account_that_has_it_then() {
    let number = |uid: u32| account_probe(Account::User, &uid.to_string());
    let view = FakeView::new().answer(&number(5133), 2, "").answer(&number(7), 0, "old:x:7:7::/:/bin/sh\n");
    let made = |uid: u32| State::from_line(&format!("user {uid} g \\ / /bin/sh locked"));
    let later = view.clone().determines(user_id("u"), made(5133));
    assert_eq!(account_name(&view, Account::User, "/owner", "5133"), Ok("5133".to_owned()));
    assert_eq!(account_name(&later, Account::User, "/owner", "5133"), Ok("u".to_owned()));
    let renumbered = view.clone().determines(user_id("old"), made(8));
    assert_eq!(account_name(&renumbered, Account::User, "/owner", "7"), Ok("7".to_owned()));
    assert_eq!(account_name(&renumbered, Account::User, "/owner", "8"), Ok("old".to_owned()));
    // A number that a user has is refused, unless he gives it up before.
    let taken = |view: &FakeView, name: &str, uid| Account::User.check_number(view, "/uid", name, uid);
    assert_eq!(taken(&view, "new", 5133), Ok(()));
    assert_eq!(taken(&view, "old", 7), Ok(()));
    assert!(matches!(taken(&view, "new", 7), Err(Stop::Invalid { message, .. }) if message.contains("old")));
    assert!(
        matches!(taken(&later, "new", 5133), Err(Stop::Invalid { message, .. }) if message.ends_with(" u"))
    );
    assert_eq!(taken(&renumbered, "new", 7), Ok(()));
    let gone = view.clone().determines(user_id("old"), State::absent());
    assert_eq!(taken(&gone, "new", 7), Ok(()));
}

#[test]
fn wrong_paths_are_named() {
    for bad in ["etc/x", "/etc/../x", "/etc/a\nb"] {
        let mut errors = Vec::new();
        check_path("/path", bad, &mut errors);
        assert_eq!(errors.len(), 1, "{bad:?}");
    }
}
