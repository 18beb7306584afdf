//! Kinds of an ordinary baseline on a real host: planned, applied, then unchanged; drift of each is detected and corrected; all are
//! rolled back, by converge and by `undo.sh`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The result of each item.
fn results(document: &Value) -> BTreeMap<String, String> {
    let items = document["hosts"][0]["items"].as_array().unwrap();
    let word = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    items.iter().map(|item| (word(item, "name"), word(item, "result"))).collect()
}

fn plan(world: &World, code: i32) -> BTreeMap<String, String> {
    let ran = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap();
    results(&ran.expect(code).json().unwrap())
}

/// The items that a plan changes. Those that wait for them are deferred.
fn changing(world: &World) -> BTreeSet<String> {
    let changes = |(name, result): (String, String)| (result == "change").then_some(name);
    plan(world, 2).into_iter().filter_map(changes).collect()
}

/// The first run that the host knows of.
fn first_run(world: &World) -> String {
    let listed = world.converge(&["snapshots", "hosts.yaml", "--output", "json"]).unwrap().expect(0);
    let listed = listed.json().unwrap();
    let runs = listed["hosts"][0]["runs"].as_array().unwrap();
    runs.iter().filter_map(|r| r["run"].as_str()).min().unwrap().to_owned()
}

/// A role about one subject, and what its test needs to know.
struct Subject<'a> {
    role: &'a str,
    /// Brings the host into the state before the role.
    prepare: &'a str,
    /// Prints the state that a rollback must restore.
    state: &'a str,
    /// Prints what the role makes of the host.
    made: &'a str,
    /// The output of `made`.
    expected: &'a str,
    /// An item, and how somebody brings it out of its state.
    drift: &'a [(&'a str, &'a str)],
}

impl Subject<'_> {
    /// Planned, applied, unchanged, drifted, corrected, rolled back, applied again, undone by the host itself.
    fn holds(&self, world: &World) {
        let host = &world.hosts()[0];
        exec(host, self.prepare);
        world.only_role("subject", self.role).unwrap();
        let before = exec(host, self.state);
        let planned = plan(world, 2);
        assert!(planned.values().all(|r| r == "change" || r == "deferred"), "{planned:?}");
        self.applies(world, host);
        for (item, script) in self.drift {
            exec(host, script);
            assert_eq!(changing(world), BTreeSet::from([(*item).to_owned()]), "{script}");
            world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
            assert_eq!(exec(host, self.made), self.expected, "{script}");
        }
        let first = first_run(world);
        world.converge(&["rollback", "hosts.yaml", "--to", &first, "--yes"]).unwrap().expect(0);
        assert_eq!(exec(host, self.state), before);
        self.applies(world, host);
        let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
        assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
        assert_eq!(exec(host, self.state), before, "{}", undone.stdout);
    }

    fn applies(&self, world: &World, host: &Host) {
        let applied =
            world.converge(&["apply", "hosts.yaml", "--yes", "--output", "json"]).unwrap().expect(0);
        let differences = &applied.json().unwrap()["hosts"][0]["differences"];
        assert_eq!(*differences, Value::Array(Vec::new()));
        assert_eq!(exec(host, self.made), self.expected);
        assert!(plan(world, 0).values().all(|r| r == "unchanged"));
    }
}

const COMMANDS: Subject<'_> = Subject {
    role: r#"
summary: Commands in their surroundings
resources:
  - name: place
    directory: {path: /srv/app, owner: bob}
  - name: made in it
    command:
      run: |
        cat >input
        printf '%s' "$WORD" >word
        pwd >made
      undo: 'rm -f -- input word made; echo "$WORD" >/root/undone'
      creates: /srv/app/made
      chdir: /srv/app
      env: {WORD: "it's \"here\" $HOME"}
      stdin: "a line\n"
  - name: made by a user
    command:
      run: 'id -un >bobs; tr a-z A-Z >>bobs; echo "$PORT" >>bobs'
      unless: 'test "$(tail -n 1 bobs)" = "$PORT"'
      undo: rm bobs
      chdir: /srv/app
      env: {PORT: 8080}
      stdin: "from a pipe\n"
      user: bob
      timeout: 20
  - name: the answer
    query: {run: 'pwd; tr a-z A-Z; echo "$A"', chdir: /srv/app, stdin: "input\n", env: {A: b}, user: bob}
    register: answer
  - name: what was answered
    file: {path: /etc/answer, content: "{{ answer.stdout }}\n"}
"#,
    prepare: "useradd bob",
    state: "ls -A /srv /etc/answer 2>&1 || true",
    made: "cd /srv/app; cat input word; echo; cat made bobs /etc/answer; stat -c %U made bobs",
    expected: "a line\nit's \"here\" $HOME\n/srv/app\nbob\nFROM A PIPE\n8080\n/srv/app\nINPUT\nb\nroot\nbob",
    drift: &[("made in it", "rm /srv/app/made"), ("made by a user", "echo 1 >>/srv/app/bobs")],
};

#[test]
fn commands_have_their_surroundings() {
    let world = World::new(&format!("kinds-commands-{}", std::process::id()), 1).unwrap();
    COMMANDS.holds(&world);
    assert_eq!(exec(&world.hosts()[0], "cat /root/undone"), "it's \"here\" $HOME");
    let missing =
        "resources:\n  - name: gone\n    command: {run: 'true', creates: /etc/none, chdir: /srv/none}\n";
    world.only_role("subject", missing).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(1)
        .says("the directory /srv/none does not exist")
        .says("roles/subject/role.yaml:3:");
    let asked =
        "resources:\n  - name: gone\n    query: {run: 'true', chdir: /srv/none, status: [0, 1, 2, 126]}\n";
    world.only_role("subject", asked).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1).says("the directory /srv/none does not exist");
}

/// A unit that writes down what is done with it, and follows two files.
fn web(settings: &str, limits: &str) -> String {
    format!(
        r#"
summary: A unit that is reloaded
resources:
  - name: its file
    unit:
      name: web
      content: |
        [Service]
        ExecStart=/bin/sh -c 'echo started >>/run/web; exec sleep infinity'
        ExecReload=/bin/sh -c 'test ! -e /run/broken && echo reloaded >>/run/web'
        [Install]
        WantedBy=multi-user.target
  - name: settings
    file: {{path: /etc/web.conf, content: "{settings}"}}
  - name: limits
    file: {{path: /etc/web.limits, content: "{limits}"}}
  - name: it runs
    service: {{name: web, state: started, enabled: true, restart_on: [limits], reload_on: [settings]}}
"#
    )
}

#[test]
fn units_are_reloaded() {
    let world = World::new(&format!("kinds-reload-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    let log = || exec(host, "cat /run/web; : >/run/web").replace('\n', " ");
    let apply = |code| world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(code);
    world.only_role("subject", &web("a", "a")).unwrap();
    apply(0);
    assert_eq!(log(), "started", "a unit that starts is not reloaded");
    plan(&world, 0);
    world.only_role("subject", &web("b", "a")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("reload web.service");
    apply(0);
    assert_eq!(log(), "reloaded");
    plan(&world, 0);
    world.only_role("subject", &web("c", "b")).unwrap();
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2).says("restart web.service");
    apply(0);
    assert_eq!(log(), "started", "one act for both");
    plan(&world, 0);
    // A reload that failed is made up for by the next run.
    world.only_role("subject", &web("d", "b")).unwrap();
    exec(host, "touch /run/broken");
    apply(1).says("web.service was not reloaded");
    exec(host, "rm /run/broken");
    assert_eq!(changing(&world), BTreeSet::from(["it runs".to_owned()]));
    apply(0);
    assert_eq!(log(), "reloaded");
    plan(&world, 0);
    // A rollback brings the file back, and has the unit read it.
    world.only_role("subject", &web("f", "b")).unwrap();
    apply(0);
    assert_eq!(log(), "reloaded");
    world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
    assert_eq!((exec(host, "cat /etc/web.conf").as_str(), log().as_str()), ("d", "reloaded"));
    // A unit that cannot be reloaded is named before anything is done with it.
    let reload = "        ExecReload=/bin/sh -c 'test ! -e /run/broken && echo reloaded >>/run/web'\n";
    world.only_role("subject", &web("e", "b").replace(reload, "")).unwrap();
    apply(1).says("web.service cannot be reloaded");
    exec(host, "echo y >/etc/web.conf");
    let planned = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1);
    planned.says("web.service cannot be reloaded").says("write `restart_on`");
    // All of it goes.
    let gone = || {
        exec(
            host,
            "ls /etc/web.conf /etc/web.limits /etc/systemd/system/web.service 2>/dev/null; systemctl is-active web || true",
        )
    };
    exec(host, "printf e >/etc/web.conf");
    let first = first_run(&world);
    world.converge(&["rollback", "hosts.yaml", "--to", &first, "--yes"]).unwrap().expect(0);
    assert_eq!(gone(), "inactive");
    world.only_role("subject", &web("a", "a")).unwrap();
    apply(0);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(gone(), "inactive");
}

const MODES: Subject<'_> = Subject {
    role: r#"
summary: Modes in symbols
resources:
  - name: folder
    directory: {path: /etc/modes, mode: "u=rwx,g=rxs,o="}
  - name: file
    file: {path: /etc/modes/file, content: "a\n", mode: "u=rw,g=r,o="}
  - name: line
    line: {path: /etc/modes/line, line: b, create: true, mode: "a=r,u+w"}
"#,
    prepare: "true",
    state: "ls -d /etc/modes 2>&1 || true",
    made: "cd /etc/modes; stat -c %a . file line",
    expected: "2750\n640\n644",
    drift: &[("folder", "chmod 700 /etc/modes"), ("file", "chmod 600 /etc/modes/file")],
};

#[test]
fn modes_may_be_symbols() {
    let world = World::new(&format!("kinds-modes-{}", std::process::id()), 1).unwrap();
    MODES.holds(&world);
    let relative = "resources:\n  - name: r\n    directory: {path: /etc/modes, mode: a+X}\n";
    world.only_role("subject", relative).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(64)
        .says("depends on the present mode")
        .says("role.yaml:3:");
}

const FILE_SYSTEMS: Subject<'_> = Subject {
    role: r#"
summary: Disks with a file system
resources:
  - name: scratch
    filesystem: {device: /srv/scratch.img, fstype: ext4, label: scratch}
  - name: others
    filesystem: {device: /srv/others.img, fstype: ext3}
"#,
    prepare: "truncate -s 32M /srv/scratch.img /srv/others.img",
    state: "for disk in /srv/*.img; do blkid -p $disk || echo blank; done",
    made: "for disk in /srv/*.img; do blkid -p -o value -s TYPE -s LABEL $disk; done",
    expected: "ext3\nscratch\next4",
    drift: &[("scratch", "wipefs -aq /srv/scratch.img")],
};

#[test]
fn disks_get_a_file_system_and_no_data_is_lost() {
    let world = World::new(&format!("kinds-disks-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    FILE_SYSTEMS.holds(&world);
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    // A file in it is no drift, and no rollback takes it away; the other goes.
    exec(host, "debugfs -w -R 'mkdir data' /srv/scratch.img 2>/dev/null");
    plan(&world, 0);
    let back = world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap();
    back.says("/srv/scratch.img").says("left as it is");
    assert_eq!(exec(host, FILE_SYSTEMS.made), "scratch\next4");
    assert!(exec(host, "debugfs -R ls /srv/scratch.img 2>/dev/null").contains("data"));
    // Nothing else is written over.
    for (made, says) in [
        ("mkfs.ext4 -qF /srv/others.img", "/srv/others.img has a file system of type ext4"),
        ("wipefs -aq /srv/others.img; mkswap -q /srv/others.img", "/srv/others.img holds swap"),
        ("rm /srv/others.img", "/srv/others.img does not exist"),
    ] {
        exec(host, made);
        world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(1).says(says).says("role.yaml:");
    }
}

/// Hashes of passwords; the hosts never check one.
const NEW: &str = "$6$newsaltnewsalt$newhash/new.hash";
const OLD: &str = "$y$j9T$oldsaltoldsalt$oldhash/old.hash";

const PASSWORDS: Subject<'_> = Subject {
    role: r#"
summary: Users with passwords
resources:
  - name: new
    user: {name: ann, uid: 4101, password_hash: "$6$newsaltnewsalt$newhash/new.hash", expires: 2031-05-01}
  - name: another password
    user: {name: bob, password_hash: "$6$newsaltnewsalt$newhash/new.hash", expires: never}
  - name: a first password
    user: {name: cal, password_hash: "$6$newsaltnewsalt$newhash/new.hash", create_home: false}
  - name: locked
    user: {name: dan, password_hash: "$6$newsaltnewsalt$newhash/new.hash", locked: true}
  - name: foreign code
    command: {run: touch /srv/ran, creates: /srv/ran, undo: rm -f /srv/ran}
"#,
    prepare: "for u in bob cal dan; do useradd -m $u; done
for u in bob dan; do echo \"$u:\\$y\\$j9T\\$oldsaltoldsalt\\$oldhash/old.hash\" | chpasswd -e; chage -d 2020-02-02 $u; done; chage -E 2030-01-01 bob
# Each program for accounts notes the processes beside it from here on.
for p in useradd usermod chpasswd; do mv /usr/sbin/$p /usr/sbin/$p.real
printf '#!/bin/sh\\nps -ww -eo args >>/root/seen\\nexec %s.real \"$@\"\\n' /usr/sbin/$p >/usr/sbin/$p; chmod 755 /usr/sbin/$p; done",
    state: "grep -E '^(ann|bob|cal|dan):' /etc/shadow; ls /var/lib/converge/passwords 2>/dev/null || true",
    made: "grep -E '^(ann|bob|cal|dan):' /etc/shadow | cut -d: -f1,2,8",
    expected: "bob:$6$newsaltnewsalt$newhash/new.hash:\ncal:$6$newsaltnewsalt$newhash/new.hash:\ndan:!$6$newsaltnewsalt$newhash/new.hash:\nann:$6$newsaltnewsalt$newhash/new.hash:22400",
    drift: &[
        ("new", "echo 'ann:$6$x$other' | chpasswd -e"),
        ("new", "chage -E -1 ann"),
        ("another password", "chage -E 2020-01-01 bob"),
        ("a first password", "passwd -dq cal"),
        ("locked", "usermod -U dan"),
    ],
};

#[test]
fn users_have_passwords() {
    let world = World::new(&format!("kinds-passwords-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    PASSWORDS.holds(&world);
    // A password that a user has already is no change, and nothing is recorded of it.
    exec(host, &format!("echo 'bob:{NEW}' | chpasswd.real -e; chage -E -1 bob"));
    assert_eq!(plan(&world, 2)["another password"], "unchanged");
    let planned = world.converge(&["plan", "hosts.yaml", "-v", "--out", "kept.plan"]).unwrap().expect(2);
    let planned = planned.says("password hash");
    let json = world.converge(&["plan", "hosts.yaml", "--output", "json"]).unwrap().expect(2);
    let applied = world.converge(&["apply", "kept.plan", "--yes", "-v"]).unwrap().expect(0);
    exec(host, "echo 'dan:!$6$x$other' | chpasswd.real -e");
    let drift = world.converge(&["drift", "hosts.yaml", "-v"]).unwrap().expect(2);
    let drift = drift.says("(hidden)");
    let saved = std::fs::read_to_string(world.dir().join("kept.plan")).unwrap();
    let observed = exec(host, "cat /root/seen");
    assert!(observed.contains("chpasswd"), "{observed}");
    let journals = exec(
        host,
        "cat /var/lib/converge/runs/*/journal /var/lib/converge/runs/*/meta /var/lib/converge/owned",
    );
    let all = [planned, json, applied, drift].map(|ran| ran.all());
    for text in all.iter().chain([&saved, &observed, &journals]) {
        for secret in [NEW, OLD, "newhash/new.hash", "oldhash/old.hash"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let readable = exec(host, "find /var/lib/converge -perm /077 -type f; stat -c %a /var/lib/converge");
    assert_eq!(readable, "700");
    world.only_role("subject", &PASSWORDS.role.replacen(NEW, "hunter2", 1)).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(64)
        .says("no hash of a password")
        .says("role.yaml:");
}

const TIME: Subject<'_> = Subject {
    role: r#"
summary: The time of the site
resources:
  - name: zone
    timezone: {name: Europe/Berlin}
"#,
    prepare: "test -e /usr/share/zoneinfo/Europe/Berlin || apt-get install -qq -y tzdata >/dev/null 2>&1
ln -sfn /usr/share/zoneinfo/Etc/UTC /etc/localtime; echo Etc/UTC >/etc/timezone",
    state: "stat -c '%N %U %a' /etc/localtime /etc/timezone; cat /etc/timezone",
    made: "readlink /etc/localtime; cat /etc/timezone; date -d @0 +%Z",
    expected: "/usr/share/zoneinfo/Europe/Berlin\nEurope/Berlin\nCET",
    drift: &[
        ("zone", "ln -sfn /usr/share/zoneinfo/Europe/Rome /etc/localtime"),
        ("zone", "echo Europe/Rome >/etc/timezone"),
        ("zone", "cp --remove-destination /usr/share/zoneinfo/Europe/Rome /etc/localtime"),
    ],
};

#[test]
fn hosts_have_a_time_zone() {
    let world = World::new(&format!("kinds-timezone-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    TIME.holds(&world);
    // A relative link is as good, and a host without /etc/timezone gets none.
    exec(host, "ln -sfn ../usr/share/zoneinfo/Europe/Berlin /etc/localtime; rm /etc/timezone");
    assert_eq!(plan(&world, 0)["zone"], "unchanged");
    world.only_role("subject", &TIME.role.replace("Europe/Berlin", "Europe/Nowhere")).unwrap();
    world
        .converge(&["plan", "hosts.yaml"])
        .unwrap()
        .expect(1)
        .says("knows no time zone Europe/Nowhere")
        .says("role.yaml:5:");
}

const LOCALES: Subject<'_> = Subject {
    role: r#"
summary: The languages of the site
resources:
  - name: sources
    package: {name: locales}
  - name: languages
    locale:
      names: [de_DE.UTF-8, de_DE@euro]
      default: de_DE.UTF-8
      categories: {LC_TIME: C.UTF-8}
"#,
    prepare:
        "set -e; apt-get update -qq >/dev/null; apt-get install -qq -y --download-only locales >/dev/null 2>&1
printf '%s\n' '# ours' LANG=C.UTF-8 LC_PAPER=C >/etc/default/locale",
    state: "stat -c '%n %U %a' /etc/default/locale /usr/lib/locale /usr/lib/locale/*; cat /etc/default/locale; ls /etc/locale.gen 2>&1; locale -a | LC_ALL=C sort; dpkg-query -W locales 2>&1 | cut -d: -f2",
    made: "grep -v '^#' /etc/locale.gen | grep .; cat /etc/default/locale; locale -a | LC_ALL=C sort; LC_ALL=de_DE@euro locale charmap; stat -c '%U %a' /usr/lib/locale/locale-archive",
    expected: "de_DE.UTF-8 UTF-8\nde_DE@euro ISO-8859-15\n# ours\nLANG=de_DE.UTF-8\nLC_PAPER=C\nLC_TIME=C.UTF-8\nC\nC.utf8\nPOSIX\nde_DE.iso885915@euro\nde_DE.utf8\nde_DE@euro\nISO-8859-15\nroot 644",
    drift: &[
        ("languages", "localedef --delete-from-archive de_DE.utf8"),
        ("languages", "rm /usr/lib/locale/locale-archive"),
        ("languages", "sed -i 's/^de_DE.UTF-8/# &/' /etc/locale.gen"),
        ("languages", "sed -i 's/^LANG=.*/LANG=C/' /etc/default/locale"),
    ],
};

#[test]
fn hosts_have_locales() {
    let world = World::new(&format!("kinds-locale-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    LOCALES.holds(&world);
    // One that locale-gen has made is as good, and the default may be one that is there.
    exec(
        host,
        "apt-get install -qq -y locales >/dev/null 2>&1; echo 'en_US.UTF-8 UTF-8' >>/etc/locale.gen; locale-gen >/dev/null",
    );
    let role = |locale: &str| {
        let role = format!("resources:\n  - name: languages\n    locale: {locale}\n");
        world.only_role("subject", &role).unwrap();
    };
    role("{names: en_US.UTF-8}");
    assert_eq!(plan(&world, 0)["languages"], "unchanged");
    role("{names: en_US.UTF-8, state: absent}");
    world.converge(&["apply", "hosts.yaml", "--yes"]).unwrap().expect(0);
    plan(&world, 0);
    assert_eq!(
        exec(host, "locale -a | LC_ALL=C sort; grep en_US.UTF-8 /etc/locale.gen | sort -u"),
        "C\nC.utf8\nPOSIX\n# en_US.UTF-8 UTF-8"
    );
    world.converge(&["rollback", "hosts.yaml", "--yes"]).unwrap().expect(0);
    assert_eq!(exec(host, "locale -a | LC_ALL=C sort"), "C\nC.utf8\nPOSIX\nen_US.utf8");
    role("{names: de_DE.utf8}");
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1).says("write it as `de_DE.UTF-8`");
    role("{default: de_DE.UTF-8}");
    let missing = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(1);
    missing.says("does not have the locale de_DE.UTF-8").says("role.yaml:3:");
}
