//! Filters, tests and lookups against the real Ansible.
//!
//! `tests/ansible/*.txt` hold expressions, one a line, a file for each family; `tests/ansible/expected.json` holds what ansible-core made of
//! them. The table is always checked. Where `CONVERGE_ANSIBLE_VENV` names a Python virtual environment with `ansible-core` (the test command
//! of the workspace makes it), the real Ansible is asked again; `CONVERGE_WRITE_TABLE=1` writes its answers down.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use converge_syntax::{Node, Source, Span};
use converge_template::{Scope, TemplateEngine, Variable};
use serde_json::{Value as Json, json};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ansible"))
}

/// The variables of the expressions.
fn variables() -> Json {
    json!({
        "inventory_hostname": "gpu01",
        "empty": {},
        "host": {"name": "gpu01", "disks": [{"dev": "sda", "size": 10}, {"dev": "sdb", "size": 20}]},
        "users": [
            {"name": "ann", "groups": ["adm", "sudo"], "uid": 1000},
            {"name": "bob", "groups": ["adm"], "uid": 1001},
        ],
        "nested": {"a": {"b": {"c": 1}}},
        "text": "The quick brown fox\njumps over\n",
    })
}

fn families() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some(family) = name.strip_suffix(".txt") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            all.insert(family.to_owned(), lines.map(str::to_owned).collect());
        }
    }
    all
}

/// Evaluates an expression with this engine.
fn converge(engine: &TemplateEngine, scope: &Scope, expression: &str) -> Json {
    let source = Source::new("expression", format!("{{{{ {expression} }}}}"));
    let node = Node::new(source.text(), Span::whole(source.clone()));
    match engine.eval_value(&node, scope) {
        Ok(outcome) => json!({"value": outcome.known().unwrap().to_json()}),
        Err(_) => json!({"error": true}),
    }
}

/// Numbers are equal where they differ by rounding in the last place.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn asked(venv: &str, expressions: &[&String]) -> Vec<Json> {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(format!("{venv}/bin/python"))
        .arg(folder().join("ansible_table.py"))
        .env("ANSIBLE_HOME", home.path())
        .env("HOME", home.path())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let task = json!({"variables": variables(), "expressions": expressions});
    child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn expressions_come_to_what_ansible_makes_of_them() {
    let families = families();
    let expressions: Vec<&String> = families.values().flatten().collect();
    assert!(families.len() >= 8 && expressions.len() >= 200, "{} expressions", expressions.len());
    let path = folder().join("expected.json");
    let mut expected: BTreeMap<String, Json> = std::fs::read_to_string(&path)
        .map_or_else(|_| BTreeMap::new(), |text| serde_json::from_str(&text).unwrap());
    match std::env::var("CONVERGE_ANSIBLE_VENV") {
        Ok(venv) => {
            let answers = asked(&venv, &expressions);
            let fresh: BTreeMap<String, Json> =
                expressions.iter().map(|expression| (*expression).clone()).zip(answers).collect();
            if std::env::var("CONVERGE_WRITE_TABLE").is_ok() {
                std::fs::write(&path, format!("{:#}\n", json!(fresh))).unwrap();
                expected = fresh;
            } else {
                assert_eq!(
                    json!(expected),
                    json!(fresh),
                    "the real Ansible answers differently: write the table anew"
                );
            }
        }
        Err(_) => {
            assert!(
                std::env::var("CI").is_err(),
                "CONVERGE_ANSIBLE_VENV is not set: Ansible must be there to compare with"
            );
            let skipped = "SKIPPED: CONVERGE_ANSIBLE_VENV is not set, Ansible was not asked again; its recorded answers count";
            writeln!(std::io::stderr(), "\n*** {skipped} ***\n").unwrap();
        }
    }
    let engine = TemplateEngine::new();
    let mut scope = Scope::new(&engine);
    let span = Span::nowhere("variables");
    for (name, value) in variables().as_object().unwrap() {
        scope.set(name.as_str(), Variable::data(Node::from_json(value, &span)));
    }
    let mut wrong = Vec::new();
    for (family, expressions) in &families {
        for expression in expressions {
            let (wanted, got) = (&expected[expression], converge(&engine, &scope, expression));
            if !same(wanted, &got) {
                wrong.push(format!("{family}: {expression}\n  Ansible: {wanted}\n  ours:    {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}
