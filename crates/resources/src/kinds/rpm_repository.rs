//! `rpm_repository`

use crate::kinds::download::check_url;
use crate::look::{Asks, path, path_id, state};
use crate::names::Names;
use crate::openpgp::{armoured, fingerprints};
use crate::presence::Presence;
use crate::repository_key::{
    FoundKey, RepositoryKey, check_name, check_signed_by, file_like, file_that_goes,
};
use converge_objects::{PathState, RpmKeyState, RpmMetadataState};
use converge_resource::{
    Claim, Content, ObjectId, ParamError, Probe, Resource, SourceFile, Stop, View, WantedStates, quote,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A repository of packages for dnf, with its key and its metadata.
///
/// It is `/etc/yum.repos.d/NAME.repo`, which holds this repository alone: a file of that name with others in it, and the same repository in another file, are
/// errors of the plan. The key is given as for [`apt_repository`](apt_repository.md): by its whole fingerprint, and its bytes with `key`, `key_source` or `key_url`; one that
/// is another, or that brings more keys along, is refused before anything is changed. It becomes `/etc/pki/rpm-gpg/RPM-GPG-KEY-NAME`, and with `gpgcheck` rpm
/// is configured to trust it; a newer edition of a key that rpm has (a later end, say) replaces it. With `key_url` the host fetches it over https while the plan is made, unless a key file with these
/// fingerprints is there already. dnf itself takes the key for `repo_gpgcheck`, and what `signed_by` names where a package first needs it.
///
/// The metadata of this repository, and of no other, are fetched with it, so that later resources find its packages. A package
/// resource that comes after it in the same run is deferred where a version is still to be chosen.
///
/// A rollback takes everything back, the trust in the key too. `state: absent` takes the file, the key file and the metadata; the key stays one that rpm trusts, since the signatures of packages that
/// are installed are checked with it: `rpm -e gpg-pubkey-…` ends that.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RpmRepository {
    /// Its name in dnf, and that of its file: letters, digits, `-`, `_` and `.`.
    name: String,
    /// The name for people. Without it `name`.
    description: Option<String>,
    /// One address or a list. dnf's variables may stand in it: `$releasever`, `$basearch`.
    #[serde(default)]
    baseurl: Names,
    /// Where dnf learns the addresses with the digest of the metadata, in place of `baseurl`.
    metalink: Option<String>,
    /// Where dnf learns the addresses, in place of `baseurl`.
    mirrorlist: Option<String>,
    /// Whether the signature of each package is checked.
    #[serde(default = "yes")]
    gpgcheck: bool,
    /// Whether the signature of the metadata is checked.
    #[serde(default)]
    repo_gpgcheck: bool,
    /// The whole fingerprint of the key, 40 hexadecimal digits, or those of all keys in the file.
    #[serde(default)]
    fingerprint: Names,
    /// The key as text, with its armour.
    key: Option<String>,
    /// A key file under the role's `files/`, with or without armour.
    key_source: Option<SourceFile>,
    /// Where the host fetches the key: an `https://` address.
    key_url: Option<String>,
    /// A key file that is on the host, in place of a key of its own: `/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-release`.
    signed_by: Option<String>,
    /// Whether dnf uses it by default. The metadata of one that is not enabled are not fetched.
    #[serde(default = "yes")]
    enabled: bool,
    /// From 1 (its packages first) to 99, that of a repository that says none.
    priority: Option<u8>,
    /// Packages of it that dnf leaves alone: names or patterns, as `kernel*`.
    #[serde(default)]
    excludes: Names,
    /// Whether its packages are offered also where a stream of a module has others.
    #[serde(default)]
    module_hotfixes: bool,
    /// Whether the repository is there. An absent one takes its key file and its metadata along.
    #[serde(default)]
    state: Presence,
}

fn yes() -> bool {
    true
}

const REPOS: &str = "/etc/yum.repos.d";
const KEYS: &str = "/etc/pki/rpm-gpg";

fn metadata_id(name: &str) -> ObjectId {
    ObjectId::new("rpm_metadata", name)
}

fn key_id(fingerprint: &str) -> ObjectId {
    ObjectId::new("rpm_key", fingerprint)
}

/// The repository that a line of a file of dnf's begins.
fn section(line: &str) -> Option<&str> {
    Some(line.strip_prefix('[')?.split(']').next()?.trim())
}

/// The repositories that a file of dnf's names.
fn repositories(text: &str) -> Vec<&str> {
    text.lines().filter_map(section).collect()
}

impl RpmRepository {
    fn file(&self) -> String {
        format!("{REPOS}/{}.repo", self.name)
    }

    fn key_file(&self) -> String {
        format!("{KEYS}/RPM-GPG-KEY-{}", self.name)
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

    /// Whether a signature is checked at all.
    fn checks(&self) -> bool {
        self.gpgcheck || self.repo_gpgcheck
    }

    /// The keys of its own that rpm is to trust, by fingerprint.
    fn trusted(&self) -> Vec<String> {
        if self.gpgcheck && self.signed_by.is_none() { self.key().declared() } else { Vec::new() }
    }

    /// The content of the `.repo` file.
    fn text(&self) -> String {
        let flag = |on: bool| Some(if on { "1" } else { "0" }.to_owned());
        let list = |names: &Names| (!names.0.is_empty()).then(|| names.0.join(" "));
        let key = self.checks().then(|| self.signed_by.clone().unwrap_or_else(|| self.key_file()));
        let fields = [
            ("name", Some(self.description.clone().unwrap_or_else(|| self.name.clone()))),
            ("baseurl", list(&self.baseurl)),
            ("metalink", self.metalink.clone()),
            ("mirrorlist", self.mirrorlist.clone()),
            ("enabled", flag(self.enabled)),
            ("gpgcheck", flag(self.gpgcheck)),
            ("repo_gpgcheck", flag(self.repo_gpgcheck)),
            ("gpgkey", key.map(|file| format!("file://{file}"))),
            ("priority", self.priority.map(|p| p.to_string())),
            ("excludepkgs", list(&self.excludes)),
            ("module_hotfixes", flag(true).filter(|_| self.module_hotfixes)),
        ];
        let lines = fields.iter().filter_map(|(name, value)| Some(format!("{name}={}\n", value.as_ref()?)));
        format!("[{}]\n{}", self.name, lines.collect::<String>())
    }

    /// The read-only question which files of dnf's name this repository.
    fn elsewhere(&self) -> Probe {
        let line = quote(&format!("^\\[{}\\]", self.name.replace('.', "[.]")));
        Probe::run(format!(
            "find {REPOS} /etc/yum/repos.d /etc/distro.repos.d /etc/dnf/dnf.conf \\( -name '*.repo' -o -name dnf.conf \\) -exec grep -l {line} {{}} + 2>/dev/null | sort; true"
        ))
    }

    /// The text of a file as it is when this resource's turn comes; nothing where it is none.
    fn read(view: &dyn View, file: &str, now: &PathState) -> Result<Option<String>, Stop> {
        let PathState::File { digest, .. } = now else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(view.content(file, digest)?.bytes()).into_owned()))
    }

    /// Refuses a file in which somebody has other repositories.
    fn check_own(&self, view: &dyn View, now: &PathState) -> Result<(), Stop> {
        let file = self.file();
        file_that_goes(&file, now)?;
        let text = Self::read(view, &file, now)?.unwrap_or_default();
        let others: Vec<&str> = repositories(&text).into_iter().filter(|r| *r != self.name).collect();
        if others.is_empty() {
            return Ok(());
        }
        Err(Stop::invalid_help(
            "/name",
            format!("{file} holds other repositories: {}", others.join(", ")),
            format!(
                "give this one another `name`, or declare each of them and remove the file in a resource before: `absent: {{path: {file}}}`"
            ),
        ))
    }

    /// Refuses a repository that another file names too.
    fn check_elsewhere(&self, view: &dyn View) -> Result<(), Stop> {
        let answer = view.run(&self.elsewhere())?;
        for file in answer.stdout.lines().filter(|file| *file != self.file()) {
            let now = path(view, file)?;
            let text = Self::read(view, file, &now)?;
            let has = text.is_some_and(|text| repositories(&text).contains(&self.name.as_str()));
            if has || matches!(now, PathState::Link { .. }) {
                return Err(Stop::invalid_help(
                    "/name",
                    format!("{file} has a repository `{}` too, and dnf would take one of them", self.name),
                    format!(
                        "remove it there (`absent: {{path: {file}}}` where it is the only one), or choose another `name`"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn absent(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut wanted = WantedStates::one(metadata_id(&self.name), RpmMetadataState::Absent);
        self.check_own(view, &path(view, &self.file())?)?;
        file_that_goes(&self.key_file(), &path(view, &self.key_file())?)?;
        for file in [self.file(), self.key_file()] {
            wanted.targets.push((path_id(&file), PathState::Absent.into()));
        }
        Ok(wanted)
    }

    /// The key file, and the keys for rpm.
    fn key_targets(&self, view: &dyn View, key: FoundKey, wanted: &mut WantedStates) -> Result<(), Stop> {
        for dir in ["/etc/pki", KEYS] {
            if path(view, dir)? == PathState::Absent {
                let dir_state =
                    PathState::Dir { mode: 0o755, owner: "root".to_owned(), group: "root".to_owned() };
                wanted.targets.push((path_id(dir), dir_state.into()));
            }
        }
        let unreadable = |error| Stop::Failed(format!("the key cannot be taken apart: {error}"));
        let texts = armoured(&key.packets).map_err(unreadable)?;
        let now = path(view, &self.key_file())?;
        if key.is_there {
            wanted.targets.push((path_id(&self.key_file()), now.into()));
        } else {
            let content = Content::new(texts.concat().into_bytes());
            wanted.targets.push((path_id(&self.key_file()), file_like(&now, &content)?));
            wanted.contents.push(content);
        }
        let trusted = self.trusted();
        let found = fingerprints(&key.packets).map_err(unreadable)?;
        for (fingerprint, text) in found.into_iter().zip(texts).filter(|(f, _)| trusted.contains(f)) {
            let content = Content::new(text.into_bytes());
            let to = RpmKeyState::Key(content.digest().clone());
            wanted.targets.push((key_id(&fingerprint), to.into()));
            wanted.contents.push(content);
        }
        Ok(())
    }
}

/// Checks an address of dnf's, which may be on the host itself.
fn check_address(pointer: &str, url: &str, errors: &mut Vec<ParamError>) {
    match url.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()) => {}
        _ => check_url(pointer, url, &["https", "http", "file"], errors),
    }
}

impl Resource for RpmRepository {
    const KIND: &'static str = "rpm_repository";
    const EXAMPLE: &'static str = "\
- name: packages of the container toolkit
  rpm_repository:
    name: nvidia-container-toolkit
    baseurl: https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch
    # NVIDIA signs the metadata, which name the packages by their digests, and not the packages.
    gpgcheck: false
    repo_gpgcheck: true
    fingerprint: C95B 321B 61E8 8C18 09C4 F759 DDCA E044 F796 ECB0
    key_url: https://nvidia.github.io/libnvidia-container/gpgkey
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_name(&self.name, &mut errors);
        if self.name == "main" {
            let help = "choose another name";
            errors.push(ParamError::new(
                "/name",
                "`main` is the section of dnf's own settings".to_owned(),
                help,
            ));
        }
        if self.state == Presence::Absent {
            return errors;
        }
        for url in &self.baseurl.0 {
            check_address("/baseurl", url, &mut errors);
        }
        for (pointer, url) in [("/metalink", &self.metalink), ("/mirrorlist", &self.mirrorlist)] {
            if let Some(url) = url {
                check_address(pointer, url, &mut errors);
            }
        }
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        let given = [!self.baseurl.0.is_empty(), self.metalink.is_some(), self.mirrorlist.is_some()];
        if given.iter().filter(|g| **g).count() != 1 {
            wrong(
                "/baseurl",
                "one thing says where the repository is".to_owned(),
                "give one of `baseurl`, `metalink` and `mirrorlist`",
            );
        }
        let is_line = |text: &String| !text.trim().is_empty() && !text.contains(char::is_control);
        if self.description.as_ref().is_some_and(|text| !is_line(text)) {
            wrong("/description", "the description is not one line".to_owned(), "write one line of text");
        }
        let word = |w: &String| !w.is_empty() && w.bytes().all(|b| b.is_ascii_graphic() && b != b',');
        if let Some(bad) = self.excludes.0.iter().find(|w| !word(w)) {
            wrong("/excludes", format!("`{bad}` is not one word"), "write a list of names or patterns");
        }
        if self.signed_by.as_ref().is_some_and(|file| !word(file)) {
            wrong(
                "/signed_by",
                "dnf takes this for several files".to_owned(),
                "move it to a path without blanks",
            );
        }
        if self.priority.is_some_and(|p| !(1..=99).contains(&p)) {
            wrong("/priority", "this is no priority".to_owned(), "write a number from 1 to 99");
        }
        if self.checks() {
            self.key().validate(&mut errors);
        } else if self.key().is_declared() {
            wrong(
                "/gpgcheck",
                "a key is given, and nothing is checked with it".to_owned(),
                "set `gpgcheck` or `repo_gpgcheck`, or leave the key out",
            );
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let file = path_id(&self.file());
        let key_file = path_id(&self.key_file());
        let metadata = metadata_id(&self.name);
        if self.state == Presence::Absent {
            let gone = |id| Claim::shared(id, "presence", "absent");
            return [metadata, file, key_file].into_iter().map(gone).collect();
        }
        let mut claims = Vec::new();
        if self.checks() && self.signed_by.is_none() {
            claims.push(Claim::shared(path_id(KEYS), "presence", "directory"));
            claims.push(Claim::shared(key_file.clone(), "presence", "file"));
            claims.push(Claim::exclusive(key_file, "content"));
        }
        claims.extend(self.trusted().iter().map(|f| Claim::shared(key_id(f), "presence", "present")));
        claims.push(Claim::shared(file.clone(), "presence", "file"));
        claims.push(Claim::exclusive(file, "content"));
        if self.enabled {
            claims.push(Claim::exclusive(metadata, "presence"));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if self.state == Presence::Absent {
            return self.absent(view);
        }
        if path(view, REPOS)? == PathState::Absent {
            return Err(Stop::Failed(format!("this host has no dnf: {REPOS} is not there")));
        }
        let now = path(view, &self.file())?;
        let mut asks = Asks::default();
        asks.take(self.check_own(view, &now))?;
        asks.take(self.check_elsewhere(view))?;
        let key = match &self.signed_by {
            _ if !self.checks() => None,
            Some(file) => {
                asks.take(check_signed_by(view, file))?;
                None
            }
            None => {
                let there = path(view, &self.key_file())?;
                asks.take(self.key().found(view, &self.key_file(), &there))?
            }
        };
        for fingerprint in self.trusted() {
            asks.take(state::<RpmKeyState>(view, &key_id(&fingerprint)))?;
        }
        if self.enabled {
            asks.take(state::<RpmMetadataState>(view, &metadata_id(&self.name)))?;
        }
        asks.finish()?;
        let mut wanted = WantedStates::default();
        if let Some(key) = key {
            self.key_targets(view, key, &mut wanted)?;
        }
        let content = Content::new(self.text().into_bytes());
        wanted.targets.push((path_id(&self.file()), file_like(&now, &content)?));
        if self.enabled {
            let metadata = RpmMetadataState::Metadata(content.digest().clone());
            wanted.targets.push((metadata_id(&self.name), metadata.into()));
        }
        wanted.contents.push(content);
        Ok(wanted)
    }
}

#[cfg(test)]
#[path = "rpm_repository_tests.rs"]
mod tests;
