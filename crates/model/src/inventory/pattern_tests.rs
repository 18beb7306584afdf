use super::*;
use proptest::prelude::*;

#[test]
fn patterns_are_split_as_ansible_splits_them() {
    for (text, expected) in [
        ("a:b", vec!["a", "b"]),
        ("a, b[1], c[2:3] , d", vec!["a", "b[1]", "c[2:3]", "d"]),
        ("a:&b:!c", vec!["a", "&b", "!c"]),
        ("web[0:2]:db", vec!["web[0:2]", "db"]),
        ("web[0:2]", vec!["web[0:2]"]),
        ("2001:db8::1", vec!["2001:db8::1"]),
        ("a:22", vec!["a:22"]),
        ("~(a|b).*", vec!["~(a|b).*"]),
        ("  ", vec![]),
    ] {
        assert_eq!(split_pattern(text), expected, "{text}");
    }
}

#[test]
fn subscripts() {
    assert_eq!(split_subscript("g[0]"), ("g", Some(Subscript::Index(0)), false));
    assert_eq!(split_subscript("g[-1]"), ("g", Some(Subscript::Index(-1)), false));
    assert_eq!(split_subscript("g[1:]"), ("g", Some(Subscript::Slice(1, None)), false));
    assert_eq!(split_subscript("g[1-2]"), ("g", Some(Subscript::Slice(1, Some(2))), true));
    assert_eq!(split_subscript("~g[0]"), ("~g[0]", None, false));
    assert_eq!(split_subscript("g[ab]"), ("g[ab]", None, false));
    assert_eq!(split_subscript("[0]"), ("[0]", None, false));
}

#[test]
fn globs_are_those_of_fnmatch() {
    let matches = |glob: &str, text: &str| Matcher::new(glob).unwrap().matches(text);
    assert!(matches("web*", "web1"));
    assert!(matches("w?b", "wéb"));
    assert!(matches("n[!1]", "n2") && !matches("n[!1]", "n1"));
    assert!(matches("n[]]", "n]"));
    assert!(matches("n[", "n["));
    assert!(!matches("n[z-a]", "nb"));
    assert!(matches("a.b*", "a.bc") && !matches("a.b*", "axbc"));
    assert!(matches("~web[12]", "web12"));
}

proptest! {
    #[test]
    fn any_pattern_is_answered(text in "[a-c0-2é~&!*?\\[\\]:,.@()|+-]{0,16}") {
        let mut graph = Graph::new();
        let group = graph.add_group("a", None);
        graph.add_host("b1", group, &Span::nowhere("test"));
        graph.add_host("b2", group, &Span::nowhere("test"));
        graph.reconcile();
        let inventory = Inventory::of_graph(graph);
        let node = Node::new(text.as_str(), Span::nowhere("test"));
        let _ = inventory.select(&node);
        let _ = inventory.select_limit(&text, Utf8Path::new("/nonexistent"));
    }
}
