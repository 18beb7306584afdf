//! Many new files as one piece of shell: what each costs on the host is one process, not twenty.

use super::{ItemSpec, Piece, Row};
use converge_resource::{encode_field, quote};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a file that goes with others. Its content is in the script, which the shell on the host holds in memory.
const LONGEST: usize = 4096;

/// Bytes of its name, to which that of a temporary file adds some.
const LONGEST_NAME: usize = 200;

/// A new file that can be made together with others like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Mode, owner and group as in its state. Those of one piece are the same.
    pub rights: String,
    /// The content.
    pub text: String,
}

/// The answer of a group about one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// Nothing of it was done: it is to come as an item of its own.
    Alone,
    /// It ended with this status and this output, to be read with [`ItemSpec::read`].
    Ended(i32, String),
}

impl ItemSpec {
    /// The new file that is all of this item, given the content that its step reads.
    pub fn new_file(&self, content: Option<&[u8]>) -> Option<NewFile> {
        let ([Row { change, .. }], [step], Some(content)) = (&*self.rows, &*self.steps, content) else {
            return None;
        };
        let plain = self.settings.is_empty()
            && self.window.is_empty()
            && self.way_back.is_none()
            && self.switch.is_none()
            && self.from_run.is_none()
            && !self.restarts
            && !self.fetched;
        let path = &change.object.key;
        let name = path.rsplit_once('/').map_or("", |(_, name)| name);
        let fits = content.len() <= LONGEST
            && !name.is_empty()
            && name.len() <= LONGEST_NAME
            && !path.contains('\n');
        if !plain
            || !fits
            || change.object.kind != "path"
            || change.from.line() != "absent"
            || step.stdin.is_none()
        {
            return None;
        }
        let words: Vec<&str> = change.to.line().split(' ').collect();
        let ["file", mode, owner, group, _, _] = *words else { return None };
        let text = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))?;
        Some(NewFile { rights: format!("{mode} {owner} {group}"), text: text.to_owned() })
    }
}

/// The piece that makes these files, whose rights are the same. All items have this token.
pub fn group_piece(token: &str, members: &[(&ItemSpec, &NewFile)]) -> Piece {
    let first = members.first();
    let run = first.map_or("", |(spec, _)| &spec.run);
    let rights = first.map_or("", |(_, file)| &file.rights);
    let mut script =
        format!("CV_RUN={} CV_TOKEN={} CV_FROM_RUN= CV_RIGHTS={}\n", quote(run), quote(token), quote(rights));
    let mut table = String::new();
    for (spec, file) in members {
        let item = encode_field(&spec.address);
        let flags = if spec.sensitive { "sensitive" } else { "-" };
        for Row { seq, change } in &spec.rows {
            let owner = spec.owns.iter().find(|(of, _)| of == seq);
            let role = owner.map_or_else(|| "-".to_owned(), |(_, role)| encode_field(role));
            let key = encode_field(&change.object.key);
            let (kind, from, to) = (&change.object.kind, change.from.line(), change.to.line());
            let _infallible = writeln!(table, "{seq}\t{kind}\t{key}\t{from}\t{to}\t{item}\t{flags}\t{role}");
            let _infallible = writeln!(script, "cv_content_{seq}={}", quote(&file.text));
        }
    }
    let _infallible = writeln!(script, "CV_ROWS={}\ncv_many </dev/null", quote(&table));
    let seconds = u64::try_from(members.len()).unwrap_or(u64::MAX).saturating_mul(10).saturating_add(60);
    Piece { script, stdin: None, timeout: seconds }
}

/// The answers of a group, by the number of each member's row. There is none for members that it did not come to.
pub fn group_said(token: &str, output: &[u8]) -> BTreeMap<u32, Member> {
    let text = String::from_utf8_lossy(output);
    let mark = format!("cv:{token}\t");
    let mut said = BTreeMap::new();
    let mut open = String::new();
    for line in text.lines() {
        let fields: Vec<&str> =
            line.strip_prefix(&mark).map(|told| told.split('\t').collect()).unwrap_or_default();
        match *fields {
            ["alone", seq] => {
                said.extend(seq.parse().ok().map(|seq| (seq, Member::Alone)));
            }
            ["member", _] => open.clear(),
            ["ended", seq, status] => {
                let ended = seq.parse().ok().zip(status.parse().ok());
                said.extend(
                    ended.map(|(seq, status)| (seq, Member::Ended(status, std::mem::take(&mut open)))),
                );
            }
            _ => {
                open.push_str(line);
                open.push('\n');
            }
        }
    }
    said
}
