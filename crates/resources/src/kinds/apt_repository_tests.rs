use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use crate::openpgp::dearmor;
use crate::openpgp::tests::{FINGERPRINT, KEY};
use crate::repository_key::key_probe;
use base64::Engine as _;
use serde_json::{Value, json};

const TEXT: &str = "Types: deb\nURIs: https://example.org/apt\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/shop.gpg\n";

fn params(more: Value) -> Value {
    let mut params = json!({"name": "shop", "uris": "https://example.org/apt", "suites": "stable", "components": "main",
        "fingerprint": FINGERPRINT});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

fn host() -> FakeView {
    FakeView::new().dir("/etc/apt/sources.list.d")
}

fn packets() -> Vec<u8> {
    dearmor(KEY.as_bytes()).unwrap()
}

#[test]
fn key_file_and_lists_are_made() {
    let after = settle(&read::<AptRepository>(params(json!({"key": KEY}))), host());
    assert_eq!(after.text("/etc/apt/sources.list.d/shop.sources"), TEXT);
    let key = converge_resource::Digest::of(&packets());
    assert!(after.line(&path_id("/etc/apt/keyrings/shop.gpg")).ends_with(key.as_str()));
    assert_eq!(after.line(&path_id("/etc/apt/keyrings")), "dir 755 root root");
    assert_eq!(
        after.line(&lists_id("shop")),
        format!("lists {}", converge_resource::Digest::of(TEXT.as_bytes()))
    );
    let absent = read::<AptRepository>(json!({"name": "shop", "state": "absent"}));
    let gone = settle(&absent, after);
    assert_eq!(gone.line(&path_id("/etc/apt/sources.list.d/shop.sources")), "absent");
    assert_eq!(gone.line(&lists_id("shop")), "absent");
}

fn answered(body: &[u8]) -> FakeView {
    let text = base64::engine::general_purpose::STANDARD.encode(body);
    host().answer(&key_probe("https://example.org/key"), 0, &format!("{text}\n"))
}

#[test]
fn a_fetched_key_is_checked_before_it_is_trusted() {
    let kind = read::<AptRepository>(params(json!({"key_url": "https://example.org/key"})));
    settle(&kind, answered(KEY.as_bytes()));
    let two = format!("{KEY}{}", KEY.replace("mDME", "mDMF"));
    for bad in [b"<html>not found</html>".to_vec(), two.into_bytes(), packets()[..60].to_vec()] {
        let stop = kind.plan(&answered(&bad)).unwrap_err();
        assert!(matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/key_url"), "{stop:?}");
    }
    let other = read::<AptRepository>(params(
        json!({"key_url": "https://example.org/key", "fingerprint": "0".repeat(40)}),
    ));
    let Err(Stop::Invalid { message, .. }) = other.plan(&answered(KEY.as_bytes())) else { panic!() };
    assert!(message.contains(FINGERPRINT), "{message}");
}

#[test]
fn a_key_that_is_there_is_not_fetched_again() {
    let kind = read::<AptRepository>(params(json!({"key_url": "https://example.org/key"})));
    let view = host().dir("/etc/apt/keyrings").file("/etc/apt/keyrings/shop.gpg", 0o644, packets());
    settle(&kind, view.clone());
    let damaged = view.file("/etc/apt/keyrings/shop.gpg", 0o644, "drifted");
    assert_eq!(kind.plan(&damaged), Err(Stop::Ask(vec![key_probe("https://example.org/key")])));
}

#[test]
fn something_to_fetch_with_may_come_first() {
    let kind = read::<AptRepository>(params(json!({"key_url": "https://example.org/key"})));
    let bare = host().answer(&key_probe("https://example.org/key"), 69, "");
    assert!(matches!(kind.plan(&bare), Err(Stop::Invalid { .. })));
    let text = bare.clone().acts(path_id("/etc/x"), false);
    assert!(matches!(kind.plan(&text), Err(Stop::Invalid { .. })), "a text file brings no curl");
    let package = bare.acts(ObjectId::new("package", "curl"), false);
    assert!(matches!(kind.plan(&package), Err(Stop::Deferred(_))));
    let cut = host().complains(&key_probe("https://example.org/key"), 1, "curl: (6) Could not resolve host");
    assert!(matches!(kind.plan(&cut), Err(Stop::Failed(why)) if why.contains("resolve")));
}

#[test]
fn a_key_file_of_the_host() {
    let mut given =
        params(json!({"signed_by": "/usr/share/keyrings/x.gpg", "architectures": ["amd64", "arm64"]}));
    given.as_object_mut().unwrap().remove("fingerprint");
    let kind = read::<AptRepository>(given);
    assert!(matches!(kind.plan(&host()), Err(Stop::Invalid { .. })));
    let after = settle(&kind, host().file("/usr/share/keyrings/x.gpg", 0o644, "k"));
    let text = after.text("/etc/apt/sources.list.d/shop.sources");
    assert!(text.ends_with("Architectures: amd64 arm64\nSigned-By: /usr/share/keyrings/x.gpg\n"), "{text}");
    assert_eq!(after.line(&path_id("/etc/apt/keyrings/shop.gpg")), "absent");
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(
        wrong::<AptRepository>(json!({"name": "a b"})),
        ["/name", "/uris", "/suites", "", "/fingerprint"]
    );
    assert_eq!(wrong::<AptRepository>(params(json!({}))), [""]);
    let both = params(json!({"key": KEY, "key_url": "https://x/y"}));
    assert_eq!(wrong::<AptRepository>(both), [""]);
    assert_eq!(wrong::<AptRepository>(params(json!({"key_url": "http://x/y"}))), ["/key_url"]);
    assert_eq!(wrong::<AptRepository>(params(json!({"key": "no key"}))), ["/key"]);
    assert_eq!(
        wrong::<AptRepository>(params(json!({"key": KEY, "fingerprint": &FINGERPRINT[24..]}))),
        ["/fingerprint", "/key"]
    );
    assert_eq!(wrong::<AptRepository>(params(json!({"key": KEY, "suites": "./"}))), ["/components"]);
    assert_eq!(wrong::<AptRepository>(params(json!({"key": KEY, "types": "rpm"}))), ["/types"]);
}
