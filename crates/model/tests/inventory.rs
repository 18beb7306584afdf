//! Inventories from files: origins of variables, errors with their places, refused input, limits.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use converge_model::inventory::{Inventory, InventoryLayer, InventorySource, is_encrypted};
use converge_model::vault::Vault;
use converge_syntax::{Diagnostics, Node, Severity, Span};
use proptest::prelude::*;

fn fixture(path: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/inventory")).join(path)
}

fn load_fixture(path: &str) -> Inventory {
    Inventory::load(&[InventorySource::Path(fixture(path))], None, &Vault::default()).unwrap().0
}

/// A directory with files in it.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = folder.path(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.0.path()).unwrap().join(name)
    }

    fn load(&self, names: &[&str]) -> Result<(Inventory, Diagnostics), Diagnostics> {
        let sources: Vec<_> = names.iter().map(|name| InventorySource::Path(self.path(name))).collect();
        Inventory::load(&sources, None, &Vault::default())
    }

    /// Severity, code and place of every diagnostic; the place is `FILE:LINE`.
    fn complaints(&self, found: &Diagnostics) -> Vec<(Severity, &'static str, String)> {
        let place = |span: &Span| {
            let name = span.source.name().strip_prefix(self.path("").as_str()).unwrap_or(span.source.name());
            format!("{name}:{}", span.line())
        };
        found.iter().map(|d| (d.severity, d.code, d.span().map(place).unwrap_or_default())).collect()
    }
}

fn errors_of(files: &[(&str, &str)], name: &str) -> Vec<(&'static str, String)> {
    let files = Files::new(files);
    let found = match files.load(&[name]) {
        Ok((_, warnings)) => warnings,
        Err(found) => found,
    };
    assert!(found.iter().all(|d| d.code == "syntax" || d.help.is_some()), "{found}");
    files
        .complaints(&found)
        .into_iter()
        .filter(|(severity, ..)| *severity == Severity::Error)
        .map(|(_, code, place)| (code, place))
        .collect()
}

#[test]
fn every_candidate_names_its_layer_and_place() {
    let inventory = load_fixture("07_vars_files/hosts.yaml");
    let who: Vec<String> = inventory
        .host_vars("w1")
        .iter()
        .filter(|candidate| candidate.name == "who")
        .map(|candidate| {
            let file = candidate.node.span.source.name().rsplit('/').next().unwrap().to_owned();
            let text = candidate.node.as_str().unwrap();
            format!(
                "{}: {text} ({file}:{}:{})",
                candidate.layer,
                candidate.node.span.line(),
                candidate.key.text()
            )
        })
        .collect();
    assert_eq!(
        who,
        [
            "group all: inline all (hosts.yaml:2:who)",
            "group web: inline web (hosts.yaml:8:who)",
            "group all: file all (all.yml:1:who)",
            "group web: file web (web.yaml:1:who)",
            "host: inline host (hosts.yaml:6:who)",
            "host: file host (w1.yml:1:who)",
        ]
    );
    let winner = inventory.merged_vars("w1");
    assert_eq!(winner["who"].layer, InventoryLayer::Host);
    assert_eq!(winner["nested"].layer, InventoryLayer::Group("web".to_owned()));
    assert!(inventory.host_vars("nobody").is_empty());
}

#[test]
fn magic_variables() {
    let inventory = load_fixture("13_many_groups/hosts.yaml");
    assert_eq!(inventory.groups_of("n3"), ["amd", "dc1", "gpu", "k8s", "maintenance", "nvidia", "prod"]);
    let groups = inventory.groups_map();
    assert_eq!(groups["nvidia"], ["n1", "n3", "n5"]);
    assert_eq!(groups["all"].len(), 6);
    assert!(groups["ungrouped"].is_empty());
    assert_eq!(inventory.group("k8s").unwrap().depth(), 1);
    assert_eq!(inventory.group("gpu").unwrap().span().unwrap().line(), 3);
}

#[test]
fn an_implicit_localhost_is_local() {
    let inventory = load_fixture("05_nested_yaml/hosts.yaml");
    let selection = inventory.select(&Node::new("localhost", Span::nowhere("test"))).unwrap();
    assert_eq!(selection.hosts, ["localhost"]);
    let vars = inventory.merged_vars("localhost");
    assert_eq!(vars["ansible_connection"].node.as_str(), Some("local"));
    assert_eq!(vars["level"].layer, InventoryLayer::Group("all".to_owned()));
}

#[test]
fn yaml_complaints_come_all_at_once() {
    let text = "\
all:
  hosts:
    - web1
  vars: [a, b]
  children:
    web:
      hosts:
        web[1:: {}
";
    assert_eq!(errors_of(&[("hosts.yaml", text)], "hosts.yaml").len(), 3);
    let text = "\
all:
  hosts:
    web[3:1]:
    12:
    w1: text
  children:
    a: {children: {b: {children: {a: }}}}
    c: 5
    d: {vars: {ansible_group_priority: high}}
  vars:
    1: x
";
    assert_eq!(
        errors_of(&[("hosts.yaml", text)], "hosts.yaml"),
        [
            ("bad-range", "hosts.yaml:3".to_owned()),
            ("bad-host", "hosts.yaml:4".to_owned()),
            ("bad-host", "hosts.yaml:5".to_owned()),
            ("group-cycle", "hosts.yaml:7".to_owned()),
            ("bad-group", "hosts.yaml:8".to_owned()),
            ("bad-priority", "hosts.yaml:9".to_owned()),
        ]
    );
}

#[test]
fn complaints_of_several_files_come_together() {
    let files = [
        ("inv/hosts", "[web]\nw1\n[web:children]\nweb\n[web:oops]\n"),
        ("inv/more.yml", "all: {hosts: {w2: 1}}\n"),
        ("inv/group_vars/web.yml", "- a\n"),
        ("inv/host_vars/w1/x.yml", "a: 1\na: 2\n"),
        ("inv/host_vars/w2.yml", "a: [1\n"),
    ];
    assert_eq!(
        errors_of(&files, "inv"),
        [
            ("group-cycle", "inv/hosts:4".to_owned()),
            ("bad-section", "inv/hosts:5".to_owned()),
            ("bad-host", "inv/more.yml:1".to_owned()),
            ("bad-vars-file", "inv/group_vars/web.yml:1".to_owned()),
            ("syntax", "inv/host_vars/w2.yml:1".to_owned()),
        ]
    );
}

#[test]
fn a_file_of_variables_counts_where_a_host_has_it() {
    let files = Files::new(&[
        ("hosts", "[web]\nw1\n[db]\nd1\n[nobody]\n"),
        ("group_vars/all.yml", "a: 1\na: 2\n"),
        ("group_vars/db.yml", "- a\n"),
        ("group_vars/nobody.yml", "b: [\n"),
        ("host_vars/d1.yml", "c: !mine x\n"),
    ]);
    let source = InventorySource::Path(files.path("hosts"));
    let (inventory, warnings) = Inventory::read(&[source], None, &Vault::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let of = |hosts: &[&str]| -> Vec<&'static str> {
        inventory.problems_of(hosts.iter().copied()).iter().map(|d| d.code).collect()
    };
    assert_eq!(of(&["w1"]), ["duplicate-key"]);
    assert_eq!(of(&["d1"]), ["duplicate-key", "bad-vars-file", "unknown-tag"]);
    assert_eq!(of(&["w1", "d1"]), ["duplicate-key", "bad-vars-file", "unknown-tag"]);
    assert_eq!(inventory.problems().len(), 4);
    assert_eq!(inventory.merged_vars("w1")["a"].node.to_json(), serde_json::json!(2));
}

#[test]
fn all_below_a_group_is_a_cycle() {
    let found = errors_of(&[("h.yml", "web: {children: {all: }}\n")], "h.yml");
    assert_eq!(found, [("group-cycle", "h.yml:1".to_owned())]);
}

#[test]
fn warnings_do_not_stop() {
    let files = Files::new(&[
        (
            "h.yml",
            "all:\n  host: {a: }\n  hosts: {web: , b: {with-dash: 1}}\nversion: 2\nweb: {}\nk8s-nodes: {}\n",
        ),
        ("group_vars/web/a.yml", "a: 1\n"),
        ("group_vars/web.yml", "a: 2\n"),
    ]);
    let (inventory, warnings) = files.load(&["h.yml"]).unwrap();
    let codes: Vec<&str> = warnings.iter().map(|d| d.code).collect();
    assert_eq!(
        codes,
        ["unknown-section", "bad-variable-name", "not-a-group", "host-is-group", "group-name", "unused-file"]
    );
    assert_eq!(inventory.hosts().count(), 2);
    assert!(warnings.to_string().contains("did you mean `hosts`?"));
}

#[test]
fn formats_are_recognized_by_name_and_content() {
    let hosts = |name: &str, text: &str| -> Result<Vec<String>, String> {
        let files = Files::new(&[(name, text)]);
        let (inventory, _) =
            files.load(&[name]).map_err(|found| found.iter().map(|d| d.code).collect::<String>())?;
        Ok(inventory.hosts().map(|host| host.name().to_owned()).collect())
    };
    let yaml = "all: {hosts: {a: }}\n";
    assert_eq!(hosts("x", yaml), Ok(vec!["a".to_owned()]));
    assert_eq!(hosts("x", "a\nb\n"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(hosts("x", "[g]\na x=1\n"), Ok(vec!["a".to_owned()]));
    assert_eq!(hosts("x.yml", "[g]\na x=1\n"), Ok(vec!["a".to_owned()]));
    assert_eq!(hosts("x.yml", ""), Ok(vec![]));
    assert_eq!(hosts("x.ini", yaml), Err("bad-variablebad-variablebad-variablebad-host".to_owned()));
    assert_eq!(hosts("x.yml", "- a\n"), Err("bad-inventory".to_owned()));
    assert_eq!(hosts("x", "all:\n  hosts: {a: }\n bad\n"), Err("syntax".to_owned()));
    assert_eq!(hosts("x", "[web\na\n"), Err("bad-range".to_owned()));
    assert_eq!(hosts("x.toml", "[all]\n"), Err("toml-inventory".to_owned()));
    assert_eq!(hosts("x.yml", "plugin: amazon.aws.aws_ec2\n"), Err("inventory-plugin".to_owned()));
    assert_eq!(hosts("x.yml", "$ANSIBLE_VAULT;1.1;AES256\n3333\n"), Err("vault".to_owned()));
    assert_eq!(hosts("x.yml", "all: {}\n---\nall: {}\n"), Err("several-documents".to_owned()));
}

#[test]
fn programs_are_not_run() {
    let files = Files::new(&[("script", "#!/bin/sh\ntouch ran\n"), ("plain", "a\n")]);
    for name in ["script", "plain"] {
        std::fs::set_permissions(files.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let error = files.load(&["script"]).unwrap_err();
    assert_eq!(files.complaints(&error), [(Severity::Error, "inventory-script", "script:1".to_owned())]);
    assert!(!files.path("ran").exists());
    // Without `#!` it is text, whatever its mode.
    assert_eq!(files.load(&["plain"]).unwrap().0.hosts().count(), 1);
}

#[test]
fn a_missing_inventory_may_be_a_host() {
    let error =
        Inventory::load(&[InventorySource::from_argument("gpu01")], None, &Vault::default()).unwrap_err();
    assert!(error.to_string().contains("write `gpu01,` with a comma"), "{error}");
    let sources = [InventorySource::from_argument("gpu01,gpu02:2222")];
    let (inventory, _) = Inventory::load(&sources, None, &Vault::default()).unwrap();
    assert_eq!(inventory.merged_vars("gpu02")["ansible_port"].node.as_i64(), Some(2222));
    assert_eq!(inventory.host("gpu02").unwrap().span().text(), "gpu02:2222");
}

#[test]
fn encrypted_values_are_read_and_known() {
    let inventory = load_fixture("19_secret/hosts.yaml");
    let vars = inventory.merged_vars("h1");
    assert!(is_encrypted(&vars["password"].node));
    assert!(!is_encrypted(&vars["raw"].node));
}

#[test]
fn encrypted_files_that_nothing_opens_are_errors() {
    let files = Files::new(&[
        ("hosts", "[web]\nw1\n[db]\nd1\n"),
        ("group_vars/web/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n61\n"),
        ("host_vars/d1.yml", "$ANSIBLE_VAULT;1.1;AES256\n61\n"),
    ]);
    let error = files.load(&["hosts"]).unwrap_err();
    assert_eq!(
        files.complaints(&error),
        [
            (Severity::Error, "vault", "group_vars/web/vault.yml:1".to_owned()),
            (Severity::Error, "vault", "host_vars/d1.yml:1".to_owned()),
        ]
    );
}

#[test]
fn limits_are_strict_and_read_files() {
    let inventory = load_fixture("13_many_groups/hosts.yaml");
    let files = Files::new(&[("retry", "n3\n\n  n1 \n"), ("bad", "n1\nn9\n")]);
    let here = files.path("");
    assert_eq!(inventory.select_limit("@retry", &here).unwrap().hosts, ["n3", "n1"]);
    assert_eq!(inventory.select_limit("@retry,!n1", &here).unwrap().hosts, ["n3"]);
    let error = inventory.select_limit("gpu,@bad,n7", &here).unwrap_err();
    let mut places = files.complaints(&error);
    places.sort_by(|left, right| left.2.cmp(&right.2));
    assert_eq!(
        places,
        [
            (Severity::Error, "unknown-host", "--limit:1".to_owned()),
            (Severity::Error, "unknown-host", "bad:2".to_owned()),
        ]
    );
    assert_eq!(inventory.select_limit("@none", &here).unwrap_err().0[0].code, "limit-file");
    assert_eq!(inventory.select_limit("gpu[9]", &here).unwrap_err().0[0].code, "pattern-subscript");
    assert_eq!(inventory.select_limit("~(", &here).unwrap_err().0[0].code, "bad-pattern");
}

#[test]
fn patterns_that_match_nothing_are_warnings() {
    let inventory = load_fixture("13_many_groups/hosts.yaml");
    let source = converge_syntax::Source::new("site.yaml", "hosts: gpu:nvidai:!n1");
    let pattern = Node::new("gpu:nvidai:!n1", Span::new(source, 7, 21));
    let selection = inventory.select(&pattern).unwrap();
    assert_eq!(selection.hosts, ["n3", "n5"]);
    let warning = &selection.warnings.0[0];
    assert_eq!(warning.span().unwrap().text(), "nvidai");
    assert_eq!(warning.help.as_deref(), Some("did you mean `nvidia`?"));
    let list = converge_syntax::parse_yaml(
        converge_syntax::Source::new("site.yaml", "[dc1, '!gpu', 5]"),
        converge_syntax::Dialect::Native,
    );
    let error = inventory.select(&list.unwrap()[0]).unwrap_err();
    assert_eq!(error.0[0].code, "bad-pattern");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(
        text in "([a-b]|all|hosts|vars|children|: |:\n|\n|  |\\[|\\]|\\{|\\}|,|- |=|#|'|\"|\\[1:3\\]|&x |\\*x|!vault |é|\t){0,40}",
        name in "h|h\\.yml|h\\.ini|h\\.json",
    ) {
        let files = Files::new(&[(&name, &text), ("group_vars/all.yml", &text)]);
        match files.load(&[&name]) {
            Ok((inventory, _)) => {
                let options = converge_model::inventory::OutputOptions { vars: true, yaml: true, ..Default::default() };
                let _ = (inventory.print_list(&options), inventory.print_graph("all", &options));
                let json: serde_json::Value =
                    serde_json::from_str(&inventory.print_list(&Default::default())).unwrap();
                prop_assert!(json["_meta"]["hostvars"].is_object());
            }
            Err(found) => prop_assert!(found.has_errors()),
        }
    }
}

/// Before any format is tried: no parser sees it, and so the message names the file.
#[test]
fn a_file_that_is_too_large_is_not_parsed() {
    let text = "# a comment\n".repeat((16 << 20) / 12 + 1);
    for name in ["hosts", "hosts.ini", "hosts.yaml"] {
        let files = Files::new(&[(name, &text)]);
        let found = files.load(&[name]).unwrap_err();
        let [only] = found.0.as_slice() else { panic!("{found}") };
        let wanted = format!("`{}` is larger than 16 MiB", files.path(name));
        assert_eq!((only.code, &only.message), ("too-large", &wanted));
    }
}
