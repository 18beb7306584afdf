//! Typed structs out of nodes: what fits, and errors at the node at fault.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;

use converge_syntax::{Dialect, Node, Source, Span, Spanned, from_node, parse_yaml};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum State {
    Present,
    Absent,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Body {
    Content(String),
    Link {
        to: String,
        #[serde(default)]
        hard: bool,
    },
    Nothing,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct File {
    path: Spanned<String>,
    #[serde(default)]
    mode: Option<u16>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    state: Option<State>,
    #[serde(default)]
    body: Option<Body>,
    #[serde(default)]
    ratio: Option<f64>,
    #[serde(default)]
    flags: Vec<bool>,
    #[serde(default)]
    vars: BTreeMap<String, Node>,
    #[serde(default)]
    ports: BTreeMap<u16, String>,
    #[serde(default)]
    pair: Option<(i64, String)>,
    #[serde(default)]
    when: Option<Node>,
    #[serde(default)]
    inner: Option<Box<Spanned<File>>>,
}

fn node(text: &str) -> Node {
    parse_yaml(Source::new("role.yaml", text), Dialect::Native).unwrap().remove(0)
}

fn error(text: &str) -> String {
    from_node::<File>(&node(text)).expect_err(text).to_string()
}

#[test]
fn what_fits() {
    let text = "path: /etc/x\nmode: 0644\nowner:\nstate: absent\nbody: {link: {to: y}}\nratio: 2\nflags: [true, false]\n\
                vars: {a: !unsafe '{{ x }}', 8080: [1], on: 1}\nports: {80: http}\npair: [1, b]\nwhen: [a, b]\n\
                inner:\n  path: p\n  body: nothing\n";
    let file: File = from_node(&node(text)).unwrap();
    assert_eq!(file.path.value, "/etc/x");
    assert_eq!(file.path.span.to_string(), "role.yaml:1:7");
    assert_eq!((file.mode, file.owner.as_deref(), file.ratio), (Some(420), None, Some(2.0)));
    assert_eq!(file.state, Some(State::Absent));
    assert_eq!(file.body, Some(Body::Link { to: "y".to_owned(), hard: false }));
    assert_eq!(file.flags, [true, false]);
    assert_eq!(file.vars["a"].tag.as_deref(), Some("!unsafe"));
    assert_eq!(file.vars["a"].span.to_string(), "role.yaml:8:19");
    assert_eq!(file.vars.keys().map(String::as_str).collect::<Vec<_>>(), ["8080", "a", "true"]);
    assert_eq!(file.ports[&80], "http");
    assert_eq!(file.pair, Some((1, "b".to_owned())));
    assert_eq!(file.when.unwrap().as_list().unwrap().len(), 2);
    let inner = file.inner.unwrap();
    assert_eq!(inner.span.line(), 13);
    assert_eq!(inner.value.path.span.to_string(), "role.yaml:13:9");
    assert_eq!(inner.value.body, Some(Body::Nothing));
}

#[test]
fn errors_point_at_the_node_at_fault() {
    for (text, wanted) in [
        (
            "path: a\nmoed: 1\nownr: x\n",
            "error[unknown-key]: unknown key `moed`\n  --> role.yaml:2:1\n  help: did you mean `mode`? Known here:",
        ),
        (
            "path: a\nmoed: 1\nownr: x\n",
            "error[unknown-key]: unknown key `ownr`\n  --> role.yaml:3:1\n  help: did you mean `owner`?",
        ),
        ("mode: 1\n", "error[missing-key]: the key `path` is missing\n  --> role.yaml:1:1"),
        (
            "path: 80\n",
            "error[wrong-type]: expected a string, found the integer `80`\n  --> role.yaml:1:7\n  help: write it in quotes: \"80\"",
        ),
        (
            "path: a\nmode: '644'\n",
            "expected an integer from 0 to 65535, found the string `644`\n  --> role.yaml:2:7\n  help: write it without quotes",
        ),
        ("path: a\nmode: 70000\n", "expected an integer from 0 to 65535, found 70000\n  --> role.yaml:2:7"),
        ("path: a\nmode: -1\n", "found -1\n  --> role.yaml:2:7"),
        (
            "path: a\nstate: presnt\n",
            "error[unknown-value]: unknown value `presnt`\n  --> role.yaml:2:8\n  help: did you mean `present`? Known here: `present` or `absent`",
        ),
        ("path: a\nstate: [1]\n", "expected `present` or `absent`, found a list\n  --> role.yaml:2:9"),
        ("path: a\nflags: [true, 3]\n", "expected a boolean, found the integer `3`\n  --> role.yaml:2:15"),
        ("path: a\nflags: yes\n", "expected a list, found a boolean"),
        (
            "path: a\nbody: {content: a, link: b}\n",
            "expected exactly one of `content`, `link` or `nothing`\n  --> role.yaml:2:8",
        ),
        ("path: a\nbody: content\n", "`content` needs a value: write `content: …`\n  --> role.yaml:2:7"),
        ("path: a\nbody: {nothing: 1}\n", "`nothing` takes no value\n  --> role.yaml:2:17"),
        ("path: a\nbody: {link: {too: x}}\n", "the key `to` is missing"),
        ("path: a\npair: [1]\n", "found a length of 1\n  --> role.yaml:2:8"),
        ("path: a\npair: [1, b, c]\n", "the list is too long: its length is 3\n  --> role.yaml:2:14"),
        ("path: a\nports: {x: http}\n", "role.yaml:2:9"),
        ("path:\n", "expected a string, found null\n  --> role.yaml:1:5\n  help: there is no value here"),
        ("path: a\ninner:\n  path: b\n  mod: 1\n", "unknown key `mod`\n  --> role.yaml:4:3"),
        ("- path: a\n", "expected a map, found a list\n  --> role.yaml:1:3"),
    ] {
        let found = error(text);
        assert!(found.contains(wanted), "{text}\n{found}");
    }
}

#[test]
fn a_rendered_value_is_not_repeated_in_a_message() {
    for (key, words) in
        [("mode", "found a string\n  --> role.yaml:2:7"), ("state", "unknown value\n  --> role.yaml:2:8")]
    {
        let mut root = node(&format!("path: a\n{key}: '{{{{ password }}}}'\n"));
        if let converge_syntax::Value::Map(entries) = &mut root.value {
            entries[1].1.value = "hunter2".into();
        }
        let found = from_node::<File>(&root).unwrap_err().to_string();
        assert!(found.contains(words) && !found.contains("hunter2"), "{found}");
    }
}

#[test]
fn spanned_values_and_nodes_live_in_other_formats_too() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Saved {
        name: Spanned<String>,
        value: Node,
    }
    let saved = Saved {
        name: Spanned::new("a".to_owned(), Span::nowhere("x")),
        value: node("{b: [1, 2.5, null, yes], a: {x: y}}"),
    };
    let json = serde_json::to_string(&saved).unwrap();
    assert_eq!(json, r#"{"name":"a","value":{"b":[1,2.5,null,true],"a":{"x":"y"}}}"#);
    assert_eq!(serde_json::from_str::<Saved>(&json).unwrap(), saved);
}
