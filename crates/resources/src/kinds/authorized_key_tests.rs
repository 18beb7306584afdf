use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use proptest::prelude::*;
use serde_json::json;

/// A key of this type with this data behind the name.
fn key(kind: &str, data: &[u8]) -> String {
    let mut bytes = u32::try_from(kind.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(kind.as_bytes());
    bytes.extend_from_slice(data);
    format!("{kind} {}", base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn root() -> FakeView {
    let state = UserState::User {
        uid: Some(0),
        group: "root".into(),
        gecos: String::new(),
        home: "/root".into(),
        shell: "/bin/sh".into(),
        locked: false,
        password: None,
        expires: None,
        groups: std::collections::BTreeSet::new(),
    };
    FakeView::new().dir("/root").has(user_id("root"), state)
}

const FILE: &str = "/root/.ssh/authorized_keys";

#[test]
fn directory_and_file_are_made() {
    let params = json!({"user": "alice", "key": key("ssh-ed25519", b"a") + " alice@x"});
    let view = FakeView::new().user("alice", 1000).dir("/home").dir("/home/alice");
    let after = settle(&read::<AuthorizedKey>(params), view);
    assert_eq!(after.line(&path_id("/home/alice/.ssh")), "dir 700 alice alice");
    assert!(after.line(&path_id("/home/alice/.ssh/authorized_keys")).starts_with("file 600 alice alice "));
}

#[test]
fn what_sshd_would_refuse_is_reported() {
    let params = json!({"user": "alice", "key": key("ssh-ed25519", b"a")});
    let given = |mode, owner: &str| PathState::Dir { mode, owner: owner.into(), group: "root".into() };
    let view = |home, ssh| {
        let view = FakeView::new().user("alice", 1000).has(path_id("/home"), given(0o777, "daemon"));
        view.has(path_id("/home/alice"), home).has(path_id("/home/alice/.ssh"), ssh)
    };
    let notes = |view: FakeView| read::<AuthorizedKey>(params.clone()).plan(&view).unwrap().notes;
    assert_eq!(notes(view(given(0o755, "alice"), given(0o700, "alice"))), Vec::<String>::new());
    let refused = view(given(0o775, "alice"), given(0o700, "bob"));
    let reply = "with StrictModes sshd refuses the keys of alice: ";
    let both = [
        format!("{reply}others may write to /home/alice (mode 0775)"),
        format!("{reply}/home/alice/.ssh belongs to bob"),
    ];
    assert_eq!(notes(refused), both);
    let file =
        view(given(0o755, "root"), given(0o700, "alice")).file("/home/alice/.ssh/authorized_keys", 0o620, "");
    assert_eq!(
        notes(file),
        [format!("{reply}others may write to /home/alice/.ssh/authorized_keys (mode 0620)")]
    );
    let gone = json!({"user": "alice", "key": key("ssh-ed25519", b"a"), "state": "absent"});
    let open = view(given(0o777, "alice"), given(0o700, "alice"));
    assert_eq!(read::<AuthorizedKey>(gone).plan(&open).unwrap().notes, Vec::<String>::new());
    // Elsewhere everything above it counts.
    let elsewhere = json!({"user": "alice", "key": key("ssh-ed25519", b"a"), "path": "/etc/keys/alice"});
    let open =
        view(given(0o755, "alice"), given(0o700, "alice")).has(path_id("/etc/keys"), given(0o777, "root"));
    assert_eq!(
        read::<AuthorizedKey>(elsewhere).plan(&open).unwrap().notes,
        [format!("{reply}others may write to /etc/keys (mode 0777)")]
    );
}

#[test]
fn a_key_is_known_by_its_data() {
    let (a, b) = (key("ssh-ed25519", b"a"), key("ssh-rsa", b"b"));
    let text = format!("# ours\nno-pty,command=\"a b\" {a} old\n{b} other");
    let view = root().dir("/root/.ssh").file(FILE, 0o600, &text);
    let plan = |params| settle(&read::<AuthorizedKey>(params), view.clone()).text(FILE);
    assert_eq!(plan(json!({"user": "root", "key": b})), text, "its comment stays");
    assert_eq!(plan(json!({"user": "root", "key": a})), format!("# ours\n{a} old\n{b} other"));
    let options = json!({"user": "root", "key": format!("{b} new"), "options": "from=\"1.2.3.4, 5\""});
    assert_eq!(
        plan(options),
        format!("# ours\nno-pty,command=\"a b\" {a} old\nfrom=\"1.2.3.4, 5\" {b} new\n")
    );
    let c = key("ssh-ed25519", b"c");
    assert_eq!(plan(json!({"user": "root", "key": c})), format!("{text}\n{c}\n"));
    assert_eq!(plan(json!({"user": "root", "key": c, "exclusive": true})), format!("# ours\n{c}\n"));
    assert_eq!(
        plan(json!({"user": "root", "key": [b, c], "state": "absent"})),
        format!("# ours\nno-pty,command=\"a b\" {a} old\n")
    );
}

#[test]
fn nothing_to_remove() {
    let kind = read::<AuthorizedKey>(json!({"user": "gone", "key": key("ssh-rsa", b""), "state": "absent"}));
    assert_eq!(settle(&kind, FakeView::new()).line(&path_id("/home/gone/.ssh/authorized_keys")), "absent");
}

#[test]
fn a_home_elsewhere_needs_its_path() {
    let state = UserState::User {
        uid: Some(9),
        group: "app".into(),
        gecos: String::new(),
        home: "/srv/app".into(),
        shell: "/bin/sh".into(),
        locked: true,
        password: None,
        expires: None,
        groups: std::collections::BTreeSet::new(),
    };
    let view = FakeView::new().dir("/srv").dir("/srv/app").has(user_id("app"), state);
    let stop =
        read::<AuthorizedKey>(json!({"user": "app", "key": key("ssh-rsa", b"")})).plan(&view).unwrap_err();
    assert!(matches!(&stop, Stop::Invalid { help: Some(h), .. } if h.contains("/srv/app/.ssh")), "{stop:?}");
    let given = json!({"user": "app", "key": key("ssh-rsa", b""), "path": "/srv/app/.ssh/authorized_keys"});
    let after = settle(&read::<AuthorizedKey>(given), view.clone());
    assert_eq!(after.line(&path_id("/srv/app/.ssh")), "dir 700 app app");
    let nobody = read::<AuthorizedKey>(json!({"user": "nobdy", "key": key("ssh-rsa", b"")}));
    assert!(matches!(nobody.plan(&view), Err(Stop::Invalid { .. })));
    assert!(matches!(nobody.plan(&view.clone().may(user_id("nobdy"))), Err(Stop::Deferred(_))));
}

#[test]
fn wrong_parameters_are_named() {
    let good = key("ssh-rsa", b"x");
    assert_eq!(wrong::<AuthorizedKey>(json!({"user": "-x", "key": []})), ["/user", "/key"]);
    assert_eq!(wrong::<AuthorizedKey>(json!({"user": "a", "key": [good, "ssh-rsa AAAA"]})), ["/key/1"]);
    let other = good.replace("ssh-rsa", "ssh-dss");
    assert_eq!(wrong::<AuthorizedKey>(json!({"user": "a", "key": other})), ["/key"], "data of another type");
    assert_eq!(wrong::<AuthorizedKey>(json!({"user": "a", "key": good, "options": "a b"})), ["/options"]);
    let both = json!({"user": "a", "key": good, "exclusive": true, "state": "absent"});
    assert_eq!(wrong::<AuthorizedKey>(both), ["/exclusive"]);
}

proptest! {
    #[test]
    fn foreign_lines_stay(text in "([a-z# \"\\\\]{0,12}\n){0,5}", have in 0u8..4, want in 0u8..4) {
        let mut before = text.clone();
        for n in 0..have {
            before.push_str(&format!("{}\n", key("ssh-rsa", &[n])));
        }
        let kind = read::<AuthorizedKey>(json!({"user": "root", "key": key("ssh-rsa", &[want])}));
        let view = root().dir("/root/.ssh").file(FILE, 0o600, &before);
        let after = settle(&kind, view).text(FILE);
        prop_assert!(after.starts_with(&text));
        prop_assert_eq!(after.len() > before.len(), want >= have);
        let absent = read::<AuthorizedKey>(json!({"user": "root", "key": key("ssh-rsa", &[want]), "state": "absent"}));
        let view = root().dir("/root/.ssh").file(FILE, 0o600, &after);
        prop_assert!(!settle(&absent, view).text(FILE).contains(&key("ssh-rsa", &[want])));
    }
}
