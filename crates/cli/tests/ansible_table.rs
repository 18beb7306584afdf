//! The table of what comes from Ansible names kinds and keys that are there.

use converge_model::{AnsibleSort, ansible_names};

#[test]
fn every_kind_of_the_table_is_there() {
    let missing: Vec<String> = ansible_names()
        .flat_map(|entry| entry.kinds.iter().map(move |kind| (entry.name, *kind)))
        .filter(|(_, kind)| converge_resources::kind(kind).is_none())
        .map(|(name, kind)| format!("`{name}` sends to the kind `{kind}`"))
        .collect();
    assert!(missing.is_empty(), "there is no such kind: {}", missing.join(", "));
    let modules = ansible_names().filter(|entry| entry.sort == AnsibleSort::Module).count();
    assert!(modules > 50, "{modules}");
}

#[test]
fn parameters_of_the_table_are_those_that_a_kind_does_not_have_and_send_to_one_that_it_has() {
    let mut checked = 0;
    for entry in ansible_names().filter(|entry| entry.sort == AnsibleSort::Parameter) {
        for kind in entry.kinds {
            let schema = (converge_resources::kind(kind).unwrap().schema)();
            let has = |name: &str| schema["properties"].get(name).is_some();
            for name in [entry.name].iter().chain(entry.also) {
                assert!(!has(name), "`{kind}` has the parameter `{name}`");
            }
            let named = entry.instead.strip_prefix("write `").and_then(|rest| rest.split('`').next());
            assert!(
                named.is_none_or(has),
                "`{kind}` has no parameter {named:?}, to which `{}` sends",
                entry.name
            );
            checked += usize::from(named.is_some());
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn facts_of_the_table_are_facts() {
    let page = converge_engine::facts_page();
    let mut checked = 0;
    for entry in ansible_names().filter(|entry| entry.sort == AnsibleSort::Variable) {
        for word in entry.instead.split('`').skip(1).step_by(2) {
            if let Some(path) = word.strip_prefix("facts.") {
                let path = path.split(".split(").next().unwrap_or(path);
                assert!(page.contains(&format!("| `{path}` |")), "there is no fact `{path}`");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
}
