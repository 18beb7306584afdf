use super::*;
use proptest::prelude::*;
use serde_json::json;

fn path(text: &str) -> KeyPath {
    parse_pointer(text).unwrap()
}

fn wishes(set: &[(&str, Value)], remove: &[&str]) -> Wishes {
    Wishes {
        set: set.iter().map(|(p, v)| (path(p), v.clone())).collect(),
        remove: remove.iter().map(|p| path(p)).collect(),
        ..Wishes::default()
    }
}

fn include(at: &str, value: Value) -> Wishes {
    Wishes { include: vec![(path(at), vec![value])], ..Wishes::default() }
}

fn exclude(at: &str, value: Value) -> Wishes {
    Wishes { exclude: vec![(path(at), vec![value])], ..Wishes::default() }
}

/// The edit; made twice it must be the same.
#[track_caller]
fn done(format: Format, text: &str, wishes: &Wishes) -> String {
    let new = edit(format, text, wishes).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    assert_eq!(edit(format, &new, wishes).as_ref(), Ok(&new), "the second edit changes something");
    new
}

#[track_caller]
fn refused(format: Format, text: &str, wishes: &Wishes, words: &str) {
    let refusal = edit(format, text, wishes).unwrap_err();
    assert!(refusal.message.contains(words), "{refusal:?}");
}

#[test]
fn pointers_are_read_and_written() {
    assert_eq!(parse_pointer("/a~1b/c~0d/"), Ok(vec!["a/b".to_owned(), "c~d".to_owned(), String::new()]));
    for bad in ["a/b", "", "/a~2", "/a/-", "/a~"] {
        assert!(parse_pointer(bad).is_err(), "{bad}");
    }
}

#[test]
fn docker_keeps_its_own_settings() {
    let text = "{\n    \"live-restore\": true,\n    \"log-opts\": {\"max-size\": \"10m\", \"max-file\": \"3\"},\n    \"mtu\": 1500.0\n}\n";
    let wish = wishes(
        &[
            ("/runtimes/nvidia", json!({"path": "nvidia-container-runtime", "runtimeArgs": []})),
            ("/log-opts/max-size", json!("100m")),
        ],
        &["/live-restore", "/not-there/at-all"],
    );
    let new = done(Format::Json, text, &wish);
    let expected = "{\n    \"log-opts\": {\"max-size\": \"100m\", \"max-file\": \"3\"},\n    \"mtu\": 1500.0,\n    \"runtimes\": {\n        \
                    \"nvidia\": {\n            \"path\": \"nvidia-container-runtime\",\n            \"runtimeArgs\": []\n        }\n    }\n}\n";
    assert_eq!(new, expected);
    assert_eq!(
        done(Format::Json, "", &wishes(&[("/a/b", json!(1))], &[])),
        "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"
    );
    assert_eq!(done(Format::Json, "{}", &wishes(&[("/a", json!([1]))], &[])), "{\n  \"a\": [1]\n}");
}

#[test]
fn json_as_users_have_it() {
    let text = "\u{feff}{\r\n\t// ours\r\n\t\"a\": 12345678901234567890123, /* big */\r\n\t\"b\": [\r\n\t\t\"x\",\r\n\t],\r\n}\r\n";
    let new = done(Format::Json, text, &include("/b", json!("y")));
    assert_eq!(new, text.replace("\"x\",", "\"x\",\r\n\t\t\"y\","));
    assert_eq!(done(Format::Json, &new, &exclude("/b", json!("z"))), new);
    refused(Format::Json, "{\"a\": 1, \"a\": 2}", &wishes(&[("/a", json!(3))], &[]), "twice");
    refused(Format::Json, "{'a': 1}", &wishes(&[("/a", json!(3))], &[]), "not JSON");
    refused(Format::Json, "[1, 2]", &wishes(&[], &["/0"]), "by its number");
    refused(Format::Json, "{\"a\": 1}", &wishes(&[("/a/b", json!(3))], &[]), "neither a mapping nor a list");
    refused(Format::Json, "{\"a\": []}", &wishes(&[("/a/0", json!(3))], &[]), "has 0 items");
    refused(Format::Json, "{\"a\": 1}", &include("/a", json!(3)), "not a list");
}

#[test]
fn containerd_keeps_its_comments() {
    let text = "# by hand\nversion = 2\nimports = [\n  \"/etc/containerd/conf.d/*.toml\", # all\n]\n\n[plugins]\n  # the CRI\n  \
                [plugins.\"io.containerd.grpc.v1.cri\"]\n    sandbox_image = \"pause:3.8\" # old\n\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n      \
                snapshotter = \"overlayfs\"\n\n[debug]\n  level = \"info\"\n";
    let wish = wishes(
        &[
            ("/plugins/io.containerd.grpc.v1.cri/sandbox_image", json!("pause:3.9")),
            (
                "/plugins/io.containerd.grpc.v1.cri/containerd/runtimes/nvidia",
                json!({"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": true}}),
            ),
        ],
        &[],
    );
    let new = done(Format::Toml, text, &wish);
    for retained in [
        "# by hand\nversion = 2\n",
        "# all\n",
        "# the CRI\n",
        "snapshotter = \"overlayfs\"\n",
        "[debug]\n  level = \"info\"\n",
    ] {
        assert!(new.contains(retained), "{retained} in\n{new}");
    }
    assert!(new.contains("sandbox_image = \"pause:3.9\" # old\n"), "{new}");
    assert!(
        new.contains("[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n"),
        "{new}"
    );
    assert!(new.contains("runtimes.nvidia.options]\nSystemdCgroup = true\n"), "{new}");
    let listed = done(Format::Toml, text, &include("/imports", json!("/etc/x.toml")));
    assert!(listed.contains("\"/etc/containerd/conf.d/*.toml\""), "{listed}");
    assert!(listed.contains("# all"), "{listed}");
    assert_eq!(done(Format::Toml, "", &wishes(&[("/a/b/c", json!(1))], &[])), "[a.b]\nc = 1\n");
    refused(Format::Toml, "a = 1\n", &wishes(&[("/a", Value::Null)], &[]), "no null");
    refused(Format::Toml, "a = \n", &wishes(&[("/a", json!(1))], &[]), "not TOML");
    let date = "d = 1979-05-27\na = 1\n";
    assert_eq!(done(Format::Toml, date, &wishes(&[("/a", json!(2))], &[])), "d = 1979-05-27\na = 2\n");
}

#[test]
fn yaml_keeps_its_comments() {
    let text = "# head\na: 1   # one\nlist:\n- x # first\n- y\nmap:\n  # inside\n  k: v\n  other: {p: 1, q: [1, 2]}\nlast: |\n  text\n  more\n# tail\n";
    let case = |set: &[(&str, Value)], remove: &[&str], old: &str, new: &str| {
        assert!(text.contains(old));
        assert_eq!(
            done(Format::Yaml, text, &wishes(set, remove)),
            text.replacen(old, new, 1),
            "{set:?} {remove:?}"
        );
    };
    case(&[("/a", json!("yes"))], &[], "a: 1   # one", "a: \"yes\"   # one");
    case(&[("/map/new/deep", json!([1]))], &[], "q: [1, 2]}\n", "q: [1, 2]}\n  new:\n    deep:\n      - 1\n");
    case(&[("/map/other/r", json!("s"))], &[], "q: [1, 2]}", "q: [1, 2], r: s}");
    case(&[("/map/other/q/0", json!({"z": 1}))], &[], "[1, 2]", "[{z: 1}, 2]");
    case(&[("/list/1", json!("z"))], &[], "- y\n", "- z\n");
    case(&[("/end", json!(true))], &[], "  more\n", "  more\nend: true\n");
    case(&[("/last", json!(3))], &[], "last: |\n  text\n  more\n", "last: 3\n");
    case(&[("/map/k", json!({"a": {"b": []}}))], &[], "k: v\n", "k:\n    a:\n      b: []\n");
    case(&[("/a", json!({"b": 1}))], &[], "a: 1   # one\n", "a: # one\n  b: 1\n");
    case(&[], &["/map/k"], "  k: v\n", "");
    case(&[], &["/map/other/p"], "p: 1, ", "");
    case(&[], &["/map/other/q"], ", q: [1, 2]", "");
    case(&[], &["/last"], "last: |\n  text\n  more\n", "");
    case(&[("/map", json!({}))], &[], "map:\n  # inside\n  k: v\n  other: {p: 1, q: [1, 2]}\n", "map: {}\n");
    assert_eq!(
        done(Format::Yaml, text, &include("/list", json!({"p": 1, "m": 2}))),
        text.replace("- y\n", "- y\n- p: 1\n  m: 2\n")
    );
    assert_eq!(done(Format::Yaml, text, &exclude("/map/other/q", json!(1))), text.replace("[1, 2]", "[2]"));
}

#[test]
fn yaml_odd_corners() {
    let cases = [
        ("", json!({"a": {"b": 1}}), "a:\n  b: 1\n"),
        ("# only a comment", json!({"a": 1}), "# only a comment\na: 1\n"),
        ("a:\nb: 1", json!({"a": 2}), "a: 2\nb: 1"),
        ("a: # none\nb: 1", json!({"a": 2}), "a: 2 # none\nb: 1"),
        ("a:\n  b:\n", json!({"a": {"b": {"c": 1}}}), "a:\n  b:\n    c: 1\n"),
        ("- a: 1\n  b: 2\n", json!(null), "- a: 1\n  b: 2\n"),
        ("---\na: {}\n", json!({"a": {"b": 1}}), "---\na:\n  b: 1\n"),
        ("a: 'it''s'\n", json!({"a": "it's"}), "a: 'it''s'\n"),
    ];
    for (text, value, new) in cases {
        let set: Vec<(KeyPath, Value)> = match &value {
            Value::Object(map) => map.iter().map(|(k, v)| (vec![k.clone()], v.clone())).collect(),
            _ => Vec::new(),
        };
        assert_eq!(done(Format::Yaml, text, &Wishes { set, ..Wishes::default() }), new, "{text}");
    }
    let items = "- name: a # first\n  v: 1\n- name: b\n";
    assert_eq!(
        done(Format::Yaml, items, &wishes(&[("/0/v", json!(2)), ("/1/v", json!(3))], &[])),
        "- name: a # first\n  v: 2\n- name: b\n  v: 3\n"
    );
    assert_eq!(done(Format::Yaml, "- k: 1\n  v: 1\n", &wishes(&[], &["/0/k"])), "- v: 1\n");
    refused(Format::Yaml, items, &wishes(&[], &["/0/name"]), "comment");
    refused(Format::Yaml, "a: &x 1\nb: *x\n", &wishes(&[("/a", json!(2))], &[]), "anchor");
    refused(Format::Yaml, "a: &x 1\nb: *x\n", &wishes(&[("/b", json!(2))], &[]), "alias");
    refused(Format::Yaml, "a: 1\n---\nb: 1\n", &wishes(&[("/a", json!(2))], &[]), "several");
    refused(Format::Yaml, "a: 1\na: 2\n", &wishes(&[("/a", json!(2))], &[]), "twice");
    refused(Format::Yaml, "a: [\n", &wishes(&[("/a", json!(2))], &[]), "not YAML");
}

#[test]
fn ini_keeps_its_lines() {
    let text =
        "; head\ntop=1\n\n[mysqld]\n# port\nport = 3306\nskip-name-resolve\n\n[client]\n\tuser\t= root\n";
    let case = |set: &[(&str, Value)], remove: &[&str], old: &str, new: &str| {
        assert_eq!(
            done(Format::Ini, text, &wishes(set, remove)),
            text.replacen(old, new, 1),
            "{set:?} {remove:?}"
        );
    };
    case(&[("/mysqld/port", json!(3307))], &[], "3306", "3307");
    case(&[("/top", json!("2"))], &[], "top=1", "top=2");
    case(&[("/bottom", json!(true))], &[], "top=1\n", "top=1\nbottom=true\n");
    case(&[("/client/host", json!("db"))], &[], "root\n", "root\n\thost\t= db\n");
    case(&[("/new/k", json!("v"))], &[], "root\n", "root\n\n[new]\n\tk\t= v\n");
    case(&[], &["/mysqld/skip-name-resolve"], "skip-name-resolve\n", "");
    case(&[], &["/client"], "[client]\n\tuser\t= root\n", "");
    case(&[("/client", json!({"password": "x"}))], &[], "\tuser\t= root\n", "\tpassword\t= x\n");
    assert_eq!(done(Format::Ini, "", &wishes(&[("/a/b", json!("c"))], &[])), "[a]\nb = c\n");
    assert_eq!(done(Format::Ini, "[a]", &wishes(&[("/a/b", json!("c"))], &[])), "[a]\nb = c\n");
    let set = |v: Value| wishes(&[("/s/k", v)], &[]);
    refused(Format::Ini, "[s]\nk=1\nk=2\n", &set(json!("3")), "more than once");
    refused(Format::Ini, "[s]\nk=1\n  2\n", &set(json!("3")), "goes on");
    refused(Format::Ini, "[s]\nk=1 ; one\n", &set(json!("3")), "comment behind");
    refused(Format::Ini, "[s]\n", &set(json!([1])), "text only");
    refused(Format::Ini, "[s]\n", &wishes(&[("/a/b/c", json!("1"))], &[]), "deeper");
    refused(Format::Ini, "[s]\n", &set(json!("a\nb")), "cannot be written");
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            Just("yes"),
            Just("0x1F"),
            Just("1e3"),
            Just("a: b"),
            Just("- x"),
            Just("# no"),
            Just("é\u{1}\""),
            Just("~")
        ]
        .prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::vec(("[a-c]{1,2}|é|x y|1|true", inner), 0..3)
                .prop_map(|l| Value::Object(l.into_iter().collect())),
        ]
    })
}

proptest! {
    /// From any text that the editors themselves wrote: the wish is met, and everything else stays.
    #[test]
    fn edits_produce_the_wanted_values(
        format in prop_oneof![Just(Format::Json), Just(Format::Toml), Just(Format::Yaml)],
        start in proptest::collection::vec(("[a-d]", tree()), 0..4),
        at in "/[a-e](/[a-c]|/0)?",
        value in tree(),
    ) {
        let set: Vec<(KeyPath, Value)> = start.into_iter().map(|(k, v)| (vec![k], v)).collect();
        let text = edit(format, "", &Wishes { set, ..Wishes::default() }).unwrap();
        let wish = wishes(&[(&at, value.clone())], &[]);
        match edit(format, &text, &wish) {
            Ok(new) => {
                prop_assert_eq!(edit(format, &new, &wish), Ok(new.clone()));
                let mut before = format.editor().read(&text).unwrap();
                let mut after = format.editor().read(&new).unwrap();
                let place = path(&at);
                prop_assert_eq!(self::at(&mut after, &place), Some(&mut value.clone()));
                if let (Value::Object(a), Value::Object(b)) = (&mut before, &mut after) {
                    a.remove(&place[0]);
                    b.remove(&place[0]);
                }
                if !before.is_null() {
                    prop_assert_eq!(before, after);
                }
                let gone = edit(format, &new, &wishes(&[], &[&at]));
                if !at.ends_with("/0") {
                    prop_assert!(gone.is_ok(), "{gone:?}\n{new}");
                }
            }
            Err(refusal) => {
                let known = refusal.message.contains("neither a mapping") || refusal.message.contains(" and no `");
                prop_assert!(known, "{:?}\n{}", refusal, text);
            }
        }
    }

    /// Any content of the file has an answer, never a panic, and never an edit that does something else.
    #[test]
    fn any_text_has_an_answer(
        format in prop_oneof![Just(Format::Json), Just(Format::Toml), Just(Format::Yaml), Just(Format::Ini)],
        text in "([a-c\\[\\]{}:=,\"'|>&*!#-]|\n| |1|é){0,30}",
    ) {
        let wish = wishes(&[("/a/b", json!("v"))], &["/c"]);
        if let Ok(new) = edit(format, &text, &wish) {
            prop_assert_eq!(edit(format, &new, &wish), Ok(new.clone()));
        }
        if let Ok(same) = edit(format, &text, &Wishes::default()) {
            prop_assert_eq!(same, text);
        }
    }
}
