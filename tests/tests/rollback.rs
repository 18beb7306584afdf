//! Rollbacks after other things than one good run, on real hosts: `docs/rollback.md`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World, exec, ran, until_exec};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("prune-b{}", std::process::id()), 2).unwrap()));

/// The hosts without records; the project has one role, whose files hold the variable `v`.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    for host in world.hosts() {
        exec(host, "rm -rf /srv/back /var/lib/converge && mkdir /srv/back");
    }
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 5")).unwrap();
    files(&world, &["a", "b"]);
    world
}

fn files(world: &World, names: &[&str]) {
    let items: String = names
        .iter()
        .map(|n| format!("  - name: {n}\n    file: {{path: /srv/back/{n}, content: \"{{{{ v }}}}\\n\"}}\n"))
        .collect();
    world
        .only_role(
            "back",
            &format!(
                "inputs:\n  v: {{type: str, default: one, help: what the files hold}}\nresources:\n{items}"
            ),
        )
        .unwrap();
}

/// On the first host alone.
fn converge(world: &World, args: &[&str]) -> Ran {
    ran(&mut command(world, args)).unwrap()
}

fn command(world: &World, args: &[&str]) -> Command {
    let mut all = args.to_vec();
    let first = world.hosts()[0].name().to_owned();
    all.extend(["hosts.yaml", "--limit", &first]);
    world.command(&all).unwrap()
}

fn apply(world: &World, v: &str) {
    converge(world, &["apply", "--yes", "--set", &format!("v={v}")]).expect(0);
}

fn rollback(world: &World, args: &[&str]) -> Ran {
    converge(world, &[&["rollback", "--yes"], args].concat())
}

fn shown(host: &Host) -> String {
    exec(host, "cd /srv/back && grep -r . . | sort | xargs")
}

/// The IDs of the runs on a host, newest first.
fn runs(world: &World) -> Vec<String> {
    let all: Value = converge(world, &["snapshots", "--output", "json"]).expect(0).json().unwrap();
    let runs = all["hosts"][0]["runs"].as_array().unwrap();
    runs.iter().map(|r| r["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_rollback_never_moves_forward_and_none_is_stuck() {
    let world = world();
    let host = &world.hosts()[0];
    apply(&world, "one");
    apply(&world, "two");
    exec(host, "echo operator > /srv/back/b");
    let first = runs(&world).pop().unwrap();
    // A part of the ID is enough; the plan says to where it returns.
    let part = rollback(&world, &["--to", &first[..30]]).expect(4);
    part.says(&first).says("roles back").says("was changed by someone else since");
    assert_eq!(shown(host), "./b:operator");
    // The remaining change cannot be reverted: it is named again, and nothing comes back.
    rollback(&world, &[]).expect(4).says("was changed by someone else since");
    assert_eq!(shown(host), "./b:operator");
    exec(host, "echo two > /srv/back/b");
    rollback(&world, &[]).expect(0);
    assert_eq!(shown(host), "");
    rollback(&world, &[]).expect(0).says("no host has a run to roll back");
    // The state before the second run comes back where it is asked for.
    let second = runs(&world).iter().rev().nth(1).unwrap().clone();
    rollback(&world, &["--to", &second]).expect(0);
    assert_eq!(shown(host), "./a:one ./b:one");
    // A user has reverted by hand what the newest run changed: that run is passed over.
    apply(&world, "three");
    exec(host, "echo one > /srv/back/a; echo one > /srv/back/b");
    let third = runs(&world).remove(0);
    let back = rollback(&world, &[]).expect(0).all();
    assert_eq!(shown(host), "");
    let named = format!("passed over: run {third}, since all its objects have their previous states already");
    assert!(back.contains(&named), "{named}: {back}");
}

#[test]
fn a_rollback_that_was_cut_is_gone_on_with() {
    let world = world();
    let host = &world.hosts()[0];
    let role = "resources:
  - name: first
    file: {path: /srv/back/first, content: \"1\\n\"}
  - name: slow
    command: {run: touch /srv/back/slow, creates: /srv/back/slow, undo: \"touch /srv/begun; sleep 4; rm /srv/back/slow\"}
  - name: last
    file: {path: /srv/back/last, content: \"3\\n\"}
";
    world.only_role("back", role).unwrap();
    converge(&world, &["apply", "--yes"]).expect(0);
    exec(host, "rm -f /srv/begun");
    let mut cut = command(&world, &["rollback", "--yes"]);
    let mut cut = cut.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_exec(host, 60, "test -e /srv/begun");
    cut.kill().unwrap();
    cut.wait().unwrap();
    // The step dies with the power: the session first, then the command, which is not to go on.
    exec(
        host,
        "for p in /proc/[0-9]*/fd/9; do [ $p -ef /var/lib/converge/lock ] && kill -9 $(echo $p | cut -d/ -f3); done
         for p in /proc/[0-9]*; do
           [ \"$(tr '\\0' ' ' 2>/dev/null <$p/cmdline)\" = 'sleep 4 ' ] && kill -9 $(awk '{print $4}' $p/stat) ${p#/proc/}
         done; true",
    );
    until_exec(host, 30, "flock -n /var/lib/converge/lock true");
    assert_eq!(exec(host, "ls /srv/back | xargs"), "first slow");
    rollback(&world, &[]).expect(0);
    assert_eq!(exec(host, "ls /srv/back | xargs"), "");
}

#[test]
fn a_rollback_stays_within_its_project() {
    let world = world();
    let host = &world.hosts()[0];
    apply(&world, "one");
    let own = runs(&world)[0].clone();
    let other = "inputs:\n  v: {type: str, default: theirs, help: what the files hold}\nresources:\n  - name: b\n    file: {path: /srv/back/b, content: \"{{ v }}\\n\"}\n  - name: c\n    file: {path: /srv/back/c, content: \"{{ v }}\\n\"}\n";
    world.write("roles/other/role.yaml", other).unwrap();
    world.write("playbooks/other.yaml", "- hosts: lab\n  roles: [other]\n").unwrap();
    let theirs = ["--playbook", "playbooks/other.yaml"];
    converge(&world, &[&["apply", "--yes"][..], &theirs].concat()).expect(0);
    converge(&world, &["snapshots"]).expect(0).says("playbook playbooks/other.yaml").says("roles other");
    let others = runs(&world)[0].clone();
    rollback(&world, &["--to", &others]).expect(64).says("is of another project");
    rollback(&world, &[]).expect(4).says(&own).says("of another project changed it too");
    assert_eq!(shown(host), "./b:theirs ./c:theirs");
    rollback(&world, &theirs).expect(0);
    assert_eq!(shown(host), "./b:one");
    // The remaining changes are reverted now.
    rollback(&world, &[]).expect(0);
    assert_eq!(shown(host), "");
}

#[test]
fn a_project_is_the_same_in_every_checkout() {
    let world = world();
    let host = &world.hosts()[0];
    // A run in the base, and one beside it.
    apply(&world, "zero");
    apply(&world, "one");
    files(&world, &["a"]);
    let copy = tempfile::tempdir().unwrap();
    let copied =
        Command::new("cp").arg("-a").arg(world.dir()).arg(copy.path().join("there")).status().unwrap();
    assert!(copied.success());
    let there = |args: &[&str]| {
        let mut command = command(&world, args);
        ran(command.current_dir(copy.path().join("there"))).unwrap()
    };
    there(&["plan"]).expect(0).says("orphaned").says("path:/srv/back/b");
    // As another version has recorded it, on another controller.
    exec(
        host,
        "cd /var/lib/converge && sed -i 's,playbooks/site.yaml,/home/x/infra/&,; s,\\thosts.yaml,\\t/home/x/infra/hosts.yaml,' owned runs/*/meta && \
         sed -i '/^seq\\t/d; s/^version\\t4/version\\t2/' runs/*/meta && echo 2 > version && ! grep -q '\\tplaybooks' owned runs/*/meta",
    );
    there(&["plan"]).expect(0).says("orphaned").says("path:/srv/back/b");
    there(&["rollback", "--yes"]).expect(0);
    let back = there(&["rollback", "--yes"]).expect(0);
    assert_eq!(shown(host), "", "{}", back.all());
}

#[test]
fn a_wrong_clock_of_the_controller_breaks_nothing() {
    let world = world();
    let host = &world.hosts()[0];
    exec(
        host,
        "[ -e /usr/lib/*/faketime/libfaketime.so.1 ] || apt-get -qq install -y libfaketime >/dev/null 2>&1",
    );
    let library = tempfile::NamedTempFile::new().unwrap();
    let encoded = exec(host, "base64 -w0 $(find /usr/lib -name libfaketime.so.1)");
    let decode = format!("base64 -d > '{}'", library.path().display());
    let mut decoder = Command::new("sh").arg("-c").arg(decode).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(decoder.stdin.as_mut().unwrap(), encoded.as_bytes()).unwrap();
    drop(decoder.stdin.take());
    assert!(decoder.wait().unwrap().success());
    let skewed = |skew: &str, args: &[&str]| {
        let mut command = command(&world, args);
        command
            .env("LD_PRELOAD", library.path())
            .env("FAKETIME", skew)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        ran(&mut command).unwrap()
    };
    apply(&world, "one");
    for (v, skew) in [("two", "+1d"), ("three", "-365d"), ("four", "+400d")] {
        skewed(skew, &["apply", "--yes", "--set", &format!("v={v}")]).expect(0);
    }
    apply(&world, "five");
    assert_eq!(runs(&world).len(), 5, "none was dropped");
    let mut ids: Vec<String> = runs(&world);
    ids.sort();
    ids.reverse();
    assert_ne!(ids, runs(&world), "the IDs have another order");
    for left in ["four", "three", "two"] {
        rollback(&world, &[]).expect(0);
        assert_eq!(shown(host), format!("./a:{left} ./b:{left}"));
    }
    exec(host, "sh /var/lib/converge/undo.sh");
    assert_eq!(shown(host), "./a:one ./b:one");
    skewed("+1d", &["rollback"]).says("its clock is").says("behind the clock here");
    rollback(&world, &[]).expect(0);
    assert_eq!(shown(host), "");
    assert_eq!(exec(host, "sh /var/lib/converge/undo.sh"), "there is no run to undo");
}

#[test]
fn a_host_without_the_run_is_named_and_left() {
    let world = world();
    let both = |args: &[&str]| world.converge(&[args, &["hosts.yaml"]].concat()).unwrap();
    both(&["apply", "--yes"]).expect(0);
    let first = runs(&world)[0].clone();
    both(&["apply", "--yes", "--set", "v=two"]).expect(0);
    // The second host keeps it no more.
    let second = &world.hosts()[1];
    exec(second, &format!("rm -r /var/lib/converge/runs/{first}"));
    let back = both(&["rollback", "--yes", "--to", &first]).expect(0);
    back.says(&format!("{} is left as it is: it has no record of run {first}", second.name()));
    assert_eq!((shown(&world.hosts()[0]).as_str(), shown(second).as_str()), ("", "./a:two ./b:two"));
    // Damage to the record of one run hides no other.
    exec(second, "f=$(ls -d /var/lib/converge/runs/*/journal); printf '\\001garbage\\nbegin\\t7\\n' >> $f");
    let plan = both(&["plan", "--set", "v=two"]);
    assert_ne!(plan.code, Some(4), "{}", plan.all());
    both(&["rollback", "--yes"]).expect(0).says("is damaged: 2 of its lines");
    assert_eq!(shown(second), "./a:one ./b:one");
}

/// A command without `undo` is not waited for: the rollback says that it stays, and the run is over.
#[test]
fn a_run_with_a_command_without_undo_is_rolled_back_once_and_says_so() {
    let world = world();
    let host = &world.hosts()[0];
    let role = "resources:\n  - name: before\n    file: {path: /srv/back/before, content: x}\n  - name: action\n    command: {run: touch /srv/back/made, creates: /srv/back/made}\n";
    world.only_role("rb", role).unwrap();
    converge(&world, &["apply", "--yes"]).expect(0);
    let first = rollback(&world, &[]).expect(1).says("What cannot be undone stays as it is");
    assert!(!first.all().contains("The next run continues with the remaining changes"), "{}", first.all());
    assert_eq!(exec(host, "ls /srv/back"), "made");
    rollback(&world, &[]).expect(0).says("no host has a run to roll back");
}

/// Both by a rollback and by `undo.sh`; the rest of the run goes back too.
#[test]
fn the_undo_of_a_command_that_failed_half_way_runs() {
    let world = world();
    let host = &world.hosts()[0];
    let role = "resources:
  - name: first
    file: {path: /srv/back/first, content: \"1\\n\"}
  - name: half
    command: {run: 'touch /srv/back/half; exit 3', creates: /srv/back/whole, undo: 'rm -f /srv/back/half; echo once >>/srv/undone'}
";
    for way in ["rollback", "undo.sh"] {
        exec(host, "rm -f /srv/undone");
        world.only_role("back", role).unwrap();
        converge(&world, &["apply", "--yes"]).expect(1);
        assert_eq!(exec(host, "ls /srv/back | xargs"), "first half");
        match way {
            "rollback" => drop(rollback(&world, &[]).expect(0)),
            _ => drop(exec(host, "sh /var/lib/converge/undo.sh")),
        }
        assert_eq!(exec(host, "ls /srv/back 2>/dev/null; cat /srv/undone"), "once", "{way}");
        rollback(&world, &[]).expect(0).says("no host has a run to roll back");
        assert_eq!(exec(host, "cat /srv/undone"), "once", "{way}");
    }
}
