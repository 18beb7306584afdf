//! The table of what comes from Ansible names kinds and keys that are there.

use converge_model::{ANSIBLE, AnsibleSort};

#[test]
fn every_kind_of_the_table_is_there() {
    let missing: Vec<String> = ANSIBLE
        .iter()
        .flat_map(|entry| entry.kinds.iter().map(move |kind| (entry.name, *kind)))
        .filter(|(_, kind)| converge_resources::kind(kind).is_none())
        .map(|(name, kind)| format!("`{name}` sends to the kind `{kind}`"))
        .collect();
    assert!(missing.is_empty(), "there is no such kind: {}", missing.join(", "));
    let modules = ANSIBLE.iter().filter(|entry| entry.sort == AnsibleSort::Module).count();
    assert!(modules > 50, "{modules}");
}
