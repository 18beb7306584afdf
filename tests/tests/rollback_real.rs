//! Sequences of operations on a real host are drawn, and all of the host is compared with what the model of `docs/rollback.md` says: files,
//! packages, accounts and units. `CONVERGE_SEED` draws one sequence again, `CONVERGE_SEQUENCES` says how many are drawn from it on.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what goes wrong in a test ends it, and says how"
)]

#[expect(dead_code, reason = "the ledger's own test uses the rest")]
#[path = "../../crates/ledger/tests/reference/mod.rs"]
mod reference;

#[path = "rollback_real/objects.rs"]
mod objects;

use converge_lab::Host;
use converge_tests::{Ran, World, ended, exec, until_exec};
use objects::*;
use reference::{End, Model};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

/// Numbers from a seed (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % u64::try_from(n).unwrap())
            .unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A thing that runs made: the state before them, and the one that they left. Given back it stays known as long as that can be undone.
#[derive(Clone, Debug)]
struct Own {
    before: String,
    left: String,
    gone: bool,
}

struct Sequence<'a> {
    world: &'a World,
    host: &'a Host,
    model: Model<String>,
    owned: BTreeMap<usize, Own>,
    declared: [Option<usize>; KEYS],
    /// The IDs of the runs, as the model counts them.
    ids: Vec<String>,
    /// Runs that began with nothing.
    idle: BTreeSet<String>,
    /// The host before anything, and what the package brings.
    bare: &'a BTreeMap<String, String>,
    package: &'a BTreeSet<String>,
    story: Vec<String>,
}

impl Sequence<'_> {
    fn tell(&mut self, what: String) {
        eprintln!("  {what}");
        self.story.push(what);
    }

    /// Runs the binary, and cuts it off after so many milliseconds: kills it, or the host with it. What it said, unless it was cut off.
    fn converge(&self, args: &[&str], cut: Option<(u64, bool)>) -> Option<Ran> {
        let all = [args, &["--yes", "hosts.yaml"]].concat();
        let Some((after, power)) = cut else { return Some(self.world.converge(&all).unwrap()) };
        let mut child =
            self.world.command(&all).unwrap().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        let over = child.try_wait().unwrap().is_some();
        if !over {
            if power {
                self.host.kill().unwrap();
            }
            child.kill().unwrap();
        }
        let reply = ended(child).unwrap();
        if over {
            return Some(reply);
        }
        if power {
            self.host.start().unwrap();
            until_exec(self.host, 60, "systemctl is-system-running | grep -q 'running\\|degraded'");
        }
        // Steps that were sent already go on.
        until_exec(self.host, 90, "[ ! -e /var/lib/converge/lock ] || flock -n /var/lib/converge/lock true");
        None
    }

    /// The run that is new on the host, if one is.
    fn new_run(&self) -> Option<String> {
        let all = exec(self.host, "ls /var/lib/converge/runs 2>/dev/null; true");
        let known = |id: &&str| !self.ids.iter().any(|i| i == id) && !self.idle.contains(*id);
        let new: Vec<&str> = all.lines().filter(known).collect();
        assert!(new.len() < 2, "{new:?}");
        new.first().map(|id| (*id).to_owned())
    }

    /// The result of a run that was cut off: which of its changes began and how these things are now.
    fn what_was_cut(&self, id: &str) -> End<String> {
        let journal = exec(self.host, &format!("cat /var/lib/converge/runs/{id}/journal 2>/dev/null; true"));
        let now = observed(self.host);
        let (mut key_of, mut begun) = (BTreeMap::new(), BTreeMap::new());
        for line in journal.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                ["begin", n, kind, key, ..] => {
                    if let Some(at) = OBJECTS.iter().position(|o| *o == format!("{kind}\t{key}")) {
                        key_of.insert((*n).to_owned(), at);
                        begun.insert(at, (now[at].clone(), false));
                    }
                }
                ["done" | "off" | "failed", n, ..] => {
                    if let Some(change) = key_of.get(*n).and_then(|at| begun.get_mut(at)) {
                        change.1 = true;
                    }
                }
                ["close", "finished", ..] => return End::Whole,
                _ => {}
            }
        }
        End::Observed(begun)
    }

    fn apply(&mut self, role: Option<usize>, prune: bool, cut: Option<(u64, bool)>) {
        for (n, name) in ROLES.iter().enumerate() {
            let own = (0..KEYS).filter(|k| ROLE_OF[*k] == n);
            let text: String = own.filter_map(|k| Some(items(k, self.declared[k]?))).collect();
            let text =
                if text.is_empty() { "resources: []\n".to_owned() } else { format!("resources:\n{text}") };
            self.world.write(&format!("roles/{name}/role.yaml"), &text).unwrap();
        }
        let mut args = vec!["apply"];
        if let Some(role) = role {
            args.extend(["--role", ROLES[role]]);
        }
        let things = format!("--prune={}", self.prunable(role).len());
        if prune {
            args.push(if self.prunable(role).is_empty() { "--prune" } else { &things });
        }
        self.tell(format!("{args:?} of {:?}, cut {cut:?}", self.declared));
        let wanted: Vec<Option<String>> = (0..KEYS)
            .map(|k| self.declared[k].filter(|_| role.is_none_or(|r| ROLE_OF[k] == r)).map(|v| value(k, v)))
            .collect();
        let mut wanted = wanted;
        let mut left = BTreeSet::new();
        if prune {
            for key in self.prunable(role) {
                let Own { before, left: managed_here, .. } = &self.owned[&key];
                if self.model.now[key] == *managed_here {
                    wanted[key] = Some(before.clone());
                } else if self.model.now[key] == *before {
                    self.owned.remove(&key);
                } else {
                    left.insert(key);
                }
            }
        }
        let ran = self.converge(&args, cut);
        let (id, past) = (self.new_run(), self.model.past.len());
        let found = self.model.now.clone();
        match (&ran, &id) {
            (Some(ran), _) => {
                assert_eq!(
                    ran.code,
                    Some(if left.is_empty() { 0 } else { 4 }),
                    "{}\n{}",
                    ran.all(),
                    self.story.join("\n")
                );
                self.model.apply(0, &wanted, &End::Whole);
            }
            (None, Some(id)) => {
                let end = self.what_was_cut(id);
                self.tell(format!("was cut: {end:?}"));
                self.model.apply(0, &wanted, &end);
            }
            (None, None) => {}
        }
        self.note(id, past);
        if self.model.past.len() > past {
            for (key, left) in self.model.last() {
                self.own(key, &found[key], &left, self.declared[key].is_some());
            }
        }
    }

    /// The orphaned objects; a role that is not part of the run keeps all of its objects.
    fn prunable(&self, role: Option<usize>) -> Vec<usize> {
        let in_run = |key: usize| role.is_none_or(|r| ROLE_OF[key] == r) && self.declared[key].is_none();
        let of_things = self.owned.iter().filter(|(k, own)| !own.gone && in_run(**k));
        of_things.map(|(k, _)| *k).collect()
    }

    /// Records a change of an object, for the list of managed objects.
    fn own(&mut self, key: usize, found: &str, left: &str, mine: bool) {
        let fresh = Own { before: found.to_owned(), left: left.to_owned(), gone: false };
        let Some(own) = self.owned.get_mut(&key) else {
            if mine {
                self.owned.insert(key, fresh);
            }
            return;
        };
        if own.gone && mine {
            *own = fresh;
        } else if own.gone && own.before == found {
            own.gone = false;
        }
        if !own.gone {
            left.clone_into(&mut own.left);
            own.gone = own.left == own.before;
        }
    }

    /// The run of the model's that came last has this ID.
    fn note(&mut self, id: Option<String>, past: usize) {
        match (id, self.model.past.len() > past) {
            (Some(id), true) => self.ids.push(id),
            (Some(id), false) => drop(self.idle.insert(id)),
            (None, false) => {}
            (None, true) => panic!("there is no run\n{}", self.story.join("\n")),
        }
    }

    fn rollback(&mut self, to: Option<usize>, role: Option<usize>, cut: Option<(u64, bool)>) {
        let mut args = vec!["rollback"];
        let id = to.map(|at| self.ids[at].clone());
        if let Some(id) = &id {
            args.extend(["--to", id]);
        }
        if let Some(role) = role {
            args.extend(["--role", ROLES[role]]);
        }
        self.tell(format!("{args:?}, cut {cut:?}"));
        let ran = self.converge(&args, cut);
        let (id, past) = (self.new_run(), self.model.past.len());
        let found = self.model.now.clone();
        match (&ran, &id) {
            (Some(ran), _) => {
                let left = self.model.rollback(0, to, role, &End::Whole);
                let wanted = Some(if left.is_empty() { 0 } else { 4 });
                assert_eq!(ran.code, wanted, "left {left:?}\n{}\n{}", ran.all(), self.story.join("\n"));
            }
            (None, Some(id)) => {
                let end = self.what_was_cut(id);
                self.tell(format!("was cut: {end:?}"));
                self.model.rollback(0, to, role, &end);
            }
            (None, None) => {}
        }
        self.note(id, past);
        self.own_back(past, &found);
    }

    fn own_back(&mut self, past: usize, found: &[String]) {
        if self.model.past.len() > past {
            for (key, left) in self.model.last() {
                self.own(key, &found[key], &left, false);
            }
        }
    }

    fn undo(&mut self) {
        self.tell("undo.sh".to_owned());
        let (past, found) = (self.model.past.len(), self.model.now.clone());
        let ran =
            self.host.exec("[ ! -e /var/lib/converge/undo.sh ] || sh /var/lib/converge/undo.sh").unwrap();
        let left = self.model.undo().unwrap_or_default();
        let reply = format!("left {left:?}\n{}{}\n{}", ran.stdout, ran.stderr, self.story.join("\n"));
        assert_eq!(ran.success(), left.is_empty(), "{reply}");
        let id = self.new_run();
        self.note(id, past);
        self.own_back(past, &found);
    }

    /// Another user changes something.
    fn edit(&mut self, draw: &mut Draw) {
        let key = [FILE_A, FILE_B, FOLDER, ACCOUNT][draw.below(4)];
        let version = draw.below(3);
        let there = !self.model.now[key].is_empty();
        let script = match key {
            FOLDER if there => format!("chmod {} /srv/real/folder", MODES[version]),
            ACCOUNT if there => format!("usermod -s {} realu", SHELLS[version]),
            FILE_A | FILE_B => {
                let path = PATHS[key][0];
                let new = if draw.one_in(2) { "edited".to_owned() } else { version.to_string() };
                format!("echo {new} > {path}; chmod {} {path}", if version == 2 { "600" } else { "644" })
            }
            _ => return,
        };
        self.tell(format!("somebody: {script}"));
        exec(self.host, &script);
        self.model.now[key] = observed(self.host)[key].clone();
    }

    /// All of the host is as the model says.
    fn compare(&self) {
        let story = || self.story.join("\n");
        assert_eq!(observed(self.host), self.model.now, "{}", story());
        let mut now = whole(self.host, self.bare);
        let mut bare = self.bare.clone();
        for key in (0..KEYS).filter(|k| !self.model.now[*k].is_empty()) {
            for path in PATHS[key] {
                now.retain(|k, _| k.split(' ').next() != Some(path));
                bare.retain(|k, _| k.split(' ').next() != Some(path));
            }
            if key == PACKAGE {
                now.retain(|k, _| !self.package.contains(k));
            }
        }
        let gone: Vec<_> = bare.iter().filter(|(k, v)| now.get(*k) != Some(v)).collect();
        let new: Vec<_> = now.iter().filter(|(k, v)| bare.get(*k) != Some(v)).collect();
        assert!(gone.is_empty() && new.is_empty(), "was {gone:#?}\nis {new:#?}\n{}", story());
    }

    fn step(&mut self, draw: &mut Draw) {
        let cut = draw.one_in(4).then(|| (300 + u64::try_from(draw.below(1500)).unwrap(), draw.one_in(4)));
        let role = draw.one_in(4).then(|| draw.below(2));
        // Without a run there is nothing to take back.
        match if self.ids.is_empty() { 0 } else { draw.below(16) } {
            0..=6 => {
                for key in 0..KEYS {
                    let retained = if key == PACKAGE { draw.one_in(3) } else { !draw.one_in(4) };
                    self.declared[key] = retained.then(|| draw.below(3));
                }
                self.declared[UNIT_FILE] = self.declared[UNIT];
                self.apply(role, draw.one_in(3), cut);
            }
            7..=8 => self.edit(draw),
            9..=11 => self.rollback(None, role, cut),
            12..=13 => self.rollback(Some(draw.below(self.ids.len())), role, cut),
            _ => self.undo(),
        }
    }
}

#[test]
fn a_real_host_does_what_the_model_says() {
    let world = World::new(&format!("rollback-real{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 15")).unwrap();
    world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [ra, rb]\n").unwrap();
    for role in ROLES {
        world.write(&format!("roles/{role}/role.yaml"), "resources: []\n").unwrap();
    }
    exec(host, "mkdir /srv/real; echo of the shop > /srv/real/b; apt-get -qq update");
    // The files that the package brings, without converge.
    exec(host, "apt-get -qq install -y tree >/dev/null 2>&1");
    let with = whole(host, &BTreeMap::new());
    exec(host, "apt-get -qq purge -y tree >/dev/null 2>&1");
    let bare = whole(host, &BTreeMap::new());
    let package: BTreeSet<String> = with.keys().filter(|k| !bare.contains_key(*k)).cloned().collect();
    assert!(package.len() > 3, "{package:?}");
    let start = observed(host);

    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().unwrap());
    // The same sequences each time, so that a change is what makes them fail; others are drawn by hand.
    // The last one cuts a rollback off behind the start of a unit that it has restored.
    let seeds: Vec<u64> = match (number("CONVERGE_SEED"), number("CONVERGE_SEQUENCES")) {
        (None, None) => vec![1, 2, 3, 10],
        (first, sequences) => {
            (first.unwrap_or(1)..).take(usize::try_from(sequences.unwrap_or(1)).unwrap()).collect()
        }
    };
    for seed in seeds {
        eprintln!("CONVERGE_SEED={seed} CONVERGE_SEQUENCES=1");
        let mut draw = Draw(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut sequence = Sequence {
            world: &world,
            host,
            model: Model::new(start.clone(), ROLE_OF.to_vec()),
            owned: BTreeMap::new(),
            declared: [None; KEYS],
            ids: Vec::new(),
            idle: BTreeSet::new(),
            bare: &bare,
            package: &package,
            story: vec![format!("CONVERGE_SEED={seed} CONVERGE_SEQUENCES=1")],
        };
        for _ in 0..7 {
            sequence.step(&mut draw);
            sequence.compare();
        }
        exec(
            host,
            "systemctl disable --now realb >/dev/null 2>&1; rm -rf /etc/systemd/system/realb.service /run/realb /srv/real /var/lib/converge; \
             systemctl daemon-reload; systemctl reset-failed; userdel realu 2>/dev/null; \
             ! dpkg-query -W tree >/dev/null 2>&1 || apt-get -qq purge -y tree >/dev/null 2>&1; mkdir /srv/real; echo of the shop > /srv/real/b",
        );
    }
}
