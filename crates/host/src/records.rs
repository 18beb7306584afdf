//! The records of a host: how they are written there, and how they are read here.
//!
//! They lie in [`ROOT`] on the host itself. All writing is done by shell functions that the session
//! reads when they are first used; this module builds the calls and reads what they print. `undo.sh` beside the records holds the same
//! functions, with their comments, and needs no `converge`.

mod group;
mod item;
mod lean;
mod parts;
mod together;
mod units;
pub use group::{MOST_FILES, MemberAnswer, PlainFile, group_answers, group_piece};
pub use item::{ItemRun, ItemSpec, OtherPlace, Piece, Reading, Row, Switch, WindowRow, adopt_script};
pub(crate) use parts::{KnownParts, Lesson};
pub use together::{joins, together_piece};
pub use units::{StartedUnit, units_piece};

use converge_executor::{RunEnd, RunMeta};
use converge_ledger::{Adoption, NewBase, ProjectName, Renaming};
use converge_resource::{Content, Digest, ObjectId, State, encode_field, quote};
use std::sync::LazyLock;

/// Where the records lie on a host.
pub const ROOT: &str = "/var/lib/converge";

/// Status of [`open_script`] when another run holds the host; it prints who.
pub const LOCKED: i32 = 75;

/// Status of [`open_script`] when the host cannot take records (no root, a foreign format, a full disk); it prints why.
pub const UNFIT: i32 = 76;

/// All shell functions of objects and records, as people read them, file by file.
fn texts() -> Vec<&'static str> {
    let runtime = [
        include_str!("../sh/records.sh"),
        include_str!("../sh/run.sh"),
        include_str!("../sh/item.sh"),
        include_str!("../sh/places.sh"),
        include_str!("../sh/save.sh"),
        include_str!("../sh/group.sh"),
        include_str!("../sh/together.sh"),
        include_str!("../sh/units.sh"),
        include_str!("../sh/owned.sh"),
        include_str!("../sh/switch.sh"),
        include_str!("../sh/answers.sh"),
    ];
    converge_objects::shell_texts().into_iter().chain(runtime).collect()
}

/// The same as one text.
fn readable_library() -> String {
    texts().join("\n")
}

/// All of it, as a session comes to be given it in a run; without the program for dnf where the host does not have that.
#[cfg(test)]
fn library(has_dnf: bool) -> String {
    let mut known = KnownParts::default();
    known.has_dnf = Some(has_dnf);
    known.lesson(std::iter::once("cv_see_$kind"), false).text
}

/// The text of `undo.sh`: constant for one version of this program.
pub fn undo_text() -> String {
    format!(
        "#!/bin/sh\n# Restores what a run of converge changed on this machine, without converge: sh undo.sh --help\n{}\n{}",
        readable_library(),
        [
            include_str!("../sh/act.sh"),
            include_str!("../sh/undo_rows.sh"),
            include_str!("../sh/undo_judge.sh"),
            include_str!("../sh/undo_sight.sh"),
            include_str!("../sh/undo_stays.sh"),
            include_str!("../sh/undo_window.sh"),
            include_str!("../sh/undo.sh")
        ]
        .join("\n")
    )
}

/// Takes the host's lock and begins a run. It must be evaluated in the session's own shell (a prelude), which holds
/// the lock until [`close_script`]. Statuses: 0, [`LOCKED`], [`UNFIT`]; what it prints is for people.
pub fn open_script(meta: &RunMeta) -> String {
    let mut text = vec![
        format!("time\t{}", meta.time),
        format!("operator\t{}", encode_field(&meta.operator)),
        format!("inventory\t{}", encode_field(&meta.inventory)),
        format!("playbook\t{}", encode_field(&meta.playbook)),
    ];
    text.push(meta.purpose.line());
    let ProjectName { playbook, inventory } = &meta.scope;
    text.push(format!("scope\t{}\t{}", encode_field(playbook), encode_field(inventory)));
    text.extend(meta.rolls_back.iter().map(|id| format!("undoes\t{id}")));
    text.extend(meta.planned.iter().map(|address| format!("planned\t{}", encode_field(address))));
    let arrived = meta.arrived.iter().flat_map(|arrived| {
        let found = |(seq, state): &(u32, State)| format!("{}\t{seq}\t{}", arrived.run, state.line());
        arrived.changes.iter().map(found)
    });
    let arrived: Vec<String> = arrived.collect();
    format!("cv_run_open {} {} {}", quote(&meta.id), quote(&text.join("\n")), quote(&arrived.join("\n")))
}

/// Gives the host a new base of what is managed. An item of the first stretch, after [`open_script`]: it is kept only if the host still has
/// what it was made from.
pub fn base_piece(run: &str, base: &NewBase) -> (Piece, Content) {
    let content = Content::new(base.text.clone().into_bytes());
    let runs: Vec<String> = base.runs.iter().map(|id| quote(id)).collect();
    let script = format!("CV_RUN={}; cv_base_put {} {}", quote(run), quote(&base.of), runs.join(" "));
    (Piece { script, stdin: Some(content.digest().clone()), timeout: 60 }, content)
}

/// Ends the run, drops what is too old, gives the lock back: in the session's own shell too.
pub fn close_script(run: &str, end: RunEnd) -> String {
    format!("CV_RUN={}; cv_run_close {}", quote(run), end.word())
}

/// Seconds without a sign of life of the controller after which a host ends its run.
pub const SILENCE: u64 = 45;

/// In a session of its own, which does not hold the lock: starts what ends the run's session when no [`beat_script`] with this token comes
/// for so many seconds. It does nothing where the run is not open.
pub fn watch_script(run: &str, token: &str, seconds: u64) -> String {
    let (run, token) = (quote(run), quote(token));
    let program = quote(include_str!("../sh/watchdog.sh"));
    // Without a terminal, input or output it stays when the session that starts it goes.
    format!(
        "r=${{CV_ROOT:-{ROOT}}}; [ -e \"$r/runs/\"{run}/alive/session ] || exit 0\n\
         printf '%s 0\\n' {token} >\"$r/runs/\"{run}/alive/beat || exit 1\n\
         w=; ! command -v setsid >/dev/null || w=setsid\n\
         $w sh -c {program} converge-watchdog \"$r\" {run} {token} {seconds} </dev/null >/dev/null 2>&1 3<&- 4<&- &\n"
    )
}

/// A sign of life of the controller: the `number` differs from the one before.
pub fn beat_script(run: &str, token: &str, number: u64) -> String {
    let (run, token) = (quote(run), quote(token));
    format!("printf '%s {number}\\n' {token} >\"${{CV_ROOT:-{ROOT}}}/runs/\"{run}/alive/beat")
}

/// In a new session: asks what the guarded change of this run can break, and confirms it. It fails, and says why, when something does
/// not answer as before, or when it is too late. It takes as long as the window lasts, at most.
pub fn confirm_script(run: &str) -> String {
    format!("CV_RUN={}; cv_switch_confirm", quote(run))
}

/// Has the automatic revert of this run act now, and waits for it; then as [`put_back_script`].
pub fn put_back_now_script(run: &str, seconds: u64, ends: u32) -> String {
    format!("cv_switch_ask; {}", put_back_script(run, seconds, ends))
}

/// Waits this many seconds until the switch of this run has acted; `ends` switches of it were over before. Statuses: 0 all is reverted, 1
/// not all, 2 it is not over, 3 none was pending, 4 nothing had been changed, 5 not yet (a revert that failed is tried again, or the records are gone: it
/// prints which), 6 it was confirmed.
pub fn put_back_script(run: &str, seconds: u64, ends: u32) -> String {
    format!("CV_RUN={}; cv_switch_wait {seconds} {ends}", quote(run))
}

/// [`undo_text`], made once for all hosts.
static UNDO: LazyLock<Content> = LazyLock::new(|| Content::new(undo_text().into_bytes()));

/// Fails where the host's `undo.sh` is not the one of this program: [`undo_piece`] puts it there. An item of the first stretch, after [`open_script`].
pub fn undo_question() -> Piece {
    Piece { script: format!("cv_undo_is {}", UNDO.digest()), stdin: None, timeout: 60 }
}

/// Puts `undo.sh` beside the records: some hundred kilobytes, for hosts that fail [`undo_question`].
pub fn undo_piece() -> (Piece, Content) {
    let content = UNDO.clone();
    let script = format!("cv_undo_install {}", content.digest());
    let piece = Piece { script, stdin: Some(content.digest().clone()), timeout: 60 };
    (piece, content)
}

/// The host goes on with a stretch after [`Reading::LookAgain`].
pub fn resume_script(run: &str) -> String {
    format!("CV_RUN={}; cv_resume", quote(run))
}

/// While this file exists the host starts no further item of the run.
pub fn stop_file(run: &str) -> String {
    format!("{ROOT}/runs/{run}/stop")
}

/// Where saved content of this digest lies.
pub fn blob_path(digest: &Digest) -> String {
    format!("{ROOT}/blobs/{digest}")
}

/// A prelude after which items tell the parts of their work as they come to them: lines `phase WORD` behind their token.
pub const TELL_PHASES: &str = "CV_PHASES=yes\n";

/// Prints all runs; read it with [`converge_ledger::parse_records`]. It changes nothing.
pub fn list_script() -> String {
    "cv_runs".to_owned()
}

/// Prints what is managed and what was cut off; read it with [`converge_ledger::parse_owned`]. It changes nothing.
pub fn owned_script() -> String {
    "cv_owned".to_owned()
}

/// Takes an object out of management, in the journal of the run that `CV_RUN` names and that holds the host's lock.
pub fn disown_script(object: &ObjectId) -> String {
    format!("cv_disown disown {} {}", object.kind, quote(&object.key))
}

/// The same, for rollbacks too.
pub(crate) fn forget_script(object: &ObjectId) -> String {
    format!("cv_disown forget {} {}", object.kind, quote(&object.key))
}

/// Keeps what an object that is to be adopted holds: its original state must be there when others have changed the object since. Of packages and accounts that is
/// in the state, or kept by the run that changes them.
pub(crate) fn adoption_save_script(adoption: &Adoption) -> Option<String> {
    let Adoption { object, state, .. } = adoption;
    let is_path = object.kind == "path";
    is_path.then(|| format!("cv_adoption_save {} {}", quote(&object.key), quote(state.line())))
}

/// Takes an object into management as it is, in that journal.
pub(crate) fn adoption_script(adoption: &Adoption) -> String {
    let Adoption { object, state, item, sensitive, .. } = adoption;
    let flags = if *sensitive { "sensitive" } else { "-" };
    let [key, state, item] = [&object.key, state.line(), item].map(quote);
    format!("cv_adoption {} {key} {state} {item} {flags}", object.kind)
}

/// Gives what earlier runs recorded under a name another one, in that journal.
pub(crate) fn rename_script(renaming: &Renaming) -> String {
    format!("cv_renaming {} {}", quote(&renaming.from), quote(&renaming.to))
}

#[cfg(test)]
mod tests;
