//! Orphaned objects, which converge made and no role declares any more: shown in every plan, restored or removed with
//! `--prune`, and nothing else with them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

#[path = "prune/makers.rs"]
mod makers;
#[path = "prune/moved.rs"]
mod moved;
#[path = "prune/narrowed.rs"]
mod narrowed;
#[path = "prune/packages.rs"]
mod packages;
#[path = "prune/places.rs"]
mod places;
#[path = "prune/state.rs"]
mod state;

use converge_lab::Host;
use converge_tests::{Ran, World, exec, until_exec};
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// One lab for all tests here, one test at a time; the lab's guard takes it down when this process ends.
static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("prune-p{}", std::process::id()), 2).unwrap()));

/// The world as if new, for one host or two.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        exec(host, "systemctl stop mine slow; rm -rf /etc/mine /var/lib/converge; true");
        exec(
            host,
            "! command -v nginx >/dev/null || apt-get -q -y purge --auto-remove nginx-light nginx-common",
        );
    }
    for old in ["roles", "playbooks", "group_vars"] {
        drop(std::fs::remove_dir_all(world.dir().join(old)));
    }
    world.write("hosts.yaml", &world.inventory("")).unwrap();
    world
}

fn has(host: &Host, path: &str) -> bool {
    host.exec(&format!("test -e {path}")).unwrap().success()
}

fn role(world: &World, name: &str, text: &str) {
    world.write(&format!("roles/{name}/role.yaml"), text).unwrap();
}

/// A role that makes `/etc/mine` and these files in it.
fn files(names: &[&str]) -> String {
    let mut text = String::from("resources:\n  - name: folder\n    directory: {path: /etc/mine}\n");
    for name in names {
        text.push_str(&format!(
            "  - name: {name}\n    file: {{path: /etc/mine/{name}, content: \"{name}\\n\"}}\n"
        ));
    }
    text
}

/// A role that makes these files, in a folder of another role.
fn files_alone(names: &[&str]) -> String {
    let text = files(names);
    text.replace("  - name: folder\n    directory: {path: /etc/mine}\n", "")
}

fn playbook(world: &World, roles: &str) {
    world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{roles}]\n")).unwrap();
}

fn converge(world: &World, args: &[&str]) -> Ran {
    world.converge(args).unwrap()
}

fn apply(world: &World) -> Ran {
    converge(world, &["apply", "--yes", "hosts.yaml"])
}

/// The orphaned objects of the first host in a plan, and the effect of `--prune` on each.
fn undeclared(world: &World, args: &[&str]) -> Vec<String> {
    let mut all = vec!["plan", "--output", "json", "--limit", "h1", "hosts.yaml"];
    if args.contains(&"--limit") {
        all.retain(|a| !["--limit", "h1"].contains(a));
    }
    all.extend(args);
    let plan = converge(world, &all);
    let document = plan.json().unwrap();
    let things = document["hosts"][0]["records"]["no_longer_declared"].as_array();
    let things = things.unwrap_or_else(|| panic!("{}", plan.all()));
    let key = |t: &serde_json::Value| t["object"]["key"].as_str().unwrap_or("command").to_owned();
    things.iter().map(|t| format!("{} {}", key(t), t["prune"].as_str().unwrap())).collect()
}

#[test]
fn what_is_no_longer_declared_is_shown_given_back_and_can_be_rolled_back() {
    let world = world();
    let host = &world.hosts()[0];
    let all = files(&["keep", "drop"])
        + r##"
  - name: note
    line: {path: /etc/issue, line: "of the shop"}
  - name: tool
    package: {name: tree}
  - name: keeper
    user: {name: keeper}
  - name: program
    file: {path: /etc/mine/program, content: "#!/bin/sh\nexec sleep infinity\n", mode: "0755"}
  - name: daemon
    unit:
      name: mine
      content: |
        [Service]
        ExecStart=/etc/mine/program
        [Install]
        WantedBy=multi-user.target
  - name: runs
    service: {name: mine, state: started, enabled: true}
  - name: key
    command: {run: "echo secret > /etc/mine/key", creates: /etc/mine/key, undo: rm -f /etc/mine/key}
  - name: once
    command: {run: "echo once > /run/once", creates: /run/once}
"##;
    let issue = exec(host, "cat /etc/issue");
    role(&world, "mine", &all);
    playbook(&world, "mine");
    let limited = |args: &[&str]| {
        let mut all = vec!["--limit", "h1", "hosts.yaml"];
        all.splice(0..0, args.iter().copied());
        converge(&world, &all)
    };
    limited(&["apply", "--yes"]).expect(0);
    assert_eq!(exec(host, "systemctl is-active mine; tail -n1 /etc/issue"), "active\nof the shop");
    limited(&["plan"]).expect(0);

    role(&world, "mine", &files(&["keep"]));
    let reply = limited(&["plan"]).expect(0).says("orphaned: 10 of 12 resources").stdout;
    // An action without `undo` is not an object that could be removed.
    assert!(!reply.contains("run/once"), "{reply}");
    assert!(reply.contains("- path:/etc/mine/drop · role mine, since "), "{reply}");
    assert!(reply.contains("~ path:/etc/issue") && reply.contains("was there before"), "{reply}");
    // Nothing goes without being asked for.
    limited(&["apply", "--yes"]).expect(0);
    assert!(has(host, "/etc/mine/drop"));
    limited(&["drift"]).expect(0).says("orphaned");
    // 10 of 12 is more than 10 %: the number must be said.
    let refused = limited(&["apply", "--yes", "--prune"]).expect(4).says("objects would be removed");
    let number = refused.stderr.split("--prune=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    limited(&["apply", "--yes", "--prune=99"]).expect(4).says("--prune=99 was given");
    assert!(has(host, "/etc/mine/drop"), "nothing was changed");
    let run = limited(&["apply", "--yes", &format!("--prune={number}")]).expect(0);
    assert!(!run.all().contains("verification failed"), "{}", run.all());
    assert_eq!(exec(host, "ls /etc/mine"), "keep");
    assert_eq!(exec(host, "cat /etc/issue"), issue, "what was there before is given back");
    let gone = "command -v tree; id keeper 2>&1; systemctl is-active mine; ls /etc/systemd/system/mine.service 2>&1; true";
    let gone = exec(host, gone);
    assert!(
        gone.contains("no such user") && gone.contains("inactive") && gone.contains("No such file"),
        "{gone}"
    );
    assert!(!gone.contains("/usr/bin/tree"), "{gone}");
    assert!(has(host, "/run/once"), "what cannot be given back stays");
    assert!(undeclared(&world, &[]).is_empty(), "and is spoken of no more");
    limited(&["plan"]).expect(0);
    // A pruning run is a run: it can be rolled back, and the objects that come back are managed again.
    limited(&["rollback", "--yes"]).expect(0);
    assert_eq!(
        exec(host, "systemctl is-active mine; tail -n1 /etc/issue; cat /etc/mine/drop"),
        "active\nof the shop\ndrop"
    );
    let back = undeclared(&world, &[]);
    assert_eq!(back.len(), 10, "{back:?}");
    assert!(back.contains(&"/etc/issue given_back".to_owned()), "{back:?}");
    limited(&["apply", "--yes", "--prune=10"]).expect(0);
    assert_eq!(exec(host, "ls /etc/mine"), "keep");
    exec(host, "rm -f /run/once");
}

#[test]
fn another_playbook_another_inventory_and_broken_variables_prune_nothing() {
    let world = world();
    let host = &world.hosts()[0];
    role(&world, "base", &files(&["a"]));
    role(&world, "other", &files_alone(&["x"]));
    playbook(&world, "base");
    apply(&world).expect(0);
    world.write("playbooks/other.yaml", "- hosts: lab\n  roles: [other]\n").unwrap();
    let other = ["apply", "--yes", "--prune", "--playbook", "playbooks/other.yaml", "hosts.yaml"];
    converge(&world, &other).expect(0);
    assert_eq!(exec(host, "ls /etc/mine | xargs"), "a x");
    // Both playbooks without their roles' files: each takes its own.
    role(&world, "base", &files(&[]));
    role(&world, "other", "resources: []\n");
    assert_eq!(undeclared(&world, &[]), ["/etc/mine/a removed"]);
    assert_eq!(undeclared(&world, &["--playbook", "playbooks/other.yaml"]), ["/etc/mine/x removed"]);
    world.write("again.yaml", &world.inventory("")).unwrap();
    let again = converge(&world, &["plan", "--prune", "again.yaml"]).expect(0);
    assert!(!again.all().contains("orphaned"), "{}", again.all());
    // A file of variables that cannot be read ends the run before anything is contacted.
    world.write("group_vars/lab.yaml", "colour: [green\n").unwrap();
    converge(&world, &["apply", "--yes", "--prune", "hosts.yaml"]).expect(64).says("group_vars/lab.yaml");
    assert_eq!(exec(host, "ls /etc/mine | xargs"), "a x");
    // An inventory that names its project is the same one from every folder.
    std::fs::remove_file(world.dir().join("group_vars/lab.yaml")).unwrap();
    world.write("hosts.yaml", &world.inventory("converge_project: shop")).unwrap();
    role(&world, "base", &files(&["p"]));
    apply(&world).expect(0);
    role(&world, "base", &files(&[]));
    assert_eq!(undeclared(&world, &[]), ["/etc/mine/p removed"]);
}

/// Two projects edit one file, write another one after each other, and know one account: a prune of the second gives each back as the first left it,
/// and one of the first leaves alone what the second changed since.
#[test]
fn a_prune_gives_back_what_another_project_left_and_no_more() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*; echo orig >/etc/rv.hosts; userdel rvu; userdel rvh; rm -rf /home/rvh; true");
    let of = |name: &str| {
        let text = format!(
            "resources:\n  - line: {{path: /etc/rv.hosts, line: {name}}}\n  - file: {{path: /srv/f, content: \"{name}\\n\"}}\n  - user: {{name: rvu, group: users, home: /srv, comment: of {name}}}\n  - user: {{name: rvh, group: users, create_home: true, comment: of {name}}}\n"
        );
        role(&world, name, &text);
        world.write(&format!("{name}.yaml"), &world.inventory(&format!("converge_project: {name}"))).unwrap();
        playbook(&world, name);
        converge(&world, &["apply", "--yes", "--limit", "h1", &format!("{name}.yaml")]).expect(0);
    };
    let gone = |name: &str, code: i32| {
        role(&world, name, "resources: []\n");
        playbook(&world, name);
        let file = format!("{name}.yaml");
        let ran = converge(&world, &["apply", "--yes", "--prune", "--limit", "h1", &file]);
        let number =
            ran.stderr.split("write --prune=").nth(1).map(|n| n.split(' ').next().unwrap().to_owned());
        let number = number.map_or("--prune".to_owned(), |n| format!("--prune={n}"));
        converge(&world, &["apply", "--yes", &number, "--limit", "h1", &file]).expect(code)
    };
    let state = "cat /etc/rv.hosts /srv/f; getent passwd rvu | cut -d: -f5";
    of("pb");
    of("pa");
    assert_eq!(exec(host, state), "orig\npb\npa\npa\nof pa");
    gone("pa", 0);
    assert_eq!(exec(host, state), "orig\npb\npb\nof pb");
    of("pb");
    assert_eq!(exec(host, "ls /var/lib/converge/runs | wc -l"), "3", "nothing is to be done");
    of("pa");
    let retained = gone("pb", 4).all();
    assert_eq!(exec(host, state), "orig\npb\npa\npa\nof pa", "{retained}");
    let run = exec(host, "grep -l '^scope.pa:' /var/lib/converge/runs/*/meta | tail -n1 | cut -d/ -f6");
    for object in ["path:/etc/rv.hosts", "path:/srv/f", "user:rvu", "user:rvh"] {
        let named = format!("{object}: another project manages it too, since run {run} (playbook pa:");
        assert!(retained.contains(&named), "{named}: {retained}");
    }
    // The home directory of a user who stays is no one's to remove.
    assert_eq!(exec(host, "ls -d /home/rvh"), "/home/rvh");
    converge(&world, &["rollback", "--yes", "--limit", "h1", "pb.yaml"]).expect(4).says("of another project");
    assert_eq!(exec(host, "ls -d /home/rvh"), "/home/rvh");
    let first = exec(host, "grep -l '^scope.pb:' /var/lib/converge/runs/*/meta | head -n1 | cut -d/ -f6");
    let undone = exec(host, &format!("sh /var/lib/converge/undo.sh {first}; ls -d /home/rvh"));
    assert!(
        undone.contains("its user, whose home directory it is, stays") && undone.ends_with("/home/rvh"),
        "{undone}"
    );
    exec(host, "userdel -r rvh; userdel rvu; rm /etc/rv.hosts; true");
}

#[test]
fn a_renamed_role_goes_on_with_what_it_made() {
    let world = world();
    role(&world, "old", &files(&["a", "b"]));
    playbook(&world, "old");
    apply(&world).expect(0);
    std::fs::rename(world.dir().join("roles/old"), world.dir().join("roles/new")).unwrap();
    role(&world, "new", &format!("renamed_from: old\n{}", files(&["a"])));
    playbook(&world, "new");
    assert_eq!(undeclared(&world, &["--role", "new"]), ["/etc/mine/b removed"]);
    role(&world, "old", "resources: []\n");
    playbook(&world, "new, old");
    converge(&world, &["plan", "hosts.yaml"])
        .expect(64)
        .says("was renamed from `old`, which is still in use");
    playbook(&world, "new");
    role(&world, "new", &files(&["a"]));
    assert!(undeclared(&world, &["--role", "new"]).is_empty(), "nothing says that it was `old`");
}

#[test]
fn what_someone_else_changed_or_still_needs_is_left_alone() {
    let world = world();
    let host = &world.hosts()[0];
    role(&world, "base", &files(&["a", "b", "c"]));
    playbook(&world, "base");
    apply(&world).expect(0);
    exec(host, "echo mine now > /etc/mine/b; echo more > /etc/mine/theirs; rm /etc/mine/c");
    playbook(&world, "none");
    role(&world, "none", "resources: []\n");
    assert_eq!(
        undeclared(&world, &[]),
        ["/etc/mine/c forgotten", "/etc/mine/b left_alone", "/etc/mine/a removed", "/etc/mine left_alone"]
    );
    // A changed file lies in the directory: the directory stays too, and that is known before anything is done.
    let ran = converge(&world, &["apply", "--yes", "--prune=1", "--limit", "h1", "hosts.yaml"]);
    let ran = ran.expect(4).says("was changed by someone else since");
    assert_eq!(exec(host, "ls /etc/mine | xargs; cat /etc/mine/b"), "b theirs\nmine now", "{}", ran.all());
    // So it does with a file that no run made.
    exec(host, "rm /etc/mine/b");
    converge(&world, &["apply", "--yes", "--prune=1", "--limit", "h1", "hosts.yaml"])
        .expect(4)
        .says("it holds /etc/mine/theirs");
    assert_eq!(exec(host, "ls /etc/mine | xargs"), "theirs");
    exec(host, "rm /etc/mine/theirs");
    converge(&world, &["apply", "--yes", "--prune=1", "--limit", "h1", "hosts.yaml"]).expect(0);
    assert!(!has(host, "/etc/mine"));
    assert!(undeclared(&world, &[]).is_empty());
}

#[test]
fn more_than_ten_things_need_their_number_and_a_tenth_too() {
    let world = world();
    let names: Vec<String> = (0..29).map(|n| format!("f{n:02}")).collect();
    let upto = |n: usize| files(&names.iter().take(n).map(String::as_str).collect::<Vec<_>>());
    role(&world, "base", &upto(29));
    playbook(&world, "base");
    apply(&world).expect(0);
    // 3 of 30 is a tenth, and no more.
    role(&world, "base", &upto(26));
    converge(&world, &["apply", "--yes", "--prune", "hosts.yaml"]).expect(0);
    // 3 of 27 is more.
    role(&world, "base", &upto(23));
    converge(&world, &["apply", "--yes", "--prune", "hosts.yaml"]).expect(4).says("write --prune=6");
    converge(&world, &["plan", "--prune", "--out", "kept.plan", "hosts.yaml"]).expect(2);
    converge(&world, &["apply", "--yes", "kept.plan"]).expect(4).says("write --prune=6");
    converge(&world, &["apply", "--yes", "kept.plan", "--prune=6"]).expect(0);
    assert_eq!(exec(&world.hosts()[1], "ls /etc/mine | wc -l"), "23");
    converge(&world, &["plan", "hosts.yaml"]).expect(0);
}

/// Trees that an `absent`, a `file` and a `link` took away come back whole.
#[test]
fn the_contents_of_what_was_replaced_come_back_with_it() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "rm -rf /srv/*; for p in p1 p2 p3; do mkdir -p /srv/$p/s; echo a >/srv/$p/a; echo b >/srv/$p/s/b; ln -s a /srv/$p/l; done",
    );
    let tree = || exec(host, "cd /srv; find . -printf '%p %m %l\\n' | sort; cat /srv/p?/s/b");
    let before = tree();
    playbook(&world, "base");
    let role_text = "resources:\n  - absent: {path: /srv/p1, recursive: true}\n  \
        - file: {path: /srv/p2, content: x, force: true}\n  - link: {path: /srv/p3, target: x, force: true}\n";
    role(&world, "base", role_text);
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    on_h1(&["apply", "--yes"]).expect(0);
    role(&world, "base", "resources: []\n");
    on_h1(&["apply", "--yes", "--prune=15"]).expect(0);
    assert_eq!(tree(), before);
    on_h1(&["plan"]).expect(0);
    exec(host, "rm -rf /srv/*");
}

/// A unit whose file is declared is managed with the file, though nothing says any more how it runs.
#[test]
fn a_unit_is_orphaned_with_its_file_alone() {
    let world = world();
    let host = &world.hosts()[0];
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let unit = |more: &str| {
        let content = "[Service]\\nExecStart=/bin/sleep infinity\\n";
        role(
            &world,
            "base",
            &format!("resources:\n  - unit: {{name: mine, content: \"{content}\"{more}}}\n"),
        );
    };
    playbook(&world, "base");
    unit(", state: started");
    on_h1(&["apply", "--yes"]).expect(0);
    unit("");
    on_h1(&["apply", "--yes", "--prune"]).expect(0);
    assert_eq!(exec(host, "systemctl is-active mine"), "active");
    on_h1(&["plan"]).expect(0);
    role(&world, "base", "resources: []\n");
    on_h1(&["apply", "--yes", "--prune=2"]).expect(0);
    assert_eq!(
        exec(host, "systemctl show -p LoadState -p ActiveState mine"),
        "LoadState=not-found\nActiveState=inactive"
    );
}

/// An edit below a path that is now declared absent is no longer managed: nothing restores it.
#[test]
fn an_edit_below_a_path_that_is_now_absent_goes_out_of_the_records() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*; mkdir /srv/pre; echo a >/srv/pre/a");
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    playbook(&world, "base");
    role(&world, "base", "resources:\n  - line: {path: /srv/pre/a, line: b}\n");
    on_h1(&["apply", "--yes"]).expect(0);
    role(&world, "base", "resources:\n  - absent: {path: /srv/pre, recursive: true}\n");
    assert_eq!(undeclared(&world, &[]).len(), 1);
    on_h1(&["apply", "--yes", "--prune"]).expect(0).says("/srv/pre, in which it lies, is declared otherwise");
    assert_eq!(exec(host, "ls /srv"), "");
    on_h1(&["apply", "--yes", "--prune"]).expect(0);
    let after = on_h1(&["plan"]).expect(0);
    assert!(!after.all().contains("orphaned"), "{}", after.all());
    // Both runs are taken back, the last first.
    on_h1(&["rollback", "--yes"]).expect(0);
    assert_eq!(exec(host, "cat /srv/pre/a"), "a\nb");
    on_h1(&["rollback", "--yes"]).expect(0);
    assert_eq!(exec(host, "cat /srv/pre/a"), "a");
}

/// The power is cut when a prune has removed something, before that is recorded: it is orphaned no more, whatever comes next, and somebody's own of
/// that name is not either. A rollback of that prune brings it back to be managed.
#[test]
fn an_object_that_went_in_a_prune_that_was_cut_off_is_orphaned_no_more() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*");
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let keep = "resources:\n  - name: stays\n    file: {path: /srv/keep, content: \"k\\n\"}\n";
    let key = "  - name: key\n    command: {run: touch /srv/key, creates: /srv/key, undo: \"rm /srv/key; sync; sleep 600\"}\n";
    let cut = || {
        playbook(&world, "base");
        role(&world, "base", &format!("{keep}{key}"));
        on_h1(&["apply", "--yes"]).expect(0);
        role(&world, "base", keep);
        assert_eq!(undeclared(&world, &[]), ["command removed"]);
        let args = ["apply", "--yes", "--prune=1", "--limit", "h1", "hosts.yaml"];
        let mut child =
            world.command(&args).unwrap().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until_exec(host, 60, "[ ! -e /srv/key ]");
        host.kill().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        host.start().unwrap();
        until_exec(host, 60, "test -e /srv/keep");
    };
    cut();
    assert!(undeclared(&world, &[]).is_empty(), "before anything ends that run");
    on_h1(&["plan"]).expect(0).says("the command was changed as planned");
    on_h1(&["apply", "--yes"]).expect(0);
    exec(host, "touch /srv/key");
    assert!(undeclared(&world, &[]).is_empty(), "somebody's own");
    exec(host, "rm /srv/key");
    on_h1(&["apply", "--yes", "--prune"]).expect(0);
    let prune = exec(host, "grep -l '^found' /var/lib/converge/runs/*/journal | cut -d/ -f6");
    on_h1(&["rollback", "--yes", "--to", &prune]).expect(0);
    assert!(has(host, "/srv/key"));
    assert_eq!(undeclared(&world, &[]), ["command removed"]);
    // A prune that ends it leaves the same behind.
    exec(host, "rm -rf /var/lib/converge /srv/key");
    cut();
    // The same command again.
    on_h1(&["apply", "--yes", "--prune=1"]).expect(0);
    on_h1(&["apply", "--yes", "--prune=1"]).expect(0);
    assert!(undeclared(&world, &[]).is_empty());
    exec(host, "touch /srv/key");
    assert!(undeclared(&world, &[]).is_empty());
}

/// The power is cut while a prune stops a unit: a rollback completes the revert of that prune, and of no other run.
#[test]
fn a_prune_that_was_cut_off_while_a_unit_stops_is_rolled_back_alone() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*");
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let keep = "resources:\n  - name: stays\n    file: {path: /srv/keep, content: \"k\\n\"}\n";
    let content = "[Service]\\nExecStart=/bin/sleep infinity\\nExecStop=/bin/sleep 6\\n[Install]\\nWantedBy=multi-user.target\\n";
    playbook(&world, "base");
    role(
        &world,
        "base",
        &format!("{keep}  - unit: {{name: slow, content: \"{content}\", state: started, enabled: true}}\n"),
    );
    on_h1(&["apply", "--yes"]).expect(0);
    role(&world, "base", keep);
    let args = ["apply", "--yes", "--prune=2", "--limit", "h1", "hosts.yaml"];
    let mut child =
        world.command(&args).unwrap().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_exec(host, 60, "systemctl show -p ActiveState slow | grep -q deactivating");
    host.kill().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    host.start().unwrap();
    until_exec(host, 60, "test -e /srv/keep");
    on_h1(&["rollback", "--yes"]).expect(0).says("enable and start slow.service");
    assert_eq!(
        exec(host, "cat /srv/keep; systemctl is-active slow; systemctl is-enabled slow"),
        "k\nactive\nenabled"
    );
    on_h1(&["apply", "--yes", "--prune=2"]).expect(0);
    assert_eq!(exec(host, "cat /srv/keep; systemctl show -p LoadState slow"), "k\nLoadState=not-found");
}
