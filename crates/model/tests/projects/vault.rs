//! Encrypted values and files: what they reach is a secret, and what cannot be opened is said with its place.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

use converge_model::vault::{DEFAULT_ID, Vault, VaultSecret, encrypt};

use crate::common::*;

const ROLE: &str = "inputs: {n: {type: str, default: a}}\nresources:\n  - name: x\n    file: {path: /x, content: \"{{ n }}\"}\n  \
    - name: y\n    file: {path: /y, content: \"{{ hostvars.h3.other }}\"}\n    when: inventory_hostname == 'h2'\n  \
    - name: z\n    file: {path: /z, content: open}\n";

fn secret() -> VaultSecret {
    VaultSecret::new("prod", b"pw".to_vec())
}

/// An encrypted value as it stands in a file.
fn value(plain: &str) -> String {
    let text = encrypt(plain.as_bytes(), &secret()).unwrap();
    format!("!vault |\n{}", text.lines().map(|line| format!("    {line}\n")).collect::<String>())
}

fn with_passwords(world: &mut World, secrets: &[(&str, &str)]) {
    let all = secrets.iter().map(|(id, password)| VaultSecret::new(*id, password.as_bytes().to_vec()));
    world.options.vault = Vault::new(all.collect());
}

#[test]
fn what_an_encrypted_value_reaches_is_a_secret() {
    let mut world = World::new();
    world.role(ROLE);
    world.write(
        "inventories/host_vars/h1.yaml",
        &format!("n: \"-{{{{ inner }}}}-\"\ninner: {}", value("geheim {{ 1 }}")),
    );
    world.write("inventories/host_vars/h3.yaml", &format!("other: {}", value("anders")));
    with_passwords(&mut world, &[("prod", "pw")]);
    let project = world.load();
    let x = ready(&plan(&project, "h1"), "r/x");
    // As in Ansible, what was encrypted is never rendered as a template.
    assert_eq!((x.params["content"].as_str(), x.sensitive), (Some("-geheim {{ 1 }}-"), true));
    assert!(!format!("{x:?}").contains("geheim"));
    let y = ready(&plan(&project, "h2"), "r/y");
    assert_eq!((y.params["content"].as_str(), y.sensitive), (Some("anders"), true));
    assert!(!ready(&plan(&project, "h1"), "r/z").sensitive);
    let report = project.vars("h1", Some("n"));
    assert!(report[0].winners.iter().all(|winner| winner.value.is_none()), "{report:?}");
    assert!(!format!("{report:?}").contains("geheim"));
}

/// A login is in nothing that is shown or recorded, so it hides nothing else. Whoever sees a plan cannot guess it from a digest.
#[test]
fn a_secret_that_nobody_records_leaves_its_resource_open() {
    let mut world = World::new();
    world.role(
        "inputs: {n: {type: str, default: a}}\nresources:\n  - name: x\n    release: {name: open, login: {password: \"{{ n }}\"}}\n  \
         - name: y\n    release: {name: \"{{ n }}\", login: {password: \"{{ n }}\"}}\n  - name: z\n    release: {name: open, login: {password: plain}}\n",
    );
    world.write("inventories/host_vars/h1.yaml", &format!("n: {}", value("geheim")));
    with_passwords(&mut world, &[("prod", "pw")]);
    let project = world.load();
    let plan = plan(&project, "h1");
    for (name, sensitive) in [("r/x", false), ("r/y", true), ("r/z", false)] {
        let found = ready(&plan, name);
        assert_eq!(
            (found.sensitive, found.unrecorded.as_slice()),
            (sensitive, &["login".to_owned()][..]),
            "{name}"
        );
        assert!(!format!("{found:?}").contains("geheim") && !format!("{found:?}").contains("plain"));
        let item = item(&plan, name);
        assert!(plan.role(&item.role).unwrap().binding(item, &Default::default()).sensitive, "{name}");
    }
}

#[test]
fn encrypted_files_are_read_and_all_in_them_is_a_secret() {
    let mut world = World::new();
    world.role(
        "inputs: {n: {type: str}, port: {type: int, default: 1}}\nresources:\n  - name: x\n    file: {path: /x, content: \"{{ n }}\"}\n  \
         - name: t\n    file: {path: /t, template: t.j2}\n  - name: s\n    file: {path: /s, source: s.bin}\n  - name: z\n    file: {path: /z, content: open}\n",
    );
    let sealed = |plain: &[u8]| encrypt(plain, &secret()).unwrap();
    world.write("inventories/group_vars/all.yaml", &sealed(b"n: \"{{ base }}!\"\nbase: geheim\n"));
    world.write("roles/r/templates/t.j2", &sealed(b"key {{ inventory_hostname }}\n"));
    world.write("roles/r/files/s.bin", &sealed(&[0, 255]));
    with_passwords(&mut world, &[(DEFAULT_ID, "pw")]);
    let project = world.load();
    let got = |name: &str| {
        let item = ready(&plan(&project, "h1"), &format!("r/{name}"));
        (item.params, item.sensitive)
    };
    assert_eq!(got("x").0["content"], "geheim!");
    assert_eq!(got("t").0["template"]["text"], "key h1\n");
    assert_eq!(got("s").0["source"]["hex"], "00ff");
    assert_eq!(["x", "t", "s", "z"].map(|name| got(name).1), [true, true, true, false]);
    // A value of the wrong type is not quoted, neither in the message nor in the lines that a report draws.
    world.write("inventories/group_vars/all.yaml", &sealed(b"n: geheim\nport: geheim\n"));
    let project = world.try_load().unwrap();
    let found = &project.host_errors()["h1"];
    let text = world.text(found);
    assert!(text.contains("the input `port` must be an integer (its value is sensitive"), "{text}");
    assert!(!format!("{text}{:?}", found.reports()).contains("geheim"), "{text}");
}

#[test]
fn what_nothing_opens_is_said_where_it_is_used() {
    let mut world = World::new();
    world.role(ROLE);
    world.write("inventories/host_vars/h1.yaml", &format!("n: {}", value("geheim")));
    world.write("inventories/host_vars/h3.yaml", &format!("other: {}unused: 1\n", value("anders")));
    // One cause, one message, before any host is contacted.
    let error = |world: &World| {
        let found = world.try_load().err().unwrap();
        assert_eq!(found.len(), 1);
        world.text(&found)
    };
    let text = error(&world);
    assert!(
        text.contains("error[vault]: this is encrypted for the vault id `prod`, and no vault password is given (2 values in all)\n  --> inventories/host_vars/h1.yaml:2:5"),
        "{text}"
    );
    assert!(text.contains("help: give the password: --vault-id prod@FILE"), "{text}");
    with_passwords(&mut world, &[("dev", "x")]);
    let text = error(&world);
    assert!(text.contains("none of the given vault passwords (dev) opens it"), "{text}");
    world.write("inventories/host_vars/h1.yaml", "n: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3061\n");
    let text = error(&world);
    assert!(text.contains("damaged: it ends before its HMAC"), "{text}");
    assert!(text.contains("inventories/host_vars/h1.yaml:2:3"), "{text}");
    // Another host needs none of it.
    world.write("inventories/host_vars/h1.yaml", "n: plain\n");
    world.options.limit = Some("h1".to_owned());
    world.try_load().unwrap();
}

#[test]
fn passwords_for_become_may_be_encrypted() {
    use secrecy::ExposeSecret;
    let mut world = World::new();
    world.role("resources: []\n");
    let text = format!("ansible_become: true\nansible_become_password: {}", value("sudo-pw"));
    world.write("inventories/host_vars/h1.yaml", &text);
    with_passwords(&mut world, &[("prod", "pw")]);
    let (connection, _) = world.load().connection("h1").unwrap();
    assert_eq!(connection.become_user.unwrap().password.unwrap().expose_secret(), "sudo-pw");
}
