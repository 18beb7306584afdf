//! Secrets stay where they belong: a run brings them in every possible way, and nothing that it leaves anywhere contains one
//! of them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every secret with the way it comes in. A quote and an umlaut look different in JSON and in hexadecimal.
const SECRETS: [(&str, &str); 15] = [
    ("vault value", "VaultValue\"7f3aé"),
    ("vault file", "VaultFile-91bc\"x"),
    ("sensitive input of host_vars", "HostVars-5d0e'y"),
    ("sensitive item", "ItemLiteral-4477"),
    ("mixed into a template", "Mixed-b8d1-template"),
    ("become password", "Become-2c6f"),
    ("registered output", "Registered-e310"),
    ("first of for_each", "EachOne-6a6a"),
    ("second of for_each", "EachTwo-7b7b"),
    ("command", "InCommand-c0c0"),
    ("file of --set", "SetFile-d4d4"),
    ("line in a file", "LineEdit-f0f0"),
    ("environment of a command", "InEnvironment-a1a1"),
    ("input of a command", "InStdin-b2b2"),
    ("hash of a password", "$6$InHash-e5e5$InHash/e5.e5"),
];

const ROLE: &str = r##"
summary: Secrets in every way
inputs:
  vaulted: {type: str, default: none}
  from_file: {type: str, default: none}
  host_secret: {type: str, sensitive: true, default: none}
  mixed: {type: str, sensitive: true, default: none}
  each: {type: list, sensitive: true, default: []}
  in_command: {type: str, sensitive: true, default: none}
  set_secret: {type: str, sensitive: true, default: none}
  in_line: {type: str, sensitive: true, default: none}
  in_env: {type: str, sensitive: true, default: none}
  in_stdin: {type: str, sensitive: true, default: none}
  in_hash: {type: str, sensitive: true, default: none}
resources:
  - name: folder
    directory: {path: /etc/vaulted, mode: "0700"}
  - name: value
    file: {path: /etc/vaulted/value, content: "{{ vaulted }}\n", mode: "0600"}
  - name: from a file
    file: {path: /etc/vaulted/file, content: "{{ from_file }}\n", mode: "0600"}
  - name: host
    file: {path: /etc/vaulted/host, content: "a\n{{ host_secret | upper }}\n{{ host_secret }}\n", mode: "0600"}
  - name: literal
    file: {path: /etc/vaulted/literal, content: "ItemLiteral-4477\n", mode: "0600"}
    sensitive: true
  - name: template
    file: {path: /etc/vaulted/template, template: t.j2, mode: "0600"}
  - name: ask
    query: {run: cat /root/registered}
    register: answer
    sensitive: true
  - name: told
    file: {path: /etc/vaulted/told, content: "{{ answer.stdout }}", mode: "0600"}
  - name: each
    for_each: "{{ each }}"
    file: {path: "/etc/vaulted/each-{{ item | hash | string }}", content: "{{ item }}\n", mode: "0600"}
  - name: command
    command: {run: "sleep 1; printf %s '{{ in_command }}' > /etc/vaulted/command; chmod 600 /etc/vaulted/command; sleep 1", creates: /etc/vaulted/command, undo: rm -f /etc/vaulted/command}
  - name: command with an environment
    command: {run: 'umask 077; IFS= read -r line; printf %s "$TOKEN $line" > surroundings', creates: /etc/vaulted/surroundings, undo: rm -f surroundings, chdir: /etc/vaulted, stdin: "{{ in_stdin }}\n", env: {TOKEN: "{{ in_env }}"}}
  - name: set
    file: {path: /etc/vaulted/set, content: "{{ set_secret }}\n", mode: "0600"}
  - name: line
    line: {path: /etc/vaulted/literal, line: "{{ in_line }}"}
  - name: user
    user: {name: vaulted, password_hash: "{{ in_hash }}", create_home: false}
"##;

/// A secret as it is and as it may look: base64 at its three places, hexadecimal, and inside a JSON string.
fn looks(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let json = serde_json::to_string(secret).unwrap();
    let json = json.trim_matches('"').to_owned();
    let ascii: String = json
        .chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
        .collect();
    let mut all = vec![secret.to_owned(), hex.to_uppercase(), hex, json, ascii];
    for shift in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(b' ', shift).chain(bytes.iter().copied()).collect();
        // Whole groups of the middle: the letters at the ends depend on their neighbours.
        let text = base64(&padded);
        let start = if shift == 0 { 0 } else { 4 };
        let end = padded.len() / 3 * 4;
        all.push(text[start..end].to_owned());
    }
    let unique: BTreeSet<String> = all.into_iter().filter(|look| look.len() >= 8).collect();
    unique.into_iter().collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let get = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = get(0) << 16 | get(1) << 8 | get(2);
        for place in 0..4 {
            out.push(if place <= chunk.len() {
                char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize])
            } else {
                '='
            });
        }
    }
    out
}

/// All encodings of all secrets, each with the way it came in. One search for all of them: much is searched, and again and
/// again.
static LOOKS: LazyLock<(Regex, BTreeMap<Vec<u8>, &'static str>)> = LazyLock::new(|| {
    let all: BTreeMap<Vec<u8>, &str> = SECRETS
        .iter()
        .flat_map(|(way, secret)| looks(secret).into_iter().map(|look| (look.into_bytes(), *way)))
        .collect();
    let words: Vec<String> =
        all.keys().map(|look| regex::escape(std::str::from_utf8(look).unwrap())).collect();
    (Regex::new(&words.join("|")).unwrap(), all)
});

/// Says which secrets a text holds, and in which look.
fn holds(place: &str, text: &[u8], found: &mut Vec<String>) {
    let (any, matchers) = &*LOOKS;
    for here in any.find_iter(text) {
        let around = &text[here.start().saturating_sub(60)..(here.end() + 20).min(text.len())];
        found.push(format!(
            "{place} holds the secret of `{}` as {:?}: …{}…",
            matchers[here.as_bytes()],
            String::from_utf8_lossy(here.as_bytes()),
            String::from_utf8_lossy(around)
        ));
    }
}

/// Watches the command lines and environments of all processes of this machine until it is stopped.
fn watch(stop: &AtomicBool) -> Vec<String> {
    let mut found = BTreeSet::new();
    let own = std::process::id().to_string();
    while !stop.load(Ordering::Relaxed) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            if name == own || !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            for part in ["cmdline", "environ"] {
                if let Ok(text) = std::fs::read(entry.path().join(part)) {
                    let mut here = Vec::new();
                    holds(&format!("{part} of a process of the controller"), &text, &mut here);
                    found.extend(here);
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    found.into_iter().collect()
}

fn exec(host: &Host, script: &str) -> String {
    let output = host.exec(script).unwrap();
    assert!(output.success(), "{script}: {output:?}");
    output.stdout
}

/// Every file below a folder that another user than its owner may read, or all of them.
fn files_below(folder: &Path, all: bool, visit: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            files_below(&entry.path(), all, visit);
        } else if meta.is_file() && meta.size() < 64 << 20 && (all || meta.mode() & 0o044 != 0) {
            visit(&entry.path(), &std::fs::read(entry.path()).unwrap_or_default());
        }
    }
}

fn vault(world: &World, args: &[&str], input: &str) -> String {
    let mut command = world.command(&[&["vault"], args].concat()).unwrap();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn secret(way: &str) -> &'static str {
    SECRETS
        .iter()
        .find(|(name, _)| *name == way)
        .map(|(_, secret)| *secret)
        .unwrap_or_else(|| panic!("{way}"))
}

/// The project of a user: passwords in vaults, other secrets in files of their own.
fn project(world: &World) {
    let private = |path: &str, text: &str| {
        world.write(path, text).unwrap();
        std::fs::set_permissions(world.dir().join(path), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    private("keys/pw", "the-vault-password");
    private("keys/set", secret("file of --set"));
    let password = ["--vault-password-file", "keys/pw"];
    let value = |name: &str, plain: &str| {
        vault(world, &[&["encrypt-string", "--name", name][..], &password].concat(), plain)
    };
    let host = &world.hosts()[0];
    let values = value("vaulted", secret("vault value"))
        + &value("ansible_become_password", secret("become password"));
    private(&format!("host_vars/{}/values.yml", host.name()), &values);
    let quoted = |way: &str| serde_json::to_string(secret(way)).unwrap();
    let plain = format!(
        "host_secret: {}\nmixed: {}\neach: [{}, {}]\nin_command: {}\nin_line: {}\nin_env: {}\nin_stdin: {}\nin_hash: {}\n",
        quoted("sensitive input of host_vars"),
        quoted("mixed into a template"),
        quoted("first of for_each"),
        quoted("second of for_each"),
        quoted("command"),
        quoted("line in a file"),
        quoted("environment of a command"),
        quoted("input of a command"),
        quoted("hash of a password"),
    );
    private(&format!("host_vars/{}/plain.yml", host.name()), &plain);
    let whole = format!("from_file: {}\n", quoted("vault file"));
    private("group_vars/lab.yml", &vault(world, &[&["encrypt"][..], &password].concat(), &whole));
    world.only_role("secrets", ROLE).unwrap();
    private("roles/secrets/role.yaml", ROLE);
    private("roles/secrets/templates/t.j2", "# {{ inventory_hostname }}\ntoken = {{ mixed }}\n");
    let inventory =
        world.inventory("ansible_become: true").replace("ansible_user: root", "ansible_user: ops");
    world.write("hosts.yaml", &inventory).unwrap();
    exec(
        host,
        &format!(
            "useradd -m -s /bin/bash -G sudo ops && echo 'ops:{}' | chpasswd && mkdir -m 700 ~ops/.ssh && cp /root/.ssh/authorized_keys ~ops/.ssh/ \
             && chown -R ops: ~ops/.ssh && (umask 077; printf %s '{}' > /root/registered)",
            secret("become password"),
            secret("registered output")
        ),
    );
}

/// On the host: command lines and environments of all processes, again and again, into a file that only root reads.
fn watch_host(host: &Host) {
    exec(
        host,
        "cat > /root/watch <<'E'\n#!/bin/bash\nwhile [ ! -e /root/stop ]; do for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || cat $p/cmdline $p/environ 2>/dev/null; done \
         | tr '\\0' '\\n' | sort -u >> /root/seen.new; sort -u /root/seen.new -o /root/seen; sleep 0.05; done\nE\n\
         chmod 700 /root/watch; umask 077; rm -f /root/stop; setsid /root/watch >/dev/null 2>&1 </dev/null &",
    );
}

/// Everything that a host keeps and others than root may read, and the journal.
fn on_host(host: &Host, found: &mut Vec<String>) {
    exec(host, "touch /root/stop");
    holds("the list of processes of the host", exec(host, "cat /root/seen").as_bytes(), found);
    holds("the journal of the host", exec(host, "journalctl --no-pager -o export 2>/dev/null; cat /var/log/*.log /var/log/apt/* 2>/dev/null; true").as_bytes(), found);
    let patterns: String =
        SECRETS.iter().flat_map(|(_, secret)| looks(secret)).map(|look| format!("{look}\n")).collect();
    assert!(host.exec_with_input("umask 077; cat > /root/patterns", patterns.as_bytes()).unwrap().success());
    let readable = exec(
        host,
        "find / -xdev -type f -perm /044 -not -path '/proc/*' -not -path '/sys/*' -print0 | LC_ALL=C xargs -0 grep -laFf /root/patterns; \
         find /run /tmp /dev/shm -type f -print0 2>/dev/null | LC_ALL=C xargs -0 grep -laFf /root/patterns; true",
    );
    found.extend(readable.lines().map(|path| format!("the host's file {path} holds a secret")));
}

#[test]
fn nothing_that_a_run_leaves_holds_a_secret() {
    let world = World::new("words-secrets", 1).unwrap();
    project(&world);
    let host = &world.hosts()[0];
    watch_host(host);
    let stop = AtomicBool::new(false);
    let mut found = Vec::new();
    let set = ["--set", "set_secret=@keys/set", "--vault-password-file", "keys/pw"];
    let run = |args: &[&str]| world.converge(&[args, &set].concat()).unwrap();
    let observed = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&stop));
        let mut runs: Vec<(&str, Ran)> = Vec::new();
        runs.push(("plan", run(&["plan", "hosts.yaml", "-v", "--out", "kept.plan"]).expect(2)));
        runs.push(("plan in JSON", run(&["plan", "hosts.yaml", "--output", "json"]).expect(2)));
        runs.push((
            "apply of the saved plan",
            world.converge(&["apply", "kept.plan", "--yes", "-v"]).unwrap().expect(0),
        ));
        exec(
            host,
            "sed -i s/4477/0000/ /etc/vaulted/literal; echo x >> /etc/vaulted/host; chmod 400 /etc/vaulted/value; passwd -dq vaulted",
        );
        runs.push(("drift", run(&["drift", "hosts.yaml", "-v"]).expect(2)));
        runs.push((
            "apply in JSON",
            run(&["apply", "hosts.yaml", "--yes", "--output", "json", "-vv"]).expect(0),
        ));
        runs.push(("second plan", run(&["plan", "hosts.yaml"]).expect(0)));
        runs.push((
            "vars",
            world
                .converge(&["vars", host.name(), "-i", "hosts.yaml", "--vault-password-file", "keys/pw"])
                .unwrap()
                .expect(0),
        ));
        runs.push((
            "inventory",
            world
                .converge(&["inventory", "hosts.yaml", "--list", "--vault-password-file", "keys/pw"])
                .unwrap()
                .expect(0),
        ));
        runs.push(("snapshots", run(&["snapshots", "hosts.yaml"]).expect(0)));
        runs.push((
            "rollback",
            world
                .converge(&["rollback", "hosts.yaml", "--yes", "-v", set[0], set[1], set[2], set[3]])
                .unwrap()
                .expect(0),
        ));
        stop.store(true, Ordering::Relaxed);
        for (what, ran) in &runs {
            // A value in clear text in a file of the inventory is not hidden by `inventory`, which prints that file.
            if *what != "inventory" {
                holds(&format!("what `{what}` prints"), ran.all().as_bytes(), &mut found);
            }
        }
        let inventory = &runs.iter().find(|(what, _)| *what == "inventory").unwrap().1;
        assert!(
            !inventory.all().contains(secret("vault file")) && inventory.stdout.contains("__ansible_vault")
        );
        watcher.join().unwrap()
    });
    found.extend(observed);
    on_host(host, &mut found);
    let mut retained = false;
    files_below(world.dir(), true, &mut |path, bytes| {
        // The secrets themselves are in files of the user, which only he can read.
        let own =
            ["host_vars", "keys", "roles"].iter().any(|folder| path.starts_with(world.dir().join(folder)));
        retained |= path.ends_with("kept.plan");
        if !own {
            holds(&format!("the controller's file {}", path.display()), bytes, &mut found);
        }
    });
    assert!(retained, "the plan was kept");
    files_below(Path::new("/tmp"), false, &mut |path, bytes| {
        if path.to_string_lossy().contains("converge") {
            holds(&format!("the controller's file {}", path.display()), bytes, &mut found);
        }
    });
    assert!(found.is_empty(), "{} leaks\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_typed_secret_is_refused() {
    let world = World::new("words-typed", 1).unwrap();
    world
        .only_role("r", "inputs: {token: {type: str, sensitive: true, default: x}}\nresources: []\n")
        .unwrap();
    let refused = world.converge(&["plan", "hosts.yaml", "--set", "token=hunter22"]).unwrap().expect(64);
    assert!(!refused.all().contains("hunter22"));
    refused.says("--set token=@FILE").says("are visible in the list of processes");
    let mut piped: Command = world.command(&["plan", "hosts.yaml", "--set", "token=@-"]).unwrap();
    let mut child = piped.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hunter22\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// A failure reports its reason, and the reason of a sensitive item is a secret too.
#[test]
fn what_fails_does_not_say_the_secret() {
    let world = World::new("words-fails", 1).unwrap();
    let items = [
        ("query", "query: {run: \"echo '{{ token }}' >&2; echo '{{ token }}'; exit 3\"}"),
        ("assert", "assert: {that: \"{{ token == 'x' }}\", message: \"it is {{ token }}\"}"),
        (
            "command",
            "command: {run: \"echo '{{ token }}'; echo '{{ token }}' >&2; exit 3\", creates: /nowhere/x}",
        ),
        ("timeout", "command: {run: \"echo '{{ token }}'; sleep 60\", creates: /nowhere/y, timeout: 2}"),
        ("structured", "structured: {path: /etc/bad.json, format: json, set: {a: \"{{ token }}\"}}"),
        (
            "validate",
            "file: {path: /etc/v, content: \"{{ token }}\", mode: \"0600\", validate: \"cat %s; false\"}",
        ),
        ("mode", "file: {path: /etc/w, content: a, mode: \"{{ token }}\"}"),
        ("kind", "unit: {name: \"a/{{ token }}\", content: x}"),
    ];
    let mut playbook = String::new();
    for (name, item) in items {
        let role = format!(
            "inputs: {{token: {{type: str, sensitive: true, required: true}}}}\nresources:\n  - name: {name}\n    {item}\n"
        );
        world.write(&format!("roles/{name}/role.yaml"), &role).unwrap();
        playbook.push_str(&format!("- {{hosts: lab, roles: [{name}]}}\n"));
    }
    world.write("playbooks/site.yaml", &playbook).unwrap();
    world.write("token", "Failing-5e5e-token\n").unwrap();
    exec(&world.hosts()[0], "umask 077; echo '{\"a\": \"Failing-5e5e-token\",,' > /etc/bad.json");
    let mut found = Vec::new();
    let narrow =
        |names: &[&'static str]| -> Vec<&str> { names.iter().flat_map(|n| ["--role", *n]).collect() };
    for names in
        [&["mode"][..], &["kind"], &["query"], &["assert"], &["command", "timeout", "structured", "validate"]]
    {
        let roles = narrow(names);
        for verb in [
            &["plan"][..],
            &["plan", "--output", "json", "-v"],
            &["apply", "--yes", "-v"],
            &["apply", "--yes", "--output", "json", "-vv"],
        ] {
            let ran =
                world.converge(&[verb, &["hosts.yaml", "--set", "token=@token"], &roles].concat()).unwrap();
            assert_ne!(ran.code, Some(0), "{names:?} {verb:?}: {}", ran.all());
            if let Some(at) = ran.all().find("5e5e") {
                found.push(format!("{names:?} {verb:?}: {}", &ran.all()[at.saturating_sub(200)..at + 20]));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n----\n"));
}

/// A file that a run wrote as sensitive is a secret for whatever changes it later, without a sensitive value of its own.
#[test]
fn what_a_sensitive_item_wrote_is_not_shown_by_later_plans() {
    let world = World::new("words-later", 1).unwrap();
    let secret = "inputs: {token: {type: str, sensitive: true, required: true}}\nresources:\n  - directory: {path: /srv/d}\n  \
         - file: {path: /srv/d/secret, content: \"{{ token }}\\n\", mode: \"0600\"}\n";
    let absent = "resources:\n  - absent: {path: /srv/d, recursive: true}\n";
    let plain =
        "resources:\n  - directory: {path: /srv/d}\n  - file: {path: /srv/d/secret, content: \"plain\\n\"}\n";
    // Behind the command the edit is planned again.
    let edit = "resources:\n  - command: {run: touch /srv/x, creates: /srv/x, undo: rm /srv/x}\n  - line: {path: /srv/d/secret, line: more}\n";
    world.write("token", "Later-7c7c-token\n").unwrap();
    let run = |args: &[&str], code: i32| {
        let ran = world.converge(&[args, &["hosts.yaml"]].concat()).unwrap().expect(code);
        assert!(!ran.all().contains("Later-7c7c"), "{args:?} shows the secret:\n{}", ran.all());
        ran
    };
    world.only_role("r", secret).unwrap();
    run(&["apply", "--yes", "--set", "token=@token"], 0);
    for (role, also) in [(absent, None), (plain, Some("plain")), (edit, None)] {
        world.only_role("r", role).unwrap();
        run(&["plan"], 2).says("sensitive");
        run(&["plan", "--output", "json", "--tags", "untagged"], 2);
        run(&["plan", "--output", "json", "--role", "r"], 2);
        run(&["plan", "--out", "kept.plan"], 2);
        run(&["apply", "--yes"], 0);
        let ran = run(&["rollback", "--yes"], 0);
        assert!(also.is_none_or(|text| !ran.all().contains(text)), "{}", ran.all());
        assert_eq!(exec(&world.hosts()[0], "cat /srv/d/secret"), "Later-7c7c-token\n");
    }
    // Another project, which has no record of the file.
    let theirs = "  - file: {path: /srv/d/secret, content: other}\n";
    let ran = world.of_project("theirs", &["plan"], Some(theirs)).unwrap().expect(2).says("sensitive");
    assert!(!ran.all().contains("Later-7c7c"), "{}", ran.all());
}
