//! The fold over the virtual host, with kinds small enough to see through.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

#[path = "fold/packed.rs"]
mod packed;
#[path = "fold/secrets.rs"]
mod secrets;

use converge_objects::{CommandState, PackageState, PathState};
use converge_planner::{
    FoldResult, History, ItemDeclaration, ItemSource, Knowledge, Outcome, Outputs, Problem,
    ResolvedParameters, VirtualHost, fold,
};
use converge_resource::{
    Answer, Change, Claim, Content, DynResource, Inputs, ObjectId, Observation, PackedContents, ParamError,
    Probe, State, Stop, View, Wait, WantedStates,
};

const FOO: &str = "/etc/foo";

/// The behaviour of a test item.
#[derive(Clone)]
enum Kind {
    /// A whole file.
    Write(&'static str, &'static str),
    /// A line at the end of a file.
    Append(&'static str, &'static str),
    /// A package that is to be there.
    Install(&'static str),
    /// Looks at a named resource.
    Named(&'static str),
    /// A command that may make a path.
    Makes(&'static str),
    /// The same, when it is known whether it has to run.
    MakesLater(&'static str),
    /// A read-only question whose answer is registered.
    Ask(&'static str),
    /// Its parameters read a registered value.
    Needs(&'static str),
    /// Starts the unit `a.service`.
    Start,
    /// Restarts the unit `a.service` for a named resource; it notes the inputs of all items that do, those of others too.
    Restart(&'static str),
    /// Follows from a path as it is when no earlier item changes it.
    Follows(&'static str),
    /// Unpacks a file whose content the host can be asked for, or cannot.
    Unpack(&'static str, bool),
    /// Removes a file.
    Remove(&'static str),
    /// Writes a whole file of a secret.
    Secret(&'static str, &'static str),
    /// Its parameters are wrong here.
    Wrong,
}

fn path(p: &str) -> ObjectId {
    ObjectId::new("path", p)
}

fn file(text: &str) -> (State, Content) {
    let content = Content::new(text.as_bytes().to_vec());
    let state = PathState::File {
        digest: content.digest().clone(),
        size: Some(text.len() as u64),
        mode: 0o644,
        owner: "root".to_owned(),
        group: "root".to_owned(),
    };
    (state.into(), content)
}

impl DynResource for Kind {
    fn kind(&self) -> &'static str {
        "test"
    }
    fn read_only(&self) -> bool {
        matches!(self, Self::Ask(_))
    }
    fn validate(&self) -> Vec<ParamError> {
        Vec::new()
    }
    fn basis(&self) -> Option<String> {
        None
    }
    fn restarts(&self) -> Option<ObjectId> {
        matches!(self, Self::Restart(_)).then(|| ObjectId::new("unit", "a.service"))
    }
    fn disruption(&self) -> converge_resource::Disruption {
        converge_resource::Disruption::None
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Write(p, _) | Self::Secret(p, _) => vec![Claim::exclusive(path(p), "content")],
            Self::Append(p, _) => vec![Claim::edit(path(p), "content")],
            Self::Install(name) => {
                vec![Claim::shared(ObjectId::new("package", *name), "presence", "present")]
            }
            Self::Makes(p) | Self::MakesLater(p) => vec![
                Claim::exclusive(ObjectId::new("command", format!("creates {p} x \\ \\")), "run"),
                Claim::edit(path(p), "may-create"),
            ],
            _ => Vec::new(),
        }
    }
    fn plan(&self, found: &dyn View) -> Result<WantedStates, Stop> {
        match self {
            Self::Unpack(p, can_be_read) => {
                let (state, content) = file("said");
                let names = [(content.digest().clone(), "member".to_owned())].into();
                let packed = can_be_read.then_some(PackedContents { script: "print".to_owned(), names });
                Ok(WantedStates { packed, ..WantedStates::one(path(p), state) })
            }
            // The content of a directory is removed without a claim on it.
            Self::Remove(p) => Ok(WantedStates::one(path(p), State::absent())),
            Self::Write(p, text) | Self::Secret(p, text) => {
                let (state, content) = file(text);
                Ok(WantedStates::one(path(p), state).with(content))
            }
            Self::Append(p, line) => {
                let before = match found.state::<converge_objects::path::Path>(p)? {
                    PathState::File { digest, .. } => found.content(p, &digest)?.text().unwrap().to_owned(),
                    _ => match found.may_appear(&path(p)) {
                        Some(wait) => return Err(Stop::Deferred(wait)),
                        None => String::new(),
                    },
                };
                let after = if before.contains(line) { before } else { format!("{before}{line}\n") };
                let (state, content) = file(&after);
                Ok(WantedStates::one(path(p), state).with(content))
            }
            Self::Install(name) => {
                let object = ObjectId::new("package", *name);
                let state = PackageState::Present { version: "1".to_owned(), auto: false, hold: false };
                found.observed(&object)?;
                Ok(WantedStates::one(object, state))
            }
            Self::Makes(p) => {
                let object = ObjectId::new("command", format!("creates {p} x \\ \\"));
                Ok(WantedStates::one(object, CommandState::Done))
            }
            Self::MakesLater(_) => {
                Err(Stop::Deferred(Wait { item: String::new(), reason: "later".to_owned() }))
            }
            Self::Named(name) => {
                let named = found.named(name)?;
                Ok(WantedStates {
                    notes: vec![format!("changed: {}", named.changed)],
                    ..WantedStates::default()
                })
            }
            Self::Ask(script) => {
                if let Some(wait) = found.pending() {
                    return Err(Stop::Deferred(wait));
                }
                let answer = found.run(&Probe::run(*script))?;
                Ok(WantedStates { output: Some(answer.stdout.into()), ..WantedStates::default() })
            }
            Self::Restart(name) => {
                let inputs = Inputs { names: vec![(*name).to_owned()], ..Inputs::default() };
                let with = inputs.read(&|name| found.named(name))?;
                let earlier = found.restarters(&ObjectId::new("unit", "a.service"))?.earlier;
                let notes =
                    earlier.iter().map(|(_, with)| with).chain([&with]).map(|w| w.digest.clone()).collect();
                Ok(WantedStates { notes, runs_with: vec![with], ..WantedStates::default() })
            }
            Self::Follows(p) => match found.changed(&path(p)) {
                Some(wait) => Err(Stop::Deferred(wait)),
                None => Ok(WantedStates::default()),
            },
            Self::Start => Ok(WantedStates::one(
                ObjectId::new("unit", "a.service"),
                State::from_line("unit disabled active -"),
            )),
            Self::Needs(_) | Self::Wrong => Err(Stop::Failed("never planned".to_owned())),
        }
    }
}

struct Items {
    declared: Vec<ItemDeclaration>,
    kinds: Vec<Kind>,
}

impl Items {
    fn new(kinds: &[(&str, Kind)]) -> Self {
        let declared = kinds
            .iter()
            .enumerate()
            .map(|(n, (role, kind))| ItemDeclaration {
                address: format!("{role}/{n}"),
                name: n.to_string(),
                item_id: None,
                role: (*role).to_owned(),
                kind: "test".to_owned(),
                location: format!("role.yaml:{n}"),
                register: matches!(kind, Kind::Ask(_)).then(|| "answer".to_owned()),
                disruption: None,
                guard: converge_planner::DeclaredGuard::default(),
            })
            .collect();
        Self { declared, kinds: kinds.iter().map(|(_, k)| k.clone()).collect() }
    }
}

impl ItemSource for Items {
    fn items(&self) -> &[ItemDeclaration] {
        &self.declared
    }
    fn resolve(
        &self,
        index: usize,
        outputs: &Outputs,
        _: &converge_planner::AlteredFacts,
    ) -> ResolvedParameters {
        match &self.kinds[index] {
            Kind::Needs(name) if !outputs.contains_key(&("r".to_owned(), (*name).to_owned())) => {
                ResolvedParameters::Unknown {
                    names: vec![(*name).to_owned()],
                    claims: Vec::new(),
                    sensitive: false,
                }
            }
            Kind::Needs(_) => ResolvedParameters::Skipped("its `when` is false".to_owned()),
            Kind::Wrong => ResolvedParameters::Invalid(Problem::new("wrong")),
            kind => ResolvedParameters::Ready {
                resource: Box::new(kind.clone()),
                params: serde_json::Value::Null,
                sensitive: matches!(kind, Kind::Secret(..)),
            },
        }
    }
    fn ordered(&self, a: &str, b: &str) -> bool {
        (a, b) == ("first", "then")
    }
}

/// A host on which only these files are there.
fn host(files: &[(&str, &str)]) -> Knowledge {
    let mut known = Knowledge::default();
    for (p, text) in files {
        let (state, content) = file(text);
        known.learn(Probe::Object(path(p)), Answer::Object(Observation::new(state, Some(1))));
        known.learn(Probe::Content((*p).to_owned()), Answer::Content(Some(content)));
    }
    known
}

/// Folds, answering every further question with "absent".
fn planned(kinds: &[(&str, Kind)], mut known: Knowledge) -> FoldResult {
    let items = Items::new(kinds);
    for _ in 0..4 {
        let folded = fold("h", &items, &known, &History::default());
        if folded.asks.is_empty() {
            return folded;
        }
        for probe in folded.asks {
            let answer = match &probe {
                Probe::Object(id) if id.kind == "command" => {
                    Answer::Object(Observation::new(CommandState::Pending.into(), None))
                }
                Probe::Object(_) => Answer::Object(Observation::new(State::absent(), None)),
                Probe::Content(_) => Answer::Content(None),
                Probe::Api(_) | Probe::Local(_) => Answer::Failed("a host has no API".to_owned()),
                Probe::Run { .. } => Answer::Run(converge_resource::RunAnswer {
                    status: 0,
                    stdout: "said".to_owned(),
                    stderr: String::new(),
                }),
            };
            known.learn(probe, answer);
        }
    }
    panic!("asks for ever");
}

fn outcome(folded: &FoldResult, n: usize) -> &Outcome {
    &folded.plan.items[n].outcome
}

fn text_after(folded: &FoldResult, n: usize) -> String {
    let change = &folded.plan.items[n].changes()[0].change;
    let PathState::File { digest, .. } = PathState::try_from(change.to.clone()).unwrap() else { panic!() };
    folded.plan.contents[&digest].text().unwrap().to_owned()
}

#[test]
fn the_second_edit_sees_the_result_of_the_first() {
    let folded =
        planned(&[("r", Kind::Append(FOO, "a")), ("r", Kind::Append(FOO, "b"))], host(&[(FOO, "x\n")]));
    assert_eq!(text_after(&folded, 0), "x\na\n");
    assert_eq!(text_after(&folded, 1), "x\na\nb\n");
    assert_eq!(folded.plan.items[0].changes()[0].change.to, folded.plan.items[1].changes()[0].change.from);
    assert_eq!(folded.plan.items[1].needs, [0]);
    assert_eq!(folded.plan.base, [(path(FOO), file("x\n").0)]);
}

#[test]
fn a_whole_file_and_an_edit_of_it_found_as_they_left_it_are_no_change() {
    let kinds = [("r", Kind::Write(FOO, "x\n")), ("r", Kind::Append(FOO, "a")), ("r", Kind::Named("0"))];
    let folded = planned(&kinds, host(&[(FOO, "x\na\n")]));
    assert!(folded.plan.is_empty(), "{:?}", folded.plan.items);
    assert_eq!(folded.plan.items[2].notes, ["changed: false"]);
    let drifted = planned(&kinds, host(&[(FOO, "x\na\nspoiled\n")]));
    assert_eq!(text_after(&drifted, 0), "x\n");
    assert_eq!(text_after(&drifted, 1), "x\na\n");
    assert_eq!(drifted.plan.items[2].notes, ["changed: true"]);
}

#[test]
fn what_a_package_may_bring_is_deferred_only_where_nothing_can_know() {
    let kinds = |edit| [("r", Kind::Install("foo")), ("r", edit)];
    let deferred = planned(&kinds(Kind::Append(FOO, "a")), host(&[]));
    let Outcome::Deferred { wait, objects } = outcome(&deferred, 1) else {
        panic!("{:?}", outcome(&deferred, 1))
    };
    assert_eq!(wait.item, "r/0");
    assert_eq!(wait.reason, "installing foo may bring /etc/foo");
    assert_eq!(objects, &[path(FOO)]);
    let there = planned(&kinds(Kind::Append(FOO, "a")), host(&[(FOO, "x\n")]));
    assert_eq!(text_after(&there, 1), "x\na\n");
    let home = planned(&kinds(Kind::Append("/root/.profile", "a")), host(&[]));
    assert_eq!(text_after(&home, 1), "a\n", "no package ships files in /root");
    let whole = planned(&kinds(Kind::Write(FOO, "w")), host(&[]));
    assert_eq!(text_after(&whole, 1), "w");
}

#[test]
fn a_package_then_its_conffile_then_an_edit_of_it_in_one_run() {
    let kinds = [("r", Kind::Install("foo")), ("r", Kind::Write(FOO, "w\n")), ("r", Kind::Append(FOO, "a"))];
    let folded = planned(&kinds, host(&[]));
    assert_eq!(text_after(&folded, 2), "w\na\n");
    assert!(folded.plan.items[0].changes()[0].opaque);
}

#[test]
fn a_command_that_may_make_a_file_defers_an_edit_of_it() {
    for makes in [Kind::Makes(FOO), Kind::MakesLater(FOO)] {
        let folded = planned(&[("r", makes), ("r", Kind::Append(FOO, "a"))], host(&[]));
        let Outcome::Deferred { wait, .. } = outcome(&folded, 1) else { panic!("{:?}", outcome(&folded, 1)) };
        assert_eq!(wait.reason, "`r/0` may make /etc/foo");
        assert_eq!(folded.plan.items[0].claims.len(), 1, "the promise is no claim");
    }
}

#[test]
fn what_cannot_be_looked_at_waits_for_a_change_of_a_directory_above_it() {
    let below = "/home/ops/.kube/config";
    let mut known = host(&[]);
    known.learn(Probe::Object(path(below)), Answer::Failed(".kube belongs to daemon".to_owned()));
    let kinds = [("r", Kind::Write("/home/ops/.kube", "w")), ("r", Kind::Append(below, "a"))];
    let folded = planned(&kinds, known.clone());
    let Outcome::Deferred { wait, .. } = outcome(&folded, 1) else { panic!("{:?}", outcome(&folded, 1)) };
    assert_eq!(wait.item, "r/0");
    assert!(wait.reason.ends_with(".kube belongs to daemon"), "{}", wait.reason);
    let alone = planned(&[("r", Kind::Append(below, "a"))], known);
    assert!(matches!(outcome(&alone, 0), Outcome::Failed(_)), "{:?}", outcome(&alone, 0));
}

#[test]
fn what_others_will_bring_is_waited_for() {
    let mut known = host(&[]);
    let reason = "h3 joins the cluster in this run".to_owned();
    known.expect(path(FOO), Wait { item: String::new(), reason: reason.clone() });
    let folded = planned(&[("r", Kind::Append(FOO, "a")), ("s", Kind::Append("/etc/bar", "a"))], known);
    let Outcome::Deferred { wait, .. } = outcome(&folded, 0) else { panic!("{:?}", outcome(&folded, 0)) };
    assert_eq!(wait.reason, reason);
    assert!(matches!(outcome(&folded, 1), Outcome::Changed(_)), "{:?}", outcome(&folded, 1));
}

#[test]
fn what_follows_from_an_object_waits_for_the_item_that_changes_it() {
    let kinds = [
        ("r", Kind::Follows(FOO)),
        ("r", Kind::Write(FOO, "w")),
        ("r", Kind::Follows(FOO)),
        ("r", Kind::Follows("/b")),
    ];
    let folded = planned(&kinds, host(&[(FOO, "x")]));
    assert!(matches!(outcome(&folded, 0), Outcome::Unchanged));
    let Outcome::Deferred { wait, .. } = outcome(&folded, 2) else { panic!("{:?}", outcome(&folded, 2)) };
    assert_eq!(wait.reason, "`r/1` changes it first");
    assert!(matches!(outcome(&folded, 3), Outcome::Unchanged));
    let same = planned(&kinds, host(&[(FOO, "w")]));
    assert!(same.plan.is_empty(), "{:?}", same.plan.items);
}

#[test]
fn an_unknown_output_defers_what_uses_it_and_nothing_else() {
    let after = planned(
        &[("r", Kind::Write(FOO, "w")), ("r", Kind::Ask("q")), ("r", Kind::Needs("answer"))],
        host(&[]),
    );
    assert!(matches!(outcome(&after, 1), Outcome::Deferred { .. }));
    let Outcome::Deferred { wait, .. } = outcome(&after, 2) else { panic!("{:?}", outcome(&after, 2)) };
    assert_eq!((wait.item.as_str(), wait.reason.as_str()), ("r/1", "answer is not known yet"));
    let before = planned(&[("r", Kind::Ask("q")), ("r", Kind::Needs("answer"))], host(&[]));
    assert_eq!(before.outputs[&("r".to_owned(), "answer".to_owned())].value, "said");
    assert!(matches!(outcome(&before, 1), Outcome::Skipped(_)));
}

#[test]
fn a_wrong_item_stops_its_role_and_the_roles_after_it_only() {
    let kinds = [
        ("first", Kind::Wrong),
        ("first", Kind::Write("/a", "x")),
        ("then", Kind::Write("/b", "x")),
        ("other", Kind::Write("/c", "x")),
    ];
    let folded = planned(&kinds, host(&[]));
    assert!(matches!(outcome(&folded, 1), Outcome::Failed(_)));
    assert!(matches!(outcome(&folded, 2), Outcome::Failed(_)));
    assert!(matches!(outcome(&folded, 3), Outcome::Changed(_)));
}

#[test]
fn two_owners_are_found_without_a_host() {
    let items = Items::new(&[("first", Kind::Write(FOO, "a")), ("other", Kind::Write(FOO, "b"))]);
    let folded = fold("h", &items, &Knowledge::default(), &History::default());
    assert_eq!(folded.conflicts.len(), 1);
    assert_eq!(folded.conflicts[0].items, (0, 1));
    assert_eq!(folded.conflicts[0].object, path(FOO));
}

#[test]
fn what_is_over_is_not_planned_again_but_counts_as_changed() {
    let items = Items::new(&[("r", Kind::Write(FOO, "w")), ("r", Kind::Named("0")), ("r", Kind::Ask("q"))]);
    let mut known = host(&[(FOO, "w")]);
    known.learn(
        Probe::run("q"),
        Answer::Run(converge_resource::RunAnswer { status: 0, stdout: String::new(), stderr: String::new() }),
    );
    let mut history = History::default();
    history.changed.insert("r/0".to_owned());
    let folded = fold("h", &items, &known, &history);
    assert_eq!(folded.plan.items[1].notes, ["changed: true"]);
    assert!(folded.plan.is_empty());
}

#[test]
fn a_unit_comes_with_its_file() {
    let unit = "/etc/systemd/system/a.service";
    let mut known = host(&[]);
    let object = ObjectId::new("unit", "a.service");
    known.learn(Probe::Object(object.clone()), Answer::Object(Observation::new(State::absent(), None)));
    let folded =
        planned(&[("r", Kind::Write(unit, "[Install]\nWantedBy=x.target\n")), ("r", Kind::Start)], known);
    let change = &folded.plan.items[1].changes()[0].change;
    assert_eq!(change.from.line(), "unit disabled inactive -");
    assert_eq!(change.to.line(), "unit disabled active -");
}

/// The record of a unit names the inputs as its last restart finds them, so the next run has nothing to restart for.
#[test]
fn inputs_of_a_unit_that_a_later_item_edits_count_as_the_restart_finds_them() {
    let items = [
        ("a", Kind::Append(FOO, "AA")),
        ("a", Kind::Restart("0")),
        ("b", Kind::Append(FOO, "BB")),
        ("b", Kind::Restart("2")),
    ];
    let inputs = |known: Knowledge| planned(&items, known).plan.items[3].notes.clone();
    let first = inputs(host(&[]));
    assert_eq!(first.len(), 2);
    assert_eq!(first, inputs(host(&[(FOO, "AA\nBB\n")])));
    assert_ne!(first, inputs(host(&[(FOO, "AA\nBB\nCC\n")])));
}

/// A path that another item of the run changes counts as changed for whoever names it.
#[test]
fn a_named_resource_changes_with_its_objects() {
    let items = [("r", Kind::Append(FOO, "x")), ("r", Kind::Append(FOO, "y")), ("r", Kind::Named("1"))];
    let folded = planned(&items, host(&[(FOO, "y\n")]));
    assert_eq!(folded.plan.items[2].notes, ["changed: true"]);
}

/// Nobody gives a file anything because its group gets another number.
#[test]
fn what_only_follows_is_determined_by_no_item() {
    let found = State::from_line("dir 755 old newg");
    let mut known = Knowledge::default();
    known.learn(Probe::Object(path("/srv/old")), Answer::Object(Observation::new(found.clone(), None)));
    let mut host = VirtualHost::new(&known);
    let object = ObjectId::new("group", "newg");
    let (from, to) = (State::from_line("group 4802"), State::from_line("group 4801"));
    host.set(object.clone(), to.clone());
    host.note_change("r/group", &[Change { object, from, to }]);
    assert_eq!(host.observed(&path("/srv/old")).unwrap().state.line(), "dir 755 old 4802");
    assert_eq!(host.determined("path"), []);
    host.settle(&path("/srv/old"), &found);
    assert_eq!(host.determined("path").len(), 1);
}
