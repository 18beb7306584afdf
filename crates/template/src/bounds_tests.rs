use crate::engine::Engine;
use crate::scope::Scope;
use converge_syntax::{Node, Source, Span};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// What a text comes to, or why it does not.
fn eval(text: &str) -> Result<String, String> {
    let engine = Engine::new();
    let scope = Scope::new(&engine);
    let source = Source::new("test", text);
    let node = Node::new(source.text(), Span::whole(source.clone()));
    match engine.eval_value(&node, &scope) {
        Ok(outcome) => Ok(outcome.known().and_then(|node| node.scalar_text()).unwrap_or_default()),
        Err(found) => Err(found.to_string()),
    }
}

#[track_caller]
fn refused(text: &str, says: &str) {
    let begun = Instant::now();
    let shown: String = text.chars().take(60).collect();
    let why = eval(text).expect_err(&shown);
    assert!(why.contains(says), "{shown}: {why}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{shown}: {:?}", begun.elapsed());
}

#[test]
fn what_goes_too_deep_is_refused_at_its_place() {
    let deep = "the template goes too deep";
    refused(&format!("{{{{ 1{} }}}}", " + 1".repeat(20_000)), deep);
    refused(&format!("{{{{ {}true }}}}", "not ".repeat(50_000)), deep);
    refused(&format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000)), deep);
    refused(&format!("{{{{ {}1{} }}}}", "[".repeat(50_000), "]".repeat(50_000)), deep);
    refused(&format!("{{{{ {}1 }}}}", "-".repeat(50_000)), deep);
    refused(&format!("{{{{ a{} }}}}", ".b".repeat(50_000)), deep);
    refused(&format!("{{{{ a{} }}}}", "[0]".repeat(50_000)), deep);
    refused(&format!("{{{{ a{} }}}}", "()".repeat(50_000)), deep);
    refused(&format!("{{{{ 'a'{} }}}}", " | upper".repeat(50_000)), deep);
    refused(&format!("{{{{ 1{} }}}}", " if 1 else 2".repeat(50_000)), deep);
    refused(&format!("{{{{ 1{} }}}}", " < 1".repeat(50_000)), deep);
    refused(&format!("x{}{}", "{% if true %}".repeat(50_000), "{% endif %}".repeat(50_000)), deep);
    refused(&format!("{{% if false %}}{}{{% endif %}}", "{% elif false %}".repeat(50_000)), deep);
    let said = eval(&format!("first\n{{{{ 1{} }}}}", " + 1".repeat(200))).unwrap_err();
    assert!(said.contains("test:2:"), "{said}");
}

#[test]
fn what_is_long_and_not_deep_goes() {
    let list = format!("{{{{ [{}] | length }}}}", "1 + 1, ".repeat(5_000));
    assert_eq!(eval(&list).unwrap(), "5000");
    assert_eq!(eval(&"{{ 1 + 1 }}{% if true %}x{% endif %}".repeat(500)).unwrap(), "2x".repeat(500));
    assert_eq!(eval(&format!("{{{{ 1{} }}}}", " + 1".repeat(90))).unwrap(), "91");
    assert_eq!(eval(&format!("{{{{ {}1{} }}}}", "(".repeat(60), ")".repeat(60))).unwrap(), "1");
    assert_eq!(eval("{{ '((((' ~ \"not not\" }}").unwrap(), "((((not not");
}

#[test]
fn what_makes_too_much_is_refused_before_it_is_made() {
    let much = "than a template may";
    let doubled: String = "{% set x = x ~ x %}".repeat(60);
    refused(&format!("{{% set x = 'a' %}}{doubled}{{{{ x }}}}"), much);
    refused(&format!("{{% set x = 'a' %}}{}{{{{ x }}}}", doubled.replace('~', "+")), much);
    refused(
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x * 2 %}{% endfor %}{{ n.x }}",
        "too large",
    );
    refused(
        "{% macro f(x, n) %}{% if n %}{{ f(x ~ x ~ x ~ x ~ x ~ x ~ x ~ x ~ x, n - 1) }}{% endif %}{% endmacro %}{{ f('ab', 60) }}",
        much,
    );
    refused("{{ 'a' * 90000000 }}", much);
    refused("{{ ('a' * 60000000) ~ ('a' * 60000000) }}", much);
    refused("{{ ([1] * 90000000) | length }}", much);
    refused("{{ 'a\nb' | indent(10**9) }}", much);
    refused("{{ 'a' | indent(width=1000000000) }}", much);
    refused("{{ '%1000000000d' | format(1) }}", much);
    refused("{{ '%*d' | format(1000000000, 1) }}", "as a number");
    refused("{{ '{:1000000000}'.format('a') }}", much);
    refused("{{ ('a' * 100000) | replace('a', 'b' * 100000) }}", much);
    refused("{{ ('a' * 100000).replace('a', 'b' * 100000) }}", much);
    refused("{{ range(100000) | join('b' * 100000) }}", much);
    refused("{{ ('b' * 100000).join(range(100000)) }}", much);
    refused("{{ [1] | batch(1000000000, 'x') }}", much);
    refused("{{ [1] | to_nice_json(indent=1000000000) }}", much);
    refused("{{ 'a' | password_hash('sha512', 'salt', 999999999) }}", much);
    refused("{{ range(10**9) | list }}", "too many");
    let big = "{% set big = 'a' * 1000000 %}";
    refused(&format!("{big}{{% for i in range(99999) %}}{{{{ big }}}}{{% endfor %}}"), much);
    refused(
        &format!(
            "{big}{{% set all %}}{{% for i in range(99999) %}}{{{{ big }}}}{{% endfor %}}{{% endset %}}"
        ),
        much,
    );
    assert_eq!(eval("{{ ('a' * 3000000) | length }}").unwrap(), "3000000");
}

#[test]
fn looking_at_operators_changes_neither_values_nor_places() {
    for (text, wanted) in [
        ("{{ 1 + 2 * 3 }}", "7"),
        ("{{ (1 + 2) * 3 }}", "9"),
        ("{{ 2 * 3 ** 2 }}", "18"),
        ("{{ -1 + 2 }}", "1"),
        ("{{ 'a' ~ 1 + 2 ~ 'b' }}", "a12b"),
        ("{{ 'a' + 'b' | upper }}", "ab"),
        ("{{ ('a' + 'b') | upper }}", "ab"),
        ("{{ [1] + [2] + [3] }}x", "[1, 2, 3]x"),
        ("{{ 1 + 1 if 2 * 2 == 4 else 0 }}", "2"),
        ("{{ 'a' * 3 in 'baaab' }}", "true"),
    ] {
        let got = eval(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(got.to_lowercase(), wanted, "{text}");
    }
    let said = eval("{{ 1 + 1 + nothere + 1 }}").unwrap_err();
    assert!(said.contains("test:1:4"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is written, there is an answer.
    #[test]
    fn no_text_brings_it_down(parts in prop::collection::vec(prop::sample::select(vec![
        "{{", "}}", "{%", "%}", "(", ")", "[", "]", "{", "}", " not ", " + ", " ~ ", " * ", " ** ", "'a'", "9", "x", ".", "|", "upper", "join",
        " if ", " else ", "set x =", "for i in range(9)", "endfor", "macro m(x)", "endmacro", "indent(99)", ",", ":", "\"", "{#", "#}", "raw", "-", "\n",
    ]), 0..400)) {
        drop(eval(&parts.concat()));
    }

    /// One construct, over and over.
    #[test]
    fn no_depth_brings_it_down(part in prop::sample::select(vec![
        "(", "[", "{'a':", "not ", "-", "1 + ", "1 ~ ", "x.", "x[", "f(", "x|f|", "x if ", "x if y else ", "1 < ", "x is not ", "x and ", "1,", "x(", "**{", "2 ** ", "x in ",
    ]), times in 1_usize..30_000) {
        drop(eval(&format!("{{{{ {}1 }}}}", part.repeat(times))));
        drop(eval(&format!("{{% set x = {}1 %}}", part.repeat(times))));
    }
}
