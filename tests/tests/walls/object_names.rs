//! An object says what it is in its own file: the crates around `objects` know few by name, each for a reason.

use super::code::without_tests;
use super::{files, is_code, root};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The crates that are read. `cluster` is the executor of the objects of clusters, `resources` maps what users write to objects.
const CRATES: [&str; 10] =
    ["resource", "store", "planner", "ledger", "executor", "host", "engine", "scenarios", "render", "cli"];

/// Objects that files know by name, or by the type of their state: the object, why its traits cannot say it, and the files.
const KNOWN: &[(&str, &str, &[&str])] = &[
    (
        "path",
        "files are the tree in which other objects lie: what is above, below and behind a link is decided by their states",
        &[
            "engine/src/plan/managed/orphans.rs",
            "engine/src/apply/goal.rs",
            "engine/src/apply/routes.rs",
            "engine/src/revert/directories.rs",
            "engine/src/revert/layers.rs",
            "engine/src/revert/made_in.rs",
            "engine/src/revert/mod.rs",
            "engine/src/revert/order.rs",
            "engine/src/revert/order/commands.rs",
            "engine/src/revert/order/links.rs",
            "ledger/src/compose.rs",
            "ledger/src/layers.rs",
            "ledger/src/lead.rs",
            "planner/src/ancestors.rs",
            "planner/src/virtual_host.rs",
            "planner/src/virtual_host/relinked.rs",
            "planner/src/virtual_host/view.rs",
        ],
    ),
    (
        "path",
        "the content of a file is read for a diff, kept for an adoption, or hidden where it is secret",
        &[
            "engine/src/revert/asked.rs",
            "engine/src/role_testing.rs",
            "host/src/records.rs",
            "planner/src/pass/ask.rs",
            "render/src/change.rs",
        ],
    ),
    ("path", "one script writes many files", &["host/src/records/group.rs"]),
    ("path", "/etc/fstab is shared line by line", &["engine/src/revert/lines.rs", "ledger/src/lines.rs"]),
    ("path", "systemd reads some files for a unit", &["engine/src/revert/order/unit.rs"]),
    ("path", "the owner and the group of a file are accounts", &["engine/src/revert/accounts.rs"]),
    ("path", "drift and scenarios of roles edit files", &["scenarios/src/drift.rs", "scenarios/src/pure.rs"]),
    ("path", "a table of places that cut off the access", &["planner/src/access.rs"]),
    ("unit", "a table of places that cut off the access", &["planner/src/access.rs"]),
    ("firewall", "a table of places that cut off the access", &["planner/src/access.rs"]),
    (
        "unit",
        "it stops before what it runs with changes, and starts after it",
        &[
            "engine/src/revert/order.rs",
            "engine/src/revert/order/commands.rs",
            "engine/src/revert/order/unit.rs",
            "engine/src/revert/restarts.rs",
            "planner/src/guard.rs",
        ],
    ),
    ("unit", "many are started by one script", &["host/src/records/units.rs"]),
    ("unit", "a role that restarts it declares no state", &["scenarios/src/drift.rs"]),
    ("unit", "its title names its action", &["render/src/change.rs"]),
    (
        "package",
        "apt says which packages go or come with which, and a package is left in any version",
        &[
            "engine/src/plan/managed.rs",
            "engine/src/plan/managed/orphans.rs",
            "engine/src/revert/mod.rs",
            "engine/src/revert/order.rs",
            "engine/src/revert/order/unit.rs",
            "engine/src/revert/package_files.rs",
            "engine/src/revert/packages.rs",
            "engine/src/revert/undo.rs",
            "planner/src/virtual_host.rs",
        ],
    ),
    ("package", "its scripts restart what runs of it", &["engine/src/revert/restarts.rs"]),
    (
        "package",
        "a test of a role leaves those that were there",
        &["scenarios/src/drift.rs", "scenarios/src/leftovers.rs"],
    ),
    (
        "package",
        "a transaction is shown as one, by versions",
        &["render/src/change.rs", "render/src/packages.rs"],
    ),
    (
        "user",
        "accounts come before what they own",
        &["engine/src/revert/accounts.rs", "engine/src/revert/order.rs"],
    ),
    (
        "group",
        "accounts come before what they own, and a group stays for its users",
        &["engine/src/revert/accounts.rs", "engine/src/revert/mod.rs", "engine/src/revert/order.rs"],
    ),
    ("group", "its attributes hold no secret", &["render/src/change.rs"]),
    ("mount", "the line of its state names the file system", &["ledger/src/layers.rs"]),
    ("mount", "asks what is mounted at a place", &["engine/src/revert/layers.rs"]),
    ("command", "its title is its text", &["render/src/change.rs"]),
    ("command", "its ID is shown where no registry is", &["resource/src/state.rs"]),
    ("condition", "its ID is shown where no registry is", &["resource/src/state.rs"]),
    ("k8s", "a place in the API is the key of its object's ID", &["resource/src/api.rs"]),
    (
        "k8s",
        "the fields of an object of the API belong to several owners: they are compared and merged by their text",
        &[
            "engine/src/apply/lane/rebind.rs",
            "engine/src/revert/admission.rs",
            "engine/src/revert/nodes.rs",
            "engine/src/revert/releases.rs",
            "engine/src/revert/releases/given.rs",
            "engine/src/revert/releases/held.rs",
            "engine/src/plan/managed/lead.rs",
            "engine/src/plan/managed/parts.rs",
            "engine/src/revert/releases/unset.rs",
            "engine/src/revert/releases/upgraded.rs",
            "engine/src/revert/sealed.rs",
            "engine/src/revert/shared.rs",
            "engine/src/revert/shared/owners.rs",
            "engine/src/revert/undo.rs",
        ],
    ),
    (
        "release",
        "a release of helm goes back with the objects of its chart, and its secret values are sealed",
        &[
            "engine/src/plan/irreversible.rs",
            "engine/src/revert/releases.rs",
            "engine/src/plan/managed/lead.rs",
            "engine/src/revert/releases/brought.rs",
            "engine/src/revert/releases/given.rs",
            "engine/src/revert/releases/taken.rs",
            "engine/src/revert/releases/upgraded.rs",
            "engine/src/revert/sealed.rs",
        ],
    ),
    ("fetched", "the controller keeps the file", &["engine/src/controller.rs"]),
    ("kubeadm", "one ID allows a node to go without a snapshot of etcd", &["engine/src/report.rs"]),
    ("k8s", "a test of a role changes fields of objects", &["scenarios/src/cluster.rs"]),
    ("workload", "a test of a role changes the pods of workloads", &["scenarios/src/cluster.rs"]),
];

/// Words that are spelt as objects and mean something else: the word, its meaning, and the files.
const OTHER_WORDS: &[(&str, &str, &[&str])] = &[
    (
        "k8s",
        "the role",
        &[
            "engine/src/doctor/cluster.rs",
            "engine/src/doctor/host.rs",
            "engine/src/doctor/tables/nodes.rs",
            "engine/src/doctor/tables/runtime.rs",
            "scenarios/src/project.rs",
        ],
    ),
    (
        "package",
        "the kind of a resource",
        &[
            "engine/src/apply/lane/beside.rs",
            "engine/src/plan/source/resolve.rs",
            "render/src/timings/advice.rs",
        ],
    ),
    ("unit", "the kind of a resource", &["render/src/timings/advice.rs"]),
    ("package", "a flavour of containerd", &["host/src/facts/containerd.rs"]),
    ("path", "a field of an answer or a document", &["host/src/facts/parse.rs", "resource/src/loaded.rs"]),
    ("mount", "a field of an answer", &["host/src/facts/parse.rs"]),
    ("user", "a field of an answer", &["engine/src/doctor.rs"]),
    (
        "user",
        "a parameter or a setting",
        &["engine/src/plan/source.rs", "cli/src/settings/file.rs", "cli/src/settings/keys.rs"],
    ),
    ("firewall", "the name of a finding", &["engine/src/doctor/host.rs"]),
    ("fetched", "a folder", &["store/src/fetched.rs"]),
    ("group", "an attribute of a path", &["scenarios/src/snapshot.rs"]),
    (
        "group",
        "a group of hosts, or of lines of a page",
        &[
            "cli/src/command/complete/values.rs",
            "cli/src/command/explain.rs",
            "cli/src/command/inventory.rs",
            "cli/src/schemas.rs",
        ],
    ),
    (
        "path",
        "a field of a document, or a type of a value",
        &["cli/src/command/explain.rs", "cli/src/schemas.rs"],
    ),
    ("command", "a word of the command line", &["cli/src/familiar.rs"]),
    ("module", "a word of the command line", &["cli/src/familiar.rs"]),
];

/// A file of examples for the pages and the snapshots.
const SAMPLES: &str = "render/src/samples.rs";

/// The use of something of `converge_objects`.
static USED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"converge_objects::(\{[^;]*?\};|\w+)").unwrap());

/// A word.
static WORDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").unwrap());

/// The place between two words of a type's name.
static HUMP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"([a-z0-9])([A-Z])").unwrap());

/// The objects that a text of Rust names: by their kind in quotes, or by what it uses of their own files and types of `converge_objects`.
fn named<'k>(text: &str, kinds: &[&'k str]) -> BTreeSet<&'k str> {
    let code = without_tests(text);
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let used: BTreeSet<String> = USED
        .captures_iter(&code)
        .flat_map(|found| WORDS.find_iter(found.get(1).unwrap().as_str()))
        .map(|word| {
            let snake = HUMP.replace_all(word.as_str(), "${1}_$2").to_lowercase();
            snake.trim_end_matches("_state").trim_end_matches("_guard").to_owned()
        })
        .collect();
    let is_quoted = |kind: &str| ["\"", ":"].iter().any(|end| code.contains(&format!("\"{kind}{end}")));
    let is_named = |kind: &&&str| used.contains(**kind) || is_quoted(kind);
    kinds.iter().filter(is_named).copied().collect()
}

#[test]
fn a_name_is_seen_in_lists_calls_and_types() {
    for (text, kind) in [
        ("const LIST: &[&str] = &[\"path\", \"git\"];", "git"),
        ("self.of(\"mount\")", "mount"),
        ("id.starts_with(\"unit:\")", "unit"),
        ("use converge_objects::{\n    UnitState,\n    object,\n};", "unit"),
        ("converge_objects::CommandGuard::Creates(_)", "command"),
        ("use converge_objects::k8s::{fields, from_text};", "k8s"),
        ("use converge_objects::KubeadmUpgradeState;", "kubeadm_upgrade"),
    ] {
        assert_eq!(
            named(text, &["command", "git", "k8s", "kubeadm_upgrade", "mount", "unit"]),
            [kind].into()
        );
    }
    let none = "// \"git\"\nuse converge_objects::{object, release_of};\n#[cfg(test)]\nmod tests { const A: &str = \"git\"; }";
    assert!(named(none, &["git", "release"]).is_empty());
}

#[test]
fn an_object_is_known_by_name_only_for_a_reason() {
    let kinds: Vec<&str> = converge_objects::objects().iter().map(|object| object.kind()).collect();
    assert!(kinds.len() > 25, "{kinds:?}");
    let crates = root().join("crates");
    let mut found = BTreeSet::new();
    for path in CRATES.iter().flat_map(|name| files(crates.join(name).join("src"), is_code)) {
        let file = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        if file != SAMPLES {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(named(&text, &kinds).into_iter().map(|kind| (kind.to_owned(), file.clone())));
        }
    }
    let rows = || KNOWN.iter().chain(OTHER_WORDS);
    let listed =
        rows().flat_map(|(kind, _, files)| files.iter().map(|file| ((*kind).to_owned(), (*file).to_owned())));
    let listed: BTreeSet<(String, String)> = listed.collect();
    assert_eq!(listed.len(), rows().map(|(.., files)| files.len()).sum::<usize>(), "one reason each");
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "an object says what it is in its own file, by its traits (crates/resource/src/object): {new:#?}"
    );
    let stale: Vec<_> = listed.difference(&found).collect();
    assert!(stale.is_empty(), "these rows are of nothing any more: {stale:#?}");
}
