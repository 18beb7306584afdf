use super::*;
use converge_objects::k8s::fields::Segment;
use serde_json::Map;

fn data(keys: &[&str]) -> Value {
    let keys: Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
    json!({"f:data": keys})
}

fn object(values: Value, entries: &[(&str, &str, &[&str])]) -> Value {
    let entry = |(manager, operation, keys): &(&str, &str, &[&str])| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": data(keys)});
    let managers: Vec<Value> = entries.iter().map(entry).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": values, "metadata": {"managedFields": managers}})
}

fn listed(managers: &[Value]) -> Vec<(String, Value)> {
    let one =
        |e: &Value| (format!("{} {}", e["manager"], e["operation"]).replace('"', ""), e["fieldsV1"].clone());
    managers.iter().map(one).collect()
}

fn field(key: &str, after: Option<&str>) -> Field {
    let path = ["data", key].map(|key| Segment::Key(key.to_owned())).to_vec();
    Field { path, before: None, after: after.map(|value| json!(value)) }
}

fn says(manager: &str, keys: &[&str]) -> (String, Value) {
    (manager.to_owned(), data(keys))
}

#[test]
fn fields_go_back_to_whom_they_belonged() {
    // `a` and `b` were applied, `x` was taken from another project, `y` from a person, and `c` was declared by both.
    let first = object(
        json!({"a": "1", "b": "1", "x": "1", "y": "1", "c": "1", "mine": "1"}),
        &[
            ("converge-a", "Apply", &["a", "b"]),
            ("converge-b", "Apply", &["x", "c"]),
            ("kubectl", "Update", &["y", "mine"]),
        ],
    );
    let changed = [field("a", Some("2")), field("x", Some("2")), field("y", Some("2"))];
    let mut owners = Owners::default();
    let recorded = found(&first, Some(&changed), &fields_of(&first, "converge-a"), "converge-a");
    assert_eq!(
        listed(&recorded),
        [
            says("converge-a Apply", &["a", "b"]),
            says("converge-b Apply", &["x"]),
            says("kubectl Update", &["y"])
        ]
    );
    let (own, others): (Vec<Value>, Vec<Value>) = recorded.into_iter().partition(|e| is_own(e, "converge-a"));
    owners.own = Some(own);
    owners.then(&others);
    // A later change took `x` from somebody else: the first one counts.
    owners.then(&[
        json!({"manager": "late", "operation": "Update", "apiVersion": "v1", "fieldsV1": data(&["x"])}),
    ]);
    let live = object(
        json!({"a": "2", "b": "1", "x": "2", "y": "2", "c": "1", "mine": "1"}),
        &[
            ("converge-a", "Apply", &["a", "x", "y", "c"]),
            ("converge-b", "Apply", &["c"]),
            ("kubectl", "Update", &["mine"]),
        ],
    );
    let now = object(
        json!({"a": "1", "b": "1", "x": "1", "y": "1", "c": "1", "mine": "1"}),
        &[
            ("converge-a", "Apply", &["c"]),
            ("converge-a", "Update", &["a", "x", "y"]),
            ("converge-b", "Apply", &["c"]),
            ("kubectl", "Update", &["mine"]),
        ],
    );
    let fields = [field("a", Some("1")), field("x", Some("1")), field("y", Some("1"))];
    let before = normalised(&first);
    let written = Written { live: Some(&live), fields: &fields, before: Some(&before) };
    let all = settled(&now, &written, &owners, "converge-a").unwrap();
    assert_eq!(
        listed(&all),
        [
            says("converge-b Apply", &["c", "x"]),
            says("kubectl Update", &["mine", "y"]),
            says("converge-a Apply", &["a", "b"]),
        ]
    );
    // A value that others have set meanwhile is not the project's again.
    let mut now = now;
    now["data"]["b"] = json!("theirs");
    let all = settled(&now, &written, &owners, "converge-a").unwrap();
    assert_eq!(listed(&all).last(), Some(&says("converge-a Apply", &["a"])));
    // Nothing was the project's before: nothing is afterwards.
    owners.own = Some(Vec::new());
    let all = settled(&now, &written, &owners, "converge-a").unwrap();
    assert!(!listed(&all).iter().any(|(manager, _)| manager.starts_with("converge-a")), "{all:?}");
}

/// Records of older versions name the managers of single fields, and tell of the apply only where the object went.
#[test]
fn records_of_older_versions_give_fields_back_as_they_did() {
    let fields = [field("a", Some("1")), field("b", Some("1"))];
    let live = object(
        json!({"a": "2", "kept": "1"}),
        &[("converge", "Apply", &["a", "kept"]), ("converge", "Update", &["patched"])],
    );
    let now = object(
        json!({"a": "1", "b": "1", "kept": "1"}),
        &[("converge", "Apply", &["kept"]), ("converge", "Update", &["a", "b", "patched"])],
    );
    let written = Written { live: Some(&live), fields: &fields, before: None };
    let mut owners = Owners::default();
    let moved = |owners: &Owners| listed(&settled(&now, &written, owners, "converge").unwrap());
    let own = [says("converge Apply", &["kept", "a", "b"]), says("converge Update", &["patched"])];
    assert_eq!(
        moved(&owners),
        own.map(|(manager, _)| match manager.as_str() {
            "converge Apply" => says("converge Apply", &["a", "b", "kept"]),
            _ => says("converge Update", &["patched"]),
        })
    );
    owners.by_path = BTreeMap::from([(".data.a".to_owned(), "kubectl".to_owned())]);
    assert_eq!(
        moved(&owners),
        [
            says("kubectl Update", &["a"]),
            says("converge Apply", &["b", "kept"]),
            says("converge Update", &["patched"])
        ]
    );
    // An object that is made again.
    let made = object(json!({"a": "1", "theirs": "1"}), &[("converge", "Update", &["a", "theirs"])]);
    let owners = Owners { applied: Some(data(&["a"])), ..Owners::default() };
    let written = Written { live: None, fields: &[], before: None };
    let all = settled(&made, &written, &owners, "converge").unwrap();
    assert_eq!(listed(&all), [says("converge Apply", &["a"]), says("converge Update", &["theirs"])]);
}

#[test]
fn the_fields_of_the_plain_name_become_the_projects() {
    let both = object(
        json!({}),
        &[
            ("converge", "Apply", &["a"]),
            ("converge", "Update", &["b"]),
            ("converge-shop", "Apply", &["c"]),
            ("kubectl", "Update", &["d"]),
        ],
    );
    assert_eq!(
        listed(&renamed(&both, "converge-shop")),
        [
            says("converge-shop Apply", &["a", "c"]),
            says("kubectl Update", &["d"]),
            says("converge-shop Update", &["b"]),
        ]
    );
}

#[test]
fn what_a_manager_gives_up_is_nobodys() {
    let values = || json!({"a": "1", "b": "1"});
    let is_own = |name: &str| name == "converge-a";
    let shared = object(
        values(),
        &[("converge-a", "Apply", &["a", "b"]), ("converge-a", "Update", &["c"]), ("argo", "Apply", &["b"])],
    );
    assert_eq!(listed(&without(&shared, &is_own).unwrap()), [says("argo Apply", &["b"])]);
    let others = object(values(), &[("argo", "Apply", &["a", "b"])]);
    assert_eq!(without(&others, &is_own), None);
    // Where nobody is left, an entry stays that has nothing.
    let alone = object(values(), &[("converge-a", "Apply", &["a", "b"])]);
    let left = without(&alone, &is_own).unwrap();
    assert_eq!((left.len(), &left[0]["manager"]), (1, &json!("before-first-apply")));
    let left = json!({"metadata": {"managedFields": left}});
    assert!(all(&left).and(&all(&alone)).is_empty());
}

#[test]
fn an_apply_gives_up_what_stays_without_it() {
    let before = object(
        json!({"a": "1", "x": "1", "gone": "1"}),
        &[
            ("converge-a", "Apply", &["a", "x", "gone"]),
            ("converge-a", "Update", &["u"]),
            ("converge-b", "Apply", &["x"]),
        ],
    );
    let made = object(
        json!({"a": "1", "x": "1", "u": "1"}),
        &[("converge-a", "Apply", &["a"]), ("converge-a", "Update", &["u"]), ("converge-b", "Apply", &["x"])],
    );
    let of = |made: &Value| given_up(&applied(&before, "converge-a"), made, "converge-a");
    assert_eq!(of(&made), [json!({"field": ".data.x", "managers": ["converge-b"]})]);
    assert_eq!(of(&before), Vec::<Value>::new());
}

/// A field of both that the project forces belongs to both again: the change tells who had it.
#[test]
fn a_field_of_both_goes_back_to_both() {
    let values = |c: &str| json!({"c": c, "v": "1"});
    let both = object(values("1"), &[("converge-b", "Apply", &["c", "v"]), ("argo", "Apply", &["c"])]);
    // Also where the first of the changes did not touch it.
    let had = fields_of(&both, "converge-b");
    let first = found(&both, Some(&[field("v", Some("1"))]), &had, "converge-b");
    let second = found(&both, Some(&[field("c", Some("2"))]), &had, "converge-b");
    assert_eq!(listed(&first), [says("converge-b Apply", &["c", "v"]), says("argo Apply", &["c"])]);
    assert_eq!(first, second);
    let (own, others): (Vec<Value>, Vec<Value>) = second.into_iter().partition(|e| is_own(e, "converge-b"));
    let mut owners = Owners::default();
    owners.then(&others);
    owners.own = Some(own);
    let live = object(values("2"), &[("converge-b", "Apply", &["c", "v"])]);
    let now = object(values("1"), &[("converge-b", "Apply", &["v"]), ("converge-b", "Update", &["c"])]);
    let fields = [field("c", Some("1"))];
    let written = Written { live: Some(&live), fields: &fields, before: None };
    let back = settled(&now, &written, &owners, "converge-b").unwrap();
    assert_eq!(listed(&back), [says("argo Apply", &["c"]), says("converge-b Apply", &["c", "v"])]);
}

/// A field that was taken from another manager belongs to it again with the previous value, whoever has restored that.
#[test]
fn a_field_with_the_value_of_before_goes_back_to_whom_it_belonged() {
    let live = |x: &str| object(json!({"x": x, "y": "1"}), &[("converge-a", "Apply", &["x", "y"])]);
    let before = normalised(&object(json!({"x": "1", "y": "1"}), &[]));
    let argo = object(json!({}), &[("argo", "Apply", &["x", "y"])]);
    let others: Vec<Value> = entries(&argo).cloned().collect();
    let taken = FieldSet::of(&json!({"fieldsV1": data(&["x"])}));
    let owners = Owners { own: Some(Vec::new()), others, taken, ..Owners::default() };
    let settled = |live: &Value| {
        let written = Written { live: Some(live), fields: &[], before: Some(&before) };
        settled(live, &written, &owners, "converge-a").map(|all| listed(&all))
    };
    // A field that he had beside the project, and has given up since, he does not get back.
    assert_eq!(settled(&live("1")), Some(vec![says("argo Apply", &["x"])]));
    assert_eq!(settled(&live("5")), Some(Vec::new()));
}
