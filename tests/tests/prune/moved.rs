//! `converge state move` and `converge state adopt`: a renamed role, and a resource that another role has now, keep what runs recorded under the old name; what
//! somebody else has made is managed as it is.

use super::{exec, role, world};

const WEB: &str = "resources:
  - name: site
    for_each: [a, b]
    file: {path: \"/etc/mine-{{ item }}\", content: \"mine\\n\"}
  - name: issue
    file: {path: /etc/issue, content: \"mine\\n\"}
";
const ISSUE: &str = "resources:
  - name: banner
    file: {path: /etc/issue, content: \"mine\\n\"}
";

#[test]
fn objects_move_with_their_roles() {
    let world = world();
    let [host, other] = world.hosts() else { panic!() };
    for host in [host, other] {
        exec(host, "rm -f /etc/mine-*; printf 'theirs\\n' >/etc/issue");
    }
    let play = |roles: &str| {
        world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{roles}]\n")).unwrap();
    };
    let run = |args: &[&str]| world.converge(args).unwrap();
    role(&world, "web", WEB);
    play("web");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    let files = "stat -c '%n %i %Z' /etc/mine-a /etc/mine-b /etc/issue";
    let before = exec(host, files);

    // The role is renamed, and another one has one of its resources: nothing is orphaned, but the records know the old name.
    let files_alone = WEB.split("  - name: issue").next().unwrap();
    role(&world, "nginx", files_alone);
    role(&world, "login", ISSUE);
    play("nginx, login");
    let plan = run(&["plan", "hosts.yaml"]).expect(0);
    assert!(!plan.stdout.contains("orphaned"), "{}", plan.stdout);
    run(&["state", "list", "hosts.yaml"]).expect(0).says("web/site[a]").says("web/issue");

    let moves = |args: &[&str]| run(&[&["state", "move", "hosts.yaml"], args].concat());
    moves(&["web"]).expect(64).says("two names are needed: OLD and NEW");
    moves(&["web", "nginx/site"]).expect(64).says("are not two roles");
    moves(&["web", "apache"]).expect(64).says("the playbook has no role `apache`");
    moves(&["php", "nginx"]).expect(64).says("no object is managed by `php`");
    moves(&["web/issue", "login/banner"]).expect(4).says("web/issue → login/banner").says("write --yes");
    run(&["state", "list", "hosts.yaml"]).expect(0).says("web/issue");
    moves(&["web/issue", "login/banner", "--yes"]).expect(0).says("1 object moved · run ");
    // A name that something else has is refused.
    let used = moves(&["web/site[a]", "login/banner", "--yes"]).expect(4);
    used.says("`login/banner` is in use").says("path:/etc/issue").says("path:/etc/mine-a (web/site[a])");
    run(&["state", "list", "hosts.yaml"]).expect(0).says("web/site[a]");
    moves(&["web", "nginx", "--yes"]).expect(0).says("web/site[b] → nginx/site[b]").says("2 objects moved");
    let listed = run(&["state", "list", "hosts.yaml"]).expect(0).says("nginx/site[a]").says("login/banner");
    assert!(!listed.stdout.contains("web/"), "{}", listed.stdout);
    assert_eq!(exec(host, files), before, "nothing but the records has changed");
    run(&["snapshots", "hosts.yaml"]).expect(0).says("state move");
    run(&["plan", "hosts.yaml"]).expect(0);

    // A prune that is narrowed to the new role knows what that has no more; later runs have the base of it.
    role(&world, "nginx", &files_alone.replace("[a, b]", "[a]"));
    let pruned =
        run(&["apply", "hosts.yaml", "--role", "nginx", "--prune=1", "--yes", "--limit", host.name()]);
    pruned.expect(0).says("/etc/mine-b");
    assert_eq!(exec(host, "ls /etc/mine-*"), "/etc/mine-a");
    run(&["state", "list", "hosts.yaml"]).expect(0).says("nginx/site[a]").says("login/banner");

    // So does a rollback of the new role alone, on the other host, of a run that was before.
    let limited = ["hosts.yaml", "--limit", other.name(), "--yes"];
    run(&[&["rollback", "--role", "login"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(other, "cat /etc/issue; ls /etc/mine-*"), "theirs\n/etc/mine-a\n/etc/mine-b");
    let undone = exec(other, "sh /var/lib/converge/undo.sh");
    assert!(undone.contains("/etc/mine-a"), "{undone}");
    assert_eq!(exec(other, "cat /etc/issue; ls /etc/mine-* 2>/dev/null || true"), "theirs");
    run(&[&["state", "list"], &limited[..3]].concat()).expect(0).says("0 managed objects");
}

#[test]
fn what_somebody_else_has_made_is_adopted_as_it_is() {
    let world = world();
    let [host, other] = world.hosts() else { panic!() };
    for host in [host, other] {
        exec(host, "printf 'mine\\n' | tee /etc/mine-a /etc/mine-b >/etc/issue; chmod 600 /etc/issue");
    }
    let role_with = |resources: &str| role(&world, "web", resources);
    let run = |args: &[&str]| world.converge(args).unwrap();
    role_with(WEB);
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [web]\n").unwrap();
    // An apply without a difference records nothing.
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    run(&["state", "list", "hosts.yaml"]).expect(0).says("0 managed objects");

    let adopt = |args: &[&str]| run(&[&["state", "adopt", "hosts.yaml"], args].concat());
    let files = "stat -c '%n %i %Z' /etc/mine-a /etc/mine-b /etc/issue";
    let before = exec(host, files);
    adopt(&[]).expect(64).says("no resource is named");
    adopt(&["web/none", "--yes"]).expect(64).says("no resource `web/none` is declared here");
    adopt(&["web/site"]).expect(4).says("path:/etc/mine-b").says("write --yes");
    adopt(&["web/site", "web/issue", "--yes"]).expect(0).says("3 objects adopted · run ");
    assert_eq!(exec(host, files), before, "nothing but the records has changed");
    adopt(&["web/site", "--yes"]).expect(0).says("nothing to adopt");
    run(&["state", "list", "hosts.yaml"]).expect(0).says("web/site[a]").says("3 managed objects");
    run(&["snapshots", "hosts.yaml"]).expect(0).says("state adopt");
    exec(host, "echo more >>/etc/issue");
    run(&["state", "diff", "hosts.yaml"]).expect(2).says("path:/etc/issue");
    adopt(&["web/issue", "--yes"]).expect(4).says("web/issue of h1 is not as declared");
    exec(host, "printf 'mine\\n' >/etc/issue");

    // Later changes lead back to that state: a rollback, undo.sh, and a prune.
    let limited = ["hosts.yaml", "--limit", host.name(), "--yes"];
    role_with(&WEB.replace("mine\\n", "changed\\n"));
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    run(&[&["rollback"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/issue; stat -c %a /etc/issue"), "mine\nmine\n600");
    let undone = exec(other, "sh /var/lib/converge/undo.sh; cat /etc/mine-a; stat -c %a /etc/issue");
    assert!(undone.ends_with("mine\n600"), "{undone}");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    role_with(ISSUE);
    run(&[&["apply", "--prune=2"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/mine-b /etc/issue"), "mine\nmine\nmine");

    // So does a prune where somebody has changed a file between its adoption and the first change. The role itself may have led it back before: it stays managed.
    exec(host, "rm -rf /var/lib/converge");
    let listed =
        |objects: &str| run(&["state", "list", "hosts.yaml", "--limit", host.name()]).expect(0).says(objects);
    role_with(WEB);
    run(&[&["state", "adopt"], &limited[..], &["web/site"]].concat()).expect(0).says("2 objects adopted");
    exec(host, "printf 'edited\\n' >/etc/mine-a");
    role_with(&WEB.replace("mine\\n", "changed\\n"));
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    role_with(WEB);
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    listed("web/site[a]").says("web/site[b]");
    role_with(&WEB.replace("mine\\n", "changed\\n"));
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    role_with(ISSUE);
    run(&[&["apply", "--prune=2"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/mine-b"), "mine\nmine");
    listed("0 managed objects");

    // A rollback of what came after the adoption leaves it managed, one past the adoption does not.
    exec(host, "rm -rf /var/lib/converge; printf 'theirs\\n' >/etc/issue");
    role_with(WEB);
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    let all = run(&["snapshots", "hosts.yaml", "--output", "json", "--limit", host.name()]).json().unwrap();
    let oldest = all["hosts"][0]["runs"][0]["run"].as_str().unwrap();
    run(&[&["state", "adopt"], &limited[..], &["web/site"]].concat()).expect(0).says("2 objects adopted");
    role_with(&WEB.replace("mine\\n", "changed\\n"));
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    run(&[&["rollback"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/mine-b"), "mine\nmine");
    listed("web/site[a]").says("web/site[b]").says("web/issue");
    run(&[&["apply"], &limited[..]].concat()).expect(0);
    run(&[&["rollback", "--to", oldest], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/mine-b /etc/issue"), "mine\nmine\ntheirs");
    listed("0 managed objects");

    // An orphan that nobody has changed since stays as it is, and is managed no more.
    exec(host, "rm -rf /var/lib/converge; printf 'mine\\n' >/etc/issue");
    role_with(WEB);
    run(&[&["state", "adopt"], &limited[..], &["web/site"]].concat()).expect(0).says("2 objects adopted");
    role_with(ISSUE);
    run(&["plan", "--prune", "hosts.yaml", "--limit", host.name()]).all();
    run(&[&["apply", "--prune"], &limited[..]].concat()).expect(0);
    assert_eq!(exec(host, "cat /etc/mine-a /etc/mine-b"), "mine\nmine");
    run(&["state", "list", "hosts.yaml", "--limit", host.name()]).expect(0).says("0 managed objects");
}
