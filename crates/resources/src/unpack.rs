//! The members of an archive, read from its bytes or from the output of a host's tools. Nothing is written.

use converge_resource::{Content, Digest, Probe};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use zip::result::ZipError;

/// The greatest number of members and of unpacked bytes.
const MEMBERS: usize = 20_000;
const BYTES: u64 = 1 << 30;

/// The reason why the members of an archive are not known, or cannot be unpacked below a directory.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the member `{}` would not stay below the directory", .0.escape_debug())]
    Outside(String),
    #[error("it has more than {MEMBERS} members")]
    TooManyMembers,
    #[error("it has more than {} MiB unpacked", BYTES >> 20)]
    TooLarge,
    #[error("a member lies below another one that is a file or a link")]
    BelowMember,
    #[error("nothing of it is left after {}", if *.only { "`only` and `strip`" } else { "`strip`" })]
    NothingLeft {
        /// Whether the user has chosen members.
        only: bool,
    },
    #[error(
        "it is packed with xz, zstd or bzip2, which are read on hosts only: pack it with gzip, or give `on_host`"
    )]
    ReadOnHostsOnly,
    #[error("it is no tar archive: {0}")]
    NotTar(io::Error),
    #[error("it is no zip archive that can be read: {0}")]
    NotZip(#[from] ZipError),
    /// A member's content ends early or is damaged.
    #[error("{0}")]
    Content(io::Error),
    #[error("the name of a member is not UTF-8")]
    Name,
    #[error("the target of a link is not UTF-8")]
    Target,
    #[error("`{name}` is a hard link to `{target}`, which is not there")]
    NoLinkTarget { name: String, target: String },
    #[error("`{0}` is neither file, directory nor link")]
    Special(String),
    /// The output of the host's tools.
    #[error("the host's list of its members is not understood")]
    List,
}

/// One member that is not a directory of others alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveMember {
    Dir { mode: u32 },
    File { mode: u32, size: u64, digest: Digest },
    Link { target: String },
}

/// The members by their path below the directory, the content where it was read, and where it was not, the names of members in the archive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub members: BTreeMap<String, ArchiveMember>,
    pub contents: BTreeMap<Digest, Content>,
    /// The members that are small enough to be edited, as the archive names them.
    pub names: BTreeMap<Digest, String>,
}

/// Which members, and how many leading names go.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    pub strip: usize,
    pub only: &'a [String],
}

impl Choice<'_> {
    /// The path below the directory; `None` for a member that is left out.
    fn path(&self, name: &str) -> Result<Option<String>, UnpackError> {
        let parts: Vec<&str> = name.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        if name.starts_with('/') || parts.contains(&"..") || name.chars().any(char::is_control) {
            return Err(UnpackError::Outside(name.to_owned()));
        }
        let whole = parts.join("/");
        let chosen = |o: &String| {
            whole == o.trim_matches('/') || whole.starts_with(&format!("{}/", o.trim_matches('/')))
        };
        if !self.only.is_empty() && !self.only.iter().any(chosen) {
            return Ok(None);
        }
        let rest = parts.get(self.strip..).unwrap_or_default();
        Ok((!rest.is_empty()).then(|| rest.join("/")))
    }
}

impl Listing {
    fn add(&mut self, choice: &Choice<'_>, name: &str, member: ArchiveMember) -> Result<(), UnpackError> {
        if self.members.len() >= MEMBERS {
            return Err(UnpackError::TooManyMembers);
        }
        if let Some(path) = choice.path(name)? {
            self.members.insert(path, member);
        }
        Ok(())
    }

    /// Adds the directories that are not members themselves, and refuses a member below a link or file.
    fn finish(mut self, choice: &Choice<'_>) -> Result<Self, UnpackError> {
        let mut above = BTreeSet::new();
        for path in self.members.keys() {
            above.extend(path.match_indices('/').filter_map(|(at, _)| path.get(..at).map(str::to_owned)));
        }
        for dir in above {
            match self.members.entry(dir).or_insert(ArchiveMember::Dir { mode: 0o755 }) {
                ArchiveMember::Dir { .. } => {}
                _ => return Err(UnpackError::BelowMember),
            }
        }
        if self.members.is_empty() {
            return Err(UnpackError::NothingLeft { only: !choice.only.is_empty() });
        }
        Ok(self)
    }
}

/// Permission bits of a member: no setuid, setgid or sticky bit comes out of an archive.
fn bits(mode: u32) -> u32 {
    mode & 0o777
}

/// Reads an archive: zip, tar, or tar with gzip, by its first bytes.
///
/// # Errors
/// The error in the archive.
pub fn read(bytes: &[u8], choice: &Choice<'_>) -> Result<Listing, UnpackError> {
    match bytes {
        [b'P', b'K', 3 | 5, 4 | 6, ..] => zip(bytes, choice),
        [0x1f, 0x8b, ..] => tar(flate2::read::MultiGzDecoder::new(bytes), choice),
        [0xfd, b'7', b'z', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [b'B', b'Z', b'h', ..] => {
            Err(UnpackError::ReadOnHostsOnly)
        }
        _ => tar(bytes, choice),
    }
}

fn content(listing: &mut Listing, read: &mut dyn Read, left: &mut u64) -> Result<(u64, Digest), UnpackError> {
    let mut bytes = Vec::new();
    read.take(left.saturating_add(1)).read_to_end(&mut bytes).map_err(UnpackError::Content)?;
    let size = bytes.len() as u64;
    *left = left.checked_sub(size).ok_or(UnpackError::TooLarge)?;
    let content = Content::new(bytes);
    let digest = content.digest().clone();
    listing.contents.insert(digest.clone(), content);
    Ok((size, digest))
}

fn tar(reader: impl Read, choice: &Choice<'_>) -> Result<Listing, UnpackError> {
    let mut archive = tar::Archive::new(reader);
    let mut listing = Listing::default();
    let mut left = BYTES;
    // A hard link names another member.
    let mut files: BTreeMap<String, ArchiveMember> = BTreeMap::new();
    for entry in archive.entries().map_err(UnpackError::NotTar)? {
        let mut entry = entry.map_err(UnpackError::NotTar)?;
        let name = String::from_utf8(entry.path_bytes().into_owned()).map_err(|_| UnpackError::Name)?;
        let mode = bits(entry.header().mode().map_err(UnpackError::NotTar)?);
        let target = || -> Result<String, UnpackError> {
            let bytes = entry.link_name_bytes().map(|b| b.into_owned()).unwrap_or_default();
            String::from_utf8(bytes).map_err(|_| UnpackError::Target)
        };
        let kind = entry.header().entry_type();
        let member = if kind.is_dir() {
            ArchiveMember::Dir { mode }
        } else if kind.is_symlink() {
            ArchiveMember::Link { target: target()? }
        } else if kind.is_hard_link() {
            let target = target()?;
            let linked = files.get(&target).cloned();
            linked.ok_or_else(|| UnpackError::NoLinkTarget { name: name.clone(), target })?
        } else if kind.is_file() || kind.is_contiguous() {
            let (size, digest) = content(&mut listing, &mut entry, &mut left)?;
            ArchiveMember::File { mode, size, digest }
        } else if kind.is_pax_global_extensions() {
            continue;
        } else {
            return Err(UnpackError::Special(name));
        };
        files.insert(name.clone(), member.clone());
        listing.add(choice, &name, member)?;
    }
    listing.finish(choice)
}

fn zip(bytes: &[u8], choice: &Choice<'_>) -> Result<Listing, UnpackError> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
    let mut listing = Listing::default();
    let mut left = BYTES;
    for n in 0..archive.len() {
        let mut entry = archive.by_index(n)?;
        let name = entry.name()?.into_owned();
        let mode = entry.unix_mode();
        let member = if entry.is_dir() {
            ArchiveMember::Dir { mode: bits(mode.unwrap_or(0o755)) }
        } else {
            let (size, digest) = content(&mut listing, &mut entry, &mut left)?;
            if mode.is_some_and(|m| m & 0o170_000 == 0o120_000) {
                let target =
                    listing.contents.get(&digest).and_then(|c| c.text()).unwrap_or_default().to_owned();
                ArchiveMember::Link { target }
            } else {
                ArchiveMember::File { mode: bits(mode.unwrap_or(0o644)), size, digest }
            }
        };
        listing.add(choice, &name, member)?;
    }
    listing.finish(choice)
}

/// The read-only script that lists an archive on a host. It prints `absent` where there is none.
pub fn script(archive: &str) -> String {
    let file = converge_resource::quote(archive);
    let list = if archive.ends_with(".zip") {
        // unzip takes names for patterns.
        "command -v unzip >/dev/null || { echo 'no unzip' >&2; exit 69; }\n\
         unzip -Z -s -h- -t- \"$f\" || exit 1\necho ==\n\
         unzip -Z1 \"$f\" | while IFS= read -r name; do\n\
         case $name in */) ;; *[][*?\\\\]*) echo odd; exit 1 ;; *) unzip -p \"$f\" \"$name\" | sha256sum ;; esac\ndone"
    } else {
        "tar --version 2>/dev/null | grep -q GNU || { echo 'no GNU tar' >&2; exit 69; }\n\
         tar --numeric-owner --quoting-style=c -tvf \"$f\" || exit 1\necho ==\ntar -xf \"$f\" --to-command=sha256sum"
    };
    format!(
        "f={file}\n[ -f \"$f\" ] || {{ echo absent; exit 0; }}\ncv_hold \"$f\" || exit 1\nf=$CV_HELD\n\
         sha256sum <\"$f\" || exit 1\n{list}"
    )
}

/// The read-only script that prints the member `$name` of an archive on a host.
pub fn member_script(archive: &str) -> String {
    let file = converge_resource::quote(archive);
    let print = if archive.ends_with(".zip") {
        "unzip -p \"$CV_HELD\" \"$name\""
    } else {
        "tar -xOf \"$CV_HELD\" -- \"$name\""
    };
    format!("f={file}\ncv_hold \"$f\" || exit 1\n{print}")
}

/// Parses the output of the script: the digest of the archive, and its members. `None` if there is no archive.
///
/// # Errors
/// The error in the archive.
pub fn parse(output: &str, zip: bool, choice: &Choice<'_>) -> Result<Option<(Digest, Listing)>, UnpackError> {
    if output.trim() == "absent" {
        return Ok(None);
    }
    let strange = || UnpackError::List;
    let (list, sums) =
        output.split_once("\n==\n").or_else(|| output.split_once("\n==")).ok_or_else(strange)?;
    let (own, list) = list.split_once('\n').unwrap_or((list, ""));
    let digest = |line: &str| Digest::from_hex(line.split(' ').next().unwrap_or_default());
    let own = digest(own).ok_or_else(strange)?;
    let mut sums = sums.lines().filter(|l| !l.is_empty());
    let mut listing = Listing::default();
    let mut files: BTreeMap<String, ArchiveMember> = BTreeMap::new();
    for line in list.lines().filter(|l| !l.is_empty()) {
        let (rights, size, rest) = if zip { zip_line(line) } else { tar_line(line) }.ok_or_else(strange)?;
        let mode = rights.get(1..).and_then(mode_of).ok_or_else(strange)?;
        let (name, target) =
            if zip { (rest.to_owned(), None) } else { tar_names(rest).ok_or_else(strange)? };
        let member = match (rights.as_bytes().first(), target) {
            (Some(b'd'), _) => ArchiveMember::Dir { mode },
            (Some(b'-'), _) if zip && name.ends_with('/') => ArchiveMember::Dir { mode },
            (Some(b'-'), _) => {
                let digest = sums.next().and_then(digest).ok_or_else(strange)?;
                if size <= Probe::CONTENT_LIMIT {
                    listing.names.insert(digest.clone(), name.clone());
                }
                ArchiveMember::File { mode, size, digest }
            }
            (Some(b'l'), Some(target)) => ArchiveMember::Link { target },
            (Some(b'h'), Some(target)) => files.get(&target).cloned().ok_or_else(strange)?,
            _ => return Err(UnpackError::Special(name)),
        };
        files.insert(name.clone(), member.clone());
        listing.add(choice, &name, member)?;
    }
    if sums.next().is_some() {
        return Err(strange());
    }
    Ok(Some((own, listing.finish(choice)?)))
}

/// `rwxr-x---` as bits; set-ID and sticky bits do not count.
fn mode_of(rights: &str) -> Option<u32> {
    let letters = rights.as_bytes().get(..9)?;
    Some(
        letters
            .iter()
            .fold(0, |mode, c| mode << 1 | u32::from(matches!(c, b'r' | b'w' | b'x' | b's' | b't'))),
    )
}

/// So many words, and what follows them.
fn words(line: &str, count: usize) -> Option<(Vec<&str>, &str)> {
    let mut rest = line.trim_start();
    let mut found = Vec::new();
    for _ in 0..count {
        let (word, more) = rest.split_once(' ')?;
        found.push(word);
        rest = more.trim_start();
    }
    Some((found, rest))
}

/// `-rw-r--r-- 0/0  6 2024-01-01 00:00 "a"`
fn tar_line(line: &str) -> Option<(&str, u64, &str)> {
    let (words, rest) = words(line, 5)?;
    Some((words.first()?, words.get(2)?.parse().ok()?, rest))
}

/// `-rw-r--r--  3.0 unx  6 tx stor 24-Jan-01 00:00 a`
fn zip_line(line: &str) -> Option<(&str, u64, &str)> {
    let (words, rest) = words(line, 8)?;
    Some((words.first()?, words.get(3)?.parse().ok()?, rest))
}

/// `"name"`, `"name" -> "target"` or `"name" link to "target"`.
fn tar_names(text: &str) -> Option<(String, Option<String>)> {
    let (name, rest) = c_string(text)?;
    let target = rest.strip_prefix(" -> ").or_else(|| rest.strip_prefix(" link to "));
    match target {
        Some(quoted) => Some((name, Some(c_string(quoted)?.0))),
        None => rest.is_empty().then_some((name, None)),
    }
}

/// A quoted string of C, and what follows it.
fn c_string(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let byte = *body.as_bytes().get(at)?;
        at += 1;
        match byte {
            b'"' => return Some((String::from_utf8(bytes).ok()?, body.get(at..)?)),
            b'\\' => {
                let escape = *body.as_bytes().get(at)?;
                at += 1;
                match escape {
                    b'0'..=b'7' => {
                        let octal = body.get(at - 1..at + 2)?;
                        bytes.push(u8::from_str_radix(octal, 8).ok()?);
                        at += 2;
                    }
                    b'n' => bytes.push(b'\n'),
                    b't' => bytes.push(b'\t'),
                    b'\\' | b'"' => bytes.push(escape),
                    b'a' | b'b' | b'f' | b'r' | b'v' => bytes.push(7),
                    _ => return None,
                }
            }
            other => bytes.push(other),
        }
    }
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
pub mod tests;
