//! `apt_repository`

use crate::body::file_state;
use crate::kinds::download::{FETCH_TOOLS, check_url};
use crate::kinds::line::Presence;
use crate::look::{check_path, path, path_id, program_may_come, state};
use crate::names::Names;
use crate::openpgp::{OpenPgpError, dearmor, fingerprints};
use base64::Engine as _;
use converge_objects::{AptListsState, PathState};
use converge_resource::{
    Claim, Content, ObjectId, ParamError, Probe, Resource, SourceFile, State, Stop, View, Wait, WantedStates,
    quote,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A repository of packages for apt, with its key and its lists.
///
/// It is `/etc/apt/sources.list.d/NAME.sources`, which trusts one key file only (`Signed-By`). The key is given by its whole
/// fingerprint, and its bytes with `key`, `key_source` or `key_url`; one that is another, or that brings more keys along, is refused
/// before anything is changed. It becomes `/etc/apt/keyrings/NAME.gpg`. With `key_url` the host fetches it over https while the plan
/// is made, with curl or wget, unless a key file with these fingerprints is there already.
///
/// The package index of this repository, and of no other, is fetched with it, so that later resources find its packages. A package
/// resource that comes after it in the same run is deferred where a version is still to be chosen.
///
/// An entry for the same repository in another file (`.list`) is not looked for: remove it with `absent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AptRepository {
    /// A short name: letters, digits, `-`, `_` and `.`.
    name: String,
    /// One address or a list.
    #[serde(default)]
    uris: Names,
    /// One suite or a list: `bookworm`, or a path that ends with `/`, as `./`, for a repository without suites.
    #[serde(default)]
    suites: Names,
    /// The components: `main`. None where the suite is a path.
    #[serde(default)]
    components: Names,
    /// `deb`, `deb-src`, or both. Without it `deb`.
    #[serde(default)]
    types: Names,
    /// The architectures, as `amd64`. Without it those of the host.
    #[serde(default)]
    architectures: Names,
    /// The whole fingerprint of the key, 40 hexadecimal digits, or those of all keys in the file.
    #[serde(default)]
    fingerprint: Names,
    /// The key as text, with its armour.
    key: Option<String>,
    /// A key file under the role's `files/`, with or without armour.
    key_source: Option<SourceFile>,
    /// Where the host fetches the key: an `https://` address.
    key_url: Option<String>,
    /// A key file that is on the host, in place of a key of its own: `/usr/share/keyrings/debian-archive-keyring.gpg`.
    signed_by: Option<String>,
    /// Whether the repository is there. An absent one takes its key and its lists along.
    #[serde(default)]
    state: Presence,
}

fn lists_id(name: &str) -> ObjectId {
    ObjectId::new("apt_lists", name)
}

/// The read-only question for the key. It prints base64, so that every byte comes through.
fn key_probe(url: &str) -> Probe {
    let url = quote(url);
    Probe::run(format!(
        "if command -v curl >/dev/null; then out=$(cv_curl {url} -fsSL --proto =https --proto-redir =https --max-time 40 | head -c 262144 | base64)\n\
         elif command -v wget >/dev/null; then out=$(cv_wget {url} -q -T 30 -O - | head -c 262144 | base64)\n\
         else exit 69; fi\n[ -n \"$out\" ] && printf '%s\\n' \"$out\""
    ))
}

/// The reason why a key is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum KeyError {
    #[error(transparent)]
    Unreadable(#[from] OpenPgpError),
    #[error("it holds the key {0}, which is not declared")]
    Undeclared(String),
    #[error("it does not hold the key {0}")]
    Missing(String),
}

impl AptRepository {
    fn file(&self) -> String {
        format!("/etc/apt/sources.list.d/{}.sources", self.name)
    }

    fn keyring(&self) -> String {
        format!("/etc/apt/keyrings/{}.gpg", self.name)
    }

    /// The declared fingerprints as gpg prints them, without blanks.
    fn declared(&self) -> Vec<String> {
        let plain =
            |f: &String| f.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        let mut all: Vec<String> = self.fingerprint.0.iter().map(plain).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The content of the `.sources` file.
    fn text(&self) -> String {
        let signed_by = self.signed_by.clone().unwrap_or_else(|| self.keyring());
        let types = if self.types.0.is_empty() { "deb".to_owned() } else { self.types.0.join(" ") };
        let fields = [
            ("Types", types),
            ("URIs", self.uris.0.join(" ")),
            ("Suites", self.suites.0.join(" ")),
            ("Components", self.components.0.join(" ")),
            ("Architectures", self.architectures.0.join(" ")),
            ("Signed-By", signed_by),
        ];
        fields
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect()
    }

    /// The key as packets, when it is the declared one.
    fn checked(&self, bytes: &[u8]) -> Result<Vec<u8>, KeyError> {
        let packets = dearmor(bytes)?;
        let mut found = fingerprints(&packets)?;
        found.sort();
        let declared = self.declared();
        if found == declared {
            return Ok(packets);
        }
        Err(match found.iter().find(|f| !declared.contains(f)) {
            Some(other) => KeyError::Undeclared(other.clone()),
            None => {
                let missing = declared.iter().find(|d| !found.contains(d));
                KeyError::Missing(missing.cloned().unwrap_or_default())
            }
        })
    }

    /// Where the key is written in the parameters, and its bytes.
    fn given(&self) -> Option<(&'static str, &[u8])> {
        let text = self.key.as_ref().map(|k| ("/key", k.as_bytes()));
        text.or_else(|| self.key_source.as_ref().map(|s| ("/key_source", s.content.bytes())))
    }

    /// The key file's content as it is to be; `None` where the one that is there will do.
    fn key(&self, view: &dyn View, url: &str, now: &PathState) -> Result<Option<Content>, Stop> {
        if let PathState::File { digest, .. } = now {
            let content = view.content(&self.keyring(), digest)?;
            if self.checked(content.bytes()).is_ok() {
                return Ok(None);
            }
        }
        let answer = view.run(&key_probe(url))?;
        let deferred = |wait: Option<Wait>, reason: String| {
            wait.map(|mut wait| {
                wait.reason = format!("{reason}; {}", wait.reason);
                Stop::Deferred(wait)
            })
        };
        if answer.status == 69 {
            let reason = "this host has no curl and no wget to fetch the key with";
            return Err(deferred(program_may_come(view, &FETCH_TOOLS), reason.to_owned()).unwrap_or_else(|| {
                Stop::invalid_help(
                    "/key_url",
                    reason,
                    "add a resource before this one: `package: {name: curl}`, or give the key itself with `key_source`",
                )
            }));
        }
        if answer.status != 0 {
            let said = answer.stderr.trim().lines().last().unwrap_or("no answer").to_owned();
            let failed = || Stop::Failed(format!("the host cannot fetch the key from {url}: {said}"));
            // Any file may be a setting of the network, of a proxy or of trusted certificates.
            let reason = format!("the key cannot be fetched now ({said})");
            return Err(deferred(view.pending(), reason).unwrap_or_else(failed));
        }
        let text: String = answer.stdout.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|_| Stop::Failed("the fetched key did not come through".to_owned()))?;
        let packets = self.checked(&bytes).map_err(|e| {
            Stop::invalid_help(
                "/key_url",
                format!("what is at {url} is not the declared key: {e}"),
                "find out who changed it; correct `fingerprint` only when the publisher says so in another place",
            )
        })?;
        Ok(Some(Content::new(packets)))
    }

    fn absent(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut targets: Vec<(ObjectId, State)> = vec![(lists_id(&self.name), AptListsState::Absent.into())];
        for file in [self.file(), self.keyring()] {
            match path(view, &file)? {
                PathState::Dir { .. } | PathState::Other { .. } => {
                    return Err(Stop::invalid("/name", format!("{file} is there and is not a file")));
                }
                _ => targets.push((path_id(&file), PathState::Absent.into())),
            }
        }
        Ok(WantedStates { targets, ..WantedStates::default() })
    }
}

/// A file of root's with mode 0644, which apt's own user can read; one that is there keeps its owner and mode.
fn file_like(now: &PathState, content: &Content) -> Result<State, Stop> {
    let attrs = match now {
        PathState::File { mode, owner, group, .. } => (*mode | 0o444, owner.clone(), group.clone()),
        PathState::Absent | PathState::Link { .. } => (0o644, "root".to_owned(), "root".to_owned()),
        PathState::Dir { .. } | PathState::Other { .. } => {
            return Err(Stop::invalid("/name", "a file of this repository is there and is not a file"));
        }
    };
    Ok(file_state(content, attrs).into())
}

impl Resource for AptRepository {
    const KIND: &'static str = "apt_repository";
    const EXAMPLE: &'static str = "\
- name: packages of the container toolkit
  apt_repository:
    name: nvidia-container-toolkit
    uris: https://nvidia.github.io/libnvidia-container/stable/deb/amd64
    suites: /
    fingerprint: C95B 321B 61E8 8C18 09C4 F759 DDCA E044 F796 ECB0
    key_url: https://nvidia.github.io/libnvidia-container/gpgkey
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        // apt leaves out files with other names.
        if self.name.is_empty() || !self.name.bytes().all(good) || self.name.starts_with('.') {
            let help = "use letters, digits, `-`, `_` and `.`";
            errors.push(ParamError::new(
                "/name",
                format!("`{}` is not the name of a repository", self.name),
                help,
            ));
        }
        if self.state == Presence::Absent {
            return errors;
        }
        for uri in &self.uris.0 {
            check_url("/uris", uri, &["https", "http"], &mut errors);
        }
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        if self.uris.0.is_empty() {
            wrong("/uris", "the address is missing".to_owned(), "give `uris`");
        }
        let word = |w: &String| !w.is_empty() && w.bytes().all(|b| b.is_ascii_graphic());
        for (pointer, words) in [
            ("/suites", &self.suites),
            ("/components", &self.components),
            ("/architectures", &self.architectures),
        ] {
            if let Some(bad) = words.0.iter().find(|w| !word(w)) {
                wrong(pointer, format!("`{bad}` is not one word"), "write a list of words");
            }
        }
        if let Some(bad) = self.types.0.iter().find(|t| !["deb", "deb-src"].contains(&t.as_str())) {
            wrong("/types", format!("`{bad}` is no type of repository"), "write `deb` or `deb-src`");
        }
        let flat = self.suites.0.iter().filter(|s| s.ends_with('/')).count();
        if self.suites.0.is_empty() {
            wrong("/suites", "the suite is missing".to_owned(), "give the suite, as `bookworm`, or `./`");
        } else if flat > 0 && !self.components.0.is_empty() {
            wrong("/components", "a suite that is a path has no components".to_owned(), "leave them out");
        } else if flat == 0 && self.components.0.is_empty() {
            wrong("/components", "the components are missing".to_owned(), "give them, as `main`");
        }
        let declared = self.declared();
        for bad in declared.iter().filter(|f| f.len() != 40 || !f.bytes().all(|b| b.is_ascii_hexdigit())) {
            wrong(
                "/fingerprint",
                format!("`{bad}` is not a whole fingerprint"),
                "write all 40 digits, as `gpg --show-keys FILE` prints them: short ones can be forged",
            );
        }
        let keys =
            [self.key.is_some(), self.key_source.is_some(), self.key_url.is_some(), self.signed_by.is_some()];
        if keys.iter().filter(|k| **k).count() != 1 {
            wrong(
                "",
                "one thing says whose signature counts".to_owned(),
                "give one of `key`, `key_source`, `key_url` and `signed_by`",
            );
        }
        if self.signed_by.is_none() && declared.is_empty() {
            wrong(
                "/fingerprint",
                "the fingerprint of the key is missing".to_owned(),
                "`gpg --show-keys FILE` prints it",
            );
        }
        if self.signed_by.is_some() && !declared.is_empty() {
            wrong("/fingerprint", "a key file of the host is not checked".to_owned(), "leave it out");
        }
        if let Some(file) = &self.signed_by {
            check_path("/signed_by", file, &mut errors);
        }
        if let Some(url) = &self.key_url {
            check_url("/key_url", url, &["https"], &mut errors);
        }
        // An unread file of a role (a schema's example) has no bytes.
        if let Some((pointer, bytes)) = self.given().filter(|(p, b)| *p == "/key" || !b.is_empty())
            && let Err(error) = self.checked(bytes)
        {
            errors.push(ParamError::new(
                pointer,
                format!("this is not the declared key: {error}"),
                "`gpg --show-keys FILE` prints the fingerprints of a key file",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let file = path_id(&self.file());
        let lists = lists_id(&self.name);
        if self.state == Presence::Absent {
            return vec![
                Claim::shared(lists, "presence", "absent"),
                Claim::shared(file, "presence", "absent"),
                Claim::shared(path_id(&self.keyring()), "presence", "absent"),
            ];
        }
        let mut claims = Vec::new();
        if self.signed_by.is_none() {
            let keyring = path_id(&self.keyring());
            claims.push(Claim::shared(path_id("/etc/apt/keyrings"), "presence", "directory"));
            claims.push(Claim::shared(keyring.clone(), "presence", "file"));
            claims.push(Claim::exclusive(keyring, "content"));
        }
        claims.push(Claim::shared(file.clone(), "presence", "file"));
        claims.push(Claim::exclusive(file, "content"));
        claims.push(Claim::exclusive(lists, "presence"));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if self.state == Presence::Absent {
            return self.absent(view);
        }
        if path(view, "/etc/apt/sources.list.d")? == PathState::Absent {
            return Err(Stop::Failed(
                "this host has no apt: /etc/apt/sources.list.d is not there".to_owned(),
            ));
        }
        let mut wanted = WantedStates::default();
        match &self.signed_by {
            Some(file) => {
                if path(view, file)? == PathState::Absent {
                    return Err(match view.may_appear(&path_id(file)) {
                        Some(wait) => Stop::Deferred(wait),
                        None => Stop::invalid("/signed_by", format!("there is no key file {file}")),
                    });
                }
            }
            None => {
                let now = path(view, &self.keyring())?;
                if path(view, "/etc/apt/keyrings")? == PathState::Absent {
                    let dir =
                        PathState::Dir { mode: 0o755, owner: "root".to_owned(), group: "root".to_owned() };
                    wanted.targets.push((path_id("/etc/apt/keyrings"), dir.into()));
                }
                let key = match (self.given(), &self.key_url) {
                    (Some((pointer, bytes)), _) => {
                        Some(Content::new(self.checked(bytes).map_err(|e| Stop::invalid(pointer, e))?))
                    }
                    (None, Some(url)) => self.key(view, url, &now)?,
                    (None, None) => return Err(Stop::invalid("", "there is no key")),
                };
                match key {
                    Some(content) => {
                        wanted.targets.push((path_id(&self.keyring()), file_like(&now, &content)?));
                        wanted.contents.push(content);
                    }
                    None => wanted.targets.push((path_id(&self.keyring()), now.into())),
                }
            }
        }
        let content = Content::new(self.text().into_bytes());
        let now = path(view, &self.file())?;
        wanted.targets.push((path_id(&self.file()), file_like(&now, &content)?));
        let lists = AptListsState::Lists(content.digest().clone());
        // Asked for in the first round: it is claimed.
        state::<AptListsState>(view, &lists_id(&self.name))?;
        wanted.targets.push((lists_id(&self.name), lists.into()));
        wanted.contents.push(content);
        Ok(wanted)
    }
}

#[cfg(test)]
#[path = "apt_repository_tests.rs"]
mod tests;
