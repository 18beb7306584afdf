//! Many plain files as one piece of shell: what each costs on the host is one process, not twenty.

use super::{ItemSpec, Piece, Row};
use converge_objects::PathState;
use converge_resource::{Change, quote};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a content that goes with others. It is in the script, which the shell on the host holds in memory.
const LONGEST: usize = 4096;

/// Bytes of a content that the host saves, or has saved. It is read several times.
const LONGEST_SAVED: u64 = 64 << 10;

/// Bytes of a path: a program gets the paths of all files of a piece as its arguments.
const LONGEST_PATH: usize = 1000;

/// Files of one piece. See `LONGEST_PATH`.
pub const MOST_FILES: usize = 500;

/// Bytes of a file's name, to which that of a temporary file adds some.
const LONGEST_NAME: usize = 200;

/// A plain file that can be made, changed or removed together with others like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainFile {
    /// The content that is sent; `None` where there is none, or where the host has saved it.
    pub text: Option<String>,
    /// In a rollback: the run whose saved attributes the file may need. That of one piece is the same.
    pub from_run: String,
    /// It is a directory, which is made. In a piece these come first: a file may lie in one of them.
    pub is_directory: bool,
}

/// The answer of a group about one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAnswer {
    /// Nothing of it was done: it is to come as an item of its own.
    Alone,
    /// It ended with this status and this output, to be read with [`ItemSpec::read`].
    Ended(i32, String),
}

impl ItemSpec {
    /// The plain file or the directory that is all of this item, given the content that its step reads.
    pub fn plain_file(&self, content: Option<&[u8]>) -> Option<PlainFile> {
        let ([Row { change, .. }], [_]) = (&*self.rows, &*self.steps) else { return None };
        let is_alone = self.window.is_empty() && self.from_run.is_none();
        if is_alone && self.is_simple() { self.plain_change(change, content) } else { None }
    }

    /// Whether nothing about it needs an item of its own: no guard, no answer of another host, no restart.
    pub(super) fn is_simple(&self) -> bool {
        self.node_removal.is_none() && self.switch.is_none() && !self.restarts && !self.fetched
    }

    /// The plain file that is made, changed or removed by this change, one of the item's.
    pub(super) fn plain_change(&self, change: &Change, content: Option<&[u8]>) -> Option<PlainFile> {
        let path = &change.object.key;
        let name = path.rsplit_once('/').map_or("", |(_, name)| name);
        // awk gives some names of these folders a meaning of its own.
        let is_special = path.starts_with("/dev/") || path.starts_with("/inet");
        let is_name = !name.is_empty()
            && name.len() <= LONGEST_NAME
            && path.len() <= LONGEST_PATH
            && !path.contains(char::is_control);
        if !is_name || is_special || change.object.kind != "path" {
            return None;
        }
        let mut from_run = String::new();
        for (setting, value) in &self.settings {
            match setting.as_str() {
                "CV_FROM_RUN" => from_run.clone_from(value),
                // It counts only where others may write, and there nothing goes with others.
                "CV_KEEP" => {}
                _ => return None,
            }
        }
        let state = |state: &converge_resource::State| PathState::try_from(state.clone()).ok();
        let (from, to) = (state(&change.from)?, state(&change.to)?);
        if !matches!(from, PathState::Absent | PathState::File { size: Some(0..=LONGEST_SAVED), .. }) {
            return None;
        }
        let plain =
            |text: Option<String>| PlainFile { text, from_run: from_run.clone(), is_directory: false };
        match (from, to) {
            (PathState::File { .. }, PathState::Absent) => Some(plain(None)),
            // Only owner and mode change.
            (PathState::File { digest: a, .. }, PathState::File { digest: b, .. }) if a == b => {
                Some(plain(None))
            }
            (_, PathState::File { size: Some(size), .. }) => {
                let fits = |text: &&str| text.len() <= LONGEST && !text.contains('\0');
                let text = content.and_then(|content| std::str::from_utf8(content).ok()).filter(fits);
                // A rollback finds the content on the host.
                let saved = !from_run.is_empty() && size <= LONGEST_SAVED;
                (text.is_some() || saved).then(|| plain(text.map(str::to_owned)))
            }
            // Only root may write to it, so that paths in it may follow at once.
            (PathState::Absent, PathState::Dir { mode, owner, group })
                if mode & 0o22 == 0 && owner == "root" && group == "root" =>
            {
                Some(PlainFile { is_directory: true, ..plain(None) })
            }
            _ => None,
        }
    }
}

/// The piece that makes, changes or removes these files. All items have this token.
pub fn group_piece(token: &str, members: &[(&ItemSpec, &PlainFile)]) -> Piece {
    let first = members.first();
    let run = first.map_or("", |(spec, _)| &spec.run);
    let from_run = first.map_or("", |(_, file)| &file.from_run);
    let mut script =
        format!("CV_RUN={} CV_TOKEN={} CV_FROM_RUN={}\n", quote(run), quote(token), quote(from_run));
    let mut table = String::new();
    for (spec, file) in members {
        table.push_str(&spec.member_table());
        if let (Some(text), [Row { seq, .. }]) = (&file.text, &*spec.rows) {
            let _infallible = writeln!(script, "cv_content_{seq}={}", quote(text));
        }
    }
    let _infallible = writeln!(script, "CV_ROWS={}\ncv_many </dev/null", quote(&table));
    let seconds = u64::try_from(members.len()).unwrap_or(u64::MAX).saturating_mul(10).saturating_add(60);
    Piece { script, stdin: None, timeout: seconds }
}

/// The answers of a group, by the number of each member's row. There is none for members that it did not come to.
pub fn group_answers(token: &str, output: &[u8]) -> BTreeMap<u32, MemberAnswer> {
    let text = String::from_utf8_lossy(output);
    let mark = format!("cv:{token}\t");
    let mut reply = BTreeMap::new();
    let mut open = String::new();
    for line in text.lines() {
        let fields: Vec<&str> =
            line.strip_prefix(&mark).map(|reported| reported.split('\t').collect()).unwrap_or_default();
        match *fields {
            ["alone", seq] => {
                reply.extend(seq.parse().ok().map(|seq| (seq, MemberAnswer::Alone)));
            }
            ["phase", _] => {}
            ["member", _] => open.clear(),
            ["ended", seq, status] => {
                let ended = seq.parse().ok().zip(status.parse().ok());
                reply.extend(
                    ended.map(|(seq, status)| (seq, MemberAnswer::Ended(status, std::mem::take(&mut open)))),
                );
            }
            _ => {
                open.push_str(line);
                open.push('\n');
            }
        }
    }
    reply
}
