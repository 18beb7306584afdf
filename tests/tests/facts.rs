//! Facts of other hosts (`hostvars[HOST].facts`): of every host that a template goes over, with the values that the run gives them, and never a run that hangs.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{Ran, World, exec};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The block of a file with all hosts, as Ansible users write it.
const HOSTS: &str = r#"
resources:
  - name: all hosts
    file:
      path: /etc/all-hosts
      content: |
        {% for h in groups['lab'] %}
        {{ hostvars[h].facts.network.ipv4.address }} {{ hostvars[h].facts.hostname }} {{ h }}
        {% endfor %}
"#;

const NAME: &str = "
inputs:
  suffix: {type: str, default: new}
resources:
  - name: name
    hostname: {name: \"{{ inventory_hostname }}-{{ suffix }}\"}
";

/// A program that makes `facts.containerd`.
const RUNTIME: &str = r##"
inputs:
  edition: {type: str, default: "9.1"}
resources:
  - name: program
    file: {path: /usr/local/bin/containerd, mode: "0755", content: "#!/bin/sh\necho 'containerd example.org/c {{ edition }}'\n"}
"##;

const RUNTIMES: &str = r#"
resources:
  - name: told
    file: {path: /etc/runtimes, content: "{% for h in groups.lab %}{{ hostvars[h].facts.containerd.version }} {% endfor %}\n"}
"#;

/// Each reads the other's fact before it alters its own.
const RING: &str = r##"
resources:
  - name: of the other
    file: {path: /etc/ring, content: "{{ hostvars[{'h1': 'h2', 'h2': 'h1'}[inventory_hostname]].facts.containerd.version }}\n"}
  - name: program
    file: {path: /usr/local/bin/containerd, mode: "0755", content: "#!/bin/sh\necho 'containerd example.org/c 9.9'\n"}
"##;

/// The name is given behind a command that fails on one host.
const FAILS: &str = "
resources:
  - name: stops
    command: {run: 'exit 3', creates: /etc/never}
    when: inventory_hostname == 'h2'
  - name: name
    hostname: {name: \"{{ inventory_hostname }}-other\"}
";

fn world(name: &str, hosts: u8) -> World {
    let world = World::new(name, hosts).unwrap();
    for (role, text) in [
        ("hosts", HOSTS),
        ("name", NAME),
        ("runtime", RUNTIME),
        ("runtimes", RUNTIMES),
        ("ring", RING),
        ("fails", FAILS),
    ] {
        world.write(&format!("roles/{role}/role.yaml"), text).unwrap();
    }
    world
}

fn site(world: &World, roles: &str) {
    world.write("playbooks/site.yaml", &format!("- hosts: lab\n  roles: [{roles}]\n")).unwrap();
}

fn converge(world: &World, args: &[&str], more: &[&str]) -> Ran {
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    world.converge(&args).unwrap()
}

fn plan(world: &World, more: &[&str]) -> Value {
    converge(world, &["plan", "hosts.yaml", "--output", "json"], more).expect(2).json().unwrap()
}

fn apply(world: &World, more: &[&str]) -> Ran {
    converge(world, &["apply", "hosts.yaml", "--yes"], more)
}

/// An item on each host, by a plan as JSON.
fn planned<'p>(plan: &'p Value, address: &str) -> Vec<&'p Value> {
    let hosts = plan["hosts"].as_array().unwrap().iter();
    let items = hosts.flat_map(|host| host["items"].as_array().into_iter().flatten());
    items.filter(|item| item["address"] == address).collect()
}

fn each(world: &World, path: &str) -> Vec<String> {
    world.hosts().iter().map(|host| exec(host, &format!("cat {path}"))).collect()
}

/// The text of the file with these names of the hosts.
fn all_hosts(world: &World, names: &[&str]) -> String {
    let line =
        |(host, name): (&converge_lab::Host, &&str)| format!("{} {name} {}", host.address(), host.name());
    world.hosts().iter().zip(names).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_template_goes_over_the_facts_of_all_hosts() {
    let world = world("facts-all", 3);
    site(&world, "hosts");
    // Exact, although nothing but the template says which hosts there are; the same twice.
    let first = plan(&world, &[]);
    let items = planned(&first, "hosts/all hosts");
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|item| item["result"] == "change"), "{first}");
    assert_eq!(planned(&plan(&world, &[]), "hosts/all hosts"), items);
    apply(&world, &[]).expect(0);
    let text = all_hosts(&world, &["h1", "h2", "h3"]);
    assert_eq!(each(&world, "/etc/all-hosts"), [text.as_str(); 3]);
    converge(&world, &["plan", "hosts.yaml"], &[]).expect(0);
    // Hosts outside --limit are read and not changed.
    exec(&world.hosts()[2], "hostname three");
    apply(&world, &["--limit", "h1"]).expect(0);
    let new = all_hosts(&world, &["h1", "h2", "three"]);
    assert_eq!(each(&world, "/etc/all-hosts"), [new.as_str(), text.as_str(), text.as_str()]);
    // The name changes in the same run, in a role before: the plan has the new one.
    site(&world, "name, hosts");
    let text = all_hosts(&world, &["h1-new", "h2-new", "h3-new"]);
    let shown = plan(&world, &[]);
    for item in planned(&shown, "hosts/all hosts") {
        assert_eq!(item["result"], "change", "{item}");
        assert!(item.to_string().contains("h3-new h3"), "{item}");
    }
    apply(&world, &[]).expect(0);
    assert_eq!(each(&world, "/etc/all-hosts"), [text.as_str(); 3]);
    converge(&world, &["plan", "hosts.yaml"], &[]).expect(0);
    // Somebody gave one host another name: its name comes back, and the files are right and stay so.
    exec(&world.hosts()[1], "hostname foo");
    for item in planned(&plan(&world, &[]), "hosts/all hosts") {
        assert_eq!(item["result"], "unchanged", "{item}");
    }
    apply(&world, &[]).expect(0);
    converge(&world, &["plan", "hosts.yaml"], &[]).expect(0);
    // A saved plan binds the values: another name since is refused by name, and nothing is overwritten.
    site(&world, "hosts");
    exec(&world.hosts()[0], "rm /etc/all-hosts");
    converge(&world, &["plan", "hosts.yaml", "--out", "a.plan"], &[]).expect(2);
    exec(&world.hosts()[1], "hostname bar");
    let refused = "the planned state of path:/etc/all-hosts differs from the saved plan";
    world
        .converge(&["apply", "a.plan", "--yes"])
        .unwrap()
        .expect(4)
        .says("all hosts · file: refused")
        .says(refused);
    exec(&world.hosts()[0], "! test -e /etc/all-hosts");
}

#[test]
fn a_fact_that_another_host_alters_is_waited_for() {
    let world = world("facts-wait", 2);
    // Nobody knows the fact before: it is deferred, and resolved when the other host has altered it.
    site(&world, "runtime, runtimes");
    for (more, wanted) in [(&[][..], "9.1 9.1"), (&["--set", "edition=9.2"], "9.2 9.2")] {
        for item in planned(&plan(&world, more), "runtimes/told") {
            assert_eq!(item["result"], "deferred", "{item}");
            let reason = item["waits_for"]["reason"].as_str().unwrap();
            assert!(
                reason.contains("`runtime/program`") && reason.contains("alters facts.containerd first"),
                "{reason}"
            );
        }
        apply(&world, more).expect(0);
        assert_eq!(each(&world, "/etc/runtimes"), [wanted; 2]);
        converge(&world, &["plan", "hosts.yaml"], more).expect(0);
    }
    // In a saved plan too.
    let edition = ["--set", "edition=9.3"];
    converge(&world, &["plan", "hosts.yaml", "--out", "a.plan"], &edition).expect(2);
    world.converge(&["apply", "a.plan", "--yes"]).unwrap().expect(0);
    assert_eq!(each(&world, "/etc/runtimes"), ["9.3 9.3"; 2]);
    // One host alone reads the other's, which is not in the run.
    apply(&world, &["--limit", "h1", "--set", "edition=9.4"]).expect(0);
    assert_eq!(each(&world, "/etc/runtimes"), ["9.4 9.3", "9.3 9.3"]);
    // Two that read each other's fact before they alter it: neither waits, the plan says whose value it is, and the next run has the new one.
    site(&world, "ring");
    let text = converge(&world, &["plan", "hosts.yaml"], &[]).expect(2);
    let remark =
        "facts.containerd of h2 still has its value from before this run: `ring/program` changes it later";
    let text = text.says(remark).stdout;
    assert_eq!(text.matches(remark).count(), 1, "{text}");
    let begun = Instant::now();
    apply(&world, &[]).expect(0);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(each(&world, "/etc/ring"), ["9.3", "9.4"]);
    apply(&world, &[]).expect(0);
    assert_eq!(each(&world, "/etc/ring"), ["9.9", "9.9"]);
    converge(&world, &["plan", "hosts.yaml"], &[]).expect(0);
    // Against the batches of a play too.
    world.write("playbooks/site.yaml", "- hosts: lab\n  serial: 1\n  roles: [runtime, runtimes]\n").unwrap();
    let begun = Instant::now();
    apply(&world, &["--set", "edition=9.5"]).expect(0);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(each(&world, "/etc/runtimes"), ["9.5 9.5"; 2]);
    // The other host fails before it alters its fact: what reads it is not begun, and says why.
    site(&world, "fails, hosts");
    let ran = apply(&world, &[]).expect(1);
    ran.says("it reads facts of h2 that `fails/name` alters, which failed");
    exec(&world.hosts()[0], "! test -e /etc/all-hosts");
}

#[test]
fn a_host_that_cannot_be_reached_is_named_once() {
    let world = world("facts-lost", 2);
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    site(&world, "hosts, runtimes");
    world.hosts()[1].kill().unwrap();
    // It is in the run: its own entry has the cause, and what reads its facts is blocked by it.
    let ran = converge(&world, &["plan", "hosts.yaml"], &[]).expect(1);
    let blocked = "`hostvars['h2'].facts` is not known: h2 is unreachable";
    let all = ran.says(blocked).says("2 blocked").all();
    assert_eq!(all.matches("host down or wrong address").count().max(1), 1, "{all}");
    // It is outside --limit: the item names host and cause, and what to do.
    let ran = converge(&world, &["plan", "hosts.yaml", "--limit", "h1"], &[]).expect(1);
    let all = ran.says(&format!("{blocked}: ")).says("h2 takes no part in this run").says("1 blocked").all();
    assert_eq!(all.matches("make it reachable").count(), 1, "{all}");
    // In maintenance nothing looks at it.
    let inventory = world.inventory("ansible_timeout: 3").replace(
        &format!("h2: {{ansible_host: {}}}", world.hosts()[1].address()),
        &format!("h2: {{ansible_host: {}, maintenance: true}}", world.hosts()[1].address()),
    );
    world.write("hosts.yaml", &inventory).unwrap();
    converge(&world, &["plan", "hosts.yaml"], &[]).expect(1).says("is not known: h2 is in maintenance");
    // A resource that reads the inventory alone goes on.
    world
        .only_role(
            "names",
            "resources:\n  - name: names\n    file: {path: /etc/names, content: \"{% for h in groups.lab %}{{ hostvars[h].inventory_hostname }} {{ hostvars[h].ansible_host }} {% endfor %}\\n\"}\n",
        )
        .unwrap();
    apply(&world, &[]).expect(3);
    let names: Vec<String> =
        world.hosts().iter().map(|host| format!("{} {}", host.name(), host.address())).collect();
    assert_eq!(exec(&world.hosts()[0], "cat /etc/names"), names.join(" "));
}
