//! One item on its way to a host and back: what is sent, and what the host says about it.

use crate::ItemResult;
use crate::apply::lane::{ClaimedObject, FACT, Lane, element_of, restarts};
use crate::revert::made_in::leads_elsewhere;
use bytes::Bytes;
use converge_host::records::{
    ItemSpec, OtherPlace, Piece, PlainFile, Reading, Row, StartedUnit, Switch, WindowRow, adopt_script,
    disown_script, joins,
};
use converge_planner::{Item, ItemGuard, ItemOrigin, Outcome};
use converge_resource::{BadState, Change, Digest, ObjectId, State};
use converge_ssh::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Lines of a failed item's output that are kept.
const TAIL: usize = 40;

/// The reason why an item is not begun: only what another version of this program has planned can have one of the last two.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// A copy of this kind must be here first.
    #[error("not begun: there is no {0} on this machine")]
    NoBackup(String),
    /// It changes an object of this kind.
    #[error("no object is called `{0}`")]
    NoObject(String),
    /// A state is not of its object.
    #[error(transparent)]
    State(#[from] BadState),
}

/// An item that is being worked on.
#[derive(Clone)]
pub(crate) struct Work {
    pub item: Item,
    spec: Arc<ItemSpec>,
    pieces: Arc<Vec<(Piece, Option<Bytes>)>>,
}

/// The parsed answer of the host to one item.
pub(crate) struct ItemReading {
    /// Its result; `None` when it was not begun and the host must be looked at again.
    pub result: Option<ItemResult>,
    /// The objects' states after it.
    pub after: Vec<(ObjectId, State)>,
    /// Watched objects before and after foreign code.
    pub window: Option<(BTreeMap<ObjectId, State>, BTreeMap<ObjectId, State>)>,
    /// Remarks for people, one line each.
    pub notes: Vec<String>,
    /// The result names paths alone, nothing of a content or a state: it is no secret.
    pub names_paths: bool,
}

impl Work {
    /// Prepares an item. `sequence` numbers the journal's rows.
    pub fn new(item: &Item, lane: &Lane, run: &str, sequence: &mut u32) -> Result<Self, WorkError> {
        Self::given(item, lane, run, sequence, None)
    }

    /// The same for an item whose first step reads what another host has said.
    pub fn given(
        item: &Item,
        lane: &Lane,
        run: &str,
        sequence: &mut u32,
        reply: Option<Bytes>,
    ) -> Result<Self, WorkError> {
        if let Some(backup) = item.backup.as_ref().filter(|_| !lane.is_backed_up(item)) {
            return Err(WorkError::NoBackup(backup.what.clone()));
        }
        let mut number = || {
            *sequence = sequence.saturating_add(1);
            *sequence
        };
        let mut spec = ItemSpec {
            run: run.to_owned(),
            token: uuid::Uuid::now_v7().simple().to_string(),
            address: item.address.clone(),
            sensitive: item.sensitive,
            settings: item.settings.clone(),
            node_removal: item.node_removal.clone(),
            ..ItemSpec::default()
        };
        if let Some(piece) = records(item, run) {
            return Ok(Self {
                item: item.clone(),
                spec: Arc::new(spec),
                pieces: Arc::new(vec![(piece, None)]),
            });
        }
        let changes: Vec<&Change> = item.changes().iter().map(|c| &c.change).collect();
        spec.rows = changes.iter().map(|c| Row { seq: number(), change: (*c).clone() }).collect();
        spec.steps = steps(&changes)?;
        spec.fetched = reply.is_some();
        spec.switch = item.guard.map(|ItemGuard { guard, seconds }| Switch {
            guard: guard.word().to_owned(),
            window: seconds,
            units: guard.units(),
        });
        // An item that restores an original state manages nothing.
        spec.restarts = restarts(item);
        if item.origin == ItemOrigin::Declared && !spec.restarts {
            let own = spec.rows.iter().filter(|r| item.claims.contains(&r.change.object));
            spec.owns = own.map(|r| (r.seq, item.role.clone())).collect();
        }
        if item.changes().iter().any(|c| c.opaque) {
            spec.window = window(item, lane, number);
        }
        let content =
            |digest: &Digest| lane.contents().get(digest).map(|c| Bytes::copy_from_slice(c.bytes()));
        let pieces = spec.pieces();
        let mut pieces: Vec<(Piece, Option<Bytes>)> =
            pieces.into_iter().map(|p| (p.clone(), p.stdin.as_ref().and_then(content))).collect();
        if let (Some(reply), Some((_, input))) = (reply, pieces.last_mut()) {
            *input = Some(reply);
        }
        Ok(Self { item: item.clone(), spec: Arc::new(spec), pieces: Arc::new(pieces) })
    }

    /// The shell's items; each needs the one before it.
    pub fn items(&self, needs: Vec<u32>, next: &mut u32) -> Vec<converge_ssh::ShellItem> {
        let mut needs = needs;
        let mut items = Vec::new();
        for (piece, content) in self.pieces.iter() {
            let item = converge_ssh::ShellItem {
                needs: std::mem::take(&mut needs),
                payload: content.clone(),
                timeout: Some(Duration::from_secs(piece.timeout)),
                ..converge_ssh::ShellItem::new(*next, piece.script.clone())
            };
            needs = vec![*next];
            *next = next.saturating_add(1);
            items.push(item);
        }
        items
    }

    /// The plain file that is all of it, if it can be made, changed or removed together with others.
    pub fn plain_file(&self) -> Option<PlainFile> {
        let [(_, content)] = &**self.pieces else { return None };
        if self.item.guard.is_some() { None } else { self.spec.plain_file(content.as_deref()) }
    }

    /// The unit, if its start is all of the item.
    pub fn started_unit(&self) -> Option<StartedUnit> {
        let [(_, content)] = &**self.pieces else { return None };
        let declared = self.item.guard.is_none() && self.item.origin == ItemOrigin::Declared;
        if declared { self.spec.started_unit(content.as_deref()) } else { None }
    }

    /// Whether both are elements of one resource.
    pub fn is_element_beside(&self, other: &Self) -> bool {
        let (own, others) = (&self.item.address, &other.item.address);
        let list = element_of(own);
        list != own && list == element_of(others)
    }

    /// Whether it may go into one transaction of packages with these, which stand just before it.
    pub fn joins(&self, before: &[&Self]) -> bool {
        let before: Vec<&ItemSpec> = before.iter().map(|work| work.spec()).collect();
        // Of a rollback they are one item.
        self.item.guard.is_none() && self.item.origin == ItemOrigin::Declared && joins(&before, &self.spec)
    }

    /// The same work as one of a group, which is known by this token.
    pub fn of_group(mut self, token: &str) -> Self {
        Arc::make_mut(&mut self.spec).token = token.to_owned();
        self
    }

    pub fn spec(&self) -> &ItemSpec {
        &self.spec
    }

    /// Whether the host looks for facts that it moves.
    pub fn watches_facts(&self) -> bool {
        self.spec.window.iter().any(|row| row.object.kind == FACT)
    }

    /// The script that ends an item which has restarted the host, in the session after it.
    pub fn after_restart(&self, seconds: u64) -> converge_ssh::ShellItem {
        let piece = self.spec.after_restart(seconds);
        let timeout = Some(Duration::from_secs(piece.timeout));
        converge_ssh::ShellItem { timeout, ..converge_ssh::ShellItem::new(1, piece.script) }
    }

    /// Reads the end of the item.
    pub fn read(&self, status: Status, output: &[u8]) -> ItemReading {
        let Status::Exited(code) = status else {
            let message = "timed out and was stopped on the host".to_owned();
            return self.failed(message, &String::from_utf8_lossy(output));
        };
        let run = self.spec.read(code, output);
        let what = |rows: &[(ObjectId, State)]| {
            let reply: Vec<String> = rows.iter().map(|(object, state)| self.moved(object, state)).collect();
            reply.join("; ")
        };
        let result = match &run.reading {
            Reading::Done => Some(ItemResult::Changed),
            Reading::LookAgain => None,
            Reading::Refused(rows) if rows.is_empty() => {
                Some(ItemResult::Refused { message: tail(&run.output, 3).replace('\n', "; ") })
            }
            Reading::Refused(rows) => Some(ItemResult::Refused { message: what(rows) }),
            Reading::Elsewhere(rows) => Some(ItemResult::Refused { message: elsewhere(rows) }),
            Reading::NotSaved(why) => Some(ItemResult::Failed {
                message: format!("the state before could not be saved, so nothing was changed: {why}"),
                output: String::new(),
            }),
            Reading::NotRecorded => Some(ItemResult::Failed {
                message: "changed, but not recorded: /var/lib/converge cannot be written (is the disk full, or mounted read-only?); the next plan reads the state again".to_owned(),
                output: String::new(),
            }),
            Reading::Failed => {
                let last = run.output.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no output");
                Some(ItemResult::Failed { message: last.trim().to_owned(), output: tail(&run.output, TAIL) })
            }
            Reading::Off(rows) => Some(ItemResult::Failed {
                message: format!("every step succeeded, but the result differs from the plan: {}", self.off(rows)),
                output: tail(&run.output, TAIL),
            }),
            Reading::Broken(code) => Some(ItemResult::Failed {
                message: format!("a step failed with exit status {code}"),
                output: tail(&run.output, TAIL),
            }),
        };
        let window = (!run.window.is_empty()).then(|| {
            let mut before = BTreeMap::new();
            let mut after = BTreeMap::new();
            for (object, (was, is)) in run.window {
                before.insert(object.clone(), was);
                after.insert(object, is);
            }
            (before, after)
        });
        let no_snapshot = run.no_snapshot.iter();
        let lost =
            no_snapshot.map(|(object, why)| format!("{object}: the state before was not saved: {why}"));
        let notes = lost.chain(run.notes).collect();
        let names_paths = matches!(run.reading, Reading::Elsewhere(_));
        ItemReading { result, after: run.after, window, notes, names_paths }
    }

    fn failed(&self, message: String, output: &str) -> ItemReading {
        let output = tail(output, TAIL);
        let result = Some(ItemResult::Failed { message, output });
        ItemReading { result, after: Vec::new(), window: None, notes: Vec::new(), names_paths: false }
    }

    fn moved(&self, object: &ObjectId, found: &State) -> String {
        let row = self.spec.rows.iter().find(|r| r.change.object == *object);
        let planned = row.map_or("?", |r| r.change.from.line());
        format!("{object} was planned as `{planned}` and {}", is(found))
    }

    fn off(&self, rows: &[(ObjectId, State)]) -> String {
        let wanted = |object: &ObjectId| {
            self.spec.rows.iter().find(|r| r.change.object == *object).map_or("?", |r| r.change.to.line())
        };
        let reply: Vec<String> = rows
            .iter()
            .map(|(object, found)| format!("{object} should be `{}` and {}", wanted(object), is(found)))
            .collect();
        reply.join("; ")
    }

    /// The part of complete lines of output that users see: all but the lines of the protocol.
    pub fn shown(&self, lines: &[u8]) -> String {
        let mark = format!("cv:{}\t", self.spec.token);
        let text = String::from_utf8_lossy(lines);
        let own = text.lines().map(|l| l.split_once(&mark).map_or(l, |(before, _)| before));
        let own: Vec<&str> = own.filter(|l| !l.is_empty()).collect();
        own.join("\n")
    }

    /// The same result without what a sensitive item said; one that names paths alone stays.
    pub fn hide(&self, result: ItemResult, names_paths: bool) -> ItemResult {
        if !self.item.sensitive || names_paths {
            return result;
        }
        match result {
            ItemResult::Failed { .. } => ItemResult::Failed {
                message: "failed; the output is sensitive and not shown".to_owned(),
                output: String::new(),
            },
            ItemResult::Refused { .. } => ItemResult::Refused {
                message: "the state on the host differs from the planned one (sensitive, not shown)"
                    .to_owned(),
            },
            other => other,
        }
    }
}

/// All steps of an item: its changes by kind of object, in the order in which the kinds first come.
fn steps(changes: &[&Change]) -> Result<Vec<converge_resource::Step>, WorkError> {
    let mut kinds: Vec<&str> = Vec::new();
    for change in changes {
        if !kinds.contains(&change.object.kind.as_str()) {
            kinds.push(&change.object.kind);
        }
    }
    let mut steps = Vec::new();
    for kind in kinds {
        let object = converge_objects::object(kind).ok_or_else(|| WorkError::NoObject(kind.to_owned()))?;
        let own: Vec<&Change> = changes.iter().filter(|c| c.object.kind == kind).copied().collect();
        steps.extend(object.steps(&own)?);
    }
    Ok(steps)
}

/// The reason why objects are not reverted whose paths lead to another place.
fn elsewhere(rows: &[OtherPlace]) -> String {
    let why = |row: &OtherPlace| {
        let now = row.now.as_deref().unwrap_or("nothing");
        format!("{}: {}", row.object, leads_elsewhere(&row.made_in, now))
    };
    rows.iter().map(why).collect::<Vec<_>>().join("; ")
}

/// The end of a sentence: what the host found.
fn is(found: &State) -> String {
    found.unread().map_or_else(|| format!("is `{found}`"), |why| format!("cannot be read: {why}"))
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all.get(from..).unwrap_or_default().join("\n")
}

/// The records that an item writes which changes nothing else.
fn records(item: &Item, run: &str) -> Option<Piece> {
    let script: Vec<String> = match &item.outcome {
        Outcome::Adopt(changes) => changes.iter().map(|c| adopt_script(&c.object, &c.to)).collect(),
        Outcome::Forget(changes) => changes.iter().map(|c| disown_script(&c.object)).collect(),
        _ => return None,
    };
    let script = format!("CV_RUN={}; {}", converge_resource::quote(run), script.join(" && "));
    Some(Piece { script, stdin: None, timeout: 60 })
}

/// The opaque window of an item: the objects that other items claim and the facts that later ones read, which the host compares around its foreign code.
fn window(item: &Item, lane: &Lane, mut number: impl FnMut() -> u32) -> Vec<WindowRow> {
    let own = |object: &ObjectId| item.changes().iter().any(|c| c.change.object == *object);
    let watched = lane.watched_around(item).into_iter();
    let watched =
        watched.filter(|claimed| !own(&claimed.object) && !crate::controller::is_here(&claimed.object));
    let mut rows: Vec<WindowRow> = watched
        .map(|ClaimedObject { object, state, role }| WindowRow {
            seq: number(),
            object,
            expected: state,
            role,
        })
        .collect();
    // Of a fact, only whether it changes counts.
    rows.extend(lane.facts_read_after(item.id).into_iter().map(|fact| WindowRow {
        seq: number(),
        object: ObjectId::new(FACT, fact),
        expected: State::from_line("-"),
        role: item.role.clone(),
    }));
    rows
}
