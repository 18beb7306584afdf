use super::*;
use converge_syntax::{Dialect, Source, parse_yaml};
use secrecy::ExposeSecret;

fn resolve(yaml: &str) -> Result<(ConnectionSettings, Diagnostics), Diagnostics> {
    let root = parse_yaml(Source::new("vars.yaml", yaml), Dialect::Ansible).unwrap().remove(0);
    ConnectionSettings::resolve("h1", |name| root.get(name).cloned(), |node| Ok(node.clone()))
}

#[test]
fn defaults() {
    let (connection, warnings) = resolve("x: 1").unwrap();
    assert!(warnings.is_empty());
    assert_eq!(connection.address, "h1");
    assert_eq!(connection.transport, ConnectionType::Ssh);
    assert_eq!((connection.port, connection.timeout), (None, None));
    assert!(connection.become_user.is_none() && connection.host_key_checking.is_none());
}

#[test]
fn every_variable_is_read() {
    let (connection, warnings) = resolve(
        "ansible_host: '[2001:db8::1]'\nansible_port: '2222'\nansible_user: ops\nansible_ssh_private_key_file: ~/k\n\
         ansible_password: geheim\nansible_become: yes\nansible_become_user: app\nansible_become_pass: auch\n\
         ansible_host_key_checking: false\nansible_timeout: 7\nansible_connection: ansible.builtin.ssh\n\
         ansible_ssh_common_args: -o UserKnownHostsFile=/tmp/kh -o 'HostKeyAlias lab' -oStrictHostKeyChecking=yes -p 1 -i k2 -C\n",
        )
        .unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    assert_eq!(connection.address, "2001:db8::1");
    assert_eq!(connection.port, Some(2222));
    assert_eq!(connection.user.as_deref(), Some("ops"));
    assert_eq!(connection.key_files, ["~/k", "k2"]);
    assert_eq!(connection.password.as_ref().unwrap().expose_secret(), "geheim");
    let become_user = connection.become_user.as_ref().unwrap();
    assert_eq!(become_user.user, "app");
    assert_eq!(become_user.password.as_ref().unwrap().expose_secret(), "auch");
    assert_eq!(connection.host_key_checking, Some(HostKeyChecking::Off));
    assert_eq!(connection.known_hosts.as_deref(), Some(&["/tmp/kh".to_owned()][..]));
    assert_eq!(connection.host_key_alias.as_deref(), Some("lab"));
    assert_eq!(connection.timeout, Some(7));
    assert!(!format!("{connection:?}").contains("geheim"));
}

#[test]
fn the_later_name_wins() {
    let (connection, _) =
        resolve("ansible_ssh_host: b\nansible_host: a\nansible_ssh_user: ''\nansible_user: u").unwrap();
    assert_eq!(connection.address, "b");
    assert_eq!(connection.user.as_deref(), Some("u"));
}

#[test]
fn what_is_not_supported_is_reported() {
    let codes = |yaml: &str| -> Vec<(&'static str, usize)> {
        let found = match resolve(yaml) {
            Ok((_, found)) | Err(found) => found,
        };
        found.iter().map(|d| (d.code, d.span().map_or(0, Span::line))).collect()
    };
    assert_eq!(codes("ansible_connection: docker"), [("unsupported", 1)]);
    assert_eq!(codes("ansible_become: true\nansible_become_method: runas"), [("unsupported", 2)]);
    assert_eq!(codes("ansible_become_method: runas"), []);
    assert_eq!(codes("ansible_port: 70000\nansible_become: maybe"), [("wrong-type", 1), ("wrong-type", 2)]);
    assert_eq!(codes("ansible_ssh_common_args: -o Cipher=x"), [("ssh-option", 1)]);
    assert!(resolve("ansible_ssh_common_args: -o Cipher=x").is_ok());
    assert!(resolve("ansible_ssh_common_args: -o ProxyCommand='nc %h %p'").is_err());
    assert_eq!(codes("converge_host_keys: [ssh-ed25519 AAAAC3, nonsense]"), [("wrong-type", 1)]);
    assert!(resolve("ansible_ssh_common_args: '-o Port=x'").is_err());
    assert!(resolve("ansible_ssh_common_args: \"-o 'Port=1\"").is_err());
    let same = resolve(
        "ansible_ssh_common_args: -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15",
    );
    assert!(same.unwrap().1.is_empty());
}

#[test]
fn jump_hosts_and_pinned_keys() {
    let (connection, _) = resolve(
        "ansible_ssh_common_args: -o ProxyJump=me@b1:2222,b2 -o CertificateFile=~/c\nconverge_host_keys: '@cert-authority ssh-ed25519 AAAAC3'",
    )
    .unwrap();
    let hops = connection.jumps.unwrap();
    assert_eq!((hops.len(), hops[0].host.as_str(), hops[0].port), (2, "b1", Some(2222)));
    assert_eq!(connection.certificate_files, ["~/c"]);
    assert_eq!(connection.host_keys, ["@cert-authority ssh-ed25519 AAAAC3"]);
}

#[test]
fn methods_of_becoming_have_variables_of_their_own() {
    let become_ = |yaml: &str| resolve(yaml).unwrap().0.become_user.unwrap();
    let su = become_(
        "ansible_become: true\nansible_become_method: ansible.builtin.su\nansible_become_pass: a\nansible_su_pass: b\nansible_sudo_pass: c",
    );
    assert_eq!((su.method, su.user.as_str()), (BecomeMethod::Su, "root"));
    assert_eq!(su.password.unwrap().expose_secret(), "b");
    let doas = become_(
        "ansible_become: true\nansible_become_method: community.general.doas\nansible_doas_user: app",
    );
    assert_eq!((doas.method, doas.user.as_str()), (BecomeMethod::Doas, "app"));
}

#[test]
fn templates_go_through_the_resolver() {
    let node = Node::new("{{ broken", Span::nowhere("test"));
    let lookup = |name: &str| (name == "ansible_user").then(|| node.clone());
    let error = ConnectionSettings::resolve("h", lookup, |_| Err(Diagnostic::error("template", "no").into()))
        .unwrap_err();
    assert_eq!(error.len(), 1);
}
