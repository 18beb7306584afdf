use super::*;

/// The settings that our own reader finds in a configuration, and whether any of them matters.
fn own(config: &str, host: &str) -> (ClientConfig, bool) {
    let dir = tempfile::tempdir().unwrap();
    let home = Utf8Path::from_path(dir.path()).unwrap();
    std::fs::create_dir_all(home.join(".ssh/conf.d")).unwrap();
    std::fs::write(home.join(".ssh/config"), config).unwrap();
    std::fs::write(home.join(".ssh/conf.d/a.conf"), "User from-a\nHost x*\n  Port 77\n").unwrap();
    std::fs::write(home.join(".ssh/conf.d/b.conf"), "Host lab-*\n  HostKeyAlias b\n").unwrap();
    let mut reader = ConfigReader { host, home: Some(home), found: Vec::new(), says: false };
    reader.read(&home.join(".ssh/config"), &home.join(".ssh"), true, 0);
    let (lines, says) = (reader.found, reader.says);
    (ClientConfig::from_lines(&lines, host, None, None, Some(Utf8Path::new("/h"))), says)
}

#[test]
fn our_own_reader_takes_the_first_value_and_the_blocks_of_the_host() {
    let config = "# comment\nHost lab-* !lab-9\n  HostName=%h.example\n  User ops # me\n  IdentityFile ~/.ssh/a\n  Port 2222\n\
                  Host lab-1\n  User second\n  IdentityFile \"/k/with blank\"\n  ProxyJump b1,me@b2:99\n\
                  Host *\n  IdentitiesOnly yes\n  UserKnownHostsFile ~/kh /etc/kh\n  ProxyCommand nc -X 5 %h %p\n";
    let (one, says) = own(config, "lab-1");
    assert!(says);
    assert_eq!(one.host_name.as_deref(), Some("lab-1.example"));
    assert_eq!((one.user.as_deref(), one.port), (Some("ops"), Some(2222)));
    assert_eq!(one.key_files, ["/h/.ssh/a", "/k/with blank"]);
    assert_eq!(one.proxy_jump.as_deref(), Some("b1,me@b2:99"));
    assert_eq!(one.proxy_command.as_deref(), Some("nc -X 5 lab-1.example 2222"));
    assert_eq!(one.known_hosts, ["/h/kh", "/etc/kh", "/etc/ssh/ssh_known_hosts"]);
    assert!(one.identities_only);
    let (nine, _) = own(config, "lab-9");
    assert_eq!((nine.user, nine.port, nine.host_name), (None, None, None));
}

#[test]
fn includes_are_read_in_their_order_and_keep_their_blocks_to_themselves() {
    let (x, _) = own("Include conf.d/*.conf\nUser later\n", "x1");
    assert_eq!((x.user.as_deref(), x.port), (Some("from-a"), Some(77)));
    let (lab, _) = own("Include conf.d/*.conf\nHostKeyAlias later\n", "lab-2");
    assert_eq!(
        (lab.user.as_deref(), lab.host_key_alias.as_deref(), lab.port),
        (Some("from-a"), Some("b"), None)
    );
    let (out, says) = own("Host other\n  Include conf.d/a.conf\n", "x1");
    assert!(says);
    assert_eq!(out.user, None);
}

#[test]
fn what_says_nothing_about_the_way_is_no_reason_to_ask() {
    assert!(!own("Host *\n  SendEnv LANG LC_*\n  HashKnownHosts yes\n", "h").1);
    assert!(own("Match exec true\n  ForwardAgent yes\n", "h").1);
}

#[test]
fn the_defaults_that_ssh_names_count_as_nothing() {
    let text = "user root\nhostname h\nport 22\nidentityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ed25519\nproxycommand none\n\
                userknownhostsfile /root/.ssh/known_hosts /root/.ssh/known_hosts2\nglobalknownhostsfile /etc/g1 /etc/g2\n";
    let pair = |line: &str| line.split_once(' ').map(|(k, v)| (k.to_owned(), v.to_owned()));
    let lines: Vec<_> = text.lines().filter_map(pair).collect();
    let config = ClientConfig::from_lines(&lines, "h", None, None, Some(Utf8Path::new("/h")));
    let nothing = ClientConfig { user: Some("root".to_owned()), port: Some(22), ..ClientConfig::default() };
    assert_eq!(config, nothing);
}
