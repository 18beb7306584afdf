//! `converge state`: the managed objects of each host, and whether they are as the runs left them.

use super::{exec, role, world};
use converge_tests::prune_by_number;
use serde_json::Value;

const ROLE: &str = "resources:
  - name: folder
    directory: {path: /etc/mine}
  - name: a
    file: {path: /etc/mine/a, content: \"a\\n\"}
  - name: b
    file: {path: /etc/mine/b, content: \"b\\n\"}
  - name: c
    file: {path: /etc/mine/c, content: \"c\\n\"}
  - name: secret
    file: {path: /etc/mine/secret, content: \"hunter2\\n\", mode: \"0600\"}
    sensitive: true
  - name: issue
    file: {path: /etc/issue, content: \"mine\\n\"}
";

#[test]
fn managed_objects_are_listed_shown_and_compared() {
    let world = world();
    let [host, other] = world.hosts() else { panic!() };
    exec(host, "printf 'theirs\\n' >/etc/issue; chmod 640 /etc/issue");
    exec(other, "printf 'mine\\n' >/etc/issue; chmod 644 /etc/issue");
    role(&world, "mine", ROLE);
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [mine]\n").unwrap();
    let state = |args: &[&str]| world.converge(&[&["state"], args].concat()).unwrap();
    state(&["list", "hosts.yaml"]).expect(0).says("0 managed objects");
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    let records = "cd /var/lib/converge; find . -type f ! -path ./lock | sort | xargs sha256sum";
    let before = exec(host, records);

    let listed = state(&["list", "hosts.yaml", "--limit", host.name()]).expect(0);
    let listed = listed.says("6 managed objects").says("path:/etc/mine/a · mine/a · since 2");
    assert!(!listed.stdout.contains(other.name()), "{}", listed.stdout);
    state(&["list", "hosts.yaml", "--limit", other.name()]).expect(0).says("5 managed objects");
    let shown = state(&["show", "hosts.yaml", "--limit", host.name()]).expect(0);
    let shown = shown.says("original state: absent").says("original state: type file, mode 0640");
    state(&["diff", "hosts.yaml"])
        .expect(0)
        .says("6 managed objects as recorded")
        .says("5 managed objects as recorded");

    exec(host, "chmod 600 /etc/mine/a; echo x >>/etc/mine/b; rm /etc/mine/c; echo x >>/etc/mine/secret");
    let differs = state(&["diff", "hosts.yaml"]).expect(2);
    let differs = differs
        .says("4 of 6 managed objects differ")
        .says("mode 0644 → 0600")
        .says("another content")
        .says("it is gone");
    assert!(!differs.stdout.contains("/etc/issue"), "{}", differs.stdout);
    let one = state(&["diff", "hosts.yaml", "--resource", "mine/a"])
        .expect(2)
        .says("1 of 1 managed object differs");
    assert!(!one.stdout.contains("/etc/mine/b"), "{}", one.stdout);
    state(&["diff", "hosts.yaml", "--resource", "mine/folder"]).expect(0);
    let unknown = state(&["show", "hosts.yaml", "--resource", "mine/nothing"]).expect(64);
    unknown.says("no object is managed by a resource `mine/nothing`").says("converge state list");

    let document = state(&["diff", "hosts.yaml", "--output", "json"]).expect(2);
    for text in [&document.stdout, &differs.stdout, &shown.stdout] {
        let digest = "46a9d5bde718bf366178313019f04a753bad00685d38e3ec81c8628f35dfcb1b";
        assert!(!text.contains("hunter2") && !text.contains(digest), "{text}");
    }
    let document = document.json().unwrap();
    assert_eq!(document["format"], "converge-state");
    let objects = document["hosts"][0]["objects"].as_array().unwrap();
    let of = |item: &str| objects.iter().find(|o| o["item"] == item).unwrap();
    let mode =
        |o: &Value| o["attributes"].as_array().unwrap().iter().find(|a| a["name"] == "mode").unwrap().clone();
    assert_eq!(of("mine/folder")["differs"], false);
    assert_eq!(of("mine/a")["differs"], true);
    assert_eq!(
        (mode(of("mine/a"))["left"].clone(), mode(of("mine/a"))["present"].clone()),
        ("0644".into(), "0600".into())
    );
    assert_eq!(
        (of("mine/issue")["was_there"].clone(), of("mine/a")["was_there"].clone()),
        (true.into(), false.into())
    );
    assert_eq!(mode(of("mine/issue"))["original"], "0640");
    assert_eq!(exec(host, records), before, "nothing is written");

    // Another project's objects are counted.
    world.write("playbooks/other.yaml", "- hosts: lab\n  roles: [mine]\n").unwrap();
    let other = state(&["list", "hosts.yaml", "--playbook", "playbooks/other.yaml"]).expect(0);
    other.says("0 managed objects · 6 of other projects");
}

const FORGETTING: &str = "resources:
  - name: kept
    file: {path: /etc/kept, content: \"kept\\n\"}
  - name: given-up
    file: {path: /etc/given-up, content: \"mine\\n\"}
  - name: issue
    file: {path: /etc/issue, content: \"mine\\n\"}
";

#[test]
fn forgotten_objects_stay_and_nothing_speaks_of_them_any_more() {
    let world = world();
    let [host, other] = world.hosts() else { panic!() };
    for host in [host, other] {
        exec(host, "printf 'theirs\\n' >/etc/issue");
    }
    role(&world, "mine", FORGETTING);
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [mine]\n").unwrap();
    let state = |args: &[&str]| world.converge(&[&["state"], args].concat()).unwrap();
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    let files = "stat -c '%n %i %Z' /etc/kept /etc/given-up /etc/issue";
    let before = exec(host, files);

    state(&["forget", "hosts.yaml"]).expect(64).says("no resource or object is named");
    state(&["forget", "hosts.yaml", "mine/nothing", "--yes"]).expect(64).says("no object is managed by");
    state(&["forget", "hosts.yaml", "mine/given-up"]).expect(4).says("write --yes");
    state(&["list", "hosts.yaml"]).expect(0).says("3 managed objects");
    let on = |host: &str| {
        state(&["forget", "hosts.yaml", "--host", host, "mine/given-up", "path:/etc/issue", "--yes"])
    };
    let forgotten = on(host.name()).expect(0).says("path:/etc/issue").says("2 objects forgotten · run ");
    assert!(
        !forgotten.stdout.contains(other.name()) && !forgotten.stdout.contains("/etc/kept"),
        "{}",
        forgotten.stdout
    );
    assert_eq!(exec(host, files), before, "nothing but the records has changed");
    on(host.name()).expect(64).says("no object is managed by");
    state(&["list", "hosts.yaml", "--limit", host.name()]).expect(0).says("1 managed object");
    state(&["list", "hosts.yaml", "--limit", other.name()]).expect(0).says("3 managed objects");
    world.converge(&["drift", "hosts.yaml"]).unwrap().expect(0);

    // Neither a prune, nor a rollback, nor undo.sh names what is forgotten, also after more runs.
    let speaks_not = |reply: &str| {
        assert!(!reply.contains("given-up") && !reply.contains("/etc/issue"), "{reply}");
    };
    role(&world, "mine", "resources:\n  - {name: more, file: {path: /etc/more, content: more}}\n");
    let limited = ["hosts.yaml", "--limit", host.name()];
    let plan =
        world.converge(&[&["plan", "--prune"], &limited[..]].concat()).unwrap().expect(2).says("/etc/kept");
    speaks_not(&plan.stdout);
    world.converge(&[&["apply", "--yes"], &limited[..]].concat()).unwrap().expect(0);
    let listed = exec(host, "sh /var/lib/converge/undo.sh --list");
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let snapshots =
        world.converge(&[&["snapshots"], &limited[..]].concat()).unwrap().expect(0).says("state forget");
    let run = |nth: usize| {
        let runs: Vec<&str> = snapshots.stdout.lines().filter(|l| l.starts_with("01")).collect();
        runs[nth].split(' ').next().unwrap().to_owned()
    };
    // The shells complete the runs.
    let runs = world.converge(&["complete", "--", "rollback", "hosts.yaml", "--to", ""]).unwrap().expect(0);
    let forgetting = |line: &str| line.starts_with(&run(1)) && line.ends_with("· state forget");
    assert!(runs.stdout.lines().any(forgetting), "{}", runs.stdout);
    let to =
        world.converge(&[&["rollback", "--to", &run(1), "--yes"], &limited[..]].concat()).unwrap().expect(0);
    to.says("path:/etc/given-up, path:/etc/issue: no longer managed (`converge state forget`)");
    let listed = world
        .converge(&[&["snapshots"], &limited[..]].concat())
        .unwrap()
        .expect(0)
        .says("2 objects forgotten");
    assert!(!listed.stdout.contains("2 changes, rolled back by"), "{}", listed.stdout);
    let gone = exec(host, "ls /etc/more /etc/kept /etc/given-up 2>/dev/null; cat /etc/issue");
    assert_eq!(gone, "/etc/given-up\n/etc/kept\nmine");
    let back = world.converge(&[&["rollback", "--yes"], &limited[..]].concat()).unwrap().expect(0);
    speaks_not(&back.stdout);
    let gone = exec(host, "ls /etc/more /etc/kept /etc/given-up 2>/dev/null; cat /etc/issue");
    assert_eq!(gone, "/etc/given-up\nmine");
    let undone = exec(host, "sh /var/lib/converge/undo.sh");
    speaks_not(&undone);

    // Without converge: the same on the host alone.
    on(other.name()).expect(0);
    let undone = exec(other, "sh /var/lib/converge/undo.sh --list; sh /var/lib/converge/undo.sh");
    assert!(undone.contains("/etc/kept"), "{undone}");
    let there = exec(other, "ls /etc/kept /etc/given-up 2>/dev/null; cat /etc/issue");
    assert_eq!(there, "/etc/given-up\nmine");

    // A role that changes such an object manages it again, from what it finds.
    role(&world, "mine", &FORGETTING.replace("\"mine", "\"changed"));
    world.converge(&[&["apply", "--yes"], &limited[..]].concat()).unwrap().expect(0);
    state(&["show", "hosts.yaml", "--limit", host.name()]).expect(0).says("3 managed objects");
    world.converge(&[&["rollback", "--yes"], &limited[..]].concat()).unwrap().expect(0);
    assert_eq!(exec(host, "cat /etc/given-up /etc/issue"), "mine\nmine");
}

const MAKES: &str = "resources:
  - name: c
    command: {run: echo made >/srv/c, creates: /srv/c, undo: rm /srv/c}
  - name: l
    line: {path: /srv/c, line: edited}
";

/// A command that is forgotten has made its file for good: what later resources have changed in it goes, by all three ways.
#[test]
fn the_file_that_a_forgotten_command_has_made_stays() {
    let world = world();
    let host = &world.hosts()[0];
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [mine]\n").unwrap();
    // The inventory is that of the settings.
    world.write("converge.toml", "inventory = \"hosts.yaml\"\n").unwrap();
    let run = |args: &[&str]| world.converge(&[args, &["--limit", host.name()]].concat()).unwrap();
    for way in ["rollback", "undo.sh", "prune"] {
        exec(host, "rm -rf /var/lib/converge /srv/c");
        role(&world, "mine", MAKES);
        run(&["apply", "--yes"]).expect(0);
        run(&["state", "forget", "mine/c", "--yes"]).expect(0).says("1 object forgotten");
        let reply = match way {
            "rollback" => run(&["rollback", "--yes"]).expect(0).all(),
            "undo.sh" => exec(host, "sh /var/lib/converge/undo.sh"),
            _ => {
                role(&world, "mine", "resources: []\n");
                prune_by_number(|option| run(&["apply", "--yes", option])).expect(0).all()
            }
        };
        assert_eq!(exec(host, "cat /srv/c"), "made", "{way}: {reply}");
        role(&world, "mine", MAKES);
        let plan = run(&["plan"]).expect(2).all();
        assert!(!plan.contains("echo made"), "{way}: {plan}");
    }
}
