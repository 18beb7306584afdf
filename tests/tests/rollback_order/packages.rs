//! Packages, and files and units that they bring.

use super::*;

#[test]
fn packages_go_together_and_a_masked_unit_is_masked_without_its_link() {
    let world = world();
    let host = &world.hosts()[0];
    let installed = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' | grep '^[^ ]* [^ ]* [ihr]'; apt-mark showmanual | sort; apt-mark showhold";
    let link = "ls /etc/systemd/system/*.wants/masked.service 2>/dev/null; systemctl is-enabled masked; systemctl is-active masked; true";
    exec(
        host,
        "mkdir -p /usr/local/lib/systemd/system; printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \
         > /usr/local/lib/systemd/system/masked.service; systemctl daemon-reload; systemctl mask masked",
    );
    let (packages, unit) = (exec(host, installed), exec(host, link));
    let role = r#"resources:
  - name: tree
    package: {name: tree}
  - name: firewall
    package: {name: ufw}
  - name: between
    file: {path: /srv/between, content: "x\n"}
  - name: python
    package: {name: python3-minimal}
  - name: lifted
    service: {name: masked, masked: false, enabled: true, state: started}
"#;
    for way in ["rollback", "undo.sh"] {
        apply(&world, role);
        exec(host, "systemctl is-active masked && ls /usr/bin/tree /usr/sbin/ufw /usr/bin/python3");
        if way == "rollback" {
            let plan = rollback(&world, &[]);
            assert_eq!(plan.code, Some(0), "{}", plan.all());
            assert_eq!(plan.stdout.matches(" python3-minimal ").count(), 1, "{}", plan.stdout);
        } else {
            let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
            assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
        }
        assert_eq!(exec(host, installed), packages, "{way}");
        assert_eq!(exec(host, link), unit, "{way}");
        assert_eq!(exec(host, "ls /srv"), "");
    }
    // A mask that systemctl would refuse is known in the plan: it would stand in the place of a link.
    exec(
        host,
        "mv /usr/local/lib/systemd/system/masked.service /opt/linked.service; ln -s /opt/linked.service /etc/systemd/system/; systemctl daemon-reload",
    );
    world.only_role("r", "resources:\n  - service: {name: linked, masked: true}\n").unwrap();
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap();
    plan.expect(1).says("linked.service cannot be masked").says("a link to /opt/linked.service");
    exec(
        host,
        "systemctl unmask masked; rm /opt/linked.service /etc/systemd/system/linked.service; systemctl daemon-reload",
    );
}

#[test]
fn what_a_package_brought_goes_with_it_changed_and_masked() {
    let world = world();
    let host = &world.hosts()[0];
    let role = r#"resources:
  - name: server
    package: {name: nginx-light}
  - name: directory
    directory: {path: /etc/nginx/sites-available, mode: "0750"}
  - name: masked
    service: {name: nginx, masked: true, state: stopped}
"#;
    let rest = "ls -d /etc/nginx /etc/systemd/system/nginx.service 2>/dev/null || echo none";
    apply(&world, role);
    assert_eq!(
        exec(host, "stat -c %a /etc/nginx/sites-available; systemctl is-enabled nginx; true"),
        "750\nmasked"
    );
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, rest), "none");
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(exec(host, rest), "none");
}

#[test]
fn a_directory_in_one_of_a_package_goes_before_the_package() {
    let world = world();
    let host = &world.hosts()[0];
    apply(
        &world,
        "resources:\n  - name: scheduler\n    package: {name: cron}\n  - name: directory\n    directory: {path: /etc/cron.d/kept}\n",
    );
    rollback(&world, &[]).expect(0);
    assert_eq!(
        exec(
            host,
            "ls -d /etc/cron.d/kept 2>/dev/null || echo gone; dpkg-query -W -f '${db:Status-Status}' cron | grep -x installed || echo purged"
        ),
        "gone\npurged"
    );
}

/// The scripts of a package that comes back enable its unit, which goes on from there.
#[test]
fn a_unit_comes_back_running_with_its_package() {
    let world = world();
    let host = &world.hosts()[0];
    let made =
        "resources:\n  - package: {name: cron}\n  - service: {name: cron, state: started, enabled: true}\n";
    let runs = "systemctl is-enabled cron; systemctl is-active cron; true";
    for way in ["rollback", "undo.sh"] {
        apply(&world, made);
        world.only_role("r", "resources:\n  - file: {path: /srv/other, content: x}\n").unwrap();
        let prune = world.prune_all().unwrap();
        world.converge(&prune.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().expect(0);
        assert_eq!(exec(host, "ls /usr/sbin/cron 2>/dev/null || echo gone"), "gone");
        match way {
            "rollback" => drop(rollback(&world, &[]).expect(0)),
            _ => {
                let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
            }
        }
        assert_eq!(exec(host, runs), "enabled\nactive", "{way}");
        rollback(&world, &[]).expect(0);
        assert_eq!(exec(host, "ls /usr/sbin/cron /srv/other 2>/dev/null || echo gone"), "gone", "{way}");
    }
}
