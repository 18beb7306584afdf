use super::*;
use crate::testing::shells;
use converge_resource::State;

fn bob() -> UserState {
    UserState::User {
        uid: Some(1000),
        group: "crew".to_owned(),
        gecos: "Bob B".to_owned(),
        home: "/home/bob".to_owned(),
        shell: "/bin/sh".to_owned(),
        locked: false,
        password: None,
        expires: None,
        groups: ["adm", "sudo"].into_iter().map(str::to_owned).collect(),
    }
}

#[test]
fn a_user_that_is_being_made_is_known() {
    let state = |line: &str| UserState::try_from(State::from_line(line)).unwrap();
    let after = state("user ~ users \\ /srv /bin/sh locked adm");
    let amid = |before: &str, now: &str| User::amid(&state(before), &after, &state(now));
    assert!(amid("absent", "user 1001 users \\ /srv /bin/sh unlocked"));
    assert!(!amid("absent", "user 1001 users \\ /srv /bin/bash locked adm"), "another shell");
    assert!(!amid("absent", "absent"));
    assert!(!amid("user 1001 users \\ /srv /bin/bash locked", "user 1001 users \\ /srv /bin/sh unlocked"));
}

#[test]
fn a_password_on_its_way_is_known() {
    let hash = |c: char| c.to_string().repeat(64);
    let state =
        |login: &str| UserState::try_from(State::from_line(&format!("user 7 g \\ /h /s {login} a"))).unwrap();
    let amid = |before: &str, after: &str, now: &str| User::amid(&state(before), &state(after), &state(now));
    let new = format!("unlocked,password={},expires=9", hash('a'));
    assert!(amid("unlocked", &new, "unlocked,expires=9"), "the hash is still to be set");
    assert!(amid("unlocked", &new, &format!("unlocked,password={}", hash('b'))), "the former one is seen");
    assert!(!amid("unlocked", &new, "unlocked,expires=10"));
    assert!(!amid("unlocked", &new, "locked"));
    let old = format!("unlocked,password={}", hash('b'));
    assert!(!amid(&old, &new, &format!("unlocked,password={}", hash('c'))));
}

#[test]
fn days_are_dates() {
    assert_eq!(expiry_day("2027-01-31"), Some(20849));
    assert_eq!(expiry_date(20849), "2027-01-31");
    for bad in ["1970-01-01", "1969-12-31", "2027-1-31", "2027-02-30", "never", "20270131", "2027-01-31T00"] {
        assert_eq!(expiry_day(bad), None, "{bad}");
    }
}

#[test]
fn an_expiry_is_shown_where_it_is_a_day_or_changes_from_one() {
    let user =
        |login: &str| UserState::try_from(State::from_line(&format!("user 7 g \\ /h /s {login}"))).unwrap();
    let (never, day) = (user("locked"), user("locked,expires=20849"));
    let shown = |from: &UserState, to: &UserState| {
        let all = User::attributes(from, to);
        let of = all.into_iter().find(|change| change.name == "expires");
        of.map(|change| [change.before, change.after].map(Option::unwrap_or_default))
    };
    let sides = |before: &str, after: &str| Some([before.to_owned(), after.to_owned()]);
    assert_eq!(shown(&UserState::Absent, &never), None);
    assert_eq!(shown(&never, &UserState::Absent), None);
    assert_eq!(shown(&never, &never), None);
    assert_eq!(shown(&UserState::Absent, &day), sides("", "2027-01-31"));
    assert_eq!(shown(&never, &day), sides("never", "2027-01-31"));
    assert_eq!(shown(&day, &never), sides("2027-01-31", "never"));
}

#[test]
fn a_hash_and_its_digest_are_not_shown() {
    let with = |digest: &str| {
        let line = format!("user 7 g \\ /h /s unlocked,password={digest}");
        UserState::try_from(State::from_line(&line)).unwrap()
    };
    let (one, two) = (Digest::of(b"1").to_string(), Digest::of(b"2").to_string());
    let shown = format!("{:?}{:?}", User::attributes(&with(&one), &with(&two)), User::facets(&with(&one)));
    assert!(shown.contains("(hidden, another)"), "{shown}");
    assert!(!shown.contains(&one[..12]) && !shown.contains(&two[..12]), "{shown}");
    assert_eq!(User::attributes(&with(&one), &with(&one)), []);
    let step = |from: &str, to: &str| User::steps(&[("u", with(from), with(to))]).remove(0).stdin;
    assert_eq!(step(&one, &two), Digest::from_hex(&two));
    assert_eq!(step(&one, &one), None);
}

#[test]
fn states_are_lines_and_lines_are_states() {
    let line = State::from(bob());
    assert_eq!(UserState::try_from(line.clone()), Ok(bob()));
    assert!(line.line().starts_with("user 1000 crew \\0102"));
    let line = State::from_line(&format!("user 1 g c h s locked,password={},expires=9 a", "0".repeat(64)));
    assert_eq!(State::from(UserState::try_from(line.clone()).unwrap()), line);
    for bad in [
        "user 1 g c h s locked b a",
        "user x g c h s locked",
        "user 1 g c h s maybe",
        "user 1 g c h s",
        "user 1 g c h s locked,password=0",
        "user 1 g c h s locked,expires=x",
        "user 1 g c h s locked,more=1",
    ] {
        assert!(UserState::try_from(State::from_line(bad)).is_err(), "{bad}");
    }
    let open = UserState::try_from(State::from_line("user ~ g \\ /h /s locked")).unwrap();
    assert!(matches!(open, UserState::User { uid: None, .. }));
}

#[test]
fn accounts_are_read_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "passwd",
        "root:x:0:0:root:/root:/bin/bash\nbob:x:1000:50:Bob B:/home/bob:/bin/sh\n\
         odd:!:7:99:::\nnoshadow:x:8:0::/:/bin/sh\nopen::9:0::/:/bin/sh\n",
    );
    write("group", "root:x:0:\ncrew:x:50:\nsudo:x:27:bob,root\nadm:x:4:bob\n");
    write("shadow", "root:*:1:::::\nbob:$6$x:1:::::\n");
    let keys = ["bob", "root", "odd", "noshadow", "open", "gone"];
    for shell in shells(dir.path()) {
        let script = format!("CV_ETC='{}'; cv_see_user \"$@\"", dir.path().display());
        let observed = crate::testing::parse::<User>(&keys, &shell.good(dir.path(), &script, &keys, b""));
        let line = |key: &str| observed[key].clone().unwrap().state;
        assert_eq!(line("bob"), State::from(bob()), "{}", shell.name);
        assert_eq!(line("root").line(), "user 0 root root /root /bin/bash locked sudo");
        assert_eq!(line("odd").line(), "user 7 99 \\ \\ \\ locked");
        assert_eq!(line("noshadow").line(), "user 8 root \\ / /bin/sh locked");
        assert_eq!(line("open").line(), "user 9 root \\ / /bin/sh unlocked");
        assert!(line("gone").is_absent());
        let script = format!("CV_ETC='{}'; cv_see_group crew none", dir.path().display());
        assert_eq!(shell.good(dir.path(), &script, &[], b""), "- group 50\n- absent\n");
    }
}

#[test]
fn a_password_of_a_run_and_an_expiry_are_read_in_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir(dir.path().join("passwords")).unwrap();
    for name in ["bob", "dan", "eve"] {
        write(&format!("passwords/{name}"), "");
    }
    let user = |name: &str| format!("{name}:x:7:7::/:/bin/sh\n");
    write("passwd", &["bob", "ann", "dan", "eve"].map(user).concat());
    write("group", "");
    write("shadow", "bob:!$6$x$y:1:::::20849:\nann:$6$x$y:1::::::\ndan:$6$x$y:1:::::-1:\neve:!*:1:::::0:\n");
    let digest = Digest::of(b"$6$x$y");
    let keys = ["bob", "ann", "dan", "eve"];
    for shell in shells(dir.path()) {
        let script = format!("CV_ETC='{0}'; CV_ROOT=$CV_ETC; cv_see_user \"$@\"", dir.path().display());
        let observed = crate::testing::parse::<User>(&keys, &shell.good(dir.path(), &script, &keys, b""));
        let expected = [
            format!("locked,password={digest},expires=20849"),
            "unlocked".to_owned(),
            format!("unlocked,password={digest}"),
            "locked".to_owned(),
        ];
        for (key, login) in keys.iter().zip(expected) {
            let line = observed[*key].clone().unwrap().state;
            assert_eq!(line.line(), format!(r"user 7 7 \ / /bin/sh {login}"), "{}: {key}", shell.name);
        }
    }
}

#[test]
fn a_cut_off_step_is_judged_alike_on_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let hash = |of: &str| format!("unlocked,password={}", Digest::of(of.as_bytes()));
    let user = |login: &str| format!(r"user 7 g \ /h /s {login} a");
    let cases = [
        (user("unlocked,expires=9"), user("unlocked"), user(&format!("{},expires=9", hash("a")))),
        (user(&hash("b")), user("unlocked"), user(&hash("a"))),
        (user(&hash("c")), user(&hash("b")), user(&hash("a"))),
        (user("locked"), user("unlocked"), user(&hash("a"))),
        (user("locked"), "absent".to_owned(), user(&hash("a"))),
        (user("locked"), "absent".to_owned(), r"user ~ g \ /h /s unlocked".to_owned()),
        (user("locked"), "absent".to_owned(), r"user 8 g \ /h /s locked".to_owned()),
        (r"user 7 g \ /h /s locked b".to_owned(), user("locked"), r"user 7 g \ /h /t locked a b".to_owned()),
    ];
    let state = |line: &str| UserState::try_from(State::from_line(line)).unwrap();
    for shell in shells(dir.path()) {
        for (now, before, after) in &cases {
            let args = [now.as_str(), before.as_str(), after.as_str()];
            let output = shell.run(dir.path(), "cv_amid_user \"$@\"", &args, b"");
            let amid = User::amid(&state(before), &state(after), &state(now));
            assert_eq!(output.status.success(), amid, "{}: {args:?}", shell.name);
        }
    }
}

#[test]
fn a_lock_whose_process_is_gone_is_taken_and_none_stays() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for shell in shells(dir.path()) {
        for lock in [None, Some("999999999"), Some("999999999\n")] {
            std::fs::write(at("gshadow"), "a:!::\nb:!::\n").unwrap();
            std::fs::write(at("kept"), "b:x::c\n").unwrap();
            if let Some(lock) = lock {
                std::fs::write(at("gshadow.lock"), lock).unwrap();
            }
            let script = format!(
                "put() {{ cv_shadow_put b '{0}/gshadow' '{0}/kept'; }}; put other words",
                dir.path().display()
            );
            shell.good(dir.path(), &script, &[], b"");
            assert_eq!(std::fs::read_to_string(at("gshadow")).unwrap(), "a:!::\nb:x::c\n", "{}", shell.name);
            assert!(!at("gshadow.lock").exists(), "{}: the lock stays", shell.name);
        }
    }
}

#[test]
fn a_uid_left_open_is_the_hosts_choice_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        for (found, wanted, same) in [
            ("user 1001 g \\ /h /s locked a", "user ~ g \\ /h /s locked a", true),
            ("user 1001 g \\ /h /s locked", "user ~ g \\ /h /s locked a", false),
            ("absent", "user ~ g \\ /h /s locked", false),
        ] {
            let output = shell.run(dir.path(), "cv_same_user x \"$1\" \"$2\"", &[found, wanted], b"");
            assert_eq!(output.status.success(), same, "{}: {found}", shell.name);
        }
    }
}
