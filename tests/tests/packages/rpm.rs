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
/// edited one put aside), with UNIT as a service that it disables and stops as it goes; `index` has the repository list all of them, and dnf read it.
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
  [ -z "$UNIT" ] || printf 'u=%%{buildroot}/usr/lib/systemd/system; mkdir -p $u\nprintf "[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n" >$u/%s.service\n' "$1"
  [ -z "$UNIT" ] || printf '%%preun\n[ $1 != 0 ] || systemctl --no-reload disable --now %s\n%%postun\nsystemctl daemon-reload\n' "$1"
  [ -z "$4" ] || printf '%%post\n%s\n' "$4"
  echo '%files'
  [ -z "$UNIT" ] || echo "/usr/lib/systemd/system/$1.service"
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
made t-bad 1 '' 'exit 1'
UNIT=1 made t-runs 1
UNIT=1 made t-starts 1 '' 'systemctl daemon-reload; systemctl enable --now t-starts'
index
"#;

/// A host of rpm without managed objects, with `t-old` installed.
pub fn rpm_world() -> MutexGuard<'static, World> {
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
pub fn rpms(host: &Host) -> String {
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
    for (words, reply) in [
        ("name: t-lub", "did you mean `t-lib`?"),
        ("name: t-kept, version: \"9-1\"", "the repositories offer 1-1, 2-1"),
        ("name: t-virtual", "t-real provide it"),
        ("name: t-dated", "dnf would install t-new"),
        ("name: t-ver, version: \"1-1\"", "t-ver 2-1 is installed, and 1-1 is older"),
    ] {
        roles(&world, &[("r", &one(words))]);
        drop(converge(&world, &["plan", "hosts.yaml"]).says(reply).expect(1));
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

/// The configuration files and what lies beside them, with mode, owner and contents.
const CONFIGURATION: &str =
    "cd /etc; for f in t-*; do [ ! -e $f ] || { stat -c '%n %a %U' $f; cat $f; }; done";

/// Reverts the run in these ways, each from the same beginning, which must come back.
pub fn goes_back(world: &World, reverts: &[&str], ready: &str, role: &str, shown: &str) {
    let host = &world.hosts()[0];
    for way in reverts {
        exec(host, &format!("rm -rf /var/lib/converge /etc/t-*; {ready}"));
        let before = (exec(host, shown), rpms(host));
        roles(world, &[("r", role)]);
        apply(world).expect(0);
        assert_ne!((exec(host, shown), rpms(host)), before, "{way} of {role}");
        match *way {
            "rollback" => drop(converge(world, &["rollback", "--yes", "hosts.yaml"]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!((exec(host, shown), rpms(host)), before, "{way} of {role}");
    }
}

#[test]
fn a_service_of_a_package_of_rpm_comes_back_as_it_was() {
    let world = rpm_world();
    let ready = "dnf -q -y install t-runs t-starts >/dev/null 2>&1; systemctl daemon-reload; systemctl -q enable --now t-runs; systemctl -q disable --now t-starts; \
                 systemctl is-active t-runs";
    let gone = "  - name: gone\n    package: {name: [t-runs, t-starts], state: absent}\n";
    goes_back(
        &world,
        &["rollback", "undo.sh"],
        ready,
        gone,
        "for u in t-runs t-starts; do systemctl is-enabled $u; systemctl is-active $u; done 2>&1; true",
    );
}

#[test]
fn configuration_files_of_rpm_come_back_with_all_that_lay_beside_them() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let item = |words: &str| format!("  - name: it\n    package: {{{words}}}\n");
    let by_hand = "dnf -q -y remove t-kept t-aside >/dev/null 2>&1; rm -f /etc/t-*; cd /etc; for f in t-kept t-aside; do echo hand >$f; done; chmod 600 t-kept; \
                   chown daemon t-aside; echo new >t-kept.rpmnew; echo save >t-kept.rpmsave; echo orig >t-aside.rpmorig";
    goes_back(&world, &["rollback", "undo.sh"], by_hand, &item("name: [t-kept, t-aside]"), CONFIGURATION);
    let edited = "dnf -q -y remove t-kept t-aside >/dev/null 2>&1; rm -f /etc/t-*; dnf -q -y install t-kept-1 t-aside-1 >/dev/null 2>&1; cd /etc; echo more >>t-aside; \
                  echo old >t-aside.rpmsave; chmod 600 t-aside";
    let removed = format!("{edited}; rm t-kept");
    let attributes = format!("{edited}; chmod 640 t-kept; chown daemon t-kept");
    let latest = item("name: [t-kept, t-aside], state: latest");
    goes_back(&world, &["undo.sh"], &removed, &latest, CONFIGURATION);
    goes_back(
        &world,
        &["rollback"],
        &attributes,
        &item("name: [t-kept, t-aside], state: absent"),
        CONFIGURATION,
    );
    // A resource that writes the file itself.
    let files = "  - name: one\n    file: {path: /etc/t-kept, content: \"mine\\n\"}\n  - name: two\n    file: {path: /etc/t-aside, content: \"mine\\n\"}\n";
    let plain = "dnf -q -y remove t-kept t-aside >/dev/null 2>&1; rm -f /etc/t-*; dnf -q -y install t-kept-1 t-aside-1 >/dev/null 2>&1";
    goes_back(&world, &["rollback"], plain, &format!("{latest}{files}"), CONFIGURATION);
    // Nothing that someone has edited since is lost.
    exec(host, "dnf -q -y remove t-kept t-aside >/dev/null 2>&1; rm -rf /var/lib/converge /etc/t-*");
    roles(&world, &[("r", &item("name: t-kept"))]);
    apply(&world).expect(0);
    exec(host, "echo since >/etc/t-kept");
    let rollback =
        |more: &[&str]| converge(&world, &[&["rollback", "--yes", "-v", "hosts.yaml"], more].concat());
    drop(rollback(&[]).expect(4).says("its configuration file /etc/t-kept was changed"));
    drop(rollback(&["--allow-destroy", "package:t-kept"]).expect(0).says("/etc/t-kept.rpmsave"));
    assert_eq!(exec(host, "cat /etc/t-kept*"), "since");
}

#[test]
fn what_dnf_is_told_to_leave_alone_is_named_and_so_are_duplicates() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    let refused = |words: &str, reply: &[&str]| {
        roles(&world, &[("r", &format!("  - name: it\n    package: {{{words}}}\n"))]);
        drop(
            reply
                .iter()
                .fold(converge(&world, &["plan", "hosts.yaml"]).expect(1), |plan, reply| plan.says(reply)),
        );
    };
    exec(host, "cp /etc/dnf/dnf.conf /srv/; echo 'excludepkgs=t-lib,t-o*' >>/etc/dnf/dnf.conf");
    let named = "t-lib is excluded by `excludepkgs=t-lib` in /etc/dnf/dnf.conf";
    refused("name: t-lib", &[named]);
    refused("name: t-a", &[named]);
    let named = "t-old is excluded by `excludepkgs=t-o*` in /etc/dnf/dnf.conf";
    refused("name: t-old, state: absent", &[named]);
    refused("name: t-old, state: latest", &[named]);
    exec(host, "cp /srv/dnf.conf /etc/dnf/dnf.conf");
    // As dnf leaves them that is killed.
    exec(
        host,
        "dnf -q -y install t-ver-1 >/dev/null 2>&1; rpm -i --nodeps --force /repo/t-ver-2-1.noarch.rpm",
    );
    refused(
        "name: t-ver, state: latest",
        &["t-ver is installed as 1-1 and 2-1: dnf was cut off", "`dnf remove --duplicates`"],
    );
    exec(host, "dnf -q -y remove --duplicates >/dev/null 2>&1; true");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
}

#[test]
fn a_plan_of_packages_of_rpm_writes_nothing_and_needs_no_root() {
    let world = rpm_world();
    let host = &world.hosts()[0];
    exec(
        host,
        "id t-plans >/dev/null 2>&1 || useradd -m -s /bin/bash t-plans; mkdir -p ~t-plans/.ssh; cp /root/.ssh/authorized_keys ~t-plans/.ssh/; chown -R t-plans ~t-plans; \
         rm -rf /var/lib/dnf/* /var/log/hawkey.log /var/cache/dnf/*.solv*",
    );
    roles(&world, &[("r", "  - name: it\n    package: {name: [t-a, t-bad]}\n")]);
    let inventory = world.inventory("ansible_timeout: 3");
    world.write("hosts.yaml", &inventory.replace("ansible_user: root", "ansible_user: t-plans")).unwrap();
    drop(converge(&world, &["plan", "hosts.yaml"]).says("t-lib 1-1").expect(2));
    world.write("hosts.yaml", &inventory).unwrap();
    drop(converge(&world, &["plan", "hosts.yaml"]).says("t-lib 1-1").expect(2));
    assert_eq!(exec(host, "ls -d /var/lib/dnf/* /var/log/hawkey.log /run/converge-* 2>/dev/null; true"), "");
    // A script that fails is told, though rpm goes on.
    let applied = converge(&world, &["apply", "--yes", "-v", "hosts.yaml"]);
    drop(applied.says("Error in POSTIN scriptlet in rpm package t-bad").expect(0));
}
