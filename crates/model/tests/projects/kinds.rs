//! The real kinds: their examples, and the roles of this repository.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

use camino::Utf8Path;
use converge_model::inventory::InventorySource;
use converge_model::{Facts, KindCatalog, LOAD_KEYWORD, LoadOptions, Project, Registered, Resolution};
use converge_resources::KINDS;
use serde_json::json;

fn real() -> KindCatalog {
    let mut catalog = KindCatalog::new();
    for kind in KINDS {
        catalog.add(kind.kind, (kind.schema)(), kind.read_only);
    }
    catalog
}

#[test]
fn the_keyword_for_files_is_the_one_of_the_kinds() {
    assert_eq!(LOAD_KEYWORD, converge_resource::LOAD_KEYWORD);
    let template = schema_of("file", "/properties/template");
    assert!(template.to_string().contains(LOAD_KEYWORD), "{template}");
}

fn schema_of(kind: &str, pointer: &str) -> serde_json::Value {
    let schema = real().get(kind).unwrap().schema.clone();
    schema.pointer(pointer).unwrap().clone()
}

#[test]
fn examples_of_all_kinds_are_right() {
    for kind in KINDS {
        let indented: String = kind.example.lines().map(|line| format!("  {line}\n")).collect();
        // Examples name items of a role that is not shown.
        let named = ["configuration of the agent", "no login with a password"]
            .into_iter()
            .filter(|name| !kind.example.contains(&format!("name: {name}")))
            .map(|name| format!("  - name: {name}\n    directory: {{path: /x}}\n"))
            .collect::<String>();
        let text = format!("resources:\n{named}{indented}");
        let mut found = converge_syntax::Diagnostics::new();
        let source = converge_syntax::Source::new("role.yaml", text);
        let role = converge_model::Role::parse("r", "roles/r".into(), source, &real(), &mut found);
        assert!(found.is_empty() && role.is_some(), "{}: {found}", kind.kind);
    }
}

fn demo() -> Project {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options = LoadOptions {
        inventories: vec![InventorySource::Path(root.join("inventories/demo.yaml"))],
        playbook: Some(root.join("playbooks/site.yaml")),
        catalog: real(),
        ..LoadOptions::default()
    };
    Project::load(&options).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn the_demo_is_right_on_every_host() {
    let project = demo();
    assert!(project.warnings().is_empty(), "{}", project.warnings());
    assert!(project.host_errors().is_empty(), "{:?}", project.host_errors());
    assert_eq!(project.hosts(), ["h1", "h2", "h3"]);
    assert_eq!(project.roles_of("h2"), ["base", "gpu_node", "exporter"]);
    assert_eq!(project.roles_of("h3"), ["base"]);
    assert!(project.needs_facts("h1") && !project.needs_facts("h3"));
    let (connection, _) = project.connection("h2").unwrap();
    assert_eq!(connection.address, "10.77.0.12");
    assert_eq!(connection.known_hosts.as_deref().map(|files| files.len()), Some(1));

    let facts = Facts::new(["h1", "h2", "h3"].map(|host| (host.to_owned(), json!({"init": "systemd"}))));
    let mut kinds = std::collections::BTreeSet::new();
    for host in project.hosts() {
        let plan = project.host_plan(host, &facts, &Registered::new());
        for used in &plan.roles {
            for item in used.all() {
                let Resolution::Ready(ready) = used.resolve(item, &Registered::new()) else {
                    panic!("{host} {}: {:?}", item.address, used.resolve(item, &Registered::new()));
                };
                let kind = converge_resources::kind(&item.kind).unwrap();
                let parsed = (kind.parse)(&ready.params);
                let resource = parsed.unwrap_or_else(|error| panic!("{host} {}: {error:?}", item.address));
                assert_eq!(resource.validate(), [], "{host} {}", item.address);
                kinds.insert(item.kind.clone());
            }
        }
    }
    assert!(kinds.len() >= 12, "the demo shows {kinds:?}");
}

#[test]
fn the_demo_differs_between_hosts() {
    let project = demo();
    let text = |host: &str, role: &str, address: &str, pointer: &str| {
        let plan = project.host_plan(host, &Facts::none(), &Registered::new());
        let used = plan.role(role).unwrap();
        let item = used.all().find(|item| item.address == address).unwrap();
        match used.resolve(item, &Registered::new()) {
            Resolution::Ready(ready) => ready.params.pointer(pointer).unwrap().as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        text("h1", "gpu_node", "gpu_node/what the node has", "/template/text"),
        "# Made by converge.\nGPU_MODEL=A100\nGPU_COUNT=4\nGPU_DEVICES=/dev/nvidia0,/dev/nvidia1,/dev/nvidia2,/dev/nvidia3\n"
    );
    assert_eq!(
        text("h3", "base", "base/message of the day", "/template/text"),
        "h3 is run by the GPU operations team.\nIt is no GPU node.\n"
    );
    assert_eq!(
        text("h1", "base", "base/names of the fleet", "/block"),
        "10.77.0.11 h1\n10.77.0.12 h2\n10.77.0.13 h3\n"
    );
}
