//! YAML to nodes: meaning of scalars against recorded answers, spans, anchors, merges, limits, and errors that point.
#![expect(clippy::panic, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use converge_syntax::{
    Diagnostics, Dialect, Node, Source, Span, Value, format_float, parse_yaml, parse_yaml_into,
};

fn source(text: &str) -> Arc<Source> {
    Source::new("t.yaml", text)
}

fn one(text: &str) -> Node {
    parse_yaml(source(text), Dialect::Ansible).unwrap_or_else(|error| panic!("{text}\n{error}")).remove(0)
}

fn json(text: &str) -> String {
    one(text).to_json().to_string()
}

fn errors(text: &str) -> String {
    parse_yaml(source(text), Dialect::Native).expect_err(text).to_string()
}

#[test]
fn plain_scalars_mean_what_pyyaml_and_ansible_say() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(include_str!("fixtures/yaml11.json")).unwrap();
    assert!(rows.len() > 130);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        if row.get("error").is_some() {
            // PyYAML refuses these; here they are text, or a syntax error too.
            match parse_yaml(source(&format!("- {text}")), Dialect::Ansible) {
                Ok(documents) => {
                    let value = &documents[0].pointer("/0").unwrap().value;
                    assert!(matches!(value, Value::String(_) | Value::Map(_)), "{text}");
                }
                Err(error) => assert!(error.has_errors(), "{text}"),
            }
            continue;
        }
        let node = one(&format!("k: {text}\n"));
        let value = &node.get("k").unwrap().value;
        let shown = match value {
            Value::Null => ("null", String::new()),
            Value::Bool(value) => ("bool", value.to_string()),
            Value::Int(value) => ("int", value.to_string()),
            Value::UInt(value) => ("int", value.to_string()),
            Value::Float(value) => ("float", format_float(*value)),
            Value::String(value) => ("str", value.clone()),
            other => panic!("{text}: {other:?}"),
        };
        let wanted = row["value"].as_str().unwrap();
        match row["kind"].as_str().unwrap() {
            "date" => assert_eq!(shown, ("str", wanted.to_owned()), "{text}"),
            "float" => {
                let python: f64 = wanted.parse().unwrap();
                let Value::Float(value) = value else { panic!("{text}: {value:?}") };
                assert!(*value == python || (value.is_nan() && python.is_nan()), "{text}: {value} {python}");
            }
            // Beyond 64 bits the digits are kept as text.
            "int" if wanted.parse::<u64>().is_err() && wanted.parse::<i64>().is_err() => {
                assert_eq!(shown, ("str", wanted.to_owned()), "{text}");
            }
            kind => assert_eq!(shown, (kind, wanted.to_owned()), "{text}"),
        }
        // Compares with the output of ansible-inventory, if JSON can hold it.
        if let Ok(ansible) = serde_json::from_str::<serde_json::Value>(row["ansible"].as_str().unwrap()) {
            let exact = !matches!(value, Value::String(_)) || ansible.is_string();
            if exact {
                assert_eq!(node.get("k").unwrap().to_json(), ansible, "{text}");
            }
        }
    }
}

#[test]
fn spans_cover_what_was_written() {
    let text = "a: 1\nlist:\n  - x y   # note\n  - 'q'\nmap:\n  k: |\n    one\n    two\n  z: {f: [1, 2]}\n";
    let root = one(text);
    let spans = |pointer: &str| root.pointer(pointer).unwrap().span.text();
    assert_eq!(spans("/a"), "1");
    assert_eq!(spans("/list/0"), "x y");
    assert_eq!(spans("/list/1"), "'q'");
    assert_eq!(spans("/list"), "x y   # note\n  - 'q'");
    assert_eq!(spans("/map/z"), "{f: [1, 2]}");
    assert_eq!(spans("/map/z/f"), "[1, 2]");
    assert!(spans("/map/k").contains("two"), "{}", spans("/map/k"));
    assert_eq!(spans("/map").split('\n').next(), Some("k: |"));
    assert_eq!(root.span.start, 0);
    assert!(root.span.text().ends_with("[1, 2]}"));
    assert_eq!(root.key_span("map").unwrap().to_string(), "t.yaml:5:1");
    assert_eq!(root.pointer("/map/z/f/1").unwrap().span.to_string(), "t.yaml:9:14");
    let accents = one("é: [ü, x]\n");
    assert_eq!(accents.pointer("/é/1").unwrap().span.text(), "x", "byte offsets after letters of two bytes");
    assert_eq!(accents.pointer("/é/1").unwrap().span.to_string(), "t.yaml:1:8");
}

#[test]
fn quoting_tags_and_documents() {
    assert_eq!(
        json("['1', \"yes\", 'it''s', \"a\\nb\", !!str 1, !!int '0x10', !!float 3]"),
        r#"["1","yes","it's","a\nb","1",16,3.0]"#
    );
    assert_eq!(json("a: |\n  0644\nb: >-\n  x\n  y\n"), r#"{"a":"0644\n","b":"x y"}"#);
    let tagged =
        one("p: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\nu: !unsafe '{{ x }}'\nl: !unsafe [1]\n");
    assert_eq!(tagged.get("p").unwrap().tag.as_deref(), Some("!vault"));
    assert_eq!(tagged.get("p").unwrap().as_str(), Some("$ANSIBLE_VAULT;1.1;AES256\n6162\n"));
    assert_eq!(tagged.get("u").unwrap().tag.as_deref(), Some("!unsafe"));
    assert_eq!(tagged.get("l").unwrap().tag.as_deref(), Some("!unsafe"));
    assert_eq!(tagged.pointer("/l/0").unwrap().tag, None);
    assert_eq!(parse_yaml(source("---\na\n---\nb\n"), Dialect::Ansible).unwrap().len(), 2);
    assert_eq!(parse_yaml(source("# nothing\n"), Dialect::Ansible).unwrap(), Vec::new());
    assert_eq!(json("a:\nb: ~\n1: x\ntrue: y\n"), r#"{"a":null,"b":null,"1":"x","true":"y"}"#);
}

#[test]
fn a_tag_that_nothing_reads_is_an_error() {
    for text in ["p: !valut x", "p: !mine [1]", "p: !!binary aGk=", "p: !!python/tuple {a: 1}", "!mine x: 1"]
    {
        for dialect in [Dialect::Ansible, Dialect::Native] {
            let found = parse_yaml(source(text), dialect).unwrap_err();
            assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["unknown-tag"], "{text}");
        }
    }
}

#[test]
fn large_integers_keep_their_digits_and_a_tag() {
    let root = one("a: 18446744073709551616\nb: -0x8000000000000001\nc: '18446744073709551616'\nd: 0b1\n");
    let read = |name: &str| {
        let node = root.get(name).unwrap();
        (node.scalar_text().unwrap(), node.tag.clone())
    };
    let tag = Some(converge_syntax::BIG_INTEGER.to_owned());
    assert_eq!(read("a"), ("18446744073709551616".to_owned(), tag.clone()));
    assert_eq!(read("b"), ("-9223372036854775809".to_owned(), tag));
    assert_eq!(read("c"), ("18446744073709551616".to_owned(), None));
    assert_eq!(read("d"), ("1".to_owned(), None));
    // Recorded from Python: 16**40 - 1, and 7**200.
    let digits = "1461501637330902918203684832716283019655932542975";
    assert_eq!(converge_syntax::decimal(&"f".repeat(40), 16).as_deref(), Some(digits));
    assert_eq!(converge_syntax::decimal("1_000", 10), None);
    assert_eq!(converge_syntax::decimal("", 10), None);
    assert_eq!(converge_syntax::decimal(&"1".repeat(5000), 10), None);
}

#[test]
fn a_comment_right_behind_a_quote_is_one_in_ansibles_files_alone() {
    let text = "a: \"x\"#note\nb: 'y'#é\nc: \"z#1\" # d\n";
    let root = one(text);
    let values = ["a", "b", "c"].map(|name| root.get(name).unwrap().as_str().unwrap().to_owned());
    assert_eq!(values, ["x", "y", "z#1"]);
    assert_eq!(root.get("c").unwrap().span.text(), "\"z#1\"");
    assert!(parse_yaml(source(text), Dialect::Native).is_err());
    assert!(parse_yaml(source("a: \"x\"y#note\n"), Dialect::Ansible).is_err());
}

#[test]
fn a_tab_is_reported_where_it_stands() {
    let found = parse_yaml(source("a:\n  - name: b\n\tfile: x\n"), Dialect::Native).unwrap_err();
    let text = found.to_string();
    assert!(text.contains("t.yaml:3:1") && text.contains("indent with spaces"), "{text}");
}

#[test]
fn anchors_and_merges_as_in_pyyaml() {
    // Recorded from PyYAML 6.0.3: merged keys first, own keys win, earlier maps of a list win.
    let text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\n\
                one: {a: 0, <<: *b, x: 9}\nlist: {<<: [*b, *m], w: 5}\nuse: [*b, *b]\nquoted: {'<<': 1}\n";
    let root = one(text);
    let at = |key: &str| root.get(key).unwrap().to_json().to_string();
    assert_eq!(at("one"), r#"{"x":9,"y":2,"a":0}"#);
    assert_eq!(at("list"), r#"{"y":2,"z":4,"x":1,"w":5}"#);
    assert_eq!(at("use"), r#"[{"x":1,"y":2},{"x":1,"y":2}]"#);
    assert_eq!(at("quoted"), r#"{"<<":1}"#);
    assert_eq!(root.pointer("/use/1/x").unwrap().span.line(), 1, "an alias points at what was written");
    assert!(errors("a: {<<: 1}").contains("`<<` takes a map"));
    assert!(errors("a: *nope").contains("t.yaml:1:4"));
    assert!(errors("a: &a [*a]").contains("inside the value"));
}

#[test]
fn limits() {
    let deep = format!("{}1{}", "[".repeat(110), "]".repeat(110));
    assert!(errors(&deep).contains("levels deep"));
    let bomb: String = (1..12).fold("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, n| {
        let alias = vec![format!("*a{}", n - 1); 10].join(",");
        format!("{text}a{n}: &a{n} [{alias}]\n")
    });
    assert!(errors(&bomb).contains("more than 500000 values"));
    let nested: String = (1..60)
        .fold("a0: &a0 [[[[1]]]]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [[[[*a{}]]]]\n", n - 1));
    assert!(errors(&nested).contains("levels deep"), "through aliases too");
    let blocks: String = (0..130).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
    assert!(errors(&blocks).contains("t.yaml:"));
    assert!(errors(&"x".repeat((16 << 20) + 1)).contains("larger than 16 MiB"));
}

#[test]
fn errors_point_and_help() {
    for (text, words) in [
        (
            "a: 1\nb: 2\na: 3\n",
            "error[duplicate-key]: the key `a` is written twice\n  --> t.yaml:3:1: again here\n      t.yaml:1:1: first here",
        ),
        (
            "a: {{ x }}\n",
            "error[unquoted-expression]: an expression must be quoted: YAML reads `{` as the start of a map\n  --> t.yaml:1:4\n  help: quote the expression: \"{{ x }}\"",
        ),
        (
            "a:\n  - {{ x | default(\"y\") }}\n",
            "t.yaml:2:5\n  help: quote the expression: '{{ x | default(\"y\") }}'",
        ),
        ("a: {{ x }}/bin # path\nb: 1\n", "t.yaml:1:4\n  help: quote the expression: \"{{ x }}/bin\""),
        ("a: {{ x['y'] }}\n", "unquoted-expression"),
        ("a: b: c\n", "help: a value that holds `: ` must be quoted"),
        ("a:\n\t- b\n", "indent with spaces"),
        ("a: 'b\n", "close the quote"),
        ("a: [1, 2\nb: 3\n", "t.yaml:"),
        ("a: 1\n b: 2\n", "t.yaml:2:"),
        ("{[1]: 2}", "a key must be a scalar, not a list"),
        ("a: !!int x", "`x` is no value of `!!int`"),
    ] {
        let error = errors(text);
        assert!(error.contains(words), "{text}\n{error}");
    }
    let several = errors("a: 1\na: 2\nb: {{ x }}\nc: {{ y }}\n");
    assert_eq!(several.matches("error[").count(), 3, "{several}");
}

#[test]
fn native_files_get_warnings_for_what_is_easily_misread() {
    let warnings = |text: &str, dialect| {
        let mut found = Diagnostics::new();
        assert!(parse_yaml_into(source(text), dialect, &mut found).is_some(), "{found}");
        found.to_string()
    };
    let text = "a: yes\nb: 0644\nc: 1:30\nmode: 0644\nd: true\ne: 'yes'\non: 1\nf: 10\ng: off\n";
    let found = warnings(text, Dialect::Native);
    assert_eq!(found.matches("warning[ambiguous-scalar]").count(), 4, "{found}");
    assert!(found.contains(
        "`yes` is read as the boolean true\n  --> t.yaml:1:4\n  help: write true, or \"yes\" for the text"
    ));
    assert!(found.contains("`0644` is read as the octal number 420\n  --> t.yaml:2:4"));
    assert!(found.contains("`1:30` is read as 90 (base 60)"));
    assert_eq!(warnings(text, Dialect::Ansible), "");
}

#[test]
fn a_source_may_have_no_file() {
    let node = Node::new("x", Span::nowhere("--set"));
    assert_eq!(node.span.to_string(), "--set");
    assert_eq!(node.span.text(), "");
}

mod never_panics {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn on_any_text(text in r#"[ \n\ta-c0-9:{}\[\],'"&*!|>#%\-?<.é]{0,60}"#) {
            for dialect in [Dialect::Ansible, Dialect::Native] {
                match parse_yaml(source(&text), dialect) {
                    Ok(documents) => documents.iter().for_each(spans_are_inside),
                    Err(found) => {
                        prop_assert!(found.has_errors());
                        prop_assert!(!found.to_string().is_empty());
                        prop_assert_eq!(found.reports().len(), found.len());
                    }
                }
            }
        }
    }

    fn spans_are_inside(node: &Node) {
        let length = node.span.source.text().len();
        assert!(node.span.start <= node.span.end && node.span.end <= length, "{:?}", node.span);
        assert!(node.span.source.text().get(node.span.start..node.span.end).is_some());
        match &node.value {
            Value::List(items) => items.iter().for_each(spans_are_inside),
            Value::Map(entries) => entries.iter().for_each(|(key, value)| {
                spans_are_inside(key);
                spans_are_inside(value);
            }),
            _ => {}
        }
    }
}
