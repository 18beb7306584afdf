//! `package`

mod dnf;
mod transaction;

use crate::look::{Asks, package, package_id};
use crate::names::Names;
use converge_objects::PackageState;
use converge_resource::{Claim, ObjectId, ParamError, Resource, State, Stop, View, Wait, WantedStates};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
pub use transaction::asked_together;
use transaction::{DPKG, HALF_INSTALLED, Transaction, broken, held_at, is_unfinished, settings, simulation};

/// Packages of Debian and Ubuntu (apt), and of RPM systems (dnf 4), installed or removed in one transaction.
///
/// The plan lists the whole transaction, as `apt-get -s` shows it: every dependency that comes along is in it with its exact
/// version, and recommended packages are not, unless `recommends` says so. Nothing is removed and no held package changes unless a resource says so. A
/// package that is there is left at its version, unless `version` or `state: latest` says otherwise.
///
/// The services of a new package are not started by its installation: add a `service` resource with `state: started`, or write
/// `starts_services: true` to have them started as the distribution does.
///
/// All package resources of a host are simulated together, each over what those before it leave, in one question that changes nothing.
/// Where something is to be installed and the host has no package index (a fresh cloud or container image), a package source has none
/// yet, or the index is older than `max_age`, the plan has `apt-get update` as a resource of its own before it. Behind that, behind an
/// `apt_repository` or `rpm_repository` resource and behind a change of what apt or dnf read (`/etc/apt`, `/etc/yum.repos.d`), the version of a package that is still to be installed is
/// not known yet: the resource is deferred until then, within the same run. What an interrupted dpkg has left unconfigured is configured
/// by a resource of its own before it too (`dpkg --configure -a`), and a removal that was cut off is ended: apt removes such a package with whatever else
/// it does. A name that apt does not know is an error of the plan, unless the
/// index is refreshed, or foreign code runs (a command, the scripts of a package), before it.
///
/// Resources of packages that are neighbours in a host's order, of one role or of several, are applied as one transaction, each with its own
/// result and its own records; nothing but packages may stand between them, whether it has something to do or not. A resource goes by itself
/// that changes a package which one before it in the transaction changes too, starts services, is sensitive, replaces a version which cannot be had again, reads
/// facts that packages may alter, or removes without `purge` next to one that purges; so does each where apt would not do at that moment what the plan says.
///
/// A version that is replaced or removed is kept on the host first, so that a rollback can bring it back. Where neither a
/// repository nor the host's cache has it any more, the plan says beforehand that the change cannot be undone.
///
/// On hosts with dnf 4 (RHEL, Rocky, Alma, Amazon Linux 2023) dnf itself resolves all package resources of a host over the metadata that is there,
/// which changes no package, and the transaction begins only where it is the planned one; metadata that is missing is fetched before, as the index of apt.
/// A version is `VERSION-RELEASE`, or `EPOCH:VERSION-RELEASE`; a package that replaces another one by its name (`Obsoletes`) is named itself. Edited
/// configuration files are left beside the package's, or put aside, as rpm does (`.rpmnew`, `.rpmsave`, `.rpmorig`), which `-v` shows. The configuration files
/// of packages that change, and what lies beside them, are kept with the run: a rollback brings each back, with owner and mode, unless it was changed since. So it
/// does with services of packages: they are enabled and active as before, though scripts of a package may start one for a moment; where it reverts several runs at
/// once (`--to`), it does so for the last of them. A scriptlet that fails without failing its package is shown by `-v` alone.
/// `hold` is a line in the list of dnf's plugin versionlock (`python3-dnf-plugin-versionlock`), without which it is refused; a lock that somebody has written there counts as a hold, and one
/// by a pattern is not released. Packages that are kept in several versions (kernels) are refused, `purge` has no meaning, and services start as the packages say. A plan
/// calls every removal a `purge`, and the fetching of metadata `apt-get update`. A package of which a dnf that was killed has left two versions is an error until
/// `dnf remove --duplicates` has run on the host; so is one that `excludepkgs` excludes. With `localpkg_gpgcheck` a rollback installs no unsigned packages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// One package or a list: `curl`, with an exact version `curl=7.88.1-10`, of a foreign architecture `libc6:i386`.
    name: Names,
    /// Whether they are installed.
    #[serde(default)]
    state: PackagePresence,
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
    /// Whether recommended packages come along with what is installed. A package that is there already brings none.
    #[serde(default)]
    recommends: RecommendedPackages,
    /// Let the installation start the services of new packages, where the host's own policy does not forbid it.
    #[serde(default)]
    starts_services: bool,
}

/// Whether recommended packages come along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecommendedPackages {
    /// They do not.
    #[default]
    Never,
    /// They do.
    Always,
    /// As the settings of apt on the host say: they do where nothing is set.
    AsConfigured,
}

/// Whether a package is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackagePresence {
    /// It is installed, at any version.
    #[default]
    Present,
    /// It is not installed.
    Absent,
    /// It is installed at the newest version that the package index offers.
    Latest,
}

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
            return Err(Stop::Failed(format!(
                "what is to be done for packages cannot be asked: {}",
                answer.stderr.trim()
            )));
        }
        Ok(Transaction::parse(&answer.stdout, at, &self.index()))
    }

    fn remove(&self, view: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<WantedStates, Stop> {
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
                        "add `hold: false` to remove it anyway",
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
        let settings = settings(&irreversible, &done, self.stage());
        Ok(WantedStates { targets, settings, irreversible, incidental: done.was, ..WantedStates::default() })
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
        if let Some(wait) = unknown.filter(|_| self.state != PackagePresence::Absent) {
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
        let help = if self.state == PackagePresence::Absent {
            format!("add what depends on it to `name`: {lost}")
        } else {
            format!("remove it in a resource before this one: `package: {{name: [{lost}], state: absent}}`")
        };
        Err(Stop::invalid_help("/name", format!("{} would also remove {lost}", done.manager), help))
    }

    fn install(&self, view: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<WantedStates, Stop> {
        let right = self.specs().into_iter().all(|(name, version, _)| match (states.get(name), version) {
            (Some(PackageState::Present { version: now, .. }), Some(version)) => now == version,
            (Some(PackageState::Present { .. }), None) => self.state != PackagePresence::Latest,
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
                    if done.is_older(name, version, old) && !self.allow_downgrade {
                        return Err(Stop::invalid_help(
                            &pointer,
                            format!("{name} {old} is installed, and {version} is older"),
                            "add `allow_downgrade: true` to go back anyway",
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
                        Some((real, _)) => {
                            format!("name a real package; {} would install {real}", done.manager)
                        }
                        None => "name the real package".to_owned(),
                    };
                    return Err(Stop::invalid_help(
                        &pointer,
                        format!(
                            "{} would not install a package of the name {name}: other packages provide it",
                            done.manager
                        ),
                        help,
                    ));
                }
            };
            let hold = self.hold.unwrap_or(held);
            targets.push((package_id(name), PackageState::Present { version, auto: false, hold }.into()));
        }
        targets.extend(self.along(view, &done, &named)?);
        if !new.is_empty() && done.manager != transaction::DNF {
            let new = new.join(", ");
            notes.push(if self.starts_services {
                format!("the installation starts services of {new}, as the packages say")
            } else {
                format!("services of {new} are not started by the installation: only `service` resources start them")
            });
        }
        let irreversible = done.lost(view, &targets)?;
        let mut settings = settings(&irreversible, &done, self.stage());
        if self.starts_services {
            settings.push(("CV_SERVICES".to_owned(), "start".to_owned()));
        }
        let wanted = WantedStates { targets, notes, settings, ..WantedStates::default() };
        Ok(WantedStates { irreversible, incidental: done.was, ..wanted })
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
                Some(PackageState::Present { version: old, .. }) if done.is_older(name, version, &old) => {
                    return Err(Stop::invalid_help(
                        "/name",
                        format!("{} would also take {name} back from {old} to {version}", done.manager),
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
            // Names of rpm may have capitals and underscores.
            let good = |b: u8| b.is_ascii_alphanumeric() || b"+-.:_".contains(&b);
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
                !v.is_empty() && v.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:_^".contains(&b))
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
        if pinned && self.state != PackagePresence::Present {
            wrong(
                "/state",
                "a version is given, so the state is `present`".to_owned(),
                "leave one of them out",
            );
        }
        if self.purge && self.state != PackagePresence::Absent {
            wrong("/purge", "`purge` goes with `state: absent`".to_owned(), "leave it out");
        }
        if self.allow_downgrade && !pinned {
            wrong(
                "/allow_downgrade",
                "`allow_downgrade` goes with an exact version".to_owned(),
                "give the `version`, or leave it out",
            );
        }
        if self.max_age.is_some() && self.state == PackagePresence::Absent {
            wrong("/max_age", "`max_age` goes with what is installed".to_owned(), "leave it out");
        }
        for (name, given) in [
            ("recommends", self.recommends != RecommendedPackages::Never),
            ("starts_services", self.starts_services),
        ] {
            if given && self.state == PackagePresence::Absent {
                wrong(&format!("/{name}"), format!("`{name}` goes with what is installed"), "leave it out");
            }
        }
        if self.hold == Some(true) && self.state == PackagePresence::Absent {
            wrong("/hold", "what is absent cannot be held".to_owned(), "leave `hold` out");
        }
        errors
    }

    /// Dependencies are not claimed: only the simulation knows them. They are still targets of the plan.
    fn claims(&self) -> Vec<Claim> {
        let presence = if self.state == PackagePresence::Absent { "absent" } else { "present" };
        let mut claims = Vec::new();
        for (name, version, _) in self.specs() {
            let id = package_id(name);
            claims.push(Claim::shared(id.clone(), "presence", presence));
            let version = if self.state == PackagePresence::Latest { Some("latest") } else { version };
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
            PackagePresence::Present => "present",
            PackagePresence::Latest => "latest",
            PackagePresence::Absent => "absent",
        };
        let mut flags = String::from("-");
        if self.hold.is_some() {
            flags.push('h');
        }
        if self.purge {
            flags.push('p');
        }
        match self.recommends {
            RecommendedPackages::Never => {}
            RecommendedPackages::Always => flags.push('r'),
            RecommendedPackages::AsConfigured => flags.push('c'),
        }
        let specs = self.specs().into_iter();
        let names: Vec<String> = specs
            .map(|(name, version, _)| version.map_or_else(|| name.to_owned(), |v| format!("{name}={v}")))
            .collect();
        Some(format!("{state} {flags} {} {}", self.index(), names.join(" ")))
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut asks = Asks::default();
        let mut states = BTreeMap::new();
        let mut half_installed = Vec::new();
        for (name, ..) in self.specs() {
            match asks.take(package(view, name))? {
                Some(PackageState::Broken { status }) if status == HALF_INSTALLED => {
                    half_installed.push(name);
                }
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
        let reply = asks.take(self.simulate(view))?.unwrap_or_default();
        asks.finish()?;
        self.fits(view, &reply)?;
        self.check_half_installed(&half_installed, &reply)?;
        match self.state {
            PackagePresence::Absent => self.remove(view, &states),
            PackagePresence::Present | PackagePresence::Latest => self.install(view, &states),
        }
    }
}

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
