use super::BYTES;
use crate::engine::TemplateEngine;
use crate::scope::Scope;
use converge_syntax::{Node, Source, Span};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Evaluates a text and returns its result, or the error.
fn eval(text: &str) -> Result<String, String> {
    let engine = TemplateEngine::new();
    let scope = Scope::new(&engine);
    let source = Source::new("test", text);
    let node = Node::new(source.text(), Span::whole(source.clone()));
    match engine.eval_value(&node, &scope) {
        Ok(outcome) => Ok(outcome.known().and_then(|node| node.scalar_text()).unwrap_or_default()),
        Err(found) => {
            let found = found.to_string();
            // A panic is caught, and is never the answer to a text.
            assert!(!found.contains("engine gave up"), "{text}: {found}");
            Err(found)
        }
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
    let reply = eval(&format!("first\n{{{{ 1{} }}}}", " + 1".repeat(200))).unwrap_err();
    assert!(reply.contains("test:2:"), "{reply}");
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
        much,
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
    let big = "{% set big = 'a' * 1000 %}";
    refused(&format!("{big}{{% for i in range(99999) %}}{{{{ big }}}}{{% endfor %}}"), much);
    refused(
        &format!(
            "{big}{{% set all %}}{{% for i in range(99999) %}}{{{{ big }}}}{{% endfor %}}{{% endset %}}"
        ),
        much,
    );
    assert_eq!(eval("{{ ('a' * 3000) | length }}").unwrap(), "3000");
}

#[test]
fn a_replacement_stops_where_it_is_too_much() {
    // An end of the replacing would complain about the number of matches first.
    let much = "regex_replace: more than 0 MiB";
    refused("{{ ('a' * 10000) | regex_replace('a', 'b' * 10000, mandatory_count=99999) }}", much);
    refused(r"{{ ('a' * 10000) | regex_replace('^.*$', '\\g<0>' * 1000, mandatory_count=99999) }}", much);
    refused("{{ ('a' * 10000) | regex_replace('', '--', mandatory_count=99999) }}", much);
    assert_eq!(eval("{{ 'abc' | regex_replace('', '-') }}").unwrap(), "-a-b-c-");
    assert_eq!(eval("{{ 'aXbX' | regex_replace('X', '', count=1) }}").unwrap(), "abX");
}

#[test]
fn a_query_that_goes_too_deep_is_refused() {
    let deep = "json_query: the expression goes too deep";
    let query = |text: String| format!("{{{{ {{'a': 1}} | json_query(\"{text}\") }}}}");
    for text in
        ["(", "[", "{a:", "!", "&", "a.", "a|", "a||", "a[*]", "a[]", "a[0]", "[?a", "a==", "*.", "a("]
    {
        refused(&query(text.repeat(2_000) + "a"), deep);
        drop(eval(&query(text.repeat(99) + "a")));
    }
    let balanced = format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000));
    refused(&query(balanced), deep);
    refused(&query(format!("[{}a]", "a,".repeat(4_500))), "json_query: bytes of an expression");
    let wide = format!("length([{}a])", "a.b.c, ".repeat(500));
    assert_eq!(eval(&query(wide)).unwrap(), "501");
    assert_eq!(eval(&query(format!("{}a{}", "(".repeat(90), ")".repeat(90)))).unwrap(), "1");
}

#[test]
fn work_inside_filters_counts() {
    let endless = "the template takes too many steps";
    refused("{% for i in range(1000) %}{{ range(100000) | sort | length }}{% endfor %}", endless);
    refused("{% for i in range(10000) %}{% if -1 in range(100000) %}{% endif %}{% endfor %}", endless);
    refused("{{ range(100000) | union([]) | length }}", endless);
    refused("{{ range(100000) | difference(range(100000)) | length }}", endless);
    assert_eq!(eval("{{ range(2000) | union(range(2000)) | length }}").unwrap(), "2000");
    assert_eq!(
        eval("{% for i in range(2000) %}{{ 'x' if range(100) | sort | length == 1 }}{% endfor %}y").unwrap(),
        "y"
    );
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
        ("{{ ('a' + 'b') | upper ~ ('c' | upper) }}", "abc"),
        (
            "{{ ['a', 'b'] | join('+') ~ {'x': 'y'}['x'] ~ [1, 2][0:1][0] ~ 'z'.upper() ~ (1 if true else 2) }}",
            "a+by1z1",
        ),
        ("{{ [1 + 1, [2 * 2]] | length ~ (1, 2) | length }}", "22"),
        ("{% set a, b = 1, 1 + 1 %}{{ a ~ b ~ (a is defined) ~ (not a) }}", "12truefalse"),
        (
            "{% set n = namespace(x=1) %}{% set n.x = n.x | int + 1 if n.x is defined else [n.x] %}{{ n.x }}",
            "2",
        ),
        ("{% set n = namespace(x=1) %}{% set n.x = [n.x, 2] | map('int') | list %}{{ n.x | sum }}", "3"),
        ("{% for k, v in {'a': [1, 1 + 1]}.items() %}{{ k ~ v[1:] | first }}{% endfor %}", "a2"),
    ] {
        let got = eval(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(got.to_lowercase(), wanted, "{text}");
    }
    let reply = eval("{{ 1 + 1 + nothere + 1 }}").unwrap_err();
    assert!(reply.contains("test:1:4"), "{reply}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every text has an answer.
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

/// A namespace with a list that a loop puts into a new one, again and again.
fn nested(times: usize, step: &str, last: &str) -> String {
    format!(
        "{{% set n = namespace(s=[1]) %}}{{% for i in range({times}) %}}{{% set n.s = {step} %}}{{% endfor %}}{{{{ {last} }}}}"
    )
}

#[test]
fn values_that_go_too_deep_are_refused_where_they_are_made() {
    let deep = "lists and maps in each other";
    for step in [
        "[n.s]",
        "(n.s,)",
        "{'a': n.s}",
        "dict(a=n.s)",
        "[n.s] | list",
        "[1] | map('default', n.s) | list + [[n.s]]",
        "[1] | zip([n.s]) | list",
        "[n.s] | batch(2) | list",
        "{'a': n.s}.items() | list",
        "{'a': n.s} | dict2items",
        "[n.s] + []",
        "[n.s][0:]",
    ] {
        let text = nested(3_000, step, "n.s | to_json");
        let why = eval(&text).expect_err(step);
        assert!(why.contains(deep), "{step}: {why}");
    }
    // In files and variables a list may be as deep as YAML has it.
    assert_eq!(eval(&nested(99, "[n.s]", "n.s | to_json | length")).unwrap(), "201");
    for last in [
        "n.s | to_yaml",
        "n.s | flatten",
        "n.s == n.s",
        "[n.s] | sum(start=[])",
        "n.s",
        "n.s ~ ''",
        "n.s | string",
    ] {
        assert!(eval(&nested(99, "[n.s]", last)).is_ok(), "{last}");
    }
    // Lists that ask other lists are settled.
    for step in [
        "n.s[0:]",
        "n.s | reverse",
        "n.s * 1",
        "n.s + [i]",
        "n.s | chain([])",
        "n.s | items | list if false else n.s | list",
    ] {
        assert!(eval(&nested(2_000, step, "n.s | length")).is_ok(), "{step}");
    }
    let maps = "{% set n = namespace(s={}) %}{% for i in range(2000) %}{% set n.s = n.s | chain({'a': i}) %}{% endfor %}{{ n.s.a }}";
    assert_eq!(eval(maps).unwrap(), "1999");
}

#[test]
fn a_namespace_is_no_part_of_itself() {
    for set in ["n", "[n]", "{'a': n}", "namespace(b=n)", "m"] {
        refused(
            &format!("{{% set n = namespace() %}}{{% set m = [n] %}}{{% set n.a = {set} %}}{{{{ n }}}}"),
            "a namespace cannot be inside",
        );
    }
    assert_eq!(eval("{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}").unwrap(), "2");
}

#[test]
fn variables_that_go_deeper_one_by_one_are_refused() {
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    let node = |text: &str| {
        converge_syntax::parse_yaml(Source::new("test", text), converge_syntax::Dialect::Ansible)
            .unwrap()
            .remove(0)
    };
    scope.set("v0", crate::scope::Variable::template(node("1")));
    for at in 1..50 {
        let text = format!("{}\"{{{{ v{} }}}}\"{}", "[".repeat(20), at - 1, "]".repeat(20));
        scope.set(format!("v{at}"), crate::scope::Variable::template(node(&text)));
    }
    let found = engine.eval_value(&node("\"{{ v40 | to_json }}\""), &scope).unwrap_err().to_string();
    assert!(found.contains("goes too deep: at most 128 lists and maps"), "{found}");
    assert!(engine.eval_value(&node("\"{{ v6 | to_json }}\""), &scope).is_ok());
}

#[test]
fn each_evaluation_has_enough_of_the_stack() {
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    let node = |text: String| Node::new(text.as_str(), Span::whole(Source::new("test", text.as_str())));
    scope.set("v0", crate::scope::Variable::data(node("1".to_owned())));
    for at in 1..50 {
        let text = format!(
            "{{% macro f(n) %}}{{% if n %}}{{{{ f(n - 1) }}}}{{% else %}}{{{{ v{} }}}}{{% endif %}}{{% endmacro %}}{{{{ f(8) }}}}",
            at - 1
        );
        scope.set(format!("v{at}"), crate::scope::Variable::template(node(text)));
    }
    let deep = |text: &str, at: usize| engine.eval_value(&node(format!("{text}{{{{ v{at} }}}}")), &scope);
    assert_eq!(deep("", 49).unwrap().known().and_then(|n| n.scalar_text()).unwrap(), "1");
    let deepest = "{% macro f(n, s) %}{% if n %}{{ f(n - 1, [s]) }}{% else %}{{ s | to_json | length }}{% endif %}{% endmacro %}{{ f(12, [1]) }}";
    assert!(deep(deepest, 40).is_ok(), "{:?}", deep(deepest, 40));
}

/// Texts and values that a filter can make much of.
fn much() -> Vec<String> {
    let texts = ["a", "\\\"", "\\'", "&", "\\n", "/", "\\\\", "\u{1}", "é"]
        .map(|c| format!("(\"{c}\" * {})", BYTES / 2));
    let lists = [
        format!("[\"a\" * {}] * 1000", BYTES / 2),
        format!("{{'a': ['b' * {}] * 1000}}", BYTES / 2),
        "range(500) | list".to_owned(),
        "[[1, 2, 3]] * 300".to_owned(),
    ];
    texts.into_iter().chain(lists).collect()
}

#[test]
fn no_filter_makes_more_than_a_template_may() {
    let mut env = minijinja::Environment::new();
    let registry = crate::registry::Registry::new(&mut env);
    let mut filters = registry.filters.clone();
    filters.extend(crate::filters::FILTERS);
    for filter in filters {
        for given in much() {
            // A result of the filter, given to itself a few times.
            let again = format!(
                "{{% set n = namespace(s={given}) %}}{{% for i in range(8) %}}{{% set n.s = n.s | {filter} %}}{{% endfor %}}{{{{ n.s | length if n.s is string else 0 }}}}"
            );
            if let Ok(made) = eval(&again) {
                assert!(made.parse::<usize>().is_ok_and(|made| made <= BYTES), "{filter} of {given}: {made}");
            }
        }
    }
}

#[test]
fn templates_that_look_each_other_up_are_refused() {
    let role = tempfile::tempdir().unwrap();
    let folder = role.path().join("templates");
    std::fs::create_dir(&folder).unwrap();
    for (name, other) in [("own.j2", "own.j2"), ("a.j2", "b.j2"), ("b.j2", "a.j2")] {
        std::fs::write(folder.join(name), format!("{{{{ lookup('template', '{other}') }}}}")).unwrap();
    }
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    scope.set_files(role.path());
    for name in ["own.j2", "a.j2"] {
        let source = Source::new("test", format!("{{{{ lookup('template', '{name}') }}}}"));
        let node = Node::new(source.text(), Span::whole(source.clone()));
        let found = engine.eval_value(&node, &scope).unwrap_err().to_string();
        assert!(found.contains("look each other up without end") && found.contains(name), "{found}");
    }
}
