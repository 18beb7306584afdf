//! Templates that take other templates: includes, imports, `extends` and `lookup('template')`.

use converge_model::vault::{DEFAULT_ID, Vault, VaultSecret, encrypt};
use serde_json::json;

use super::common::*;

fn world(text: &str) -> World {
    let world = World::new();
    world.role(
        "inputs: {port: {type: int, default: 80}}\nresources:\n  - name: t\n    file: {path: /t, template: t.j2}\n",
    );
    world.write("roles/r/templates/t.j2", text);
    world
}

#[test]
fn a_template_takes_others_of_its_role() {
    let mut world = world(
        "{% extends 'frame.j2' %}\n{% from 'parts/macros.j2' import listen %}\n{% block body %}\n{{ listen(port) }}\n\
         {% for n in [1, 2] %}\n{% include 'parts/row.j2' %}\n{% endfor %}\n{{ lookup('template', 'parts/name.j2') }}\n{% endblock %}\n",
    );
    world.write("roles/r/templates/frame.j2", "# frame\n{% block body %}{% endblock %}\n");
    world.write("roles/r/templates/parts/macros.j2", "{% macro listen(p) %}listen {{ p }}{% endmacro %}");
    // A name is looked for below `templates/` first, then beside the template that names it.
    world.write("roles/r/templates/parts/row.j2", "row {{ n }} {% include 'cell.j2' %};\n");
    world.write("roles/r/templates/parts/cell.j2", "cell");
    world.write("roles/r/templates/parts/name.j2", "{{ inventory_hostname }}:{{ port }}");
    world.options.set = vec![("port", "81").into()];
    let found = ready(&plan(&world.load(), "h2"), "r/t");
    let text = found.params["template"]["text"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["# frame", "listen 81", "row 1 cell;", "row 2 cell;", "h2:81"], "{text}");
    assert_eq!(found.inputs_used.iter().collect::<Vec<_>>(), ["port"], "through the included ones too");
    assert!(!found.sensitive);
}

#[test]
fn an_encrypted_part_makes_the_whole_a_secret() {
    for text in ["{% include 'part.j2' %}", "{{ lookup('template', 'part.j2') }}"] {
        let mut world = world(text);
        let secret = || VaultSecret::new(DEFAULT_ID, b"pw".to_vec());
        world.write("roles/r/templates/part.j2", &encrypt(b"geheim {{ port }}", &secret()).unwrap());
        world.options.vault = Vault::new(vec![secret()]);
        let project = world.load();
        // The second host has the part from a cache.
        for host in ["h1", "h2"] {
            let found = ready(&plan(&project, host), "r/t");
            assert_eq!(found.params["template"], json!({"path": "t.j2", "text": "geheim 80"}));
            assert!(found.sensitive, "{text} {host}");
        }
    }
}

#[test]
fn what_cannot_be_taken_says_where_and_why() {
    for (text, part, expected) in [
        ("{% include 'gone.j2' %}", "", vec!["t.j2:1", "gone.j2"]),
        ("{% include '../../../../etc/passwd' %}", "", vec!["t.j2:1"]),
        ("{% include '/etc/passwd' %}", "", vec!["t.j2:1"]),
        ("{% include 'Cargo.toml' %}", "", vec!["t.j2:1"]),
        ("{{ lookup('template', 'gone.j2') }}", "", vec!["there is no file", "gone.j2"]),
        ("a\n{% include 'part.j2' %}", "x\ny {{ gone }}\n", vec!["part.j2:2", "gone"]),
        ("a\n{% include 'part.j2' %}", "{% include 'part.j2' %}", vec!["part.j2"]),
    ] {
        let world = world(text);
        world.write("roles/r/templates/part.j2", part);
        let complaint = world.complaints();
        for word in expected {
            assert!(complaint.contains(word), "{text}: {complaint}");
        }
        assert!(!complaint.contains("root:"), "{complaint}");
    }
}
