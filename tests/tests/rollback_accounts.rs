//! Accounts in a rollback and a prune on a real host: those that something else belongs to, and those that a run was making when it was cut off.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World, exec, prune_by_number, until_exec};
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static WORLD: LazyLock<Mutex<World>> =
    LazyLock::new(|| Mutex::new(World::new(&format!("rollback-acc-{}", std::process::id()), 1).unwrap()));

/// The host without records and accounts of a test, and a project whose playbooks `a` and `b` have the role of their name.
fn world() -> MutexGuard<'static, World> {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let clean = "rm -rf /var/lib/converge /srv/* /usr/local/sbin/*; for a in nine crew; do userdel -r $a; groupdel $a; done 2>/dev/null; true";
    exec(&world.hosts()[0], clean);
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    for name in ["a", "b"] {
        world
            .write(&format!("playbooks/{name}.yaml"), &format!("- hosts: lab\n  roles: [{name}]\n"))
            .unwrap();
    }
    world
}

fn role(world: &World, name: &str, resources: &str) {
    world.write(&format!("roles/{name}/role.yaml"), &format!("resources:{resources}\n")).unwrap();
}

/// A command on a playbook, with `--yes`.
fn converge(world: &World, verb: &str, playbook: &str, more: &[&str]) -> Ran {
    let playbook = format!("playbooks/{playbook}.yaml");
    let all = [&[verb, "--yes", "hosts.yaml", "--playbook", &playbook], more].concat();
    world.converge(&all).unwrap()
}

const ACCOUNT: &str = "\n  - group: {name: nine, gid: 5998}\n  - user: {name: nine, uid: 5999, group: nine, create_home: false}";
const FILE: &str = "\n  - file: {path: /srv/x, content: \"B\\n\", owner: nine, group: nine}";

/// The file's owner and group, and whether the accounts are there.
fn observed(host: &Host) -> String {
    exec(
        host,
        "stat -c %U:%G /srv/x 2>/dev/null; for db in passwd group; do getent $db nine >/dev/null && echo $db; done; true",
    )
}

#[test]
fn an_account_stays_to_which_a_file_of_another_project_belongs_and_goes_after_it() {
    let world = world();
    let host = &world.hosts()[0];
    role(&world, "a", ACCOUNT);
    role(&world, "b", FILE);
    let both = || {
        converge(&world, "apply", "a", &[]).expect(0);
        converge(&world, "apply", "b", &[]).expect(0);
        assert_eq!(observed(host), "nine:nine\npasswd\ngroup");
    };
    both();
    let left = converge(&world, "rollback", "a", &[]);
    let left =
        left.expect(4).says("path:/srv/x of run").says("of another project (playbook playbooks/b.yaml");
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup", "{}", left.all());
    // The host alone decides the same.
    let first = exec(host, "ls /var/lib/converge/runs | head -n 1");
    let undone = host.exec(&format!("sh /var/lib/converge/undo.sh {first}")).unwrap();
    assert!(undone.stdout.contains("made what belongs to it: undo that one first"), "{}", undone.stdout);
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup", "{}", undone.stdout);
    // So does a prune.
    role(&world, "a", " []");
    let left = converge(&world, "apply", "a", &["--prune"]);
    let left = left.says("path:/srv/x still belongs to it");
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup", "{}", left.all());
    converge(&world, "rollback", "b", &[]).expect(0);
    converge(&world, "rollback", "a", &[]).expect(0);
    assert_eq!(observed(host), "");
    role(&world, "a", ACCOUNT);
    both();
    converge(&world, "rollback", "b", &[]).expect(0);
    role(&world, "a", " []");
    converge(&world, "apply", "a", &["--prune=2"]).expect(0);
    assert_eq!(observed(host), "");
}

#[test]
fn an_account_stays_to_which_a_file_of_another_role_belongs() {
    let world = world();
    let host = &world.hosts()[0];
    world.write("playbooks/a.yaml", "- hosts: lab\n  roles: [a, b]\n").unwrap();
    role(&world, "a", ACCOUNT);
    role(&world, "b", FILE);
    converge(&world, "apply", "a", &[]).expect(0);
    let left = converge(&world, "rollback", "a", &["--role", "a"]);
    let left = left.expect(4).says("which is not reverted, belongs to it");
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup", "{}", left.all());
    role(&world, "a", " []");
    let left = converge(&world, "apply", "a", &["--prune"]);
    let left = left.says("path:/srv/x still belongs to it");
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup", "{}", left.all());
    // The same run that drops the accounts gives the file to another owner.
    role(&world, "b", &FILE.replace("nine", "root"));
    converge(&world, "apply", "a", &["--prune=2"]).expect(0);
    assert_eq!(observed(host), "root:root");
    // And all of it comes back, and goes together.
    converge(&world, "rollback", "a", &[]).expect(0);
    assert_eq!(observed(host), "nine:nine\npasswd\ngroup");
    converge(&world, "rollback", "a", &[]).expect(0);
    assert_eq!(observed(host), "");
}

/// A resource, the tool that makes its account, where that is seen, and the word for a prune of all that it makes.
const CASES: [(&str, &str, &str, &str); 2] = [
    ("group: {name: crew}", "groupadd", "group", "--prune=1"),
    ("user: {name: crew, create_home: false}", "useradd", "passwd", "--prune=2"),
];

/// An account whose number the host chooses: the power goes between the tool that makes it and the record of that.
#[test]
fn an_account_that_was_being_made_when_the_power_went_is_the_runs_own() {
    let world = world();
    let host = &world.hosts()[0];
    for (resource, tool, database, objects) in CASES {
        for way in ["rollback", "prune", "undo.sh"] {
            let what = format!("{resource}, {way}");
            role(&world, "a", &format!("\n  - {resource}"));
            let slow = format!(
                "printf '#!/bin/sh\\n/usr/sbin/{tool} \"$@\" || exit\\nsync; touch /run/made; sleep 60\\n' >/usr/local/sbin/{tool}; chmod 755 /usr/local/sbin/{tool}"
            );
            exec(host, &slow);
            let args = ["apply", "--yes", "hosts.yaml", "--playbook", "playbooks/a.yaml"];
            let mut command = world.command(&args).unwrap();
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            until_exec(host, 60, "test -e /run/made");
            host.kill().unwrap();
            drop(child.kill());
            child.wait().unwrap();
            host.start().unwrap();
            let there = format!("getent {database} crew >/dev/null && echo there; true");
            until_exec(host, 60, &format!("rm -f /usr/local/sbin/{tool}; getent {database} crew"));
            let plan = world.converge(&["plan", "hosts.yaml", "--playbook", "playbooks/a.yaml"]).unwrap();
            let reply = plan.all();
            assert!(
                reply.contains("did not end") && reply.contains("was changed as planned"),
                "{what}: {reply}"
            );
            assert!(!reply.contains("neither as before nor as planned"), "{what}: {reply}");
            let (code, reply) = match way {
                "undo.sh" => {
                    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                    (i32::from(!undone.success()), undone.stdout + &undone.stderr)
                }
                "prune" => {
                    role(&world, "a", " []");
                    let ran = converge(&world, "apply", "a", &[objects]);
                    (ran.code.unwrap(), ran.all())
                }
                _ => {
                    let ran = converge(&world, "rollback", "a", &[]);
                    (ran.code.unwrap(), ran.all())
                }
            };
            assert_eq!((code, exec(host, &there).as_str()), (0, ""), "{what}: {reply}");
            exec(host, "rm -rf /var/lib/converge; groupdel crew 2>/dev/null; rm -rf /home/crew; true");
        }
    }
}

/// The group that came with a user stays while a user of another project is in it, and goes after that one.
#[test]
fn a_group_that_came_with_its_user_goes_when_no_other_user_is_in_it_any_more() {
    let world = world();
    let host = &world.hosts()[0];
    let accounts = || exec(host, "getent passwd nine crew | cut -d: -f1; getent group nine | cut -d: -f1");
    role(&world, "a", "\n  - user: {name: nine, create_home: false}");
    role(&world, "b", "\n  - user: {name: crew, group: nine, create_home: false}");
    for way in ["rollback", "prune"] {
        role(&world, "a", "\n  - user: {name: nine, create_home: false}");
        role(&world, "b", "\n  - user: {name: crew, group: nine, create_home: false}");
        converge(&world, "apply", "a", &[]).expect(0);
        converge(&world, "apply", "b", &[]).expect(0);
        let back = |name: &str, code: i32| {
            let ran = match way {
                "rollback" => converge(&world, "rollback", name, &[]),
                _ => {
                    role(&world, name, " []");
                    prune_by_number(|option| converge(&world, "apply", name, &[option]))
                }
            };
            ran.expect(code)
        };
        let reply = back("a", 4).says("group:nine").all();
        assert_eq!(accounts(), "crew\nnine", "{way}: {reply}");
        back("b", 0);
        let reply = back("a", 0).all();
        assert_eq!(accounts(), "", "{way}: {reply}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// Takes the newest run of the playbook `a` back, or prunes all of it, or leaves that to `undo.sh`; with the code that something was left alone, or that all went.
fn back(world: &World, way: &str, is_left: bool) -> String {
    let code = if is_left { 4 } else { 0 };
    match way {
        "undo.sh" => {
            let ran = world.hosts()[0].exec("sh /var/lib/converge/undo.sh 2>&1").unwrap();
            assert_eq!(ran.status, Some(i32::from(is_left)), "{}", ran.stdout);
            ran.stdout
        }
        "rollback" => converge(world, "rollback", "a", &[]).expect(code).all(),
        _ => {
            role(world, "a", " []");
            prune_by_number(|option| converge(world, "apply", "a", &[option])).expect(code).all()
        }
    }
}

/// Somebody gives a user the group of ours as the primary one: the group stays, as the plan says, and goes when that user has gone.
#[test]
fn a_group_that_has_become_the_primary_one_of_somebodys_user_stays() {
    let world = world();
    let host = &world.hosts()[0];
    let accounts = || exec(host, "getent passwd nine crew | cut -d: -f1; getent group nine | cut -d: -f1");
    for way in ["rollback", "prune", "undo.sh"] {
        role(&world, "a", "\n  - user: {name: nine, create_home: false}");
        converge(&world, "apply", "a", &[]).expect(0);
        exec(host, "useradd -M -N -g nine crew");
        for _ in 0..2 {
            let reply = back(&world, way, true);
            assert!(reply.contains("group:nine") && reply.contains("the primary group of crew"), "{reply}");
            assert_eq!(accounts(), "crew\nnine", "{way}: {reply}");
        }
        exec(host, "userdel crew");
        let reply = back(&world, way, false);
        assert_eq!(accounts(), "", "{way}: {reply}");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// Somebody has deleted a user with the group of that name between two runs: the rollback to the start keeps the group for the user who is to be there.
#[test]
fn a_group_stays_for_the_user_who_is_to_be_there() {
    let world = world();
    let host = &world.hosts()[0];
    let accounts = || exec(host, "id -gn nine; id -Gn nine | wc -w; getent group nine | cut -d: -f1");
    exec(host, "useradd -U -M nine");
    let before = accounts();
    role(&world, "a", "\n  - user: {name: nine, create_home: false, groups: [users]}");
    converge(&world, "apply", "a", &[]).expect(0);
    let first = exec(host, "ls /var/lib/converge/runs | sort | head -n1");
    exec(host, "userdel nine; ! getent group nine");
    converge(&world, "apply", "a", &[]).expect(0);
    for _ in 0..2 {
        let reply = converge(&world, "rollback", "a", &["--to", &first]).expect(4).says("group:nine").all();
        assert!(reply.contains("the primary group of nine"), "{reply}");
        assert_eq!(accounts(), before, "{reply}");
    }
}

/// A file and a directory stay with the number that their owner and group lose: in the run that prunes them, and in one before it.
#[test]
fn a_file_is_pruned_when_its_owner_gets_another_number() {
    let world = world();
    let host = &world.hosts()[0];
    let observed =
        || exec(host, "stat -c '%n %a %u:%g' /srv/* 2>/dev/null; getent passwd nine | cut -d: -f3,4");
    let accounts = |gid: u32, uid: u32| {
        format!(
            "\n  - group: {{name: nine, gid: {gid}}}\n  - user: {{name: nine, uid: {uid}, group: nine, create_home: false}}"
        )
    };
    let owned = "\n  - file: {path: /srv/x, content: x, owner: nine, group: nine}\n  - directory: {path: /srv/d, owner: nine}\n  - directory: {path: /srv/was, owner: nine, mode: \"0700\"}";
    let before = "/srv/was 755 0:0";
    let first = "/srv/d 755 5999:0\n/srv/was 700 5999:0\n/srv/x 644 5999:5998\n5999:5998";
    exec(host, "mkdir -p /srv/was; chown root:root /srv/was; chmod 755 /srv/was");
    role(&world, "a", &(accounts(5998, 5999) + owned));
    converge(&world, "apply", "a", &[]).expect(0);
    assert_eq!(observed(), first);
    let second = format!("{before}\n5997:5996");
    for way in ["at once, rollback", "at once, undo.sh", "later"] {
        role(&world, "a", &accounts(5996, 5997));
        let runs = if way == "later" {
            converge(&world, "apply", "a", &[]).expect(0);
            assert!(observed().contains("/srv/x 644 5999:5998\n5997:5996"), "{way}: {}", observed());
            2
        } else {
            1
        };
        let pruned = converge(&world, "apply", "a", &["--prune=3"]).expect(0);
        assert_eq!(observed(), second, "{way}: {}", pruned.all());
        converge(&world, "apply", "a", &[]).expect(0);
        for _ in 0..runs {
            if way.ends_with("undo.sh") {
                let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
                assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
            } else {
                converge(&world, "rollback", "a", &[]).expect(0);
            }
        }
        assert_eq!(observed(), first, "{way}");
        role(&world, "a", &(accounts(5998, 5999) + owned));
        converge(&world, "apply", "a", &[]).expect(0).says("nothing to change");
    }
    // Of a prune that somebody has cut short nothing is refused for good: the accounts alone have changed.
    role(&world, "a", &accounts(5996, 5997));
    converge(&world, "apply", "a", &[]).expect(0);
    exec(host, "groupmod -g 5998 nine; usermod -u 5999 -g 5998 nine");
    converge(&world, "apply", "a", &["--prune=3"]).expect(0);
    assert_eq!(observed(), second);
}

/// A group that the run has made stays as long as the user whom the run has put into it.
#[test]
fn a_group_stays_with_a_member_that_stays_and_goes_with_it() {
    let world = world();
    let host = &world.hosts()[0];
    let accounts = "\n  - group: {name: crew}\n  - user: {name: nine, groups: [crew], create_home: false}\n  - directory: {path: /srv/d, owner: nine}";
    let is = || {
        exec(
            host,
            "id -nG nine 2>/dev/null; getent group crew | cut -d : -f 1,4; ls -d /srv/d 2>/dev/null; true",
        )
    };
    for way in ["rollback", "undo.sh"] {
        role(&world, "a", accounts);
        converge(&world, "apply", "a", &[]).expect(0);
        exec(host, "echo t >/srv/d/theirs");
        let undo = || exec(host, "sh /var/lib/converge/undo.sh 2>&1; echo status $?");
        let left = match way {
            "undo.sh" => undo(),
            _ => converge(&world, "rollback", "a", &[]).expect(4).all(),
        };
        assert_eq!(is(), "nine crew\ncrew:nine\n/srv/d", "{way}: {left}");
        exec(host, "rm /srv/d/theirs");
        let rest = match way {
            "undo.sh" => undo(),
            _ => converge(&world, "rollback", "a", &[]).expect(0).all(),
        };
        assert_eq!(is(), "", "{way}: {rest}");
    }
}

/// A rollback of the rollback gives the file to the number that comes back, not to the one that goes.
#[test]
fn a_file_comes_back_with_the_number_that_its_owner_gets_back() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "groupadd -g 4201 crew; useradd -M -u 4201 -g root nine; echo orig > /srv/x");
    role(
        &world,
        "a",
        "\n  - group: {name: crew, gid: 4301}\n  - user: {name: nine, uid: 4301}\n  - file: {path: /srv/x, content: \"A\\n\", owner: nine, group: crew}\n  - directory: {path: /srv/d, group: crew}",
    );
    let numbers =
        || exec(host, "id -u nine; stat -c %u:%g /srv/x /srv/d 2>/dev/null; true").replace('\n', " ");
    let last = || exec(host, "ls /var/lib/converge/runs | tail -n 1");
    converge(&world, "apply", "a", &[]).expect(0);
    assert_eq!(numbers(), "4301 4301:4301 0:4301");
    converge(&world, "rollback", "a", &[]).expect(0);
    assert_eq!(numbers(), "4201 0:0");
    let back = last();
    converge(&world, "rollback", "a", &["--to", &back]).expect(0);
    assert_eq!(numbers(), "4301 4301:4301 0:4301");
    world.converge(&["plan", "hosts.yaml", "--playbook", "playbooks/a.yaml"]).unwrap().expect(0);
    // The same of a prune.
    role(&world, "a", " []");
    prune_by_number(|arg| converge(&world, "apply", "a", &[arg]));
    assert_eq!(numbers(), "4201 0:0");
    converge(&world, "rollback", "a", &[]).expect(0);
    assert_eq!(numbers(), "4301 4301:4301 0:4301");
    exec(host, "sh /var/lib/converge/undo.sh");
    assert_eq!(numbers(), "4201 0:0");
}
