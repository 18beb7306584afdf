//! `apt_repository`

use crate::kinds::download::check_url;
use crate::look::{path, path_id, state};
use crate::names::Names;
use crate::presence::Presence;
use crate::repository_key::{RepositoryKey, check_name, check_signed_by, file_like, file_that_goes};
use converge_objects::{AptListsState, PathState};
use converge_resource::{
    Claim, Content, ObjectId, ParamError, Resource, SourceFile, State, Stop, View, WantedStates,
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

impl AptRepository {
    fn file(&self) -> String {
        format!("/etc/apt/sources.list.d/{}.sources", self.name)
    }

    fn keyring(&self) -> String {
        format!("/etc/apt/keyrings/{}.gpg", self.name)
    }

    fn key(&self) -> RepositoryKey<'_> {
        RepositoryKey {
            fingerprint: &self.fingerprint,
            text: self.key.as_deref(),
            source: self.key_source.as_ref(),
            url: self.key_url.as_deref(),
            signed_by: self.signed_by.as_deref(),
        }
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

    fn absent(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut targets: Vec<(ObjectId, State)> = vec![(lists_id(&self.name), AptListsState::Absent.into())];
        for file in [self.file(), self.keyring()] {
            file_that_goes(&file, &path(view, &file)?)?;
            targets.push((path_id(&file), PathState::Absent.into()));
        }
        Ok(WantedStates { targets, ..WantedStates::default() })
    }
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
        check_name(&self.name, &mut errors);
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
        self.key().validate(&mut errors);
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
            Some(file) => check_signed_by(view, file)?,
            None => {
                let now = path(view, &self.keyring())?;
                if path(view, "/etc/apt/keyrings")? == PathState::Absent {
                    let dir =
                        PathState::Dir { mode: 0o755, owner: "root".to_owned(), group: "root".to_owned() };
                    wanted.targets.push((path_id("/etc/apt/keyrings"), dir.into()));
                }
                let key = self.key().found(view, &self.keyring(), &now)?;
                if key.is_there {
                    wanted.targets.push((path_id(&self.keyring()), now.into()));
                } else {
                    let content = Content::new(key.packets);
                    wanted.targets.push((path_id(&self.keyring()), file_like(&now, &content)?));
                    wanted.contents.push(content);
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
