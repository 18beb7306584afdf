//! Packages that would take away what others need: a configuration file that somebody has changed, a directory in /etc with files of others, the program or
//! the unit of an object that stays. They stay too, unless the user allows their removal by ID.

use super::holders::{StayingObject, words};
use super::undo::Verdict;
use crate::TargetError;
use crate::connect::target::Target;
use converge_host::records::blob_path;
use converge_ledger::{Ledger, Undo};
use converge_objects::traits_of;
use converge_planner::Knowledge;
use converge_resource::{Answer, ObjectId, Probe, quote};
use std::collections::{BTreeMap, BTreeSet};

/// Whether this is a package that would be purged.
fn is_purged(undo: &Undo) -> bool {
    undo.object.kind == "package" && undo.before.is_absent()
}

fn is_at_path(object: &ObjectId) -> bool {
    traits_of(object).at_path
}

/// Asks what the packages have that would be purged.
pub(crate) fn probe(undos: &[Undo]) -> Option<Probe> {
    let names: BTreeSet<&str> =
        undos.iter().filter(|u| is_purged(u)).map(|u| u.object.key.as_str()).collect();
    let words: String = names.iter().map(|name| format!(" {}", quote(name))).collect();
    let script = format!("cv_packages_files{words}");
    (!names.is_empty()).then_some(Probe::Run { script, user: None, timeout: 180 })
}

/// A configuration file of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConfigurationFile<'a> {
    package: &'a str,
    path: &'a str,
    /// The digest of the content that the package brought, and that of the present one.
    digest: &'a str,
    now: Option<&'a str>,
}

/// The files of the packages that would be purged.
#[derive(Debug, Default)]
pub(crate) struct PackageFiles<'a> {
    configuration: Vec<ConfigurationFile<'a>>,
    /// Programs, units and time zones, each behind its package.
    files: BTreeSet<(&'a str, &'a str)>,
    /// Units of services, each with a program that it starts.
    units: BTreeSet<(&'a str, &'a str)>,
    /// Directories in /etc that no other package has.
    directories: Vec<(BTreeSet<&'a str>, &'a str)>,
}

/// A path without the directory that several distributions lead to another by a link.
fn merged(path: &str) -> &str {
    path.strip_prefix("/usr").unwrap_or(path)
}

impl<'a> PackageFiles<'a> {
    fn read(answer: &'a str) -> Self {
        let mut found = Self::default();
        let mut asked: BTreeSet<&str> = BTreeSet::new();
        for line in answer.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["conf", package, digest, now, path] => {
                    let now = (now != "-").then_some(now);
                    found.configuration.push(ConfigurationFile { package, path, digest, now });
                    asked.insert(package);
                }
                ["file", package, path] => {
                    found.files.insert((package, path));
                    asked.insert(package);
                }
                ["starts", unit, path] => {
                    found.units.insert((unit, path));
                }
                ["dir", packages, path] => {
                    found.directories.push((packages.split(' ').filter(|p| !p.is_empty()).collect(), path));
                }
                _ => {}
            }
        }
        found.directories.retain(|(packages, _)| packages.iter().all(|package| asked.contains(package)));
        found
    }

    /// The host's answer.
    fn of(undos: &[Undo], known: &'a Knowledge) -> Option<Self> {
        match known.answer(&probe(undos)?) {
            Some(Answer::Run(answer)) => Some(Self::read(&answer.stdout)),
            _ => None,
        }
    }

    /// Whether the package has a program of this name, or this file.
    fn has(&self, package: &str, word: &str) -> bool {
        let is = |path: &str| match word.starts_with('/') {
            true => merged(path) == merged(word),
            false => path.rsplit_once("bin/").is_some_and(|(_, name)| name == word),
        };
        self.files.iter().any(|(of, path)| *of == package && is(path))
    }

    /// The reason why the package would take away what an object needs.
    fn takes(&self, package: &str, object: &ObjectId, words: &[String], is_there: bool) -> Option<Taken> {
        let path = Some(object.key.as_str()).filter(|_| is_at_path(object));
        let is_own = |file: &&ConfigurationFile<'_>| file.package == package && Some(file.path) == path;
        if self.configuration.iter().find(is_own).is_some_and(|file| file.now.is_some()) {
            return Some(Taken::Configuration);
        }
        let holds = |(packages, directory): &(BTreeSet<&str>, &str)| {
            let inside = path.and_then(|path| path.strip_prefix(directory));
            packages.contains(package) && inside.is_some_and(|rest| rest.starts_with('/'))
        };
        if is_there && self.directories.iter().any(holds) {
            return Some(Taken::InDirectory);
        }
        words
            .iter()
            .any(|word| self.has(package, word) || self.starts(package, word))
            .then_some(Taken::Program)
    }

    /// Whether this is the file of a unit that starts a program of the package.
    fn starts(&self, package: &str, word: &str) -> bool {
        let unit = word.strip_prefix("/lib/systemd/system/");
        unit.is_some_and(|unit| self.units.iter().any(|(of, path)| *of == unit && self.has(package, path)))
    }
}

/// The relation of a package to an object that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Configuration,
    InDirectory,
    Program,
}

impl Taken {
    fn shown(self, object: &str) -> String {
        match self {
            Self::Configuration => format!("{object}, a configuration file of it"),
            Self::InDirectory => format!("{object}, which lies in a directory of it"),
            Self::Program => format!("{object}, which needs it"),
        }
    }
}

/// The configuration files whose content before the runs is to be compared with that of the package: the file and where that content is saved.
fn saved_before<'a>(undos: &'a [Undo], files: &PackageFiles<'a>) -> Vec<(&'a str, String)> {
    let edited = |path: &str| files.configuration.iter().any(|f| f.path == path && f.now.is_some());
    let paths = undos.iter().filter(|u| is_at_path(&u.object) && edited(&u.object.key));
    let saved = paths.filter_map(|u| {
        let digest = converge_objects::object(&u.object.kind)?.content(&u.before)?;
        Some((u.object.key.as_str(), blob_path(&digest)))
    });
    saved.collect()
}

fn digests_probe(saved: &[(&str, String)]) -> Option<Probe> {
    let words: String = saved.iter().map(|(_, blob)| format!(" {}", quote(blob))).collect();
    let tools = "md5sum sha256sum";
    let script = format!("for tool in {tools}; do $tool --{words} 2>/dev/null; done; :");
    (!saved.is_empty()).then(|| Probe::run(script))
}

/// Lets the packages stay that have a configuration file that others have changed, or something that an object needs which is not reverted. `holders` are
/// these objects. Returns the sentences about what goes nevertheless, since the user has allowed it.
pub(crate) async fn leave_those_that_others_need(
    target: &Target,
    undos: &mut [Undo],
    holders: &[StayingObject],
    ledger: Option<&Ledger<'_>>,
    allowed: &[String],
    known: &mut Knowledge,
) -> Result<BTreeMap<ObjectId, String>, TargetError> {
    let saved = PackageFiles::of(undos, known).map(|files| saved_before(undos, &files)).unwrap_or_default();
    let probe = digests_probe(&saved);
    let saved: Vec<(String, String)> =
        saved.into_iter().map(|(path, blob)| (path.to_owned(), blob)).collect();
    target.look(&probe.iter().cloned().collect(), known).await?;
    let answer = match probe.and_then(|probe| known.answer(&probe)) {
        Some(Answer::Run(answer)) => answer.stdout.clone(),
        _ => String::new(),
    };
    let place = |undo: &Undo| ledger.and_then(|ledger| ledger.place(&undo.run)).unwrap_or(0);
    Ok(leave(undos, holders, &place, &before_is(&saved, &answer), allowed, known))
}

/// The digests of the contents that files had before the runs.
fn before_is(saved: &[(String, String)], answer: &str) -> BTreeSet<(String, String)> {
    let lines = answer.lines().filter_map(|line| line.split_once("  "));
    let of = |(digest, blob): (&str, &str)| {
        let files = saved.iter().filter(|(_, at)| at == blob).map(|(path, _)| path.clone());
        files.map(|path| (path, digest.to_owned())).collect::<Vec<_>>()
    };
    lines.flat_map(of).collect()
}

/// [`leave_those_that_others_need`], where all is known. `before` are the known digests of contents before the runs.
fn leave(
    undos: &mut [Undo],
    holders: &[StayingObject],
    place: &dyn Fn(&Undo) -> usize,
    before: &BTreeSet<(String, String)>,
    allowed: &[String],
    known: &Knowledge,
) -> BTreeMap<ObjectId, String> {
    let Some(files) = PackageFiles::of(undos, known) else { return BTreeMap::new() };
    let reason = |undo: &Undo| {
        let package = undo.object.key.as_str();
        let since = place(undo);
        let holder =
            holders.iter().filter(|holder| holder.at.is_none_or(|at| at >= since)).find_map(|holder| {
                let taken = files.takes(package, &holder.object, &holder.words, holder.is_there)?;
                Some(taken.shown(&holder.whose))
            });
        holder.map(Reason::Needed).or_else(|| edited(package, undos, &files, before).map(Reason::Edited))
    };
    let going = undos.iter().enumerate().filter(|(_, u)| is_purged(u) && u.theirs.is_none());
    let found: Vec<(usize, Reason)> = going.filter_map(|(at, undo)| Some((at, reason(undo)?))).collect();
    let mut notes = BTreeMap::new();
    for (at, reason) in found {
        let Some(undo) = undos.get_mut(at) else { continue };
        if allowed.contains(&undo.object.to_string()) {
            notes.insert(undo.object.clone(), reason.note());
        } else {
            undo.theirs = Some(reason.refusal(&undo.object));
        }
    }
    notes
}

/// The reason why a package stays.
enum Reason {
    /// Something that stays needs it.
    Needed(String),
    /// Somebody has changed this configuration file of it.
    Edited(String),
}

impl Reason {
    fn refusal(&self, package: &ObjectId) -> String {
        match self {
            Self::Needed(what) => format!(
                "{what}, stays: it is left as it is. Take that back first, or `--allow-destroy {package}` removes it nevertheless"
            ),
            Self::Edited(path) => format!(
                "its configuration file {path} was changed by someone else since it was installed: it is left as it is. Take that change back, \
                 or `--allow-destroy {package}` removes it with the file"
            ),
        }
    }

    fn note(&self) -> String {
        match self {
            Self::Needed(what) => {
                format!("{what}, stays without it, and no rollback brings back what goes with the package")
            }
            Self::Edited(path) => format!(
                "{path}, which someone else has changed, goes with it, and no rollback brings that content back"
            ),
        }
    }
}

/// The first configuration file of the package with a content that neither the package nor these runs have given it.
fn edited(
    package: &str,
    undos: &[Undo],
    files: &PackageFiles<'_>,
    before: &BTreeSet<(String, String)>,
) -> Option<String> {
    // Settings made with a program of the package, as the rules of a firewall, stand in its configuration files.
    let set_by = |undo: &Undo| {
        let words = words(&undo.object, &[&undo.left]);
        words.iter().any(|word| !word.starts_with('/') && files.has(package, word))
    };
    if undos.iter().filter(|u| !is_at_path(&u.object)).any(set_by) {
        return None;
    }
    let is_edited = |file: &&ConfigurationFile<'_>| {
        let is_changed = file.package == package && file.now.is_some_and(|now| now != file.digest);
        let undo = undos.iter().find(|u| is_at_path(&u.object) && u.object.key == file.path);
        let goes_back = undo.is_some_and(|undo| {
            let digest = (file.path.to_owned(), file.digest.to_owned());
            let of_package = undo.before.is_absent() || undo.moved_by.is_some() || before.contains(&digest);
            of_package || !before.iter().any(|(path, _)| path == file.path)
        });
        is_changed && !goes_back
    };
    files.configuration.iter().find(is_edited).map(|file| file.path.to_owned())
}

/// Lets the packages stay that an object needs which stays itself.
pub(super) fn leave_for_what_stays(
    undos: &[Undo],
    verdicts: &mut [Verdict],
    known: &Knowledge,
    allowed: &[String],
) {
    let Some(files) = PackageFiles::of(undos, known) else { return };
    let stay: Vec<(&ObjectId, Vec<String>)> = undos
        .iter()
        .zip(verdicts.iter())
        .filter(|(_, verdict)| verdict.stays())
        .map(|(undo, _)| {
            let now = known.observed(&undo.object).map_or_else(|_| undo.left.clone(), |found| found.state);
            (&undo.object, words(&undo.object, &[&now]))
        })
        .collect();
    for (undo, verdict) in undos.iter().zip(verdicts) {
        let goes = matches!(verdict, Verdict::Back(_)) && is_purged(undo);
        if !goes || allowed.contains(&undo.object.to_string()) {
            continue;
        }
        let package = undo.object.key.as_str();
        let holder = stay.iter().find_map(|(object, words)| {
            Some(files.takes(package, object, words, true)?.shown(&object.to_string()))
        });
        if let Some(what) = holder {
            *verdict = Verdict::Stays(Reason::Needed(what).refusal(&undo.object));
        }
    }
}

#[cfg(test)]
#[path = "package_files_tests.rs"]
mod tests;
