//! Packages with their parts, and what their scripts and commands have brought.

use super::*;

#[test]
fn the_parts_of_a_package_go_with_it_unless_something_needs_them() {
    let world = world();
    let host = &world.hosts()[0];
    role(&world, "base", "resources:\n  - name: web\n    package: {name: nginx-light}\n");
    playbook(&world, "base");
    converge(&world, &["apply", "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
    let packages =
        "dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' | sed -n 's/ ii *$//p' | grep nginx | xargs";
    assert!(exec(host, packages).contains("nginx-common"));
    role(&world, "base", "resources: []\n");
    assert_eq!(undeclared(&world, &[]), ["nginx-light removed"]);
    let plan =
        converge(&world, &["plan", "--prune", "--limit", "h1", "hosts.yaml"]).expect(2).says("nginx-common");
    let count = plan.stdout.matches("nginx").count();
    assert!(count > 1, "{}", plan.stdout);
    let refused = converge(&world, &["apply", "--prune", "--yes", "--limit", "h1", "hosts.yaml"]).expect(4);
    let number = refused.stderr.split("--prune=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let number = format!("--prune={number}");
    converge(&world, &["apply", &number, "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
    assert_eq!(exec(host, packages), "");
    assert!(!has(host, "/etc/nginx"));
}

/// A package with an edit of the file that it brings, a command that says what it makes and one that does not, each with an edit of it: all that
/// goes, goes; nothing of it is made anew; a rollback of the prune brings all of it back, and a second prune takes it away again.
#[test]
fn what_foreign_code_brought_goes_with_it_though_it_was_edited() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*");
    let full = r##"resources:
  - name: package
    package: {name: nginx-light}
  - name: edit of its file
    line: {path: /etc/nginx/nginx.conf, line: "# edited"}
  - name: makes
    command: {run: "mkdir /srv/made && echo a > /srv/made/f", creates: /srv/made, undo: rm -r /srv/made}
  - name: edit of it
    line: {path: /srv/made/f, line: b}
  - name: makes quietly
    command: {run: "echo a > /srv/quiet", unless: test -e /srv/quiet, undo: rm /srv/quiet}
  - name: edit of that
    line: {path: /srv/quiet, line: b}
"##;
    let state = "ls -d /etc/nginx /srv/made /srv/quiet 2>/dev/null; cat /srv/made/f /srv/quiet 2>/dev/null; tail -n 1 /etc/nginx/nginx.conf 2>/dev/null; true";
    let whole = "/etc/nginx\n/srv/made\n/srv/quiet\na\nb\na\nb\n# edited";
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let prune = || {
        role(&world, "base", "resources: []\n");
        let refused = on_h1(&["apply", "--yes", "--prune=99"]).expect(4);
        let number =
            refused.stderr.split("write --prune=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let pruned = on_h1(&["apply", "--yes", &format!("--prune={number}")]).expect(0);
        assert_eq!(exec(host, state), "", "{}", pruned.all());
        on_h1(&["plan"]).expect(0);
    };
    playbook(&world, "base");
    role(&world, "base", full);
    on_h1(&["apply", "--yes"]).expect(0);
    assert_eq!(exec(host, state), whole);
    prune();
    let back = on_h1(&["rollback", "--yes"]).expect(0);
    assert_eq!(exec(host, state), whole, "{}", back.all());
    role(&world, "base", full);
    on_h1(&["plan"]).expect(0);
    prune();
    // The same, put back on the host itself.
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(exec(host, state), whole, "{}", undone.stdout);
}
