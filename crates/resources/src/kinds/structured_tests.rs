//! Tests of `structured`: the frame around the edits, whose own tests are in `crate::structured`.

use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

#[test]
fn a_value_in_an_old_file() {
    let kind = read::<Structured>(json!({"path": "/etc/x.json", "set": {"/a/b": 1}, "remove": ["/c"]}));
    let after = settle(&kind, FakeView::new().file("/etc/x.json", 0o640, "{\n  \"c\": 2,\n  \"d\": 3\n}\n"));
    assert_eq!(after.text("/etc/x.json"), "{\n  \"d\": 3,\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
    assert!(after.line(&path_id("/etc/x.json")).starts_with("file 640 "));
}

#[test]
fn a_mapping_is_laid_over_the_file() {
    let merge = json!({"a": {"b": 1, "c": {"d": [2]}}, "e": {}});
    let kind = read::<Structured>(json!({"path": "/etc/x.yaml", "merge": merge}));
    let after = settle(&kind, FakeView::new().file("/etc/x.yaml", 0o644, "a:\n  b: 0\n  x: y\nz: 1\n"));
    let text = after.text("/etc/x.yaml");
    assert!(text.starts_with("a:\n  b: 1\n  x: y\n  c:\n") && text.ends_with("z: 1\n"), "{text}");
    let other = read::<Structured>(json!({"path": "/etc/x.yaml", "merge": {"a": 2}}));
    assert_ne!(kind.basis(), other.basis());
    for more in [json!({"set": {"/a": {}}}), json!({"set": {"/a/b/c": 1}}), json!({"remove": ["/a/b"]})] {
        let mut params = json!({"path": "/x.json", "merge": {"a": {"b": 1}}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(wrong::<Structured>(params), ["/merge/a/b"]);
    }
}

#[test]
fn a_missing_file() {
    let params = json!({"path": "/etc/x.toml", "set": {"/a": 1}});
    assert!(matches!(read::<Structured>(params.clone()).plan(&FakeView::new()), Err(Stop::Invalid { .. })));
    let later = FakeView::new().may(path_id("/etc/x.toml"));
    assert!(matches!(read::<Structured>(params).plan(&later), Err(Stop::Deferred(_))));
    let create =
        json!({"path": "/etc/x", "format": "ini", "set": {"/a/b": 1}, "create": true, "mode": "0600"});
    let after = settle(&read::<Structured>(create), FakeView::new());
    assert_eq!(after.text("/etc/x"), "[a]\nb = 1\n");
    let gone = read::<Structured>(json!({"path": "/etc/x.toml", "remove": ["/a"], "exclude": {"/b": 1}}));
    assert_eq!(settle(&gone, FakeView::new()).line(&path_id("/etc/x.toml")), "absent");
}

#[test]
fn edits_follow_each_other() {
    let view = FakeView::new().file("/etc/x.yaml", 0o644, "a: 1\n");
    let view = settle(&read::<Structured>(json!({"path": "/etc/x.yaml", "set": {"/b": "x"}})), view);
    let view =
        settle(&read::<Structured>(json!({"path": "/etc/x.yaml", "include": {"/c": ["y", "z"]}})), view);
    assert_eq!(view.text("/etc/x.yaml"), "a: 1\nb: x\nc:\n  - \"y\"\n  - z\n");
}

#[test]
fn a_refusal_names_the_parameter() {
    let kind = read::<Structured>(json!({"path": "/etc/x.toml", "set": {"/a~1b": null}}));
    let stop = kind.plan(&FakeView::new().file("/etc/x.toml", 0o644, "")).unwrap_err();
    assert!(matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/set/~1a~01b"), "{stop:?}");
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Structured>(json!({"path": "/x.json"})), [""]);
    assert_eq!(wrong::<Structured>(json!({"path": "/x", "set": {"/a": 1}})), ["/path"]);
    assert_eq!(wrong::<Structured>(json!({"path": "/x.json", "set": {"a": 1}})), ["/set/a"]);
    assert_eq!(wrong::<Structured>(json!({"path": "/x.json", "include": {"/a/-": 1}})), ["/include/~1a~1-"]);
    let both = json!({"path": "/x.json", "set": {"/a/b": 1}, "remove": ["/a"]});
    assert_eq!(wrong::<Structured>(both), ["/remove/0"]);
    let nested = json!({"path": "/x.json", "set": {"/a": {}, "/a/b": 1}});
    assert_eq!(wrong::<Structured>(nested), ["/set/~1a"]);
    let both = json!({"path": "/x.json", "include": {"/a": 1}, "exclude": {"/a": [1]}});
    assert_eq!(wrong::<Structured>(both), ["/include/~1a"]);
}

#[test]
fn for_a_restart_its_values_count_and_nothing_beside_them() {
    let one = read::<Structured>(json!({"path": "/etc/a.toml", "set": {"/a": 1}}));
    let same = read::<Structured>(json!({"path": "/etc/a.toml", "set": {"/a": 1}, "mode": "0600"}));
    let other = read::<Structured>(json!({"path": "/etc/a.toml", "set": {"/a": 2}}));
    assert!(one.basis().is_some());
    assert_eq!(one.basis(), same.basis());
    assert_ne!(one.basis(), other.basis());
}
