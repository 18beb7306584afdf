//! Repositories of a host of rpm with their keys, and versions that are held there.

use super::rpm::{goes_back, rpm_world};
use super::*;

/// Makes the repository /signed, of which the metadata are signed, and two of its three packages; prints the fingerprint of the key.
pub const SIGNED: &str = r#"set -e
export GNUPGHOME=/root/signs
if [ ! -e /root/signs ]; then
  mkdir -m 700 /root/signs
  gpg -q --batch --passphrase '' --quick-generate-key 'Lab <lab@example.org>' rsa3072 sign never 2>/dev/null
  mkdir /signed
  for name in t-signed t-more t-plain; do made $name 1; mv /repo/$name-1-1.noarch.rpm /signed/; done
  rpmsign --define '_gpg_name Lab' --define '__gpg /usr/bin/gpg' --addsign /signed/t-signed* /signed/t-more* >/dev/null
  createrepo_c -q /signed
  gpg -q --batch --armor --detach-sign /signed/repodata/repomd.xml
  gpg --armor --export >/root/signs/key.asc
fi
gpg --with-colons --show-keys /root/signs/key.asc | sed -n 's/^fpr:*\(.*\):$/\1/p'"#;

const SHOP: &str = r#"  - name: the shop
    rpm_repository: {name: t-shop, description: The shop, baseurl: "file:///signed", repo_gpgcheck: true, priority: 5, fingerprint: @KEY@, key_source: shop.asc}
  - name: goods
    package: {name: t-signed}
"#;

#[test]
fn a_signed_repository_is_made_kept_and_taken_back_with_its_key() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let fingerprint = exec(host, SIGNED);
    let key = exec(host, "cat /root/signs/key.asc") + "\n";
    world.write("roles/r/files/shop.asc", &key).unwrap();
    let role = SHOP.replace("@KEY@", &fingerprint);
    let shown = "cd /etc/yum.repos.d; for f in *; do echo $f; cat $f; done; ls -l /etc/pki/rpm-gpg 2>&1; rpm -qa gpg-pubkey; ls -d /var/cache/dnf/t-shop* 2>&1; true";
    goes_back(&world, &["rollback", "undo.sh"], "true", &role, shown);
    // rpm trusts another edition of the key, which comes back.
    let another = "cp -a /root/signs /srv/other; export GNUPGHOME=/srv/other; gpg -q --batch --quick-set-expire $(cat /srv/fingerprint) 1y 2>/dev/null; gpg --armor --export >/srv/other.asc; \
                   rpm -e --allmatches gpg-pubkey 2>/dev/null; rpm --import /srv/other.asc";
    exec(host, &format!("echo {fingerprint} >/srv/fingerprint"));
    let trusted = "rpm -q gpg-pubkey --qf '%{DESCRIPTION}'";
    goes_back(&world, &["rollback"], another, &role, trusted);
    exec(host, "rpm -e --allmatches gpg-pubkey");

    exec(host, "rm -rf /var/lib/converge");
    roles(&world, &[("r", &role)]);
    drop(converge(&world, &["plan", "hosts.yaml"]).says("dnf makecache for t-shop").expect(2));
    apply(&world).expect(0);
    assert_eq!(exec(host, "cat /etc/pki/rpm-gpg/RPM-GPG-KEY-t-shop") + "\n", key);
    assert!(exec(host, "rpm -qi t-signed").contains("Key ID"));
    exec(host, "rpmkeys --checksig /signed/t-more-1-1.noarch.rpm");
    exec(host, "dnf -q -y install t-more >/dev/null 2>&1; rpm -q t-more");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    // Changes that somebody has made since are found, and put right.
    exec(
        host,
        "rpm -e --allmatches gpg-pubkey; sed -i s/priority=5/priority=50/ /etc/yum.repos.d/t-shop.repo; rm -r /var/cache/dnf/t-shop-*; \
         echo >/etc/pki/rpm-gpg/RPM-GPG-KEY-t-shop",
    );
    let plan = converge(&world, &["plan", "hosts.yaml"]).expect(2);
    drop(
        plan.says("rpm trusts the key")
            .says("t-shop.repo")
            .says("RPM-GPG-KEY-t-shop")
            .says("dnf makecache for t-shop"),
    );
    apply(&world).expect(0);
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    // A package without a signature is not installed.
    let unsigned = format!("{role}  - name: unsigned\n    package: {{name: t-plain}}\n");
    roles(&world, &[("r", &unsigned)]);
    drop(apply(&world).expect(1).says("t-plain-1-1.noarch.rpm is not signed"));
    assert_eq!(exec(host, "rpm -q t-plain || true"), "package t-plain is not installed");
    // Metadata that somebody else has signed are not taken.
    exec(
        host,
        "cp -a /signed/repodata /srv/; echo '<!-- -->' >>/signed/repodata/repomd.xml; rm -r /var/cache/dnf/t-shop-*",
    );
    roles(&world, &[("r", &role)]);
    drop(apply(&world).expect(1).says("the metadata of t-shop cannot be fetched"));
    exec(host, "rm -r /signed/repodata; mv /srv/repodata /signed/");

    // Others' repositories in these files stay.
    exec(host, "printf '[t-other]\nname=o\nbaseurl=file:///repo\n' >>/etc/yum.repos.d/t-shop.repo");
    let gone = "  - name: gone\n    rpm_repository: {name: t-shop, state: absent}\n";
    for role in [&role, gone] {
        roles(&world, &[("r", role)]);
        drop(converge(&world, &["plan", "hosts.yaml"]).expect(1).says("holds other repositories: t-other"));
    }
    exec(host, "sed -i '/t-other/,$d' /etc/yum.repos.d/t-shop.repo");
    apply(&world).expect(0);
    assert_eq!(
        exec(host, "ls /etc/yum.repos.d /etc/pki/rpm-gpg; ls -d /var/cache/dnf/t-shop-* 2>/dev/null; true"),
        "/etc/pki/rpm-gpg:\n\n/etc/yum.repos.d:\nmade.repo"
    );
    let twin =
        "  - name: twin\n    rpm_repository: {name: made, baseurl: \"file:///repo\", gpgcheck: false}\n";
    exec(host, "mv /etc/yum.repos.d/made.repo /etc/yum.repos.d/by-hand.repo");
    roles(&world, &[("r", twin)]);
    let refused = converge(&world, &["plan", "hosts.yaml"]);
    exec(
        host,
        "mv /etc/yum.repos.d/by-hand.repo /etc/yum.repos.d/made.repo; rm -rf /etc/pki/rpm-gpg; rpm -e --allmatches gpg-pubkey",
    );
    drop(refused.expect(1).says("by-hand.repo has a repository `made` too"));
}

#[test]
fn versions_of_rpm_are_held_by_versionlock_and_released() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    const LIST: &str = "cat /etc/dnf/plugins/versionlock.list; rpm -q t-ver || true";
    let item = |words: &str| format!("  - name: it\n    package: {{{words}}}\n");
    let ready = "dnf -q -y remove t-ver >/dev/null 2>&1; : >/etc/dnf/plugins/versionlock.list";
    let held = item("name: t-ver, version: \"1-1\", hold: true");
    goes_back(&world, &["rollback", "undo.sh"], ready, &held, LIST);
    let there = format!(
        "{ready}; dnf -q -y install t-ver-1 >/dev/null 2>&1; dnf -q versionlock t-ver >/dev/null; sed -i /^#/d /etc/dnf/plugins/versionlock.list"
    );
    for (role, way) in [
        ("name: t-ver=2-1, hold: true", "undo.sh"),
        ("name: t-ver, hold: false", "rollback"),
        ("name: t-ver, state: absent, hold: false", "rollback"),
    ] {
        goes_back(&world, &[way], &there, &item(role), LIST);
    }
    exec(host, &format!("rm -rf /var/lib/converge; {ready}"));
    roles(&world, &[("r", &held)]);
    apply(&world).expect(0);
    assert_eq!(exec(host, LIST), "t-ver-0:1-1.*\nt-ver-1-1.noarch");
    exec(host, "dnf -q -y upgrade >/dev/null 2>&1; rpm -q t-ver-1-1");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    // Nothing moves it that does not say so.
    for words in ["name: t-ver, state: latest", "name: t-ver=2-1"] {
        roles(&world, &[("r", &item(words))]);
        let plan = converge(&world, &["plan", "hosts.yaml"]).expect(1);
        drop(plan.says("t-ver is held by `t-ver-0:1-1.*` in /etc/dnf/plugins/versionlock.list"));
    }
    roles(&world, &[("r", &held)]);
    exec(host, ": >/etc/dnf/plugins/versionlock.list");
    converge(&world, &["plan", "hosts.yaml"]).expect(2);
    apply(&world).expect(0);
    assert_eq!(exec(host, LIST), "t-ver-0:1-1.*\nt-ver-1-1.noarch");
    // Without the plugin nothing is held.
    exec(host, "sed -i 's/^enabled.*/enabled = 0/' /etc/dnf/plugins/versionlock.conf");
    let plan = converge(&world, &["plan", "hosts.yaml"]);
    exec(
        host,
        "sed -i 's/^enabled.*/enabled = 1/' /etc/dnf/plugins/versionlock.conf; : >/etc/dnf/plugins/versionlock.list",
    );
    drop(plan.expect(1).says("no plugin versionlock").says("python3-dnf-plugin-versionlock"));
}
