use super::*;
use crate::target::SshEndpoint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

/// A key of any bytes: checks compare keys, they do not use them.
fn ed(fill: u8) -> String {
    let mut blob = vec![0, 0, 0, 11];
    blob.extend_from_slice(b"ssh-ed25519");
    blob.extend_from_slice(&[0, 0, 0, 32]);
    blob.extend_from_slice(&[fill; 32]);
    format!("ssh-ed25519 {}", STANDARD.encode(blob))
}

fn ecdsa() -> String {
    let mut blob = vec![0, 0, 0, 19];
    blob.extend_from_slice(b"ecdsa-sha2-nistp256");
    blob.extend_from_slice(&[0, 0, 0, 8]);
    blob.extend_from_slice(b"nistp256");
    blob.extend_from_slice(&[0, 0, 0, 65, 4]);
    blob.extend_from_slice(&[7; 64]);
    format!("ecdsa-sha2-nistp256 {}", STANDARD.encode(blob))
}

fn rsa() -> String {
    let mut blob = vec![0, 0, 0, 7];
    blob.extend_from_slice(b"ssh-rsa");
    blob.extend_from_slice(&[0, 0, 0, 3, 1, 0, 1, 0, 0, 1, 1, 0]);
    blob.extend_from_slice(&[0xc5; 256]);
    format!("ssh-rsa {}", STANDARD.encode(blob))
}

fn hashed(name: &str) -> String {
    let salt = [9; 20];
    let mac = Hmac::<Sha1>::new_from_slice(&salt).unwrap().chain_update(name).finalize().into_bytes();
    format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(mac))
}

fn known(text: &str) -> KnownHosts {
    let mut known = KnownHosts::default();
    known.add("kh", text);
    known
}

/// `known`, `unknown`, `unknown 1,2`, `changed 1,2` or `revoked 1`, with line numbers.
fn verdict(text: &str, host: &str, port: u16, key: &str) -> String {
    let lines =
        |places: &[FileLine]| places.iter().map(|at| at.line.to_string()).collect::<Vec<_>>().join(",");
    match known(text).check(host, port, &PublicKey::from_openssh(key).unwrap()) {
        HostKeyVerdict::Known => "known".to_owned(),
        HostKeyVerdict::Unknown { others, .. } => format!("unknown {}", lines(&others)).trim().to_owned(),
        HostKeyVerdict::Changed { recorded, .. } => format!("changed {}", lines(&recorded)),
        HostKeyVerdict::Revoked { at, .. } => format!("revoked {}", at.line),
        other => format!("{other:?}"),
    }
}

#[test]
fn table_of_lines() {
    let (one, two, ecdsa, rsa) = (ed(1), ed(2), ecdsa(), rsa());
    let table: Vec<(String, &str, u16, &str)> = vec![
        // Plain names, ports, several names.
        (format!("h {one}"), "h", 22, "known"),
        (format!("H.Example {one}"), "h.eXample", 22, "known"),
        (format!("a,h,b {one} a comment"), "h", 22, "known"),
        (format!("a,h,b\t{}", one.replace(' ', "\t")), "h", 22, "known"),
        (format!("   h   {one}"), "h", 22, "known"),
        (format!("h {one}\r"), "h", 22, "known"),
        (format!("hh {one}"), "h", 22, "unknown"),
        (format!("h.x {one}"), "h", 22, "unknown"),
        (format!("[h]:2222 {one}"), "h", 2222, "known"),
        (format!("[h]:2222 {one}"), "h", 22, "unknown"),
        (format!("[h]:2222 {one}"), "h", 2223, "unknown"),
        // As ssh: a key recorded without port is good for any port, but never makes one "changed".
        (format!("h {one}"), "h", 2222, "known"),
        (format!("h {two}"), "h", 2222, "unknown"),
        (format!("[h]:2222 {two}\nh {one}"), "h", 2222, "known"),
        (format!("2001:db8::1 {one}"), "2001:db8::1", 22, "known"),
        (format!("[2001:db8::1]:2222 {one}"), "2001:db8::1", 2222, "known"),
        // Patterns and negations.
        (format!("* {one}"), "h", 22, "known"),
        (format!("*.example {one}"), "h.example", 22, "known"),
        (format!("*.example {one}"), "example", 22, "unknown"),
        (format!("gpu?? {one}"), "gpu07", 22, "known"),
        (format!("gpu?? {one}"), "gpu7", 22, "unknown"),
        (format!("*a*b* {one}"), "xxaxxabx", 22, "known"),
        (format!("*,!h {one}"), "h", 22, "unknown"),
        (format!("!h,* {one}"), "h", 22, "unknown"),
        (format!("*,!h* {one}"), "g", 22, "known"),
        (format!("!h {one}"), "g", 22, "unknown"),
        (format!("[*.example]:2222 {one}"), "h.example", 2222, "known"),
        // Hashes.
        (format!("{} {one}", hashed("h")), "h", 22, "known"),
        (format!("{} {one}", hashed("h")), "H", 22, "known"),
        (format!("{} {one}", hashed("g")), "h", 22, "unknown"),
        (format!("{} {one}", hashed("[h]:2222")), "h", 2222, "known"),
        (format!("{} {two}", hashed("h")), "h", 22, "changed 1"),
        (format!("|1|bad {one}\nh {one}"), "h", 22, "known"),
        // Changed: the same type with another key, unless one of several lines has it.
        (format!("h {two}"), "h", 22, "changed 1"),
        (format!("# x\n\nh {two}\nh {two}"), "h", 22, "changed 3,4"),
        (format!("h {two}\nh {one}"), "h", 22, "known"),
        (format!("h {ecdsa}"), "h", 22, "unknown 1"),
        (format!("h {rsa}\nh {two}"), "h", 22, "changed 2"),
        // Markers: a revoked key is refused whatever else is said; an authority says nothing about a plain key.
        (format!("h {one}\n@revoked h {one}"), "h", 22, "revoked 2"),
        (format!("@revoked * {one}\nh {one}"), "h", 22, "revoked 1"),
        (format!("@revoked h {one}\n[h]:2222 {one}"), "h", 2222, "revoked 1"),
        (format!("@revoked g {one}\nh {one}"), "h", 22, "known"),
        (format!("@revoked h {two}\nh {one}"), "h", 22, "known"),
        (format!("@revoked h {two}"), "h", 22, "unknown"),
        (format!("@revoked {} {one}\nh {one}", hashed("h")), "h", 22, "revoked 1"),
        (format!("@cert-authority h {one}"), "h", 22, "unknown"),
        (format!("@cert-authority * {two}\nh {one}"), "h", 22, "known"),
        (format!("@cert-authority * {two}"), "h", 22, "unknown"),
        (format!("@unheard-of h {one}"), "h", 22, "unknown"),
        // Lines that cannot be understood are skipped.
        ("".to_owned(), "h", 22, "unknown"),
        ("h".to_owned(), "h", 22, "unknown"),
        ("h ssh-ed25519".to_owned(), "h", 22, "unknown"),
        ("h ssh-ed25519 !!!!".to_owned(), "h", 22, "unknown"),
        (format!("h {}", one.replace("ssh-ed25519 ", "ssh-rsa ")), "h", 22, "unknown"),
        (format!("#h {one}"), "h", 22, "unknown"),
        (format!("h 1024 35 12345678\nh {one}"), "h", 22, "known"),
    ];
    for (text, host, port, want) in &table {
        assert_eq!(verdict(text, host, *port, &one), *want, "{text:?} asked for {host}:{port}");
    }
    assert_eq!(verdict(&format!("h {rsa}"), "h", 22, &rsa), "known");
    assert_eq!(verdict(&format!("h {ecdsa}"), "h", 22, &ecdsa), "known");
}

#[test]
fn algorithms_of_recorded_keys_come_first() {
    let (ed, ecdsa, rsa) = (ed(1), ecdsa(), rsa());
    let order = |text: &str, port| -> String {
        let all = known(text).preferred_algorithms("h", port);
        assert_eq!(all.len(), 6);
        all.iter().take(3).map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let default = "ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384";
    assert_eq!(order("", 22), default);
    assert_eq!(order(&format!("h {ed}"), 22), default);
    assert_eq!(order(&format!("h {rsa}"), 22), "rsa-sha2-512 rsa-sha2-256 ssh-ed25519");
    assert_eq!(order(&format!("h {ecdsa}\nh {rsa}"), 22), "ecdsa-sha2-nistp256 rsa-sha2-512 rsa-sha2-256");
    assert_eq!(order(&format!("g {rsa}\n@revoked h {rsa}\n@cert-authority h {rsa}"), 22), default);
    assert_eq!(order(&format!("h {rsa}"), 2222), "rsa-sha2-512 rsa-sha2-256 ssh-ed25519");
    assert_eq!(
        order(&format!("h {rsa}\n[h]:2222 {ecdsa}"), 2222),
        "ecdsa-sha2-nistp256 ssh-ed25519 ecdsa-sha2-nistp384"
    );
}

#[test]
fn several_files_count_together_and_a_missing_one_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| Utf8PathBuf::try_from(dir.path().join(name)).unwrap();
    std::fs::write(file("one"), format!("g {}\n", ed(2))).unwrap();
    std::fs::write(file("two"), [format!("h {}\n# ", ed(2)).as_bytes(), b"\xff\xfe not UTF-8\n"].concat())
        .unwrap();
    let mut target = SshEndpoint::ssh("h");
    target.known_hosts = vec![file("none"), file("one"), file("two")];
    let known = KnownHosts::load(&target.name, &target.known_hosts, &target.host_keys, None).unwrap();
    let verdict = known.check("h", 22, &PublicKey::from_openssh(&ed(1)).unwrap());
    let error = verdict.into_error("gpu1", &known).unwrap();
    let ConnectError::ChangedHostKey { recorded, .. } = &error else { panic!("{error}") };
    assert_eq!(recorded, &[FileLine { file: file("two").to_string(), line: 1 }]);
    let unknown =
        known.check("i", 22, &PublicKey::from_openssh(&ed(1)).unwrap()).into_error("gpu1", &known).unwrap();
    let text = unknown.to_string();
    assert!(text.contains(&format!("add this line to {}:\ni {}", file("none"), ed(1))), "{text}");

    target.known_hosts.push(Utf8PathBuf::try_from(dir.path().to_owned()).unwrap());
    let error = KnownHosts::load(&target.name, &target.known_hosts, &target.host_keys, None).unwrap_err();
    assert!(matches!(&error, ConnectError::KnownHostsFile { .. }) && error.is_refused(), "{error}");
}

proptest::proptest! {
    #[test]
    fn globs_agree_with_a_simple_recursive_reading(pattern in "[ab*?\\[]{0,8}", text in "[ab\\[]{0,10}") {
        fn simple(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'*', rest)) => (0..=text.len()).any(|at| simple(rest, &text[at..])),
                Some((one, rest)) => text.split_first().is_some_and(|(byte, more)| (*one == b'?' || one == byte) && simple(rest, more)),
            }
        }
        proptest::prop_assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), simple(pattern.as_bytes(), text.as_bytes()));
    }
}
