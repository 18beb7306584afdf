//! A transaction of apt or dnf, simulated on the host: what it does, and why it is refused.

use super::{Package, PackagePresence};
use crate::look::package_id;
use converge_objects::deb_version::compare;
use converge_objects::{APT_CHOICE, AptIndexState, DpkgState, PackageState};
use converge_resource::{First, ObjectId, Probe, State, Stop, View, quote};
use converge_syntax::did_you_mean;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The word by which the host names dnf.
pub(super) const DNF: &str = "dnf";

/// The host's answer for one resource: see `cv_plan_packages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// Who would do it: `apt` or `dnf`.
    pub(super) manager: String,
    pub(super) installed: Vec<(String, String)>,
    pub(super) removed: Vec<String>,
    /// Packages that an earlier run of dpkg has left unconfigured.
    pub(super) configured: Vec<String>,
    /// Removed packages that leave configuration files or scripts behind.
    pub(super) leaves: BTreeSet<String>,
    /// Installed packages whose present version can be had again.
    pub(super) offered: BTreeSet<String>,
    /// The reason why apt would not do it, and its exit status.
    pub(super) errors: String,
    pub(super) status: i32,
    /// The host's own architecture.
    pub(super) arch: String,
    /// The package index and dpkg, as far as they were asked for.
    pub(super) index: Option<String>,
    pub(super) dpkg: Option<String>,
    /// A digest of what apt chose by.
    pub(super) choice: Option<String>,
    /// Packages of about a name that apt does not know.
    pub(super) near: BTreeMap<String, Vec<String>>,
    /// Every package of any transaction, as it is before this run.
    pub(super) was: Vec<(ObjectId, State)>,
    /// Whether dnf can hold packages: its plugin versionlock is there.
    pub(super) has_locks: bool,
    /// Packages that dnf would take back to an older version.
    pub(super) older: BTreeSet<String>,
    /// Packages that dnf knows in other versions than the one it was asked for, with these, and names that other packages provide, with those.
    pub(super) versions: BTreeMap<String, Vec<String>>,
    pub(super) providers: BTreeMap<String, Vec<String>>,
}

impl Default for Transaction {
    fn default() -> Self {
        Self {
            manager: "apt".to_owned(),
            installed: Vec::new(),
            removed: Vec::new(),
            configured: Vec::new(),
            leaves: BTreeSet::new(),
            offered: BTreeSet::new(),
            errors: String::new(),
            status: 0,
            arch: String::new(),
            index: None,
            dpkg: None,
            choice: None,
            near: BTreeMap::new(),
            was: Vec::new(),
            has_locks: false,
            older: BTreeSet::new(),
            versions: BTreeMap::new(),
            providers: BTreeMap::new(),
        }
    }
}

impl Transaction {
    /// Reads the part of one stage, from 0, and the part for all stages.
    pub(super) fn parse(text: &str, stage: usize, index: &str) -> Self {
        let mut found = Self::default();
        let own = (stage + 1).to_string();
        let mut at = "";
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let name = || rest.to_owned();
            match word {
                "stage" => at = rest,
                "arch" => found.arch = name(),
                "manager" => found.manager = name(),
                "locks" => found.has_locks = true,
                "offered" => drop(found.offered.insert(name())),
                "was" => {
                    if let Some((name, line)) = rest.split_once(' ') {
                        found.was.push((package_id(name), State::from_line(line)));
                    }
                }
                // These come once, with the answer of the first item that asks.
                "index" => {
                    if let Some((_, state)) = rest.split_once(' ').filter(|(key, _)| *key == index) {
                        found.index = Some(state.to_owned());
                    }
                }
                "dpkg" => found.dpkg = Some(name()),
                "choice" => found.choice = Some(name()),
                _ if at != own => {}
                "inst" => {
                    found.installed.extend(rest.split_once(' ').map(|(n, v)| (n.to_owned(), v.to_owned())))
                }
                "remv" if !found.removed.iter().any(|n| n == rest) => found.removed.push(name()),
                "conf" => found.configured.push(name()),
                "leaves" => drop(found.leaves.insert(name())),
                "err" => {
                    found.errors.push_str(rest);
                    found.errors.push('\n');
                }
                "older" => drop(found.older.insert(name())),
                "near" => note(&mut found.near, rest),
                "versions" => note(&mut found.versions, rest),
                "virtual" => note(&mut found.providers, rest),
                "end" => found.status = rest.parse().unwrap_or(1),
                _ => {}
            }
        }
        found
    }

    /// Whether this version of a package is older than that which is installed. dnf itself has compared them.
    pub(super) fn is_older(&self, name: &str, version: &str, old: &str) -> bool {
        match self.manager.as_str() {
            DNF => self.older.contains(name),
            _ => compare(version, old) == Ordering::Less,
        }
    }

    /// The state of a package when the resource's turn comes: as earlier resources leave it, else as the answer showed it.
    pub(super) fn now(&self, view: &dyn View, name: &str) -> Result<PackageState, Stop> {
        let id = package_id(name);
        match (view.raw(&id), self.was.iter().find(|(known, _)| *known == id)) {
            (Err(Stop::Ask(_)), Some((_, state))) => {
                PackageState::try_from(state.clone()).map_err(|error| Stop::Failed(format!("{id}: {error}")))
            }
            (now, _) => PackageState::try_from(now?).map_err(|error| Stop::Failed(format!("{id}: {error}"))),
        }
    }

    /// Packages whose present version is replaced or removed and cannot be had again.
    pub(super) fn lost(
        &self,
        view: &dyn View,
        targets: &[(ObjectId, State)],
    ) -> Result<Vec<(ObjectId, String)>, Stop> {
        let mut lost = Vec::new();
        for (id, to) in targets.iter().filter(|(id, _)| !self.offered.contains(&id.key)) {
            let PackageState::Present { version, .. } = self.now(view, &id.key)? else { continue };
            let same = matches!(PackageState::try_from(to.clone()), Ok(PackageState::Present { version: v, .. }) if v == version);
            if !same {
                lost.push((id.clone(), format!("no repository offers {} {version} any more", id.key)));
            }
        }
        Ok(lost)
    }
}

/// A line of a name and words about it.
fn note(names: &mut BTreeMap<String, Vec<String>>, line: &str) {
    let mut words = line.split(' ').filter(|w| !w.is_empty()).map(str::to_owned);
    if let Some(name) = words.next() {
        names.insert(name, words.collect());
    }
}

/// The settings by which the host goes on where an old version cannot be kept, and knows whether apt still chooses as here.
pub(super) fn settings(
    lost: &[(ObjectId, String)],
    done: &Transaction,
    stage: Option<String>,
) -> Vec<(String, String)> {
    let lost = (!lost.is_empty()).then(|| ("CV_IRREVERSIBLE".to_owned(), "yes".to_owned()));
    let values = done.choice.clone().zip(stage).map(|(choice, stage)| [choice, stage]);
    let choice = values.into_iter().flat_map(|values| APT_CHOICE.map(str::to_owned).into_iter().zip(values));
    lost.into_iter().chain(choice).collect()
}

/// The read-only question what apt would do for all these resources.
pub(super) fn simulation(stages: &[String]) -> Probe {
    let words: Vec<String> = stages.iter().map(|stage| quote(stage)).collect();
    Probe::Run { script: format!("{PLAN} {}", words.join(" ")), user: None, timeout: 180 }
}

/// Whether this question is asked by several resources together: it is another one when there are more of them.
pub fn asked_together(probe: &Probe) -> bool {
    matches!(probe, Probe::Run { script, .. } if script.starts_with(PLAN))
}

pub(super) const PLAN: &str = "cv_plan_packages";

/// The one object of [`converge_objects::dpkg`].
pub(super) const DPKG: &str = "packages";

pub(super) fn held_at(pointer: &str, name: &str, old: &str, new: &str) -> Stop {
    Stop::invalid_help(
        pointer,
        format!("{name} is held at {old}, and this would change it to {new}"),
        format!(
            "declare it: `package: {{name: {name}={new}, hold: true}}`, or release it before with `hold: false`"
        ),
    )
}

/// A state that configuring does not end: the package must be unpacked again, or taken away by force.
pub(super) fn broken(name: &str, status: &str) -> Stop {
    Stop::Failed(format!(
        "{name} is {status}: on the host, `apt-get install --reinstall {name}` puts it right, or \
         `dpkg --remove --force-remove-reinstreq {name}` takes it away"
    ))
}

/// The state of a package of which the removal was cut off, or its unpacking.
pub(super) const HALF_INSTALLED: &str = "half-installed";

/// Whether `dpkg --configure -a` ends this state.
pub(super) fn is_unfinished(status: &str) -> bool {
    ["unpacked", "half-configured", "triggers-awaited", "triggers-pending"].contains(&status)
}

/// The packages that provide a virtual one, as apt names them.
pub(super) fn providers(reply: &str, name: &str) -> Option<Vec<String>> {
    let mut lines =
        reply.lines().skip_while(|l| *l != format!("Package {name} is a virtual package provided by:"));
    lines.next()?;
    let words = lines.map_while(|l| l.strip_prefix("  ")).filter_map(|l| l.split(' ').next());
    let found: Vec<String> = words.map(str::to_owned).collect();
    (!found.is_empty()).then_some(found)
}

impl Package {
    /// The changes that must be made on the host before apt can simulate or make this transaction.
    pub(super) fn first(&self, view: &dyn View, done: &Transaction) -> Result<(), Stop> {
        let mut first = Vec::new();
        let mut add =
            |kind: &str, key: &str, now: &Option<String>, to: State, name: &'static str, why: &str| {
                let object = ObjectId::new(kind, key);
                let Some(from) = now.as_ref().map(|line| State::from_line(line)) else { return };
                if from != to && view.changed(&object).is_none() {
                    first.push(First { name, object, from, to, why: why.to_owned() });
                }
            };
        let why = "an earlier run of dpkg was interrupted: apt installs nothing before this";
        add("dpkg", DPKG, &done.dpkg, DpkgState::Settled.into(), "interrupted dpkg", why);
        if self.state != PackagePresence::Absent {
            let why = match done.index.as_deref() {
                Some("absent") => "this host has no package index",
                Some("incomplete") => "a package source has no package index yet",
                _ => "the package index is older than `max_age`",
            };
            let to = AptIndexState::Current.into();
            add("apt_index", &self.index(), &done.index, to, "package index", why);
        }
        if first.is_empty() { Ok(()) } else { Err(Stop::First(first)) }
    }

    /// Refuses what only people can correct; the removals that an interrupted dpkg has begun are ended before this transaction.
    pub(super) fn check_half_installed(&self, names: &[&str], done: &Transaction) -> Result<(), Stop> {
        let ended = |name: &str| {
            let names = done.dpkg.as_deref().and_then(|state| state.strip_prefix("unfinished "));
            names
                .into_iter()
                .flat_map(|names| names.split(','))
                .any(|left| name.split(':').next() == Some(left))
        };
        match names.iter().find(|name| !ended(name)) {
            Some(name) => Err(broken(name, HALF_INSTALLED)),
            None => Ok(()),
        }
    }

    /// The reason why apt would not do it.
    pub(super) fn refused(&self, view: &dyn View, done: &Transaction) -> Stop {
        let reply = done.errors.trim();
        for (name, version, pointer) in self.specs() {
            let own = format!(":{}", done.arch);
            if let Some(plain) = name.strip_suffix(own.as_str()).filter(|_| !done.arch.is_empty()) {
                return Stop::invalid_help(
                    &pointer,
                    format!("{} is this host's own architecture", done.arch),
                    format!("write it without: `{plain}`"),
                );
            }
            if let Some(providers) = done.providers.get(name).cloned().or_else(|| providers(reply, name)) {
                return Stop::invalid_help(
                    &pointer,
                    format!("{name} is a virtual package: {} provide it", providers.join(" and ")),
                    "name one of them",
                );
            }
            let unknown = reply.lines().any(|l| {
                l.ends_with(&format!("Unable to locate package {name}"))
                    || l == format!("no package {name}")
                    || l.starts_with(&format!("no package {name} at version "))
                    || l.contains(&format!("Package '{name}' has no installation candidate"))
                    || l.contains(&format!(
                        "Version '{}' for '{name}' was not found",
                        version.unwrap_or_default()
                    ))
            });
            if !unknown {
                continue;
            }
            let what = version.map_or_else(|| name.to_owned(), |v| format!("{name} at version {v}"));
            if let Some(mut wait) = view.may_appear(&package_id(name)).or_else(|| view.foreign()) {
                wait.reason = format!("{} offers no {what} now; {}", done.manager, wait.reason);
                return Stop::Deferred(wait);
            }
            let near =
                done.near.get(name).and_then(|near| did_you_mean(name, near.iter().map(String::as_str)));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if done.manager == DNF => done.other_versions(name).unwrap_or_else(|| {
                    "correct it (`dnf list` shows what is offered), add its repository in a resource before \
                     (`rpm_repository`), or have stale metadata refreshed with `max_age`"
                        .to_owned()
                }),
                None => "correct it (`apt-cache policy` shows what is offered), add its repository in an item before \
                         (`apt_repository`), or have a stale package index refreshed with `max_age`"
                    .to_owned(),
            };
            return Stop::invalid_help(
                &pointer,
                format!("{} offers no {what} on this host", done.manager),
                help,
            );
        }
        if reply.contains("Held packages were changed") {
            return Stop::invalid_help(
                "/name",
                format!("apt would change held packages:\n{reply}"),
                "declare the hold of the package (`hold: true`, or `hold: false` to release it)",
            );
        }
        let message = format!("{} refuses the transaction:\n{reply}", done.manager);
        match exact_dependency(reply) {
            Some(needed) => Stop::invalid_help(
                "/name",
                message,
                format!(
                    "a package needs this exact version of another one: name that one with its version too, as `{needed}`"
                ),
            ),
            None => Stop::Failed(message),
        }
    }
}

/// The first package, as `NAME=VERSION`, of which another one needs an exact version that apt would not install by itself.
fn exact_dependency(reply: &str) -> Option<String> {
    reply.lines().find_map(|line| {
        let (_, needs) = line.split_once("Depends: ")?;
        let (name, version) = needs.split_once(" (= ")?;
        let (version, rest) = version.split_once(')')?;
        (rest.trim_start().starts_with("but ") && !name.contains(' ')).then(|| format!("{name}={version}"))
    })
}
