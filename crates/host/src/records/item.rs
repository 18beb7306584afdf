//! One planned item as pieces of shell, and what the host says about it.

use converge_resource::{
    Change, Digest, NodeRemoval, ObjectId, State, Step, decode_field, encode_field, quote,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A change with its number in the run's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Unique in the run on this host.
    pub seq: u32,
    /// The change.
    pub change: Change,
}

/// An object that a later item claims, watched while foreign code runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRow {
    /// Unique in the run on this host.
    pub seq: u32,
    /// The object.
    pub object: ObjectId,
    /// The state that later items are planned against.
    pub expected: State,
    /// The role whose item claims it, or reads it.
    pub role: String,
}

/// The automatic revert of a guarded item, unless a new session confirms it in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// The guard, whose services must answer: `ssh`, `network` or `runtime`.
    pub guard: String,
    /// Seconds from the item's first step to its end.
    pub window: u64,
    /// Units that may have to be restarted when it is reverted, if they run now.
    pub units: Vec<String>,
}

/// All that the host must know of one item.
#[derive(Clone, Debug, Default)]
pub struct ItemSpec {
    /// The run's ID.
    pub run: String,
    /// A random word: only lines marked with it are taken for the host's own.
    pub token: String,
    /// The item's address.
    pub address: String,
    /// True when its content is a secret.
    pub sensitive: bool,
    /// Its changes.
    pub rows: Vec<Row>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Shell variables that its steps read.
    pub settings: Vec<(String, String)>,
    /// For an opaque item: the objects that later items claim, without its own.
    pub window: Vec<WindowRow>,
    /// The role that manages these rows, by number: what they make is recorded as its own.
    pub owns: Vec<(u32, String)>,
    /// The data that a rollback of its rows needs besides their states.
    pub node_removal: Option<NodeRemoval>,
    /// Its one change restarts the host: the end of the item comes in another session, see [`ItemSpec::after_restart`].
    pub restarts: bool,
    /// Its first step reads what another host has said: the last piece's input is not by digest.
    pub fetched: bool,
    /// The automatic revert that is prepared before its first step.
    pub switch: Option<Switch>,
    /// In a rollback: the run that is rolled back, whose saved accounts the steps may need.
    pub from_run: Option<String>,
}

/// One thing to send: a script, and the content that it reads from its standard input. The pieces of an item run in
/// order; each needs the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Shell text that uses the functions of the shell library. It may end its shell.
    pub script: String,
    /// The input of its steps. Content that the host has saved need not be sent: then the input is empty.
    pub stdin: Option<Digest>,
    /// Seconds.
    pub timeout: u64,
}

impl ItemSpec {
    /// The pieces. The last one checks that every object is as planned, saves what the changes replace, runs the
    /// steps, and looks again; pieces before it only bring content.
    pub fn pieces(&self) -> Vec<Piece> {
        let contents: BTreeSet<&Digest> = self.steps.iter().filter_map(|s| s.stdin.as_ref()).collect();
        let direct = self.steps.iter().filter(|s| s.stdin.is_some()).count() <= 1;
        let run = quote(&self.run);
        let mut pieces = Vec::new();
        if !direct {
            pieces.extend(contents.iter().map(|digest| Piece {
                script: format!("CV_RUN={run}; cv_stage {digest}"),
                stdin: Some((*digest).clone()),
                timeout: 600,
            }));
        }
        let mut script = self.head();
        script.push_str("cv_item_begin </dev/null\n");
        if let Some(Switch { guard, window, units }) = &self.switch {
            let units: String = units.iter().map(|unit| format!(" {}", quote(unit))).collect();
            let arm = format!("cv_switch_arm {} {window}{units}", quote(guard));
            let _infallible = writeln!(script, "{arm} </dev/null || cv_item_failed 0 $?");
        }
        for (n, step) in self.steps.iter().enumerate() {
            let input = match &step.stdin {
                None if self.fetched && n == 0 => String::new(),
                None => " </dev/null".to_owned(),
                Some(_) if direct => String::new(),
                Some(digest) => format!(" <\"$CV_DIR/stage/{digest}\""),
            };
            let _infallible = writeln!(script, "(\n{}\n){input} || cv_item_failed {} $?", step.script, n + 1);
        }
        if !self.restarts {
            script.push_str("cv_item_end </dev/null\n");
        }
        pieces.push(Piece {
            script,
            stdin: if direct { contents.into_iter().next().cloned() } else { None },
            timeout: self.steps.iter().map(|s| s.timeout).fold(60, u64::saturating_add),
        });
        pieces
    }

    /// The end of an item that has restarted the host, in the session after it: waits for what the host must have, at most this many
    /// seconds, and looks as the end of every item does.
    pub fn after_restart(&self, seconds: u64) -> Piece {
        let mut script = self.head();
        let _infallible = writeln!(script, "CV_RESTART_LEFT={seconds}\ncv_run_dir");
        for Row { change, .. } in &self.rows {
            let (kind, key) = (&change.object.kind, quote(&change.object.key));
            let _infallible = writeln!(script, "(cv_back_{kind} {key}) </dev/null || cv_item_failed 1 $?");
        }
        script.push_str("cv_item_end </dev/null\n");
        Piece { script, stdin: None, timeout: seconds.saturating_add(60) }
    }

    /// The variables that the functions of the host read.
    fn head(&self) -> String {
        let run = quote(&self.run);
        let mut script = format!(
            "CV_RUN={run} CV_TOKEN={} CV_ITEM={} CV_FLAGS={} CV_FROM_RUN={}\n",
            quote(&self.token),
            quote(&encode_field(&self.address)),
            if self.sensitive { "sensitive" } else { "-" },
            quote(self.from_run.as_deref().unwrap_or_default()),
        );
        for (name, value) in self.settings.iter().filter(|(name, _)| is_name(name)) {
            let _infallible = writeln!(script, "{name}={}", quote(value));
        }
        let _infallible = writeln!(script, "CV_ROWS={}", quote(&self.table()));
        let _infallible = writeln!(script, "CV_WINDOW={}", quote(&self.window_table()));
        let _infallible = writeln!(script, "CV_REMARKS={}", quote(&self.remarks()));
        script
    }

    fn table(&self) -> String {
        self.rows.iter().fold(String::new(), |mut out, Row { seq, change }| {
            let (kind, key) = (&change.object.kind, encode_field(&change.object.key));
            let _infallible =
                writeln!(out, "{seq}\t{kind}\t{key}\t{}\t{}", change.from.line(), change.to.line());
            out
        })
    }

    /// Lines of the journal that belong to rows: whose they are, and what their rollback needs.
    fn remarks(&self) -> String {
        let owns = self.owns.iter().map(|(seq, role)| format!("owns\t{seq}\t{}", encode_field(role)));
        let back = |way: &NodeRemoval| format!("{}\t{}", encode_field(&way.host), encode_field(&way.name));
        let back = self.node_removal.as_ref().map(back);
        let backs = self.rows.iter().filter_map(|row| Some(format!("back\t{}\t{}", row.seq, back.as_ref()?)));
        let guard =
            self.switch.as_ref().map(|switch| format!("{}\t{}", encode_field(&switch.guard), switch.window));
        let guards =
            self.rows.iter().filter_map(|row| Some(format!("guard\t{}\t{}", row.seq, guard.as_ref()?)));
        owns.chain(backs).chain(guards).collect::<Vec<_>>().join("\n")
    }

    fn window_table(&self) -> String {
        self.window.iter().fold(String::new(), |mut out, WindowRow { seq, object, expected, .. }| {
            let key = encode_field(&object.key);
            let line = expected.line();
            let _infallible = writeln!(out, "{seq}\t{}\t{key}\t{line}\t{line}", object.kind);
            out
        })
    }

    /// Reads how it ended: the exit status of its last piece and all that its pieces printed.
    pub fn read(&self, status: i32, output: &[u8]) -> ItemRun {
        let text = String::from_utf8_lossy(output);
        let mark = format!("cv:{}\t", self.token);
        let objects: BTreeMap<String, &ObjectId> =
            self.rows.iter().map(|r| (r.seq.to_string(), &r.change.object)).collect();
        let mut out = ItemRun::default();
        let (mut refused, mut off, mut unsaveable) = (Vec::new(), Vec::new(), String::new());
        let mut elsewhere = Vec::new();
        let mut own = String::new();
        for line in text.lines() {
            // Output without a newline at its end may stand before the mark.
            let Some((before, reported)) = line.split_once(&mark) else {
                own.push_str(line);
                own.push('\n');
                continue;
            };
            if !before.is_empty() {
                own.push_str(before);
                own.push('\n');
            }
            let fields: Vec<&str> = reported.split('\t').collect();
            let object = |seq: &str| objects.get(seq).map(|o| (*o).clone());
            let plain = |word: &str| decode_field(word).unwrap_or_else(|| word.to_owned());
            match fields.as_slice() {
                ["now", seq, line] => out.after.extend(object(seq).map(|o| (o, State::from_line(line)))),
                ["off", seq, line] => {
                    out.after.extend(object(seq).map(|o| (o, State::from_line(line))));
                    off.extend(object(seq).map(|o| (o, State::from_line(line))));
                }
                ["elsewhere", seq, made_in, now] => elsewhere.extend(object(seq).map(|object| OtherPlace {
                    object,
                    made_in: plain(made_in),
                    now: Some(plain(now)).filter(|now| now != "-"),
                })),
                ["refused", seq, line] => refused.extend(object(seq).map(|o| (o, State::from_line(line)))),
                ["unsaved", seq, why] => out.no_snapshot.extend(object(seq).map(|o| (o, plain(why)))),
                ["unsaveable", _, why] => unsaveable = plain(why),
                ["window", kind, key, before, after] => {
                    let object = ObjectId::new(kind, plain(key));
                    out.window.insert(object, (State::from_line(before), State::from_line(after)));
                }
                ["note", text] => out.notes.push(plain(text)),
                ["step", n, _] => out.step = n.parse().ok(),
                _ => {}
            }
        }
        out.output = own;
        // An unreadable object has no state.
        out.after.retain(|(_, state)| !state.line().starts_with('!'));
        out.reading = match status {
            0 => Reading::Done,
            70 if !elsewhere.is_empty() => Reading::Elsewhere(elsewhere),
            70 => Reading::Refused(refused),
            71 => Reading::NotSaved(unsaveable),
            72 => Reading::Failed,
            73 => Reading::Off(off),
            74 => Reading::LookAgain,
            75 => Reading::NotRecorded,
            other => Reading::Broken(other),
        };
        out
    }
}

/// The result of an item on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemRun {
    /// The end.
    pub reading: Reading,
    /// The objects' states after it, as far as the host came to look.
    pub after: Vec<(ObjectId, State)>,
    /// Objects whose state before was not saved, and why.
    pub no_snapshot: Vec<(ObjectId, String)>,
    /// Watched objects just before and just after the steps.
    pub window: BTreeMap<ObjectId, (State, State)>,
    /// Remarks, such as a configuration file that was kept.
    pub notes: Vec<String>,
    /// The step that failed, from 1.
    pub step: Option<usize>,
    /// The output of the steps themselves.
    pub output: String,
}

/// An object whose path leads to another place than the one where a run changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherPlace {
    /// The object.
    pub object: ObjectId,
    /// The directory in which it was changed.
    pub made_in: String,
    /// The directory to which its path leads, where that can be said.
    pub now: Option<String>,
}

/// The end of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reading {
    /// As planned.
    #[default]
    Done,
    /// Nothing was changed: these objects are not in the state that was planned against (an unreadable one shows
    /// `! REASON`), or, with none, a step itself refused (another package transaction) and said why in the output.
    Refused(Vec<(ObjectId, State)>),
    /// Nothing was changed: the paths of these objects do not lead to where the changes were made that the item takes back.
    Elsewhere(Vec<OtherPlace>),
    /// Nothing was changed: the state before could not be saved, and why.
    NotSaved(String),
    /// The steps ran, and the journal could not say how they ended.
    NotRecorded,
    /// A step failed; its words are in the output.
    Failed,
    /// The steps succeeded, and these objects are not as planned.
    Off(Vec<(ObjectId, State)>),
    /// Not begun: foreign code of an earlier item changed what the rest was planned on. Look, plan, then
    /// [`super::resume_script`].
    LookAgain,
    /// Another exit status: it was killed.
    Broken(i32),
}

/// Writes a record though nothing changes: what a unit runs with, what a command has run for.
pub fn adopt_script(object: &ObjectId, state: &State) -> String {
    format!("cv_adopt_{} {} {}", object.kind, quote(&object.key), quote(state.line()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
