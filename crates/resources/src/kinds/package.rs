//! `package`

use crate::look::{Asks, package, package_id};
use crate::names::Names;
use converge_objects::deb_version::compare;
use converge_objects::{AptIndexState, DpkgState, PackageState};
use converge_resource::{
    Claim, First, ObjectId, ParamError, Probe, Resource, State, Stop, View, Wait, Wanted, quote,
};
use converge_syntax::did_you_mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Packages of Debian and Ubuntu, installed or removed in one transaction.
///
/// The plan lists the whole transaction, as `apt-get -s` shows it: every dependency that comes along is in it with its exact
/// version, and recommended packages are not. Nothing is removed and no held package changes unless a resource says so. A
/// package that is there is left at its version, unless `version` or `state: latest` says otherwise.
///
/// The services of a new package are not started by its installation: add a `service` resource with `state: started`.
///
/// All package resources of a host are simulated together, each over what those before it leave, in one question that changes nothing.
/// Where something is to be installed and the host has no package index (a fresh cloud or container image), a package source has none
/// yet, or the index is older than `max_age`, the plan has `apt-get update` as a resource of its own before it. Behind that, behind an
/// `apt_repository` resource and behind a change of what apt reads (`/etc/apt`), the version of a package that is still to be installed is
/// not known yet: the resource is deferred until then, within the same run. What an interrupted dpkg has left unconfigured is configured
/// by a resource of its own before it too (`dpkg --configure -a`). A name that apt does not know is an error of the plan, unless the
/// index is refreshed, or foreign code runs (a command, the scripts of a package), before it.
///
/// Resources of packages that are neighbours in a host's order, of one role or of several, are applied as one transaction, each with its own
/// result and its own records; nothing but packages may stand between them, whether it has something to do or not. A resource goes by itself
/// that changes a package which one before it in the transaction changes too, is sensitive, replaces a version which cannot be had again, reads
/// facts that packages may alter, or removes without `purge` next to one that purges; so does each where apt would not do at that moment what the plan says.
///
/// A version that is replaced or removed is kept on the host first, so that a rollback can bring it back. Where neither a
/// repository nor the host's cache has it any more, the plan says beforehand that the change cannot be undone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// One package or a list: `curl`, with an exact version `curl=7.88.1-10`, of a foreign architecture `libc6:i386`.
    name: Names,
    /// Whether they are installed.
    #[serde(default)]
    state: Installed,
    /// The exact version, where there is one name.
    version: Option<String>,
    /// Hold them at their version, or release them. What is held already stays held without it.
    hold: Option<bool>,
    /// An exact version that is older than the installed one is refused without it. What depends on it in both directions and
    /// has to go back too must be named with its version.
    #[serde(default)]
    allow_downgrade: bool,
    /// With `state: absent`: remove their configuration files too.
    #[serde(default)]
    purge: bool,
    /// The greatest age of the package index, in seconds, where something is to be installed or `state` is `latest`: an older one is
    /// refreshed first. Without it only an index that is not there is fetched.
    max_age: Option<u32>,
}

/// Whether a package is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Installed {
    /// It is installed, at any version.
    #[default]
    Present,
    /// It is not installed.
    Absent,
    /// It is installed at the newest version that the package index offers.
    Latest,
}

/// The host's answer for one resource: see `cv_plan_packages`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transaction {
    installed: Vec<(String, String)>,
    removed: Vec<String>,
    /// Packages that an earlier run of dpkg has left unconfigured.
    configured: Vec<String>,
    /// Removed packages that leave configuration files or scripts behind.
    leaves: BTreeSet<String>,
    /// Installed packages whose present version can be had again.
    offered: BTreeSet<String>,
    /// The reason why apt would not do it, and its exit status.
    errors: String,
    status: i32,
    /// The host's own architecture.
    arch: String,
    /// The package index and dpkg, as far as they were asked for.
    index: Option<String>,
    dpkg: Option<String>,
    /// Packages of about a name that apt does not know.
    near: BTreeMap<String, Vec<String>>,
    /// Every package of any transaction, as it is before this run.
    was: Vec<(ObjectId, State)>,
}

impl Transaction {
    /// Reads the part of one stage, from 0, and the part for all stages.
    fn parse(text: &str, stage: usize, index: &str) -> Self {
        let mut found = Self::default();
        let own = (stage + 1).to_string();
        let mut at = "";
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let name = || rest.to_owned();
            match word {
                "stage" => at = rest,
                "arch" => found.arch = name(),
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
                "near" => {
                    let mut words = rest.split(' ').filter(|w| !w.is_empty()).map(str::to_owned);
                    if let Some(name) = words.next() {
                        found.near.insert(name, words.collect());
                    }
                }
                "end" => found.status = rest.parse().unwrap_or(1),
                _ => {}
            }
        }
        found
    }

    /// The state of a package when the resource's turn comes: as earlier resources leave it, else as the answer showed it.
    fn now(&self, view: &dyn View, name: &str) -> Result<PackageState, Stop> {
        let id = package_id(name);
        match (view.raw(&id), self.was.iter().find(|(known, _)| *known == id)) {
            (Err(Stop::Ask(_)), Some((_, state))) => {
                PackageState::try_from(state.clone()).map_err(|error| Stop::Failed(format!("{id}: {error}")))
            }
            (now, _) => PackageState::try_from(now?).map_err(|error| Stop::Failed(format!("{id}: {error}"))),
        }
    }

    /// Packages whose present version is replaced or removed and cannot be had again.
    fn lost(&self, view: &dyn View, targets: &[(ObjectId, State)]) -> Result<Vec<(ObjectId, String)>, Stop> {
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

/// The setting by which the host goes on where an old version cannot be kept.
fn irreversible_setting(lost: &[(ObjectId, String)]) -> Vec<(String, String)> {
    if lost.is_empty() { Vec::new() } else { vec![("CV_IRREVERSIBLE".to_owned(), "yes".to_owned())] }
}

/// The read-only question what apt would do for all these resources.
fn simulation(stages: &[String]) -> Probe {
    let words: Vec<String> = stages.iter().map(|stage| quote(stage)).collect();
    Probe::Run { script: format!("{PLAN} {}", words.join(" ")), user: None, timeout: 180 }
}

/// Whether this question is asked by several resources together: it is another one when there are more of them.
pub fn asked_together(probe: &Probe) -> bool {
    matches!(probe, Probe::Run { script, .. } if script.starts_with(PLAN))
}

const PLAN: &str = "cv_plan_packages";

/// The one object of [`converge_objects::dpkg`].
const DPKG: &str = "packages";

/// `curl=1.0` as name and version.
fn split(spec: &str) -> (&str, Option<&str>) {
    match spec.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (spec, None),
    }
}

impl Package {
    /// Name, wanted version, and where it is written.
    fn specs(&self) -> Vec<(&str, Option<&str>, String)> {
        let one = self.name.0.len() == 1;
        let pointer = |i: usize| if one { "/name".to_owned() } else { format!("/name/{i}") };
        self.name
            .0
            .iter()
            .enumerate()
            .map(|(i, spec)| {
                let (name, version) = split(spec);
                (name, version.or(self.version.as_deref()), pointer(i))
            })
            .collect()
    }

    /// The key of the package index that will do.
    fn index(&self) -> String {
        self.max_age.map_or_else(|| "index".to_owned(), |seconds| format!("index:{seconds}"))
    }

    /// The host's answer for this resource. It is asked before anything else is known: the host omits what is installed already.
    fn simulate(&self, view: &dyn View) -> Result<Transaction, Stop> {
        let own = Resource::stage(self).unwrap_or_default();
        let (question, at) = match view.stages() {
            Some((all, at)) if all.get(at) == Some(&own) => (simulation(all), at),
            _ => (simulation(std::slice::from_ref(&own)), 0),
        };
        let answer = view.run(&question)?;
        if answer.status != 0 {
            return Err(Stop::Failed(format!("apt cannot be asked: {}", answer.stderr.trim())));
        }
        Ok(Transaction::parse(&answer.stdout, at, &self.index()))
    }

    /// The changes that must be made on the host before apt can simulate or make this transaction.
    fn first(&self, view: &dyn View, done: &Transaction) -> Result<(), Stop> {
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
        if self.state != Installed::Absent {
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

    /// The reason why apt would not do it.
    fn refused(&self, view: &dyn View, done: &Transaction) -> Stop {
        let said = done.errors.trim();
        for (name, version, pointer) in self.specs() {
            let own = format!(":{}", done.arch);
            if let Some(plain) = name.strip_suffix(own.as_str()).filter(|_| !done.arch.is_empty()) {
                return Stop::invalid_help(
                    &pointer,
                    format!("{} is this host's own architecture", done.arch),
                    format!("write it without: `{plain}`"),
                );
            }
            if let Some(providers) = providers(said, name) {
                return Stop::invalid_help(
                    &pointer,
                    format!("{name} is a virtual package: {} provide it", providers.join(" and ")),
                    "name one of them",
                );
            }
            let unknown = said.lines().any(|l| {
                l.ends_with(&format!("Unable to locate package {name}"))
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
                wait.reason = format!("apt offers no {what} now; {}", wait.reason);
                return Stop::Deferred(wait);
            }
            let near =
                done.near.get(name).and_then(|near| did_you_mean(name, near.iter().map(String::as_str)));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "correct it (`apt-cache policy` shows what is offered), add its repository in an item before \
                         (`apt_repository`), or have a stale package index refreshed with `max_age`"
                    .to_owned(),
            };
            return Stop::invalid_help(&pointer, format!("apt offers no {what} on this host"), help);
        }
        if said.contains("Held packages were changed") {
            return Stop::invalid_help(
                "/name",
                format!("apt would change held packages:\n{said}"),
                "declare the hold of the package (`hold: true`, or `hold: false` to release it)",
            );
        }
        Stop::Failed(format!("apt refuses the transaction:\n{said}"))
    }

    fn remove(&self, view: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<Wanted, Stop> {
        let goes: Vec<String> = self
            .specs()
            .into_iter()
            .filter(|(name, ..)| matches!(states.get(name), Some(PackageState::Present { .. })))
            .map(|(name, ..)| name.to_owned())
            .collect();
        let done = if goes.is_empty() { Transaction::default() } else { self.simulated(view)? };
        self.check_removals(view, &done, &goes)?;
        let mut targets = Vec::new();
        for (name, _, pointer) in self.specs() {
            let to = match states.get(name) {
                Some(PackageState::Present { hold: true, .. }) if self.hold != Some(false) => {
                    return Err(Stop::invalid_help(
                        &pointer,
                        format!("{name} is held"),
                        "add `hold: false` to remove it all the same",
                    ));
                }
                Some(PackageState::Present { version, .. }) if !self.purge && done.leaves.contains(name) => {
                    PackageState::Config { version: version.clone() }
                }
                Some(PackageState::Config { version }) if !self.purge => {
                    PackageState::Config { version: version.clone() }
                }
                _ => PackageState::Absent,
            };
            targets.push((package_id(name), to.into()));
        }
        let irreversible = done.lost(view, &targets)?;
        let settings = irreversible_setting(&irreversible);
        Ok(Wanted { targets, settings, irreversible, incidental: done.was, ..Wanted::default() })
    }

    /// The transaction that apt would make for this resource, which has something to change.
    fn simulated(&self, view: &dyn View) -> Result<Transaction, Stop> {
        let done = self.simulate(view)?;
        self.first(view, &done)?;
        let waits = |mut wait: Wait, what: &str| {
            wait.reason = format!("{what}; {}", wait.reason);
            Stop::Deferred(wait)
        };
        if let Some(wait) = view.changed(&ObjectId::new("dpkg", DPKG)) {
            return Err(waits(wait, "what apt would do is not known yet"));
        }
        let unknown = self.specs().into_iter().find_map(|(name, ..)| view.may_appear(&package_id(name)));
        if let Some(wait) = unknown.filter(|_| self.state != Installed::Absent) {
            return Err(waits(wait, "which version it has is not known yet"));
        }
        if done.status != 0 { Err(self.refused(view, &done)) } else { Ok(done) }
    }

    /// Refuses the removal of packages that was not asked for.
    fn check_removals(&self, view: &dyn View, done: &Transaction, asked: &[String]) -> Result<(), Stop> {
        let mut lost = Vec::new();
        let mut asks = Asks::default();
        for name in done.removed.iter().filter(|n| !asked.contains(n)) {
            // An earlier item may have removed it: the simulation shows the host as it is now.
            if let Some(PackageState::Present { .. }) = asks.take(done.now(view, name))? {
                lost.push(name.as_str());
            }
        }
        asks.finish()?;
        if lost.is_empty() {
            return Ok(());
        }
        let lost = lost.join(", ");
        let help = if self.state == Installed::Absent {
            format!("add what depends on it to `name`: {lost}")
        } else {
            format!("remove it in a resource before this one: `package: {{name: [{lost}], state: absent}}`")
        };
        Err(Stop::invalid_help("/name", format!("apt would also remove {lost}"), help))
    }

    fn install(&self, view: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<Wanted, Stop> {
        let right = self.specs().into_iter().all(|(name, version, _)| match (states.get(name), version) {
            (Some(PackageState::Present { version: now, .. }), Some(version)) => now == version,
            (Some(PackageState::Present { .. }), None) => self.state != Installed::Latest,
            _ => false,
        });
        let done = if right { Transaction::default() } else { self.simulated(view)? };
        self.check_removals(view, &done, &[])?;
        let named: BTreeSet<&str> = states.keys().copied().collect();
        let versions: BTreeMap<&str, &str> =
            done.installed.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let mut targets = Vec::new();
        let mut notes = Vec::new();
        let mut new = Vec::new();
        for (name, _, pointer) in self.specs() {
            let now = states.get(name);
            let (version, held) = match (versions.get(name), now) {
                (Some(version), Some(PackageState::Present { version: old, hold, .. })) => {
                    if *hold && self.hold.is_none() && old != version {
                        return Err(held_at(&pointer, name, old, version));
                    }
                    if compare(version, old) == Ordering::Less && !self.allow_downgrade {
                        return Err(Stop::invalid_help(
                            &pointer,
                            format!("{name} {old} is installed, and {version} is older"),
                            "add `allow_downgrade: true` to go back all the same",
                        ));
                    }
                    ((*version).to_owned(), *hold)
                }
                (None, Some(PackageState::Present { version, hold, .. })) => (version.clone(), *hold),
                (Some(version), _) => {
                    new.push(name);
                    ((*version).to_owned(), false)
                }
                (None, _) if name.strip_suffix(&format!(":{}", done.arch)).is_some() => {
                    return Err(self.refused(view, &done));
                }
                (None, _) => {
                    let help = match done.installed.first() {
                        Some((real, _)) => format!("name a real package; apt would install {real}"),
                        None => "name the real package".to_owned(),
                    };
                    return Err(Stop::invalid_help(
                        &pointer,
                        format!(
                            "apt would not install a package of the name {name}: other packages provide it"
                        ),
                        help,
                    ));
                }
            };
            let hold = self.hold.unwrap_or(held);
            targets.push((package_id(name), PackageState::Present { version, auto: false, hold }.into()));
        }
        targets.extend(self.along(view, &done, &named)?);
        if !new.is_empty() {
            notes.push(format!(
                "services of {} are not started by the installation: only `service` resources start them",
                new.join(", ")
            ));
        }
        let irreversible = done.lost(view, &targets)?;
        let settings = irreversible_setting(&irreversible);
        Ok(Wanted { targets, notes, settings, irreversible, incidental: done.was, ..Wanted::default() })
    }

    /// The packages that come along: dependencies, new or in another version.
    fn along(
        &self,
        view: &dyn View,
        done: &Transaction,
        named: &BTreeSet<&str>,
    ) -> Result<Vec<(ObjectId, State)>, Stop> {
        let mut asks = Asks::default();
        let mut targets = Vec::new();
        for (name, version) in done.installed.iter().filter(|(n, _)| !named.contains(n.as_str())) {
            let (auto, hold) = match asks.take(done.now(view, name))? {
                None => continue,
                Some(PackageState::Present { version: old, hold: true, .. }) if old != *version => {
                    return Err(held_at("/name", name, &old, version));
                }
                Some(PackageState::Present { version: old, .. })
                    if compare(version, &old) == Ordering::Less =>
                {
                    return Err(Stop::invalid_help(
                        "/name",
                        format!("apt would also take {name} back from {old} to {version}"),
                        format!("name it with its version, beside the others: `{name}={version}`"),
                    ));
                }
                Some(PackageState::Present { auto, hold, .. }) => (auto, hold),
                Some(PackageState::Broken { status }) => return Err(broken(name, &status)),
                Some(PackageState::Absent | PackageState::Config { .. }) => (true, false),
            };
            let to = PackageState::Present { version: version.clone(), auto, hold };
            targets.push((package_id(name), to.into()));
        }
        asks.finish()?;
        Ok(targets)
    }
}

fn held_at(pointer: &str, name: &str, old: &str, new: &str) -> Stop {
    Stop::invalid_help(
        pointer,
        format!("{name} is held at {old}, and this would change it to {new}"),
        format!(
            "declare it: `package: {{name: {name}={new}, hold: true}}`, or release it before with `hold: false`"
        ),
    )
}

/// A state that configuring does not end: the package must be unpacked again, or taken away by force.
fn broken(name: &str, status: &str) -> Stop {
    Stop::Failed(format!(
        "{name} is {status}: on the host, `apt-get install --reinstall {name}` puts it right, or \
         `dpkg --remove --force-remove-reinstreq {name}` takes it away"
    ))
}

/// Whether `dpkg --configure -a` ends this state.
fn is_unfinished(status: &str) -> bool {
    ["unpacked", "half-configured", "triggers-awaited", "triggers-pending"].contains(&status)
}

/// The packages that provide a virtual one, as apt names them.
fn providers(said: &str, name: &str) -> Option<Vec<String>> {
    let mut lines =
        said.lines().skip_while(|l| *l != format!("Package {name} is a virtual package provided by:"));
    lines.next()?;
    let words = lines.map_while(|l| l.strip_prefix("  ")).filter_map(|l| l.split(' ').next());
    let found: Vec<String> = words.map(str::to_owned).collect();
    (!found.is_empty()).then_some(found)
}

impl Resource for Package {
    const KIND: &'static str = "package";
    const EXAMPLE: &'static str = "\
- name: tools
  package:
    name: [curl, jq, chrony=4.3-2+deb12u1]
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        if self.name.0.is_empty() {
            wrong("/name", "the list of packages is empty".to_owned(), "name a package");
        }
        let mut before = BTreeSet::new();
        for (name, version, pointer) in self.specs() {
            let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.:".contains(&b);
            if name.len() < 2
                || !name.bytes().all(good)
                || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
            {
                wrong(
                    &pointer,
                    format!("`{name}` is not the name of a package"),
                    "write it as `curl` or `curl=7.88.1-10`",
                );
            }
            let fits = |v: &str| {
                !v.is_empty() && v.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:".contains(&b))
            };
            if let Some(version) = version.filter(|v| !fits(v)) {
                wrong(
                    &pointer,
                    format!("`{version}` is not an exact version"),
                    "write the whole version, as `7.88.1-10+deb12u5`",
                );
            }
            if !before.insert(name) {
                wrong(&pointer, format!("{name} is named twice"), "name each package once");
            }
        }
        let pinned = self.version.is_some() || self.name.0.iter().any(|n| n.contains('='));
        if self.version.is_some() && (self.name.0.len() != 1 || self.name.0.iter().any(|n| n.contains('='))) {
            wrong(
                "/version",
                "`version` needs one name without a version".to_owned(),
                "write `name: [a=1.0, b=2.0]`",
            );
        }
        if pinned && self.state != Installed::Present {
            wrong(
                "/state",
                "a version is given, so the state is `present`".to_owned(),
                "leave one of them out",
            );
        }
        if self.purge && self.state != Installed::Absent {
            wrong("/purge", "`purge` goes with `state: absent`".to_owned(), "leave it out");
        }
        if self.allow_downgrade && !pinned {
            wrong(
                "/allow_downgrade",
                "`allow_downgrade` goes with an exact version".to_owned(),
                "give the `version`, or leave it out",
            );
        }
        if self.max_age.is_some() && self.state == Installed::Absent {
            wrong("/max_age", "`max_age` goes with what is installed".to_owned(), "leave it out");
        }
        if self.hold == Some(true) && self.state == Installed::Absent {
            wrong("/hold", "what is absent cannot be held".to_owned(), "leave `hold` out");
        }
        errors
    }

    /// Dependencies are not claimed: only the simulation knows them. They are targets of the plan all the same.
    fn claims(&self) -> Vec<Claim> {
        let presence = if self.state == Installed::Absent { "absent" } else { "present" };
        let mut claims = Vec::new();
        for (name, version, _) in self.specs() {
            let id = package_id(name);
            claims.push(Claim::shared(id.clone(), "presence", presence));
            let version = if self.state == Installed::Latest { Some("latest") } else { version };
            if let Some(version) = version {
                claims.push(Claim::shared(id.clone(), "version", version));
            }
            if let Some(hold) = self.hold {
                claims.push(Claim::shared(id, "hold", hold.to_string()));
            }
        }
        claims
    }

    fn stage(&self) -> Option<String> {
        let state = match self.state {
            Installed::Present => "present",
            Installed::Latest => "latest",
            Installed::Absent => "absent",
        };
        let mut flags = String::from("-");
        if self.hold.is_some() {
            flags.push('h');
        }
        if self.purge {
            flags.push('p');
        }
        let specs = self.specs().into_iter();
        let names: Vec<String> = specs
            .map(|(name, version, _)| version.map_or_else(|| name.to_owned(), |v| format!("{name}={v}")))
            .collect();
        Some(format!("{state} {flags} {} {}", self.index(), names.join(" ")))
    }

    fn plan(&self, view: &dyn View) -> Result<Wanted, Stop> {
        let mut asks = Asks::default();
        let mut states = BTreeMap::new();
        for (name, ..) in self.specs() {
            match asks.take(package(view, name))? {
                Some(PackageState::Broken { status }) if !is_unfinished(&status) => {
                    return Err(broken(name, &status));
                }
                Some(state) => {
                    states.insert(name, state);
                }
                None => {}
            }
        }
        // With their states travels what apt would do; where nothing is to be done the host does not ask it.
        asks.take(self.simulate(view))?;
        asks.finish()?;
        match self.state {
            Installed::Absent => self.remove(view, &states),
            Installed::Present | Installed::Latest => self.install(view, &states),
        }
    }
}

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
