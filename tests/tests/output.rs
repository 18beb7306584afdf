//! Output for people, on real hosts: facts, the page for browsers in a real browser, documents against their schemas,
//! Ctrl-C, traces.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{World, ran};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Stands for nvidia-smi: says what one H200 said, and leaves a trace that it was asked.
const NVIDIA_SMI: &str = r##"#!/bin/sh
touch /run/nvidia-smi-was-asked
case "$*" in
  *compute_cap*) echo '0, GPU-add45612-96f5-c703-3bbd-bcb482e47194, 580.159.04, 143771, 00000000:00:06.0, Disabled, 9.0, NVIDIA H200';;
  '-q -d COMPUTE') echo 'CUDA Version                                           : 13.0';;
esac
"##;

fn fits(world: &World, schema: &str, document: &Value) {
    let schema = world.converge(&["schema", schema]).unwrap().expect(0).json().unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_apply_whose_output_cannot_be_written_has_failed() {
    let world = World::new("output-full", 1).unwrap();
    let role = "resources:\n  - name: file\n    file: {path: /srv/f, content: \"x\\n\"}\n";
    world.only_role("r", role).unwrap();
    for more in [&["--output", "json"][..], &[]] {
        let mut command = world.command(&[&["apply", "--yes", "hosts.yaml"], more].concat()).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let reply = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{more:?}: {reply}");
        assert!(reply.contains("could not be written: No space left on device"), "{more:?}: {reply}");
    }
    assert!(world.hosts()[0].exec("test -e /srv/f").unwrap().success(), "the change was made");
}

#[test]
fn facts_of_real_hosts() {
    let world = World::new("output-facts", 2).unwrap();
    let (h1, h2) = (&world.hosts()[0], &world.hosts()[1]);
    // A host that says a template about itself.
    let hostile = "sed -i 's/^PRETTY_NAME=.*/PRETTY_NAME=\"{{ 7 * 7 }}\"/' /etc/os-release";
    assert!(h2.exec(hostile).unwrap().success());
    let smi = format!(
        "cat >/usr/local/bin/nvidia-smi <<'END'\n{NVIDIA_SMI}END\nchmod 755 /usr/local/bin/nvidia-smi"
    );
    assert!(h1.exec(&smi).unwrap().success());
    let asked = || h1.exec("test -e /run/nvidia-smi-was-asked").unwrap().success();

    // Identical output is grouped; what one fact needs is all that is asked.
    let os = world.converge(&["facts", "hosts.yaml", "os.id"]).unwrap().expect(0);
    assert_eq!(os.stdout, "h1, h2 · 2 hosts  debian\n");
    assert!(!asked(), "nobody wanted to know about GPUs");
    world.converge(&["facts", "hosts.yaml", "os.nmae"]).unwrap().expect(64).says("did you mean `name`?");
    world
        .converge(&["facts", "hosts.yaml", "--limit", "h1", "nvidia.gpus[].name"])
        .unwrap()
        .expect(0)
        .says("NVIDIA H200");
    assert!(asked());
    assert!(h1.exec("rm /run/nvidia-smi-was-asked").unwrap().success());

    let all = world.converge(&["facts", "hosts.yaml", "--output", "json"]).unwrap().expect(0).json().unwrap();
    fits(&world, "facts", &all);
    let facts = &all["hosts"][0]["facts"];
    assert_eq!(facts["hostname"], "h1");
    assert_eq!(facts["init"], "systemd");
    assert_eq!(facts["virtualisation"]["container"], "systemd-nspawn");
    assert_eq!(facts["nvidia"]["gpus"][0]["memory_mib"], 143_771);
    assert_eq!(facts["nvidia"]["cuda"], "13.0");
    assert_eq!(facts["network"]["ipv4"]["address"], h1.address().to_string());
    assert_eq!(facts["containerd"]["present"], false);
    assert!(h1.exec("rm -f /run/nvidia-smi-was-asked").unwrap().success());

    // A role that names no GPU asks for none, and facts of other hosts are observed outside --limit too.
    let role = |text: &str| format!("resources:\n  - file: {{path: /etc/told, content: \"{text}\\n\"}}\n");
    world.only_role("tell", &role("{{ hostvars['h2'].facts.os.name }} of {{ facts.hostname }}")).unwrap();
    world.converge(&["apply", "hosts.yaml", "--limit", "h1", "--yes"]).unwrap().expect(0);
    assert!(!asked(), "the role reads no GPU");
    let reported = h1.exec("cat /etc/told").unwrap().stdout;
    assert_eq!(reported, "{{ 7 * 7 }} of h1\n", "what a host says is no template");
    world.only_role("tell", &role("{{ facts.nvidia.gpus[0].compute_capability }}")).unwrap();
    world.converge(&["apply", "hosts.yaml", "--limit", "h1", "--yes"]).unwrap().expect(0);
    assert_eq!(h1.exec("cat /etc/told").unwrap().stdout, "9.0\n");
    assert!(asked());
    world.converge(&["plan", "hosts.yaml", "--limit", "h1"]).unwrap().expect(0);
}

const ROLE: &str = r#"
inputs:
  token: {type: str, sensitive: true}
resources:
  - name: greeting
    file: {path: /etc/greeting, content: "hello <b>you</b>\n"}
  - name: key of the service
    file: {path: /etc/key, content: "{{ token }}\n", mode: "0600"}
  - name: cannot be
    command: {run: "echo no such luck; exit 3", creates: /etc/never}
  - name: comes too late
    file: {path: /etc/late, content: "x\n"}
"#;

#[test]
fn the_page_opens_in_a_browser_and_documents_fit_their_schemas() {
    let world = World::new("output-page", 2).unwrap();
    world.only_role("service", ROLE).unwrap();
    world.write("group_vars/all.yaml", "token: hunter2-and-more\n").unwrap();

    let plan = world
        .converge(&["plan", "hosts.yaml", "--output", "json", "--report", "plan.html"])
        .unwrap()
        .expect(2);
    fits(&world, "plan", &plan.json().unwrap());
    let apply = world
        .converge(&["apply", "hosts.yaml", "--yes", "--output", "json", "--report", "done.html"])
        .unwrap()
        .expect(1);
    let document = apply.json().unwrap();
    fits(&world, "report", &document);
    let first = &document["hosts"][0]["items"][0];
    assert!(first["seconds"].as_f64().is_some_and(|s| s > 0.0), "{first}");
    let junit = world.converge(&["drift", "hosts.yaml", "--output", "junit"]).unwrap().expect(2);
    assert!(junit.stdout.contains("<testsuite name=\"h1\" tests=\"4\" failures=\"2\""), "{}", junit.stdout);

    for (page, words) in [("plan.html", "Planned changes"), ("done.html", "Changes")] {
        let path = world.dir().join(page);
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(!written.contains("hunter2"), "a secret is in {page}");
        // The browser's own text of the page after its script has run. It is given no network.
        let mut browser = Command::new("chromium");
        browser.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--dump-dom",
        ]);
        let observed = ran(browser.arg(format!("file://{}", path.display()))).unwrap().expect(0);
        assert!(
            observed.stdout.contains("<body class=\"ready\">"),
            "its script did not run: {}",
            observed.stderr
        );
        for word in
            [words, "greeting", "hello &lt;b&gt;you&lt;/b&gt;", "content is sensitive", "4 of 4 shown"]
        {
            assert!(observed.stdout.contains(word), "{word:?} is not in {page}");
        }
    }
    let done = std::fs::read_to_string(world.dir().join("done.html")).unwrap();
    assert!(done.contains("no such luck") && done.contains("skipped: depends on"), "{done}");
}

#[test]
fn an_interrupt_is_said_once_and_stops_what_has_not_begun() {
    let world = World::new("output-stop", 1).unwrap();
    let role = "resources:\n  - name: long\n    command: {run: \"touch /run/at-work; sleep 4\", creates: /etc/never}\n  \
        - name: after\n    file: {path: /etc/after, content: \"x\\n\"}\n";
    world.only_role("slow", role).unwrap();
    let mut command = world.command(&["apply", "hosts.yaml", "--yes"]).unwrap();
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let host = &world.hosts()[0];
    assert!(host.exec("until test -e /run/at-work; do sleep 0.05; done").unwrap().success());
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ended = running.wait_with_output().unwrap();
    let reply = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{reply}");
    assert_eq!(reply.matches("stopping: running changes are completed").count(), 1, "{reply}");
    assert!(reply.contains("1 not begun"), "{reply}");
    assert!(!host.exec("test -e /etc/after").unwrap().success());
}

const TIMED_ROLE: &str = r#"
inputs:
  token: {type: str, sensitive: true}
resources:
  - for_each: [a, b, c]
    name: files
    file: {path: "/srv/timed-{{ item }}", content: "x\n"}
  - name: key
    file: {path: /etc/key, content: "{{ token }}\n", mode: "0600"}
  - name: sleeper
    file: {path: /etc/systemd/system/sleeper.service, content: "[Service]\nExecStart=/bin/sleep 1000\n"}
  - name: another
    file: {path: /etc/systemd/system/another.service, content: "[Service]\nExecStart=/bin/sleep 1000\n"}
  - name: runs
    service: {name: sleeper, state: started}
  - name: runs too
    service: {name: another, state: started}
  - name: at work
    command:
      run: "touch /run/at-work; sleep {{ pause }}; touch /etc/at-work"
      creates: /etc/at-work
      undo: rm /etc/at-work
"#;

/// The slices of a trace by the names of their processes; each thread's are apart or one inside the other.
fn slices_of(path: &std::path::Path) -> std::collections::BTreeMap<String, Vec<Value>> {
    let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut slices = std::collections::BTreeMap::new();
    for named in events.iter().filter(|e| e["name"] == "process_name") {
        let own = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == named["pid"]);
        let own: Vec<Value> = own.cloned().collect();
        slices.insert(named["args"]["name"].as_str().unwrap().to_owned(), own);
    }
    let span =
        |e: &Value| (e["ts"].as_u64().unwrap(), e["ts"].as_u64().unwrap() + e["dur"].as_u64().unwrap());
    for own in slices.values() {
        for (n, a) in own.iter().enumerate() {
            for b in own[n + 1..].iter().filter(|b| b["tid"] == a["tid"]) {
                let ((a1, a2), (b1, b2)) = (span(a), span(b));
                let inside = (a1 <= b1 && b2 <= a2) || (b1 <= a1 && a2 <= b2);
                assert!(a2 <= b1 || b2 <= a1 || inside, "{a} and {b}");
            }
        }
    }
    slices
}

fn seconds(slices: &[Value], name: &str) -> f64 {
    let micros = slices.iter().filter(|e| e["name"] == name).filter_map(|e| e["dur"].as_f64());
    micros.sum::<f64>() / 1e6
}

#[test]
fn a_trace_tells_what_each_host_did_when() {
    let world = World::new("output-timings", 2).unwrap();
    world.only_role("timed", TIMED_ROLE.replace("{{ pause }}", "5").as_str()).unwrap();
    world.write("group_vars/all.yaml", "token: hunter2-and-more\n").unwrap();
    let path = |name: &str| world.dir().join(name);
    let count_connections =
        || world.hosts()[0].exec("journalctl -u ssh --no-pager -q | grep -c Accepted").unwrap().stdout;
    let before = count_connections();
    for name in ["nowhere/trace.json", "."] {
        let refused = world.converge(&["apply", "hosts.yaml", "--yes", "--timings", name]).unwrap();
        refused.expect(64).says("cannot be written to").says("no host was contacted");
    }
    assert_eq!(count_connections(), before, "no host was contacted");

    world.converge(&["plan", "hosts.yaml", "--timings", "plan.json"]).unwrap().expect(2);
    let planned = slices_of(&path("plan.json"));
    for host in ["h1", "h2"] {
        let names: Vec<&str> = planned[host].iter().filter_map(|e| e["name"].as_str()).collect();
        assert!(["plan", "connect", "round 1"].iter().all(|name| names.contains(name)), "{host}: {names:?}");
    }

    let done =
        world.converge(&["apply", "hosts.yaml", "--yes", "--timings", "apply.json"]).unwrap().expect(0);
    done.says("The timings are in apply.json").says("The slowest").says("command: timed/at work");
    let applied = slices_of(&path("apply.json"));
    assert!(applied["converge"].iter().any(|e| e["name"] == "apply"));
    for host in ["h1", "h2"] {
        let own = &applied[host];
        let has =
            |name: &str| assert!(own.iter().any(|e| e["name"] == name), "{host} has no {name}: {own:#?}");
        for name in
            ["connect", "take the lock, begin the records", "verify", "end the records, free the lock"]
        {
            has(name);
        }
        for name in [
            "timed/files[a]",
            "timed/files[c]",
            "timed/key",
            "timed/runs",
            "save, write the journal",
            "change",
        ] {
            has(name);
        }
        assert!(seconds(own, "timed/at work") >= 5.0, "{host}: {own:#?}");
        // Each unit is watched for a second, and that is a part of the item that started it.
        assert!((1.8..9.0).contains(&seconds(own, "watch the unit")), "{host}: {own:#?}");
    }
    let text = std::fs::read_to_string(path("apply.json")).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("\"received\":") && text.contains("\"batches\":"), "{text}");

    // Of a run that is interrupted too, and of one that fails.
    world.converge(&["rollback", "hosts.yaml", "--yes", "--timings", "back.json"]).unwrap().expect(0);
    assert!(slices_of(&path("back.json"))["h2"].iter().any(|e| e["name"] == "timed/files[a]"));
    world.only_role("timed", TIMED_ROLE.replace("{{ pause }}", "60").as_str()).unwrap();
    assert!(world.hosts()[0].exec("rm -f /run/at-work /etc/at-work").unwrap().success());
    let arguments = ["apply", "hosts.yaml", "--yes", "--limit", "h1", "--timings", "cut.json"];
    let mut running =
        world.command(&arguments).unwrap().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(world.hosts()[0].exec("until test -e /run/at-work; do sleep 0.05; done").unwrap().success());
    let kill = || Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success();
    assert!(kill());
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(kill());
    assert_eq!(running.wait().unwrap().code(), Some(1));
    let cut = slices_of(&path("cut.json"));
    let open = cut["h1"].iter().find(|e| e["name"] == "timed/at work").unwrap();
    assert_eq!(open["args"]["unfinished"], true, "{open}");
}
