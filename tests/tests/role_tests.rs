//! The tester tested: roles that are broken on purpose are caught, each by its gate and by no earlier one; good ones pass.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{Error, Ran, binary, ran};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder of roles, each `(path below roles/, text)`.
fn roles(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, text) in files {
        let path = dir.path().join("roles").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn converge(dir: &Path, args: &[&str]) -> Result<Ran, Error> {
    let mut command = Command::new(binary()?);
    command.args(args).current_dir(dir).env("HOME", dir).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
    ran(&mut command)
}

/// How each gate of a scenario ended.
fn gates<'d>(document: &'d Value, role: &str, scenario: &str) -> Vec<(&'d str, &'d str)> {
    let all = document["scenarios"].as_array().unwrap();
    let case = all.iter().find(|c| c["role"] == role && c["scenario"] == scenario).unwrap();
    let word = |gate: &'d Value, key: &str| gate[key].as_str().unwrap();
    case["gates"].as_array().unwrap().iter().map(|g| (word(g, "gate"), word(g, "result"))).collect()
}

/// The gates that failed.
fn failed(document: &Value, role: &str, scenario: &str) -> Vec<String> {
    let all = gates(document, role, scenario);
    all.into_iter().filter(|(_, result)| *result == "failed").map(|(gate, _)| gate.to_owned()).collect()
}

/// Everything that was said about a gate.
fn reply(document: &Value, role: &str, scenario: &str, gate: &str) -> String {
    let all = document["scenarios"].as_array().unwrap();
    let case = all.iter().find(|c| c["role"] == role && c["scenario"] == scenario).unwrap();
    let gates = case["gates"].as_array().unwrap();
    gates.iter().find(|g| g["gate"] == gate).map(|g| format!("{} {}", g["mismatches"], g["notes"])).unwrap()
}

const GOOD: &str = r#"
summary: A role that keeps its word
inputs:
  colour: {choices: [red, green], default: green, help: the colour}
resources:
  - name: settings
    file: {path: /etc/good.conf, content: "colour = {{ colour }}\n", mode: "0640"}
  - name: mark
    command: {run: touch /var/lib/good, creates: /var/lib/good, undo: rm -f /var/lib/good}
verify:
  - name: it is there
    query: {run: test -f /etc/good.conf}
"#;

#[test]
fn broken_roles_are_caught_each_by_its_gate() {
    let dir = roles(&[
        ("good/role.yaml", GOOD),
        (
            "good/tests/red.yaml",
            "hosts: {web1: {groups: [web]}}\ninputs: {colour: red}\nbefore: {files: {/etc/good.conf: \"old\\n\"}}\n\
             expect:\n  plan:\n    settings: {changes: [\"path:/etc/good.conf\"], content: colour = red}\n  \
             others: change\n  after: [grep -x 'colour = red' /etc/good.conf]\n",
        ),
        (
            "good/tests/blue.yaml",
            "inputs: {colour: blue}\nexpect: {errors: [{message: colour, at: \"blue.yaml:1\"}]}\n",
        ),
        // A scenario with a wrong expectation.
        ("good/tests/wrong.yaml", "expect:\n  plan: {settings: unchanged, \"no such item\": change}\n"),
        // Bad input that is expected to be refused, and is not.
        ("good/tests/lenient.yaml", "inputs: {colour: red}\nexpect: {errors: [no such colour]}\n"),
        // Its items undo each other: it is never as declared.
        (
            "restless/role.yaml",
            "resources:\n  - name: here\n    command: {run: touch /var/lib/a, creates: /var/lib/a, undo: rm -f /var/lib/a}\n  \
             - name: there\n    command: {run: \"mv /var/lib/a /var/lib/b\", unless: \"test -e /var/lib/b && ! test -e /var/lib/a\", undo: rm -f /var/lib/b}\n",
        ),
        // Its question leaves something on the host.
        (
            "nosy/role.yaml",
            "resources:\n  - name: question\n    query: {run: touch /etc/asked}\n    register: asked\n",
        ),
        // A command of the same run changes a state that the plan takes for settled, and changes it back.
        (
            "liar/role.yaml",
            "resources:\n  - name: trample\n    command: {run: \"echo x >/etc/settled; touch /var/lib/liar\", creates: /var/lib/liar, undo: rm -f /var/lib/liar}\n  \
             - name: settled\n    file: {path: /etc/settled, content: \"y\\n\", mode: \"0644\"}\n",
        ),
        ("liar/tests/settled.yaml", "before: {files: {/etc/settled: \"y\\n\"}}\n"),
        // Its command writes more than its undo takes away; a package beside it is not what left it.
        (
            "messy/role.yaml",
            "resources:\n  - name: beside\n    package: {name: tree}\n  - name: litter\n    command: {run: \"touch /var/lib/messy /etc/litter\", creates: /var/lib/messy, undo: rm -f /var/lib/messy}\n",
        ),
        // The same, and the scenario says that it is meant.
        (
            "meant/role.yaml",
            "resources:\n  - name: litter\n    command: {run: \"touch /var/lib/messy /etc/litter\", creates: /var/lib/messy, undo: rm -f /var/lib/messy}\n",
        ),
        ("meant/tests/kept.yaml", "leaves: [/etc/litter]\n"),
        // Its own check does not hold.
        (
            "doubtful/role.yaml",
            "resources:\n  - name: file\n    file: {path: /etc/doubtful, content: \"x\\n\", mode: \"0644\"}\nverify:\n  - name: never\n    query: {run: \"false\"}\n",
        ),
        // Its command fails.
        (
            "failing/role.yaml",
            "resources:\n  - name: fails\n    command: {run: \"echo out of luck; exit 7\", creates: /nowhere, undo: \"true\"}\n",
        ),
        // A required role comes first, on the same host.
        (
            "on_top/role.yaml",
            "requires: [good]\nresources:\n  - name: beside\n    line: {path: /etc/good.conf, line: size = 1}\n",
        ),
        ("on_top/tests/one.yaml", "expect: {plan: {beside: {content: [colour = green, size = 1]}}}\n"),
    ]);
    let run = converge(dir.path(), &["test", "--all", "--output", "json"]).unwrap().expect(1);
    let document = run.json().unwrap();
    assert_eq!(document["format"], "converge-tests");
    for (role, scenario, caught) in [
        ("good", "red", vec![]),
        ("good", "blue", vec![]),
        ("good", "wrong", vec!["plan"]),
        ("good", "lenient", vec!["plan"]),
        ("restless", "defaults", vec!["converge", "plan-is-empty", "converge-again"]),
        ("nosy", "defaults", vec!["plan-changes-nothing"]),
        ("liar", "settled", vec!["as-planned"]),
        ("messy", "defaults", vec!["rollback"]),
        ("meant", "kept", vec![]),
        ("doubtful", "defaults", vec!["verify"]),
        ("failing", "defaults", vec!["converge"]),
        ("on_top", "one", vec![]),
    ] {
        let found = failed(&document, role, scenario);
        // The later gates repeat a failure to converge; only the first one counts.
        let first: Vec<&String> = found.iter().take(caught.len().max(1)).collect();
        assert_eq!(first, caught.iter().collect::<Vec<_>>(), "{role}/{scenario}: {}", run.all());
    }
    for (role, scenario, gate, words) in [
        ("good", "wrong", "plan", "it is unchanged"),
        ("good", "wrong", "plan", "no such item"),
        ("good", "wrong", "plan", "wrong.yaml:2:10"),
        ("good", "lenient", "plan", "no such colour"),
        ("restless", "defaults", "plan-is-empty", "restless/here"),
        ("nosy", "defaults", "plan-changes-nothing", "/etc/asked"),
        ("liar", "settled", "as-planned", "liar/settled"),
        ("messy", "defaults", "rollback", "+ /etc/litter (f "),
        ("meant", "kept", "rollback", "left, as the scenario says: + /etc/litter"),
        ("doubtful", "defaults", "verify", "doubtful/never"),
        ("failing", "defaults", "converge", "out of luck"),
    ] {
        let text = reply(&document, role, scenario, gate);
        assert!(text.contains(words), "{role}/{scenario} {gate}: {words:?} is not in {text}");
    }
    // Content, mode and presence of the file, and the command's mark.
    assert!(
        reply(&document, "good", "red", "drift").contains("drift injected, detected, corrected in 4 objects"),
        "{}",
        run.all()
    );
    let not_run: Vec<(&str, &str)> =
        gates(&document, "good", "blue").into_iter().filter(|(_, r)| *r == "not_run").collect();
    assert_eq!(not_run.len(), 10, "{not_run:?}");
}

#[test]
fn recorded_answers_stand_for_hosts() {
    let dir = roles(&[
        ("good/role.yaml", GOOD),
        (
            "good/tests/red.yaml",
            "inputs: {colour: red}\nbefore: {files: {/etc/good.conf: \"colour = red\\n\"}}\n\
             expect: {plan: {settings: {changes: [\"path:/etc/good.conf\"]}, mark: change}}\n",
        ),
    ]);
    let record = &["test", "roles/good", "--record", "--no-drift"];
    converge(dir.path(), record).unwrap().expect(0).says("the answers are recorded in");
    let path = dir.path().join("roles/good/tests/recorded/red.json");
    let recorded = std::fs::read_to_string(&path).unwrap();
    assert!(recorded.contains("\"converge-recorded-answers\""), "{recorded}");
    converge(dir.path(), &["test", "roles/good", "--pure"]).unwrap().expect(0).says("1 passed");
    // The role is edited: the pure run sees it at once.
    let edited =
        GOOD.replace("colour = {{ colour }}\\n\", mode: \"0640\"", "colour = red\\n\", mode: \"0644\"");
    std::fs::write(dir.path().join("roles/good/role.yaml"), edited).unwrap();
    let run = converge(dir.path(), &["test", "roles/good", "--pure"]).unwrap().expect(1);
    run.says("it is unchanged").says("expected: it is change");
    // Records of another version are refused.
    std::fs::write(&path, recorded.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let run = converge(dir.path(), &["test", "roles/good", "--pure"]).unwrap().expect(1);
    run.says("is not known").says("--record");
}

#[test]
fn bad_input_is_named_before_any_host_is_made() {
    let dir = roles(&[
        ("good/role.yaml", GOOD),
        ("good/tests/typo.yaml", "input: {colour: red}\n"),
        ("good/tests/host.yaml", "groups: {web: [h2]}\n"),
    ]);
    let run = converge(dir.path(), &["test", "roles/good"]).unwrap().expect(64);
    let run = run.says("did you mean `inputs`?").says("typo.yaml:1:1").says("the scenario has no host `h2`");
    run.says("2 errors");
    converge(dir.path(), &["test"]).unwrap().expect(64).says("no role is given");
    converge(dir.path(), &["test", "roles/bad"]).unwrap().expect(64).says("there is no role in `roles/bad`");
    converge(dir.path(), &["test", "--pure", "--keep", "roles/good"]).unwrap().expect(64);
    std::fs::remove_dir_all(dir.path().join("roles/good/tests")).unwrap();
    let run = converge(dir.path(), &["test", "roles/good", "--scenario", "x"]).unwrap().expect(64);
    run.says("scenarios there are: defaults");
    // Hosts that a user has are not touched without a yes.
    std::fs::write(dir.path().join("hosts.yaml"), "all: {hosts: {h1: {ansible_host: 192.0.2.1}}}\n").unwrap();
    let run = converge(dir.path(), &["test", "roles/good", "-i", "hosts.yaml"]).unwrap().expect(4);
    run.says("This changes h1").says("write --yes");
    // Where no host can be made, the message names the missing parts and the alternatives.
    let mut bare = Command::new(binary().unwrap());
    bare.args(["test", "roles/good"])
        .current_dir(dir.path())
        .env("PATH", "/nonexistent")
        .stdin(Stdio::null());
    bare.env("CONVERGE_LAB_CACHE", dir.path().join("cache")).env_remove("KUBEBUILDER_ASSETS");
    let run = ran(&mut bare).unwrap().expect(4);
    let run = run.says("apt-get install systemd-container").says("--inventory FILE").says("--pure");
    assert!(!run.all().contains("Kubernetes"), "{}", run.all());
    // The same for a whole cluster.
    std::fs::create_dir(dir.path().join("roles/good/tests")).unwrap();
    let scenario = "cluster: {tier: whole, gpus: 1}\n";
    std::fs::write(dir.path().join("roles/good/tests/whole.yaml"), scenario).unwrap();
    let run = ran(&mut bare).unwrap().expect(4);
    let run =
        run.says("the programs of Kubernetes: install Go ").says("kubeadm").says("nvidia-device-plugin");
    run.says("apt-get install gnupg");
    // Nothing but the role `k8s` makes one.
    let run = converge(dir.path(), &["test", "roles/good", "--pure"]).unwrap().expect(1);
    run.says("a whole cluster is made by the role `k8s`, and there is none").says("tier: api");
    std::fs::rename(dir.path().join("roles/good"), dir.path().join("roles/k8s")).unwrap();
    let run = converge(dir.path(), &["test", "roles/k8s", "--pure"]).unwrap().expect(1);
    run.says("the role `k8s` makes whole clusters, and cannot be tested in one");
}

#[test]
fn hosts_are_kept_for_a_look_and_taken_away() {
    let dir = roles(&[(
        "doubtful/role.yaml",
        "resources:\n  - name: file\n    file: {path: /etc/doubtful, content: \"x\\n\", mode: \"0644\"}\nverify:\n  - name: never\n    query: {run: \"false\"}\n",
    )]);
    let run = converge(dir.path(), &["test", "roles/doubtful", "--keep"]).unwrap().expect(1);
    let run = run.says("the hosts are left as they are").says("converge test --remove-kept");
    let login = run.stdout.lines().find(|l| l.trim().starts_with("ssh -F ")).unwrap().trim().to_owned();
    let mut words = login.split(' ');
    let mut ssh = Command::new(words.next().unwrap());
    ssh.args(words).args(["cat", "/etc/doubtful"]).stdin(Stdio::null());
    assert_eq!(ran(&mut ssh).unwrap().expect(0).stdout, "x\n", "the host is as the failure left it");
    converge(dir.path(), &["test", "--remove-kept"]).unwrap().expect(0).says("removed: test-");
    assert_ne!(ran(&mut ssh).unwrap().code, Some(0));
}
