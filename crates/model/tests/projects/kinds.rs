//! The real kinds: their examples, and the roles of this repository.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

use camino::Utf8Path;
use converge_model::inventory::InventorySource;
use converge_model::{
    Facts, KindCatalog, KindSpec, LOAD_KEYWORD, LoadOptions, Project, RegisteredResults, Resolution,
};
use converge_resource::Place;
use converge_resources::KINDS;
use serde_json::json;

pub fn real() -> KindCatalog {
    let mut catalog = KindCatalog::new();
    for kind in KINDS {
        catalog.insert(kind.kind, KindSpec::of(kind));
    }
    catalog
}

#[test]
fn the_keyword_for_files_is_the_one_of_the_kinds() {
    // The schemas of the kinds write it out.
    assert_eq!(LOAD_KEYWORD, "x-converge-load");
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
        let cluster = kind.places == [Place::Cluster];
        let indented: String = kind.example.lines().map(|line| format!("  {line}\n")).collect();
        // Examples name items of a role that is not shown.
        let named = ["configuration of the agent", "no login with a password", "time-slicing profiles"]
            .into_iter()
            .filter(|name| !kind.verify_only && !kind.example.contains(&format!("name: {name}")))
            .map(|name| {
                let item = if cluster { "namespace: {name: x}" } else { "directory: {path: /x}" };
                format!("  - name: {name}\n    {item}\n")
            })
            .collect::<String>();
        let scope = if cluster { "cluster" } else { "host" };
        let section = if kind.verify_only { "verify" } else { "resources" };
        let text = format!("scope: {scope}\n{section}:\n{named}{indented}");
        let mut found = converge_syntax::Diagnostics::new();
        let source = converge_syntax::Source::new("role.yaml", text);
        let role = converge_model::Role::parse("r", "roles/r".into(), source, &real(), &mut found);
        assert!(found.is_empty() && role.is_some(), "{}: {found}", kind.kind);
    }
}

/// The diagnostics of a role with the real kinds: code, label and help.
fn said_of(text: &str) -> Vec<String> {
    let mut found = converge_syntax::Diagnostics::new();
    let source = converge_syntax::Source::new("role.yaml", text);
    converge_model::Role::parse("r", "roles/r".into(), source, &real(), &mut found);
    let line = |d: &converge_syntax::Diagnostic| {
        let labels: Vec<&str> = d.labels.iter().map(|(_, text)| text.as_str()).collect();
        format!("{}: {} [{}] {}", d.code, d.message, labels.join(", "), d.help.clone().unwrap_or_default())
    };
    found.iter().map(line).collect()
}

#[test]
fn a_kind_stands_only_where_it_can_work() {
    let host = said_of("resources:\n- namespace: {name: x}\n");
    assert_eq!(
        host,
        ["wrong-scope: `namespace` is not for roles of scope `host` [works on a cluster] \
         move it to a role with `scope: cluster`, and name that role in `requires` where one must come first"]
    );
    let cluster =
        said_of("scope: cluster\nresources:\n- file: {path: /x, content: a}\n- assert: {that: true}\n");
    assert!(
        cluster
            .iter()
            .any(|reply| reply.contains("`file` is not for roles of scope `cluster` [works on a host]"))
    );
    assert!(!cluster.iter().any(|reply| reply.contains("`assert`")), "{cluster:?}");
    let unknown = said_of("scope: cluster\nresources:\n- fole: {path: /x}\n");
    assert!(
        unknown.iter().any(|reply| reply.contains("kinds there are") && !reply.contains("swap")),
        "{unknown:?}"
    );
}

#[test]
fn every_role_of_this_repository_is_right() {
    let roles = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../roles");
    let mut observed = 0;
    for entry in roles.read_dir_utf8().unwrap() {
        let dir = entry.unwrap().into_path();
        let mut found = converge_syntax::Diagnostics::new();
        let name = dir.file_name().unwrap().to_owned();
        let role = converge_model::Role::load(&name, &dir, &real(), &mut found);
        assert!(found.is_empty() && role.is_some(), "{name}: {found}");
        observed += 1;
    }
    assert!(observed >= 8, "{observed} roles");
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
    assert!(project.needs("h1").facts && !project.needs("h3").facts);
    let (connection, _) = project.connection("h2").unwrap();
    assert_eq!(connection.address, "10.77.0.12");
    assert_eq!(connection.known_hosts.as_deref().map(|files| files.len()), Some(1));

    let facts = Facts::new(["h1", "h2", "h3"].map(|host| (host.to_owned(), json!({"init": "systemd"}))));
    let mut kinds = std::collections::BTreeSet::new();
    for host in project.hosts() {
        let plan = project.host_plan(host, &facts, &RegisteredResults::new());
        for used in &plan.roles {
            for item in used.all() {
                let Resolution::Ready(ready) = used.resolve(item, &RegisteredResults::new()) else {
                    panic!("{host} {}: {:?}", item.address, used.resolve(item, &RegisteredResults::new()));
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
        let plan = project.host_plan(host, &Facts::none(), &RegisteredResults::new());
        let used = plan.role(role).unwrap();
        let item = used.all().find(|item| item.address == address).unwrap();
        match used.resolve(item, &RegisteredResults::new()) {
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
