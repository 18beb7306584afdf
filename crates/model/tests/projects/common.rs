//! Projects in temporary folders, and a catalog of kinds that replaces the real one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

use camino::{Utf8Path, Utf8PathBuf};
use converge_model::inventory::InventorySource;
use converge_model::{
    DeclaredItem, Facts, HostDeclarations, KindCatalog, LoadOptions, Project, Ready, RegisteredResults,
    Resolution,
};
use converge_syntax::Diagnostics;
use serde_json::{Value as Json, json};

pub struct World {
    folder: tempfile::TempDir,
    pub options: LoadOptions,
}

/// The schemas have the shape that schemars gives them.
pub fn catalog() -> KindCatalog {
    let mut catalog = KindCatalog::new();
    let object = |properties: Json, required: Json| json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required});
    catalog.add(
        "file",
        object(
            json!({
                "path": {"type": "string"},
                "content": {"type": ["string", "null"]},
                "template": {"type": ["string", "null"], "x-converge-load": "template"},
                "source": {"anyOf": [{"type": "string", "x-converge-load": "source"}, {"type": "null"}]},
                "mode": {"type": ["string", "null"]},
            }),
            json!(["path"]),
        ),
        false,
    );
    catalog.add(
        "package",
        object(
            json!({"name": {"type": ["string", "array"], "items": {"type": "string"}}, "hold": {"type": ["boolean", "null"]}}),
            json!(["name"]),
        ),
        false,
    );
    catalog.add(
        "release",
        object(
            json!({
                "name": {"type": "string"},
                "login": {"anyOf": [{"type": "object", "x-converge-unrecorded": true}, {"type": "null"}]},
            }),
            json!(["name"]),
        ),
        false,
    );
    catalog.add(
        "service",
        object(
            json!({
                "name": {"type": "string"},
                "state": {"enum": ["started", "stopped"]},
                "restart_on": {"type": "array", "items": {"type": "string"}},
            }),
            json!(["name"]),
        ),
        false,
    );
    catalog.add(
        "command",
        object(
            json!({
                "run": {"type": "string"},
                "unless": {"type": "string"},
                "on_change": {"type": ["array", "null"], "items": {"type": "string"}},
                "timeout": {"type": ["integer", "null"], "minimum": 0},
            }),
            json!(["run"]),
        ),
        false,
    );
    catalog.add("query", object(json!({"run": {"type": "string"}}), json!(["run"])), true);
    catalog.add("assert", object(json!({"that": {"type": ["string", "boolean"]}}), json!(["that"])), true);
    catalog
}

impl World {
    /// An empty project with hosts h1 to h3, of which h1 and h2 are in `gpu`.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { folder, options: LoadOptions { catalog: catalog(), ..LoadOptions::default() } };
        world.write(
            "inventories/lab.yaml",
            "all:\n  hosts: {h1: , h2: , h3: }\n  children:\n    gpu: {hosts: {h1: , h2: }}\n",
        );
        let mut world = world;
        world.options.inventories = vec![InventorySource::Path(world.path("inventories/lab.yaml"))];
        world
    }

    pub fn path(&self, path: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A role, and a playbook that gives it to all hosts.
    pub fn role(&self, text: &str) {
        self.write("roles/r/role.yaml", text);
        self.write("playbooks/site.yaml", "- hosts: all\n  roles: [r]\n");
    }

    pub fn try_load(&self) -> Result<Project, Diagnostics> {
        Project::load(&self.options)
    }

    pub fn load(&self) -> Project {
        let project = self.try_load().unwrap_or_else(|found| panic!("{}", self.text(&found)));
        if let Some((host, found)) = project.host_errors().first_key_value() {
            panic!("{host}: {}", self.text(found));
        }
        project
    }

    /// Diagnostics as text, with paths from the project's folder.
    pub fn text(&self, found: &Diagnostics) -> String {
        found.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// All diagnostics of a project that cannot be loaded, or of its hosts.
    pub fn complaints(&self) -> String {
        match self.try_load() {
            Err(found) => self.text(&found),
            Ok(project) => {
                let hosts = project.host_errors().iter();
                hosts.map(|(host, found)| format!("{host}: {}\n", self.text(found))).collect()
            }
        }
    }
}

/// The declarations of a host about which nothing is known.
pub fn plan(project: &Project, host: &str) -> HostDeclarations {
    project.host_plan(host, &Facts::none(), &RegisteredResults::new())
}

pub fn item<'p>(plan: &'p HostDeclarations, address: &str) -> &'p DeclaredItem {
    let all: Vec<&str> =
        plan.roles.iter().flat_map(|used| used.all()).map(|item| item.address.as_str()).collect();
    plan.roles
        .iter()
        .flat_map(|used| used.all())
        .find(|item| item.address == address)
        .unwrap_or_else(|| panic!("no {address} among {all:?}"))
}

pub fn resolve(plan: &HostDeclarations, address: &str, registered: &RegisteredResults) -> Resolution {
    let item = item(plan, address);
    plan.role(&item.role).unwrap().resolve(item, registered)
}

pub fn ready(plan: &HostDeclarations, address: &str) -> Ready {
    match resolve(plan, address, &RegisteredResults::new()) {
        Resolution::Ready(ready) => *ready,
        other => panic!("{address}: {other:?}"),
    }
}
