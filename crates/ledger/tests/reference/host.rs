//! The ledger at work, on simulated hosts that keep their records as text.

use super::{End, KEYS, Values, key, role, story};
use converge_ledger::{Ledger, ProjectName, ProjectScope, Records, Undo, newest, parse_owned, parse_records};
use std::collections::BTreeSet;

/// The plan of a rollback on a host.
#[derive(Default)]
struct Plan {
    planned: Vec<usize>,
    changes: Vec<(usize, u8)>,
    named: BTreeSet<usize>,
    /// One of these is not seen by its path.
    halts: bool,
}

#[derive(Clone, Default)]
pub struct Host {
    pub now: Values,
    /// Whether the link leads to the directory of the last object.
    pub is_led: bool,
    pub runs: Vec<String>,
    /// The events of the runs, for the model of what is managed.
    pub events: Vec<story::Event<u8>>,
    /// The file `owned`, and how many runs were folded into it.
    base: (String, usize),
    /// The object that the next run gives out of management.
    pub disown: Option<usize>,
    /// The difference of its clock, in seconds.
    skew: i64,
}

fn state(value: u8) -> String {
    if value == 0 { "absent".to_owned() } else { format!("value {value}") }
}

fn value(state: &converge_resource::State) -> u8 {
    let line = state.line();
    let value = line.strip_prefix("value ").or_else(|| line.strip_prefix("open "));
    value.map_or(0, |v| v.parse().unwrap())
}

/// The object of a revert.
fn object(undo: &Undo) -> usize {
    undo.dir().unwrap_or(&undo.object.key)[1..].parse().unwrap()
}

fn project(n: usize) -> ProjectScope {
    ProjectScope(ProjectName { playbook: format!("play{n}.yaml"), inventory: "hosts.yaml".to_owned() })
}

impl Host {
    /// A new one, whose clock is off by so many seconds.
    pub fn new(skew: i64) -> Self {
        Self { skew, ..Self::default() }
    }

    /// Records a run that makes these changes, and makes them.
    pub fn run(
        &mut self,
        project: usize,
        (id, time): (&str, i64),
        purpose: &str,
        planned: &[usize],
        changes: &[(usize, u8)],
        end: &End,
    ) {
        // Sometimes a plan before it gave the host a new base.
        let drawn = id.bytes().map(usize::from).sum::<usize>();
        if drawn.is_multiple_of(2) {
            let (reply, closed) = (self.says(true), self.runs.len());
            if let Some(base) = parse_owned(&reply).base {
                assert_eq!(base.runs.len(), closed - self.base.1);
                self.base = (base.text, closed);
            }
        }
        let takes = purpose.lines().filter_map(|l| l.strip_prefix("undoes\t"));
        let takes =
            takes.map(|id| self.runs.iter().position(|r| r.starts_with(&format!("run\t{id}\n"))).unwrap());
        let mut event = story::Event { project, takes: takes.collect(), changes: Vec::new(), disowned: None };
        let seq = self.runs.len() + 1;
        let mut text = format!(
            "run\t{id}\nversion\t3\nseq\t{seq}\ntime\tt\nopened\t{}\npurpose\t{purpose}\nscope\tplay{project}.yaml\thosts.yaml\n",
            time + self.skew
        );
        for key in planned {
            text.push_str(&format!("planned\tr{}/{key}\n", role(*key)));
        }
        let mut closed = true;
        for (n, (object, to)) in changes.iter().enumerate() {
            let (from, item) = (self.now[*object], format!("r{}/{object}", role(*object)));
            // A part of a planned state may be left to the host.
            let is_open = purpose == "converge" && drawn.is_multiple_of(5);
            let planned = if is_open { state(*to).replace("value", "open") } else { state(*to) };
            let path = key(*object);
            text.push_str(&format!("begin\t{n}\tpath\t/{path}\t{}\t{planned}\t{item}\t-\n", state(from)));
            if path == KEYS - 1 {
                text.push_str(&format!("at\t{n}\t/{object}\n"));
            }
            // An object that goes is declared so by a role, or pruned.
            let of_role = purpose == "converge" && (*to != 0 || drawn.is_multiple_of(3));
            if of_role {
                text.push_str(&format!("owns\t{n}\tr{}\n", role(*object)));
            }
            let cut = matches!(end, End::Cut(at, _) if *at == n);
            let mut tell = |left, done| {
                event.changes.push(story::Change { key: path, found: from, left, done, cut, of_role })
            };
            match end {
                End::Failed(at) if *at == n => {
                    text.push_str(&format!("failed\t{n}\t1\t{}\n", state(from)));
                    break;
                }
                End::Broke(at, left) if *at == n => {
                    text.push_str(&format!("failed\t{n}\t1\t{}\n", state(*left)));
                    self.now[*object] = *left;
                    tell(*left, false);
                    break;
                }
                End::Cut(at, made) if *at == n => {
                    tell(*to, false);
                    if *made {
                        self.now[*object] = *to;
                    }
                    closed = false;
                    break;
                }
                _ => {}
            }
            tell(*to, true);
            text.push_str(&format!("done\t{n}\t{}\n", state(*to)));
            self.now[*object] = *to;
        }
        if let Some(key) = self.disown.take().filter(|_| closed) {
            text.push_str(&format!("disown\tpath\t/{key}\n"));
            event.disowned = Some(key);
        }
        self.events.push(event);
        if closed {
            text.push_str("close\tfinished\t1\n");
        } else if seq.is_multiple_of(2) {
            text.push_str("close\tcut-off\t1\n");
        }
        self.runs.push(text);
    }

    /// The host's records for a plan; `settled`, once a run has begun that ends an unfinished one.
    fn says(&self, settled: bool) -> String {
        let mut text = "converge-managed\t1\n".to_owned();
        for run in &self.runs {
            text.push_str(&format!(
                "recorded\t{}\n",
                run.lines().next().unwrap().split_once('\t').unwrap().1
            ));
        }
        text.push_str(&format!("base\tdigest\n{}", self.base.0));
        for (at, run) in self.runs.iter().enumerate().skip(self.base.1) {
            text.push_str(run);
            if !run.contains("\nclose\t") && (settled || at + 1 < self.runs.len()) {
                text.push_str("close\tcut-off\t1\n");
            }
        }
        text
    }

    /// The managed objects of each project: of each the state before and the state that its runs left.
    pub fn managed(&self) -> Vec<Vec<Option<(u8, u8)>>> {
        let records = parse_owned(&self.says(false));
        assert_eq!(records.broken, Vec::<String>::new());
        let mut found = vec![vec![None; KEYS]; 2];
        for thing in &records.things {
            let at = thing.object.key[1..].parse::<usize>().unwrap();
            let of = usize::from(!project(0).is(&thing.scope));
            assert_eq!(found[of][at].replace((value(&thing.before), value(&thing.left))), None);
        }
        found
    }

    /// Its records, in the order of a folder that knows no order.
    fn records(&self, time: i64) -> Records {
        let mut texts = self.runs.clone();
        texts.sort();
        let records = parse_records(&format!("converge\t6\nnow\t{}\n{}", time + self.skew, texts.concat()));
        let records = records.unwrap();
        assert_eq!(records.broken, Vec::<String>::new());
        records
    }

    /// Plans a rollback of these hosts with the ledger and carries it out, as the engine does. What it leaves alone on each. `ends`: how each ends.
    pub fn rollback(
        hosts: &mut [&mut Self],
        of: usize,
        to: Option<&str>,
        narrowed: Option<usize>,
        ends: &[End],
        (id, time): (&str, i64),
    ) -> Vec<BTreeSet<usize>> {
        let project = project(of);
        let all: Vec<Records> = hosts.iter().map(|host| host.records(time)).collect();
        let ledgers: Vec<Ledger<'_>> = all.iter().map(|records| Ledger::of(&records.runs)).collect();
        let mut passed: BTreeSet<String> = BTreeSet::new();
        let mut left = vec![BTreeSet::new(); hosts.len()];
        let mut alone = String::new();
        loop {
            let candidates = |at: usize| {
                let runs = ledgers[at].candidates(&project, &|_| true).into_iter();
                let runs = runs.map(|run| &all[at].runs[run]).filter(|run| !passed.contains(&run.id));
                runs.map(|run| (run.id.as_str(), all[at].age(run))).collect::<Vec<_>>()
            };
            let candidates: Vec<Vec<(&str, i64)>> = (0..hosts.len()).map(candidates).collect();
            let chosen = match to {
                Some(to) => to.to_owned(),
                None => match newest(&candidates) {
                    Some(id) => id.to_owned(),
                    None => return left,
                },
            };
            let (mut plans, mut named) = (Vec::new(), Vec::new());
            let mut goes_on = false;
            for (at, ledger) in ledgers.iter().enumerate() {
                let place = match to {
                    Some(_) => ledger.place(&chosen),
                    None => ledger
                        .place(&chosen)
                        .filter(|_| candidates[at].last().is_some_and(|(id, _)| *id == chosen)),
                };
                let plan = place.map(|place| match to {
                    Some(_) => ledger.revert_to(place, &project, &|_| true),
                    None => {
                        let start = if alone == chosen { place } else { ledger.start_of(place, &project) };
                        goes_on |= start != place;
                        ledger.revert_from(start, &project, &|_| true)
                    }
                });
                let (undos, targets) = plan.unwrap_or_default();
                let plan = hosts[at].plan(undos, narrowed);
                named.push(plan.named.clone());
                plans.push((plan, targets));
            }
            if plans.iter().all(|(plan, _)| plan.changes.is_empty()) {
                if to.is_some() || plans.iter().any(|(plan, _)| plan.halts) {
                    return named;
                }
                if named.iter().any(|named| !named.is_empty()) {
                    left = named;
                }
                if goes_on {
                    alone = chosen;
                    continue;
                }
                for (at, (_, targets)) in plans.iter().enumerate() {
                    passed.extend(targets.iter().map(|run| all[at].runs[*run].id.clone()));
                }
                passed.insert(chosen);
                continue;
            }
            for (at, (plan, targets)) in
                plans.iter().enumerate().filter(|(_, (plan, _))| !plan.changes.is_empty())
            {
                let roles = narrowed.map_or(String::new(), |r| format!("\tr{r}"));
                let undoes: String =
                    targets.iter().map(|run| format!("\nundoes\t{}", all[at].runs[*run].id)).collect();
                let purpose = format!("rollback{roles}{undoes}");
                hosts[at].run(of, (id, time), &purpose, &plan.planned, &plan.changes, &ends[at]);
            }
            return named;
        }
    }

    /// The verdicts on these objects.
    fn plan(&self, undos: Vec<Undo>, narrowed: Option<usize>) -> Plan {
        let mut plan = Plan::default();
        for mut undo in undos {
            let object = object(&undo);
            if narrowed.is_some_and(|r| undo.item.split('/').next() != Some(&format!("r{r}"))) {
                continue;
            }
            let Some(restored) = self.decide(&mut undo) else { continue };
            plan.planned.push(object);
            if restored {
                plan.changes.push((object, value(&undo.before)));
            } else {
                plan.named.insert(object);
                plan.halts |= !self.sees(object);
            }
        }
        plan
    }

    /// Whether the path of an object leads to it.
    fn sees(&self, object: usize) -> bool {
        object < KEYS - 1 || (object == KEYS) == self.is_led
    }

    /// Whether an object is restored (`true`), left alone, or as before already (`None`): as the engine does.
    fn decide(&self, undo: &mut Undo) -> Option<bool> {
        let object = object(undo);
        let now = converge_resource::State::from_line(&state(self.now[object]));
        if !self.sees(object) {
            return (now != undo.before).then_some(false);
        }
        undo.settle(&now, &|_, now, planned| {
            let open = planned.line().strip_prefix("open ");
            now == planned || open.is_some_and(|open| now.line().strip_prefix("value ") == Some(open))
        });
        if now == undo.before {
            return None;
        }
        Some(undo.theirs.is_none() && now == undo.left)
    }
}
