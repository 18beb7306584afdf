//! `package`

use crate::look::{Asks, package, package_id};
use crate::names::Names;
use converge_objects::PackageState;
use converge_objects::deb_version::compare;
use converge_resource::{
    Claim, ObjectId, ParamError, Probe, Resource, RunAnswer, State, Stop, View, Wanted, quote,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Packages of Debian and Ubuntu, installed or removed in one transaction.
///
/// The plan lists the whole transaction, as `apt-get -s` shows it: every dependency that comes along is in it with its exact
/// version, and recommended packages are not. Nothing is removed and no held package changes unless an item says so. A
/// package that is there is left at its version, unless `version` or `state: latest` says otherwise.
///
/// The services of a new package are not started by its installation: add a `service` item with `state: started`.
/// Lists of packages are not refreshed, but for those of an `apt_repository` item. Where one comes before in the same run, the
/// version of a package that is still to be installed is not known yet: the item is deferred until the lists are there.
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
    /// It is installed at the newest version that the lists of packages offer.
    Latest,
}

/// What `apt-get -s` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transaction {
    installed: Vec<(String, String)>,
    removed: Vec<String>,
    /// Removed packages that leave configuration files or scripts behind.
    leaves: BTreeSet<String>,
    /// Installed packages whose present version can be had again.
    offered: BTreeSet<String>,
}

impl Transaction {
    /// Reads the lines of `cv_simulate_package`, and `leaves NAME` of our own.
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["inst", name, version] => found.installed.push(((*name).to_owned(), (*version).to_owned())),
                ["remv", name] if !found.removed.iter().any(|n| n == name) => {
                    found.removed.push((*name).to_owned())
                }
                ["leaves", name] => {
                    found.leaves.insert((*name).to_owned());
                }
                ["offered", name] => {
                    found.offered.insert((*name).to_owned());
                }
                _ => {}
            }
        }
        found
    }

    /// Packages whose present version is replaced or removed and cannot be had again.
    fn lost(&self, seen: &dyn View, targets: &[(ObjectId, State)]) -> Result<Vec<(ObjectId, String)>, Stop> {
        let mut lost = Vec::new();
        for (id, to) in targets.iter().filter(|(id, _)| !self.offered.contains(&id.key)) {
            let PackageState::Present { version, .. } = package(seen, &id.key)? else { continue };
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

/// The read-only question what apt would do, asked as the package object's steps will ask it.
fn simulation(options: &str, requests: &[String], removed: &[String]) -> Probe {
    let words = |list: &[String]| list.iter().map(|r| quote(r)).collect::<Vec<_>>().join(" ");
    let mut script = format!(
        "out=$(cv_simulate_package {INSTALL} {options}{}) || exit $?\nprintf '%s\\n' \"$out\"\n\
         cv_offered_package $(printf '%s\\n' \"$out\" | sed -n 's/^inst \\([^ ]*\\) .*/\\1/p; s/^remv //p') | sed 's/^/offered /'\n",
        words(requests)
    );
    if removed.is_empty() {
        script = format!(
            "set -- /var/lib/apt/lists/*_Packages*\n[ -e \"$1\" ] || {{ echo 'no package lists' >&2; exit 72; }}\n{script}"
        );
    } else {
        // dpkg forgets a removed package at once unless it has configuration files or a postrm script.
        script.push_str(&format!(
            "for p in {}; do\n  if [ -n \"$(dpkg-query -W -f '${{Conffiles}}' \"$p\" 2>/dev/null)\" ] || \
             [ -n \"$(dpkg-query -c \"$p\" postrm 2>/dev/null)\" ]; then echo \"leaves $p\"; fi\ndone\n",
            words(removed)
        ));
    }
    Probe::run(script)
}

const INSTALL: &str = "install --allow-downgrades";
const HELD: &str = "--allow-change-held-packages ";

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

    fn simulate(&self, seen: &dyn View, question: &Probe) -> Result<Transaction, Stop> {
        let answer = seen.run(question)?;
        if answer.status == 0 {
            return Ok(Transaction::parse(&answer.stdout));
        }
        Err(self.refused(seen, &answer))
    }

    /// Why apt would not do it.
    fn refused(&self, seen: &dyn View, answer: &RunAnswer) -> Stop {
        let said = answer.stderr.trim();
        if answer.status == 72 {
            return match seen.pending() {
                Some(mut wait) => {
                    wait.reason = format!("this host has no lists of packages yet; {}", wait.reason);
                    Stop::Deferred(wait)
                }
                None => Stop::invalid_help(
                    "",
                    "this host has no lists of packages, so apt knows no package",
                    "run `apt-get update` before, with a `command` item: \
                     `unless: ls /var/lib/apt/lists/*_Packages*`",
                ),
            };
        }
        for (name, version, pointer) in self.specs() {
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
            if let Some(mut wait) = seen.pending() {
                wait.reason = format!("apt offers no {what} now; {}", wait.reason);
                return Stop::Deferred(wait);
            }
            return Stop::invalid_help(
                &pointer,
                format!("apt offers no {what} on this host"),
                "correct it (`apt-cache policy` shows what is offered), or add its repository and `apt-get update` \
                 in items before",
            );
        }
        if said.contains("Held packages were changed") {
            return Stop::invalid_help(
                "/name",
                format!("apt would change held packages:\n{said}"),
                "declare the hold of the package (`hold: true`, or `hold: false` to release it)",
            );
        }
        if said.contains("dpkg was interrupted") {
            return Stop::Failed(format!("{said}\nMend it on the host with `dpkg --configure -a`."));
        }
        Stop::Failed(format!("apt refuses the transaction:\n{said}"))
    }

    fn remove(&self, seen: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<Wanted, Stop> {
        let goes: Vec<String> = self
            .specs()
            .into_iter()
            .filter(|(name, ..)| matches!(states.get(name), Some(PackageState::Present { .. })))
            .map(|(name, ..)| name.to_owned())
            .collect();
        let done =
            if goes.is_empty() { Transaction::default() } else { self.simulate(seen, &self.removal(&goes))? };
        self.check_removals(seen, &done, &goes)?;
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
        let irreversible = done.lost(seen, &targets)?;
        let settings = irreversible_setting(&irreversible);
        Ok(Wanted { targets, settings, irreversible, ..Wanted::default() })
    }

    /// What apt would do to take these away.
    fn removal(&self, names: &[String]) -> Probe {
        let requests: Vec<String> = names.iter().map(|n| format!("{n}-")).collect();
        let purge = if self.purge { "--purge " } else { "" };
        let held = if self.hold.is_some() { HELD } else { "" };
        simulation(&format!("{held}{purge}"), &requests, names)
    }

    /// Refuses that a package goes which nobody asked to go.
    fn check_removals(&self, seen: &dyn View, done: &Transaction, asked: &[String]) -> Result<(), Stop> {
        let mut lost = Vec::new();
        let mut asks = Asks::default();
        for name in done.removed.iter().filter(|n| !asked.contains(n)) {
            // An earlier item may have removed it: the simulation shows the host as it is now.
            if let Some(PackageState::Present { .. }) = asks.take(package(seen, name))? {
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
            format!("remove it in an item before this one: `package: {{name: [{lost}], state: absent}}`")
        };
        Err(Stop::invalid_help("/name", format!("apt would also remove {lost}"), help))
    }

    fn install(&self, seen: &dyn View, states: &BTreeMap<&str, PackageState>) -> Result<Wanted, Stop> {
        let mut requests = Vec::new();
        for (name, version, _) in self.specs() {
            let right = match (states.get(name), version) {
                (Some(PackageState::Present { version: now, .. }), Some(version)) => now == version,
                (Some(PackageState::Present { .. }), None) => self.state != Installed::Latest,
                _ => false,
            };
            if !right {
                requests.push(version.map_or_else(|| name.to_owned(), |v| format!("{name}={v}")));
            }
        }
        let unknown = self.specs().into_iter().find_map(|(name, ..)| seen.may_appear(&package_id(name)));
        if let Some(mut wait) = unknown.filter(|_| !requests.is_empty()) {
            wait.reason = format!("which version it has is not known yet; {}", wait.reason);
            return Err(Stop::Deferred(wait));
        }
        let options = if self.hold.is_some() { HELD } else { "" };
        let done = if requests.is_empty() {
            Transaction::default()
        } else {
            self.simulate(seen, &simulation(options, &requests, &[]))?
        };
        self.check_removals(seen, &done, &[])?;
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
        targets.extend(self.along(seen, &done, &named)?);
        if !new.is_empty() {
            notes.push(format!(
                "services of {} are not started by the installation: only `service` items start them",
                new.join(", ")
            ));
        }
        let irreversible = done.lost(seen, &targets)?;
        let settings = irreversible_setting(&irreversible);
        Ok(Wanted { targets, notes, settings, irreversible, ..Wanted::default() })
    }

    /// What comes along: dependencies, new or at another version.
    fn along(
        &self,
        seen: &dyn View,
        done: &Transaction,
        named: &BTreeSet<&str>,
    ) -> Result<Vec<(ObjectId, State)>, Stop> {
        let mut asks = Asks::default();
        let mut targets = Vec::new();
        for (name, version) in done.installed.iter().filter(|(n, _)| !named.contains(n.as_str())) {
            let (auto, hold) = match asks.take(package(seen, name))? {
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

fn broken(name: &str, status: &str) -> Stop {
    Stop::Failed(format!("{name} is {status}: mend it on the host with `dpkg --configure -a`"))
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

    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop> {
        let mut asks = Asks::default();
        let mut states = BTreeMap::new();
        for (name, ..) in self.specs() {
            match asks.take(package(seen, name))? {
                Some(PackageState::Broken { status }) => return Err(broken(name, &status)),
                Some(state) => {
                    states.insert(name, state);
                }
                None => {}
            }
        }
        asks.finish()?;
        match self.state {
            Installed::Absent => self.remove(seen, &states),
            Installed::Present | Installed::Latest => self.install(seen, &states),
        }
    }
}

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
