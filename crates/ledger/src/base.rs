//! The base of what is managed, as a host keeps it, with the runs after it.

use crate::lines::is_by_lines;
use crate::managed::{Entry, ManagedObjects, fold};
use crate::record::RunReader;
use crate::{ForeignChange, MountLayer, OwnedObject, ProjectName, RunRecord, SavedGuard};
use converge_resource::{NodeRemoval, ObjectId, State, decode_field, encode_field};
use std::collections::BTreeSet;

/// The records of earlier runs on a host or a cluster, for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedRecords {
    /// In the order in which they came to be managed.
    pub things: Vec<OwnedObject>,
    /// The newest run, when it did not end.
    pub cut_off: Option<RunRecord>,
    /// True when some process holds the host's lock: that run may still be at work.
    pub busy: bool,
    /// The parts of the records that are not understood, and so are ignored.
    pub broken: Vec<String>,
    /// The base that the host is to keep in the place of its present one, if there is something to fold.
    pub base: Option<NewBase>,
}

impl OwnedRecords {
    /// The objects in force, of any project, that a sensitive item changed; a path also by its name behind the links that led to it.
    pub fn secrets(&self) -> BTreeSet<ObjectId> {
        let secret = self.things.iter().filter(|thing| thing.sensitive);
        secret.flat_map(|thing| [thing.object.clone()].into_iter().chain(thing.real_paths())).collect()
    }
}

/// A base for a host: its file `owned` with more runs folded in. It is of use only to a host that still has what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBase {
    /// The digest of the file that it was made from; `-` for none.
    pub of: String,
    /// The runs that were folded in, the oldest of those that the file does not hold.
    pub runs: Vec<String>,
    /// The text of the file.
    pub text: String,
}

/// Reads what a host reports of previous runs, as its functions print it, and folds it.
pub fn parse_owned(output: &str) -> OwnedRecords {
    let mut records = OwnedRecords::default();
    let (mut base, mut of, mut recorded) = (ManagedObjects::default(), "-", BTreeSet::new());
    let mut runs: Vec<RunReader> = Vec::new();
    for (n, line) in output.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        // The text of a line may hold what is secret.
        let odd = || format!("line {} of the record of what is managed is damaged and not considered", n + 1);
        match (fields.as_slice(), runs.last_mut()) {
            (["run", id], _) => runs.push(RunReader::new(id)),
            (fields, Some(run)) => run.read(fields),
            (["converge-managed" | "converge-owned", "1"], None) => {}
            (["busy", "yes"], None) => records.busy = true,
            (["broken", what], None) => records.broken.push(decode_field(what).unwrap_or_default()),
            (["recorded", id], None) => drop(recorded.insert(*id)),
            (["base", digest], None) => of = digest,
            (["folded", id], None) => drop(base.folded.insert((*id).to_owned())),
            ([word @ ("own" | "gone"), rest @ ..], None) => match entry(*word == "gone", rest) {
                Some(entry) => base.entries.push(entry),
                None => records.broken.push(odd()),
            },
            _ => records.broken.push(odd()),
        }
    }
    let runs: Vec<RunRecord> = runs.into_iter().map(RunReader::end_of_run).collect();
    records.broken.extend(runs.iter().filter_map(|r| r.broken.clone()));
    // A run that still grows is folded for this once only, and so are the runs after it.
    let (closed, open) = runs.split_at(runs.iter().position(|r| !r.closed).unwrap_or(runs.len()));
    let mut managed = fold(base, closed);
    managed.folded.retain(|id| recorded.contains(id.as_str()));
    managed.forget_gone(&|id| recorded.contains(id));
    if !closed.is_empty() {
        let runs = closed.iter().map(|r| r.id.clone()).collect();
        records.base = Some(NewBase { of: of.to_owned(), runs, text: base_text(&managed) });
    }
    let managed = fold(managed, open);
    // Objects of hosts go back whole, but for files that go back line by line.
    let whole = |thing: &OwnedObject| {
        let between = if is_by_lines(&thing.object) { thing.between.clone() } else { Vec::new() };
        OwnedObject { between, ..thing.clone() }
    };
    records.things = managed.present().map(whole).collect();
    records.cut_off = runs.into_iter().next_back().filter(|run| !run.closed);
    records
}

/// An object in a host's base, behind the word `own` or `gone`.
fn entry(gone: bool, fields: &[&str]) -> Option<Entry> {
    let [
        kind,
        key,
        playbook,
        inventory,
        roles,
        item,
        since,
        run,
        before,
        left,
        flags,
        no_snapshot,
        by,
        rest @ ..,
    ] = fields
    else {
        return None;
    };
    let text = |word: &str| decode_field(word);
    let flag = |name: &str| flags.split(',').any(|f| f == name);
    let thing = OwnedObject {
        object: ObjectId::new(kind, text(key)?),
        layer: match flags.split(',').find_map(|flag| flag.strip_prefix("layer=")) {
            Some(layer) => MountLayer::from_text(&text(layer)?),
            None => MountLayer::default(),
        },
        lies_in: Vec::new(),
        uid: None,
        heir_by: None,
        scope: ProjectName { playbook: text(playbook)?, inventory: text(inventory)? },
        roles: roles.split(',').map(text).collect::<Option<_>>()?,
        item: text(item)?,
        since: (*since).to_owned(),
        run: (*run).to_owned(),
        adopted_by: flags.split(',').find_map(|flag| flag.strip_prefix("adopted=")).map(str::to_owned),
        made_in: {
            let dirs = flags.split(',').filter_map(|flag| flag.strip_prefix("at="));
            dirs.map(text).collect::<Option<_>>()?
        },
        before: State::from_line(before),
        moved: flags.split(',').find_map(|flag| {
            let (by, before) = flag.strip_prefix("moved=")?.split_once(':')?;
            Some(ForeignChange { by: text(by)?, before: State::from_line(&text(before)?) })
        }),
        left: State::from_line(left),
        open: rest.get(2).map(|line| State::from_line(line)),
        between: {
            let pairs = flags.split(',').filter_map(|flag| flag.strip_prefix("between="));
            let pair = |text: &str| {
                let (left, found) = text.split_once(':')?;
                Some((State::from_line(&decode_field(left)?), State::from_line(&decode_field(found)?)))
            };
            pairs.map(pair).collect::<Option<_>>()?
        },
        sensitive: flag("sensitive"),
        by_product: flag("by"),
        no_snapshot: if *no_snapshot == "-" { None } else { Some(text(no_snapshot)?) },
        node_removal: match rest {
            [host, name, ..] if *host != "-" => Some(NodeRemoval { host: text(host)?, name: text(name)? }),
            _ => None,
        },
        guard: flags.split(',').find_map(|flag| {
            let (by, seconds) = flag.strip_prefix("guard=")?.split_once(':')?;
            Some(SavedGuard { by: by.to_owned(), seconds: seconds.parse().ok()? })
        }),
        // Objects of hosts have none.
        parts: Vec::new(),
    };
    Some(Entry { gone_by: gone.then(|| (*by).to_owned()), ..Entry::of(thing) })
}

/// The text of a host's base: `converge-owned 1`, a line `folded RUN` for each recorded run that it holds, then one line an object:
/// `own|gone KIND KEY PLAYBOOK INVENTORY ROLES ITEM SINCE RUN BEFORE LEFT FLAGS UNSAVED BY HOST NAME [OPEN]`. BEFORE is the state that was there
/// before it was managed, LEFT the one that runs left, RUN the run that first changed it (it keeps accounts), BY the run that gave it back, HOST
/// and NAME what the rollback needs besides BEFORE, OPEN the other end of a last change that was cut off. ROLES are joined by commas, the last first, and so
/// are FLAGS: `sensitive`, `by` (a by-product), `adopted=RUN`, `guard=WORD:SECONDS`, `moved=ITEM:STATE` ([`ForeignChange`]), `layer=LAYER` ([`MountLayer`]), `at=DIRECTORY` ([`OwnedObject::made_in`]),
/// `between=LEFT:FOUND` for each time others changed a file in between that goes back line by line (all these with every byte in octal).
fn base_text(managed: &ManagedObjects) -> String {
    let mut text = "converge-owned\t1\n".to_owned();
    for id in &managed.folded {
        text.push_str(&format!("folded\t{id}\n"));
    }
    for Entry { thing, gone_by, .. } in &managed.entries {
        let roles: Vec<String> = thing.roles.iter().map(|r| encode_field(r)).collect();
        let mut flags = if thing.sensitive { "sensitive" } else { "-" }.to_owned();
        if thing.by_product {
            flags.push_str(",by");
        }
        if let Some(run) = &thing.adopted_by {
            flags.push_str(&format!(",adopted={run}"));
        }
        if let Some(SavedGuard { by, seconds }) = &thing.guard {
            flags.push_str(&format!(",guard={by}:{seconds}"));
        }
        if let Some(ForeignChange { by, before }) = &thing.moved {
            flags.push_str(&format!(",moved={}:{}", octal(by), octal(before.line())));
        }
        if thing.layer != MountLayer::default() {
            flags.push_str(&format!(",layer={}", octal(&thing.layer.text())));
        }
        for dir in &thing.made_in {
            flags.push_str(&format!(",at={}", octal(dir)));
        }
        for (left, found) in thing.between.iter().filter(|_| is_by_lines(&thing.object)) {
            flags.push_str(&format!(",between={}:{}", octal(left.line()), octal(found.line())));
        }
        let way = thing.node_removal.as_ref();
        let line = [
            if gone_by.is_some() { "gone" } else { "own" }.to_owned(),
            thing.object.kind.clone(),
            encode_field(&thing.object.key),
            encode_field(&thing.scope.playbook),
            encode_field(&thing.scope.inventory),
            roles.join(","),
            encode_field(&thing.item),
            thing.since.clone(),
            thing.run.clone(),
            thing.before.line().to_owned(),
            thing.left.line().to_owned(),
            flags,
            thing.no_snapshot.as_ref().map_or_else(|| "-".to_owned(), |why| encode_field(why)),
            gone_by.clone().unwrap_or_else(|| "-".to_owned()),
            way.map_or_else(|| "-".to_owned(), |way| encode_field(&way.host)),
            way.map_or_else(|| "-".to_owned(), |way| encode_field(&way.name)),
        ];
        text.push_str(&line.join("\t"));
        if let Some(open) = &thing.open {
            text.push_str(&format!("\t{}", open.line()));
        }
        text.push('\n');
    }
    text
}

/// A text that holds neither a comma nor a colon; [`decode_field`] reads it.
fn octal(text: &str) -> String {
    text.bytes().map(|b| format!("\\0{b:03o}")).collect()
}
