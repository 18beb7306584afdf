//! Packages that others need: they stay in a rollback, a prune and `undo.sh`, and are named with what needs them.

use super::*;

const CRON: &str = "  - package: {name: cron}\n";
const IS: &str = "dpkg-query -W -f '${db:Status-Status}' cron 2>/dev/null | grep -x installed || echo purged; tail -n 1 /etc/crontab 2>/dev/null; true";

#[test]
fn a_configuration_file_that_others_have_changed_keeps_its_package() {
    let world = world();
    let host = &world.hosts()[0];
    let of = |name: &str, args: &[&str], role: Option<&str>| world.of_project(name, args, role).unwrap();
    of("pa", &["apply", "--yes"], Some(CRON)).expect(0);
    let line = "  - line: {path: /etc/crontab, line: \"# of pb\"}\n";
    of("pb", &["apply", "--yes"], Some(line)).expect(0);
    let unchanged = "installed\n# of pb";
    let left = of("pa", &["rollback", "--yes"], None);
    assert_eq!(exec(host, IS), unchanged, "{}", left.all());
    left.says("path:/etc/crontab of run").says("of another project").says("--allow-destroy package:");
    let prune = converge_tests::prune_by_number(|option| {
        of("pa", &["apply", "--yes", option], Some("  - file: {path: /srv/other, content: x}\n"))
    });
    assert_eq!(exec(host, IS), unchanged, "{}", prune.all());
    of("pb", &["rollback", "--yes"], None).expect(0);
    let back = of("pa", &["rollback", "--yes"], None);
    let again = of("pa", &["rollback", "--yes"], None);
    assert_eq!(exec(host, IS), "purged", "{}{}", back.all(), again.all());
    // An edit of the package's own run goes with it; one by hand does not.
    let edited = format!("{CRON}  - line: {{path: /etc/crontab, line: \"# of pa\"}}\n");
    of("pa", &["apply", "--yes"], Some(&edited)).expect(0);
    of("pa", &["rollback", "--yes"], None).expect(0);
    assert_eq!(exec(host, IS), "purged");
    of("pa", &["apply", "--yes"], Some(CRON)).expect(0);
    exec(host, "echo '# by hand' >>/etc/crontab");
    let left = of("pa", &["rollback", "--yes"], None);
    assert!(exec(host, IS).ends_with("# by hand"), "{}", left.all());
    left.says("its configuration file /etc/crontab was changed by someone else");
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(
        undone.stdout.contains("its configuration file /etc/crontab was changed since"),
        "{}",
        undone.stdout
    );
    assert!(exec(host, IS).ends_with("# by hand"));
    let names = exec(host, "dpkg-query -S /etc/crontab | sed 's/:.*//'");
    let mut args = vec!["rollback".to_owned(), "--yes".to_owned()];
    args.extend(names.lines().flat_map(|name| ["--allow-destroy".to_owned(), format!("package:{name}")]));
    let gone = of("pa", &args.iter().map(String::as_str).collect::<Vec<_>>(), None);
    assert_eq!(exec(host, IS), "purged", "{}", gone.all());
    gone.says("no rollback brings that content back");
}

#[test]
fn a_firewall_and_a_checkout_that_stay_keep_their_packages() {
    let world = world();
    let host = &world.hosts()[0];
    let of = |name: &str, args: &[&str], role: Option<&str>| world.of_project(name, args, role).unwrap();
    let role =
        "  - package: {name: ufw}\n  - firewall: {rules: [{port: 22/tcp}], incoming: deny, enabled: true}\n";
    of("pa", &["apply", "--yes"], Some(role)).expect(0);
    of("pb", &["apply", "--yes"], Some("  - firewall: {rules: [{port: 80/tcp, action: deny}]}\n")).expect(0);
    let rules = "command -v ufw >/dev/null && ufw status | sed -n '1p; s/ .*//; /^80/p; /^22/p' | sort -u || echo none";
    let whole = exec(host, rules);
    assert!(whole.contains("80/tcp") && whole.contains("22/tcp"), "{whole}");
    let left = of("pa", &["rollback", "--yes"], None);
    assert_eq!(exec(host, rules), whole, "{}", left.all());
    left.says("which needs it, stays");
    let undone = host.exec(&format!("sh /var/lib/converge/undo.sh {}", first_run(host))).unwrap();
    assert_eq!(exec(host, rules), whole, "{}", undone.stdout);
    assert!(
        undone.stdout.contains("/ufw would go with it") && !undone.stdout.contains("FAILED"),
        "{}",
        undone.stdout
    );
    of("pb", &["rollback", "--yes"], None).expect(0);
    let back = of("pa", &["rollback", "--yes"], None).expect(0);
    assert_eq!(exec(host, rules), "none", "{}", back.all());

    let made = "mkdir -p /srv/repo && cd /srv/repo && git init -q -b main . && echo a > a && git add a && git -c user.name=x -c user.email=x@y commit -qam b";
    let role = format!(
        "  - package: {{name: git}}\n  - command: {{run: \"{made}\", creates: /srv/repo/.git/refs/heads/main, undo: \"rm -rf /srv/repo\"}}\n  - git: {{repo: /srv/repo, dest: /srv/co}}\n"
    );
    of("pa", &["apply", "--yes"], Some(&role)).expect(0);
    exec(host, "echo hand >>/srv/co/a");
    let left = of("pa", &["rollback", "--yes"], None);
    exec(host, "git -C /srv/co status");
    left.says("which needs it, stays");
    exec(host, "git -C /srv/co checkout -q a");
    of("pa", &["rollback", "--yes"], None).expect(0);
    assert_eq!(exec(host, "ls /srv; command -v git || echo none"), "none");
    // The checkout waits for the package that brings git.
    of("pa", &["apply", "--yes"], Some(&role)).expect(0);
    exec(host, "apt-get purge -qy git >/dev/null 2>&1");
    of("pa", &["apply", "--yes"], Some(&role)).expect(0);
    of("pa", &["plan"], Some(&role)).expect(0);
    exec(host, "rm -rf /srv/*; apt-get purge -qy git >/dev/null 2>&1");
}

/// A unit of another project starts a program of the package: the package stays while the unit is used, and goes once it has gone.
#[test]
fn a_unit_that_is_used_keeps_the_package_of_the_program_that_it_starts() {
    let world = world();
    let host = &world.hosts()[0];
    let of = |name: &str, args: &[&str], role: Option<&str>| world.of_project(name, args, role).unwrap();
    of("pa", &["apply", "--yes"], Some(CRON)).expect(0);
    let content = "[Unit]\\nConflicts=cron.service\\n[Service]\\nExecStart=/usr/sbin/cron -f\\n[Install]\\nWantedBy=multi-user.target\\n";
    let unit = format!("  - unit: {{name: mine, content: \"{content}\", state: started, enabled: true}}\n");
    of("pb", &["apply", "--yes"], Some(&unit)).expect(0);
    let works = "systemctl is-active mine; test -x /usr/sbin/cron && echo there || echo gone";
    for args in [&["rollback", "--yes"][..], &["apply", "--yes", "--prune"][..]] {
        let left = match args {
            ["rollback", ..] => of("pa", args, None),
            _ => converge_tests::prune_by_number(|option| {
                of("pa", &["apply", "--yes", option], Some("  - file: {path: /srv/other, content: x}\n"))
            }),
        };
        assert_eq!(exec(host, works), "active\nthere", "{}", left.all());
        left.says("unit:mine.service").says("which needs it, stays");
    }
    of("pb", &["rollback", "--yes"], None).expect(0);
    of("pa", &["rollback", "--yes"], None);
    of("pa", &["rollback", "--yes"], None);
    assert_eq!(exec(host, "test -x /usr/sbin/cron && echo there || echo gone"), "gone");
}
