//! `authorized_key`

use crate::above::need_parent;
use crate::attrs::{Attrs, check_account};
use crate::body::file_state;
use crate::edit::Edit;
use crate::look::{Asks, ancestors, check_path, normal, parent, path, path_id, user, user_id};
use crate::names::Names;
use crate::presence::Presence;
use base64::Engine as _;
use converge_objects::path::within;
use converge_objects::{PathState, UserState};
use converge_resource::{Claim, Content, ObjectId, ParamError, Resource, State, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// Public keys that may log in as a user.
///
/// A key is known by its type and its data: options and comment of one that is there already are brought in line, other keys and
/// comments stay, unless `exclusive`. The directory `.ssh` is made with mode 0700 and the file with mode 0600, both the user's,
/// where they are missing.
///
/// The file is `~/.ssh/authorized_keys` of `/root` or `/home/USER`. Where the user's home is elsewhere, give `path`: which file a
/// resource manages must be known without asking the host.
///
/// With `StrictModes`, as usual, sshd passes over keys in a file that others than the user and root own or may write to, and so for each directory up to
/// the home. The plan names what it would refuse; a `file` or `directory` resource sets it right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthorizedKey {
    /// The user's name.
    user: String,
    /// A public key as `ssh-keygen` writes it, or a list of them.
    key: Names,
    /// Options of these keys, as `from="10.0.0.0/8",no-agent-forwarding`. Without it they have those written with the key.
    options: Option<String>,
    /// Whether the keys are there.
    #[serde(default)]
    state: Presence,
    /// These keys and no others.
    #[serde(default)]
    exclusive: bool,
    /// The file, where it is not the usual one.
    path: Option<String>,
}

/// A line of `authorized_keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    options: Option<String>,
    kind: String,
    data: String,
    comment: String,
}

/// The first word of a text, in which blanks between double quotes count as part of it, and the rest.
fn word(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => {
                let (first, rest) = text.split_at(at);
                return (first, rest.trim_start());
            }
            _ => {}
        }
    }
    (text, "")
}

fn is_type(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|p| word.starts_with(p))
}

impl Key {
    /// `None` for blank lines, comments and lines without a key.
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (first, rest) = word(line);
        let (options, kind, rest) = if is_type(first) {
            (None, first, rest)
        } else {
            let (kind, rest) = word(rest);
            (Some(first.to_owned()), kind, rest)
        };
        let (data, comment) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
        // RFC 4253 section 6.6: the data begins with the name of its type, behind its length in four bytes.
        let length = usize::try_from(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
        if !is_type(kind) || bytes.get(4..4usize.checked_add(length)?)? != kind.as_bytes() {
            return None;
        }
        Some(Self {
            options,
            kind: kind.to_owned(),
            data: data.to_owned(),
            comment: comment.trim().to_owned(),
        })
    }

    fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.data == other.data
    }

    fn line(&self) -> String {
        let options = self.options.as_ref().map(|o| format!("{o} ")).unwrap_or_default();
        let comment = if self.comment.is_empty() { String::new() } else { format!(" {}", self.comment) };
        format!("{options}{} {}{comment}\n", self.kind, self.data)
    }
}

impl AuthorizedKey {
    fn path(&self) -> String {
        self.path.clone().unwrap_or_else(|| format!("{}/.ssh/authorized_keys", usual_home(&self.user)))
    }

    fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        let one = self.key.0.len() == 1;
        self.key.0.iter().enumerate().flat_map(move |(n, text)| {
            let pointer = if one { "/key".to_owned() } else { format!("/key/{n}") };
            text.lines().filter(|l| !l.trim().is_empty()).map(move |l| (pointer.clone(), l))
        })
    }

    fn keys(&self) -> Vec<Key> {
        let keys = self.lines().filter_map(|(_, line)| Key::parse(line));
        keys.map(|key| Key { options: self.options.clone().or(key.options), ..key }).collect()
    }

    /// The text of the file as it is to be.
    fn edit(&self, text: &str) -> String {
        let wanted = self.keys();
        let present = self.state == Presence::Present;
        let mut written = vec![false; wanted.len()];
        let mut out = String::new();
        for raw in text.split_inclusive('\n') {
            let Some(found) = Key::parse(raw) else {
                out.push_str(raw);
                continue;
            };
            match wanted.iter().position(|k| k.same(&found)) {
                Some(n) if present => {
                    let (Some(key), Some(done)) = (wanted.get(n), written.get_mut(n)) else { continue };
                    if std::mem::replace(done, true) {
                        continue;
                    }
                    let comment = if key.comment.is_empty() { &found.comment } else { &key.comment };
                    let new = Key { comment: comment.clone(), ..key.clone() };
                    out.push_str(&if new == found { raw.to_owned() } else { new.line() });
                }
                Some(_) => {}
                None if self.exclusive => {}
                None => out.push_str(raw),
            }
        }
        for key in wanted.iter().zip(&written).filter(|(_, done)| present && !**done).map(|(k, _)| k) {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(&key.line());
        }
        out
    }

    /// The user's group and home.
    fn account(&self, view: &dyn View) -> Result<Option<(String, String)>, Stop> {
        match user(view, &self.user)? {
            UserState::User { group, home, .. } => Ok(Some((group, home))),
            UserState::Absent => match view.may_appear(&user_id(&self.user)) {
                Some(wait) => Err(Stop::Deferred(wait)),
                None if self.state == Presence::Absent => Ok(None),
                None => Err(Stop::invalid_help(
                    "/user",
                    format!("the user {} does not exist on this host", self.user),
                    format!(
                        "correct the name, or add a resource before this one: `user: {{name: {}}}`",
                        self.user
                    ),
                )),
            },
        }
    }

    /// The reasons for which sshd would refuse the keys (`StrictModes`): owners and modes of the file and of the directories
    /// above it, up to the home, if they exist.
    fn refused(&self, view: &dyn View, home: &str) -> Result<Vec<String>, Stop> {
        let target = normal(&self.path());
        let mut above = ancestors(&target);
        if within(&target, home) {
            above.retain(|dir| within(dir, home));
        }
        let mut asks = Asks::default();
        let mut found = Vec::new();
        for at in above.into_iter().chain([target]) {
            let Some(PathState::Dir { mode, owner, .. } | PathState::File { mode, owner, .. }) =
                asks.take(path(view, &at))?
            else {
                continue;
            };
            if owner != "root" && owner != self.user {
                found.push(format!("{at} belongs to {owner}"));
            } else if mode & 0o022 != 0 {
                found.push(format!("others may write to {at} (mode {mode:04o})"));
            }
        }
        asks.finish()?;
        let note = |why| format!("with StrictModes sshd refuses the keys of {}: {why}", self.user);
        Ok(found.into_iter().map(note).collect())
    }

    /// The directory of the file, where it is to be made.
    fn directory(&self, view: &dyn View, group: &str) -> Result<Vec<(ObjectId, State)>, Stop> {
        let dir = parent(&self.path());
        if !dir.ends_with("/.ssh") || path(view, &dir)? != PathState::Absent {
            return Ok(Vec::new());
        }
        need_parent(view, "/user", &dir)?;
        let state = PathState::Dir { mode: 0o700, owner: self.user.clone(), group: group.to_owned() };
        Ok(vec![(path_id(&dir), state.into())])
    }
}

fn usual_home(user: &str) -> String {
    if user == "root" { "/root".to_owned() } else { format!("/home/{user}") }
}

impl Resource for AuthorizedKey {
    const KIND: &'static str = "authorized_key";
    const EXAMPLE: &'static str = "\
- name: operations may log in
  authorized_key:
    user: root
    key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3V1hQ8nP0a2uYxq8QJmVd5pP0mT0h8v7c2d0nqk3Zb ops@example.org
    options: from=\"10.0.0.0/8\"
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_account("/user", &self.user, &mut errors);
        if let Some(path) = &self.path {
            check_path("/path", path, &mut errors);
        }
        for (pointer, line) in self.lines() {
            if Key::parse(line).is_none() {
                let shown: String = line.chars().take(40).collect();
                errors.push(ParamError::new(
                    &pointer,
                    format!("`{shown}` is not a public key"),
                    "write the whole line of the `.pub` file: type, data and comment",
                ));
            }
        }
        if self.lines().next().is_none() {
            errors.push(ParamError::new("/key", "there is no key", "write the line of the `.pub` file"));
        }
        // The first word up to a blank outside quotes is all that sshd takes for options.
        if let Some(options) = self.options.as_ref()
            && (options.is_empty()
                || options.contains(['\n', '\r'])
                || !word(options).1.is_empty()
                || word(options).0 != options
                || is_type(options))
        {
            errors.push(ParamError::new(
                "/options",
                format!("`{options}` is not a list of options"),
                "write them with commas and without blanks outside quotes: `no-pty,from=\"10.0.0.0/8\"`",
            ));
        }
        if self.exclusive && self.state == Presence::Absent {
            errors.push(ParamError::new(
                "/exclusive",
                "`exclusive` goes with keys that are there",
                "leave it out",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path());
        let content = if self.exclusive {
            Claim::exclusive(id.clone(), "content")
        } else {
            Claim::edit(id.clone(), "content")
        };
        if self.state == Presence::Absent {
            return vec![content];
        }
        let dir = path_id(&parent(&id.key));
        vec![Claim::shared(dir, "presence", "directory"), content, Claim::shared(id, "presence", "file")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let target = self.path();
        let account = self.account(view)?;
        if let Some((_, home)) = &account
            && self.path.is_none()
            && *home != usual_home(&self.user)
        {
            return Err(Stop::invalid_help(
                "/user",
                format!("the home of {} is {home}", self.user),
                format!("say where the keys are: `path: {home}/.ssh/authorized_keys`"),
            ));
        }
        let notes = match &account {
            Some((_, home)) if self.state == Presence::Present => self.refused(view, &normal(home))?,
            _ => Vec::new(),
        };
        let now = path(view, &target)?;
        let (PathState::Absent, Presence::Present, Some((group, _))) = (&now, self.state, &account) else {
            let frame = Edit {
                path: &target,
                create: false,
                removes: self.state == Presence::Absent,
                attrs: Attrs { mode: None, owner: None, group: None },
                culprit: "/key",
            };
            let wanted = frame.plan(view, &|text| Ok(self.edit(text)))?;
            return Ok(WantedStates { notes, ..wanted });
        };
        if let Some(wait) = view.may_appear(&path_id(&target)) {
            return Err(Stop::Deferred(wait));
        }
        let made = self.directory(view, group)?;
        if made.is_empty() {
            need_parent(view, "/path", &target)?;
        }
        let content = Content::new(self.edit("").into_bytes());
        let state = file_state(&content, (0o600, self.user.clone(), group.clone()));
        let mut wanted = WantedStates { targets: made, notes, ..WantedStates::default() }.with(content);
        wanted.targets.push((path_id(&target), state.into()));
        Ok(wanted)
    }
}

#[cfg(test)]
#[path = "authorized_key_tests.rs"]
mod tests;
