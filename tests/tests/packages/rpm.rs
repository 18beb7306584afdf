//! A host whose packages are rpm's: the facts and the kinds that need no packages, and packages by the real dnf, from a repository of made-up ones.

use super::*;

/// One host for these tests, one test at a time.
static RPM: LazyLock<Mutex<World>> = LazyLock::new(|| {
    let world = World::new(&format!("packages-rpm-{}", std::process::id()), 1).unwrap();
    world.hosts()[0].become_rpm().unwrap();
    exec(&world.hosts()[0], PREPARE_RPM);
    Mutex::new(world)
});

/// `made NAME VERSION MORE POST` makes a package of release 1, of the epoch EPOCH, with a configuration file that holds KEPT (noreplace) or ASIDE (replaced, the
/// edited one put aside); `index` has the repository list all of them, and dnf read it.
const PREPARE_RPM: &str = r#"set -e
mkdir -p /repo
cat >/usr/local/bin/made <<'END'
#!/bin/sh -e
d=$(mktemp -d)
{
  printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: t\nLicense: MIT\nBuildArch: noarch\n%s\n' "$1" "$2" "$3"
  [ -z "$EPOCH" ] || echo "Epoch: $EPOCH"
  printf '%%description\nt\n%%install\nmkdir -p %%{buildroot}/etc\n'
  [ -z "$KEPT$ASIDE" ] || echo "echo '$KEPT$ASIDE' >%{buildroot}/etc/$1"
  [ -z "$4" ] || printf '%%post\n%s\n' "$4"
  echo '%files'
  [ -z "$KEPT" ] || echo "%config(noreplace) /etc/$1"
  [ -z "$ASIDE" ] || echo "%config /etc/$1"
} >$d/it.spec
rpmbuild -bb --quiet --define "_topdir $d" --define "_rpmdir $d" "$d/it.spec" 2>/dev/null
mv $d/noarch/*.rpm /repo/; rm -r "$d"
END
printf '#!/bin/sh -e\ncreaterepo_c -q /repo\nrm -rf /var/cache/dnf\ndnf -q makecache\n' >/usr/local/bin/index
chmod 755 /usr/local/bin/made /usr/local/bin/index
printf '[made]\nname=made\nbaseurl=file:///repo\ngpgcheck=0\n' >/etc/yum.repos.d/made.repo
made t-lib 1
made t-a 1 'Requires: t-lib'
made T_b 1 'Requires: t-lib'
for v in 1 2; do
  made t-ver $v
  KEPT="of version $v" made t-kept $v
  ASIDE="of version $v" made t-aside $v
done
EPOCH=1 made t-epoch 0.5
made t-epoch 9
made t-old 1
made t-dated 1
made t-new 1 'Obsoletes: t-dated < 2'
made t-extra 1
made t-weak 1 'Recommends: t-extra'
made t-real 1 'Provides: t-virtual'
made t-script 1 '' 'echo said >/srv/script'
index
"#;

/// A host of rpm without managed objects, with `t-old` installed.
fn rpm_world() -> MutexGuard<'static, World> {
    let world = RPM.lock().unwrap_or_else(PoisonError::into_inner);
    exec(
        &world.hosts()[0],
        "all=$(rpm -qa --qf '%{NAME} ' 't-*' 'T_*'); [ -z \"$all\" ] || dnf -q -y remove $all >/dev/null 2>&1; rm -rf /var/lib/converge /srv/* /etc/t-*; mkdir -p /srv; \
         [ -d /var/cache/dnf ] || index; dnf -q -y install t-old >/dev/null 2>&1; rpm -q t-old >/dev/null",
    );
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    world
}

/// The installed ones of all packages that are made up here, and those that came along.
fn rpms(host: &Host) -> String {
    exec(
        host,
        "rpm -qa --qf '%|EPOCH?{%{EPOCH}:}:{}|%{NAME} %{VERSION}-%{RELEASE}\\n' 't-*' 'T_*' | sort; \
         dnf -q -C repoquery --userinstalled --qf '%{name} asked' 't-*' 'T_*' | sort",
    )
}

const KINDS: &str = r#"  - name: folder
    directory: {path: /srv/folder, mode: "0750"}
  - name: text
    file: {path: /srv/folder/text, content: "{{ facts.package_manager }} {{ facts.os.version }}\n"}
  - name: pointer
    link: {path: /srv/pointer, target: folder/text}
  - name: team
    group: {name: t-team, gid: 4711}
  - name: person
    user: {name: t-person, group: t-team, home: /srv/person}
  - name: port
    sysctl: {name: net.ipv4.ip_unprivileged_port_start, value: "80"}
  - name: unit
    unit: {name: t-unit, content: "[Service]\nExecStart=/bin/sleep infinity\n", state: started}
  - name: once
    command: {run: "touch /srv/once", creates: /srv/once, undo: "rm /srv/once"}
"#;

#[test]
fn kinds_that_need_no_packages_work_on_a_host_of_rpm() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let facts = converge(&world, &["facts", "hosts.yaml"]).expect(0).all();
    for fact in ["lab", "rhel", "9.4", "dnf", "x86_64"] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    let shown = "ls -lR --time-style=+ /srv; getent passwd t-person; getent group t-team; sysctl -n net.ipv4.ip_unprivileged_port_start; \
                 systemctl is-active t-unit; ls /etc/systemd/system/t-unit.service; true";
    let before = exec(host, shown);
    roles(&world, &[("r", KINDS)]);
    converge(&world, &["plan", "hosts.yaml"]).expect(2);
    apply(&world).expect(0);
    assert_eq!(
        exec(host, "cat /srv/pointer; stat -c %U:%G /srv/person; systemctl is-active t-unit"),
        "dnf 9.4\nt-person:t-team\nactive"
    );
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(exec(host, shown), before);
}

const RPMS: &str = r#"  - name: a
    package: {name: [t-a, T_b]}
  - name: pinned
    package: {name: t-ver, version: "1-1"}
  - name: epoch
    package: {name: t-epoch}
  - name: weak
    package: {name: t-weak}
  - name: gone
    package: {name: t-old, state: absent}
"#;

#[test]
fn packages_are_planned_as_one_transaction_of_dnf_and_go_back() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let before = rpms(host);
    for way in ["rollback", "undo.sh"] {
        roles(&world, &[("r", RPMS)]);
        let plan = converge(&world, &["plan", "hosts.yaml"]).expect(2);
        plan.says("t-lib").says("1:0.5-1").says("t-old");
        assert_eq!(rpms(host), before, "a plan changes nothing");
        let transactions = "dnf -q -C history list | grep -c '|' || true";
        let count: u32 = exec(host, transactions).parse().unwrap();
        apply(&world).expect(0);
        assert_eq!(exec(host, transactions).parse::<u32>().unwrap(), count + 1, "{way}: one transaction");
        let made = "1:t-epoch 0.5-1\nT_b 1-1\nt-a 1-1\nt-lib 1-1\nt-ver 1-1\nt-weak 1-1\nT_b asked\nt-a asked\nt-epoch asked\nt-ver asked\nt-weak asked";
        assert_eq!(rpms(host), made, "{way}");
        converge(&world, &["plan", "hosts.yaml"]).expect(0);
        match way {
            "rollback" => drop(converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(rpms(host), before, "{way}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

#[test]
fn versions_and_edited_configuration_files_go_back_and_what_dnf_refuses_is_explained() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    exec(
        host,
        "dnf -q -y install t-kept-1 t-aside-1 t-ver-2 >/dev/null 2>&1; echo edited | tee /etc/t-kept >/etc/t-aside",
    );
    let before = rpms(host);
    let one = |words: &str| format!("  - name: it\n    package: {{{words}}}\n");
    // The plan refuses these.
    for (words, said) in [
        ("name: t-lub", "did you mean `t-lib`?"),
        ("name: t-kept, version: \"9-1\"", "the repositories offer 1-1, 2-1"),
        ("name: t-virtual", "t-real provide it"),
        ("name: t-dated", "dnf would install t-new"),
        ("name: t-lib, hold: true", "packages are not held on hosts with dnf"),
        ("name: t-ver, version: \"1-1\"", "t-ver 2-1 is installed, and 1-1 is older"),
    ] {
        roles(&world, &[("r", &one(words))]);
        drop(converge(&world, &["plan", "hosts.yaml"]).says(said).expect(1));
    }
    let up = one("name: [t-kept=2-1, t-aside=2-1]");
    let down =
        up.replace("it\n", "down\n").replace("[t-kept=2-1, t-aside=2-1]", "t-ver=1-1, allow_downgrade: true");
    roles(&world, &[("r", &format!("{up}{down}"))]);
    apply(&world).expect(0);
    assert_eq!(exec(host, "ls /etc/t-*.rpm*"), "/etc/t-aside.rpmsave\n/etc/t-kept.rpmnew");
    let now = rpms(host);
    assert!(now.starts_with("t-aside 2-1\nt-kept 2-1\nt-old 1-1\nt-ver 1-1"), "{now}");
    assert_eq!(exec(host, "cat /etc/t-kept /etc/t-aside"), "edited\nof version 2");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
    converge(&world, &["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(rpms(host), before);
    assert_eq!(
        exec(host, "cat /etc/t-kept /etc/t-aside; ls /etc/t-*"),
        "edited\nedited\n/etc/t-aside\n/etc/t-kept"
    );
    // The plan says which version nobody has any more.
    exec(host, "rm -rf /var/lib/converge; mkdir /srv/away; mv /repo/t-ver-2-1.noarch.rpm /srv/away/; index");
    roles(&world, &[("r", &one("name: t-ver, state: absent"))]);
    let plan = converge(&world, &["plan", "hosts.yaml"]);
    exec(host, "mv /srv/away/* /repo/; index");
    drop(plan.says("no repository offers t-ver 2-1 any more").expect(2));
}
