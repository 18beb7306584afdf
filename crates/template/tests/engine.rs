//! Rendering nodes in scopes: native values, laziness, reach, unknowns, and errors that point.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use converge_syntax::{Diagnostics, Dialect, Node, Source, Span, parse_yaml};
use converge_template::{Evaluation, EvaluationResult, HostScopes, Scope, TemplateEngine, Variable};

fn yaml(name: &str, text: &str) -> Node {
    parse_yaml(Source::new(name, text), Dialect::Ansible).unwrap().remove(0)
}

/// A scope whose variables are the keys of a map, as in `group_vars`.
fn scope_of(engine: &TemplateEngine, text: &str) -> Scope {
    let mut scope = Scope::new(engine);
    for (name, value) in yaml("vars.yaml", text).as_map().unwrap() {
        scope.set(name.as_str().unwrap(), Variable::template(value.clone()));
    }
    scope
}

fn known(outcome: Result<Evaluation<Node>, Diagnostics>) -> EvaluationResult<Node> {
    match outcome.unwrap_or_else(|error| panic!("{error}")) {
        Evaluation::Known(evaluated) => evaluated,
        Evaluation::Unknown { names, .. } => panic!("unknown: {names:?}"),
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The diagnostic with its first place.
fn complaint(engine: &TemplateEngine, scope: &Scope, text: &str) -> String {
    engine.eval_value(&yaml("role.yaml", text), scope).unwrap_err().to_string()
}

#[test]
fn a_whole_expression_keeps_its_type_and_text_is_text() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "n: 3\nl: [1, {a: 2}]\nb: true\nnothing:\nf: 1.0\n");
    let text = "- '{{ n }}'\n- '{{ l }}'\n- '{{ b }}'\n- 'x{{ n }}'\n- '{{ nothing }}'\n- 'a{{ nothing }}b'\n\
                - plain\n- '{{ f }}/{{ b }}/{{ l }}'\n- {k: '{{ n + 1 }}', '{{ n }}': 1}\n- !unsafe '{{ n }}'\n- 0644\n";
    let value = known(engine.eval_value(&yaml("role.yaml", text), &scope)).value;
    assert_eq!(
        value.to_json().to_string(),
        r#"[3,[1,{"a":2}],true,"x3",null,"ab","plain","1.0/True/[1, {'a': 2}]",{"k":4,"{{ n }}":1},"{{ n }}",420]"#
    );
}

#[test]
fn jinja_is_set_up_as_in_ansible() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "items: [a, b]\nm: {x: 1}\n");
    let source = Source::new(
        "t.j2",
        "{% for i in items %}\n  {{ i }}&<\n{% endfor %}\n{{ m.items() | list }} {{ 'a b'.split() }}\n{{ m['x'] }}\n",
    );
    let rendered = engine.render_file(&source, &scope).unwrap().known().unwrap();
    assert_eq!(rendered, "  a&<\n  b&<\n[('x', 1)] ['a', 'b']\n1\n");
}

#[test]
fn variables_are_rendered_when_they_are_looked_up() {
    let engine = TemplateEngine::new();
    let scope = scope_of(
        &engine,
        "name: gpu\nhost: '{{ name }}-01'\nurl: 'https://{{ host }}/'\nlist: ['{{ url }}', '{{ n }}']\nn: '{{ 1 + 1 }}'\n\
         broken: '{{ nowhere }}'\n",
    );
    let got = known(engine.eval_value(&yaml("r", "'{{ list }}'"), &scope));
    assert_eq!(got.value.to_json().to_string(), r#"["https://gpu-01/",2]"#);
    assert_eq!(got.lookups, names(&["list", "url", "host", "name", "n"]));
    let again = known(engine.eval_value(&yaml("r", "'{{ list }}'"), &scope));
    assert_eq!(again.lookups, got.lookups, "a cached value is looked up all the same");
    let other = known(engine.eval_value(&yaml("r", "'{{ false and url }}'"), &scope));
    assert_eq!(other.lookups, names(&[]), "a name that is not looked up does not count");
    let default = known(engine.eval_value(&yaml("r", "\"{{ broken | default('x') }}\""), &scope));
    assert_eq!(default.value.as_str(), Some("x"), "as in Ansible");
}

#[test]
fn what_hosts_said_is_never_rendered() {
    let engine = TemplateEngine::new();
    let mut scope = scope_of(&engine, "motd: '{{ facts.motd }}'\ncopy: '{{ motd }}!'\nsecret: s3cr3t\n");
    let facts = Node::from_json(&serde_json::json!({"motd": "{{ secret }}"}), &Span::nowhere("facts"));
    scope.set("facts", Variable::data(facts));
    for (text, wanted) in [
        ("'{{ facts.motd }}'", "{{ secret }}"),
        ("'{{ motd }}'", "{{ secret }}"),
        ("'{{ copy }}'", "{{ secret }}!"),
        ("'{{ [facts.motd] | first }}'", "{{ secret }}"),
    ] {
        let got = known(engine.eval_value(&yaml("r", text), &scope));
        assert_eq!(got.value.as_str(), Some(wanted), "{text}");
        assert!(!got.lookups.contains("secret"), "{text}");
        // Even when a caller renders the result once more.
        let twice = known(engine.eval_value(&got.value, &scope));
        assert_eq!(twice.value.as_str(), Some(wanted), "{text}");
    }
}

#[test]
fn a_name_that_is_a_secret_is_not_in_an_error() {
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    scope.set_sensitive("password", Variable::template(yaml("vault", "hunter2")));
    for text in [
        "'x{% include password %}'",
        "'x{% import password as p %}'",
        "'x{% extends password %}'",
        "\"{{ ['a'] | map(password) | list }}\"",
        "\"{{ ['a'] | select(password) | list }}\"",
        "\"{{ {}[password] }}\"",
        "\"{{ {}[password].x }}\"",
    ] {
        let why = engine.eval_value(&yaml("r", text), &scope).unwrap_err().to_string();
        assert!(!why.contains("hunter2"), "{text}: {why}");
    }
    let why = engine.eval_value(&yaml("r", "'{{ password | b64encoded }}'"), &scope).unwrap_err().to_string();
    assert!(why.contains("there is no filter `b64encoded`"), "{why}");
}

#[test]
fn sensitive_variables_taint_what_reaches_them() {
    let engine = TemplateEngine::new();
    let mut scope = scope_of(&engine, "dsn: 'db:{{ password }}'\nopen: 1\n");
    scope.set_sensitive("password", Variable::template(yaml("vault", "hunter2")));
    let sensitive = |text: &str| known(engine.eval_value(&yaml("r", text), &scope)).sensitive;
    assert!(sensitive("'{{ dsn | length }}'"));
    assert!(sensitive("{a: '{{ open }}', b: '{{ password | hash }}'}"));
    assert!(!sensitive("'{{ open }}'"));
    for text in
        ["'{{ password | human_to_bytes }}'", "\"{{ dsn is version('1', '<', version_type='semver') }}\""]
    {
        let error = complaint(&engine, &scope, text);
        assert!(error.contains("reads a secret") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn unknown_is_an_outcome_and_not_an_error() {
    let engine = TemplateEngine::new();
    let mut scope =
        scope_of(&engine, "family: '{{ facts.os.family }}'\nflag: false\nlate: '{{ token.stdout }}'\n");
    scope.set("facts", Variable::Unknown);
    scope.set("token", Variable::Unknown);
    let unknown = |text: &str| match engine.eval_value(&yaml("r", text), &scope).unwrap() {
        Evaluation::Unknown { names, .. } => names,
        Evaluation::Known(evaluated) => panic!("{text}: {evaluated:?}"),
    };
    assert_eq!(unknown("'{{ family }}'"), names(&["facts"]));
    assert_eq!(unknown("{a: 'x{{ facts.a }}', b: '{{ late }}'}"), names(&["facts", "token"]));
    assert_eq!(unknown("\"{{ facts.a | default('x') }}\""), names(&["facts"]), "a default does not hide it");
    assert_eq!(unknown("'{{ token is defined }}'"), names(&["token"]));
    let bool_of = |text: &str| engine.eval_bool(&yaml("r", text), &scope).unwrap().known();
    assert_eq!(bool_of("flag and facts.a"), Some(false), "what is not looked up is not missed");
    assert_eq!(bool_of("[facts.a == 1, flag]"), Some(false), "one that fails decides");
    assert_eq!(bool_of("[not flag, facts.a == 1]"), None);
    let failed = engine.eval_value(&yaml("r", "['{{ facts.a }}', '{{ nope }}']"), &scope).unwrap_err();
    assert!(failed.to_string().contains("`nope` is undefined"), "errors come before what is unknown");
}

#[test]
fn conditions() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "a: 1\nyes_text: 'yes'\nl: []\n");
    let check = |text: &str| {
        engine
            .eval_bool(&yaml("role.yaml", text), &scope)
            .map(|outcome| outcome.known())
            .map_err(|e| e.to_string())
    };
    for (text, wanted) in [
        ("a == 1", true),
        ("true", true),
        ("a is defined and a > 2", false),
        ("nope is defined", false),
        ("'{{ a == 1 }}'", true),
        ("yes_text | bool", true),
        ("[a == 1, a < 2]", true),
        ("[a == 1, a > 2]", false),
        ("'''x'' in l'", false),
    ] {
        assert_eq!(check(text), Ok(Some(wanted)), "{text}");
    }
    for (text, words) in [
        ("nope", "`nope` is undefined"),
        ("yes_text", "the condition is a string, not a boolean"),
        ("l", "the condition is a sequence, not a boolean"),
        ("a", "the condition is a number, not a boolean"),
        ("'x {{ a }}'", "not text with"),
        ("{a: 1}", "a condition is an expression or a boolean, not a map"),
        ("3", "not an integer"),
        ("a ==", "invalid template"),
    ] {
        let error = check(text).expect_err(text);
        assert!(error.contains(words) && error.contains("role.yaml:1:"), "{text}: {error}");
    }
}

#[test]
fn circles_are_errors_that_show_the_chain() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "a: '{{ b }}'\nb: 'x{{ c }}'\nc: '{{ a }}'\nself: '{{ self }}'\n");
    let error = complaint(&engine, &scope, "'{{ a }}'");
    assert!(error.contains("in a circle: a → b → c → a"), "{error}");
    for place in
        ["vars.yaml:1:4: refers to `b`", "vars.yaml:2:4: refers to `c`", "vars.yaml:3:4: refers to `a`"]
    {
        assert!(error.contains(place), "{error}");
    }
    assert!(complaint(&engine, &scope, "'{{ self }}'").contains("self → self"));
    assert!(
        complaint(&engine, &scope, "\"{{ a | default('x') }}\"").contains("circle"),
        "a default does not hide it"
    );
    let chain: String = (0..200).map(|n| format!("v{n}: '{{{{ v{} }}}}'\n", n + 1)).collect();
    let deep = scope_of(&engine, &format!("{chain}v200: 1\n"));
    assert!(complaint(&engine, &deep, "'{{ v0 }}'").contains("too deeply"));
}

#[test]
fn errors_point_into_the_yaml_and_suggest() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "gpu_replicas: 4\ngpu: {memory: 80}\ninner: '{{ gpu_replica }}'\n");
    for (text, words) in [
        (
            "a: {{x}}\n".replace("{{x}}", "'{{ gpu_replica }}'").as_str(),
            "`gpu_replica` is undefined\n  --> role.yaml:1:8\n  help: did you mean `gpu_replicas`?",
        ),
        ("a: 'n={{ gpu_replica }}'", "`gpu_replica` is undefined\n  --> role.yaml:1:10"),
        ("a: plain {{ gpu_replica }}", "--> role.yaml:1:13"),
        (
            "a: '{{ gpu.memry }}'",
            "`gpu.memry` is undefined\n  --> role.yaml:1:8\n  help: did you mean `gpu.memory`?",
        ),
        ("a: '{{ gpu_replicas | defualt(1) }}'", "there is no filter `defualt`"),
        ("a: '{{ gpu_replicas | defualt(1) }}'", "help: did you mean `default`?"),
        ("a: '{{ gpu_replicas is defind }}'", "there is no test `defind`"),
        ("a: \"{{ lookup('evn', 'X') }}\"", "there is no lookup `evn`"),
        ("a: '{{ (1 }}'", "error[template-syntax]"),
        ("a: |\n  first\n  n={{ gpu_replica }}\n", "--> role.yaml:3:8"),
        ("a: >-\n  first\n  n={{ gpu_replica }}\n", "--> role.yaml:3:8"),
        (
            "a: '{{ inner }}'",
            "`gpu_replica` is undefined\n  --> vars.yaml:3:12\n      role.yaml:1:8: used here, through `inner`",
        ),
        ("a: '{% for i in nope %}{% endfor %}'", "`nope` is undefined\n  --> role.yaml:1:17"),
        ("a: '{{ [1, gpu.x] }}'", "undefined"),
    ] {
        let error = complaint(&engine, &scope, text);
        assert!(error.contains(words), "{text}\n{error}");
    }
    let both = complaint(&engine, &scope, "[{a: '{{ x1 }}'}, '{{ x2 }}']");
    assert!(both.contains("`x1`") && both.contains("`x2`"), "several at once: {both}");
}

#[test]
fn a_method_of_a_value_that_is_none_names_the_value() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "facts: {kubelet: {version: null}}\n");
    let error = |text: &str| engine.render_file(&Source::new("t.j2", text), &scope).unwrap_err().to_string();
    let reply = error("{{ facts.kubelet.version.split('.')[1] | int }}");
    let words = "`facts.kubelet.version` is none, and none has no method `split`\n  --> t.j2:1:";
    assert!(reply.contains(words) && reply.contains("is not none"), "{reply}");
    let reply = error("{{ (facts.kubelet.version or none).split('.') }}");
    assert!(reply.contains("is none, and none has no method `split`"), "{reply}");
}

#[test]
fn errors_in_a_template_file_point_into_it() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "a: 1\n");
    let error = |text: &str| engine.render_file(&Source::new("t.j2", text), &scope).unwrap_err().to_string();
    assert!(error("one\n{{ a }}\n  {{ nope }}\n").contains("`nope` is undefined\n  --> t.j2:3:6"));
    assert!(error("one\n{% if a %}\n").contains("--> t.j2:"));
    assert!(error("{{ a | no_filter }}").contains("t.j2:1:8"));
    let endless = "{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}";
    assert!(error(endless).contains("takes too many steps"));
    assert!(error("{% include 'x' %}").contains("cannot be included"));
}

#[test]
fn omit_leaves_a_key_out() {
    let engine = TemplateEngine::new();
    let scope = scope_of(&engine, "owner: root\n");
    let text =
        "{owner: '{{ owner | default(omit) }}', mode: '{{ mode | default(omit) }}', l: ['{{ omit }}', 1]}";
    let got = known(engine.eval_value(&yaml("r", text), &scope)).value;
    assert_eq!(got.to_json().to_string(), r#"{"owner":"root","l":[1]}"#);
}

#[test]
fn references_are_the_variables_that_are_read() {
    let engine = TemplateEngine::new();
    let node = yaml(
        "r",
        "{a: '{{ facts.os.family }}', b: ['x {{ token.stdout | default(d) }}'], c: plain facts, d: !unsafe '{{ no }}', \
          e: \"{% for i in list %}{{ i }}{{ range(3) }}{% endfor %}\"}",
    );
    assert_eq!(
        engine.references(&node),
        names(&["facts", "facts.os.family", "token", "token.stdout", "d", "list"])
    );
    let condition = yaml("r", "[facts.a == 1, flag]");
    assert_eq!(engine.condition_references(&condition), names(&["facts", "facts.a", "flag"]));
    assert_eq!(engine.file_references(&Source::new("t", "{{ x.y }}")), names(&["x", "x.y"]));
}

#[test]
fn a_changed_clone_renders_what_depends_on_the_change_anew() {
    let engine = TemplateEngine::new();
    let mut base = scope_of(&engine, "name: '{{ item }}-{{ fixed }}'\nfixed: '{{ 1 + 1 }}'\nitem: base\n");
    let show = |scope: &Scope| known(engine.eval_value(&yaml("r", "'{{ name }}'"), scope)).value;
    assert_eq!(show(&base).as_str(), Some("base-2"));
    for item in ["a", "b"] {
        let mut child = base.clone();
        child.set("item", Variable::data(yaml("for_each", item)));
        assert_eq!(show(&child).as_str(), Some(format!("{item}-2").as_str()));
    }
    assert_eq!(show(&base).as_str(), Some("base-2"), "the base keeps its own");
    base.set("fixed", Variable::template(yaml("r", "3")));
    assert_eq!(show(&base).as_str(), Some("base-3"));
}

#[test]
fn variables_of_other_hosts() {
    struct Hosts(TemplateEngine);
    impl HostScopes for Hosts {
        fn names(&self) -> Vec<String> {
            vec!["gpu1".to_owned(), "gpu2".to_owned()]
        }
        fn scope(&self, host: &str) -> Option<Scope> {
            let mut scope = scope_of(&self.0, "ip: '10.0.0.{{ n }}'\n");
            scope.set("n", Variable::data(yaml("n", host.strip_prefix("gpu")?)));
            scope.set_sensitive("key", Variable::data(yaml("key", "s3cr3t")));
            scope.set("facts", Variable::Unknown);
            Some(scope)
        }
    }
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    scope.set("hostvars", Variable::Hosts(Arc::new(Hosts(engine.clone()))));
    let got = known(engine.eval_value(&yaml("r", "\"{{ hostvars['gpu2'].ip }}\""), &scope));
    assert_eq!(got.value.as_str(), Some("10.0.0.2"));
    assert_eq!(got.lookups, names(&["hostvars", "hostvars.gpu2.ip", "hostvars.gpu2.n"]));
    assert!(!got.sensitive);
    assert!(known(engine.eval_value(&yaml("r", "'{{ hostvars.gpu1.key }}'"), &scope)).sensitive);
    let all = known(engine.eval_value(&yaml("r", "'{{ hostvars | list }}'"), &scope));
    assert_eq!(all.value.to_json(), serde_json::json!(["gpu1", "gpu2"]));
    match engine.eval_value(&yaml("r", "'{{ hostvars.gpu1.facts.os }}'"), &scope).unwrap() {
        Evaluation::Unknown { names: unknown, .. } => assert_eq!(unknown, names(&["hostvars.gpu1.facts"])),
        Evaluation::Known(evaluated) => panic!("{evaluated:?}"),
    }
    assert!(complaint(&engine, &scope, "'{{ hostvars.cpu1.ip }}'").contains("undefined"));
}

#[test]
fn lookups() {
    let engine = TemplateEngine::new();
    let role = tempfile::tempdir().unwrap();
    std::fs::create_dir(role.path().join("files")).unwrap();
    std::fs::write(role.path().join("files/key.pub"), "ssh-ed25519 AAAA\n\n").unwrap();
    let mut scope = Scope::new(&engine);
    scope.set_files(role.path());
    let got = known(engine.eval_value(&yaml("r", "\"{{ lookup('file', 'key.pub') }}\""), &scope));
    assert_eq!(got.value.as_str(), Some("ssh-ed25519 AAAA"));
    assert_eq!(got.lookups, names(&["lookup.file.key.pub"]));
    let raw =
        known(engine.eval_value(&yaml("r", "\"{{ lookup('file', 'key.pub', rstrip=false) }}\""), &scope));
    assert_eq!(raw.value.as_str(), Some("ssh-ed25519 AAAA\n\n"));
    assert!(complaint(&engine, &scope, "\"{{ lookup('file', 'no') }}\"").contains("there is no file"));
    // Cargo sets this one for every test.
    let env = known(engine.eval_value(&yaml("r", "\"{{ query('env', 'CARGO_PKG_NAME') }}\""), &scope));
    assert_eq!(env.value.to_json(), serde_json::json!(["converge-template"]));
    assert_eq!(env.lookups, names(&["lookup.env.CARGO_PKG_NAME"]));
    let none = known(
        engine.eval_value(&yaml("r", "\"{{ lookup('env', 'NO_SUCH_NAME_HERE', default='d') }}\""), &scope),
    );
    assert_eq!(none.value.as_str(), Some("d"));
}

/// The value and the error of a text that was compiled before are those of its present surroundings.
#[test]
fn a_text_that_was_compiled_before_is_evaluated_and_explained_anew() {
    let engine = TemplateEngine::new();
    let texts = [
        "a: '{{ v }}'",
        "a: 'x={{ v }}'",
        "a: '{{ v.w.x | default(1) }}{{ v }}'",
        r"a: '{{ v | upper }} \1'",
    ];
    for (name, vars) in
        [("one.yaml", "v: 1"), ("two.yaml", "v: [2]"), ("three.yaml", "w: 1"), ("four.yaml", "v: '{{ u }}'")]
    {
        for text in texts {
            let outcome = |engine: &TemplateEngine| {
                let made = engine.eval_value(&yaml(name, text), &scope_of(engine, vars));
                made.map(|made| (made.lookups().clone(), made.known().map(|node| node.to_json())))
                    .map_err(|why| why.to_string())
            };
            assert_eq!(outcome(&engine), outcome(&TemplateEngine::new()), "{name}: {text}");
        }
    }
}
