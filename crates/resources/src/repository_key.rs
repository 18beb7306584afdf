//! The key of a repository of packages: who gives it, and whether it is the declared one.

use crate::body::file_state;
use crate::kinds::download::{FETCH_TOOLS, check_url};
use crate::look::{check_path, program_may_come};
use crate::names::Names;
use crate::openpgp::{OpenPgpError, dearmor, fingerprints};
use base64::Engine as _;
use converge_objects::PathState;
use converge_resource::{Content, ParamError, Probe, SourceFile, State, Stop, View, Wait, quote};

/// The key as a resource declares it.
#[derive(Clone, Copy, Debug)]
pub struct RepositoryKey<'k> {
    pub fingerprint: &'k Names,
    pub text: Option<&'k str>,
    pub source: Option<&'k SourceFile>,
    pub url: Option<&'k str>,
    /// A key file of the host.
    pub signed_by: Option<&'k str>,
}

/// The declared key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    pub packets: Vec<u8>,
    /// Whether the file that is there holds it.
    pub is_there: bool,
}

/// The read-only question for the key. It prints base64, so that every byte comes through.
pub fn key_probe(url: &str) -> Probe {
    let url = quote(url);
    Probe::run(format!(
        "if command -v curl >/dev/null; then out=$(cv_curl {url} -fsSL --proto =https --proto-redir =https --max-time 40 | head -c 262144 | base64)\n\
         elif command -v wget >/dev/null; then out=$(cv_wget {url} -q -T 30 -O - | head -c 262144 | base64)\n\
         else exit 69; fi\n[ -n \"$out\" ] && printf '%s\\n' \"$out\""
    ))
}

/// The reason why a key is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Unreadable(#[from] OpenPgpError),
    #[error("it holds the key {0}, which is not declared")]
    Undeclared(String),
    #[error("it does not hold the key {0}")]
    Missing(String),
}

impl RepositoryKey<'_> {
    /// The declared fingerprints as gpg prints them, without blanks.
    pub fn declared(&self) -> Vec<String> {
        let plain =
            |f: &String| f.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        let mut all: Vec<String> = self.fingerprint.0.iter().map(plain).collect();
        all.sort();
        all.dedup();
        all
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
        let text = self.text.map(|k| ("/key", k.as_bytes()));
        text.or_else(|| self.source.map(|s| ("/key_source", s.content.bytes())))
    }

    /// Whether anything says which key it is.
    pub fn is_declared(&self) -> bool {
        self.given().is_some()
            || self.url.is_some()
            || self.signed_by.is_some()
            || !self.fingerprint.0.is_empty()
    }

    /// Checks what stands in the parameters.
    pub fn validate(&self, errors: &mut Vec<ParamError>) {
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        let declared = self.declared();
        for bad in declared.iter().filter(|f| f.len() != 40 || !f.bytes().all(|b| b.is_ascii_hexdigit())) {
            wrong(
                "/fingerprint",
                format!("`{bad}` is not a whole fingerprint"),
                "write all 40 digits, as `gpg --show-keys FILE` prints them: short ones can be forged",
            );
        }
        let keys = [self.text.is_some(), self.source.is_some(), self.url.is_some(), self.signed_by.is_some()];
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
        if let Some(file) = self.signed_by {
            check_path("/signed_by", file, errors);
        }
        if let Some(url) = self.url {
            check_url("/key_url", url, &["https"], errors);
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
    }

    /// The declared key, for this file. It is not fetched where the file holds it already.
    pub fn found(&self, view: &dyn View, file: &str, now: &PathState) -> Result<FoundKey, Stop> {
        if let Some((pointer, bytes)) = self.given() {
            let packets = self.checked(bytes).map_err(|e| Stop::invalid(pointer, e))?;
            return Ok(FoundKey { packets, is_there: false });
        }
        let url = self.url.ok_or_else(|| Stop::invalid("", "there is no key"))?;
        if let PathState::File { digest, .. } = now {
            let content = view.content(file, digest)?;
            if let Ok(packets) = self.checked(content.bytes()) {
                return Ok(FoundKey { packets, is_there: true });
            }
        }
        Ok(FoundKey { packets: self.fetched(view, url)?, is_there: false })
    }

    fn fetched(&self, view: &dyn View, url: &str) -> Result<Vec<u8>, Stop> {
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
            let reply = answer.stderr.trim().lines().last().unwrap_or("no answer").to_owned();
            let failed = || Stop::Failed(format!("the host cannot fetch the key from {url}: {reply}"));
            // Any file may be a setting of the network, of a proxy or of trusted certificates.
            let reason = format!("the key cannot be fetched now ({reply})");
            return Err(deferred(view.pending(), reason).unwrap_or_else(failed));
        }
        let text: String = answer.stdout.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|_| Stop::Failed("the fetched key did not come through".to_owned()))?;
        self.checked(&bytes).map_err(|e| {
            Stop::invalid_help(
                "/key_url",
                format!("what is at {url} is not the declared key: {e}"),
                "find out who changed it; correct `fingerprint` only when the publisher says so in another place",
            )
        })
    }
}

/// Checks the name of a repository, and so of its files.
pub fn check_name(name: &str, errors: &mut Vec<ParamError>) {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    // apt leaves out files with other names.
    if name.is_empty() || !name.bytes().all(good) || name.starts_with('.') {
        let message = format!("`{name}` is not the name of a repository");
        errors.push(ParamError::new("/name", message, "use letters, digits, `-`, `_` and `.`"));
    }
}

/// A file of root's with mode 0644, which apt's own user can read; one that is there keeps its owner and mode.
pub fn file_like(now: &PathState, content: &Content) -> Result<State, Stop> {
    let attrs = match now {
        PathState::File { mode, owner, group, .. } => (*mode | 0o444, owner.clone(), group.clone()),
        PathState::Absent | PathState::Link { .. } => (0o644, "root".to_owned(), "root".to_owned()),
        PathState::Dir { .. } | PathState::Other { .. } => {
            return Err(Stop::invalid("/name", "a file of this repository is there and is not a file"));
        }
    };
    Ok(file_state(content, attrs).into())
}

/// Refuses what is not a file where a file of this repository goes.
pub fn file_that_goes(file: &str, now: &PathState) -> Result<(), Stop> {
    match now {
        PathState::Dir { .. } | PathState::Other { .. } => {
            Err(Stop::invalid("/name", format!("{file} is there and is not a file")))
        }
        _ => Ok(()),
    }
}

/// Refuses a key file of the host that is not there, unless it may come.
pub fn check_signed_by(view: &dyn View, file: &str) -> Result<(), Stop> {
    if crate::look::path(view, file)? != PathState::Absent {
        return Ok(());
    }
    Err(match view.may_appear(&crate::look::path_id(file)) {
        Some(wait) => Stop::Deferred(wait),
        None => Stop::invalid("/signed_by", format!("there is no key file {file}")),
    })
}
