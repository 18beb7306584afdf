use super::*;
use serde_json::json;

#[test]
fn elements_have_stable_keys() {
    let span = Span::nowhere("t");
    let keys = |json: Json, sensitive: bool| -> Vec<String> {
        let list = Node::from_json(&json, &span);
        elements(&list, &span, sensitive).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(json!(["a", 2, "a"]), false), ["a", "2", "a#2"]);
    assert_eq!(keys(json!([{"name": "x"}, {"path": "/y"}, {"z": 1}]), false), ["x", "/y", "2"]);
    assert_eq!(keys(json!({"k": 1, "l": {"a": 1}}), false), ["k", "l"]);
    assert_eq!(keys(json!(["secret", "other"]), true), ["0", "1"]);
    assert!(elements(&Node::from_json(&json!("a"), &span), &span, false).is_err());
    let (_, item) = elements(&Node::from_json(&json!({"k": 1}), &span), &span, false).unwrap().remove(0);
    assert_eq!(item.to_json(), json!({"key": "k", "value": 1}));
}
