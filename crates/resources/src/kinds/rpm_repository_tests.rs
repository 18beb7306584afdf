use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use crate::openpgp::tests::{FINGERPRINT, KEY};
use converge_resource::Digest;
use serde_json::{Value, json};

const FILE: &str = "/etc/yum.repos.d/shop.repo";
const KEY_FILE: &str = "/etc/pki/rpm-gpg/RPM-GPG-KEY-shop";

fn params(more: Value) -> Value {
    let mut params =
        json!({"name": "shop", "baseurl": "https://example.org/rpm/$basearch", "fingerprint": FINGERPRINT});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// A host on which these other files name the repository.
fn host_with(kind: &RpmRepository, others: &str) -> FakeView {
    FakeView::new().dir(REPOS).answer(&kind.elsewhere(), 0, others)
}

#[test]
fn file_key_trust_and_metadata_are_made() {
    let kind =
        read::<RpmRepository>(params(json!({"key": KEY, "description": "A shop", "repo_gpgcheck": true,
        "priority": 10, "excludes": ["kernel*", "x"], "module_hotfixes": true})));
    let after = settle(&kind, host_with(&kind, ""));
    let text = format!(
        "[shop]\nname=A shop\nbaseurl=https://example.org/rpm/$basearch\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://{KEY_FILE}\npriority=10\n\
         excludepkgs=kernel* x\nmodule_hotfixes=1\n"
    );
    assert_eq!(after.text(FILE), text);
    assert_eq!(after.text(KEY_FILE), KEY);
    assert_eq!(after.line(&key_id(FINGERPRINT)), format!("key {}", Digest::of(KEY.as_bytes())));
    assert_eq!(after.line(&metadata_id("shop")), format!("metadata {}", Digest::of(text.as_bytes())));
    assert_eq!(after.line(&path_id(KEYS)), "dir 755 root root");
    let absent = read::<RpmRepository>(json!({"name": "shop", "state": "absent"}));
    let gone = settle(&absent, after);
    for id in [path_id(FILE), path_id(KEY_FILE), metadata_id("shop")] {
        assert_eq!(gone.line(&id), "absent");
    }
    assert_ne!(gone.line(&key_id(FINGERPRINT)), "absent", "installed packages are checked with it");
}

#[test]
fn a_key_for_metadata_alone_is_none_of_rpms_and_no_key_is_one_without_a_file() {
    let kind = read::<RpmRepository>(params(json!({"key": KEY, "gpgcheck": false, "repo_gpgcheck": true})));
    let after = settle(&kind, host_with(&kind, ""));
    assert_eq!(
        (after.text(KEY_FILE), after.line(&key_id(FINGERPRINT))),
        (KEY.to_owned(), "absent".to_owned())
    );
    let bare = read::<RpmRepository>(
        json!({"name": "shop", "mirrorlist": "http://x/list", "gpgcheck": false, "enabled": false}),
    );
    let after = settle(&bare, host_with(&bare, ""));
    assert_eq!(
        after.text(FILE),
        "[shop]\nname=shop\nmirrorlist=http://x/list\nenabled=0\ngpgcheck=0\nrepo_gpgcheck=0\n"
    );
    assert_eq!(after.line(&metadata_id("shop")), "absent", "dnf does not use it");
    assert_eq!(after.line(&path_id(KEY_FILE)), "absent");
}

#[test]
fn a_key_file_of_the_host() {
    let kind = read::<RpmRepository>(
        json!({"name": "shop", "baseurl": "file:///repo", "signed_by": "/etc/pki/rpm-gpg/x"}),
    );
    assert!(
        matches!(kind.plan(&host_with(&kind, "")), Err(Stop::Invalid { pointer, .. }) if pointer == "/signed_by")
    );
    let after = settle(&kind, host_with(&kind, "").file("/etc/pki/rpm-gpg/x", 0o644, "k"));
    assert!(after.text(FILE).contains("gpgkey=file:///etc/pki/rpm-gpg/x\n"));
    assert_eq!(after.line(&path_id(KEY_FILE)), "absent");
}

#[test]
fn repositories_of_others_are_not_overwritten() {
    let kind = read::<RpmRepository>(params(json!({"key": KEY})));
    let absent = read::<RpmRepository>(json!({"name": "shop", "state": "absent"}));
    let refused = |kind: &RpmRepository, view: &FakeView, reply: &str| {
        let Err(Stop::Invalid { pointer, message, .. }) = kind.plan(view) else { panic!("{reply}") };
        assert!(pointer == "/name" && message.contains(reply), "{message}");
    };
    let shared = host_with(&kind, "").file(FILE, 0o644, "# mine\n[shop]\nname=x\n [no]\n[other]\nname=y\n");
    refused(&kind, &shared, "holds other repositories: other");
    refused(&absent, &shared, "holds other repositories: other");
    settle(&kind, host_with(&kind, "").file(FILE, 0o600, "[shop]\nname=by hand\n"));
    let twin = "/etc/yum.repos.d/all.repo";
    let named = host_with(&kind, &format!("{twin}\n{FILE}\n"));
    refused(&kind, &named.clone().file(twin, 0o644, "[shop]\n"), "all.repo has a repository `shop` too");
    // A resource before this one has taken it out there.
    settle(&kind, named.clone());
    settle(&kind, named.file(twin, 0o644, "[others]\n"));
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<RpmRepository>(json!({"name": "a b"})), ["/name", "/baseurl", "", "/fingerprint"]);
    assert_eq!(wrong::<RpmRepository>(params(json!({"name": "main", "key": KEY}))), ["/name"]);
    assert_eq!(wrong::<RpmRepository>(params(json!({}))), [""]);
    for (more, at) in [
        (json!({"metalink": "https://x/y"}), "/baseurl"),
        (json!({"baseurl": "ftp://x"}), "/baseurl"),
        (json!({"baseurl": "file://x y"}), "/baseurl"),
        (json!({"description": "a\nenabled=0"}), "/description"),
        (json!({"excludes": "a b"}), "/excludes"),
        (json!({"priority": 100}), "/priority"),
        (json!({"gpgcheck": false}), "/gpgcheck"),
    ] {
        let mut params = params(json!({"key": KEY}));
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(wrong::<RpmRepository>(params), [at], "{more}");
    }
}
