//! Twenty real hosts of which two are dead and one fails in the first batch: who is disturbed when, and who not at all.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what goes wrong in a test ends it, and steps are told"
)]

use converge_tests::{World, exec};
use serde_json::Value;

const HOSTS: u8 = 20;

/// A service that counts its starts, restarted when its file changes; its check can be made to fail.
const ROLE: &str = r##"
summary: A service that counts its starts
inputs:
  edition: {type: int, help: what the file holds}
resources:
  - name: settings
    file: {path: /etc/fleet.conf, content: "edition {{ edition }}\n"}
  - name: unit of the service
    unit:
      name: fleet
      content: |
        [Service]
        ExecStart=/bin/sh -c 'echo start >> /var/lib/fleet.starts; exec sleep infinity'
        [Install]
        WantedBy=multi-user.target
  - name: it runs
    service: {name: fleet, state: started, enabled: true, restart_on: [settings]}
verify:
  - name: nothing is broken
    query: {run: "test ! -e /etc/broken"}
"##;

/// Stands on nothing: it goes on while the restarts wait.
const NOTES: &str = r##"
summary: A note
inputs:
  edition: {type: int, help: what the file holds}
resources:
  - name: note
    file: {path: /etc/fleet.note, content: "note {{ edition }}\n"}
"##;

fn step(what: &str) {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    println!("{:>6.1} s  {what}", START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64());
}

/// Names and numbers of starts of the hosts that are alive, `h1=2`.
fn starts(world: &World) -> Vec<(String, usize)> {
    let alive = world.hosts().iter().take(usize::from(HOSTS) - 2);
    alive.map(|h| (h.name().to_owned(), exec(h, "cat /var/lib/fleet.starts").lines().count())).collect()
}

fn restarted(before: &[(String, usize)], after: &[(String, usize)]) -> Vec<String> {
    before.iter().zip(after).filter(|(b, a)| b.1 != a.1).map(|(b, _)| b.0.clone()).collect()
}

fn play(world: &World, edition: u32, more: &str) {
    let text = format!(
        "- name: the fleet\n  hosts: lab\n{more}  vars: {{edition: {edition}}}\n  roles: [fleet, notes]\n"
    );
    world.write("playbooks/site.yaml", &text).unwrap();
}

fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|l| l.starts_with("MemAvailable:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn results<'a>(report: &'a Value, item: &str) -> Vec<(&'a str, &'a str)> {
    let hosts = report["hosts"].as_array().unwrap();
    let of = |host: &'a Value| {
        let all = host["items"].as_array()?;
        let found = all.iter().find(|i| i["address"] == item)?;
        Some((host["host"].as_str()?, found["result"].as_str()?))
    };
    hosts.iter().filter_map(of).collect()
}

#[test]
fn twenty_hosts_two_dead_one_failing_in_the_first_batch() {
    let before = memory_mib();
    let world = World::new("fleet-twenty", HOSTS).unwrap();
    step(&format!("{HOSTS} hosts are up, {} MiB", before.saturating_sub(memory_mib())));
    world.write("roles/fleet/role.yaml", ROLE).unwrap();
    world.write("roles/notes/role.yaml", NOTES).unwrap();
    let (alive, dead) = world.hosts().split_at(usize::from(HOSTS) - 2);
    dead[0].cut().unwrap();
    dead[1].kill().unwrap();

    // The first start of a service disrupts nothing: all hosts run side by side, and the dead ones are named.
    play(&world, 1, "");
    let run = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(3);
    step("first run");
    assert!(!run.all().contains("batch"), "{}", run.all());
    assert!(run.all().contains("unreachable"), "{}", run.all());
    let first = starts(&world);
    assert!(first.iter().all(|(_, n)| *n == 1), "{first:?}");

    // The plan names the disruptions, and their order.
    play(&world, 2, "");
    let plan = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3);
    step("plan of the restarts");
    println!("{}", plan.stdout);
    let order: String = plan.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(order.contains("restarts workloads"), "{order}");
    assert!(order.contains("Play the fleet: rolling update of disruptive changes, 18 batches"), "{order}");

    // One host goes first and is sound; the next fails its check. Nobody else is disturbed, all get their files.
    exec(&alive[1], "touch /etc/broken");
    let run = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap();
    step("the second host fails");
    println!("{}", run.stdout);
    let text: String = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(run.code, Some(1), "{}", run.all());
    let name = |n: usize| alive[n].name().to_owned();
    let second = starts(&world);
    assert_eq!(restarted(&first, &second), [name(0)], "{text}");
    assert!(text.contains("`min_available` is 95 %"), "{text}");
    for host in alive {
        assert_eq!(exec(host, "cat /etc/fleet.conf /etc/fleet.note"), "edition 2\nnote 2");
    }

    // With the two dead hosts allowed for, the second host goes, fails its check, and stops the others.
    play(&world, 2, "  min_available: 90%\n");
    let run = world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap().expect(1);
    step("the second host fails its check");
    let third = starts(&world);
    assert_eq!(restarted(&second, &third), [name(1)], "{}", run.all());
    let report = run.json().unwrap();
    let ended = results(&report, "fleet/it runs");
    let skipped = ended.iter().filter(|(_, r)| *r == "skipped").count();
    assert_eq!(skipped, alive.len() - 2, "{ended:?}");
    assert!(run.stdout.contains("nothing is broken"), "{}", run.stdout);

    // Mended, the rest goes, one host at a time, and then nothing is left to do.
    exec(&alive[1], "rm /etc/broken");
    let run = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(3);
    step("the rest, one at a time");
    let fourth = starts(&world);
    assert_eq!(restarted(&third, &fourth).len(), alive.len() - 2, "{}", run.all());
    assert!(fourth.iter().all(|(_, n)| *n == 2), "{fourth:?}");
    assert!(run.stdout.contains("batch 16 of 16"), "{}", run.stdout);

    // In maintenance a host is not even looked at, and counts for nothing.
    let names: Vec<String> = dead.iter().map(|h| format!("{}: {{maintenance: true}}", h.name())).collect();
    let text = world.inventory("").replace(
        "  vars:\n",
        &format!("  children: {{away: {{hosts: {{{}}}}}}}\n  vars:\n", names.join(", ")),
    );
    world.write("hosts.yaml", &text).unwrap();
    play(&world, 3, "  serial: [1, 50%]\n");
    exec(&alive[1], "touch /etc/broken");
    let run = world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap();
    step("serial, as in Ansible");
    assert_eq!(run.code, Some(1), "{}", run.all());
    assert!(run.all().contains("in maintenance") && !run.all().contains("unreachable"), "{}", run.all());
    assert!(run.stdout.contains("batch 3 of 3"), "a batch of which one host fails goes on: {}", run.stdout);
    assert_eq!(restarted(&fourth, &starts(&world)).len(), alive.len());
    exec(&alive[1], "rm /etc/broken");
    let run = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(3);
    assert!(run.stdout.contains("nothing to change"), "{}", run.all());
    step("done");
}
